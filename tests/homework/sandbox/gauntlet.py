"""Run the attacks in the presence of their targets: a key, ports, siblings.

As a program it runs them all and prints what came of each, for a process of another user:
`python -m tests.homework.sandbox.gauntlet`.
"""

import contextlib
import json
import os
import socket
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import torch

import labkit
from press.homework.sandbox import Answer, Limits, Sandbox, Worker
from tests.homework.sandbox import attacks_floods, attacks_marks, attacks_powers, attacks_walls
from tests.homework.sandbox.conftest import zygote_of

BODIES = {
    **attacks_walls.FILES,
    **attacks_walls.NETWORK,
    **attacks_powers.PROCESSES,
    **attacks_powers.POWERS,
    **attacks_floods.TIME,
    **attacks_floods.MEMORY,
    **attacks_floods.AMOUNT,
    **attacks_floods.REPLIES,
}
MARKS = attacks_marks.MARKS
NAMES = (*BODIES, *MARKS)
QUICK = attacks_floods.QUICK | attacks_marks.SLOW | {"junk in the background"}

# What the attacks import, so that the walls are met and not the import hook.
PACKAGES = """
    torch numpy atexit builtins ctypes fcntl gc importlib inspect mmap multiprocessing os pathlib
    pickle resource select shutil signal socket subprocess sys tempfile threading
"""
HONEST = """
import torch
def rms_norm(x): return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
"""
LIMITS = Limits(seconds=30, together=600, memory=256 << 20, file=16 << 20, processes=16)
SHORT = replace(LIMITS, seconds=0.4)


CANARY = "LABKIT_TEST_CANARY"  # in the grader's environment, and nobody else's


