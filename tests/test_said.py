"""Words about verdicts in the chapters are what the ledger says."""

import json
from pathlib import Path

import pytest

from press.book.said import check, misstatements

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = {
    "01-a": {"verdict": "holds", "weak": False},
    "01-b": {"verdict": "out-of-range", "weak": False},
    "01-loop-x": {"verdict": "not-seen", "weak": True},
}
CHAPTER = '''# %%
claim(
    {made}
)

# %% [markdown]
r"""
{prose}
"""
'''


@pytest.mark.parametrize(
    ("made", "prose", "right"),
    [
        ('"01-a",', "The card holds.", True),
        ('"01-a",', "The card is weak because one run stands apart; else it would hold.", False),
        ('"01-b",', "So the second half of the puzzle is not seen here.", False),
        ('"01-b",', "Not seen. After so few steps both know little.", False),
        ('"01-b",', "Out of range. After so few steps both know little.", True),
        ('"01-a",', "Five predictions hold.", False),
        ('f"01-loop-{name}",', "Both cards are weak.", True),
        ('f"01-loop-{name}",', "If the card holds, the direction is the paper's.", True),
        ('"01-a",', "| a source | `01-b`: contradicted |", False),
        ('"01-a",', "| a source | `01-b`: out of range |", True),
        ('"01-a",', "The bound holds, and the weak side is another.", True),
    ],
)
def test_what_prose_says_of_a_card_is_what_is_recorded(made, prose, right):
    found = misstatements(CHAPTER.format(made=made, prose=prose), CLAIMS)
    assert (found == []) == right, found


def test_no_chapter_says_another_verdict_than_the_ledger():
    ledger = json.loads((ROOT / "data" / "ledger" / "book.json").read_text(encoding="utf-8"))
    assert check(ROOT, ledger["claims"]) == {}
