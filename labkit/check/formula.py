"""Float64 formulas with a knob for every decision: the truth, and each known mistake.

    y = gain · standard(x) + shift

Written apart from labkit.norms on purpose: two people's readings of the papers must agree.
A formula takes what an implementation was given, by role: weight, bias, eps, …
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Formula:
    """Multiply by the gain and add the shift; what comes before is a subclass's."""

    features: int = -1  # the axis of parameters that hold one number for each feature
    gain: str = "times"  # | none | one plus | divide | absolute | squared | mean
    unset_gain: str = "one"  # | root of d: what multiplies where no gain is given
    shift: str = "after"  # | none | before | minus
    swapped: bool = False
    fixed: tuple[tuple[str, float], ...] = ()  # settings that are used, whatever is given

    addends: ClassVar[tuple[str, ...]] = ("bias",)

    def __call__(self, x: Tensor, given: Given) -> Tensor:
        """Evaluate in float64."""
        given = {**given, **dict(self.fixed)}
        return self.affine(self.standard(x.double(), given), given)

    def standard(self, x: Tensor, given: Given) -> Tensor:
        """Return what gain and shift are applied to."""
        return x

    def sensitivity(self, x: Tensor, given: Given) -> Tensor:
        """Bound how far one unit of relative rounding error in x moves the result."""
        return self.affine(x.double().abs(), without(given, "bias")).abs()

    def parts(self, x: Tensor, given: Given) -> Tensor:
        """Add up the sizes of what is summed in the result: rounding errors grow with these."""
        rest = {**given, **{role: torch.zeros(()) for role in self.addends}}
        before = self(x, rest)
        total = before.abs()
        for role in self.addends:
            rest[role] = given.get(role)
            after = self(x, rest)
            total, before = total + (after - before).abs(), after
        return total

    def affine(self, y: Tensor, given: Given) -> Tensor:
        """Apply gain and shift."""
        weight, bias = given.get("weight"), given.get("bias")
        weight, bias = (bias, weight) if self.swapped else (weight, bias)
        gain = self._gain(weight, y)
        shift = 0.0 if bias is None or self.shift == "none" else self.spread(bias, y)
        if self.shift == "before":
            return (y + shift) * gain
        return y * gain - shift if self.shift == "minus" else y * gain + shift

    def _gain(self, weight: Tensor | None, y: Tensor) -> Tensor | float:
        if weight is None or self.gain == "none":
            return y.shape[self.features] ** 0.5 if self.unset_gain == "root of d" else 1.0
        gain = self.spread(weight, y)
        match self.gain:
            case "one plus":
                return 1.0 + gain
            case "divide":
                return 1.0 / gain
            case "absolute":
                return gain.abs()
            case "squared":
                return gain.square()
            case "mean":
                return gain.mean()
        return gain

    def spread(self, parameter: Any, y: Tensor) -> Tensor:
        """Lay a parameter along the feature axis; a single number goes everywhere."""
        parameter = torch.as_tensor(parameter).double()
        if parameter.numel() == 1:
            return parameter.reshape(())
        axis = self.features % y.ndim
        return parameter.view(-1, *[1] * (y.ndim - 1 - axis))


def without(given: Given, *roles: str) -> dict[str, Any]:
    """Leave some of what was given out."""
    return {role: value for role, value in given.items() if role not in roles}


@dataclass(frozen=True)
class Identity(Formula):
    """Give x back: no gain, no shift."""

    def sensitivity(self, x: Tensor, given: Given) -> Tensor:
        """Leave no room at all: nothing is computed."""
        return torch.zeros(x.shape, dtype=torch.float64)

    def parts(self, x: Tensor, given: Given) -> Tensor:
        """Leave no room here either."""
        return torch.zeros(x.shape, dtype=torch.float64)
