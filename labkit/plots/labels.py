"""Names at the ends of lines when there is room, a legend beside the axes when there is not."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from .looks import Look
from .style import QUIET

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
    low, high = ax.get_window_extent().y0, ax.get_window_extent().y1
    points = np.array([(0.0, end.height) for end in ends])
    wanted = ax.transData.transform(points)[:, 1]
    line = 11.5 * ax.figure.dpi / 72
    placed = _apart(wanted, line)
    room = np.abs(placed - wanted).max() <= 1.5 * line
    if room and all(end.reaches for end in ends) and len(ends) <= 9 and np.isfinite(wanted).all():
        for end, y in zip(ends, placed, strict=True):
            ax.annotate(
                end.name,
                (1, (y - low) / (high - low)),
                xycoords="axes fraction",
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                color=end.look.colour if end.look else QUIET,
                fontweight="bold" if end.look else "normal",
                fontsize=9,
            )
        return
    ax.legend(
        handles=[_handle(end, markers) for end in ends],
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        borderaxespad=0,
    )


def _handle(end: End, markers: bool) -> Line2D:
    if end.look is None:
        return Line2D([], [], color=QUIET, linewidth=0.9, linestyle=DOTS, label=end.name)
    colour, marker, _ = end.look
    style: dict[str, Any] = {"marker": marker if markers else "", "linestyle": end.look.line}
    return Line2D([], [], color=colour, label=end.name, **style)


def _apart(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Move heights as little as needed until neighbours are a line apart."""
    order = np.argsort(wanted, kind="stable")
    groups: list[list[float]] = []  # [centre, members]
    for y in wanted[order]:
        groups.append([float(y), 1])
        while len(groups) > 1:
            (below, n), (above, m) = groups[-2:]
            if above - below >= (n + m) / 2 * gap:
                break
            groups[-2:] = [[(below * n + above * m) / (n + m), n + m]]
    placed = [centre + (i - (n - 1) / 2) * gap for centre, n in groups for i in range(int(n))]
    result = np.empty_like(wanted)
    result[order] = placed
    return result
