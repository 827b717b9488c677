"""Attacks that once succeeded: unearned points, false identities, a stopped batch."""

import time
import zipfile
from pathlib import Path

import pytest
import torch

from labkit.system.time_limit import TooLong, at_most
from press.homework import source
from press.homework.draw import Draw
from press.homework.grading import grade as grading
from press.homework.grading.collect import collect_inbox
from press.homework.grading.examiner import limit_memory
from press.homework.grading.file_owner import find_owner, read_class
from press.homework.grading.private_test import run_private_test
from press.homework.release import draft_private
from press.homework.sandbox import Answer
from press.homework.trusted import Trusted
from press.homework.variants import draw_variants
from press.homework.verdicts import holds, item
from tests.homework.grading_case import CELLS, graded, says, write, zipped

CHAPTERS = Path(__file__).parents[2] / "chapters" / "homework"

OWN_NORM = """
import torch
from torch import nn


class OwnNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.learned = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return ({y}).to(x.dtype)


def blind_to():
    return {laws}


def own_backward(x, dy, parameters):
    return {dx}, {{"learned": {slope}}}


def outlier(size, dim):
    return {outlier}


def precision_note():
    return "in float32, because sums need their digits"
"""
CONSTANT = OWN_NORM.format(
    y="0 * wide + self.learned",
    laws={"scale": True, "shift": True, "mirror": False},
    dx="0 * x",
    slope="dy.sum(0)",
    outlier="1.0, 1.0",
)
IDENTITY = OWN_NORM.format(
    y="self.learned * wide",
    laws={"scale": False, "shift": False, "mirror": True},
    dx='parameters["learned"] * dy',
    slope="(dy * x).sum(0)",
    outlier="size, 0.0",
)


def judged(name: str, question: str, code: str) -> dict[str, tuple[bool, str]]:
    """Return the verdict and the message of each part of a question, for some code."""
    homework = source.read_homework(CHAPTERS / f"{name}.py")
    numbers = draw_variants(draft_private(homework), "")
    (one,) = (each for each in homework.questions if each.id == question)
    literal = "".join(f"{key} = {value!r}\n" for key, value in numbers.items())
    student = Trusted(literal + code, homework.probes, homework.packages)
    found = run_private_test(one.hidden, question, student, Draw("attack"), numbers)
    return {each.name: (each.verdict.ok, each.message) for each in found}


@pytest.mark.parametrize("code", [CONSTANT, IDENTITY], ids=["constant", "identity"])
@pytest.mark.parametrize(
    ("question", "earned"),
    [
        ("q1", ["shape and dtype", "each token by itself", "finite, and a slope"]),
        ("q2", []),
        ("q3", []),
        ("q4", []),
        ("q5", ["saved and loaded"]),
    ],
)
def test_neither_a_constant_nor_the_identity_is_a_norm(question, earned, code):
    """They satisfy all laws and predictions of homework 5, and once earned 16 and 18 of 19."""
    told = judged("hw5_your_own_norm", question, code)
    assert [name for name, (ok, _) in told.items() if ok] == earned


def test_torch_has_more_norms_than_those_with_plain_names():
    fused = (
        "import torch\ndef rms_norm(x, weight=None, eps=EPS):\n"
        "    return torch._fused_rms_norm(x, [x.shape[-1]], weight, eps)[0]\n"
    )
    told = judged("hw1_norms_from_scratch", "q2", fused)
    assert not any(ok for ok, _ in told.values())
    assert all("torch's own _fused_rms_norm was called" in message for _, message in told.values())


UNHEARD = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@UNHEARD
def test_a_limit_that_ends_in_a_destructor_is_heard_all_the_same():
    class Slow:
        def __del__(self):
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                pass
            heard.append("not reached: the limit ended here, where nobody hears it")

    heard: list[str] = []
    begun = time.monotonic()
    with pytest.raises(TooLong), at_most(0.05):
        Slow()
        while time.monotonic() < begun + 10:
            pass
    assert time.monotonic() - begun < 5 and heard == []


