"""Find the mistakes in a homework's source: one sentence for each, with its line.

What a run shows (points that differ, tests and checks that fail) is in press.homework.rehearsal.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from press.homework import regions, settings, variants
from press.homework.cells import OF_A_QUESTION, ROLES, WITH_POINTS, Cell
from press.homework.regions import HIDDEN, OPEN, SOLUTION
from press.homework.statements import Statement, list_defined, read_cell

TAGS = (
    "homework, variant, solution:q1, test:q1 with points:2, probe:q1, and answer:q2 with points:2 "
    "for what is marked by hand"
)
QUESTION = re.compile(r"[a-z][a-z0-9]*")


def find_mistakes(cells: Sequence[Cell]) -> list[str]:
    """List the mistakes by line; empty if there are none."""
    found = [mistake for cell in cells for mistake in _check_tags(cell)]
    found += [mistake for cell in cells for mistake in _check_regions(cell)]
    found = found or [*_check_questions(cells)]
    if found:
        return found  # what follows relies on tags and regions
    for check in (_check_settings, _check_names, _check_variants):
        found += check(cells)
    for cell in cells:
        if cell.kind == "code":
            found += _check_python(cell)
    return found


def _check_tags(cell: Cell) -> Iterator[str]:
    where = f"line {cell.line}: "
    roles = []
    for tag in cell.tags:
        word, _, rest = tag.partition(":")
        named = QUESTION.fullmatch(rest) if word in OF_A_QUESTION else not rest
        if word in ROLES and named:
            roles.append(word)
        elif word == "points" and re.fullmatch(r"[1-9][0-9]*", rest):
            continue
        elif word == "points":
            yield f"{where}points must be a whole number of at least 1, as in points:2; got {tag!r}"
        else:
            yield f"{where}unknown tag {tag!r}; a homework's tags are {TAGS}"
    points = sum(tag.startswith("points:") for tag in cell.tags)
    if len(roles) > 1:
        yield f"{where}a cell may have only one role, but is tagged {', '.join(roles)}; split it"
    elif roles and cell.kind != "code" and roles != ["answer"]:
        yield f"{where}only a code cell can be tagged {roles[0]}, but this is a {cell.kind} cell"
    elif roles and roles[0] in WITH_POINTS and points != 1:
        tag = next(tag for tag in cell.tags if tag.startswith(roles[0]))
        yield f"{where}a cell tagged {tag!r} must have points; add one tag such as points:2"
    elif points and not (roles and roles[0] in WITH_POINTS):
        yield (
            f"{where}only a test, or an answer that is marked by hand, may have points; move the "
            "tag to the question's test:… cell"
        )


def _check_regions(cell: Cell) -> Iterator[str]:
    try:
        found = regions.split_blocks(cell.source, cell.line)
    except ValueError as error:
        yield str(error)
        return
    kinds = Counter(block.kind for block in found)
    for kind, roles in ((SOLUTION, ("solution", "answer")), (HIDDEN, ("test",))):
        place = next((block.number - 1 for block in found if block.kind == kind), cell.line)
        if kinds[kind] and cell.role not in roles:
            yield (
                f"line {place}: ### BEGIN {kind} must be in a cell tagged {roles[0]}:…, but is "
                "not; tag the cell, or the lines would reach the students"
            )
        elif cell.role in roles and not kinds[kind]:
            yield (
                f"line {place}: a cell tagged {cell.role}:… must have ### BEGIN {kind} … ### END "
                f"{kind}, but this one has none"
            )
    if kinds[HIDDEN] > 1:
        yield f"line {cell.line}: a test cell may have only one region of hidden tests; join them"
    for block in found:
        if block.kind != OPEN and not block.text.strip():
            yield f"line {block.number}: a region must have text; write the {block.kind.lower()}"


def _check_settings(cells: Sequence[Cell]) -> Iterator[str]:
    try:
        settings.read_settings(cells)
    except (ValueError, StopIteration) as error:
        yield str(error) or "a homework must have code cells, but this file has none"


def _check_questions(cells: Sequence[Cell]) -> Iterator[str]:
    tests = Counter(cell.question for cell in cells if cell.role == "test")
    answers = Counter(cell.question for cell in cells if cell.role == "solution")
    by_hand = Counter(cell.question for cell in cells if cell.role == "answer")
    seen: Counter[str] = Counter()
    for cell in cells:
        where, name = f"line {cell.line}: ", cell.question
        seen[name] += cell.role == "test"
        if cell.role == "solution" and not tests[name]:
            yield (
                f"{where}a question with a solution must have a test; "
                f"add a cell tagged test:{name}, points:…"
            )
        if cell.role == "test" and not answers[name]:
            yield f"{where}every test must have a solution; add a cell tagged solution:{name}"
        if cell.role == "test" and seen[name] > 1:
            yield f"{where}a question may have only one test, but {name} has two; join them"
        if cell.role == "probe" and not tests[name]:
            yield (
                f"{where}a probe's question must have a test, but {name} has none; "
                "correct the probe's tag"
            )
        if cell.role == "answer" and by_hand[name] + tests[name] + answers[name] > 1:
            yield (
                f"{where}a question marked by hand may have only one cell, but {name} has more; "
                "rename one"
            )
    if not tests and not answers and not by_hand:
        yield "line 1: a homework must have questions; tag cells solution:q1 and test:q1, points:2"


def _check_names(cells: Sequence[Cell]) -> Iterator[str]:
    """Only the last definition of a name counts, so no other cell may define it again."""
    defining = [
        (name, cell)
        for cell in cells
        if cell.kind == "code" and not _check_python(cell)
        for name in dict.fromkeys(list_defined(regions.keep_kinds(cell.source, OPEN, SOLUTION)))
    ]
    defining.sort(key=lambda pair: pair[0])
    for (name, first), (again, cell) in pairwise(defining):
        if name == again and "solution" in (first.role, cell.role):
            yield (
                f"line {cell.line}: {name} is defined here and in the cell of line {first.line}, "
                "and only the last definition is graded; give one of them another name"
            )


def _check_variants(cells: Sequence[Cell]) -> Iterator[str]:
    for cell in cells:
        if cell.role == "variant" and not _check_python(cell):
            try:
                variants.read_sources(cell.source, cell.line)
            except ValueError as error:
                yield str(error)


def _check_python(cell: Cell) -> list[str]:
    """Return where a cell is not valid Python: as written, for the student, or its hidden test.

    A hidden test may do nothing but define, for other tests may take its definitions.
    """
    versions = {
        "this cell": regions.keep_kinds(cell.source, OPEN, SOLUTION, HIDDEN),
        "the student's version of this cell": regions.hide_solutions(cell.source, cell.question),
        "the hidden test of this cell": regions.keep_kinds(cell.source, HIDDEN),
    }
    for name, source in versions.items():
        try:
            ast.parse(source)
        except SyntaxError as error:
            line = (error.text or "").strip()
            return [
                f"line {cell.line}: {name} is not Python ({error.msg} in {line!r}); regions "
                "must leave whole statements on both sides"
            ]
    for node in ast.parse(versions["the hidden test of this cell"]).body:
        text = ast.unparse(node)
        if not any(isinstance(each, Statement) for each in read_cell(text)):
            return [
                f"line {cell.line}: a hidden test may have only imports, functions, classes and "
                f"plain assignments at top level, as a submission may, got {text!r}; put it into "
                f"test_{cell.question}"
            ]
    return []
