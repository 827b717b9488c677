"""Nodes of a Ray cluster on this machine, started and killed like real ones."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

PATIENCE = 180  # seconds, on a starved machine
STARTS = 4  # of a node, before it counts as broken
# Who may talk to a Ray of the tests; read when ray is imported, so here.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0123456789abcdef" * 4)


class Node:
    """One `ray start --block` with all its child processes."""

    def __init__(self, folder: Path, *words: str):
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "ray.log").open("wb")
        self.folder = folder
        self.process = subprocess.Popen(
            [
                *(Path(sys.executable).with_name("ray"), "start", "--block", "--num-cpus=1"),
                *("--node-ip-address=127.0.0.1", "--object-store-memory=100000000"),
                *("--no-monitor", "--include-log-monitor=false"),
                *words,
            ],
            cwd=folder,
            # A node has no labkit of its own, as on another machine.
            env={
                **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
                "RAY_USAGE_STATS_ENABLED": "0",
                "RAY_idle_worker_killing_time_threshold_ms": "600000",
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kill the node as abruptly as a power failure."""
        if self.process.poll() is not None:
            return
        parent = psutil.Process(self.process.pid)
        family = [parent, *parent.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # those whose parent ended before
        psutil.wait_procs(family, timeout=PATIENCE)
        self.process.wait()
        self._log.close()


class Cluster:
    """A head node, and others that join it."""

    def __init__(self, folder: Path):
        self.folder, self.nodes = folder, []
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def start(self, count: int) -> None:
        """Start nodes and wait until all are registered."""
        words = ["--head", f"--port={self.port}", "--include-dashboard=false"]
        for number in range(1, count + 1):
            # Ray gives a node half a minute to start, which a starved machine may not have.
            tries = (Node(self.folder / f"{number}.{i}", *words) for i in range(STARTS))
            node = next((node for node in tries if self._comes(node, number)), None)
            assert node is not None, "no node starts here; what each said is above"
            self.nodes.append(node)
            words = [f"--address={self.address}"]

    def _comes(self, node: Node, count: int) -> bool:
        end = time.monotonic() + PATIENCE
        while self.alive() != count:
            if node.process.poll() is not None or time.monotonic() > end:
                node.kill()
                print((node.folder / "ray.log").read_text())
                return False
            time.sleep(0.2)
        return True

    def alive(self) -> int:
        """Count the nodes that the head considers alive."""
        from ray._raylet import GcsClient
        from ray.exceptions import RayError

        try:
            nodes = GcsClient(address=self.address).get_all_node_info(timeout=5)
        except (RayError, RuntimeError, ConnectionError):
            return 0
        return sum(node.state == 0 for node in nodes.values())


@contextlib.contextmanager
def cluster(folder: Path, nodes: int = 2) -> Iterator[Cluster]:
    """Run a cluster for the duration of a block."""
    found = Cluster(folder)
    try:
        found.start(nodes)
        yield found
    finally:
        for node in reversed(found.nodes):
            node.kill()


def free_port() -> int:
    """Find a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
