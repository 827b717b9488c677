"""Bytes as people write and say them: 700M, 1.5 GiB; units are powers of 1024."""

import re

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(text: str) -> int:
    """Read a number of bytes such as 4G, 512M or 1.5GiB; units are powers of 1024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if found is None or not float(found[1]):
        raise ValueError(
            f"memory must be a number of bytes above 0, as in 512M or 4G; got {text!r}"
        )
    return int(float(found[1]) * UNITS[found[2].upper()])


def in_words(count: float) -> str:
    """Write bytes as a person says them."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
