"""Rules for the ledger: verdicts follow from values, and all claims of the chapters are in it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from labkit.statistics.recorded import compute_p_values, judge_again, rebuild_estimate
from press.book.chapters import is_letter, read_number
from press.book.compare import EXACT, find_change
from press.book.ledger import collect_claims, join_claims
from press.lint.text import Text

Claims = Mapping[str, Mapping[str, Any]]
TOGETHER, ON_A_SHELF = 30, 60  # findings that Holm's correction can bear


def judge_values(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Check that intervals, numbers of seeds, verdicts and weaknesses follow from the values."""
    for name, claim in claims.items():
        again = rebuild_estimate(claim)
        made = again.compute_interval()
        pairs = zip(made, claim["interval"], strict=True)
        # values are recorded with six digits
        if not all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5) for a, b in pairs):
            yield f"{name} has the interval {claim['interval']}; its values give {list(made)}"
        several = not claim.get("counts") and len(claim["values"]) > 1
        if several and claim["seeds"] != len(claim["values"]):
            yield f"{name} has {claim['seeds']} seeds on record, but {len(claim['values'])} values"
        judged = judge_again(claim)
        if judged.verdict != claim["verdict"]:
            yield f"{name} is recorded as {claim['verdict']}; its values make it {judged.verdict}"
        if judged.weak != claim["weak"]:
            yield f"{name} is recorded as {'' if claim['weak'] else 'not '}weak; its values differ"


def refuse_width_zero(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Refuse findings based on an interval of width zero."""
    for name, claim in claims.items():
        low, high = claim["interval"]
        if claim["sort"] == "finding" and low == high:
            yield f"{name} is a finding whose interval has width 0; is it exact, or a proportion?"


def match_the_chapters(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Check that the ledger contains exactly the claims of the chapters."""
    made = {card["id"] for text in texts for card in collect_claims(text.twin, text.name)}
    yield from (f"{name} is recorded, but no chapter makes it" for name in sorted({*claims} - made))
    yield from (f"{name} is made, but not recorded" for name in sorted(made - {*claims}))


def match_the_cards(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Check that a twin's cards show exactly the recorded values and degrees of freedom."""
    for text in texts:
        for name, card in join_claims(collect_claims(text.twin, text.name)).items():
            recorded = claims.get(name, card)
            changes = (find_change(key, recorded.get(key), card.get(key)) for key in EXACT)
            if change := next(filter(None, changes), ""):
                yield f"{name} on its card: {change}; `make book` writes the twin again"


def limit_families(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Allow at most thirty findings tested together per chapter, sixty per appendix."""
    for chapter, family in compute_p_values(claims).items():
        most = ON_A_SHELF if is_letter(read_number(chapter)) else TOGETHER
        if len(family) > most:
            yield f"{chapter} tests {len(family)} findings together; at most {most}"


def refuse_markup(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Refuse markup in a claim's sentence, which a card shows literally."""
    for name, claim in claims.items():
        if "\\" in claim["statement"]:
            yield f"{name} contains markup, which its card shows literally: {claim['statement']}"


def find_unsaid(claims: Claims, texts: Sequence[Text]) -> Iterator[str]:
    """Find claims without a sentence: the verdict is about that sentence."""
    for name, claim in claims.items():
        if not claim.get("said"):
            yield f"{name} does not say what it tests; give said=, in words, without our numbers"


LEDGER: tuple[Callable[[Claims, Sequence[Text]], Iterator[str]], ...] = (
    judge_values,
    refuse_width_zero,
    match_the_chapters,
    match_the_cards,
    limit_families,
    refuse_markup,
    find_unsaid,
)
