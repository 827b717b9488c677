"""Norms: one file each, the formula as a pure function first, then the module that owns tensors.

`NORMS` maps a name to its module; `make_norm(name, dim)` makes one that normalizes (or pools,
for batch norm) the last axis of any tensor, which is what a transformer needs.
"""

from collections.abc import Callable

from torch import nn

from labkit.norms.batch_norm import BatchNorm, batch_norm
from labkit.norms.group_norm import GroupNorm, group_norm
from labkit.norms.layer_norm import LayerNorm, layer_norm
from labkit.norms.rms_norm import RMSNorm, rms_norm

__all__ = [
    "NORMS",
    "BatchNorm",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
    "batch_norm",
    "group_norm",
    "layer_norm",
    "make_norm",
    "rms_norm",
]

NORMS: dict[str, type[nn.Module]] = {
    "batch": BatchNorm,
    "layer": LayerNorm,
    "rms": RMSNorm,
    "group": GroupNorm,
    "none": nn.Identity,
}

# How a norm of `dim` features on the last axis is made, where it is not simply type(dim, **kw).
_ON_LAST_AXIS: dict[str, Callable[..., nn.Module]] = {
    "batch": lambda dim, **kw: BatchNorm(dim, channel_axis=-1, **kw),
    "group": lambda dim, num_groups=8, **kw: GroupNorm(num_groups, dim, channel_axis=-1, **kw),
    "none": lambda dim, eps=0.0: nn.Identity(),
}


def make_norm(name: str, dim: int, **kw) -> nn.Module:
    """Make the norm called `name` for `dim` features on the last axis; `kw` as its constructor."""
    if name not in NORMS:
        raise ValueError(f"unknown norm {name!r}; choose one of {', '.join(NORMS)}")
    if dim < 1:
        raise ValueError(f"a norm needs at least one feature, got dim={dim}")
    if (eps := kw.get("eps")) is not None and not eps >= 0:
        raise ValueError(f"{name} needs eps >= 0, got {eps}; the usual value is 1e-5 or 1e-6")
    return _ON_LAST_AXIS.get(name, NORMS[name])(dim, **kw)
