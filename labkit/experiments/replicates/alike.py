"""What two runs must have in common to train together: all but numbers that tensors hold.

Such numbers are a seed, the first value of a parameter (`init`, `alpha`) and what an optimizer
multiplies by. What a forward pass reads as a Python number (an eps, a bound, a weight of a loss)
keeps runs apart, as what changes shapes, layers or the number of steps does.
"""

from dataclasses import fields, is_dataclass
from typing import Any

from labkit.experiments.run import Run
from labkit.model import ModelConfig
from labkit.stacks import StackConfig
from labkit.training import TrainConfig

# The fields of each config that may differ within a task.
NUMBERS: dict[type, tuple[str, ...]] = {
    Run: ("seed", "probes"),
    ModelConfig: ("init", "alpha"),
    StackConfig: ("init",),
    TrainConfig: (
        "lr",
        "betas",
        "momentum",
        "weight_decay",
        "warmup",
        "schedule",
        "final_lr",
        "clip",
    ),
}
# Of `norm_kw`: the arguments of a norm that are first values of its parameters.
FIRST_VALUES = {
    "dyt": ("alpha",),
    "derf": ("alpha", "shift"),
    "bhyt": ("scale",),
    "l2": ("temperature",),
}


def structure(config: Any) -> Any:
    """Give what must be equal for two runs (or two configs) to train together."""
    if not is_dataclass(config):
        return config
    free = NUMBERS.get(type(config), ())
    kept = {f.name: structure(getattr(config, f.name)) for f in fields(config)}
    if isinstance(config, ModelConfig):
        first = FIRST_VALUES.get(config.norm_name, ())
        kept["norm_kw"] = tuple(pair for pair in config.norm_kw if pair[0] not in first)
    return type(config).__name__, *((n, value) for n, value in kept.items() if n not in free)
