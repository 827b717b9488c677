"""Split a percent-format source into cells, as jupytext does, with nothing but Python.

Chapters, the sources of homeworks and what students hand in as .py are all read here.
"""

import re
from dataclasses import dataclass

# Editors write `#%%` too; `# %%%` is a comment.
START = re.compile(r"(?m)^# *%%(?!%)(.*)$")
KIND = re.compile(r"\[(markdown|md|raw)\]")
QUOTED = re.compile(r'(?s)\A[rR]?"""\n?(.*?)\n?"""\Z')


@dataclass(frozen=True)
class TextCell:
    """One cell: its index among all cells, its kind, source, tags, the number of its first line.

    The kind is "code", "markdown" or "raw".
    """

    index: int
    kind: str
    source: str
    tags: tuple[str, ...]
    line: int


def cells_of(text: str) -> list[TextCell]:
    """Read the cells of a source; anything before the first cell marker is ignored."""
    marks = list(START.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    found = []
    for mark, end in zip(marks, ends, strict=True):
        head, body = mark.group(1), text[mark.end() : end]
        blank = len(body) - len(body.lstrip("\n"))
        line = text.count("\n", 0, mark.end()) + 1 + blank
        body = body.strip("\n")
        kind = KIND.search(head)
        tags = re.search(r"tags=\[(.*?)\]", head)
        if kind is not None:
            quoted = QUOTED.match(body)
            body = quoted.group(1) if quoted else re.sub(r"(?m)^# ?", "", body)
        named = tuple(re.findall(r'"([^"]+)"', tags.group(1))) if tags else ()
        name = kind.group(1).replace("md", "markdown") if kind else "code"
        found.append(TextCell(len(found), name, body, named, line))
    return found
