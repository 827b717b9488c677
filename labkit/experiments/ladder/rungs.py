"""Methods and sizes of the ladder: arms, rungs, and directions (a size with one change).

A rung is a model size with its data and number of steps. A direction is a variant of a size with
one change: twelve blocks (D), 24 blocks (D24), weight decay (W) or program code as text (C) in S,
weight decay (MW) in M. It has the same number of batches as the size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from labkit.corpora import Text
from labkit.experiments.run import Run
from labkit.model import Departure, ModelConfig, Perturbed
from labkit.training import TrainConfig

LOOKS = ("validation", "test", "residual-rms", "layer-cosine", "removal-cost", "attention",
         "gradient-profile", "activation-extremes")  # fmt: skip


@dataclass(frozen=True)
class Rung:
    """A model size: its width, the data per step, and the number of steps."""

    dim: int
    depth: int
    time: int
    steps: int
    batch: int = 16
    held_out: int = 65_536
    weight_decay: float = 0.0  # on matrices
    source: str = "speeches"  # of text
    below: str = ""  # the rung that determines its rates; "": they are searched for
    lower: int = (
        0  # quarters of a decade by which the search with three seeds starts lower than on S
    )
    seeds: int = 10  # that report
    of: str = "S"  # of a direction: the size that it changes
    changes: str = ""  # of a direction: its change


RUNGS = {
    "smoke": Rung(dim=8, depth=2, time=8, steps=4, batch=4, held_out=512, seeds=5),
    "S": Rung(dim=32, depth=6, time=32, steps=3_200, seeds=20),  # 80 thousand parameters
    "M": Rung(dim=64, depth=6, time=64, steps=6_000, below="S", lower=1),  # 307 thousand
    "L": Rung(dim=128, depth=6, time=64, steps=23_400, below="M", lower=2),  # 1.2 million
    "D": Rung(dim=32, depth=12, time=32, steps=3_200, below="S", changes="12 blocks"),
    "D24": Rung(dim=32, depth=24, time=32, steps=3_200, below="S", changes="24 blocks"),
    "W": Rung(dim=32, depth=6, time=32, steps=3_200, weight_decay=0.1, below="S", seeds=20,
              changes="weight decay 0.1 on matrices"),
    "C": Rung(dim=32, depth=6, time=32, steps=3_200, source="code", below="S",
              changes="program code as training text"),
    "MW": Rung(dim=64, depth=6, time=64, steps=6_000, weight_decay=0.1, below="S", lower=1, of="M",
               changes="weight decay 0.1 on matrices"),
}  # fmt: skip
SIZES = ("S", "M", "L")
DIRECTIONS = tuple(name for name, rung in RUNGS.items() if rung.changes)
CLIMBED = (*SIZES, *DIRECTIONS)


@dataclass(frozen=True)
class Arm:
    """Changes that define one arm: fields of the model, and warm-up as a fraction of the steps."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = 0.1
    kind: type[ModelConfig] = ModelConfig


def _build_recipe_arms(names: Iterable[str]) -> dict[str, Arm]:
    return {name: Arm({"recipe": name}) for name in names}


