"""Geometry of LayerNorm with three channels: onto a plane, then onto a circle."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from .alt import count, number
from .figure import Figure
from .looks import COLOURS
from .style import QUIET, book, canvas

RADIUS = sqrt(3)
# An orthonormal frame of the plane whose vectors have mean zero, and its normal.
FLAT = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2.0], [6.0]])
NORMAL = np.ones(3) / sqrt(3)


@book()
def sphere_projection(
    points_before: Any,
    points_after: Any,
    *,
    caption: str = "Left: LayerNorm first removes the mean, which drops every point onto the "
    "plane orthogonal to (1, 1, 1). Right: seen along (1, 1, 1), it then scales every point to "
    "length √3.",
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw LayerNorm of three channels: a projection onto a plane, then onto a circle."""
    before = _triples(points_before, "points_before")
    after = _triples(points_after, "points_after")
    if before.shape != after.shape:
        raise ValueError(
            f"each point needs one before and one after, got {len(before)} and {len(after)}"
        )
    flat = before - before.mean(axis=1, keepdims=True)
    picture = canvas(height=3.5)
    picture.set_layout_engine("none")
    left, right = picture.add_axes((0, 0, 0.54, 0.92)), picture.add_axes((0.54, 0, 0.46, 0.92))
    _solid(left, before, flat)
    _plane(right, flat, after)
    for x, step in ((0.02, "1  subtract the mean"), (0.56, "2  divide by the standard deviation")):
        picture.text(x, 0.94, step, fontsize=10, fontweight="bold")
    lengths = np.linalg.norm(after, axis=1)
    apart = np.linalg.norm(before - flat, axis=1)
    text = (
        f"{count(len(before), 'point')} in three dimensions. Left: each falls along (1, 1, 1) "
        "onto the plane of zero mean, from distances of "
        f"{number(apart.min())} to {number(apart.max())}. "
        f"Right: in that plane each moves along its ray to the circle of radius √3 = "
        f"{number(RADIUS)}; lengths before {number(np.linalg.norm(flat, axis=1).min())} to "
        f"{number(np.linalg.norm(flat, axis=1).max())}, after {number(lengths.min())} to "
        f"{number(lengths.max())}."
    )
    return Figure(picture, alt or text[0].upper() + text[1:], caption, [before, after], provenance)


def _triples(points: Any, name: str) -> np.ndarray:
    array = np.asarray(points, dtype=float)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array):
        raise ValueError(f"{name} must be points × 3 numbers, got shape {array.shape}")
    return array


def _solid(ax: Any, before: np.ndarray, flat: np.ndarray) -> None:
    """Draw space by a parallel projection in which the plane is seen from a little above."""
    tilt, turned = np.radians(32), np.radians(14)
    first = np.cos(turned) * FLAT[0] + np.sin(turned) * FLAT[1]
    second = np.cos(turned) * FLAT[1] - np.sin(turned) * FLAT[0]
    to = np.stack([first, np.sin(tilt) * second + np.cos(tilt) * NORMAL])

    def screen(points: Any) -> np.ndarray:
        return np.asarray(points, dtype=float) @ to.T

    reach = 1.05 * max(RADIUS, np.abs(flat @ FLAT.T).max())
    corners = [a * FLAT[0] + b * FLAT[1] for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    ax.fill(*screen(reach * np.array(corners)).T, facecolor="#eaf1f8", edgecolor="#aebfd0")
    for at in np.linspace(-1, 1, 7)[1:-1]:
        for along, across in ((FLAT[0], FLAT[1]), (FLAT[1], FLAT[0])):
            ends = reach * np.stack([at * along - across, at * along + across])
            ax.plot(*screen(ends).T, color="white", linewidth=1)
    turn = np.linspace(0, 2 * np.pi, 181)
    ring = RADIUS * (np.cos(turn)[:, None] * FLAT[0] + np.sin(turn)[:, None] * FLAT[1])
    ax.plot(*screen(ring).T, color=COLOURS["blue"], linewidth=1, linestyle=(0, (4, 2)))
    top = 1.2 * max(1.8, np.abs(before @ NORMAL).max())
    tip, root = screen(top * NORMAL), screen(np.zeros(3))
    ax.annotate("", tip, root, arrowprops={"arrowstyle": "->", "color": QUIET, "linewidth": 1})
    ax.annotate(
        "(1, 1, 1)", tip, xytext=(5, -2), textcoords="offset points", color=QUIET, fontsize=9
    )
    for i, axis in enumerate(np.eye(3)):
        end = screen(1.9 * axis)
        ax.plot(*np.stack([root, end]).T, color="#9a9a9a", linewidth=0.9)
        ax.annotate(f"$x_{i + 1}$", screen(2.1 * axis), ha="center", va="center", color=QUIET)
    for point, foot in zip(screen(before), screen(flat), strict=True):
        ax.plot(*np.stack([point, foot]).T, color=COLOURS["vermillion"], linewidth=0.8, alpha=0.6)
    ax.plot(*screen(flat).T, "o", color=COLOURS["blue"], markerfacecolor="white", markersize=4.5)
    ax.plot(*screen(before).T, "o", color=COLOURS["vermillion"], markersize=5)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.set_axis_off()


def _plane(ax: Any, flat: np.ndarray, after: np.ndarray) -> None:
    """Draw the plane as seen along (1, 1, 1): rays from the foot of each point to the circle."""
    turn = np.linspace(0, 2 * np.pi, 181)
    ax.plot(
        RADIUS * np.cos(turn),
        RADIUS * np.sin(turn),
        color=COLOURS["blue"],
        linewidth=1,
        linestyle=(0, (4, 2)),
    )
    ax.plot(0, 0, "+", color=QUIET, markersize=8)
    feet, ends = flat @ FLAT.T, after @ FLAT.T
    for foot, end in zip(feet, ends, strict=True):
        ax.plot(*np.stack([foot, end]).T, color=COLOURS["blue"], linewidth=0.8, alpha=0.6)
    ax.plot(*feet.T, "o", color=COLOURS["blue"], markerfacecolor="white", markersize=4.5)
    ax.plot(*ends.T, "s", color=COLOURS["blue"], markersize=5)
    ax.annotate(
        "radius √3",
        (0, -RADIUS),
        xytext=(0, -5),
        textcoords="offset points",
        ha="center",
        va="top",
        color=COLOURS["blue"],
        fontsize=9,
    )
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.set_axis_off()
