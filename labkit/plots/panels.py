"""Panels: several quantities of the same runs, one below the other on one x axis."""

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any

from .alt import describe_trend, format_count, join_sentences
from .axes import finish_axes
from .figure import Figure, redrawable
from .lines import End
from .looks import Look, choose_looks
from .marks import Marks
from .series import check_series, say_seeds
from .style import label_axes, make_canvas

Run = Mapping[float, float]  # x -> y
HEIGHT, LEAST = 1.75, 3.6  # inches: a panel, a picture


@redrawable
def panels(
    series: Mapping[str, Mapping[str, Sequence[Run]]],
    *,
    xlabel: str,
    caption: str,
    log: Collection[str] = (),
    limits: Mapping[str, tuple[float, float]] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw a panel per quantity with a line for each arm: thin for each run, thick for the median.

    `series` maps quantity -> arm -> runs; the quantities in `log` have a logarithmic axis. Pictures
    of the same slider need the same `limits`.
    """
    check_series(series, "panels")
    for quantity, arms in series.items():
        check_series(arms, quantity)
    picture = make_canvas(height=max(0.6 + HEIGHT * len(series), LEAST))
    looks = choose_looks(dict.fromkeys(arm for arms in series.values() for arm in arms))
    marks = Marks(xlabel, middle="median")
    texts, drawn, counts = [], [], []
    for ax, (quantity, arms) in zip(
        picture.subplots(len(series), 1, sharex=True, squeeze=False)[:, 0],
        series.items(),
        strict=True,
    ):
        if quantity in log:
            ax.set_yscale("log", nonpositive="mask")
        ends, parts = [], []
        for arm, runs in arms.items():
            xs = sorted(set[float]().union(*runs))
            middle = [median(run[x] for run in runs) for x in xs]
            values = [[run[x] for run in runs] for x in xs]
            places = [*zip(xs, middle, strict=True)]
            key = marks.add(arm, ax, quantity, xs, values, places=places)
            _draw_runs(ax, looks[arm], xs, runs, middle, key)
            ends.append(End(arm, middle[-1], looks[arm], key=key))
            parts.append(describe_trend(arm, xs, middle))
            drawn.append(middle)
            counts.append(len(runs))
        label_axes(ax, xlabel if ax.get_subplotspec().is_last_row() else "", quantity)
        lines = finish_axes(ax, ends, None, (limits or {}).get(quantity), markers=False)
        head = f"Line plot of {quantity} against {xlabel}"
        texts.append(join_sentences(head, parts) + lines.note)
    note = f"Thin lines: {say_seeds(counts)}; thick: their median."
    text = f"{format_count(len(series), 'panel')}. {' '.join(texts)}"
    return Figure(picture, text, caption, drawn, provenance, note, marks)


def _draw_runs(
    ax: Any, look: Look, xs: Sequence[float], runs: Sequence[Run], middle: list[float], key: str
) -> None:
    """Draw one arm: its runs as thin lines, their median as a thick one."""
    for run in runs:
        thin = {"color": look.colour, "linewidth": 0.5, "alpha": 0.4, "gid": key}
        ax.plot(xs, [run[x] for x in xs], **thin)
    thick = {"color": look.colour, "linestyle": look.line, "linewidth": 1.8, "gid": key}
    ax.plot(xs, middle, zorder=3, **thick)
