"""Print the whole site as one PDF, in Chromium.

The pages of the site are joined in the browser (chapters/_static/print.js), and the document is
printed twice: the first PDF says on which page each heading stands, the second
has those numbers in its table of contents.
"""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from pypdf import PdfReader

from labkit.system.files import write_whole
from press.book.files import Red
from press.site.sphinx import build_site
from press.site.sphinx_sources import chapter_names

BEFORE = ("index", "paths", "claims", "course")
AFTER = ("scoreboard", "tables", "glossary", "errata", "references")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
SCALE = 0.8  # 16 CSS pixels become 9.6 points
WIDTH = round((210 - 2 * 17) / 25.4 * 96 / SCALE)  # of A4 between the margins of print.css
MINUTES = 20  # a busy machine needs them
SHELL = """<!doctype html>
<html lang="en" data-theme="light" data-mode="light">
<head>
<meta charset="utf-8">
<title>Normalization in Transformers: a Lab Book</title>
<script src="../site/_static/print.js"></script>
<link rel="stylesheet" id="print-style" href="../site/_static/print.css">
</head>
<body>
<div class="front">
<div class="title"><h1>Normalization in Transformers: a Lab Book</h1>
<p>Every transformer normalizes its activations, and papers disagree about how, where and why. This
book tests their claims by experiment.</p>
<p class="made">{made}<br>Text and figures: CC BY 4.0. Code: MIT licence.</p></div>
<div id="contents-page" class="bd-article"><h1>Contents</h1><div id="contents"></div></div>
</div>
<div id="book"></div>
</body>
</html>
"""


def build_pdf(root: Path, size: str = "book") -> Path:
    """Build build/book.pdf from the site, which is built first if it changed."""
    site = build_site(root, size)
    pages = list_pages(root, site)
    write_shell(root, size)
    path = root / "build" / "book.pdf"
    print(f"pdf: {len(pages)} pages of the site; printing takes minutes", flush=True)
    with laid_out(root / "build", pages) as page:
        content = print_page(page)
    write_whole(path, content)
    print(f"pdf: {len(PdfReader(path).pages)} pages, {len(content) / 1e6:.1f} MB")
    return path


def write_shell(root: Path, size: str) -> None:
    """Write the empty document into which the pages are inserted."""
    shell = root / "build" / "print" / "index.html"
    shell.parent.mkdir(parents=True, exist_ok=True)
    shell.write_text(SHELL.format(made=f"Executed with size {size}."), encoding="utf-8")


def list_pages(root: Path, site: Path) -> list[dict[str, Any]]:
    """List the pages of the site in printing order."""
    chapters = chapter_names(root)
    names = [*BEFORE, *chapters, *AFTER]
    return [
        {
            "name": name,
            "label": "Preface" if name == "index" else "",
            "chapter": name in chapters,
        }
        for name in names
        if (site / f"{name}.html").is_file()
    ]


def print_page(page: Any) -> bytes:
    """Print a tab; its table of contents has the page numbers of this PDF."""
    content, numbers = b"", {}
    for _ in range(3):  # numbers of other widths may move a line of the contents
        content = page.pdf(prefer_css_page_size=True, scale=SCALE, outline=True, tagged=True)
        found = page_numbers(content)
        if found == numbers:
            break
        page.evaluate("pageOf => number(pageOf)", found)
        numbers = found
    return content


@contextmanager
def laid_out(folder: Path, pages: list[dict[str, Any]]) -> Iterator[Any]:
    """Open a tab with all pages joined, as wide as the paper."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Red(
            "printing needs the package playwright, which is not installed; run `make setup`"
        ) from error
    chromium = shutil.which("chromium")
    if chromium is None:
        raise Red(
            "printing needs the program chromium, which was not found; install it (apt), or run "
            ".ci/run"
        )
    with serve_folder(folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1200})
        page.set_default_timeout(MINUTES * 60_000)
        page.emulate_media(media="print", color_scheme="light")
        page.goto(f"{address}print/index.html")
        seen = page.evaluate("pages => assemble(pages)", pages)
        if seen["broken"] or seen["sections"] != len(pages):
            raise Red(
                f"the printed book must contain all {len(pages)} pages and their pictures, but "
                f"the browser reports {json.dumps(seen)}"
            )
        yield page
        browser.close()


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder to this machine only."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A handler that logs no requests."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def page_numbers(content: bytes) -> dict[str, int]:
    """Return the page of each link target, counted from 1."""
    reader = PdfReader(BytesIO(content))
    targets = reader.named_destinations.items()
    pages = {name: reader.get_destination_page_number(target) for name, target in targets}
    return {name.removeprefix("/"): page + 1 for name, page in pages.items() if page is not None}
