"""Find out which parameter of a stranger's block is which: by name, else by shape and order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

_ATTENTION = re.compile(r"att|mha|msa|self_|heads?\b")
_FEED_FORWARD = re.compile(r"ffn|mlp|feed|(^|[._])ff([._]|$)|(^|[._])fc")
_GAIN = {"weight", "gamma", "gain", "g", "a_2", "w"}
_BIAS = {"bias", "beta", "b", "b_2", "shift_", "offset"}
_OTHER = {"alpha", "shift", "scale", "eta"}
_NORMLIKE = re.compile(
    r"norm|(^|[._])ln|gain|s_?qk|s_?uv|(^|[._])s_?[uv]([._]|$)|gamma|lambda|omega"
)

_ATTENTION_ROLES = {
    **dict.fromkeys(("q", "query", "queries"), "q"),
    **dict.fromkeys(("k", "key", "keys"), "k"),
    **dict.fromkeys(("v", "value", "values", "val"), "v"),
    **dict.fromkeys(("out", "o", "output", "c", ""), "out"),
    **dict.fromkeys(("qkv", "in", "cattn", "attn", "querykeyvalue", "kqv"), "qkv"),
    **dict.fromkeys(("kv", "keyvalue"), "kv"),
}
_FEED_FORWARD_ROLES = {
    **dict.fromkeys(("gate", "g", "gating", "i0"), "gate"),
    **dict.fromkeys(("up", "1", "fc1", "fc", "cfc", "in", "i", "i1", "expand", "first"), "up"),
    **dict.fromkeys(("down", "2", "fc2", "c", "out", "o", "", "contract", "second"), "down"),
    **dict.fromkeys(("gateup", "upgate", "12", "13", "in12"), "gate+up"),
    "3": "up",
}


@dataclass(frozen=True)
class Piece:
    """Where the values of one slot lie: entries of one parameter, or of several in a row."""

    parts: tuple[tuple[str, Tensor], ...]  # (parameter, flat index of the slot's shape)

    def read(self, flat: dict[str, Tensor]) -> Tensor:
        """Collect the slot's values."""
        pieces = [flat[name][index] for name, index in self.parts]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    @property
    def names(self) -> tuple[str, ...]:
        """Name the parameters."""
        return tuple(name for name, _ in self.parts)


@dataclass
class Unit:
    """One norm's parameters, or one vector that stands alone."""

    name: str
    leaves: dict[str, Piece]
    size: int


@dataclass
class Found:
    """What a module has: its dimensions, its matrices by role, its norms and vectors."""

    dim: int
    hidden: int
    matrices: dict[str, list[tuple[str, nn.Module, Tensor]]]
    rest: list[tuple[str, nn.Module, Tensor]]
    units: list[Unit]
    biases: dict[str, str] = field(default_factory=dict)  # matrix parameter -> bias parameter
    known: dict[Any, Any] = field(default_factory=dict)  # readings of the matrices, made once
    loose: tuple[str, ...] = ()  # vectors that are no gain: biases without a matrix


def whole(name: str, parameter: Tensor) -> Piece:
    """Take a whole parameter, flattened."""
    return Piece(((name, torch.arange(parameter.numel())),))


def _owner(module: nn.Module, name: str) -> nn.Module:
    path = name.rpartition(".")[0]
    return module.get_submodule(path) if path else module


def stem(name: str) -> tuple[str, str]:
    """Reduce a parameter's name to its section (attention, feed-forward or "") and its key."""
    path = [p for p in name.split(".") if p not in ("weight", "kernel", "original0")]
    last, section = path[-1], ""
    for part in path:
        if _ATTENTION.search(part.lower()):
            section = "attention"
        if _FEED_FORWARD.search(part.lower()):
            section = "feed-forward"
    if last.isdigit():
        return section or "feed-forward", "#"
    key = re.sub(
        r"_|proj(ection)?|linear|lin(?=\d|$)|layer|weights?|matrix|dense", "", last.lower()
    )
    key = re.sub(r"^(to|w)(?=.)", "", key)
    return section, re.sub(r"(?<=[a-z])w$", "", key)


def _role(name: str, shape: tuple[int, ...], dim: int) -> str | None:
    section, key = stem(name)
    in_attention, in_feed = _ATTENTION_ROLES.get(key), _FEED_FORWARD_ROLES.get(key)
    if not section and in_attention and in_feed:
        square = set(shape) == {dim} or len(shape) == 3 or key == "qkv"
        section = "attention" if square else "feed-forward"
    if section == "attention" or (not section and in_attention):
        return in_attention
    return in_feed


def _of_attention(section: str, key: str) -> bool:
    return section == "attention" or (
        not section and key in _ATTENTION_ROLES and key not in _FEED_FORWARD_ROLES
    )


