"""The block bench in a chapter: a picture that every page can show, and a page makes a bench of.

    show_bench(lab, climbed, "pre", beside="post", caption=…)

The picture has the blocks and what learning rates did to them. On the site a script puts the bench
in its place. Where a notebook runs, the bench stands below the picture, in a frame of its own: it
needs the book's folder, and a notebook that is trusted, as one is that was just run. A stored
notebook keeps the picture alone.
"""

import html
import os
from pathlib import Path
from typing import Any

from labkit.corpora.ngrams import ngram_loss
from labkit.display import in_notebook, publish_bundle
from labkit.experiments import Lab, Results, ladder
from labkit.placements import RECIPES
from labkit.plots.bench import block_bench
from labkit.plots.figure import Figure
from labkit.system.root import project_root

STATIC = Path("chapters") / "_static"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>The block bench</title>
<style>{style}</style>
<figure class="labkit-figure" style="margin: 0" data-bench="{address}"></figure>
<script>{script}</script>"""
FRAME = '<iframe title="The block bench" srcdoc="{page}" style="{style}"></iframe>'
STYLE = "width: 100%; height: 54rem; border: 0; background: white"


class BenchFigure(Figure):
    """A picture of the bench; `bench` says what the bench begins with, as its address does."""

    def __init__(self, picture: Figure, bench: str) -> None:
        super().__init__(
            picture.fig, picture.alt, picture.caption, picture.data, picture.provenance,
            marks=picture.marks,
        )  # fmt: skip
        self.bench, self.draw_narrow = bench, picture.draw_narrow

    def metadata(self) -> dict[str, Any]:
        """Return what a build reads: besides a figure's facts, what the bench begins with."""
        return {**super().metadata(), "bench": self.bench}

    def _ipython_display_(self) -> None:
        super()._ipython_display_()
        if not in_notebook() or os.environ.get("LABKIT_POOL"):
            return
        if live := draw_live(self.bench):
            publish_bundle({"text/html": live, "text/plain": "The block bench."}, "volatile")


def show_bench(
    lab: Lab, found: Results, recipe: str, beside: str | None = None, *, caption: str
) -> BenchFigure:
    """Draw the bench as it begins: a recipe, perhaps to the right of another, on the smallest rung.

    `found` are rows of the ladder (`lab.ladder`); what else they hold of that rung stays grey.
    """
    rung = next(iter(found.by("rung")))
    rows = [
        (labels, record)
        for labels, record in found
        if labels["rung"] == rung and labels["stage"] in ("tuning", "room")
    ]
    by_arm = Results(tuple(rows)).by("arm")
    tried = {
        name: {rate: at.values("validation.loss") for rate, at in of.by("lr").items()}
        for name, of in by_arm.items()
        if name in RECIPES
    }
    shown = [recipe] if beside is None else [beside, recipe]
    text = ladder.build_text(rung)
    picture = block_bench(
        {name: tried[name] for name in shown},
        tried,
        reference={
            "letter frequencies": ngram_loss(text, 1, "validation"),
            "trigram counts": ngram_loss(text, 3, "validation"),
        },
        caption=caption,
        provenance=lab.provenance(*(by_arm[name] for name in shown)),
    )
    return BenchFigure(picture, f"r={recipe}" + (f"&a={beside}" if beside else ""))


def draw_live(bench: str, root: Path | None = None) -> str:
    """Write the bench as a frame with all that it needs; nothing where the book is not there."""
    folder = (root or project_root()) / STATIC
    data = sorted((folder / "blocks").glob("*.json"))
    if not data or not (folder / "bench.js").is_file():
        return ""
    files = [
        (folder / "bench.js").read_text(encoding="utf-8"),
        *(f'labkitBlocks("{path.stem}",{path.read_text(encoding="utf-8")});' for path in data),
    ]
    page = PAGE.format(
        style=(folder / "bench.css").read_text(encoding="utf-8"),
        address=html.escape(bench),
        script="\n".join(files).replace("</", r"<\/"),
    )
    return FRAME.format(page=html.escape(page), style=STYLE)
