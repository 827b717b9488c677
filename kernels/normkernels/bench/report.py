"""The table and the targets, from a recorded file; plain Python, nothing to install.

python normkernels/bench/report.py data/bench/DEVICE.json
"""

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

KERNELS = (
    "rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm", "deep_norm", "qk_norm_rope",
    "dynamic_tanh", "dynamic_erf", "ngpt_update", "unit_rows_", "unit_rows_ dim=0",
)  # fmt: skip
LENGTHS = (1024, 2048, 4096, 5120, 8192)  # at which the targets hold; heads are shorter
HEAD = 128
TARGETS = {"forward": 0.9, "backward": 0.8}  # of copy_'s bandwidth
HOST = 1.5  # times what F.rms_norm costs on the host
PEERS = ("torch", "compile", "liger", "quack", "eager")
OURS = "normkernels"
NOTE = (
    "> **DRY RUN.** Made by Triton's interpreter on a CPU, at tiny sizes. The numbers below are "
    "no measurements;\n> only their form is to be looked at.\n\n"
)
Entry = dict[str, Any]


def read(path: Path | str) -> dict[str, Any]:
    """Read a file of results."""
    data = json.loads(Path(path).read_text())
    if data.get("schema") != 1 or "results" not in data:
        raise ValueError(f"{path} is no file of benchmark results (schema 1)")
    return data


def judged(data: dict[str, Any], kernel: str) -> list[Entry]:
    """Return the entries of a kernel by which the targets are judged, by row length."""
    lengths = (HEAD,) if kernel == "qk_norm_rope" else LENGTHS
    rows = [
        entry for entry in data["results"].values()
        if entry["kernel"] == kernel and entry["large"] and entry["dtype"] == "bf16"
        and entry["n"] in lengths
    ]  # fmt: skip
    return sorted(rows, key=lambda entry: entry["n"])


def directions(entry: Entry) -> list[str]:
    """Return forward, and backward where there is one."""
    return ["forward", "backward"] if entry["bytes"]["backward"] else ["forward"]


def good(entry: Entry, name: str) -> Entry:
    """Return a provider's times, if it was right; else nothing."""
    found = entry["providers"].get(name, {})
    return found if found.get("status") == "ok" else {}


def both(entry: Entry, name: str) -> float | None:
    """Return a provider's microseconds for forward and backward together."""
    found = good(entry, name)
    return sum(found[direction]["us"] for direction in directions(entry)) if found else None


def share_verdict(data: dict[str, Any], kernel: str, direction: str) -> str:
    """Judge one kernel's share of copy_'s bandwidth: its worst length decides."""
    if direction == "backward" and kernel.startswith("unit_rows_"):
        return "–"
    entries = judged(data, kernel)
    states = {e["n"]: e["providers"].get(OURS, {}).get("status", "absent") for e in entries}
    if bad := [n for n, state in states.items() if state in ("wrong", "failed")]:
        return f"**not met**: {states[bad[0]]} at N = {bad[0]}"
    shares = {e["n"]: good(e, OURS)[direction]["share"] for e in entries if good(e, OURS)}
    if data["dry_run"] or not shares:
        return "not measured"
    worst = min(shares, key=lambda n: shares[n])
    text = f"{shares[worst]:.0%} at N = {worst}"
    if shares[worst] < TARGETS[direction]:
        return f"**not met**: {text}"
    wanted = 1 if kernel == "qk_norm_rope" else len(LENGTHS)
    missing = f", {len(shares)} of {wanted} lengths" if len(shares) < wanted else ""
    return f"{'met so far' if missing else 'met'}: {text}{missing}"


def host_verdict(data: dict[str, Any], kernel: str) -> str:
    """Judge what a call costs on the host, as a multiple of F.rms_norm's."""
    entries = [e for e in judged(data, kernel) if good(e, OURS)]
    if data["dry_run"] or not entries:
        return "not measured"
    ratios = {}
    for d in directions(entries[0]):
        each = (good(e, OURS)[d]["host_us"] / e["rms_norm_host_us"][d] for e in entries)
        ratios[d] = statistics.median(each)
    text = ", ".join(f"{direction} {ratio:.2f}×" for direction, ratio in ratios.items())
    return f"{'met' if max(ratios.values()) <= HOST else '**not met**'}: {text}"


def against(data: dict[str, Any], peer: str, kernels: tuple[str, ...] = KERNELS) -> list[float]:
    """Give, for each size both are right at, the peer's time over ours (above 1: we lead)."""
    pairs = [(both(e, peer), both(e, OURS)) for k in kernels for e in judged(data, k)]
    return [theirs / ours for theirs, ours in pairs if theirs and ours]


