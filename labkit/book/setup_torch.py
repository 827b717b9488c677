"""Find out which build of PyTorch pip would take, and say it before anything is downloaded.

On Linux PyTorch's default wheel brings NVIDIA's CUDA libraries; its CPU build lies on an index of
PyTorch's own, and pip prefers it as soon as the variable named by CHOICE points there.
Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request, url2pathname, urlopen

CHOICE = "PIP_EXTRA_INDEX_URL"
NVIDIA = ("/dev/nvidia0", "/dev/nvidiactl", "/proc/driver/nvidia", "/usr/lib/wsl/lib/nvidia-smi")


class Build(NamedTuple):
    """Name the PyTorch that pip would take: its version, its CUDA packages, what it downloads."""

    version: str
    cuda: tuple[str, ...]
    packages: int
    size: int | None  # bytes; None when an index does not say


def choice() -> str:
    """Shorten the variable that selects the build to a hash: its address may hold a password."""
    address = os.environ.get(CHOICE, "").strip()
    return hashlib.sha256(address.encode()).hexdigest()[:16] if address else ""


def has_nvidia() -> bool:
    """Look for an NVIDIA GPU without any package."""
    return bool(shutil.which("nvidia-smi")) or any(Path(place).exists() for place in NVIDIA)


def size_of(url: str) -> int | None:
    """Ask how many bytes a file has, without fetching it."""
    try:
        if url.startswith("file:"):
            return Path(url2pathname(urlsplit(url).path)).stat().st_size
        with urlopen(Request(url, method="HEAD"), timeout=10) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def read_report(report: dict) -> Build:
    """Read from pip's report which build of PyTorch it would take, and what comes with it."""
    items = report["install"]
    names = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in items}
    cuda = tuple(sorted(name for name in names if name.startswith(("nvidia-", "cuda-"))))
    with ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(size_of, [item["download_info"]["url"] for item in items]))
    known = [size for size in sizes if size is not None]
    return Build(names["torch"], cuda, len(items), sum(known) if len(known) == len(items) else None)


def describe(build: Build, nvidia: bool) -> str:
    """Say which PyTorch comes, how large it is, and how to avoid CUDA where it is of no use."""
    size = "size unknown" if build.size is None else f"{build.size / 1e9:.1f} GB"
    kind = "with NVIDIA's CUDA libraries" if build.cuda else "without CUDA libraries"
    text = f"pip takes torch {build.version}, {kind}: {size} in {build.packages} packages"
    if not build.cuda or nvidia:
        return text
    return (
        f"{text}\n\n"
        "  !! No NVIDIA GPU was found on this machine: the CUDA libraries would be of no use.\n"
        "  !! PyTorch's CPU build is much smaller and enough for the whole book.\n"
        f"  !! To take it, stop with Ctrl-C, set {CHOICE} to the index address\n"
        '  !! that PyTorch\'s own install page shows for "CPU", and call make again.\n'
        "  !! README.md says it in full under Install.\n"
    )


def installed_torch(venv: Path) -> str:
    """Read the version of the PyTorch that is installed, without importing it."""
    found = sorted(venv.glob("lib/python*/site-packages/torch-*.dist-info"))
    return found[-1].name[len("torch-") : -len(".dist-info")] if found else ""
