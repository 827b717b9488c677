"""The block explorer's data: what the ladder recorded of each way to place norms, as plain values.

    list_recipes()        every recipe of the ladder: its slots, what else it is, how it is drawn
    describe_rung(…)      a rung or direction: by recipe its losses by rate, curves, report, probes

The press writes both as JSON, and a page draws them. Every mean, interval and difference is made
here, by the ladder and labkit.statistics: the page computes none. Losses are in nats a token.

    tried       the values of each `Tried`, in its order
    curves      by rate: [steps a point, training losses], of one seed, each the mean of a stretch
    report      strict, first look or half-way (labkit.experiments.ladder.reading)
    seeds       test losses of the seeds that report, at `rate`; mean, and Student's interval
    tuned       what the choice of the rate leaves, in nats
    pairs       of two arms that reported: how far the first one's mean lies below the second's,
                the 95 % interval of that, and whether Holm's correction for all pairs leaves it
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any

from labkit.attention import QK_NORMS
from labkit.corpora.ngrams import ngram_loss
from labkit.describe import list_extras
from labkit.experiments import Results, ladder
from labkit.experiments.ladder.method import MethodRuns
from labkit.experiments.ladder.orders import list_told_apart
from labkit.experiments.ladder.rates import Read
from labkit.experiments.ladder.reading import APART, describe_progress
from labkit.experiments.run import CPU
from labkit.leaderboard.compete import list_needed
from labkit.placements import RECIPES, Recipe
from labkit.placements.names import NAMES
from labkit.placements.slots import is_placement, read_slots
from labkit.plots.figure import VARIABLES
from labkit.plots.looks import choose_look
from labkit.statistics.pooled import Difference
from labkit.statistics.seeds import t_interval
from labkit.training import Record

POINTS = 50  # of a training curve
SEARCH = ("tuning", "room")  # the stages of runs that look for a rate
OVER = "pre"  # what a recipe is compared with where the reader names nothing
# What a norm in a slot is on, for those who hear the page.
WORDS = {
    "embedding": "the embedding",
    "attention-in": "the input of attention",
    "q": "the queries",
    "k": "the keys",
    "v": "the values",
    "c": "the output of the heads",
    "attention-out": "the output of attention",
    "middle": "the stream after attention",
    "feed-forward-in": "the input of the feed-forward layer",
    "feed-forward-out": "the output of the feed-forward layer",
    "end": "the stream after the feed-forward layer",
}


# -- recipes ----------------------------------------------------------------------------------
def list_recipes() -> dict[str, dict[str, Any]]:
    """Describe every recipe that the ladder trains, in the order of RECIPES."""
    return {name: _describe_recipe(name, RECIPES[name]) for name in RECIPES if name in ladder.ARMS}


def _describe_recipe(name: str, recipe: Recipe) -> dict[str, Any]:
    return {
        "name": NAMES[name],
        "slots": list(read_slots(recipe)),
        "alone": is_placement(recipe),  # nothing but norms in these slots
        "also": _list_besides(recipe),
        "last": recipe.final_norm,
        "equations": list(recipe.equations),
        "source": recipe.source,
        "colour": VARIABLES[choose_look(name).colour],  # as pages call it: --figure-blue
    }


def _list_besides(recipe: Recipe) -> list[str]:
    """List what a recipe has besides norms in slots; nothing where it has no more."""
    if is_placement(recipe):
        return []
    said = [line for line in list_extras(recipe).split("\n") if line]
    said = [line for line in said if line != "a norm on the embedding"]
    if recipe.first is not None:
        share = f"first {recipe.first_blocks:.0%} of the blocks"
        which = "first block" if recipe.first_blocks == 1 else share
        said.insert(0, f"{which}: {', '.join(recipe.first.equations)}")
    inside = recipe.block.heads or ""
    if inside in QK_NORMS:
        said.append(QK_NORMS[inside].equation)
    return said or ["more in its equations"]


# -- what a rung recorded ---------------------------------------------------------------------
@dataclass(frozen=True)
class Tried:
    """A learning rate that the search tried."""

    rate: float
    mean: float | None  # validation loss; None where a run diverged
    seeds: list[float]  # the loss of each seed that did not diverge, the lowest first
    diverged: list[int]  # the steps at which the others did


def describe_rung(found: ladder.Ladder, rung: str, read: Read) -> dict[str, Any]:
    """Describe what each recipe did on a rung; `found` has all arms there (`read_ladder`)."""
    size = ladder.RUNGS[rung]
    here = [arm for arm in found.where(rung=rung).by("arm") if arm in RECIPES]
    reported = [arm for arm in here if ladder.has_reported(found, arm, rung)]
    pairs = _compare_pairs(found, rung, reported)
    told = set(list_told_apart(pairs))
    return {
        "rung": rung,
        "size": size.changes or f"{size.depth} blocks of width {size.dim}",
        "steps": size.steps,
        "minutes": _count_minutes(found, rung, read) if OVER in reported else None,
        "lines": {name: _round(loss, 4) for name, loss in measure_references(rung).items()},
        "recipes": {arm: _describe_arm(found, rung, arm, read) for arm in here},
        "order": reported,
        "pairs": [
            [*(_round(value, 3) for value in (of.mean, *of.compute_interval())), int(pair in told)]
            for pair, of in pairs.items()
        ],
    }


def measure_references(rung: str) -> dict[str, float]:
    """Return the validation losses that a rung's are held against."""
    text = ladder.build_text(rung)
    return {
        "letter frequencies": ngram_loss(text, 1, "validation"),
        "trigram counts": ngram_loss(text, 3, "validation"),
    }


