"""Choose the norms of a model that a mapping and `only` select, with reasons for the others."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from labkit.convert.find import is_norm, list_norms
from labkit.norms import NORMS
from labkit.system.unknown import explain_unknown

Target = str | tuple[str, Mapping[str, Any]] | Callable[[nn.Module], nn.Module]
Only = str | Iterable[str] | Callable[[str], bool] | None


def rules_of(mapping: Mapping[Any, Target], kw: Mapping[str, Any]) -> dict[Any, Target]:
    """Check the mapping's targets and add the constructor arguments to each."""
    if not isinstance(mapping, Mapping) or not mapping:
        raise TypeError(
            'convert needs a mapping from norm classes to norms, like {"LayerNorm": "dyt"}, '
            f"got {mapping!r}"
        )
    return {source: _with_arguments(target, kw) for source, target in mapping.items()}


_VALUES = (
    'each target must be a key of NORMS like "rms", a pair (key, arguments) like ("rms", '
    '{"eps": 1e-6}) or a callable that takes the old norm and returns the new one, like lambda '
    "old: Norm(4)"
)


def _with_arguments(target: Target, kw: Mapping[str, Any]) -> Target:
    if callable(target) and not isinstance(target, type | nn.Module):
        return target
    pair = target if isinstance(target, tuple) else (target, {})
    if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
        raise TypeError(f"{_VALUES}, got {target!r}")
    key, arguments = pair[0], {**kw, **pair[1]}
    if key not in NORMS:
        raise ValueError(explain_unknown("norm", key, NORMS))
    if taken := [name for name in ("dtype", "device") if name in arguments]:
        raise TypeError(
            f"{' and '.join(taken)} may not be given, because the new norm has those of the old "
            "one; leave them out and move the model with model.to() before or after"
        )
    return key, arguments


def build_selector(only: Only) -> Callable[[str], bool]:
    """Turn `only` into a predicate on qualified names."""
    if only is None:
        return lambda name: True
    if callable(only):
        return only
    globs = [only] if isinstance(only, str) else only
    globs = list(globs) if isinstance(globs, Iterable) else [globs]
    if not all(isinstance(glob, str) for glob in globs):
        raise TypeError(
            f"`only` must be a glob, a list of globs or a predicate on names, got {only!r}"
        )
    return lambda name: any(fnmatchcase(name, glob) for glob in globs)


def choose_norms(
    model: nn.Module,
    places: dict[nn.Module, list[str]],
    rules: dict[Any, Target],
    selected: Callable[[str], bool],
) -> tuple[dict[nn.Module, Target], dict[nn.Module, str]]:
    """Split the model's norms into those to swap and those to leave, with the reasons."""
    chosen: dict[nn.Module, Target] = {}
    left: dict[nn.Module, str] = {}
    met: set[Any] = set()
    inner: set[nn.Module] = set()  # parts of a norm that will be swapped whole
    for module, names in places.items():
        source = next((source for source in rules if _matches_source(module, source)), None)
        met.add(source)
        if module in inner or (source is None and not is_norm(module)):
            continue
        picked = [selected(name) for name in names]
        if source is None:
            left[module] = "its class is not in the mapping"
        elif not any(picked):
            left[module] = "`only` leaves it out"
        elif not all(picked):
            left[module] = "it is shared, and `only` leaves one of its places out"
        else:
            chosen[module] = rules[source]
            inner.update(module.modules())
    if missing := [source for source in rules if source not in met]:
        wanted = ", ".join(s.__name__ if isinstance(s, type) else str(s) for s in missing)
        raise ValueError(
            f"the mapping may name only norms that the model contains, but {type(model).__name__} "
            f"has no {wanted}; its norms are {list_norms(model)}"
        )
    return chosen, left


def _matches_source(norm: nn.Module, source: Any) -> bool:
    if isinstance(source, str):
        return fnmatchcase(type(norm).__name__, source)
    return type(norm) is source
