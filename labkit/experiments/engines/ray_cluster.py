"""The Ray that trains: one of our own on this machine, or a cluster that somebody started."""

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import traceback
from typing import Any, ClassVar
from unittest import mock

from labkit.experiments.engines.ray_code import (
    ALONE,
    LOOK,
    SILENT,
    environment,
    ours,
    packages,
    strangers,
)
from labkit.experiments.engines.ray_needs import places
from labkit.experiments.engines.ray_work import work

OBJECTS = 100 * 2**20  # bytes for what travels between processes: records are small
# A worker that waits for its next task stays: a new one would import torch again.
PATIENT = {"idle_worker_killing_time_threshold_ms": 600_000}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
KNOCK = 10  # seconds that the head of a cluster may take to answer


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
        self._on_sigterm = signal.getsignal(signal.SIGTERM)
        if self.ours and address is None:
            self._start(slots)
        elif self.ours:
            self._join(address)
        elif wrong := self._elsewhere(address) or self._strangers(time.monotonic() + LOOK):
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
        return places(nodes, self.needs)

    def close(self) -> None:
        """Leave a cluster, which runs on; end a Ray of our own."""
        if self.ours and self.ray.is_initialized():
            self._leave()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _leave(self) -> None:
        self.ray.shutdown()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_sigterm)  # Ray had put its own there

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
        until = time.monotonic() + LOOK
        self._connect(address)
        wrong = self._strangers(until)
        if wrong and SILENT not in wrong:
            # Ray sends packages only when it connects.
            self.ray.shutdown()
            self.env = dict(ALONE)
            self._connect(address, {"py_modules": packages(), "excludes": ["**/__pycache__"]})
            wrong = self._strangers(until)
        if wrong:
            self._leave()
            raise RuntimeError(
                "every node must run the same labkit and torch, also after labkit was sent "
                f"there, but not so {wrong}; install what is missing on these nodes, end those "
                "that do not answer (`ray stop`), and the same command goes on"
            )

    def _connect(self, address: str | None, runtime_env: dict[str, Any] | None = None) -> None:
        try:
            self._knock(address)
            self.ray.init(address, runtime_env=runtime_env, **QUIET)
        except self.ray.exceptions.AuthenticationError as error:
            raise RuntimeError(
                f"the Ray cluster at {address!r} takes only who knows its token, and none, or "
                "another, is here: copy the file ~/.ray/auth_token of its head to the same place, "
                "and `export RAY_AUTH_MODE=token` before the same command"
            ) from error
        except (OSError, ValueError, RuntimeError, self.ray.exceptions.RayError) as error:
            raise RuntimeError(
                f"there must be a Ray cluster at {address!r}, but none answers ({error}); start "
                "one with `ray start --head`, or leave the address out to train on this machine"
            ) from error

    def _knock(self, address: str | None) -> None:
        """Fail at once where nobody listens, or wants another token: Ray itself tries for minutes.

        What is wrong with an address is left to Ray to say.
        """
        from ray._private import services
        from ray._private.authentication import authentication_token_setup as tokens
        from ray._raylet import GcsClient  # pyright: ignore[reportAttributeAccessIssue] # compiled

        if address == "auto":
            tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
            address = services.canonicalize_bootstrap_address(address)
        host, _, port = (address or "").rpartition(":")
        if host and port.isdigit():
            socket.create_connection((host, int(port)), timeout=KNOCK).close()
            # Asked first, since the next line ends the whole process where there is none.
            tokens.ensure_token_if_auth_enabled(create_token_if_missing=False)
            GcsClient(address=address)

    def _elsewhere(self, address: str | None) -> str:
        """Say where Ray is connected to, where that is not what was asked for."""
        there = self.ray.get_runtime_context().gcs_address
        # One host has several names, so the port must do.
        same = address in (None, "auto") or address.rpartition(":")[2] == there.rpartition(":")[2]
        return "" if same else f"to {there}, and {address} was asked for"

    def _strangers(self, until: float) -> str:
        """Name the nodes whose labkit differs, and how."""
        found = strangers(self.ray, self.env, until)
        return "; ".join(f"on {place}: {theirs}, here: {ours()}" for place, theirs in found)


def _end_half_started(error: Exception) -> None:
    """End the processes of a node that did not start: only the frames of its failure know them."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        kill = getattr(frame.f_locals.get("self"), "kill_all_processes", None)
        if kill is not None:
            kill(check_alive=False, allow_graceful=False)
