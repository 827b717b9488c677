"""Wrong blocks with a cause to be named: constants, second streams, inner norms, spheres, gates."""

import torch
from blocks_by_hand import config, hand, sphere, steps
from blocks_parts import (
    PRE,
    Erf,
    LazyHook,
    MagnetoEverywhere,
    Normed,
    Outside,
    Sigmoid,
    WrongDyT,
    WrongHook,
    dual,
    keel_without_exception,
    labkit_block,
    normformer,
    scores,
    sub_ln_flow,
    unit,
)
from torch import nn

from labkit import placements

# family -> name: (what is handed in, recipe, part of the cause, further arguments)
WRONG = {}

WRONG["scaled"] = {
    "keel: counts blocks": (
        lambda x, f, norm, norm_out, depth: norm_out(depth * x + f(norm(x))),
        "keel",
        "blocks",
        {},
    ),
    "keel: root": (
        lambda x, f, norm, norm_out, depth: norm_out((2 * depth) ** 0.5 * x + f(norm(x))),
        "keel",
        "root",
        {},
    ),
    "keel: on the branch": (
        lambda x, f, norm, norm_out, alpha: norm_out(x + alpha * f(norm(x))),
        "keel",
        "branch",
        {},
    ),
    "keel: no inner norm": (
        lambda x, f, norm, norm_out, alpha: norm_out(alpha * x + f(x)),
        "keel",
        "before",
        {},
    ),
    "keel: no outer norm": (
        lambda x, f, norm, norm_out, alpha: alpha * x + f(norm(x)),
        "keel",
        "after the add",
        {},
    ),
    "keel: first FFN has α": (
        lambda config, block=0: keel_without_exception(config, block),
        "keel",
        "first",
        {},
    ),
    "lns: from 0": (
        lambda x, f, norm, index: x + f(norm(x) / max(index, 1) ** 0.5),
        "lns",
        "from 0",
        {},
    ),
    "lns: sublayers": (
        lambda x, f, norm, number: x + f(norm(x) / (2 * number) ** 0.5),
        "lns",
        "sublayers",
        {},
    ),
    "lns: no root": (
        lambda x, f, norm, number: x + f(norm(x) / number),
        "lns",
        "instead of its root",
        {},
    ),
    "lns: times": (
        lambda x, f, norm, number: x + f(norm(x) * number**0.5),
        "lns",
        "multiplied",
        {},
    ),
    "lns: on the write": (
        lambda x, f, norm, number: x + f(norm(x)) / number**0.5,
        "lns",
        "write",
        {},
    ),
    "lns: before the norm": (
        lambda x, f, norm, number: x + f(norm(x / number**0.5)),
        "lns",
        "1/√ℓ is missing",
        {},
    ),
    "lns: one half": (
        steps(
            lambda x, f, n, b: x + f(n(x) / (b.index + 1) ** 0.5), lambda x, f, n, b: x + f(n(x))
        ),
        "lns",
        "feed-forward",
        {},
    ),
    "admin: on f": (
        lambda x, f, norm, omega: norm(x + omega * f(x)),
        "admin",
        "branch f instead",
        {},
    ),
    "admin: outside": (lambda x, f, norm, omega: omega * norm(x + f(x)), "admin", "", {}),
    "admin: both": (lambda x, f, norm, omega: norm(omega * (x + f(x))), "admin", "whole sum", {}),
    "admin: unused": (lambda x, f, norm, omega: norm(x + f(x)), "admin", "missing", {}),
    "admin: block, on f": (
        hand(
            lambda b, x: (lambda y: b.n2(y + b.omega2 * b.f(y)))(b.n1(x + b.omega1 * b.a(x))),
            vectors=(("omega1", 1.0), ("omega2", 1.0)),
        ),
        "admin",
        "branch f instead",
        {},
    ),
    "admin: pre": (lambda x, f, norm, omega: omega * x + f(norm(x)), "admin", "", {}),
}

