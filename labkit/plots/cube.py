"""The cube of activations, with the cells that share one mean under each norm."""

import re
from collections.abc import Callable, Sequence
from math import cos, radians, sin
from typing import Any, NamedTuple

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb

from .alt import format_count
from .figure import Figure, redrawable
from .looks import choose_look
from .style import QUIET, is_narrow, make_canvas, write_text

SIZES = EXAMPLES, CHANNELS, POSITIONS = 4, 6, 4
LIGHT = {0: 0.9, 1: 1.1, 2: 1.32}  # on the face across examples, channels, positions
OUTSIDE = (0.93, 0.93, 0.94)
KEY = "N examples   ·   C channels   ·   L positions"


class Share(NamedTuple):
    """Cells (example, channel, position) that share a mean with the nearest one."""

    title: str
    words: str
    inside: Callable[[int, int, int], bool]


N, C, L = EXAMPLES - 1, CHANNELS - 1, POSITIONS - 1  # the cell nearest to the eye
SHARES: dict[str, Share] = {
    "batch": Share("BatchNorm", "channel", lambda n, c, p: c == C),
    "layer": Share("LayerNorm", "example", lambda n, c, p: n == N),
    "token": Share("… per token", "token", lambda n, c, p: n == N and p == L),
    "instance": Share("InstanceNorm", "example and channel", lambda n, c, p: n == N and c == C),
}


@redrawable
def axes_cube(
    norms: Sequence[str],
    *,
    caption: str = "Coloured cells share one mean and one variance; the other cells form further "
    "sets of the same shape.",
) -> Figure:
    """Draw the cube of examples × channels × positions once per norm, with one set coloured.

    "group-3" is GroupNorm with three groups.
    """
    shares = [find_share(norm) for norm in norms]
    across = min(2, len(norms)) if is_narrow() else len(norms)
    down = -(-len(norms) // across)
    picture = make_canvas(height=2.15 * down + 0.2)
    picture.set_layout_engine("none")
    sizes, parts = [], []
    wide, tall = 1 / across, (1 - 0.2 / picture.get_figheight()) / down
    for i, (norm, (title, words, inside)) in enumerate(zip(norms, shares, strict=True)):
        left, low = i % across * wide, 1 - (1 + i // across) * tall
        ax = picture.add_axes((left + 0.03, low + 0.21 * tall, wide - 0.04, 0.66 * tall))
        colour = choose_look("layer" if norm == "token" else norm.partition("-")[0]).colour
        _draw_voxels(ax, inside, colour)
        _label_edges(ax)
        middle = left + wide / 2
        size = 10 if across <= 4 else 9
        above: dict[str, Any] = {"ha": "center", "color": colour, "weight": "bold"}
        picture.text(middle, low + 0.9 * tall, title, size=size, **above)
        lines = f"one mean per\n{words}"
        below: dict[str, Any] = {"ha": "center", "va": "top", "color": QUIET, "size": size - 1}
        picture.text(middle, low + 0.18 * tall, lines, **below)
        sizes.append(sum(inside(*cell) for cell in np.ndindex(*SIZES)))
        parts.append(f"{title}: {sizes[-1]} cells, one mean per {words}")
    picture.text(0.5, 0.07 / picture.get_figheight(), KEY, ha="center", color=QUIET, size=8.5)
    head = (
        f"{format_count(len(norms), 'cube')} of {EXAMPLES} examples, {CHANNELS} channels and "
        f"{POSITIONS} positions, {np.prod(SIZES)} cells; coloured are the cells that share one "
        "mean. "
    )
    text = head[0].upper() + head[1:] + "; ".join(parts) + "."
    return Figure(picture, text, caption, sizes)


def find_share(norm: str) -> Share:
    """Return the cells that a norm pools."""
    if norm in SHARES:
        return SHARES[norm]
    named = re.fullmatch(r"group-([1-9]\d*)", norm)
    if named is None or CHANNELS % int(named[1]):
        raise ValueError(
            f"unknown norm {norm!r}; choose one of {', '.join(SHARES)}, or group-G with G a "
            f"divisor of the {CHANNELS} channels"
        )
    size = CHANNELS // int(named[1])
    title = f"GroupNorm, G = {named[1]}"
    return Share(title, "example and group", lambda n, c, p: n == N and c // size == C // size)


def _project_corner(n: float, c: float, p: float) -> tuple[float, float]:
    """Project a corner: examples go to the lower right, channels to the lower left."""
    slope = radians(30)
    return (n - c) * cos(slope), p - (n + c) * sin(slope)


def _draw_voxels(ax: Any, inside: Callable[[int, int, int], bool], colour: str) -> None:
    """Draw the three visible faces, cell by cell, each face with its own brightness."""
    seen = [
        (cell, side)
        for side in LIGHT
        for cell in np.ndindex(*SIZES)
        if cell[side] == SIZES[side] - 1
    ]
    seen.sort(key=lambda face: (face[1] != 2, face[0][2]))  # the top, then the walls from below
    faces, shades = [], []
    for cell, side in seen:
        u, v = np.delete(np.eye(3), side, axis=0)
        corner = np.add(cell, np.eye(3)[side])
        faces.append([_project_corner(*(corner + step)) for step in (0 * u, u, u + v, v)])
        shades.append(_shade_colour(colour if inside(*cell) else OUTSIDE, LIGHT[side]))
    ax.add_collection(
        PolyCollection(faces, facecolors=shades, edgecolors="#8a8a8a", linewidths=0.6)
    )
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.margins(0.02)
    ax.set_axis_off()


def _shade_colour(colour: Any, light: float) -> np.ndarray:
    """Mix a colour with white for a brightness above 1, with black below."""
    return np.array(to_rgb(colour)) * (1 - abs(light - 1)) + max(0, light - 1)


def _label_edges(ax: Any) -> None:
    """Label the three edges with the letters of the key."""
    spots = {
        "N": (_project_corner(EXAMPLES / 2, CHANNELS, 0), (-7, -8)),
        "C": (_project_corner(EXAMPLES, CHANNELS / 2, 0), (7, -8)),
        "L": (_project_corner(0, CHANNELS, POSITIONS / 2), (-8, 0)),
    }
    middle: dict[str, Any] = {"ha": "center", "va": "center", "annotation_clip": False}
    for name, (spot, aside) in spots.items():
        write_text(ax, name, spot, aside, fontstyle="italic", **middle)
