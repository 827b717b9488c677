"""The commands of grading: their output, and reliable exit codes."""

import csv
import json

import pytest

from press import cli, control_groups
from press.homework.grading import pool, results
from tests.homework.grading_case import CELLS, NAME, graded, in_process, private, write


@pytest.fixture
def graded_class(tmp_path, monkeypatch):
    """Results of ann, and of bob with a question that is not graded."""
    monkeypatch.chdir(tmp_path)
    faulty = private(test_q2="def test_q2(student, draw, given):\n    1 / 0")
    results.write_result(tmp_path / "results" / NAME, graded(write(tmp_path, "ann"), "ann"))
    results.write_result(tmp_path / "results" / NAME, graded(write(tmp_path, "bob"), "bob", faulty))
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
    # Bob is missing: something to look at, and the last line says it.
    assert cli.main([*collect, "--students", "class.csv"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"ann: lee_4711_1_{NAME}-1.ipynb (1 older left)",
        "not taken: photo.png: its name does not end in .ipynb or .py",
        "missing: bob",
        f"1 taken, 1 not taken, 1 missing; in out/{NAME}",
    ]
    assert cli.main([*collect[:4], "../x", *collect[5:]]) == 2
    (tmp_path / "class.csv").write_text("id,canvas\nann,4711\n", encoding="utf-8")
    (tmp_path / "inbox" / "photo.png").unlink()
    assert cli.main([*collect, "--students", "class.csv"]) == 0, "nobody is missing any more"


def test_collect_takes_the_short_name_that_a_release_has(tmp_path, monkeypatch, capsys):
    from press.commands import grading

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "inbox", "ann")
    collect = ["homework", "collect", "inbox", "--out", "out", "--homework"]
    monkeypatch.setattr(grading, "sources", lambda: {NAME: tmp_path, "hw9_other": tmp_path})
    assert cli.main([*collect, "hw8"]) == 0
    assert f"in out/{NAME}" in capsys.readouterr().out
    monkeypatch.setattr(grading, "sources", lambda: {})  # a homework of one's own
    private_half(tmp_path)
    assert cli.main([*collect, "hw8", "--release", "release"]) == 0
    assert f"in out/{NAME}" in capsys.readouterr().out
    assert cli.main([*collect, "mine"]) == 0
    assert "in out/mine" in capsys.readouterr().out


def private_half(folder, **changes):
    path = folder / "release" / "private" / f"{NAME}.json"
    path.parent.mkdir(parents=True)
    path.write_text(private(**changes).to_json(), encoding="utf-8")


def test_grade_says_each_score_the_mean_and_how_each_question_went(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    private_half(tmp_path)
    write(tmp_path / "out" / "hw8", "ann")  # collected under the short name
    stub = 'def shares(counts):\n    raise NotImplementedError("your turn: q2")\n'
    write(tmp_path / "out" / "hw8", "bob", [*CELLS, stub])
    monkeypatch.setattr(pool, "run_examiners", in_process)
    words = ["homework", "grade", "out", "--release", "release", "--out", "results"]
    monkeypatch.setattr(control_groups, "find_problem", lambda: "it is read-only")
    assert cli.main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ann: 5 of 5 (q1 3, q2 2)",
        "bob: 3 of 5 (q1 3, q2 not begun)",
        "mean: 4.0 of 5",
        "q1: mean 3.0 of 3, full points 100%, not begun 0%",
        "q2: mean 1.0 of 2, full points 50%, not begun 50%",
        f"2 graded, 0 kept; in results/{NAME}; the memory of a worker capped by its "
        "address space alone",
    ]


@pytest.mark.parametrize(
    ("students", "code", "said"),
    [
        (
            ("xa", "xb"),
            1,
            "was released to 2 students, such as xa, and none of the 2 who handed in",
        ),
        (("ann", "xb"), 1, "not on the roster of release: bob; they were graded"),
        (("ann", "bob"), 0, ""),
    ],
    ids=["another class", "one stranger", "this class"],
)
def test_grade_looks_whether_the_release_is_this_classs(
    tmp_path, monkeypatch, capsys, students, code, said
):
    monkeypatch.chdir(tmp_path)
    private_half(tmp_path, students=students)
    for name in ("ann", "bob"):
        write(tmp_path / "out" / NAME, name)
    monkeypatch.setattr(pool, "run_examiners", in_process)
    words = ["homework", "grade", "out", "--release", "release", "--out", "results"]
    assert cli.main(words) == code
    assert said in capsys.readouterr().err
    assert (tmp_path / "results").exists() == ("none of" not in said)


