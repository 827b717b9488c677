# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from math import log
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits, Text
from labkit.experiments import Experiment, Lab, Run, claim, ladder, minus, regime
from labkit.model.stacks import StackConfig, signal
from labkit.statistics.proportions import proportion

# %%
lab = Lab("A_skips", size=size, seed=seed, memory={"kernel": "1000M", "run": "950M"})
sizes = lab.sizes(
    # smoke, book
    heights=([2, 4], [20, 56]),
    steps=(24, 400),
    rates=([1e-3, 1e-2], [3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1, 3.16e-1]),
    tall=(6, 110),
    tall_steps=(24, 300),
    ladder_depths=([2, 4], [4, 8, 16, 32, 64]),
    ladder_rungs=(3, 8),
    ladder_steps=(24, 80),
    tower_blocks=(3, 96),
    tower_steps=(8, 200),
    towers=(2, 6),
)
five = lab.seeds(5)

# %%
designs = {
    "plain": {"model.step": "plain"},
    "plain, BatchNorm": {"model.step": "plain", "model.norm": "batch"},
    "highway": {"model.step": "highway"},
    "ResNet v1": {"model.step": "resnet-v1", "model.norm": "batch"},
    "ResNet v2": {"model.step": "resnet-v2", "model.norm": "batch"},
}
digits = Run(
    model=StackConfig(),
    data=Digits(batch=32),
    train=TrainConfig(steps=sizes.steps, optimizer="sgd", schedule="linear"),
)
low, high = sizes.heights
field = {"design": designs, "model.depth": [low, high], "train.lr": sizes.rates}
tuning = lab.run(Experiment(digits, {**field, "seed": [ladder.TUNING_SEED]}))
own = {
    f"{name} | {depth}": {**designs[name], "model.depth": depth, "train.lr": cell.best("lr")}
    for name, part in tuning.by("design").items()
    for depth, cell in part.by("depth").items()
}
final = lab.run(Experiment(digits, {"arm": own, "seed": five})).by("arm")

# %%
common, lower = sizes.rates[2:], sizes.rates[:-1]
shortcuts = {
    "identity": ("resnet-v1", common),
    "both gated": ("exclusive-gate", common),
    "gate on the shortcut": ("shortcut-gate", common),
    "halved": ("halved", [1e-4, *lower]),
    "half dropped": ("dropped", [1e-4, *lower]),
    "projected": ("projected", [1e-6, 3.16e-6, 1e-5, 3.16e-5, 1e-4, 3.16e-4, 1e-3]),
}
if size == "smoke":
    shortcuts = {name: (step, sizes.rates) for name, (step, _) in shortcuts.items()}
tall = replace(
    digits,
    model=StackConfig(norm="batch", depth=sizes.tall),
    train=replace(digits.train, steps=sizes.tall_steps),
)
tried, chosen = {}, {}
for name, (step, rates) in shortcuts.items():
    search = {"model.step": [step], "train.lr": rates, "seed": [ladder.TUNING_SEED]}
    tried[name] = lab.run(Experiment(tall, search))
    chosen[name] = {"model.step": step, "train.lr": tried[name].best("lr")}
ended = lab.run(Experiment(tall, {"arm": chosen, "seed": five})).by("arm")

# %%
lowest = {
    "small branches, SGD": ({"model.step": "none", "model.init": "scaled"}, "sgd", -10),
    "small branches, AdamW": ({"model.step": "none", "model.init": "scaled"}, "adamw", -7),
    "ResNet v2, SGD": (designs["ResNet v2"], "sgd", -3),
    "ResNet v2, AdamW": (designs["ResNet v2"], "adamw", -4),
}
climb = replace(
    digits,
    train=TrainConfig(steps=sizes.ladder_steps, schedule="constant"),
    probes=(),
)
climbs = {
    name: lab.run(
        Experiment(
            climb,
            {
                "arm": {name: {**fields, "train.optimizer": optimizer}},
                "model.depth": sizes.ladder_depths,
                "train.lr": [2.0 ** (first + k) for k in range(sizes.ladder_rungs)],
                "seed": five,
            },
        )
    )
    for name, (fields, optimizer, first) in lowest.items()
}

# %%
tower = Run(
    model=ModelConfig(
        "none", "layer", dim=16, depth=sizes.tower_blocks, heads=2, context=16,
        activation="gelu", init="megatron",
    ),
    data=Text(batch=4, time=16),
    train=TrainConfig(steps=sizes.tower_steps, lr=1e-3),
    probes=(),
)  # fmt: skip
careful = lab.run(Experiment(tower, {"seed": lab.seeds(sizes.towers)}))
hasty = lab.run(Experiment(tower, {"train.lr": [1e-2], "seed": lab.seeds(3)}))

# %%
reader = replace(digits, probes=("early-answers", "test"))
answers = lab.run(Experiment(reader, {"arm": {"v2": own[f"ResNet v2 | {high}"]}, "seed": five}))

# %%
lab.close()
