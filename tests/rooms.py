"""A program: print the number of lines of each room next to its budget in pyproject.toml.

    python tests/rooms.py

A room is a folder of Python files, or one file, named in `[tool.labkit.lines]`. All its lines
count, comments and blank ones too. Of the chapters only lines of code count: neither text, nor
comments, nor blank lines.
"""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = "chapters' code"
HOMES = (
    "labkit",
    "kernels/normkernels",
    "chapters/examples",
    "chapters/press",
    "chapters/homework",
    "tests",
)
SCRIPTS = "chapters/_static"
SUMS = {"packages": ("labkit", "kernels", "chapters/press"), "tests": ("tests",)}


def read_budgets(root: Path = ROOT) -> dict[str, int]:
    """Read the budgets of the rooms."""
    tables = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return tables["tool"]["labkit"]["lines"]


def count_rooms(root: Path, rooms: list[str]) -> dict[str, int]:
    """Count the lines of each room; a file belongs to the room with the longest name."""
    counts = dict.fromkeys(rooms, 0)
    for path in _list_files(root):
        name = path.relative_to(root).as_posix()
        homes = [room for room in rooms if name == room or name.startswith(f"{room}/")]
        if homes:
            text = path.read_text(encoding="utf-8")
            counts[max(homes, key=len)] += len(text.splitlines())
    if CODE in counts:
        counts[CODE] = sum(
            count_code(path.read_text(encoding="utf-8")) for path in root.glob("chapters/*_*.py")
        )
    return counts


def list_uncounted(root: Path, rooms: list[str]) -> list[str]:
    """List the files that belong to no room."""
    names = (path.relative_to(root).as_posix() for path in _list_files(root))
    return [name for name in names if not any(f"{name}/".startswith(f"{room}/") for room in rooms)]


def count_code(chapter: str) -> int:
    """Count the lines of code in a chapter: of its code cells, without comments and blank lines."""
    lines, is_code = 0, False
    for line in chapter.splitlines():
        if line.startswith("# %%"):
            is_code = "[markdown]" not in line
        elif is_code and line.strip() and not line.lstrip().startswith("#"):
            lines += 1
    return lines


def list_long(folder: Path, file: int, function: int) -> list[str]:
    """List the Python files and functions of a folder that have more lines than these."""
    long = []
    for path in sorted(folder.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix()
        long += [name] * (len(text.splitlines()) > file)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                long += [f"{name}: {node.name}"] * (lines > function)
    return long


def _list_files(root: Path) -> list[Path]:
    """List the files to count: Python files of the rooms, and scripts and styles of the pages."""
    found = [path for home in HOMES for path in sorted((root / home).rglob("*.py"))]
    return found + sorted(
        path for ending in ("js", "css") for path in (root / SCRIPTS).glob(f"*.{ending}")
    )


def format_table(counts: dict[str, int], budgets: dict[str, int]) -> str:
    """Format each room with its lines and budget, and the sums that have targets."""
    rows = [f"{counts[room]:>7,} of {budgets[room]:>7,}  {room}" for room in budgets]
    for name, homes in SUMS.items():
        total = sum(count for room, count in counts.items() if room.startswith(homes))
        rows.append(f"{total:>7,} in all: {name}")
    return "\n".join(rows)


if __name__ == "__main__":
    budgets = read_budgets()
    print(format_table(count_rooms(ROOT, list(budgets)), budgets))
