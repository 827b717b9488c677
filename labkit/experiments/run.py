"""A run: everything that determines one training, and nothing else.

key(run) = sha256(canonical JSON of its content)

The content is the resolved configuration: a recipe counts by its equations, not its name, and a
field with its class' default is left out. So a run keeps its key when a recipe is renamed, a field
is added or a file is moved. Whether the current code still reproduces a record is a different
question, which `labkit.experiments.replay` answers.
"""

import hashlib
import json
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch

from labkit.corpora import Digits, FewDigits, Points, Text
from labkit.model import Departure, ModelConfig, Perturbed, ScaledGradients
from labkit.model.bare import BareMLPConfig
from labkit.model.stacks import StackConfig
from labkit.model.vision import CNNConfig, MLPConfig
from labkit.model.vit import ViTConfig
from labkit.placements import recipe
from labkit.probes import PROBES, make_probe
from labkit.system.unknown import explain_unknown
from labkit.training import Record, TrainConfig, train

CPU = "cpu"
# The classes allowed in a run, by their name in its JSON.
_MODELS = (
    ModelConfig, Departure, Perturbed, ScaledGradients,
    MLPConfig, CNNConfig, BareMLPConfig, StackConfig, ViTConfig,
)  # fmt: skip
_DATA = (Text, Digits, FewDigits, Points)
_PARTS = {"model": _MODELS, "data": _DATA, "train": (TrainConfig,)}
CONFIGS = {kind.__name__: kind for kinds in _PARTS.values() for kind in kinds}
# Former fields of configs, with their only value in records.
GONE = {"matmul": "default", "residual": None, "images": None, "neighbours": False}


@dataclass(frozen=True)
class Run:
    """One training: the same run gives the same numbers (on one kind of machine)."""

    model: ModelConfig | MLPConfig | CNNConfig | BareMLPConfig | StackConfig | ViTConfig
    data: Text | Digits | FewDigits | Points
    train: TrainConfig
    seed: int = 0  # weights and batches
    probes: tuple[str, ...] = ("validation", "test")

    def __post_init__(self) -> None:
        for part, kinds in _PARTS.items():
            kind = type(value := getattr(self, part))
            # A record could not describe the additions of a foreign class.
            ours = kind.__name__ in CONFIGS or kind.__module__.startswith("labkit.")
            if not (isinstance(value, kinds) and ours):
                raise TypeError(
                    f"a run's {part} must be one of {', '.join(one.__name__ for one in kinds)}; "
                    f"got {kind.__name__}; train a module or data of your own with labkit.train"
                )
        if not isinstance(self.seed, int):
            raise TypeError(f"a run's seed must be a whole number, got {self.seed!r}")
        for name in self.probes:
            if name not in PROBES:
                raise ValueError(explain_unknown("probe", name, PROBES))

    def __str__(self) -> str:
        """Return the fields that differ from the defaults."""
        parts = [
            f"{name}={_format_config(getattr(self, name))}" for name in ("model", "data", "train")
        ]
        return f"Run({', '.join(parts)}, seed={self.seed})"

    def to_dict(self) -> dict[str, Any]:
        """Return the run as a dict, with the class name of each config next to its fields."""
        return {
            part.name: {"type": type(value).__name__, **_list_fields(value)}
            if type(value).__name__ in CONFIGS
            else value
            for part in fields(self)
            for value in (getattr(self, part.name),)
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Run":
        """Read the output of `to_dict`, also after a conversion to JSON and back."""
        return cls(**{name: _revive_config(value) for name, value in values.items()})

    def resolve_content(self) -> dict[str, Any]:
        """Return the content that determines the run's numbers: equal content, the same run."""
        parts = {name: _resolve_config(getattr(self, name)) for name in ("model", "data", "train")}
        return _simplify_value({**parts, "seed": self.seed, "probes": sorted(set(self.probes))})

    def key(self) -> str:
        """Return the run's name, a hash of its content in 24 hexadecimal digits."""
        return self._key

    @cached_property
    def _key(self) -> str:
        text = json.dumps(self.resolve_content(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def hash_configuration(self) -> str:
        """Return a hash of everything but the seed: runs that differ only in the seed share it."""
        return replace(self, seed=0).key()

    def hash_workload(self) -> str:
        """Return a hash of the computation, without the seed, the learning rate and the probes."""
        return replace(self, seed=0, probes=(), train=replace(self.train, lr=1e-3)).key()


# Runs that train together, as one batched model if there are several.
Task = tuple[Run, ...]


def _format_config(config: Any) -> str:
    changed = (
        f"{field.name}={value!r}"
        for field in fields(config)
        if (value := getattr(config, field.name)) != field.default
    )
    return f"{type(config).__name__}({', '.join(changed)})"


def _list_fields(config: Any) -> dict[str, Any]:
    """Return a config's fields; configs are not nested, so unlike `asdict` nothing is copied."""
    return {field.name: getattr(config, field.name) for field in fields(config)}


def _resolve_config(config: Any) -> dict[str, Any]:
    """Return a config's class and the fields that differ from the defaults."""
    resolved = config.resolved() if isinstance(config, ModelConfig) else _list_fields(config)
    if isinstance(config, ViTConfig):
        resolved["recipe"] = recipe(config.recipe).content()
    defaults = {f.name: f.default for f in fields(config) if f.default is not MISSING}
    return {"type": type(config).__name__} | {
        name: value for name, value in resolved.items() if value != defaults.get(name, MISSING)
    }


def _simplify_value(value: Any) -> Any:
    """Write equal values in the same way: 1.0 as 1, a tuple as a list."""
    if isinstance(value, dict):
        return {name: _simplify_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_simplify_value(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _revive_config(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if (name, item) not in GONE.items()}
        kind = CONFIGS[kept.pop("type")]
        return kind(**{name: _revive_config(item) for name, item in kept.items()})
    return tuple(map(_revive_config, value)) if isinstance(value, list) else value


def get_gpu_name() -> str:
    """Return the name of the GPU that torch finds; "cpu" if there is none."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else CPU


def find_device(device: str) -> str:
    """Return torch's name for a device of runs; raise ValueError if torch does not find it."""
    if device not in (CPU, get_gpu_name()):
        raise ValueError(
            f"this run needs the device {device!r}, but torch finds {get_gpu_name()!r} here; run "
            "it on a machine that has it"
        )
    return CPU if device == CPU else "cuda"


def execute_run(
    run: Run, *, progress: bool = False, device: str = CPU, nudge: float = 0.0
) -> Record:
    """Train the run from scratch and measure with its probes; on a GPU if `device` names one.

    Weights and batches are drawn on the CPU, so a seed means the same everywhere. A `nudge`
    increases every initial weight by this fraction, to show the effect of such a small error.
    """
    corpus = run.data.load()
    torch.manual_seed(run.seed)
    model = run.model.build()
    if nudge:
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + nudge)
    if (place := find_device(device)) != CPU:
        corpus, model = corpus.to(place), model.to(place)
    observers = [make_probe(name, corpus) for name in run.probes]
    record = train(model, corpus.train(run.seed), run.train, observers, progress=progress)
    record.provenance["seed"] = run.seed
    return record
