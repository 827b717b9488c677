"""Group runs that can train together, because they differ only in numbers that tensors hold.

Such numbers are a seed, the initial value of a parameter (`init`, `alpha`) and an optimizer's
factors. Runs cannot train together if they differ in a Python number of the forward pass (an eps, a
bound, a weight of a loss), in shapes, in layers or in the number of steps.
"""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

from torch import nn

from labkit.experiments.run import Run
from labkit.model import ModelConfig
from labkit.model.stacks import StackConfig
from labkit.norms import facts
from labkit.training import TrainConfig


class NotTogether(ValueError):
    """These models cannot train as one batched model; the message says why."""


# The fields of each config that may differ within a task.
NUMBERS: dict[type, tuple[str, ...]] = {
    Run: ("seed", "probes"),
    ModelConfig: ("init", "alpha"),
    StackConfig: ("init",),
    TrainConfig: (
        "lr", "betas", "momentum", "weight_decay", "warmup", "schedule", "final_lr", "clip",
    ),
}  # fmt: skip


def describe_structure(config: Any) -> Any:
    """Return the settings that must be equal for two runs (or two configs) to train together."""
    if not is_dataclass(config):
        return config
    free = NUMBERS.get(type(config), ())
    kept = {f.name: describe_structure(getattr(config, f.name)) for f in fields(config)}
    if isinstance(config, ModelConfig):
        first = facts(config.norm_name).first_values
        kept["norm_kw"] = tuple(pair for pair in config.norm_kw if pair[0] not in first)
    return type(config).__name__, *((n, value) for n, value in kept.items() if n not in free)


def refuse_differences(models: Sequence[nn.Module]) -> None:
    """Refuse models of different structures: the first model's code runs for all of them."""
    first = _describe_model(models[0])
    for model in models[1:]:
        other = _describe_model(model)
        for what, value in first.items():
            if what in other and other[what] != value:
                raise NotTogether(
                    f"models that train together must be alike, but {what} is {value!r} in one "
                    f"model and {other[what]!r} in another"
                )
        if first.keys() != other.keys():
            raise NotTogether(
                "models that train together must be alike, but only some of them have "
                f"{min(first.keys() ^ other.keys())}"
            )
    parameters = list(models[0].parameters())
    kinds = {(p.dtype, p.device, p.requires_grad) for p in parameters}
    if len(kinds) != 1 or not parameters[0].requires_grad:
        raise NotTogether(
            "models that train together must have trainable parameters of one dtype and device"
        )


def _describe_model(model: nn.Module) -> dict[str, Any]:
    """List the properties of each module that determine its computation: class, values, shapes."""
    facts: dict[str, Any] = {}
    for name, module in model.named_modules():
        path = name + "." if name else ""
        facts[f"{path}class"] = type(module).__name__
        for key, value in vars(module).items():
            if is_dataclass(value):
                parts = dict(describe_structure(value)[1:])
                facts |= {f"{path}{key}.{name}": part for name, part in parts.items()}
            elif isinstance(value, int | float | str | tuple | None):
                facts[path + key] = value
        own = chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False))
        facts |= {path + key: (tuple(tensor.shape), tensor.dtype) for key, tensor in own}
    return facts
