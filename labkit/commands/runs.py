"""`labkit runs`: list, show, compare, export, clean up and reproduce the stored runs."""

import argparse
import json
from pathlib import Path
from typing import Any

from labkit.book.files import Red


def add(commands) -> None:
    """Describe the verbs; without one, `list`."""
    runs = commands.add_parser("runs", help="what the store holds: list, compare, export, clean up")
    _filters(runs)
    runs.set_defaults(run=_list)
    verbs = runs.add_subparsers(title="verbs", metavar="VERB")

    verb = _verb(verbs, "list", _list, "list runs, the newest first (what `labkit runs` does)")
    _filters(verb, argparse.SUPPRESS)
    verb = _verb(verbs, "show", _show, "one run: its config, losses, probes, provenance")
    verb.add_argument("key", metavar="KEY", help="the beginning of its key")
    verb = _verb(verbs, "compare", _compare, "the fields in which runs differ, and their results")
    verb.add_argument("keys", nargs="+", metavar="KEY", help="two runs or more")
    verb = _verb(verbs, "export", _export, "write the runs to a table, one row a run")
    verb.add_argument("out", type=Path, metavar="OUT.csv|OUT.parquet")
    _choice(verb, argparse.SUPPRESS)
    verb = _verb(verbs, "gc", _gc, "remove what no run asks for again")
    verb.add_argument("--dry-run", action="store_true", help="only say what would go")
    verb.add_argument(
        "--older-than", default="7d", metavar="30d", help="keep what is younger (default: 7d)"
    )
    verb.add_argument("--damaged", action="store_true", help="remove damaged entries, too")
    verb = _verb(verbs, "record", _record, "move what was trained here into the book's records")
    _chapters(verb)
    verb = _verb(verbs, "replay", _replay, "are the book's records what this code computes?")
    _chapters(verb)
    verb.add_argument("--every", action="store_true", help="each rate, too")
    verb = _verb(verbs, "ladder", _ladder, "what the shared ladder of arms has so far")
    verb.add_argument("--rung", default="S", help="S, M or L (default: S)")
    verb = _verb(verbs, "reproduce", _reproduce, "train a run again; red where the numbers differ")
    verb.add_argument("key", metavar="KEY", help="the beginning of its key")
    verb.add_argument("--tolerance", type=float, help="largest relative difference (default: 1e-3)")


def _verb(verbs, name: str, run, summary: str) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=summary, description=summary)
    verb.set_defaults(run=run)
    return verb


def _choice(verb: argparse.ArgumentParser, default: Any = None) -> None:
    """Add the options that choose runs."""
    verb.add_argument(
        "--where",
        action="append",
        default=default,
        metavar="FIELD=VALUE",
        help="only these, such as model.recipe=post or 'train.lr>=1e-3'; may be repeated",
    )
    verb.add_argument("--all", action="store_true", default=default, help="stale runs, too")


def _filters(verb: argparse.ArgumentParser, default: Any = None) -> None:
    """Add the options of a list; at the second place they are absent unless given."""
    _choice(verb, default)
    option = verb.add_argument
    option("--sort", default=default, metavar="FIELD", help="by this field, upwards")
    option("--descending", action="store_true", default=default, help="downwards instead")
    option("--limit", type=int, default=default, metavar="N", help="so many (default: 40; 0: all)")
    option("--columns", default=default, metavar="A,B", help="these fields, and no others")
    option("--json", action="store_true", default=default, help="as JSON, every field")


def _chapters(verb: argparse.ArgumentParser) -> None:
    """Add the options that choose chapters and a size."""
    verb.add_argument("--only", nargs="+", metavar="NAME", help="these chapters, by name or number")
    verb.add_argument("--size", choices=("book", "gpu"), default="book", help="default: book")


def _folder() -> Path:
    from labkit.experiments.lab import project_root  # needs torch

    return project_root() / ".labkit" / "runs"


def _list(args: argparse.Namespace) -> int:
    from labkit.experiments.queries import table, where
    from labkit.experiments.queries.fields import get

    shelf, rows = _chosen(args)
    if args.sort:
        rows = where.order(rows, args.sort, bool(args.descending))
    limit = (0 if args.json else 40) if args.limit is None else args.limit
    if limit < 0:
        raise ValueError(f"--limit must be 0 (all) or more, got {limit}")
    shown = rows[:limit] if limit else rows
    columns = args.columns.split(",") if args.columns else None
    if args.json:
        if columns:
            shown = [{name: get(row, name) for name in columns} for row in shown]
        print(json.dumps(shown, indent=1))
        return 0
    if shown:
        print(table.list_text(shown, columns or table.COLUMNS))
    print(table.count_text(shelf, len(shown), len(rows)))
    return 0


