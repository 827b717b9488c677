"""Lines over a setting, by step or by layer; every run is visible next to the mean of all."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from .alt import describe_divergence, describe_trend, format_count, join_sentences
from .axes import End, finish_axes, log_ticks, place_ticks, start_axes
from .figure import MOST_NUMBERS, Figure, redrawable
from .looks import Look, choose_looks
from .marks import TOP, Marks
from .series import (
    Rows,
    check_series,
    mean_and_half,
    read_runs,
    read_values,
    say_interval,
    say_seeds,
)
from .style import label_axes

Points = dict[Any, list[float]]  # setting -> one value per seed
Stops = list[int | None]  # the step at which each run diverged


@redrawable
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
    counted: bool = False,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw a quantity against a setting, one line per method, with every seed's value visible.

    `counted` or computed values have no seeds, so the caption does not mention seeds.
    """
    table, xs = _read_series(series, logx)
    lost = any(not isfinite(y) for arm in table.values() for ys in arm.values() for y in ys)
    place = {x: float(i) if isinstance(x, str) else float(x) for i, x in enumerate(xs)}
    ax = start_axes(logx, logy)
    marks = Marks(xlabel, runs="values" if counted else "seeds")
    ends, parts = [], []
    for i, (name, style) in enumerate(choose_looks(table).items()):
        points = {place[x]: ys for x, ys in table[name].items()}
        dodge = (i - (len(table) - 1) / 2) * 2.2
        means = [mean_and_half(ys)[0] for ys in points.values()]
        places = [*zip(points, means, strict=True)]
        settings, runs = list(table[name]), list(points.values())
        key = marks.add(name, ax, ylabel, settings, runs, places=places, shift=dodge)
        _draw_series(ax, points, style, dodge, key)
        cross_diverged(ax, points, style, dodge * 1.5, key)
        alive = {x: mean for x, mean in zip(points, means, strict=True) if isfinite(mean)}
        height = list(alive.values())[-1] if alive else nan
        ends.append(End(name, height, style, reaches=place[xs[-1]] in alive, key=key))
        parts.append(
            describe_trend(name, list(table[name]), means) + describe_divergence(table[name])
        )
    place_ticks(ax, xs, logx)
    label_axes(ax, xlabel, ylabel, title)
    lines = finish_axes(ax, ends, reference, ylim, crossed=lost)

    counts = [len(ys) for points in table.values() for ys in points.values()]
    bars = say_interval(ys for points in table.values() for ys in points.values())
    note = f"Points: {say_seeds(counts)}; lines: their mean; bars: its {bars}."
    if max(counts) == 1:
        note = "One seed."
    if lost:
        note += " Thin crosses at the top: diverged runs."
    head = f"Line plot of {ylabel} against {xlabel} for {format_count(len(table), 'series')}"
    data = [[place[x], *ys] for points in table.values() for x, ys in points.items()]
    text = join_sentences(head, parts, lines.drawn) + lines.note
    note = "" if counted else note
    return Figure(ax.figure, text, caption, data, provenance, note + lines.note, marks)


