"""Break one line of labkit; a claim of the book, or the replay of a run, must detect it.

tests/breaks/chNN.py names the lines. The cells that a claim needs run at size book and without
training: with labkit as it is, whose verdicts must be the recorded ones, and with a broken copy.
"""

import importlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from labkit.corpora import Text
from labkit.experiments import Run
from labkit.experiments.replay import first_losses
from labkit.model import ModelConfig
from labkit.training import TrainConfig
from press.book import chapters
from press.book.cells import Outcome, claim_cells
from press.book.chapters import Chapter, find_chapter
from tests import breaks
from tests.breaks import Break
from tests.forks import run_program
from tests.toy_book import make_book
from tests.trials import run_trials

ROOT = Path(__file__).resolve().parents[1]
FEWEST_A_CHAPTER = 2
REPLAY = """
import json, sys
from labkit.experiments import Run
from labkit.experiments.replay import first_losses
print(json.dumps(first_losses(Run.from_dict(json.load(sys.stdin)))))
"""


def rows() -> list[tuple[str, Break]]:
    """List the book's breaks with the numbers of their chapters."""
    files = sorted(Path(breaks.__file__).parent.glob("ch*.py"))
    return [
        (file.stem[2:], one)
        for file in files
        for one in importlib.import_module(f"tests.breaks.{file.stem}").BREAKS
    ]


ALL = pytest.mark.parametrize(
    "number, one",
    rows(),
    ids=[f"{n}-{one.path.split('/')[-1]}-{one.claim or 'replay'}" for n, one in rows()],
)
CHAPTERS = pytest.mark.parametrize("chapter", chapters.find_chapters(ROOT), ids=lambda c: c.name)


@pytest.fixture(scope="module")
def ledger() -> dict[str, Any]:
    return json.loads((ROOT / "data/ledger/book.json").read_text(encoding="utf-8"))["claims"]


def broken(one: Break, folder: Path) -> Path:
    """Copy labkit with one line changed; a link would lead to the original."""
    text = (ROOT / one.path).read_text(encoding="utf-8")
    assert text.count(one.old) == 1, f"{one.path} must hold {one.old!r} exactly once"
    # What Python has compiled comes along, but not of the file that changes.
    ignored = shutil.ignore_patterns(f"{Path(one.path).stem}.*.pyc")
    shutil.copytree(ROOT / "labkit", folder / "labkit", ignore=ignored)
    (folder / one.path).write_text(text.replace(one.old, one.new), encoding="utf-8")
    (folder / "data").symlink_to(ROOT / "data")
    return folder


def claim_notices(chapter: Chapter, claim: str, verdict: str, code: Path) -> bool:
    """Return whether a claim fails: a different verdict, or a failing cell."""
    cell = claim_cells(chapter)[claim]
    outcome, _ = run_trials(chapter, only=[cell.index], code=code, size="book", seed=0)
    if claim in outcome.claims:
        return outcome.claims[claim]["verdict"] != verdict
    assert cell.index not in outcome.skipped, "its runs are not recorded"
    return failed_at_its_work(outcome)


def failed_at_its_work(outcome: Outcome) -> bool:
    """Return whether the first error reports a wrong result, rather than an undefined name."""
    error = min(outcome.errors.items())[1]
    meaningless = error.startswith(("SyntaxError", "ImportError", "NameError"))
    assert not meaningless, f"a break is wrong, not meaningless: {error}"
    return True


def replay_notices(run: Run, code: Path) -> bool:
    """Return whether a run, started again with the modified labkit, has different losses."""
    environment = {**os.environ, "PYTHONPATH": str(code)}
    told = run_program(REPLAY, json.dumps(run.to_dict()), code, environment)
    return json.loads(told) != first_losses(run)


@pytest.mark.slow
@CHAPTERS
def test_claims_have_their_recorded_verdicts_while_nothing_is_broken(chapter, ledger):
    claims = {one.claim for number, one in rows() if number == chapter.number and one.claim}
    only = [claim_cells(chapter)[claim].index for claim in claims]
    outcome, _ = run_trials(chapter, only=only, size="book", seed=0)
    assert outcome.errors == outcome.skipped == {}
    assert {claim: outcome.claims[claim]["verdict"] for claim in claims} == {
        claim: ledger[claim]["verdict"] for claim in claims
    }


@pytest.mark.slow
@ALL
def test_a_claim_or_a_replay_notices_the_broken_line(number, one, ledger, tmp_path):
    code = broken(one, tmp_path)
    if one.run is not None:
        assert replay_notices(one.run, code), one.idea
    else:
        verdict = ledger[one.claim]["verdict"]
        assert claim_notices(find_chapter(ROOT, number), one.claim, verdict, code), one.idea


@ALL
def test_every_break_can_be_made(number, one, ledger):
    assert (ROOT / one.path).read_text(encoding="utf-8").count(one.old) == 1
    assert one.old != one.new and one.idea
    assert bool(one.claim) != bool(one.run), "noticed by a claim, or by a replay"
    if one.claim:
        assert one.claim in claim_cells(find_chapter(ROOT, number))
        assert one.claim in ledger, "not recorded: build the book and accept it"


@CHAPTERS
def test_every_chapter_has_its_breaks(chapter):
    own = [one for number, one in rows() if number == chapter.number]
    assert len(own) >= FEWEST_A_CHAPTER, f"name them in tests/breaks/ch{chapter.number}.py"


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


TOY = """# %% tags=["parameters"]
size = "book"
seed = 0

# %%
import torch
from labkit.experiments import exact
from labkit.norms import rms_norm

# %%
y = rms_norm(torch.tensor([3.0, 1.0, -1.0, 5.0]))
exact(y.square().mean()).claim("01-rms", "> 0.99", "Rows have RMS 1.", source="s")
"""


@pytest.mark.parametrize(
    "old, new, seen",
    [
        slow("def rms_norm(", "def _unseen(x):\n    return 2 * x\n\n\ndef rms_norm(", False),
        ("wide.square().mean(", "wide.square().sum(", True),
        slow("wide.square().mean(", "wide.square().moan(", True),
    ],
    ids=["unused", "a sum", "an error"],
)
def test_only_a_real_break_is_noticed(tmp_path, old, new, seen):
    code = broken(Break("toy", "labkit/norms/rms_norm.py", old, new, "01-rms"), tmp_path / "copy")
    root = make_book(tmp_path / "book", c01_toy=TOY)
    assert claim_notices(find_chapter(root, "01"), "01-rms", "holds", code) == seen


@pytest.mark.parametrize(
    "path, old, new, seen",
    [
        ("training", "self.lr * (step + 1) / self.warmup", "self.lr * step / self.warmup", True),
        ("training", "config.lr, config.momentum", "config.lr, 0.0", False),
    ],
    ids=["the warm-up", "another optimizer"],
)
@pytest.mark.slow
def test_a_replay_sees_what_its_run_computes_and_nothing_else(tmp_path, path, old, new, seen):
    model = ModelConfig(dim=16, depth=1, heads=2, context=8)
    toy = Run(model, Text(batch=2, time=8), TrainConfig(steps=20, warmup=4))
    code = broken(Break("toy", f"labkit/{path}.py", old, new, run=toy), tmp_path)
    assert replay_notices(toy, code) == seen
