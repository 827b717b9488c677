"""Token shards: flat files of numbers, read as memory maps, and an index that vouches for them.

    DIR/index.json               tokenizer, vocabulary, dtype; per file: split, tokens, sha256
    DIR/train-00000.bin …        tokens, little-endian uint16, or uint32 above 65,536 tokens
    DIR/validation-00000.bin …

A folder is written beside its place and moved there whole.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labkit.scale.files import read_json, sha256_of, whole_folder, write_json

SCHEMA = 1
_DTYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_AGAIN = "write the shards again with `labkit tokens`"


@dataclass(frozen=True)
class Shards:
    """Tokens on the disk, by split; arrays are read-only memory maps."""

    folder: Path
    vocab: int
    tokenizer: dict[str, Any]
    splits: dict[str, list[np.ndarray]]
    digest: str  # of the index, and so of every token

    def tokens(self, split: str) -> int:
        """Count the tokens of a split."""
        return sum(len(part) for part in self.splits.get(split, []))


class Writer:
    """Collect tokens by split; a file is closed when it holds `shard_tokens`."""

    def __init__(self, folder: Path, vocab: int, shard_tokens: int):
        self.folder, self.vocab, self.shard_tokens = folder, vocab, shard_tokens
        self.dtype = "uint16" if vocab <= 2**16 else "uint32"
        self.files: list[dict[str, Any]] = []
        self._waiting: dict[str, list[np.ndarray]] = {}

    def add(self, split: str, tokens: np.ndarray) -> None:
        """Append tokens to a split; ValueError where one is outside the vocabulary."""
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.vocab:
            raise ValueError(
                f"tokens must be in 0 … {self.vocab - 1}, got {tokens.min()} … {tokens.max()}"
            )
        waiting = self._waiting.setdefault(split, [])
        waiting.append(tokens.astype(_DTYPES[self.dtype]))
        while sum(map(len, waiting)) >= self.shard_tokens:
            joined = np.concatenate(waiting)
            self._write(split, joined[: self.shard_tokens])
            waiting[:] = [joined[self.shard_tokens :]]

    def finish(self, tokenizer: dict[str, Any], source: dict[str, Any]) -> None:
        """Write what is left, and the index."""
        for split, waiting in self._waiting.items():
            if sum(map(len, waiting)):
                self._write(split, np.concatenate(waiting))
        index = {
            "schema": SCHEMA,
            "tokenizer": tokenizer,
            "vocab": self.vocab,
            "dtype": self.dtype,
            "files": self.files,
            "source": source,
        }
        write_json(self.folder / "index.json", {"checksum": _digest(index), **index})

    def _write(self, split: str, tokens: np.ndarray) -> None:
        number = sum(entry["split"] == split for entry in self.files)
        path = self.folder / f"{split}-{number:05d}.bin"
        tokens.tofile(path)
        self.files.append(
            {"file": path.name, "split": split, "tokens": len(tokens), "sha256": sha256_of(path)}
        )


@contextmanager
def writing(folder: Path, vocab: int, shard_tokens: int = 2**27) -> Iterator[Writer]:
    """Write a folder of shards; it appears when the block ends, after `finish`."""
    if folder.exists():
        raise ValueError(f"{folder} exists already; name a new folder, or remove it first")
    if shard_tokens < 1:
        raise ValueError(f"a shard must hold at least 1 token, got {shard_tokens}")
    with whole_folder(folder) as part:
        yield Writer(part, vocab, shard_tokens)


def open_shards(folder: Path, verify: bool = True) -> Shards:
    """Map a folder of shards; ValueError where a file is missing, damaged or foreign.

    With `verify` every file is read once and hashed; without, only sizes are compared.
    """
    if not (folder / "index.json").is_file():
        raise ValueError(
            f"{folder} must be a folder of token shards, but has no index.json; "
            "make one: labkit tokens DIR --corpus text"
        )
    index = read_json(folder / "index.json", _AGAIN)
    checksum = index.pop("checksum", None)
    if index.get("schema") != SCHEMA:
        raise ValueError(
            f"{folder}/index.json must have schema {SCHEMA}, got {index.get('schema')!r}; {_AGAIN}"
        )
    if checksum != _digest(index):
        raise ValueError(f"{folder}/index.json was edited: its checksum differs; {_AGAIN}")
    splits: dict[str, list[np.ndarray]] = {}
    for entry in index["files"]:
        path = folder / entry["file"]
        splits.setdefault(entry["split"], []).append(_map(path, entry, index["dtype"], verify))
    return Shards(folder, index["vocab"], index["tokenizer"], splits, checksum)


def _map(path: Path, entry: dict[str, Any], dtype: str, verify: bool) -> np.ndarray:
    if not path.is_file():
        raise ValueError(f"the index lists {path}, but there is no such file; {_AGAIN}")
    due, size = entry["tokens"] * _DTYPES[dtype].itemsize, path.stat().st_size
    if size != due:
        raise ValueError(f"{path} must have {due} bytes, got {size}: it is damaged; {_AGAIN}")
    if verify and sha256_of(path) != entry["sha256"]:
        raise ValueError(f"{path} differs from the sha256 in its index: it is damaged; {_AGAIN}")
    return np.memmap(path, dtype=_DTYPES[dtype], mode="r")


def _digest(index: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
