"""Norms refuse invalid input; the message states the rule, the value and the remedy."""

import pytest
import torch
from cases import CASES, DIM
from each import each

from labkit import norms
from labkit.norms import NORMS, make_norm

MISUSES = {
    "batch, running": (lambda: norms.batch_norm(torch.ones(4, 3), torch.ones(4), torch.ones(3)),
                       ValueError, "running_mean of shape"),
    "scalar": (lambda: norms.layer_norm(torch.tensor(1.0)), ValueError, "at least one axis"),
    "one value per channel": (lambda: norms.batch_norm(torch.ones(1, 3), training=True),
                              ValueError, "more than one value per channel"),
    "one value per channel, module": (lambda: norms.BatchNorm(3)(torch.ones(1, 3)),
                                      ValueError, "more than one value per channel"),
    "empty batch": (lambda: norms.BatchNorm(3)(torch.ones(0, 3)),
                    ValueError, "more than one value per channel"),
    "one axis": (lambda: norms.batch_norm(torch.ones(3), training=True),
                 ValueError, r"\(batch, channels, …\)"),
    "groups do not divide": (lambda: norms.group_norm(torch.ones(2, 6), 4),
                             ValueError, "multiple of the 4 groups, got 6 channels"),
    "no groups": (lambda: norms.group_norm(torch.ones(2, 6), 0), ValueError, "multiple"),
    "groups do not divide, module": (lambda: norms.GroupNorm(4, 6), ValueError, "multiple"),
    "batch, other size": (lambda: norms.BatchNorm(4)(torch.ones(2, 3)),
                          ValueError, "needs 4 channels on axis 1"),
    "batch, other axis": (lambda: norms.BatchNorm(4, channel_axis=2), ValueError, "axis=1"),
    "group, other axis": (lambda: norms.GroupNorm(2, 4, channel_axis=0), ValueError, "axis=1"),
    "group, other size": (lambda: norms.GroupNorm(2, 4)(torch.ones(2, 3)),
                          ValueError, "needs 4 channels"),
    "layer module, negative eps": (lambda: norms.LayerNorm(3, eps=-1.0)(torch.ones(3)),
                                   ValueError, "eps >= 0"),
    "rms module, negative eps": (lambda: norms.RMSNorm(3, eps=-1.0)(torch.ones(3)),
                                 ValueError, "eps >= 0"),
    "batch module, negative eps": (lambda: norms.BatchNorm(3, eps=-1.0)(torch.ones(4, 3)),
                                   ValueError, "eps >= 0"),
    "layer module, eps a text": (lambda: norms.LayerNorm(3, eps="1e-5")(torch.ones(3)),
                                 TypeError, "LayerNorm needs a number as eps, got '1e-5'"),
    "function, eps a text": (lambda: norms.rms_norm(torch.ones(3), eps="1e-5"),
                             TypeError, "a number as eps"),
    "batch, scalar": (lambda: norms.BatchNorm(3, channel_axis=-1)(torch.tensor(1.0)),
                      ValueError, "axis"),
    "batch, one axis, last": (lambda: norms.BatchNorm(3, channel_axis=-1)(torch.ones(3)),
                              ValueError, "axis"),
    "annotated, one feature": (lambda: norms.annotated_layer_norm(torch.ones(3, 1)),
                               ValueError, "at least two features.*use layer_norm"),
    "rms module of one, wider input": (lambda: norms.RMSNorm(1)(torch.ones(9, 4)),
                                       ValueError, r"ends in \(1,\), got \(9, 4\)"),
    "layer module, tuple": (lambda: norms.LayerNorm((2, 3))(torch.ones(2, 4)),
                            ValueError, r"ends in \(2, 3\), got \(2, 4\)"),
    "partial, no share": (lambda: norms.partial_rms_norm(torch.ones(4), p=0.0),
                          ValueError, r"p, the fraction of the features, in \(0, 1\], got 0.0"),
    "partial, more than all": (lambda: norms.PartialRMSNorm(4, p=1.5), ValueError, "got 1.5"),
    "instance, no space": (lambda: norms.instance_norm(torch.ones(3, 4)),
                           ValueError, r"\(batch, channels, space …\).*x\[None\]"),
    "instance, one position": (lambda: norms.InstanceNorm(4)(torch.ones(3, 4, 1)),
                               ValueError, "more than one position"),
    "instance, other channels": (lambda: norms.InstanceNorm(4)(torch.ones(2, 3, 5)),
                                 ValueError, "needs 4 channels on axis 1"),
    "instance, other width": (
        lambda: norms.InstanceNorm(4, channel_axis=-1)(torch.ones(2, 5, 3)),
        ValueError, "needs 4 channels on axis -1"),
    "instance, one vector": (lambda: norms.InstanceNorm(4, channel_axis=-1)(torch.ones(4)),
                             ValueError, r"\(…, time, dim\), got \(4,\)"),
    "instance, other axis": (lambda: norms.InstanceNorm(4, channel_axis=2), ValueError, "axis=1"),
    "rep, other axis": (lambda: norms.RepBatchNorm(4, channel_axis=2),
                        ValueError, "RepBatchNorm needs channel_axis"),
    "rep, other size": (lambda: norms.RepBatchNorm(4)(torch.ones(2, 3)),
                        ValueError, r"RepBatchNorm\(4\) needs 4 channels"),
    "prep, one token": (lambda: norms.PRepBatchNorm(4)(torch.ones(1, 4)),
                        ValueError, "more than one value per channel"),
    "power, groups": (lambda: norms.PowerNorm(6, groups=4),
                      ValueError, r"dim \(6\) to be a multiple of groups \(4\)"),
    "power, warm-up": (lambda: norms.PowerNorm(6, warmup=-1), ValueError, "warmup >= 0"),
    "power, no tokens": (lambda: norms.PowerNorm(6)(torch.ones(0, 6)),
                         ValueError, "at least one real token"),
    "bhyt, bound": (lambda: norms.BoundedTanh(4, bound=0.0), ValueError, "bound above 0, got 0.0"),
}  # fmt: skip
ROWWISE = [name for name, case in CASES.items() if name != "none" and case.axis == -1]


