"""The machine that is measured: a GPU, or the stand-in of a dry run.

Everything that only a GPU can do is behind these few methods; the rest of the benchmark does not
know the difference.
"""

import gc
import shutil
import subprocess
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from triton.testing import do_bench

FIFTHS = (0.2, 0.5, 0.8)
_READ = (
    "driver_version,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,temperature.gpu,"
    "power.draw,power.limit,utilization.gpu,memory.used"
)


class Gpu:
    """A CUDA device: replays of a captured graph, timed by Triton's `do_bench`."""

    dry = False
    busy = 2e-3  # seconds of one replay, at least
    turns = 5  # in which the host is timed

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ValueError("torch sees no GPU here; `--dry-run` goes through it without one")
        self.device = torch.device("cuda", torch.cuda.current_device())
        found = torch.cuda.get_device_properties(self.device)
        self.name, self.processors = found.name, found.multi_processor_count
        self.cache, self.uuid = found.L2_cache_size, str(found.uuid)
        # Autograd runs a backward pass on the stream of its forward pass: all on this one.
        self.stream = torch.cuda.Stream(self.device)

    def work(self) -> AbstractContextManager:
        """Enclose everything that is measured."""
        return torch.cuda.stream(self.stream)

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Record what `run` launches, so that it can be repeated without Python in between.

        Triton's `do_bench_cudagraph` captures too, but on a stream of its own, where no backward
        pass of a forward pass from before can be, and its graph cannot be replayed for a check.
        """
        for _ in range(2):
            run()  # compiles, loads, allocates
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            run()
        return graph.replay

    def time_replays(self, replay: Callable[[], None]) -> list[float]:
        """Time replays: the 20th percentile of seconds, the median, the 80th percentile."""
        taken: list[float] = do_bench(replay, quantiles=FIFTHS)  # type: ignore[assignment]
        return [milliseconds / 1e3 for milliseconds in taken]

    def synchronize(self) -> None:
        """Wait for the device; raises when it has been lost."""
        torch.cuda.synchronize()

    def free(self) -> None:
        """Give back the memory of what was measured."""
        gc.collect()
        torch.cuda.empty_cache()

    def describe(self) -> dict:
        """Return what the device is; results of different devices are never mixed."""
        return {
            "device": self.name,
            "processors": self.processors,
            "l2_bytes": self.cache,
            "driver": self.read_clocks().get("driver_version"),
            "cuda": torch.version.cuda,
        }

    def read_clocks(self) -> dict[str, str]:
        """Read clocks, power and temperature; nothing is set."""
        if not shutil.which("nvidia-smi"):
            return {}
        gpu = f"--id=GPU-{self.uuid.removeprefix('GPU-')}"
        words = ["nvidia-smi", gpu, f"--query-gpu={_READ}", "--format=csv,noheader"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        names, values = _READ.split(","), done.stdout.strip().split(", ")
        return dict(zip(names, values, strict=True)) if len(values) == len(names) else {}


class Pretend:
    """The dry run's stand-in: replays are calls, wall-clock time, and a tiny cache."""

    dry, busy, turns = True, 0.0, 1
    name, processors, cache = "dry run", 3, 4096
    device = torch.device("cpu")

    def work(self) -> AbstractContextManager:
        """Enclose everything that is measured."""
        return nullcontext()

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return the calls themselves."""
        run()
        return run

    def time_replays(self, replay: Callable[[], None]) -> list[float]:
        """Time one replay by the wall clock."""
        return [timeit.timeit(replay, number=1)] * 3

    def synchronize(self) -> None:
        """Wait for nothing."""

    def free(self) -> None:
        """Keep everything."""

    def describe(self) -> dict:
        """Say that nothing here was measured."""
        facts = {"device": self.name, "processors": self.processors, "l2_bytes": self.cache}
        return facts | {"driver": None, "cuda": None}

    def read_clocks(self) -> dict[str, str]:
        """Read none."""
        return {}
