"""labkit.norms against float64 formulas and torch: values, gradients, precision, statistics."""

import pytest
import torch
import torch.nn.functional as F
from cases import CASES, DIM, GROUPS, Case, parameters
from torch import Tensor, nn

from labkit import norms
from labkit.norms import NORMS, make_norm

SHAPED = [(case, shape) for case in CASES.values() for shape in case.shapes]
SHAPED_IDS = [f"{case.norm}-{len(shape)}d" for case, shape in SHAPED]
OWN = [case for case in CASES.values() if case.norm != "none"]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

over_shapes = pytest.mark.parametrize(("case", "shape"), SHAPED, ids=SHAPED_IDS)
over_norms = pytest.mark.parametrize("case", OWN, ids=[case.norm for case in OWN])


def test_every_norm_has_a_case():
    assert set(CASES) == set(NORMS)


def truth(case: Case, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    wide = [p if p is None else p.double() for p in (x, weight, bias)]
    return case.formula(*wide, eps)


def close(came: Tensor, expected: Tensor, dtype: torch.dtype, magnified: float = 1.0) -> None:
    """Allow what the precision allows.

    Statistics are sums of up to a hundred terms in float32 or better, a few of whose roundings
    survive; they are magnified by |mean| / deviation where the mean is far away. The result is
    rounded once to its dtype.
    """
    came, expected = came.detach(), expected.detach()
    computed = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    size = max(1.0, float(expected.abs().max()))
    atol = (16 * computed * magnified) * size
    torch.testing.assert_close(
        came.double(), expected, rtol=0.6 * torch.finfo(dtype).eps, atol=atol
    )
    assert came.dtype == dtype


def set_parameters(module: nn.Module, weight: Tensor | None, bias: Tensor | None) -> nn.Module:
    with torch.no_grad():
        for name, value in (("weight", weight), ("bias", bias)):
            if value is not None:
                getattr(module, name).copy_(value)
    return module


# --- forward ---


@over_shapes
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_function_is_the_formula(case, shape, dtype):
    x = (1.5 * torch.randn(shape) + 0.5).to(dtype)
    weight, bias = parameters(case, dtype)
    y = case.function(x, weight, bias, 1e-5)
    close(y, truth(case, x, weight, bias, 1e-5), dtype)


@over_shapes
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_module_is_the_function(case, shape, dtype):
    x = (1.5 * torch.randn(shape) + 0.5).to(dtype)
    weight, bias = parameters(case, dtype)
    module = set_parameters(case.module(1e-5).to(dtype), weight, bias)
    y = case.function(x, weight, bias, 1e-5)
    # Native kernels sum in another order, in float32 at least; a result in half precision may then
    # round to the neighbour. (Batch norm in half precision: see the test of statistics below.)
    computed = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    units = 4 if case.norm == "batch" else 1
    rtol = units * torch.finfo(dtype).eps if dtype.itemsize == 2 else 0.0
    atol = 16 * computed * max(1.0, float(y.abs().max())) + rtol * (case.norm == "batch")
    torch.testing.assert_close(module(x), y, rtol=rtol, atol=atol)


@over_norms
@pytest.mark.parametrize("eps", [1e-12, 1e-8, 1e-6, 1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("through", ["function", "module"])
def test_eps_stands_inside_the_root(case, eps, through):
    for shape in case.shapes:
        x = torch.randn(shape) * eps**0.5  # so that eps and the variance are alike
        weight, bias = parameters(case, torch.float32)
        call = set_parameters(case.module(eps), weight, bias)
        y = call(x) if through == "module" else case.function(x, weight, bias, eps)
        # The mean of a few numbers about 0 is as small as they are: nothing is magnified.
        close(y, truth(case, x, weight, bias, eps), torch.float32)


@over_norms
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e2, 1e3, 1e4])
def test_the_function_keeps_its_digits_at_any_offset(case, offset):
    for shape in case.shapes:
        x = torch.randn(shape) + offset
        weight, bias = parameters(case, torch.float32)
        y = case.function(x, weight, bias, 1e-5)
        # x − mean is exact where x is near its mean, and a second pass takes off what the first
        # mean missed: nothing is magnified. (A change of sign in the first pass loses a digit.)
        close(y, truth(case, x, weight, bias, 1e-5), torch.float32)


@over_norms
@pytest.mark.parametrize("offset", [10.0, 1e2, 1e3, 1e4])
def test_the_module_loses_no_more_than_one_rounding_of_x(case, offset):
    for shape in case.shapes:
        x = torch.randn(shape) + offset
        weight, bias = parameters(case, torch.float32)
        y = set_parameters(case.module(1e-5), weight, bias)(x)
        expected = truth(case, x, weight, bias, 1e-5)
        # The native kernels subtract the mean as float32 holds it. A group of four values may
        # have a spread of a tenth only.
        close(y, expected, torch.float32, magnified=1 + offset)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
def test_channels_last_memory_is_as_good_as_any(norm, offset):
    case = CASES[norm]
    x = torch.randn(3, DIM, 4, 4) + offset
    y = case.module(1e-5)(x.contiguous(memory_format=torch.channels_last))
    close(y, truth(case, x, None, None, 1e-5), torch.float32, magnified=1 + offset)


@over_norms
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("through", ["function", "module"])
def test_half_precision_inputs_get_float32_statistics(case, dtype, through):
    offset, scale = (20.0, 1.0) if dtype == torch.bfloat16 else (0.0, 600.0)
    x = (torch.randn(case.shapes[0]) * scale + offset).to(dtype)
    weight, bias = parameters(case, dtype)
    module = set_parameters(case.module(1e-5).to(dtype), weight, bias)
    y = module(x) if through == "module" else case.function(x, weight, bias, 1e-5)
    close(y, truth(case, x, weight, bias, 1e-5), dtype, magnified=1 + offset)


@over_norms
@pytest.mark.parametrize("through", ["function", "module"])
@pytest.mark.parametrize("level", [0.0, 2.5, -1e4])
def test_constant_values_give_the_shift(case, level, through):
    x = torch.full(case.shapes[0], level, requires_grad=True)
    weight, bias = parameters(case, torch.float32)
    module = set_parameters(case.module(1e-5), weight, bias)
    y = module(x) if through == "module" else case.function(x, weight, bias, 1e-5)
    # All sums are exact here, but for a mean made by multiplying with 1/n: one unit of x's last
    # place, divided by the root of eps.
    close(y, truth(case, x, weight, bias, 1e-5), torch.float32, magnified=1 + abs(level) * 320)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert grad.isfinite().all()


@over_shapes
def test_views_are_taken_and_no_input_is_modified(case, shape):
    views = [torch.randn(shape[::-1]).permute(*range(len(shape) - 1, -1, -1))]
    views.append(torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2])
    views.append(torch.randn(1, *shape[1:]).expand(shape) if len(shape) > 1 else views[0])
    for x in views if case.norm != "batch" else views[:2]:
        weight, bias = parameters(case, torch.float32)
        before = [p if p is None else p.clone() for p in (x, weight, bias)]
        module = set_parameters(case.module(1e-5), weight, bias)
        for y in (case.function(x, weight, bias, 1e-5), module(x)):
            close(y, truth(case, x, weight, bias, 1e-5), torch.float32, magnified=4)
        for kept, now in zip(before, (x, weight, bias), strict=True):
            assert kept is None or now is None or torch.equal(kept, now)


