"""Opening and saving a chapter without edits changes neither of its two files."""

import shutil
from pathlib import Path

import pytest
from jupyter_server.services.contents.largefilemanager import LargeFileManager
from jupytext.sync_contentsmanager import build_sync_jupytext_contents_manager_class

from press.book.lab import build_command

ROOT = Path(__file__).resolve().parents[1]
NAMES = ["04_qk_norm.ipynb", "04_qk_norm.py"]
# What a kernel of another version says of itself, and JupyterLab puts into the notebook.
KERNEL = {"name": "python", "version": "3.13.1", "nbconvert_exporter": "python"}


@pytest.fixture
def manager(tmp_path: Path):
    """Make the manager of a server that `make lab` starts, over a copy of one chapter."""
    (tmp_path / "chapters").mkdir()
    for name in ("pyproject.toml", *(f"chapters/{name}" for name in NAMES)):
        shutil.copy(ROOT / name, tmp_path / name)
    (given,) = (word for word in build_command(tmp_path, tmp_path) if "pre_save_hook" in word)
    base = build_sync_jupytext_contents_manager_class(LargeFileManager)
    return base(root_dir=str(tmp_path), pre_save_hook=given.partition("=")[2])


def save(manager, path: str, change=lambda content: None) -> None:
    """Open a notebook, let its kernel report its language, and save it."""
    content = manager.get(path, type="notebook")["content"]
    content["metadata"]["language_info"] = KERNEL
    change(content)
    manager.save({"type": "notebook", "format": "json", "content": content}, path)


@pytest.mark.parametrize("opened", NAMES)
def test_what_was_only_opened_stays_as_it_is(manager, tmp_path: Path, opened: str):
    before = {name: (tmp_path / "chapters" / name).read_bytes() for name in NAMES}
    save(manager, f"chapters/{opened}")
    for name, content in before.items():
        assert (tmp_path / "chapters" / name).read_bytes() == content, name


def test_what_a_reader_writes_is_saved_in_both(manager, tmp_path: Path):
    def write(content):
        content["cells"][0]["source"] = "# Mine"

    save(manager, "chapters/04_qk_norm.ipynb", write)
    for name in NAMES:
        assert "# Mine" in (tmp_path / "chapters" / name).read_text(encoding="utf-8")


def test_the_notebook_that_opens_first_stays_as_it_is_and_gets_no_text(manager, tmp_path: Path):
    start = tmp_path / "chapters" / "START.ipynb"
    shutil.copy(ROOT / "chapters" / "START.ipynb", start)
    before = start.read_bytes()
    save(manager, "chapters/START.ipynb")
    assert start.read_bytes() == before and not start.with_suffix(".py").exists()


def test_a_notebook_elsewhere_keeps_what_it_says(manager, tmp_path: Path):
    shutil.copy(ROOT / "chapters" / NAMES[0], tmp_path / "mine.ipynb")
    save(manager, "mine.ipynb")
    assert KERNEL["version"] in (tmp_path / "mine.ipynb").read_text(encoding="utf-8")
