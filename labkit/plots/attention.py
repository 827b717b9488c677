"""Attention maps: the weights between tokens, one picture for each model and step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb

from .alt import format_number, join_sentences
from .figure import Figure, redrawable
from .looks import COLOURS
from .marks import Marks
from .style import HAIR, QUIET, is_narrow, make_canvas

Place = tuple[str, str]  # row and column of a map


@redrawable
def attention_maps(
    maps: Mapping[Place, Sequence[Sequence[float]]],
    text: str,
    *,
    notes: Mapping[Place, str],
    caption: str,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw causal attention weights: rows are queries, columns keys, darker is more; with notes.

    All maps are of the same `text`, whose characters label the rows and columns; a space is drawn
    as ␣.
    """
    if not maps or set(maps) != set(notes):
        raise ValueError(
            "attention_maps needs at least one map, and a note for each map, so maps and notes "
            f"must have the same (row, column) keys; got {list(maps)} and {list(notes)}"
        )
    rows, columns = (list(dict.fromkeys(place[side] for place in maps)) for side in (0, 1))
    picture, axes = _lay_out(list(maps), rows, columns)
    marks = Marks("key", of="query")
    parts, data = [], []
    for place, weights in maps.items():
        drawn = _draw_map(axes[place], np.array(weights, dtype=float), text)
        axes[place].set_xlabel(notes[place], fontsize=9, labelpad=3)
        _mark_map(marks, axes[place], drawn, text, ", ".join(place))
        parts.append(
            f"{', '.join(place)}: {notes[place]}, a query's largest weight is "
            f"{format_number(drawn.max(axis=1).mean())} on average"
        )
        data.append(drawn.max(axis=1))
    head = f"Attention maps of {len(text)} characters, {len(rows)} rows by {len(columns)} columns"
    said = join_sentences(head, parts)
    return Figure(picture, said, caption, data, provenance, marks=marks)


def _lay_out(
    places: Sequence[Place], rows: Sequence[str], columns: Sequence[str]
) -> tuple[Any, dict[Place, Any]]:
    """Make axes in rows and columns; on a phone the rows are side by side."""
    if is_narrow():
        picture = make_canvas(height=0.2 + 2.3 * len(columns))
        grid = picture.subplots(len(columns), len(rows), squeeze=False).T
        axes = {(r, c): grid[rows.index(r), columns.index(c)] for r, c in places}
        for place, ax in axes.items():
            ax.set_title("\n".join(place), fontsize=9, fontweight="bold")
        return picture, axes
    picture = make_canvas(height=0.5 + 2.25 * len(rows))
    grid = picture.subplots(len(rows), len(columns), squeeze=False)
    for column, ax in zip(columns, grid[0], strict=True):
        ax.set_title(column, fontsize=9.5, color=QUIET)
    for row, ax in zip(rows, grid[:, 0], strict=True):
        ax.set_ylabel(row, fontsize=9.5, fontweight="bold")
    return picture, {(r, c): grid[rows.index(r), columns.index(c)] for r, c in places}


def _mark_map(marks: Marks, ax: Any, weights: np.ndarray, text: str, panel: str) -> None:
    """Add a series of weights for each query, with explicit places because letters repeat."""
    names = [f"{i + 1} {'␣' if letter.isspace() else letter}" for i, letter in enumerate(text)]
    for i, name in enumerate(names):
        places = [(float(j), float(i)) for j in range(i + 1)]
        runs = [[float(weight)] for weight in weights[i, : i + 1]]
        quantity = "attention weight"
        marks.add(name, ax, quantity, names[: i + 1], runs, places=places, panel=panel, arm="")


def _draw_map(ax: Any, weights: np.ndarray, text: str) -> np.ndarray:
    """Draw one map, and return the weights without those of later keys."""
    if weights.shape != (len(text), len(text)):
        raise ValueError(
            f"a map of {len(text)} characters must have shape {(len(text), len(text))}, got "
            f"{weights.shape}"
        )
    shown = np.tril(weights)
    # A weight is the opacity of its cell over the page, which may be light or dark.
    cells = np.full((*shown.shape, 4), (*to_rgb(COLOURS["blue"]), 0.0))
    cells[..., 3] = shown.clip(0, 1)
    ax.imshow(cells)
    steps = np.arange(len(text) + 1) - 0.5  # above the stair are keys that are not allowed
    ax.fill_between(steps, steps, -0.5, step="post", color=HAIR, linewidth=0)
    places, letters = range(len(text)), ["␣" if letter.isspace() else letter for letter in text]
    ax.set_xticks(places, letters)
    ax.set_yticks(places, letters)
    size = 8.5 if is_narrow() else 4.5
    ax.tick_params(length=0, pad=1, labelsize=size, labelcolor=QUIET)
    if is_narrow():  # letters of this size fit side by side, but not one below the other
        ax.set_yticks([])
    ax.xaxis.tick_top()
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return shown
