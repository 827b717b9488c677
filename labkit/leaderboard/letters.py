"""Compact letters: two entries share a letter exactly if they are not distinguishable.

    a, a, ab, b:   the first two differ from the last; the third differs from none

The algorithm inserts and absorbs: begin with one letter for all; for each pair that differs, split
every letter that contains both; drop a letter that another one contains. Source: Piepho 2004, An
algorithm for a letter-based representation of all-pairwise comparisons.
"""

from collections.abc import Collection, Sequence
from string import ascii_lowercase

Pair = tuple[str, str]


def letters(names: Sequence[str], different: Collection[Pair]) -> dict[str, str]:
    """Assign letters to each name; names are in the order of their rank, the best first."""
    columns = [frozenset(names)] if names else []
    for a, b in different:
        split = []
        for column in columns:
            split += [column - {a}, column - {b}] if {a, b} <= column else [column]
        columns = [c for c in dict.fromkeys(split) if not any(c < other for other in split)]
    columns.sort(key=lambda column: [name not in column for name in names])
    return {
        name: "".join(_letter(i) for i, column in enumerate(columns) if name in column)
        for name in names
    }


def _letter(i: int) -> str:
    """Return the name of the i-th letter: a … z, then a1, b1 …"""
    turn, place = divmod(i, len(ascii_lowercase))
    return ascii_lowercase[place] + (str(turn) if turn else "")
