"""The answer of a submission: a value, or why there is none."""

import re
from dataclasses import dataclass
from typing import Any

# Why there is no value, and what a student reads then.
FAILURES = {
    "missing": "Not found",
    "raised": "Your code raised an error",
    "slow": "Your code did not answer in time",
    "memory": "Your code took more memory than there is",
    "ended": "Your code ended its process instead of answering",
    "refused": "Your code returned something that is not plain data",
    "forbidden": "Your code imports what this homework does not allow",
    "broken": "The definitions in your notebook do not run",
}

_LONGEST = 500  # characters of a detail
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{5,}")


@dataclass(frozen=True)
class Answer:
    """One answer; `ok` means that there is a value, not that it is right.

    `failure` is "" or one of: missing (no such name), raised, slow, memory, ended (the process is
    gone), refused (not plain data), forbidden (an import), broken (the definitions do not run).
    `detail` may be shown to a student; `seconds` is the time that the grader waited.
    """

    value: Any = None
    failure: str = ""
    detail: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether a value came back."""
        return not self.failure


def clean_text(text: str, longest: int = _LONGEST, keep: str = "") -> str:
    """Make untrusted text safe to show: printable, short, without varying addresses.

    Characters in `keep` stay though they are not printable, such as the ends of lines.
    """
    text = text[: 4 * longest]
    text = "".join(c if c.isprintable() or c in keep else " " for c in text)
    return _ADDRESS.sub("0x…", text)[:longest].strip()
