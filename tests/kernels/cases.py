"""One row per kernel: how to draw its inputs, and how its formula, `normkernels.formulas`, rounds.

On float64 inputs a formula is the reference; on the kernel's own inputs it is the eager code to be
compared with. `test_twins` holds the kernels against labkit's formulas too. Nothing but torch and
normkernels is imported, so that the table also serves on a bare GPU server.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import normkernels
import torch
from normkernels import formulas
from torch import Tensor

LENGTHS = (1, 8, 41, 64, 127, 128, 129, 1023, 1536, 4096, 5120, 8191, 8192, 16384, 32768, 65536)


class Make:
    """Draw the inputs of one case: M rows of N values, on one device, with one seed."""

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
        """Draw activations (many · M, N), with root mean square 2 and a nonzero mean."""
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
    """A kernel: its function, its inputs by name; its formula takes the same names."""

    name: str  # of the function in normkernels; what follows a colon tells its rows apart
    inputs: Callable[[Make], dict[str, Any]]  # what `function` and `formula` take, by keyword
    rows: tuple[str, ...] = ("x",)  # inputs of shape (M, N): a row of the output for each row
    parameters: tuple[str, ...] = ("weight",)  # learned tensors, whose gradients sum over rows
    lengths: tuple[int, ...] = LENGTHS  # values of N that make sense
    roundings: int = 1  # how often the outputs are rounded to their dtype on the way
    options: dict[str, Any] = field(default_factory=dict)  # further keyword arguments, fixed
    total: Callable[..., Tensor] | None = None  # of the inputs: what is normed, if none of them
    rounds_total: bool = True  # to its dtype, before it is normed
    passes: tuple[str, ...] = ()  # inputs whose gradient is that of the output, as of torch's sum
    cancels: bool = False  # what is rounded on the way is summed: the sum may be smaller
    keeps: tuple[str, ...] = ()  # inputs whose gradients keep what was rounded on the way

    @property
    def function(self) -> Callable[..., Any]:
        """Look up the kernel at call time."""
        return getattr(normkernels, self.name.partition(":")[0])

    @property
    def formula(self) -> Callable[..., Any]:
        """Return the formula of the same name."""
        return getattr(formulas, self.name.partition(":")[0])


def heads_of(make: Make, own: bool, share: int) -> dict[str, Any]:
    """Draw three heads of queries, two of keys; every `share`-th pair of channels rotates."""
    # float64, whose cosines are the same float32 numbers whoever finds them.
    angles = torch.linspace(0.1, 4, make.n // 2 // share, dtype=torch.float64)[None]
    return {
        "q": make.rows(3).view(make.m, 1, 3, make.n),
        "k": make.rows(2).view(make.m, 1, 2, make.n),
        "q_weight": make.gain(3, make.n) if own else make.gain(),
        "k_weight": make.gain(2, make.n) if own else make.gain(),
        "angles": angles.to(make.device),
    }


def norm(make: Make, *rows: str, coarse: bool = False, shift: bool = False) -> dict[str, Any]:
    """Draw activations with these names, a gain, and a shift if requested."""
    draw = make.coarse_rows if coarse else make.rows
    given = {name: draw() for name in rows} | {"weight": make.gain()}
    return given | ({"bias": make.gain(around=0.0)} if shift else {})


def curve(make: Make, **single: float) -> dict[str, Any]:
    """Draw a row, numbers around these values, a gain and a shift."""
    return {
        "x": make.rows(),
        **{name: make.gain(1, around=value) for name, value in single.items()},
        "weight": make.gain(),
        "bias": make.gain(around=0.0),
    }


BOTH = ("weight", "bias")
WHOLE = tuple(n for n in LENGTHS if n <= 8192)
QUANTIZABLE = tuple(n for n in LENGTHS if n <= 32768)
HEADS = {
    "rows": ("q", "k"),
    "parameters": ("q_weight", "k_weight"),
    "lengths": (8, 64, 96, 128, 256),
}
CASES = [
    Case("rms_norm", lambda make: norm(make, "x")),
    Case("rms_norm_llama", lambda make: norm(make, "x"), roundings=2),
    Case("rms_norm_gemma", lambda make: {"x": make.rows(), "weight": make.gain(around=0.0)}),
    Case("layer_norm", lambda make: norm(make, "x", shift=True), parameters=BOTH),
    Case(
        "add_rms_norm",
        lambda make: norm(make, "x", "residual", coarse=True),
        rows=("x", "residual"),
        total=lambda x, residual, **_: x + residual,
    ),
    Case(
        "add_rms_norm:llama",
        lambda make: norm(make, "x", "residual", coarse=True),
        rows=("x", "residual"),
        roundings=2,
        total=lambda x, residual, **_: x + residual,
        options={"round_first": True},
    ),
    Case(
        "add_rms_norm:gemma",
        lambda make: norm(make, "x", "residual", coarse=True),
        rows=("x", "residual"),
        total=lambda x, residual, **_: x + residual,
        options={"offset": 1.0},
    ),
    Case(
        "rms_norm_add",
        lambda make: norm(make, "x", "residual"),
        rows=("x", "residual"),
        roundings=2,
        passes=("residual",),
        cancels=True,
    ),
    Case(
        "rms_norm_add_norm:gemma",
        lambda make: norm(make, "x", "residual") | {"next_weight": make.gain()},
        rows=("x", "residual"),
        parameters=("weight", "next_weight"),
        roundings=3,
        lengths=LENGTHS[1:],  # the sum of one value may be 0 but for its roundings
        cancels=True,
        keeps=("x", "residual"),
        options={"offset": 1.0},
    ),
    Case(
        "add_layer_norm",
        lambda make: norm(make, "x", "residual", coarse=True, shift=True),
        rows=("x", "residual"),
        total=lambda x, residual, **_: x + residual,
        parameters=BOTH,
    ),
    Case(
        "deep_norm",
        lambda make: norm(make, "x", "branch", coarse=True, shift=True),
        rows=("x", "branch"),
        parameters=BOTH,
        options={"alpha": 2.0},
        total=lambda x, branch, **_: 2.0 * x + branch,
    ),
    Case(
        "rms_norm_gated",
        lambda make: norm(make, "x", "gate"),
        rows=("x", "gate"),
        lengths=WHOLE,
    ),
    Case(
        "rms_norm_gated:qwen",
        lambda make: norm(make, "x", "gate"),
        rows=("x", "gate"),
        lengths=WHOLE,
        roundings=3,
        keeps=("gate",),
        options={"round_first": True},
    ),
    Case("qk_norm_rope", lambda make: heads_of(make, own=False, share=2), **HEADS),
    Case(
        "qk_norm_rope:ngpt",
        lambda make: heads_of(make, own=True, share=1),
        **HEADS,
        options={"norm": "l2", "after_rope": True, "scale": 1.2},
    ),
    Case(
        "qk_norm_rope:interleaved",
        lambda make: heads_of(make, own=True, share=1),
        **HEADS,
        options={"interleaved": True},
    ),
    Case("dynamic_tanh", lambda make: curve(make, alpha=0.5), parameters=("alpha", *BOTH)),
    Case(
        "dynamic_erf",
        lambda make: curve(make, alpha=0.5, shift=0.0),
        parameters=("alpha", "shift", *BOTH),
    ),
    Case(
        "ngpt_update",
        # alpha is of either sign
        lambda make: {"x": make.rows(), "branch": make.rows(), "alpha": make.gain(around=0.2)},
        rows=("x", "branch"),
        parameters=("alpha",),
        lengths=LENGTHS[1:],  # a row of one value, of length one, has no direction to change
        total=formulas.step_towards,
        rounds_total=False,
    ),
]
# Without gradients: only their machine code is tested like that of the others.
QUANTIZED = [
    Case(name, lambda make: norm(make, "x"), options={"group": group}, lengths=QUANTIZABLE)
    for name, group in (("rms_norm_fp8", None), ("rms_norm_fp8:groups", 128))
]
NAMED = {case.name: case for case in (*CASES, *QUANTIZED)}
