"""Install the pins of pyproject.toml into `.venv`; do nothing if they are already installed.

The first thing that make runs, by path and before anything is installed: standard library only, and
readable by an old Python, which it refuses in words. A stamp inside `.venv` says what it was made
for; a set-up that was stopped leaves one that says so, and the next call finishes it.
"""

import fcntl  # POSIX only, as the rest of the book: on Windows it runs in WSL2
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
STAMP = ".labkit-setup.json"
BEGUN = "begun"
CONSTRAINTS = "chapters/press/constraints.txt"  # versions of what the pins bring along
CHOICE = "PIP_EXTRA_INDEX_URL"  # where PyTorch's CPU build lies: pip prefers it to the CUDA build


class SetupError(Exception):
    """An error of set-up; the message states the rule, the value found and the remedy."""


def print_line(text: str) -> None:
    """Print one line about what set-up is doing."""
    print(f"set-up: {text}", flush=True)


def read_pins(root: Path) -> tuple:
    """Read the pinned rows, and the hash of the tables that determine an installation."""
    import tomllib  # an old Python, which has none, was refused

    tables = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    content = [tables["build-system"], tables["project"], tables["tool"]["hatch"]["build"]]
    extras = tables["project"]["optional-dependencies"]
    constraints = root / CONSTRAINTS
    if constraints.is_file():
        content.append(constraints.read_text(encoding="utf-8"))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return digest, [*extras["book"], *extras["dev"]]


def hash_choice() -> str:
    """Hash the variable that selects PyTorch's build: its address may contain a password."""
    address = os.environ.get(CHOICE, "").strip()
    return hashlib.sha256(address.encode()).hexdigest()[:16] if address else ""


def read_stamp(venv: Path) -> dict:
    """Read what `.venv` was made for; empty if set-up did not make it."""
    path = venv / STAMP
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_stamp(venv: Path, key: str, choice: str) -> None:
    """Record what `.venv` now contains."""
    fresh = venv / (STAMP + ".new")
    fresh.write_text(json.dumps({"key": key, "root": str(venv.parent), "choice": choice}))
    fresh.replace(venv / STAMP)


def find_misfit(venv: Path, stamp: dict, chosen: bool) -> str:
    """Return why `.venv` cannot be updated; empty if it can."""
    if not (venv / "bin/python").exists():  # false for a dangling link too
        return "has no working Python"
    inside = re.search(r"(?m)^version\w* *= *(\d+\.\d+)", (venv / "pyvenv.cfg").read_text())
    if chosen and inside and inside[1] != "{}.{}".format(*sys.version_info):
        return f"contains Python {inside[1]}, but another version was asked for"
    if hash_choice() not in ("", stamp["choice"]):  # unset: what was chosen once stays
        return f"was made before {CHOICE} was set to this"
    return ""


def run_module(python: str, *arguments: str) -> str:
    """Run a module of Python, venv or pip, and return its output under `--report`."""
    stdout = subprocess.PIPE if "--report" in arguments else None
    done = subprocess.run([python, "-I", "-m", *arguments], stdout=stdout)
    if done.returncode:
        raise SetupError(
            f"`{' '.join(arguments[:2])}` must succeed, but exited with {done.returncode} (the "
            "reason is above); check the network and the disk (on Debian, also run apt-get "
            "install python3-venv), then run make again: downloads are kept"
        )
    return (done.stdout or b"").decode()


def announce_torch(python: str, row: str) -> None:
    """Print which build of PyTorch pip will download, before it does."""
    report = run_module(
        python, "pip", "install", "-qq", "--dry-run", "--no-deps", "--report", "-", row
    )
    for item in json.loads(report)["install"]:  # none where it is installed already
        version = item["metadata"]["version"]
        if "+cpu" in version or sys.platform != "linux":
            print_line(f"pip takes torch {version}, without CUDA libraries")
            continue
        print_line(f"pip takes torch {version} with NVIDIA's CUDA libraries, several gigabytes")
        if not shutil.which("nvidia-smi"):
            print_line(
                "!! No NVIDIA GPU was found: PyTorch's CPU build is smaller and enough for the "
                f"whole book. To take it, stop with Ctrl-C, set {CHOICE} to the address that "
                'PyTorch\'s install page shows for "CPU" (README.md, Install) and call make again'
            )


def set_up(root: Path, chosen: bool) -> None:
    """Bring `.venv` into agreement with pyproject.toml."""
    venv, (key, rows) = root / ".venv", read_pins(root)
    stamp = read_stamp(venv)
    if venv.exists() and any(venv.iterdir()) and not stamp:
        raise SetupError(
            "make must create .venv itself, but something else created this .venv; move it away "
            "and run make again"
        )
    if stamp and stamp["root"] != str(root):
        raise SetupError(
            f".venv works only in the folder for which it was made, {stamp['root']}, but the "
            f"clone is now at {root}; move it back, or remove .venv and run make again"
        )
    reason = find_misfit(venv, stamp, chosen) if stamp else ""
    if reason:
        print_line(f".venv {reason}: it is made again")
        venv.unlink() if venv.is_symlink() else shutil.rmtree(venv)
        stamp = {}
    if stamp.get("key") == key:
        return
    python, begun = str(venv / "bin/python"), stamp.get("key") == BEGUN
    venv.mkdir(exist_ok=True)
    choice = hash_choice() or stamp.get("choice", "")
    write_stamp(venv, BEGUN, choice)
    if begun or not stamp:
        print_line(f"making .venv with Python {sys.version.split()[0]}")
        run_module(sys.executable, "venv", str(venv))
    pins = {row.partition("==")[0]: row for row in rows}
    # Older ones download to answer a dry run.
    run_module(python, "pip", "install", "-qq", pins["pip"])
    announce_torch(python, pins["torch"])
    print_line("installing the pinned packages: one to three minutes on a quick network")
    quiet = [] if sys.stdout.isatty() else ["-qq"]  # a progress bar is for people
    # Of a package that was stopped half way, pip may believe that it is there.
    force = ["--force-reinstall"] if begun else []
    constraints = root / CONSTRAINTS
    same = ["--constraint", str(constraints)] if constraints.is_file() else []
    # Python compiles what it imports. To compile every module would take pip one to two minutes.
    options = ["--no-compile", *quiet, *force, *same]
    run_module(python, "pip", "install", *options, "-e", f"{root}[book,dev]")
    write_stamp(venv, key, choice)
    print_line(".venv is ready")


def main(root: Path) -> int:
    """Refuse an old Python, then set up; two makes at the same time take turns."""
    chosen, config = "--chosen" in sys.argv[1:], root / ".venv/pyvenv.cfg"
    if sys.version_info < OLDEST and not chosen and config.exists():
        # Take the Python of an earlier `make setup PYTHON=…`.
        named = re.search(r"(?m)^executable *= *(.+)", config.read_text())
        if named:
            os.execv(named[1], [named[1], "-I", __file__])
    try:
        if sys.version_info < OLDEST:
            actual = ".".join(map(str, sys.version_info[:3]))
            raise SetupError(
                f"the lab book needs Python 3.11 or newer, but {sys.executable} is {actual}; "
                "install a newer one and name it, for example: make setup PYTHON=python3.11"
            )
        with open(str(root / "pyproject.toml"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            set_up(root, chosen)
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"set-up: {error.filename} must be writable ({error.strerror}); "
            "use a clone that you may change, on a disk with 8 GB of free space",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nset-up: stopped; the next make finishes it", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[3]))
