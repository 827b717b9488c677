"""The folder of a run: its settings, its lock, its log, its checkpoints.

OUT/run.json         settings, parameters, digest of the data, versions
OUT/log.jsonl        see labkit.scale.log
OUT/checkpoints/     see labkit.scale.checkpoint
"""

from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from labkit.files import locked
from labkit.provenance import provenance
from labkit.scale.config import ScaleConfig, continued
from labkit.scale.files import read_json, write_json

SCHEMA = 1


def settings(given: dict[str, Any], resume: bool) -> ScaleConfig:
    """Make a run's settings of what was given, and of what its folder holds if it goes on."""
    out = Path(given.get("out", ""))
    exists = (out / "run.json").is_file()
    if exists and not resume:
        raise ValueError(
            f"{out} holds a run already; --resume goes on with it, another --out starts anew"
        )
    if resume and not exists:
        raise ValueError(
            f"--resume needs a run in {out or '--out'}, found none; leave --resume out"
        )
    if resume:
        config = continued(_read(out)["config"], {"device": "auto", **given})
    else:
        config = ScaleConfig(**given)
    if config.precision == "auto":
        gpu = config.device != "cpu" and torch.cuda.is_available()
        config = replace(config, precision="bfloat16" if gpu else "float32")
    return config


def held(out: Path) -> AbstractContextManager[None]:
    """Hold a run's folder; ValueError where another process trains in it."""

    def refuse() -> NoReturn:
        raise ValueError(f"another process trains in {out}; wait for it, or name another --out")

    return locked(out / ".lock", on_wait=refuse)


def describe(config: ScaleConfig, parameters: int, data: str) -> None:
    """Write what the run is; ValueError where it was made of other data."""
    out = Path(config.out)
    if (out / "run.json").exists() and _read(out)["data"] != data:
        raise ValueError(
            f"the run in {out} was trained on other tokens than those in {config.data}; name its "
            "own --data"
        )
    run = {
        "schema": SCHEMA,
        "config": asdict(config),
        "parameters": parameters,
        "data": data,
        "versions": provenance(),
    }
    write_json(out / "run.json", run)


def _read(out: Path) -> dict[str, Any]:
    return read_json(out / "run.json", SCHEMA, "start the run anew in another --out")
