"""What the laws need to know about each norm: its formula, its shapes, its defaults."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.check.formula import Formula

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Spec:
    """Describe one norm; `unit` marks the values of one set that shares statistics."""

    name: str
    formula: Formula
    roles: tuple[str, ...]  # the function's parameters, in labkit's order
    shapes: Callable[[int], tuple[Shape, ...]]  # the plain one first
    long_shape: Callable[[int, int], Shape]  # (dim, number of axes) -> many values in each unit
    unit: Callable[[Tensor, int], Tensor]
    unit_name: str
    documented_eps: tuple[float, ...] = (1e-5,)
    dim: int = 12
    sizes: tuple[int, ...] = ()  # further sizes of the normalized axis, where it is free
    shift: bool = True  # does the norm have a shift

    @property
    def centred(self) -> bool:
        """Say whether the mean is subtracted."""
        return self.formula.centre == "mean"


def _first_row(x: Tensor, groups: int) -> Tensor:
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask.view(-1, x.shape[-1])[0] = True
    return mask


def _first_channel(x: Tensor, groups: int) -> Tensor:
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[:, 0] = True
    return mask


def _first_group(x: Tensor, groups: int) -> Tensor:
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[0, : x.shape[1] // groups] = True
    return mask


def _row_shapes(dim: int) -> tuple[Shape, ...]:
    return (5, dim), (dim,), (3, 4, dim), (2, 3, 2, dim), (dim, dim) if dim <= 64 else (1, dim)


LAYER = Spec(
    name="layer_norm",
    formula=Formula(pool="last", features=-1),
    roles=("x", "weight", "bias", "eps"),
    shapes=_row_shapes,
    long_shape=lambda dim, axes: (24, dim),
    unit=_first_row,
    unit_name="row",
    sizes=(1, 2, 7, 33),
)
RMS = Spec(
    name="rms_norm",
    formula=Formula(pool="last", features=-1, centre="none"),
    roles=("x", "weight", "eps"),
    shapes=_row_shapes,
    long_shape=lambda dim, axes: (24, dim),
    unit=_first_row,
    unit_name="row",
    # torch's default, eps=None, is the machine epsilon of float32.
    documented_eps=(1e-6, torch.finfo(torch.float32).eps),
    sizes=(1, 2, 7, 33),
    shift=False,
)
BATCH = Spec(
    name="batch_norm",
    formula=Formula(pool="all but the channel", features=1),
    roles=("x", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    shapes=lambda dim: ((8, dim), (4, dim, 3), (3, dim, 2, 2), (2, dim, 1, 2, 2)),
    long_shape=lambda dim, axes: {2: (256, dim), 3: (32, dim, 8)}.get(
        axes, (16, dim, 4, 4, *[1] * (axes - 4))
    ),
    unit=_first_channel,
    unit_name="channel",
)
GROUP = Spec(
    name="group_norm",
    formula=Formula(pool="group", features=1),
    roles=("x", "num_groups", "weight", "bias", "eps"),
    shapes=lambda dim: ((3, dim, 5), (3, dim), (2, dim, 3, 2), (2, dim, 2, 1, 2)),
    long_shape=lambda dim, axes: (4, dim, *[64, 1, 1][: axes - 2]),
    unit=_first_group,
    unit_name="group",
)
