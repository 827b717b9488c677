import json
from pathlib import Path

import nbformat
import pytest
from toy_book import card, chapter_text, claim_output, make_book, run

from labkit.plots.slider import VEGA_LITE
from labkit.system.files import write_whole
from press.book import chapters, state, twins
from press.book.files import Red
from press.book.twins import strip_notebook

ROOT = Path(__file__).resolve().parents[1]
CELLS = "# %%\nprint(1)\n\n# %%\n2\n\n# %%\n3\n"


@pytest.fixture
def book(tmp_path):
    return make_book(tmp_path, c01_one=chapter_text("01_one", cells=CELLS))


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def figure(data, png="old", alt="A line."):
    about = {"kind": "figure", "caption": "Look.", "data": data}
    return nbformat.v4.new_output(
        "display_data",
        {"image/png": png, "text/plain": alt},
        metadata={"labkit": {**about, "provenance": {"commit": "c0ffee"}}},
    )


def volatile(text):
    return nbformat.v4.new_output(
        "display_data", {"text/plain": text}, metadata={"labkit": {"kind": "volatile"}}
    )


def settle(book, *outputs):
    """Simulate outputs of the chapter's last cells; return the twin's text."""
    (chapter,) = chapters.find_chapters(book)
    notebook = chapters.read_chapter(chapter)
    notebook.metadata["language_info"] = {"name": "python", "version": "3.99"}
    for count, cell in enumerate(notebook.cells):
        cell.metadata["papermill"] = {"duration": count}
        if cell.cell_type == "code":
            cell.execution_count = 7 * count
    for cell, shown in zip(notebook.cells[-3:], outputs, strict=False):
        cell.outputs = shown
    extra = nbformat.v4.new_code_cell("seed = 0", metadata={"tags": ["injected-parameters"]})
    notebook.cells.insert(2, extra)
    executed = state.notebook_path(book, "book", chapter.name)
    write_whole(executed, nbformat.writes(notebook))
    twins.update_twin(chapter, executed, book)
    return chapter.twin.read_text()


def test_a_twin_holds_nothing_of_the_day_on_which_it_was_made(book):
    text = settle(
        book,
        [printed("a "), printed("warning", "stderr"), volatile("3 s"), printed("<x at 0x7f12>")],
        [figure([0, 1])],
        [nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=98765)],
    )
    twin = nbformat.reads(text, 4)
    nbformat.validate(twin)
    for trace in ("papermill", "injected", "3.99", "c0ffee", "3 s", "warning", "0x7f12", "98765"):
        assert trace not in text, trace
    assert twin.cells[-3].outputs[0].text == "a <x at 0x…>"
    assert [c.execution_count for c in twin.cells if c.cell_type == "code"] == [1, 2, 3, 4, 5]
    assert twin.cells[-1].outputs[0].execution_count == 5
    assert twins.list_mismatches(book) == []


def test_noise_moves_no_byte(book):
    before = settle(book, [printed("loss 1.234")], [figure([0, 1.0])], [claim_output(card())])
    jupyters = json.dumps(json.loads(before), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert before == jupyters, "a save in Jupyter changes nothing"
    noisy = card(values=[1.01, 1.21, 1.11])
    after = settle(
        book,
        [printed("loss 1.235"), volatile("9 s")],
        [figure([0, 1.01], png="new")],
        [claim_output(noisy)],
    )
    assert after == before


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        (0, [printed("loss 1.434")]),
        (0, [printed("cost 1.234")]),
        (1, [figure([0, 1.2], png="new")]),
        (1, [figure([0, 1.0], png="new", alt="A curve.")]),
        (2, [claim_output(card(verdict="not-seen"))]),
        (2, [claim_output(card(values=[2.0, 2.0, 2.0]))]),
    ],
)
def test_news_changes_no_cell_that_shows_the_same(book, where, shown):
    outputs = [[printed("loss 1.234")], [figure([0, 1.0])], [claim_output(card())]]
    before = nbformat.reads(settle(book, *outputs), 4)
    outputs[where] = shown
    others = [i for i in range(3) if i != where]
    outputs[others[0]] = [*outputs[others[0]], volatile("4 s")]
    after = nbformat.reads(settle(book, *outputs), 4)
    assert after.cells[-3 + where] != before.cells[-3 + where]
    for other in others:
        assert after.cells[-3 + other] == before.cells[-3 + other]


@pytest.mark.parametrize("news", ["code", "card"])
def test_a_page_is_kept_whole_or_is_new(book, news):
    """Changes that no reader would see are ignored, unless something else on the page changed."""
    settle(book, [printed("loss 1.234")], [figure([0, 1.0])], [claim_output(card())])
    (chapter,) = chapters.find_chapters(book)
    last = card()
    if news == "code":
        chapter.source.write_text(chapter.source.read_text().replace("# %%\n2\n", "# %%\n12\n"))
    else:
        last = card(verdict="not-seen")
    shown = [printed("loss 1.235")], [figure([0, 1], png="new")], [claim_output(last)]
    after = nbformat.reads(settle(book, *shown), 4)
    assert after.cells[-3].outputs[0].text == "loss 1.235"
    assert after.cells[-2].outputs[0].data["image/png"] == "new"


