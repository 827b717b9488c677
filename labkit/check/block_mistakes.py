"""What a wrong block may be: the right one with one slip, or another recipe's; each in words.

A slip is the recipe's own step with something else handed in: another sublayer, norm or constant.
`s.move(f=…)` runs the step with that sublayer, whatever its equation is; `plus(s, y)` adds y to
its sum. Slips explain a failure and decide nothing.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from labkit.attention import Attention, rotate
from labkit.attention.logits import explicit_logits, soft_cap
from labkit.check.block_module import ACTIVATIONS, ModuleSubject
from labkit.check.block_subject import BlockSubject, Call, Change, Site, Slip, altered
from labkit.context import Context
from labkit.norms.unit import unit
from labkit.placements import (
    RECIPES,
    Admin,
    BottomToTop,
    DeepNorm,
    Highway,
    Keel,
    LayerNormScaling,
    NoNorm,
    OutputNorm,
    PostNorm,
    PreNorm,
    ResiDual,
    ResidualScale,
    ResNetV1,
    ResNetV2,
    SandwichNorm,
    SphereStep,
    Step,
    StreamNorm,
)  # fmt: skip

Slips = list[tuple[str, Slip]]
POST = (PostNorm, DeepNorm, Keel, Admin, BottomToTop, ResiDual)  # a norm stands after the sum
OUTPUT = (OutputNorm, SandwichNorm)  # a norm stands on the write
FACTORS = {DeepNorm: ("α", "alpha"), Keel: ("α", "alpha"), Admin: ("ω", "omega"),
           ResidualScale: ("λ", "scale")}  # fmt: skip
KINDS = {
    PostNorm: "this is Post-Norm: the norm stands on the stream, after the addition",
    PreNorm: "this is Pre-Norm: the norm stands before the sublayer",
    OutputNorm: "the norm stands on the branch, on what the sublayer writes",
    SandwichNorm: "this is the sandwich: norms before the sublayer and on what it writes",
    StreamNorm: "the skip is taken from the normalized copy N(x) instead of the stream x",
    NoNorm: "the norm is missing: there is none",
}
COPY, RAW = KINDS[StreamNorm], "the norm before the sublayer is missing: it reads the raw stream"
NOT_X = "the feed-forward reads the block's input e, not what attention left (MLP(x) for MLP(h))"
relu = torch.relu


def same(x: Tensor) -> Tensor:
    """Return x: a norm that is missing."""
    return x


def carried(s: Site) -> Tensor:
    """Compute what a step adds the sublayer's write to."""
    if isinstance(s.step, StreamNorm):
        return s.N(s.x)
    _, name = FACTORS.get(type(s.step), ("", ""))
    return getattr(s.step, name) * s.x if name else s.x


def plus(s: Site, more: Tensor, f: Any = None) -> Tensor:
    """Add something to the sum of skip and branch, before the norm that may follow."""
    if isinstance(s.step, OUTPUT):
        return s.move(f=f) + more
    return s.move(f=lambda z: (f or s.f)(z) + more)


