"""Wrong blocks with a cause to be named: where norms stand, DeepNorm, hybrids, first blocks."""

from blocks_by_hand import config, hand, steps
from blocks_parts import (
    ONE,
    PRE,
    BetaWithoutValue,
    Detached,
    EverywhereBeta,
    HalfGain,
    InPlace,
    OverTokens,
    OwnWeights,
    hybrid_flow,
    labkit_block,
)
from torch import nn
from variants_blocks_more import WRONG as MORE

from labkit.model import Block

# family -> name: (what is handed in, recipe, part of the cause, further arguments)
WRONG = {}

WRONG["plain"] = {
    "post: normed twice": (lambda x, f, norm: norm(norm(x) + f(x)), "post", "skip is taken", {}),
    "post: on the branch": (lambda x, f, norm: x + norm(f(x)), "post", "on the branch", {}),
    "post: pre": (lambda x, f, norm: x + f(norm(x)), "post", "Pre-Norm", {}),
    "post: no skip": (lambda x, f, norm: norm(f(x)), "post", "residual is missing", {}),
    "pre: skip from the copy": (
        lambda x, f, norm: norm(x) + f(norm(x)),
        "pre",
        "normalized copy",
        {},
    ),
    "pre: adds norm(x)": (lambda x, f, norm: norm(x) + f(x), "pre", "missing", {}),
    "pre: post": (steps(lambda x, f, n, b: n(x + f(x))), "pre", "both halves", {}),
    "pre: twice x": (steps(lambda x, f, n, b: 2 * x + f(n(x))), "pre", "doubled", {}),
    "pre: no norm in attention": (
        steps(lambda x, f, n, b: x + f(x), lambda x, f, n, b: x + f(n(x))),
        "pre",
        "norm before the sublayer is missing",
        {},
    ),
    "pre: shared norm": (
        hand(lambda b, x: (lambda y: y + b.f(b.n1(y)))(x + b.a(b.n1(x))), norms=1),
        "pre",
        "two places",
        {},
    ),
    "pre: FFN fed with x": (
        hand(lambda b, x: x + b.a(b.n1(x)) + b.f(b.n2(x))),
        "pre",
        "block's input",
        {},
    ),
    "pre: attention is lost": (
        hand(lambda b, x: (lambda y: x + b.f(b.n2(y)))(x + b.a(b.n1(x)))),
        "pre",
        "attention's write is lost",
        {},
    ),
    "pre: parallel in one norm": (
        hand(lambda b, x: x + b.a(b.n1(x)) + b.f(b.n1(x)), norms=1),
        "pre",
        "",
        {},
    ),
    "pre: no mask": (
        steps(lambda x, f, n, b: x + f(n(x)), causal=False),
        "pre",
        "causal mask",
        {"config": config("pre")},
    ),
    "pre: softmax over queries": (
        steps(lambda x, f, n, b: x + f(n(x)), over=-2),
        "pre",
        "queries",
        {},
    ),
    "pre: logits not scaled": (
        steps(lambda x, f, n, b: x + f(n(x)), scale=lambda h: 1.0),
        "pre",
        "multiplied by 1 ",
        {},
    ),
    "pre: detached": (Detached, "pre", "cut off", {}),
    "pre: in place": (InPlace, "pre", "in-place", {}),
    "pre: over tokens": (OverTokens, "pre", "", {}),
    "output: before and not after": (
        lambda x, f, norm: x + f(norm(x)),
        "output",
        "before the sublayer",
        {},
    ),
    "output: after the sum": (
        lambda x, f, norm: norm(x + f(x)),
        "output",
        "after the addition",
        {},
    ),
    "output: FFN reads x": (
        hand(lambda b, x: x + b.n1(b.a(x)) + b.n2(b.f(x))),
        "output",
        "MLP(x) for MLP(h)",
        {},
    ),
    "olmo2: norms by head": (
        steps(lambda x, f, n, b: x + n(f(x)), inside="qk"),
        "olmo2",
        "full width",
        {},
    ),
    "olmo2: after the rotation": (
        hand(
            lambda b, x: (lambda y: y + b.n2(b.f(y)))(x + b.n1(b.a(x))),
            inside="qk",
            wide=True,
            after=True,
        ),
        "olmo2",
        "after the rotation",
        {},
    ),
    "olmo2: k is not normed": (
        steps(lambda x, f, n, b: x + n(f(x)), inside="q", wide=True),
        "olmo2",
        "keys",
        {},
    ),
    "sandwich: one norm": (
        lambda x, f, norm, norm_out: x + f(norm(x)),
        "sandwich",
        "writes is missing",
        {},
    ),
    "sandwich: outer norm on the sum": (
        lambda x, f, norm, norm_out: norm_out(x + f(norm(x))),
        "sandwich",
        "after the addition",
        {},
    ),
    "peri: outer norm on the sum": (
        steps(lambda x, f, n, m, b: m(x + f(n(x))), each=2),
        "peri",
        "after the addition",
        {},
    ),
    "peri: output only": (
        steps(lambda x, f, n, m, b: x + m(f(x)), each=2),
        "peri",
        "raw stream",
        {},
    ),
    "peri: skip from the copy": (
        steps(lambda x, f, n, m, b: (lambda z: z + m(f(z)))(n(x)), each=2),
        "peri",
        "normalized copy",
        {},
    ),
    "gemma2: no cap": (labkit_block("sandwich"), "gemma2", "", {}),
    "gemma2: is Gemma 3": (labkit_block("gemma3"), "gemma2", "", {}),
    "labkit's post as pre": (labkit_block("post"), "pre", "after the addition", {}),
}

