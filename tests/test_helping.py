"""Help in a running notebook: cells that check an exercise, and messages for undefined names."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from press.book.helping import Helper, find_check, has_open_place, read_cells

CHAPTERS = Path(__file__).resolve().parents[1] / "chapters"
TWINS = sorted(CHAPTERS.glob("[0-9A-E]*_*.ipynb"))


@pytest.fixture(params=TWINS, ids=lambda path: path.stem[:2])
def cells(request, monkeypatch) -> list[dict]:
    monkeypatch.setenv("JPY_SESSION_NAME", str(request.param.with_suffix(".py")))
    return read_cells()


def test_every_exercise_with_an_open_place_has_a_check_that_is_found(cells):
    stubs = [cell for cell in cells if "exercise" in cell["metadata"].get("tags", [])]
    assert stubs
    for stub in stubs:
        source = "".join(stub["source"])
        found = [check for check, _ in find_check(cells, stub["id"])]
        assert not any("lab.close()" in check or "# Solution" in check for check in found)
        if "..." in source:
            assert has_open_place(source) and found, source


def test_a_cell_that_is_no_exercise_runs_alone(cells):
    assert find_check(cells, cells[0]["id"]) == find_check(cells, "unknown") == []


def test_an_answer_is_whole_without_a_place_left_open():
    assert has_open_place("yours = {'a': 1, 'b': ...}") and has_open_place(
        "def f(x):\n  return ..."
    )
    assert has_open_place("my_prediction = '…'") and has_open_place("yours = (")
    assert not has_open_place('def f(x):\n    """Of x, ..."""\n    return x')


class Shell:
    def __init__(self) -> None:
        self.ran: list[str] = []

    def run_cell(self, source: str, **_) -> None:
        self.ran.append(source)

    def showtraceback(self, shown, tb_offset=None) -> None:
        self.shown = shown[1]


def result(cell: dict, code: str, success: bool = True) -> SimpleNamespace:
    info = SimpleNamespace(cell_id=cell["id"], raw_cell=code)
    return SimpleNamespace(success=success, info=info)


def test_a_whole_answer_runs_its_check_and_an_error_or_a_stub_runs_nothing(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(TWINS[0]))
    stub = next(c for c in read_cells() if "".join(c["source"]).startswith("yours"))
    helper = Helper(shell := Shell())
    helper.check_answer(result(stub, "yours = {'a': ..., 'b': 1}"))
    helper.check_answer(result(stub, "yours = {'a': 2, 'b': 1}", success=False))
    assert shell.ran == []
    helper.check_answer(result(stub, "yours = {'a': 2, 'b': 1}"))
    assert len(shell.ran) == 1 and "check.answer(" in shell.ran[0]


def test_only_a_name_that_a_cell_above_defines_is_explained(monkeypatch, tmp_path):
    monkeypatch.setenv("JPY_SESSION_NAME", str(TWINS[0]))
    helper = Helper(shell := Shell())
    live = next(c for c in read_cells() if "train_live" in "".join(c["source"]))
    helper.note_cell(SimpleNamespace(cell_id=live["id"]))
    for name, explained in (("lab", True), ("lba", False)):
        error = NameError(f"name {name!r} is not defined", name=name)
        helper.explain_missing(shell, NameError, error, None)
        notes = getattr(shell.shown, "__notes__", [])
        assert shell.shown is error and bool(notes) is explained
        assert not explained or "Run > Run All Above Selected Cell" in notes[0]
    (tmp_path / "broken.ipynb").write_text(json.dumps({})[:1])
    for path in ("", str(tmp_path / "broken.ipynb"), str(tmp_path / "none.ipynb")):
        monkeypatch.setenv("JPY_SESSION_NAME", path)
        assert read_cells() == []
