"""Style: the settings that every picture is drawn with. Nothing happens at import."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas

INK = "#1a1a1a"
QUIET = "#5f5f5f"
HAIR = "#dcdcdc"
WIDTH = 6.4  # inches: about 700 pixels on a page
DPI = 110


@contextmanager
def use_book_style() -> Iterator[None]:
    """Draw with the book's settings, whatever the reader's matplotlib is set to."""
    settings = {
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


def make_canvas(height: float = 3.6, width: float = WIDTH) -> Canvas:
    """Make an empty picture that pyplot does not know, so that none stays open."""
    picture = Canvas(figsize=(width, height), dpi=DPI, layout="constrained")
    picture.get_layout_engine().set(w_pad=0.07, h_pad=0.07)  # type: ignore[union-attr]
    FigureCanvasAgg(picture)
    return picture


def label_axes(ax: Any, xlabel: str, ylabel: str, title: str | None = None) -> None:
    """Name the axes: the quantity stands above its axis, where it reads without turning."""
    ax.set_xlabel(xlabel)
    ax.set_title(f"{title}\n" if title else "", loc="left", fontsize=10.5, fontweight="bold")
    above: dict[str, Any] = {"color": QUIET, "fontsize": 9.5, "ha": "left", "va": "bottom"}
    write_text(ax, ylabel, (0, 1), (0, 6), xycoords="axes fraction", **above)


def write_text(ax: Any, text: str, at: Any, aside: tuple[float, float], **how: Any) -> None:
    """Write words `aside` points from a place."""
    ax.annotate(text, at, xytext=aside, textcoords="offset points", **{"fontsize": 9, **how})


def name_rows(ax: Any, names: Iterable[str]) -> None:
    """Return every name a row of its own, the first on top."""
    names = list(names)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def write_beside_row(ax: Any, row: int, text: str) -> None:
    """Write words at the right end of a row."""
    write_text(ax, text, (1, row), (8, 0), xycoords=("axes fraction", "data"), va="center")


def measure_contrast(colour: Any, ground: Any = "white") -> float:
    """Measure the contrast of two colours as WCAG does: 1 is none, 21 is black on white."""
    light, dark = sorted((_compute_luminance(colour), _compute_luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _compute_luminance(colour: Any) -> float:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
