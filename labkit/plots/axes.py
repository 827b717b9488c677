"""Axes of series: scales and ticks, reference lines, and names at the ends of lines.

start_axes, finish_axes     called before and after the series are drawn
draw_references             reference lines, as far as the series stay readable
place_ticks, log_ticks      ticks at the settings of the runs, in plain notation

plots.curves(losses, …, reference=reference_lines(data) | {"no attention": blind})
"""

from collections.abc import Mapping, Sequence
from math import isfinite, log10
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, Formatter, LogLocator, MaxNLocator, NullLocator
from scipy.optimize import isotonic_regression

from .alt import format_number, format_power
from .looks import Look
from .marks import name_key
from .style import QUIET, is_narrow, make_canvas, wrap, write_text

DOTS: Any = (0, (2, 2))
SERIES = 0.5  # the share of an axis that reference lines leave to the series, at least


class End(NamedTuple):
    """A line's name, the height of its end, and its look (None: a reference line)."""

    name: str
    height: float
    look: Look | None
    reaches: bool = True  # the line runs up to the right edge
    key: str = ""  # of the line's marks


class References(NamedTuple):
    """The reference lines of a figure: those drawn, and those too far away."""

    drawn: dict[str, float]
    beyond: dict[str, float]
    cut: tuple[str, ...] = ()  # how far the cut series reach

    @property
    def note(self) -> str:
        """Return the undrawn lines as a sentence to append."""
        lines = [f"{name} at {format_number(value)}" for name, value in self.beyond.items()]
        return f" Beyond the axis: {', '.join([*lines, *self.cut])}." if lines or self.cut else ""


def start_axes(logx: bool = False, logy: bool = False, height: float = 3.6) -> Any:
    """Return the axes of a new picture, with their scales set."""
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
) -> References:
    """Draw the reference lines, set the limits of the y axis, and label all lines.

    `crossed` axes have crosses along their top; `markers` are shown in a legend.
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
) -> References:
    """Draw a thin dashed line at each named number that lies within the limits.

    Without limits the axis expands to include lines, the nearest first, as far as the series stay
    readable. Call it after the series are drawn and their scale is set.
    """
    reference = dict(reference or {})
    for name, value in reference.items():
        if not isfinite(value):
            raise ValueError(
                f"a reference line must be at a finite number, but {name!r} has {value}"
            )
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
    return References(drawn, beyond)


def make_handle(name: str, look: Look | None, markers: bool = True) -> Line2D:
    """Make the legend's entry for a line with that look; None: for a reference line."""
    if look is None:
        return Line2D([], [], color=QUIET, linewidth=0.9, linestyle=DOTS, label=name)
    marker = look.marker if markers else ""
    return Line2D([], [], color=look.colour, marker=marker, linestyle=look.line, label=name)


def format_plain(value: float, _: Any = None) -> str:
    """Format 128, 0.03 or 3·10⁻⁴, with a true minus and without programming notation."""
    if value and not 1e-3 <= abs(value) < 1e5:
        return format_power(value)
    return f"{value:g}".replace("-", "−")


class PlainTicks(Formatter):
    """Ticks in a uniform format: all as powers of ten if one of them needs it."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Format a single tick."""
        return format_plain(x)

    def format_ticks(self, values: Any) -> list[str]:
        """Format the ticks of one axis."""
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval())
        seen = [v for v in values if v and low <= v <= high]
        powers = any(not 1e-3 <= abs(v) < 1e5 for v in seen)
        return [format_power(v) if powers else format_plain(v) for v in values]


def place_ticks(ax: Any, xs: Sequence[Any], log: bool) -> None:
    """Put a tick at every setting if they fit; otherwise leave the choice to the axis."""
    if any(isinstance(x, str) for x in xs):
        names = [str(x) for x in xs]
        ax.set_xticks(range(len(xs)), names)
        if is_narrow() and sum(map(len, names)) > 34:
            ax.tick_params(axis="x", labelrotation=35)
            for label in ax.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        ax.set_xlim(-0.4, len(xs) - 0.6)
        return
    most, least = 12, 0.055
    if is_narrow():  # some 230 points for all labels, of about 5.6 a letter
        most, least = 7, (5.6 * max(len(format_plain(x)) for x in xs) + 6) / 230
    gaps = np.diff(np.log10(xs) if log else xs)
    if len(xs) <= most and (not len(gaps) or min(gaps) > least * sum(gaps)):
        ax.xaxis.set_major_locator(FixedLocator(list(xs)))
        ax.xaxis.set_major_formatter(PlainTicks())
        ax.xaxis.set_minor_locator(NullLocator())
    elif log:
        log_ticks(ax, "x")
    elif all(float(x).is_integer() for x in xs):
        ax.xaxis.set_major_locator(MaxNLocator(4 if is_narrow() else 8, integer=True))


