"""What leaves the grader has exact scores, and foreign text in it is harmless."""

import csv
import io
import json
import re
import sqlite3
import zipfile
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from press.homework.grading import feedback, gradebook, gradescope, on_gradescope, results
from press.homework.grading.nbgrader_book import open_gradebook, write_scores
from tests.homework.grading_case import CELLS, NAME, TEST_1, graded, private, write

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)>| [a](javascript:x) ![b](c) `d`"

SHOWN = {"h1", "h2", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.fixture
def evil(tmp_path):
    """A result that holds as much of a student's own text as one can."""
    cells = [f"def rms_norm(x, eps=0):\n    raise ValueError({EVIL!r})", f"{EVIL} ("]
    result = graded(write(tmp_path, "eve", cells), "eve")
    assert EVIL in result["questions"][0]["parts"][0]["says"]
    return result


class Tags(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]

    def handle_data(self, data):
        self.text += data


def test_feedback_shows_foreign_text_and_obeys_none(evil):
    # Whoever shows the Markdown may let HTML through, as the page does not.
    shown = Tags(MarkdownIt("commonmark").enable("table").render(feedback.write_markdown(evil)))
    assert EVIL in shown.text and set(shown.tags) <= SHOWN
    page = Tags(feedback.write_page(evil))
    assert EVIL in page.text
    assert set(page.tags) <= {*SHOWN, "html", "head", "meta", "title", "style", "body"}
    assert "default-src 'none'" in feedback.write_page(evil)


def test_feedback_holds_no_expected_value_and_no_line_of_a_test(tmp_path):
    wrong = [cell.replace("dim=-1", "dim=0") for cell in CELLS]
    result = graded(write(tmp_path, "ann", wrong))
    told = feedback.write_markdown(result) + feedback.write_page(result)
    assert "0 of 2" in told and "Is the mean over the last axis?" in told
    for line in TEST_1.splitlines():
        if len(line.strip()) > 12:
            assert line.strip() not in told
    assert not re.search(r"\d\.\d{3}", told)  # no measured or expected number


def test_feedback_of_an_ungraded_question_takes_no_points(tmp_path):
    path = write(tmp_path, "ann")
    result = graded(path, homework=private(test_q2="def test_q2(s, d, g):\n    secret = 1 / 0"))
    for told in (feedback.write_markdown(result), feedback.write_page(result)):
        assert "3 of 3 points so far; 5 when all questions are graded" in told
        assert "not graded yet" in told and "secret" not in told and "ZeroDivision" not in told


def rows_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.fixture
def three(tmp_path):
    """Right, wrong, and one with a question that is not graded."""
    ann = graded(write(tmp_path, "ann"), "ann")
    bob = graded(write(tmp_path, "bob", [c.replace("dim=-1", "dim=0") for c in CELLS]), "bob")
    faulty = private(test_q2="def test_q2(student, draw, given):\n    1 / 0")
    return [ann, bob, graded(write(tmp_path, "cem"), "cem", faulty)]


ROSTER = {
    "ann": {"name": "=HYPERLINK(1)", "canvas": "4711", "email": "ann@x.org"},
    "bob": {"name": "Bob, Ray", "canvas": "4712", "email": "@bob"},
    "dan": {"name": "-Dan", "canvas": "", "email": ""},
}


def test_a_gradebook_has_a_row_per_student_and_empty_cells_for_no_score(three):
    assert rows_of(gradebook.write_table(three, "plain", ROSTER)) == [
        ["student", "q1", "q2", "total", "max", "status"],
        ["ann", "3", "2", "5", "5", "graded"],
        ["bob", "0", "2", "2", "5", "graded"],
        ["cem", "3", "", "", "5", "not graded: q2"],
        ["dan", "", "", "", "5", "missing"],
    ]
    canvas = rows_of(gradebook.write_table(three, "canvas", ROSTER))
    assert canvas[:3] == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", NAME],
        ["Points Possible", "", "", "", "", "5"],
        ["'=HYPERLINK(1)", "4711", "", "ann", "", "5"],
    ]
    moodle = rows_of(gradebook.write_table(three, "moodle", ROSTER))
    assert moodle[0] == ["ID number", "Full name", "Email address", "q1", "q2", NAME]
    assert moodle[2] == ["bob", "Bob, Ray", "'@bob", "0", "2", "2"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(three, start):
    rows = {"ann": {"name": f"{start}cmd|' /C calc'!A0", "email": f"{start}1"}}
    cells = [cell for row in rows_of(gradebook.write_table(three, "moodle", rows)) for cell in row]
    assert len(cells) > 20 and not [cell for cell in cells if cell[:1] == start]


@pytest.mark.slow  # importing nbgrader takes longest
def test_scores_go_into_nbgraders_gradebook_and_a_hands_score_stays(tmp_path, three):
    api = pytest.importorskip("nbgrader.api")
    path = tmp_path / "gradebook.db"
    assert kept(path, three) == []
    with api.Gradebook(f"sqlite:///{path}") as book:
        scores = {s: book.find_submission(NAME, s).score for s in ("ann", "bob", "cem")}
        assert scores == {"ann": 5, "bob": 2, "cem": 3}
        left = book.find_grade("test-q2", NAME, NAME, "cem")
        assert left.needs_manual_grade and left.auto_score is None
        assert book.find_assignment(NAME).max_score == 5
        book.find_grade("test-q1", NAME, NAME, "bob").manual_score = 1.0
        book.db.commit()
    kept(path, three[:2])  # again: nothing is there twice
    with api.Gradebook(f"sqlite:///{path}") as book:
        assert book.find_submission(NAME, "bob").score == 3
        assert len(book.students) == 3
    # An assignment that nbgrader knew before its cells.
    with api.Gradebook(f"sqlite:///{path}") as book, book.db.no_autoflush:
        book.add_assignment("week one")
        book.add_submission("week one", "ann")
    kept(path, three[:1], "week one")
    with api.Gradebook(f"sqlite:///{path}") as book:
        assert book.find_submission("week one", "ann").score == 5
    with sqlite3.connect(path) as raw:
        assert raw.execute("select count(*) from grade").fetchone() == (8,)


def kept(path, found, *how):
    """Write results to a gradebook; who handed in again."""
    with open_gradebook(path) as book:
        return write_scores(found, book, *how)


@pytest.fixture
def private_file(tmp_path):
    path = tmp_path / f"{NAME}.json"
    path.write_text(private().to_json(), encoding="utf-8")
    return path


def test_gradescopes_zip_is_the_same_every_time_and_holds_what_it_needs(tmp_path, private_file):
    first = gradescope.build_autograder(private_file, tmp_path / "a.zip").read_bytes()
    assert gradescope.build_autograder(private_file, tmp_path / "b.zip").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = set(archive.namelist())
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names}
    assert {
        "setup.sh",
        "run_autograder",
        "requirements.txt",
        f"private/{NAME}.json",
        "lib/press/homework/grading/on_gradescope.py",
    } <= names
    assert modes["setup.sh"] == modes["run_autograder"] == 0o100755
    assert not [
        name
        for name in names
        if "__pycache__" in name
        or not name.startswith(("lib/", "private/", "setup", "run_", "req"))
    ]
    with pytest.raises(ValueError, match="after_due_date"):
        gradescope.build_autograder(private_file, tmp_path / "c.zip", "always")


