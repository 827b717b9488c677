"""Serve the built site on this machine only and open it in Chromium."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from press.book.chapters import NUMBER
from press.site.pdf import FLAGS, serve_folder

# Another folder with build/site in it, to try these tests on a book that is not this one.
ROOT = Path(os.environ.get("LABKIT_SITE_ROOT", Path(__file__).parents[2]))

# The theme writes the tabindex of each wide block anew whenever a page grows.
WATCH = """window.changed = 0;
new MutationObserver(found => {
    window.changed += found.filter(one => one.attributeName !== "tabindex").length;
}).observe(document, {
    attributes: true, characterData: true, childList: true, subtree: true,
});"""


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def site(root: Path) -> Path:
    folder = root / "build" / "site"
    if not (folder / "index.html").is_file():
        pytest.fail(f"these tests look at {folder}, which is missing: run `make book` first")
    return folder


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    with serve_folder(site) as address:
        yield address


# Of a module, for a process drives one browser at a time, and the paper's printing starts its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("these tests need the program chromium: run .ci/run, or install it (apt)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, base: str) -> Iterator[Page]:
    """Open a tab in which any error, or any request that leaves the machine, fails the test."""
    context = browser.new_context(base_url=base, color_scheme="light")
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    # A page that is left takes its unfinished requests back: that is no failure.
    page.on(
        "requestfailed",
        lambda r: None if r.failure == "net::ERR_ABORTED" else wrong.append(f"failed: {r.url}"),
    )
    page.on("response", lambda r: wrong.append(f"{r.status}: {r.url}") if r.status >= 400 else None)

    def leaves(request) -> None:
        if not request.url.startswith((base, "data:", "blob:")):
            wrong.append(f"leaves the machine: {request.url}")

    page.on("request", leaves)
    yield page
    context.close()
    assert wrong == []


@pytest.fixture
def count_work(page: Page) -> Callable[[], tuple[int, int]]:
    """Return a function that counts the page's layouts and changed nodes since its last call.

    It waits until the page has laid out nothing for 300 ms, so that what a click starts is counted
    with that click. Counts are the same on a busy machine, where milliseconds are not.
    """
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.add_init_script(WATCH)
    last = 0

    def look() -> int:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return int(next(one["value"] for one in metrics if one["name"] == "LayoutCount"))

    def count() -> tuple[int, int]:
        nonlocal last
        before, seen, still = last, look(), 0
        while still < 3:
            page.wait_for_timeout(100)
            last = look()
            still, seen = still + 1 if last == seen else 0, last
        changed = page.evaluate("() => { const n = window.changed; window.changed = 0; return n; }")
        return last - before, changed

    return count


@pytest.fixture(scope="session")
def pages(site: Path) -> list[str]:
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [name for name in names if not name.startswith("_static/")]  # a theme's template


@pytest.fixture(scope="session")
def chapters(pages: list[str]) -> list[str]:
    names = [name for name in pages if re.match(rf"{NUMBER}_", name)]
    assert names
    return names


@pytest.fixture
def tab(browser: Browser, base: str) -> Iterator[Any]:
    """Open readers' browsers, each with separate storage."""
    contexts: list[BrowserContext] = []

    def open_tab(**options: Any) -> Page:
        contexts.append(browser.new_context(base_url=base, **options))
        return contexts[-1].new_page()

    yield open_tab
    for context in contexts:
        context.close()
