"""Find a module's parameters, statistics and size, under whatever name they go."""

import inspect

import torch
from torch import Tensor, nn

from labkit.check.spec import Spec
from labkit.check.subject import ALIASES, names_of

_SIZES = ("normalized_shape", "num_features", "num_channels", "dim", "d_model", "features", "size")


def find_parameter(module: nn.Module, role: str, spec: Spec) -> Tensor | None:
    """Find a learnable parameter by its usual names."""
    names = names_of(role, spec)
    found = [(name.split(".")[-1], p) for name, p in module.named_parameters()]
    found = [(names.index(stem), p) for stem, p in found if stem in names]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def find_parameters(
    module: nn.Module, spec: Spec, dim: int
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Name the parameter that plays each role, and those that play none.

    Names decide where they are usual; else the size, then the value that it starts with.
    """
    own = dict(module.named_parameters())
    found: dict[str, str] = {}
    for role in spec.learned:
        parameter = find_parameter(module, role, spec)
        for name in (name for name, p in own.items() if p is parameter):
            found[role] = name
    rest = [name for name in own if name not in found.values()] if spec.learned else []
    for by_value in (True, False):
        for role in (r for r in spec.learned if r not in found):
            one = spec.learned[role]
            fits = [
                name
                for name in rest
                if own[name].numel() == (dim if one.each else 1)
                and not (by_value and bool((own[name] != one.start(dim)).any()))
            ]
            if len(fits) == 1 or (fits and by_value):
                found[role] = fits[0]
                rest.remove(fits[0])
    return found, tuple(rest)


def find_buffer(module: nn.Module, kind: str) -> Tensor | None:
    """Find the running mean or variance among buffers, and tensors kept as plain attributes."""
    for name, buffer in tensors_of(module).items():
        stem = name.split(".")[-1]
        if stem in ALIASES[f"running_{kind}"] or (kind in stem and buffer.is_floating_point()):
            return buffer
    return None


def constructor_names(kind: type[nn.Module]) -> list[str]:
    """List the constructor's parameters, those that it hands on to its parents included."""
    names: list[str] = []
    for parent in kind.__mro__:
        parameters = inspect.signature(parent.__init__).parameters.values()
        names += [p.name for p in parameters]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Collect buffers, and tensors kept as plain attributes."""
    plain = {k: v for k, v in vars(module).items() if isinstance(v, Tensor)}
    return {**dict(module.named_buffers()), **plain}


def plain_tensor(module: nn.Module, role: str, spec: Spec) -> str:
    """Find a tensor with the name of a learnable parameter that is none."""
    if find_parameter(module, role, spec) is not None:
        return ""
    tensors = {**vars(module), **dict(module.named_buffers())}
    return next((n for n in names_of(role, spec) if isinstance(tensors.get(n), Tensor)), "")


def find_size(module: nn.Module, spec: Spec) -> int | None:
    """Find the number of features that a module is made for."""
    for part in module.modules():  # its own size first, then that of what it is made of
        for name in _SIZES:
            size = getattr(part, name, None)
            if isinstance(size, int):
                return size
            if isinstance(size, tuple | list | torch.Size) and size:
                return int(torch.Size(size).numel())
    for role, learned in spec.learned.items():
        if learned.each and (parameter := find_parameter(module, role, spec)) is not None:
            return parameter.numel()
    return None
