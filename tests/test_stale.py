"""Results that depend on a stale run are marked, and no others."""

from press.book.stale import MARK, mark_notebook, names_of, resting_on


def cell(source, *outputs):
    return {"cell_type": "code", "id": "x", "source": source, "outputs": list(outputs)}


def asks(*keys):
    note = {"kind": "volatile", "keys": list(keys)}
    return {"output_type": "display_data", "data": {}, "metadata": {"labkit": note}}


def shows(kind, **about):
    labkit = {"kind": kind, **about}
    return {"output_type": "display_data", "data": {}, "metadata": {"labkit": labkit}}


BOOK = {
    "cells": [
        {"cell_type": "markdown", "source": "a"},
        cell("a = lab.run(one)", asks("k1")),
        cell("b = lab.run(two)", asks("k2")),
        cell("c = a.values('loss')"),
        cell("claim('01-a', c)", shows("claim", id="01-a")),
        cell("plots.dots(b)", shows("figure")),
        cell("plots.dots(c)", shows("figure")),
        cell("c = b.values('loss')"),
        cell("claim('01-b', c)", shows("claim", id="01-b")),
        cell("def helper():\n    return a"),
        cell("claim('01-c', helper())", shows("claim", id="01-c")),
    ]
}


def test_a_cell_rests_on_the_runs_behind_the_names_that_it_reads():
    assert resting_on(BOOK, {"k1": "differs"}) == [1, 3, 4, 6, 9, 10]
    assert resting_on(BOOK, {"k2": "differs"}) == [2, 5, 7, 8]
    assert resting_on(BOOK, {}) == resting_on(BOOK, {"k3": "x"}) == []


def test_cards_and_figures_are_marked_and_named_in_one_line():
    page, line = mark_notebook(BOOK, {"k1": "differs"})
    assert "01-a, 01-c, 1 figure of this page" in line
    data = [out["data"] for one in page["cells"][1:] for out in one["outputs"]]
    assert data.count({"text/html": MARK}) == 3
    assert mark_notebook(BOOK, {}) == (BOOK, "")


def test_names_that_a_cell_makes_and_reads():
    assert names_of("x, y = f(z)\nx += 1") == ({"x", "y"}, {"f", "z"})
    assert names_of("import m.n\na[i] = [j for j in b]") == ({"m", "a"}, {"a", "i", "b"})
    assert names_of("def f(g):\n    h = g\n    return h, k") == ({"f"}, {"k"})
    assert names_of("this is no Python") == (set(), set())
