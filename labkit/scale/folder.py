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

from labkit.scale.config import ScaleConfig, resume_config
from labkit.scale.files import read_json, write_json
from labkit.system.files import hold_lock
from labkit.system.provenance import collect_provenance

SCHEMA = 1


def choose_settings(given: dict[str, Any], resume: bool) -> ScaleConfig:
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
        config = resume_config(_read_run(out)["config"], {"device": "auto", **given})
    else:
        config = ScaleConfig(**given)
    if config.precision == "auto":
        gpu = config.device != "cpu" and torch.cuda.is_available()
        config = replace(config, precision="bfloat16" if gpu else "float32")
    return config


def hold_folder(out: Path) -> AbstractContextManager[None]:
    """Hold a run's folder; ValueError where another process trains in it."""

    def refuse_second() -> NoReturn:
        raise ValueError(f"another process trains in {out}; wait for it, or name another --out")

    return hold_lock(out / ".lock", on_wait=refuse_second)


def write_run(config: ScaleConfig, parameters: int, data: str) -> None:
    """Write what the run is; ValueError where it was made of other data."""
    out = Path(config.out)
    if (out / "run.json").exists() and _read_run(out)["data"] != data:
        raise ValueError(
            f"the run in {out} was trained on other tokens than those in {config.data}; name its "
            "own --data"
        )
    run = {
        "schema": SCHEMA,
        "config": asdict(config),
        "parameters": parameters,
        "data": data,
        "versions": collect_provenance(),
    }
    write_json(out / "run.json", run)


def _read_run(out: Path) -> dict[str, Any]:
    return read_json(out / "run.json", SCHEMA, "start the run anew in another --out")
