"""The block explorer's data: the ladder's records of each norm placement, as plain values.

    list_recipes()        every recipe of the ladder: its slots, other features, and its diagram
    describe_rung(…)      a rung: per recipe its losses by rate, curves, evaluation, probes

The site's code writes both as JSON, and a page draws them. The page computes no mean, interval or
difference: all are computed here, with the ladder and labkit.statistics. Losses are in nats per
token.

    tried       the values of each `Tried`, in its order
    curves      by rate: [steps per point, training losses] of one seed, as means of so many steps
    report      strict, first look or half-way (labkit.experiments.ladder.reading)
    seeds       test losses of the evaluation seeds at `rate`; mean, and Student's interval
    pairs       of two evaluated arms: the second mean minus the first, its 95 % interval, and
                whether it is significant after Holm's correction for all pairs
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import fmean
from typing import Any

from labkit.attention import QK_NORMS
from labkit.corpora.ngrams import ngram_loss
from labkit.describe import list_extras
from labkit.experiments import Results, ladder
from labkit.experiments.ladder.method import MethodRuns
from labkit.experiments.ladder.orders import compare_all, list_told_apart
from labkit.experiments.ladder.rates import Read
from labkit.experiments.ladder.reading import APART, describe_progress
from labkit.experiments.run import CPU
from labkit.leaderboard.compete import list_needed
from labkit.placements import RECIPES, Recipe
from labkit.placements.names import NAMES
from labkit.placements.slots import is_placement, read_slots
from labkit.plots.figure import VARIABLES
from labkit.plots.looks import choose_look
from labkit.statistics.seeds import t_interval
from labkit.training import Record

POINTS = 50  # of a training curve
SEARCH = ("tuning", "room")  # the stages of runs that look for a rate
OVER = "pre"  # the default comparison of a recipe
# The place of each slot's norm in words, for screen readers.
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
        "colour": VARIABLES[choose_look(name).colour],  # as pages call it: --figure-blue
    }


def _list_besides(recipe: Recipe) -> list[str]:
    """List the features of a recipe other than norms in slots; empty if there are none."""
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


# -- the records of a rung ---------------------------------------------------------------------
@dataclass(frozen=True)
class Tried:
    """A learning rate that the search tried."""

    rate: float
    mean: float | None  # validation loss; None where a run diverged
    seeds: list[float]  # the loss of each seed that did not diverge, the lowest first
    diverged: list[int]  # the steps at which the others diverged


def describe_rung(found: ladder.Ladder, rung: str, read: Read) -> dict[str, Any]:
    """Describe the results of each recipe on a rung; `found` has all arms there (`read_ladder`)."""
    size = ladder.RUNGS[rung]
    here = [arm for arm in found.where(rung=rung).by("arm") if arm in RECIPES]
    reported = [arm for arm in here if ladder.has_reported(found, arm, rung)]
    pairs = compare_all(found, rung, reported)
    told = set(list_told_apart(pairs))
    return {
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
    """Return the reference validation losses for a rung."""
    text = ladder.build_text(rung)
    return {
        "letter frequencies": ngram_loss(text, 1, "validation"),
        "trigram counts": ngram_loss(text, 3, "validation"),
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
    return described | {
        "rate": progress.rate,
        "curves": _draw_curves(of_arm.where(stage=(*SEARCH, "final"))),
        "seeds": [_round(losses[seed], 5) for seed in sorted(losses)],
        "mean": _round(fmean(losses.values()), 5),
        "interval": [_round(end, 5) for end in t_interval([*losses.values()])],
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
    """Thin the training curve of one seed per rate: the first tuning seed, else evaluation seed."""
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
    """Average the probes' measurements in each block over the seeds."""
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
    """List the requirements that a comparison with Pre-Norm does not meet on this rung."""
    if arm == OVER or not ladder.has_reported(found, OVER, rung):
        return []
    judged = ladder.find_size(rung)
    wanted = found.where(arm=[arm, OVER, *APART], rung=[rung, judged])
    return [*ladder.improvement(wanted, arm, OVER).find_lacking(rung)]


def _count_minutes(found: Results, rung: str, read: Read) -> int | None:
    """Estimate the minutes of a full evaluation on one core, with as many runs as Pre-Norm's."""
    records = [record for _, record in found.where(rung=rung, arm=OVER)]
    taken = [r.cpu_seconds for r in records if r.provenance["device"] == CPU]
    runs = list_needed(rung, OVER, read)
    return round(len(runs) * fmean(taken) / 60) if taken else None


def _round(value: float, digits: int) -> float:
    """Round to a number of significant digits."""
    return float(f"{value:.{digits}g}")
