"""Timed turn about: tracks of captured calls, copy_ among them, in a new order each round."""

import gc
import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from normkernels.bench.device import Gpu, Pretend, host_seconds
from normkernels.bench.operations import DTYPES
from normkernels.bench.plan import Case

COPIES = 512  # sets of data, and calls in one graph, at most


@dataclass
class Track:
    """What one provider does in one direction: a captured replay of calls, and one call."""

    provider: str
    direction: str
    call: Callable[[], object]
    replay: Callable[[], None]
    calls: int = 0  # in one replay; without any, only the host is timed
    bytes: int = 0
    samples: list[float] = field(default_factory=list)  # seconds of one call on the device
    host: list[float] = field(default_factory=list)


def record(
    name: str, direction: str, run: Callable[[int], Any], count: int, size: int,
    device: Gpu | Pretend,
) -> tuple[Track, list[Any]]:  # fmt: skip
    """Capture calls over all sets of data in turn, enough of them to keep the device busy.

    Each call's results stay until a later call for the same set takes their place: every call
    writes to memory of its own. They are the second thing that comes back.
    """
    estimate = size / 2e12 + 2e-6  # seconds; only the length of a replay depends on it
    calls = min(COPIES, max(count, math.ceil(device.busy / estimate)))
    kept: list[Any] = [None] * count

    def all_calls() -> None:
        for i in range(calls):
            kept[i % count] = run(i % count)

    replay = device.capture(all_calls)
    return Track(name, direction, lambda: run(0), replay, calls, size), kept


def copies(counted: dict[str, int], count: int, device: Gpu | Pretend) -> list[Track]:
    """Make the tracks of copy_, which moves as many bytes in each direction."""
    tracks = []
    for direction in ("forward", "backward"):
        half = -(-counted[direction] // 32) * 16
        if half:
            shape = (count, 2, half)
            data = torch.randint(255, shape, dtype=torch.uint8, device=device.device)
            run = lambda i, data=data: data[i, 0].copy_(data[i, 1])  # noqa: E731
            tracks.append(record("copy", direction, run, count, 2 * half, device)[0])
    return tracks


def yardstick(case: Case, device: Gpu | Pretend) -> list[Track]:
    """Make tracks of torch's own RMSNorm, whose cost on the host is the measure of ours."""
    dtype, shape = DTYPES[case.dtype][0], (min(case.m, 128), case.n)
    x = torch.randn(shape, device=device.device, dtype=dtype, requires_grad=True)
    weight = torch.randn(case.n, device=device.device, dtype=dtype, requires_grad=True)
    y, top = F.rms_norm(x, (case.n,), weight, 1e-6), torch.randn_like(x)
    forward = lambda: F.rms_norm(x, (case.n,), weight, 1e-6)  # noqa: E731
    backward = lambda: torch.autograd.grad(y, (x, weight), top, retain_graph=True)  # noqa: E731
    nothing = lambda: None  # noqa: E731
    return [Track("", "forward", forward, nothing), Track("", "backward", backward, nothing)]


def time_tracks(tracks: list[Track], device: Gpu | Pretend, seed: str) -> None:
    """Let all tracks take turns, in a new random order in each round."""
    shuffle = random.Random(seed).shuffle
    gc.collect()
    gc.disable()
    try:
        for _ in range(device.rounds):
            shuffle(tracks)
            for track in tracks:
                if track.calls:
                    taken = device.seconds(track.replay, device.replays)
                    track.samples += [seconds / track.calls for seconds in taken]
                track.host.append(host_seconds(device, track.call))
    finally:
        gc.enable()


def spread(values: list[float]) -> tuple[float, float, float]:
    """Return the 20th percentile, the median and the 80th percentile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    fifths = statistics.quantiles(values, n=5, method="inclusive")
    return fifths[0], statistics.median(values), fifths[3]
