"""Paths along a sphere, in three dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .alt import format_count, format_number
from .axes import name_legend
from .figure import Figure, redrawable
from .looks import choose_looks
from .marks import Marks
from .style import HAIR, INK, QUIET, is_narrow, make_canvas, wrap, write_text

_AROUND = np.linspace(0, 2 * np.pi, 181)
CIRCLE = np.stack([np.cos(_AROUND), np.sin(_AROUND)], axis=1)


def _build_view(turn: float, tilt: float) -> np.ndarray:
    """Return three columns, seen from `tilt` degrees above: right, up, towards the viewer."""
    turn, tilt = np.radians([turn, tilt])
    right = np.array([-np.sin(turn), np.cos(turn), 0])
    eye = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    return np.stack([right, np.cross(eye, right), eye], axis=1)


BALL = _build_view(35, 22)
SCREEN, EYE = BALL[:, :2], BALL[:, 2]


@redrawable
def sphere_paths(
    paths: Mapping[str, Sequence[Sequence[float]]],
    *,
    caption: str,
    marks: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Draw paths of points (x, y, z) in and on the unit ball; `marks` are single named points.

    Parts on the far side of the ball are drawn paler.
    """
    table = {name: _read_points(path, repr(name)) for name, path in paths.items()}
    picture = make_canvas(height=4.3 if is_narrow() else 3.1)
    ax = picture.add_subplot()
    _draw_globe(ax)
    table_of = Marks("point on the way", runs="values", view=BALL.round(6).tolist())
    parts, keys = [], []
    for name, style in choose_looks(table).items():
        path = table[name]
        screen, behind = path @ SCREEN, path @ EYE < -0.02
        keys.append(_mark_path(table_of, name, ax, path, screen))
        ink: dict[str, Any] = {"color": style.colour, "gid": keys[-1]}
        ax.plot(*screen.T, linestyle=style.line, label=name, zorder=3, **ink)
        for seen, alpha in ((~behind, 1), (behind, 0.3)):
            ax.plot(*screen[seen].T, style.marker, zorder=4, alpha=alpha, markersize=5, **ink)
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
    ax.set_xlim(-1.15, 1.15 if is_narrow() else 2.35)
    ax.set_ylim(-1.12, 1.18)
    if is_narrow():
        legend = picture.legend(loc="outside lower left")
    else:
        legend = ax.legend(loc="center left", bbox_to_anchor=(0.66, 0.5))
    name_legend(legend, keys)
    ax.set_title(wrap(title, 36), loc="left", fontsize=10.5, fontweight="bold")
    text = f"A unit sphere with {format_count(len(table), 'path')}: {'; '.join(parts)}."
    return Figure(picture, text, caption, list(table.values()), marks=table_of)


def _mark_path(marks: Marks, name: str, ax: Any, path: np.ndarray, screen: np.ndarray) -> str:
    """Add x, y and z of a path's points; a page reads all three at a point."""
    places = [(float(x), float(y)) for x, y in screen]
    steps = range(1, len(path) + 1)
    first, *_ = (
        marks.add(name, ax, axis, steps, [[v] for v in values], places=places)
        for axis, values in zip("xyz", path.T.tolist(), strict=True)
    )
    return first


def _read_points(points: Any, name: str) -> np.ndarray:
    array = np.asarray(points, dtype=float)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array):
        raise ValueError(
            f"{name} must have shape (points, 3), with at least one point; got {array.shape}"
        )
    return array


def _describe_lengths(vectors: np.ndarray) -> str:
    """Describe the range of vectors' lengths: "1 to 2.5"."""
    lengths = np.linalg.norm(vectors, axis=1)
    return f"{format_number(lengths.min())} to {format_number(lengths.max())}"


def _draw_globe(ax: Any) -> None:
    """Draw the rim, the equator and two meridians, with their far halves dotted."""
    ax.fill(*CIRCLE.T, facecolor=HAIR, alpha=0.4, linewidth=0, zorder=0)
    ax.plot(*CIRCLE.T, color=QUIET, linewidth=1, zorder=0)
    ring = np.pad(CIRCLE, ((0, 0), (0, 1)))
    for circle in (ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]):
        front = circle @ EYE >= 0
        for seen, style in ((front, "solid"), (~front, (0, (1, 3)))):
            line = np.where(seen[:, None], circle @ SCREEN, np.nan)
            how: dict[str, Any] = {"color": QUIET, "alpha": 0.5, "linewidth": 0.8}
            ax.plot(*line.T, linestyle=style, zorder=1, **how)
