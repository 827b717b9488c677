"""Call whatever was handed in, a function, a module or a module's class, in one way.

A function's parameters are matched by name (weight, gamma, gain, …) and else by position. A
module is copied before each use, so its parameters, statistics and mode stay as they are.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.check.spec import Spec

ALIASES = {
    "weight": ("weight", "gamma", "gain", "scale", "g", "w", "a_2", "alpha"),
    "bias": ("bias", "beta", "shift", "offset", "b", "b_2"),
    "eps": ("eps", "epsilon", "variance_epsilon", "e"),
    "running_mean": ("running_mean", "moving_mean", "r_mean", "ema_mean"),
    "running_var": ("running_var", "moving_var", "running_variance", "r_var", "ema_var"),
    "training": ("training", "train", "is_training"),
    "momentum": ("momentum", "m"),
    "num_groups": ("num_groups", "groups", "n_groups", "G", "g"),
    "normalized_shape": ("normalized_shape",),
}


class Runner(ABC):
    """One use of the subject: parameters set, statistics set, ready to be called."""

    weight: Tensor | None
    bias: Tensor | None

    @abstractmethod
    def __call__(self, x: Tensor, training: bool = True) -> Any:
        """Run the implementation; what comes may be anything."""

    @abstractmethod
    def running(self) -> tuple[Tensor, Tensor] | None:
        """Read the running mean and variance as they are now."""


class Subject(ABC):
    """What the laws ask of an implementation before they use it."""

    dim: int | None = None  # None: any
    groups: int | None = None
    momentum: float | None = 0.1
    is_module: bool = False
    has_weight: bool
    has_bias: bool
    has_running: bool
    sets_eps: bool  # may each use choose eps?
    missing: dict[str, tuple[str, str]]  # role that is wanted and not there -> message, cause

    def ranks(self, dim: int) -> Callable[[tuple[int, ...]], bool]:
        """Say which shapes it takes."""
        return lambda shape: True

    @abstractmethod
    def expected_eps(self, asked: float | None, dtype: torch.dtype) -> float:
        """Say which eps its outcome must show when `asked` was passed (None: not passed)."""

    @abstractmethod
    def open(self, dim: int, dtype: torch.dtype, **options: Any) -> Runner:
        """Make a runner: weight, bias, eps, groups, running, momentum."""


def match_roles(fn: Callable[..., Any], roles: tuple[str, ...]) -> dict[str, str] | None:
    """Map each role to the name of the parameter that plays it; None when nothing can be read."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)][1:]
    wanted = [*roles[1:], "normalized_shape"]
    matched: dict[str, str] = {}
    for p in named:
        role = next((r for r in wanted if r not in matched and p.name in ALIASES[r]), None)
        if role:
            matched[role] = p.name
    for p in named:
        free = [r for r in roles[1:] if r not in matched]
        if p.name not in matched.values() and p.default is p.empty and free:
            matched[free[0]] = p.name
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {role: matched.get(role, role) for role in roles[1:]}
    if not named and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return matched


class Function(Subject):
    """A function with labkit's signature, or part of it."""

    def __init__(self, fn: Callable[..., Any], spec: Spec, eps: float | None):
        self.fn, self.spec, self.given_eps = fn, spec, eps
        self.matched = match_roles(fn, spec.roles)
        known = set(spec.roles) if self.matched is None else set(self.matched)
        self.has_weight, self.has_bias = "weight" in known, "bias" in known and spec.shift
        self.has_running = {"running_mean", "running_var"} <= known
        self.sets_eps = "eps" in known
        wanted = [role for role in ("weight", "bias") if role in spec.roles]
        self.missing = {}
        if known & set(wanted):  # the bare formula, with neither, is fine as an exercise
            for role in (r for r in wanted if r not in known):
                self.missing[role] = (f"the function takes no {role}", "a missing parameter")

    def expected_eps(self, asked: float | None, dtype: torch.dtype) -> float:
        """Expect what was passed, else what the caller of the check named, else the default."""
        if asked is not None and self.sets_eps:
            return asked
        return self.spec.documented_eps[0] if self.given_eps is None else self.given_eps

    def open(self, dim: int, dtype: torch.dtype, **options: Any) -> "FunctionRunner":
        """Keep the tensors for the calls to come."""
        return FunctionRunner(self, dim, dtype, **options)


class FunctionRunner(Runner):
    """Hold the tensors that a function gets with each call."""

    def __init__(
        self,
        subject: Function,
        dim: int,
        dtype: torch.dtype,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float | None = None,
        groups: int = 1,
        running: tuple[Tensor, Tensor] | None = None,
        momentum: float | None = None,
    ):
        self.subject, self.dim, self.dtype = subject, dim, dtype
        self.weight, self.bias, self.buffers = weight, bias, running
        self.fixed = {"eps": eps, "num_groups": groups, "momentum": momentum}

    def __call__(self, x: Tensor, training: bool = True) -> Any:
        """Call the function, by name where names are known."""
        mean, var = self.buffers or (None, None)
        values = {
            **self.fixed,
            "weight": self.weight,
            "bias": self.bias,
            "running_mean": mean,
            "running_var": var,
            "training": training,
            "normalized_shape": (x.shape[-1],),
        }
        if self.subject.matched is None:
            order = self.subject.spec.roles[1:]
            values["eps"] = self.subject.expected_eps(values["eps"], x.dtype)
            values["momentum"] = 0.1 if values["momentum"] is None else values["momentum"]
            return self.subject.fn(x, *[values[role] for role in order])
        parameters = inspect.signature(self.subject.fn).parameters
        positional, named = [], {}
        for role, name in sorted(
            self.subject.matched.items(), key=lambda pair: _place(parameters, pair[1])
        ):
            p = parameters.get(name)
            required = p is not None and p.default is p.empty and p.kind is not p.VAR_KEYWORD
            value = values[role]
            if value is None:
                if not required:
                    continue
                value = self._stand_in(role, x.dtype)
            if required and p is not None and p.kind is p.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[name] = value
        return self.subject.fn(x, *positional, **named)

    def running(self) -> tuple[Tensor, Tensor] | None:
        """Return the buffers that were handed to the function."""
        return self.buffers

    def _stand_in(self, role: str, dtype: torch.dtype) -> Any:
        """Make what means the same as nothing, for a parameter without a default."""
        if role in ("weight", "running_var"):
            return torch.ones(self.dim, dtype=dtype)
        if role in ("bias", "running_mean"):
            return torch.zeros(self.dim, dtype=dtype)
        return {"eps": self.subject.expected_eps(None, dtype), "momentum": 0.1}[role]


def _place(parameters: Any, name: str) -> int:
    names = list(parameters)
    return names.index(name) if name in names else len(names)
