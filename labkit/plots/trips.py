"""Trips to memory: the reads and writes of each operation in a program."""

from collections.abc import Mapping, Sequence
from typing import Any

from .figure import Figure, redrawable
from .marks import Marks
from .style import HAIR, INK, QUIET, is_narrow, make_canvas, wrap, write_text

Operation = tuple[str, float, float]  # name, bytes a value read, bytes a value written
MEMORY, CHIP = 1.0, 0.0  # how high they are drawn
THICK = 0.9  # points of an arrow for each byte
ASIDE = (-0.2, 0.2)  # where an operation reads, and where it writes
STEP = 1.0  # from operation to operation
LEAST = 0.05  # bytes per value: accesses once per row are not drawn


@redrawable
def trips(
    programs: Mapping[str, Sequence[Operation]],
    *,
    caption: str,
) -> Figure:
    """Draw a row per program: memory above, chip below, an arrow for each read and write.

    The thickness of an arrow is proportional to its bytes per value of the tensor.
    """
    if not programs or not all(programs.values()):
        raise ValueError(f"every program needs at least one operation; got {dict(programs)}")
    longest = max(map(len, programs.values()))
    picture = make_canvas(height=(2.3 if is_narrow() else 1.9) * len(programs))
    picture.set_layout_engine("none")  # words are next to the lines, not in a margin
    edges = {"left": 0.01, "right": 0.99, "top": 0.99, "bottom": 0.01, "hspace": 0.02}
    rows = picture.subplots(len(programs), 1, squeeze=False, gridspec_kw=edges)[:, 0]
    parts, marks = [], Marks("operation", of="program", runs="values")
    for ax, (program, operations) in zip(rows, programs.items(), strict=True):
        _draw_row(ax, program, operations, longest)
        names, *sizes = zip(*operations, strict=True)
        for quantity, of, aside in zip(("bytes read", "bytes written"), sizes, ASIDE, strict=True):
            places = [((i + 0.5) * STEP + aside, 0.5) for i in range(len(names))]
            runs = [[float(size)] for size in of]
            marks.add(program, ax, quantity, names, runs, places=places, panel=program)
        moved = sum(read + written for _, read, written in operations)
        each = ", ".join(
            f"{name} {read:.2g} and {written:.2g}" for name, read, written in operations
        )
        parts.append(f"{program}: {moved:.3g} bytes a value, read and written by {each}")
    data = [[read, written] for of in programs.values() for _, read, written in of]
    text = f"Arrows between memory and chip. {'. '.join(parts)}."
    return Figure(picture, text, caption, data, marks=marks)


def _draw_row(ax: Any, program: str, operations: Sequence[Operation], longest: int) -> None:
    """Draw one program, from left to right in its order."""
    right, left = longest * STEP, -1.9 if is_narrow() else -1.2
    ax.set(
        xlim=(left, right + 0.4), ylim=(-0.9 if is_narrow() else -0.5, 2.0 if is_narrow() else 1.75)
    )
    ax.set_axis_off()
    moved = sum(read + written for _, read, written in operations)
    said = f"{program}: {moved:.3g} bytes for each value"
    said = wrap(said, 40) if is_narrow() else said
    write_text(
        ax, said, (left, 1.95 if is_narrow() else 1.7), (0, 0), color=INK, va="top", weight="bold"
    )
    for height, name in ((MEMORY, "memory"), (CHIP, "chip")):
        ax.plot([0, right], [height, height], color=HAIR, linewidth=5, solid_capstyle="butt")
        write_text(ax, name, (0, height), (-5, 0), ha="right", va="center", color=QUIET)
    for i, (name, read, written) in enumerate(operations):
        middle = (i + 0.5) * STEP
        ends = ((read, MEMORY, CHIP), (written, CHIP, MEMORY))
        for aside, (size, start, end) in zip(ASIDE, ends, strict=True):
            if size > LEAST:
                _draw_arrow(ax, middle + aside, start, end, size)
        tilted = {"rotation": 50, "ha": "right"} if is_narrow() else {"ha": "center"}
        write_text(ax, name, (middle, CHIP), (0, -8), va="top", color=INK, **tilted)


def _draw_arrow(ax: Any, x: float, start: float, end: float, size: float) -> None:
    """Draw the arrow for one transfer, and write its number of bytes."""
    line = {
        "arrowstyle": "-|>",
        "color": INK,
        "linewidth": THICK * size,
        "shrinkA": 3,
        "shrinkB": 3,
    }
    ax.annotate("", (x, end), (x, start), arrowprops=line)
    reads = end < start  # at a different height than its neighbour's writes
    height, aside, ha = (0.65, -3 - size, "right") if reads else (0.35, 3 + size, "left")
    write_text(ax, f"{size:.2g}", (x, height), (aside, 0), ha=ha, va="center", color=QUIET)
