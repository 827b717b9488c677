"""Which runs do the chapters ask for? Executed in order, without a kernel, they say so.

    .labkit/asked/<size>-<name>.jsonl      one run a line; also written by every build

Nothing is trained: a cell whose runs have no records yet is left out, and with it what then lacks
a name. So a grid that depends on the results of another (the best rate of a first one, say) is
found once those are there. (As a program it executes one chapter:
`python -m labkit.book.asked NAME --root ROOT --size book --seed 0`.)
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.book import chapters
from labkit.book.chapters import Chapter

if TYPE_CHECKING:
    from labkit.experiments import Run

CODE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Asked:
    """What a chapter asks for, each run once, and the cells that failed for a reason of theirs."""

    runs: tuple["Run", ...]
    faults: tuple[str, ...] = ()


def path_of(root: Path, size: str, name: str) -> Path:
    """Say where the list of a chapter's runs stands."""
    return root / ".labkit" / "asked" / f"{size}-{name}.jsonl"


def read(root: Path, size: str, name: str) -> list["Run"]:
    """Read which runs a chapter asked for when it was executed last."""
    from labkit.experiments import Run
    from labkit.experiments.own import accept

    path = path_of(root, size, name)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows = [json.loads(line) for line in dict.fromkeys(lines)]
    for row in rows:
        accept(row["own"])  # norms that a chapter defines: its own code, executed just now
    return [Run.from_dict(run) for run in {row["key"]: row["run"] for row in rows}.values()]


def keys(root: Path, size: str, name: str) -> list[str]:
    """Read the keys of those runs, without torch."""
    path = path_of(root, size, name)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return sorted({json.loads(line)["key"] for line in lines})


def environment(root: Path, size: str, name: str) -> dict[str, str]:
    """Set what a chapter's process sees when it must train nothing and note what it asks for."""
    path = path_of(root, size, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return {"LABKIT_DECLARED": str(path), "LABKIT_TRAIN": "never", "LABKIT_ROOT": str(root)}


def ask(root: Path, chapter: Chapter, size: str, seed: int = 0) -> Asked:
    """Execute a chapter in a process of its own and list the runs that it asked for."""
    command = [sys.executable, "-m", "labkit.book.asked", chapter.name, "--root", str(root)]
    paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
    alone = {"PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--size", size, "--seed", str(seed)],
        env={**os.environ, **alone, **environment(root, size, chapter.name)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr or "it said nothing").strip().splitlines()[-1]
        return Asked((), (f"it ended with code {done.returncode}: {last}",))
    return Asked(tuple(read(root, size, chapter.name)), tuple(json.loads(done.stdout)))


def execute(chapter: Chapter, size: str, seed: int) -> list[str]:
    """Execute a chapter's code cells in order; return what went wrong in its own right."""
    from labkit.experiments.filling import MissingRuns

    namespace: dict[str, Any] = {"__name__": "__main__"}
    faults, waits = [], False
    cells = [cell for cell in chapters.read(chapter).cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, 1):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(cell.source, f"<cell {number}>", "exec"), namespace)
        except MissingRuns:
            waits = True
        except Exception as error:
            # What a cell lacks because another one waits is no fault.
            if not (waits and isinstance(error, NameError)):
                faults.append(f"cell {number}: {type(error).__name__}: {error}")
        if "parameters" in cell.metadata.get("tags", []):
            namespace |= {"size": size, "seed": seed}
    return faults


def main() -> None:
    """Execute the chapter that is named, and print its faults as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--size", required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    (chapter,) = chapters.choose(chapters.find(args.root), [args.name])
    os.chdir(chapter.source.parent)
    print(json.dumps(execute(chapter, args.size, args.seed)))


if __name__ == "__main__":
    main()
