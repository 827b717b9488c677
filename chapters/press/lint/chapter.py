"""Rules for chapters: required parts, no typed measurements, short cells, described figures."""

import ast
import re
from collections.abc import Callable, Iterator

import jupytext

from press.book import chapters
from press.book.cells import claim_cells
from press.book.chapters import NUMBER
from press.book.citations import strip_citations
from press.book.facts import join_text
from press.book.ledger import collect_claims
from press.lint.budgets import keep_budgets
from press.lint.numbers import find_repeated_values, find_typed_numbers
from press.lint.predictions import find_told_ids, find_wrong_questions, locate_claims
from press.lint.said import find_misstatements
from press.lint.summaries import find_unsupported_bullets
from press.lint.text import Text
from press.site.hero import FOLDED, OPEN, SHORT
from press.site.outline import find_questions, list_exercises
from press.site.predictions import list_questions

LINES_ON_AVERAGE, MOST_LINES = 14, 25  # of a code cell
QUESTION = 60  # words, citations not counted
CLAIMS = 6
EXERCISES, ON_A_SHELF = 3, 2  # and as many with a hint, a solution, and a cell that checks them
BONES = (
    "**Question.**",
    FOLDED,
    "where it goes wrong",
    "## Exercises",
    "## What you now know",
    "## To carry away",
    "## References",
)
SHELF_BONES = ("**Question.**", OPEN, "## Exercises", "## References")
MARKUP = re.compile(r"\{[\w:.-]+\}`[^`]*`|(?m:^(?:`{3,}|:{3,})\{[\w:.-]+\})")
PLACED = re.compile(rf"\[\[{NUMBER}(?:[#!.~][^\]]+)?(?:\|[^\]]+)?\]\]")
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d")
PROOF = re.compile(r"\b(prove|proof|show that)\b", re.I)
MEMORY = re.compile(r'\bmemory=\{"kernel": "[\w.]+", "run": "[\w.]+"\}')
SLIDER = re.compile(r"\bplots\.explore\(")


def ask_before_the_answer(text: Text) -> Iterator[str]:
    """Check that a chapter asks its reader before it shows an answer; one choice must be right."""
    cells = chapters.read_chapter(text.chapter).cells
    made = locate_claims(cells, collect_claims(text.twin, text.name))
    yield from find_wrong_questions(cells, made, text.ledger)
    if not text.chapter.is_shelf:
        if not list(list_questions("\n\n".join(text.prose))):
            yield "must ask the reader for a prediction, but does not"
        yield from find_told_ids(cells, made)


def measure_cells(text: Text) -> Iterator[str]:
    """Check that code cells are valid Python, and short enough to read."""
    lengths = []
    for cell in text.code:
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"cell {cell.index} is not Python: {error}"
        lengths.append(sum(bool(line.strip()) for line in cell.source.splitlines()))
        if lengths[-1] > MOST_LINES:
            yield f"cell {cell.index} has {lengths[-1]} lines; at most {MOST_LINES}"
    if lengths and (mean := sum(lengths) / len(lengths)) > LINES_ON_AVERAGE:
        yield f"its cells have {mean:.1f} lines on average; at most {LINES_ON_AVERAGE}"


def find_bones(text: Text) -> Iterator[str]:
    """Find required parts that are missing or in the wrong order; an appendix needs fewer."""
    whole = "\n".join(text.prose).casefold()
    bones = SHELF_BONES if text.chapter.is_shelf else BONES
    at = {bone: whole.find(bone.casefold()) for bone in bones}
    yield from (f"lacks {bone!r}" for bone, place in at.items() if place < 0)
    if (places := list(at.values())) != sorted(places):
        yield f"its parts must be in the order {', '.join(bones)}"


def ask_something(text: Text) -> Iterator[str]:
    """Check that the **Question.** paragraph is short and ends with its only question."""
    whole = next((cell for cell in text.prose if "**Question.**" in cell), "")
    asked = SHORT.split(whole.partition("**Question.**")[2], maxsplit=1)[0]
    asked = strip_citations(re.sub(r"\$[^$]+\$", "x", asked)).strip()
    if len(find_questions(text.prose)) != 1 or asked.count("?") != 1 or not asked.endswith("?"):
        yield "its paragraph **Question.** must ask one question, at its end, for the cover to show"
    if (words := len(asked.split())) > QUESTION:
        yield f"its paragraph **Question.** has {words} words; {QUESTION} at most"


