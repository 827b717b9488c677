"""The norms with statistics, as one float64 formula with a knob for every decision.

y = gain · (x − mean) / sqrt(moment + eps) + shift         and, for RepBN, + eta · x
"""

from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

import torch
from torch import Tensor

from labkit.check.formula import Formula, Given, without

# Which axes share statistics, by name, for an input with `n` axes.
POOLS = {
    "last": lambda n: (n - 1,),
    "first": lambda n: (0,),
    "all": lambda n: tuple(range(n)),
    "all but the first": lambda n: tuple(range(1, n)),
    "all but the last": lambda n: tuple(range(n - 1)),
    "all but the channel": lambda n: (0, *range(2, n)),
    "channel": lambda n: (1,),
    "space": lambda n: tuple(range(2, n)),
    "last of space": lambda n: (n - 1,) if n > 2 else (1,),
}


@dataclass(frozen=True)
class Standardize(Formula):
    """Say every decision of a norm; call it for float64 values that autograd can follow."""

    pool: str = "last"  # a key of POOLS, "group", or "strided group"
    centre: str = "mean"  # | none | spread only
    moment: str = "about the mean"  # | raw | absolute | largest
    correction: float = 0  # the divisor is (number of values − correction)
    summed: bool = False  # the sum of squares instead of their mean
    eps_at: str = "inside"  # | outside | both | none | floor | floor of the root | squared
    root: bool = True
    divide: bool = True
    cut: tuple[str, ...] = ()  # statistics that the gradient does not see: mean, spread
    part: str = "all"  # | first | last | strided: the features that the moment is taken of
    count: str = "floor"  # | ceil | round: how p · d becomes a number of features
    only_part: bool = False  # the features outside the part stay as they are
    mask: str = "used"  # | ignored | inverted | padding counted
    evaluation: str = "running"  # | batch: whose statistics where running ones are given

    def standard(self, x: Tensor, given: Given) -> Tensor:
        """Divide what is left after centring by the denominator."""
        split, axes = self.split(x, given)
        mean, scale = self.statistics(split, axes, given)
        mean = mean.detach() if "mean" in self.cut else mean
        scale = scale.detach() if "spread" in self.cut else scale
        centred = split - mean if self.centre == "mean" else split
        y = centred / scale if self.divide else centred * scale
        if self.only_part:
            inside = torch.zeros(x.shape[-1], dtype=torch.bool)
            inside[self._part(torch.arange(x.shape[-1]), given)] = True
            y = torch.where(inside, y, split)
        return y.reshape(x.shape)

    def split(self, x: Tensor, given: Given) -> tuple[Tensor, tuple[int, ...]]:
        """View x so that each set which shares statistics lies along the axes returned."""
        groups = given.get("num_groups", 1)
        if self.pool == "group":
            split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
            return split, tuple(range(2, split.ndim))
        if self.pool == "strided group":
            split = x.reshape(x.shape[0], -1, groups, *x.shape[2:])
            return split, (1, *range(3, split.ndim))
        return x, POOLS[self.pool](x.ndim)

    def statistics(self, x: Tensor, axes: tuple[int, ...], given: Given) -> tuple[Tensor, Tensor]:
        """Return the mean, and what divides: the running ones where they count."""
        stored = given.get("running")
        if stored is not None and self.evaluation == "running":
            mean, moment = (self.spread(s, x) for s in stored)
            return mean, self._denominator(moment, given["eps"])
        real = self._real(x, given)
        mean = _mean(x, axes, real)
        about = mean if self.moment != "raw" and self.centre != "none" else torch.zeros_like(mean)
        deviation = x - about
        if self.part != "all":
            deviation = self._part(deviation, given)
        if self.moment == "absolute":
            return mean, _mean(deviation.abs(), axes, real) + given["eps"]
        if self.moment == "largest":
            return mean, deviation.abs().amax(axes, keepdim=True) + given["eps"]
        moment = _mean(deviation.square(), axes, real)
        if self.summed or self.correction or self.mask == "padding counted":
            count = _count(deviation, axes, real)
            if self.mask == "padding counted":
                moment = moment * count / _count(deviation, axes, None)
            moment = moment * (count if self.summed else count / (count - self.correction))
        return mean, self._denominator(moment, given["eps"])

    def sensitivity(self, x: Tensor, given: Given) -> Tensor:
        """Bound how far one unit of relative rounding error in x moves the result."""
        split, axes = self.split(x.double(), given)
        _, scale = self.statistics(split, axes, given)
        moved = split.abs().amax(axes, keepdim=True) / scale
        return self.affine(moved.expand(split.shape).reshape(x.shape), without(given, "bias")).abs()

    def _denominator(self, moment: Tensor, eps: float) -> Tensor:
        if self.eps_at in ("inside", "both", "squared"):
            moment = moment + (eps**2 if self.eps_at == "squared" else eps)
        elif self.eps_at == "floor":
            moment = moment.clamp(min=eps)
        if self.eps_at == "floor of the root" and self.root:
            return moment.clamp(min=eps * eps).sqrt()  # the root of 0 would have no slope
        scale = moment.sqrt() if self.root else moment
        if self.eps_at in ("outside", "both"):
            return scale + eps
        return scale.clamp(min=eps) if self.eps_at == "floor of the root" else scale

    def _part(self, x: Tensor, given: Given) -> Tensor:
        wanted = x.shape[-1] * given["p"]
        k = max(1, {"floor": floor, "ceil": ceil, "round": round}[self.count](wanted))
        match self.part:
            case "last":
                return x[..., -k:]
            case "strided":
                return x[..., :: max(1, x.shape[-1] // k)]
        return x[..., :k]

    def _real(self, x: Tensor, given: Given) -> Tensor | None:
        mask = given.get("mask")
        if mask is None or self.mask == "ignored":
            return None
        mask = ~mask if self.mask == "inverted" else mask
        return mask.unsqueeze(self.features).expand(x.shape)


@dataclass(frozen=True)
class RepStandardize(Standardize):
    """Add eta · x to a norm: RepBN."""

    skip: str = "eta x"  # | none | x | minus | eta standard | inside the gain | eta all

    addends: ClassVar[tuple[str, ...]] = ("bias", "eta")

    def __call__(self, x: Tensor, given: Given) -> Tensor:
        """Evaluate in float64."""
        x, given = x.double(), {**given, **dict(self.fixed)}
        eta = given.get("eta")
        eta = torch.ones((), dtype=torch.float64) if eta is None else self.spread(eta, x)
        y = self.affine(self.standard(x, given), given)
        match self.skip:
            case "none":
                return y
            case "x":
                return y + x
            case "minus":
                return y - eta * x
            case "eta standard":
                return y + eta * self.standard(x, given)
            case "inside the gain":
                return self.affine(self.standard(x, given) + eta * x, given)
            case "eta all":
                return eta * (y + x)
            case "mixed":
                return (1 - eta) * y + eta * x
        return y + eta * x


def _mean(x: Tensor, axes: tuple[int, ...], real: Tensor | None) -> Tensor:
    if real is None:
        return x.mean(axes, keepdim=True)
    return torch.where(real, x, 0.0).sum(axes, keepdim=True) / _count(x, axes, real)


def _count(x: Tensor, axes: tuple[int, ...], real: Tensor | None) -> Tensor:
    ones = torch.ones(x.shape, dtype=torch.float64) if real is None else real.double()
    return ones.sum(axes, keepdim=True)
