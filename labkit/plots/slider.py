"""Sliders: one value to move, by pictures drawn before: no kernel and no trust is needed.

A notebook gets them as a Vega-Lite specification, which JupyterLab draws even where it runs no
script of a notebook; a site gets a page fragment with drawings in the page's own colours. What
knows neither shows the first picture.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from .figure import Figure, Shown, thin_numbers
from .style import DPI

MOST_BYTES = 300_000
VEGA_LITE = "application/vnd.vegalite.v5+json"  # the newest that JupyterLab 4 draws

# The drawings lie in the page, all but the first hidden. Without scripts the first one stays.
PAGE = """<div class="labkit-slider" id="{id}" style="max-width: 720px">
{frames}
<p hidden><label for="{id}-range">{label}: <output for="{id}-range">{first}</output></label><br>
<input type="range" id="{id}-range" min="0" max="{last}" step="1" value="0"
 aria-valuetext="{first}" style="width: 100%"></p>
<script>
(() => {{
  const box = document.getElementById("{id}");
  const range = box.querySelector("input");
  const frames = box.querySelectorAll(".labkit-frame");
  range.addEventListener("input", () => {{
    frames.forEach((frame, i) => {{ frame.hidden = i !== Number(range.value); }});
    const name = frames[range.value].dataset.label;
    box.querySelector("output").textContent = name;
    range.setAttribute("aria-valuetext", name);
  }});
  box.querySelector("p").hidden = false;
}})();
</script>
</div>"""
FRAME = '<div class="labkit-frame" data-label="{label}"{hidden}>\n{svg}\n</div>'


class Slider(Shown):
    """Figures of which the reader chooses one to see; the first stands where nothing moves."""

    kind = "slider"

    def __init__(self, figures: Mapping[str, Figure], name: str, label: str, caption: str) -> None:
        self.figures, self.name, self.label = dict(figures), name, label
        self.caption = caption
        first = next(iter(self.figures.values()))
        size = sum(len(figure.base64()) for figure in self.figures.values())
        if size > MOST_BYTES:
            raise ValueError(
                f"a slider holds at most {MOST_BYTES // 1000} kB, {name!r} has {size // 1000} kB "
                f"in {len(self.figures)} frames; use fewer frames or plainer pictures"
            )
        self.alt = (
            f"Slider over {label} with {len(self.figures)} pictures, "
            f"{', '.join(self.figures)}. First: {first.alt}"
        )
        self.data = thin_numbers([figure.data for figure in self.figures.values()])
        self.provenance = first.provenance

    def pages(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, the first picture and the alt text.

        While the book is built its site gets a page fragment, too.
        """
        first = next(iter(self.figures.values()))
        pages = {
            VEGA_LITE: self.build_specification(),
            "image/png": first.base64(),
            "text/plain": self.alt,
        }
        return {"text/html": self.draw_page(), **pages} if os.environ.get("LABKIT_POOL") else pages

    def build_specification(self) -> dict[str, Any]:
        """Build a Vega-Lite specification: the pictures, and buttons that choose one of them."""
        first, *_ = self.figures
        width, height = (DPI * inches for inches in self.figures[first].fig.get_size_inches())
        frames = [
            {"frame": key, "picture": f"data:image/png;base64,{figure.base64()}"}
            for key, figure in self.figures.items()
        ]
        choice = {"input": "radio", "options": list(self.figures), "name": f"{self.label}: "}
        return {
            "description": self.alt,
            "width": width,
            "height": height,
            "padding": 0,
            "config": {"view": {"stroke": None}},
            "usermeta": {"embedOptions": {"actions": False}},
            "data": {"values": frames},
            "params": [{"name": "chosen", "value": first, "bind": choice}],
            "transform": [{"filter": "datum.frame == chosen"}],
            "mark": {"type": "image", "width": width, "height": height},
            "encoding": {
                "x": {"value": width / 2},
                "y": {"value": height / 2},
                "url": {"field": "picture", "type": "nominal"},
            },
        }

    def draw_page(self) -> str:
        """Draw the pictures for a page, with a range input that moves through them."""
        name = f"labkit-slider-{self.name}"
        frames = [
            FRAME.format(
                label=escape(key),
                hidden=" hidden" if i else "",
                # A hidden frame must not own a name that another frame's drawing refers to.
                svg=re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-{i}-", figure.svg()),
            )
            for i, (key, figure) in enumerate(self.figures.items())
        ]
        return PAGE.format(
            id=name,
            frames="\n".join(frames),
            label=escape(self.label),
            first=escape(next(iter(self.figures))),
            last=len(frames) - 1,
        )


def explore(
    draw: Callable[[Any], Figure],
    values: Sequence[Any],
    name: str,
    *,
    label: str,
    caption: str | None = None,
) -> Slider:
    """Let the reader move one value and see `draw(value)`, a Figure.

    Every picture is drawn at once, at most 300 kB in all. `name` is unique on its page, `label`
    names what moves.
    """
    if len(values) < 2 or len(set(map(str, values))) < len(values):
        raise ValueError(f"there must be at least two values, all different, got {list(values)}")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"a slider's name is made of a-z, 0-9 and -, got {name!r}")
    pictures = {str(value): draw(value) for value in values}
    return Slider(pictures, name, label, caption or next(iter(pictures.values())).caption)
