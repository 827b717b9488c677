"""`convert`: find the norms, make every new one, then put them all in at once.

A gain is moved by its meaning. The old parameter says by how much the standardized value is
multiplied; the new one stores that its own way: GemmaRMSNorm as gain − 1, ScaleNorm as one
number, sqrt(dim) · gain.
"""

import html
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from labkit.convert.read import Reading, Unfit, read_norm, start_of
from labkit.fused import unfuse
from labkit.norms import LayerNorm, facts, make_norm
from labkit.norms._common import at_least_float32, laid_out_as

Target = str | tuple[str, Mapping[str, Any]] | Callable[[nn.Module], nn.Module]
_STATE = ("running_mean", "running_var", "num_batches_tracked")
_HANDED_ON = ("num_groups", "momentum", "track_running_stats")


@dataclass(frozen=True)
class Swapped:
    """One norm that was exchanged, with what the new one has of the old one's and what is gone."""

    name: str
    old: str
    new: str
    kept: str = "-"
    dropped: str = "-"


@dataclass(frozen=True)
class Left:
    """One norm that stays as it was, and why."""

    name: str
    norm: str
    reason: str


class Conversion:
    """The outcome of `convert`: `swapped`, `left`, `notes` and `undo()`.

    `model` is the model that was handed in, or the new norm where the model itself was one.
    """

    def __init__(self, model: nn.Module, swapped: list[Swapped], left: list[Left]):
        self.swapped, self.left, self.notes = swapped, left, list[str]()
        self._given = self.model = model
        self._undo: list[Callable[[], object]] = []

    def undo(self) -> nn.Module:
        """Put the very same module objects back, with the weights they had; return the model."""
        while self._undo:
            self._undo.pop()()
        self.model, self.notes = self._given, []
        return self._given

    def __str__(self) -> str:
        lines = [f"{len(self.swapped)} swapped, {len(self.left)} left"]
        for heads, rows in (
            (("name", "old", "new", "kept", "dropped"), self.swapped),
            (("left", "norm", "reason"), self.left),
        ):
            table = [heads, *_gather_rows(rows)] if rows else []
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _gather_rows(rows: Iterable[Swapped | Left]) -> list[tuple[str, ...]]:
    """Write the rows, in one those that differ in the numbers of their names alone."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        name, *rest = astuple(row)
        alike.setdefault((re.sub(r"(?<![^.])\d+(?![^.])", "*", name), *rest), []).append(name)
    return [
        (names[0] + (f" … {names[-1]} ({len(names)})" if names[1:] else ""), *rest)
        for (_, *rest), names in alike.items()
    ]


class ChannelsFirst(nn.Module):
    """Apply a norm of the last axis to axis 1, for images (batch, channels, height, width)."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Move the channels last, normalize, move them back into the input's memory format."""
        return laid_out_as(x, self.norm(x.movedim(1, -1)).movedim(-1, 1))


