"""A unit sphere in three dimensions, with paths on it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .alt import count, number
from .figure import Figure
from .looks import looks
from .style import INK, QUIET, book, canvas

# Seen from above the equator: the screen's two axes, and the direction towards the eye.
TURN, TILT = np.radians(35), np.radians(22)
RIGHT = np.array([-np.sin(TURN), np.cos(TURN), 0])
EYE = np.array([np.cos(TILT) * np.cos(TURN), np.cos(TILT) * np.sin(TURN), np.sin(TILT)])
UP = np.cross(EYE, RIGHT)


@book()
def sphere_paths(
    paths: Mapping[str, Sequence[Sequence[float]]],
    *,
    caption: str,
    marks: Mapping[str, Sequence[float]] | None = None,
    title: str | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw paths of points (x, y, z) in and on the unit ball; `marks` are single named points.

    What lies behind the ball's rim is drawn paler.
    """
    table = {name: _points(path, name) for name, path in paths.items()}
    spots = {name: _points([spot], name)[0] for name, spot in (marks or {}).items()}
    if not table:
        raise ValueError("a sphere needs at least one path, got none")
    picture = canvas(height=3.1)
    ax = picture.add_subplot()
    _globe(ax)
    for name, style in looks(table).items():
        path = table[name]
        screen = _screen(path)
        behind = path @ EYE < -0.02
        ax.plot(*screen.T, color=style.colour, linestyle=style.line, label=name, zorder=3)
        for hidden in (False, True):
            ax.plot(
                *screen[behind == hidden].T, style.marker, color=style.colour, markersize=5,
                alpha=0.3 if hidden else 1, zorder=4,
            )  # fmt: skip
    for name, spot in spots.items():
        at = _screen(spot[None])[0]
        aside = (6, 5) if at[0] > 0 else (-12, -10)  # away from the middle, where the paths are
        ax.plot(*at, "o", color=INK, markersize=5, zorder=5)
        ax.annotate(
            name, at, xytext=aside, textcoords="offset points", color=INK, fontsize=9, zorder=6
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_xlim(-1.15, 2.35)
    ax.set_ylim(-1.12, 1.18)
    ax.legend(loc="center left", bbox_to_anchor=(0.66, 0.5))
    ax.set_title(title or "", loc="left", fontsize=10.5, fontweight="bold")
    return Figure(picture, alt or _words(table), caption, list(table.values()), provenance)


def _points(path: Any, name: str) -> np.ndarray:
    array = np.asarray(path, dtype=float)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array):
        raise ValueError(f"{name!r} must be points × 3 numbers, got shape {array.shape}")
    return array


def _screen(points: np.ndarray) -> np.ndarray:
    return points @ np.stack([RIGHT, UP]).T


def _globe(ax: Any) -> None:
    """Draw the rim, the equator and two meridians, their far halves dotted."""
    turn = np.linspace(0, 2 * np.pi, 181)
    ring = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1)
    ax.fill(np.cos(turn), np.sin(turn), facecolor="#f1f5fa", edgecolor=QUIET, linewidth=1, zorder=0)
    for circle in (ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]):
        front = circle @ EYE >= 0
        for seen, style in ((front, "solid"), (~front, (0, (1, 3)))):
            line = np.where(seen[:, None], _screen(circle), np.nan)
            ax.plot(*line.T, color="#b9c4d0", linewidth=0.8, linestyle=style, zorder=1)


def _words(table: Mapping[str, np.ndarray]) -> str:
    parts = []
    for name, path in table.items():
        size = np.linalg.norm(path, axis=1)
        parts.append(
            f"{name} has {count(len(path), 'point')}, lengths {number(size.min())} to "
            f"{number(size.max())}, and ends at ({', '.join(number(v) for v in path[-1])})"
        )
    return f"A unit sphere with {count(len(table), 'path')}: {'; '.join(parts)}."
