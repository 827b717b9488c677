"""What the laws need to know about a norm: formula, shapes, parameters, defaults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from labkit.check.formula import Formula
from labkit.check.standardize import Standardize

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Learned:
    """A learnable parameter, as the laws speak of it."""

    name: str  # in a sentence
    law: str  # the name of its law
    each: bool = True  # one number for each feature, or one for all
    start: Callable[[int], float] = lambda dim: 1.0
    centre: float = 0.5  # where the laws draw it


GAIN = Learned("the gain", "gain")
SHIFT = Learned("the shift", "shift", start=lambda dim: 0.0, centre=0.0)


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
    learned: Mapping[str, Learned] = field(default_factory=lambda: {"weight": GAIN})
    settings: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: {"eps": (1e-5,)})
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dim: int = 12
    sizes: tuple[int, ...] = ()  # further sizes of the normalized axis, where it is free
    odd: tuple[str, ...] = ()  # inputs that the norm says nothing about: constant
    rounds: str = "once"  # in half precision | as torch | freely: each operation may round

    @property
    def standardizes(self) -> Standardize | None:
        """Return the formula if it is one with statistics."""
        return self.formula if isinstance(self.formula, Standardize) else None

    @property
    def centred(self) -> bool:
        """Return whether the mean is subtracted."""
        return self.standardizes is not None and self.standardizes.centre == "mean"

    @property
    def pools_batch(self) -> bool:
        """Return whether samples share statistics."""
        formula = self.standardizes
        return formula is not None and formula.pool in ("all but the channel", "all but the last")

    @property
    def runs(self) -> bool:
        """Return whether running statistics are kept: the batch norms."""
        return "running_mean" in self.roles


def first_row(x: Tensor, groups: int) -> Tensor:
    """Mark the first vector on the last axis."""
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask.view(-1, x.shape[-1])[0] = True
    return mask


def first_value(x: Tensor, groups: int) -> Tensor:
    """Mark one value."""
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask.view(-1)[0] = True
    return mask


def first_channel(x: Tensor, groups: int) -> Tensor:
    """Mark the first channel of all samples."""
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[:, 0] = True
    return mask


def first_feature(x: Tensor, groups: int) -> Tensor:
    """Mark the first feature of all tokens."""
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[..., 0] = True
    return mask


def first_group(x: Tensor, groups: int) -> Tensor:
    """Mark the first group of channels of the first sample."""
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[0, : x.shape[1] // groups] = True
    return mask


def first_map(x: Tensor, groups: int) -> Tensor:
    """Mark the first channel of the first sample."""
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[0, 0] = True
    return mask
