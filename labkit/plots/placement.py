"""Placement diagrams: where the norms of one block sit on and beside the residual stream."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.patches import Circle, FancyBboxPatch

from .alt import count
from .figure import Figure
from .looks import look
from .style import INK, WIDTH, book, canvas


class Place(NamedTuple):
    """Where a recipe norms: before a sublayer, after it, on the stream, once at the end."""

    title: str
    equation: str
    before: bool
    after: bool
    stream: bool
    final: bool
    only_between: bool = False  # on the stream after attention only, not after the feed-forward
    inside: str = ""  # what attention norms inside


PLACES = {
    "post": Place(
        "Post-Norm", r"$x \leftarrow \mathrm{norm}(x + f(x))$", False, False, True, False
    ),
    "pre": Place("Pre-Norm", r"$x \leftarrow x + f(\mathrm{norm}(x))$", True, False, False, True),
    "sandwich": Place(
        "Sandwich",
        r"$x \leftarrow x + \mathrm{norm}(f(\mathrm{norm}(x)))$",
        True,
        True,
        False,
        True,
    ),
    "output": Place(
        "Output norm", r"$x \leftarrow x + \mathrm{norm}(f(x))$", False, True, False, True
    ),
    "hybrid": Place(
        "HybridNorm",
        r"$y = x + \mathrm{MHA}_{qkv}(x)$"
        "\n"
        r"$x \leftarrow \mathrm{norm}(y) + \mathrm{FFN}(\mathrm{norm}(y))$",
        False,
        False,
        True,
        True,
        only_between=True,
        inside="norms on q, k, v",
    ),
    "none": Place("No norm", r"$x \leftarrow x + f(x)$", False, False, False, False),
}
TALL, WIDE, STREAM, BRANCH, STEP = 0.54, 2.2, 0.0, 1.9, 0.85
NEXT = r"$x_{\ell+1}$"
MOST = 3  # more do not fit on a page


@book()
def placement_diagram(
    *recipes: str,
    caption: str = "One block, from below to above. The thick line is the residual stream: what "
    "stands on it, every later layer sees.",
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one block of each recipe, side by side: the stream, its branches, the norms."""
    for recipe in recipes:
        if recipe not in PLACES:
            raise ValueError(f"no diagram for {recipe!r}; choose among {', '.join(PLACES)}")
    if not 1 <= len(recipes) <= MOST:
        raise ValueError(
            f"one picture holds 1 to {MOST} recipes, got {len(recipes)}; "
            f"choose among {', '.join(PLACES)} or make two pictures"
        )
    picture = canvas(width=WIDTH if len(recipes) > 1 else WIDTH / 2)
    axes = picture.subplots(1, len(recipes), squeeze=False)[0]
    tops = [
        _block(ax, PLACES[recipe], look(recipe).colour)
        for ax, recipe in zip(axes, recipes, strict=True)
    ]
    # about 48 pixels a unit, so that words fit their boxes
    picture.set_figheight(0.6 + 0.44 * (max(tops) + 1.65))
    for ax, recipe in zip(axes, recipes, strict=True):
        ax.set_xlim(-1.5, 3.1)
        ax.set_ylim(-1.35, max(tops) + 0.3)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(
            PLACES[recipe].title, fontsize=11, fontweight="bold", color=look(recipe).colour
        )
        ax.text(0.5, -0.01, PLACES[recipe].equation, transform=ax.transAxes, ha="center", va="top")
    counts = [
        [p.before + p.after, int(p.stream), int(p.final)] for p in map(PLACES.get, recipes) if p
    ]
    alt = alt or f"Block diagrams of {count(len(recipes), 'recipe')}. " + " ".join(
        _say(PLACES[r]) for r in recipes
    )
    return Figure(picture, alt, caption, counts, provenance)


