"""Measurements at one size: every provider is checked, then all correct ones are timed.

The time is that of a CUDA graph, in which Python and launches do not count. The graph contains many
calls over copies of the data that together exceed three times the L2 cache, so that each call reads
from memory, as it would among the other layers of a model. The backward pass is
`torch.autograd.grad` on saved forward results, captured in the same way: exactly the kernels that a
training step launches for it, without subtracting times. The host's time per call is measured
separately, without a graph.
"""

import math
import random
import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from normkernels.bench.check import Data, as_tuple, compare_tensors, compute_reference, draw_data
from normkernels.bench.device import Device
from normkernels.bench.operations import OPERATIONS
from normkernels.bench.plan import Case
from normkernels.bench.providers import Call

WAYS = ("forward", "backward")
MOST_CALLS = 512  # in one graph, and sets of data
BUSY = 2e-3  # seconds of one replay, at least
ROUNDS = 5  # in each, every provider is timed once
HOST_CALLS = 4  # in each round: so few that the queue of launches never fills


class DeviceLost(RuntimeError):
    """A provider broke the device's context: this process cannot continue."""


@dataclass
class Track:
    """One provider in one direction: a captured replay of calls, and a single call."""

    provider: str
    way: str
    bytes: int  # that one call must move
    calls: int  # in one replay
    run: Callable[[int], Any]  # one call, on the set of data with this number
    replay: Callable[[], None]
    results: list[Any]  # of the last replay, by set of data


def measure_size(case: Case, calls: dict[str, Call | str], device: Device) -> dict[str, Any]:
    """Measure one size; return the entry for the file.

    calls    by provider; or the reason why it has no call

    Raises:
        DeviceLost: a provider's error left the device unusable.
    """
    op = OPERATIONS[case.kernel]
    counted = op.count_bytes(case, device.processors)
    pristine = draw_data(op, case, device.device)
    exact = compute_reference(op, pristine, case)
    count = min(MOST_CALLS, max(1, math.ceil(3 * device.cache / counted["forward"])))
    sets = [pristine.copy() for _ in range(count)]
    providers: dict[str, Any] = {"copy": {"status": "ok"}}
    tracks = record_copies(counted, count, device)
    for name, call in calls.items():
        if isinstance(call, str):
            providers[name] = {"status": "absent", "reason": call}
            continue
        try:
            errors, wrong = check_call(call, case, pristine, exact)
            made = [] if wrong else record_calls(name, call, counted, sets, device)
            for track in made:
                wrong = wrong or check_replay(track, case, pristine, exact)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            providers[name] = {"status": "failed", "reason": reason}
            recover(device, name)
            continue
        providers[name] = {"status": "ok", "errors": errors}
        if wrong:
            providers[name] |= {"status": "wrong", "reason": wrong}
        else:
            tracks += made
    del exact
    for track, found in zip(tracks, time_tracks(tracks, device, case.key), strict=True):
        providers[track.provider][track.way] = found
        found["share"] = shorten(found["gbps"] / providers["copy"][track.way]["gbps"])
    return {
        **{part: getattr(case, part) for part in ("kernel", "m", "n", "heads", "dtype", "large")},
        "bytes": counted,
        "sets": count,
        "cold": count * counted["forward"] >= 3 * device.cache,
        "providers": providers,
    }


def recover(device: Device, name: str) -> None:
    """Free a provider's memory; raise DeviceLost if the device no longer responds."""
    try:
        device.synchronize()
    except Exception as lost:
        raise DeviceLost(name) from lost
    device.free()


def check_call(call: Call, case: Case, pristine: Data, exact: dict) -> tuple[dict[str, float], str]:
    """Compare one call, forward and backward, with the formula; return its errors and a message."""
    data = pristine.copy()
    outputs = as_tuple(call(**data.inputs))
    found = {f"output {i}": y for i, y in enumerate(outputs)}
    if OPERATIONS[case.kernel].in_place:
        return compare_tensors(found, exact, case)
    errors, wrong = compare_tensors(found | data.differentiate(outputs), exact, case)
    return errors, wrong or ("" if data.equals(pristine) else "writes into what it was given")


def record_calls(
    name: str, call: Call, counted: dict[str, int], sets: list[Data], device: Device
) -> list[Track]:
    """Capture one provider's calls: forward, and backward if there is one."""

    def forward(i: int) -> dict:
        return {f"output {j}": y for j, y in enumerate(as_tuple(call(**sets[i].inputs)))}

    tracks = [record_track(name, "forward", counted["forward"], forward, len(sets), device)]
    if counted["backward"]:
        done = [tuple(forward(i).values()) for i in range(len(sets))]

        def backward(i: int) -> dict:
            return sets[i].differentiate(done[i])

        size = counted["backward"]
        tracks.append(record_track(name, "backward", size, backward, len(sets), device))
    return tracks


