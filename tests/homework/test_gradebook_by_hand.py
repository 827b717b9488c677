"""Marks and comments given by hand, extensions, penalties, and where they appear."""

import csv
import json
import os
import shlex
import zipfile
from datetime import UTC, datetime

import nbformat
import pytest

from press import cli
from press.homework.grading import feedback, gradebook, marks, results
from press.homework.private import Question
from tests.homework.grading_case import CELLS, NAME, graded, notebook, private, write

QUESTIONS = (*private().questions, Question("q3", 4, "", ()))
PROSE = "It scales.\n\n=1+1"


def handed_in(folder, student, when, prose=PROSE):
    """Return a notebook with an answer in prose, with a given time of change."""
    told = json.loads(notebook([*CELLS, "answer"]))
    told["cells"][-1] |= {
        "cell_type": "markdown",
        "source": prose,
        "metadata": {"nbgrader": {"grade_id": "q3"}},
    }
    path = folder / f"{student}.ipynb"
    path.write_text(json.dumps(told), encoding="utf-8")
    seconds = datetime.fromisoformat(when).timestamp()
    os.utime(path, (seconds, seconds))
    return path


@pytest.fixture
def marked_class(tmp_path, monkeypatch):
    """Write the results of ann in time, bob two days late with an extension, cem two days late."""
    monkeypatch.chdir(tmp_path)
    homework = private(questions=QUESTIONS)
    times = {"ann": "2026-12-01 10:00", "bob": "2026-12-03 10:00", "cem": "2026-12-03 10:00"}
    found = [graded(handed_in(tmp_path, s, when), s, homework) for s, when in times.items()]
    for each in found:
        results.write_result(tmp_path / "results" / NAME, each)
    roster = "id,name,extension hw8\nann,Ann,\nbob,Bob,2\ncem,Cem,0.5\n"
    (tmp_path / "class.csv").write_text(roster, encoding="utf-8")
    return found


def test_what_a_person_marks_is_open_and_no_fault(marked_class):
    ann, *_ = marked_class
    assert (ann["total"], ann["max"]) == (None, 9)
    assert results.list_open_questions(ann) == ["to mark by hand: q3"]
    assert ann["questions"][2]["answer"] == PROSE
    told = feedback.write_markdown(ann)
    assert "5 of 5 points so far; 9 when" in told and "This question is marked by hand" in told


def test_a_hostile_answer_is_text_that_files_and_screens_can_take(tmp_path):
    prose = "half a pair \ud800, \x1b[2J, " + 50_000 * "x" + "\nend"
    path = handed_in(tmp_path, "eve", "2026-12-01 10:00", prose)
    told = json.loads(path.read_text(encoding="utf-8"))
    odd = {"cell_type": "markdown", "source": "x", "metadata": {"nbgrader": {"grade_id": [[3]]}}}
    path.write_text(json.dumps({**told, "cells": [odd, *told["cells"]]}), encoding="utf-8")
    result = graded(path, "eve", private(questions=QUESTIONS))
    answer = result["questions"][2]["answer"]
    assert answer.startswith("half a pair  ,  [2J, xxx") and len(answer) <= 20_000
    results.write_result(tmp_path / "results", result)
    marks.write_marks(tmp_path / "marks.csv", marks.list_answers([result], {})[0])
    assert marks.list_answers([result], marks.read_marks(tmp_path / "marks.csv"))[1] == []


WORDS = shlex.split(
    "homework marks results --out marks.csv --students class.csv --due '2026-12-01 23:59' --late 10"
)


