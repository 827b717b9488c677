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


class Named(importlib.abc.MetaPathFinder):
    """Find packages that lie beside other things, without showing those."""

    def __init__(self, found: dict[str, str]):
        self.found = found

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a top-level package or module by the place that the grader named."""
        place = self.found.get(fullname)
        if place is None or path is not None:
            return None
        if not os.path.isdir(place):
            return importlib.util.spec_from_file_location(fullname, place)
        start = os.path.join(place, "__init__.py")
        return importlib.util.spec_from_file_location(
            fullname, start, submodule_search_locations=[place]
        )


def find_only(found: dict[str, str]) -> None:
    """Let the zygote find the packages at `found`, beside what is on its path."""
    sys.meta_path.append(Named(found))


def guarded(allowed: Iterable[str]) -> dict[str, Any]:
    """Give builtins whose import statement knows what is allowed.

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
                f"this homework may import {', '.join(names)} and Python's basics such as math; "
                f"it imports {top or 'from beside itself'}"
            )
        return original(name, globals, locals, fromlist, level)

    return {**vars(builtins), "__import__": guard}


class Absent:
    """Stand for a name whose import was refused: a definition that uses it fails, others live."""

    def __init__(self, why: str):
        object.__setattr__(self, "_why", why)

    def __getattr__(self, name: str) -> Any:
        raise Forbidden(object.__getattribute__(self, "_why"))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Refuse, as every use does."""
        raise Forbidden(object.__getattribute__(self, "_why"))
