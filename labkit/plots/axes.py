"""Axes of series: scales and ticks, reference lines, and names at the ends of lines.

start_axes, finish_axes     before and after the series are drawn
draw_references             what series are held against, where they stay readable beside it
place_ticks, log_ticks      at the settings that were run, written the way people say them

plots.curves(losses, …, reference=reference_lines(data) | {"no attention": blind})
"""

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from scipy.optimize import isotonic_regression

from .alt import format_number
from .looks import Look
from .style import QUIET, make_canvas, write_text

DOTS: Any = (0, (2, 2))
SERIES = 0.5  # the share of an axis that reference lines leave to the series, at least


class End(NamedTuple):
    """A line's name, the height at which it ends, its look (None: a reference line)."""

    name: str
    height: float
    look: Look | None
    reaches: bool = True  # the line runs up to the right edge


class Marks(NamedTuple):
    """The reference lines of a figure: those that it draws, and those too far away."""

    drawn: dict[str, float]
    beyond: dict[str, float]
    cut: tuple[str, ...] = ()  # how far the series reach that the limits cut off

    @property
    def note(self) -> str:
        """Return what is not drawn, as a sentence that follows another."""
        lines = [f"{name} at {format_number(value)}" for name, value in self.beyond.items()]
        return f" Beyond the axis: {', '.join([*lines, *self.cut])}." if lines or self.cut else ""


def start_axes(logx: bool = False, logy: bool = False, height: float = 3.6) -> Any:
    """Return the axes of a new picture, their scales set."""
    ax = make_canvas(height).add_subplot()
    if logx:
        ax.set_xscale("log")
    if logy:
        ax.set_yscale("log", nonpositive="mask")
    return ax


def finish_axes(
    ax: Any,
    ends: Sequence[End],
    reference: Mapping[str, float] | None,
    ylim: tuple[float, float] | None,
    *,
    crossed: bool = False,
    markers: bool = True,
) -> Marks:
    """Draw the reference lines, settle the y axis, name all lines.

    `crossed` axes have crosses along their top; `markers` stand in a legend.
    """
    cut = _say_cut(ax, ylim) if ylim else ()
    marks = draw_references(ax, reference, ylim)._replace(cut=cut)
    if ylim:
        ax.set_ylim(*ylim)
    elif crossed:
        _make_headroom(ax)
    if ax.get_yscale() == "log":
        log_ticks(ax)
    _name_lines(ax, [*ends, *(End(*line, None) for line in marks.drawn.items())], markers)
    return marks


def draw_references(
    ax: Any,
    reference: Mapping[str, float] | None,
    limits: tuple[float, float] | None = None,
    which: str = "y",
) -> Marks:
    """Draw a thin dashed line at each named number that lies within the limits.

    Without limits the axis grows for lines, the nearest first, as far as the series allow. To be
    called when these are drawn and their scale is set.
    """
    reference = dict(reference or {})
    for name, value in reference.items():
        if not isfinite(value):
            raise ValueError(f"a reference line needs a finite number, {name!r} has {value}")
    axis, line = (ax.yaxis, ax.axhline) if which == "y" else (ax.xaxis, ax.axvline)
    to = axis.get_transform().transform
    places = dict(zip(reference, to(np.array([*reference.values()], dtype=float)), strict=True))
    low, high = sorted(to(np.array(limits or axis.get_view_interval(), dtype=float)).tolist())
    most = (high - low) / (1 if limits else SERIES)
    middle, beyond = (low + high) / 2, dict(reference)
    for name in sorted(reference, key=lambda name: abs(places[name] - middle)):
        reach = min(low, places[name]), max(high, places[name])
        if reach[1] - reach[0] <= most:
            low, high = reach
            line(beyond.pop(name), color=QUIET, linewidth=0.9, linestyle=DOTS, zorder=1)
    drawn = {name: value for name, value in reference.items() if name not in beyond}
    return Marks(drawn, beyond)


