"""The same averages as in the cube, as books: the characters on a shelf that share a mean.

example = book, channel = page, position = character on a page. The analogy is older than this book;
a survey uses it without a source.
"""

from collections.abc import Sequence

from matplotlib.patches import Rectangle

from .cube import CHANNELS, EXAMPLES, OUTSIDE, POSITIONS, find_share
from .figure import Figure, redrawable
from .looks import choose_look
from .style import QUIET, is_narrow, make_canvas

ACROSS = 2  # characters side by side on a page
GAP = 0.7  # between pages, in characters


@redrawable
def bookshelf(norms: Sequence[str], *, caption: str) -> Figure:
    """Draw a shelf for each norm: a row is a book, a block a page, a square a character.

    Coloured squares share a mean with the last character of the last book.
    """
    shares = [find_share(norm) for norm in norms]
    across = 1 if is_narrow() else 2
    down = -(-len(norms) // across)
    picture = make_canvas(height=0.2 + (2.35 if is_narrow() else 2.05) * down)
    axes = picture.subplots(down, across, squeeze=False)
    wide, sizes, parts = ACROSS + GAP, [], []
    for ax in axes.flat[len(norms) :]:
        ax.set_visible(False)
    for ax, norm, (title, words, inside) in zip(axes.flat, norms, shares, strict=False):
        colour = choose_look("layer" if norm == "token" else norm.partition("-")[0]).colour
        count = 0
        for book in range(EXAMPLES):
            for page in range(CHANNELS):
                for place in range(POSITIONS):
                    line, column = divmod(place, ACROSS)
                    at = (page * wide + column, -book * (POSITIONS // ACROSS + GAP) - line)
                    here = inside(book, page, place)
                    count += here
                    shade = colour if here else OUTSIDE
                    ax.add_patch(Rectangle(at, 1, 1, facecolor=shade, edgecolor="white"))
        ax.set_xlim(-0.3, CHANNELS * wide)
        ax.set_ylim(-(EXAMPLES - 1) * (POSITIONS // ACROSS + GAP) - 1.2, 1.2)
        ax.set_aspect("equal")
        ax.set_axis_off()
        note = f"{count} characters; one mean per {words}"
        ax.set_title(f"{title}\n", loc="left", color=colour, fontsize=10, fontweight="bold")
        ax.text(0, 1.02, note, transform=ax.transAxes, color=QUIET, fontsize=8.5)
        sizes.append(count)
        parts.append(f"{title}: {note}")
    shelves = "1 shelf" if len(norms) == 1 else f"{len(norms)} shelves"
    head = (
        f"{shelves} of {EXAMPLES} books, "
        f"each of {CHANNELS} pages with {POSITIONS} characters; coloured are the characters that "
        "share a mean. "
    )
    return Figure(picture, f"{head}{'; '.join(parts)}.", caption, sizes)
