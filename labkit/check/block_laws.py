"""The laws of a block: each takes the exam of check.block, and raises Broken where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labkit.check.block_subject import SIDES, ModuleSubject, Outcome, is_close
from labkit.check.case import Broken, Case, Untested, describe

if TYPE_CHECKING:
    from labkit.check.block import BlockExam

GRADIENT = 1e-3  # allowed, relative to the largest entry
RANDOM = "something random or remembered takes part"


def run_first(exam: BlockExam) -> None:
    """Take a stream of shape (batch, time, dim) and return one of the same shape."""
    exam.settle()


def hold_parameters(exam: BlockExam) -> None:
    """Have the parameters of labkit's block, and no others."""
    if not isinstance(exam.subject, ModuleSubject):
        raise Untested()
    if exam.subject.problems:
        usual = "a norm or a matrix is missing, or two places share one"
        raise Broken("; ".join(exam.subject.problems), exam.find_cause() or usual)


def hold_value(exam: BlockExam) -> None:
    """Match the recipe's equations in float64."""
    exam.compare(exam.subject.draw_case("ordinary numbers"))
    exam.compare(exam.subject.draw_case("again", time=7))
    exam.compare(exam.subject.draw_case("many long sequences", batch=6, time=40))


def _compare_silent(
    exam: BlockExam, halves: tuple[str, ...], silent: tuple[str, ...], about: str
) -> None:
    if exam.subject.row.sphere or exam.subject.sides != halves:
        raise Untested()
    with exam.subject.silence(silent):
        exam.compare(exam.subject.draw_case(about))


def hold_attention_half(exam: BlockExam) -> None:
    """Match the equations when the feed-forward writes nothing."""
    _compare_silent(exam, SIDES, SIDES[1:], "the feed-forward writes nothing")


def hold_feed_forward_half(exam: BlockExam) -> None:
    """Match the equations when the attention writes nothing."""
    _compare_silent(exam, SIDES, SIDES[:1], "the attention writes nothing")


def hold_skip(exam: BlockExam) -> None:
    """Leave of x what the equations leave when no sublayer writes anything."""
    sides = exam.subject.sides
    _compare_silent(exam, sides, sides, "no sublayer writes anything")


def hold_shapes(exam: BlockExam) -> None:
    """Match them for one token, one sequence and many."""
    exam.compare(exam.subject.draw_case("one token", batch=1, time=1))
    exam.compare(exam.subject.draw_case("four short sequences", batch=4, time=2))
    exam.compare(exam.subject.draw_case("one long sequence", batch=1, time=11))


def hold_scales(exam: BlockExam) -> None:
    """Match them for a small and for a large stream: norms stand where they should."""
    if exam.subject.row.sphere:
        raise Untested()
    exam.compare(exam.subject.draw_case("a small stream", scale=0.3))
    exam.compare(exam.subject.draw_case("a large stream", scale=100.0))


def hold_padding(exam: BlockExam) -> None:
    """Let no token see a padded one."""
    if not isinstance(exam.subject, ModuleSubject):
        raise Untested()
    case = exam.subject.draw_case("two tokens of the first sequence are padding")
    real = torch.ones(case.x.shape[:2], dtype=torch.bool)
    real[0, :2] = False  # the first: a causal mask does not hide them
    case = case.but(padding=real)
    with torch.no_grad():
        actual, expected = exam.run(case).stream[real], exam.subject.find_truth(case).stream[real]
    if not is_close(actual, expected):
        usual = "padding is not masked, or its mask has the opposite sense"
        what = ", real tokens"
        raise Broken(describe(case, actual, expected, what), exam.find_cause(usual))


def _differentiate_outcome(
    run: Callable[[Case], Outcome],
    inner: Mapping[str, Tensor],
    case: Case,
    weights: list[Tensor | None],
) -> dict[str, Tensor]:
    """Differentiate all that comes, weighed at random, by all that goes in and is inside."""
    leaves = {name: t.clone().requires_grad_(True) for name, t in case.tensors().items()}
    outcome = run(case.map(lambda name, _: leaves[name] * 1))
    if not outcome.stream.requires_grad:
        raise Broken(f"on {case} the new stream has no gradient: it was cut off (detach, no_grad)")
    pairs = zip(outcome.list_parts(), weights, strict=True)
    total = torch.zeros((), dtype=torch.float64)
    for (_, t), weight in pairs:
        if t is not None and weight is not None:
            total = total + (t * weight).sum()
    places = {**leaves, **inner}
    grads = torch.autograd.grad(total, [*places.values()], allow_unused=True)
    return {
        name: torch.zeros_like(place) if grad is None else grad
        for (name, place), grad in zip(places.items(), grads, strict=True)
    }


