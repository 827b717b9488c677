"""Two processes against one: the same loss curve, under DDP and under FSDP2, with gloo.

One pair of processes trains all scenarios, because starting one takes seconds.
"""

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
import torch
from scale_runs import QUICK, losses, make_tokens, start_command
from torch.multiprocessing import spawn

from labkit.scale.checkpoints import list_checkpoints
from labkit.scale.folder import read_log
from labkit.scale.training import train_run

pytestmark = pytest.mark.slow

# The same numbers added in another order, by two processes: float32 rounding, which steps of Adam
# enlarge.
CLOSE = {"rel": 1e-5, "abs": 1e-6}
SCENARIOS = {
    "ddp": {},
    "ddp-accumulating": {"micro_batch": 2},
    "fsdp2": {"parallel": "fsdp2"},
    "fsdp2-accumulating": {"parallel": "fsdp2", "micro_batch": 1},
    "fsdp2-bfloat16": {"parallel": "fsdp2", "precision": "bfloat16"},
    # recipes that hand tensors past a block's arguments, or touch weights after a step
    **{
        f"fsdp2-{recipe}": {"parallel": "fsdp2", "recipe": recipe, "steps": 3}
        for recipe in ("ngpt", "realformer", "resi-dual", "b2t", "admin", "deepnorm")
    },
}
REFUSED = {
    "none": ({"parallel": "none"}, "none is for one process, ddp and fsdp2 for several, got none"),
    "batch": ({"batch": 7}, "--batch (7 sequences) must be a multiple of 2 processes ×"),
    "scalar": ({"parallel": "fsdp2", "recipe": "dyt"}, "embedding_scale is one number; take"),
}


def find_ports(count):
    """Find ports of this machine that nobody listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def train_in_pair(rank, runs, ports):
    """Train runs, one after another, as one of two processes; note what is refused."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1")
    for (given, resume), port in zip(runs, ports, strict=True):
        os.environ["MASTER_PORT"] = str(port)
        try:
            train_run(given, resume, say=lambda text: None)
        except ValueError as error:
            Path(f"{given['out']}-{rank}.txt").write_text(str(error))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Train every scenario in two processes, and two in one; give the folder of the runs."""
    folder = tmp_path_factory.mktemp("ranks")
    base = {"data": str(make_tokens(folder / "tokens")), **QUICK, "recipe": "hybrid*"}
    refused = {name: given for name, (given, _) in REFUSED.items()}
    runs = [
        ({**base, "out": str(folder / name), **given}, False)
        for name, given in {**SCENARIOS, **refused}.items()
    ]
    train_alone({**base, "out": str(folder / "goes-on")})
    shutil.rmtree(folder / "goes-on/checkpoints/step-00000008")
    runs.append(({"out": str(folder / "goes-on"), "parallel": "fsdp2"}, True))
    spawn(train_in_pair, (runs, find_ports(len(runs))), nprocs=2)
    return folder, base


def train_alone(given, resume=False):
    """Train in this process; give the run's folder."""
    train_run(given, resume, say=lambda text: None)
    return Path(given["out"])


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_have_the_loss_curve_of_one(pair, name):
    folder, base = pair
    given = {k: v for k, v in SCENARIOS[name].items() if k not in ("parallel", "micro_batch")}
    one, two = train_alone({**base, **given, "out": str(folder / f"{name}-one")}), folder / name
    close = {"rel": 2e-2} if "bfloat16" in name else CLOSE
    assert losses(two) == pytest.approx(losses(one), **close)
    for key in ("validation_loss", "grad_norm"):
        ours, theirs = ([row[key] for row in read_log(out) if key in row] for out in (two, one))
        assert ours == pytest.approx(theirs, rel=max(1e-4, close["rel"])), key


@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_a_checkpoint_of_two_processes_goes_on_in_one(pair, name):
    folder, _ = pair
    out = shutil.copytree(folder / name, folder / f"{name}-alone")
    shutil.rmtree(out / "checkpoints/step-00000008")
    train_alone({"out": str(out), "parallel": "none"}, resume=True)
    assert losses(out)[:4] == losses(folder / name)[:4]
    assert losses(out) == pytest.approx(losses(folder / name), **CLOSE)


def test_a_checkpoint_of_one_process_goes_on_in_two(pair):
    folder, _ = pair
    assert len(losses(folder / "goes-on")) == 8
    assert losses(folder / "goes-on") == pytest.approx(losses(folder / "ddp"), **CLOSE)


@pytest.mark.parametrize("name", REFUSED)
def test_every_process_refuses_what_cannot_be_shared(pair, name):
    folder, _ = pair
    for rank in range(2):
        assert REFUSED[name][1] in (folder / f"{name}-{rank}.txt").read_text()


def test_torchrun_passes_a_signal_on_and_all_end_the_same_step_and_save(pair, tmp_path):
    _, base = pair
    out = tmp_path / "run"
    words = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "labkit"]
    given = {**base, "out": out, "steps": 5000, "parallel": "fsdp2", "save_every": 0}
    command = start_command(given, [sys.executable, "-m", *words])
    while len(read_log(out)) < 3:
        assert command.poll() is None
        time.sleep(0.1)
    command.send_signal(signal.SIGTERM)
    said = command.communicate()[0]
    done = len(losses(out))
    assert said.count(f"stopped after {done} steps; --resume goes on") == 1
    assert "128 tokens = 8 sequences × 16, as 2 (fsdp2) × 4 × 1" in said
    assert [path.name for path in list_checkpoints(out)] == [f"step-{done:08d}"]
