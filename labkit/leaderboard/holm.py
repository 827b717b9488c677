"""Many tests at once: p-values adjusted by Holm's step-down procedure.

    sorted p₁ ≤ … ≤ p_m:   adjusted p_i = max over j ≤ i of min(1, (m − j + 1) · p_j)

Rejecting where the adjusted p is at most α makes one false rejection or more with a probability of
at most α, whatever the tests' dependence. Source: Holm 1979, A simple sequentially rejective
multiple test procedure.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def adjusted(p_values: Mapping[T, float]) -> dict[T, float]:
    """Adjust p-values for being asked together; the order of the keys stays."""
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    largest, found = 0.0, {}
    for rank, (name, p) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p))
        found[name] = largest
    return {name: found[name] for name in p_values}


def paired_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Test whether two lists of paired values differ in the mean: Student's t, two sides."""
    differences = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    n, mean = len(differences), math.fsum(differences) / len(differences)
    if n < 2:
        raise ValueError(f"a test needs two pairs or more, got {n}: take more seeds")
    spread = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1))
    if spread <= 1e-12 * max(abs(mean), 1e-12):
        return 1.0 if mean == 0 else 0.0
    from scipy.special import stdtr  # importing takes a moment

    return float(2 * stdtr(n - 1, -abs(mean) / spread * math.sqrt(n)))
