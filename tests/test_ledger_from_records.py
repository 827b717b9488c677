"""The ledger's values for the shared grid follow from the records, to the last digit."""

import json
from functools import cache
from pathlib import Path

import pytest

from labkit.experiments import ladder
from labkit.experiments.ladder.comparing import compare_on
from labkit.experiments.store import Store
from press.book.compare import find_change

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = json.loads((ROOT / "data" / "ledger" / "book.json").read_text(encoding="utf-8"))["claims"]


def list_comparisons() -> dict[tuple[str, str, str], dict]:
    """List the ledger's comparisons of two arms' test losses on a rung, each once."""
    found = {}
    for claim in CLAIMS.values():
        for rung, kept in (claim["rungs"] or {}).items():
            # Another measure than the loss is compared without the tuning runs' dates.
            if len(arms := kept.get("arms", ())) == 2 and "looked" in kept:
                found[(rung, *arms)] = kept
    return found


@pytest.fixture(scope="module")
def climbed():
    read = cache(Store(ROOT).read_recorded)
    arms = [arm for arm in ladder.ARMS if any(arm in of[1:] for of in list_comparisons())]
    return ladder.read_ladder(ladder.CLIMBED, arms, read)


def test_every_comparison_of_the_ledger_comes_out_of_the_records_again(climbed):
    """Pairs, standard deviations with their degrees of freedom, tuning, dates: all of them."""
    comparisons = list_comparisons()
    assert len(comparisons) > 80
    for (rung, *arms), kept in comparisons.items():
        again = compare_on(climbed, rung, *arms).to_dict()
        kept = {name: value for name, value in kept.items() if name != "paired"}
        assert find_change(f"{arms} on {rung}", kept, json.loads(json.dumps(again))) == ""
