"""Rules for everything around the chapters: links, pages, words, symbols, errata, bibliography."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.experiments.locks import WORDINGS, read_wordings
from press.book.chapters import NUMBER, is_letter
from press.book.citations import find_links, read_works
from press.book.files import read_rows
from press.site import guide, links
from press.site.coverage import find_uncovered
from press.site.links import Place, build_slug, describe_missing, place_of
from press.site.outline import MATH, Book

# What ends the text of a citation.
YEAR = re.compile(r"(, (?:\d{4}[a-z]?|n\.d\.)| \((?:\d{4}[a-z]?|n\.d\.)\))$")
LINKED = re.compile(rf"\]\(({NUMBER}_\w+)\.ipynb(?:#([^)]*))?\)")
TIES = 2  # other chapters that a chapter is tied to, at least


@dataclass(frozen=True)
class Around:
    """A book's folder, and the outlines of its chapters."""

    root: Path
    book: Book

    def typed(self, name: str) -> str:
        """Read a handwritten page."""
        return (self.root / "chapters" / name).read_text(encoding="utf-8")

    def wrong(self, where: str, places: Iterable[Place]) -> Iterator[str]:
        """Return which places do not exist."""
        found = (describe_missing(place, self.book) for place in places)
        yield from (f"{where}: there is {said}" for said in found if said)


def follow_references(around: Around) -> Iterator[str]:
    """Check that all places that a chapter refers to exist, and that links between them work."""
    names = {one.name: one for one in around.book.values()}
    for one in around.book.values():
        places = [p for p in links.find_places(one.prose) if p.kind or p.number in around.book]
        yield from around.wrong(one.name, places)
        for name, anchor in re.findall(LINKED, one.prose):
            if name not in names:
                yield f"{one.name}: links to {name}, which is not a chapter"
            elif anchor and anchor not in {build_slug(heading) for heading in names[name].headings}:
                yield f"{one.name}: links to {name}#{anchor}, which is not a heading there"


def follow_threads(around: Around) -> Iterator[str]:
    """Check that threads lead forward between existing places; each chapter needs two others."""
    tied: dict[str, set[str]] = {number: set() for number in around.book}
    for row in read_rows(around.root, "crossrefs.csv"):
        a, b = place_of(row["at"]), place_of(row["to"])
        yield from around.wrong("data/crossrefs.csv", [a, b])
        if a.number >= b.number or not row["thread"]:
            yield f"data/crossrefs.csv: {row['at']} to {row['to']} leads backwards or has no thread"
        tied.setdefault(a.number, set()).add(b.number)
        tied.setdefault(b.number, set()).add(a.number)
    for number, others in tied.items():
        if len(others) < TIES and not is_letter(number):
            yield f"data/crossrefs.csv: ties {number} to {len(others)} others; {TIES} at least"


def fill_pages(around: Around) -> Iterator[str]:
    """Check that handwritten pages refer to existing places, are complete and are listed."""
    listed = set(re.findall(r"(?m)^([a-z]+)$", around.typed("index.md")))
    for name in guide.GUIDE:
        typed = around.typed(name)
        yield from around.wrong(name, links.find_places(typed))
        shown = guide.fill_page(typed, around.root, around.book)
        if left := guide.MARK.search(shown) or re.search(r"\[\[.*", shown):
            yield f"{name}: {left.group()} is not filled in"
        if name != "index.md" and Path(name).stem not in listed:
            yield f"index.md: must list {Path(name).stem}, but does not"


def count_lessons(around: Around) -> Iterator[str]:
    """Check that each chapter belongs to exactly one of the course's ten lessons."""
    typed = around.typed("course.md")
    lessons = re.findall(r"(?m)^## Lesson (\d+)\.", typed)
    if lessons != [str(n) for n in range(1, 11)]:
        yield f"course.md: has the lessons {', '.join(lessons)}; they must be 1 to 10, in order"
    used = [n for match in guide.MARK.finditer(typed) for n in match[2].split()]
    if used != sorted(number for number in around.book if not is_letter(number)):
        yield f"course.md: its lessons use the chapters {', '.join(used)}; use each once, in order"


