"""Laws about memory: accesses are within tensors, programs do not collide, 2³¹ is no limit.

The interpreter shows each address, which a GPU does not. And a page that is never touched costs a
CPU nothing: tensors of more than 2³¹ values are made there, and where a launch is of a million
programs the interpreter is asked for the last few only.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from normkernels.launch import INTERPRETED
from torch import Tensor

from .cases import Case
from .law import FAMILIES, law, near, never, paths
from .laws_bits import among_nan, identical_runs
from .measure import (
    BRAIN,
    DEVICE,
    FLOAT,
    Run,
    Setting,
    Skip,
    as_tuple,
    draw,
    fused,
    learned,
    leaves,
)

FAR = 2**31  # values: what an int32 cannot count


# --- Each address ---


@law(paths)
def inside(case: Case, setting: Setting) -> None:
    """Nothing outside of tensors is read or written; no two programs access the same address."""
    if not INTERPRETED:
        raise Skip("compute-sanitizer's matter on a GPU")
    inputs = draw(case, setting)
    for layout in (lambda x: x, among_nan):
        given = {n: layout(v) if n in case.rows else v for n, v in inputs.items()}
        with watched_memory() as launches:
            fused(case, given)
        assert len(launches) >= 2
        for one in launches:
            one.check_meetings()


class Launch:
    """The memory that one launch may use, and the addresses that it used."""

    def __init__(self, args: tuple[Any, ...]):
        import numpy as np

        held = [a.untyped_storage() for a in args if isinstance(a, Tensor) and a.numel()]
        ranges = sorted({(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in held})
        self.starts = np.array([start for start, _ in ranges], np.uint64)
        self.ends = np.array([end for _, end in ranges], np.uint64)
        self.read: list[Any] = []
        self.written: list[Any] = []

    def check(self, name: str, places: Any) -> Any:
        """Fail for addresses outside of the tensors, before they are used."""
        at = self.starts.searchsorted(places, side="right") - 1
        outside = (at < 0) | (places >= self.ends[at])
        if outside.any():
            raise IndexError(f"{name} {outside.sum()} values outside of its tensors")
        return places

    def check_meetings(self) -> None:
        """Fail if an address is written twice, or read and written."""
        import numpy as np

        written, read = np.concatenate(self.written), np.concatenate(self.read)
        once = np.unique(written)
        assert len(once) == len(written), "two programs write to one place"
        assert not np.isin(once, read).any(), "a program reads what another may have written"


@contextlib.contextmanager
def watched_memory() -> Iterator[list[Launch]]:
    """Check and record every address of every launch."""
    from triton.runtime import interpreter

    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    launches: list[Launch] = []
    load, store, call = builder.create_masked_load, builder.create_masked_store, executor.__call__

    def noted_load(ptrs: Any, mask: Any, *rest: Any) -> Any:
        launches[-1].read.append(launches[-1].check("reads", ptrs.data[mask.data]))
        return load(ptrs, mask, *rest)

    def noted_store(ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        launches[-1].written.append(launches[-1].check("writes", ptrs.data[mask.data]))
        return store(ptrs, value, mask, *rest)

    def noted_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        launches.append(Launch(args))
        return call(self, *args, **kwargs)

    builder.create_masked_load, builder.create_masked_store = noted_load, noted_store
    executor.__call__ = noted_call
    try:
        yield launches
    finally:
        del builder.create_masked_load, builder.create_masked_store
        executor.__call__ = call


# --- Far away ---


def room(gibibytes: int) -> None:
    """Skip if the GPU has less free memory than this."""
    if DEVICE.type == "cuda":
        free, _ = torch.cuda.mem_get_info()
        if free < gibibytes * 2**30:
            raise Skip(f"needs {gibibytes} GiB of GPU memory, {free >> 30} are free")


@law(near(129, 16384), lambda case, n: n < 300 and case.name in FAMILIES)
def far_rows(case: Case, n: int) -> None:
    """Rows with offsets beyond int32 work: three rows, a thousand million values apart."""
    room(24)
    inputs = draw(case, Setting(3, n, BRAIN, FLOAT))
    dense = fused(case, inputs)
    moved = {name: apart(v) if name in case.rows else v for name, v in inputs.items()}
    with watched_memory() if INTERPRETED else contextlib.nullcontext():
        actual = fused(case, moved, dys=tuple(apart(dy) for dy in dense.dys))
    identical_runs(actual, dense)


def apart(x: Tensor) -> Tensor:
    """Return the same rows, so far apart that the second has an int32 offset, the third has not.

    The distance has the remainder of theirs by 16: machine code is made for that, and its sums are
    of another order.
    """
    stride = FAR // 2 + 16 + x.stride(0) % 16
    memory = torch.empty(2 * stride + x[0].numel(), dtype=x.dtype, device=x.device)
    return memory.as_strided(x.shape, (stride, *x.stride()[1:])).copy_(x)


@law(near(4096, 16384), never)
def far_elements(case: Case, n: int) -> None:
    """The last rows of more than 2³¹ values give the same results as alone.

    So many programs as there are rows fit into a grid, on its first axis.
    """
    room(60)
    last = 3
    few = draw(case, Setting(last, n, BRAIN, FLOAT))
    m = FAR // few[case.rows[0]][0].numel() + last
    many = {name: among_many(v, m) if name in case.rows else v for name, v in few.items()}
    parameters = [] if not INTERPRETED else [n for n in learned(case, few) if n not in case.rows]
    alone = fused(case, few, frozen=parameters)
    with last_programs(), watched_memory() if INTERPRETED else contextlib.nullcontext():
        given = leaves(case, many, parameters)
        outputs = as_tuple(case.function(**given, **case.options))
        dys = tuple(among_many(dy, m) for dy in alone.dys)
        names = [name for name in learned(case, few) if name not in parameters]
        grads = torch.autograd.grad(outputs, [given[name] for name in names], dys)
    rows = {name: g[-last:] for name, g in zip(names, grads, strict=True) if name in case.rows}
    actual = Run(tuple(y.detach()[-last:] for y in outputs), alone.dys, rows)
    identical_runs(
        actual, Run(alone.outputs, alone.dys, {name: alone.grads[name] for name in rows})
    )


def among_many(x: Tensor, m: int) -> Tensor:
    """Return m rows that end with x; the others are 0 on a GPU, untouched on a CPU."""
    make = torch.empty if INTERPRETED else torch.zeros
    many = make(m, *x.shape[1:], dtype=x.dtype, device=x.device)
    many[-len(x) :] = x
    return many


@contextlib.contextmanager
def last_programs() -> Iterator[None]:
    """Interpret only the last programs of each large launch, as if each row had a program."""
    if not INTERPRETED:
        yield
        return
    from triton.runtime import interpreter

    def limited(*grid: int) -> None:
        assert grid[0] < FAR and max(grid[1:]) < 65536, f"no GPU takes a grid of {grid}"
        dimensions(*grid)

    def ending(*bounds: Any) -> range:
        whole = range(*bounds)
        return whole if len(whole) < 4096 else whole[-16:]

    replaced = [(interpreter, "range", None)]
    for name, module in list(sys.modules.items()):
        if name.startswith("normkernels") and "count_processors" in vars(module):
            replaced.append((module, "count_processors", module.count_processors))
    dimensions = interpreter.interpreter_builder.set_grid_dim
    interpreter.interpreter_builder.set_grid_dim = limited
    for module, name, _ in replaced:
        setattr(module, name, ending if name == "range" else lambda device: FAR)
    try:
        yield
    finally:
        del interpreter.interpreter_builder.set_grid_dim
        for module, name, before in replaced:
            if before is None:
                delattr(module, name)
            else:
                setattr(module, name, before)
