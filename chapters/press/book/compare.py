"""Decide whether a reader would see a difference, in the outputs of a cell or in its claims.

A run on another day differs in the last digits, and so in every byte of a picture. That is no
news: numbers count as equal within a tolerance, everything else must be equal.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.display import CLAIM, EXERCISE

# Printed numbers: losses move by a per cent or so between CPU models.
PRINTED_RTOL = 2e-2
# What a page compares an answer with, which allows ten times as much or more.
ASKED_RTOL = 1e-5
# A figure's data: a twentieth of its range is about what an eye can tell.
DRAWN_TOLERANCE = 5e-2
# A number in a claim's sentence, beside its mean: a share of it.
SENTENCE_RTOL = 5e-2
ROUNDING = 1e-12  # a smaller difference is float64 rounding, which depends on the processor
# What a claim promised before it was measured: any change is a new claim. (Not its tolerance,
# which may follow from the values: the recorded one counts until the claim is accepted anew.)
PROMISES = (
    "source",
    "said",
    "published",
    "domain",
    "criterion",
    "effect",
    "predicted",
    "kind",
    "seeds",
    "unit",
    "word",
    "lock",
)
# What is computed from records alone is the same on every machine, whatever a claim's tolerance.
EXACT = ("samples", "rungs", "runs")
EXACT_RTOL = 1e-9

NUMBER = re.compile(
    r"(?<![\w.])[-+−]?(?:"
    r"(?:\d+(?:\.\d+)?·)?10<sup>−?\d+</sup>"  # as a card writes 3e-16
    r"|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?)"  # a full stop is no part of a number
    r"|\b(?:nan|inf)\b"
)


def same_text(old: str, new: str, rtol: float = PRINTED_RTOL) -> bool:
    """Compare two strings: their numbers with a tolerance and their words exactly."""
    if old == new:
        return True
    if _mask_numbers(old) != _mask_numbers(new):
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    return all(a == b or are_close(_parse_printed(a), _parse_printed(b), rtol) for a, b in pairs)


def same_data(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Compare the numbers of two drawings, relative to the range of the drawing."""
    if len(old) != len(new):
        return False
    before, after = [read_number(x) for x in old], [read_number(x) for x in new]
    finite = [x for x in before if math.isfinite(x)]
    span = max(finite) - min(finite) if finite else 0.0
    room = DRAWN_TOLERANCE * (span or abs(finite[0] if finite else 0.0))
    return all(is_within(a, b, room) for a, b in zip(before, after, strict=True))


