"""Sliders: one value to move by hand; a widget in JupyterLab, precomputed pictures on the site."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from .figure import Figure, Shown, publish_caption, thin_numbers

MOST_BYTES = 300_000

# The pictures lie in the page, all but the first hidden. Without scripts the first one stays.
PAGE = """<div class="labkit-slider" id="{id}" style="max-width: 720px">
<div>
{images}
</div>
<p hidden><label for="{id}-range">{label}: <output for="{id}-range">{first}</output></label><br>
<input type="range" id="{id}-range" min="0" max="{last}" step="1" value="0"
 aria-valuetext="{first}" style="width: 100%"></p>
<script>
(() => {{
  const box = document.getElementById("{id}");
  const range = box.querySelector("input");
  const images = box.querySelectorAll("img");
  range.addEventListener("input", () => {{
    images.forEach((image, i) => {{ image.hidden = i !== Number(range.value); }});
    const name = images[range.value].dataset.label;
    box.querySelector("output").textContent = name;
    range.setAttribute("aria-valuetext", name);
  }});
  box.querySelector("p").hidden = false;
}})();
</script>
</div>"""
IMAGE = '<img src="data:image/png;base64,{png}" alt="{alt}" data-label="{label}"{hidden}>'


class Slider(Shown):
    """Figures under one slider; where no kernel listens, a page with the first as fallback."""

    kind = "slider"

    def __init__(self, figures: Mapping[str, Figure], name: str, label: str, caption: str) -> None:
        self.figures, self.label, self.caption = dict(figures), label, caption
        first = next(iter(self.figures.values()))
        self.html = _build_page(self.figures, f"labkit-slider-{name}", label)
        self.png = first.base64()
        size = len(self.html.encode()) + len(self.png)
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

    def pages(self) -> dict[str, str]:
        """Return the page fragment, the first picture and the alt text."""
        return {"text/html": self.html, "image/png": self.png, "text/plain": self.alt}

    def _ipython_display_(self) -> None:
        if is_live():
            self._show_widget()
        else:
            super()._ipython_display_()

    def _show_widget(self) -> None:
        from IPython.display import display
        from ipywidgets import HTML, Image, SelectionSlider, VBox

        choice = SelectionSlider(
            options=list(self.figures),
            description=self.label,
            style={"description_width": "initial"},
            layout={"width": "95%"},
        )
        picture, words = Image(format="png", width=720), HTML()

        def show_picture(name: str) -> None:
            figure = self.figures[name]
            picture.value, words.value = figure.png(), escape(figure.alt)

        choice.observe(lambda change: show_picture(change["new"]), names="value")
        show_picture(choice.value)
        display(VBox([choice, picture, words]))
        publish_caption(self.caption)


def is_live() -> bool:
    """Return whether a reader sits at a kernel: in a notebook, and not while the book is built."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and not os.environ.get("LABKIT_POOL")


def explore(
    draw: Callable[[Any], Figure],
    values: Sequence[Any],
    name: str,
    *,
    label: str,
    caption: str | None = None,
) -> Slider:
    """Let the reader move one value and see `draw(value)`, a Figure.

    In JupyterLab the range input is an ipywidget; on the site it moves precomputed pictures, at
    most 300 kB in all. `name` is unique on its page, `label` names what moves.
    """
    if len(values) < 2 or len(set(map(str, values))) < len(values):
        raise ValueError(f"there must be at least two values, all different, got {list(values)}")
    pictures = {str(value): draw(value) for value in values}
    return show_frames(pictures, name, label=label, caption=caption)


def show_frames(
    figures: Mapping[str, Figure], name: str, *, label: str = "frame", caption: str | None = None
) -> Slider:
    """Put figures behind one slider; `name` is unique on its page, `label` names what moves."""
    if not figures:
        raise ValueError("a slider needs at least one figure, got none")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"a slider's name is made of a-z, 0-9 and -, got {name!r}")
    figures = {str(key): figure for key, figure in figures.items()}
    return Slider(figures, name, label, caption or next(iter(figures.values())).caption)


def _build_page(figures: Mapping[str, Figure], name: str, label: str) -> str:
    images = [
        IMAGE.format(
            png=figure.base64(),
            alt=escape(figure.alt),
            label=escape(key),
            hidden=" hidden" if i else "",
        )
        for i, (key, figure) in enumerate(figures.items())
    ]
    return PAGE.format(
        id=name,
        images="\n".join(images),
        label=escape(label),
        first=escape(next(iter(figures))),
        last=len(figures) - 1,
    )
