"""The file of results: one line an entry, replaced as a whole, never mixed.

A file belongs to one device, one set of versions and one state of the sources. A later slice adds
to it only when all of these are the same, so that every number in it may be compared with every
other. A dry run's file says so, and may not lie in data/bench.
"""

import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch
import triton

from normkernels.bench.device import Gpu, Pretend
from normkernels.bench.providers import read_versions

PACKAGE = Path(__file__).parents[1]


def hash_sources() -> str:
    """Hash the sources of kernels and benchmark."""
    whole = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        whole.update(f"{path.relative_to(PACKAGE).as_posix()}\0".encode())
        whole.update(path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


def name_commit() -> str:
    """Name the commit of the sources, with + when files differ from it; empty outside git."""
    words = ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


class Results:
    """What was measured so far, in a file that is whole at any moment."""

    def __init__(self, path: Path, device: Gpu | Pretend, commit: str | None = None):
        """Take up the file, or begin one.

        Raises:
            ValueError: it is of another device, other versions or other sources.
        """
        if device.dry and path.resolve().parent.parts[-2:] == ("data", "bench"):
            raise ValueError("data/bench holds measurements, and a dry run is none: choose --out")
        versions = {
            "torch": torch.__version__,
            "triton": triton.__version__,
            "python": platform.python_version(),
            "peers": read_versions(),
            "source": hash_sources(),
        }
        self.path = path
        self.data: dict[str, Any] = {
            "schema": 1,
            "dry_run": device.dry,
            "provenance": device.describe() | versions,
            "slices": [],
            "crashed": {},
            "results": {},
        }
        if path.exists():
            self._go_on(json.loads(path.read_text()))
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        commit = name_commit() if commit is None else commit
        self.slice = {"date": now, "commit": commit, "clocks": device.read_clocks()}
        self.data["slices"].append(self.slice)

    def _go_on(self, before: dict[str, Any]) -> None:
        """Take up what the file holds, if it was made with what is here now."""
        keys = ("schema", "dry_run")
        old = {key: before.get(key) for key in keys} | before.get("provenance", {})
        new = {key: self.data[key] for key in keys} | self.data["provenance"]
        differ = [key for key in new if new[key] != old.get(key)]
        if differ:
            listed = "; ".join(f"{key}: {old.get(key)} there, {new[key]} here" for key in differ)
            raise ValueError(
                f"{self.path} was measured with something else ({listed}), and results are never "
                "mixed: name another file with --out, or move this one away to start anew"
            )
        self.data = before

    def has(self, key: str, names: tuple[str, ...]) -> bool:
        """Return whether this size was measured with all these providers, in one run."""
        found = self.data["results"]
        return key in found and set(names) <= set(found[key]["providers"])

    def add(self, key: str, entry: dict[str, Any]) -> None:
        """Keep one entry, from now on safe from whatever happens."""
        self.data["results"][key] = {"slice": len(self.data["slices"]) - 1, **entry}
        self.save()

    def end_slice(self, device: Gpu | Pretend, minutes: float) -> None:
        """Note how this slice ended."""
        self.slice |= {"clocks_after": device.read_clocks(), "minutes": round(minutes, 2)}
        self.save()

    def save(self) -> None:
        """Write everything beside the file, then take its place."""
        head = {k: v for k, v in self.data.items() if k != "results"}
        start = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in self.data["results"].items()]
        text = start + ',\n "results": {\n' + ",\n".join(lines) + "\n }\n}\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.part")
        beside.write_text(text)
        os.replace(beside, self.path)


def choose_path(device: Gpu | Pretend) -> Path:
    """Return where results of this device go when nobody says otherwise."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    return Path("build", "bench-dry-run.json") if device.dry else Path("data/bench", f"{slug}.json")