def general_slips(step: Step) -> Slips:
    """List what can go wrong in any step: with its skip, its sublayer, its norms."""
    post, two = isinstance(step, POST), len(step.norms) == 2
    after = "the norm after the addition is missing"
    write = "the norm on what the sublayer writes is missing"
    first = write if isinstance(step, OutputNorm) else RAW if two or not post else after
    bare = "the gain of the norm is missing"
    half = "the branch is halved, or x counts twice (the norm cannot tell)"
    twice = "the branch counts twice, or x is halved (the norm cannot tell)"
    slips: Slips = [
        ("the norm stands on the skip alone: that before the sublayer is missing",
         lambda s: s.N(s.x) + s.f(s.x)),
        (first, lambda s: s.move(N=same)),
        (RAW, lambda s: s.move(f=lambda z: s.f(s.x))),
        (bare, lambda s: s.move(N=lambda x: s.N(x) / s.N(torch.ones_like(x)))),
        ("the residual is missing: nothing is carried past the sublayer",
         lambda s: plus(s, -carried(s))),
        (half if post else "the residual is doubled: x is added twice",
         lambda s: plus(s, carried(s))),
        (half if post else "the sublayer's write is halved",
         lambda s: s.move(f=lambda z: 0.5 * s.f(z))),
        (twice if post else "the sublayer's write is added twice",
         lambda s: s.move(f=lambda z: 2 * s.f(z))),
        ("the sublayer's write is subtracted", lambda s: s.move(f=lambda z: -s.f(z))),
        ("the sublayer's write is lost", lambda s: s.move(f=lambda z: s.f(z) * 0)),
        ("a norm too many stands on what the sublayer writes",
         lambda s: s.move(f=lambda z: s.M(s.f(z)))),
        ("a norm too many stands on the stream, after the addition", lambda s: s.M(s.move())),
        ("a norm too many stands on the stream, after the addition", lambda s: s.N(s.move())),
        ("the sublayer reads a normalized copy N(x)", lambda s: s.move(f=lambda z: s.f(s.N(s.x)))),
        (NOT_X, lambda s: s.move(f=lambda z: s.f(s.e))),
        (NOT_X, lambda s: s.move(f=lambda z: s.f(s.N(s.e)))),
        ("the skip carries the block's input e, not what attention left: attention's write is lost",
         lambda s: plus(s, s.e - s.x)),
    ]  # fmt: skip
    if post:
        slips += [("the norm stands on the branch instead of on the sum",
                   lambda s: carried(s) + s.N(s.f(s.x)))]  # fmt: skip
    if two:
        slips += [
            (after if post else write, lambda s: s.move(M=same)),
            (bare, lambda s: s.move(M=lambda x: s.M(x) / s.M(torch.ones_like(x)))),
            ("the two norms are exchanged", lambda s: s.move(N=s.M, M=s.N)),
            ("both norms are missing", lambda s: s.move(N=same, M=same)),
        ]  # fmt: skip
    if isinstance(step, SandwichNorm):
        slips += [("the output norm stands after the addition instead of on the branch",
                   lambda s: s.M(s.move(M=same)))]  # fmt: skip
    if isinstance(step, StreamNorm):
        return [("the skip carries the raw stream x instead of its normalized copy",
                 lambda s: plus(s, s.x - s.N(s.x))), *slips]  # fmt: skip
    reads = lambda s: lambda z: s.f(s.N(s.x))  # noqa: E731
    return [*slips, (COPY, lambda s: plus(s, s.N(s.x) - carried(s))),
            (COPY, lambda s: plus(s, s.N(s.x) - carried(s), reads(s)))]  # fmt: skip


