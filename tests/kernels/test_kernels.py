"""The laws and special checks under pytest, one test for each.

The same run without pytest, on a GPU too: `python -m tests.kernels`.
"""

import warnings

import normkernels
import pytest

from .cases import CASES
from .law import Check
from .laws import LAWS, Skip, checks
from .measure import DEVICE

CHECKS = [check for check in checks() if DEVICE.type == "cuda" or not check.gpu]


def as_test(check: Check) -> pytest.param:
    return pytest.param(check, id=check.name, marks=[pytest.mark.slow] if check.slow else [])


@pytest.mark.parametrize("check", [as_test(check) for check in CHECKS])
def test_kernels(check):
    with warnings.catch_warnings():
        # Interpreted, 1 / 0 and its kind warn; and Triton's interpreter is not quite clean.
        warnings.simplefilter("ignore")
        try:
            check.run()
        except Skip as reason:
            pytest.skip(str(reason))


def test_every_kernel_has_a_case():
    without_gradient = {"unit_rows_", "rms_norm_fp8", "add_rms_norm_fp8"}  # special_*.py
    named = {case.name.partition(":")[0] for case in CASES}
    assert named == set(normkernels.__all__) - without_gradient


def test_names_tell_checks_apart():
    names = [check.name for check in checks()]
    assert len(names) == len(set(names))
    assert all(law.check.__doc__ for law in LAWS.values())
