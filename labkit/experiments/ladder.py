"""The shared ladder: one grid of arms, trained long enough to be compared, on rungs of one shape.

Every arm gets the same data, 20 tokens a parameter, and its own learning rate:

    coarse   on the smallest rung: five rates over two decades, one tuning seed
    fine     the two rates half-way to the best one's neighbours, the same seed
    placed   on a larger rung: the best rate of the rung below and its two neighbours, a quarter of
             a decade away; where the best of them is an end, the next one too
    final    the best of them, five fresh seeds, which report; they have never tuned

A chapter reads the rung it needs (`read_results`), and adds only what is its own. The regime
(optimizer, warm-up, clipping) is that of small published runs: AdamW with betas 0.9 and 0.95, 10 %
warm-up, a linear decay to 5 %, the gradient clipped at 1, no weight decay. Recipes keep the
initialization of their paper; the others have Megatron's, and embeddings of RMS 1.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean
from typing import Any

from labkit.corpora import Text
from labkit.corpora.ngrams import reference_lines
from labkit.experiments import regime
from labkit.experiments.experiment import Results
from labkit.experiments.run import Run
from labkit.model import Departure, ModelConfig
from labkit.statistics.seeds import Seeds
from labkit.training import Record, TrainConfig

COARSE = (0.001, 0.00316, 0.01, 0.0316, 0.1)
QUARTERS = (0.001, 0.00178, 0.00316, 0.00562, 0.01, 0.0178, 0.0316, 0.0562, 0.1)
TUNING_SEED = 1000
SEEDS = (0, 1, 2, 3, 4)
LOOKS = ("validation", "test", "residual-rms", "layer-cosine", "removal-cost", "attention",
         "gradient-profile", "activation-extremes")  # fmt: skip

Read = Callable[[Run], Record | None]


@dataclass(frozen=True)
class Rung:
    """One size of everything: the width, what a step reads, and how many steps there are."""

    dim: int
    depth: int
    time: int
    steps: int
    batch: int = 16
    held_out: int = 65_536
    below: str = ""  # the rung that places its rates; where there is none, they are searched for


RUNGS = {
    "smoke": Rung(dim=8, depth=2, time=8, steps=4, batch=4, held_out=512),
    "S": Rung(dim=32, depth=6, time=32, steps=3_200),  # 80 thousand parameters
    "M": Rung(dim=64, depth=6, time=64, steps=6_000, below="S"),  # 307 thousand
    "L": Rung(dim=128, depth=6, time=64, steps=23_400, below="M"),  # 1.2 million
}


CLIMBED = ("S", "M", "L")


@dataclass(frozen=True)
class Arm:
    """What one arm changes: fields of the model, and its warm-up as a share of the steps."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = 0.1
    kind: type[ModelConfig] = ModelConfig


def _build_recipe_arms(names: Iterable[str]) -> dict[str, Arm]:
    return {name: Arm({"recipe": name}) for name in names}


# By importance: where time ends, the last ones are missing. An embedding size is the RMS of
# embeddings; None is the rule 1 / sqrt(2.5 · dim).
ARMS: dict[str, Arm] = {
    "pre": Arm({"recipe": "pre"}),
    # What attention is worth: without it no comparison on a rung can be judged.
    "no attention": Arm({"recipe": "pre", "differs": "no attention"}, kind=Departure),
    **_build_recipe_arms(["qk", "qkv-pre", "hybrid*", "hybrid"]),
    # nGPT has no warm-up, and first values of its scales that suit six blocks: 1/12 and 10.
    "ngpt": Arm({"recipe": "ngpt", "share": 1 / 12, "s_z": 10.0}, warmup=0.0, kind=Departure),
    **_build_recipe_arms(["overwritten", "post", "none", "lns"]),
    # The first values with which nGPT was published, for models of 24 layers.
    "ngpt, published starts": Arm({"recipe": "ngpt"}, warmup=0.0),
    "pre, xavier": Arm({"recipe": "pre", "init": "xavier"}),
    "hybrid, xavier": Arm({"recipe": "hybrid", "init": "xavier"}),
    "pre, embedding by rule": Arm({"recipe": "pre", "embedding_size": None}),
    "hybrid, embedding by rule": Arm({"recipe": "hybrid", "embedding_size": None}),
    "hybrid*, embedding by rule": Arm({"recipe": "hybrid*", "embedding_size": None}),
    "qkv-pre, embedding by rule": Arm({"recipe": "qkv-pre", "embedding_size": None}),
    **_build_recipe_arms(["dyt", "deepnorm", "sandwich", "olmo2"]),
    "post, xavier": Arm({"recipe": "post", "init": "xavier"}),
    "pre, depth-scaled": Arm({"recipe": "pre", "init": "depth-scaled"}),
    "hybrid, depth-scaled": Arm({"recipe": "hybrid", "init": "depth-scaled"}),
    **_build_recipe_arms(["realformer", "peri", "resi-dual", "mix-ln", "derf", "admin"]),
    "pre, layer": Arm({"recipe": "pre", "norm": "layer"}),
    "pre, embedding 0.014": Arm({"recipe": "pre", "embedding_size": 0.014}),
    "hybrid, embedding 0.014": Arm({"recipe": "hybrid", "embedding_size": 0.014}),
    "hybrid*, embedding 0.014": Arm({"recipe": "hybrid*", "embedding_size": 0.014}),
    "qkv-pre, embedding 0.014": Arm({"recipe": "qkv-pre", "embedding_size": 0.014}),
    **_build_recipe_arms(["keel", "b2t", "output"]),
}


