"""The example of one big run gives the same losses interrupted or not, in two processes or one.

The same numbers are added in another order: float32 rounding, which steps of Adam enlarge.
"""

import itertools
import json
import os
import runpy
import socket
import subprocess
import sys
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import labkit
from tests.forks import run_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "chapters/examples/big_run.py"
big_run = runpy.run_path(str(PROGRAM))
TINY = {"dim": 16, "depth": 2, "heads": 2, "context": 16, "batch": 8, "micro-batch": 2}
TINY |= {"steps": 60, "save-every": 5, "lr": 3e-3, "recipe": "hybrid*"}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Write a text with learnable structure: each letter predicts the next."""
    dice = np.random.RandomState(0)
    letters = np.cumsum(dice.choice([1, 1, 1, 2, 5], size=8000)) % 26 + 97
    letters.astype(np.uint16).tofile(path := tmp_path_factory.mktemp("tokens") / "tokens.bin")
    return path


def list_words(tokens: Path, out: Path, changed: dict) -> list[str]:
    settings = {**TINY, **changed, "tokens": tokens, "dtype": "uint16", "out": out}
    return [str(PROGRAM), *(f"--{name}={value}" for name, value in settings.items())]


def start(processes: int, tokens: Path, out: Path) -> subprocess.Popen:
    """Start the example under torchrun."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [sys.executable, *launcher, *list_words(tokens, out, {})],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def read_log(out: Path) -> list[dict]:
    log = out / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def train(processes: int, tokens: Path, out: Path, **changed) -> list[float]:
    """Train to the end, in forks; return the losses, the last one on held-out windows."""
    words = list_words(tokens, out, changed)
    source = (
        f"import runpy, sys; sys.argv = {words}; runpy.run_path({words[0]!r}, run_name='__main__')"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    given = {**address, "WORLD_SIZE": str(processes), "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(rank: str) -> str:
        return run_program(source, "", ROOT, {**given, "RANK": rank, "LOCAL_RANK": rank})

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(run, map(str, range(processes))))
    lines = read_log(out)
    assert [line["step"] for line in lines] == list(range(len(lines)))
    return [*(line["loss"] for line in lines), lines[-1]["validation"]]


def test_a_run_that_was_killed_goes_on_to_the_losses_of_one_that_was_not(tokens, tmp_path):
    whole, out = train(2, tokens, tmp_path / "whole"), tmp_path / "killed"
    command = start(2, tokens, out)
    while len(read_log(out)) < 12:
        assert command.poll() is None
        time.sleep(0.01)
    command.terminate()
    assert command.wait() != 0 and len(read_log(out)) < TINY["steps"]
    assert train(2, tokens, out) == pytest.approx(whole, rel=1e-5)
    assert len(whole) == TINY["steps"] + 1 and whole[-1] < whole[0] - 1
    assert sorted(path.name for path in out.glob("step-*")) == ["step-00000055", "step-00000060"]


def test_a_checkpoint_of_one_process_goes_on_in_two(tokens, tmp_path):
    whole = train(1, tokens, tmp_path / "one", steps=10)
    (tmp_path / "one/step-00000010").rename(tmp_path / "last")
    assert train(2, tokens, tmp_path / "one", steps=10) == pytest.approx(whole, rel=1e-5)
    with pytest.raises(RuntimeError, match="--out must be a folder of the same model"):
        train(1, tokens, tmp_path / "one", steps=10, recipe="post")


# Recipes that hand tensors past a block's arguments, or touch weights before or after a step.
@pytest.mark.parametrize("recipe", ["ngpt", "realformer", "resi-dual", "admin"])
def test_two_processes_have_the_losses_of_the_training_of_the_chapters(tokens, tmp_path, recipe):
    changed = {"recipe": recipe, "steps": 4, "micro-batch": 4}
    *losses, _ = train(2, tokens, tmp_path / "out", **changed)
    given = {name.replace("-", "_"): value for name, value in {**TINY, **changed}.items()}
    given |= {"norm": "rms", "vocab": 256, "seed": 0, "tokens": tokens, "dtype": "uint16"}
    settings = Namespace(**given)
    model, config = big_run["describe_run"](settings, gpu=False)
    windows = big_run["Windows"](settings, torch.device("cpu"))
    torch.manual_seed(0)
    batches = (windows.read(windows.choose(step)) for step in itertools.count())
    record = labkit.train(model.build(), batches, config, progress=False)
    assert losses == pytest.approx(record.losses, rel=1e-5)
