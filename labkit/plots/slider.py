"""Sliders: pictures for several values of a parameter, drawn in advance, without a kernel.

A notebook gets them as a Vega-Lite specification, which JupyterLab draws even if it runs no script
of a notebook; a site gets a page fragment with drawings in the page's own colours. Other programs
show the picture at the initial value.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from .figure import Figure, Shown, check_name, thin_numbers
from .style import DPI

MOST_BYTES = 300_000
VEGA_LITE = "application/vnd.vegalite.v5+json"  # the newest that JupyterLab 4 draws

# The drawings are in the page, all but one hidden. Without scripts that one stays.
PAGE = """<div class="labkit-slider" id="{id}" style="max-width: 720px"{live}>
{frames}
<p hidden><label for="{id}-range">{label}: <output for="{id}-range">{shown}</output></label><br>
<input type="range" id="{id}-range" min="{low}" max="{high}" step="{step}" value="{value}"
 aria-valuetext="{shown}" style="width: 100%"></p>
</div>"""
FRAME = '<div class="labkit-frame" data-label="{label}"{hidden}>\n{drawing}\n</div>'


class ClosedForm(NamedTuple):
    """A curve that the page computes for values from `low` to `high`, by its name in figures.js.

    `given` has the constants that it needs. A test compares it with the drawn pictures.
    """

    name: str
    low: float
    high: float
    step: float
    given: Mapping[str, Any]


class Slider(Shown):
    """Figures for the values of a slider; `start` is the one without interaction."""

    kind = "slider"

    def __init__(
        self,
        figures: Mapping[str, Figure],
        name: str,
        label: str,
        caption: str,
        start: str | None = None,
        formula: ClosedForm | None = None,
    ) -> None:
        self.figures, self.label, self.formula = dict(figures), label, formula
        self.name, self.caption = check_name(name), caption
        self.start = start or next(iter(self.figures))
        shown = self.figures[self.start]
        size = sum(len(figure.base64()) for figure in self.figures.values())
        if size > MOST_BYTES:
            raise ValueError(
                f"a slider may have at most {MOST_BYTES // 1000} kB, but {name!r} has "
                f"{size // 1000} kB in {len(self.figures)} frames; use fewer frames or simpler "
                "pictures"
            )
        self.alt = (
            f"Slider over {label} with {len(self.figures)} pictures, "
            f"{', '.join(self.figures)}. At {self.start}: {shown.alt}"
        )
        self.data = thin_numbers([figure.data for figure in self.figures.values()])
        self.provenance = shown.provenance

    def pages(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, the first picture and the alt text.

        During a build of the book, the site also gets a page fragment.
        """
        pages = {
            VEGA_LITE: self.build_specification(),
            "image/png": self.figures[self.start].base64(),
            "text/plain": self.alt,
        }
        if os.environ.get("LABKIT_POOL"):
            pages["text/html"] = self.draw_page()
            if table := self.to_csv():
                pages["text/csv"] = table
        return pages

    def to_csv(self) -> str:
        """List the numbers of all pictures, with the slider's value first."""
        rows = []
        for key, figure in self.figures.items():
            if figure.marks is None:
                return ""
            head, *body = csv.reader(io.StringIO(figure.marks.to_csv()))
            rows = rows or [[self.label, *head]]
            rows += [[key, *row] for row in body]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        return out.getvalue()

    def build_specification(self) -> dict[str, Any]:
        """Build a Vega-Lite specification: the pictures, and buttons that choose one of them."""
        shown = self.figures[self.start]
        width, height = (DPI * inches for inches in shown.fig.get_size_inches())
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
            "params": [{"name": "chosen", "value": self.start, "bind": choice}],
            "transform": [{"filter": "datum.frame == chosen"}],
            "mark": {"type": "image", "width": width, "height": height},
            "encoding": {
                "x": {"value": width / 2},
                "y": {"value": height / 2},
                "url": {"field": "picture", "type": "nominal"},
            },
        }

    def draw_page(self) -> str:
        """Draw the pictures for a page, with a range input that selects one."""
        name = f"labkit-slider-{self.name}"
        keys = [self.start] if self.formula else list(self.figures)
        frames = [
            FRAME.format(
                label=escape(key),
                hidden="" if key == self.start else " hidden",
                drawing=self.figures[key].draw_page(f"{name}-{i}-", axes=bool(self.formula)),
            )
            for i, key in enumerate(keys)
        ]
        scale = {"low": 0, "high": len(keys) - 1, "step": 1, "value": keys.index(self.start)}
        live = ""
        if self.formula:
            of, *_ = self.formula
            told = json.dumps({"name": of, **self.formula.given}, separators=(",", ":"))
            live = f' data-formula="{escape(told)}"'
            scale = {key: getattr(self.formula, key) for key in ("low", "high", "step")}
            scale["value"] = self.start
        return PAGE.format(
            id=name, frames="\n".join(frames), label=escape(self.label),
            shown=escape(self.start), live=live, **scale,
        )  # fmt: skip


def explore(
    draw: Callable[[Any], Figure],
    values: Sequence[Any],
    name: str,
    *,
    label: str,
    start: Any = None,
    formula: ClosedForm | None = None,
    caption: str | None = None,
) -> Slider:
    """Show `draw(value)`, a Figure, with a slider for the value.

    All pictures are drawn at once, with at most 300 kB in total. `name` must be unique on its page,
    and `label` names the parameter. Numbers must be in order; the slider begins at `start`, else at
    the first. With a `formula` the page also computes the drawing for values in between.
    """
    if len(values) < 2 or len(set(map(str, values))) < len(values):
        raise ValueError(f"a slider needs at least two values, all different, got {list(values)}")
    numbers = [value for value in values if isinstance(value, (int, float))]
    if len(numbers) == len(values) and numbers not in (sorted(numbers), sorted(numbers)[::-1]):
        raise ValueError(
            "the numbers of a slider must be in ascending or descending order, got "
            f"{list(values)}; sort them, and set start= to the value that is shown first"
        )
    check_name(name)
    start = values[0] if start is None else start
    if start not in values:
        raise ValueError(f"a slider must start at one of {list(values)}, got {start!r}")
    pictures = {str(value): draw(value) for value in values}
    shown = pictures[str(start)]
    return Slider(pictures, name, label, caption or shown.caption, str(start), formula)
