"""Run code that is trusted, here and now: the reference solution, and the student's empty stubs.

A submission never comes here: labkit.homework.sandbox is for those.
"""

import ast
import contextlib
import copy
import io
import linecache
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from labkit.homework.sandbox.answer import Answer


def execute(
    source: str, name: str, namespace: dict[str, Any], body: Sequence[ast.stmt] | None = None
) -> str:
    """Execute a source, or some of its statements, and give what it printed; errors come as such.

    Its lines can be looked up under <name>, as tracebacks and Triton want them.
    """
    namespace.setdefault("__name__", "__main__")
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        tree = ast.Module(list(ast.parse(source).body if body is None else body), [])
        exec(compile(tree, file, "exec"), namespace)
    return printed.getvalue()


class Trusted:
    """What the private tests call `student`, with trusted code behind it.

    As in a worker, a statement that does not run (a stub at the top level) leaves its names
    missing and the others there.
    """

    def __init__(self, program: str, probes: str = "", name: str = "reference"):
        self._names: dict[str, Any] = {}
        for node in ast.parse(program).body:
            with contextlib.suppress(NotImplementedError, NameError):
                execute(program, name, self._names, [node])
        self._probes: dict[str, Any] = {}
        execute(probes, f"{name}'s probes", self._probes)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Call a function of the code."""
        return _answer(self._names, name, (), args, kwargs)

    def probe(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Call a probe with the code's names as its first argument."""
        return _answer(self._probes, name, (SimpleNamespace(**self._names),), args, kwargs)


def _answer(
    names: Mapping[str, Any],
    name: str,
    first: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Answer:
    if name not in names:
        return Answer(value=None, failure="missing", detail=f"{name} is not defined")
    # A worker gets copies, and so does this: nothing that it changes comes back to the test.
    args, kwargs = copy.deepcopy((args, kwargs))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            value = names[name](*first, *args, **kwargs)
        except Exception as error:
            return Answer(value=None, failure="raised", detail=f"{type(error).__name__}: {error}")
    return Answer(value=value, failure="", detail="", printed=printed.getvalue())
