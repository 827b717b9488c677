"""Reading a PDF's own numbers, and refusing to print half a book, without a browser."""

import shutil

import pytest

from labkit.book import pdf
from labkit.book.files import Red

PAPER = b"""%PDF-1.4
1 0 obj
<</Type /Catalog /Pages 2 0 R /Dests 7 0 R>>
endobj
2 0 obj
<</Type /Pages /Count 3 /Kids [3 0 R 6 0 R]>>
endobj
3 0 obj
<</Type /Pages /Parent 2 0 R /Count 2 /Kids [5 0 R 4 0 R]>>
endobj
4 0 obj
<</Type /Page /Contents 8 0 R>>
endobj
5 0 obj
<</Type /Page>>
endobj
6 0 obj
<</Type /Page>>
endobj
7 0 obj
<</01_toy [5 0 R /XYZ 0 10 0]
/01_toy--a#20b [6 0 R /XYZ 0 20 0]>>
endobj
8 0 obj
<</Length 3>> stream
abc
endstream
endobj
"""


def test_pages_come_in_the_order_of_the_tree():
    assert pdf.pages_of(PAPER) == [5, 4, 6]


def test_link_targets_have_page_numbers():
    assert pdf.page_numbers(PAPER) == {"01_toy": 1, "01_toy--a b": 3}


def test_pages_of_the_site_that_are_not_there_are_left_out(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "01_toy.py").touch()
    site = tmp_path / "build" / "site"
    site.mkdir(parents=True)
    for name in ("index", "01_toy", "references", "genindex"):
        (site / f"{name}.html").touch()
    found = pdf.order(tmp_path, site)
    assert [page["name"] for page in found] == ["index", "01_toy", "references"]
    assert [page["number"] for page in found] == ["", "01", ""]


def test_printing_without_a_browser_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Red, match="needs the program chromium"), pdf.laid_out(tmp_path, []):
        pass
