"""Make a claim with a single call, from plain values and an author's arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.experiments.cards import Claim
from labkit.experiments.claims import Claimable, Domain, Evidence
from labkit.statistics.criteria import Estimate, Interval
from labkit.statistics.pooled import Difference
from labkit.statistics.proportions import Gap, Proportion
from labkit.statistics.seeds import Given, Seeds

Values = float | Sequence[float] | Proportion | Gap | Difference


@dataclass
class Known(Claimable):
    evidence: Evidence

    def list_evidence(self, id: str) -> Evidence:
        return self.evidence


def claim(
    id: str,
    statement: str,
    values: Values | Mapping[str, Sequence[float] | Difference],
    *,
    source: str,
    criterion: str,
    kind: str,
    said: str | None = None,
    interval: Interval | None = None,
    published: str | None = None,
    domain: str | None = None,
    ours: str | None = None,
    in_range: bool = True,
    effect: float | None = None,
    predicted: float | None = None,
    lacking: Sequence[str] = (),
    unit: str | None = None,
    since: str = "",
    looked: str | None = None,
    tried: Mapping[str, str] | None = None,
    tolerance: float | None = None,
    **numbers: float | str,
) -> Claim:
    """Judge and show a claim; see labkit.experiments.claims.Claimable."""
    ladder = isinstance(values, Mapping)
    evidence = Evidence(
        estimate=None if ladder else _make_estimate(values, interval),
        rungs={rung: _make_estimate(of, None) for rung, of in values.items()} if ladder else {},
        kind=kind,
        since=since,
        looked=looked,
        find_lacking=lambda rung: lacking,
        unit=unit,
        tolerance=tolerance,
    )
    return Known(evidence).claim(
        id,
        criterion if effect is None else f"{criterion} of {effect!r}",
        said,
        found=statement,
        source=source,
        published=published,
        beside={**numbers, **(tried or {})},
        domain=Domain(domain, ours or "", in_range) if domain else None,
        predicted=predicted,
    )


def _make_estimate(values: Values, interval: Interval | None) -> Estimate:
    if isinstance(values, Proportion | Gap | Difference):
        return values
    sample = tuple(float(v) for v in (values if isinstance(values, Sequence) else [values]))
    return Seeds(sample) if interval is None else Given(sample, (interval[0], interval[1]))
