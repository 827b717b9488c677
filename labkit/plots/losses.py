"""Loss curves: every run step by step, and where it diverged."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from .alt import sentences, trend
from .figure import MOST_NUMBERS, Figure
from .labels import name_lines
from .looks import looks
from .stats import running_mean, seeds_in
from .style import book, canvas, dress
from .ticks import log_ticks
from .traces import Rows, draw_runs, mean_run, read_runs, scale_up

Stops = list[int | None]  # the step at which each run diverged


@book()
def loss_curves(
    series: Mapping[str, Sequence[Any]],
    *,
    caption: str,
    ylabel: str = "training loss (nats per token)",
    xlabel: str = "step",
    diverged: Mapping[str, Sequence[int | None]] | None = None,
    smooth: int | None = None,
    logx: bool = False,
    logy: bool = False,
    title: str | None = None,
    reference: Mapping[str, float] | None = None,
    ylim: tuple[float, float] | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw each run's loss by step, smoothed; a cross ends a run that diverged."""
    arms = read_runs(series, "loss_curves")
    longest = max(len(row) for arm in arms.values() for row in arm)
    window = smooth or max(1, longest // 40)
    stops = {name: _stops(name, arm, diverged, longest) for name, arm in arms.items()}
    drawn = {
        name: [_smooth(row, stop, window) for row, stop in zip(arm, stops[name], strict=True)]
        for name, arm in arms.items()
    }

    picture = canvas()
    ax = picture.add_subplot()
    if logx:
        ax.set_xscale("log")
    ends = draw_runs(ax, drawn)
    for name, style in looks(drawn).items():
        for row, stop in zip(drawn[name], stops[name], strict=True):
            if stop is not None:
                ax.plot(
                    max(len(row), 1), row[-1] if row else np.nan, "x", color=style.colour,
                    markersize=8, markeredgewidth=2, zorder=5,
                )  # fmt: skip
    marks = scale_up(ax, logy, ylim, reference)
    if logx:
        log_ticks(ax, "x")
    dress(ax, xlabel, ylabel, title)
    name_lines(ax, ends + marks.ends, markers=False)

    seeds = seeds_in(map(len, arms.values()))
    note = "One seed." if seeds == "one seed" else f"Thin lines: {seeds}; thick: their mean."
    if window > 1:
        note += f" Each value is the mean of the last {window} steps."
    if any(stop is not None for arm in stops.values() for stop in arm):
        note += " A cross ends a run that diverged."
    parts = [_sentence(name, drawn[name], stops[name]) for name in drawn]
    share = max(1, MOST_NUMBERS // sum(map(len, arms.values())))
    return Figure(
        picture,
        alt
        or sentences(f"Line plot of {ylabel} against {xlabel}", parts, marks.drawn) + marks.note,
        caption and f"{caption} {note}{marks.note}",
        [_some(row, share) for arm in drawn.values() for row in arm],
        provenance,
    )


def _stops(name: str, arm: Rows, diverged: Any, longest: int) -> Stops:
    """Find each run's divergence: as told, or where its losses end early or stop being numbers."""
    bad = [next((i for i, y in enumerate(row) if not isfinite(y)), None) for row in arm]
    if diverged is None:
        short = [len(row) if len(row) < longest else None for row in arm]
        return [s if b is None else b for b, s in zip(bad, short, strict=True)]
    told = list(diverged.get(name, [None] * len(arm)))
    if len(told) != len(arm):
        raise ValueError(
            f"diverged needs a step or None for each run, {name!r} has {len(arm)} runs and "
            f"{len(told)} entries"
        )
    return [t if b is None else b for b, t in zip(bad, told, strict=True)]


def _smooth(row: list[float], stop: int | None, window: int) -> list[float]:
    return running_mean(row[:stop], window).tolist()


def _sentence(name: str, rows: Rows, stops: Stops) -> str:
    lost = [stop for stop in stops if stop is not None]
    mean = mean_run(rows)
    text = trend(name, range(1, len(mean) + 1), mean, link="at step")
    if lost:
        text += f" ({len(lost)} of {len(rows)} runs diverged, the first at step {min(lost)})"
    return text


def _some(row: list[float], share: int) -> list[float]:
    """Take a fair share of a run's values, the last one always among them."""
    if len(row) <= share:
        return row
    return [row[i] for i in np.linspace(len(row) - 1, 0, share).round().astype(int)[::-1]]
