"""The linter finds planted errors; `make check` tests that the book has none."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import fake_book
import pytest
from test_guide import book

from labkit import display
from press.book import chapters
from press.book.ledger import load_recorded
from press.cli import main
from press.lint import chapter, ledger, pages
from press.lint.numbers import find_repeated_values, find_typed_numbers
from press.lint.said import find_misstatements
from press.lint.summaries import find_unsupported_bullets
from press.lint.text import Text
from press.site.outline import count_prose_words
from press.site.predictions import HEAD

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_every_fault_of_a_book_is_told_at_once(tmp_path, capsys, monkeypatch):
    copy_of_the_book(tmp_path)
    text = tmp_path / "chapters" / "03_rmsnorm.py"
    text.write_text(text.read_text() + "\n# %% [markdown]\n# It fell to 1.94.\n")
    twin = json.loads(text.with_suffix(".ipynb").read_text())
    twin["cells"].append({"cell_type": "markdown", "id": "x", "source": "See [[03#Nowhere]]."})
    text.with_suffix(".ipynb").write_text(json.dumps(twin))
    (tmp_path / "chapters" / "04_qk_norm.ipynb").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["book", "check", "content"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "04_qk_norm: was not executed; `make book` writes its twin" in said
    assert any(line.startswith("03_rmsnorm: 1.94 is typed (… It fell to 1.94.") for line in said)
    assert "03_rmsnorm: there is no heading 'Nowhere' in 03_rmsnorm" in said
    assert said[-1] == f"content: {len(said) - 1} faults"


# -- planted: a chapter --------------------------------------------------------------------
SOURCE = ROOT / "chapters" / "03_rmsnorm.py"
KNOWN = "## What you now know"
WITHOUT_CLAIM = "710aaa4e96c2beee"  # the checksum of a lock that no chapter claims yet


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict]:
    return load_recorded(ROOT, "book")["claims"]


@pytest.fixture
def text(recorded) -> Text:
    """Read the chapter with its twin."""
    one = chapters.Chapter(SOURCE.stem, SOURCE, SOURCE.with_suffix(".ipynb"))
    return Text.read(one, recorded)


def faults(rule, old: str, new: str, tmp_path: Path, twin: str = "") -> list[str]:
    """Edit a copy of a chapter, or of its twin, and apply one rule."""
    one = chapters.Chapter(SOURCE.stem, tmp_path / SOURCE.name, SOURCE.with_suffix(".ipynb"))
    source = SOURCE.read_text(encoding="utf-8")
    assert old in source
    one.source.write_text(source.replace(old, new), encoding="utf-8")
    text = Text.read(one, load_recorded(ROOT, "book")["claims"])
    if twin:
        executed = SOURCE.with_suffix(".ipynb").read_text(encoding="utf-8")
        assert twin in executed
        text = replace(text, twin=json.loads(executed.replace(twin, "")))
    return list(rule(text))


LONG = "# %%\n" + "x = 1\n" * 26
MEDIUM = ("# %%\n" + "x = 1\n" * 20) * 60


@pytest.mark.parametrize(
    "rule, old, new, said",
    [
        (chapter.find_typed_numbers, KNOWN, f"It fell to 1.94.\n# {KNOWN}", "is typed"),
        (chapter.measure_cells, "# %% [markdown]", LONG + "# %% [markdown]", "has 26 lines"),
        (chapter.measure_cells, "# %% [markdown]", MEDIUM + "# %% [markdown]", "lines on average"),
        (chapter.measure_cells, "# %% [markdown]", "# %%\nx =\n# %% [markdown]", "is not Python"),
        (chapter.find_bones, KNOWN, "## Guess", f"lacks {KNOWN!r}"),
        (chapter.ask_before_the_answer, HEAD, "| a | b | c |", "must ask the reader"),
        (chapter.find_bones, "<summary>In short (", "<summary>In all (", "In short (contains"),
        (chapter.find_bones, KNOWN, f"## To carry away\n# {KNOWN}", "must be in the order"),
        (chapter.ask_something, "**Question.**", "**Answer.**", "must ask one question, at its"),
        (chapter.ask_something, "**Question.**", "**Question.** Why?", "ask one question, at its"),
        (chapter.ask_something, "**Question.**", "**Question.**" + " so" * 60, "words; 60 at most"),
        (chapter.count_claims_and_exercises, "<summary>Hint</summary>", "Hint", "has 0 hints; 3"),
        (chapter.count_claims_and_exercises, "plots.explore(", "plots.exp(", "has no slider"),
        (chapter.count_claims_and_exercises, '    "03-', '    "04-', "begin with 03-, got 04-"),
        (chapter.declare_memory, 'memory={"kernel"', 'memory={"k"', "declares no memory"),
        (chapter.find_markup_of_sphinx, KNOWN, f"{{cite:p}}`a`\n# {KNOWN}", "{cite:p}`a`"),
        (chapter.find_markup_of_sphinx, KNOWN, f"```{{note}}\n# {KNOWN}", "```{note}"),
        (chapter.find_markup_of_sphinx, KNOWN, f"See [[B#Keys]].\n# {KNOWN}",
         "[[B#Keys]] is a link only on the site"),
        (chapter.show_what_is_drawn, "# %% [markdown]",
         "# %%\nif True:\n    plots.table([])\n# %% [markdown]", "what Jupyter does not show"),
        (chapter.show_what_is_drawn, "# %% [markdown]",
         "# %%\nplots.table([])\nx = 1\n# %% [markdown]", "draws what Jupyter does not show"),
        (chapter.find_typed_times, "# %% [markdown]",
         '# %%\nsince = "2026-01-01T00:00:00+00:00"\n# %% [markdown]', "2026-01-01T00:00 is typed"),
        (chapter.save_in_jupyterlab, "# %% [markdown]", "# %%  [markdown]", "would change it"),
    ],
)  # fmt: skip
def test_a_fault_of_a_chapter_is_found(rule, old, new, said, tmp_path):
    assert [fault for fault in faults(rule, old, new, tmp_path) if said in fault]


def test_what_a_cell_draws_last_is_seen(tmp_path):
    assert faults(chapter.show_what_is_drawn, "", "", tmp_path) == []


def test_a_figure_without_words_and_a_wrong_verdict_are_found(recorded, tmp_path):
    executed = json.loads(SOURCE.with_suffix(".ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", [])]
    about = [output["metadata"].get("labkit", {}) for output in outputs if "metadata" in output]
    caption = next(one["caption"] for one in about if one.get("kind") == "figure")
    blank = json.dumps(caption, ensure_ascii=False)[1:-1]
    (found,) = faults(chapter.find_wordless_figures, "", "", tmp_path, twin=blank)
    assert found.endswith("has no caption or alternative text")
    name = next(name for name, claim in recorded.items() if claim["verdict"] == "holds")
    wrong = f"The card of `{name}` is contradicted.\n# {KNOWN}"
    found = faults(chapter.find_misstatements, KNOWN, wrong, tmp_path)
    assert found and found[0].startswith("states contradicted, but")


# -- planted: the ledger ---------------------------------------------------------------------
@pytest.mark.parametrize(
    "rule, change, said",
    [
        (ledger.judge_values, {"verdict": "contradicted"}, "as contradicted; its values"),
        (ledger.judge_values, {"interval": [-9.0, 9.0]}, "its values make it"),
        (ledger.judge_values, {"values": [-2.0, -1.0, 0.0, 1.0, 2.0], "interval": [-1.983, 1.963]},
         "its values give [-1.96"),
        (ledger.judge_values, {"seeds": 77}, "has 77 seeds on record, but"),
        (ledger.judge_values, {"weak": None}, "weak; its values differ"),
        (ledger.refuse_width_zero, {"interval": [0.1, 0.1]}, "whose interval has width 0"),
        (ledger.refuse_markup, {"statement": "A \\frac"}, "contains markup"),
        (ledger.find_unsaid, {"said": None}, "does not say what it tests"),
    ],
)  # fmt: skip
def test_a_fault_of_the_ledger_is_found(recorded, rule, change, said):
    assert not list(rule(recorded, []))
    name = next(
        name
        for name, claim in recorded.items()
        if claim["sort"] == "finding" and claim["verdict"] == "holds" and len(claim["values"]) == 5
    )
    weak = {"weak": not recorded[name]["weak"]} if "weak" in change else {}
    (fault,) = [
        f for f in rule({**recorded, name: recorded[name] | change | weak}, []) if name in f
    ][:1]
    assert said in fault


def test_a_claim_that_only_one_of_chapter_and_ledger_has_is_found(recorded, text):
    assert next(ledger.match_the_chapters({}, [text])).endswith("is made, but not recorded")
    other = {**recorded, "03-nobody": {}}
    assert "03-nobody is recorded, but no chapter makes it" in ledger.match_the_chapters(
        other, [text]
    )


def test_a_twin_older_than_the_records_is_found(recorded, text):
    """Planted: the card was written with one run fewer than recorded."""
    assert not list(ledger.match_the_cards(recorded, [text]))
    cards = [
        output["data"][display.CLAIM]
        for cell in text.twin["cells"]
        for output in cell.get("outputs", [])
        if display.CLAIM in output.get("data", {})
    ]
    card = next(card for card in cards if card.get("rungs"))
    freedom = card["rungs"]["S"]["scatter"][0][1]
    card["rungs"]["S"]["scatter"][0][1] = freedom - 1
    (fault,) = ledger.match_the_cards(recorded, [text])
    assert f"{card['id']} on its card: rungs, S, scatter is {freedom - 1}" in fault


def test_a_chapter_with_too_many_findings_is_found(recorded, monkeypatch):
    monkeypatch.setattr(ledger, "TOGETHER", 1)
    assert "findings together; at most 1" in next(ledger.limit_families(recorded, []))


# -- planted: what stands around ----------------------------------------------------------------
def copy_of_the_book(root: Path) -> Path:
    ignored = shutil.ignore_patterns("press", "__pycache__")
    shutil.copytree(ROOT / "chapters", root / "chapters", ignore=ignored)
    shutil.copytree(ROOT / "data", root / "data", ignore=shutil.ignore_patterns("records"))
    (root / "pyproject.toml").touch()
    return root


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    return copy_of_the_book(tmp_path_factory.mktemp("book"))


@pytest.mark.parametrize(
    "rule, path, old, new, said",
    [
        (pages.follow_threads, "data/crossrefs.csv", "00", "99", "there is no chapter 99"),
        (pages.follow_threads, "data/crossrefs.csv", "00", "99", "leads backwards"),
        (pages.follow_threads, "data/crossrefs.csv", "00", "99", "ties 00 to 0 others"),
        (pages.fill_pages, "chapters/paths.md", "[[02]]", "[[02#Gone]]", "no heading 'Gone'"),
        (pages.fill_pages, "chapters/index.md", "\nrunning\n", "\n", "index.md: must list running"),
        (pages.count_lessons, "chapters/course.md", "## Lesson 3.", "## Lesson 4.", "the lessons"),
        (pages.count_lessons, "chapters/course.md", "<!-- lesson 01 -->", "", "use the chapters"),
        (pages.look_up_words, "data/glossary.csv", "BatchNorm", "ZNorm", "terms must be sorted"),
        (pages.look_up_symbols, "data/notation.csv", "gamma", "digamma", "does not use it"),
        (pages.look_up_errata, "data/errata.csv", "zhang2019", "zhang2119", "is not a key of"),
        (pages.look_up_errata, "data/errata.csv", "is a loose bound", "is no bound",
         "'Signal and gradient share one gain' does not say 'so the spectral norm is no bound'"),
        (pages.cover_the_sources, "data/coverage.csv", "works,00-growth-by-a-tenth", "works,",
         "row 1 works, but names no claim"),
        (pages.cover_the_sources, "data/coverage.csv", "00-growth-by-a-tenth", "00-growth",
         "row 1 names 00-growth, which no chapter makes"),
        (pages.cover_the_sources, "data/coverage.csv", "\n80,", "\n81,", "1 to 80, in order"),
        (pages.hold_the_bibliography, "chapters/references.bib", "1910.07467", "1910.07468",
         "has no work [Zhang"),
        (pages.hold_the_bibliography, "chapters/references.bib", "{2016a}", "{2016c}",
         "has no work [He et al., 2016a]"),
        (pages.match_the_locks, "data/locks/wordings.csv", "acfbd7cb7fda7fa1", "acfbd7cb7fda7fa2",
         "checksum of a claim's lock, but no claim has 'acfbd7cb7fda7fa2'"),
        (pages.match_the_locks, "data/locks/wordings.csv", "acfbd7cb7fda7fa1", WITHOUT_CLAIM,
         f"checksum of a claim's lock, but no claim has '{WITHOUT_CLAIM}'"),
    ],
)  # fmt: skip
def test_a_fault_around_the_chapters_is_found(rule, path, old, new, said, copied):
    file = copied / path
    before = file.read_text(encoding="utf-8")
    assert old in before
    try:
        file.write_text(before.replace(old, new), encoding="utf-8")
        found = told(rule, copied)
    finally:
        file.write_text(before, encoding="utf-8")
    assert [fault for fault in found if said in fault], found
    assert not told(rule, copied)


def told(rule, root: Path) -> list[str]:
    try:
        return list(rule(pages.Around(root, book())))
    except ValueError as error:
        return [str(error)]


def test_a_reference_that_leads_nowhere_is_found():
    one = replace(book()["03"], prose="[a](04_qk_norm.ipynb#gone), [b](99_x.ipynb), [[03#Nowhere]]")
    found = list(pages.follow_references(SimpleNamespace(book={**book(), "03": one}, wrong=(
        pages.Around(ROOT, book()).wrong))))  # fmt: skip
    assert "03_rmsnorm: links to 04_qk_norm#gone, which is not a heading there" in found
    assert "03_rmsnorm: links to 99_x, which is not a chapter" in found
    assert "03_rmsnorm: there is no heading 'Nowhere' in 03_rmsnorm" in found


# -- numbers --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text, found",
    [
        ("The loss fell to 1.94.", ["1.94"]),
        ("It fell by 31 %, or 31 per cent, to −0.052.", ["−0.052", "31 %", "31 per cent"]),
        ("A rate of 0.05 or 2.5 is a setting.", []),
        ("A 95 % interval; 30 % are enough, or 1 per cent.", []),
        ("The loss is $1.94$, from $3.88/2 = 1.94$.", []),
        ("Betas of `0.98` and 1,797 digits.", []),
        ("They report 28.41 BLEU ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)).", []),
        ("They report 28.41 BLEU (arXiv 1706.03762).", []),
        ("Quoted ([Doe, 2020](https://x.org)): 28.41.\n\nOurs: 27.93.", ["27.93"]),
        ("| a | b |\n| --- | --- |\n| [D](https://x.org) | 1.25 |\n| ours | 1.26 |", ["1.26"]),
        ("- 3.14 ([Doe, 2020](https://x.org))\n- 2.71", ["2.71"]),
        ("```python\nx = 1.234\n```", []),
        ("Version 2.13.0, section 3.4.12, v1.25.", []),
        ("$d$ and 1.44, then $x$.", ["1.44"]),
        ("See [section](02_x.ipynb#a-1.25).", []),
    ],
)
def test_what_counts_as_typed(text, found):
    told = find_typed_numbers(SimpleNamespace(prose=[text]))
    assert [fault.partition(" is typed")[0] for fault in told] == found


CLAIM = {
    "statement": "It is 0.42 lower, at 1.94.",
    "values": [0.41, 0.42, 0.4325],
    "published": "8.45 BLEU",
}


@pytest.mark.parametrize(
    "text, found",
    [
        ("As $1.94$ shows ([Doe, 2020](https://x.org)).", ["1.94"]),
        ("A difference of 0.421.", ["0.421"]),
        ("A difference of 0.43, or −0.42.", ["−0.42"]),
        ("They report 8.45.", []),
        ("`1.94` in code.", []),
    ],
)
def test_a_claims_value_is_found_even_in_math(text, found):
    for kind, wanted in (("at", found), ("exact", [])):
        ledger = {"01-x": CLAIM | {"kind": kind, "chapter": "01_toy"}}
        told = find_repeated_values(SimpleNamespace(name="01_toy", prose=[text], ledger=ledger))
        assert [fault.partition(" is a claim's value")[0] for fault in told] == wanted


def test_words_are_counted_without_code_and_math():
    assert count_prose_words("Two words, $x^2$ and 3.\n\n```python\nnot these\n```") == 4


# -- words about verdicts -----------------------------------------------------------------------
RECORDED = {
    "01-a": {"verdict": "holds", "weak": False},
    "01-b": {"verdict": "out-of-range", "weak": False},
    "01-loop-x": {"verdict": "not-seen", "weak": True},
}
CHAPTER = '''# %%
claim(
    {made}
)

# %% [markdown]
r"""
{prose}
"""
'''


@pytest.mark.parametrize(
    ("made", "prose", "right"),
    [
        ('"01-a",', "The card is weak because one run stands apart; else it would hold.", False),
        ('"01-b",', "So the second half of the puzzle is not seen here.", False),
        ('"01-b",', "Out of range. After so few steps both know little.", True),
        ('"01-a",', "Five predictions hold.", False),
        ('f"01-loop-{name}",', "Both cards are weak.", True),
        ('f"01-loop-{name}",', "If the card holds, the direction is the paper's.", True),
        ('"01-a",', "| a source | `01-b`: contradicted |", False),
        ('"01-a",', "| a source | `01-b`: out of range |", True),
        ('"01-a",', "The bound holds, and the weak side is another.", True),
    ],
)
def test_what_prose_says_of_a_card_is_what_is_recorded(made, prose, right):
    source = CHAPTER.format(made=made, prose=prose)
    found = list(find_misstatements(SimpleNamespace(source=source, ledger=RECORDED)))
    assert (found == []) == right, found


# -- summaries --------------------------------------------------------------------------------
WHOLE = {"second value": "two rates", "last step": "the end", "control": "the same rate"}
FOUND = {
    "01-law": {"sort": "law", "verdict": "holds"},
    "01-whole": {"sort": "finding", "verdict": "holds", "tried": WHOLE},
    "01-once": {"sort": "finding", "verdict": "holds", "tried": {"control": "own rates"}},
    "01-open": {"sort": "finding", "verdict": "not-seen", "tried": None},
}


@pytest.mark.parametrize(
    ("bullet", "said"),
    [
        ("A law is one. <!-- 01-law -->", ""),
        ("It follows from the definition. <!-- derived -->", ""),
        ("Norms help. <!-- 01-whole -->", ""),
        ("Norms help at one rate. <!-- 01-once -->", ""),
        ("It is not seen. <!-- 01-open -->", ""),
        ("Norms help.", "names no claim: <!-- id --> or <!-- derived -->"),
        ("Norms help. <!-- 01-gone -->", "names 01-gone, which is not recorded"),
        ("Norms help. <!-- 01-once -->", "its card names no second value, no last step; check it"),
        ("Norms help. <!-- 01-open -->", "states a result that no card decides"),
    ],
)
def test_a_bullet_of_a_summary_says_no_more_than_its_cards_stand_for(bullet, said):
    prose = [
        "- Elsewhere nobody asks.",
        f"## What you now know\n\n- {bullet}\n\n## References\n\n- x",
    ]
    found = list(find_unsupported_bullets(SimpleNamespace(prose=prose, ledger=FOUND)))
    assert len(found) == bool(said) and all(said in fault for fault in found)


# -- budgets ----------------------------------------------------------------------------------
def chapter_of(words: int, cards: int, figures: int, lines: int, before: int) -> dict:
    """Make a twin of these sizes with `before` words before its first figure."""
    finding = {"sort": "finding", "verdict": "holds"}
    drawn = fake_book.figure("A line.", "Flat.")[:1]
    claims = [
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {display.CLAIM: {"id": str(i), **finding}},
        }
        for i in range(cards)
    ]
    return fake_book.notebook(
        "word " * before,
        *[("plots.curves(x)", [], drawn)] * figures,
        "word " * (words - before),
        ("claim()", ["solution"], claims),
        ("def f():\n" + "    x\n" * (lines - 1), ["mechanism"], []),
    )


def test_a_shelf_has_as_few_words_as_one_looks_up():
    toy = SimpleNamespace(name="A_toy", twin=chapter_of(4601, 16, 3, 150, 400))
    assert [*chapter.keep_budgets(toy)] == [
        "has 4601 words, 1 more than the 4600 of an appendix's budget"
    ]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((2500, 10, 6, 150, 300), ""),
        ((2500, 10, 4, 150, 300), "has 4 figures, 1 fewer than the 5 that a chapter needs"),
        (
            (4601, 16, 8, 170, 400),
            "has 4601 words, 1 more than the 4600 of a chapter's budget; "
            "has 16 cards of findings, 1 more than the 15 of a chapter's budget; "
            "has 8 figures, 1 more than the 7 of a chapter's budget; "
            "has 170 open lines of code, 20 more than the 150 of a chapter's budget; "
            "has 400 words before the first figure, 100 more than the 300 of a chapter's budget",
        ),
    ],
)
def test_a_chapter_s_budgets_say_which_and_by_how_much(sizes, said):
    toy = SimpleNamespace(name="04_toy", twin=chapter_of(*sizes))
    assert "; ".join(chapter.keep_budgets(toy)) == said
