"""Figures of norms as maps: output against input, and points of the plane before and after."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .alt import format_count, format_number
from .axes import name_legend
from .figure import Figure, redrawable
from .looks import COLOURS
from .marks import Marks
from .style import HAIR, INK, QUIET, is_narrow, label_axes, make_canvas, wrap, write_text

# Of single tokens.
LINES = (
    ("token of small spread", "navy", "solid"),
    ("middle", "teal", "dashed"),
    ("large", "wine", "dotted"),
)
OUTPUT = "output, before gain and shift"


@redrawable
def norm_curves(
    panels: Mapping[str, Mapping[str, Any]],
    *,
    caption: str,
    limits: tuple[float, float] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one panel per norm: `points` are entries (xs, ys), `lines` ends x₀ y₀ x₁ y₁ of tokens.

    A panel's `bend`, if it has one, is written into it: 1 for a straight line, below 1 for an S.
    Pictures of the same slider need the same `limits` for both axes.
    """
    if not panels:
        raise ValueError("norm_curves needs at least one panel, got none")
    across = min(2 if is_narrow() else 3, len(panels))
    down = -(-len(panels) // across)
    picture = make_canvas(height=0.6 + (2.6 if len(panels) == 1 else 2.1) * down)
    axes = picture.subplots(down, across, squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    marks = Marks("input x")
    parts, keys = [], []
    for ax, (name, panel) in zip(axes.flat, panels.items(), strict=False):
        xs, ys = (np.asarray(values, dtype=float) for values in panel["points"])
        entries = sorted(zip(xs.tolist(), ys.tolist(), strict=True))
        key = marks.add(
            "entry", ax, OUTPUT, [x for x, _ in entries], [[y] for _, y in entries], panel=name
        )
        dot: dict[str, Any] = {"markersize": 3.5, "alpha": 0.6, "zorder": 2, "gid": key}
        ax.plot(xs, ys, ".", color=COLOURS["vermillion"], **dot)
        keys = _draw_tokens(ax, panel.get("lines", ()), marks, name) or keys
        ax.grid(True, color=HAIR)
        ax.locator_params(nbins=4 if is_narrow() else 5)
        if limits:
            ax.set(xlim=limits, ylim=limits)
        title = wrap(name, 38 if across == 1 else 18)
        ax.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
        words = f"{name}: inputs from {format_number(xs.min())} to {format_number(xs.max())}"
        words += f", outputs from {format_number(ys.min())} to {format_number(ys.max())}"
        if (bend := panel.get("bend")) is not None:
            at: dict[str, Any] = {"transform": ax.transAxes, "ha": "right"}
            ax.text(0.98, 0.03, f"bend {bend:.2f}", color=QUIET, fontsize=8.5, **at)
            words += f", bend {format_number(bend)}"
        parts.append(words)
    picture.supxlabel("input x", fontsize=9.5)
    picture.supylabel(OUTPUT, fontsize=9.5)
    if keys:
        handles = axes.flat[0].get_legend_handles_labels()
        where = {"loc": "outside upper right", "ncols": 1 if is_narrow() else 3}
        name_legend(picture.legend(*handles, **where), keys)
    text = f"Scatter plots of output against input for {format_count(len(panels), 'norm')}. "
    data = [[*panel["points"], *panel.get("lines", ())] for panel in panels.values()]
    said = text + "; ".join(parts) + "."
    return Figure(picture, said, caption, data, provenance, marks=marks)


def _draw_tokens(ax: Any, lines: Sequence[Sequence[float]], marks: Marks, panel: str) -> list[str]:
    """Draw the norm's map for three single tokens; return the keys of their marks."""
    keys = []
    for (x0, y0, x1, y1), (name, colour, dash) in zip(lines, LINES, strict=False):
        keys.append(marks.add(name, ax, OUTPUT, [x0, x1], [[y0], [y1]], panel=panel))
        style = {"color": COLOURS[colour], "linestyle": dash, "linewidth": 1.3}
        ax.plot([x0, x1], [y0, y1], label=name, gid=keys[-1], **style)
    return keys


@redrawable
def xor_points(
    before: Any,
    after: Any,
    labels: Sequence[int],
    *,
    caption: str,
    titles: tuple[str, str],
    line: tuple[float, float, float],
    axes: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Draw labelled points of the plane before and after a map, with the line a·x + b·y = c.

    `axes` name the two numbers of a point after the map.
    """
    pair = [np.asarray(points, dtype=float) for points in (before, after)]
    for points, name in zip(pair, ("before", "after"), strict=True):
        if points.ndim != 2 or points.shape != (len(labels), 2) or not len(labels):
            raise ValueError(
                f"{name} must contain two numbers for each of the {len(labels)} labels, got shape "
                f"{points.shape}"
            )
    down, across = (2, 1) if is_narrow() else (1, 2)
    picture = make_canvas(height=3.2 * down)
    marks = Marks("input (x₁, x₂)")
    for ax, points, title, (x, y) in zip(
        picture.subplots(down, across), pair, titles, (("x₁", "x₂"), axes), strict=True
    ):
        _draw_classes(ax, points, labels, pair[0])
        names = [f"({format_number(u)}, {format_number(v)})" for u, v in pair[0]]
        for quantity, values in zip((x, y), points.T.tolist(), strict=True):
            places = [(float(u), float(v)) for u, v in points]
            runs = [[v] for v in values]
            marks.add("point", ax, quantity, names, runs, places=places, panel=title)
        label_axes(ax, x, y, None)
        ax.set_title(wrap(title, 36), loc="center", fontsize=10, fontweight="bold")
    _draw_boundary(picture.axes[1], *line)
    sides = [
        f"input ({format_number(x)}, {format_number(y)}) of class {label} goes to "
        f"({format_number(u)}, {format_number(v)})"
        for (x, y), (u, v), label in zip(*pair, labels, strict=True)
    ]
    text = f"Two panels, {format_count(len(labels), 'point')} before and after: {'; '.join(sides)}."
    return Figure(picture, text, caption, pair, marks=marks)


def _draw_classes(ax: Any, points: np.ndarray, labels: Sequence[int], names: np.ndarray) -> None:
    """Draw points by class; coinciding points share one place, which lists their names."""
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
