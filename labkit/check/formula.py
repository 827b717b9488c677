"""One float64 formula for every norm, with a setting for each decision: the truth and all mistakes.

    u = (x − mean) / sqrt(moment + eps)       if the norm has statistics; else u = x
    s = f(alpha · u / bound + inner shift)    if it squashes; else s = u
    y = gain · s + shift  (+ eta · x, for RepBN)

The right settings define a norm (specs.py); one wrong setting is a known mistake (mistakes.py). The
formula is deliberately independent of labkit.norms: two readings of the papers must agree. It takes
the same arguments as an implementation, by role: weight, bias, eps, …
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import torch
from torch import Tensor

Given = Mapping[str, Any]

# Which axes share statistics, for an input with `n` axes; "group" and "strided group" besides.
POOLS = {
    "last": lambda n: (n - 1,),
    "first": lambda n: (0,),
    "all": lambda n: tuple(range(n)),
    "all but the first": lambda n: tuple(range(1, n)),
    "all but the last": lambda n: tuple(range(n - 1)),
    "all but the channel": lambda n: (0, *range(2, n)),
    "channel": lambda n: (min(1, n - 1),),
    "space": lambda n: tuple(range(2, n)),
    "last of space": lambda n: (n - 1,) if n > 2 else (1,),
}
# The denominator, from the moment v and eps.
ROOTS = {
    "inside": lambda v, e: (v + e).sqrt(),
    "outside": lambda v, e: v.sqrt() + e,
    "none": lambda v, e: v.sqrt(),
    "both": lambda v, e: (v + e).sqrt() + e,
    "floor": lambda v, e: v.clamp(min=e).sqrt(),
    "floor of the root": lambda v, e: v.clamp(min=e * e).sqrt(),  # the root of 0 has no slope
    "floor of the length": lambda v, e: v.clamp(min=e * e).sqrt(),  # e is that of one value
    "squared": lambda v, e: (v + e * e).sqrt(),
    "no root": lambda v, e: v + e,
    "no root, a floor": lambda v, e: v.clamp(min=e),
    "multiplied": lambda v, e: 1 / (v + e).sqrt(),
    "multiplied, a floor": lambda v, e: 1 / v.clamp(min=e * e).sqrt(),
}
GAINS = {
    "times": lambda w: w,
    "none": lambda w: 1.0,
    "one plus": lambda w: 1.0 + w,
    "two plus": lambda w: 2.0 + w,
    "minus one": lambda w: w - 1.0,
    "divide": lambda w: 1.0 / w,
    "absolute": lambda w: w.abs(),
    "squared": lambda w: w.square(),
    "mean": lambda w: w.mean(),
}
SQUASHES = {
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "clip": lambda u: u.clamp(-1.0, 1.0),
    "arctan": torch.atan,
    "softsign": lambda u: u / (1 + u.abs()),
    "erf of u/√2": lambda u: torch.erf(u / 2**0.5),
    "one minus erf": torch.erfc,
    "nothing": lambda u: u,
}
SLOPES = {  # what alpha, or BHyT's lambda, does to the argument of the squash
    "inside": lambda u, a: u * a,
    "both": lambda u, a: u * a,
    "divide": lambda u, a: u / a,
    "squared": lambda u, a: u * a**2,
    "absolute": lambda u, a: u * abs(a),
}


@dataclass(frozen=True)
class Formula:
    """All decisions that define a norm; calling it computes the norm in float64 with gradients."""

    # statistics
    pool: str = "last"  # a key of POOLS, "group", "strided group", or "" for no statistics
    centre: str = "mean"  # | none | spread only: what is subtracted from x
    moment: str = "about the mean"  # | raw | absolute | largest
    correction: float = 0  # the divisor is (number of values − correction)
    summed: bool = False  # the sum of squares instead of their mean
    eps_at: str = "inside"  # a key of ROOTS
    cut: tuple[str, ...] = ()  # statistics that the gradient does not see: mean, spread
    part: str = "all"  # | first | last: the features that the moment is taken of
    count: str = "floor"  # | ceil | round: how p · d becomes a number of features
    twice: bool = False  # the normalized value is normalized again
    only_part: bool = False  # the features outside the part stay as they are
    mask: str = "used"  # | ignored | inverted | padding counted
    evaluation: str = "running"  # | batch: whose statistics where running ones are given
    # squash
    f: str = ""  # a key of SQUASHES, or "" for none
    slope: str = "alpha"  # the role of the number that multiplies: alpha, or BHyT's scale
    slope_start: float = 0.5
    alpha: str = "inside"  # a key of SLOPES | outside | none
    inner: str = "after alpha"  # | before alpha | outside | minus | none
    bound: str = ""  # | inside | ignored | outside | times: BHyT's kappa
    # gain and shift
    features: int = -1  # the axis of parameters that hold one number for each feature
    gain_first: bool = False  # the gain multiplies x, and not what is normalized
    gain: str = "times"  # a key of GAINS | unset: as if none were given | added
    unset_gain: str = "one"  # | root of d | two: what multiplies where no gain is given
    shift: str = "after"  # | none | before | minus
    swapped: bool = False
    skip: bool = False  # eta · x is added: RepBN
    fixed: tuple[tuple[str, Any], ...] = ()  # settings that are used, whatever is given

    def __call__(self, x: Tensor, given: Given) -> Tensor:
        """Evaluate in float64."""
        x, given = x.double(), {**given, **dict(self.fixed)}
        if self.gain_first and given.get("weight") is not None:
            x = x * GAINS[self.gain](self.spread(given["weight"], x))
            given["weight"] = None
        standard = self.standardize(x, given) if self.pool else x
        standard = self.standardize(standard, given) if self.twice else standard
        y = self.squash(standard, given) if self.f else standard
        if not self.skip:
            return self.affine(y, given)
        eta = self.spread(1.0 if given.get("eta") is None else given["eta"], x)
        return self.affine(y, given) + eta * x

    def standardize(self, x: Tensor, given: Given) -> Tensor:
        """Divide the centred values by the denominator."""
        split, axes = self.split_units(x, given)
        mean, scale = self._measure_statistics(split, axes, given)
        mean = mean.detach() if "mean" in self.cut else mean
        scale = scale.detach() if "spread" in self.cut else scale
        y = (split - mean if self.centre == "mean" else split) / scale
        if self.only_part:
            inside = torch.zeros(x.shape[-1], dtype=torch.bool)
            # Which positions count: their numbers are cut as the features would be.
            inside[self._count_part(torch.arange(x.shape[-1]), given)] = True
            y = torch.where(inside, y, split)
        return y.reshape(x.shape)

    def squash(self, x: Tensor, given: Given) -> Tensor:
        """Squash alpha · x + s, or lambda · x / kappa."""
        alpha, inner = given.get(self.slope), given.get("shift")
        alpha = self.slope_start if alpha is None else self.spread(alpha, x)
        inner = 0.0 if inner is None else self.spread(inner, x)
        bound = given.get("bound", 1.0)
        u = x + inner if self.inner == "before alpha" else x
        u = SLOPES[self.alpha](u, alpha) if self.alpha in SLOPES else u
        u = u / bound if self.bound == "inside" else u * bound if self.bound == "times" else u
        u = u + inner if self.inner == "after alpha" else u - inner if self.inner == "minus" else u
        y = SQUASHES[self.f](u)
        y = y * alpha if self.alpha in ("outside", "both") else y
        y = y / bound if self.bound == "outside" else y
        return y + inner if self.inner == "outside" else y

    def affine(self, y: Tensor, given: Given) -> Tensor:
        """Apply gain and shift."""
        weight, bias = given.get("weight"), given.get("bias")
        weight, bias = (bias, weight) if self.swapped else (weight, bias)
        root: Any = y.shape[self.features] ** 0.5
        gain = {"one": 1.0, "two": 2.0, "root of d": root}[self.unset_gain]
        if weight is not None and self.gain == "added":
            y = y + self.spread(weight, y)
        elif weight is not None and self.gain != "unset":
            gain = GAINS[self.gain](self.spread(weight, y))
        shift = 0.0 if bias is None or self.shift == "none" else self.spread(bias, y)
        if self.shift == "before":
            return (y + shift) * gain
        return y * gain - shift if self.shift == "minus" else y * gain + shift

    def spread(self, parameter: Any, y: Tensor) -> Tensor:
        """Reshape a parameter to the feature axis; a single number broadcasts."""
        parameter = torch.as_tensor(parameter).double()
        if parameter.numel() == 1:
            return parameter.reshape(())
        axis = self.features % y.ndim
        return parameter.view(-1, *[1] * (y.ndim - 1 - axis))

    def room(self, x: Tensor, given: Given, rtol: float, atol: float) -> Tensor:
        """Return the rounding error that a correct implementation may have.

        It is `rtol` of the terms that are added, plus `atol` of the largest of them: rounding
        errors grow with the terms, not with a sum that cancels. In addition, x itself may be off by
        four units in the last place of the computation's dtype: if the spread is small compared
        with the mean, every correct implementation magnifies that error.
        """
        if not self.pool and not self.f:
            return torch.zeros(x.shape, dtype=torch.float64)  # nothing is computed
        rest = {**given, "bias": None, "eta": torch.zeros(())}
        before = self(x, rest)
        parts = before.abs()
        for role in ("bias", "eta") if self.skip else ("bias",):
            rest[role] = given.get(role)
            after = self(x, rest)
            parts, before = parts + (after - before).abs(), after
        finite = parts[parts.isfinite()]
        largest = finite.max() if finite.numel() else 0.0
        step = 4 * torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
        return rtol * parts + atol * largest + step * self.sensitivity(x, given)

    def sensitivity(self, x: Tensor, given: Given) -> Tensor:
        """Bound the change of the result per unit of relative rounding error in x."""
        inner, alpha = (given.get(role) for role in ("shift", self.slope))
        # Values bounded by 1 may be computed to this absolute accuracy.
        moved = torch.ones(x.shape, dtype=torch.float64) * (1 + abs(float(inner or 0.0)))
        if self.pool:
            split, axes = self.split_units(x.double(), given)
            _, scale = self._measure_statistics(split, axes, given)
            moved = split.abs().amax(axes, keepdim=True) / scale
            moved = moved.expand(split.shape).reshape(x.shape)
        if self.bound:
            slope = abs(self.slope_start if alpha is None else float(alpha)) / given["bound"]
            moved = moved * max(slope, 1e-3)
        return self.affine(moved, {**given, "bias": None}).abs()

    def split_units(self, x: Tensor, given: Given) -> tuple[Tensor, tuple[int, ...]]:
        """View x so that each set of values that share statistics lies along the returned axes."""
        groups = given.get("num_groups", 1)
        if self.pool == "group":
            split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
            return split, tuple(range(2, split.ndim))
        if self.pool == "strided group":
            split = x.reshape(x.shape[0], -1, groups, *x.shape[2:])
            return split, (1, *range(3, split.ndim))
        return x, POOLS[self.pool](x.ndim)

    def _measure_statistics(
        self, x: Tensor, axes: tuple[int, ...], given: Given
    ) -> tuple[Tensor, Tensor]:
        """Return the mean and the denominator, from the running statistics if those are used."""
        root, stored = ROOTS[self.eps_at], given.get("running")
        if stored is not None and self.evaluation == "running":
            mean, moment = (self.spread(s, x) for s in stored)
            return mean, root(moment, given["eps"])
        mask = given.get("mask") if self.mask != "ignored" else None
        real = torch.ones((), dtype=torch.bool).expand(x.shape)
        if mask is not None:
            mask = ~mask if self.mask == "inverted" else mask
            real = mask.unsqueeze(self.features).expand(x.shape)

        def average(values: Tensor) -> Tensor:
            known = real[tuple(slice(n) for n in values.shape)]
            counted = torch.ones_like(known) if self.mask == "padding counted" else known
            total = torch.where(known, values, 0.0).sum(axes, keepdim=True)
            count = counted.sum(axes, keepdim=True)
            return total / (1 if self.summed else count - self.correction)

        # where, not x · mask: infinity times 0 is NaN.
        mean = torch.where(real, x, 0.0).sum(axes, keepdim=True) / real.sum(axes, keepdim=True)
        about_mean = self.moment != "raw" and self.centre != "none"
        deviation = x - mean if about_mean else x
        deviation = self._count_part(deviation, given) if self.part != "all" else deviation
        if self.moment == "absolute":
            return mean, average(deviation.abs()) + given["eps"]
        if self.moment == "largest":
            return mean, deviation.abs().amax(axes, keepdim=True) + given["eps"]
        eps = given["eps"]
        if self.eps_at == "floor of the length":
            eps = eps / real.sum(axes, keepdim=True).sqrt()
        return mean, root(average(deviation.square()), eps)

    def _count_part(self, x: Tensor, given: Given) -> Tensor:
        wanted = x.shape[-1] * given["p"]
        k = max(1, {"floor": floor, "ceil": ceil, "round": round}[self.count](wanted))
        return x[..., -k:] if self.part == "last" else x[..., :k]
