"""Search all files for students, byte for byte, for lines of the solutions and hidden tests.

A line is searched as it is and as JSON writes it. Trivial lines are left out: those of fewer than
twelve characters without spaces, imports, the heads of functions and classes, decorators,
`self.x = x`, `super().__init__()`, and returns of a name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from press.homework import regions
from press.homework.cells import Cell

SHORTEST = 12
TRIVIAL = re.compile(
    r"import .*|from \S+ import .*|(async )?def .*|class .*|@.*|return [\w.]+|"
    r"self\.(\w+) = \2|super\(\)\.__init__\(\)"
)
KINDS = {regions.SOLUTION: "a solution", regions.HIDDEN: "a hidden test"}


@dataclass(frozen=True)
class Secret:
    """A line that no student may see: its number in the source, and what it belongs to."""

    number: int
    kind: str
    text: str


def list_secrets(cells: Sequence[Cell]) -> list[Secret]:
    """List the nontrivial lines of solutions and hidden tests."""
    return [
        Secret(number, KINDS[block.kind], line.strip())
        for cell in cells
        if cell.kind == "code" or cell.role == "answer"
        for block in regions.split_blocks(cell.source, cell.line)
        if block.kind != regions.OPEN
        for number, line in enumerate(block.lines, start=block.number)
        if not is_trivial(line)
    ]


def is_trivial(line: str) -> bool:
    """Return whether a line reveals nothing."""
    bare = line.strip()
    return len("".join(bare.split())) < SHORTEST or TRIVIAL.fullmatch(bare) is not None


def find_leaks(
    hidden: Sequence[Secret], files: Mapping[str, bytes], cells: Sequence[Cell]
) -> list[str]:
    """Return which files contain which secret lines, by line number and never by content."""
    # A class of 300 has 300 notebooks of nearly the same lines: a line is searched once.
    places: dict[bytes, str] = {}
    for name, content in files.items():
        for line in content.split(b"\n"):
            places.setdefault(line, name)
    everything = b"\n".join(places)
    found = []
    for secret in hidden:
        hit = next((needle for needle in _encode_line(secret.text) if needle in everything), None)
        if hit is not None:
            name = next(name for line, name in places.items() if hit in line)
            shown = _find_open_line(secret, cells)
            found.append(f"line {secret.number}, of {secret.kind}, appears in {name}{shown}")
    marks = [name for name, content in files.items() if b"### BEGIN " in content]
    return found + [f"a mark ### BEGIN … appears in {name}" for name in marks]


def _encode_line(line: str) -> list[bytes]:
    """Encode a line as bytes: plain, and inside JSON strings of both kinds."""
    forms = (line, json.dumps(line, ensure_ascii=False)[1:-1], json.dumps(line)[1:-1])
    return [form.encode() for form in dict.fromkeys(forms)]


def _find_open_line(secret: Secret, cells: Sequence[Cell]) -> str:
    """Return where the source itself shows the line to students."""
    lines = [
        number
        for cell in cells
        for block in (regions.split_blocks(cell.source, cell.line) if cell.kind == "code" else [])
        if block.kind == regions.OPEN
        for number, line in enumerate(block.lines, start=block.number)
        if secret.text in line
    ]
    return f" (the source shows it on line {lines[0]})" if lines else ""
