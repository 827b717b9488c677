"""Break labkit in one line, and a claim of the book must notice.

tests/breaks/chNN.py names the lines. Only the cells that a claim needs run, at profile cpu: once
with labkit as it is, whose verdict must be the recorded one, and once with a copy that is broken.
With labkit as it is they run for all claims that need no runs: where a slice lacked a cell, its
claim would fail, or say something else.
"""

import importlib
import json
import resource
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from labkit.book import chapters
from labkit.book.alone import Outcome, execute
from labkit.book.chapters import Chapter
from labkit.book.slices import book_chapter, claim_cell, claim_cells, slice_of
from tests import breaks
from tests.breaks import Break
from tests.toy_book import make_book

ROOT = Path(__file__).resolve().parents[1]
FEWEST, FEWEST_A_CHAPTER = 10, 2
MOST_SECONDS = 60  # of processor time, for each break and what runs beside it


def rows() -> list[tuple[str, Break]]:
    """List the book's breaks with the number of their chapter."""
    files = sorted(Path(breaks.__file__).parent.glob("ch[0-9][0-9].py"))
    return [
        (file.stem[2:], one)
        for file in files
        for one in importlib.import_module(f"tests.breaks.{file.stem}").BREAKS
    ]


def of_chapter(chapter: Chapter) -> list[Break]:
    """List the breaks of one chapter."""
    return [one for number, one in rows() if number == chapter.name[:2]]


ALL = pytest.mark.parametrize(
    "number, one", rows(), ids=[f"{n}-{one.path.split('/')[-1]}-{one.claim}" for n, one in rows()]
)


def broken(root: Path, one: Break, folder: Path) -> Path:
    """Copy labkit with the one line changed; a copy, because a link would lead to the original."""
    text = (root / one.path).read_text(encoding="utf-8")
    assert text.count(one.old) == 1, f"{one.path} must hold {one.old!r} exactly once"
    # What Python has compiled comes along, but not of the file that changes.
    ignored = shutil.ignore_patterns(f"{Path(one.path).stem}.*.pyc")
    shutil.copytree(root / "labkit", folder / "labkit", ignore=ignored)
    (folder / one.path).write_text(text.replace(one.old, one.new), encoding="utf-8")
    return folder


def without_runs(chapter: Chapter) -> list[str]:
    """Name the claims whose cells train nothing."""
    return [
        name
        for name, cell in claim_cells(chapter).items()
        if not any(".run(" in each.source for each in slice_of(chapter, cell).cells)
    ]


def outcomes(
    chapter: Chapter, root: Path, some: list[Break], folder: Path, others: Iterable[str] = ()
) -> tuple[dict[str, Outcome], list[Outcome]]:
    """Run claims' slices with labkit as it is, and those of the breaks with each broken one."""
    names = dict.fromkeys([*others, *(one.claim for one in some)])
    parts = {name: slice_of(chapter, claim_cell(chapter, name)) for name in names}
    copies = {
        number: broken(ROOT, one, folder / str(number))
        for number, one in enumerate(some, len(parts))
    }
    every = [*parts.values(), *(parts[one.claim] for one in some)]
    found = execute(every, root, profile="cpu", copies=copies, timeout=600 * len(some))
    return dict(zip(parts, found, strict=False)), found[len(parts) :]


def noticed(one: Break, recorded: str, cracked: Outcome) -> bool:
    """Tell whether a claim turned red: another verdict, or a cell that fails at its work."""
    if cracked.error:
        assert not cracked.error.startswith(("SyntaxError", "ImportError", "NameError")), (
            f"a break is wrong, not meaningless: {cracked.error}"
        )
        return True
    return cracked.claims[one.claim]["verdict"] != recorded


CHAPTERS = pytest.mark.parametrize("chapter", chapters.find(ROOT), ids=lambda c: c.name)


@pytest.mark.slow
@CHAPTERS
def test_claims_say_alone_what_was_recorded_and_notice_the_broken_lines(chapter, tmp_path):
    """One process runs a chapter's slices, because to start one costs more than most of them."""
    ledger: dict[str, Any] = json.loads((ROOT / "data/ledger/book.json").read_text())["claims"]
    some = of_chapter(chapter)
    unknown = [one.claim for one in some if one.claim not in ledger]
    assert unknown == [], "not recorded: build the book and accept them"
    others = [name for name in without_runs(chapter) if name in ledger]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole, cracked = outcomes(chapter, ROOT, some, tmp_path, others)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = {name: one.error or one.claims[name]["verdict"] for name, one in whole.items()}
    assert said == {name: ledger[name]["verdict"] for name in whole}, "with labkit as it is"
    for one, outcome in zip(some, cracked, strict=True):
        recorded = ledger[one.claim]["verdict"]
        assert noticed(one, recorded, outcome), f"{one.idea}: {outcome.claims[one.claim]}"
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < MOST_SECONDS * len(some), "choose cheaper claims, or smaller slices"


@ALL
def test_every_break_can_be_made(number, one):
    assert (ROOT / one.path).read_text(encoding="utf-8").count(one.old) == 1
    assert one.old != one.new and one.idea
    assert claim_cell(book_chapter(ROOT, number), one.claim)


@CHAPTERS
def test_every_chapter_has_its_breaks(chapter):
    own = of_chapter(chapter)
    assert len(own) >= FEWEST_A_CHAPTER, f"name them in tests/breaks/ch{chapter.name[:2]}.py"


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
    whole, (cracked,) = outcomes(chapter, tmp_path / "book", [one], tmp_path / "copy")
    assert whole["01-rms"].claims["01-rms"]["verdict"] == "holds"
    assert noticed(one, "holds", cracked) == seen
