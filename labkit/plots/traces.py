"""Traces: one line per run, thin, and the mean of an arm's runs, thick."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Any

import numpy as np

from .labels import End
from .looks import looks
from .reference import Marks, mark
from .stats import mean_and_half, need, runs
from .ticks import log_ticks

Rows = list[list[float]]  # one list of values per seed


def read_runs(series: Mapping[str, Sequence[Any]], what: str) -> dict[str, Rows]:
    """Read one list per seed and arm; a single list is a single seed."""
    need(series, what)
    arms = {name: runs(values) for name, values in series.items()}
    for name, arm in arms.items():
        if not all(arm):
            raise ValueError(f"every run of {what} needs values, {name!r} holds an empty one")
    return arms


def mean_run(arm: Rows) -> list[float]:
    """Average the seeds for as long as all of them last."""
    length = min(len(row) for row in arm)
    return np.mean([row[:length] for row in arm], axis=0).tolist()


def draw_runs(
    ax: Any, arms: Mapping[str, Rows], start: int = 1, relative: bool = False, layers: bool = False
) -> list[End]:
    """Draw every arm; give where each line ends. Layers get markers and an interval's band."""
    ends = []
    far = 1.0 if relative else max(len(row) for arm in arms.values() for row in arm) - 1.0 + start
    for name, style in looks(arms).items():
        arm, mean = arms[name], mean_run(arms[name]) if all(arms[name]) else []
        scale = max(1, max(map(len, arm)) - 1) if relative else 1
        first = 0 if relative else start
        for row in arm if len(arm) > 1 else []:
            xs = [first + i / scale for i in range(len(row))]
            ax.plot(xs, row, color=style.colour, linewidth=0.6, alpha=0.45)
        xs = [first + i / scale for i in range(len(mean))]
        if layers and len(arm) > 1:
            halves = [mean_and_half(ys)[1] for ys in zip(*arm, strict=False)]
            low, high = np.subtract(mean, halves), np.add(mean, halves)
            ax.fill_between(xs, low, high, color=style.colour, alpha=0.13, linewidth=0)
        every = max(1, round(len(mean) / 12))
        ax.plot(
            xs, mean, color=style.colour, linestyle=style.line, linewidth=1.8, zorder=3,
            marker=style.marker if layers else "", markevery=every,
            markersize=style.size, markeredgecolor="white", markeredgewidth=0.5,
        )  # fmt: skip
        alive = [y for y in mean if isfinite(y)]
        reaches = bool(xs) and len(alive) == len(mean) and xs[-1] > 0.97 * far
        ends.append(End(name, alive[-1] if alive else nan, style, reaches))
    return ends


def scale_up(
    ax: Any,
    logy: bool,
    ylim: tuple[float, float] | None,
    reference: Mapping[str, float] | None = None,
) -> Marks:
    """Set the y axis after drawing, and draw the reference lines."""
    if logy:
        ax.set_yscale("log", nonpositive="mask")
    marks = mark(ax, reference, ylim)
    if ylim:
        ax.set_ylim(*ylim)
    if logy:
        log_ticks(ax)
    return marks
