"""Check an answer that was worked out by hand, without giving the right one away."""

from collections.abc import Mapping
from typing import Any

from labkit.check.compare import find_fault, is_unanswered, name_open, read_numbers
from labkit.check.report import Law, Report


def answer(yours: Any, truth: Any, *, name: str = "", hint: str = "", rtol: float = 1e-3) -> Report:
    """Compare your answer with the right one: a number, several numbers, yes or no, or a word.

    `...` and None mean that you have not answered yet. A number is right within `rtol` of the
    truth (of the largest entry, where several numbers are wanted; within `rtol` itself where the
    truth is 0). A wrong answer gives the hint, never the truth. Shown in a notebook, the report
    carries what the site needs to ask the same on its page.
    """
    title = f"answer {name}".strip()

    def ask() -> dict[str, Any] | None:
        asked = list_questions(truth)
        if asked is None:
            return None
        return {"kind": "hand", "name": name, "asks": asked, "hint": hint, "rtol": rtol}

    if is_unanswered(yours):
        lacks = f"not answered yet{name_open(yours)}"
        return Report(title, (Law(name or "answer", False, "", lacks),), ask=ask)
    try:
        message = find_fault(yours, truth, rtol)
    except Exception as error:  # whatever came, the reader gets a sentence
        message = f"this cannot be compared ({type(error).__name__}: {error})"
    if message and hint:
        message += f". Hint: {hint}"
    return Report(title, (Law(name or "answer", not message, "", message),), ask=ask)


def list_questions(truth: Any) -> list[dict[str, Any]] | None:
    """List what a form must ask for: a key, the kind of its answer, and the answer.

    None where the truth is more than numbers, lists of them, yes or no and words.
    """
    parts = truth if isinstance(truth, Mapping) else {"": truth}
    asked = []
    for key, part in parts.items():
        if isinstance(part, bool | str):
            kind, wanted = ("yes or no" if isinstance(part, bool) else "word"), part
        else:
            try:
                shape, numbers = read_numbers(part)
            except (TypeError, ValueError):
                return None
            if len(shape) > 1:
                return None
            kind, wanted = ("numbers", numbers) if shape else ("number", numbers[0])
        asked.append({"key": str(key), "kind": kind, "truth": wanted})
    return asked
