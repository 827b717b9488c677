"""Pairs: two measurements of the same runs, one short slope per run."""

from collections.abc import Mapping, Sequence
from typing import Any

from .alt import count, number, sentences
from .figure import Figure
from .looks import looks
from .stats import floats, mean_and_half, need, seeds_in
from .style import QUIET, book, canvas, dress


@book()
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
    table = _read(groups, columns)
    picture = canvas()
    ax = picture.add_subplot()
    roomy = len(table) <= 6
    for i, (name, style) in enumerate(looks(table).items()):
        left, right = table[name]
        xs = [i - 0.24, i + 0.24]
        for pair in zip(left, right, strict=True):
            ax.plot(xs, pair, color=style.colour, linewidth=0.7, alpha=0.45)
        means, halves = zip(*map(mean_and_half, (left, right)), strict=True)
        ax.plot(xs, means, color=style.colour, linewidth=2)
        for x, mean, half, fill in zip(xs, means, halves, ("white", style.colour), strict=True):
            ax.vlines(x, mean - half, mean + half, color=style.colour, linewidth=1.3)
            ax.plot(
                x, mean, style.marker, color=style.colour, markerfacecolor=fill, markersize=7,
                markeredgewidth=1.4, zorder=4,
            )  # fmt: skip
        if roomy:
            for x, column in zip(xs, columns, strict=True):
                ax.annotate(
                    column, (x, 0), xycoords=("data", "axes fraction"), xytext=(0, -5),
                    textcoords="offset points", ha="center", va="top", fontsize=8.5, color=QUIET,
                )  # fmt: skip
    ax.set_xticks(range(len(table)), [("\n" if roomy else "") + name for name in table])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.5, len(table) - 0.5)
    if ylim:
        ax.set_ylim(*ylim)
    dress(ax, "", ylabel, title)

    parts = []
    for name, (left, right) in table.items():
        before, after = mean_and_half(left)[0], mean_and_half(right)[0]
        parts.append(f"{name} {number(before)} and {number(after)}, gap {number(before - after)}")
    head = f"Slopes of {ylabel} from {columns[0]} to {columns[1]}, {count(len(table), 'group')}"
    seeds = seeds_in(len(left) for left, _ in table.values())
    note = f"Open mark: {columns[0]}; filled: {columns[1]}; thin lines: {seeds}; thick: their mean."
    return Figure(
        picture,
        alt or sentences(head, parts),
        caption and f"{caption} {note}",
        list(table.values()),
        provenance,
    )


def _read(groups: Mapping[str, Any], columns: tuple[str, str]) -> dict[str, tuple[list, list]]:
    need(groups, "paired")
    table = {}
    for name, columns_of in groups.items():
        pair = [floats(values) for values in columns_of]
        if len(pair) != 2 or len(pair[0]) != len(pair[1]) or not pair[0]:
            raise ValueError(
                f"paired needs one {columns[0]} and one {columns[1]} value for each run, "
                f"{name!r} has {[len(values) for values in pair]}"
            )
        table[name] = (pair[0], pair[1])
    return table