def geometric(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def peer_rows(data: dict[str, Any]) -> list[list[str]]:
    """Judge each peer: over all kernels, then kernel by kernel."""
    rows = []
    for peer in PEERS:
        ratios = [] if data["dry_run"] else against(data, peer)
        if not ratios:
            rows.append([peer, "not measured", "", ""])
            continue
        each = [(k, against(data, peer, (k,))) for k in KERNELS]
        parts = ", ".join(f"{k} {geometric(r):.2f}" for k, r in each if r)
        verdict = f"{'met' if geometric(ratios) > 1 else '**not met**'}: {geometric(ratios):.2f}"
        rows.append([peer, verdict, str(len(ratios)), parts])
    return rows


def table(data: dict[str, Any]) -> str:
    """Write the whole report in Markdown."""
    facts, last = data["provenance"], (data["slices"] or [{}])[-1]
    peers = ", ".join(f"{k} {v or 'absent'}" for k, v in facts["peers"].items())
    every = data["results"].items()
    first = [(k, e) for k, e in every if e["large"] and e["dtype"] == "bf16"]
    parts = [
        f"# Kernels on {facts['device']}\n\n", NOTE if data["dry_run"] else "",
        f"{last.get('date', '')}, commit {last.get('commit') or 'unknown'}, sources "
        f"{facts['source']}; driver {facts['driver']}, CUDA {facts['cuda']}, "
        f"torch {facts['torch']}, triton {facts['triton']}, Python {facts['python']}, {peers}.\n",
        "\n## Targets (bf16, activations of 64 MiB and more, N = 1024…8192)\n\n",
        grid(["kernel", "forward ≥ 90 % of copy", "backward ≥ 80 %", "host ≤ 1.5 × F.rms_norm"],
             [[k, share_verdict(data, k, "forward"), share_verdict(data, k, "backward"),
               host_verdict(data, k)] for k in KERNELS]),
        "\nAhead of every peer (its time / ours, forward and backward, geometric mean):\n\n",
        grid(["peer", "all kernels", "sizes", "by kernel"], peer_rows(data)),
        "\n## Share of copy's bandwidth, forward / backward: the sizes of the targets\n\n",
        sizes(first),
        "\n## Other sizes\n\n",
        sizes([one for one in every if one not in first]),
        "\n## Not ranked\n\n", unranked(data),
    ]  # fmt: skip
    return "".join(parts)


def sizes(entries: list[tuple[str, Entry]]) -> str:
    """Write one row for each size: copy's rate, every provider's two shares, our host time."""
    names, rows = (OURS, *PEERS), []
    for key, entry in entries:
        ways, ours = directions(entry), good(entry, OURS)
        cells = [" / ".join(f"{entry['providers']['copy'][d]['gbps']:.0f}" for d in ways)]
        cells[0] += "" if entry["cold"] else " (in cache)"
        for name in names:
            found, state = good(entry, name), entry["providers"].get(name, {}).get("status", "")
            cells.append(" / ".join(f"{found[d]['share']:.0%}" for d in ways) if found else state)
        cells.append(" / ".join(f"{ours[d]['host_us']:.1f}" for d in ways) if ours else "")
        rows.append([key, *cells])
    return grid(["size", "copy, GB/s", *names, "our host, us"], rows)


def unranked(data: dict[str, Any]) -> str:
    """List what was wrong, failed or absent, and why."""
    found: dict[tuple, dict[str, list[str]]] = {}
    for key, entry in data["results"].items():
        for name, result in entry["providers"].items():
            if result["status"] != "ok":
                why = (name, result["status"], result["reason"])
                found.setdefault(why, {}).setdefault(entry["kernel"], []).append(key)
    lines = []
    for (name, status, reason), kernels in found.items():
        many = sum(map(len, kernels.values()))
        where = next(iter(kernels.values()))[0] if many == 1 else f"{many} sizes"
        lines.append(f"- {name} **{status}** at {', '.join(kernels)} ({where}): {reason}\n")
    return "".join(lines) or "Every provider was right at every size.\n"


def grid(head: list[str], rows: list[list[str]]) -> str:
    """Write a Markdown table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def line(key: str, entry: Entry) -> str:
    """Describe in one line what an entry holds: microseconds and share, forward and backward."""
    parts = []
    for name, result in entry["providers"].items():
        if result["status"] == "ok":
            times = [result[d] for d in directions(entry)]
            parts.append(f"{name} " + "/".join(f"{t['us']:.4g}us({t['share']:.0%})" for t in times))
        elif result["status"] != "absent":
            parts.append(f"{name} {result['status'].upper()}: {result['reason']}")
    return f"{key}: " + ", ".join(parts)


if __name__ == "__main__":
    print(table(read(sys.argv[1])), end="")
