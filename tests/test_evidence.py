"""The decision table and the leaderboard agree with the ledger and the chapters."""

import json
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from stored_runs import record

from labkit.experiments.decisions import decisions, read_advice
from labkit.experiments.ladder.plan import list_next_runs
from labkit.experiments.records import Records
from labkit.experiments.store import Store, read_file
from labkit.statistics.recorded import find_survivors, p_value, read_claims
from labkit.statistics.seeds import t_interval
from labkit.system.files import write_whole
from press.book.asked import path_of_use
from press.book.chapters import find_chapters
from press.book.facts import join_text, output_kind
from press.book.keys import key_of, parts_of
from press.site.arms import write_page
from press.site.page import clean_output
from press.site.written import draw_ladder
from tests.toy_book import chapter_text, make_book

ROOT = Path(__file__).resolve().parents[1]
LAW = {"sort": "law", "said": "One is one.", "verdict": "holds", "chapter": "01_toy"}  # fmt: skip


def find(verdict, *values, criterion="> 0"):
    """Record a finding of chapter 01."""
    numbers = {"counts": None, "values": values, "interval": t_interval(values)}
    words = {
        "sort": "finding",
        "said": "A < B.",
        "statement": "A = B + 1.",
        "verdict": verdict,
        "criterion": criterion,
    }
    return LAW | words | numbers


FOUND = find("holds", 1.0, 1.1, 0.9, 1.0, 1.05)
NOT_SEEN = find("not-seen", 1.0, -1.1, 0.9, -1.0, 0.05)
CLAIMS = {
    "01-law": LAW,
    "01-false-law": LAW | {"verdict": "contradicted"},
    "01-found": FOUND,
    "01-refuted": FOUND | {"verdict": "contradicted", "criterion": "< 0"},
    "01-not-seen": NOT_SEEN,
    "01-out": FOUND | {"verdict": "out-of-range"},
    "01-young": FOUND | {"verdict": "not-seen"},
    # It holds by itself, and not among so many.
    "01-lucky": find("holds", 1.0, 0.2, 0.4, 1.6, 0.8),
    **{f"01-{n}": NOT_SEEN for n in range(9)},
}
TABLES = ("for a large model", "otherwise")
PAPER = {
    "work": "[Holm (1979)](https://www.jstor.org/stable/4615733)",
    "says": "It holds.",
    "scale": "1 B parameters",
}


def advise(because, but=(), when="now", claims=CLAIMS):
    """Make a table of one row; evidence is the id of a claim, or a paper."""
    cited = [("because", one) for one in because] + [("but", one) for one in but]
    lines = [
        {"role": role, **({"claim": one} if isinstance(one, str) else {"claim": "", **one})}
        for role, one in cited
    ]
    return decisions({(when, "this"): lines}, claims)


def read_lines(because, but=()):
    """Format each remaining line of evidence as grade, scale and source."""
    rows = advise(because, but).rows.values()
    return [(line.grade, line.scale, line.source) for lines in rows for line in lines]


def test_a_row_holds_what_survives_with_grade_and_scale():
    assert read_lines(["01-law"]) == [("law", "any size", "01-law")]
    assert read_lines(["01-found"]) == [("our run", "small models", "01-found")]
    assert read_lines([PAPER]) == [("report", "1 B parameters", "Holm (1979)")]
    assert find_survivors({"alone": CLAIMS["01-lucky"]}) == {"alone"}
    for lost in (
        "01-not-seen", "01-out", "01-young", "01-lucky", "01-refuted", "01-false-law", "09-x"
    ):  # fmt: skip
        assert read_lines([lost]) == [], lost
        assert len(read_lines(["01-law", lost])) == 1, lost


def test_a_claim_that_was_contradicted_limits_a_row_and_is_no_reason_for_one():
    (_, (grade, _, name)) = read_lines(["01-law"], ["01-refuted"])
    assert (grade, name) == ("our run", "01-refuted")
    table = advise(["01-law"], ["01-refuted"])
    assert "But: A = B + 1. (01-refuted)" in str(table), "it says what was found"


