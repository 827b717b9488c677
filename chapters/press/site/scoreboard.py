"""Write the scoreboard: every claim of the book, of this build and of those recorded once."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from press.book.facts import Json
from press.site.claims_table import VERDICTS, format_table
from press.site.holm import LEVEL, compute_p_values, find_survivors


def format_count(count: int, word: str) -> str:
    """Count things in words."""
    return f"{count} {word}{'s' * (count != 1)}"


SORTS = {
    "finding": ("Findings", "Trained or measured, over seeds."),
    "law": ("Laws", "Algebra, counts and what code does: no seed changes them."),
}


def summarize_claims(claims: Mapping[str, Json]) -> str:
    """Count the verdicts of the findings and what survives the correction for many tests."""
    findings = {name: claim for name, claim in claims.items() if claim["sort"] == "finding"}
    counts = {key: sum(c["verdict"] == key for c in findings.values()) for key in VERDICTS}
    tiles = "".join(
        f'<div class="labkit-tile labkit-verdict-{key}"><b>{counts[key]}</b> '
        f'<span><span aria-hidden="true">{shape}</span> {words}</span></div>'
        for key, (shape, words) in VERDICTS.items()
    )
    laws = [claim for claim in claims.values() if claim["sort"] == "law"]
    kept = sum(claim["verdict"] == "holds" for claim in laws)
    weak = sum(bool(c.get("weak")) for c in findings.values())
    by_chapter = compute_p_values(claims)
    tested = sum(map(len, by_chapter.values()))
    return (
        f'```{{raw}} html\n<div class="labkit-tiles">{tiles}</div>\n```\n\n'
        f"{format_count(len(findings), 'finding')} (above) and {format_count(len(laws), 'law')}, "
        f"of which {kept} hold. {weak} {'is' if weak == 1 else 'are'} weak: leaving "
        "out one run changes the verdict. "
        "When many claims are tested at once, some hold by chance. "
        f"{format_count(tested, 'finding')} can be tested, two-sided: values over seeds with "
        "Student’s *t*, shares of runs with exact tests, “in [a, b]” with two one-sided tests. "
        f"Within each of {format_count(len(by_chapter), 'chapter')} the p-values go through "
        f"Holm’s step-down correction. {len(find_survivors(claims))} of {tested} "
        f"survive at {100 * LEVEL:.0f} % and carry the mark *Holm*: for or against the claim. "
        "Claims out of range and values that are not a sample of seeds are no tests and stay out."
    )


def format_claims(
    claims: Mapping[str, Json], titles: Mapping[str, str], caption: str, row: str = "row"
) -> list[str]:
    """Write findings and laws apart."""
    parts = []
    for kind, (heading, about) in SORTS.items():
        some = {name: claim for name, claim in claims.items() if claim["sort"] == kind}
        if some:
            parts += [
                f"### {heading}",
                about,
                wrap_html(format_table(some, titles, f"{heading}, {caption}", row)),
            ]
    return parts


def build_scoreboard(build: Json, titles: Mapping[str, str], recorded: Iterable[Json] = ()) -> str:
    """Write the page for the claims of this build and for the recorded ones."""
    claims: dict[str, Json] = build["claims"]
    size = build.get("size", "book")
    parts = [
        "# Scoreboard",
        "Every sentence of this book that rests on a measurement, in one place. A claim that did "
        "not reproduce stays in the list. How verdicts are decided stands in the "
        "[preface](index.md).",
        summarize_claims(claims) if claims else "No chapter has stated a claim yet.",
    ]
    if claims:
        parts += ["## This build", *format_claims(claims, titles, f"size {size}")]
    found = {ledger.get("size", "gpu"): ledger for ledger in recorded}
    for name in {"gpu": 0, **found}:
        if name != size:
            parts += _format_recorded(name, found.get(name), titles)
    return "\n\n".join(parts) + "\n"


def _format_recorded(size: str, ledger: Json | None, titles: Mapping[str, str]) -> list[str]:
    """Write what was recorded once with a long size, and name the chapters that were not."""
    heading = f"## Recorded with size {size}"
    if ledger is None:
        return [heading, "Nothing is recorded with this size yet."]
    facts, claims = ledger.get("provenance") or {}, ledger["claims"]
    where = [facts[k] for k in ("date", "device", "cpu") if facts.get(k)]
    said = "These runs are too long for every build; they were made once and are *recorded*"
    said += f": {html.escape(', '.join(map(str, where)))}." if where else "."
    chapters = {claim.get("chapter") for claim in claims.values()}
    if missing := [title for name, title in titles.items() if name not in chapters]:
        said += f" Not recorded with this size: {html.escape(', '.join(missing))}."
    return [heading, said, summarize_claims(claims),
            *format_claims(claims, titles, f"recorded, {size}", f"row-{size}")]  # fmt: skip


def wrap_html(markup: str) -> str:
    """Hand HTML through Markdown as it is."""
    return f"```{{raw}} html\n{markup}\n```"
