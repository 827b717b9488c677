"""nbformat, without the grammar of web addresses that its import would build for a second.

    from labkit.book.notebooks import nbformat, read_percent

jsonschema asks for rfc3987_syntax, to check addresses; the schema of notebooks checks none.
"""

import sys
from pathlib import Path

GRAMMAR = "rfc3987_syntax"
known = GRAMMAR in sys.modules
if not known:
    sys.modules[GRAMMAR] = None  # type: ignore[assignment]  # as if it were not installed
try:
    import nbformat
finally:
    if not known:
        del sys.modules[GRAMMAR]

__all__ = ["nbformat", "read_percent"]


def read_percent(path: Path) -> nbformat.NotebookNode:
    """Read a text in percent format as a notebook."""
    import jupytext  # after nbformat, which it imports, too

    return jupytext.read(path, fmt="py:percent")
