"""Reference lines: what series are held against, drawn where the series stay readable beside them.

plots.curves(losses, …, reference=reference_lines(data) | {"no attention": blind})
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from .alt import format_number
from .labels import DOTS, End
from .style import QUIET

SERIES = 0.5  # the share of an axis that lines leave to the series, at least


class Marks(NamedTuple):
    """The reference lines of a figure: those that it draws, and those too far away."""

    drawn: dict[str, float]
    beyond: dict[str, float]

    @property
    def ends(self) -> list[End]:
        """Return what names the lines beside the axes."""
        return [End(name, value, None) for name, value in self.drawn.items()]

    @property
    def note(self) -> str:
        """Return what is not drawn, as a sentence that follows another."""
        far = ", ".join(f"{name} at {format_number(value)}" for name, value in self.beyond.items())
        return f" Beyond the axis: {far}." if far else ""


def draw_references(
    ax: Any,
    reference: Mapping[str, float] | None,
    limits: tuple[float, float] | None = None,
    which: str = "y",
) -> Marks:
    """Draw a thin dashed line at each named number that lies within the limits.

    Without limits the axis grows for lines, the nearest first, as far as the series allow. To be
    called when these are drawn and their scale is set.
    """
    reference = dict(reference or {})
    for name, value in reference.items():
        if not isfinite(value):
            raise ValueError(f"a reference line needs a finite number, {name!r} has {value}")
    axis, line = (ax.yaxis, ax.axhline) if which == "y" else (ax.xaxis, ax.axvline)
    to = axis.get_transform().transform
    places = dict(zip(reference, to(np.array([*reference.values()], dtype=float)), strict=True))
    low, high = sorted(to(np.array(limits or axis.get_view_interval(), dtype=float)).tolist())
    most = (high - low) / (1 if limits else SERIES)
    middle, beyond = (low + high) / 2, dict(reference)
    for name in sorted(reference, key=lambda name: abs(places[name] - middle)):
        reach = min(low, places[name]), max(high, places[name])
        if reach[1] - reach[0] <= most:
            low, high = reach
            line(beyond.pop(name), color=QUIET, linewidth=0.9, linestyle=DOTS, zorder=1)
    drawn = {name: value for name, value in reference.items() if name not in beyond}
    return Marks(drawn, beyond)
