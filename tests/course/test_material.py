"""The students' repository: its contents, and its permissions."""

import shutil
import subprocess

import pytest

from press.course import material

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="the material is kept by git")


@pytest.fixture
def clone(tmp_path):
    """Write a folder like a clone of the book, with a solution that only its owner can read."""
    root = tmp_path / "clone"
    for name in ("chapters/homework", "data/ledger", "tests"):
        (root / name).mkdir(parents=True)
    for name in ("01_one", "02_two"):
        (root / "chapters" / f"{name}.py").write_text(f"# {name}\n")
    (root / "chapters" / "01_one.ipynb").write_text("{}")
    (root / "chapters" / "homework" / "hw1.py").write_text("SOLUTION = 1\n")
    (root / "tests" / "wrong.py").write_text("SOLUTION = 2\n")
    (root / "data" / "ledger" / "book.json").write_text("{}")
    (root / "pyproject.toml").write_text("")
    (root / "pyproject.toml").chmod(0o600)
    return root


def tracked(folder):
    command = ["git", "-c", f"safe.directory={folder}", "-C", str(folder), "ls-files"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_it_holds_chapters_settings_data_and_what_is_named_and_no_solution(clone, tmp_path):
    handed = tmp_path / "hw1"
    handed.mkdir()
    (handed / "hw1.ipynb").write_text("{}")
    material.commit_material(clone, tmp_path / "out", also=[handed])
    assert tracked(tmp_path / "out") == [
        ".gitignore",
        "chapters/01_one.ipynb",
        "chapters/01_one.py",
        "chapters/02_two.py",
        "data/ledger/book.json",
        "hw1/hw1.ipynb",
        "pyproject.toml",
    ]
    found = [p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert not any(b"SOLUTION" in text for text in found)


def test_everybody_may_read_it(clone, tmp_path):
    material.commit_material(clone, tmp_path / "out")
    assert material.find_unreadable(tmp_path / "out") is None
    assert (tmp_path / "out" / "pyproject.toml").stat().st_mode & 0o777 == 0o644
    (tmp_path / "out" / "data").chmod(0o750)
    assert material.find_unreadable(tmp_path / "out") == tmp_path / "out" / "data"


def test_chapters_are_chosen_by_number_or_name_and_renewed(clone, tmp_path):
    out = tmp_path / "out"
    first = material.commit_material(clone, out, ["02"])
    assert "chapters/01_one.py" not in tracked(out)
    assert material.commit_material(clone, out, ["02_two"]) == first, (
        "nothing changed, so nothing is new"
    )
    assert material.commit_material(clone, out, ["01"]) != first
    assert "chapters/02_two.py" not in tracked(out)


def test_what_is_not_there_is_refused_before_anything_is_written(clone, tmp_path):
    with pytest.raises(ValueError, match="unknown chapter '09'; choose one of 01_one, 02_two"):
        material.commit_material(clone, tmp_path / "out", ["09"])
    with pytest.raises(ValueError, match="--also must name existing files or folders"):
        material.commit_material(clone, tmp_path / "out", [], [tmp_path / "nothing"])
    with pytest.raises(ValueError, match="has none; run this command in the clone"):
        material.commit_material(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_in_it_is_left_alone(clone, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="must be empty or a git repository"):
        material.commit_material(clone, tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").exists()
