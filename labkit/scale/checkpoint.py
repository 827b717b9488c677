"""Checkpoints: tensors as safetensors, the rest as JSON; whole or absent; no pickle anywhere.

    checkpoints/step-00000500/
        model.safetensors        parameters and buffers, by name; a tied matrix once
        optimizer.safetensors    "parameter/moment" -> tensor
        state.json               step, position in the data, random state, config, versions, sha256

The whole state is gathered to the first process, which writes it; every process reads the whole
files and keeps its shard. So a run may go on with another number of processes, or in one.
"""

import base64
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from labkit.scale.files import (
    read_json,
    remove_folder,
    sha256_of,
    sweep,
    whole_folder,
    write_json,
)

SCHEMA = 1
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
_READ = StateDictOptions(full_state_dict=True)


def save(
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
    shared = set(_ties(model))
    tensors: dict[str, Any] = get_model_state_dict(model, options=_WHOLE)
    moments: dict[str, Any] = get_optimizer_state_dict(model, optimizer, options=_WHOLE)
    if not writes:
        return
    path = folder / f"step-{state['step']:08d}"
    if path.exists():  # saved in passing: only what comes next may be news
        before = read_state(path)
        if before["diverged_at"] != state["diverged_at"]:
            write_json(path / "state.json", {**before, "diverged_at": state["diverged_at"]})
        return
    flat = {
        f"{name}/{key}": value
        for name, one in moments["state"].items()
        for key, value in one.items()
    }
    with whole_folder(path) as part:
        kept = {name: value.contiguous() for name, value in tensors.items() if name not in shared}
        save_file(kept, part / "model.safetensors")
        save_file({k: v.contiguous() for k, v in flat.items()}, part / "optimizer.safetensors")
        hashes = {file.name: sha256_of(file) for file in part.glob("*.safetensors")}
        made = {"schema": SCHEMA, "random": _random_state(), "files": hashes}
        write_json(part / "state.json", {**made, **state})
    for old in steps(folder)[:-keep]:
        remove_folder(old)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put a checkpoint into a model and its optimizer, sharded or not; give its state.

    ValueError where it is damaged or belongs to another model.
    """
    state = read_state(path)
    tensors: dict[str, Any] = _read(path, "model", state)
    flat = _read(path, "optimizer", state)
    ties = _ties(model)
    tensors |= {name: tensors[first] for name, first in ties.items() if first in tensors}
    due = {name: value.shape for name, value in model.state_dict().items()}
    if {name: value.shape for name, value in tensors.items()} != due:
        raise ValueError(f"{path} holds another model than this run's; name its own --out")
    # Its settings come from the run, its tensors from the file.
    whole: dict[str, Any] = get_optimizer_state_dict(model, optimizer)
    moments: dict[str, dict[str, Tensor]] = {}
    for key, value in flat.items():
        name, _, moment = key.rpartition("/")
        moments.setdefault(name, {})[moment] = value
    whole["state"] = moments
    set_model_state_dict(model, tensors, options=_READ)
    set_optimizer_state_dict(model, optimizer, whole, options=_READ)
    _set_random_state(state["random"])
    return state


def read_state(path: Path) -> dict[str, Any]:
    """Read what a checkpoint says of itself."""
    state = read_json(path / "state.json", _way_out(path))
    if state.get("schema") != SCHEMA:
        raise ValueError(
            f"{path}/state.json must have schema {SCHEMA}, got {state.get('schema')!r}; "
            + _way_out(path)
        )
    return state


def steps(folder: Path) -> list[Path]:
    """List the checkpoints below a folder, the oldest first."""
    return sorted(folder.glob("step-*"))


def clean(folder: Path) -> None:
    """Remove what a killed run was writing."""
    if folder.is_dir():
        sweep(folder)


def _read(path: Path, name: str, state: dict[str, Any]) -> dict[str, Tensor]:
    file = path / f"{name}.safetensors"
    if not file.is_file() or sha256_of(file) != state["files"].get(file.name):
        raise ValueError(f"{file} is damaged: its sha256 is not the one saved; {_way_out(path)}")
    try:
        return load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file} is no safetensors file ({error}); {_way_out(path)}") from error


def _way_out(path: Path) -> str:
    return f"remove the folder {path.name}, and --resume takes the checkpoint before it"


def _ties(model: nn.Module) -> dict[str, str]:
    """Name the parameters that are another one by a second name: second name -> first name."""
    first: dict[nn.Parameter, str] = {}
    ties = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if first.setdefault(parameter, name) != name:
            ties[name] = first[parameter]
    return ties


def _random_state() -> dict[str, str]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return {
        device: base64.b64encode(state.numpy().tobytes()).decode()
        for device, state in states.items()
    }


def _set_random_state(saved: dict[str, str]) -> None:
    for device, text in saved.items():
        state = torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
        if device == "cpu":
            torch.set_rng_state(state)
        elif torch.cuda.is_available():
            torch.cuda.set_rng_state(state)
