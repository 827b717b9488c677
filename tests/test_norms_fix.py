"""FixNorm: rows of the same length at each lookup, an unmodified table, a tied output."""

import pytest
import torch

from labkit import norms


def test_the_table_starts_uniform_on_a_hundredth():
    table = norms.FixNorm(1000, 16).weight
    assert table.abs().max() <= 0.01
    # the deviation of a uniform: width / sqrt(12), within four standard errors of 16,000 draws
    assert abs(float(table.detach().std()) - 0.02 / 12**0.5) < 1e-4


def test_a_lookup_has_length_root_d_and_leaves_the_table_alone():
    fix = norms.FixNorm(10, 16)
    before = fix.weight.detach().clone()
    tokens = torch.tensor([[1, 2, 2], [9, 0, 1]])
    x = fix(tokens)
    assert x.shape == (2, 3, 16)
    torch.testing.assert_close(x.norm(dim=-1), torch.full((2, 3), 4.0), rtol=1e-5, atol=0)
    rows = before[tokens].double()
    wanted = 4 * rows / (rows * rows).sum(-1, keepdim=True).sqrt()
    torch.testing.assert_close(x.double(), wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(fix.weight, before)


def test_the_tied_output_has_unit_rows_and_shares_the_gradient():
    fix = norms.FixNorm(10, 16, dtype=torch.float64)
    torch.testing.assert_close(fix.unit_rows().norm(dim=-1), torch.ones(10).double())
    logits = fix(torch.tensor([3])) @ fix.unit_rows().T
    assert int(logits.argmax()) == 3  # a cosine of 1 with itself
    logits[0, 5].backward()
    used = fix.weight.grad.abs().sum(-1) > 0
    assert used.nonzero().flatten().tolist() == [3, 5]
    # Lengths do not matter, so neither does a step along a row.
    along = (fix.weight.grad * fix.weight).sum(-1)
    torch.testing.assert_close(along, torch.zeros(10).double(), rtol=0, atol=1e-12)


def test_padding_is_a_row_of_zeros_that_learns_nothing():
    fix = norms.FixNorm(5, 4, padding_idx=0)
    x = fix(torch.tensor([0, 1]))
    assert x[0].abs().max() == 0
    x.sum().backward()
    assert fix.weight.grad[0].abs().max() == 0


def test_half_precision_rounds_once():
    fix = norms.FixNorm(50, 16, dtype=torch.bfloat16)
    rows = fix.weight.double()
    wanted = 4 * rows / rows.norm(dim=-1, keepdim=True)
    y = fix(torch.arange(50))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), wanted, rtol=0.6 * 2**-7, atol=1e-6)


def test_a_vector_shorter_than_eps_is_only_divided_by_it():
    x = torch.tensor([[3e-6, 4e-6], [3.0, 4.0], [0.0, 0.0]])
    wanted = torch.tensor([[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]])
    torch.testing.assert_close(norms.fix_norm(x), wanted, rtol=1e-6, atol=0)


def test_integers_are_refused():
    with pytest.raises(TypeError, match="floating-point"):
        norms.fix_norm(torch.ones(3, 4, dtype=torch.int64))
