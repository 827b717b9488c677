"""Save a chapter as its twin is written, so that opening a notebook changes no file.

JupyterLab notes the kernel's version in each notebook that it opens, Jupytext how each cell stands
in the text; JupyterLab then saves both by itself. A server calls `drop_volatile` before it writes.
"""

import copy
from pathlib import PurePosixPath
from typing import Any

from press.book.chapters import KERNEL, LANGUAGE

ALONE = {"formats": "ipynb"}  # of a notebook without a text, which Jupytext would write otherwise
CELL = ("cell_marker", "lines_to_next_cell")  # Jupytext reads both from the text again


def drop_volatile(model: dict[str, Any], path: str, **_: Any) -> None:
    """Write a notebook of the folder `chapters` with only the metadata that a twin keeps.

    What is handed in may be written as text next, so it is copied before it is changed. Notebooks
    elsewhere are their owner's.
    """
    if model["type"] != "notebook" or PurePosixPath(path).parent.name != "chapters":
        return
    content = copy.deepcopy(model["content"])
    paired = content["metadata"].get("jupytext", {}).get("formats")
    content["metadata"] = {"kernelspec": KERNEL, "language_info": LANGUAGE}
    if paired == ALONE["formats"]:
        content["metadata"]["jupytext"] = ALONE
    for cell in content["cells"]:
        for name in CELL:
            cell["metadata"].pop(name, None)
    model["content"] = content
