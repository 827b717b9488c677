import errno
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from toy_book import chapter_text, make_book

from press import cli
from press.commands.options import repeat_options

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def book(tmp_path, monkeypatch):
    root = make_book(tmp_path, c01_one=chapter_text("01_one"))
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["book"], "lists build, site"),
        (["cook"], "leaderboard"),
        (["book", "bild"], "build"),
        (["book", "build", "--size", "tiny"], "gpu"),
        (["homework", "release", "--seed", "x"], "integer, got 'x'"),
        (["book", "build", "--only", "07"], "01_one"),
        (["book", "build", "--only", "--size", "book"], "at least one word"),
        (["book", "build", "--nope"], "No such option: --nope"),
        (["book", "accept", "a"], "--why"),
        (["claims", "compare"], "lists lock, locks"),
    ],
)
def test_misuse_exits_with_2_and_says_what_exists(book, capsys, words, rule):
    assert cli.main(words) == 2
    told = capsys.readouterr()
    assert rule in told.err and told.err.startswith("labkit: ") and told.out == ""
    assert told.err.count("\n") == 1 and "Traceback" not in told.err


def test_labkit_alone_shows_every_verb(capsys):
    assert cli.main([]) == 2
    told = capsys.readouterr().err
    assert told.startswith("Usage: labkit") and "leaderboard" in told and "--version" in told


def test_the_version_is_that_of_the_project(capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"labkit {project['version']}\n"


def test_a_shell_can_complete_the_verbs():
    words = {
        "_LABKIT_COMPLETE": "complete_bash",
        "COMP_WORDS": "labkit book bu",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "labkit"], env={**os.environ, **words}, cwd=ROOT,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "build" in done.stdout and "pairs" not in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("--only 03 05 --size book", "--only 03 --only 05 --size book"),
        ("a --only 03 b", "a --only 03 --only b"),
        ("--only -1 -.5 -- 05", "--only -1 --only -.5 -- 05"),
        ("--only=03 05", "--only=03 05"),
    ],
)
def test_an_option_of_several_words_takes_them_up_to_the_next_option(words, read):
    assert repeat_options(words.split(), {"--only"}) == read.split()


def test_outside_a_book_the_command_says_where_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["book", "check"]) == 2
    assert "change into the book's folder" in capsys.readouterr().err


def test_a_book_without_chapters_is_fine(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(make_book(tmp_path))
    assert cli.main(["book", "build"]) == 0
    assert "no chapters yet" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["book", "build"], ["book", "record"]])
def test_a_checkout_that_is_read_only_is_one_sentence_with_a_way_out(
    book, capsys, monkeypatch, words
):
    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert cli.main(words) == 1
    said = capsys.readouterr().err
    assert "must be able to write" in said and "git clone" in said and "Traceback" not in said


@pytest.mark.slow
def test_a_reader_who_stops_early_gets_no_traceback():
    program = f"{sys.executable} -m labkit show | head -n 1"
    done = subprocess.run(program, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("post") and done.stderr == ""
