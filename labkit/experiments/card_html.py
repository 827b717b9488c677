"""Draw a claim's card: an expandable line of HTML without scripts or style sheets.

JupyterLab drops scripts and SVG from a notebook that is not trusted yet, and a code host drops
styles too; the rest must be readable. The site adds its own styles, and the values as a strip.
"""

import html
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.experiments.locks import WORDS, read_wordings
from labkit.statistics.criteria import Estimate, parse_criterion
from labkit.statistics.pooled import Difference, read_rung
from labkit.statistics.verdicts import DIRECTIONS, judge_estimate
from labkit.system.root import project_root

KINDS = {
    "exact": "exact computation",
    "at": "one stated setting",
    "best": "each method at its own best learning rate",
    "range": "over a learning-rate range declared beforehand",
}
VERDICTS = {
    "holds": "holds here",
    "holds-on-one": "holds at one size",
    "not-seen": "not seen at this scale",
    "contradicted": "contradicted here",
    "out-of-range": "out of range",
    "waits": "runs incomplete",
}
# A shape, so that verdicts do not depend on colour, and a colour legible on light and dark pages.
LOOKS = {
    "holds": ("●", "#2c8a57"),
    "holds-on-one": ("◐", "#2c8a57"),
    "not-seen": ("○", "#80868b"),
    "contradicted": ("▲", "#cc5a2b"),
    "out-of-range": ("◇", "#80868b"),
    "waits": ("◌", "#80868b"),
}
TRIED = ("second value", "last step", "control")  # robustness checks of a finding
TICK = "✓"  # an exact claim that holds
RUNGS = ("S", "M", "L", *DIRECTIONS)  # in the order of a card, because JSON has no order
DIGITS = 4  # significant, of a number without an interval
SMALLEST = 6  # decimals, before a number is written as a power of ten
POWER = re.compile(r"(?<![\w.])([-+−]?\d+(?:\.\d+)?)e([-+−]?\d+)\b")
WORDED_POWER = re.compile(r"\b(10|[A-Za-z]) to the power ([-+−]?\d+(?:\.\d+)?)")
SUPERSCRIPT = re.compile(r"(?<=[\w)])\^([-−]?\w+(?:/\d+)?)")
SUBSCRIPT = re.compile(r"\b([A-Za-zα-ω])_(\w{1,3})\b")
MINUS = re.compile(r"(?<![\w)\].])-(?=\.?\d)")

Card = Mapping[str, Any]  # a claim as Claim.to_dict() writes it, or the ledger


# -- text and numbers -------------------------------------------------------------------------
def typeset(text: str) -> str:
    """Convert plain text to HTML: 3e-16 as a power of ten, d_k with a subscript, a true minus."""
    out = html.escape(text, quote=False)
    for typed, sign in {"&lt;=": "≤", "&gt;=": "≥", "sqrt(": "√("}.items():
        out = out.replace(typed, sign)
    out = MINUS.sub("−", out)
    out = POWER.sub(_write_power, out)
    out = WORDED_POWER.sub(r"\1<sup>\2</sup>", out)
    out = SUPERSCRIPT.sub(r"<sup>\1</sup>", out)
    return SUBSCRIPT.sub(r"\1<sub>\2</sub>", out)


def _write_power(match: re.Match[str]) -> str:
    mantissa, exponent = match[1], int(match[2].replace("−", "-"))
    if not exponent or not mantissa.strip("+−0."):
        return mantissa
    ten = f"10<sup>{exponent}</sup>".replace("-", "−")
    return ten if mantissa == "1" else f"{mantissa}·{ten}"


def format_number(value: float, width: float = 0.0) -> str:
    """Format a number so that it ends at the second digit of its interval's half-width."""
    if not width:
        size = abs(value)
        return f"{value:,.0f}" if size >= 10**DIGITS else f"{value:.{DIGITS}g}"
    places = 1 - math.floor(math.log10(width / 2))
    if places > SMALLEST:
        return f"{value:.1e}"
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}"  # no minus before a zero


def format_interval(low: float, high: float) -> str:
    """Format an interval."""
    return f"[{format_number(low, high - low)}, {format_number(high, high - low)}]"


# -- the contents of a card -------------------------------------------------------------------
def find_sentence(claim: Card) -> str:
    """Return the tested sentence: the clearer wording of its lock, or else the chapter's own."""
    said, lock = claim.get("said") or "", claim.get("lock")
    return read_wordings(project_root()).get(lock.get("sum", ""), said) if lock else said


