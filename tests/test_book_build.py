"""The build in use, with real kernels, so there are only a few tests."""

import json
import os
import subprocess
import sys

import nbformat
import pytest
from toy_book import CELLS, PATHS, card, chapter_text, command, make_book, pretend, run

from press.book import state
from press.book.files import sha256_of

COUNTED = """# %%
import os, time
with open("../runs.txt", "a") as file:
    file.write(f"{size} {seed} {os.environ['OMP_NUM_THREADS']} {os.environ['LABKIT_ROOT']}\\n")
time.sleep(0.5)

"""


def test_a_chapter_runs_when_it_changed_and_only_then(tmp_path):
    book = make_book(tmp_path, c01_one=chapter_text("01_one", cells=COUNTED + CELLS))
    status, said = run(book, "book", "build")
    assert status == 1, said  # nothing is recorded yet
    assert "01_one: starts (for the first time)" in said
    assert "; 4 runs read" in said
    assert (book / "runs.txt").read_text() == f"book 0 1 {book}\n"
    known = state.read_state(book, "book", "01_one")
    assert known is not None and known["cpu_seconds"] == 3.0

    status, said = run(book, "book", "accept", "--all", "--why", "first record")
    assert status == 0, said
    twin = book / "chapters" / "01_one.ipynb"
    before = twin.read_bytes()
    status, said = run(book, "book", "build")
    assert status == 0
    assert said.splitlines() == [
        "book (book): 1 of 1 chapters up to date",
        "claims: 1 as recorded, 0 red, 0 to look at",
    ]

    source = book / "chapters" / "01_one.py"
    source.write_text(source.read_text().replace("Some words.", "Other words."))
    status, said = run(book, "book", "build")
    assert status == 0, said
    assert "reworded" in said and "wrote chapters/01_one.ipynb" in said
    assert len((book / "runs.txt").read_text().splitlines()) == 1, "prose runs nothing"
    old, new = (nbformat.reads(text, 4).cells for text in (before.decode(), twin.read_text()))
    assert new[0].source.endswith("Other words.")
    assert new[1:] == old[1:]
    assert run(book, "book", "check", "twins")[0] == 0

    twin.write_bytes(before)  # somebody takes the old twin back
    status, said = run(book, "book", "build")
    assert status == 0 and "wrote chapters/01_one.ipynb" in said and "starts" not in said
    assert run(book, "book", "check", "twins")[0] == 0


def test_deciding_that_nothing_changed_needs_none_of_the_slow_imports(tmp_path):
    book = make_book(tmp_path, c01_one=chapter_text("01_one"))
    pretend(book, "01_one", card("01-mean"))
    (book / "chapters" / "01_one.ipynb").write_text("a twin")
    known = state.read_state(book, "book", "01_one")
    assert known is not None
    state.write_state(
        book, "book", "01_one", {**known, "twin": sha256_of(book / "chapters/01_one.ipynb")}
    )
    program = (
        "import sys; from press import cli; before = set(sys.modules)\n"
        "status = cli.main(['book', 'build'])\n"
        "print(status, *{'torch', 'nbformat', 'jupytext', 'papermill', 'sphinx'}"
        " & (set(sys.modules) - before))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=book,
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
    )
    assert "1 of 1 chapters up to date" in told.stdout, told
    assert told.stdout.splitlines()[-1] == "1"  # red only for want of a ledger


def test_chapters_that_fail_fail_the_build_and_nothing_else(tmp_path):
    cells = "# %%\nimport os\n\n# %%\nraise ZeroDivisionError('mine')\n"
    book = make_book(
        tmp_path,
        c01_bad=chapter_text("01_bad", cells=cells),
        c02_good=chapter_text("02_good"),
        c03_bare=chapter_text("03_bare").replace('# %% tags=["parameters"]', "# %%"),
        c04_torn=chapter_text("04_torn", cells="# %%\nclaim(\n").replace("seed = 0", "sed = 0"),
    )
    twin = book / "chapters" / "01_bad.ipynb"
    twin.write_text("what was there")
    status, said = run(book, "book", "build", "--size", "gpu")
    assert status == 1
    assert "01_bad: FAILED after" in said and "ZeroDivisionError: mine" in said
    assert "open it: build/book/gpu/01_bad.failed.ipynb" in said
    assert "must have exactly one code cell tagged `parameters`" in said
    assert "has no seed; add the missing line" in said
    assert "RED: 01_bad, 03_bare, 04_torn" in said and "02_good: done in" in said
    assert "\x1b" not in said
    failed = nbformat.read(book / "build" / "book" / "gpu" / "01_bad.failed.ipynb", 4)
    assert any(out.output_type == "error" for c in failed.cells for out in c.get("outputs", []))
    assert twin.read_text() == "what was there"
    assert not (book / "chapters" / "02_good.ipynb").exists()  # only size book writes twins
    assert state.read_state(book, "gpu", "01_bad") is None
    claims = json.loads((book / "build" / "claims" / "gpu.json").read_text())
    assert list(claims["claims"]) == ["02-mean"]
    executed = (book / "build" / "book" / "gpu" / "02_good.ipynb").read_text()
    assert r"size = \"gpu\"" in executed


@pytest.mark.slow
def test_two_builds_at_once_run_a_chapter_once(tmp_path):
    book = make_book(tmp_path, c01_one=chapter_text("01_one", cells=COUNTED + CELLS))
    builds = [command(book, "book", "build", "--size", "gpu") for _ in range(2)]
    said = [build.communicate(timeout=120)[0] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], said
    assert len((book / "runs.txt").read_text().splitlines()) == 1
    assert sum("1 of 1 chapters up to date" in text for text in said) == 1
    assert sum("waits for another build of it" in text for text in said) <= 1


@pytest.mark.slow
def test_a_kernel_that_dies_is_said_with_the_end_of_its_log(tmp_path):
    cells = "# %%\nimport os\n\nos.write(2, b'out of luck\\n')\nos._exit(3)\n"
    book = make_book(tmp_path, c01_one=chapter_text("01_one", cells=cells))
    status, said = run(book, "book", "build", "--size", "gpu")
    assert status == 1 and "DeadKernelError" in said and "out of luck" in said
    failed = nbformat.read(book / "build" / "book" / "gpu" / "01_one.failed.ipynb", 4)
    assert [cell.source for cell in failed.cells if "os._exit(3)" in cell.source]
