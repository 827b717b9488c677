"""The book's glossary, symbols and errata: tables of data/, and their pages.

glossary.csv   term,said,where,meaning: where is the place (links.py) that explains the term, said
               how the text there says it when not by the term itself
notation.csv   group,symbol,meaning,shape,code,where: a symbol as LaTeX, the chapters that use it
errata.csv     source,at,says,right,where: the source's key in references.bib, or its title, or a
               link to code; the place in it; what it says; what is right; and the places of the
               book that show it, with `;` between them
"""

from itertools import groupby
from pathlib import Path

from press.book.citations import Work, read_works
from press.book.facts import format_table
from press.book.files import read_rows
from press.site.links import link_chapter, link_numbered, place_of
from press.site.outline import Book


def format_glossary(root: Path, book: Book) -> str:
    """Format the terms in alphabetical order, each with a link to its definition."""
    terms = sorted(read_rows(root, "glossary.csv"), key=lambda row: row["term"].casefold())
    if not terms:
        return "No term yet."
    entries = [
        f"{row['term']}\n    {row['meaning']} → {link_numbered(place_of(row['where']), book)}"
        for row in terms
    ]
    return "```{glossary}\n" + "\n\n".join(entries) + "\n```"


def format_notation(root: Path, book: Book) -> str:
    """Format the symbols, one table per group."""
    parts = []
    found = read_rows(root, "notation.csv")
    for group, own in groupby(found, key=lambda row: row["group"]):
        rows = []
        for row in own:
            used = ", ".join(link_chapter(number, book) for number in row["where"].split())
            code = ", ".join(f"`{name}`" for name in row["code"].split(";") if name)
            symbol = row["symbol"].replace("|", r"\vert ")
            rows.append((f"${symbol}$", row["meaning"], row["shape"], code, used))
        table = format_table(("symbol", "meaning", "shape", "in code", "chapters"), rows)
        parts.append(f"### {group}\n\n{table}")
    return "\n\n".join(parts) or "No symbol yet."


def format_errata(root: Path, book: Book) -> str:
    """Format one table per source, in the order of the rows."""
    works = read_works(root / "chapters")
    parts = []
    for source, own in groupby(read_rows(root, "errata.csv"), key=lambda row: row["source"]):
        rows = []
        for row in own:
            places = filter(None, row["where"].split(";"))
            shown = "<br>".join(link_numbered(place_of(p), book) for p in places)
            rows.append((row["at"], row["says"], row["right"], shown))
        table = format_table(("where", "what it says", "what is right", "shown in"), rows)
        head = format_heading(works[source]) if source in works else f"## {source}"
        parts.append(f"{head}\n\n{table}")
    return "\n\n".join(parts) or "No mistake yet."


def format_heading(work: Work) -> str:
    """Format a work: authors and year, then its title as a link."""
    return f"## {work.authors} ({work.year})\n\n*[{work.title}]({work.url})*"