WRONG["plain"] |= {
    "pre: gains start at 1/2": (steps(PRE, kind=HalfGain), "pre", "starts at 1", {}),
}

WRONG["deepnorm"] = {
    "alpha on the branch": (
        lambda x, f, norm, alpha: norm(x + alpha * f(x)),
        "deepnorm",
        "branch f instead",
        {},
    ),
    "alpha on both": (
        lambda x, f, norm, alpha: norm(alpha * x + alpha * f(x)),
        "deepnorm",
        "missing",
        {},
    ),
    "alpha unused": (lambda x, f, norm, alpha: norm(x + f(x)), "deepnorm", "missing", {}),
    "alpha for 32 blocks": (
        lambda x, f, norm, depth: norm(64**0.25 * x + f(x)),
        "deepnorm",
        "32 blocks",
        {},
    ),
    "alpha counts sublayers": (
        lambda x, f, norm, depth: norm((4 * depth) ** 0.25 * x + f(x)),
        "deepnorm",
        "sublayers",
        {},
    ),
    "alpha is β's": (
        lambda x, f, norm, depth: norm((8 * depth) ** 0.25 * x + f(x)),
        "deepnorm",
        "8 belongs",
        {},
    ),
    "exponent's sign": (
        lambda x, f, norm, depth: norm((2 * depth) ** -0.25 * x + f(x)),
        "deepnorm",
        "branch f instead",
        {},
    ),
    "no norm": (lambda x, f, norm, alpha: alpha * x + f(x), "deepnorm", "missing", {}),
    "norm on the branch": (
        lambda x, f, norm, alpha: alpha * x + norm(f(x)),
        "deepnorm",
        "branch",
        {},
    ),
    "block: alpha on the branch": (
        steps(lambda x, f, n, b: n(x + (2 * b.depth) ** 0.25 * f(x))),
        "deepnorm",
        "branch f instead",
        {},
    ),
    "block: fixed alpha": (steps(lambda x, f, n, b: n(2.828 * x + f(x))), "deepnorm", "", {}),
    "block: no alpha in the FFN": (
        steps(
            lambda x, f, n, b: n((2 * b.depth) ** 0.25 * x + f(x)), lambda x, f, n, b: n(x + f(x))
        ),
        "deepnorm",
        "feed-forward",
        {},
    ),
}

WRONG["deepnorm"] |= {
    "β: exponent's sign": (OwnWeights, "deepnorm", "exponent", {}),
    "β: on q and k": (EverywhereBeta, "deepnorm", "q and k keep", {}),
    "β: not on v": (BetaWithoutValue, "deepnorm", "value, output", {}),
}

