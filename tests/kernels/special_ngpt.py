"""What is special to nGPT: lengths of 1, lengths of 0, shares, and weights in place. `CHECKS`."""

import math
from typing import Any

import torch
from normkernels import ngpt_update, unit_rows_
from torch import Tensor

from . import cases
from .cases import Make
from .measure import BRAIN, DEVICE, FLOAT, HALF

LENGTHS = (8, 129, 1536, 8193, 16385, 65536)  # one tile, rows in chunks backward, and forward too


def draw(m: int, n: int, seed: int = 0, dtype: torch.dtype = FLOAT) -> Tensor:
    return Make(m, n, dtype, seed=seed).rows().to(DEVICE)


def shares(n: int) -> Tensor:
    return Make(1, n, seed=3).gain(around=0.2).to(DEVICE)  # of either sign


def run(function: Any, *inputs: Tensor) -> list[Tensor]:
    """Return h, dx, dbranch and dalpha."""
    inputs = tuple(one.detach().requires_grad_() for one in inputs)
    h = function(*inputs)
    dh = torch.randn(h.shape, generator=torch.Generator().manual_seed(1))
    return [h.detach(), *torch.autograd.grad(h, inputs, dh.to(h))]


def near(actual: list[Tensor], exact: list[Tensor], share: float = 2e-6) -> None:
    """Compare with float64: `share` of the largest value of each row may go lost in sums."""
    for what, one, ref in zip(("h", "dx", "dbranch", "dalpha"), actual, exact, strict=True):
        assert one.isfinite().all(), f"{what} is not finite"
        error, largest = (one.double() - ref).abs().amax(-1), ref.abs().amax(-1)
        assert (error <= share * largest + 1e-30).all(), f"{what} is off by {error.max():.3g}"


def truth(*inputs: Tensor) -> list[Tensor]:
    return run(cases.ngpt_update, *(one.double() for one in inputs))


# --- The step ---


def check_the_result_has_length_one_at_any_length_of_row():
    for n in LENGTHS:
        h = ngpt_update(draw(5, n), draw(5, n, 1), shares(n))
        length = h.double().square().sum(-1).sqrt()
        assert (length - 1).abs().max() < 5e-7, n


def check_rows_in_one_tile_and_in_chunks_give_the_formula():
    for n in LENGTHS:
        inputs = draw(5, n), draw(5, n, 1), shares(n)
        near(run(ngpt_update, *inputs), truth(*inputs), 5e-6)


def check_vectors_of_zeros_stay_and_their_gradients_pass():
    """A length of 0 counts as 1, in the branch, in the stream, in the sum: no not-a-number."""
    for n in (41, 8200, 20000):
        x, branch, alpha = draw(9, n), draw(9, n, 1), shares(n)
        branch[1], x[2], x[3], branch[3] = 0, 0, 0, 0
        actual, exact = run(ngpt_update, x, branch, alpha), truth(x, branch, alpha)
        assert torch.equal(actual[0][3], torch.zeros_like(x[3]))
        near(actual, exact, 5e-6)
        # A branch that takes the stream back: z = x + ½ (c − x) = 0, exactly.
        x.zero_(), branch.zero_(), alpha.fill_(0.5)
        x[:, 3], branch[:, 3] = 1, -2
        actual, exact = run(ngpt_update, x, branch, alpha), truth(x, branch, alpha)
        assert torch.equal(actual[0], torch.zeros_like(x))
        near(actual, exact)


def check_the_sign_of_the_share_does_not_count():
    x, branch, alpha = draw(5, 129), draw(5, 129, 1), shares(129)
    alpha[7] = 0
    actual, other = run(ngpt_update, x, branch, alpha), run(ngpt_update, x, branch, -alpha)
    for one, same in zip(actual[:3], other[:3], strict=True):
        assert torch.equal(one, same)
    assert torch.equal(actual[3], -other[3])
    assert actual[3][7] == 0 and actual[2][:, 7].abs().min() > 0, "|α| has slope 0 at 0"