def record_copies(counted: dict[str, int], count: int, device: Device) -> list[Track]:
    """Capture a kernel that reads and writes the same number of bytes, as the reference.

    It inverts each bit, so there is almost no computation. `copy_` itself would become a memory
    copy in the graph, which an H100 does at a third of the speed of its kernels.
    """
    tracks = []
    for way in filter(counted.get, WAYS):
        half = -(-counted[way] // 32) * 16
        shape = (count, 2, half // 4)
        data = torch.randint(2**31 - 1, shape, dtype=torch.int32, device=device.device)
        run = lambda i, data=data: torch.bitwise_not(data[i, 1], out=data[i, 0])  # noqa: E731
        tracks.append(record_track("copy", way, 2 * half, run, count, device))
    return tracks


def record_track(
    name: str, way: str, size: int, run: Callable[[int], Any], count: int, device: Device
) -> Track:
    """Capture calls over all sets of data in turn, enough of them to keep the device busy.

    Each call's results stay until a later call for the same set replaces them: every call writes to
    its own memory.
    """
    estimate = size / 2e12 + 2e-6  # seconds; only the length of a replay depends on it
    calls = count if device.dry else min(MOST_CALLS, max(count, math.ceil(BUSY / estimate)))
    results: list[Any] = [None] * count

    def run_all() -> None:
        for i in range(calls):
            results[i % count] = run(i % count)

    return Track(name, way, size, calls, run, device.capture(run_all), results)


def check_replay(track: Track, case: Case, pristine: Data, exact: dict) -> str:
    """Return an error message for a replay, which must do all the work itself; "" if it is right.

    A kernel that was launched on a different stream, for example, is not in the graph. The last
    results are first overwritten, with NaN or with the input of an in-place operation: freed memory
    may still contain right results from elsewhere.
    """
    operation = OPERATIONS[case.kernel]
    for name, t in track.results[-1].items():
        if name == f"gradient of {operation.passes}":
            continue  # it may be an input of the replay
        blank = pristine.inputs["weight"] if operation.in_place else t.detach() * math.nan
        t.detach().copy_(blank)
    track.replay()
    last = track.results[-1]
    wrong = compare_tensors(last, {name: exact[name] for name in last}, case)[1]
    return wrong and f"captured {track.way}: {wrong}"


def time_tracks(tracks: list[Track], device: Device, seed: str) -> list[dict[str, Any]]:
    """Time all tracks in rounds of random order, so that none is always first, on a cool GPU.

    Returns, for each, microseconds per call (median, 20th and 80th percentile, and each round's
    median), the host's too, and GB/s. The host's time is `timeit`'s: `do_bench` times the device,
    and torch's own timer waits for it.
    """
    rounds: list[list[list[float]]] = [[] for _ in tracks]
    hosts: list[list[float]] = [[] for _ in tracks]
    draw = random.Random(seed)
    for _ in range(ROUNDS):
        for i in draw.sample(range(len(tracks)), len(tracks)):
            track = tracks[i]
            rounds[i].append([s / track.calls for s in device.time_replays(track.replay)])
            device.synchronize()
            call = partial(track.run, 0)
            hosts[i].append(timeit.timeit(call, number=HOST_CALLS) / HOST_CALLS)
            device.synchronize()
    return [_describe_times(t, r, h) for t, r, h in zip(tracks, rounds, hosts, strict=True)]


def _describe_times(track: Track, rounds: list[list[float]], host: list[float]) -> dict[str, Any]:
    every = [seconds for one in rounds for seconds in one]
    fifths = statistics.quantiles(every, n=5, method="inclusive")
    found = {
        "us": 1e6 * statistics.median(every),
        "p20": 1e6 * fifths[0],
        "p80": 1e6 * fifths[-1],
        "host_us": 1e6 * statistics.median(host),
        "gbps": track.bytes / statistics.median(every) / 1e9,
    }
    each = [shorten(1e6 * statistics.median(one)) for one in rounds]
    return {name: shorten(value) for name, value in found.items()} | {"rounds": each}


def describe_entry(key: str, entry: dict[str, Any]) -> str:
    """Describe an entry in one line: each provider's share, forward and backward."""
    parts = []
    for name, found in entry["providers"].items():
        shares = [f"{found[way]['share']:.0%}" for way in WAYS if way in found]
        parts.append(f"{name} {' / '.join(shares) or found['status']}")
    return f"{key}: {', '.join(parts)}"


def shorten(value: float) -> float:
    """Round a number to five significant digits."""
    return float(f"{value:.5g}")
