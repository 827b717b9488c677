"""Find out what a norm computes: from its class if that is PyTorch's or labkit's, else by a test.

A class name is not enough: T5LayerNorm is an RMSNorm, GemmaRMSNorm stores gain − 1 and
Gemma3nRMSNorm the gain. So a copy of an unknown norm runs on a small input, with random parameters,
and its output is compared with the formulas below.
"""

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.norms import (
    NORMS,
    annotated_layer_norm,
    facts,
    layer_norm,
    make_norm,
    rms_norm,
    rms_norm_outside,
)

_TORCH = {nn.LayerNorm: "layer", nn.RMSNorm: "rms", nn.GroupNorm: "group"}
_BATCH = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_INSTANCE = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_TORCH |= dict.fromkeys(_BATCH, "batch") | dict.fromkeys(_INSTANCE, "instance")
_EPS_NAMES = ("eps", "variance_epsilon", "epsilon", "norm_eps")
_USUAL_EPS = (1e-5, 1e-6, 1e-8, 1e-12, 0.0)


@dataclass
class Reading:
    """Formula of a norm, gain · f(x) + shift along one axis, and the names of both parameters."""

    key: str  # the formula: a key of NORMS
    axis: int  # -1: the last; 1: channels
    shape: tuple[int, ...]  # of what is normalized (or has its own gain)
    gain: str | None = None  # name of the parameter
    shift: str | None = None
    start: float = 1.0  # what the gain's parameter holds where the gain is 1
    eps: float | None = None


def read_norm(norm: nn.Module) -> Reading | str:
    """Return a norm's formula, or the reason why it is unknown."""
    if (key := key_of(norm)) is not None:
        return _by_class(norm, key)
    kind = next((kind for kind in type(norm).__mro__ if kind in _TORCH), None)
    if kind is not None and (type(norm).forward is kind.forward or _computes_as(norm, kind)):
        return _by_class(norm, _TORCH[kind])
    found = _probe_norm(norm)
    if kind is None or isinstance(found, Reading):
        return found
    inside = ", ".join(name for name, _ in norm.named_children())
    more = f"more in the same module ({inside})" if inside else "something else"
    return (
        f"it is a {kind.__name__} that computes {more}; pass a callable that makes the new norm "
        "and what follows it"
    )


