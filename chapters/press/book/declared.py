"""Costs of a chapter: seconds of its runs, bytes of its processes, next to those it declares.

    Lab(…, memory={"kernel": "700M", "run": "900M"})

The executed notebook says both, in outputs that no page shows; see Lab in labkit.experiments.
"""

from typing import Any

# A chapter may use this much more than it declares.
OVERRUN = 1.25
ADDED = ("cpu_seconds", "runs", "stored")
LARGEST = ("kernel_seconds", "kernel_bytes", "run_bytes", "gpu_bytes")
MIB = 2**20


def sum_costs(notebook: dict[str, Any]) -> dict[str, Any]:
    """Add up the costs of a chapter, from the summaries that its cells displayed."""
    cost: dict[str, Any] = {"cpu_seconds": 0.0, "runs": 0, "stored": 0}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            about = output.get("metadata", {}).get("labkit", {})
            if about.get("kind") != "volatile":
                continue
            for key in ADDED:
                cost[key] += about.get(key, 0)
            for key in LARGEST:
                if key in about:
                    cost[key] = max(cost.get(key, 0), about[key])
            if about.get("memory"):
                cost["memory"] = about["memory"]
    return cost


def list_excesses(cost: dict[str, Any]) -> list[str]:
    """List the costs that exceed what the chapter declares by more than a quarter."""
    found = []
    for part, allowed in cost.get("memory", {}).items():
        held = cost.get(f"{part}_bytes", 0)
        if held > OVERRUN * allowed:
            what = "its kernel" if part == "kernel" else "one of its runs"
            found.append(
                f"{what} held {held / MIB:.0f} MiB, but it declares {allowed / MIB:.0f}; hold "
                "less, or declare more in Lab(memory=…)"
            )
    return found
