"""The command `labkit`: parse and dispatch. Exit codes: 0 success, 1 failure, 2 misuse."""

import errno
import os
import sys
from typing import Annotated

try:
    from typer import Context, Exit, Option, Typer, TyperException
    from typer.core import TyperGroup
    from typer.main import get_command
except ModuleNotFoundError as error:
    raise SystemExit(
        "labkit: the command needs the package typer, which is not installed; run: pip install "
        "typer, or install everything that builds the book: pip install 'norm-lab-book[book]'"
    ) from error

from press.book.files import Red
from press.commands import (
    book,
    claims,
    course,
    fetch,
    homework,
    leaderboard,
    runs,
    show,
)

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
app = Typer(rich_markup_mode=None, suggest_commands=False, context_settings=HELP_OPTIONS)
for group in (book, claims, leaderboard, show, runs, homework, course, fetch):
    app.add_typer(group.app)


@app.callback(invoke_without_command=True)
def labkit(
    context: Context,
    version: Annotated[bool, Option("--version", help="Show which labkit this is.")] = False,
) -> None:
    """Build the lab book, train and show its runs, grade homework, serve a course."""
    if version:
        from importlib.metadata import version as version_of

        print(f"labkit {version_of('norm-lab-book')}")
        raise Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise Exit(2)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    command = get_command(app)
    if "_LABKIT_COMPLETE" in os.environ:
        command.main(prog_name="labkit")  # a shell asks what may follow
    try:
        words = sys.argv[1:] if argv is None else argv
        return command.invoke(command.make_context("labkit", list(words))) or 0
    except Exit as done:
        return done.exit_code
    except BrokenPipeError:  # somebody reads only the first lines
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _fail(1, "stopped; finished runs are kept, the same command goes on")
    except Red as error:
        return _fail(1, error)
    except OSError as error:  # also a full disk
        return _fail(1, _explain_system(error))
    except ValueError as error:
        return _fail(2, error)
    except TyperException as error:
        return _fail(2, _explain(error))


def _fail(code: int, why: object) -> int:
    print(f"labkit: {why}", file=sys.stderr)
    return code


def _explain_system(error: OSError) -> object:
    """Add the remedy if a file or folder cannot be written, or the disk is full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error}; free some space, and run the same command again: finished work is kept"
    if error.errno not in (errno.EROFS, errno.EACCES):
        return error
    return (
        f"labkit must be able to write {error.filename} ({error.strerror}); run it in a clone of "
        "the book that you may change (git clone); show and book check only read"
    )


def _explain(error: TyperException) -> str:
    """Describe in one line the rule, the value given, and how to list the valid values."""
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    errors = getattr(error.__cause__, "errors", None)  # of pydantic, which tells the rule alone
    if errors and repr(actual := errors()[0]["input"]) not in message:
        message += f", got {actual!r}"
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    group = isinstance(context.command, TyperGroup)
    exists = ", ".join(context.command.commands) if group else "what exists"
    return f"{message}; `{context.command_path} --help` lists {exists}"