def test_a_limit_that_did_not_survive_is_said_to_be_open():
    for name in ("01-not-seen", "01-lucky"):
        table = advise(["01-law"], [name])
        assert f"our run, not settled | small models | But: A = B + 1. ({name})" in str(table)
    assert len(read_lines(["01-law"], ["01-out", "09-x"])) == 1


def test_a_limit_whose_preregistered_runs_are_missing_is_not_called_open():
    waits = find("waits", 1.0, 1.1, 0.9) | {"lock": {"waits": ["5 of 20 seeds evaluated on S"]}}
    table = advise(["01-law"], ["01-waits"], claims=CLAIMS | {"01-waits": waits})
    assert "our run, runs incomplete | small models | But: A = B + 1. (01-waits)" in str(table)


def test_a_row_without_evidence_is_named_and_is_no_row():
    table = advise(["01-out"], ["01-law"])
    assert table.rows == {} and "no evidence is left: now this." in str(table)
    assert "no evidence is left: now this." in table.to_html()


def test_the_scale_of_a_finding_on_the_ladder_is_its_rungs():
    for rungs, scale in (
        (["M", "S"], "0.08 M, 0.31 M parameters"),
        (["C"], "0.08 M parameters"),
        (["S", "D", "M", "C"], "0.08 M, 0.15 M, 0.31 M parameters"),
    ):
        claims = CLAIMS | {"01-found": FOUND | {"rungs": dict.fromkeys(rungs, 1.0)}}
        (lines,) = advise(["01-found"], claims=claims).rows.values()
        assert lines[0].scale == scale, rungs


def test_evidence_is_linked():
    table = advise(["01-found", PAPER], when="a < b")
    page = table.to_html()
    assert '<a href="01_toy.ipynb#claim-01-found">' in page
    assert 'href="https://www.jstor.org/stable/4615733"' in page
    assert "a &lt; b <strong>this</strong></th>" in page and ">A &lt; B.</a>" in page
    output = {"output_type": "display_data", "data": {"text/html": page}, "metadata": {}}
    shown = clean_output(output)["data"]["text/html"]
    assert 'href="01_toy.html#claim-01-found"' in shown, "on the site it leads to the page"


def test_a_paper_is_cited_by_a_link_with_its_year():
    for work in ("holm1979", "[Holm](https://www.jstor.org/stable/4615733)"):
        with pytest.raises(ValueError, match=r"a work must be cited as \[Holm \(1979\)\]"):
            read_lines([PAPER | {"work": work}])


def test_every_claim_that_the_book_advises_by_is_of_a_chapter_that_could_have_it():
    """A claim of a recorded chapter must be in the ledger; others may follow later."""
    claims = read_claims(ROOT)
    there = {name.partition("-")[0] for name in claims}
    named = _advised()
    assert len(named) > 20
    assert not [name for name in named if name.partition("-")[0] in there and name not in claims]


def test_the_twins_table_is_what_the_ledger_says():
    """If a verdict changes, the next build executes the chapter again; the twin is committed."""
    claims = read_claims(ROOT)
    twin = json.loads((ROOT / "chapters/10_choosing_a_norm.ipynb").read_text(encoding="utf-8"))
    pages = ["".join(o["data"]["text/html"]) for c in twin["cells"] for o in c.get("outputs", [])
             if "labkit-decisions" in "".join(o.get("data", {}).get("text/html", ""))]  # fmt: skip
    for rows, page in zip(map(read_advice, TABLES), pages, strict=True):
        assert decisions(rows, claims).to_html() == page, "build chapter 10 anew"


