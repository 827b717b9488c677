"""Find the chapters of a book and read them: a percent-format source and its executed twin.

chapters/03_rmsnorm.py    a chapter, by its number
chapters/A_skips.py       a shelf of the cabinet, an appendix, by its letter
"""

import ast
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.system.files import folder_of

if TYPE_CHECKING:
    from nbformat import NotebookNode

PARAMETERS = ("size", "seed")
NUMBER = r"(?:\d\d|[A-Z])"  # of a chapter, or of a shelf of the cabinet
# Where the labkit lies that a kernel will import.
CODE = folder_of("labkit").resolve().parent
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}


@dataclass(frozen=True)
class Chapter:
    """One chapter: its name, its source and the executed notebook next to it."""

    name: str
    source: Path
    twin: Path

    @property
    def number(self) -> str:
        """Return its two digits, or its letter."""
        return read_number(self.name)

    @property
    def is_shelf(self) -> bool:
        """Return whether it is an appendix, which is for reference."""
        return is_letter(self.number)


def read_number(name: str) -> str:
    """Read the number in a chapter's name: 03 of 03_rmsnorm, A of A_skips."""
    return name.partition("_")[0]


def is_letter(number: str) -> bool:
    """Return whether a number is the letter of an appendix."""
    return number.isalpha()


def format_number(number: str) -> str:
    """Format a number as in a title: 3, A."""
    return number.lstrip("0") or "0"


def find_root(start: Path = Path()) -> Path:
    """Find the book that contains a folder: the nearest parent with chapters and a project."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / "chapters").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    raise ValueError(
        "this command needs the book's folder, with chapters/ and pyproject.toml, but neither "
        f"{start.resolve()} nor any of its parents is one; change into the book's folder"
    )


def find_chapters(root: Path) -> list[Chapter]:
    """List the chapters by number, then the appendices by letter."""
    folder = root / "chapters"
    sources = sorted([*folder.glob("[0-9][0-9]_*.py"), *folder.glob("[A-Z]_*.py")])
    return [Chapter(path.stem, path, path.with_suffix(".ipynb")) for path in sources]


def choose_chapters(chapters: Iterable[Chapter], names: Iterable[str] | None) -> list[Chapter]:
    """Select the named chapters; a number can stand for a name."""
    known = {chapter.name: chapter for chapter in chapters}
    if not names:
        return list(known.values())
    chosen = set()
    for name in names:
        stem = re.sub(r"\.(py|ipynb)$", "", Path(name).name)
        hits = [key for key in known if key == stem or read_number(key) == stem]
        if not hits:
            listing = ", ".join(known) or "none yet"
            raise ValueError(f"unknown chapter {name!r}; choose one of {listing}")
        chosen.update(hits)
    return [chapter for name, chapter in known.items() if name in chosen]


def find_chapter(root: Path, name: str) -> Chapter:
    """Find a chapter of a book by its name or number."""
    (chapter,) = choose_chapters(find_chapters(root), [name])
    return chapter


def read_chapter(chapter: Chapter) -> "NotebookNode":
    """Read a chapter's source as a notebook whose ids depend only on the cells."""
    import jupytext  # of the extra `book`

    notebook = jupytext.read(chapter.source, fmt="py:percent")
    notebook.metadata = {"kernelspec": KERNEL}
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        cell.id = hashlib.sha256(f"{cell.cell_type}\0{cell.source}".encode()).hexdigest()[:12]
        seen[cell.id] = seen.get(cell.id, 0) + 1
        if seen[cell.id] > 1:
            cell.id += f"-{seen[cell.id]}"
    return notebook


def check_parameters(notebook: "NotebookNode", where: Path) -> None:
    """Refuse a chapter that cannot take the parameters that the build passes."""
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(
            f"{where} must have exactly one code cell tagged `parameters`, but has {len(cells)}; "
            'begin it with `# %% tags=["parameters"]`, `size = "book"`, `seed = 0`'
        )
    names = {node.id for node in ast.walk(ast.parse(cells[0].source)) if isinstance(node, ast.Name)}
    missing = [name for name in PARAMETERS if name not in names]
    if missing:
        raise ValueError(
            f"the `parameters` cell of {where} must set {' and '.join(PARAMETERS)}, but it "
            f"has no {' and no '.join(missing)}; add the missing line"
        )


def differing_cells(chapter: Chapter, twin: "NotebookNode") -> list[str]:
    """Return where the cells of the twin differ from the source: how many, and the first."""
    ours = [(cell.cell_type, cell.source) for cell in read_chapter(chapter).cells]
    theirs = [(cell.cell_type, cell.source) for cell in twin.cells]
    lines = []
    if len(ours) != len(theirs):
        lines.append(f"the text has {len(ours)} cells, the twin {len(theirs)}")
    for number, (mine, other) in enumerate(zip_longest(ours, theirs, fillvalue=("", "")), start=1):
        if mine != other:
            rows = zip_longest(mine[1].splitlines(), other[1].splitlines(), fillvalue="")
            here, there = next((row for row in rows if row[0] != row[1]), ("", ""))
            kind = mine[0] or other[0]
            lines.append(f"cell {number} ({kind}): text {here[:60]!r}, twin {there[:60]!r}")
            break
    return lines
