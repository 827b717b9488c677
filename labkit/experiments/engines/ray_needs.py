"""What a task needs of a node: one CPU, on a GPU a share of it, and memory where it is declared."""

import math
import os
from collections.abc import Mapping, Sequence

from labkit.experiments.engines.limits import parse_bytes
from labkit.experiments.run import CPU
from labkit.share import fraction

Resources = Mapping[str, float]  # in Ray's words: CPU, GPU, memory


def needs(device: str) -> dict[str, float]:
    """Say what a task needs of a node, in Ray's words for resources."""
    found: dict[str, float] = {"CPU": 1}
    if device != CPU:
        found["GPU"] = gpu_fraction()
    if asked := os.environ.get("LABKIT_RUN_MEMORY"):
        found["memory"] = parse_bytes(asked)
    return found


def gpu_fraction() -> float:
    """Say how much of a GPU a run may use: LABKIT_GPU_FRACTION, else a quarter."""
    return fraction() or 0.25


def places(nodes: Sequence[Resources], needed: Resources) -> int:
    """Count the tasks that these nodes can train at the same time; RuntimeError if none."""
    count = sum(
        min(math.floor(node.get(kind, 0) / amount + 1e-9) for kind, amount in needed.items())
        for node in nodes
    )
    if count:
        return count
    has = "; ".join(map(_in_words, nodes)) or "no node alive"
    raise RuntimeError(
        f"a run needs {_in_words(needed)} on one node, but the cluster has: {has}; add such a "
        "node (`ray start --address=…`) or ask for less (LABKIT_GPU_FRACTION, LABKIT_RUN_MEMORY), "
        "and the same command goes on: what finished is stored"
    )


def _in_words(resources: Resources) -> str:
    parts = [f"{resources[kind]:g} {kind}" for kind in ("CPU", "GPU") if resources.get(kind)]
    if memory := resources.get("memory"):
        parts.append(f"{memory / 2**30:.1f} GiB of memory")
    return " and ".join(parts) or "nothing"
