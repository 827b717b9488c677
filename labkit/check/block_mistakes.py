"""What a wrong step may be: the right one with one slip, or another recipe's; each in words.

A slip takes a Site and computes the wrong step there. `site.move(f=…)` is the recipe's own step
with that sublayer, whatever its equation is. Slips explain a failure and decide nothing: a slip is
named only where it gives what came.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

from torch import Tensor, nn, relu

from labkit.check.block_parts import list_part_changes
from labkit.check.block_subject import (
    BlockSubject,
    Change,
    FunctionSubject,
    ModuleSubject,
    Site,
    Slip,
    remake_step,
)
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
)

Slips = list[tuple[str, Slip]]
Equations = dict[str, Callable[..., Tensor]]  # of x, f and the norm N, by what is wrong
POST = (PostNorm, DeepNorm, Keel, Admin, BottomToTop, ResiDual)  # a norm stands after the sum
OUTPUT = (OutputNorm, SandwichNorm)  # a norm stands on the write
FACTORS = {
    DeepNorm: ("α", "alpha"),
    Keel: ("α", "alpha"),
    Admin: ("ω", "omega"),
    ResidualScale: ("λ", "scale"),
}
KINDS = {
    PostNorm: "this is Post-Norm: the norm stands on the stream, after the addition",
    PreNorm: "this is Pre-Norm: the norm stands before the sublayer",
    OutputNorm: "the norm stands on the branch, on what the sublayer writes",
    SandwichNorm: "this is the sandwich: norms before the sublayer and on what it writes",
    StreamNorm: "the skip is taken from the normalized copy N(x) instead of the stream x",
    NoNorm: "the norm is missing: there is none",
}
RAW = "the norm before the sublayer is missing: it reads the raw stream"
NOT_X = "the feed-forward reads the block's input e, not what attention left (MLP(x) for MLP(h))"


# --- slips of any step: with its skip, its sublayer, its norms ---


def _find_skip(site: Site) -> Tensor:
    """Compute what a step adds the sublayer's write to."""
    if isinstance(site.step, StreamNorm):
        return site.norm(site.x)
    _, name = FACTORS.get(type(site.step), ("", ""))
    return getattr(site.step, name) * site.x if name else site.x


def _add_to_sum(site: Site, more: Tensor) -> Tensor:
    """Add something to the sum of skip and branch, before the norm that may follow."""
    if isinstance(site.step, OUTPUT):
        return site.move() + more
    return site.move(f=lambda z: site.f(z) + more)


def _scale_skip(site: Site, times: float) -> Tensor:
    return _add_to_sum(site, (times - 1) * _find_skip(site))


def _scale_write(site: Site, factor: float) -> Tensor:
    return site.move(f=lambda z: factor * site.f(z))


def _skip_from_copy(site: Site) -> Tensor:
    return _add_to_sum(site, site.norm(site.x) - _find_skip(site))


def _skip_from_raw_stream(site: Site) -> Tensor:
    return _add_to_sum(site, site.x - _find_skip(site))


def _norm_skip_alone(site: Site) -> Tensor:
    return site.norm(site.x) + site.f(site.x)


def _norm_write_too(site: Site) -> Tensor:
    return site.move(f=lambda z: site.norm(site.f(z)))


def _norm_write_instead_of_sum(site: Site) -> Tensor:
    return _find_skip(site) + site.norm(site.f(site.x))


def _norm_sum_instead_of_write(site: Site) -> Tensor:
    return site.norm_out(site.move(norm_out=_keep_input))


def _norm_stream_too(site: Site) -> Tensor:
    return site.norm(site.move())


def _read_raw_stream(site: Site) -> Tensor:
    return site.move(f=lambda z: site.f(site.x))


def _read_entry(site: Site) -> Tensor:
    return site.move(f=lambda z: site.f(site.entry))


def _keep_input(x: Tensor) -> Tensor:
    return x


