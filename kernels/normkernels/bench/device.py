"""The measured machine: a GPU, or in a dry run the CPU in its place."""

import gc
import shutil
import subprocess
import timeit
from collections.abc import Callable
from itertools import pairwise

import torch
from triton.testing import do_bench

READ = (
    "driver_version,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,temperature.gpu,"
    "power.draw,power.limit,utilization.gpu,memory.used"
)


class Device:
    """A CUDA device or, if `dry`, the CPU: there replays are timed once, and the cache is tiny.

    Raises:
        ValueError: torch finds no GPU.
    """

    def __init__(self, dry: bool = False):
        self.dry = dry
        if dry:
            self.name, self.processors, self.cache = "dry run", 3, 4096
            self.device = torch.device("cpu")
            return
        if not torch.cuda.is_available():
            raise ValueError(
                "the benchmark needs a GPU, but torch finds none; `--dry-run` tests the program "
                "without one"
            )
        self.device = torch.device("cuda", torch.cuda.current_device())
        found = torch.cuda.get_device_properties(self.device)
        self.name, self.processors = found.name, found.multi_processor_count
        self.cache, self.uuid = found.L2_cache_size, str(found.uuid)
        # Autograd runs a backward pass on the stream of its forward pass: all on this one.
        torch.cuda.set_stream(torch.cuda.Stream(self.device))

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Capture the launches in `run`, so that they can be repeated without Python in between.

        Triton's `do_bench_cudagraph` also captures, but on its own stream, where the backward pass
        of an earlier forward pass cannot run, and its graph cannot be replayed for a check.
        """
        run()  # compiles, loads, allocates
        if self.dry:
            return run
        run()
        torch.cuda.synchronize()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            run()
        return graph.replay

    def time_replays(self, replay: Callable[[], None]) -> list[float]:
        """Time replays for a fifth of `do_bench`'s usual time; return the seconds of each."""
        if self.dry:
            return [timeit.timeit(replay, number=1)]
        taken: list[float] = do_bench(replay, 5, 20, return_mode="all")  # type: ignore[assignment]
        return [milliseconds / 1e3 for milliseconds in taken]

    def time_calls(self, run: Callable[[], object], count: int) -> list[float]:
        """Time consecutive calls without waiting between them; return the seconds of each."""
        if self.dry:
            return timeit.repeat(run, number=1, repeat=count)
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            run()
            mark.record()
        torch.cuda.synchronize()
        return [first.elapsed_time(then) / 1e3 for first, then in pairwise(marks)]

    def start_peak(self) -> None:
        """Start measuring torch's peak memory."""
        if not self.dry:
            torch.cuda.reset_peak_memory_stats()

    def read_peak(self) -> int | None:
        """Return torch's peak memory since `start_peak`; None if it is not measured."""
        return None if self.dry else torch.cuda.max_memory_allocated()

    def synchronize(self) -> None:
        """Wait for the device; raise an error if it has been lost."""
        if not self.dry:
            torch.cuda.synchronize()

    def free(self) -> None:
        """Free the memory of finished measurements."""
        gc.collect()
        torch.cuda.empty_cache()

    def read_clocks(self) -> dict[str, str]:
        """Read driver, clocks, power and temperature; nothing is changed."""
        if self.dry or not shutil.which("nvidia-smi"):
            return {}
        gpu = f"--id=GPU-{self.uuid.removeprefix('GPU-')}"
        words = ["nvidia-smi", gpu, f"--query-gpu={READ}", "--format=csv,noheader"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        names, values = READ.split(","), done.stdout.strip().split(", ")
        return dict(zip(names, values, strict=True)) if len(values) == len(names) else {}
