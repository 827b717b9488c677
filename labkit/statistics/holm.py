"""Many tests at once: p-values adjusted by Holm's step-down procedure.

    sorted p₁ ≤ … ≤ p_m:   adjusted p_i = max over j ≤ i of min(1, (m − j + 1) · p_j)

Rejecting all tests with adjusted p ≤ α causes a false rejection with probability at most α, however
the tests depend on each other. Source: Holm 1979, A simple sequentially rejective multiple test
procedure.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def adjusted(p_values: Mapping[T, float]) -> dict[T, float]:
    """Return the p-values adjusted for multiple testing, in the same order."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    largest, found = 0.0, {}
    for rank, (name, p) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p))
        found[name] = largest
    return {name: found[name] for name in p_values}
