"""What a submission may import: the packages of its homework, and a safe part of Python."""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

_SAFE = """
    __future__ abc array bisect cmath collections contextlib copy dataclasses datetime decimal enum
    fractions functools heapq itertools json math numbers operator pprint random re statistics
    string struct textwrap time typing types warnings
"""
SAFE = frozenset(_SAFE.split())


class Forbidden(ImportError):
    """An import that the homework does not allow."""


class Found(importlib.abc.MetaPathFinder):
    """Find the packages outside any site folder, at the paths that the grader gave."""

    def __init__(self, found: dict[str, str]):
        self.found = found

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a top-level package or module; leave submodules to Python."""
        if path is not None or fullname not in self.found:
            return None
        return _make_spec(fullname, self.found[fullname])


def _make_spec(name: str, place: str) -> importlib.machinery.ModuleSpec | None:
    if not os.path.isdir(place):
        return importlib.util.spec_from_file_location(name, place)
    return importlib.util.spec_from_file_location(
        name, os.path.join(place, "__init__.py"), submodule_search_locations=[place]
    )


def install_finder(found: dict[str, str]) -> None:
    """Let the zygote and its workers find these packages, too."""
    at = sys.meta_path.index(importlib.machinery.PathFinder)  # after what is built in
    sys.meta_path.insert(at, Found(found))


def guard_builtins(allowed: Iterable[str]) -> dict[str, Any]:
    """Return builtins whose import statement accepts only what is allowed.

    This is a clear message for an honest submission, not a wall: what cannot be read is the wall.
    """
    names = sorted(set(allowed))
    may = SAFE | set(names)
    original: Callable[..., Any] = builtins.__import__

    def guard(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        top = str(name).partition(".")[0]
        if level or top not in may:
            raise Forbidden(
                f"this homework may import only {', '.join(names)} and basic modules of Python "
                f"such as math, but imports {top or 'a file by a relative import'}"
            )
        return original(name, globals, locals, fromlist, level)

    return {**vars(builtins), "__import__": guard}
