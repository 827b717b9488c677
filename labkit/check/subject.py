"""Call submitted code (a function, a module or a module's class) in a uniform way.

A function's parameters are matched by name (weight, gamma, gain, …), otherwise by position; a
module's are matched by name, otherwise by size. A module is copied before each use, so its
parameters, statistics and mode do not change.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.case import Broken, told
from labkit.check.specs import Norm, Shape

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
_INPUTS = ("x", "input", "inputs", "hidden_states", "h", "tensor", "xs")
_SIZES = ("normalized_shape", "num_features", "num_channels", "dim", "d_model", "features", "size")
# With fewer axes torch treats the first as channels, not samples, without an exception.
_AXES = {nn.InstanceNorm1d: 3, nn.InstanceNorm2d: 4, nn.InstanceNorm3d: 5}


def names_of(role: str, norm: Norm) -> tuple[str, ...]:
    """List the possible names of a role, without those that mean another role in this norm."""
    own = (role, *norm.aliases.get(role, ()))
    taken = {
        name
        for other in norm.roles
        if other != role
        for name in (other, *norm.aliases.get(other, ()))
    }
    return (*own, *(n for n in ALIASES.get(role, ()) if n not in taken))


def is_module(handed: Any) -> bool:
    """Return whether a module or a module's class was submitted."""
    return isinstance(handed, nn.Module) or (
        isinstance(handed, type) and issubclass(handed, nn.Module)
    )


def makes_modules(handed: Any, dim: int) -> bool:
    """Return whether a function makes a module of a given size, instead of normalizing."""
    if is_module(handed):
        return False
    try:
        names = list(inspect.signature(handed).parameters)
        # A factory is called with a size; a norm would raise, so it is not a factory.
        return bool(names) and names[0] not in _INPUTS and isinstance(handed(dim), nn.Module)
    except Exception:
        return False


def read_subject(handed: Any, norm: Norm, given: Mapping[str, float]) -> "Subject":
    """Choose the class that calls the submitted code."""
    if is_module(handed):
        return Module(handed, norm, given)
    return Function(handed, norm, given)


def match_roles(fn: Callable[..., Any], norm: Norm) -> dict[str, str] | None:
    """Map each role to the name of its parameter; None if the signature cannot be read."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)][1:]
    wanted = {r: names_of(r, norm) for r in (*norm.roles, "normalized_shape")}
    matched: dict[str, str] = {}
    for p in named:
        role = next((r for r in wanted if r not in matched and p.name in wanted[r]), None)
        if role:
            matched[role] = p.name
    for p in named:
        free = [r for r in norm.roles if r not in matched]
        if p.name not in matched.values() and p.default is p.empty and free:
            matched[free[0]] = p.name
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {role: matched.get(role, role) for role in norm.roles}
    if not named and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return matched


class Function:
    """A submitted function with labkit's signature, or part of it."""

    dim: int | None = None  # None: any
    groups: int | None = None
    momentum: float | None = 0.1
    is_module = is_class = False
    raises_in_float64 = ""
    unknown: tuple[str, ...] = ()  # parameters of unknown role

    def __init__(self, fn: Callable[..., Any], norm: Norm, given: Mapping[str, float]):
        self.fn, self.norm, self.given = fn, norm, given
        self.matched = match_roles(fn, norm)
        self.signature = {} if self.matched is None else dict(inspect.signature(fn).parameters)
        known = set(norm.roles) if self.matched is None else set(self.matched)
        self.learned = tuple(role for role in norm.learned if role in known)
        self.has_running = {"running_mean", "running_var"} <= known
        self.takes_mask = "mask" in known
        self.sets = frozenset(role for role in norm.settings if role in known)
        wanted = [r for r in norm.learned if r in ("weight", "bias") or r not in ALIASES]
        bare = not known & set(wanted)  # the formula without any is fine as an exercise
        self.missing = {
            role: (f"the function takes no {role}", "a missing parameter")
            for role in wanted
            if not bare and role not in known
        }

    def takes(self, shape: Shape, dim: int) -> bool:
        """Accept inputs of every shape."""
        return True

    def expected(self, role: str, asked: Any, dtype: torch.dtype) -> Any:
        """Return the setting (eps, p, …) that is expected when `asked` was passed (or not)."""
        if asked is not None and role in self.sets:
            return asked
        return self.given.get(role, self.norm.settings[role][0])

    def open(self, dim: int, dtype: torch.dtype, given: Mapping[str, Any]) -> "FunctionRunner":
        """Store the tensors for the next calls."""
        return FunctionRunner(self, dim, given)