@over_norms
def test_what_a_norm_is_blind_to(case):
    x = torch.randn(case.shapes[-1], dtype=torch.float64)
    y = case.function(x, None, None, 1e-12)
    for law, moved in (("scale", 7 * x), ("shift", x + 3)):
        # eps is 1e-12 of the variance
        same = torch.allclose(case.function(moved, None, None, 1e-12), y, rtol=1e-9, atol=1e-9)
        assert same == (law in case.blind_to), law


# --- gradients ---


def gradients(call, x: Tensor, leaves: list[Tensor], top: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(call(x), [x, *leaves], top))


@over_shapes
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_gradients_of_function_and_module_are_the_formulas(case, shape, dtype, offset):
    x = (torch.randn(shape) + offset).to(dtype).requires_grad_()
    weight, bias = parameters(case, dtype)
    leaves = [p.requires_grad_() for p in (weight, bias) if p is not None]
    top = torch.randn(shape, dtype=dtype)
    module = set_parameters(case.module(1e-5).to(dtype), weight, bias)
    own = list(module.parameters())
    expected = gradients(lambda x: truth(case, x, weight, bias, 1e-5), x, leaves, top.double())
    # As in the forward pass, twice: gradients hold the normalized values squared. A group of
    # four values may have a spread of a third.
    room = 64 * torch.finfo(dtype).eps * (1 + offset)
    for call, its in ((lambda x: case.function(x, weight, bias, 1e-5), leaves), (module, own)):
        for came, wanted in zip(gradients(call, x, its, top), expected, strict=True):
            size = max(1.0, float(wanted.abs().max()))
            torch.testing.assert_close(came, wanted.to(dtype), rtol=0, atol=room * size)