def factor_slips(step: Any) -> Slips:
    """List what can go wrong with the factor on the skip."""
    letter, name = FACTORS[type(step)]
    value, without = getattr(step, name), {name: 1.0}
    deep, n = isinstance(step, DeepNorm), step.place.blocks
    cannot_tell = " (or its exponent's sign is wrong: the norm cannot tell)"
    slips: Slips = [
        (f"{letter} multiplies the branch f instead of the skip" + cannot_tell * deep,
         lambda s: s.move(f=lambda z: value * s.f(z), **without)),
        (f"{letter} is missing: it multiplies nothing", lambda s: s.move(**without)),
        (f"{letter} multiplies the whole sum", lambda s: s.move(f=lambda z: value * s.f(z))),
        (f"{letter} multiplies the whole sum, after its norm", lambda s: value * s.move(**without)),
    ]  # fmt: skip
    numbers = [
        ((4 * n) ** 0.25, "it is (2N)^(1/4), N counts blocks, and sublayers are counted"),
        ((2 * n) ** 0.5, "it is the fourth root of 2N, not the square root"),
        ((8 * n) ** 0.25, "it is (2N)^(1/4); 8 belongs to β = (8N)^(−1/4)"),
        (64**0.25, "it is hard-coded for 32 blocks"), (2.828, "it is hard-coded for 32 blocks"),
        (2.0 * n, "it is (2N)^(1/4), and the root is missing"),
        (n**0.25, "it is (2N)^(1/4), and the factor 2 is missing"),
        ((8 * n) ** -0.25, "this is β, the gain of the initial weights"),
        ((3 * n) ** 0.25, "this is the decoder's of an encoder-decoder"),
        (0.81 * n ** (5 / 16), "this is the encoder's of an encoder-decoder"),
        ((2 * (n + 1)) ** 0.25, "it is made for one block more"),
        ((2 * max(n - 1, 0.5)) ** 0.25, "it is made for one block less"),
    ] if deep else [
        (1.0 * n, "α counts sublayers, two in each block, and blocks are counted"),
        ((2 * n) ** 0.5, "it is the number of sublayers, not its root"),
        ((2 * n) ** 0.25, "this is DeepNorm's"),
        (4.0 * n, "α counts sublayers, two in each block"),
        (2.0 * n, "the first feed-forward has α = 1, all others 2 · depth"),
    ] if isinstance(step, Keel) else []  # fmt: skip
    return slips + [
        (f"α is {number:.4g} instead of {value:.4g}: {why}", lambda s, a=number: s.move(alpha=a))
        for number, why in numbers
    ]


def number_slips(step: Any) -> Slips:
    """List what can go wrong with LayerNorm scaling's ℓ; a root that is missing is ℓ² under it."""
    n = step.number
    numbers = (
        (1, "the factor 1/√ℓ is missing, or it divides before the norm, which undoes it"),
        (max(n - 1, 1), "ℓ counts from 0; the first block is number 1"),
        (2 * n, "ℓ counts sublayers; it must count blocks"),
        (2 * n - 1, "ℓ counts sublayers; it must count blocks"),
        (n * n, "the norm is divided by ℓ instead of its root"),
        (1 / n, "the norm is multiplied by √ℓ instead of divided"),
    )
    write = "1/√ℓ multiplies the sublayer's write instead of what it reads"
    return [
        *((why, lambda s, m=number: s.move(number=m)) for number, why in numbers),
        (write, lambda s: s.move(f=lambda z: s.f(z) / n**0.5, number=1)),
    ]


def entry_slips(step: Any) -> Slips:
    """List what can go wrong with the block's input e, which B2T adds."""
    return [
        ("the block's input e is not added before the last norm: plain Post-Norm",
         lambda s: plus(s, -s.e)),
        ("what attention left is added twice, not the block's input e",
         lambda s: plus(s, s.x - s.e)),
        ("a normalized copy of the block's input is added", lambda s: plus(s, s.N(s.e) - s.e)),
        ("the block's input e replaces what attention left", lambda s: plus(s, -s.x)),
        ("the block's input e is added after the last norm, not before",
         lambda s: s.e + plus(s, -s.e)),
    ]  # fmt: skip


def second_slips(step: Any) -> Slips:
    """List what can go wrong with ResiDual's second stream; w is the write, y the new stream."""

    def slip(second: Callable[..., Tensor], s: Site) -> Tensor:
        r, y = s.x if s.context.total is None else s.context.total, s.move()
        s.context.total = second(s, r, s.f(s.x), y)
        return y

    return [(why, partial(slip, second)) for why, second in (
        ("the second stream is not moved by the sublayer's write", lambda s, r, w, y: r),
        ("the second stream adds the normalized stream instead of the write f(x)",
         lambda s, r, w, y: r + y),
        ("the second stream starts again from x: it is not carried on",
         lambda s, r, w, y: s.x + w),
        ("the second stream is normalized; it must stay a plain sum",
         lambda s, r, w, y: s.N(r + w)),
    )]  # fmt: skip


