"""What is special to LayerNorm, and to sums with a norm: `CHECKS`, functions without arguments."""

import normkernels
import torch
from normkernels import add_layer_norm, add_rms_norm, deep_norm, layer_norm
from torch import Tensor

from . import cases
from .cases import Make
from .measure import BRAIN, DEVICE, FLOAT, rounded

SUMS = {"add_rms_norm": (add_rms_norm, False), "add_layer_norm": (add_layer_norm, True)}


def draw(m: int, n: int, dtype: torch.dtype = FLOAT, seed: int = 0) -> Tensor:
    return Make(m, n, dtype, seed=seed).rows().to(DEVICE)


def gains(n: int, shifted: bool, seed: int = 7) -> tuple[Tensor, ...]:
    make = Make(1, n, seed=seed)
    drawn = (make.gain(), make.gain(around=0.0)) if shifted else (make.gain(),)
    return tuple(one.to(DEVICE) for one in drawn)


def backward(outputs, inputs, dys) -> tuple[Tensor, ...]:
    return torch.autograd.grad(outputs, inputs, dys, allow_unused=True)


def learning(*tensors: Tensor) -> list[Tensor]:
    return [one.detach().clone().requires_grad_() for one in tensors]


def near(actual: Tensor, expected: Tensor, share: float = 2e-6) -> None:
    """Compare float32 with float64: `share` of the largest value may go lost in sums."""
    error = (actual.double() - expected.double()).abs().max()
    assert error <= share * expected.abs().max(), f"off by {error:.3g}"


# --- The sum and its two gradients ---


def check_the_residual_gradient_is_not_normalized():
    """What arrives at h comes out at x and at the residual, and nothing else (quack#53)."""
    for function, shifted in SUMS.values():
        x, residual = learning(draw(5, 129), draw(5, 129, seed=1))
        y, h = function(x, residual, *gains(129, shifted))
        dh = 100 * torch.randn_like(h)
        for grad in backward((y, h), (x, residual), (torch.zeros_like(y), dh)):
            assert torch.equal(grad, dh)


def check_every_use_of_the_two_results_has_its_gradients():
    for name, (function, shifted) in SUMS.items():
        inputs = learning(draw(5, 129), draw(5, 129, seed=1), *gains(129, shifted))
        wide = learning(*[one.double() for one in inputs])
        actual, expected = function(*inputs), getattr(cases, name)(*wide)
        for used in ((0,), (1,), (0, 1)):
            dys = [torch.randn_like(actual[i]) for i in used]
            ours, theirs = function(*inputs), getattr(cases, name)(*wide)
            grads = backward([ours[i] for i in used], inputs, dys)
            truths = backward([theirs[i] for i in used], wide, [dy.double() for dy in dys])
            for grad, truth in zip(grads, truths, strict=True):
                assert (grad is None) == (truth is None), f"{name}, results {used}"
                if grad is not None:
                    near(grad, truth)
        near(actual[0], expected[0])
        near(actual[1], expected[1])


def check_a_float32_stream_keeps_its_digits():
    """With bfloat16 x, h and the residual's gradient are float32, y and dx are bfloat16."""
    for name, (function, shifted) in SUMS.items():
        x, residual = learning(draw(5, 129, BRAIN), draw(5, 129, seed=1))
        parameters = gains(129, shifted)
        y, h = function(x, residual, *parameters)
        assert (y.dtype, h.dtype) == (BRAIN, FLOAT)
        assert torch.equal(h, residual + x)
        dy, dh = torch.randn_like(y), torch.randn_like(h)
        dx, dresidual = backward((y, h), (x, residual), (dy, dh))
        assert (dx.dtype, dresidual.dtype) == (BRAIN, FLOAT)
        wide = learning(x.double(), residual.double())
        exact = getattr(cases, name)(*wide, *[one.double() for one in parameters])
        truth, again = backward(exact, wide, (dy.double(), dh.double()))
        near(dresidual, truth)
        assert torch.equal(truth, again)
        near(dx, truth, 2.0**-7)
        assert torch.equal(dx, _as_kernels_round(dresidual))


def _as_kernels_round(x: Tensor) -> Tensor:
    return rounded(x.double(), BRAIN).to(BRAIN)


