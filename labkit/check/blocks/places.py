"""Laws that need several blocks: constants at other depths, first weights, weights after a step."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from labkit.check.blocks.exam import Exam, describe, same
from labkit.check.blocks.forms import Forms, exams, make, takes_place
from labkit.check.blocks.halves import is_first, unit
from labkit.check.blocks.module import ModuleExam
from labkit.check.blocks.reading import flattened, values
from labkit.check.case import Broken, Untested

_DEPENDENT = ("deepnorm", "keel", "lns", "mix-ln", "hybrid*", "first-qkv-pre")
# How first weights change from 2 blocks to 32: β = (8N)^(−1/4), and sqrt(ln 2N).
_RULES = {"deepnorm": 16**-0.25, "sub-ln": (math.log(64) / math.log(4)) ** 0.5}
_NUMBERED = {"index", "number", "sublayer_index", "place"}
_SHRUNK = ("v", "out", "gate", "up", "down")


def constants(exam: Exam, forms: Forms) -> None:
    """Match the equations for other depths and other blocks of the stack."""
    takes = takes_place(forms.given) if exam.is_class or exam.form != "module" else set()
    if forms.recipe not in _DEPENDENT:
        raise Untested()
    _knows_its_block(exam, forms, takes)
    if not takes and not (forms.recipe == "lns" and exam.form != "module"):
        raise Untested()
    by_depth = takes & {"depth", "sublayers", "config", "place", "alpha"}
    numbered = takes & _NUMBERED or (forms.recipe == "lns" and exam.form != "module")
    by_index = numbered and forms.index is None
    for depth in (3, 12) if by_depth else (forms.settled.depth,):
        config = replace(forms.settled, depth=depth)
        named = forms.index if exam.is_class or forms.index is not None else depth - 1
        for index in (0, 1, depth - 1) if by_index else (named,):
            if exam.is_class and index is None and forms.recipe != "deepnorm":
                continue
            if index is not None and not _comparable(exam, forms, index, depth):
                continue
            other = exams(forms, config, index, tries=1500)
            if other.refused:
                raise Broken(f"with depth {depth}, block {index}: {other.refused}")
            case = other.case(other.generator("constants"))
            actual, expected = other.run(case), other.truth(case)
            if not same(actual, expected):
                where = f"depth {depth}" + ("" if index is None else f", block {index} (from 0)")
                raise Broken(
                    describe(f"{case}, {where}", actual.stream, expected.stream),
                    other.cause()
                    or exam.stock("a constant does not follow the depth or the block's number"),
                )


def _knows_its_block(exam: Exam, forms: Forms, takes: set[str]) -> None:
    """Want a class to take its block's number where the recipe needs it; note what was assumed."""
    if forms.index is not None or takes & _NUMBERED or forms.recipe == "deepnorm":
        return
    many = "divides by the root of the block's number" if forms.recipe == "lns" else (
        "treats the first block(s) in another way"
    )  # fmt: skip
    if exam.is_class:
        raise Broken(
            f"{getattr(forms.given, '__name__', 'the class')} does not take its block's number",
            f"the recipe {many}: the class must take the block's number, or pass index=…",
        )
    if forms.recipe != "lns" or exam.form == "module":
        number = exam.design.attention.number
        exam.notes.append(
            f"the recipe {many}: this was held against block {number - 1} (from 0) alone, "
            f"{exam.design.text()}; name another one with index=…"
        )


def _comparable(exam: Exam, forms: Forms, index: int, depth: int) -> bool:
    """Return whether that block obeys the equation that the subject stands for."""
    first = is_first(forms.recipe, index, depth)
    if index >= depth:
        return False
    if forms.index is not None:  # one block was named: it stays what it is
        return first == is_first(forms.recipe, index, forms.settled.depth)
    return exam.is_class or not first  # a step is one equation: the first blocks have another


