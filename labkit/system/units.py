"""Bytes and durations in readable form: 700M, 1.5 GiB (powers of 1024); 10m, 1h30m."""

import re
from datetime import timedelta

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DURATION = re.compile(
    r"\s*".join(
        rf"(?:(?P<{name}>\d+(?:\.\d*)?|\.\d+)\s*{unit})?"
        for name, unit in (("days", "d"), ("hours", "h"), ("minutes", "m"), ("seconds", "s?"))
    )
)


def parse_bytes(text: str) -> int:
    """Parse a number of bytes such as 4G, 512M or 1.5GiB; units are powers of 1024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if found is None or not float(found[1]):
        raise ValueError(
            f"memory must be a positive number of bytes, as in 512M or 4G; got {text!r}"
        )
    return int(float(found[1]) * UNITS[found[2].upper()])


def in_words(count: float) -> str:
    """Format a number of bytes in a readable unit."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def parse_duration(text: str) -> float:
    """Parse a duration into seconds: "90", "10m", "1h30m", "2 d"."""
    found = _DURATION.fullmatch(text.strip().lower())
    parts = {name: float(part) for name, part in found.groupdict().items() if part} if found else {}
    if not parts:
        raise ValueError(
            "a duration must be a number of seconds, or numbers with d, h, m or s, such as 10m "
            f"or 1h30m; got {text!r}"
        )
    return timedelta(**parts).total_seconds()