def fill(rows):
    """Write the marks as European spreadsheets do."""
    with open("marks.csv", "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)


def read_rows():
    with open("marks.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("marked_class")
def test_marks_extensions_and_penalties_go_through_one_table(tmp_path, capsys):
    assert cli.main(WORDS) == 1
    assert "to be marked by hand: ann, bob, cem" in capsys.readouterr().err
    assert (tmp_path / "marks.csv").stat().st_mode & 0o777 == 0o600
    rows = read_rows()
    asked = [f"{row['student']} {row['question']}" for row in rows]
    assert asked == ["ann q3", "bob q3", "cem q3", "cem late"]
    assert {(row["answer"], row["max"]) for row in rows[:3]} == {(PROSE, "4")}

    given = {"ann": ("3,5", "=Good"), "bob": ("0", ""), "cem": ("1", "")}
    for row in rows[:3]:
        row["points"], row["comment"] = given[row["student"]]
    fill(rows)
    assert cli.main(WORDS) == 0
    assert "4 rows; in marks.csv" in capsys.readouterr().out
    assert read_rows()[0]["points"] == "3.5", "a spreadsheet's comma"
    assert cli.main(["homework", "gradebook", "results", "--marks", "marks.csv"]) == 0
    # Half a day more leaves cem one day begun; the points of the others are whole.
    assert capsys.readouterr().out.splitlines() == [
        "student,q1,q2,q3,late,total,max,status",
        "ann,3,2,3.5,0,8.5,9,graded",
        "bob,3,2,0,0,5,9,graded",
        "cem,3,2,1,-0.9,5.1,9,graded",
    ]
    feedback_words = ["homework", "feedback", "results", "--marks", "marks.csv", "--out", "told"]
    assert cli.main(feedback_words) == 0
    for student, said in (
        ("ann", "3.5 of 4 points\n\n=Good\n"),
        ("cem", "0.9 of your points lost because it was late"),
    ):
        assert said in (tmp_path / f"told/{NAME}/{student}.md").read_text(encoding="utf-8")

    # Another answer of hers after the mark: somebody must look again. Hers is said once.
    prose = handed_in(tmp_path, "ann", "2026-12-01 12:00", "It does not.")
    homework = private(questions=QUESTIONS)
    results.write_result(tmp_path / "results" / NAME, graded(prose, "ann", homework))
    for said in (True, False):
        assert cli.main(WORDS) == 0
        assert ("marked by hand: ann\n" in capsys.readouterr().out) == said
    assert read_rows()[0]["answer"] == "It does not." and read_rows()[0]["points"] == "3.5"


def test_points_by_hand_replace_those_of_a_test_and_are_said(marked_class, tmp_path):
    ann, *_ = marked_class
    table = {("ann", NAME, "q1"): marks.Mark(1.0), ("ann", NAME, "q3"): marks.Mark(0.0)}
    marks.write_marks(tmp_path / "marks.csv", table)
    (again,) = marks.apply_marks(
        [{**ann, "status": "not readable"}], marks.read_marks(tmp_path / "marks.csv")
    )
    assert again["status"] == "", "a person has looked at it"
    assert (again["questions"][0]["points"], again["total"]) == (1, 3)
    assert "q1: 1 of 3 points\n\nThese points were given by hand" in feedback.write_markdown(again)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"points": "5"}, "ann, q3: points must be from 0 to 4"),
        ({"points": "nan"}, "ann, q3: points must be from 0 to 4"),
        ({"points": "many"}, "ann, q3: could not convert"),
        ({"student": "eve"}, "eve, q3: every row must match a result"),
        ({"homework": "hw8"}, "ann, q3: every row must match a result, but no result of hw8"),
        ({"question": "late", "points": "2"}, "ann, late: points must be at most 0"),
    ],
)
@pytest.mark.usefixtures("marked_class")
def test_marks_out_of_range_or_of_nobody_are_refused(tmp_path, capsys, row, said):
    cli.main(WORDS)
    fill([{**read_rows()[0], **row}])
    assert cli.main(WORDS[:5]) == 2
    assert said in capsys.readouterr().err
    (tmp_path / "marks.csv").write_text("student,points\n")
    assert cli.main(WORDS[:5]) == 2
    assert "but lacks comment" in capsys.readouterr().err


def test_a_penalty_takes_no_more_than_was_earned_and_is_of_one_homework(
    marked_class, tmp_path, capsys
):
    words, late = WORDS[:5], ["--due", "2026-11-01", "--late", "50"]
    assert cli.main([*words, "--late", "50"]) == 2
    assert "--due and --late must be given together" in capsys.readouterr().err
    assert cli.main([*words, *late]) == 1
    assert cli.main(words) == 1, "without --due what is there stays"
    marked = marks.apply_marks(marked_class, marks.read_marks(tmp_path / "marks.csv"))
    assert marked[0]["late"] == 5
    results.write_result(tmp_path / "results" / "hw9_b", {**marked_class[0], "homework": "hw9_b"})
    assert cli.main([*words, *late]) == 2
    assert "choose one with --homework" in capsys.readouterr().err
    # A call for one homework keeps the rows of the other.
    assert cli.main([*words, "--homework", "hw9_b"]) == 1
    assert {row["homework"] for row in read_rows()} == {NAME, "hw9_b"}
    for wrong in (["--due", "soon", "--late", "1"], ["--due", "2026-11-01", "--late", "200"]):
        assert cli.main([*words, "--homework", NAME, *wrong]) == 2


