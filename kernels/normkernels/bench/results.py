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
from normkernels.bench.providers import versions

PACKAGE = Path(__file__).parents[1]
SILENT = {"report.py"}  # reads numbers, makes none


def fingerprint() -> str:
    """Hash the sources of kernels and benchmark."""
    whole = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name not in SILENT:
            whole.update(f"{path.relative_to(PACKAGE).as_posix()}\0".encode())
            whole.update(path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


def commit() -> str:
    """Name the commit of the sources, with + when files differ from it; empty outside git."""
    words = [["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "."]]
    try:
        done = [
            subprocess.run(["git", *w], cwd=PACKAGE, capture_output=True, text=True, check=False)
            for w in words
        ]
    except OSError:
        return ""
    return done[0].stdout.strip() + ("+" if done[1].stdout.strip() else "")


class Results:
    """What was measured so far, in a file that is whole at any moment."""

    def __init__(self, path: Path, device: Gpu | Pretend, named_commit: str | None = None):
        facts = device.facts() | {
            "torch": torch.__version__, "triton": triton.__version__,
            "python": platform.python_version(), "peers": versions(), "source": fingerprint(),
        }  # fmt: skip
        folder = path.resolve().parent
        if device.dry and folder.parts[-2:] == ("data", "bench"):
            raise ValueError("data/bench holds measurements, and a dry run is none: choose --out")
        self.path = path
        self.data: dict[str, Any] = {
            "schema": 1, "dry_run": device.dry, "provenance": facts, "slices": [], "results": {},
        }  # fmt: skip
        if path.exists():
            self._go_on(json.loads(path.read_text()))
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.slice = {
            "date": now,
            "commit": commit() if named_commit is None else named_commit,
            "clocks": device.clocks(),
        }
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

    @property
    def entries(self) -> dict[str, Any]:
        """Return the entries by their keys."""
        return self.data["results"]

    def has(self, key: str, names: tuple[str, ...]) -> bool:
        """Return whether this size was measured with all these providers, in one run."""
        return key in self.entries and set(names) <= set(self.entries[key]["providers"])

    def add(self, key: str, entry: dict[str, Any]) -> None:
        """Keep one entry, from now on safe from whatever happens."""
        self.entries[key] = {"slice": len(self.data["slices"]) - 1, **entry}
        self.save()

    def crashed(self, key: str, provider: str | None = None) -> list[str]:
        """Return the providers that broke the device at this size, and note one more."""
        known = self.data.setdefault("crashed", {})
        if provider:
            known[key] = [*known.get(key, []), provider]
            self.save()
        return known.get(key, [])

    def save(self) -> None:
        """Write everything beside the file, then take its place."""
        head = {k: v for k, v in self.data.items() if k != "results"}
        start = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in self.entries.items()]
        text = start + ',\n "results": {\n' + ",\n".join(lines) + "\n }\n}\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.part")
        beside.write_text(text)
        os.replace(beside, self.path)


def file_name(device: Gpu | Pretend) -> Path:
    """Return where results of this device go when nobody says otherwise."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    return Path("build", "bench-dry-run.json") if device.dry else Path("data/bench", f"{slug}.json")
