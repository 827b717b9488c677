"""What every data set offers: an endless stream to train on, and fixed batches held out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from torch import Tensor

Batch = tuple[Tensor, Tensor]  # inputs, targets
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Corpus:
    """Batches of one data set, by split.

    `floor` is the lowest loss any model can reach (nats per token), where it is known.
    """

    draw: Callable[[int], Iterator[Batch]]  # seed -> endless training batches
    held_out: dict[str, list[Batch]]  # "validation" and "test": always the same batches
    floor: float | None = None

    def train(self, seed: int) -> Iterator[Batch]:
        """Yield training batches without end, the same for the same seed."""
        return self.draw(seed)

    def to(self, device: str) -> "Corpus":
        """Hand out the same batches on another device; they are drawn where they were."""

        def move_batch(batch: Batch) -> Batch:
            inputs, targets = batch
            return inputs.to(device), targets.to(device)

        return replace(
            self,
            draw=lambda seed: map(move_batch, self.draw(seed)),
            held_out={split: [*map(move_batch, part)] for split, part in self.held_out.items()},
        )


def at_least_one(**sizes: int) -> None:
    """Refuse sizes below one, by name."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
