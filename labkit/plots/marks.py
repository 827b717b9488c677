"""Marks: the numbers in a figure, each with its place, for a page's script and for a table.

A figure's drawing function adds a series when it draws it:

    marks = Marks("learning rate")
    key = marks.add("pre, depth 4", ax, "loss (nats)", [0.01, 0.1], [[1.4, 1.5], [1.6, 1.7]])
    ax.plot(…, gid=key)          this belongs to the series
    ax.text(…, gid=name_key(key))   this is its name

Two series of the same arm have the same colour, and a reader selects both together.
"""

import csv
import io
import json
from collections.abc import Sequence
from html import escape
from math import isfinite
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from .looks import method_of
from .series import mean_and_half, read_values

MOST_PLACES = 100  # of a series, that a page reads; its file has all
KEY = "series-"
NAME = "name-"
TOP = 0.96  # of the axes: the height of a setting at which every run diverged

Setting = float | str


class Series(NamedTuple):
    """Values of one name: a list of runs, and a place in the axes, for each setting."""

    name: str
    arm: str
    panel: str
    quantity: str
    ax: Any
    settings: list[Setting]
    runs: list[list[float]]
    places: list[tuple[float, float]]
    shift: float  # points to the right

    def choose_places(self) -> list[int]:
        """Choose the places of a long series that a page reads, including both ends."""
        count = len(self.settings)
        return np.linspace(0, count - 1, min(count, MOST_PLACES)).round().astype(int).tolist()

    def summarize(self, i: int, middle: str) -> list[Any]:
        """Return [setting, middle, low, high, runs, diverged] of a place, as short as possible.

        A mean has its drawn 95 % interval, a median the lowest and the highest run.
        """
        kept = [value for value in self.runs[i] if isfinite(value)]
        if middle == "median" and kept:
            ends = (median(kept), min(kept), max(kept))
        else:
            mean, half = mean_and_half(self.runs[i])
            ends = (mean, mean - half, mean + half)
        row = [_shorten(self.settings[i]), _shorten(ends[0])]
        if len(self.runs[i]) > 1:
            row += [*map(_shorten, ends[1:]), len(kept), len(self.runs[i]) - len(kept)]
        return row


class Marks:
    """The series of a figure; `setting` names the x quantity, `runs` the repetitions.

    `middle` is the statistic drawn for several runs: mean or median. `view` projects points in
    space for a script: for each of x, y, z its components to the right, up and towards the viewer.
    """

    def __init__(
        self,
        setting: str,
        *,
        of: str = "series",
        runs: str = "seeds",
        middle: str = "mean",
        view: Sequence[Sequence[float]] = (),
    ) -> None:
        self.setting, self.of, self.runs, self.middle = setting, of, runs, middle
        self.view = view
        self.series: list[Series] = []

    def add(
        self,
        name: str,
        ax: Any,
        quantity: str,
        settings: Sequence[Setting],
        runs: Sequence[Sequence[float]],
        *,
        places: Sequence[tuple[float, float]] | None = None,
        shift: float = 0.0,
        panel: str = "",
        arm: str | None = None,
    ) -> str:
        """Add a series of runs by setting; return the key of its drawn elements.

        The default place of a setting is at x = setting and y = mean of its runs.
        """
        arm = arm or method_of(name) or name
        if places is None:
            means = [mean_and_half(values)[0] for values in runs]
            places = [(float(x), y) for x, y in zip(settings, means, strict=True)]
        values = [read_values(of) for of in runs]
        self.series.append(
            Series(name, arm, panel, quantity, ax, [*settings], values, [*places], shift)
        )
        return f"{KEY}{len(self.series) - 1}"

    def to_csv(self) -> str:
        """List every value in its own row; the column names contain the units."""
        quantities = dict.fromkeys(one.quantity for one in self.series)
        panels = any(one.panel for one in self.series)
        repeated = any(len(runs) > 1 for one in self.series for runs in one.runs)
        mixed = len(quantities) > 1
        head = ["panel"] * panels + [self.of, "arm"]
        head += [self.setting] * bool(self.setting) + ["run"] * repeated
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n").writerow
        write(head + (["quantity", "value"] if mixed else [*quantities]))
        for one in self.series:
            arm = one.arm if one.arm != one.name else method_of(one.name) or ""
            for setting, runs in zip(one.settings, one.runs, strict=True):
                for run, value in enumerate(runs):
                    row = [one.panel] * panels + [one.name, arm]
                    row += [_shorten(setting)] * bool(self.setting) + [run] * repeated
                    row += [one.quantity] * mixed
                    write([*row, _shorten(value) if isfinite(value) else "diverged"])
        return out.getvalue()

    def describe(self) -> str:
        """Return the attribute for a page's script: names, and the numbers at each place."""
        rows = []
        for one in self.series:
            values = [one.summarize(i, self.middle) for i in one.choose_places()]
            rows.append([one.name, one.arm, one.quantity, one.panel, values])
        told = {"setting": self.setting, "runs": self.runs, "middle": self.middle, "series": rows}
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        return f"data-marks='{escape(text, quote=False).replace(chr(39), '&#39;')}'"

    def locate(self, fig: Any) -> str:
        """Return the HTML attribute with the places of the marks, in the units of the drawing.

        Marks outside their axes are invisible and have no place.
        """
        scale, height = 72 / fig.dpi, 72 * fig.get_figheight()
        lists = []
        for one in self.series:
            spots, box = [], one.ax.get_window_extent().padded(4)
            for i in one.choose_places():
                x, y = one.places[i]
                to = one.ax.transData if isfinite(y) else one.ax.get_xaxis_transform()
                at = to.transform((x, y if isfinite(y) else TOP))
                px, py = scale * at
                seen = np.isfinite(at).all() and box.contains(*at)
                spots.append(f"{px + one.shift:.0f} {height - py:.0f}" if seen else "")
            lists.append(",".join(spots))
        return f'data-at="{";".join(lists)}"'

    def measure(self, fig: Any) -> str:
        """Return the HTML attribute with the scales and the position of the first axes.

        It contains the numbers at the left, right, bottom and top of the axes, and the coordinates
        of these edges in the drawing.
        """
        ax, scale, height = self.series[0].ax, 72 / fig.dpi, 72 * fig.get_figheight()
        box = ax.get_window_extent()
        places = (scale * box.x0, scale * box.x1, height - scale * box.y0, height - scale * box.y1)
        facts = {
            "x": [float(v) for v in ax.get_xlim()],
            "y": [float(v) for v in ax.get_ylim()],
            "at": [round(float(v), 2) for v in places],
            "view": self.view,
            "log": [ax.get_xscale() == "log", ax.get_yscale() == "log"],
        }
        return f'data-axes="{escape(json.dumps(facts, separators=(",", ":")))}"'


def name_key(key: str) -> str:
    """Return the key of a series' name, given the key of its other elements."""
    return key and NAME + key.removeprefix(KEY)


def _shorten(value: Any) -> Any:
    """Round to the six digits of a figure's data; return None for a value that is not finite."""
    if isinstance(value, str):
        return value
    if not isfinite(value):
        return None
    short = float(f"{float(value):.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