def test_what_chapter_10_sums_up_rests_on_claims_that_are_left():
    """Each bullet names its claims in a comment: they hold, and survive Holm where tested."""
    text = (ROOT / "chapters/10_choosing_a_norm.py").read_text(encoding="utf-8")
    summary = text.partition("## What you now know")[2].partition("\n## ")[0]
    bullets = re.split(r"(?m)^- ", summary)[1:]
    claims = read_claims(ROOT)
    untested = {name for name, one in claims.items() if p_value(one) is None}  # laws and counts
    left = find_survivors(claims) | untested
    assert len(bullets) >= 4
    for bullet in bullets:
        (named,) = re.findall(r"<!-- (.+?) -->", bullet)
        for name in named.split():
            assert name in left and claims[name]["verdict"] == "holds", f"{name}: {bullet}"


def _advised() -> set[str]:
    lines = [line for table in TABLES for of in read_advice(table).values() for line in of]
    return {line["claim"] for line in lines} - {""}


def test_a_chapter_that_shows_verdicts_runs_again_when_another_chapters_changes(tmp_path):
    toy = chapter_text("01_toy", cells="# %%\nfrom labkit.statistics.recorded import read_claims\n")
    root = make_book(tmp_path, c01_toy=toy, c02_plain=chapter_text("02_plain"))
    ledger = root / "data" / "ledger" / "book.json"
    ledger.parent.mkdir(parents=True)
    toy, plain = find_chapters(root)
    for chapter, files in ((toy, [str(ledger)]), (plain, [])):
        used = json.dumps({"modules": [], "shown": [], "files": files})
        write_whole(path_of_use(root, "book", chapter.name), used)

    def keys(own: str, other: str, rungs: dict[str, list[float]] | None = None) -> list[str]:
        two = {"verdict": other, "rungs": rungs, "chapter": "02_plain"}
        claims = {"01-a": {**FOUND, "verdict": own}, "02-a": {**FOUND, **two}}
        ledger.write_text(json.dumps({"schema": 1, "claims": claims}))
        return [key_of(parts_of(each, root, "book")) for each in (toy, plain)]

    first, own, other = keys("holds", "holds"), keys("not-seen", "holds"), keys("holds", "not-seen")
    assert own == first, "its own claims are not its input"
    assert other[0] != first[0] and other[1] == first[1]
    assert keys("holds", "holds", {"S": [0.1]})[0] != first[0], "a rung has reported"


def test_the_picture_shows_what_is_recorded_and_nothing_that_was_trained_here(tmp_path):
    """Otherwise `make check` would fail for everyone who trains on the ladder before recording."""
    store = Store(tmp_path)
    made = replace(record(), probes={"test": {"loss": 1.4}, "validation": {"loss": 1.4}})

    def train_first_looks(*arms: str) -> None:
        while lacking := list(list_next_runs(store.read_record, [("first", arms)])):
            for run in chain(*lacking):
                store.write_record(run, made)

    train_first_looks("pre", "qk")
    rows = [read_file(path) for path in store.folder.glob("*.json")]
    Records(tmp_path).write_rows("ladder", rows)
    train_first_looks("post")
    shown = draw_ladder(tmp_path).alt
    assert "qk" in shown and "post" not in shown


@pytest.mark.slow
def test_the_board_the_picture_and_the_page_of_every_arm_name_the_same_first():
    twin = json.loads((ROOT / "chapters" / "10_choosing_a_norm.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in twin["cells"] for output in cell.get("outputs", [])]
    (board,) = (one for one in outputs if output_kind(one) == "standings")
    name = re.search(r"^First: (.*?)\.", join_text(board["data"]["text/plain"]), re.M)[1]
    (arm,) = re.findall(rf'"{re.escape(name)}": "([^"]+)"', read_field(twin))
    page = re.search(r"## Rung S\n(?:.*\n)*?\| --- .*\n\| ([^|]*?) \|", write_page(ROOT))[1]
    picture = draw_ladder(ROOT).alt.partition("groups: ")[2].split(" ")[0]
    assert arm == picture == page


def read_field(twin) -> str:
    """Read the table of chapter 10's leaderboard: names, and their arms."""
    return (
        next(
            source for cell in twin["cells"] if "field = {" in (source := join_text(cell["source"]))
        )
        .partition("field = {")[2]
        .partition("}")[0]
    )
