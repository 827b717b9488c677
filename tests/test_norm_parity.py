"""The table of rounding orders agrees with the pinned transformers, and the page with the table."""

import csv
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tests.norm_parity import FILE, summarize, write_parity


@pytest.mark.slow
def test_every_class_rounds_in_the_order_that_the_table_has():
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != "5.23.0":
        pytest.skip("the table is of 5.23.0")
    assert write_parity(Path(transformers.__file__).parent / "models") == FILE.read_text("utf-8")


def test_the_page_counts_the_orders_that_the_table_has():
    with FILE.open(encoding="utf-8") as file:
        expected = summarize(list(csv.DictReader(file)))
    page = FILE.parents[2] / "chapters" / "package.md"
    assert "\n".join(expected) in page.read_text("utf-8")
