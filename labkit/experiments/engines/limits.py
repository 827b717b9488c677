"""What a run may take of a machine: seconds and bytes, from the environment or from what there is.

LABKIT_RUN_TIMEOUT   seconds a run may take on its own (default: an hour)
LABKIT_RUN_MEMORY    bytes its process may hold, as in 4G (default: the machine's, by the slots)
"""

import contextlib
import math
import os
from pathlib import Path

from labkit.units import in_words as in_words  # known by these names here too
from labkit.units import parse_bytes as parse_bytes

TIMEOUT = 3600.0


def run_timeout(asked: float | None = None) -> float:
    """Say how many seconds a run may take: those asked for, else LABKIT_RUN_TIMEOUT's."""
    text = str(asked) if asked is not None else os.environ.get("LABKIT_RUN_TIMEOUT") or TIMEOUT
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise ValueError(
        f"the timeout of a run (LABKIT_RUN_TIMEOUT) must be seconds above 0; got {text!r}"
    )


def run_memory(slots: int) -> int:
    """Say how many bytes a worker may hold: LABKIT_RUN_MEMORY, else its share of the machine."""
    if asked := os.environ.get("LABKIT_RUN_MEMORY"):
        return parse_bytes(asked)
    return machine_memory() // slots


def machine_memory() -> int:
    """Count the bytes of this machine, or of the container that it is seen from."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no such file; "max"
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def resident(process: int) -> int | None:
    """Count the bytes that a process holds in memory; None where the system does not say."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
