"""Secrets of the grader: in its memory, its environment and on its disk, and in no worker."""

import os
import re
import secrets

import pytest

from tests.homework.sandbox.conftest import zygote_of

PROGRAM = """
import os, sys
MARK = "known-" + "to-the-worker"
def look():
    found = [
        os.path.join(folder, name)
        for top in ("/", "/proc", "/tmp", *sys.path)
        for folder, _, files in os.walk(top)
        for name in files
    ]
    return len(found), [name for name in found if "canary" in name or "tests/homework" in name]
"""


def memory_of(pid, needle):
    """Count the places in a process's own memory that hold these bytes."""
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if "rw" not in rights or re.search(r"\[v", line):
                continue
            start, end = (int(each, 16) for each in span.split("-"))
            tail = b""
            for at in range(start, end, 1 << 22):
                memory.seek(at)
                try:
                    block = tail + memory.read(min(1 << 22, end - at))
                except OSError:
                    break
                found += block.count(needle)
                tail = block[-len(needle) + 1 :]
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to read another process's memory")
def test_no_secret_of_the_grader_is_in_a_worker_or_its_zygote(open_sandbox, tmp_path, monkeypatch):
    canary = f"canary-{secrets.token_hex(16)}"
    (tmp_path / "canary-key.txt").write_text(canary)
    monkeypatch.setenv("LABKIT_TEST_CANARY", canary)
    held = [canary, {"expected": canary.encode()}]
    with open_sandbox.worker(PROGRAM) as worker:
        count, suspicious = worker.call("look").value
        pids = (worker.pid, zygote_of(worker))
        assert [memory_of(pid, canary.encode()) for pid in pids] == [0, 0]
        # The search finds what is there.
        assert memory_of(worker.pid, b"known-to-the-worker") and memory_of("self", canary.encode())
    assert suspicious == [] and held
    assert count > 1000  # Python and torch are there to be seen