# By importance: if time runs out, the last ones are missing. An embedding size is the RMS of
# embeddings; None is the rule 1 / sqrt(2.5 · dim).
CHAPTERED: dict[str, Arm] = {
    "pre": Arm({"recipe": "pre"}),
    # For the benefit of attention, which judging any comparison on a rung needs.
    "no attention": Arm({"recipe": "pre", "differs": "no attention"}, kind=Departure),
    **_build_recipe_arms(["qk", "qkv-pre", "hybrid*", "hybrid"]),
    # nGPT has no warm-up; its initial values: by depth, one sublayer's share (None), and 10.
    "ngpt": Arm({"recipe": "ngpt", "share": None, "s_z": 10.0}, warmup=0.0, kind=Departure),
    **_build_recipe_arms(["overwritten", "post", "none", "lns"]),
    # The initial values with which nGPT was published, for models of 24 layers.
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
    # Drawn as small as those of 0.014, but free to grow: no fixed number multiplies them.
    **{
        f"{recipe}, drawn 0.014": Arm({"recipe": recipe, "embedding_drawn": 0.014}, kind=Perturbed)
        for recipe in ("pre", "hybrid", "hybrid*", "qkv-pre")
    },
}
# Arms of the appendices only, whose pages are built before all of these are evaluated.
SHELVED: dict[str, Arm] = {
    **_build_recipe_arms(["gemma2", "gemma3", "sub-ln", "normformer"]),
    **_build_recipe_arms(["embed-norm", "first-qkv-pre"]),
    # Only Gemma 2's bound on attention logits, without norms and with norms that limit them.
    "pre, soft cap": Arm({"recipe": "pre", "softcap": 50.0}),
    "qk, soft cap": Arm({"recipe": "qk", "softcap": 50.0}),
    # Rows of HybridNorm's Table 4; the other seven are above, Pre-QK-Pre as qk.
    **_build_recipe_arms(["qkvc-post", "qkc-post", "qk-post", "kv-post", "kc-post",
                          "pre-qkv-post", "pre-qkv-pre", "post-pre", "pre-post"]),
    # HybridNorm's Table 3 has a third start: output matrices as large as all others.
    "pre, normal": Arm({"recipe": "pre", "init": "normal"}),
    "hybrid, normal": Arm({"recipe": "hybrid", "init": "normal"}),
    # Embeddings as language models draw them. nGPT's have length 1, whatever they are drawn from.
    **{
        f"{recipe}, drawn 0.02": Arm({"recipe": recipe, "embedding_drawn": 0.02}, kind=Perturbed)
        for recipe in ("pre", "qk", "lns", "hybrid", "qkv-pre", "post", "none")
    },
    # Four experts share the parameters of a plain feed-forward; each token uses two of them.
    **{
        f"{recipe}, experts": Arm({"recipe": recipe, "experts": 4})
        for recipe in ("pre", "hybrid", "hybrid*")
    },
}  # fmt: skip
ARMS: dict[str, Arm] = {**CHAPTERED, **SHELVED}


def find_size(rung: str) -> str:
    """Return the size that a direction changes; for a size, return the size itself."""
    return RUNGS[rung].of if rung in DIRECTIONS else rung


def build_text(rung: str) -> Text:
    """Return the data of every arm on a rung."""
    size = RUNGS[rung]
    return Text(size.batch, size.time, held_out=size.held_out, source=size.source)


def build_base_run(rung: str, arm: str | Arm) -> Run:
    """Build an arm's run on a rung: everything except its rate, its seed and its probes.

    `arm` is a name in ARMS, or your own arm.
    """
    return _build_named_run(rung, arm) if isinstance(arm, str) else _build_run(rung, arm)


@cache  # called again with each rate and seed
def _build_named_run(rung: str, arm: str) -> Run:
    return _build_run(rung, ARMS[arm])


def _build_run(rung: str, asked: Arm) -> Run:
    size = RUNGS[rung]
    fields = dict(asked.fields)
    if "embedding_size" in fields and fields["embedding_size"] is None:
        fields["embedding_size"] = round((2.5 * size.dim) ** -0.5, 4)
    if "share" in fields and fields["share"] is None:
        fields["share"] = 1 / (2 * size.depth)
    if "experts" in fields:
        fields["hidden"] = 8 * size.dim // 3 // fields["experts"]
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
            weight_decay=size.weight_decay,
            decayed="matrices" if size.weight_decay else "all",
            warmup=round(asked.warmup * size.steps),
            schedule="linear",
            clip=1.0,
        ),
    )


def configure_run(
    run: Run, lr: float, seed: int, probes: Sequence[str] = ("validation", "test")
) -> Run:
    """Set the rate, the seed and the probes."""
    return _configure_run(run, lr, seed, tuple(probes))


@cache  # one object each, because it caches its key, which is used many times
def _configure_run(run: Run, lr: float, seed: int, probes: tuple[str, ...]) -> Run:
    return replace(run, train=replace(run.train, lr=lr), seed=seed, probes=probes)
