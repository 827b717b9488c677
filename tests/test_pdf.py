"""Reading a PDF's page numbers, and refusing to print half a book, without a browser."""

import shutil
from io import BytesIO

import pytest
from pypdf import PdfWriter

from press.book.files import Red
from press.site import pdf


def test_link_targets_have_page_numbers():
    paper = PdfWriter()
    for _ in range(3):
        paper.add_blank_page(100, 100)
    paper.add_named_destination("01_toy", 0)
    paper.add_named_destination("01_toy--a b", 2)
    content = BytesIO()
    paper.write(content)
    assert pdf.page_numbers(content.getvalue()) == {"01_toy": 1, "01_toy--a b": 3}


def test_pages_of_the_site_that_are_not_there_are_left_out(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "01_toy.py").touch()
    site = tmp_path / "build" / "site"
    site.mkdir(parents=True)
    for name in ("index", "01_toy", "references", "genindex"):
        (site / f"{name}.html").touch()
    found = pdf.list_pages(tmp_path, site)
    assert [page["name"] for page in found] == ["index", "01_toy", "references"]
    assert [page["chapter"] for page in found] == [False, True, False]


def test_printing_without_a_browser_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Red, match="needs the program chromium"), pdf.laid_out(tmp_path, []):
        pass