@over_norms
@pytest.mark.parametrize("through", ["function", "module"])
def test_gradcheck_in_float64(case, through):
    shape = tuple(min(n, 3) if n != DIM else n for n in case.shapes[0])
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight, bias = parameters(case, torch.float64)
    module = set_parameters(case.module(1e-5).double(), weight, bias)
    call = module if through == "module" else lambda x: case.function(x, weight, bias, 1e-5)
    assert torch.autograd.gradcheck(call, (x,))


@over_norms
def test_second_derivatives_of_the_function(case):
    x = torch.randn(4, DIM, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: case.function(x, None, None, 1e-2), (x,))


@pytest.mark.parametrize("top", ["sum", "transposed"])
def test_the_rms_module_takes_any_upstream_gradient(top):
    x = torch.randn(6, DIM, requires_grad=True)
    weight = torch.randn(DIM)
    module = set_parameters(norms.RMSNorm(DIM, eps=1e-6), weight, None)
    upstream = torch.ones(()).expand(6, DIM) if top == "sum" else torch.randn(DIM, 6).T
    (came,) = torch.autograd.grad(module(x), x, upstream)
    (wanted,) = torch.autograd.grad(norms.rms_norm(x, weight, 1e-6), x, upstream)
    # the same sums in another order
    torch.testing.assert_close(came, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_the_rms_module_gives_one_gradient_when_the_other_is_not_wanted(frozen):
    module = norms.RMSNorm(DIM)
    x = torch.randn(6, DIM, requires_grad=frozen != "x")
    module.weight.requires_grad_(frozen != "weight")
    module(x).square().sum().backward()
    assert (x.grad is None) == (frozen == "x")
    assert (module.weight.grad is None) == (frozen == "weight")


# --- Jacobians: 1/r · (projection), r the denominator that is used ---


def jacobian(case: Case, x: Tensor, eps: float) -> Tensor:
    return torch.autograd.functional.jacobian(lambda x: case.function(x, None, None, eps), x)


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.3])
def test_jacobian_of_layer_norm(eps):
    x = torch.randn(DIM, dtype=torch.float64)
    r = (x.var(correction=0) + eps).sqrt()
    hat = (x - x.mean()) / r
    one = torch.ones_like(x)
    eye = torch.eye(DIM, dtype=torch.float64)
    wanted = (eye - one.outer(one) / DIM - hat.outer(hat) / DIM) / r
    came = jacobian(CASES["layer"], x, eps)
    # float64 throughout, matrices of entries about 1
    torch.testing.assert_close(came, wanted, rtol=0, atol=1e-12)
    along = (eps / (x.var(correction=0) + eps)) / r
    torch.testing.assert_close(came @ hat, along * hat, rtol=0, atol=1e-12)
    if eps == 0:
        singular = torch.linalg.svdvals(came)
        torch.testing.assert_close(singular[:-2], (1 / r).expand(DIM - 2), rtol=1e-9, atol=0)
        assert singular[-2:].max() < 1e-12


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.3])
def test_jacobian_of_rms_norm(eps):
    x = torch.randn(DIM, dtype=torch.float64)
    r = (x.square().mean() + eps).sqrt()
    hat = x / r
    wanted = (torch.eye(DIM, dtype=torch.float64) - hat.outer(hat) / DIM) / r
    came = jacobian(CASES["rms"], x, eps)
    torch.testing.assert_close(came, wanted, rtol=0, atol=1e-12)
    if eps == 0:
        assert int((torch.linalg.svdvals(came) > 1e-9).sum()) == DIM - 1


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.3])
def test_jacobian_of_batch_norm_exchanges_batch_and_features(eps):
    x = torch.randn(9, 2, dtype=torch.float64)
    came = jacobian(CASES["batch"], x, eps)
    assert came[:, 0, :, 1].abs().max() == 0 and came[:, 1, :, 0].abs().max() == 0
    layer = jacobian(CASES["layer"], x[:, 0], eps)
    torch.testing.assert_close(came[:, 0, :, 0], layer, rtol=0, atol=1e-12)


