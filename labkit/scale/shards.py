"""Token shards: flat files of numbers, read as memory maps, and an index that vouches for them.

DIR/train-00000.bin …        tokens, little-endian uint16, or uint32 above 65,536 tokens
DIR/validation-00000.bin …
DIR/index.json               tokenizer, vocabulary, dtype; per file: split, tokens, sha256;
                             written last
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labkit.scale.files import fill_folder, read_json, sha256_of, sync_path, write_json

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

    def count_tokens(self, split: str) -> int:
        """Count the tokens of a split."""
        return sum(len(part) for part in self.splits.get(split, []))


def write_shards(
    folder: Path,
    parts: Iterable[tuple[str, np.ndarray]],
    tokenizer: dict[str, Any],
    source: dict[str, Any],
    shard_tokens: int = 2**27,
) -> None:
    """Write (split, tokens), one after another, into a new folder; a full file begins another.

    `tokenizer` has the vocabulary's size as `vocab`; ValueError where a token is outside.
    """
    if shard_tokens < 1:
        raise ValueError(f"a shard must hold at least 1 token, got {shard_tokens}")
    vocab = tokenizer["vocab"]
    dtype = "uint16" if vocab <= 2**16 else "uint32"
    files: dict[str, list[dict[str, Any]]] = {}
    with fill_folder(folder):
        for split, tokens in parts:
            if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab:
                raise ValueError(
                    f"tokens must be in 0 … {vocab - 1}, got {tokens.min()} … {tokens.max()}"
                )
            left, entries = tokens.astype(_DTYPES[dtype]), files.setdefault(split, [])
            while len(left):
                if not entries or entries[-1]["tokens"] == shard_tokens:
                    name = f"{split}-{len(entries):05d}.bin"
                    entries.append({"file": name, "split": split, "tokens": 0})
                now, left = np.split(left, [shard_tokens - entries[-1]["tokens"]])
                with (folder / entries[-1]["file"]).open("ab") as file:
                    now.tofile(file)
                entries[-1]["tokens"] += len(now)
        listed = [entry for entries in files.values() for entry in entries]
        for entry in listed:
            sync_path(folder / entry["file"])
            entry["sha256"] = sha256_of(folder / entry["file"])
        index = {
            "schema": SCHEMA,
            "tokenizer": tokenizer,
            "vocab": vocab,
            "dtype": dtype,
            "files": listed,
            "source": source,
        }
        write_json(folder / "index.json", {"checksum": _compute_digest(index), **index})


def open_shards(folder: Path, verify: bool = True) -> Shards:
    """Map a folder of shards; ValueError where a file is missing, damaged or foreign.

    With `verify` every file is read once and hashed; without, only sizes are compared.
    """
    if not (folder / "index.json").is_file():
        raise ValueError(
            f"{folder} must be a folder of token shards, but has no index.json; "
            "make one: labkit tokens DIR --corpus text"
        )
    index = read_json(folder / "index.json", SCHEMA, _AGAIN)
    checksum = index.pop("checksum", None)
    if checksum != _compute_digest(index):
        raise ValueError(f"{folder}/index.json was edited: its checksum differs; {_AGAIN}")
    splits: dict[str, list[np.ndarray]] = {}
    for entry in index["files"]:
        part = _map_file(folder / entry["file"], entry, _DTYPES[index["dtype"]], verify)
        splits.setdefault(entry["split"], []).append(part)
    return Shards(folder, index["vocab"], index["tokenizer"], splits, checksum)


def _map_file(path: Path, entry: dict[str, Any], dtype: np.dtype, verify: bool) -> np.ndarray:
    if not path.is_file():
        raise ValueError(f"the index lists {path}, but there is no such file; {_AGAIN}")
    due, size = entry["tokens"] * dtype.itemsize, path.stat().st_size
    if size != due:
        raise ValueError(f"{path} must have {due} bytes, got {size}: it is damaged; {_AGAIN}")
    if verify and sha256_of(path) != entry["sha256"]:
        raise ValueError(f"{path} differs from the sha256 in its index: it is damaged; {_AGAIN}")
    return np.memmap(path, dtype=dtype, mode="r")


def _compute_digest(index: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
