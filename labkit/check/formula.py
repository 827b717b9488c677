"""One float64 formula with a knob for every decision: the truth, and each known mistake.

    y = gain · (x − mean) / sqrt(moment + eps) + shift

Written apart from labkit.norms on purpose: two people's readings of the papers must agree.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

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
}


@dataclass(frozen=True)
class Formula:
    """Say every decision of a norm; call it for float64 values that autograd can follow."""

    pool: str  # a key of POOLS, "group", or "strided group"
    features: int  # the axis of gain and shift
    centre: str = "mean"  # | none | spread only
    moment: str = "about the mean"  # | raw | absolute
    correction: float = 0  # the divisor is (number of values − correction)
    summed: bool = False  # the sum of squares instead of their mean
    eps_at: str = "inside"  # | outside | both | none | floor | floor of the root | squared
    root: bool = True
    divide: bool = True
    gain: str = "times"  # | none | one plus | divide
    shift: str = "after"  # | none | before | minus
    swapped: bool = False
    cut: tuple[str, ...] = ()  # statistics that the gradient does not see: mean, spread

    def __call__(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, groups: int = 1
    ) -> Tensor:
        """Evaluate in float64."""
        split, axes = self.split(x.double(), groups)
        mean = split.mean(axes, keepdim=True)
        mean = mean.detach() if "mean" in self.cut else mean
        centred = split - mean if self.centre == "mean" else split
        scale = self._denominator(split, mean, axes, eps)
        scale = scale.detach() if "spread" in self.cut else scale
        y = centred / scale if self.divide else centred * scale
        return self._affine(y.reshape(x.shape), weight, bias)

    def split(self, x: Tensor, groups: int) -> tuple[Tensor, tuple[int, ...]]:
        """View x so that each set which shares statistics lies along the axes returned."""
        if self.pool == "group":
            split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
            return split, tuple(range(2, split.ndim))
        if self.pool == "strided group":
            split = x.reshape(x.shape[0], -1, groups, *x.shape[2:])
            return split, (1, *range(3, split.ndim))
        return x, POOLS[self.pool](x.ndim)

    def sensitivity(self, x: Tensor, weight: Tensor | None, eps: float, groups: int = 1) -> Tensor:
        """Bound how far one unit of relative rounding error in x moves the result."""
        split, axes = self.split(x.double(), groups)
        mean = split.mean(axes, keepdim=True)
        largest = split.abs().amax(axes, keepdim=True)
        moved = (largest / self._denominator(split, mean, axes, eps)).expand(split.shape)
        return self._affine(moved.reshape(x.shape), None if weight is None else weight.abs(), None)

    def _denominator(self, x: Tensor, mean: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
        about_mean = self.moment != "raw" and self.centre != "none"
        around = mean if about_mean else torch.zeros_like(mean)
        deviation = x - around
        if self.moment == "absolute":
            return deviation.abs().mean(axes, keepdim=True) + eps
        count = x[tuple(0 if a not in axes else slice(None) for a in range(x.ndim))].numel()
        total = deviation.square().sum(axes, keepdim=True)
        moment = total if self.summed else total / (count - self.correction)
        if self.eps_at in ("inside", "both", "squared"):
            moment = moment + (eps**2 if self.eps_at == "squared" else eps)
        elif self.eps_at == "floor":
            moment = moment.clamp(min=eps)
        scale = moment.sqrt() if self.root else moment
        if self.eps_at in ("outside", "both"):
            return scale + eps
        return scale.clamp(min=eps) if self.eps_at == "floor of the root" else scale

    def _affine(self, y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        weight, bias = (bias, weight) if self.swapped else (weight, bias)
        gain = 1.0 if weight is None or self.gain == "none" else self._spread(weight, y)
        shift = 0.0 if bias is None or self.shift == "none" else self._spread(bias, y)
        if self.gain == "one plus" and weight is not None:
            gain = 1.0 + gain
        if self.gain == "divide":
            gain = 1.0 / gain
        if self.shift == "before":
            return (y + shift) * gain
        return y * gain - shift if self.shift == "minus" else y * gain + shift

    def _spread(self, parameter: Tensor, y: Tensor) -> Tensor:
        axis = self.features % y.ndim
        return parameter.double().view(-1, *[1] * (y.ndim - 1 - axis))
