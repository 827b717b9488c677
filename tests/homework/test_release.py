"""A release: its contents, and that it is the same every time."""

import json
import os

import nbformat
import pytest

from press import cli
from press.book.files import Red
from press.homework import private, variants
from press.homework.release import write_release
from tests.homework.release_toy import PROSE, files_of, write

CLASS = ("ada", "bob@x.org", "s-3")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Release the toy homework once to a class of three."""
    folder = tmp_path_factory.mktemp("release")
    done = write_release(write(folder), folder / "out", CLASS, seed=7)
    return done, folder / "out"


@pytest.fixture(scope="module")
def notebook(released):
    return nbformat.read(released[1] / "student/ada/hw9_toy.ipynb", as_version=4)


@pytest.fixture(scope="module")
def cells(notebook):
    """The cells that are not everybody's, by nbgrader's name."""
    own = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return {cell.metadata.nbgrader.grade_id: cell for cell in own}


def test_a_release_has_its_files_and_no_other(released):
    assert sorted(files_of(released[1])) == sorted(
        [
            *(f"student/{name}/hw9_toy.ipynb" for name in CLASS),
            *(f"student/{name}/AI_ASSISTANTS.md" for name in CLASS),
            "key/hw9_toy.ipynb",
            "key/hw9_toy.rubric.md",
            "private/hw9_toy.json",
        ]
    )
    assert (released[0].notebooks, released[0].different, released[0].warnings) == (3, 3, ())
    assert not [path for path in released[1].parent.iterdir() if path.name.startswith(".")]
    for secret in ("key", "private"):
        assert os.stat(released[1] / secret).st_mode & 0o777 == 0o700, "closed to others"


def test_a_notebook_is_whole_and_says_nothing_of_its_making(notebook, released):
    nbformat.validate(notebook)
    assert notebook.nbformat == 4
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.labkit == {"homework": "hw9_toy", "student": "ada"}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    ids = [cell.id for cell in notebook.cells]
    assert ids == [f"cell-{n:02d}" for n in range(1, len(ids) + 1)]
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "HOMEWORK" not in text, "the settings are the instructor's"
    assert "\\frac{1}{2}" in text and "tags" not in text


def test_nbgraders_metadata_names_answers_and_tests(cells):
    about = {name: cell.metadata.nbgrader for name, cell in cells.items()}
    assert [*about] == ["imports", "variant", "q1", "test-q1", "q2", "probe", "test-q2"]
    seen = ("solution", "grade", "locked", "points")
    assert [about["q1"].get(key) for key in seen] == [True, False, False, None]
    assert [about["test-q1"].get(key) for key in seen] == [False, True, True, 3]
    assert sum(each.get("points", 0) for each in about.values()) == 5
    for name, editable in (("q1", None), ("test-q1", False)):
        assert cells[name].metadata.deletable is False
        assert cells[name].metadata.get("editable") is editable


def test_a_student_sees_stubs_public_checks_and_own_numbers(cells, released):
    seen = {name: cell.source for name, cell in cells.items()}
    assert seen["imports"].endswith("MAY_IMPORT = ('math',)")
    assert "earns nothing" in seen["imports"]
    assert seen["q1"].endswith('    raise NotImplementedError("your turn: q1")')
    assert "self.by = None  # keep what was given" in seen["q2"]
    assert seen["test-q1"] == 'public("q1", lambda: (times(1) == FACTOR, "times(1) is FACTOR"))'
    given = variants.draw_variants(released[0].private, "ada")
    assert seen["variant"] == (
        f"FACTOR = {given['FACTOR']}  # yours alone\nSHIFTS = {given['SHIFTS']}"
    )


def test_the_key_has_the_solutions_and_the_rubric_and_no_hidden_test(released):
    text = (released[1] / "key/hw9_toy.ipynb").read_text()
    assert "answer_of_q1 = x * FACTOR" in text and "### BEGIN SOLUTION" in text
    assert "test_q1" not in text and "HIDDEN" not in text
    rubric = (released[1] / "key/hw9_toy.rubric.md").read_text()
    assert "# Rubric: A toy" in rubric and "5 points, about 5 minutes" in rubric
    assert "## q1: 3 points\n\nGraded by the last definition of `times`." in rubric
    assert "| seven | 2 | Is it a product? |" in rubric
    assert "| zero | 1 | Zero \\| times all is zero. |" in rubric
    note = (released[1] / "student/ada/AI_ASSISTANTS.md").read_text()
    assert "**A toy**" in note and "(q1, q2)" in note and "write or complete the code" in note


def test_the_private_half_is_what_the_grader_reads(released):
    read = private.load_private(released[1] / "private/hw9_toy.json")
    assert read == released[0].private
    assert read.students == CLASS and read.seed == 7 and read.packages == ("math",)
    first = read.questions[0]
    assert (first.id, first.points, first.wanted) == ("q1", 3, ("times",))
    assert first.test.startswith("def expected_of_q1(x, given):")
    assert [(part.question, part.name, part.points) for part in read.rubric] == [
        ("q1", "seven", 2),
        ("q1", "zero", 1),
        ("q2", "scaled", 2),
    ]


def test_the_same_again_is_the_same_bytes_and_the_digest_is_the_tests(released, tmp_path):
    digest = released[0].private.digest
    write_release(write(tmp_path), tmp_path / "out", CLASS, seed=7)
    assert files_of(tmp_path / "out") == files_of(released[1])
    assert write_release(write(tmp_path), tmp_path / "a", ("zoe",), 7).private.digest == digest
    other = write(tmp_path, ('says="Is it a product?"', 'says="Is it one?"'))
    assert write_release(other, tmp_path / "b", CLASS, 7).private.digest != digest


def test_a_private_file_that_was_changed_or_damaged_is_refused(released, tmp_path):
    text = (released[1] / "private/hw9_toy.json").read_text()
    told = json.loads(text)
    damaged = {
        "must not change after its release": text.replace("Is it a product?", "Is it?"),
        "must be the private JSON file of a homework": text[:-20],
        "must have schema 1": json.dumps({**told, "schema": 2}),
        "must have all parts of a private file": json.dumps(
            {key: value for key, value in told.items() if key != "probes"}
        ),
    }
    for said, content in damaged.items():
        (tmp_path / "hw.json").write_text(content)
        with pytest.raises(ValueError, match=said):
            private.load_private(tmp_path / "hw.json")
    with pytest.raises(ValueError, match="must be the private JSON file of a homework"):
        private.load_private(tmp_path / "none.json")


def test_the_command_releases_to_a_roster(tmp_path, capsys):
    path = write(tmp_path, ("lambda: Scale(2)(3) == 6", "lambda: True"))
    (tmp_path / "roster.csv").write_text("id,name\nada,Ada\nbob,Bob\n")
    words = ["homework", "release", str(path), "--out", str(tmp_path / "out")]
    assert cli.main([*words, "--students", str(tmp_path / "roster.csv"), "--seed", "3"]) == 0
    told = capsys.readouterr()
    assert "hw9_toy, 2 questions, 5 points; 2 notebooks, 2 with different numbers" in told.out
    assert "the public checks of q2 pass on the untouched notebook" in told.err
    assert private.load_private(tmp_path / "out/private/hw9_toy.json").seed == 3


def test_the_command_says_what_is_wrong_and_how_to_go_on(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    wrong = write(tmp_path, ("points:3", "points:4"))
    assert cli.main(["homework", "release", str(wrong), *out]) == 1
    assert "q1 is tagged points:4" in capsys.readouterr().err
    assert cli.main(["homework", "release", "hw77", *out]) == 2
    assert "unknown homework 'hw77'; choose one of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_question_in_prose_is_given_out_without_its_model_answer(tmp_path):
    path = write(tmp_path)
    path.write_text(path.read_text(encoding="utf-8") + PROSE, encoding="utf-8")
    done = write_release(path, tmp_path / "out")
    assert [(each.id, each.points, bool(each.test)) for each in done.private.questions] == [
        ("q1", 3, True),
        ("q2", 2, True),
        ("q3", 4, False),
    ]
    read = nbformat.read(tmp_path / "out/student/hw9_toy.ipynb", as_version=4)
    cell = read.cells[-1]
    assert cell.source == "## Why is `times` linear?\n\n*Write your answer here.*"
    about = cell.metadata.nbgrader
    assert (about.grade_id, about.points, about.solution, about.grade) == ("q3", 4, True, True)
    key = (tmp_path / "out/key/hw9_toy.ipynb").read_text(encoding="utf-8")
    assert "distributes over" in key
    rubric = (tmp_path / "out/key/hw9_toy.rubric.md").read_text(encoding="utf-8")
    assert "## q3: 4 points\n\nMarked by hand." in rubric and "9 points" in rubric
    leaky = path.read_text(encoding="utf-8").replace(
        "Now `times`", "a product distributes over a sum."
    )
    path.write_text(leaky.replace("Because a product", "a product"), encoding="utf-8")
    with pytest.raises(Red, match="of a solution, appears in"):
        write_release(path, tmp_path / "again")