def _exchange_norms(site: Site) -> Tensor:
    return site.move(norm=site.norm_out, norm_out=site.norm)


def _move_stream(site: Site, **changed: Any) -> Tensor:
    """Run the step with other norms or constants."""
    return site.move(**changed)


def list_general_slips(step: Step) -> Slips:
    """List what can go wrong in any step."""
    post = isinstance(step, POST)
    half = "the branch is halved, or x counts twice (the norm cannot tell)"
    twice = "the branch counts twice, or x is halved (the norm cannot tell)"
    slips: Slips = [
        ("the residual is missing: the skip is not added", partial(_scale_skip, times=0.0)),
        (half if post else "the residual is doubled: x is added twice",
         partial(_scale_skip, times=2.0)),
        (half if post else "the sublayer's write is halved", partial(_scale_write, factor=0.5)),
        (twice if post else "the sublayer's write is added twice",
         partial(_scale_write, factor=2.0)),
        ("the sublayer's write is subtracted", partial(_scale_write, factor=-1.0)),
        ("the sublayer's write is lost", partial(_scale_write, factor=0.0)),
        (NOT_X, _read_entry),
    ]  # fmt: skip
    return slips + _list_norm_slips(step, post) if step.norms else slips


def _list_norm_slips(step: Step, post: bool) -> Slips:
    two = len(step.norms) == 2
    after = "the norm after the addition is missing"
    write = "the norm on what the sublayer writes is missing"
    first = write if isinstance(step, OutputNorm) else after if post and not two else RAW
    slips: Slips = [
        ("the norm stands on the skip alone: that before the sublayer is missing",
         _norm_skip_alone),
        (first, partial(_move_stream, norm=_keep_input)),
        (RAW, _read_raw_stream),
        ("a norm too many stands on what the sublayer writes", _norm_write_too),
        ("a norm too many stands on the stream, after the addition", _norm_stream_too),
    ]  # fmt: skip
    if isinstance(step, StreamNorm):
        told = "the skip carries the raw stream x instead of its normalized copy"
        slips.insert(0, (told, _skip_from_raw_stream))
    else:
        slips.append((KINDS[StreamNorm], _skip_from_copy))
    if post:
        told = "the norm stands on the branch instead of on the sum"
        slips.append((told, _norm_write_instead_of_sum))
    if two:
        slips.append((after if post else write, partial(_move_stream, norm_out=_keep_input)))
        slips.append(
            (
                "both norms are missing",
                partial(_move_stream, norm=_keep_input, norm_out=_keep_input),
            )
        )
        slips.append(("the two norms are exchanged", _exchange_norms))
    if isinstance(step, SandwichNorm):
        told = "the output norm stands after the addition instead of on the branch"
        slips.append((told, _norm_sum_instead_of_write))
    return slips


# --- slips that only some steps can have ---


def list_factor_slips(step: Any) -> Slips:
    """List what can go wrong with the factor on the skip."""
    letter, name = FACTORS[type(step)]
    value = getattr(step, name)

    def multiply_branch(site: Site) -> Tensor:
        return site.move(f=lambda z: value * site.f(z), **{name: 1.0})

    def multiply_sum(site: Site) -> Tensor:
        return site.move(f=lambda z: value * site.f(z))

    where = f"{letter} multiplies the branch f instead of the skip"
    if isinstance(step, DeepNorm):
        where += " (or its exponent's sign is wrong: the norm cannot tell)"
    slips: Slips = [
        (where, multiply_branch),
        (f"{letter} is missing: it multiplies nothing", partial(_move_stream, **{name: 1.0})),
        (f"{letter} multiplies the whole sum", multiply_sum),
    ]
    for number, why in _list_factors(step):
        told = f"α is {number:.4g} instead of {value:.4g}: {why}"
        slips.append((told, partial(_move_stream, alpha=number)))
    return slips


