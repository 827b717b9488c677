"""What the sources of the book say, and where it is treated: data/coverage, checked and shown.

data/coverage/sources.csv    source,title,lines,blank: how long each source is, its blank lines
data/coverage/NN.csv         source,lines,topic,where: what chapter NN treats; where is
                             claim:<id>, heading:<text> or exercise:<number> of that chapter
data/coverage/elsewhere.csv  the rest: chapter:<number> of a chapter to come, or none:<why>
"""

import csv
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.book import chapters
from labkit.book.cells import exercise_numbers
from labkit.book.chapters import Chapter
from labkit.book.facts import escape_markdown
from labkit.book.files import Red, read_json
from labkit.book.ledger import collect

HEADER = ["source", "lines", "topic", "where"]
KINDS = {"claim": "chapter", "heading": "chapter", "exercise": "chapter"}
ELSEWHERE = {"chapter": "a later chapter's number", "none": "why"}
TITLE = "What the sources say, and where it is treated"


@dataclass(frozen=True)
class Row:
    """One topic of a source: its lines, and where the book treats it."""

    file: str  # 03.csv
    number: int  # of the line in that file
    source: str
    lines: tuple[range, ...]
    topic: str
    kind: str
    where: str

    @property
    def place(self) -> str:
        """Say where the row stands, for an error."""
        return f"data/coverage/{self.file}:{self.number}"


@dataclass(frozen=True)
class Source:
    """One text that the book must cover: how many lines, and which of them are not blank."""

    name: str
    title: str
    total: int
    said: frozenset[int]


def folder(root: Path) -> Path:
    """Say where the tables lie."""
    return root / "data" / "coverage"


