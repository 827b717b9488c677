"""The block explorer in a chapter: a picture that works on every page.

    show_explorer(lab, climbed, "pre", beside="post", caption=…)

The picture shows the blocks and their losses by learning rate. On the site a script replaces it by
the explorer. In a running notebook the explorer is in a frame below the picture: it needs the
book's folder, and a trusted notebook, such as one that was just run. A stored notebook keeps only
the picture.
"""

import html
import os
from pathlib import Path
from typing import Any

from labkit.display import in_notebook, publish_bundle
from labkit.experiments import Lab, Results
from labkit.leaderboard.explorer import SEARCH, measure_references
from labkit.placements import RECIPES
from labkit.plots.explorer import block_explorer
from labkit.plots.figure import Figure
from labkit.system.root import project_root

STATIC = Path("chapters") / "_static"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>The block explorer</title>
<style>{style}</style>
<figure class="labkit-figure" style="margin: 0" data-explorer="{address}"></figure>
<script>{script}</script>"""
FRAME = '<iframe title="The block explorer" srcdoc="{page}" style="{style}"></iframe>'
STYLE = "width: 100%; height: 54rem; border: 0; background: white"


class ExplorerFigure(Figure):
    """A picture of the explorer; `address` is the explorer's initial state, as in a page's URL."""

    def __init__(self, picture: Figure, address: str) -> None:
        vars(self).update(vars(picture))
        self.address = address

    def metadata(self) -> dict[str, Any]:
        """Return the metadata for a build: a figure's, and the explorer's initial state."""
        return {**super().metadata(), "explorer": self.address}

    def _ipython_display_(self) -> None:
        super()._ipython_display_()
        if not in_notebook() or os.environ.get("LABKIT_POOL"):
            return
        if live := draw_live(self.address):
            publish_bundle({"text/html": live, "text/plain": "The block explorer."}, "volatile")


def show_explorer(
    lab: Lab, found: Results, recipe: str, beside: str | None = None, *, caption: str
) -> ExplorerFigure:
    """Draw the explorer's initial state: a recipe, perhaps next to another, on the smallest rung.

    `found` are rows of the ladder (`lab.ladder`); the rung's other recipes are drawn in grey.
    """
    rung = next(iter(found.by("rung")))
    searches = found.where(rung=rung, stage=SEARCH).by("arm")
    losses = {
        name: {rate: at.values("validation.loss") for rate, at in of.by("lr").items()}
        for name, of in searches.items()
        if name in RECIPES
    }
    shown = [recipe] if beside is None else [beside, recipe]
    picture = block_explorer(
        {name: losses[name] for name in shown},
        losses,
        reference=measure_references(rung),
        caption=caption,
        provenance=lab.provenance(*(searches[name] for name in shown)),
    )
    return ExplorerFigure(picture, f"r={recipe}" + (f"&a={beside}" if beside else ""))


def draw_live(address: str, root: Path | None = None) -> str:
    """Return the explorer as a frame with all its data, or "" if the book's folder is missing."""
    folder = (root or project_root()) / STATIC
    data = sorted((folder / "blocks").glob("*.json"))
    if not data or not (folder / "explorer.js").is_file():
        return ""
    files = [
        (folder / "explorer.js").read_text(encoding="utf-8"),
        *(f'labkitBlocks("{path.stem}",{path.read_text(encoding="utf-8")});' for path in data),
    ]
    page = PAGE.format(
        style=(folder / "explorer.css").read_text(encoding="utf-8"),
        address=html.escape(address),
        script="\n".join(files).replace("</", r"<\/"),
    )
    return FRAME.format(page=html.escape(page), style=STYLE)
