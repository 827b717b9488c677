"""The message for an unknown name: its kind, the nearest known name, and all choices."""

from collections.abc import Iterable
from difflib import get_close_matches


def explain_unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the error message, as in "unknown norm 'rsm'; did you mean 'rms'? Else …"."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(str(name), names, 1)
    hint = f"did you mean {near[0]!r}? Else " if near else ""
    return f"unknown {what} {name!r}; {hint}choose one of {', '.join(names)}"
