"""A progress bar that shows nothing."""

from collections.abc import Iterable, Iterator
from typing import Any


class tqdm:
    """Iterates as the real one does, silently."""

    def __init__(self, iterable: Iterable[Any] = (), *words: Any, **options: Any):
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> "tqdm":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def update(self, count: int = 1) -> None:
        """Count on."""
