# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["homework"]
HOMEWORK = {
    "title": "One kernel instead of eight",
    "about": "A gated RMSNorm as a fused Triton kernel, forward and backward, without a GPU",
    "packages": ["torch", "triton", "math", "os"],
    "minutes": 180,
}

# %% [markdown]
r"""
# Homework 4 · One kernel instead of eight

**Question.** The linear-attention layers of Qwen3-Next, which follow Gated DeltaNet (Yang et al., 2024, arXiv 2412.06464), apply a norm and a gate just before their output projection: $y = g \odot \hat x \odot \mathrm{silu}(z)$. Eight PyTorch operations compute it, and each is fast. Together they are slow, and faster arithmetic would not help. One kernel that does the same arithmetic in the same precision takes a fraction of the time. *What did it leave out?*

Here you write that kernel, with its backward pass, in Triton. You need no GPU: Triton can interpret a kernel, one program after
another, with NumPy. That is slow (a millisecond per program) but faithful: the kernel reads and writes exactly what you tell it to, so a wrong mask is as wrong in the interpreter as on a GPU. But the interpreter also hides something. Which of your mistakes would only a GPU show? Keep the question in mind.

$$\hat x = r\,x,\qquad r = \Big(\tfrac1N\textstyle\sum_i x_i^2 + \epsilon\Big)^{-1/2},\qquad
\mathrm{silu}(z) = z\,\sigma(z),\qquad y = g\odot\hat x\odot\mathrm{silu}(z).$$

A *row* is one vector along the last axis: $N$ values that are normalized together. There are $M$ rows. Chapter 09 of the book has the background:
why the bytes moved, and not the number of operations, determine the time, and how to derive the backward pass of RMSNorm.

**How it is marked.** Only the final definition of each name counts, no matter what else the notebook contains. The checks below each question are
public and give no points. The grader launches your kernels again with other shapes, other formats, and guard values in the memory around the rows. Every kernel must be a function decorated with `@triton.jit`, and `gated_norm` (question 3) must launch `gated_forward` exactly once. The grader refuses a loop in which a variable changes its dtype, since Triton does not compile such a loop for a GPU.
Question 3 launches the kernel from question 2; the other questions are independent of each other.

The numbers in the next cell are yours; your neighbour has others. Leave them as they are.
"""

# %% tags=["variant"]
ROWS = draw.choice((4096, 8192, 16384, 32768))
DIM = draw.choice((1536, 2560, 3072, 5120))
TERABYTES = draw.choice((1.6, 2.0, 3.35, 4.8))
ROW_MEAN = draw.choice((2.0, 3.0, 4.0, 6.0))
ROW_DIM = draw.choice((20, 24, 40, 48))

# %%
import os

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels run as NumPy programs

from types import SimpleNamespace

import torch
import triton
import triton.language as tl
from torch.nn import functional as F

# %% [markdown]
r"""
This function computes the formula step by step. It is right, and the public checks compare your kernels with it. `x` and `z` may be in half precision; the sum of squares is always taken in float32, and the result is returned in the format of `x`.
"""


# %%
def gated_in_steps(x, z, weight, eps=1e-5):
    """Gated RMSNorm over the last axis, one operation of PyTorch after another."""
    wide = x.float()  # 1: a cast, which does nothing when x is float32 already
    squares = wide.square()  # 2
    mean = squares.mean(-1, keepdim=True)  # 3
    standard = wide * torch.rsqrt(mean + eps)  # 4
    rounded = standard.to(x.dtype)  # 5: the cast back
    gained = weight.to(x.dtype) * rounded  # 6
    gate = F.silu(z)  # 7
    return gained * gate  # 8


# %% [markdown]
r"""
## Question 1 · Count before you write (3 points)

Let a value be stored in `size` bytes: 4 for float32, 2 for half precision. `x`, `z` and the result have the same format. Each of the eight numbered lines reads
its inputs from memory and writes its result back. Count only tensors of `rows · dim` values. (The gain, and tensors with a single number per row, are negligible. Line 4 counts as one pass over the values.)

Before you count, guess: at `size` 2, how many times as many bytes as the fused kernel do the eight lines move? Three? Five?

- `bytes_in_steps(rows, dim, size)`: the bytes that the eight lines move. A cast that does nothing moves nothing.
- `bytes_fused(rows, dim, size)`: a pair, the minimum number of bytes that a fused kernel must move in the forward pass, and the minimum for one in the backward pass. The backward pass reads $dy$, and $x$ and $z$ again, and writes $dx$ and $dz$.
- `microseconds_saved()`: with your own `ROWS`, `DIM` and half precision, on a GPU whose memory moves `TERABYTES` $\cdot 10^{12}$
  bytes a second and which waits for nothing else: how many microseconds does the fused forward kernel save?
"""


