"""Read a stranger's block by the names of its parameters: which is W_q, which is a norm's gain.

A short table knows the usual names: labkit's, torch's, GPT-2's, Llama's, BERT's and their like,
with fused matrices (qkv, gate and up) and transposed ones (Conv1D). `names` tells the rest:
{"wq": "my.query_matrix", …}, and "my.query_matrix.T" for one stored as (in, out). Nothing is tried
out. Norms of the stream stand in the order in which the module defines them, unless `names` says
otherwise.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from labkit.check.case import Broken

Names = Mapping[str, str | Sequence[str]]

_ATTENTION = r"(att|mha|msa)\w*\.(\w+\.)*?"
_FEED_FORWARD = r"(mlp|ffn?|feed_?forward)\w*\.(\w+\.)*?"
# What a parameter is, by the end of its path in small letters; the first pattern that fits decides.
_ROLES: dict[str, str] = {
    **{f"norm_{t}": rf"norm_?{t}|{t}_?(layer_?)?norm|{t}_?ln" for t in "qkv"},
    "norm_c": r"norm_?c|c_?norm|inner_attn_ln|attn_sub_norm",
    "inner_norm": r"inner_?norm|ffn_(sub_)?(ln|norm|layernorm)",
    "head_gain": r"head_?gains?",
    "temperature": r"temperature|logit_scale|tau",
    "s_qk": r"s_?qk", "s_uv": r"s_?uv", "s_u": r"s_?u", "s_v": r"s_?v",  # nGPT's scales
    "alpha": r"alpha_?\d?",  # nGPT's share of the way
    "omega": r"omega_?\d?",
    "scale": r"(lam|lambda_?|(res(id)?_)?scale)_?\d?",
    "gate T": r"^(attention|feed_forward)|transform|t_gate",
    "qkv": r"in_proj|c_attn|w?_?qkv(_proj)?|query_key_value|attn_proj",
    "q": r"w?_?q(_proj|_lin)?|query|to_q",
    "k": r"w?_?k(_proj|_lin)?|key|to_k",
    "v": r"w?_?v(_proj|_lin)?|value|to_v",
    "out": rf"out_proj|o_proj|w?_?o|to_out|attn_out|{_ATTENTION}(c_proj|proj|out|output\.dense)",
    "gate+up": r"gate_up(_proj)?",
    "gate": r"(w_?)?gate(_proj)?",
    "up": r"(w_?)?up(_proj)?|w?_?in|(c_)?fc_?1?|linear_?1|w_?1|intermediate\.dense"
    rf"|{_FEED_FORWARD}0",
    "down": r"(w_?)?down(_proj)?|w_?out|fc_?2|linear_?2|w_?2|output\.dense"
    rf"|{_FEED_FORWARD}(c_proj|proj|2)",
    "w3": r"w_?3",
}  # fmt: skip
_COMPILED = {role: re.compile(rf"(^|[._])({pattern})$") for role, pattern in _ROLES.items()}
_SHORT = {"wq": "q", "wk": "k", "wv": "v", "wo": "out", "wqkv": "qkv"}
_PLACES = ("attention.norm", "attention.norm_out", "feed_forward.norm", "feed_forward.norm_out")
_LEAF = re.compile(
    r"(.*?)(?:[._](weight|bias)|_(w|b)|\.(gamma|beta|gain|g|alpha|shift|a_2|b_2|offset))"
)
_LEAVES = {"w": "weight", "gamma": "weight", "gain": "weight", "g": "weight", "a_2": "weight",
           "b": "bias", "beta": "bias", "b_2": "bias", "offset": "bias"}  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """Where values lie: in one parameter or several in a row, cut out and turned by `cut`."""

    names: tuple[str, ...]
    cut: Callable[[Tensor], Tensor]

    def read(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the values, or their gradients: `cut` is linear."""
        parts = [values[name] for name in self.names]
        return self.cut(parts[0] if len(parts) == 1 else torch.cat(parts))


@dataclass
class Gains:
    """The parameters of one norm by leaf (weight, bias, …), and the module that owns them."""

    path: str
    owner: nn.Module | None
    leaves: dict[str, Piece] = field(default_factory=dict)
    size: tuple[int, ...] = ()
    width: int = 0  # of what it normalizes, where its gain is one number


@dataclass
class Found:
    """What a module has, by role: matrices and vectors ("q", "q.bias", "omega"), and norms."""

    own: dict[str, Tensor]
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    inside: dict[str, Gains] = field(default_factory=dict)  # norms inside the sublayers
    norms: list[Gains] = field(default_factory=list)  # norms of the stream

    def shape(self, role: str) -> tuple[int, ...]:
        """Return the shape of the first parameter of a role; (0, 0) where there is none."""
        return tuple(self.pieces[role][0].read(self.own).shape) if role in self.pieces else (0, 0)


