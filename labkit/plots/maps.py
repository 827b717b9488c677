"""Maps: a number in every cell of a grid, shown by colour; divergences are hatched."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import isfinite, nan
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle

from .alt import format_count, format_number, format_power, join_sentences
from .axes import format_plain
from .figure import Figure, redrawable
from .marks import Marks
from .style import QUIET, is_narrow, make_canvas, measure_contrast, wrap

ON_CELLS = ("#000000", "#fefefe")  # no colours of a page: a number stays readable on its cell
PALE = "#f2f2f2"  # the ground of a run that diverged
Cells = Mapping[tuple[Any, Any], float | None]
Numbers = dict[tuple[Any, Any], float]  # NaN is a run that diverged


@redrawable
def grid_map(
    values: Cells | None = None,
    *,
    row_label: str,
    col_label: str,
    value_label: str,
    caption: str,
    panels: Mapping[str, Cells] | None = None,
    limits: tuple[float, float] | None = None,
    own_scales: bool = False,
    digits: int = 3,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw a number per cell; several panels share one colour scale, or have `own_scales`."""
    grids = _read_panels(values, panels)
    rows, cols = (_list_sides(grids, side) for side in (0, 1))
    shared = _build_shades(grids, limits)
    most = 1 if len(cols) > 7 else 2 if len(cols) > 4 or len(grids) == 4 else 3
    if is_narrow():
        most, digits = 1 + (len(cols) <= 2), min(digits, 3 if len(cols) <= 6 else 2)
    across = min(len(grids), most)
    down = -(-len(grids) // across)
    named = len(grids) > 1 or "" not in grids
    picture = make_canvas(height=0.8 + down * (0.32 * named + 0.36 * len(rows)))
    axes = picture.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat[len(grids) :]:
        ax.set_visible(False)
    marks = Marks(col_label, of=row_label)
    for ax, (name, cells) in zip(axes.flat, grids.items(), strict=False):
        shades = _build_shades({name: cells}, limits) if own_scales else shared
        for i, row in enumerate(rows):
            here = [cells.get((row, col)) for col in cols]
            found = [j for j, value in enumerate(here) if value is not None]
            sides = [_format_side(cols[j]) for j in found]
            key = marks.add(
                _format_side(row), ax, value_label, sides, [[cells[row, cols[j]]] for j in found],
                places=[(j + 0.5, i + 0.5) for j in found], panel=name,
            )  # fmt: skip
            for j, value in enumerate(here):
                if value is not None and isfinite(value):
                    _draw_cell(ax, i, j, value, shades, digits, key)
            _hatch_diverged(ax, i, [v is not None and not isfinite(v) for v in here], across)
        _draw_frame(ax, rows, cols, name)
    picture.supxlabel(wrap(col_label, 48), fontsize=9.5)
    picture.supylabel(row_label, fontsize=9.5)
    picture.suptitle(wrap(value_label, 50), x=0.01, ha="left", fontsize=9.5, color=QUIET)
    head = f"Heat map of {value_label} by {row_label} and {col_label}"
    if len(grids) > 1:
        head += f", {format_count(len(grids), 'panel')}"
    parts = [_describe_panel(name, cells, row_label, col_label) for name, cells in grids.items()]
    data = [list(cells.values()) for cells in grids.values()]
    return Figure(picture, join_sentences(head, parts), caption, data, provenance, marks=marks)


def _read_panels(values: Cells | None, panels: Mapping[str, Cells] | None) -> dict[str, Numbers]:
    if (values is None) == (panels is None):
        raise ValueError("grid_map needs either values or panels={name: values}, but not both")
    grids = dict(panels) if panels is not None else {"": values or {}}
    for name, cells in grids.items():
        if not cells:
            raise ValueError(
                f"every panel needs at least one cell, but {name!r} has none; fill "
                "{(row, col): x}"
            )
    if not grids:
        raise ValueError("grid_map needs at least one panel, got an empty dict")
    return {
        name: {key: nan if v is None else float(v) for key, v in cells.items()}
        for name, cells in grids.items()
    }


def _list_sides(grids: Mapping[str, Numbers], side: int) -> list[Any]:
    """List rows or columns: numbers in order, names in their original order."""
    keys = list(dict.fromkeys(key[side] for cells in grids.values() for key in cells))
    return keys if any(isinstance(key, str) for key in keys) else sorted(keys)


def _build_shades(grids: Mapping[str, Numbers], limits: Any) -> ScalarMappable:
    numbers = [v for cells in grids.values() for v in cells.values() if isfinite(v)] or [1.0]
    low, high = limits or (min(numbers), max(numbers))
    norm = Normalize(low, high if high > low else low + abs(low) * 0.1 + 1e-9)
    colours = colormaps["YlGnBu"](np.linspace(0.02, 0.92, 64))
    return ScalarMappable(norm, LinearSegmentedColormap.from_list("pale", colours))


def _draw_cell(
    ax: Any, i: int, j: int, value: float, shades: ScalarMappable, digits: int, key: str
) -> None:
    """Fill one cell and write its number in the more readable ink."""
    shade = shades.to_rgba(np.array([value]))[0][:3]
    ink = max(ON_CELLS, key=lambda colour: measure_contrast(colour, shade))
    edge: dict[str, Any] = {"edgecolor": "white", "linewidth": 1.5, "gid": key}
    ax.add_patch(Rectangle((j, i), 1, 1, facecolor=shade, **edge))
    text = _format_value(value, digits)
    ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=ink, fontsize=9, gid=key)