# %% tags=["solution:q1"]
def bytes_in_steps(rows, dim, size):
    """Bytes that the eight lines of gated_in_steps read and write."""
    ### BEGIN SOLUTION
    casts = 0 if size == 4 else 2 * (size + 4)
    inside = 8 + 4 + 8  # squares, their mean, the product with r: float32
    outside = 2 * size + 2 * size + 3 * size  # gain, silu, product with the gate
    return rows * dim * (casts + inside + outside)
    ### END SOLUTION


def bytes_fused(rows, dim, size):
    """Bytes that one fused kernel moves: (forward, backward)."""
    ### BEGIN SOLUTION
    return 3 * rows * dim * size, 5 * rows * dim * size
    ### END SOLUTION


def microseconds_saved():
    """Microseconds that fusing saves forward, for ROWS, DIM, TERABYTES and 2 bytes a value."""
    ### BEGIN SOLUTION
    saved = bytes_in_steps(ROWS, DIM, 2) - bytes_fused(ROWS, DIM, 2)[0]
    return saved / (TERABYTES * 1e12) * 1e6
    ### END SOLUTION


# %% tags=["test:q1", "points:3"]
from labkit.check.public import public

public(
    "q1",
    lambda: (
        bytes_in_steps(2, 8, 2) == 2 * bytes_in_steps(1, 8, 2),
        "twice the rows, twice the bytes",
    ),
    lambda: (len(bytes_fused(1, 8, 2)) == 2, "bytes_fused gives a pair: forward, backward"),
    lambda: (microseconds_saved() > 0, "the fused kernel should save time"),
)
### BEGIN HIDDEN TESTS


def bytes_a_value(size):
    """What the eight lines read and write for one value, line by line."""
    cast = size + 4 if size < 4 else 0
    return sum((cast, 4 + 4, 4, 4 + 4, cast, 2 * size, 2 * size, 3 * size))


