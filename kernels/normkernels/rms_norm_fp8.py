"""RMSNorm, with or without the residual addition, whose result is FP8 with scales (e4m3).

    h = residual + x, or x      the stream, as in `add_norm`
    y = RMSNorm(h)              rounded to x's dtype, as in unfused code
    s = max |y| / 448           over a row, or over each `group` of its values; 1 where all y are 0
    q = y / s                   rounded to e4m3, whose largest number is 448

A matrix multiplication in FP8 reads q and s. With values of 2 bytes, the kernel moves 3 bytes per
value (reads x, writes q); three kernels (norm, maximum, quotient) move 4 + 2 + 3 = 9.

The kernel has no gradient (training code usually uses a straight-through estimate). It needs
compute capability 8.9 (Ada, Hopper) or higher. Rows have up to 32768 values: a whole row is in
registers. A q of a NaN is NaN, but the maximum ignores it; the formula's scale is NaN, too.

Sources: Micikevicius et al. 2022, arXiv 2209.05433 (e4m3); DeepSeek-AI 2024, arXiv 2412.19437
(groups of 128). Formulas: `normkernels.formulas.rms_norm_fp8`, `add_rms_norm_fp8`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch
from normkernels.rms_norm import apply_gain
from normkernels.rows import (
    all_columns,
    allocate_rows,
    as_rows,
    forward_tile,
    pack_parameter,
    within,
)
from normkernels.sizes import cdiv

LARGEST = 448.0  # e4m3's largest number
MAX_N = 32768


@triton.jit
def _forward(
    x_ptr, residual_ptr, weight_ptr, h_ptr, q_ptr, scale_ptr, eps, M, x_stride, residual_stride,
    N: tl.constexpr, GROUP: tl.constexpr, LARGEST: tl.constexpr,
    OFFSET: tl.constexpr, FIRST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add, normalize and quantize ROWS whole rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = all_columns(ROWS, BLOCK)
    here = (rows < M) & within(columns, N, BLOCK)
    h = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
    dtype = x_ptr.dtype.element_ty
    if residual_ptr is not None:
        h += tl.load(residual_ptr + rows * residual_stride + columns, mask=here, other=0).to(
            tl.float32
        )
        h = h.to(h_ptr.dtype.element_ty)
        tl.store(h_ptr + rows * N + columns, h, mask=here)
        h = h.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(h * h, axis=1, keep_dims=True) / N + eps)
    like_ptr = x_ptr if residual_ptr is None else h_ptr
    y = apply_gain(h * rstd, like_ptr, weight_ptr, columns, N, OFFSET, FIRST)
    y = y.to(dtype).to(tl.float32)
    # Values beyond the row are 0, so they cannot change a maximum of magnitudes.
    grouped = tl.reshape(tl.where(here, y, 0), (ROWS, BLOCK // GROUP, GROUP))
    most = tl.max(tl.abs(grouped), axis=2)
    scale = tl.div_rn(most, tl.full(most.shape, LARGEST, tl.float32))
    scale = tl.where(most == 0, 1.0, scale)
    grouped = tl.div_rn(grouped, tl.broadcast_to(scale[:, :, None], grouped.shape))
    q = tl.reshape(grouped, (ROWS, BLOCK)).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + rows * N + columns, q, mask=here)
    SCALES: tl.constexpr = (N + GROUP - 1) // GROUP
    group = tl.arange(0, BLOCK // GROUP)[None, :]
    tl.store(scale_ptr + rows * SCALES + group, scale, mask=(rows < M) & (group < SCALES))


def _launch(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    eps: float,
    group: int,
    offset: float,
    round_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    n = x.shape[-1]
    q = allocate_rows(x, torch.float8_e4m3fn)
    scales = x.new_empty((*x.shape[:-1], n // group if group else 1), dtype=torch.float32)
    h = x.new_empty(0)
    if residual is not None:
        h = allocate_rows(x, torch.promote_types(x.dtype, residual.dtype))
    if not is_fake(x):
        rows, m, x_stride = as_rows(x)
        skip, _, residual_stride = (None, 0, 0) if residual is None else as_rows(residual)
        tile = forward_tile(n)
        launch(
            _forward,
            (cdiv(m, tile.rows),),
            rows,
            skip,
            pack_parameter(weight),
            None if residual is None else h,
            q,
            scales,
            eps,
            m,
            x_stride,
            residual_stride,
            N=n,
            GROUP=group or tile.block,
            LARGEST=LARGEST,
            OFFSET=offset,
            FIRST=round_first,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return q, scales, h


_rms_norm_fp8 = torch.library.custom_op("normkernels::rms_norm_fp8", _launch, mutates_args=())
_rms_norm_fp8.register_fake(_launch)


def rms_norm_fp8(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    group: int | None = None,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return (q, s): RMSNorm(x) in e4m3, shape (…, N), and float32 scales, (…, 1).

    With `group`, s is (…, N / group). The gain is weight + `offset`; `round_first` rounds x̂ before
    the gain, as Llama does.
    """
    _check("rms_norm_fp8", x, weight, eps, group)
    return _rms_norm_fp8(x, None, weight, eps, group or 0, offset, round_first)[:2]


def add_rms_norm_fp8(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    group: int | None = None,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (q, s, h): the norm of h = residual + x as `rms_norm_fp8` has it, and h."""
    _check("add_rms_norm_fp8", x, weight, eps, group, residual=residual)
    return _rms_norm_fp8(x, residual, weight, eps, group or 0, offset, round_first)


def _check(
    name: str, x: Tensor, weight: Tensor | None, eps: float, group: int | None, **others: Tensor
) -> None:
    """Refuse what the kernel does not support, with an explanation."""
    check_rows(name, x, eps, **others)
    n = x.shape[-1]
    check_parameters(name, x, n, weight=weight)
    if not 1 <= n <= MAX_N:
        raise ValueError(f"kernel {name} supports rows of 1 to {MAX_N} values, got {n}")
    if group is not None and (group < 1 or group & (group - 1) or n % group):
        raise ValueError(
            f"kernel {name} needs a group that is a power of two and divides {n}, got {group}"
        )
    given = [x, *others.values()] if weight is None else [x, weight, *others.values()]
    if torch.is_grad_enabled() and any(t.requires_grad for t in given):
        raise RuntimeError(
            f"kernel {name} has no gradient, but an argument requires one; call it under "
            "torch.no_grad()"
        )
    if x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 9):
        raise ValueError(
            f"kernel {name} needs a GPU of compute capability 8.9 or higher, got "
            f"{'.'.join(map(str, torch.cuda.get_device_capability(x.device)))}; use "
            f"normkernels.formulas.{name}"
        )
