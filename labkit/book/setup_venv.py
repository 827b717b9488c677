"""Make `.venv` hold what pyproject.toml pins; do nothing when it does already.

Content decides, never a time stamp: STAMP inside `.venv` records what it was made for, and MARKER
is there from the first moment of an installation to its last, so a killed one is never taken for
whole. Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import fcntl  # POSIX only, as the rest of the book: on Windows it runs in WSL2
import hashlib
import json
import os
import re
import shutil
import sys
import time
import tomllib
from pathlib import Path

import setup_pip
from setup_pip import SetupError, ask, pip, say
from setup_torch import CHOICE, choice, describe, has_nvidia, installed_torch

STAMP = ".labkit-setup.json"
MARKER = ".labkit-begun"


def pins(root: Path) -> tuple[str, dict[str, str]]:
    """Read the hash of the tables that decide an installation, and the pinned row of each name."""
    tables = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    packages = tables["tool"]["hatch"]["build"]
    content = json.dumps([tables["build-system"], tables["project"], packages], sort_keys=True)
    extras = tables["project"]["optional-dependencies"]
    rows = [row for extra in ("book", "dev") for row in extras[extra]]
    named = {re.split(r"[\[=<>~! ]", row, maxsplit=1)[0]: row for row in rows}
    return hashlib.sha256(content.encode()).hexdigest(), named


def read_stamp(venv: Path) -> dict:
    """Read what `.venv` was made for; an unreadable stamp counts as none."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, key: str, made: bool) -> None:
    """Record what `.venv` now holds, in one step."""
    stamp = {
        "key": key,
        "made": made,  # by set-up, so set-up may remove it
        "root": str(venv.parent),  # an environment cannot be moved
        "choice": choice() or read_stamp(venv).get("choice", ""),
        "torch": installed_torch(venv),
    }
    fresh = venv / f"{STAMP}.new"
    fresh.write_text(json.dumps(stamp), encoding="utf-8")
    fresh.replace(venv / STAMP)


def python_inside(venv: Path) -> str:
    """Read which Python `.venv` was made with, as "3.11"; empty when it cannot run."""
    config = venv / "pyvenv.cfg"
    if not config.exists() or not (venv / "bin/python").exists():  # false for a dangling link too
        return ""
    found = re.search(r"^version\w* *= *(\d+\.\d+)", config.read_text(encoding="utf-8"), re.M)
    return found[1] if found else ""


def misfit(venv: Path, python: str, chosen: bool) -> str:
    """Say why `.venv` cannot be used or mended; empty when it can."""
    inside, root = python_inside(venv), read_stamp(venv).get("root", str(venv.parent))
    if not inside:
        return "has no Python that runs"
    if tuple(map(int, inside.split("."))) < (3, 11):
        return f"holds Python {inside}, older than 3.11"
    if chosen and inside != python:
        return f"holds Python {inside} where {python} was asked for"
    return "" if root == str(venv.parent) else "was made for another folder"


def decide(venv: Path, key: str, python: str, chosen: bool) -> str:
    """Choose: "keep", "install" on top, "repair" what a kill left, or "make" anew."""
    if not venv.exists() or not any(venv.iterdir()):
        return "make"
    begun = (venv / MARKER).read_text() if (venv / MARKER).exists() else ""
    if begun == "make":
        return "make"
    stamp, reason = read_stamp(venv), misfit(venv, python, chosen)
    if reason and not stamp.get("made"):
        raise SetupError(refusal(reason))
    if reason:
        say(f".venv {reason}: it is made again")
        return "make"
    if begun:
        return "repair"
    return "keep" if stamp.get("key") == key else "install"


def refusal(reason: str) -> str:
    """Word the refusal to remove an environment that someone else made."""
    return (
        f"set-up removes only a .venv that it made itself, and this one, which it did not make, "
        f"{reason}; move it away and call make again"
    )


