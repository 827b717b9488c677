"""Figure: a picture with its alternative text, caption and the numbers that it draws.

A notebook shows the PNG and then the caption; the output's metadata carries what a build needs in
order to say, without looking at pixels, whether a figure has changed.
"""

import base64
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from PIL import Image

from labkit.display import publish_bundle

from .looks import COLOURS
from .style import DPI, HAIR, INK, QUIET, use_book_style

MOST_NUMBERS = 400
# The colours that a page may change, in the dark say, by its variables --figure-ink and so on.
VARIABLES = {"#ffffff": "ground", QUIET: "quiet", HAIR: "hair",
             **{colour: name for name, colour in COLOURS.items()}, INK: "ink"}  # fmt: skip


class Shown(ABC):
    """What a notebook shows with a caption below it, and what a build reads of it."""

    kind = "figure"
    alt: str
    caption: str
    data: list[float | None]
    provenance: Mapping[str, Any] | None

    @abstractmethod
    def pages(self) -> dict[str, str]:
        """Return what is shown, by its type."""

    def metadata(self) -> dict[str, Any]:
        """Return what a build reads: caption, numbers and where they came from."""
        keys = ("caption", "data", "provenance")
        return {key: getattr(self, key) for key in keys}

    def _ipython_display_(self) -> None:
        publish_bundle(self.pages(), self.kind, **self.metadata())
        words = {"text/markdown": self.caption, "text/plain": self.caption}
        publish_bundle(words, "caption")

    def __repr__(self) -> str:
        return self.alt


class Figure(Shown):
    """A finished picture: `alt` says what is drawn, `caption` and a `note` what to look for."""

    def __init__(
        self,
        fig: Canvas,
        alt: str,
        caption: str,
        data: Any,
        provenance: Mapping[str, Any] | None = None,
        note: str = "",
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
        self._png: bytes | None = None

    def png(self) -> bytes:
        """Draw once, in few colours that keep hues apart; no date or program name inside."""
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
        """Write the picture; the ending says the format (png, svg or pdf)."""
        path = Path(path)
        # Without a date equal figures are equal files.
        metadata = {".svg": {"Date": None, "Description": self.alt}, ".pdf": {"CreationDate": None}}
        if path.suffix == ".png":
            path.write_bytes(self.png())
        elif path.suffix in metadata:
            with use_book_style():
                self.fig.savefig(path, metadata=metadata[path.suffix])
        else:
            raise ValueError(f"a figure is saved as .png, .svg or .pdf, got {path.name!r}")
        return path

    def svg(self) -> str:
        """Draw for a page: crisp, its text selectable, its colours the page's own."""
        drawn = io.StringIO()
        with use_book_style():
            self.fig.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        svg = re.sub(r"<(metadata|style).*?</\1>\s*", "", drawn.getvalue(), flags=re.S)
        for colour, name in VARIABLES.items():  # what has a colour of its own keeps it, as cells do
            svg = svg.replace(colour, f"var(--figure-{name}, {colour})")
        for name in re.findall(r' id="([^"]+)"', svg):
            if f"#{name}" not in svg:  # names that nothing asks for would come again on a page
                svg = svg.replace(f' id="{name}"', "")
        svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
        width = f"{self.fig.get_figwidth() * DPI:.0f}"
        head = f'<svg role="img" aria-label="{escape(self.alt)}" width="{width}"'
        head += ' style="stroke-linejoin: round" xmlns:xlink="http://www.w3.org/1999/xlink" '
        return head + svg[svg.index("viewBox=") :]

    def pages(self) -> dict[str, str]:
        """Return the picture, and its alt text in its place; a site gets it drawn sharper, too."""
        pages = {"image/png": self.base64(), "text/plain": self.alt}
        return {**pages, "image/svg+xml": self.svg()} if os.environ.get("LABKIT_POOL") else pages

    def base64(self) -> str:
        """Return the PNG as a page or a notebook holds it."""
        return base64.b64encode(self.png()).decode("ascii")


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