def first_weights(exam: Exam, forms: Forms) -> None:
    """Start the recipe's matrices as large as its rule says, gains at 1 and shifts at 0."""
    if not isinstance(exam, ModuleExam) or not exam.is_class:
        raise Untested()
    for unit_ in exam.found.units:
        _start(exam, unit_.name, unit_.leaves)
    if forms.recipe not in _RULES or not takes_place(forms.given) & {"config", "depth"}:
        return
    shallow, deep = (_sizes(forms, depth) for depth in (2, 32))
    if all(abs(deep[s] / shallow[s] - 1) < 0.12 for s in deep):
        exam.notes.append("first weights were not tested: they do not depend on depth here")
        return
    rule = _RULES[forms.recipe]
    for slot, size in deep.items():
        wanted = rule if slot in _SHRUNK else 1.0
        ratio = size / shallow[slot]
        if abs(ratio / wanted - 1) > 0.15:
            raise Broken(
                f"from 2 blocks to 32 the first weights of {slot} change by a factor {ratio:.3g}, "
                f"expected {wanted:.3g}",
                "the exponent's sign is wrong"
                if slot in _SHRUNK and ratio * wanted > 0.8 and ratio > 1 > wanted
                else "the rule is for value, output and feed-forward matrices; q and k keep theirs",
            )


def _start(exam: ModuleExam, name: str, leaves: dict) -> None:
    own = dict(exam.original.named_parameters())
    kind = exam.design.norm
    for leaf, piece in leaves.items():
        if not any(name == n for s, n in exam.reading.units if s[-1] in "NM" and "." in s):
            continue
        start = {"weight": 0.0 if kind == "rms-gemma" else 1.0, "bias": 0.0}.get(leaf)
        if start is None or kind in ("scale", "l2"):
            continue
        actual = own[piece.names[0]].detach()
        if not torch.allclose(actual.double(), torch.full_like(actual, start).double()):
            raise Broken(
                f"{piece.names[0]} starts at {actual.flatten()[0].item():.4g}, expected {start:g}",
                "the gain of a norm starts at 1 (Gemma's w, of 1 + w, at 0), its shift at 0",
            )


def _sizes(forms: Forms, depth: int) -> dict[str, float]:
    """Measure the standard deviation of each matrix of a block that was just made."""
    config = replace(forms.settled, depth=depth, dim=64, hidden=96, heads=4, kv_heads=None)
    sizes: dict[str, list[float]] = {}
    for _ in range(2):
        module = make(forms, config, 0)
        exam = ModuleExam(module, forms.recipe, config, 0, forms.seed, 0)
        for slot, w in values(exam.reading, flattened(module)).items():
            if slot in ("q", "k", *_SHRUNK):
                sizes.setdefault(slot, []).append(w.std().item())
    return {slot: sum(s) / len(s) for slot, s in sizes.items()}


_HOOKS = ("after_step", "normalize_weights", "normalize", "renormalize", "norm_weights",
          "normalize_matrices", "norm_matrices", "renormalize_weights")  # fmt: skip


def unit_weights(exam: Exam, forms: Forms) -> None:
    """Give every matrix unit vectors along the stream's axis when it is renormalized."""
    if not isinstance(exam, ModuleExam) or not exam.design.inside.sphere:
        raise Untested()
    name = next((n for n in _HOOKS if callable(getattr(exam.module, n, None))), None)
    if name is None:
        raise Untested()
    module: nn.Module = copy.deepcopy(exam.module)
    with torch.no_grad():
        for p in module.parameters():
            if p.ndim == 2:
                p.mul_(3.0)
    hook: Callable[[], object] = getattr(module, name)
    hook()
    for slot, w in values(exam.reading, flattened(module)).items():
        if slot in ("q", "k", "v", "gate", "up", "out", "down"):
            axis = 0 if slot in ("out", "down") else 1
            _expect_unit(slot, w, axis, name)


def _expect_unit(slot: str, w: Tensor, axis: int, name: str) -> None:
    lengths = w.square().sum(axis).sqrt()
    if not torch.allclose(lengths, torch.ones_like(lengths), atol=1e-5):
        other = torch.allclose(unit(w), w, atol=1e-5) or torch.allclose(unit(w.T).T, w, atol=1e-5)
        what = "columns" if axis == 0 else "rows"
        raise Broken(
            f"after {name}() the {what} of {slot} have lengths {lengths.min():.4g} to "
            f"{lengths.max():.4g}, expected 1",
            "the other axis was normalized: it must be the one of the stream's width"
            if other
            else "the matrix is not normalized",
        )


MORE: dict[str, Callable[[Exam, Forms], None]] = {
    "constants": constants,
    "first weights": first_weights,
    "unit weights": unit_weights,
}
