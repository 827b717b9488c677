"""labkit.check rejects what is wrong, says why, accepts what is right, and disturbs nothing."""

import copy
import random
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import variants_batch
import variants_layer
import variants_rms
from torch import nn

from labkit import check, norms
from labkit.check import guard

CHECKS = {
    "layer": (check.layer_norm, variants_layer),
    "rms": (check.rms_norm, variants_rms),
    "batch": (check.batch_norm, variants_batch),
}
WRONG = [(norm, name) for norm, (_, table) in CHECKS.items() for name in table.WRONG]
RIGHT = [(norm, name) for norm, (_, table) in CHECKS.items() for name in table.RIGHT]


@pytest.mark.parametrize(("norm", "name"), WRONG)
def test_a_wrong_variant_is_rejected_with_its_cause(norm, name, record_property):
    hold, table = CHECKS[norm]
    variant, cause = table.WRONG[name]
    report = hold(variant)
    record_property("mutation gate", (norm, report.ok))
    assert not report.ok
    assert all(law.message for law in report.laws)
    assert any(cause in law.cause for law in report.failed), report


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("norm", "name"), RIGHT)
def test_a_right_variant_is_accepted(norm, name, seed):
    hold, table = CHECKS[norm]
    report = hold(table.RIGHT[name], seed=seed)
    assert report.ok, report


@pytest.mark.parametrize("norm", CHECKS)
def test_the_gate_is_large_enough(norm):
    _, table = CHECKS[norm]
    assert len(table.WRONG) >= 15 and len(table.RIGHT) >= 3


SUBJECTS = {
    "layer": (norms.layer_norm, norms.LayerNorm, norms.LayerNorm(24), norms.LayerNorm((3, 4))),
    "rms": (norms.rms_norm, norms.RMSNorm, norms.RMSNorm(24), norms.RMSNorm(8, eps=1e-3)),
    "batch": (
        norms.batch_norm,
        norms.BatchNorm,
        norms.BatchNorm(6, momentum=None),
        norms.BatchNorm(6, channel_axis=-1),
    ),
    "group": (
        norms.group_norm,
        norms.GroupNorm,
        norms.GroupNorm(2, 8),
        norms.GroupNorm(2, 8, channel_axis=-1),
        nn.GroupNorm(4, 8),
        nn.GroupNorm,
        F.group_norm,
    ),
}
HOLD = {norm: hold for norm, (hold, _) in CHECKS.items()} | {"group": check.group_norm}


@pytest.mark.parametrize(
    ("norm", "place"), [(norm, i) for norm, row in SUBJECTS.items() for i in range(len(row))]
)
def test_labkit_keeps_its_own_laws(norm, place):
    report = HOLD[norm](SUBJECTS[norm][place])
    assert report.ok, report


GROUPS_WRONG = {
    "one group": lambda x, num_groups, w=None, b=None, eps=1e-5: F.group_norm(x, 1, w, b, eps),
    "each channel": lambda x, num_groups, w=None, b=None, eps=1e-5: F.group_norm(
        x, x.shape[1], w, b, eps
    ),
    "strided": lambda x, num_groups, w=None, b=None, eps=1e-5: F.group_norm(
        x.unflatten(1, (-1, num_groups)).transpose(1, 2).flatten(1, 2), num_groups, w, b, eps
    ).unflatten(1, (num_groups, -1)).transpose(1, 2).flatten(1, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS_WRONG)
def test_a_wrong_group_norm_is_rejected(name):
    assert not check.group_norm(GROUPS_WRONG[name]).ok


def test_eps_names_what_a_fixed_eps_must_be():
    def fixed(x, weight=None, bias=None):
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-3)

    assert check.layer_norm(fixed, eps=1e-3).ok
    assert "eps is 0.001 here" in str(check.layer_norm(fixed))


def hang_in_python(x, weight=None, bias=None, eps=1e-5):
    while True:
        pass


def hang_in_sleep(x, weight=None, bias=None, eps=1e-5):
    time.sleep(3)


@pytest.mark.parametrize("hang", [hang_in_python, hang_in_sleep])
def test_an_implementation_that_hangs_ends(hang, monkeypatch):
    monkeypatch.setattr(check, "SECONDS_EACH", 0.3)
    report = check.layer_norm(hang)
    assert not report.ok
    assert "stopped" in report.laws[-1].message and "loop" in report.laws[-1].cause


def test_the_thread_of_an_endless_loop_is_gone_afterwards():
    state = []

    def loop():
        try:
            while True:
                pass
        finally:
            state.append("ended")

    assert guard.run_all([loop], each=0.2, total=1.0) == []
    assert state == ["ended"]


@pytest.mark.parametrize("nothing", [None, ..., 3, "layer_norm", torch.ones(3)])
def test_what_is_no_implementation_gets_a_report(nothing):
    report = check.rms_norm(nothing)
    assert not report.ok and len(report.laws) == 1 and report.laws[0].message


