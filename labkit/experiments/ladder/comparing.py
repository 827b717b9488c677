"""Comparison of two arms, with a pooled standard deviation and tuning uncertainty.

A comparison must meet the requirements of `labkit.experiments.regime` on each rung. Old locks do
not pair seeds: preliminary evaluations with five seeds had not shown any effect of the seed. In
full evaluations the seed explains a part of the variance (chapter 10 prints it:
labkit.statistics.pooled.correlate_seeds), so new locks and full evaluations without a lock are
paired (comparison.py). Cards show both intervals.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from labkit.corpora.ngrams import reference_lines
from labkit.experiments import regime
from labkit.experiments.cards import Claim
from labkit.experiments.experiment import Results
from labkit.experiments.ladder.comparison import Comparison
from labkit.experiments.ladder.method import list_strict_seeds
from labkit.experiments.ladder.rates import COARSE, Left, measure_left, read_validation_loss
from labkit.experiments.ladder.reading import (
    APART,
    PARTLESS,
    Ladder,
    has_reported,
    pool_rung,
    read_losses,
    reported,
)
from labkit.experiments.ladder.rungs import (
    CLIMBED,
    DIRECTIONS,
    RUNGS,
    build_base_run,
    build_text,
    find_size,
)
from labkit.experiments.locks import find_lock
from labkit.experiments.sample import find_start, name_devices
from labkit.statistics.pooled import Difference, Scatter, compare_samples
from labkit.system.root import project_root
from labkit.training import Record

FREQUENCIES = 3.06  # nats: the unigram baseline of this text


def is_strict_report(found: Results, arm: str, rung: str) -> bool:
    """Return whether an arm's evaluation on a rung is a full one."""
    return set(reported(found, arm).get(rung, {})) >= set(list_strict_seeds(rung, arm))


def measure_scatter(found: Results, rung: str) -> Scatter:
    """Return the standard deviation of a run on a rung, pooled over all arms there, or over these.

    Raises:
        ValueError: none of these arms has been evaluated.
    """
    if isinstance(found, Ladder) and rung in found.scatters:
        return found.scatters[rung]
    scatter = pool_rung(found, rung)
    if scatter is None:
        raise ValueError(
            f"a standard deviation needs a method with evaluation runs, but at size {rung} there "
            "is none; train them with: make runs ONLY=ladder"
        )
    return scatter


def shared_rung(found: Results, arms: Iterable[str]) -> str:
    """Return the largest rung on which all of these arms have been evaluated."""
    names = list(arms)
    shared = [
        rung
        for rung in found.by("rung")
        if rung not in DIRECTIONS and all(has_reported(found, arm, rung) for arm in names)
    ]
    if not shared:
        raise ValueError(
            f"a comparison needs a model size at which all of {', '.join(names)} have evaluation "
            "runs, but there is none; train them with: make runs ONLY=ladder"
        )
    return shared[-1]


def improvement(
    found: Results, method: str, over: str = "pre", of: Callable[[Record], float] | None = None
) -> Comparison:
    """Return the other method's test loss minus the method's, in nats, by rung.

    It covers rungs on which both were evaluated: first sizes from small to large, then variants.
    `of` reads a different measure from each run: then both methods have their own standard
    deviation.
    """
    there = {labels["rung"] for labels, _ in found}
    rungs = {
        rung: compare_on(found, rung, method, over)
        if of is None
        else compare_measure(found, rung, (method, over), of)
        for rung in CLIMBED
        if rung in there and has_reported(found, method, rung) and has_reported(found, over, rung)
    }
    return Comparison(rungs, lambda rung: list_lacking(found, rung, method, over))


