"""A release is refused for errors in a rehearsal, leaks, and folders that are not empty."""

import sys

import pytest

from press.book.files import Red
from press.homework.release import write_release
from tests.homework.release_toy import files_of, write

# What a run alone can show.
FAULTS = {
    "a reference that is wrong": (
        [("x * FACTOR", "x * FACTOR + x * 0.5"), ("times(1) == FACTOR", "times(0) == 0")],
        "part 'seven' of q1 fails on the key",
    ),
    "a public check that fails on the key": (
        [("Scale(2)(3) == 6", "Scale(2)(3) == 7")],
        "the public checks of q2 must pass on the key, but they say: q2: the check does not hold",
    ),
    "a key that does not run": (
        [("import math\n", "import math\n\nmath.sqrt(-1)\n")],
        "the key must run, but this cell raised ValueError: ",
    ),
    "a public check that raises where nothing is answered": (
        [("lambda: Scale(2)(3) == 6", "Scale(2)(3) == 6")],
        "on the untouched notebook the checks of q2 raise NotImplementedError: your turn: q2; pass "
        "functions to public()",
    ),
    "a cell that an answer's absence breaks": (
        [('# %% tags=["probe:q2"]', '# %%\nScale(2).by + 1\n\n# %% tags=["probe:q2"]')],
        "in the untouched notebook this cell raises TypeError",
    ),
    "a hidden test that raises": (
        [("by = draw.integers(3, 90)", "by = draw.integers(90)")],
        "on the key, the private test of q2 must not raise an error, but raised TypeError",
    ),
    "a hidden test that an answer's absence breaks": (
        [("    by = draw", "    student.call('times', 1).value + 1\n    by = draw")],
        "where nothing is answered yet, the private test of q2",
    ),
    "points for nothing": (
        [('student.call("times", 0), 0)', "0, 0)")],
        "part 'zero' of q1 is earned by the untouched notebook",
    ),
    "a hidden test of another name": (
        [("def test_q1", "def test_one")],
        "must define `def test_q1(student, draw, given)`",
    ),
    "a probe without its student": (
        [("probe_scaled(student, by, x)", "probe_scaled(by, x)")],
        "part 'scaled' of q2 fails on the key",
    ),
    "no public check": (
        [('public("q2", lambda: Scale(2)(3) == 6)', "Scale")],
        "the public checks of q2 must pass on the key, but they say: nothing",
    ),
    "a line that the prose gives away": (
        [("Now `times`", "Write answer_of_q1 = x * FACTOR. Now `times`")],
        "line {leak}, of a solution, appears in student/hw9_toy.ipynb",
    ),
    "a line that an open cell gives away": (
        [("import math\n", "import math\n\nx = 2\nFACTOR = 3\nanswer_of_q1 = x * FACTOR\n")],
        "(the source shows it on line {shown})",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_named_and_nothing_is_written(kind, tmp_path):
    changes, said = FAULTS[kind]
    path = write(tmp_path, *changes)
    rows = path.read_text().split("\n")
    leak = next((n for n, row in enumerate(rows, 1) if row.startswith("    answer_of_q1")), 0)
    shown = next((n for n, row in enumerate(rows, 1) if row.startswith("answer_of_q1")), 0)
    with pytest.raises(Red) as caught:
        write_release(path, tmp_path / "out")
    assert said.format(leak=leak, shown=shown) in str(caught.value)
    assert "hw9_toy.py, line " in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["hw9_toy.py"], "nothing half done"


SLOW = """import math

from labkit.check.report import Law, Report

SEEN = []


def slow(times):
    SEEN.append(0)
    late = Law("b", False, "", "no result within 8 seconds on a small input; stopped")
    return Report("check.f", (Law("a", True), *([late] if len(SEEN) < times else [])))
"""


@pytest.mark.parametrize(("times", "warnings"), [(2, 0), (9, 1)], ids=["once", "every time"])
def test_checks_that_run_out_of_time_are_tried_again_and_then_a_warning(times, warnings, tmp_path):
    check = f"lambda: slow({times}) if Scale(2)(3) == 6 else False"
    path = write(tmp_path, ("import math\n", SLOW), ("lambda: Scale(2)(3) == 6", check))
    done = write_release(path, tmp_path / "out")
    assert len(done.warnings) == warnings
    assert all("the public checks of q2 ran out of time on the key" in w for w in done.warnings)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    path = write(tmp_path)
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part/junk").write_text("what a kill left")
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    write_release(path, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "disk/private").is_dir()
    for name, said in (("a", "empty"), ("b", "empty"), ("link", "empty"), ("file", "is a file")):
        with pytest.raises(ValueError, match=said):
            write_release(path, tmp_path / name)
    with pytest.raises(Red, match="must be a writable folder"):
        write_release(path, tmp_path / "file" / "out")
    assert (tmp_path / "a/thesis.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"
    write_release(path, tmp_path / "out")
    assert "junk" not in files_of(tmp_path / "out") and not (tmp_path / ".out.part").exists()


def test_without_nbformat_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nbformat", None)
    with pytest.raises(ValueError, match="norm-lab-book\\[book\\]"):
        write_release(write(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