def _list_factors(step: Any) -> list[tuple[float, str]]:
    """List what α is taken for, by the number of blocks n."""
    n = step.place.blocks
    if isinstance(step, Keel):
        return [
            (1.0 * n, "α counts sublayers, two in each block, and blocks are counted"),
            ((2 * n) ** 0.5, "it is the number of sublayers, not its root"),
            (2.0 * n, "the first feed-forward has α = 1, all others 2 · depth"),
        ]
    if not isinstance(step, DeepNorm):
        return []
    return [
        ((4 * n) ** 0.25, "it is (2N)^(1/4), N counts blocks, and sublayers are counted"),
        ((2 * n) ** 0.5, "it is the fourth root of 2N, not the square root"),
        ((8 * n) ** 0.25, "it is (2N)^(1/4); 8 belongs to β = (8N)^(−1/4)"),
        (64**0.25, "it is hard-coded for 32 blocks"),
        (2.828, "it is hard-coded for 32 blocks"),
        (2.0 * n, "it is (2N)^(1/4), and the root is missing"),
        (n**0.25, "it is (2N)^(1/4), and the factor 2 is missing"),
        ((8 * n) ** -0.25, "this is β, the gain of the initial weights"),
        ((3 * n) ** 0.25, "this is the decoder's of an encoder-decoder"),
        (0.81 * n ** (5 / 16), "this is the encoder's of an encoder-decoder"),
    ]


def list_number_slips(step: Any) -> Slips:
    """List what can go wrong with LayerNorm scaling's ℓ; a root that is missing is ℓ² under it."""
    n = step.number
    numbers = [
        (1, "the factor 1/√ℓ is missing, or it divides before the norm, which undoes it"),
        (max(n - 1, 1), "ℓ counts from 0; the first block is number 1"),
        (2 * n, "ℓ counts sublayers; it must count blocks"),
        (n * n, "the norm is divided by ℓ instead of its root"),
        (1 / n, "the norm is multiplied by √ℓ instead of divided"),
    ]

    def divide_write(site: Site) -> Tensor:
        return site.move(f=lambda z: site.f(z) / n**0.5, number=1)

    write = "1/√ℓ multiplies the sublayer's write instead of what it reads"
    slips: Slips = [(why, partial(_move_stream, number=number)) for number, why in numbers]
    return [*slips, (write, divide_write)]


def list_entry_slips(step: Any) -> Slips:
    """List what can go wrong with the block's input e, which B2T adds."""

    def lose_entry(site: Site) -> Tensor:
        return _add_to_sum(site, -site.entry)

    def add_stream_instead(site: Site) -> Tensor:
        return _add_to_sum(site, site.x - site.entry)

    def add_entry_after_norm(site: Site) -> Tensor:
        return site.entry + lose_entry(site)

    return [
        ("the block's input e is not added before the last norm: plain Post-Norm", lose_entry),
        ("what attention left is added twice, not the block's input e", add_stream_instead),
        ("the block's input e is added after the last norm, not before", add_entry_after_norm),
    ]


def _move_second(site: Site, equation: Callable[..., Tensor]) -> Tensor:
    """Move the stream rightly, and ResiDual's second stream r in another way."""
    r = site.x if site.context.total is None else site.context.total
    moved = site.move()
    site.context.total = equation(r, site.f(site.x), site.x, moved, site.norm)
    return moved


def list_second_slips(step: Any) -> Slips:
    """List what can go wrong with the second stream r; w is the write f(x), y the new stream."""
    equations: dict[str, Callable[..., Tensor]] = {
        "the second stream is not moved by the sublayer's write": lambda r, w, x, y, N: r,
        "the second stream adds the normalized stream instead of the write f(x)": (
            lambda r, w, x, y, N: r + y
        ),
        "the second stream starts again from x: it is not carried on": lambda r, w, x, y, N: x + w,
        "the second stream is normalized; it must stay a plain sum": lambda r, w, x, y, N: N(r + w),
    }
    return [(why, partial(_move_second, equation=equation)) for why, equation in equations.items()]


