"""Compare the claims that chapters make now with those that were recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from press.book.output_diff import PROMISES, average_values, describe_change, same_wording


@dataclass(frozen=True)
class Finding:
    """One claim that is not as recorded: how, and whether that is red or only worth a look."""

    name: str
    red: bool
    what: str


def compare_claims(
    recorded: Mapping[str, Any], built: Mapping[str, Any], absent: Sequence[str] = ()
) -> list[Finding]:
    """List the claims that differ, leaving out those of chapters that were not executed."""
    old, new = recorded["claims"], built["claims"]
    found = []
    for name in sorted({*old, *new}):
        if name not in old:
            found.append(Finding(name, True, "new, not recorded"))
        elif name in new:
            here = built.get("provenance", {})
            there = old[name].get("recorded_on") or recorded.get("provenance", {})
            finding = describe_difference(name, old[name], new[name], same_machine(here, there))
            found += [finding] if finding else []
        elif old[name].get("chapter") not in absent:
            found.append(Finding(name, True, "recorded, but no chapter makes it any more"))
    return [finding for finding in found if _find_chapter(finding, new) not in absent]


def describe_difference(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], same: bool
) -> Finding | None:
    """Return how one claim differs from its record; on another machine, values may."""
    promises = [key for key in PROMISES if old.get(key) != new.get(key)]
    if not same_wording(old, new):
        promises.insert(0, "statement")
    if promises:
        return Finding(name, True, f"{' and '.join(promises)} changed")
    if old["verdict"] != new["verdict"]:
        weak = bool(old.get("weak") or new.get("weak"))
        red = same or not weak
        return Finding(name, red, "verdict changed" + ("" if red else " (weak, another machine)"))
    if what := describe_change(old, new):
        return Finding(name, same, what + ("" if same else " (another machine)"))
    if bool(old.get("weak")) != bool(new.get("weak")):
        return Finding(name, False, "no longer weak" if old.get("weak") else "became weak")
    return None


def same_machine(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Return whether two results must agree to the tolerance: the same CPU model and torch."""
    return all(here.get(key) == there.get(key) for key in ("device", "cpu", "torch"))


def side_by_side(finding: Finding, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Lay out a claim as recorded above the claim as it is now."""
    mark = "red    " if finding.red else "warning"
    lines = [f"{mark} {finding.name}: {finding.what}"]
    sides = [("recorded", old.get(finding.name)), ("now", new.get(finding.name))]
    lines += [f"    {title:<9} {_format_claim(claim)}" for title, claim in sides]
    for key in ("statement", *PROMISES):
        before, after = (claim.get(key) if claim else None for _, claim in sides)
        if sides[0][1] and sides[1][1] and before != after and f"{key}" in finding.what:
            lines += [f"      {key} recorded: {before}", f"      {key} now:      {after}"]
    return "\n".join(lines)


def _format_claim(claim: Mapping[str, Any] | None) -> str:
    if claim is None:
        return "-"
    bounds = ", ".join(f"{bound:.4g}" for bound in claim.get("interval") or () if bound is not None)
    weak = " (weak)" if claim.get("weak") else ""
    verdict = f"{claim['verdict']}{weak}"
    return f"{verdict:<20} {average_values(claim):<10.4g} [{bounds}]  {claim['criterion']}"


def _find_chapter(finding: Finding, claims: Mapping[str, Any]) -> str | None:
    return claims.get(finding.name, {}).get("chapter")
