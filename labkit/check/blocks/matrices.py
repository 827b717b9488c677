"""Read the matrices of a block: apart, fused, by head, turned; by name, else by shape and order."""

import re
from dataclasses import dataclass
from itertools import islice, product

import torch

from labkit.check.blocks.halves import SIDES
from labkit.check.blocks.names import Found, Piece, orientations, stem


@dataclass(frozen=True)
class Shapes:
    """The sizes that matrices have."""

    dim: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int


def _entry(entries: list, rows: int, columns: int, heads: int, way: int) -> Piece | None:
    """Read one parameter, or one for each head, as a matrix."""
    if len(entries) == 1:
        name, owner, p = entries[0]
        ways = list(islice(orientations(name, owner, p, rows, columns, heads), 4))
        return Piece(((name, ways[min(way, len(ways) - 1)]),)) if ways else None
    if len(entries) == heads and rows % heads == 0:
        parts = []
        for name, owner, p in entries:
            ways = list(islice(orientations(name, owner, p, rows // heads, columns, 1), 2))
            if not ways:
                return None
            parts.append((name, ways[min(way, len(ways) - 1)]))
        return Piece(tuple(parts))
    return None


def _bias(found: Found, piece: Piece, rows: int, start: int = 0, total: int = 0) -> Piece | None:
    """Find the bias of a matrix, or the part of a fused one."""
    parts = []
    for name, index in piece.parts:
        if (bias := found.biases.get(name)) is None:
            return None
        count = len(index)
        parts.append((bias, torch.arange(start, start + count)))
    return Piece(tuple(parts))


def _fused(
    found: Found, entry: tuple, names: str, sizes: list[int], s: Shapes, way: int, layout: int
) -> dict[str, Piece]:
    """Cut a fused matrix into its parts: one below the other, or head by head."""
    name, owner, p = entry
    index = torch.arange(p.numel()).view(p.shape)
    if index.ndim == 3 and index.shape[0] == len(sizes):
        parts = [i if way == 0 and tuple(i.shape) == (n, s.dim) else i.T
                 for i, n in zip(index, sizes, strict=True)]  # fmt: skip
        return {n: Piece(((name, i),)) for n, i in zip(names, parts, strict=True)}
    ways = list(islice(orientations(name, owner, p, sum(sizes), s.dim, 1), 2))
    if not ways:
        return {}
    rows = ways[min(way, len(ways) - 1)]
    row_of = torch.arange(sum(sizes))
    if layout and len(set(sizes)) == 1:
        row_of = row_of.view(s.heads, len(sizes), -1).transpose(0, 1).flatten()
    slots, start = {}, 0
    for part, size in zip(names, sizes, strict=True):
        taken = row_of[start : start + size]
        slots[part] = Piece(((name, rows[taken]),))
        if (bias := found.biases.get(name)) is not None:
            slots[f"{part}.bias"] = Piece(((bias, taken),))
        start += size
    return slots


def _matrices(found: Found, s: Shapes, gated: bool, way: int, layout: int) -> dict[str, Piece]:
    """Read the matrices of attention and feed-forward."""
    have = {role: list(entries) for role, entries in found.matrices.items()}
    wide, narrow = s.heads * s.head_dim, s.kv_heads * s.head_dim
    shapes = {
        "q": (wide, s.dim, s.heads), "k": (narrow, s.dim, s.kv_heads),
        "v": (narrow, s.dim, s.kv_heads), "out": (s.dim, wide, -s.heads),
        "up": (s.hidden, s.dim, 1), "down": (s.dim, s.hidden, 1),
    }  # fmt: skip
    if gated:
        shapes["gate"] = shapes["up"]
    _settle_names(have, gated)
    slots: dict[str, Piece] = {}
    if len(have.get("qkv", [])) == 1:
        sizes = [wide, narrow, narrow]
        slots |= _fused(found, have["qkv"][0], "qkv", sizes, s, way, layout)
    if len(have.get("kv", [])) == 1:
        slots |= _fused(found, have["kv"][0], "kv", [narrow] * 2, s, way, layout)
    if len(have.get("gate+up", [])) == 1:
        both = _fused(found, have["gate+up"][0], "gu", [s.hidden] * 2, s, way, 0)
        names = ("up", "gate") if layout else ("gate", "up")
        slots |= {k.replace("g", names[0], 1) if k[0] == "g" else k.replace("u", names[1], 1): v
                  for k, v in both.items()}  # fmt: skip
    used = {name for piece in slots.values() for name in piece.names}
    for role, (rows, columns, heads) in shapes.items():
        if role not in slots and have.get(role):
            piece = _entry(have[role], rows, columns, heads, way)
            if piece is not None:
                slots[role] = piece
                used.update(piece.names)
    left = [e for e in [*(e for es in have.values() for e in es), *found.rest]
            if e[0] not in used]  # fmt: skip
    for role, (rows, columns, heads) in shapes.items():
        for entry in left if role not in slots else ():
            section = stem(entry[0])[0]
            fits = section in (
                "",
                "attention" if role in ("q", "k", "v", "out") else "feed-forward",
            )
            if fits and (piece := _entry([entry], rows, columns, heads, way)) is not None:
                slots[role] = piece
                left.remove(entry)
                break
    for role in list(slots):
        if role in shapes and f"{role}.bias" not in slots:
            bias = _bias(found, slots[role], 0)
            if bias is not None:
                slots[f"{role}.bias"] = bias
    return slots


def _settle_names(have: dict[str, list], gated: bool) -> None:
    """Give numbered matrices their roles: by order, and w1, w3 as gate and up."""
    numbered = have.pop("#", [])
    roles = ["gate", "up", "down"] if len(numbered) == 3 else ["up", "down"]
    if len(numbered) == len(roles):
        for role, entry in zip(roles, numbered, strict=True):
            have.setdefault(role, []).append(entry)
    if gated and "gate" not in have and len(have.get("up", [])) == 2:
        have["gate"], have["up"] = have["up"][:1], have["up"][1:]


def _transforms(found: Found, s: Shapes, taken: set[str]) -> dict[str, Piece]:
    """Read Highway's gates: the square matrices that are left over, one for each half."""
    entries = [*found.rest, *(e for es in found.matrices.values() for e in es)]
    free = [e for e in entries if e[0] not in taken and tuple(e[2].shape) == (s.dim, s.dim)]
    free.sort(key=lambda e: bool(re.search("ff|feed|mlp|2", e[0])))
    slots = {}
    for side, (name, _, p) in zip(SIDES, free, strict=False):
        slots[f"{side}.T"] = Piece(((name, torch.arange(p.numel()).view(p.shape)),))
        if name in found.biases:
            slots[f"{side}.T.bias"] = Piece(((found.biases[name], torch.arange(s.dim)),))
    return slots


def all_matrices(found: Found, s: Shapes, gated: bool, square: bool) -> list[dict[str, Piece]]:
    """Read the matrices in every way."""
    matrices: list[dict[str, Piece]] = []
    for layout, way in product((0, 1), (0, 1)):
        one = _matrices(found, s, gated, way, layout)
        if layout and "gate" in one and "up" in one and "gate+up" not in found.matrices:
            one["gate"], one["up"] = one["up"], one["gate"]
        if square:
            one |= _transforms(found, s, {n for p in one.values() for n in p.names})
        if not any(_same(one, other) for other in matrices):
            matrices.append(one)
    return matrices


def _same(one: dict[str, Piece], other: dict[str, Piece]) -> bool:
    return one.keys() == other.keys() and all(
        a.names == b.names
        and all(torch.equal(x, y) for (_, x), (_, y) in zip(a.parts, b.parts, strict=True))
        for a, b in ((one[key], other[key]) for key in one)
    )