def look_up_words(around: Around) -> Iterator[str]:
    """Check that terms are sorted, explained once, and used in the places they refer to."""
    rows = read_rows(around.root, "glossary.csv")
    terms = [row["term"].casefold() for row in rows]
    if terms != sorted(set(terms)):
        yield "data/glossary.csv: terms must be sorted, and each listed once"
    for row in rows:
        where = f"data/glossary.csv, {row['term']}"
        place = place_of(row["where"])
        yield from around.wrong(where, [place])
        if not row["meaning"].endswith((".", ").")):
            yield f"{where}: its meaning must end in a full stop"
        said = (row["said"] or row["term"]).casefold()
        chapter = around.book.get(place.number)
        if chapter and said not in chapter.prose.casefold():
            yield f"{where}: {row['where']} does not say {said!r}"


def look_up_symbols(around: Around) -> Iterator[str]:
    """Check that symbols are used in the places they are listed for."""
    rows = read_rows(around.root, "notation.csv")
    if len({row["symbol"] for row in rows}) != len(rows):
        yield "data/notation.csv: a symbol is listed twice"
    for row in rows:
        symbol, numbers = row["symbol"], row["where"].split()
        if not numbers:
            yield f"data/notation.csv, {symbol}: no chapter uses it"
        before = "" if symbol.startswith("\\") else r"(?<![A-Za-z\\])"
        for number in filter(around.book.get, numbers):
            math = " ".join(MATH.findall(around.book[number].prose))
            if not re.search(before + re.escape(symbol) + "(?![A-Za-z])", math):
                yield f"data/notation.csv, {symbol}: chapter {number} does not use it"


def look_up_errata(around: Around) -> Iterator[str]:
    """Check that every erratum names a source; a section that it names must contain its words."""
    works = read_works(around.root / "chapters")
    for row in read_rows(around.root, "errata.csv"):
        where = f"data/errata.csv, {row['source']}"
        if not all(row[name] for name in ("source", "at", "says", "right")):
            yield f"{where}: source, at, says and right must not be empty, but one is"
        source = row["source"]
        if not (source in works or " " in source or source.startswith("[")):
            yield f"{where}: is not a key of references.bib"
        places = [place_of(place) for place in row["where"].split(";") if place]
        yield from around.wrong(where, places)
        sections = [place for place in places if place.kind == "heading"]
        if bool(row["words"]) != bool(sections):
            yield f"{where}, {row['at']}: give words if, and only if, where names a section"
        for place in sections:
            chapter = around.book.get(place.number)
            if chapter and row["words"] not in chapter.sections.get(place.what, ""):
                yield f"{where}, {row['at']}: {place.what!r} does not say {row['words']!r}"


def cover_the_sources(around: Around) -> Iterator[str]:
    """Check that everything that the sources describe has claims, or a reason for having none."""
    yield from (f"data/coverage.csv: {fault}" for fault in find_uncovered(around.root, around.book))


def hold_the_bibliography(around: Around) -> Iterator[str]:
    """Check that entries and citations correspond, and that entries are sorted and unique."""
    works = read_works(around.root / "chapters")
    by_url = {work.url: work for work in works.values()}
    cited = {row["source"] for row in read_rows(around.root, "errata.csv")}
    chapters, data = around.root / "chapters", around.root / "data"
    for path in sorted([*chapters.glob("*.py"), *chapters.glob("*.md"), *data.glob("*.csv")]):
        for text, url in find_links(path.read_text(encoding="utf-8")):
            if url in by_url:
                cited.add(by_url[url].key)
            if YEAR.search(text) and not (url in by_url and by_url[url].is_named(text)):
                yield f"{path.name}: references.bib has no work [{text}]({url})"
    yield from (f"references.bib: nothing cites {key}" for key in sorted({*works} - cited))
    keys = re.findall(r"(?m)^@\w+\{([^,\s]+),", around.typed("references.bib"))
    if keys != sorted(set(keys)):
        yield "references.bib: entries must be sorted, and each given once"


def match_the_locks(around: Around) -> Iterator[str]:
    """Check that each clearer sentence belongs to the lock of a claim."""
    claims = [claim for one in around.book.values() for claim in one.claims.values()]
    sums = {claim["lock"]["sum"] for claim in claims if claim.get("lock")}
    for sum in sorted({*read_wordings(around.root)} - sums):
        yield (
            f"data/locks/{WORDINGS}: a clearer sentence needs the checksum of a claim's lock, but "
            f"no claim has {sum!r}; correct it, or remove the row"
        )


PAGES: tuple[Callable[[Around], Iterator[str]], ...] = (
    follow_references,
    follow_threads,
    fill_pages,
    count_lessons,
    look_up_words,
    look_up_symbols,
    look_up_errata,
    cover_the_sources,
    hold_the_bibliography,
    match_the_locks,
)
