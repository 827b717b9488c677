"""Recorded claims: read from the ledger, judged again, and corrected for multiple testing.

The findings of a chapter that were judged, and whose values are a sample, are one family for Holm's
procedure. Each test is two-sided.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.statistics.criteria import Criterion, Estimate, parse_criterion
from labkit.statistics.holm import adjusted
from labkit.statistics.pooled import Difference, has_pairs, read_rung
from labkit.statistics.proportions import Proportion
from labkit.statistics.seeds import Given, Seeds
from labkit.statistics.verdicts import LEVEL, Judgement, judge_claim

Claims = Mapping[str, Mapping[str, Any]]


def read_claims(root: Path) -> Claims:
    """Read the book's recorded claims, by id; empty before the first record."""
    path = root / "data" / "ledger" / "book.json"
    return json.loads(path.read_text(encoding="utf-8"))["claims"] if path.is_file() else {}


def read_criterion(claim: Mapping[str, Any]) -> Criterion:
    """Read a recorded claim's criterion."""
    return parse_criterion(str(claim["criterion"]))


def rebuild_estimate(claim: Mapping[str, Any]) -> Estimate:
    """Rebuild the estimate of a recorded claim from its recorded values."""
    if counts := claim.get("counts"):
        one, *other = (Proportion(k, n) for k, n in counts)
        return one - other[0] if other else one
    if samples := claim.get("samples"):
        return Difference.from_dict(samples)
    seeds = Seeds(tuple(map(float, claim["values"])))
    (low, high), (a, b) = seeds.compute_interval(), claim["interval"]
    # Recorded numbers have six digits; if the interval differs, it was given.
    if max(abs(low - a), abs(high - b)) > 0.01 * (high - low) + 1e-5 * max(abs(low), abs(high)):
        return Given(seeds.values, (float(a), float(b)))
    return seeds


def is_waiting(claim: Mapping[str, Any]) -> bool:
    """Return whether a claim waits for its preregistered runs: then it has no verdict."""
    return bool((claim.get("lock") or {}).get("waits"))


def judge_again(claim: Mapping[str, Any], *, paired: bool | None = None) -> Judgement:
    """Judge a recorded claim again; `paired` forces or forbids pairing by shared seeds."""

    def pair(one: Estimate) -> Estimate:
        return one if paired is None or not has_pairs(one) else replace(one, paired=paired)

    rungs = {rung: pair(read_rung(of)) for rung, of in (claim.get("rungs") or {}).items()}
    return judge_claim(
        rungs or pair(rebuild_estimate(claim)),
        read_criterion(claim),
        lacking=claim.get("lacking") or (),
        waits=is_waiting(claim),
        inside=(claim.get("domain") or {"inside": True})["inside"],
    )


def p_value(claim: Mapping[str, Any]) -> float | None:
    """Return a finding's two-sided p-value for its criterion; two one-sided tests for equivalence.

    None if a test makes no sense: laws, claims out of range or without their runs, a single value,
    no spread, or values that are not a sample of seeds.
    """
    if claim["sort"] == "law" or claim["verdict"] in ("out-of-range", "waits"):
        return None
    return rebuild_estimate(claim).p_value(read_criterion(claim)) if claim.get("values") else None


def compute_p_values(claims: Claims) -> dict[str, dict[str, float]]:
    """Return the p-values of each chapter's findings, by chapter."""
    found: dict[str, dict[str, float]] = {}
    for name, claim in claims.items():
        p = p_value(claim)
        if p is not None:
            found.setdefault(str(claim.get("chapter")), {})[name] = p
    return found


def find_survivors(claims: Claims) -> set[str]:
    """Return the findings that survive Holm's step-down correction in their chapter."""
    return {
        name
        for family in compute_p_values(claims).values()
        for name, p in adjusted(family).items()
        if p <= LEVEL and claims[name]["verdict"] != "not-seen"
    }
