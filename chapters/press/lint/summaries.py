"""Rules for a chapter's summary: each bullet names its claims and what was not tried.

    - Norms on q and k lower the price of a wrong rate. <!-- 10-norms-on-q-and-k-lower-… -->

A bullet of "What you now know" names, in a comment, the claims that it rests on; a bullet that
rests on a derivation alone says so: <!-- derived -->. A finding that it states has met a second
value of what is varied, the last step that probes looked at, and a control (`claim(…, tried=)`),
or the bullet says in words where its limit is. Findings that decided nothing are said to.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from labkit.experiments.card_html import TRIED
from press.lint.text import Text

HEADING = "## What you now know"
DERIVED = "derived"
STATED = ("holds", "holds-on-one", "contradicted")
BULLET = re.compile(r"^- (.*?)(?=^- |^#|\Z)", re.M | re.S)
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.S)
LIMIT = re.compile(
    r"\b(?:one|only|here|at rate|at this|rung \w|did not|was not|were not|not tried|not settled"
    r"|untested|\d+ (?:steps|blocks|layers|seeds))\b",
    re.I,
)
UNDECIDED = re.compile(
    r"\b(?:not|no|cannot|nothing|neither|hardly|weak|hint|open|out of range|small|smaller)\b", re.I
)
Claims = Mapping[str, Mapping[str, Any]]


def find_unsupported_bullets(text: Text) -> Iterator[str]:
    """Check that each bullet of the summary names its claims, and says which nobody challenged."""
    for markdown in text.prose:
        _, heading, summary = markdown.partition(HEADING)
        for bullet in BULLET.findall(summary.partition("\n## ")[0]) if heading else []:
            yield from _judge_bullet(bullet, text.ledger)


def _judge_bullet(bullet: str, claims: Claims) -> Iterator[str]:
    words = COMMENT.sub("", bullet)
    begins = " ".join(words.split()[:6])
    named = [name for comment in COMMENT.findall(bullet) for name in comment.split()]
    if not named:
        yield f"the summary's bullet “{begins} …” names no claim: <!-- id --> or <!-- {DERIVED} -->"
    found = {name: claims[name] for name in named if name in claims}
    for name in named:
        if name not in found and name != DERIVED:
            yield f"the summary's bullet “{begins} …” names {name}, which is not recorded"
    findings = {name: one for name, one in found.items() if one["sort"] == "finding"}
    for name, one in findings.items():
        tried = one.get("tried") or {}
        missing = [trial for trial in TRIED if trial not in tried]
        if one["verdict"] in STATED and missing and not LIMIT.search(words):
            yield (
                f"the summary's bullet “{begins} …” states {name} without a limit, and its card "
                f"names no {', no '.join(missing)}; check it (claim(…, tried=…)), or state a limit"
            )
    decided = not findings or any(one["verdict"] in STATED for one in found.values())
    if not decided and not UNDECIDED.search(words):
        yield f"the summary's bullet “{begins} …” states a result that no card decides"