def _follow_equation(site: Site, equation: Callable[..., Tensor]) -> Tensor:
    """Move the stream by an equation of x, f and the norm N, where there is one."""
    return equation(site.x, site.f, getattr(site.step, "norm", None))


def list_sphere_slips(step: Any) -> Equations:
    """List what can go wrong in nGPT's step from x to the write f(x)."""
    a, signed = step.share, step.alpha()
    return {
        "the stream is not renormalized after the step": (lambda x, f, N: x + a * (unit(f(x)) - x)),
        "the sublayer's write is not normalized before the step": (
            lambda x, f, N: unit(x + a * (f(x) - x))
        ),
        "the update lacks − h: α · norm(f(h)) is added to h itself": (
            lambda x, f, N: unit(x + a * unit(f(x)))
        ),
        "α lacks its absolute value: a negative α turns the step around": (
            lambda x, f, N: unit(x + signed * (unit(f(x)) - x))
        ),
        "α is the share of the way that is kept, not the one that is gone": (
            lambda x, f, N: unit(a * x + (1 - a) * unit(f(x)))
        ),
        "α is ignored: plain addition on the sphere": lambda x, f, N: unit(x + unit(f(x))),
    }


def list_highway_slips(step: Any) -> Equations:
    """List what can go wrong with the gate T."""
    T = step.transform
    return {
        "the carry gate 1 − T is missing: x is kept whole": lambda x, f, N: T(x) * f(x) + x,
        "the transform gate T is missing on f": lambda x, f, N: f(x) + (1 - T(x)) * x,
        "the two gates are exchanged": lambda x, f, N: (1 - T(x)) * f(x) + T(x) * x,
        "both gates are missing": lambda x, f, N: x + f(x),
        "the gate reads the sublayer's output": (
            lambda x, f, N: T(f(x)) * f(x) + (1 - T(f(x))) * x
        ),
    }


def list_first_resnet_slips(step: Any) -> Equations:
    """List what can go wrong with the rectifier and the norm of ResNet v1."""
    return {
        "the rectifier after the addition is missing": lambda x, f, N: x + N(f(x)),
        "the rectifier stands on the branch, before the addition": (
            lambda x, f, N: x + relu(N(f(x)))
        ),
        "the norm is missing": lambda x, f, N: relu(x + f(x)),
        "the rectifier stands before the norm": lambda x, f, N: relu(x + N(relu(f(x)))),
        "the norm stands after the addition": lambda x, f, N: relu(N(x + f(x))),
    }


def list_second_resnet_slips(step: Any) -> Equations:
    """List what can go wrong with the rectifier and the norm of ResNet v2."""
    return {
        "the rectifier is missing": lambda x, f, N: x + f(N(x)),
        "the norm is missing": lambda x, f, N: x + f(relu(x)),
        "the rectifier stands before the norm": lambda x, f, N: x + f(N(relu(x))),
        "the rectifier stands on what the sublayer writes": lambda x, f, N: x + relu(f(N(x))),
        "the stream is rectified after the addition": lambda x, f, N: relu(x + f(relu(N(x)))),
        "the skip is taken from the rectified copy": lambda x, f, N: relu(N(x)) + f(relu(N(x))),
    }


_SPECIAL: dict[Any, Callable[[Any], Slips | Equations]] = {
    DeepNorm: list_factor_slips,
    Keel: list_factor_slips,
    Admin: list_factor_slips,
    ResidualScale: list_factor_slips,
    LayerNormScaling: list_number_slips,
    BottomToTop: list_entry_slips,
    ResiDual: list_second_slips,
    SphereStep: list_sphere_slips,
    Highway: list_highway_slips,
    ResNetV1: list_first_resnet_slips,
    ResNetV2: list_second_resnet_slips,
}


