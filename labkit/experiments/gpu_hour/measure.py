"""Small measurements of an hour on a GPU; each leaves a file in its folder.

who         what computes here, with which versions
check       does it compute what is recorded, alone and as a batched model?
replicates  is training 64 models together at least three times as fast as one after another?
control     do arms that were recorded on a CPU end where they end here, from the same seeds?
"""

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy
import torch

from labkit.experiments import ladder
from labkit.experiments.records import FIRST
from labkit.experiments.replay import OPENING, shorten_run
from labkit.experiments.replicates import bench, execute_together
from labkit.experiments.replicates.graphs import GraphStep
from labkit.experiments.replicates.step import Step
from labkit.experiments.run import CPU, execute_run, get_gpu_name
from labkit.experiments.store import Store
from labkit.system.files import write_whole

WORTH = 3.0  # times as fast, or batched models are not worth their code
MANY = 64
BATCHED = ("pre", "qkv-pre", "ngpt")
KINDS: dict[str, type[Step]] = {"calls": Step, "graphs": GraphStep}
CONTROLLED = ("pre", "qk", "qkv-pre", "post")
BASE, REHEARSAL = os.environ.get("GPU_HOUR_BASE", "."), "GPU_HOUR_REHEARSAL" in os.environ


def describe() -> dict[str, Any]:
    """Return what computes here; ValueError where that is no GPU."""
    device = get_gpu_name()
    if device == CPU and not REHEARSAL:
        raise ValueError("torch sees no GPU here; --rehearse goes through the hour without one")
    return {
        "device": f"rehearsal on {CPU}" if REHEARSAL else device,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version("triton"),
        "numpy": numpy.__version__,
    }


def check() -> dict[str, Any]:
    """Hold batched models against the records; say how far the same ones alone are from them.

    On a GPU those alone have the fused kernels: what these do wrong, their own laws say.
    """
    device, found = get_gpu_name(), dict[str, Any]()
    store = Store(Path(BASE))
    for arm in BATCHED:
        run = ladder.list_first_runs("S", arm, store.read_record)[0]
        record = store.read_record(run)
        if record is None:
            raise ValueError(f"the records lack rung S of {arm}; was this folder packed whole?")
        short = shorten_run(run)
        batched, _ = execute_together([short, replace(short, seed=run.seed + 1)], device)
        if "alone" in batched.provenance:
            raise ValueError(f"{arm} was not batched: {batched.provenance['alone']}")
        off = measure_off(record.losses, batched.losses)
        try:
            alone = execute_run(short, device=device)
            said = {"alone": measure_off(record.losses, alone.losses)} | alone.provenance
        except Exception as error:
            said = {"alone": f"{type(error).__name__}: {error}", "norms": "none"}
        found[arm] = {"batched": off, "alone": said["alone"], "norms": said["norms"]}
        found[arm]["graphs"] = batched.provenance.get("graphs", "none")
        print(f"{arm}: {found[arm]}", flush=True)
    most = max(one["batched"] for one in found.values())
    if not most <= OPENING:
        raise ValueError(f"this device computes something else than is recorded: {most:.2g} off")
    return {"said": f"as recorded; at most {most:.1g} off", "arms": found}


def control() -> dict[str, Any]:
    """Train the runs with which recorded arms report anew, and keep where both ended."""
    device, store, found = get_gpu_name(), Store(Path(BASE)), dict[str, Any]()
    kept: dict[str, Any] = {}
    for arm in CONTROLLED:
        runs = ladder.list_strict_finals("S", arm, store.read_record)[: 2 if REHEARSAL else None]
        recorded = [store.read_record(run) for run in runs]
        recorded = [record for record in recorded if record and record.provenance["device"] == CPU]
        if not runs or len(recorded) < len(runs):
            raise ValueError(f"the records lack the strict report of {arm} on a CPU; pack it anew")
        short = [shorten_run(run) if REHEARSAL else run for run in runs]
        again = [replace(run, probes=("validation", "test")) for run in short]
        here = execute_together(again, device)
        ends = [[one.probes["test"]["loss"] for one in side] for side in (recorded, here)]
        found[arm] = {"seeds": [run.seed for run in runs], "recorded": ends[0], "here": ends[1]}
        gaps = [there - own for own, there in zip(*ends, strict=True)]
        found[arm]["gap"] = fmean(gaps)
        print(f"{arm}: {found[arm]['gap']:+.5f} nats", flush=True)
        most = max(abs(one["gap"]) for one in found.values())
        said = f"of {len(found)} the means end at most {most:.4f} nats apart"
        keep("control", kept := {"said": said, "arms": found})
    return kept


def measure_off(recorded: Sequence[float], losses: Sequence[float]) -> float:
    """Return the largest relative difference of the first losses."""
    pairs = zip(recorded[:FIRST], losses, strict=True)
    return max(abs(one - other) / abs(one) for one, other in pairs)


def compare_replicates(sizes: Sequence[tuple[int, int, int, int]] = bench.SIZES) -> dict[str, Any]:
    """Time 64 models together and one after another; judge the smallest gain."""
    device, many, turns = get_gpu_name(), 4 if REHEARSAL else MANY, 1 if REHEARSAL else 5
    rows, kept = [], dict[str, Any]()
    ways = [(size, kind) for size in sizes[: 1 if REHEARSAL else None] for kind in KINDS]
    for size, kind in ways:
        run = bench.build_run(*size, bench.STEPS, "pre")
        pairs = bench.time_pairs(run, many, device, turns, KINDS[kind])
        row = dict(zip(("dim", "depth", "batch", "time"), size, strict=True))
        row |= {
            "replicates": many,
            "together": kind,
            "alone_ms": 1e3 * median(alone for alone, _ in pairs) / bench.STEPS,
            "together_ms": 1e3 * median(both for _, both in pairs) / bench.STEPS,
            "ratio": median(alone / both for alone, both in pairs),
        }
        print(row, flush=True)
        rows.append(row)
        least = min(row["ratio"] for row in rows if row["together"] == "calls")
        stays = "they stay" if least >= WORTH else "they go"
        said = f"{many} together are {least:.1f} times as fast or more (wanted: {WORTH:g}): {stays}"
        kept = {"said": said, "wanted": WORTH, "least": least, "rows": rows}
        keep("replicates", kept)
    return kept


def keep(what: str, found: dict[str, Any]) -> None:
    """Write down what is known so far: a step that is cut off leaves it."""
    write_whole(Path(BASE) / f"{what}.json", json.dumps(found, indent=1) + "\n")


def main() -> int:
    """Measure one thing and write it down."""
    (what,) = sys.argv[1:]
    torch.set_num_threads(1)
    measures = {"who": describe, "check": check, "control": control,
                "replicates": compare_replicates}  # fmt: skip
    try:
        found = measures[what]()
    except ValueError as error:
        print(error)
        return 1
    keep(what, found)
    print(found.get("said", found["device"] if what == "who" else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
