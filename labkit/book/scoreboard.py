"""Write the scoreboard: every claim of the book, of this build and of those recorded once."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from labkit.book.claims_table import VERDICTS, table
from labkit.book.facts import Json
from labkit.book.holm import LEVEL, holm, p_value


def plural(count: int, word: str) -> str:
    """Count things in words."""
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
        f"Of {plural(len(claims), 'claim')}, {weak} {'is' if weak == 1 else 'are'} weak: leaving "
        "out one seed changes the verdict. "
        "When many claims are tested at once, some hold by chance. "
        f"{plural(len(tested), 'claim')} can be tested: {'its' if len(tested) == 1 else 'their'} "
        "values are compared with the "
        "criterion’s threshold by a one-sided Student *t* test over seeds, and the p-values go "
        f"through Holm’s step-down correction. {len(holm(tested))} of {len(tested)} "
        f"survive at {100 * LEVEL:.0f} % and carry the mark *Holm*. Exact claims, criteria "
        "with two sides and values that are not a sample of seeds are no tests and stay out."
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
    found = {ledger.get("profile", "full"): ledger for ledger in recorded}
    for name in {"full": 0, **found}:
        if name != profile:
            parts += _recorded(name, found.get(name), titles)
    return "\n\n".join(parts) + "\n"


def _recorded(profile: str, ledger: Json | None, titles: Mapping[str, str]) -> list[str]:
    """Write what was recorded once with a long profile, and name the chapters that were not."""
    heading = f"## Recorded with profile {profile}"
    if ledger is None:
        return [heading, "Nothing is recorded with this profile yet."]
    facts, claims = ledger.get("provenance") or {}, ledger["claims"]
    where = [facts[k] for k in ("date", "device", "cpu") if facts.get(k)]
    said = "These runs are too long for every build; they were made once and are *recorded*"
    said += f": {html.escape(', '.join(map(str, where)))}." if where else "."
    chapters = {claim.get("chapter") for claim in claims.values()}
    if missing := [title for name, title in titles.items() if name not in chapters]:
        said += f" Not recorded with this profile: {html.escape(', '.join(missing))}."
    rows = table(claims, titles, f"Recorded, {profile}", f"row-{profile}")
    return [heading, said, summary(claims), raw(rows)]


def raw(markup: str) -> str:
    """Hand HTML through Markdown as it is."""
    return f"```{{raw}} html\n{markup}\n```"
