"""Groups of numbers: points, slopes between two measurements, parts of a whole."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from labkit.statistics.pooled import Difference

from .alt import describe_spread, format_count, format_number, join_sentences
from .axes import DOTS, draw_references, start_axes
from .figure import Figure, redrawable
from .looks import COLOURS, Look, choose_looks
from .marks import Marks, name_key
from .series import check_series, mean_and_half, read_values, say_interval, say_seeds
from .style import (
    HAIR,
    QUIET,
    is_narrow,
    label_axes,
    make_canvas,
    name_rows,
    wrap,
    write_beside_row,
    write_text,
)

Pair = tuple[list[float], list[float]]
# Shade and hatch of the first, second … part; the last part is the one to look at.
_QUIET = (("#cfd8e3", ""), ("#e9e2cf", ""), ("#dfe9dc", ""), ("#e6dbe6", ""), ("#eeeeee", ""))
_LOUD = (COLOURS["vermillion"], "//")


@redrawable
def dots(
    groups: Mapping[str, Sequence[float | None] | Difference],
    *,
    xlabel: str,
    caption: str,
    threshold: Mapping[str, float] | None = None,
    reference: Mapping[str, float] | None = None,
    title: str | None = None,
    counted: bool = False,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one row per group: every point, its mean, its interval and the mean as a number.

    A `threshold` is always drawn, a `reference` only if the points stay readable. `counted` or
    computed values have no seeds, so the caption does not mention seeds.
    """
    check_series(groups, "dots")
    table = {name: read_values(values) for name, values in groups.items()}
    thresholds = threshold or {}
    row_height = 0.55 if is_narrow() else 0.42  # a phone has the names above the rows
    ax = start_axes(height=1.15 + row_height * len(table) + 0.2 * bool(title))
    marks = Marks("", of="group", runs="values" if counted else "seeds")
    keys = []
    for x in thresholds.values():
        ax.axvline(x, color=QUIET, linewidth=1, linestyle=DOTS, zorder=1)
    for row, (name, style) in enumerate(choose_looks(table).items()):
        spot = [(mean_and_half(table[name])[0], row + 0.15)]
        keys.append(marks.add(name, ax, xlabel, [""], [table[name]], places=spot))
        _draw_group(ax, row, table[name], style, keys[-1])
    beside = draw_references(ax, reference, which="x")
    lines = {**thresholds, **beside.drawn}
    for i, (name, x) in enumerate(sorted(lines.items(), key=lambda line: line[1])):
        above = (0, 14 if i % 2 else 3)  # neighbours do not write over one another
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        write_text(ax, name, (x, 1), above, va="bottom", color=QUIET, **place)
    name_rows(ax, table, [*map(name_key, keys)])
    ax.spines["left"].set_visible(False)
    ax.grid(True, axis="x")
    ax.grid(False, axis="y")
    label_axes(ax, xlabel, "", title)
    seeds = say_seeds(map(len, table.values()))
    bars = say_interval(table.values())
    note = "" if counted else f"Points: {seeds}; tick and bar: mean and {bars}."
    head = f"Dot plot of {xlabel} for {format_count(len(table), 'group')}"
    parts = [describe_spread(name, xs) for name, xs in table.items()]
    text = join_sentences(head, parts, lines) + beside.note
    data = [list(table.values()), list(lines.values())]
    return Figure(ax.figure, text, caption, data, provenance, note + beside.note, marks)