def count_claims_and_exercises(text: Text) -> Iterator[str]:
    """Report too few claims, exercises, proofs, hints or sliders; an appendix needs fewer."""
    shelf = text.chapter.is_shelf
    fewest = ON_A_SHELF if shelf else EXERCISES
    made = {card["id"] for card in collect_claims(text.twin, text.name)} | {
        *claim_cells(text.chapter)
    }
    if len(made) < CLAIMS:
        yield f"makes {len(made)} claims; {CLAIMS} at least"
    for name in sorted(made):
        if not name.startswith(f"{text.chapter.number}-"):
            yield f"the id of a claim must begin with {text.chapter.number}-, got {name}"
    numbers = [number for number, _ in list_exercises(text.prose)]
    if twice := sorted({number for number in numbers if numbers.count(number) > 1}):
        yield f"exercise {', '.join(twice)} occurs twice"
    if len(numbers) < fewest:
        yield f"has {len(numbers)} exercises; {fewest} at least"
    whole = "\n".join(text.prose)
    task = re.sub(r"(?s)<details>.*?</details>", "", whole.partition("## Exercises")[2])
    if not shelf and not PROOF.search(task):
        yield "at least one exercise must ask for a proof, but none does"
    solved = whole.count("<summary>Solution</summary>") + text.source.count('tags=["solution"]')
    helped = {"hints": whole.count("<summary>Hint</summary>"), "solutions": solved,
              "cells that check an exercise": text.source.count('tags=["exercise"]')}  # fmt: skip
    yield from (f"has {n} {what}; {fewest} at least" for what, n in helped.items() if n < fewest)
    if not shelf and not any(SLIDER.search(cell.source) for cell in text.code):
        yield "has no slider; add one with plots.explore(…)"


def declare_memory(text: Text) -> Iterator[str]:
    """Check that a chapter declares the memory of its kernel and its runs, which a build checks."""
    if not MEMORY.search(text.source):
        yield 'declares no memory; write Lab(…, memory={"kernel": "700M", "run": "900M"})'


def find_markup_of_sphinx(text: Text) -> Iterator[str]:
    """Find Sphinx roles and directives: JupyterLab and code hosts would show them as raw text."""
    for markdown in text.prose:
        for found in MARKUP.findall(markdown):
            yield f"{found} is markup of Sphinx; write a Markdown link, or HTML such as <details>"
        for found in PLACED.findall(markdown):
            yield f"{found} is a link only on the site; write [words](NN_name.ipynb#a-heading)"


def find_wordless_figures(text: Text) -> Iterator[str]:
    """Find figures without an alternative text or a caption."""
    for cell in text.twin["cells"]:
        for output in cell.get("outputs", []):
            about = output.get("metadata", {}).get("labkit", {})
            if any(kind.startswith("image/") for kind in output.get("data", {})):
                alt = join_text(output["data"].get("text/plain", ""))
                if len(alt.split()) < 5 or not about.get("caption", "").strip():
                    yield f"the figure of cell {cell['id']} has no caption or alternative text"


def show_what_is_drawn(text: Text) -> Iterator[str]:
    """Check that tables and figures are the last line of their cell; Jupyter shows no others."""
    for cell in text.code:
        whole = ast.parse(cell.source)
        last = whole.body[-1:]
        for one in ast.walk(whole):
            if not isinstance(one, ast.Expr) or one in last:
                continue
            if ast.unparse(one.value).startswith("plots."):
                yield (
                    f"line {one.lineno} of cell {cell.index} draws what Jupyter does not show; "
                    "make it the cell's last line, outside every if and for"
                )


def find_typed_times(text: Text) -> Iterator[str]:
    """Find typed start times of runs: only the record's time can prove a lock."""
    for cell in text.code:
        for found in TIME.findall(cell.source):
            yield f"{found} is typed; pass since=find_start(…), which reads it from the records"


def save_in_jupyterlab(text: Text) -> Iterator[str]:
    """Check that saving the chapter in JupyterLab would not change it."""

    def below_the_header(source: str) -> str:
        return source.split("# ---\n", 2)[2]

    saved = jupytext.writes(jupytext.read(text.chapter.source), fmt="py:percent")
    if below_the_header(saved) != below_the_header(text.source):
        yield "saving it in JupyterLab would change it; save it there once"


CHAPTER: tuple[Callable[[Text], Iterator[str]], ...] = (
    find_typed_numbers,
    find_repeated_values,
    find_misstatements,
    find_unsupported_bullets,
    ask_before_the_answer,
    keep_budgets,
    measure_cells,
    find_bones,
    ask_something,
    count_claims_and_exercises,
    declare_memory,
    find_markup_of_sphinx,
    find_wordless_figures,
    show_what_is_drawn,
    find_typed_times,
    save_in_jupyterlab,
)
