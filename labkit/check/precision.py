"""Laws about precision: large offsets, all magnitudes, half precision, dtypes, rounding order.

torch, gemma   y = round(gain · x/rms)         one rounding
llama, t5      y = round(gain · round(x/rms))  two
outside        its authors' code computes in the input's dtype, so no order is required
"""

from dataclasses import replace
from itertools import product

import torch
from torch import Generator, Tensor

from labkit.check.case import HALF, Broken, Case, Untested
from labkit.check.exam import Exam
from labkit.check.mistakes import Explanation

CANCELLATION = (
    "the variance is E[x²] − E[x]², the difference of two large numbers: subtract the mean "
    "before squaring"
)
IN_HALF = (
    "the statistics are computed in the input's half precision: convert to float32 first, and "
    "the result back once"
)
ROUNDED_EARLY = (
    "something is rounded to half precision before the end, a statistic or what divides: compute "
    "in float32 and convert the result once"
)
MAGNITUDES = (1e-15, 1e-9, 1e-4, 1e3, 1e6, 1e11, 1e17)
NOT_BACK = "the result is not converted back after the statistics in float32"
FIXED = "a conversion to a fixed dtype"
PROMOTES = (
    "the float32 gain promotes the result: cast back to x's dtype after the gain has multiplied, "
    "not before"
)
AS_LLAMA = "; Llama's and T5's norms do so on purpose: variant='llama' or 't5' accepts it"
OF_THE_DTYPE = (
    "eps is {:.2g}, the machine epsilon of the input's dtype; the statistics are computed in "
    "float32, so use that of float32"
)
LOST = (
    "float64 comes out right to seven digits: it is converted to float32 on the way (promote half "
    "precision only)"
)
REFUSED = "a float64 module raises {}; it was checked in float32 instead"
ROUNDED_SUM = "1 + gain is rounded to the gain's half precision, and the result once more"
ONCE, TWICE = "one rounding, after the gain", "cast back to x's dtype before the gain"
_ORDER = {"torch": ONCE, "gemma": ONCE, "llama": TWICE, "t5": TWICE}


def hold_large_offset(exam: Exam, draw: Generator) -> None:
    """Require correct digits when the mean is far larger than the spread."""
    cases = []
    for shape in exam.shapes[:2] if len(exam.shapes[0]) > 1 else exam.shapes[:1]:
        x = torch.randn(shape, generator=draw)
        plain = exam.draw_case(draw, shape, "spread 1, offset 10,000")
        cases.append(replace(plain, x=x + 1e4))
    # A mean in float32 may be off by a few units in the last place, 0.001 at ten thousand.
    exam.compare(cases, 0.02, 0.02, CANCELLATION if exam.norm.centred else "")


def hold_magnitudes(exam: Exam, draw: Generator) -> None:
    """Require the formula's results on tiny and on huge numbers."""
    for scale in MAGNITUDES:
        about = f"numbers near {scale:g}"
        for shape in exam.shapes[:3]:
            case = exam.draw_case(draw, shape, about, scale=scale)
            if "alpha" in exam.learned:
                case = case.but(alpha=torch.tensor(0.5 / scale))
            exam.compare([case], 1e-4, 1e-4, "large or small numbers are treated in another way")


def hold_dtype_kept(exam: Exam, draw: Generator) -> None:
    """Require the input's dtype as the result's, also with float32 parameters."""
    # With a float32 eta the sum is float32; a module entirely in half precision stays half.
    half_module = exam.subject.is_module and "eta" in exam.learned
    with exam.use_parameters(mixed=exam.mixed and not half_module):
        for dtype in (torch.float32, torch.float64, *HALF):
            for learned in ((), exam.learned):
                case = exam.draw_case(draw, learned=learned, dtype=dtype)
                _need_dtype(case, exam.run(case), NOT_BACK if dtype in HALF else FIXED)
    if "weight" not in exam.learned or "eta" in exam.learned:
        return
    with exam.use_parameters(mixed=True):
        about = {"about": "with a float32 gain", "learned": exam.learned}
        case = exam.draw_case(draw, **about, dtype=torch.bfloat16)
        try:
            y = exam.run(case)
        except Broken:  # code that refuses mixed dtypes returns none of them
            return
    if exam.norm.rounds in ("once", "as torch") and exam.variant not in ("llama", "t5"):
        _need_dtype(case, y, PROMOTES + AS_LLAMA * (exam.norm.name == "rms_norm"))
    elif y.dtype != case.x.dtype:
        exam.notes.append("bfloat16 with a float32 gain comes back float32, as in authors' code")


def _need_dtype(case: Case, y: Tensor, cause: str) -> None:
    if y.dtype != case.x.dtype:
        raise Broken(
            f"on {case} the result must have the dtype of x, {case.x.dtype}, but has {y.dtype}",
            cause,
        )