def _chosen(args: argparse.Namespace) -> tuple[Any, list[dict[str, Any]]]:
    from labkit.experiments.queries import where
    from labkit.experiments.queries.entries import scan
    from labkit.experiments.queries.fields import row_of

    shelf = scan(_folder())
    entries = shelf.entries if args.all else shelf.of("current", "recorded")
    return shelf, where.select([row_of(entry) for entry in entries], args.where or [])


def _show(args: argparse.Namespace) -> int:
    from labkit.experiments.queries.table import show_text

    print(show_text(_find(args.key)))
    return 0


def _compare(args: argparse.Namespace) -> int:
    from labkit.experiments.queries.table import compare_text

    entries = {entry.key: entry for entry in map(_find, args.keys)}
    if len(entries) < 2:
        raise ValueError(f"compare takes two runs or more, got {len(entries)}")
    print(compare_text(list(entries.values())))
    return 0


def _export(args: argparse.Namespace) -> int:
    from labkit.experiments.queries.export import export

    shelf, rows = _chosen(args)
    keys = {row["key"] for row in rows}
    export([entry for entry in shelf.entries if entry.key in keys], args.out)
    print(f"{len(rows)} runs in {args.out}")
    return 0


def _gc(args: argparse.Namespace) -> int:
    from labkit.experiments.durations import parse_duration
    from labkit.experiments.queries.garbage import collect

    older = parse_duration(args.older_than)
    removed = collect(_folder(), older, dry=args.dry_run, damaged=args.damaged)
    print(removed.text(args.dry_run))
    return 0


def _record(args: argparse.Namespace) -> int:
    from labkit.book import chapters
    from labkit.book.recording import record

    root = chapters.find_root()
    chosen = chapters.choose(chapters.find(root), args.only)
    for one in record(root, chosen, args.size):
        print(one)
    return 0


def _ladder(args: argparse.Namespace) -> int:
    from labkit.experiments import ladder
    from labkit.experiments.lab import project_root
    from labkit.experiments.store import Store

    if args.rung not in ladder.RUNGS:
        raise ValueError(f"unknown rung {args.rung!r}; choose one of {', '.join(ladder.RUNGS)}")
    rows = ladder.table(args.rung, ladder.ARMS, Store(project_root()).get)
    print(
        f"{'arm':<28} {'rate':>8} {'test':>7} {'seeds':>5}  below pre by (95 %)       sensitivity"
    )
    for row in rows:
        lead = ""
        if "lead" in row:
            low, high = row["interval"]
            lead = f"{row['lead']:+.4f} [{low:+.4f}, {high:+.4f}]"
        print(
            f"{row['arm']:<28} {row.get('rate', '–'):>8} "
            f"{row['test'] if 'test' in row else float('nan'):7.4f} {row['seeds']:>5}  {lead:<26}"
            f"{row.get('sensitivity', float('nan')):6.3f}"
        )
    return 0


def _replay(args: argparse.Namespace) -> int:
    from labkit.book import asked, chapters, replays
    from labkit.book.replaying import check

    root = chapters.find_root()
    chosen = chapters.choose(chapters.find(root), args.only)
    found = check(root, chosen, args.size, every=args.every)
    counts = [
        (c.name[:2], sum(key in found["stale"] for key in asked.keys(root, args.size, c.name)))
        for c in chosen
    ]
    print(replays.words(found, counts))
    return 1 if found["stale"] else 0


def _reproduce(args: argparse.Namespace) -> int:
    from labkit.experiments.lab import project_root
    from labkit.experiments.queries.reproduce import TOLERANCE, reproduce
    from labkit.pool import Pool

    tolerance = TOLERANCE if args.tolerance is None else args.tolerance
    if not tolerance >= 0:
        raise ValueError(f"--tolerance must be 0 or more, got {tolerance:g}")
    entry = _find(args.key)
    try:
        with Pool(project_root()).slot():
            again = reproduce(entry, tolerance)
    except RuntimeError as error:
        raise Red(str(error)) from error
    print(again)
    return 0 if again.agrees else 1


def _find(key: str):
    from labkit.experiments.queries.entries import Unreadable, find

    try:
        return find(_folder(), key)
    except Unreadable as error:
        raise Red(str(error)) from error
