"""labkit.check says one true cause, refuses what is out of scope, and takes valid settings only."""

from functools import partial

import pytest
from torch import nn
from variants_corners import wave

from labkit import check, norms

# What one law says of itself, not of the norm: untrue where the value is wrong already.
STOCK = ("another way", "another one", "half precision", "contiguous", "0 divided by 0", "cancel",
         "E[x²]", "cut off", "slope")  # fmt: skip


def test_a_law_gives_no_cause_of_its_own_where_the_value_is_wrong():
    report = check.layer_norm(wave)
    assert len(report.failed) > 8
    for law in report.failed:
        assert not any(words in law.cause for words in STOCK), law


def test_another_eps_is_the_one_cause():
    report = check.rms_norm(nn.RMSNorm(16, eps=1e-3), eps=1e-6)
    causes = {law.cause for law in report.failed}
    assert causes == {"eps is 0.001 here, where 1e-06 was asked for"}


@pytest.mark.parametrize("makes", [lambda d: nn.LayerNorm(d), partial(nn.LayerNorm, eps=1e-5)])
def test_a_factory_is_told_apart(makes):
    assert "pass the class or an instance" in check.layer_norm(makes).laws[0].message


@pytest.mark.parametrize("kind", [nn.InstanceNorm1d, norms.InstanceNorm])
def test_an_instance_norm_with_running_statistics_is_refused(kind):
    report = check.instance_norm(kind(6, track_running_stats=True))
    assert not report.ok and "out of scope" in report.laws[0].message


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


def test_a_parameter_that_was_not_tested_is_named():
    from variants_corners import Extra

    failed = check.layer_norm(Extra).failed
    assert "parameter extra" in failed[0].message and "gamma" in failed[0].message
