"""Few examples, all of them in every batch: training without the noise of sampling.

FewDigits   images that a number draws from the 1,197 digits to train on
Points      points of the plane in two classes: rings, or classes that mean nothing

What a fit has to learn is the config's, not the run's seed: `draw` says which examples.
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

    Held out are the same 200 and 400 images as those of `Digits`, each split in one batch.
    """

    images: int = 128
    draw: int = 0  # which ones: the first of an order that this number draws

    def __post_init__(self) -> None:
        at_least_one(images=self.images)

    def load(self) -> Corpus:
        """Draw the images to train on; ValueError where there are not so many."""
        images, labels = load_images()
        held = VALIDATION + TEST
        if self.images > (count := len(labels) - held):
            raise ValueError(f"there are {count} images to train on, got images={self.images}")
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
    """Draw points on three rings in turn, of radius 0.5, 1.5 and 2.5 with deviation 0.2.

    The middle ring is class 1.
    """
    ring = torch.arange(count) % 3
    angle = 2 * torch.pi * torch.rand(count, generator=generator)
    radius = ring + 0.5 + 0.2 * torch.randn(count, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), ring % 2


def _draw_random(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw normal points, whose classes take turns: they say nothing about a point."""
    return torch.randn(count, 2, generator=generator), torch.arange(count) % 2


TASKS = {"rings": _draw_rings, "random": _draw_random}


@dataclass(frozen=True)
class Points:
    """Points (count, 2) of the plane, and their classes, 0 or 1.

    As many points each, drawn alike, are held out for validation and for the test.
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
