"""`labkit book`: execute, check and record the book."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from press.book import chapters
from press.book.chapters import find_root
from press.commands.options import Address, Engine, Only, Several, Size

app = Typer(name="book", help="Build and check the book.")
Part = Literal["twins", "tables", "content", "constraints", "claims"]
# What to do about the faults of each part; the ledger says it of each claim.
WAYS_OUT: dict[Part, str] = {
    "twins": "; `make book` executes the texts and writes the twins",
    "tables": ", not what labkit has; `labkit book tables` writes them again",
    "content": "",
    "constraints": ", not what is installed; `labkit book constraints` pins it",
}


@app.command("build", cls=Several)
def build_book(size: Size = "book", only: Only = None) -> int:
    """Execute the chapters that changed, write their notebooks, check their claims."""
    from press.book.build import build_chapters

    return build_chapters(find_root(), size, only)


def _choose_engine(engine: str | None, address: str | None) -> None:
    """Tell the chapters' processes which engine to use; no key depends on it."""
    if engine is None and address is None:
        return
    from labkit.experiments.engines.base import check_engine  # needs torch

    os.environ["LABKIT_ENGINE"] = check_engine(engine, address)
    if address is not None:
        os.environ["LABKIT_ENGINE_ADDRESS"] = address


@app.command("site")
def build_site(
    size: Size = "book",
    as_pdf: Annotated[bool, Option("--pdf", help="also print it as one PDF, in Chromium")] = False,
) -> None:
    """Build the web site from the executed chapters."""
    if as_pdf:
        from press.site.pdf import build_pdf as build
    else:
        from press.site.sphinx import build_site as build

    print(build(find_root(), size))


@app.command("accept")
def accept_claims(
    why: Annotated[str, Option(help="the reason, kept in the ledger")],
    ids: Annotated[list[str] | None, Argument(metavar="ID", help="the claims to record")] = None,
    every: Annotated[bool, Option("--all", help="every claim that differs")] = False,
    size: Size = "book",
) -> int:
    """Record the present state of claims in the ledger."""
    from press.book import ledger

    if bool(ids) == every:
        raise ValueError("accept needs either ids of claims or --all, but not both")
    return ledger.accept_claims(find_root(), size, ids, why)


@app.command("runs", cls=Several)
def train_runs(
    size: Size = "book",
    only: Only = None,
    duration: Annotated[
        str | None, Option("--for", help="stop after this time, such as 2h; run again to continue")
    ] = None,
    only_list: Annotated[
        bool, Option("--list", help="list the missing runs; train nothing")
    ] = False,
    engine: Engine = None,
    address: Address = None,
    device: Annotated[
        str | None, Option(metavar="cuda|NAME", help="train on this GPU (default: on the CPU)")
    ] = None,
) -> int:
    """Train the runs that are missing or stale, at low priority."""
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
        climb=climbs,
        seconds=None if duration is None else parse_duration(duration),
        only_list=only_list,
        gpu=device,
    )


@app.command("record", cls=Several)
def record_runs(only: Only = None, size: Size = "book") -> None:
    """Move the runs that were trained here into the book's records."""
    from press.book.recording import update_records  # needs torch

    root = find_root()
    chosen = chapters.choose_chapters(chapters.find_chapters(root), only)
    for one in update_records(root, chosen, size):
        print(one)


@app.command("replay", cls=Several)
def replay_records(
    only: Only = None,
    size: Size = "book",
    every: Annotated[bool, Option("--every", help="replay all, as if all had changed")] = False,
) -> int:
    """Replay the book's records and report where this code computes other numbers."""
    from press.book.replays import check_replays

    root = find_root()
    chosen = chapters.choose_chapters(chapters.find_chapters(root), only)
    return 1 if check_replays(root, size, chosen, every=every) else 0


@app.command("constraints")
def write_constraints() -> None:
    """Pin the versions that are installed, for the next set-up."""
    from press.book import constraints

    changed = constraints.write_constraints(find_root(), check=False)
    print(f"constraints: {len(changed)} lines changed")


@app.command("tables")
def write_tables() -> None:
    """Write tables, the data of the explorer and the cover, README's picture, START.ipynb."""
    from press.site.written import write_all

    print(f"tables: {', '.join(write_all(find_root(), check=False)) or 'nothing'} written")


@app.command("check")
def check_book(
    part: Annotated[Part | None, Argument(help="what to check (default: all)")] = None,
    size: Size = "book",
) -> int:
    """Check twins, tables, content, constraints and claims; edit nothing.

    Twins: every chapter and its twin must have the same cells. Tables: what `labkit book tables`
    writes must be up to date. Content: all faults of text and ledger are printed. Constraints: the
    pinned versions must be the installed ones. Claims: those of the chapters, as they were executed
    at this size, must be those of the ledger.
    """
    root, red = find_root(), False
    for each, way_out in WAYS_OUT.items():
        if part in (each, None):
            faults = list(list_faults(root, each))
            told = f"{each}: {len(faults) or 'no'} faults{way_out if faults else ''}"
            print("\n".join([*faults, told]), flush=True)
            red = red or bool(faults)
    if part == "claims" or (part is None and (root / f"build/claims/{size}.json").is_file()):
        from press.book.ledger import check_ledger

        return check_ledger(root, size) or int(red)
    if part is None:
        print("claims: not compared, because nothing was built yet (`make book` does both)")
    return int(red)


def list_faults(root: Path, part: Part) -> Iterable[str]:
    """List the errors in a part of the book."""
    if part == "twins":
        from press.book.twins import list_mismatches

        return list_mismatches(root)
    if part == "tables":
        from press.site.written import write_all

        return write_all(root, check=True)
    if part == "content":
        from press.lint import lint  # needs jupytext

        return lint(root)
    from press.book.constraints import write_constraints

    return write_constraints(root, check=True)
