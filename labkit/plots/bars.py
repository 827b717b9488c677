"""Bars: what a whole is made of, one bar a case, its parts side by side."""

from collections.abc import Mapping
from typing import Any

from .alt import format_number, join_sentences
from .figure import Figure
from .looks import COLOURS
from .series import start_axes
from .style import HAIR, label_axes, name_rows, use_book_style, write_beside_row

# Shade and hatch of the first, second … part; the last part is the one to look at.
_QUIET = (("#cfd8e3", ""), ("#e9e2cf", ""), ("#dfe9dc", ""), ("#e6dbe6", ""), ("#eeeeee", ""))
_LOUD = (COLOURS["vermillion"], "//")


@use_book_style()
def share_bars(
    wholes: Mapping[str, Mapping[str, float]],
    *,
    caption: str,
    notes: Mapping[str, str] | None = None,
    xlabel: str = "% of the whole",
    title: str | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one bar of 100 % for each whole; the last part is loud, and its share is written.

    `notes` has a few words for the right end of a bar. All wholes have the same parts.
    """
    names = list(next(iter(wholes.values()), {}))
    if not names or any(list(parts) != names for parts in wholes.values()):
        raise ValueError("share_bars needs wholes with the same parts, in the same order")
    looks = [*_QUIET[: len(names) - 1], _LOUD]
    ax = start_axes(height=1.25 + 0.36 * len(wholes) + 0.2 * bool(title))
    edge: dict[str, Any] = {"height": 0.72, "edgecolor": "white", "linewidth": 0.8}
    parts = []
    for row, (whole, sizes) in enumerate(wholes.items()):
        left, share, total = 0.0, 0.0, sum(sizes.values())
        for size, (colour, hatch) in zip(sizes.values(), looks, strict=True):
            share = 100 * size / total
            ax.barh(row, share, left=left, color=colour, hatch=hatch, **edge)
            left += share
        write_beside_row(
            ax, row, f"{format_number(share)} %" + (f", {notes[whole]}" if notes else "")
        )
        parts.append(f"{whole} {format_number(share)} %")
    name_rows(ax, wholes)
    ax.set_xlim(0, 100)
    ax.grid(False)
    ax.spines["left"].set_color(HAIR)
    label_axes(ax, xlabel, "", title)
    handles = ax.patches[: len(names)]
    where: dict[str, Any] = {"loc": "outside upper left", "ncols": len(names)}
    ax.figure.legend(handles, names, handlelength=1.4, **where)
    head = f"Bars of the share of {names[-1]} among {', '.join(names)}"
    data = [list(sizes.values()) for sizes in wholes.values()]
    return Figure(ax.figure, alt or join_sentences(head, parts), caption, data, provenance)