def describe_verdict(claim: Card) -> str:
    """Return the verdict in words."""
    only = claim.get("only")
    words = VERDICTS[claim["verdict"]]
    if only:
        where = f"in variant {only}" if only in DIRECTIONS else f"at size {only}"
        words = f"{'contradicted' if claim['verdict'] == 'contradicted' else 'holds'} {where}"
    return words + (", weak" if claim["weak"] else "")


def describe_evidence(claim: Card, estimate: Estimate) -> str:
    """Return the evidence for the verdict: seeds or counts, intervals, rungs, unmet requirements.

    With two bounds the narrower interval decides the verdict.
    """
    low, high = estimate.compute_interval()
    parts = []
    if claim.get("counts"):
        parts.append(" against ".join(f"{k} of {n}" for k, n in claim["counts"]))
        parts[0] += f" {claim.get('unit') or 'runs'}"
    elif claim.get("samples"):
        parts.append(describe_samples(claim["samples"]))
    elif len(claim["values"]) > 1:
        parts.append(f"{len(claim['values'])} {claim.get('unit') or 'seeds'}")
    if high > low:
        # An interval given for a single value refers to its unit.
        given = claim.get("unit") if len(claim["values"]) == 1 and not claim.get("counts") else None
        parts.append(f"{given or '95 % interval'} {format_interval(low, high)}")
        if claim.get("samples"):
            parts += describe_other_way(claim["samples"])
        if claim["sort"] == "finding" and parse_criterion(claim["criterion"]).two_sided:
            decides = format_interval(*estimate.compute_interval(0.90))
            parts.append(f"90 % interval {decides}, which decides the verdict")
    return "; ".join([*parts, *describe_rungs(claim)])


def describe_samples(samples: Mapping[str, Any]) -> str:
    """Describe the comparison of two samples: seeds, kind of test, uncertainty from tuning."""
    one = Difference.from_dict(samples)
    seeds = f"{len(one.one)} and {len(one.other)} seeds, unpaired, {_name_scatter(one)}"
    if one.paired:
        seeds = f"{len(one.pairs)} seeds, paired"
    tuned = [f"tuning uncertainty {one.tuned:.4f}"] if one.tuned else []
    # A rung of the ladder names the devices itself.
    on = [f"trained on {' and on '.join(one.devices)}"] if one.devices and not one.arms else []
    return "; ".join([seeds, *tuned, *on])


def describe_other_way(samples: Mapping[str, Any]) -> list[str]:
    """Return the paired result of an unpaired comparison, or vice versa; empty without pairs."""
    one = Difference.from_dict(samples)
    if len(one.pairs) < 3:
        return []
    other = replace(one, paired=not one.paired)
    low, high = other.compute_interval()
    words = f"{format_number(other.mean, high - low)} {format_interval(low, high)}"
    if one.paired:
        return [f"unpaired, {_name_scatter(one)}: {words}"]
    return [f"paired: {words}, {len(one.pairs)} shared seeds"]


def _name_scatter(one: Difference) -> str:
    return "pooled standard deviation" if one.pooled else "separate standard deviations (Welch)"


def describe_rungs(claim: Card) -> list[str]:
    """Return the result on each rung of the ladder, and the unmet requirements.

    A rung has its mean, its interval and its seeds, and the devices if those of the arms differ.
    """
    lines = []
    for rung, one in _read_rungs(claim).items():
        low, high = one.compute_interval()
        seeds = [len(one.values)]
        if isinstance(one, Difference) and not one.paired:
            seeds = [len(one.one), len(one.other)]
        words = "n = " + " and ".join(map(str, dict.fromkeys(seeds)))
        if isinstance(one, Difference) and one.devices:
            on = (f"{arm} on {name}" for arm, name in zip(one.arms, one.devices, strict=True))
            words += f", {', '.join(on)}"
        if isinstance(one, Difference) and one.lost:
            runs = zip(one.arms, one.lost, (one.one, one.other), strict=True)
            lost = " and ".join(f"{n} of {len(of)} runs of {arm}" for arm, n, of in runs if n)
            words += f", {lost} diverged, counted as the unigram baseline"
        mean = format_number(one.mean, high - low)
        lines.append(f"{rung}: {mean} {format_interval(low, high)}, {words}")
    return lines + list(claim.get("lacking") or ())


def _read_rungs(claim: Card) -> dict[str, Estimate]:
    """Read the estimate of each rung: sizes from small to large, then variants."""
    kept = claim.get("rungs") or {}
    return {rung: read_rung(kept[rung]) for rung in sorted(kept, key=RUNGS.index)}


