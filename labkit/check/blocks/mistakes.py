"""Known mistakes in a block, as changes of the right design; they explain, and decide nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from labkit.check.blocks.design import Design
from labkit.check.blocks.halves import HALVES, Half
from labkit.check.blocks.wrong_inside import inside_mistakes
from labkit.check.blocks.wrong_numbers import number_mistakes
from labkit.check.blocks.wrong_special import Change, special

_READ = {
    "x": "the norm before the sublayer is missing: it reads the raw stream",
    "N(x)": "the sublayer reads a normalized copy N(x)",
    "M(x)": "the sublayer reads a copy that has passed the other norm",
    "e": "the feed-forward reads the block's input e, not what attention left (MLP(x) for MLP(h))",
    "N(e)": "the feed-forward reads the normalized block's input, not what attention left",
    "N(N(x))": "the stream is normalized twice before the sublayer",
}
_SKIP = {
    "x": "the skip carries the raw stream x instead of its normalized copy",
    "N(x)": "the skip is taken from the normalized copy N(x) instead of the stream x",
    "M(x)": "the skip is taken from a normalized copy M(x) instead of the stream x",
    "": "the residual is missing: nothing is carried past the sublayer",
    "2 * x": "the residual is doubled: x is added twice",
    "0.5 * x": "the residual is halved",
    "e": "the skip carries the block's input e, not what attention left: attention's write is lost",
    "x + N(x)": "the normalized copy N(x) is added to the residual",
    "-x": "the residual is subtracted",
}
_UNDER_A_NORM = {
    "2 * x": "the branch is halved, or x counts twice (the norm cannot tell)",
    "0.5 * x": "the branch counts twice, or x is halved (the norm cannot tell)",
}


def _singles(right: Half) -> Iterator[Change]:
    """Change one term of a half, or move a norm from one place to another."""
    if right.outer in ("N", "M") and not right.write:
        moved = replace(right, outer="", write=right.outer)
        yield "to branch", "the norm stands on the branch instead of on the sum", moved
        inner = replace(right, outer="", read=f"{right.outer}(x)")
        if right.read == "x":
            yield "to read", "the norm stands before the sublayer (Pre-Norm), not on the sum", inner
            skipped = replace(right, outer="", skip=inner.read)
            yield "to skip", "the norm stands on the skip alone instead of on the sum", skipped
            both = replace(inner, skip=inner.read)
            yield "to stream", "the norm stands before the sublayer and on its skip", both
    if right.write in ("N", "M"):
        after = replace(right, write="", outer=right.write)
        yield "after", "the output norm stands after the addition instead of on the branch", after
        if right.read == "x":
            before = replace(right, write="", read=f"{right.write}(x)")
            yield "before", "the norm stands before the sublayer, not on what it writes", before
    if right.read == "N(x)" and not right.outer:
        post = replace(right, read="x", skip="x", outer="N")
        yield (
            "post",
            "the norm stands on the stream, after the addition, not before the sublayer",
            post,
        )
        if not right.write:
            out = replace(right, read="x", skip="x", write="N")
            yield (
                "to output",
                "the norm stands on what the sublayer writes, not on what it reads",
                out,
            )
    if len(right.norms) > 1 or right.skip != "x":
        yield "plain", "the norm is missing", Half(gain=right.gain, weight=right.weight)
    for read, sentence in _READ.items():
        if read != right.read and not (right.read == "x" and read == "x"):
            yield f"read {read}", sentence, replace(right, read=read)
    for skip, sentence in _SKIP.items():
        if right.outer in ("N", "M") and right.skip == "x" and not right.gain:
            sentence = _UNDER_A_NORM.get(skip, sentence)
        if skip != right.skip:
            yield f"skip {skip}", sentence, replace(right, skip=skip)
    for letter in ("", "N", "M"):
        if letter != right.write:
            sentence = (
                "a norm too many stands on what the sublayer writes"
                if letter and not right.write
                else "the norm on what the sublayer writes is missing"
                if not letter
                else "the two norms are exchanged on what the sublayer writes"
            )
            yield f"write {letter}", sentence, replace(right, write=letter)
        if letter != right.outer:
            sentence = (
                "a norm too many stands on the stream, after the addition"
                if letter and not right.outer
                else "the norm after the addition is missing"
                if not letter
                else "the outer norm is another one than it should be"
            )
            yield f"outer {letter}", sentence, replace(right, outer=letter)
    yield "sign", "the sublayer's write is subtracted", replace(right, weight="-1")
    yield "no f", "the sublayer's write is lost", replace(right, odd=right.skip or "x")
    yield "double f", "the sublayer's write is added twice", replace(right, weight="2")
    if right.outer not in ("N", "M"):
        yield "half f", "the sublayer's write is halved", replace(right, weight="0.5")
    if right.outer in ("N", "M"):
        yield (
            "post +x",
            "the stream is added once more after its norm",
            replace(right, odd=f"x + {right.text}"),
        )


def _others(right: Half) -> Iterator[Change]:
    """Take another recipe's step."""
    seen = []
    for name, pair in HALVES.items():
        for half in pair:
            fits = "a" not in (half.weight, right.weight) and "T" not in half.weight
            if half != right and half not in seen and fits and half.gain in ("", right.gain):
                seen.append(half)
                other = replace(half, alpha=right.alpha, number=right.number)
                yield f"recipe {name}", f"this is the step of the recipe {name!r}", other


