"""The file of results: one line per entry, replaced as a whole, from a single configuration.

A file belongs to one device, one set of versions and one state of the sources. A later session adds
to it only if all of these are the same, so that all numbers in it are comparable. A dry run's file
is marked, and may not be in data/bench.
"""

import datetime
import hashlib
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch
import triton

from normkernels.bench.device import Device
from normkernels.bench.providers import read_versions

PACKAGE = Path(__file__).parents[1]


def hash_sources(package: Path = PACKAGE) -> str:
    """Return a hash of a package's sources; normkernels contains kernels and benchmark."""
    whole = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        whole.update(f"{path.relative_to(package).as_posix()}\0".encode())
        whole.update(path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


def name_commit() -> str:
    """Return the commit of the sources, with + if files differ from it; "" outside git."""
    words = ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


class Results:
    """Measurements so far, in a file that is always complete."""

    def __init__(
        self,
        path: Path,
        device: Device,
        commit: str | None = None,
        schema: int | str = 1,
        more: dict[str, str | None] | None = None,
    ):
        """Continue the file, or begin one; `more` joins its provenance.

        Raises:
            ValueError: the file is from a different device, other versions or other sources.
        """
        if device.dry and path.resolve().parent.parts[-2:] == ("data", "bench"):
            raise ValueError(
                "data/bench may contain only measurements, but this is a dry run; choose another "
                "folder with --out"
            )
        clocks = device.read_clocks()
        provenance = {
            "device": device.name,
            "processors": device.processors,
            "l2_bytes": device.cache,
            "driver": clocks.get("driver_version"),
            "cuda": torch.version.cuda,
            "torch": torch.__version__,
            "triton": triton.__version__,
            "python": platform.python_version(),
            "peers": read_versions(),
            "source": hash_sources(),
            **(more or {}),
        }
        here = {"schema": schema, "dry_run": device.dry, "provenance": provenance}
        self.path = path
        self.data: dict[str, Any] = here | {"slices": [], "crashed": {}, "results": {}}
        if path.exists():
            self.data = json.loads(path.read_text())
            refuse_others(path, self.data, here)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        commit = name_commit() if commit is None else commit
        self.data["slices"].append({"date": now, "commit": commit, "clocks": clocks})

    def add(self, key: str, entry: dict[str, Any]) -> None:
        """Add one entry and save it."""
        self.data["results"][key] = {"slice": len(self.data["slices"]) - 1, **entry}
        self.save()

    def save(self) -> None:
        """Write everything to a temporary file, then replace the file."""
        head = {k: v for k, v in self.data.items() if k != "results"}
        start = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in self.data["results"].items()]
        text = start + ',\n "results": {\n' + ",\n".join(lines) + "\n }\n}\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.part")
        beside.write_text(text)
        os.replace(beside, self.path)


def refuse_others(path: Path, before: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse a file that was made with a different configuration."""
    old, new = (
        {"schema": data.get("schema"), "dry_run": data.get("dry_run"), **data.get("provenance", {})}
        for data in (before, here)
    )
    if differ := [f"{k}: {old.get(k)} there, {new[k]} here" for k in new if new[k] != old.get(k)]:
        raise ValueError(
            f"results of different configurations may not be mixed, but {path} was measured with "
            f"another one ({'; '.join(differ)}); name another file with --out, or move this one "
            "to start again"
        )
