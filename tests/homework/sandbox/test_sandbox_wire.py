"""The protocol: what can be sent, and that its reader refuses all other bytes."""

import io
import json
import random

import pytest
import torch

from press.homework.sandbox.inside import wire


def read(message, cap=1 << 20):
    stream = io.BytesIO(message)
    value = wire.receive(stream.read, cap)
    assert not stream.read()
    return value


def test_a_message_is_read_as_it_was_written():
    head, (x, rest) = read(wire.write_frame({"id": 1}, (torch.arange(3), {"a": [1.5, None]})))
    assert head == {"id": 1} and torch.equal(x, torch.arange(3)) and rest == {"a": [1.5, None]}


def test_random_damage_is_refused_or_read_as_plain_data():
    draw = random.Random(0)
    good = wire.write_frame(
        {"id": 1}, [torch.arange(6).reshape(2, 3), {"a": (1.5, "x")}, torch.ones(2)]
    )
    refused = 0
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        if draw.random() < 0.3:
            bad = bad[: draw.randrange(wire.HEAD.size, len(bad))]
        try:
            wire.receive(io.BytesIO(bad).read, 1 << 20)
        except wire.Refused:
            refused += 1
    assert 1000 < refused < 3000


TREES = [
    [], ["f"], ["f", "nan", 1], ["f", 3], ["f", "0x"], ["l"], ["l", 3], ["l", [], []], ["t", {}],
    ["d", [["a"]]], ["d", [[1, 2]]], ["d", [["a", 1, 2]]], ["x"], ["x", "float32"], ["x", 3, []],
    ["x", "float32", 3], ["x", "float32", ["a"]], ["x", "float32", [True]], ["x", "float32", [-1]],
    ["x", "float32", [1 << 40, 0]], ["x", "float32", [1] * 17], ["x", "Tensor", [1]],
    ["x", "float32", [1 << 31 - 1, 1 << 31 - 1]], ["?", []], [None, []], {"a": 1}, 1.5, [["f"]],
]  # fmt: skip


HEADERS = [b"", b"{", b"[]", b'{"head": 1}', b"\xff", b'{"head": {}, "value": NaN}']
MESSAGES = [
    *((json.dumps({"head": {}, "value": tree}).encode(), b"") for tree in TREES),
    *((header, b"") for header in HEADERS),
    (b'{"head": {}, "value": null}', b"bytes of no tensor"),
]


@pytest.mark.parametrize(("header", "body"), MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_that_holds_no_value_is_refused(header, body):
    with pytest.raises(wire.Refused):
        wire.read_message(header, body)


def test_a_start_that_promises_too_much_is_refused_before_it_is_read():
    start = wire.HEAD.pack(wire.MAGIC, 10, 101)
    assert wire.read_sizes(start, 101) == (10, 101)
    for bad in (start, wire.HEAD.pack(wire.MAGIC, 1 << 31, 0), wire.HEAD.pack(b"LKW0", 1, 1)):
        with pytest.raises(wire.Refused):
            wire.read_sizes(bad, 100)


def test_equal_tensors_share_no_memory_after_crossing():
    x = torch.ones(3)
    _, (a, b) = read(wire.write_frame({}, (x, x)))
    a += 1
    assert torch.equal(b, torch.ones(3)) and torch.equal(x, torch.ones(3))
