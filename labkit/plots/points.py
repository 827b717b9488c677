"""Points: every value of each group, beside its mean and 95 % interval."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from .alt import describe_spread, format_count, format_number, join_sentences
from .figure import Figure
from .looks import Look, choose_looks
from .reference import draw_references
from .series import check_series, mean_and_half, read_values, say_seeds, start_axes
from .style import QUIET, label_axes, name_rows, use_book_style, write_beside_row, write_text


@use_book_style()
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
    check_series(groups, "dots")
    table = {name: read_values(values) for name, values in groups.items()}
    thresholds = threshold if isinstance(threshold, Mapping) else {}
    if threshold is not None and not isinstance(threshold, Mapping):
        thresholds = {"threshold": float(threshold)}
    ax = start_axes(logx, height=1.15 + 0.42 * len(table) + 0.2 * bool(title))
    for x in thresholds.values():
        ax.axvline(x, color=QUIET, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    for row, (name, style) in enumerate(choose_looks(table).items()):
        _draw_group(ax, row, table[name], style)
    marks = draw_references(ax, reference, which="x")
    lines = {**thresholds, **marks.drawn}
    for i, (name, x) in enumerate(sorted(lines.items(), key=lambda line: line[1])):
        text = f"{name} {format_number(x)}" if name == "threshold" else name
        above = (0, 14 if i % 2 else 3)  # neighbours do not write over one another
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        write_text(ax, text, (x, 1), above, va="bottom", color=QUIET, **place)
    name_rows(ax, table)
    ax.spines["left"].set_visible(False)
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
    label_axes(ax, xlabel, "", title)
    seeds = say_seeds(map(len, table.values()))
    note = f"Points: {seeds}; tick and bar: mean and 95 % t interval."
    head = f"Dot plot of {xlabel} for {format_count(len(table), 'group')}"
    parts = [describe_spread(name, xs) for name, xs in table.items()]
    text = join_sentences(head, parts, lines) + marks.note
    data = [list(table.values()), list(lines.values())]
    return Figure(ax.figure, alt or text, caption, data, provenance, note + marks.note)


def _draw_group(ax: Any, row: int, values: list[float], style: Look) -> None:
    """Draw one group: its points above, its mean and interval below, the mean in figures."""
    kept = [x for x in values if isfinite(x)]
    mean, half = mean_and_half(kept)
    point: dict[str, Any] = {"markersize": 5, "markeredgewidth": 0, "alpha": 0.55}
    ax.plot(kept, [row - 0.17] * len(kept), style.marker, color=style.colour, **point)
    ax.hlines(row + 0.15, mean - half, mean + half, color=style.colour, linewidth=2)
    ax.plot(mean, row + 0.15, "|", color=style.colour, markersize=11, markeredgewidth=2.2)
    write_beside_row(ax, row, _format_mean(mean, half, len(values) - len(kept)))


def _format_mean(mean: float, half: float, lost: int) -> str:
    """Write mean ± half width with as many decimals as the half width deserves."""
    if not isfinite(mean):
        return "diverged"
    text = format_number(mean)
    if half > 0 and abs(mean) < 1e5:
        places = int(np.clip(1 - np.floor(np.log10(half)), 0, 6))
        text = f"{mean:.{places}f} ± {half:.{places}f}"
    return f"{text}, {lost} diverged" if lost else text
