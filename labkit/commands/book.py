"""`labkit book`: execute, check and record the book."""

import argparse
import os

from labkit.book import chapters
from labkit.book.chapters import SIZES, find_root


def add(commands) -> None:
    """Describe the verbs."""
    book = commands.add_parser("book", help="build and check the book")
    verbs = book.add_subparsers(title="verbs", required=True, metavar="VERB")

    verb = _verb(verbs, "build", _build, "execute what changed, write twins, check claims")
    verb.add_argument("--seed", type=int, default=0, help="the chapters' seed (default: 0)")
    verb.add_argument("--only", nargs="+", metavar="NAME", help="these chapters, by name or number")
    _engine(verb)
    _verb(verbs, "site", _site, "make the web site from the executed chapters")
    _verb(verbs, "pdf", _pdf, "print the whole site as one PDF, in Chromium")
    _verb(verbs, "check", _check, "compare the chapters' claims with the ledger")
    verb = _verb(verbs, "accept", _accept, "record claims as they are now")
    verb.add_argument("ids", nargs="*", metavar="ID", help="the claims to record")
    verb.add_argument("--all", action="store_true", help="every claim that differs")
    verb.add_argument("--why", required=True, help="the reason, kept in the ledger")
    verb = verbs.add_parser("runs", help="train what is missing or stale, at low priority")
    verb.set_defaults(run=_runs)
    verb.add_argument("--size", choices=SIZES, default="book", help="default: book")
    verb.add_argument(
        "--only", nargs="+", metavar="NAME", help="these chapters, by name or number, or the ladder"
    )
    verb.add_argument("--rungs", nargs="+", default=["S"], help="of the ladder (default: S)")
    verb.add_argument("--seed", type=int, default=0, help="the chapters' seed (default: 0)")
    verb.add_argument("--for", dest="duration", metavar="2h", help="then stop; call again to go on")
    verb.add_argument("--list", action="store_true", help="say what is missing; train nothing")
    _engine(verb)
    _verb(verbs, "pairs", _pairs, "check that every chapter and its twin have the same cells")

    verb = verbs.add_parser("tables", help="write README's tables from NORMS and RECIPES")
    verb.add_argument("--check", action="store_true", help="write nothing; red where they differ")
    verb.set_defaults(run=_tables)


def _verb(verbs, name: str, run, summary: str) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=summary, description=summary)
    verb.set_defaults(run=run)
    if name != "pairs":
        verb.add_argument(
            "--size", choices=SIZES, default="book", help="the size of the runs (default: book)"
        )
    return verb


def _engine(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--engine", help="what trains: processes (default), serial, ray")
    verb.add_argument("--address", help="the cluster's, for an engine that knows one")


def _choose_engine(args: argparse.Namespace) -> None:
    """Tell the chapters' processes which engine is meant; no key depends on it."""
    if args.engine is None and args.address is None:
        return
    from labkit.experiments.engines.base import check_engine  # needs torch

    os.environ["LABKIT_ENGINE"] = check_engine(args.engine, args.address)
    if args.address is not None:
        os.environ["LABKIT_ENGINE_ADDRESS"] = args.address


def _build(args: argparse.Namespace) -> int:
    from labkit.book.build import build

    _choose_engine(args)
    root = find_root()
    return build(root, args.size, args.seed, args.only)


def _site(args: argparse.Namespace) -> int:
    from labkit.book.site import build_site

    print(build_site(find_root(), args.size))
    return 0


def _pdf(args: argparse.Namespace) -> int:
    from labkit.book.pdf import build_pdf

    print(build_pdf(find_root(), args.size))
    return 0


def _check(args: argparse.Namespace) -> int:
    from labkit.book import ledger

    return ledger.check(find_root(), args.size)


def _accept(args: argparse.Namespace) -> int:
    from labkit.book import ledger

    if bool(args.ids) == args.all:
        raise ValueError("accept takes either claims by their ids or --all, not both or neither")
    return ledger.accept(find_root(), args.size, None if args.all else args.ids, args.why)


def _runs(args: argparse.Namespace) -> int:
    from labkit.book.runs import train  # needs torch
    from labkit.experiments.durations import parse_duration

    root, names = find_root(), list(args.only or [])
    climb = not names or "ladder" in names
    names = [name for name in names if name != "ladder"]
    chosen = chapters.choose(chapters.find(root), names) if names or not args.only else []
    _choose_engine(args)
    return train(
        root,
        chosen,
        args.size,
        seed=args.seed,
        rungs=args.rungs if climb and args.size == "book" else (),
        seconds=None if args.duration is None else parse_duration(args.duration),
        only_list=args.list,
    )


def _pairs(args: argparse.Namespace) -> int:
    from labkit.book.twins import pairs

    problems = pairs(find_root())
    for problem in problems:
        print(f"red     {problem}")
    if problems:
        print("    bring them together: `make book` executes the texts and writes the twins")
        return 1
    print(f"pairs: {len(chapters.find(find_root()))} chapters in sync")
    return 0


def _tables(args: argparse.Namespace) -> int:
    from labkit.book.tables import write_tables

    stale = write_tables(find_root(), check=args.check)
    if args.check and stale:
        print(f"red     README's table of {' and of '.join(stale)} is not what labkit has")
        print("    write it anew: `labkit book tables`")
        return 1
    print(
        f"tables: {', '.join(stale) if stale else 'nothing'} written"
        if not args.check
        else "tables: as labkit has them"
    )
    return 0
