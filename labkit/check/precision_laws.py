"""The laws of precision: large offsets, all magnitudes, half precision, dtypes."""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.case import Broken, Case
from labkit.check.exam import Exam

CANCELLATION = (
    "the variance is E[x²] − E[x]², the difference of two large numbers: subtract the mean "
    "before squaring"
)
IN_HALF = (
    "the statistics are computed in the input's half precision: convert to float32 first, and "
    "the result back once"
)
HALF = (torch.bfloat16, torch.float16)
MAGNITUDES = (1e-15, 1e-9, 1e-4, 1e3, 1e6, 1e11, 1e17)


def large_offset(exam: Exam) -> None:
    """Keep its digits when the mean is far larger than the spread."""
    draw = exam.generator("offset")
    about = "spread 1, offset 10,000"
    cases = []
    for shape in exam.shapes[:2] if len(exam.shapes[0]) > 1 else exam.shapes[:1]:
        x = torch.randn(shape, generator=draw, dtype=torch.float64)
        cases.append(replace(exam.case(draw, shape, about), x=(x + 1e4).float()))
        plain = exam.case(draw, shape, "spread 1, offset 10⁸", dtype=torch.float64)
        cases.append(replace(plain, x=x + 1e8))
    # A mean in float32 may be off by a few units in the last place, 0.001 at ten thousand.
    exam.compare(cases, 0.02, 0.02, CANCELLATION if exam.spec.centred else "")


def magnitudes(exam: Exam) -> None:
    """Match the formula on tiny and on huge numbers, in float32 and bfloat16."""
    draw = exam.generator("magnitudes")
    for scale in MAGNITUDES:
        for shape in exam.shapes[:3]:
            case = exam.case(draw, shape, f"numbers near {scale:g}", scale=scale)
            if "alpha" in exam.learned:
                case = case.but(alpha=torch.tensor(0.5 / scale))
            exam.compare([case], 1e-4, 1e-4, "large or small numbers are treated in another way")
        if exam.spec.standardizes is None:
            continue
        case = exam.case(draw, about=f"numbers near {scale:g}", scale=scale, dtype=torch.bfloat16)
        exam.compare([case], 0.02, 0.02, IN_HALF)


def half_precision(exam: Exam) -> None:
    """Compute the statistics of half-precision inputs in at least float32."""
    bare_batch = exam.spec.runs and "weight" not in exam.learned
    try:
        _half(exam, bare_batch)
    except Broken:
        if exam.spec.rounds != "as torch":
            raise
        # torch's instance norm, like its batch norm, is right with parameters in float32.
        bare = "weight" not in exam.learned
        with exam.parameters(mixed=not bare):
            _half(exam, bare)


def _half(exam: Exam, bare: bool) -> None:
    draw = exam.generator("half")
    _half_values(exam, draw, bare)
    if bare:
        return
    if exam.spec.rounds != "freely":
        _half_roundings(exam, draw)
    elif exam.spec.standardizes is not None:
        _half_slopes(exam, draw)


def _half_values(exam: Exam, draw: torch.Generator, bare: bool) -> None:
    offset = 20.0 if exam.spec.centred and not bare else 0.5
    hard = (
        (torch.bfloat16, 1.0, offset, f"half precision, mean {offset:g}"),
        (torch.float16, 600.0, 0.0, "numbers whose squares overflow in float16"),
    )
    # One rounding of the normalized value, one after the gain, one after the shift: each half a
    # unit in the last place of what it rounds. torch's own batch norm without a gain rounds its
    # two coefficients as well; eta · x and a squash are further operations.
    free = exam.spec.rounds == "freely"
    units = 3.0 if bare or "eta" in exam.learned else 2.0 if free else 1.5
    for dtype, scale, centre, about in hard:
        eps = torch.finfo(dtype).eps
        plain = exam.case(draw, about=about, learned=exam.learned, dtype=dtype)
        x = torch.randn(plain.x.shape, generator=draw) * scale + centre
        case = replace(plain, x=x.to(dtype))
        if "shift" in case.given:  # where it cancels alpha · x, what was rounded before stays
            exam.judge([case], [exam.run(case)], 3.0 * eps, eps, IN_HALF)
            case = case.but(shift=None)
        exam.judge([case], [exam.run(case)], units * eps, eps if bare else 1e-4, IN_HALF)
    if "eps" not in exam.spec.settings:
        return
    # eps must be added in float32 too: in float16 numbers this small have few digits left.
    size = exam.expected("eps") ** 0.5
    for dtype in HALF:
        eps = torch.finfo(dtype).eps
        about = "half precision, numbers so small that eps matters"
        if size > 1e-4 or dtype == torch.bfloat16:
            case = exam.case(draw, about=about, scale=size, dtype=dtype)
            exam.judge([case], [exam.run(case)], units * eps, eps, IN_HALF)