def test_an_exception_in_the_code_becomes_the_message():
    def broken(x, weight=None, eps=1e-6):
        raise KeyError("no such gain")

    report = check.rms_norm(broken)
    assert "KeyError: 'no such gain'" in report.laws[0].message


class Unmakeable(nn.Module):
    def __init__(self, dim):
        raise RuntimeError("half written")


def test_a_class_that_cannot_be_made_gets_a_report():
    report = check.layer_norm(Unmakeable)
    assert not report.ok and "half written" in str(report)


class PlainGain(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = torch.ones(dim), torch.zeros(dim), eps

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight.to(x), self.bias.to(x), self.eps)


def test_a_gain_that_is_no_parameter_is_named():
    assert "nn.Parameter" in str(check.layer_norm(PlainGain(8)))


class StartsAtZero(nn.LayerNorm):
    def reset_parameters(self):
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


def test_a_class_whose_gain_starts_at_zero_is_rejected():
    assert not check.layer_norm(StartsAtZero).ok


def test_nothing_of_the_caller_is_changed():
    def draws(x, weight=None, bias=None, eps=1e-5):
        torch.rand(3), np.random.rand(), random.random()
        torch.set_default_dtype(torch.float64)
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)

    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    assert check.layer_norm(draws).ok
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all() and before[2] == random.getstate()
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("training", [True, False])
def test_a_module_comes_back_as_it_was(training):
    module = nn.BatchNorm1d(5).train(training)
    module(torch.randn(9, 5))
    before = copy.deepcopy(module.state_dict())
    assert check.batch_norm(module).ok
    assert module.training == training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_check_says_the_same_each_time_and_another_seed_draws_other_inputs():
    wrong = variants_layer.WRONG["unbiased"][0]
    assert str(check.layer_norm(wrong)) == str(check.layer_norm(wrong))
    assert str(check.layer_norm(wrong)) != str(check.layer_norm(wrong, seed=1))


def test_a_check_works_without_gradients_being_on():
    with torch.no_grad():
        assert check.layer_norm(norms.layer_norm).ok


def test_a_report_reads_as_a_list_and_is_safe_in_html():
    def broken(x, weight=None, bias=None, eps=1e-5):
        raise ValueError("<script>")

    report = check.layer_norm(broken)
    assert "<script>" not in report._repr_html_() and "&lt;script&gt;" in report._repr_html_()
    assert str(report).startswith("✗ check.layer_norm: 0 of ")
    good = str(check.layer_norm(norms.layer_norm))
    assert good.startswith("✓") and "✗" not in good and repr(report) == str(report)


# --- answer() ---

ANSWERS = {  # yours, truth, right?
    "a number": (0.9355, 0.93541, True),
    "too far": (0.93, 0.93541, False),
    "zero": (1e-9, 0.0, True),
    "not zero": (0.1, 0.0, False),
    "a tensor": (torch.tensor([1.0, 2.0]), [1, 2], True),
    "a wrong tensor": (torch.tensor([1.0, 2.1]), [1, 2], False),
    "a wrong shape": ([1.0, 2.0, 3.0], [1, 2], False),
    "one in a list": ([2.0], 2, True),
    "an array": (np.array([[1, 2]]), torch.tensor([[1, 2]]), True),
    "nan": (float("nan"), float("nan"), True),
    "nan for a number": (float("nan"), 1.0, False),
    "infinity": (float("inf"), float("inf"), True),
    "yes": (True, True, True),
    "no": (False, True, False),
    "a number for yes": (1, True, False),
    "a word": ("Post-Norm ", "post-norm", True),
    "another word": ("pre-norm", "post-norm", False),
    "a word for a number": ("two", 2, False),
    "a function": (print, 2, False),
    "named": ({"mean": 1.0, "var": 2.0}, {"mean": 1, "var": 2}, True),
    "one named wrong": ({"mean": 1.0, "var": 3.0}, {"mean": 1, "var": 2}, False),
    "a number for named": (1.0, {"mean": 1, "var": 2}, False),
    "ragged": ([[1, 2], [3]], [1, 2], False),
    "an object": (object(), 1.0, False),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_judged(name):
    yours, truth, right = ANSWERS[name]
    report = check.answer(yours, truth, name="exercise 1", hint="think of d")
    assert report.ok == right
    assert ("think of d" in str(report)) == (not right)


@pytest.mark.parametrize("nothing", [..., None, "", "...", [1.0, ...], {"mean": ...}])
def test_no_answer_yet_is_said(nothing):
    report = check.answer(nothing, 41.7, hint="think")
    assert not report.ok and report.laws[0].message == "not answered yet"


@pytest.mark.parametrize("truth", [41.7, [41.7, 8.0], {"a": 41.7}, "41.7"])
def test_a_wrong_answer_never_gives_the_truth(truth):
    for yours in (1.0, [1.0, 2.0], {"a": 0.0}, "word", print, object()):
        report = check.answer(yours, truth, hint="look again")
        assert not report.ok and "41.7" not in str(report) + report._repr_html_()
