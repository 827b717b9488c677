"""Read a chapter's code cells and claims; run the cells in order, and try others.

    whole, tried = run(chapter, [Trial(4, 5, {4: "yours = 13"})], size="smoke", seed=0)

One fresh process runs a chapter, without a kernel. Before the first cell of a trial it forks: the
fork runs that trial's cells, some with another text, and the chapter goes on untouched. A cell
whose runs are not recorded is skipped, and so is a later one that lacks a name which it makes.
"""

import ast
import json
import linecache
import os
import subprocess
import symtable
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from press.book.chapters import CODE, Chapter
from press.book.percent import cells_of

LONGEST = 1800  # seconds that a chapter and all its trials may take


# -- what a chapter holds ---------------------------------------------------------------------
@dataclass(frozen=True)
class Cell:
    """One code cell: where it stands among all cells, its text, its tags."""

    index: int
    source: str
    tags: frozenset[str]


def code_cells(chapter: Chapter) -> list[Cell]:
    """List a chapter's code cells."""
    cells = enumerate(cells_of(chapter.source.read_text(encoding="utf-8")))
    return [Cell(i, cell.source, cell.tags) for i, cell in cells if cell.kind == "code"]


def claim_cells(chapter: Chapter) -> dict[str, Cell]:
    """Find the cell of each claim whose id is written out."""
    return {
        str(node.args[0].value): cell
        for cell in code_cells(chapter)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "claim"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


# -- running it -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Trial:
    """Cells to run apart: from one to another, both by index, some of them with another text."""

    first: int
    last: int
    sources: Mapping[int, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What came of some cells: claims by id, as in the ledger, and the rest by cell."""

    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    reports: dict[int, tuple[bool, str]] = field(default_factory=dict)  # right or not, its text
    errors: dict[int, str] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)  # for want of recorded runs

    def to_json(self) -> str:
        """Write what came; as pairs, because JSON has no numbers for keys."""
        return json.dumps({name: list(part.items()) for name, part in vars(self).items()})

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        """Read what `to_json` wrote."""
        return cls(**{name: dict(pairs) for name, pairs in json.loads(text).items()})


def run_chapter(
    chapter: Chapter,
    trials: Sequence[Trial] = (),
    *,
    until: int | None = None,
    train: bool = False,
    code: Path = CODE,
    environment: Mapping[str, str] | None = None,
    **parameters: Any,
) -> tuple[Outcome, list[Outcome]]:
    """Run a chapter's cells, as far as cell `until`; return what came of it, and of each trial.

    With `train` runs without a record are trained, in the same process unless LABKIT_ENGINE names
    an engine. `code` is the folder of the labkit to import; `parameters` are the chapter's.
    """
    job = {
        "source": str(chapter.source),
        "parameters": parameters,
        "until": until,
        "trials": [(t.first, t.last, list(t.sources.items())) for t in trials],
    }
    paths = [str(code), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "press.book.cells"],
        input=json.dumps(job),
        text=True,
        capture_output=True,
        cwd=chapter.source.parent,
        timeout=LONGEST,
        env={
            "LABKIT_ENGINE": "serial",
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "LABKIT_ROOT": str(chapter.source.parents[1]),
            "LABKIT_TRAIN": "" if train else "never",
            "MPLBACKEND": "agg",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            "PYTHONHASHSEED": "0",
            **(environment or {}),
        },
    )
    if done.returncode:
        raise RuntimeError(f"{chapter.name}: its process ended ({done.returncode}):\n{done.stderr}")
    whole, *tried = map(Outcome.from_json, json.loads(done.stdout))
    return whole, tried


def main() -> None:
    """Read a job, run its chapter, write what came of it; what cells print goes to stderr."""
    job = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    source = Path(job["source"])
    cells = code_cells(Chapter(source.stem, source, source.with_suffix(".ipynb")))
    trials = [Trial(first, last, dict(sources)) for first, last, sources in job["trials"]]
    running, tried = Running(job["parameters"]), {}
    for cell in cells:
        for number, trial in enumerate(trials):
            if trial.first == cell.index:
                tried[number] = _run_in_fork(running, cells, trial)
        if job["until"] is None or cell.index <= job["until"]:
            running.run_cell(cell, cell.source)
    with answer:
        json.dump([running.outcome.to_json(), *(tried[i] for i in range(len(trials)))], answer)


def _run_in_fork(running: "Running", cells: Sequence[Cell], trial: Trial) -> str:
    """Run a trial's cells in a fork, as far as the first that fails; return what came of them."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        running.outcome = Outcome()
        try:
            for cell in cells:
                if trial.first <= cell.index <= trial.last and not running.outcome.errors:
                    running.run_cell(cell, trial.sources.get(cell.index, cell.source))
            with os.fdopen(writing, "w") as answer:
                answer.write(running.outcome.to_json())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    ended = Outcome(errors={trial.first: f"the trial's process ended with {status}"})
    return told or ended.to_json()


class Running:
    """Cells that share one namespace, as in a kernel, and what came of them."""

    def __init__(self, parameters: Mapping[str, Any]):
        self.parameters, self.outcome = parameters, Outcome()
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.lacking: set[str] = set()  # names that skipped cells would have made

    def run_cell(self, cell: Cell, source: str) -> None:
        """Run a cell, or skip it for want of recorded runs."""
        from labkit.check.report import Report  # needs torch
        from labkit.experiments.claims import collect_claims
        from labkit.experiments.lab import MissingRuns

        value = None
        with collect_claims() as made:
            try:
                value = self._last_value(source, f"<cell {cell.index}>")
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
                follows = isinstance(error, NameError) and error.name in self.lacking
                if follows or isinstance(error, MissingRuns):
                    self.outcome.skipped[cell.index] = said
                    self._forget_names(source)
                else:
                    where = traceback.format_exc().splitlines()[-6:]
                    self.outcome.errors[cell.index] = "\n".join([said, *where])
        if "parameters" in cell.tags:
            self.namespace |= self.parameters
        if isinstance(value, Report):
            self.outcome.reports[cell.index] = value.ok, str(value)
        self.outcome.claims |= {claim.id: claim.to_dict() for claim in made}

    def _last_value(self, source: str, name: str) -> Any:
        """Run a cell's text and return the value of the expression that ends it, if one does."""
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), self.namespace)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), name, "eval"), self.namespace)

    def _forget_names(self, source: str) -> None:
        """Forget what a skipped cell makes, except imports: an older value is another thing."""
        imports = [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module([*imports], []), "<imports>", "exec"), self.namespace)
        symbols = symtable.symtable(source, "<cell>", "exec").get_symbols()
        names = {s.get_name() for s in symbols if s.is_assigned() and not s.is_imported()}
        self.lacking |= names
        for name in names & self.namespace.keys():
            del self.namespace[name]


if __name__ == "__main__":
    main()
