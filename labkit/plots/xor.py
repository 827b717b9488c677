"""Classes in the plane: what a map does to points that no straight line separates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .alt import format_count, format_number
from .figure import Figure
from .looks import COLOURS
from .style import HAIR, INK, label_axes, make_canvas, use_book_style, write_text


@use_book_style()
def xor_points(
    before: Any,
    after: Any,
    labels: Sequence[int],
    *,
    caption: str = "Left: no straight line separates the two classes. Right: after a linear map "
    "and LayerNorm one does.",
    titles: tuple[str, str] = ("before", "after"),
    line: tuple[float, float, float] | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw labelled points of the plane before and after a map; `line` a·x + b·y = c separates."""
    pair = [np.asarray(points, dtype=float) for points in (before, after)]
    for points, name in zip(pair, ("before", "after"), strict=True):
        if points.ndim != 2 or points.shape != (len(labels), 2) or not len(labels):
            raise ValueError(
                f"{name} must hold two numbers for each of {len(labels)} labels, "
                f"got shape {points.shape}"
            )
    picture = make_canvas(height=3.2)
    for ax, points, title in zip(picture.subplots(1, 2), pair, titles, strict=True):
        _draw_classes(ax, points, labels, pair[0])
        label_axes(ax, "$x_1$", "$x_2$", None)
        ax.set_title(title, loc="center", fontsize=10, fontweight="bold")
    if line is not None:
        _draw_boundary(picture.axes[1], *line)
    sides = [
        f"input ({format_number(x)}, {format_number(y)}) of class {label} goes to "
        f"({format_number(u)}, {format_number(v)})"
        for (x, y), (u, v), label in zip(*pair, labels, strict=True)
    ]
    text = f"Two panels, {format_count(len(labels), 'point')} before and after: {'; '.join(sides)}."
    return Figure(picture, alt or text, caption, pair, provenance)


def _draw_classes(ax: Any, points: np.ndarray, labels: Sequence[int], names: np.ndarray) -> None:
    """Draw points by class; points that fall together share one place and list their names."""
    kinds = sorted(set(labels))
    looks = [("o", COLOURS["vermillion"]), ("s", COLOURS["blue"]), ("^", COLOURS["teal"])]
    centre, reach = points.mean(axis=0), np.ptp(points, axis=0).max() or 1.0
    here: dict[tuple[float, float], list[str]] = {}
    for point, label, name in zip(points, labels, names, strict=True):
        marker, colour = looks[kinds.index(label) % len(looks)]
        ax.plot(*point, marker, color=colour, markersize=10, zorder=3)
        spot = (round(float(point[0]), 6), round(float(point[1]), 6))
        here.setdefault(spot, []).append(f"({format_number(name[0])}, {format_number(name[1])})")
    for spot, words in here.items():
        write_text(ax, "\n".join(words), spot, (0, 9), ha="center", va="bottom")
    ax.set_xlim(centre[0] - 0.8 * reach, centre[0] + 0.8 * reach)
    ax.set_ylim(centre[1] - 0.8 * reach, centre[1] + 0.9 * reach)
    ax.grid(True, color=HAIR)
    ax.locator_params(nbins=5)


def _draw_boundary(ax: Any, a: float, b: float, c: float) -> None:
    low, high = ax.get_xlim(), ax.get_ylim()
    foot = np.array([a, b]) * c / (a * a + b * b)
    ax.axline(foot, foot + np.array([-b, a]), color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    ax.set_xlim(low)
    ax.set_ylim(high)
