"""One size: every provider is checked, then all that are right are timed.

Time is that of a CUDA graph, which holds many calls over copies of the data that together exceed
three times the L2 cache; Python is not in it. The backward pass is `torch.autograd.grad` on kept
forward results, captured just so: exactly the kernels that a training step starts for it, without
subtraction and without accumulating into `.grad`. The time on the host is taken apart from that.
"""

import math
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from normkernels.bench.check import LIMITS, Data, as_tuple, compare, draw, reference
from normkernels.bench.device import Gpu, Pretend
from normkernels.bench.operations import DTYPES, OPERATIONS
from normkernels.bench.plan import Case
from normkernels.bench.providers import find
from normkernels.bench.timing import (
    COPIES,
    Track,
    copies,
    record,
    spread,
    time_tracks,
    yardstick,
)


class Lost(RuntimeError):
    """A provider broke the device's context: this process cannot go on."""


def measure(case: Case, names: tuple[str, ...], device: Gpu | Pretend) -> dict[str, Any]:
    """Measure one size with the providers named; give what the file keeps of it."""
    op = OPERATIONS[case.kernel]
    counted = op.bytes(case, device.processors)
    pristine = draw(op, case, device.device)
    exact = reference(op, pristine, DTYPES[case.dtype][0])
    count = min(COPIES, max(1, math.ceil(3 * device.cache / counted["forward"])))
    sets = [pristine.copy() for _ in range(count)]
    entries: dict[str, Any] = {"copy": {"status": "ok"}}
    tracks = copies(counted, count, device) + yardstick(case, device)
    for name in names:
        try:
            call = find(name, case.kernel)
            if isinstance(call, str):
                entries[name] = {"status": "absent", "reason": call}
                continue
            entries[name], more = examine(
                name, call, case, sets, pristine, exact, device, counted
            )  # fmt: skip
            tracks += more
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            entries[name] = {"status": "failed", "reason": reason}
            try:
                device.synchronize()
            except Exception as lost:
                raise Lost(name) from lost
            device.free()
    del exact
    time_tracks(tracks, device, case.key)
    return {
        "kernel": case.kernel, "m": case.m, "n": case.n, "heads": case.heads, "dtype": case.dtype,
        "large": case.large, "bytes": counted, "sets": count,
        "cold": count * counted["forward"] >= 3 * device.cache,
        "rms_norm_host_us": summarize(tracks, entries), "providers": entries,
    }  # fmt: skip


def examine(
    name: str, call: Callable, case: Case, sets: list[Data], pristine: Data,
    expected: dict[str, Tensor], device: Gpu | Pretend, counted: dict[str, int],
) -> tuple[dict[str, Any], list[Track]]:  # fmt: skip
    """Check one provider, as called and as captured; give its entry, and its tracks if right."""
    op, limit = OPERATIONS[case.kernel], LIMITS[DTYPES[case.dtype][0]]

    def forward(data: Data) -> dict[str, Tensor]:
        return {f"output {i}": y for i, y in enumerate(as_tuple(call(**data.inputs)))}

    mine = pristine.copy()
    found = forward(mine)
    if not op.in_place:
        found |= mine.gradients(tuple(found.values()))
    errors, wrong = compare(found, expected, limit)
    entry: dict[str, Any] = {"status": "ok", "errors": {k: _short(e) for k, e in errors.items()}}
    if not (wrong or op.in_place or mine.equals(pristine)):
        wrong = "writes into what it was given"
    if wrong:
        return {**entry, "status": "wrong", "reason": wrong}, []
    runs: dict[str, Callable[[int], dict]] = {"forward": lambda i: forward(sets[i])}
    if not op.in_place:
        done = [tuple(forward(data).values()) for data in sets]
        runs["backward"] = lambda i: sets[i].gradients(done[i])
    tracks = []
    for direction, run in runs.items():
        track, kept = record(name, direction, run, len(sets), counted[direction], device)
        fresh = pristine.inputs["weight"] if op.in_place else None
        if wrong := captured_wrong(track, kept, expected, limit, fresh):
            reason = f"captured {direction}: {wrong}"
            return {**entry, "status": "wrong", "reason": reason}, []
        tracks.append(track)
    return entry, tracks


def captured_wrong(
    track: Track, kept: list, expected: dict[str, Tensor], limit: float, fresh: Tensor | None
) -> str:
    """Return what is wrong with a replay, which has to do the work by itself.

    Its last results are overwritten first, with NaN or with what an operation in place starts
    from: memory that was freed may hold somebody else's right results.
    """
    with torch.no_grad():
        for t in kept[-1].values():
            t.detach().copy_(t * math.nan if fresh is None else fresh)
    track.replay()
    return compare(kept[-1], {name: expected[name] for name in kept[-1]}, limit)[1]


def summarize(tracks: list[Track], entries: dict[str, Any]) -> dict[str, float]:
    """Write what was timed into the providers' entries; give the yardstick's host times."""
    host = {}
    copied = {t.direction: t.bytes / statistics.median(t.samples)
              for t in tracks if t.provider == "copy"}  # fmt: skip
    for track in tracks:
        if not track.samples:
            host[track.direction] = _short(1e6 * statistics.median(track.host))
            continue
        low, middle, high = spread(track.samples)
        rate = track.bytes / middle
        entries[track.provider][track.direction] = {
            "us": _short(1e6 * middle), "p20": _short(1e6 * low), "p80": _short(1e6 * high),
            "host_us": _short(1e6 * statistics.median(track.host)),
            "gbps": _short(rate / 1e9), "share": _short(rate / copied[track.direction]),
        }  # fmt: skip
    return host


def _short(value: float) -> float:
    return float(f"{value:.5g}")
