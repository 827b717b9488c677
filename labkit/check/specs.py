"""The norms that can be checked, one Norm each; facts are from the papers and their code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from labkit.check.formula import Formula

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Learned:
    """A learnable parameter, as the laws describe it."""

    name: str  # in a sentence
    law: str  # the name of its law
    each: bool = True  # one number for each feature, or one for all
    start: Callable[[int], float] = lambda dim: 1.0
    centre: float = 0.5  # where the laws draw it


GAIN = Learned("the gain", "gain")
SHIFT = Learned("the shift", "shift", start=lambda dim: 0.0, centre=0.0)
_BOTH: Mapping[str, Learned] = {"weight": GAIN, "bias": SHIFT}

# The unit that shares statistics: its name in a sentence, and the first such part of x.
UNITS: dict[str, Callable[[Tensor, int], tuple]] = {
    "row": lambda x, groups: (*[0] * (x.ndim - 1), slice(None)),
    "value": lambda x, groups: (0,) * x.ndim,
    "channel": lambda x, groups: (slice(None), 0),
    "feature": lambda x, groups: (..., 0),
    "group": lambda x, groups: (0, slice(x.shape[1] // groups)),
    "channel of a sample": lambda x, groups: (0, 0),
}


def _row_shapes(dim: int) -> tuple[Shape, ...]:
    square = (dim, dim) if dim <= 64 else (1, dim)
    return (5, dim), (3, 4, dim), (dim,), (2, 3, 2, dim), square, (1, dim), (1, 1, dim)


@dataclass(frozen=True)
class Norm:
    """Description of one norm for the laws; the defaults are those of a norm over the last axis."""

    name: str
    formula: Formula
    roles: tuple[str, ...]  # the function's parameters after x, in labkit's order
    learned: Mapping[str, Learned] = field(default_factory=lambda: {"weight": GAIN})
    # Defaults; if several are documented, the first is labkit's.
    settings: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: {"eps": (1e-5,)})
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit_name: str = "row"  # a key of UNITS
    shapes: Callable[[int], tuple[Shape, ...]] = _row_shapes  # the plain one first
    long_shape: Callable[[int, int], Shape] = lambda dim, axes: (24, dim)  # many values a unit
    dim: int = 12
    sizes: tuple[int, ...] = (1, 2, 7, 33, 64, 1030)  # of the normalized axis, where it is free
    odd: bool = False  # the gradient at a constant unit is a matter of convention
    # In half precision: once | as torch | freely: each operation may round | statistics too.
    rounds: str = "once"

    @property
    def centred(self) -> bool:
        """Return whether the mean is subtracted."""
        return bool(self.formula.pool) and self.formula.centre == "mean"

    @property
    def pools_batch(self) -> bool:
        """Return whether samples share statistics."""
        return self.formula.pool in ("all but the channel", "all but the last")

    @property
    def runs(self) -> bool:
        """Return whether the norm has running statistics (batch norms)."""
        return "running_mean" in self.roles

    def unit(self, x: Tensor, groups: int) -> Tensor:
        """Return a mask of the first set of values that share statistics."""
        mask = torch.zeros_like(x, dtype=torch.bool)
        mask[UNITS[self.unit_name](x, groups)] = True
        return mask


LAYER = Norm("layer_norm", Formula(), ("weight", "bias", "eps"), _BOTH)
ANNOTATED = Norm(
    "annotated_layer_norm",
    Formula(correction=1, eps_at="outside"),
    ("weight", "bias", "eps"),
    _BOTH,
    {"eps": (1e-6,)},
    sizes=(2, 7, 33, 64, 1030),  # one value has no unbiased deviation
    odd=True,
)
RMS = Norm(
    "rms_norm",
    Formula(centre="none"),
    ("weight", "eps"),
    # torch's default, eps=None, is the machine epsilon of float32.
    settings={"eps": (1e-6, torch.finfo(torch.float32).eps)},
)
GEMMA = replace(
    RMS,
    formula=Formula(centre="none", gain="one plus"),
    learned={"weight": Learned("the gain", "gain", start=lambda dim: 0.0)},
)
# The authors' code computes in the input's dtype, so its rounding is not checked.
OUTSIDE = replace(
    RMS,
    formula=Formula(centre="none", eps_at="outside"),
    settings={"eps": (1e-8,)},
    odd=True,
    rounds="statistics too",
)
RMS_VARIANTS = {"torch": RMS, "llama": RMS, "gemma": GEMMA, "t5": RMS, "outside": OUTSIDE}
PARTIAL = Norm(
    "partial_rms_norm",
    Formula(centre="none", part="first"),
    ("weight", "eps", "p"),
    settings={"eps": (1e-6,), "p": (0.0625,)},
    aliases={"p": ("p", "partial", "fraction", "portion", "k")},
    dim=44,
    sizes=(1, 2, 7, 12, 33, 64, 1030),
)
_LENGTH = Formula(centre="none", summed=True, eps_at="floor of the root")
SCALE = Norm(
    "scale_norm",
    replace(_LENGTH, unset_gain="root of d"),
    ("weight", "eps"),
    {"weight": Learned("g", "gain", each=False, start=lambda dim: dim**0.5)},
)
L2 = Norm(
    "l2_norm",
    _LENGTH,
    ("weight", "eps"),
    {"weight": Learned("g", "gain", each=False)},
    {"eps": (1e-12,)},
    {"weight": ("temperature", "tau", "t")},
)
POWER = Norm(
    "power_norm",
    Formula(centre="none", pool="all but the last"),
    ("weight", "bias", "eps", "mask"),
    _BOTH,
    unit_name="feature",
    shapes=lambda dim: ((8, dim), (3, 4, dim), (2, 3, 2, dim), (1, 6, dim), (dim, dim)),
    long_shape=lambda dim, axes: (256, dim),
    sizes=(1, 2, 33),
)
_RUNNING = ("running_mean", "running_var")
BATCH = Norm(
    "batch_norm",
    Formula(pool="all but the channel", features=1),
    (*_RUNNING, "weight", "bias", "training", "momentum", "eps", "mask"),
    _BOTH,
    unit_name="channel",
    shapes=lambda dim: (
        (8, dim),
        (4, dim, 3),
        (3, dim, 2, 2),
        (2, dim, 1, 2, 2),
        (1, dim, 4),
        (2, dim),
    ),
    long_shape=lambda dim, axes: {2: (256, dim), 3: (32, dim, 8)}.get(
        axes, (16, dim, 4, 4, *[1] * (axes - 4))
    ),
    sizes=(),
)
REP = replace(
    BATCH,
    name="rep_batch_norm",
    formula=Formula(pool="all but the channel", features=1, skip=True),
    roles=(*_RUNNING, "weight", "bias", "eta", "training", "momentum", "eps", "mask"),
    learned={**_BOTH, "eta": Learned("eta", "eta", each=False)},
    aliases={"eta": ("alpha", "skip")},
)
GROUP = Norm(
    "group_norm",
    Formula(pool="group", features=1),
    ("num_groups", "weight", "bias", "eps"),
    _BOTH,
    unit_name="group",
    shapes=lambda dim: ((3, dim, 5), (3, dim), (2, dim, 3, 2), (2, dim, 2, 1, 2), (1, dim, 4)),
    long_shape=lambda dim, axes: (4, dim, *[64, 1, 1][: axes - 2]),
    sizes=(),
)
INSTANCE = replace(
    GROUP,
    name="instance_norm",
    formula=Formula(pool="space", features=1),
    roles=("weight", "bias", "eps"),
    shapes=lambda dim: ((3, dim, 5), (2, dim, 3, 2), (2, dim, 2, 1, 2), (1, dim, 4)),
    unit_name="channel of a sample",
    rounds="as torch",
)
_ALPHA = Learned("alpha", "alpha", each=False, start=lambda dim: 0.5, centre=0.8)
_INNER = Learned("the inner shift", "inner shift", False, lambda dim: 0.0, 0.3)
DYT = Norm(
    "dynamic_tanh",
    Formula(pool="", f="tanh"),
    ("alpha", "weight", "bias"),
    {"alpha": _ALPHA, **_BOTH},
    {},
    unit_name="value",
    rounds="freely",
)
DERF = replace(
    DYT,
    name="dynamic_erf",
    formula=Formula(pool="", f="erf"),
    roles=("alpha", "shift", "weight", "bias"),
    learned={"alpha": _ALPHA, "shift": _INNER, **_BOTH},
    aliases={"shift": ("shift", "s", "inner_shift")},
)
BHYT = Norm(
    "bounded_tanh",
    Formula(centre="none", f="tanh", slope="scale", slope_start=1.0, bound="inside"),
    ("scale", "weight", "bound", "eps"),
    {"scale": Learned("lambda", "lambda", each=False, centre=2.0), "weight": GAIN},
    {"bound": (10.0,), "eps": (1e-6,)},
    {
        "scale": ("scale", "lambda_", "lam", "lmbda", "alpha"),
        "bound": ("bound", "kappa", "k"),
    },
    rounds="freely",
)
IDENTITY = Norm("identity", Formula(pool=""), (), {}, {}, unit_name="value", rounds="freely")