class FunctionRunner:
    """A runner that passes the same tensors to a function in each call."""

    def __init__(self, subject: Function, dim: int, given: Mapping[str, Any]):
        self.subject, self.dim, self.given = subject, dim, given
        self.parameters = {r: given[r] for r in subject.norm.learned if r in given}
        self.buffers: tuple[Tensor, Tensor] | None = given.get("running")

    def __call__(self, x: Tensor, training: bool = True, mask: Tensor | None = None) -> Any:
        """Call the function, with keyword arguments if the names are known."""
        subject, norm = self.subject, self.subject.norm
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
            stand_ins = {r: self._stand_in(r, x) for r in (*norm.settings, "momentum")}
            values = {**stand_ins, **{r: v for r, v in values.items() if v is not None}}
            return subject.fn(x, *[values.get(role) for role in norm.roles if role != "mask"])
        positional, named = [], {}
        names = {name: role for role, name in subject.matched.items()}
        for name in (*subject.signature, *(n for n in names if n not in subject.signature)):
            p, role = subject.signature.get(name), names.get(name)
            if role is None:
                continue
            required = p is not None and p.default is p.empty and p.kind is not p.VAR_KEYWORD
            value = values.get(role)
            if value is None and required:
                value = self._stand_in(role, x)
            if required and p is not None and p.kind is p.POSITIONAL_ONLY:
                positional.append(value)
            elif value is not None:
                named[name] = value
        return subject.fn(x, *positional, **named)

    def running(self) -> tuple[Tensor, Tensor] | None:
        """Return the buffers that were passed to the function."""
        return self.buffers

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a call must not change."""
        return self.parameters

    def _stand_in(self, role: str, x: Tensor) -> Any:
        """Return a neutral value for a parameter without a default."""
        norm = self.subject.norm
        if role in norm.learned:
            one = norm.learned[role]
            return torch.full((self.dim,) if one.each else (), one.start(self.dim), dtype=x.dtype)
        if role in norm.settings:
            return self.subject.expected(role, None, x.dtype)
        if role in ("running_mean", "running_var"):
            return torch.full((self.dim,), float(role == "running_var"), dtype=x.dtype)
        return {"momentum": 0.1, "num_groups": 1}.get(role)


class Module:
    """A submitted module, or a class from which each use makes a new module."""

    is_module, is_class = True, False
    dim: int | None = None  # None: any
    groups: int | None = None
    raises_in_float64 = ""  # what it raises there; it is then run in float32

    def __init__(self, given: nn.Module | type[nn.Module], norm: Norm, named: Mapping[str, float]):
        self.norm, self.handed, self.given = norm, given, named
        self.sets = frozenset()
        if isinstance(given, type):
            self.is_class, self.constructor = True, list_arguments(given)
            self.sets = frozenset(r for r in norm.settings if self._find_argument(r))
            self.sample = sample = self._make_sample(given)
        else:
            self.sample = sample = given
            self.dim = find_size(given, norm)
            groups = getattr(given, "num_groups", None)
            self.groups = groups if isinstance(groups, int) else None
        self.feature_shape: tuple[int, ...] = tuple(getattr(sample, "normalized_shape", None) or ())
        self.names, self.unknown = find_parameters(sample, norm, self.dim or norm.dim)
        self.learned = tuple(r for r in norm.learned if r in self.names)
        self.missing = self._find_missing(sample)
        self.has_running = find_buffer(sample, "mean") is not None and norm.runs
        self.takes_mask = "mask" in inspect.signature(sample.forward).parameters
        self.momentum = getattr(sample, "momentum", 0.1)
        # Until this is decided, the module must be called unchanged.
        self.channels_last = False
        self.channels_last = norm.formula.features == 1 and self._has_channels_last(sample)
        more = [p for p in inspect.signature(sample.forward).parameters if p != "mask"][1:]
        dim = self.dim or norm.dim
        if more and not any(self._runs_on(shape, dim) for shape in norm.shapes(dim)):
            raise Broken(
                f"forward must work with x alone, but it takes {', '.join(more)} as well and "
                "raises without; check a class of your own whose forward(x) calls it with them"
            )
        plain = norm.shapes(dim)[0]
        if self._runs_on(plain, dim):
            self.raises_in_float64 = self._find_error(plain, dim, torch.float64)

    def takes(self, shape: Shape, dim: int) -> bool:
        """Return whether a shape raises no error; torch's instance norms read some as unbatched.

        A norm over the last axis must accept two and three axes, because models use both.
        """
        if self.norm.formula.features == -1:
            return len(shape) in (2, 3) or self._runs_on(shape, dim)
        for kind, axes in _AXES.items():
            if isinstance(self.handed, kind) or self.handed is kind:
                return len(shape) == axes
        only = {"group_norm": 2, "instance_norm": 3}.get(self.norm.name)
        if self.channels_last and only:  # the leading axes are a batch
            return len(shape) == only
        return self._runs_on(shape, dim)

    def expected(self, role: str, asked: Any, dtype: torch.dtype) -> Any:
        """Return a setting's expected value: the one set, else the caller's, else the module's."""
        if asked is not None and role in self.sets:
            return asked
        if role in self.given:
            return self.given[role]
        # A class documents its own: the constructor's default, else what a new module holds.
        argument = self._find_argument(role) if self.is_class else ""
        held = self.constructor[argument].default if argument else None
        for own in (held, *(getattr(self.sample, n, None) for n in names_of(role, self.norm))):
            if isinstance(own, int | float):
                return float(own)
        # torch's None means the epsilon of its computation's dtype.
        if isinstance(self.sample, nn.RMSNorm) and self.sample.eps is None:
            return torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        return self.norm.settings[role][0]

    def open(self, dim: int, dtype: torch.dtype, given: Mapping[str, Any]) -> "ModuleRunner":
        """Copy the module, or make one, and set its parameters and statistics."""
        # A copy each time, so that no law depends on an earlier one.
        module = self._make_module(dim, given) if self.is_class else copy.deepcopy(self.handed)
        assert isinstance(module, nn.Module)
        if dtype == torch.float64 and self.raises_in_float64:
            dtype = torch.float32
        return ModuleRunner(self, module.to(device="cpu", dtype=dtype), dim, given)

    def _make_sample(self, kind: type[nn.Module]) -> nn.Module:
        """Make a module of the usual size; raise Broken if only an instance will do."""
        refused = "takes no size"
        if takes_size(kind):
            try:
                return self._make_module(self.norm.dim, {"num_groups": 2, "weight": True})
            except Exception as error:
                refused = f"cannot be made of a size alone ({told(error)})"
        raise Broken(
            f"{kind.__name__} {refused}: pass an instance, made in the way your model makes it"
        )

    def _make_module(self, dim: int, given: Mapping[str, Any]) -> nn.Module:
        assert isinstance(self.handed, type)
        sizes = (given.get("num_groups", 1), dim) if "num_groups" in self.norm.roles else (dim,)
        named = {self._find_argument(role): given[role] for role in self.sets if role in given}
        if "affine" in self.constructor and ("weight" in given or "bias" in given):
            named["affine"] = True  # InstanceNorm has no gain and shift by default
        return self.handed(*sizes, **named)

    def _find_argument(self, role: str) -> str:
        return next((n for n in names_of(role, self.norm) if n in self.constructor), "")

    def _find_missing(self, sample: nn.Module) -> dict[str, tuple[str, str]]:
        """Find attributes with a parameter's name that are not parameters or are never learned."""
        missing, tensors = {}, {**vars(sample), **dict(sample.named_buffers())}
        for role in self.norm.learned:
            name = next(
                (n for n in names_of(role, self.norm) if isinstance(tensors.get(n), Tensor)), ""
            )
            constant = name in dict(sample.named_buffers()) and name not in sample.state_dict()
            if name and role not in self.names and not constant:
                said = f"{name} is not an nn.Parameter, so no optimizer finds it"
                missing[role] = (said, "a plain tensor is used in place of nn.Parameter(…)")
        for role in self.learned if self.is_class else ():
            if not sample.get_parameter(self.names[role]).requires_grad:
                said = f"the parameter for the {role} of a new module requires no gradient"
                missing[role] = (said, "requires_grad=False, so that it is never learned")
        return missing

    def _runs_on(self, shape: Shape, dim: int) -> bool:
        return not self._find_error(shape, dim, torch.float32)

    def _find_error(self, shape: Shape, dim: int, dtype: torch.dtype) -> str:
        try:
            x = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
            self.open(dim, dtype, {"num_groups": self.groups or 2})(x)
        except Exception as error:
            return told(error)
        return ""

    def _has_channels_last(self, sample: nn.Module) -> bool:
        own = getattr(sample, "channel_axis", None)
        if own is not None or type(sample).__module__.startswith("torch."):
            return own == -1
        dim = self.dim or self.norm.dim
        first = any(self._runs_on(shape, dim) for shape in ((3, dim, 5), (3, dim, 5, 4)))
        return not first and self._runs_on((3, 5, dim), dim)


