"""Figures of the book: from numbers to a `Figure` with alt text and caption; no torch.

`__init__.pyi` lists the figures. A module is imported when one of its figures is first used, so
that a chapter is executed again only if one of its own figures has changed.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_HOMES = {
    name.name: line.module
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(line, ast.ImportFrom)
    for name in line.names
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"labkit.plots has no {name!r}; it has {', '.join(__dir__())}")
    figure = getattr(import_module(f"labkit.plots.{_HOMES[name]}"), name)
    globals()[name] = figure  # importing a module of the same name has set this
    return figure


def __dir__() -> list[str]:
    return sorted(_HOMES)
