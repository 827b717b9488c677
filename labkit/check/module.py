"""Use a module, or a module's class, as the subject of a check."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.spec import Shape, Spec
from labkit.check.subject import ALIASES, Runner, Subject

_SIZES = ("normalized_shape", "num_features", "num_channels", "dim", "d_model", "features", "size")
_RANKS = {nn.BatchNorm1d: (2, 3), nn.BatchNorm2d: (4,), nn.BatchNorm3d: (5,)}


class Module(Subject):
    """A module as it was handed in, or a class of modules that each use makes anew."""

    is_module = True

    def __init__(self, given: nn.Module | type[nn.Module], spec: Spec, eps: float | None):
        self.spec, self.given, self.given_eps = spec, given, eps
        if isinstance(given, type):
            self.takes = _constructor_names(given)
            self.sets_eps = any(name in ALIASES["eps"] for name in self.takes)
            self.dim = None
            sample = self._make(spec.dim, 2, None)
        else:
            sample = given
            self.sets_eps = False
            self.dim = _find_size(given)
            groups = getattr(given, "num_groups", None)
            self.groups = groups if isinstance(groups, int) else None
        self.feature_shape: tuple[int, ...] = tuple(getattr(sample, "normalized_shape", None) or ())
        self.channels_last = getattr(sample, "channel_axis", 1) == -1
        self.has_weight = find_parameter(sample, "weight") is not None
        self.has_bias = find_parameter(sample, "bias") is not None and spec.shift
        self.has_running = find_buffer(sample, "mean") is not None
        self.missing = {
            role: (
                f"{name} is not an nn.Parameter, so no optimizer finds it",
                "a plain tensor where nn.Parameter(…) is wanted",
            )
            for role in ("weight", "bias")
            if (name := _plain_tensor(sample, role))
        }
        self.momentum = getattr(sample, "momentum", 0.1)

    def ranks(self, dim: int) -> Callable[[Shape], bool]:
        """Take the shapes that torch's class takes; of others, those that do not raise."""
        if self.spec.formula.features == -1:
            return lambda shape: True
        for kind, ranks in _RANKS.items():
            if isinstance(self.given, kind) or self.given is kind:
                return lambda shape: len(shape) in ranks
        if self.channels_last:
            batch = self.spec.name == "batch_norm"  # a group norm then takes vectors one by one
            return lambda shape: batch or len(shape) == 2
        taken = [len(s) for s in self.spec.shapes(dim) if self._takes(s, dim)]
        return lambda shape: not taken or len(shape) in taken

    def expected_eps(self, asked: float | None, dtype: torch.dtype) -> float:
        """Expect what was set, else what the caller named, else the module's own attribute."""
        if asked is not None and self.sets_eps:
            return asked
        if self.given_eps is not None:
            return self.given_eps
        if not isinstance(self.given, type):
            for name in ALIASES["eps"]:
                if isinstance(own := getattr(self.given, name, None), int | float):
                    return float(own)
            if isinstance(self.given, nn.RMSNorm) and self.given.eps is None:
                return torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        return self.spec.documented_eps[0]

    def open(self, dim: int, dtype: torch.dtype, **options: Any) -> "ModuleRunner":
        """Copy the module, or make one, and set its parameters and statistics."""
        if isinstance(self.given, type):
            module = self._make(dim, options.get("groups", 1), options.get("eps"))
        else:
            module = copy.deepcopy(self.given)
        return ModuleRunner(self, module.to(device="cpu", dtype=dtype), **options)

    def _make(self, dim: int, groups: int, eps: float | None) -> nn.Module:
        assert isinstance(self.given, type)
        sizes = (groups, dim) if "num_groups" in self.spec.roles else (dim,)
        name = next((n for n in ALIASES["eps"] if n in self.takes), None)
        return self.given(*sizes, **({name: eps} if name and eps is not None else {}))

    def _takes(self, shape: Shape, dim: int) -> bool:
        try:
            self.open(dim, torch.float32, groups=self.groups or 2)(torch.ones(shape).cumsum(0))
        except Exception:
            return False
        return True


