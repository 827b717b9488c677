"""Which runs of the ladder are wanted, which report, and what is read of them.

An arm reports twice. *First look*: one seed chose its rate from the grid, five fresh ones report.
*Strict*: three seeds chose the vertex of a parabola, and fresh seeds report, as many as its rung
asks; as soon as all of them are there they take the place of the first look. Directions and larger
rungs that nobody climbed before are strict from the start.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from labkit.experiments.experiment import Results
from labkit.experiments.ladder import rates
from labkit.experiments.ladder.rates import Read
from labkit.experiments.ladder.rungs import (
    ARMS,
    CLIMBED,
    LOOKS,
    RUNGS,
    Arm,
    build_base_run,
    configure_run,
)
from labkit.experiments.run import Run
from labkit.statistics.pooled import Scatter, pool_scatter

SEEDS = (0, 1, 2, 3, 4)  # that report in a first look
FIRST_STRICT = 5  # the first seed of a strict report
FEWER = 10  # seeds of arms that no chapter ranks
# The arms that chapters rank; on rung S they report with all its seeds.
RANKED = (
    "pre", "qk", "qkv-pre", "lns", "post", "deepnorm", "ngpt", "hybrid*", "none", "hybrid",
    "overwritten", "dyt", "sandwich", "realformer", "olmo2", "peri", "derf", "pre, layer",
    "keel", "admin", "pre, drawn 0.014", "hybrid, drawn 0.014", "hybrid*, drawn 0.014",
    "qkv-pre, drawn 0.014",
)  # fmt: skip
PARTLESS = "no attention"  # what attention is worth: without it no comparison can be judged
APART = (PARTLESS,)
LOOKED = ("smoke", "S", "M")  # rungs that have a first look


def list_strict_seeds(rung: str, arm: str | Arm) -> list[int]:
    """List the seeds with which an arm reports strictly on a rung; one of your own has them all."""
    count = RUNGS[rung].seeds
    if isinstance(arm, str) and arm in ARMS and arm not in RANKED:
        count = min(count, FEWER)
    return list(range(FIRST_STRICT, FIRST_STRICT + count))


def list_first_finals(rung: str, arm: str | Arm, read: Read) -> list[Run]:
    """List the runs of a first look that report; none before the rate is chosen."""
    if rung not in LOOKED:
        return []
    best = rates.best_rate(rates.list_first_runs(rung, arm, read), read)
    return [] if best is None else _list_reports(rung, arm, best, SEEDS)


def choose_strict_rate(rung: str, arm: str | Arm, read: Read) -> float | None:
    """Choose the rate by three seeds; None while one of their runs is missing."""
    if rung == "smoke":
        return None
    runs = rates.list_fine_runs(rung, arm, read)
    if not runs or any(read(run) is None for run in runs):
        return None
    return rates.choose_rate(read_tuning(rung, arm, read, strict=True))


def list_strict_finals(rung: str, arm: str | Arm, read: Read) -> list[Run]:
    """List the runs that report strictly; none before the rate is chosen."""
    rate = choose_strict_rate(rung, arm, read)
    return [] if rate is None else _list_reports(rung, arm, rate, list_strict_seeds(rung, arm))


def _list_reports(rung: str, arm: str | Arm, rate: float, seeds: Iterable[int]) -> list[Run]:
    base = build_base_run(rung, arm)
    return [configure_run(base, rate, seed, LOOKS) for seed in seeds]


def list_strict_runs(rung: str, arm: str | Arm, read: Read) -> list[Run]:
    """List the runs of a strict report that can be named by now: those that tune come first."""
    return [*rates.list_fine_runs(rung, arm, read), *list_strict_finals(rung, arm, read)]


def is_strict(rung: str, arm: str | Arm, read: Read) -> bool:
    """Return whether an arm's strict report is whole."""
    runs = list_strict_finals(rung, arm, read)
    return bool(runs) and all(read(run) is not None for run in runs)


def is_whole(rung: str, arm: str | Arm, read: Read) -> bool:
    """Return whether every run of an arm's report on a rung is there."""
    runs = list_final_runs(rung, arm, read)
    return bool(runs) and all(read(run) is not None for run in runs)


