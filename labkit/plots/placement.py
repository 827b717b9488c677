"""Placement diagrams: the positions of a block's norms on the residual stream and its branches."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.patches import Circle, FancyBboxPatch

from .alt import format_count
from .figure import Figure, redrawable
from .looks import choose_look
from .style import HAIR, INK, QUIET, is_narrow, make_canvas


class Place(NamedTuple):
    """The data of a recipe's diagram: its title, its equations, its slots, its final norm."""

    title: str
    equations: tuple[str, ...]
    slots: tuple[str, ...]  # of labkit.placements.slots
    last: bool  # once more after the last block


TALL, WIDE = 0.54, 2.2  # a box
STREAM, BRANCH = 0.0, 1.9  # where they run
STEP = 0.85  # from box to box
PLUS = 0.17  # the radius of an addition
LEFT, RIGHT, LOW = -1.5, 3.1, -1.35  # how far a drawing reaches
MOST = 3  # blocks in a picture
UNIT = 0.44  # inches: so much makes words fit their boxes
NEXT = r"$x_{\ell+1}$"
# Slots as words say them, both halves at once where both have the norm; and each half's alone.
SPOTS = (
    (("embedding",), "on the embedding", ""),
    (("attention-in", "feed-forward-in"), "before each sublayer", "before {half}"),
    (("attention-out", "feed-forward-out"), "on what each sublayer writes",
     "on what {half} writes"),
    (("middle", "end"), "on the residual stream, after each of 2 additions",
     "on the residual stream, after the {number} of 2 additions"),
)  # fmt: skip
HALVES = ("attention", "feed-forward")


