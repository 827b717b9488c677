"""Checkpoints in torch's own format (torch.distributed.checkpoint): whole, or not there.

OUT/checkpoints/step-00000500/      weights and optimizer after 500 steps; each process its part

A folder gets its name when it is whole, and loses it before it is removed. A run may go on with
another number of processes. Once the weights are drawn nothing of a run is random, so that no
random state is kept. Part of the format is a pickle: load only checkpoints that you trust.
"""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.optim import Optimizer

from labkit.scale.parallel import Group

KEEP = 2  # the newest ones


def save_checkpoint(
    out: Path, step: int, model: nn.Module, optimizer: Optimizer, group: Group
) -> None:
    """Write the checkpoint of a step, all processes together; then only the newest stay."""
    optimizer.zero_grad(set_to_none=True)
    path = out / "checkpoints" / f"step-{step:08d}"
    part = path.with_suffix(".part")
    try:
        with _allow_one_process():
            save(_collect_state(model, optimizer), checkpoint_id=part)
    except CheckpointException as error:
        raise OSError(f"{path} was not written: {_explain(error)}") from error
    if group.rank == 0:
        part.rename(path)
        for old in list_checkpoints(out)[:-KEEP]:
            shutil.rmtree(old.rename(old.with_suffix(".part")))


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """Put a checkpoint into a model and its optimizer; ValueError where it is damaged."""
    state = _collect_state(model, optimizer)
    try:
        with _allow_one_process():
            load(state, checkpoint_id=path)
    except CheckpointException as error:
        raise ValueError(
            f"{path} is damaged: {_explain(error)}; remove it, and --resume takes the one before it"
        ) from error
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )


def list_checkpoints(out: Path) -> list[Path]:
    """List the whole checkpoints of a run, the oldest first."""
    return sorted((out / "checkpoints").glob("step-????????"))


def remove_parts(out: Path) -> None:
    """Remove what a killed run was writing or removing."""
    for part in (out / "checkpoints").glob("*.part"):
        shutil.rmtree(part)


def _collect_state(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


@contextmanager
def _allow_one_process() -> Iterator[None]:
    """Let torch save and load without a warning that there are no other processes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        yield


def _explain(error: CheckpointException) -> str:
    return "; ".join(str(cause) for cause, _ in error.failures.values())
