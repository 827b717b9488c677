"""`labkit train` and `labkit tokens`: one big run, and what it reads."""

import os
from dataclasses import fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option, Typer
from typer.core import TyperCommand

from labkit.scale.config import ScaleConfig, format_option
from press.commands.options import Several

app = Typer()

EXAMPLES = """\b
Examples:
  labkit tokens build/tokens --corpus text
  labkit train --data build/tokens --out build/run --recipe 'hybrid*' --size tiny --steps 300
  torchrun --nproc-per-node=8 -m labkit train --data DIR --out RUN --recipe 'hybrid*' \\
      --size 151M --batch 1024 --micro-batch 8 --parallel fsdp2 --steps 50000
  labkit train --out build/run --resume"""


class Train(TyperCommand):
    """The command `train`: its many options stand under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section a group of settings, and one for the rest."""
        sections: dict[str, list] = {}
        for one in self.get_params(ctx):
            name = getattr(one, "rich_help_panel", None) or "Help"
            sections.setdefault(name, []).append(one.get_help_record(ctx))
        for name, rows in sections.items():
            with formatter.section(name.capitalize()):
                formatter.write_dl(rows)


def _take_settings(command: Any) -> Any:
    """Add to a command an option for each field of ScaleConfig; what is not given is None."""
    types = get_type_hints(ScaleConfig)
    resume, _ = signature(command).parameters.values()
    parameters = [resume]
    for item in fields(ScaleConfig):
        worth_showing = item.default not in (None, "") and item.default is not False
        asked = Option(
            format_option(item.name),
            metavar="|".join(item.metadata["choices"]) or None,
            help=item.metadata["help"] + (f" (default: {item.default})" if worth_showing else ""),
            rich_help_panel=item.metadata["group"],
        )
        kind = Annotated[types[item.name] | None, asked]
        parameters.append(Parameter(item.name, resume.kind, default=None, annotation=kind))
    command.__signature__ = Signature(parameters)
    return command


@app.command("train", cls=Train, epilog=EXAMPLES)
@_take_settings
def train_model(
    resume: Annotated[
        bool, Option("--resume", help="go on with the run in --out", rich_help_panel="run")
    ] = False,
    **settings: Any,
) -> None:
    """Train one big model, under torchrun on many devices.

    A run that was stopped or killed goes on with --resume.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    missing = [name for name in ("data", "out") if name not in given]
    if "out" in missing or (missing and not resume):
        raise ValueError(
            f"labkit train needs {' and '.join(map(format_option, missing))}; tokens come from: "
            "labkit tokens DIR --corpus text"
        )
    from labkit.scale.start import train_run  # needs torch

    ended = train_run(given, resume)
    if os.environ.get("RANK", "0") == "0":
        print(ended)


@app.command("tokens", cls=Several)
def prepare_tokens(
    folder: Annotated[Path, Argument(help="a new folder for the shards")],
    text: Annotated[list[Path] | None, Option(metavar="FILE...", help="text files, UTF-8")] = None,
    corpus: Annotated[str | None, Option(help="text (State of the Union) or markov")] = None,
    tokenizer: Annotated[str, Option(help="byte, or a vocabulary of tiktoken's")] = "byte",
    held_out: Annotated[float, Option(help="share of each file for validation")] = 0.01,
    shard_tokens: Annotated[int, Option(help="tokens in a file")] = 2**27,
) -> None:
    """Turn text into token shards for labkit train."""
    from labkit.scale.prepare import prepare_shards

    made = prepare_shards(folder, text or [], corpus, tokenizer, held_out, shard_tokens)
    counts = ", ".join(f"{made.count_tokens(split):,} {split}" for split in made.splits)
    print(f"{made.folder}: {counts} tokens, vocabulary {made.vocab:,} ({made.tokenizer['name']})")
