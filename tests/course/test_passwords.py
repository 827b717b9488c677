"""Passwords of the course: made once, stored as hashes that nobody else can read."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from press.course import passwords


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "passwords.json"


def test_a_password_opens_its_own_name_only(file):
    new = passwords.give_passwords(file, ["alice", "bob"])
    kept = passwords.load_hashes(file)
    assert passwords.verify_password(new["alice"], kept["alice"])
    assert not passwords.verify_password(new["alice"], kept["bob"])
    assert not passwords.verify_password("", kept["alice"])
    assert passwords.hash_password("same")["hash"] != passwords.hash_password("same")["hash"]


def test_an_unknown_name_fits_no_password_not_even_that_of_the_stand_in(monkeypatch):
    monkeypatch.setattr(passwords, "_run_scrypt", lambda password, salt: bytes(64))
    assert not passwords.verify_password("anything", None)


def test_the_file_holds_no_password_and_is_its_owners_only(file):
    new = passwords.give_passwords(file, ["alice"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert new["alice"] not in file.read_text()
    assert set(json.loads(file.read_text())["alice"]) == {"salt", "hash"}
    file.chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        passwords.load_hashes(file)


def test_who_has_a_password_keeps_it_until_another_is_asked_for(file):
    first = passwords.give_passwords(file, ["alice"])
    assert list(passwords.give_passwords(file, ["alice", "bob"])) == ["bob"]
    assert passwords.verify_password(first["alice"], passwords.load_hashes(file)["alice"])
    before = file.read_text()
    with pytest.raises(ValueError, match="'eve' is not in it"):
        passwords.give_passwords(file, ["alice"], again=["eve"])
    assert file.read_text() == before
    second = passwords.give_passwords(file, ["alice"], again=["alice"])
    entry = passwords.load_hashes(file)["alice"]
    assert passwords.verify_password(second["alice"], entry)
    assert not passwords.verify_password(first["alice"], entry)


def test_one_taken_out_cannot_come_in(file):
    passwords.give_passwords(file, ["alice", "bob"])
    passwords.remove_users(file, ["alice"])
    assert list(passwords.load_hashes(file)) == ["bob"]


@pytest.mark.parametrize("name", ["", "Alice", "a.b", "../root", "1alice", "a" * 32, "alice\n"])
def test_a_name_that_cannot_be_a_users_is_refused_before_anything_is_written(file, name):
    with pytest.raises(ValueError, match="lowercase letters"):
        passwords.give_passwords(file, ["bob", name])
    assert not file.exists()


def test_the_authenticator_follows_the_file_while_it_runs(file):
    pytest.importorskip("jupyterhub", reason="the extra course is not installed")
    from press.course.authenticator import CourseAuthenticator

    new = passwords.give_passwords(file, ["alice"])
    door = CourseAuthenticator(file=str(file))

    def enters(name: str, password: str) -> bool:
        told = {"username": name, "password": password}
        return asyncio.run(door.authenticate(None, told)) == name

    user = SimpleNamespace(name="alice")
    assert enters("alice", new["alice"])
    assert not enters("alice", new["alice"] + "x")
    assert not enters("eve", new["alice"])
    assert asyncio.run(door.refresh_user(user))
    passwords.remove_users(file, ["alice"])
    assert not enters("alice", new["alice"])
    assert not asyncio.run(door.refresh_user(user))