def convert(
    model: nn.Module, mapping: Mapping[str, Target], only: str = "*", **kw: Any
) -> Conversion:
    """Swap the norms of `model` in place, by class, and report what was swapped and what was left.

    `mapping` goes from a class name (globs allowed: "*RMSNorm") to a key of NORMS, a pair (key,
    constructor arguments), or a callable that takes the old norm and returns the new module.
    `only` narrows it to qualified names, as a glob. `kw` goes to every constructor, where
    `mapping` does not say otherwise.

    The new norm gets what the old one has and it can hold: gain, shift, running statistics, eps
    (where it stands in the same place of the formula), dtype, device, mode and requires_grad.
    Arguments that you give win over the old norm's. Parameters are copies: `undo()` brings back
    the old modules as they were, and an optimizer must be made after converting.

    Everything is checked before anything changes: an error leaves the norms as they were. A model
    that was fused (`labkit.fused`) works on formulas afterwards; fuse it again.
    """
    unfuse(model)
    names: dict[nn.Module, list[str]] = {}  # more than one where a module is shared
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    new: dict[nn.Module, nn.Module] = {}
    inner: set[nn.Module] = set()  # parts of a norm, which go or stay with it
    conversion = Conversion(model, [], [])
    for old, places in names.items():
        said, kind = " = ".join(places), type(old).__name__
        target = next((to for glob, to in mapping.items() if fnmatchcase(kind, glob)), None)
        if old in inner or (target is None and not is_norm(old)):
            continue
        inner |= {*old.modules()}
        try:
            if target is None:
                raise Unfit("its class is not in the mapping")
            if not all(fnmatchcase(name, only) for name in places):
                raise Unfit("`only` leaves it out, or one of its places")
            new[old], kept, dropped = _make_new(old, target, kw, model)
        except Unfit as reason:
            conversion.left.append(Left(said, kind, str(reason)))
            continue
        put = type(new[old]).__name__
        if isinstance(part := new[old], ChannelsFirst):
            put += f" of {type(part.norm).__name__}"
        lists = (", ".join(of) or "-" for of in (kept, dropped))
        conversion.swapped.append(Swapped(said, kind, put, *lists))
    if not new:
        left = "; ".join(f"{' '.join(row[:2])}: {row[-1]}" for row in _gather_rows(conversion.left))
        raise ValueError(
            f"no norm of {type(model).__name__} could be swapped for {', '.join(mapping)}. Its "
            f"norms are: {left or 'none at all'}"
        )
    for old, put in new.items():
        for name in filter(None, names[old]):
            above, _, last = name.rpartition(".")
            _set_attribute(conversion, model.get_submodule(above), last, put)
    conversion.model = new.get(model, model)
    _leave_fused_path(conversion, model, {*new.values()})
    if pooling := {type(norm).__name__ for norm in new.values() if hasattr(norm, "takes_mask")}:
        conversion.notes.append(
            f"{', '.join(sorted(pooling))}: statistics over batch and positions. Padding counts "
            "unless a mask is handed over, and in training a causal model sees what comes later"
        )
    return conversion


def _set_attribute(conversion: Conversion, owner: nn.Module, name: str, value: Any) -> None:
    before = getattr(owner, name)
    conversion._undo.append(lambda: setattr(owner, name, before))
    setattr(owner, name, value)


def is_norm(module: nn.Module) -> bool:
    """Distinguish a norm from a layer that contains one by its name and by what it holds."""
    return "norm" in type(module).__name__.lower() and all(
        is_norm(child) or not any(True for _ in child.parameters()) for child in module.children()
    )


def _make_new(
    old: nn.Module, target: Target, kw: dict[str, Any], model: nn.Module
) -> tuple[nn.Module, list[str], list[str]]:
    """Make the new norm for the place of `old`, and say what it kept and what was dropped."""
    if callable(target):
        new = target(old)
        if not isinstance(new, nn.Module):
            raise TypeError(f"a callable returns the new module, got {type(new).__name__}")
        return new, ["as the callable made it"], []
    key, own = target if isinstance(target, tuple) else (target, {})
    facts(key)  # refuses what is no norm, before anything is read
    if hooks := [name for name, held in vars(old).items() if name.endswith("_hooks") and held]:
        kinds = ", ".join(hook.strip("_").replace("_", " ") for hook in hooks)
        raise Unfit(f"it has {kinds}, which would be lost; remove them first")
    reading = read_norm(old)
    new = _build_norm(key, {**kw, **own}, old, reading, model)
    inner = new.norm if isinstance(new, ChannelsFirst) else new
    return new, *_move_contents(key, old, inner, reading)


def _build_norm(
    key: str, kw: dict[str, Any], old: nn.Module, reading: Reading, model: nn.Module
) -> nn.Module:
    """Make the norm `key` for the place of `old`, with its eps, dtype, device and mode.

    An old norm without tensors takes the model's dtype and device.
    """
    known, former = facts(key), facts(reading.key)
    had: dict[str, Any] = {}
    if known.eps_place == former.eps_place and reading.eps is not None:
        had["eps"] = reading.eps
    if reading.gain is not None:
        had["affine"] = True
    if known.scope == former.scope:
        had |= {name: getattr(old, name) for name in _HANDED_ON if hasattr(old, name)}
    had = {name: value for name, value in had.items() if name in known.options}
    new = make_norm(key, reading.dim, **{**had, **kw})
    if reading.axis == 1 and key != "none":
        pooled = [part for part in new.modules() if hasattr(part, "channel_axis")]
        for part in pooled:
            setattr(part, "channel_axis", 1)  # noqa: B010 (not declared on nn.Module)
        new = new if pooled else ChannelsFirst(new)
    tensors = itertools.chain(old.parameters(), old.buffers(), model.parameters())
    like = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0))
    trained = [p.requires_grad for p in old.parameters()]
    new.requires_grad_(any(trained) or not trained)  # what is new trains, unless the old was frozen
    return new.to(like.device, like.dtype).train(old.training)