def log_ticks(ax: Any, which: str = "y") -> None:
    """Label a logarithmic axis with few, plain numbers: 1, 2, 5 if it is short."""
    axis = ax.yaxis if which == "y" else ax.xaxis
    low, high = axis.get_view_interval()
    decades = log10(high / low) if low > 0 else 1
    steps = (1, 2, 3, 5) if decades < 1.3 else (1, 2, 5) if decades < 2.2 else (1,)
    few = is_narrow() and which == "x"
    if few:
        steps = (1, 2, 5) if decades < 0.9 else (1, 3) if decades < 2.2 else (1,)
    short = decades < 0.7  # so short that even steps read better
    most = (4, 6) if few else (6, 8)
    axis.set_major_locator(
        MaxNLocator(most[0]) if short else LogLocator(subs=steps, numticks=most[1])
    )
    axis.set_major_formatter(PlainTicks())
    axis.set_minor_locator(NullLocator())


def _say_cut(ax: Any, limits: tuple[float, float]) -> tuple[str, ...]:
    """Describe how far drawn values exceed the limits, so that a spike is not lost."""
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
    """Label the ends of lines, or make a legend if the labels would collide."""
    if not is_narrow() and _write_at_ends(ax, ends):
        return
    handles = []
    for end in ends:
        name = end.name if end.look else f"{end.name}, {format_number(end.height)}"
        handles.append(make_handle(name, end.look, markers))
    if is_narrow():
        place_legend_below(ax.figure, handles, [end.key for end in ends])
        return
    legend = ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    name_legend(legend, [end.key for end in ends])


def _write_at_ends(ax: Any, ends: Sequence[End]) -> bool:
    """Label the ends of lines, unless the labels would collide."""
    ax.figure.draw_without_rendering()
    box = ax.get_window_extent()
    wanted = ax.transData.transform([(0.0, end.height) for end in ends])[:, 1]
    line = 11.5 * ax.figure.dpi / 72
    placed = _spread_heights(wanted, line)
    room = len(ends) <= 9 and np.abs(placed - wanted).max() <= 1.5 * line
    if not (room and all(end.reaches for end in ends) and np.isfinite(wanted).all()):
        return False
    for end, y in zip(ends, placed, strict=True):
        ink = {"color": end.look.colour, "weight": "bold"} if end.look else {"color": QUIET}
        spot = (1, (y - box.y0) / box.height)
        how: dict[str, Any] = {"xycoords": "axes fraction", "va": "center"}
        write_text(ax, end.name, spot, (7, 0), gid=name_key(end.key) or None, **how, **ink)
    return True


def name_legend(legend: Any, keys: Sequence[str]) -> None:
    """Attach the keys of series to their entries in a legend."""
    for text, handle, key in zip(legend.get_texts(), legend.legend_handles, keys, strict=True):
        if key:
            text.set_gid(name_key(key))
            handle.set_gid(name_key(key))


def place_legend_below(picture: Any, handles: Sequence[Line2D], keys: Sequence[str]) -> None:
    """Put a legend below a phone's drawing, in two columns if they fit, once for all axes."""
    entries = []
    for old in picture.legends:
        entries += old.entries
        old.remove()
    known = {handle.get_label() for handle, _ in entries}
    entries += [one for one in zip(handles, keys, strict=True) if one[0].get_label() not in known]
    names = [wrap(str(handle.get_label()), 42) for handle, _ in entries]
    columns = 1 + (max(map(len, names)) <= 17)
    legend: Any = picture.legend(
        [handle for handle, _ in entries], names,
        loc="outside lower left", ncols=columns, handlelength=2.6, borderpad=0,
    )  # fmt: skip
    legend.entries = entries
    name_legend(legend, [key for _, key in entries])


def _spread_heights(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Move heights as little as needed until neighbours are a line apart."""
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    placed = np.empty_like(wanted)
    placed[order] = isotonic_regression(wanted[order] - steps).x + steps
    return placed
