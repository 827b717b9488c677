"""The block bench on paper: one block or two with their norms, and what their rates did to them."""

from collections.abc import Mapping
from math import isfinite, nan
from statistics import fmean
from typing import Any

from .alt import describe_divergence, describe_trend
from .axes import End, finish_axes, place_ticks
from .figure import Figure, redrawable
from .looks import choose_look
from .marks import TOP, Marks
from .placement import UNIT, Place, describe_place, draw_places, read_place
from .series import check_series, read_values, say_seeds
from .style import HAIR, is_narrow, label_axes, make_canvas

Tried = Mapping[float, Any]  # validation losses by rate, one a seed; None: the run diverged
BESIDE = (1, 1.35)  # how wide a block is, and the axes beside it
LEAST = 3.6  # inches: a picture
AXES = 2.3  # inches: how high the axes are below two blocks
ABOVE = 0.12  # nats: how far above the worst reference line the axis reaches


@redrawable
def block_bench(
    tried: Mapping[str, Tried],
    others: Mapping[str, Tried],
    *,
    reference: Mapping[str, float],
    caption: str,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw the blocks of one or two recipes, and their loss by rate before those of all others.

    A mean over seeds is a point; a rate at which a run diverged is a cross.

    Raises:
        ValueError: there are more than two recipes, or none, or one has no diagram.
    """
    check_series(tried, "block_bench")
    if len(tried) > 2:
        raise ValueError(f"one block or two are drawn, got {len(tried)}; leave some out")
    places = [read_place(recipe) for recipe in tried]
    picture = make_canvas()
    ax = _lay_out(picture, list(tried), places)
    ceiling = max(reference.values()) + ABOVE
    ax.set_xscale("log")
    for recipe in (name for name in others if name not in tried):
        rates, means = _average_seeds(others[recipe])
        ax.plot(rates, [min(mean, ceiling) for mean in means], color=HAIR, linewidth=1, zorder=1)
    marks = Marks("learning rate")
    ends, parts, data = [], [], []
    for recipe, place in zip(tried, places, strict=True):
        look, (rates, means) = choose_look(recipe), _average_seeds(tried[recipe])
        seeds: dict[float | str, list[float]] = {
            rate: read_values(tried[recipe][rate]) for rate in rates
        }
        spots = [*zip(rates, means, strict=True)]
        runs, loss = list(seeds.values()), "validation loss (nats)"
        key = marks.add(place.title, ax, loss, rates, runs, places=spots, arm=recipe)
        ax.plot(rates, means, zorder=3, gid=key, **look.marked_line)
        lost = [rate for rate, mean in zip(rates, means, strict=True) if not isfinite(mean)]
        cross: dict[str, Any] = {"markersize": 7, "markeredgewidth": 1.8, "zorder": 4}
        height = [TOP] * len(lost)
        cross["gid"] = key
        ax.plot(lost, height, "x", color=look.colour, transform=ax.get_xaxis_transform(), **cross)
        alive = [mean for mean in means if isfinite(mean)]
        ends.append(End(place.title, alive[-1] if alive else nan, look, not lost, key))
        parts.append(describe_trend(place.title, rates, means) + describe_divergence(seeds))
        data.append([[rate, *of] for rate, of in seeds.items()])
    place_ticks(ax, sorted({rate for of in tried.values() for rate in of}), log=True)
    if len(tried) == 1:
        ax.tick_params(axis="x", labelrotation=45)
    else:
        ax.tick_params(axis="x", labelsize=8.5)
    label_axes(ax, "learning rate", "validation loss (nats)")
    low = min(mean for of in [*tried.values(), *others.values()] for mean in _average_seeds(of)[1])
    lines = finish_axes(ax, ends, reference, (low - ABOVE, ceiling + ABOVE))
    counts = [len(of) for row in data for _, *of in row]
    words = " ".join(map(describe_place, places))
    text = f"{words} Line plot of validation loss against learning rate: {'; '.join(parts)}."
    note = f"Points: the mean of {say_seeds(counts)}; grey: the other recipes of the ladder."
    said = text + lines.note
    return Figure(picture, said, caption, data, provenance, note + lines.note, marks)


def _lay_out(picture: Any, recipes: list[str], places: list[Place]) -> Any:
    """Draw the blocks, one beside the axes, two above them; give the axes."""
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


def _average_seeds(tried: Tried) -> tuple[list[float], list[float]]:
    """List the rates and the mean loss at each; it is no number where a run diverged."""
    rates = sorted(tried)
    return rates, [fmean(read_values(tried[rate])) for rate in rates]
