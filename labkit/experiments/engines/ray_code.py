"""The code that nodes run: every one must have this labkit and this torch.

Nodes that share the driver's file system import labkit from there; to others it is sent, the
package alone and never the folder around it.
"""

import contextlib
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

import labkit

# All that a node runs must be as it is here.
CODE = "labkit.experiments.engines.ray_work"
# One thread a run: then its numbers are the same to the last bit wherever it trains.
ALONE = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
LOOK = 600.0  # seconds that all nodes together may take to say which labkit they have
SILENT = "no answer"


def environment() -> dict[str, str]:
    """Set what a task sees: one thread, and this labkit before any other."""
    given = {k: v for k in ("LABKIT_SLOTS",) if (v := os.environ.get(k))}
    ours = str(Path(labkit.__file__).parents[1])
    paths = [ours, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**ALONE, **given, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def packages() -> list[str]:
    """List the folders that a node must have: labkit's, and the kernels' where there are any."""
    found = [importlib.util.find_spec(name) for name in ("labkit", "normkernels")]
    return [str(Path(spec.origin).parent) for spec in found if spec and spec.origin]


def strangers(ray: Any, env: dict[str, str], until: float) -> list[tuple[str, str]]:
    """Ask every node which labkit it has; list where another one is, and which.

    What has not answered by `until` (as time.monotonic counts) is SILENT.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def ask(node: dict[str, Any]) -> Any:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": there}
        return ray.remote(_look()).options(runtime_env={"env_vars": env}, **options).remote(CODE)

    nodes = [n for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
    answers = [(node["NodeManagerAddress"], ask(node)) for node in nodes]
    found = []
    for place, answer in answers:
        theirs = SILENT
        with contextlib.suppress(ray.exceptions.RayError):
            theirs = ray.get(answer, timeout=max(0.0, until - time.monotonic()))
        if theirs != ours():
            found.append((place, theirs))
    return found


def ours() -> str:
    """Name the labkit and the torch that are running here."""
    return _look()(CODE)


def _look() -> Any:
    """Make a function that a node without labkit can be sent: by its code, not by its name."""

    def look(code: str) -> str:
        try:
            import torch

            from labkit.files import code_hash

            return f"labkit {code_hash()}, torch {torch.__version__}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return look