def test_requirements_are_pinned_and_name_what_a_homework_may_import():
    told = gradescope.list_requirements(("torch", "math", "labkit", "sklearn", "jupytext"))
    lines = told.splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    names = [line.partition("==")[0] for line in lines]
    assert {"torch", "numpy", "pyseccomp", "scikit-learn", "jupytext"} <= set(names)
    assert not {"math", "labkit", "norm-lab-book", "ruff"} & set(names)
    with pytest.raises(ValueError, match="installs nothing_like_it in"):
        gradescope.list_requirements(("nothing_like_it",))


# What Gradescope's page on autograders says of results.json.
TOP = """score execution_time output output_format visibility stdout_visibility extra_data tests
    leaderboard"""
TEST = """score max_score status name name_format number output output_format tags visibility
    extra_data"""
FORMATS = {"text", "html", "simple_format", "md", "ansi"}


def check_gradescope(told):
    assert set(told) <= set(TOP.split())
    assert told["visibility"] in gradescope.VISIBILITIES and told["stdout_visibility"] == "hidden"
    assert told["output_format"] in FORMATS
    for test in told["tests"]:
        assert set(test) <= set(TEST.split()) and test["status"] in ("passed", "failed")
        assert test["visibility"] in gradescope.VISIBILITIES
        assert {test["output_format"], test["name_format"]} <= FORMATS
        assert 0 <= test["score"] <= test["max_score"]
    assert told["score"] == sum(test["score"] for test in told["tests"])


def test_results_for_gradescope_have_its_form(three, evil):
    for result in (*three[:2], evil):
        told = json.loads(json.dumps(on_gradescope.format_result(result, "after_published")))
        check_gradescope(told)
        assert told["score"] == result["total"]
    assert on_gradescope.format_result(three[0], "hidden")["tests"][0]["name"] == "q1: values"


def test_results_are_read_back_or_refused(tmp_path, three):
    for result in three:
        results.write_result(tmp_path / NAME, result)
    for places in ([tmp_path], [tmp_path / NAME], [tmp_path, tmp_path / NAME]):
        assert results.load_results(places) == three
    assert results.load_results([tmp_path], "hw8") == three
    with pytest.raises(ValueError, match=f"results of hw9, it has those of {NAME}"):
        results.load_results([tmp_path], "hw9")
    (tmp_path / NAME / "bob.json").write_text("{}")
    with pytest.raises(ValueError, match=r"bob\.json must be a result"):
        results.load_results([tmp_path / NAME])
    with pytest.raises(ValueError, match="must be a folder that"):
        results.load_results([tmp_path / "gone"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must hold results; make them"):
        results.load_results([tmp_path / "empty"])