WRONG["hybrid"] = {
    "v is not normed": (hand(hybrid_flow, norms=1, inside="qk"), "hybrid", "values (v)", {}),
    "after the rotation": (
        hand(hybrid_flow, **ONE, after=True),
        "hybrid",
        "after the rotation",
        {},
    ),
    "full width": (hand(hybrid_flow, **ONE, wide=True), "hybrid", "full width", {}),
    "LayerNorm inside": (
        hand(hybrid_flow, **ONE, head_kind=nn.LayerNorm),
        "hybrid",
        "is layer",
        {},
    ),
    "attention reads a copy": (
        hand(lambda b, x: (lambda z: z + b.f(z))(b.n2(x + b.a(b.n1(x)))), norms=2, inside="qkv"),
        "hybrid",
        "normalized copy",
        {},
    ),
    "FFN is Pre-Norm": (
        hand(lambda b, x: (lambda y: y + b.f(b.n1(y)))(x + b.a(x)), **ONE),
        "hybrid",
        "raw stream",
        {},
    ),
    "FFN is Post-Norm": (
        hand(lambda b, x: (lambda y: b.n1(y + b.f(y)))(x + b.a(x)), **ONE),
        "hybrid",
        "",
        {},
    ),
    "norm on the branch": (lambda x, f, norm: x + f(norm(x)), "hybrid", "raw stream", {}),
    "only the skip": (lambda x, f, norm: norm(x) + f(x), "hybrid", "before the sublayer", {}),
    "c normed too": (hand(hybrid_flow, norms=1, inside="qkvc"), "hybrid", "head outputs (c)", {}),
    "qkvc: c is missing": (hand(hybrid_flow, **ONE), "qkvc-post", "head outputs (c)", {}),
    "qkvc: c after W_O": (
        hand(hybrid_flow, norms=1, inside="qkvc", c_last=True),
        "qkvc-post",
        "",
        {},
    ),
    "qkv-pre: stream form": (hand(hybrid_flow, **ONE), "qkv-pre", "normalized copy", {}),
    "pre-qkv-pre: hybrid": (labkit_block("pre-qkv-post"), "pre-qkv-pre", "normalized copy", {}),
    "post-pre: pre-post": (labkit_block("pre-post"), "post-pre", "attention", {}),
    "pre-post: classic": (
        steps(lambda x, f, n, b: x + f(n(x)), lambda x, f, n, b: n(x + f(x))),
        "pre-post",
        "",
        {},
    ),
    "post-pre: classic": (
        steps(lambda x, f, n, b: n(x + f(x)), lambda x, f, n, b: x + f(n(x))),
        "post-pre",
        "",
        {},
    ),
}

WRONG["first"] = {
    "hybrid*: no first block": (labkit_block("hybrid"), "hybrid*", "", {"index": 0}),
    "hybrid*: first everywhere": (labkit_block("pre-qkv-pre"), "hybrid*", "", {"index": 2}),
    "hybrid*: by the class": (lambda config, block=0: Block(config, 1), "hybrid*", "", {}),
    "first-qkv-pre: hybrid's": (labkit_block("hybrid"), "first-qkv-pre", "", {"index": 0}),
    "first-qkv-pre: hybrid*'s": (labkit_block("pre-qkv-pre"), "first-qkv-pre", "", {"index": 0}),
    "mix-ln: all pre": (lambda config, block=0: labkit_block("pre")(config), "mix-ln", "", {}),
    "mix-ln: all post": (labkit_block("post"), "mix-ln", "", {"index": 5}),
    "mix-ln: reversed": (
        lambda config, block=0: Block(config, config.depth - 1 - block),
        "mix-ln",
        "",
        {},
    ),
    "mix-ln: one block only": (
        lambda config, block=0: Block(config, 0 if block == 0 else 11),
        "mix-ln",
        "",
        {},
    ),
    "mix-ln: half of the blocks": (
        lambda config, block=0: labkit_block("post" if block < config.depth / 2 else "pre")(config),
        "mix-ln",
        "",
        {},
    ),
}

WRONG |= MORE