def _pairs(right: Half) -> Iterator[Change]:
    for key, sentence, one in _singles(right):
        for other_key, other_sentence, other in _singles(right):
            changed = [n for n in ("read", "write", "skip", "outer") if
                       getattr(other, n) != getattr(right, n)]  # fmt: skip
            alone = all(getattr(one, n) == getattr(right, n) for n in changed)
            if key < other_key and changed and alone and not (one.odd or other.odd):
                both = replace(one, **{n: getattr(other, n) for n in changed})
                yield f"{key}, {other_key}", f"{sentence}; and {other_sentence}", both


def _told(sentence: str, where: str, wrong: Half, right: Half) -> str:
    if wrong.text == right.text:
        return f"{sentence} ({where})"
    return f"{sentence} ({where}: {wrong.text} instead of {right.text})"


Sides = tuple[Half, Half]


def _strange(pair: tuple[str, Sides], right: Sides) -> bool:
    """Return whether a change needs a second norm where the right half has none."""
    return any(
        "M" in half.norms and "M" not in own.norms for half, own in zip(pair[1], right, strict=True)
    )


def special_mistakes(
    right: Sides, recipe: str, sides: tuple[str, ...]
) -> Iterator[tuple[str, Sides]]:
    """Yield wrong pairs of halves whose mistake only this recipe can have."""
    return _single_sides(right, recipe, sides, (special,))


def side_mistakes(right: Sides, recipe: str, sides: tuple[str, ...]) -> Iterator[tuple[str, Sides]]:
    """Yield wrong pairs of halves with what is wrong in them, the likeliest first."""
    single = list(_single_sides(right, recipe, sides, (_singles, _others)))
    yield from (pair for pair in single if not _strange(pair, right))
    yield from (pair for pair in single if _strange(pair, right))


def _single_sides(
    right: Sides, recipe: str, sides: tuple[str, ...], groups: tuple[Callable[..., Any], ...]
) -> Iterator[tuple[str, Sides]]:
    a, f = right
    for group in groups:
        first, second = (
            [*group(half), *(number_mistakes(half, recipe) if group is special else [])]
            for half in right
        )
        by_key = {key: half for key, _, half in second}
        for key, sentence, half in first if len(sides) == 2 else ():
            if key in by_key and "e" not in key.split():
                yield _told(sentence, "both halves", half, a), (half, by_key[key])
        for _, sentence, half in first if "attention" in sides else ():
            if "e" not in half.text.replace("relu", ""):
                yield _told(sentence, "attention", half, a), (half, f)
        for _, sentence, half in second if "feed-forward" in sides else ():
            yield _told(sentence, "feed-forward", half, f), (a, half)


def double_mistakes(right: Sides, sides: tuple[str, ...]) -> Iterator[tuple[str, Sides]]:
    """Yield pairs of halves with two mistakes."""
    a, f = right
    if len(sides) == 2:
        firsts, seconds = list(_singles(a)), list(_singles(f))
        for key, sentence, half in firsts:
            for other_key, other_sentence, other in seconds:
                if key != other_key:
                    told = f"{sentence} (attention); and {other_sentence} (feed-forward)"
                    yield told, (half, other)
    for n, side in enumerate(("attention", "feed-forward")):
        for _, sentence, half in _pairs(right[n]) if side in sides else ():
            yield _told(sentence, side, half, right[n]), (half, f) if n == 0 else (a, half)


def mistakes(right: Design, recipe: str, sides: tuple[str, ...]) -> Iterator[tuple[str, Design]]:
    """Yield wrong designs with what is wrong in them, the likeliest first."""
    for find in (special_mistakes, side_mistakes):
        for sentence, pair in find(right.sides, recipe, sides):
            yield sentence, right.with_sides(*pair)
    if len(sides) == 2:
        yield from inside_mistakes(right)
    for sentence, pair in double_mistakes(right.sides, sides):
        yield sentence, right.with_sides(*pair)
