"""Describe the origin of numbers in one line, below a chapter's title or a figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def join_text(source: str | list[str]) -> str:
    """Join a notebook's multi-line string."""
    return source if isinstance(source, str) else "".join(source)


def output_kind(output: Json) -> str | None:
    """Return the kind of an output as labkit marked it: claim, figure, caption or volatile."""
    return output.get("metadata", {}).get("labkit", {}).get("kind")


def provenance_line(provenance: Mapping[str, Any] | None, build: Mapping[str, Any]) -> str:
    """Describe in one line where and how a figure's numbers were computed."""
    known = provenance or {**build, "runs": 0, "seeds": [], "cpu_seconds": None}
    threads = known.get("threads")
    seeds = known.get("seeds") or []
    seconds = known.get("cpu_seconds")
    runs = known.get("runs")
    versions = [
        f"{label} {known[name]}"
        for name, label in (("python", "Python"), ("torch", "PyTorch"), ("labkit", "labkit"))
        if known.get(name)
    ]
    device, cpu = str(known.get("device") or ""), str(known.get("cpu") or "")
    place = cpu or device if device in {"", "cpu"} else " with ".join(filter(None, [device, cpu]))
    parts = [
        "No training run" if not runs else f"{runs} run{'s' * (runs != 1)}",
        f"seed{'s' * (len(seeds) != 1)} {format_seeds(seeds)}" if seeds else "",
        f"{seconds:,.1f} CPU-seconds" if seconds else "",
        place + (f", {threads} thread{'s' * (threads != 1)}" if threads and place else ""),
        ", ".join(versions),
        f"commit {known['commit']}" if known.get("commit") else "",
    ]
    return " · ".join(filter(None, parts))


def format_seeds(seeds: list[int]) -> str:
    """Format 0, 1, 2, 5 as 0–2, 5."""
    out: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if out and seed == out[-1][-1] + 1:
            out[-1].append(seed)
        else:
            out.append([seed])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in out)


def escape_markdown(line: str) -> str:
    """Escape characters that Markdown would read as markup."""
    return re.sub(r"([\\`*_{}\[\]()#<>$@|~^!])", r"\\\1", line)


def format_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], numbers: bool = False
) -> str:
    """Format a Markdown table; with `numbers`, all columns but the first are right-aligned."""
    rule = ["---", *["--:" if numbers else "---"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, rule, *rows))


def title_of(notebook: Json) -> str | None:
    """Read a chapter's title."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and (
            m := re.match(r"# (.*)", join_text(cell["source"]))
        ):
            return m.group(1).strip()
    return None
