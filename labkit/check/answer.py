"""Check an answer that was worked out by hand, without giving the right one away."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from labkit.check.report import Law, Report


def answer(yours: Any, truth: Any, *, name: str = "", hint: str = "", rtol: float = 1e-3) -> Report:
    """Compare your answer with the right one: a number, several numbers, yes or no, or a word.

    `...` and None mean that you have not answered yet. A number is right within `rtol` of the
    truth (of the largest entry, where several numbers are wanted; within `rtol` itself where the
    truth is 0). A wrong answer gives the hint, never the truth.
    """
    title = f"answer {name}".strip()
    if _is_unanswered(yours):
        lacks = f"not answered yet{_name_open(yours)}"
        return Report(title, (Law(name or "answer", False, "", lacks),))
    try:
        message = _find_fault(yours, truth, rtol)
    except Exception as error:  # whatever came, the reader gets a sentence
        message = f"this cannot be compared ({type(error).__name__}: {error})"
    if message and hint:
        message += f". Hint: {hint}"
    return Report(title, (Law(name or "answer", not message, "", message),))


def _is_unanswered(yours: Any) -> bool:
    if yours is None or yours is ...:
        return True
    if isinstance(yours, str):
        return not yours.strip(" .?…")
    if isinstance(yours, Mapping):
        return any(_is_unanswered(value) for value in yours.values())
    return isinstance(yours, list | tuple) and any(_is_unanswered(value) for value in yours)


def _name_open(yours: Any) -> str:
    """Name the answers that are lacking, where others were given."""
    if not isinstance(yours, Mapping):
        return ""
    lacking = [str(key) for key, value in yours.items() if _is_unanswered(value)]
    return f": {', '.join(lacking)}" if len(lacking) < len(yours) else ""


def _find_fault(yours: Any, truth: Any, rtol: float) -> str:
    """Return what is wrong, or nothing."""
    if isinstance(truth, str):
        if not isinstance(yours, str):
            return f"a word or a sentence is wanted, got {type(yours).__name__}"
        return "" if _normalize_text(yours) == _normalize_text(truth) else "not this one"
    if isinstance(truth, Mapping):
        if not isinstance(yours, Mapping) or set(yours) != set(truth):
            return f"one answer for each of {', '.join(map(str, truth))} is wanted"
        wrong = [str(key) for key in truth if _find_fault(yours[key], truth[key], rtol)]
        return f"not right yet: {', '.join(wrong)}" if wrong else ""
    if isinstance(truth, bool):
        if not isinstance(yours, bool | np.bool_):
            return f"True or False is wanted, got {type(yours).__name__}"
        return "" if bool(yours) == truth else "not this one"
    if callable(yours) or isinstance(yours, str | Mapping):
        return f"a number is wanted, got {type(yours).__name__}"
    actual, wanted = _to_array(yours), _to_array(truth)
    if actual.shape != wanted.shape and not actual.size == wanted.size == 1:
        return f"an answer of shape {wanted.shape} is wanted, got {actual.shape}"
    actual = actual.reshape(wanted.shape)
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = float(finite.max()) if finite.size else 0.0
    allowed = rtol * (largest if largest > 0 else 1.0)
    close = np.isclose(actual, wanted, rtol=0.0, atol=allowed, equal_nan=True)
    if close.all():
        return ""
    return (
        "not right yet" if close.size == 1 else f"{int((~close).sum())} of {close.size} not right"
    )


def _to_array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().double()
    if isinstance(value, list | tuple):
        value = [_to_array(entry).tolist() for entry in value]
    return np.asarray(value, dtype=np.float64)


def _normalize_text(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip(" .").casefold()
