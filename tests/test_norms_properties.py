"""Any good input (hypothesis): shapes, dtypes, magnitudes, strides, for every norm."""

import pytest
import torch
from cases import CASES, DIM, Case, truth, with_parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labkit import norms

OWN = [case for case in CASES.values() if case.norm != "none"]
over_norms = pytest.mark.parametrize("case", OWN, ids=[case.norm for case in OWN])

bounded = settings(max_examples=20, deadline=None, derandomize=True)
sizes = st.integers(1, 4)
good_inputs = st.fixed_dictionaries(
    {
        "batch": st.integers(2, 5),
        "space": st.lists(sizes, max_size=2),
        "dim": st.sampled_from([DIM, 3, 6, 15, 33]),  # groups need a multiple of three
        "exponent": st.integers(-12, 12),
        "offset": st.sampled_from([0.0, 1.0, -3.0]),
        "eps": st.sampled_from([1e-12, 1e-6, 1e-5, 1e-2, 1.0]),
        "dtype": st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
        "step": st.integers(1, 3),
        "flipped": st.booleans(),
        "gains": st.booleans(),
        "seed": st.integers(0, 2**16),
    }
)


def drawn(case: Case, batch, space, dim, exponent, offset, eps, dtype, step, flipped, gains, seed):
    """Numbers of size 2**exponent, in memory with a stride or with the axes another way round."""
    space = [*space, 3] if case.norm == "instance" else space
    shape = [batch, *space, dim] if case.axis == -1 else [batch, dim, *space]
    draw = torch.Generator().manual_seed(seed)
    stored = shape[::-1] if flipped else shape
    x = torch.randn(*stored[:-1], stored[-1] * step, generator=draw) + offset
    x = (x * 2.0**exponent).to(dtype)[..., ::step]
    torch.manual_seed(seed)
    return (
        (x.permute(*range(x.ndim - 1, -1, -1)) if flipped else x),
        (case.draw(dtype) if gains and dim == DIM else {}),
        eps,
    )


def felt(case: Case, x: Tensor, p, eps: float, module: bool) -> Tensor:
    """Measure how far the formula moves when every value of x is off by its last place or so.

    In units of that last place; the largest of eight random choices of signs, anywhere in a
    result, since statistics carry an error of one value to its neighbours.
    """
    wide, h = x.double(), 1e-9
    still, size = truth(case, wide, p, eps, module=module), wide.abs().max()
    moves = [wide + h * size * (2 * torch.rand_like(wide) - 1).sign() for _ in range(8)]
    return max((truth(case, m, p, eps, module=module) - still).abs().max() / h for m in moves)


def within(actual: Tensor, case: Case, x: Tensor, p, eps: float, module: bool, room: float) -> bool:
    expected = truth(case, x, p, eps, module=module)
    computed = torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
    # One rounding of the result (two for some), what roundings of x and its mean may do, and of
    # sums of a few dozen terms; the last term is float16's smallest step, under a gain.
    rounding = 0.6 * case.roundings * torch.finfo(x.dtype).eps * expected.abs()
    size = expected.abs().max() + felt(case, x, p, eps, module)
    allowed = rounding + room * computed * size + 2e-7 * (x.dtype == torch.float16)
    return bool(((actual.double() - expected).abs() <= allowed).all())


@over_norms
def test_the_function_is_its_formula_on_any_input(case):
    @bounded
    @given(good_inputs)
    def holds(given_):
        x, p, eps = drawn(case, **given_)
        kept = x.clone()
        y = case.call(x, p, eps)
        assert y.dtype == x.dtype and y.shape == x.shape and torch.equal(x, kept)
        assert within(y, case, x, p, eps, module=False, room=16)

    holds()


@over_norms
def test_the_module_is_its_formula_on_any_input(case):
    @bounded
    @given(good_inputs)
    def holds(given_):
        # Of two values the formula makes ±1 whatever they are, and does not feel how torch's
        # kernels round their mean; four at least.
        given_ = {**given_, "gains": True, "dim": DIM, "batch": given_["batch"] + 2}
        x, p, eps = drawn(case, **given_)
        kept = x.clone()
        y = with_parameters(case.module(eps).to(x.dtype), p)(x)
        assert y.dtype == x.dtype and y.shape == x.shape and torch.equal(x, kept)
        assert within(y, case, x, p, eps, module=True, room=16)

    holds()


