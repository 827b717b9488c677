"""`labkit reproduce`, and what `labkit show` prints of a stored run."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Typer

from labkit.system.root import explain_no_records, project_root

app = Typer()


def show_run(key: str) -> None:
    """Print a stored run: its config, losses, probes, provenance."""
    root = project_root()
    full_key = find_key(root, key)
    from labkit.experiments.store import Store  # needs torch

    row = Store(root).find_row(full_key)
    if row is None:
        raise ValueError(
            f"the record of {full_key} must be readable, but is damaged; train its run again with "
            "the same command that trained it"
        )
    made = {
        name: of
        for name, of in row.items()
        if name not in ("format", "key", "run", "probes", "sum")
    }
    named = dict(name_values({"key": full_key, **row["run"], "probe": row["probes"], **made}))
    width = max(map(len, named))
    for name, value in named.items():
        print(f"{name:<{width}}  {shorten_value(value)}")


def name_values(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return each value under its dotted name, such as train.lr; null is left out."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{rest}", of) for rest, of in name_values(value))
        elif value is not None:
            yield name, value


def shorten_value(value: Any) -> str:
    """Format a value; show only the beginning and end of a long one."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:29]} … {text[-28:]}"


def find_key(root: Path, prefix: str) -> str:
    """Find the key with this prefix, without torch; ValueError if there is none, or several."""
    from press.book.keys import list_run_keys

    keys = [key for key in list_run_keys(root) if key.startswith(prefix.lower())]
    if not keys and (why := explain_no_records(root)):
        raise ValueError(
            f"a key must be that of a run here, but no run has the key {prefix!r}; {why}"
        )
    if len(keys) != 1:
        some = f": {', '.join(key[:12] for key in keys[:5])}" if keys else ""
        raise ValueError(
            f"the beginning of a key must fit exactly one run, but {len(keys)} keys begin with "
            f"{prefix!r}{some}; each line of data/records contains its run's key"
        )
    return keys[0]


@app.command("reproduce")
def reproduce_run(
    key: Annotated[str, Argument(metavar="KEY", help="the beginning of the run's key")],
) -> int:
    """Train a stored run again; fail if the numbers differ.

    On the machine of the record they must be equal; elsewhere rounding may change them.
    """
    root = project_root()
    full_key = find_key(root, key)
    from labkit.experiments.reproduce import reproduce_record  # needs torch
    from labkit.system.pool import Pool

    with Pool(root).slot():
        found, changes = reproduce_record(root, full_key)
    for change in changes:
        print(f"differs from then: {change}")
    if math.isinf(found.tolerance):
        print("rounding alone may change all of this run: only the same kind of machine can tell")
    print(f"{found}; it may differ by {found.tolerance:g}")
    return 0 if found.agrees else 1
