"""What the training loop computes, to the bit: losses, weights and probes of six short runs.

Recorded runs are believed because they are replayed, so that the loop may not change a digit by
being rewritten. The numbers below were made by the loop of commit 9ff8735. On another kind of
processor, or with another torch, sums run in another order: there losses agree to 1e-5.

    python tests/test_training_golden.py      prints the numbers of this machine
"""

import hashlib
import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from labkit.corpora import Digits, Markov
from labkit.model import ModelConfig
from labkit.probes import make_probe
from labkit.provenance import collect_provenance
from labkit.stacks import StackConfig
from labkit.training import TrainConfig, train

SMALL = {"dim": 32, "depth": 2, "heads": 2, "vocab": 12, "context": 16}
TEXT = Markov(batch=8, time=16, symbols=12)
TRAIN = {"steps": 12, "lr": 1e-2}
PROBES = ("validation", "gradient-at-start", "step-response")
# model, corpus, how it is trained, what is measured
RUNS = {
    "pre": (ModelConfig("pre", **SMALL), TEXT, TrainConfig(**TRAIN), PROBES),
    "post": (
        ModelConfig("post", "layer", activation="gelu", **SMALL),
        TEXT,
        TrainConfig(**TRAIN, warmup=4, clip=0.5, weight_decay=0.1, schedule="linear"),
        PROBES,
    ),
    "ngpt": (ModelConfig("ngpt", **SMALL), TEXT, TrainConfig(**TRAIN, weight_decay=0.1), PROBES),
    "deepnorm": (
        ModelConfig("deepnorm", "layer", experts=2, qk_clip=0.5, **SMALL),
        TEXT,
        TrainConfig(**TRAIN, schedule="constant", betas=(0.9, 0.95)),
        PROBES,
    ),
    "digits": (
        StackConfig("resnet-v1", "batch", width=32),
        Digits(batch=32),
        TrainConfig(steps=12, lr=0.1, optimizer="sgd", momentum=0.8, weight_decay=0.01),
        ("validation", "gradient-at-start", "landscape"),
    ),
    "muon": (
        ModelConfig("hybrid*", kv_heads=1, tie=True, **SMALL),
        TEXT,
        TrainConfig(**TRAIN, optimizer="muon", clip=1.0, warmup=2),
        PROBES,
    ),
}
# Where they were made; bits are promised for this alone.
MADE = ("AMD EPYC", "AVX512", "2.13.0+cpu")
# Each run's losses as the shortest decimals that are these float32, digests of weights and probes.
GOLDEN = {
    "pre": (
        "2.6202774 2.423625 2.4170833 2.3455553 2.2536778 2.276628 "
        "2.2409828 2.4229424 2.3810651 2.1669126 2.422462 2.312142",
        "df7ba6f533b6187f",
        "f538201f3c4160cf",
    ),
    "post": (
        "2.5842278 2.3833096 2.4566038 2.3109643 2.3248847 2.3034325 "
        "2.2842567 2.3672717 2.3927867 2.2300727 2.3654382 2.2981236",
        "9d4fe1df559e96e3",
        "8b27b0878b3349a7",
    ),
    "ngpt": (
        "2.4868197 2.460511 2.4507651 2.440347 2.4141183 2.3979704 "
        "2.381661 2.4393198 2.4090257 2.3688595 2.4057763 2.3840678",
        "8f6164689febd20b",
        "dd6f980dc0afa885",
    ),
    "deepnorm": (
        "3.3419151 2.776666 2.686558 2.4520218 2.4042406 2.3335369 "
        "2.306717 2.447258 2.4419687 2.2384112 2.3887894 2.3505716",
        "6bde201e94900b03",
        "a7c8c849a83fff53",
    ),
    "digits": (
        "3.0017908 2.6176138 2.2039297 1.7626534 1.2668346 1.3323798 "
        "1.3189036 1.272254 0.92278945 0.9028684 1.2308642 0.93354726",
        "d50128a24eb9a718",
        "ac0f985a8ff2b53b",
    ),
    "muon": (
        "4.825717 4.522631 4.261209 3.6261206 3.5387788 3.324184 "
        "3.025967 3.0288675 2.9807262 2.7225113 2.7059765 2.6593223",
        "1dbe6ced11c8d398",
        "d19f5bd3b11904dd",
    ),
}


def here():
    """Name what decides the last digits."""
    made = collect_provenance()
    return made["cpu"], torch.backends.cpu.get_cpu_capability(), made["torch"]


def measure(name):
    """Train one of the runs: its losses, and digests of its weights and probes."""
    torch.set_num_threads(1)
    model_config, data, config, probes = RUNS[name]
    torch.manual_seed(7)
    model, corpus = model_config.build(), data.load()
    observers = [make_probe(probe, corpus) for probe in probes]
    record = train(model, corpus.train(7), config, observers, progress=False)
    weights = hashlib.sha256()
    for key, value in model.state_dict().items():
        weights.update(key.encode() + value.numpy().tobytes())
    probes = hashlib.sha256(json.dumps(record.probes, sort_keys=True).encode())
    losses = " ".join(str(np.float32(loss)) for loss in record.losses)
    return losses, weights.hexdigest()[:16], probes.hexdigest()[:16]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_what_it_was_to_the_bit(name):
    actual, expected = measure(name), GOLDEN[name]
    if here() == MADE:
        assert actual == expected
    losses, recorded = ([*map(float, made[0].split())] for made in (actual, expected))
    assert losses == pytest.approx(recorded, rel=1e-5)  # where sums run in another order


def test_the_runs_leave_few_options_of_training_at_their_defaults():
    defaults = asdict(TrainConfig())
    configs = [asdict(config) for _, _, config, _ in RUNS.values()]
    varied = {key for key in defaults if any(one[key] != defaults[key] for one in configs)}
    assert {*defaults} - varied == {"final_lr", "precision", "matmul"}


if __name__ == "__main__":
    print("MADE =", here())
    for name in RUNS:
        print(name, *measure(name), sep="\n    ")
