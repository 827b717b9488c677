"""Split a cell into open lines, solutions and hidden tests, at the markers in it.

    ### BEGIN SOLUTION                      ### BEGIN HIDDEN TESTS
    …                                       …
    ### END SOLUTION                        ### END HIDDEN TESTS

`### BEGIN SOLUTION stub: return x` leaves `return x` to the student instead of the usual stub.
"""

import re
from dataclasses import dataclass

OPEN, SOLUTION, HIDDEN = "open", "SOLUTION", "HIDDEN TESTS"
MARK = re.compile(
    r"(?P<indent>\s*)### (?P<side>BEGIN|END) (?P<kind>SOLUTION|HIDDEN TESTS)"
    r"(?:(?<=SOLUTION) stub: (?P<stub>.*?))?\s*"
)
PROSE_STUB = "*Write your answer here.*"
# What somebody meant as a mark; one that is not read as such would hand out the solution.
NEARLY = re.compile(r"(?i)\s*#+[\s#]*(begin|end)[\s_-]*(solution|hidden|test)")


@dataclass(frozen=True)
class Block:
    """Adjacent lines of one kind: OPEN, SOLUTION or HIDDEN, with the number of the first.

    A region's lines stand without its marks, which are in `marks`.
    """

    kind: str
    number: int
    lines: tuple[str, ...]
    indent: str = ""
    stub: str | None = None
    marks: tuple[str, str] = ("", "")

    @property
    def text(self) -> str:
        """Join the lines."""
        return "\n".join(self.lines)


def split_blocks(source: str, first: int = 1) -> list[Block]:
    """Split a cell whose first line has the number `first`; ValueError for unmatched markers."""
    found: list[Block] = []
    opened: re.Match[str] | None = None
    begun, lines = first, []
    for number, line in enumerate(source.split("\n"), start=first):
        mark = MARK.fullmatch(line)
        if mark is None:
            if NEARLY.match(line):
                raise ValueError(
                    f"line {number}: a mark must be ### BEGIN SOLUTION, ### END SOLUTION, ### "
                    "BEGIN HIDDEN TESTS or ### END HIDDEN TESTS, alone on its line; got "
                    f"{line.strip()!r}"
                )
            lines.append(line)
            continue
        _check_pair(mark, opened, number)
        if opened is None:
            if lines:
                found.append(Block(OPEN, begun, tuple(lines)))
            opened = mark
        else:
            found.append(_make_region(opened, mark, begun, lines))
            opened = None
        begun, lines = number + 1, []
    if opened is not None:
        raise ValueError(
            f"line {begun - 1}: a region must end in its own cell, but ### BEGIN {opened['kind']} "
            f"does not; add ### END {opened['kind']}"
        )
    if lines:
        found.append(Block(OPEN, begun, tuple(lines)))
    return found


def hide_solutions(source: str, question: str) -> str:
    """Replace each solution by a stub, and leave hidden tests out.

    Prose, which belongs to no `question`, has words for a stub.
    """
    usual = f'raise NotImplementedError("your turn: {question}")' if question else PROSE_STUB
    kept: list[str] = []
    for block in split_blocks(source):
        if block.kind == OPEN:
            kept += block.lines
        elif block.kind == SOLUTION:
            kept.append(block.indent + (block.stub or usual))
    return "\n".join(kept).strip("\n")


def keep_solutions(source: str, question: str) -> str:
    """Keep the solutions with their markers, as in nbgrader's sources, without hidden tests.

    The question is not needed: the signature is that of `hide_solutions`.
    """
    kept: list[str] = []
    for block in split_blocks(source):
        if block.kind == SOLUTION:
            kept += [block.marks[0], *block.lines, block.marks[1]]
        elif block.kind == OPEN:
            kept += block.lines
    return "\n".join(kept).strip("\n")


def keep_kinds(source: str, *kinds: str) -> str:
    """Return the lines of these kinds, without markers."""
    chosen = [block.text for block in split_blocks(source) if block.kind in kinds]
    return "\n".join(chosen).strip("\n")


def _check_pair(mark: re.Match[str], opened: re.Match[str] | None, number: int) -> None:
    if mark["side"] == "BEGIN" and opened is not None:
        raise ValueError(
            f"line {number}: regions may not be nested, but ### BEGIN {mark['kind']} is inside "
            f"another region; end that one first with ### END {opened['kind']}"
        )
    if mark["side"] == "END" and (opened is None or opened["kind"] != mark["kind"]):
        raise ValueError(
            f"line {number}: a region must begin and end in the same cell, but ### END "
            f"{mark['kind']} has no matching start; add ### BEGIN {mark['kind']}"
        )


def _make_region(begin: re.Match[str], end: re.Match[str], first: int, lines: list[str]) -> Block:
    marks = (begin.group().rstrip(), end.group().rstrip())
    return Block(begin["kind"], first, tuple(lines), begin["indent"], begin["stub"], marks)
