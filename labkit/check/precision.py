"""The laws of precision: large offsets, all magnitudes, half precision, dtypes, rounding order.

torch, gemma   y = round(gain · x/rms)         one rounding
llama, t5      y = round(gain · round(x/rms))  two
outside        its authors' code computes in the input's dtype, so that no order is a law
"""

from dataclasses import replace

import torch
from torch import Generator, Tensor

from labkit.check.case import Broken, Case, Untested
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
ONCE, TWICE = "one rounding, after the gain", "cast back to x's dtype before the gain"
_ORDER = {"torch": ONCE, "gemma": ONCE, "llama": TWICE, "t5": TWICE}


def hold_large_offset(exam: Exam, draw: Generator) -> None:
    """Keep its digits when the mean is far larger than the spread."""
    cases = []
    for shape in exam.shapes[:2] if len(exam.shapes[0]) > 1 else exam.shapes[:1]:
        x = torch.randn(shape, generator=draw)
        plain = exam.draw_case(draw, shape, "spread 1, offset 10,000")
        cases.append(replace(plain, x=x + 1e4))
    # A mean in float32 may be off by a few units in the last place, 0.001 at ten thousand.
    exam.compare(cases, 0.02, 0.02, CANCELLATION if exam.norm.centred else "")


def hold_magnitudes(exam: Exam, draw: Generator) -> None:
    """Match the formula on tiny and on huge numbers, in float32 and bfloat16."""
    for scale in MAGNITUDES:
        about = f"numbers near {scale:g}"
        for shape in exam.shapes[:3]:
            case = exam.draw_case(draw, shape, about, scale=scale)
            if "alpha" in exam.learned:
                case = case.but(alpha=torch.tensor(0.5 / scale))
            exam.compare([case], 1e-4, 1e-4, "large or small numbers are treated in another way")
        if exam.norm.formula.pool:
            case = exam.draw_case(draw, about=about, scale=scale, dtype=torch.bfloat16)
            exam.compare([case], 0.02, 0.02, IN_HALF)


def hold_dtype_kept(exam: Exam, draw: Generator) -> None:
    """Return the input's dtype."""
    # Beside a float32 eta the sum is float32; a module that is half all through stays half.
    half_module = exam.subject.is_module and "eta" in exam.learned
    with exam.use_parameters(mixed=exam.mixed and not half_module):
        for dtype in (torch.float32, torch.float64, *HALF):
            for learned in ((), exam.learned):
                case = exam.draw_case(draw, learned=learned, dtype=dtype)
                if (y := exam.run(case)).dtype != dtype:
                    raise Broken(
                        f"on {case} the result is {y.dtype}; a norm returns the dtype of x",
                        "the result is not converted back after the statistics in float32"
                        if dtype in HALF
                        else "a conversion to a fixed dtype",
                    )


def hold_float64_kept(exam: Exam, draw: Generator) -> None:
    """Compute float64 inputs in float64, so that gradients can be checked numerically."""
    about = {"about": "sixteen digits", "learned": exam.learned, "dtype": torch.float64}
    cases = [exam.draw_case(draw, shape, **about) for shape in exam.shapes]
    if "num_groups" in exam.norm.roles and exam.subject.groups is None:
        for groups in (1, 2, exam.dim):
            cases += [
                exam.draw_case(draw, s, **about).but(num_groups=groups) for s in exam.shapes[:2]
            ]
    for case in cases:
        y = exam.run(case)
        exam.judge([case], [y], 1e-4, 1e-4)
        try:
            exam.judge([case], [y], 1e-9, 1e-9)
        except Broken as broken:
            # A float32 step leaves errors of single values; a wrong formula is found by now.
            expected = exam.find_truth(case)
            largest = (y - expected).abs().max().item() / expected.abs().max().item()
            if not broken.cause and largest < 1e-6:
                broken.cause = (
                    "float64 is converted to float32 on the way: promote half precision only"
                )
                broken.message += "; right to seven digits only"
            raise


# --- half precision ---


