"""Random numbers of private tests: the same for every student, known to nobody beforehand.

A draw depends on the seed alone, which holds the homework, the question and the grader's secret.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class Draw:
    """Random values from a seed: a number or any string.

    Equal seeds draw equal values in the same order, on every machine with the same torch.
    """

    def __init__(self, seed: int | str):
        digest = hashlib.sha256(f"labkit.homework.draw/{seed}".encode()).digest()
        self._generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Any:
        """Standard normal values; without a shape, one float."""
        wide = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        return wide.to(dtype) if shape else float(wide)

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        """Values distributed uniformly over [low, high), as float32; without a shape, one float."""
        _check_order(low, high)
        wide = torch.rand(shape, generator=self._generator, dtype=torch.float64)
        wide = low + (high - low) * wide
        return wide.float() if shape else float(wide)

    def integers(self, low: int, high: int, *shape: int) -> Any:
        """Integers from low to high − 1, as int64; without a shape, one int."""
        _check_order(low, high)
        drawn = torch.randint(low, high, shape, generator=self._generator)
        return drawn if shape else int(drawn)

    def choice(self, sequence: Sequence[T]) -> T:
        """One of the items of a sequence, chosen uniformly."""
        if not len(sequence):
            raise ValueError("draw.choice needs at least one item to choose from, got none")
        return sequence[self.integers(0, len(sequence))]


def _check_order(low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"a draw needs low < high, got low={low!r} and high={high!r}")
