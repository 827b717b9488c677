"""Exports of the grader have exact scores, and untrusted text in them is harmless."""

import csv
import io
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from press.homework.grading import feedback, gradebook, results
from tests.homework.grading_case import CELLS, NAME, TEST_1, graded, private, write

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)>| [a](javascript:x) ![b](c) `d`"

SHOWN = {"h1", "h2", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.fixture
def evil(tmp_path):
    """Return a result with as much text of a student as possible."""
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
    """Three results: right, wrong, and one with a question that is not graded."""
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


def test_results_are_read_back_or_refused(tmp_path, three):
    for result in three:
        results.write_result(tmp_path / NAME, result)
    for places in ([tmp_path], [tmp_path / NAME], [tmp_path, tmp_path / NAME]):
        assert results.load_results(places) == three
    assert results.load_results([tmp_path], "hw8") == three
    with pytest.raises(ValueError, match=f"results of hw9 .* none in .*, only those of {NAME}"):
        results.load_results([tmp_path], "hw9")
    (tmp_path / NAME / "bob.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for place, said in (
        (NAME, r"bob\.json must be a result"),
        ("gone", "must be a folder that"),
        ("empty", r"results are needed, .*; make them"),
    ):
        with pytest.raises(ValueError, match=said):
            results.load_results([tmp_path / place])
