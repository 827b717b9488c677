"""Text to numbers: bytes, built in; tiktoken's vocabularies, where they are on the disk."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.system.unknown import explain_unknown


@dataclass(frozen=True)
class Tokenizer:
    """What turns text into numbers below `vocab`; a document ends with one of its own, `end`."""

    name: str
    vocab: int
    end: int
    encode: Callable[[str], np.ndarray]


def make_tokenizer(name: str) -> Tokenizer:
    """Make a tokenizer by name: `byte`, or a vocabulary of tiktoken's."""
    return Tokenizer("byte", 257, 256, _encode_bytes) if name == "byte" else _load_tiktoken(name)


def _encode_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)


def _load_tiktoken(name: str) -> Tokenizer:
    """Make one of tiktoken's, such as cl100k_base; it is never downloaded."""
    try:
        tiktoken: Any = importlib.import_module("tiktoken")  # optional
        loading: Any = importlib.import_module("tiktoken.load")
    except ImportError as error:
        raise ValueError(
            f"the tokenizer {name!r} needs the package tiktoken, which is not installed; "
            "install labkit's extra `tokens`, or take --tokenizer byte"
        ) from error

    def refuse_download(path: str) -> bytes:
        raise FileNotFoundError(path)

    # tiktoken reads this way only what its cache on the disk lacks: from the network.
    read, loading.read_file = loading.read_file, refuse_download
    try:
        encoding = tiktoken.get_encoding(name)
    except FileNotFoundError as error:
        raise ValueError(
            f"the vocabulary {name!r} must be on the disk; tiktoken would download {error}; "
            "copy it into TIKTOKEN_CACHE_DIR as tiktoken's documentation says, or take "
            "--tokenizer byte"
        ) from error
    except ValueError as error:
        names = ["byte", *tiktoken.list_encoding_names()]
        raise ValueError(explain_unknown("tokenizer", name, names)) from error
    finally:
        loading.read_file = read

    def encode_text(text: str) -> np.ndarray:
        # what looks like a special token is text too
        return np.array(encoding.encode_ordinary(text), dtype=np.uint32)

    return Tokenizer(name, encoding.n_vocab, encoding.eot_token, encode_text)
