"""Read a chapter's code cells and claims, and run the cells in order, without a kernel.

One fresh process runs a chapter. A cell whose runs are not recorded is skipped, and so is a later
one that lacks a name which it makes.
"""

import ast
import json
import linecache
import os
import subprocess
import symtable
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from labkit.system.threads import build_one_thread_environment
from press.book.chapters import CODE, Chapter
from press.book.percent import TextCell, cells_of

LONGEST = 1800  # seconds that a chapter may take


# -- what a chapter holds ---------------------------------------------------------------------
def code_cells(chapter: Chapter) -> list[TextCell]:
    """List a chapter's code cells."""
    cells = cells_of(chapter.source.read_text(encoding="utf-8"))
    return [cell for cell in cells if cell.kind == "code"]


def claim_cells(chapter: Chapter) -> dict[str, TextCell]:
    """Find the cell of each claim whose id is a literal."""
    return {
        str(node.args[0].value): cell
        for cell in code_cells(chapter)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "claim"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


# -- running it -------------------------------------------------------------------------------
@dataclass
class Outcome:
    """The results of some cells: claims by id, as in the ledger, and the rest by cell."""

    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)  # for want of recorded runs

    def to_json(self) -> str:
        """Return the results as JSON; as pairs, because JSON keys cannot be numbers."""
        return json.dumps({name: list(part.items()) for name, part in vars(self).items()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{name: dict(pairs) for name, pairs in json.loads(text).items()})


def run_chapter(chapter: Chapter, environment: Mapping[str, str], **parameters: Any) -> Outcome:
    """Run a chapter's cells in a separate process; return their results. Nothing is trained."""
    done = subprocess.run(
        [sys.executable, "-m", "press.book.cells"],
        input=json.dumps({"source": str(chapter.source), "parameters": parameters}),
        text=True,
        capture_output=True,
        cwd=chapter.source.parent,
        timeout=LONGEST,
        env=build_environment(chapter, environment),
    )
    if done.returncode:
        raise RuntimeError(
            f"{chapter.name} must run to its end, but its process ended with "
            f"{done.returncode}:\n{done.stderr}"
        )
    return Outcome.from_json(done.stdout)


def build_environment(chapter: Chapter, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that runs a chapter's cells, with these changes."""
    paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "LABKIT_ENGINE": "serial",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "LABKIT_ROOT": str(chapter.source.parents[1]),
        "LABKIT_TRAIN": "never",
        "MPLBACKEND": "agg",
        **build_one_thread_environment(),
        "PYTHONHASHSEED": "0",
        **environment,
    }


def read_job() -> tuple[dict[str, Any], list[TextCell], Any]:
    """Read a job; return it, its chapter's cells, and where to answer: cells print to stderr."""
    job = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    source = Path(job["source"])
    return job, code_cells(Chapter(source.stem, source, source.with_suffix(".ipynb"))), answer


class Running:
    """Cells that share one namespace, as in a kernel, and their results."""

    def __init__(self, parameters: Mapping[str, Any]):
        self.parameters, self.outcome = parameters, Outcome()
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.lacking: set[str] = set()  # names that skipped cells would have made

    def run_cell(self, cell: TextCell, source: str) -> None:
        """Run a cell, or skip it if its recorded runs are missing."""
        from labkit.experiments.claims import collect_claims  # needs torch
        from labkit.experiments.lab import MissingRuns

        name = f"<cell {cell.index}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        with collect_claims() as made:
            try:
                self.execute(cell, ast.parse(source, name))
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
        self.outcome.claims |= {claim.id: claim.to_dict() for claim in made}

    def execute(self, cell: TextCell, tree: ast.Module) -> None:
        """Execute the source of a cell."""
        exec(compile(tree, f"<cell {cell.index}>", "exec"), self.namespace)

    def _forget_names(self, source: str) -> None:
        """Delete names that a skipped cell would assign, except imports: older values are wrong."""
        imports = [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module([*imports], []), "<imports>", "exec"), self.namespace)
        symbols = symtable.symtable(source, "<cell>", "exec").get_symbols()
        names = {s.get_name() for s in symbols if s.is_assigned() and not s.is_imported()}
        self.lacking |= names
        for name in names & self.namespace.keys():
            del self.namespace[name]


def main() -> None:
    """Run a chapter's cells, and answer with their results."""
    job, cells, answer = read_job()
    running = Running(job["parameters"])
    for cell in cells:
        running.run_cell(cell, cell.source)
    with answer:
        answer.write(running.outcome.to_json())


if __name__ == "__main__":
    main()
