"""Processes that train one model together: alone, DDP, or FSDP2.

torchrun starts them and says who is who; gloo talks between CPUs, nccl between GPUs. Gradients are
averaged over processes, so each minimizes the mean loss of its own share of the batch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from labkit.context import Context
from labkit.model import Transformer
from labkit.system.share import limit_memory, read_fraction

_GROUPS: list[Any] = []  # kept, see `join_processes`


@dataclass(frozen=True)
class Group:
    """The processes of a run, seen from one of them; the one of rank 0 writes."""

    rank: int
    world: int
    device: torch.device

    def sum_values(self, *values: float | Tensor) -> list[float]:
        """Add numbers up over all processes, in float64; nobody goes on before all have come."""
        stacked = torch.stack(
            [torch.as_tensor(v, dtype=torch.float64, device=self.device) for v in values]
        )
        if self.world > 1:
            dist.all_reduce(stacked)
        return stacked.tolist()


@contextmanager
def join_processes(device: str = "auto") -> Iterator[Group]:
    """Join the processes that torchrun started; without it, be alone."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda needs a GPU that torch sees, got none; leave it out")
    kind = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    world = int(os.environ.get("WORLD_SIZE", "1"))
    here = torch.device(kind)
    if kind == "cuda":
        here = torch.device(kind, int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(here)
        limit_memory(read_fraction())  # torchrun gives each of its processes a GPU of its own
    if world == 1:
        yield Group(0, 1, here)
        return
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo", device_id=here if kind == "cuda" else None
    )
    # A group that is deleted waits for gloo's thread with Python's lock in hand, and that thread
    # may need the lock to give back its last tensor: so a group lives as long as the process.
    _GROUPS.append(dist.group.WORLD)
    try:
        yield Group(dist.get_rank(), world, here)
    finally:
        dist.destroy_process_group()


def choose_parallel(parallel: str, world: int) -> str:
    """Settle how the processes train together: none, ddp or fsdp2."""
    if parallel == "auto":
        return "none" if world == 1 else "ddp"
    if (parallel == "none") != (world == 1):
        raise ValueError(
            f"--parallel none is for one process, ddp and fsdp2 for several, got {parallel} and "
            f"{world}; torchrun --nproc-per-node=N -m labkit train … starts several"
        )
    return parallel


def wrap_model(model: Transformer, how: str, group: Group) -> nn.Module:
    """Make a model train over the processes, as `choose_parallel` settled."""
    if how == "ddp":
        ids = [group.device.index] if group.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids)
    if how == "fsdp2":
        if lone := [name for name, p in model.named_parameters() if p.ndim == 0]:
            raise ValueError(
                f"FSDP2 shards vectors and matrices, but {lone[0]} is one number; "
                "take --parallel ddp for this recipe"
            )
        mesh = init_device_mesh(group.device.type, (group.world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
            _share_context(block)
        fully_shard(model, mesh=mesh)
    return model


def _share_context(block: nn.Module) -> None:
    """Bring back what a block writes into its context: FSDP2 hands it a copy of the dataclass."""
    given: list[Context] = []

    def keep_context(block: nn.Module, args: tuple) -> None:
        given.append(args[1])

    def update_context(block: nn.Module, args: tuple, output: Tensor) -> None:
        vars(given.pop()).update(vars(args[1]))

    block.register_forward_pre_hook(keep_context, prepend=True)
    block.register_forward_hook(update_context)


@contextmanager
def exchange_gradients(model: nn.Module, last: bool) -> Iterator[None]:
    """Run one forward and backward pass; processes exchange gradients in the `last` of a step."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
    quiet = isinstance(model, DistributedDataParallel) and not last
    with model.no_sync() if quiet else nullcontext():  # pyright: ignore[reportCallIssue]
        yield


def unwrap_model(model: nn.Module) -> Transformer:
    """Take DDP's wrapper off; the parameters stay the same."""
    return cast(Transformer, model.module if isinstance(model, DistributedDataParallel) else model)
