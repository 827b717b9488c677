import subprocess
import sys
from pathlib import Path

import pytest
from toy_book import chapter_text, make_book

from labkit import cli

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def book(tmp_path, monkeypatch):
    root = make_book(tmp_path, c01_one=chapter_text("01_one"))
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([], "COMMAND"),
        (["book"], "VERB"),
        (["cook"], "bench"),
        (["book", "bild"], "build"),
        (["book", "build", "--size", "tiny"], "smoke"),
        (["book", "build", "--seed", "x"], "int"),
        (["book", "accept", "a"], "--why"),
    ],
)
def test_misuse_exits_with_2_and_says_what_exists(book, capsys, words, rule):
    with pytest.raises(SystemExit) as exit:
        cli.main(words)
    assert exit.value.code == 2
    assert rule in capsys.readouterr().err


def test_an_unknown_chapter_lists_those_that_exist(book, capsys):
    assert cli.main(["book", "build", "--only", "07"]) == 2
    assert "01_one" in capsys.readouterr().err


def test_outside_a_book_the_command_says_where_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["book", "check"]) == 2
    assert "change into the book's folder" in capsys.readouterr().err


def test_a_book_without_chapters_is_fine(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(make_book(tmp_path))
    assert cli.main(["book", "build"]) == 0
    assert "no chapters yet" in capsys.readouterr().out


def test_help_is_fine(capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["book", "--help"])
    assert exit.value.code == 0
    assert "accept" in capsys.readouterr().out


def test_a_reader_who_stops_early_gets_no_traceback():
    program = f"{sys.executable} -m labkit show | head -n 1"
    done = subprocess.run(program, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("post") and done.stderr == ""