def few_differ(actual: Tensor, expected: Tensor) -> None:
    """Compare what was rounded: two float32 results may lie on two sides of a tie, but rarely."""
    assert actual.dtype == expected.dtype
    assert (actual != expected).double().mean() < 0.01


def check_the_norm_reads_the_rounded_sum():
    """y is the norm of h as it was written down."""
    for name, (function, shifted) in SUMS.items():
        x, residual = draw(5, 129, BRAIN), draw(5, 129, BRAIN, seed=1)
        parameters = gains(129, shifted)
        y, h = function(x, residual, *parameters)
        assert torch.equal(h, _as_kernels_round(x.float() + residual.float()))
        plain = getattr(normkernels, name.removeprefix("add_"))
        eps = {} if shifted else {"eps": 1e-6}
        few_differ(y, plain(h, *parameters, **eps))


def check_the_norm_may_read_the_sum_before_rounding():
    """`round_sum=False`: y is nearer to the norm of the exact sum, and h is the same."""
    for name, (function, shifted) in SUMS.items():
        x, residual = draw(5, 129, BRAIN), draw(5, 129, BRAIN, seed=1)
        parameters = gains(129, shifted)
        y, h = function(x, residual, *parameters, round_sum=False)
        after, same = function(x, residual, *parameters)
        assert torch.equal(h, same)
        wide = [one.double() for one in (x, residual, *parameters)]
        exact, _ = getattr(cases, name)(*wide)
        few_differ(y, _as_kernels_round(exact))
        assert (y.double() - exact).square().mean() < (after.double() - exact).square().mean()


def check_gradients_of_the_unrounded_sum():
    """`round_sum=False`: gradients are off by bfloat16's rounding of h, and by no more."""
    for name, (function, shifted) in SUMS.items():
        x, residual = learning(draw(5, 129, BRAIN), draw(5, 129, BRAIN, seed=1))
        parameters = learning(*gains(129, shifted))
        y, h = function(x, residual, *parameters, round_sum=False)
        dys = torch.randn_like(y), torch.randn_like(h)
        wide = learning(*[one.double() for one in (x, residual, *parameters)])
        truths = backward(getattr(cases, name)(*wide), wide, [dy.double() for dy in dys])
        for grad, truth in zip(
            backward((y, h), (x, residual, *parameters), dys), truths, strict=True
        ):
            near(grad, truth, 2.0**-6)


# --- DeepNorm ---


def check_alpha_weighs_the_skip_and_never_the_branch():
    x, branch = draw(5, 129), draw(5, 129, seed=1)
    zero, parameters = torch.zeros_like(x), gains(129, True)
    near(deep_norm(zero, branch, 3.0, *parameters), layer_norm(branch, *parameters))
    near(deep_norm(x, zero, 2.0, *parameters), layer_norm(2 * x, *parameters))
    near(deep_norm(x, branch, 0.0), layer_norm(branch))


def check_the_skips_gradient_is_alpha_times_the_branchs():
    for alpha in (1.0, 2.0, 0.5, -2.0, 0.0):
        x, branch = learning(draw(5, 129), draw(5, 129, seed=1))
        y = deep_norm(x, branch, alpha, *gains(129, True))
        dx, dbranch = backward(y, (x, branch), torch.randn_like(y))
        assert torch.equal(dx, alpha * dbranch), f"alpha={alpha}"


def check_deep_norm_in_mixed_precision():
    """Sum and result have the wider dtype; each gradient has its own."""
    x, branch = learning(draw(5, 129), draw(5, 129, BRAIN, seed=1))
    y = deep_norm(x, branch, 1.7)
    assert y.dtype == FLOAT
    near(y, cases.deep_norm(x.double(), branch.double(), 1.7))
    dx, dbranch = backward(y, (x, branch), torch.randn_like(y))
    assert (dx.dtype, dbranch.dtype) == (FLOAT, BRAIN)


def check_a_frozen_skip_or_branch_costs_no_gradient():
    for function in (add_layer_norm, lambda x, r: deep_norm(r, x, 1.7)):
        for frozen in (0, 1):
            inputs = [draw(5, 129), draw(5, 129, seed=1)]
            inputs[1 - frozen].requires_grad_()
            y = function(*inputs)
            y = y[0] if isinstance(y, tuple) else y
            y.backward(torch.randn_like(y))
            assert inputs[frozen].grad is None
            both = learning(*inputs)
            z = function(*both)
            z = z[0] if isinstance(z, tuple) else z
            assert torch.equal(y, z)


