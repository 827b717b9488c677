"""Figure: a picture with its alternative text, caption and the numbers that it draws.

A notebook shows the PNG and then the caption; the output's metadata carries what a build needs in
order to say, without looking at pixels, whether a figure has changed.
"""

import base64
import io
import sys
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from PIL import Image

from .style import DPI, book

MOST_NUMBERS = 400


class Figure:
    """A finished picture: `alt` says what is drawn, `caption` says what to look for."""

    def __init__(
        self,
        fig: Canvas,
        alt: str,
        caption: str,
        data: Any,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        for name, text in (("alt", alt), ("caption", caption)):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(
                    f"a figure needs a non-empty {name}, got {text!r}; "
                    + ("say what is drawn, with numbers" if name == "alt" else "say what to see")
                )
        self.fig, self.alt, self.caption = fig, alt.strip(), caption.strip()
        self.data = thin(data)
        self.provenance = dict(provenance) if provenance is not None else None
        self._png: bytes | None = None

    def png(self) -> bytes:
        """Draw once, in a small palette, with no date and no program name inside."""
        if self._png is None:
            raw, small = io.BytesIO(), io.BytesIO()
            with book():
                self.fig.savefig(raw, format="png", dpi=DPI, metadata={"Software": None})
            picture = Image.open(raw).convert("RGB")
            colours = picture.quantize(128, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
            colours.save(small, format="PNG", optimize=True)
            self._png = small.getvalue()
            _close(self.fig)
        return self._png

    def save(self, path: str | Path) -> Path:
        """Write the picture; the ending says the format (png, svg or pdf)."""
        path = Path(path)
        if path.suffix == ".png":
            path.write_bytes(self.png())
        elif path.suffix in (".svg", ".pdf"):
            undated = {"Date" if path.suffix == ".svg" else "CreationDate": None}
            with book():
                self.fig.savefig(path, metadata=undated)
            _close(self.fig)
        else:
            raise ValueError(f"a figure is saved as .png, .svg or .pdf, got {path.name!r}")
        return path

    def metadata(self) -> dict[str, Any]:
        """Give what a build reads: alt text, caption, numbers and where they came from."""
        return {
            "kind": "figure",
            "alt": self.alt,
            "caption": self.caption,
            "data": self.data,
            "provenance": self.provenance,
        }

    def _ipython_display_(self) -> None:
        png = base64.b64encode(self.png()).decode("ascii")
        show({"image/png": png, "text/plain": self.alt}, self.metadata())
        show_caption(self.caption)

    def __repr__(self) -> str:
        return self.alt


def show(bundle: dict[str, str], labkit: dict[str, Any]) -> None:
    """Publish one output whose metadata says what kind of output it is."""
    from IPython.display import display  # only a notebook has it

    display(bundle, raw=True, metadata={"labkit": labkit})


def show_caption(caption: str) -> None:
    """Publish a caption as an output of its own."""
    show({"text/markdown": caption, "text/plain": caption}, {"kind": "caption"})


def thin(data: Any) -> list[float | None]:
    """Flatten to at most 400 numbers of six significant digits; None is a diverged value."""
    numbers = [float(f"{v:.6g}") if isfinite(v) else None for v in _flat(data)]
    if len(numbers) > MOST_NUMBERS:
        chosen = np.linspace(0, len(numbers) - 1, MOST_NUMBERS).round().astype(int)
        numbers = [numbers[i] for i in chosen]
    return numbers


def _flat(data: Any) -> Iterable[float]:
    if isinstance(data, Mapping):
        data = list(data.values())
    if data is None:
        yield float("nan")
    elif isinstance(data, np.ndarray):
        yield from data.astype(float).ravel().tolist()
    elif isinstance(data, list | tuple):
        for part in data:
            yield from _flat(part)
    elif not isinstance(data, str):
        yield float(data)


def _close(fig: Canvas) -> None:
    """Let go of a picture that pyplot holds open."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(fig)
