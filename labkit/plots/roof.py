"""Roofs: what memory and arithmetic allow, with kernels as points under them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .alt import format_number, join_sentences
from .figure import Figure
from .looks import COLOURS
from .series import start_axes
from .style import INK, QUIET, label_axes, use_book_style, write_text
from .ticks import log_ticks


@use_book_style()
def roof(
    bandwidth: float,
    peaks: Mapping[str, float],
    points: Mapping[str, float],
    *,
    caption: str,
    title: str | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw the roofline of a device and mark where kernels stand on it, by their intensity.

    bandwidth    bytes a second
    peaks        operations a second of each kind of arithmetic; the first is the highest
    points       operations for each byte of each kernel; it is drawn at the most it may reach
                 under the highest peak
    """
    top = max(peaks.values())
    low, high = min(points.values()) / 2, 1.5 * max(*points.values(), 4 * top / bandwidth)
    ax = start_axes(logx=True, logy=True, height=3.9)
    x = np.geomspace(low, high, 200)
    ax.plot(x, np.minimum(bandwidth * x, top) / 1e12, color=INK, linewidth=2)
    for name, peak in peaks.items():
        start, y = peak / bandwidth, peak / 1e12
        ax.plot([start, high], [y, y], color=INK if peak == top else QUIET, linewidth=1)
        text = f"{name}: {format_number(y)}, ridge at {format_number(start)}"
        write_text(ax, text, (high, y), (0, 4), ha="right", va="bottom")
    ordered = sorted(points.items(), key=lambda point: point[1])
    above = [at for _, at in ordered[1:]] + [np.inf]
    for i, (name, intensity) in enumerate(ordered):
        spot = (intensity, min(bandwidth * intensity, top) / 1e12)
        colour = list(COLOURS.values())[i % 6]
        ax.plot(*spot, "osD^vP"[i % 6], color=colour, markersize=7, zorder=3)
        aside, side = (9, -9 if above[i] < 2 * intensity else -2), "left"
        if intensity >= top / bandwidth:  # the roof is flat: below it
            aside, side = (26, -13), "right"
        write_text(ax, name, spot, aside, ha=side, va="top", color=colour, fontweight="bold")
    ax.set_xlim(low, high)
    ax.set_ylim(bandwidth * low / 1e12, 3 * top / 1e12)
    log_ticks(ax, "x")
    log_ticks(ax, "y")
    label_axes(ax, "operations for each byte", "10¹² operations a second, at most", title)
    parts = [
        f"{name} has {format_number(at)} and may reach "
        f"{format_number(min(bandwidth * at, top) / 1e12)}"
        for name, at in points.items()
    ]
    head = "Roofline: attainable 10¹² operations a second against operations for each byte"
    ridges = {f"ridge of {name}": peak / bandwidth for name, peak in peaks.items()}
    data = [bandwidth, list(peaks.values()), list(points.values())]
    return Figure(ax.figure, alt or join_sentences(head, parts, ridges), caption, data, provenance)
