"""Check the arguments of make_norm before a norm is made."""

import math
from inspect import Parameter
from numbers import Integral, Real
from typing import Any


def check_option(name: str, option: Parameter, value: Any) -> Any:
    """Return a valid value, refuse any other; a whole number written as 1e4 becomes an integer.

    The constructor determines which numbers are allowed: an option whose default is a whole number
    takes whole numbers, unless its annotation is float. None is allowed where it is the default,
    and for `momentum`, as in torch. Flags are not checked.
    """
    key, default = option.name, option.default
    if key != "eps" and (isinstance(default, bool) or not isinstance(default, int | float)):
        return value
    if value is None and (default is None or key == "momentum"):
        return value
    whole = isinstance(default, int) and option.annotation not in (float, "float")
    usual = "the usual value is 1e-5 or 1e-6" if key == "eps" else f"the default is {default}"
    if not isinstance(value, Real) or isinstance(value, bool):
        kind = "a whole number" if whole else "a number"
        raise TypeError(f"{name} needs {kind} as {key}, got {value!r}; {usual}")
    number = float(value)
    if key == "eps" and not number >= 0:
        raise ValueError(f"{name} needs eps >= 0, got {value}; {usual}")
    if key == "momentum" and not 0 <= number <= 1:
        raise ValueError(f"{name} needs momentum in [0, 1], got {value}; {usual}")
    if not math.isfinite(number):
        raise ValueError(f"{name} needs a finite {key}, got {value}; {usual}")
    if whole and not number.is_integer():
        raise ValueError(f"{name} needs a whole number as {key}, got {value}; {usual}")
    return int(number) if whole and not isinstance(value, Integral) else value
