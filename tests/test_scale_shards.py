"""Token shards, tokenizers and the sampler: what was written is read, by whom, and when."""

import json
import sys
import types

import numpy as np
import pytest
from scale_ranks import make_tokens

from labkit.scale.prepare import prepare_shards
from labkit.scale.sampler import Sampler
from labkit.scale.shards import open_shards, write_shards
from labkit.scale.tokenizer import make_tokenizer

TEN = {"name": "test", "vocab": 10}
TEXT = "Größe ≠ Länge: x̂ = (x − μ)/σ 🙂\n\n\tend\x00"


def joined(shards, split):
    return np.concatenate(shards.splits[split])


def text_of(tokens):
    return bytes(int(token) for token in tokens if token < 256).decode()


# --- tokenizers ---


def test_bytes_give_any_text_back():
    made = make_tokenizer("byte")
    tokens = made.encode(TEXT)
    assert text_of(tokens) == TEXT and tokens.max() < made.end < made.vocab


def test_tiktoken_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ValueError, match=r"not installed; install labkit's extra `tokens`"):
        make_tokenizer("cl100k_base")


@pytest.fixture
def tiktoken(monkeypatch):
    """Stand in for tiktoken: one vocabulary on its disk, and one that it would download."""

    class Encoding:
        n_vocab, eot_token = 70_000, 69_999

        def encode_ordinary(self, text):
            return [ord(letter) for letter in text]

    def read_file(path):
        raise AssertionError("it must never go to the network")

    def get_encoding(name):
        if name == "far":
            fake.load.read_file("https://example.org/far.tiktoken")
        if name != "near":
            raise ValueError(f"Unknown encoding {name}")
        return Encoding()

    load = types.SimpleNamespace(read_file=read_file)
    fake = types.SimpleNamespace(load=load, get_encoding=get_encoding)
    fake.list_encoding_names = lambda: ["near", "far"]
    monkeypatch.setitem(sys.modules, "tiktoken", fake)
    monkeypatch.setitem(sys.modules, "tiktoken.load", load)
    yield fake
    assert fake.load.read_file is read_file, "tiktoken was not left as it was"


def test_a_vocabulary_on_the_disk_makes_wide_shards(tiktoken, tmp_path):
    made = make_tokenizer("near")
    assert "".join(map(chr, made.encode(TEXT))) == TEXT
    (tmp_path / "a.txt").write_text("ab\n" * 1000)
    shards = prepare_shards(tmp_path / "t", [tmp_path / "a.txt"], tokenizer="near")
    assert shards.splits["train"][0].dtype == np.uint32
    assert joined(shards, "train")[-1] == made.end


def test_a_vocabulary_is_never_downloaded_and_an_unknown_one_lists_the_known(tiktoken):
    with pytest.raises(ValueError, match="must be on the disk; tiktoken would download https"):
        make_tokenizer("far")
    with pytest.raises(ValueError, match="choose one of byte, near, far"):
        make_tokenizer("bite")


# --- shards ---


def test_files_come_back_with_their_ends_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr("labkit.scale.prepare._CHUNK", 100)  # many pieces, none cut inside a line
    texts = ["".join(f"Zeile {i} über ∂x\n" for i in range(200)), "kurz\n" * 300]
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    shards = prepare_shards(tmp_path / "t", files, held_out=0.1, shard_tokens=1000)
    read = {split: joined(shards, split) for split in ("train", "validation")}
    cut = {split: np.split(part, np.flatnonzero(part == 256) + 1) for split, part in read.items()}
    for i, text in enumerate(texts):
        train, held = (text_of(cut[split][i]) for split in ("train", "validation"))
        assert train + held == text and train.endswith("\n")
        assert 0.05 * len(text) < len(held) < 0.12 * len(text)
    assert max(map(len, shards.splits["train"])) == 1000
    assert all(part.dtype == np.uint16 for part in shards.splits["train"])