def check_a_share_of_zero_stays_and_a_share_of_one_goes_all_the_way():
    x, branch = draw(5, 129), draw(5, 129, 1)
    for share, goal in ((0.0, x), (1.0, branch), (-1.0, branch)):
        h = ngpt_update(x, branch, torch.full((129,), share, device=DEVICE))
        assert (h.double() - cases.unit(goal.double())).abs().max() < 3e-7
    _, dx, dbranch, _ = run(ngpt_update, x, branch, torch.zeros(129, device=DEVICE))
    assert torch.equal(dbranch, torch.zeros_like(branch)) and dx.abs().min() > 0
    _, dx, _, _ = run(ngpt_update, x, branch, torch.ones(129, device=DEVICE))
    assert torch.equal(dx, torch.zeros_like(x))


def check_gradients_stay_on_the_spheres():
    """The length of the branch changes nothing, nor with one share for all that of the sum."""
    for n in (129, 8193):
        x, branch = draw(5, n), draw(5, n, 1)
        h, dx, dbranch, _ = run(ngpt_update, x, branch, torch.full((n,), 0.3, device=DEVICE))
        for vector, grad in ((h, dx), (branch, dbranch)):
            size = (vector.norm(dim=-1) * grad.norm(dim=-1)).double()
            assert ((vector.double() * grad.double()).sum(-1).abs() <= 2e-6 * size).all()


def check_dtypes_may_differ():
    x, branch, alpha = draw(5, 129), draw(5, 129, 1), shares(129)
    for one, other, result in ((BRAIN, BRAIN, BRAIN), (FLOAT, BRAIN, FLOAT), (HALF, FLOAT, FLOAT)):
        for third in (FLOAT, BRAIN):
            inputs = x.to(one), branch.to(other), alpha.to(third)
            actual, exact = run(ngpt_update, *inputs), truth(*inputs)
            assert [t.dtype for t in actual] == [result, one, other, third]
            error = (actual[0].double() - exact[0]).abs().amax() / exact[0].abs().amax()
            assert error < (2e-6 if result == FLOAT else 2.0**-7)


# --- Weights in place ---


def unit(weight: Tensor, dim: int) -> Tensor:
    """Return the true result in float64."""
    return cases.unit(weight.double().movedim(dim, -1)).movedim(-1, dim)


def right(weight: Tensor, before: Tensor, dim: int) -> None:
    """Compare with float64: one rounding (interpreted, bfloat16 is cut off)."""
    share = 4e-7 if weight.dtype == FLOAT else 1.01 * torch.finfo(weight.dtype).eps
    ref = unit(before, dim)
    tiny = torch.finfo(weight.dtype).smallest_normal * torch.finfo(weight.dtype).eps
    assert ((weight.double() - ref).abs() <= share * ref.abs() + tiny).all()


