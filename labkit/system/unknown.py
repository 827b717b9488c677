"""One sentence for a name that is not known: what it is of, which is near, which there are."""

from collections.abc import Iterable
from difflib import get_close_matches


def explain_unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Write the message of the error, as in "unknown norm 'rsm'; did you mean 'rms'? Else …"."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(str(name), names, 1)
    hint = f"did you mean {near[0]!r}? Else " if near else ""
    return f"unknown {what} {name!r}; {hint}choose one of {', '.join(names)}"
