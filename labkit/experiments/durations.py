"""Durations as people write them: read as seconds, written in two units."""

import math
import re

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([dhms])\s*")


def parse_duration(text: str | float) -> float:
    """Read a duration as seconds: "90", "10m", "1h30m", "2 d"; a number is seconds."""
    if isinstance(text, str):
        plain = text.strip().lower()
        parts = _PART.findall(plain)
        if parts and not _PART.sub("", plain) and len({unit for _, unit in parts}) == len(parts):
            return sum(float(number) * UNITS[unit] for number, unit in parts)
        try:
            seconds = float(plain)
        except ValueError:
            seconds = math.nan
    else:
        seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(
            "a duration is a number of seconds, or of d, h, m and s, such as 10m or 1h30m; "
            f"got {text!r}"
        )
    return seconds


def format_duration(seconds: float) -> str:
    """Write a duration for a reader, in its two largest units: "3 min 20 s"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    names = {"d": "d", "h": "h", "m": "min", "s": "s"}
    left, words = round(seconds), []
    for unit, size in UNITS.items():
        count, left = divmod(left, int(size))
        if count or words:
            words.append((count, names[unit]))
    return " ".join(f"{count} {name}" for count, name in words[:2] if count)