def announce(venv: Path, torch: str) -> None:
    """Say which PyTorch pip is about to download, and leave time to stop where it looks wrong."""
    have = installed_torch(venv)
    if have.partition("+")[0] == torch.partition("==")[2]:
        return say(f"torch {have} is there already")
    say("asking pip which build of PyTorch it would take")
    build, nvidia = ask(venv, torch), has_nvidia()
    say(describe(build, nvidia))
    if build.cuda and not nvidia and sys.stdin.isatty():
        say("going on in 10 seconds")
        time.sleep(10)


def make_venv(venv: Path) -> None:
    """Make an empty `.venv`, marked as half made from its first moment."""
    old = venv.with_name(".venv.old")
    if venv.is_symlink():
        venv.unlink()
    elif venv.exists():
        shutil.rmtree(old, ignore_errors=True)
        venv.rename(old)  # in one step: a kill while removing leaves nothing that looks whole
    shutil.rmtree(old, ignore_errors=True)
    venv.mkdir()
    (venv / MARKER).write_text("make")
    say(f"making .venv with Python {sys.version.split()[0]}")
    # The Python below an environment: the one that runs this may itself stand in the old .venv.
    python = getattr(sys, "_base_executable", sys.executable)
    if setup_pip.run(python, "-I", "-m", "venv", str(venv), cwd=venv.parent):
        raise SetupError(
            "set-up needs Python's own venv module, and it failed (its reason is above); "
            "on Debian and Ubuntu: apt-get install python3-venv"
        )


def install(venv: Path, key: str, requirements: dict[str, str], action: str) -> None:
    """Install the book and everything it pins; the stamp comes last."""
    made = action == "make" or bool(read_stamp(venv).get("made"))
    (venv / MARKER).write_text(action)
    try:
        # Older pips download whole packages to answer a dry run.
        pip(venv, "install", "-qq", requirements.get("pip", "pip>=23.3"))
        announce(venv, requirements["torch"])
        say("installing the pinned packages: one to three minutes on a quick network")
        quiet = [] if sys.stdout.isatty() else ["-qq"]  # a progress bar is for people
        force = ["--force-reinstall"] if action == "repair" else []
        pip(venv, "install", *quiet, *force, "-e", ".[book,dev]")
    except SetupError:
        if action == "install":  # pip failed in order: it put back what it had taken out
            (venv / MARKER).unlink()
        raise
    write_stamp(venv, key, made)
    (venv / MARKER).unlink()


def other_build_is_chosen(venv: Path, torch: str) -> bool:
    """Say whether the variable, set to something new, selects another build than the present."""
    stamp = read_stamp(venv)
    if choice() in ("", stamp.get("choice")):  # unset: what was chosen at set-up stays
        return False
    say(f"{CHOICE} has changed: asking pip whether it selects another PyTorch")
    try:
        build = ask(venv, torch)
    except SetupError:
        say("no answer, so .venv stays as it is")
        return False
    if build.version == stamp.get("torch"):
        write_stamp(venv, stamp["key"], stamp["made"])
        return False
    reason = f"holds torch {stamp.get('torch')} where {build.version} was asked for"
    if not stamp.get("made"):
        raise SetupError(refusal(reason))
    say(f".venv {reason}: it is made again")
    return True


def set_up(root: Path, chosen: bool) -> None:
    """Bring `.venv` to what pyproject.toml says."""
    key, requirements = pins(root)
    venv, start = root / ".venv", time.monotonic()
    action = decide(venv, key, ".".join(map(str, sys.version_info[:2])), chosen)
    if action == "keep" and other_build_is_chosen(venv, requirements["torch"]):
        action = "make"
    if action == "keep":
        return
    if action == "make":
        make_venv(venv)
    install(venv, key, requirements, action)
    say(f".venv is ready, {time.monotonic() - start:.0f} s")


def locked_set_up(root: str, chosen: bool) -> int:
    """Set up under a lock, so that two makes at once do not meet."""
    try:
        with open(Path(root) / "pyproject.toml", "rb") as lock:
            os.set_inheritable(lock.fileno(), True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another set-up is at work: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            set_up(Path(root), chosen)
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: stopped; the next make finishes what is missing", file=sys.stderr)
        return 130
    return 0
