"""`labkit book`: execute, check and record the book."""

import os
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from press.book import chapters
from press.book.chapters import find_root
from press.commands.options import Address, Engine, Only, Seed, Several, Size

app = Typer(name="book", help="Build and check the book.")
Recorded = Annotated[Literal["book", "gpu"], Option("--size", help="of the runs")]


@app.command("build", cls=Several)
def build_book(
    size: Size = "book",
    seed: Seed = 0,
    only: Only = None,
    engine: Engine = None,
    address: Address = None,
) -> int:
    """Execute what changed, write twins, check claims."""
    from press.book.build import build_chapters

    _choose_engine(engine, address)
    return build_chapters(find_root(), size, seed, only)


def _choose_engine(engine: str | None, address: str | None) -> None:
    """Tell the chapters' processes which engine is meant; no key depends on it."""
    if engine is None and address is None:
        return
    from labkit.experiments.engines.base import check_engine  # needs torch

    os.environ["LABKIT_ENGINE"] = check_engine(engine, address)
    if address is not None:
        os.environ["LABKIT_ENGINE_ADDRESS"] = address


@app.command("site")
def build_site(size: Size = "book") -> None:
    """Make the web site from the executed chapters."""
    from press.site import sphinx

    print(sphinx.build_site(find_root(), size))


@app.command("pyodide")
def fetch_pyodide() -> None:
    """Fetch the Python with which pages check code, once."""
    from press.site import pyodide

    print(pyodide.fetch_pyodide())


@app.command("pdf")
def build_pdf(size: Size = "book") -> None:
    """Print the whole site as one PDF, in Chromium."""
    from press.site import pdf

    print(pdf.build_pdf(find_root(), size))


@app.command("check")
def check_claims(size: Size = "book") -> int:
    """Compare the chapters' claims with the ledger."""
    from press.book import ledger

    return ledger.check_ledger(find_root(), size)


@app.command("accept")
def accept_claims(
    why: Annotated[str, Option(help="the reason, kept in the ledger")],
    ids: Annotated[list[str] | None, Argument(metavar="ID", help="the claims to record")] = None,
    every: Annotated[bool, Option("--all", help="every claim that differs")] = False,
    size: Size = "book",
) -> int:
    """Record claims as they are now."""
    from press.book import ledger

    if bool(ids) == every:
        raise ValueError("accept takes either claims by their ids or --all, not both or neither")
    return ledger.accept_claims(find_root(), size, ids, why)


@app.command("runs", cls=Several)
def train_runs(
    size: Size = "book",
    only: Only = None,
    seed: Seed = 0,
    duration: Annotated[str | None, Option("--for", help="such as 2h; call again to go on")] = None,
    only_list: Annotated[bool, Option("--list", help="say what is missing; train nothing")] = False,
    engine: Engine = None,
    address: Address = None,
    device: Annotated[
        str | None, Option(metavar="cuda|NAME", help="train on this GPU (default: on the cores)")
    ] = None,
) -> int:
    """Train what is missing or stale, at low priority."""
    from labkit.system.units import parse_duration
    from press.book.runs import train_missing  # needs torch

    root, names = find_root(), [name for name in only or () if name != "ladder"]
    climbs = size == "book" and (not only or "ladder" in only)
    chosen = (
        chapters.choose_chapters(chapters.find_chapters(root), names) if names or not only else []
    )
    _choose_engine(engine, address)
    return train_missing(
        root,
        chosen,
        size,
        seed=seed,
        climb=climbs,
        seconds=None if duration is None else parse_duration(duration),
        only_list=only_list,
        gpu=device,
    )


@app.command("record", cls=Several)
def record_runs(only: Only = None, size: Recorded = "book") -> None:
    """Move what was trained here into the book's records."""
    from press.book.recording import update_records  # needs torch

    root = find_root()
    chosen = chapters.choose_chapters(chapters.find_chapters(root), only)
    for one in update_records(root, chosen, size):
        print(one)


@app.command("replay", cls=Several)
def replay_records(
    only: Only = None,
    size: Recorded = "book",
    every: Annotated[bool, Option("--every", help="as if all had changed")] = False,
) -> int:
    """Say whether the book's records are what this code computes."""
    from press.book.replays import check_replays

    root = find_root()
    chosen = chapters.choose_chapters(chapters.find_chapters(root), only)
    return 1 if check_replays(root, size, chosen, every=every) else 0


@app.command("pairs")
def compare_twins() -> int:
    """Check that every chapter and its twin have the same cells."""
    from press.book.twins import list_mismatches

    problems = list_mismatches(find_root())
    for problem in problems:
        print(f"red     {problem}")
    if problems:
        print("    bring them together: `make book` executes the texts and writes the twins")
        return 1
    print(f"pairs: {len(chapters.find_chapters(find_root()))} chapters in sync")
    return 0


@app.command("lint")
def lint_content() -> int:
    """Print every fault of text, ledger and tables at once; edits nothing."""
    from press.lint import lint  # needs jupytext

    faults = list(lint(find_root()))
    print("\n".join([*faults, f"lint: {len(faults) or 'no'} faults"]))
    return 1 if faults else 0


@app.command("constraints")
def write_constraints(
    check: Annotated[bool, Option("--check", help="write nothing; red where they differ")] = False,
) -> int:
    """Pin the versions that are installed, for the next set-up."""
    from press.book import constraints

    differ = constraints.write_constraints(find_root(), check=check)
    if check and differ:
        print(f"red     {constraints.FILE} differs from what is installed: {', '.join(differ)}")
        print("    write it anew: `labkit book constraints`")
        return 1
    print(f"constraints: {'as installed' if check else f'{len(differ)} lines changed'}")
    return 0


@app.command("tables")
def write_tables(
    check: Annotated[bool, Option("--check", help="write nothing; red where they differ")] = False,
) -> int:
    """Write the tables of norms and recipes, the block explorer, README's picture, START.ipynb."""
    from press.site.written import write_all

    stale = write_all(find_root(), check=check)
    if check and stale:
        named = " and ".join(stale)
        print(f"red     {named}: not what labkit has; write anew: `labkit book tables`")
        return 1
    done = "as labkit has them" if check else f"{', '.join(stale) or 'nothing'} written"
    print(f"tables: {done}")
    return 0
