"""`labkit train` and `labkit tokens`: one big run, and what it reads."""

import argparse
import os
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

from labkit.scale.config import ScaleConfig, option

EXAMPLE = """examples:
  labkit tokens build/tokens --corpus text
  labkit train --data build/tokens --out build/run --recipe 'hybrid*' --size tiny --steps 300
  torchrun --nproc-per-node=8 -m labkit train --data DIR --out RUN --recipe 'hybrid*' \\
      --size 151M --batch 1024 --micro-batch 8 --parallel fsdp2 --steps 50000
  labkit train --out build/run --resume
"""


def add(commands) -> None:
    """Describe both commands."""
    raw = argparse.RawDescriptionHelpFormatter
    train = commands.add_parser(
        "train",
        help="train one big model, under torchrun on many devices",
        description="Train one big model; a run that was stopped or killed goes on with --resume.",
        epilog=EXAMPLE,
        formatter_class=raw,
        argument_default=argparse.SUPPRESS,
    )
    groups = {}
    types = get_type_hints(ScaleConfig)
    for item in fields(ScaleConfig):
        name = item.metadata["group"]
        group = groups.setdefault(name, None) or train.add_argument_group(name)
        groups[name] = group
        _add(group, item, types[item.name])
    groups["run"].add_argument(
        "--resume", action="store_true", default=False, help="go on with the run in --out"
    )
    train.set_defaults(run=_train)

    tokens = commands.add_parser("tokens", help="turn text into token shards for labkit train")
    tokens.add_argument("folder", type=Path, help="a new folder for the shards")
    tokens.add_argument("--text", nargs="+", type=Path, default=[], help="text files, UTF-8")
    tokens.add_argument("--corpus", help="text (every State of the Union address) or markov")
    tokens.add_argument(
        "--tokenizer", default="byte", help="byte, or a vocabulary of tiktoken's (default: byte)"
    )
    tokens.add_argument(
        "--held-out", type=float, default=0.01, help="share of each file for validation"
    )
    tokens.add_argument(
        "--shard-tokens", type=int, default=2**27, help=f"tokens in a file (default: {2**27:,})"
    )
    tokens.set_defaults(run=_tokens)


def _add(group, item, kind) -> None:
    """Make an option of a field."""
    if kind is bool:
        group.add_argument(option(item.name), action="store_true", help=item.metadata["help"])
        return
    plain = next((k for k in get_args(kind) if k is not type(None)), kind)
    default = "" if item.default in (None, "") else f" (default: {item.default})"
    group.add_argument(
        option(item.name),
        type=plain,
        metavar="|".join(item.metadata["choices"]) or plain.__name__.upper(),
        help=item.metadata["help"] + default,
    )


def _train(args: argparse.Namespace) -> int:
    given = {
        item.name: getattr(args, item.name) for item in fields(ScaleConfig) if item.name in args
    }
    missing = [name for name in ("data", "out") if name not in given]
    if "out" in missing or (missing and not args.resume):
        raise ValueError(
            f"labkit train needs {' and '.join(map(option, missing))}; tokens come from: "
            "labkit tokens DIR --corpus text"
        )
    from labkit.scale.start import train  # needs torch

    ended = train(given, args.resume)
    if os.environ.get("RANK", "0") == "0":
        print(ended)
    return 0


def _tokens(args: argparse.Namespace) -> int:
    from labkit.scale.prepare import prepare

    made = prepare(
        args.folder, args.text, args.corpus, args.tokenizer, args.held_out, args.shard_tokens
    )
    counts = ", ".join(f"{made.tokens(split):,} {split}" for split in made.splits)
    print(f"{made.folder}: {counts} tokens, vocabulary {made.vocab:,} ({made.tokenizer['name']})")
    return 0
