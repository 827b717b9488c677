"""Bars: what a whole is made of, one bar a case, its parts side by side."""

from collections.abc import Mapping
from typing import Any

from .alt import number, sentences
from .figure import Figure
from .looks import COLOURS
from .style import HAIR, INK, book, canvas, dress

# Shade and hatch of the first, second … part; the last part is the one to look at.
_QUIET = (("#cfd8e3", ""), ("#e9e2cf", ""), ("#dfe9dc", ""), ("#e6dbe6", ""), ("#eeeeee", ""))
_LOUD = (COLOURS["vermillion"], "//")


@book()
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
    picture = canvas(height=1.25 + 0.36 * len(wholes) + 0.2 * bool(title))
    ax = picture.add_subplot()
    looks = [*_QUIET[: len(names) - 1], _LOUD]
    loud = {}
    for row, (whole, parts) in enumerate(wholes.items()):
        left, total = 0.0, sum(parts.values())
        for name, (colour, hatch) in zip(names, looks, strict=True):
            width = 100 * parts[name] / total
            ax.barh(
                row, width, left=left, height=0.72, color=colour, hatch=hatch,
                edgecolor="white", linewidth=0.8, label=name if row == 0 else None,
            )  # fmt: skip
            left += width
        loud[whole] = 100 * parts[names[-1]] / total
        text = f"{number(loud[whole])} %" + (f", {notes[whole]}" if notes else "")
        ax.annotate(
            text, (1, row), xycoords=("axes fraction", "data"), xytext=(8, 0),
            textcoords="offset points", va="center", fontsize=9, color=INK,
        )  # fmt: skip
    ax.set_yticks(range(len(wholes)), list(wholes))
    ax.set_ylim(len(wholes) - 0.5, -0.5)
    ax.set_xlim(0, 100)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.spines["left"].set_color(HAIR)
    dress(ax, xlabel, "", title)
    picture.legend(loc="outside upper left", ncols=len(names), handlelength=1.4)
    head = f"Bars of the share of {names[-1]} among {', '.join(names)}"
    return Figure(
        picture,
        alt or sentences(head, [f"{whole} {number(share)} %" for whole, share in loud.items()]),
        caption,
        [[parts[name] for name in names] for parts in wholes.values()],
        provenance,
    )
