"""Group runs into tasks that can train together and fit into memory.

The required memory is found by a trial step without data (torch's meta device):

    bytes = N · (6 · parameters + 2 · buffers + 1.5 · kept)

Six copies of the parameters: weights, gradients, two moments of Adam, and two temporary ones in a
step. `kept` are the bytes that the forward pass saves for the backward pass, whose own tensors
count half as much again. It is an estimate, not yet checked on a GPU.
"""

import os
from collections.abc import Hashable, Sequence
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

ON_A_GPU = 64  # default upper limit
COPIES, BESIDE = 6, 1.5
# Of the memory that is free and ours: several processes may train on one device (ON_A_GPU of them,
# and the one over them, are as many).
SHARE = 0.2


def asked_for(device: str = CPU) -> int:
    """Return the maximum number of runs that may train together, from LABKIT_REPLICATES.

    The default is 1 on a CPU, where larger groups gain little, and `ON_A_GPU` on a GPU, where small
    models wait for launches.
    """
    setting = os.environ.get("LABKIT_REPLICATES", "auto")
    if setting == "auto":
        return 1 if device == CPU else ON_A_GPU
    if not setting.isdigit() or int(setting) < 1:
        raise ValueError(
            f"LABKIT_REPLICATES must be a whole number of at least 1, or auto; got {setting}"
        )
    return int(setting)


def group_runs(runs: Sequence[Run], device: str = CPU) -> list[Task]:
    """Group runs into tasks: runs that can train together, as many as fit into memory.

    Tasks are in the order of their first runs, and runs keep their order within a task; a group
    that is too large is split into tasks of nearly equal size. The runs of a model that cannot be
    batched (see `count_fitting_runs`) stay separate, so that workers share them.
    """
    most = asked_for(device)
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


def estimate_need(run: Run) -> int:
    """Estimate a run's bytes when it trains together with others like it.

    Raises:
        NotTogether: it cannot train together with others; the message says why.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        models = [run.model.build() for _ in range(2)]
    batch = _draw_batch(run.data)
    stack = Stack(models)
    inputs, targets = (torch.empty(2, *p.shape, dtype=p.dtype, device="meta") for p in batch)
    kept = kept_bytes(lambda: stack.rehearse_step(inputs, targets))
    tensors = [stack.weights] * COPIES + list(stack.buffers.values()) * 2
    return int(BESIDE * kept + sum(t.nbytes for t in tensors)) // 2


def count_fitting_runs(run: Run, device: str = CPU) -> int:
    """Return how many runs like this fit into free memory; 1 if they cannot train together."""
    try:
        each = estimate_need(run)
    except NotTogether:
        return 1
    return max(1, int(count_free_bytes(device) // max(1, each)))


def count_free_bytes(device: str = CPU) -> float:
    """Return the bytes that one task may use: a fraction of free memory; 0 without the GPU.

    On a shared GPU, LABKIT_GPU_FRACTION limits it.
    """
    if device != CPU:
        return SHARE * free_of_a_gpu()
    return SHARE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@cache
def _draw_batch(data) -> tuple[Tensor, Tensor]:
    return next(data.load().train(0))
