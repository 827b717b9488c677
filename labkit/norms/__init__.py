"""Norms: one file each, with the formula as a pure function and a module that owns its tensors.

`NORMS` maps a name to its module; `make_norm(name, dim)` makes one that normalizes (or pools, for
batch norm) the last axis of any tensor, as a transformer needs. Each class declares further facts
about its norm in attributes named like the fields of `Facts`; `facts(name)` returns them, with the
options that make_norm takes.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral
from typing import Any, Literal

from torch import Tensor, nn

from labkit.norms._arguments import check_option
from labkit.norms.annotated_layer_norm import AnnotatedLayerNorm, annotated_layer_norm
from labkit.norms.batch_norm import BatchNorm, batch_norm
from labkit.norms.bounded_tanh import BoundedTanh, bounded_tanh
from labkit.norms.dynamic_erf import DynamicErf, dynamic_erf
from labkit.norms.dynamic_tanh import DynamicTanh, dynamic_tanh
from labkit.norms.group_norm import GroupNorm, group_norm
from labkit.norms.instance_norm import InstanceNorm, instance_norm
from labkit.norms.l2_norm import L2Norm, l2_norm
from labkit.norms.layer_norm import LayerNorm, layer_norm
from labkit.norms.partial_rms_norm import PartialRMSNorm, partial_rms_norm
from labkit.norms.power_norm import PowerNorm, power_norm
from labkit.norms.prep_batch_norm import PRepBatchNorm
from labkit.norms.rep_batch_norm import RepBatchNorm, rep_batch_norm
from labkit.norms.rms_norm import RMSNorm, rms_norm
from labkit.norms.rms_variants import (
    GemmaRMSNorm,
    LlamaRMSNorm,
    OutsideRMSNorm,
    T5RMSNorm,
    rms_norm_gemma,
    rms_norm_llama,
    rms_norm_outside,
    rms_norm_t5,
)
from labkit.norms.scale_norm import ScaleNorm, scale_norm
from labkit.system.unknown import explain_unknown

NORMS: dict[str, type[nn.Module]] = {
    "batch": BatchNorm,
    "layer": LayerNorm,
    "annotated-layer": AnnotatedLayerNorm,
    "rms": RMSNorm,
    "rms-llama": LlamaRMSNorm,
    "rms-gemma": GemmaRMSNorm,
    "rms-t5": T5RMSNorm,
    "rms-outside": OutsideRMSNorm,
    "partial-rms": PartialRMSNorm,
    "instance": InstanceNorm,
    "group": GroupNorm,
    "scale": ScaleNorm,
    "l2": L2Norm,
    "power": PowerNorm,
    "rep-batch": RepBatchNorm,
    "prep-batch": PRepBatchNorm,
    "dyt": DynamicTanh,
    "derf": DynamicErf,
    "bhyt": BoundedTanh,
    "none": nn.Identity,
}


@dataclass(frozen=True)
class Facts:
    """Facts about one norm; fields that a class does not declare have their defaults.

    Tables, attention, `convert`, batched training and norm maps read them from here.
    """

    module: type[nn.Module]
    options: dict[str, Any]  # the keywords of make_norm, with their defaults
    equation: str = "y = x"
    source: str = ""
    # Its arguments are the module's attributes by name; None: the module is more than a function.
    function: Callable[..., Tensor] | None = None
    # Scope of one token's result, on the last axis: the token, its sample, or the batch.
    scope: Literal["token", "sample", "batch"] = "token"
    first_values: tuple[str, ...] = ()  # the options that only set a parameter's initial value
    # Or "added to the deviation", "least length": an eps keeps its meaning where it stands alike.
    eps_place: str = "inside the root"
    same_as: str | None = None  # the norm that it equals except for eps, rounding and gain
    start: float = 1.0  # the `weight` for a gain of 1


def facts(name: str) -> Facts:
    """Return the facts about the norm called `name`, with its class and its options."""
    module = _look_up(name)
    found = {f.name: getattr(module, f.name) for f in fields(Facts) if hasattr(module, f.name)}
    options = {key: parameter.default for key, parameter in _list_options(module).items()}
    return Facts(**{**found, "module": module, "options": options})


def make_norm(name: str, dim: int, **kw) -> nn.Module:
    """Make the norm called `name` for `dim` features on the last axis; `kw` are its options."""
    module = _look_up(name)
    if not isinstance(dim, Integral) or isinstance(dim, bool):
        raise TypeError(
            f"dim must be a whole number, the size of the last axis (x.shape[-1]); got {dim!r}"
        )
    if dim < 1:
        raise ValueError(f"a norm needs at least one feature, got dim={dim}")
    options = _list_options(module)
    if unknown := [key for key in kw if key not in options]:
        if unknown == ["eps"]:
            raise TypeError(f"norm {name!r} has no option eps, got eps={kw['eps']}; leave it out")
        raise TypeError(
            f"norm {name!r} has no option {', '.join(unknown)}; it takes "
            f"{', '.join(options) or 'no options'}"
        )
    kw = {key: check_option(name, options[key], value) for key, value in kw.items()}
    # A norm over a different axis defines how to make it for the last one.
    make = getattr(module, "on_last_axis", module)
    return make(dim, **kw)


def _look_up(name: str) -> type[nn.Module]:
    if not isinstance(name, str):
        raise TypeError(
            f"the name of a norm must be a string, got {name!r}; choose one of {', '.join(NORMS)}"
        )
    if name not in NORMS:
        raise ValueError(explain_unknown("norm", name, NORMS))
    return NORMS[name]


# The size of the norm, and the axis, which make_norm chooses itself.
_CHOSEN = ("dim", "num_features", "num_channels", "normalized_shape", "channel_axis", "self", "cls")


@cache  # a deep model reads its norms' options thousands of times
def _list_options(module: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """List the keyword arguments of a norm, including those that it passes to base classes."""
    makers = [
        getattr(module, "on_last_axis", None),
        *[vars(c).get("__init__") for c in _own(module)],
    ]
    found: dict[str, inspect.Parameter] = {}
    for maker in filter(None, makers):
        for key, parameter in inspect.signature(maker).parameters.items():
            named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if named and key not in _CHOSEN:
                found.setdefault(key, parameter)
    return found


def _own(module: type[nn.Module]) -> list[type]:
    """List the classes whose constructors take part, up to the one that passes no keywords on."""
    classes = []
    for cls in module.__mro__[: module.__mro__.index(nn.Module)]:
        if made := vars(cls).get("__init__"):
            classes.append(cls)
            kinds = [p.kind for p in inspect.signature(made).parameters.values()]
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                break
    return classes
