"""Spheres in three dimensions: LayerNorm puts points on one; paths run along one."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from .alt import format_count, format_number
from .figure import Figure
from .looks import COLOURS, choose_looks
from .style import INK, QUIET, make_canvas, use_book_style, write_text

_AROUND = np.linspace(0, 2 * np.pi, 181)
CIRCLE = np.stack([np.cos(_AROUND), np.sin(_AROUND)], axis=1)
BROKEN = (0, (4, 2))

RADIUS = sqrt(3)  # of LayerNorm's circle with three channels
# An orthonormal frame of the plane whose vectors have mean zero, and its normal.
FLAT = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2.0], [6.0]])
NORMAL = np.ones(3) / sqrt(3)


def _build_view(turn: float, tilt: float) -> np.ndarray:
    """Return three columns, seen from `tilt` degrees above: to the right, up, to the eye."""
    turn, tilt = np.radians([turn, tilt])
    right = np.array([-np.sin(turn), np.cos(turn), 0])
    eye = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    return np.stack([right, np.cross(eye, right), eye], axis=1)


BALL = _build_view(35, 22)
SCREEN, EYE = BALL[:, :2], BALL[:, 2]


@use_book_style()
def sphere_projection(
    points_before: Any,
    points_after: Any,
    *,
    caption: str = "Left: LayerNorm first removes the mean, which drops every point onto the "
    "plane orthogonal to (1, 1, 1). Right: seen along (1, 1, 1), it then scales every point to "
    "length √3.",
) -> Figure:
    """Draw LayerNorm of three channels: a projection onto a plane, then onto a circle."""
    before = _read_points(points_before, "points_before")
    after = _read_points(points_after, "points_after")
    if before.shape != after.shape:
        raise ValueError(
            f"each point needs one before and one after, got {len(before)} and {len(after)}"
        )
    flat = before - before.mean(axis=1, keepdims=True)
    picture = make_canvas(height=3.5)
    picture.set_layout_engine("none")
    _draw_solid(picture.add_axes((0, 0, 0.54, 0.92)), before, flat)
    _draw_plane(picture.add_axes((0.54, 0, 0.46, 0.92)), flat @ FLAT.T, after @ FLAT.T)
    for x, step in ((0.02, "1  subtract the mean"), (0.56, "2  divide by the standard deviation")):
        picture.text(x, 0.94, step, fontsize=10, fontweight="bold")
    text = (
        f"{format_count(len(before), 'point')} in three dimensions. Left: each falls along "
        "(1, 1, 1) onto the plane of zero mean, from distances of "
        f"{_describe_lengths(before - flat)}. "
        f"Right: in that plane each moves along its ray to the circle of radius √3 = "
        f"{format_number(RADIUS)}; lengths before {_describe_lengths(flat)}, "
        f"after {_describe_lengths(after)}."
    )
    return Figure(picture, text[0].upper() + text[1:], caption, [before, after])


@use_book_style()
def sphere_paths(
    paths: Mapping[str, Sequence[Sequence[float]]],
    *,
    caption: str,
    marks: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Draw paths of points (x, y, z) in and on the unit ball; `marks` are single named points.

    What lies behind the ball's rim is drawn paler.
    """
    table = {name: _read_points(path, repr(name)) for name, path in paths.items()}
    picture = make_canvas(height=3.1)
    ax = picture.add_subplot()
    _draw_globe(ax)
    parts = []
    for name, style in choose_looks(table).items():
        path = table[name]
        screen, behind = path @ SCREEN, path @ EYE < -0.02
        ax.plot(*screen.T, color=style.colour, linestyle=style.line, label=name, zorder=3)
        for seen, alpha in ((~behind, 1), (behind, 0.3)):
            point: dict[str, Any] = {"color": style.colour, "alpha": alpha, "markersize": 5}
            ax.plot(*screen[seen].T, style.marker, zorder=4, **point)
        end = ", ".join(map(format_number, path[-1]))
        parts.append(
            f"{name} has {format_count(len(path), 'point')}, lengths {_describe_lengths(path)}, "
            f"and ends at ({end})"
        )
    for name, spot in marks.items():
        at = (_read_points([spot], repr(name)) @ SCREEN)[0]
        aside = (6, 5) if at[0] > 0 else (-12, -10)  # away from the middle, where the paths are
        ax.plot(*at, "o", color=INK, markersize=5, zorder=5)
        write_text(ax, name, at, aside, color=INK, zorder=6)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_xlim(-1.15, 2.35)
    ax.set_ylim(-1.12, 1.18)
    ax.legend(loc="center left", bbox_to_anchor=(0.66, 0.5))
    ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    text = f"A unit sphere with {format_count(len(table), 'path')}: {'; '.join(parts)}."
    return Figure(picture, text, caption, list(table.values()))


