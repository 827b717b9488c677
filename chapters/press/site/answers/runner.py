"""Run a reader's answer in the page and report errors; answers-worker.js calls `check`.

It stands on labkit.check.calls, which checks the same answer with torch in a notebook.
"""

import contextlib
import io
import json
import math
import sys
import types
from typing import Any

from labkit.check.calls import describe_error, try_functions

FILE = "your answer"
MOST = 1000  # characters of what an answer prints


class Absent:
    """Stand-in for a package that is missing here; every use raises an error."""

    def __init__(self, package: str):
        self._package = package

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self._package} is not available on this page; use it in JupyterLab")


def install(torch: types.ModuleType) -> None:
    """Make `import torch` in an answer find the stand-in."""
    sys.modules["torch"] = torch
    for name, part in (("torch.nn", torch.nn), ("torch.nn.functional", torch.nn.functional)):
        module = types.ModuleType(name)
        module.__getattr__ = part.__getattribute__  # type: ignore[method-assign]
        sys.modules[name] = module


def check(text: str, task: str, torch: Any) -> str:
    """Check an answer, the source of a cell, by a JSON task; return the verdict as JSON.

    The verdict has message and cause, empty where all is right, and what was printed.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        message, cause = _try_answer(text, json.loads(task), torch)
    return json.dumps({"message": message, "cause": cause, "printed": printed.getvalue()[:MOST]})


def _try_answer(text: str, task: Any, torch: Any) -> tuple[str, str]:
    names = {"torch": torch, "math": math}
    scope: dict[str, Any] = {
        **names, "nn": torch.nn, "F": torch.nn.functional, "np": Absent("NumPy"),
        "__name__": "__main__",
    }  # fmt: skip
    try:
        exec(compile(text, FILE, "exec"), scope)
    except BaseException as error:  # the reader's code: whatever it raises is told
        return describe_error(error, FILE), ""
    functions = {name: scope.get(name) for name in task["functions"]}
    for name, function in functions.items():
        if not callable(function):
            return f"there is no function {name} in the answer", ""
    return try_functions(functions, task, names)  # type: ignore[arg-type]
