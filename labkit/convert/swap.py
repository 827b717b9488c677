"""`convert` finds the norms, plans every replacement, then makes them all at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from labkit.convert.choose import Only, Target, build_selector, choose_norms, rules_of
from labkit.convert.fastpath import switches_off
from labkit.convert.fill import build_norm, compare_functions, move_contents
from labkit.convert.find import find_obstacle, find_tie, places_of, replace_modules
from labkit.convert.read import Reading, read_norm, takes_many_axes
from labkit.convert.record import Conversion, Left, Swapped
from labkit.fused import fuse, is_fused, unfuse


def convert(
    model: nn.Module,
    mapping: Mapping[str | type[nn.Module], Target],
    only: Only = None,
    **kw: Any,
) -> Conversion:
    """Swap the norms of `model` in place, by class; report the swapped norms and the others.

    `mapping` maps a class name (globs allowed: "*RMSNorm") or class to a key of NORMS, a pair (key,
    constructor arguments), or a callable that takes the old norm and returns the new module. `only`
    restricts it to qualified names: a glob, several globs, or a predicate. `kw` goes to every
    constructor, unless `mapping` has other values.

    The new norm gets all state of the old one that it can represent: gain, shift, running
    statistics, eps (if it has the same place in the formula), dtype, device, mode and
    requires_grad. Your arguments take precedence over the old norm's. Parameters are copies:
    `undo()` restores the old modules unchanged, and an optimizer must be made after converting.

    Everything is checked before the model is changed, so an error leaves it unchanged. A model that
    was fused (`labkit.fused`) runs on formulas afterwards; fuse it again.
    """
    fused = isinstance(model, nn.Module) and is_fused(model)
    if fused:
        unfuse(model)
    try:
        return _swap_norms(model, mapping, only, kw)
    except Exception:
        if fused:
            fuse(model)
        raise


def _swap_norms(
    model: nn.Module,
    mapping: Mapping[str | type[nn.Module], Target],
    only: Only,
    kw: dict[str, Any],
) -> Conversion:
    rules = rules_of(mapping, kw)
    places = places_of(model)
    chosen, left = choose_norms(model, places, rules, build_selector(only))
    plans: dict[nn.Module, _Plan] = {}
    for norm, target in chosen.items():
        found = _plan_swap(norm, target, model)
        if isinstance(found, str):
            left[norm] = found
        else:
            plans[norm] = found
    if not plans:
        raise ValueError(_explain_nothing_swapped(places, left))
    rows = [plan.fill_row(places[norm], norm) for norm, plan in plans.items()]
    rest = [
        Left(" = ".join(places[norm]), type(norm).__name__, reason) for norm, reason in left.items()
    ]
    # The model changes from here on; everything that can fail comes before.
    seats = replace_modules(model, places, {norm: plan.new for norm, plan in plans.items()})
    made = {plan.new for plan in plans.values()}
    switches, notes = switches_off(model, made)
    return Conversion(model, rows, rest, seats, switches, [*notes, *_warn_of_pooling(made)])


@dataclass
class _Plan:
    """One planned swap: the new norm, and the old one's formula (None if a callable made it)."""

    new: nn.Module
    key: str = ""
    reading: Reading | None = None

    def fill_row(self, names: list[str], old: nn.Module) -> Swapped:
        """Copy the old norm's state and return the row of the report."""
        name, kinds = " = ".join(names), (type(old).__name__, _format_kind(self.new))
        if self.reading is None:
            return Swapped(name, *kinds, same="as the callable made it")
        moved = move_contents(self.key, old, self.new, self.reading)
        same = compare_functions(self.reading, self.key, old, self.new, moved)
        lists = (tuple(entry) for entry in (moved.kept, moved.dropped, moved.fresh))
        return Swapped(name, *kinds, *lists, same=same)


def _format_kind(norm: nn.Module) -> str:
    inner = getattr(norm, "norm", None)
    kind = type(norm).__name__
    return f"{kind}({type(inner).__name__})" if isinstance(inner, nn.Module) else kind


def _plan_swap(norm: nn.Module, target: Target, model: nn.Module) -> _Plan | str:
    """Build the new norm, or return the reason why the old one stays."""
    if tie := find_tie(model, norm):
        return f"its parameter is tied to {tie}; untie it first"
    if callable(target):
        new = target(norm)
        if not isinstance(new, nn.Module):
            raise TypeError(
                f"a callable must return the new module for {type(norm).__name__}, but returned "
                f"{type(new).__name__}"
            )
        return "the callable returned it unchanged" if new is norm else _Plan(new)
    if reason := find_obstacle(norm):
        return reason
    reading = read_norm(norm)
    if isinstance(reading, str):
        return reading
    key, arguments = target if isinstance(target, tuple) else (target, {})
    if len(reading.shape) > 1 and not takes_many_axes(key):
        return f"it normalizes {len(reading.shape)} axes at once; {key} only one"
    return _Plan(build_norm(key, dict(arguments), norm, reading, model), key, reading)


def _warn_of_pooling(made: set[nn.Module]) -> list[str]:
    """Warn about norms whose statistics run over tokens; labkit's own model passes them a mask."""
    pooling = {type(norm).__name__ for norm in made if getattr(norm, "takes_mask", False)}
    said = (
        f"{', '.join(sorted(pooling))}: statistics over batch and positions. Padding counts unless "
        "a mask is handed over, and in training a causal model sees what comes later"
    )
    return [said] if pooling else []


def _explain_nothing_swapped(places: dict[nn.Module, list[str]], left: dict[nn.Module, str]) -> str:
    """Return why no norm could be swapped: each reason once, with the norms that it applies to."""
    names: dict[str, list[str]] = {}
    for norm, reason in left.items():
        names.setdefault(reason, []).append(f"{' = '.join(places[norm])} ({type(norm).__name__})")
    said = (
        f"{reason}: {', '.join(some[:4])}{f' and {len(some) - 4} more' if some[4:] else ''}"
        for reason, some in names.items()
    )
    return f"no norm could be swapped. {'. '.join(said)}"
