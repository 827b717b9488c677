"""Exercises on the site: a box if a page can check them, or a note with links to run them."""

import ast
import base64
import importlib
import json
import re
from functools import cache
from pathlib import Path

import fake_book
import pytest
import torch

from labkit import check
from labkit.display import EXERCISE
from press.book.chapters import Chapter, find_chapters
from press.site import exercises, launch, pyodide
from press.site.answers import runner
from press.site.answers import torch_of_lists as lists
from press.site.hero import format_facts
from press.site.outline import read_outlines
from press.site.page import build_page
from press.site.sphinx_sources import staged_files
from tests.exercises.places import find_exercises

ROOT = Path(__file__).parents[1]
STUB = 'yours = {"a": ..., "b": ...}'


def report(task) -> list:
    data = {"text/html": "<b>not answered yet</b>", "text/plain": "✗", EXERCISE: task}
    return [{"output_type": "execute_result", "metadata": {}, "data": data, "execution_count": 1}]


def by_hand(*keys: str) -> dict:
    truth = dict.fromkeys(keys, 1.5) if keys[0] else 1.5
    asked = check.answer(..., truth, name="2", hint="⅓").ask
    assert asked
    return asked() or {}


def page(stub: str, task, *before) -> list[dict]:
    cells = [
        "# Toy",
        *before,
        (stub, ["exercise"], []),
        ("check.answer(yours, t)", [], report(task)),
    ]
    return build_page("04_toy", fake_book.notebook(*cells))["cells"]


def boxes(cells: list[dict]) -> list[dict]:
    coded = re.findall(r'data-exercise=\\?"([^"\\]+)', json.dumps(cells))
    return [json.loads(base64.b64decode(text)) for text in coded]


CODE = {"kind": "code", "functions": ["f"], "cases": []}


def test_a_check_becomes_a_box_behind_its_stub_and_its_code_stays():
    task = by_hand("a", "b")
    cells = page(STUB, task)
    assert boxes(cells) == [task]
    stub, box, code = cells[-3:]
    assert stub["source"] == STUB and "exercise" in stub["metadata"]["tags"]
    assert "labkit-exercise" in str(box["outputs"])
    assert code["source"].startswith("check.answer") and "hide-input" in code["metadata"]["tags"]
    assert "1.5" not in json.dumps(cells) and exercises.ELSEWHERE not in json.dumps(cells)
    assert boxes(page("def f(x):\n    return ...", CODE)) == [CODE]


@pytest.mark.parametrize(
    ("source", "outputs"),
    [
        ("def hold(f):\n    return check.function(f, (1,), 2)", []),
        ("def hold(f):\n    return check.block(f, 'pre')\n\n\nhold(f)", report(CODE)),
    ],
)
def test_what_checks_is_folded_wherever_it_stands(source, outputs):
    stub = ("def f(x):\n    return ...", ["exercise"], [])
    cells = build_page(
        "04_toy", fake_book.notebook("# Toy\n\n## The idea\n", stub, (source, [], outputs))
    )
    assert "hide-input" in cells["cells"][-1]["metadata"]["tags"]


@pytest.mark.parametrize(
    ("stub", "task"),
    [
        ("mine = {}", by_hand("a")),  # another name: it is no answer by hand
        ('yours = {"a": ...}', by_hand("a", "b")),
        ("yours = ...", by_hand("a")),
        ("class Mine:\n    f = 1", CODE),
        ("def g(x):\n    return ...", CODE),
        ("def f(x):\n    return ...", by_hand("")),
    ],
)
def test_what_does_not_fit_its_stub_says_where_it_runs(stub, task):
    cells = page(stub, task)
    assert boxes(cells) == []
    assert "running.md" in cells[-2]["source"] and "JupyterLab" in cells[-2]["source"]
    assert "not answered yet" not in json.dumps(cells)


def test_the_place_for_a_proof_needs_no_line():
    assert exercises.ELSEWHERE not in json.dumps(page('my_proof = "…"', by_hand("a")))


def test_one_box_a_stub_and_none_without():
    task = by_hand("")
    shown = ("check.answer(...)", [], report(task))
    cells = fake_book.notebook("# Toy", shown, ("yours = ...", ["exercise"], []), shown, shown)
    assert len(boxes(build_page("04_toy", cells)["cells"])) == 1


