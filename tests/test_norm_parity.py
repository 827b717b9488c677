"""The table of rounding orders agrees with the pinned transformers, and the page with the table."""

import csv

import pytest

pytest.importorskip("triton")

from tests.norm_parity import FILE, summarize, write_parity
from tests.peers import find_pinned_models


@pytest.mark.slow
def test_every_class_rounds_in_the_order_that_the_table_has():
    assert write_parity(find_pinned_models()) == FILE.read_text("utf-8")


def test_the_page_counts_the_orders_that_the_table_has():
    with FILE.open(encoding="utf-8") as file:
        expected = summarize(list(csv.DictReader(file)))
    page = FILE.parents[2] / "chapters" / "package.md"
    assert "\n".join(expected) in page.read_text("utf-8")