@redrawable
def histograms(
    groups: Mapping[str, Sequence[float]],
    edges: Sequence[float],
    *,
    xlabel: str,
    caption: str,
    reference: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one histogram per row, all on the axis of `edges`: fractions of a group's values.

    Values beyond the axis are counted in the first or last bin.
    """
    check_series(groups, "histograms")
    picture = make_canvas(height=0.9 + 0.75 * len(groups) + 0.2 * bool(title))
    rows = picture.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    marks = Marks(f"{xlabel}, middle of the bin")
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    parts, drawn = [], []
    for ax, (name, style) in zip(rows, choose_looks(groups).items(), strict=True):
        values = np.array(read_values(groups[name]))
        counts, _ = np.histogram(values.clip(edges[0], edges[-1]), edges)
        shares = counts / len(values)
        key = marks.add(name, ax, "share of the values", middles, [[s] for s in shares])
        ax.stairs(shares, edges, fill=True, color=style.colour, gid=key)
        for x in (reference or {}).values():
            ax.axvline(x, color=QUIET, linewidth=0.9, linestyle=DOTS)
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1), yticks=(0, 1), yticklabels=("0", "100 %"))
        if is_narrow():
            at, aside, how = (1, 1), (0, -2), {"ha": "right", "va": "top"}
        else:
            at, aside, how = (1, 0.5), (8, 0), {"va": "center"}
        write_text(ax, name, at, aside, xycoords="axes fraction", color=style.colour,
                   weight="bold", gid=name_key(key), **how)  # fmt: skip
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
    head = wrap(title, 36) + "\n" if title else ""
    rows[0].set_title(head, loc="left", fontsize=10.5, fontweight="bold")
    head = f"Histograms of {xlabel} for {format_count(len(groups), 'group')}"
    text = join_sentences(head, parts, reference)
    return Figure(picture, text, caption, drawn, marks=marks)


@redrawable
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
    marks = Marks("condition")
    parts = []
    for i, (name, style) in enumerate(choose_looks(table).items()):
        xs = (i - 0.24, i + 0.24)
        places = [(x, mean_and_half(of)[0]) for x, of in zip(xs, table[name], strict=True)]
        key = marks.add(name, ax, ylabel, columns, table[name], places=places)
        before, after = _draw_pair(ax, xs, table[name], style, key)
        parts.append(
            f"{name} {format_number(before)} and {format_number(after)}, "
            f"gap {format_number(before - after)}"
        )
        below: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
        for x, column in zip(xs, columns, strict=True):
            write_text(ax, column, (x, 0), (0, -5), fontsize=8.5, color=QUIET, **below)
    ax.set_xticks(range(len(table)), [f"\n{wrap(name, 9)}" for name in table])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.5, len(table) - 0.5)
    label_axes(ax, "", ylabel)
    seeds = say_seeds(len(first) for first, _ in table.values())
    left, right = columns
    note = f"Open mark: {left}; filled: {right}; thin lines: {seeds}; thick: their mean."
    head = f"Slopes of {ylabel} from {left} to {right}, {format_count(len(table), 'group')}"
    data = list(table.values())
    text = join_sentences(head, parts)
    return Figure(ax.figure, text, caption, data, provenance, note, marks)


@redrawable
def share_bars(
    wholes: Mapping[str, Mapping[str, float]],
    *,
    caption: str,
    notes: Mapping[str, str],
) -> Figure:
    """Draw one bar of 100 % for each whole; the last part is highlighted and labelled.

    `notes` has a short text for the right end of each bar. All wholes have the same parts.
    """
    names = list(next(iter(wholes.values()), {}))
    if not names or any(list(parts) != names for parts in wholes.values()):
        raise ValueError("all wholes of share_bars must have the same parts, in the same order")
    looks = [*_QUIET[: len(names) - 1], _LOUD]
    row_height = 0.62 if is_narrow() else 0.36
    ax = start_axes(height=1.25 + row_height * len(wholes) + 0.2 * is_narrow() * len(names))
    marks = Marks("part", of="whole")
    keys = []
    edge: dict[str, Any] = {
        "height": 0.4 if is_narrow() else 0.72,
        "edgecolor": "white",
        "linewidth": 0.8,
    }
    parts = []
    for row, (whole, sizes) in enumerate(wholes.items()):
        left, share, total = 0.0, 0.0, sum(sizes.values())
        shares = [100 * size / total for size in sizes.values()]
        middles = [(sum(shares[:i]) + s / 2, row) for i, s in enumerate(shares)]
        values = [[s] for s in shares]
        keys.append(marks.add(whole, ax, "% of the whole", names, values, places=middles))
        for size, (colour, hatch) in zip(sizes.values(), looks, strict=True):
            share = 100 * size / total
            for bar in ax.barh(row, share, left=left, color=colour, hatch=hatch, **edge):
                bar.set_gid(keys[-1])
            left += share
        write_beside_row(ax, row, f"{format_number(share)} %, {notes[whole]}")
        parts.append(f"{whole} {format_number(share)} %")
    name_rows(ax, wholes, [*map(name_key, keys)])
    ax.set_xlim(0, 100)
    ax.grid(False)
    ax.spines["left"].set_color(HAIR)
    label_axes(ax, "% of the whole", "")
    handles = ax.patches[: len(names)]
    columns = 1 if is_narrow() else len(names)
    where: dict[str, Any] = {"loc": "outside upper left", "ncols": columns}
    ax.figure.legend(handles, names, handlelength=1.4, **where)
    head = f"Bars of the share of {names[-1]} among {', '.join(names)}"
    data = [list(sizes.values()) for sizes in wholes.values()]
    return Figure(ax.figure, join_sentences(head, parts), caption, data, marks=marks)


def _draw_group(ax: Any, row: int, values: list[float], style: Look, key: str) -> None:
    """Draw one group: its points above, its mean and interval below, the mean as a number."""
    kept = [x for x in values if isfinite(x)]
    mean, half = mean_and_half(values)
    ink: dict[str, Any] = {"color": style.colour, "gid": key}
    point: dict[str, Any] = {"markersize": 5, "markeredgewidth": 0, "alpha": 0.55, **ink}
    ax.plot(kept, [row - 0.17] * len(kept), style.marker, **point)
    ax.hlines(row + 0.15, mean - half, mean + half, linewidth=2, **ink)
    ax.plot(mean, row + 0.15, "|", markersize=11, markeredgewidth=2.2, **ink)
    write_beside_row(ax, row, _format_mean(mean, half, len(values) - len(kept)))


def _format_mean(mean: float, half: float, lost: int) -> str:
    """Format mean ± half-width with as many decimals as the half-width justifies."""
    if not isfinite(mean):
        return "diverged"
    text = format_number(mean)
    if half > 0 and abs(mean) < 1e5:
        places = int(np.clip(1 - np.floor(np.log10(half)), 0, 6))
        text = f"{mean:.{places}f} ± {half:.{places}f}"
    text = text.replace("-", "−")
    return f"{text}, {lost} diverged" if lost else text


def _read_pairs(groups: Mapping[str, Any], columns: tuple[str, str]) -> dict[str, Pair]:
    check_series(groups, "paired")
    table = {}
    for name, columns_of in groups.items():
        pair = [read_values(values) for values in columns_of]
        if len(pair) != 2 or len(pair[0]) != len(pair[1]) or not pair[0]:
            raise ValueError(
                f"paired needs one {columns[0]} and one {columns[1]} value for each run, but "
                f"{name!r} has {[len(values) for values in pair]} values"
            )
        table[name] = (pair[0], pair[1])
    return table


def _draw_pair(ax: Any, xs: tuple[float, float], pair: Pair, style: Look, key: str) -> list[float]:
    """Draw one group: a thin slope per run, a thick one for the means; return the means."""
    ink: dict[str, Any] = {"color": style.colour, "gid": key}
    for run in zip(*pair, strict=True):
        ax.plot(xs, run, linewidth=0.7, alpha=0.45, **ink)
    means, halves = zip(*map(mean_and_half, pair), strict=True)
    ax.plot(xs, means, linewidth=2, **ink)
    point: dict[str, Any] = {"markersize": 7, "markeredgewidth": 1.4, "zorder": 4, **ink}
    for x, mean, half, fill in zip(xs, means, halves, ("white", style.colour), strict=True):
        ax.vlines(x, mean - half, mean + half, linewidth=1.3, **ink)
        ax.plot(x, mean, style.marker, markerfacecolor=fill, **point)
    return list(means)
