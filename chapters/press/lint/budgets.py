"""Limits on what a page may demand of its reader at once.

A shelf of the cabinet is for looking up, so it may have more figures and open code. The block
explorer counts as no figure: it is one and the same wherever it stands.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from press.book.chapters import is_letter
from press.book.facts import join_text
from press.lint.text import Text
from press.site.figures import is_picture
from press.site.outline import count_prose_words, read_outline

BUDGETS = {
    "words": range(4_601),
    "cards of findings": range(1, 16),
    "figures": range(5, 8),
    "open lines of code": range(151),
    "words before the first figure": range(301),
}
SHELF_BUDGETS = {
    "words": range(4_601),
    "figures": range(3, 10),
    "open lines of code": range(251),
}


def keep_budgets(text: Text) -> Iterator[str]:
    """Check that a chapter or an appendix stays within its limits of length."""
    outline = read_outline(text.name, dict(text.twin))
    counts = {
        "words": outline.words,
        "cards of findings": sum(c["sort"] == "finding" for c in outline.claims.values()),
        "figures": outline.figures - count_explorers(text.twin),
        "open lines of code": outline.lines,
        "words before the first figure": count_words_before_a_figure(text.twin),
    }
    shelf = is_letter(outline.number)
    kind = "an appendix" if shelf else "a chapter"
    for what, allowed in (SHELF_BUDGETS if shelf else BUDGETS).items():
        count, low, high = counts[what], allowed.start, allowed.stop - 1
        if count > high:
            yield f"has {count} {what}, {count - high} more than the {high} of {kind}'s budget"
        elif count < low:
            yield f"has {count} {what}, {low - count} fewer than the {low} that {kind} needs"


def count_explorers(twin: Mapping[str, Any]) -> int:
    """Count the figures that a page turns into block explorers."""
    outputs = (output for cell in twin["cells"] for output in cell.get("outputs", []))
    return sum("explorer" in output.get("metadata", {}).get("labkit", {}) for output in outputs)


def count_words_before_a_figure(twin: Mapping[str, Any]) -> int:
    """Count the words of prose before a chapter's first figure."""
    words = 0
    for cell in twin["cells"]:
        if cell["cell_type"] == "markdown":
            words += count_prose_words(join_text(cell["source"]))
        if any(map(is_picture, cell.get("outputs", []))):
            break
    return words
