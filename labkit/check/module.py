"""Use a module, or a module's class, as the subject of a check."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.case import Broken
from labkit.check.spec import Learned, Shape, Spec
from labkit.check.subject import Runner, Subject, names_of
from labkit.check.tensors import (
    constructor_names,
    find_buffer,
    find_parameters,
    find_size,
    plain_tensor,
    tensors_of,
)

_RANKS = {
    nn.BatchNorm1d: (2, 3), nn.BatchNorm2d: (4,), nn.BatchNorm3d: (5,),
    nn.InstanceNorm1d: (3,), nn.InstanceNorm2d: (4,), nn.InstanceNorm3d: (5,),
}  # fmt: skip


class Module(Subject):
    """A module as it was handed in, or a class of modules that each use makes anew."""

    is_module = True

    def __init__(self, given: nn.Module | type[nn.Module], spec: Spec, named: Mapping[str, float]):
        self.spec, self.handed, self.given = spec, given, named
        self.is_class = isinstance(given, type)
        if isinstance(given, type):
            self.takes = constructor_names(given)
            self.sets = frozenset(r for r in spec.settings if self._argument(r))
            sample = self._make(spec.dim, {"num_groups": 2, "weight": True})
        else:
            sample = given
            self.sets = frozenset()
            self.dim = find_size(given, spec)
            groups = getattr(given, "num_groups", None)
            self.groups = groups if isinstance(groups, int) else None
        self.feature_shape: tuple[int, ...] = tuple(getattr(sample, "normalized_shape", None) or ())
        self.names, self.unknown = find_parameters(sample, spec, self.dim or spec.dim)
        self.learned = tuple(r for r in spec.learned if r in self.names)
        self.has_running = find_buffer(sample, "mean") is not None and spec.runs
        self.takes_mask = "mask" in inspect.signature(sample.forward).parameters
        self.missing = {
            role: (
                f"{name} is not an nn.Parameter, so no optimizer finds it",
                "a plain tensor where nn.Parameter(…) is wanted",
            )
            for role in spec.learned
            if (name := plain_tensor(sample, role, spec))
        }
        for role in self.learned if self.is_class else ():
            if not sample.get_parameter(self.names[role]).requires_grad:
                message = f"the parameter for the {role} of a new module requires no gradient"
                self.missing[role] = (message, "requires_grad=False, so that it is never learned")
        self.momentum = getattr(sample, "momentum", 0.1)
        self.channels_last = spec.formula.features == 1 and self._has_channels_last(sample)

    def ranks(self, dim: int) -> Callable[[Shape], bool]:
        """Take the shapes that torch's class takes; of others, those that do not raise."""
        if self.spec.formula.features == -1:
            return lambda shape: True
        for kind, ranks in _RANKS.items():
            if isinstance(self.handed, kind) or self.handed is kind:
                return lambda shape: len(shape) in ranks
        only = {"group_norm": 2, "instance_norm": 3}.get(self.spec.name)
        if self.channels_last and only:  # what stands before is a batch of many axes
            return lambda shape: len(shape) == only
        shapes = self.spec.shapes(dim)
        taken = [len(s) for s in shapes if self._takes(self._arrange(torch.ones(s)), dim)]
        return lambda shape: not taken or len(shape) in taken

    def expected(self, role: str, asked: Any, dtype: torch.dtype) -> Any:
        """Expect what was set, else what the caller named, else the module's own attribute."""
        if (asked is not None and role in self.sets) or role in self.given:
            return super().expected(role, asked, dtype)
        if not self.is_class:
            for name in names_of(role, self.spec):
                if isinstance(own := getattr(self.handed, name, None), int | float):
                    return float(own)
            if isinstance(self.handed, nn.RMSNorm) and self.handed.eps is None:
                return torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        return self.spec.settings[role][0]

    def open(self, dim: int, dtype: torch.dtype, given: Mapping[str, Any]) -> "ModuleRunner":
        """Copy the module, or make one, and set its parameters and statistics."""
        if self.is_class:
            module = self._make(dim, given)
        else:
            assert isinstance(self.handed, nn.Module)
            module = copy.deepcopy(self.handed)
        return ModuleRunner(self, module.to(device="cpu", dtype=dtype), dim, given)

    def _make(self, dim: int, given: Mapping[str, Any]) -> nn.Module:
        assert isinstance(self.handed, type)
        sizes = (given.get("num_groups", 1), dim) if "num_groups" in self.spec.roles else (dim,)
        named = {self._argument(role): given[role] for role in self.sets if role in given}
        if "affine" in self.takes and ("weight" in given or "bias" in given):
            named["affine"] = True  # InstanceNorm has no gain and shift unless asked
        return self.handed(*sizes, **named)

    def _argument(self, role: str) -> str:
        return next((n for n in names_of(role, self.spec) if n in self.takes), "")

    def _arrange(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1) if self.channels_last else x

    def _takes(self, x: Tensor, dim: int) -> bool:
        try:
            self.open(dim, x.dtype, {"num_groups": self.groups or 2}).module(x.cumsum(0))
        except Exception:
            return False
        return True

    def _has_channels_last(self, sample: nn.Module) -> bool:
        own = getattr(sample, "channel_axis", None)
        if own is not None or type(sample).__module__.startswith("torch."):
            return own == -1
        dim = self.dim or self.spec.dim
        self.channels_last = False
        first = any(self._takes(torch.ones(s), dim) for s in ((3, dim, 5), (3, dim, 5, 4)))
        return not first and self._takes(torch.ones(3, 5, dim), dim)