def claim_locked(
    found: Results,
    id: str,
    source: str,
    *,
    names: Mapping[str, str] | None = None,
    effect: float | None = None,
    **more: Any,
) -> Claim | None:
    """Show the card of a locked comparison; if runs are missing, print that it waits.

    Sentence, criterion, arms and rungs are the lock's. `names` gives each arm's name on the card;
    `effect` is the effect with which the margin of a two-sided criterion is compared; `more` goes
    to the comparison's `claim`, such as `published` or `domain`.

    Raises:
        ValueError: there is no lock with this id and two arms.
    """
    if (lock := find_lock(project_root(), id)) is None or len(lock.arms) != 2:
        raise ValueError(
            f"a preregistered comparison needs a lock with two methods, but {id!r} has none; "
            "`labkit claims lock` writes a lock, `labkit claims locks` lists them"
        )
    one, other = ((names or {}).get(arm, arm) for arm in lock.arms)
    varied = lock.rungs if {*lock.rungs} <= {*DIRECTIONS} else ()
    where = f"With {RUNGS[varied[0]].changes} and" if varied else "At size {rung}, with"
    return improvement(found, *lock.arms).claim(
        id,
        lock.criterion if effect is None else f"{lock.criterion} of {effect}",
        lock.said,
        found=f"{where} tuned learning rates, the test loss of {{one}} is "
        "{apart:.4f} nats {side} that of {other}.",
        source=source,
        beside={"one": one, "other": other},
        **more,
    )


def compare_on(found: Results, rung: str, arm: str, over: str = "pre") -> Difference:
    """Return the other arm's test loss minus this arm's, on a rung where both were evaluated."""
    scatter = measure_scatter(found, rung)
    of = {name: reported(found, name)[rung] for name in (arm, over)}
    left, left_over = (measure_tuning_left(found, rung, name, scatter.sd) for name in (arm, over))
    alone = (_is_apart(arm, scatter), _is_apart(over, scatter))
    runs = found.where(arm=[arm, over], rung=rung)
    finals = [_list_reports(runs, name) for name in (arm, over)]
    lost = tuple(sum(one.diverged_at is not None for one in of_arm) for of_arm in finals)
    lead = compare_samples(
        [*of[arm].values()],
        [*of[over].values()],
        scatter,
        alone=alone,
        tuned=left.join(left_over),
        since=runs.where(stage="final").find_start(),
        looked=runs.find_start(),
        arms=(arm, over),
        pairs=[of[over][seed] - loss for seed, loss in of[arm].items() if seed in of[over]],
        devices=name_devices(*finals),
    )
    return replace(lead, lost=lost) if any(lost) else lead


def _list_reports(runs: Results, arm: str) -> list[Record]:
    return [record for _, record in runs.where(arm=arm, stage="final")]


def compare_measure(
    found: Results, rung: str, methods: tuple[str, str], of: Callable[[Record], float]
) -> Difference:
    """Return the second method's measure minus the first one's, in their evaluation runs."""
    runs = {name: found.where(arm=name, rung=rung, stage="final") for name in methods}
    one, other = (runs[name].measure(of) for name in methods)
    since = find_start((*one.records, *other.records))
    devices = name_devices(one.records, other.records)
    return compare_samples(one.values, other.values, since=since, arms=methods, devices=devices)


def _is_apart(arm: str, scatter: Scatter) -> bool:
    return arm in scatter.apart or arm in APART


def measure_tuning_left(found: Results, rung: str, arm: str, sd: float) -> Left:
    """Return the uncertainty from tuning an arm's rate on a rung, in nats (see `measure_left`)."""
    tuned: dict[float, list[float]] = {}
    for labels, record in found:
        if (labels["arm"], labels["rung"], labels["stage"]) == (arm, rung, "tuning"):
            tuned.setdefault(labels["lr"], []).append(read_validation_loss(record))
    if not tuned:
        return Left()
    return measure_left(tuned, sd, by_vertex=is_strict_report(found, arm, rung))


def references(rung: str) -> dict[str, float]:
    """Return the losses of bigram and trigram counts on a rung's test windows."""
    return reference_lines(build_text(rung))