def _block(ax: Any, place: Place, colour: str) -> float:
    """Draw attention, then the feed-forward layer, each around the stream; give the top."""
    y, start = 0.0, -0.75
    ax.text(STREAM, start - 0.08, r"$x_\ell$", ha="center", va="top", fontsize=10.5)
    for sublayer in ("attention", "feed-forward"):
        fork = y
        parts = ["norm"] * place.before + [sublayer] + ["norm"] * place.after
        _line(ax, [(STREAM, fork), (BRANCH, fork)])
        y += 0.12
        below = fork
        for part in parts:
            y += STEP
            _arrow(ax, (BRANCH, below), (BRANCH, y - TALL / 2))
            _box(ax, BRANCH, y, part, colour)
            if part == "attention" and place.inside:
                ax.text(
                    BRANCH + 0.1, y + TALL / 2 + 0.04, place.inside, fontsize=7.5, color=colour,
                    va="bottom",
                )  # fmt: skip
            below = y + TALL / 2
        y += STEP * 0.8
        _line(ax, [(BRANCH, below), (BRANCH, y)])
        _arrow(ax, (BRANCH, y), (STREAM + 0.17, y))
        _stream(ax, start, y - 0.17)
        ax.add_patch(
            Circle((STREAM, y), 0.17, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=4)
        )
        ax.plot([STREAM], [y], "+", color=INK, markersize=7, zorder=5)
        start = y + 0.17
        if place.stream and not (place.only_between and sublayer == "feed-forward"):
            y += STEP
            start = _on_stream(ax, start, y, colour)
        y += 0.55
    if place.final:
        ax.text(
            STREAM - 0.28, y + 0.16, "after the\nlast block", fontsize=8.5, ha="right", va="center"
        )
        _stream(ax, start, y - 0.05, head=False)
        ax.plot([STREAM] * 3, [y + 0.06, y + 0.16, y + 0.26], "o", color=INK, markersize=1.8)
        ax.text(STREAM + 0.28, y + 0.16, NEXT, va="center", fontsize=10.5)
        y += 0.95
        start = _on_stream(ax, y - 0.6, y, colour)
        y += 0.4
    y += 0.35
    _stream(ax, start, y)
    if not place.final:
        ax.text(STREAM, y + 0.08, NEXT, ha="center", va="bottom", fontsize=10.5)
    return y + 0.2


def _on_stream(ax: Any, start: float, y: float, colour: str) -> float:
    _stream(ax, start, y - TALL / 2)
    _box(ax, STREAM, y, "norm", colour)
    return y + TALL / 2


def _box(ax: Any, x: float, y: float, text: str, colour: str) -> None:
    norm = text == "norm"
    wide = WIDE if not norm else 1.2
    ax.add_patch(
        FancyBboxPatch(
            (x - wide / 2, y - TALL / 2), wide, TALL, boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=colour if norm else "#eeeeee", edgecolor=colour if norm else "#7a7a7a",
            zorder=3,
        )
    )  # fmt: skip
    ax.text(
        x, y, text, ha="center", va="center", fontsize=9, color="white" if norm else INK, zorder=4
    )


def _stream(ax: Any, low: float, high: float, head: bool = True) -> None:
    style = "-|>,head_width=0.28,head_length=0.55" if head else "-"
    _arrow(ax, (STREAM, low), (STREAM, high), 2.6, style)


def _arrow(ax: Any, start: tuple, end: tuple, width: float = 1.2, style: str = "-|>") -> None:
    arrow = {"arrowstyle": style, "color": INK, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=arrow)


def _line(ax: Any, points: list[tuple[float, float]]) -> None:
    ax.plot(*zip(*points, strict=True), color=INK, linewidth=1.2, solid_capstyle="butt")


def _say(place: Place) -> str:
    spots = [
        word
        for there, word in (
            (place.before, "before each sublayer"),
            (place.after, "after each sublayer, inside its branch"),
            (bool(place.inside), "inside attention, on q, k and v"),
            (
                place.stream,
                "on the residual stream, after "
                + ("the first of 2 additions" if place.only_between else "each of 2 additions"),
            ),
            (place.final, "once more after the last block"),
        )
        if there
    ]
    return f"{place.title}: norms {' and '.join(spots)}." if spots else f"{place.title}: 0 norms."
