"""Names at the ends of lines when there is room, a legend beside the axes when there is not."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from scipy.optimize import isotonic_regression

from .looks import Look
from .style import QUIET, write_text

DOTS: Any = (0, (2, 2))


class End(NamedTuple):
    """A line's name, the height at which it ends, its look (None: a reference line)."""

    name: str
    height: float
    look: Look | None
    reaches: bool = True  # the line runs up to the right edge


def name_lines(ax: Any, ends: Sequence[End], markers: bool = True) -> None:
    """Write each name beside its line's end, or make a legend if the names would collide."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    wanted = ax.transData.transform([(0.0, end.height) for end in ends])[:, 1]
    line = 11.5 * ax.figure.dpi / 72
    placed = _spread_heights(wanted, line)
    room = len(ends) <= 9 and np.abs(placed - wanted).max() <= 1.5 * line
    if room and all(end.reaches for end in ends) and np.isfinite(wanted).all():
        for end, y in zip(ends, placed, strict=True):
            ink = {"color": end.look.colour, "weight": "bold"} if end.look else {"color": QUIET}
            spot = (1, (y - box.y0) / box.height)
            write_text(ax, end.name, spot, (7, 0), xycoords="axes fraction", va="center", **ink)
        return
    handles = [make_handle(end.name, end.look, markers) for end in ends]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def make_handle(name: str, look: Look | None, markers: bool = True) -> Line2D:
    """Make a legend's entry for a line of that look; without one, for a reference line."""
    if look is None:
        return Line2D([], [], color=QUIET, linewidth=0.9, linestyle=DOTS, label=name)
    marker = look.marker if markers else ""
    return Line2D([], [], color=look.colour, marker=marker, linestyle=look.line, label=name)


def _spread_heights(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Move heights as little as needed until neighbours are a line apart."""
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    placed = np.empty_like(wanted)
    placed[order] = isotonic_regression(wanted[order] - steps).x + steps
    return placed
