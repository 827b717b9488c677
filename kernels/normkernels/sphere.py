"""Shared parts of nGPT's kernels: loading rows, interpolation factors, lengths that may be 0."""

import triton
import triton.language as tl


@triton.jit
def load(ptr, rows, stride, columns, here):
    """Load a tile of rows as float32, with 0 outside."""
    return tl.load(ptr + rows * stride + columns, mask=here, other=0).to(tl.float32)


@triton.jit
def share_of(alpha_ptr, columns, N):
    """Load |α|."""
    return tl.abs(tl.load(alpha_ptr + columns, mask=columns < N, other=0).to(tl.float32))


@triton.jit
def inverse_of(length):
    """Return 1 / length, or 1 for a length of 0, so that zeros stay zeros."""
    return 1 / tl.where(length == 0, 1.0, length)
