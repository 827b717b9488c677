"""Write the scoreboard: every claim of the book with its source, its numbers and its verdict."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

# The words stand beside a shape, so that the verdict never hangs on its colour.
VERDICTS = {
    "holds": ("●", "holds here"),
    "not-seen": ("○", "not seen at this scale"),
    "contradicted": ("▲", "contradicted here"),
}
KINDS = {
    "exact": "algebra or a count",
    "at": "at one stated setting, as published",
    "best": "each arm at its own best learning rate",
    "range": "over a range of learning rates declared beforehand",
}
LEVEL = 0.05
THRESHOLD = re.compile(r"\s*(>=|<=|>|<|≥|≤)\s*([-+−]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*$")


# -- Holm's correction ------------------------------------------------------------------------
def p_value(claim: Mapping[str, Any]) -> float | None:
    """Test a claim's values against its threshold with a one-sided Student t test.

    None where that makes no sense: exact claims, two-sided criteria, one value, no spread.
    """
    match = THRESHOLD.match(str(claim.get("criterion", "")))
    values = claim.get("values") or []
    if claim.get("kind") == "exact" or match is None or len(values) < 2:
        return None
    from scipy.special import stdtr  # only when a page is written: importing takes a moment

    count = len(values)
    mean = sum(values) / count
    spread = (sum((value - mean) ** 2 for value in values) / (count - 1)) ** 0.5
    threshold = float(match.group(2).replace("−", "-"))
    if spread <= 1e-12 * max(abs(mean), abs(threshold)):
        return None
    t = (mean - threshold) / (spread / count**0.5)
    return float(stdtr(count - 1, -t if match.group(1) in {">", ">=", "≥"} else t))


def holm(p_values: Mapping[str, float], level: float = LEVEL) -> set[str]:
    """Name the hypotheses that survive Holm's step-down correction at this level."""
    survivors: set[str] = set()
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    for rank, (name, p) in enumerate(ordered):
        if p > level / (len(ordered) - rank):
            break
        survivors.add(name)
    return survivors


