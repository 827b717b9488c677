"""What a chapter may ask of its reader at once: of words there is no limit, of parts there is."""

from collections.abc import Iterator, Mapping
from typing import Any

from press.book.facts import join_text, output_kind
from press.site.outline import count_prose_words, read_outline

BUDGETS = {
    "cards of findings": range(1, 16),
    "figures": range(5, 8),
    "open lines of code": range(151),
    "words before the first figure": range(301),
}


def list_excesses(name: str, twin: Mapping[str, Any]) -> Iterator[str]:
    """Return which budgets a chapter breaks, and by how much."""
    outline = read_outline(name, dict(twin))
    counts = {
        "cards of findings": sum(c["sort"] == "finding" for c in outline.claims.values()),
        "figures": outline.figures,
        "open lines of code": outline.lines,
        "words before the first figure": count_words_before_a_figure(twin),
    }
    for what, count in counts.items():
        low, high = BUDGETS[what].start, BUDGETS[what].stop - 1
        if count > high:
            yield f"has {count} {what}, {count - high} more than the {high} of a chapter's budget"
        elif count < low:
            yield f"has {count} {what}, {low - count} fewer than the {low} that a chapter has"


def count_words_before_a_figure(twin: Mapping[str, Any]) -> int:
    """Count the words of prose before a chapter's first figure."""
    words = 0
    for cell in twin["cells"]:
        if cell["cell_type"] == "markdown":
            words += count_prose_words(join_text(cell["source"]))
        if {output_kind(output) for output in cell.get("outputs", [])} & {"figure", "slider"}:
            break
    return words
