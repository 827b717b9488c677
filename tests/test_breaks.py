"""Break labkit in one line, and a claim of the book must notice.

tests/breaks/chNN.py names the lines. Only the cells that the claim needs run, at profile cpu: once
with labkit as it is, whose verdict must be the recorded one, and once with a copy that is broken.
"""

import importlib
import json
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from labkit.book import chapters
from labkit.book.alone import Outcome, execute
from labkit.book.chapters import Chapter
from labkit.book.slices import book_chapter, claim_cell, slice_of
from tests import breaks
from tests.breaks import Break
from tests.toy_book import make_book

ROOT = Path(__file__).resolve().parents[1]
FEWEST, FEWEST_A_CHAPTER = 10, 2
MOST_SECONDS = 120  # of processor time, for both runs of one break


def rows() -> list[tuple[str, Break]]:
    """List the book's breaks with the number of their chapter."""
    files = sorted(Path(breaks.__file__).parent.glob("ch[0-9][0-9].py"))
    return [
        (file.stem[2:], one)
        for file in files
        for one in importlib.import_module(f"tests.breaks.{file.stem}").BREAKS
    ]


ALL = pytest.mark.parametrize(
    "number, one", rows(), ids=[f"{n}-{one.path.split('/')[-1]}-{one.claim}" for n, one in rows()]
)


def broken(root: Path, one: Break, folder: Path) -> Path:
    """Copy labkit with the one line changed; a copy, because a link would lead to the original."""
    text = (root / one.path).read_text(encoding="utf-8")
    assert text.count(one.old) == 1, f"{one.path} must hold {one.old!r} exactly once"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "labkit", folder / "labkit", ignore=ignored)
    (folder / one.path).write_text(text.replace(one.old, one.new), encoding="utf-8")
    return folder


def outcomes(chapter: Chapter, root: Path, one: Break, folder: Path) -> tuple[Outcome, Outcome]:
    """Run the claim's slice with labkit as it is, and with the broken one."""
    part = slice_of(chapter, claim_cell(chapter, one.claim))
    copy = broken(ROOT, one, folder)
    (whole,) = execute([part], root, profile="cpu")
    (cracked,) = execute([part], root, profile="cpu", code=copy, store=folder)
    return whole, cracked


def noticed(one: Break, recorded: str, cracked: Outcome) -> bool:
    """Tell whether a claim turned red: another verdict, or a cell that fails at its work."""
    if cracked.error:
        assert not cracked.error.startswith(("SyntaxError", "ImportError", "NameError")), (
            f"a break is wrong, not meaningless: {cracked.error}"
        )
        return True
    return cracked.claims[one.claim]["verdict"] != recorded


@pytest.mark.slow
@ALL
def test_a_claim_notices_the_broken_line(number, one, tmp_path):
    ledger: dict[str, Any] = json.loads((ROOT / "data/ledger/cpu.json").read_text())["claims"]
    assert one.claim in ledger, f"{one.claim} is not recorded: build the book and accept it"
    recorded = ledger[one.claim]["verdict"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole, cracked = outcomes(book_chapter(ROOT, number), ROOT, one, tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not whole.error
    assert whole.claims[one.claim]["verdict"] == recorded, "unbroken, it says what was recorded"
    assert noticed(one, recorded, cracked), f"{one.idea}: {cracked.claims[one.claim]}"
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < MOST_SECONDS, "choose a cheaper claim, or a smaller slice"


@ALL
def test_every_break_can_be_made(number, one):
    assert (ROOT / one.path).read_text(encoding="utf-8").count(one.old) == 1
    assert one.old != one.new and one.idea
    assert claim_cell(book_chapter(ROOT, number), one.claim)


@pytest.mark.parametrize("chapter", chapters.find(ROOT), ids=lambda c: c.name)
def test_every_chapter_has_its_breaks(chapter):
    number = chapter.name[:2]
    own = [one for other, one in rows() if other == number]
    assert len(own) >= FEWEST_A_CHAPTER, f"name them in tests/breaks/ch{number}.py"


def test_the_book_has_ten():
    assert len(rows()) >= FEWEST
    assert len({one.path for _, one in rows()}) >= FEWEST // 2, "in different places"


TOY = """# %% tags=["parameters"]
profile = "cpu"
seed = 0

# %%
import torch
from labkit.experiments import claim
from labkit.norms import rms_norm

# %%
y = rms_norm(torch.tensor([3.0, 1.0, -1.0, 5.0]))
claim("01-rms", "{mean}", y.square().mean().item(), source="s", criterion="> 0.99", kind="exact")
"""


@pytest.mark.parametrize(
    "old, new, seen",
    [
        ("import torch\nfrom jax", "import torch  # nothing changed\nfrom jax", False),
        ("def rms_norm(", "def _unseen(x):\n    return 2 * x\n\n\ndef rms_norm(", False),
        ("wide.square().mean(", "wide.square().sum(", True),
        ("wide.square().mean(", "wide.square().moan(", True),
    ],
    ids=["a comment", "unused", "a sum", "an error"],
)
def test_only_a_real_break_is_noticed(tmp_path, old, new, seen):
    path = "labkit/norms/rms_norm.py"
    one = Break("toy", path, old, new, "01-rms")
    chapter = book_chapter(make_book(tmp_path / "book", c01_toy=TOY), "01")
    whole, cracked = outcomes(chapter, tmp_path / "book", one, tmp_path / "copy")
    assert whole.claims["01-rms"]["verdict"] == "holds"
    assert noticed(one, "holds", cracked) == seen
