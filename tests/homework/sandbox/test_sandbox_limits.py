"""Limits of a worker: time, memory, output, and what remains afterwards."""

import os
import resource
import time
from pathlib import Path

import pytest
import torch

from press import control_groups
from press.homework.sandbox import Limits
from press.homework.sandbox.folder import is_too_large, remove_folder
from tests.homework.sandbox.conftest import zygote_of

NO_GROUP = control_groups.find_problem()
grouped = pytest.mark.skipif(bool(NO_GROUP), reason=NO_GROUP)
HONEST = "def double(x): return 2 * x"


@pytest.mark.parametrize(
    "program",
    [
        "def loop():\n    while True: pass",
        "import re\ndef loop(): re.match('(a+)+$', 'a' * 60 + 'b')",
    ],
    ids=["in Python", "in C"],
)
def test_an_infinite_loop_ends_within_its_limit_and_two_seconds(sandbox, program):
    with sandbox.open_worker(program, limits=Limits(seconds=0.5)) as worker:
        start = time.monotonic()
        answer = worker.call("loop")
    assert answer.failure == "slow" and 0.5 <= time.monotonic() - start < 2.5


def test_many_slow_calls_have_a_limit_together(sandbox):
    program = "import time\ndef answer(): time.sleep(0.4)"
    with sandbox.open_worker(program, limits=Limits(together=1.0)) as worker:
        answers = [worker.call("answer") for _ in range(6)]
    failures = [each.failure for each in answers]
    assert failures[0] == "" and failures[3:] == ["slow"] * 3
    assert answers[-1].detail == "the calls of this question took over 1 s together"


@grouped
@pytest.mark.parametrize(
    "program",
    [
        "import torch\nkept = []\ndef eat():\n    while True: kept.append(torch.ones(1 << 18))",
        # Neither alone is too much.
        "import numpy, torch\ndef eat():\n"
        "    kept = numpy.ones(90 << 17); return torch.ones(25 << 20).sum().item() + kept[0]",
    ],
    ids=["tensors", "arrays and tensors"],
)
def test_memory_stays_within_its_cap_and_five_percent(sandbox, program):
    limits = Limits(memory=128 << 20, file=100 << 20, seconds=60)
    with sandbox.open_worker(program, limits=limits) as worker:
        assert worker.process.group
        assert worker.call("eat").failure == "memory"
        folder = worker.process.group.folder
        counts = [folder / name for name in ("memory.peak", "memory.max_usage_in_bytes")]
        peak = int(next(each for each in counts if each.exists()).read_text())
    assert (64 << 20) < peak <= 1.05 * (128 << 20)


def test_nothing_is_left_of_a_worker(sandbox):
    with sandbox.open_worker(HONEST) as worker:
        process, pid = worker.process, worker.process.pid
        assert os.path.exists(f"/proc/{pid}")
        if process.group:
            assert pid == int((process.group.folder / "cgroup.procs").read_text())
        assert os.path.isdir(process.home)
    assert not os.path.exists(f"/proc/{pid}")
    assert not process.group or not process.group.folder.exists()
    assert not os.path.exists(process.home)


def test_descriptors_do_not_pile_up(sandbox):
    before = len(os.listdir("/proc/self/fd"))
    for program in [HONEST, "import os\nos._exit(1)", "x = ("] * 3:
        with sandbox.open_worker(program) as worker:
            worker.call("double", 1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_without_a_bottom_is_seen_and_removed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    here = os.getcwd()
    os.chdir(home)
    try:
        for _ in range(1500):  # deeper than Python recurses, longer than a path may be
            os.mkdir("deeper", 0o700)
            os.chdir("deeper")
    finally:
        os.chdir(here)
    os.mkdir(home / "closed", 0o000)
    (home / "link").symlink_to(tmp_path)
    (tmp_path / "small").mkdir(mode=0o755)
    (home / "deeper" / "link").symlink_to(tmp_path / "small")
    (tmp_path / "kept").write_text("kept")
    assert is_too_large(str(home), 1 << 40), "too deep"
    (tmp_path / "small/file").write_bytes(bytes(1000))
    assert not is_too_large(str(tmp_path / "small"), 10_000) and is_too_large(
        str(tmp_path / "small"), 99
    )
    remove_folder(str(home))
    assert (tmp_path / "small").stat().st_mode & 0o777 == 0o755, "no link was followed"
    assert not home.exists() and (tmp_path / "kept").read_text() == "kept"


def cpu_of(pid):
    """Return the processor seconds of a process and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def test_five_hundred_submissions_a_minute_fit_on_two_cores(sandbox):
    with sandbox.open_worker(HONEST) as worker:  # the first one may start the zygote again
        worker.call("double", 1)
        zygote = zygote_of(worker)
    mine = resource.getrusage(resource.RUSAGE_SELF)
    before = cpu_of(zygote) + mine.ru_utime + mine.ru_stime
    submissions, questions = 10, 2
    for _ in range(submissions * questions):
        with sandbox.open_worker(HONEST) as worker:
            assert worker.call("double", torch.ones(4, 8)).ok
    mine = resource.getrusage(resource.RUSAGE_SELF)
    spent = cpu_of(zygote) + mine.ru_utime + mine.ru_stime - before
    assert spent / submissions < 2 * 60 / 500
