"""Find the runs that a chapter wants, and train them without executing the chapter's figures.

    labkit book runs --only 03 --minutes 8      # again and again, until nothing is missing

Needs torch and numpy, no Jupyter: made for a GPU server, and for a long profile in slices. Cells
that lead to a `lab.run(…)` are executed with a Lab that notes runs. A run that depends on the
results of another (the best rate of a first grid, say) is found once those are there: training
and looking take turns.
"""

import ast
import os
import sys
import time
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.book.chapters import Chapter
from labkit.book.slices import Cell, code_cells, slice_of

if TYPE_CHECKING:
    from labkit.experiments import Run

BARE = Path(__file__).resolve().parent / "bare"


@dataclass(frozen=True)
class Found:
    """What a look at a chapter brought: its runs, those that are missing, cells that failed."""

    wanted: int
    missing: tuple["Run", ...]
    faults: tuple[str, ...] = field(default=())


def runs_cells(chapter: Chapter) -> list[Cell]:
    """List the cells that ask a lab for results."""

    def asks(node: ast.AST) -> bool:
        callee = node.func if isinstance(node, ast.Call) else None
        return isinstance(callee, ast.Attribute) and callee.attr == "run"

    return [c for c in code_cells(chapter) if any(map(asks, ast.walk(ast.parse(c.source))))]


def look(chapter: Chapter, profile: str, seed: int = 0) -> Found:
    """Execute what leads to a chapter's runs, without training one."""
    import labkit.experiments
    from labkit import training
    from labkit.experiments import claims, lab
    from labkit.experiments.dry import DryLab, NotTrained, no_training

    DryLab.wanted, DryLab.missing = {}, {}
    wanted = runs_cells(chapter)
    if not wanted:
        return Found(0, ())
    kept = labkit.experiments.Lab, claims.claim, sys.modules.get("labkit.plots")
    kept_train, training.train = training.train, no_training
    labkit.experiments.Lab = lab.Lab = DryLab  # pyright: ignore[reportAttributeAccessIssue]
    labkit.experiments.claim = claims.claim = lambda *words, **options: None  # pyright: ignore
    sys.modules["labkit.plots"] = Silent("labkit.plots")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    faults, waits = [], False
    try:
        for cell in slice_of(chapter, *wanted).cells:
            try:
                exec(compile(cell.source, f"<cell {cell.index}>", "exec"), namespace)
            except NotTrained:
                waits = True
            except Exception as error:
                # What a cell lacks because another one waits is no fault.
                if not (waits and isinstance(error, NameError)):
                    faults.append(f"cell {cell.index}: {type(error).__name__}: {error}")
            if "parameters" in cell.tags:
                namespace |= {"profile": profile, "seed": seed}
    finally:
        labkit.experiments.Lab, labkit.experiments.claim = kept[:2]
        training.train = kept_train
        lab.Lab, claims.claim = kept[:2]  # pyright: ignore[reportAttributeAccessIssue]
        sys.modules.pop("labkit.plots")
        if kept[2] is not None:
            sys.modules["labkit.plots"] = kept[2]
    return Found(len(DryLab.wanted), tuple(DryLab.missing.values()), tuple(faults))


class Silent(types.ModuleType):
    """In place of labkit.plots: every name of it is a function that draws nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *words, **options: None


def train(
    root: Path,
    chosen: Sequence[Chapter],
    profile: str,
    *,
    seed: int = 0,
    minutes: float = 8.0,
    only_list: bool = False,
) -> int:
    """Train what is missing for so many minutes; 0 when all went well, with more left or not."""
    until = time.monotonic() + 60 * minutes
    prepare(root)
    from labkit.experiments import filling
    from labkit.experiments.engines import make_engine
    from labkit.experiments.lab import device_of
    from labkit.experiments.store import Store

    device, left, faults = device_of(profile), 0, []
    print(f"runs ({profile}, on {device}): at most {minutes:g} minutes", flush=True)
    engine, store, bar = make_engine(root, device), Store(root, device), sys.stderr.isatty()
    try:
        for chapter in chosen:
            found = look(chapter, profile, seed)
            while found.missing and not only_list and time.monotonic() < until:
                try:
                    filling.train(found.missing, store, engine, until=until, progress=bar)
                except RuntimeError as error:
                    faults.append(f"{chapter.name}: {error}")
                    found = look(chapter, profile, seed)
                    break  # the other chapters do not wait for this one
                again = look(chapter, profile, seed)
                if {run.key() for run in again.missing} >= {run.key() for run in found.missing}:
                    break  # no time for one more
                found = again
            have = found.wanted - len(found.missing)
            print(f"  {chapter.name}: {have} of {found.wanted} runs are there", flush=True)
            left += len(found.missing)
            faults += [] if found.missing else [f"{chapter.name}, {f}" for f in found.faults]
    finally:
        engine.close()
    for fault in faults:
        print(f"red     {fault}")
    more = "the same command goes on (runs that need these are not counted yet)"
    print(f"runs: {left} missing; {more}" if left else "runs: nothing is missing")
    return 1 if faults else 0


def prepare(root: Path) -> None:
    """Let this process, and workers, find labkit, the store, and stand-ins for what is absent."""
    code = str(Path(__file__).resolve().parents[2])
    paths = [code, *filter(None, [os.environ.get("PYTHONPATH")]), str(BARE)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["LABKIT_ROOT"] = str(root)
    if str(BARE) not in sys.path:
        sys.path.append(str(BARE))
