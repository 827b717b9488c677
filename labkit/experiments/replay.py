"""Replay: check that the current code reproduces a record.

A replay makes a run's model again from its seed, draws the data, takes the first steps, and
compares their losses with the recorded ones, which are exact in float32. On the kind of machine
that made the record they must be equal bit for bit; on others, within `OPENING`. A full training of
a run also covers the rest (the end of a schedule, a probe).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from labkit.experiments.records import FIRST, from_row, to_row
from labkit.experiments.run import CPU, Run, execute_run
from labkit.system.provenance import collect_provenance
from labkit.system.threads import use_one_thread
from labkit.training import Record, TrainConfig

TIMED = ("pace",)  # probes that time something differ every time
OPENING = 1e-4  # relative, of the first losses, on another kind of machine
WHOLE = 1e-3  # relative, of a whole training there: rounding grows with every step
NUDGES = (1e-6, -1e-6)  # relative, of the weights: about the rounding of a different processor
SPREAD = 20  # times a nudge's effect, because two samples have a long tail


@dataclass(frozen=True)
class _Opening(TrainConfig):
    """The first steps of a longer training, with its learning rates."""

    whole: TrainConfig | None = None

    def lr_at(self, step: int) -> float:
        """Return the learning rate of the whole training at this step."""
        assert self.whole is not None
        return self.whole.lr_at(step)


@dataclass(frozen=True)
class Replay:
    """Result of replaying one recorded run with today's code."""

    run: Run
    kind: str  # opening or whole
    difference: float  # the largest one, relative; infinite if shapes differ
    tolerance: float
    where: str = ""  # what differs most

    @property
    def agrees(self) -> bool:
        """Return whether the record was reproduced."""
        return self.difference <= self.tolerance

    def __str__(self) -> str:
        verdict = "agrees" if self.agrees else "differs"
        first = self.kind == "opening" and self.where == "losses"
        what = "first losses" if first else self.where
        return f"{self.run.key()[:12]} {verdict}: {what} by {self.difference:.2g}"


def first_losses(
    run: Run, steps: int = FIRST, device: str = CPU, nudge: float = 0.0, progress: bool = False
) -> list[float]:
    """Return the losses of a run's first steps; NaN if one is not finite."""
    steps = min(steps, run.train.steps)
    opening = _Opening(**{**asdict(run.train), "steps": steps}, whole=run.train)
    short = replace(run, train=opening, probes=())
    return execute_run(short, progress=progress, device=device, nudge=nudge).losses


def replay_run(run: Run, record: Record, device: str = CPU) -> Replay:
    """Take a run's first steps again and compare their losses with a record's."""

    def compute(nudge: float) -> dict[str, Any]:
        return {"losses": first_losses(run, FIRST, device, nudge)}

    return _judge_replay(
        run, "opening", record, {"losses": record.losses[:FIRST]}, compute, OPENING
    )


def retrain_run(run: Run, record: Record, device: str = CPU) -> Replay:
    """Train a run in full and compare its losses, its final results and all measurements.

    The record is one of the book's, rounded and thinned as `from_row` returns it.
    """
    measured = sorted(set(run.probes) - set(TIMED))

    def list_parts(record: Record) -> dict[str, Any]:
        probes = {name: record.probes.get(name) for name in measured}
        return {"losses": record.losses, "its end": record.diverged_at, **probes}

    def compute(nudge: float) -> dict[str, Any]:
        actual = execute_run(run, device=device, nudge=nudge)
        return list_parts(from_row(to_row(run, actual, "")))

    return _judge_replay(run, "whole", record, list_parts(record), compute, WHOLE)


def _judge_replay(
    run: Run,
    kind: str,
    record: Record,
    expected: dict[str, Any],
    compute: Callable[[float], dict[str, Any]],
    tolerance: float,
) -> Replay:
    """Compare computed values with a record by name, as exactly as the machine allows.

    Some runs amplify any rounding error up to the first digit. If a different kind of machine
    exceeds the tolerance, the tolerance becomes the change that a nudge of the weights causes here,
    because a different processor may cause the same.
    """
    room = 0.0 if _same_machine(record) else tolerance
    with use_one_thread():
        actual = compute(0.0)
        differences = _compare_parts(expected, actual)
        rooms = dict.fromkeys(differences, room)
        if room and max(differences.values()) > room:
            for nudge in NUDGES:
                moved = _compare_parts(actual, compute(nudge))
                wild = SPREAD * moved["losses"]
                least = math.inf if wild > 1 else max(room, wild)  # it may even diverge
                rooms = {
                    name: max(rooms[name], least, SPREAD * moved[name]) for name in differences
                }
    # If the training differs, so do all measurements: the training is more informative.
    trained = (x for x in differences if x in ("losses", "its end") and differences[x] > rooms[x])
    worst = next(trained, None) or max(differences, key=lambda name: differences[name])
    return Replay(run, kind, differences[worst], rooms[worst], worst)


def _compare_parts(expected: dict[str, Any], actual: dict[str, Any]) -> dict[str, float]:
    return {name: _find_largest_difference(of, actual[name]) for name, of in expected.items()}


def _same_machine(record: Record) -> bool:
    here, there = collect_provenance(), record.provenance
    alike = all(there.get(name) == here[name] for name in ("cpu", "torch"))
    return alike and there.get("threads") == 1 and there.get("together", 1) == 1


def _find_largest_difference(expected: Any, actual: Any) -> float:
    """Return the largest difference between two values, numbers in lists and dicts, in float32."""
    a, b = list(_list_leaves(expected)), list(_list_leaves(actual))
    if [x for x in a if not isinstance(x, float)] != [x for x in b if not isinstance(x, float)]:
        return math.inf
    first = np.array([x for x in a if isinstance(x, float)], dtype=np.float32)
    second = np.array([x for x in b if isinstance(x, float)], dtype=np.float32)
    if first.shape != second.shape or (np.isnan(first) != np.isnan(second)).any():
        return math.inf
    if not first.size or np.array_equal(first, second, equal_nan=True):
        return 0.0
    gap = float(np.nanmax(np.abs(first - second)))
    return gap / max(float(np.nanmax(np.abs(first))), 1e-12)


def _list_leaves(value: Any) -> Iterable[Any]:
    """List the numbers of a value as floats, with the names and shapes around them."""
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            yield str(name)
            yield from _list_leaves(value[name])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield f"[{len(value)}]"
        for item in value:
            yield from _list_leaves(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    else:
        yield str(value)
