"""The commands of grading: what they print, and exit codes that a script can trust."""

import csv

import pytest

from press import cli
from press.homework.grading import results
from tests.homework.grading_case import NAME, graded, private, write


@pytest.fixture
def graded_class(tmp_path, monkeypatch):
    """Results of ann, and of bob with a question that is not graded."""
    monkeypatch.chdir(tmp_path)
    faulty = private(test_q2="def test_q2(student, draw, given):\n    1 / 0")
    results.write(tmp_path / "results" / NAME, graded(write(tmp_path, "ann"), "ann"))
    results.write(tmp_path / "results" / NAME, graded(write(tmp_path, "bob"), "bob", faulty))
    return tmp_path


def test_collect_reports_and_is_red_when_nothing_was_found(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class.csv").write_text("id,canvas\nann,4711\nbob,4712\n", encoding="utf-8")
    collect = ["homework", "collect", "inbox", "--homework", NAME, "--out", "out"]
    assert cli.main(collect) == 2  # no inbox
    (tmp_path / "inbox").mkdir()
    assert cli.main(collect) == 1
    write(tmp_path / "inbox", f"lee_4711_1_{NAME}")
    write(tmp_path / "inbox", f"lee_4711_1_{NAME}-1")
    (tmp_path / "inbox" / "photo.png").write_bytes(b"")
    capsys.readouterr()
    assert cli.main([*collect, "--students", "class.csv"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"ann: lee_4711_1_{NAME}-1.ipynb (1 older left)",
        "not taken: photo.png: its name does not end in .ipynb or .py",
        "missing: bob",
        f"1 taken, 1 not taken, 1 missing; in out/{NAME}",
    ]
    assert cli.main([*collect[:4], "../x", *collect[5:]]) == 2


def test_scores_with_an_open_question_are_written_and_red(graded_class, capsys):
    assert cli.main(["homework", "gradebook", "results", "--out", "scores.csv"]) == 1
    assert "q2 is not graded for bob" in capsys.readouterr().err
    assert (graded_class / "scores.csv").stat().st_mode & 0o777 == 0o600
    with (graded_class / "scores.csv").open(newline="", encoding="utf-8") as file:
        assert [row["total"] for row in csv.DictReader(file)] == ["5", ""]
    assert cli.main(["homework", "gradebook", "results", "--homework", NAME]) == 1
    assert capsys.readouterr().out.startswith("student,q1,q2,total,max,status\n")


def test_feedback_is_written_for_everybody(graded_class, capsys):
    assert cli.main(["homework", "feedback", "results", "--out", "told"]) == 0
    assert (graded_class / "told").stat().st_mode & 0o777 == 0o700
    names = sorted(path.name for path in (graded_class / "told" / NAME).iterdir())
    assert names == ["ann.html", "ann.md", "bob.html", "bob.md"]


@pytest.mark.parametrize(
    "words",
    [
        ["feedback", "gone", "--out", "x"],
        ["gradebook", "results", "--homework", "other"],
        ["gradebook", "results", "--columns", "excel"],
        ["grade", "results", "--release", "gone", "--out", "x", "--mode", "plain"],
        ["grade", "results", "--release", "gone", "--out", "x", "--jobs", "0"],
        ["grade", "results", "--release", "gone", "--out", "x", "--seconds", "0"],
        ["gradescope", "gone", "--out", "x.zip"],
    ],
)
def test_misuse_is_2_and_writes_nothing(graded_class, words, capsys):
    assert cli.main(["homework", *words]) == 2 and capsys.readouterr().err.startswith("labkit")
    assert not (graded_class / "x").exists()


def test_a_zip_for_gradescope_is_one_command(tmp_path, capsys):
    path = tmp_path / "release" / "private" / f"{NAME}.json"
    path.parent.mkdir(parents=True)
    path.write_text(private().to_json(), encoding="utf-8")
    words = ["homework", "gradescope", str(tmp_path / "release"), "--out", str(tmp_path / "a.zip")]
    assert cli.main(words) == 0
    assert "upload it as the autograder" in capsys.readouterr().out
    assert cli.main([*words, "--visibility", "always"]) == 2
