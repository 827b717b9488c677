"""Which code determines results: hashes of modules without comments and docstrings, and imports.

A comment changes no number. So a module counts by its syntax tree, and as text only where somebody
reads its text: `labkit.check` prints the docstrings of its laws, chapters show source.
"""

import ast
import hashlib
import json
from functools import cache
from typing import Any

from labkit.system.files import folder_of

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PACKAGES = ("labkit", "normkernels", "press")  # this project's
READ_AS_TEXT = ("labkit.check.", "normkernels.")


def hash_syntax(text: str) -> str:
    """Hash what Python code does: its syntax tree without docstrings, positions and comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hash_text(ast.dump(tree))


def hash_text(text: str) -> str:
    """Hash a string."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def hash_modules(package: str) -> dict[str, str]:
    """Hash each module of a package, as it was when this process first read it."""
    return {
        name: hash_text(text) if f"{name}.".startswith(READ_AS_TEXT) else hash_syntax(text)
        for name, text in _read_modules(package).items()
    }


@cache
def hash_texts(package: str) -> dict[str, str]:
    """Hash the text of each module of a package, as it was when this process first read it."""
    return {name: hash_text(text) for name, text in _read_modules(package).items()}


@cache
def _read_modules(package: str) -> dict[str, str]:
    folder = folder_of(package)
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join((package, *parts))] = path.read_text(encoding="utf-8")
    return found


@cache
def hash_closure(module: str) -> str:
    """Hash a module and all modules of its package that it imports, directly or indirectly."""
    known = hash_modules(module.partition(".")[0])
    return hash_text(json.dumps({name: known.get(name, "absent") for name in list_closure(module)}))


def list_closure(module: str) -> list[str]:
    """List a module and all modules of its package that it imports, directly or indirectly."""
    package = module.partition(".")[0]
    return sorted({module, *_build_graph(package).find_upstream_modules(module)})


@cache
def _build_graph(package: str) -> Any:
    import grimp

    return grimp.build_graph(package, cache_dir=None)
