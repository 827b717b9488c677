"""Run slices of a chapter in a fresh process, without a kernel; hand back what they claimed.

    outcomes = execute([slice, …], root, profile="cpu")

One process runs all slices, each in a fork of its own: none sees another's names. Cells with which
several slices begin run once, before the forks. (As a program, `python -m labkit.book.alone FILE`,
it reads the job from its input and writes the outcomes to FILE.)
"""

import ast
import contextlib
import functools
import gc
import importlib
import json
import linecache
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.book.slices import Slice

CODE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Said:
    """A Report that a cell ended in."""

    cell: int
    ok: bool
    text: str


@dataclass(frozen=True)
class Outcome:
    """What a slice did: its claims, as in the ledger; its reports; the error that ended it."""

    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    reports: tuple[Said, ...] = ()
    error: str = ""
    cell: int | None = None  # where the error was


def execute(
    slices: Sequence[Slice],
    root: Path,
    *,
    profile: str,
    seed: int = 0,
    store: Path | None = None,
    copies: Mapping[int, Path] | None = None,
    timeout: float = 600,
) -> list[Outcome]:
    """Run slices in a fresh process; runs train in it, too, unless LABKIT_ENGINE names an engine.

    Records of runs are kept in `store`/.labkit (by default the book's own). `copies` has, by the
    number of a slice, the folder of another labkit that it imports, whose records stay there too.
    """
    cells = [[(cell.index, sorted(cell.tags), cell.source) for cell in s.cells] for s in slices]
    copied = {number: str(folder) for number, folder in (copies or {}).items()}
    codes = [copied.get(number) for number in range(len(cells))]
    job = json.dumps({"profile": profile, "seed": seed, "slices": cells, "codes": codes})
    paths = [str(CODE), *filter(None, [os.environ.get("PYTHONPATH")])]
    alone = {
        "PYTHONPATH": os.pathsep.join(paths),
        "LABKIT_ROOT": str(store or root),
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONHASHSEED": "0",
    }
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        answer = Path(folder) / "outcomes.json"
        done = subprocess.run(
            [sys.executable, "-m", "labkit.book.alone", str(answer)],
            input=job,
            text=True,
            capture_output=True,
            cwd=root / "chapters",
            env={"LABKIT_ENGINE": "serial", **os.environ, **alone},  # workers take long to start
            timeout=timeout,
        )
        if not answer.is_file():
            raise RuntimeError(f"the slices' process ended ({done.returncode}):\n{done.stderr}")
        found = json.loads(answer.read_text())
    return [
        Outcome(one["claims"], tuple(Said(**r) for r in one["reports"]), one["error"], one["cell"])
        for one in found
    ]


def main(argv: list[str]) -> int:
    """Read a job, run its slices, write what came."""
    job = json.load(sys.stdin)
    for name in sorted({name for cells in job["slices"] for name in _imports(cells)}):
        with contextlib.suppress(Exception):  # a cell that fails by it says so itself
            importlib.import_module(name)  # once, not in every fork
    from labkit.check import guard

    guard.first_gradient()  # what it imports, too
    gc.freeze()  # a fork copies no page only to look for garbage
    slices = dict(enumerate(job["slices"]))
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        for code in dict.fromkeys(job["codes"]):
            some = {number: slices[number] for number in slices if job["codes"][number] == code}
            begin = functools.partial(_begin, some, job["profile"], job["seed"], code, Path(folder))
            _forked(begin, some, Path(folder))
        found = [json.loads(_answer(Path(folder), number).read_text()) for number in slices]
    Path(argv[0]).write_text(json.dumps(found))
    return 0


def _answer(folder: Path, number: int) -> Path:
    return folder / f"{number}.json"


def _imports(cells: list[Any]) -> Iterator[str]:
    yield "labkit.experiments"
    for _, _, source in cells:
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module
                    yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _forked(does: Callable[[], None], slices: Mapping[int, Any], folder: Path) -> None:
    """Fork for some slices; those that are left without an answer learn how the process ended."""
    sys.stderr.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            with contextlib.redirect_stdout(sys.stderr):
                does()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    said = {"claims": {}, "reports": [], "cell": None, "error": f"it ended with {status}"}
    for number in slices:
        if not _answer(folder, number).exists():
            _answer(folder, number).write_text(json.dumps(said))


def _begin(
    slices: Mapping[int, Any], profile: str, seed: int, code: str | None, folder: Path
) -> None:
    if code:
        _import_from(code)
    _go_on(slices, 0, Running(profile, seed), folder)


def _go_on(slices: Mapping[int, Any], at: int, running: "Running", folder: Path) -> None:
    """Run what is common to these slices; then fork for each way that they go on."""
    while True:
        ways: dict[str, dict[int, Any]] = {}
        for number, cells in slices.items():
            ways.setdefault(json.dumps(cells[at : at + 1]), {})[number] = cells
        over = running.outcome["error"] or at == max(len(cells) for cells in slices.values())
        if over or len(ways) > 1:
            break
        running.cell(*next(iter(slices.values()))[at])
        at += 1
    if over:
        for number in slices:
            # Whole or not at all: the process may be ended while it writes.
            part = folder / f"{number}.part"
            part.write_text(json.dumps(running.told()))
            part.rename(_answer(folder, number))
        return
    running.rest()
    for some in ways.values():
        _forked(functools.partial(_go_on, some, at, running, folder), some, folder)


def _import_from(code: str) -> None:
    """Forget labkit, and find the one in another folder from here on; workers find it too."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "labkit"]:
        del sys.modules[name]
    sys.path.insert(0, code)
    paths = [code, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "LABKIT_ROOT": code}


class Running:
    """Cells that share one namespace, as in a kernel, and what came of them so far."""

    def __init__(self, profile: str, seed: int):
        from labkit.experiments import claims

        self.given, self.made = {"profile": profile, "seed": seed}, []
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.outcome: dict[str, Any] = {"reports": [], "error": "", "cell": None}
        claims._show = self.made.append

    def cell(self, index: int, tags: list[str], source: str) -> None:
        """Execute a cell."""
        from labkit.check.report import Report

        try:
            value = _last_value(source, f"<cell {index}>", self.namespace)
        except BaseException as error:
            where = traceback.format_exc().splitlines()[-6:]
            said = f"{type(error).__name__}: {error}"
            self.outcome |= {"cell": index, "error": "\n".join([said, *where])}
            return
        if "parameters" in tags:
            self.namespace |= self.given
        if isinstance(value, Report):
            self.outcome["reports"].append({"cell": index, "ok": value.ok, "text": str(value)})

    def rest(self) -> None:
        """Let workers go: neither they nor the threads that wait for them outlive a fork."""
        from labkit.experiments import Lab

        for value in self.namespace.values():
            if isinstance(value, Lab):
                value._engine.close()

    def told(self) -> dict[str, Any]:
        """Say what came of the cells."""
        return {**self.outcome, "claims": {made.id: made.to_dict() for made in self.made}}


def _last_value(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run a cell; return its last expression's value, or the Report whose line it shows."""
    from labkit.check.report import Report

    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), namespace)
        return None
    tree.body.pop()
    exec(compile(tree, name, "exec"), namespace)
    shown = last.value
    if not (isinstance(shown, ast.Attribute) and shown.attr in ("summary", "ok", "failed")):
        return eval(compile(ast.Expression(shown), name, "eval"), namespace)
    value = eval(compile(ast.Expression(shown.value), name, "eval"), namespace)
    return value if isinstance(value, Report) else getattr(value, shown.attr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
