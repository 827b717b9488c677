"""Minimum requirements for a trained comparison to rank its arms.

    context   every arm's test loss is lower than that of trigram counts of the same text
    part      removing attention costs 0.3 nats, or ten times the claimed difference
    length    2,000 updates, a warm-up of at most a tenth, 20 tokens per parameter, rounded
    rates     five or more rates over two decades (three or more if a smaller model set the range),
              and no arm's best is at an end
    seeds     five evaluation seeds, which are not tuning seeds

Each function returns descriptions of the unmet conditions; an empty list means that all are met.
`untuned` checks the last two, `too_young` all of them.
"""

import math
from collections.abc import Collection, Iterable, Mapping

import torch

from labkit.corpora import Text
from labkit.experiments.experiment import Results
from labkit.experiments.run import Run

Losses = Iterable[float | None]  # one per seed; None or NaN: the run diverged
YOUNG = "too young to rank: "
PART, TIMES = 0.3, 10  # benefit of attention in nats, or as a multiple of the claimed difference
UPDATES, WARMUP = 2000, 0.1
TOKENS = 20  # a parameter: Hoffmann et al. 2022, arXiv 2203.15556
RATES, SPAN, PLACED = 5, 100, 3
SEEDS = 5


def context(test: Mapping[str, Losses], trigram: float) -> list[str]:
    """Return the arms whose mean test loss is not lower than that of trigram counts."""
    return [
        f"{YOUNG}{arm} {_format_mean(mean)}, trigram counts end at {trigram:.2f}"
        for arm, mean in ((arm, _average_losses(losses)) for arm, losses in test.items())
        if not mean < trigram
    ]


def part(worth: float, claimed: float) -> list[str]:
    """Compare attention's benefit (loss without it minus loss, nats) with a claimed difference."""
    needed = min(PART, TIMES * abs(claimed))
    if worth >= needed:
        return []
    return [f"{YOUNG}attention is worth {worth:.2f} nats, and {needed:.2g} are needed"]


def length(steps: int, warmup: float, tokens: float, parameters: int) -> list[str]:
    """Compare updates, warm-up and training tokens with the minimum for each."""
    failed = []
    if steps < UPDATES:
        failed.append(f"{YOUNG}{steps:,} updates, and {UPDATES:,} are needed")
    if warmup > WARMUP * steps:
        failed.append(f"{YOUNG}warm-up takes {warmup / steps:.0%} of the updates, above 10%")
    if round(each := tokens / parameters) < TOKENS:
        failed.append(f"{YOUNG}{each:.2g} tokens a parameter, and {TOKENS} are needed")
    return failed


def rates(grid: Mapping[str, Mapping[float, Losses]], placed: bool = False) -> list[str]:
    """Return the arms with too few or too close rates, or whose best rate is the lowest or highest.

    `placed`: the same arms were tuned on a smaller model, and these rates surround its best one.
    """
    failed, needed = [], PLACED if placed else RATES
    for arm, losses in grid.items():
        if len(losses) < needed:
            failed.append(f"not tuned: {arm} has {len(losses)} rates, and {needed} are needed")
        if not losses:
            continue
        best = min(losses, key=lambda rate: _average_losses(losses[rate]))
        low, high = min(losses), max(losses)
        if not placed and high < SPAN * low * (1 - 1e-9):
            failed.append(f"not tuned: the rates of {arm} span a factor {high / low:.3g}, not 100")
        if best in (low, high):
            failed.append(f"not tuned: {arm} is best at {best:g}, the end of its rates")
    return failed


def seeds(reported: Collection[int], tuned: Collection[int]) -> list[str]:
    """Check the number of evaluation seeds that are not tuning seeds."""
    fresh, both = {*reported} - {*tuned}, sorted({*reported} & {*tuned})
    failed = []
    if both:
        failed.append(f"not fresh: seeds {', '.join(map(str, both))} chose rates and report")
    if len(fresh) < SEEDS:
        failed.append(f"too few seeds: {len(fresh)} fresh ones report, and {SEEDS} are needed")
    return failed


def untuned(
    tuning: Results, reported: Collection[int], by: str = "arm", placed: bool = False
) -> list[str]:
    """List the unmet conditions on a tuning of learning rates, from runs labelled `by` and "lr".

    `placed`: a smaller model determined the range of rates.
    """
    grid = tuning.measure_by("validation.loss", by, "lr")
    return [*rates(grid, placed), *seeds(reported, _read_seeds(tuning))]


def too_young(
    run: Run,
    tuning: Results,
    final: Results,
    *,
    trigram: float,
    worth: float,
    claimed: float,
    placed: bool = False,
) -> list[str]:
    """List the unmet conditions of a comparison, given its runs by arm, for tuning and evaluation.

    `run` is one of the compared runs. `worth` is the benefit of attention, and `claimed` the
    difference between arms. `placed`: a smaller model determined the range of rates.
    """
    if not isinstance(run.data, Text):
        raise ValueError(
            "a comparison with trigram counts needs data of type Text, "
            f"got {type(run.data).__name__}"
        )
    tokens = run.train.steps * run.data.batch * run.data.time
    test = final.measure_by("test.loss", "arm")
    return [
        *context(test, trigram),
        *part(worth, claimed),
        *length(run.train.steps, run.train.warmup, tokens, parameters(run)),
        *rates({arm: {} for arm in test if arm not in tuning.by("arm")}, placed),
        *untuned(tuning, _read_seeds(final), placed=placed),
    ]


def _read_seeds(results: Results) -> set[int]:
    return {record.provenance["seed"] for _, record in results}


def parameters(run: Run) -> int:
    """Return the number of trained parameters of a run."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return sum(
            weight.numel() for weight in run.model.build().parameters() if weight.requires_grad
        )


def _average_losses(losses: Losses) -> float:
    """Average over seeds; a diverged run makes the mean infinite."""
    values = [math.inf if loss is None or math.isnan(loss) else loss for loss in losses]
    return math.fsum(values) / len(values)


def _format_mean(mean: float) -> str:
    return f"ends at {mean:.2f} nats" if math.isfinite(mean) else "diverged"