def layouts(m: int, n: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return one matrix in all the ways in which it may lie in memory."""
    w = draw(m, n, dtype=dtype)
    around = torch.full((m + 2, 2 * n + 3), math.nan, dtype=dtype, device=DEVICE)
    views = {
        "row-major": w.clone(),
        "column-major": w.t().clone().t(),
        "rows of a wider matrix": around.clone()[1 : m + 1, 3 : n + 3],
        "columns of a wider matrix": around.t().clone()[3 : n + 3, 1 : m + 1].t(),
        "every second column": around.clone()[1 : m + 1, 1 : 2 * n + 1 : 2],
    }
    for view in views.values():
        view.copy_(w)
    return views


def check_weights_get_unit_vectors_along_either_axis_in_any_layout():
    for dtype in (FLOAT, BRAIN, HALF):
        for m, n in ((37, 129), (130, 64), (1, 41), (41, 1)):
            for dim in (0, 1, -1, -2) if dtype == FLOAT else (0, 1):
                for name, w in layouts(m, n, dtype).items():
                    before = w.clone()
                    assert unit_rows_(w, dim) is w, name
                    right(w, before, dim)


def check_what_lies_around_a_view_is_left_alone():
    for dim in (0, 1):
        whole = draw(12, 40)
        before = whole.clone()
        unit_rows_(whole[2:9, 3:30:2], dim)
        inside = torch.zeros_like(whole, dtype=torch.bool)
        inside[2:9, 3:30:2] = True
        assert torch.equal(whole[~inside], before[~inside])
        assert (whole[inside] != before[inside]).all()


def check_vectors_of_zeros_stay_zeros_and_bad_ones_stay_alone():
    for dim in (0, 1):
        w = draw(70, 70)
        before = w.clone()
        w.select(1 - dim, 3).zero_()
        w.select(1 - dim, 5)[7] = math.nan
        unit_rows_(w, dim)
        assert torch.equal(w.select(1 - dim, 3), torch.zeros(70, device=DEVICE))
        assert w.select(1 - dim, 5).isnan().all()
        others = [i for i in range(70) if i not in (3, 5)]
        right(w.index_select(1 - dim, torch.tensor(others, device=DEVICE)),
              before.index_select(1 - dim, torch.tensor(others, device=DEVICE)), dim)  # fmt: skip


def check_a_second_time_changes_the_last_bit_at_most():
    for dim in (0, 1):
        w = unit_rows_(draw(64, 300), dim)
        again = unit_rows_(w.clone(), dim)
        assert ((again - w).abs() <= 4e-7 * w.abs()).all()
        assert torch.equal(unit_rows_(w.clone(), dim), again)


def check_long_vectors_along_either_axis():
    for shape, dim in (((3, 40000), 1), ((2, 65536), 1), ((20000, 3), 0), ((2000, 150), 0)):
        w = draw(*shape)
        before = w.clone()
        right(unit_rows_(w, dim), before, dim)


def check_a_column_has_the_same_bits_wherever_it_stands_along_the_rows():
    w = draw(5, 300)
    whole = unit_rows_(w.clone())
    for row in range(5):
        assert torch.equal(unit_rows_(w[row : row + 1].clone())[0], whole[row])


def check_weights_that_learn_are_changed_without_a_gradient_only():
    w = torch.nn.Parameter(draw(8, 16))
    try:
        unit_rows_(w)
    except RuntimeError as told:
        assert "no_grad" in str(told)
    else:
        raise AssertionError("nobody refused")
    y = (w * w).sum()
    with torch.no_grad():
        before = w._version
        unit_rows_(w)
        assert w._version > before
    try:
        y.backward()  # w was saved for this, and is no longer what it was
    except RuntimeError as told:
        assert "inplace" in str(told)
    else:
        raise AssertionError("a changed weight went into a gradient")
    assert w.requires_grad and w.is_leaf and w.grad is None
    with torch.inference_mode():
        unit_rows_(draw(8, 16))


def check_what_is_no_matrix_is_refused():
    w = draw(4, 8)
    bad = [
        (w.flatten(), 0, ValueError),
        (w, 2, ValueError),
        (w.double(), 0, TypeError),
        (w[:1].expand(3, 8), 0, ValueError),
    ]
    for weight, dim, error in bad:
        try:
            unit_rows_(weight, dim)
        except error as told:
            assert "unit_rows_" in str(told)
        else:
            raise AssertionError("nobody refused")
    for shape in ((0, 4), (4, 0)):
        for dim in (0, 1):
            assert unit_rows_(torch.empty(shape, device=DEVICE), dim).shape == shape


def check_a_compiled_step_of_the_optimizer_is_one_graph():
    w = torch.nn.Parameter(draw(8, 16))
    expected = w.detach().clone()

    @torch.no_grad()
    def step(w: Tensor) -> Tensor:
        w.mul_(0.5)
        unit_rows_(w, 0)
        return w.sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    total = compiled(w)
    right(w.detach(), expected, 0)
    assert abs(total.item() - w.detach().sum().item()) < 1e-5


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
