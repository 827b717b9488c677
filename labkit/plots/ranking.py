"""Rankings: the same things put in order several times; lines join a thing's places."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from .alt import count, number
from .figure import Figure
from .looks import looks
from .style import QUIET, book, canvas


@book()
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
    names = _names(columns)
    orders = {title: _order(values, names) for title, values in columns.items()}
    most = len(names)
    picture = canvas(height=1.0 + 0.24 * most + 0.2 * bool(title))
    ax = picture.add_subplot()
    for name, style in looks(names).items():
        strong = name in marked
        ys = [order[name] for order in orders.values()]
        ax.plot(
            range(len(ys)), ys, color=style.colour if strong else QUIET, marker=style.marker,
            linestyle=style.line if strong else "solid", markersize=style.size if strong else 4,
            linewidth=2.2 if strong else 0.7, alpha=1 if strong else 0.6, zorder=3 if strong else 2,
        )  # fmt: skip
        weight, ink = ("bold", style.colour) if strong else ("normal", QUIET)
        sides = zip((0, len(ys) - 1), ("right", "left"), (-10, 10), strict=True)
        for (i, side, away), values in zip(sides, (_first(columns), _last(columns)), strict=True):
            ax.annotate(
                _label(name, values.get(name), side, digits), (i, ys[i]), xytext=(away, 0),
                textcoords="offset points", ha=side, va="center", fontsize=8.5, color=ink,
                fontweight=weight,
            )  # fmt: skip
    for i, values in enumerate(columns.values()):
        if lost := [name for name in names if not _alive(values.get(name))]:
            ax.hlines(most - len(lost) + 0.5, i - 0.12, i + 0.12, color=QUIET, linewidth=1)
    ax.set_xticks(range(len(columns)), list(columns))
    ax.tick_params(axis="x", length=0, top=False, labeltop=True, labelbottom=False, pad=6)
    ax.set_ylim(most + 0.6, 0.4)
    ax.set_xlim(-0.75, len(columns) - 0.25)
    ax.set_yticks([])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if title:
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
    return Figure(
        picture,
        alt or _sentences(columns, orders),
        caption,
        [[values.get(name) for name in names] for values in columns.values()],
        provenance,
    )


def _names(columns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if len(columns) < 2:
        raise ValueError(f"a comparison of rankings needs two columns or more, got {len(columns)}")
    names = list(_first(columns))
    for title, values in columns.items():
        if set(values) != set(names) or len(names) < 2:
            raise ValueError(f"every column ranks the same names, {title!r} does not")
    return names


def _first(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(iter(columns.values()))


def _last(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    return list(columns.values())[-1]


def _alive(value: float | None) -> bool:
    return value is not None and isfinite(value)


def _order(values: Mapping[str, float | None], names: list[str]) -> dict[str, int]:
    """Give each name its place from 1, the smallest first, what has no number last."""
    keyed = sorted(names, key=lambda name: (not _alive(values[name]), values[name] or 0.0))
    return {name: place for place, name in enumerate(keyed, start=1)}


def _label(name: str, value: float | None, side: str, digits: int) -> str:
    figure = f"{value:#.{digits}g}" if value is not None and isfinite(value) else "diverged"
    return f"{name}  {figure}" if side == "right" else f"{figure}  {name}"


def _sentences(columns: Mapping[str, Any], orders: Mapping[str, Mapping[str, int]]) -> str:
    parts = []
    for title, order in orders.items():
        placed = sorted(order, key=lambda name: order[name])
        numbers = [f"{name} {number(columns[title][name])}" for name in placed]
        parts.append(f"{title}: {', '.join(numbers)}")
    things = count(len(next(iter(orders.values()))), "thing")
    return f"{things} ranked {len(columns)} times, best first. {'. '.join(parts)}."
