"""Text to numbers: bytes, built in; tiktoken's vocabularies, where they are on the disk.

A tokenizer ends a document with one token of its own, `end`.
"""

import hashlib
import importlib
from typing import Any, Protocol

import numpy as np


class Tokenizer(Protocol):
    """What turns text into numbers below `vocab`."""

    name: str
    vocab: int
    end: int  # the token that closes a document

    def encode(self, text: str) -> np.ndarray:
        """Turn text into token numbers."""
        ...

    def decode(self, tokens: np.ndarray) -> str:
        """Turn token numbers back into text; ends of documents vanish."""
        ...

    def described(self) -> dict[str, Any]:
        """Say what it is, for the index of what it made."""
        ...


class Bytes:
    """UTF-8, byte by byte: 256 tokens and the end of a document. Any text comes back as it was."""

    name, vocab, end = "byte", 257, 256

    def encode(self, text: str) -> np.ndarray:
        """Give the text's bytes."""
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.uint16)

    def decode(self, tokens: np.ndarray) -> str:
        """Read the bytes; one that is cut off becomes a replacement character."""
        return tokens[tokens < self.end].astype(np.uint8).tobytes().decode("utf-8", "replace")

    def described(self) -> dict[str, Any]:
        """Name it."""
        return {"name": self.name, "vocab": self.vocab, "end": self.end}


class TikToken:
    """One of tiktoken's vocabularies, such as cl100k_base; it is never downloaded."""

    def __init__(self, name: str):
        try:
            tiktoken: Any = importlib.import_module("tiktoken")  # optional
            loading: Any = importlib.import_module("tiktoken.load")
        except ImportError as error:
            raise ValueError(
                f"the tokenizer {name!r} needs the package tiktoken, which is not installed; "
                "install labkit's extra `tokens`, or take --tokenizer byte"
            ) from error

        def refuse(path: str) -> bytes:
            raise FileNotFoundError(path)

        # tiktoken reads this way only what its cache on the disk lacks: from the network.
        read, loading.read_file = loading.read_file, refuse
        try:
            self._encoding = tiktoken.get_encoding(name)
        except FileNotFoundError as error:
            raise ValueError(
                f"the vocabulary {name!r} must be on the disk; tiktoken would download {error}; "
                "copy it into TIKTOKEN_CACHE_DIR as tiktoken's documentation says, or take "
                "--tokenizer byte"
            ) from error
        except ValueError as error:
            names = ", ".join(["byte", *tiktoken.list_encoding_names()])
            raise ValueError(f"unknown tokenizer {name!r}; choose one of {names}") from error
        finally:
            loading.read_file = read
        self.name, self.vocab = name, self._encoding.n_vocab
        self.end, self.version = self._encoding.eot_token, tiktoken.__version__

    def encode(self, text: str) -> np.ndarray:
        """Encode plain text: what looks like a special token is text too."""
        return np.array(self._encoding.encode_ordinary(text), dtype=np.uint32)

    def decode(self, tokens: np.ndarray) -> str:
        """Join the tokens' texts."""
        return self._encoding.decode([int(token) for token in tokens if token != self.end])

    def described(self) -> dict[str, Any]:
        """Name it, with tiktoken's version and a hash of what it makes of a fixed sentence."""
        sample = self.encode("Norms, 1790–2026: naïve x̂ = (x − μ)/σ\n\tdef f(x): return x")
        digest = hashlib.sha256(sample.astype("<u4").tobytes()).hexdigest()[:16]
        return {
            "name": self.name,
            "vocab": self.vocab,
            "end": self.end,
            "tiktoken": self.version,
            "sample": digest,
        }


def make_tokenizer(name: str) -> Tokenizer:
    """Make a tokenizer by name: `byte`, or a vocabulary of tiktoken's."""
    return Bytes() if name == "byte" else TikToken(name)
