"""Link glossary words at their first use on a page, which then shows their meaning on the spot.

A term is linked once a page, in running text that is open to see, and not in the chapter that
explains it. Words that mean something else as often (a size, a head, a weak result) are left alone.
"""

import html
import re
from collections.abc import Iterable
from pathlib import Path

from press.book.facts import Json
from press.book.files import read_rows
from press.site.links import KEEP, place_of
from press.site.outline import Outline

# Each has a sense of everyday English or of mathematics in which the book uses it, too.
EVERYDAY = {"channel", "claim", "divergence", "fold", "head", "interval", "ladder", "leak",
            "norm", "seed", "shift", "size", "skip", "weak"}  # fmt: skip
# Beside what links leave alone: what no reader sees as text, what is a link, and what is folded.
APART = r"<(?P<tag>script|style|svg|a|details|summary|code)\b.*?</(?P=tag)>"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def link_terms(notebook: Json, chapter: Outline, root: Path) -> None:
    """Link each term of data/glossary.csv at its first use on a chapter's page."""
    waiting = {
        row["term"]: row["meaning"]
        for row in read_rows(root, "glossary.csv")
        if row["term"] not in EVERYDAY and place_of(row["where"]).number != chapter.number
    }
    find = compile_terms(waiting)

    def link_match(match: re.Match[str]) -> str:
        said = match["term"]
        term = said and _name_term(said, waiting)
        if not said or term is None:
            return match.group()
        meaning = html.escape(describe_plainly(waiting.pop(term)))
        address = "glossary.html#term-" + re.sub(r"[^A-Za-z0-9]+", "-", term)
        return f'<a class="labkit-term" href="{address}" data-meaning="{meaning}">{said}</a>'

    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = find.sub(link_match, cell["source"])


def compile_terms(terms: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern that finds terms as whole words, longest first, singular or plural."""
    # A name keeps its capitals; a common word may begin a sentence.
    names = sorted(terms, key=len, reverse=True)
    either = "|".join(
        f"[{name[0]}{name[0].upper()}]{re.escape(name[1:])}" if name.islower() else re.escape(name)
        for name in names
    )
    words = rf"(?<![\w\-/.])(?P<term>(?:{either})s?)(?![\w\-])" if names else r"(?P<term>(?!))"
    return re.compile(rf"(?:{APART})|(?:{KEEP})|`[^`\n]+`|{words}", re.X | re.S | re.M)


def describe_plainly(meaning: str) -> str:
    """Return a definition without its Markdown markup."""
    return re.sub(r"[*`]", "", LINK.sub(r"\1", meaning))


def _name_term(said: str, waiting: Iterable[str]) -> str | None:
    """Return the term for these words, if its first use is still to come."""
    low = said[0].lower() + said[1:]
    forms = (said, low, said.removesuffix("s"), low.removesuffix("s"))
    return next((form for form in forms if form in waiting), None)
