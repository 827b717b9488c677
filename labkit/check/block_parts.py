"""Which part of a labkit Block is another one than the recipe's, and in what it differs.

A part is a half's step, its sublayer, or one of its norms. labkit's reference is run with a part
taken from what was handed in; where it gives what came, that part is the fault, and what the part
declares (its class, norms, bounds, eps) says how it differs.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from labkit.attention import Attention
from labkit.check.block_subject import SIDES, Change, ModuleSubject
from labkit.model.feed_forward import FeedForward
from labkit.placements import Step

Part = tuple[int, str]  # the half, and step, sublayer, norm or norm_out
TENSORS = {"q": "queries", "k": "keys", "v": "values", "c": "head outputs"}


def list_part_changes(subject: ModuleSubject) -> Iterator[Change]:
    """Yield the reference with single parts of the module, and with all that differ openly."""
    halves = [getattr(subject.module, side.replace("-", "_"), None) for side in SIDES]
    given = [step for step in halves if isinstance(step, Step)]
    if len(given) < len(SIDES):
        return
    parts = [
        (i, name) for i, step in enumerate(given) for name in ("sublayer", *step.norms, "step")
    ]
    declared = {part: _describe_part(given, subject.steps, part) for part in parts}
    open_parts = [part for part in parts if declared[part]]
    for part in open_parts:
        yield Change(declared[part], steps=_exchange_parts(subject.steps, given, [part]))
    if len(open_parts) > 1:
        told = "; ".join(declared[part] for part in open_parts)
        yield Change(told, steps=_exchange_parts(subject.steps, given, open_parts))
    for i, name in parts:
        if name != "step" and not declared[i, name]:
            told = f"the {name} of the {SIDES[i]} half computes something else than labkit's"
            yield Change(told, steps=_exchange_parts(subject.steps, given, [(i, name)]))


def _exchange_parts(right: Sequence[Any], given: Sequence[Any], parts: Sequence[Part]) -> list[Any]:
    """Copy the reference's steps with some parts from what was handed in."""
    steps = []
    for i in range(len(SIDES)):
        made = copy.deepcopy(given[i] if (i, "step") in parts else right[i])
        for name in ("sublayer", *made.norms):
            source = given[i] if (i, name) in parts else right[i]
            if hasattr(source, name):
                setattr(made, name, getattr(source, name))
        steps.append(made)
    return steps


def _describe_part(given: Sequence[Any], right: Sequence[Any], part: Part) -> str:
    """Say in what a part differs by what it declares; nothing where it declares the same."""
    i, name = part
    came, wanted = given[i], right[i]
    if name == "step":
        return _describe_step(came, wanted, SIDES[i])
    if name == "sublayer":
        return "; ".join(_describe_sublayer(came.sublayer, wanted.sublayer))
    if not hasattr(wanted, name):
        return ""  # its step says so
    return _describe_norm(getattr(came, name), getattr(wanted, name), f"the {SIDES[i]} half's norm")


def _describe_step(came: Step, wanted: Step, side: str) -> str:
    if came.equation != wanted.equation:
        return f"the {side} half's step is {came.equation} instead of {wanted.equation}"
    for letter, name in wanted.symbols.items():
        values = [getattr(step, name) for step in (came, wanted)]
        if all(isinstance(value, int | float) for value in values) and values[0] != values[1]:
            return f"the {side} half's {letter} is {values[0]:.4g} instead of {values[1]:.4g}"
    return ""


def _describe_norm(came: nn.Module, wanted: nn.Module, which: str) -> str:
    kinds = [type(norm).__name__ for norm in (came, wanted)]
    if kinds[0] != kinds[1]:
        return f"{which} is {kinds[0]}, not {kinds[1]}"
    eps = [getattr(norm, "eps", None) for norm in (came, wanted)]
    return "" if eps[0] == eps[1] else f"{which} has eps {eps[0]}, not {eps[1]}"


def _describe_sublayer(came: Any, wanted: Any) -> list[str]:
    if isinstance(came, Attention) and isinstance(wanted, Attention):
        return _describe_attention(came, wanted)
    if isinstance(came, FeedForward) and isinstance(wanted, FeedForward):
        return _describe_feed_forward(came, wanted)
    return [f"the sublayer is {type(came).__name__}, not {type(wanted).__name__}"]


def _describe_attention(came: Attention, wanted: Attention) -> list[str]:
    said = _describe_tensors(came, wanted)
    if came.causal != wanted.causal:
        said.append(
            "attention sees later tokens: the causal mask is missing"
            if wanted.causal
            else "attention is causal; it should see all tokens"
        )
    if came.softcap != wanted.softcap:
        said.append(
            "the logits are not bounded (soft cap)"
            if came.softcap is None
            else f"the bound of the logits (soft cap) is {came.softcap:g}, not {wanted.softcap}"
        )
    if came.chain != wanted.chain:
        said.append(
            "the scores of the block before are not added"
            if wanted.chain
            else "the scores of the block before are added and should not be"
        )
    if (came.head_gain is None) != (wanted.head_gain is None):
        there = "is missing" if came.head_gain is None else "is there and should not be"
        said.append(f"the gain of each head {there}")
    return said


def _describe_tensors(came: Attention, wanted: Attention) -> list[str]:
    """Say which of q, k, v and c are normalized otherwise than they should be."""
    norms = [{t: getattr(a, f"norm_{t}") for t in TENSORS} for a in (came, wanted)]
    own, right = ({t: norm for t, norm in n.items() if norm is not None} for n in norms)
    if right and not own:
        return ["q, k, v and c are not normalized at all"]
    said = [f"the {TENSORS[t]} ({t}) are not normalized" for t in right if t not in own]
    said += [
        f"the {TENSORS[t]} ({t}) are normalized and should not be" for t in own if t not in right
    ]
    if came.norms is None or wanted.norms is None:
        return said
    if came.norms.share != wanted.norms.share:
        said.append(
            {
                "width": "the norm runs over the full width; it must run over each head",
                "head": "the norm runs over each head; it must run over the full width",
                "own": "each head has gains of its own; all heads share one",
            }[came.norms.share]
            if wanted.norms.share != "own"
            else "all heads share one gain; each should have gains of its own"
        )
    if came.norms.after_rope != wanted.norms.after_rope:
        order = ("after", "before") if came.norms.after_rope else ("before", "after")
        said.append(f"q and k are normalized {order[0]} the rotation instead of {order[1]}")
    if came.norms.times != wanted.norms.times:
        said.append(f"q and k are multiplied by {came.norms.times:g}, not {wanted.norms.times:g}")
    if came.norms.temperature != wanted.norms.temperature:
        said.append(f"the temperature is {came.norms.temperature}, not {wanted.norms.temperature}")
    for t in own.keys() & right.keys():
        said += filter(None, [_describe_norm(own[t], right[t], f"the norm of the {TENSORS[t]}")])
    return said


def _describe_feed_forward(came: FeedForward, wanted: FeedForward) -> list[str]:
    said = []
    names = [getattr(f.activation, "__name__", "SwiGLU") for f in (came, wanted)]
    if names[0] != names[1]:
        said.append(f"the activation is {names[0]}, not {names[1]}")
    if (came.inner_norm is None) != (wanted.inner_norm is None):
        there = "is missing" if came.inner_norm is None else "is there and should not be"
        said.append(f"the norm of the hidden vector {there}")
    return said