@redrawable
def loss_curves(
    series: Mapping[str, Sequence[Any]],
    *,
    caption: str,
    ylabel: str = "training loss (nats per token)",
    smooth: int | None = None,
    logx: bool = False,
    reference: Mapping[str, float] | None = None,
    ylim: tuple[float, float] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw each run's loss by step, smoothed; a cross marks the end of a diverged run.

    A run has diverged if its losses end before the others' or stop being numbers.
    """
    arms = read_runs(series, "loss_curves")
    longest = max(len(row) for arm in arms.values() for row in arm)
    window = smooth or max(1, longest // 40)
    stops = {name: [_find_stop(row, longest) for row in rows] for name, rows in arms.items()}
    drawn = {
        name: [running_mean(row[:end], window) for row, end in zip(rows, stops[name], strict=True)]
        for name, rows in arms.items()
    }
    far = max(len(row) for rows in drawn.values() for row in rows)
    ax = start_axes(logx)
    marks = Marks("step")
    ends, parts = [], []
    for name, style in choose_looks(drawn).items():
        rows = drawn[name]
        mean = mean_run(rows)
        key = _mark_rows(marks, name, ax, ylabel, range(1, far + 1), rows)
        ends.append(_draw_arm(ax, name, style, range(1, far + 1), rows, key))
        _cross_ends(ax, style, rows, stops[name], key)
        steps = range(1, len(mean) + 1)
        parts.append(describe_trend(name, steps, mean, link="at step") + _say_stops(stops[name]))
    if logx:
        log_ticks(ax, "x")
    label_axes(ax, "step", ylabel)
    lines = finish_axes(ax, ends, reference, ylim, markers=False)

    seeds = say_seeds(map(len, arms.values()))
    note = "One seed." if seeds == "one seed" else f"Thin lines: {seeds}; thick: their mean."
    if window > 1:
        note += f" Each value is the mean of the last {window} steps."
    if any(stop is not None for arm in stops.values() for stop in arm):
        note += " A cross ends a run that diverged."
    share = max(1, MOST_NUMBERS // sum(map(len, arms.values())))
    data = [_thin_row(row, share) for rows in drawn.values() for row in rows]
    text = join_sentences(f"Line plot of {ylabel} against step", parts, lines.drawn) + lines.note
    return Figure(ax.figure, text, caption, data, provenance, note + lines.note, marks)


@redrawable
def by_depth(
    series: Mapping[str, Sequence[Any]],
    *,
    ylabel: str,
    caption: str,
    xlabel: str = "layer",
    start: int = 1,
    logy: bool = False,
    reference: Mapping[str, float] | None = None,
    ylim: tuple[float, float] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one value per layer."""
    arms = read_runs(series, "by_depth")
    ax = start_axes(logy=logy)
    marks = Marks(xlabel)
    unit = xlabel.split(" (")[0]
    ends, parts = [], []
    xs = range(start, start + max(len(row) for arm in arms.values() for row in arm))
    for name, style in choose_looks(arms).items():
        rows = arms[name]
        key = _mark_rows(marks, name, ax, ylabel, xs, rows)
        ends.append(_draw_arm(ax, name, style, xs, rows, key, by_layer=True))
        mean = mean_run(rows)
        parts.append(describe_trend(name, range(start, start + len(mean)), mean, link=f"at {unit}"))
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    label_axes(ax, xlabel, ylabel)
    lines = finish_axes(ax, ends, reference, ylim)

    seeds = say_seeds(map(len, arms.values()))
    note = f"Thin lines: {seeds}; thick: their mean; band: its 95 % t interval."
    if seeds == "one seed":
        note = "One seed."
    head = f"Line plot of {ylabel} by {unit} for {format_count(len(arms), 'series')}"
    text = join_sentences(head, parts, lines.drawn) + lines.note
    data = list(arms.values())
    return Figure(ax.figure, text, caption, data, provenance, note + lines.note, marks)


def mean_run(rows: Rows) -> list[float]:
    """Average the seeds up to the end of the shortest run."""
    length = min(map(len, rows))
    return np.mean([row[:length] for row in rows], axis=0).tolist()


def running_mean(losses: Sequence[float], window: int) -> list[float]:
    """Average each step with the steps before it, at most `window` of them."""
    total = np.cumsum(np.concatenate([[0.0], np.asarray(losses, dtype=float)]))
    end = np.arange(1, len(total))
    start = np.maximum(end - window, 0)
    return ((total[end] - total[start]) / (end - start)).tolist()


def _read_series(
    series: Mapping[str, Mapping[Any, Any]], logx: bool
) -> tuple[dict[str, Points], list]:
    """Sort every series by its settings; refuse values that cannot be drawn."""
    check_series(series, "curves")
    for name, points in series.items():
        if not isinstance(points, Mapping):
            raise ValueError(
                f"curves needs, for each name, a dict from a setting to its values, but {name!r} "
                f"is a {type(points).__name__}; write "
                f"{{{name!r}: {{0.001: [2.1, 2.2], 0.003: [2.0]}}}}"
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
                raise ValueError(
                    f"every setting needs at least one value, but {name!r} has none at {x!r}"
                )
    return table, xs


def _draw_series(ax: Any, points: Points, style: Look, dodge: float, key: str) -> None:
    """Draw one series, shifted by a few pixels so that no interval hides another."""
    to = ax.transData + ScaledTranslation(dodge / 72, 0, ax.figure.dpi_scale_trans)
    xs = list(points)
    means, halves = np.transpose([mean_and_half(ys) for ys in points.values()])
    run: dict[str, Any] = {"markersize": 4, "markeredgewidth": 0, "alpha": 0.5, "transform": to}
    run["gid"] = key
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
    if (low < high).any():
        ax.vlines(xs, low, high, color=style.colour, linewidth=1.3, transform=to, gid=key)
    ax.plot(xs, means, zorder=3, transform=to, gid=key, **style.marked_line)


def cross_diverged(ax: Any, points: Points, style: Look, dodge: float, key: str) -> None:
    """Mark each setting at which a run diverged with a cross near the top of the axes."""
    xs = [x for x, ys in points.items() if not all(map(isfinite, ys))]
    aside = ScaledTranslation(dodge / 72, 0, ax.figure.dpi_scale_trans)
    to = ax.get_xaxis_transform() + aside
    cross: dict[str, Any] = {"markersize": 7, "markeredgewidth": 1.8, "zorder": 4, "gid": key}
    ax.plot(xs, [TOP] * len(xs), "x", color=style.colour, transform=to, **cross)


def _mark_rows(
    marks: Marks, name: str, ax: Any, quantity: str, places: Sequence[float], rows: Rows
) -> str:
    """Add an arm's values, of all its runs at each place; its line ends with the first run."""
    runs = [[row[i] for row in rows if i < len(row)] for i in range(max(map(len, rows)))]
    return marks.add(name, ax, quantity, [*places[: len(runs)]], runs)


def _draw_arm(
    ax: Any,
    name: str,
    style: Look,
    places: Sequence[float],
    rows: Rows,
    key: str,
    by_layer: bool = False,
) -> End:
    """Draw one arm; return the end of its line. Layers get markers and a band for the interval.

    `places` are those of a run's values, up to the end of the axis.
    """
    if len(rows) > 1:
        for row in rows:
            thin = {"color": style.colour, "linewidth": 0.6, "alpha": 0.45, "gid": key}
            ax.plot(places[: len(row)], row, **thin)
    mean = mean_run(rows)
    xs = places[: len(mean)]
    if by_layer and len(rows) > 1:
        halves = [mean_and_half(ys)[1] for ys in zip(*rows, strict=False)]
        low, high = np.subtract(mean, halves), np.add(mean, halves)
        ax.fill_between(xs, low, high, color=style.colour, alpha=0.13, linewidth=0, gid=key)
    how = {**style.marked_line, "gid": key, "marker": style.marker if by_layer else ""}
    ax.plot(xs, mean, linewidth=1.8, zorder=3, markevery=max(1, round(len(mean) / 12)), **how)
    alive = [y for y in mean if isfinite(y)]
    reaches = bool(mean) and len(alive) == len(mean) and xs[-1] > 0.97 * places[-1]
    return End(name, alive[-1] if alive else nan, style, reaches, key)


def _cross_ends(ax: Any, style: Look, rows: Rows, stops: Stops, key: str) -> None:
    """Mark the last value of each diverged run with a cross."""
    for row, stop in zip(rows, stops, strict=True):
        if stop is not None:
            spot = (len(row), row[-1]) if row else (1, nan)
            cross = {"markersize": 8, "markeredgewidth": 2, "zorder": 5, "gid": key}
            ax.plot(*spot, "x", color=style.colour, **cross)


def _find_stop(row: list[float], longest: int) -> int | None:
    """Return the step at which a run diverged: it ends early or stops being a number."""
    early = len(row) if len(row) < longest else None
    return next((i for i, y in enumerate(row) if not isfinite(y)), early)


def _say_stops(stops: Stops) -> str:
    lost = [stop for stop in stops if stop is not None]
    if not lost:
        return ""
    return f" ({len(lost)} of {len(stops)} runs diverged, the first at step {min(lost)})"


def _thin_row(row: list[float], share: int) -> list[float]:
    """Return a sample of a run's values that always includes the last one."""
    if len(row) <= share:
        return row
    return [row[i] for i in np.linspace(len(row) - 1, 0, share).round().astype(int)[::-1]]
