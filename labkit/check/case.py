"""One input of a law, its description, and the two ways in which a law may not hold."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)


class Broken(Exception):
    """Raised when a law does not hold: the message and, if known, the likely cause."""

    def __init__(self, message: str, cause: str = ""):
        super().__init__(message)
        self.message, self.cause = message, cause


class Untested(Exception):
    """Raised when a law does not apply to the submitted code."""


@dataclass(frozen=True)
class Case:
    """One input of a law; `given` maps roles to the other arguments, without those not passed."""

    x: Tensor
    about: str
    given: dict[str, Any] = field(default_factory=dict)

    def but(self, **changed: Any) -> "Case":
        """Return a copy with changed arguments; None removes one."""
        given = {k: v for k, v in {**self.given, **changed}.items() if v is not None}
        return replace(self, given=given)

    def tensors(self) -> dict[str, Tensor]:
        """Return x and the other arguments that are tensors."""
        return {"x": self.x, **{k: v for k, v in self.given.items() if isinstance(v, Tensor)}}

    def map(self, change: Callable[[str, Tensor], Tensor]) -> "Case":
        """Return a copy with every tensor changed by a function of its role and value."""
        changed = {role: change(role, t) for role, t in self.tensors().items()}
        return replace(self, x=changed.pop("x"), given={**self.given, **changed})

    def __str__(self) -> str:
        numbers = {k: v for k, v in self.given.items() if isinstance(v, float)}
        told = "".join(f", {name}={value:g}" for name, value in numbers.items())
        kind = str(self.x.dtype).removeprefix("torch.")
        return f"x of shape {tuple(self.x.shape)}, {kind}{told} ({self.about})"


def same_layout_copy(x: Tensor) -> Tensor:
    """Copy a tensor with its strides, so that a view stays the same kind of view."""
    copy = torch.empty(0, dtype=x.dtype)
    return copy.set_(x.untyped_storage().clone(), x.storage_offset(), x.size(), x.stride())


def describe(case: Case, actual: Tensor, expected: Tensor, what: str = "") -> str:
    """Describe the input, the actual and the expected value at the entry with the largest error."""
    where = largest_difference(actual.detach(), expected.detach())
    place = f"position {where}" if where else "the only position"
    return (
        f"on {case}{what}, the value at {place} is {actual[where].item():.6g}, expected "
        f"{expected[where].item():.6g}"
    )


def largest_difference(actual: Tensor, expected: Tensor) -> tuple[int, ...]:
    """Return the position of the largest error; a NaN counts as worse than any number."""
    gap = (actual.double() - expected.double()).abs().nan_to_num(nan=float("inf"))
    return tuple(int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))


def told(error: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