def test_q1(student, draw, given):
    rows, dim = draw.integers(3, 900), 8 * draw.integers(2, 90)
    values = rows * dim

    counted = [student.call("bytes_in_steps", rows, dim, size) for size in (2, 4)]
    verdicts = [
        close(counted[0], values * bytes_a_value(2)),
        close(counted[1], values * bytes_a_value(4)),
    ]
    yield part(
        "in steps",
        1,
        every(*verdicts),
        says="Go line by line, for size 2 and again for size 4. Which lines work in float32, whatever the size? A cast to half precision reads 4 bytes a value and writes 2; "
        "in float32 both casts vanish. The mean reads every value and writes almost nothing.",
    )

    yield part(
        "fused",
        1,
        close(student.call("bytes_fused", rows, dim, 2), (3 * values * 2, 5 * values * 2)),
        says="A fused kernel reads every input once and writes every result once, and nothing in between. Count the tensors that come in and go out, of both passes.",
    )

    mine = given["ROWS"] * given["DIM"] * (bytes_a_value(2) - 6)
    yield part(
        "your microseconds",
        1,
        close(student.call("microseconds_saved"), mine / (1e6 * given["TERABYTES"]), 1e-3),
        says="Bytes saved, divided by bytes a second, in microseconds. Are ROWS, DIM and TERABYTES those of your notebook, and is a value 2 bytes?",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 2 · One program, one row (3 points)

A kernel is written for *one program*. On a GPU, many programs run it in parallel and in no particular order; `tl.program_id(0)` distinguishes them. Memory is a long line of numbers, and a pointer is a place on it. This small kernel doubles rows that lie one after another:
"""


# %%
@triton.jit
def doubled(from_ptr, to_ptr, N, BLOCK: tl.constexpr):
    """Write twice the row: one program for each row of N values."""
    place = tl.program_id(0) * N + tl.arange(0, BLOCK)
    mine = tl.arange(0, BLOCK) < N
    tl.store(to_ptr + place, 2 * tl.load(from_ptr + place, mask=mine), mask=mine)


small = torch.arange(6.0).view(2, 3)
large = torch.zeros_like(small)
doubled[(2,)](small, large, 3, BLOCK=4)
large

# %% [markdown]
r"""
`BLOCK` must be a power of two, because `tl.arange` accepts no other length; the length of a row seldom is. So the program usually has more *lanes* (elements of its block) than the row has values, and the **mask** says which lanes count. What is in a lane beyond the row? With a mask, you decide what a load puts there (`other=0`). Without a mask, the load reads whatever comes after the row in memory: the next row, or data that belongs to something else.

Write `gated_forward` for one row. `x` and `z` may be pieces of wider tensors, so each has a *stride*: the number of values from one row to
the next. `y` is dense: its rows lie `N` apart. The gain has `N` values. Compute in float32, and store `y` in the format of `y_ptr` (`tl.store` casts automatically). Also store the row's $r$ in `rstd_ptr`, in float32: the backward pass will need it.

Predict: with `N = 24` and `BLOCK = 32`, by which factor is $y$ wrong if you divide the sum of squares by `BLOCK`?
"""


# %% tags=["solution:q2"]
@triton.jit
def gated_forward(
    x_ptr, z_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, z_stride, N, eps, BLOCK: tl.constexpr
):
    """One program per row: y = weight · x̂ · silu(z), and rstd."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    here = columns < N
    x = tl.load(x_ptr + row * x_stride + columns, mask=here, other=0).to(tl.float32)
    z = tl.load(z_ptr + row * z_stride + columns, mask=here, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=here, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * N + columns, weight * x * rstd * z * tl.sigmoid(z), mask=here)
    ### END SOLUTION


# %% tags=["probe:q2"]
import sys

import torch
import triton
from triton.runtime.interpreter import InterpretedFunction


def start_kernel(kernel, grid, *arguments, **named):
    """Start a Triton kernel; refuse what is none, and what Triton would not compile for a GPU."""
    if type(kernel) is not InterpretedFunction:
        kind = type(kernel).__name__
        raise TypeError(f"a kernel is wanted, a function under @triton.jit; this is a {kind}")
    before, last = {}, {}  # by line: the formats there at first; and the line before

    def watch(frame, event, argument):
        if frame.f_code.co_name != kernel.__name__:
            return None
        key, line = id(frame), frame.f_lineno
        formats = {
            n: v.dtype for n, v in frame.f_locals.items() if isinstance(v, triton.language.tensor)
        }
        known = before.setdefault((key, line), formats)
        # Back at a line above: the head of a loop, around which a variable keeps its format.
        if event == "line" and line < last.get(key, line):
            for name in known.keys() & formats.keys():
                if known[name] != formats[name]:
                    raise TypeError(
                        f"{name} is {known[name]} before the loop and {formats[name]} after a turn; "
                        "Triton compiles no such loop for a GPU"
                    )
        last[key] = line
        return watch

    traced = sys.gettrace()
    sys.settrace(watch)
    try:
        kernel[grid](*arguments, **named)
    finally:
        sys.settrace(traced)


def probe_forward(student, x, z, weight, eps, dim, block):
    """Start gated_forward on rows that stand in wider tensors; give what it wrote, and behind it."""
    rows = x.shape[0]
    y = torch.full((rows * dim + block,), 7.0, dtype=x.dtype)
    rstd = torch.full((rows + 8,), 7.0)
    strides = x.stride(0), z.stride(0)
    start_kernel(
        student.gated_forward, (rows,), x, z, weight, y, rstd, *strides, dim, eps, BLOCK=block
    )
    return {
        "y": y[: rows * dim].view(rows, dim),
        "rstd": rstd[:rows],
        "behind": torch.cat([y[rows * dim :].float(), rstd[rows:]]),
    }


# %% tags=["test:q2", "points:3"]
def off_by(dim, block):
    """Largest difference from the formula in steps, for three rows."""
    torch.manual_seed(0)
    x, z, weight = torch.randn(3, dim), torch.randn(3, dim), torch.rand(dim + block) + 0.5
    mine = SimpleNamespace(gated_forward=gated_forward)
    came = probe_forward(mine, x, z, weight, 1e-5, dim, block)
    return (came["y"] - gated_in_steps(x, z, weight[:dim])).abs().max().item()


public(
    "q2",
    lambda: (off_by(16, 16) < 1e-5, "rows of 16 values, BLOCK 16: y differs from the formula"),
    lambda: (off_by(12, 16) < 1e-5, "rows of 12 values, BLOCK 16: y differs from the formula"),
)
### BEGIN HIDDEN TESTS


def in_nan(tensor, width):
    """The same rows in a wider tensor, with NaN behind each row."""
    wide = torch.full((*tensor.shape[:-1], width), float("nan"), dtype=tensor.dtype)
    wide[..., : tensor.shape[-1]] = tensor
    return wide


def exact_forward(x, z, weight, eps=1e-5):
    """The result in the format of x, and 1/rms of each row."""
    x64, z64 = x.double(), z.double()
    rstd = (x64.pow(2).mean(-1, keepdim=True) + eps) ** -0.5
    y = x64 * rstd * weight.double() * z64 / (1 + torch.exp(-z64))
    return y.to(x.dtype), rstd.detach().flatten().float()


def test_q2(student, draw, given):
    x, z, weight = 3 * draw.normal(4, 32), 2 * draw.normal(4, 32), draw.uniform(0.5, 1.5, 32)
    y, rstd = exact_forward(x, z, weight, 1e-2)
    plain = student.probe("probe_forward", x, z, in_nan(weight, 64), 1e-2, 32, 32)
    yield part(
        "full rows",
        1,
        every(close(item(plain, "y"), y, 1e-4, 1e-5), close(item(plain, "rstd"), rstd, 1e-4)),
        says="Rows as long as BLOCK, so no mask matters yet. Is epsilon under the root, is the gate z times sigmoid(z) and not sigmoid(z) alone, is r the number that is stored for the row?",
    )

    dim, block = draw.choice(((19, 32), (21, 64), (5, 16)))
    x, z, weight = draw.normal(3, dim), draw.normal(3, dim), draw.uniform(0.5, 1.5, dim)
    y, rstd = exact_forward(x, z, weight, 1e-5)
    padded = student.probe(
        "probe_forward",
        in_nan(x, block + 3),
        in_nan(z, block + 5),
        in_nan(weight, 2 * block),
        1e-5,
        dim,
        block,
    )
    yield part(
        "short rows",
        1,
        every(close(item(padded, "y"), y, 1e-4, 1e-5), close(item(padded, "rstd"), rstd, 1e-4)),
        says="Rows shorter than BLOCK, which stand in wider tensors with NaN behind each row: does every load have its mask, does each tensor use its own stride, is the mean over N values?",
    )

    written = item(padded, "behind")
    yield part(
        "nothing behind the row",
        1,
        every(
            holds(item(padded, "y"), lambda y: bool((y != 7).all()), "Nothing was written at all."),
            close(written, torch.full((block + 8,), 7.0)),
        ),
        says="Something was written behind the last row of y, or behind the last rstd. Here rows are done in order, so that a later row repairs the damage; on a GPU it is a race. A store needs its mask, too.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 3 · A function that people can call (3 points)

Nobody wants to count strides. Write `gated_norm(x, z, weight, eps=1e-5)`, which launches your kernel once:

- `x` and `z` have any shape `(…, N)`, and the result has the shape and the format of `x`;
- `x` and `z` are often the two halves of one projection, `x, z = both.chunk(2, dim=-1)`. Then a row of `x` is not followed by the next row of `x`.
  The kernel has strides for that: no copy is needed where the rows are evenly spaced (`reshape(-1, N)` makes one only where it must);
- float16 has no number above 65504. A row with values of 300 has squares of 90000. What does your kernel do with them?

`triton.next_power_of_2` is your friend. Do not modify the caller's tensors.
"""


# %% tags=["solution:q3"]
def gated_norm(x, z, weight, eps=1e-5):
    """Gated RMSNorm over the last axis, in one kernel; shape and dtype of x."""
    ### BEGIN SOLUTION
    dim = x.shape[-1]
    flat_x, flat_z = x.reshape(-1, dim), z.reshape(-1, dim)
    y = torch.empty(x.shape, dtype=x.dtype)
    rstd = torch.empty(flat_x.shape[0], dtype=torch.float32)
    gated_forward[(flat_x.shape[0],)](
        flat_x,
        flat_z,
        weight,
        y,
        rstd,
        flat_x.stride(0),
        flat_z.stride(0),
        dim,
        eps,
        BLOCK=triton.next_power_of_2(dim),
    )
    return y
    ### END SOLUTION


# %% tags=["probe:q3"]
def probe_norm(student, x, z, weight, eps=1e-5):
    """Call gated_norm; refuse it unless it starts gated_forward, and that once."""
    starts, kernel = [], student.gated_forward
    if type(kernel) is InterpretedFunction:
        kernel.pre_run_hooks = [lambda *arguments, **named: starts.append(1)]
    y = student.gated_norm(x, z, weight, eps)
    if len(starts) != 1:
        raise ValueError(
            f"gated_norm starts the kernel gated_forward {len(starts)} times, not once"
        )
    return y


def probe_halves(student, both, weight):
    """Call gated_norm with the two halves of one tensor; give the result, and the tensor again."""
    x, z = both.chunk(2, dim=-1)
    return [probe_norm(student, x, z, weight), both]


# %% tags=["test:q3", "points:3"]
def follows_the_formula(*shape):
    """Compare with the formula in steps."""
    torch.manual_seed(1)
    x, z, weight = torch.randn(shape), torch.randn(shape), torch.rand(shape[-1])
    return torch.allclose(gated_norm(x, z, weight), gated_in_steps(x, z, weight), atol=1e-5)


public(
    "q3",
    lambda: (follows_the_formula(3, 16), "x of shape (3, 16): the result differs from the formula"),
    lambda: (follows_the_formula(2, 3, 10), "x of shape (2, 3, 10): the result differs"),
)
### BEGIN HIDDEN TESTS


def test_q3(student, draw, given):
    dim = draw.choice((11, 13, 22))
    x, z, weight = draw.normal(2, 3, dim), draw.normal(2, 3, dim), draw.normal(dim)
    yield part(
        "any shape",
        1,
        close(
            student.probe("probe_norm", x, z, weight, eps=1e-3),
            exact_forward(x, z, weight, 1e-3)[0],
            1e-4,
            1e-5,
        ),
        says="Three axes, and rows whose length is no power of two: one program for each row, BLOCK the next power of two, eps handed on?",
    )

    both, weight = draw.normal(3, 32), draw.normal(16)
    wanted, _ = exact_forward(both[:, :16], both[:, 16:], weight)
    yield part(
        "halves of one tensor",
        1,
        close(student.probe("probe_halves", both, weight), [wanted, both], 1e-4, 1e-5),
        says="x and z were the halves of one tensor, whose rows are 32 values apart although each half has 16: take the stride from the tensor, do not assume it. And leave the tensor as it was.",
    )

    x, z = (300 * draw.normal(3, 16)).half(), draw.normal(3, 16).half()
    weight = draw.uniform(0.5, 1.5, 16).half()
    yield part(
        "half precision",
        1,
        close(
            student.probe("probe_norm", x, z, weight), exact_forward(x, z, weight)[0], 3e-3, 1e-3
        ),
        says="float16 with values of 300: cast to float32 as soon as you have loaded, square after that, and return the format of x.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 4 · The lanes that nobody owns (3 points)

A colleague needed a variance and wrote this kernel. With rows of 64 values every test passed. Then the model's width changed.
"""


# %%
@triton.jit
def colleagues_variance(x_ptr, variance_ptr, N, BLOCK: tl.constexpr):
    """One program per row: its variance."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = x - mean
    variance = tl.sum(centred * centred, axis=0) / N
    tl.store(variance_ptr + row, variance)


def run_variance(kernel, x, block):
    """Start a variance kernel on dense rows."""
    variance = torch.empty(x.shape[0])
    kernel[(x.shape[0],)](x, variance, x.shape[1], BLOCK=block)
    return variance


# %% [markdown]
r"""
Every load is masked, `other` is 0, both sums are divided by `N`. Read it again before you go on: where is the mistake?

- `reported(variance, mean, n, block)`: the number that this kernel reports for a row of `n` values with that (true) variance and mean. Derive this number; do not run the kernel to find it. For which rows is the kernel right all the same?
- `row_variance`: the corrected kernel, with the same arguments. It has to be right for rows of any length up to `BLOCK`, and for rows whose mean is ten thousand times their standard deviation. (So $\overline{x^2} - \overline{x}^2$ is no way out: chapter 03 says why.)

A public check compares your prediction with the output of the colleague's kernel, for a row with your `ROW_DIM` and `ROW_MEAN`.
"""


# %% tags=["solution:q4"]
def reported(variance, mean, n, block):
    """What colleagues_variance says about a row of n values, in block lanes."""
    ### BEGIN SOLUTION
    return variance + (block - n) / n * mean**2
    ### END SOLUTION


@triton.jit
def row_variance(x_ptr, variance_ptr, N, BLOCK: tl.constexpr):
    """One program per row: its variance, for every N up to BLOCK."""
    ### BEGIN SOLUTION
    lanes = tl.arange(0, BLOCK)
    counts = lanes < N
    place = tl.program_id(0).to(tl.int64) * N + lanes
    values = tl.load(x_ptr + place, mask=counts, other=0).to(tl.float32)
    from_mean = tl.where(counts, values - tl.sum(values, axis=0) / N, 0.0)
    tl.store(variance_ptr + tl.program_id(0), tl.sum(from_mean * from_mean, axis=0) / N)
    ### END SOLUTION


# %% tags=["probe:q4"]
def probe_variance(student, x, dim, block):
    """Start row_variance on the dense rows at the beginning of a longer stretch of memory."""
    rows = x.numel() // dim - 1
    variance = torch.full((rows,), 7.0)
    start_kernel(student.row_variance, (rows,), x, variance, dim, BLOCK=block)
    return variance


# %% tags=["test:q4", "points:3"]
def prediction_and_kernel():
    """Predict the colleague's number for your row, then run the kernel."""
    torch.manual_seed(2)
    row = torch.randn(1, ROW_DIM, dtype=torch.float64)
    row = ROW_MEAN + (row - row.mean()) / row.std(correction=0)
    said = run_variance(colleagues_variance, row.float(), 64).item()
    return abs(reported(1.0, ROW_MEAN, ROW_DIM, 64) / said - 1) < 1e-3


def variance_is_right(dim, block):
    """Compare row_variance with torch's."""
    torch.manual_seed(3)
    rows = 2 * torch.randn(2, dim) + 1
    return torch.allclose(run_variance(row_variance, rows, block), rows.var(-1, correction=0))


public(
    "q4",
    lambda: (prediction_and_kernel(), "at your row the colleague's kernel says something else"),
    lambda: (variance_is_right(16, 16), "rows of 16 values, BLOCK 16: the variance is wrong"),
    lambda: (variance_is_right(12, 16), "rows of 12 values, BLOCK 16: the variance is wrong"),
)
### BEGIN HIDDEN TESTS


def test_q4(student, draw, given):
    cases = [
        (1.0, given["ROW_MEAN"], given["ROW_DIM"], 64),
        (2.5, -3.0, 100, 128),
        (0.3, 1.7, 32, 32),
    ]
    answers = [student.call("reported", *case) for case in cases]
    wanted = [v + m * m * (b / n - 1) for v, m, n, b in cases]
    yield part(
        "the prediction",
        1,
        every(*(close(a, w, 1e-4) for a, w in zip(answers, wanted, strict=True))),
        says="A lane beyond the row was loaded as 0. What is in it after the mean was subtracted? Count such lanes, square, and divide by what the kernel divides by.",
    )

    dim, block = draw.choice(((21, 32), (37, 64), (9, 16)))
    x = 2 * draw.normal(4, dim) + 3
    got = student.probe("probe_variance", x.flatten(), dim, block)
    true_variance = x[:3].double().var(-1, correction=0).float()
    yield part(
        "mended",
        1,
        close(got, true_variance, 1e-4),
        says="Rows shorter than BLOCK, of mean 3: the lanes beyond the row have to be out of both sums, and both are divided by the number of values.",
    )

    x = draw.normal(4, dim) + 10_000
    got = student.probe("probe_variance", x.flatten(), dim, block)
    yield part(
        "a large mean",
        1,
        close(got, x[:3].double().var(-1, correction=0).float(), 1e-2),
        says="Rows of mean 10,000 and deviation 1, shorter than BLOCK: subtract the mean before you square. The difference of two large numbers has no digits left.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 5 · Backward (3 points)

For a norm without a gate, chapter 09 derives the following, where $u$ is the gradient with respect to $\hat x$:

$$dx = r\,\big(u - \hat x\;\overline{u\hat x}\big),\qquad \text{the bar is the mean over the row.}$$

What is $u$ here, where the gain *and* the gate stand between $\hat x$ and $y$? And what gradient reaches $z$? You need the derivative of $z\,\sigma(z)$; write it in terms of $z$ and $\sigma(z)$, without another exponential, so that nothing overflows. Do both on paper first.

Then write `gated_backward`, with one program per row: it reads $dy$, $x$, $z$ and the stored $r$ once, and writes $dx$ and $dz$. All rows are dense here. You can test your result by a property: $dx$ is nearly orthogonal to $x$. Why only nearly?
"""


# %% tags=["solution:q5"]
@triton.jit
def gated_backward(
    dy_ptr, x_ptr, z_ptr, weight_ptr, rstd_ptr, dx_ptr, dz_ptr, N, BLOCK: tl.constexpr
):
    """One program per row: dx and dz."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    inside = columns < N
    at = row * N + columns
    dy = tl.load(dy_ptr + at, mask=inside, other=0).to(tl.float32)
    z = tl.load(z_ptr + at, mask=inside, other=0).to(tl.float32)
    gain = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    standard = tl.load(x_ptr + at, mask=inside, other=0).to(tl.float32) * rstd
    sigmoid = tl.sigmoid(z)
    u = dy * gain * z * sigmoid
    dx = rstd * (u - standard * tl.sum(u * standard, axis=0) / N)
    dz = dy * gain * standard * sigmoid * (1 + z * (1 - sigmoid))
    tl.store(dx_ptr + at, dx, mask=inside)
    tl.store(dz_ptr + at, dz, mask=inside)
    ### END SOLUTION


# %% tags=["probe:q5"]
def probe_backward(student, dy, x, z, weight, rstd, dim, block):
    """Start gated_backward on dense rows, with room behind them; the gain has room, too."""
    rows = x.numel() // dim - 1
    dx = torch.full((rows * dim + block,), 7.0, dtype=x.dtype)
    dz = torch.full((rows * dim + block,), 7.0, dtype=x.dtype)
    kernel = student.gated_backward
    start_kernel(kernel, (rows,), dy, x, z, weight, rstd, dx, dz, dim, BLOCK=block)
    return {
        "dx": dx[: rows * dim].view(rows, dim),
        "dz": dz[: rows * dim].view(rows, dim),
        "behind": torch.cat([dx[rows * dim :], dz[rows * dim :]]).float(),
    }


# %% tags=["test:q5", "points:3"]
def gradients_agree(dim, block):
    """Compare with autograd through the formula in steps; (dx agrees, dz agrees)."""
    torch.manual_seed(4)
    dy, x, z = torch.randn(3, 3, dim).unbind()
    weight = torch.rand(dim) + 0.5
    leaves = x.clone().requires_grad_(), z.clone().requires_grad_()
    theirs = torch.autograd.grad(gated_in_steps(*leaves, weight), leaves, dy)
    rstd = torch.rsqrt(x.square().mean(-1) + 1e-5)
    ours = torch.zeros(2, 3, dim)
    gated_backward[(3,)](dy, x, z, weight, rstd, *ours, dim, BLOCK=block)
    return [torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True)]


public(
    "q5",
    lambda: (gradients_agree(16, 16)[1], "dz differs from autograd's"),
    lambda: (gradients_agree(16, 16)[0], "dx differs from autograd's"),
)
### BEGIN HIDDEN TESTS


def exact_backward(dy, x, z, weight, eps):
    dtype = x.dtype
    x, z = x.double().requires_grad_(), z.double().requires_grad_()
    y, rstd = exact_forward(x, z, weight, eps)
    dx, dz = torch.autograd.grad(y, (x, z), dy.double())
    return dx.to(dtype), dz.to(dtype), rstd


def test_q5(student, draw, given):
    def ask(dy, x, z, weight, rstd, dim, block):
        return student.probe(
            "probe_backward",
            dy.flatten(),
            x.flatten(),
            z.flatten(),
            in_nan(weight, dim + block),
            rstd,
            dim,
            block,
        )

    dy, x, z = draw.normal(5, 16), 2 * draw.normal(5, 16), 3 * draw.normal(5, 16)
    weight = draw.uniform(0.5, 1.5, 16)
    dx, dz, rstd = exact_backward(dy, x, z, weight, 1e-2)
    full = ask(dy, x, z, weight, rstd, 16, 16)
    yield part(
        "dz",
        1,
        close(item(full, "dz"), dz[:4], 1e-4, 1e-5),
        says="z reaches y through the gate alone, and what it meets there is the gain and the normalized x. The derivative of z·sigmoid(z) has two terms.",
    )
    yield part(
        "dx",
        1,
        close(item(full, "dx"), dx[:4], 1e-4, 1e-5),
        says="Two things stand between the normalized x and y: both belong into u. And r depends on every value of the row, which is where the second term, with its mean, comes from.",
    )

    dim, block = draw.choice(((11, 16), (19, 32)))
    dy = (1500 * draw.uniform(1.0, 2.0, 4, dim)).half()
    x, z = (300 * draw.uniform(0.5, 1.5, 4, dim)).half(), draw.uniform(1.0, 2.0, 4, dim).half()
    weight = draw.uniform(2.0, 3.0, dim).half()
    dx, dz, rstd = exact_backward(dy, x, z, weight, 1e-5)
    half = ask(dy, x, z, weight, rstd, dim, block)
    yield part(
        "half precision, short rows",
        1,
        every(
            close(item(half, "dx"), dx[:3], 3e-3, 2e-2),
            close(item(half, "dz"), dz[:3], 3e-3, 1e-2),
            close(item(half, "behind"), torch.full((2 * block,), 7.0)),
        ),
        says="float16 rows shorter than BLOCK, with gradients whose sum exceeds 65504: cast after loading, mask every load and both stores, divide by the number of values.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 6 · Everybody's gradient (3 points)

Every row contributes to the gain's gradient: $dg = \sum_{\text{rows}} dy\odot\hat x\odot\mathrm{silu}(z)$. But a program that handles one row cannot see the results of the others. All programs could add to one $dg$ in memory with atomic operations. But then they would wait for each other, and the order of the additions, and with it the last digits of the sum, would change from run to run.

Instead, a fixed number $P$ of programs shares all rows: program $p$ takes the rows $p,\ p+P,\ p+2P,\dots$, keeps a running sum of its own, and writes it once, at the end, as row $p$ of a float32 matrix `partials` of shape $(P, N)$. A second, small step adds up the $P$ rows. `tl.num_programs(0)` is $P$, and a kernel may have an ordinary
`for row in range(…)`.

Think before you write. In which format do you accumulate? (A long batch contributes thousands of small numbers.) And `partials` comes from `torch.empty`: what does it contain before your kernel writes to it? What about a program for which no row is left?
"""


# %% tags=["solution:q6"]
@triton.jit
def gain_partials(dy_ptr, x_ptr, z_ptr, rstd_ptr, partials_ptr, M, N, BLOCK: tl.constexpr):
    """Program p adds up dy · x̂ · silu(z) over the rows p, p + P, …; dense rows."""
    ### BEGIN SOLUTION
    features = tl.arange(0, BLOCK)
    valid = features < N
    total = tl.zeros((BLOCK,), tl.float32)
    for number in range(tl.program_id(0), M, tl.num_programs(0)):
        start = number * N + features
        dy = tl.load(dy_ptr + start, mask=valid, other=0).to(tl.float32)
        x = tl.load(x_ptr + start, mask=valid, other=0).to(tl.float32)
        z = tl.load(z_ptr + start, mask=valid, other=0).to(tl.float32)
        total += dy * x * tl.load(rstd_ptr + number) * z * tl.sigmoid(z)
    tl.store(partials_ptr + tl.program_id(0) * N + features, total, mask=valid)
    ### END SOLUTION


# %% tags=["probe:q6"]
def probe_partials(student, dy, x, z, rstd, programs):
    """Start gain_partials with so many programs, on a matrix full of NaN."""
    rows, dim = x.shape
    block = 1 << (dim - 1).bit_length()
    room = torch.full((programs * dim + block,), float("nan"))
    kernel = student.gain_partials
    start_kernel(kernel, (programs,), dy, x, z, rstd, room, rows, dim, BLOCK=block)
    return room[: programs * dim].view(programs, dim)


# %% tags=["test:q6", "points:3"]
def gain_gradient_agrees(rows, dim, programs):
    """Compare the added partial sums with autograd through the formula in steps."""
    torch.manual_seed(5)
    dy, x, z = torch.randn(3, rows, dim).unbind()
    weight = torch.ones(dim, requires_grad=True)
    (theirs,) = torch.autograd.grad(gated_in_steps(x, z, weight), weight, dy)
    rstd = torch.rsqrt(x.square().mean(-1) + 1e-5)
    mine = SimpleNamespace(gain_partials=gain_partials)
    ours = probe_partials(mine, dy, x, z, rstd, programs).sum(0)
    return torch.allclose(ours, theirs, atol=1e-5)


public(
    "q6",
    lambda: (gain_gradient_agrees(4, 8, 2), "4 rows, 2 programs: the sum differs from autograd's"),
    lambda: (gain_gradient_agrees(5, 6, 2), "5 rows of 6 values, 2 programs: the sum differs"),
)
### BEGIN HIDDEN TESTS


def exact_terms(dy, x, z, rstd):
    dy, x, z = dy.double(), x.double(), z.double()
    return dy * x * rstd.double()[:, None] * z / (1 + torch.exp(-z))


def adds_up(partials, terms, rtol):
    """Whether float32 partial sums make the sum of all terms."""
    return partials.dtype == torch.float32 and torch.allclose(
        partials.double().sum(0), terms.sum(0), rtol, 1e-5
    )


def test_q6(student, draw, given):
    rows, dim, programs = draw.integers(6, 9), draw.choice((8, 11)), 3
    dy, x, z = draw.normal(rows, dim), 2 * draw.normal(rows, dim), draw.normal(rows, dim)
    rstd = draw.uniform(0.5, 1.0, rows)
    terms = exact_terms(dy, x, z, rstd)
    got = student.probe("probe_partials", dy, x, z, rstd, programs)
    summed = holds(
        got,
        lambda value: adds_up(value, terms, 1e-4),
        "Added up over the programs, the partial sums are not the gain's gradient.",
    )
    yield part(
        "the sum",
        1,
        summed,
        says="Does every row come exactly once? Each row has its own r. The gain itself is no factor of its gradient; the gate is.",
    )

    shares = torch.stack([terms[p::programs].sum(0) for p in range(programs)]).float()
    many = rows + 2
    idle = torch.cat([terms.float(), torch.zeros(2, dim)])
    yield part(
        "who adds what",
        1,
        every(
            close(got, shares, 1e-4, 1e-5),
            close(student.probe("probe_partials", dy, x, z, rstd, many), idle, 1e-4, 1e-5),
        ),
        says="Program p owns the rows p, p + P, … and row p of the partial sums. With more programs than rows some have nothing to add, and must say so: the matrix is full of NaN before.",
    )

    dy, x, z = (
        draw.uniform(0.5, 1.5, 32, 4).half(),
        draw.uniform(20.0, 60.0, 32, 4).half(),
        draw.uniform(1.0, 2.0, 32, 4).half(),
    )
    rstd = draw.uniform(0.5, 1.0, 32)
    terms = exact_terms(dy, x, z, rstd)
    yield part(
        "float32 sums",
        1,
        holds(
            student.probe("probe_partials", dy, x, z, rstd, 2),
            lambda value: adds_up(value, terms, 1e-5),
            "The sum has lost digits.",
        ),
        says="float16 rows, 16 for each program: products and sums belong into float32. In half precision a sum above 2048 cannot even count by ones.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## What you know now

- The bytes that a norm moves determine its time. A fused kernel leaves out the reads and writes of intermediate results, including those between the norm and its neighbours, such as the gate.
- Every load and every store needs a mask, and so do values that are computed *after* a load and then summed.
- Compute statistics and sums in float32, whatever the format of the input.
- If every row contributes to a gradient, let a fixed number of programs add up the contributions, in a fixed order.

And the answer to the question from the beginning: the interpreter runs the programs one after another. So if a program writes past the end of its row, the next program overwrites the damage; programs that add to the same memory cause no race; and nothing is ever too large for the registers. If you have a GPU, remove the line that sets `TRITON_INTERPRET`, restart the notebook, move the tensors to the GPU, and time `gated_norm` against `gated_in_steps`. Is the ratio the one that you counted in
question 1? If it is larger or smaller, what takes time that you did not count, and what did you count that takes none?
"""
