"""Special checks of nGPT: vectors of length 0, and weights in place."""

import itertools
import math

import torch
from normkernels import unit_rows_
from normkernels.formulas import scale_to_unit
from torch import Tensor

from .cases import NAMED, Make
from .laws_formula import compare_with_formula
from .laws_torch import refused
from .measure import BRAIN, DEVICE, FLOAT, HALF, Setting
from .measure import draw as draw_case


def draw(m: int, n: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return Make(m, n, dtype).rows().to(DEVICE)


def check_vectors_of_zeros_stay_and_their_gradients_pass():
    """A length of 0 counts as 1, in the branch, in the stream, in the sum: there is no NaN."""
    case = NAMED["ngpt_update"]
    for n in (41, 20000):
        inputs = draw_case(case, Setting(5, n))
        x, branch, alpha = inputs.values()
        branch[1], x[2], x[3], branch[3] = 0, 0, 0, 0
        (h,) = compare_with_formula(case, inputs).outputs
        assert torch.equal(h[3], torch.zeros_like(x[3]))
        # A branch that takes the stream back: z = x + ½ (c − x) = 0, exactly.
        x.zero_(), branch.zero_(), alpha.fill_(0.5)
        x[:, 3], branch[:, 3] = 1, -2
        (h,) = compare_with_formula(case, inputs).outputs
        assert torch.equal(h, torch.zeros_like(x))


# --- Weights in place ---


def right(weight: Tensor, before: Tensor, dim: int) -> None:
    """Compare with float64: one rounding (interpreted bfloat16 is truncated)."""
    share = 4e-7 if weight.dtype == FLOAT else 1.01 * torch.finfo(weight.dtype).eps
    ref = scale_to_unit(before.double(), dim)
    tiny = torch.finfo(weight.dtype).smallest_normal * torch.finfo(weight.dtype).eps
    assert ((weight.double() - ref).abs() <= share * ref.abs() + tiny).all()


def layouts(m: int, n: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return one matrix in all possible memory layouts."""
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
    """Surrounding memory, filled with NaN, is not used."""
    shapes = {
        FLOAT: ((37, 129), (130, 64), (1, 41), (41, 1)),
        BRAIN: ((37, 129),),
        HALF: ((37, 129),),
    }
    for dtype, dim in itertools.product(shapes, (0, 1, -1)):
        for m, n in shapes[dtype]:
            for name, w in layouts(m, n, dtype).items():
                before = w.clone()
                assert unit_rows_(w, dim) is w, name
                right(w, before, dim)
                whole = w if w._base is None else w._base
                assert whole.isfinite().sum() == w.numel(), name


def check_vectors_of_zeros_stay_zeros_and_bad_ones_stay_alone():
    for dim in (0, 1):
        w = draw(70, 70)
        before = w.clone()
        w.select(1 - dim, 3).zero_()
        w.select(1 - dim, 5)[7] = math.nan
        unit_rows_(w, dim)
        assert torch.equal(w.select(1 - dim, 3), torch.zeros(70, device=DEVICE))
        assert w.select(1 - dim, 5).isnan().all()
        others = torch.tensor([i for i in range(70) if i not in (3, 5)], device=DEVICE)
        right(w.index_select(1 - dim, others), before.index_select(1 - dim, others), dim)


def check_long_vectors_along_either_axis():
    for shape, dim in (((2, 40000), 1), ((2000, 150), 0)):
        w = draw(*shape)
        before = w.clone()
        right(unit_rows_(w, dim), before, dim)


def check_weights_that_learn_are_changed_without_a_gradient_only():
    w = torch.nn.Parameter(draw(8, 16))
    refused(RuntimeError, "no_grad", lambda: unit_rows_(w))
    y = (w * w).sum()
    with torch.no_grad():
        before = w._version
        unit_rows_(w)
        assert w._version > before
    refused(RuntimeError, "inplace", y.backward)  # w was saved, and is no longer what it was
    assert w.requires_grad and w.is_leaf and w.grad is None
    with torch.inference_mode():
        unit_rows_(draw(8, 16))


def check_what_is_no_matrix_is_refused():
    w = draw(4, 8)
    for weight, dim, error in (
        (w.flatten(), 0, ValueError),
        (w, 2, ValueError),
        (w.double(), 0, TypeError),
        (w[:1].expand(3, 8), 0, ValueError),
    ):
        refused(error, "unit_rows_", lambda weight=weight, dim=dim: unit_rows_(weight, dim))
    for shape, dim in itertools.product(((0, 4), (4, 0)), (0, 1)):
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
