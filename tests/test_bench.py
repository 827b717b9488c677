"""The benchmark programs run and print their tables; nothing here is timed."""

import pytest
import torch

from labkit.costs import bench
from labkit.norms import NORMS, make_norm
from press import cli


@pytest.mark.slow
def test_the_table_of_norms_has_a_line_for_each_norm(capsys):
    bench.benchmark_norms(turns=2, sizes=((64, 256),))
    printed = capsys.readouterr().out
    for name in NORMS:
        line = f"{name} (64, 256){' torch' if name in bench.TORCH else ''} "
        assert any(row.startswith(line) for row in printed.splitlines()), name
    assert printed.count("ratio") == 1


@pytest.mark.parametrize("name", [name for name in NORMS if name not in bench.TORCH])
def test_the_rival_of_a_norm_that_torch_lacks_is_its_own_formula(name):
    norm = make_norm(name, 16, **({"steps": 2} if name == "prep-batch" else {}))
    x = torch.randn(40, 16)
    if name == "prep-batch":
        norm(x)  # then λ is a half
    # sums in another order
    torch.testing.assert_close(bench.build_formula(name, norm)(x), norm(x), rtol=1e-5, atol=1e-5)


def test_the_table_of_training_has_a_line_for_each_model(capsys):
    bench.benchmark_training(turns=2, steps=1, widths=(16, 96), depth=1, batch=2, context=8)
    *_, names, narrow, wide = capsys.readouterr().out.splitlines()
    assert names.split()[:3] == ["labkit", "by", "hand"]
    columns = 2 + 1 + 3 * (len(names.split()) - 2)  # width, its number; ms; three ratios a loop
    assert [len(line.split()) for line in (narrow, wide)] == [columns] * 2
    assert narrow.startswith("width 16 ") and wide.startswith("width 96 ")


def test_both_sides_are_timed_turn_about():
    order = []
    pairs = bench.paired(lambda: order.append("a"), lambda: order.append("b"), turns=4)
    assert len(pairs) == 4 and order[2:] == ["b", "a", "a", "b", "b", "a", "a", "b"]


def test_a_wrong_number_of_turns_is_refused(capsys):
    for what in ("norms", "training"):
        assert cli.main(["bench", what, "--turns", "0"]) == 2
        assert "greater than or equal to 1, got '0'" in capsys.readouterr().err
