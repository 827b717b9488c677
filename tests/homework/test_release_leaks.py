"""The byte search finds every planted line, in any encoding, and never quotes it."""

import json

import pytest

from press.homework import leaks, source
from tests.homework.release_toy import TOY, write

SOLUTION = "answer_of_q1 = x * FACTOR"
HIDDEN = (
    'yield part("zero", 1, equal(student.call("times", 0), 0), says="Zero | times all is zero.")'
)
QUOTED = "product_of_q2 = x * self.by  # “größer”"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return source.read_homework(write(tmp_path_factory.mktemp("toy"))).cells


def search(cells, content):
    return leaks.find_leaks(leaks.list_secrets(cells), {"student/a.ipynb": content}, cells)


def test_secrets_are_the_lines_of_regions_with_their_numbers(cells):
    found = {secret.text: secret for secret in leaks.list_secrets(cells)}
    rows = TOY.split("\n")
    for secret in found.values():
        assert rows[secret.number - 1].strip() == secret.text
    assert found[SOLUTION].kind == "a solution" and found[HIDDEN].kind == "a hidden test"
    assert QUOTED in found
    assert "return answer_of_q1" not in found and "self.by = by" not in found
    assert not any("Multiply by" in text for text in found)


@pytest.mark.parametrize("line", [SOLUTION, HIDDEN, QUOTED], ids=["solution", "test", "unicode"])
@pytest.mark.parametrize(
    "written",
    [
        lambda line: line.encode(),
        lambda line: json.dumps({"source": [f"    {line}\n"]}).encode(),
        lambda line: json.dumps({"source": [f"    {line}\n"]}, ensure_ascii=False).encode(),
        lambda line: json.dumps(f"a = 1\n{line}\nb = 2").encode(),
        lambda line: b"\x00\xff" + line.encode() + b"\xfe",
    ],
    ids=["plain", "json", "json in utf-8", "json of a whole cell", "among bytes"],
)
def test_a_planted_line_is_found(line, written, cells):
    number = next(n for n, row in enumerate(TOY.split("\n"), 1) if row.strip() == line)
    found = search(cells, b"first line\n" + written(line) + b"\nlast line")
    assert len(found) == 1
    assert found[0].startswith(f"line {number}, of a ")
    assert "appears in student/a.ipynb" in found[0]
    assert line not in found[0] and "answer" not in found[0], "told by number, never by text"


def test_the_file_that_leaks_is_the_one_named_and_clean_ones_are_none(cells):
    assert search(cells, b"answer_of_q1 = FACTOR * x\n    return answer_of_q1") == []
    (mark,) = search(cells, b"x\n  ### BEGIN SOLUTION\n")
    assert mark == "a mark ### BEGIN … appears in student/a.ipynb"
    files = {"student/a.ipynb": b"clean\n", "student/b.ipynb": b"clean\n" + SOLUTION.encode()}
    (leak,) = leaks.find_leaks(leaks.list_secrets(cells), files, cells)
    assert "appears in student/b.ipynb" in leak


TRIVIAL = """
    y = x + 1
import torch.nn.functional as F
from math import sqrt, pi
def a_long_name(x, y, z):
class LongName(nn.Module):
@staticmethod_of_some_kind
return normalized_value
self.weight = weight
super().__init__()"""
TELLING = """return x * rstd + 1
self.weight = weight + 1
# the mean, over the last axis
y = x / rms * weight
mean = x.mean(-1)"""


@pytest.mark.parametrize("line", [*TRIVIAL.split("\n"), *TELLING.split("\n")])
def test_a_trivial_line_tells_nothing_and_any_other_is_a_secret(line):
    assert leaks.is_trivial(line) == (line in TRIVIAL.split("\n"))
