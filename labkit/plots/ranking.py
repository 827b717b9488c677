"""Rankings: the same things put in order several times; lines join a thing's places."""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from .alt import format_count, format_number
from .figure import Figure
from .looks import Look, choose_looks
from .series import read_values
from .style import QUIET, make_canvas, use_book_style, write_text

Column = dict[str, float]  # a number for each name


@use_book_style()
def ranking(
    columns: Mapping[str, Mapping[str, float | None]],
    *,
    caption: str,
    marked: tuple[str, ...] = (),
    digits: int = 4,
    title: str | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw each column's order, the smallest number on top; what has no number stands below a line.

    `columns` maps a heading to {name: number}. Names in `marked` are drawn strongly, the others
    are quiet.
    """
    table = _read_columns(columns)
    values = list(table.values())
    names = list(values[0])
    orders = [_rank_names(column) for column in values]
    picture = make_canvas(height=1.0 + 0.24 * len(names) + 0.2 * bool(title))
    ax = picture.add_subplot()
    for name, style in choose_looks(names).items():
        ys = [order.index(name) + 1 for order in orders]
        ink = _draw_places(ax, ys, style, name in marked)
        first, last = (_format_value(column[name], digits) for column in (values[0], values[-1]))
        write_text(ax, f"{name}  {first}", (0, ys[0]), (-10, 0), ha="right", **ink)
        write_text(ax, f"{last}  {name}", (len(ys) - 1, ys[-1]), (10, 0), ha="left", **ink)
    for i, column in enumerate(values):
        if lost := sum(not isfinite(value) for value in column.values()):
            ax.hlines(len(names) - lost + 0.5, i - 0.12, i + 0.12, color=QUIET, linewidth=1)
    ax.set_xticks(range(len(table)), list(table))
    ax.tick_params(axis="x", length=0, top=False, labeltop=True, labelbottom=False, pad=6)
    ax.set_ylim(len(names) + 0.6, 0.4)
    ax.set_xlim(-0.75, len(table) - 0.25)
    ax.set_yticks([])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    if title:
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
    data = [list(column.values()) for column in values]
    return Figure(picture, alt or _describe_columns(table), caption, data, provenance)


def _read_columns(columns: Mapping[str, Mapping[str, Any]]) -> dict[str, Column]:
    """Read the same names in the same order from every column; None becomes NaN."""
    if len(columns) < 2:
        raise ValueError(f"a comparison of rankings needs two columns or more, got {len(columns)}")
    names = list(next(iter(columns.values())))
    table = {}
    for title, values in columns.items():
        if set(values) != set(names) or len(names) < 2:
            raise ValueError(f"every column ranks the same names, {title!r} does not")
        numbers = read_values(values[name] for name in names)
        table[title] = dict(zip(names, numbers, strict=True))
    return table


def _rank_names(column: Column) -> list[str]:
    """Put the smallest first, and what has no number last."""
    return sorted(column, key=lambda name: column[name] if isfinite(column[name]) else inf)


def _draw_places(ax: Any, ys: list[int], style: Look, strong: bool) -> dict[str, Any]:
    """Draw a thing's places; give how its name is written."""
    words: dict[str, Any] = {"fontsize": 8.5, "va": "center"}
    if strong:
        how = {"linewidth": 2.2, "zorder": 3, "linestyle": style.line, "markersize": style.size}
        ax.plot(ys, marker=style.marker, color=style.colour, **how)
        return {**words, "color": style.colour, "fontweight": "bold"}
    ax.plot(ys, marker=style.marker, color=QUIET, markersize=4, linewidth=0.7, alpha=0.6)
    return {**words, "color": QUIET}


def _format_value(value: float, digits: int) -> str:
    return f"{value:#.{digits}g}" if isfinite(value) else "diverged"


def _describe_columns(table: Mapping[str, Column]) -> str:
    parts = []
    for title, column in table.items():
        numbers = [f"{name} {format_number(column[name])}" for name in _rank_names(column)]
        parts.append(f"{title}: {', '.join(numbers)}")
    things = format_count(len(next(iter(table.values()))), "thing")
    return f"{things} ranked {len(table)} times, best first. {'. '.join(parts)}."