def mark_rungs(claim: Card) -> str:
    """Format the rungs as letters: bold if the criterion is met, struck out if refuted."""
    rule, letters = parse_criterion(claim["criterion"]), []
    for rung, one in _read_rungs(claim).items():
        verdict = judge_estimate(one, rule)
        tag = {"holds": "b", "contradicted": "s"}.get(verdict, "span")
        letters.append(f'<{tag} title="{rung}: {VERDICTS[verdict]}">{rung}</{tag}>')
    return f'<small class="labkit-rungs">{" ".join(letters)}</small>' if letters else ""


def describe_trials(claim: Card) -> str:
    """Return the robustness checks of a finding, and those that were not made."""
    if not (tried := claim.get("tried")):
        return ""
    parts = [f"{name}: {tried[name]}" for name in TRIED if name in tried]
    if missing := [name for name in TRIED if name not in tried]:
        parts.append(f"not checked: {', '.join(missing)}")
    return "; ".join(parts)


def describe_source(claim: Card) -> str:
    """Return the source of the claim, and the settings of the source and of our runs."""
    words = [f"source: {claim['source']}"] if claim["source"] else []
    if claim.get("published") is not None:
        words.append(f"published: {claim['published']}")
    if about := claim.get("domain"):
        words.append(f"the source's setting: {about['theirs']}; ours: {about['ours']}")
    return "; ".join(words)


# -- the card ---------------------------------------------------------------------------------
def draw_card(claim: Card, estimate: Estimate) -> str:
    """Draw a card: mark, sentence and interval in one line, and the rest below when it is open."""
    verdict, sort = claim["verdict"], claim["sort"]
    shape, colour = LOOKS[verdict]
    shape = TICK if (sort, verdict) == ("law", "holds") else shape
    said, found = find_sentence(claim), typeset(claim["statement"])
    words = describe_verdict(claim)
    lines = [
        f"<b>{words[:1].upper()}{words[1:]}</b>"
        f"{describe_word(claim)} · criterion: {typeset(claim['criterion'])}"
        f" · {KINDS[claim['kind']]}",
        typeset(describe_original(claim)),
        typeset(describe_evidence(claim, estimate)),
        typeset(describe_trials(claim)),
        typeset(describe_source(claim)),
    ]
    if said and verdict == "contradicted":  # no mark without its sentence
        found = f"<b>Claim:</b> {typeset(said)}<br><b>Result:</b> {found}"
    elif said:
        lines.insert(0, f"<b>Claim:</b> {typeset(said)}")
    body = "".join(f"<div>{line}</div>" for line in lines if line)
    return (
        f'<details class="labkit-claim labkit-{sort} labkit-verdict-{verdict}" '
        f'style="border-left:3px solid {colour};padding-left:.6em">'
        f'<summary><span class="labkit-shape" role="img" title="{words}" style="color:{colour}">'
        f'{shape}</span> <span class="labkit-statement">{found}</span> '
        f'<span class="labkit-values">{format_values(claim, estimate)}</span></summary>'
        f'<div class="labkit-more">{body}</div></details>'
    )


def describe_word(claim: Card) -> str:
    """Return whether a finding was preregistered, when, with which forecast; or missing runs."""
    lock, word = claim.get("lock"), claim.get("word")
    if not lock:
        return f" · {WORDS[word]}" if word else ""
    forecast = f"criterion of {lock['at'][:10]}, forecast p = {lock['probability']:g}"
    if waits := lock.get("waits"):
        runs = f"preregistered runs incomplete ({forecast})"
        return f" · preliminary evaluation; {runs}: {'; '.join(waits)}"
    return f" · {WORDS[word]} ({forecast})" if word else ""


def describe_original(claim: Card) -> str:
    """Return the sentence of a claim's lock, word for word, if the card shows a clearer one."""
    if find_sentence(claim) == (claim.get("said") or ""):
        return ""
    return f"Written down on {claim['lock']['at'][:10]} as: {claim['said']}"


def format_values(claim: Card, estimate: Estimate) -> str:
    """Format the numbers of the closed line; a mean that is in the sentence is not repeated.

    If the sentence has the size of a difference in loss, the line has the signed improvement.
    """
    low, high = estimate.compute_interval()
    told = re.search(r"\{(mean|k)\b", claim["wording"])
    mean = "" if told else f"<b>{typeset(format_number(estimate.mean, high - low))}</b>"
    mean = f"improvement: {mean}" if mean and "{side}" in claim["wording"] else mean
    interval = typeset(format_interval(low, high)) if high > low else ""
    weak = "<i>weak</i>" if claim["weak"] else ""
    return " ".join(filter(None, (weak, mean, interval, mark_rungs(claim))))
