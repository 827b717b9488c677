"""Mistakes in what only some recipes have: factors, rectifiers, gates, second streams."""

from collections.abc import Iterator
from dataclasses import replace

from labkit.check.blocks.halves import Half

Change = tuple[str, str, Half]  # key (the same change on either half), sentence, half


def special(right: Half) -> Iterator[Change]:
    """Change what only some recipes have: factors, rectifiers, gates, second streams."""
    plain = replace(right, gain="", weight="")
    for letter, name in (("α", "α"), ("ω", "ω"), ("λ", "λ")):
        if right.gain == letter:
            on_branch = replace(plain, weight=letter)
            yield "swap", f"{name} multiplies the branch f instead of the skip", on_branch
            yield "no factor", f"{name} is missing: it multiplies nothing", plain
            yield "both", f"{name} multiplies the whole sum", replace(right, weight=letter)
            yield "1/", f"the skip is divided by {name}", replace(right, gain=f"1 / {letter}")
            yield (
                "1/f",
                f"the branch is divided by {name}, the skip not multiplied",
                replace(plain, weight=f"1 / {letter}"),
            )
            outside = f"{right.outer}({letter} * (x + f({right.read})))" if right.outer else ""
            if not right.outer:
                yield (
                    "after",
                    f"{name} multiplies the whole sum",
                    replace(right, odd=f"{letter} * (x + f({right.read}))"),
                )
            elif letter != "α":
                yield "sum", f"{name} multiplies the whole sum", replace(right, odd=outside)
            yield (
                "on read",
                f"{name} multiplies what the sublayer reads",
                replace(plain, read=f"{letter} * {right.read}"),
            )
    if "ℓ" in right.read:
        yield from _layer_scaling(right)
    if right.extra:
        b2t = "the block's input e is not added before the last norm: plain Post-Norm"
        yield "no e", b2t, replace(right, extra="")
        yield (
            "wrong e",
            "what attention left is added twice, not the block's input e",
            replace(right, extra="x"),
        )
        yield (
            "normed e",
            "a normalized copy of the block's input is added",
            replace(right, extra="N(e)"),
        )
        yield (
            "late e",
            "the block's input e is added after the last norm, not before",
            replace(right, odd=f"e + N(x + f({right.read}))"),
        )
        yield "instead", "the block's input e replaces what attention left", replace(right, skip="")
    if right.second:
        for second, sentence in (
            ("r", "the second stream is not moved by the sublayer's write"),
            ("r + new", "the second stream adds the normalized stream instead of the write f(x)"),
            ("r + x + f(x)", "the second stream adds x as well as the write f(x)"),
            ("x + f(x)", "the second stream starts again from x: it is not carried on"),
            ("N(r + f(x))", "the second stream is normalized; it must stay a plain sum"),
            ("N(r) + f(x)", "the second stream is normalized; it must stay a plain sum"),
            ("r + N(f(x))", "the second stream adds a normalized write"),
            ("f(x)", "the second stream forgets what it held"),
        ):
            yield f"second {second}", sentence, replace(right, second=second)
        yield (
            "fed by r",
            "the sublayer's write is added to r in the stream",
            replace(right, odd="N(r + f(x))"),
        )
    if right.write == "unit":
        yield from _sphere(right)
    if "T(" in right.weight:
        yield from _highway(right)
    if right.outer == "relu" or "relu" in right.read:
        yield from _rectified(right)


def _layer_scaling(right: Half) -> Iterator[Change]:
    for read, sentence in (
        ("N(x)", "the factor 1/√ℓ is missing"),
        ("N(x) / (ℓ - 1 + (ℓ < 2))**0.5", "ℓ counts from 0; the first block is number 1"),
        ("N(x) / (ℓ + 1)**0.5", "ℓ is one too large"),
        ("N(x) / (2 * ℓ)**0.5", "ℓ counts sublayers; it must count blocks"),
        ("N(x) / (2 * ℓ - 1)**0.5", "ℓ counts sublayers; it must count blocks"),
        ("N(x) / ℓ", "the norm is divided by ℓ instead of its root"),
        ("N(x) * ℓ**0.5", "the norm is multiplied by √ℓ instead of divided"),
        ("N(x / ℓ**0.5)", "√ℓ divides before the norm, which undoes it"),
    ):
        yield f"read {read}", sentence, replace(right, read=read)
    branch = replace(right, read="N(x)", weight="ℓ**-0.5")
    yield "1/√ℓ on f", "1/√ℓ multiplies the sublayer's write instead of what it reads", branch
    yield "1/√ℓ skip", "1/√ℓ multiplies the skip", replace(right, read="N(x)", gain="ℓ**-0.5")


def _sphere(right: Half) -> Iterator[Change]:
    for sentence, change in (
        ("the stream is not renormalized after the step", {"outer": ""}),
        ("the sublayer's write is not normalized before the step", {"write": ""}),
        ("the update lacks − h: α · norm(f(h)) is added to h itself", {"gain": ""}),
        ("α lacks its absolute value: a negative α turns the step around",
         {"gain": "(1 - raw)", "weight": "raw"}),
        ("the sign of h in the update is wrong", {"gain": "(1 + a)"}),
        ("α is the share of the way that is kept, not the one that is gone",
         {"gain": "a", "weight": "(1 - a)"}),
        ("α is ignored: plain addition on the sphere", {"gain": "", "weight": ""}),
        ("the sublayer gets more than the stream", {"read": "unit(f(x))"}),
    ):  # fmt: skip
        yield sentence, sentence, replace(right, **change)


def _highway(right: Half) -> Iterator[Change]:
    for sentence, change in (
        ("the carry gate 1 − T is missing: x is kept whole", {"gain": ""}),
        ("the transform gate T is missing on f", {"weight": ""}),
        ("the two gates are exchanged", {"gain": "T(x)", "weight": "(1 - T(x))"}),
        ("both gates are missing", {"gain": "", "weight": ""}),
        ("the skip is multiplied by T as well", {"gain": "T(x)"}),
        ("the gate has no sigmoid", {"gain": "(1 - linear(x))", "weight": "linear(x)"}),
        ("the gate reads the sublayer's output", {"gain": "(1 - T(f(x)))", "weight": "T(f(x))"}),
    ):
        yield sentence, sentence, replace(right, **change)


def _rectified(right: Half) -> Iterator[Change]:
    no = "the rectifier after the addition is missing"
    for sentence, change in (
        (no, {"outer": ""}) if right.outer else ("the rectifier is missing", {"read": "N(x)"}),
        ("the rectifier stands on the branch, before the addition",
         {"odd": "x + relu(N(f(x)))"} if right.outer else {"read": "N(x)", "write": "relu"}),
        ("the norm is missing", {"write": ""} if right.outer else {"read": "relu(x)"}),
        ("the rectifier stands before the norm",
         {"odd": "relu(x + N(relu(f(x))))"} if right.outer else {"read": "N(relu(x))"}),
        ("the stream is rectified after the addition",
         {"odd": "relu(x) + N(f(x))"} if right.outer else {"outer": "relu"}),
        ("the norm stands after the addition", {"odd": "relu(N(x + f(x)))"}),
        ("the skip is taken from the rectified copy",
         {"skip": "relu(x)"} if right.outer else {"skip": "relu(N(x))"}),
        ("norm and rectifier stand after the sum", {"odd": "N(relu(x + f(x)))"}),
        ("norm and rectifier stand on what the sublayer writes", {"odd": "x + relu(N(f(x)))"}),
    ):  # fmt: skip
        yield sentence, sentence, replace(right, **change)
