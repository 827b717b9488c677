"""Run a program in a fork of a process that has loaded torch, scipy and matplotlib.

A test that breaks labkit needs a process that has not loaded it yet. Such a process would spend
most of its time on importing these libraries.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

LONGEST = 1800  # seconds
# What Python and these libraries read when they are loaded.
AT_START = {"PYTHONHASHSEED": "0", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}


@cache
def start_server() -> None:
    """Start the process that forks."""
    forkserver.set_forkserver_preload(["torch", "scipy.stats", "matplotlib.pyplot"])
    with mock.patch.dict(os.environ, AT_START):
        forkserver.ensure_running()


def run_program(source: str, given: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a program in `folder` with the text `given` on stdin; return what it writes to stdout."""
    start_server()
    with tempfile.TemporaryDirectory() as scratch:
        streams = [Path(scratch, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(given, encoding="utf-8")
        process = multiprocessing.get_context("forkserver").Process(
            target=_run, args=(source, streams, folder, dict(environment))
        )
        process.start()
        process.join(LONGEST)
        process.kill()  # if it still runs
        process.join()
        if process.exitcode:
            error = streams[2].read_text(encoding="utf-8")
            raise RuntimeError(f"a program's process ended with {process.exitcode}:\n{error}")
        return streams[1].read_text(encoding="utf-8")


def _run(source: str, streams: list[Path], folder: Path, environment: dict[str, str]) -> None:
    for number, file in enumerate(streams):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.chdir(folder)
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    assert "labkit" not in sys.modules, "it must come from PYTHONPATH"
    exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
