"""The two first chapters run unchanged on every engine, with equal claims.

On Ray they are built as a reader builds them. On the other engines their cells are executed in
order, without a kernel.
"""

import json
import shutil
from pathlib import Path

import pytest

from labkit.experiments.store import read_entry
from press.book import chapters
from press.book.cells import run_chapter
from tests.ray_cluster import PATIENCE
from tests.toy_book import REPOSITORY, command

pytestmark = pytest.mark.slow
CHAPTERS = ("01", "02")


def chosen() -> list[chapters.Chapter]:
    return chapters.choose_chapters(chapters.find_chapters(REPOSITORY), CHAPTERS)


def losses(root: Path, engine: str) -> dict[str, list[float]]:
    """Read what an engine trained, by key."""
    entries = [read_entry(path) for path in (root / ".labkit/runs").glob("*.json")]
    assert {entry["made"]["engine"] for entry in entries} == {engine}
    return {entry["key"]: entry["record"]["losses"] for entry in entries}


def build(root: Path, *engine: str) -> tuple[dict, dict]:
    """Build the chapters from nothing; return their claims and the losses of their runs."""
    (root / "chapters").mkdir(parents=True)
    for chapter in chosen():
        shutil.copy(chapter.source, root / "chapters")
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    process = command(root, "book", "build", "--size", "smoke", "--engine", *engine)
    said = process.communicate(timeout=4 * PATIENCE)[0]
    assert process.returncode == 0, said
    claims = json.loads((root / "build/claims/smoke.json").read_text())["claims"]
    return claims, losses(root, engine[0])


def claim(root: Path, engine: str) -> tuple[dict, dict]:
    """Execute the chapters' cells in order, from an empty store."""
    claims = {}
    for chapter in chosen():
        store = {"LABKIT_ROOT": str(root), "LABKIT_ENGINE": engine}
        outcome, _ = run_chapter(chapter, train=True, environment=store, size="smoke", seed=0)
        assert outcome.errors == outcome.skipped == {}
        claims |= outcome.claims
    return claims, losses(root, engine)


def test_chapters_one_and_two_claim_the_same_on_every_engine(tmp_path, two_nodes):
    book = build(tmp_path / "ray", "ray", "--address", two_nodes.address)
    for engine in ("serial", "processes"):
        claims, runs = claim(tmp_path / engine, engine)
        assert len(claims) > 10 and len(runs) > 50
        assert runs == {key: book[1][key] for key in runs}, "every run's losses, to the last bit"
        for name, card in claims.items():
            other = book[0][name]
            assert card["verdict"] == other["verdict"], name
            # A few claims measure rounding in the process itself, and no two round alike.
            assert card["values"] == pytest.approx(other["values"], rel=0.01), name
