"""Checkpoints: tensors as safetensors, the rest as JSON; whole or nothing; no pickle anywhere.

    checkpoints/step-00000500/
        model.safetensors        parameters and buffers, by name; a tied matrix once
        optimizer.safetensors    "parameter/moment" -> tensor
        state.json               step, position in the data, config, versions, sha256; written last

The whole state is gathered to the first process, which writes it; every process reads the whole
files and keeps its shard. So a run may go on with another number of processes, or in one. Once the
weights are drawn nothing of a run is random, so that no random state is kept.

torch.distributed.checkpoint gathers and spreads the state, but does not write it: its own files
have a pickle beside them, and its writer of safetensors took one process 3 to 5 times as long, with
twice the state in memory.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from labkit.scale.files import fill_folder, read_json, sha256_of, sync_path, write_json

SCHEMA = 1
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
# Not strict: a tied matrix comes by the first of its names.
_READ = StateDictOptions(full_state_dict=True, strict=False)


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    *,
    writes: bool,
    keep: int,
) -> None:
    """Write the checkpoint of `state["step"]` below `folder`; all processes call it, one writes.

    Then only the `keep` newest stay.
    """
    tensors = _drop_aliases(model, get_model_state_dict(model, options=_WHOLE))
    whole: dict[str, Any] = get_optimizer_state_dict(model, optimizer, options=_WHOLE)
    if not writes:
        return
    path = folder / f"step-{state['step']:08d}"
    if path.exists():  # saved in passing: only what comes next may be news
        before = read_state(path)
        if before["diverged_at"] != state["diverged_at"]:
            write_json(path / "state.json", {**before, "diverged_at": state["diverged_at"]})
        return
    moments = {
        f"{name}/{key}": value for name, own in whole["state"].items() for key, value in own.items()
    }
    with fill_folder(path):
        _write_tensors(path / "model.safetensors", tensors)
        _write_tensors(path / "optimizer.safetensors", moments)
        hashes = {file.name: sha256_of(file) for file in path.iterdir()}
        write_json(path / "state.json", {"schema": SCHEMA, "files": hashes, **state})
    sync_path(folder)
    for old in list_checkpoints(folder)[:-keep]:
        (old / "state.json").unlink()
        shutil.rmtree(old)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put a checkpoint into a model and its optimizer, sharded or not; give its state.

    ValueError where it is damaged or belongs to another model.
    """
    state = read_state(path)
    tensors, moments = (_read_tensors(path, name, state) for name in ("model", "optimizer"))
    due = _drop_aliases(model, model.state_dict())
    if {name: value.shape for name, value in tensors.items()} != {
        name: value.shape for name, value in due.items()
    }:
        raise ValueError(f"{path} holds another model than this run's; name its own --out")
    # The optimizer's settings come from the run, its tensors from the file.
    whole: dict[str, Any] = get_optimizer_state_dict(model, optimizer)
    whole["state"] = {}
    for key, value in moments.items():
        name, _, moment = key.rpartition("/")
        whole["state"].setdefault(name, {})[moment] = value
    set_model_state_dict(model, tensors, options=_READ)
    set_optimizer_state_dict(model, optimizer, whole, options=_READ)
    return state


def read_state(path: Path) -> dict[str, Any]:
    """Read what a checkpoint says of itself."""
    return read_json(path / "state.json", SCHEMA, _way_out(path))


def list_checkpoints(folder: Path) -> list[Path]:
    """List the whole checkpoints below a folder, the oldest first."""
    return sorted(file.parent for file in folder.glob("step-*/state.json"))


def remove_partial(folder: Path) -> None:
    """Remove what a killed run was writing or removing."""
    for path in set(folder.glob("step-*")) - set(list_checkpoints(folder)):
        shutil.rmtree(path)


def _write_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    save_file({key: value.contiguous() for key, value in tensors.items()}, file)
    sync_path(file)


def _read_tensors(path: Path, name: str, state: dict[str, Any]) -> dict[str, Any]:
    file = path / f"{name}.safetensors"
    if not file.is_file() or sha256_of(file) != state["files"].get(file.name):
        raise ValueError(f"{file} is damaged: its sha256 is not the one saved; {_way_out(path)}")
    return load_file(file)


def _way_out(path: Path) -> str:
    return f"remove the folder {path.name}, and --resume takes the checkpoint before it"


def _drop_aliases(model: nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """Keep one name of each tensor: a tied matrix is the same under its others."""
    first = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    return {name: value for name, value in tensors.items() if name in first}
