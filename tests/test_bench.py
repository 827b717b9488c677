"""The benchmark programs run and print their tables; nothing here is timed."""

import pytest

from labkit import bench


def test_the_table_of_norms_has_a_line_for_each_norm(capsys):
    bench.norms(turns=2, sizes=((64, 256),))
    printed = capsys.readouterr().out
    assert all(f"{name} (64, 256)" in printed for name in bench.TORCH)
    assert printed.count("ratio") == 1


def test_the_table_of_training_has_a_line_for_each_model(capsys):
    bench.training(turns=2, steps=1, models=((16, 1),))
    assert "dim 16, depth 1" in capsys.readouterr().out


def test_both_sides_are_timed_turn_about():
    order = []
    pairs = bench.paired(lambda: order.append("a"), lambda: order.append("b"), turns=4)
    assert len(pairs) == 4 and order[2:] == ["b", "a", "a", "b", "b", "a", "a", "b"]


def test_a_wrong_number_of_turns_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(["norms", "--turns", "0"])
    assert stopped.value.code == 2 and "at least 1, got 0" in capsys.readouterr().err
