"""One submission: every file gets a result, and only final definitions count."""

import gzip
import json
import os

import pytest

from press.homework.grading import feedback, private_test, results
from press.homework.grading.digests import Grader, find_changes
from press.homework.grading.grade import grade_submission, list_asked_names
from tests.homework.grading_case import (
    CELLS,
    NAME,
    RMS,
    TEST_1,
    TEST_2,
    InProcess,
    graded,
    notebook,
    points,
    private,
    says,
    write,
)


def changed(old, new):
    return [cell.replace(old, new) for cell in CELLS]


def test_a_right_submission_has_all_points_and_nothing_to_read(tmp_path):
    result = graded(write(tmp_path, "ann"))
    assert points(result) == {"q1": 3, "q2": 2} and (result["total"], result["max"]) == (5, 5)
    assert says(result).strip() == ""


@pytest.mark.parametrize(
    ("cells", "earned", "told"),
    [
        (changed("dim=-1", "dim=0"), (0, 2), "Wrong values: shape and dtype fit. Is the mean"),
        (changed("EPS = 0.5", "EPS = 1.0"), (2, 2), "Is eps yours?"),
        (changed("return x /", "return 0 * x / 0 +"), (0, 2), "Not finite"),
        (changed("return x /", "return x[:2] /"), (0, 2), "an error: RuntimeError"),
        (changed("return x /", "return x.sum() +"), (0, 2), "Wrong shape"),
        (changed("return x /", "return x.double() /"), (0, 2), "Wrong dtype"),
        (changed("+ eps)", "+ eps)[None]"), (0, 2), "Wrong shape"),
        (changed("return [count / whole", "return [count * whole"), (3, 0), "They add up to 1."),
        (changed("[count / whole", "[1 / len(counts)"), (3, 1), "Wrong value in item 0"),
        (
            changed("def shares", "def shared"),
            (3, 0),
            "Not found: the submission must define shares",
        ),
        (changed("def total", "def totals"), (3, 0), "NameError"),
        (["x = 1"], (0, 0), "must define names that hw8_small asks for, but this file"),
        ([*CELLS, "def rms_norm(:"], (3, 2), "code cell 6, line 1 is not Python"),
        (
            [*changed("[count / whole", "[float(np.divide(count, whole))"), "import numpy as np\n"],
            (3, 0),
            "q2 imports numpy; this homework may import only torch, math and basic modules",
        ),
    ],
)
def test_wrong_submissions_have_partial_points_and_a_message(tmp_path, cells, earned, told):
    result = graded(write(tmp_path, "ann", cells))
    assert tuple(points(result).values()) == earned
    assert told in says(result)
    assert result["total"] == sum(earned)


NOT_NOTEBOOKS = {
    "empty": b"",
    "blanks": b" \n",
    "cut": notebook().encode()[:-40],
    "deep": b"[" * 100_000,
    "no-cells": b'{"metadata": {}}',
    "list": b"[1, 2]",
    "number": b"3",
    "nothing": json.dumps({"cells": [], "nbformat": 4}).encode(),
    "binary": bytes(range(256)) * 40,
    "gzip": gzip.compress(notebook().encode()),
    "utf-16": notebook().encode("utf-16"),
    "many": json.dumps({"cells": [{"cell_type": "code", "source": "x"}] * 2001}).encode(),
    "long": notebook(["x = 1\n" * 80_000]).encode(),
    "constant": b'{"cells": NaN}',
}


@pytest.mark.parametrize("kind", sorted(NOT_NOTEBOOKS))
def test_a_file_that_is_no_notebook_has_a_result_that_says_why(tmp_path, kind):
    path = tmp_path / "ann.ipynb"
    path.write_bytes(NOT_NOTEBOOKS[kind])
    result = graded(path)
    assert result["total"] == 0 and result["max"] == 5
    assert [each["failure"] for each in result["questions"]] == ["unreadable"] * 2
    (problem,) = result["problems"]
    assert "file" in problem or "code cells" in problem
    assert result["status"] == "not readable"
    told = feedback.write_markdown(result)
    assert "0 of 5 points" in told and told.count("Your file was not graded: ") == 1


def test_another_homeworks_notebook_is_named_unless_it_answers_this_one(tmp_path):
    def handed_in(cells, homework):
        return graded(write(tmp_path, "ann", cells, homework=homework))

    other = handed_in([RMS, "import torch"], "hw2_find_the_bug")
    assert (other["total"], other["status"]) == (0, "another homework: hw2_find_the_bug")
    said = (
        "a submission of hw8_small must be the notebook of hw8_small, but this is the notebook of "
        "hw2_find_the_bug; hand in the right one"
    )
    assert f"\n\nYour file was not graded: {said}.\n" in feedback.write_markdown(other)
    for name in ("hw2_find_the_bug", NAME, 3):
        assert (handed_in(CELLS, name)["total"], handed_in(CELLS, name)["status"]) == (5, "")
    assert graded(write(tmp_path, "bob", ["x = 1"]))["status"] == "another homework?"
    assert handed_in(["x = 1"], NAME)["status"] == "", "its cells were deleted"


