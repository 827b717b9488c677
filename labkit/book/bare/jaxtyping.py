"""Shapes in types, without their meaning: Float[Tensor, "batch dim"] is Tensor."""

from typing import Any


class _Shaped:
    def __class_getitem__(cls, item: Any) -> Any:
        return item[0]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Shaped