# -- launch links -----------------------------------------------------------------------------
def test_nothing_configured_draws_nothing():
    assert launch.draw_links({}, "04_qk_norm") == ""
    assert "open in" not in format_facts(outline(), fake_book.FIRST)
    assert exercises.write_note("c", "")["source"].count("](") == 1


def outline():
    return next(iter(read_outlines({fake_book.ONE: fake_book.FIRST}).values()))


def test_addresses_lead_to_the_chapter(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project.urls]\nRepository = "https://github.com/some-one/norm.book.git"\n'
        '[tool.labkit.launch]\nhub = "https://hub.example/tree/{chapter}.ipynb?a=1&b=2"\n'
    )
    links = launch.draw_links(launch.read_addresses(tmp_path), "04_qk_norm")
    book = "some-one/norm.book"
    assert links == (
        "[the course's hub](<https://hub.example/tree/04_qk_norm.ipynb?a=1&b=2>), "
        f"[Colab](<https://colab.research.google.com/github/{book}/blob/HEAD"
        "/chapters/04_qk_norm.ipynb>), "
        f"[Binder](<https://mybinder.org/v2/gh/{book}/HEAD?labpath=chapters/04_qk_norm.ipynb>), "
        f"[Codespaces](<https://codespaces.new/{book}>)"
    )
    assert links in format_facts(outline(), fake_book.FIRST, links)
    assert links in exercises.write_note("c", links)["source"]


@pytest.mark.parametrize("address", ["", "https://code.example/some-one/book"])
def test_a_repository_elsewhere_has_no_dead_link(tmp_path, address):
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{address}"\n')
    assert launch.read_addresses(tmp_path) == {}


def test_an_address_of_no_known_place_is_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.labkit.launch]\ncolab = "https://x"\n')
    with pytest.raises(ValueError, match="only the key hub, got colab"):
        launch.read_addresses(tmp_path)
    assert launch.read_addresses(tmp_path / "nothing") == {}


# -- Python for the pages -----------------------------------------------------------------------
def test_pyodide_is_staged_where_it_was_fetched_and_else_a_command_is_named(tmp_path, monkeypatch):
    book = fake_book.make(tmp_path)
    monkeypatch.setattr(pyodide, "list_files", lambda: {})
    without = staged_files(book, "book")
    assert {"_static/answers/runner.py", "_static/answers/labkit/check/calls.py"} <= set(without)
    monkeypatch.setattr(pyodide, "list_files", lambda: {"_static/pyodide/pyodide.mjs": b"x"})
    assert set(staged_files(book, "book")) - set(without) == {"_static/pyodide/pyodide.mjs"}


def test_what_npm_brings_is_held_against_the_pin(tmp_path, monkeypatch):
    def bring(wanted, *arguments):
        (Path(arguments[-1]) / "pyodide.tgz").write_bytes(b"another file")

    monkeypatch.setattr(pyodide, "run_npm", bring)
    with pytest.raises(ValueError, match=r"must be sha512-.*, got sha512-"):
        pyodide.fetch_pyodide(tmp_path)
    assert not pyodide.is_there(tmp_path) and pyodide.list_files(tmp_path) == {}


def test_the_licences_travel_with_pyodide(tmp_path):
    folder = pyodide.find_folder(tmp_path)
    folder.mkdir(parents=True)
    for name in pyodide.FILES:
        (folder / name).write_text("x")
    assert not pyodide.is_there(tmp_path), "the note comes last"
    (folder / "NOTICE.txt").write_text(pyodide.NOTICE)
    assert f"{pyodide.SERVED}/NOTICE.txt" in pyodide.list_files(tmp_path)
    assert "Mozilla Public License" in pyodide.NOTICE and "PSF License" in pyodide.NOTICE


# -- what the page runs, on torch and on the stand-in ---------------------------------------------
def verdict(text: str, task, module) -> dict:
    return json.loads(runner.check(text, json.dumps(task), module))


