"""Run a chapter's cells in order, and run others in their place.

    whole, tried = run_trials(chapter, [Trial(4, 5, {4: "yours = 13"})], size="book", seed=0)

Before the first cell of a trial the chapter's process forks: the fork runs that trial's cells, some
with another text, and the chapter goes on untouched.
"""

import ast
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from press.book.cells import Outcome, Running, build_environment, read_job
from press.book.chapters import CODE, Chapter
from press.book.percent import TextCell
from press.book.stale import names_of
from tests.forks import run_program

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Trial:
    """A range of cells to run separately, by index, with replacement sources for some of them."""

    first: int
    last: int
    sources: Mapping[int, str] = field(default_factory=dict)


@dataclass
class Tried(Outcome):
    """The results of some cells, with the reports in which they end."""

    reports: dict[int, tuple[bool, str]] = field(default_factory=dict)  # right or not, its text


def run_trials(
    chapter: Chapter,
    trials: Sequence[Trial] = (),
    *,
    only: Sequence[int] | None = None,
    train: bool = False,
    code: Path = CODE,
    **parameters: Any,
) -> tuple[Tried, list[Tried]]:
    """Run a chapter; return its results, and those of each trial.

    With `only` these cells run, and earlier ones that make names which they or a trial need.
    With `train` runs without a record are trained. `code` is the folder of the labkit to import.
    """
    paths = [str(code), str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    changed = {"PYTHONPATH": os.pathsep.join(paths), "LABKIT_TRAIN": "" if train else "never"}
    job = {
        "source": str(chapter.source),
        "parameters": parameters,
        "only": only and list(only),
        "trials": [(t.first, t.last, list(t.sources.items())) for t in trials],
    }
    told = run_program(
        "from tests import trials\ntrials.main()",
        json.dumps(job),
        chapter.source.parent,
        build_environment(chapter, changed),
    )
    whole, *tried = map(Tried.from_json, json.loads(told))
    return whole, tried


class Trying(Running):
    """Cells that share one namespace; the report in which one ends is kept."""

    def __init__(self, parameters: Mapping[str, Any]):
        super().__init__(parameters)
        self.outcome = Tried()

    def execute(self, cell: TextCell, tree: ast.Module) -> None:
        from labkit.check.report import Report

        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        super().execute(cell, tree)
        if isinstance(last, ast.Expr):
            name = f"<cell {cell.index}>"
            value = eval(compile(ast.Expression(last.value), name, "eval"), self.namespace)
            if isinstance(value, Report):
                self.outcome.reports[cell.index] = value.ok, str(value)


def run_in_fork(running: Trying, cells: Sequence[TextCell], trial: Trial) -> str:
    """Run a trial's cells in a fork, up to the first that fails; return the results."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        running.outcome = Tried()
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
    return told or Tried({}, {trial.first: f"the trial's process ended with {status}"}).to_json()


def list_names(source: str) -> list[tuple[set[str], set[str], set[str]]]:
    """Return the names that each statement of a cell sets, those it may change, those it reads."""
    blocks = ast.For | ast.While | ast.If | ast.With | ast.Try | ast.AugAssign
    found = []
    for statement in ast.parse(source).body:
        made, read = names_of(ast.unparse(statement))
        is_block = isinstance(statement, blocks)  # may call methods, or set nothing
        found.append((set(), made | read, read) if is_block else (made - read, made, read))
    return found


def list_needed(
    cells: Sequence[TextCell], only: Sequence[int], trials: Sequence[Trial]
) -> set[int]:
    """Return the cells to run: `only`, and each that makes a name which one of them needs."""
    once = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    statements = [one for cell in cells for one in ast.parse(cell.source).body]
    fixed = set().union(
        *(names_of(ast.unparse(one))[0] for one in statements if isinstance(one, once))
    )
    wanted: set[str] = set()
    needed = set(only)
    for cell in reversed(cells):
        if any(wanted & (sets | changes - fixed) for sets, changes, _ in list_names(cell.source)):
            needed.add(cell.index)
        sources = [t.sources.get(cell.index, "") for t in trials if t.first <= cell.index <= t.last]
        if sources or cell.index in needed:
            wanted = set().union(*(list_wanted(one, wanted) for one in {*sources, cell.source}))
    return needed


def list_wanted(source: str, wanted: set[str]) -> set[str]:
    """Return the names that must exist before a cell, if `wanted` must exist after it."""
    for sets, _, read in reversed(list_names(source)):
        wanted = wanted - sets | read
    return wanted


def main() -> None:
    """Read a job, run its chapter and trials, answer with the results."""
    job, cells, answer = read_job()
    trials = [Trial(first, last, dict(sources)) for first, last, sources in job["trials"]]
    running, tried = Trying(job["parameters"]), {}
    only = job["only"]
    needed = {c.index for c in cells} if only is None else list_needed(cells, only, trials)
    for cell in cells:
        for number, trial in enumerate(trials):
            if trial.first == cell.index:
                tried[number] = run_in_fork(running, cells, trial)
        if cell.index in needed or "parameters" in cell.tags:
            running.run_cell(cell, cell.source)
    with answer:
        json.dump([running.outcome.to_json(), *(tried[i] for i in range(len(trials)))], answer)
