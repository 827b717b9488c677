"""A released homework in use: opened in JupyterLab, run, and begun."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from press.homework.release import write_release
from tests import in_jupyterlab
from tests.in_jupyterlab import NOTEBOOK

ROOT = Path(__file__).resolve().parents[2]
NAME = "hw1_norms_from_scratch"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="the program chromium is missing"),
]

SOLUTION = """def layer_norm(x, weight=None, bias=None, eps=1e-5):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    y = centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory) -> Path:
    """Release homework 1 like a student who works without a course."""
    folder = tmp_path_factory.mktemp("hw1")
    write_release(ROOT / "chapters" / "homework" / f"{NAME}.py", folder / "release")
    return folder / "release" / "student" / f"{NAME}.ipynb"


@pytest.fixture(scope="module")
def page(notebook: Path, tmp_path_factory) -> Iterator[Page]:
    """Open it as the page on the homeworks says; no request may leave the machine."""
    home = tmp_path_factory.mktemp("jupyter")
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "jupyterlab", str(notebook), *as_root]
    asked: list[str] = []
    with in_jupyterlab.server(command, home, notebook.parent) as told, sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{told['url']}lab/tree/{notebook.name}?token={told['token']}")
        page.wait_for_selector(NOTEBOOK, timeout=60_000)
        yield page
        chromium.close()
    assert asked and in_jupyterlab.left(asked, told["url"]) == []


def answers(notebook: dict) -> dict[str, str]:
    """Return the output of each question's public checks."""
    return {
        about["grade_id"].removeprefix("test-"): "".join(
            "".join(output.get("text", "")) for output in cell["outputs"]
        )
        for cell in notebook["cells"]
        if (about := cell["metadata"].get("nbgrader", {})).get("grade")
    }


def run_all(page: Page, file: Path, after: int = 0) -> dict:
    """Run all cells; read the notebook that JupyterLab saved after the last one."""
    in_jupyterlab.run_all(page)
    end = time.monotonic() + 300
    while time.monotonic() < end:
        notebook = in_jupyterlab.saved(page, file)
        if notebook and in_jupyterlab.ended(page, notebook, after):
            return notebook
    pytest.fail("the homework did not run to its end within five minutes")


def test_an_untouched_homework_says_what_is_not_solved_and_takes_an_answer(page, notebook):
    in_jupyterlab.wait_for_kernel(page)
    ran = run_all(page, notebook)
    assert in_jupyterlab.errors(ran) == []
    told = answers(ran)
    assert list(told) == ["q1", "q2", "q3", "q4", "q5"]
    for number in range(1, 5):
        assert told[f"q{number}"] == (
            f"q{number}: not written yet (your turn: q{number}); replace the line that raises "
            "NotImplementedError, run that cell, then this one\n"
        )
    assert told["q5"].startswith("q5: BATCHES is a whole number; yours is none yet\n")

    page.locator(f"{NOTEBOOK} .jp-WindowedPanel-outer").evaluate("box => box.scrollTop = 0")
    stub = page.locator(f"{NOTEBOOK} .jp-CodeCell .cm-content", has_text="def layer_norm(")
    stub.scroll_into_view_if_needed()
    stub.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(SOLUTION)
    ran = run_all(page, notebook, after=len(in_jupyterlab.code_cells(ran)))
    assert in_jupyterlab.errors(ran) == []
    assert SOLUTION in ["".join(cell["source"]) for cell in ran["cells"]]
    told = answers(ran)
    assert told["q1"] == "q1: public checks passed\n"
    assert told["q2"].startswith("q2: not written yet")
