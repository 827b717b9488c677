"""Interface of data sets: an endless stream of training batches, and fixed held-out batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]  # inputs, targets
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Corpus:
    """Batches of one data set, by split.

    `whole` is the training set, if every batch contains all of it.
    """

    draw: Callable[[int], Iterator[Batch]]  # seed -> endless training batches
    held_out: dict[str, list[Batch]]  # "validation" and "test": always the same batches
    whole: Batch | None = None

    def train(self, seed: int) -> Iterator[Batch]:
        """Yield training batches without end; the same seed gives the same batches."""
        return self.draw(seed)

    def to(self, device: str) -> "Corpus":
        """Return the same batches on another device; they are still drawn on the original one."""

        def move_batch(batch: Batch) -> Batch:
            inputs, targets = batch
            return inputs.to(device), targets.to(device)

        return replace(
            self,
            draw=lambda seed: map(move_batch, self.draw(seed)),
            held_out={split: [*map(move_batch, part)] for split, part in self.held_out.items()},
            whole=None if self.whole is None else move_batch(self.whole),
        )


def draw_whole(whole: Batch) -> Callable[[int], Iterator[Batch]]:
    """Return a function that yields batches of all examples, each in a new order."""
    inputs, targets = whole

    def draw_batches(seed: int) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(targets), generator=generator)
            yield inputs[order], targets[order]

    return draw_batches


def at_least_one(**sizes: int) -> None:
    """Refuse sizes below 1; the message names the size."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
