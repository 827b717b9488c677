"""Only a notebook's final definitions count: how they are found, and that others do not matter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from press.homework.definitions import read_definitions
from press.homework.sandbox.inside.program import Program
from press.homework.statements import list_defined
from tests.homework.grading_case import CELLS, SHARES

IMPORTED = ("math", "os", "torch", "typing")


def final(cells, wanted=None):
    return read_definitions(cells).build_program(wanted)


def problems(cells):
    return read_definitions(cells).problems


def names(program):
    return set(list_defined(program.text))


def run(program):
    """Return the names that a program defines when it runs."""
    ran = Program([*IMPORTED])
    ran.load(program.text, "")
    assert not ran.broken
    return ran.names


def test_the_last_definition_counts_and_nothing_at_top_level_runs():
    program = final(
        [
            "def f():\n    return 1\nprint(f())",
            "x = 1\nraise SystemExit",
            "def f():\n    return 2",
            "for i in range(9): x = i",
            "del f",
        ]
    )
    scope = run(program)
    assert scope["f"]() == 2 and scope["x"] == 1
    assert names(program) == {"f", "x"}


def test_definitions_come_after_what_they_need_whatever_the_order_of_cells():
    cells = [
        "class Both(Base):\n    size = START + double(2)\n",
        "def double(x):\n    return x * factor\n",
        "class Base:\n    pass\nSTART: int = 3",
        "@register\ndef late():\n    return TABLE\n",
        "TABLE = {}\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n",
        "factor = 2",
    ]
    scope = run(final(cells))
    assert scope["Both"].size == 7 and scope["late"]() == {"late": scope["late"]}


def test_a_name_built_on_itself_keeps_what_it_is_built_on_once():
    wrap = "f = wrapped(f)"
    cells = ["def f():\n    return 1", "def wrapped(g):\n    return lambda: g() + 10", wrap, wrap]
    assert run(final(cells))["f"]() == 11
    cells = [
        "class Norm:\n    eps = 2",
        "class Norm(Norm):\n    dim = 3",
        "def g():\n    return 1",
        "def g(old=g):\n    return old() + 10",
    ]
    scope = run(final(cells, wanted=["Norm", "g"]))
    assert (scope["Norm"].eps, scope["Norm"].dim, scope["g"]()) == (2, 3, 11)
    assert final(["def g():\n    return 1", "def g():\n    return g()"]).text.count("def g") == 1


def test_imports_come_first_and_a_later_definition_replaces_one():
    cells = [
        "def cos(x):\n    return 'mine'",
        "from math import sin, cos, tan",
        "def tan(x):\n    return 'mine'",
        "import os.path\nimport os",
        "from __future__ import annotations",
    ]
    scope = run(final(cells))
    assert scope["cos"](0) == 1.0 and scope["tan"](0) == "mine" and scope["os"].path
    assert final(cells).text.startswith("from __future__")


def test_only_what_a_question_needs_is_there():
    cells = [*CELLS, "import forbidden", "loss = forbidden.train()", "table = rms_norm(1)"]
    program = final(cells, wanted=["shares"])
    assert names(program) == {"shares", "total"} and "import" not in program.text
    assert "import torch" in final(cells, wanted=["rms_norm"]).text


def test_what_a_name_needs_may_be_named_in_a_text_or_an_annotation():
    cells = [
        "class Config:\n    pass",
        "def make(kind='Config') -> 'Config':\n    return globals()[kind]()",
        "@own\ndef kept():\n    pass",
        "def own(f):\n    return f",
    ]
    assert names(final(cells, ["make"])) == {"Config", "kept", "make", "own"}


def test_ipythons_own_lines_are_left_out():
    cells = [
        "%matplotlib inline\n!pip list\nx = 5\nx?\nfiles = !ls",
        "%%time\ny = (7\n % 4)",
        "%%bash\nrm -rf /",
        "def f():\n    %time g()\n    return 1",
        "%time z = 1",
        "%%capture\nw: Final = 3",
    ]
    scope = run(final(["from typing import Final", *cells]))
    assert (scope["x"], scope["y"], scope["f"]()) == (5, 3, 1)
    assert (scope["z"], scope["w"]) == (1, 3)
    assert problems(cells) == ()


NO_PYTHON = {
    "syntax": "def f(:",
    "quote": "x = 'open",
    "null": "\0",
    "brackets": "x = (" * 300,
    "signs": "x = " + "-" * 200_000 + "1",
    "surrogate": "'\ud800'",
    "digits": "x = " + "9" * 10_000,
    "tab": "\tif",
    "indent": "if True:\n  x\n y",
    "keyword": "return = 3",
    "sum": "x = " + "+".join(["1"] * 60_000),
}


@pytest.mark.parametrize("cell", NO_PYTHON.values(), ids=NO_PYTHON)
def test_a_cell_that_is_no_python_is_named_and_the_others_count(cell):
    cells = ["a = 1", cell, "b = 2"]
    found = names(final(cells))
    assert {"a", "b"} <= found
    assert all(problem.startswith("code cell 2") for problem in problems(cells))
    assert problems(cells) or "x" in found  # a long sum may be read, or be too deep


@pytest.mark.parametrize(
    "cell",
    [
        "\fdef f():\n    return 'a\fb'",
        "\ufeffdef f():\n    return 'a\fb'",
        "x = 1\n\f\n\fdef f():\n\f    return 'a\fb'",
        "\ufeff%%time\ndef f():\n    return 'a\fb'",
        "\f@str\n\fdef f(): 0\ndef f():\n    return 'a\fb'",
    ],
    ids=["form feed", "byte order mark", "form feeds before lines", "before a magic", "decorated"],
)
def test_form_feeds_and_a_byte_order_mark_are_read_over(cell):
    assert problems([cell]) == () and run(final([cell]))["f"]() == "a\fb"


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("!pip install einops \\\n  numpy\ndef f(): return 1", {"f"}),
        ("first, *rest = 1, 2, 3", {"first", "rest"}),
        ("(a, b), c = (1, 2), 3", {"a", "b", "c"}),
        ("A = 1\nB: int = 2\nx.y = 1\nclass G: pass", {"A", "B", "G"}),
    ],
)
def test_every_way_to_bind_a_name_is_read(cell, found):
    assert (names(final([cell])), problems([cell])) == (found, ())


def test_text_stays_as_it_was_written():
    cell = "é = 'ü'; b = 2  # two\n@torch.no_grad(\n)\ndef f():  # here\n    return '“”'  # there\n"
    texts = [each.text for each in read_definitions([cell]).statements]
    assert texts == ["é = 'ü'", "b = 2", "@torch.no_grad(\n)\ndef f():  # here\n    return '“”'"]


NOISE = (
    "print('hello')",
    "shares([1, 2])",
    "assert False",
    "not python at all",
    "",
    "%time 1",
    "for i in range(3):\n    shares = i",
    "unused = 3 / 0",
    "import nothing_like_it",
)


@st.composite
def shuffled(draw):
    """Return the cells of a submission, duplicated, joined, moved or edited, among others."""
    statements = ["".join(cell) for cell in CELLS]
    cells = draw(st.permutations(statements))
    for _ in range(draw(st.integers(0, 3))):  # cells a second time, and noise
        cells.insert(draw(st.integers(0, len(cells))), draw(st.sampled_from(statements)))
        cells.insert(draw(st.integers(0, len(cells))), draw(st.sampled_from(NOISE)))
    if draw(st.booleans()):  # an earlier attempt, edited away below
        cells.insert(0, SHARES.replace("whole =", "whole = 1 +"))
    joined = [cells[0]]
    for cell in cells[1:]:  # cells joined, where both are Python
        if draw(st.booleans()) and "not python" not in joined[-1] + cell:
            joined[-1] += "\n" + cell.replace("%time 1", "")
        else:
            joined.append(cell)
    return joined


@given(shuffled())
@settings(max_examples=80, deadline=None, derandomize=True, database=None)
def test_cells_duplicated_split_moved_or_edited_away_change_nothing(cells):
    program = final(cells, wanted=["shares", "rms_norm"])
    assert sorted(program.text.splitlines()) == sorted("".join(CELLS).splitlines())
    assert run(program)["shares"]([1, 3]) == [0.25, 0.75]


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_no_text_breaks_the_reader(text):
    assert "kept" in names(final([text, "kept = 1"]))


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("COUNT += 1", "COUNT"),
        ("TABLE[0] = 1", "TABLE"),
        ("TABLE.rows[0]: int = 1", "TABLE"),
        ("if True:\n    def f():\n        return COUNT", "f"),
        ("try:\n    import math as TABLE\nexcept ImportError:\n    pass", "TABLE"),
        ("for COUNT in range(3):\n    pass", "COUNT"),
        ("with open('x') as TABLE:\n    pass", "TABLE"),
        ("del f", "f"),
    ],
)
def test_what_changes_a_wanted_name_and_does_not_count_is_named(cell, name):
    base = "COUNT, TABLE = 0, {}\ndef f():\n    return COUNT, TABLE\ndef g():\n    return 1"
    (said,) = final([base, cell], wanted=["f"]).left_out
    first = cell.partition("\n")[0]
    assert said.startswith(f"code cell 2, line 1: {first!r} does not count for {name}; only imp")
    assert final([base, cell], wanted=["g"]).left_out == (), "no name that this question needs"
    assert final([cell, base], wanted=["f"]).left_out == (), "it is defined anew behind it"


def test_a_name_of_an_inner_scope_is_no_change():
    inner = [
        "def other():\n    x = 2\n",
        "if True:\n    def third():\n        x = 2\n",
        "[x for x in range(3)]",
        "y = [x for x in range(3)]",
        "for z in map(lambda x: x, [1]):\n    print(z, x)",
    ]
    assert final(["x = 1\ndef f():\n    return x", *inner], wanted=["f"]).left_out == ()
