"""Shadow: a token as an arrow next to the line of equal channels, and its image under two norms.

Two lengths of a token matter, both as root mean squares: its shadow on the line, which is its mean,
and its distance from the line, which is its standard deviation. By Pythagoras the arrow's length is
its RMS.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .alt import format_number
from .axes import make_handle
from .figure import Figure, redrawable
from .looks import choose_look
from .marks import Marks
from .style import INK, QUIET, is_narrow, make_canvas, write_text

Point = np.ndarray
_QUARTERS = np.linspace(-np.pi / 2, np.pi / 2, 91)
MARGIN = 0.7


@redrawable
def shadow(
    tokens: Mapping[str, Sequence[float]],
    offsets: Mapping[str, float],
    *,
    caption: str,
) -> Figure:
    """Draw a panel for each constant that is added to every channel of these tokens.

    All tokens must lie in one plane with **1**, for example two tokens that differ from their mean
    by a vector and its opposite.
    """
    flat = _find_places(tokens)
    top = max(abs(off) for _, off in flat.values()) + MARGIN
    starts, parts, drawn = [0.0], [], []
    marks = Marks("token", of="norm", runs="values")
    for offset in offsets.values():
        starts.append(starts[-1] + max(mean for mean, _ in flat.values()) + offset + 4 * MARGIN)
    picture, axes = _lay_out(starts, top)
    for (name, offset), start, end, ax in zip(
        offsets.items(), starts, starts[1:], axes, strict=False
    ):
        moved = {token: at + np.array([offset, 0]) for token, at in flat.items()}
        write_text(ax, name, (start - MARGIN, top), (0, 0), fontsize=10, color=INK)
        _draw_ground(ax, np.array([start, 0.0]), end - 1.5 * MARGIN)
        ends = [_draw_token(ax, t, np.array([start, 0.0]), at) for t, at in moved.items()]
        _mark_tokens(marks, ax, name, np.array([start, 0.0]), moved, ends)
        apart = _write_angles(ax, ends, (start, -top))
        mean, off = next(iter(moved.values()))
        parts.append(
            f"{name}, the tokens have the mean {format_number(mean)} and stand "
            f"{format_number(abs(off))} off the line; {apart['rms']:.0f} degrees are between "
            f"them after RMSNorm, {apart['layer']:.0f} after LayerNorm"
        )
        drawn += [[*moved.values()], [[*at.values()] for at in ends]]
    handles = [make_handle("token", None, markers=False)]
    handles[0].set(color=INK, linestyle="solid")
    for norm, words in (("layer", "after LayerNorm"), ("rms", "after RMSNorm")):
        handles.append(make_handle(words, choose_look(norm)._replace(dash="solid")))
    picture.legend(handles=handles, loc="outside lower center", ncols=1 if is_narrow() else 3)
    text = f"Arrows beside the line of equal channels. {'. '.join(parts)}."
    return Figure(picture, text, caption, drawn, marks=marks)


def _lay_out(starts: list[float], top: float) -> tuple[Any, list[Any]]:
    """Make one pair of axes for all panels, side by side; on a phone one for each."""
    low, high = -top - 0.8, top + 0.5
    spans = [*pairwise(starts)] if is_narrow() else [(0.0, starts[-1])]
    wide = max(end - start for start, end in spans)
    scale = (3.5 if is_narrow() else 6.2) / wide  # inches
    tall = (high - low) if is_narrow() else 2 * top + 1.3
    picture = make_canvas(height=0.6 + len(spans) * scale * tall + 0.6 * is_narrow())
    rows = picture.subplots(len(spans), 1, squeeze=False)[:, 0]
    for ax, (start, _) in zip(rows, spans, strict=True):
        ax.set(xlim=(start - MARGIN, start + wide - MARGIN), ylim=(low, high), aspect="equal")
        ax.set_axis_off()
    return picture, [*rows] if is_narrow() else [rows[0]] * (len(starts) - 1)


def _mark_tokens(
    marks: Marks,
    ax: Any,
    panel: str,
    origin: Point,
    moved: Mapping[str, Point],
    ends: Sequence[Mapping[str, Point]],
) -> None:
    """Add each token and its images under the norms: along the line **1**, and off it."""
    places = {"before": list(moved.values())}
    places |= {norm: [of[norm] for of in ends] for norm in ends[0]}
    for norm, points in places.items():
        at = [(float(x), float(y)) for x, y in points + origin]
        for quantity, values in zip(("mean", "off the line"), np.transpose(points), strict=True):
            runs = [[float(value)] for value in values]
            marks.add(norm, ax, quantity, [*moved], runs, places=at, panel=panel)


def _find_places(tokens: Mapping[str, Sequence[float]]) -> dict[str, Point]:
    """Return each token's mean, and its signed distance from the line **1**, as an RMS."""
    rows = {name: np.asarray(token, dtype=float) for name, token in tokens.items()}
    rest = {name: row - row.mean() for name, row in rows.items()}
    axis = next(iter(rest.values()))
    axis = axis / np.sqrt(np.mean(axis**2))
    places = {name: np.array([rows[name].mean(), np.mean(rest[name] * axis)]) for name in rows}
    for name, (_, off) in places.items():
        if not np.allclose(rest[name], off * axis) or not off:
            raise ValueError(
                "the tokens of this figure must lie in one plane with (1, …, 1) and off that "
                f"line, but {name!r} does not; use x and 2 · mean(x) − x"
            )
    return places


