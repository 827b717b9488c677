# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Norms at the memory wall

**Question.** [Ivanov et al. (2021)](https://arxiv.org/abs/2007.00072) profiled an encoder layer of BERT in training on a GPU. Softmax and layer norm together did 0.17 % of its arithmetic and took 25.5 % of its time; the matrix products did 99.80 % of the arithmetic in 61.0 % of the time.
How can an operation that computes next to nothing take a quarter of the time? Then look at a table that circulates on the web. There a layer norm is "measured" at $0.52\,\mu\mathrm s$ on an H100, with a "bandwidth utilization" of 61 per cent,
and the series concludes that norms are 0.6 per cent of a decoding step. A quarter, or half a per cent? Both stories are about the same few lines of algebra. What does a norm cost, and who decides it?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- one norm in bytes, and the roofline, which says whether bytes or operations set the pace;
- the same formula in eight kernels and in one, counted;
- both backward passes derived, and why the gain's gradient is the hard part;
- this book's own kernels read line by line, then run in an interpreter that counts each byte;
- their machine code for an H100, compiled on a machine that has none: registers, spills, width of loads;
- what twice the norms' bytes buy in loss, in training;
- a calculator for whole models whose assumptions you can move, and published arithmetic redone;
- six bugs, most of them found in public kernels, of which a check catches five.
"""

# %%
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.experiments import Experiment, Lab, Run, claim, minus, proportion, published
from labkit.kernel_view import benches, kernel_source, recorded
from labkit.roofline import DEVICES, SIZES, Assumptions, step
from labkit.source import show

lab = Lab(
    "09_memory_wall",
    size=size,
    seed=seed,
    memory={"kernel": "850M", "run": "850M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    timed_rows=(1024, 4096, 16_384),
    summed_rows=(1024, 8192),
    dim=(16, 32, 512),
    depths=([1, 2], [6, 12], [6, 12, 24]),
    steps=(3, 120, 1500),
    warmup=(1, 15, 50),
    held_out=(1024, 8_192, 65_536),
    rates=([3e-3, 3e-2], None, [1e-3, 3e-3, 6e-3, 1e-2, 2e-2, 3e-2, 6e-2, 1e-1]),  # None: a pilot's
    seeds=(5, 5, 10),
    batches=([1, 16], [1, 16, 64]),
    shortest=([2, 5], [2, 5, 20]),
)

# %% [markdown]
r"""
**No GPU was at hand when this page was built**, unless the section *Measured on a GPU* below names one. What you read here about GPUs is of three kinds, and each says which: counts that follow from code (bytes, instructions, registers), numbers from data sheets and papers,
and estimates made of these with assumptions that you can change. The times that this page measures are a CPU's.

## The idea: count the bytes

One token of width 4096 in bfloat16 comes to an RMSNorm. The kernel, which is what a GPU calls a program that it starts as one piece, reads $4096\cdot2 = 8{,}192$ bytes and writes as many. In between it squares, adds, scales and multiplies by a gain: four operations a value, $16{,}384$ in all. (The gain is read, too: from memory once for a whole batch, after that from a cache on the chip.)

An H100's data sheet says $3.35\cdot10^{12}$ bytes a second from memory and $67\cdot10^{12}$ float32 operations a second ([NVIDIA, 2023](https://www.nvidia.com/en-us/data-center/h100/)). So the bytes need $16{,}384/3.35\cdot10^{12} = 4.9$ ns of the whole chip and the arithmetic $16{,}384/67\cdot10^{12} = 0.24$ ns.
Memory takes twenty times as long. (The data sheet counts a product and its sum, done in one go, as two operations. Most of a norm's come singly, so say ten.) You could do several times the arithmetic and not notice.

The ratio that decides is called **arithmetic intensity**: operations for each byte. Here it is four for the two bytes read and the two written, $4/4 = 1$. The device has a number of that kind, too: $67/3.35 = 20$ operations could be done while one byte arrives. It is called the **ridge**. Whoever has fewer operations for a byte waits for memory. [Williams et al. (2009)](https://doi.org/10.1145/1498765.1498785) drew
this as a roof:

$$\text{operations a second} \;\le\; \min(\text{peak},\ \text{intensity}\times\text{bandwidth}).$$

A matrix product of $T$ tokens with a $d\times d$ matrix does $2Td^2$ operations and moves $2d^2 + 4Td$ bytes. For one token that is about one operation a byte: *in decoding the matrices stand at the wall, too*. For $T = 4096$ and $d = 4096$ it is $2Td^2/6d^2 = 1365$.
"""


# %%
def of_matrix(tokens, dim=4096):
    """Operations for each byte of a product with a square matrix, in bfloat16."""
    return 2 * tokens * dim**2 / (2 * dim**2 + 4 * tokens * dim)


h100 = DEVICES["H100"]
plots.roof(
    h100.bandwidth,
    {"bfloat16 matrix units": h100.matrix, "float32 outside them": h100.vector},
    {"RMSNorm; matrix, 1 token": of_matrix(1), "matrix, 64 tokens": of_matrix(64),
     "matrix, 4096 tokens": of_matrix(4096)},
    caption="The roof of an H100, from its data sheet. A norm stands far left of both ridges, and no batch moves it; a matrix climbs with the number of tokens.",
)  # fmt: skip

# %% [markdown]
r"""
Two things follow, and the rest of the chapter lives on them. **A norm cannot be made faster by saving arithmetic.** RMSNorm instead of LayerNorm saves operations that were as good as free. And **a batch does not help**: tokens multiply bytes and operations alike, where a matrix is read once for all of them. (Both suppose tensors too large for the chip's second cache, 50 MB on an H100. What fits there comes faster, and that shifts the roof, not the argument.)

### One formula, eight kernels

This is RMSNorm as the `transformers` library has it for Llama: a cast up, a square, a mean, an addition, a root, two products, a cast down. Each of these is an operation of PyTorch's, and each reads its inputs from memory and writes its result back. Before you count: how many bytes a value will it be, where one kernel needs four?
"""


# %%
def llama_norm(x, weight, eps=1e-6):
    """RMSNorm, one operation after another."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


# %%
from labkit.costs import CountBytes

x = torch.randn(256, 4096).bfloat16().requires_grad_()
gain = torch.ones(4096).bfloat16().requires_grad_()
with CountBytes() as forward:
    y = llama_norm(x, gain)
top = torch.randn_like(y)
with CountBytes() as backward:
    torch.autograd.grad(y, (x, gain), top)
eager = {"forward": (forward, 4), "backward": (backward, 6)}
plots.table(
    [
        {"pass": way, "operations": count.operations, "bytes a value": count.bytes / x.numel(),
         "one kernel needs": least, "times": count.bytes / x.numel() / least}
        for way, (count, least) in eager.items()
    ]
)  # fmt: skip

# %%
claim(
    "09-eager-moves-nine-times-the-bytes",
    "Forward, the formula in {operations:.0f} operations moves {mean:.2f} times the bytes of one kernel.",
    forward.bytes / x.numel() / 4,
    operations=forward.operations,
    said="The formula in steps moves nine times the bytes of one kernel.",
    source="the formula of transformers' LlamaRMSNorm, counted operation by operation",
    criterion="in [8.9, 9.1]",
    kind="exact",
)

# %% [markdown]
r"""
Cast: 2 read, 4 written. Square: 4 and 4. Mean: 4. Product with the root: 4 and 4. Cast: 4 and 2. Gain: 2 and 2. Together $36$ bytes a value. Backward is worse. So a quarter of BERT's time need not surprise any more: what computes next to nothing still moves everything, once for each operation that runs by itself. (That quarter is not norms alone. Softmax is in it, with a value for each *pair* of tokens.) The cure is to do all of it while the row is on the chip: one kernel, one reading, one writing.

Is it true here, on a CPU? PyTorch has a fused layer norm for CPUs. The next cell times it turn about with the formula in steps. The bytes say that fusing should pay as soon as a tensor is larger than the caches. And a second prediction: for a *small* norm neither bytes nor operations count, only the cost of the call.
"""

# %%
from labkit.bench import paired


def in_steps(x, weight, bias, eps=1e-5):
    """LayerNorm, one operation after another."""
    centred = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * rstd * weight + bias


def fused(rows, dim):
    """Make a call of PyTorch's fused layer norm, and one of the formula."""
    x, w, b = torch.randn(rows, dim), torch.ones(dim), torch.zeros(dim)
    return lambda: F.layer_norm(x, (dim,), w, b), lambda: in_steps(x, w, b)


large = paired(*fused(sizes.timed_rows, 2048), turns=9)
small = paired(fused(1, 1024)[0], fused(1, 64)[0], turns=31, inner=50)

# %%
claim(
    "09-eager-is-slower-on-a-cpu-too",
    "In {mean:.0%} of the paired turns the formula in steps takes more than 1.5 times as long as the fused layer norm.",
    proportion([steps > 1.5 * one for one, steps in large]),
    said="On a CPU, too, the formula in steps is slower than the fused norm.",
    source="the memory wall, on a CPU",
    criterion="> 0.5",
    kind="at",
    tolerance=0.45,
)
claim(
    "09-a-small-norm-costs-its-call",
    "A row of 1,024 values has 16 times the bytes of one of 64; in {mean:.0%} of the turns it takes less than 4 times as long.",
    proportion([long < 4 * short for long, short in small]),
    said="A small norm costs its call: sixteen times the bytes take far less than sixteen times as long.",
    source="the cost of starting a kernel, on a CPU",
    criterion="> 0.5",
    kind="at",
    tolerance=0.45,
)

# %% [markdown]
r"""
(By how much differs from machine to machine and with its load, so the cards count turns. Part of it is the fresh memory that each intermediate result asks the system for.) So there are two walls. A large norm waits for memory. A small one waits for its own start. On a GPU the second is higher, a few microseconds where the work itself takes nanoseconds, and it will matter in decoding.

## Derivation

To write one kernel instead of eight, forward *and* backward must be known in closed form. Let a row be $x\in\mathbb R^N$, with gain $g$ and shift $b$.

### RMSNorm

$$\hat x = r\,x,\qquad r = \Big(\tfrac1N\textstyle\sum_i x_i^2 + \varepsilon\Big)^{-1/2},\qquad y = g\odot\hat x.$$

Given $dy$, the gradient of the loss by $y$, write $u = g\odot dy$: the gradient by $\hat x$. The factor $r$ depends on every entry of $x$:

$$\frac{\partial r}{\partial x_j} = -\tfrac12\, r^3\cdot\tfrac2N x_j = -\frac{r^3 x_j}{N}.$$

So $x_j$ acts on two ways, by itself and through $r$:

$$dx_j = r\,u_j + \Big(\sum_i u_i x_i\Big)\frac{\partial r}{\partial x_j} = r\,u_j - r\cdot(r x_j)\cdot\frac1N\sum_i u_i\,(r x_i)
\quad\Longrightarrow\quad \boxed{dx = r\,\big(u - \hat x\;\overline{u\hat x}\big)}$$

with the bar for the mean over the row. The gain sees every row: $\boxed{dg = \sum_{\text{rows}} dy\odot\hat x}$.

### LayerNorm

Centre first: $c = Px$ with $P = I - \tfrac1N\mathbf 1\mathbf 1^\top$, then $\hat x = r\,c$ with $r = (\overline{c^2} + \varepsilon)^{-1/2}$. The step from $c$ to $\hat x$ is the one above, so $dc = r\,(u - \hat x\,\overline{u\hat x})$. And $P$ is symmetric, so $dx = P\,dc$: subtract the mean. As $\overline{\hat x} = 0$, only $u$ has one:

$$\boxed{dx = r\,\big(u - \bar u - \hat x\;\overline{u\hat x}\big)},\qquad dg = \sum_{\text{rows}} dy\odot\hat x,\qquad db = \sum_{\text{rows}} dy.$$

Look at what is *in* these lines. Backward needs $x$, $dy$, $g$ and one number a row, $r$ (for LayerNorm the mean, too). It does not need $y$ or $\hat x$ from memory. So it can read two tensors and write one: three values moved where forward moves two.
"""


# %%
def norm_and_gradients(x, g, b, dy, centred, eps=1e-5):
    """Give y, dx, dg, db by the boxed formulas; rows first."""
    c = x - x.mean(-1, keepdim=True) if centred else x
    r = (c.square().mean(-1, keepdim=True) + eps).rsqrt()
    standard, u = c * r, g * dy
    dx = u - standard * (u * standard).mean(-1, keepdim=True)
    if centred:
        dx = dx - u.mean(-1, keepdim=True)
    return g * standard + b, r * dx, (dy * standard).sum(0), dy.sum(0)


# %%
from labkit.norms import layer_norm, rms_norm

torch.manual_seed(seed)
x, dy = torch.randn(2, 33, 57).double() * 3 + 1
g, b = torch.randn(2, 57).double()


def off_by(norm, centred):
    """Largest difference of y, dx, dg (and db) from labkit's formula and autograd."""
    leaves = [t.clone().requires_grad_() for t in ((x, g, b) if centred else (x, g))]
    y = norm(*leaves, eps=1e-5)
    wanted = (y, *torch.autograd.grad(y, leaves, dy))
    came = norm_and_gradients(x, g, b if centred else 0 * b, dy, centred)
    return max((a - w).abs().max().item() for a, w in zip(came, wanted, strict=False))


# %%
claim(
    "09-backward-of-rms",
    "The derived formulas of RMSNorm differ from labkit's and autograd's by {mean:.0e} at most.",
    off_by(rms_norm, centred=False),
    said="The derived backward pass of RMSNorm is autograd's.",
    source="the derivation above, against autograd in float64",
    criterion="< 1e-11",
    kind="exact",
    tolerance=1e-11,
)
claim(
    "09-backward-of-layer",
    "The derived formulas of LayerNorm differ from labkit's and autograd's by {mean:.0e} at most.",
    off_by(layer_norm, centred=True),
    said="The derived backward pass of LayerNorm is autograd's.",
    source="the derivation above, against autograd in float64",
    criterion="< 1e-11",
    kind="exact",
    tolerance=1e-11,
)

# %% [markdown]
r"""
A property to use as a test below: a norm that ignores the length of $x$ has a gradient orthogonal to $x$ (with $\varepsilon = 0$), and one that ignores a constant has a gradient whose entries sum to zero. Both can be read off the boxes.
"""

# %%
_, dx, *_ = norm_and_gradients(x, g, b, dy, centred=True, eps=0.0)
claim(
    "09-gradient-leaves-out-what-the-norm-ignores",
    "For LayerNorm, x·dx and the sum of dx are {mean:.0e} at most.",
    max((x * dx).sum(-1).abs().max().item(), dx.sum(-1).abs().max().item()),
    said="The gradient has no part along what the norm ignores.",
    source="scale and shift invariance",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
### Why the gain's gradient is the hard part

$dx$ belongs to a row, and rows go to different programs, which do not know of each other. $dg$ is a sum over *all* rows. Three ways:

| way | bytes a value (s each) | price |
| --- | --- | --- |
| a second kernel that reads $x$ and $dy$ again, by columns | $5s$ | two thirds more traffic |
| each program adds to one $dg$ in memory, atomically | $3s$ | programs wait for each other; the order of the sum differs from run to run |
| a fixed number $P$ of programs (no relation of the projection) walks over all rows, each keeps its own $dg$ in registers; $P$ rows are added at the end | $3s$, and $8PN$ bytes once | registers |

The third is what this book's kernels do, and the best public ones. Its extra traffic for $M = 8192$ rows of $N = 4096$ bfloat16 values and $P = 264$ programs (two for each of an H100's 132 multiprocessors): $8\cdot264\cdot4096$ bytes against $6\cdot8192\cdot4096$, that is $8\cdot264/(6\cdot8192) = 4.3\,\%$. Its registers are a problem, as you will see.

Why not add in bfloat16 and save half of it? And does the order matter? A public kernel once added up the rows of each block in bfloat16 (linkedin/Liger-Kernel#950). Take that to its end: a gradient of 64 gains, added row by row over 8,192 rows, in bfloat16 and in float32; and then 264 partial rows, in 20 orders.
"""


# %%
def summed(terms, dtype):
    """Add rows one after another in a dtype, as a running sum does."""
    total = torch.zeros(terms.shape[1], dtype=dtype)
    for row in terms.to(dtype):
        total += row
    return total.double()


def lost(seed, rows):
    """Relative error of a gain's gradient that is added up in bfloat16, and in float32."""
    draw = torch.Generator().manual_seed(seed)
    terms = torch.randn(rows, 64, generator=draw)
    exact = terms.double().sum(0)
    return [
        ((summed(terms, t) - exact).norm() / exact.norm()).item()
        for t in (torch.bfloat16, torch.float32)
    ]


# %%
errors = [lost(s, sizes.summed_rows) for s in range(seed, seed + 5)]
claim(
    "09-gain-gradients-are-lost-in-bfloat16",
    "Added up in bfloat16, the gain's gradient is off by {mean:.0%} of its norm; in float32 by {single:.0e}.",
    [half for half, _ in errors],
    single=float(np.mean([single for _, single in errors])),
    said="A gain's gradient added up in bfloat16 is lost.",
    source="a bug of a public kernel taken to its end: its sum within blocks of rows ran in bfloat16 (linkedin/Liger-Kernel#950)",
    criterion="> 0.05",
    kind="at",
)
terms = torch.randn(264, 64, generator=torch.Generator().manual_seed(seed))
orders = [torch.randperm(264, generator=torch.Generator().manual_seed(s)) for s in range(20)]
claim(
    "09-the-order-of-a-sum-shows",
    "264 partial sums added in 20 orders give {mean:.0f} different results.",
    len({summed(terms[order], torch.float32).numpy().tobytes() for order in orders}),
    said="The order of a sum shows in its last digits.",
    source="floating-point addition is not associative",
    criterion="> 1",
    kind="exact",
)

# %% [markdown]
r"""
## Implementation: a kernel, line by line

The kernels are written in Triton ([Tillet et al., 2019](https://doi.org/10.1145/3315508.3329973)). A GPU is a number of *multiprocessors*, each with registers and a small fast *shared memory* of its own. Threads run on them in *warps* of 32, which pass values to one another by *shuffles*. A Triton *program* handles one tile of rows with a few warps. You describe what happens to the tile; the compiler decides which thread holds which value. This is RMSNorm's forward kernel, shown as text: nothing here needs Triton.
"""

# %%
kernel_source("rms_norm", "_forward")

# %% [markdown]
r"""
Read it against the formula.

| line | formula | why so |
| --- | --- | --- |
| `rows = tl.program_id(0).to(tl.int64) * ROWS + …` | which rows | 64 bits: an offset `rows * x_stride` may exceed $2^{31}$ |
| `x = tl.load(…, mask=here, other=0).to(tl.float32)` | $x$ | the only reading of the row; columns beyond $N$ count as 0 in $\sum x^2$; arithmetic in float32 is free (see the roof) |
| `squares = tl.sum(x * x, axis=1, …)` | $\sum_i x_i^2$ | inside a warp by shuffles, between warps through shared memory: on the chip |
| `rstd = tl.rsqrt(squares / N + eps)` | $r$ | divided by $N$, not by the padded length; $\varepsilon$ inside the root |
| `tl.store(rstd_ptr + rows, rstd, …)` | keeps $r$ | four bytes a row, for backward |
| `y = _gained(x * rstd, …)` | $g\odot\hat x$ | **the second pass over the row, and no second reading**: `x` is still in registers |
| `for start in range(BLOCK, N, BLOCK)` | the same | rows above 32,768 values do not fit; what is beyond the first chunk is read twice |

LayerNorm's kernel differs in what it does with the tile between loading and storing:
"""

# %%
kernel_source("layer_norm", "_forward", "finish")

# %% [markdown]
r"""
Here is the "naive two-pass" variance that a fused kernel is said to avoid: first the mean, then the squares of what is left. Both passes run over registers. A one-pass variance would save nothing that costs, and would lose its digits where the mean is large (chapter 03). The kernel even makes a correction more, `missed`, because a float32 mean is itself rounded. Exercise 6 proves it right.

Backward is one kernel for both norms. The boxes stand in the middle; around them is the walk of $P$ programs over all rows.
"""

# %%
kernel_source("norm_backward", "_backward")

# %% [markdown]
r"""
| line | formula | why so |
| --- | --- | --- |
| `for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES)` | rows $p, p + P, \dots$ | the next rows are on their way into shared memory while these are worked on |
| `standard = _standard(z, rstd, …)` | $\hat x$ | made again from $x$ and $r$: cheaper than reading it |
| `u = dy * gain` | $u = g\odot dy$ | the gain is loaded once a program, before the loop |
| `dweight += dy * rounded` | $dg$ of this program | in float32 registers, to the last row |
| `ux_mean = tl.sum(u * standard, …) / N` | $\overline{u\hat x}$ | one reduction a row; LayerNorm has a second, $\bar u$ |
| `dz = u - standard * ux_mean`, `dz *= rstd` | the box | |
| `dz += tl.load(dh_ptr …)` | gradient that came by the skip | **after** the projection; put before it, it would be normalized, too |
| `tl.store(partials_ptr, tl.sum(dweight, axis=0) …)` | row $p$ of $P$ | nobody else writes there: no atomics, the same bits in each run |

### The kernels run without a GPU

Triton can interpret a kernel with NumPy, very slowly. Each load and each store then passes through Python, where a small program (`normkernels.traffic`) counts the bytes that the mask lets through. Interpreted and compiled Triton cannot share a process, and some machines have none, so the counts are recorded in `data/kernels.json`, and a test interprets the kernels again and compares.

Predict from the formulas, $s$ for the bytes of a value: norm forward $2s$, backward $3s$; the sum before a norm fused with it, $4s$ (read both, write stream and result), where two kernels need $3s + 2s$. LayerNorm: as RMSNorm. Only activations count here. A program that takes one row also reads the whole gain, as many values as the row has; but all programs read the same few kilobytes, and those stay in the cache. (Errors are given for float32: the interpreter truncates to bfloat16 where a GPU rounds.)
"""

# %%
facts = recorded()
size = {"fp32": 4, "bf16": 2}
moved = {
    (one["case"], one["n"], one["dtype"], way): one[way]["activations"]
    / (one["m"] * one["n"] * size[one["dtype"]])
    for one in facts["interpreted"]
    for way in ("forward", "backward")
}
plots.table(
    [
        {"kernel": one["case"], "values a row": one["n"], "dtype": one["dtype"],
         **{f"{way}, times s": moved[one["case"], one["n"], one["dtype"], way] for way in ("forward", "backward")},
         "largest error (float32)": max(one["errors"].values()) if one["dtype"] == "fp32" else "–"}
        for one in facts["interpreted"]
    ]
)  # fmt: skip

# %%
claim(
    "09-kernels-equal-their-formulas",
    "Interpreted in float32, outputs and gradients of the kernels differ from float64 by {mean:.0e} of a tensor's size at most.",
    max(max(one["errors"].values()) for one in facts["interpreted"] if one["dtype"] == "fp32"),
    said="The kernels compute their formulas.",
    source="the formulas in float64 (normkernels.bench.operations)",
    criterion="< 1e-5",
    kind="exact",
    tolerance=1e-5,
)
short = [
    (norm, 4096, "bf16", way)
    for norm in ("rms_norm", "layer_norm")
    for way in ("forward", "backward")
]
claim(
    "09-a-norm-moves-two-and-three-values",
    "Counted byte by byte, forward moves 2 and backward 3 activations for each value; the largest deviation is {mean:.0f}.",
    max(abs(moved[key] - (2 if key[-1] == "forward" else 3)) for key in short),
    said="A fused norm moves two activations a value forward and three backward.",
    source="the kernels' formulas of traffic",
    criterion="< 1e-9",
    kind="exact",
    tolerance=1e-9,
)

# %%
claim(
    "09-two-passes-cost-no-traffic",
    "LayerNorm's kernel, with mean and variance in two passes, moves {mean:.3f} times the activations of RMSNorm's.",
    max(moved["layer_norm", n, "fp32", w] / moved["rms_norm", n, "fp32", w] for n in (4096, 16384, 65536) for w in ("forward", "backward")),
    said="LayerNorm's two passes cost no traffic.",
    source="against 'the two-pass algorithm means the data must be loaded from memory twice' (a blog series)",
    published="one pass 'halves the memory bandwidth requirement'",
    criterion="in [1, 1]",
    kind="exact",
)  # fmt: skip

# %% [markdown]
r"""
That reading is right about *unfused* code, where LayerNorm goes over its input three times (mean, variance, result), softmax three times, too (maximum, sum, result; two without the maximum that keeps it from overflowing), and BatchNorm at inference once. It is wrong about kernels that keep the row. (A BatchNorm with fixed statistics can do better than any of them: it folds into the matrix before it and moves nothing at all. Chapters 01 and 07 do it.)

Two more rows of the table deserve a claim: what the fused sum saves, and what a row too long for registers costs.
"""

# %%
claim(
    "09-the-fused-sum-saves-traffic",
    "Sum and norm in one kernel move {mean:.0%} of what two kernels move, forward and backward together.",
    sum(moved["add_rms_norm", 4096, "fp32", w] for w in ("forward", "backward")) / (3 + 2 + 3 + 3),
    said="Sum and norm in one kernel save a quarter of the traffic.",
    source="3s for the sum, 2s and 3s for the norm, 3s where gradients meet",
    criterion="< 0.75",
    kind="exact",
)
claim(
    "09-long-rows-pay",
    "Backward, a row of 65,536 values moves {mean:.0f} activations a value instead of 3.",
    moved["rms_norm", 65536, "fp32", "backward"],
    said="Rows too long for the registers are read more often.",
    source="rows above 8,192 values do not fit into a program's registers",
    criterion="> 3",
    kind="exact",
)

# %% [markdown]
r"""
## What the compiler makes of it

A kernel can also be *compiled* for a GPU that is not there. The machine code says three things that decide speed at the wall.

- **Width of loads.** A thread should fetch 16 bytes at a time (`LDG.128`), the most that one instruction can. With narrower loads it takes more instructions to keep as many bytes on their way.
- **Registers.** A multiprocessor has 65,536. A thread may use 255. What does not fit *spills* into local memory, which is a thread's own piece of the device's memory, behind the caches.
- **Instructions.** Too many of them, and the arithmetic is not free any more.

Predict the forward kernel's code for $N = 4096$ bfloat16 values and 8 warps, that is 256 threads. Each thread has $4096/256 = 16$ values. So it loads $x$ in $16\cdot2/16 = 2$ instructions of 16 bytes, the gain in 2 more, and stores $y$ in 2. The sum runs over 32 threads of a warp in $\log_2 32 = 5$ shuffles, and over 8 warps in $\log_2 8 = 3$ more. One reciprocal root. And 16 results are rounded to bfloat16 two at a time: 8 instructions.
"""

# %%
listed = next(
    one for one in facts["compiled"] if "opcodes" in one and one["kernel"] == "rms_norm._forward"
)
predicted = {
    "LDG.E.128": 4,
    "STG.E.128": 2,
    "SHFL.BFLY": 8,
    "MUFU.RSQ": 1,
    "F2FP.BF16.F32.PACK_AB": 8,
}
means = (
    "load 16 bytes",
    "store 16 bytes",
    "exchange between threads",
    "1/√",
    "round two values to bfloat16",
)
plots.table(
    [
        {"instruction": name, "what it does": what, "predicted": count, "in the code": listed["opcodes"].get(name, 0)}
        for (name, count), what in zip(predicted.items(), means, strict=True)
    ]
)  # fmt: skip

# %%
claim(
    "09-the-code-is-as-predicted",
    "Of five predicted counts of instructions for an H100, {mean:.0f} are in the compiled code.",
    sum(listed["opcodes"].get(name, 0) == count for name, count in predicted.items()),
    said="The compiled code has the instructions that we predicted.",
    source="16 values a thread, compiled for sm_90 (data/kernels.json)",
    criterion="in [5, 5]",
    kind="exact",
)
chosen = [one for one in facts["compiled"] if not one["forced"]]
claim(
    "09-every-row-is-loaded-wide",
    "Of the forward kernels' loads, {mean:.0%} are 16 bytes wide, up to rows of 65,536 values.",
    min(one["wide loads"] / one["loads"] for one in chosen if one["case"] in ("rms_norm", "layer_norm") and one["kernel"].endswith("._forward")),
    said="The kernels load every row 16 bytes at a time.",
    source="machine code for sm_90 (data/kernels.json)",
    criterion="in [1, 1]",
    kind="exact",
)  # fmt: skip

# %% [markdown]
r"""
Registers next. Forward, a thread of the tile above holds 16 values. Backward it holds $16$ each of $dg$, $g$, $x$, $dy$, and LayerNorm has a $db$, too. That is why backward is hard. Let $P$ be two programs a multiprocessor: they may use $65536/(2\cdot256) = 128$ registers a thread, and the compiler is told so.
"""


# %%
def registers(kernel):
    """Registers of a thread by length of row, of RMSNorm and LayerNorm."""
    return {
        name: {one["n"]: [one["registers"]] for one in chosen
               if (one["case"], one["dtype"]) == (norm, "bf16") and one["kernel"].endswith(kernel)}
        for name, norm in (("rms", "rms_norm"), ("layer", "layer_norm"))
    }  # fmt: skip


lines = {f"{name}, {way}": points for way, kernel in (("forward", "._forward"), ("backward", "._backward"))
         for name, points in registers(kernel).items()}  # fmt: skip
plots.curves(
    lines, xlabel="values of a row", ylabel="registers of a thread", logx=True,
    reference={"most that there are": 255, "its share": 128}, ylim=(0, 270), counted=True,
    caption="Registers of the compiled kernels (sm_90, bfloat16). Forward has room; backward uses its whole share at nearly every length. Beyond 8,192 values it works in chunks.",
)  # fmt: skip

# %% [markdown]
r"""
What happens when a thread gets more values than it can hold? Force the forward kernel for $N = 8192$ to run with fewer warps than it chooses. With one warp a thread has 256 values, and there are 255 registers.
"""

# %%
forced = {one["warps"]: one for one in facts["compiled"] if one["forced"]}
plots.curves(
    {"registers": {w: [one["registers"]] for w, one in forced.items()},
     "bytes spilled a thread": {w: [one["stack"]] for w, one in forced.items()}},
    xlabel="warps for a row of 8,192 values", ylabel="registers, and bytes of local memory, of a thread", logx=True, counted=True,
    caption="Fewer warps, more values a thread. At one warp the registers end, and the rest goes to memory.",
)  # fmt: skip

# %%
claim(
    "09-a-row-too-long-for-its-warps-spills",
    "With one warp for 8,192 values a thread spills {mean:.0f} bytes.",
    forced[1]["stack"],
    said="A row too long for its warps spills registers.",
    source="machine code for sm_90 (data/kernels.json)",
    criterion="> 0",
    kind="exact",
)
claim(
    "09-nothing-spills-as-configured",
    "As configured, the kernels spill {mean:.0f} bytes, forward and backward, up to rows of 65,536 values.",
    max(one["stack"] for one in chosen),
    said="As configured, no kernel spills a register.",
    source="machine code for sm_90 (data/kernels.json)",
    criterion="in [0, 0]",
    kind="exact",
)

# %% [markdown]
r"""
### Measured on a GPU

Counts are not times. Whether the memory system is kept busy, only a clock says. The benchmark is ready (`make bench-kernels`; its protocol is in `data/bench`): CUDA graphs, data larger than the caches, peers in random order, each checked for right results before it is timed, and every time set against copying as many bytes.
"""

# %%
from labkit.plots.kernels import kernel_shares

found = benches()
if not found:
    print("Not measured: no GPU was at hand, and data/bench holds no device.")
    print("Nothing on this page is a time of these kernels.")
kernel_shares(next(iter(found.values()))) if found else None

# %% [markdown]
r"""
What others print for an H100 can be checked with the same arithmetic: QuACK's README ([Dao-AILab, 2025](https://github.com/Dao-AILab/quack)), pull requests of Liger-Kernel (the project of [Hsu et al. (2024)](https://arxiv.org/abs/2410.10989); the figures are not the paper's). Bytes by our count, time as printed: does the printed share of $3.35$ TB/s come out?
"""

# %%
rows = []
for one in published("norm-kernels"):
    values = one["rows"] * one["values"] if one["rows"] else None
    rate = (
        one["gigabytes_a_second"]
        or one["moved"] * one["value_bytes"] * values / one["microseconds"] / 1e3
    )
    rows.append({"kernel": one["kernel"], "pass": one["way"], "values a row": int(one["values"]),
                 "GB/s": round(rate), "% of 3,350, ours": 100 * rate / 3350, "as printed": one["share"] or "–"})  # fmt: skip
plots.table(rows)

# %%
off = [abs(row["% of 3,350, ours"] - row["as printed"]) for row in rows if row["as printed"] != "–"]
claim(
    "09-published-shares-follow-from-bytes",
    "For {many} published kernels, bytes by our count over the printed time give the printed share within {mean:.1f} points.",
    max(off),
    many=len(off),
    said="The published shares of bandwidth follow from our count of bytes.",
    source="Liger-Kernel's and PyTorch's figures for an H100",
    published="19 % to 85 % of 3.35 TB/s",
    criterion="< 1",
    kind="exact",
)

# %% [markdown]
r"""
Good kernels reach nearly 80 to 90 per cent forward. Backward the spread is wide, from a fifth to 80 per cent. PyTorch's fifth has a separate kernel for $dg$, which reads everything again; but that explains a factor of $5/3$ and not of four. For the rest look at rows of 16,384 values and at the registers of the section above: a likely cause, which no table of times can prove.

## Predict, then measure: what do the bytes buy?

A recipe chooses how many norms there are. Sandwich has a second norm behind each sublayer and so nearly twice Pre-Norm's norm bytes. No norm at all has none. If a norm costs bytes, it should buy something: a lower loss, say. The **prediction** of most of this book's sources would be: none < Pre ≤ Sandwich in quality. (CogView, which brought Sandwich, wanted numbers that do not overflow ([Ding et al., 2021](https://arxiv.org/abs/2105.13290)); a better model is what [Kim et al. (2025)](https://arxiv.org/abs/2502.02732) report for norms on both sides, with one more on the embedding.) The criterion is the plain one: with each arm at its own best of three rates, the paired difference in test loss is above zero. (A pilot chose sizes and rates, so the criterion has seen one.) We look at two depths, because chapter 00 says that norms are for depth.
"""

# %%
from labkit.costs import cost_of

base = Run(
    model=ModelConfig(norm="rms", init="half-xavier", dim=sizes.dim, context=32),
    data=Text(batch=16, time=32, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, schedule="linear", warmup=sizes.warmup),
    probes=("validation", "test"),
)  # fmt: skip
arms = {name: {"model.recipe": name} for name in ("none", "pre", "sandwich")}
depths = sizes.depths
middle, fast = [3e-3, 1e-2, 3e-2], [1e-2, 3e-2, 1e-1]
around = {  # the best that a pilot found, for few blocks and for many
    "none": (middle, middle),
    "pre": (fast, middle),
    "sandwich": (fast, fast),
}
rates = {
    arm: {depth: sizes.rates or pilot[place > 0] for place, depth in enumerate(depths)}
    for arm, pilot in around.items()
}
five = lab.seeds(sizes.seeds)


# %%
def best_rate(arm, depth):
    grid = {"model.depth": [depth], "train.lr": rates[arm][depth], "seed": five[:2]}
    return lab.run(Experiment(base, {"arm": {arm: arms[arm]}, **grid})).best("lr")


chosen_rates = {depth: {arm: best_rate(arm, depth) for arm in arms} for depth in depths}
print("chosen rates, by blocks:", chosen_rates)

# %%
tuned = {
    depth: {arm: {**arms[arm], "train.lr": rate} for arm, rate in chosen.items()}
    for depth, chosen in chosen_rates.items()
}
tests = {
    depth: lab.run(Experiment(base, {"arm": tuned[depth], "model.depth": [depth], "seed": five}))
    for depth in depths
}
final = {
    depth: {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
    for depth, results in tests.items()
}

# %% tags=["remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
lab.train_live(Experiment(base, {"arm": tuned[depths[0]], "model.depth": depths[:1], "seed": five}))

# %%
bytes_of = {
    arm: cost_of(replace(base.model, recipe=arm).build(), torch.zeros(1, 32, dtype=torch.long)).norm_bytes
    for arm in arms
}  # fmt: skip

# %%
plots.dots(
    {
        f"{arm}, {depth} blocks": losses
        for depth, part in final.items()
        for arm, losses in part.items()
    },
    xlabel="test loss (nats)",
    caption="Each arm at its own best rate. From top to bottom within a depth the norms' bytes grow.",
    provenance=lab.provenance(*tests.values()),
)

# %%
claim(
    "09-sandwich-moves-twice-the-bytes",
    "Sandwich's norms move {mean:.2f} times the bytes of Pre-Norm's.",
    bytes_of["sandwich"] / bytes_of["pre"],
    said="Sandwich's norms move about twice the bytes of Pre-Norm's.",
    source="norms counted in the model, default depth",
    criterion="in [1.7, 2]",
    kind="exact",
)
low, high = depths[0], depths[-1]
claim(
    "09-pre-earns-its-bytes-shallow",
    f"At {low} blocks, each at its own rate, the loss without norms minus Pre-Norm's is {{mean:+.3f}} nats.",
    minus(final[low]["none"], final[low]["pre"]),
    said="At six blocks, each at its own rate, Pre-Norm ends below no norm.",
    source="the common reason to normalize: a lower loss",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "09-pre-earns-its-bytes-deep",
    f"At {high} blocks, each at its own rate, the loss without norms minus Pre-Norm's is {{mean:+.3f}} nats.",
    minus(final[high]["none"], final[high]["pre"]),
    said="At twelve blocks, each at its own rate, Pre-Norm ends below no norm.",
    source="the common reason to normalize: a lower loss",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "09-sandwich-earns-its-bytes-shallow",
    f"At {low} blocks, each at its own rate, Pre-Norm's loss minus Sandwich's is {{mean:+.3f}} nats.",
    minus(final[low]["pre"], final[low]["sandwich"]),
    said="At six blocks, each at its own rate, Sandwich ends below Pre-Norm.",
    source="Kim et al. 2025 (Peri-LN), arXiv 2502.02732: norms on both sides of a sublayer",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "09-sandwich-earns-its-bytes-deep",
    f"At {high} blocks, each at its own rate, Pre-Norm's loss minus Sandwich's is {{mean:+.3f}} nats.",
    minus(final[high]["pre"], final[high]["sandwich"]),
    said="At twelve blocks, each at its own rate, Sandwich ends below Pre-Norm.",
    source="Kim et al. 2025 (Peri-LN), arXiv 2502.02732: norms on both sides of a sublayer",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
Did you expect norms to win at once? At a hundred-odd steps, with small branches (half of Xavier's gain) and few blocks, a stack without norms is a strong opponent. Nothing has had the time to blow up, and nothing bounds the stream. So these cards are about this size and this initialization, and a lead of either side would not surprise. Rates are a factor of three apart, chosen with two seeds: a lead of a few hundredths, or one that changes its sign with depth, may be the grid's and not the norms'. Then what do norms buy? Look at the highest rate that was tried without them. What happens there to the deeper models, with and without norms?
"""

# %%
top_rate = max(rates["none"][low])  # the highest that was tried without norms
top = {arm: {**arms[arm], "train.lr": top_rate} for arm in ("none", "pre")}
ended = lab.run(Experiment(base, {"arm": top, "model.depth": [high], "seed": five})).by("arm")
gone = {
    arm: [float(lost is not None) for lost in part.values(lambda record: record.diverged_at)]
    for arm, part in ended.items()
}
claim(
    "09-norms-buy-a-higher-rate",
    f"At {high} blocks and rate {top_rate:g}, {{k}} of {{n}} runs diverge without norms, {{other_k}} of {{other_n}} with Pre-Norm.",
    proportion(gone["none"]) - proportion(gone["pre"]),
    said="At a high rate the network without norms diverges and Pre-Norm does not.",
    source="the other reason to normalize: stable at higher rates (chapters 00 and 02)",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
If that card holds, a norm's bytes buy *room*: here, a rate at which training goes on; chapters 00 and 02 have depths and initializations. That is worth a few per cent of a step. Is it a few per cent?

## A whole model

Now the quarter and the half per cent. `labkit.roofline` makes an estimate of one step of a Llama-like model: a list of its kernels, and for each the larger of three times: bytes over bandwidth, operations over peak, and the shortest time that any kernel takes.
"""

# %%
from labkit.roofline import kernel_time, norm_share

show(kernel_time, Assumptions)

# %% [markdown]
r"""
The assumptions are few, and all can be moved. Norms run `"fused"` (one kernel, sum included), `"alone"` (one kernel, the sum another) or `"eager"` (the formula in operations, with the bytes counted above). The shortest kernel takes $2\,\mu\mathrm s$ in a CUDA graph, a list of kernels recorded once and started as a whole; started one by one from Python, $5\,\mu\mathrm s$. Nine tenths of the bandwidth, six tenths of the matrix units. GPUs that share a model share its matrices, and each computes every norm. Left out are communication between them, rotations of queries and keys, and choosing the next token; softmax is part of attention.

**Predict** the decoding of one sequence by an 8B model in bfloat16 on an H100. It must read 15 GB of weights: $15/3.35 \approx 4.5$ ms at least. It has 65 norms. Fused, each costs the shortest time, $65\cdot2 = 130\,\mu\mathrm s$: three per cent. In nine operations (eight, and the sum) of $5\,\mu\mathrm s$: $65\cdot9\cdot5 = 2.9$ ms, more than a third of all. And how many sequences at once? Each keeps $32\cdot4096\cdot2\cdot1024\cdot2$ bytes of keys and values, half a gigabyte, so beside the weights 64 of them fit into 80 GB and 128 do not.
"""

# %%
ways = {"eager": Assumptions("eager", shortest=5e-6), "fused": Assumptions("fused")}
gpus = {"8B": 1, "70B": 4, "405B": 16}  # so that the weights fit into 80 GB each


def impact(batch, way="decode", context=4096, device="H100"):
    """Shares of a step of three models, with eager and with fused norms."""
    wholes = {
        f"{size} on {many}, {name}": step(
            SIZES[size], DEVICES[device], way=way, batch=batch, context=context,
            given=replace(given, split=many),
        )
        for size, many in gpus.items() for name, given in ways.items()
    }  # fmt: skip
    return plots.share_bars(
        wholes,
        notes={name: f"{1e3 * sum(parts.values()):.3g} ms" for name, parts in wholes.items()},
        caption=f"Estimated shares of one step on 1, 4 and 16 GPUs ({device}, {way}, {context:,} tokens of context, {batch} at once). Not measured.",
    )


plots.explore(
    impact,
    sizes.batches,
    "impact",
    label="sequences decoded at once",
)

# %%
one_by_one = {
    name: norm_share(SIZES["8B"], h100, way="decode", batch=1, context=4096, given=given)
    for name, given in ways.items()
}
claim(
    "09-eager-norms-take-a-quarter-of-decoding",
    "Under these assumptions eager norms and sums take {mean:.0%} of a decoding step of an 8B model.",
    one_by_one["eager"],
    said="Eager norms take more than a quarter of a decoding step.",
    source="the estimate above: 65 norms of nine operations, 5 µs each",
    criterion="> 0.25",
    kind="exact",
)
claim(
    "09-fused-norms-take-a-few-per-cent",
    "Fused and in a CUDA graph they take {mean:.1%}.",
    one_by_one["fused"],
    said="Fused and in a CUDA graph, norms take a few per cent of a decoding step.",
    source="the estimate above: 65 norms of one kernel, 2 µs each",
    published="'0.2-0.3 % of the total decode latency' saved, norms 0.6 % of it (a blog series, for a 70B model)",
    criterion="< 0.05",
    kind="exact",
)

# %% [markdown]
r"""
A quarter and a few per cent can both be right, then, of different programs. (Half a per cent, with one sequence, needs norms that take less time than a kernel's start: see below.) These two programs differ in two things, the number of kernels and the start of each. Which of them matters? And training, where BERT's quarter was found? The table takes each norm with the shortest kernel of $2\,\mu\mathrm s$.
"""

# %%
ways_of_use = {"decode": 1, "decode, 64 at once": 64, "prefill": 1, "train": 1}
plots.table(
    [
        {"an 8B model on one GPU": use,
         **{f"{name}, % in norms": 100 * norm_share(SIZES["8B"], h100, way=use.split(",")[0], batch=batch, context=4096,
                                                    given=Assumptions(name))
            for name in ("eager", "alone", "fused")}}
        for use, batch in ways_of_use.items()
    ]
)  # fmt: skip

# %% [markdown]
r"""
Compare the first row with the two cards above it: how much of the difference is the start of kernels, how much their number? *What* is slow differs, too: decoding one sequence, the start of kernels; prompts and training, their bytes. There a CUDA graph saves nothing, and fusing does. Move the slider above: with many sequences, reading keys and values takes time from all other parts, most in the small model. The next figure moves what the estimate takes for granted.
"""


# %%
def by_assumption(shortest):
    """Share of norms in decoding a 70B model on four GPUs, by batch, as kernels get shorter."""
    lines = {
        name: {
            batch: [100 * norm_share(SIZES["70B"], h100, way="decode", batch=batch, context=4096,
                                     given=Assumptions(name, shortest * 1e-6, split=4))]
            for batch in (1, 4, 16, 64)
        }
        for name in ("eager", "alone", "fused")
    }  # fmt: skip
    return plots.curves(
        lines, xlabel="sequences decoded at once", ylabel="% of the step in norms and sums", logx=True, ylim=(0, 70), counted=True,
        title=f"shortest kernel {shortest} µs",
        caption="Estimate for a 70B model on four H100s, which share the matrices; each computes every norm. Communication is left out.",
    )  # fmt: skip


plots.explore(
    by_assumption,
    sizes.shortest,
    "assumption",
    label="shortest kernel (µs)",
)

# %% [markdown]
r"""
Try your own: `step(SIZES["405B"], DEVICES["H200"], way="train", batch=1, context=8192, given=Assumptions("alone", of_bandwidth=0.5))`.

## What the sources say, and what we measured

The blog series that this book began with has a table of micro-benchmarks, for one vector of width 8192 on an H100. Bytes over time is a bandwidth; the printed column can be recomputed.
"""

# %%
rows = []
for one in published("norm-microbenchmarks"):
    rate = 1024 * one["kilobytes"] / one["microseconds"] / 1e3  # GB/s
    rows.append({"norm": one["norm"], "µs": one["microseconds"], "KiB": one["kilobytes"],
                 "GB/s": rate, "% of 3,350": 100 * rate / 3350, "printed %": one["utilisation"]})  # fmt: skip
plots.table(rows)

# %%
claim(
    "09-ninety-six-kilobytes",
    "96 KiB in 0.52 µs are {mean:.1f} % of 3.35 TB/s.",
    rows[0]["% of 3,350"],
    said="The table's 96 KiB in 0.52 µs are 5.6 % of the bandwidth.",
    source="the table of a blog series, recomputed",
    published="61 %",
    criterion="in [5.5, 5.7]",
    kind="exact",
)
claim(
    "09-no-row-of-that-table-is-possible",
    "Of its four rows the highest utilization is {mean:.1f} %.",
    max(row["% of 3,350"] for row in rows),
    said="No row of the table reaches the share of bandwidth that it prints.",
    source="the table of a blog series, recomputed",
    published="56 % to 70 %",
    criterion="< 7",
    kind="exact",
)

# %% [markdown]
r"""
The times cannot be right, either: $0.38\,\mu\mathrm s$ is shorter than the start of a kernel, which takes a microsecond or more. And 96 KiB supposes float32 parameters. Llama keeps them in bfloat16, which makes 64 KiB for a layer norm and 48 for an RMSNorm.

The same text divides one decoding step of a 70B model on four GPUs into parts. Weights must be read once a token, and that has a floor:
"""

# %%
seventy = SIZES["70B"]
ffn = sum(n * a * b for n, a, b in seventy.matrices if seventy.hidden in (a, b // 2))
heads = sum(n * a * b for n, a, b in seventy.matrices[:2])
budget = {one["part"]: one["microseconds"] for one in published("decode-budget")}
floor = {"QKV and output projections": heads, "feed-forward": ffn}
rows = [
    {"part": part, "weights (10⁹)": weights / 1e9, "printed (µs)": budget[part],
     "floor (µs)": 2 * weights / 4 / 3.35e12 * 1e6}
    for part, weights in floor.items()
]  # fmt: skip
plots.table([{k: round(v) if "µs" in k else v for k, v in row.items()} for row in rows])

# %%
claim(
    "09-the-feed-forward-is-below-its-floor",
    "Reading the feed-forward's weights takes {mean:.2f} times the printed time at least.",
    rows[1]["floor (µs)"] / rows[1]["printed (µs)"],
    said="The printed time of the feed-forward is too short to read its weights.",
    source="the decoding budget of a blog series: 70B, four H100s",
    published="5,100 µs",
    criterion="> 1",
    kind="exact",
)

# %%
saved = 100e9 * 22.4e-6
claim(
    "09-twenty-six-gpus",
    "2.24 million GPU-seconds a day are {mean:.1f} GPUs that run all day.",
    saved / 86_400,
    said="The saving of the example is 26 GPUs that run all day, not one.",
    source="100 billion tokens a day, 22.4 µs saved for each; a blog series",
    published="'roughly 26 GPU-days, or about one H100 continuously'",
    criterion="in [25.5, 26.5]",
    kind="exact",
)
claim(
    "09-the-operations-saved-are-nothing",
    "2,621,440 operations are {mean:.4f} % of what a 70B model computes for a token.",
    100 * 2_621_440 / (2 * sum(n * a * b for n, a, b in seventy.matrices)),
    said="What RMSNorm saves in operations is nothing beside what a model computes.",
    source="the mean's operations of 160 norms of width 8192; a blog series",
    published="'days or weeks of saved training time'",
    criterion="< 0.01",
    kind="exact",
)

# %% [markdown]
r"""
| a source says | what is right |
| --- | --- |
| LayerNorm takes $5d$ operations a token | $7d$: sum, subtract, square, sum, scale, gain, shift; and it does not matter, as the roof says |
| "the two-pass algorithm means the data must be loaded from memory twice"; a fused single pass "halves the memory bandwidth requirement" | a fused kernel keeps the row; two passes over registers cost no traffic: `09-two-passes-cost-no-traffic` |
| LayerNorm needs three passes, softmax two, BatchNorm one | of unfused code, and there softmax needs three, as its maximum is taken off first; BatchNorm at inference needs none, it folds into a matrix |
| 96 KB, 64 KB, $0.028$ and $0.019\,\mu\mathrm s$ | arithmetic right, for float32 parameters and one token; a batch reads parameters once |
| a utilization of $61\,\%$ | `09-ninety-six-kilobytes` |
| 83.2 and 60.8 µs a token | products right ($160\cdot0.52$ and $160\cdot0.38$), factors not: 161 kernels of 2 µs are $0.3$ ms |
| norms are 0.6 per cent of decoding | of which program? `09-eager-norms-take-a-quarter-of-decoding`, `09-fused-norms-take-a-few-per-cent` |
| 26 GPU-days are one H100 | 26 GPU-days *a day* are 26 GPUs; and a batch of $B$ shares each kernel's start, so divide by up to $B$ and multiply by the GPUs that share a model |
| RMSNorm saves days of training by fewer operations | `09-the-operations-saved-are-nothing`; what may be saved is a $db$ in registers, and a number or two a row that backward needs |
| RMSNorm gives "strictly the same quality" | close, in what is published and in chapter 03; nothing makes it the same |
| "when it matters": at a fleet's scale | then fuse first: from nine kernels of 5 µs to one of 2 µs, 161 norms save $161\cdot43\,\mu\mathrm s \approx 7$ ms a token; from LayerNorm to RMSNorm the text counts $22.4\,\mu\mathrm s$ |

## Where it goes wrong

Kernels have bugs of their own kind. The first is the slip of whoever derives in a hurry: a gradient that takes $r$ for a constant. Others were found in public code: a gain without a gradient (unslothai/unsloth#4550); a $dY$ that is overwritten in place (linkedin/Liger-Kernel#370, #1305); $\hat x$ computed back from $y/g$ to save memory (NVIDIA/apex#1715); padded columns that count in the variance (triton-lang/triton#9838). One more is always near: the last row left out, where $M$ is no multiple of the tile. Each rebuilt:
"""


# %%
def right(dy, x, g, rstd, y):
    """The boxed gradients."""
    u, standard = g * dy, x * rstd
    dx = rstd * (u - standard * (u * standard).mean(-1, keepdim=True))
    return dx, (dy * standard).reshape(-1, x.shape[-1]).sum(0)


def in_place(dy, *rest):
    """dX written over dY: whoever needs dY next finds something else."""
    dx, dg = right(dy, *rest)
    return dy.copy_(dx), dg


def divided(dy, x, g, rstd, y):
    """No x̂ in memory: y / g is the same, is it not?"""
    u, standard = g * dy, y / g
    dx = rstd * (u - standard * (u * standard).mean(-1, keepdim=True))
    return dx, (dy * standard).reshape(-1, x.shape[-1]).sum(0)


# %%
def flat(t):
    """Rows first."""
    return t.reshape(-1, t.shape[-1])


def short_of_a_row(dy, x, g, rstd, y):
    """The last tile is not full, and its last row is forgotten."""
    dx, _ = right(dy, x, g, rstd, y)
    return dx, flat(dy * x * rstd)[:-1].sum(0)


bugs = {
    "none": right,
    "r taken for a constant": lambda dy, x, g, r, y: (r * g * dy, right(dy, x, g, r, y)[1]),
    "no gradient for the gain": lambda *given: (right(*given)[0], torch.zeros_like(given[2])),
    "dX written over dY": in_place,
    "last row left out": short_of_a_row,
    "x̂ from y / g": divided,
}


# %%
class Fused(torch.autograd.Function):
    """RMSNorm whose backward is handed in."""

    @staticmethod
    def forward(ctx, x, weight, eps, gradients):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rstd = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
        y = (weight * wide * rstd).to(x.dtype)
        ctx.save_for_backward(x, weight, rstd, y)
        ctx.gradients = gradients
        return y

    @staticmethod
    def backward(ctx, dy):
        dx, dg = ctx.gradients(dy, *ctx.saved_tensors)
        return dx.to(dy.dtype), dg.to(ctx.saved_tensors[1].dtype), None, None


def with_gradients(gradients):
    """An RMSNorm to check, with this backward."""

    def rms_norm(x, weight=None, eps=1e-6):
        gain = torch.ones(x.shape[-1], dtype=x.dtype) if weight is None else weight
        return Fused.apply(x, gain, eps, gradients)

    return rms_norm


# %%
reports = {name: check.rms_norm(with_gradients(gradients)) for name, gradients in bugs.items()}
plots.table(
    [
        {"bug": name, "first law that fails": report.failed[0].name if report.failed else "none",
         "the check says": report.failed[0].cause or report.failed[0].message[:90] if report.failed else "passes"}
        for name, report in reports.items()
    ]
)  # fmt: skip

# %% [markdown]
r"""
The first row is the right backward. Of the five bugs one passes every law: $y/g$ is exact enough for every gain that the check draws. A check that passes is no proof. Where is this backward wrong? Let one gain be zero, as it may start or become:
"""

# %%
g_zero = torch.tensor([1.0, 0.0, 0.5, 2.0]).double()
x, dy = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(seed)).double()
rstd = x.square().mean(-1, keepdim=True).rsqrt()
_, came = divided(dy, x, g_zero, rstd, g_zero * x * rstd)
claim(
    "09-a-gain-of-zero-cannot-be-divided-by",
    "With one gain of 0, {mean:.0f} of 4 gradients of the gain are not numbers.",
    int((~came.isfinite()).sum()),
    said="A gain of zero cannot be divided by: recomputing from the output loses gradients.",
    source="NVIDIA/apex#1715: x̂ recomputed from y and the gain",
    criterion="> 0",
    kind="exact",
)


# %%
def padded_norm(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm over a tile of 2^k columns, without the mask after the mean is subtracted."""
    n = x.shape[-1]
    tile = F.pad(x, (0, (1 << (n - 1).bit_length()) - n))
    mean = tile.sum(-1, keepdim=True) / n
    variance = (tile - mean).square().sum(-1, keepdim=True) / n
    y = (x - mean) * (variance + eps).rsqrt()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


report = check.layer_norm(padded_norm)
print(report.summary, "\n   ", report.failed[0].message)
claim(
    "09-padding-in-the-variance-is-noticed",
    "With padded columns in the variance, {mean:.0f} laws of LayerNorm fail.",
    len(report.failed),
    said="The laws notice padded columns in the variance.",
    source="triton-lang/triton#9838",
    criterion="> 0",
    kind="exact",
    tolerance=30,
)

# %% [markdown]
r"""
Look again at LayerNorm's kernel: `centred = tl.where(here, x - mean, 0)` is that mask. Rows whose length is a power of two never show the bug. And an **offset** that is computed in 32 bits (linkedin/Liger-Kernel#803) shows only in tensors of two billion values:
"""

# %%
dim = 8192
row = np.int32([2**31 // dim - 1, 2**31 // dim])
offsets = row * np.int32(dim)
claim(
    "09-offsets-wrap-in-32-bits",
    f"With rows of {dim:,} values, row {row[1]:,} begins at offset {{mean:,.0f}}.",
    int(offsets[1]),
    said="Offsets in 32 bits wrap on large inputs.",
    source="linkedin/Liger-Kernel#803, #1335: offsets in int32",
    criterion="< 0",
    kind="exact",
)

# %% [markdown]
r"""
| you see | cause | probe | fix |
| --- | --- | --- | --- |
| loss fine at first, then NaN in one gain | $y/g$ with $g = 0$ | `09-a-gain-of-zero-cannot-be-divided-by` | keep $x$, not $y$ |
| gains do not learn | $dg$ dropped, or lost in a bfloat16 sum | `check.rms_norm`; `09-gain-gradients-are-lost-in-bfloat16` | partial rows in float32 |
| wrong only at widths that are no power of 2 | padding counted | `check.layer_norm` | mask after centring |
| a crash, or rubbish, only in huge batches | 32-bit offsets | `09-offsets-wrap-in-32-bits` | row index in 64 bits |
| two equal runs differ in the last bit | atomics | `09-the-order-of-a-sum-shows` | partial rows, one order |
| a kernel falls off a cliff at one width | spills | registers and stack in the machine code | more warps, or chunks |
| decoding is slow, and the GPU idle | kernels too short | `impact(1)` | fuse, CUDA graph |

## Exercises

**1 (by hand).** A kernel of Liger-Kernel ([Hsu et al., 2024](https://arxiv.org/abs/2410.10989)) adds a residual and normalizes: 2,048 rows of 8,192 values in float32, $94.6\,\mu\mathrm s$ on an H100 by a pull request of that project. How many bytes must move, and which share of $3.35$ TB/s is that?
"""

# %% tags=["exercise"]
yours = {"bytes": ..., "share": ...}

# %%
values = 2048 * 8192
truth = {"bytes": 4 * 4 * values, "share": 16 * values / 94.6e-6 / 3.35e12}
check.answer(yours, truth, name="1", hint="two tensors are read and two written", rtol=0.01)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Read $x$ and the residual; write the sum, which the next block needs, and the normalized row.

</details>
<details><summary>Solution</summary>

$4\cdot4\cdot2048\cdot8192 = 268{,}435{,}456$ bytes. Over $94.6\,\mu\mathrm s$ that is $2.84$ TB/s, or $0.85$ of the bandwidth.

</details>

**2 (by hand).** A square bfloat16 matrix and $T$ tokens; count only the weights' bytes. At how many tokens does the product reach the ridge of an H100's matrix units, $989\cdot10^{12}$ operations a second? And which batch brings a norm to its ridge (0 for "none")?
"""

# %% tags=["exercise"]
yours = {"tokens": ..., "norm": ...}

# %%
check.answer(
    yours, {"tokens": h100.ridge, "norm": 0}, name="2", rtol=0.01,
    hint="operations for each byte of weights; does a norm share anything large between tokens?",
)  # fmt: skip

# %% [markdown]
r"""
<details><summary>Hint</summary>

$2Td^2$ operations over $2d^2$ bytes.

</details>
<details><summary>Solution</summary>

The intensity is $T$ itself, so $T = 989/3.35 = 295$. A norm's bytes grow with the batch as its operations do: none.

</details>

**3 (by hand).** (a) Somebody counts rows by adding ones, in bfloat16 (8 significant bits). Where does the sum stop? (b) Rows of 5,120 values, offsets in int32: which is the first row (from 0) with a wrong address in it?
"""

# %% tags=["exercise"]
yours = {"stops": ..., "row": ...}

# %%
ones = torch.zeros((), dtype=torch.bfloat16)
for _ in range(1000):
    ones += 1
truth = {"stops": ones.item(), "row": (2**31 - 1) // 5120 + (2**31 % 5120 == 0)}
check.answer(yours, truth, name="3", hint="(a) when is 1 half of a unit in the last place? (b) the largest offset is 2³¹ − 1", rtol=1e-7)  # fmt: skip

# %% [markdown]
r"""
<details><summary>Hint</summary>

With 8 bits, numbers from $2^8$ on are 2 apart. For (b), the row that holds offset $2^{31}$.

</details>
<details><summary>Solution</summary>

(a) At 256: $256 + 1$ lies half way to 258 and is rounded to the even one, 256. (b) $2^{31}/5120 = 419430.4$, so row $419{,}430$ begins at a right address and ends at wrong ones.

</details>

**4 (in code).** Write the gradients of RMSNorm with the **Gemma** gain, $y = (1 + w)\odot\hat x$. Arguments as in `right`; `w` is what is stored. Your function is put under autograd and compared.
"""


# %% tags=["exercise"]
def my_gradients(dy, x, w, rstd):
    """Return dx and dw of y = (1 + w) · x · rstd."""
    return ...


# %%
def check_gradients(mine):
    """Hold it against autograd, on rows of 12."""
    x, dy = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1)).double()
    w = torch.linspace(-1, 1, 12).double()
    leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = rms_norm(leaves[0], 1 + leaves[1], eps=1e-6)
    wanted = dict(zip(("dx", "dw"), torch.autograd.grad(y, leaves, dy), strict=True))
    came = mine(dy, x, w, (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt())
    came = dict(zip(("dx", "dw"), came, strict=True)) if came is not ... else ...
    return check.answer(came, wanted, name="4", hint="u is the gradient by x̂: what multiplies x̂? dw is a sum over rows", rtol=1e-6)  # fmt: skip


check_gradients(my_gradients)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$u = (1 + w)\odot dy$. The derivative by $w$ is that by the gain.

</details>
"""


# %% tags=["solution"]
def solved_gradients(dy, x, w, rstd):
    """A solution of exercise 4."""
    u, standard = (1 + w) * dy, x * rstd
    return rstd * (u - standard * (u * standard).mean(-1, keepdim=True)), (dy * standard).sum(0)


assert check_gradients(solved_gradients).ok

# %% [markdown]
r"""
**5 (in code).** The walk of the backward kernel: program $p$ of $P$ takes rows $p, p + P, p + 2P, \dots$ and leaves the sum of their terms in row $p$ of a matrix. Write it for any number of rows, also fewer than $P$.
"""


# %% tags=["exercise"]
def my_partials(terms, programs):
    """Return (programs, N): row p is the sum of terms[p], terms[p + programs], …"""
    return ...


# %%
def check_partials(mine):
    """Hold it against a table made by hand, with rows left over and with programs left over."""
    terms = torch.arange(14.0).reshape(7, 2)
    wanted = {"three programs": [[18.0, 21.0], [10.0, 12.0], [14.0, 16.0]],
              "nine programs": [*terms.tolist(), [0.0, 0.0], [0.0, 0.0]]}  # fmt: skip
    came = {"three programs": mine(terms, 3), "nine programs": mine(terms, 9)}
    return check.answer(came, wanted, name="5", hint="programs are interleaved, not cut into blocks; a program without a row leaves zeros")  # fmt: skip


check_partials(my_partials)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Slices: `terms[p::programs]`. The sum of no rows is zero.

</details>
"""


# %% tags=["solution"]
def solved_partials(terms, programs):
    """A solution of exercise 5."""
    return torch.stack([terms[p::programs].sum(0) for p in range(programs)])


assert check_partials(solved_partials).ok

# %% [markdown]
r"""
**6 (prove).** LayerNorm's kernel subtracts a number $m$ *near* the mean: $c = x - m$, $\delta = \overline c$. (a) Prove $\mathrm{var}(x) = \overline{c^2} - \delta^2$ and $\hat x = (c - \delta)\,r$ for *any* $m$. (b) With long rows, $m$ is the mean of the first quarter of the row. Show that then $\delta^2 \le 3\,\mathrm{var}(x)$. (c) Why does (b) say that the subtraction in (a) is safe, where $\overline{x^2} - \bar x^2$ is not?

<details><summary>Hint</summary>

For (b), let $a$ be the mean of the quarter and $b$ that of the rest. What is the variance between the two groups?

</details>
<details><summary>Solution</summary>

(a) $c - \delta = x - m - (\bar x - m) = x - \bar x$. Its square's mean is the variance, and $\overline{(c - \delta)^2} = \overline{c^2} - 2\delta\,\overline c + \delta^2 = \overline{c^2} - \delta^2$.

(b) $\bar x = \tfrac14a + \tfrac34b$ and $m = a$, so $\delta = \bar x - a = \tfrac34(b - a)$. The variance is at least that between the groups: $\mathrm{var}(x) \ge \tfrac14(a - \bar x)^2 + \tfrac34(b - \bar x)^2 = \tfrac14\cdot\tfrac9{16}(b-a)^2 + \tfrac34\cdot\tfrac1{16}(b-a)^2 = \tfrac3{16}(b-a)^2 = \tfrac13\delta^2$.

(c) $\overline{c^2} = \mathrm{var} + \delta^2 \le 4\,\mathrm{var}$: the difference is at least a quarter of what it is taken from, so two bits are lost at most. In $\overline{x^2} - \bar x^2$ the ratio is $\mathrm{var}/(\mathrm{var} + \bar x^2)$, which is arbitrarily small.

</details>

**7 (open).** A colleague wants to replace RMSNorm by DyT "because it needs no statistics". Predict from bytes what that saves in a fused kernel, forward and backward (the table of the interpreter has the row `dynamic_tanh`), and what in eager mode. Then use the calculator for your own model. Which result would change your mind? Or train: what if the second norm of a sublayer stays and the first goes, with queries and keys normed instead (OLMo 2), or if the embedding gets one, too (Peri-LN)?
"""

# %% tags=["exercise"]
my_prediction = "…"
ideas = {"peri": {"model.recipe": "peri"}, "olmo2": {"model.recipe": "olmo2"}}
my_experiment = Experiment(base, {"arm": ideas, "train.lr": rates["pre"][low], "seed": five[:2]})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## What you now know

- A norm does about one operation a byte and stands far left of every ridge: its cost is bytes when it is large and kernel starts when it is small. Arithmetic is as good as free, so RMSNorm's saving is not where it was looked for.
- In eight operations it moves nine times the bytes of one kernel. A quarter of the time and more, or a few per cent: by the estimate, two programs for one formula.
- Backward needs $x$, $dy$, $g$ and one number a row. The gain's gradient crosses rows; partial rows in float32, one a program, keep it exact enough, repeatable, and in one reading.
- A fused kernel may pass over its row as often as it likes. Counted byte by byte, LayerNorm moves what RMSNorm moves.
- Without a GPU one can still count: bytes in an interpreter; registers, spills and widths in machine code. Not measure: for a time, see what *Measured on a GPU* has.
- At this size Pre-Norm's bytes bought no lower loss, and Sandwich's helped at one depth and not at the other; see the cards. At a high rate norms kept the deeper stack from diverging; other chapters measure such ranges.
- Published numbers can be recomputed: bytes over time is a bandwidth. Good kernels' figures come out; one table does not.
- A kernel's bugs hide at widths that are no power of 2, in huge batches, at gains of zero. A check finds most.

## References

Works cited: [Ivanov et al. (2021)](https://arxiv.org/abs/2007.00072), [Williams et al. (2009)](https://doi.org/10.1145/1498765.1498785), [Tillet et al. (2019)](https://doi.org/10.1145/3315508.3329973), [Hsu et al. (2024)](https://arxiv.org/abs/2410.10989), [Dao-AILab (2025)](https://github.com/Dao-AILab/quack), [NVIDIA (2023)](https://www.nvidia.com/en-us/data-center/h100/), [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467), [Ba et al. (2016)](https://arxiv.org/abs/1607.06450), [Ding et al. (2021)](https://arxiv.org/abs/2105.13290), [Kim et al. (2025)](https://arxiv.org/abs/2502.02732). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
