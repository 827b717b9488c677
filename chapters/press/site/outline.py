"""Read from an executed chapter what the rest of the book states about it.

outline("05_deepnorm", notebook).questions   # what it asks: the end of its Question paragraph
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from press.book.chapters import read_number
from press.book.citations import strip_citations
from press.book.declared import sum_costs
from press.book.facts import Json, join_text, title_of
from press.book.folds import count_open_lines
from press.book.ledger import collect_claims
from press.site.figures import list_pictures

FENCED = re.compile(r"(?ms)^(```+|~~~+|:::+).*?^\1\s*$")
MATH = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|(?<![\\$])\$(?!\s).+?(?<![\s\\])\$", re.S)
MATH_BLOCK = re.compile(r"\$\$.+?\$\$", re.S)
EXERCISE = re.compile(r"^\*\*(\d+[a-z]?) *\(([^)]+)\)")
SENTENCE = re.compile(r"(?<=[.?!:])[*”\")]*\s+(?=[A-Z“\"$*(])")
FOLD = re.compile(r"(?s)<details\b.*?</details>")
WORDS_A_MINUTE = 135  # two students with a pencil, over eleven chapters
SECONDS = {"lines": 4, "formulas": 20, "figures": 45, "claims": 20}  # that one takes beside them


@dataclass(frozen=True)
class Outline:
    """The outline of one chapter: title, questions, sizes, and all places that links can reach."""

    name: str
    title: str
    questions: tuple[str, ...]
    words: int  # that stand open on its page
    headings: tuple[str, ...]
    exercises: tuple[tuple[str, str], ...]  # number, kind: ("6", "proof")
    prose: str
    lines: int = 0  # of code that stand open on its page
    formulas: int = 0  # that stand on a line of their own
    figures: int = 0
    seconds: float = 0.0  # CPU-seconds of its recorded runs
    claims: Mapping[str, Json] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)  # by heading: text, and what is shown

    @property
    def number(self) -> str:
        """Its two digits, or its letter."""
        return read_number(self.name)

    @property
    def minutes(self) -> int:
        """Reading time in minutes: words, formulas, visible code, figures, cards; no exercises."""
        counts = {"lines": self.lines, "formulas": self.formulas, "figures": self.figures}
        counts["claims"] = len(self.claims)
        seconds = sum(SECONDS[kind] * count for kind, count in counts.items())
        return round(self.words / WORDS_A_MINUTE + seconds / 60)


Book = dict[str, Outline]  # by number, in order


def read_outlines(notebooks: Mapping[str, Json]) -> Book:
    """Read every chapter, by its number."""
    found = (read_outline(name, notebook) for name, notebook in sorted(notebooks.items()))
    return {one.number: one for one in found}


def read_outline(name: str, notebook: Json) -> Outline:
    """Read one executed chapter, or its twin."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    markdown = [join_text(cell["source"]) for cell in cells]
    plain = [FENCED.sub("", source) for source in markdown]
    opened = [FOLD.sub("", source) for source in markdown]
    return Outline(
        name=name,
        title=title_of(notebook) or name,
        questions=find_questions(markdown),
        words=sum(map(count_prose_words, opened)),
        headings=tuple(h.strip() for p in plain for h in re.findall(r"(?m)^#{2,3} +(.+?) *$", p)),
        exercises=tuple(list_exercises(plain)),
        prose="\n\n".join(plain),
        lines=count_open_lines(notebook),
        formulas=sum(len(MATH_BLOCK.findall(source)) for source in opened),
        figures=len(list_pictures(notebook)),
        seconds=sum_costs(notebook)["cpu_seconds"],
        claims={card["id"]: card for card in collect_claims(notebook, name)},
        sections=read_sections(notebook),
    )


def read_sections(notebook: Json) -> dict[str, str]:
    """Read the text below each heading: prose, and the text of outputs.

    A section holds its subsections.
    """
    found: dict[str, list[str]] = {}
    levels: dict[str, int] = {}
    for cell in notebook["cells"]:
        shown = [join_text(cell["source"])] if cell["cell_type"] == "markdown" else []
        shown += [plain_text(output) for output in cell.get("outputs", [])]
        for line in "\n".join(shown).splitlines():
            if match := re.fullmatch(r"(#{2,3}) +(.+?) *", line):
                levels = {h: level for h, level in levels.items() if level < len(match[1])}
                levels[match[2]] = len(match[1])
            for heading in levels:
                found.setdefault(heading, []).append(line)
    return {heading: " ".join(" ".join(lines).split()) for heading, lines in found.items()}


def plain_text(output: Json) -> str:
    """Read the words of a cell's output: printed text, or a table without its markup."""
    data = output.get("data", {})
    if "text/html" in data:
        return html.unescape(re.sub(r"<[^>]+>", " ", join_text(data["text/html"])))
    return join_text(output.get("text", data.get("text/plain", "")))


def list_exercises(markdown: Iterable[str]) -> Iterator[tuple[str, str]]:
    """List number and kind of the exercises in the section of that name: 6, proof."""
    inside = False
    for source in markdown:
        for line in source.splitlines():
            if line.startswith("## "):
                inside = line.strip("# ").casefold().startswith("exercises")
            elif inside and (match := EXERCISE.match(line)):
                yield match[1], match[2]


def find_questions(markdown: Iterable[str]) -> tuple[str, ...]:
    """Find the questions of a chapter: those at the end of its **Question** paragraph.

    Where it ends on something else, the last question in it.
    """
    for source in markdown:
        _, mark, asked = source.partition("**Question.**")
        if not mark:
            continue
        asked = asked.partition("<details>")[0]  # the answer, folded, may follow
        asked = strip_citations(MATH_BLOCK.sub("", asked)).replace("**", "")
        sentences = SENTENCE.split(" ".join(asked.split()))
        while sentences and not is_question(sentences[-1]):
            sentences.pop()
        found: list[str] = []
        while sentences and is_question(sentences[-1]):
            found.insert(0, sentences.pop())
        return tuple(found)
    return ()


def is_question(sentence: str) -> bool:
    """Return whether a sentence is a question, ignoring closing quotes and asterisks."""
    return sentence.rstrip('*”") ').endswith("?")


def count_prose_words(markdown: str) -> int:
    """Count the words that contain a letter, outside code blocks and math."""
    plain = re.sub(r"<[^>\n]*>", " ", MATH.sub(" x ", FENCED.sub("", markdown)))
    return sum(bool(re.search(r"[^\W\d_]", word)) for word in plain.split())