def build_text(rung: str) -> Text:
    """Return what every arm of a rung reads."""
    size = RUNGS[rung]
    return Text(batch=size.batch, time=size.time, held_out=size.held_out)


def build_base_run(rung: str, arm: str) -> Run:
    """Build an arm's run on a rung: all but its rate, its seed and what is measured."""
    size, asked = RUNGS[rung], ARMS[arm]
    fields = dict(asked.fields)
    if "embedding_size" in fields and fields["embedding_size"] is None:
        fields["embedding_size"] = round((2.5 * size.dim) ** -0.5, 4)
    model = asked.kind(
        norm=fields.pop("norm", "rms"),
        dim=size.dim,
        depth=size.depth,
        heads=4,
        context=size.time,
        **fields,
    )
    return Run(
        model=model,
        data=build_text(rung),
        train=TrainConfig(
            steps=size.steps,
            betas=(0.9, 0.95),
            warmup=round(asked.warmup * size.steps),
            schedule="linear",
            clip=1.0,
        ),
    )


def configure_run(
    run: Run, lr: float, seed: int, probes: Sequence[str] = ("validation", "test")
) -> Run:
    """Fix the rate, the seed and what is measured."""
    return replace(run, train=replace(run.train, lr=lr), seed=seed, probes=tuple(probes))


def list_tuning_runs(rung: str, arm: str, read: Read) -> list[Run]:
    """List the runs that choose an arm's rate and can be named by now."""
    run = build_base_run(rung, arm)
    if below := RUNGS[rung].below:
        best = best_rate(list_tuning_runs(below, arm, read), read)
        return [] if best is None else _list_placed_runs(run, QUARTERS.index(best), read)
    coarse = [configure_run(run, lr, TUNING_SEED) for lr in COARSE]
    best = best_rate(coarse, read)
    if best is None:
        return coarse
    middle = QUARTERS.index(best)
    beside = [QUARTERS[i] for i in (middle - 1, middle + 1) if 0 <= i < len(QUARTERS)]
    return coarse + [configure_run(run, lr, TUNING_SEED) for lr in beside]


def _list_placed_runs(run: Run, middle: int, read: Read) -> list[Run]:
    """List a rate and its neighbours, and go on while the best of them is an end."""
    low, high = max(middle - 1, 0), min(middle + 1, len(QUARTERS) - 1)
    while True:
        runs = [configure_run(run, lr, TUNING_SEED) for lr in QUARTERS[low : high + 1]]
        best = best_rate(runs, read)
        if best == QUARTERS[low] and low > 0:
            low -= 1
        elif best == QUARTERS[high] and high < len(QUARTERS) - 1:
            high += 1
        else:
            return runs


def list_final_runs(rung: str, arm: str, read: Read) -> list[Run]:
    """List the runs that report; none before the rate is chosen."""
    best = best_rate(list_tuning_runs(rung, arm, read), read)
    return (
        []
        if best is None
        else [configure_run(build_base_run(rung, arm), best, seed, LOOKS) for seed in SEEDS]
    )


def best_rate(runs: Sequence[Run], read: Read) -> float | None:
    """Choose the rate with the lowest validation loss; None while a run is missing."""
    records = [(run, read(run)) for run in runs]
    if not records or any(record is None for _, record in records):
        return None
    losses = [(_read_validation_loss(record), run.train.lr) for run, record in records if record]
    return min(losses)[1]


def _read_validation_loss(record: Record) -> float:
    loss = record.probes["validation"]["loss"]
    return float("inf") if loss is None else loss


def list_wanted_runs(rung: str, arms: Iterable[str], read: Read) -> list[Run]:
    """List every run of these arms that can be named by now, arm by arm."""
    return [
        run
        for arm in arms
        for run in (*list_tuning_runs(rung, arm, read), *list_final_runs(rung, arm, read))
    ]


def read_results(rungs: Iterable[str], arms: Iterable[str], read: Read) -> Results:
    """Read what there is: rows labelled with arm, rung, lr, seed and stage (tuning or final)."""
    rows = []
    for rung, arm in product(rungs, tuple(arms)):
        for stage, runs in (
            ("tuning", list_tuning_runs(rung, arm, read)),
            ("final", list_final_runs(rung, arm, read)),
        ):
            for run in runs:
                if (record := read(run)) is not None:
                    labels = {"arm": arm, "rung": rung, "lr": run.train.lr, "seed": run.seed}
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


