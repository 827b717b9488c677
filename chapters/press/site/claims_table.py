"""Write a table of claims: each with its source, its numbers and its verdict."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from press.book.facts import Json
from press.site.holm import find_survivors, read_criterion

# The words stand beside a shape, so that the verdict never hangs on its colour.
VERDICTS = {
    "holds": ("●", "holds here"),
    "not-seen": ("○", "not seen at this scale"),
    "contradicted": ("▲", "contradicted here"),
    "out-of-range": ("◇", "out of range"),
}
HEADS = ("Claim", "Source", "Published", "Ours", "Verdict")
KINDS = {
    "exact": "algebra or a count",
    "at": "at one stated setting, as published",
    "best": "each arm at its own best learning rate",
    "range": "over a range of learning rates declared beforehand",
}


# -- numbers ----------------------------------------------------------------------------------
def format_number(value: Any, digits: int = 3) -> str:
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


def average_values(claim: Mapping[str, Any]) -> float | int | None:
    """Average a claim's values; a single value stays what it is."""
    values = claim.get("values") or []
    if len(values) == 1:
        return values[0]
    return sum(values) / len(values) if values else None


def draw_strip(claim: Mapping[str, Any]) -> str:
    """Draw every value as a dot, the interval as a bar and each threshold as a tick."""
    values = [float(v) for v in claim.get("values") or []]
    ticks = read_criterion(claim).bounds
    bounds = [float(b) for b in claim.get("interval") or [] if b is not None]
    if len(values) < 2 or len(bounds) != 2:
        return ""
    low, high = min(values + ticks + bounds), max(values + ticks + bounds)
    if not high > low:
        return ""

    def scale_value(value: float) -> str:
        return f"{5 + 110 * (value - low) / (high - low):.1f}"

    dots = "".join(f'<circle cx="{scale_value(v)}" cy="8" r="2.4"/>' for v in values)
    tick = "".join(f'<path class="tick" d="M{scale_value(t)} 1V15"/>' for t in ticks)
    bar = f'<path class="bar" d="M{scale_value(bounds[0])} 8H{scale_value(bounds[1])}"/>'
    return (
        f'<svg class="labkit-strip" viewBox="0 0 120 16" aria-hidden="true">{tick}{bar}{dots}</svg>'
    )


# -- the page ---------------------------------------------------------------------------------
def format_ours(claim: Mapping[str, Any]) -> str:
    """Write our value with its interval, and draw the values."""
    average = average_values(claim)
    bounds = claim.get("interval")
    count = len(claim.get("values") or [])
    runs = " against ".join(f"{k} of {n}" for k, n in claim.get("counts") or [])
    value = "—" if average is None else f'<span class="value">{format_number(average)}</span>'
    if bounds and None not in bounds and (count > 1 or runs):
        ends = f"[{format_number(bounds[0])}, {format_number(bounds[1])}]"
        value += f' <span class="interval">{ends}</span>'
    kind = html.escape(str(claim.get("kind", "")))
    notes = [
        f"asked: {html.escape(str(claim['criterion']))}" if claim.get("criterion") else "",
        f"{count} values" if count > 1 else f"{runs} runs" if runs else "",
        f'<abbr title="{KINDS.get(kind, "")}">{kind}</abbr>',
    ]
    return f'{value}{draw_strip(claim)}<div class="notes">{" · ".join(filter(None, notes))}</div>'


def format_verdict(claim: Mapping[str, Any], survives: bool) -> str:
    """Write the verdict in words beside its shape, with the marks weak and Holm."""
    shape, words = VERDICTS.get(claim["verdict"], ("?", html.escape(str(claim["verdict"]))))
    out = (
        f'<span class="labkit-verdict labkit-verdict-{html.escape(claim["verdict"])}">'
        f'<span aria-hidden="true">{shape}</span> {words}</span>'
    )
    if claim.get("weak"):
        out += ' <span class="labkit-mark" title="Leaving out one seed changes it">weak</span>'
    if survives:
        out += ' <span class="labkit-mark" title="Survives Holm’s correction">Holm</span>'
    return out


def format_source(claim: Mapping[str, Any]) -> str:
    """Write where a claim comes from, and the setting that its source speaks of."""
    out = html.escape(str(claim.get("source") or "—"))
    if about := claim.get("domain"):
        said = f"speaks of {about['theirs']}; here: {about['ours']}"
        out += f'<div class="notes">{html.escape(said)}</div>'
    return out


def format_table(
    claims: Mapping[str, Json], titles: Mapping[str, str], caption: str, row: str = "row"
) -> str:
    """Write one table of claims as HTML that a narrow screen can fold, under headings of chapters.

    `row` begins the names of the rows.
    """
    marked = find_survivors(claims)
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS)
    out = [
        '<div class="labkit-table"><table class="labkit-scoreboard">'
        f"<caption>{html.escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>"
    ]
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
        cells = (
            f"<p>{html.escape(claim['statement'])}</p><code>{link}</code>",
            format_source(claim),
            "—" if published is None else format_number(published),
            format_ours(claim),
            format_verdict(claim, name in marked),
        )
        shown = (f'<td data-label="{h}">{cell}</td>' for h, cell in zip(HEADS, cells, strict=True))
        out.append(f'<tr id="{row}-{label}">{"".join(shown)}</tr>')
    return "\n".join([*out, "</tbody></table></div>"])
