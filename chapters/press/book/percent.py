"""Part a chapter's text into its cells, as jupytext does; needs nothing but Python."""

import re
from dataclasses import dataclass

START = re.compile(r"(?m)^# %%(.*)$")
QUOTED = re.compile(r'(?s)\A[rR]?"""\n?(.*?)\n?"""\Z')


@dataclass(frozen=True)
class TextCell:
    """One cell: "code" or "markdown" (or "raw"), its text, its tags."""

    kind: str
    source: str
    tags: frozenset[str]


def cells_of(text: str) -> list[TextCell]:
    """Read the cells of a chapter in percent format, the header left out."""
    marks = list(START.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    found = []
    for mark, end in zip(marks, ends, strict=True):
        head, body = mark.group(1), text[mark.end() : end].strip("\n")
        kind = re.search(r"\[(\w+)\]", head)
        tags = re.search(r"tags=\[(.*?)\]", head)
        if kind is not None:
            quoted = QUOTED.match(body)
            body = quoted.group(1) if quoted else re.sub(r"(?m)^# ?", "", body)
        named = frozenset(re.findall(r'"([^"]+)"', tags.group(1))) if tags else frozenset()
        found.append(TextCell(kind.group(1) if kind else "code", body, named))
    return found
