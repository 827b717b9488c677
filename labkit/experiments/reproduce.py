"""Train a stored run again in full, and compare: `labkit reproduce`.

With the same machine, code, torch and number of threads, the results are equal bit for bit.
"""

from pathlib import Path
from typing import Any

from labkit.experiments.records import from_row
from labkit.experiments.replay import Replay, retrain_run
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store
from labkit.system.files import code_hash
from labkit.system.provenance import collect_provenance


def reproduce_record(root: Path, key: str) -> tuple[Replay, list[str]]:
    """Train a run again on the device of its record; return the result and changes since then.

    Raises:
        ValueError: there is no such run, or this code cannot read its configuration.
    """
    row = Store(root).find_row(key)
    if row is None:
        raise ValueError(
            f"only a recorded run can be repeated, but the run {key} has no record; each line of "
            "data/records contains its run's key"
        )
    try:
        run = Run.from_dict(row["run"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the run {key} was described by a different version of the code, and this version "
            f"cannot read it ({error}); check out the commit that `labkit show {key}` names"
        ) from error
    then = row["provenance"]
    found = retrain_run(run, from_row(row), then.get("device") or CPU)
    return found, _list_changes(then)


def _list_changes(then: dict[str, Any]) -> list[str]:
    now = {**collect_provenance(), "threads": 1, "code": code_hash(), "together": 1}
    return [
        f"{name} {then[name]}, now {now[name]}"
        for name in ("code", "commit", "cpu", "torch", "python", "threads", "together")
        if name in then and then[name] != now[name]
    ]
