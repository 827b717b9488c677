"""The decision table and the page of standings are what the ledger and the chapters say."""

import json
from pathlib import Path

from press.book.advice import ADVICE
from press.book.chapters import find_chapters
from press.book.evidence import Advice, decisions, recorded
from press.book.keys import key_of, parts_of
from press.book.ledger import load_recorded
from press.site.page import shown_output
from press.site.standings import standings_page
from tests.toy_book import chapter_text, make_book

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = {
    "01-a": {"verdict": "holds", "weak": False, "chapter": "01_toy"},
    "01-b": {"verdict": "not-seen", "weak": True, "chapter": "01_toy"},
    "01-c": {"verdict": "contradicted", "weak": False, "chapter": "01_toy"},
    "01-d": {"verdict": "out-of-range", "weak": False, "chapter": "01_toy"},
}


def standing(*names):
    return decisions([Advice("now", "this", names)], CLAIMS).rows[0].standing


def test_a_row_stands_as_its_claims_do():
    assert standing("01-a") == "stands"
    assert standing("01-a", "01-b") == "seen in part"
    assert standing("01-a", "01-b", "01-c") == "contradicted in part"
    assert standing("01-a", "09-x") == "stands, as far as recorded and in range"
    assert standing("01-d") == standing("01-d", "09-x") == "out of range"
    assert standing("01-a", "01-d") == "stands, as far as recorded and in range"
    assert standing("01-c", "01-d") == "contradicted in part"
    assert standing("01-c") == "contradicted" and standing("01-b") == "not seen"
    assert standing("01-c", "09-x") == "contradicted in part"
    assert standing("09-x") == "not recorded yet"


def test_a_recorded_claim_is_linked_and_another_is_not():
    table = decisions([Advice("a < b", "this", ("01-b",), ("09-x",))], CLAIMS)
    assert '<a href="01_toy.ipynb#claim-01-b">' in (page := table.to_html())
    assert "not seen, weak" in page and "not recorded yet" in page and "a &lt; b" in page
    assert 'href="09' not in page
    assert table.format_rows()[0]["because"] == "01-b (○ not seen, weak)"
    assert "09-x (not recorded yet)" in str(table)


def test_on_the_site_a_link_leads_to_the_page():
    table = decisions([Advice("now", "this", ("01-a",))], CLAIMS)
    output = {"output_type": "display_data", "data": {"text/html": table.to_html()}, "metadata": {}}
    assert 'href="01_toy.html#claim-01-a"' in shown_output(output)["data"]["text/html"]


def test_every_claim_that_the_book_advises_by_is_of_a_chapter_that_could_have_it():
    """A claim of a chapter that is recorded must be in the ledger; others may still come."""
    claims = recorded(root=ROOT)
    there = {name[:2] for name in claims}
    named = _advised()
    assert len(named) > 20
    assert not [name for name in named if name[:2] in there and name not in claims]


def test_the_twins_table_is_what_the_ledger_says():
    """When a verdict changes, the next build runs the chapter again; the twin is committed."""
    claims = load_recorded(ROOT, "book")["claims"]
    twin = json.loads((ROOT / "chapters/10_choosing_a_norm.ipynb").read_text(encoding="utf-8"))
    pages = ["".join(o["data"]["text/html"]) for c in twin["cells"] for o in c.get("outputs", [])
             if "labkit-decisions" in "".join(o.get("data", {}).get("text/html", ""))]  # fmt: skip
    assert len(pages) == 1
    assert decisions(ADVICE, claims).to_html() == pages[0], "build chapter 10 anew"


def _advised() -> set[str]:
    return {name for row in ADVICE for name in (*row.because, *row.but)}


def test_a_chapter_that_shows_verdicts_runs_again_when_another_chapters_changes(tmp_path):
    toy = chapter_text("01_toy", cells="# %%\nfrom press.book.evidence import recorded\n")
    root = make_book(tmp_path, c01_toy=toy, c02_plain=chapter_text("02_plain"))
    ledger = root / "data" / "ledger" / "book.json"
    ledger.parent.mkdir(parents=True)
    toy, plain = find_chapters(root)

    def keys(own: str, other: str) -> list[str]:
        claims = {"01-a": {**CLAIMS["01-a"], "verdict": own},
                  "02-a": {**CLAIMS["01-a"], "verdict": other, "chapter": "02_plain"}}  # fmt: skip
        ledger.write_text(json.dumps({"schema": 1, "claims": claims}))
        return [key_of(parts_of(each, root, "book", 0)) for each in (toy, plain)]

    first, own, other = keys("holds", "holds"), keys("not-seen", "holds"), keys("holds", "not-seen")
    assert own == first, "its own claims are not its input"
    assert other[0] != first[0] and other[1] == first[1]


def test_the_page_of_standings_has_what_chapters_ranked():
    output = {"output_type": "display_data", "data": {"text/html": "<table>ranks</table>"},
              "metadata": {"labkit": {"kind": "standings"}}}  # fmt: skip
    cell = {"cell_type": "code", "outputs": [output]}
    page = standings_page({"01_toy": {"cells": [cell]}}, {"01_toy": "Toy"})
    assert "<table>ranks</table>" in page and "## From [Toy](01_toy.ipynb)" in page
    assert "No chapter has ranked recipes yet" in standings_page({"01_toy": {"cells": []}}, {})
