"""One row per norm: its formula in float64, torch's module, and its invariances.

A key of labkit.norms.NORMS without a row here fails a test. A row needs the key and the formula;
the rest says where a norm is not like most. Module and function come from NORMS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import norm_formulas as formulas
import torch
from norm_formulas import GROUPS, KAPPA, SHARE, P
from torch import Tensor, nn

from labkit import norms
from labkit.norms import NORMS, facts

DIM = 12
ROWS = ((7, DIM), (DIM,), (2, 5, DIM), (2, 3, 4, DIM))
CHANNELS = ((9, DIM), (4, DIM, 5), (3, DIM, 4, 2), (2, DIM, 2, 3, 2))
BATCH_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
INSTANCE_NORMS = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}


@dataclass(frozen=True)
class Case:
    """The properties of one norm that the tests use."""

    norm: str
    # (x, parameters, eps) -> y, step by step in float64; some draws leave gain and shift out, so
    # `norm_formulas.gained(y, parameters)` applies those that there are.
    formula: Callable[[Tensor, P, float], Tensor]
    parameters: tuple[str, ...] = ("weight", "bias")
    centred: bool = False  # whether a mean is subtracted somewhere
    shapes: tuple[tuple[int, ...], ...] = ROWS  # inputs; 12 features on the last axis, or on axis 1
    options: Mapping[str, Any] = field(default_factory=dict)  # of the function
    made: Mapping[str, Any] = field(default_factory=dict)  # of the module
    slope: Callable[[float], float] = lambda eps: eps**-0.5  # at 0, where only eps divides
    roundings: int = 1  # of a result in half precision
    has_eps: bool = True
    function: Callable[[Tensor, P, float], Tensor] | None = None  # where it is not NORMS' own
    make: Callable[[float], nn.Module] | None = None
    module_formula: Callable[[Tensor, P, float], Tensor] | None = None  # where it does more
    exact_gradient: bool = True  # of the module
    torch_module: Callable[[float, tuple[int, ...]], nn.Module] | None = None  # (eps, shape)

    @property
    def axis(self) -> int:
        """Return the axis of the features."""
        return -1 if self.shapes is ROWS else 1

    @property
    def pools_batch(self) -> bool:
        """Return whether samples share statistics."""
        return getattr(NORMS[self.norm], "takes_mask", False)

    def call(self, x: Tensor, p: P, eps: float) -> Tensor:
        """Call labkit's function."""
        if self.function is not None:
            return self.function(x, p, eps)
        own = facts(self.norm).function
        assert own is not None
        return own(x, **p, **self.options, **({"eps": eps} if self.has_eps else {}))

    def module(self, eps: float) -> nn.Module:
        """Make labkit's module for 12 features."""
        if self.make is not None:
            return self.make(eps)
        return NORMS[self.norm](DIM, **self.made, **({"eps": eps} if self.has_eps else {}))

    def draw(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Draw the parameters: gains and shifts around 0, scalars around 1."""
        drawn = {}
        own = dict(self.module(1e-5).named_parameters())
        for name in self.parameters:
            shape = own[name].shape
            drawn[name] = (torch.randn(shape) if shape == (DIM,) else 0.5 + torch.rand(shape)).to(
                dtype
            )
        return drawn


def half_way(eps: float) -> norms.PRepBatchNorm:
    """Make a PRepBN whose λ stays at SHARE for any number of calls in a test."""
    module = norms.PRepBatchNorm(DIM, steps=2**60, eps=eps)
    module.calls.fill_(2**59)
    return module


def blended(x: Tensor, p: P, eps: float) -> Tensor:
    """Blend labkit's functions as PRepBN does."""
    rep = {name.removeprefix("rep."): value for name, value in p.items() if "rep." in name}
    layered = norms.layer_norm(
        x.double().movedim(1, -1), p.get("layer.weight"), p.get("layer.bias"), eps
    ).movedim(-1, 1)
    batched = norms.rep_batch_norm(x.double(), **rep, training=True, eps=eps)
    return (SHARE * layered + (1 - SHARE) * batched).to(x.dtype)


WEIGHT = ("weight",)
CASES = {
    case.norm: case
    for case in (
        Case(
            "batch",
            formulas.by_channel,
            centred=True,
            shapes=CHANNELS,
            options={"training": True},
            torch_module=lambda eps, shape: BATCH_NORMS[len(shape)](DIM, eps=eps),
        ),
        Case(
            "layer",
            formulas.layer,
            centred=True,
            torch_module=lambda eps, shape: nn.LayerNorm(DIM, eps=eps),
        ),
        Case(
            "annotated-layer",
            formulas.annotated_layer,
            centred=True,
            slope=lambda eps: 1 / eps,
        ),
        Case(
            "rms",
            formulas.rms,
            WEIGHT,
            torch_module=lambda eps, shape: nn.RMSNorm(DIM, eps=eps),
        ),
        Case("rms-llama", formulas.rms, WEIGHT, roundings=2),
        Case("rms-gemma", formulas.rms_gemma, WEIGHT),
        Case("rms-t5", formulas.rms, WEIGHT, roundings=2),
        Case("rms-outside", formulas.rms_outside, WEIGHT, slope=lambda eps: 1 / eps),
        Case(
            "partial-rms",
            lambda x, p, eps: formulas.partial_rms(x, p, eps, k=max(1, int(0.35 * x.shape[-1]))),
            WEIGHT,
            options={"p": 0.35},
            made={"p": 0.35},
        ),
        Case(
            "instance",
            formulas.instance,
            centred=True,
            shapes=CHANNELS[1:],
            made={"affine": True},
            torch_module=lambda eps, shape: INSTANCE_NORMS[len(shape)](DIM, eps=eps, affine=True),
        ),
        Case(
            "group",
            formulas.group,
            centred=True,
            shapes=CHANNELS,
            options={"num_groups": GROUPS},
            make=lambda eps: norms.GroupNorm(GROUPS, DIM, eps=eps),
            torch_module=lambda eps, shape: nn.GroupNorm(GROUPS, DIM, eps=eps),
        ),
        Case("scale", formulas.scale, WEIGHT, slope=lambda eps: DIM**0.5 / eps),
        Case("l2", formulas.l2, WEIGHT, slope=lambda eps: 1 / eps),
        Case(
            "power",
            formulas.power,
            function=lambda x, p, eps: norms.power_norm(x, **p, eps=eps),
            made={"groups": GROUPS},
            module_formula=formulas.power_module,
            exact_gradient=False,
        ),
        Case(
            "rep-batch",
            formulas.rep_batch,
            ("weight", "bias", "eta"),
            centred=True,
            shapes=CHANNELS,
            options={"training": True},
        ),
        Case(
            "prep-batch",
            formulas.prep_batch,
            ("layer.weight", "layer.bias", "rep.weight", "rep.bias", "rep.eta"),
            centred=True,
            shapes=CHANNELS,
            function=blended,
            make=half_way,
        ),
        Case(
            "dyt",
            formulas.dyt,
            ("alpha", "weight", "bias"),
            has_eps=False,
        ),
        Case(
            "derf",
            formulas.derf,
            ("alpha", "shift", "weight", "bias"),
            has_eps=False,
        ),
        Case(
            "bhyt",
            formulas.bhyt,
            ("scale", "weight"),
            options={"bound": KAPPA},
            made={"bound": KAPPA},
        ),
        Case(
            "none",
            lambda x, p, eps: x,
            (),
            has_eps=False,
            function=lambda x, p, eps: x,
            torch_module=lambda eps, shape: nn.Identity(),
        ),
    )
}

# The options of every norm that are numbers, with their defaults.
NUMBERS = [
    (norm, key, default)
    for norm in NORMS
    for key, default in facts(norm).options.items()
    if isinstance(default, int | float) and not isinstance(default, bool)
]


def truth(case: Case, x: Tensor, p: P, eps: float, *, module: bool = False) -> Tensor:
    """Return the formula's result in float64, or the module's if it does more."""
    formula = case.module_formula if module and case.module_formula else case.formula
    return formula(x.double(), {name: value.double() for name, value in p.items()}, eps)


def with_parameters(module: nn.Module, p: P) -> nn.Module:
    """Assign parameters to a module."""
    with torch.no_grad():
        for name, value in p.items():
            module.get_parameter(name).copy_(value)
    return module


def close(
    actual: Tensor,
    expected: Tensor,
    dtype: torch.dtype,
    magnified: float = 1.0,
    roundings: int = 1,
) -> None:
    """Compare with the tolerance of the precision.

    Statistics are sums of up to a hundred terms in float32 or better, a few of whose roundings
    survive; they are magnified by |mean| / deviation where the mean is far away. The result is
    rounded once to its dtype, by some norms twice.
    """
    actual, expected = actual.detach(), expected.detach()
    computed = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    size = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(
        actual.double(),
        expected,
        rtol=0.6 * roundings * torch.finfo(dtype).eps,
        atol=16 * computed * magnified * size,
    )
    assert actual.dtype == dtype
