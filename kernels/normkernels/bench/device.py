"""The machine that is measured: a GPU, or the stand-in of a dry run.

Everything that only a GPU can do is behind these few methods; the rest of the benchmark does not
know the difference.
"""

import gc
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

_READ = (
    "driver_version,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,temperature.gpu,"
    "power.draw,power.limit,utilization.gpu,memory.used"
)


class Gpu:
    """A CUDA device: replays of a captured graph, timed by the device's own events."""

    dry, busy, rounds, replays, calls = False, 2e-3, 8, 5, 20

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ValueError("torch sees no GPU here; `--dry-run` goes through it without one")
        self.device = torch.device("cuda", torch.cuda.current_device())
        found = torch.cuda.get_device_properties(self.device)
        self.name, self.processors = found.name, found.multi_processor_count
        self.cache, self.uuid = found.L2_cache_size, str(found.uuid)
        # Autograd runs a backward pass on the stream of its forward pass: all on this one.
        self.stream = torch.cuda.Stream(self.device)

    def working(self) -> AbstractContextManager:
        """Enclose everything that is measured."""
        return torch.cuda.stream(self.stream)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Record what `run` launches, so that it can be repeated without Python in between."""
        for _ in range(2):
            run()  # compiles, loads, allocates
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            run()
        return graph.replay

    def seconds(self, replay: Callable[[], None], times: int) -> list[float]:
        """Time replays, after one that drives the other providers' data out of the cache."""
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(times)]
        replay()
        for start, end in marks:
            start.record()
            replay()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in marks]

    def synchronize(self) -> None:
        """Wait for the device; raises when it has been lost."""
        torch.cuda.synchronize()

    def free(self) -> None:
        """Give back the memory of what was measured."""
        gc.collect()
        torch.cuda.empty_cache()

    def facts(self) -> dict:
        """Return what the device is; results of different facts are never mixed."""
        return {
            "device": self.name,
            "processors": self.processors,
            "l2_bytes": self.cache,
            "driver": self.clocks().get("driver_version"),
            "cuda": torch.version.cuda,
        }

    def clocks(self) -> dict[str, str]:
        """Read clocks, power and temperature; nothing is set."""
        if not shutil.which("nvidia-smi"):
            return {}
        query = ["nvidia-smi", f"--query-gpu={_READ}", "--format=csv,noheader"]
        done = subprocess.run(
            [*query, f"--id=GPU-{self.uuid.removeprefix('GPU-')}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        values = [value.strip() for value in done.stdout.strip().split(",")]
        names = _READ.split(",")
        return dict(zip(names, values, strict=True)) if len(values) == len(names) else {}


class Pretend:
    """The dry run's stand-in: replays are calls, wall-clock time, and a tiny cache."""

    dry, busy, rounds, replays, calls = True, 0.0, 2, 1, 1
    name, processors, cache = "dry run", 3, 4096
    device = torch.device("cpu")

    def working(self) -> AbstractContextManager:
        """Enclose everything that is measured."""
        return nullcontext()

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return the calls themselves."""
        run()
        return run

    def seconds(self, replay: Callable[[], None], times: int) -> list[float]:
        """Time by the wall clock."""
        taken = []
        for _ in range(times):
            start = time.perf_counter()
            replay()
            taken.append(time.perf_counter() - start)
        return taken

    def synchronize(self) -> None:
        """Wait for nothing."""

    def free(self) -> None:
        """Keep everything."""

    def facts(self) -> dict:
        """Say that nothing here was measured."""
        return {"device": self.name, "processors": 3, "l2_bytes": self.cache, "driver": None,
                "cuda": None}  # fmt: skip

    def clocks(self) -> dict[str, str]:
        """Read none."""
        return {}


def host_seconds(device: "Gpu | Pretend", call: Callable[[], object]) -> float:
    """Time what a call costs the host: a queue of few calls, which never fills, then a wait."""
    device.synchronize()
    start = time.perf_counter()
    for _ in range(device.calls):
        call()
    taken = time.perf_counter() - start
    device.synchronize()
    return taken / device.calls