def sphere_slips(step: Any) -> Slips:
    """List what can go wrong in nGPT's step from h to the write y."""
    a, signed = step.share, step.alpha()
    return [(why, lambda s, m=move: m(s.x, s.f(s.x))) for why, move in (
        ("the stream is not renormalized after the step", lambda h, y: h + a * (unit(y) - h)),
        ("the sublayer's write is not normalized before the step",
         lambda h, y: unit(h + a * (y - h))),
        ("the update lacks − h: α · norm(f(h)) is added to h itself",
         lambda h, y: unit(h + a * unit(y))),
        ("α lacks its absolute value: a negative α turns the step around",
         lambda h, y: unit(h + signed * (unit(y) - h))),
        ("α is the share of the way that is kept, not the one that is gone",
         lambda h, y: unit(a * h + (1 - a) * unit(y))),
        ("α is ignored: plain addition on the sphere", lambda h, y: unit(h + unit(y))),
        ("the stream gets the root mean square 1, not the length 1",
         lambda h, y: h.shape[-1] ** 0.5 * unit(h + a * (unit(y) - h))),
    )]  # fmt: skip


def highway_slips(step: Any) -> Slips:
    """List what can go wrong with the gates."""
    T = step.transform
    return [(why, lambda s, m=move: m(s.x, s.f(s.x))) for why, move in (
        ("the carry gate 1 − T is missing: x is kept whole", lambda x, y: T(x) * y + x),
        ("the transform gate T is missing on f", lambda x, y: y + (1 - T(x)) * x),
        ("the two gates are exchanged", lambda x, y: (1 - T(x)) * y + T(x) * x),
        ("both gates are missing", lambda x, y: x + y),
        ("the gate reads the sublayer's output", lambda x, y: T(y) * y + (1 - T(y)) * x),
    )]  # fmt: skip


def rectifier_slips(step: Any) -> Slips:
    """List what can go wrong with the rectifier of a ResNet."""
    v1 = isinstance(step, ResNetV1)
    no = "the rectifier after the addition is missing" if v1 else "the rectifier is missing"
    return [(why, lambda s, m=move: m(s.x, s.f, s.N)) for why, move in (
        (no, lambda x, f, N: x + N(f(x)) if v1 else x + f(N(x))),
        ("the rectifier stands on the branch, before the addition",
         lambda x, f, N: x + relu(N(f(x)))),
        ("the norm is missing", lambda x, f, N: relu(x + f(x)) if v1 else x + f(relu(x))),
        ("the rectifier stands before the norm",
         lambda x, f, N: relu(x + N(relu(f(x)))) if v1 else x + f(N(relu(x)))),
        ("the stream is rectified after the addition", lambda x, f, N: relu(x + f(relu(N(x))))),
        ("the norm stands after the addition", lambda x, f, N: relu(N(x + f(x)))),
        ("the skip is taken from the rectified copy", lambda x, f, N: relu(N(x)) + f(relu(N(x)))),
    )]  # fmt: skip


_SPECIAL: dict[Any, Callable[[Any], Slips]] = {
    DeepNorm: factor_slips, Keel: factor_slips, Admin: factor_slips, ResidualScale: factor_slips,
    LayerNormScaling: number_slips, BottomToTop: entry_slips, ResiDual: second_slips,
    SphereStep: sphere_slips, Highway: highway_slips, ResNetV1: rectifier_slips,
    ResNetV2: rectifier_slips,
}  # fmt: skip


def slips_of(step: Step) -> Slips:
    """List the slips of a step, first those that only it can have."""
    special = _SPECIAL[type(step)](step) if type(step) in _SPECIAL else []
    return special if isinstance(step, SphereStep | Highway) else special + general_slips(step)


# --- which block it is instead ---


@cache
def _other_steps() -> dict[type[Step], str]:
    """Map the steps of all recipes that learn nothing of their own to the first such recipe."""
    kinds: dict[type[Step], str] = {}
    for name, row in RECIPES.items():
        for placed in filter(None, (row.block, row.first)):
            kinds.setdefault(placed.attention, name)
            kinds.setdefault(placed.feed_forward, name)
    return {
        k: name for k, name in kinds.items() if not [*k(nn.Identity, nn.Identity()).parameters()]
    }