WRONG["streams"] = {
    "b2t: post": (lambda x, f, norm, entry: norm(x + f(x)), "b2t", "not added", {}),
    "b2t: the wrong input": (
        lambda x, f, norm, entry: norm(2 * x + f(x)),
        "b2t",
        "not the block's input",
        {},
    ),
    "b2t: after the norm": (
        lambda x, f, norm, entry: entry + norm(x + f(x)),
        "b2t",
        "after the last norm",
        {},
    ),
    "b2t: instead": (lambda x, f, norm, entry: norm(entry + f(x)), "b2t", "", {}),
    "b2t: block is post": (steps(lambda x, f, n, b: n(x + f(x))), "b2t", "not added", {}),
    "b2t: block, in both halves": (
        hand(lambda b, x: (lambda y: b.n2(x + y + b.f(y)))(b.n1(x + x + b.a(x)))),
        "b2t",
        "",
        {},
    ),
    "b2t: block, FFN reads x": (
        hand(lambda b, x: (lambda y: b.n2(x + y + b.f(x)))(b.n1(x + b.a(x)))),
        "b2t",
        "MLP(x)",
        {},
    ),
    "b2t: block, normed input": (
        hand(lambda b, x: (lambda y: b.n2(b.n2(x) + y + b.f(y)))(b.n1(x + b.a(x)))),
        "b2t",
        "normalized copy of the block's input",
        {},
    ),
    "resi-dual: r normed": (
        dual(lambda x, r, f, n: (n(x + f(x)), n(r + f(x)))),
        "resi-dual",
        "plain sum",
        {},
    ),
    "resi-dual: r adds the stream": (
        lambda x, r, f, norm: (norm(x + f(x)), r + norm(x + f(x))),
        "resi-dual",
        "instead of the write",
        {},
    ),
    "resi-dual: r stays": (lambda x, r, f, norm: (norm(x + f(x)), r), "resi-dual", "not moved", {}),
    "resi-dual: r restarts": (
        dual(lambda x, r, f, n: (n(x + f(x)), x + f(x))),
        "resi-dual",
        "starts again",
        {},
    ),
    "resi-dual: no second stream": (
        steps(lambda x, f, n, b: n(x + f(x))),
        "resi-dual",
        "second stream",
        {},
    ),
    "resi-dual: pre": (dual(lambda x, r, f, n: (x + f(n(x)), r + f(n(x)))), "resi-dual", "", {}),
    "realformer: not added": (scores(chain=""), "realformer", "not added", {}),
    "realformer: after the softmax": (scores(chain="after"), "realformer", "after the softmax", {}),
    "realformer: sum not handed on": (scores(lost=True), "realformer", "not the sum", {}),
    "realformer: no scores": (
        steps(lambda x, f, n, b: n(x + f(x))),
        "realformer",
        "accumulated",
        {},
    ),
    "realformer: no mask": (
        scores(causal=False),
        "realformer",
        "causal mask",
        {"config": config("realformer")},
    ),
    "realformer: no scale": (scores(scale=lambda h: 1.0), "realformer", "multiplied by 1 ", {}),
}

WRONG["inner"] = {
    "normformer: no head gain": (normformer(head_gain=None), "normformer", "gain of each head", {}),
    "normformer: head gain after W_O": (
        normformer(head_gain="after"),
        "normformer",
        "after W_O",
        {},
    ),
    "normformer: no inner norm": (normformer(inner=""), "normformer", "hidden vector", {}),
    "normformer: inner norm before GELU": (
        normformer(inner="before"),
        "normformer",
        "before the activation",
        {},
    ),
    "normformer: scale on f": (
        normformer(lambda b, x: (lambda y: y + b.lam * b.f(b.n3(y)))(x + b.n2(b.a(b.n1(x))))),
        "normformer",
        "branch f instead",
        {},
    ),
    "normformer: no norm after attention": (
        normformer(lambda b, x: (lambda y: b.lam * y + b.f(b.n2(y)))(x + b.a(b.n1(x))), norms=2),
        "normformer",
        "writes is missing",
        {},
    ),
    "normformer: norm after the sum": (
        normformer(lambda b, x: (lambda y: b.lam * y + b.f(b.n3(y)))(b.n2(x + b.a(b.n1(x))))),
        "normformer",
        "after the addition",
        {},
    ),
    "sub-ln: after W_O": (
        hand(sub_ln_flow, inner="after", inside="c", c_last=True),
        "sub-ln",
        "after W_O",
        {},
    ),
    "sub-ln: by head": (hand(sub_ln_flow, inner="after", inside="c"), "sub-ln", "full width", {}),
    "sub-ln: no inner norm": (
        hand(sub_ln_flow, inside="c", wide=True),
        "sub-ln",
        "hidden vector",
        {},
    ),
    "sub-ln: no c norm": (hand(sub_ln_flow, inner="after"), "sub-ln", "head outputs", {}),
    "sub-ln: after W_2": (
        hand(sub_ln_flow, inner="last", inside="c", wide=True),
        "sub-ln",
        "last matrix",
        {},
    ),
    "sub-ln: before GELU": (
        hand(sub_ln_flow, inner="before", inside="c", wide=True),
        "sub-ln",
        "activation",
        {},
    ),
    "sub-ln: post": (
        hand(
            lambda b, x: (lambda y: b.n2(y + b.f(y)))(b.n1(x + b.a(x))),
            inner="after",
            inside="c",
            wide=True,
        ),
        "sub-ln",
        "after the addition",
        {},
    ),
}

WRONG["inner"] |= {"sub-ln: gain on q and k": (MagnetoEverywhere, "sub-ln", "q and k keep", {})}

