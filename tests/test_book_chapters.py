import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import grimp
import pytest
from stored_runs import TINY
from stored_runs import record as record_of
from toy_book import PATHS, chapter_text, make_book

from labkit.experiments.records import Records
from labkit.experiments.store import Store
from labkit.system.files import write_whole
from press.book import asked, chapters, closure, keys
from press.book.keys import key_of, parts_of


@pytest.fixture
def book(tmp_path):
    return make_book(tmp_path, c01_one=chapter_text("01_one"), c02_two=chapter_text("02_two"))


def test_no_chapter_imports_the_press():
    texts = sorted((chapters.find_root() / "chapters").glob("*_*.py"))
    importing = re.compile(r"^\s*(from|import) press\b", re.MULTILINE)
    assert len(texts) > 15
    assert [path.name for path in texts if importing.search(path.read_text("utf-8"))] == []


def test_the_root_is_found_from_below_and_a_stranger_is_refused(book, tmp_path_factory):
    assert chapters.find_root(book / "chapters") == book
    with pytest.raises(ValueError, match="change into the book's folder"):
        chapters.find_root(tmp_path_factory.mktemp("stranger"))


def test_only_numbered_texts_are_chapters(book):
    (book / "chapters" / "conf.py").write_text("")
    assert [chapter.name for chapter in chapters.find_chapters(book)] == ["01_one", "02_two"]


@pytest.mark.parametrize("name", ["02_two", "02", "02_two.py", "chapters/02_two.ipynb"])
def test_a_chapter_answers_to_its_name_number_and_path(book, name):
    assert [c.name for c in chapters.choose_chapters(chapters.find_chapters(book), [name])] == [
        "02_two"
    ]


def test_cell_ids_depend_on_the_cells_alone_and_differ(book):
    (book / "chapters" / "01_one.py").write_text(
        chapter_text("01_one", cells="# %%\n1\n\n# %%\n1\n\n# %%\n2\n")
    )
    first, again = (chapters.read_chapter(chapters.find_chapters(book)[0]) for _ in range(2))
    ids = [cell.id for cell in first.cells]
    assert ids == [cell.id for cell in again.cells]
    assert len(set(ids)) == len(ids)


def use(book, name="01_one", **used):
    """Write the files that a chapter's kernel writes when it ends."""
    everything = {"modules": ["labkit.system.files"], "shown": [], "files": []} | used
    write_whole(asked.path_of_use(book, "book", name), json.dumps(everything))


def changed(book, edit):
    """List the parts of a chapter's key that an edit changes."""
    chapter = chapters.find_chapters(book)[0]
    before = parts_of(chapter, book, "book")
    edit()
    after = parts_of(chapter, book, "book")
    assert (key_of(before) == key_of(after)) == (before == after)
    return [kind for kind in before if before[kind] != after.get(kind)]


@pytest.mark.parametrize("known", [False, True])
def test_a_key_changes_with_whatever_the_outputs_depend_on(book, known):
    text = book / "chapters" / "01_one.py"
    papers, pins = book / "data" / "papers", book / "pyproject.toml"
    papers.mkdir(parents=True)
    record = book / "data" / "kernels.json"
    if known:
        use(book, files=[str(papers / "a.csv"), str(record)])
    assert changed(book, lambda: None) == []
    assert changed(book, lambda: (papers / "a.csv").write_text("1")) == ["data"]
    assert changed(book, lambda: record.write_text("{}")) == ["data"]
    assert changed(book, lambda: text.write_text(text.read_text() + "# hi\n")) == ["its code"]
    reworded = text.read_text().replace("Some words.", "Other words.")
    assert changed(book, lambda: text.write_text(reworded)) == ["its prose"]
    grown = pins.read_text().replace("nbformat", "jupytext")
    assert changed(book, lambda: pins.write_text(grown)) == ["installed versions"]
    chapter = chapters.find_chapters(book)[0]
    assert len({key_of(parts_of(chapter, book, size)) for size in ("book", "gpu")}) == 2


def test_a_file_that_a_chapter_did_not_open_is_none_of_its_business(book):
    mine, other = book / "data" / "papers" / "a.csv", book / "data" / "papers" / "b.csv"
    write_whole(mine, "1")
    write_whole(other, "1")
    use(book, files=[str(mine)])
    assert changed(book, lambda: other.write_text("2")) == []
    assert changed(book, lambda: mine.write_text("2")) == ["data"]
    assert changed(book, mine.unlink) == ["data"]
    assert changed(book, lambda: write_whole(book / "data" / "locks" / "01.jsonl", "{}")) == [
        "data"
    ], "a new file may be one that it looked for"


