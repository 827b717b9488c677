"""Real handwritten digits: 1,797 images of 8×8 grey values, ten classes.

They come with scikit-learn (from the UCI repository: Alpaydin and Kaynak 1998). One fixed
shuffle gives 1,197 images to train on, 200 for validation and 400 for the test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from labkit.corpora.base import Batch, Corpus, at_least_one

VALIDATION, TEST = 200, 400


@cache
def load_images() -> tuple[Tensor, Tensor]:
    """Load images and classes in the fixed order: validation, test, training."""
    try:
        from sklearn.datasets import load_digits  # a second to import; only digits need it
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the digits come from scikit-learn, which is not installed; run: pip install "
            "scikit-learn, or install everything that the book needs: pip install "
            "'norm-lab-book[book]'"
        ) from error

    pixels, classes = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images[order], torch.tensor(classes)[order]


@dataclass(frozen=True)
class Digits:
    """Batches of images (batch, 1, 8, 8) with grey values in [0, 1], and their classes.

    Each epoch shuffles the training images and drops an incomplete last batch.
    """

    batch: int = 32

    def __post_init__(self) -> None:
        at_least_one(batch=self.batch)

    def load(self) -> Corpus:
        """Split the images; held-out batches have the training batch's size."""
        images, labels = load_images()
        held = VALIDATION + TEST
        count = len(labels) - held
        if self.batch > count:
            raise ValueError(
                f"batch must be at most the number of training images, {count}, got {self.batch}"
            )

        def draw_batches(seed: int) -> Iterator[Batch]:
            generator = torch.Generator().manual_seed(seed)
            while True:
                order = held + torch.randperm(count, generator=generator)
                for rows in order.split(self.batch):
                    if len(rows) == self.batch:
                        yield images[rows], labels[rows]

        def cut_batches(rows: slice) -> list[Batch]:
            pairs = zip(images[rows].split(self.batch), labels[rows].split(self.batch), strict=True)
            return [pair for pair in pairs if len(pair[0]) == self.batch]

        return Corpus(
            draw=draw_batches,
            held_out={
                "validation": cut_batches(slice(0, VALIDATION)),
                "test": cut_batches(slice(VALIDATION, held)),
            },
        )
