"""A mode is kept whole or refused; what breaks is started again; nothing outlives the grader."""

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
from press.homework.sandbox import Sandbox, Unavailable, list_modes, modes, mount_plan, seccomp
from press.homework.sandbox.inside import system_calls
from tests.homework.sandbox.conftest import BEST, zygote_of

HONEST = "def double(x): return 2 * x"


def test_an_unknown_mode_lists_the_right_ones_and_an_unknown_package_is_named():
    with pytest.raises(ValueError, match="unknown mode 'none'; choose one of full, restricted, p"):
        Sandbox("none")
    with pytest.raises(ValueError, match="finds no 'torhc'; install it, or leave it out"):
        Sandbox(BEST, packages=("torhc",))


@pytest.mark.parametrize(
    "mode, without, lacks",
    [
        ("full", "bwrap", r"bwrap is missing: install it \(Debian's package"),
        ("full", "namespaces", r"bubblewrap is refused here \(no such namespace\)"),
        ("restricted", "root", "it needs root"),
        ("restricted", "users", "CAP_SETUID or CAP_SETGID is missing"),
        ("plain", "landlock", "the kernel has no Landlock"),
    ],
)
def test_a_mode_that_cannot_be_kept_is_refused_with_what_it_lacks(
    mode, without, lacks, monkeypatch, tmp_path
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if without == "root" else 0)
    monkeypatch.setattr(modes, "_has_capability", lambda number: (number, without) != (7, "users"))
    if without in ("bwrap", "namespaces"):
        monkeypatch.setenv("PATH", str(tmp_path))
        modes._check_walls.cache_clear()
    if without == "namespaces":
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no such namespace' >&2; exit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
    if without == "landlock":
        monkeypatch.setattr(system_calls, "read_landlock_version", lambda: 0)
    with pytest.raises(
        Unavailable, match=f"mode {mode} is not available: .*{lacks}.*; .*works here"
    ):
        Sandbox(mode)
    assert re.search(lacks, list_modes()[mode])
    modes._check_walls.cache_clear()


def test_without_the_extra_no_mode_works_and_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    seccomp.compile_filter.cache_clear()
    modes._check_filter.cache_clear()
    try:
        with pytest.raises(Unavailable, match=r"norm-lab-book\[course\]'`.*no other mode works"):
            Sandbox("plain")
    finally:
        seccomp.compile_filter.cache_clear()
        modes._check_filter.cache_clear()


def test_every_call_on_the_list_is_a_call():
    import pyseccomp

    names = f"{seccomp.COMPUTE} {seccomp.FILES} {seccomp.WAIT} {seccomp.SELF}".split()
    assert len(names) == len(set(names))
    unknown = [n for n in names if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, n) == -1]
    assert unknown == []
    assert len(seccomp.compile_filter()) % 8 == 0


def test_workers_see_the_library_of_this_python_and_not_the_systems():
    """A Python of one's own with a shared library: under the system's, another one would run."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    (loaded,) = set(re.findall(r"/\S*/libpython\d\S*", maps)) or {""}
    if not loaded:
        pytest.skip("this Python has no shared library")
    shown = [Path(path) for path in mount_plan.plan_paths(("torch",))["whole"]]
    assert any(Path(loaded).is_relative_to(path) for path in shown), f"{loaded} is hidden"


def test_only_what_is_named_and_what_that_needs_is_visible():
    seen = mount_plan.plan_paths(("torch", "numpy"))
    names = {os.path.basename(path) for path in seen["whole"]}
    assert {"torch", "numpy", "sympy"} <= names and not {"pytest", "jupyterlab", "labkit"} & names
    own = mount_plan.plan_paths(("labkit",))
    assert str(folder_of("labkit")) in own["whole"] and own["found"]["labkit"]
    assert not [path for path in own["whole"] if "press" in path], "the grader is not shown"


@pytest.mark.slow
def test_a_dead_zygote_is_started_again_and_its_workers_are_gone():
    with Sandbox(BEST) as sandbox:
        with sandbox.open_worker(HONEST) as worker:
            assert worker.call("double", 1).value == 2
            os.kill(zygote_of(worker), signal.SIGKILL)
            gone(worker.pid)
            assert worker.call("double", 1).failure == "ended"
        with sandbox.open_worker(HONEST) as worker:
            assert worker.call("double", 2).value == 4
        assert sandbox.starts == 2


GRADER = f"""
from press.homework.sandbox import Sandbox
from tests.homework.sandbox.conftest import zygote_of
LOOP = "def loop():\\n    while True: pass"
with Sandbox({BEST!r}) as sandbox, sandbox.open_worker(LOOP) as worker:
    print(zygote_of(worker), worker.pid, flush=True)
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
    with Sandbox(BEST):
        left = {path.name for path in tmp_path.glob("labkit-workers-*-x")}
    assert left == {f"labkit-workers-{os.getpid()}-x"}


def gone(pid):
    """Wait until a process is no more, or a zombie that nobody has taken yet."""
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
    """A clone may lie there."""
    (tmp_path / "lent.py").write_text("LENT = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        Sandbox(BEST, packages=("torch", "numpy", "lent")) as opened,
        opened.open_worker("from lent import LENT\ndef answer():\n    return LENT\n") as worker,
    ):
        assert worker.call("answer").value == 7
