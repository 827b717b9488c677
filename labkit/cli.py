"""The command `labkit`: read what is wanted, hand it on. Exit 0 fine, 1 red, 2 misuse."""

import argparse
import os
import sys
from typing import NoReturn

from labkit.book.files import Red
from labkit.commands import bench, book, course, homework, leaderboard, runs, show, train


def main(argv: list[str] | None = None) -> int:
    """Run one command."""
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
    for group in (book, leaderboard, homework, course, runs, train, show, bench):
        group.add(commands)
    return top


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what to choose from in one line, then how to learn more."""
        self.exit(2, f"labkit: {message}; `{self.prog} --help` lists what exists\n")
