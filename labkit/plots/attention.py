"""Attention maps: which token looks at which, one picture for each model and step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps

from .alt import format_number, join_sentences
from .figure import Figure
from .style import HAIR, QUIET, make_canvas, use_book_style

Place = tuple[str, str]  # row and column of a map


@use_book_style()
def attention_maps(
    maps: Mapping[Place, Sequence[Sequence[float]]],
    text: str,
    *,
    notes: Mapping[Place, str],
    caption: str,
    provenance: Mapping[str, Any] | None = None,
) -> Figure:
    """Draw causal attention weights: queries down, keys across, darker for more; a note below each.

    All maps are of one `text`, whose characters name the rows and columns; a blank is drawn as ␣.
    """
    if not maps or set(maps) != set(notes):
        raise ValueError(
            "attention_maps needs at least one map, and a note for each: the same (row, column) "
            f"in maps and notes; got {list(maps)} and {list(notes)}"
        )
    rows, columns = (list(dict.fromkeys(place[side] for place in maps)) for side in (0, 1))
    picture = make_canvas(height=0.5 + 2.25 * len(rows))
    axes = picture.subplots(len(rows), len(columns), squeeze=False)
    parts, data = [], []
    for place, weights in maps.items():
        row, column = rows.index(place[0]), columns.index(place[1])
        drawn = _draw_map(axes[row, column], np.array(weights, dtype=float), text)
        axes[row, column].set_xlabel(notes[place], fontsize=9, labelpad=3)
        if row == 0:
            axes[row, column].set_title(place[1], fontsize=9.5, color=QUIET)
        if column == 0:
            axes[row, column].set_ylabel(place[0], fontsize=9.5, fontweight="bold")
        parts.append(
            f"{', '.join(place)}: {notes[place]}, a query's largest weight is "
            f"{format_number(drawn.max(axis=1).mean())} on average"
        )
        data.append(drawn.max(axis=1))
    head = f"Attention maps of {len(text)} characters, {len(rows)} rows by {len(columns)} columns"
    return Figure(picture, join_sentences(head, parts), caption, data, provenance)


def _draw_map(ax: Any, weights: np.ndarray, text: str) -> np.ndarray:
    """Draw one map, and return the weights without the keys that come later."""
    if weights.shape != (len(text), len(text)):
        raise ValueError(
            f"a map of {len(text)} characters has as many rows and columns, got {weights.shape}"
        )
    seen = np.tril(np.ones_like(weights, dtype=bool))
    ax.set_facecolor(HAIR)  # the keys that a query may not see
    ax.imshow(np.where(seen, weights, np.nan), cmap=colormaps["Blues"], vmin=0, vmax=1)
    places, letters = range(len(text)), ["␣" if letter.isspace() else letter for letter in text]
    ax.set_xticks(places, letters)
    ax.set_yticks(places, letters)
    ax.tick_params(length=0, pad=1, labelsize=4.5, labelcolor=QUIET)
    ax.xaxis.tick_top()
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return np.where(seen, weights, 0)
