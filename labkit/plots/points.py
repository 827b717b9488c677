"""Points: every value of each group, beside its mean and 95 % interval."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from .alt import count, number, sentences, spread
from .figure import Figure
from .looks import looks
from .reference import mark
from .stats import floats, mean_and_half, need, seeds_in
from .style import QUIET, book, canvas, dress


@book()
def dots(
    groups: Mapping[str, Sequence[float | None]],
    *,
    xlabel: str,
    caption: str,
    threshold: Mapping[str, float] | float | None = None,
    reference: Mapping[str, float] | None = None,
    logx: bool = False,
    title: str | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one row per group: every point, its mean, its interval and the mean in figures.

    A `threshold` is always drawn, a `reference` where the points stay readable beside it.
    """
    need(groups, "dots")
    table = {name: floats(values) for name, values in groups.items()}
    lines = threshold if isinstance(threshold, Mapping) else {}
    if threshold is not None and not isinstance(threshold, Mapping):
        lines = {"threshold": float(threshold)}
    picture = canvas(height=1.15 + 0.42 * len(table) + 0.2 * bool(title))
    ax = picture.add_subplot()
    if logx:
        ax.set_xscale("log")
    for x in lines.values():
        ax.axvline(x, color=QUIET, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    for row, (name, style) in enumerate(looks(table).items()):
        kept = [x for x in table[name] if isfinite(x)]
        mean, half = mean_and_half(kept)
        ax.plot(
            kept, np.full(len(kept), row - 0.17), style.marker, color=style.colour,
            markersize=5, markeredgewidth=0, alpha=0.55,
        )  # fmt: skip
        ax.hlines(row + 0.15, mean - half, mean + half, color=style.colour, linewidth=2)
        ax.plot(mean, row + 0.15, "|", color=style.colour, markersize=11, markeredgewidth=2.2)
        ax.annotate(
            _figures(mean, half, len(table[name]) - len(kept)),
            (1, row), xycoords=("axes fraction", "data"), xytext=(8, 0),
            textcoords="offset points", va="center", fontsize=9,
        )  # fmt: skip
    marks = mark(ax, reference, which="x")
    lines = {**lines, **marks.drawn}
    for row, name in enumerate(sorted(lines, key=lambda name: lines[name])):
        x, high = lines[name], row % 2  # neighbours do not write over one another
        ax.annotate(
            f"{name} {number(x)}" if name == "threshold" else name,
            (x, 1), xycoords=("data", "axes fraction"), xytext=(0, 3 + 11 * high),
            textcoords="offset points", ha="center", va="bottom", color=QUIET, fontsize=9,
        )  # fmt: skip
    ax.set_yticks(range(len(table)), list(table))
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
    dress(ax, xlabel, "", title)
    head = f"Dot plot of {xlabel} for {count(len(table), 'group')}"
    note = f"Points: {seeds_in(map(len, table.values()))}; tick and bar: mean and 95 % t interval."
    return Figure(
        picture,
        alt
        or sentences(head, [spread(name, xs) for name, xs in table.items()], lines) + marks.note,
        caption and f"{caption} {note}{marks.note}",
        [list(table.values()), list(lines.values())],
        provenance,
    )


def _figures(mean: float, half: float, lost: int) -> str:
    """Write mean ± half width with as many decimals as the half width deserves."""
    if not isfinite(mean):
        return "diverged"
    if half > 0:
        places = int(np.clip(1 - np.floor(np.log10(half)), 0, 6))
        text = f"{mean:.{places}f} ± {half:.{places}f}" if abs(mean) < 1e5 else number(mean)
    else:
        text = number(mean)
    return f"{text}, {lost} diverged" if lost else text