@over_norms
def test_the_gradient_is_the_formulas_on_any_input(case):
    @bounded
    @given(good_inputs)
    def holds(given_):
        x, p, eps = drawn(case, **{**given_, "dtype": torch.float64})
        eps = max(eps, 1e-6)  # curvature grows as 1/eps, and with it what float64 leaves
        leaf, twin = x.clone().requires_grad_(), x.clone().requires_grad_()
        top = torch.randn_like(x)
        (actual,) = torch.autograd.grad(case.call(leaf, p, eps), leaf, top)
        (wanted,) = torch.autograd.grad(truth(case, twin, p, eps), twin, top)
        # float64, differences of numbers that share most of their digits
        size = float(top.abs().max()) * case.slope(eps) if case.has_eps else 10.0
        torch.testing.assert_close(actual, wanted, rtol=1e-7, atol=1e-11 * max(1.0, size))

    holds()


@over_norms
def test_a_norm_keeps_its_laws_on_any_input(case):
    @bounded
    @given(good_inputs, st.floats(0.1, 50.0))
    def holds(given_, factor):
        x, p, _ = drawn(case, **{**given_, "dtype": torch.float64, "exponent": 0, "gains": False})
        eps = 1e-14 if case.has_eps else 0.0
        y = case.call(x, p, eps)
        close = {"rtol": 1e-6, "atol": 1e-6}  # eps against the smallest spreads that are drawn
        if "scale" in case.blind_to and felt(case, x, p, eps, False) < 1e4:
            torch.testing.assert_close(case.call(factor * x, p, eps), y, **close)
        if "shift" in case.blind_to and felt(case, x, p, eps, False) < 1e4:
            torch.testing.assert_close(case.call(x + factor, p, eps), y, **close)
        torch.testing.assert_close(case.call(-x, p, eps), -y, **close)

    holds()


@bounded
@given(
    st.integers(2, 6), st.integers(1, 4), st.integers(1, 3), st.sampled_from([1e-5, 1e-2]),
    st.integers(0, 2**16),
)  # fmt: skip
def test_group_norm_is_layer_norm_of_each_group(batch, groups, size, eps, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, groups * size, 3, generator=draw, dtype=torch.float64)
    y = norms.group_norm(x, groups, eps=eps)
    each = [norms.layer_norm(part.flatten(1), eps=eps) for part in x.chunk(groups, dim=1)]
    expected = torch.cat([part.view(batch, size, 3) for part in each], dim=1)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)  # another order of sums


@bounded
@given(st.integers(1, 5), st.integers(2, 9), st.integers(-12, 12), st.integers(0, 2**16))
def test_a_fixed_length_is_a_length(rows, dim, exponent, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dim, generator=draw) * 2.0**exponent
    long = x.norm(dim=-1) > 1e-5
    # a sum of a few squares
    for y, length in ((norms.scale_norm(x), dim**0.5), (norms.fix_norm(x), 1.0),
                      (norms.l2_norm(x, 2.5), 2.5)):  # fmt: skip
        wanted = torch.full((int(long.sum()),), length)
        torch.testing.assert_close(y.norm(dim=-1)[long], wanted, rtol=1e-5, atol=0)


@bounded
@given(good_inputs)
def test_what_squashes_stays_within_its_gain(given_):
    for name in ("dyt", "derf", "bhyt"):
        x, p, eps = drawn(CASES[name], **{**given_, "gains": True, "dim": DIM})
        y = CASES[name].call(x, p, eps).double()
        shift = p["bias"].double() if "bias" in p else 0.0
        # one rounding of gain and shift each
        room = 2 * torch.finfo(x.dtype).eps * (p["weight"].double().abs() + abs(shift))
        assert ((y - shift).abs() <= p["weight"].double().abs() + room).all()
