"""How much memory replicates take, by a rehearsal without numbers (torch's meta device).

    bytes = N · (6 · parameters + 2 · buffers + 1.5 · kept)

Six copies of the parameters: weights, gradients, two moments of Adam, what a step puts back, and
scratch. `kept` is what the forward pass saves for the backward pass, whose own tensors count half
as much again. It is an estimate: no GPU has checked it yet.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from labkit.experiments.replicates.optimizer import refusal
from labkit.experiments.replicates.stack import NotTogether, Stack
from labkit.experiments.run import CPU, Run
from labkit.share import free as free_of_a_gpu

COPIES, BESIDE = 6, 1.5
# Of the memory that is free and ours: several processes may train on one device (ON_A_GPU of them,
# and the one over them, are as many).
SHARE = 0.2


@dataclass(frozen=True)
class Need:
    """Bytes that training takes for each replicate; `reason`: why there can be only one."""

    each: int
    reason: str = ""

    def of(self, replicates: int) -> int:
        """Give the bytes for so many that train together."""
        return replicates * self.each


def need(run: Run) -> Need:
    """Estimate a run's bytes when it trains together with others like it."""
    if reason := refusal(run.train):
        return Need(0, reason)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        models = [run.model.build() for _ in range(2)]
    batch = _batch(run.data)
    try:
        stack = Stack(models)
        inputs, targets = (torch.empty(2, *p.shape, dtype=p.dtype, device="meta") for p in batch)
        kept = _saved(lambda: stack.rehearse(inputs, targets))
    except NotTogether as reason:
        return Need(0, str(reason))
    tensors = [stack.weights] * COPIES + list(stack.buffers.values()) * 2
    return Need(int(BESIDE * kept + sum(t.nbytes for t in tensors)) // 2)


def fitting(run: Run, device: str = CPU) -> int:
    """Say how many runs like this one fit into the memory that is free; 1 if they cannot join."""
    asked = need(run)
    return 1 if asked.reason else max(1, int(free(device) // max(1, asked.each)))


def free(device: str = CPU) -> float:
    """Give the bytes that one task may take: a share of what is free; 0 on a GPU not seen here.

    Of a GPU that others use too, LABKIT_GPU_FRACTION says what may be ours.
    """
    if device != CPU:
        return SHARE * free_of_a_gpu()
    return SHARE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@cache
def _batch(data) -> tuple[Tensor, Tensor]:
    return next(data.load().train(0))


def _saved(call: Callable[[], object]) -> int:
    """Count the bytes of all storages that a forward pass keeps for its backward pass."""
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage  # held, so that no other takes its number
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        call()
    return sum(storage.nbytes() for storage in storages.values())