def _write_angles(
    ax: Any, ends: Sequence[Mapping[str, Point]], below: tuple[float, float]
) -> dict[str, float]:
    """Write the angle in degrees between the first and the last token after each norm."""
    apart = {}
    for norm, down in (("layer", -2), ("rms", -16)):
        first, last = (np.arctan2(*at[norm][::-1]) for at in (ends[0], ends[-1]))
        apart[norm] = float(abs(np.degrees(first - last)))
        how: dict[str, Any] = {"color": choose_look(norm).colour, "va": "top"}
        write_text(ax, f"{apart[norm]:.0f}° apart", below, (0, down), **how)
    return apart


def _draw_ground(ax: Any, origin: Point, right: float) -> None:
    """Draw the line **1**, and the half circle of all vectors of RMS 1."""
    circle = np.stack([np.cos(_QUARTERS), np.sin(_QUARTERS)], axis=1) + origin
    ax.plot(*circle.T, color=QUIET, linewidth=0.9, linestyle=(0, (2, 2)))
    line = {"arrowstyle": "->", "color": QUIET}
    ax.annotate("", (right, 0), origin - (MARGIN / 2, 0), arrowprops=line)
    write_text(ax, "(1, 1, 1, 1)", (right, 0), (0, 5), ha="right", color=QUIET)


def _draw_token(ax: Any, name: str, origin: Point, at: Point) -> dict[str, Point]:
    """Draw one token, LayerNorm's subtraction of its shadow, and its images under both norms."""
    ends = {"layer": np.array([0, np.sign(at[1])]), "rms": at / np.hypot(*at)}
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3}
    ax.annotate("", origin + at, origin, arrowprops={**arrow, "shrinkA": 0, "shrinkB": 0})
    write_text(ax, name, origin + at, (4, 2 if at[1] > 0 else -9), color=INK, weight="bold")
    drop = origin + np.stack([at, at * (0, 1), ends["layer"]])
    ax.plot(*drop.T, color=choose_look("layer").colour, linewidth=0.9, linestyle=(0, (4, 2)))
    for norm, end in ends.items():
        look = choose_look(norm)
        point: dict[str, Any] = {"color": look.colour, "markersize": look.size + 0.5, "zorder": 5}
        ax.plot(*(origin + end), look.marker, **point)
    return ends