def hold_half_precision(exam: Exam, draw: Generator) -> None:
    """Compute the statistics of half-precision inputs in at least float32."""
    bare_batch = exam.norm.runs and "weight" not in exam.learned
    try:
        _compare_half_precision(exam, draw, bare_batch)
    except Broken:
        if exam.norm.rounds != "as torch":
            raise
        # torch's instance norm, like its batch norm, is right with parameters in float32.
        bare = "weight" not in exam.learned
        with exam.use_parameters(mixed=not bare):
            _compare_half_precision(exam, draw, bare)


def _count_units(exam: Exam, bare: bool) -> float:
    """Return how many units in the last place a right result may be off by.

    One rounding of the normalized value, one after the gain, one after the shift: each half a unit
    of what it rounds. torch's own batch norm without a gain rounds its two coefficients as well;
    eta · x and a squash are further operations.
    """
    if bare or exam.norm.rounds == "statistics too" or "eta" in exam.learned:
        return 3.0
    return 2.0 if exam.norm.rounds == "freely" else 1.5


def _compare_half_precision(exam: Exam, draw: Generator, bare: bool) -> None:
    units = _count_units(exam, bare)
    offset = 20.0 if exam.norm.centred and not bare else 0.5
    for dtype, scale, centre, about in (
        (torch.bfloat16, 1.0, offset, f"half precision, mean {offset:g}"),
        (torch.float16, 600.0, 0.0, "numbers whose squares overflow in float16"),
    ):
        eps = torch.finfo(dtype).eps
        plain = exam.draw_case(draw, about=about, learned=exam.learned, dtype=dtype)
        x = torch.randn(plain.x.shape, generator=draw) * scale + centre
        case = replace(plain, x=x.to(dtype))
        if "shift" in case.given:  # where it cancels alpha · x, what was rounded before stays
            exam.compare([case], 3.0 * eps, eps, IN_HALF)
            case = case.but(shift=None)
        exam.compare([case], units * eps, eps if bare else 1e-4, IN_HALF)
    if "eps" in exam.norm.settings:
        # eps must be added in float32 too: in float16 numbers this small have few digits left.
        size = exam.find_setting("eps") ** 0.5
        about = "half precision, numbers so small that eps matters"
        for dtype in HALF if size > 1e-4 else HALF[:1]:
            eps = torch.finfo(dtype).eps
            case = exam.draw_case(draw, about=about, scale=size, dtype=dtype)
            exam.compare([case], units * eps, eps, IN_HALF)
    if bare or exam.norm.rounds == "statistics too":
        return
    for dtype in HALF:
        if exam.norm.rounds != "freely":
            _hold_roundings(exam, *_run_many(exam, draw, dtype))
        elif exam.norm.formula.pool:
            _hold_rows(exam, *_run_many(exam, draw, dtype))


def _run_many(exam: Exam, draw: Generator, dtype: torch.dtype) -> tuple[Case, Tensor, Tensor]:
    """Run on many values with parameters that change nothing."""
    axes = 3 if any(len(s) == 3 for s in exam.shapes) else len(exam.shapes[0])
    axes = 2 if exam.norm.unit_name == "row" else axes
    free = exam.subject.dim is None and exam.norm.formula.features == -1
    shape = exam.norm.long_shape(256 if free else exam.dim, axes)
    case = exam.draw_case(
        draw, shape, "many half-precision numbers", learned=exam.learned, dtype=dtype
    )
    start = {"weight": 0.0 if exam.norm.formula.gain == "one plus" else 1.0, "eta": 0.0}
    neutral = {r: torch.full_like(case.given[r], v) for r, v in start.items() if r in case.given}
    kept = {r: neutral.get(r) for r in exam.learned}
    x = torch.randn(shape, generator=draw) + 0.3
    case = replace(case.but(**kept), x=x.to(dtype))
    return case, exam.run(case).to(dtype), exam.find_truth(case)


