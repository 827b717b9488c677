"""Search results besides pages: sections, claims, sentences, and rows of tables.

Sphinx looks through the objects of every domain, such as functions. Here a section, a claim and a
sentence are objects, too: they are found by words of their own and of the title of their page.
A sentence that is found is the line of context of its hit.
"""

import json
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType

from press.site.sphinx_sources import CLAIMS

IMPORTANT, USUAL = 0, 1
# Sphinx escapes these twice.
PLAIN = str.maketrans({"'": "’", '"': "”", "&": "+", "<": "＜", ">": "＞"})
SENTENCE = re.compile(r"(?<=[.?!:])\s+(?=[^\s\d(…])")
SHORTEST, LONGEST = 4, 80  # words of a sentence, or of a row of a table, that can be read


class Places(Domain):
    """Sections, claims and sentences, as objects for Sphinx's search."""

    name = "book"
    label = "the book's sections, claims and sentences"
    object_types: ClassVar[dict[str, ObjType]] = {
        kind: ObjType(kind) for kind in ("section", "claim", "text")
    }
    initial_data: ClassVar[dict[str, Any]] = {"sentences": {}}

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
                    shown = link.astext().translate(PLAIN)
                    yield shown, shown, "section", page, anchor, IMPORTANT
        asked = json.loads((Path(self.env.srcdir) / CLAIMS).read_text(encoding="utf-8"))
        for page, claims in asked.items():
            for anchor, said in claims.items():
                shown = said.removesuffix(".").translate(PLAIN)
                yield shown, shown, "claim", page, anchor, USUAL
        for page, sentences in self.data["sentences"].items():
            for anchor, shown in sentences:
                yield shown, shown, "text", page, anchor, USUAL

    def clear_doc(self, docname: str) -> None:
        """Forget the sentences of a page that is read again."""
        self.data["sentences"].pop(docname, None)

    def merge_domaindata(self, docnames: Set[str], otherdata: dict[str, Any]) -> None:
        """Take over the sentences of pages that another process read."""
        self.data["sentences"] |= {name: otherdata["sentences"][name] for name in docnames}


def list_sentences(app: Sphinx, doctree: nodes.document) -> None:
    """Note the sentences and table rows of a page for the search, with the anchors of sections."""
    found = app.env.domains["book"].data["sentences"].setdefault(app.env.docname, [])
    for block in [*doctree.findall(nodes.paragraph), *doctree.findall(nodes.row)]:
        above = list(list_ancestors(block))
        section = next((node for node in above if isinstance(node, nodes.section)), None)
        in_row = any(isinstance(node, nodes.row) for node in above)
        if section is None or in_row or app.env.docname.startswith("api/"):
            continue
        shown = block.deepcopy()
        for other in [*shown.findall(nodes.math), *shown.findall(nodes.raw)]:
            other.replace_self(nodes.Text("…" if isinstance(other, nodes.math) else ""))
        if isinstance(shown, nodes.row):
            said = [" · ".join(cell.astext() for cell in shown.children)]
        else:
            said = SENTENCE.split(" ".join(shown.astext().split()))
        for sentence in said:
            if SHORTEST <= len(sentence.split()) <= LONGEST:
                plain = " ".join(sentence.split()).removesuffix(".").translate(PLAIN)
                found.append((section["ids"][0], plain))


def list_ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    """List the nodes around a node, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node
