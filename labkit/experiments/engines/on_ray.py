"""The Ray engine: each task is a Ray task, on a cluster of one machine or several.

The engine sends labkit to the nodes; they return their records to this process, which stores them.
chapters/cluster.md has the commands.
"""

import contextlib
import importlib.util
import logging
import math
import os
import socket
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.engines.base import SENTENCES, Died, Engine, Interrupted, Lost
from labkit.experiments.engines.limits import run_memory
from labkit.experiments.engines.task import Trained, train_in_worker
from labkit.experiments.own import sources_of
from labkit.experiments.run import CPU, Task
from labkit.experiments.store import CODE
from labkit.system.share import limit_memory, read_fraction
from labkit.system.threads import build_one_thread_environment

KNOCK = 10  # seconds that the head of a cluster may take to answer
TICK = 1.0  # seconds between two looks for an interruption
OURS = f"labkit {CODE}, torch {torch.__version__}"
KEPT = "what finished is stored: the same command goes on"


class OnRay(Engine):
    """Ray tasks of one CPU each; on a GPU, of LABKIT_GPU_FRACTION of a GPU (default: a quarter).

    The engine joins the cluster at `address` ("host:port", or "auto" for this machine's cluster),
    and leaves it running.
    """

    name, tries = "ray", 3

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        super().__init__(root, device)
        self.ray, self.address = import_ray(), address or "auto"
        self.needs: dict[str, float] = {"CPU": 1}  # in Ray's words for resources
        if device != CPU:
            self.needs["GPU"] = read_fraction() or 0.25
        if memory := run_memory():
            self.needs["memory"] = memory
        self._connected = False

    @property
    def slots(self) -> int:
        """Return the number of tasks that the cluster can train at the same time."""
        self._connect_to_ray()
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return count_fitting_tasks(nodes, self.needs)

    def hold_slot(self) -> AbstractContextManager[None]:
        """Hold no slot: Ray assigns the cluster's cores."""
        return contextlib.nullcontext()

    def train_at(self, place: int, task: Task) -> Trained:
        """Let Ray train a task, on any node."""
        share, memory = self.needs.get("GPU"), self.needs.get("memory")
        # Retried from here, because Ray retries without end if a node's memory runs out.
        remote = self.ray.remote(max_retries=0, num_cpus=1, num_gpus=share, memory=memory)
        words = (task, sources_of(task), self.device, self.timeout * len(task), memory)
        answer = remote(train_on_node).remote(OURS, share, *words)
        errors = self.ray.exceptions
        try:
            while not self.ray.wait([answer], timeout=TICK)[0]:
                if self.interrupted.is_set():
                    self.ray.cancel(answer, force=True)
                    raise Interrupted
            return self.ray.get(answer)
        except errors.RayTaskError as error:
            if isinstance(error.cause, SENTENCES):
                raise error.cause from None
            raise
        except errors.RuntimeEnvSetupError:
            raise
        except errors.RayError as error:
            raise Died(f"the run's worker died: {error}; {KEPT}") from error

    def close(self) -> None:
        """Disconnect from the cluster, which keeps running."""
        if self._connected:
            self.ray.shutdown()
            self._connected = False

    def _connect_to_ray(self) -> None:
        if self.ray.is_initialized():
            if self._connected:
                return
            raise RuntimeError(
                "labkit must connect to Ray itself, to send its code, but Ray is connected "
                "already; call ray.shutdown() first, and labkit will connect"
            )
        sent = {
            "py_modules": list_packages(),
            "excludes": ["**/__pycache__"],
            "env_vars": build_one_thread_environment(),
        }
        try:
            host, _, port = self.address.rpartition(":")
            if host and port.isdigit():  # Ray itself tries for minutes
                socket.create_connection((host, int(port)), timeout=KNOCK).close()
            self.ray.init(
                self.address, runtime_env=sent, log_to_driver=False, logging_level=logging.ERROR
            )
        except Exception as error:  # Ray raises Exception itself, too
            raise RuntimeError(
                f"there must be a Ray cluster at {self.address!r}, but it does not accept the "
                f"connection ({error}); start one with `ray start --head`, or train without Ray: "
                "ENGINE=processes"
            ) from error
        self._connected = True


def train_on_node(wanted: str, share: float | None, *given: Any) -> Trained:
    """Train a task on a node; raise Lost if its versions of labkit or torch differ."""
    if wanted != OURS:
        raise Lost(
            f"every node must run {wanted}, but {socket.gethostname()} has {OURS}; install the "
            "same versions there and run the same command again",
            "a node differs",
        )
    limit_memory(share)  # other tasks have the rest of the GPU
    return train_in_worker(*given)


def import_ray() -> Any:
    """Import Ray, which labkit imports only on request."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no use of the network
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "the engine 'ray' needs the package ray, which is not installed; run `pip install "
            "'norm-lab-book[ray]'`, or `make setup` in the book's folder"
        ) from error
    return ray


def list_packages() -> list[str]:
    """List the folders to send to a node: labkit's, and the kernels' if they exist."""
    specs = [importlib.util.find_spec(name) for name in ("labkit", "normkernels")]
    return [str(Path(spec.origin).parent) for spec in specs if spec and spec.origin]


def count_fitting_tasks(nodes: list[dict[str, float]], needs: dict[str, float]) -> int:
    """Return the number of tasks that fit on the nodes at once; raise RuntimeError if none does."""
    count = sum(
        min(math.floor(node.get(kind, 0) / amount + 1e-9) for kind, amount in needs.items())
        for node in nodes
    )
    if count:
        return count
    have = [{kind: node.get(kind, 0) for kind in needs} for node in nodes]
    raise RuntimeError(
        f"a run needs {needs} on one node (memory in bytes), but the nodes have {have}; add such "
        "a node (`ray start --address=…`) or ask for less (LABKIT_GPU_FRACTION, "
        "LABKIT_RUN_MEMORY), and run the same command again: finished runs are stored"
    )