def list_lacking(found: Results, rung: str, arm: str, over: str = "pre") -> list[str]:
    """List the requirements that a comparison does not meet on one rung.

    Updates, warm-up, tokens per parameter and attention's benefit of a variant are those of its
    size: D reads 11 characters per parameter, and meets the requirement of 20 because S does.
    """
    both = found.where(arm=[arm, over], rung=rung)
    judged = find_size(rung)
    of_part = improvement(found, PARTLESS, over).get(judged)
    return regime.too_young(
        build_base_run(judged, arm),
        both.where(stage="tuning"),
        both.where(stage="final"),
        trigram=references(rung)["trigram counts"],
        worth=0.0 if of_part is None else -of_part.mean,
        claimed=compare_on(found, rung, arm, over).mean,
        placed=bool(RUNGS[rung].below),
    )


def table(found: Results) -> list[dict[str, Any]]:
    """Return one row per arm, in the order of test losses on the first rung.

    A size has columns if two of the arms were evaluated on it, a variant only those of test loss
    and improvement; empty columns are left out. `improvement` is the test loss of `pre` minus the
    arm's, with its interval. `sensitivity` is the learning-rate sensitivity: the mean over the
    coarse rates of the validation loss minus the best one, with losses capped at the unigram
    baseline (Wortsman et al. 2023, arXiv 2309.14322), averaged over the seeds that tried these
    rates.
    """
    arms = found.by("arm")
    scatters = {
        rung: measure_scatter(found, rung) for rung in found.by("rung") if read_losses(found, rung)
    }
    found = Ladder(found.rows, scatters)
    every = [rung for rung in CLIMBED if rung in found.by("rung")]
    rungs = [r for r in every if sum(has_reported(found, arm, r) for arm in arms) > 1] or every[:1]
    kinds = ("rate", "n", "sensitivity", "test", "improvement")
    kept = {rung: ("test", "improvement") if rung in DIRECTIONS else kinds for rung in rungs}
    columns = [f"{rung}: {what}" for rung in rungs for what in kept[rung]]
    rows = []
    for arm, of_arm in arms.items():
        row: dict[str, Any] = {"recipe": arm, **dict.fromkeys(columns, "")}
        leads = improvement(found, arm) if arm != "pre" else {}
        for rung in rungs:
            row |= _sum_up(found, of_arm, rung, arm)
            if rung in leads:
                row[f"{rung}: improvement"] = f"{leads[rung]:+z.4f}"
        rows.append({column: row[column] for column in ("recipe", *columns)})
    empty = {column for column in columns if all(row[column] == "" for row in rows)}
    rows = [{k: v for k, v in row.items() if k not in empty} for row in rows]
    return sorted(rows, key=lambda row: row.get(f"{rungs[0]}: test") or math.inf)


def _sum_up(found: Results, of_arm: Results, rung: str, arm: str) -> dict[str, Any]:
    """Return an arm's row for one rung."""
    row: dict[str, Any] = {}
    if has_reported(found, arm, rung):
        losses = reported(of_arm, arm)[rung]
        final = next(iter(of_arm.where(rung=rung, stage="final")))[0]
        row[f"{rung}: rate"], row[f"{rung}: n"] = final["lr"], len(losses)
        row[f"{rung}: test"] = fmean(losses.values())
    if lost := measure_lost(of_arm, rung):
        row[f"{rung}: sensitivity"] = fmean(lost.values())
    return row


def measure_lost(of_arm: Results, rung: str) -> dict[int, float]:
    """Return an arm's learning-rate sensitivity (see `table`) for each seed that has all rates."""
    tuned: dict[int, dict[float, float]] = {}
    for labels, record in of_arm:
        if labels["rung"] == rung and labels["stage"] in ("tuning", "room"):
            tuned.setdefault(labels["seed"], {})[labels["lr"]] = _cap_loss(record)
    return {
        seed: fmean(of[rate] for rate in COARSE) - min(of.values())
        for seed, of in tuned.items()
        if set(COARSE) <= set(of)
    }


def _cap_loss(record: Record) -> float:
    return min(read_validation_loss(record), FREQUENCIES)
