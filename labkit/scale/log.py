"""What a run writes down: JSON lines, and TensorBoard's files where they are asked for.

{"step": 7, "loss": …, "lr": …, "grad_norm": …, "tokens": …, "tokens_per_second": …,
 "peak_memory": …}                       step from 0; tokens so far; bytes of this process
{"after": 100, "validation_loss": …, "residual_rms": …}              after that many steps
{"diverged_at": 37}                      the loss of that step was not finite
"""

import importlib.util
import json
import math
import os
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from labkit.system.files import write_whole


class Log:
    """Append to `log.jsonl`; a process that does not write is silent.

    A run that goes on after `done` steps has a line of each in its log; ValueError where not.
    """

    def __init__(self, folder: Path, tensorboard: str | None, writes: bool, done: int):
        self._file = self._board = None
        if not writes:
            return
        path = folder / "log.jsonl"
        _rewind_lines(path, done)
        self._file = path.open("a", encoding="utf-8")
        if tensorboard is not None:
            from torch.utils.tensorboard import SummaryWriter  # optional, and slow to import

            self._board = SummaryWriter(tensorboard, purge_step=done)

    def write_line(self, **values: Any) -> None:
        """Write one line; a number that is not finite becomes null."""
        if self._file is None:
            return
        plain = {
            key: None if isinstance(v, float) and not math.isfinite(v) else v
            for key, v in values.items()
        }
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()
        if self._board is not None:
            at = values.get("step", values.get("after", values.get("diverged_at")))
            for key, value in plain.items():
                if value is not None and key not in ("step", "after"):
                    self._board.add_scalar(key, value, at)

    def sync_lines(self) -> None:
        """Wait until all lines are on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write what is left to the disk."""
        self.sync_lines()
        for one in (self._file, self._board):
            if one is not None:
                one.close()


def _rewind_lines(path: Path, done: int) -> None:
    """Drop the lines of steps that will be trained again; ValueError where one is missing."""
    kept, due = [], 0
    for text in path.read_text("utf-8", "replace").split("\n") if path.is_file() else []:
        try:
            line = json.loads(text)
        except ValueError:  # a kill cut it off, or a crash of the machine damaged the last ones
            break
        if line.get("step", -1) >= done or line.get("after", 0) > done or "diverged_at" in line:
            continue
        if "step" in line:
            if line["step"] != due:
                break
            due += 1
        kept.append(text + "\n")
    if due < done:
        raise ValueError(
            f"{path} must have one line for each of the {done} steps that are done, but step "
            f"{due} is missing or out of order: it is damaged; put the file back, or remove the "
            f"checkpoints after step {due}, and --resume trains those steps again"
        )
    write_whole(path, "".join(kept))


def check_tensorboard(folder: str | None) -> None:
    """Refuse --tensorboard where its package is missing."""
    if folder is not None and importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "--tensorboard needs the package tensorboard, which is not installed; install it "
            "(labkit's extra `tensorboard`), or read log.jsonl, which has the same numbers"
        )


def peak_memory(device: torch.device) -> int:
    """Return the most memory that this process has held, in bytes: the GPU's, where it has one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
