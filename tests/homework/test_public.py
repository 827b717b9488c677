"""Public checks report in one sentence what is wrong, or that they passed, and nothing more."""

import json
import linecache

import numpy
import pytest
import torch

from labkit.check.public import NotPassed, checks_passed, out_of_time, public
from labkit.check.report import Law, Report

GOOD = Report("check.f", (Law("value", True),))


def laws(number):
    return tuple(Law(f"law {n}", False, f"cause {n}", f"message {n}") for n in range(number))


def said(capsys, *checks):
    assert public("q1", *checks) is None, "a value would be shown as the cell's output"
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "check",
    [True, (True, "never said"), GOOD, lambda: True, lambda: GOOD, lambda: (True, "never said")],
    ids=["bool", "pair", "report", "function", "function of a report", "function of a pair"],
)
def test_what_holds_is_told_in_five_words(check, capsys):
    assert said(capsys, check, check) == "q1: public checks passed\n"


def test_what_does_not_hold_is_told_once_and_by_its_own_words(capsys):
    assert said(capsys, (False, "f(2) is 4"), True, (False, "f(2) is 4")) == "q1: f(2) is 4\n"
    assert said(capsys, lambda: (numpy.bool_(False), "so"), torch.tensor(True)) == "q1: so\n"
    assert said(capsys, False) == "q1: the check does not hold yet\n"
    assert said(capsys, True, lambda: False) == "q1: check 2 does not hold yet\n"


def test_a_report_names_its_first_laws_with_their_causes(capsys):
    text = said(capsys, Report("check.f", (*laws(5), Law("value", True))))
    assert text.startswith("q1: check.f: 1 of 6 laws hold\n  law 0: message 0\n")
    assert "Likely cause: cause 2." in text and "law 3" not in text
    assert text.endswith("and 2 more; begin with the first\n")


UNWRITTEN = "q1: not written yet (your turn: q1); replace the line that raises"


def stub(*_, **__):
    raise NotImplementedError("your turn: q1")


def test_a_stub_that_still_stands_is_no_traceback_and_the_rest_is_judged(capsys):
    text = said(capsys, lambda: stub(2) == 4, (False, "A is a key of LAWS"), True)
    assert text.startswith("q1: A is a key of LAWS\n" + UNWRITTEN)
    text = said(capsys, lambda: stub(2) == 4, lambda: stub(3) == 9)
    assert text.startswith(UNWRITTEN) and text.count("\n") == 1
    seen = Law("value", False, "", "your code raised NotImplementedError: your turn: q1")
    text = said(capsys, Report("check.f", (seen,)))
    assert text.startswith(UNWRITTEN) and text.count("\n") == 1


def test_a_stub_inside_a_kernel_is_a_stub(capsys):
    def interpreter():
        try:
            stub()
        except NotImplementedError as error:
            raise RuntimeError("the kernel stopped") from error

    assert said(capsys, interpreter).startswith(UNWRITTEN)


def test_a_name_that_is_missing_says_which_cells_to_run(capsys):
    text = said(capsys, lambda: not_there(2))  # noqa: F821
    assert text == "q1: name 'not_there' is not defined; run the cells above first, from the top\n"


def test_an_error_is_told_with_the_students_own_line(capsys):
    source = "def f(x):\n    return x / 0  # mine\n"
    linecache.cache["<cell 3>"] = (len(source), None, source.splitlines(True), "<cell 3>")
    names = {}
    exec(compile(source, "<cell 3>", "exec"), names)
    assert said(capsys, lambda: names["f"](1)) == (
        "q1: the check could not run: ZeroDivisionError: division by zero\n"
        "  in f, line 2: return x / 0  # mine\n"
    )
    library = said(capsys, lambda: json.loads("{"))
    assert library.startswith("q1: the check could not run: JSONDecodeError: ")
    assert library.count("\n") == 1, "a library's line is not the student's"


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "NoneType"), (4, "int"), ((True, 3), "tuple"), (torch.ones(3) > 0, "Tensor of (3,)")],
    ids=["None", "number", "pair", "three at once"],
)
def test_an_answer_of_another_kind_is_a_sentence(value, kind, capsys):
    text = f"gave {kind} where True or False was due; is your answer of the kind asked for?\n"
    assert said(capsys, lambda: value) == "q1: the check " + text


def test_where_nbgrader_looks_a_check_that_does_not_hold_raises_in_one_message(capsys, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    assert said(capsys, True) == "q1: public checks passed\n"
    with pytest.raises(NotPassed, match=r"^q1: f\(2\) is 4$") as caught:
        public("q1", (False, "f(2) is 4"), True)
    assert capsys.readouterr().out == "q1: f(2) is 4\n"
    assert caught.value._render_traceback_() == ["q1: f(2) is 4"], "what IPython shows instead"


def test_an_import_that_the_grader_refuses_is_a_note_beside_the_answer(capsys):
    def checked(source):
        names = {"public": public, "MAY_IMPORT": ("torch", "math")}
        exec(f"{source}\nimport torch, math, json\nfrom torch import nn\npublic('q1', True)", names)
        return capsys.readouterr().out

    passed = "q1: public checks passed\n"
    assert checked("") == passed
    for source in ("import numpy as np", "from numpy import linspace", "from numpy import ndarray"):
        assert checked(source) == (
            f"{passed}q1: note: this notebook imports numpy; an answer may use torch, math and "
            "Python's basics, and earns nothing if it needs more\n"
        )


def test_no_check_is_refused():
    with pytest.raises(ValueError, match="needs at least one check"):
        public("q1")


def test_passing_is_told_from_what_was_printed():
    assert checks_passed("noise\nq1: public checks passed\n", "q1")
    assert not checks_passed("q1: public checks passed\n", "q2")
    assert not checks_passed("q1: public checks passed? no\n", "q1")


SLOW = Law("shapes", False, "a loop", "no result within 8 seconds on a small input; stopped")


def test_laws_that_ran_out_of_time_are_told_from_wrong_ones(capsys):
    ended = Law("value", True)
    assert out_of_time(said(capsys, Report("check.f", (ended, SLOW))))
    assert out_of_time(said(capsys, Report("check.f", (SLOW, ended)), GOOD, True))
    for wrong in (laws(1)[0], Law("value", False, "", "no result")):
        assert not out_of_time(said(capsys, Report("check.f", (wrong, SLOW))))
    assert not out_of_time(said(capsys, Report("check.f", (ended, SLOW)), (False, "f(2) is 4")))
    assert not out_of_time(said(capsys, GOOD)) and not out_of_time("")
