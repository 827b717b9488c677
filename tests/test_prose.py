"""What every chapter's text must be: no measured number typed, the book's bones, cells that fit."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from press.book import chapters
from press.book.cells import claim_cells, code_cells, exercise_numbers
from press.book.ledger import collect
from press.site.outline import words
from tests.prose import repeated_values, typed_numbers

ROOT = Path(__file__).resolve().parents[1]
BOOK = pytest.mark.parametrize("chapter", chapters.find(ROOT), ids=lambda c: c.name)
WORDS = range(2000, 5501)
LINES_ON_AVERAGE, MOST_LINES = 14, 25
CLAIMS, EXERCISES = 6, 6
BONES = (
    "**Question",
    "**What you will see",
    "where it goes wrong",
    "## Exercises",
    "## What you now know",
    "## References",
)
PROOF = re.compile(r"\b(prove|proof|show that)\b", re.I)
SLIDER = re.compile(r"\bplots\.(explore|frames)\(")


def prose(chapter) -> list[str]:
    return [c.source for c in chapters.read(chapter).cells if c.cell_type == "markdown"]


def twin(chapter) -> dict[str, Any]:
    """Read the executed twin, which is committed beside its text."""
    assert chapter.twin.is_file(), f"{chapter.name} was not executed: `make book` writes its twin"
    return json.loads(chapter.twin.read_text(encoding="utf-8"))


@BOOK
def test_no_measured_number_is_typed(chapter):
    found = [f"{one.number}: … {one.around} …" for t in prose(chapter) for one in typed_numbers(t)]
    assert found == [], (
        "a number is printed by a cell, quoted with its citation in the same paragraph or row, "
        "or arithmetic that is shown (in math)"
    )


@BOOK
def test_no_claims_value_is_typed(chapter):
    ledger = json.loads((ROOT / "data/ledger/book.json").read_text())["claims"]
    own = {name: claim for name, claim in ledger.items() if claim["chapter"] == chapter.name}
    found = [
        f"{one.number}: … {one.around} …" for t in prose(chapter) for one in repeated_values(t, own)
    ]
    assert found == [], "a claim's card shows its value"


@BOOK
def test_a_chapter_has_the_right_length(chapter):
    assert sum(map(words, prose(chapter))) in WORDS


@BOOK
def test_code_cells_are_short(chapter):
    lengths = {
        cell.index: sum(bool(line.strip()) for line in cell.source.splitlines())
        for cell in code_cells(chapter)
    }
    long = {index: lines for index, lines in lengths.items() if lines > MOST_LINES}
    assert long == {}, "lines by cell"
    assert sum(lengths.values()) / len(lengths) <= LINES_ON_AVERAGE


@BOOK
def test_a_chapter_has_the_books_bones_in_order(chapter):
    text = "\n".join(prose(chapter)).casefold()
    at = [text.find(bone.casefold()) for bone in BONES]
    assert -1 not in at, dict(zip(BONES, at, strict=True))
    assert at == sorted(at)


@BOOK
def test_a_chapter_has_claims_exercises_a_proof_and_something_to_move(chapter):
    made = {card["id"] for card in collect(twin(chapter), chapter.name)} | set(claim_cells(chapter))
    assert len(made) >= CLAIMS
    assert all(name.startswith(f"{chapter.name[:2]}-") for name in made)
    numbers = exercise_numbers(chapter)
    assert len(set(numbers)) == len(numbers) >= EXERCISES
    asked = "\n".join(prose(chapter)).partition("## Exercises")[2]
    task = re.sub(r"(?s)<details>.*?</details>", "", asked)
    assert PROOF.search(task), "one exercise asks for a proof"
    assert any(SLIDER.search(cell.source) for cell in code_cells(chapter)), "plots.explore(…)"


@BOOK
def test_every_figure_has_words(chapter):
    pictures, wordless = 0, []
    for cell in twin(chapter)["cells"]:
        for output in cell.get("outputs", []):
            about = output.get("metadata", {}).get("labkit", {})
            if any(kind.startswith("image/") for kind in output.get("data", {})):
                pictures += 1
                if len(about.get("alt", "").split()) < 5 or not about.get("caption", "").strip():
                    wordless.append(cell["id"])
    assert pictures and wordless == []


@BOOK
def test_every_code_cell_is_python(chapter):
    for cell in code_cells(chapter):
        ast.parse(cell.source)


@pytest.mark.parametrize(
    "text, found",
    [
        ("The loss fell to 1.94.", ["1.94"]),
        ("It fell by 31 %, or 31 per cent.", ["31 %", "31 per cent"]),
        ("They differ by −0.052.", ["−0.052"]),
        ("A rate of 0.05 or 2.5 is a setting.", []),
        ("A 95 % interval; 30 % are enough, or 1 per cent.", []),
        ("The loss is $1.94$, from $3.88/2 = 1.94$.", []),
        ("Betas of `0.98` and 1,797 digits.", []),
        ("They report 28.41 BLEU {cite:p}`vaswani2017`.", []),
        ("They report 28.41 BLEU (arXiv 1706.03762).", []),
        ("They report 28.41 [here](https://example.org/1.25).", []),
        ("Quoted {cite:p}`a`: 28.41.\n\nOurs: 27.93.", ["27.93"]),
        ("| a | b |\n| --- | --- |\n| {cite:t}`x` | 1.25 |\n| ours | 1.26 |", ["1.26"]),
        ("- 3.14 {cite:p}`x`\n- 2.71", ["2.71"]),
        ("```python\nx = 1.234\n```", []),
        ("Version 2.13.0, section 3.4.12, v1.25.", []),
        ("$d$ and 1.44, then $x$.", ["1.44"]),
        ("See [section](02_x.ipynb#a-1.25).", []),
    ],
)
def test_what_counts_as_typed(text, found):
    assert [one.number for one in typed_numbers(text)] == found


CLAIM = {
    "kind": "at",
    "statement": "It is 0.42 lower, at 1.94.",
    "values": [0.41, 0.42, 0.4325],
    "published": "8.45 BLEU",
}


@pytest.mark.parametrize(
    "text, found",
    [
        ("As $1.94$ shows {cite:p}`x`.", ["1.94"]),
        ("A difference of 0.421.", ["0.421"]),
        ("A difference of 0.43, or −0.42.", ["−0.42"]),
        ("They report 8.45.", []),
        ("`1.94` in code.", []),
    ],
)
def test_a_claims_value_is_found_even_in_math(text, found):
    assert [one.number for one in repeated_values(text, {"01-x": CLAIM})] == found
    assert repeated_values(text, {"01-x": CLAIM | {"kind": "exact"}}) == []


def test_words_are_counted_without_code_and_math():
    assert words("Two words, $x^2$ and 3.\n\n```python\nnot these\n```") == 4


@BOOK
def test_saving_it_in_jupyterlab_would_change_nothing(chapter):
    def after_the_header(text: str) -> str:
        return text.split("# ---\n", 2)[2]

    text = chapter.source.read_text(encoding="utf-8")
    saved = jupytext.writes(jupytext.read(chapter.source), fmt="py:percent")
    assert after_the_header(saved) == after_the_header(text)
