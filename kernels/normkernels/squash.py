"""What `dynamic_tanh` and `dynamic_erf` share: a curve, elementwise, forward and backward.

    z = α · x + s      y = g · f(z) + b      f = tanh, with s = 0, or erf

With u = g · dy · f'(z), and sums over all rows, or over everything for the two numbers:

    dx = α · u      dg = Σ_rows dy · f(z)      db = Σ_rows dy      dα = Σ u · x      ds = Σ u

f'(z) keeps its digits where f is nearly ±1, which 1 − f² would lose.
α and s are numbers, or tensors on the device with one element, read there.

No row has statistics: programs own chunks of columns at any length. Bytes for each value: read x,
write y (2s forward); read dy and x, write dx (3s backward), then 8·P·N for each of dg and db from P
programs a chunk, and one number a program for each of dα and ds.
"""

from collections.abc import Callable
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import DTYPES, check_device, check_parameters, check_rows
from normkernels.launch import is_fake, launch, processors
from normkernels.operator import differentiable
from normkernels.partials import column_sums, make_partials
from normkernels.rows import Tile, as_rows, packed
from normkernels.sizes import cdiv, next_power_of_2


@triton.jit
def _curve(z, ERF: tl.constexpr):
    """Give f(z), within 1e-6 of itself for every z, and f'(z), within 1e-5 while it is above 1e-30.

    Polynomials are minimax. Near 0, where a difference cancels, one in z² gives f(z) / z.
    """
    square = z * z
    if ERF:
        # erf|z| = 1 − 2^−P(|z|); libdevice's erf is as exact, and takes twice the instructions.
        size = tl.abs(z)
        power = (0.002140003 * size - 0.024904834) * size + 0.13828581
        power = ((power * size + 0.9294852) * size + 1.6223114) * size + 0.0010994204
        large = 1 - tl.exp2(-power)
        large = tl.where(z < 0, -large, large)
        ratio = (0.004281797 * square - 0.026474478) * square + 0.11276999
        ratio = (ratio * square - 0.37612222) * square + 1.1283791
        rise = 1.1283792 * tl.exp2(-1.442695 * square)  # 2/√π · exp(−z²)
        return tl.where(size < 0.7, z * ratio, large), rise
    # tanh|z| = (1 − e) / (1 + e), e = exp(−2|z|), which is 0 in the end, and never infinite.
    size = tl.abs(z)
    e = tl.exp2(-2.88539008 * size)
    root = tl.rsqrt(1 + e)
    inverse = root * root  # of 1 + e: two instructions on a GPU, where a division takes ten
    large = (1 - e) * inverse
    large = tl.where(z < 0, -large, large)
    ratio = (-0.047553603 * square + 0.13270977) * square - 0.33331361
    ratio = ratio * square + 0.9999999
    return tl.where(size < 0.4, z * ratio, large), 4 * (e * inverse) * inverse


@triton.jit
def _number(number_ptr, number):
    """Read a tensor with one element where there is one; else it is the number."""
    if number_ptr is not None:
        number = tl.load(number_ptr).to(tl.float32)
    return number


