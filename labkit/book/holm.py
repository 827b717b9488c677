"""Correct the scoreboard for asking many questions at once: t tests, then Holm's procedure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labkit.leaderboard.holm import adjusted

LEVEL = 0.05
THRESHOLD = re.compile(r"\s*(>=|<=|>|<)\s*([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*$")


def threshold(claim: Mapping[str, Any]) -> tuple[str, float] | None:
    """Read a criterion with one side, such as "> 0"."""
    match = THRESHOLD.match(str(claim.get("criterion", "")))
    return (match.group(1), float(match.group(2))) if match else None


def p_value(claim: Mapping[str, Any]) -> float | None:
    """Test a claim's values against its threshold with a one-sided Student t test.

    None where that makes no sense: exact claims, criteria with two sides, a single value, no
    spread, or values that are no sample of seeds (their interval is not Student's).
    """
    bound = threshold(claim)
    values = claim.get("values") or []
    if claim.get("kind") == "exact" or bound is None or len(values) < 2:
        return None
    side, limit = bound
    from scipy.special import (
        stdtr,
        stdtrit,
    )  # only when a page is written: importing takes a moment

    count = len(values)
    mean = sum(values) / count
    spread = (sum((value - mean) ** 2 for value in values) / (count - 1)) ** 0.5
    error = spread / count**0.5
    if error <= 1e-12 * max(abs(mean), abs(limit)):
        return None
    half = stdtrit(count - 1, 0.975) * error
    low, high = claim["interval"]
    if max(abs(low - mean + half), abs(high - mean - half)) > 0.01 * half:
        return None
    t = (mean - limit) / error
    return float(stdtr(count - 1, -t if side in {">", ">="} else t))


def holm(p_values: Mapping[str, float], level: float = LEVEL) -> set[str]:
    """Name the hypotheses that survive Holm's step-down correction at this level."""
    return {name for name, p in adjusted(p_values).items() if p <= level}
