"""nGPT: the stream and all weights live on unit spheres, and a step moves along the sphere.

    h ← norm(h + |α| ⊙ (norm(f(h)) − h))          norm(x) = x / |x|, without eps
    attention      q, k = s_qk ⊙ norm(rotated q, k) for each head; logits × sqrt(head_dim)
    feed-forward   down((s_u ⊙ up(h) · sqrt(d)) ⊙ silu(s_v ⊙ gate(h) · sqrt(d)))
    logits         s_z ⊙ output(h)

After each optimizer step every matrix has unit vectors along the axis of the embedding. Source:
Loshchilov et al. 2024, arXiv 2410.01131, and its code, which also multiplies u by sqrt(d): the next
norm cancels that factor. No weight decay, no warm-up.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import at_least_float32
from labkit.norms.unit import Scale, Unit, unit
from labkit.placements.step import ALONE, MakeNorm, Map, Place, Step


def ngpt_update(
    x: Float[Tensor, "*leading dim"],
    branch: Float[Tensor, "*leading dim"],
    alpha: Float[Tensor, " dim"],
) -> Float[Tensor, "*leading dim"]:
    """Move x the fraction |alpha| of the way to the branch, on the sphere; one rounding at the end.

    x is not normalized first. The result has the wider dtype of x and branch.
    """
    start, goal = at_least_float32(x), unit(at_least_float32(branch))
    return unit(start + alpha.abs() * (goal - start)).to(torch.promote_types(x.dtype, branch.dtype))


def unit_rows_(weight: Float[Tensor, "rows columns"], dim: int = -1) -> Tensor:
    """Normalize every vector along one axis of a matrix to length 1, in place; zeros stay 0.

    It is part of the optimizer step and has no gradient: call it under `torch.no_grad()`.
    """
    return weight.copy_(unit(at_least_float32(weight), dim))


class SphereStep(Step):
    """h ← norm(h + |α| ⊙ (norm(f(h)) − h)): move the fraction |α| towards f(h), on the sphere.

    α is learned for each channel, starts at 0.05 and is stored with initial value 1/sqrt(d).
    """

    norms, equation, symbols = (), "unit(x + α * (unit(f(x)) - x))", {"α": "share", "unit": "unit"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.alpha, self.unit = Scale(place.dim, 0.05, place.dim**-0.5), Unit()

    @property
    def share(self) -> Tensor:
        """Return |α|, the fraction of the way, for each channel."""
        return self.alpha().abs()

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Rotate the stream towards the sublayer's output."""
        return self.unit(x + self.share * (self.unit(f(x)) - x))


# The matrices that write to the stream: their columns, not their rows, are on its sphere.
_WRITERS = ("out", "down")


@torch.no_grad()
def normalize_weights(
    model: nn.Module, unit_rows_: Callable[[Tensor, int], Tensor] = unit_rows_
) -> None:
    """Normalize every matrix to unit vectors along the axis of the stream's width."""
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            # torch stores (out, in): the stream is axis 1 of its readers and axis 0 of its writers.
            writes = path.rpartition(".")[2] in _WRITERS
            unit_rows_(module.weight, 0 if writes else 1)
