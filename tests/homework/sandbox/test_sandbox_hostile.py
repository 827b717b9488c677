"""Hostile submissions, by the hundred and in each mode: what they got is nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from press.homework.sandbox import list_modes
from tests.homework.sandbox import gauntlet
from tests.homework.sandbox.conftest import BEST

ROOT = Path(__file__).parents[3]
LAUNCH = Path(__file__).with_name("launch.py")

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


@pytest.mark.skipif(bool(list_modes()[BEST]), reason=f"mode {BEST}: {list_modes()[BEST]}")
def test_one_attack_of_each_kind_gets_nothing():
    assert gauntlet.run(BEST, SOME) == {}


def test_there_are_many_attacks_and_no_two_alike():
    sources = {text for _, text in (*gauntlet.BODIES.values(), *gauntlet.MARKS.values())}
    assert len(sources) == len(gauntlet.NAMES) >= 240


@pytest.mark.slow
@pytest.mark.skipif(bool(list_modes()["full"]), reason=f"mode full: {list_modes()['full']}")
def test_no_attack_gets_anything_in_full_mode():
    assert gauntlet.run("full") == {}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a plain user")
@pytest.mark.skipif(bool(list_modes()["full"]), reason=f"mode full: {list_modes()['full']}")
def test_no_attack_gets_anything_in_full_mode_of_a_plain_user():
    assert launched("full", "plain") == {}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become root in a container")
def test_no_attack_gets_anything_in_restricted_mode():
    assert launched("restricted", "container") == {}


@pytest.mark.slow
@pytest.mark.skipif(bool(list_modes()["plain"]), reason=f"mode plain: {list_modes()['plain']}")
def test_no_attack_gets_anything_in_plain_mode():
    plain = launched("plain", "plain") if os.geteuid() == 0 else gauntlet.run("plain")
    assert plain == {}


def launched(mode, kind):
    """Run all attacks in a mode from another kind of process."""
    command = [sys.executable, "-m", "tests.homework.sandbox.gauntlet", mode]
    environment = {
        **os.environ,
        "HOME": "/tmp",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'chapters'}:{ROOT / 'kernels'}",
    }
    ran = subprocess.run(
        [sys.executable, str(LAUNCH), kind, str(ROOT), *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])
