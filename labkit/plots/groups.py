"""Groups of numbers: their points, slopes between two measurements, shares of a whole."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from .alt import describe_spread, format_count, format_number, join_sentences
from .axes import draw_references, start_axes
from .figure import Figure
from .looks import COLOURS, Look, choose_looks
from .series import check_series, mean_and_half, read_values, say_seeds
from .style import (
    HAIR,
    QUIET,
    label_axes,
    make_canvas,
    name_rows,
    use_book_style,
    write_beside_row,
    write_text,
)

Pair = tuple[list[float], list[float]]
# Shade and hatch of the first, second … part; the last part is the one to look at.
_QUIET = (("#cfd8e3", ""), ("#e9e2cf", ""), ("#dfe9dc", ""), ("#e6dbe6", ""), ("#eeeeee", ""))
_LOUD = (COLOURS["vermillion"], "//")


@use_book_style()
def dots(
    groups: Mapping[str, Sequence[float | None]],
    *,
    xlabel: str,
    caption: str,
    threshold: Mapping[str, float] | None = None,
    reference: Mapping[str, float] | None = None,
    title: str | None = None,
    counted: bool = False,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one row per group: every point, its mean, its interval and the mean in figures.

    A `threshold` is always drawn, a `reference` where the points stay readable beside it. What is
    `counted` or computed has no seeds, and the caption does not speak of any.
    """
    check_series(groups, "dots")
    table = {name: read_values(values) for name, values in groups.items()}
    thresholds = threshold or {}
    ax = start_axes(height=1.15 + 0.42 * len(table) + 0.2 * bool(title))
    for x in thresholds.values():
        ax.axvline(x, color=QUIET, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
    for row, (name, style) in enumerate(choose_looks(table).items()):
        _draw_group(ax, row, table[name], style)
    marks = draw_references(ax, reference, which="x")
    lines = {**thresholds, **marks.drawn}
    for i, (name, x) in enumerate(sorted(lines.items(), key=lambda line: line[1])):
        above = (0, 14 if i % 2 else 3)  # neighbours do not write over one another
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        write_text(ax, name, (x, 1), above, va="bottom", color=QUIET, **place)
    name_rows(ax, table)
    ax.spines["left"].set_visible(False)
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
    label_axes(ax, xlabel, "", title)
    seeds = say_seeds(map(len, table.values()))
    note = "" if counted else f"Points: {seeds}; tick and bar: mean and 95 % t interval."
    head = f"Dot plot of {xlabel} for {format_count(len(table), 'group')}"
    parts = [describe_spread(name, xs) for name, xs in table.items()]
    text = join_sentences(head, parts, lines) + marks.note
    data = [list(table.values()), list(lines.values())]
    return Figure(ax.figure, text, caption, data, provenance, note + marks.note)


@use_book_style()
def histograms(
    groups: Mapping[str, Sequence[float]],
    edges: Sequence[float],
    *,
    xlabel: str,
    caption: str,
    reference: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one histogram a row, all on the axis that `edges` fix: shares of a group's values.

    What lies beyond the axis is counted in the first or last bin.
    """
    check_series(groups, "histograms")
    picture = make_canvas(height=0.9 + 0.75 * len(groups) + 0.2 * bool(title))
    rows = picture.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    parts, drawn = [], []
    for ax, (name, style) in zip(rows, choose_looks(groups).items(), strict=True):
        values = np.array(read_values(groups[name]))
        counts, _ = np.histogram(values.clip(edges[0], edges[-1]), edges)
        shares = counts / len(values)
        ax.stairs(shares, edges, fill=True, color=style.colour)
        for x in (reference or {}).values():
            ax.axvline(x, color=QUIET, linewidth=0.9, linestyle=(0, (2, 2)))
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1), yticks=(0, 1), yticklabels=("0", "100 %"))
        write_text(ax, name, (1, 0.5), (8, 0), xycoords="axes fraction", va="center",
                   color=style.colour, weight="bold")  # fmt: skip
        tallest = int(shares.argmax())
        parts.append(
            f"{name} has {100 * shares[tallest]:.0f} % between {format_number(edges[tallest])} and "
            f"{format_number(edges[tallest + 1])}"
        )
        drawn.append(shares.tolist())
    for mark, x in (reference or {}).items():
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        write_text(rows[0], mark, (x, 1), (0, 3), va="bottom", color=QUIET, **place)
    label_axes(rows[-1], xlabel, "")
    rows[0].set_title(f"{title}\n" if title else "", loc="left", fontsize=10.5, fontweight="bold")
    head = f"Histograms of {xlabel} for {format_count(len(groups), 'group')}"
    return Figure(picture, join_sentences(head, parts, reference), caption, drawn)


@use_book_style()
def paired(
    groups: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    ylabel: str,
    caption: str,
    columns: tuple[str, str],
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw a slope from the first column to the second for every run of every group."""
    table = _read_pairs(groups, columns)
    ax = start_axes()
    parts = []
    for i, (name, style) in enumerate(choose_looks(table).items()):
        xs = (i - 0.24, i + 0.24)
        before, after = _draw_pair(ax, xs, table[name], style)
        parts.append(
            f"{name} {format_number(before)} and {format_number(after)}, "
            f"gap {format_number(before - after)}"
        )
        below: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
        for x, column in zip(xs, columns, strict=True):
            write_text(ax, column, (x, 0), (0, -5), fontsize=8.5, color=QUIET, **below)
    ax.set_xticks(range(len(table)), [f"\n{name}" for name in table])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.5, len(table) - 0.5)
    label_axes(ax, "", ylabel)
    seeds = say_seeds(len(first) for first, _ in table.values())
    left, right = columns
    note = f"Open mark: {left}; filled: {right}; thin lines: {seeds}; thick: their mean."
    head = f"Slopes of {ylabel} from {left} to {right}, {format_count(len(table), 'group')}"
    data = list(table.values())
    return Figure(ax.figure, join_sentences(head, parts), caption, data, provenance, note)


@use_book_style()
def share_bars(
    wholes: Mapping[str, Mapping[str, float]],
    *,
    caption: str,
    notes: Mapping[str, str],
) -> Figure:
    """Draw one bar of 100 % for each whole; the last part is loud, and its share is written.

    `notes` has a few words for the right end of each bar. All wholes have the same parts.
    """
    names = list(next(iter(wholes.values()), {}))
    if not names or any(list(parts) != names for parts in wholes.values()):
        raise ValueError("share_bars needs wholes with the same parts, in the same order")
    looks = [*_QUIET[: len(names) - 1], _LOUD]
    ax = start_axes(height=1.25 + 0.36 * len(wholes))
    edge: dict[str, Any] = {"height": 0.72, "edgecolor": "white", "linewidth": 0.8}
    parts = []
    for row, (whole, sizes) in enumerate(wholes.items()):
        left, share, total = 0.0, 0.0, sum(sizes.values())
        for size, (colour, hatch) in zip(sizes.values(), looks, strict=True):
            share = 100 * size / total
            ax.barh(row, share, left=left, color=colour, hatch=hatch, **edge)
            left += share
        write_beside_row(ax, row, f"{format_number(share)} %, {notes[whole]}")
        parts.append(f"{whole} {format_number(share)} %")
    name_rows(ax, wholes)
    ax.set_xlim(0, 100)
    ax.grid(False)
    ax.spines["left"].set_color(HAIR)
    label_axes(ax, "% of the whole", "")
    handles = ax.patches[: len(names)]
    where: dict[str, Any] = {"loc": "outside upper left", "ncols": len(names)}
    ax.figure.legend(handles, names, handlelength=1.4, **where)
    head = f"Bars of the share of {names[-1]} among {', '.join(names)}"
    data = [list(sizes.values()) for sizes in wholes.values()]
    return Figure(ax.figure, join_sentences(head, parts), caption, data)


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


def _read_pairs(groups: Mapping[str, Any], columns: tuple[str, str]) -> dict[str, Pair]:
    check_series(groups, "paired")
    table = {}
    for name, columns_of in groups.items():
        pair = [read_values(values) for values in columns_of]
        if len(pair) != 2 or len(pair[0]) != len(pair[1]) or not pair[0]:
            raise ValueError(
                f"paired needs one {columns[0]} and one {columns[1]} value for each run, "
                f"{name!r} has {[len(values) for values in pair]}"
            )
        table[name] = (pair[0], pair[1])
    return table


def _draw_pair(ax: Any, xs: tuple[float, float], pair: Pair, style: Look) -> list[float]:
    """Draw one group: a thin slope per run, a thick one of the means; give the means."""
    for run in zip(*pair, strict=True):
        ax.plot(xs, run, color=style.colour, linewidth=0.7, alpha=0.45)
    means, halves = zip(*map(mean_and_half, pair), strict=True)
    ax.plot(xs, means, color=style.colour, linewidth=2)
    point: dict[str, Any] = {"markersize": 7, "markeredgewidth": 1.4, "zorder": 4}
    for x, mean, half, fill in zip(xs, means, halves, ("white", style.colour), strict=True):
        ax.vlines(x, mean - half, mean + half, color=style.colour, linewidth=1.3)
        ax.plot(x, mean, style.marker, color=style.colour, markerfacecolor=fill, **point)
    return list(means)
