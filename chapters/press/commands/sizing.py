"""`labkit course sizing`: how many students a server holds, chapter by chapter."""

from typing import Annotated

from typer import Option, Typer

from press.commands.options import Only, Several

app = Typer()


@app.command("sizing", cls=Several)
def size_server(
    cores: Annotated[int | None, Option(help="the server's (default: this machine's)")] = None,
    memory: Annotated[str | None, Option(help="such as 64G (default: this machine's)")] = None,
    gpu_memory: Annotated[str | None, Option(help="one GPU's, such as 141G")] = None,
    workers: Annotated[int, Option(help="of each student")] = 2,
    lesson: Annotated[float, Option(help="minutes of one")] = 90,
    only: Only = None,
    declared: Annotated[bool, Option("--declared", help="not what builds measured")] = False,
) -> None:
    """Print how many students a server holds at a time, by chapter."""
    from labkit import pool
    from labkit.units import parse_bytes
    from press.book.chapters import find_root
    from press.site.sizing import Server, format_table, read_needs

    server = Server(
        pool.count_cores() if cores is None else cores,
        _measure_memory() if memory is None else parse_bytes(memory),
        None if gpu_memory is None else parse_bytes(gpu_memory),
        workers,
        lesson,
    )
    print(format_table(read_needs(find_root(), only, measured=not declared), server))


def _measure_memory() -> int:
    from labkit.experiments.engines.limits import machine_memory  # imports torch

    return machine_memory()
