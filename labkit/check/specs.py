"""The table of norms that the check knows, one Spec each; facts as in the papers and codes."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from labkit.check import spec
from labkit.check.formula import Identity
from labkit.check.spec import GAIN, SHIFT, Learned, Shape, Spec
from labkit.check.squash import BoundedTanh, Squash
from labkit.check.standardize import RepStandardize, Standardize


def _row_shapes(dim: int) -> tuple[Shape, ...]:
    square = (dim, dim) if dim <= 64 else (1, dim)
    return (5, dim), (dim,), (3, 4, dim), (2, 3, 2, dim), square, (1, dim), (1, 1, dim)


def _rows(name: str, formula, roles: tuple[str, ...], **rest) -> Spec:
    rest = {
        "unit": spec.first_row,
        "unit_name": "row",
        "shapes": _row_shapes,
        "long_shape": lambda dim, axes: (24, dim),
        "sizes": (1, 2, 7, 33, 64, 1030),
        **rest,
    }
    return Spec(name=name, formula=formula, roles=("x", *roles), **rest)


_BOTH: Mapping[str, Learned] = {"weight": GAIN, "bias": SHIFT}

LAYER = _rows("layer_norm", Standardize(), ("weight", "bias", "eps"), learned=_BOTH)
ANNOTATED = _rows(
    "annotated_layer_norm",
    Standardize(correction=1, eps_at="outside"),
    ("weight", "bias", "eps"),
    learned=_BOTH,
    settings={"eps": (1e-6,)},
    sizes=(2, 7, 33, 64, 1030),  # one value has no unbiased deviation
    odd=("constant",),  # its derivative at deviation 0 is a matter of convention
)
RMS = _rows(
    "rms_norm",
    Standardize(centre="none"),
    ("weight", "eps"),
    # torch's default, eps=None, is the machine epsilon of float32.
    settings={"eps": (1e-6, torch.finfo(torch.float32).eps)},
)
GEMMA = replace(
    RMS,
    formula=Standardize(centre="none", gain="one plus"),
    learned={"weight": Learned("the gain", "gain", start=lambda dim: 0.0)},
)
OUTSIDE = replace(
    RMS,
    formula=Standardize(centre="none", eps_at="outside"),
    settings={"eps": (1e-8,)},
    odd=("constant",),
)
RMS_VARIANTS = {"torch": RMS, "llama": RMS, "gemma": GEMMA, "t5": RMS, "outside": OUTSIDE}
PARTIAL = _rows(
    "partial_rms_norm",
    Standardize(centre="none", part="first"),
    ("weight", "eps", "p"),
    settings={"eps": (1e-6,), "p": (0.0625,)},
    aliases={"p": ("p", "partial", "fraction", "portion", "k")},
    dim=44,
    sizes=(1, 2, 7, 12, 33, 64, 1030),
)
_LENGTH = Standardize(centre="none", summed=True, eps_at="floor of the root")
SCALE = _rows(
    "scale_norm",
    replace(_LENGTH, unset_gain="root of d"),
    ("weight", "eps"),
    learned={"weight": Learned("g", "gain", each=False, start=lambda dim: dim**0.5)},
)
L2 = _rows(
    "l2_norm",
    _LENGTH,
    ("weight", "eps"),
    learned={"weight": Learned("g", "gain", each=False)},
    settings={"eps": (1e-12,)},
    aliases={"weight": ("temperature", "tau", "t")},
)
FIX = _rows("fix_norm", _LENGTH, ("eps",), learned={})
FIX_EMBEDDING = replace(FIX, formula=replace(_LENGTH, unset_gain="root of d"), rounds="freely")
POWER = _rows(
    "power_norm",
    Standardize(centre="none", pool="all but the last"),
    ("weight", "bias", "eps", "mask"),
    learned=_BOTH,
    shapes=lambda dim: ((8, dim), (3, 4, dim), (2, 3, 2, dim), (1, 6, dim), (dim, dim)),
    long_shape=lambda dim, axes: (256, dim),
    sizes=(1, 2, 33),
    unit=spec.first_feature,
    unit_name="feature",
)
POWER_MODULE = replace(
    POWER,
    settings={"eps": (1e-5,), "warmup": (10_000,), "groups": (1,)},
    aliases={
        "warmup": ("warmup_iters", "warmup_steps"),
        "groups": ("num_groups", "group_num", "head_num", "heads", "num_heads"),
    },
)
BATCH = Spec(
    name="batch_norm",
    formula=Standardize(pool="all but the channel", features=1),
    roles=("x", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps",
           "mask"),
    shapes=lambda dim: ((8, dim), (4, dim, 3), (3, dim, 2, 2), (2, dim, 1, 2, 2), (1, dim, 4),
                        (2, dim)),
    long_shape=lambda dim, axes: {2: (256, dim), 3: (32, dim, 8)}.get(
        axes, (16, dim, 4, 4, *[1] * (axes - 4))
    ),
    unit=spec.first_channel,
    unit_name="channel",
    learned=_BOTH,
)  # fmt: skip
REP = replace(
    BATCH,
    name="rep_batch_norm",
    formula=RepStandardize(pool="all but the channel", features=1),
    roles=("x", "running_mean", "running_var", "weight", "bias", "eta", "training", "momentum",
           "eps", "mask"),
    learned={**_BOTH, "eta": Learned("eta", "eta", each=False)},
    aliases={"eta": ("alpha", "skip")},
)  # fmt: skip
PREP = replace(
    REP,
    name="prep_batch_norm",
    learned={},  # there are two gains and two shifts: its own laws find them
    settings={"eps": (1e-5,), "steps": (300_000,), "warm": (0,)},
    aliases={**REP.aliases, "steps": ("step", "total_steps", "total_step")},
)
GROUP = Spec(
    name="group_norm",
    formula=Standardize(pool="group", features=1),
    roles=("x", "num_groups", "weight", "bias", "eps"),
    shapes=lambda dim: ((3, dim, 5), (3, dim), (2, dim, 3, 2), (2, dim, 2, 1, 2), (1, dim, 4)),
    long_shape=lambda dim, axes: (4, dim, *[64, 1, 1][: axes - 2]),
    unit=spec.first_group,
    unit_name="group",
    learned=_BOTH,
)
INSTANCE = replace(
    GROUP,
    name="instance_norm",
    formula=Standardize(pool="space", features=1),
    roles=("x", "weight", "bias", "eps"),
    shapes=lambda dim: ((3, dim, 5), (2, dim, 3, 2), (2, dim, 2, 1, 2), (1, dim, 4)),
    long_shape=lambda dim, axes: (4, dim, *[64, 1, 1][: axes - 2]),
    unit=spec.first_map,
    unit_name="channel of a sample",
    rounds="as torch",
)

_ALPHA = Learned("alpha", "alpha", each=False, start=lambda dim: 0.5, centre=0.8)
_VALUES = {
    "settings": {},
    "unit": spec.first_value,
    "unit_name": "value",
    "rounds": "freely",
}
DYT = _rows(
    "dynamic_tanh",
    Squash(),
    ("alpha", "weight", "bias"),
    learned={"alpha": _ALPHA, **_BOTH},
    **_VALUES,
)
DERF = _rows(
    "dynamic_erf",
    Squash(f="erf"),
    ("alpha", "shift", "weight", "bias"),
    learned={
        "alpha": _ALPHA,
        "shift": Learned("the inner shift", "inner shift", False, lambda dim: 0.0, 0.3),
        **_BOTH,
    },
    aliases={"shift": ("shift", "s", "inner_shift")},
    **_VALUES,
)
BHYT = _rows(
    "bounded_tanh",
    BoundedTanh(centre="none"),
    ("scale", "weight", "bound", "eps"),
    learned={"scale": Learned("lambda", "lambda", each=False, centre=2.0), "weight": GAIN},
    settings={"bound": (10.0,), "eps": (1e-6,)},
    aliases={
        "scale": ("scale", "lambda_", "lam", "lmbda", "alpha"),
        "bound": ("bound", "kappa", "k"),
    },
    rounds="freely",
)
IDENTITY = _rows("identity", Identity(), (), learned={}, **_VALUES)
