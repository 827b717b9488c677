"""Depth: one value per layer, from the first layer to the last."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from .alt import count, sentences, trend
from .figure import Figure
from .labels import name_lines
from .stats import seeds_in
from .style import book, canvas, dress
from .traces import draw_runs, mean_run, read_runs, scale_up


@book()
def by_depth(
    series: Mapping[str, Sequence[Any]],
    *,
    ylabel: str,
    caption: str,
    xlabel: str | None = None,
    relative: bool = False,
    start: int = 1,
    logy: bool = False,
    title: str | None = None,
    reference: Mapping[str, float] | None = None,
    ylim: tuple[float, float] | None = None,
    alt: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw one value per layer; `relative` puts models of different depth on one axis."""
    arms = read_runs(series, "by_depth")
    picture = canvas()
    ax = picture.add_subplot()
    ends = draw_runs(ax, arms, start, relative, layers=True)
    if not relative:
        ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    marks = scale_up(ax, logy, ylim, reference)
    dress(
        ax,
        xlabel or ("relative depth: first layer 0, last layer 1" if relative else "layer"),
        ylabel,
        title,
    )
    name_lines(ax, ends + marks.ends)

    seeds = seeds_in(map(len, arms.values()))
    note = f"Thin lines: {seeds}; thick: their mean; band: its 95 % t interval."
    if seeds == "one seed":
        note = "One seed."
    head = f"Line plot of {ylabel} by layer for {count(len(arms), 'series')}"
    parts = []
    for name, arm in arms.items():
        mean = mean_run(arm)
        parts.append(trend(name, range(start, start + len(mean)), mean, link="at layer"))
    return Figure(
        picture,
        alt or sentences(head, parts, marks.drawn) + marks.note,
        caption and f"{caption} {note}{marks.note}",
        list(arms.values()),
        provenance,
    )