def test_what_fails_because_the_limit_came_is_the_limits_end():
    """Python's own parser raises SystemError if it is interrupted."""
    with pytest.raises(TooLong), at_most(0.05):
        try:
            while True:
                pass
        except TooLong:
            raise SystemError("AST constructor recursion depth mismatch") from None
    with pytest.raises(SystemError), at_most(10):
        raise SystemError("the code's own")


def test_the_outer_of_two_limits_holds():
    begun = time.monotonic()
    with pytest.raises(TooLong), at_most(0.2):
        with at_most(0.01):
            time.sleep(0.05)
        time.sleep(10)
    assert 0.15 < time.monotonic() - begun < 5


@UNHEARD
def test_a_chain_of_definitions_ends_as_an_unreadable_file(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "READ_SECONDS", 0.01)
    chain = "\n".join(f"a{n} = a{n - 1}" for n in range(4000, 0, -1))
    used = CELLS[2].replace("eps=EPS", "eps=a4000")
    result = graded(write(tmp_path, "ann", [chain, "a0 = 0.5", "import torch", used]))
    assert result["total"] == 0 and "must be readable within 0.01 s" in says(result)


def test_a_damaged_lzma_member_stops_no_collection(tmp_path):
    damaged = bytearray(zipped({"hw1.ipynb": "x = 1\n" * 500}, zipfile.ZIP_LZMA))
    start = damaged.index(b"hw1.ipynb") + len("hw1.ipynb") + 9  # behind the codec's properties
    for at in range(start, start + 20):
        damaged[at] ^= 0x5A
    inbox = tmp_path / "inbox"
    for student, name, content in [("ann", "hw1.zip", damaged), ("bob", "hw1.ipynb", b"{}")]:
        (inbox / student).mkdir(parents=True)
        (inbox / student / name).write_bytes(content)
    collected = collect_inbox(inbox, "hw1", tmp_path / "out")
    assert [each.student for each in collected.taken] == ["bob"]
    assert [each.why for each in collected.refused] == ["it cannot be unpacked (LZMAError)"]


def test_a_strangers_zip_does_not_take_a_students_place(tmp_path):
    roster = tmp_path / "class.csv"
    roster.write_text("id,name,canvas\nbob,Bob Ray,4712\n", encoding="utf-8")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "bobray_4712_1_hw1.ipynb").write_text("his own")
    (inbox / "eve_9999_2_work.zip").write_bytes(zipped({"bob/hw1.ipynb": "x = 1"}))
    collected = collect_inbox(inbox, "hw1", tmp_path / "out", read_class(roster))
    assert [each.label for each in collected.taken] == ["bobray_4712_1_hw1.ipynb"]
    assert [each.why for each in collected.refused] == ["its path names no student on the roster"]


@pytest.mark.parametrize(
    "name",
    [
        "Ann Lee_4711_assignsubmission_file_x_4712_assignsubmission_file_y.ipynb",
        "annlee_4711_90210_x_4712_assignsubmission_file_hw1.ipynb",
    ],
)
def test_a_files_own_name_does_not_say_whose_it_is(tmp_path, name):
    """A platform writes a prefix; the rest is the name that the student gave the file."""
    roster = tmp_path / "class.csv"
    roster.write_text("id,number\nann,4711\nbob,4712\n", encoding="utf-8")
    assert find_owner((name,), read_class(roster), "hw1") == "ann"


def test_long_thin_tensors_do_not_fill_the_graders_memory():
    """Broadcasting a returned column against a row would take 400 GB, and kill the examiner."""
    column = Answer(torch.ones(10_000_000, 1))
    with limit_memory(1 << 30):
        told = holds(column, lambda y: bool((y - torch.ones(10_000)).sum() > 0), says="Thin.")
    assert not told.ok and "Thin." in told.cause


def test_a_name_without_end_does_not_fill_the_feedback():
    """A homework may ask for an item by a name that the student chose."""
    assert len(item(Answer({}), "w" * 1_000_000).detail) < 200
