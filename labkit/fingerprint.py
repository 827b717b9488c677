"""Fingerprint source code: which of our modules it reaches, and one hash of what they say.

Runs and chapters are kept under such a hash, so that only a change of meaning makes them run
again: comments, docstrings and layout do not count, nor does a module that is never imported.
"""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

# The packages that this repository holds, and the folders where one of them may lie.
OURS = ("labkit", "normkernels")
FOLDERS = (".", "kernels")


@cache
def fingerprint_of(*modules: str) -> str:
    """Hash the code that these modules reach, in the labkit that is running."""
    return fingerprint(closure(modules, Path(__file__).resolve().parents[1]))


def fingerprint(files: Mapping[str, Path]) -> str:
    """Hash what modules (name to file) say, blind to comments, docstrings, layout and place."""
    digest = hashlib.sha256()
    for module in sorted(files):
        meaning = ast.dump(without_docstrings(parse(files[module])))
        digest.update(f"{module}\0{meaning}\0".encode())
    return digest.hexdigest()


def closure(modules: Iterable[str], root: Path) -> dict[str, Path]:
    """Follow imports from these modules to every module of ours that they reach, themselves too.

    A package's `__init__` does not count for being a parent, only for a name that is made there.
    Imports inside functions count; names computed at run time cannot be seen.
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    for module in waiting:
        if locate(module, root) is None:
            raise ValueError(
                f"a fingerprint needs a module of {' or '.join(OURS)}; no {module!r} in {root}"
            )
    while waiting:
        module = waiting.pop()
        path = locate(module, root)
        if module in found or path is None:
            continue
        found[module] = path
        waiting += imported(parse(path), root, package_of(module, path))
    return found


def imported(tree: ast.AST, root: Path, package: str = "") -> set[str]:
    """List the modules of ours that this code imports, relative imports counted from `package`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if locate(alias.name, root)}
        elif isinstance(node, ast.ImportFrom):
            origin = absolute(node, package)
            for alias in node.names:
                names |= homes(origin, alias.name, root)
    return names


def homes(
    module: str, name: str, root: Path, seen: frozenset[tuple[str, str]] = frozenset()
) -> set[str]:
    """Find what `from module import name` reads, seeing through an `__init__` that passes on."""
    path = locate(module, root)
    if path is None or (module, name) in seen:
        return set()
    if path.name != "__init__.py" or name == "*":
        return {module}
    found = {f"{module}.{name}"} if locate(f"{module}.{name}", root) else set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom):
            origin = absolute(node, module)
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    found |= homes(origin, alias.name, root, seen | {(module, name)})
    return found or {module}


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Spell out the module of a from-import, whose leading dots count upwards from `package`."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    base = parents[: len(parents) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def locate(module: str, root: Path) -> Path | None:
    """Find the file of a module of ours; None for everybody else's."""
    parts = module.split(".")
    if parts[0] not in OURS:
        return None
    for folder in FOLDERS:
        place = root.joinpath(folder, *parts)
        for path in (place / "__init__.py", place.parent / f"{place.name}.py"):
            if path.is_file():
                return path
    return None


def package_of(module: str, path: Path) -> str:
    """Name the package in which a module's relative imports start."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Drop the docstring of the module and of every class and function in it."""
    for node in ast.walk(tree):
        documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return tree


def parse(path: Path) -> ast.Module:
    """Read a source file as a syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