def _hold_roundings(exam: Exam, case: Case, y: Tensor, expected: Tensor) -> None:
    """Compare with the formula rounded once: a rounded statistic moves many of the values."""
    rounded = expected.to(y.dtype)
    # float32 statistics put one value in some thousands on the other side of a rounding.
    least = 1e-4 * expected.square().mean().sqrt()
    other = (y != rounded) & ((y.double() - expected).abs() > least)
    if not (share := other.double().mean().item()) < 0.02:
        where = tuple((y != rounded).nonzero()[0].tolist())
        kind = str(y.dtype).removeprefix("torch.")
        raise Broken(
            f"on {case} {share:.0%} of the results are not the formula's value rounded to {kind}; "
            f"at position {where} came {y[where].item():.6g}, expected {rounded[where].item():.6g}",
            exam.offer_cause(IN_HALF, case),
        )


def _hold_rows(exam: Exam, case: Case, y: Tensor, expected: Tensor) -> None:
    """Compare whole rows: roundings of single values average out, those of a statistic do not."""
    slope = (y.double() * expected).sum(-1) / expected.square().sum(-1)
    off = slope.std().item()
    # A rounded statistic is off by 0.29 eps on average; two roundings of each value of a row of d
    # leave about 0.6/√d.
    if not off < torch.finfo(y.dtype).eps * (0.125 + 0.35 * y.shape[-1] ** -0.5):
        raise Broken(
            f"on {case} whole rows are too large or too small by about {off:.2g} of themselves",
            exam.offer_cause(IN_HALF, case),
        )


# --- what tells the RMS norms apart ---


def hold_rounding_order(exam: Exam, draw: Generator) -> None:
    """Round where the variant rounds: before the gain multiplies, or once at the end."""
    if exam.variant not in _ORDER or "weight" not in exam.learned:
        raise Untested()
    wanted = _ORDER[exam.variant]
    for dtype in HALF:
        # Random gains: with gain 1 both orders round alike.
        case, standard = _normalize_rows(exam, draw, dtype)
        y = exam.run(case)
        affine, gain = exam.norm.formula.affine, {"weight": case.given["weight"]}
        orders = {ONCE: affine(standard, gain), TWICE: affine(standard.to(dtype).double(), gain)}
        share = {order: _measure_share(y, exact.to(dtype)) for order, exact in orders.items()}
        if not share[wanted] > 0.98:
            best = max(share, key=lambda order: share[order])
            raise Broken(
                f"on {case}, random gains, {share[wanted]:.0%} of the results are those of the "
                f"order of {exam.variant}: {wanted}",
                f"the rounding order is: {best}" if share[best] > 0.98 else "",
            )


def hold_wide_gain(exam: Exam, draw: Generator) -> None:
    """Leave the product with a float32 gain as the variant has it."""
    if exam.variant not in ("llama", "t5") or "weight" not in exam.learned:
        raise Untested()
    llama = exam.variant == "llama"
    with exam.use_parameters(mixed=True):  # a module in float32, and an input in half precision
        case, standard = _normalize_rows(exam, draw, torch.bfloat16)
        y = exam.run(case)
    standard = standard.bfloat16().double() if llama else standard
    product = case.given["weight"].double() * standard
    share = _measure_share(y, product.to(y.dtype))
    if y.dtype == torch.float32:
        share = torch.isclose(y.double(), product, rtol=1e-5, atol=1e-5).double().mean().item()
    if not share > 0.98:
        rounds = "rounds x/rms to bfloat16 first" if llama else "rounds nothing"
        raise Broken(
            f"on {case}, a float32 gain: {exam.variant} {rounds}",
            "the normalized value is "
            + ("not cast back to x's dtype" if llama else "cast back")
            + " before a float32 gain multiplies",
        )


def _normalize_rows(exam: Exam, draw: Generator, dtype: torch.dtype) -> tuple[Case, Tensor]:
    """Draw many rows with random gains, and normalize them without."""
    dim = exam.subject.dim or 256
    about = "many half-precision numbers"
    case = exam.draw_case(draw, (32, dim), about, learned=exam.learned, dtype=dtype)
    case = replace(case, x=(torch.randn(32, dim, generator=draw) + 0.3).to(dtype))
    return case, exam.norm.formula(case.x, {**exam.fill_settings(case), "weight": None})


def _measure_share(y: Tensor, rounded: Tensor) -> float:
    return (y.double() == rounded.double()).double().mean().item()
