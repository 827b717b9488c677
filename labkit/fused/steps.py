"""Steps of the stream that compute addition and norm in one kernel.

Post-Norm and related steps normalize their own sum: one kernel inside the step. Steps that end in x
+ write leave the norm to the next step. `fuse` stores that norm in `follower`; the step normalizes
the sum as it computes it and stores the result in the context, where `labkit.context.apply_norm`
finds it. The step passes on the plain sum, an ordinary tensor. A norm that has hooks is called as
usual, so that its hooks run.

    equation        kernel
    N(x + f(x))     add_rms_norm, add_layer_norm: the sum is not read again
    x + f(N(x))     the same, with the next step's norm
    x + M(f(x))     rms_norm_add; rms_norm_add_norm with the next step's norm
    N(α·x + f(x))   deep_norm: neither α·x nor the sum is read again
    ngpt            ngpt_update
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from labkit import placements
from labkit.context import Context, apply_norm
from labkit.fused.norms import FusedLayerNorm
from labkit.fused.seam import accepts_tensors, get_kernels, is_plain
from labkit.fused.sums import KERNELS, sum_norm, sum_norms
from labkit.model import Transformer
from labkit.placements.sphere import SphereStep, unit_rows_
from labkit.placements.step import Map, Step


class _Adding(Step):
    """A step that ends in stream + write and computes the next norm in the same kernel.

    `follower` locates that norm: its owner, its name there, and whether it is in a different block.
    It is a tuple, so that the owner is not registered as a submodule.
    """

    follower: tuple[nn.Module, str, bool] | None = None
    inner = ""  # the name of the step's norm of the second summand, if it has one
    compute_terms: Callable[..., tuple[Tensor, Tensor]]  # the summands, before `inner`

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Update the stream with the sublayer."""
        f = self.sublayer if context is None else partial(self.sublayer, context=context)
        norms = [partial(apply_norm, getattr(self, name), context=context) for name in self.norms]
        stream, write = self.compute_terms(x, f, *norms)
        inner = getattr(self, self.inner) if self.inner else None
        plain, norm, both = context is not None and is_plain(self), None, None
        if plain and self.follower is not None:
            norm = getattr(*self.follower[:2])
        if inner is not None:
            both = sum_norms(inner, norm, write, stream) if plain else None
            write = apply_norm(inner, write, context) if both is None else write
        if both is None:
            both = None if norm is None else sum_norm(norm, write, stream)
        if both is None:
            return stream + write
        result, total = both
        if result is not None:
            assert context is not None and norm is not None and self.follower is not None
            elsewhere = self.follower[2]
            context.ready[norm] = Ready(
                context, norm, total, count_changes(total), result, elsewhere
            )
        return total

    def has_kernel(self) -> bool:
        """Return whether a kernel computes the sum, with the next norm or with the step's own."""
        inner = KERNELS.get(type(getattr(self, self.inner))) if self.inner else None
        return self.follower is not None or inner not in (None, "layer_norm")


@dataclass(frozen=True)
class Ready:
    """A normalized stream that was computed together with the stream."""

    context: Context
    norm: nn.Module  # that it replaces
    stream: Tensor
    changes: int  # in-place changes of the stream so far
    result: Tensor
    stays: bool  # a checkpointed block that reads it is run twice, and must find it again

    def __call__(self, x: Tensor) -> Tensor | None:
        """Return the norm of x if x is this stream, unchanged; else None."""
        if not (self.stays and torch.is_grad_enabled()):
            # Used once, because keeping it longer would keep its memory.
            del self.context.ready[self.norm]
        # Reentrant checkpointing computes both without a tape; only the stream gets a gradient.
        taped = self.result.requires_grad or not x.requires_grad
        if self.stream is x and count_changes(x) == self.changes and taped:
            return self.result
        return None


def count_changes(x: Tensor) -> int:
    """Return how often x was changed in place (0 for inference tensors, which do not count)."""
    return 0 if x.is_inference() else x._version