def truth(x: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def earns(answer: Answer, x: torch.Tensor) -> bool:
    """Grade as a grader does: with its own torch, on a value that was sent by the worker."""
    right = truth(x)
    return (
        answer.ok
        and type(answer.value) is torch.Tensor
        and answer.value.dtype == right.dtype
        and answer.value.shape == right.shape
        and torch.allclose(answer.value, right)
    )


def came_of(answer: Answer) -> str:
    """Summarize the outcome of an attack."""
    if answer.ok:
        return f"value {answer.value!r}"
    kind = answer.detail.partition(":")[0] if answer.failure == "raised" else ""
    return f"{answer.failure} {kind}".strip()


class Range:
    """A sandbox, surrounded by the targets of all attacks."""

    def __init__(self, sandbox: Sandbox, sibling: Worker, outside: Path):
        self.sandbox, self.sibling, self.outside = sandbox, sibling, outside
        self.hint = os.environ[CANARY]
        self.key = outside / "key.txt"
        self.key.write_text(self.hint)
        (outside / "secret.py").write_text(f"KEY = {self.hint!r}\n")
        self.tcp, self.udp, self.unix, self.abstract = self._ports()
        self.known = self.session()
        self.x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
        self.at = {
            "key": str(self.key),
            "outside": str(outside),
            "hint": self.hint[7:],  # what to look for must not be what is looked for
            "labkit": labkit.__file__,
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "unix": str(outside / "socket"),
            "grader": os.getpid(),
            "zygote": zygote_of(sibling),
            "sibling": sibling.process.pid,
        }

    def __enter__(self) -> "Range":
        return self

    def __exit__(self, *_: object) -> None:
        for port in (self.tcp, self.udp, self.unix, self.abstract):
            port.close()

    def session(self) -> set[int]:
        """List the processes of the zygote's session, which no worker can leave."""
        assert self.sandbox._zygote
        found = set()
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(process.pid) == self.sandbox._zygote.pid:
                    found.add(process.pid)
        return found

    def _ports(self) -> list[socket.socket]:
        kinds = (
            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            (socket.AF_UNIX, socket.SOCK_STREAM, str(self.outside / "socket")),
            (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.hint[7:]),
        )
        made = []
        for family, kind, place in kinds:
            made.append(socket.socket(family, kind))
            made[-1].bind(place)
            if kind == socket.SOCK_STREAM:
                made[-1].listen(64)
            made[-1].setblocking(False)
        return made

    def connections(self) -> int:
        """Count the connections to any of the ports since the last call."""
        count = 0
        for port in (self.tcp, self.udp, self.unix, self.abstract):
            while True:
                try:
                    port.recv(9) if port is self.udp else port.accept()[0].close()
                except BlockingIOError:
                    break
                count += 1
        return count

    def attack(self, name: str) -> str:
        """Run one attack in a fresh worker; return its outcome."""
        limits = SHORT if name in QUICK else LIMITS
        if name in BODIES:
            body = textwrap.indent(BODIES[name][1].strip("\n"), "    ")
            program = f"{attacks_walls.HEADER}\ndef attack(at):\n{body}\n"
            with self.sandbox.open_worker(program, limits=limits) as worker:
                return came_of(worker.call("attack", self.at))
        with self.sandbox.open_worker(
            attacks_walls.HEADER + MARKS[name][1], limits=limits
        ) as worker:
            answer = worker.call("rms_norm", self.x)
        if earns(answer, self.x):
            return "marks earned"
        return "value wrong" if answer.ok else came_of(answer)

    def unharmed(self) -> bool:
        """Return whether the worker next to all attacks still answers, with its first zygote."""
        return self.sandbox.starts == 1 and earns(self.sibling.call("rms_norm", self.x), self.x)

    def honest(self) -> bool:
        """Return whether an honest submission still earns its points, with the next worker."""
        with self.sandbox.open_worker(HONEST, limits=LIMITS) as worker:
            return earns(worker.call("rms_norm", self.x), self.x)

    def damage(self) -> list[str]:
        """Return what changed outside of all workers."""
        files = sorted(each.name for each in self.outside.iterdir())
        seen = self.key.stat()
        wrong = [] if files == ["key.txt", "secret.py", "socket"] else [f"files {files}"]
        if self.key.read_text() != self.hint or seen.st_mode & 0o777 != 0o644 or not seen.st_mtime:
            wrong.append("the key changed")
        if count := self.connections():
            wrong.append(f"{count} connections")
        if left := self.session() - self.known:
            wrong.append(f"survivors {left}")
        return wrong


def fits(name: str, actual: str) -> bool:
    """Return whether an attack ended as its row says."""
    wanted = (BODIES.get(name) or MARKS[name])[0]
    return actual in ((wanted,) if isinstance(wanted, str) else wanted)


@contextmanager
def prepared() -> Iterator[Range]:
    """Open a sandbox with a sibling worker that works during each attack."""
    os.environ[CANARY] = f"canary-{os.urandom(8).hex()}"
    with (
        tempfile.TemporaryDirectory() as outside,
        Sandbox(LIMITS, packages=tuple(PACKAGES.split())) as sandbox,
        sandbox.open_worker(HONEST) as sibling,
    ):
        os.chmod(outside, 0o755)
        os.umask(0o022)
        with Range(sandbox, sibling, Path(outside)) as ready:
            yield ready


def run(names: Iterable[str] = NAMES) -> dict[str, list[str]]:
    """Run attacks; report unexpected outcomes, and the attack after which each was seen."""
    surprises: dict[str, list[str]] = {}
    with prepared() as at:
        for number, name in enumerate(names):
            actual = at.attack(name)
            wrong = [] if fits(name, actual) else [actual]
            wrong += at.damage()
            if not at.unharmed():
                wrong.append("a worker beside it does not answer as before")
            if number % 25 == 0 and not at.honest():
                wrong.append("the next worker does not answer as before")
            if wrong:
                surprises[name] = wrong
        # The counter counts: one knock of our own is heard.
        with socket.create_connection(at.tcp.getsockname()):
            assert at.connections() == 1
    return surprises


if __name__ == "__main__":
    print(json.dumps(run()))