class ModuleRunner:
    """A copy of the module whose parameters have the values of the law."""

    def __init__(self, subject: Module, module: nn.Module, dim: int, given: Mapping[str, Any]):
        self.subject, self.module = subject, module
        self.parameters = {}
        own = dict(module.named_parameters())
        for role in subject.learned:
            if subject.names[role] in own:
                self.parameters[role] = own[subject.names[role]]
                self._set_parameter(role, given.get(role), dim)
        for kind, value in zip(("mean", "var"), given.get("running") or (), strict=False):
            buffer = find_buffer(module, kind)
            if buffer is not None:
                buffer.copy_(value.reshape(buffer.shape))

    def _set_parameter(self, role: str, value: Tensor | None, dim: int) -> None:
        own, one = self.parameters[role], self.subject.norm.learned[role]
        wanted = dim if one.each else 1
        if own.numel() != wanted:
            raise Broken(
                f"{one.name} of a norm of {dim} features must have {wanted} values, but has "
                f"{own.numel()}",
                f"{one.name} is one number "
                + ("for each feature" if one.each else "for all features")
                + f"; here it is {'another size' if one.each else 'one for each'}",
            )
        with torch.no_grad():
            if value is not None:
                own.copy_(value.reshape(own.shape))
            elif not self.subject.is_class:  # a module just made has its right values by itself
                own.fill_(one.start(dim))

    def __call__(self, x: Tensor, training: bool = True, mask: Tensor | None = None) -> Any:
        """Run the module in training or evaluation, with the channel axis where it expects it."""
        self.module.train(training)
        if x.dtype == torch.float64 and self.subject.raises_in_float64:
            y = self(x.float(), training, mask)
            return y.double() if isinstance(y, Tensor) else y
        more = {} if mask is None else {"mask": mask}
        if self.subject.channels_last:
            y = self.module(x.movedim(1, -1), **more)
            return y.movedim(-1, 1) if isinstance(y, Tensor) and y.ndim == x.ndim else y
        if len(self.subject.feature_shape) < 2:
            return self.module(x, **more)
        shaped = x.reshape(*x.shape[:-1], *self.subject.feature_shape)
        y = self.module(shaped, **more)
        return y.reshape(x.shape) if isinstance(y, Tensor) and y.shape == shaped.shape else y

    def running(self) -> tuple[Tensor, Tensor] | None:
        """Return the module's running statistics; None without them."""
        mean, var = find_buffer(self.module, "mean"), find_buffer(self.module, "var")
        return None if mean is None or var is None else (mean.flatten(), var.flatten())

    def state(self) -> dict[str, Tensor]:
        """Return tensors that a call must not change (no buffers if samples share statistics)."""
        kept: dict[str, Tensor] = dict(self.module.named_parameters())
        # A batch norm moves its buffers in every training call, as it should.
        return kept if self.subject.norm.pools_batch else {**kept, **tensors_of(self.module)}