def test_nothing_appears_where_writing_failed(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\n" * 100 + b"\xff\n")
    with pytest.raises(ValueError, match="must be text in UTF-8"):
        prepare_shards(tmp_path / "t", [tmp_path / "a.txt"])
    with pytest.raises(ValueError, match=r"tokens must be in 0 … 9, got 10"):
        write_shards(tmp_path / "t", [("train", np.array([10]))], TEN, {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_second_writer_of_a_folder_is_refused_and_the_first_goes_on(tmp_path):
    def parts():
        yield "train", np.arange(10)
        with pytest.raises(ValueError, match=r"/t exists already; name a new folder, or remove"):
            write_shards(tmp_path / "t", [], TEN, {})
        yield "validation", np.arange(10)

    write_shards(tmp_path / "t", parts(), TEN, {})
    assert open_shards(tmp_path / "t").count_tokens("validation") == 10


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def flip(folder):
    content = bytearray((folder / "validation-00000.bin").read_bytes())
    content[77] ^= 1
    (folder / "validation-00000.bin").write_bytes(content)


def edit(folder):
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "vocab": 33}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (write("train-00000.bin", bytes(100)), "must have 8000 bytes, got 100: it is damaged"),
        (flip, "differs from the sha256 in its index"),
        (edit, "was edited: its checksum differs"),
        (write("index.json", b'{"schema": 9}'), "must have schema 1, got 9"),
        (lambda folder: (folder / "train-00001.bin").unlink(), "there is no such file"),
        (write("index.json", b"{"), "must be JSON, but it is damaged"),
        (write("index.json", b"[]"), "must hold a JSON object"),
        (lambda folder: (folder / "index.json").unlink(), "has no index.json; make one"),
    ],
)
def test_damaged_and_foreign_shards_are_refused(tmp_path, harm, said):
    folder = make_tokens(tmp_path / "t")
    open_shards(folder)
    harm(folder)
    with pytest.raises(ValueError, match=said):
        open_shards(folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "of text files or of one --corpus"),
        ({"corpus": "tax"}, "choose one of text, markov"),
        ({"corpus": "text", "held_out": 1.5}, "share between 0 and 1"),
        ({"corpus": "markov", "tokenizer": "near"}, "takes no --tokenizer"),
    ],
)
def test_what_cannot_be_prepared_is_refused(tmp_path, options, said):
    with pytest.raises(ValueError, match=said):
        prepare_shards(tmp_path / "t", [], **options)


@pytest.mark.slow
def test_the_built_in_corpora_become_shards(tmp_path):
    text = prepare_shards(tmp_path / "text", [], "text")
    assert (
        text.vocab == 257
        and text.count_tokens("train") > 9e6
        and text.count_tokens("validation") > 1e6
    )
    assert "fellow" in text_of(joined(text, "train")[:2000]).lower()
    markov = prepare_shards(tmp_path / "markov", [], "markov")
    assert markov.vocab == 16 and markov.count_tokens("train") == 2 * 64 * 8192
    floor = json.loads((markov.folder / "index.json").read_text())["source"]["floor"]
    assert 0 < floor < np.log(16)


# --- the sampler ---


def sampler(seed: int = 0, lengths: tuple[int, ...] = (41, 101, 8)) -> Sampler:
    starts = np.cumsum([0, *lengths[:-1]])
    return Sampler(
        [np.arange(a, a + n, dtype=np.uint16) for a, n in zip(starts, lengths, strict=True)],
        10,
        seed,
    )


def test_an_epoch_reads_every_window_once_in_an_order_of_its_own():
    one = sampler()
    assert one.windows == 4 + 10
    epochs = [
        [int(p) for s in range(7) for p in one.choose_windows(7 * e + s, 2)] for e in range(2)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(14))] * 2
    assert epochs[0] != epochs[1] and epochs[0] != list(range(14))
    assert list(sampler(1).choose_windows(0, 14)) != epochs[0] == list(one.choose_windows(0, 14))


def test_windows_stay_inside_a_shard_and_targets_are_one_ahead():
    inputs, targets = sampler().read_windows(np.arange(14))
    assert (targets == inputs + 1).all()
    assert [int(row[0]) for row in inputs] == [*range(0, 40, 10), *range(41, 141, 10)]


@pytest.mark.parametrize("world", [2, 3])
def test_the_global_batch_is_the_same_for_any_number_of_processes(world):
    whole = [sampler(5).choose_windows(step, 6) for step in range(9)]  # crosses three epochs
    parts = [
        np.concatenate([sampler(5).choose_windows(step, 6, rank, world) for rank in range(world)])
        for step in range(9)
    ]
    np.testing.assert_array_equal(whole, parts)


def test_too_little_text_says_how_much_a_sequence_takes():
    with pytest.raises(ValueError, match="takes 11 tokens of one shard, but the longest has 8"):
        sampler(lengths=(8,))
