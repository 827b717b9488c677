"""Find the norms of a model, their positions and reasons against a swap, and put others there."""

import inspect
from collections import Counter

from torch import nn
from torch.nn.utils import parametrize

from labkit.convert.record import Seat
from labkit.norms import NORMS


def places_of(model: nn.Module) -> dict[nn.Module, list[str]]:
    """Map every module to all of its qualified names (several if it is shared)."""
    if not isinstance(model, nn.Module) or isinstance(model, type):
        got = f"the class {model.__name__}" if isinstance(model, type) else repr(model)
        raise TypeError(f"a model must be an nn.Module, got {got}; pass one")
    if is_norm(model):
        raise TypeError(
            f"a model must contain its norms, but {type(model).__name__} is itself a norm; pass a "
            "module that contains it, such as nn.Sequential(norm)"
        )
    places: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        places.setdefault(module, []).append(name)
    return places


def is_norm(module: nn.Module) -> bool:
    """Return whether a module is a norm, judging by its name and its children."""
    kind = type(module)
    ours = kind is not nn.Identity and kind in NORMS.values()
    named = ours or "norm" in kind.__name__.lower()
    return named and all(
        is_norm(child) or not any(True for _ in child.parameters()) for child in module.children()
    )


def list_norms(model: nn.Module) -> str:
    """List the norm classes of a model with their counts, most frequent first."""
    counts = Counter(type(module).__name__ for module in model.modules() if is_norm(module))
    listed = (f"{name} ({count})" for name, count in counts.most_common())
    return ", ".join(listed) or "no norm at all"


def replace_modules(
    model: nn.Module, places: dict[nn.Module, list[str]], new: dict[nn.Module, nn.Module]
) -> list[Seat]:
    """Put new modules into every place of the old ones; return these places."""
    seats: list[Seat] = []
    for old, put in new.items():
        for name in places[old]:
            above, _, last = name.rpartition(".")
            seats.append((model.get_submodule(above), last, old, put))
    for parent, last, _, put in seats:
        parent._modules[last] = put
    return seats


def find_obstacle(norm: nn.Module) -> str:
    """Return why this module cannot be replaced by its formula, or ""."""
    tensors = [*norm.parameters(), *norm.buffers()]
    if any(nn.parameter.is_lazy(tensor) for tensor in tensors):
        return "it is lazy and has no shape yet; run a batch through the model first"
    if any(tensor.is_meta for tensor in tensors):
        return "its tensors are on the meta device and have no values; materialize them first"
    if any(parametrize.is_parametrized(part) for part in norm.modules()):
        return "its parameters are parametrized; remove the parametrizations first"
    for part in norm.modules():
        if hooks := [name for name, held in vars(part).items() if name.endswith("_hooks") and held]:
            kinds = ", ".join(hook.strip("_").replace("_", " ") for hook in hooks)
            return f"it has {kinds}, which would be lost; remove them first"
    taken = list(inspect.signature(type(norm).forward).parameters.values())[2:]
    if getattr(norm, "takes_mask", False):
        taken = [parameter for parameter in taken if parameter.name != "mask"]
    if taken:
        more = ", ".join(parameter.name for parameter in taken)
        return f"its forward takes more than one input ({more}); pass a callable"
    return ""


def find_tie(model: nn.Module, module: nn.Module) -> str:
    """Return the name of a parameter elsewhere in the model that is shared with this module."""
    own, inside = {id(parameter) for parameter in module.parameters()}, {*module.modules()}
    ties = (
        f"{name}.{key}".lstrip(".")
        for name, other in model.named_modules()
        if other not in inside
        for key, parameter in other.named_parameters(recurse=False)
        if id(parameter) in own
    )
    return next(ties, "")