def _many(exam: Exam, draw: torch.Generator, dtype: torch.dtype) -> tuple[Case, Tensor, Tensor]:
    """Run on many values with parameters that change nothing."""
    axes = 3 if any(len(s) == 3 for s in exam.shapes) else len(exam.shapes[0])
    axes = 2 if exam.spec.unit_name == "row" else axes
    free = exam.subject.dim is None and exam.spec.formula.features == -1
    shape = exam.spec.long_shape(256 if free else exam.dim, axes)
    case = exam.case(draw, shape, "many half-precision numbers", dtype=dtype)
    neutral = {}
    for role, value in (("weight", 1.0), ("eta", 0.0)):
        if role in exam.learned:
            one = exam.spec.learned[role]
            value = 0.0 if one.start(4) == 0.0 else value  # 1 + gain multiplies
            size = (shape[exam.spec.formula.features],) if one.each else ()
            neutral[role] = torch.full(size, value, dtype=exam.parameter_dtype(dtype))
    x = torch.randn(shape, generator=draw) + 0.3
    case = replace(case.but(**neutral), x=x.to(dtype))
    return case, exam.run(case).to(dtype), exam.truth(case)


def _half_roundings(exam: Exam, draw: torch.Generator) -> None:
    """Compare with the formula rounded once: a rounded statistic moves many of the values."""
    for dtype in HALF:
        case, y, expected = _many(exam, draw, dtype)
        # float32 statistics put one value in some thousands on the other side of a rounding.
        other = y.double() != expected.to(dtype).double()
        least = 1e-4 * expected.square().mean().sqrt()
        other = (other & ((y.double() - expected).abs() > least)).double().mean().item()
        if not other < 0.02:
            raise Broken(
                f"on {case} {other:.0%} of the results are not the formula's value rounded to "
                f"{str(dtype).removeprefix('torch.')}; {_first_other(y, expected)}",
                exam.stock(IN_HALF, case),
            )


def _half_slopes(exam: Exam, draw: torch.Generator) -> None:
    """Compare whole rows: roundings of single values average out, those of a statistic do not."""
    for dtype in HALF:
        case, y, expected = _many(exam, draw, dtype)
        slope = (y.double() * expected).sum(-1) / expected.square().sum(-1)
        off = slope.std().item()
        # A rounded statistic is off by 0.29 eps on average; two roundings of each value of a row
        # of d leave about 0.6/√d.
        if not off < torch.finfo(dtype).eps * (0.125 + 0.35 * y.shape[-1] ** -0.5):
            raise Broken(
                f"on {case} whole rows are too large or too small by about {off:.2g} of themselves",
                exam.stock(IN_HALF, case),
            )


def _first_other(y: Tensor, expected: Tensor) -> str:
    rounded = expected.to(y.dtype)
    where = tuple((y != rounded).nonzero()[0].tolist())
    return f"at position {where} came {y[where].item():.6g}, expected {rounded[where].item():.6g}"


def dtype_kept(exam: Exam) -> None:
    """Return the input's dtype."""
    draw = exam.generator("dtype")
    # Beside a float32 eta the sum is float32; a module that is half all through stays half.
    half_module = exam.subject.is_module and "eta" in exam.learned
    with exam.parameters(mixed=exam.mixed and not half_module):
        for dtype in (torch.float32, torch.float64, *HALF):
            for learned in ((), exam.learned):
                case = exam.case(draw, learned=learned, dtype=dtype)
                if (y := exam.run(case)).dtype != dtype:
                    raise Broken(
                        f"on {case} the result is {y.dtype}; a norm returns the dtype of x",
                        "the result is not converted back after the statistics in float32"
                        if dtype in HALF
                        else "a conversion to a fixed dtype",
                    )


def float64_kept(exam: Exam) -> None:
    """Compute float64 inputs in float64, so that gradients can be checked numerically."""
    draw = exam.generator("float64")
    about = {"about": "sixteen digits", "learned": exam.learned, "dtype": torch.float64}
    cases = [exam.case(draw, shape, **about) for shape in exam.shapes]
    if "num_groups" in exam.spec.roles and exam.subject.groups is None:
        for groups in (1, 2, exam.dim):
            cases += [exam.case(draw, s, **about).but(num_groups=groups) for s in exam.shapes[:2]]
    for case in cases:
        y = exam.run(case)
        exam.judge([case], [y], 1e-4, 1e-4)
        expected = exam.truth(case)
        try:
            exam.judge([case], [y], 1e-9, 1e-9)
        except Broken as broken:
            # A float32 step leaves errors of single values; a wrong formula is found by now.
            largest = (y - expected).abs().max().item() / expected.abs().max().item()
            if not broken.cause and largest < 1e-6:
                broken.cause = (
                    "float64 is converted to float32 on the way: promote half precision only"
                )
                broken.message += "; right to seven digits only"
            raise
