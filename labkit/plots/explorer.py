"""explore: one value to move by hand; a widget in JupyterLab, a slider on the site."""

import html
import os
from collections.abc import Callable, Sequence
from typing import Any

from .figure import Figure, show_caption
from .slider import Slider, frames


class Explorer:
    """A figure for each value: a widget where a kernel listens, a `Slider` elsewhere."""

    def __init__(self, slider: Slider, label: str) -> None:
        self.slider, self.label = slider, label

    def _ipython_display_(self) -> None:
        if is_live():
            self._widget()
        else:
            self.slider._ipython_display_()

    def _widget(self) -> None:
        from IPython.display import display
        from ipywidgets import HTML, Image, SelectionSlider, VBox

        figures = self.slider.figures
        choice = SelectionSlider(
            options=list(figures),
            description=self.label,
            style={"description_width": "initial"},
            layout={"width": "95%"},
        )
        picture, words = Image(format="png", width=720), HTML()

        def draw(name: str) -> None:
            picture.value, words.value = figures[name].png(), html.escape(figures[name].alt)

        choice.observe(lambda change: draw(change["new"]), names="value")
        draw(choice.value)
        display(VBox([choice, picture, words]))
        show_caption(self.slider.caption)

    def __repr__(self) -> str:
        return repr(self.slider)


def is_live() -> bool:
    """Say whether a reader sits at a kernel: in a notebook, and not while the book is built."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and not os.environ.get("LABKIT_POOL")


def explore(
    draw: Callable[[Any], Figure],
    values: Sequence[Any],
    name: str,
    *,
    label: str,
    caption: str | None = None,
) -> Explorer:
    """Let the reader move one value and see `draw(value)`, a Figure.

    In JupyterLab the range input is an ipywidget; on the site it moves precomputed pictures, at
    most 300 kB in all. `name` is unique on its page, `label` names what moves.
    """
    if len(values) < 2 or len(set(map(str, values))) < len(values):
        raise ValueError(f"there must be at least two values, all different, got {list(values)}")
    pictures = {str(value): draw(value) for value in values}
    return Explorer(frames(pictures, name, label=label, caption=caption), label)
