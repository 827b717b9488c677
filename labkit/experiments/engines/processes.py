"""The process engine: one worker a core, one thread each, that train what the store lacks."""

import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from labkit.experiments.engines.base import FULL, Task
from labkit.experiments.engines.limits import run_memory, run_timeout
from labkit.experiments.engines.waiting import Waiting, name_of
from labkit.experiments.engines.worker_process import Died, LetGo, Lost, WorkerProcess
from labkit.experiments.run import CPU
from labkit.pool import Pool
from labkit.share import NAME, divided, limit

ON_A_GPU = 4  # processes that train on it at once
IDLE = 120.0  # seconds without work after which workers end: importing torch again takes a few
KEPT = "what finished is stored: the same command goes on"
LOG = logging.getLogger(__name__)


class Processes:
    """Worker processes that stay for the life of a chapter.

    A task whose worker dies is trained once more by another. A run that takes longer than
    `timeout` seconds, or holds more than `memory` bytes, is ended and reported. Workers that have
    nothing to do for a while end; the next sweep starts new ones. Of a GPU that others use too, all
    of them and this process together take the part that LABKIT_GPU_FRACTION says.
    """

    name = "processes"

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        self.root, self.device, self.slots = Path(root), device, Pool(root).slots
        if device != CPU and "LABKIT_SLOTS" not in os.environ:
            self.slots = min(self.slots, ON_A_GPU)  # it may be shared
        self.timeout, self.memory = run_timeout(), run_memory(self.slots)
        self._idle: dict[int, WorkerProcess] = {}  # by the place at which it works
        self._busy: dict[int, threading.Thread] = {}
        self._let_go = threading.Event()
        self._rest: threading.Timer | None = None

    def train(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; see Engine.train."""
        self._stay()
        if self.device != CPU:
            limit(self._part())
        waiting, ended = Waiting(tasks, until), queue.SimpleQueue[int | None]()
        # A thread of a call that was interrupted may still watch over its last task.
        busy = [place for place, thread in self._busy.items() if thread.is_alive()]
        places = [place for place in range(self.slots + len(busy)) if place not in busy]
        threads = {
            place: threading.Thread(target=self._feed, args=(place, waiting, ended), daemon=True)
            for place in places[: min(self.slots, len(tasks))]
        }
        self._busy |= threads
        for thread in threads.values():
            thread.start()
        try:
            working = len(threads)
            while working:
                if (count := ended.get()) is None:
                    working -= 1
                else:
                    done(count)
        except BaseException:
            waiting.stop("the sweep was interrupted")
            raise
        finally:
            self._rest = threading.Timer(IDLE, self._dismiss)
            self._rest.daemon = True
            self._rest.start()
        waiting.check()

    def _feed(self, place: int, waiting: Waiting, ended: queue.SimpleQueue[int | None]) -> None:
        let_go = self._let_go
        try:
            while not let_go.is_set() and (task := waiting.next()) is not None:
                began, failure = time.monotonic(), None
                try:
                    answer = self._ask(place, task, let_go)
                    if "error" in answer:
                        failure = answer["error"]
                    if answer.get("full"):
                        waiting.stop(FULL)
                except LetGo:
                    return
                except Lost as lost:
                    twice = "twice, the last time: " if isinstance(lost, Died) else ""
                    failure = f"{twice}{lost}; {KEPT}"
                    if isinstance(lost, Died) and not lost.ready:
                        waiting.stop("no worker starts here; its last words are above")
                except OSError as error:
                    failure = f"no worker could be started ({error}); {KEPT}"
                    waiting.stop("no worker starts here")
                failure = failure and f"{name_of(task)}\n{failure}"
                waiting.ended(time.monotonic() - began, failure)
                ended.put(len(task))
        finally:
            ended.put(None)

    def _ask(self, place: int, task: Task, let_go: threading.Event) -> dict:
        """Have a task trained, a second time when the first worker died of it."""
        limit = self.timeout * len(task)
        for last in (False, True):
            worker = self._idle.pop(place, None) or self._start(place)
            try:
                answer = worker.train(task, limit, self.memory, let_go)
            except Died as died:
                if last:
                    raise
                LOG.warning("%s; %s is trained once more", died, name_of(task))
            else:
                self._idle[place] = worker
                return answer
        raise AssertionError("the second attempt either returns or raises")

    def _start(self, place: int) -> WorkerProcess:
        alone = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        # Memory in large pages, where glibc has it: training takes a few per cent less time.
        alone["GLIBC_TUNABLES"] = os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        if self.device != CPU and "CUDA_VISIBLE_DEVICES" not in os.environ:
            alone["CUDA_VISIBLE_DEVICES"] = str(place % max(1, torch.cuda.device_count()))
        if self.device != CPU and (part := self._part()) is not None:
            alone[NAME] = str(part)
        return WorkerProcess(self.root, self.device, alone)

    def _part(self) -> float | None:
        """Say which part of a GPU is for each of the processes on it."""
        spread = 1 if "CUDA_VISIBLE_DEVICES" in os.environ else max(1, torch.cuda.device_count())
        return divided(math.ceil(self.slots / spread))

    def _stay(self) -> None:
        """Let the workers be: there is work, or they are ended otherwise."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest.join()  # where it came first, the workers are ending now

    def _dismiss(self) -> None:
        """End the workers that wait for work."""
        idle, self._idle = self._idle, {}
        for worker in idle.values():
            worker.let_go()
        for worker in idle.values():
            worker.close()

    def close(self) -> None:
        """Let the workers go; one that trains finishes the task in hand, and is not waited for."""
        self._stay()
        self._let_go.set()
        for thread in self._busy.values():
            thread.join()  # soon: they look for this every tick
        self._dismiss()
        self._busy, self._let_go = {}, threading.Event()
