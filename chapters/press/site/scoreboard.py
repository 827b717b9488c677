"""Write the scoreboard: the page of all claims."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from labkit.experiments.card_html import LOOKS, VERDICTS, find_sentence, typeset
from labkit.experiments.locks import LOCKED, MARGIN, WORDS
from labkit.statistics.criteria import Criterion
from labkit.statistics.pooled import has_pairs, read_rung
from labkit.statistics.proportions import proportion
from labkit.statistics.recorded import (
    LEVEL,
    compute_p_values,
    find_survivors,
    is_waiting,
    judge_again,
    read_criterion,
)
from labkit.statistics.verdicts import judge_estimate
from press.book.chapters import format_number, read_number
from press.book.facts import Json, format_table
from press.book.forecasts import HELD, Forecast, score_forecasts
from press.site.all_predictions import score_all
from press.site.claim_cards import count_held, draw_in_scoreboard, wrap_html

# The chips: the properties by which cards are filtered, their values, and the labels of these.
FACETS = {
    "verdict": {key: f"{LOOKS[key][0]} {VERDICTS[key]}" for key in VERDICTS},
    "sort": {"finding": "measured claims", "law": "exact claims"},
    # The kind "exact" is the sort "law".
    "kind": {"at": "one setting", "best": "tuned learning rates", "range": "a range of rates"},
    "weak": {"yes": "weak"},
    "holm": {"yes": "significant after Holm’s correction"},
}
FORECASTS = """## Forecasts

