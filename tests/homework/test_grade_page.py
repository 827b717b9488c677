"""The instructors' page is executed: from a release to a CSV in five commands."""

import csv
import os
import re
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from press import cli
from press.homework.notebook import write_notebook
from press.homework.private import load_private
from press.homework.regions import keep_solutions
from press.homework.source import read_homework
from press.homework.variants import draw_variants

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "chapters" / "instructors.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
HW = "hw1_norms_from_scratch"


def commands(word=""):
    """Return the commands of the page's first block that contains the word; of all without one."""
    blocks = [text for kind, text in BLOCKS if kind == "bash" and word in text]
    lines = "".join(blocks[:1] if word else blocks).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("labkit ")]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Make a book with the first homework and the page's class, and work in it."""
    (tmp_path / "chapters" / "homework").mkdir(parents=True)
    shutil.copy(ROOT / "chapters" / "homework" / f"{HW}.py", tmp_path / "chapters" / "homework")
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    roster = next(text for kind, text in BLOCKS if text.startswith("id,"))
    (tmp_path / "class.csv").write_text(roster, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the page's commands grade as root")
def test_the_five_commands_of_the_page_go_from_a_source_to_scores(book, capsys):
    release, collect, *rest = commands("homework release")
    assert len(rest) == 3
    assert cli.main(release) == 0
    # Ann hands in the key by Canvas, Bob the notebook as he got it by Moodle; Cem does nothing.
    numbers = draw_variants(load_private(book / f"build/hw1/private/{HW}.json"), "ann")
    homework = read_homework(book / f"chapters/homework/{HW}.py")
    key = write_notebook(homework, numbers, "ann", keep_solutions)
    (book / "inbox").mkdir()
    (book / f"inbox/leeann_4711_12_{HW}-1.ipynb").write_text(key, encoding="utf-8")
    untouched = book / f"build/hw1/student/bob/{HW}.ipynb"
    moodle = book / "inbox" / "Bob Ray_99_assignsubmission_file_"
    moodle.mkdir()
    shutil.copy(untouched, moodle)
    assert cli.main(collect) == 1, "Cem is missing"
    for command in rest:
        assert cli.main(command) == 0, command
    told = capsys.readouterr().out
    assert "missing: cem" in told and "2 graded, 0 kept" in told
    assert "mean: 10.0 of 20" in told
    with (book / "build/scores.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows["ann"]["total"] == rows["ann"]["max"] == "20"
    assert rows["bob"]["total"] == "0" and rows["bob"]["status"] == "graded"
    assert rows["cem"]["total"] == "" and rows["cem"]["status"] == "missing"
    feedback = (book / f"build/feedback/{HW}/bob.md").read_text(encoding="utf-8")
    assert "0 of 20 points" in feedback and "You have not begun this question" in feedback
    assert (book / f"build/feedback/{HW}/ann.html").is_file()
    # Then those of the next chapter: both came before they were due, and nothing is in prose.
    for command in commands("homework marks"):
        assert cli.main(command) == 0, command
    assert (book / "build/marks.csv").read_text(encoding="utf-8").count("\n") == 1
    with zipfile.ZipFile(book / f"build/feedback/{HW}.zip") as archive:
        assert sorted(archive.namelist()) == [
            "Bob Ray_99_assignsubmission_file_/feedback.html",
            f"leeann_4711_12_{HW}-1.ipynb",
        ]


def test_the_page_names_only_what_the_command_has():
    lines = commands()
    assert len(lines) == 8
    for line in lines:
        command, name = get_command(cli.app), "labkit"
        while isinstance(command, TyperGroup):
            context = command.make_context(name, line)
            name, command, line = command.resolve_command(context, line)
        assert command and command.make_context(name, line).params
