"""Read the ladder's runs: results by stage, losses, and the progress of each method."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from labkit.corpora.ngrams import ngram_loss
from labkit.experiments.experiment import Results
from labkit.experiments.ladder.method import SEEDS, MethodRuns, list_strict_seeds
from labkit.experiments.ladder.rates import Read
from labkit.experiments.ladder.rungs import ARMS, CLIMBED, Arm, build_text
from labkit.statistics.pooled import Scatter, pool_scatter

PARTLESS = "no attention"  # for the benefit of attention, which judging a comparison needs
APART = (PARTLESS,)


@dataclass(frozen=True)
class Ladder(Results):
    """Results of some arms, with a run's standard deviation, pooled over all arms of a rung."""

    scatters: Mapping[str, Scatter] = field(default_factory=dict)


def read_ladder(
    rungs: Iterable[str], arms: Iterable[str], read: Read, read_others: Read | None = None
) -> Ladder:
    """Read arms with `read_results`, and each rung's standard deviation over all arms there.

    `read_others` may read the other arms: a chapter reads their recorded runs, so that it depends
    on no local runs except those that it requested.
    """
    wanted, rungs = set(arms), list(rungs)
    own = read_results(rungs, [arm for arm in ARMS if arm in wanted], read)
    others = read_results(rungs, [arm for arm in ARMS if arm not in wanted], read_others or read)
    every = Results((*own.rows, *others.rows))
    scatters = {rung: pool_rung(every, rung) for rung in every.by("rung")}
    return Ladder(own.rows, {rung: one for rung, one in scatters.items() if one is not None})


def read_results(
    rungs: Iterable[str], arms: Iterable[str] | Mapping[str, Arm], read: Read
) -> Results:
    """Read the existing runs: rows labelled with arm, rung, lr, seed and stage.

    Arms are names, or a mapping from names to your own arms.

    Stages are tuning, final (the evaluation), first (the five seeds of a first look, which a
    chapter may pair with its own runs) and room (other seeds at coarse rates, which measure the
    cost of a wrong rate).

    If an evaluation run diverged, its test loss is that of the unigram baseline on the rung's text.
    """
    rows = []
    named = arms if isinstance(arms, Mapping) else {name: name for name in arms}
    for rung, (name, arm) in product(rungs, tuple(named.items())):
        of = MethodRuns(rung, arm, read)
        listed = {
            "tuning": of.tuning,
            "final": of.finals,
            "first": of.first_finals,
            "room": of.room,
        }
        taken = set(listed["tuning"])
        for stage, runs in listed.items():
            for run in runs:
                if stage == "room" and run in taken:
                    continue
                if (record := read(run)) is not None:
                    if stage == "final" and record.diverged_at is not None:
                        lost = {"test": {"loss": ngram_loss(build_text(rung), 1)}}
                        record = replace(record, probes=record.probes | lost)
                    labels = {"arm": name, "rung": rung, "lr": run.train.lr, "seed": run.seed}
                    rows.append((labels | {"stage": stage}, record))
    return Results(tuple(rows))


def read_test_losses(
    found: Results, stage: str = "final"
) -> dict[tuple[str, str], dict[int, float]]:
    """Return a stage's test losses by (rung, arm) and by seed, without runs that have none."""
    losses: dict[tuple[str, str], dict[int, float]] = {}
    for labels, record in found:
        if labels["stage"] == stage and (loss := record.probes["test"]["loss"]) is not None:
            losses.setdefault((labels["rung"], labels["arm"]), {})[labels["seed"]] = loss
    return losses


def reported(found: Results, arm: str) -> dict[str, dict[int, float]]:
    """Return an arm's test losses by rung and seed."""
    return {rung: of for (rung, name), of in read_test_losses(found).items() if name == arm}


def has_reported(found: Results, arm: str, rung: str) -> bool:
    """Return whether every evaluation run of an arm on a rung exists and has a loss."""
    return _is_whole(set(reported(found, arm).get(rung, {})), rung, arm)


def _is_whole(seeds: set[int], rung: str, arm: str) -> bool:
    return bool(seeds) and (seeds >= set(SEEDS) or seeds >= set(list_strict_seeds(rung, arm)))


def read_losses(found: Results, rung: str) -> dict[str, list[float]]:
    """Return the test losses of every arm that was evaluated on a rung."""
    return {
        arm: [*of.values()]
        for (at, arm), of in read_test_losses(found).items()
        if at == rung and _is_whole(set(of), rung, arm)
    }


def pool_rung(found: Results, rung: str) -> Scatter | None:
    """Pool the standard deviation over a rung's arms; one with a diverged run keeps its own."""
    lost = {
        labels["arm"]
        for labels, record in found
        if (labels["rung"], labels["stage"]) == (rung, "final") and record.diverged_at is not None
    }
    losses = read_losses(found, rung)
    scatter = pool_losses({arm: of for arm, of in losses.items() if arm not in lost})
    return scatter and replace(scatter, apart=(*scatter.apart, *sorted(lost & losses.keys())))


def pool_losses(losses: Mapping[str, Sequence[float]]) -> Scatter | None:
    """Pool the standard deviation over a rung's arms; None if no arm was evaluated.

    Arms that are not recipes (a model without attention) are left out.
    """
    pooled = {arm: of for arm, of in losses.items() if arm not in APART} or losses
    return pool_scatter(pooled) if pooled else None


@dataclass(frozen=True)
class Progress:
    """The progress of an arm on a rung, and the reason if it is not complete."""

    arm: str
    rung: str
    state: str  # strict, first look, half-way, or nothing
    why: str
    rate: float | None
    trained: int  # runs that exist


def list_progress(read: Read, rungs: Iterable[str] = CLIMBED) -> list[Progress]:
    """List the progress of every arm on every rung, including arms without runs."""
    return [describe_progress(MethodRuns(rung, arm, read)) for rung, arm in product(rungs, ARMS)]


def describe_progress(of: MethodRuns) -> Progress:
    """Describe the progress of a method on a rung."""
    there = sum(of.read(run) is not None for run in of.every)
    seeds = sum(of.read(run) is not None for run in of.finals)
    if of.is_strict:
        state, why = "strict", "learning rate tuned with three seeds"
    elif of.is_whole:
        state, why = "first look", "learning rate chosen from a grid with one seed"
    elif of.finals:
        state, why = "half-way", f"{seeds} of {len(of.finals)} seeds have been evaluated"
    elif there:
        state, why = "half-way", _describe_search(of)
    else:
        state, why = "nothing", ""
    rate = of.finals[0].train.lr if of.finals else None
    return Progress(str(of.method), of.rung, state, why, rate, there)


def _describe_search(of: MethodRuns) -> str:
    """Explain why a method has no learning rate yet."""
    tuned = of.read_tuning()
    mean = {rate: sum(losses) / len(losses) for rate, losses in tuned.items()}
    finite = {rate: loss for rate, loss in mean.items() if math.isfinite(loss)}
    failed = len(mean) - len(finite)
    said = f"{len(mean)} learning rates tried" + (f", {failed} diverged" if failed else "")
    if finite and (best := min(finite, key=finite.__getitem__)) in (min(mean), max(mean)):
        end = "lowest" if best == min(mean) else "highest"
        return f"{said}; the best so far, {best:g}, is the {end}, so the search continues"
    return f"{said}; the search continues"