def hold_float64_kept(exam: Exam, draw: Generator) -> None:
    """Require float64 computation for float64 inputs, so that gradcheck works."""
    if error := exam.subject.raises_in_float64:
        exam.notes.append(REFUSED.format(error))
        raise Untested()
    about = {"about": "sixteen digits", "learned": exam.learned, "dtype": torch.float64}
    cases = [exam.draw_case(draw, shape, **about) for shape in exam.shapes]
    for case in cases:
        y = exam.run(case)
        exam.judge([case], [y], 1e-6, 1e-6)
        if not exam.is_close(case, y, exam.find_truth(case), 1e-9, 1e-9):
            # Half of all norms do so, and work, so no law is broken.
            exam.notes.append(LOST)
            raise Untested()


# --- half precision ---


def hold_half_precision(exam: Exam, draw: Generator) -> None:
    """Require statistics in at least float32 for half-precision inputs."""
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
    """Return the largest error that a right result may have, in units in the last place.

    There is one rounding of the normalized value, one after the gain, one after the shift: each
    adds half a unit of the value that it rounds. torch's own batch norm without a gain rounds its
    two coefficients as well; eta · x and a squash are further operations.
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
            y, wrong = exam.run(case), list_eps_of_the_dtype(exam, dtype)
            exam.judge([case], [y], units * eps, eps, IN_HALF, settings=wrong)
    for dtype in HALF if not bare and exam.norm.rounds in ("once", "as torch") else ():
        _hold_roundings(exam, draw, dtype)


def list_eps_of_the_dtype(exam: Exam, dtype: torch.dtype) -> list[Explanation]:
    """Return the mistake of using the machine epsilon of the input's dtype as eps."""
    eps = torch.finfo(dtype).eps
    return [(OF_THE_DTYPE.format(eps), replace(exam.norm.formula, fixed=(("eps", eps),)))]


def _hold_roundings(exam: Exam, draw: Generator, dtype: torch.dtype) -> None:
    """Compare with the formula rounded once: a rounded statistic changes many of the values."""
    axes = 3 if any(len(s) == 3 for s in exam.shapes) else len(exam.shapes[0])
    axes = 2 if exam.norm.unit_name == "row" else axes
    free = exam.subject.dim is None and exam.norm.formula.features == -1
    shape = exam.norm.long_shape(256 if free else exam.dim, axes)
    case = exam.draw_case(draw, shape, "many numbers", learned=exam.learned, dtype=dtype)
    # Parameters that change nothing.
    start = {"weight": 0.0 if exam.norm.formula.gain == "one plus" else 1.0, "eta": 0.0}
    neutral = {r: torch.full_like(case.given[r], v) for r, v in start.items() if r in case.given}
    case = case.but(**{r: neutral.get(r) for r in exam.learned})
    case = replace(case, x=(torch.randn(shape, generator=draw) + 0.3).to(dtype))
    y, expected = exam.run(case).to(dtype), exam.find_truth(case)
    # float32 statistics round one value in several thousand differently.
    least = 1e-4 * expected.square().mean().sqrt()
    other = (y != expected.to(dtype)) & ((y.double() - expected).abs() > least)
    if not (share := other.double().mean().item()) < 0.02:
        raise Broken(
            f"on {case} the results must be the formula's values rounded to {dtype}, but "
            f"{share:.0%} of them are not",
            exam.offer_cause(ROUNDED_EARLY, case),
        )


# --- differences between the RMS norms ---


def hold_rounding_order(exam: Exam, draw: Generator) -> None:
    """Require the variant's rounding order: before the gain multiplies, or once at the end."""
    if exam.variant not in _ORDER or "weight" not in exam.learned:
        raise Untested()
    # T5 differs from Llama with a float32 gain.
    gains = (False, True) if exam.variant in ("llama", "t5") else (False,)
    for dtype, mixed in product(HALF, gains):
        # Random gains: with gain 1 both orders round in the same way.
        with exam.use_parameters(mixed):
            shape = (32, exam.subject.dim or 256)
            case = exam.draw_case(draw, shape, "many numbers", learned=exam.learned, dtype=dtype)
            case = replace(case, x=(torch.randn(shape, generator=draw) + 0.3).to(dtype))
            y = exam.run(case)
        standard = exam.norm.formula(case.x, {**exam.fill_settings(case), "weight": None})
        affine, gain = exam.norm.formula.affine, {"weight": case.given["weight"]}
        orders = {ONCE: affine(standard, gain), TWICE: affine(standard.to(dtype).double(), gain)}
        if exam.variant == "gemma":
            orders[ROUNDED_SUM] = affine(standard, {"weight": (1 + gain["weight"]).double() - 1})
        share = {order: _measure_share(y, exact) for order, exact in orders.items()}
        wanted = ONCE if mixed and exam.variant == "t5" else _ORDER[exam.variant]
        if not share[wanted] > 0.98:
            best = max(share, key=lambda order: share[order])
            beside = " with a float32 gain" * mixed
            raise Broken(
                f"on {case} with random gains, the results must have the rounding order of "
                f"{exam.variant}{beside}, {wanted}, but only {share[wanted]:.0%} of them do",
                f"the rounding order{beside} is: {best}" if share[best] > 0.98 else "",
            )


def _measure_share(y: Tensor, exact: Tensor) -> float:
    close = torch.isclose(y.double(), exact, rtol=1e-5, atol=1e-5)
    return (close if y.dtype == torch.float32 else y == exact.to(y.dtype)).double().mean().item()
