"""The norms that squash: a bounded function of each value instead of statistics, or after them.

y = gain · f(alpha · x + s) + shift              f = tanh (DyT), erf (Derf)
y = gain · tanh(lambda · x / (kappa · rms(x)))   (BHyT)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.check.formula import Formula, Given, without
from labkit.check.standardize import Standardize

SQUASHES = {
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "clip": lambda u: u.clamp(-1.0, 1.0),
    "arctan": torch.atan,
    "isru": lambda u: u / (1 + u.square()).sqrt(),
    "softsign": lambda u: u / (1 + u.abs()),
    "erf of u/√2": lambda u: torch.erf(u / 2**0.5),
    "one minus erf": torch.erfc,
    "nothing": lambda u: u,
}


@dataclass(frozen=True)
class Squash(Formula):
    """Squash each value by itself."""

    f: str = "tanh"
    alpha: str = "inside"  # | outside | both | none | divide | squared | absolute
    inner: str = "after alpha"  # | before alpha | outside | minus | none
    cut: tuple[str, ...] = ()  # what the gradient does not see: alpha, inner

    def standard(self, x: Tensor, given: Given) -> Tensor:
        """Squash alpha · x + s."""
        alpha, inner = given.get("alpha"), given.get("shift")
        alpha = 0.5 if alpha is None else self.spread(alpha, x)
        inner = 0.0 if inner is None else self.spread(inner, x)
        alpha = alpha.detach() if "alpha" in self.cut and isinstance(alpha, Tensor) else alpha
        inner = inner.detach() if "inner" in self.cut and isinstance(inner, Tensor) else inner
        u = x + inner if self.inner == "before alpha" else x
        match self.alpha:
            case "inside" | "both":
                u = u * alpha
            case "divide":
                u = u / alpha
            case "squared":
                u = u * alpha**2
            case "absolute":
                u = u * abs(alpha)
        if self.inner in ("after alpha", "minus"):
            u = u - inner if self.inner == "minus" else u + inner
        y = SQUASHES[self.f](u)
        y = y * alpha if self.alpha in ("outside", "both") else y
        return y + inner if self.inner == "outside" else y

    def sensitivity(self, x: Tensor, given: Given) -> Tensor:
        """Bound u · f'(u + s). What is bounded by 1 may be computed to so many digits of 1."""
        inner = given.get("shift")
        moved = torch.ones(x.shape, dtype=torch.float64)
        moved = moved * (1.0 + abs(0.0 if inner is None else float(inner)))
        return self.affine(moved, without(given, "bias")).abs()


@dataclass(frozen=True)
class BoundedTanh(Standardize):
    """Squash what a norm gave: tanh(lambda · x / (kappa · rms))."""

    bound: str = "inside"  # | ignored | outside | times
    scaled: str = "inside"  # | ignored | outside | divides | absolute
    f: str = "tanh"

    def standard(self, x: Tensor, given: Given) -> Tensor:
        """Squash the standardized values."""
        scale, bound = given.get("scale"), given["bound"]
        scale = 1.0 if scale is None else self.spread(scale, x)
        u = super().standard(x, given)
        if self.scaled in ("inside", "divides", "absolute"):
            inside = {"inside": scale, "divides": 1 / scale, "absolute": abs(scale)}
            u = u * inside[self.scaled]
        if self.bound in ("inside", "times"):
            u = u / bound if self.bound == "inside" else u * bound
        y = SQUASHES[self.f](u)
        y = y * scale if self.scaled == "outside" else y
        return y / bound if self.bound == "outside" else y

    def sensitivity(self, x: Tensor, given: Given) -> Tensor:
        """Bound the norm's own by the slope of the squash."""
        scale = given.get("scale")
        slope = abs(1.0 if scale is None else float(scale)) / given["bound"]
        return super().sensitivity(x, given) * max(slope, 1e-3)
