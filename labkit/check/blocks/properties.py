"""Laws of a block that are properties: what tokens see, gradients, precision, nothing disturbed."""

from collections.abc import Callable
from dataclasses import replace

import torch

from labkit.check.blocks.exam import GRADIENT, Exam, close, describe
from labkit.check.blocks.halves import unit
from labkit.check.blocks.module import ModuleExam
from labkit.check.blocks.slopes import GIVEN
from labkit.check.case import Broken, Untested


def tokens_alone(exam: Exam) -> None:
    """Keep tokens apart in the feed-forward half: only attention mixes them."""
    exam.needs(("attention", "feed-forward"))
    case = exam.case(exam.generator("tokens"), "attention writes nothing", silent=("attention",))
    moved = case.x.clone()
    moved[:, 1] = moved[:, 1] * -1.5 + 1
    actual, other = exam.run(case).stream, exam.run(replace(case, x=moved)).stream
    apart = [t for t in range(case.x.shape[1]) if t != 1]
    if not close(other[:, apart], actual[:, apart], 1e-9):
        raise Broken(
            describe(
                f"{case}, token 1 changed", other[:, apart], actual[:, apart], ", another token"
            ),
            exam.stock("a norm or the feed-forward runs over the tokens"),
        )


def causal(exam: Exam) -> None:
    """Let no token see a later one."""
    if not isinstance(exam, ModuleExam) or not exam.design.inside.causal:
        raise Untested()
    case = exam.case(exam.generator("causal"))
    moved = case.x.clone()
    moved[:, 3] = moved[:, 3] * -1.5 + 1
    moved = unit(moved) if exam.design.inside.sphere else moved
    actual, other = exam.run(case).stream[:, :3], exam.run(replace(case, x=moved)).stream[:, :3]
    if not close(other, actual, 1e-9):
        raise Broken(
            describe(f"{case}, token 3 changed", other, actual, ", an earlier token"),
            exam.stock("the causal mask is missing, or a norm runs over the tokens"),
        )


def second_stream(exam: Exam) -> None:
    """Move the second stream by the plain write of each sublayer."""
    if not any(h.second for h in exam.design.sides):
        raise Untested()
    case = exam.case(exam.generator("second"))
    actual, expected = exam.run(case).second, exam.truth(case).second
    if actual is None or expected is None:
        raise Broken(
            f"on {case} there is no second stream: return (x, r), or set context.total",
            "the second stream r is missing",
        )
    if not close(actual, expected):
        raise Broken(describe(f"{case}, second stream", actual, expected), exam.cause())


def scores(exam: Exam) -> None:
    """Hand on the sum of the logits so far."""
    if not exam.design.inside.chain or not isinstance(exam, ModuleExam):
        raise Untested()
    case = exam.case(exam.generator("scores"))
    actual, expected = exam.run(case).scores, exam.truth(case).scores
    if case.prev is None or actual is None or expected is None:
        raise Broken(
            f"on {case} no scores are taken or handed on: take and return them, or use "
            "context.scores",
            "the scores are not accumulated from block to block",
        )
    seen = torch.ones(actual.shape[-2:], dtype=torch.bool)
    seen = seen.tril() if exam.design.inside.causal else seen
    actual, expected = actual[..., seen], expected[..., seen]
    if not close(actual, expected):
        cause = exam.stock("what is handed on is not the sum: the scores are not accumulated")
        raise Broken(describe(f"{case}, scores", actual, expected), cause)


def _gradient(exam: Exam, wanted: Callable[[str], bool]) -> None:
    case = exam.case(exam.generator("gradient"), batch=1, time=4)
    actual, expected = exam.gradients(case)
    largest = max(g.abs().max().item() for g in expected.values())
    for slot in [s for s in expected if wanted(s)]:
        gap = (actual[slot] - expected[slot]).abs().max().item()
        if gap <= GRADIENT * expected[slot].abs().max().item() + 1e-5 * largest:
            continue  # the second part: a key's bias, say, has gradient 0 but for rounding
        raise Broken(
            describe(f"{case}, gradient of {slot}", actual[slot], expected[slot]),
            exam.stock("part of the way is cut off (detach, no_grad, .data) or scaled"),
        )


def gradient_x(exam: Exam) -> None:
    """Return the gradient of x, and of whatever else comes in."""
    _gradient(exam, lambda slot: slot in ("x", *GIVEN))


def gradient_parameters(exam: Exam) -> None:
    """Give every parameter its gradient."""
    _gradient(exam, lambda slot: slot not in ("x", *GIVEN))


def inputs_kept(exam: Exam) -> None:
    """Leave x and the parameters as they were."""
    case = exam.case(exam.generator("kept"))
    x = case.x.clone()
    own = list(exam.module.parameters()) if isinstance(exam, ModuleExam) else []
    before = [p.detach().clone() for p in own]
    with torch.no_grad():
        exam.run_on(case, x)
    if not torch.equal(x, case.x):
        raise Broken(
            f"on {case} x was overwritten",
            "an in-place operation (+=, add_, mul_) on the stream or a view of it",
        )
    if any(not torch.equal(p, b) for p, b in zip(own, before, strict=True)):
        raise Broken(f"on {case} a parameter was changed by the forward pass", "in-place code")


def repeatable(exam: Exam) -> None:
    """Give the same result for the same input."""
    case = exam.case(exam.generator("again"))
    first, second = exam.run(case).stream, exam.run(case).stream
    if not close(second, first, 1e-9):
        raise Broken(
            describe(str(case), second, first, ", called a second time"),
            "something random or remembered takes part in evaluation mode"
            if not exam.cause()
            else exam.cause(),
        )


def precision(exam: Exam) -> None:
    """Stay close to float64 in float32 and in bfloat16, in the dtype that came in."""
    case = exam.case(exam.generator("precision"))
    expected = exam.run(case).stream
    for dtype, allowed in ((torch.float32, 1e-4), (torch.bfloat16, 0.15)):
        actual = exam.run_in(case, dtype)
        if actual.dtype != dtype:
            raise Broken(
                f"on {case} in {dtype} the new stream is {actual.dtype}",
                "a cast to another dtype that is not undone",
            )
        if not bool(actual.isfinite().all()) or not close(actual, expected, allowed):
            raise Broken(
                describe(f"{case} in {dtype}", actual, expected), exam.stock("lost precision")
            )


def unit_length(exam: Exam) -> None:
    """Leave a stream of unit vectors, whatever the sublayers write."""
    if not exam.design.inside.sphere:
        raise Untested()
    case = exam.case(exam.generator("unit"))
    length = exam.run(case).stream.square().sum(-1).sqrt()
    if not close(length, torch.ones_like(length), 1e-6):
        raise Broken(
            f"on {case} the new stream has vectors of length {length.min():.4g} to "
            f"{length.max():.4g}, expected 1",
            exam.stock("the stream is not renormalized after the step"),
        )
