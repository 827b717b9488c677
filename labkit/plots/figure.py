"""Figure: a picture with its alt text, caption and numbers.

A notebook shows the PNG and then the caption; the output's metadata lets a build find out, without
comparing pixels, whether a figure has changed. A site also gets drawings for a wide screen and for
a phone, which its script reads, and a table of their numbers.
"""

import base64
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, ParamSpec, Self

import numpy as np
from matplotlib.figure import Figure as Canvas
from PIL import Image

from labkit.display import publish_bundle

from .looks import COLOURS
from .marks import KEY, NAME, Marks
from .style import DPI, HAIR, INK, PHONE, QUIET, use_book_style

MOST_NUMBERS = 400
PLACES = "d|x|y|width|height|transform|points|viewBox"  # of what is drawn
XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
FONTS = "'DejaVu Sans', Verdana, sans-serif"  # what a drawing's text fits; Verdana is as wide
# The colours that a page may change, in the dark say, by its variables --figure-ink and so on.
VARIABLES = {"#ffffff": "ground", QUIET: "quiet", HAIR: "hair",
             **{colour: name for name, colour in COLOURS.items()}, INK: "ink"}  # fmt: skip


P = ParamSpec("P")


def redrawable(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    """Make `draw` use the book's settings, and its figures redraw themselves for a phone."""

    @wraps(draw)
    def draw_wide(*args: P.args, **how: P.kwargs) -> Figure:
        with use_book_style():
            figure = draw(*args, **how)
        figure.draw_narrow = use_book_style(narrow=True)(lambda: draw(*args, **how))
        return figure

    return draw_wide


class Shown(ABC):
    """An output of a notebook with a caption below it, which a build can read."""

    kind = "figure"
    name: str = ""  # its address on a page, independent of its words and position
    alt: str
    caption: str
    data: list[float | None]
    provenance: Mapping[str, Any] | None

    @abstractmethod
    def pages(self) -> dict[str, str]:
        """Return the contents of the output, by MIME type."""

    def named(self, name: str) -> Self:
        """Set the address of this figure for links: "#figure-" and the name."""
        self.name = check_name(name)
        return self

    def metadata(self) -> dict[str, Any]:
        """Return the facts that a build reads: name, caption, numbers and their provenance."""
        keys = ("name", "caption", "data", "provenance")
        return {key: getattr(self, key) for key in keys}

    def _ipython_display_(self) -> None:
        publish_bundle(self.pages(), self.kind, **self.metadata())
        words = {"text/markdown": self.caption, "text/plain": self.caption}
        publish_bundle(words, "caption")

    def __repr__(self) -> str:
        return self.alt


class Figure(Shown):
    """A finished picture: `alt` describes the drawing, `caption` and `note` what to notice."""

    def __init__(
        self,
        fig: Canvas,
        alt: str,
        caption: str,
        data: Any,
        provenance: Mapping[str, Any] | None = None,
        note: str = "",
        marks: Marks | None = None,
    ) -> None:
        for name, text in (("alt", alt), ("caption", caption)):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(
                    f"a figure needs a non-empty {name}, got {text!r}; "
                    + ("say what is drawn, with numbers" if name == "alt" else "say what to see")
                )
        self.fig, self.alt = fig, alt.strip()
        self.caption = " ".join(filter(None, (caption.strip(), note.strip())))
        self.data = thin_numbers(data)
        self.provenance = dict(provenance) if provenance is not None else None
        self.marks = marks
        self.draw_narrow: Callable[[], Figure] | None = None
        self._png: bytes | None = None

    def png(self) -> bytes:
        """Draw once, in few colours that keep hues distinct; no date or program name inside."""
        if self._png is None:
            raw, small = io.BytesIO(), io.BytesIO()
            with use_book_style():
                self.fig.savefig(raw, format="png", dpi=DPI, metadata={"Software": None})
            picture = Image.open(raw).convert("RGB")
            colours = picture.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            colours.save(small, format="PNG", optimize=True)
            self._png = small.getvalue()
        return self._png

    def save(self, path: str | Path) -> Path:
        """Save the picture; the file's ending sets the format (png, svg or pdf)."""
        path = Path(path)
        # Without a date equal figures are equal files.
        metadata = {".svg": {"Date": None, "Description": self.alt}, ".pdf": {"CreationDate": None}}
        if path.suffix == ".png":
            path.write_bytes(self.png())
        elif path.suffix in metadata:
            with use_book_style():
                self.fig.savefig(path, metadata=metadata[path.suffix])
        else:
            raise ValueError(f"a figure's file must end in .png, .svg or .pdf, got {path.name!r}")
        return path

    def svg(self, dpi: int = DPI, *, axes: bool = False) -> str:
        """Draw for a page: sharp, with selectable text, in the page's own colours.

        With `axes` it includes the scales of its axes, for a script that draws into them.
        """
        drawn = io.StringIO()
        with use_book_style():
            self.fig.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        svg = re.sub(r"<(metadata|style).*?</\1>\s*", "", drawn.getvalue(), flags=re.S)
        for colour, name in VARIABLES.items():  # elements with their own colour keep it
            svg = svg.replace(colour, f"var(--figure-{name}, {colour})")
        svg = re.sub(rf' id="({KEY}|{NAME})(\d+)"', r' data-\1\2"', svg)
        svg = svg.replace(f" data-{KEY}", ' data-series="').replace(f" data-{NAME}", ' data-name="')
        for name in re.findall(r' id="([^"]+)"', svg):
            if f"#{name}" not in svg:  # unused ids would be repeated on a page
                svg = svg.replace(f' id="{name}"', "")
        # A hundredth of a point is enough.
        svg = re.sub(
            rf' (?:{PLACES})="[^"]*"', lambda place: re.sub(r"(\.\d\d)\d+", r"\1", place[0]), svg
        )
        # The common attributes of all text are written once.
        svg = re.sub(r"; font-family: 'DejaVu Sans'|; text-anchor: start", "", svg)
        svg = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", svg)
        width = f"{self.fig.get_figwidth() * dpi:.0f}"
        head = f'<svg role="img" aria-label="{escape(self.alt)}" width="{width}"'
        if self.marks:
            head += f" {self.marks.locate(self.fig)}"
            head += f" {self.marks.measure(self.fig)}" if axes else ""
        head += f' style="stroke-linejoin: round; font-family: {FONTS}" {XLINK} '
        return head + svg[svg.index("viewBox=") :]

    def draw_page(self, prefix: str = "", *, axes: bool = False) -> str:
        """Draw for a page's wide and narrow screens; `prefix` makes the drawings' ids unique."""
        drawings = {"labkit-wide": self.svg(axes=axes)}
        if self.draw_narrow:
            drawings["labkit-narrow"] = self.draw_narrow().svg(PHONE[1], axes=axes)
        parts = []
        for screen, svg in drawings.items():
            # A hidden element must not own an id that a different drawing uses.
            own = f"{prefix}{screen.removeprefix('labkit-')[0]}-"
            svg = re.sub(r'( id="|url\(#|href="#)', rf"\1{own}", svg)
            parts.append(svg.replace("<svg", f'<svg class="{screen}"', 1))
        marks = f" {self.marks.describe()}" if self.marks else ""
        return f'<div class="labkit-drawing"{marks}>\n' + "\n".join(parts) + "\n</div>"

    def pages(self) -> dict[str, str]:
        """Return the picture, with its alt text as a fallback; a site gets drawings and a table."""
        pages = {"image/png": self.base64(), "text/plain": self.alt}
        if os.environ.get("LABKIT_POOL"):
            pages["text/html"] = self.draw_page()
            if self.marks:
                pages["text/csv"] = self.marks.to_csv()
        return pages

    def base64(self) -> str:
        """Return the PNG in base64, as a page or a notebook stores it."""
        return base64.b64encode(self.png()).decode("ascii")


def check_name(name: str) -> str:
    """Refuse a name that is not a valid address."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(
            f"a figure's name must consist of a-z, 0-9 and -, and begin with a letter; got {name!r}"
        )
    return name


def thin_numbers(data: Any) -> list[float | None]:
    """Flatten to at most 400 numbers of six significant digits; None is a diverged value."""
    numbers = [float(f"{v:.6g}") if isfinite(v) else None for v in _flatten_numbers(data)]
    if len(numbers) > MOST_NUMBERS:
        chosen = np.linspace(0, len(numbers) - 1, MOST_NUMBERS).round().astype(int)
        numbers = [numbers[i] for i in chosen]
    return numbers


def _flatten_numbers(data: Any) -> Iterator[float]:
    if isinstance(data, Iterable):
        for part in data:
            yield from _flatten_numbers(part)
    else:
        yield float("nan") if data is None else float(data)
