"""Check an answer that was worked out by hand, without revealing the right one."""

from collections.abc import Mapping
from typing import Any

from labkit.check.compare import judge, read_numbers
from labkit.check.report import Law, Report


def answer(yours: Any, truth: Any, *, name: str = "", hint: str = "", rtol: float = 1e-3) -> Report:
    """Compare your answer with the right one: a number, several numbers, yes or no, or a word.

    `...` and None mean that you have not answered yet. A number is right within a relative error of
    `rtol` (of the largest entry, for several numbers; an absolute error of `rtol` if the truth is
    0). The report on a wrong answer contains the hint, never the truth. In a notebook, the report's
    output includes the data that the site needs for its own form.
    """
    title = f"answer {name}".strip()

    def ask() -> dict[str, Any] | None:
        asked = list_questions(truth)
        if asked is None:
            return None
        return {"kind": "hand", "name": name, "asks": asked, "hint": hint, "rtol": rtol}

    message = judge(yours, truth, rtol, hint)
    return Report(title, (Law(name or "answer", not message, "", message),), ask=ask)


def list_questions(truth: Any) -> list[dict[str, Any]] | None:
    """List the fields of a form: a key, the kind of its answer, and the answer.

    Return None if the truth has parts other than numbers, lists of numbers, yes or no, and words.
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
