"""Lines over a setting: every seed's point, the mean of the seeds, its 95 % interval."""

from collections.abc import Mapping
from math import isfinite, nan
from typing import Any

import numpy as np
from matplotlib.transforms import ScaledTranslation

from .alt import describe_divergence, describe_trend, format_count, join_sentences
from .figure import Figure
from .labels import End
from .looks import Look, choose_looks
from .series import (
    check_series,
    finish_axes,
    mean_and_half,
    read_values,
    say_seeds,
    start_axes,
)
from .style import label_axes, use_book_style
from .ticks import place_ticks

Points = dict[Any, list[float]]  # setting -> one value per seed


@use_book_style()
def curves(
    series: Mapping[str, Mapping[Any, Any]],
    *,
    xlabel: str,
    ylabel: str,
    caption: str,
    logx: bool = False,
    logy: bool = False,
    title: str | None = None,
    reference: Mapping[str, float] | None = None,
    ylim: tuple[float, float] | None = None,
    alt: str | None = None,
    counted: bool = False,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw a quantity against a setting, one line per method, every seed's value visible.

    What is `counted` or computed has no seeds, and the caption does not speak of any.
    """
    table, xs = _read_series(series, logx)
    lost = any(not isfinite(y) for arm in table.values() for ys in arm.values() for y in ys)
    place = {x: float(i) if isinstance(x, str) else float(x) for i, x in enumerate(xs)}
    ax = start_axes(logx, logy)
    ends, parts = [], []
    for i, (name, style) in enumerate(choose_looks(table).items()):
        points = {place[x]: ys for x, ys in table[name].items()}
        dodge = (i - (len(table) - 1) / 2) * 2.2
        means = _draw_series(ax, points, style, dodge)
        _cross_diverged(ax, points, style, dodge * 1.5)
        alive = {x: mean for x, mean in zip(points, means, strict=True) if isfinite(mean)}
        height = list(alive.values())[-1] if alive else nan
        ends.append(End(name, height, style, reaches=place[xs[-1]] in alive))
        parts.append(
            describe_trend(name, list(table[name]), means) + describe_divergence(table[name])
        )
    place_ticks(ax, xs, logx)
    label_axes(ax, xlabel, ylabel, title)
    marks = finish_axes(ax, ends, reference, ylim, crossed=lost)

    counts = [len(ys) for points in table.values() for ys in points.values()]
    note = f"Points: {say_seeds(counts)}; lines: their mean; bars: its 95 % t interval."
    if max(counts) == 1:
        note = "One seed."
    if lost:
        note += " Crosses: diverged runs."
    head = f"Line plot of {ylabel} against {xlabel} for {format_count(len(table), 'series')}"
    data = [[place[x], *ys] for points in table.values() for x, ys in points.items()]
    text = join_sentences(head, parts, marks.drawn) + marks.note
    note = "" if counted else note
    return Figure(ax.figure, alt or text, caption, data, provenance, note + marks.note)


def _read_series(
    series: Mapping[str, Mapping[Any, Any]], logx: bool
) -> tuple[dict[str, Points], list]:
    """Put every series in the order of its settings; refuse what cannot be drawn."""
    check_series(series, "curves")
    for name, points in series.items():
        if not isinstance(points, Mapping):
            raise ValueError(
                f"curves needs a dict from a setting to its values for each name, {name!r} is a "
                f"{type(points).__name__}; write {{{name!r}: {{0.001: [2.1, 2.2], 0.003: [2.0]}}}}"
            )
    xs = list(dict.fromkeys(x for points in series.values() for x in points))
    named = any(isinstance(x, str) for x in xs)
    if not named:
        xs.sort()
    if logx and (named or xs[0] <= 0):
        raise ValueError(f"a logarithmic x axis needs positive numbers, got {xs[0]!r}")
    table = {
        name: {x: read_values(points[x]) for x in xs if x in points}
        for name, points in series.items()
    }
    for name, points in table.items():
        for x, ys in points.items():
            if not ys:
                raise ValueError(f"every setting needs a value, {name!r} has none at {x!r}")
    return table, xs


def _draw_series(ax: Any, points: Points, style: Look, dodge: float) -> list[float]:
    """Draw one series a few pixels aside, so that no interval hides another's; give its means."""
    to = ax.transData + ScaledTranslation(dodge / 72, 0, ax.figure.dpi_scale_trans)
    xs = list(points)
    means, halves = np.transpose([mean_and_half(ys) for ys in points.values()])
    run: dict[str, Any] = {"markersize": 4, "markeredgewidth": 0, "alpha": 0.5, "transform": to}
    for x, ys in points.items():
        if len(ys) > 1:
            ax.plot([x] * len(ys), ys, style.marker, color=style.colour, **run)
    low, high = means - halves, means + halves
    if ax.get_yscale() == "log":  # an interval that reaches below zero ends near the lowest run
        low = np.where(low > 0, low, [np.nanmin([*ys, np.inf]) / 2 for ys in points.values()])
    # The shifted lines do not count for the axes' limits: count their points by hand.
    spots = [(x, y) for x, ys in points.items() for y in ys]
    spots += [*zip(xs, low, strict=True), *zip(xs, high, strict=True)]
    ax.update_datalim([spot for spot in spots if isfinite(spot[1])])
    ax.autoscale_view()
    ax.vlines(xs, low, high, color=style.colour, linewidth=1.3, transform=to)
    ax.plot(xs, means, zorder=3, transform=to, **style.marked_line)
    return means.tolist()


def _cross_diverged(ax: Any, points: Points, style: Look, dodge: float) -> None:
    """Mark each setting at which a run diverged with a cross near the top of the axes."""
    xs = [x for x, ys in points.items() if not all(map(isfinite, ys))]
    aside = ScaledTranslation(dodge / 72, 0, ax.figure.dpi_scale_trans)
    to = ax.get_xaxis_transform() + aside
    cross: dict[str, Any] = {"markersize": 7, "markeredgewidth": 1.8, "zorder": 4}
    ax.plot(xs, [0.96] * len(xs), "x", color=style.colour, transform=to, **cross)