def list_tuning_runs(rung: str, arm: str | Arm, read: Read) -> list[Run]:
    """List the runs that chose, or will choose, the rate of an arm's report."""
    first = rates.list_first_runs(rung, arm, read) if rung in LOOKED else []
    if not is_strict(rung, arm, read):
        return first
    runs = [*first, *rates.list_fine_runs(rung, arm, read)]
    return list(dict.fromkeys(runs))


def list_final_runs(rung: str, arm: str | Arm, read: Read) -> list[Run]:
    """List the runs that report: strict ones where all are there, else those of a first look."""
    if is_strict(rung, arm, read):
        return list_strict_finals(rung, arm, read)
    return list_first_finals(rung, arm, read)


def list_wanted_runs(rung: str, arms: Iterable[str], read: Read) -> list[Run]:
    """List every run of these arms that reports, or chose its rate, and can be named by now."""
    return [
        run
        for arm in arms
        for run in (*list_tuning_runs(rung, arm, read), *list_final_runs(rung, arm, read))
    ]


def list_all_runs(rung: str, arm: str | Arm, read: Read) -> list[Run]:
    """List all runs of an arm that can be named by now: first look, tuning, strict report, room."""
    first = rates.list_first_runs(rung, arm, read) if rung in LOOKED else []
    strict = [] if rung == "smoke" else list_strict_runs(rung, arm, read)
    room = list_room_runs(rung, arm)
    runs = [*first, *list_first_finals(rung, arm, read), *strict, *room]
    return list(dict.fromkeys(runs))


def list_room_runs(rung: str, arm: str | Arm) -> list[Run]:
    """List the runs that say what a wrong rate costs: three seeds at every coarse rate of S."""
    if rung != "S":
        return []
    base = build_base_run(rung, arm)
    return [
        configure_run(base, rate, seed) for rate, seed in product(rates.COARSE, rates.TUNING_SEEDS)
    ]


def read_tuning(rung: str, arm: str | Arm, read: Read, *, strict: bool) -> dict[float, list[float]]:
    """Read the validation losses of the runs that choose an arm's rate, by rate."""
    runs = rates.list_first_runs(rung, arm, read) if rung in LOOKED else []
    if strict:
        runs = [*runs, *rates.list_fine_runs(rung, arm, read)]
    tuned: dict[float, list[float]] = {}
    for run in dict.fromkeys(runs):
        if (record := read(run)) is not None:
            tuned.setdefault(run.train.lr, []).append(rates.read_validation_loss(record))
    return tuned


@dataclass(frozen=True)
class Ladder(Results):
    """Results of some arms, with the scatter of a run that all arms of a rung have."""

    scatters: Mapping[str, Scatter] = field(default_factory=dict)


def read_ladder(
    rungs: Iterable[str], arms: Iterable[str], read: Read, read_others: Read | None = None
) -> Ladder:
    """Read arms as `read_results` does, and the scatter of each rung from all arms there.

    What reads the other arms may be named: a chapter takes them as they are recorded, so that it
    depends on no run of this machine but those that it asked for.
    """
    wanted, rungs = set(arms), list(rungs)
    own = read_results(rungs, [arm for arm in ARMS if arm in wanted], read)
    others = read_results(rungs, [arm for arm in ARMS if arm not in wanted], read_others or read)
    every = Results((*own.rows, *others.rows))
    scatters = {rung: pool_losses(read_losses(every, rung)) for rung in every.by("rung")}
    return Ladder(own.rows, {rung: one for rung, one in scatters.items() if one is not None})


def read_results(
    rungs: Iterable[str], arms: Iterable[str] | Mapping[str, Arm], read: Read
) -> Results:
    """Read what there is: rows labelled with arm, rung, lr, seed and stage.

    Arms are names, or arms of your own by name.

    Stages are tuning (what chose the rate), final (what reports), first (the five seeds of a first
    look, which a chapter may pair with runs of its own) and room (other seeds at coarse rates,
    which say what a wrong rate costs).
    """
    rows = []
    named = arms if isinstance(arms, Mapping) else {name: name for name in arms}
    for rung, (name, arm) in product(rungs, tuple(named.items())):
        listed = {
            "tuning": list_tuning_runs(rung, arm, read),
            "final": list_final_runs(rung, arm, read),
            "first": list_first_finals(rung, arm, read),
            "room": list_room_runs(rung, arm),
        }
        taken = set(listed["tuning"])
        for stage, runs in listed.items():
            for run in runs:
                if stage == "room" and run in taken:
                    continue
                if (record := read(run)) is not None:
                    labels = {"arm": name, "rung": rung, "lr": run.train.lr, "seed": run.seed}
                    rows.append((labels | {"stage": stage}, record))
    return Results(tuple(rows))


