"""Check a function that the reader wrote: compare its results with the right ones."""

from collections.abc import Callable, Iterator, Mapping
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from labkit.check.calls import call, mark, try_functions
from labkit.check.report import Law, Report

Function = Callable[..., Any]
NAMES = {"torch": torch, "inf": inf, "nan": nan}  # what the text of a case may use
KINDS = "tensors, numbers, texts, lists, tuples, dictionaries and None"


def function(
    mine: Function | Mapping[str, Function],
    cases: tuple | Mapping[str, tuple],
    wanted: Any,
    *,
    look: str = "",
    slips: Mapping[str, Function] | None = None,
    name: str = "",
    hint: str = "",
    rtol: float = 1e-3,
) -> Report:
    """Call your function on each case and compare the results with the expected ones.

    `cases` is the tuple of arguments of one call, or a mapping from labels to such tuples; a string
    that begins with "lambda" is a function of tensors. `wanted` is the right function, or the
    result itself (by label, for several cases). `look`, the source of a lambda (f, *arguments),
    computes the value to compare, if it is not simply f(*arguments). `slips` maps descriptions of
    likely mistakes to functions that make them. `mine` may map names to functions; `wanted` then
    has the same names.

    Tolerance and hint work as in `check.answer`. Errors in your function are never raised. In a
    notebook, the report's output includes these cases, with which the site's page checks an answer.

    Raises TypeError for an argument that cannot be written as text.
    """
    title = f"answer {name}".strip()
    for each in mine.values() if isinstance(mine, Mapping) else [mine]:
        if lacks := _find_lack(each):
            return Report(title, (Law(name or "answer", False, "", lacks),))
    calls = list(_list_calls(mine, cases, wanted))
    several = len(calls) > 1
    task: dict[str, Any] = {
        "kind": "code",
        "name": name,
        "functions": list(dict.fromkeys(_name(each) for _, each, _, _ in calls)),
        "cases": [
            {
                "function": _name(each),
                "label": label if several else "",
                "given": ", ".join(map(write, arguments)),
            }
            for label, each, arguments, _ in calls
        ],
        "look": look,
        "rtol": rtol,
        "hint": hint,
        "note": "",
    }
    for case, (*_, right) in zip(task["cases"], calls, strict=True):
        result = call(right, case["given"], look, NAMES) if callable(right) else right
        case["wanted"] = write_result(result)
    task["slips"] = [
        (cause, [mark(call(wrong, case["given"], look, NAMES)) for case in task["cases"]])
        for cause, wrong in (slips or {}).items()
    ]
    functions = {_name(each): each for _, each, _, _ in calls}
    message, cause = try_functions(functions, task, NAMES)
    return Report(title, (Law(name or "answer", not message, cause, message),), ask=lambda: task)


def _find_lack(given: Any) -> str:
    """Return the message for a missing function, or "" if there is a function."""
    if given is None or given is ...:
        return "not answered yet"
    return "" if callable(given) else f"the answer must be a function, got {type(given).__name__}"


def _name(given: Function) -> str:
    return getattr(given, "__name__", type(given).__name__)


def _list_calls(
    mine: Any, cases: Any, wanted: Any
) -> Iterator[tuple[str, Function, tuple[Any, ...], Any]]:
    """Yield label, function, arguments, and the right function or result of each call."""
    labelled = cases if isinstance(cases, Mapping) else {"": cases}
    several = isinstance(mine, Mapping)
    for key, each in mine.items() if several else [("", mine)]:
        right = wanted[key] if several else wanted
        for label, arguments in labelled.items():
            told = ", ".join(filter(None, [key, label]))
            result = right if callable(right) or label == "" else right[label]
            yield told, each, arguments, result


def write(value: Any) -> str:
    """Write an argument as Python source that torch, or its substitute, can evaluate."""
    if isinstance(value, Tensor):
        kind = f", dtype={value.dtype}" if value.dtype != torch.get_default_dtype() else ""
        return f"torch.tensor({value.tolist()}{kind})"
    if isinstance(value, str):
        return f"({value})" if value.startswith("lambda") else repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{write(k)}: {write(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(write, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if value else "()"
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int | float):
        return repr(float(value)) if isinstance(value, float) else repr(int(value))
    raise TypeError(f"an argument must consist of {KINDS}; got {type(value).__name__}")


def write_result(value: Any) -> str:
    """Write a result as numbers, which can be compared without tensors."""
    if isinstance(value, Mapping):
        parts = (f"{key!r}: {write_result(part)}" for key, part in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        inner = "".join(f"{write_result(part)}, " for part in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return write(value.tolist() if hasattr(value, "tolist") else value)
