"""One row per kernel: how to call it, and its formula in plain PyTorch.

A formula computes in at least float32 and rounds where the paper's eager code does. On float64
inputs it is the reference; on the kernel's own inputs it is the eager code to be compared with.
Nothing but torch and normkernels is imported, so that the table also serves on a bare GPU server.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import normkernels
import torch
from torch import Tensor

LENGTHS = (1, 8, 41, 64, 127, 128, 129, 1023, 1536, 4096, 5120, 8191, 8192, 16384, 32768, 65536)


class Make:
    """Draw the inputs of one case: M rows of N values, on one device, from one seed."""

    def __init__(
        self,
        m: int,
        n: int,
        dtype: torch.dtype = torch.float32,
        parameters: torch.dtype | None = None,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ):
        self.m, self.n, self.dtype, self.device = m, n, dtype, device
        self.parameters = parameters or dtype
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Draw standard normal values in the dtype of the activations."""
        drawn = torch.randn(shape, generator=self.generator)
        return drawn.to(dtype or self.dtype).to(self.device)

    def rows(self, many: int = 1) -> Tensor:
        """Draw activations (many · M, N), of root mean square 2 and with a mean."""
        return (2 * self.normal(many * self.m, self.n, dtype=torch.float32) + 0.5).to(self.dtype)

    def coarse_rows(self) -> Tensor:
        """Draw activations for a sum: sixteenths up to 5, so that x + 2y is exact in any dtype."""
        return (16 * self.rows().float()).round().div(16).clamp(-5, 5).to(self.dtype)

    def gain(self, *shape: int, around: float = 1.0) -> Tensor:
        """Draw parameters of the given shape, or (N,)."""
        drawn = around + 0.3 * self.normal(*(shape or (self.n,)), dtype=torch.float32)
        return drawn.to(self.parameters)


@dataclass(frozen=True)
class Case:
    """A kernel: its function, its inputs by name, its formula with the same names."""

    name: str  # of the function in normkernels; what follows a colon tells its rows apart
    inputs: Callable[[Make], dict[str, Any]]  # what `function` and `formula` take, by keyword
    formula: Callable[..., Any]  # one tensor, or a tuple where there are several outputs
    rows: tuple[str, ...] = ("x",)  # inputs of shape (M, N): a row of the output for each row
    parameters: tuple[str, ...] = ("weight",)  # learned tensors, whose gradients sum over rows
    lengths: tuple[int, ...] = LENGTHS  # values of N that make sense
    roundings: int = 1  # how often the outputs are rounded to their dtype on the way
    options: dict[str, Any] = field(default_factory=dict)  # further keyword arguments, fixed
    total: Callable[..., Tensor] | None = None  # of the inputs: what is normed, if none of them
    rounds_total: bool = True  # to its dtype, before it is normed

    @property
    def function(self) -> Callable[..., Any]:
        """Look the kernel up when it is called, not before."""
        return getattr(normkernels, self.name.partition(":")[0])


def wide(x: Tensor) -> Tensor:
    """Promote half precision to float32 and leave the rest alone."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


# --- RMSNorm ---


def standard_rms(x: Tensor, eps: float) -> Tensor:
    """Return x / sqrt(mean(x²) + eps), not yet rounded."""
    return wide(x) * torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Round once."""
    y = standard_rms(x, eps)
    return (y if weight is None else y * wide(weight)).to(x.dtype)