def reported(found: Results, arm: str) -> dict[str, dict[int, float]]:
    """List an arm's test losses by rung and seed; a run that diverged has no loss."""
    losses: dict[str, dict[int, float]] = {}
    for labels, record in found:
        of_it = labels["arm"] == arm and labels["stage"] == "final"
        if of_it and record.diverged_at is None:
            losses.setdefault(labels["rung"], {})[labels["seed"]] = record.probes["test"]["loss"]
    return losses


def has_reported(found: Results, arm: str, rung: str) -> bool:
    """Return whether every run of an arm's report on a rung is there and has a loss."""
    return _is_whole(set(reported(found, arm).get(rung, {})), rung, arm)


def _is_whole(seeds: set[int], rung: str, arm: str) -> bool:
    return bool(seeds) and (seeds >= set(SEEDS) or seeds >= set(list_strict_seeds(rung, arm)))


def read_losses(found: Results, rung: str) -> dict[str, list[float]]:
    """List the test losses of every arm that has reported on a rung."""
    losses: dict[str, dict[int, float]] = {}
    for labels, record in found:
        if (labels["rung"], labels["stage"]) == (rung, "final") and record.diverged_at is None:
            losses.setdefault(labels["arm"], {})[labels["seed"]] = record.probes["test"]["loss"]
    return {arm: [*of.values()] for arm, of in losses.items() if _is_whole(set(of), rung, arm)}


def pool_losses(losses: Mapping[str, Sequence[float]]) -> Scatter | None:
    """Pool the scatter of a rung's arms; None where none has reported.

    What is no recipe (a model without attention) says nothing about how recipes scatter.
    """
    pooled = {arm: of for arm, of in losses.items() if arm not in APART} or losses
    return pool_scatter(pooled) if pooled else None


@dataclass(frozen=True)
class Progress:
    """How far an arm is on a rung, and why it is not further."""

    arm: str
    rung: str
    state: str  # strict, first look, half-way, or nothing
    why: str
    rate: float | None
    seeds: int
    trained: int  # runs that are there
    left: int  # runs that can be named by now and are not


def list_progress(read: Read, rungs: Iterable[str] = CLIMBED) -> list[Progress]:
    """Say of every arm on every rung how far it is: nothing is left in a drawer."""
    return [describe_progress(rung, arm, read) for rung, arm in product(rungs, ARMS)]


def describe_progress(rung: str, arm: str, read: Read) -> Progress:
    """Say how far an arm is on a rung."""
    runs = list_all_runs(rung, arm, read)
    there = sum(read(run) is not None for run in runs)
    finals = list_final_runs(rung, arm, read)
    seeds = sum(read(run) is not None for run in finals)
    if is_strict(rung, arm, read):
        state, why = "strict", "three seeds chose its rate"
    elif finals and seeds == len(finals):
        state, why = "first look", "one seed chose its rate from a grid"
    elif finals:
        state, why = "half-way", f"{seeds} of {len(finals)} seeds have reported"
    elif there:
        state, why = "half-way", _describe_search(rung, arm, read)
    else:
        state, why = "nothing", ""
    rate = finals[0].train.lr if finals else None
    return Progress(arm, rung, state, why, rate, seeds, there, len(runs) - there)


def _describe_search(rung: str, arm: str, read: Read) -> str:
    """Say why an arm has no rate yet."""
    tuned = read_tuning(rung, arm, read, strict=True)
    mean = {rate: sum(of) / len(of) for rate, of in tuned.items()}
    finite = {rate: loss for rate, loss in mean.items() if math.isfinite(loss)}
    failed = len(mean) - len(finite)
    said = f"{len(mean)} rates tried" + (f", {failed} diverged" if failed else "")
    if finite and (best := min(finite, key=finite.__getitem__)) in (min(mean), max(mean)):
        end = "lowest" if best == min(mean) else "highest"
        return f"{said}; the best so far, {best:g}, is the {end}, so the search goes on"
    return f"{said}; the search goes on"
