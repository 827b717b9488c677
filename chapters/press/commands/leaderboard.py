"""`labkit leaderboard`: rank recipes, and norms of your own, under one budget of arithmetic."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from press.book.files import Red
from press.commands.options import Engine, Several

app = Typer()


@app.command("leaderboard", cls=Several)
def rank_entries(
    names: Annotated[
        list[str] | None, Argument(metavar="ENTRY", help="default: the book's eight")
    ] = None,
    flops: Annotated[float | None, Option(help="operations of a run (default: 2.2e10)")] = None,
    rates: Annotated[list[float] | None, Option(metavar="LR...", help="to choose from")] = None,
    seeds: Annotated[int | None, Option(help="how many, for the test losses (default: 5)")] = None,
    tuning_seeds: Annotated[int | None, Option(help="how many, for the rates (default: 2)")] = None,
    depth: Annotated[int | None, Option(help="the models' depth")] = None,
    dim: Annotated[int | None, Option(help="the models' dim")] = None,
    only_list: Annotated[bool, Option("--list", help="say what steps cost, what to train")] = False,
    as_json: Annotated[bool, Option("--json", help="print the standings as JSON")] = False,
    starter: Annotated[Path | None, Option(help="write a norm there to begin with; stop")] = None,
    engine: Engine = None,
) -> None:
    """Rank recipes and your own norm under one budget.

    The budget is of training operations, counted and never timed. An entry is RECIPE, RECIPE+NORM,
    or a norm of your own from a file: RECIPE+my_norm.py. Each trains at every rate with the tuning
    seeds; the best rate by validation loss is trained with all seeds, and its test loss counts.
    Pairs are compared by paired t tests over seeds, adjusted by Holm: entries that share a letter
    were not told apart. Runs are stored: the same command goes on.
    """
    if starter is not None:
        return _write_starter(starter)
    from labkit.leaderboard.contest import MAIN, Contest  # needs torch
    from labkit.leaderboard.entries import entries

    given: dict[str, Any] = {
        "flops": flops,
        "rates": tuple(rates) if rates else None,
        "seeds": tuple(range(seeds)) if seeds is not None else None,
        "tuning_seeds": tuning_seeds,
        "depth": depth,
        "dim": dim,
    }
    contest = Contest(**{name: value for name, value in given.items() if value is not None})
    field = entries(names or list(MAIN))
    if only_list:
        return _list_costs(contest, field)
    from labkit.leaderboard.compete import compete

    try:
        board = compete(contest, field, engine=engine)
    except RuntimeError as error:
        raise Red(str(error)) from error
    if as_json:
        print(json.dumps(board.to_dict(), indent=1))
    else:
        print(f"budget: {contest.flops:.3g} training operations a run; lower test loss is better")
        print(board)


def _list_costs(contest: Any, field: list[Any]) -> None:
    from labkit.experiments.lab import project_root
    from labkit.experiments.store import Store

    store = Store(project_root())
    runs = [run for _, run in contest.tuning(field).runs()]
    missing = sum(store.read_record(run) is None for run in runs)
    for each in field:
        cost = contest.cost(each)
        print(f"{each.name}: {cost.operations:.4g} operations a step, {contest.steps(each)} steps, "
              f"{cost.norms} norms, {cost.kept / 2**20:.1f} MiB kept")  # fmt: skip
    print(f"tuning: {missing} of {len(runs)} runs are not stored; then "
          f"{len(contest.seeds)} seeds of each at its best rate")  # fmt: skip


def _write_starter(path: Path) -> None:
    from labkit.leaderboard import starter

    if path.suffix != ".py":
        raise ValueError(f"a norm's file ends in .py, got {str(path)!r}; say --starter my_norm.py")
    if path.exists():
        raise ValueError(f"--starter writes a new file, but {path} is there; name another")
    path.write_text(Path(starter.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    print(
        f"{path} holds a norm; change it, then: labkit leaderboard pre pre+{path}", file=sys.stderr
    )
