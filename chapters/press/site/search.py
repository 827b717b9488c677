"""Search results besides pages: sections by their headings, claims by their questions.

Sphinx looks through the objects of every domain, such as functions. Here a section and a claim are
objects, too: they are found by words of their own and of the title of their page.
"""

import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.domains import Domain, ObjType

from press.site.sphinx_sources import CLAIMS

IMPORTANT, USUAL = 0, 1


class Places(Domain):
    """Sections and claims, as objects for Sphinx's search."""

    name = "book"
    label = "the book's sections and claims"
    object_types: ClassVar[dict[str, ObjType]] = {
        "section": ObjType("section"),
        "claim": ObjType("claim"),
    }

    def get_type_name(self, type: ObjType, primary: bool = False) -> str:
        """Return "section" for a section."""
        return type.lname

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        """List the searchable objects: name, shown name, kind, page, anchor, priority."""
        for page, toc in self.env.tocs.items():
            if page.startswith("api/"):
                continue
            for link in toc.findall(nodes.reference):
                if anchor := str(link["anchorname"]).removeprefix("#"):
                    shown = link.astext().replace("'", "’")  # Sphinx escapes the plain one
                    yield shown, shown, "section", page, anchor, IMPORTANT
        asked = json.loads((Path(self.env.srcdir) / CLAIMS).read_text(encoding="utf-8"))
        for page, claims in asked.items():
            for anchor, said in claims.items():
                shown = said.removesuffix(".").replace("'", "’")
                yield shown, shown, "claim", page, anchor, USUAL

    def merge_domaindata(self, docnames: Set[str], otherdata: dict[str, Any]) -> None:
        """Merge nothing from other processes: all data come from the pages."""
