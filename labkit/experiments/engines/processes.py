"""The process engine: one worker a core, one thread each, that train what the store lacks."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from labkit.experiments.engines.base import Task
from labkit.experiments.run import CPU
from labkit.pool import Pool

ON_A_GPU = 4  # processes that train on it at once


class Processes:
    """Worker processes that stay for the life of a chapter."""

    name = "processes"

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        self.root, self.device, self.slots = Path(root), device, Pool(root).slots
        if device != CPU and "LABKIT_SLOTS" not in os.environ:
            self.slots = min(self.slots, ON_A_GPU)  # it may be shared
        self._workers: list[subprocess.Popen] = []

    def train(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; see Engine.train."""
        self._until, self._longest = until, 0.0
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        failures: list[str] = []
        threads = [
            threading.Thread(target=self._feed, args=(i, waiting, failures, done), daemon=True)
            for i in range(min(self.slots, len(tasks)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise RuntimeError(
                f"{len(failures)} of {len(tasks)} tasks failed; the first:\n{failures[0]}"
            )

    def _feed(
        self, index: int, waiting, failures: list[str], done: Callable[[int], object]
    ) -> None:
        while True:
            began = time.monotonic()
            if self._until is not None and began + self._longest > self._until:
                return
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            worker = self._worker(index)
            assert worker.stdin and worker.stdout
            try:
                worker.stdin.write(json.dumps([run.to_dict() for run in task]) + "\n")
                worker.stdin.flush()
                line = worker.stdout.readline()
            except OSError:
                line = ""
            if not line:
                code = worker.wait()
                failures.append(
                    f"a worker ended (code {code}) while it trained {task}; if it was killed for "
                    "memory, lower LABKIT_SLOTS; what finished is stored: build again"
                )
            elif "error" in (answer := json.loads(line)):
                failures.append(f"{task}\n{answer['error']}")
            self._longest = max(self._longest, time.monotonic() - began)
            done(len(task))

    def _worker(self, index: int) -> subprocess.Popen:
        while len(self._workers) <= index:
            self._workers.append(self._start())
        if self._workers[index].poll() is not None:
            self._workers[index] = self._start()
        return self._workers[index]

    def _start(self) -> subprocess.Popen:
        alone = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        if self.device != CPU and "CUDA_VISIBLE_DEVICES" not in os.environ:
            count = max(1, torch.cuda.device_count())
            alone["CUDA_VISIBLE_DEVICES"] = str(len(self._workers) % count)
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "labkit.experiments.engines.worker",
                str(self.root),
                self.device,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **alone},
        )

    def close(self) -> None:
        """Let the workers go; each finishes the run in hand."""
        for worker in self._workers:
            assert worker.stdin and worker.stdout
            worker.stdin.close()
            worker.stdout.close()
            worker.wait()
        self._workers = []
