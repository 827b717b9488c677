"""Write the page of the ladder: every method on every rung, evaluated or unfinished."""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from labkit.experiments import ladder
from labkit.experiments.ladder.reading import list_progress, read_losses
from labkit.experiments.store import Store
from labkit.placements import RECIPES
from press.book.facts import format_table

INTRO = """# All runs

<div class="labkit-wide"></div>

<!-- map -->

Below is all that the book's ladder has trained, rung by rung, with no result left out. An *arm* is
one of the methods that the ladder compares. This page is made from the records each time the book
is built. [[10#The board]] ranks eleven of these recipes, and
[`labkit leaderboard`](running.md) ranks yours with them. Whether one rung predicts another is asked
in [[10#Does a small model predict a larger one?]]

An arm can be evaluated twice. In the *preliminary* evaluation its learning rate is chosen from a
grid with one seed, and five other seeds are used for evaluation. In the *full* evaluation the
learning rate is the lowest point of a parabola through the losses of three seeds at all rates near
the best one, and ten or twenty other seeds are used for evaluation. *Tuning uncertainty* is the
uncertainty in nats that this choice leaves. The intervals include it, and each is for one pair
alone.
"""
HEADS = ("arm", "evaluation", "learning rate", "runs", "test loss", "tuning uncertainty",
         "improvement over Pre-Norm [95 %]")  # fmt: skip
EVALUATIONS = {"strict": "full", "first look": "preliminary", "half-way": "not finished"}
VARIANTS = """Recipes with another initialization (of weights, of embeddings, of nGPT's scales),
with LayerNorm, or without attention. All others have RMSNorm, and token embeddings with an RMS of
1:"""


def write_page(root: Path) -> str:
    """Write the page from the records."""
    read = cache(Store(root).read_record)
    found = ladder.read_ladder(ladder.CLIMBED, ladder.ARMS, read)
    of_rung = found.by("rung")  # a comparison looks at every run that it is given
    progress = list_progress(read)
    parts = [INTRO]
    for rung in ladder.CLIMBED:
        if begun := [one for one in progress if one.rung == rung and one.trained]:
            parts += _describe_rung(of_rung.get(rung, found), rung, begun)
    absent = [rung for rung in ladder.CLIMBED if all(not one.trained for one in progress
                                                     if one.rung == rung)]  # fmt: skip
    if absent:
        parts.append(f"Not started: {', '.join(map(_name_rung, absent))}.")
    return "\n\n".join(parts) + "\n"


def _name_rung(rung: str) -> str:
    changes = ladder.RUNGS[rung].changes
    return f"{rung} (rung {ladder.find_size(rung)} with {changes})" if changes else f"rung {rung}"


def _describe_rung(found: Any, rung: str, begun: Sequence[Any]) -> list[str]:
    """Write a rung's heading, its facts, and its tables: recipes, then modified recipes."""
    size = ladder.RUNGS[rung]
    facts = (
        f"{size.depth} blocks of width {size.dim}, {size.steps:,} updates, windows of "
        f"{size.time} characters, weight decay {size.weight_decay:g}."
    )
    losses = read_losses(found, rung)
    if losses:
        scatter = ladder.measure_scatter(found, rung)
        facts += (
            f" The standard deviation between runs is {scatter.sd:.4f} nats "
            f"({scatter.freedom} degrees of freedom)."
        )
        if scatter.apart:
            facts += f" Arms with a standard deviation of their own: {'; '.join(scatter.apart)}."
    rows = sorted(begun, key=lambda one: fmean(losses[one.arm]) if one.arm in losses else math.inf)
    title = _name_rung(rung)
    tables = [
        format_table(HEADS, [_format_row(found, one, one.arm in losses) for one in part])
        for part in (
            [one for one in rows if one.arm in RECIPES],
            [one for one in rows if one.arm not in RECIPES],
        )
        if part
    ]
    return [
        f"## {title[0].upper()}{title[1:]}",
        facts,
        f"\n\n{VARIANTS}\n\n".join(tables),
        _name_missing(found, rung, {one.arm for one in begun}),
    ]


def _format_row(found: Any, one: Any, reported: bool) -> tuple[str, ...]:
    said = EVALUATIONS.get(str(one.state), str(one.state))
    said = f"{said}: {one.why}" if one.state == "half-way" else said
    rate = "" if one.rate is None else f"{one.rate:g}"
    if not reported:
        return one.arm, said, rate, str(one.trained), "", "", ""
    losses, sd = (
        read_losses(found, one.rung)[one.arm],
        ladder.measure_scatter(found, one.rung).sd,
    )
    tuned = ladder.measure_tuning_left(found, one.rung, one.arm, sd).size
    lead = {} if one.arm == "pre" else ladder.improvement(found, one.arm)
    gap = ""
    if one.rung in lead:
        low, high = lead[one.rung].compute_interval()
        gap = f"{lead[one.rung].mean:+.4f} [{low:+.4f}, {high:+.4f}]"
    return one.arm, said, rate, str(len(losses)), f"{fmean(losses):.4f}", f"{tuned:.4f}", gap


def _name_missing(found: Any, rung: str, begun: set[str]) -> str:
    missing = [arm for arm in ladder.ARMS if arm not in begun]
    return (
        f"Not started on {rung}: {'; '.join(missing)}."
        if missing
        else f"No arm is missing on {rung}."
    )
