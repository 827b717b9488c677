"""The mutation gate: labkit.check rejects wrong norms with their cause, and accepts right ones.

A whole report looks at some twenty laws and searches a mistake that explains each. The quick run
holds a sample against all of it. The slow run has all variants, and asks only whether one law is
broken and one names the cause: after that the rest may rest.
"""

import pytest
from variants import GATES
from variants_common import CORRUPTIONS

from labkit import norms
from labkit.check import run
from labkit.norms import NORMS, make_norm


@pytest.fixture
def rest_after(request, monkeypatch):
    """Omit, in the slow tests, the laws that follow a conclusive failure."""
    if request.node.get_closest_marker("slow") is None:
        return lambda settles: None
    return lambda settles: leave_out_after(monkeypatch, settles)


def leave_out_after(monkeypatch, settles):
    settled, attempt = [], run.try_law

    def once(*given):
        law = None if settled else attempt(*given)
        if law is not None and not law.ok and settles(law):
            settled.append(law)
        return law

    monkeypatch.setattr(run, "try_law", once)


def some(rows, every):
    """Put every n-th row into the quick tests, and the others into the slow ones."""
    return [row if i % every == 0 else pytest.param(*row, marks=pytest.mark.slow)
            for i, row in enumerate(rows)]  # fmt: skip


WRONG = [(norm, name) for norm, gate in GATES.items() for name in gate.wrong]
RIGHT = [(norm, name, 0) for norm, gate in GATES.items() for name in gate.right]
OTHER_SEED = [pytest.param(norm, name, 1, marks=pytest.mark.slow) for norm, name, _ in RIGHT]


@pytest.mark.parametrize(("norm", "name"), some(WRONG, 8))
def test_a_wrong_variant_is_rejected_with_its_cause(norm, name, rest_after):
    variant, cause = GATES[norm].wrong[name]
    rest_after(lambda law: cause in law.cause)
    report = GATES[norm].hold(variant)
    assert not report.ok
    assert all(law.message for law in report.laws)
    assert any(cause in law.cause for law in report.failed), report


@pytest.mark.parametrize(("norm", "name", "seed"), [*some(RIGHT, 4), *OTHER_SEED])
def test_a_right_variant_is_accepted(norm, name, seed):
    report = GATES[norm].hold(GATES[norm].right[name], seed=seed)
    assert report.ok, report


# What does no harm to a norm without parameters, or that does nothing. A squash is asked for its
# digits of tiny numbers among others, not where all are tiny.
HARMLESS = {
    "dyt": {"wrong for tiny numbers"},
    "derf": {"wrong for tiny numbers"},
    "none": {"parameters' gradient lost", "remembers results", "overwrites x in bfloat16"},
}
CORRUPTED = [(norm, name) for norm in GATES for name in CORRUPTIONS
             if name not in HARMLESS.get(norm, ())]  # fmt: skip


@pytest.mark.parametrize(("norm", "name"), some(CORRUPTED, 26))
def test_a_norm_that_is_wrong_in_one_corner_is_rejected(norm, name, rest_after):
    wrong = CORRUPTIONS[name][0](GATES[norm].function)
    rest_after(lambda law: True)
    report = GATES[norm].hold(wrong)
    assert not report.ok


MORE = {  # than the class, and the module that models take
    "layer": [norms.LayerNorm((3, 4))],
    "annotated-layer": [norms.AnnotatedLayerNorm(24, eps=1e-3)],
    "rms": [norms.RMSNorm(8, eps=1e-3)],
    "rms, torch's order": [norms.RMSNorm, norms.RMSNorm(64)],
    "partial-rms": [norms.PartialRMSNorm(24, p=0.3)],
    "batch": [norms.BatchNorm(6, momentum=None)],
    "instance": [norms.InstanceNorm(8)],
    "group": [norms.GroupNorm(2, 8)],
    "l2": [norms.L2Norm(24, temperature=3.0)],
    "rep-batch": [norms.RepBatchNorm(8)],
    "dyt": [norms.DynamicTanh(24, bias=False)],
    "derf": [norms.DynamicErf(24, alpha=0.2, shift=0.3)],
    "bhyt": [norms.BoundedTanh(24, scale=3.0, bound=5.0)],
}
MODULES = {key: MORE.get(key, []) for key in GATES if key != "power"}
for key in MODULES.keys() & NORMS.keys():
    MODULES[key] = [NORMS[key], make_norm(key, 24), *MODULES[key]]
OWN = [(norm, i) for norm, row in MODULES.items() for i in range(len(row))]


@pytest.mark.parametrize(("norm", "place"), some(OWN, 3))
def test_labkits_modules_keep_the_laws(norm, place):
    report = GATES[norm].hold(MODULES[norm][place])
    assert report.ok, report


@pytest.mark.parametrize("norm", GATES)
def test_labkits_functions_keep_the_laws(norm):
    report = GATES[norm].hold(GATES[norm].function)
    assert report.ok, report
