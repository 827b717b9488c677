"""The command `labkit`: read what is wanted, hand it on. Exit 0 fine, 1 red, 2 misuse."""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from labkit.book import chapters
from labkit.book.chapters import PROFILES
from labkit.book.files import Red


def main(argv: list[str] | None = None) -> int:
    """Run one command."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["bench"] and argv[1:2] != ["kernels"]:  # its own parser knows the rest
        from labkit.bench import main as bench  # needs torch

        return bench(argv[1:])
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except Red as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # somebody reads only the first lines
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("labkit: stopped; finished runs are kept, the same command goes on", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """Describe the commands."""
    top = _Parser(prog="labkit", description="The lab book's command.")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    book = commands.add_parser("book", help="build and check the book")
    verbs = book.add_subparsers(title="verbs", required=True, metavar="VERB")

    verb = _verb(verbs, "build", _build, "execute what changed, write twins, check claims")
    verb.add_argument("--seed", type=int, default=0, help="the chapters' seed (default: 0)")
    verb.add_argument("--only", nargs="+", metavar="NAME", help="these chapters, by name or number")
    _verb(verbs, "site", _site, "make the web site from the executed chapters")
    _verb(verbs, "check", _check, "compare the chapters' claims with the ledger")
    verb = _verb(verbs, "accept", _accept, "record claims as they are now")
    verb.add_argument("ids", nargs="*", metavar="ID", help="the claims to record")
    verb.add_argument("--all", action="store_true", help="every claim that differs")
    verb.add_argument("--why", required=True, help="the reason, kept in the ledger")
    verb = verbs.add_parser("runs", help="train what a profile lacks, in slices, without Jupyter")
    verb.set_defaults(run=_runs)
    verb.add_argument("--profile", choices=PROFILES, default="gpu", help="default: gpu")
    verb.add_argument("--only", nargs="+", metavar="NAME", help="these chapters, by name or number")
    verb.add_argument("--seed", type=int, default=0, help="the chapters' seed (default: 0)")
    verb.add_argument("--minutes", type=float, default=8, help="then stop; call again to go on")
    verb.add_argument("--list", action="store_true", help="say what is missing; train nothing")
    _verb(verbs, "pairs", _pairs, "check that every chapter and its twin have the same cells")

    verb = verbs.add_parser("tables", help="write README's tables from NORMS and RECIPES")
    verb.add_argument("--check", action="store_true", help="write nothing; red where they differ")
    verb.set_defaults(run=_tables)

    show = commands.add_parser("show", help="print a recipe: equations, parameters, costs, source")
    show.add_argument("recipe", nargs="?", help="its name; without one, all are listed")
    for name, value in (("dim", 64), ("depth", 4), ("heads", 4), ("context", 64)):
        show.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    show.add_argument("--norm", default="rms", help="the norm, where the recipe leaves it open")
    show.add_argument("--kind", default="decoder", help="decoder, encoder or encoder-decoder")
    show.set_defaults(run=_show)

    bench = commands.add_parser(
        "bench", help="time labkit beside plain PyTorch [train|norms]; show kernels [kernels]"
    ).add_subparsers(required=True, metavar="WHAT")
    kernels = bench.add_parser("kernels", help="table and figure of recorded kernel benchmarks")
    kernels.add_argument("files", nargs="*", type=Path, help="default: all of data/bench")
    kernels.set_defaults(run=_bench_kernels)
    return top


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what to choose from in one line, then how to learn more."""
        self.exit(2, f"labkit: {message}; `{self.prog} --help` lists what exists\n")


def _verb(verbs, name: str, run, summary: str) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=summary, description=summary)
    verb.set_defaults(run=run)
    if name != "pairs":
        verb.add_argument(
            "--profile", choices=PROFILES, default="cpu", help="the size of the runs (default: cpu)"
        )
    return verb


def _root() -> Path:
    return chapters.find_root(Path.cwd())


def _build(args: argparse.Namespace) -> int:
    from labkit.book.build import build

    return build(_root(), args.profile, args.seed, args.only)


def _site(args: argparse.Namespace) -> int:
    from labkit.book.site import build_site

    print(build_site(_root(), args.profile))
    return 0


def _check(args: argparse.Namespace) -> int:
    from labkit.book import ledger

    return ledger.check(_root(), args.profile)


def _accept(args: argparse.Namespace) -> int:
    from labkit.book import ledger

    if bool(args.ids) == args.all:
        raise ValueError("accept takes either claims by their ids or --all, not both or neither")
    return ledger.accept(_root(), args.profile, None if args.all else args.ids, args.why)


def _runs(args: argparse.Namespace) -> int:
    from labkit.book.grids import train  # needs torch

    root = _root()
    chosen = chapters.choose(chapters.find(root), args.only)
    if args.minutes <= 0:
        raise ValueError(f"--minutes must be above 0, got {args.minutes:g}")
    return train(
        root, chosen, args.profile, seed=args.seed, minutes=args.minutes, only_list=args.list
    )


def _pairs(args: argparse.Namespace) -> int:
    from labkit.book.twins import pairs

    problems = pairs(_root())
    for problem in problems:
        print(f"red     {problem}")
    if problems:
        print("    bring them together: `make book` executes the texts and writes the twins")
        return 1
    print(f"pairs: {len(chapters.find(_root()))} chapters in sync")
    return 0


def _tables(args: argparse.Namespace) -> int:
    from labkit.book.tables import write_tables

    stale = write_tables(_root(), check=args.check)
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


def _bench_kernels(args: argparse.Namespace) -> int:
    from labkit.plots.kernels import publish

    files = args.files or sorted((_root() / "data/bench").glob("*.json"))
    if not files:
        raise ValueError("nothing is recorded in data/bench; on a GPU: `make bench-kernels`")
    for file in files:
        print(publish(file))
    return 0


def _show(args: argparse.Namespace) -> int:
    from labkit.describe import describe  # needs torch
    from labkit.model import ModelConfig
    from labkit.placements import RECIPES

    if args.recipe is None:
        wide = max(map(len, RECIPES))
        for name, found in RECIPES.items():
            first, second = found.equations
            print(f"{name:<{wide}}  {first:<32}  {second:<32}  {found.source}")
        return 0
    config = ModelConfig(
        args.recipe,
        args.norm,
        args.dim,
        args.depth,
        args.heads,
        context=args.context,
        kind=args.kind,
    )
    print(describe(args.recipe, config))
    return 0