def test_an_extension_is_a_number_of_days():
    due = datetime(2026, 12, 1, tzinfo=UTC)
    result = {"student": "ann", "homework": "hw1_norms", "handed_in": "2026-12-03T12:00:00+00:00"}
    rows = {"extension": "2", "extension hw2": "a week"}
    assert marks.count_days_late(result, due, {}) == 3
    assert marks.count_days_late(result, due, rows) == 1
    assert marks.count_days_late(result, due, {"handed in hw1": "2026-11-01"}) == 0
    with pytest.raises(ValueError, match="number of days, but ann has 'a week'"):
        marks.count_days_late({**result, "homework": "hw2_bugs"}, due, rows)


@pytest.fixture
def two_homeworks(tmp_path):
    ann = graded(write(tmp_path, "ann"), "ann")
    bob = graded(write(tmp_path, "bob", [*CELLS, "shares = ..."]), "bob")
    return [ann, bob, {**ann, "homework": "hw9_more", "late": 1, "total": 4}]


def test_one_table_over_all_homeworks(two_homeworks):
    rows = {"bob": {"name": "Bob"}, "cem": {}}
    assert gradebook.write_table(two_homeworks, "plain", rows).splitlines() == [
        f"student,{NAME},hw9_more,late,total,max,status",
        "ann,5,4,-1,9,10,graded",
        "bob,3,,0,3,10,hw9_more missing",
        f'cem,,,0,,10,"{NAME} missing, hw9_more missing"',
    ]
    assert gradebook.write_table(two_homeworks, "canvas", rows).splitlines()[:3] == [
        f"Student,ID,SIS User ID,SIS Login ID,Section,{NAME},hw9_more",
        "Points Possible,,,,,5,5",
        ",,,ann,,5,4",
    ]
    assert gradebook.write_table(two_homeworks, "moodle", rows).splitlines()[2] == "bob,Bob,,3,"


def test_statistics_by_question(two_homeworks):
    assert gradebook.write_table(two_homeworks[:2], "questions").splitlines() == [
        "homework,question,max,graded,mean,full points,not begun",
        f"{NAME},q1,3,2,3.0,1.0,0.0",
        f"{NAME},q2,2,2,1.0,0.5,0.5",
    ]


def test_feedback_goes_back_under_the_names_of_the_download(two_homeworks, tmp_path):
    """Canvas identifies a file by two numbers, and keeps the student's file name and extension.

    Moodle parts a path at underscores: a name, the participant's number, assignsubmission, file.
    """
    ann, bob, _ = two_homeworks
    names = {
        "ann": "leeann_LATE_4711_90210_hw8-1.ipynb",
        "bob": "Bob Ray_82_assignsubmission_file_/deep/hw8.ipynb",
        "cem": "raycem_4713_90212_hw8.py",
        "dan": "Dan_84_assignsubmission_file_hw8.ipynb",
        "eve": "eve.ipynb",
    }
    found = [{**(bob if s == "bob" else ann), "student": s} for s in names]
    assert feedback.pack_feedback(found, names, tmp_path / "back.zip") == ["eve"]
    assert (tmp_path / "back.zip").stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(tmp_path / "back.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sorted(files) == [
        "Bob Ray_82_assignsubmission_file_/feedback.html",
        "Dan_84_assignsubmission_file_feedback.html",
        "leeann_LATE_4711_90210_hw8-1.ipynb",
        "raycem_4713_90212_hw8.py",
    ]
    read = nbformat.reads(files["leeann_LATE_4711_90210_hw8-1.ipynb"], as_version=4)
    nbformat.validate(read)
    assert read.cells[0].source == feedback.write_markdown(found[0])
    compile(files["raycem_4713_90212_hw8.py"], "back", "exec")
    assert "3 of 5 points" in files["Bob Ray_82_assignsubmission_file_/feedback.html"]
    assert feedback.pack_feedback(found[-1:], names, tmp_path / "none.zip") == ["eve"]
    assert not (tmp_path / "none.zip").exists()
