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

**Question.** [Ivanov et al. (2021)](https://arxiv.org/abs/2007.00072) profiled a layer of BERT in training: softmax and
layer norm did 0.17 % of the arithmetic in 25.5 % of the time. Part 7 of the series *Transformer Anatomy* ([errata](errata.md)) puts norms at 0.6
per cent of a decoding step. Do norms take a quarter of the time or half a per cent, and why?

<details><summary>In short (contains spoilers)</summary>

- A norm does little arithmetic and moves many bytes. A norm of a large tensor waits for memory, and a norm of a small tensor waits for its kernel to start.
- So the cost depends on the program more than on the formula. A norm that runs operation by operation makes many trips to memory, and a norm in one kernel makes one.
- On an H200, at width 1,024, compiling a plain model shortened a training step more than any library's norms did in the uncompiled model.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from statistics import fmean

import torch
import torch.nn.functional as F

from labkit import check, plots  # pip install the book's folder
from labkit.costs.bench import paired
from labkit.costs.kernel_view import (
    benches,
    compare_times,
    kernel_source,
    read_steps,
    read_times,
    recorded,
)
from labkit.costs.operations import CountBytes, cost_of
from labkit.costs.roofline import DEVICES, SIZES, Assumptions, kernel_time, norm_share, step
from labkit.experiments import Experiment, Lab, computed, exact, ladder, proportion, published
from labkit.norms import layer_norm, rms_norm
from labkit.plots.kernels import kernel_shares
from labkit.source import show

# %%
lab = Lab("09_memory_wall", size=size, seed=seed, memory={"kernel": "1000M", "run": "850M"})
sizes = lab.sizes(
    timed_rows=4096,
    summed_rows=8192,
)
rung = "S"
h100, facts = DEVICES["H100"], recorded()
programs = {
    "separate kernels, started one by one": Assumptions("eager", shortest=5e-6),
    "separate kernels, one CUDA graph": Assumptions("eager"),
    "norm and sum in two kernels": Assumptions("alone"),
    "norm and sum in one kernel": Assumptions("fused"),
}


# %%
def draw_step(batch):
    """Draw the share of a decoding step that norms take, by the program that computes them."""
    wholes = {
        name: step(SIZES["8B"], h100, way="decode", batch=batch, context=4096, given=given)
        for name, given in programs.items()
    }
    return plots.share_bars(
        wholes,
        notes={name: f"{1e3 * sum(parts.values()):.3g} ms" for name, parts in wholes.items()},
        caption=f"Estimated share of a decoding step that norms and sums take, with {batch} sequences at once.",
    )


plots.explore(
    draw_step,
    [1, 8, 64],
    "programs",
    label="sequences decoded at once",
    caption="Estimate, not a measurement: share of a decoding step (which generates one token) that is spent on norms and on the sums before them (which add a branch to the stream), for four programs that compute the same formulas, in a model of 8 billion parameters on one H100. All but the first run in CUDA graphs, which start a recorded list of kernels as a whole.",
)

# %% [markdown]
r"""
## The idea: count the bytes

The quarter and the half per cent both refer to the same few lines of algebra (the quarter includes the softmax). Most of the difference may come from the program that computes these lines. On a GPU a program is a sequence of **kernels**, each of which is started once and runs to its end. A norm can run as one kernel per operation (*in steps*, or *unfused*), or as a single **fused kernel**, which performs all operations while the row is on the chip.

We follow one row: a token of the first figure's model, $d = 4096$ values in bfloat16. An RMSNorm in one kernel reads $4096\cdot2 = 8{,}192$ bytes and writes the same number. We leave out the bytes of the gain, which many rows share. The kernel squares, adds,
scales and multiplies by the gain: four operations per value, $16{,}384$ in all, which happens to equal the number of bytes.

An H100's data sheet promises $3.35\cdot10^{12}$ bytes per second from memory and $67\cdot10^{12}$ operations in float32
([NVIDIA, 2023](https://www.nvidia.com/en-us/data-center/h100/)). So if the whole chip works on this row at these rates, the bytes need $16{,}384/(3.35\cdot10^{12})$ seconds, which is
4.9 ns, and the arithmetic needs 0.24 ns. Memory takes twenty times as long.
Processors compute faster than memory supplies them with data: this is called the *memory wall*.

The **arithmetic intensity** of a program is its number of operations per byte. For our row it is $16{,}384/16{,}384 = 1$. A device has a corresponding number, its **ridge**:
an H100 can do $67/3.35 = 20$ operations while one byte arrives. A program with fewer operations
per byte waits for memory. Matrix products run in separate units, with $989\cdot10^{12}$ operations per second and a ridge at $989/3.35 = 295$. [Williams et al. (2009)](https://doi.org/10.1145/1498765.1498785) drew this as a **roofline**:

$$\text{operations per second} \;\le\; \min(\text{peak},\ \text{intensity}\times\text{bandwidth}).$$

Multiplying $n$ tokens by a $d\times d$ matrix takes $2nd^2$ operations and moves $2d^2 + 4nd$ bytes. For one token that is about
one operation per byte. *Decoding* generates one token per step. So for one sequence *matrix products wait for memory, too*.
"""


# %%
def of_matrix(tokens, dim=4096):
    """Operations for each byte of a product with a square matrix, in bfloat16."""
    return 2 * tokens * dim**2 / (2 * dim**2 + 4 * tokens * dim)


plots.roof(
    h100.bandwidth,
    {"bfloat16 matrix units": h100.matrix, "float32 outside them": h100.vector},
    {"RMSNorm; matrix, 1 token": of_matrix(1), "matrix, 64 tokens": of_matrix(64),
     "matrix, 4096 tokens": of_matrix(4096)},
    caption="Roofline of an H100, from its data sheet: attainable operations per second against operations per byte. The intensity of a norm is far below both ridges, whatever the batch. The intensity of a matrix product grows with the number of tokens, because the matrix is read once for all of them.",
).named("roofline")  # fmt: skip

# %% [markdown]
r"""
There are **four suspects** for the cost of a norm: (1) its arithmetic, (2) the number of its passes over the row, even if the row stays on the chip (LayerNorm makes
two for its statistics, RMSNorm makes one), (3) its trips to memory, and (4) the start of its kernel. The roofline rules out the first. *Transformer Anatomy* counts $5d$ operations for LayerNorm. We count $7d$: sum, subtraction, square, sum, scale, gain and shift. By either count, the arithmetic takes less time than the memory traffic. Computing in float32 rather than bfloat16 adds no time: norms never use the matrix units, and we already assumed the float32 peak. (Moving float32 numbers does cost more.)

### One formula, eight kernels

This is RMSNorm as `transformers` implements it for Llama. In PyTorch's *eager* mode (without a compiler), each operation reads its inputs from memory and
writes its result back. A norm in one kernel moves four bytes per value: it reads two and writes two. How many do these lines
move? Count before you look: a float32 number has four bytes, and a bfloat16 number has two.
"""


# %% tags=["mechanism"]
def llama_norm(x, weight, eps=1e-6):
    """RMSNorm, one operation after another."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


# %%
x = torch.randn(256, 4096).bfloat16().requires_grad_()
gain = torch.ones(4096).bfloat16().requires_grad_()
with CountBytes() as forward:
    y = llama_norm(x, gain)
upstream = torch.randn_like(y)
with CountBytes() as backward:
    torch.autograd.grad(y, (x, gain), upstream)
words = {"_to_copy": "cast", "pow": "square", "mul": "times"}
plots.trips(
    {
        "in steps": [
            (words.get(name, name), read / x.numel(), written / x.numel())
            for name, read, written in forward.each
        ],
        "one kernel": [("RMSNorm", 2, 2)],
    },
    caption="Bytes per value that RMSNorm reads from memory and writes back: for each of its separate operations, counted while the code runs, and for one kernel. The root is taken once per row, so its bytes are negligible.",
).named("trips-to-memory")

# %%
plots.dots(
    {
        f"{way}, {name}": [number]
        for way, count, least in (("forward", forward, 4), ("backward", backward, 6))
        for name, number in (("in steps", count.bytes / x.numel()), ("one kernel", least))
    },
    xlabel="bytes moved per value",
    counted=True,
    caption="Bytes that RMSNorm moves per value: the sum over its separate operations, and the minimum for one kernel. In the backward pass one kernel reads two rows and writes one.",
).named("bytes-moved")

# %%
exact(forward.bytes / x.numel() / 4).claim(
    "09-eager-moves-nine-times-the-bytes",
    "in [8.9, 9.1]",
    "Run operation by operation, RMSNorm moves nine times as many bytes as in a single kernel.",
    found="In the forward pass, RMSNorm moves {moves:.0f} bytes per value in {operations:.0f} separate operations, {mean:.2f} times as many as in one kernel.",
    source="the formula of transformers' LlamaRMSNorm, counted operation by operation",
    beside={"operations": forward.operations, "moves": forward.bytes / x.numel()},
)

# %% [markdown]
r"""
## Derivation: the backward pass

For a row $x$ of $d$ values and a gain $g$, RMSNorm is

$$\hat x = x/r,\qquad r = \Big(\tfrac1d\textstyle\sum_i x_i^2 + \epsilon\Big)^{1/2},\qquad y = g\odot\hat x.$$

Let $\nabla_y$ be the gradient of the loss with respect to $y$; then $u = g\odot\nabla_y$ is the gradient with respect to $\hat x$. An entry $x_j$ affects the loss in two
ways: directly, and through $r$, where $\partial r/\partial x_j = x_j/(d\,r) = \hat x_j/d$. So

$$\nabla_{x_j} = \frac{u_j}{r} - \sum_i \frac{u_i x_i}{r^2}\,\frac{\hat x_j}{d}
\quad\Longrightarrow\quad \boxed{\nabla_x = \tfrac1r\,\big(u - \hat x\;\overline{u\hat x}\big)}$$

where the bar denotes the mean over the row. The gain acts on every row, so its gradient is a sum: $\nabla_g = \sum_{\text{rows}} \nabla_y\odot\hat x$.

LayerNorm first subtracts the mean. This step is a projection that equals its own transpose, so the backward pass applies it to the boxed gradient. As $\hat x$ already has mean zero, this changes only $u$. With $\hat x$ and $r$ computed from the centred row,
$\nabla_x = \tfrac1r\big(u - \bar u - \hat x\;\overline{u\hat x}\big)$, and the shift's gradient is $\sum_{\text{rows}}\nabla_y$.

The backward pass needs $x$, $\nabla_y$, $g$ and one number per row, $r$. LayerNorm's also needs the mean. Neither needs $y$, and $\hat x$ is recomputed.
So the backward pass reads two tensors, $x$ and $\nabla_y$, and writes one: per entry of $x$ it moves three values, whereas the forward pass moves two.

### Exercise 1

**1 (in code, 5 minutes).** Write the backward pass of RMSNorm. Rows come first: `x` and `dy` have shape (rows, d), and `r` has shape (rows, 1).
"""


# %% tags=["exercise"]
def my_backward(dy, x, g, r):
    """Return the gradients of x and of g, for y = g · x / r."""
    return ...


# %%
# RMSNorm with a given backward pass
class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, backward):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        r = (wide.square().mean(-1, keepdim=True) + eps).sqrt()
        ctx.save_for_backward(wide, weight, r)
        ctx.given, ctx.shape = backward, x.shape
        return (weight * wide / r).to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        x, g, r = ctx.saved_tensors
        dy, x, r = (part.reshape(-1, part.shape[-1]) for part in (dy, x, r))
        dx, dg = ctx.given(dy, x, g, r)
        return dx.reshape(ctx.shape).to(dy.dtype), dg.reshape(g.shape).to(g.dtype), None, None


# %%
def check_backward(mine):
    def norm(x, weight=None, eps=1e-6):
        gain = torch.ones(x.shape[-1], dtype=x.dtype) if weight is None else weight
        return Fused.apply(x, gain, eps, mine)

    own = torch.Generator().manual_seed(0)  # the same rows in every build
    dy, x, (g, *_) = torch.randn(3, 3, 8, generator=own).double().round(decimals=2)
    given = dy, x, g, x.square().mean(-1, keepdim=True).sqrt()
    if mine(*given) not in (..., None):
        return check.rms_norm(norm)
    wanted = torch.func.vjp(lambda x, g: rms_norm(x, g, eps=0.0), x, g)[1](dy)
    return check.function(mine, given, wanted, name="1", hint="dg is a sum over the rows")


check_backward(my_backward)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Compute $\hat x$ and $u$ first. The mean needs `keepdim=True`.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_backward(dy, x, g, r):
    """A solution of exercise 1."""
    standard, u = x / r, g * dy
    dx = (u - standard * (u * standard).mean(-1, keepdim=True)) / r
    return dx, (dy * standard).sum(0)


assert check_backward(solved_backward).ok

# %%
torch.manual_seed(seed)
x, dy = torch.randn(2, 33, 57).double() * 3 + 1
g, b = torch.randn(2, 57).double()


def off_by(norm, project, *parameters):
    """Return how far the gradients of x and g are from autograd's through labkit's norm."""
    leaves = [leaf.clone().requires_grad_() for leaf in (x, *parameters)]
    wanted = torch.autograd.grad(norm(*leaves, eps=1e-5), leaves, dy)
    c = project(x)
    dx, dg = solved_backward(dy, c, g, (c.square().mean(-1, keepdim=True) + 1e-5).sqrt())
    return max((project(dx) - wanted[0]).abs().max().item(), (dg - wanted[1]).abs().max().item())


off = (
    off_by(rms_norm, lambda x: x, g),
    off_by(layer_norm, lambda x: x - x.mean(-1, keepdim=True), g, b),
)
exact(max(off), tolerance=1e-11).claim(
    "09-backward-as-derived",
    "< 1e-11",
    "The backward passes that we derive for RMSNorm and LayerNorm give the same gradients as autograd.",
    found="For RMSNorm and LayerNorm, the derived gradients of the input and of the gain differ from autograd's by at most {mean:.0e}.",
    source="the derivation above, against autograd through labkit's norms in float64",
)

# %% [markdown]
r"""
### Why the gain's gradient is the hard part

A GPU has *multiprocessors*, on which threads run in *warps* of 32. Each thread keeps the numbers it works on in *registers*, the fastest memory of the chip. If they do not fit there, the kernel *spills*: it stores the rest in slower memory.

Our kernels (`normkernels`) are written in Triton ([Tillet et al., 2019](https://doi.org/10.1145/3315508.3329973)), where a kernel consists of many parallel *instances* (Triton calls them programs), each with a few warps and a few rows. The gradient of $x$ is computed row by row, but that of the gain is a sum over *all* rows. There are three ways to compute this sum (each number has $s$ bytes):

| way | bytes moved per entry | price |
| --- | --- | --- |
| a second kernel reads $x$ and $\nabla_y$ again | $5s$ | two thirds more traffic |
| each instance adds to one sum in memory, atomically | $3s$ | instances wait; the sum's last digits change from run to run |
| a fixed number of instances walk over all rows; each keeps its own sum, and these are added up at the end | $3s$, and a little | registers |

Our kernels take the third approach. The “little” is one row of float32 partial sums per instance, written once and read once: $8d$ bytes. An H100's 132 multiprocessors run two instances each, so the sums move $8d\cdot264$ bytes.
Compared with the $6d\cdot8192$ bytes of 8,192 rows in bfloat16, that is $8\cdot264/(6\cdot8192) = 4.3$ per cent.

## Implementation: a kernel, line by line

This is the forward pass of RMSNorm. The kernel loads a row in *blocks* whose length is a power of two. `mask` marks the entries that belong to the row. `apply_gain` multiplies the normalized row by the gain plus `OFFSET` (1 if a model stores $g - 1$). With `ROUND` it rounds before it multiplies, as Llama does.
"""

# %%
kernel_source("rms_norm", "_forward")

# %% [markdown]
r"""
| line | reason |
| --- | --- |
| `.to(tl.int64)` | at our width, row 524,288 has an offset of $2^{31}$, which in 32 bits is negative |
| `rstd = tl.rsqrt(squares / N + eps)` | $1/r$; four bytes per row, kept for the backward pass |
| `y = apply_gain(x * rstd, …)` | **the row is used again without being read again**: `x` is still in registers |
| `for start in range(…)` | a row of more than 32,768 values does not fit on the chip: of its blocks of 16,384 values, the first stays there, and the others are read twice |

LayerNorm makes two passes: one for the mean and, after subtracting it, one for the squares. In the backward pass, both norms use the same kernel, and a second, short kernel adds up the partial sums. Find the boxed formula in the listing below.
"""

# %% tags=["hide-output", "remove-input"]
kernel_source("norm_backward", "_backward")

# %% [markdown]
r"""
<details><summary>Four lines of this kernel</summary>

| line | reason |
| --- | --- |
| `for first in tl.range(…)` | the walk over all rows; the next rows are loaded in advance |
| `standard = _standard(…)` | $\hat x$, recomputed from $x$ and $r$ (cheaper than reading it) |
| `dweight += dy * rounded` | this instance's sum for the gain, in float32 registers |
| `tl.store(partials_ptr …)` | a row that belongs to this instance alone: no instance waits, and every run adds in the same order |

</details>

## Measure

### Bytes, in an interpreter

Triton can interpret a kernel on the CPU. In this interpreter we count each load and store. The next table counts the activations (inputs, outputs and their gradients) read and written
per entry of the input, but not parameters, statistics or partial sums. `add_rms_norm` adds a branch to the stream, writes the sum and normalizes it. `rms_norm_add_norm` does the same with a branch that has a norm of its own, as in Gemma 2. `rms_norm_gated` multiplies RMSNorm's output by a gate. `dynamic_tanh` is chapter 07's DyT, and `ngpt_update` is the step by which chapter 08's nGPT updates its stream. The predictions count the tensors that must be read and written.

On long rows our kernels read some values twice. In the backward pass, a float32 row of more than 8,192 values does not fit on the chip together with the gradients, so both inputs are read twice, and 5 values are moved instead of 3. In the forward pass, both norms keep a quarter of a row of 65,536 values on the chip and read the rest twice. RMSNorm keeps all of a row of 16,384, and our LayerNorm half of it.

| question | choices | ours |
| --- | --- | --- |
| On rows that fit on the chip, LayerNorm's fused kernel makes two passes for its statistics, and RMSNorm's makes one. How many activations does LayerNorm's kernel move, compared with RMSNorm's? <!-- 09-two-passes-cost-no-traffic 09-a-norm-moves-two-and-three-values --> | as many; <!-- 1.1 --> half as many again; <!-- 1.75 --> twice as many | <details><summary>show</summary>A fused norm whose row fits on the chip moves two values forward and three backward. LayerNorm's second pass costs no traffic.</details> |
"""

# %%
expected = {"rms_norm": (2, 3), "layer_norm": (2, 3), "add_rms_norm": (4, 4),
            "rms_norm_add_norm": (4, 7), "rms_norm_gated": (3, 5),
            "dynamic_tanh": (2, 3), "ngpt_update": (3, 5)}  # fmt: skip
width, ways = {"fp32": 4, "bf16": 2}, ("forward", "backward")
moved = {
    (one["case"], one["n"], one["dtype"], way): one[way]["activations"]
    / (one["m"] * one["n"] * width[one["dtype"]])
    for one in facts["interpreted"]
    for way in ways
}
plots.table(
    {"kernel": case, "values per row": n, "forward, predicted": expected[case][0] + (n > 32768) * (1 - 16384 / n) + (case == "layer_norm" and n == 16384) / 2, "forward, counted": moved[case, n, dtype, "forward"],
     "backward, predicted": expected[case][1] if n <= 8192 else 5, "backward, counted": moved[case, n, dtype, "backward"]}
    for case, n, dtype in dict.fromkeys(key[:3] for key in moved)
    if case in expected and dtype == "fp32"
)  # fmt: skip

# %%
off = [max(one["errors"].values()) for one in facts["interpreted"] if one["dtype"] == "fp32"]
exact(max(off), tolerance=1e-5).claim(
    "09-kernels-equal-their-formulas",
    "< 1e-5",
    "In an interpreter, in float32, our fused kernels compute the formulas of their norms.",
    found="In float32, in an interpreter, our fused kernels give outputs and gradients that differ from those of the formulas in float64 by at most {mean:.0e}, relative to the largest entry.",
    source="the formulas in float64 (normkernels.formulas)",
)
off = [
    abs(moved[norm, 4096, "bf16", way] - wanted)
    for norm in ("rms_norm", "layer_norm")
    for way, wanted in zip(ways, expected[norm], strict=True)
]
exact(max(off), tolerance=1e-9).claim(
    "09-a-norm-moves-two-and-three-values",
    "< 1e-9",
    "On rows of 4,096 bfloat16 values, a fused LayerNorm or RMSNorm moves two activations per value in the forward pass and three in the backward pass.",
    found="Counted on rows of 4,096 bfloat16 values, a fused LayerNorm or RMSNorm moves 2 activations per value in the forward pass and 3 in the backward pass. The largest deviation is {mean:.0f}.",
    source="the kernels' predicted memory traffic",
)
# %%
times = [
    moved["layer_norm", n, "fp32", w] / moved["rms_norm", n, "fp32", w]
    for n in (4096, 65536)
    for w in ways
]
exact(max(times)).claim(
    "09-two-passes-cost-no-traffic",
    "in [1, 1]",
    "If LayerNorm's kernel keeps as much of a row on the chip as RMSNorm's, its second pass costs no memory traffic.",
    found="At widths 4,096 and 65,536, LayerNorm's kernel, which computes mean and variance in two passes, moves {mean:.3f} times as many activations as RMSNorm's kernel.",
    source="against 'the two-pass algorithm means the data must be loaded from memory twice' (Transformer Anatomy, part 7)",
    published="one pass 'halves the memory bandwidth requirement'",
)

# %% [markdown]
r"""
If bytes determine the time, the second suspect is ruled out: passes over a row on the chip read nothing from memory. The statement "LayerNorm needs three passes over memory, BatchNorm
one" (from the series *Exploring the Transformer*, part 14; see the [errata](errata.md)) is true of unfused code only.
`add_rms_norm` moves 4 activations per value forward and 4 backward, whereas separate kernels for the sum and the norm move 5 and 6. (In the backward pass, the gradients from the stream and from the norm are summed.) `rms_norm_add_norm`, which has a second norm on the branch, moves 4 and 7, whereas separate kernels move 7 and 9.

### Instructions, without a GPU

A kernel can be *compiled* for a GPU that the machine does not have, here the H100, which compilers call sm_90. We predict how many instructions each thread needs. Our row of 4,096 values gets 256 threads, or 8 warps. Each thread has 16 values, or 32 bytes. It loads them in
2 instructions of 16 bytes each, loads the gain in 2 more, and stores its results in 2. The sum over the row takes $\log_2 32 = 5$ exchanges
within a warp and $\log_2 8 = 3$ between the warps. Results are rounded two at a time, in 8 instructions.
"""

# %%
listed = next(
    one["opcodes"]
    for one in facts["compiled"]
    if "opcodes" in one and one["kernel"] == "rms_norm._forward"
)
predicted = {
    "LDG.E.128": ("load 16 bytes", 4),
    "STG.E.128": ("store 16 bytes", 2),
    "SHFL.BFLY": ("exchange between threads", 8),
    "MUFU.RSQ": ("1/√", 1),
    "F2FP.BF16.F32.PACK_AB": ("round two values to bfloat16", 8),
}
plots.table(
    {"instruction": name, "what it does": what, "predicted": count, "in the code": listed.get(name, 0)}
    for name, (what, count) in predicted.items()
)  # fmt: skip

# %%
exact(sum(listed.get(name, 0) == count for name, (_, count) in predicted.items())).claim(
    "09-the-code-is-as-predicted",
    "in [5, 5]",
    "The compiled code of our RMSNorm kernel contains as many instructions of five kinds as we predicted.",
    found="Of the five counts of instructions that we predicted for our RMSNorm kernel on an H100, {mean:.0f} agree with the compiled code.",
    source="16 values a thread, compiled for sm_90 (data/kernels.json)",
)

# %%
forced = {one["warps"]: one for one in facts["compiled"] if one["forced"]}
exact(forced[1]["stack"]).claim(
    "09-a-row-too-long-for-its-warps-spills",
    "> 0",
    "A kernel with too few warps for the length of its rows spills registers.",
    found="With one warp for a row of 8,192 values (256 per thread), each thread spills {mean:.0f} bytes. With two warps, each spills {two:.0f} bytes.",
    source="machine code for sm_90 (data/kernels.json)",
    beside={"two": forced[2]["stack"]},
)
exact(max(one["stack"] for one in facts["compiled"] if not one["forced"])).claim(
    "09-nothing-spills-as-configured",
    "in [0, 0]",
    "With the numbers of warps that we chose, no kernel spills registers.",
    found="With the numbers of warps that we chose, our kernels spill {mean:.0f} bytes in either pass, for rows of up to 65,536 values.",
    source="machine code for sm_90 (data/kernels.json)",
)

# %% [markdown]
r"""
### The sum over rows

Why not sum the gain's gradient in bfloat16? A public kernel once did so within each block of rows
([Liger 950](https://github.com/linkedin/Liger-Kernel/issues/950)). bfloat16 keeps eight binary digits: once a sum is 256 times as large as a term, the term can be rounded away. The next cell takes this to the extreme: it adds up 8,192 rows of random terms, one after another.

| question | choices | ours |
| --- | --- | --- |
| How large is the relative error of the gain's gradient? <!-- 09-gain-gradients-are-lost-in-bfloat16 --> | less than a thousandth; <!-- 0.001 --> about a hundredth; <!-- 0.05 --> more than a twentieth | <details><summary>show</summary>With 8,192 rows added up in bfloat16, the gain's gradient is off by more than a twentieth.</details> |
"""


# %%
def summed(terms, dtype):
    """Add rows one after another in a dtype, as a running sum does."""
    total = torch.zeros(terms.shape[1], dtype=dtype)
    for row in terms.to(dtype):
        total += row
    return total.double()


def lost(seed):
    """Relative error of a gain's gradient that is added up in bfloat16, and in float32."""
    draw = torch.Generator().manual_seed(seed)
    terms = torch.randn(sizes.summed_rows, 64, generator=draw)
    wanted = terms.double().sum(0)
    off = (summed(terms, dtype) - wanted for dtype in (torch.bfloat16, torch.float32))
    return [(each.norm() / wanted.norm()).item() for each in off]


halves, singles = zip(*map(lost, lab.seeds(5)), strict=True)
computed(halves).claim(
    "09-gain-gradients-are-lost-in-bfloat16",
    "> 0.05",
    "A gain's gradient that is summed over many rows in bfloat16 has a relative error of more than a twentieth.",
    found="If the gain's gradient is summed in bfloat16, its relative error is {mean:.2f}. In float32 it is {single:.0e}.",
    source="a bug of a public kernel, taken to the extreme: its sum within blocks of rows ran in bfloat16 (linkedin/Liger-Kernel#950)",
    beside={"single": fmean(singles)},
)

# %% [markdown]
r"""
### Bandwidth and launch overhead on a CPU

We time two pairs, each in alternation: PyTorch's fused layer norm and the formula in steps, and fused norms of a long and a short row. If trips to memory determine the time, fusing pays off for a *large norm* (of a tensor larger than the caches). If the start of a kernel (on a CPU, the call) determines the time of a *small norm* (of one short row), a longer row takes hardly more time.
"""


# %% tags=["mechanism"]
def in_steps(x, weight, bias, eps=1e-5):
    """LayerNorm, one operation after another."""
    centred = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * rstd * weight + bias


def calls(rows, dim):
    """Make a call of PyTorch's fused layer norm, and one of the formula."""
    x, w, b = torch.randn(rows, dim), torch.ones(dim), torch.zeros(dim)
    return lambda: F.layer_norm(x, (dim,), w, b), lambda: in_steps(x, w, b)


# %%
large = paired(*calls(sizes.timed_rows, 4096), turns=9)
small = paired(calls(1, 1024)[0], calls(1, 64)[0], turns=31, inner=50)
slower = proportion([steps > 1.5 * one for one, steps in large])
computed(slower, unit="turns", tolerance=0.45).claim(
    "09-eager-is-slower-on-a-cpu-too",
    "> 0.5",
    "On a CPU, an unfused norm of a large tensor is slower than a fused norm.",
    found="On a CPU, with a tensor of {mebibytes:.0f} MiB, the unfused norm takes more than 1.5 times as long as the fused norm in {k} of {n} pairs of timings.",
    source="the memory wall, on a CPU; pairs of timings in one process",
    beside={"mebibytes": sizes.timed_rows * 4096 * 4 / 2**20},
)
cheap = proportion([long < 4 * short for long, short in small])
computed(cheap, unit="turns", tolerance=0.45).claim(
    "09-a-small-norm-costs-its-call",
    "> 0.5",
    "On a CPU, a small norm's time depends little on the number of bytes that it moves: with sixteen times as many, it takes less than four times as long.",
    found="On a CPU, normalizing a row of 1,024 values moves 16 times as many bytes as normalizing a row of 64, but takes less than 4 times as long in {k} of {n} pairs of timings.",
    source="the cost of starting a kernel, on a CPU; pairs of timings in one process",
)

# %% [markdown]
r"""
On this CPU the times fit both remaining suspects: large norms wait for memory, and small norms wait for their call.

### Does more normalization lower the loss?

Sandwich ([Ding et al., 2021](https://arxiv.org/abs/2105.13290)) normalizes each sublayer's output as well as its input, which roughly doubles the norms' bytes. We compare it with Pre-Norm at tuned learning rates, at the smallest size of the *ladder*, this book's shared experiment grid: S, six blocks of width 32.
"""

# %%
climbed = lab.ladder(["pre", "sandwich", "no attention"])
token = torch.zeros(1, 8, dtype=torch.long)
bytes_of = {
    arm: cost_of(ladder.build_base_run(rung, arm).model.build(), token).norm_bytes
    for arm in ("pre", "sandwich")
}
ladder.improvement(climbed, "sandwich").only(rung).claim(
    "09-sandwich-earns-its-bytes",
    "> 0",
    "Twice the norms, each recipe at its own rate, buy a lower loss.",
    found="At size {rung}, Sandwich's norms move {times:.2f} times as many bytes as Pre-Norm's norms, and Sandwich's test loss is {apart:.4f} nats {side} Pre-Norm's.",
    source="this book: what costs more should buy more",
    beside={"times": bytes_of["sandwich"] / bytes_of["pre"]},
)

# %% [markdown]
r"""
We detect no improvement. [Kim et al. (2025)](https://arxiv.org/abs/2502.02732) report that Peri, which adds a norm on the embedding to Sandwich, reaches lower losses than Pre-Norm, at up to 3.2 billion parameters. At size S even models without norms have losses that are only a little higher than Pre-Norm's
([chapter 10](10_choosing_a_norm.ipynb)). But Pre-Norm's norms allow a higher learning rate:
"""

# %%
high = 0.0316
hot, gone = {"train.lr": [high], "seed": ladder.SEEDS}, {}
for arm in ("none", "pre"):
    runs = lab.run(Experiment(ladder.build_base_run(rung, arm), hot))
    gone[arm] = runs.count(lambda run: run.diverged_at is not None)
(gone["none"] - gone["pre"]).claim(
    "09-norms-buy-a-higher-rate",
    "> 0",
    "At a high learning rate, a network without norms diverges, but Pre-Norm does not.",
    found=f"At a learning rate of {high:g}, about three times Pre-Norm's best rate, {{k}} of {{n}} runs without norms and {{other_k}} of {{other_n}} Pre-Norm runs diverge.",
    source="the other reason to normalize: stable at higher rates (chapters 00 and 02)",
)

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
tried = ladder.configure_run(ladder.build_base_run(rung, "pre"), high, 0)
lab.train_live(Experiment(tried, {"seed": [0]}))

# %% [markdown]
r"""
### Times on a GPU

On an H100 we timed our kernels (`make bench-kernels`) on tensors of 64 MiB and more, with rows of 1,024 to 8,192 values (128 in the kernel for QK-Norm), in CUDA graphs that were started (*replayed*) many times. Four other implementations ran in the same process: PyTorch's own norms, such as `F.rms_norm` (*torch* in the next figure), the formula fused by PyTorch's
compiler (`torch.compile`; *compile*), the formula in steps (*eager*), and Liger-Kernel's Triton kernels.

If the bytes determine the time, a fused norm takes as long as a kernel that moves the same number of bytes and only flips every bit (*copy* in the figure). The figure shows speeds in per cent of that kernel's speed. They can be slightly above 100. Of our eleven kernels (*normkernels*), the figure shows three: RMSNorm, LayerNorm, and RMSNorm with the sum before it.
"""

# %%
h100_bench = benches()["NVIDIA H100 80GB HBM3"]
shown = ("rms_norm", "layer_norm", "add_rms_norm")
kernel_shares(h100_bench, shown).named("times-on-an-h100")

# %%
made, SPREAD = h100_bench["provenance"], "replays, 20th to 80th percentile"
fro, back = (
    {(kernel, *at): times for kernel in shown for at, times in read_times(h100_bench, kernel, way).items()}
    for way in ways
)  # fmt: skip
copied = [
    one["providers"]["copy"]["forward"]["gbps"] / 3350 for one in h100_bench["results"].values()
]
print(
    f"torch {made['torch']}, Triton {made['triton']}, Liger {made['peers']['liger']}; our kernels of commit {h100_bench['slices'][-1]['commit']}.",
    f"The kernel that flips bits reaches {min(copied):.0%} to {max(copied):.0%} of the data sheet's 3.35 TB/s.",
    sep="\n",
)  # fmt: skip


# %%
def rms_in_steps(x, weight, eps=1e-6):
    """The formula under test: two casts at the start, one rounding at the end."""
    square = x.float().square().mean(-1, keepdim=True)
    return (x.float() * torch.rsqrt(square + eps) * weight.float()).to(x.dtype)


def layer_in_steps(x, weight, bias, eps=1e-5):
    """The same of LayerNorm."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    standard = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return (standard * weight.float() + bias.float()).to(x.dtype)


# %%
def count_steps(formula, *parameters):
    """How many times the bytes of one kernel the formula moves in steps."""
    row = torch.randn(256, 4096).bfloat16()
    with CountBytes() as moved_in_steps:
        formula(row, *parameters)
    return moved_in_steps.bytes / row.numel() / 4


def take_ratio(ratio, unit=SPREAD):
    """Take a ratio of two times, with the ends of what repetitions scattered."""
    middle, *ends = ratio
    return computed(middle, unit=unit, interval=ends)


gains = torch.ones(2, 4096).bfloat16()
in_bytes = {
    "rms_norm": count_steps(rms_in_steps, gains[0]),
    "layer_norm": count_steps(layer_in_steps, *gains),
}
as_copy = {at: compare_times(times["copy"], times["normkernels"]) for at, times in fro.items()}
take_ratio(min(as_copy.values())).claim(
    "09-a-fused-norm-takes-as-long-as-copying",
    "> 0.9",
    "On an H100, with large tensors, the forward passes of our norms take about as long as moving their bytes.",
    found="On an H100, our forward kernels for RMSNorm, LayerNorm and RMSNorm with a sum reach {mean:.0%} to {most:.0%} of the speed of a kernel that moves as many bytes and only flips bits.",
    source="the memory wall; times recorded on an H100 (data/bench)",
    beside={"most": max(as_copy.values())[0]},
)
# %%
steps_cost = {
    at: [one / in_bytes[at[0]] for one in compare_times(times["eager"], times["normkernels"])]
    for at, times in fro.items()
    if at[0] in in_bytes
}
longer = {
    kernel: min(fro[at]["eager"]["us"] / fro[at]["normkernels"]["us"] for at in fro if at[0] == kernel)
    for kernel in in_bytes
}  # fmt: skip
take_ratio(min(steps_cost.values())).claim(
    "09-in-steps-a-norm-is-slower-on-a-gpu",
    "> 1",
    "On an H100, running a norm operation by operation increases its time by at least as large a factor as the bytes that it moves.",
    found="On an H100, RMSNorm run operation by operation takes at least {rms:.1f} times as long as in one kernel and moves {rms_bytes:.1f} times as many bytes. LayerNorm takes at least {layer:.1f} times as long and moves {layer_bytes:.1f} times as many bytes. The factor for time is at least {mean:.2f} times the factor for bytes.",
    source="the bytes counted above; times recorded on an H100 (data/bench)",
    beside={
        "rms": longer["rms_norm"],
        "layer": longer["layer_norm"],
        "rms_bytes": in_bytes["rms_norm"],
        "layer_bytes": in_bytes["layer_norm"],
    },
)
# %%
compiled = {at: compare_times(times["compile"], times["normkernels"]) for at, times in fro.items()}
others = [
    times["compile"]["us"] / times["normkernels"]["us"]
    for kernel in sorted({one["kernel"] for one in h100_bench["results"].values()})
    for times in read_times(h100_bench, kernel).values()
]
take_ratio(max(compiled.values())).claim(
    "09-the-compiler-is-as-fast-forward",
    "< 1.15",
    "On an H100, the forward passes of our RMSNorm, LayerNorm and RMSNorm with a sum are hardly faster than those of PyTorch's compiler.",
    found="In the forward pass on an H100, the kernels of PyTorch's compiler take {least:.2f} to {mean:.2f} times as long as ours for RMSNorm, LayerNorm and RMSNorm with a sum. Over all timed kernels, they take {lowest:.2f} to {highest:.2f} times as long.",
    source="what the kernel libraries QuACK and Liger publish, where good forward passes lie close together; times recorded on an H100 (data/bench)",
    beside={"least": min(compiled.values())[0], "lowest": min(others), "highest": max(others)},
)
# %%
rivals = {
    at: min(compare_times(of, times["normkernels"]) for who, of in times.items() if who not in ("copy", "normkernels"))
    for at, times in back.items()
}  # fmt: skip
take_ratio(min(rivals.values())).claim(
    "09-backward-our-kernels-are-ahead",
    "> 1",
    "On an H100, with large bfloat16 tensors, rows of up to 8,192 values and CUDA graphs, the backward passes of our norms are faster than those of PyTorch, its compiler and Liger's Triton kernels.",
    found="In the backward pass on an H100, the fastest of PyTorch, its compiler and Liger takes {mean:.2f} to {most:.2f} times as long as our kernels for RMSNorm, LayerNorm and RMSNorm with a sum.",
    source="the walk over all rows; times recorded on an H100 (data/bench)",
    beside={"most": max(rivals.values())[0]},
)

# %% [markdown]
r"""
In the forward pass, PyTorch's own norms take longer than ours. The formula in steps that we timed here moves even more bytes than Llama's, because it casts its input twice and multiplies by the gain in float32. All times are for bfloat16 tensors on one GPU, with the compiler in its default mode.

Without a CUDA graph the *host*, Python on the CPU, must start every kernel. If that takes longer than the kernel runs, the GPU waits. The next table shows times per call (a call often starts several kernels):
"""

# %%
first_size = (8192, 4096)
timed = {way: read_times(h100_bench, "rms_norm", way)[first_size] for way in ways}
plots.table(
    {"RMSNorm, 8,192 rows of 4,096": name}
    | {
        f"{way}, {what} (µs)": round(timed[way][who][field])
        for way in ways
        for what, field in (("GPU", "us"), ("host", "host_us"))
    }
    for who, name in (("normkernels", "ours (normkernels)"), ("torch", "PyTorch (torch)"), ("compile", "compiler (compile)"), ("liger", "Liger"), ("eager", "in steps (eager)"))
)  # fmt: skip

# %% [markdown]
r"""
With our kernels, the compiler's and Liger's, the host takes longer than the GPU. Host times are rough. All times of our kernels come from an older version, whose calls did more work in Python.

The README of another library, QuACK ([Dao-AILab, 2025](https://github.com/Dao-AILab/quack)), and pull requests of
Liger-Kernel, the project of [Hsu et al. (2024)](https://arxiv.org/abs/2410.10989), give rates or times for an H100. The pull requests also give shares of $3.35$ TB/s. Do the bytes that we count, divided by the published times, give these shares? (Some kernels are written in the language CuTe, not Triton.)
"""

# %%
rows = []
for one in published("norm-kernels"):
    values = one["rows"] * one["values"] if one["rows"] else None
    rate = (
        one["gigabytes_a_second"]
        or one["moved"] * one["value_bytes"] * values / one["microseconds"] / 1e3
    )
    rows.append({"kernel": one["kernel"], "pass": one["way"], "values per row": int(one["values"]),
                 "GB/s": round(rate), "size of a value (bytes)": int(one["value_bytes"]), "% of 3,350, by our count": 100 * rate / 3350, "as printed": one["share"] or "–"})  # fmt: skip
plots.table(rows)

# %%
off = [
    abs(row["% of 3,350, by our count"] - row["as printed"])
    for row in rows
    if row["as printed"] != "–"
]
exact(max(off)).claim(
    "09-published-shares-follow-from-bytes",
    "< 1",
    "The published shares of bandwidth follow from our count of bytes.",
    found="For {many} published kernels, the share of the bandwidth computed from our count of bytes and the printed time differs from the printed share by at most {mean:.1f} percentage points.",
    source="Liger-Kernel's and PyTorch's figures for an H100",
    published="19 % to 85 % of 3.35 TB/s",
    beside={"many": len(off)},
)

# %% [markdown]
r"""
The lowest share is that of PyTorch's backward pass, which has a separate kernel for the gain's gradient that reads everything again. A share counts only the three values that a backward pass must move. This pass moves five, which explains part of its low share.

## A whole model

The chapter's first figure is computed from a list of the kernels in one step of a Llama-like model. Each kernel takes the longest of three
times: bytes over bandwidth, operations over peak, and the minimum that every kernel takes.
"""

# %%
show(kernel_time, Assumptions)

# %% [markdown]
r"""
We assume that every kernel takes at least $2\,\mu\mathrm s$ in a CUDA graph
and $5\,\mu\mathrm s$ where Python starts it. (In our table of host times, even a call with one kernel takes longer.) We also assume that a kernel reaches $0.9$ of the bandwidth, a little more than the bit-flipping kernel achieved.

For one sequence our 8B model must read 15 GB of weights (without the input embedding), which takes at least $15/3.35 \approx 4.5$ ms. Two norms in each of 32 blocks and one at the end make 65 norms. In steps, each norm is eight operations, and the sum before it is a ninth. Together they take
$65\cdot9\cdot5\,\mu\mathrm s = 2.9$ ms, more than a third of the whole step (8.2 ms in the first figure). If each norm and its sum form one kernel in a CUDA graph, the 65 kernels take $65\cdot2 = 130\,\mu\mathrm s$, less than three per cent.

*By hand.* How short would one norm have to be for all 65 to take 0.6 per cent of 4.5 ms? Could a kernel be that short?

<details><summary>Answer</summary>

$0.006\cdot4.5\ \mathrm{ms} = 27\,\mu\mathrm s$, which is $0.42\,\mu\mathrm s$ for each of 65 norms. By our assumption no kernel is that short: even in a graph it takes $2\,\mu\mathrm s$. With 64 sequences at once a step is longer and has the same number of kernels, so the share comes nearer to 0.6 per cent: see the next table.

</details>
"""

# %%
decoding = {
    name: norm_share(SIZES["8B"], h100, way="decode", batch=1, context=4096, given=given)
    for name, given in programs.items()
}
exact(decoding["separate kernels, started one by one"]).claim(
    "09-eager-norms-take-a-quarter-of-decoding",
    "> 0.25",
    "If one sequence is decoded and a kernel takes at least 5 µs, norms that run in steps take more than a quarter of a decoding step, by our estimate.",
    found="If one sequence is decoded and a kernel takes at least 5 µs, norms that run in steps, with their sums, take an estimated {mean:.0%} of a decoding step of an 8B model. In a CUDA graph they take an estimated {graph:.0%}.",
    source="the estimate above: 65 norms of nine operations, 5 µs each",
    beside={"graph": decoding["separate kernels, one CUDA graph"]},
)
exact(decoding["norm and sum in one kernel"]).claim(
    "09-fused-norms-take-a-few-per-cent",
    "< 0.05",
    "If one sequence is decoded, fused norms in a CUDA graph take a few per cent of a decoding step, by our estimate.",
    found="Fused norms in a CUDA graph take an estimated {mean:.1%} of a decoding step of an 8B model.",
    source="the estimate above: 65 norms of one kernel, 2 µs each",
    published="'0.2-0.3 % of the total decode latency' saved, norms 0.6 % of it (Transformer Anatomy, part 7, for a 70B model)",
)

# %% [markdown]
r"""
The next table adds training and *prefill* (reading a whole prompt at once). It omits the program that starts kernels one by one, so every kernel takes at least $2\,\mu\mathrm s$:
"""

# %%
uses = {"decode": 1, "decode, 64 at once": 64, "prefill": 1, "train": 1}
plots.table(
    {"use of an 8B model": use,
     **{f"% of time in norms: {name}": 100 * norm_share(SIZES["8B"], h100, way=use.split(",")[0], batch=batch, context=4096, given=given)
        for name, given in [*programs.items()][1:]}}
    for use, batch in uses.items()
)  # fmt: skip

# %% [markdown]
r"""
When one sequence is decoded, norms wait for kernels to start, so a graph helps. In prefill and training they wait for bytes, so only fusing helps. In training, unfused norms take about an eighth of the time, half of the quarter measured for BERT. That quarter
includes the softmax, and BERT is narrower: the cost of a matrix product grows with $d^2$, and that of a norm with $d$. When many
sequences are decoded together, most of the time goes into reading keys and values: move the first figure's slider.

## What a norm buys in a whole step

If norms take a share $s$ of a step and a kernel makes them $k$ times as fast, the step becomes shorter by the share $s\,(1 - 1/k)$, which is less than $s$ (*Amdahl's law*).

*By hand.* A Llama trains on an H200 that, by our assumptions, moves $0.9\cdot4.8\cdot10^{12}$ bytes and does $0.6\cdot989\cdot10^{12}$ matrix operations per second. A block has $11.25\,d^2$ weights and two norms. A norm and the sum before it move this many bytes per value:

- *in steps*, $6 + 36 = 42$ forward and $6 + 92 = 98$ backward. In each direction the sum reads two values and writes one, and the norm moves the bytes counted [above](09_memory_wall.ipynb#one-formula-eight-kernels).
- *in one kernel*, $8$ forward and $8$ backward, four values each time.

Of the time that norms and matrix products (six operations per weight and token) need together, what share do the norms take, for $d = 1024$ and $d = 4096$?

<details><summary>Answer</summary>

Per token, unfused norms need $2\cdot140\,d/(4.32\cdot10^{12})$ seconds, and the matrix products need $67.5\,d^2/(593\cdot10^{12})$. The ratio is $570/d$, which is $0.56$ and $0.14$, so the shares are $0.36$ and $0.12$. In one kernel the ratio is $65/d$, and the shares are $0.06$ and $0.016$. Attention, the activation and the output matrix make the shares smaller (see the first of the next tables).

</details>

| question | choices | ours |
| --- | --- | --- |
| Which training step is shorter at width 1,024: the uncompiled one with the fastest library's norms, or the compiled one with the model's own unfused norms? <!-- 09-compiling-beats-norm-kernels 09-norm-kernels-save-nothing-under-compile --> | the one with a library's norms; <!-- 0.95 --> both take about the same time; <!-- 1.05 --> the compiled one | <details><summary>show</summary>The compiled plain model is faster. A library's norm kernels mostly make its step longer.</details> |
"""

# %%
sized = {1024: (8, 8, 1024), 4096: (4, 4, 2048)}  # blocks, sequences, and tokens of each


def estimate_step(d, norms):
    """Estimate the GPU's time for a training step of Llama at this width, by part."""
    depth, batch, context = sized[d]
    heads = {"heads": d // 128, "kv_heads": d // 256}
    size = replace(SIZES["8B"], dim=d, depth=depth, hidden=11 * d // 4, vocab=32_000, **heads)
    how = {"way": "train", "batch": batch, "context": context, "given": Assumptions(norms)}
    return step(size, DEVICES["H200"], **how)


estimated, shares = [], {}
for d in sized:
    row = {"estimate for Llama, width": f"{d:,}"}
    for norms, way in (("eager", "in steps"), ("fused", "norm and sum in one kernel")):
        parts = estimate_step(d, norms)
        shares[d, norms] = parts["norms and sums"] / sum(parts.values())
        row |= {
            f"{way}, ms": 1e3 * sum(parts.values()),
            "% in norms, " + way: 100 * shares[d, norms],
        }
    estimated.append(row)
plots.table(estimated)

# %% [markdown]
r"""
We timed whole training steps with forward pass, backward pass and AdamW, in bfloat16 (`make bench-kernels BENCH=--steps`). *As shipped* is the plain model with the unfused norms of `transformers` or labkit. In the columns *nn.RMSNorm* (PyTorch), *ours* (normkernels), *Liger* and *QuACK*, norms of the named library replace the model's. In *ours, by fuse*, labkit's `fuse` also fuses the sums and the *rotations* of rotary position embeddings (RoPE). In rows marked *compile*, `torch.compile` compiles the model with its loss. Rows marked *eager* are uncompiled. We compiled Llama, Gemma 2 and Qwen 3 of `transformers` at width 1,024, and Llama also at 4,096.

A dash marks a variant that was not timed because one of its first losses differed by more than 2 per cent from the uncompiled plain model's. (At width 4,096 the loss soon became so small that a limit of 2 per cent was too strict.) The table shows the median time of a step in milliseconds, with the 20th and 80th percentiles in brackets, and the range of peak memory:
"""

# %%
names = {"shipped": "as shipped", "torch": "nn.RMSNorm", "norms alone": "ours", "normkernels": "ours, by fuse", "liger": "Liger", "quack": "QuACK"}  # fmt: skip


def tabulate(cases):
    """Tabulate milliseconds of a step, with the percentiles, and gigabytes at the peak."""
    table = []
    for (model, d, batch, time), every in cases.items():
        for mode in dict.fromkeys(mode for mode, _ in every):
            rows = {who: row for (how, who), row in every.items() if how == mode}
            took = {
                name: "{ms:.3g} [{p20:.3g}, {p80:.3g}]".format(**rows[who]) if who in rows else "–"
                for who, name in names.items()
            }
            peaks = [row["peak_bytes"] / 1e9 for row in rows.values()]
            size = {"width": f"{d:,}", "tokens": f"{batch * time:,}", "mode": mode}
            held = {"GB": f"{min(peaks):.1f} to {max(peaks):.1f}"}
            table.append({"model": model} | size | took | held)
    return plots.table(table)


about, steps = read_steps()
llamas = {case: rows for case, rows in steps.items() if case[0] == "llama"}
print(f"{about['device']}, torch {about['torch']}, transformers {about['transformers']}")
tabulate(llamas)

# %% [markdown]
r"""
The next table shows the other models: Qwen 3, Gemma 2 and OLMo 2 of `transformers`, and labkit's *pre*, *pre-qk-pre* (with norms on queries and keys) and Gemma 2:
"""

# %% tags=["hide-output"]
tabulate({case: rows for case, rows in steps.items() if case not in llamas})

# %%
turns = "steps, 20th to 80th percentile"
compiled_steps = {
    case: rows for case, rows in steps.items() if case[1] == 1024 and ("compile", "shipped") in rows
}
beaten = [
    min(compare_times(row, rows["compile", "shipped"], "ms") for (mode, who), row in rows.items() if mode == "eager" and who != "shipped")
    for rows in compiled_steps.values()
]  # fmt: skip
take_ratio(min(beaten), turns).claim(
    "09-compiling-beats-norm-kernels",
    "> 1",
    "On an H200, at width 1,024, a training step of the compiled plain model is faster than that of an uncompiled model with any library's fused norms.",
    found="On an H200, in {pairs} models of width 1,024, the fastest uncompiled training step with a library's fused norms takes {mean:.2f} to {most:.2f} times as long as the compiled step with the norms as shipped.",
    source="whole training steps, recorded on an H200 (data/bench/steps.json)",
    beside={"most": max(beaten)[0], "pairs": len(beaten)},
)
# %%
opaque = [
    rows["compile", who]["ms"] / rows["compile", "shipped"]["ms"]
    for rows in compiled_steps.values()
    for who in ("norms alone", "liger", "quack")
    if ("compile", who) in rows
]
computed(proportion([ratio > 1 for ratio in opaque]), unit="pairs of model and library").claim(
    "09-norm-kernels-save-nothing-under-compile",
    "> 0.5",
    "On an H200, at width 1,024, a library's norm kernels usually make a compiled training step longer.",
    found="On an H200, a compiled training step with a library's norm kernels takes {least:.2f} to {most:.2f} times as long as a compiled step with the norms as shipped. It takes longer in {k} of {n} pairs of model and library ({models} models).",
    source="whole training steps, recorded on an H200 (data/bench/steps.json)",
    beside={"least": min(opaque), "most": max(opaque), "models": len(compiled_steps)},
)
# %%
wide = [
    compare_times(rows["eager", "torch"], rows["eager", "normkernels"], "ms")
    for case, rows in steps.items()
    if case[1] == 4096 and ("eager", "normkernels") in rows
]
take_ratio(min(wide), turns).claim(
    "09-sums-and-rotations-pay-at-4096",
    "> 1.05",
    "On an H200, at width 4,096, norms fused with sums and rotations make an uncompiled training step shorter than nn.RMSNorm does.",
    found="On an H200, in {models} models of width 4,096, the uncompiled training step with nn.RMSNorm takes {mean:.2f} to {most:.2f} times as long as the step in which our kernels fuse norms, sums and rotations.",
    source="whole training steps, recorded on an H200 (data/bench/steps.json)",
    beside={"most": max(wide)[0], "models": len(wide)},
)
# %%
rows = llamas["llama", 1024, 8, 1024]
took = compare_times(rows["compile", "shipped"], rows["eager", "shipped"], "ms")
saved, high, low = (1 - part for part in took)
share = shares[1024, "eager"]
take_ratio([part - share for part in (saved, low, high)], turns).claim(
    "09-compiling-saves-more-than-free-norms",
    "> 0",
    "On an H200, at width 1,024, compiling Llama saves a larger share of a training step than its norms take by our estimate.",
    found="On an H200, at width 1,024, compiling saves {saved:.0%} of the measured time of Llama's training step. Unfused norms take {share:.0%} of the estimated time. The first share minus the second is {mean:.1%}.",
    source="Amdahl's law and the bytes counted above; training steps recorded on an H200 (data/bench/steps.json)",
    beside={"saved": saved, "share": share},
)

# %% [markdown]
r"""
Four conclusions follow:

- **At width 1,024, the host seems to set the pace of eager steps in all models but labkit's Gemma 2.** Llama's eager step takes far longer than the GPU needs by our estimate, which leaves out the loss and the optimizer. For the other models we have no estimate. We infer that the GPU waits while Python starts kernels one by one. Then it matters more how quickly Python starts a kernel than how fast the kernel runs. PyTorch's `nn.RMSNorm` has a slow kernel that is quick to start, and its eager step is the shortest or nearly the shortest in these models. It starts one kernel where the unfused norm starts several, and here saves a larger share of the step than at width 4,096.
- **Where the GPU sets the pace, fused kernels pay off.** At width 4,096, and in labkit's Gemma 2, all libraries' norms that we timed shorten the eager step by about the same amount. With `fuse`, where we timed it, the step is shorter still. So it pays to fuse more than the norm.
- **At width 1,024, compiling Llama saves more than all its norms cost by our estimate.** The compiler also fuses sums, rotations, activations and the loss, so it starts fewer kernels and keeps fewer tensors.
- **A compiler cannot look into a library's kernel.** It cannot fuse other operations into the kernel, and each call still costs time on the host. That is why `fuse` leaves the norms of a compiled model as they are: compiling with `fuse` gives the step of the compiled plain model.

So at width 1,024, compile first. At 4,096, Llama's compiled step and its eager step with our norms take nearly the same time, and its step with `fuse` was not timed. We measured at two widths on one GPU, and did not time decoding.

## What the sources say, and what we measured

*Transformer Anatomy* prints micro-benchmarks for one vector of width 8,192 on an H100.
"""

# %%
rows = []
for one in published("norm-microbenchmarks"):
    rate = 1024 * one["kilobytes"] / one["microseconds"] / 1e3  # GB/s
    rows.append({"norm": one["norm"], "µs": one["microseconds"], "KiB": one["kilobytes"],
                 "GB/s": rate, "% of 3,350": 100 * rate / 3350, "printed %": one["utilisation"]})  # fmt: skip
plots.table(rows)

# %%
exact(rows[0]["% of 3,350"]).claim(
    "09-ninety-six-kilobytes",
    "in [60, 62]",
    "The published figure of 96 KiB in 0.52 µs corresponds to 61 % of an H100's bandwidth.",
    found="Moving 96 KiB in 0.52 µs uses {mean:.1f} % of an H100's bandwidth of 3.35 TB/s. Computed in the same way, the highest share in that table is {most:.2f} %.",
    source="a table of Transformer Anatomy, part 7, recomputed",
    published="61 %",
    beside={"most": max(row["% of 3,350"] for row in rows)},
)

# %% [markdown]
r"""
The printed times are not credible either: starting a kernel alone takes longer. Moreover, 96 KiB assumes float32 parameters. With bfloat16 parameters a layer norm moves 64 KiB and an RMSNorm moves 48 KiB.

The same text divides a decoding step of a 70B model on four
GPUs into parts. For one sequence, each weight is read once per token, and the bandwidth sets a lower bound on the time of each part: the *floor* in the next table. The second card below checks another calculation of that text: replacing LayerNorm by RMSNorm is said to save $22.4\,\mu\mathrm s$ per token, which for 100 billion tokens per day would amount to about one GPU running all day.
"""

# %%
seventy = SIZES["70B"]
budget = {one["part"]: one["microseconds"] for one in published("decode-budget")}
ffn = sum(n * a * b for n, a, b in seventy.matrices if seventy.hidden in (a, b // 2))
heads = sum(n * a * b for n, a, b in seventy.matrices[:2])
everything = sum(n * a * b for n, a, b in seventy.matrices)
floor = {"QKV and output projections": heads, "feed-forward": ffn, "all weights": everything}
floor = {part: 2 * weights / 4 / h100.bandwidth * 1e6 for part, weights in floor.items()}
plots.table(
    {"part": part, "printed (µs)": round(budget[part]) if part in budget else "8,000 to 12,000", "floor (µs)": round(least)}
    for part, least in floor.items()
)  # fmt: skip

# %%
exact(floor["feed-forward"] / budget["feed-forward"]).claim(
    "09-the-feed-forward-is-below-its-floor",
    "<= 1",
    "In a published time budget for decoding with a 70B model, the time for the feed-forward layers is long enough to read their weights.",
    found="Reading the weights of the feed-forward layers takes at least {mean:.2f} times the printed time.",
    source="the decoding budget of Transformer Anatomy, part 7: 70B, four H100s",
    published="5,100 µs",
)
exact(100e9 * 22.4e-6 / 86_400).claim(
    "09-twenty-six-gpus",
    "in [0.5, 1.5]",
    "The 2.24 million GPU-seconds per day that are saved in a published example correspond to about one GPU that runs all day.",
    found="2.24 million GPU-seconds per day correspond to {mean:.1f} GPUs that run all day.",
    source="100 billion tokens a day, 22.4 µs saved for each; Transformer Anatomy, part 7",
    published="'roughly 26 GPU-days, or about one H100 continuously'",
)

# %% [markdown]
r"""
The $22.4\,\mu\mathrm s$ are for one sequence. In a batch, replacing LayerNorm by RMSNorm saves less per token, because all sequences share each kernel launch. On several GPUs it saves more GPU time, because each GPU computes every norm.

Fusing saves far more. A model of 80 blocks has 161 norms. If each norm and the sum before it run in one kernel instead of nine, a step becomes shorter by an estimated
$161\cdot8\cdot2\,\mu\mathrm s \approx 2.6$ ms at $2\,\mu\mathrm s$ per kernel, and by 6.4 ms at $5\,\mu\mathrm s$, where kernels are started one by one. Both are more than a hundred times $22.4\,\mu\mathrm s$. **First fuse,
then choose the formula.**

## Where it goes wrong

We try six typical bugs. In one, the derivative treats $r$ as a constant, and in another the gain's gradient leaves out the last row. The other four come from public code:

- a gain without a gradient: [unsloth's line](https://github.com/unslothai/unsloth/blob/015bdef0d94a241bcd94eec7a405b1700632180d/unsloth/kernels/rms_layernorm.py#L240), [issue 4550](https://github.com/unslothai/unsloth/issues/4550);
- $\nabla_y$ overwritten in place: [Liger's line](https://github.com/linkedin/Liger-Kernel/blob/5ef09d5fd7559c70ad843f6a7941e96fa81f9662/src/liger_kernel/ops/rms_norm.py#L187), [issue 370](https://github.com/linkedin/Liger-Kernel/issues/370);
- $\hat x$ recomputed from $y/g$ to save memory: [apex's pull request 1715](https://github.com/NVIDIA/apex/pull/1715). Its [line](https://github.com/NVIDIA/apex/blob/6424da3b4faa6c8f062da4a48c424fff3f02d42d/csrc/layer_norm_cuda_kernel.cu#L416) replaces a small $g$ by a larger one: nothing becomes NaN, but the gradient is wrong (we test the division without this line);
- padded columns in the variance: [Triton's issue 9838](https://github.com/triton-lang/triton/issues/9838).

Which of these six bugs do labkit's checks find? Each check tests *laws*, which every correct norm obeys. A seventh bug was ours ([How we know](09_memory_wall.ipynb#how-we-know)).
"""


# %% tags=["mechanism"]
def in_place(dy, *rest):
    """Write dX over dY: whoever needs dY next finds something else."""
    dx, dg = solved_backward(dy, *rest)
    return dy.copy_(dx), dg


def divided(dy, x, g, r):
    """Keep y and not x, as if y / g always gave x̂."""
    y = g * x / r
    return solved_backward(dy, y / g * r, g, r)


def padded_norm(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm over a tile of 2^k columns, without a mask after the mean is subtracted."""
    n = x.shape[-1]
    tile = F.pad(x, (0, (1 << (n - 1).bit_length()) - n))
    mean = tile.sum(-1, keepdim=True) / n
    variance = (tile - mean).square().sum(-1, keepdim=True) / n
    y = (x - mean) * (variance + eps).rsqrt()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


# %%
right = solved_backward

bugs = {
    "none": right,
    "r taken for a constant": lambda dy, x, g, r: (g * dy / r, right(dy, x, g, r)[1]),
    "no gradient for the gain": lambda dy, x, g, r: (right(dy, x, g, r)[0], torch.zeros_like(g)),
    "dX written over dY": in_place,
    "last row left out": lambda dy, x, g, r: (right(dy, x, g, r)[0], (dy * x / r)[:-1].sum(0)),
    "x̂ from y / g": divided,
}
reports = {name: check_backward(backward) for name, backward in bugs.items()}
reports["padding in the variance"] = check.layer_norm(padded_norm)
plots.table(
    {"bug": name, "laws that fail": len(report.failed),
     "the first law that fails": report.failed[0].name if report.failed else "–"}
    for name, report in reports.items()
)  # fmt: skip

# %% [markdown]
r"""
One bug, $y/g$, passes every law, because the division is exact enough for every gain that the check draws. Let one of four gains be zero:
"""

# %%
g_zero = torch.tensor([1.0, 0.0, 0.5, 2.0]).double()
x, dy = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(seed)).double()
came = divided(dy, x, g_zero, x.square().mean(-1, keepdim=True).sqrt())
lost_of_x, lost_of_gain = (int((~each.isfinite()).sum()) for each in came)
exact(lost_of_gain).claim(
    "09-a-gain-of-zero-cannot-be-divided-by",
    "> 0",
    "If a gain is zero, gradients are lost when the normalized input is recomputed from the output.",
    found="If one of four gains is 0 and the normalized input is recomputed from the output, {mean:.0f} of the 4 entries of the gain's gradient and {of_x} of the {n_of_x} entries of the gradient of x are NaN.",
    source="NVIDIA/apex#1715: x̂ recomputed from y and the gain",
    beside={"of_x": lost_of_x, "n_of_x": x.numel()},
)

# %% [markdown]
r"""
| you see | cause | probe | fix |
| --- | --- | --- | --- |
| normal loss at first, then NaN in one gain and in all gradients of earlier layers | $y/g$ with $g = 0$ | a gain of zero | keep $x$, not $y$ |
| correct outputs, slightly wrong gradients for rows far from 0, at widths that are not powers of 2 | forward and backward subtract different means (see *How we know*) | an offset of 10,000 in float32 | round the mean, then subtract |
| wrong if the width is not a power of 2 | padding is counted | `check.layer_norm` | mask after centring |
| wrong in huge batches only | offsets in 32 bits ([Liger 803](https://github.com/linkedin/Liger-Kernel/issues/803)) | more than $2^{31}$ values | row index in 64 bits |
| a sudden slowdown at one width | registers spill | the number of spilled bytes (the *stack*) in the machine code | more warps, or chunks |

## Exercises

**2 (by hand, 5 minutes).** A kernel of Liger-Kernel adds a residual to 2,048 rows of 8,192 float32 values and normalizes the sums. According to a pull request of that project, it takes $94.6\,\mu\mathrm s$ on an H100. How many bytes must it move, and what share of $3.35$ TB/s does it reach?
"""

# %% tags=["exercise"]
yours = {"bytes": ..., "share": ...}

# %%
values = 2048 * 8192
truth = {"bytes": 4 * 4 * values, "share": 16 * values / 94.6e-6 / 3.35e12}
check.answer(yours, truth, name="2", hint="two tensors are read and two written", rtol=0.01)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Read $x$ and the residual; write the sum, which the next block needs, and the normalized row.

</details>
<details><summary>Solution</summary>

$4\cdot4\cdot2048\cdot8192 = 268{,}435{,}456$ bytes. Over $94.6\,\mu\mathrm s$ that is $2.84$ TB/s, or $0.85$ of the bandwidth.

</details>

**3 (a proof, 15 minutes).** Our LayerNorm kernel subtracts a number $m$ *near* the mean (usually the rounded mean): $c = x - m$, $\delta = \overline c$. (a) Prove $\mathrm{var}(x) = \overline{c^2} - \delta^2$ for *any* $m$.
(b) For our longest rows, $m$ is the mean of the first quarter of the row. Show that then $\delta^2 \le 3\,\mathrm{var}(x)$. (c) By (b) the subtraction in (a) is safe. Why? And why is $\overline{x^2} - \bar x^2$ not safe?

<details><summary>Hint</summary>

For (b), let $a$ be the mean of the quarter and $b$ that of the rest. What is the variance between the two groups?

</details>
<details><summary>Solution</summary>

(a) $c - \delta = x - m - (\bar x - m) = x - \bar x$, and $\overline{(c - \delta)^2} = \overline{c^2} - 2\delta\,\overline c + \delta^2 = \overline{c^2} - \delta^2$.

(b) $\bar x = \tfrac14a + \tfrac34b$ and $m = a$, so $\delta = \bar x - a = \tfrac34(b - a)$. The variance is at least that between the groups:
$\mathrm{var}(x) \ge \tfrac14(a - \bar x)^2 + \tfrac34(b - \bar x)^2 = \tfrac14\cdot\tfrac9{16}(b-a)^2 + \tfrac34\cdot\tfrac1{16}(b-a)^2 = \tfrac3{16}(b-a)^2 = \tfrac13\delta^2$.

(c) $\overline{c^2} = \mathrm{var} + \delta^2 \le 4\,\mathrm{var}$: the difference is at least a quarter of the number from which $\delta^2$ is subtracted, so at most two bits are lost.
In $\overline{x^2} - \bar x^2$ the ratio is $\mathrm{var}/(\mathrm{var} + \bar x^2)$, which can be arbitrarily small.

</details>

**4 (open).** A colleague wants to replace RMSNorm by DyT "because it needs no statistics". Predict from the bytes how much time that saves in a fused kernel, and then look at
`dynamic_tanh` in the table of counts. Then estimate the time of a whole step for your own model, device and assumptions. Which result would change your prediction?
"""

# %% tags=["exercise"]
my_prediction = "…"
mine = replace(programs["norm and sum in two kernels"], of_bandwidth=0.5, split=8)
step(SIZES["405B"], DEVICES["H200"], way="train", batch=1, context=8192, given=mine)

# %% [markdown]
r"""
<details><summary>Hint</summary>

What does a tanh have to read and write? It need not wait for a sum over the row, but waiting moves no bytes.

</details>

## How we know

Our LayerNorm kernel had a bug, too. Triton computes the mean as the row's sum times $1/d$, and the assembler merged this product with the subtraction of the mean into one instruction. So the forward pass subtracted the unrounded mean, but the backward pass subtracted the rounded mean.
Two laws failed for this kernel on the H100, but none in the interpreter. At widths that are powers of two, such as those timed above, the product is exact and the bug has no effect. The kernel now rounds the mean first, and on an H200 both laws hold. `joined` models the old kernel: `rstd` is $1/r$, and `missed` is the mean that remains after the first subtraction.
"""


# %% tags=["mechanism"]
def joined(x):
    """Return x̂ as our bug made it: forward from the unrounded mean, backward from the rounded one."""
    exact_mean = x.sum(-1, keepdim=True).double() * torch.tensor(1 / x.shape[-1]).double()
    c = (x.double() - exact_mean).float()  # one operation, one rounding
    missed, kept = c.mean(-1, keepdim=True), exact_mean.float()
    rstd = torch.rsqrt(c.square().mean(-1, keepdim=True) - missed.square() + 1e-5)
    return (c - missed) * rstd, (x - kept - missed) * rstd


# %%
def lose_by_joining(width):
    """Relative errors of y (gain 1) and of the gain's gradient, for rows 10,000 away from 0."""
    far, dy = torch.randn(2, 64, width, generator=torch.Generator().manual_seed(seed))
    far += 1e4
    norm = layer_norm(far.double())
    wanted = [norm, (dy * norm).sum(0)]
    forward_one, backward_one = (one.double() for one in joined(far))
    made = [forward_one, (dy * backward_one).sum(0)]
    return [((one - of).norm() / of.norm()).item() for one, of in zip(made, wanted, strict=True)]


odd, even = lose_by_joining(41), lose_by_joining(64)
exact(odd[1]).claim(
    "09-the-mean-that-is-kept-must-be-the-one-subtracted",
    "> 1e-5",
    "If LayerNorm subtracts the mean before rounding it and stores the rounded mean for the backward pass, the gain's gradient becomes less exact, but the output does not.",
    found="In a model of our old LayerNorm kernel, at width 41, the relative error of the gain's gradient is {mean:.0e}, and that of the output is {forward:.0e}. At width 64, both errors are at most {even:.0e}.",
    source="a model of our LayerNorm kernel in float64 on a CPU, after a law that failed on an H100 (data/bench/hours)",
    beside={"forward": odd[0], "even": max(even)},
)

# %% [markdown]
r"""
## What you now know

- **What does a norm cost?** A large norm takes at least the time of moving its bytes (measured on one H100). The time of a small norm depends little on its bytes (measured only on a CPU). The arithmetic of a norm is almost free. <!-- 09-a-norm-moves-two-and-three-values 09-a-small-norm-costs-its-call 09-a-fused-norm-takes-as-long-as-copying -->
- **A quarter, or half a per cent?** By our estimate, unfused norms, with operations started one by one, take more than a quarter of the time of decoding one sequence, and norms in one kernel take a few per cent. To take half a per cent of that time, each norm would have to run in less time than a kernel takes to start. In training, unfused norms take an estimated eighth of the time in an 8B model, and more than a quarter in a model of width 1,024. <!-- 09-eager-norms-take-a-quarter-of-decoding 09-fused-norms-take-a-few-per-cent -->
- **Why do the numbers differ?** The share depends on the program: on its trips to memory and the number of its kernels. With many rows, LayerNorm in one kernel moves as many bytes as RMSNorm in one kernel, provided that LayerNorm's kernel keeps as much of each row on the chip. <!-- 09-eager-moves-nine-times-the-bytes 09-two-passes-cost-no-traffic -->
- **What does a norm kernel save?** In a training step, a kernel for the norm alone saves at most the time that the norms take, on the GPU and on the host. It saves neither the host's time for all other operations nor the time of the sums, rotations and activations, which a compiler fuses as well. On one H200, at width 1,024, compiling the plain model saved more than any library of norm kernels. <!-- 09-compiling-beats-norm-kernels 09-norm-kernels-save-nothing-under-compile 09-compiling-saves-more-than-free-norms -->
- The hard part of the backward pass is the gain's gradient, which is a sum across rows and costs registers. <!-- derived -->
- At our size, we detected no improvement of the loss with twice as many norms. At this one size, Pre-Norm trained at a high learning rate at which the model without norms diverged. <!-- 09-sandwich-earns-its-bytes 09-norms-buy-a-higher-rate -->

## To carry away

- **Forward.** Read $x$, write $y$: 4 bytes per value in bfloat16, with the statistics in float32.
- **Backward of RMSNorm.** $\nabla_x = \big(u - \hat x\,\mathrm{mean}(u\hat x)\big)/r$ with $u = g\odot\nabla_y$, and $\nabla_g$ is the sum of $\nabla_y\odot\hat x$ over all rows.
- **Law.** A kernel takes at least the largest of bytes over bandwidth, operations over peak, and the minimum that every kernel takes.
- **Use.** Try `torch.compile` first. Replace norms with fused kernels where you cannot compile, and time the whole step before and after.

| you see | cause | try |
| --- | --- | --- |
| a faster norm, but the step is no shorter | the step waits for the host | `torch.compile`, or larger batches |
| a small norm costs as much as a larger one | the call | CUDA graphs, or fusing with a neighbour |

## References

Works cited: [Ivanov et al. (2021)](https://arxiv.org/abs/2007.00072), [Williams et al. (2009)](https://doi.org/10.1145/1498765.1498785), [Tillet et al. (2019)](https://doi.org/10.1145/3315508.3329973), [Hsu et al. (2024)](https://arxiv.org/abs/2410.10989), [Dao-AILab (2025)](https://github.com/Dao-AILab/quack), [NVIDIA (2023)](https://www.nvidia.com/en-us/data-center/h100/), [Ding et al. (2021)](https://arxiv.org/abs/2105.13290), [Kim et al. (2025)](https://arxiv.org/abs/2502.02732).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
