"""Correctness: the formula in float64 on the same inputs, and a provider's allowed error."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from normkernels.bench.operations import DTYPES, Operation
from normkernels.bench.plan import Case

CHUNK = 2**24  # values of an activation that the reference computes at a time
# Larger errors, relative to the norm, are wrong. A few successive roundings stay below; sums in
# bfloat16, or a missing term, do not.
LIMITS = {torch.bfloat16: 2.0**-6, torch.float32: 2e-5}


def as_tuple(outputs: Any) -> tuple:
    """Return outputs as a tuple, also a single one."""
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


@dataclass
class Data:
    """One set of inputs and of output gradients."""

    inputs: dict[str, Tensor]
    tops: list[Tensor]

    def copy(self) -> "Data":
        """Copy the activations; parameters are shared, as between the rows of a batch."""
        inputs = dict(self.inputs)
        for name, t in inputs.items():
            if t.ndim > 1:
                inputs[name] = t.detach().clone().requires_grad_(t.requires_grad)
        return Data(inputs, [top.clone() for top in self.tops])

    def equals(self, other: "Data") -> bool:
        """Return whether all tensors equal those of `other`."""
        mine, theirs = [*self.inputs.values(), *self.tops], [*other.inputs.values(), *other.tops]
        return all(map(torch.equal, mine, theirs))

    def differentiate(self, outputs: tuple) -> dict[str, Tensor]:
        """Run the backward pass and keep its graph."""
        leaves = {name: t for name, t in self.inputs.items() if t.requires_grad}
        grads = torch.autograd.grad(outputs, list(leaves.values()), self.tops, retain_graph=True)
        return {f"gradient of {k}": g for k, g in zip(leaves, grads, strict=True)}


def draw_data(op: Operation, case: Case, device: torch.device) -> Data:
    """Draw inputs, and output gradients correlated with the outputs, so that every term matters."""
    torch.manual_seed(0)
    inputs = op.draw(case, device)
    if op.in_place:
        return Data(inputs, [])
    with torch.no_grad():
        outputs = as_tuple(op.formula(**inputs, **op.options))
        tops = [torch.randn_like(y) + y * (0.5 / y.float().std()) + 0.25 for y in outputs]
    return Data(inputs, [top.to(y.dtype) for top, y in zip(tops, outputs, strict=True)])


def compute_reference(
    op: Operation, data: Data, case: Case, chunk: int = CHUNK
) -> dict[str, Tensor]:
    """Compute outputs and gradients in float64, `chunk` values of an activation at a time.

    They are stored in float64 to check float32, and in float32 to check bfloat16.
    """
    dtype = torch.float64 if DTYPES[case.dtype][0] is torch.float32 else torch.float32
    size = max(t.numel() for t in data.inputs.values())
    many = data.inputs[op.rows[0]].shape[0]
    step = max(1, many * chunk // size) if op.chunked else many
    parts: dict[str, list[Tensor]] = {}
    summed = {f"gradient of {name}" for name in op.parameters}
    for first in range(0, many, step):
        rows = slice(first, first + step)
        inputs = {
            k: (t[rows] if k in op.rows else t).detach().double().requires_grad_(t.requires_grad)
            for k, t in data.inputs.items()
        }
        part = Data(inputs, [top[rows].double() for top in data.tops])
        outputs = as_tuple(op.formula(**inputs, **op.options))
        found = {f"output {i}": y.detach() for i, y in enumerate(outputs)}
        if not op.in_place:
            found |= part.differentiate(outputs)
        for name, value in found.items():
            parts.setdefault(name, []).append(value if name in summed else value.to(dtype))
    return {
        name: torch.stack(values).sum(0).to(dtype) if name in summed else torch.cat(values)
        for name, values in parts.items()
    }


def compare_tensors(found: dict, expected: dict, case: Case) -> tuple[dict[str, float], str]:
    """Return each tensor's error relative to its norm, and a message, "" if all are right."""
    limit = LIMITS[DTYPES[case.dtype][0]]
    errors, wrong = {}, ""
    for name, right in expected.items():
        if found[name].shape != right.shape:
            return errors, f"{name} has shape {tuple(found[name].shape)}"
        miss = found[name].detach().to(right.dtype) - right
        size = torch.linalg.vector_norm(right).item()
        error = torch.linalg.vector_norm(miss).item() / (size or 1.0)
        errors[name] = float(f"{error:.5g}")
        rms = size / math.sqrt(max(1, right.numel()))
        worst = (miss.abs() - 4 * limit * (right.abs() + rms)).max().item()
        if not (error <= limit and worst <= 0):  # a NaN is wrong too
            wrong = wrong or f"{name} is off by {error:.2g} of its norm, allowed is {limit:.2g}"
    return errors, wrong
