"""A judged claim, and the card that shows it."""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.statistics.criteria import Estimate, Interval, parse_criterion
from labkit.statistics.proportions import Gap, Proportion

KINDS = {
    "exact": "algebra or a count",
    "at": "one stated setting",
    "best": "each arm at its own best learning rate",
    "range": "over a learning-rate range declared beforehand",
}
SORTS = {"law": "Law", "finding": "Finding"}
VERDICTS = {
    "holds": "holds here",
    "not-seen": "not seen at this scale",
    "contradicted": "contradicted here",
    "out-of-range": "out of range",
}
# A shape, so that no verdict hangs on its colour, and a colour legible on light and dark ground.
LOOKS = {
    "holds": ("●", "#2c8a57"),
    "not-seen": ("○", "#80868b"),
    "contradicted": ("▲", "#cc5a2b"),
    "out-of-range": ("◇", "#80868b"),
}


@dataclass(frozen=True)
class Claim:
    """One judged sentence; made by `claim`, which also shows it."""

    id: str
    said: str | None  # the sentence that is tested
    wording: str  # as typed, its numbers still to be filled in
    numbers: Mapping[str, int | float | str]  # those that fill it
    estimate: Estimate
    source: str
    criterion: str
    kind: str
    verdict: str
    weak: bool
    published: str | None
    domain: Mapping[str, Any] | None  # theirs, ours, inside: where the source's statement applies
    effect: float | None  # an equivalence margin is at most a quarter of it
    predicted: float | None  # what theory gives
    primary: bool  # one of the chapter's findings, which pay for their number together
    derived_from: tuple[str, ...]  # claims that this one is computed from
    rungs: Mapping[str, float]  # of the ladder: the mean on each, the largest last
    lacking: tuple[str, ...]  # conditions of the regime that fail
    tolerance: float | None  # how far a later mean may move, where that is no share of it
    rtol: float | None  # the same as a share of the mean

    @property
    def statement(self) -> str:
        """Fill the numbers in."""
        return self.wording.format(**self.numbers)

    @property
    def values(self) -> tuple[float, ...]:
        """Return one value per seed; of a proportion, the share."""
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
        """Return what it is: a law (algebra, a count, what code does) or a finding."""
        return "law" if self.kind == "exact" else "finding"

    @property
    def counts(self) -> list[list[int]] | None:
        """Return [k, n] of each proportion; None for values."""
        return self.estimate.counts if isinstance(self.estimate, Proportion | Gap) else None

    def to_dict(self) -> dict[str, Any]:
        """Write the claim as its entry in the ledger, with its id."""
        return {
            "id": self.id,
            "sort": self.sort,
            "said": self.said,
            "statement": self.statement,
            "wording": self.wording,
            "numbers": {name: _convert_number(value) for name, value in self.numbers.items()},
            "source": self.source,
            "published": self.published,
            "domain": dict(self.domain) if self.domain else None,
            "values": [_round_digits(v) for v in self.values],
            "counts": self.counts,
            "interval": [_round_digits(v) for v in self.interval],
            "criterion": self.criterion,
            "effect": self.effect,
            "predicted": self.predicted,
            "kind": self.kind,
            "primary": self.primary,
            "derived_from": list(self.derived_from) or None,
            "rungs": {rung: _round_digits(mean) for rung, mean in self.rungs.items()} or None,
            "lacking": list(self.lacking) or None,
            "verdict": self.verdict,
            "weak": self.weak,
            "tolerance": None if self.tolerance is None else _round_digits(self.tolerance, 3),
            "rtol": None if self.rtol is None else _round_digits(self.rtol, 3),
            "seeds": self.counts[0][1] if self.counts else len(self.values),
        }

    def _ipython_display_(self) -> None:
        """Show nothing: the card was shown when the claim was made."""

    def __str__(self) -> str:
        theirs = f"; published: {self.published}" if self.published else ""
        if self.domain:
            theirs += f"; it speaks of {self.domain['theirs']}, we of {self.domain['ours']}"
        lines = [
            f"[{SORTS[self.sort]}: {VERDICTS[self.verdict]}{', weak' if self.weak else ''}] "
            + self.statement,
            f"ours: {self._format_estimate()}; criterion: {self.criterion} ({KINDS[self.kind]})",
            f"source: {self.source}{theirs}",
        ]
        return "\n".join(lines)

    def _format_estimate(self) -> str:
        """Write the mean and its interval; with two bounds also the narrower one, which decides."""
        low, high = self.interval
        ours = f"{self.mean:.4g}"
        if self.counts:
            counts = " against ".join(f"{k} of {n}" for k, n in self.counts)
            return f"{ours} ({counts} runs), 95 % interval {low:.4g} to {high:.4g}"
        if len(self.values) == 1:
            return ours
        ours += f", 95 % interval {low:.4g} to {high:.4g}"
        if self.sort == "finding" and parse_criterion(self.criterion).two_sided:
            low, high = self.estimate.compute_interval(0.90)
            ours += f", 90 % {low:.4g} to {high:.4g},"
        return f"{ours} over {len(self.values)} seeds{self._describe_rungs()}"

    def _describe_rungs(self) -> str:
        """Return what other rungs of the ladder have, and what the comparison lacks."""
        if not self.rungs:
            return ""
        *others, largest = self.rungs
        words = f", rung {largest}"
        if others:
            met = parse_criterion(self.criterion).is_met
            agree = len({met(mean) for mean in self.rungs.values()}) == 1
            means = ", ".join(f"{self.rungs[rung]:.4g} on {rung}" for rung in others)
            words += f"; {means}: the rungs {'agree' if agree else 'disagree'}"
        return words + "".join(f"; {condition}" for condition in self.lacking)

    def to_html(self) -> str:
        """Draw the card."""
        head, ours, source = (html.escape(line) for line in str(self).splitlines())
        mark, _, statement = head.partition("] ")
        # The styles are for a notebook; the site's own sheet overrules them.
        shape, colour = LOOKS[self.verdict]
        bar = f"border-left: 4px solid {colour}; padding-left: 0.9em"
        return (
            f'<div class="labkit-claim labkit-{self.sort} labkit-verdict-{self.verdict}" '
            f'style="{bar}"><span class="labkit-verdict" style="color: {colour}">'
            f"<b>{shape} {mark[1:]}.</b></span> "
            f'<span class="labkit-statement">{statement}</span><br>'
            f'<span class="labkit-values">{ours}</span><br>'
            f'<span class="labkit-source"><small>{source}</small></span></div>'
        )


def _round_digits(value: float, digits: int = 6) -> float:
    return float(f"{value:.{digits}g}")


def _convert_number(value: float | str) -> int | float | str:
    """Write a number as JSON can hold it."""
    if isinstance(value, int | str):
        return value
    return _round_digits(value) if math.isfinite(value) else str(value)
