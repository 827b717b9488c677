"""Put new prose around old results: outputs depend on a chapter's code, not on its sentences."""

from pathlib import Path

from labkit.files import write_whole
from press.book import chapters
from press.book.chapters import Chapter


def merge_prose(chapter: Chapter, executed: Path) -> None:
    """Rewrite an executed notebook with the chapter's prose of today; its code is unchanged."""
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
