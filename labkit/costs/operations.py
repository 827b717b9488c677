"""Operations and bytes of norms and forward passes, counted while a model runs.

operations   one per value of an elementwise operation or reduction of the formula
bytes        the input and output of each norm, once each, if nothing is fused
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from labkit.attention.parts import OwnGains
from labkit.norms import NORMS
from labkit.norms.unit import Unit

# Fused operations that are counted by their parts.
_FUSED = ("native_layer_norm", "native_batch_norm", "native_group_norm", "_fused_rms_norm")


class CountOperations(TorchDispatchMode):
    """A mode that counts one operation per value of an elementwise operation or a reduction."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run the operation (or its parts, if it is a fused norm) and count it."""
        name = func.name().removeprefix("aten::").split(".")[0]
        if name.startswith(_FUSED) and func in decomposition_table:
            with self:
                return decomposition_table[func](*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        first = next((a for a in args if isinstance(a, Tensor)), None)
        if torch.Tag.reduction in func.tags and first is not None:
            self.operations += first.numel()
        elif torch.Tag.pointwise in func.tags and isinstance(result, Tensor):
            self.operations += result.numel() if name not in ("copy_", "clone", "detach") else 0
        return result


class CountBytes(TorchDispatchMode):
    """A mode that counts the bytes that operations read and write if each runs separately.

    `each` lists the operations with the bytes that they read and write. Views and reshapes move
    nothing and do not count as operations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.each: list[tuple[str, int, int]] = []

    @property
    def bytes(self) -> int:
        """Return the number of bytes read and written."""
        return sum(read + written for _, read, written in self.each)

    @property
    def operations(self) -> int:
        """Return the number of operations that ran."""
        return len(self.each)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run the operation; count the bytes of its arguments and results."""
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, tuple | list) else (result,)
        made = [t for t in results if isinstance(t, Tensor)]
        if made and not func.is_view and "empty" not in func.name():
            read = sum(_count_bytes(a) for a in args if isinstance(a, Tensor))
            name = func.name().removeprefix("aten::").partition(".")[0]
            self.each.append((name, read, sum(map(_count_bytes, made))))
        return result


def _count_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor in memory; values that are expanded along an axis count once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(n for n, stride in sizes if stride or not n) * tensor.element_size()


@dataclass(frozen=True)
class Cost:
    """Cost of one forward pass per token."""

    norms: int  # vectors that are normalized
    norm_operations: float
    norm_bytes: float
    matrix_flops: float  # multiplications and additions of all matrix products


def cost_of(model: nn.Module, tokens: Tensor, *more: Tensor) -> Cost:
    """Run the model once and count its costs; an activation has two bytes, as in bfloat16."""
    count = CountOperations()
    with torch.no_grad(), _around_norms(model, count) as moved:
        model(tokens, *more)
    # Attention's fused operation for the CPU is not counted; its plain one is.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:
        model(tokens, *more)
    size = tokens.numel()
    return Cost(
        len(moved),
        count.operations / size,
        sum(moved) * 2 / size,
        flops.get_total_flops() / size,
    )


@contextmanager
def _around_norms(model: nn.Module, count: CountOperations) -> Iterator[list[int]]:
    """Enable the counter inside each norm, or inside the outermost of nested norms.

    Yields a list to which each call of a norm appends the number of values that it reads and
    writes, unfused.
    """
    kinds = tuple({kind for kind in NORMS.values() if kind is not nn.Identity} | {OwnGains, Unit})
    norms = {m for m in model.modules() if isinstance(m, kinds)}
    inner = {part for m in norms for part in m.modules() if part is not m}
    moved: list[int] = []

    def start_counting(module: nn.Module, args: tuple) -> None:
        count.__enter__()

    def stop_counting(module: nn.Module, args: tuple, output: Tensor) -> None:
        count.__exit__(None, None, None)
        moved.append(args[0].numel() + output.numel())

    with ExitStack() as hooks:
        for norm in norms - inner:
            hooks.enter_context(norm.register_forward_pre_hook(start_counting))
            hooks.enter_context(norm.register_forward_hook(stop_counting))
        yield moved


def kept_bytes(forward: Callable[[], object], parameters: Iterable[Tensor] = ()) -> int:
    """Return the bytes that a forward pass saves for its backward pass, each storage once.

    The storages of `parameters` do not count.
    """
    kept: set[torch.UntypedStorage] = set()  # held, so that no other storage gets the same address

    def keep_storage(x: Tensor) -> Tensor:
        kept.add(x.untyped_storage())
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep_storage, lambda x: x):
        result = forward()
    kept -= {parameter.untyped_storage() for parameter in parameters}
    del result
    return sum(storage.nbytes() for storage in kept)
