"""The block explorer in print: one or two blocks with their norms, and their losses by rate."""

from collections.abc import Mapping
from math import isfinite, nan
from statistics import fmean
from typing import Any

from .alt import describe_divergence, describe_trend
from .axes import End, finish_axes, place_ticks
from .figure import Figure, redrawable
from .lines import cross_diverged
from .looks import choose_look
from .marks import Marks
from .placement import UNIT, Place, describe_place, draw_places, read_place
from .series import check_series, read_values, say_seeds
from .style import HAIR, is_narrow, label_axes, make_canvas

BESIDE = (1, 1.35)  # how wide a block is, and the axes beside it
LEAST = 3.6  # inches: a picture
AXES = 2.3  # inches: how high the axes are below two blocks
ABOVE = 0.12  # nats: how far above the worst reference line the axis reaches
QUANTITY = "validation loss (nats)"


@redrawable
def block_explorer(
    tried: Mapping[str, Mapping[float, Any]],
    others: Mapping[str, Mapping[float, Any]],
    *,
    reference: Mapping[str, float],
    caption: str,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw the blocks of one or two recipes, and their losses by rate in front of all others.

    `tried` and `others` map recipe -> rate -> losses, one per seed, None if the run diverged. A
    mean over seeds is a point; a rate at which a run diverged is a cross.

    Raises:
        ValueError: there are more than two recipes, or none, or one has no diagram.
    """
    check_series(tried, "block_explorer")
    if len(tried) > 2:
        raise ValueError(
            f"explorer can draw only one or two blocks, got {len(tried)}; leave some out"
        )
    places = [read_place(recipe) for recipe in tried]
    runs = {
        recipe: {rate: read_values(losses) for rate, losses in sorted(of.items())}
        for recipe, of in {**tried, **others}.items()
    }
    means = {recipe: [*map(fmean, of.values())] for recipe, of in runs.items()}
    picture = make_canvas()
    ax = _lay_out(picture, list(tried), places)
    ceiling = max(reference.values()) + ABOVE
    ax.set_xscale("log")
    for recipe in (name for name in others if name not in tried):
        heights = [min(mean, ceiling) for mean in means[recipe]]
        ax.plot([*runs[recipe]], heights, color=HAIR, linewidth=1, zorder=1)
    marks = Marks("learning rate")
    ends, parts = [], []
    for recipe, place in zip(tried, places, strict=True):
        look, points, heights = choose_look(recipe), runs[recipe], means[recipe]
        rates, spots = [*points], [*zip(points, heights, strict=True)]
        key = marks.add(
            place.title, ax, QUANTITY, rates, [*points.values()], places=spots, arm=recipe
        )
        ax.plot(rates, heights, zorder=3, gid=key, **look.marked_line)
        cross_diverged(ax, points, look, 0, key)
        alive = [mean for mean in heights if isfinite(mean)]
        last = alive[-1] if alive else nan
        ends.append(End(place.title, last, look, len(alive) == len(heights), key))
        parts.append(describe_trend(place.title, rates, heights) + describe_divergence(points))
    place_ticks(ax, sorted({rate for of in tried.values() for rate in of}), log=True)
    if len(tried) == 1:
        ax.tick_params(axis="x", labelrotation=45)
    else:
        ax.tick_params(axis="x", labelsize=8.5)
    label_axes(ax, "learning rate", QUANTITY)
    low = min(mean for heights in means.values() for mean in heights)
    lines = finish_axes(ax, ends, reference, (low - ABOVE, ceiling + ABOVE))
    data = [[[rate, *losses] for rate, losses in runs[recipe].items()] for recipe in tried]
    counts = [len(losses) for recipe in tried for losses in runs[recipe].values()]
    words = " ".join(map(describe_place, places))
    text = f"{words} Line plot of validation loss against learning rate: {'; '.join(parts)}."
    note = f"Points: the mean of {say_seeds(counts)}; grey: the other recipes of the ladder."
    said = text + lines.note
    return Figure(picture, said, caption, data, provenance, note + lines.note, marks)


def _lay_out(picture: Any, recipes: list[str], places: list[Place]) -> Any:
    """Draw one block next to the axes, or two above them; return the axes."""
    one = len(recipes) == 1 and not is_narrow()
    grid = (
        picture.add_gridspec(1, 2, width_ratios=BESIDE)
        if one
        else picture.add_gridspec(2, len(recipes))
    )
    blocks = [picture.add_subplot(grid[0, i]) for i in range(len(recipes))]
    high = 0.6 + UNIT * (draw_places(blocks, recipes, places) + 1.65)
    if one:
        picture.set_figheight(max(high, LEAST))
        return picture.add_subplot(grid[0, 1])
    grid.set_height_ratios([high, AXES])
    picture.set_figheight(high + AXES)
    return picture.add_subplot(grid[1, :])
