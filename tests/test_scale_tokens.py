"""Text to token shards, and which tokens a step reads."""

import sys
import types

import numpy as np
import pytest
from scale_runs import make_tokens

from labkit.scale.tokens import (
    CHUNK,
    make_tokenizer,
    open_shards,
    prepare_tokens,
    write_shards,
)
from labkit.scale.windows import Windows


def joined(shards, split):
    return np.concatenate(shards.splits[split])


def text_of(tokens):
    return bytes(int(token) for token in tokens if token < 256).decode()


# --- text to shards ---


def test_files_come_back_with_their_ends_held_out(tmp_path):
    long = "".join(f"Zeile {i} über ∂x 🙂\n" for i in range(CHUNK // 20))  # several chunks
    texts = [long, "kurz\n" * 300]
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    shards = prepare_tokens(tmp_path / "t", files, held_out=0.1)
    read = {split: joined(shards, split) for split in ("train", "validation")}
    cut = {split: np.split(part, np.flatnonzero(part == 256) + 1) for split, part in read.items()}
    for i, text in enumerate(texts):
        train, held = (text_of(cut[split][i]) for split in ("train", "validation"))
        assert train + held == text and train.endswith("\n")
        assert 0.09 * len(text) < len(held) < 0.11 * len(text)
    parts = [part for split in shards.splits.values() for part in split]
    assert all(isinstance(part, np.memmap) and part.dtype == np.uint16 for part in parts)


def test_a_full_shard_is_followed_by_another(tmp_path):
    pieces = [("train", "0123456789"), ("validation", "x"), ("train", "a" * 30), ("train", None)]
    write_shards(tmp_path / "t", make_tokenizer("byte"), pieces, shard_tokens=20)
    shards = open_shards(tmp_path / "t")
    assert [len(part) for part in shards.splits["train"]] == [40, 1]
    assert text_of(joined(shards, "train")) == "0123456789" + "a" * 30


def test_tiktoken_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ValueError, match=r"not installed; install labkit's extra `tokens`"):
        make_tokenizer("cl100k_base")


def test_a_large_vocabulary_makes_wide_shards(tmp_path, monkeypatch):
    encode = types.SimpleNamespace(
        n_vocab=70_000, eot_token=69_999, encode_ordinary=lambda text: [ord(x) for x in text]
    )
    fake = types.SimpleNamespace(get_encoding={"near": encode}.__getitem__)
    monkeypatch.setitem(sys.modules, "tiktoken", fake)
    (tmp_path / "a.txt").write_text("ab∂\n" * 100)
    shards = prepare_tokens(tmp_path / "t", [tmp_path / "a.txt"], "near")
    tokens = joined(shards, "train")
    assert tokens.dtype == np.uint32 and tokens[-1] == 69_999 and shards.vocab == 70_000
    assert "".join(map(chr, tokens[:4])) == "ab∂\n"


def test_nothing_appears_where_writing_failed_and_nothing_is_overwritten(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"fine\n" * 100 + b"\xff\n")
    with pytest.raises(ValueError, match=r"a.txt must be text in UTF-8"):
        prepare_tokens(tmp_path / "t", [file])
    assert list(tmp_path.iterdir()) == [file]
    make_tokens(tmp_path / "t")
    with pytest.raises(ValueError, match=r"/t exists already; name a new folder, or remove"):
        prepare_tokens(tmp_path / "t", [file])


def test_shards_that_were_cut_short_are_refused(tmp_path):
    folder = make_tokens(tmp_path / "t")
    (folder / "train-00001.bin").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"must have 2000 tokens of 2 bytes, got 100 bytes"):
        open_shards(folder)


@pytest.mark.slow
def test_without_files_the_addresses_become_shards(tmp_path):
    shards = prepare_tokens(tmp_path / "t", [])
    assert shards.count_tokens("train") > 9e6 and shards.count_tokens("validation") > 1e6
    assert "fellow" in text_of(joined(shards, "train")[:2000]).lower()


# --- windows ---


def windows(seed=0, lengths=(41, 101, 8)):
    starts = np.cumsum([0, *lengths[:-1]])
    shards = [np.arange(a, a + n, dtype="<u2") for a, n in zip(starts, lengths, strict=True)]
    return Windows(shards, 10, seed)


def test_an_epoch_reads_every_window_once_in_an_order_of_its_own():
    one = windows()
    assert one.count == 4 + 10
    epochs = [
        [int(place) for step in range(7) for place in one.choose(7 * epoch + step, 2)]
        for epoch in range(2)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(14))] * 2
    assert epochs[0] != epochs[1] and epochs[0] != list(range(14))
    assert list(windows(1).choose(0, 14)) != epochs[0] == list(one.choose(0, 14))


def test_windows_stay_inside_a_shard_and_targets_are_one_ahead():
    inputs, targets = windows().read(np.arange(14))
    assert (targets == inputs + 1).all()
    assert [int(row[0]) for row in inputs] == [*range(0, 40, 10), *range(41, 141, 10)]


@pytest.mark.parametrize("world", [2, 3])
def test_the_global_batch_is_the_same_for_any_number_of_processes(world):
    whole = [windows(5).choose(step, 6) for step in range(9)]  # crosses three epochs
    parts = [
        np.concatenate([windows(5).choose(step, 6, rank, world) for rank in range(world)])
        for step in range(9)
    ]
    np.testing.assert_array_equal(whole, parts)