def _compare_pairs(
    found: ladder.Ladder, rung: str, reported: Sequence[str]
) -> dict[tuple[str, str], Difference]:
    """Compare every pair of arms that reported, with the scatter of all arms of the rung."""
    rows = {arm: of.rows for arm, of in found.where(rung=rung).by("arm").items()}
    return {
        (one, other): ladder.improvement(replace(found, rows=rows[one] + rows[other]), one, other)[
            rung
        ]
        for one, other in combinations(reported, 2)
    }


def _describe_arm(found: ladder.Ladder, rung: str, arm: str, read: Read) -> dict[str, Any]:
    of_arm = found.where(rung=rung, arm=arm)
    search = of_arm.where(stage=SEARCH)
    progress = describe_progress(MethodRuns(rung, arm, read))
    described: dict[str, Any] = {
        "report": progress.state,
        "why": progress.why,
        "tried": [astuple(one) for one in _list_tried(search)],
        "curves": _draw_curves(search),
    }
    if not ladder.has_reported(found, arm, rung):
        return described
    losses = ladder.reported(of_arm, arm)[rung]
    final = of_arm.where(stage="final")
    sd = ladder.measure_scatter(found, rung).sd
    return described | {
        "rate": progress.rate,
        "curves": _draw_curves(of_arm.where(stage=(*SEARCH, "final"))),
        "seeds": [_round(losses[seed], 5) for seed in sorted(losses)],
        "mean": _round(fmean(losses.values()), 5),
        "interval": [_round(end, 5) for end in t_interval([*losses.values()])],
        "tuned": _round(ladder.measure_tuning_left(of_arm, rung, arm, sd), 2),
        "lacks": _list_lacking(found, rung, arm),
        "by block": _measure_blocks([record for _, record in final]),
    }


def _list_tried(search: Results) -> list[Tried]:
    tried = []
    for rate, runs in sorted(search.by("lr").items()):
        records = [record for _, record in runs]
        losses = [r.probes["validation"]["loss"] for r in records if r.diverged_at is None]
        diverged = sorted(r.diverged_at for r in records if r.diverged_at is not None)
        mean = None if diverged else _round(fmean(losses), 4)
        tried.append(Tried(rate, mean, sorted(_round(loss, 4) for loss in losses), diverged))
    return tried


def _draw_curves(runs: Results) -> dict[str, list[Any]]:
    """Thin the training curve of one seed at each rate: the first that searched, or reports."""
    curves = {}
    for rate, at in sorted(runs.by("lr").items()):
        _, record = min(at, key=lambda row: (row[0]["stage"] == "final", row[0]["seed"]))
        curves[f"{rate:g}"] = _thin_curve(record)
    return curves


def _thin_curve(record: Record) -> list[Any]:
    every = max(1, math.ceil(record.steps / POINTS))
    parts = [record.losses[i : i + every] for i in range(0, len(record.losses), every)]
    means = map(fmean, parts)
    return [every, [_round(mean, 3) if math.isfinite(mean) else None for mean in means]]


def _measure_blocks(records: Sequence[Record]) -> dict[str, list[float | None]]:
    """Average over the seeds what the probes measured in each block."""
    looks = {
        "stream": lambda probes: probes["residual-rms"],
        "entropy": lambda probes: probes["attention"]["entropy"],
        "gradient, step 1": lambda probes: probes["gradient-profile"]["1"]["block"],
        "gradient, step 100": lambda probes: probes["gradient-profile"]["100"]["block"],
        "removal": lambda probes: probes["removal-cost"],
    }
    measured = {}
    for name, look in looks.items():
        values = [look(record.probes) for record in records if record.diverged_at is None]
        measured[name] = [
            None if None in block else _round(fmean(block), 3)
            for block in zip(*values, strict=True)
        ]
    return measured


def _list_lacking(found: ladder.Ladder, rung: str, arm: str) -> list[str]:
    """List what a comparison with Pre-Norm lacks on this rung, in the words of the regime."""
    if arm == OVER or not ladder.has_reported(found, OVER, rung):
        return []
    judged = "S" if rung in ladder.DIRECTIONS else rung
    wanted = found.where(arm=[arm, OVER, *APART], rung=[rung, judged])
    return [*ladder.improvement(wanted, arm, OVER).find_lacking(rung)]


def _count_minutes(found: Results, rung: str, read: Read) -> int | None:
    """Estimate what a strict report takes, in minutes of one core: as many runs as Pre-Norm's."""
    records = [record for _, record in found.where(rung=rung, arm=OVER)]
    taken = [r.cpu_seconds for r in records if r.provenance["device"] == CPU]
    runs = list_needed(rung, ladder.ARMS[OVER], read)
    return round(len(runs) * fmean(taken) / 60) if taken else None


def _round(value: float, digits: int) -> float:
    """Keep so many significant digits."""
    return float(f"{value:.{digits}g}")
