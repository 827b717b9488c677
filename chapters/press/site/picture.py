"""Keep README's picture true: where the arms of the shared ladder end, drawn from the records.

The file holds its own alternative text, with the numbers in it; that text is what is compared.
"""

import html
from pathlib import Path
from statistics import fmean

from labkit.plots.figure import Figure

PICTURE = Path("chapters") / "_static" / "ladder.svg"
RUNG = "S"


def write_picture(root: Path, *, check: bool = False) -> list[str]:
    """Draw the picture anew where its numbers are not the records'; with `check`, only look."""
    path, figure = root / PICTURE, draw_ladder(root)
    if path.is_file() and html.escape(figure.alt, quote=False) in path.read_text(encoding="utf-8"):
        return []
    if not check:
        figure.save(path)
    return ["README's picture"]


def draw_ladder(root: Path) -> Figure:
    """Draw how far below Pre-Norm each arm's test loss ends, seed by seed."""
    from labkit import plots
    from labkit.experiments import ladder
    from labkit.experiments.store import Store
    from labkit.placements import RECIPES

    found = ladder.read_results([RUNG], ladder.ARMS, Store(root).read_record)
    leads = {arm: ladder.lead(found, arm).get(RUNG) for arm in ladder.ARMS if arm != "pre"}
    shown = {arm: lead for arm, lead in leads.items() if lead and arm in RECIPES}
    return plots.dots(
        {arm: shown[arm] for arm in sorted(shown, key=lambda arm: -fmean(shown[arm]))},
        xlabel=f"test loss below Pre-Norm's, rung {RUNG} (nats); left of 0 is worse",
        caption="Each arm of the ladder at its own best rate, five seeds.",
    )