def _split(name: str) -> tuple[str, str]:
    """Split a parameter's name into what it belongs to and which leaf it is."""
    match = _LEAF.fullmatch(name)
    if match is None or not match[1]:
        return name, "weight"
    leaf = match[2] or match[3] or match[4]
    return match[1], _LEAVES.get(leaf, leaf)


def find(module: nn.Module, names: Names, heads: int, kv_heads: int) -> Found:
    """Sort the parameters of a module; raise Broken where `names` is wrong."""
    found = Found({name: p.detach() for name, p in module.named_parameters()})
    told, modules = _told(found.own, names), dict(module.named_modules())
    order = [stem for place in _PLACES for stem, role in told.items() if role == place]
    norms: dict[str, Gains] = {}
    for name, parameter in found.own.items():
        stem, leaf = _split(name)
        lower = stem.lower()
        role = told.get(stem) or next((r for r, p in _COMPILED.items() if p.search(lower)), "")
        owner = modules.get(stem)
        if not role or role in _PLACES:
            gains = norms.setdefault(stem, Gains(stem, owner))
        elif role.startswith(("norm_", "inner")):
            gains = found.inside.setdefault(role, Gains(stem, owner))
        else:
            turned = type(owner).__name__ == "Conv1D" or f"{stem}.T" in told
            turned = turned and parameter.ndim == 2
            piece = Piece((name,), (lambda w: w.T) if turned else lambda w: w)
            found.pieces.setdefault(role if leaf == "weight" else f"{role}.{leaf}", []).append(
                piece
            )
            continue
        gains.leaves[leaf] = Piece((name,), lambda w: w)
        gains.size = tuple(parameter.shape) if leaf in ("weight", "alpha") else gains.size
    # What no table knows is a norm if it has a gain or a slope, and nothing but vectors.
    found.norms = [g for g in norms.values() if g.leaves.keys() & {"weight", "alpha"} and
                   all(p.read(found.own).ndim <= 1 for p in g.leaves.values())]  # fmt: skip
    found.norms.sort(key=lambda g: order.index(g.path) if g.path in order else len(order))
    _join(
        found, [_SHORT.get(key, key) for key, value in names.items() if not isinstance(value, str)]
    )
    head_dim = found.shape("qkv")[0] // (heads + 2 * kv_heads)
    _cut(found, "qkv", {"q": heads * head_dim, "k": kv_heads * head_dim, "v": kv_heads * head_dim})
    _cut(found, "gate+up", dict.fromkeys(("gate", "up"), found.shape("gate+up")[0] // 2))
    return found


def _told(own: Mapping[str, Tensor], names: Names) -> dict[str, str]:
    """Turn `names` round: what a parameter's stem is, as the caller says."""
    told = {}
    for key, values in names.items():
        role = _SHORT.get(key, key)
        if role not in _ROLES and role not in _PLACES:
            known = ", ".join((*_SHORT, *_ROLES, *_PLACES))
            raise Broken(f"names: {key!r} is no part of a block; there are {known}")
        for entry in (values,) if isinstance(values, str) else values:
            value = entry.removesuffix(".T")
            stems = [_split(name)[0] for name in own if value in (name, _split(name)[0])]
            if not stems:
                have = ", ".join(own)
                raise Broken(f"names: it has no parameter {value!r} for {key}; it has {have}")
            told[stems[0] + entry[len(value) :]] = told[stems[0]] = role
    return told


def _join(found: Found, listed: Sequence[str]) -> None:
    """Put together what belongs together, row by row."""
    pieces = found.pieces
    if "w3" in pieces:  # the names of Llama's own code: w2(silu(w1 x) · w3 x)
        pieces["gate"], pieces["up"] = pieces["up"], pieces.pop("w3")
    if "s_u" in pieces and "s_v" in pieces:
        pieces["s_uv"], listed = [*pieces.pop("s_u"), *pieces.pop("s_v")], [*listed, "s_uv"]
    for role in listed:
        for key in (role, f"{role}.bias"):
            if key in pieces:
                together = tuple(name for piece in pieces[key] for name in piece.names)
                pieces[key] = [Piece(together, lambda w: w)]


def _cut(found: Found, fused: str, parts: Mapping[str, int]) -> None:
    """Cut one matrix, and its bias, into those that it holds one below another."""
    for suffix in ("", ".bias"):
        for whole in found.pieces.pop(fused + suffix, [])[:1]:
            start = 0
            for part, rows in parts.items():
                end = start + rows
                piece = Piece(whole.names, lambda w, c=whole.cut, a=start, b=end: c(w)[a:b])
                found.pieces[part + suffix], start = [piece], end
