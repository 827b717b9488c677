"""Style: the settings of every picture. Nothing happens at import."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas

INK = "#1a1a1a"
QUIET = "#5f5f5f"
HAIR = "#dcdcdc"
WIDTH = 6.4  # inches: about 700 pixels on a page
DPI = 110
PHONE = 3.6, 100  # inches and dots an inch: 360 pixels, on which text of 8.5 points has 11


@contextmanager
def use_book_style(narrow: bool = False) -> Iterator[None]:
    """Draw with the book's settings, whatever the reader's matplotlib settings are.

    `narrow` is for a phone: all pictures are 360 pixels wide, with text of the usual size.
    """
    settings = {
        "figure.figsize": (PHONE[0] if narrow else WIDTH, 3.6),
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": HAIR,
        "grid.linewidth": 0.7,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "legend.handlelength": 3.2,
        "lines.linewidth": 1.6,
        "lines.markersize": 5.5,
        "lines.dash_capstyle": "butt",
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.hashsalt": "labkit",
        "svg.fonttype": "none",  # text stays text
    }
    with matplotlib.style.context(["default", settings]):
        yield


def is_narrow() -> bool:
    """Return whether the current drawing is for a phone."""
    return rcParams["figure.figsize"][0] < WIDTH


def make_canvas(height: float = 3.6, width: float | None = None) -> Canvas:
    """Make an empty picture without pyplot, so that none stays open."""
    size = (width or rcParams["figure.figsize"][0], height)
    picture = Canvas(figsize=size, dpi=DPI, layout="constrained")
    picture.get_layout_engine().set(w_pad=0.07, h_pad=0.07)  # type: ignore[union-attr]
    FigureCanvasAgg(picture)
    return picture


def label_axes(ax: Any, xlabel: str, ylabel: str, title: str | None = None) -> None:
    """Label the axes: the quantity is above its axis, where it reads without turning."""
    ax.set_xlabel(wrap(xlabel, 42))
    ylabel = wrap(ylabel, 42)
    room = "\n" * (1 + ylabel.count("\n"))
    head = wrap(title, 36) + room if title else ""
    ax.set_title(head, loc="left", fontsize=10.5, fontweight="bold")
    above: dict[str, Any] = {"color": QUIET, "fontsize": 9.5, "ha": "left", "va": "bottom"}
    write_text(ax, ylabel, (0, 1), (0, 6), xycoords="axes fraction", **above)


def wrap(text: str, most: int) -> str:
    """Wrap words into lines of at most `most` characters on a phone; elsewhere leave them."""
    if not is_narrow():
        return text
    return "\n".join("\n".join(textwrap.wrap(line, most)) for line in text.split("\n"))


def write_text(ax: Any, text: str, at: Any, aside: tuple[float, float], **how: Any) -> None:
    """Write text `aside` points from a place."""
    ax.annotate(text, at, xytext=aside, textcoords="offset points", **{"fontsize": 9, **how})


def name_rows(ax: Any, names: Iterable[str], keys: Sequence[str]) -> None:
    """Label each row with a name, the first on top; on a phone the name is above its row."""
    names = list(names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    if is_narrow():
        ax.set_yticks([])
        for row, (name, key) in enumerate(zip(names, keys, strict=True)):
            at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
            write_text(ax, name, (0, row - 0.36), (0, 0), gid=key, **at)
        return
    ax.set_yticks(range(len(names)), names)
    for label, key in zip(ax.get_yticklabels(), keys, strict=True):
        label.set_gid(key)


def write_beside_row(ax: Any, row: int, text: str) -> None:
    """Write text at the right end of a row; on a phone, above it."""
    if is_narrow():
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "ha": "right"}
        write_text(ax, text, (1, row - 0.36), (0, 0), **at)
        return
    write_text(ax, text, (1, row), (8, 0), xycoords=("axes fraction", "data"), va="center")


def measure_contrast(colour: Any, ground: Any = "white") -> float:
    """Return the contrast of two colours as WCAG defines it: 1 is none, 21 is black on white."""
    light, dark = sorted((_compute_luminance(colour), _compute_luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _compute_luminance(colour: Any) -> float:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