def shared_rung(found: Results, arms: Iterable[str]) -> str:
    """Find the largest rung on which all of these arms have reported with every seed."""
    losses = {arm: reported(found, arm) for arm in arms}
    shared = [
        rung
        for rung in found.by("rung")
        if all({*SEEDS} <= {*of.get(rung, {})} for of in losses.values())
    ]
    if not shared:
        raise ValueError(
            f"there is no rung on which {', '.join(losses)} have all reported; train them with "
            "`labkit book runs --only ladder`"
        )
    return shared[-1]


def lead(found: Results, arm: str, over: str = "pre") -> dict[str, list[float]]:
    """Pair an arm with another, seed by seed: how far its test loss lies below, in nats, by rung.

    Only rungs on which both have reported with every seed; the smallest comes first.
    """
    low, high = reported(found, arm), reported(found, over)
    return {
        rung: [high[rung][seed] - low[rung][seed] for seed in SEEDS]
        for rung in low
        if rung in high and {*SEEDS} <= {*low[rung]} & {*high[rung]}
    }


def references(rung: str) -> dict[str, float]:
    """Return the losses of bigram and trigram counts on a rung's test windows."""
    return reference_lines(build_text(rung))


def lacking(found: Results, arm: str, over: str = "pre") -> list[str]:
    """Return what a comparison lacks on the largest rung on which both arms have reported.

    The regime's conditions (labkit.experiments.regime); what is compared is worth what the model
    loses without attention.
    """
    pairs = lead(found, arm, over)
    if not pairs:
        return [f"{regime.YOUNG}{arm} and {over} have not both reported"]
    rung, of = list(pairs.items())[-1]
    both = found.where(arm=[arm, over], rung=rung)
    worth = [-lost for lost in lead(found, "no attention", over).get(rung, [0.0])]
    return regime.too_young(
        build_base_run(rung, arm),
        both.where(stage="tuning"),
        both.where(stage="final"),
        trigram=references(rung)["trigram counts"],
        worth=fmean(worth),
        claimed=fmean(of),
        placed=bool(RUNGS[rung].below),
    )


def table(found: Results, over: str | None = "pre") -> list[dict[str, Any]]:
    """Sum up an arm a row, in the order of their losses on the smallest rung.

    A rung has its columns as soon as two of the arms have reported there with every seed; a
    column without a value is left out.

    `lead` is how far the arm's test loss lies below that of `over`, seed by seed, with Student's
    interval. `lost` is how far the validation loss lies above the best one on average over the
    coarse rates, a loss capped at that of letter frequencies (Wortsman et al. 2023, arXiv
    2309.14322); it has one seed.
    """
    arms = found.by("arm")
    losses_of = {arm: reported(found, arm) for arm in arms}
    every = [*found.by("rung")]
    rungs = [rung for rung in every if _count_reports(losses_of, rung) > 1] or every[:1]
    columns = [f"{rung}: {what}" for rung in rungs for what in ("rate", "lost", "test", "lead")]
    rows = []
    for arm, of_arm in arms.items():
        row: dict[str, Any] = {"arm": arm, **dict.fromkeys(columns, "")}
        for rung, part in of_arm.where(rung=rungs).by("rung").items():
            tuning = [(labels, record) for labels, record in part if labels["stage"] == "tuning"]
            tuned = {labels["lr"]: _cap_loss(record) for labels, record in tuning}
            if tuned:
                row[f"{rung}: rate"] = min(tuned, key=lambda lr: tuned[lr])
            if {*COARSE} <= {*tuned}:
                row[f"{rung}: lost"] = fmean(tuned[lr] for lr in COARSE) - min(tuned.values())
            if losses := losses_of[arm].get(rung):
                row[f"{rung}: test"] = fmean(losses.values())
            if over and arm != over and (pairs := lead(found, arm, over).get(rung)):
                of = Seeds(tuple(pairs))
                low, high = of.compute_interval()
                row[f"{rung}: lead"] = f"{of.mean:+.4f} [{low:+.4f}, {high:+.4f}]"
        rows.append(row)
    empty = {column for column in columns if all(row[column] == "" for row in rows)}
    rows = [{k: v for k, v in row.items() if k not in empty} for row in rows]
    return sorted(rows, key=lambda row: row[f"{rungs[0]}: test"] or math.inf)


def _count_reports(losses_of: Mapping[str, Mapping[str, Sized]], rung: str) -> int:
    """Count the arms that have reported on a rung with every seed."""
    return sum(len(of_rung.get(rung, ())) == len(SEEDS) for of_rung in losses_of.values())


FREQUENCIES = 3.06  # nats: what letter frequencies alone reach on this text


def _cap_loss(record: Record) -> float:
    return min(_read_validation_loss(record), FREQUENCIES)
