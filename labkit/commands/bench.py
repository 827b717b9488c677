"""`labkit bench`: time labkit beside plain PyTorch, show what kernels were measured."""

import argparse
from pathlib import Path

from labkit.book.chapters import find_root


def add(commands) -> None:
    """Describe the command; `labkit.cli` hands what is timed to labkit.bench, which parses it."""
    bench = commands.add_parser(
        "bench", help="time labkit beside plain PyTorch [train|norms]; show kernels [kernels]"
    ).add_subparsers(required=True, metavar="WHAT")
    kernels = bench.add_parser("kernels", help="table and figure of recorded kernel benchmarks")
    kernels.add_argument("files", nargs="*", type=Path, help="default: all of data/bench")
    kernels.set_defaults(run=_bench_kernels)


def _bench_kernels(args: argparse.Namespace) -> int:
    from labkit.plots.kernels import publish

    files = args.files or sorted((find_root() / "data/bench").glob("*.json"))
    if not files:
        raise ValueError("nothing is recorded in data/bench; on a GPU: `make bench-kernels`")
    for file in files:
        print(publish(file))
    return 0