class FusedNoNorm(_Adding, placements.NoNorm):
    """x + f(x)."""

    def compute_terms(self, x: Tensor, f: Map) -> tuple[Tensor, Tensor]:
        """Return the stream and the sublayer's output."""
        return x, f(x)


class FusedPreNorm(_Adding, placements.PreNorm):
    """x + f(N(x))."""

    def compute_terms(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Return the stream and the sublayer's output."""
        return x, f(N(x))


class FusedOutputNorm(_Adding, placements.OutputNorm):
    """x + N(f(x))."""

    inner = "norm"

    def compute_terms(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Return the stream and the sublayer's output, before N."""
        return x, f(x)


class FusedSandwichNorm(_Adding, placements.SandwichNorm):
    """x + M(f(N(x)))."""

    inner = "norm_out"

    def compute_terms(self, x: Tensor, f: Map, N: Map, M: Map) -> tuple[Tensor, Tensor]:
        """Return the stream and the sublayer's output, before M."""
        return x, f(N(x))


class FusedStreamNorm(_Adding, placements.StreamNorm):
    """N(x) + f(N(x))."""

    def compute_terms(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Return the normalized stream and the sublayer's output."""
        z = N(x)
        return z, f(z)


class FusedLayerNormScaling(_Adding, placements.LayerNormScaling):
    """x + f(N(x) / √ℓ)."""

    def compute_terms(self, x: Tensor, f: Map, N: Map) -> tuple[Tensor, Tensor]:
        """Return the stream and the sublayer's output."""
        return x, f(N(x) / self.number**0.5)


class FusedPostNorm(placements.PostNorm):
    """N(x + f(x)) in one kernel."""

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Update the stream with the sublayer."""
        write = self.sublayer(x) if context is None else self.sublayer(x, context=context)
        norm = self.get_submodule("norm")
        both = sum_norm(norm, write, x)
        return apply_norm(norm, x + write, context) if both is None else both[0]


class FusedDeepNorm(placements.DeepNorm):
    """LN(α·x + f(x)) in one kernel."""

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Update the stream with the sublayer."""
        write = self.sublayer(x) if context is None else self.sublayer(x, context=context)
        norm: Any = self.get_submodule("norm")
        whole = type(norm) is FusedLayerNorm and norm.normalized_shape == x.shape[-1:]
        if not (whole and is_plain(norm) and accepts_tensors(x, write, norm.weight, norm.bias)):
            return apply_norm(norm, self.alpha * x + write, context)
        return get_kernels().deep_norm(x, write, self.alpha, norm.weight, norm.bias, norm.eps)


class FusedSphereStep(SphereStep):
    """unit(x + |α| ⊙ (unit(f(x)) − x)) in one kernel."""

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Rotate the stream towards the sublayer's output."""
        write, alpha = f(x), self.alpha()
        if not (is_plain(self.unit) and accepts_tensors(x, write, alpha)):
            return super().step(x, lambda _: write)
        return get_kernels().ngpt_update(x, write, alpha)


class FusedTransformer(Transformer):
    """A transformer that uses a kernel to bring weights back to their spheres."""

    @staticmethod
    def unit_rows_(weight: Tensor, dim: int) -> Tensor:
        """Normalize every vector of a matrix to length 1, in place."""
        return (
            get_kernels().unit_rows_(weight, dim)
            if accepts_tensors(weight)
            else unit_rows_(weight, dim)
        )


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


def link_steps(blocks: list[list[Step]], end: tuple[nn.Module, str] | None) -> None:
    """Link each step of a stack to the next norm; `end` is the owner and name of the last one."""
    steps = [(number, step) for number, block in enumerate(blocks) for step in block]
    for i, (number, step) in enumerate(steps):
        if not isinstance(step, _Adding):
            continue
        following = steps[i + 1] if i + 1 < len(steps) else None
        if following is None:
            step.follower = None if end is None else (*end, True)
        elif isinstance(following[1], _READERS):
            step.follower = (following[1], "norm", following[0] != number)
        else:
            step.follower = None
