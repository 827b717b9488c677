"""The axis of a question: between which numbers its answer is looked for, and how they are written.

    −0.5 to 1.5 nats        linear
    0.1 to 100 times, log   powers of ten
    0 to 5 models, whole    whole numbers
    0 to 100 %              of what a claim writes as a share, 0 to 1

An axis has a grid, so that a key moves a mark by one step: about a hundredth of a linear axis, a
twentieth of a power of ten, or 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from labkit.statistics.criteria import Criterion

NUMBER = r"[-−+]?\d[\d,]*(?:\.\d+)?"
TYPED = re.compile(
    rf"(?P<low>{NUMBER}) to (?P<high>{NUMBER})(?: (?P<unit>[^,]+?))?(?:, (?P<scale>log|whole))?"
)
FORM = '"−0.5 to 1.5 nats", "0.1 to 100 times, log", "0 to 5 models, whole" or "0 to 100 %"'
STEPS = 100  # of a linear axis, about
STEPS_OF_TEN = 20  # of a power of ten
NICE = (1.0, 2.0, 5.0, 10.0)
NEAR = 0.12  # of an axis: a label closer than this to another is left out


@dataclass(frozen=True)
class Axis:
    """Two ends in the unit that is shown, with low < high; a logarithmic axis is above 0."""

    low: float
    high: float
    unit: str = ""
    scale: str = "linear"  # or log, or whole

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(
                f"the lower end of an axis must be below its upper end, got {self.low:g} to "
                f"{self.high:g}"
            )
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"a logarithmic axis must begin above 0, got {self.low:g}")
        if self.scale == "whole" and (self.low % 1 or self.high % 1):
            raise ValueError(f"the ends of a whole axis are, got {self.low:g} to {self.high:g}")

    @property
    def factor(self) -> float:
        """Return by what a claim's number is multiplied to stand on the axis."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def step(self) -> float:
        """Return the step of the grid; of a logarithmic axis, in powers of ten."""
        if self.scale == "whole":
            return 1.0
        if self.scale == "log":
            return 1 / STEPS_OF_TEN
        rough = (self.high - self.low) / STEPS
        ten = 10.0 ** math.floor(math.log10(rough))
        return next(nice * ten for nice in NICE if nice * ten >= rough * (1 - 1e-9))

    def place(self, value: float) -> float:
        """Return where a number of the axis stands: 0 at its low end, 1 at its high end."""
        if self.scale == "log":
            value = max(value, 1e-300)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def holds(self, value: float) -> bool:
        """Return whether a claim's number stands on the axis."""
        return -1e-9 <= self.place(value * self.factor) <= 1 + 1e-9

    def decides(self, rule: Criterion) -> bool:
        """Return whether a part of the axis meets a criterion and another does not."""
        ends = [self.low / self.factor, self.high / self.factor]
        inside = [bound for bound in rule.bounds if ends[0] <= bound <= ends[1]]
        corners = sorted({*ends, *inside})
        middles = [(a + b) / 2 for a, b in pairwise(corners)]
        return len({rule.is_met(value) for value in (*corners, *middles)}) == 2

    def format(self, value: float) -> str:
        """Write a number of the axis, as finely as its grid tells numbers apart."""
        if self.scale == "log":
            digits = 1 - math.floor(math.log10(abs(value))) if value else 0
            text = f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}"
            text = text.rstrip("0").rstrip(".") if "." in text else text
        else:
            places = max(0, -math.floor(math.log10(self.step) + 1e-9))
            text = f"{round(value, places) + 0.0:,.{places}f}"  # no minus before a zero
        return text.replace("-", "−")

    def name(self, number: str) -> str:
        """Add the unit to a number."""
        return f"{number} {self.unit}" if self.unit else number

    def list_ticks(self) -> Iterator[tuple[float, str]]:
        """Yield what is labelled: the ends, and what lies between them, where there is room."""
        ends = [self.low, self.high]
        if self.scale == "log":
            first, last = (math.log10(end) for end in ends)
            between = [10.0**k for k in range(math.floor(first) + 1, math.ceil(last))]
        else:
            between = [0.0] if self.low < 0 < self.high else [(self.low + self.high) / 2]
            between = between if self.scale == "linear" else []
        shown = [self.low]
        for value in between:
            gaps = (abs(self.place(value) - self.place(other)) for other in (*shown, self.high))
            if min(gaps) >= NEAR:
                shown.append(value)
        for value in (*shown, self.high):
            yield self.place(value), f"{value:,g}".replace("-", "−")

    def describe(self, rule: Criterion) -> str:
        """Say in words which part of the axis meets a criterion."""
        bounds = [f"{bound * self.factor:g}".replace("-", "−") for bound in rule.bounds]
        if rule.two_sided:
            same = rule.low == rule.high
            return self.name(bounds[0] if same else f"{bounds[0]} to {bounds[1]}")
        more = math.isfinite(rule.low)
        words = ("more than" if more else "less than") if rule.strict else (
            "at least" if more else "at most")  # fmt: skip
        return f"{words} {self.name(bounds[0])}"


def read_axis(text: str) -> Axis:
    """Read an axis as a chapter types it.

    Raises:
        ValueError: the text is none, or its ends cannot be those of an axis.
    """
    match = TYPED.fullmatch(" ".join(text.split()))
    if match is None:
        raise ValueError(f"an axis must look like {FORM}; got {text.strip()!r}")
    low, high = (float(match[end].replace("−", "-").replace(",", "")) for end in ("low", "high"))
    return Axis(low, high, match["unit"] or "", match["scale"] or "linear")