def _computes_as(norm: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether a subclass of one of torch's norms computes the same as its parent."""
    generator = torch.Generator().manual_seed(0)
    shape: list[int] = [5, *getattr(norm, "normalized_shape", ())]
    if (channels := _find_attribute(norm, "num_channels", "num_features")) is not None:
        shape = [
            channels,
            *[4] * (1 if "1d" in kind.__name__ else 3 if "3d" in kind.__name__ else 2),
        ]
    x = torch.randn(3, *shape, generator=generator)
    twin = copy.deepcopy(norm).cpu().float()
    try:
        with torch.no_grad():
            for p in twin.parameters():  # a gain of 0 would hide the rest
                p.copy_(torch.rand(p.shape, generator=generator) + 0.5)
            for mode in (True, False):
                one, other = (copy.deepcopy(twin).train(mode) for _ in range(2))
                if not torch.allclose(one(x), kind.forward(other, x), rtol=1e-5, atol=1e-5):
                    return False
    except Exception:  # foreign code
        return False
    return True


def key_of(norm: nn.Module) -> str | None:
    """Return the key of a norm of labkit or torch; None for others."""
    own = (key for key, kind in NORMS.items() if type(norm) is kind)
    return _TORCH.get(type(norm)) or next(own, None)


def _by_class(norm: nn.Module, key: str) -> Reading | str:
    if key == "none":
        return "an identity has no width"
    size = _find_attribute(norm, "normalized_shape", "num_channels", "num_features", "dim")
    if size is None:
        return "its width cannot be determined; pass a callable that makes the new norm"
    shape: tuple[int, ...] = (size,) if isinstance(size, int) else tuple(size)
    own = dict(norm.named_parameters(recurse=False))
    gain, shift = (name if name in own else None for name in ("weight", "bias"))
    of_torch = isinstance(norm, tuple(_TORCH)) and type(norm) not in NORMS.values()
    channels_first = of_torch and hasattr(NORMS[key], "on_last_axis")
    axis = _find_attribute(norm, "channel_axis") or (1 if channels_first else -1)
    eps = getattr(norm, "eps", None)
    if eps is None and hasattr(norm, "eps"):  # torch's None: the epsilon of the computation
        dtypes = [parameter.dtype for parameter in norm.parameters()] or [torch.float32]
        eps = torch.finfo(torch.promote_types(dtypes[0], torch.float32)).eps
    start = 1.0 if of_torch else start_of(make_plain_norm(key, shape))
    return Reading(key, axis, shape, gain, shift, start, eps)


def _find_attribute(norm: nn.Module, *names: str) -> Any:
    """Return the first of these attributes that the norm or one of its parts has."""
    found = (getattr(part, name, None) for part in norm.modules() for name in names)
    return next((value for value in found if value is not None), None)


def make_plain_norm(key: str, shape: tuple[int, ...]) -> nn.Module:
    """Make a norm with default arguments."""
    groups = {"num_groups": 1} if "num_groups" in facts(key).options else {}
    return make_shaped_norm(key, shape, **groups)


def takes_many_axes(key: str) -> bool:
    """Return whether a norm of this kind can normalize several axes at once."""
    return issubclass(facts(key).module, nn.LayerNorm | nn.RMSNorm | nn.Identity)


def make_shaped_norm(key: str, shape: tuple[int, ...], **kw: Any) -> nn.Module:
    """Make a norm over one axis, or over all if its kind can normalize several at once."""
    if len(shape) == 1 or key == "none":
        return make_norm(key, shape[0], **kw)
    return NORMS[key](shape, **kw)  # pyright: ignore[reportCallIssue]


def start_of(fresh: nn.Module) -> float:
    """Return the `weight` of a fresh norm that leaves the standardized value unchanged.

    It is 0 if the norm stores gain − 1, and sqrt(dim) if the weight is one number, the length of
    the result.
    """
    weight = getattr(fresh, "weight", None)
    if not isinstance(weight, Tensor):
        return 1.0
    if not weight.any():
        return 0.0
    dim = getattr(fresh, "dim", 1)
    return float(dim) ** 0.5 if weight.shape == (1,) else 1.0


# Over the last axis; rows that a formula should tell apart differ in mean and in length.
FORMULAS: dict[str, Callable[..., Tensor]] = {
    "layer": layer_norm,
    "rms": rms_norm,
    "annotated-layer": annotated_layer_norm,
    "rms-outside": rms_norm_outside,
}


def _probe_norm(norm: nn.Module) -> Reading | str:
    """Run a copy in float32 on random parameters and rows, and find the formula that fits."""
    own = {name: tuple(p.shape) for name, p in norm.named_parameters()}
    shape = next(iter(own.values()), getattr(norm, "normalized_shape", None))
    if buffers := [name for name, _ in norm.named_buffers()]:
        return f"it has state of its own ({', '.join(buffers)})"
    if shape is None:
        return "its width cannot be determined; pass a callable that makes the new norm"
    if len(own) > 2 or len(set(own.values())) > 1 or len(shape) != 1:
        held = ", ".join(f"{name} {size}" for name, size in own.items())
        return f"it must have one gain and one shift per feature, but has {held or shape}"
    generator = torch.Generator().manual_seed(0)
    twin = copy.deepcopy(norm).float().eval()
    device = next((p.device for p in twin.parameters()), torch.device("cpu"))
    drawn = {name: torch.rand(shape, generator=generator) + 0.5 for name in own}
    with torch.no_grad():
        for name, value in drawn.items():
            twin.get_parameter(name).copy_(value)
        sizes = torch.tensor([1.0, 1e-2, 1e-3]).view(3, 1, 1)
        x = (torch.randn(3, 5, *shape, generator=generator) + 0.3) * sizes
        reason = ""
        for axis, rows in ((-1, x), (1, x.transpose(1, 2).unsqueeze(-1))):
            try:
                y = twin(rows.clone().to(device))
            except Exception as error:  # foreign code: any error is the reason
                said = f"{type(error).__name__}: {error}"
                reason = reason or f"its forward fails on a trial row ({said})"
                continue
            if not isinstance(y, Tensor) or y.shape != rows.shape:
                reason = reason or "its output on a trial row does not have the shape of the row"
                continue
            y = y.cpu().double().movedim(axis, -1).view(x.shape)
            found = _fit_formula(x.double(), y, axis, drawn, _eps_of(norm))
            if found is not None:
                return found
            reason = "its output on trial rows matches no formula known here"
    return reason


def _eps_of(norm: nn.Module) -> tuple[float, ...]:
    named = (getattr(norm, name, None) for name in _EPS_NAMES)
    return (*(eps for eps in named if isinstance(eps, float) and eps >= 0), *_USUAL_EPS)


def _fit_formula(
    x: Tensor, y: Tensor, axis: int, drawn: dict[str, Tensor], eps_tried: Sequence[float]
) -> Reading | None:
    names: list[str | None] = [*drawn, None, None]
    by_name = {name: value.double() for name, value in drawn.items()}
    # The deviation of a single number is 0, and annotated_layer_norm refuses it.
    keys = FORMULAS if x.shape[-1] > 1 else ("rms", "rms-outside")
    for key, eps in itertools.product(keys, eps_tried):
        standard = FORMULAS[key](x, eps=eps)
        for gain, shift in itertools.permutations(names, 2):
            if {gain, shift} - {None} != set(drawn):
                continue
            for start in (1.0, 0.0) if gain else (1.0,):
                scale = 1.0 if gain is None else by_name[gain] + (1.0 - start)
                fitted = standard * scale + (0.0 if shift is None else by_name[shift])
                # a float32 evaluation errs by about 1e-6; formulas differ by 1/dim and more
                if bool((fitted - y).abs().max() < 1e-5 * y.abs().max()):
                    return Reading(key, axis, x.shape[-1:], gain, shift, start, eps)
    return None