def changes(subject: BlockSubject) -> Iterator[Change]:
    """Yield what may be wrong, the likeliest first: norms, sublayers, slips, other recipes."""
    steps, several = subject.steps, len(subject.steps) == 2
    if isinstance(subject, ModuleSubject):
        if subject.strange:
            yield Change("; ".join(subject.strange.values()), norms=subject.actual_norms)
        yield from _inside(subject)
    each = [slips_of(step) for step in steps]
    if several and type(steps[0]) is type(steps[1]):
        for (why, one), (_, two) in zip(*each, strict=True):
            told = f"{why} (both halves: the recipe has {steps[0].equation})"
            yield Change(told, slips=(one, two))
    for i, step in enumerate(steps):
        for why, slip in each[i]:
            where = f"{why} ({subject.sides[i]}: the recipe has {step.equation})"
            yield Change(where, slips=(slip, None) if i == 0 else (None, slip))
    for i, step in enumerate(steps):
        for kind, name in _other_steps().items():
            why = KINDS.get(kind, f"this is the step of the recipe {name!r}")
            where = f"{why} ({subject.sides[i]}: {kind.equation} instead of {step.equation})"
            yield Change(where, kinds=(kind, None) if i == 0 else (None, kind))
    if several:
        yield from _other_recipes(steps, subject.placement.heads)
        yield Change("one norm serves two places; each has a gain of its own", merged=True)
        yield Change(
            "the norms stand in each other's places (they are read in the order in which the "
            "module defines them; names={…} tells another)",
            norms=[*subject.norms[1:], *subject.norms[:1]],
        )


def _other_recipes(steps: list[Any], heads: str | None) -> Iterator[Change]:
    """Yield both halves of other recipes; those with the same norms in attention first."""
    placed = [(name, p) for name, row in RECIPES.items() for p in (row.block, row.first) if p]
    seen = {tuple(map(type, steps))}
    for name, p in sorted(placed, key=lambda pair: pair[1].heads != heads):
        pair = (p.attention, p.feed_forward)
        if set(pair) <= _other_steps().keys() and pair not in seen:
            seen.add(pair)
            told = "; ".join(
                f"{side}: {kind.equation} instead of {step.equation}"
                for side, kind, step in zip(("attention", "feed-forward"), pair, steps, strict=True)
            )
            both = KINDS.get(pair[0], "") if pair[0] is pair[1] else ""
            why = both and f"{both}, in both halves"
            yield Change(f"{why or f'this is the placement of {name!r}'} ({told})", kinds=pair)


# --- inside attention and feed-forward ---

WHICH = {"q": "queries", "k": "keys", "v": "values", "c": "head outputs"}