def _move_contents(
    key: str, old: nn.Module, new: nn.Module, reading: Reading
) -> tuple[list[str], list[str]]:
    """Copy gain, shift and statistics; return what was kept and what was dropped."""
    kept, dropped = [], []
    starts = (reading.start, start_of(key, new._parameters.get("weight"), reading.dim))
    for role, name, (start, new_start) in (
        ("weight", reading.gain, starts),
        ("bias", reading.shift, (0.0, 0.0)),
    ):
        if name is None:
            continue
        source, target = old.get_parameter(name).detach(), new._parameters.get(role)
        if target is None:
            largest = f"largest {source.abs().max().item():.3g}"
            dropped.append(f"{name} ({f'all {start:g}' if (source == start).all() else largest})")
            continue
        if bool((target != new_start).any()):
            dropped.append(f"{name} (an argument was given)")
            continue
        value, loss = _convert_parameter(source, target, start, new_start)
        target.data = value
        said = name if name == role else f"{name} as {role}"
        (dropped if loss else kept).append(f"{said}: {loss}" if loss else said)
    # Running statistics, and between norms of one class all else of the same shape.
    state, taken = old.state_dict(), (reading.gain, reading.shift)
    for name, target in new.state_dict(keep_vars=True).items():
        value = state.get(name)
        if value is None or name in taken or not (type(old) is type(new) or name in _STATE):
            continue
        target.data = value.detach().clone()
        kept.append(name)
    dropped += [name for name in state if name in _STATE and name not in kept]
    if reading.eps is not None and facts(key).eps_place == facts(reading.key).eps_place:
        kept += ["eps"] if getattr(new, "eps", None) == reading.eps else []
    return kept, dropped


def _convert_parameter(
    source: Tensor, target: Tensor, start: float, new_start: float
) -> tuple[Tensor, str]:
    """Turn what the old norm stores into what the new one stores; say what was lost, if anything.

    A parameter that starts at 0 holds gain − 1 (or is a shift); any other, gain times its start.
    """
    if source.shape == target.shape and start == new_start:
        return source.clone(), ""
    wide, loss = at_least_float32(source), ""
    gain = wide / start if start else wide + 1.0
    if target.numel() == 1 != gain.numel():
        if bool((gain != gain.flatten()[0]).any()):
            loss = f"{gain.numel()} gains became their mean"
        gain = gain.mean() if loss else gain.flatten()[0]
    exact = gain * new_start if new_start else gain - 1.0
    value = exact.to(source.dtype)
    if bool((value != exact).any()) and not loss:
        loss = f"rounded to {str(source.dtype).removeprefix('torch.')}"
    return value.expand(target.shape).clone(), loss


def _leave_fused_path(conversion: Conversion, model: nn.Module, new: set[nn.Module]) -> None:
    """Keep PyTorch's fused encoder layer from computing a norm that is no longer there.

    In evaluation nn.TransformerEncoderLayer hands the numbers `norm1.weight`, `norm1.bias` and
    `norm1.eps` to one fused operation, which is LayerNorm whatever module they belong to: a norm
    without these names would raise, and one that has them would silently be computed as LayerNorm.
    """
    new = {norm for norm in new if type(norm) is not LayerNorm or norm.bias is None}
    layers = {
        layer
        for layer in model.modules()
        if isinstance(layer, nn.TransformerEncoderLayer) and new & {*layer.children()}
    }
    for layer in layers:
        _set_attribute(conversion, layer, "activation_relu_or_gelu", 0)
    for encoder in model.modules():
        if isinstance(encoder, nn.TransformerEncoder) and layers & {*encoder.layers.children()}:
            _set_attribute(conversion, encoder, "use_nested_tensor", False)
    if layers:
        conversion.notes.append(
            f"PyTorch's fused path is off in {len(layers)} nn.TransformerEncoderLayer: it computes "
            "LayerNorm whatever the norm is"
        )
