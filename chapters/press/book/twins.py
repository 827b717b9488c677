"""Write a chapter's twin, the executed notebook without volatile parts, if it changed.

The twin is committed, so that a reader on a code host sees the figures. It keeps the outputs it
already has where the new ones say the same: a rebuild moves no byte for noise. Where one cell has
news, all are new, so that no card tells of another setting, or of other runs, than its neighbour.
"""

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.display import CLAIM
from labkit.system.files import write_whole
from press.book import chapters
from press.book.chapters import KERNEL, LANGUAGE, Chapter
from press.book.compare import same_outputs
from press.book.files import Red
from press.book.folds import Folder

if TYPE_CHECKING:
    from nbformat import NotebookNode

LARGEST_TWIN = 625_000  # bytes
ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+")
JAVASCRIPT_EXPONENT = 1e21  # from here on JavaScript writes whole numbers with an exponent
WIDGET = "application/vnd.jupyter.widget-view+json"  # a progress bar


def update_twin(chapter: Chapter, executed: Path, root: Path) -> bool:
    """Update a chapter's twin; return whether its file changed."""
    import nbformat

    new = strip_notebook(nbformat.read(executed, as_version=4))
    old_text = chapter.twin.read_text(encoding="utf-8") if chapter.twin.is_file() else ""
    text = nbformat.writes(keep_same(_parse_notebook(old_text), new)) + "\n"
    if len(text.encode()) > LARGEST_TWIN:
        raise Red(_too_large(chapter, text, new, root))
    if text == old_text:
        return False
    write_whole(chapter.twin, text)
    return True


