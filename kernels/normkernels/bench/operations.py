"""Measured operations: each kernel's inputs, and the bytes that have to move."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from normkernels import formulas
from normkernels.bench.plan import Case

DTYPES = {  # of the activations and of the parameters
    "bf16": (torch.bfloat16, torch.bfloat16),
    "fp32": (torch.float32, torch.float32),
    "bf16+fp32": (torch.bfloat16, torch.float32),
}


@dataclass(frozen=True)
class Operation:
    """One kernel: its formula, its inputs by name, and the bytes that have to move."""

    formula: Callable
    rows: tuple[str, ...]  # activations
    parameters: dict[str, float]  # learned, drawn around these values
    moved: tuple[int, int]  # activations read and written, forward and backward
    statistics: int = 0  # float32 numbers kept for each row
    options: dict = field(default_factory=dict)
    passes: str = ""  # an input whose gradient may be the output's own, in the same memory
    chunked: bool = True  # the reference may take rows a few at a time

    @property
    def in_place(self) -> bool:
        """Return whether the operation overwrites its argument, and so has no gradient."""
        return not self.moved[1]

    def draw(self, case: Case, device: torch.device) -> dict[str, Tensor]:
        """Draw the inputs: activations of RMS 2 with a nonzero mean, and varied parameters."""
        data, learned = DTYPES[case.dtype]
        normal = partial(torch.randn, device=device)
        inputs = {}
        for name in self.rows:
            inputs[name] = (2 * normal(case.shape(name)) + 0.5).to(data).requires_grad_()
        for name, centre in self.parameters.items():
            size = 1 if name in ("alpha", "shift") and "weight" in self.parameters else case.n
            inputs[name] = (centre + 0.1 * normal(size)).to(learned).requires_grad_()
        if case.heads:
            pairs, time = case.n // 2, case.shape("q")[1]
            frequency = 1e4 ** (-torch.arange(pairs, device=device) / pairs)
            inputs["angles"] = torch.arange(time, device=device)[:, None] * frequency
        return {k: t.detach() for k, t in inputs.items()} if self.in_place else inputs

    def count_bytes(self, case: Case, processors: int) -> dict[str, int]:
        """Return the fewest bytes that move, by direction, including those for partial sums.

        Every input is read once and every output written once, including statistics and parameters;
        a bias is not needed for gradients. A parameter gradient adds one float32 row per
        multiprocessor, written and read: the fewest that fill the GPU, whatever a provider does.
        """
        size, width = (dtype.itemsize for dtype in DTYPES[case.dtype])
        values = sum(math.prod(case.shape(name)) for name in self.rows) // len(self.rows)
        values *= len(self.rows) if case.heads else 1  # q and k together are one activation
        single = {"alpha", "shift"} if "weight" in self.parameters else set()
        sizes = {name: 1 if name in single else case.n for name in self.parameters}
        learned = sum(sizes.values())
        read = learned - sizes.get("bias", 0)
        kept = 4 * self.statistics * case.m
        kept += 4 * case.shape("q")[1] * (case.n // 2) if case.heads else 0  # the angles
        partials = 8 * min(processors, case.m) * learned if self.moved[1] else 0
        forward = self.moved[0] * size * values + kept + width * learned
        backward = self.moved[1] * size * values + kept + width * (learned + read) + partials
        return {
            "forward": forward,
            "backward": backward if self.moved[1] else 0,
            "partials": partials,
        }


_AFFINE = {"weight": 1.0, "bias": 0.0}
OPERATIONS = {
    "rms_norm": Operation(formulas.rms_norm, ("x",), {"weight": 1.0}, (2, 3), 1),
    "layer_norm": Operation(formulas.layer_norm, ("x",), _AFFINE, (2, 3), 2),
    "add_rms_norm": Operation(formulas.add_rms_norm, ("x", "residual"), {"weight": 1.0}, (4, 4), 1),
    "add_layer_norm": Operation(formulas.add_layer_norm, ("x", "residual"), _AFFINE, (4, 4), 2),
    "deep_norm": Operation(formulas.deep_norm, ("x", "branch"), _AFFINE, (4, 4), 2, {"alpha": 1.5}),
    "rms_norm_add": Operation(
        formulas.rms_norm_add, ("x", "residual"), {"weight": 1.0}, (3, 3), 1, passes="residual"
    ),
    "rms_norm_add_norm": Operation(
        formulas.rms_norm_add_norm,
        ("x", "residual"),
        {"weight": 1.0, "next_weight": 1.0},
        (4, 7),
        2,
    ),
    "rms_norm_gated": Operation(formulas.rms_norm_gated, ("x", "gate"), {"weight": 1.0}, (3, 5), 1),
    "qk_norm_rope": Operation(
        formulas.qk_norm_rope, ("q", "k"), {"q_weight": 1.0, "k_weight": 1.0}, (2, 3)
    ),
    "dynamic_tanh": Operation(formulas.dynamic_tanh, ("x",), {"alpha": 0.5, **_AFFINE}, (2, 3)),
    "dynamic_erf": Operation(
        formulas.dynamic_erf, ("x",), {"alpha": 0.5, "shift": 0.1, **_AFFINE}, (2, 3)
    ),
    "ngpt_update": Operation(formulas.ngpt_update, ("x", "branch"), {"alpha": 0.3}, (3, 5)),
    "unit_rows_": Operation(formulas.unit_rows_, ("weight",), {}, (2, 0), options={"dim": -1}),
    "unit_rows_ dim=0": Operation(
        formulas.unit_rows_, ("weight",), {}, (2, 0), options={"dim": 0}, chunked=False
    ),
}
