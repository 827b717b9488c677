"""`labkit bench`: time labkit beside plain PyTorch, and engines; show measured kernels."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option, Typer

from press.commands.options import Several

app = Typer(name="bench")

WIDTHS = [32, 64, 128, 256]
REPLICATES = [1, 4, 16, 64]
SIZES = [0, 1, 2]
Pairs = Annotated[int, Option(min=1, help="pairs to time for each line")]


@app.callback(invoke_without_command=True)
def bench(context: Context) -> None:
    """Time norms, training, engines and runs that train together; show kernels.

    Without a verb: norms, then training.
    """
    if context.invoked_subcommand is None:
        time_norms()
        time_training()


@app.command("norms")
def time_norms(
    turns: Pairs = 25,
    large: Annotated[bool, Option("--large", help="rows of 4,096 values too: 3 GB")] = False,
) -> None:
    """Time each norm beside torch's own, or beside its formula."""
    from labkit.costs import bench

    _be_alike()
    bench.benchmark_norms(large, turns)


@app.command("training", cls=Several)
def time_training(
    turns: Annotated[int, Option(min=1, help="how often each loop is timed")] = 9,
    steps: Annotated[int, Option(min=1, help="of each turn")] = 12,
    widths: Annotated[list[int], Option(metavar="N...", help="of the models")] = WIDTHS,
) -> None:
    """Time labkit's loop beside one by hand, as ratios."""
    from labkit.costs import bench

    _be_alike()
    bench.benchmark_training(turns, steps, widths)


def _be_alike() -> None:
    """Be the same each time: one thread, one seed."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)


@app.command("kernels")
def show_kernels(
    files: Annotated[list[Path] | None, Argument(help="default: all of data/bench")] = None,
) -> None:
    """Show table and figure of recorded kernel benchmarks."""
    from labkit.plots.kernels import publish_report
    from press.book.chapters import find_root

    files = files or sorted((find_root() / "data/bench").glob("*.json"))
    if not files:
        raise ValueError("nothing is recorded in data/bench; on a GPU: `make bench-kernels`")
    for file in files:
        print(publish_report(file))


@app.command("engines")
def time_engines(
    names: Annotated[list[str] | None, Argument(help="default: all that can be imported")] = None,
    runs: Annotated[int, Option(min=1, help="of the sweep")] = 16,
    steps: Annotated[int, Option(min=1, help="of each run")] = 100,
    turns: Annotated[int, Option(min=1, help="how often each engine is timed")] = 3,
) -> None:
    """Time a sweep by engine, as ratios to serial."""
    from labkit.experiments.engines.base import ENGINES, check_engine
    from labkit.experiments.engines.bench import bench_engines

    found = [name for name in ENGINES if name != "ray" or find_spec("ray")]
    bench_engines([check_engine(name) for name in names or ()] or found, runs, steps, turns)


@app.command("replicates", cls=Several)
def time_replicates(
    replicates: Annotated[list[int], Option(metavar="N...", min=1)] = REPLICATES,
    sizes: Annotated[list[int], Option(metavar="0|1|2...", min=0, max=2)] = SIZES,
    turns: Pairs = 5,
    steps: Annotated[int, Option(min=1, help="of each training")] = 4,
    recipe: str = "pre",
    cpu: Annotated[bool, Option("--cpu", help="here, though torch sees a GPU")] = False,
) -> None:
    """Time replicates that train together."""
    from labkit.experiments.replicates import bench
    from labkit.experiments.run import CPU, get_gpu_name

    device, models = CPU if cpu else get_gpu_name(), [bench.SIZES[size] for size in sizes]
    bench.print_table(device, models, replicates, turns, steps, recipe)