@redrawable
def placement_diagram(
    *recipes: str,
    caption: str = "One block, from below to above. The thick line is the residual stream: what "
    "stands on it, every later layer sees.",
) -> Figure:
    """Draw one block of each recipe, side by side: the stream, its branches, the norms.

    Raises:
        ValueError: there are more than three recipes, or none, or one has norms outside the slots.
    """
    if not 1 <= len(recipes) <= MOST:
        raise ValueError(f"only one to three blocks fit side by side, got {len(recipes)}")
    places = [read_place(recipe) for recipe in recipes]
    picture = make_canvas()
    down = len(recipes) if is_narrow() else 1  # a phone has them one below the other
    axes = picture.subplots(down, len(recipes) // down, squeeze=False).flat
    top = draw_places(axes, recipes, places)
    picture.set_figheight(down * (0.6 + UNIT * (top + 1.65)))
    data = [[slot in place.slots for slots, *_ in SPOTS for slot in slots] for place in places]
    text = " ".join(
        [f"Block diagrams of {format_count(len(places), 'recipe')}.", *map(describe_place, places)]
    )
    return Figure(picture, text, caption, data)


def read_place(recipe: str) -> Place:
    """Read the data of a recipe's diagram from its row in RECIPES.

    Raises:
        ValueError: the recipe has no norms in slots, but is more than a plain stack.
    """
    from labkit.placements import RECIPES
    from labkit.placements.names import NAMES
    from labkit.placements.slots import is_placement, read_slots

    drawn = [name for name, row in RECIPES.items() if read_slots(row) or is_placement(row)]
    if recipe not in drawn:
        raise ValueError(f"there is no diagram for {recipe!r}; choose one of {', '.join(drawn)}")
    row = RECIPES[recipe]
    halves = row.block.attention.equation, row.block.feed_forward.equation
    alike = halves[0] == halves[1] and not row.block.heads
    equations = (f"x ← {halves[0]}",) if alike else row.equations
    return Place(NAMES.get(recipe, recipe), equations, read_slots(row), row.final_norm)


def draw_places(axes: Iterable[Any], recipes: Sequence[str], places: Sequence[Place]) -> float:
    """Draw a block on each of the axes, its name above, its equations below; return the top."""
    axes = list(axes)
    colours = [choose_look(recipe).colour for recipe in recipes]
    top = max(map(_draw_block, axes, places, colours))
    for ax, place, colour in zip(axes, places, colours, strict=True):
        ax.set_xlim(LEFT, RIGHT)
        ax.set_ylim(LOW, top + 0.3)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(place.title, fontsize=11, fontweight="bold", color=colour)
        equations = "\n".join(map(_typeset, place.equations))
        size = _size_formulas() if is_narrow() else None
        ax.text(0.5, -0.01, equations, transform=ax.transAxes, ha="center", va="top", size=size)
    return top


def describe_place(place: Place) -> str:
    """Describe the positions of a recipe's norms in words."""
    found = []
    if inside := [slot for slot in place.slots if slot in "qkvc"]:
        found.append(f"inside attention, on {_join_words(inside)}")
    for slots, both, one in SPOTS:
        here = [slot for slot in slots if slot in place.slots]
        if here == list(slots):
            found.append(both)
        elif here:
            i = slots.index(here[0])
            found.append(one.format(half=HALVES[i], number=("first", "second")[i]))
    if place.last:
        found.append("once more after the last block")
    return f"{place.title}: norms {' and '.join(found) or 'nowhere'}."


def _join_words(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _draw_block(ax: Any, place: Place, colour: str) -> float:
    """Draw attention, then the feed-forward layer, each around the stream; return the top."""
    y, start = 0.0, -0.75
    ax.text(STREAM, start - 0.08, r"$x_\ell$", ha="center", va="top", fontsize=_size_formulas())
    if "embedding" in place.slots:
        y = start + 0.6
        start = _on_stream(ax, start, y, colour)
        y += 0.55
    for half, after in zip(HALVES, ("middle", "end"), strict=True):
        below = y
        _draw_line(ax, (STREAM, y), (BRANCH, y))
        y += 0.12
        parts = [half]
        if f"{half}-in" in place.slots:
            parts.insert(0, "norm")
        if f"{half}-out" in place.slots:
            parts.append("norm")
        for part in parts:
            y += STEP
            _draw_arrow(ax, (BRANCH, below), (BRANCH, y - TALL / 2))
            _draw_box(ax, BRANCH, y, part, colour)
            below = y + TALL / 2
            if part == "attention" and (inside := [s for s in place.slots if s in "qkvc"]):
                words = {"fontsize": 8.5 if is_narrow() else 7.5, "color": colour, "va": "bottom"}
                many = "norms" if len(inside) > 1 else "norm"
                ax.text(BRANCH + 0.1, below + 0.04, f"{many} on {', '.join(inside)}", **words)
        y += STEP * 0.8
        _draw_line(ax, (BRANCH, below), (BRANCH, y))
        _draw_arrow(ax, (BRANCH, y), (STREAM + PLUS, y))
        _draw_stream(ax, start, y - PLUS)
        start = _draw_plus(ax, y)
        if after in place.slots:
            y += STEP
            start = _on_stream(ax, start, y, colour)
        y += 0.55
    if place.last:
        aside = {"fontsize": 8.5, "ha": "right", "va": "center"}
        ax.text(STREAM - 0.28, y + 0.16, "after the\nlast block", **aside)
        _draw_stream(ax, start, y - 0.05, head=False)
        ax.plot([STREAM] * 3, [y + 0.06, y + 0.16, y + 0.26], "o", color=INK, markersize=1.8)
        ax.text(STREAM + 0.28, y + 0.16, NEXT, va="center", fontsize=_size_formulas())
        y += 0.95
        start = _on_stream(ax, y - 0.6, y, colour)
        y += 0.4
    y += 0.35
    _draw_stream(ax, start, y)
    if not place.last:
        ax.text(STREAM, y + 0.08, NEXT, ha="center", va="bottom", fontsize=_size_formulas())
    return y + 0.2


def _size_formulas() -> float:
    """Return a formula's font size; it is larger on a phone, so that indices are readable."""
    return 12.2 if is_narrow() else 10.5


def _draw_plus(ax: Any, y: float) -> float:
    """Draw the addition of a branch to the stream; return the top."""
    circle = {"facecolor": "white", "edgecolor": INK, "linewidth": 1.2, "zorder": 4}
    ax.add_patch(Circle((STREAM, y), PLUS, **circle))
    ax.plot(STREAM, y, "+", color=INK, markersize=7, zorder=5)
    return y + PLUS


def _on_stream(ax: Any, start: float, y: float, colour: str) -> float:
    _draw_stream(ax, start, y - TALL / 2)
    _draw_box(ax, STREAM, y, "norm", colour)
    return y + TALL / 2


def _draw_box(ax: Any, x: float, y: float, text: str, colour: str) -> None:
    norm = text == "norm"
    wide = 1.2 if norm else WIDE
    face, edge, ink = (colour, colour, "white") if norm else (HAIR, QUIET, INK)
    style: dict[str, Any] = {"facecolor": face, "edgecolor": edge, "zorder": 3}
    corner = (x - wide / 2, y - TALL / 2)
    shape = "round,pad=0,rounding_size=0.1"
    ax.add_patch(FancyBboxPatch(corner, wide, TALL, boxstyle=shape, **style))
    ax.text(x, y, text, ha="center", va="center", fontsize=9, color=ink, zorder=4)


def _draw_stream(ax: Any, low: float, high: float, head: bool = True) -> None:
    style = "-|>,head_width=0.28,head_length=0.55" if head else "-"
    _draw_arrow(ax, (STREAM, low), (STREAM, high), 2.6, style)


def _draw_arrow(ax: Any, start: tuple, end: tuple, width: float = 1.2, style: str = "-|>") -> None:
    arrow = {"arrowstyle": style, "color": INK, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=arrow)


def _draw_line(ax: Any, start: tuple, end: tuple) -> None:
    ax.plot(*zip(start, end, strict=True), color=INK, linewidth=1.2, solid_capstyle="butt")


def _typeset(equation: str) -> str:
    """Convert a recipe's equation to matplotlib's TeX."""
    tex = re.sub(r"\b[A-Za-z]{2,}(?=\b|_)", lambda match: rf"\mathrm{{{match[0]}}}", equation)
    tex = re.sub(r"_([A-Z]+)", r"_{\1}", tex)
    for sign, command in (("←", r"\leftarrow"), ("′", "'"), (" * ", r"\cdot "), ("·", r"\cdot ")):
        tex = tex.replace(sign, command)
    tex = tex.replace("ℓ**0.5", r"\sqrt{\ell}").replace("√ℓ", r"\sqrt{\ell}")
    return f"${tex}$"
