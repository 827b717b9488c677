"""The page judges answers by hand as labkit.check does, and parses numbers as they are typed."""

import json
import subprocess
from pathlib import Path

import pytest

from labkit import check
from press.npm import find_packaged

STATIC = Path(__file__).parents[1] / "chapters" / "_static"
RUN = """
const fs = require("fs"), vm = require("vm");
vm.runInThisContext(fs.readFileSync(process.argv[1], "utf8"));
const { judge, readNumber } = globalThis.labkitJudge;
const read = (text) => { try { return readNumber(text); } catch (error) { return error.message; } };
const { cases, texts } = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify({
  verdicts: cases.map(({ task, given }) => judge(task, given)),
  numbers: texts.map((text) => String(read(text))),
}));
"""
# truth, rtol, what is typed for each part, the same as a reader of the notebook writes it
SQRT12 = 12**0.5
CASES = {
    "a number": (4.5523, 1e-3, {"": "4.55"}, 4.55),
    "a formula": (4.5523, 1e-3, {"": "ln(9000)/2"}, 4.55243),
    "too far": (4.5523, 1e-3, {"": "4.5"}, 4.5),
    "at the edge": (1000.0, 1e-3, {"": "1001"}, 1001),
    "over the edge": (1000.0, 1e-3, {"": "1001.1"}, 1001.1),
    "zero": (0.0, 1e-3, {"": "0.0009"}, 0.0009),
    "not zero": (0.0, 1e-3, {"": "0.0011"}, 0.0011),
    "negative": (-55, 2e-3, {"": "−55"}, -55),
    "the sign": (-55, 2e-3, {"": "55"}, 55),
    "unanswered": (4.5, 1e-3, {"": ""}, ...),
    "dots": (4.5, 1e-3, {"": " ... "}, "..."),
    "yes": (True, 1e-3, {"": True}, True),
    "no for yes": (True, 1e-3, {"": False}, False),
    "no choice": (True, 1e-3, {"": None}, None),
    "a word": ("Post-Norm", 1e-3, {"": " post-norm."}, " post-norm."),
    "another word": ("Post-Norm", 1e-3, {"": "pre-norm"}, "pre-norm"),
    "a list": ([0.6, 0.8], 1e-3, {"": ["3/5", "0,8"]}, [0.6, 0.8]),
    "one of a list": ([0.6, 0.8], 1e-3, {"": ["0.6", "0.6"]}, [0.6, 0.6]),
    "one lacks": ([0.6, 0.8], 1e-3, {"": ["0.6", ""]}, [0.6, ...]),
    "small beside large": ([1e-5, 100.0], 1e-3, {"": ["0", "100"]}, [0, 100]),
    "named": (
        {"pre": 1 / 13**0.5, "times": SQRT12},
        0.01,
        {"pre": "1/sqrt(13)", "times": "sqrt(12)"},
        {"pre": 0.27735, "times": 3.4641},
    ),
    "named, one wrong": ({"a": 1, "b": 2}, 1e-3, {"a": "1", "b": "3"}, {"a": 1, "b": 3}),
    "named, all wrong": ({"a": 1, "b": 2}, 1e-3, {"a": "2", "b": "3"}, {"a": 2, "b": 3}),
    "named, one lacks": ({"a": 1, "b": 2}, 1e-3, {"a": "1", "b": ""}, {"a": 1, "b": ...}),
    "named, all lack": ({"a": 1, "b": 2}, 1e-3, {"a": "", "b": ""}, {"a": ..., "b": ...}),
    "one name": ({"a": 1}, 1e-3, {"a": "2"}, {"a": 2}),
    "mixed": (
        {"output": [1.0, -1.0], "count": 2, "solves": False},
        1e-3,
        {"output": ["1", "-1"], "count": "2", "solves": True},
        {"output": [1, -1], "count": 2, "solves": True},
    ),
    "in a list of a name": (
        {"output": [1.0, -1.0]}, 1e-3, {"output": ["1", ""]}, {"output": [1, ...]},
    ),
}  # fmt: skip
NUMBERS = {
    "4.55": 4.55, "4,55": 4.55, " 7 ": 7, "1/3": 1 / 3, "2^24": 2.0**24, "2**-3": 0.125,
    "sqrt(12)": SQRT12, "√12": SQRT12, "√(3 * 4)": SQRT12, "-2^2": -4, "2^3^2": 512, "2^-1": 0.5,
    "(1 + 2) * 3": 9, "1e-5": 1e-5, "2.5E3": 2500, ".5": 0.5, "5.": 5, "268_435_456": 268435456,
    "2 × 3": 6, "2·3": 6, "1 − 2": -1, "6 ÷ 3": 2, "π": 3.141592653589793,
    "pi/2": 1.5707963267948966, "e": 2.718281828459045, "exp(1)": 2.718281828459045, "ln(e)": 1,
    "log(1)": 0, "log2(8)": 3, "log10(0.01)": -2, "abs(-3)": 3, "0,5 * 3": 1.5, "8-3-2": 3,
    "8/2/2": 2, "-3": -3, "+3": 3, "--3": 3, "2*-3": -6, "12,3456": 12.3456, "0,125": 0.125,
}  # fmt: skip
UNREADABLE = {
    "abc": "cannot be read", "1 2": "cannot be read", "2 +": "cannot be read",
    "(1": "cannot be read", "1)": "cannot be read", "sqrt 4": "cannot be read",
    "alert(1)": "cannot be read", "constructor": "cannot be read", "3 %": "cannot be read",
    "1,000": "two ways", "12,345,678": "two ways", "sqrt(-1)": "is no number",
    "0/0": "is no number", "2^": "cannot be read", "1.2.3": "cannot be read",
    "": "cannot be read",
}  # fmt: skip


@pytest.fixture(scope="module")
def came() -> dict:
    """Return the verdicts of the page's script on all cases, in Node."""
    cases = [
        {
            "task": check.answer(..., truth, hint="think", rtol=rtol)._repr_mimebundle_()[MIME],
            "given": given,
        }
        for truth, rtol, given, _ in CASES.values()
    ]
    node = find_packaged("bin/node")
    assert node, "run `make setup`: pyright's Node runs the page's script here"
    told = subprocess.run(
        [*node, "-e", RUN, str(STATIC / "judge.js")],
        input=json.dumps({"cases": cases, "texts": [*NUMBERS, *UNREADABLE]}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(told.stdout)


MIME = "application/vnd.labkit.exercise+json"


@pytest.mark.parametrize("name", CASES)
def test_page_and_notebook_say_the_same(came, name):
    truth, rtol, _, yours = CASES[name]
    verdict = came["verdicts"][list(CASES).index(name)]
    report = check.answer(yours, truth, hint="think", rtol=rtol)
    assert verdict["ok"] == report.ok
    assert verdict["message"] == (report.laws[0].message or "right")


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_read(came, text):
    assert float(came["numbers"][list(NUMBERS).index(text)]) == pytest.approx(
        NUMBERS[text], rel=1e-12
    )


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_no_number_is_said(came, text):
    said = came["numbers"][len(NUMBERS) + list(UNREADABLE).index(text)]
    assert UNREADABLE[text] in said and text in said