TASK = {
    "kind": "code", "name": "1", "functions": ["f"], "look": "", "rtol": 1e-6, "hint": "h",
    "slips": [],
    "cases": [{"function": "f", "label": "", "given": "torch.tensor([1.0, 2])",
               "wanted": "[2, 4]"}],
}  # fmt: skip
ANSWERS = {
    "def f(x):\n    return 2 * x": "",
    "def f(x):\n    return x": "2 of 2 are wrong. Hint: h",
    "def f(x):\n    return ...": "not answered yet",
    "def g(x):\n    return x": "there is no function f in the answer",
    "def f(x):\n    return x +": "line 2 is not Python: invalid syntax",
    "def g():\n    z\n\n\ndef f(x):\n    g()": "line 2 raised NameError: name 'z' is not defined",
    "def f(x):\n    y = x\n    return z": "line 3 raised NameError: name 'z' is not defined",
    "import torch\nraise SystemExit": "line 2 raised SystemExit",
    "f = 3": "there is no function f in the answer",
    "def f(x):\n    return np.sqrt(x)": "line 2 raised AttributeError: NumPy is not",
    "def f(x):\n    return f(x)": "line 2 raised RecursionError",
}


@pytest.mark.parametrize("text", ANSWERS)
@pytest.mark.parametrize("module", [torch, lists], ids=["torch", "lists"])
def test_an_answer_gets_its_verdict(text, module):
    said = verdict(text, TASK, module)["message"]
    assert said == ANSWERS[text] if len(ANSWERS[text]) < 26 else said.startswith(ANSWERS[text])


def test_what_an_answer_prints_is_told():
    told = verdict(
        "print('hello ' * 900)\ndef f(x):\n    print(x.shape)\n    return 2 * x", TASK, lists
    )
    assert told["printed"].startswith("hello") and len(told["printed"]) == runner.MOST


def tasks_of(chapter: Chapter) -> dict[str, dict]:
    """Read the code tasks that the chapter's twin gives a page, by exercise number."""
    twin = json.loads(chapter.twin.read_text(encoding="utf-8"))
    code = [cell for cell in twin["cells"] if cell["cell_type"] == "code"]
    places = {"".join(place.starter.source): n for n, place in find_exercises(chapter).items()}
    found, number = {}, ""
    for cell in code:
        source = "".join(cell["source"])
        number = places.get(source, number)
        for output in cell["outputs"]:
            task = output.get("data", {}).get(EXERCISE)
            if number and task and task["kind"] == "code" and number not in found:
                found[number] = task
    return found


def functions_of(text: str) -> str:
    """Keep the definitions of a solution, without its assertions."""
    kept = [node for node in ast.parse(text).body if not isinstance(node, ast.Assert)]
    return ast.unparse(ast.Module(kept, []))


def name_as_asked(text: str, task) -> str:
    """Rename the functions of a solution as in the stub."""
    defined = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    pairs = zip(task["functions"], defined[-len(task["functions"]) :], strict=True)
    return text + "".join(f"\n{asked} = {own}" for asked, own in pairs)


@cache
def all_tasks() -> dict[str, tuple[Chapter, str, dict]]:
    return {
        f"{chapter.number}-{number}": (chapter, number, task)
        for chapter in find_chapters(ROOT)
        for number, task in tasks_of(chapter).items()
    }


@pytest.mark.parametrize("name", sorted(all_tasks()))
def test_solutions_and_wrong_answers_fare_on_the_page_as_in_the_notebook(name):
    chapter, number, task = all_tasks()[name]
    place = find_exercises(chapter)[number]
    rows = importlib.import_module(f"tests.exercises.ch{chapter.number}").EXERCISES
    row = next(row for row in rows if row.number == number)
    solution = functions_of(row.right or (place.solution.source if place.solution else ""))
    right = name_as_asked(solution, task)
    for module in (torch, lists):
        assert verdict(right, task, module)["message"] == ""
        assert verdict(place.starter.source, task, module)["message"].startswith("not answered yet")
    for wrong in row.wrong:
        came = [verdict(wrong, task, module) for module in (torch, lists)]
        if "half precision" in row.wrong[wrong]:  # a page computes in double precision, and says so
            assert task["note"] and came[0] == came[1]
            continue
        assert came[0]["message"] and came[0] == came[1], wrong


def test_the_book_asks_code_on_its_pages():
    assert len(all_tasks()) >= 16