def rms_norm_llama(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Round before the gain."""
    y = standard_rms(x, eps).to(x.dtype)
    return y if weight is None else weight * y


def rms_norm_gemma(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Gain 1 + weight, rounded once."""
    y = standard_rms(x, eps)
    return (y if weight is None else y * (1 + wide(weight))).to(x.dtype)


# --- LayerNorm ---


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Centre twice, round once."""
    centred = wide(x) - wide(x).mean(-1, keepdim=True)
    centred = centred - centred.mean(-1, keepdim=True)
    y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    y = y if weight is None else y * wide(weight)
    return (y if bias is None else y + wide(bias)).to(x.dtype)


# --- Sums and their norms ---


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Round the sum to the wider dtype, then normalize it."""
    h = x + residual
    return rms_norm(wide(h), weight, eps).to(x.dtype), h


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """Round the sum to the wider dtype, then normalize it."""
    h = x + residual
    return layer_norm(wide(h), weight, bias, eps).to(x.dtype), h


def deep_norm(
    x: Tensor,
    branch: Tensor,
    alpha: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Weigh the skip in float32, round the sum to the wider dtype, then normalize it."""
    total = alpha * wide(x) + wide(branch)
    return layer_norm(total.to(torch.promote_types(x.dtype, branch.dtype)), weight, bias, eps)


# --- Queries and keys: a row of the table is a token with all its heads ---


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    angles: Tensor | None = None,
    *,
    norm: str | None = "rms",
    eps: float = 1e-6,
    after_rope: bool = False,
    offset: float = 0.0,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Norm, gain and rotation in either order, rounded once."""

    def turned(x: Tensor) -> Tensor:
        if angles is None:
            return x
        cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
        pairs = angles.shape[1]
        a, b, rest = x.split((pairs, pairs, x.shape[-1] - 2 * pairs), -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), -1)

    def one(x: Tensor, weight: Tensor | None) -> Tensor:
        y = turned(wide(x)) if after_rope else wide(x)
        if norm == "rms":
            y = standard_rms(y, eps)
        elif norm == "l2":
            length = torch.linalg.vector_norm(y, dim=-1, keepdim=True).clamp_min(eps)
            y = y / length.masked_fill(length == 0, 1)
        y = y if weight is None else y * (wide(weight) + offset)
        return (scale * (y if after_rope else turned(y))).to(x.dtype)

    return one(q, q_weight), one(k, k_weight)


def heads_of(make: Make, own: bool, share: int) -> dict[str, Any]:
    """Draw three heads of queries, two of keys; every `share`-th pair of channels turns."""
    # float64, whose cosines are the same float32 numbers whoever finds them.
    angles = torch.linspace(0.1, 4, make.n // 2 // share, dtype=torch.float64)[None]
    return {
        "q": make.rows(3).view(make.m, 1, 3, make.n),
        "k": make.rows(2).view(make.m, 1, 2, make.n),
        "q_weight": make.gain(3, make.n) if own else make.gain(),
        "k_weight": make.gain(2, make.n) if own else make.gain(),
        "angles": angles.to(make.device),
    }


# --- Curves without statistics ---


def dynamic_tanh(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Squash, gain and shift in float32, rounded once."""
    y = torch.tanh(one_number(alpha) * wide(x))
    y = y if weight is None else y * wide(weight)
    return (y if bias is None else y + wide(bias)).to(x.dtype)


def dynamic_erf(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    shift: Tensor | float = 0.0,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Squash, gain and shift in float32, rounded once."""
    y = torch.erf(one_number(alpha) * wide(x) + one_number(shift))
    y = y if weight is None else y * wide(weight)
    return (y if bias is None else y + wide(bias)).to(x.dtype)


def one_number(value: Tensor | float) -> Tensor | float:
    """Promote a tensor with one element, and let it multiply anything."""
    return wide(value).reshape(()) if isinstance(value, Tensor) else value


# --- nGPT's step ---


def unit(x: Tensor) -> Tensor:
    """Divide by the length; 0 stays 0."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.masked_fill(length == 0, 1)


def moved(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Go from x towards the branch's direction."""
    return wide(x) + wide(alpha).abs() * (unit(wide(branch)) - wide(x))


def ngpt_update(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Move in float32, divide by the length, round once."""
    return unit(moved(x, branch, alpha)).to(torch.promote_types(x.dtype, branch.dtype))


CASES = [
    Case("rms_norm", lambda make: {"x": make.rows(), "weight": make.gain()}, rms_norm),
    Case(
        "rms_norm_llama",
        lambda make: {"x": make.rows(), "weight": make.gain()},
        rms_norm_llama,
        roundings=2,
    ),
    Case(
        "rms_norm_gemma",
        lambda make: {"x": make.rows(), "weight": make.gain(around=0.0)},
        rms_norm_gemma,
    ),
    Case(
        "layer_norm",
        lambda make: {"x": make.rows(), "weight": make.gain(), "bias": make.gain(around=0.0)},
        layer_norm,
        parameters=("weight", "bias"),
    ),
    Case(
        "add_rms_norm",
        lambda make: {
            "x": make.coarse_rows(),
            "residual": make.coarse_rows(),
            "weight": make.gain(),
        },
        add_rms_norm,
        rows=("x", "residual"),
        total=lambda x, residual, **_: x + residual,
    ),
    Case(
        "add_layer_norm",
        lambda make: {
            "x": make.coarse_rows(),
            "residual": make.coarse_rows(),
            "weight": make.gain(),
            "bias": make.gain(around=0.0),
        },
        add_layer_norm,
        rows=("x", "residual"),
        total=lambda x, residual, **_: x + residual,
        parameters=("weight", "bias"),
    ),
    Case(
        "deep_norm",
        lambda make: {
            "x": make.coarse_rows(),
            "branch": make.coarse_rows(),
            "weight": make.gain(),
            "bias": make.gain(around=0.0),
        },
        deep_norm,
        rows=("x", "branch"),
        parameters=("weight", "bias"),
        options={"alpha": 2.0},
        total=lambda x, branch, **_: 2.0 * x + branch,
    ),
    Case(
        "qk_norm_rope",
        lambda make: heads_of(make, own=False, share=2),
        qk_norm_rope,
        rows=("q", "k"),
        parameters=("q_weight", "k_weight"),
        lengths=(8, 64, 96, 128, 256),
    ),
    Case(
        "qk_norm_rope:ngpt",
        lambda make: heads_of(make, own=True, share=1),
        qk_norm_rope,
        rows=("q", "k"),
        parameters=("q_weight", "k_weight"),
        lengths=(8, 64, 96, 128, 256),
        options={"norm": "l2", "after_rope": True, "scale": 1.2},
    ),
    Case(
        "dynamic_tanh",
        lambda make: {
            "x": make.rows(),
            "alpha": make.gain(1, around=0.5),
            "weight": make.gain(),
            "bias": make.gain(around=0.0),
        },
        dynamic_tanh,
        parameters=("alpha", "weight", "bias"),
    ),
    Case(
        "dynamic_erf",
        lambda make: {
            "x": make.rows(),
            "alpha": make.gain(1, around=0.5),
            "shift": make.gain(1, around=0.0),
            "weight": make.gain(),
            "bias": make.gain(around=0.0),
        },
        dynamic_erf,
        parameters=("alpha", "shift", "weight", "bias"),
    ),
    Case(
        "ngpt_update",
        lambda make: {
            "x": make.rows(),
            "branch": make.rows(),
            "alpha": make.gain(around=0.2),  # of either sign
        },
        ngpt_update,
        rows=("x", "branch"),
        parameters=("alpha",),
        lengths=LENGTHS[1:],  # a row of one value, of length one, has no direction to change
        total=moved,
        rounds_total=False,
    ),
]
NAMED = {case.name: case for case in CASES}
