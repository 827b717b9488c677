"""Run trusted code in this process: the reference solution, and the empty stubs.

A submission never comes here: press.homework.sandbox is for those. What is run is what a worker
runs, with its rules for imports and for what may cross, so that a release finds out what grading
would refuse.
"""

import contextlib
import io
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import torch

from press.homework.sandbox.answer import Answer
from press.homework.sandbox.inside import wire
from press.homework.sandbox.inside.program import Program

LARGEST = 64 << 20  # bytes of one message


def execute_cell(source: str, name: str, namespace: dict[str, Any]) -> str:
    """Execute a cell in a namespace and return its output; errors are not caught.

    Its lines can be looked up under <name>, as tracebacks and Triton want them.
    """
    namespace.setdefault("__name__", "__main__")
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(source, file, "exec"), namespace)
    return printed.getvalue()


class Trusted:
    """The `student` of private tests, backed by trusted code."""

    def __init__(self, program: str, probes: str, packages: Sequence[str]):
        torch.manual_seed(0)  # as in a worker
        self._program = Program(list(packages))
        with contextlib.redirect_stdout(io.StringIO()):
            self._program.load(program, probes)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Call a function of the code."""
        return self._answer_call(lambda: self._program.find(name), args, kwargs)

    def probe(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Call a probe, with the code's names as its first argument."""
        return self._answer_call(lambda: self._program.find_probe(name), args, kwargs)

    def _answer_call(
        self, find: Callable[[], Callable[..., Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Answer:
        args, kwargs = _cross_wire((args, kwargs))
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                value = find()(*args, **kwargs)
            except Exception as error:
                told = self._program.describe_failure(error)
                return Answer(failure=told["failure"], detail=told["detail"])
        try:
            return Answer(value=_cross_wire(value))
        except wire.Refused as error:
            return Answer(failure="refused", detail=str(error))


def _cross_wire(value: Any) -> Any:
    """Return what would arrive at the other end: a contiguous copy without gradients."""
    message = wire.write_frame({}, value, LARGEST)
    return wire.receive(io.BytesIO(message).read, LARGEST)[1]
