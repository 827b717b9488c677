"""Call whatever was handed in, a function, a module or a module's class, in one way.

A function's parameters are matched by name (weight, gamma, gain, …) and else by position. A
module is copied before each use, so its parameters, statistics and mode stay as they are.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from labkit.check.spec import Shape, Spec

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
    "mask": ("mask",),
    "alpha": ("alpha", "a"),
}


def names_of(role: str, spec: Spec) -> tuple[str, ...]:
    """List the names under which a role goes, those that mean another role here left out."""
    own = (role, *spec.aliases.get(role, ()))
    taken = {name for other in spec.roles if other != role
             for name in (other, *spec.aliases.get(other, ()))}  # fmt: skip
    return (*own, *(n for n in ALIASES.get(role, ()) if n not in taken))


class Runner(ABC):
    """One use of the subject: parameters set, statistics set, ready to be called."""

    parameters: dict[str, Tensor]  # the learnable ones, by role

    @abstractmethod
    def __call__(self, x: Tensor, training: bool = True, mask: Tensor | None = None) -> Any:
        """Run the implementation; what comes may be anything."""

    @abstractmethod
    def running(self) -> tuple[Tensor, Tensor] | None:
        """Read the running mean and variance as they are now."""

    def state(self) -> dict[str, Tensor]:
        """Collect what a call must leave as it is."""
        return self.parameters


class Subject(ABC):
    """What the laws ask of an implementation before they use it."""

    spec: Spec
    dim: int | None = None  # None: any
    groups: int | None = None
    momentum: float | None = 0.1
    is_module: bool = False
    learned: tuple[str, ...]  # the parameters that it has
    has_running: bool
    takes_mask: bool
    sets: frozenset[str]  # the settings that each use may choose
    missing: dict[str, tuple[str, str]]  # role that is wanted and not there -> message, cause
    given: Mapping[str, float]  # settings that the caller named
    unknown: tuple[str, ...] = ()  # parameters whose part is not known

    def ranks(self, dim: int) -> Callable[[Shape], bool]:
        """Return which shapes it takes."""
        return lambda shape: True

    def expected(self, role: str, asked: Any, dtype: torch.dtype) -> Any:
        """Return which eps (p, …) its outcome must show when `asked` was passed (or not)."""
        if asked is not None and role in self.sets:
            return asked
        return self.given.get(role, self.spec.settings[role][0])

    @abstractmethod
    def open(self, dim: int, dtype: torch.dtype, given: Mapping[str, Any]) -> Runner:
        """Make a runner with what is given, by role."""


def match_roles(fn: Callable[..., Any], spec: Spec) -> dict[str, str] | None:
    """Map each role to the name of the parameter that plays it; None when nothing can be read."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)][1:]
    wanted = {r: names_of(r, spec) for r in (*spec.roles[1:], "normalized_shape")}
    matched: dict[str, str] = {}
    for p in named:
        role = next((r for r in wanted if r not in matched and p.name in wanted[r]), None)
        if role:
            matched[role] = p.name
    for p in named:
        free = [r for r in spec.roles[1:] if r not in matched]
        if p.name not in matched.values() and p.default is p.empty and free:
            matched[free[0]] = p.name
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {role: matched.get(role, role) for role in spec.roles[1:]}
    if not named and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return matched


class Function(Subject):
    """A function with labkit's signature, or part of it."""

    def __init__(self, fn: Callable[..., Any], spec: Spec, given: Mapping[str, float]):
        self.fn, self.spec, self.given = fn, spec, given
        self.matched = match_roles(fn, spec)
        self.signature = {} if self.matched is None else dict(inspect.signature(fn).parameters)
        known = set(spec.roles) if self.matched is None else set(self.matched)
        self.learned = tuple(role for role in spec.learned if role in known)
        self.has_running = {"running_mean", "running_var"} <= known
        self.takes_mask = "mask" in known
        self.sets = frozenset(role for role in spec.settings if role in known)
        self.missing = {}
        wanted = [r for r in spec.learned if r in ("weight", "bias") or r not in ALIASES]
        if known & set(wanted):  # the bare formula, without any, is fine as an exercise
            for role in (r for r in wanted if r not in known):
                self.missing[role] = (f"the function takes no {role}", "a missing parameter")

    def open(self, dim: int, dtype: torch.dtype, given: Mapping[str, Any]) -> "FunctionRunner":
        """Keep the tensors for the calls to come."""
        return FunctionRunner(self, dim, given)


class FunctionRunner(Runner):
    """Hold the tensors that a function gets with each call."""

    def __init__(self, subject: Function, dim: int, given: Mapping[str, Any]):
        self.subject, self.dim, self.given = subject, dim, given
        self.parameters = {r: given[r] for r in subject.spec.learned if r in given}
        self.buffers: tuple[Tensor, Tensor] | None = given.get("running")

    def __call__(self, x: Tensor, training: bool = True, mask: Tensor | None = None) -> Any:
        """Call the function, by name where names are known."""
        subject = self.subject
        mean, var = self.buffers or (None, None)
        values = {
            **self.given,
            "running_mean": mean,
            "running_var": var,
            "training": training,
            "mask": mask,
            "normalized_shape": (x.shape[-1],),
        }
        if subject.matched is None:
            order = [r for r in subject.spec.roles[1:] if r != "mask"]
            filled = {r: self._stand_in(r, x) for r in (*subject.spec.settings, "momentum")
                      if values.get(r) is None}  # fmt: skip
            return subject.fn(x, *[{**values, **filled}.get(role) for role in order])
        positional, named = [], {}
        places = list(subject.signature)
        for role, name in sorted(
            subject.matched.items(),
            key=lambda pair: places.index(pair[1]) if pair[1] in places else len(places),
        ):
            p = subject.signature.get(name)
            required = p is not None and p.default is p.empty and p.kind is not p.VAR_KEYWORD
            value = values.get(role)
            if value is None:
                if not required:
                    continue
                value = self._stand_in(role, x)
            if required and p is not None and p.kind is p.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[name] = value
        return subject.fn(x, *positional, **named)

    def running(self) -> tuple[Tensor, Tensor] | None:
        """Return the buffers that were handed to the function."""
        return self.buffers

    def _stand_in(self, role: str, x: Tensor) -> Any:
        """Make what means the same as nothing, for a parameter without a default."""
        spec = self.subject.spec
        if role in spec.learned:
            learned = spec.learned[role]
            shape = (self.dim,) if learned.each else ()
            return torch.full(shape, learned.start(self.dim), dtype=x.dtype)
        if role in spec.settings:
            return self.subject.expected(role, None, x.dtype)
        if role in ("running_mean", "running_var"):
            return torch.full((self.dim,), float(role == "running_var"), dtype=x.dtype)
        return {"momentum": 0.1, "num_groups": 1}.get(role)
