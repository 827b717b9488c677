"""A reader's own norm: one file, available to every run without changes to labkit.

    name = own_norm("my_norm.py")                       # mean-abs@3f2a9c01b2d4
    Run(ModelConfig(norm=name), …)

The file defines one nn.Module whose constructor takes `dim` first; all its other arguments have
defaults. Its class may set `name`, and the facts that labkit's norms declare
(`labkit.norms.Facts`). The returned name ends in a hash of the file's code, so that a run's key
identifies the norm by content: a comment changes nothing, and any other edit makes a new norm whose
runs train again.

Workers get the source with each task, from the process that requested it. The store contains only
the name; no stored source is ever executed.
"""

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from labkit.norms import NORMS

DIGITS = 12  # of the hash, in a name
_SOURCES: dict[str, str] = {}  # by full name, to send to workers


def own_norm(given: str | Path) -> str:
    """Register a file's norm in this process, and return its full name, a key of NORMS.

    `given` is a path that ends in .py, or the source itself.

    Raises:
        ValueError: the file does not exist, is not Python, or does not define exactly one norm.
    """
    return _register_norm(
        *_read_source(given), Path(given).parent if "\n" not in str(given) else None
    )


def strip_hash(name: str) -> str:
    """Remove the hash: mean-abs@3f2a9c01b2d4 becomes mean-abs."""
    return name.partition("@")[0]


def sources_of(task: Iterable[Any]) -> dict[str, str]:
    """Return the sources of the readers' norms that these runs use, by full name."""
    norms = (getattr(run.model, "norm", "") for run in task)
    return {name: _SOURCES[name] for name in norms if name in _SOURCES}


def register_sources(sources: Mapping[str, str]) -> None:
    """Register norms that came with a task; raise ValueError if one does not match its name."""
    for name, text in sources.items():
        if name not in _SOURCES and (found := _register_norm(text, strip_hash(name))) != name:
            raise ValueError(
                "a norm's source must define the norm that it was sent as, but the source of "
                f"{name} defines {found}; send the task again"
            )


def _register_norm(text: str, stem: str, beside: Path | None = None) -> str:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(
            f"a norm's file must be Python, but line {error.lineno} of {stem} is not "
            f"({error.msg}); correct that line"
        ) from error
    _refuse_local_imports(tree, stem, beside)
    digest = hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:DIGITS]
    known = next((name for name in _SOURCES if name.endswith(f"@{digest}")), None)
    if known is not None:
        return known
    kind = _norm_in(_execute_source(text, f"own_norm_{digest}", stem), stem)
    name = f"{_name_of(kind, stem)}@{digest}"
    _try_norm(kind, stem)
    NORMS[name] = kind
    _SOURCES[name] = text
    return name


def _read_source(given: str | Path) -> tuple[str, str]:
    if isinstance(given, str) and "\n" in given:
        return given, "norm"
    path = Path(given)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"your norm must be in a file that ends in .py, got {str(given)!r}, which is "
            f"{'no file' if path.suffix == '.py' else 'not one'}; `labkit leaderboard --starter "
            "my_norm.py` writes a template"
        )
    return path.read_text(encoding="utf-8"), path.stem


def _refuse_local_imports(tree: ast.Module, stem: str, beside: Path | None) -> None:
    """Refuse imports of neighbouring files: a worker gets one file, and a key covers one."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f".{node.module or ''}" if node.level else node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            local = beside is not None and (beside / f"{top}.py").is_file()
            if not top or local:
                raise ValueError(
                    f"your norm must be in one file, but {stem} imports {name!r} from its folder; "
                    "move the imported code into the file"
                )


def _execute_source(text: str, module: str, stem: str) -> ModuleType:
    made = ModuleType(module)
    made.__file__ = f"<{stem}>"
    try:
        exec(compile(text, f"<{stem}.py>", "exec"), made.__dict__)
    except Exception as error:
        raise ValueError(
            f"a norm's file must run when it is imported, but {stem} raised "
            f"{type(error).__name__}: {error}; try `python {stem}.py`"
        ) from error
    sys.modules[module] = made  # so that its classes have a home
    return made


def _norm_in(module: ModuleType, stem: str) -> type[nn.Module]:
    kinds = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, nn.Module)
        and value.__module__ == module.__name__
    ]  # fmt: skip
    # A class that another one extends is not the intended one.
    kinds = [kind for kind in kinds if not any(issubclass(o, kind) for o in kinds if o is not kind)]
    if len(kinds) != 1:
        names = ", ".join(kind.__name__ for kind in kinds) or "none"
        raise ValueError(
            f"a norm's file must define exactly one nn.Module, but {stem} defines {names}; keep "
            "only one"
        )
    parameters = list(inspect.signature(kinds[0].__init__).parameters.values())[1:]
    if not parameters or parameters[0].name != "dim":
        first = parameters[0].name if parameters else "nothing"
        raise ValueError(
            "the first argument of a norm's constructor must be dim, the size of the last axis, "
            f"but that of {kinds[0].__name__} is {first}; write def __init__(self, dim, …)"
        )
    needed = [
        p.name
        for p in parameters[1:]
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise ValueError(
            f"every argument of a norm except dim must have a default, but {', '.join(needed)} of "
            f"{kinds[0].__name__} has none; add one"
        )
    return kinds[0]


def _try_norm(kind: type[nn.Module], stem: str) -> None:
    try:
        with torch.random.fork_rng(devices=[]):
            getattr(kind, "on_last_axis", kind)(8)(torch.ones(2, 3, 8))
    except Exception as error:
        raise ValueError(
            "a norm made for 8 features must accept a tensor of shape (2, 3, 8), but "
            f"{kind.__name__} of {stem} raised {type(error).__name__}: {error}; "
            "labkit.check.any_norm tests it law by law"
        ) from error


def _name_of(kind: type[nn.Module], stem: str) -> str:
    asked = vars(kind).get("name", stem.replace("_", "-").lower())
    if not isinstance(asked, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", asked):
        raise ValueError(
            "a norm's name must consist of a-z, 0-9 and -, and begin with a letter; got "
            f"{asked!r}; set `name` in the class"
        )
    if asked in NORMS:
        raise ValueError(
            f"your norm needs a new name, but {asked!r} is one of labkit's norms; set another "
            "`name` in the class"
        )
    return asked