WRONG["ngpt"] = {
    "no renormalization": (
        sphere(move=lambda h, y, a: h + a * (unit(y) - h)),
        "ngpt",
        "not renormalized",
        {},
    ),
    "no − h": (sphere(move=lambda h, y, a: unit(h + a * unit(y))), "ngpt", "lacks − h", {}),
    "f(h) not normed": (
        sphere(move=lambda h, y, a: unit(h + a * (y - h))),
        "ngpt",
        "write is not normalized",
        {},
    ),
    "sign of α": (sphere(sign=True), "ngpt", "absolute value", {}),
    "1/√h": (sphere(root=True), "ngpt", "1/√h instead of √h", {}),
    "s_qk on q": (sphere(**{"q only": True}), "ngpt", "q alone", {}),
    "s_qk before the rotation": (sphere(early=True), "ngpt", "before the rotation", {}),
    "v without √d": (sphere(**{"no root": True}), "ngpt", "√d", {}),
    "α kept": (sphere(move=lambda h, y, a: unit(a * h + (1 - a) * unit(y))), "ngpt", "kept", {}),
    "RMS in place of length": (
        sphere(move=lambda h, y, a: h.shape[-1] ** 0.5 * unit(h + a * (unit(y) - h))),
        "ngpt",
        "",
        {},
    ),
    "plain sum": (sphere(move=lambda h, y, a: unit(h + unit(y))), "ngpt", "", {}),
    "step: no − h": (lambda h, f, alpha: unit(h + alpha * unit(f(h))), "ngpt", "lacks − h", {}),
}

WRONG["ngpt"] |= {
    "hook: rows everywhere": (WrongHook, "ngpt", "other axis", {}),
    "hook: outputs left out": (LazyHook, "ngpt", "not normalized", {}),
}

WRONG["bounded"] = {
    "dyt: α outside": (steps(PRE, kind=Outside), "dyt", "", {}),
    "dyt: with statistics": (steps(PRE, kind=Normed), "dyt", "", {}),
    "dyt: sigmoid": (steps(PRE, kind=Sigmoid), "dyt", "", {}),
    "dyt: erf": (steps(PRE, kind=Erf), "dyt", "derf", {}),
    "dyt: post": (steps(lambda x, f, n, b: n(x + f(x)), kind=WrongDyT), "dyt", "after the add", {}),
    "dyt: skip": (
        steps(lambda x, f, n, b: n(x) + f(n(x)), kind=WrongDyT),
        "dyt",
        "normalized copy",
        {},
    ),
    "dyt: LayerNorm": (steps(PRE, kind=nn.LayerNorm), "dyt", "", {}),
    "derf: tanh": (steps(PRE, kind=WrongDyT), "derf", "dyt", {}),
    "derf: post": (labkit_block("dyt"), "derf", "dyt", {}),
    "derf: shared": (
        hand(lambda b, x: (lambda y: y + b.f(b.n1(y)))(x + b.a(b.n1(x))), norms=1, kind=Erf),
        "derf",
        "two places",
        {},
    ),
    "derf: one missing": (steps(PRE, lambda x, f, n, b: x + f(x), kind=Erf), "derf", "missing", {}),
}

WRONG["images"] = {
    "v1: relu on the branch": (
        lambda x, f, norm: x + torch.relu(norm(f(x))),
        "resnet-v1",
        "branch",
        {},
    ),
    "v1: no relu": (lambda x, f, norm: x + norm(f(x)), "resnet-v1", "rectifier", {}),
    "v1: no norm": (lambda x, f, norm: torch.relu(x + f(x)), "resnet-v1", "norm", {}),
    "v1: norm on the sum": (lambda x, f, norm: torch.relu(norm(x + f(x))), "resnet-v1", "", {}),
    "v1: v2": (lambda x, f, norm: x + f(torch.relu(norm(x))), "resnet-v1", "", {}),
    "v2: relu before the norm": (
        lambda x, f, norm: x + f(norm(torch.relu(x))),
        "resnet-v2",
        "before the norm",
        {},
    ),
    "v2: no relu": (lambda x, f, norm: x + f(norm(x)), "resnet-v2", "rectifier", {}),
    "v2: relu on the stream": (
        lambda x, f, norm: torch.relu(x + f(torch.relu(norm(x)))),
        "resnet-v2",
        "stream",
        {},
    ),
    "v2: skip from the copy": (
        lambda x, f, norm: torch.relu(norm(x)) + f(torch.relu(norm(x))),
        "resnet-v2",
        "copy",
        {},
    ),
    "highway: no carry": (lambda x, f, gate: x + gate(x) * f(x), "highway", "carry gate", {}),
    "highway: exchanged": (
        lambda x, f, gate: (1 - gate(x)) * f(x) + gate(x) * x,
        "highway",
        "exchanged",
        {},
    ),
    "highway: no gate on f": (
        lambda x, f, gate: f(x) + (1 - gate(x)) * x,
        "highway",
        "transform gate",
        {},
    ),
    "highway: gate of f": (
        lambda x, f, gate: gate(f(x)) * f(x) + (1 - gate(f(x))) * x,
        "highway",
        "output",
        {},
    ),
    "highway: residual": (lambda x, f: x + f(x), "highway", "both gates", {}),
    "highway: labkit's without sigmoid": (placements.NoNorm, "highway", "both gates", {}),
}
