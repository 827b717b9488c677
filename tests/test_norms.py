"""Every norm against its float64 formula: values, precision, eps, offsets, memory."""

import pytest
import torch
from cases import CASES, DIM, close, truth, with_parameters
from each import each

from labkit.norms import NORMS

OWN = [case for case in CASES.values() if case.norm != "none"]
WITH_EPS = [case for case in OWN if case.has_eps]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
THROUGH = ("function", "module")

over_all = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
over_norms = pytest.mark.parametrize("case", OWN, ids=[case.norm for case in OWN])
over_eps = pytest.mark.parametrize("case", WITH_EPS, ids=[case.norm for case in WITH_EPS])


def shapes(case):
    return case.shapes


def test_every_norm_has_a_case():
    assert set(CASES) == set(NORMS)


@over_norms
def test_a_module_has_the_parameters_of_its_case(case):
    assert tuple(name for name, _ in case.module(1e-5).named_parameters()) == case.parameters


@over_all
@each(shape=shapes, dtype=DTYPES, through=THROUGH)
def test_function_and_module_are_the_formula(case, shape, dtype, through):
    x = (1.5 * torch.randn(shape) + 0.5).to(dtype)
    p = case.draw(dtype)
    if through == "function":
        y = case.call(x, p, 1e-5)
    else:
        y = with_parameters(case.module(1e-5).to(dtype), p)(x)
    expected = truth(case, x, p, 1e-5, module=through == "module")
    # Batch statistics of few values: the native kernel's mean is rounded at the size of x.
    magnified = 4.0 if through == "module" and case.centred else 1.0
    close(y, expected, dtype, magnified, case.roundings)


@over_eps
@each(shape=shapes, eps=[1e-12, 1e-8, 1e-5, 1.0], through=THROUGH)
def test_eps_stands_where_the_formula_has_it(case, shape, eps, through):
    x = torch.randn(shape) / case.slope(eps)  # so that eps and the statistic are alike
    p = case.draw(torch.float32)
    module = with_parameters(case.module(eps), p)
    y = module(x) if through == "module" else case.call(x, p, eps)
    # The mean of a few numbers about 0 is as small as they are: nothing is magnified.
    expected = truth(case, x, p, eps, module=through == "module")
    close(y, expected, torch.float32)


@over_norms
@each(shape=shapes, offset=[10.0, 1e2, 1e3, 1e4], through=THROUGH)
def test_digits_are_kept_at_any_offset_but_for_a_modules_rounding_of_the_mean(
    case, shape, offset, through
):
    x = torch.randn(shape) + offset
    p = case.draw(torch.float32)
    module = with_parameters(case.module(1e-5), p)
    y = module(x) if through == "module" else case.call(x, p, 1e-5)
    # In the function x − mean is exact where x is near its mean, and a second pass takes off what
    # the first mean missed: nothing is magnified. The native kernels subtract the mean as float32
    # holds it. (A group of four values may have a spread of a tenth only.)
    magnified = 1 + offset if through == "module" and case.centred else 1.0
    close(y, truth(case, x, p, 1e-5, module=through == "module"), torch.float32, magnified)


@pytest.mark.parametrize("norm", ["batch", "group", "instance", "rep-batch", "prep-batch"])
@each(offset=[0.0, 1e2, 1e4])
def test_channels_last_memory_is_as_good_as_any(norm, offset):
    case = CASES[norm]
    x = torch.randn(3, DIM, 4, 4) + offset
    y = case.module(1e-5)(x.contiguous(memory_format=torch.channels_last))
    close(y, truth(case, x, {}, 1e-5), torch.float32, magnified=1 + offset)


@over_norms
@each(dtype=[torch.bfloat16, torch.float16], through=THROUGH)
def test_half_precision_inputs_get_float32_statistics(case, dtype, through):
    offset, scale = (20.0, 1.0) if dtype == torch.bfloat16 else (0.0, 600.0)
    x = (torch.randn(case.shapes[0]) * scale + offset).to(dtype)
    p = case.draw(dtype)
    module = with_parameters(case.module(1e-5).to(dtype), p)
    y = module(x) if through == "module" else case.call(x, p, 1e-5)
    expected = truth(case, x, p, 1e-5, module=through == "module")
    magnified = 1 + offset if case.centred else 1.0
    close(y, expected, dtype, magnified, case.roundings)


@over_norms
@each(level=[0.0, 2.5, -1e4], through=THROUGH)
def test_constant_values_are_harmless(case, level, through):
    x = torch.full(case.shapes[0], level, requires_grad=True)
    p = case.draw(torch.float32)
    module = with_parameters(case.module(1e-5), p)
    y = module(x) if through == "module" else case.call(x, p, 1e-5)
    # All sums are exact here, but for a mean made by multiplying with 1/n: one unit of x's last
    # place, divided by what eps leaves.
    magnified = 1 + abs(level) * case.slope(1e-5) if case.centred else 1.0
    close(y, truth(case, x, p, 1e-5, module=through == "module"), torch.float32, magnified)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert grad.isfinite().all()


@over_all
@each(shape=shapes)
def test_views_are_taken_and_no_input_is_modified(case, shape):
    views = [torch.randn(shape[::-1]).permute(*range(len(shape) - 1, -1, -1))]
    views.append(torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2])
    if not case.pools_batch and len(shape) > 1:
        views.append(torch.randn(1, *shape[1:]).expand(shape))
    for x in views:
        p = case.draw(torch.float32)
        before = [x.clone(), *[value.clone() for value in p.values()]]
        module = with_parameters(case.module(1e-5), p)
        for kind, y in (("function", case.call(x, p, 1e-5)), ("module", module(x))):
            expected = truth(case, x, p, 1e-5, module=kind == "module")
            close(y, expected, torch.float32, magnified=4)
        for kept, now in zip(before, (x, *p.values()), strict=True):
            assert torch.equal(kept, now)


# Where samples share statistics nothing can be promised.
ALONE = [case for case in OWN if not case.pools_batch]


@pytest.mark.parametrize("case", ALONE, ids=[case.norm for case in ALONE])
@each(bad=[float("nan"), float("inf")])
def test_a_bad_number_stays_in_its_row(case, bad):
    x = torch.randn(case.shapes[0])
    clean = case.call(x, {}, 1e-5)
    spoiled = x.clone()
    spoiled[0].view(-1)[3] = bad
    for call in (lambda x: case.call(x, {}, 1e-5), case.module(1e-5)):
        y = call(spoiled)
        # the same numbers, through the other path perhaps
        torch.testing.assert_close(y[1:], clean[1:], rtol=1e-5, atol=1e-5)
