"""Homework is copied to homes and back, and no home can trick root."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from press.cli import main
from press.course import handing, passwords
from press.course.people import People
from press.course.settings import Settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes into others' homes")
FILE = "hw1.ipynb"


@pytest.fixture
def course():
    folder = Path(tempfile.mkdtemp(prefix="course-"))  # which users may pass through
    folder.chmod(0o711)
    (folder / "state").mkdir(mode=0o711)
    yield Settings(folder / "material", state=folder / "state", first_uid=28_100)
    shutil.rmtree(folder)


@pytest.fixture
def release(tmp_path):
    for name in ("alice", "bob"):
        (tmp_path / "student" / name).mkdir(parents=True)
        (tmp_path / "student" / name / FILE).write_text(f"for {name}")
    return tmp_path / "student"


def home(course: Settings, name: str) -> Path:
    return People(course.state, course.first_uid).find_person(name).home


def test_everybody_gets_their_own_version_and_hands_it_in(course, release, tmp_path):
    names = ["alice", "bob"]
    assert handing.hand_out(course, release, names) == {"alice": [FILE], "bob": [FILE]}
    mine = home(course, "alice") / "homework" / FILE
    assert (mine.read_text(), mine.stat().st_uid) == ("for alice", 28_100)
    mine.write_text("done")
    assert handing.gather_files(course, FILE, tmp_path / "inbox") == {"alice": "", "bob": ""}
    assert (tmp_path / "inbox" / "alice" / FILE).read_text() == "done"
    assert (tmp_path / "inbox" / "bob" / FILE).read_text() == "for bob"


def test_handing_out_again_writes_over_nothing(course, release):
    handing.hand_out(course, release, ["alice"])
    (home(course, "alice") / "homework" / FILE).write_text("hours of work")
    assert handing.hand_out(course, release, ["alice", "bob"]) == {"alice": [], "bob": [FILE]}
    assert (home(course, "alice") / "homework" / FILE).read_text() == "hours of work"


def test_the_same_files_for_all_and_nothing_for_somebody(course, release, tmp_path):
    with pytest.raises(ValueError, match="must contain files to hand out to carol"):
        handing.hand_out(course, release, ["alice", "carol"])
    assert not home(course, "alice").exists()
    assert handing.hand_out(course, release / "alice", ["carol"]) == {"carol": [FILE]}


def test_the_two_commands_leave_administrators_out(course, release, tmp_path, capsys):
    settings = tmp_path / "course.toml"
    settings.write_text(
        f'material = "{course.material}"\nstate = "{course.state}"\nadmins = ["teacher"]\n'
        "first_uid = 28100\n"
    )
    passwords.give_passwords(course.passwords, ["alice", "bob", "teacher"])
    told = ["--settings", str(settings)]
    assert main(["course", "hand-out", str(release), *told]) == 0
    assert "2 files are new in 2 homes" in capsys.readouterr().out
    (home(course, "bob") / "homework" / FILE).unlink()
    assert main(["course", "gather", FILE, str(tmp_path / "inbox"), *told]) == 0
    said = capsys.readouterr().out
    assert f"bob: a submission must be homework/{FILE}, but" in said
    assert "1 of 2 gathered" in said
    assert main(["course", "gather", "../x", str(tmp_path / "inbox"), *told]) == 2


def test_a_link_to_what_only_root_reads_is_not_followed_either_way(course, release, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root's")
    handing.hand_out(course, release, ["alice", "bob"])
    for name, target in (("alice", secret), ("bob", home(course, "alice") / "homework" / FILE)):
        file = home(course, name) / "homework" / FILE
        file.unlink()
        file.symlink_to(target)
    # A folder of the path may be a link too: then the number decides, and not the way.
    shutil.move(home(course, "bob") / "homework", tmp_path / "moved")
    (home(course, "bob") / "homework").symlink_to(home(course, "alice") / "homework")
    told = handing.gather_files(course, FILE, tmp_path / "inbox")
    assert "symbolic links" in told["alice"] and "Permission denied" in told["bob"]
    assert not (tmp_path / "inbox").exists()


def test_a_linked_folder_gives_root_nothing_to_write_to(course, release, tmp_path):
    handing.hand_out(course, release, ["alice"])
    shutil.rmtree(home(course, "alice") / "homework")
    target = tmp_path / "roots"
    target.mkdir()
    (home(course, "alice") / "homework").symlink_to(target)
    with pytest.raises(ValueError, match="Permission denied"):
        handing.hand_out(course, release, ["alice"])
    assert list(target.iterdir()) == []


def test_a_pipe_or_a_huge_file_holds_nobody_up(course, release, tmp_path):
    handing.hand_out(course, release, ["alice", "bob"])
    pipe, huge = (home(course, name) / "homework" / FILE for name in ("alice", "bob"))
    pipe.unlink()
    os.mkfifo(pipe)
    os.truncate(huge, handing.LARGEST + 1)
    told = handing.gather_files(course, FILE, tmp_path / "inbox")
    assert all("a regular file of at most 20 MiB" in told[name] for name in ("alice", "bob"))