@triton.jit
def _forward(
    x_ptr, alpha_ptr, shift_ptr, weight_ptr, bias_ptr, y_ptr, alpha, shift, M, x_stride,
    N: tl.constexpr, ERF: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Squash ROWS rows in one chunk of columns."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    here = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
    y, _ = _curve(_number(alpha_ptr, alpha) * x + _number(shift_ptr, shift), ERF)
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    tl.store(y_ptr + rows * N + columns, y, mask=here)


@triton.jit
def _backward(
    dy_ptr, x_ptr, alpha_ptr, shift_ptr, weight_ptr, dx_ptr, partials_ptr, numbers_ptr,
    alpha, shift, M, dy_stride, x_stride,
    N: tl.constexpr, ERF: tl.constexpr, SHIFT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Walk over all rows in one chunk of columns; leave a row of dg (and db), a dα (and ds)."""
    program = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = columns < N
    gain = tl.full((1, BLOCK), 1.0, tl.float32)
    if weight_ptr is not None:
        gain = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    alpha, shift = _number(alpha_ptr, alpha), _number(shift_ptr, shift)
    dweight = tl.zeros((ROWS, BLOCK), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    dalpha = tl.zeros((ROWS, BLOCK), tl.float32)
    dshift = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        here = (rows < M) & inside
        x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=here, other=0).to(tl.float32)
        y, rise = _curve(alpha * x + shift, ERF)
        u = dy * gain * rise
        tl.store(dx_ptr + rows * N + columns, u * alpha, mask=here)
        if partials_ptr is not None:
            dweight += dy * y
            if SHIFT:
                dbias += dy
        if numbers_ptr is not None:
            dalpha += u * x
            if ERF:
                dshift += u
    if partials_ptr is not None:
        place = program.to(tl.int64) * N + columns
        tl.store(partials_ptr + place, tl.sum(dweight, axis=0, keep_dims=True), mask=inside)
        if SHIFT:
            place += tl.num_programs(0).to(tl.int64) * N
            tl.store(partials_ptr + place, tl.sum(dbias, axis=0, keep_dims=True), mask=inside)
    if numbers_ptr is not None:
        numbers_ptr += program * tl.num_programs(1) + tl.program_id(1)
        tl.store(numbers_ptr, tl.sum(dalpha))
        if ERF:
            tl.store(numbers_ptr + tl.num_programs(0) * tl.num_programs(1), tl.sum(dshift))


@cache
def _forward_tile(n: int) -> Tile:
    """Several rows at once: gain and shift are read once for all of them."""
    block = min(1024, next_power_of_2(n))
    return Tile(4 if block == 1024 else 2048 // block, block, 4)


@cache
def _backward_tile(n: int, size: int) -> Tile:
    """Up to four sums are kept for each value, so that a thread has 16 values, or fewer.

    `size` is that of a value in bytes: wide values are on their way one tile ahead, not two.
    """
    block = min(1024, next_power_of_2(n))
    return Tile(2 if block == 1024 else 1024 // block, block, 4, 4, 2 if size == 4 else 3)


def squash_function(name: str, erf: bool) -> Callable[..., Tensor]:
    """Make the function of one curve: (x, alpha, shift, weight, bias) -> y, with its gradients."""

    def forward(
        x: Tensor, alpha: Tensor | None, slope: float, shift: Tensor | None, offset: float,
        weight: Tensor | None, bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if not is_fake(x):
            (rows, m, stride), n = as_rows(x), x.shape[-1]
            tile = _forward_tile(n)
            launch(
                _forward, (cdiv(m, tile.rows), cdiv(n, tile.block)), rows, alpha,
                shift, packed(weight), packed(bias), y, slope, offset, m, stride,
                N=n, ERF=erf, ROWS=tile.rows, BLOCK=tile.block, warps=tile.warps,
            )  # fmt: skip
        return y, x.new_empty(0)

    def backward(
        dy: Tensor, x: Tensor, alpha: Tensor | None, slope: float, shift: Tensor | None,
        offset: float, weight: Tensor | None, bias: Tensor | None, learns: bool, steers: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        # Where one of a pair is no tensor, its gradient is written all the same, and dropped.
        dweight, dbias = _room(x, learns, weight, bias)
        dalpha, dshift = _room(x, steers, alpha, shift)
        if is_fake(x):
            return dx, dweight, dbias, dalpha, dshift
        (dy, m, dy_stride), (x, _, x_stride), n = as_rows(dy), as_rows(x), x.shape[-1]
        tile = _backward_tile(n, x.element_size())
        chunks = cdiv(n, tile.block)
        most = max(1, processors(x.device) * tile.per_processor // chunks)
        programs = min(cdiv(m, tile.rows), most)
        shifts = bias is not None
        partials = make_partials(1 + shifts, programs, n, x.device) if learns else None
        numbers = make_partials(1 + erf, programs * chunks, 1, x.device) if steers else None
        launch(
            _backward, (programs, chunks), dy, x, alpha, shift, packed(weight), dx, partials,
            numbers, slope, offset, m, dy_stride, x_stride,
            N=n, ERF=erf, SHIFT=shifts, ROWS=tile.rows, BLOCK=tile.block, STAGES=tile.stages,
            warps=tile.warps, registers=tile.registers,
        )  # fmt: skip
        if partials is not None:
            column_sums(partials, dweight, dbias if shifts else None)
        if numbers is not None:
            column_sums(numbers, dalpha, dshift if erf else None)
        return dx, dweight, dbias, dalpha, dshift

    inner = differentiable(name, forward, backward, save=_save, gradients=_gradients)

    def function(
        x: Tensor, alpha: Tensor | float, shift: Tensor | float, weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        check_rows(name, x)
        check_parameters(name, x, x.shape[-1], weight=weight, bias=bias)
        slope, offset = _split(name, "alpha", alpha, x), _split(name, "shift", shift, x)
        return inner(x, *slope, *offset, weight, bias)

    return function


def _save(ctx, inputs, output) -> None:
    x, alpha, ctx.slope, shift, ctx.offset, weight, bias = inputs
    ctx.save_for_backward(x, alpha, shift, weight, bias)


def _gradients(ctx, backward, dy, *_) -> tuple:
    if dy is None:
        return (None,) * 7
    x, alpha, shift, weight, bias = ctx.saved_tensors
    needs = ctx.needs_input_grad
    learns, steers = needs[5] or needs[6], needs[1] or needs[3]
    dx, dweight, dbias, dalpha, dshift = backward(
        dy, x, alpha, ctx.slope, shift, ctx.offset, weight, bias, learns, steers
    )
    grads = (dx, dalpha, None, dshift, None, dweight, dbias)
    return tuple(grad if need else None for grad, need in zip(grads, needs, strict=True))


def _room(x: Tensor, wanted: bool, *pair: Tensor | None) -> list[Tensor]:
    """Allocate the gradients of two parameters, of which one may be missing."""
    like = next((p for p in pair if p is not None), x)
    return [torch.empty_like(like if p is None else p) if wanted else x.new_empty(0) for p in pair]


def _split(name: str, role: str, value: Tensor | float, x: Tensor) -> tuple[Tensor | None, float]:
    """Split what may be a tensor or a number into one of each; a tensor goes before a number."""
    if not isinstance(value, Tensor):
        return None, float(value)
    if value.dtype not in DTYPES:
        raise TypeError(
            f"kernel {name} takes {role} in float32, bfloat16 or float16, got {value.dtype}"
        )
    if value.numel() != 1:
        raise ValueError(
            f"kernel {name} needs one number as {role}, the same for all features, got shape "
            f"{tuple(value.shape)}"
        )
    check_device(name, role, value, x)
    return value, 0.0
