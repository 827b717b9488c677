"""`labkit bench`: show what a GPU measured of the kernels."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Typer

app = Typer(name="bench")


@app.callback()
def bench() -> None:
    """Show the recorded benchmarks of the kernels."""


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
