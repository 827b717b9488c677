"""The block explorer's data: chapters/_static/blocks, written by `labkit book tables`.

    index.json     the slots, every recipe, and which rungs there are
    S.json, …      what a rung or direction recorded (labkit.leaderboard.explorer)

A line holds one recipe, so that a difference can be read.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from labkit.experiments import ladder
from labkit.experiments.store import Store
from labkit.leaderboard.explorer import OVER, WORDS, describe_rung, list_recipes
from labkit.leaderboard.voices import describe_map, describe_voices
from labkit.plots.figure import VARIABLES
from press.site import cover

FOLDER = Path("chapters") / "_static" / "blocks"
RUNG = "S"  # of the cover's map


def list_files(root: Path) -> Iterator[tuple[str, Path, str | None]]:
    """Yield name, path and text of each file; the text is None if there should be no such file."""
    made, folder = build_files(root), root / FOLDER
    for name in sorted({*made, *(path.name for path in folder.glob("*.json"))}):
        yield f"the block explorer's {name}", folder / name, made.get(name)
    voices = describe_voices(Store(root).read_recorded)
    described = voices | describe_map(json.loads(made[f"{RUNG}.json"]))
    yield "the cover's texts and map", root / cover.PATH, cover.format_data(described)


def build_files(root: Path) -> dict[str, str]:
    """Make all files from the book's records."""
    read = cache(Store(root).read_recorded)
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
