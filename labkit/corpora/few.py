"""Small data sets, with all examples in every batch: training without sampling noise.

FewDigits   a random selection of the 1,197 training digits
Points      points of the plane in two classes: rings, or random classes

The config's `draw`, not the run's seed, selects the examples.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labkit.corpora.base import Batch, Corpus, at_least_one, draw_whole
from labkit.corpora.digits import TEST, VALIDATION, load_images
from labkit.system.unknown import explain_unknown


@dataclass(frozen=True)
class FewDigits:
    """Images (images, 1, 8, 8) with grey values in [0, 1], and their classes.

    The held-out images are the same 200 and 400 as those of `Digits`, one batch per split.
    """

    images: int = 128
    draw: int = 0  # the selection: the first ones in an order drawn from this seed

    def __post_init__(self) -> None:
        at_least_one(images=self.images)

    def load(self) -> Corpus:
        """Draw the training images; raise ValueError if there are not enough."""
        images, labels = load_images()
        held = VALIDATION + TEST
        if self.images > (count := len(labels) - held):
            raise ValueError(
                f"images must be at most {count}, the number of training images; got {self.images}"
            )
        order = torch.randperm(count, generator=Generator().manual_seed(self.draw))
        rows = held + order[: self.images]
        whole = images[rows], labels[rows]
        return Corpus(
            draw=draw_whole(whole),
            held_out={
                "validation": [(images[:VALIDATION], labels[:VALIDATION])],
                "test": [(images[VALIDATION:held], labels[VALIDATION:held])],
            },
            whole=whole,
        )


def _draw_rings(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw points on three rings in turn, of radius 0.5, 1.5 and 2.5, with deviation 0.2.

    The middle ring is class 1.
    """
    ring = torch.arange(count) % 3
    angle = 2 * torch.pi * torch.rand(count, generator=generator)
    radius = ring + 0.5 + 0.2 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), ring % 2


def _draw_random(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw normal points with alternating classes, which do not depend on the point."""
    return torch.randn(count, 2, generator=generator), torch.arange(count) % 2


TASKS = {"rings": _draw_rings, "random": _draw_random}


@dataclass(frozen=True)
class Points:
    """Points (count, 2) of the plane, and their classes, 0 or 1.

    The validation and test sets have the same number of points, drawn in the same way.
    """

    task: str = "rings"  # a key of TASKS
    count: int = 120
    draw: int = 0  # the seed of the points

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(explain_unknown("task", self.task, TASKS))
        at_least_one(count=self.count)

    def load(self) -> Corpus:
        """Draw the points of each split."""
        generator = Generator().manual_seed(self.draw)

        def draw_points() -> Batch:
            return TASKS[self.task](self.count, generator)

        whole = draw_points()
        held_out = {"validation": [draw_points()], "test": [draw_points()]}
        return Corpus(draw=draw_whole(whole), held_out=held_out, whole=whole)
