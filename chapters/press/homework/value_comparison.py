"""Compare a value from a student's code with the expected one, and describe the difference.

Five causes, each with words of its own: kind, shape, dtype, not finite, values. Kinds, shapes and
dtypes may be told; of the expected values nothing is.

The exercises on the pages have a comparer of their own, labkit.check.compare: it knows no torch,
forgives more (shapes of one entry, a tolerance by the largest entry) and has other words.
"""

import math
from typing import Any, TypeGuard

import torch
from torch import Tensor

# (rtol, atol); None asks for the very same values.
Tolerance = tuple[float, float] | None


def compare_values(value: Any, expected: Any, tolerance: Tolerance, where: str = "") -> str:
    """Return why `value` is not `expected`, as a sentence; "" if it is."""
    if isinstance(value, Tensor) and isinstance(expected, Tensor):
        return _compare_tensors(value, expected, tolerance, where)
    # A number may stand for a tensor without axes, and the other way round.
    if isinstance(value, Tensor) and _is_number(expected):
        if value.shape != ():
            return _say_wrong_shape(value.shape, torch.Size(), where)
        value = value.item()
    elif isinstance(expected, Tensor) and expected.shape == () and _is_number(value):
        expected = expected.item()
    if _is_number(value) and _is_number(expected):
        return _compare_numbers(value, expected, tolerance, where)
    if isinstance(value, dict) and isinstance(expected, dict):
        return _compare_dicts(value, expected, tolerance, where)
    # JSON and notebooks mix lists and tuples up; a student is not punished for it.
    if isinstance(value, (list, tuple)) and isinstance(expected, (list, tuple)):
        return _compare_sequences(value, expected, tolerance, where)
    if type(value) is not type(expected):
        wanted = name_kind(expected)
        return f"Wrong type{where}: expected {wanted}, got {name_kind(value)}."
    return "" if value == expected else f"Wrong value{where}."


def name_kind(value: Any) -> str:
    """Describe the kind of a value for a student: "a tensor", "a list", "nothing (None)"."""
    if value is None:
        return "nothing (None)"
    if isinstance(value, Tensor):
        return "a tensor"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _compare_tensors(value: Tensor, expected: Tensor, tolerance: Tolerance, where: str) -> str:
    if value.shape != expected.shape:
        return _say_wrong_shape(value.shape, expected.shape, where)
    if value.dtype != expected.dtype:
        actual, wanted = (str(t.dtype).removeprefix("torch.") for t in (value, expected))
        return f"Wrong dtype{where}: expected {wanted}, got {actual}."
    wide, right = _widen_tensor(value), _widen_tensor(expected)
    if not _is_finite_where(wide, right):
        return f"Not finite{where}: expected finite numbers, got a NaN or an infinity."
    return (
        "" if _are_close(wide, right, tolerance) else f"Wrong values{where}: shape and dtype fit."
    )


def _say_wrong_shape(actual: torch.Size, wanted: torch.Size, where: str) -> str:
    return f"Wrong shape{where}: expected {tuple(wanted)}, got {tuple(actual)}."


def _widen_tensor(tensor: Tensor) -> Tensor:
    """Convert to the widest type of its kind, so that tolerances are the same for every dtype."""
    still = tensor.detach().cpu()
    if still.is_complex():
        return torch.view_as_real(still.to(torch.complex128))
    return still.to(torch.float64) if still.is_floating_point() else still


def _is_finite_where(value: Tensor, right: Tensor) -> bool:
    return bool((torch.isfinite(value) | ~torch.isfinite(right)).all())


def _are_close(value: Tensor, right: Tensor, tolerance: Tolerance) -> bool:
    if tolerance is None or not right.is_floating_point():
        return bool(((value == right) | ((value != value) & (right != right))).all())
    rtol, atol = tolerance
    return torch.allclose(value, right, rtol=rtol, atol=atol, equal_nan=True)


def _compare_numbers(value: float, expected: float, tolerance: Tolerance, where: str) -> str:
    if isinstance(value, float) and not math.isfinite(value) and math.isfinite(expected):
        return f"Not finite{where}: expected a finite number, got {value}."
    return "" if _is_near(value, expected, tolerance) else f"Wrong value{where}."


def _is_near(value: float, expected: float, tolerance: Tolerance) -> bool:
    if value == expected or (value != value and expected != expected):
        return True
    if tolerance is None or not math.isfinite(expected):
        return False
    rtol, atol = tolerance
    try:
        return abs(value - expected) <= atol + rtol * abs(expected)
    except OverflowError:  # a whole number beyond every float
        return False


def _compare_sequences(
    value: list | tuple, expected: list | tuple, tolerance: Tolerance, where: str
) -> str:
    if len(value) != len(expected):
        return f"Wrong shape{where}: expected {len(expected)} items, got {len(value)}."
    pairs = enumerate(zip(value, expected, strict=True))
    causes = (compare_values(*pair, tolerance, f"{where} in item {at}") for at, pair in pairs)
    return next(filter(None, causes), "")


def _compare_dicts(value: dict, expected: dict, tolerance: Tolerance, where: str) -> str:
    keys = sorted(expected, key=str)
    for key in keys:
        if key not in value:
            return f"Missing{where}: the key {key!r}."
    if len(value) > len(expected):
        return f"Too many keys{where}: expected {len(expected)}, got {len(value)}."
    causes = (
        compare_values(value[key], expected[key], tolerance, f"{where} under {key!r}")
        for key in keys
    )
    return next(filter(None, causes), "")
