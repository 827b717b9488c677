"""The Ray engine: one Ray task a task, on this machine or on a cluster.

labkit is sent to the nodes; what they train comes back to this process, which stores it. See
chapters/cluster.md for the commands.
"""

import contextlib
import importlib.util
import logging
import math
import os
import secrets
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
from labkit.system.units import in_words

OBJECTS = 100 * 2**20  # bytes for what travels between processes: records are small
KNOCK = 10  # seconds that the head of a cluster may take to answer
TICK = 1.0  # seconds between two looks for an interruption
OURS = f"labkit {CODE}, torch {torch.__version__}"
KEPT = "what finished is stored: the same command goes on"


class OnRay(Engine):
    """Ray tasks of one CPU, on a GPU with LABKIT_GPU_FRACTION of one (default: a quarter).

    Without an address Ray runs on this machine until the engine is closed, on as many CPUs as the
    pool has slots; with one ("auto", "host:port") a cluster is joined, and left running. A
    cluster's runs add up to whole GPUs; a Ray of our own stays within LABKIT_GPU_FRACTION.
    """

    name, tries = "ray", 3

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        super().__init__(root, device)
        self.ray, self.address = import_ray(address), address
        self.memory, self.share = run_memory(), read_fraction() or 0.25
        self.needs: dict[str, float] = {"CPU": 1}  # in Ray's words for resources
        if device != CPU:
            # In a Ray of our own one run at a time has all of our part.
            self.needs["GPU"] = 1 if address is None and read_fraction() is not None else self.share
        if self.memory:
            self.needs["memory"] = self.memory
        self._connected = False

    @property
    def slots(self) -> int:
        """Count the tasks that train at the same time; asks the cluster, where there is one."""
        self._connect_to_ray()
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return count_fitting_tasks(nodes, self.needs)

    def hold_slot(self) -> AbstractContextManager[None]:
        """Hold a slot of this machine where Ray is our own; a cluster has none."""
        return contextlib.nullcontext() if self.address else super().hold_slot()

    def train_at(self, place: int, task: Task) -> Trained:
        """Have Ray train a task, on whichever node."""
        device, seconds = self.device, self.timeout * len(task)
        needs = {"num_cpus": 1, "num_gpus": self.needs.get("GPU"), "memory": self.memory}
        # Tried again from here: Ray alone does so without end where a node's memory runs out.
        remote = self.ray.remote(max_retries=0, **needs)(train_on_node)
        share = self.share if device != CPU else None
        words = (task, sources_of(task), device, seconds, self.memory)
        answer = remote.remote(OURS, share, *words)
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
            raise Died(f"its worker died: {error}; {KEPT}") from error

    def close(self) -> None:
        """Leave a cluster, which runs on; end a Ray of our own."""
        if self._connected:
            self.ray.shutdown()
            self._connected = False

    def _connect_to_ray(self) -> None:
        if self._connected and self.ray.is_initialized():
            return
        if self.ray.is_initialized():
            raise RuntimeError(
                "labkit sends its code when it connects to Ray, but Ray is connected already; "
                "call ray.shutdown() first, and labkit connects by itself"
            )
        options = {"log_to_driver": False, "logging_level": logging.ERROR}
        options["runtime_env"] = {
            "py_modules": list_packages(),
            "excludes": ["**/__pycache__"],
            "env_vars": build_one_thread_environment(),
        }
        if not self.address:
            options |= {"num_cpus": self.pool.slots, "include_dashboard": False}
            options |= {"object_store_memory": OBJECTS}
        try:
            host, _, port = (self.address or "").rpartition(":")
            if host and port.isdigit():  # Ray itself knocks for minutes
                socket.create_connection((host, int(port)), timeout=KNOCK).close()
            self.ray.init(self.address or "local", **options)
        except Exception as error:  # Ray raises Exception itself, too
            message = (
                f"there must be a Ray cluster at {self.address!r}, but none takes us ({error}); "
                "start one with `ray start --head`, or leave the address out to train on this "
                "machine"
                if self.address
                else f"Ray did not start on this machine ({error}); if it is only busy, try again, "
                "or train without Ray: LABKIT_ENGINE=processes"
            )
            raise RuntimeError(message) from error
        self._connected = True


def train_on_node(wanted: str, share: float | None, *given: Any) -> Trained:
    """Train a task on a node of the cluster; Lost where another labkit or torch is there."""
    if wanted != OURS:
        raise Lost(
            f"every node must run {wanted}, but {socket.gethostname()} has {OURS}; install the "
            "same versions there, and the same command goes on",
            "a node differs",
        )
    if share:
        limit_memory(share)  # the neighbours have the rest
    return train_in_worker(*given)


def import_ray(address: str | None) -> Any:
    """Import Ray, which labkit does without until it is asked for."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing here asks the network
    if address is None and "RAY_AUTH_MODE" not in os.environ:
        # Whoever reaches a Ray can run code: nobody else knows this one's token.
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "the engine 'ray' needs the package ray, which is not installed: "
            "`pip install 'norm-lab-book[ray]'`, or `make setup` in the book's folder"
        ) from error
    return ray


def list_packages() -> list[str]:
    """List the folders that a node is sent: labkit's, and the kernels' where there are any."""
    specs = [importlib.util.find_spec(name) for name in ("labkit", "normkernels")]
    return [str(Path(spec.origin).parent) for spec in specs if spec and spec.origin]


def count_fitting_tasks(nodes: list[dict[str, float]], needs: dict[str, float]) -> int:
    """Count the tasks that nodes can train at the same time; RuntimeError where it is none."""
    count = sum(
        min(math.floor(node.get(kind, 0) / amount + 1e-9) for kind, amount in needs.items())
        for node in nodes
    )
    if count:
        return count
    has = "; ".join(map(say_resources, nodes)) or "no node alive"
    raise RuntimeError(
        f"a run needs {say_resources(needs)} on one node, but the cluster has: {has}; add such a "
        "node (`ray start --address=…`) or ask for less (LABKIT_GPU_FRACTION, LABKIT_RUN_MEMORY), "
        "and the same command goes on: what finished is stored"
    )


def say_resources(resources: dict[str, float]) -> str:
    """Return what a node has, or a run needs."""
    parts = [f"{resources[kind]:g} {kind}" for kind in ("CPU", "GPU") if resources.get(kind)]
    if memory := resources.get("memory"):
        parts.append(f"{in_words(memory)} of memory")
    return " and ".join(parts) or "nothing"
