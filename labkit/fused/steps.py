"""Steps of the stream whose addition and norm are one kernel.

Post-Norm and its relatives normalize the sum they make: one kernel inside the step. Steps that
end in x + write leave the norm to the step that follows. `fuse` tells them which norm that is
(`follower`); they normalize the sum as they make it and lay the result beside it in the context,
where `labkit.context.normalize` finds it. What is passed on is the plain sum, a tensor like any
other, and the norm's module is still called, so that hooks see what they always saw.

    equation        kernel                                    bytes saved for each value
    N(x + f(x))     add_rms_norm, add_layer_norm              the sum is not read again
    x + f(N(x))     the same, with the next step's norm       the sum is not read again
    N(α·x + f(x))   deep_norm                                 neither α·x nor the sum is
    ngpt            ngpt_update                               six passes become one
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from labkit import placements
from labkit.context import Context, normalize, version_of
from labkit.fused.norms import FusedLayerNorm, sum_norm
from labkit.fused.seam import kernels, takes
from labkit.model import Transformer
from labkit.placements.sphere import SphereStep, unit_rows_
from labkit.placements.step import Map, Step


class _Adding(Step):
    """A step that ends in stream + write, with the norm of the step that follows made on the way.

    `follower` holds that norm in a tuple, so that it is not registered as a part of this module.
    """

    follower: tuple[nn.Module, ...] = ()
    parts: Callable[..., tuple[Tensor, Tensor]]  # the two summands; called as `step` is

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Move the stream through the sublayer."""
        f = self.sublayer if context is None else partial(self.sublayer, context=context)
        norms = [partial(normalize, getattr(self, name), context=context) for name in self.norms]
        stream, write = self.parts(x, f, *norms)
        both = None
        if self.follower and context is not None:
            both = sum_norm(self.follower[0], write, stream)
        if both is None or context is None:
            return stream + write
        ready, total = both
        context.ready[self.follower[0]] = (total, version_of(total), ready)
        return total


class FusedNoNorm(_Adding, placements.NoNorm):
    """x + f(x)."""

    def parts(self, x: Tensor, f: Map) -> tuple[Tensor, Tensor]:
        """Give the stream and the write."""
        return x, f(x)


class FusedPreNorm(_Adding, placements.PreNorm):
    """x + f(N(x))."""

    def parts(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Give the stream and the write."""
        return x, f(N(x))


class FusedOutputNorm(_Adding, placements.OutputNorm):
    """x + N(f(x))."""

    def parts(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Give the stream and the normalized write."""
        return x, N(f(x))


class FusedSandwichNorm(_Adding, placements.SandwichNorm):
    """x + M(f(N(x)))."""

    def parts(self, x: Tensor, f: Map, N: Map, M: Map) -> tuple[Tensor, Tensor]:
        """Give the stream and the normalized write."""
        return x, M(f(N(x)))


class FusedStreamNorm(_Adding, placements.StreamNorm):
    """N(x) + f(N(x))."""

    def parts(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Give the normalized stream and the write."""
        z = N(x)
        return z, f(z)


class FusedLayerNormScaling(_Adding, placements.LayerNormScaling):
    """x + f(N(x) / √ℓ)."""

    def parts(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Give the stream and the write."""
        return x, f(N(x) / self.number**0.5)


class FusedPostNorm(placements.PostNorm):
    """N(x + f(x)) in one kernel."""

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Move the stream through the sublayer."""
        write = self.sublayer(x) if context is None else self.sublayer(x, context=context)
        both = sum_norm(self.get_submodule("norm"), write, x)
        return self._normalized(x + write, context) if both is None else self._called(both)

    def _normalized(self, total: Tensor, context: Context | None) -> Tensor:
        return normalize(self.get_submodule("norm"), total, context)

    def _called(self, both: tuple[Tensor, Tensor]) -> Tensor:
        ready, total = both
        return self.get_submodule("norm")(total, ready=ready)


class FusedDeepNorm(placements.DeepNorm):
    """LN(α·x + f(x)) in one kernel."""

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Move the stream through the sublayer."""
        write = self.sublayer(x) if context is None else self.sublayer(x, context=context)
        norm: Any = self.get_submodule("norm")
        whole = isinstance(norm, FusedLayerNorm) and norm.normalized_shape == x.shape[-1:]
        whole = whole and not (norm._forward_hooks or norm._forward_pre_hooks)  # who see the sum
        if not (whole and write.dtype == x.dtype and takes(x, write, norm.weight, norm.bias)):
            return normalize(norm, self.alpha * x + write, context)
        return kernels().deep_norm(x, write, self.alpha, norm.weight, norm.bias, norm.eps)


class FusedSphereStep(SphereStep):
    """unit(x + |α| ⊙ (unit(f(x)) − x)) in one kernel."""

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Turn the stream towards what the sublayer proposes."""
        write, alpha = f(x), self.alpha()
        if write.dtype != x.dtype or not takes(x, write, alpha):
            return super().step(x, lambda _: write)
        return kernels().ngpt_update(x, write, alpha)


class FusedTransformer(Transformer):
    """A model whose weights, where they live on spheres, are brought back to them by a kernel."""

    @staticmethod
    def unit_rows_(weight: Tensor, dim: int) -> Tensor:
        """Give every vector of a matrix length 1, in place."""
        return kernels().unit_rows_(weight, dim) if takes(weight) else unit_rows_(weight, dim)


FUSED: dict[type[nn.Module], type[nn.Module]] = {
    Transformer: FusedTransformer,
    placements.NoNorm: FusedNoNorm,
    placements.PreNorm: FusedPreNorm,
    placements.OutputNorm: FusedOutputNorm,
    placements.SandwichNorm: FusedSandwichNorm,
    placements.StreamNorm: FusedStreamNorm,
    placements.LayerNormScaling: FusedLayerNormScaling,
    placements.PostNorm: FusedPostNorm,
    placements.DeepNorm: FusedDeepNorm,
    SphereStep: FusedSphereStep,
}

# Steps that begin with their norm of the stream: what a step before them may prepare.
_READERS = (
    placements.PreNorm,
    placements.SandwichNorm,
    placements.StreamNorm,
    placements.LayerNormScaling,
    placements.Keel,
    placements.ResidualScale,
    placements.ResNetV2,
)


def link(steps: list[Step], final: nn.Module | None) -> None:
    """Tell each step of a stack which norm comes next, where that is known."""
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if not isinstance(step, _Adding):
            continue
        norm = final if after is None else None
        if isinstance(after, _READERS):
            norm = after.get_submodule("norm")
        step.follower = () if norm is None else (norm,)
