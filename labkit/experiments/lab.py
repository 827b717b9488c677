"""Lab: a chapter's interface to its size, seed and records; it runs experiments."""

import gc
import json
import os
import time
from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from labkit.display import publish_bundle
from labkit.experiments import ladder
from labkit.experiments.engines import make_engine
from labkit.experiments.engines.limits import count_resident_bytes
from labkit.experiments.experiment import Experiment, Results
from labkit.experiments.filling import MissingRuns, may_train, read_records, train_and_read
from labkit.experiments.memory import find_peak_memory, peak_bytes, read_declared_memory
from labkit.experiments.own import sources_of
from labkit.experiments.replay import first_losses
from labkit.experiments.run import CPU, Run, get_gpu_name
from labkit.experiments.store import Store
from labkit.system.pool import Pool
from labkit.system.provenance import collect_provenance
from labkit.system.root import project_root
from labkit.system.units import in_words
from labkit.system.unknown import explain_unknown
from labkit.training import Record

if TYPE_CHECKING:
    from labkit.plots import Figure

SIZES = ("book", "gpu")


def device_of(size: str) -> str:
    """Return the class of devices on which the runs of a size train."""
    return os.environ.get("LABKIT_DEVICE") or get_gpu_name() if size == "gpu" else CPU


class Lab:
    """One chapter's lab: `lab.run(experiment)` reads the records of its runs.

    In a notebook, runs without a record are trained. A build trains nothing; `make runs` does.
    With size `gpu` runs train on the GPU that torch finds; LABKIT_DEVICE names a different GPU,
    whose records were copied here. `memory` declares the peak memory of the chapter's kernel and of
    one run, to help choose the size of a server.
    """

    def __init__(
        self,
        chapter: str,
        *,
        size: str,
        seed: int,
        memory: Mapping[str, str] | None = None,
    ):
        if size not in SIZES:
            raise ValueError(explain_unknown("size", size, SIZES))
        self.chapter, self.size, self.seed = chapter, size, seed
        self._counted: set[str] = set()  # keys of the runs that were reported
        self.memory = read_declared_memory(memory)
        self.device = device_of(size)
        root = project_root()
        self.store = Store(root, self.device)
        self._engine = make_engine(root, self.device)
        # Under a build the kernel counts as one of the pool; a reader's idle kernel must not.
        self._slot = Pool(root).acquire() if os.environ.get("LABKIT_POOL") else None

    def sizes(self, **values: Any) -> SimpleNamespace:
        """Choose a chapter's sizes in one place: widths, numbers of steps, grids.

        A tuple is a pair of values, for the sizes `book` and `gpu`; any other value is for both.

            sizes = lab.sizes(
                # a pair: book, gpu
                dim=(32, 256),
                steps=400,
                rates=[1e-3, 1e-2],
            )

        Raises:
            ValueError: a tuple is not a pair.
        """
        for name, value in values.items():
            if isinstance(value, tuple) and len(value) != len(SIZES):
                raise ValueError(
                    f"a tuple must be a pair, for {' and '.join(SIZES)}, but {name} has {value!r}; "
                    "write several values as a list"
                )
        at = SIZES.index(self.size)
        return SimpleNamespace(
            **{name: of[at] if isinstance(of, tuple) else of for name, of in values.items()}
        )

    def seeds(self, count: int) -> list[int]:
        """Return `count` seeds, starting at the book's own."""
        return list(range(self.seed, self.seed + count))

    def run(self, experiment: Experiment) -> Results:
        """Read the records of an experiment's runs; train runs without one, if that is allowed.

        Raises:
            MissingRuns: a run has no record, and training is not allowed here.
        """
        rows = experiment.runs()
        self._declare_runs([run for _, run in rows])
        found, missing = read_records([run for _, run in rows], self.store)
        if missing and not may_train():
            raise MissingRuns(
                f"chapter {self.chapter} reads records, but {len(missing)} of "
                f"{len(found) + len(missing)} runs have none; train them with: "
                f"make runs ONLY={self.chapter.partition('_')[0]}"
            )
        began = time.perf_counter()
        if missing:
            found |= train_and_read(missing, self._engine)
        self._report_runs(found, len(missing), time.perf_counter() - began)
        return Results(
            tuple((labels, found[run.key()]) for labels, run in rows),
            rerun=lambda changes: self.run(experiment.change(changes)),
        )

    def ladder(self, arms: Sequence[str], also: Sequence[str] = ()) -> ladder.Ladder:
        """Read arms of the shared ladder: rows with the labels arm, rung, lr, seed and stage.

        On rung S every arm has at least a preliminary evaluation, and its missing runs are trained.
        Runs on larger rungs and variants are read if they exist. Arms in `also` are left out if
        they are not evaluated yet.

        Raises:
            MissingRuns: a run of rung S has no record, and training is not allowed here.
        """
        self._declare({"climbs": [*arms, *also]})
        first, *larger = ladder.CLIMBED
        while True:
            read = cache(self.store.read_record)  # listing the runs reads many of them repeatedly
            wanted = {arm: ladder.MethodRuns(first, arm, read).wanted for arm in arms}
            runs = [run for of_arm in wanted.values() for run in of_arm]
            found, missing = read_records(runs, self.store)
            if not missing:
                break
            if not may_train():
                keys = {run.key() for run in missing}
                lacking = [arm for arm in arms if keys & {run.key() for run in wanted[arm]}]
                raise MissingRuns(
                    f"chapter {self.chapter} needs runs of the ladder, but {len(missing)} runs of "
                    f"{', '.join(lacking)} at size {first} have no record; train them with: make "
                    "runs ONLY=ladder"
                )
            train_and_read(missing, self._engine)
        arms = [*arms, *(arm for arm in also if ladder.MethodRuns(first, arm, read).is_whole)]
        methods = [ladder.MethodRuns(rung, arm, read) for rung in (first, *larger) for arm in arms]
        runs = [run for of in methods if of.rung == first for run in of.wanted]
        more = [run for of in methods for run in of.every]
        found |= read_records(more, self.store)[0]
        self._declare_runs([*runs, *(run for run in more if run.key() in found)])
        self._report_runs(found, 0, 0.0)
        return ladder.read_ladder([first, *larger], arms, read, cache(self.store.read_recorded))

    def train_live(self, experiment: Experiment, steps: int = 200) -> "Figure | None":
        """Train the first steps of an experiment's first run here; draw them next to its record.

        It takes seconds and shows a progress bar. It does nothing if training is not allowed, as
        during a build of the book.
        """
        if not may_train():
            return None
        from labkit.plots import loss_curves

        labels, run = experiment.runs()[0]
        name = f" of {labels['arm']}" if "arm" in labels else ""
        steps = min(steps, run.train.steps)
        (_, record), *_ = self.run(Experiment(run, {"seed": [run.seed]}))
        live = first_losses(run, steps, self.device, progress=True)
        return loss_curves(
            {"recorded": [record.losses[:steps]], "live": [live]},
            ylabel="training loss (nats)",
            caption=f"The first {steps} steps{name}, of {run.train.steps:,}: as the book has them, "
            "and trained just now. To train another one, change the experiment in this cell.",
        )

    def provenance(self, *results: Results) -> dict[str, Any]:
        """Return the provenance of a figure's numbers; without results, that of this process."""
        records = [record for part in results for _, record in part]
        made = [record.provenance for record in records] or [collect_provenance()]
        origin = {name: _summarize_values([each.get(name) for each in made]) for name in made[0]}
        origin.pop("seed", None)
        return {
            **origin,
            "seeds": sorted({r.provenance["seed"] for r in records}),
            "runs": len(records),
            "cpu_seconds": round(sum(r.cpu_seconds for r in records), 1),
        }

    def close(self) -> None:
        """End the chapter: free the workers' memory, and print the memory used and still held.

        Workers also end after some time without work, and when this process ends. If the lab is
        used again, new workers start.
        """
        self._engine.close()
        gc.collect()
        torch.cuda.empty_cache()
        held = {"kernel_bytes": peak_bytes()}
        held |= find_peak_memory(self.store, self._counted)
        # Declared for the book's size and a torch without CUDA's libraries, which take memory in
        # each process, used or not.
        fair = self.size == "book" and torch.version.cuda is None
        _publish_line(
            self._format_farewell(held),
            kernel_seconds=round(time.process_time(), 1),
            memory=self.memory if fair else {},
            **held,
        )

    def _format_farewell(self, held: Mapping[str, int]) -> str:
        """Describe the peak memory of this chapter's processes, and the memory still held."""
        names = {"kernel": "in this kernel", "run": "in a run", "gpu": "of a GPU in a run"}
        peaks = [
            f"{words} {in_words(held[f'{part}_bytes'])}"
            + (f" of {in_words(self.memory[part])} declared" if part in self.memory else "")
            for part, words in names.items()
            if held[f"{part}_bytes"]
        ]
        now = f"{in_words(count_resident_bytes())} here"
        if held_there := torch.cuda.memory_reserved():
            now += f" and {in_words(held_there)} of the GPU"
        return (
            f"the workers have ended. Most memory: {', '.join(peaks)}. Still held: {now}, until "
            "the kernel is shut down"
        )

    def _declare_runs(self, runs: list[Run]) -> None:
        self._declare(
            *({"key": run.key(), "run": run.to_dict(), "own": sources_of([run])} for run in runs)
        )

    @staticmethod
    def _declare(*lines: dict[str, Any]) -> None:
        """Append a chapter's requirements to the build's file (LABKIT_DECLARED), if it is set."""
        if path := os.environ.get("LABKIT_DECLARED"):
            with open(path, "a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(line)}\n" for line in lines)

    def _report_runs(self, found: dict[str, Record], trained: int, seconds: float) -> None:
        # A run that two experiments share is counted once.
        new = [record for key, record in found.items() if key not in self._counted]
        self._counted |= set(found)
        used = sum(record.cpu_seconds for record in new)
        text = (
            f"{len(found)} runs: {len(found) - trained} from the store, {trained} trained in "
            f"{seconds:.0f} s; {used:.0f} CPU-seconds"
        )
        _publish_line(
            text, cpu_seconds=used, runs=len(found), stored=len(found) - trained, keys=sorted(found)
        )


def _summarize_values(values: Sequence[Any]) -> Any:
    """Summarize the values of several runs: one value, two, or the first and a count."""
    first, *others = dict.fromkeys(value for value in values if value) or (values[0],)
    if not others or not isinstance(first, str):
        return first
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} more'}"


def _publish_line(text: str, **facts: Any) -> None:
    """Show a line, with facts for the build, that no page or executed notebook keeps."""
    publish_bundle({"text/plain": text}, "volatile", **facts)
