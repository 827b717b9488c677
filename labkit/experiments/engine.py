"""The process engine: one worker a core, one thread each, that train what the store lacks."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from labkit.experiments.run import Run
from labkit.experiments.store import Store
from labkit.pool import Pool


class Engine:
    """Worker processes that stay for the life of a chapter."""

    def __init__(self, root: Path):
        self.root, self.store, self.slots = Path(root), Store(root), Pool(root).slots
        self._workers: list[subprocess.Popen] = []

    def train(self, runs: Sequence[Run], done: Callable[[], object] = lambda: None) -> None:
        """Train every run that the store lacks; call `done` after each.

        A run that fails does not stop the others; at the end the first failure is raised.
        """
        waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
        for run in runs:
            waiting.put(run)
        failures: list[str] = []
        threads = [
            threading.Thread(target=self._feed, args=(i, waiting, failures, done), daemon=True)
            for i in range(min(self.slots, len(runs)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise RuntimeError(
                f"{len(failures)} of {len(runs)} runs failed; the first:\n{failures[0]}"
            )

    def _feed(self, index: int, waiting, failures: list[str], done: Callable[[], object]) -> None:
        while True:
            try:
                run = waiting.get_nowait()
            except queue.Empty:
                return
            worker = self._worker(index)
            assert worker.stdin and worker.stdout
            try:
                worker.stdin.write(json.dumps(run.to_dict()) + "\n")
                worker.stdin.flush()
                line = worker.stdout.readline()
            except OSError:
                line = ""
            if not line:
                code = worker.wait()
                failures.append(
                    f"a worker ended (code {code}) while it trained {run}; if it was killed for "
                    "memory, lower LABKIT_SLOTS; what finished is stored: build again"
                )
            elif "error" in (answer := json.loads(line)):
                failures.append(f"{run}\n{answer['error']}")
            done()

    def _worker(self, index: int) -> subprocess.Popen:
        while len(self._workers) <= index:
            self._workers.append(self._start())
        if self._workers[index].poll() is not None:
            self._workers[index] = self._start()
        return self._workers[index]

    def _start(self) -> subprocess.Popen:
        alone = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        return subprocess.Popen(
            [sys.executable, "-m", "labkit.experiments.worker", str(self.root)],
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
