"""Lab: what a chapter opens. It knows the profile, the seed and the store, and runs experiments."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from labkit import share
from labkit.experiments import courtesy
from labkit.experiments.engines import make_engine
from labkit.experiments.experiment import Experiment, Results
from labkit.experiments.filling import fill, read
from labkit.experiments.memory import peak_bytes
from labkit.experiments.run import CPU, gpu
from labkit.experiments.store import Store
from labkit.pool import Pool
from labkit.provenance import provenance
from labkit.training import Record

PROFILES = ("smoke", "cpu", "full", "gpu")
T = TypeVar("T")


class MissingRuns(RuntimeError):
    """Say that runs have no record, where LABKIT_TRAIN=never forbids to train them."""


def project_root() -> Path:
    """Find the folder whose .labkit holds the store: LABKIT_ROOT, or the nearest with chapters/."""
    if named := os.environ.get("LABKIT_ROOT"):
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "chapters").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    return here


def device_of(profile: str) -> str:
    """Name the class of devices on which a profile's runs train."""
    return os.environ.get("LABKIT_DEVICE") or gpu() if profile == "gpu" else CPU


class Lab:
    """One chapter's bench: `lab.run(experiment)` trains what the store lacks.

    `cpu_seconds` declares, by profile, the processor time of all the chapter's runs (for `gpu` as
    for `full`, unless it is given), and `memory` what its kernel and one run hold at most with
    profile `cpu`; the build goes red when they take a quarter more. With profile `gpu` runs train
    on the GPU that torch sees. LABKIT_DEVICE names another, whose records came here from elsewhere.
    """

    def __init__(
        self,
        chapter: str,
        *,
        profile: str,
        seed: int,
        cpu_seconds: dict[str, float],
        memory: Mapping[str, str] | None = None,
    ):
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}; choose one of {', '.join(PROFILES)}")
        if {*cpu_seconds, "gpu"} != set(PROFILES):
            needed = PROFILES[:-1]
            raise ValueError(f"cpu_seconds must name each of {needed}, got {sorted(cpu_seconds)}")
        self.chapter, self.profile, self.seed = chapter, profile, seed
        self._counted: set[str] = set()  # keys of the runs whose seconds were told
        self.declared = cpu_seconds.get(profile, cpu_seconds["full"])
        self.memory = courtesy.declared(memory)
        self.device = device_of(profile)
        root = project_root()
        self.store, self._pool = Store(root, self.device), Pool(root)
        self._engine = make_engine(root, self.device)
        # Under a build the kernel counts as one of the pool; a reader's idle kernel must not.
        self._slot = self._pool.acquire() if os.environ.get("LABKIT_POOL") else None

    def pick(self, *, smoke: T, cpu: T, full: T, gpu: T | None = None) -> T:
        """Choose by profile: the same code, other sizes; `gpu` is as `full` unless it is given."""
        sizes = {"smoke": smoke, "cpu": cpu, "full": full, "gpu": full if gpu is None else gpu}
        return sizes[self.profile]

    def seeds(self, *, smoke: int, cpu: int, full: int, gpu: int | None = None) -> list[int]:
        """Give as many seeds as the profile asks for, counted from the book's own."""
        count = self.pick(smoke=smoke, cpu=cpu, full=full, gpu=gpu)
        return list(range(self.seed, self.seed + count))

    def run(self, experiment: Experiment) -> Results:
        """Train the runs that the store lacks, on the one pool, and return all records."""
        rows = experiment.runs()
        found, missing = read([run for _, run in rows], self.store)
        began = time.perf_counter()
        if missing and os.environ.get("LABKIT_TRAIN") == "never":
            raise MissingRuns(
                f"LABKIT_TRAIN=never: no run is trained here, but {len(missing)} of "
                f"{len(found) + len(missing)} have no record; `make book` trains them"
            )
        if missing:
            with self._slot_lent():
                found |= fill(missing, self.store, self._engine)
        self._say(found, len(missing), time.perf_counter() - began)
        return Results(tuple((labels, found[run.key(self.device)]) for labels, run in rows))

    def provenance(self, *results: Results) -> dict[str, Any]:
        """Say where the numbers of a figure come from; without results, this process."""
        records = [record for part in results for _, record in part]
        origin = dict(records[0].provenance) if records else provenance()
        origin.pop("seed", None)
        return {
            **origin,
            "seeds": sorted({r.provenance["seed"] for r in records}),
            "runs": len(records),
            "cpu_seconds": round(sum(r.cpu_seconds for r in records), 1),
        }

    def close(self) -> None:
        """End the chapter: free what its runs held, and say what they took and what is left.

        Workers also end after a while without work, and when this process ends. The lab can be
        used again: then new ones start.
        """
        self._engine.close()
        courtesy.collect()
        share.release()
        held = {"kernel_bytes": peak_bytes()}
        held |= courtesy.largest(self.store.folder, self._counted)
        fair = courtesy.comparable(self.profile, self._engine.name)
        self._publish(
            courtesy.farewell(held, self.memory),
            kernel_seconds=round(time.process_time(), 1),
            memory=self.memory if fair else {},
            **held,
        )

    @contextlib.contextmanager
    def _slot_lent(self) -> Iterator[None]:
        """Let the workers have this process' slot for the length of a block."""
        if self._slot is not None:
            self._pool.release(self._slot)
        try:
            yield
        finally:
            if self._slot is not None:
                self._slot = self._pool.acquire()

    def _say(self, found: dict[str, Record], trained: int, seconds: float) -> None:
        # A run that two experiments share is counted once.
        new = [record for key, record in found.items() if key not in self._counted]
        self._counted |= set(found)
        used = sum(record.cpu_seconds for record in new)
        text = (
            f"{len(found)} runs: {len(found) - trained} from the store, {trained} trained in "
            f"{seconds:.0f} s; {used:.0f} CPU-seconds"
        )
        self._publish(
            text,
            cpu_seconds=used,
            declared=self.declared,
            runs=len(found),
            stored=len(found) - trained,
        )

    @staticmethod
    def _publish(text: str, **facts: Any) -> None:
        """Print a line; in a notebook with facts for the build, and in no page or twin."""
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if get_ipython() is None:
            print(text)
            return
        summary = {"kind": "volatile", **facts}
        display({"text/plain": text}, raw=True, metadata={"labkit": summary})
