"""Fingerprint source code: which of our modules it reaches, and one hash of what they say.

Runs and chapters are kept under such a hash, so that only a change of meaning makes them run
again: comments, docstrings and layout do not count, nor does a module that is never imported.
"""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# The packages that this repository holds, and the folders where one of them may lie.
OURS = ("labkit", "normkernels")
FOLDERS = (".", "kernels")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def fingerprint_of(*modules: str) -> str:
    """Hash the code that these modules reach, in the labkit that is running."""
    return fingerprint(closure(modules, Path(__file__).resolve().parents[1]))


def fingerprint(files: Mapping[str, Path]) -> str:
    """Hash what modules (name to file) say, blind to comments, docstrings, layout and place."""
    whole = hashlib.sha256()
    for module in sorted(files):
        whole.update(f"{module}\0{source(files[module]).meaning}\0".encode())
    return whole.hexdigest()


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
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        waiting += imported(source(path), root, package)
    return found


def imported(code: "Source", root: Path, package: str = "") -> set[str]:
    """List the modules of ours that code imports, relative imports counted from `package`."""
    names = {name for name in code.imports if locate(name, root)}
    for level, module, name, _ in code.froms:
        names |= homes(absolute(level, module, package), name, root)
    return names


def homes(
    module: str, name: str, root: Path, seen: frozenset[tuple[str, str]] = frozenset()
) -> set[str]:
    """Find what `from module import name` reads, seeing through an `__init__` that passes on."""
    path = locate(module, root)
    found = {f"{module}.{name}"} if locate(f"{module}.{name}", root) else set()
    if path is None or (module, name) in seen:
        return found
    if path.name != "__init__.py" or name == "*":
        return {module}
    for level, origin, original, known_as in source(path).froms:
        if name == known_as:
            origin = absolute(level, origin, module)
            found |= homes(origin, original, root, seen | {(module, name)})
    return found or {module}


def absolute(level: int, module: str, package: str) -> str:
    """Spell out the module of a from-import, whose leading dots count upwards from `package`."""
    if not level:
        return module
    parents = package.split(".")
    base = parents[: len(parents) - level + 1]
    return ".".join([*base, module] if module else base)


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


@dataclass(frozen=True)
class Source:
    """What matters of a source file: the hash of its meaning, and its imports."""

    meaning: str
    imports: tuple[str, ...]
    froms: tuple[tuple[int, str, str, str], ...]  # level, module, name, name here


def source(path: Path) -> Source:
    """Read a source file."""
    return digest(path.read_bytes(), str(path))


@cache
def digest(text: bytes, filename: str = "<code>") -> Source:
    """Boil code down to its meaning and its imports."""
    tree = ast.parse(text, filename)
    imports, froms = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            froms += [
                (node.level, node.module or "", alias.name, alias.asname or alias.name)
                for alias in node.names
            ]
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    meaning = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return Source(meaning, tuple(imports), tuple(froms))
