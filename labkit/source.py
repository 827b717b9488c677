"""Show the code that runs: a chapter never pastes an implementation."""

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.display import Code


def show(*things: Any) -> "Code":
    """Display the source of functions or classes, as it stands in labkit now."""
    from IPython.display import Code  # only a notebook has it

    sources = [inspect.getsource(thing).rstrip() for thing in things]
    return Code("\n\n\n".join(sources), language="python")
