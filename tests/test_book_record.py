"""The recorded book: its ledger judges as the statistics say, and its chapters are whole."""

import json
import re
from pathlib import Path

import pytest

from labkit.statistics.verdicts import is_weak
from press.book.ledger import collect
from press.site.holm import criterion, estimate, families, sort, verdict_of

ROOT = Path(__file__).parents[1]
LEDGER = json.loads((ROOT / "data" / "ledger" / "book.json").read_text(encoding="utf-8"))
CLAIMS = LEDGER["claims"]
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9][0-9]_*.py"))


@pytest.mark.parametrize("name", CLAIMS)
def test_a_recorded_verdict_follows_from_its_values(name):
    claim = CLAIMS[name]
    again = estimate(claim)
    # values are recorded with six digits
    assert again.interval() == pytest.approx(tuple(claim["interval"]), rel=1e-3, abs=1e-5)
    if not claim.get("counts") and len(claim["values"]) > 1:
        assert claim["seeds"] == len(claim["values"])
    assert claim["verdict"] == verdict_of(claim)
    weak = claim["verdict"] != "out-of-range" and is_weak(again, criterion(claim))
    assert claim["weak"] == weak


def test_no_finding_rests_on_an_interval_of_width_zero():
    found = {name: claim for name, claim in CLAIMS.items() if sort(claim) == "finding"}
    flat = [
        name
        for name, claim in found.items()
        if len(claim["values"]) > 1 and claim["interval"][0] == claim["interval"][1]
    ]
    assert flat == []


def test_a_claim_that_comes_from_others_is_what_they_make():
    """In time a step's price counts: fewer steps, divided by it."""
    gained, fewer, price = (
        CLAIMS[f"08-{name}"]["values"]
        for name in ("time-gained", "fewer-steps", "a-step-costs-more")
    )
    assert gained == pytest.approx([a / b for a, b in zip(fewer, price, strict=True)], rel=1e-4)


def test_every_claim_of_the_chapters_is_recorded_and_no_other():
    made = {
        card["id"]
        for chapter in CHAPTERS
        for card in collect(json.loads(chapter.with_suffix(".ipynb").read_text()), chapter.stem)
    }
    assert made == set(CLAIMS)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_its_bones(chapter):
    text = chapter.read_text(encoding="utf-8")
    cells = re.split(r"(?m)^# %%", text)
    prose = "\n".join(cell for cell in cells if cell.startswith(" [markdown]"))
    # code spans and formulas are not words; 2,500 to 4,500 words
    words = len(re.findall(r"[A-Za-z]{2,}", re.sub(r"`[^`]*`|\$[^$]*\$", " ", prose)))
    assert 2_300 <= words <= 4_700
    for bone in ("**Question.**", "**What you will see**", "## Predict", "## Exercises"):
        assert bone in prose, bone
    assert text.count('tags=["exercise"]') >= 5
    assert prose.count("<summary>Hint</summary>") >= 5
    assert prose.count("<summary>Solution</summary>") + text.count('tags=["solution"]') >= 5
    assert sum(CLAIMS[name]["chapter"] == chapter.stem for name in CLAIMS) >= 6


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_work_that_a_chapter_cites_is_in_the_bibliography(chapter):
    keys = set(re.findall(r"(?m)^@\w+\{([^,]+),", (ROOT / "chapters/references.bib").read_text()))
    cited = {
        key.strip()
        for group in re.findall(r"\{cite:[pt]\}`([^`]+)`", chapter.read_text(encoding="utf-8"))
        for key in group.split(",")
    }
    assert cited and cited <= keys


def test_a_chapter_tests_at_most_thirty_findings_together():
    sizes = {name: len(family) for name, family in families(CLAIMS).items()}
    assert {name: size for name, size in sizes.items() if size > 30} == {}


def test_no_sentence_of_a_card_holds_markup_that_a_card_shows_as_it_is():
    assert [name for name, claim in CLAIMS.items() if "\\" in claim["statement"]] == []
