"""`labkit leaderboard`: rank recipes, and norms of your own, under one budget of arithmetic."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from labkit.book.files import Red

ABOUT = """Rank recipes under one budget of training operations, counted and never timed.

An entry is RECIPE, RECIPE+NORM, or a norm of your own from a file: RECIPE+my_norm.py. Each trains
at every rate with the tuning seeds; the best rate by validation loss is trained with all seeds, and
its test loss counts. Pairs are compared by paired t tests over seeds, adjusted by Holm: entries
that share a letter were not told apart. Runs are stored: the same command goes on."""


def add(commands) -> None:
    """Describe the command."""
    board = commands.add_parser(
        "leaderboard",
        help="rank recipes and your own norm under one budget; says what is significant",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    board.add_argument("entries", nargs="*", metavar="ENTRY", help="default: the book's eight")
    option = board.add_argument
    option(
        "--flops", type=float, metavar="N", help="training operations of a run (default: 2.2e10)"
    )
    option("--rates", type=float, nargs="+", metavar="LR", help="learning rates to choose from")
    option("--seeds", type=int, metavar="N", help="how many, for the test losses (default: 5)")
    option("--tuning-seeds", type=int, metavar="N", help="how many, for the rates (default: 2)")
    for name in ("depth", "dim"):
        option(f"--{name}", type=int, metavar="N", help=f"the models' {name}")
    option("--list", action="store_true", help="say what each step costs, and what is not stored")
    option("--json", action="store_true", help="print the standings as JSON")
    option("--starter", type=Path, metavar="FILE.py", help="write a norm to begin with, and stop")
    option("--engine", help="what trains: processes (default), serial, ray")
    board.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.starter is not None:
        return _starter(args.starter)
    from labkit.leaderboard.contest import MAIN  # needs torch
    from labkit.leaderboard.entries import entries

    contest, field = _contest(args), entries(args.entries or list(MAIN))
    if args.list:
        return _list(contest, field)
    from labkit.leaderboard.compete import compete

    try:
        board = compete(contest, field, engine=args.engine)
    except RuntimeError as error:
        raise Red(str(error)) from error
    if args.json:
        print(json.dumps(board.to_dict(), indent=1))
        return 0
    print(f"budget: {contest.flops:.3g} training operations a run; lower test loss is better")
    print(board)
    return 0


def _contest(args: argparse.Namespace) -> Any:
    from labkit.leaderboard.contest import Contest

    given: dict[str, Any] = {
        "flops": args.flops,
        "rates": tuple(args.rates) if args.rates else None,
        "seeds": tuple(range(args.seeds)) if args.seeds is not None else None,
        "tuning_seeds": args.tuning_seeds,
        "depth": args.depth,
        "dim": args.dim,
    }
    return Contest(**{name: value for name, value in given.items() if value is not None})


def _list(contest: Any, field: list[Any]) -> int:
    from labkit.experiments.lab import project_root
    from labkit.experiments.store import Store

    store = Store(project_root())
    runs = [run for _, run in contest.tuning(field).runs()]
    missing = sum(store.get(run) is None for run in runs)
    for each in field:
        cost = contest.cost(each)
        print(f"{each.name}: {cost.operations:.4g} operations a step, {contest.steps(each)} steps, "
              f"{cost.norms} norms, {cost.kept / 2**20:.1f} MiB kept")  # fmt: skip
    print(f"tuning: {missing} of {len(runs)} runs are not stored; then "
          f"{len(contest.seeds)} seeds of each at its best rate")  # fmt: skip
    return 0


def _starter(path: Path) -> int:
    from labkit.leaderboard import starter

    if path.suffix != ".py":
        raise ValueError(f"a norm's file ends in .py, got {str(path)!r}; say --starter my_norm.py")
    if path.exists():
        raise ValueError(f"--starter writes a new file, but {path} is there; name another")
    path.write_text(Path(starter.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    print(
        f"{path} holds a norm; change it, then: labkit leaderboard pre pre+{path}", file=sys.stderr
    )
    return 0
