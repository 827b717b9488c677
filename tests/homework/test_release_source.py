"""Every kind of mistake in a homework's source gets one clear sentence, with its line."""

import pytest

from press.homework import source
from tests.homework.release_toy import TOY, write

END = "### END SOLUTION"
Q1 = '# %% tags=["solution:q1"]'
T1 = '# %% tags=["test:q1", "points:3"]'
T2 = '# %% tags=["test:q2", "points:2"]'


BODY = f"    ### BEGIN SOLUTION\n    answer_of_q1 = x * FACTOR\n    return answer_of_q1\n    {END}"


def line_of(text, within=TOY):
    """Return the number of the line that begins with a text."""
    return next(n for n, line in enumerate(within.split("\n"), 1) if line.startswith(text))


def after(text):
    """Return the number of the first line of the cell with this header."""
    return f"line {line_of(text) + 1}: "


def at(number):
    """Return the number of a line, counted from the first region's marker."""
    return f"line {line_of('    ### BEGIN SOLUTION') + number}: "


# What is changed, and what is said.
MISTAKES = {
    "no end": (
        ("    return answer_of_q1\n    " + END, "    return answer_of_q1"),
        at(0) + "a region must end in its own cell, but ### BEGIN SOLUTION does not",
    ),
    "no begin": (
        ("    ### BEGIN SOLUTION\n    answer", "    answer"),
        at(2) + "a region must begin and end in the same cell, but ### END SOLUTION",
    ),
    "one region in another": (
        ("    answer_of_q1 = x * FACTOR", "    ### BEGIN HIDDEN TESTS"),
        at(1) + "regions may not be nested, but ### BEGIN HIDDEN TESTS is inside",
    ),
    "a mark misspelt": (
        ("    ### BEGIN SOLUTION\n    answer", "    ## begin solution\n    answer"),
        at(0) + "a mark must be ### BEGIN SOLUTION",
    ),
    "a solution outside of a solution cell": (
        (Q1, "# %%"),
        at(0) + "### BEGIN SOLUTION must be in a cell tagged solution",
    ),
    "hidden tests outside of a test cell": (
        (T2, "# %%"),
        "### BEGIN HIDDEN TESTS must be in a cell tagged test",
    ),
    "an empty region": (
        ("    answer_of_q1 = x * FACTOR\n    return answer_of_q1\n", ""),
        at(1) + "a region must have text; write the solution",
    ),
    "a solution cell without a region": (
        (BODY, "    pass"),
        "a cell tagged solution:… must have ### BEGIN SOLUTION … ### END SOLUTION, but",
    ),
    "a test without points": (
        (T1, '# %% tags=["test:q1"]'),
        after(T1) + "a cell tagged 'test:q1' must have points; add one tag such as points:2",
    ),
    "points that are no number": (
        ("points:3", "points:many"),
        "points must be a whole number of at least 1, as in points:2; got 'points:many'",
    ),
    "points without a test": (
        (Q1, '# %% tags=["solution:q1", "points:2"]'),
        after(Q1) + "only a test, or an answer that is marked by hand, may have points",
    ),
    "an unknown tag": (
        (Q1, '# %% tags=["solutions:q1"]'),
        after(Q1) + "unknown tag 'solutions:q1'; a homework's tags are homework, variant",
    ),
    "two tags in one": (
        (Q1, '# %% tags=["solution:q1", "variant"]'),
        "a cell may have only one role, but is tagged solution, variant",
    ),
    "a tag on prose": (
        ('# %% [markdown]\nr"""\nNow', '# %% [markdown] tags=["solution:q3"]\nr"""\nNow'),
        "only a code cell can be tagged solution, but this is a markdown cell",
    ),
    "an answer without points": (
        (Q1, '# %% tags=["answer:q7"]'),
        after(Q1) + "a cell tagged 'answer:q7' must have points; add one tag such as points:2",
    ),
    "an answer and a test of one question": (
        (Q1, '# %% tags=["answer:q2", "points:1"]'),
        after(Q1) + "a question marked by hand may have only one cell, but q2 has more",
    ),
    "a question without a test": (
        (Q1, '# %% tags=["solution:q7"]'),
        after(Q1) + "a question with a solution must have a test; add a cell tagged test:q7",
    ),
    "a test without an answer": (
        (Q1, '# %% tags=["solution:q7"]'),
        after(T1) + "every test must have a solution; add a cell tagged solution:q1",
    ),
    "two tests of a question": (
        (T2, '# %% tags=["test:q1", "points:2"]'),
        "a question may have only one test, but q1 has two; join them",
    ),
    "a probe of nobody": (
        ("probe:q2", "probe:q5"),
        "a probe's question must have a test, but q5 has none",
    ),
    "no settings": (
        ('# %% tags=["homework"]', "# %%"),
        "the first code cell, and no other, must be tagged `homework`",
    ),
    "a setting too few": (
        (', "minutes": 5', ""),
        "HOMEWORK must have the keys title, about, packages, minutes; got title, about, packages",
    ),
    "a setting of another kind": (
        ('"minutes": 5', '"minutes": "5"'),
        "HOMEWORK['minutes'] must have type int and not be empty; got '5'",
    ),
    "a package that is none": (
        ('["math"]', '["torch.nn"]'),
        "must list names that a submission may import, such as \"torch\"; got 'torch.nn'",
    ),
    "a variant that is no draw": (
        ("draw.choice([2, 3, 7, 12, 41, 100, 365, 999])", "7"),
        "line 16: a `variant` cell may contain only lines such as EPS = draw.choice",
    ),
    "a variant drawn twice": (
        ("SHIFTS = draw", "FACTOR = draw"),
        "line 17: a variant must be assigned only once, but FACTOR is",
    ),
    "a name defined again": (
        ("class Scale:", "def times(x):\n    return x\n\n\nclass Scale:"),
        f"times is defined here and in the cell of line {line_of('def times')}",
    ),
    "a cell that is not Python": (
        ("import math\n", "import math math\n"),
        "this cell is not Python (invalid syntax in 'import math math')",
    ),
    "a hidden test that does something at top level": (
        ("def test_q2", "print(2)\n\n\ndef test_q2"),
        after(T2) + "a hidden test may have only imports, functions, classes and plain assignments",
    ),
    "a region that parts a statement": (
        (
            "    ### BEGIN SOLUTION\n    answer_of_q1 = x * FACTOR",
            "    answer_of_q1 = (\n    ### BEGIN SOLUTION\n    x * FACTOR)",
        ),
        "the student's version of this cell is not Python",
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_named_with_its_line(kind, tmp_path):
    change, said = MISTAKES[kind]
    with pytest.raises(ValueError) as caught:
        source.read_homework(write(tmp_path, change))
    told = str(caught.value).splitlines()
    assert any(said in line for line in told), told
    assert all(line.startswith("hw9_toy.py, ") for line in told)
    assert len(told) <= 3, "one mistake is not told as many"


def test_all_mistakes_are_told_at_once(tmp_path):
    path = write(tmp_path, ("points:3", "points:0"), ("points:2", "points:-1"))
    with pytest.raises(ValueError) as caught:
        source.read_homework(path)
    assert "'points:0'" in str(caught.value) and "'points:-1'" in str(caught.value)


@pytest.mark.parametrize("name", ["HW1.py", "hw1.ipynb", "hw-1.py"])
def test_a_source_has_a_plain_name_and_is_there(name, tmp_path):
    (tmp_path / name).write_text(TOY)
    with pytest.raises(ValueError, match=r"a homework's source must be an existing file"):
        source.read_homework(tmp_path / name)
    with pytest.raises(ValueError, match="which does not exist"):
        source.read_homework(tmp_path / "hw1_none.py")


def test_a_sound_source_is_read_whole(tmp_path):
    homework = source.read_homework(write(tmp_path))
    assert (homework.name, homework.title, homework.packages) == ("hw9_toy", "A toy", ("math",))
    first, second = homework.questions
    assert (first.id, first.points, first.wanted) == ("q1", 3, ("times",))
    assert (second.id, second.points, second.wanted) == ("q2", 2, ("Scale",))
    assert "def expected_of_q1" in first.hidden and "###" not in first.hidden
    assert "def expected_of_q1" in second.hidden and "def test_q1" not in second.hidden
    assert homework.probes.startswith("def probe_scaled(student, by, x):")
    rows = TOY.split("\n")
    for cell in homework.cells:
        if cell.kind == "code":
            assert rows[cell.line - 1] == cell.source.split("\n")[0]