# --- Centring ---


def check_the_gradient_of_a_centred_row_sums_to_zero():
    """LayerNorm ignores what is added to a whole row, long rows included."""
    for n in (129, 1536, 16384):
        x, residual = learning(draw(3, n), draw(3, n, seed=1))
        parameters = gains(n, True)
        for y in (
            layer_norm(x, *parameters),
            add_layer_norm(x, residual, *parameters)[0],
            deep_norm(x, residual, 1.7, *parameters),
        ):
            (dx,) = torch.autograd.grad(y, x, torch.randn_like(y))
            dx = dx.double()
            # float32: rounding errors of N numbers add up like a random walk
            assert (dx.sum(-1).abs() <= 1e-6 * n**0.5 * dx.abs().amax(-1)).all()


def check_a_shifted_row_keeps_its_digits():
    """At offset 1e4, outputs and gradients are right for the numbers given, unlike eager's."""
    for n in (41, 1536, 16384, 65536):
        x, parameters = 1e4 + draw(3, n), gains(n, True)
        given = learning(x, *parameters)
        wide = learning(*[one.double() for one in given])
        y, exact = layer_norm(*given), cases.layer_norm(*wide)
        dy = torch.randn_like(y)
        near(y, exact)
        truths = backward(exact, wide, dy.double())
        for grad, truth in zip(backward(y, given, dy), truths, strict=True):
            near(grad, truth)
        eager = torch.nn.functional.layer_norm(x, (n,), *parameters)
        error, rival = ((one.double() - exact).abs().max() for one in (y, eager))
        assert error <= 1.5 * rival


def check_a_shifted_sum_keeps_its_digits():
    x, residual = 1e4 + draw(3, 1536).round(), draw(3, 1536, seed=1).round()
    given = learning(x, residual)  # whole numbers, whose sum is exact
    wide = learning(*[one.double() for one in given])
    y, _ = add_layer_norm(*given)
    dy = torch.randn_like(y)
    near(y, cases.add_layer_norm(*wide)[0])
    near(backward(y, given, dy)[0], backward(cases.add_layer_norm(*wide)[0], wide, dy.double())[0])


def check_a_first_chunk_far_from_the_mean_of_its_row():
    """Rows in chunks are centred by their first chunk, which may be all that is different."""
    x = draw(3, 65536)
    x[0, :16384] += 1e4
    x[1, :16384] = 3.0
    x[2, 16384:] = -7.0
    for off in (0.0, 1e4):
        given = learning(x + off, *gains(65536, True))
        wide = learning(*[one.double() for one in given])
        y, exact = layer_norm(*given), cases.layer_norm(*wide)
        dy = torch.randn_like(y)
        dx, truth = backward(y, given[:1], dy)[0], backward(exact, wide[:1], dy.double())[0]
        summed, _ = add_layer_norm(given[0], torch.zeros_like(x), *given[1:])
        for row in range(3):
            near(y[row], exact[row], 4e-6)
            near(summed[row], exact[row], 4e-6)
            near(dx[row], truth[row], 4e-6)


def check_a_constant_row_gives_the_shift():
    for n in (1, 41, 1536, 65536):
        for value in (0.0, 3.0, 1e4, -123.456):
            weight, bias = gains(n, True)
            y = layer_norm(torch.full((2, n), value, device=DEVICE), weight, bias)
            # What float32 misses of the value, over sqrt(eps), is all that may be left.
            assert ((y - bias).abs() <= 1e-7 * abs(value) / 1e-5**0.5 * weight.abs()).all()


# --- Rows ---


def check_a_row_alone_is_the_row_in_a_batch():
    """Bit for bit, outputs and gradients, for rows in chunks; shorter ones: the law `alone`."""
    inputs, parameters = learning(draw(2, 65536), draw(2, 65536, seed=1)), gains(65536, True)
    outputs = add_layer_norm(*inputs, *parameters)
    dys = [torch.randn_like(one) for one in outputs]
    grads = backward(outputs, inputs, dys)
    alone = learning(*[one[1:] for one in inputs])
    again = add_layer_norm(*alone, *parameters)
    lone = backward(again, alone, [dy[1:] for dy in dys])
    for batch, one in zip((*outputs, *grads), (*again, *lone), strict=True):
        assert torch.equal(batch[1:], one)


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
