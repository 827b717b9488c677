"""Data: splits that do not overlap, batches that repeat."""

import itertools

import pytest
import torch

from labkit.corpora import Digits, Text
from labkit.corpora.text import (
    VOCABULARY,
    _load_splits,
    decode_tokens,
    encode_text,
    list_code_files,
    split_of,
)

SMALL = {
    "text": Text(batch=3, time=8),
    "code": Text(batch=3, time=8, source="code"),
    "digits": Digits(batch=5),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_gives_the_same_batches_and_another_seed_others(name):
    corpus = SMALL[name].load()
    first, again, other = (
        torch.cat([x.flatten() for x, _ in itertools.islice(corpus.train(seed), 3)])
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", SMALL)
def test_held_out_batches_never_change_and_differ_between_splits(name):
    one, two = SMALL[name].load().held_out, SMALL[name].load().held_out
    assert all(torch.equal(a[0], b[0]) for a, b in zip(one["test"], two["test"], strict=True))
    assert not torch.equal(one["test"][0][0], one["validation"][0][0])


@pytest.mark.parametrize("name", ["text", "code"])
def test_the_target_is_the_next_token(name):
    inputs, targets = next(SMALL[name].load().train(0))
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert inputs.shape == targets.shape == (3, 8)


def test_text_goes_there_and_back():
    assert len(VOCABULARY) == 96
    assert decode_tokens(encode_text("We, the\npeople: 1790")) == "We, the\npeople: 1790"
    assert decode_tokens(encode_text("“don’t—stop” caf\u00e9 §")) == '"don\'t-stop" cafe '


def test_years_are_held_out_whole():
    years = {
        split: {y for y in range(1790, 2030) if split_of(y) == split} for split in _load_splits()
    }
    assert not years["train"] & years["test"] and not years["validation"] & years["test"]
    assert {split: len(tokens) > 10**6 for split, tokens in _load_splits().items()} == {
        "train": True,
        "validation": True,
        "test": True,
    }
    # Washington's first address, of 1790, is test; its opening words are not in the training text
    opening = encode_text(
        "I embrace with great satisfaction the opportunity which now presents itself"
    )
    assert _contains(_load_splits()["test"], opening)
    assert not _contains(_load_splits()["train"], opening)


@pytest.mark.slow
def test_files_of_code_are_held_out_whole_and_its_tests_are_left_out():
    splits, files = _load_splits("code"), list_code_files()
    assert not [path for path in files if "tests" in path.parts]
    assert all(len(tokens) > 10**6 for tokens in splits.values())
    for number in (10, 15, 11):  # a file of each split, and none of the others
        text = encode_text(files[number].read_text(encoding="utf-8"))
        inside = [split for split, tokens in splits.items() if _contains(tokens, text)]
        assert inside == [split_of(number)] or not len(text)


def _contains(text: torch.Tensor, part: torch.Tensor) -> bool:
    return decode_tokens(part) in decode_tokens(text)


def test_digits_are_split_once():
    corpus = Digits(batch=20).load()
    held = {x.numpy().tobytes() for s in corpus.held_out.values() for b, _ in s for x in b}
    epoch = itertools.islice(corpus.train(0), 1197 // 20)
    seen = [x.numpy().tobytes() for batch, _ in epoch for x in batch]
    assert len(seen) == len(set(seen)) == 1180
    assert len(held) == 600
    assert not held & set(seen)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Text(batch=0), "batch must be at least 1, got 0"),
        (lambda: Text(held_out=0), "held_out must be at least 1, got 0"),
        (lambda: Text(time=10**7).load(), "time must be less than the text's .* got 10000000"),
        (lambda: Text(source="prose"), "unknown source 'prose'"),
        (lambda: Digits(batch=2000).load(), "training images, 1197, got 2000"),
    ],
)
def test_a_corpus_refuses_nonsense(make, message):
    with pytest.raises(ValueError, match=message):
        make()
