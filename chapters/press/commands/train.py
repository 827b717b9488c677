"""`labkit train` and `labkit tokens`: one big run, and what it reads."""

import os
from dataclasses import fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option, Typer

from labkit.scale.config import ScaleConfig, format_option

app = Typer()

EXAMPLES = """\b
Examples:
  labkit tokens build/tokens
  labkit train --data build/tokens --out build/run --recipe 'hybrid*' --size tiny --steps 300
  torchrun --nproc-per-node=8 -m labkit train --data DIR --out RUN --recipe 'hybrid*' \\
      --size 151M --batch 1024 --micro-batch 8 --parallel fsdp2 --steps 50000
  labkit train --out build/run --resume"""


def _take_settings(command: Any) -> Any:
    """Add to a command an option for each field of ScaleConfig; what is not given is None."""
    types = get_type_hints(ScaleConfig)
    resume, _ = signature(command).parameters.values()
    parameters = [resume]
    for item in fields(ScaleConfig):
        default = "" if item.default in (None, "") else f" (default: {item.default})"
        asked = Option(format_option(item.name), help=item.metadata["help"] + default)
        kind = Annotated[types[item.name] | None, asked]
        parameters.append(Parameter(item.name, resume.kind, default=None, annotation=kind))
    command.__signature__ = Signature(parameters)
    return command


@app.command("train", epilog=EXAMPLES)
@_take_settings
def train_model(
    resume: Annotated[bool, Option("--resume", help="go on with the run in --out")] = False,
    **settings: Any,
) -> None:
    """Train one big model, under torchrun on many devices.

    A run that was stopped or killed goes on with --resume.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    from labkit.scale.training import train_run  # needs torch

    ended = train_run(given, resume)
    if os.environ.get("RANK", "0") == "0":
        print(ended)


@app.command("tokens")
def make_tokens(
    folder: Annotated[Path, Argument(help="a new folder for the shards")],
    files: Annotated[
        list[Path] | None, Argument(help="text, UTF-8; else the State of the Union addresses")
    ] = None,
    tokenizer: Annotated[str, Option(help="byte, or a vocabulary of tiktoken's")] = "byte",
    held_out: Annotated[float, Option(help="share of each file for validation")] = 0.01,
) -> None:
    """Turn text into token shards for labkit train."""
    from labkit.scale.tokens import prepare_tokens

    made = prepare_tokens(folder, files or [], tokenizer, held_out)
    counts = ", ".join(f"{made.count_tokens(split):,} {split}" for split in made.splits)
    print(f"{folder}: {counts} tokens, vocabulary {made.vocab:,} ({tokenizer})")
