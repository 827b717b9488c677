"""Attention and feed-forward in plain float64 formulas, every choice of them a field to change."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.check.blocks.halves import unit
from labkit.check.blocks.norms import normed

Weights = Mapping[str, Tensor]  # by slot: "q", "q.bias", "norm_q.weight", "inner.weight" …


@dataclass(frozen=True)
class Inside:
    """Say what stands inside the two sublayers."""

    heads: int
    kv_heads: int
    head_dim: int
    causal: bool = True
    mask: str = ""  # wrong ones: next, strict, after softmax, zero
    rotary: str = "half"  # which channels turn together: half, pairs; "": no rotation
    scale: str = "1/√h"  # of the logits; h is the width of a head, d that of the stream
    over: str = "keys"  # what the softmax runs over
    groups: str = "repeat"  # how query heads share key heads
    merge: str = "heads"  # how heads become channels again
    normed: str = ""  # which of q, k, v, c have a norm
    kind: str = "rms"
    eps: float = 1e-6
    share: str = "head"  # what a norm runs over: head, own (gains for each head) or width
    gain: bool = True  # whether the norms inside attention have a learned gain
    after_rope: bool = False
    c_where: str = "before W_O"
    times: float = 1.0
    temperature: str = ""  # module, head
    softcap: float | None = None
    cap_form: str = "c·tanh(l/c)"
    chain: str = ""  # sum: the logits of the block before are added
    head_gain: str = ""  # before W_O
    activation: str = "silu"
    gated: bool = True
    inner: str = ""  # the norm of the hidden vector: after, before (the activation), end
    inner_kind: str = "rms"
    inner_eps: float = 1e-6
    sphere: str = ""  # qk: s_qk on rotated unit q and k; q: on q alone; early: before the rotation
    sphere_root: bool = True  # v of the feed-forward times sqrt(d)
    sphere_scales: tuple[float, float] = (1.0, 1.0)  # value / parameter of s_qk and of the shares


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": lambda x: x / (1 + (-x).exp()),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": lambda x: x.clamp_min(0),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "identity": lambda x: x,
}


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    """Multiply by the matrix (out, in) of that name, and add its bias if there is one."""
    y = x @ w[name].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def leaves(w: Weights, name: str) -> dict[str, Tensor]:
    """Collect what belongs to one norm."""
    return {key.rpartition(".")[2]: value for key, value in w.items() if key.startswith(name + ".")}


def turn(x: Tensor, style: str, base: float = 10_000.0) -> Tensor:
    """Rotate (batch, time, head, channel) by t · base^(−2i/h): channel i with i + h/2, or pairs."""
    time, h = x.shape[1], x.shape[-1]
    angle = torch.arange(time, dtype=x.dtype)[:, None] * base ** (
        -torch.arange(0, h, 2, dtype=x.dtype) / h
    )
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    a, b = (x[..., : h // 2], x[..., h // 2 :]) if style == "half" else (x[..., ::2], x[..., 1::2])
    parts = (a * cos - b * sin, a * sin + b * cos)
    return torch.cat(parts, -1) if style == "half" else torch.stack(parts, -1).flatten(-2)


def _headwise(inside: Inside, w: Weights, name: str, x: Tensor, wanted: bool) -> Tensor:
    """Apply the norm of q, k, v or c to (batch, time, head, channel)."""
    if not wanted:
        return x
    flat, own = inside.share == "width", leaves(w, f"norm_{name}")
    if inside.share == "own":
        own = {key: value.reshape(x.shape[-2], -1) for key, value in own.items()}
    y = normed(inside.kind, x.flatten(-2) if flat else x, own, inside.eps, {})
    return y.unflatten(-1, x.shape[-2:]) if flat else y


def _shared(i: Inside, t: Tensor) -> Tensor:
    """Repeat key and value heads until there is one for each query head."""
    more = i.heads // t.shape[2]
    return t.repeat_interleave(more, 2) if i.groups == "repeat" else t.repeat(1, 1, more, 1)


def _mixed(i: Inside, w: Weights, x: Tensor, prev: Tensor | None) -> tuple[Tensor, Tensor]:
    """Average the values, to (batch, time, head, channel); give the logits too."""
    has = i.normed
    q, k, v = (linear(x, w, n).unflatten(-1, (-1, i.head_dim)) for n in "qkv")
    if not i.after_rope:
        q, k = _headwise(i, w, "q", q, "q" in has), _headwise(i, w, "k", k, "k" in has)
    v = _headwise(i, w, "v", v, "v" in has)
    s = w["s_qk"].reshape(-1, i.head_dim) * i.sphere_scales[0] if i.sphere else None
    if s is not None and i.sphere == "early":
        q, k = unit(q) * s, unit(k) * s
    if i.rotary:
        q, k = turn(q, i.rotary), turn(k, i.rotary)
    if i.after_rope:
        q, k = _headwise(i, w, "q", q, "q" in has), _headwise(i, w, "k", k, "k" in has)
    if s is not None and i.sphere != "early":
        q, k = unit(q) * s, unit(k) if i.sphere == "q" else unit(k) * s
    q, k = q * i.times, k * i.times
    k, v = _shared(i, k), _shared(i, v)
    raw = torch.einsum("bihc,bjhc->bhij", q, k)
    scale = {
        "1/√h": i.head_dim**-0.5, "1": 1.0, "1/h": 1 / i.head_dim, "1/√d": x.shape[-1] ** -0.5,
        "√h": i.head_dim**0.5,
    }[i.scale]  # fmt: skip
    if i.temperature:
        heat = w["temperature"]
        scale = heat if i.temperature == "module" else heat.clamp(max=math.log(100)).exp()
        scale = scale.reshape(-1, 1, 1)
    logits = raw * scale
    if prev is not None and i.chain:
        mixed = {"sum": logits + prev, "mean": (logits + prev) / 2, "before scale": None}
        before = (raw + prev) * scale
        logits = mixed.get(i.chain, logits) if i.chain != "before scale" else before
    scores = logits
    if i.softcap is not None:
        bent = torch.tanh(logits / (i.softcap if "l/c" in i.cap_form else 1.0))
        logits = bent * i.softcap if i.cap_form.startswith("c·") else bent
    if i.causal:
        shift = {"next": 2, "strict": 0}.get(i.mask, 1)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(shift)
        blocked = -i.softcap if i.softcap and i.cap_form.endswith("after mask") else -math.inf
        blocked = {"strict": -1e9, "zero": 0.0}.get(i.mask, blocked)
        if i.mask != "after softmax":
            logits = logits.masked_fill(hidden, blocked)
    p = logits.softmax(-1 if i.over == "keys" else -2).nan_to_num()
    p = p.tril() if i.causal and i.mask == "after softmax" else p
    if prev is not None and i.chain == "after softmax":
        p = p + (prev.tril() if i.causal else prev)
    mixed = torch.einsum("bhij,bjhc->bihc", p, v)
    if i.merge == "no transpose":
        mixed = mixed.transpose(1, 2).reshape(mixed.shape)
    return mixed, scores


def attention(
    inside: Inside, w: Weights, x: Tensor, prev: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return what attention writes, and its logits (batch, head, query, key) before the mask."""
    i, has = inside, inside.normed
    if x.shape[1] == 1 and not i.chain:  # the softmax of one logit is 1
        v = linear(x, w, "v").unflatten(-1, (-1, i.head_dim))
        mixed, scores = _shared(i, _headwise(i, w, "v", v, "v" in has)), x
    else:
        mixed, scores = _mixed(i, w, x, prev)
    if i.c_where == "before W_O":
        mixed = _headwise(i, w, "c", mixed, "c" in has)
    gain = w["head_gain"].reshape(-1, 1) if i.head_gain else None
    mixed = mixed * gain if gain is not None and i.head_gain == "before W_O" else mixed
    y = linear(mixed.flatten(-2), w, "out")
    if i.c_where == "after W_O" and "c" in has:
        y = normed(i.kind, y, leaves(w, "norm_c"), i.eps, {})
    if gain is not None and i.head_gain == "after W_O":
        y = (y.unflatten(-1, (i.heads, -1)) * gain).flatten(-2)
    return y, scores


def feed_forward(inside: Inside, w: Weights, x: Tensor) -> Tensor:
    """Return what the feed-forward writes."""
    i, act = inside, ACTIVATIONS[inside.activation]

    def inner(t: Tensor, where: str) -> Tensor:
        if i.inner != where:
            return t
        return normed(i.inner_kind, t, leaves(w, "inner"), i.inner_eps, {})

    up = linear(x, w, "up")
    if i.gated:
        gate = linear(x, w, "gate")
        if i.sphere:
            u, v = w["s_uv"].chunk(2)
            root = x.shape[-1] ** 0.5 if i.sphere_root else 1.0
            up, gate = up * u, gate * v * root
        hidden = act(inner(gate, "before")) * up
    else:
        hidden = act(inner(up, "before"))
    hidden = inner(hidden, "after")
    return inner(linear(hidden, w, "down"), "end")
