"""Input against output of norms: entries as points, single tokens as straight lines."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .alt import format_count, format_number
from .figure import Figure
from .looks import COLOURS
from .style import HAIR, QUIET, make_canvas, use_book_style

LINES = (
    ("token of small spread", "navy", "solid"),
    ("middle", "teal", "dashed"),
    ("large", "wine", "dotted"),
)


@use_book_style()
def norm_curves(
    panels: Mapping[str, Mapping[str, Any]],
    *,
    caption: str,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one panel a norm: `points` are entries (xs, ys), `lines` are ends x₀ y₀ x₁ y₁ of tokens.

    `bend` of a panel, if there is one, is written into it: 1 for a straight line, below 1 for an S.
    """
    if not panels:
        raise ValueError("norm_curves needs at least one panel, got none")
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    picture = make_canvas(height=0.6 + (2.6 if len(panels) == 1 else 2.1) * down)
    axes = picture.subplots(down, across, squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    parts = []
    for ax, (name, panel) in zip(axes.flat, panels.items(), strict=False):
        xs, ys = (np.asarray(values, dtype=float) for values in panel["points"])
        ax.plot(xs, ys, ".", color=COLOURS["vermillion"], markersize=3.5, alpha=0.6, zorder=2)
        _draw_tokens(ax, panel.get("lines", ()))
        ax.grid(True, color=HAIR)
        ax.locator_params(nbins=5)
        ax.set_title(name, loc="left", fontsize=9.5, fontweight="bold")
        words = f"{name}: inputs from {format_number(xs.min())} to {format_number(xs.max())}"
        words += f", outputs from {format_number(ys.min())} to {format_number(ys.max())}"
        if (bend := panel.get("bend")) is not None:
            at: dict[str, Any] = {"transform": ax.transAxes, "ha": "right"}
            ax.text(0.98, 0.03, f"bend {bend:.2f}", color=QUIET, fontsize=8.5, **at)
            words += f", bend {format_number(bend)}"
        parts.append(words)
    picture.supxlabel("input x", fontsize=9.5)
    picture.supylabel("output, before gain and shift", fontsize=9.5)
    if any(panel.get("lines") for panel in panels.values()):
        handles = axes.flat[0].get_legend_handles_labels()
        picture.legend(*handles, loc="outside upper right", ncols=3)
    text = f"Scatter plots of output against input for {format_count(len(panels), 'norm')}. "
    data = [[*panel["points"], *panel.get("lines", ())] for panel in panels.values()]
    return Figure(picture, alt or text + "; ".join(parts) + ".", caption, data, provenance)


def _draw_tokens(ax: Any, lines: Sequence[Sequence[float]]) -> None:
    """Draw what the norm is for three tokens alone."""
    for (x0, y0, x1, y1), (name, colour, dash) in zip(lines, LINES, strict=False):
        style = {"color": COLOURS[colour], "linestyle": dash, "linewidth": 1.3}
        ax.plot([x0, x1], [y0, y1], label=name, **style)