def test_records_count_run_by_run_and_the_ladder_for_those_that_climb_it(book):
    mine, other = TINY, replace(TINY, seed=1)
    path = asked.path_of(book, "book", "01_one")
    write_whole(path, json.dumps({"key": mine.key()}))
    records, store = Records(book), Store(book)
    row, another = ({"key": run.key(), "loss": 1} for run in (mine, other))
    assert changed(book, lambda: records.write_rows("07", [another])) == [], "no run of its own"
    assert changed(book, lambda: records.write_rows("01", [row])) == ["records"]
    assert changed(book, lambda: records.write_rows("01", [row | {"loss": 2}])) == ["records"]
    assert changed(book, lambda: records.write_rows("ladder", [{"key": "0"}])) == [], "no ladder"
    write_whole(path, path.read_text() + "\n" + json.dumps({"climbs": ["pre"]}))
    assert changed(book, lambda: records.write_rows("ladder", [{"key": "1"}])) == ["records"]
    assert changed(book, lambda: store.write_record(mine, record_of())) == ["records"]
    assert changed(book, lambda: store.write_record(other, record_of())) == [], (
        "it asks for no such run"
    )


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Replace labkit by a package of three modules; return a function that edits one of them."""
    folder = tmp_path / "toy_labkit"
    find = closure.folder_of
    monkeypatch.setattr(closure, "folder_of", lambda p: folder if p == "labkit" else find(p))
    texts = {
        "__init__": "",
        "norms": 'def scale(x):\n    """Scale."""\n    return 2 * x  # twice\n',
        "unused": "a = 1\n",
        "check/laws": 'def law():\n    """Keep it."""\n',
    }
    for name, text in texts.items():
        write_whole(folder / f"{name}.py", text)

    def edit(name: str, old: str, new: str) -> None:
        path = folder / f"{name}.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        forget()

    def forget() -> None:  # what another process does
        for cached in (closure._read_modules, closure.hash_modules, closure.hash_texts):
            cached.cache_clear()

    forget()
    yield edit
    forget()


@pytest.mark.slow
def test_code_counts_where_it_was_loaded_without_comments_and_docstrings(book, package):
    use(book, modules=["labkit", "labkit.norms", "labkit.check.laws"])
    assert changed(book, lambda: package("norms", "# twice", "# two times")) == []
    assert changed(book, lambda: package("norms", "Scale.", "Scale it.")) == []
    assert changed(book, lambda: package("norms", "2 * x", "2  *  x")) == []
    assert changed(book, lambda: package("unused", "a = 1", "a = 2")) == []
    assert changed(book, lambda: package("norms", "2  *  x", "3 * x")) == ["labkit.norms"]
    assert changed(book, lambda: package("check/laws", "Keep it.", "Keep this.")) == [
        "labkit.check.laws"
    ], "a check prints the docstrings of its laws"
    use(book, modules=["labkit.norms"], shown=["labkit.norms"])
    assert changed(book, lambda: package("norms", "# two times", "# double")) == [
        "the text of labkit.norms"
    ]


def test_while_it_is_not_known_what_a_chapter_uses_all_of_the_code_counts(book, package):
    assert changed(book, lambda: package("unused", "a = 1", "a = 2")) == ["labkit's code"]
    assert changed(book, lambda: package("unused", "a = 2", "a = 2  # two")) == []


def test_what_builds_a_chapter_counts_and_what_grades_homework_does_not():
    graph = grimp.build_graph("press", cache_dir=None)
    builds = graph.find_upstream_modules(keys.BUILDER)
    assert {"press.book.execute", "press.book.chapters", "press.book.ledger"} <= builds
    assert not {name for name in builds if not name.startswith("press.book")}


def test_a_kernel_notes_what_it_loads_opens_and_shows(tmp_path):
    papers = write(tmp_path / "data" / "papers" / "a.csv", "1")
    elsewhere = write(tmp_path / "elsewhere.csv", "1")
    code = f"""
from pathlib import Path
from press.book.kernel import watch_use
watch_use(Path({str(tmp_path)!r}), Path({str(tmp_path / "used.json")!r}))
from labkit.source import show
from labkit.norms import rms_norm
show(rms_norm)
open({str(papers)!r}).close(), Path({str(elsewhere)!r}).read_text()
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": PATHS}
    )
    used = json.loads((tmp_path / "used.json").read_text())
    assert used["files"] == [str(papers)] and used["shown"] == ["labkit.norms.rms_norm"]
    assert {"labkit.source", "labkit.norms.rms_norm", "press.book.kernel"} <= {*used["modules"]}
    assert "labkit.plots" not in used["modules"] and "json" not in used["modules"]


def write(path, text):
    """Write a file and return its path."""
    write_whole(path, text)
    return path
