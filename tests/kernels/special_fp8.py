"""Special checks of norms whose result is FP8: functions without arguments."""

import itertools

import normkernels
import torch
from normkernels import formulas
from normkernels.launch import INTERPRETED
from torch import Tensor

from .cases import Make
from .laws_torch import refused
from .measure import BRAIN, DEVICE, FLOAT, HALF, identical

LENGTHS = ((7, 1), (7, 41), (5, 128), (3, 1536), (2, 8192), (1, 32768))


def compare(actual: tuple[Tensor, ...], exact: tuple[Tensor, ...]) -> None:
    """Compare scales, values and the sum with the formula's.

    A scale may differ in the last bit of a norm. The interpreter of Triton 3.7 rounds ties up and
    loses the carry of a value that is rounded up to a power of two: such values are left to a GPU.
    """
    (q, scale, *h), (ref, ref_scale, *ref_h) = actual, exact
    assert (
        q.dtype == torch.float8_e4m3fn and scale.dtype == FLOAT and scale.shape == ref_scale.shape
    )
    torch.testing.assert_close(scale, ref_scale, rtol=2.0**-7, atol=0.0)
    wide, right = q.float(), ref.float()
    carried = torch.frexp(right).mantissa.abs() == 0.5
    compared = ~carried if INTERPRETED else torch.ones_like(carried)
    same = wide == right
    assert (same | ~compared).double().mean() > 0.95, "values differ"
    step = torch.where(right.abs() < 2.0**-6, 2.0**-9, right.abs() / 8)
    off = (wide - right).abs() * (same | compared)
    assert (off <= 1.01 * step).all(), f"off by {off.max()}"
    for one, other in zip(h, ref_h, strict=True):
        identical("sum", one, other)


def check_values_and_scales_are_the_formulas():
    # Interpreted, a bfloat16 is cut off, not rounded.
    dtypes = (FLOAT, HALF) if INTERPRETED else (FLOAT, HALF, BRAIN)
    for (m, n), dtype in itertools.product(LENGTHS, dtypes):
        make = Make(m, n, dtype, device=DEVICE)
        x, residual, weight = make.rows(), make.coarse_rows(), make.gain()
        groups = [None, *(g for g in (32, 128) if n % g == 0)]
        for group, (offset, first) in itertools.product(
            groups, ((0.0, False), (1.0, False), (0.0, True))
        ):
            how = {"group": group, "offset": offset, "round_first": first}
            for given in ((x, weight), (x, None)):
                compare(
                    normkernels.rms_norm_fp8(*given, **how), formulas.rms_norm_fp8(*given, **how)
                )
            compare(
                normkernels.add_rms_norm_fp8(x, residual, weight, **how),
                formulas.add_rms_norm_fp8(x, residual, weight, **how),
            )


def check_the_largest_value_of_each_group_is_448():
    x = Make(9, 256, FLOAT, device=DEVICE).rows()
    x[3] = 0
    x[4, 128:] = 0
    for group in (None, 128, 32):
        q, scale = normkernels.rms_norm_fp8(x, group=group)
        most = q.float().unflatten(-1, (-1, group or 256)).abs().amax(-1)
        zero = x.unflatten(-1, (-1, group or 256)).abs().amax(-1) == 0
        assert torch.equal(most, torch.where(zero, 0.0, 448.0))
        assert (scale[zero] == 1).all()


def check_strided_rows_and_bad_rows():
    """Parts of a wider tensor are read where they are; a NaN spoils no other row."""
    wide = Make(8, 256, FLOAT, device=DEVICE).rows()
    part = wide[:, :128]
    for one, other in zip(
        normkernels.rms_norm_fp8(part), normkernels.rms_norm_fp8(part.clone()), strict=True
    ):
        assert torch.equal(one.float(), other.float())
    part = part.clone()
    clean, _ = normkernels.rms_norm_fp8(part)
    part[2, 5] = float("nan")
    others = torch.arange(8, device=DEVICE) != 2
    spoilt, _ = normkernels.rms_norm_fp8(part)
    assert torch.equal(spoilt[others].float(), clean[others].float())
    assert INTERPRETED or spoilt[2, 5].isnan()  # interpreted, a NaN becomes a number


def check_what_fp8_does_not_support_is_refused():
    x = Make(4, 96, FLOAT, device=DEVICE).rows()
    call = normkernels.rms_norm_fp8
    for error, text, run in (
        (ValueError, "a power of two and divides 96, got 128", lambda: call(x, group=128)),
        (ValueError, "a power of two and divides 96, got 48", lambda: call(x, group=48)),
        (ValueError, "rows of 1 to 32768", lambda: call(x.new_ones(1, 40000))),
        (RuntimeError, "has no gradient", lambda: call(x.clone().requires_grad_())),
        (ValueError, "shape of x", lambda: normkernels.add_rms_norm_fp8(x, x[:2])),
    ):
        refused(error, text, run)
    with torch.no_grad():
        call(x.clone().requires_grad_())


check_values_and_scales_are_the_formulas.slow = True  # type: ignore[attr-defined]
