"""Use a notebook in JupyterLab as a reader does: run all cells, save it, check the results."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Response
from playwright.sync_api import TimeoutError as Late

NOTEBOOK = ".jp-NotebookPanel:visible"
SHARED = ("data:", "blob:")  # addresses that ask nothing of any machine


def free_ports(count: int = 1) -> int:
    """Find consecutive free ports; return the first."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        try:
            for each in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return port


@contextmanager
def server(command: Sequence[str], home: Path, cwd: Path | None = None) -> Iterator[dict]:
    """Start JupyterLab with separate settings in `home`; return its URL and token."""
    own = {f"JUPYTER_{name}_DIR": str(home / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    words = [*command, "--no-browser", f"--ServerApp.port={free_ports()}"]
    log = home / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(
            words, env=os.environ | own, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=cwd
        )
    try:
        yield _note(process, home / "RUNTIME", log)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _note(process: subprocess.Popen, runtime: Path, log: Path) -> dict:
    """Wait until the server has written its URL and token."""
    note = runtime / f"jpserver-{process.pid}.json"
    for _ in range(600):
        if process.poll() is not None:
            break
        if note.exists() and note.read_text().strip().endswith("}"):
            return json.loads(note.read_text())
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start; it said:\n{log.read_text()}")


def idle(page: Page) -> Locator:
    """Return the selector that shows that the kernel is idle."""
    return page.locator("#jp-main-statusbar").get_by_text("(ipykernel) | Idle")


def wait_for_kernel(page: Page, seconds: float = 120) -> None:
    """Wait until the open notebook has a kernel; before that, Run All asks which one to use."""
    page.locator(NOTEBOOK).get_by_text("Python 3 (ipykernel)").wait_for(timeout=seconds * 1000)
    idle(page).wait_for(timeout=seconds * 1000)


def run_all(page: Page) -> None:
    """Choose Run All Cells."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def is_save(response: Response) -> bool:
    """Return whether this answers a request to save a file."""
    return response.request.method == "PUT" and "/api/contents/" in response.url


def saved(page: Page, path: Path) -> dict | None:
    """Save the open notebook and read it; None while it is missing or incomplete.

    Of two saves at a time the second finds a file that "has changed on disk", and asks: wait for
    the answer, which does not come if nothing had to be saved.
    """
    with suppress(Late), page.expect_response(is_save, timeout=5_000):
        page.keyboard.press("Control+s")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def ended(page: Page, notebook: dict, after: int = 0) -> bool:
    """Return whether every cell ran after execution number `after`, or an error ended it."""
    done = all((cell["execution_count"] or 0) > after for cell in code_cells(notebook))
    return bool(errors(notebook)) or (done and idle(page).count() > 0)


def code_cells(notebook: dict) -> list[dict]:
    return [c for c in notebook["cells"] if c["cell_type"] == "code" and "".join(c["source"])]


def outputs(notebook: dict) -> list[dict]:
    return [output for cell in code_cells(notebook) for output in cell["outputs"]]


def errors(notebook: dict) -> list[str]:
    return [
        f"{o['ename']}: {o['evalue']}" for o in outputs(notebook) if o["output_type"] == "error"
    ]


def images(notebook: dict) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def left(urls: list[str], home: str) -> list[str]:
    """List the addresses on other machines."""
    return [url for url in urls if not url.startswith((home, *SHARED))]
