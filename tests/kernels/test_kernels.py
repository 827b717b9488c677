"""The laws and special checks under pytest: a test for each law, a subtest for each setting.

The same run without pytest, on a GPU too, and of single settings: `python -m tests.kernels`.
"""

import collections
import warnings

import normkernels
import pytest
import torch

from .cases import CASES
from .laws import LAWS, Skip, checks
from .measure import DEVICE

LAW = collections.defaultdict(list)  # by a law's name and whether these settings of it are slow
for one in checks():
    if DEVICE.type == "cuda" or not one.gpu:
        LAW[one.law, one.slow].append(one)


def as_test(name: str, slow: bool) -> pytest.param:
    marks = [pytest.mark.slow] if slow else []
    return pytest.param(LAW[name, slow], id=f"{name}-slow" if slow else name, marks=marks)


@pytest.mark.parametrize("settings", [as_test(*law) for law in LAW])
def test_kernels(settings, subtests):
    for check in settings:
        with subtests.test(check.name), warnings.catch_warnings():
            # Interpreted, 1 / 0 and its kind warn; and Triton's interpreter is not quite clean.
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            try:
                check.run()
            except Skip as reason:
                pytest.skip(str(reason))


def test_every_kernel_has_a_case():
    without_gradient = {"unit_rows_"}
    named = {case.name.partition(":")[0] for case in CASES}
    assert named == set(normkernels.__all__) - without_gradient


def test_names_tell_checks_apart():
    names = [check.name for check in checks()]
    assert len(names) == len(set(names))
    assert all(law.check.__doc__ for law in LAWS.values())
