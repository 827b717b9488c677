"""The laws that tell the RMS norms apart in half precision: what is rounded, and when.

torch, gemma, outside   y = round(gain · x/rms)         one rounding
llama, t5               y = round(gain · round(x/rms))  two
"""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.case import Broken, Case, Untested
from labkit.check.exam import Exam
from labkit.check.formula import without

ONCE, TWICE = "one rounding, after the gain", "cast back to x's dtype before the gain"
_ORDER = {"torch": ONCE, "gemma": ONCE, "outside": ONCE, "llama": TWICE, "t5": TWICE}


def rounding_order(exam: Exam) -> None:
    """Round where the variant rounds: before the gain multiplies, or once at the end."""
    if exam.variant is None or "weight" not in exam.learned:
        raise Untested()
    draw = exam.generator("rounding order")
    wanted = _ORDER[exam.variant]
    for dtype in (torch.bfloat16, torch.float16):
        case = _many(exam, draw, dtype)
        y = exam.run(case)
        share = {order: _share(y, rounded) for order, rounded in _orders(exam, case).items()}
        if not share[wanted] > 0.98:
            best = max(share, key=lambda order: share[order])
            raise Broken(
                f"on {case}, random gains, {share[wanted]:.0%} of the results are those of the "
                f"order of {exam.variant}: {wanted}",
                f"the rounding order is: {best}" if share[best] > 0.98 else "",
            )


def wide_gain(exam: Exam) -> None:
    """Leave the product with a float32 gain as the variant has it."""
    if exam.variant not in ("llama", "t5") or "weight" not in exam.learned:
        raise Untested()
    with exam.parameters(mixed=True):  # a module in float32, and an input in half precision
        _wide_gain(exam)


def _wide_gain(exam: Exam) -> None:
    draw = exam.generator("wide gain")
    case = _many(exam, draw, torch.bfloat16)
    weight = torch.randn(case.x.shape[-1], generator=draw) + 1.0
    case = case.but(weight=weight)
    y = exam.run(case)
    exact, narrow = _standard(exam, case), _standard(exam, case).bfloat16().double()
    product = weight.double() * (narrow if exam.variant == "llama" else exact)
    share = _share(y, product.to(y.dtype))
    if y.dtype == torch.float32:
        share = torch.isclose(y.double(), product, rtol=1e-5, atol=1e-5).double().mean().item()
    if not share > 0.98:
        rounds = "rounds x/rms to bfloat16 first" if exam.variant == "llama" else "rounds nothing"
        raise Broken(
            f"on {case}, a float32 gain: {exam.variant} {rounds}",
            "the normalized value is "
            + ("not cast back to x's dtype" if exam.variant == "llama" else "cast back")
            + " before a float32 gain multiplies",
        )


def _many(exam: Exam, draw: torch.Generator, dtype: torch.dtype) -> Case:
    dim = exam.subject.dim or 256
    case = exam.case(draw, (32, dim), "many half-precision numbers", learned=exam.learned,
                     dtype=dtype)  # fmt: skip
    return replace(case, x=(torch.randn(32, dim, generator=draw) + 0.3).to(dtype))


def _standard(exam: Exam, case: Case) -> Tensor:
    return exam.spec.formula(case.x, without(exam.filled(case), "weight"))


def _orders(exam: Exam, case: Case) -> dict[str, Tensor]:
    dtype, gain = case.x.dtype, case.given["weight"].double()
    standard = _standard(exam, case)
    one = torch.ones_like(standard)
    factor = exam.spec.formula.affine(one, {"weight": gain})
    narrow = standard.to(dtype).double() * factor
    return {ONCE: (standard * factor).to(dtype), TWICE: narrow.to(dtype)}


def _share(y: Tensor, rounded: Tensor) -> float:
    return (y.double() == rounded.double()).double().mean().item()
