"""Compare an answer with the right one: numbers, lists, yes or no, words, named parts.

This file is plain Python without torch and numpy, because the site's pages run it. Values with a
`tolist` method, such as tensors and arrays, are compared as numbers.
"""

from collections.abc import Iterator, Mapping
from math import isclose, isfinite, isnan
from typing import Any

WRONG = "not right yet: "


def is_unanswered(yours: Any) -> bool:
    """Return whether an answer is missing: `...`, None or an empty word."""
    if yours is None or yours is ...:
        return True
    if isinstance(yours, str):
        return not yours.strip(" .?…")
    if isinstance(yours, Mapping):
        return any(is_unanswered(value) for value in yours.values())
    return isinstance(yours, list | tuple) and any(is_unanswered(value) for value in yours)


def name_open(yours: Any) -> str:
    """Return the names of the missing answers, if other answers were given."""
    if not isinstance(yours, Mapping):
        return ""
    lacking = [str(key) for key, value in yours.items() if is_unanswered(value)]
    return f": {', '.join(lacking)}" if len(lacking) < len(yours) else ""


def judge(yours: Any, truth: Any, rtol: float, hint: str = "") -> str:
    """Return an error message with the hint, or "" if the answer is right; never raise."""
    if is_unanswered(yours):
        return f"not answered yet{name_open(yours)}"
    try:
        fault = find_fault(yours, truth, rtol)
    except Exception as error:  # for any error, the reader gets a sentence
        fault = f"this cannot be compared ({type(error).__name__}: {error})"
    return f"{fault}. Hint: {hint}" if fault and hint else fault


def find_fault(yours: Any, truth: Any, rtol: float) -> str:
    """Return an error message, or "" if the answer is right.

    A number is right within a relative error of `rtol` (of the largest entry, for several numbers;
    an absolute error of `rtol` if the truth is 0).
    """
    if isinstance(truth, str):
        if not isinstance(yours, str):
            return f"the answer must be a word or a sentence, got {type(yours).__name__}"
        return "" if _normalize_text(yours) == _normalize_text(truth) else "not this one"
    if isinstance(truth, Mapping):
        if not isinstance(yours, Mapping) or set(yours) != set(truth):
            return f"the answer must have one value for each of {', '.join(map(str, truth))}"
        faults = {key: find_fault(yours[key], truth[key], rtol) for key in truth}
        wrong = [_name_part(str(key), fault) for key, fault in faults.items() if fault]
        return f"{WRONG}{', '.join(wrong)}" if wrong else ""
    if _is_several(truth):
        if not isinstance(yours, list | tuple) or len(yours) != len(truth):
            return f"the answer must be a tuple of {len(truth)} results"
        numbered = (dict(enumerate(part, start=1)) for part in (yours, truth))
        return find_fault(next(numbered), next(numbered), rtol).replace(WRONG, f"{WRONG}result ", 1)
    if isinstance(truth, bool):
        said = yours.tolist() if hasattr(yours, "tolist") else yours
        if not isinstance(said, bool):
            return f"the answer must be True or False, got {type(yours).__name__}"
        return "" if said == truth else "not this one"
    if callable(yours) or isinstance(yours, str | Mapping):
        return f"the answer must be a number, got {type(yours).__name__}"
    (shape, actual), (wanted_shape, wanted) = read_numbers(yours), read_numbers(truth)
    if shape != wanted_shape and not len(actual) == len(wanted) == 1:
        return f"the answer must have shape {wanted_shape}, got {shape}"
    allowed = rtol * (max((abs(w) for w in wanted if isfinite(w)), default=0.0) or 1.0)
    wrong = sum(not _is_close(a, w, allowed) for a, w in zip(actual, wanted, strict=True))
    if not wrong:
        return ""
    are = "is" if wrong == 1 else "are"
    return "not right yet" if len(wanted) == 1 else f"{wrong} of {len(wanted)} {are} wrong"


def _is_several(truth: Any) -> bool:
    """Return whether the truth has several results of a function, such as two tensors."""
    return isinstance(truth, tuple) and any(isinstance(part, list | tuple) for part in truth)


def _name_part(key: str, fault: str) -> str:
    """Return the name of a wrong part; if it has parts itself, the names of the wrong ones."""
    return f"{key} ({fault.removeprefix(WRONG)})" if fault.startswith(WRONG) else key


def read_numbers(value: Any) -> tuple[tuple[int, ...], list[float]]:
    """Return shape and entries, row by row; raise ValueError if rows differ in length."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return (), [float(value)]
    rows = [read_numbers(row) for row in value]
    shapes = {shape for shape, _ in rows}
    if len(shapes) > 1:
        raise ValueError("all rows must have the same length")
    return (len(rows), *next(iter(shapes), ())), [entry for _, row in rows for entry in row]


def list_numbers(value: Any) -> Iterator[float]:
    """Yield all numbers of a value, part by part."""
    if isinstance(value, Mapping | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from list_numbers(part)
    else:
        yield from read_numbers(value)[1]


def _is_close(actual: float, wanted: float, allowed: float) -> bool:
    return isclose(actual, wanted, rel_tol=0, abs_tol=allowed) or (isnan(actual) and isnan(wanted))


def _normalize_text(text: str) -> str:
    return " ".join(text.split()).strip(" .").casefold()