def _inside(subject: ModuleSubject) -> Iterator[Change]:
    """Yield other norms, masks and logits in attention, then another feed-forward."""
    right, feed = subject.steps[0].sublayer, subject.steps[1].sublayer

    def attention(sentence: str, module: Any = None, **changed: Any) -> Change:
        return Change(sentence, sublayers=(module or altered(right, **changed), None))

    def forward(sentence: str, **changed: Any) -> Change:
        return Change(sentence, sublayers=(None, altered(feed, **changed)))

    yield attention("attention sees later tokens: the causal mask is missing" if right.causal
                    else "attention is causal; it should see all tokens",
                    causal=not right.causal)  # fmt: skip
    for sentence, how in _logits(right):
        yield attention(sentence, attend=partial(_attend, right, **how))
    if subject.row.sphere:
        for early, sentence in (
            (False, "s_qk multiplies q alone; it multiplies q and k"),
            (True, "s_qk multiplies before the rotation; it must come after"),
        ):
            yield attention(sentence, project=partial(_project, right, early))
        yield forward("v of the feed-forward lacks its factor √d", root=1.0)
        return
    yield from (Change(told, sublayers=(m, None)) for told, m in _attention_norms(subject, right))
    if right.head_gain is not None:
        bare, gain = altered(right, head_gain=None), right.head_gain[:, None]
        late = Call(lambda x, c: (bare(x, c).unflatten(-1, (len(gain), -1)) * gain).flatten(-2))
        yield attention("the gain of each head is missing", bare)
        yield attention("the gain of each head stands after W_O instead of before", late)
    for name, act in (*ACTIVATIONS.items(), ("missing", same)):
        yield forward(f"the activation is {name}, not {subject.config.activation}", act=act)
    norm = subject.inside.get("inner_norm", feed.inner_norm)
    if feed.inner_norm is None:
        yield forward("a norm of the hidden vector is there and should not be", inner_norm=norm)
        return
    yield forward("the norm of the hidden vector is missing", inner_norm=None)
    for where, why in (
        ("before", "the norm of the hidden vector stands before the activation"),
        ("end", "the norm stands after the last matrix instead of before it"),
    ):
        yield forward(why, where=where, inner_norm=norm)


def _attention_norms(subject: ModuleSubject, right: Any) -> Iterator[tuple[str, Any]]:
    """Yield attention with the norms that the module's parameters speak of, and with fewer."""
    asked = {t for t in "qkvc" if getattr(right, f"norm_{t}") is not None}
    own = {t: norm for t in "qkvc" if (norm := subject.inside.get(f"norm_{t}")) is not None}
    learned = {t for t in asked if [*getattr(right, f"norm_{t}").parameters()]}
    words = vars(right.norms) if right.norms is not None else {
        "share": "head", "after_rope": False, "times": 1.0, "temperature": None}  # fmt: skip
    missing, extra = [*sorted(learned - own.keys())], [*sorted(own.keys() - asked)]
    told = [f"the {WHICH[t]} ({t}) are not normalized" for t in missing]
    told = ["q, k, v and c are not normalized at all"] if len(missing) > 1 and not own else told
    told += [f"the {WHICH[t]} ({t}) are normalized and should not be" for t in extra]
    told += [subject.strange[g.path] for g in subject.found.inside.values()
             if g.path in subject.strange]  # fmt: skip
    shapes = {tuple(norm.weight.shape) for norm in own.values()}
    narrow = all(shape == (right.head_dim,) for shape in shapes)
    share = "own" if any(len(s) == 2 for s in shapes) else "head" if narrow else "width"
    if own and share != words["share"] and asked:
        told.append({
            "width": "the norm runs over the full width; it must run over each head",
            "head": "the norm runs over each head; it must run over the full width",
            "own": "each head has gains of its own; all heads share one",
        }[share])  # fmt: skip
    words = words | {"share": share if own else words["share"]}
    norms = {f"norm_{t}": own.get(t) for t in {*missing, *own}}
    twin = altered(right, norms=SimpleNamespace(**words), **norms)
    yield "; ".join(told), twin
    when = ("after", "before") if not words["after_rope"] else ("before", "after")
    turned = SimpleNamespace(**words | {"after_rope": not words["after_rope"]})
    yield (
        "; ".join([f"q and k are normalized {when[0]} the rotation instead of {when[1]}", *told]),
        altered(twin, norms=turned),
    )
    if twin.norm_c is not None:
        bare, c = altered(twin, norm_c=None), twin.norm_c
        late = Call(lambda x, context: c(bare(x, context)))
        yield "the norm of the head outputs stands after W_O instead of before", late
    for gone in (*sorted(asked), "".join(sorted(asked))):
        which = ", ".join(f"{WHICH[t]} ({t})" for t in gone)
        yield (
            f"the {which} are not normalized" if len(gone) == 1
            else "q, k, v and c are not normalized at all",
            altered(right, **{f"norm_{t}": None for t in gone}),
        )  # fmt: skip