def list_slips(step: Step) -> Slips:
    """List the slips of a step, first those that only it can have."""
    special = _SPECIAL[type(step)](step) if type(step) in _SPECIAL else []
    if isinstance(special, dict):
        special = [(why, partial(_follow_equation, equation=one)) for why, one in special.items()]
    alone = isinstance(step, SphereStep | Highway)
    return special if alone else special + list_general_slips(step)


# --- which block it is instead ---


def list_changes(subject: BlockSubject) -> Iterator[Change]:
    """Yield what may be wrong, the likeliest first: parts, slips in steps, other recipes."""
    if isinstance(subject, ModuleSubject):
        yield from list_part_changes(subject)
    steps, several = subject.steps, len(subject.steps) == 2
    each = [list_slips(step) for step in steps]
    if several and type(steps[0]) is type(steps[1]):
        for (why, one), (_, two) in zip(*each, strict=True):
            told = f"{why} (both halves: the recipe has {steps[0].equation})"
            yield Change(told, slips=(one, two))
    for i, step in enumerate(steps):
        for why, slip in each[i]:
            told = f"{why} ({subject.sides[i]}: the recipe has {step.equation})"
            yield Change(told, slips=(slip, None) if i == 0 else (None, slip))
    if isinstance(subject, FunctionSubject):
        yield from _list_other_steps(subject)


@cache
def _find_other_steps() -> dict[type[Step], str]:
    """Map the steps of all recipes that learn nothing of their own to the first such recipe."""
    kinds: dict[type[Step], str] = {}
    for name, row in RECIPES.items():
        for placed in filter(None, (row.block, row.first)):
            kinds.setdefault(placed.attention, name)
            kinds.setdefault(placed.feed_forward, name)
    learned = {k for k in kinds if [*k(nn.Identity, nn.Identity()).parameters()]}
    return {kind: name for kind, name in kinds.items() if kind not in learned}


def _list_other_steps(subject: FunctionSubject) -> Iterator[Change]:
    """Yield another recipe's step in the place of one, then both halves of other recipes."""
    known = _find_other_steps()
    for i, step in enumerate(subject.steps):
        own = [getattr(step, place) for place in step.norms]
        own = own if len(subject.steps) == 2 else subject.spare
        for kind, name in known.items():
            if len(kind.norms) <= len(own) and kind is not type(step):
                why = KINDS.get(kind, f"this is the step of the recipe {name!r}")
                told = f"{why} ({subject.sides[i]}: {kind.equation} instead of {step.equation})"
                steps = [*subject.steps]
                steps[i] = remake_step(step, kind, step.sublayer, own)
                yield Change(told, steps=steps)
    if len(subject.steps) < 2:
        return
    first, second = subject.steps
    recipes = {
        (placed.attention, placed.feed_forward): name
        for name, row in reversed(RECIPES.items())
        for placed in (row.first, row.block)
        if placed is not None
    }
    for one, two in product(KINDS, KINDS):
        if len(one.norms) + len(two.norms) != len(subject.norms):
            continue
        if one is two:
            why = f"{KINDS[one]}, in both halves"
        elif (one, two) in recipes:
            why = f"this is the placement of {recipes[one, two]!r}"
        else:
            why = "the norms stand in other places"
        told = f"{why} (attention: {one.equation} instead of {first.equation}; "
        told += f"feed-forward: {two.equation} instead of {second.equation})"
        left, right = subject.norms[: len(one.norms)], subject.norms[len(one.norms) :]
        attention = remake_step(first, one, first.sublayer, left)
        feed_forward = remake_step(second, two, second.sublayer, right)
        yield Change(told, steps=[attention, feed_forward])
    if len(subject.norms) == 2 and len(first.norms) == len(second.norms) == 1:
        told = "the norms stand in each other's places: they are handed in, in the block's order"
        pairs = zip(subject.steps, reversed(subject.norms), strict=True)
        steps = [remake_step(step, type(step), step.sublayer, [norm]) for step, norm in pairs]
        yield Change(told, steps=steps)
