"""Differentiate what a block gives, by all that it was given: streams, scores and parameters."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from labkit.check.blocks.design import Case, Out
from labkit.check.case import Broken

COLUMNS = ("out", "down")  # nGPT: their columns, not their rows, have unit length
GIVEN = ("r", "prev", "e")  # what a case may hold besides x


def total(out: Out, wanted: Out, draw: torch.Generator, causal: bool) -> Tensor:
    """Add up all that came with random weights, where `wanted` has it too."""
    made = torch.zeros((), dtype=torch.float64)
    for name in ("stream", "second", "scores"):
        actual, expected = getattr(out, name), getattr(wanted, name)
        if expected is None:
            continue
        weight = torch.randn(expected.shape, generator=draw, dtype=torch.float64)
        if actual is None or actual.shape != expected.shape:
            continue
        if name == "scores":  # what the mask hides may be anything
            seen = torch.ones(actual.shape[-2:], dtype=torch.bool)
            actual = actual.where(seen.tril() if causal else seen, 0.0)
        made = made + (actual * weight).sum()
    return made


def slopes(
    run: Callable[[Case], Out],
    case: Case,
    wanted: Out,
    inner: Mapping[str, Tensor],
    draw: torch.Generator,
    causal: bool,
) -> dict[str, Tensor]:
    """Return the gradients by x, by what else the case holds, and by what is inside."""
    given = {"x": case.x}
    given |= {n: t for n in GIVEN if (t := getattr(case, n, None)) is not None and t.numel()}
    leaves = {name: t.clone().requires_grad_(True) for name, t in given.items()}
    passed: dict[str, Any] = {name: leaf * 1 for name, leaf in leaves.items()}
    out = run(replace(case, **passed))
    if not out.stream.requires_grad:
        raise Broken(f"on {case} the new stream has no gradient: it was cut off (detach, no_grad)")
    places = {**leaves, **inner}
    grads = torch.autograd.grad(
        total(out, wanted, draw, causal), [*places.values()], allow_unused=True
    )
    return {
        n: torch.zeros_like(p) if g is None else g
        for (n, p), g in zip(places.items(), grads, strict=True)
    }


def tangent(gradients: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Keep the part along the spheres: a block may renormalize its weights in the forward."""
    made = dict(gradients)
    for slot, g in gradients.items():
        if slot in ("q", "k", "v", "gate", "up", *COLUMNS):
            w = weights[slot]
            axis = 0 if slot in COLUMNS else 1
            made[slot] = g - (g * w).sum(axis, keepdim=True) * w
    return made