def same_claim(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Compare two published claims: the verdict, the sentence, and the value within tolerance."""
    sizes = [len(claim.get("values", [])) for claim in (old, new)]
    same = describe_difference("", old, new, same=True) is None
    return same and old["id"] == new["id"] and sizes[0] == sizes[1]


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the first number of a claim that changed beyond its tolerance; "" if none did."""
    if not is_within(average_values(old), average_values(new), old["tolerance"]):
        return f"value moved by more than {old['tolerance']:.3g}"
    before, after = old.get("numbers") or {}, new.get("numbers") or {}
    for name in sorted({*before, *after} - {"mean"}):
        a, b = before.get(name), after.get(name)
        if a != b and not _is_near(name, old, a, b):
            return f"{name} in the sentence changed from {a} to {b}"
    return ""


def _is_near(name: str, claim: Mapping[str, Any], a: Any, b: Any) -> bool:
    """Return whether a number of a claim's sentence changed by no more than its tolerance."""
    room = claim["tolerance"]  # of the mean
    if name == "k" and isinstance(a, int):
        # A count of turns moves with its share, as where both are timed.
        return b is not None and is_within(a, b, room * claim["numbers"].get("n", 0))
    if not isinstance(a, float) or not isinstance(b, float):
        return False
    near = name in ("low", "high", "apart") and is_within(a, b, room)
    return near or are_close(a, b, SENTENCE_RTOL)


def same_outputs(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> bool:
    """Compare the outputs of two runs of a cell."""
    return len(old) == len(new) and all(map(same_output, old, new))


def same_output(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Compare one output with its counterpart."""
    if old["output_type"] != new["output_type"]:
        return False
    if old["output_type"] == "stream":
        return same_text(old["text"], new["text"])
    data, other = old.get("data", {}), new.get("data", {})
    if data.keys() != other.keys():
        return False
    if CLAIM in data:
        card = "text/html"  # its marks and colours; the claim itself says how far numbers may move
        drawn = _mask_numbers(data.get(card, "")) == _mask_numbers(other.get(card, ""))
        return drawn and same_claim(data[CLAIM], other[CLAIM])
    about, other_about = (out.get("metadata", {}).get("labkit", {}) for out in (old, new))
    if about.get("kind") != other_about.get("kind"):
        return False
    if about.get("kind") in ("figure", "slider"):
        # The numbers of an alternative text are the drawn ones, some of them invisibly small.
        words, other_words = (_mask_numbers(each["text/plain"]) for each in (data, other))
        same_words = words == other_words and same_text(about["caption"], other_about["caption"])
        return same_words and same_data(about.get("data", []), other_about.get("data", []))
    return all(_same_value(mime, data[mime], other[mime]) for mime in data)


def average_values(claim: Mapping[str, Any]) -> float:
    """Average a claim's values over its seeds; NaN if one of them is not a number."""
    values = [read_number(value) for value in claim.get("values", [])]
    return sum(values) / len(values) if values else math.nan


def is_within(old: float, new: float, room: float) -> bool:
    """Return whether a number is unchanged; NaN and infinities equal themselves only."""
    if not (math.isfinite(old) and math.isfinite(new)):
        return old == new or (math.isnan(old) and math.isnan(new))
    # A hair for the rounding of recorded numbers to six digits, and for what is only rounding.
    return abs(old - new) <= room + 1e-5 * abs(old) + ROUNDING


def are_close(old: float, new: float, rtol: float) -> bool:
    """Return whether two numbers agree to a relative tolerance."""
    return is_within(old, new, rtol * max(abs(old), abs(new)))


def read_number(value: Any) -> float:
    """Read a number from JSON: true, null for NaN, or the name of an infinity."""
    if value is None:
        return math.nan
    return float(value)


def _parse_printed(text: str) -> float:
    return float(text.replace("−", "-"))


def _mask_numbers(text: str) -> str:
    # Columns are padded to the longest number, so the width of a gap says nothing.
    return re.sub(r"[ \t]+", " ", NUMBER.sub("#", text))


def _same_value(mime: str, old: Any, new: Any) -> bool:
    if mime == EXERCISE:
        before, after = (json.dumps(asked, sort_keys=True) for asked in (old, new))
        return same_text(before, after, ASKED_RTOL)
    return same_text(old, new) if mime.startswith("text/") else old == new


@dataclass(frozen=True)
class Finding:
    """A claim that differs from its record: how, and whether that is an error or a notice."""

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
    return [finding for finding in found if new.get(finding.name, {}).get("chapter") not in absent]


def describe_difference(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], same: bool
) -> Finding | None:
    """Return how a claim differs from its record; on another machine, values may differ."""
    promises = [key for key in PROMISES if old.get(key) != new.get(key)]
    if old.get("wording") != new.get("wording"):  # settings included, whatever was measured
        promises.insert(0, "statement")
    if promises:
        return Finding(name, True, f"{' and '.join(promises)} changed")
    if what := next(
        filter(None, (find_change(key, old.get(key), new.get(key)) for key in EXACT)), ""
    ):
        return Finding(name, True, what)
    if old["verdict"] != new["verdict"]:
        weak = bool(old.get("weak") or new.get("weak"))
        red = same or not weak
        return Finding(name, red, "verdict changed" + ("" if red else " (weak, another machine)"))
    if what := describe_change(old, new):
        return Finding(name, same, what + ("" if same else " (another machine)"))
    if bool(old.get("weak")) != bool(new.get("weak")):
        return Finding(name, False, "no longer weak" if old.get("weak") else "became weak")
    return None


def find_change(where: str, old: Any, new: Any) -> str:
    """Return the first place at which two recorded values differ beyond rounding; "" if none."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.keys() != new.keys():
            return f"{where} has {', '.join(new) or 'nothing'}, and {', '.join(old)} was recorded"
        places = (find_change(f"{where}, {key}", old[key], new[key]) for key in old)
        return next(filter(None, places), "")
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return f"{where} has {len(new)} values, and {len(old)} were recorded"
        places = (find_change(where, *both) for both in zip(old, new, strict=True))
        return next(filter(None, places), "")
    if isinstance(old, float) and isinstance(new, float):
        same = math.isclose(old, new, rel_tol=EXACT_RTOL, abs_tol=ROUNDING)
    else:
        same = old == new
    return "" if same else f"{where} is {new}, and {old} was recorded"


def same_machine(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Return whether two results must agree to the tolerance: the same CPU model and torch."""
    return all(here.get(key) == there.get(key) for key in ("device", "cpu", "torch"))


def side_by_side(finding: Finding, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Format a claim as recorded, followed by the claim as it is now."""
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
