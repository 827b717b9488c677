"""Is a trained comparison old enough to rank its arms? The least that it needs.

    context   every arm's test loss lies below trigram counts of the same text
    part      leaving out what is compared costs 0.3 nats, or ten times the claimed difference
    length    2,000 updates, warm-up a tenth of them at most, about 20 tokens a parameter
    rates     of five rates or more over two decades, each arm's best is not at an end; where a
              smaller model placed them, of three or more
    seeds     five report that chose no rate

Each function gives the conditions that fail, in words; an empty list says that all hold.
`untuned` asks the last two, `too_young` all of them.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import torch

from labkit.corpora import Text
from labkit.experiments.experiment import Results
from labkit.experiments.run import Run

Losses = Sequence[float | None]  # one a seed; None: the run diverged
YOUNG = "too young to rank: "
PART, TIMES = 0.3, 10  # nats that a part is worth, or so many times the claimed difference
UPDATES, WARMUP = 2000, 0.1
TOKENS = 18  # a parameter: about 20 (Hoffmann et al. 2022, arXiv 2203.15556)
RATES, SPAN, PLACED = 5, 100, 3
SEEDS = 5


def context(test: Mapping[str, Losses], trigram: float) -> list[str]:
    """Name the arms whose mean test loss is no lower than that of trigram counts."""
    return [
        f"{YOUNG}{arm} {_format_mean(mean)}, trigram counts end at {trigram:.2f}"
        for arm, mean in ((arm, _average_losses(losses)) for arm, losses in test.items())
        if not mean < trigram
    ]


def part(worth: float, claimed: float, name: str = "attention") -> list[str]:
    """Compare what a part is worth (nats, loss without it minus loss) with a claimed difference."""
    needed = min(PART, TIMES * abs(claimed))
    if worth >= needed:
        return []
    return [f"{YOUNG}{name} is worth {worth:.2f} nats, and {needed:.2g} are needed"]


def length(steps: int, warmup: float, tokens: float, parameters: int) -> list[str]:
    """Compare updates, warm-up and tokens read with the minimum for each."""
    failed = []
    if steps < UPDATES:
        failed.append(f"{YOUNG}{steps:,} updates, and {UPDATES:,} are needed")
    if warmup > WARMUP * steps:
        failed.append(f"{YOUNG}warm-up takes {warmup / steps:.0%} of the updates, above 10%")
    if tokens < TOKENS * parameters:
        failed.append(f"{YOUNG}{tokens / parameters:.2g} tokens a parameter, and 20 are needed")
    return failed


def rates(grid: Mapping[str, Mapping[float, Losses]], placed: bool = False) -> list[str]:
    """Name the arms whose rates are few or narrow, or whose best one is the lowest or highest.

    `placed`: the same arms were tuned on a smaller model, and these rates stand around its best.
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
    """Count the seeds that report and chose no rate."""
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
    """List what a choice of learning rates, by runs with labels `by` and "lr", lacks.

    `placed`: a smaller model placed the rates.
    """
    grid = {
        arm: {rate: cell.values("validation.loss") for rate, cell in of.by("lr").items()}
        for arm, of in tuning.by(by).items()
    }
    return [*rates(grid, placed), *seeds(reported, _read_seeds(tuning))]


def too_young(
    run: Run,
    tuning: Results,
    final: Results,
    *,
    trigram: float,
    worth: float,
    claimed: float,
    name: str = "attention",
    placed: bool = False,
) -> list[str]:
    """Return what a comparison lacks: runs like `run`, by "arm", tuned by "lr", then reported.

    `worth` is what the part called `name` is worth, and `claimed` the difference between arms.
    `placed`: a smaller model placed the rates.
    """
    if not isinstance(run.data, Text):
        raise ValueError(
            f"trigrams are for text, {type(run.data).__name__} has none to compare with"
        )
    tokens = run.train.steps * run.data.batch * run.data.time
    test = {arm: of.values("test.loss") for arm, of in final.by("arm").items()}
    return [
        *context(test, trigram),
        *part(worth, claimed, name),
        *length(run.train.steps, run.train.warmup, tokens, parameters(run)),
        *rates({arm: {} for arm in test if arm not in tuning.by("arm")}, placed),
        *untuned(tuning, _read_seeds(final), placed=placed),
    ]


def _read_seeds(results: Results) -> set[int]:
    return {record.provenance["seed"] for _, record in results}


def parameters(run: Run) -> int:
    """Count the parameters that a run trains."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return sum(
            weight.numel() for weight in run.model.build().parameters() if weight.requires_grad
        )


def _average_losses(losses: Losses) -> float:
    """Average over seeds; a diverged run makes it infinite."""
    values = [math.inf if loss is None or math.isnan(loss) else loss for loss in losses]
    return math.fsum(values) / len(values)


def _format_mean(mean: float) -> str:
    return f"ends at {mean:.2f} nats" if math.isfinite(mean) else "diverged"
