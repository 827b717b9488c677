"""A run: everything that decides one training, and nothing else.

key(run) = sha256(canonical JSON of the run, fingerprint of the code it uses, torch, device)
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch

from labkit.corpora import Digits, Markov, Text
from labkit.fingerprint import fingerprint_of
from labkit.model import Departure, ModelConfig
from labkit.probes import make_probe
from labkit.stacks import StackConfig
from labkit.training import Record, TrainConfig, train
from labkit.vision import CNNConfig, MLPConfig
from labkit.vit import ViTConfig

CPU = "cpu"
# What may stand in a run, by the name under which its JSON says so.
_MODELS = (ModelConfig, Departure, MLPConfig, CNNConfig, StackConfig, ViTConfig)
CONFIGS = {kind.__name__: kind for kind in (*_MODELS, Text, Digits, Markov, TrainConfig)}


@dataclass(frozen=True)
class Run:
    """One training: same run, same numbers (on one kind of machine)."""

    model: ModelConfig | MLPConfig | CNNConfig | StackConfig | ViTConfig
    data: Text | Digits | Markov
    train: TrainConfig
    seed: int = 0  # weights and batches
    probes: tuple[str, ...] = ("validation", "test")

    def to_dict(self) -> dict[str, Any]:
        """Write the run with the name of each config beside its fields."""
        return {
            part.name: {"type": type(value).__name__, **asdict(value)}
            if type(value).__name__ in CONFIGS
            else value
            for part in fields(self)
            for value in (getattr(self, part.name),)
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Run":
        """Read what `to_dict` wrote, also after a trip through JSON."""
        return cls(**{name: _revive(value) for name, value in values.items()})

    def key(self, device: str = CPU) -> str:
        """Name the run by its content, the code that runs it, torch's version and the device.

        `device` is a class of devices: "cpu", or a GPU's name.
        """
        content = {
            "run": self.to_dict(),
            "code": fingerprint_of("labkit.experiments.run"),
            "torch": torch.__version__,
            "device": device,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _revive(value: Any) -> Any:
    if isinstance(value, dict):
        rest = {name: _revive(item) for name, item in value.items() if name != "type"}
        return CONFIGS[value["type"]](**rest)
    return tuple(map(_revive, value)) if isinstance(value, list) else value


def gpu() -> str:
    """Name the GPU that torch sees; "cpu" where there is none."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else CPU


def execute(run: Run, *, progress: bool = False, device: str = CPU) -> Record:
    """Train the run from nothing and measure what its probes name; on a GPU if one is named.

    Weights and batches are drawn on the CPU: a seed means the same everywhere.
    """
    corpus = run.data.load()
    torch.manual_seed(run.seed)
    model = run.model.build()
    if device != CPU:
        if device != gpu():
            raise ValueError(f"this run trains on {device!r}, but torch sees {gpu()!r} here")
        corpus, model = corpus.to("cuda"), model.to("cuda")
    observers = [make_probe(name, corpus) for name in run.probes]
    record = train(model, corpus.train(run.seed), run.train, observers, progress=progress)
    record.provenance["seed"] = run.seed
    return record
