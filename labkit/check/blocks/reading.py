"""Read a module's parameters as the slots of a design: every way in which they may be meant."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product

from torch import Tensor, nn

from labkit.check.blocks.design import Design
from labkit.check.blocks.halves import SIDES
from labkit.check.blocks.matrices import Shapes, all_matrices
from labkit.check.blocks.names import Found, Piece, Unit, stem

_ONE = ("scale", "l2")  # norms whose gain is one number
_MANY = 120  # readings of one design that are tried


@dataclass(frozen=True)
class Reading:
    """Which entries of which parameters are which slot; `missing` are slots without any."""

    slots: dict[str, Piece]
    missing: tuple[str, ...]
    units: tuple[tuple[str, str], ...] = ()  # (slot, name of its norm or vector)


def unit_slots(design: Design, found: Found) -> dict[str, int]:
    """List the norms and vectors that a design has, and the number of their entries."""
    i, slots = design.inside, {}
    one = design.norm in _ONE
    for side, half in zip(SIDES, design.sides, strict=True):
        for letter in half.norms:
            slots[f"{side}.{letter}"] = 1 if one else found.dim
        for letter in "ωλ":
            if letter in half.text:
                slots[f"{side}.{letter}"] = found.dim
        if "unit" in half.text:
            slots[f"{side}.a"] = found.dim
    for name in i.normed if i.gain else "":
        heads = i.heads if name in "qc" else i.kv_heads
        width = i.head_dim if i.share == "head" else heads * i.head_dim
        after = name == "c" and i.c_where == "after W_O"
        slots[f"norm_{name}"] = 1 if i.kind in _ONE else found.dim if after else width
    if i.inner:
        width = found.dim if i.inner == "end" else found.hidden
        slots["inner"] = 1 if i.inner_kind in _ONE else width
    if i.head_gain:
        slots["head_gain"] = i.heads
    if i.temperature:
        slots["temperature"] = 1 if i.temperature == "module" else i.heads
    if i.sphere:
        slots |= {"s_qk": i.heads * i.head_dim, "s_uv": 2 * found.hidden}
    return slots


_WORDS = {
    "ω": "omega|admin|residual|ratio|^w", "λ": "lambda|lam|scale|resid", "a": "alpha|share|eigen",
    "norm_q": r"(^|[._])q", "norm_k": r"(^|[._])k", "norm_v": r"(^|[._])v",
    "norm_c": r"(^|[._])c|inner|out|head", "inner": "inner|hidden|mid|ffn|ffw",
}  # fmt: skip


def _fits(unit: Unit, slot: str, order: float) -> float:
    """Return how well a name fits a slot; `order` is how far apart they stand in their lists."""
    name, score = unit.name.lower(), -0.3 * order
    side, _, letter = slot.rpartition(".")
    if side:
        section = stem(unit.name + ".weight")[0]
        score += (2 if section == side else -1) if section else 0
    if letter in _WORDS:
        score += 3 if re.search(_WORDS[letter], name) else -2
    elif letter in "NM":
        other = re.search("omega|lambda|alpha|res_?scale|q_?norm|k_?norm|inner", name)
        score += -3 if other else 0
        if letter == "M":
            score += 1 if re.search("out|post|_2$", name) else 0
    return score


def _assignments(
    slots: list[str], units: list[Unit], ranks: dict[str, int]
) -> list[dict[str, Unit | None]]:
    """Return units of one size to slots of that size, the likeliest way first."""
    if not slots:
        return [{}]
    places: list[int | None] = [*range(len(units)), *[None] * (len(slots) - len(units))]
    ways = islice(permutations(places, len(slots)), 5040)

    def score(way: tuple[int | None, ...]) -> float:
        pairs = zip(way, slots, strict=True)
        return sum(
            _fits(units[u], slot, abs(u - ranks[slot])) for u, slot in pairs if u is not None
        )

    best = sorted(set(ways), key=lambda way: (-score(way), str(way)))[:_MANY]
    return [
        {slot: None if u is None else units[u] for u, slot in zip(way, slots, strict=True)}
        for way in best
    ]


def readings(
    found: Found, design: Design, limit: int = _MANY, base: Design | None = None
) -> Iterator[Reading]:
    """Read the parameters in every way that fits the design, the likeliest first.

    Norms of one size are taken to stand in the order of their places in `base`.
    """
    i = design.inside
    s = Shapes(found.dim, found.hidden, i.heads, i.kv_heads, i.head_dim)
    square = "T(" in design.attention.text + design.feed_forward.text
    if (key := (s, i.gated, square)) not in found.known:
        found.known[key] = all_matrices(found, s, i.gated, square)
    matrices = found.known[key]
    wanted = ["q", "k", "v", "out", *(["gate"] if i.gated else []), "up", "down"]
    slots, units = unit_slots(design, found), _joined(found)
    by_size: dict[int, list[str]] = {}
    for slot, size in slots.items():
        by_size.setdefault(size, []).append(slot)
    usual = slots if base is None else unit_slots(base, found)
    groups = []
    for size, names in by_size.items():
        places = [slot for slot, other in usual.items() if other == size]
        ranks = {n: places.index(n) if n in places else names.index(n) for n in names}
        groups.append(_assignments(names, [u for u in units if u.size == size], ranks))
    count = 0
    for chosen in product(*groups):
        for one in matrices:
            given = {slot: unit for group in chosen for slot, unit in group.items()}
            made = dict(one)
            for slot, unit in given.items():
                for leaf, piece in unit.leaves.items() if unit else ():
                    plain = slot.rpartition(".")[2] in ("ω", "λ", "a") or slot in (
                        "head_gain", "temperature", "s_qk", "s_uv")  # fmt: skip
                    made[slot if plain else f"{slot}.{leaf}"] = piece
            missing = [m for m in wanted if m not in one]
            missing += [slot for slot, unit in given.items() if unit is None]
            names = tuple((slot, unit.name) for slot, unit in given.items() if unit)
            yield Reading(made, tuple(missing), names)
            count += 1
            if count >= limit:
                return


def _joined(found: Found) -> list[Unit]:
    """Join s_u and s_v where they are apart."""
    apart = {
        m[1]: u for u in found.units
        if u.size == found.hidden and (m := re.search(r"s_?([uv])$", u.name.lower()))
    }  # fmt: skip
    if set(apart) != {"u", "v"}:
        return found.units
    parts = tuple(part for key in "uv" for part in next(iter(apart[key].leaves.values())).parts)
    both = Unit("s_uv", {"weight": Piece(parts)}, 2 * found.hidden)
    return [u for u in found.units if u not in apart.values()] + [both]


def flattened(module: nn.Module) -> dict[str, Tensor]:
    """Copy the module's parameters as they are now, flat and in float64."""
    return {n: p.detach().double().flatten() for n, p in module.named_parameters()}


def values(reading: Reading, flat: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read flattened parameters as slots."""
    return {slot: piece.read(flat) for slot, piece in reading.slots.items()}
