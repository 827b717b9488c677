"""An entry as one flat row: what was trained, how, what came out, and where that was.

model.recipe  data.batch  train.lr  seed  probes      the run, config by config
loss  loss.first  loss.lowest  steps.done             its training loss, nats per prediction
test.loss  drift.1                                    probes, where they are one value
seconds  cpu_seconds  predictions_per_second          of the training loop
provenance.commit  made.engine                        where and how it was made
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from labkit.experiments.queries.entries import Entry

Row = dict[str, Any]

# Short names, which head the columns of a table: the first field that a row has counts.
SHORT = {
    "recipe": ("model.recipe", "model.step", "model.residual"),
    "norm": ("model.norm",),
    "dim": ("model.dim", "model.width"),
    "depth": ("model.depth",),
    "lr": ("train.lr",),
    "steps": ("train.steps",),
    "test": ("test.loss",),
    "device": ("made.device", "provenance.device"),
    "peak": ("made.peak_bytes",),
}
# How a field's name begins whose value may differ although the run is the same.
ORIGIN = ("provenance.", "made.", "key", "state", "age", "bytes")
TIMES = ("seconds", "cpu_seconds", "predictions_per_second")


def row_of(entry: Entry) -> Row:
    """Lay an entry out flat."""
    run, record = entry.run, entry.record
    losses = [loss for loss in record["losses"] if loss is not None]
    return {
        "key": entry.key,
        "state": entry.state,
        "what": _what(run),
        **flat({name: part for name, part in run.items() if name != "probes"}),
        "probes": run.get("probes"),
        "loss": losses[-1] if losses else None,
        "loss.first": losses[0] if losses else None,
        "loss.lowest": min(losses, default=None),
        "steps.done": len(record["losses"]),
        "diverged_at": record.get("diverged_at"),
        **{name: record.get(name) for name in TIMES},
        **{name: value for name, value in _probed(record).items() if not isinstance(value, list)},
        **flat({"provenance": record.get("provenance"), "made": entry.made}),
        "age": entry.age,
        "bytes": entry.file.size,
    }


def flat(tree: Mapping[str, Any], before: str = "") -> Row:
    """Join the names of nested objects with dots."""
    row: Row = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            row |= flat(value, f"{before}{name}.")
        else:
            row[f"{before}{name}"] = value
    return row


def get(row: Row, name: str) -> Any:
    """Read a field, or a short name; None where the row has it not."""
    return next((row[each] for each in SHORT.get(name, (name,)) if row.get(each) is not None), None)


def has(row: Row, name: str) -> bool:
    """Say whether a row has a field, be its value null."""
    return any(each in row for each in SHORT.get(name, (name,)))


def known(rows: Iterable[Row]) -> list[str]:
    """List every field of these rows, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row))


def check_known(names: Iterable[str], rows: Iterable[Row]) -> None:
    """Refuse a name that no row has, and list those that exist."""
    fields = known(rows)
    for name in names:
        if name not in fields and name not in SHORT:
            there = [*SHORT, *fields]
            near = difflib.get_close_matches(name, there, 1)
            meant = f" (perhaps {near[0]}?)" if near else ""
            raise ValueError(
                f"no run here has a field {name!r}{meant}; there are {', '.join(there)}"
            )


def _what(run: Mapping[str, Any]) -> str:
    """Name the kind of a model and its data: "decoder on Text"."""
    model, data = run.get("model", {}), run.get("data", {})
    kind = model.get("kind") or str(model.get("type", "?")).removesuffix("Config")
    return f"{kind} on {data.get('type', '?')}"


def _probed(record: Mapping[str, Any]) -> Row:
    found = record.get("probes")
    return flat(found) if isinstance(found, dict) else {}
