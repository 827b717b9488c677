"""Ticks: at the settings that were run, written the way people say them."""

from collections.abc import Sequence
from itertools import pairwise
from math import floor, log10
from typing import Any

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator


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
    gaps = [log10(b) - log10(a) if log else b - a for a, b in pairwise(xs)]
    reach = sum(gaps)
    if len(xs) <= 12 and (not gaps or min(gaps) > 0.055 * reach):
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


def make_headroom(ax: Any) -> None:
    """Raise the top of the y axis by an eighth, to keep a strip free for marks."""
    to, back = ax.transScale.transform, ax.transScale.inverted().transform
    (_, low), (_, high) = to([(1, y) for y in ax.get_ylim()])
    ax.set_ylim(top=back([(1, high + (high - low) / 8)])[0][1])
