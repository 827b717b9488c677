"""A program: one process of a few big runs, one after another, as a test describes them.

    python tests/scale_ranks.py SPEC.json        RANK and WORLD_SIZE as torchrun sets them

SPEC: [{"name", "port", "given", "resume"?, "signal"?: {rank, step, number}}]. Beside it, RANK.json
says how each ended.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def make_tokens(folder: Path, vocab: int = 32, train: int = 6000, shard_tokens: int = 4000) -> Path:
    """Write shards that a model can learn something from: each token hints at the next."""
    from labkit.scale.shards import write_shards

    dice = np.random.RandomState(0)
    parts = (
        (split, np.cumsum(dice.choice([1, 1, 1, 2, 5], size=length)) % vocab)
        for split, length in (("train", train), ("validation", 1000))
    )
    write_shards(folder, parts, {"name": "test", "vocab": vocab}, {}, shard_tokens)
    return folder


def read_log(out: Path) -> list[dict]:
    """Read the lines of a run's log."""
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def losses(out: Path) -> list[float]:
    """Return a run's loss curve."""
    return [line["loss"] for line in read_log(out) if "step" in line]


def ports(count: int) -> list[int]:
    """Find ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def run(folder: Path, spec: list[dict], world: int = 2) -> list[dict]:
    """Run scenarios in `world` processes; give what each of them says, by scenario."""
    for scenario, port in zip(spec, ports(len(spec)), strict=True):
        scenario["port"] = port
    folder.mkdir(exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    common = {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    path = os.pathsep.join([str(ROOT), *sys.path])
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, str(folder / "spec.json")],
            env={**os.environ, **common, "RANK": str(rank), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    said = [worker.communicate(timeout=600)[0] for worker in workers]
    files = [folder / f"{rank}.json" for rank in range(world)]
    assert all(file.exists() for file in files), "\n".join(said)
    return [json.loads(file.read_text()) for file in files]


def main(path: Path) -> None:
    """Go through the scenarios."""
    import torch

    from labkit.scale.start import train_run

    torch.set_num_threads(1)
    rank, results = int(os.environ["RANK"]), {}
    for scenario in json.loads(path.read_text()):
        os.environ["MASTER_PORT"] = str(scenario["port"])
        if scenario.get("signal", {}).get("rank") == rank:
            signal_at(scenario["signal"]["step"], scenario["signal"]["number"])
        try:
            resume = scenario.get("resume", False)
            ended = train_run(scenario["given"], resume, say=lambda text: None)
            result = {"reason": ended.reason, "steps": ended.steps}
        except ValueError as error:
            result = {"error": str(error)}
        results[scenario["name"]] = result
        (path.parent / f"{rank}.json").write_text(json.dumps(results))


def signal_at(step: int, number: int) -> None:
    """Send this process a signal when it reads the batch of a step."""
    from labkit.scale.sampler import Sampler

    batch = Sampler.read_batch

    def sending(self, at, *rest):
        if at == step:
            Sampler.read_batch = batch
            os.kill(os.getpid(), number)
        return batch(self, at, *rest)

    Sampler.read_batch = sending


if __name__ == "__main__":
    main(Path(sys.argv[1]))
