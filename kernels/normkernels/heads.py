"""Layout of attention heads for a kernel: vectors whose channels are rotated in pairs.

A program works on a tile of rows, some tokens times some heads, and on two halves of each vector,
so that channel i and its partner i + pairs are in the same thread's registers:

    channels      0 … pairs      pairs … 2·pairs      the rest, which is not rotated
    half          first          second               half in the first, half in the second

If interleaved, channels 2i and 2i + 1 are partners: even channels form the first half, odd ones the
second. Each half, or the whole vector, is one dense tile, read and written 16 bytes at a time.
Heads of one token share a tile because they share its cosines and sines.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from normkernels.sizes import next_power_of_2

MAX_HEAD_DIM = 1024


@dataclass(frozen=True)
class HeadTile:
    """Tile of one program: ROWS vectors, of HEADS heads, BLOCK values per half."""

    rows: int
    heads: int
    block: int
    groups: int  # of heads: those of q first, then those of k


@cache
def head_tile(n: int, q_heads: int, k_heads: int) -> HeadTile:
    """Choose the tile: about 2048 values, 16 for each thread.

    More heads in a tile share more cosines; fewer waste less if they do not divide the number of
    heads. In bf16 a row's cosines have as many bytes as the row, so a tile of h heads costs h + 1.
    """
    block = next_power_of_2(max(1, (n + 1) // 2))
    rows = 1024 // block

    def count_groups(heads: int) -> int:
        return -(-q_heads // heads) + -(-k_heads // heads)

    fitting = [h for h in (8, 4, 2, 1) if h <= rows]
    heads = min(fitting, key=lambda h: count_groups(h) * (h + 1))
    return HeadTile(rows, heads, block, count_groups(heads))


def see_heads(x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """View x as (batch, time, heads, head_dim): return it, and the strides of the first three.

    No copy is made if head_dim is dense, even if x is a part of a larger tensor.
    """
    x = x if x.ndim == 4 else x.reshape(-1, *x.shape[-3:])
    if x.stride(-1) != 1 and x.shape[-1] > 1:
        x = x.contiguous()
    return x, x.stride()[:3]


def count_tables(cos: Tensor | None) -> int:
    """Return how many sequences have their own angles; 1 if all sequences share them."""
    return 1 if cos is None else cos.shape[:-2].numel()


def list_constants(
    q: Tensor, k: Tensor, q_weight: Tensor | None, k_weight: Tensor | None, cos: Tensor | None
) -> dict[str, Any]:
    """Return the compile-time constants of kernels over heads, except the kind of norm."""
    n, q_heads, k_heads = q.shape[-1], q.shape[-2], k.shape[-2]
    tile = head_tile(n, q_heads, k_heads)
    return {
        "N": n,
        "PAIRS": (n + 1) // 2 if cos is None else cos.shape[-1],
        "Q_HEADS": q_heads,
        "K_HEADS": k_heads,
        "Q_OWN": q_weight is not None and q_weight.ndim == 2,
        "K_OWN": k_weight is not None and k_weight.ndim == 2,
        "HEADS": tile.heads,
        "GROUPS": tile.groups,
        "ROWS": tile.rows,
        "BLOCK": tile.block,
        "warps": 4,
    }


@triton.jit
def rows_of(tile, group, HEADS: tl.constexpr, ROWS: tl.constexpr):
    """Return token and head of each row of a tile, (ROWS, 1)."""
    row = tl.arange(0, ROWS)[:, None]
    return tile * (ROWS // HEADS) + row // HEADS, group * HEADS + row % HEADS


@triton.jit
def place_angles(batch, position, time, tables, PAIRS: tl.constexpr, BLOCK: tl.constexpr):
    """Return where the cosines of each token are, (ROWS, BLOCK); the tables repeat over a batch."""
    token = (batch % tables) * time + position
    return token * PAIRS + tl.arange(0, BLOCK)[None, :]


@triton.jit
def split_halves(
    N: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr
):
    """Return the channels of both halves, (1, BLOCK), where they exist, and whether they rotate."""
    WIDTH: tl.constexpr = (N + 1) // 2
    column = tl.arange(0, BLOCK)[None, :]
    turning = column < PAIRS
    first = column
    second = column + PAIRS
    if INTERLEAVED:
        first = 2 * column
        second = 2 * column + 1
    elif PAIRS < WIDTH:
        first = tl.where(turning, column, column + PAIRS)
        second = tl.where(turning, column + PAIRS, column + WIDTH)
    inside = column < WIDTH
    return first, second, inside, inside & (second < N), turning


@triton.jit
def load_halves(
    ptr, valid, first, second, in_first, in_second,
    N: tl.constexpr, BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Load both halves of vectors in float32, 0 where `valid` is false; `ptr` is (rows, 1)."""
    if INTERLEAVED:
        channel = tl.arange(0, 2 * BLOCK)[None, :]
        both = tl.load(ptr + channel, mask=valid & (channel < N), other=0).to(tl.float32)
        a, b = tl.split(tl.reshape(both, (both.shape[0], BLOCK, 2)))
    else:
        a = tl.load(ptr + first, mask=valid & in_first, other=0).to(tl.float32)
        b = tl.load(ptr + second, mask=valid & in_second, other=0).to(tl.float32)
    return a, b


@triton.jit
def store_halves(
    ptr, a, b, valid, first, second, in_first, in_second,
    N: tl.constexpr, BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Store both halves of vectors where `valid`."""
    if INTERLEAVED:
        channel = tl.arange(0, 2 * BLOCK)[None, :]
        tl.store(ptr + channel, tl.interleave(a, b), mask=valid & (channel < N))
    else:
        tl.store(ptr + first, a, mask=valid & in_first)
        tl.store(ptr + second, b, mask=valid & in_second)


@triton.jit
def turn_halves(first, second, cos, sin, turning, N: tl.constexpr, PAIRS: tl.constexpr):
    """Rotate both halves by the angle (back, with −sin); other channels are unchanged.

    The others are selected, not multiplied by 0, so a NaN among them does not spread.
    """
    one = first * cos - second * sin
    two = first * sin + second * cos
    if PAIRS < (N + 1) // 2:
        one = tl.where(turning, one, first)
        two = tl.where(turning, two, second)
    return one, two


@triton.jit
def inverse_length(first, second, eps, N: tl.constexpr, NORM: tl.constexpr):
    """Return the factor that normalizes each row, and whether it depends on the row, (ROWS, 1)."""
    squares = tl.sum(first * first + second * second, axis=1, keep_dims=True)
    if NORM == "rms":
        return tl.rsqrt(squares / N + eps), squares >= 0
    length = tl.sqrt(squares)
    divisor = tl.maximum(length, eps)
    # Without eps a vector of zeros stays zero.
    return 1 / tl.where(divisor == 0, 1.0, divisor), length >= eps
