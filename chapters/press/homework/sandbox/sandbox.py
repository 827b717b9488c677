"""A sandbox: one zygote with the packages loaded, from which workers are forked."""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.system.threads import build_one_thread_environment
from press import bubblewrap, control_groups
from press.homework.sandbox import folder, mount_plan, seccomp
from press.homework.sandbox.limits import Limits
from press.homework.sandbox.needs import require_walls
from press.homework.sandbox.worker import REQUEST, Process, Worker

START_SECONDS = 180.0  # importing torch on a loaded machine
ORDER_SECONDS = 60.0  # a fork on a loaded machine

_OWNER = "labkit-grader"  # the control group above those of all workers
_PREFIX = "labkit-workers-"  # of a folder with the homes of workers; then the grader's number
_INSIDE = Path(__file__).parent / "inside"
# A package of its own name, so that nothing of labkit is imported.
_START = """
import sys, types
confined = types.ModuleType("confined")
confined.__path__ = [sys.argv[1]]
sys.modules["confined"] = confined
from confined.zygote import main
main(int(sys.argv[2]))
"""
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "LANG": "C.UTF-8",
    **build_one_thread_environment(),
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
    "TRITON_INTERPRET": "1",
}


class Sandbox:
    """A context manager that confines workers.

    `packages` are what a submission may import, beside Python's basics: top-level names. Raises
    Unavailable where the walls cannot be had, ValueError where a package is not installed.
    """

    def __init__(
        self, limits: Limits | None = None, packages: tuple[str, ...] = ("torch", "numpy")
    ):
        require_walls()
        self.limits, self.packages = limits or Limits(), tuple(packages)
        self._view = mount_plan.plan_view(self.packages)
        self._plan = {
            **asdict(self._view),
            "allowed": list(self.packages),
            "filter": seccomp.compile_filter().hex(),
        }
        # Why nothing caps the memory of a worker as a whole; empty where a control group does.
        self.no_group = control_groups.find_problem()
        self._homes = ""
        self._zygote: subprocess.Popen | None = None
        self._orders: socket.socket | None = None
        self.starts = 0

    def __enter__(self) -> "Sandbox":
        sweep_leftovers()
        self._homes = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        self._start_zygote()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_zygote()
        folder.remove_folder(self._homes)

    def open_worker(self, program: str, probes: str = "", limits: Limits | None = None) -> Worker:
        """Context manager: a fresh confined process for these definitions.

        `limits` are those of the sandbox unless this worker has its own.
        """
        return Worker(self, program, probes, limits or self.limits)

    def _start_zygote(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        said = tempfile.TemporaryFile()  # noqa: SIM115 - the zygote's output outlives this call
        more = bubblewrap.show([str(_INSIDE)]) + bubblewrap.show([self._homes], writable=True)
        # No capabilities; bubblewrap always sets no_new_privs.
        walls = [bubblewrap.find_program(), "--unshare-all", "--cap-drop", "ALL"]
        walls += self._view.build_arguments(*more)
        python = [os.path.realpath(sys.executable), "-S", "-s", "-P", "-c", _START]
        self._zygote = subprocess.Popen(
            [*walls, *python, str(_INSIDE), str(theirs.fileno())],
            env={**_ENVIRONMENT, "HOME": self._homes, "TMPDIR": self._homes},
            cwd="/",
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        theirs.close()
        self._orders = ours
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        ours.send(json.dumps(self._plan).encode())
        ready = self._read_answer(START_SECONDS)
        if not ready:
            said.seek(0)
            text = said.read()[-2000:].decode(errors="replace").strip()
            said.close()
            self._stop_zygote()
            raise RuntimeError(
                f"grading needs a zygote that imports {self.packages}, but it did not start: {text}"
            )
        said.close()  # here; the zygote keeps its own
        self.starts += 1

    def _read_answer(self, seconds: float) -> dict[str, Any]:
        """Wait for the zygote's answer; {} if it is dead or silent."""
        assert self._orders
        if not select.select([self._orders], [], [], seconds)[0]:
            return {}
        try:
            text, descriptors, _, _ = socket.recv_fds(self._orders, 1 << 16, 1)
        except OSError:
            return {}
        return {**json.loads(text), "descriptors": descriptors} if text else {}

    def _stop_zygote(self) -> None:
        if self._orders:
            self._orders.close()
        if self._zygote:
            # The group, because behind walls the zygote is a child of this process's child.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._zygote.pid, signal.SIGKILL)
            self._zygote.wait()
        self._orders = self._zygote = None

    def _send_order(self, message: dict[str, Any], *descriptors: int) -> dict[str, Any]:
        """Send an order, return its answer; {} from a dead or silent zygote, which is ended."""
        if not self._orders:
            return {}
        try:
            socket.send_fds(self._orders, [json.dumps(message).encode()], descriptors)
            heard = self._read_answer(ORDER_SECONDS)
        except OSError:
            heard = {}
        if not heard:
            self._stop_zygote()
        return heard

    def fork(self, channel: int, limits: Limits) -> Process:
        """Fork one worker, limit it, and return the grader's handles of it."""
        home = tempfile.mkdtemp(dir=self._homes)
        group = None
        if not self.no_group:
            name = f"{os.getpid()}-{secrets.token_hex(6)}"
            group = control_groups.make_group(name, _OWNER, limits.memory)
        process = Process(self, home, group)
        most = {**asdict(limits), "request": REQUEST}
        order = {"do": "fork", "tmp": home, "limits": most}
        try:
            heard = self._send_order(order, channel)
            if not heard:  # a zygote that is gone is started again
                self._start_zygote()
                heard = self._send_order(order, channel)
            if "pid" not in heard:
                why = heard.get("failed", "the zygote ended twice")
                raise RuntimeError(
                    f"grading needs a worker, but the system could not fork one: {why}"
                )
            process.take(heard["pid"], *heard["descriptors"])
        except BaseException:
            process.remove()
            raise
        return process

    def reap(self, pid: int) -> int | None:
        """Read the exit status of a worker that ended; None if it is unknown."""
        return self._send_order({"do": "reap", "pid": pid}).get("status")


def sweep_leftovers() -> None:
    """Remove the folders and groups of graders that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _is_gone(home.name.removeprefix(_PREFIX)):
            with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
                folder.remove_folder(str(home))
    for group in control_groups.list_groups(_OWNER):
        if _is_gone(group.folder.name):
            group.remove()


def _is_gone(name: str) -> bool:
    """Return whether the grader has ended whose process number begins the name."""
    return not Path("/proc", name.partition("-")[0]).exists()