Subject = Function | Module
Runner = FunctionRunner | ModuleRunner


def find_parameters(
    module: nn.Module, norm: Norm, dim: int
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the name of the parameter for each role, and the names of unmatched parameters.

    Usual names are matched first; other parameters by size, in the order of the roles: gain, shift.
    """
    own = dict(module.named_parameters())
    found: dict[str, str] = {}
    for role in norm.learned:
        names = names_of(role, norm)
        usual = [name for name in own if name.split(".")[-1] in names]
        if usual:
            found[role] = min(usual, key=lambda name: names.index(name.split(".")[-1]))
    for role, one in norm.learned.items():
        size = dim if one.each else 1
        left = [n for n, p in own.items() if n not in found.values() and p.numel() == size]
        if role not in found and left:
            found[role] = left[0]
    rest = tuple(name for name in own if name not in found.values())
    return found, rest if norm.learned else ()


def find_buffer(module: nn.Module, kind: str) -> Tensor | None:
    """Find the running mean or variance among the buffers and plain tensor attributes."""
    for name, buffer in tensors_of(module).items():
        stem = name.split(".")[-1]
        if stem in ALIASES[f"running_{kind}"] or (kind in stem and buffer.is_floating_point()):
            return buffer
    return None


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers and plain tensor attributes of a module."""
    plain = {k: v for k, v in vars(module).items() if isinstance(v, Tensor)}
    return {**dict(module.named_buffers()), **plain}


def find_size(module: nn.Module, norm: Norm) -> int | None:
    """Return the number of features of a module; None if it is unknown."""
    for part in module.modules():  # its own size first, then those of its parts
        for name in _SIZES:
            size = getattr(part, name, None)
            if isinstance(size, int):
                return size
            if isinstance(size, tuple | list | torch.Size) and size:
                return int(torch.Size(size).numel())
    for name, parameter in module.named_parameters():
        for role, one in norm.learned.items():
            if one.each and name.split(".")[-1] in names_of(role, norm):
                return parameter.numel()
    return None


def takes_size(kind: type[nn.Module]) -> bool:
    """Return whether a class takes a size first, rather than an eps or nothing."""
    return next(iter([*list_arguments(kind)][1:]), "eps") not in ALIASES["eps"]


def list_arguments(kind: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """List the constructor's parameters, including those that it passes to base classes."""
    listed: dict[str, inspect.Parameter] = {}
    for parent in kind.__mro__:
        own = inspect.signature(parent.__init__).parameters
        listed = {**own, **listed}
        if not any(p.kind is p.VAR_KEYWORD for p in own.values()):
            break
    return listed
