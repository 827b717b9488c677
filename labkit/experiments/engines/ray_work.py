"""What a Ray task does on its node: train a task of labkit's, and answer in plain values.

    in:   {"runs": [{…}, …], "keys": […], "device": …, "root": …, "sign": …, …}, see `order`
    out:  BEGAN when a slot is there and training begins, then the stored entries of the runs,
          in order; or {"error": …} where the run takes more memory than was declared

A node that sees the driver's store keeps the records there itself: they survive the driver. What
is trained elsewhere lies in a folder of the task's own and reaches the store through the driver.
"""

import contextlib
import os
import platform
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.engines.base import Task
from labkit.experiments.engines.limits import in_words, resident
from labkit.experiments.engines.ray_sign import sees
from labkit.experiments.engines.task import complete
from labkit.experiments.own import accept, sources_of
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store, read_entry
from labkit.pool import Pool
from labkit.share import limit

BEGAN = "began"
TICK = 0.5  # seconds between two looks at the memory of a run for which some was declared


def order(
    task: Task, store: Store, sign: Path, memory: int | None = None, share: float = 1.0
) -> dict[str, Any]:
    """Write down a task for a node: JSON, which means the same everywhere.

    `sign` is a file beside the driver's store that tells a node whether it sees that store;
    `memory` is what a run may hold, in bytes; `share` is the part of a GPU that it may use.
    """
    return {
        "runs": [run.to_dict() for run in task],
        "own": sources_of(task),
        "keys": [run.key() for run in task],
        "device": store.device,
        "root": str(store.folder.parents[1]),
        "sign": str(sign),
        "says": sign.read_text(),
        "machine": machine(),
        "memory": memory,
        "share": share,
    }


def work(order: dict[str, Any]) -> Generator[Any]:
    """Carry out an order, see above."""
    torch.set_num_threads(1)
    device, here = order["device"], sees(order["sign"], order["says"])
    accept(order.get("own", {}))
    task = tuple(map(Run.from_dict, order["runs"]))
    if [run.key() for run in task] != order["keys"]:
        raise ValueError(
            "a run must have the same key everywhere, but on this node labkit's code or torch "
            f"(here {torch.__version__}) is another; install the same versions on every node"
        )
    if device != CPU and order["share"] < 1:
        limit(order["share"])  # the neighbours have the rest
    begun: Future[Any] = Future()

    @contextlib.contextmanager
    def slot() -> Iterator[None]:
        at_home = here and order["machine"] == machine()
        with Pool(Path(order["root"])).slot() if at_home else contextlib.nullcontext():
            begun.set_result(None)
            yield

    with tempfile.TemporaryDirectory(prefix="labkit-") as own, ThreadPoolExecutor(1) as thread:
        store = Store(Path(order["root"] if here else own), device)
        # In a thread, so that this one can say when it begins, and watch over it.
        training = thread.submit(complete, task, store, slot, engine="ray")
        either: list[Future[Any]] = [begun, training]
        wait(either, return_when=FIRST_COMPLETED)
        yield BEGAN
        while order["memory"] and not wait([training], timeout=TICK).done:
            if (held := resident(os.getpid()) or 0) > order["memory"]:
                yield {"error": excess(held, order["memory"])}
        training.result()
        yield [read_entry(store.path(run)) for run in task]


def machine() -> str:
    """Name this machine, so that others know whether they share its cores."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def excess(held: int, declared: int) -> str:
    """Say that a run holds more memory than was declared for it."""
    return (
        f"a run may hold {in_words(declared)} (LABKIT_RUN_MEMORY), but it holds {in_words(held)}; "
        "declare more, or train less at once"
    )
