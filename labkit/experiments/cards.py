"""A judged claim, and its card."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from labkit.experiments.card_html import (
    KINDS,
    describe_evidence,
    describe_original,
    describe_source,
    describe_verdict,
    draw_card,
    find_sentence,
    format_number,
)
from labkit.statistics.criteria import Estimate, Interval
from labkit.statistics.pooled import Difference
from labkit.statistics.proportions import Gap, Proportion

SORTS = {"law": "Exact claim", "finding": "Finding"}


@dataclass(frozen=True)
class Claim:
    """One judged sentence; `claim` makes and shows it."""

    id: str
    said: str | None  # the sentence that is tested
    wording: str  # as typed, its numbers still to be filled in
    numbers: Mapping[str, int | float | str]  # the numbers in it
    estimate: Estimate
    source: str
    criterion: str
    kind: str
    verdict: str
    weak: bool
    published: str | None
    domain: Mapping[str, Any] | None  # theirs, ours, inside: where the source's statement applies
    effect: float | None  # an equivalence margin is at most a quarter of it
    predicted: float | None  # the theoretical value
    rungs: Mapping[str, Estimate]  # results on the ladder: sizes first, then directions
    runs: Mapping[str, Any] | None  # facts from records: seeds, values, dates
    only: str | None  # the one rung on which it holds
    word: str | None  # of a complete finding: which of its runs are older than its lock
    lock: Mapping[str, Any] | None  # when it was locked, with which probability and checksum
    lacking: tuple[str, ...]  # unmet requirements of the regime
    unit: str | None  # what the sample consists of, if not seeds or runs
    tried: Mapping[str, str]  # robustness checks: second value, last step, control
    tolerance: float  # the allowed change of a later mean

    @property
    def statement(self) -> str:
        """Return the sentence with its numbers filled in."""
        return self.wording.format(**self.numbers)

    @property
    def values(self) -> tuple[float, ...]:
        """Return one value per seed; for a proportion, the proportion."""
        return self.estimate.values

    @property
    def mean(self) -> float:
        """Return the estimate."""
        return self.estimate.mean

    @property
    def interval(self) -> Interval:
        """Return its 95 % interval."""
        return self.estimate.compute_interval()

    @property
    def sort(self) -> str:
        """Return "law" for an exact claim (algebra, a count, a fact about code), else "finding"."""
        return "law" if self.kind == "exact" else "finding"

    @property
    def counts(self) -> list[list[int]] | None:
        """Return [k, n] of each proportion; None for values."""
        return self.estimate.counts if isinstance(self.estimate, Proportion | Gap) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as its entry in the ledger, with its id."""
        claim = {field.name: getattr(self, field.name) for field in fields(self)}
        one = claim.pop("estimate")
        rungs = {rung: _keep_estimate(of) for rung, of in self.rungs.items()}
        optional = {"lacking": list(self.lacking), "tried": dict(self.tried), "rungs": rungs}
        return {
            **claim,
            **{name: value or None for name, value in optional.items()},
            "sort": self.sort,
            "statement": self.statement,
            "numbers": {name: _convert_number(value) for name, value in self.numbers.items()},
            "values": [_round_digits(v) for v in self.values],
            "counts": self.counts,
            "interval": [_round_digits(v) for v in self.interval],
            "samples": one.to_dict() if isinstance(one, Difference) else None,
            "tolerance": _round_digits(self.tolerance, 3),
            "seeds": self.counts[0][1] if self.counts else len(self.values),
        }

    def _ipython_display_(self) -> None:
        """Show nothing: the card was shown when the claim was made."""

    def __str__(self) -> str:
        claim = self.to_dict()
        evidence = describe_evidence(claim, self.estimate)
        asked = f"criterion: {self.criterion} ({KINDS[self.kind]})"
        low, high = self.interval
        lines = [
            f"[{SORTS[self.sort]}: {describe_verdict(claim)}] {self.statement}",
            f"claim: {find_sentence(claim)}" if self.said else "",
            describe_original(claim),
            "; ".join(
                filter(None, [f"measured: {format_number(self.mean, high - low)}", evidence, asked])
            ),
            describe_source(claim),
        ]
        return "\n".join(filter(None, lines))

    def to_html(self) -> str:
        """Draw the card."""
        return draw_card(self.to_dict(), self.estimate)


def _keep_estimate(one: Estimate) -> dict[str, Any]:
    """Return a rung's result in a form that can be judged again."""
    if isinstance(one, Difference):
        return one.to_dict()
    return {"values": [_round_digits(value) for value in one.values]}


def _round_digits(value: float, digits: int = 6) -> float:
    return float(f"{value:.{digits}g}")


def _convert_number(value: float | str) -> int | float | str:
    """Convert a number to a form that JSON can represent."""
    if isinstance(value, int | str):
        return value
    return _round_digits(value) if math.isfinite(value) else str(value)
