"""Make the new norm and copy the old one's gain, shift, eps and statistics to it.

A gain is converted, not copied: the factor on the standardized value stays the same, but each class
stores it differently: GemmaRMSNorm as gain − 1, ScaleNorm as one number, sqrt(dim) · gain.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from labkit.convert.read import Reading, make_plain_norm, make_shaped_norm, start_of
from labkit.norms import facts
from labkit.norms._common import at_least_float32, laid_out_as
from labkit.norms.prep_batch_norm import PRepBatchNorm

_STATE = ("running_mean", "running_var", "num_batches_tracked")


class ChannelsFirst(nn.Module):
    """Apply a norm over the last axis to axis 1, for images (batch, channels, height, width)."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Move the channels last, normalize, move them back into the input's memory format."""
        return laid_out_as(x, self.norm(x.movedim(1, -1)).movedim(-1, 1))


@dataclass
class Moved:
    """The result of copying the old norm's parameters and statistics."""

    kept: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    exact: bool = True  # no content that matters was lost


def build_norm(
    key: str, kw: dict[str, Any], old: nn.Module, reading: Reading, model: nn.Module
) -> nn.Module:
    """Make the norm `key` in place of `old`, with its eps, dtype, device and mode.

    If the old norm has no tensors, the model's dtype and device are used.
    """
    known, former = facts(key), facts(reading.key)
    kw, takes = dict(kw), known.options
    if "eps" in takes and "eps" not in kw and known.eps_place == former.eps_place:
        kw |= {} if reading.eps is None else {"eps": reading.eps}
    if reading.gain is not None and "affine" in takes:
        kw.setdefault("affine", True)
    for name in ("num_groups", "momentum", "track_running_stats"):
        if known.scope == former.scope and name not in kw and name in takes and hasattr(old, name):
            kw[name] = getattr(old, name)
    new = make_shaped_norm(key, reading.shape, **kw)
    if reading.axis == 1 and key != "none":
        pooled = [part for part in new.modules() if hasattr(part, "channel_axis")]
        for part in pooled:
            setattr(part, "channel_axis", 1)  # noqa: B010 (not declared on nn.Module)
        new = new if pooled else ChannelsFirst(new)
    # The first floating-point tensor decides, because a norm may have none.
    tensors = itertools.chain(old.parameters(), old.buffers(), model.parameters())
    like = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0))
    return new.to(like.device, like.dtype).train(old.training)


def move_contents(key: str, old: nn.Module, new: nn.Module, reading: Reading) -> Moved:
    """Copy gain, shift and statistics."""
    moved = Moved()
    inner, default = (
        _choose_branch(norm, reading.key) for norm in (new, make_plain_norm(key, reading.shape))
    )
    trained = [p.requires_grad for p in old.parameters()]
    for p in new.parameters():  # new parameters train, unless the old norm was frozen
        p.requires_grad_(any(trained) or not trained)
    starts = {"weight": (reading.start, start_of(default))}
    done: set[str] = set()
    for role, name in (("weight", reading.gain), ("bias", reading.shift)):
        if name is None:
            continue
        source, target = old.get_parameter(name), inner._parameters.get(role)
        start, new_start = starts.get(role, (0.0, 0.0))
        if target is not None and not _as_by_default(target, default._parameters.get(role)):
            moved.dropped.append(f"{name} (an argument was given)")
            moved.exact = False
            continue
        if target is None:
            moved.dropped.append(f"{name} ({_describe_size(source, start)})")
            moved.exact &= bool((source == start).all())
            continue
        value, loss = _convert_parameter(source.detach(), target, start, new_start)
        moved.exact &= not loss
        inner._parameters[role] = nn.Parameter(value, source.requires_grad)
        done.add(role)
        said = name if name == role else f"{name} as {role}"
        (moved.dropped if loss else moved.kept).append(f"{said}: {loss}" if loss else said)
    _move_rest(old, inner, type(old) is type(inner), done, moved)
    taken = {id(p) for name, p in inner.named_parameters() if name in done}
    if reading.eps is not None and facts(key).eps_place == facts(reading.key).eps_place:
        moved.kept += [_say_eps(reading)] if getattr(inner, "eps", None) == reading.eps else []
    moved.fresh = [name for name, p in new.named_parameters() if id(p) not in taken]
    return moved


def _say_eps(reading: Reading) -> str:
    """Format eps with its value, because a model may have two values of eps."""
    return f"eps {reading.eps:g}"


def _move_rest(old: nn.Module, new: nn.Module, alike: bool, done: set[str], moved: Moved) -> None:
    """Copy the running statistics and, for norms of the same class, all other matching state."""
    state = {name: value for name, value in old.state_dict().items() if name not in done}
    for name, target in new.state_dict(keep_vars=True).items():
        value = state.get(name)
        if name in done or value is None or not (alike or name in _STATE):
            continue
        if value.shape == target.shape:
            target.data = value.detach().clone()
            done.add(name)
            moved.kept.append(name)
    moved.dropped += [name for name in state if name in _STATE and name not in done]


def _as_by_default(target: Tensor, default: Tensor | None) -> bool:
    return default is None or bool((target.cpu().float() == default.float()).all())


def _convert_parameter(
    source: Tensor, target: Tensor, start: float, new_start: float
) -> tuple[Tensor, str]:
    """Convert a stored parameter from the old norm to the new; also return a note on any loss.

    A parameter that starts at 0 stores gain − 1; any other stores gain times its initial value.
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


def _describe_size(value: Tensor, start: float) -> str:
    if bool((value == start).all()):
        return f"all {start:g}"
    return f"largest {value.detach().abs().max().item():.3g}"


def _choose_branch(norm: nn.Module, key: str) -> nn.Module:
    """Return the part that receives the old norm's state: for PRepBN, the branch of that kind."""
    norm = unwrap_norm(norm)
    if not isinstance(norm, PRepBatchNorm) or key == "prep-batch":
        return norm
    return norm.rep if key in ("batch", "rep-batch") else norm.layer


def unwrap_norm(norm: nn.Module) -> nn.Module:
    """Return the norm itself, without any ChannelsFirst around it."""
    return norm.norm if isinstance(norm, ChannelsFirst) else norm


def compare_functions(
    reading: Reading, key: str, old: nn.Module, new: nn.Module, moved: Moved
) -> str:
    """Describe the inputs on which the new norm computes the same function as the old one."""
    if not moved.exact:
        return "another function"
    # The same function except for eps and rounding, if their gains agree.
    kinds = {facts(name).same_as or name for name in (key, reading.key)}
    if key == reading.key:
        same, settings = "same", _read_settings(old)
        if any(
            settings.get(k, value) != value for k, value in _read_settings(unwrap_norm(new)).items()
        ):
            return "another function"
    elif len(kinds) == 1:
        same = "same"
    elif kinds == {"layer", "rms"}:
        same = "same on zero-mean input"
    else:
        return "another function"
    if reading.eps is not None and _say_eps(reading) not in moved.kept:
        return f"{same}, but for eps"
    return f"{same}, but for rounding" if same == "same" and key != reading.key else same


def _read_settings(norm: nn.Module) -> dict[str, object]:
    """Return the numbers and flags that a norm's formula depends on, except eps."""
    skipped = ("training", "eps", "elementwise_affine", "affine", "channel_axis")
    return {
        name: value
        for name, value in vars(norm).items()
        if isinstance(value, int | float) and name not in skipped and name[0] != "_"
    }