def test_links_pipes_folders_and_giants_are_no_submissions(tmp_path):
    write(tmp_path, "bob")
    with (tmp_path / "large.ipynb").open("wb") as file:
        file.truncate(100_000_000)
    assert "at most 20 MB, but this one has 100 MB" in says(graded(tmp_path / "large.ipynb"))
    (tmp_path / "ann.ipynb").symlink_to("bob.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    for name in ("ann", "pipe", "folder", "gone"):
        assert graded(tmp_path / f"{name}.ipynb")["questions"][0]["failure"] == "unreadable"


# The probes' own texts name what other questions ask for.
PROBES = """def probe_rms(student, x):
    return [student.rms_norm(x), ("rms_norm", "shares")]


def probe_value(student, name):
    return getattr(student, name)
"""
PROBING = """def test_q1(student, draw, given):
    got = student.probe("probe_value", "BATCHES")
    yield part("one", 3, holds(got, lambda v: v == 2))
"""
CALLING = """def test_q2(student, draw, given):
    got = student.call("shares", [1, 1])
    yield part("one", 2, holds(got, lambda v: v == [0.5, 0.5]))
"""


def test_an_import_is_blamed_on_the_questions_that_use_it_and_no_other(tmp_path):
    homework = private(probes=PROBES, test_q1=PROBING, test_q2=CALLING)
    cells = [
        *CELLS,
        "import os\nimport numpy as np",
        "BATCHES = int(np.ceil(1.5))",
        "def rms_norm(x):\n    return os.getcwd(), BATCHES\n",
    ]
    result = graded(write(tmp_path, "ann", cells), homework=homework)
    assert [problem.partition(";")[0] for problem in result["problems"]] == ["q1 imports numpy, os"]
    # What a probe asks for and cannot have is told by the import, and not by the probe's error.
    (missed,) = result["questions"][0]["parts"]
    assert missed["says"].startswith("Your code imports what this homework does not allow")
    assert "numpy" in missed["says"] and "SimpleNamespace" not in missed["says"]
    assert points(result)["q2"] == 2


def test_a_statement_that_does_not_count_is_named_where_a_question_needs_its_name(tmp_path):
    cells = [*CELLS, "shares.rounds = 0\nprint(shares.rounds)", "unasked = 0\nunasked += 1\n"]
    result = graded(write(tmp_path, "ann", cells))
    (problem,) = result["problems"]
    assert problem.endswith("plain assignments at top level do")
    assert "'shares.rounds = 0' does not count for shares" in problem


@pytest.mark.parametrize(
    "stub",
    [
        'def shares(counts):\n    raise NotImplementedError("your turn: q2")\n',
        "shares = ...\n",
        "def shares(counts):\n    raise RuntimeError(repr(NotImplementedError('your turn: q2')))\n",
        "ANSWER = ...\ndef shares(counts):\n    return ANSWER\n",
    ],
)
def test_an_untouched_question_is_not_begun_and_no_error(tmp_path, stub):
    result = graded(write(tmp_path, "ann", [*CELLS, stub]))
    assert points(result) == {"q1": 3, "q2": 0}
    assert [each["failure"] for each in result["questions"]] == ["", "not begun"]
    assert "error" not in says(result) and "Not begun" in says(result)
    told = feedback.write_markdown(result)
    assert "You have not begun this question" in told and "NotImplementedError" not in told


def test_a_question_that_is_half_begun_is_not_called_untouched(tmp_path):
    half = (
        "def shares(counts):\n    return [1.0] if len(counts) > 9 else later(counts)\n"
        "def later(counts):\n    raise ValueError(counts)\n"
    )
    result = graded(write(tmp_path, "ann", [*CELLS, half]))
    assert result["questions"][1]["failure"] == "raised"


def test_damaged_cells_are_named_and_the_others_count(tmp_path):
    told = json.loads(notebook())
    told["cells"] += [3, {"cell_type": "code", "source": {"a": 1}}, {"cell_type": "raw"}, {}]
    path = tmp_path / "ann.ipynb"
    path.write_text(json.dumps(told), encoding="utf-8")
    result = graded(path)
    assert result["total"] == 5
    assert result["problems"] == [
        "cell 6 of the file is damaged and was left out",
        "cell 7 of the file is damaged and was left out",
    ]


def test_cells_of_lines_and_python_files_are_read(tmp_path):
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in CELLS]
    old = tmp_path / "lines.ipynb"
    old.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    plain = tmp_path / "plain.py"
    plain.write_text("\n".join(CELLS), encoding="utf-8")
    percent = tmp_path / "percent.py"
    titled = "".join(f"#%% Question [{n}]\n{cell}" for n, cell in enumerate(CELLS))
    marked = f"# %% [markdown]\n# no Python here: (\n{titled}"
    percent.write_text(f"\ufeff{marked}", encoding="utf-8")
    for path in (old, plain, percent):
        result = graded(path)
        assert (result["total"], result["problems"]) == (5, []), path.name


