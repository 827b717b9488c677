"""`labkit course …`: the commands for instructors, and a check that starts nothing."""

import csv
import os
import socket
from pathlib import Path

import pytest

from press.cli import main
from press.course import check
from press.course.settings import Settings


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder with settings and a roster."""
    monkeypatch.chdir(tmp_path)
    Path("course.toml").write_text(f'material = "{tmp_path}/m"\nstate = "{tmp_path}/state"\n')
    Path("roster.csv").write_text("id\nalice\nbob\n")
    return tmp_path


def test_passwords_are_said_once_or_go_to_a_private_file_and_never_over_another(here, capsys):
    assert main(["course", "passwords", "roster.csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in rows] == ["alice", "bob"]
    assert len({row["password"] for row in rows}) == 2
    assert main(["course", "passwords", "roster.csv"]) == 0
    assert capsys.readouterr().out == "id,password\n"
    words = ["course", "passwords", "roster.csv", "--out", "words.csv", "--again", "alice"]
    assert main(words) == 0
    assert Path("words.csv").stat().st_mode & 0o777 == 0o600
    before = Path("words.csv").read_text()
    assert main(words) == 2
    assert "words.csv exists" in capsys.readouterr().err
    assert Path("words.csv").read_text() == before


def test_who_left_the_roster_is_shut_out_only_when_asked(here, capsys):
    main(["course", "passwords", "roster.csv"])
    Path("roster.csv").write_text("id\nbob\n")
    assert main(["course", "passwords", "roster.csv"]) == 0
    assert "0 new, 1 kept, 0 shut out" in capsys.readouterr().err
    assert main(["course", "passwords", "roster.csv", "--drop"]) == 0
    assert "0 new, 1 kept, 1 shut out" in capsys.readouterr().err


def test_check_names_what_is_missing_and_serve_starts_nothing(here, capsys, monkeypatch):
    monkeypatch.setenv("LABKIT_PROXY", str(here / "none"))
    assert main(["course", "check"]) == 1
    said = capsys.readouterr().out
    assert f"material     {here}/m must be a git repository; make one: labkit course" in said
    assert "passwords    no user has a password; make some: labkit course passwords" in said
    assert "proxy        LABKIT_PROXY must name a program" in said
    assert main(["course", "serve"]) == 1
    assert "this machine cannot serve the course yet" in capsys.readouterr().err
    assert not (here / "state").exists()


def test_no_settings_are_misuse(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["course", "serve"]) == 2
    assert 'material = "/srv/course"' in capsys.readouterr().err


def test_a_proxy_that_does_not_run_is_named(here, monkeypatch):
    program = here / "proxy"
    program.write_text("#!/bin/sh\necho too old >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("LABKIT_PROXY", str(program))
    told = check._check_proxy(Settings(here))
    assert told == f"{program} does not run: too old; it needs Node 20 or newer"


def test_a_port_in_use_a_missing_folder_and_a_stranger_among_admins_are_named(here):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first = Settings(here, port=min(port, 65533))
        assert f"port {port} of" in check._check_ports(first)
    shown = Settings(here, visible=(here / "data",))
    assert (
        check._check_isolation(shown)
        == f"visible must name existing folders, but {here}/data does not exist"
    )
    main(["course", "passwords", "roster.csv"])
    course = Settings(here / "m", state=here / "state", admins=("teacher",))
    assert "'teacher' has none" in check._check_passwords(course)


def test_gpus_are_looked_for_by_number_or_uuid(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: Some GPU (UUID: GPU-1-2)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for right in ("0", "GPU-1-2"):
        assert check._check_gpus(Settings(tmp_path, gpus=(right,))) == ""
    assert "gpus names '1'" in check._check_gpus(Settings(tmp_path, gpus=("1",)))
    assert check._check_gpus(Settings(tmp_path)) == ""


def test_an_opened_file_that_is_not_in_the_material_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "m"
    (folder / ".git").mkdir(parents=True)
    folder.chmod(0o755)
    # pytest's own folder is closed
    monkeypatch.setattr(check.readable_paths, "find_closed", lambda path: None)
    told = check._check_material(Settings(folder, open="chapters/99.py"))
    assert told.endswith("has no 'chapters/99.py'")
    (folder / "secret").touch(mode=0o600)
    assert "secret; run: chmod -R o+rX" in check._check_material(Settings(folder))
