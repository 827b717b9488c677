"""labkit.check rejects wrong norms with a cause, accepts right ones, and has no side effects."""

import copy
import random
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import variants_rows
from torch import nn
from torch.utils.checkpoint import checkpoint
from variants_common import affine, rms, wide

from labkit import check, norms
from labkit.check import run


def hang_in_python(x, weight=None, bias=None, eps=1e-5):
    while True:
        pass


def hang_in_sleep(x, weight=None, bias=None, eps=1e-5):
    time.sleep(3)


@pytest.mark.parametrize("hang", [hang_in_python, hang_in_sleep])
def test_an_implementation_that_hangs_ends(hang, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_EACH", 0.3)
    report = check.layer_norm(hang)
    assert not report.ok
    assert "stopped" in report.laws[-1].message and "loop" in report.laws[-1].cause


# In a process of its own: torch imports what a first gradient needs once. Says what is imported
# by the first job's clock, then what all kinds of checks import after it.
FRESH = """
import sys
from labkit import check, norms
from labkit.check import run
from labkit.norms import RMSNorm

assert "sympy" not in sys.modules, "then this test shows nothing"
(first,) = run.run_all([lambda: set(sys.modules)], 8, 40)
reports = [check.rms_norm(norms.rms_norm), check.any_norm(RMSNorm)]
reports.append(check.batch_norm(norms.batch_norm))
assert all(report.ok for report in reports), reports
assert check.block(lambda x, f, norm: x + f(norm(x)), "pre").ok
assert "sympy" in first
late = {name.partition(".")[0] for name in sys.modules.keys() - first}
assert not late & {"torch", "sympy", "mpmath"}, late
"""


@pytest.mark.slow
def test_what_a_first_gradient_imports_counts_against_no_law():
    subprocess.run([sys.executable, "-c", FRESH], check=True)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_jobs_run_whatever_mode_their_caller_is_in(mode):
    with mode():
        assert run.run_all([torch.is_grad_enabled], each=1.0, total=1.0) == [True]


@pytest.mark.parametrize("nothing", [None, ..., 3, "layer_norm", torch.ones(3)])
def test_what_is_no_implementation_gets_a_report(nothing):
    report = check.rms_norm(nothing)
    assert not report.ok and len(report.laws) == 1 and report.laws[0].message


class Unmakeable(nn.Module):
    def __init__(self, dim):
        raise RuntimeError("half written")


class PlainGain(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = torch.ones(dim), torch.zeros(dim), eps

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight.to(x), self.bias.to(x), self.eps)


def no_such_gain(x, weight=None, eps=1e-6):
    raise KeyError("no such gain")


REFUSED = {  # check, what is handed in, what is said
    "an exception": (check.rms_norm, no_such_gain, "KeyError: 'no such gain'"),
    "a class that cannot be made": (check.layer_norm, Unmakeable, "half written"),
    "a gain that is no parameter": (check.layer_norm, PlainGain(8), "nn.Parameter"),
    "a running mean square": (check.power_norm, norms.PowerNorm(8), "pass the function"),
    "a factory": (check.layer_norm, lambda d: nn.LayerNorm(d), "pass the class or an instance"),
    "a partial": (check.layer_norm, partial(nn.LayerNorm, eps=1e-5), "the class or an instance"),
    **{
        f"an {kind.__module__} with statistics": (
            check.instance_norm,
            kind(6, track_running_stats=True),
            "must have no running statistics",
        )
        for kind in (nn.InstanceNorm1d, norms.InstanceNorm)
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_checked_is_said(name):
    hold, given, said = REFUSED[name]
    report = hold(given)
    assert not report.ok and said in str(report)


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
    wrong = variants_rows.LAYER_WRONG["unbiased"][0]
    assert str(check.layer_norm(wrong)) == str(check.layer_norm(wrong))
    assert str(check.layer_norm(wrong)) != str(check.layer_norm(wrong, seed=1))


def test_a_report_reads_as_a_list_and_is_safe_in_html():
    def broken(x, weight=None, bias=None, eps=1e-5):
        raise ValueError("<script>")

    report = check.layer_norm(broken)
    assert "<script>" not in report._repr_html_() and "&lt;script&gt;" in report._repr_html_()
    assert str(report).startswith("✗ check.layer_norm: 0 of ")
    good = str(check.layer_norm(norms.layer_norm))
    assert good.startswith("✓") and "✗" not in good and repr(report) == str(report)


def weight_wanted(x, weight, eps):
    return x * weight.missing


def test_the_same_exception_is_told_once():
    report = check.rms_norm(weight_wanted)
    told = [law.message for law in report.failed if "AttributeError" in law.message]
    assert len(told) > 5 and len(set(told)) == 1
    assert str(report).count("AttributeError") == 1


def test_eps_outside_is_no_matter_of_float64():
    def outside(x, weight=None, bias=None, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        y = centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps)
        return affine(y, weight, bias)

    failed = {law.name: law.cause for law in check.layer_norm(outside).failed}
    assert "outside the root" in failed["float64 kept"]


def test_an_unknown_variant_lists_the_right_ones():
    with pytest.raises(ValueError, match="'lama'; did you mean 'llama'"):
        check.rms_norm(norms.rms_norm, variant="lama")  # pyright: ignore[reportArgumentType]


def test_settings_can_be_named_where_they_cannot_be_passed():
    def half(x, weight=None):
        return norms.partial_rms_norm(x, weight, 1e-4, 0.5)

    def narrow(x, scale=1.0, weight=None):
        return norms.bounded_tanh(x, scale, weight, 3.0, 1e-6)

    def fixed(x, weight=None, bias=None):
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-3)

    assert check.layer_norm(fixed, eps=1e-3).ok
    assert "eps is 0.001 here" in str(check.layer_norm(fixed))
    assert check.partial_rms_norm(half, eps=1e-4, p=0.5).ok
    assert "p is 0.5 here" in str(check.partial_rms_norm(half, eps=1e-4))
    assert check.bounded_tanh(narrow, bound=3.0).ok
    assert not check.bounded_tanh(narrow).ok


# What one law says of itself, not of the norm: untrue where the value is wrong already.
STOCK = ("another way", "another one", "half precision", "cancel", "E[x²]", "slope")


def wave(x, weight=None, bias=None, eps=1e-5):
    return affine(torch.sin(3 * wide(x)), weight, bias).to(x.dtype)


def test_a_law_gives_no_cause_of_its_own_where_the_value_is_wrong():
    report = check.layer_norm(wave)
    assert len(report.failed) > 8
    for law in report.failed:
        assert not any(words in law.cause for words in STOCK), law


def test_another_eps_is_the_one_cause():
    report = check.rms_norm(nn.RMSNorm(16, eps=1e-3), eps=1e-6)
    causes = {law.cause for law in report.failed}
    assert causes == {"eps is 0.001 here, where 1e-06 was asked for"}


@pytest.mark.parametrize("eps", ["a", True, [1e-5]])
def test_a_setting_that_is_no_number_raises(eps):
    with pytest.raises(TypeError, match="eps must be a number"):
        check.rms_norm(norms.rms_norm, eps=eps)


def test_a_setting_that_cannot_be_raises():
    for eps in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="eps must be finite and at least 0"):
            check.rms_norm(norms.rms_norm, eps=eps)
    with pytest.raises(ValueError, match="p must be finite and greater than 0"):
        check.partial_rms_norm(norms.partial_rms_norm, p=0)
    with pytest.raises(ValueError, match="p must be a share of the channels, at most 1, got 2"):
        check.partial_rms_norm(norms.partial_rms_norm, p=2)


def test_a_parameter_that_was_not_tested_is_named():
    assert "parameter extra does was not tested" in check.layer_norm(variants_rows.Extra).notes[0]


# --- what is said is true: the right sentence, and not the false one ---


def tiny_eps_outside(x, weight=None, eps=1e-8):
    y = wide(x) / (wide(x).square().mean(-1, keepdim=True).sqrt() + eps)
    return affine(y, weight, None).to(x.dtype)


def identity(x, weight=None, eps=1e-6):
    return x


def gain_alone(x, weight=None, eps=1e-6):
    return x if weight is None else x * weight


def statistics_in_bfloat16(x, weight=None, eps=1e-6):
    mean_square = x.bfloat16().square().mean(-1, keepdim=True)
    y = wide(x) * torch.rsqrt(mean_square + eps).to(wide(x).dtype)
    return affine(y, weight, None).to(x.dtype)


def gain_added(x, weight=None, eps=1e-6):
    y = rms(x, eps)
    return (y if weight is None else y + weight).to(x.dtype)


def normed_twice(x, weight=None, eps=1e-6):
    return affine(rms(rms(x, eps), eps), weight, None).to(x.dtype)


class OldMemory(nn.BatchNorm1d):
    """Normalizes with the running statistics in training, too, and updates them afterwards."""

    def forward(self, input):
        y = F.batch_norm(input, self.running_mean.clone(), self.running_var.clone(), self.weight,
                         self.bias, False, 0.1, self.eps)  # fmt: skip
        if self.training:
            super().forward(input)
        return y


class Checkpointed(nn.BatchNorm1d):
    """Runs its forward pass again in the backward pass, which moves the statistics again."""

    def forward(self, input):
        return checkpoint(super().forward, input, use_reentrant=False)


def old_memory(x, running_mean=None, running_var=None, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):  # fmt: skip
    """The same norm as a function, without running statistics unless they are given."""
    if running_mean is None:
        return F.batch_norm(x, None, None, weight, bias, True, momentum, eps)
    y = F.batch_norm(x, running_mean.clone(), running_var.clone(), weight, bias, False, 0.1, eps)
    if training:
        F.batch_norm(x, running_mean, running_var, None, None, True, momentum, eps)
    return y


def gain_added_and_no_shift(x, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(wide(x), x.shape[-1:], eps=eps)
    return (y if weight is None else y + weight).to(x.dtype)


def gain_added_to_layer(x, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(wide(x), x.shape[-1:], eps=eps)
    y = y if weight is None else y + weight
    return (y if bias is None else y + bias).to(x.dtype)


TRUE_CAUSES = {  # check, what is handed in, what must be said, what must not
    "eps of 1e-8 outside": (check.rms_norm, tiny_eps_outside,
                            ["eps is 1e-08 and stands outside the root",
                             "eps is added outside the root"], ["not used"]),
    "the identity": (check.rms_norm, identity, ["nothing is done: x itself comes back"],
                     ["eps is 1 ", "eps is 1,"]),
    "a gain without a norm": (check.rms_norm, gain_alone, ["nothing is normalized"], ["eps is 1 "]),
    "statistics in bfloat16": (check.rms_norm, statistics_in_bfloat16,
                               ["the statistics are rounded to half precision"], ["d − 1"]),
    "a second pass of checkpointing": (check.batch_norm, Checkpointed,
                                       ["a forward pass that is done again moves them"],
                                       ["momentum is"]),
    "old memory in training": (check.batch_norm, OldMemory,
                               ["the running statistics normalize in training"],
                               ["those of each sample", "x itself comes back"]),
    "old memory, in a function": (check.batch_norm, old_memory,
                                  ["the running statistics normalize in training"],
                                  ["half precision", "x itself comes back"]),
    "gain added": (check.rms_norm, gain_added, ["the gain is added instead of multiplying"],
                   ["exchanged", "shift"]),
    "gain added, with a shift": (check.layer_norm, gain_added_to_layer,
                                 ["the gain is added instead of multiplying"], ["exchanged"]),
    "a norm applied twice": (check.rms_norm, normed_twice, ["the norm is applied twice"],
                             ["eps is not used", "outside"]),
}  # fmt: skip


def test_a_gradient_that_fails_blames_its_own_parameter():
    """The shift is ignored here; the gain is not, so the law of its gradient must not fail."""
    laws = {law.name: law.cause for law in check.layer_norm(gain_added_and_no_shift).failed}
    assert laws["gradient of the shift"] == "the shift is ignored"
    assert "shift" not in laws["gradient of the gain"]


@pytest.mark.parametrize("name", TRUE_CAUSES)
def test_the_cause_that_is_named_is_the_true_one(name):
    hold, given, said, unsaid = TRUE_CAUSES[name]
    report = hold(given)
    causes = {law.cause for law in report.failed}
    assert all(any(words in cause for cause in causes) for words in said), report
    assert not any(words in cause for cause in causes for words in unsaid), report


def test_a_report_is_headed_by_the_name_that_was_asked():
    assert str(check.rms_outside(nn.RMSNorm)).startswith("✗ check.rms_outside: ")
    assert str(check.rms_norm(nn.RMSNorm, variant="torch")).startswith("✓ check.rms_norm: ")


@pytest.mark.parametrize("nothing", [None, ...])
@pytest.mark.parametrize("hold", [check.rms_norm, check.batch_norm, check.any_norm])
def test_a_stub_gets_one_row(hold, nothing):
    report = hold(lambda x, weight=None, eps=1e-6: nothing)
    assert len(report.laws) == 1
    assert "your code returned" in str(report) and "not answered yet?" in str(report)


def test_where_no_mistake_fits_that_is_said():
    report = check.layer_norm(wave)
    assert any(note.startswith("no cause that labkit knows fits: value") for note in report.notes)


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


@pytest.mark.parametrize(
    "report",
    [
        check.answer(..., 41.7, name="1"),
        check.answer({"a": ..., "b": ...}, {"a": 1.0, "b": 2.0}),
        check.rms_norm(lambda x, weight=None, eps=1e-6: ...),
        check.rms_norm(...),
    ],
)
def test_a_notebook_marks_nothing_wrong_before_anybody_answered(report):
    assert "not answered yet" in report._repr_html_() and "✗" not in report._repr_html_()


def test_of_several_answers_those_that_lack_are_named():
    report = check.answer({"a": 1.0, "b": ..., "c": None}, {"a": 1.0, "b": 2.0, "c": 3.0})
    assert report.laws[0].message == "not answered yet: b, c" and "✗" in report._repr_html_()


@pytest.mark.parametrize("truth", [41.7, [41.7, 8.0], {"a": 41.7}, "41.7"])
def test_a_wrong_answer_never_gives_the_truth(truth):
    for yours in (1.0, [1.0, 2.0], {"a": 0.0}, "word", print, object()):
        report = check.answer(yours, truth, hint="look again")
        assert not report.ok and "41.7" not in str(report) + report._repr_html_()
