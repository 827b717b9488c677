"""The Ray that trains: one of our own on this machine, or a cluster that somebody started.

Every node must run the same labkit. Nodes that share the driver's file system import it from
there; to others it is sent, the package alone and never the folder around it.
"""

import contextlib
import importlib.util
import logging
import math
import os
import shutil
import socket
import tempfile
import traceback
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import labkit
from labkit.experiments.engines.ray_work import work

# All that a node runs must be as it is here.
CODE = "labkit.experiments.engines.ray_work"
# One thread a run: then its numbers are the same to the last bit wherever it trains.
ALONE = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
OBJECTS = 100 * 2**20  # bytes for what travels between processes: records are small
# A worker that waits for its next task stays: a new one would import torch again.
PATIENT = {"idle_worker_killing_time_threshold_ms": 600_000}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
KNOCK = 10  # seconds that the head of a cluster may take to answer
LOOK = 600  # seconds that a node may take to say which labkit it has


def import_ray() -> Any:
    """Import Ray, which labkit does without until it is asked for."""
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "the engine 'ray' needs the package ray, which is not installed: "
            "`pip install 'norm-lab-book[ray]'`, or `make setup` in the book's folder"
        ) from error
    return ray


class Cluster:
    """A connection to Ray, for tasks that each need so many CPU, GPU and memory of one node."""

    OPTIONS: ClassVar = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}

    def __init__(self, address: str | None, slots: int, needs: dict[str, float]):
        self.ray, self.needs, self._folder = import_ray(), needs, None
        self.env = environment()
        self.ours = not self.ray.is_initialized()
        if self.ours and address is None:
            self._start(slots)
        elif self.ours:
            self._join(address)
        elif wrong := self._elsewhere(address) or self._strangers():
            raise RuntimeError(
                f"Ray is connected already, but not as it must be ({wrong}); call ray.shutdown() "
                "first, and labkit connects by itself"
            )
        # Counted by the engine and not by Ray, which retries without end when memory ran out.
        self._work = self.ray.remote(work).options(
            num_returns="streaming",
            max_retries=0,
            runtime_env={"env_vars": self.env},
            **{self.OPTIONS[kind]: amount for kind, amount in needs.items()},
        )

    def submit(self, order: dict[str, Any]) -> Any:
        """Hand in an order; return the stream of its answers, see ray_work."""
        return self._work.remote(order)

    def slots(self) -> int:
        """Count the tasks that the nodes alive can train at the same time; RuntimeError if none."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        count = sum(
            min(
                math.floor(node.get(kind, 0) / needed + 1e-9) for kind, needed in self.needs.items()
            )
            for node in nodes
        )
        if count:
            return count
        has = "; ".join(_in_words(node) for node in nodes) or "no node alive"
        raise RuntimeError(
            f"a run needs {_in_words(self.needs)} on one node, but the cluster has: {has}; add "
            "such a node (`ray start --address=…`) or ask for less (LABKIT_GPU_FRACTION, "
            "LABKIT_RUN_MEMORY), and the same command goes on: what finished is stored"
        )

    def close(self) -> None:
        """Leave a cluster, which runs on; end a Ray of our own."""
        if self.ours and self.ray.is_initialized():
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, slots: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing here asks the network
        # A socket's path has room for about 100 bytes, so not below a deep folder.
        self._folder = tempfile.mkdtemp(prefix="labkit-ray-", dir="/tmp")
        for last in (False, False, True):
            try:
                # Off, it keeps Ray on 127.0.0.1; asked for that address, Ray takes another.
                with mock.patch("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False):
                    self.ray.init(
                        "local",
                        num_cpus=slots,
                        object_store_memory=OBJECTS,
                        include_dashboard=False,
                        _temp_dir=self._folder,
                        _system_config=PATIENT,
                        **QUIET,
                    )
                return
            except Exception as error:  # Ray waits half a minute for itself, and raises Exception
                _end_half_started(error)
                if last:
                    self.close()
                    raise RuntimeError(
                        f"Ray did not start on this machine ({error}); if it is only busy, try "
                        "again, or train without Ray: LABKIT_ENGINE=processes"
                    ) from error

    def _join(self, address: str | None) -> None:
        self._connect(address)
        if self._strangers():
            # Ray sends packages only when it connects.
            self.ray.shutdown()
            self.env = dict(ALONE)
            self._connect(address, {"py_modules": packages(), "excludes": ["**/__pycache__"]})
            if strangers := self._strangers():
                self.ray.shutdown()
                raise RuntimeError(
                    "every node must run the same labkit and torch, also after labkit was sent "
                    f"there, but not so {strangers}; install what is missing on these nodes"
                )

    def _connect(self, address: str | None, runtime_env: dict[str, Any] | None = None) -> None:
        host, _, port = (address or "").rpartition(":")
        try:
            if host and port.isdigit():  # Ray itself would knock for minutes
                socket.create_connection((host, int(port)), timeout=KNOCK).close()
            self.ray.init(address, runtime_env=runtime_env, **QUIET)
        except (OSError, ValueError, RuntimeError, self.ray.exceptions.RayError) as error:
            raise RuntimeError(
                f"there must be a Ray cluster at {address!r}, but none answers ({error}); start "
                "one with `ray start --head`, or leave the address out to train on this machine"
            ) from error

    def _elsewhere(self, address: str | None) -> str:
        """Say where Ray is connected to, where that is not what was asked for."""
        there = self.ray.get_runtime_context().gcs_address
        # One host has several names, so the port must do.
        same = address in (None, "auto") or address.rpartition(":")[2] == there.rpartition(":")[2]
        return "" if same else f"to {there}, and {address} was asked for"

    def _strangers(self) -> str:
        """Ask every node which labkit it has; name those whose labkit differs, and how."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        def look(code: str) -> str:  # inside, so that Ray sends its code and not its name
            try:
                import torch

                from labkit.fingerprint import fingerprint_of

                return f"labkit {fingerprint_of(code)[:12]}, torch {torch.__version__}"
            except Exception as error:
                return f"{type(error).__name__}: {error}"

        def ask(node: dict[str, Any]) -> Any:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": there}
            env = {"env_vars": self.env}
            return self.ray.remote(look).options(runtime_env=env, **options).remote(CODE)

        nodes = [n for n in self.ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
        answers = [(node["NodeManagerAddress"], ask(node)) for node in nodes]
        ours, others = look(CODE), []
        for place, answer in answers:
            theirs = "no answer"
            with contextlib.suppress(self.ray.exceptions.RayError):
                theirs = self.ray.get(answer, timeout=LOOK)
            if theirs != ours:
                others.append(f"on {place}: {theirs}, here: {ours}")
        return "; ".join(others)


def _end_half_started(error: Exception) -> None:
    """End the processes of a node that did not start: only the frames of its failure know them."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        kill = getattr(frame.f_locals.get("self"), "kill_all_processes", None)
        if kill is not None:
            kill(check_alive=False, allow_graceful=False)


def environment() -> dict[str, str]:
    """Set what a task sees: one thread, and this labkit before any other."""
    given = {k: v for k in ("LABKIT_SLOTS",) if (v := os.environ.get(k))}
    ours = str(Path(labkit.__file__).parents[1])
    paths = [ours, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**ALONE, **given, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def packages() -> list[str]:
    """List the folders that a node must have: labkit's, and the kernels' where there are any."""
    found = [importlib.util.find_spec(name) for name in ("labkit", "normkernels")]
    return [str(Path(spec.origin).parent) for spec in found if spec and spec.origin]


def _in_words(resources: dict[str, float]) -> str:
    parts = [f"{resources[kind]:g} {kind}" for kind in ("CPU", "GPU") if resources.get(kind)]
    if memory := resources.get("memory"):
        parts.append(f"{memory / 2**30:.1f} GiB of memory")
    return " and ".join(parts) or "nothing"