def test_a_damaged_twin_is_written_anew(book):
    whole = settle(book, [printed("1")])
    twin = book / "chapters" / "01_one.ipynb"
    twin.write_text(whole[: len(whole) // 2])
    assert settle(book, [printed("1")]) == whole


def test_a_twin_that_is_too_large_is_refused_and_names_what_is_large(book):
    before = settle(book, [printed("1")])
    with pytest.raises(Red, match=r"may have 625 kB.*cell 5 image/png 700 kB"):
        settle(book, [printed("1")], [figure([0, 9], png="x" * 700_000)])
    assert (book / "chapters" / "01_one.ipynb").read_text() == before


def test_pairs_names_what_is_missing_and_what_differs(book):
    assert twins.list_mismatches(book) == ["01_one: no executed twin 01_one.ipynb"]
    settle(book)
    (chapter,) = chapters.find_chapters(book)
    chapter.source.write_text(chapter.source.read_text().replace("print(1)", "print(2)"))
    (book / "chapters" / "09_old.ipynb").write_text("{}")
    assert twins.list_mismatches(book) == [
        "01_one: cell 4 (code): text 'print(2)', twin 'print(1)'",
        "09_old: no file 09_old.py for 09_old.ipynb",
    ]
    chapter.source.write_text(chapter.source.read_text() + "\n# %%\n4\n")
    assert "the text has 7 cells, the twin 6" in twins.list_mismatches(book)[0]
    (book / "chapters" / "01_one.ipynb").write_text("{")
    assert "not a complete notebook" in twins.list_mismatches(book)[0]
    status, said = run(book, "book", "check", "twins")
    assert status == 1 and "`make book`" in said


def test_a_twin_folds_by_kind_and_keeps_what_needs_no_trust_of_a_drawing_and_of_a_slider():
    def output(kind, **data):
        return nbformat.v4.new_output("display_data", data, metadata={"labkit": {"kind": kind}})

    cells = [
        nbformat.v4.new_code_cell("plots.curves(x)", outputs=[
            output("figure", **{"image/png": "P", "text/html": "<svg/>", "text/csv": "x",
                                "text/plain": "A."})]),
        nbformat.v4.new_code_cell("explore(x)", outputs=[
            output("slider", **{"image/png": "P", "text/html": "<img>", "text/csv": "x",
                                "text/plain": "A.",
                                VEGA_LITE: {"mark": "image"}})]),
        nbformat.v4.new_code_cell("def f(x):\n    return x", metadata={"tags": ["mechanism"]}),
        nbformat.v4.new_code_cell("def f(x): ...", metadata={"tags": ["exercise"]}),
        nbformat.v4.new_code_cell("def f(x): pass", metadata={"tags": ["solution"]}),
        nbformat.v4.new_code_cell('size = "book"', metadata={"tags": ["parameters"]}),
    ]  # fmt: skip
    twin = strip_notebook(nbformat.v4.new_notebook(cells=cells))
    hidden = [bool(cell.metadata.get("jupyter", {}).get("source_hidden")) for cell in twin.cells]
    assert hidden == [True, True, False, False, True, False]
    drawing, slider = (set(cell.outputs[0].data) for cell in twin.cells[:2])
    assert drawing == {"image/png", "text/plain"}
    assert slider == {"image/png", "text/plain", VEGA_LITE}


def test_a_twin_has_numbers_as_javascript_writes_them():
    spec = {"width": 704.0, "values": [1.0, 1.5, -0.0, 1e21], "name": "1.0", "on": True}
    slider = nbformat.v4.new_output(
        "display_data", {VEGA_LITE: spec}, metadata={"labkit": {"kind": "slider", "mean": 0.0}}
    )
    cell = nbformat.v4.new_code_cell("explore(x)", outputs=[slider])
    (twin,) = strip_notebook(nbformat.v4.new_notebook(cells=[cell])).cells
    written = json.dumps([twin.outputs[0].data[VEGA_LITE], twin.outputs[0].metadata["labkit"]])
    assert '"width": 704,' in written and '"mean": 0}' in written
    assert '[1, 1.5, 0, 1e+21], "name": "1.0", "on": true' in written


def test_opening_a_committed_twin_would_not_rewrite_its_numbers():
    for chapter in chapters.find_chapters(ROOT):
        outputs = json.loads(chapter.twin.read_text(encoding="utf-8"))["cells"]
        assert json.dumps(twins.write_whole_numbers(outputs)) == json.dumps(outputs), chapter.name
