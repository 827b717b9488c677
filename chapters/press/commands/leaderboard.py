"""`labkit leaderboard`: rank recipes, and norms of your own, by the ladder's rules."""

import json
import sys
from pathlib import Path
from typing import Annotated, cast

from typer import Argument, Option, Typer

from press.book.files import Red
from press.commands.options import Engine, Several

app = Typer()
MAIN = ("pre", "post", "qk", "deepnorm", "hybrid*", "dyt", "ngpt", "none")


@app.command("leaderboard", cls=Several)
def rank_entries(
    names: Annotated[
        list[str] | None, Argument(metavar="ENTRY", help="what to rank (default: the book's eight)")
    ] = None,
    rung: Annotated[str, Option(help="a size of the ladder (S, M), or a variant")] = "S",
    look: Annotated[
        bool, Option("--look", help="train 300 steps with one seed; gives no ranking")
    ] = False,
    only_list: Annotated[
        bool, Option("--list", help="count the runs that are left to train")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="print the standings as JSON")] = False,
    starter: Annotated[
        Path | None, Option(help="write a file with a norm to start from, and stop")
    ] = None,
    engine: Engine = None,
) -> None:
    """Rank recipes and your own norm by the ladder's rules.

    An entry is an arm of the ladder, RECIPE, RECIPE+NORM, a block with norms in the slots you name
    (at:q,k,middle), or your norm from a file: RECIPE+my_norm.py. Recorded runs are read. Others are
    trained like the book's: the learning rate is tuned with three seeds, and the result is
    evaluated with twenty others (ten for some of the book's arms). This takes about 35 minutes on
    one core for rung S. Pairs are compared with one standard deviation for all arms, adjusted by
    Holm: entries that share a letter are not distinguishable. Runs are stored: the same command
    continues. --look takes a minute and shows whether a norm fails.
    """
    if starter is not None:
        return _write_starter(starter)
    if as_json and (look or only_list):
        raise ValueError(
            "--json prints the standings, but --look and --list compute none; leave --json out"
        )
    from labkit.experiments import ladder  # needs torch
    from labkit.leaderboard.compete import compete, look_at
    from labkit.leaderboard.entries import entries
    from labkit.system.root import explain_no_records, project_root
    from labkit.system.unknown import explain_unknown

    if rung not in ladder.RUNGS:
        raise ValueError(explain_unknown("rung", rung, ladder.RUNGS))
    field = entries(names or list(MAIN))
    if not look and (why := explain_no_records(project_root())):
        print(f"labkit: every run trains here; {why}", file=sys.stderr)
    if only_list:
        return _list_costs(rung, field)
    try:
        if look:
            print(look_at(field, rung=rung, engine=engine))
            return None
        board = compete(field, rung=rung, engine=engine)
    except RuntimeError as error:
        raise Red(str(error)) from error
    print(json.dumps(board.to_dict(), indent=1) if as_json else board)
    return None


def _list_costs(rung: str, field: list) -> None:
    from labkit.experiments import ladder
    from labkit.experiments.store import Store
    from labkit.leaderboard.compete import list_needed
    from labkit.leaderboard.footprint import count_footprint
    from labkit.model import ModelConfig
    from labkit.system.root import project_root

    read, text = Store(project_root()).read_record, ladder.build_text(rung)
    for each in field:
        runs = list_needed(rung, each.method, read)
        missing = sum(read(run) is None for run in runs)
        model = cast(ModelConfig, ladder.build_base_run(rung, each.arm).model)
        cost = count_footprint(model, text.batch, text.time)
        print(f"{each.name}: {missing} of {len(runs)} runs that can be named are not stored; "
              f"{cost.operations:.4g} operations a step, {cost.norms} norms, "
              f"{cost.kept / 2**20:.1f} MiB kept")  # fmt: skip


def _write_starter(path: Path) -> None:
    from labkit.leaderboard import starter

    if path.suffix != ".py":
        raise ValueError(
            f"a norm's file must end in .py, got {str(path)!r}; name it like this: --starter "
            "my_norm.py"
        )
    if not path.parent.is_dir():
        raise ValueError(f"--starter needs an existing folder, but there is no {path.parent}")
    if path.exists():
        raise ValueError(f"--starter must name a new file, but {path} exists; choose another name")
    path.write_text(Path(starter.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    print(
        f"{path} holds a norm; change it, then: labkit leaderboard pre pre+{path}", file=sys.stderr
    )
