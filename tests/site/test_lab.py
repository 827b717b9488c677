"""Use JupyterLab in Chromium as a reader does: open a chapter's .py, run it all, save it.

Each chapter runs in a copy, so that saving cannot touch the repository; the copy shares the store
of runs, so that nothing trains which the build has trained already.
"""

import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from press.book.chapters import find_chapters
from press.site.predictions import list_questions
from tests import in_jupyterlab
from tests.in_jupyterlab import NOTEBOOK, ended, errors, images

pytestmark = pytest.mark.site

ROOT = Path(__file__).resolve().parents[2]
# `make book` executes them all; these have a slider, the explorer, and neither.
CHAPTERS = [
    chapter.name for chapter in find_chapters(ROOT) if chapter.name[:2] in {"00", "06", "A_"}
]
PATIENCE = 20 * 60  # seconds; with a filled store a chapter needs less than one minute


@dataclass
class Lab:
    """What a test needs of a running JupyterLab."""

    root: Path
    url: str
    token: str
    started: float

    def contents(self, token: str) -> int:
        """Request the list of files and return the HTTP status."""
        try:
            with urlopen(f"{self.url}api/contents?token={token}", timeout=30) as answer:
                return answer.status
        except HTTPError as error:
            error.close()
            return error.code


def copy_of_the_book(root: Path) -> None:
    """Copy the files that a reader opens; link the files that are only read or shared."""
    ignored = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    shutil.copytree(ROOT / "chapters", root / "chapters", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", root)
    (ROOT / ".labkit").mkdir(exist_ok=True)
    for name in (".labkit", "data"):
        (root / name).symlink_to(ROOT / name)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("jupyter")
    root = home / "book"
    root.mkdir()
    copy_of_the_book(root)
    program = str(ROOT / "chapters/press/book/lab.py")
    started = time.monotonic()
    command = [sys.executable, "-I", program, "--root", str(root)]
    with in_jupyterlab.server(command, home) as note:
        yield Lab(root, note["url"], note["token"], started)


@pytest.fixture(scope="module")
def requests() -> list[str]:
    """Collect the addresses of all requests of the page."""
    return []


@pytest.fixture(scope="module")
def page(lab: Lab, browser: Browser, requests: list[str]) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{lab.url}lab?token={lab.token}")
    page.wait_for_selector(".jp-DirListing-item", timeout=60_000)
    yield page
    page.close()


def run_all(page: Page, lab: Lab, name: str) -> tuple[dict, float | None]:
    """Choose Run All Cells; return the finished notebook, and the time of its first figure."""
    twin = lab.root / "chapters" / f"{name}.ipynb"
    in_jupyterlab.wait_for_kernel(page)
    in_jupyterlab.run_all(page)
    first, end = None, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        page.wait_for_timeout(500)
        notebook = in_jupyterlab.saved(page, twin)
        if notebook is None:
            continue
        if first is None and images(notebook):
            first = time.monotonic()
        if ended(page, notebook):
            return notebook, first
    pytest.fail(f"{name} did not finish within {PATIENCE} s")


def show_first(page: Page, what: str, where: str = ".jp-OutputArea-output") -> Locator:
    """Scroll down until it is visible: JupyterLab draws only the cells near the viewport."""
    panel = page.locator(f"{NOTEBOOK} .jp-WindowedPanel-outer")
    panel.evaluate("box => box.scrollTop = 0")
    found = page.locator(f"{NOTEBOOK} {where} {what}").first
    for _ in range(120):
        if found.count():
            found.scroll_into_view_if_needed()
            return found
        panel.evaluate("box => box.scrollBy(0, 700)")
        page.wait_for_timeout(100)
    pytest.fail(f"no {what} in any output of the notebook")


def choose_another_picture(page: Page) -> None:
    """Choose the second value of the chapter's interactive figure; its picture must change."""
    picture = show_first(page, ".vega-embed canvas")
    before = picture.evaluate("canvas => canvas.toDataURL()")
    page.locator(f"{NOTEBOOK} .vega-embed input[type=radio]").nth(1).click()
    page.wait_for_function(
        "([canvas, before]) => canvas.toDataURL() !== before",
        arg=[picture.element_handle(), before],
    )


@pytest.fixture(scope="class")
def untrusted(lab: Lab, browser: Browser) -> Iterator[Page]:
    """Open the first chapter as committed, which is not trusted yet."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    # In a workspace of its own: JupyterLab opens again what the workspace had open.
    workspace = f"{lab.url}lab/workspaces/untrusted"
    page.goto(f"{workspace}/tree/chapters/{CHAPTERS[0]}.ipynb?token={lab.token}")
    page.wait_for_selector(NOTEBOOK, timeout=60_000)
    in_jupyterlab.wait_for_kernel(page)
    page.locator("[title^='Notebook not trusted']").first.wait_for()
    yield page
    page.close()


def run_cell(page: Page, cell: Locator, code: str = "") -> Locator:
    """Type code into a cell, if any, run it by one key, and return its outputs."""
    prompt = cell.locator(".jp-InputPrompt")
    before = prompt.text_content() or ""
    cell.locator(".cm-content").click()
    if code:
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")
    # Its next number: the cell runs in a fresh kernel, or again.
    done = re.compile(rf"^(?!{re.escape(before)}$)\[\d+\]:$")
    expect(prompt).to_have_text(done, timeout=60_000)
    return cell.locator(".jp-OutputArea-output")


def find_cell(page: Page, words: str) -> Locator:
    """Scroll to a code cell that contains these words, and return it."""
    return show_first(page, f".jp-CodeCell:has-text('{words}')", where="")


class TestAFreshClone:
    """Read and use one chapter as committed, on one page, in the order of these tests."""

    def test_a_figure_moves_in_a_notebook_that_nobody_trusts(self, untrusted: Page):
        choose_another_picture(untrusted)

    def test_a_notebook_that_is_only_opened_and_saved_keeps_its_bytes(
        self, untrusted: Page, lab: Lab
    ):
        files = [lab.root / "chapters" / f"{CHAPTERS[0]}{suffix}" for suffix in (".ipynb", ".py")]
        before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
        untrusted.keyboard.press("Control+s")
        for _ in range(100):
            if files[0].stat().st_mtime_ns != before[0][1]:
                break
            untrusted.wait_for_timeout(100)
        else:
            pytest.fail("it was not saved")
        untrusted.wait_for_timeout(1000)  # the text is written after the notebook
        assert [file.read_bytes() for file in files] == [content for content, _ in before]

    def test_a_notebook_asks_and_tells_neither_ours_nor_the_outcome(self, untrusted: Page):
        table = show_first(untrusted, "table:has(details)", where=".jp-MarkdownOutput")
        rows = table.locator("tbody tr").all()
        source = (ROOT / "chapters" / f"{CHAPTERS[0]}.py").read_text(encoding="utf-8")
        asked = list(list_questions(source))
        assert len(rows) == 1 < len(asked)
        assert (seen := table.text_content() or "")
        for row, question in zip(rows, asked[:1], strict=True):
            row.scroll_into_view_if_needed()  # JupyterLab hides what is out of sight
            for choice in question.choices:
                expect(row).to_contain_text(choice)
            assert not any(claim in seen for claim in question.claims)
            ours = row.locator("details")
            assert ours.inner_text().strip() == "show"
            ours.locator("summary").click()
            assert len(ours.inner_text()) > len("show")

    def test_the_short_answer_is_folded(self, untrusted: Page):
        fold = show_first(untrusted, "details:has-text('In short')", where=".jp-MarkdownOutput")
        expect(fold.locator("summary")).to_have_text("In short (contains spoilers)")
        expect(fold.locator("li").first).to_be_hidden()
        fold.locator("summary").click()
        expect(fold.locator("li").first).to_be_visible()

    def test_lines_have_the_length_of_a_book(self, untrusted: Page):
        words = show_first(untrusted, "p:has-text('Question.')", where=".jp-MarkdownOutput")
        size = words.evaluate("p => [p.offsetWidth, parseFloat(getComputedStyle(p).fontSize)]")
        assert size[0] < 50 * size[1]

    def test_a_folded_solution_is_labelled(self, untrusted: Page):
        folded = show_first(untrusted, ".jp-Placeholder-content:has-text('# Solution')", where="")
        expect(folded).to_contain_text("# Solution")

    def test_a_cell_that_runs_alone_says_what_to_run_first(self, untrusted: Page):
        said = run_cell(untrusted, find_cell(untrusted, "lab.train_live("))
        expect(said).to_contain_text(
            "Cells above this one define lab. Choose Run > Run All Above Selected Cell"
        )

    def test_a_stub_says_nothing_and_an_answer_is_checked_by_one_key(self, untrusted: Page):
        stub = find_cell(untrusted, "yours = {")
        assert run_cell(untrusted, stub).count() == 0
        answer = 'from labkit import check\nyours = {"a": 1.64, "b": 7.2}'
        said = run_cell(untrusted, stub, answer)
        expect(said).to_contain_text("✗ answer 2: not yet")
        expect(said).to_contain_text("take logarithms")
        expect(run_cell(untrusted, stub, answer.replace("7.2", "0.7246"))).to_contain_text("✓")


def test_the_server_asks_for_a_token_and_listens_on_this_machine_only(lab: Lab):
    assert lab.url.startswith("http://127.0.0.1:")
    assert lab.token
    assert lab.contents("") == 403
    assert lab.contents(lab.token) == 200


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_opens_as_a_notebook_and_runs_to_its_end(
    lab: Lab, page: Page, name: str, capsys: pytest.CaptureFixture[str]
):
    source = lab.root / "chapters" / f"{name}.py"
    before = source.read_text(encoding="utf-8")
    (lab.root / "chapters" / f"{name}.ipynb").unlink(missing_ok=True)  # only new outputs count
    opened = time.monotonic()
    page.locator(f".jp-DirListing-item[title^='Name: {name}.py']").dblclick()
    page.wait_for_selector(NOTEBOOK, timeout=60_000)

    notebook, first = run_all(page, lab, name)
    finished = time.monotonic()
    pictures = ROOT / "build" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    show_first(page, "img")
    page.screenshot(path=pictures / f"lab-{name}.png")
    if "plots.explore(" in before:
        choose_another_picture(page)
        page.screenshot(path=pictures / f"lab-{name}-widget.png")
    if "show_explorer(" in before:
        show_first(page, "iframe")
        frame = page.frame_locator(f"{NOTEBOOK} iframe[title='The block explorer']")
        expect(frame.locator(".said p").first).to_contain_text("reaches a test loss of")
        page.screenshot(path=pictures / f"lab-{name}-explorer.png")
    with capsys.disabled():
        print(f"\n{name} in JupyterLab: done {finished - opened:.0f} s after the double click")
        if name == CHAPTERS[0] and first:
            print(f"from the start of JupyterLab to the first figure: {first - lab.started:.0f} s")

    assert errors(notebook) == []
    assert images(notebook) >= 1
    assert source.read_text(encoding="utf-8") == before, "saving changed the chapter's text"
    page.keyboard.press("Alt+w")


def test_no_request_leaves_the_machine(lab: Lab, page: Page, requests: list[str]):
    assert requests
    assert in_jupyterlab.left(requests, lab.url) == []
