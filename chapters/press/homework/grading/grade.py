"""Grade one submission: each question separately, in a fresh worker, from final definitions."""

import ast
import re
from collections.abc import Collection
from pathlib import Path

from labkit.system.time_limit import TooLong, at_most
from press.homework.definitions import Definitions, Program, read_definitions
from press.homework.draw import Draw
from press.homework.grading import results, submission
from press.homework.grading.digests import Grader, digest_file, digest_values
from press.homework.grading.private_test import Faulty, run_private_test
from press.homework.grading.results import (
    BY_HAND,
    NOT_GRADED,
    UNREADABLE,
    Result,
    make_question,
    plain_number,
)
from press.homework.private import Private, Question
from press.homework.sandbox import Sandbox
from press.homework.sandbox.inside.imports import SAFE
from press.homework.verdicts import NOT_BEGUN

READ_SECONDS = 30.0
NAME = re.compile(r"[A-Za-z_]\w*")


def grade_submission(
    path: Path, student: str, workers: Sandbox, grader: Grader, before: Result | None = None
) -> Result:
    """Return the result of one file. Questions with the digests of `before` are copied from it."""
    private, status = grader.private, ""
    digest = grader.digest_submission(path, student)
    try:
        handed_in, found, programs = _read_programs(path, private)
    except submission.Unreadable as error:
        problems, status = [str(error)], error.status
        questions = [_make_unread_question(each, path, grader) for each in private.questions]
    else:
        problems = [*handed_in.problems, *found.problems]
        questions = []
        for each, program in zip(private.questions, programs, strict=True):
            if not each.test:
                answer = handed_in.answers.get(each.id, "")
                questions.append(make_question(each, [], BY_HAND, answer=answer))
                continue
            if refused := _name_refused_imports(found.list_imports(each.wanted), private):
                problems.append(f"{each.id} {refused}")
            problems += [said for said in program.left_out if said not in problems]
            questions.append(_grade_question(each, program, student, workers, grader, before))
    if private.students and student not in private.students:
        problems.append(f"{student} is not on the roster of the release")
    return results.make_result(
        private,
        student,
        path,
        questions,
        problems,
        status,
        sha256=digest_file(path),
        digest=digest,
    )


def list_asked_names(one: Question, probes: str) -> set[str]:
    """Return the names of a submission that a question may use.

    These are the names its solution defines, those that its test writes as a text (but for what its
    parts are called and say), and those that a probe takes as `student.NAME` or as a text.
    """
    names = set(one.wanted)
    for source in (one.test, probes):
        waiting: list[ast.AST] = [ast.parse(source)]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= {node.value} if NAME.fullmatch(node.value) else set()
            elif isinstance(node, ast.Attribute) and source is probes:
                names.add(node.attr)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "part":
                waiting += node.args[1:]  # the verdict may ask for a name
            else:
                waiting += ast.iter_child_nodes(node)
    return names


def _read_programs(
    path: Path, private: Private
) -> tuple[submission.Submission, Definitions, list[Program]]:
    """Return the submission, its definitions, and the program that each question needs.

    Unreadable where there is nothing to grade.
    """
    asked = {name for each in private.questions for name in each.wanted}
    try:
        with at_most(READ_SECONDS):
            handed_in = submission.read_submission(path)
            found = read_definitions(handed_in.cells)
            submission.check_homework(handed_in, private.homework, asked, found.last.keys())
            names = [list_asked_names(each, private.probes) for each in private.questions]
            return handed_in, found, [found.build_program(each) for each in names]
    except TooLong:
        raise submission.Unreadable(
            f"a file must be readable within {READ_SECONDS:g} s, but this one was not; remove "
            "code that no question needs"
        ) from None


def _name_refused_imports(imported: Collection[str], private: Private) -> str:
    """Report forbidden packages that a question's code imports; "" if there are none."""
    refused = sorted(set(imported) - SAFE - set(private.packages) - {""})
    if not refused:
        return ""
    return (
        f"imports {', '.join(refused)}; this homework may import only "
        f"{', '.join(private.packages)} and basic modules of Python such as math"
    )


def _grade_question(
    one: Question,
    program: Program,
    student: str,
    workers: Sandbox,
    grader: Grader,
    before: Result | None,
) -> Result:
    private = grader.private
    numbers = grader.draw_numbers(student)
    digests = grader.digest_question(one, digest_values(program.text, numbers))
    for old in before["questions"] if before else []:
        if old["id"] == one.id and old.get("digests") == digests and not old["reason"]:
            return old
    try:
        with workers.open_worker(program.text, private.probes) as worker:
            judged = run_private_test(one.test, one.id, worker, make_draw(private, one), numbers)
        most = sum(each.points for each in judged)
        if abs(most - one.points) > 1e-6:
            raise Faulty(
                f"the private test of {one.id} must yield parts of {one.points} points in total, "
                f"but yielded {plain_number(most)}"
            )
    except Faulty as error:
        return make_question(one, [], NOT_GRADED, str(error), digests)
    told = [
        {
            "name": each.name,
            "points": plain_number(each.points if each.verdict.ok else 0),
            "max": plain_number(each.points),
            "says": each.message,
        }
        for each in judged
    ]
    failures = [each.verdict.failure for each in judged if not each.verdict.ok]
    failure = next((each for each in failures if each not in ("", NOT_BEGUN)), "")
    if failures == [NOT_BEGUN] * len(judged):
        failure = NOT_BEGUN
    return make_question(one, told, failure, digests=digests)


def make_draw(private: Private, one: Question) -> Draw:
    """Seed with the test's source too, so that only its owner can draw the same numbers."""
    return Draw(f"{private.seed}/{private.homework}/{one.id}/{digest_values(one.test)}")


def _make_unread_question(one: Question, path: Path, grader: Grader) -> Result:
    said = "The file was not graded."
    told = [
        {"name": each.name, "points": 0, "max": plain_number(each.points), "says": said}
        for each in grader.private.rubric
        if each.question == one.id
    ]
    return make_question(
        one, told, UNREADABLE, digests=grader.digest_question(one, digest_file(path))
    )
