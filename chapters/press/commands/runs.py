"""`labkit runs`: list, show, compare, export, clean up and reproduce the stored runs."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Context, Option, Typer

from press.commands.options import Only, Several

app = Typer(name="runs")

Where = Annotated[
    list[str] | None,
    Option(
        metavar="CONDITION",
        help="only these, such as model.recipe=post or \"model.recipe == 'pre' and "
        'train.lr < 0.01"; may be repeated',
    ),
]
Sort = Annotated[str | None, Option(metavar="FIELD", help="by this field, upwards")]
Descending = Annotated[bool, Option("--descending", help="downwards instead")]
Limit = Annotated[int | None, Option(min=0, help="so many (default: 40; 0: all)")]
Columns = Annotated[str | None, Option(metavar="A,B", help="these fields, and no others")]
AsJson = Annotated[bool, Option("--json", help="as JSON, every field")]
Key = Annotated[str, Argument(metavar="KEY", help="the beginning of its key")]
Size = Annotated[Literal["book", "gpu"], Option(help="of the runs")]
RUNGS = ["S", "M", "L"]


@app.callback(invoke_without_command=True)
@app.command("list", help="List runs, the newest first (what `labkit runs` does).")
def list_runs(
    context: Context,
    where: Where = None,
    sort: Sort = None,
    descending: Descending = False,
    limit: Limit = None,
    columns: Columns = None,
    as_json: AsJson = False,
) -> None:
    """List, show, compare, export, clean up and reproduce stored runs.

    Without a verb: list. What is said before a verb holds for `list` and `export` too.
    """
    if context.invoked_subcommand is not None:
        context.default_map = {"list": context.params, "export": context.params}
        return
    from labkit.experiments.queries import frame

    limit = (0 if as_json else 40) if limit is None else limit
    everything = _read()
    runs = frame.select_runs(everything, where or [])
    chosen = columns.split(",") if columns else []
    frame.check_fields(runs, [*chosen, *filter(None, [sort])])
    if sort and len(runs):
        try:
            runs = runs.sort_values(sort, ascending=not descending, kind="stable")
        except TypeError as error:
            raise ValueError(f"values of {sort} have no order: {error}") from error
    shown = runs.head(limit) if limit else runs
    if as_json:
        fields = chosen or shown.columns.drop("losses", errors="ignore")
        print(frame.write_json(shown.reindex(columns=fields), indent=1))
        return
    if len(shown):
        print(frame.write_table(shown, chosen or frame.COLUMNS))
    more = "; --limit 0 shows all" if len(shown) < len(runs) else ""
    more = more if len(everything) else "; `make runs` trains those of the book"
    print(f"{len(shown)} of {len(runs)} runs{more}{_count_others()}")


def _folder() -> Path:
    from labkit.experiments.lab import project_root  # needs torch

    return project_root() / ".labkit" / "runs"


def _read():
    from labkit.experiments.lab import project_root  # needs torch
    from labkit.experiments.queries.frame import read_runs

    return read_runs(project_root())


def _count_others() -> str:
    from labkit.experiments.queries.garbage import sort_files

    count = Counter(sort_files(_folder())[1].values())
    others = ", ".join(f"{number} {what}" for what, number in count.items())
    return f"\nbesides: {others}; `labkit runs gc --dry-run` says what could go" if others else ""


@app.command("show")
def show_run(key: Key) -> None:
    """Show one run: its config, losses, probes, provenance."""
    from labkit.experiments.queries import frame

    runs = _read()
    print(frame.show_run(runs, frame.find_key(runs, key)))


@app.command("compare")
def compare_runs(
    keys: Annotated[list[str], Argument(metavar="KEY", help="two runs or more")],
) -> None:
    """Show the fields in which runs differ, and their results."""
    from labkit.experiments.queries import frame

    runs = _read()
    found = list(dict.fromkeys(frame.find_key(runs, key) for key in keys))
    if len(found) < 2:
        raise ValueError("compare takes two runs or more, got one")
    print(frame.compare_runs(runs, found))


@app.command("export")
def export_runs(
    out: Annotated[Path, Argument(metavar="OUT.csv|OUT.jsonl")], where: Where = None
) -> None:
    """Write the runs to a table, one row a run."""
    from labkit.experiments.queries.frame import export_table, select_runs

    runs = select_runs(_read(), where or [])
    export_table(runs, out)
    print(f"{len(runs)} runs in {out}")


@app.command("gc")
def collect_garbage(
    dry_run: Annotated[bool, Option("--dry-run", help="only say what would go")] = False,
    older_than: Annotated[str, Option(metavar="30d", help="keep what is younger")] = "7d",
    damaged: Annotated[bool, Option("--damaged", help="remove damaged entries, too")] = False,
) -> None:
    """Remove what no run asks for again."""
    from labkit.experiments.queries.garbage import remove_garbage
    from labkit.system.units import parse_duration

    gone = remove_garbage(_folder(), parse_duration(older_than), dry=dry_run, damaged=damaged)
    sizes = [size for each in gone.values() for size in each]
    print(f"{'would remove' if dry_run else 'removed'} {len(sizes)} files, {sum(sizes):,} bytes")
    for what, each in gone.items():
        print(f"  {len(each):>6} {what}, {sum(each):,} bytes")


@app.command("record", cls=Several)
def record_runs(only: Only = None, size: Size = "book") -> None:
    """Move what was trained here into the book's records."""
    from press.book import chapters
    from press.book.recording import update_records

    root = chapters.find_root()
    chosen = chapters.choose_chapters(chapters.find_chapters(root), only)
    for one in update_records(root, chosen, size):
        print(one)


@app.command("ladder", cls=Several)
def show_ladder(rung: Annotated[list[str], Option(metavar="S|M|L...")] = RUNGS) -> None:
    """Show what the shared ladder of arms has so far."""
    from pandas import DataFrame

    from labkit.experiments import ladder
    from labkit.experiments.lab import project_root
    from labkit.experiments.store import Store

    if unknown := set(rung) - set(RUNGS):
        raise ValueError(f"--rung takes {', '.join(RUNGS)}, got {', '.join(unknown)}")
    found = ladder.read_results(rung, ladder.ARMS, Store(project_root()).read_record)
    print(DataFrame(ladder.table(found)).to_string(index=False))


@app.command("replay", cls=Several)
def replay_records(
    only: Only = None,
    size: Size = "book",
    every: Annotated[bool, Option("--every", help="each rate, too")] = False,
) -> int:
    """Return whether the book's records are what this code computes."""
    from press.book import chapters, replays
    from press.book.replaying import replay_runs

    root = chapters.find_root()
    chosen = chapters.choose_chapters(chapters.find_chapters(root), only)
    found = replay_runs(root, chosen, size, every=every)
    print(replays.describe_verdict(found, replays.count_stale(root, chosen, size, found)))
    return 1 if found["stale"] else 0


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
    from labkit.experiments.lab import project_root
    from labkit.experiments.queries.frame import find_key
    from labkit.experiments.queries.reproduce import reproduce_record
    from labkit.system.pool import Pool

    root, full_key = project_root(), find_key(_read(), key)
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