def _dims(module: nn.Module, matrices: list[tuple[str, nn.Module, Tensor]]) -> tuple[int, int]:
    """Find the width of the stream and of the hidden vector."""
    shapes = [tuple(p.shape) for _, _, p in matrices]
    common = set(shapes[0]).intersection(*map(set, shapes)) if shapes else set()
    dim = 0
    for name in ("dim", "d_model", "hidden_size", "embed_dim", "width", "n_embd", "d"):
        own = next((v for m in module.modules() if isinstance(v := vars(m).get(name), int)), 0)
        dim = dim or (own if own in common or not common else 0)
    if not dim and common:
        sizes = [n for shape in shapes for n in shape]
        dim = max(common, key=sizes.count)
    feed = [tuple(p.shape) for n, _, p in matrices if not _of_attention(*stem(n))]
    others = [n for s in feed for n in s if n != dim]
    return dim, max(others, default=dim) if others else dim


def find(module: nn.Module) -> Found:
    """Sort the parameters of a module."""
    matrices, vectors = [], []
    for name, p in module.named_parameters():
        entry = (name, _owner(module, name), p)
        flat = p.squeeze() if p.ndim > 1 and min(p.shape) == 1 else p
        matrix = flat.ndim >= 2 and not _NORMLIKE.search(name.lower())
        (matrices if matrix else vectors).append(entry)
    dim, hidden = _dims(module, matrices)
    if len(fused := [p for n, _, p in matrices if _role(n, tuple(p.shape), dim) == "gate+up"]) == 1:
        hidden = hidden // 2 if hidden == max(fused[0].shape) else hidden
    found = Found(dim, hidden, {}, [], [])
    for entry in matrices:
        role = _role(entry[0], tuple(entry[2].shape), dim)
        if role is None:
            found.rest.append(entry)
        else:
            found.matrices.setdefault(role, []).append(entry)
    for name, _, _ in list(vectors):  # the biases of matrices
        mate = _mate(name, [n for n, _, _ in matrices])
        if mate:
            found.biases[mate] = name
            vectors.remove(next(v for v in vectors if v[0] == name))
    _units(found, vectors)
    return found


def _mate(name: str, matrices: list[str]) -> str | None:
    """Find the matrix that a bias belongs to."""
    head, _, last = name.rpartition(".")
    changes = (("bias", "weight"), ("b_", "w_"), ("b_", "W_"), ("b", "w"), ("b", "W"))
    for old, new in changes:
        if last.startswith(old) or last.endswith(old):
            for count in (last.replace(old, new, 1), new.join(last.rsplit(old, 1))):
                mate = f"{head}.{count}" if head else count
                if mate in matrices:
                    return mate
    return None


def _units(found: Found, vectors: list[tuple[str, nn.Module, Tensor]]) -> None:
    """Group gains, shifts and factors into norms."""
    groups: dict[str, Unit] = {}
    loose = []
    for name, owner, p in vectors:
        head, _, last = name.rpartition(".")
        own = {n for n, _ in owner.named_parameters(recurse=False)}
        known = _GAIN | _BIAS | _OTHER
        if own <= known and not list(owner.children()) and head:
            base, leaf = head, _leaf(last)
        else:
            match = re.fullmatch(
                r"(.*?)[._]?(weight|bias|gamma|beta|gain|shift|alpha|w|b|g)", last.lower()
            )
            base, leaf = last, "weight"
            if match and match[1] and match[1] not in ("s", "res", "head"):
                base, leaf = match[1], _leaf(match[2])
            elif last.lower() in _BIAS or re.match(r"(b|beta|bias)_?\d*$", last.lower()):
                loose.append(name)
                continue
            base = f"{head}.{base}" if head else base
            if leaf == "alpha" and not any(n.startswith(base) and n != name for n, _, _ in vectors):
                leaf = "weight"
        unit = groups.setdefault(base, Unit(base, {}, 0))
        if leaf in unit.leaves:
            unit = groups.setdefault(name, Unit(name, {}, 0))
        unit.leaves[leaf] = whole(name, p)
        unit.size = max(unit.size, p.numel())
    found.units += groups.values()
    found.loose = tuple(loose)


def _leaf(last: str) -> str:
    last = last.lower()
    return "weight" if last in _GAIN else "bias" if last in _BIAS else last


def orientations(
    name: str, owner: nn.Module, p: Tensor, rows: int, columns: int, heads: int
) -> Iterator[Tensor]:
    """Read a parameter as (rows, columns) in every way that its kind and its shape allow."""
    index = torch.arange(p.numel()).view(p.shape)
    if index.ndim == 3:  # below zero: the columns are made of heads, not the rows
        sizes = (heads, rows // heads, columns) if heads > 0 else (rows, -heads, columns // -heads)
        for order in permutations(range(3)):
            if tuple((moved := index.permute(order)).shape) == sizes:
                yield moved.reshape(rows, columns)
        return
    straight, turned = tuple(p.shape) == (rows, columns), tuple(p.shape) == (columns, rows)
    linear = isinstance(owner, nn.Linear | nn.MultiheadAttention)
    if straight and type(owner).__name__ != "Conv1D":
        yield index
    if turned and not linear:
        yield index.T
