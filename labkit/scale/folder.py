"""The folder of a run: its settings, its lock, its log.

OUT/run.json         settings, index of the tokens, parameters, versions
OUT/checkpoints/     see labkit.scale.checkpoints
OUT/log.jsonl        lines of three kinds:

{"step": 7, "loss": …, "lr": …, "grad_norm": …, "tokens": …, "tokens_per_second": …}   from step 0
{"after": 100, "validation_loss": …}                                   after that many steps
{"diverged_at": 37}                                                    its loss was not finite
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from labkit.scale.checkpoints import remove_parts
from labkit.scale.config import ScaleConfig, format_option
from labkit.system.files import hold_lock, write_whole
from labkit.system.provenance import collect_provenance

# What may change when a run goes on: none of these moves the loss curve beyond rounding.
FREE = {"data", "out", "micro_batch", "device", "parallel", "minutes", "eval_every", "save_every"}


def choose_settings(given: dict[str, Any], resume: bool) -> ScaleConfig:
    """Make a run's settings of what was given; one that goes on keeps what decides its curve."""
    out = Path(given.get("out", ""))
    exists = (out / "run.json").is_file()
    if exists and not resume:
        raise ValueError(
            f"{out} holds a run already; --resume goes on with it, another --out starts anew"
        )
    if resume and not exists:
        raise ValueError(f"--resume needs a run in {out}, found none; leave --resume out")
    if resume:
        saved = _read_run(out)["config"]
        saved["betas"] = tuple(saved["betas"])
        for name, value in given.items():
            if name not in FREE and value != saved[name]:
                raise ValueError(
                    f"a run that goes on keeps {format_option(name)} {saved[name]}, got {value}; "
                    "leave the option out, or start a new run in another --out"
                )
        given = {**saved, **given}
    config = ScaleConfig(**given)
    if config.precision == "auto":
        gpu = config.device != "cpu" and torch.cuda.is_available()
        config = replace(config, precision="bfloat16" if gpu else "float32")
    return config


@contextmanager
def hold_folder(config: ScaleConfig, tokens: dict[str, Any], parameters: int) -> Iterator[None]:
    """Hold a run's folder, tidied, with what the run is; no other process may train in it.

    ValueError where one does, or where the run was made of other tokens.
    """
    out = Path(config.out)

    def refuse_second() -> NoReturn:
        raise ValueError(f"another process trains in {out}; wait for it, or name another --out")

    with hold_lock(out / ".lock", on_wait=refuse_second):
        if (out / "run.json").is_file() and _read_run(out)["tokens"] != tokens:
            raise ValueError(
                f"the run in {out} was trained on other tokens than those in {config.data}; name "
                "its own --data"
            )
        remove_parts(out)
        run = {"config": asdict(config), "tokens": tokens, "parameters": parameters}
        run["versions"] = collect_provenance()
        write_whole(out / "run.json", json.dumps(run, indent=1))
        yield


def write_line(out: Path, **values: Any) -> None:
    """Append a line to the log; a number that is not finite becomes null."""
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }
    with (out / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(plain) + "\n")


def read_log(out: Path) -> list[dict[str, Any]]:
    """Read the log, but for a line that a kill cut off."""
    path, lines = out / "log.jsonl", []
    for text in path.read_text("utf-8", "replace").splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def rewind_log(out: Path, done: int) -> None:
    """Drop the lines of steps that will be trained again."""
    kept = [
        json.dumps(line) + "\n"
        for line in read_log(out)
        if line.get("step", -1) < done and line.get("after", 0) <= done
    ]
    write_whole(out / "log.jsonl", "".join(kept))


def _read_run(out: Path) -> dict[str, Any]:
    return json.loads((out / "run.json").read_text(encoding="utf-8"))
