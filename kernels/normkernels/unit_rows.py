"""nGPT's part of the optimizer step: normalize every vector of a weight matrix, in place.

    w ← w / |w|      for each row (dim = −1), or for each column (dim = 0); zeros stay zeros

Vectors that are contiguous in memory are read once: 2s bytes per value. For other vectors, programs
first store the sums of squares of slices of the matrix; each program of a second kernel sums those
of its columns and scales one slice, which it reads again (3s). Both methods support any strides, so
that a transposed weight is also read along its memory. There is no gradient. Source: Loshchilov et
al. 2024, arXiv 2410.01131. Formula: `labkit.placements.sphere.unit_rows_`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_tensor
from normkernels.launch import count_processors, is_fake, launch
from normkernels.operator import is_transformed, is_watched
from normkernels.rows import forward_tile
from normkernels.sizes import cdiv
from normkernels.sphere import inverse_of

_ROWS, _COLUMNS = 64, 64  # what a program reads at once across vectors


@triton.jit
def _scale_vectors(
    weight_ptr, vectors, vector_stride, stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Scale ROWS vectors of N values; values beyond the first BLOCK are read twice."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns, valid = tl.arange(0, BLOCK).to(tl.int64)[None, :], rows < vectors
    place, here = rows * vector_stride, valid & (columns < N)
    w = tl.load(weight_ptr + place + columns * stride, mask=here, other=0).to(tl.float32)
    squares = tl.sum(w * w, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        more, there = (start + columns) * stride, valid & (start + columns < N)
        far = tl.load(weight_ptr + place + more, mask=there, other=0).to(tl.float32)
        squares += tl.sum(far * far, axis=1, keep_dims=True)
    inverse = inverse_of(tl.sqrt(squares))
    tl.store(weight_ptr + place + columns * stride, w * inverse, mask=here)
    for start in range(BLOCK, N, BLOCK):
        more, there = (start + columns) * stride, valid & (start + columns < N)
        far = tl.load(weight_ptr + place + more, mask=there, other=0).to(tl.float32)
        tl.store(weight_ptr + place + more, far * inverse, mask=there)


@triton.jit
def _across_squares(
    weight_ptr, partials_ptr, size, vectors, stride, vector_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the squares of one slice of COLUMNS vectors, ROWS values of each at a time."""
    columns = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(1) * ROWS, size, tl.num_programs(1) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        place = weight_ptr + rows * stride + columns * vector_stride
        w = tl.load(place, mask=(rows < size) & (columns < vectors), other=0).to(tl.float32)
        total += w * w
    place = tl.program_id(1).to(tl.int64) * vectors + columns
    sums = tl.sum(total, axis=0, keep_dims=True)
    tl.store(partials_ptr + place, sums, mask=columns < vectors)


@triton.jit
def _across_scale(
    weight_ptr, partials_ptr, size, vectors, stride, vector_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the slices' results, from first to last, and scale the program's own slice."""
    columns = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, tl.num_programs(1), ROWS):
        slices = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        here = (slices < tl.num_programs(1)) & (columns < vectors)
        total += tl.load(partials_ptr + slices * vectors + columns, mask=here, other=0)
    inverse = inverse_of(tl.sqrt(tl.sum(total, axis=0, keep_dims=True)))
    for first in range(tl.program_id(1) * ROWS, size, tl.num_programs(1) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        place = weight_ptr + rows * stride + columns * vector_stride
        here = (rows < size) & (columns < vectors)
        w = tl.load(place, mask=here, other=0).to(tl.float32)
        tl.store(place, w * inverse, mask=here)


def _launch_kernels(weight: Tensor, dim: int) -> None:
    size, stride = weight.shape[dim], weight.stride(dim)
    vectors, vector_stride = weight.shape[1 - dim % 2], weight.stride(1 - dim % 2)
    if is_fake(weight) or not weight.numel():
        return
    if stride <= vector_stride:
        tile = forward_tile(size)
        launch(
            _scale_vectors,
            (cdiv(vectors, tile.rows),),
            weight,
            vectors,
            vector_stride,
            stride,
            N=size,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
        return
    chunks = cdiv(vectors, _COLUMNS)
    slices = min(cdiv(size, _ROWS), max(1, 6 * count_processors(weight.device) // chunks))
    partials = torch.empty(slices, vectors, dtype=torch.float32, device=weight.device)
    for kernel in (_across_squares, _across_scale):
        launch(
            kernel,
            (chunks, slices),
            weight,
            partials,
            size,
            vectors,
            stride,
            vector_stride,
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
            warps=4,
        )


_operator = torch.library.custom_op("normkernels::unit_rows_", mutates_args=("weight",))(
    _launch_kernels
)
_operator.register_fake(_launch_kernels)


def unit_rows_(weight: Tensor, dim: int = -1) -> Tensor:
    """Normalize every vector along `dim` to length 1, in place, with one rounding; 0 stays 0.

    It supports a matrix of any layout, and has no gradient: call it under `torch.no_grad()`.
    """
    if weight.ndim != 2 or dim not in (-2, -1, 0, 1):
        raise ValueError(
            "kernel unit_rows_ needs a matrix and dim=0 or dim=1, got shape "
            f"{tuple(weight.shape)} and dim={dim}"
        )
    check_tensor("unit_rows_", "weight", weight, weight)
    if any(
        many > 1 and step == 0 for many, step in zip(weight.shape, weight.stride(), strict=True)
    ):
        raise ValueError(
            "kernel unit_rows_ writes in place, so the weight may not be an expanded tensor; "
            "clone() it first"
        )
    if weight.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            "kernel unit_rows_ changes the weight in place and without a gradient, but the "
            "weight requires grad; call it under torch.no_grad()"
        )
    if is_transformed() or is_watched([weight]):
        _operator(weight, dim)
        return weight
    _launch_kernels(weight, dim)
    if not weight.is_inference():
        torch.autograd.graph.increment_version(weight)
    return weight
