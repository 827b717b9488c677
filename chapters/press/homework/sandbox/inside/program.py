"""A submission's definitions, run one by one, so that one that fails affects no others."""

import __future__

import ast
import linecache
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .imports import Forbidden, guard_builtins

_OUT_OF_MEMORY = "can't allocate memory", "not enough memory"


class Missing(AttributeError):
    """No definition has this name."""


class Broken(AttributeError):
    """The definitions do not run; the message says why, and `failure` names the kind of error."""

    def __init__(self, failure: str, detail: str):
        super().__init__(detail)
        self.failure = failure


class Absent:
    """Stand-in for a name whose import failed: only definitions that use it fail, saying why."""

    def __init__(self, why: Broken):
        object.__setattr__(self, "_why", why)

    def __getattr__(self, name: str) -> Any:
        raise object.__getattribute__(self, "_why")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Raise the error, as every use does."""
        raise object.__getattribute__(self, "_why")


class Student:
    """The `student` of a probe: the submission's names; a missing one raises the reason."""

    def __init__(self, program: "Program"):
        vars(self).update(program.list_definitions())
        self._program = program

    def __getattr__(self, name: str) -> Any:
        # Only a name that no definition has set comes here.
        return self._program.find(name)


class Program:
    """The names of one submission, and of the homework's probes."""

    def __init__(self, allowed: list[str]):
        self.allowed = allowed
        self.names: dict[str, Any] = {}
        self.probes: dict[str, Any] = {}
        self.broken: dict[str, Broken] = {}  # by the name whose definition failed
        self.probes_broken = ""

    def load(self, program: str, probes: str) -> None:
        """Run the definitions, then the probes; errors are stored, not raised."""
        module = _make_module("submission", "<submission>", program)
        self.names = vars(module)
        self.names["__builtins__"] = guard_builtins(self.allowed)
        try:
            self._run_statements(program, "<submission>")
        except BaseException as error:  # not Python, or nested too deeply to be read
            self.broken[""] = Broken("broken", _describe_error(error))
        self.probes = vars(_make_module("probes", "<probes>", probes))
        try:
            exec(compile(probes, "<probes>", "exec"), self.probes)
        except BaseException as error:
            self.probes_broken = _describe_error(error)

    def _run_statements(self, text: str, file: str) -> None:
        """Run the statements in order; run one that lacks a name again once others defined it."""
        flags, waiting = 0, ast.parse(text, file).body
        while waiting:
            lacking: list[tuple[ast.stmt, NameError]] = []
            for node in waiting:
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    features = [getattr(__future__, alias.name, None) for alias in node.names]
                    flags |= sum(each.compiler_flag for each in features if each)
                try:
                    one = ast.Module([node], [])
                    exec(compile(one, file, "exec", flags=flags, dont_inherit=True), self.names)
                except NameError as error:
                    lacking.append((node, error))
                except BaseException as error:
                    self._remember_failure(node, error)
                else:
                    for name in _list_bound(node):
                        self.broken.pop(name, None)
            if len(lacking) == len(waiting):
                for node, error in lacking:
                    self._remember_failure(node, error)
                return
            waiting = [node for node, _ in lacking]

    def _remember_failure(self, node: ast.stmt, error: BaseException) -> None:
        failure = self.describe_failure(error)
        kind = failure["failure"] if failure["failure"] in ("forbidden", "memory") else "broken"
        broken = Broken(kind, failure["detail"])
        for name in _list_bound(node) or [""]:
            self.broken.setdefault(name, broken)
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.names[name] = Absent(broken)

    def find(self, name: str) -> Callable[..., Any]:
        """Find the object that a call names; raise Broken or Missing."""
        if name in self.broken:
            raise self.broken[name]
        if name in self.names and not name.startswith("__"):
            return self.names[name]
        if "" in self.broken:
            raise self.broken[""]
        raise Missing(f"the submission must define {name}, but does not")

    def find_probe(self, name: str) -> Callable[..., Any]:
        """Find a probe, with the submission's definitions bound as its first argument."""
        if "" in self.broken and not any(map(callable, self.list_definitions().values())):
            raise self.broken[""]
        if name not in self.probes:
            raise Broken("broken", self.probes_broken or f"the homework has no probe {name}")
        probe, student = self.probes[name], Student(self)
        return lambda *arguments, **named: probe(student, *arguments, **named)

    def list_definitions(self) -> dict[str, Any]:
        """Return what the submission defines, by name."""
        return {key: each for key, each in self.names.items() if not key.startswith("__")}

    def describe_failure(self, error: BaseException) -> dict[str, str]:
        """Describe an error by two words of the protocol."""
        if isinstance(error, Missing):
            return {"failure": "missing", "detail": str(error)}
        if isinstance(error, Broken):
            return {"failure": error.failure, "detail": str(error)}
        if isinstance(error, Forbidden):
            return {"failure": "forbidden", "detail": str(error)}
        said = _describe_error(error)
        memory = isinstance(error, MemoryError) or any(word in said for word in _OUT_OF_MEMORY)
        return {"failure": "memory" if memory else "raised", "detail": said}


def _describe_error(error: BaseException) -> str:
    """Format an exception's name and message for a student."""
    try:
        message = str(error)[:2000]
    except BaseException:
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _list_bound(node: ast.stmt) -> list[str]:
    """List the names that one statement would have defined."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    names = []
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(each.name)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name.partition(".")[0] for alias in each.names]
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            names.append(each.id)
    return names


def _make_module(name: str, file: str, text: str) -> ModuleType:
    """Make a module whose source Python's tools can find, as Triton requires."""
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return module
