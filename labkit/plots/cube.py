"""The cube of activations, and which of its cells share one mean under each norm."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import cos, radians, sin
from typing import Any, NamedTuple

from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb

from .alt import count
from .figure import Figure
from .looks import look
from .style import QUIET, book, canvas

EXAMPLES, CHANNELS, POSITIONS = 4, 6, 4
KEY = "N examples   ·   C channels   ·   L positions"


class Share(NamedTuple):
    """Which cells (example, channel, position) share a mean with the nearest one."""

    title: str
    words: str
    inside: Callable[[int, int, int], bool]


N, C, L = EXAMPLES - 1, CHANNELS - 1, POSITIONS - 1  # the cell nearest to the eye
SHARES: dict[str, Share] = {
    "batch": Share("BatchNorm", "channel", lambda n, c, p: c == C),
    "layer": Share("LayerNorm", "example", lambda n, c, p: n == N),
    "token": Share("… per token", "token", lambda n, c, p: n == N and p == L),
    "instance": Share("InstanceNorm", "example and channel", lambda n, c, p: n == N and c == C),
    "group": Share(
        "GroupNorm",
        "example and group",
        lambda n, c, p: n == N and c >= CHANNELS // 2,
    ),
}


@book()
def axes_cube(
    norms: Sequence[str] = ("batch", "layer", "instance", "group"),
    *,
    caption: str = "Coloured cells share one mean and one variance; the other cells form further "
    "sets of the same shape.",
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw the examples × channels × positions cube once per norm, one set of cells coloured.

    "group-3" is GroupNorm with three groups, "group" the one with two.
    """
    shares = [_share(norm) for norm in norms]
    if not norms:
        raise ValueError(f"axes_cube needs at least one norm out of {', '.join(SHARES)}")
    picture = canvas(height=2.35)
    picture.set_layout_engine("none")
    sizes, parts = [], []
    share = 1 / len(norms)
    for i, norm in enumerate(norms):
        title, words, inside = shares[i]
        ax = picture.add_axes((i * share + 0.03, 0.27, share - 0.04, 0.6))
        colour = look("layer" if norm == "token" else norm.partition("-")[0]).colour
        _voxels(ax, inside, colour)
        _edges(ax)
        middle = (i + 0.5) * share
        size = 10 if len(norms) <= 4 else 9
        picture.text(middle, 0.9, title, ha="center", color=colour, size=size, weight="bold")
        lines = f"one mean per\n{words}"
        picture.text(middle, 0.245, lines, ha="center", va="top", color=QUIET, size=size - 1)
        cells = [
            (n, c, p)
            for n in range(EXAMPLES)
            for c in range(CHANNELS)
            for p in range(POSITIONS)
            if inside(n, c, p)
        ]
        sizes.append(len(cells))
        parts.append(f"{title}: {len(cells)} cells, one mean per {words}")
    picture.text(0.5, 0.03, KEY, ha="center", color=QUIET, size=8.5)
    total = EXAMPLES * CHANNELS * POSITIONS
    head = (
        f"{count(len(norms), 'cube')} of {EXAMPLES} examples, {CHANNELS} channels and "
        f"{POSITIONS} positions, {total} cells; coloured are the cells that share one mean. "
    )
    text = head[0].upper() + head[1:] + "; ".join(parts) + "."
    return Figure(picture, alt or text, caption, sizes, provenance)


def _share(norm: str) -> Share:
    """Find what a norm pools."""
    if norm in SHARES:
        return SHARES[norm]
    named = re.fullmatch(r"group-([1-9]\d*)", norm)
    if named is None or CHANNELS % int(named[1]):
        raise ValueError(
            f"unknown norm {norm!r}; choose among {', '.join(SHARES)}, or group-G with G a divisor "
            f"of the {CHANNELS} channels"
        )
    size = CHANNELS // int(named[1])
    title = f"GroupNorm, G = {named[1]}"
    return Share(title, "example and group", lambda n, c, p: n == N and c // size == C // size)


def _screen(n: float, c: float, p: float) -> tuple[float, float]:
    """Project a corner: examples run to the lower right, channels to the lower left."""
    slope = radians(30)
    return (n - c) * cos(slope), p - (n + c) * sin(slope)


def _voxels(ax: Any, inside: Callable[[int, int, int], bool], colour: str) -> None:
    """Draw the three faces that the eye sees, cell by cell, each face in its own light."""
    faces, shades = [], []

    def add(cell: tuple[int, int, int], corners: list[tuple[int, int, int]], light: float) -> None:
        faces.append([_screen(*corner) for corner in corners])
        base = to_rgb(colour) if inside(*cell) else (0.93, 0.93, 0.94)
        toward = 1.0 if light > 1 else 0.0
        weight = abs(light - 1)
        shades.append([channel + (toward - channel) * weight for channel in base])

    for n in range(EXAMPLES):
        for c in range(CHANNELS):
            t = POSITIONS
            add((n, c, L), [(n, c, t), (n + 1, c, t), (n + 1, c + 1, t), (n, c + 1, t)], 1.32)
    for p in range(POSITIONS):
        for c in range(CHANNELS):
            e = EXAMPLES
            add((N, c, p), [(e, c, p), (e, c + 1, p), (e, c + 1, p + 1), (e, c, p + 1)], 0.9)
        for n in range(EXAMPLES):
            e = CHANNELS
            add((n, C, p), [(n, e, p), (n + 1, e, p), (n + 1, e, p + 1), (n, e, p + 1)], 1.1)
    ax.add_collection(
        PolyCollection(faces, facecolors=shades, edgecolors="#8a8a8a", linewidths=0.6)
    )
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.margins(0.02)
    ax.set_axis_off()


def _edges(ax: Any) -> None:
    """Name the three edges by the letters of the key."""
    spots = {
        "N": (_screen(EXAMPLES / 2, CHANNELS, 0), (-7, -8)),
        "C": (_screen(EXAMPLES, CHANNELS / 2, 0), (7, -8)),
        "L": (_screen(0, CHANNELS, POSITIONS / 2), (-8, 0)),
    }
    for name, (spot, aside) in spots.items():
        ax.annotate(
            name, spot, xytext=aside, textcoords="offset points", ha="center", va="center",
            fontsize=9, fontstyle="italic", annotation_clip=False,
        )  # fmt: skip