def _read_points(points: Any, name: str) -> np.ndarray:
    array = np.asarray(points, dtype=float)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array):
        raise ValueError(f"{name} must be points × 3 numbers, got shape {array.shape}")
    return array


def _describe_lengths(vectors: np.ndarray) -> str:
    """Return how long vectors are: "1 to 2.5"."""
    lengths = np.linalg.norm(vectors, axis=1)
    return f"{format_number(lengths.min())} to {format_number(lengths.max())}"


def _draw_segments(ax: Any, starts: np.ndarray, ends: np.ndarray, **how: Any) -> None:
    """Draw a line from each start to its end."""
    ax.plot(*np.stack([starts, ends]).transpose(2, 0, 1), **how)


def _draw_solid(ax: Any, before: np.ndarray, flat: np.ndarray) -> None:
    """Draw space by a parallel projection in which the plane is seen from a little above."""
    to = np.stack([*FLAT, NORMAL]).T @ _build_view(-76, 32)[:, :2]
    reach = 1.05 * max(RADIUS, np.abs(flat @ FLAT.T).max())
    corners = reach * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    ax.fill(*(corners @ FLAT @ to).T, facecolor=(COLOURS["blue"], 0.085), edgecolor="#aebfd0")
    for at in np.linspace(-1, 1, 7)[1:-1]:
        for along, across in (FLAT, FLAT[::-1]):
            ends = reach * np.stack([at * along - across, at * along + across])
            ax.plot(*(ends @ to).T, color="white", linewidth=1)
    blue, red = COLOURS["blue"], COLOURS["vermillion"]
    ax.plot(*(RADIUS * CIRCLE @ FLAT @ to).T, color=blue, linewidth=1, linestyle=BROKEN)
    tip = 1.2 * max(1.8, np.abs(before @ NORMAL).max()) * NORMAL @ to
    ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "->", "color": QUIET, "linewidth": 1})
    write_text(ax, "(1, 1, 1)", tip, (5, -2), color=QUIET)
    for i, axis in enumerate(to):
        ax.plot(*np.stack([0 * axis, 1.9 * axis]).T, color="#9a9a9a", linewidth=0.9)
        ax.annotate(f"$x_{i + 1}$", 2.1 * axis, ha="center", va="center", color=QUIET)
    _draw_segments(ax, before @ to, flat @ to, color=red, linewidth=0.8, alpha=0.6)
    ax.plot(*(flat @ to).T, "o", color=blue, markerfacecolor="white", markersize=4.5)
    ax.plot(*(before @ to).T, "o", color=red, markersize=5)
    _set_frame(ax)


def _draw_plane(ax: Any, feet: np.ndarray, ends: np.ndarray) -> None:
    """Draw the plane as seen along (1, 1, 1): rays from the foot of each point to the circle."""
    blue = COLOURS["blue"]
    ax.plot(*(RADIUS * CIRCLE).T, color=blue, linewidth=1, linestyle=BROKEN)
    ax.plot(0, 0, "+", color=QUIET, markersize=8)
    _draw_segments(ax, feet, ends, color=blue, linewidth=0.8, alpha=0.6)
    ax.plot(*feet.T, "o", color=blue, markerfacecolor="white", markersize=4.5)
    ax.plot(*ends.T, "s", color=blue, markersize=5)
    write_text(ax, "radius √3", (0, -RADIUS), (0, -5), ha="center", va="top", color=blue)
    _set_frame(ax)


def _set_frame(ax: Any) -> None:
    """Show what is drawn in its true proportions, without axes, with a margin around it."""
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.set_axis_off()


def _draw_globe(ax: Any) -> None:
    """Draw the rim, the equator and two meridians, their far halves dotted."""
    ax.fill(*CIRCLE.T, facecolor="#f1f5fa", edgecolor=QUIET, linewidth=1, zorder=0)
    ring = np.pad(CIRCLE, ((0, 0), (0, 1)))
    for circle in (ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]):
        front = circle @ EYE >= 0
        for seen, style in ((front, "solid"), (~front, (0, (1, 3)))):
            line = np.where(seen[:, None], circle @ SCREEN, np.nan)
            ax.plot(*line.T, color="#b9c4d0", linewidth=0.8, linestyle=style, zorder=1)
