"""nGPT: the stream and all weights live on unit spheres, and a step moves along the sphere.

    h ← norm(h + |α| ⊙ (norm(f(h)) − h))          norm(x) = x / |x|, without eps
    attention      q, k = s_qk ⊙ norm(rotated q, k) for each head; logits × sqrt(head_dim)
    feed-forward   down((s_u ⊙ up(h) · sqrt(d)) ⊙ silu(s_v ⊙ gate(h) · sqrt(d)))
    logits         s_z ⊙ output(h)

After each optimizer step every matrix has unit vectors along the axis of the embedding. Source:
Loshchilov et al. 2024, arXiv 2410.01131, and its code, which also multiplies u by sqrt(d): the
norm that follows makes that factor immaterial. No weight decay, no warm-up.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from labkit.attention import Attention
from labkit.context import Context
from labkit.feed_forward import FeedForward
from labkit.norms._common import at_least_float32
from labkit.placements.step import ALONE, MakeNorm, Map, Place, Step


def unit(x: Float[Tensor, "*leading dim"], dim: int = -1) -> Float[Tensor, "*leading dim"]:
    """Divide by the Euclidean length along one axis: x / |x|, without eps; 0 stays 0.

    Zeros are what attention writes for a padded query that has nothing to attend to.
    """
    length = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / length.masked_fill(length == 0, 1)


class Unit(nn.Module):
    """Divide each vector on the last axis by its length: a norm without parameters or eps."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x / |x|."""
        return unit(x)


def ngpt_update(
    x: Float[Tensor, "*leading dim"],
    branch: Float[Tensor, "*leading dim"],
    alpha: Float[Tensor, " dim"],
) -> Float[Tensor, "*leading dim"]:
    """Go the share |alpha| of the way from x to the branch, on the sphere; one rounding at the end.

    x is taken as it is. The wider dtype of x and branch comes back.
    """
    start, goal = at_least_float32(x), unit(at_least_float32(branch))
    return unit(start + alpha.abs() * (goal - start)).to(torch.promote_types(x.dtype, branch.dtype))


def unit_rows_(weight: Float[Tensor, "rows columns"], dim: int = -1) -> Tensor:
    """Return every vector along one axis of a matrix length 1, in place; 0 stays 0.

    It is a step of the optimizer, without a gradient: call it under `torch.no_grad()`.
    """
    return weight.copy_(unit(at_least_float32(weight), dim))


class Scale(nn.Module):
    """A learned vector that starts at `initial` but is stored at size `stored`.

    value = parameter · initial / stored. Adam moves a parameter by about its learning rate at
    each step, so `stored` decides how fast the value moves, beside how large it is.
    """

    def __init__(self, size: int, initial: float, stored: float):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), stored))
        self.factor = initial / stored

    def forward(self) -> Tensor:
        """Return the value that the model uses."""
        return self.weight * self.factor


class SphereStep(Step):
    """h ← norm(h + |α| ⊙ (norm(f(h)) − h)): go the share α of the way to f(h), on the sphere.

    α is learned for each channel, starts at 0.05 and is stored at size 1/sqrt(d).
    """

    norms, equation, symbols = (), "unit(x + α * (unit(f(x)) - x))", {"α": "share", "unit": "unit"}

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__(make_norm, sublayer, place)
        self.alpha, self.unit = Scale(place.dim, 0.05, place.dim**-0.5), Unit()

    @property
    def share(self) -> Tensor:
        """Return |α|, the share of the way for each channel."""
        return self.alpha().abs()

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Turn the stream towards what the sublayer proposes."""
        return self.unit(x + self.share * (self.unit(f(x)) - x))


class SphereAttention(Attention):
    """Attention whose rotated queries and keys are unit vectors times one shared scale s_qk."""

    def __init__(self, dim: int, heads: int, causal: bool):
        super().__init__(dim, heads, heads, causal)
        self.s_qk, self.unit = Scale(dim, 1.0, dim**-0.5), Unit()

    def project(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Make q, k, v; with q times head_dim, the logits' 1/sqrt(head_dim) becomes its inverse."""
        q, k, v = super().project(x, context)
        scale = self.s_qk().view(self.heads, 1, self.head_dim)
        return self.head_dim * scale * self.unit(q), scale * self.unit(k), v


class SphereFeedForward(FeedForward):
    """SwiGLU with a learned scale on each of its two inner vectors."""

    def __init__(self, dim: int, hidden: int):
        super().__init__(dim, hidden, "swiglu")
        self.s_uv = Scale(2 * hidden, 1.0, 1.0)
        self.root = dim**0.5

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Scale u and v, then gate: each entry of W·h is a cosine, about 1/sqrt(d)."""
        assert self.gate is not None
        s_u, s_v = (self.s_uv() * self.root).chunk(2)
        return self.down(s_u * self.up(x) * F.silu(s_v * self.gate(x)))


# The matrices that write to the stream: their columns, not their rows, live on its sphere.
_WRITERS = ("out", "down")


@torch.no_grad()
def normalize_weights(
    model: nn.Module, unit_rows_: Callable[[Tensor, int], Tensor] = unit_rows_
) -> None:
    """Give every matrix unit vectors along the axis whose length is the stream's width."""
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            writes = path.rpartition(".")[2] in _WRITERS
            unit_rows_(module.weight, 0 if writes else 1)