def _hold_gradient(exam: BlockExam, by_inputs: bool) -> None:
    subject = exam.subject
    case = subject.draw_case("ordinary numbers", batch=1, time=4)
    with torch.no_grad():
        parts = subject.find_truth(case).list_parts()
    weights = [None if t is None else subject.draw_normal(*t.shape) for _, t in parts]
    actual = _differentiate_outcome(
        lambda one: subject.run(one, one.x), subject.inner, case, weights
    )
    expected = _differentiate_outcome(subject.find_truth, subject.leaves, case, weights)
    largest = max(grad.abs().max().item() for grad in expected.values())
    for name in [n for n in expected if (n in case.tensors()) == by_inputs]:
        came, wanted = actual[name], expected[name]
        # The second part: a key's gain, say, may have gradient 0 but for rounding.
        allowed = GRADIENT * wanted.abs().max().item() + 1e-5 * largest
        if (came - wanted).abs().max().item() > allowed:
            usual = "part of the way is cut off (detach, no_grad, .data) or scaled"
            what = f", gradient of {name}"
            raise Broken(describe(case, came, wanted, what), exam.find_cause(usual))


def hold_gradient_of_x(exam: BlockExam) -> None:
    """Return the gradient of x, and of whatever else comes in."""
    _hold_gradient(exam, by_inputs=True)


def hold_gradient_of_parameters(exam: BlockExam) -> None:
    """Give every parameter its gradient."""
    _hold_gradient(exam, by_inputs=False)


def hold_inputs_kept(exam: BlockExam) -> None:
    """Leave x and the parameters as they were."""
    case, own = exam.subject.draw_case("ordinary numbers"), exam.subject.inner.values()
    x, before = case.x.clone(), [p.detach().clone() for p in own]
    with torch.no_grad():
        exam.subject.run(case, x)
    if not torch.equal(x, case.x):
        cause = "an in-place operation (+=, add_, mul_) on the stream or a view of it"
        raise Broken(f"on {case} x was overwritten", cause)
    if any(not torch.equal(p, b) for p, b in zip(own, before, strict=True)):
        raise Broken(f"on {case} a parameter was changed by the forward pass", "in-place code")


def hold_repeatable(exam: BlockExam) -> None:
    """Give the same result for the same input."""
    case = exam.subject.draw_case("ordinary numbers")
    first, second = exam.run(case).stream, exam.run(case).stream
    if not is_close(second, first, 1e-9):
        raise Broken(describe(case, second, first, ", called a second time"), RANDOM)


def hold_precision(exam: BlockExam) -> None:
    """Stay close to float64 in float32 and in bfloat16, in the dtype that came in."""
    case = exam.subject.draw_case("precision")
    expected = exam.run(case).stream
    for dtype, allowed in ((torch.float32, 1e-4), (torch.bfloat16, 0.15)):
        with torch.no_grad():
            narrow = case.map(lambda _, t, dtype=dtype: t.to(dtype))
            actual = exam.subject.narrow(dtype).run(narrow).stream
        if actual.dtype != dtype:
            cause = "a cast to another dtype that is not undone"
            raise Broken(f"on {case} in {dtype} the new stream is {actual.dtype}", cause)
        if not bool(actual.isfinite().all()) or not is_close(actual, expected, allowed):
            message = describe(case, actual, expected, f" in {dtype}")
            raise Broken(message, exam.find_cause("lost precision"))


def hold_constants(exam: BlockExam) -> None:
    """Match the equations for other depths and other blocks of the stack."""
    others = [*exam.list_other_places()]
    if not others:
        raise Untested()
    for depth, index in others:
        other = exam.move_to(depth, index)
        other.settle()
        try:
            other.compare(other.subject.draw_case(f"depth {depth}, block {index} from 0"))
        except Broken as broken:
            usual = "a constant does not follow the depth or the block's number"
            raise Broken(broken.message, broken.cause or exam.find_cause(usual)) from None


LAWS: dict[str, Callable[[BlockExam], None]] = {
    "runs": run_first,
    "parameters": hold_parameters,
    "value": hold_value,
    "attention half": hold_attention_half,
    "feed-forward half": hold_feed_forward_half,
    "skip path": hold_skip,
    "shapes": hold_shapes,
    "small and large streams": hold_scales,
    "padding": hold_padding,
    "gradient of x": hold_gradient_of_x,
    "gradient of parameters": hold_gradient_of_parameters,
    "inputs kept": hold_inputs_kept,
    "same result twice": hold_repeatable,
    "precision": hold_precision,
    "constants": hold_constants,
}
