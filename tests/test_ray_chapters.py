"""The two first chapters run unchanged on every engine, with equal claims."""

import json
import shutil
from pathlib import Path

import pytest

from labkit.book import chapters
from labkit.experiments.store import read_entry
from tests.ray_cluster import PATIENCE, cluster
from tests.toy_book import REPOSITORY, command

pytestmark = pytest.mark.slow
CHAPTERS = ("01", "02")


def build(root: Path, *engine: str) -> tuple[dict, dict]:
    """Build the chapters from nothing; return their claims, and the losses of their runs by key."""
    (root / "chapters").mkdir(parents=True)
    for chapter in chapters.choose(chapters.find(REPOSITORY), CHAPTERS):
        shutil.copy(chapter.source, root / "chapters")
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    process = command(root, "book", "build", "--profile", "smoke", "--engine", *engine)
    said = process.communicate(timeout=4 * PATIENCE)[0]
    assert process.returncode == 0, said
    claims = json.loads((root / "build/claims/smoke.json").read_text())["claims"]
    entries = [read_entry(path) for path in (root / ".labkit/runs").glob("*.json")]
    assert {entry["made"]["engine"] for entry in entries} == {engine[0]}
    return claims, {entry["key"]: entry["record"]["losses"] for entry in entries}


def check_equal(one: tuple[dict, dict], other: tuple[dict, dict]) -> None:
    assert one[1] == other[1], "every run's losses, to the last bit"
    assert one[0].keys() == other[0].keys()
    for name, claim in one[0].items():
        assert claim["verdict"] == other[0][name]["verdict"], name
        # A few claims measure rounding in the kernel itself, and no two kernels round alike.
        assert claim["values"] == pytest.approx(other[0][name]["values"], rel=0.01), name


def test_chapters_one_and_two_claim_the_same_on_every_engine(tmp_path):
    serial = build(tmp_path / "serial", "serial")
    assert len(serial[0]) > 10 and len(serial[1]) > 50
    check_equal(build(tmp_path / "processes", "processes"), serial)
    with cluster(tmp_path / "cluster") as two_nodes:
        check_equal(build(tmp_path / "ray", "ray", "--address", two_nodes.address), serial)
