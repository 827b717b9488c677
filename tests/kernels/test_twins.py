"""Kernels and their formulas in labkit agree in name, signature, values and gradients.

Interpreted where there is no GPU. The laws hold all kernels against formulas of their own, in
`cases`; this file says that labkit's formulas are those formulas, down to the default arguments.
labkit has no formula for the kernels of sums and gates.
"""

import inspect

import pytest

from tests.each import each

pytest.importorskip("triton")


import normkernels

import labkit.attention
import labkit.norms
import labkit.placements.sphere

from .cases import CASES, Case, Make
from .measure import BRAIN, DEVICE, FLOAT, Setting, draw, fused, relative, run

# The module of labkit that has the formula of a kernel.
TWINS = {
    "rms_norm": labkit.norms,
    "rms_norm_llama": labkit.norms,
    "rms_norm_gemma": labkit.norms,
    "dynamic_tanh": labkit.norms,
    "dynamic_erf": labkit.norms,
    "qk_norm_rope": labkit.attention,
    "layer_norm": labkit.norms,
    "ngpt_update": labkit.placements.sphere,
}


def twin(case: Case):
    name = case.name.partition(":")[0]
    return getattr(TWINS[name], name)


JOINED = [case for case in CASES if case.name.partition(":")[0] in TWINS]


@each(case=JOINED)
def test_a_kernel_is_called_like_its_twin(case):
    def given(function):
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert given(case.function) == given(twin(case))


@pytest.mark.parametrize("case", JOINED, ids=lambda case: case.name)
@each(dtype=[FLOAT, BRAIN])
def test_a_kernel_gives_what_its_twin_gives(case, dtype):
    n = min(case.lengths, key=lambda length: abs(length - 128))
    inputs = draw(case, Setting(7, n, dtype))
    actual = fused(case, inputs)
    theirs = run(twin(case), case, inputs, actual.dys)
    pairs = list(zip(actual.outputs, theirs.outputs, strict=True))
    pairs += [(actual.grads[name], theirs.grads[name]) for name in actual.grads]
    for one, other in pairs:
        assert one.dtype == other.dtype and one.shape == other.shape
        # Both round to the dtype, the formula's gradients more than once.
        share = 1e-5 if dtype == FLOAT else 4 * relative(dtype) * case.roundings
        assert (one - other).abs().max() <= share * other.abs().max()


@each(dim=[0, 1], dtype=[FLOAT, BRAIN])
def test_weights_are_renormalized_as_their_twin_does_it(dtype, dim):
    ours, theirs = normkernels.unit_rows_, labkit.placements.sphere.unit_rows_
    assert [str(p).partition(":")[0] for p in inspect.signature(ours).parameters.values()] == [
        str(p).partition(":")[0] for p in inspect.signature(theirs).parameters.values()
    ]
    w = Make(70, 41, dtype).rows().to(DEVICE)
    w[3], w[:, 5] = 0, 0
    one, other = ours(w.clone(), dim), theirs(w.clone(), dim)
    assert (one - other).abs().max() <= relative(dtype) * other.abs().max()
