"""Placement diagrams: where the norms of one block sit on and beside the residual stream."""

from typing import Any, NamedTuple

from matplotlib.patches import Circle, FancyBboxPatch

from .alt import format_count
from .figure import Figure
from .looks import choose_look
from .style import HAIR, INK, QUIET, make_canvas, use_book_style


class Place(NamedTuple):
    """Where a recipe norms: before a sublayer, on the stream, once at the end."""

    title: str
    equation: str
    before: bool = False
    stream: int = 0  # after how many of the two additions
    final: bool = False
    inside: str = ""  # what attention norms inside


PLACES = {
    "post": Place("Post-Norm", r"$x \leftarrow \mathrm{norm}(x + f(x))$", stream=2),
    "pre": Place("Pre-Norm", r"$x \leftarrow x + f(\mathrm{norm}(x))$", before=True, final=True),
    "hybrid": Place(
        "HybridNorm",
        r"$y = x + \mathrm{MHA}_{qkv}(x)$"
        "\n"
        r"$x \leftarrow \mathrm{norm}(y) + \mathrm{FFN}(\mathrm{norm}(y))$",
        stream=1,
        final=True,
        inside="norms on q, k, v",
    ),
}
TALL, WIDE = 0.54, 2.2  # a box
STREAM, BRANCH = 0.0, 1.9  # where they run
STEP = 0.85  # from box to box
PLUS = 0.17  # the radius of an addition
NEXT = r"$x_{\ell+1}$"


@use_book_style()
def placement_diagram(
    *recipes: str,
    caption: str = "One block, from below to above. The thick line is the residual stream: what "
    "stands on it, every later layer sees.",
) -> Figure:
    """Draw one block of each recipe, side by side: the stream, its branches, the norms."""
    for recipe in recipes:
        if recipe not in PLACES:
            raise ValueError(f"no diagram for {recipe!r}; choose among {', '.join(PLACES)}")
    picture = make_canvas()
    axes = picture.subplots(1, len(recipes), squeeze=False)[0]
    places = [PLACES[recipe] for recipe in recipes]
    colours = [choose_look(recipe).colour for recipe in recipes]
    top = max(map(_draw_block, axes, places, colours))
    # about 48 pixels a unit, so that words fit their boxes
    picture.set_figheight(0.6 + 0.44 * (top + 1.65))
    for ax, place, colour in zip(axes, places, colours, strict=True):
        ax.set_xlim(-1.5, 3.1)
        ax.set_ylim(-1.35, top + 0.3)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(place.title, fontsize=11, fontweight="bold", color=colour)
        ax.text(0.5, -0.01, place.equation, transform=ax.transAxes, ha="center", va="top")
    data = [[place.before, place.stream > 0, place.final] for place in places]
    text = " ".join(
        [f"Block diagrams of {format_count(len(places), 'recipe')}.", *map(_describe_place, places)]
    )
    return Figure(picture, text, caption, data)


def _draw_block(ax: Any, place: Place, colour: str) -> float:
    """Draw attention, then the feed-forward layer, each around the stream; give the top."""
    y, start = 0.0, -0.75
    ax.text(STREAM, start - 0.08, r"$x_\ell$", ha="center", va="top", fontsize=10.5)
    for i, sublayer in enumerate(("attention", "feed-forward")):
        below = y
        _draw_line(ax, (STREAM, y), (BRANCH, y))
        y += 0.12
        for part in ["norm"] * place.before + [sublayer]:
            y += STEP
            _draw_arrow(ax, (BRANCH, below), (BRANCH, y - TALL / 2))
            _draw_box(ax, BRANCH, y, part, colour)
            below = y + TALL / 2
            if part == "attention":
                words = {"fontsize": 7.5, "color": colour, "va": "bottom"}
                ax.text(BRANCH + 0.1, below + 0.04, place.inside, **words)
        y += STEP * 0.8
        _draw_line(ax, (BRANCH, below), (BRANCH, y))
        _draw_arrow(ax, (BRANCH, y), (STREAM + PLUS, y))
        _draw_stream(ax, start, y - PLUS)
        start = _draw_plus(ax, y)
        if i < place.stream:
            y += STEP
            start = _on_stream(ax, start, y, colour)
        y += 0.55
    if place.final:
        aside = {"fontsize": 8.5, "ha": "right", "va": "center"}
        ax.text(STREAM - 0.28, y + 0.16, "after the\nlast block", **aside)
        _draw_stream(ax, start, y - 0.05, head=False)
        ax.plot([STREAM] * 3, [y + 0.06, y + 0.16, y + 0.26], "o", color=INK, markersize=1.8)
        ax.text(STREAM + 0.28, y + 0.16, NEXT, va="center", fontsize=10.5)
        y += 0.95
        start = _on_stream(ax, y - 0.6, y, colour)
        y += 0.4
    y += 0.35
    _draw_stream(ax, start, y)
    if not place.final:
        ax.text(STREAM, y + 0.08, NEXT, ha="center", va="bottom", fontsize=10.5)
    return y + 0.2


def _draw_plus(ax: Any, y: float) -> float:
    """Draw where a branch is added to the stream; give the top."""
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


def _describe_place(place: Place) -> str:
    additions = "the first of 2 additions" if place.stream == 1 else "each of 2 additions"
    spots = {
        "before each sublayer": place.before,
        "inside attention, on q, k and v": place.inside,
        f"on the residual stream, after {additions}": place.stream,
        "once more after the last block": place.final,
    }
    there = " and ".join(spot for spot, holds in spots.items() if holds)
    return f"{place.title}: norms {there}."
