"""Slider: precomputed pictures behind one range input; a page needs no kernel to move it."""

import base64
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from .figure import Figure, show, show_caption, thin

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


class Slider:
    """Figures under one slider, shown as a page fragment with the first picture as fallback."""

    def __init__(self, figures: Mapping[str, Figure], name: str, label: str, caption: str) -> None:
        self.figures, self.name, self.caption = dict(figures), name, caption
        first = next(iter(self.figures.values()))
        self.html = _page(self.figures, f"labkit-slider-{name}", label)
        self.png = base64.b64encode(first.png()).decode("ascii")
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

    def metadata(self) -> dict[str, Any]:
        """Give what a build reads, as a figure does."""
        figures = list(self.figures.values())
        return {
            "kind": "slider",
            "alt": self.alt,
            "caption": self.caption,
            "data": thin([figure.data for figure in figures]),
            "provenance": figures[0].provenance,
        }

    def _ipython_display_(self) -> None:
        bundle = {"text/html": self.html, "image/png": self.png, "text/plain": self.alt}
        show(bundle, self.metadata())
        show_caption(self.caption)

    def __repr__(self) -> str:
        return self.alt


def frames(
    figures: Mapping[str, Figure], name: str, *, label: str = "frame", caption: str | None = None
) -> Slider:
    """Put figures behind one slider; `name` is unique on its page, `label` names what moves."""
    if not figures:
        raise ValueError("a slider needs at least one figure, got none")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"a slider's name is made of a-z, 0-9 and -, got {name!r}")
    figures = {str(key): figure for key, figure in figures.items()}
    return Slider(figures, name, label, caption or next(iter(figures.values())).caption)


def _page(figures: Mapping[str, Figure], name: str, label: str) -> str:
    images = [
        IMAGE.format(
            png=base64.b64encode(figure.png()).decode("ascii"),
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