def strip_notebook(executed: "NotebookNode") -> "NotebookNode":
    """Keep only the parts of an executed notebook that are the same in every execution."""
    notebook = copy.deepcopy(executed)
    notebook.metadata = {"kernelspec": KERNEL, "language_info": LANGUAGE}
    notebook.cells = [
        cell
        for cell in notebook.cells
        if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    count, folder = 0, Folder()
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if cell.cell_type == "markdown":
            folder.read_heading(cell.source)
        if cell.cell_type == "code":
            fold = folder.must_fold(cell)
            if "solution" in tags or (fold and "parameters" not in tags):  # a reader sets the size
                cell.metadata["jupyter"] = {"source_hidden": True}  # JupyterLab opens it on a click
            count += bool(cell.source.strip())
            cell.execution_count = count if cell.source.strip() else None
            cell.outputs = _drop_transient(cell.outputs, count)
    return notebook


def keep_same(old: "NotebookNode | None", new: "NotebookNode") -> "NotebookNode":
    """Keep the old outputs of cells where a reader would see no difference.

    A page is kept whole or is new: two of its cards may read the same runs.
    """
    pairs = list(zip(_code_cells(old), _code_cells(new), strict=False))
    kept = len(pairs) == len(_code_cells(new)) and all(
        before.source == cell.source and same_outputs(before.get("outputs", []), cell.outputs)
        for before, cell in pairs
    )
    for before, cell in pairs if kept else ():
        cell.outputs = _drop_transient(before.outputs, cell.execution_count)
    return new


def _code_cells(notebook: "NotebookNode | None") -> "list[NotebookNode]":
    return [cell for cell in notebook.cells if cell.cell_type == "code"] if notebook else []


def list_mismatches(root: Path) -> list[str]:
    """List where the cells of chapters and twins differ; empty if they agree."""
    import nbformat

    found = chapters.find_chapters(root)
    problems = []
    for chapter in found:
        if not chapter.twin.is_file():
            problems.append(f"{chapter.name}: no executed twin {chapter.twin.name}")
            continue
        twin = _parse_notebook(chapter.twin.read_text(encoding="utf-8"))
        if twin is None:
            problems.append(f"{chapter.name}: {chapter.twin.name} is not a complete notebook")
            continue
        lines = chapters.differing_cells(chapter, nbformat.v4.upgrade(twin))
        problems += [f"{chapter.name}: {line}" for line in lines]
    known = {chapter.twin for chapter in found}
    twins = (root / "chapters").glob("*_*.ipynb")
    strays = sorted(set(twins) - known)
    return problems + [f"{path.stem}: no file {path.stem}.py for {path.name}" for path in strays]


def _drop_transient(outputs: list[Any], count: int | None) -> list[Any]:
    """Drop outputs that concern this run only, and join the outputs around them."""
    kept: list[Any] = []
    for output in outputs:
        output = copy.deepcopy(output)
        about = output.get("metadata", {}).get("labkit", {})
        volatile = about.get("kind") == "volatile" or WIDGET in output.get("data", {})
        if output.get("name") == "stderr" or volatile:
            continue
        if output.output_type == "stream":
            output.text = ADDRESS.sub("0x…", output.text)
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += output.text
                continue
        if output.output_type == "execute_result":
            output.execution_count = count
        about.pop("provenance", None)
        data = output.get("data", {})
        if about.get("kind") in ("figure", "slider"):  # a site's: a notebook has the PNG
            data.pop("text/html", None)
            data.pop("text/csv", None)
        if "text/html" in data:
            data.pop("text/latex", None)  # the same once more, for print, which the site makes
        if CLAIM in data:
            data[CLAIM] = {name: value for name, value in data[CLAIM].items() if value is not None}
        for mime, value in data.items():
            if mime.startswith("text/"):
                output.data[mime] = ADDRESS.sub("0x…", value)
            elif mime.endswith("json"):
                output.data[mime] = write_whole_numbers(value)
        if "metadata" in output:
            output.metadata = write_whole_numbers(output.metadata)
        kept.append(output)
    return kept


def write_whole_numbers(value: Any) -> Any:
    """Write 1.0 as 1 anywhere in JSON, as JupyterLab does when it saves."""
    if isinstance(value, float) and value.is_integer() and abs(value) < JAVASCRIPT_EXPONENT:
        return int(value)
    if isinstance(value, dict):
        return type(value)((name, write_whole_numbers(each)) for name, each in value.items())
    return [write_whole_numbers(each) for each in value] if isinstance(value, list) else value


def _parse_notebook(text: str) -> "NotebookNode | None":
    import nbformat

    try:
        return nbformat.reads(text, as_version=4)
    except Exception:  # a twin that no program can read is one to write anew
        return None


def _too_large(chapter: Chapter, text: str, notebook: "NotebookNode", root: Path) -> str:
    sizes = [
        (len(str(value)), number, mime)
        for number, cell in enumerate(notebook.cells, start=1)
        for output in cell.get("outputs", [])
        for mime, value in {**output.get("data", {}), "printed": output.get("text", "")}.items()
    ]
    worst = ", ".join(
        f"cell {number} {mime} {size // 1000} kB"
        for size, number, mime in sorted(sizes)[:-4:-1]
        if size > LARGEST_TWIN // 100
    )
    return (
        f"{chapter.twin.relative_to(root)} may have {LARGEST_TWIN // 1000} kB, but would have "
        f"{len(text.encode()) // 1000} (largest: {worst}); print less, or draw a smaller figure"
    )


def merge_prose(chapter: Chapter, executed: Path) -> None:
    """Update an executed notebook with the chapter's current prose; its code is unchanged."""
    import nbformat

    old = nbformat.read(executed, as_version=4)
    done = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    injected = [
        cell for cell in done.values() if "injected-parameters" in cell.metadata.get("tags", [])
    ]
    cells = []
    for cell in chapters.read_chapter(chapter).cells:
        cells.append(done[cell.id] if cell.cell_type == "code" else cell)
        if "parameters" in cell.metadata.get("tags", []):
            cells += injected
    old.cells = cells
    write_whole(executed, nbformat.writes(old) + "\n")