class ModuleRunner(Runner):
    """One copy of the module; its own parameters are set to the values of the law."""

    def __init__(self, subject: Module, module: nn.Module, dim: int, given: Mapping[str, Any]):
        self.subject, self.module = subject, module
        self.parameters = {}
        for role in subject.learned:
            own = dict(module.named_parameters()).get(subject.names[role])
            if own is not None:
                self.parameters[role] = own
                self._set(own, subject.spec.learned[role], given.get(role), dim)
        for kind, value in zip(("mean", "var"), given.get("running") or (), strict=False):
            buffer = find_buffer(module, kind)
            if buffer is not None:
                buffer.copy_(value.reshape(buffer.shape))

    def _set(self, own: Tensor, learned: Learned, value: Tensor | None, dim: int) -> None:
        wanted = dim if learned.each else 1
        if own.numel() != wanted:
            raise Broken(
                f"{learned.name} of a norm of {dim} features holds {own.numel()} values, "
                f"expected {wanted}",
                f"{learned.name} is one number "
                + ("for each feature" if learned.each else "for all features")
                + f"; here it is {'another size' if learned.each else 'one for each'}",
            )
        if value is None and self.subject.is_class:
            return  # a module just made has its right values by itself
        with torch.no_grad():
            if value is None:
                own.fill_(learned.start(dim))
            else:
                own.copy_(value.reshape(own.shape))

    def __call__(self, x: Tensor, training: bool = True, mask: Tensor | None = None) -> Any:
        """Run the module in training or evaluation, its channels where it wants them."""
        self.module.train(training)
        more = {} if mask is None else {"mask": mask}
        shaped = x
        if len(self.subject.feature_shape) > 1:
            shaped = x.reshape(*x.shape[:-1], *self.subject.feature_shape)
        if self.subject.channels_last:
            y = self.module(x.movedim(1, -1), **more)
            return y.movedim(-1, 1) if isinstance(y, Tensor) and y.ndim == x.ndim else y
        y = self.module(shaped, **more)
        reshaped = shaped is not x and isinstance(y, Tensor) and y.shape == shaped.shape
        return y.reshape(x.shape) if reshaped else y

    def running(self) -> tuple[Tensor, Tensor] | None:
        """Read the module's buffers."""
        mean, var = find_buffer(self.module, "mean"), find_buffer(self.module, "var")
        return None if mean is None or var is None else (mean.flatten(), var.flatten())

    def state(self) -> dict[str, Tensor]:
        """Collect all parameters; buffers too where none of them runs along."""
        kept: dict[str, Tensor] = dict(self.module.named_parameters())
        return kept if self.subject.spec.pools_batch else {**kept, **tensors_of(self.module)}
