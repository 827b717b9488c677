"""The laws of precision: large offsets, half precision, dtypes."""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.exam import Broken, Exam

CANCELLATION = (
    "the variance is E[x²] − E[x]², the difference of two large numbers: subtract the mean "
    "before squaring"
)
IN_HALF = (
    "the statistics are computed in the input's half precision: convert to float32 first, and "
    "the result back once"
)


def large_offset(exam: Exam) -> None:
    """Keep its digits when the mean is ten thousand times the spread, in float32."""
    draw = exam.generator("offset")
    about = "spread 1, offset 10,000"
    cases = []
    for shape in exam.shapes[:2] if len(exam.shapes[0]) > 1 else exam.shapes[:1]:
        x = torch.randn(shape, generator=draw) + 1e4
        cases.append(replace(exam.case(draw, shape, about), x=x))
    # A mean in float32 may be off by a few units in the last place, 0.001 at ten thousand.
    exam.compare(cases, 0.02, 0.02, CANCELLATION if exam.spec.centred else "")


def half_precision(exam: Exam) -> None:
    """Compute the statistics of half-precision inputs in at least float32."""
    draw = exam.generator("half")
    bare_batch = exam.spec.name == "batch_norm" and not exam.subject.has_weight
    _half_values(exam, draw, bare_batch)
    if not bare_batch:
        _half_roundings(exam, draw)


def _half_values(exam: Exam, draw: torch.Generator, bare_batch: bool) -> None:
    offset = 20.0 if exam.spec.centred and not bare_batch else 0.5
    hard = (
        (torch.bfloat16, 1.0, offset, f"half precision, mean {offset:g}"),
        (torch.float16, 600.0, 0.0, "numbers whose squares overflow in float16"),
    )
    # One rounding of the normalized value, one after the gain, one after the shift: each half a
    # unit in the last place of what it rounds. torch's own batch norm without a gain rounds its
    # two coefficients as well.
    units = 3.0 if bare_batch else 1.5
    for dtype, scale, centre, about in hard:
        eps = torch.finfo(dtype).eps
        atol = eps if bare_batch else 1e-4
        plain = exam.case(draw, about=about, gain=True, shift=True, dtype=dtype)
        x = torch.randn(plain.x.shape, generator=draw) * scale + centre
        case = replace(plain, x=x.to(dtype))
        exam.judge([case], [exam.run(case)], units * eps, atol, IN_HALF)


def _half_roundings(exam: Exam, draw: torch.Generator) -> None:
    """Compare with the formula rounded once: a rounded statistic moves many of the values."""
    axes = 3 if any(len(s) == 3 for s in exam.shapes) else len(exam.shapes[0])
    free = exam.subject.dim is None and exam.spec.formula.features == -1
    shape = exam.spec.long_shape(256 if free else exam.dim, axes)
    for dtype in (torch.bfloat16, torch.float16):
        plain = exam.case(draw, shape, "many half-precision numbers", dtype=dtype)
        weight = None
        if exam.subject.has_weight:
            weight = torch.ones(plain.x.shape[exam.spec.formula.features])
            weight = weight.to(exam.parameter_dtype(dtype))
        x = torch.randn(shape, generator=draw) + 0.3
        case = replace(plain, x=x.to(dtype), weight=weight)
        y, expected = exam.run(case).to(dtype), exam.truth(case)
        # float32 statistics put one value in some thousands on the other side of a rounding.
        other = y.double() != expected.to(dtype).double()
        other = (other & ((y.double() - expected).abs() > 1e-4)).double().mean().item()
        if not other < 0.02:
            raise Broken(
                f"on {case} {other:.0%} of the results are not the formula's value rounded to "
                f"{str(dtype).removeprefix('torch.')}; {_first_other(y, expected)}",
                IN_HALF,
            )


def _first_other(y: Tensor, expected: Tensor) -> str:
    rounded = expected.to(y.dtype)
    where = tuple((y != rounded).nonzero()[0].tolist())
    return f"at position {where} came {y[where].item():.6g}, expected {rounded[where].item():.6g}"


def dtype_kept(exam: Exam) -> None:
    """Return the input's dtype."""
    draw = exam.generator("dtype")
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        case = exam.case(draw, gain=True, shift=True, dtype=dtype)
        if (y := exam.run(case)).dtype != dtype:
            raise Broken(
                f"on {case} the result is {y.dtype}; a norm returns the dtype of x",
                "the result is not converted back after the statistics in float32"
                if dtype in (torch.bfloat16, torch.float16)
                else "a conversion to a fixed dtype",
            )


def float64_kept(exam: Exam) -> None:
    """Compute float64 inputs in float64, so that gradients can be checked numerically."""
    draw = exam.generator("float64")
    case = exam.case(draw, about="sixteen digits", gain=True, shift=True, dtype=torch.float64)
    y = exam.run(case)
    exam.judge([case], [y], 1e-4, 1e-4)
    try:
        exam.judge([case], [y], 1e-9, 1e-9)
    except Broken as broken:
        raise Broken(
            broken.message + "; right to seven digits only",
            "float64 is converted to float32 on the way: promote half precision only",
        ) from None