What the authors expected, and what they entered for a paper that makes the claim, mostly p = 0.9.
o is 1 if the claim holds and 0 if it does not. The Brier score is the mean of (p − o)²: 0 is
perfect, and always saying one half scores 0.25. Forecasts that were *preregistered* are scored
separately from those that were *preregistered after exploratory runs*. Forecasts of claims that
were *not preregistered* are listed and not scored.
[Enter your own forecast](claims.md#preregistration) with `labkit claims lock ID=0.7 --mine`, before
you look at the result."""
PAIRS = """## Paired and unpaired

Preregistered losses on the ladder are compared without pairing unless the preregistration asks for
it, as new ones do. Full evaluations that were not preregistered are compared in pairs. If two
methods share seeds, [a paired test may detect more](claims.md#how-verdicts-are-decided). Of the
claims whose methods share seeds, {without} are judged unpaired and {by_seed} paired. Judged the
other way, {count}"""
BY_WORD = """## Preregistered or not

A preregistered claim could have failed: it was written down before its runs began. A claim that was
not preregistered was written down by someone who could know the result, and such claims hold more
often. Of the measured claims that have a verdict, these hold at one size or more, with the exact
95 % interval of their share:"""
ONE_MARGIN = """## The same, at one margin

How close is *the same*? The claims below were written down with different margins. This table
judges all of them at one, {margin:g} nats of test loss, by their 90 % intervals. New claims of
this kind are preregistered with it."""


def format_count(count: int, word: str) -> str:
    """Format a count with its noun, singular or plural."""
    return f"{count} {word}{'s' * (count != 1)}"


def format_words(claims: Mapping[str, Json]) -> list[str]:
    """Count how many findings held by when they were written down; nothing where none was."""
    findings = [one for one in claims.values() if one["sort"] == "finding" and one.get("word")]
    judged = [one for one in findings if one["verdict"] not in ("out-of-range", "waits")]
    rows = []
    for word, said in WORDS.items():
        if of_word := [one["verdict"] in HELD for one in judged if one["word"] == word]:
            share = proportion(of_word)
            low, high = share.compute_interval()
            interval = f"{share.mean:.0%} [{low:.0%}, {high:.0%}]"
            rows.append((said, str(share.n), str(share.k), interval))
    heads = ("the claims were", "judged", "held", "share")
    return [BY_WORD, format_table(heads, rows, numbers=True)] if rows else []


def summarize_claims(claims: Mapping[str, Json], forecasts: Iterable[Forecast] = ()) -> str:
    """Count the verdicts of the findings and what survives the correction for many tests."""
    every = {name: claim for name, claim in claims.items() if claim["sort"] == "finding"}
    findings = {name: claim for name, claim in every.items() if claim["verdict"] != "waits"}
    laws = [claim for claim in claims.values() if claim["sort"] == "law"]
    kept = sum(claim["verdict"] == "holds" for claim in laws)
    weak = sum(bool(c.get("weak")) for c in findings.values())
    unstated = {one.id for one in forecasts if one.id not in claims and not one.verdict}
    more = f", and {len(unstated)} that no chapter states yet (see the forecasts)" * bool(unstated)
    by_chapter = compute_p_values(claims)
    tested = sum(map(len, by_chapter.values()))
    found = [claim["verdict"] for claim in findings.values()]
    counted = [f"{w}: {found.count(key)}" for key, w in VERDICTS.items() if key != "waits"]
    return (
        f"{format_count(len(findings), 'measured claim')} ({', '.join(counted)}) and "
        f"{format_count(len(laws), 'exact claim')}, of which {kept} hold. "
        f"Not counted, because preregistered runs are missing: {len(every) - len(findings)}{more}. "
        f"Weak, because leaving out one run changes the verdict: {weak}. "
        "When many claims are tested at once, some hold by chance. "
        f"{format_count(tested, 'measured claim')} can be tested, two-sided: values over seeds "
        "with Student’s *t*, shares of runs with exact tests, “in [a, b]” with two one-sided "
        "tests. "
        f"Within each of {format_count(len(by_chapter), 'chapter')} the p-values go through "
        f"Holm’s step-down correction. {len(find_survivors(claims))} of {tested} "
        f"survive at {100 * LEVEL:.0f} %, for or against the claim. "
        "Claims out of range and values that are not a sample of seeds are no tests and stay out."
    )


def draw_filter(titles: Mapping[str, str]) -> str:
    """Draw the search field and the filters; claims.js shows them, because they need it."""
    chips = "".join(
        f'<label><input type="checkbox" name="{facet}" value="{value}"> {words}</label>'
        for facet, values in FACETS.items()
        for value, words in values.items()
    )
    options = "".join(
        f'<option value="{read_number(name)}">{format_number(read_number(name))} · '
        f"{html.escape(title)}</option>"
        for name, title in titles.items()
    )
    return (
        '<form class="labkit-filter" role="search" hidden>'
        '<input type="search" aria-label="Search the claims" '
        'placeholder="warm-up, Xiong, bfloat16 …">'
        '<select name="chapter" aria-label="Chapter"><option value="">every chapter</option>'
        f'{options}</select><fieldset><legend class="labkit-hidden">Show only</legend>{chips}'
        "</fieldset><output></output></form>"
    )


def draw_claims(claims: Mapping[str, Json], titles: Mapping[str, str], row: str = "row") -> str:
    """Draw a fold for each chapter with its cards; their names begin with `row`."""
    marked = find_survivors(claims)
    chapters: dict[str, dict[str, Json]] = {}
    for name, claim in sorted(claims.items(), key=lambda i: (str(i[1]["chapter"]), i[0])):
        chapters.setdefault(str(claim["chapter"]), {})[name] = claim
    folds = []
    for chapter, own in chapters.items():
        cards = "\n".join(
            draw_in_scoreboard(name, claim, name in marked, chapter in titles, row)
            for name, claim in own.items()
        )
        # The chapter's own address: the link finds its fold without script, too.
        number = read_number(chapter)
        anchor = f' id="f:chapter={number}"' if row == "row" else ""
        title = f"{format_number(number)} · {html.escape(titles.get(chapter, chapter))}"
        folds.append(
            f'<details class="labkit-chapter"{anchor}><summary><span>{title}</span> '
            f'<span class="tally">{count_held(own.values())}</span></summary>\n{cards}</details>'
        )
    return wrap_html("\n".join(folds))


def build_scoreboard(
    build: Json,
    titles: Mapping[str, str],
    recorded: Iterable[Json] = (),
    forecasts: Sequence[Forecast] = (),
) -> str:
    """Write the page of the claims of this build, of the recorded ones, and of the forecasts."""
    claims: dict[str, Json] = build["claims"]
    size = build.get("size", "book")
    parts = [
        "# Scoreboard",
        "Every claim of this book, in one place. A claim that did not reproduce stays in the list. "
        "[What a claim is](claims.md) explains how verdicts are decided.",
        *format_words(claims),
        "## All verdicts" if claims else "",
        summarize_claims(claims, forecasts) if claims else "No chapter has stated a claim yet.",
    ]
    if claims:
        parts += list_contradicted(claims, titles)
        parts += [wrap_html(draw_filter(titles)), "## By chapter",
                  draw_claims(claims, titles)]  # fmt: skip
    parts += format_margins(claims) + format_pairs(claims)
    parts += format_forecasts(forecasts)
    found = {ledger.get("size", "gpu"): ledger for ledger in recorded}
    for name in found:
        if name != size:
            parts += _format_recorded(name, found[name], titles)
    return "\n\n".join(filter(None, parts)) + "\n"


def format_margins(claims: Mapping[str, Json]) -> list[str]:
    """Judge every equivalence on the ladder at one margin, rung by rung."""
    rows = []
    for name, claim in claims.items():
        rungs = claim.get("rungs") or {}
        if is_waiting(claim) or not rungs or not read_criterion(claim).two_sided:
            continue
        for rung, kept in sorted(rungs.items()):
            one = read_rung(kept)
            low, high = one.compute_interval(0.90)
            same = judge_estimate(one, Criterion(-MARGIN, MARGIN))
            said = {"holds": "the same", "contradicted": "different"}.get(same, "not decided")
            rows.append((f'<a href="#row-{name}">{name}</a>', claim["criterion"], rung,
                         f"{one.mean:+z.4f} [{low:+z.4f}, {high:+z.4f}]", said))  # fmt: skip
    heads = ("claim", "its criterion", "rung", "difference", f"within {MARGIN:g} nats")
    text = ONE_MARGIN.format(margin=MARGIN)
    return [text, format_table(heads, rows) if rows else "No claim of this build is of this kind."]


def compare_with_a_coin(forecasts: Sequence[Forecast]) -> str:
    """Report how many sentences that were forecast before their runs held, and the score."""
    words = {"paper": "entered for papers", "authors": "forecast by the authors"}
    said = [
        f"{held} of {one.count} {words[one.by]} held (Brier score {one.brier:.2f})"
        for one, held in reversed(score_all(forecasts))
        if one.word == LOCKED
    ]
    if not said:
        return ""
    return (
        "Of the sentences that were forecast before any run that judges them, "
        f"{' and '.join(said)}. A coin, which always says one half, scores 0.25; a lower score is "
        "better."
    )


def list_contradicted(claims: Mapping[str, Json], titles: Mapping[str, str]) -> list[str]:
    """List in words the sentences that the runs contradict, each with the result."""
    found = [
        f"<li>{typeset(find_sentence(claim))}<br>{typeset(claim['statement'])} "
        f'<a href="#row-{html.escape(name)}">card</a></li>'
        for name, claim in sorted(claims.items())
        if claim["verdict"] == "contradicted" and claim.get("said") and claim["chapter"] in titles
    ]
    if not found:
        return []
    text = (
        "Below each sentence stands our result. Our models are small: it may hold for larger ones."
    )
    return ["## Contradicted here", text, wrap_html(f"<ol>{''.join(found)}</ol>")]


def format_forecasts(forecasts: Sequence[Forecast]) -> list[str]:
    """Format the forecasts, their outcomes, and their scores."""
    if not (public := [one for one in forecasts if one.by != "you"]):
        return []
    rows = [
        (
            f'<a href="#row-{one.id}">{one.id}</a>' if one.verdict else f"`{one.id}`",
            one.by,
            one.at[:16].replace("T", " "),
            f"{one.probability:.2f}",
            f"{VERDICTS[one.verdict]} ({WORDS[one.word]})" if one.verdict else "runs incomplete",
            "" if one.outcome is None else f"{one.error:.2f}",
        )
        for one in public
    ]
    heads = ("claim", "by", "written down (UTC)", "p", "verdict", "(p − o)²")
    scores = [
        (one.by, one.sort, WORDS[one.word], str(one.count), f"{one.brier:.3f}",
         ", ".join(f"{low:g}–{high:g}: {held} of {n}" for low, high, n, held in one.bins))
        for one in score_forecasts(public)
    ]  # fmt: skip
    parts = [FORECASTS, compare_with_a_coin(public), format_table(heads, rows)]
    if scores:
        of = ("by", "about", "claims", "forecasts", "Brier", "held, by p")
        named = [(by, {"ranking": "a ranking", "law-like": "an effect"}.get(sort, sort), *rest)
                 for by, sort, *rest in scores]  # fmt: skip
        parts.append(format_table(of, named))
    return parts


def format_pairs(claims: Mapping[str, Json]) -> list[str]:
    """List the claims whose verdict changes between a paired and an unpaired test."""
    rows, without, by_seed = [], 0, 0
    for name, claim in claims.items():
        kept = [claim["samples"]] if claim.get("samples") else []
        every = [read_rung(of) for of in (*kept, *(claim.get("rungs") or {}).values())]
        if is_waiting(claim) or not (shared := [one for one in every if has_pairs(one)]):
            continue
        one = shared[0]
        by_seed, without = by_seed + one.paired, without + (not one.paired)
        judged, other = claim["verdict"], judge_again(claim, paired=not one.paired).verdict
        if other != judged:
            way = "paired" if one.paired else "unpaired"
            turned = replace(one, paired=not one.paired)
            rows.append((f'<a href="#row-{name}">{name}</a>', f"{VERDICTS[judged]} ({way})",
                         f"{one:+z.4f}", VERDICTS[other], f"{turned:+z.4f}"))  # fmt: skip
    count = f"{len(rows)} would get another verdict:" if rows else "none would get another verdict."
    text = PAIRS.format(without=without, by_seed=by_seed, count=count)
    heads = ("claim", "verdict", "difference", "judged the other way", "difference")
    return [text, *([format_table(heads, rows)] if rows else [])]


def _format_recorded(size: str, ledger: Json, titles: Mapping[str, str]) -> list[str]:
    """Format the results recorded once with a long size, and list the chapters without any."""
    heading = f"## Recorded with size {size}"
    facts, claims = ledger.get("provenance") or {}, ledger["claims"]
    where = [facts[k] for k in ("date", "device", "cpu") if facts.get(k)]
    said = "These runs are too long for every build; they were made once and are *recorded*"
    said += f": {html.escape(', '.join(map(str, where)))}." if where else "."
    chapters = {claim.get("chapter") for claim in claims.values()}
    if missing := [title for name, title in titles.items() if name not in chapters]:
        said += f" Not recorded with this size: {html.escape(', '.join(missing))}."
    return [heading, said, summarize_claims(claims), draw_claims(claims, titles, f"row-{size}")]
