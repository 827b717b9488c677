"""Kill builds at random moments: all files are valid, and the next build continues."""

import json
import random
import signal
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from toy_book import CELLS, chapter_text, command, make_book, run

pytestmark = pytest.mark.slow
GONE_AFTER = 30  # seconds, on a starved machine; it takes less than one on an idle one
SLOW = "# %%\nimport time\ntime.sleep(0.5)\nprint('x' * 100_000)\n\n"


def book_of_two(root: Path) -> Path:
    return make_book(
        root,
        c01_one=chapter_text("01_one", cells=SLOW + CELLS),
        c02_two=chapter_text("02_two", cells=CELLS + SLOW),
    )


def edit(book: Path, word: str) -> None:
    """Change every chapter, so that the next build must execute it."""
    for source in (book / "chapters").glob("*.py"):
        source.write_text(source.read_text().replace('r"""\n', f'r"""\n{word}\n', 1))


def kill(book: Path, moment: float, everything: bool) -> None:
    """Start a build, kill it and its children after `moment` seconds; wait for the rest to end."""
    process = command(book, "book", "build")
    time.sleep(moment)
    builder = psutil.Process(process.pid)
    try:
        family = builder.children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    for victim in [builder, *(family if everything else [])]:
        try:
            victim.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.communicate(timeout=30)
    patience = time.monotonic() + GONE_AFTER
    while left := [victim for victim in family if alive(victim)]:
        assert time.monotonic() < patience, f"still running after the builder died: {left}"
        time.sleep(0.1)


def alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def check_whole(book: Path) -> None:
    """Check that no file that others read is half-written."""
    for folder in ("chapters", "build", ".labkit", "data"):
        for path in (book / folder).rglob("*.json"):
            json.loads(path.read_text())
        for path in (book / folder).rglob("*.ipynb"):
            nbformat.validate(nbformat.read(path, as_version=4))


def check_recovers(book: Path) -> None:
    """Build to the end; the next build then has nothing to do."""
    run(book, "book", "build")
    status, said = run(book, "book", "accept", "--all", "--why", "whatever came")
    assert status == 0, said
    texts = {p: p.read_bytes() for p in (book / "chapters").iterdir()}
    status, said = run(book, "book", "build")
    assert status == 0 and "2 of 2 chapters up to date" in said, said
    assert texts == {p: p.read_bytes() for p in (book / "chapters").iterdir()}
    assert run(book, "book", "check", "twins")[0] == 0


def test_a_build_survives_being_killed_at_random_moments(tmp_path):
    book = book_of_two(tmp_path)
    start = time.monotonic()
    run(book, "book", "build")
    whole = time.monotonic() - start
    run(book, "book", "accept", "--all", "--why", "first record")
    dice = random.Random(0)
    for turn in range(4):
        edit(book, f"turn{turn}")
        kill(book, dice.uniform(0.2, 1.1 * whole), bool(turn % 2))
        check_whole(book)
    check_recovers(book)
