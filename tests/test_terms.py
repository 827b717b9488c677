"""A glossary word is a link at its first use, except where a link would disturb."""

from types import SimpleNamespace

import pytest

from press.site.terms import link_terms

ROWS = """term,said,where,meaning
arm,,02#Here,What is compared.
Pre-Norm,,02#Here,The norm reads the branch.
residual stream,,00#Here,"What the blocks add to, as [Vaswani](u) *draws* it."
roofline,,09#Here,A bound.
size,,00#Here,What a run may cost.
"""


@pytest.fixture
def link(tmp_path):
    """Link the terms in the Markdown cells of a chapter's page."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "glossary.csv").write_text(ROWS, encoding="utf-8")

    def link(*sources, chapter="04"):
        cells = [{"cell_type": "markdown", "source": source} for source in sources]
        link_terms({"cells": cells}, SimpleNamespace(number=chapter), tmp_path)
        return [cell["source"] for cell in cells]

    return link


def a(term, said, meaning):
    address = f"glossary.html#term-{term}"
    return f'<a class="labkit-term" href="{address}" data-meaning="{meaning}">{said}</a>'


def test_the_first_use_on_a_page_is_linked_in_one_or_many(link):
    first, second = link("Arms end. An arm ends.", "One more arm; a roofline's roof.")
    assert first == a("arm", "Arms", "What is compared.") + " end. An arm ends."
    assert second == f"One more arm; a {a('roofline', 'roofline', 'A bound.')}'s roof."


def test_a_meaning_is_plain_words_and_an_address_has_no_spaces(link):
    meaning = "What the blocks add to, as Vaswani draws it."
    assert link("the residual stream") == [
        "the " + a("residual-stream", "residual stream", meaning)
    ]


def test_the_chapter_that_explains_a_word_does_not_link_it(link):
    assert link("an arm on a roofline", chapter="02") == [
        f"an arm on a {a('roofline', 'roofline', 'A bound.')}"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# An arm",
        "`arm` and ``an arm``",
        "$arm$ and $$arm$$",
        "[an arm](there.md)",
        '<a href="there">arm</a>',
        "<details><summary>Solution</summary>\n\nAn arm.\n\n</details>",
        '<script type="application/json">{"arm": 1}</script>',
        '<div title="an arm"></div>',
        "```text\nan arm\n```",
        "{ref}`an arm`",
        "a farm, an arm-chair, pre-norm, the sizes, size",
    ],
)
def test_what_is_no_running_text_or_another_word_stays(link, text):
    assert link(text) == [text]