def spans(text: str) -> tuple[range, ...]:
    """Read "3 5-7" (or "3, 5-7") as ranges of lines."""
    found = []
    for part in re.split(r"[ ,;]+", text.strip()):
        match = re.fullmatch(r"(\d+)(?:[-–](\d+))?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f'lines are written as "120-133" or "7 9-12", got {text!r}')
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(found)


def sources(root: Path) -> dict[str, Source]:
    """Read how long the sources are; none where the book has no such table."""
    path = folder(root) / "sources.csv"
    if not path.is_file():
        return {}
    found = {}
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        total = int(row["lines"])
        blank = {n for span in (spans(row["blank"]) if row["blank"] else ()) for n in span}
        said = frozenset(range(1, total + 1)) - blank
        found[row["source"]] = Source(row["source"], row["title"], total, said)
    return found


def rows(root: Path) -> list[Row]:
    """Read every table, in the order of the files."""
    found = []
    known = sources(root)
    for path in sorted(folder(root).glob("*.csv")):
        if path.name == "sources.csv":
            continue
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        if not lines or lines[0] != HEADER:
            raise Red(f"{path.name} must begin with {','.join(HEADER)}, got {lines[:1]}")
        kinds = ELSEWHERE if path.stem == "elsewhere" else KINDS
        for number, cells in enumerate(lines[1:], start=2):
            place = f"data/coverage/{path.name}:{number}"
            if len(cells) != 4 or not all(cell.strip() for cell in cells):
                raise Red(f"{place} must have four cells (quote a topic with commas), got {cells}")
            kind, _, where = cells[3].partition(":")
            if kind not in kinds or not where.strip():
                raise Red(
                    f"{place}: where is one of {', '.join(kinds)}, then `:`; got {cells[3]!r}"
                )
            if cells[0] not in known:
                raise Red(f"{place}: a source is one of {', '.join(known)}; got {cells[0]!r}")
            try:
                at = spans(cells[1])
            except ValueError as error:
                raise Red(f"{place}: {error}") from error
            if max(span.stop for span in at) - 1 > known[cells[0]].total or at[0].start < 1:
                raise Red(f"{place}: source {cells[0]} has lines 1-{known[cells[0]].total}")
            found.append(Row(path.name, number, cells[0], at, cells[2], kind, where.strip()))
    return found


def unaccounted(root: Path) -> dict[str, list[int]]:
    """List, by source, the lines that no row names."""
    given: dict[str, set[int]] = {}
    for row in rows(root):
        given.setdefault(row.source, set()).update(n for span in row.lines for n in span)
    return {
        name: sorted(source.said - given.get(name, set())) for name, source in sources(root).items()
    }


def headings(chapter: Chapter) -> list[str]:
    """List a chapter's headings, without their marks."""
    texts = (cell.source for cell in chapters.read(chapter).cells if cell.cell_type == "markdown")
    found = []
    for text in texts:
        text = re.sub(r"(?ms)^```.*?^```", "", text)
        found += [match.strip() for match in re.findall(r"(?m)^#{1,6} +(.+?) *$", text)]
    return found


def dangling(root: Path, chapter: Chapter, own: Iterable[Row]) -> list[str]:
    """List the rows of a chapter that point at nothing, or at a claim that was never executed."""
    twin = chapter.twin
    cells = read_json(twin, "run `make book`") if twin.is_file() else {"cells": []}
    executed = {card["id"] for card in collect(cells, chapter.name)}
    there = {
        "claim": executed,
        "heading": set(headings(chapter)),
        "exercise": set(exercise_numbers(chapter)),
    }
    wrong = []
    for row in own:
        if row.where not in there[row.kind]:
            what = f"no {row.kind} {row.where!r} in {chapter.name}"
            wrong.append(f"{row.place}: {what}{' as executed' if row.kind == 'claim' else ''}")
    return wrong


# -- the page ---------------------------------------------------------------------------------
def page(root: Path, titles: Mapping[str, str]) -> str:
    """Write the site's page: a table for each source."""
    known, every = sources(root), rows(root) if folder(root).is_dir() else []
    parts = [
        f"# {TITLE}",
        "The book began with texts on normalization. These tables go through them line by line: "
        "each topic, and the claim, section or exercise that treats it, in other words and with "
        "runs of our own. What is left to a later chapter, or to nobody, says so.",
    ]
    if not every:
        return "\n\n".join([*parts, "No table yet."]) + "\n"
    for name, source in known.items():
        own = sorted(
            (r for r in every if r.source == name), key=lambda r: (r.lines[0].start, r.place)
        )
        table = [
            "| lines | topic | treated |",
            "| --- | --- | --- |",
            *(f"| {_lines(row.lines)} | {_cell(row.topic)} | {link(row, titles)} |" for row in own),
        ]
        parts += [f"## {source.title}", "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def link(row: Row, titles: Mapping[str, str]) -> str:
    """Lead to where a topic is treated, as far as that page exists."""
    if row.kind == "none":
        return f"not treated: {_cell(row.where)}"
    number = row.where if row.kind == "chapter" else row.file[:2]
    name = next((name for name in titles if name.startswith(f"{number}_")), None)
    if row.kind == "chapter":
        return f"[{_cell(titles[name])}]({name}.ipynb)" if name else f"chapter {number}, to come"
    shown = {"claim": "claim ", "exercise": "exercise ", "heading": ""}[row.kind] + row.where
    if name is None:
        return f"chapter {number}: {_cell(shown)}"
    if row.kind == "claim":  # the anchor is made by the claim's card, which Sphinx does not know
        anchor = html.escape(f"{name}.html#claim-{row.where}", quote=True)
        return f'<a href="{anchor}">{html.escape(row.where)}</a>'
    return f"[{_cell(titles[name])}]({name}.ipynb): {_cell(shown)}"


def _lines(found: Sequence[range]) -> str:
    return ", ".join(
        f"{span.start}" if len(span) == 1 else f"{span.start}–{span.stop - 1}" for span in found
    )


def _cell(text: str) -> str:
    return escape_markdown(" ".join(text.split()))