def _hatch_diverged(ax: Any, i: int, lost: list[bool], across: int) -> None:
    """Hatch the diverged cells of a row; adjacent cells share one label, so that it fits."""
    hatched: dict[str, Any] = {"hatch": "////", "edgecolor": "#bdbdbd", "linewidth": 0}
    for dead, run in groupby(range(len(lost)), key=lost.__getitem__):
        places = list(run)
        if not dead:
            continue
        for j in places:
            ax.add_patch(Rectangle((j, i), 1, 1, facecolor=PALE, **hatched))
            ax.add_patch(Rectangle((j, i), 1, 1, fill=False, edgecolor="white", linewidth=1.5))
        wide = len(places) * 600 / across / len(lost)  # pixels
        word, middle = "diverged" if wide > 60 else "div.", np.mean(places) + 0.5
        box = {"facecolor": PALE, "edgecolor": "none", "pad": 1.2}
        ink = ON_CELLS[0]
        ax.text(middle, i + 0.5, word, ha="center", va="center", color=ink, fontsize=8.5, bbox=box)


def _format_value(value: float, digits: int) -> str:
    if value and not 1e-3 <= abs(value) < 1e4:
        return format_power(float(f"{value:.{max(0, digits - 2)}e}"))
    return f"{value:#.{digits}g}".rstrip(".").replace("-", "−")


def _draw_frame(ax: Any, rows: Sequence[Any], cols: Sequence[Any], name: str) -> None:
    ax.set_xlim(0, len(cols))
    ax.set_ylim(len(rows), 0)
    ax.set_xticks(np.arange(len(cols)) + 0.5, map(_format_side, cols))
    if is_narrow() and sum(len(_format_side(col)) for col in cols) > 26:
        ax.tick_params(axis="x", labelrotation=90)
    ax.set_yticks(np.arange(len(rows)) + 0.5, [wrap(_format_side(row), 16) for row in rows])
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.set_title(name, loc="left", fontsize=9.5, fontweight="bold")


def _describe_panel(name: str, cells: Numbers, row_label: str, col_label: str) -> str:
    """Describe the lowest and the highest cell, and the number that diverged."""
    alive = {key: v for key, v in cells.items() if isfinite(v)}
    parts = []
    for word, best in (("lowest", min), ("highest", max)) if alive else ():
        row, col = key = best(alive, key=lambda k: alive[k])
        where = f"{row_label} {_format_side(row)}, {col_label} {_format_side(col)}"
        parts.append(f"{word} {format_number(alive[key])} at {where}")
    if lost := len(cells) - len(alive):
        parts.append(f"{lost} of {len(cells)} cells diverged")
    return f"{name}: {', '.join(parts)}" if name else ", ".join(parts)


def _format_side(side: Any) -> str:
    return side if isinstance(side, str) else format_plain(side)
