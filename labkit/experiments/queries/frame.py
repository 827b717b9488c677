"""All runs that there are, the store's and the book's records, as one table of pandas.

key  at  file                                         which run, when (UTC) it was made, where it is
model.recipe  data.batch  train.lr  seed  probes      the run, config by config
loss  loss.first  loss.lowest  steps.done  losses     its training loss, nats per prediction
diverged_at  seconds  cpu_seconds  predictions_per_second
test.loss  residual-rms                               what its probes measured
provenance.commit  made.engine                        where and how it was made
"""

import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas

from labkit.experiments.queries.garbage import sort_files
from labkit.experiments.records import from_row
from labkit.experiments.store import Store
from labkit.system.files import write_whole
from labkit.training import Record

COLUMNS = [
    *("key", "model.type", "data.type", "model.recipe", "model.norm", "model.dim", "model.depth"),
    *("train.lr", "train.steps", "seed", "loss", "diverged_at", "test.loss", "at"),
]
# A text in quotes, a name in backticks, a name.
_WORD = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|[A-Za-z_][\w.]*""")


def read_runs(root: Path) -> pandas.DataFrame:
    """Read every run, the newest first; where two files have one, the newer counts."""
    store = Store(root)
    rows = [
        _lay_out(row["key"], row["at"], store.records.build_path(name), row["run"], from_row(row))
        for name in store.records.list_names()
        for row in store.records.load_rows(name).values()
    ]
    entries, _ = sort_files(store.folder)
    for path, entry in entries.items():
        made, record = entry["made"], Record(**entry["record"])
        rows.append(_lay_out(path.stem, made["at"], path, entry["run"], record, made=made))
    if not rows:
        return pandas.DataFrame()
    runs = pandas.json_normalize(rows).convert_dtypes()
    return runs.sort_values("at", ascending=False).drop_duplicates("key")


def _lay_out(
    key: str, at: str, path: Path, run: dict[str, Any], record: Record, **made: Any
) -> dict[str, Any]:
    finite = [loss for loss in record.losses if loss is not None]
    diverged = record.diverged_at is not None
    return {
        "key": key,
        "at": at,
        "file": path.name,
        **run,
        "probes": " ".join(run["probes"]),
        "loss": finite[-1] if finite and not diverged else None,
        "loss.first": finite[0] if finite else None,
        "loss.lowest": min(finite, default=None),
        "losses": record.losses,
        "steps.done": len(record.losses),
        "diverged_at": record.diverged_at,
        "seconds": record.seconds,
        "cpu_seconds": record.cpu_seconds,
        "predictions_per_second": record.predictions_per_second,
        **record.probes,
        "provenance": record.provenance,
        **made,
    }


def select_runs(runs: pandas.DataFrame, conditions: Iterable[str]) -> pandas.DataFrame:
    """Keep the runs that meet every condition: FIELD=VALUE, or an expression of pandas.eval."""
    for condition in conditions if len(runs) else ():
        runs = runs.loc[_find_fitting(runs, condition)]
    return runs


def _find_fitting(runs: pandas.DataFrame, condition: str) -> pandas.Series:
    field, _, value = condition.partition("=")
    if field in runs and value and not value.startswith("="):
        return (runs[field] == _read_value(value)).fillna(False).astype(bool)

    def quote_field(word: re.Match[str]) -> str:
        """Put what is a field into backticks, be it followed by a method or not."""
        name = word[0]
        while name and name not in runs:
            name = name.rpartition(".")[0]
        return f"`{name}`{word[0][len(name) :]}" if name else word[0]

    try:
        fits = runs.eval(_WORD.sub(quote_field, condition))
        if not (isinstance(fits, pandas.Series) and pandas.api.types.is_bool_dtype(fits)):
            raise TypeError("it is neither true nor false")
        return fits.fillna(False).astype(bool)
    except Exception as error:  # whatever the text makes pandas raise
        hint = _suggest_fields(runs, _WORD.findall(condition))
        raise ValueError(
            "a condition is FIELD=VALUE or an expression such as \"model.recipe == 'pre' and "
            f'train.lr < 0.01"; got {condition!r} ({error}){hint}'
        ) from error


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _suggest_fields(runs: pandas.DataFrame, names: Iterable[str]) -> str:
    """Name the fields that were perhaps meant."""
    strange = [name for name in names if name not in runs]
    meant = [near for name in strange for near in difflib.get_close_matches(name, runs.columns)]
    return f"; perhaps {' or '.join(meant)}?" if meant else "; `labkit runs show KEY` lists fields"


def check_fields(runs: pandas.DataFrame, names: Iterable[str]) -> None:
    """Refuse a name that is no field, unless there are no runs."""
    for name in names:
        if len(runs) and name not in runs:
            raise ValueError(f"no run has a field {name!r}{_suggest_fields(runs, [name])}")


def find_key(runs: pandas.DataFrame, prefix: str) -> str:
    """Find the key that begins so; ValueError where none does, or more than one."""
    known = runs["key"] if len(runs) else ()
    keys = [key for key in known if key.startswith(prefix.lower())]
    if len(keys) != 1:
        some = f": {', '.join(key[:12] for key in keys[:5])}" if keys else ""
        raise ValueError(
            f"a key is named by a beginning that only it has; {len(keys)} begin with {prefix!r}"
            f"{some}; `labkit runs` lists them"
        )
    return keys[0]


def write_table(runs: pandas.DataFrame, columns: list[str]) -> str:
    """Draw a table, one row a run; a column in which no run has anything is left out."""
    table = runs.reindex(columns=columns).dropna(axis="columns", how="all")
    return _format_table(table, formatters={"key": lambda key: key[:8]}, index=False)


def show_run(runs: pandas.DataFrame, key: str) -> str:
    """Write one run in full, a field a line."""
    return _format_table(runs[runs["key"] == key].T.dropna(), header=False)


def compare_runs(runs: pandas.DataFrame, keys: list[str]) -> str:
    """Set runs side by side: the fields in which they differ."""
    table = runs.set_index("key").loc[keys].T
    return _format_table(table[table.astype(str).nunique(axis="columns", dropna=False) > 1])


def _format_table(table: pandas.DataFrame, **how: Any) -> str:
    return table.astype(object).where(table.notna(), "–").map(_shorten_value).to_string(**how)


def _shorten_value(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def write_json(runs: pandas.DataFrame, **how: Any) -> str:
    """Write a run an object, every digit of its numbers."""
    return runs.to_json(orient="records", double_precision=15, **how) or ""


def export_table(runs: pandas.DataFrame, out: Path) -> None:
    """Write the runs to `out`, whole or not at all, as its ending says."""
    if out.suffix == ".csv":
        content = runs.drop(columns="losses", errors="ignore").to_csv(index=False) or ""
    elif out.suffix == ".jsonl":
        content = write_json(runs, lines=True)
    else:
        raise ValueError(
            f"the file's ending says what is written: .csv or .jsonl; got {out.name!r}"
        )
    write_whole(out, content)