def test_a_file_that_is_no_submission_is_named_from_collecting_to_the_scores(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    private_half(tmp_path)
    other = json.loads(write(tmp_path / "inbox", "eve").read_text(encoding="utf-8"))
    other |= {"metadata": {"labkit": {"homework": "hw2_bugs"}}, "cells": other["cells"][:1]}
    (tmp_path / "inbox" / "eve.ipynb").write_text(json.dumps(other), encoding="utf-8")
    (tmp_path / "inbox" / "bob.ipynb").write_bytes(b"")
    write(tmp_path / "inbox", "ann")
    collect = ["homework", "collect", "inbox", "--homework", NAME, "--out", "out"]
    empty = (
        "a submission must not be empty, but this file is; save the notebook and hand it in again"
    )
    assert cli.main(collect) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "ann: ann.ipynb",
        f"bob: bob.ipynb (not readable: {empty})",
        "eve: eve.ipynb (another homework: hw2_bugs)",
    ]
    monkeypatch.setattr(pool, "run_examiners", in_process)
    grade = ["homework", "grade", "out", "--release", "release", "--out", "results"]
    assert cli.main(grade) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[:3] == [
        "ann: 5 of 5 (q1 3, q2 2)",
        "bob: 0 of 5 (not readable)",
        "eve: 0 of 5 (another homework: hw2_bugs)",
    ]
    way_out = "ask for another file, collect and grade again"
    assert told.err.splitlines()[-2:] == [
        f"labkit: another homework: hw2_bugs: eve; {way_out}",
        f"labkit: not readable: bob; {way_out}",
    ]
    assert cli.main(["homework", "gradebook", "results"]) == 1
    rows = csv.DictReader(capsys.readouterr().out.splitlines())
    assert [row["status"] for row in rows] == [
        "graded",
        "not readable",
        "another homework: hw2_bugs",
    ]


def test_a_homework_of_the_book_is_not_released_where_the_book_is_not(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["homework", "release", "hw1", "--out", "x"]) == 2
    assert capsys.readouterr().err == (
        "labkit: 'hw1' is a homework of the book, which is not here; run this command in a clone "
        "of its repository, or name a source of your own, such as homework/hw9_mine.py\n"
    )


def test_scores_with_an_open_question_are_written_and_red(graded_class, capsys):
    assert cli.main(["homework", "feedback", "results", "--out", "told"]) == 0
    assert (graded_class / "told").stat().st_mode & 0o777 == 0o700
    names = sorted(path.name for path in (graded_class / "told" / NAME).iterdir())
    assert names == ["ann.html", "ann.md", "bob.html", "bob.md"]
    assert cli.main(["homework", "gradebook", "results", "--out", "scores.csv"]) == 1
    assert "q2 is not graded for bob" in capsys.readouterr().err
    assert (graded_class / "scores.csv").stat().st_mode & 0o777 == 0o600
    with (graded_class / "scores.csv").open(newline="", encoding="utf-8") as file:
        assert [row["total"] for row in csv.DictReader(file)] == ["5", ""]
    assert cli.main(["homework", "gradebook", "results", "--homework", NAME]) == 1
    assert capsys.readouterr().out.startswith("student,q1,q2,total,max,status\n")


@pytest.mark.parametrize("seconds", ["0", "61"])
def test_the_limit_of_a_call_is_above_0_and_at_most_60_seconds(seconds, capsys):
    words = ["homework", "grade", "in", "--release", "gone", "--out", "x", "--seconds", seconds]
    assert cli.main(words) == 2
    assert "'--seconds': Input should be" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["feedback", "gone", "--out", "x"],
        ["gradebook", "results", "--homework", "other"],
        ["gradebook", "results", "--columns", "excel"],
        ["grade", "results", "--release", "gone", "--out", "x"],
        ["grade", "results", "--release", "gone", "--out", "x", "--jobs", "0"],
        ["gradebook", "results", "--marks", "gone.csv", "--out", "x"],
        ["marks", "gone", "--out", "x"],
    ],
)
def test_misuse_is_2_and_writes_nothing(graded_class, words, capsys):
    assert cli.main(["homework", *words]) == 2 and capsys.readouterr().err.startswith("labkit")
    assert not (graded_class / "x").exists()
