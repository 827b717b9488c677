"""`labkit course sizing`: how many students a server holds, chapter by chapter."""

import argparse

from labkit.units import parse_bytes


def add_sizing(verbs) -> None:
    """Describe the verb."""
    summary = "how many students a server holds at a time, by chapter"
    verb = verbs.add_parser("sizing", help=summary, description=summary)
    verb.set_defaults(run=_sizing)
    verb.add_argument("--cores", type=int, help="the server's (default: this machine's)")
    verb.add_argument("--memory", metavar="64G", help="the server's (default: this machine's)")
    verb.add_argument("--gpu-memory", metavar="141G", help="one GPU's")
    verb.add_argument("--workers", type=int, default=2, help="of each student (default: 2)")
    verb.add_argument("--lesson", type=float, default=90, metavar="MINUTES", help="default: 90")
    verb.add_argument("--only", nargs="+", metavar="NAME", help="these chapters, by name or number")
    verb.add_argument(
        "--declared", action="store_true", help="what chapters declare, not what builds measured"
    )


def _sizing(args: argparse.Namespace) -> int:
    from labkit.book.chapters import find_root
    from labkit.book.sizing import Server, needs, table
    from labkit.pool import cores

    server = Server(
        cores() if args.cores is None else args.cores,
        parse_bytes(args.memory) if args.memory is not None else _here(),
        parse_bytes(args.gpu_memory) if args.gpu_memory is not None else None,
        args.workers,
        args.lesson,
    )
    print(table(needs(find_root(), args.only, measured=not args.declared), server))
    return 0


def _here() -> int:
    from labkit.experiments.engines.limits import machine_memory  # imports torch

    return machine_memory()
