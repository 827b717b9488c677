"""Talk for the set-up: to the reader, and to the pip inside `.venv`.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from setup_torch import Build, read_report


class SetupError(Exception):
    """Tell the reader the rule, what came, and the way out."""


def say(text: str) -> None:
    """Print one line about what set-up is doing."""
    print(f"set-up: {text}", flush=True)


def run(*command: str, cwd: Path) -> int:
    """Run a command that keeps set-up's lock even if set-up itself is killed."""
    return subprocess.run(command, cwd=cwd, close_fds=False).returncode


def pip(venv: Path, *arguments: str) -> None:
    """Run pip inside `.venv`."""
    command = (str(venv / "bin/python"), "-I", "-m", "pip", "--disable-pip-version-check")
    code = run(*command, *arguments, cwd=venv.parent)
    if code:
        raise SetupError(
            f"pip must find every pinned package, and pip {arguments[0]} ended with {code} (its "
            "reason is above); check the network and call make again: what was downloaded is kept"
        )


def ask(venv: Path, torch: str) -> Build:
    """Ask pip which build it would take; it fetches descriptions only, not the packages."""
    report = venv / ".labkit-report.json"
    flags = ["--dry-run", "--ignore-installed", "--use-feature=fast-deps", "--report", str(report)]
    pip(venv, "install", "-qq", *flags, torch)
    build = read_report(json.loads(report.read_text(encoding="utf-8")))
    report.unlink()
    return build