@over_norms
def test_weights_before_a_norm_see_a_gradient_at_right_angles(case):
    matrix = torch.randn(DIM, 8, dtype=torch.float64, requires_grad=True)
    x, top = torch.randn(10, 8, dtype=torch.float64), torch.randn(10, DIM, dtype=torch.float64)

    def loss(w: Tensor) -> Tensor:
        return (case.function(x @ w.T, None, None, 0.0) * top).sum()

    (grad,) = torch.autograd.grad(loss(matrix), matrix)
    (tripled,) = torch.autograd.grad(loss(3 * matrix), matrix)
    assert abs((matrix * grad).sum()) < 1e-10  # scale invariance, in float64
    # d loss(3W)/dW is 3 · loss'(3W), and loss'(cW) = loss'(W) / c
    torch.testing.assert_close(tripled, grad, rtol=1e-9, atol=1e-9)


# --- torch's modules: drop-in in both directions ---


@over_shapes
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_state_goes_from_torch_to_labkit_and_back(case, shape, dtype):
    x = (torch.randn(shape) + 0.5).to(dtype)
    theirs = case.torch_module(1e-5, shape).to(dtype)
    weight, bias = parameters(case, dtype)
    set_parameters(theirs, weight, bias)
    ours = case.module(1e-5).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    again = case.torch_module(1e-5, shape).to(dtype)
    again.load_state_dict(ours.state_dict())
    for training in (True, False):
        for module in (ours, theirs, again):
            module.train(training)
        wanted = theirs(x)
        # sums in another order
        room = 16 * torch.finfo(dtype).eps * max(1.0, float(wanted.detach().abs().max()))
        torch.testing.assert_close(ours(x), wanted, rtol=0, atol=room)
        torch.testing.assert_close(again(x), wanted, rtol=0, atol=room)


MADE_LIKE = {
    "layer": (norms.LayerNorm, nn.LayerNorm, [
        (DIM,), ((3, 4),), (DIM, 1e-3), (DIM, 1e-3, False), (DIM, 1e-3, True, False)]),
    "rms": (norms.RMSNorm, nn.RMSNorm, [(DIM,), ((3, 4),), (DIM, 1e-3), (DIM, 1e-3, False)]),
    "batch": (norms.BatchNorm, nn.BatchNorm1d, [
        (DIM,), (DIM, 1e-3), (DIM, 1e-3, 0.3), (DIM, 1e-3, None), (DIM, 1e-3, 0.1, False),
        (DIM, 1e-3, 0.1, True, False)]),
    "group": (norms.GroupNorm, nn.GroupNorm, [
        (3, DIM), (1, DIM, 1e-3), (DIM, DIM, 1e-3, False)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("norm", "arguments"), [(norm, a) for norm, row in MADE_LIKE.items() for a in row[2]], ids=str
)
def test_constructor_arguments_mean_what_they_mean_in_torch(norm, arguments):
    ours_type, theirs_type, _ = MADE_LIKE[norm]
    ours, theirs = ours_type(*arguments), theirs_type(*arguments)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    tail = arguments[0] if isinstance(arguments[0], tuple) else (DIM,)
    x = 1e-2 * torch.randn(5, *tail)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)  # sums in another order
    assert ours.eps == theirs.eps


def test_rms_norm_without_eps_uses_the_machine_epsilon_of_its_computation():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        used = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        x = (torch.randn(5, DIM, dtype=torch.float64) * used**0.5).to(dtype)
        for y in (
            norms.rms_norm(x, None, None),
            norms.RMSNorm(DIM, dtype=dtype)(x),
            F.rms_norm(x, (DIM,)),
        ):
            close(y, truth(CASES["rms"], x, None, None, used), dtype)


# --- make_norm ---


@pytest.mark.parametrize("norm", NORMS)
def test_make_norm_works_on_the_last_axis(norm):
    kw = {"num_groups": GROUPS} if norm == "group" else {}
    x = torch.randn(4, 6, DIM) + 1
    y = make_norm(norm, DIM, eps=1e-4, **kw)(x)
    case = CASES[norm]
    flat = x.reshape(-1, DIM)
    expected = truth(case, flat, None, None, 1e-4).view(x.shape)
    close(y, expected, torch.float32)


def test_a_wrong_name_lists_the_right_ones():
    with pytest.raises(ValueError, match="unknown norm 'lyer'; choose one of batch, layer, rms"):
        make_norm("lyer", 4)
