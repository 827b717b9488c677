"""The block explorer's data: chapters/_static/blocks, written by `labkit book tables`.

    index.json     the slots, every recipe, and which rungs there are
    S.json, …      what a rung or direction recorded (labkit.leaderboard.explorer)

A line holds one recipe, so that a difference can be read. On the site each JSON is a script: a page
that was opened from a folder may load a script, and no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.system.files import write_whole
from press.site import cover

if TYPE_CHECKING:
    from labkit.experiments import Run
    from labkit.experiments.ladder.rates import Read
    from labkit.training import Record

FOLDER = Path("chapters") / "_static" / "blocks"
CALL = "labkitBlocks"  # the function of explorer.js that takes a file
RUNG = "S"  # of the cover's map


def write_files(root: Path, *, check: bool = False) -> list[str]:
    """Update the data from the records, and the cover's; return the names of outdated files.

    `check` only looks.
    """
    from labkit.leaderboard.voices import describe_map, describe_voices  # needs torch

    made = build_files(root)
    described = describe_voices(read_recorded(root)) | describe_map(
        json.loads(made[f"{RUNG}.json"])
    )
    stale = write_data(root, made, check=check)
    return stale + cover.write_file(root, described, check=check)


def write_data(root: Path, made: Mapping[str, str], *, check: bool = False) -> list[str]:
    """Write these data files to the folder; return those that differed. `check` writes nothing."""
    folder = root / FOLDER
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    stale = sorted(name for name in {*made, *there} if made.get(name) != there.get(name))
    if not check:
        for name in stale:
            if name in made:
                write_whole(folder / name, made[name])
            else:
                (folder / name).unlink()
    return [f"the block explorer's {name}" for name in stale]


def read_recorded(root: Path) -> Read:
    """Return a function that reads the book's own record of a run, not the runs of this machine."""
    from labkit.experiments.records import Records, from_row  # needs torch

    records = Records(root)

    @cache
    def read(run: Run) -> Record | None:
        row = records.find_row(run.key())
        return None if row is None else from_row(row)

    return read


def build_files(root: Path) -> dict[str, str]:
    """Make all files from the book's records."""
    from labkit.experiments import ladder  # needs torch
    from labkit.leaderboard.explorer import OVER, WORDS, describe_rung, list_recipes
    from labkit.plots.figure import VARIABLES

    read = read_recorded(root)
    found = ladder.read_ladder(ladder.CLIMBED, ladder.ARMS, read)
    rungs = {
        rung: describe_rung(found, rung, read)
        for rung in ladder.CLIMBED
        if rung in found.by("rung")
    }
    index = {
        "slots": WORDS,
        "over": OVER,
        "rungs": {rung: of["size"] for rung, of in rungs.items()},
        "colours": {name: colour for colour, name in VARIABLES.items()},
        "recipes": list_recipes(),
    }
    files = {"index": index, **rungs}
    return {f"{name}.json": cover.format_data(content) for name, content in files.items()}


def script_files(files: Mapping[str, bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Yield for each staged data file its name, and the name and content of its script."""
    for name, content in files.items():
        path = Path(name)
        if path.parent == Path("_static") / FOLDER.name and path.suffix == ".json":
            said = f"{CALL}({json.dumps(path.stem)},{content.decode().rstrip()});\n"
            yield name, path.with_suffix(".js").as_posix(), said.encode()
