"""Look at what was handed in before anything is tried: a module, a factory, a valid setting."""

import inspect
from typing import Any

from torch import nn

from labkit.check.spec import Spec

_INPUTS = ("x", "input", "inputs", "hidden_states", "h", "tensor", "xs")


def is_module(handed: Any, kind: type[nn.Module] = nn.Module) -> bool:
    """Return whether a module or a module's class was handed in."""
    return isinstance(handed, kind) or (isinstance(handed, type) and issubclass(handed, kind))


def factory(handed: Any, dim: int) -> bool:
    """Return whether a function makes a module of a size, instead of normalizing."""
    if is_module(handed):
        return False
    try:
        names = list(inspect.signature(handed).parameters)
        return bool(names) and names[0] not in _INPUTS and isinstance(handed(dim), nn.Module)
    except Exception:
        return False


def tracks(handed: Any, spec: Spec) -> bool:
    """Return whether an instance norm keeps running statistics."""
    return spec.name == "instance_norm" and getattr(handed, "track_running_stats", None) is True


def valid(role: str, value: Any) -> float:
    """Return a setting that a norm can have; raise where it cannot."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{role} must be a number, got {value!r}")
    if not 0.0 <= value < float("inf") or (role != "eps" and value == 0):
        least = "at least 0" if role == "eps" else "greater than 0"
        raise ValueError(f"{role} must be finite and {least}, got {value!r}")
    return float(value)
