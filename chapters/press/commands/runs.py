"""`labkit runs`: list, show, export, reproduce and clean up the stored runs."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from labkit.system.root import project_root

app = Typer(name="runs", help="List, show, export, reproduce and clean up stored runs.")

Where = Annotated[
    list[str] | None,
    Option(
        metavar="CONDITION",
        help="only these, such as \"model.recipe == 'pre' and train.lr < 0.01\"; may be repeated",
    ),
]
Key = Annotated[str, Argument(metavar="KEY", help="the beginning of its key")]


@app.command("list")
def list_runs(
    where: Where = None,
    sort: Annotated[str | None, Option(metavar="COLUMN", help="by this one, upwards")] = None,
    descending: Annotated[bool, Option("--descending", help="downwards instead")] = False,
    limit: Annotated[int, Option(min=0, help="so many; 0: all")] = 40,
    columns: Annotated[str | None, Option(metavar="A,B", help="these, and no others")] = None,
) -> None:
    """List runs, the newest first."""
    from labkit.experiments.queries import frame  # needs torch

    everything = frame.read_runs(project_root())
    runs = frame.select_runs(everything, where or [])
    chosen = columns.split(",") if columns else frame.COLUMNS
    frame.check_columns(everything, [*(chosen if columns else []), *([sort] if sort else [])])
    if sort and len(runs):
        try:
            runs = runs.sort_values(sort, ascending=not descending, kind="stable")
        except TypeError as error:
            raise ValueError(f"values of {sort} have no order: {error}") from error
    shown = runs.head(limit) if limit else runs
    if len(shown):
        print(frame.write_table(shown, chosen))
    more = "; --limit 0 shows all" if len(shown) < len(runs) else ""
    more = more if len(everything) else "; `make runs` trains those of the book"
    print(f"{len(shown)} of {len(runs)} runs{more}")


@app.command("show")
def show_run(key: Key) -> None:
    """Show one run: its config, losses, probes, provenance."""
    root = project_root()
    full_key = find_key(root, key)
    from labkit.experiments.queries.frame import show_run as format_run  # needs torch
    from labkit.experiments.store import Store

    row = Store(root).find_row(full_key)
    if row is None:
        raise ValueError(f"the record of {full_key} is damaged; its run trains again")
    print(format_run(row))


def find_key(root: Path, prefix: str) -> str:
    """Find the key that begins so, without torch; ValueError where none does, or several do."""
    from press.book.keys import list_run_keys

    keys = [key for key in list_run_keys(root) if key.startswith(prefix.lower())]
    if len(keys) != 1:
        some = f": {', '.join(key[:12] for key in keys[:5])}" if keys else ""
        raise ValueError(
            f"a key is named by a beginning that only it has; {len(keys)} begin with {prefix!r}"
            f"{some}; `labkit runs list` lists them"
        )
    return keys[0]


@app.command("export")
def export_runs(
    out: Annotated[Path, Argument(metavar="OUT.csv|OUT.jsonl")], where: Where = None
) -> None:
    """Write the runs to a table, one row a run."""
    from labkit.experiments.queries import frame  # needs torch

    runs = frame.select_runs(frame.read_runs(project_root()), where or [])
    frame.export_table(runs, out)
    print(f"{len(runs)} runs in {out}")


@app.command("reproduce")
def reproduce_run(
    key: Key,
    tolerance: Annotated[
        float | None,
        Option(
            min=0,
            help="largest relative difference "
            "(default: 0 on the machine of the record, else what its rounding may change)",
        ),
    ] = None,
) -> int:
    """Train a run again; red where the numbers differ."""
    root = project_root()
    full_key = find_key(root, key)
    from labkit.experiments.queries.reproduce import reproduce_record  # needs torch
    from labkit.system.pool import Pool

    with Pool(root).slot():
        found, changes = reproduce_record(root, full_key)
    if tolerance is not None:
        found = replace(found, tolerance=tolerance)
    for change in changes:
        print(f"differs from then: {change}")
    if math.isinf(found.tolerance):
        print("rounding alone may change all of this run: only a machine as then can tell")
    print(f"{found}; it may differ by {found.tolerance:g}")
    return 0 if found.agrees else 1


@app.command("gc")
def collect_garbage(
    dry_run: Annotated[bool, Option("--dry-run", help="only say what would go")] = False,
    damaged: Annotated[bool, Option("--damaged", help="remove damaged records, too")] = False,
) -> None:
    """Remove what killed processes left behind."""
    from labkit.experiments.queries.garbage import remove_garbage  # needs torch

    gone = remove_garbage(project_root() / ".labkit" / "runs", dry=dry_run, damaged=damaged)
    what = ", ".join(f"{count} {why}" for why, count in gone.items())
    print(f"{'would remove' if dry_run else 'removed'} {what or 'nothing'}")
