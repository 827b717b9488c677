"""Show the code that runs: a chapter never pastes an implementation."""

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.display import Code

shown: set[str] = set()  # the modules whose text was displayed


def show(*things: Any) -> "Code":
    """Display the current source of functions or classes of labkit."""
    from IPython.display import Code  # only a notebook has it

    shown.update(thing.__module__ for thing in things)
    sources = [inspect.getsource(thing).rstrip() for thing in things]
    return Code("\n\n\n".join(sources), language="python")
