import json
from dataclasses import replace

import pytest
from stored_runs import TINY
from stored_runs import record as record_of
from toy_book import chapter_text, make_book

from labkit.experiments.records import Records
from labkit.experiments.store import Store
from press.book import asked, chapters, keys
from press.book.keys import key_of, parts_of


@pytest.fixture
def book(tmp_path):
    return make_book(tmp_path, c01_one=chapter_text("01_one"), c02_two=chapter_text("02_two"))


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


def changed(book, edit):
    """Name the parts of a chapter's key that an edit changes."""
    chapter = chapters.find_chapters(book)[0]
    before = parts_of(chapter, book, "book", 0)
    edit()
    after = parts_of(chapter, book, "book", 0)
    assert (key_of(before) == key_of(after)) == (before == after)
    return [kind for kind in before if before[kind] != after[kind]]


def test_a_key_changes_with_whatever_the_outputs_depend_on(book, monkeypatch):
    text = book / "chapters" / "01_one.py"
    papers, pins = book / "data" / "papers", book / "pyproject.toml"
    papers.mkdir(parents=True)

    def code(package: str) -> None:
        now = keys.code_hash
        monkeypatch.setattr(keys, "code_hash", lambda p="labkit": now(p) + "1" * (p == package))

    assert changed(book, lambda: None) == []
    assert changed(book, lambda: code("labkit")) == ["labkit's code"]
    assert changed(book, lambda: code("press.book")) == ["the code that builds"]
    assert changed(book, lambda: code("press.homework")) == []
    assert changed(book, lambda: (papers / "a.csv").write_text("1")) == ["data/papers"]
    record = book / "data" / "kernels.json"
    assert changed(book, lambda: record.write_text("{}")) == ["data/papers"]
    assert changed(book, lambda: text.write_text(text.read_text() + "# hi\n")) == ["its code"]
    reworded = text.read_text().replace("Some words.", "Other words.")
    assert changed(book, lambda: text.write_text(reworded)) == ["its prose"]
    grown = pins.read_text().replace("nbformat", "jupytext")
    assert changed(book, lambda: pins.write_text(grown)) == ["installed versions"]
    assert changed(book, lambda: Records(book).write_rows("01", [])) == ["records"]
    assert changed(book, lambda: Records(book).write_rows("ladder", [])) == [], (
        "it climbs no ladder"
    )
    text.write_text(text.read_text().replace("# hi", "# lab.ladder([])"))
    assert changed(book, lambda: Records(book).write_rows("ladder", [{"key": "0"}])) == ["records"]
    store, mine, other = Store(book), TINY, replace(TINY, seed=1)
    asked.path_of(book, "book", "01_one").parent.mkdir(parents=True)
    asked.path_of(book, "book", "01_one").write_text(json.dumps({"key": mine.key()}))
    assert changed(book, lambda: store.write_record(mine, record_of())) == ["records"]
    assert changed(book, lambda: store.write_record(other, record_of())) == [], (
        "it asks for no such run"
    )
    chapter = chapters.find_chapters(book)[0]
    found = {key_of(parts_of(chapter, book, p, s)) for p in ("book", "gpu") for s in (0, 1)}
    assert len(found) == 4
