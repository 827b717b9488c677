"""Would other launch choices be faster on this device: `python -m normkernels.bench tune`.

Kernels ask functions named …tile how to see their rows. For each kernel and direction this finds
the functions that are asked, and walks from the present answer to better ones, one field at a
time. A candidate that computes something wrong, or does not fit, is out. Present and best run
against each other in turns at the end, so that luck in the search does not count. Nothing is
changed: the choice is written into rows.py (or beside the kernel) by whoever reads this.
"""

import functools
import math
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import normkernels
from normkernels.bench.check import LIMITS, Data, as_tuple, draw, reference
from normkernels.bench.device import Gpu, Pretend
from normkernels.bench.measure import captured_wrong
from normkernels.bench.operations import DTYPES, OPERATIONS
from normkernels.bench.plan import Case, dry_plan, plan
from normkernels.bench.timing import Track, copies, record, spread, time_tracks

HIGHEST = {"rows": 256, "block": 65536, "warps": 32, "per_processor": 8, "stages": 4}
FEWEST, MOST = 1, 128  # values of a tile for each thread
PLAIN = (types.FunctionType, type(functools.cache(len)))  # no kernel of Triton's
Choice = dict[tuple, Any]  # (function, arguments): tile


class Choices:
    """Stand between the kernels and the functions that choose their tiles."""

    def __init__(self) -> None:
        self.asked: Choice = {}
        self.other: Choice = {}
        wrapped: dict[Any, Callable] = {}
        for name, module in list(sys.modules.items()):
            if name.startswith("normkernels.") and not name.startswith("normkernels.bench"):
                for key, value in list(vars(module).items()):
                    if key.endswith("tile") and isinstance(value, PLAIN):
                        home = getattr(value, "__module__", name)
                        if home.startswith("normkernels."):
                            wrapped.setdefault(value, self._wrap(value))
                            setattr(module, key, wrapped[value])

    def _wrap(self, function: Callable) -> Callable:
        label = f"{function.__module__.removeprefix('normkernels.')}.{function.__name__}"

        def choose(*args: Any) -> Any:
            key = (label, args)
            self.asked.setdefault(key, function(*args))
            return self.other.get(key, self.asked[key])

        return choose


def neighbours(tile: Any) -> Iterator[Any]:
    """Yield the tiles that differ in one field: half, double; one less, one more."""
    names = {field.name for field in fields(tile)}
    for name in [n for n in HIGHEST if n in names]:
        if name == "block" and "heads" in names:
            continue  # half a head: there is nothing to choose
        value = getattr(tile, name)
        near = (value - 1, value + 1) if name in ("per_processor", "stages") else (
            value // 2, value * 2)  # fmt: skip
        for other in near:
            new = replace(tile, **{name: other})
            if 1 <= other <= HIGHEST[name] and (
                FEWEST <= new.rows * new.block / (32 * getattr(new, "warps", 4)) <= MOST
            ):
                yield new


def tune(kernels: list[str], device: Gpu | Pretend, minutes: float) -> int:
    """Search for every kernel and direction at the sizes of the targets; print what is found."""
    start, choices = time.monotonic(), Choices()
    make = dry_plan if device.dry else plan
    for _, case in make(kernels, ("targets",)):
        if not hasattr(normkernels, case.kernel.split()[0]):
            continue
        if time.monotonic() - start > 60 * minutes:
            print(f"time is up before {case.key}; go on with --kernels", flush=True)
            break
        for direction in ("forward", "backward"):
            if direction == "forward" or OPERATIONS[case.kernel].moved[1]:
                print(_tuned(case, direction, choices, device), flush=True)
        device.free()
    return 0


def _tuned(case: Case, direction: str, choices: Choices, device: Gpu | Pretend) -> str:
    op = OPERATIONS[case.kernel]
    counted = op.bytes(case, device.processors)
    pristine = draw(op, case, device.device)
    expected = {
        name: value for name, value in reference(op, pristine, DTYPES[case.dtype][0]).items()
        if name.startswith("output" if direction == "forward" else "gradient")
    }  # fmt: skip
    count = max(1, math.ceil(3 * device.cache / counted["forward"]))
    sets = [pristine.copy() for _ in range(count)]
    function = getattr(normkernels, case.kernel.split()[0])
    limit = LIMITS[DTYPES[case.dtype][0]]
    fresh = pristine.inputs["weight"] if op.in_place else None

    def call(data: Data) -> tuple:
        return as_tuple(function(**data.inputs, **op.options))

    done = [call(data) for data in sets] if direction == "backward" else []

    def run(i: int) -> dict:
        if direction == "backward":
            return sets[i].gradients(done[i])
        return {f"output {j}": y for j, y in enumerate(call(sets[i]))}

    def track(name: str, other: Choice) -> Track | None:
        """Capture the calls as they are under a choice; None where it is wrong or too large."""
        choices.other = other
        try:
            made, kept = record(name, direction, run, count, counted[direction], device)
            return None if captured_wrong(made, kept, expected, limit, fresh) else made
        except Exception:  # Triton has many names for "does not fit"
            device.synchronize()
            return None

    def microseconds(other: Choice) -> float:
        made = track("", other)
        if made is None:
            return math.inf
        taken = device.seconds(made.replay, device.replays)
        return 1e6 * statistics.median(taken) / made.calls

    choices.asked, choices.other = {}, {}
    run(0)
    present = dict(choices.asked)
    best, fastest = dict(present), microseconds({})
    tried, improved = {tuple(best.values())}, True
    while improved:
        improved = False
        for key in present:
            for tile in neighbours(best[key]):
                other = {**best, key: tile}
                if tuple(other.values()) in tried:
                    continue
                tried.add(tuple(other.values()))
                if (taken := microseconds(other)) < 0.99 * fastest:
                    best, fastest, improved = other, taken, not device.dry
    racers = [t for t in (track("present", {}), track("best", best)) if t]
    if len(racers) < 2:
        return f"{case.key} {direction}: not tuned, what is there now is wrong or does not fit"
    racers += [t for t in copies(counted, count, device) if t.direction == direction]
    time_tracks(racers, device, case.key)
    choices.other = {}
    return _sentence(case, direction, racers, present, best, len(tried))


def _sentence(
    case: Case, direction: str, racers: list, present: Choice, best: Choice, tried: int
) -> str:
    times = {track.provider: spread(track.samples) for track in racers}
    sizes = {track.provider: track.bytes for track in racers}
    rate = sizes["copy"] / times["copy"][1]
    parts = []
    for name in ("present", "best"):
        low, middle, high = (1e6 * t for t in times[name])
        share = sizes[name] / times[name][1] / rate
        parts.append(f"{name} {middle:.4g} us ({low:.4g}–{high:.4g}), {share:.0%} of copy")
    sure = times["best"][2] < times["present"][0]
    lines = [f"{case.key} {direction}, {tried} choices: {'; '.join(parts)}"]
    for key, tile in present.items():
        name = f"{key[0]}{key[1]!r}".replace(",)", ")")
        kept = tile == best[key] or not sure
        lines.append(f"  {name} = {tile}: {'keep' if kept else f'better {best[key]}'}")
    return "\n".join(lines)
