"""How many students a server holds at a time, chapter by chapter.

    memory of a student = kernel + workers · run
    by memory = memory of the server / memory of a student
    by cores  = cores · lesson / CPU-seconds of a student
    on a GPU  = memory of the GPU / ((workers + 1) · memory of a run on it)

Everybody trains all runs of the chapter anew, in one lesson and with size `book`; on a GPU with
size `gpu`, where a student's part is divided by the workers and the kernel (labkit.system.share).
The numbers are those that a chapter declares in its Lab; what a build on this machine measured
stands in their place where it is more. Of a GPU only measured numbers count.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.system.units import in_words, parse_bytes
from press.book import chapters, facts, state
from press.book.percent import cells_of
from press.site.outline import read_memory

LESSON = 90.0  # minutes
UNKNOWN = "not measured"


@dataclass(frozen=True)
class Server:
    """What there is to share out; `workers` train at a time for each student (LABKIT_SLOTS)."""

    cores: int
    memory: int  # bytes
    gpu_memory: int | None = None  # bytes of one GPU
    workers: int = 2
    minutes: float = LESSON

    def __post_init__(self) -> None:
        for name in ("cores", "memory", "workers", "minutes"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"the {name} of a server must be above 0, got {getattr(self, name)}"
                )


@dataclass(frozen=True)
class Need:
    """What one student takes with one chapter; None or 0 where nobody declared or measured it."""

    chapter: str
    seconds: float = 0.0  # processor time: all runs, and the kernel where it was measured
    kernel: int = 0  # bytes
    run: int = 0  # bytes of a worker
    gpu: int = 0  # bytes of a run on a GPU

    def count_bytes(self, workers: int) -> int:
        """Count the bytes of a kernel and its workers; 0 where nothing is known."""
        return self.kernel + workers * self.run if self.kernel and self.run else 0

    def estimate_minutes(self, server: Server) -> float | None:
        """Return how many minutes a student waits whom nobody disturbs."""
        return self.seconds / min(server.workers, server.cores) / 60 if self.seconds else None

    def by_memory(self, server: Server) -> int | None:
        """Count the students whom the server's memory holds."""
        each = self.count_bytes(server.workers)
        return server.memory // each if each else None

    def by_cores(self, server: Server) -> int | None:
        """Count the students whose runs the cores train within the lesson."""
        if not self.seconds:
            return None
        return int(server.cores * server.minutes * 60 / self.seconds)

    def count_students(self, server: Server) -> int | None:
        """Count the students at a time: by memory or by cores, whichever is less."""
        counts = [self.by_memory(server), self.by_cores(server)]
        return min((n for n in counts if n is not None), default=None)

    def of_a_gpu(self, workers: int) -> int:
        """Count the bytes of a GPU that a student's part must have; 0 where nothing is known."""
        return (workers + 1) * self.gpu

    def on_a_gpu(self, server: Server) -> int | None:
        """Count the students who share one GPU by its memory."""
        each = self.of_a_gpu(server.workers)
        return server.gpu_memory // each if each and server.gpu_memory else None


def build_need(
    name: str,
    seconds: float,
    memory: Mapping[str, str],
    built: Mapping[str, Mapping[str, Any]],
) -> Need:
    """Put together what a chapter declares and what its builds measured, by size."""
    cpu, gpu = built.get("book", {}), built.get("gpu", {})

    def choose_larger(part: str) -> int:
        said = parse_bytes(memory[part]) if part in memory else 0
        return max(said, int(cpu.get(f"{part}_bytes", 0)))

    runs = max(seconds, cpu.get("cpu_seconds", 0.0))
    own = cpu.get("kernel_seconds", 0.0)
    return Need(
        name,
        runs + own,
        choose_larger("kernel"),
        choose_larger("run"),
        int(gpu.get("gpu_bytes", 0)),
    )


def read_needs(
    root: Path, only: Iterable[str] | None = None, *, measured: bool = True
) -> list[Need]:
    """Read what each chapter needs; without `measured` from what it declares alone."""
    found = []
    for chapter in chapters.choose_chapters(chapters.find_chapters(root), only):
        cells = cells_of(chapter.source.read_text(encoding="utf-8"))
        code = [cell.source for cell in cells if cell.kind == "code"]
        built = {
            size: state.read_state(root, size, chapter.name) or {}
            for size in (("book", "gpu") if measured else ())
        }
        seconds, memory = recorded_seconds(root, chapter.name), read_memory(code)
        found.append(build_need(chapter.name, seconds, memory, built))
    return found


def recorded_seconds(root: Path, name: str) -> float:
    """Add up the processor time of a chapter's recorded runs."""
    path = root / "data" / "records" / f"{chapters.read_number(name)}.jsonl"
    if not path.is_file():
        return 0.0
    with path.open(encoding="utf-8") as lines:
        return sum(json.loads(line)["cpu_seconds"] for line in lines)


def format_table(found: Iterable[Need], server: Server) -> str:
    """Write the table in Markdown, and below it what it counts."""
    head = ("chapter", "memory", "CPU-s", "alone", "by memory", "by cores", "at a time")
    head += ("GPU memory", "on a GPU")
    rows = []
    for one in found:
        each, gpu = one.count_bytes(server.workers), one.of_a_gpu(server.workers)
        alone = one.estimate_minutes(server)
        rows.append(
            (
                one.chapter,
                in_words(each) if each else UNKNOWN,
                f"{one.seconds:,.0f}" if one.seconds else UNKNOWN,
                f"{alone:.1f} min" if alone else UNKNOWN,
                _format_count(one.by_memory(server)),
                _format_count(one.by_cores(server)),
                _format_count(one.count_students(server)),
                in_words(gpu) if gpu else UNKNOWN,
                _format_count(one.on_a_gpu(server)),
            )
        )
    return f"{facts.format_table(head, rows, numbers=True)}\n\n{describe_server(server)}"


def describe_server(server: Server) -> str:
    """Return for which server the table is, and what it takes for granted."""
    gpu = f" and a GPU of {in_words(server.gpu_memory)}" if server.gpu_memory else ""
    return (
        f"For a server of {server.cores} cores, {in_words(server.memory)} of memory{gpu}; each "
        f"student trains with {server.workers} workers (LABKIT_SLOTS), and everybody trains a "
        f"whole chapter within {server.minutes:g} minutes. Memory is the sum of resident sizes, "
        "so that pages which processes share count several times; a GPU's is what torch takes, "
        "so that each process' context comes on top. With n students on a GPU, give each a "
        "LABKIT_GPU_FRACTION of 1/n or less."
    )


def _format_count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"
