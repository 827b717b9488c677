"""Put runs into tasks: groups that may train together, as large as memory allows.

How much that takes is rehearsed without numbers (torch's meta device):

    bytes = N · (6 · parameters + 2 · buffers + 1.5 · kept)

Six copies of the parameters: weights, gradients, two moments of Adam, and two that a step computes
with. `kept` is what the forward pass saves for the backward pass, whose own tensors count half as
much again. It is an estimate: no GPU has checked it yet.
"""

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import ceil

import torch
from torch import Tensor

from labkit.costs.operations import kept_bytes
from labkit.experiments.replicates.alike import NotTogether, describe_structure
from labkit.experiments.replicates.stack import Stack
from labkit.experiments.run import CPU, Run, Task
from labkit.system.share import count_free_bytes as free_of_a_gpu

ON_A_GPU = 64  # at most, unless more are asked for
COPIES, BESIDE = 6, 1.5
# Of the memory that is free and ours: several processes may train on one device (ON_A_GPU of them,
# and the one over them, are as many).
SHARE = 0.2


def asked_for(device: str = CPU, replicates: int | None = None) -> int:
    """Return how many runs may train together: as asked, else LABKIT_REPLICATES, else by device.

    1 on a CPU, where it gains little; `ON_A_GPU` on a GPU, where small models wait for launches.
    """
    if replicates is None and (setting := os.environ.get("LABKIT_REPLICATES", "auto")) != "auto":
        if not setting.isdigit():
            raise ValueError(
                f"LABKIT_REPLICATES must be a number, 1 or more, or auto; got {setting}"
            )
        replicates = int(setting)
    if replicates is None:
        return 1 if device == CPU else ON_A_GPU
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1 (1: each run alone), got {replicates}")
    return replicates


def group_runs(runs: Sequence[Run], device: str = CPU, replicates: int | None = None) -> list[Task]:
    """Put runs into tasks: those that may train together, at most so many as fit into memory.

    Tasks stand in the order of their first runs, and runs within a task in their own; a group
    that is too large is cut into tasks of nearly one size. A model that cannot be batched
    (`count_fitting_runs` says so) keeps its runs apart, so that they share out over workers.
    """
    most = asked_for(device, replicates)
    groups: dict[Hashable, list[Run]] = {}
    for i, run in enumerate(runs):
        groups.setdefault(i if most == 1 else describe_structure(run), []).append(run)
    tasks: list[Task] = []
    for group in groups.values():
        size = 1 if len(group) == 1 else min(most, count_fitting_runs(group[0], device))
        parts = ceil(len(group) / size)
        ends = [len(group) * i // parts for i in range(parts + 1)]
        tasks += [tuple(group[a:b]) for a, b in pairwise(ends)]
    return tasks


@dataclass(frozen=True)
class Need:
    """Bytes that training takes for each replicate; `reason`: why there can be only one."""

    each: int
    reason: str = ""


def estimate_need(run: Run) -> Need:
    """Estimate a run's bytes when it trains together with others like it."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        models = [run.model.build() for _ in range(2)]
    batch = _draw_batch(run.data)
    try:
        stack = Stack(models)
        inputs, targets = (torch.empty(2, *p.shape, dtype=p.dtype, device="meta") for p in batch)
        kept = kept_bytes(lambda: stack.rehearse_step(inputs, targets))
    except NotTogether as reason:
        return Need(0, str(reason))
    tensors = [stack.weights] * COPIES + list(stack.buffers.values()) * 2
    return Need(int(BESIDE * kept + sum(t.nbytes for t in tensors)) // 2)


def count_fitting_runs(run: Run, device: str = CPU) -> int:
    """Return how many runs like this fit into the memory that is free; 1 if they cannot join."""
    asked = estimate_need(run)
    return 1 if asked.reason else max(1, int(count_free_bytes(device) // max(1, asked.each)))


def count_free_bytes(device: str = CPU) -> float:
    """Return the bytes that one task may take: a share of what is free; 0 on a GPU not seen here.

    Of a GPU that others use too, LABKIT_GPU_FRACTION says what may be ours.
    """
    if device != CPU:
        return SHARE * free_of_a_gpu()
    return SHARE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@cache
def _draw_batch(data) -> tuple[Tensor, Tensor]:
    return next(data.load().train(0))