def make_handle(name: str, look: Look | None, markers: bool = True) -> Line2D:
    """Make a legend's entry for a line of that look; without one, for a reference line."""
    if look is None:
        return Line2D([], [], color=QUIET, linewidth=0.9, linestyle=DOTS, label=name)
    marker = look.marker if markers else ""
    return Line2D([], [], color=look.colour, marker=marker, linestyle=look.line, label=name)


def format_plain(value: float, _: Any = None) -> str:
    """Write 128, 0.03 or 3e-4, never 10 to a power in small print."""
    if value and not 1e-3 <= abs(value) < 1e5:
        power = floor(log10(abs(value)) + 1e-9)
        return f"{value / 10**power:g}e{power}"
    return f"{value:g}"


def place_ticks(ax: Any, xs: Sequence[Any], log: bool) -> None:
    """Put a tick at every setting if they fit; otherwise leave the choice to the axis."""
    if any(isinstance(x, str) for x in xs):
        ax.set_xticks(range(len(xs)), [str(x) for x in xs])
        ax.set_xlim(-0.4, len(xs) - 0.6)
        return
    gaps = np.diff(np.log10(xs) if log else xs)
    if len(xs) <= 12 and (not len(gaps) or min(gaps) > 0.055 * sum(gaps)):
        ax.xaxis.set_major_locator(FixedLocator(list(xs)))
        ax.xaxis.set_major_formatter(FuncFormatter(format_plain))
        ax.xaxis.set_minor_locator(NullLocator())
    elif log:
        log_ticks(ax, "x")
    elif all(float(x).is_integer() for x in xs):
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def log_ticks(ax: Any, which: str = "y") -> None:
    """Write a logarithmic axis with few, plain numbers: 1, 2, 5 when it is short."""
    axis = ax.yaxis if which == "y" else ax.xaxis
    low, high = axis.get_view_interval()
    decades = log10(high / low) if low > 0 else 1
    steps = (1, 2, 3, 5) if decades < 1.3 else (1, 2, 5) if decades < 2.2 else (1,)
    short = decades < 0.7  # so short that even steps read better
    axis.set_major_locator(MaxNLocator(6) if short else LogLocator(subs=steps, numticks=8))
    axis.set_major_formatter(FuncFormatter(format_plain))
    axis.set_minor_locator(NullLocator())


def _say_cut(ax: Any, limits: tuple[float, float]) -> tuple[str, ...]:
    """Say how far what has been drawn reaches beyond the limits: a spike must not vanish."""
    low, high = ax.dataLim.intervaly
    down = f"values down to {format_number(low)}" if low < limits[0] else ""
    up = f"values up to {format_number(high)}" if high > limits[1] else ""
    return tuple(filter(None, (down, up)))


def _make_headroom(ax: Any) -> None:
    """Raise the top of the y axis by an eighth, to keep a strip free for marks."""
    to, back = ax.transScale.transform, ax.transScale.inverted().transform
    (_, low), (_, high) = to([(1, y) for y in ax.get_ylim()])
    ax.set_ylim(top=back([(1, high + (high - low) / 8)])[0][1])


def _name_lines(ax: Any, ends: Sequence[End], markers: bool) -> None:
    """Write each name beside its line's end, or make a legend if the names would collide."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    wanted = ax.transData.transform([(0.0, end.height) for end in ends])[:, 1]
    line = 11.5 * ax.figure.dpi / 72
    placed = _spread_heights(wanted, line)
    room = len(ends) <= 9 and np.abs(placed - wanted).max() <= 1.5 * line
    if room and all(end.reaches for end in ends) and np.isfinite(wanted).all():
        for end, y in zip(ends, placed, strict=True):
            ink = {"color": end.look.colour, "weight": "bold"} if end.look else {"color": QUIET}
            spot = (1, (y - box.y0) / box.height)
            write_text(ax, end.name, spot, (7, 0), xycoords="axes fraction", va="center", **ink)
        return
    handles = [
        make_handle(
            end.name if end.look else f"{end.name}, {format_number(end.height)}", end.look, markers
        )
        for end in ends
    ]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _spread_heights(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Move heights as little as needed until neighbours are a line apart."""
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    placed = np.empty_like(wanted)
    placed[order] = isotonic_regression(wanted[order] - steps).x + steps
    return placed
