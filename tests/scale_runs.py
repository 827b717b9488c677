"""What the tests of big runs share: tokens, the command, and two processes that train together."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from labkit.scale.folder import read_log
from labkit.scale.tokens import make_tokenizer, write_shards

QUICK = {"context": 16, "batch": 8, "steps": 8, "lr": 3e-3, "eval_every": 4, "save_every": 4}


def make_tokens(folder: Path, lines: int = 300) -> Path:
    """Write shards that a model can learn something from: each letter hints at the next."""
    dice = np.random.RandomState(0)
    pieces = []
    for split, length in (("train", lines), ("validation", 100)):
        letters = np.cumsum(dice.choice([1, 1, 1, 2, 5], size=(length, 20)), axis=1) % 26 + 97
        pieces += [(split, bytes(row.tolist()).decode()) for row in letters]
    write_shards(folder, make_tokenizer("byte"), pieces, shard_tokens=2000)
    return folder


def losses(out: Path) -> list[float]:
    """Return a run's loss curve."""
    return [line["loss"] for line in read_log(out) if "step" in line]


def start_command(given: dict, words: list) -> subprocess.Popen[str]:
    """Start `labkit train` as a process of its own."""
    options = [f"--{key.replace('_', '-')}={value}" for key, value in given.items()]
    return subprocess.Popen(
        [*words, "train", *options],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
