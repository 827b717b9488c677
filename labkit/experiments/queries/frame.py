"""All runs that there are, trained here or recorded, as one table of pandas.

key  at  file                                         which run, when (UTC) it was made, where it is
model.recipe  data.batch  train.lr  seed  probes      the run, config by config
loss  loss.first  loss.lowest  steps.done  losses     its training loss, nats per prediction
diverged_at  seconds  cpu_seconds  peak_bytes         how it ended and what it took
test.loss  residual-rms                               what its probes measured
provenance.commit  provenance.engine                  where and how it was made
"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas

from labkit.experiments.queries.garbage import RECORD
from labkit.experiments.records import Row, from_row
from labkit.experiments.store import Store, choose_newer
from labkit.system.files import write_whole

COLUMNS = [
    *("key", "model.type", "data.type", "model.recipe", "model.norm", "model.dim", "model.depth"),
    *("train.lr", "train.steps", "seed", "loss", "diverged_at", "test.loss", "at"),
]
_QUOTED = r"""'[^']*'|"[^"]*"|`[^`]*`"""
_WORD = re.compile(rf"{_QUOTED}|(?<![\w.])[A-Za-z_][\w.]*")
# One equals sign, and the word that follows it, if any.
_ASSIGNED = re.compile(rf"{_QUOTED}|\s*(?<![=<>!])=(?!=)\s*([A-Za-z_]\S*)?")
_OF_PYTHON = {"and", "or", "not", "in", "True", "False", "None"}


def read_runs(root: Path) -> pandas.DataFrame:
    """Read every run, the newest first; where two files have one, the newer counts."""
    store = Store(root)
    found: dict[str, tuple[Row, str]] = {}
    for name in store.records.list_names():
        file = store.records.build_path(name).name
        found |= {key: (row, file) for key, row in store.records.load_rows(name).items()}
    for path in store.folder.iterdir() if store.folder.is_dir() else ():
        if RECORD.fullmatch(path.name) and (own := store.read_own_row(path.stem)) is not None:
            recorded, _ = found.get(path.stem, (None, ""))
            if choose_newer(own, recorded) is own:
                found[path.stem] = own, path.name
    if not found:
        return pandas.DataFrame()
    return _make_table(found.values()).sort_values("at", ascending=False)


def _make_table(rows: Iterable[tuple[Row, str]]) -> pandas.DataFrame:
    laid_out = [_lay_out(row, file) for row, file in rows]
    return pandas.json_normalize(laid_out).convert_dtypes()


def _lay_out(row: Row, file: str) -> dict[str, Any]:
    losses, diverged = from_row(row).losses, row["diverged_at"] is not None
    return {
        "key": row["key"],
        "at": row["at"],
        "file": file,
        **row["run"],
        "probes": " ".join(row["run"]["probes"]),
        "loss": losses[-1] if losses and not diverged else None,
        "loss.first": losses[0] if losses else None,
        "loss.lowest": min(losses, default=None),
        "losses": losses,
        "steps.done": row["trained"],
        "diverged_at": row["diverged_at"],
        "seconds": row["seconds"],
        "cpu_seconds": row["cpu_seconds"],
        "predictions_per_second": row["predictions_per_second"],
        "peak_bytes": row.get("peak_bytes"),
        **row["probes"],
        "provenance": row["provenance"],
    }


def select_runs(runs: pandas.DataFrame, conditions: Iterable[str]) -> pandas.DataFrame:
    """Keep the runs that meet every condition, each an expression of pandas.eval.

    Raises:
        ValueError: a condition names no column, has one equals sign, or is none.
    """
    for condition in conditions if len(runs) else ():
        runs = runs.loc[_find_fitting(runs, condition)]
    return runs


def _find_fitting(runs: pandas.DataFrame, condition: str) -> pandas.Series:
    _refuse_one_equals_sign(runs, condition)

    def quote_column(word: re.Match[str]) -> str:
        """Put what is a column into backticks, be it followed by a method or not."""
        if word[0][0] in "'\"`" or word[0] in _OF_PYTHON:
            return word[0]
        name = word[0]
        while name and name not in runs:
            name = name.rpartition(".")[0]
        if not name:
            raise ValueError(f"{_explain_column(runs, word[0])}; a text stands in quotes")
        return f"`{name}`{word[0][len(name) :]}"

    quoted = _WORD.sub(quote_column, condition)
    why = "it is neither true nor false"
    try:
        fits = runs.eval(quoted)
    except TypeError:  # numpy's words are about its loops
        fits, why = None, "it compares a number with a text, or a text with a number"
    except Exception as error:  # whatever the text makes pandas raise
        fits, why = None, str(error)
    if isinstance(fits, pandas.Series) and pandas.api.types.is_bool_dtype(fits):
        return fits.fillna(False).astype(bool)
    raise ValueError(
        "a condition is an expression such as \"model.recipe == 'pre' and train.lr < 0.01\"; "
        f"got {condition!r} ({why})"
    )


def _refuse_one_equals_sign(runs: pandas.DataFrame, condition: str) -> None:
    """Say what a condition with one equals sign was meant to be."""

    def compare(found: re.Match[str]) -> str:
        if found[0][0] in "'\"`":
            return found[0]
        word = found[1] or ""
        plain = not word or word in runs or word in _OF_PYTHON
        return f" == {word if plain else repr(word)}"

    if (meant := _ASSIGNED.sub(compare, condition)) != condition:
        raise ValueError(f'a condition compares with ==; got {condition!r}, write "{meant}"')


def check_columns(runs: pandas.DataFrame, names: Iterable[str]) -> None:
    """Refuse a name that is no column, unless there are no runs."""
    for name in names:
        if len(runs) and name not in runs:
            raise ValueError(_explain_column(runs, name))


def _explain_column(runs: pandas.DataFrame, name: str) -> str:
    """Say that there is no such column, and which was perhaps meant."""
    ends = [column for column in runs.columns if column.endswith(f".{name}")]
    near = ends or difflib.get_close_matches(name, runs.columns, cutoff=0.8)
    hint = f"perhaps {' or '.join(near)}?" if near else "`labkit runs show KEY` lists them"
    return f"no run has a column {name!r} ({hint})"


def write_table(runs: pandas.DataFrame, columns: list[str]) -> str:
    """Draw a table, one row a run; a column in which no run has anything is left out."""
    table = runs.reindex(columns=columns).dropna(axis="columns", how="all")
    return _format_table(table, formatters={"key": lambda key: key[:8]}, index=False)


def show_run(row: Row) -> str:
    """Write one run in full, a column of the table a line."""
    table = _make_table([(row, "")]).drop(columns="file")
    return _format_table(table.T.dropna(), header=False)


def _format_table(table: pandas.DataFrame, **how: Any) -> str:
    return table.astype(object).where(table.notna(), "–").map(_shorten_value).to_string(**how)


def _shorten_value(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def export_table(runs: pandas.DataFrame, out: Path) -> None:
    """Write the runs to `out`, whole or not at all, as its ending says."""
    if out.suffix == ".csv":
        content = runs.drop(columns="losses", errors="ignore").to_csv(index=False) or ""
    elif out.suffix == ".jsonl":
        content = runs.to_json(orient="records", lines=True, double_precision=15) or ""
    else:
        raise ValueError(
            f"the file's ending says what is written: .csv or .jsonl; got {out.name!r}"
        )
    write_whole(out, content)
