"""The shared ladder: one grid of arms, trained long enough to be compared, on rungs of one shape.

Every arm gets the same data, 20 tokens a parameter, and its own learning rate:

    coarse   five rates over two decades, one tuning seed
    fine     the two rates half-way to the best one's neighbours, the same seed
    final    the best of the seven, five fresh seeds, which report; they have never tuned

A chapter reads the rung it needs (`results`), and adds only what is its own. The regime (optimizer,
warm-up, clipping) is that of small published runs: AdamW with betas 0.9 and 0.95, 10 % warm-up, a
linear decay to 5 %, the gradient clipped at 1, no weight decay. Recipes keep the initialization of
their paper; the others have Megatron's, and embeddings of RMS 1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labkit.corpora import Text
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


RUNGS = {
    "smoke": Rung(dim=8, depth=2, time=8, steps=4, batch=4, held_out=512),
    "S": Rung(dim=32, depth=6, time=32, steps=3_200),  # 80 thousand parameters
    "M": Rung(dim=64, depth=6, time=64, steps=6_000),  # 307 thousand
    "L": Rung(dim=128, depth=6, time=64, steps=23_400),  # 1.2 million
}


@dataclass(frozen=True)
class Arm:
    """What one arm changes: fields of the model, and its warm-up as a share of the steps."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = 0.1
    kind: type[ModelConfig] = ModelConfig


def _embedding(rule: float | None) -> dict[str, Any]:
    """Set the RMS of embeddings: a number, or None for the rule 1 / sqrt(2.5 · dim)."""
    return {"embedding_size": rule}


def _recipes(names: Iterable[str]) -> dict[str, Arm]:
    return {name: Arm({"recipe": name}) for name in names}


# By importance: where time ends, the last ones are missing.
ARMS: dict[str, Arm] = {
    **_recipes(["pre", "post", "qk", "hybrid", "hybrid*", "qkv-pre"]),
    # nGPT has no warm-up, and first values of its scales that suit six blocks: 1/12 and 10.
    "ngpt": Arm({"recipe": "ngpt", "share": 1 / 12, "s_z": 10.0}, warmup=0.0, kind=Departure),
    "no attention": Arm({"recipe": "pre", "differs": "no attention"}, kind=Departure),
    **_recipes(["none", "dyt", "deepnorm", "overwritten", "sandwich", "olmo2"]),
    "pre, embedding by rule": Arm({"recipe": "pre", **_embedding(None)}),
    "hybrid, embedding by rule": Arm({"recipe": "hybrid", **_embedding(None)}),
    "hybrid*, embedding by rule": Arm({"recipe": "hybrid*", **_embedding(None)}),
    "qkv-pre, embedding by rule": Arm({"recipe": "qkv-pre", **_embedding(None)}),
    **_recipes(["realformer", "peri", "resi-dual", "mix-ln", "derf", "admin", "lns"]),
    "pre, layer": Arm({"recipe": "pre", "norm": "layer"}),
    "pre, embedding 0.014": Arm({"recipe": "pre", **_embedding(0.014)}),
    "hybrid, embedding 0.014": Arm({"recipe": "hybrid", **_embedding(0.014)}),
    "hybrid*, embedding 0.014": Arm({"recipe": "hybrid*", **_embedding(0.014)}),
    "qkv-pre, embedding 0.014": Arm({"recipe": "qkv-pre", **_embedding(0.014)}),
    "pre, xavier": Arm({"recipe": "pre", "init": "xavier"}),
    "post, xavier": Arm({"recipe": "post", "init": "xavier"}),
    "hybrid, xavier": Arm({"recipe": "hybrid", "init": "xavier"}),
    "pre, depth-scaled": Arm({"recipe": "pre", "init": "depth-scaled"}),
    "hybrid, depth-scaled": Arm({"recipe": "hybrid", "init": "depth-scaled"}),
    # The first values with which nGPT was published, for models of 24 layers.
    "ngpt, published starts": Arm({"recipe": "ngpt"}, warmup=0.0),
    **_recipes(["keel", "b2t", "output"]),
}


def base(rung: str, arm: str) -> Run:
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
        data=Text(batch=size.batch, time=size.time, held_out=size.held_out),
        train=TrainConfig(
            steps=size.steps,
            betas=(0.9, 0.95),
            warmup=round(asked.warmup * size.steps),
            schedule="linear",
            clip=1.0,
        ),
    )


