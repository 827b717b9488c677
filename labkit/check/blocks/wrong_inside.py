"""Known mistakes inside the sublayers of a block, and in its norms."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from labkit.check.blocks.design import Design
from labkit.check.blocks.inside import Inside

_MASKS = {
    "next": "the causal mask is off by one: a token sees the next one (triu(2) for triu(1))",
    "strict": "the causal mask is off by one: a token does not see itself (tril(-1) for tril(0))",
    "after softmax": "the causal mask comes after the softmax: the weights no longer add up to 1",
    "zero": "the causal mask fills with 0, not with -inf: later tokens still take part",
}


def inside_mistakes(right: Design) -> Iterator[tuple[str, Design]]:
    """Yield designs that differ inside attention or feed-forward."""
    if any(half.norms for half in right.sides):
        for merged in ("N", "M", "all"):
            told = "one norm serves two places; each place has a norm with a gain of its own"
            yield told, replace(right, merged=merged)
    single = [*_attention(right.inside), *_logits(right.inside), *_feed_forward(right.inside)]
    for sentence, changes in single:
        yield sentence, replace(right, inside=replace(right.inside, **changes))
    yield from _norms(right)


def _norms(right: Design) -> Iterator[tuple[str, Design]]:
    kind = right.norm
    if kind == "rms-gemma":
        yield "the gain is w where it is 1 + w", replace(right, norm="rms")
    if kind.startswith("rms"):
        yield (
            "the norms subtract the mean (LayerNorm); RMSNorm is asked for",
            replace(right, norm="layer", eps=1e-5),
        )
        yield "the gain is 1 + w where it is w", replace(right, norm="rms-gemma")
    if kind == "layer":
        yield (
            "the norms do not subtract the mean (RMSNorm); LayerNorm is asked for",
            replace(right, norm="rms"),
        )
    if kind in ("dyt", "derf"):
        for other in ("dyt", "derf", "layer", "rms"):
            if other != kind:
                yield f"its norm is {other}, not {kind}", replace(right, norm=other)
    if kind != "l2":
        yield (
            "the norms divide by the length |x|, not by the root of the mean square",
            replace(right, norm="l2", eps=1e-12),
        )
    yield "its norms do nothing", replace(right, norm="none")


def _attention(i: Inside) -> Iterator[tuple[str, dict[str, Any]]]:
    names = {"q": "queries", "k": "keys", "v": "values", "c": "head outputs"}
    for name in i.normed:
        if i.c_where == "before W_O":
            yield (
                f"the {names[name]} ({name}) are not normalized",
                {"normed": i.normed.replace(name, "")},
            )
    for name in "qkvc":
        if name not in i.normed:
            more = "".join(n for n in "qkvc" if n in i.normed or n == name)
            yield f"the {names[name]} ({name}) are normalized and should not be", {"normed": more}
    if i.normed:
        yield "q, k, v and c are not normalized at all", {"normed": ""}
        if "v" in i.normed and len(i.normed) > 2:
            yield "only q and k are normalized", {"normed": "qk"}
        if i.normed != "qkv" and i.normed != "c":
            yield "other tensors than asked for are normalized", {"normed": "qkv"}
        if i.share == "width":
            yield "the norm runs over each head; it must run over the full width", {"share": "head"}
            yield "the norm runs over each head, with gains of its own", {"share": "own"}
        else:
            yield (
                "the norm runs over the full width; it must run over each head",
                {"share": "width"},
            )
            yield "each head has gains of its own; all heads share one", {"share": "own"}
        if not i.after_rope and set(i.normed) & set("qk"):
            yield (
                "q and k are normalized after the rotation instead of before",
                {"after_rope": True},
            )
            yield (
                "q and k are normalized after the rotation, over the full width",
                {"after_rope": True, "share": "width"},
            )
        for kind in ("layer", "l2", "rms", "rms-gemma"):
            if kind != i.kind:
                yield (
                    f"the norm inside attention is {kind}, not {i.kind}",
                    {"kind": kind, "eps": 1e-5 if kind == "layer" else i.eps},
                )
        if "c" in i.normed:
            yield (
                "the norm of the head outputs stands after W_O instead of before",
                {"c_where": "after W_O"},
            )
    if i.head_gain:
        yield "the gain of each head is missing", {"head_gain": ""}
        yield "the gain of each head stands after W_O instead of before", {"head_gain": "after W_O"}
    yield "attention sees later tokens: the causal mask is missing", {"causal": not i.causal}
    for mask, sentence in _MASKS.items() if i.causal else ():
        yield sentence, {"mask": mask}
    yield "key and value heads are tiled; each must repeat for its neighbours", {"groups": "tile"}
    yield "the heads are not transposed back before they become channels", {"merge": "no transpose"}
    yield "the softmax runs over the queries instead of the keys", {"over": "queries"}


def _logits(i: Inside) -> Iterator[tuple[str, dict[str, Any]]]:
    for scale in ("1/√h", "1", "1/h", "1/√d", "√h"):
        if scale != i.scale:
            yield (
                f"the logits are multiplied by {scale} instead of {i.scale} (h: head width)",
                {"scale": scale},
            )
    if i.sphere:
        yield "s_qk multiplies q alone; it multiplies q and k", {"sphere": "q"}
        yield "s_qk multiplies before the rotation; it must come after", {"sphere": "early"}
        yield (
            "s_qk is on q alone, and the logits are multiplied by 1/√h",
            {"sphere": "q", "scale": "1/√h"},
        )
        yield "v of the feed-forward lacks its factor √d", {"sphere_root": False}
    if i.softcap is not None:
        yield "the logits are not bounded (soft cap)", {"softcap": None}
        yield "the soft cap lacks the division: tanh(l)", {"cap_form": "c·tanh(l)"}
        yield "the soft cap lacks its factor: tanh(l/c)", {"cap_form": "tanh(l/c)"}
        yield (
            "the soft cap comes after the mask, so that later tokens leak",
            {"cap_form": "c·tanh(l/c) after mask"},
        )
        for cap in (30.0, 50.0, 20.0, 15.0):
            if cap != i.softcap:
                yield f"the soft cap is {cap:g} instead of {i.softcap:g}", {"softcap": cap}
    else:
        for cap in (50.0, 30.0):
            yield f"the logits are bounded (soft cap {cap:g}) and should not be", {"softcap": cap}
    if i.chain:
        yield "the scores of the block before are not added", {"chain": ""}
        yield (
            "the scores of the block before are added after the softmax",
            {"chain": "after softmax"},
        )
        yield (
            "the scores of the block before are scaled by 1/√h once more",
            {"chain": "before scale"},
        )
        yield "the scores are averaged instead of added", {"chain": "mean"}


def _feed_forward(i: Inside) -> Iterator[tuple[str, dict[str, Any]]]:
    if i.inner:
        yield "the norm of the hidden vector is missing", {"inner": ""}
        yield "the norm of the hidden vector stands before the activation", {"inner": "before"}
        yield "the norm stands after the last matrix instead of before it", {"inner": "end"}
        yield (
            "both inner norms stand after the output matrices instead of before",
            {"inner": "end", "c_where": "after W_O"},
        )
        for kind in ("layer", "rms"):
            if kind != i.inner_kind:
                yield f"the norm of the hidden vector is {kind}", {"inner_kind": kind}
    else:
        yield "a norm of the hidden vector is there and should not be", {"inner": "after"}
    for activation in ("silu", "gelu", "relu", "sigmoid", "identity"):
        if activation != i.activation:
            yield f"the activation is {activation}, not {i.activation}", {"activation": activation}
    if i.gated:
        yield "the gate is not used", {"gated": False}
