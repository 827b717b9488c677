"""The process engine: one worker per slot, with one thread each."""

import contextlib
import math
import os
import threading
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch
from loky import ProcessPoolExecutor
from tqdm import tqdm

from labkit.experiments.engines.base import Died, Engine, Interrupted, Lost
from labkit.experiments.engines.limits import machine_memory, run_memory
from labkit.experiments.engines.task import Trained, train_in_worker
from labkit.experiments.own import sources_of
from labkit.experiments.run import CPU, Task
from labkit.system.pool import end_with
from labkit.system.share import NAME, limit_memory, read_fraction
from labkit.system.threads import build_one_thread_environment

ON_A_GPU = 4  # processes that train on it at once
IDLE = 120.0  # seconds without work after which workers end: importing torch again takes a few
START = 600.0  # seconds that a worker may take to import torch, on a starved machine
PATIENCE = 10.0  # seconds that a worker has to end a run by itself
TICK = 0.1  # seconds between two looks for an interruption
KEPT = "what finished is stored: the same command goes on"


class Processes(Engine):
    """Worker processes that live as long as a chapter.

    Each worker has its own executor, so that the death of one does not affect the others. A run
    that takes longer than `timeout` seconds, or holds more than `memory` bytes, is ended and
    reported. Idle workers end after a while; the next sweep starts new ones. On a shared GPU, all
    workers and this process together use at most LABKIT_GPU_FRACTION of its memory.
    """

    name, tries = "processes", 2

    def __init__(self, root: Path, device: str = CPU):
        super().__init__(root, device)
        self._part = None if device == CPU else part_of_gpu(self.slots)
        self.memory = run_memory() or machine_memory() // self.slots
        self._workers: dict[int, ProcessPoolExecutor] = {}  # by their place

    @property
    def slots(self) -> int:
        """Return the number of workers: one per slot, but only a few on a GPU."""
        shared = self.device != CPU and "LABKIT_SLOTS" not in os.environ
        return min(self.pool.slots, ON_A_GPU) if shared else self.pool.slots

    def train_at(self, place: int, task: Task) -> Trained:
        """Let the worker at a place train a task; end the worker if necessary."""
        seconds = self.timeout * len(task)
        try:
            worker = self._get_worker(place)
            words = (task, sources_of(task), self.device, seconds, self.memory)
            future = worker.submit(train_in_worker, *words)
            left = seconds + PATIENCE
            while not wait([future], TICK).done:
                left -= TICK
                if self.interrupted.is_set():
                    raise Interrupted
                if left < 0:
                    raise Lost(
                        f"a worker must report within {seconds:.0f} s, but this one did not and "
                        "was killed; if the run is only slow, raise the limit "
                        f"(LABKIT_RUN_TIMEOUT=7200, in seconds per run); {KEPT}"
                    )
            return future.result()
        except BrokenProcessPool as died:
            self._kill_worker(place)
            reason = " ".join(str(died).split())
            raise Died(
                f"the worker died: {reason}; if it ran out of memory, lower LABKIT_SLOTS; {KEPT}"
            ) from None
        except (Lost, Interrupted):
            self._kill_worker(place)
            raise

    def _get_worker(self, place: int) -> ProcessPoolExecutor:
        """Return the worker at a place, once it responds."""
        begins = {"initializer": initialize_worker, "initargs": (os.getpid(), self.device)}
        try:
            if place not in self._workers:
                self._workers[place] = ProcessPoolExecutor(
                    1, timeout=IDLE, env=self._build_environment(place), **begins
                )
            self._workers[place].submit(os.getpid).result(START)
        except (BrokenProcessPool, OSError, TimeoutError) as error:
            # One that worked before may have been killed since.
            raise Died(
                f"training needs a worker process, but none started: {error}; {KEPT}",
                "no worker starts here",
            ) from None
        return self._workers[place]

    def _build_environment(self, place: int) -> dict[str, str]:
        alone = build_one_thread_environment()
        # Memory in large pages, where glibc has it: training takes a few per cent less time.
        alone["GLIBC_TUNABLES"] = os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        # Loky treats growth by 300 MB as a leak and replaces the worker; a run may hold `memory`.
        alone["LOKY_MAX_MEMORY_LEAK_SIZE"] = str(self.memory)
        if self.device != CPU and "CUDA_VISIBLE_DEVICES" not in os.environ:
            alone["CUDA_VISIBLE_DEVICES"] = str(place % max(1, torch.cuda.device_count()))
        if self._part is not None:
            limit_memory(self._part)  # this process counts as one of them
            alone[NAME] = str(self._part)
        return alone

    def _kill_worker(self, place: int) -> None:
        if worker := self._workers.pop(place, None):
            worker.shutdown(kill_workers=True)

    def close(self) -> None:
        """End the workers, none of which is training."""
        for place in list(self._workers):
            self._workers.pop(place).shutdown()


def part_of_gpu(workers: int) -> float | None:
    """Return the fraction of a GPU for each worker on it, and for this process."""
    part = read_fraction()
    if part is None:
        return None
    spread = 1 if "CUDA_VISIBLE_DEVICES" in os.environ else max(1, torch.cuda.device_count())
    return part / (math.ceil(workers / spread) + 1)


def initialize_worker(parent: int, device: str) -> None:
    """Set up a worker process: low priority if requested, and an end with its parent."""
    end_with(parent)
    os.setsid()  # Ctrl-C reaches only the parent
    # Bars lock a semaphore of the system, which a worker that is killed would leave behind.
    tqdm.set_lock(threading.RLock())
    if nice := os.environ.get("LABKIT_NICE"):
        # Linux shares the cores out among sessions before it looks at nice values (sched(7)), and
        # a worker is a session of its own.
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(nice)
    if device != CPU:
        limit_memory(read_fraction())  # the worker's part of our fraction