def at(run: Run, lr: float, seed: int, probes: Sequence[str] = ("validation", "test")) -> Run:
    """Fix the rate, the seed and what is measured."""
    return replace(run, train=replace(run.train, lr=lr), seed=seed, probes=tuple(probes))


def tuning(rung: str, arm: str, read: Read) -> list[Run]:
    """List the runs that choose an arm's rate: the coarse ones, then those beside the best."""
    run = base(rung, arm)
    coarse = [at(run, lr, TUNING_SEED) for lr in COARSE]
    best = best_rate(coarse, read)
    if best is None:
        return coarse
    middle = QUARTERS.index(best)
    beside = [QUARTERS[i] for i in (middle - 1, middle + 1) if 0 <= i < len(QUARTERS)]
    return coarse + [at(run, lr, TUNING_SEED) for lr in beside]


def final(rung: str, arm: str, read: Read) -> list[Run]:
    """List the runs that report; none before the rate is chosen."""
    best = best_rate(tuning(rung, arm, read), read)
    return [] if best is None else [at(base(rung, arm), best, seed, LOOKS) for seed in SEEDS]


def best_rate(runs: Sequence[Run], read: Read) -> float | None:
    """Choose the rate with the lowest validation loss; None while a run is missing."""
    found = [(run, read(run)) for run in runs]
    if any(record is None for _, record in found):
        return None
    return min((_validation(record), run.train.lr) for run, record in found if record)[1]


def _validation(record: Record) -> float:
    loss = record.probes["validation"]["loss"]
    return float("inf") if loss is None else loss


def wanted(rung: str, arms: Iterable[str], read: Read) -> list[Run]:
    """List every run of these arms that can be named by now, arm by arm."""
    return [run for arm in arms for run in (*tuning(rung, arm, read), *final(rung, arm, read))]


def results(rung: str, arms: Iterable[str], read: Read) -> Results:
    """Read what there is: rows labelled with arm, lr, seed and stage (tuning or final)."""
    rows = []
    for arm in arms:
        for stage, runs in (("tuning", tuning(rung, arm, read)), ("final", final(rung, arm, read))):
            for run in runs:
                if (record := read(run)) is not None:
                    labels = {"arm": arm, "lr": run.train.lr, "seed": run.seed, "stage": stage}
                    rows.append((labels, record))
    return Results(tuple(rows))


def table(rung: str, arms: Iterable[str], read: Read) -> list[dict[str, Any]]:
    """Sum up what a rung has so far, an arm a row, in the order of their losses.

    `lead` is the mean of Pre-Norm's test loss minus the arm's, seed by seed, with Student's
    interval. `sensitivity` is how far the validation loss lies above the best one on average over
    the coarse rates, a loss capped at that of letter frequencies (Wortsman et al. 2023, arXiv
    2309.14322).
    """
    found = results(rung, arms, read)
    base = _test(found, "pre")
    rows = []
    for arm in dict.fromkeys(labels["arm"] for labels, _ in found):
        tuned = {
            labels["lr"]: _capped(record)
            for labels, record in found
            if labels["arm"] == arm and labels["stage"] == "tuning"
        }
        losses = _test(found, arm)
        coarse = [loss for lr, loss in tuned.items() if lr in COARSE]
        row: dict[str, Any] = {"arm": arm, "seeds": len(losses)}
        row |= {"rate": min(tuned, key=lambda lr: tuned[lr])} if len(coarse) == len(COARSE) else {}
        row |= {"sensitivity": sum(coarse) / len(coarse) - min(tuned.values())} if coarse else {}
        if losses:
            row |= {"test": Seeds(tuple(losses.values())).mean}
        pairs = [base[seed] - loss for seed, loss in losses.items() if seed in base]
        if len(pairs) > 1 and arm != "pre":
            lead = Seeds(tuple(pairs))
            row |= {"lead": lead.mean, "interval": lead.interval()}
        rows.append(row)
    return sorted(rows, key=lambda row: row.get("test", float("inf")))


FREQUENCIES = 3.06  # nats: what letter frequencies alone reach on this text


def _test(found: Results, arm: str) -> dict[int, float]:
    """List an arm's final test losses by seed; a run that diverged has no place in a mean."""
    return {
        labels["seed"]: record.probes["test"]["loss"]
        for labels, record in found
        if labels["arm"] == arm and labels["stage"] == "final" and record.diverged_at is None
    }


def _capped(record: Record) -> float:
    return min(_validation(record), FREQUENCIES)
