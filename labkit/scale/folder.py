"""The folder of a run: its settings, its lock, its log, its checkpoints.

OUT/run.json         settings, parameters, digest of the data, versions
OUT/log.jsonl        see labkit.scale.log
OUT/checkpoints/     see labkit.scale.checkpoint
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from labkit.provenance import provenance
from labkit.scale.config import ScaleConfig, continued
from labkit.scale.files import read_json, write_json

SCHEMA = 1


def settings(given: dict[str, Any], resume: bool) -> ScaleConfig:
    """Make a run's settings of what was given, and of what its folder holds if it goes on."""
    out = Path(given.get("out", ""))
    path = out / "run.json"
    if not resume:
        if path.exists():
            raise ValueError(
                f"{out} holds a run already; --resume goes on with it, another --out starts anew"
            )
        config = ScaleConfig(**given)
    else:
        if not path.is_file():
            raise ValueError(
                f"--resume needs a run in {out or '--out'}, found none; leave --resume out"
            )
        saved = read_json(path, "start the run anew in another --out")
        config = continued(saved["config"], {"device": "auto", **given})
    if config.precision == "auto":
        gpu = config.device != "cpu" and torch.cuda.is_available()
        config = replace(config, precision="bfloat16" if gpu else "float32")
    return config


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold a run's folder; ValueError where another process trains in it."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"another process trains in {out}; wait for it, or name another --out"
            ) from None
        yield


def describe(config: ScaleConfig, parameters: int, data: str) -> None:
    """Write what the run is; ValueError where it was made of other data."""
    path = Path(config.out) / "run.json"
    if path.exists():
        before = read_json(path, "start the run anew in another --out")
        if before["data"] != data:
            raise ValueError(
                f"the run in {config.out} was trained on other tokens than those in "
                f"{config.data}; name its own --data"
            )
    write_json(
        path,
        {
            "schema": SCHEMA,
            "config": asdict(config),
            "parameters": parameters,
            "data": data,
            "versions": provenance(),
        },
    )
