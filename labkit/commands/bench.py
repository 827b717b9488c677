"""`labkit bench`: time labkit beside plain PyTorch, and engines; show measured kernels."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from labkit.book.chapters import find_root


def add(commands) -> None:
    """Describe the command and what it can time."""
    whole = commands.add_parser(
        "bench",
        help="time training and norms beside plain PyTorch, engines, runs that train together; "
        "show kernels",
    )
    whole.set_defaults(run=_bench_both)
    bench = whole.add_subparsers(metavar="WHAT", help="without one: norms, then training")
    norms = bench.add_parser("norms", help="each norm beside torch's own, or beside its formula")
    norms.add_argument("--turns", type=int, default=25, help="pairs to time for each line")
    norms.add_argument("--large", action="store_true", help="rows of 4,096 values too: 3 GB")
    norms.set_defaults(run=_bench_norms)
    training = bench.add_parser(
        "training",
        help="labkit's loop beside one by hand and its own with matmul='onednn', as ratios",
    )
    training.add_argument("--turns", type=int, default=9, help="how often each loop is timed")
    training.add_argument("--steps", type=int, default=12, help="of each turn")
    training.add_argument("--widths", type=int, nargs="+", default=[32, 64, 128, 256])
    training.set_defaults(run=_bench_training)
    kernels = bench.add_parser("kernels", help="table and figure of recorded kernel benchmarks")
    kernels.add_argument("files", nargs="*", type=Path, help="default: all of data/bench")
    kernels.set_defaults(run=_bench_kernels)
    engines = bench.add_parser("engines", help="seconds of a sweep by engine, as ratios to serial")
    engines.add_argument("names", nargs="*", help="default: every engine that can be imported")
    for name, value in (("runs", 16), ("steps", 100), ("turns", 3)):
        engines.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    engines.set_defaults(run=_bench_engines)
    together = bench.add_parser("replicates", help="time replicates that train together")
    together.add_argument("--replicates", type=int, nargs="+", metavar="N", default=[1, 4, 16, 64])
    together.add_argument("--sizes", type=int, nargs="+", choices=(0, 1, 2), default=[0, 1, 2])
    together.add_argument("--turns", type=int, default=5, help="pairs to time for each line")
    together.add_argument("--steps", type=int, help="of each training (default: 4, on a GPU 100)")
    together.add_argument("--recipe", default="pre", help="default: pre")
    together.add_argument("--cpu", action="store_true", help="here, though torch sees a GPU")
    together.set_defaults(run=_bench_replicates)


def _bench_both(args: argparse.Namespace) -> int:
    from labkit import bench

    _alike()
    bench.norms()
    bench.training()
    return 0


def _bench_norms(args: argparse.Namespace) -> int:
    from labkit import bench

    _check_counts(args, "turns")
    _alike()
    bench.norms(args.large, args.turns)
    return 0


def _bench_training(args: argparse.Namespace) -> int:
    from labkit import bench

    _check_counts(args, "turns", "steps")
    _alike()
    bench.training(args.turns, args.steps, args.widths)
    return 0


def _alike() -> None:
    """Be the same each time: one thread, one seed."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)


def _check_counts(args: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(args, name) < 1:
            raise ValueError(f"--{name} must be at least 1, got {getattr(args, name)}")


def _bench_kernels(args: argparse.Namespace) -> int:
    from labkit.plots.kernels import publish

    files = args.files or sorted((find_root() / "data/bench").glob("*.json"))
    if not files:
        raise ValueError("nothing is recorded in data/bench; on a GPU: `make bench-kernels`")
    for file in files:
        print(publish(file))
    return 0


def _bench_engines(args: argparse.Namespace) -> int:
    from labkit.experiments.engines.base import ENGINES, check_engine
    from labkit.experiments.engines.bench import bench

    found = [name for name in ENGINES if name != "ray" or find_spec("ray")]
    names = [check_engine(name) for name in args.names] or found
    _check_counts(args, "runs", "steps", "turns")
    bench(names, args.runs, args.steps, args.turns)
    return 0


def _bench_replicates(args: argparse.Namespace) -> int:
    from labkit.experiments.replicates.bench import SIZES, table
    from labkit.experiments.run import CPU, gpu

    if min(*args.replicates, args.turns, args.steps or 1) < 1:
        raise ValueError("replicates, turns and steps must be 1 or more")
    sizes = [SIZES[i] for i in args.sizes]
    table(CPU if args.cpu else gpu(), sizes, args.replicates, args.turns, args.steps, args.recipe)
    return 0
