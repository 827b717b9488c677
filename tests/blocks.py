"""Test material for check.block: right and wrong steps, and labkit's Block with one mistake."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig
from labkit.attention import Attention, attention_norms
from labkit.model import Block
from labkit.model.departures import Departure
from labkit.norms import LayerNorm, RMSNorm
from labkit.placements import PostNorm


def config(recipe, **changes):
    """Return the dimensions of small blocks: a decoder with RMS norms and GELU (nGPT: SwiGLU)."""
    usual = {"norm": "rms", "dim": 16, "heads": 2, "hidden": 20, "depth": 6, "activation": "gelu"}
    usual |= {"activation": "swiglu"} if recipe == "ngpt" else {}
    return ModelConfig(**{"recipe": recipe, **usual, **changes})


def unit(x):
    return F.normalize(x, dim=-1)


# --- steps and blocks of functions: (recipe, what is handed in, part of the cause) ---

WRONG = [
    ("post", lambda x, f, norm: norm(norm(x) + f(x)), ""),
    ("post", lambda x, f, norm: x + norm(f(x)), "on the branch"),
    ("post", lambda x, f, norm: x + f(norm(x)), "Pre-Norm"),
    ("post", lambda x, f, norm: norm(f(x)), "residual is missing"),
    ("post", lambda x, f, norm: norm(x + norm(f(x))), "a norm too many on the sublayer"),
    ("post", lambda x, f, norm: norm(norm(x + f(x))), "a norm too many on the stream"),
    ("post", lambda x, f, norm: norm(x + f(x)) if x.shape[1] <= 32 else x + f(norm(x)), ""),
    ("pre", lambda x, f, norm: norm(x) + f(norm(x)), "normalized copy"),
    ("pre", lambda x, f, norm: x + f(x), "missing"),
    ("output", lambda x, f, norm: x + f(norm(x)), "before the sublayer"),
    ("output", lambda x, f, norm: norm(x + f(x)), "after the addition"),
    ("sandwich", lambda x, f, norm, norm_out: x + f(norm(x)), "the norm is missing"),
    ("peri", lambda x, f, norm, norm_out: x + norm_out(f(x)), "raw stream"),
    ("deepnorm", lambda x, f, norm, alpha: norm(x + alpha * f(x)), "branch f instead"),
    ("deepnorm", lambda x, f, norm, alpha: norm(x + f(x)), "α is missing"),
    ("deepnorm", lambda x, f, norm, alpha: norm(alpha * (x + f(x))), "missing"),
    ("deepnorm", lambda x, f, norm, alpha: alpha * x + f(x), "the norm is missing"),
    ("deepnorm", lambda x, f, norm, depth: norm(64**0.25 * x + f(x)), "32 blocks"),
    ("deepnorm", lambda x, f, norm, depth: norm((4 * depth) ** 0.25 * x + f(x)), "sublayers"),
    ("deepnorm", lambda x, f, norm, depth: norm((8 * depth) ** 0.25 * x + f(x)), "8 belongs"),
    ("deepnorm", lambda x, f, norm, depth: norm((2 * depth) ** -0.25 * x + f(x)), "sign is wrong"),
    ("deepnorm", lambda x, f, norm, depth: norm(12**0.25 * x + f(x)), "does not follow the depth"),
    ("keel", lambda x, f, norm, norm_out, alpha: norm_out(alpha * x + f(x)), "before"),
    ("lns", lambda x, f, norm, index: x + f(norm(x) / max(index, 1) ** 0.5), ""),
    ("lns", lambda x, f, norm: x + f(norm(x) / 6**0.5), "does not follow"),
    ("admin", lambda x, f, norm, omega: norm(x + f(x)), "Post-Norm"),
    ("b2t", lambda x, f, norm, entry: norm(x + f(x)), "Post-Norm"),
    ("b2t", lambda x, f, norm, entry: norm(entry.detach() + x + f(x)), "cut off"),
    ("resi-dual", lambda x, f, norm, r: (norm(x + f(x)), r), ""),
    ("resi-dual", lambda x, f, norm, r: (norm(x + f(x)), r.detach() + f(x)), "cut off"),
    ("hybrid", lambda x, f, norm: x + f(norm(x)), "raw stream"),
    ("hybrid", lambda x, f, norm: norm(x) + f(x), "before the sublayer"),
    ("hybrid", lambda x, f, norm: norm(x + f(x)), "after the addition"),
    ("ngpt", lambda h, f, alpha: unit(h + alpha * unit(f(h))), ""),
    ("ngpt", lambda h, f, alpha: h + alpha * (unit(f(h)) - h), "not renormalized"),
    ("ngpt", lambda h, f, alpha: unit(h + alpha * (f(h) - h)), "output is not normalized"),
    ("ngpt", lambda h, f, alpha: unit(alpha * h + (1 - alpha) * unit(f(h))), "weighs the old"),
    ("resnet-v1", lambda x, f, norm: torch.relu(x + f(x)), "the norm is missing"),
    ("resnet-v2", lambda x, f, norm: torch.relu(x + norm(f(x))), "the recipe 'resnet-v1'"),
    ("resnet-v2", lambda x, f, norm: x + f(norm(torch.relu(x))), "before the norm"),
    ("resnet-v2", lambda x, f, norm: x + f(norm(x)), "ReLU is missing"),
    ("resnet-v2", lambda x, f, norm: (z := torch.relu(norm(x))) + f(z), "skip is taken after"),
    ("highway", lambda x, f, gate: x + gate(x) * f(x), ""),
    ("none", lambda x, f: x + f(torch.relu_(x)), "in-place"),
    ("pre", lambda x, attention, feed_forward, n1, n2: (
        (y := n1(x + attention(x))) * 0 + n2(y + feed_forward(y))),
     "this is Post-Norm: the norm is on the stream, after the addition, in both sublayers"),
    ("pre", lambda x, attention, feed_forward, n1, n2: (
        (y := attention(n1(x))) + feed_forward(n2(y))),
     "the residual is missing: the skip is not added (attention: "),
    ("hybrid", lambda x, attention, feed_forward, norm: (
        (y := x + attention(x)) + feed_forward(norm(y))), "(feed-forward: "),
    ("hybrid", lambda x, attention, feed_forward, norm: (
        norm((y := x + attention(x)) + feed_forward(y))), "this is Post-Norm"),
    ("hybrid", lambda x, attention, feed_forward, norm: (
        (y := x + attention(norm(x))) + feed_forward(y)), "in other places (attention: x + f(N"),
    ("hybrid", lambda x, attention, feed_forward, norm: (
        x + attention(x) + feed_forward(x)), ""),
]  # fmt: skip

RIGHT = [
    ("none", lambda x, f: x + f(x)),
    ("post", lambda x, f, norm: norm(f(x) + x)),
    ("pre", lambda stream, sublayer, norm: stream + sublayer(norm(stream))),
    ("peri", lambda x, f, norm, norm_out: x + norm_out(f(norm(x)))),
    ("deepnorm", lambda x, f, norm, alpha=1.0: norm(f(x) + alpha * x)),
    ("deepnorm", lambda x, f, norm, alpha: norm(x + f(x) / alpha)),
    ("deepnorm", lambda x, f, norm, depth: norm((2 * depth) ** 0.25 * x + f(x))),
    ("keel", lambda x, f, norm, norm_out, sublayers: norm_out(f(norm(x)).add(x, alpha=sublayers))),
    ("lns", lambda x, f, norm, number: x + f(number**-0.5 * norm(x))),
    ("lns", lambda x, f, norm, index: x + f(norm(x) / math.sqrt(index + 1))),
    ("admin", lambda x, f, norm, omega: norm(f(x) + x * omega)),
    ("b2t", lambda x, f, norm, entry: norm(entry + (x + f(x)))),
    ("resi-dual", lambda x, f, norm, r: (norm(x + (w := f(x))), r + w)),
    ("hybrid", lambda x, f, norm: (z := norm(x)) + f(z)),
    ("normformer", lambda x, f, norm, lam: x * lam + f(norm(x))),
    ("ngpt", lambda h, f, alpha: unit(h + alpha * (unit(f(h)) - h))),
    ("ngpt", lambda x, f, norm, alpha: norm((1 - alpha) * x + alpha * norm(f(x)))),
    ("resnet-v1", lambda x, f, norm: (x + norm(f(x))).clamp(min=0)),
    ("resnet-v2", lambda x, f, norm: f(F.relu(norm(x))) + x),
    ("highway", lambda x, f, gate: torch.lerp(x, f(x), gate(x))),
    ("pre", lambda x, attention, feed_forward, n1, n2: (
        (y := x + attention(n1(x))) + feed_forward(n2(y)))),
    ("peri", lambda x, attention, feed_forward, *n: (
        (y := x + n[1](attention(n[0](x)))) + n[3](feed_forward(n[2](y))))),
    ("b2t", lambda x, attention, feed_forward, n1, n2: (
        n2(feed_forward(m := n1(attention(x) + x)) + m + x))),
    ("hybrid", lambda x, attention, feed_forward, norm: (
        (z := norm(x + attention(x))) + feed_forward(z))),
]  # fmt: skip


# --- labkit's Block with one slip: (recipe, slip, part of the cause) ---


def change(module, **methods):
    """Replace methods of a module so that a deep copy keeps the change."""
    module.__class__ = type("Changed", (type(module),), methods)


def take_norms(words):
    """Replace the norms inside attention."""

    def slip(block):
        block.attention.sublayer = Attention(16, 2, 2, norms=attention_norms(words))

    return slip


def take_step(step, **methods):
    """Replace the equation of the feed-forward step."""
    return lambda block: change(block.feed_forward, step=step)


def set_attribute(path, value):
    def slip(block):
        *way, name = path.split(".")
        setattr(block.get_submodule(".".join(way)), name, value)

    return slip


def skip_norms(block):
    block.attention.sublayer.norm_q = block.attention.sublayer.norm_k = None


def rotate_first(block):
    attention = block.attention.sublayer
    attention.norms = replace(attention.norms, after_rope=True)


def place_afterwards(block):
    old = block.feed_forward
    block.feed_forward = PostNorm(lambda: old.norm, old.sublayer, old.place)


def run_otherwise(side, move):
    """Call a sublayer in a different way; `run` calls the original."""

    def slip(block):
        step = getattr(block, side)
        before = type(step).forward
        run = lambda self: lambda x, c: before(self, x, c)  # noqa: E731
        change(step, forward=lambda self, x, context: move(run(self), x, context))

    return slip


def overwrite_stream(run, x, context):
    y = run(x.clone(), context)
    x += 0.5
    return y


def forget_padding(block):
    forward = type(block.attention.sublayer).forward
    unmasked = lambda self, x, context: forward(self, x, replace(context, padding=None))  # noqa: E731
    change(block.attention.sublayer, forward=unmasked)


WRONG_MODULES = {
    "norm over the width": ("qk", take_norms("qk rms width"), "norms.share is width, not head"),
    "norms skipped": ("qk", skip_norms, "attention.sublayer.norm_q is missing"),
    "rotated first": ("qk", rotate_first, "normalized after the rotation instead of before"),
    "values not normed": ("hybrid", take_norms("qk rms"), "norms.tensors is qk, not qkv"),
    "a norm for c too": ("qk", take_norms("qkc rms"), "norms.tensors is qkc, not qk"),
    "uncapped": ("gemma2", set_attribute("attention.sublayer.softcap", None), "softcap is None"),
    "mask missing": ("pre", set_attribute("attention.sublayer.causal", False), "causal is False"),
    "no head gain": ("normformer", set_attribute("attention.sublayer.head_gain", None),
                     "a norm or a matrix is missing"),
    "scores not added": ("realformer", set_attribute("attention.sublayer.chain", None), "chain"),
    "no inner norm": ("sub-ln", set_attribute("feed_forward.sublayer.inner_norm", None),
                      "inner_norm is missing"),
    "activation": ("pre", set_attribute("feed_forward.sublayer.activation", torch.relu),
                   "activation is relu, not gelu"),
    "eps": ("pre", set_attribute("feed_forward.norm", RMSNorm(16, 1e-2)),
            "feed_forward.norm.eps is 0.01, not None"),
    "LayerNorm": ("pre", set_attribute("attention.norm", LayerNorm(16, bias=False)),
                  "attention.norm is LayerNorm, not RMSNorm"),
    "another step": ("pre", place_afterwards, "this is Post-Norm"),
    "α": ("deepnorm", set_attribute("attention.alpha", 3.0), "attention.alpha is 3.0"),
    "skip missing": ("pre", take_step(lambda self, x, f, N: f(N(x))),
                     "the skip is not added (feed-forward: the recipe has x + f(N(x)))"),
    "skip from the copy": ("pre", take_step(lambda self, x, f, N: N(x) + f(N(x))),
                           "normalized copy N(x) instead of the stream x (feed-forward"),
    "factor on the branch": ("deepnorm", take_step(lambda self, x, f, N: N(x + self.alpha * f(x))),
                             "branch f instead"),
    "padding": ("pre", forget_padding, ""),
    "detached": ("pre", run_otherwise("attention", lambda run, x, c: (
        run(x, c) + (x.detach() - x) / 2)), "cut off"),
    "in place": ("pre", run_otherwise("attention", overwrite_stream), "in-place"),
}  # fmt: skip


def depart(differs):
    """Build an nGPT block with one of the bugs of chapter 08."""
    made = Departure(recipe="ngpt", dim=16, depth=2, heads=2, context=32, differs=differs)
    return made.build().blocks[0]


def build(name):
    """Return a builder of blocks of another recipe, as in chapter 06."""
    return lambda config, block=3: Block(replace(config, recipe=name(block)), block)


class Stranger(nn.Module):
    """Pre-Norm written by hand, with different attribute names."""

    def __init__(self, dim=16, hidden=20):
        super().__init__()
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return x
