"""Provenance of a number: machine, versions and device."""

import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labkit.system.processor import name_processor


def collect_provenance(model: nn.Module | None = None) -> dict[str, Any]:
    """Return the provenance of a number: device, processor, versions, commit."""
    device = next(model.parameters()).device.type if model is not None else "cpu"
    if device == "cuda":
        device = torch.cuda.get_device_name()
    return {
        "device": device,
        "cpu": name_processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": _name_commit(),
    }


@cache
def _name_commit() -> str:
    """Return the commit of labkit's sources, with + if files differ from it; "" outside git."""
    packed = Path(__file__).parents[2] / "COMMIT"  # of `make gpu-pack`
    if packed.is_file():
        return packed.read_text()

    def run_git(*words: str) -> str:
        folder = Path(__file__).parent
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = run_git("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if commit and run_git("status", "--porcelain", "--", ".") else "")
    except OSError:
        return ""
