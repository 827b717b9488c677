"""Turns: the rotation of a token by one sublayer, when a norm rescales skip plus branch."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .alt import format_number
from .axes import DOTS
from .figure import Figure, redrawable
from .looks import choose_looks
from .marks import Marks
from .style import INK, QUIET, is_narrow, make_canvas, write_text

_ARC = np.linspace(0, np.pi / 2, 91)
ROOM = 0.35  # around the arrows


@redrawable
def turns(
    sublayers: Mapping[str, tuple[float, float]],
    *,
    caption: str,
) -> Figure:
    """Draw a panel for each (α, s): α x lies along the axis, a branch of length s at right angles.

    The norm scales the sum to length 1, so x turns by arctan(s / α).
    """
    if not sublayers or any(alpha <= 0 or s <= 0 for alpha, s in sublayers.values()):
        raise ValueError(
            f"every sublayer must be a pair (α, s) of positive numbers; got {dict(sublayers)}"
        )
    looks = choose_looks(sublayers)
    wide = max(max(alpha, 1.0) for alpha, _ in sublayers.values())
    tall = max(max(s, 1.0) for _, s in sublayers.values())
    across = 1 if is_narrow() else len(sublayers)
    shape = (tall + 2.4 * ROOM) / (wide + 2 * ROOM)
    high = (3.3 if is_narrow() else 6.4) / across * shape
    picture = make_canvas(height=high * (len(sublayers) // across) + 0.1)
    panels = picture.subplots(len(sublayers) // across, across, squeeze=False).ravel()
    marks = Marks("token", of="sublayer", runs="values")
    parts, data = [], []
    for ax, (name, (alpha, s)) in zip(panels, sublayers.items(), strict=True):
        ax.set(xlim=(-ROOM, wide + ROOM), ylim=(-ROOM, tall + 1.4 * ROOM), aspect="equal")
        ax.set_axis_off()
        angle = float(np.degrees(np.arctan2(s, alpha)))
        _draw_sublayer(ax, (alpha, s), looks[name].colour)
        write_text(ax, name, (-ROOM, tall + 1.3 * ROOM), (0, 0), color=INK, va="top", weight="bold")
        write_text(ax, f"{angle:.0f}°", (0.42, 0.08 * s / alpha), (0, 0), color=INK)
        at = [(float(alpha), float(s))]
        row = {"α": float(alpha), "length of the branch": float(s), "turn in degrees": angle}
        for quantity, value in row.items():
            marks.add(name, ax, quantity, ["x"], [[value]], places=at, panel=name)
        data.append([*row.values()])
        parts.append(
            f"{name}: a skip of {format_number(alpha)}, a branch of {format_number(s)}, "
            f"turned by {angle:.0f} degrees"
        )
    text = f"Arrows of one sublayer each. {'. '.join(parts)}."
    return Figure(picture, text, caption, data, marks=marks)


def _draw_sublayer(ax: Any, sublayer: tuple[float, float], colour: Any) -> None:
    """Draw skip, branch and their sum, and the norm's output on the circle of length 1."""
    alpha, s = sublayer
    total = np.array(sublayer)
    ax.plot(np.cos(_ARC), np.sin(_ARC), color=QUIET, linewidth=0.9, linestyle=DOTS)
    for start, end, shade, width in (
        ((0, 0), (alpha, 0), INK, 1.3),
        ((alpha, 0), (alpha, s), QUIET, 1.3),
        ((0, 0), total, QUIET, 0.9),
        ((0, 0), total / np.hypot(*total), colour, 2.6),
    ):
        line = {"arrowstyle": "-|>", "color": shade, "linewidth": width}
        ax.annotate("", end, start, arrowprops={**line, "shrinkA": 0, "shrinkB": 0})
    skip = "x" if alpha == 1 else f"{alpha:g} x"
    branch = "f" if s == 1 else f"{s:g} f"
    write_text(ax, skip, (alpha / 2, 0), (0, -4), color=INK, ha="center", va="top")
    write_text(ax, branch, (alpha, s / 2), (4, 0), color=QUIET, va="center")
