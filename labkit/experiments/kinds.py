"""What decides the time of a run: alike runs take the same, near ones in proportion to their size.

    scale = steps · depth · width · sqrt(predictions a step), as a logarithm

because a block of a small network costs its calls as much as its arithmetic.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from labkit.experiments.run import CONFIGS

FAR = math.log(12)  # a neighbour whose sizes differ by more is no basis, only a guess
LONG = math.log(50)  # beside so many steps it hardly counts what else is measured
TRAIN = ("steps", "optimizer", "clip")  # what of TrainConfig costs time


@dataclass(frozen=True)
class Kind:
    """What decides the time of a run."""

    alike: str  # the same for runs that take the same
    family: tuple[str, str, str]  # model, data, optimizer: others are not compared
    probes: frozenset[str]
    sizes: tuple[float, ...]  # log of steps, depth, width, predictions a step
    traits: frozenset[tuple[str, str]]  # everything else that was chosen

    @property
    def scale(self) -> float:
        """Give the logarithm of the time, but for a factor of the machine."""
        steps, depth, width, predictions = self.sizes
        return steps + depth + width + predictions / 2

    def distance(self, other: "Kind") -> float:
        """Say how unlike two kinds are: sizes by their ratio, other fields by their number."""
        unlike = len(self.traits ^ other.traits) + len(self.probes ^ other.probes)
        return self.apart(other) + 0.2 * unlike

    def apart(self, other: "Kind") -> float:
        """Add up the logarithms of the sizes' ratios."""
        return sum(abs(a - b) for a, b in zip(self.sizes, other.sizes, strict=True))

    def near(self, other: "Kind") -> bool:
        """Say whether the other's time is a basis for this one's."""
        trained = min(self.sizes[0], other.sizes[0]) >= LONG
        return self.apart(other) <= FAR and (trained or self.probes == other.probes)


def kind_of(run: Mapping[str, Any]) -> Kind:
    """Read the kind off a run as it is stored; fields at their default do not count.

    So an entry of older code, which lacks a newer field, is still alike.
    """
    model, data, train = (_chosen(run[part]) for part in ("model", "data", "train"))
    whole = {part: _defaults(run[part]["type"]) | run[part] for part in ("model", "data", "train")}
    train = {name: value for name, value in train.items() if name in TRAIN}
    probes = run.get("probes") or []
    get = whole["model"].get
    sizes = (
        whole["train"].get("steps", 1),
        get("depth", 1),
        get("dim") or get("width") or 1,
        whole["data"].get("batch", 1) * whole["data"].get("time", 1),
    )
    sized = ("steps", "depth", "dim", "width", "batch", "time", "context")
    traits = {
        (name, json.dumps(value))
        for part in (model, data, train)
        for name, value in part.items()
        if name not in sized
    }
    return Kind(
        json.dumps([model, data, train, probes], sort_keys=True),
        (run["model"]["type"], run["data"]["type"], whole["train"].get("optimizer", "")),
        frozenset(probes),
        tuple(math.log(max(1, size)) for size in sizes),
        frozenset(traits),
    )


@cache
def _defaults(kind: str) -> dict[str, Any]:
    """Give a config's defaults as JSON reads them."""
    if kind not in CONFIGS:
        return {}
    return json.loads(json.dumps({f.name: f.default for f in fields(CONFIGS[kind])}, default=str))


def _chosen(part: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the fields at their default; tuples become lists, as in a stored run."""
    default = _defaults(part["type"])
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in part.items()}
    return {k: v for k, v in plain.items() if k not in default or default[k] != v}
