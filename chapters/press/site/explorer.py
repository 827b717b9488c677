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

from press.site import cover

if TYPE_CHECKING:
    from labkit.experiments import Run
    from labkit.experiments.ladder.rates import Read
    from labkit.training import Record

FOLDER = Path("chapters") / "_static" / "blocks"
CALL = "labkitBlocks"  # the function of explorer.js that takes a file
RUNG = "S"  # of the cover's map


def list_files(root: Path) -> Iterator[tuple[str, Path, str | None]]:
    """Yield name, path and text of each file, and of the cover's; one too many has no text."""
    from labkit.leaderboard.voices import describe_map, describe_voices  # needs torch

    made, folder = build_files(root), root / FOLDER
    for name in sorted({*made, *(path.name for path in folder.glob("*.json"))}):
        yield f"the block explorer's {name}", folder / name, made.get(name)
    voices = describe_voices(read_recorded(root))
    described = voices | describe_map(json.loads(made[f"{RUNG}.json"]))
    yield "the cover's texts and map", root / cover.PATH, cover.format_data(described)


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