def test_a_faulty_test_takes_no_points_and_is_named(tmp_path):
    path = write(tmp_path, "ann")
    for test, reason in [
        (TEST_2.replace("sum(counts)", "sum(4)"), "is not iterable, at 'yield part("),
        (
            TEST_2.replace('"one", 1', '"one", 2'),
            "must yield parts of 2 points in total, but yielded 3",
        ),
        (TEST_2.replace('"one"', '"shares"'), "but two have the same"),
        ("def test_q2(student, draw, given):\n    return []", "must yield at least one part"),
    ]:
        result = graded(path, homework=private(test_q2=test))
        assert points(result) == {"q1": 3, "q2": None} and result["total"] is None
        question = result["questions"][1]
        assert question["failure"] == results.NOT_GRADED
        assert reason in question["reason"] and "q2" in question["reason"]


HANGS = """def test_q1(student, draw, given):
    while True:
        try: pass
        except Exception: pass
    yield"""


@pytest.mark.parametrize(
    ("test", "said"),
    [("def test_q1(:", "raised SyntaxError"), (HANGS, r"must end within 0\.2 s")],
    ids=["no Python", "hangs"],
)
def test_a_test_without_an_end_or_no_python_is_faulty(test, said, monkeypatch):
    monkeypatch.setattr(private_test, "TEST_SECONDS", 0.2)
    with pytest.raises(private_test.Faulty, match=said):
        private_test.run_private_test(test, "q1", InProcess(), None, {})  # pyright: ignore


def test_a_question_is_judged_again_only_where_something_changed(tmp_path):
    asked = []

    class Counting(InProcess):
        def open_worker(self, program, probes=""):
            asked.append("shares" if "def shares" in program else "rms_norm")
            return super().open_worker(program, probes)

    def again(path, homework, before, code="1"):
        asked.clear()
        return grade_submission(path, "ann", Counting(), Grader(homework, code), before)

    homework = private()
    path = write(tmp_path, "ann")
    first = again(path, homework, None)
    assert asked == ["rms_norm", "shares"]
    assert again(path, homework, first) == first and not asked
    write(tmp_path, "ann", changed("[count /", "[1.0 * count /"))
    assert again(path, homework, first)["total"] == 5 and asked == ["shares"]
    write(tmp_path, "ann")
    mended = private(test_q1=TEST_1.replace("0.25", "0.125"))
    assert again(path, mended, first)["total"] == 5 and asked == ["rms_norm"]
    assert again(path, homework, first, code="2")["total"] == 5 and len(asked) == 2
    faulty = again(path, private(test_q1="def test_q1(student, draw, given):\n    yield 1"), first)
    assert again(path, homework, faulty)["total"] == 5 and asked == ["rms_norm"]


def test_a_students_own_numbers_are_drawn_by_the_roster(tmp_path):
    homework = private(variants={"EPS": "draw.choice([0.1, 0.9])"}, students=("ann", "bob"))
    from press.homework.variants import draw_variants

    mine = draw_variants(homework, "ann")["EPS"]
    assert mine != draw_variants(homework, "bob")["EPS"]
    path = write(tmp_path, "ann", changed("EPS = 0.5", f"EPS = {mine}"))
    assert graded(path, "ann", homework)["total"] == 5
    assert points(graded(path, "bob", homework))["q1"] == 2
    assert "not on the roster" in says(graded(path, "eve", homework))


def test_what_a_part_is_called_makes_no_code_of_a_student_run(tmp_path):
    cells = [*CELLS, "values = 1 / 0\ndefault = values\none = [0] * 10**12\n"]
    (question, _) = private().questions
    assert list_asked_names(question, "def probe_a(student):\n    return student.Norm") >= {
        "rms_norm",
        "Norm",
    }
    assert not list_asked_names(question, "") & {"values", "default"}
    assert graded(write(tmp_path, "ann", cells))["total"] == 5


def test_a_change_says_whether_the_submission_the_test_or_the_grader_made_it(tmp_path):
    def told(homework, before, code="1"):
        after = graded(path, homework=homework, before=before, code=code)
        return find_changes(before, after), after

    path = write(tmp_path, "ann", changed("[count / whole", "[1 / len(counts)"))
    none, first = told(private(), None)
    assert none == []
    write(tmp_path, "ann")
    better, second = told(private(), first)
    path.write_bytes(b"")
    (worse, *_), empty = told(private(), second)
    assert worse == "ann: q1 3/3 -> 0/3 (the submission changed)"
    write(tmp_path, "ann")
    (again, *_), _ = told(private(), empty)
    assert again == "ann: q1 0/3 -> 3/3 (the submission changed)"
    assert better == ["ann: q2 1/2 -> 2/2 (the submission changed)"]
    harder = private(
        test_q2=TEST_2.replace("< 1e-6", "< -1").replace('"shares", counts', '"total"')
    )
    assert told(harder, second)[0] == ["ann: q2 2/2 -> 0/2 (the test changed)"]
    assert told(private(), second, code="2")[0] == []
    gone = private(questions=private().questions[:1])
    assert told(gone, second)[0] == ["ann: q2 2/2 -> gone (the test changed)"]
