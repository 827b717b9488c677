"""The block explorer's data: chapters/_static/blocks, written by `labkit book tables`.

    index.json     the slots, every recipe, and which rungs there are
    S.json, …      what a rung or direction recorded (labkit.leaderboard.explorer)
    cover.svg      the cover's picture, where no script runs; it names the data that it was drawn of

A line holds one recipe, so that a difference can be read. On the site each JSON is a script: a page
that was opened from a folder may load a script, and no JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.system.files import write_whole
from press.book.facts import Json
from press.book.files import Red

if TYPE_CHECKING:
    from labkit.experiments import Run
    from labkit.experiments.ladder.rates import Read
    from labkit.plots import Figure
    from labkit.training import Record

FOLDER = Path("chapters") / "_static" / "blocks"
CALL = "labkitBlocks"  # the function of explorer.js that takes a file
RUNG, SHOWN = "S", "pre"  # what the cover's picture shows
BEGIN = "r=pre&amp;a=post&amp;lr=0.0316"  # what the explorer on the cover begins with
COVER = "cover.svg"
FIGURE = """<figure class="labkit-figure" data-explorer="{begin}">
{picture}
</figure>"""


def write_files(root: Path, *, check: bool = False) -> list[str]:
    """Bring data and picture up to date with the records; name what was not. `check` only looks."""
    made = build_files(root)
    stale = write_data(root, made, check=check)
    picture = root / FOLDER / COVER
    data = made.get(f"{RUNG}.json", "")
    sign = f"<!-- {hashlib.sha256(data.encode()).hexdigest()[:16]} -->\n"
    if picture.is_file() and picture.read_text(encoding="utf-8").startswith(sign):
        return stale
    if not check:
        write_whole(picture, sign + draw_cover(json.loads(data)).draw_page())
    return [*stale, "the block explorer's picture"]


def draw_cover(rung: Json) -> Figure:
    """Draw the block and the losses with which the cover begins, out of a rung's data."""
    from labkit.plots.explorer import block_explorer

    losses = {
        recipe: {rate: [*of, *([None] * len(ends))] for rate, _, of, ends in row["tried"]}
        for recipe, row in rung["recipes"].items()
    }
    shown = {SHOWN: losses[SHOWN]}
    drawn = block_explorer(shown, losses, reference=rung["lines"], caption="Where no script runs.")
    drawn.marks = None  # a script puts the explorer in its place
    return drawn


def read_cover(root: Path) -> str:
    """Read the cover's picture, in the figure that explorer.js makes an explorer of."""
    path = root / FOLDER / COVER
    if not path.is_file():
        raise Red(
            f"the cover needs {FOLDER / COVER}, which is missing; write it with `labkit book "
            "tables`"
        )
    return FIGURE.format(begin=BEGIN, picture=path.read_text(encoding="utf-8").strip())


def write_data(root: Path, made: Mapping[str, str], *, check: bool = False) -> list[str]:
    """Make the folder hold these files of data; name those that differed. `check` only looks."""
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
    """Return what reads the book's own record of a run; runs of this machine do not count."""
    from labkit.experiments.records import Records, from_row  # needs torch

    records = Records(root)

    @cache
    def read(run: Run) -> Record | None:
        row = records.find_row(run.key())
        return None if row is None else from_row(row)

    return read


def build_files(root: Path) -> dict[str, str]:
    """Make every file from the book's records."""
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
    return {f"{name}.json": format_file(content) for name, content in files.items()}


def format_file(content: Json) -> str:
    """Write a file as JSON in as few characters as it needs, a recipe a line."""
    lines = []
    for name, value in content.items():
        text = _format_value(value)
        if name == "recipes":
            rows = ",\n".join(f"{json.dumps(k)}:{_format_value(v)}" for k, v in value.items())
            text = f"{{\n{rows}}}"
        lines.append(f"{json.dumps(name)}:{text}")
    return "{" + ",\n".join(lines) + "}\n"


def _format_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def script_files(files: Mapping[str, bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Yield of each staged file of data its name, and name and content of the script that it is."""
    for name, content in files.items():
        path = Path(name)
        if path.parent == Path("_static") / FOLDER.name and path.suffix == ".json":
            said = f"{CALL}({json.dumps(path.stem)},{content.decode().rstrip()});\n"
            yield name, path.with_suffix(".js").as_posix(), said.encode()
