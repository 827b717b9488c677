"""Honest submissions: their values come back, their mistakes are named, results are repeatable."""

import math

import numpy
import pytest
import torch

from press.homework.sandbox import Limits
from press.homework.sandbox.answer import FAILURES, clean_text

VALUES = [
    None,
    True,
    -3,
    2**200,
    0.1,
    math.inf,
    "ü\0\ud800",
    [],
    (),
    {},
    [1, (2.5, {"a": [None]})],
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_plain_values_come_back_as_they_went(ask, value):
    answer = ask("def answer(x): return x", value)
    assert answer.ok and answer.value == value and type(answer.value) is type(value)


def test_tensors_of_all_kinds_come_back_bit_for_bit(sandbox):
    kinds = "float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64"
    tensors = [torch.tensor([[0, 1, 2]]).to(getattr(torch, kind)) for kind in kinds.split()]
    tensors += [torch.tensor(math.nan), torch.empty(0, 3), torch.ones(4, 4).t()[1:, ::2]]
    with sandbox.open_worker("def answer(x): return x") as worker:
        for sent in tensors:
            got = worker.call("answer", sent).value
            assert got.dtype == sent.dtype and got.shape == sent.shape
            assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(sent))


def test_arrays_parameters_and_gradients_come_back_as_plain_tensors(ask):
    program = """
import numpy as np
import torch
def answer():
    grows = torch.ones(2, requires_grad=True)
    return [np.arange(3.0)[::-1], np.float32(1.5), torch.nn.Parameter(torch.ones(1)), grows * 2]
"""
    array, number, parameter, product = ask(program).value
    assert torch.equal(array, torch.tensor([2.0, 1, 0], dtype=torch.float64)) and number == 1.5
    assert torch.equal(parameter, torch.ones(1)) and torch.equal(product, torch.full((2,), 2.0))
    assert not any(each.requires_grad for each in (array, parameter, product))


def test_named_arguments_and_numpy_arrays_arrive(ask):
    answer = ask("def answer(x, *, eps): print('got', eps); return x * eps", numpy.ones(2), eps=2.0)
    assert torch.equal(answer.value, torch.full((2,), 2.0, dtype=torch.float64))
    assert answer.seconds > 0


@pytest.mark.parametrize(
    "program, failure, detail",
    [
        ("x = 1", "missing", "the submission must define answer"),
        ("def answer(): raise ValueError('eps > 0')", "raised", "ValueError: eps > 0"),
        ("def answer(): return [1] + 1", "raised", "TypeError: can only concatenate list"),
        ("def answer(): return object()", "refused", "got object"),
        ("def answer(): return bytearray(1 << 40)", "memory", "MemoryError"),
        ("def answer(:", "broken", "SyntaxError: "),
        ("answer = 1 / 0", "broken", "ZeroDivisionError: division by zero"),
        ("import os\ndef answer(): return os.getcwd()", "forbidden", "only numpy, torch and"),
        ("def answer(): import requests", "forbidden", "but imports requests"),
        ("from labkit.norms import rms_norm as answer", "forbidden", "but imports labkit"),
        ("class answer:\n    def __repr__(self): return '?'", "refused", "got answer"),
    ],
)
def test_each_failure_has_its_name_and_says_why(ask, program, failure, detail):
    answer = ask(program)
    assert answer.failure == failure in FAILURES and detail in answer.detail
    assert answer.value is None and not answer.ok and len(answer.detail) <= 500


def test_one_broken_definition_leaves_the_others(sandbox):
    program = """
from __future__ import annotations
import os
from labkit import check
scale: Unknown = 2.0
def half(x: AlsoUnknown): return x / scale
broken = half(1) / 0
def uses(): return broken
if half(1) / 0:
    def perhaps(): return 1
"""
    with sandbox.open_worker(program) as worker:
        assert worker.call("half", 1).value == 0.5
        assert worker.call("broken").failure == "broken"
        assert worker.call("uses").detail == "NameError: name 'broken' is not defined"
        assert worker.call("check").failure == "forbidden"
        assert worker.call("nothing").failure == "missing"
        assert worker.call("perhaps").failure == "broken"


def test_a_probe_gets_the_final_definitions(sandbox):
    program = """
import torch
class Norm(torch.nn.Module):
    def __init__(self, dim): super().__init__(); self.weight = torch.nn.Parameter(torch.ones(dim))
    def forward(self, x): return self.weight * x
"""
    probes = """
import os
def probe_weight(student, dim, factor=1): return (student.Norm(dim).weight * factor).sum().item()
"""
    with sandbox.open_worker(program, probes) as worker:
        assert worker.probe("probe_weight", 3, factor=2).value == 6
        assert worker.call("probe_weight").failure == "missing"
        assert worker.probe("probe_other").failure == "broken"
    with sandbox.open_worker("x = 1", probes) as worker:
        said = worker.probe("probe_weight", 3)
        assert (said.failure, said.detail) == (
            "missing",
            "the submission must define Norm, but does not",
        )


def test_once_gone_a_worker_answers_the_same_at_once(sandbox):
    with sandbox.open_worker(
        "def answer():\n    while True: pass", limits=Limits(seconds=0.3)
    ) as worker:
        first = worker.call("answer")
        assert first.failure == "slow" and first.detail == "no answer within 0.3 s"
        assert worker.call("answer") is first and worker.probe("any") is first


def test_twenty_gradings_are_identical(sandbox):
    program = """
import random, torch
def answer(x): return [random.random(), torch.rand(3), hash("x"), sorted({"p", "q"}), x @ x.T]
def wrong(): raise ValueError(object(), {"a", "b", "c", "d"})
"""
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    seen = set()
    for _ in range(20):
        with sandbox.open_worker(program) as worker:
            one, other = worker.call("answer", x), worker.call("wrong")
            seen.add((repr(one.value), other.failure, other.detail))
    assert len(seen) == 1 and "0x…" in seen.pop()[2]


def test_what_a_test_cannot_send_is_the_tests_mistake(sandbox):
    with (
        sandbox.open_worker("def answer(x): return x") as worker,
        pytest.raises(ValueError, match=r"a value must be None, a number, .* got object"),
    ):
        worker.call("answer", object())


def test_shown_text_is_short_printable_and_the_same_each_time():
    assert clean_text("a\x1b[2J\0b\u202e at 0x7f12345678") == "a [2J b  at 0x…"
    assert len(clean_text("x" * 10**6)) == 500
