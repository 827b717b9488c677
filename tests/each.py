"""Parametrized tests of one law: under one test id, or mostly left to `make test-all`."""

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch


def some_quick(cases: Iterable[str], *quick: str) -> list[Any]:
    """Mark all cases slow except the named ones: one of each kind stays in `make test`."""
    slow, cases = pytest.mark.slow, list(cases)
    assert set(quick) <= set(cases)
    return [case if case in quick else pytest.param(case, marks=slow) for case in cases]


def each(**axes: Iterable | Callable[..., Iterable]) -> Callable[[Callable], Callable]:
    """Run a test for every combination of the axes' values, each with the seed of conftest.py.

    The first axis makes tests of its own, which `-k` chooses by their values; a combination with
    the others is a subtest, named, and run though others fail. An axis may also be a function of
    what the test is given otherwise, which returns its values; such a first axis makes subtests.
    """
    (first, values), *_ = axes.items()
    if callable(values):
        return lambda test: _run_subtests(test, axes)
    rest = {name: axis for name, axis in axes.items() if name != first}
    own = pytest.mark.parametrize(first, list(values), ids=_name_value)
    return lambda test: own(_run_subtests(test, rest) if rest else _seed(test))


def _name_value(value: Any) -> str:
    """Name a value without its address, so that all processes collect the same tests."""
    named = getattr(value, "name", getattr(value, "__name__", None))
    text = named if isinstance(named, str) else re.sub(r" at 0x[0-9a-f]+", "", str(value))
    return " ".join(text.split())[:60]


def _seed(test: Callable) -> Callable:
    @functools.wraps(test)
    def run_seeded(**given: Any) -> None:
        torch.manual_seed(0)
        test(**given)

    return run_seeded


def _run_subtests(test: Callable, axes: dict[str, Any]) -> Callable:
    @functools.wraps(test)
    def run_each(subtests: Any, **given: Any) -> None:
        __tracebackhide__ = True
        ranges = (axis(**given) if callable(axis) else axis for axis in axes.values())
        for values in itertools.product(*ranges):
            case = dict(zip(axes, values, strict=True))
            with subtests.test(**{name: str(value) for name, value in case.items()}):
                torch.manual_seed(0)
                test(**given, **case)

    parameters = inspect.signature(test).parameters
    others = [parameter for name, parameter in parameters.items() if name not in axes]
    subtests = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
    run_each.__signature__ = inspect.Signature([*others, subtests])
    return run_each
