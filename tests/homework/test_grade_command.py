"""The commands of grading: their output, and reliable exit codes."""

import csv

import pytest

from press import cli, control_groups
from press.homework.grading import pool, results
from tests.homework.grading_case import CELLS, NAME, graded, in_process, private, released, write

COLLECT = ["homework", "collect", "inbox", "--out", "out", "--homework"]
GRADE = ["homework", "grade", "out", "--release", "release", "--out", "results"]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    """Work in an empty folder; grading starts no process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "run_examiners", in_process)


@pytest.fixture
def graded_class(tmp_path):
    """Results of ann, and of bob with a question that is not graded."""
    faulty = private(test_q2="def test_q2(student, draw, given):\n    1 / 0")
    results.write_result(tmp_path / "results" / NAME, graded(write(tmp_path, "ann"), "ann"))
    results.write_result(tmp_path / "results" / NAME, graded(write(tmp_path, "bob"), "bob", faulty))
    return tmp_path


def test_collect_reports_and_is_red_when_nothing_was_found(tmp_path, capsys, monkeypatch):
    (tmp_path / "class.csv").write_text("id,canvas\nann,4711\nbob,4712\n", encoding="utf-8")
    assert cli.main([*COLLECT, NAME]) == 2  # no inbox
    (tmp_path / "inbox").mkdir()
    assert cli.main([*COLLECT, NAME]) == 1
    write(tmp_path / "inbox", f"lee_4711_1_{NAME}")
    write(tmp_path / "inbox", f"lee_4711_1_{NAME}-1")
    (tmp_path / "inbox" / "photo.png").write_bytes(b"")
    capsys.readouterr()
    # Bob is missing: something to look at, and the last line says it.
    assert cli.main([*COLLECT, NAME, "--students", "class.csv"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"ann: lee_4711_1_{NAME}-1.ipynb (1 older left)",
        "not taken: photo.png: its name does not end in .ipynb or .py",
        "missing: bob",
        f"1 taken, 1 not taken, 1 missing; in out/{NAME}",
    ]
    assert cli.main([*COLLECT, "../x"]) == 2
    (tmp_path / "class.csv").write_text("id,canvas\nann,4711\n", encoding="utf-8")
    (tmp_path / "inbox" / "photo.png").unlink()
    assert cli.main([*COLLECT, NAME, "--students", "class.csv"]) == 0, "nobody is missing any more"


def test_collect_takes_the_short_name_that_a_release_has(tmp_path, monkeypatch, capsys):
    from press.commands import grading

    write(tmp_path / "inbox", "ann")
    monkeypatch.setattr(grading, "sources", lambda: {NAME: tmp_path, "hw9_other": tmp_path})
    assert cli.main([*COLLECT, "hw8"]) == 0
    assert f"in out/{NAME}" in capsys.readouterr().out
    monkeypatch.setattr(grading, "sources", lambda: {})  # a homework of one's own
    released(tmp_path)
    assert cli.main([*COLLECT, "hw8", "--release", "release"]) == 0
    assert f"in out/{NAME}" in capsys.readouterr().out
    assert cli.main([*COLLECT, "mine"]) == 0
    assert "in out/mine" in capsys.readouterr().out


def test_grade_says_each_score_the_mean_and_how_each_question_went(tmp_path, monkeypatch, capsys):
    released(tmp_path)
    write(tmp_path / "out" / "hw8", "ann")  # collected under the short name
    stub = 'def shares(counts):\n    raise NotImplementedError("your turn: q2")\n'
    write(tmp_path / "out" / "hw8", "bob", [*CELLS, stub])
    monkeypatch.setattr(control_groups, "find_problem", lambda: "it is read-only")
    assert cli.main(GRADE) == 0
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
    released(tmp_path, students=students)
    for name in ("ann", "bob"):
        write(tmp_path / "out" / NAME, name)
    assert cli.main(GRADE) == code
    assert said in capsys.readouterr().err
    assert (tmp_path / "results").exists() == ("none of" not in said)


def test_a_file_that_is_no_submission_is_named_from_collecting_to_the_scores(
    tmp_path, monkeypatch, capsys
):
    released(tmp_path)
    write(tmp_path / "inbox", "eve", CELLS[:1], homework="hw2_bugs")
    (tmp_path / "inbox" / "bob.ipynb").write_bytes(b"")
    write(tmp_path / "inbox", "ann")
    empty = (
        "a submission must not be empty, but this file is; save the notebook and hand it in again"
    )
    assert cli.main([*COLLECT, NAME]) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "ann: ann.ipynb",
        f"bob: bob.ipynb (not readable: {empty})",
        "eve: eve.ipynb (another homework: hw2_bugs)",
    ]
    assert cli.main(GRADE) == 1
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


NO_BOOK = (
    "labkit: 'hw1' is a homework of the book, which is not here; run this command in a clone "
    "of its repository, or name a source of your own, such as homework/hw9_mine.py\n"
)
GRADE_GONE = "grade results --release gone --out x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("feedback gone --out x", "gone must be a folder that"),
        ("gradebook results --homework other", "results of other are needed"),
        ("gradebook results --columns excel", "'--columns': "),
        (GRADE_GONE, "gone must be what `labkit homework release --out` wrote"),
        (f"{GRADE_GONE} --jobs 0", "'--jobs': Input should be"),
        (f"{GRADE_GONE} --seconds 0", "'--seconds': Input should be"),
        (f"{GRADE_GONE} --seconds 61", "'--seconds': Input should be"),
        ("gradebook results --marks gone.csv --out x", "--marks must name a file"),
        ("marks gone --out x", "gone must be a folder that"),
        ("release hw1 --out x", NO_BOOK),
    ],
)
def test_misuse_is_2_names_what_is_wrong_and_writes_nothing(graded_class, words, said, capsys):
    assert cli.main(["homework", *words.split()]) == 2
    told = capsys.readouterr().err
    assert told.startswith("labkit: ") and said in told
    assert not (graded_class / "x").exists()
