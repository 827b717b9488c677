"""Citations: Markdown links that every notebook viewer can follow, checked with references.bib.

In a sentence   [Ba et al. (2016)](https://arxiv.org/abs/1607.06450)
Behind it       ([Ba et al., 2016](https://arxiv.org/abs/1607.06450); …)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pybtex.database import parse_string

LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<url>https?://[^()\s]+)\)")
BEHIND = re.compile(r"\s*\((?:\[[^\[\]]+\]\(https?://[^()\s]+\)(?:; )?)+\)")


@dataclass(frozen=True)
class Work:
    """One entry of the bibliography, as citations refer to it."""

    key: str
    authors: str  # Ba et al.
    year: str
    title: str
    url: str

    def is_named(self, text: str) -> bool:
        """Return whether a link's text cites this work: by authors and year, in either form."""
        return text in (f"{self.authors} ({self.year})", f"{self.authors}, {self.year}")

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}). {self.title}"


def read_works(folder: Path) -> dict[str, Work]:
    """Read references.bib in that folder: each work under its key."""
    text = (folder / "references.bib").read_text(encoding="utf-8")
    entries = parse_string(text, "bibtex").entries
    return {key: _read_work(key, entry) for key, entry in entries.items()}


def _read_work(key: str, entry: Any) -> Work:  # pybtex has no types
    fields = {name: re.sub(r"[{}]", "", value) for name, value in entry.fields.items()}
    names = [" ".join(p.prelast_names + p.last_names) for p in entry.persons["author"]]
    names = [re.sub(r"[{}]", "", name) for name in names]
    authors = f"{names[0]} et al." if len(names) > 2 or "others" in names else " and ".join(names)
    url = fields.get("url") or f"https://arxiv.org/abs/{fields['eprint']}"
    return Work(key, authors, fields["year"], fields["title"], url)


def find_links(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text and address of each link to the web."""
    yield from ((match["text"], match["url"]) for match in LINK.finditer(text))


def strip_citations(text: str) -> str:
    """Remove the citations after a sentence; of those within it, keep the words."""
    return LINK.sub(r"\g<text>", BEHIND.sub("", text))