def _logits(right: Any) -> list[tuple[str, dict[str, Any]]]:
    """List arguments of `_attend`, each with what is wrong about it."""
    h, d, c = right.head_dim, right.q.in_features, right.softcap
    off, scaled = "the causal mask is off by one: a token", "the logits are multiplied by"
    made: list[tuple[str, dict[str, Any]]] = [
        (f"{scaled} 1 instead of 1/√h (h: head width)", {"times": h**0.5}),
        (f"{scaled} 1/h instead of 1/√h (h: head width)", {"times": h**-0.5}),
        (f"{scaled} 1/√d instead of 1/√h (h: head width)", {"times": (h / d) ** 0.5}),
        (f"{scaled} 1/√h instead of √h (h: head width)", {"times": 1 / h}),
        (f"{scaled} √h instead of 1/√h (h: head width)", {"times": h}),
        ("the softmax runs over the queries instead of the keys", {"over": -2}),
        ("key and value heads are tiled; each must repeat for its neighbours", {"tiled": True}),
    ]  # fmt: skip
    if right.causal:
        made += [
            (f"{off} sees the next one (triu(2) for triu(1))", {"shift": 2}),
            (f"{off} does not see itself (tril(-1) for tril(0))", {"shift": 0, "fill": -1e9}),
            ("the causal mask comes after the softmax: weights do not add up to 1", {"late": True}),
            ("the causal mask fills with 0, not with -inf: later tokens take part", {"fill": 0.0}),
        ]  # fmt: skip
    if c is not None:
        made += [
            ("the logits are not bounded (soft cap)", {"cap": same}),
        ]  # fmt: skip
    if right.chain is not None:
        made += [
            ("the scores of the block before are not added", {"chain": "none"}),
            ("the scores of the block before are added after the softmax", {"chain": "late"}),
            ("what is handed on is not the sum: the scores are not accumulated", {"chain": "lost"}),
        ]  # fmt: skip
    return made


def _attend(
    a: Attention, q: Tensor, k: Tensor, v: Tensor, context: Context, *, shift: int = 1,
    fill: float = -math.inf, over: int = -1, times: float = 1.0, late: bool = False,
    tiled: bool = False, cap: Any = None, chain: str = "",
) -> Tensor:  # fmt: skip
    """Attend step by step, so that each step can be done in another way."""
    groups = q.shape[1] // k.shape[1]
    k, v = (
        (t.repeat(1, groups, 1, 1) if tiled else t.repeat_interleave(groups, 1)) for t in (k, v)
    )
    plain = logits = explicit_logits(q, k, None if a.temperature is None else 1.0) * times
    earlier = context.scores.get(a.chain) if a.chain else None
    if earlier is not None and chain not in ("none", "late"):
        logits = logits + earlier
    if a.chain:
        context.scores[a.chain] = plain if chain == "lost" else logits
    if cap is not None or a.softcap is not None:
        logits = cap(logits) if cap else soft_cap(logits, a.softcap or 1.0)
    time = q.shape[2]
    hidden = torch.ones(time, time, dtype=torch.bool).triu(shift if a.causal else time)
    weights = (logits if late else logits.masked_fill(hidden, fill)).softmax(over)
    weights = weights.masked_fill(hidden, 0) if late else weights.nan_to_num()
    if earlier is not None and chain == "late":
        weights = weights + earlier.masked_fill(hidden, 0)
    return weights @ v


def _project(a: Any, early: bool, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
    """Scale q alone, or q and k before they are turned: a rotation keeps lengths."""
    q, k, v = Attention.project(a, x, context)
    scale, q, k = a.s_qk().view(a.heads, 1, -1), unit(q), unit(k)
    if not early:
        return a.head_dim * scale * q, k, v
    if (angles := context.angles) is not None:
        q, k = (rotate(scale * rotate(t, -angles), angles) for t in (q, k))
    return a.head_dim * q, k, v