class ModuleRunner(Runner):
    """One copy of the module; its own parameters are set to the values of the law."""

    def __init__(
        self,
        subject: Module,
        module: nn.Module,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float | None = None,
        groups: int = 1,
        running: tuple[Tensor, Tensor] | None = None,
        momentum: float | None = None,
    ):
        self.subject, self.module = subject, module
        self.weight, self.bias = find_parameter(module, "weight"), find_parameter(module, "bias")
        with torch.no_grad():
            for own, value, neutral in ((self.weight, weight, 1.0), (self.bias, bias, 0.0)):
                if own is None or (value is None and isinstance(subject.given, type)):
                    continue  # a module just made starts with gain 1 and shift 0 by itself
                if value is None:
                    own.fill_(neutral)
                else:
                    own.copy_(value.reshape(own.shape))
            stored = {} if running is None else {"mean": running[0], "var": running[1]}
            for kind, value in stored.items():
                buffer = find_buffer(module, kind)
                if buffer is not None:
                    buffer.copy_(value.reshape(buffer.shape))

    def __call__(self, x: Tensor, training: bool = True) -> Any:
        """Run the module in training or evaluation, its channels where it wants them."""
        self.module.train(training)
        shaped = x
        if len(self.subject.feature_shape) > 1:
            shaped = x.reshape(*x.shape[:-1], *self.subject.feature_shape)
        if self.subject.channels_last:
            y = self.module(x.movedim(1, -1))
            return y.movedim(-1, 1) if isinstance(y, Tensor) else y
        y = self.module(shaped)
        reshaped = shaped is not x and isinstance(y, Tensor) and y.shape == shaped.shape
        return y.reshape(x.shape) if reshaped else y

    def running(self) -> tuple[Tensor, Tensor] | None:
        """Read the module's buffers."""
        mean, var = find_buffer(self.module, "mean"), find_buffer(self.module, "var")
        return None if mean is None or var is None else (mean.flatten(), var.flatten())


def find_parameter(module: nn.Module, role: str) -> Tensor | None:
    """Find the gain or shift by its usual names."""
    for name, parameter in module.named_parameters():
        if name.split(".")[-1] in ALIASES[role]:
            return parameter
    return None


def find_buffer(module: nn.Module, kind: str) -> Tensor | None:
    """Find the running mean or variance among buffers, and tensors kept as plain attributes."""
    plain = {k: v for k, v in vars(module).items() if isinstance(v, Tensor)}
    for name, buffer in {**dict(module.named_buffers()), **plain}.items():
        stem = name.split(".")[-1]
        if stem in ALIASES[f"running_{kind}"] or (kind in stem and buffer.is_floating_point()):
            return buffer
    return None


def _plain_tensor(module: nn.Module, role: str) -> str:
    """Find a tensor with the name of a gain or shift that is no parameter."""
    tensors = {**vars(module), **dict(module.named_buffers())}
    plain = [name for name in ALIASES[role] if isinstance(tensors.get(name), Tensor)]
    return plain[0] if plain and find_parameter(module, role) is None else ""


def _constructor_names(kind: type[nn.Module]) -> list[str]:
    """List the constructor's parameters, those that it hands on to its parents included."""
    names: list[str] = []
    for parent in kind.__mro__:
        parameters = inspect.signature(parent.__init__).parameters.values()
        names += [p.name for p in parameters]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names


def _find_size(module: nn.Module) -> int | None:
    for name in _SIZES:
        size = getattr(module, name, None)
        if isinstance(size, int):
            return size
        if isinstance(size, tuple | list | torch.Size) and size:
            return int(torch.Size(size).numel())
    for role in ("weight", "bias"):
        if (parameter := find_parameter(module, role)) is not None:
            return parameter.numel()
    return None