# -- numbers ----------------------------------------------------------------------------------
def number(value: Any, digits: int = 3) -> str:
    """Write a number with few significant digits; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return html.escape(str(value))
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    size = abs(value)
    plain = f"{value:.{digits}g}" if size < 10**digits else f"{value:,.0f}"
    mantissa, _, exponent = plain.partition("e")
    ten = f" × 10<sup>{int(exponent)}</sup>" if exponent else ""
    return f"{mantissa}{ten}".replace("-", "−")


def mean(claim: Mapping[str, Any]) -> float | int | None:
    values = claim.get("values") or []
    if len(values) == 1:
        return values[0]
    return sum(values) / len(values) if values else None


def strip(claim: Mapping[str, Any]) -> str:
    """Draw every value as a dot, the interval as a bar and the threshold as a tick."""
    values = [float(v) for v in claim.get("values") or []]
    match = THRESHOLD.match(str(claim.get("criterion", "")))
    ticks = [float(match.group(2).replace("−", "-"))] if match else []
    bounds = [float(b) for b in claim.get("interval") or [] if b is not None]
    if len(values) < 2 or len(bounds) != 2:
        return ""
    low, high = min(values + ticks + bounds), max(values + ticks + bounds)
    if not high > low:
        return ""

    def x(value: float) -> str:
        return f"{5 + 110 * (value - low) / (high - low):.1f}"

    dots = "".join(f'<circle cx="{x(v)}" cy="8" r="2.4"/>' for v in values)
    tick = "".join(f'<path class="tick" d="M{x(t)} 1V15"/>' for t in ticks)
    bar = f'<path class="bar" d="M{x(bounds[0])} 8H{x(bounds[1])}"/>'
    return (
        f'<svg class="labkit-strip" viewBox="0 0 120 16" aria-hidden="true">{tick}{bar}{dots}</svg>'
    )


# -- the page ---------------------------------------------------------------------------------
def ours(claim: Mapping[str, Any]) -> str:
    """Write our value with its interval, and draw the values."""
    average = mean(claim)
    bounds = claim.get("interval")
    count = len(claim.get("values") or [])
    value = "—" if average is None else f'<span class="value">{number(average)}</span>'
    if bounds and None not in bounds and count > 1:
        ends = f"[{number(bounds[0])}, {number(bounds[1])}]"
        value += f' <span class="interval">{ends}</span>'
    kind = html.escape(str(claim.get("kind", "")))
    notes = [
        f"asked: {html.escape(str(claim['criterion']))}" if claim.get("criterion") else "",
        f"{count} values" if count > 1 else "",
        f'<abbr title="{KINDS.get(kind, "")}">{kind}</abbr>',
    ]
    return f'{value}{strip(claim)}<div class="notes">{" · ".join(filter(None, notes))}</div>'


def verdict(claim: Mapping[str, Any], survives: bool, tested: bool) -> str:
    """Write the verdict in words beside its shape, with the marks weak and Holm."""
    shape, words = VERDICTS.get(claim["verdict"], ("?", html.escape(str(claim["verdict"]))))
    out = (
        f'<span class="labkit-verdict labkit-verdict-{html.escape(claim["verdict"])}">'
        f'<span aria-hidden="true">{shape}</span> {words}</span>'
    )
    if claim.get("weak"):
        out += ' <span class="labkit-mark" title="Leaving out one seed changes it">weak</span>'
    if survives and tested:
        out += ' <span class="labkit-mark" title="Survives Holm’s correction">Holm</span>'
    return out


def rows(claims: Mapping[str, Json], survivors: set[str], titles: Mapping[str, str]) -> str:
    """Write a row per claim, under a heading per chapter."""
    out: list[str] = []
    chapter: str | None = None
    for name, claim in sorted(claims.items(), key=lambda i: (str(i[1].get("chapter")), i[0])):
        if claim.get("chapter") != chapter:
            chapter = claim.get("chapter")
            title = html.escape(titles.get(str(chapter), str(chapter)))
            out.append(f'<tr class="chapter"><th colspan="5" scope="rowgroup">{title}</th></tr>')
        label = html.escape(name)
        linked = f'<a href="{chapter}.html#claim-{label}">{label}</a>'
        link = linked if chapter in titles else label
        published = claim.get("published")
        shown = "—" if published is None else number(published)
        cells = [
            ("Claim", f"<p>{html.escape(claim['statement'])}</p><code>{link}</code>"),
            ("Source", html.escape(str(claim.get("source") or "—"))),
            ("Published", shown),
            ("Ours", ours(claim)),
            ("Verdict", verdict(claim, name in survivors, p_value(claim) is not None)),
        ]
        out.append(
            f'<tr id="row-{label}">'
            + "".join(f'<td data-label="{head}">{cell}</td>' for head, cell in cells)
            + "</tr>"
        )
    return "\n".join(out)


def table(claims: Mapping[str, Json], titles: Mapping[str, str], caption: str) -> str:
    """Write one table of claims as HTML that a narrow screen can fold."""
    tested = {name: p for name, claim in claims.items() if (p := p_value(claim)) is not None}
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in ("Claim", "Source", "Published", "Ours", "Verdict")
    )
    return (
        f'<div class="labkit-table"><table class="labkit-scoreboard"><caption>{html.escape(caption)}'
        f"</caption><thead><tr>{heads}</tr></thead><tbody>\n{rows(claims, holm(tested), titles)}\n"
        "</tbody></table></div>"
    )


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def summary(claims: Mapping[str, Json]) -> str:
    """Count the verdicts and what survives the correction for many tests."""
    counts = {key: sum(c["verdict"] == key for c in claims.values()) for key in VERDICTS}
    tiles = "".join(
        f'<div class="labkit-tile labkit-verdict-{key}"><b>{counts[key]}</b> '
        f'<span><span aria-hidden="true">{shape}</span> {words}</span></div>'
        for key, (shape, words) in VERDICTS.items()
    )
    weak = sum(bool(c.get("weak")) for c in claims.values())
    tested = {name: p for name, claim in claims.items() if (p := p_value(claim)) is not None}
    return (
        f'```{{raw}} html\n<div class="labkit-tiles">{tiles}</div>\n```\n\n'
        f"Of {plural(len(claims), 'claim')}, {weak} {'is' if weak == 1 else 'are'} weak: leaving out "
        "one seed changes the verdict. "
        "When many claims are tested at once, some hold by chance. "
        f"{plural(len(tested), 'claim')} can be tested: {'its' if len(tested) == 1 else 'their'} "
        "values are compared with the "
        "criterion’s threshold by a one-sided Student *t* test over seeds, and the p-values go "
        f"through Holm’s step-down correction. {len(holm(tested))} of {len(tested)} "
        f"survive at {LEVEL:.0%}".replace("%", " %") + " and carry the mark *Holm*. Exact claims, criteria "
        "with two sides and claims from a single value are not tests and stay out of the count."
    )


def scoreboard(build: Json, titles: Mapping[str, str], recorded: Iterable[Json] = ()) -> str:
    """Write the page for the claims of this build and for the recorded ones."""
    claims: dict[str, Json] = build["claims"]
    profile = build.get("profile", "cpu")
    parts = [
        "# Scoreboard",
        "Every sentence of this book that rests on a measurement, in one place. A claim that did "
        "not reproduce stays in the list. How verdicts are decided stands in the "
        "[preface](index.md).",
        summary(claims) if claims else "No chapter has stated a claim yet.",
    ]
    if claims:
        parts.append(raw(table(claims, titles, f"Claims of this build, profile {profile}")))
    for ledger in recorded:
        facts = ledger.get("provenance") or {}
        where = [facts[k] for k in ("date", "device", "cpu") if facts.get(k)]
        name = ledger.get("profile", "full")
        parts += [
            f"## Recorded with profile {name}",
            "These runs are too long for every build; they were made once and are *recorded*"
            + (f": {html.escape(', '.join(map(str, where)))}." if where else "."),
            summary(ledger["claims"]),
            raw(table(ledger["claims"], titles, f"Recorded claims, profile {name}")),
        ]
    return "\n\n".join(parts) + "\n"


def raw(markup: str) -> str:
    return f"```{{raw}} html\n{markup}\n```"
