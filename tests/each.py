"""Many cases of one law: under one test id, or most of them left to `make test-all`."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch


def some_quick(cases: Iterable[str], *quick: str) -> list[Any]:
    """Mark all cases slow but those named: one of each kind stays in `make test`."""
    slow, cases = pytest.mark.slow, list(cases)
    assert set(quick) <= set(cases)
    return [case if case in quick else pytest.param(case, marks=slow) for case in cases]


def each(**axes: Iterable | Callable[..., Iterable]) -> Callable[[Callable], Callable]:
    """Run a test for every combination of the axes' values, each from the seed of conftest.py.

    Each is a subtest, named, and run though others fail.

    An axis may also be a function of what the test is given otherwise, which returns its values.
    """

    def decorate(test: Callable) -> Callable:
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

    return decorate
