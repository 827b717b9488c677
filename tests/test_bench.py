"""Benchmarks alternate between their candidates; nothing is timed here."""

from labkit.costs.bench import paired


def test_both_sides_are_timed_turn_about():
    order = []
    pairs = paired(lambda: order.append("a"), lambda: order.append("b"), turns=4)
    assert len(pairs) == 4 and order[2:] == ["b", "a", "a", "b", "b", "a", "a", "b"]
