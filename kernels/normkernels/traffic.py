"""Count the bytes that kernels load and store, and their errors, in Triton's interpreter.

This is a separate program, because TRITON_INTERPRET=1 must be set before Triton is imported:

    TRITON_INTERPRET=1 python -m normkernels.traffic rms_norm/8/4096/bf16 …    a JSON object each

Every load and store of the interpreter passes through this code, which counts the unmasked bytes:
the bytes that a program requests from memory. Gains are counted each time that a program reads them
(on a GPU most of these reads hit the cache), so the bytes of activations are listed separately.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

import normkernels
from normkernels.bench.check import as_tuple
from normkernels.bench.operations import OPERATIONS
from normkernels.bench.plan import Case


class Traffic:
    """Bytes loaded and stored inside a block, by tensor (the address at which it begins)."""

    def __init__(self) -> None:
        self.moved: dict[str, list[tuple[np.ndarray, int]]] = {"loads": [], "stores": []}

    def __enter__(self) -> "Traffic":
        builder: Any = interpreter.InterpreterBuilder
        self.kept = builder.create_masked_load, builder.create_masked_store

        def load(this: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
            self._count("loads", ptrs, mask)
            return self.kept[0](this, ptrs, mask, *rest)

        def store(this: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
            self._count("stores", ptrs, mask)
            return self.kept[1](this, ptrs, value, mask, *rest)

        builder.create_masked_load, builder.create_masked_store = load, store
        return self

    def __exit__(self, *_: Any) -> None:
        builder: Any = interpreter.InterpreterBuilder
        builder.create_masked_load, builder.create_masked_store = self.kept

    def _count(self, way: str, ptrs: Any, mask: Any) -> None:
        size = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        self.moved[way].append((np.asarray(ptrs.data)[np.asarray(mask.data, bool)], size))

    def count_within(self, *tensors: torch.Tensor) -> dict[str, int]:
        """Count the bytes that were loaded from these tensors and stored to them."""
        # One tensor may be two results, as the gradients of a sum are.
        spans = {(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in tensors}
        return {
            way: sum(
                size * int(((place >= low) & (place < high)).sum())
                for place, size in moves
                for low, high in spans
            )
            for way, moves in self.moved.items()
        }

    def count_all(self) -> dict[str, int]:
        """Count all bytes."""
        return {way: sum(s * p.size for p, s in moves) for way, moves in self.moved.items()}


def count(kernel: str, m: int, n: int, dtype: str) -> dict[str, Any]:
    """Run one kernel, forward and backward; return its bytes, and its largest errors."""
    torch.manual_seed(0)
    operation = OPERATIONS[kernel]
    given = operation.draw(Case(kernel, m, n, dtype), torch.device("cpu"))
    exact = {name: t.detach().double().requires_grad_() for name, t in given.items()}
    function = getattr(normkernels, kernel)
    with Traffic() as forward:
        outputs = as_tuple(function(**given, **operation.options))
    truths = as_tuple(operation.formula(**exact, **operation.options))
    tops = [torch.randn_like(y) for y in outputs]
    with Traffic() as backward:
        grads = torch.autograd.grad(outputs, list(given.values()), tops)
    wanted = torch.autograd.grad(truths, list(exact.values()), [top.double() for top in tops])
    rows = [given[name] for name in operation.rows]
    errors = {"output": _measure_error(outputs[0], truths[0])}
    errors |= {name: _measure_error(a, b) for name, a, b in zip(given, grads, wanted, strict=True)}
    results = [g for name, g in zip(given, grads, strict=True) if name in operation.rows]
    return {
        "case": kernel,
        "m": m,
        "n": n,
        "dtype": dtype,
        "processors": 3,  # the interpreter's value, see `launch`
        "forward": forward.count_all()
        | {"activations": _sum(forward.count_within(*rows, *outputs))},
        "backward": backward.count_all()
        | {"activations": _sum(backward.count_within(*rows, *outputs, *tops, *results))},
        "errors": errors,
    }


def _sum(moved: dict[str, int]) -> int:
    return sum(moved.values())


def _measure_error(actual: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest error as a fraction of the tensor's largest value."""
    return float(f"{((actual.double() - wanted).abs().max() / wanted.abs().max()).item():.3g}")


def main(*settings: str) -> Iterator[dict[str, Any]]:
    """Yield the counts for every setting, NAME/M/N/DTYPE."""
    for setting in settings:
        kernel, m, n, dtype = setting.split("/")
        yield count(kernel, int(m), int(n), dtype)


if __name__ == "__main__":
    for line in main(*sys.argv[1:]):
        print(json.dumps(line), flush=True)