@each(name=MISUSES)
def test_a_misuse_is_refused_with_the_rule_and_what_came(name):
    misuse, kind, words = MISUSES[name]
    with pytest.raises(kind, match=words):
        misuse()


@each(norm=[name for name in CASES if name not in ("none", "prep-batch")])
def test_a_function_refuses_what_its_formula_cannot_mean(norm):
    case = CASES[norm]
    x = torch.randn(case.shapes[0])
    with pytest.raises(TypeError, match=r"floating-point tensor, got torch\.int64"):
        case.call(x.long(), {}, 1e-5)
    for eps in (-1e-5, float("nan")) if case.has_eps else ():
        with pytest.raises(ValueError, match=f"eps >= 0, got {eps}"):
            case.call(x, {}, eps)
    for name, value in case.draw(torch.float32).items():
        rule = rf"{name} of shape \({DIM},\)" if len(value) == DIM else f"single number as {name}"
        for size in (3, 1) if len(value) == DIM else (3,):  # one number would broadcast
            with pytest.raises(ValueError, match=rf"{rule}.*got .*\({size},\)"):
                case.call(x, {name: torch.ones(size)}, 1e-5)


@each(norm=ROWWISE)
def test_a_module_refuses_another_width(norm):
    with pytest.raises(
        ValueError, match=r"\(?6,?\)? needs an input whose shape ends in \(6,\), got \(2, 3\)"
    ):
        make_norm(norm, 6)(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"got \(2, 1\)"):  # which would broadcast
        make_norm(norm, 6)(torch.ones(2, 1))
    with pytest.raises(ValueError, match=r"axis|ends in"):
        make_norm(norm, 6)(torch.tensor(1.0))


@each(norm=[name for name in NORMS if name != "none"])
def test_a_refusal_counts_and_changes_nothing(norm):
    module = make_norm(norm, 8)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(TypeError, match=r"floating-point tensor, got torch\.int64"):
        module(torch.ones(4, 5, 8, dtype=torch.int64))
    with pytest.raises((TypeError, ValueError)):
        module(torch.ones(4, 5, 7))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


ALONE = [*ROWWISE, "group"]
ALONE.remove("power")


@each(norm=ALONE)
def test_an_empty_batch_of_rows_stays_empty(norm):
    assert make_norm(norm, 8)(torch.zeros(0, 8)).shape == (0, 8)
