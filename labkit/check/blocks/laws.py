"""The laws of a block: its value, half by half, on several inputs; each draws its own."""

from collections.abc import Callable

import torch

from labkit.check.blocks import modes, properties
from labkit.check.blocks.exam import Exam, close, describe
from labkit.check.blocks.module import ModuleExam
from labkit.check.case import Broken, Untested

Law = Callable[[Exam], None]


def runs(exam: Exam) -> None:
    """Take a stream of shape (batch, time, dim) and return one of the same shape."""
    if exam.refused:
        raise Broken(exam.refused)
    exam.run(exam.case(exam.generator("runs")))


def parameters(exam: Exam) -> None:
    """Have every matrix, and a norm with a gain of its own at each place."""
    if not isinstance(exam, ModuleExam):
        raise Untested()
    missing = exam.reading.missing
    norms = [m for m in missing if m[-1] in "NM" and "." in m]
    if missing and len(norms) == len(missing) and not exam.found.units:
        exam.notes.append("the gains of its norms were not tested: there are none")
        return
    if missing:
        names = ", ".join(f"{n} {tuple(p.shape)}" for n, p in exam.module.named_parameters())
        raise Broken(
            f"it has no parameter for {', '.join(missing)} (N, M: norms); the recipe wants "
            f"{exam.design.text()}. It has {names}",
            exam.cause() or "a norm or a matrix is missing, or two places share one",
        )


def value(exam: Exam) -> None:
    """Match the recipe's equations in float64."""
    draw = exam.generator("value")
    exam.compare([exam.case(draw), exam.case(draw, "again", time=7)])
    large = exam.case(draw, "many long sequences", batch=6, time=40)
    try:
        actual = exam.run(large).stream
    except Broken:
        exam.notes.append("40 tokens were not checked: it does not take as many")
        return
    expected = exam.truth(large).stream
    if not close(actual, expected):
        exam.off = True
        raise Broken(describe(str(large), actual, expected), exam.cause())


def shapes(exam: Exam) -> None:
    """Match them for one token, one sequence and many."""
    draw = exam.generator("shapes")
    exam.compare([exam.case(draw, "one token", batch=1, time=1)])
    exam.compare([exam.case(draw, "four short sequences", batch=4, time=2)])
    exam.compare([exam.case(draw, "one long sequence", batch=1, time=11)])


def half(side: str, silent: str) -> Law:
    """Make the law of one half: the other one's sublayer writes 0."""

    def law(exam: Exam) -> None:
        exam.needs((side, silent))
        about = f"the {silent} writes nothing"
        exam.compare([exam.case(exam.generator(side), about, silent=(silent,))])

    law.__doc__ = f"Match the equations when the {silent} writes nothing."
    return law


def skip(exam: Exam) -> None:
    """Leave of x what the equations leave when no sublayer writes anything."""
    exam.needs(exam.sides)
    case = exam.case(exam.generator("skip"), "no sublayer writes anything", silent=exam.sides)
    exam.compare([case])


def scales(exam: Exam) -> None:
    """Match them for a small and for a large stream: norms stand where they should."""
    if exam.design.inside.sphere:
        raise Untested()
    draw = exam.generator("scales")
    small = exam.case(draw, "a small stream", scale=0.3)
    exam.compare([small, exam.case(draw, "a large stream", scale=100.0)])


def gains(exam: Exam) -> None:
    """Use the gain of each norm where it belongs, and nowhere else."""
    if not isinstance(exam, ModuleExam):
        raise Untested()
    case = exam.case(exam.generator("gains"), "one gain changed")
    before = exam.weights
    for slot in [s for s in before if s.endswith(".weight")]:
        factor = torch.linspace(0.5, 2.0, before[slot].numel(), dtype=torch.float64)
        changed = before[slot] * factor.reshape(before[slot].shape)
        exam.write(slot, changed)
        exam.weights = {**before, slot: changed}
        try:
            actual, expected = exam.run(case).stream, exam.truth(case).stream
        finally:
            exam.write(slot, before[slot])
            exam.weights = before
        if not close(actual, expected):
            place = dict(exam.reading.units).get(slot.rpartition(".")[0], slot)
            raise Broken(describe(f"{case}, that of {place}", actual, expected), exam.cause())


BASIC: dict[str, Law] = {
    "runs": runs,
    "parameters": parameters,
    "value": value,
    "attention half": half("attention", "feed-forward"),
    "feed-forward half": half("feed-forward", "attention"),
    "skip path": skip,
    "shapes": shapes,
    "small and large streams": scales,
    "each gain in its place": gains,
    "second stream": properties.second_stream,
    "scores handed on": properties.scores,
    "unit length": properties.unit_length,
    "tokens apart": properties.tokens_alone,
    "causal": properties.causal,
    "gradient of x": properties.gradient_x,
    "gradient of parameters": properties.gradient_parameters,
    "inputs kept": properties.inputs_kept,
    "same result twice": properties.repeatable,
    "training mode": modes.training,
    "precision": properties.precision,
}
