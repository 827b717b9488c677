"""Pairs: two measurements of the same runs, one short slope per run."""

from collections.abc import Mapping, Sequence
from typing import Any

from .alt import format_count, format_number, join_sentences
from .figure import Figure
from .looks import Look, choose_looks
from .series import check_series, mean_and_half, read_values, say_seeds, start_axes
from .style import QUIET, label_axes, use_book_style, write_text

Pair = tuple[list[float], list[float]]


@use_book_style()
def paired(
    groups: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    ylabel: str,
    caption: str,
    columns: tuple[str, str] = ("train", "eval"),
    title: str | None = None,
    ylim: tuple[float, float] | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw a slope from the first column to the second for every run of every group."""
    table = _read_pairs(groups, columns)
    ax = start_axes()
    roomy = len(table) <= 6
    parts = []
    for i, (name, style) in enumerate(choose_looks(table).items()):
        xs = (i - 0.24, i + 0.24)
        before, after = _draw_pair(ax, xs, table[name], style)
        parts.append(
            f"{name} {format_number(before)} and {format_number(after)}, "
            f"gap {format_number(before - after)}"
        )
        if roomy:
            below: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "va": "top"}
            for x, column in zip(xs, columns, strict=True):
                write_text(
                    ax, column, (x, 0), (0, -5), ha="center", fontsize=8.5, color=QUIET, **below
                )
    ax.set_xticks(range(len(table)), [("\n" if roomy else "") + name for name in table])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.5, len(table) - 0.5)
    if ylim:
        ax.set_ylim(*ylim)
    label_axes(ax, "", ylabel, title)
    seeds = say_seeds(len(first) for first, _ in table.values())
    left, right = columns
    note = f"Open mark: {left}; filled: {right}; thin lines: {seeds}; thick: their mean."
    head = f"Slopes of {ylabel} from {left} to {right}, {format_count(len(table), 'group')}"
    return Figure(
        ax.figure,
        alt or join_sentences(head, parts),
        caption,
        list(table.values()),
        provenance,
        note,
    )


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
