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
layer norm did 0.17 % of the arithmetic in 25.5 % of the time. Part 7 of *Transformer Anatomy* ([errata](errata.md)) puts norms at 0.6
per cent of a decoding step. Do norms take a quarter of the time or half a per cent, and who decides?

**In short.**

- A norm computes little and moves much. A large norm waits for memory; a small one takes as long as it takes to start a kernel.
- So the program decides, not the formula. Operation by operation a norm goes to memory many times, in one kernel once. In one kernel LayerNorm moves as many bytes as RMSNorm, if there are many rows.
- Bytes, instructions and registers can be counted without a GPU. Times cannot: an H100 took those of single norms, and those of whole models are estimates here, and say so.
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
from labkit.costs.kernel_view import benches, kernel_source, read_times, recorded
from labkit.costs.operations import CountBytes, cost_of
from labkit.costs.roofline import DEVICES, SIZES, Assumptions, kernel_time, norm_share, step
from labkit.experiments import Experiment, Lab, claim, ladder, proportion, published
from labkit.norms import layer_norm, rms_norm
from labkit.plots.kernels import kernel_shares
from labkit.source import show

# %%
lab = Lab(
    "09_memory_wall",
    size=size,
    seed=seed,
    memory={"kernel": "1000M", "run": "850M"},
)
sizes = lab.sizes(
    # smoke, book, gpu
    rung=("smoke", "S"),
    timed_rows=(1024, 4096),
    summed_rows=(1024, 8192),
)
h100, facts = DEVICES["H100"], recorded()
programs = {
    "in steps, started one by one": Assumptions("eager", shortest=5e-6),
    "in steps, in one graph": Assumptions("eager"),
    "one kernel, the sum another": Assumptions("alone"),
    "one kernel, with the sum": Assumptions("fused"),
}


# %%
def draw_step(batch):
    """Draw what norms take of a decoding step, by the program that computes them."""
    wholes = {
        name: step(SIZES["8B"], h100, way="decode", batch=batch, context=4096, given=given)
        for name, given in programs.items()
    }
    return plots.share_bars(
        wholes,
        notes={name: f"{1e3 * sum(parts.values()):.3g} ms" for name, parts in wholes.items()},
        caption=f"An estimate, {batch} at once.",
    )


plots.explore(
    draw_step,
    [1, 8, 64],
    "programs",
    label="sequences decoded at once",
    caption="One formula, four programs: the share of a decoding step that norms take in a model of 8 billion parameters on one H100, "
    "with the sums of stream and branch before them. An estimate, not a measurement; the section *A whole model* has what goes in.",
)

# %% [markdown]
r"""
## The idea: count the bytes

How can an operation that computes next to nothing take a quarter of the time? Both numbers above are about a few lines of algebra. They come from different models, and one of them includes the softmax; but most of the difference, we will see, can lie in how the lines run.

One row goes with us to the end: a token of the first figure's model, $d = 4096$ values in bfloat16, at an RMSNorm. The **kernel**, which is what a
GPU calls a program that it starts as one piece, reads $4096\cdot2 = 8{,}192$ bytes and writes as many; its gain, which many rows share, is left out. In between it squares, adds,
scales and multiplies by a gain: four operations a value, $16{,}384$ in all.

The data sheet of an H100 promises $3.35\cdot10^{12}$ bytes a second from memory and $67\cdot10^{12}$ float32 operations a second
([NVIDIA, 2023](https://www.nvidia.com/en-us/data-center/h100/)). So the bytes need $16{,}384/3.35\cdot10^{12}$ seconds of the whole chip,
4.9 ns, and the arithmetic 0.24 ns. Memory takes twenty times as long. That processors compute faster than memory can supply them is called the *memory wall*. The data sheet counts a multiplication and an addition
done together as two operations. Ours cannot always be paired; then memory takes ten times as long.

What decides is the **arithmetic intensity**: operations for each byte. Our row has $4/4 = 1$. The device has such a number, too:
$67/3.35 = 20$ operations could be done while one byte arrives. It is called the **ridge**, and a program with fewer operations
for each byte waits for memory. [Williams et al. (2009)](https://doi.org/10.1145/1498765.1498785) drew this as a **roofline**:

$$\text{operations a second} \;\le\; \min(\text{peak},\ \text{intensity}\times\text{bandwidth}).$$

A product of $n$ tokens with a $d\times d$ matrix does $2nd^2$ operations and moves $2d^2 + 4nd$ bytes. For one token that is about
one operation a byte: *in decoding the matrices stand at the wall, too*. For 4,096 tokens it is 1,365.
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
    caption="The roof of an H100, from its data sheet. A norm stands far left of both ridges, and no batch moves it; a matrix climbs with the number of tokens.",
).named("roofline")  # fmt: skip

# %% [markdown]
r"""
A batch does not help a norm: tokens multiply its bytes and its operations alike, while a matrix is read once for all.

So who decides what a norm costs? There are **four suspects**: its arithmetic; its passes over the row, of which LayerNorm makes
two; its trips to memory; and the start of a kernel. The roof has cleared the first. Whether LayerNorm takes $5d$ operations, as *Transformer Anatomy* has it,
or $7d$, with sum, subtraction, square, sum, scale, gain and shift: nobody waits for them. Nor does float32 cost anything: norms never use the matrix units, and at the float32 rate, by the count above, the arithmetic is done long before the bytes have come.

### One formula, eight kernels

This is RMSNorm as the `transformers` library has it for Llama. Each operation reads its inputs from memory and
writes its result back. One kernel moves four bytes a value: two read, two written. How many do the lines below
move? Count before you look; float32 has four bytes, bfloat16 two. PyTorch's word for running each operation by itself is *eager*.
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
with CountBytes() as backward:
    torch.autograd.grad(y, (x, gain), torch.randn_like(y))
words = {"_to_copy": "cast", "pow": "square", "mul": "times"}
plots.trips(
    {
        "in steps": [
            (words.get(name, name), read / x.numel(), written / x.numel())
            for name, read, written in forward.each
        ],
        "one kernel": [("RMSNorm", 2, 2)],
    },
    caption="The lines above, counted while they run: what each operation fetches from memory, and what it brings back. "
    "The root is taken once a row, which is next to nothing. One kernel fetches the row, does all of it on the chip, and brings the result back.",
).named("trips-to-memory")

# %%
plots.dots(
    {
        f"{way}, {name}": [number]
        for way, count, least in (("forward", forward, 4), ("backward", backward, 6))
        for name, number in (("in steps", count.bytes / x.numel()), ("one kernel", least))
    },
    xlabel="bytes moved for each value",
    counted=True,
    caption="The lines above, counted while they run, and the least that a kernel must move: forward it reads the row and writes it, backward "
    "it reads two rows and writes one.",
).named("bytes-moved")

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
So what computes next to nothing may well take a quarter of the time: whatever runs by itself moves everything once more. A **fused kernel** does
all of it while the row is on the chip.

## Derivation: the way back

To write one kernel, forward *and* backward must be known in closed form. For a row $x$ of $d$ values and a gain $g$, RMSNorm is

$$\hat x = x/r,\qquad r = \Big(\tfrac1d\textstyle\sum_i x_i^2 + \epsilon\Big)^{1/2},\qquad y = g\odot\hat x.$$

Let $\nabla_y$ be the gradient of the loss with respect to $y$. Then $u = g\odot\nabla_y$ is the gradient with respect to $\hat x$. An entry $x_j$ acts in two
ways: by itself, and through $r$, where $\partial r/\partial x_j = x_j/(d\,r) = \hat x_j/d$. So

$$\nabla_{x_j} = \frac{u_j}{r} - \sum_i \frac{u_i x_i}{r^2}\,\frac{\hat x_j}{d}
\quad\Longrightarrow\quad \boxed{\nabla_x = \tfrac1r\,\big(u - \hat x\;\overline{u\hat x}\big)}$$

with the bar for the mean over the row. The gain sees every row, so its gradient is a sum: $\nabla_g = \sum_{\text{rows}} \nabla_y\odot\hat x$.

LayerNorm subtracts the mean first. That is a projection, and backward it is the same projection once more:
$\nabla_x = \tfrac1r\big(u - \bar u - \hat x\;\overline{u\hat x}\big)$, and the shift's gradient is $\sum_{\text{rows}}\nabla_y$.

Backward needs $x$, $\nabla_y$, $g$ and one number a row, $r$; LayerNorm needs the mean, too. Neither needs $y$ or $\hat x$.
So it can read two tensors and write one: three values moved where forward moves two.

### Your turn

**1 (in code, 5 minutes).** Write the backward pass of RMSNorm. Rows come first: `x` and `dy` have shape (rows, d), `r` has (rows, 1).
"""


# %% tags=["exercise"]
def my_backward(dy, x, g, r):
    """Return the gradients of x and of g, for y = g · x / r."""
    return ...


# %%
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


def check_backward(mine):
    def norm(x, weight=None, eps=1e-6):
        gain = torch.ones(x.shape[-1], dtype=x.dtype) if weight is None else weight
        return Fused.apply(x, gain, eps, mine)

    dy, x, (g, *_) = torch.randn(3, 3, 8).double().round(decimals=2)
    given = dy, x, g, x.square().mean(-1, keepdim=True).sqrt()
    if mine(*given) not in (..., None):
        return check.rms_norm(norm)
    wanted = torch.func.vjp(lambda x, g: rms_norm(x, g, eps=0.0), x, g)[1](dy)
    return check.function(mine, given, wanted, name="1", hint="dg is a sum over the rows")


check_backward(my_backward)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Make $\hat x$ and $u$ first. The mean needs `keepdim=True`.

</details>
"""


# %% tags=["solution"]
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


claim(
    "09-backward-as-derived",
    "The derived gradients of input and gain, in RMSNorm and LayerNorm, differ from autograd's by {mean:.0e} at most.",
    max(
        off_by(rms_norm, lambda x: x, g),
        off_by(layer_norm, lambda x: x - x.mean(-1, keepdim=True), g, b),
    ),
    said="The derived backward passes are autograd's.",
    source="the derivation above, against autograd through labkit's norms in float64",
    criterion="< 1e-11",
    kind="exact",
    tolerance=1e-11,
)

# %% [markdown]
r"""
### Why the gain's gradient is the hard part

A kernel is run by many small *programs* at once, each for a few rows; the next section has one line by line. The gradient of $x$ belongs to a row, and rows go to different programs. The gain's is a sum over *all* rows. Three
ways, with $s$ for the bytes of a value:

| way | bytes a value | price |
| --- | --- | --- |
| a second kernel reads $x$ and $\nabla_y$ again, by columns | $5s$ | two thirds more traffic |
| each program adds to one sum in memory, atomically | $3s$ | programs wait; the order of the sum, and its last digits, change from run to run |
| a fixed number of programs walks over all rows; each keeps its own sum, and these are added at the end | $3s$, and a little | registers |

The third is what this book's kernels do. The little is $8d$ bytes a program: with two programs on each of an H100's 132 multiprocessors and
8,192 of our rows $8\cdot264/(6\cdot8192) = 4.3$ per cent.

## Implementation: a kernel, line by line

The kernels are written in Triton ([Tillet et al., 2019](https://doi.org/10.1145/3315508.3329973)). A GPU is a number of
*multiprocessors*, each with registers and a small fast *shared memory*. Threads run on them in *warps* of 32. A Triton
*program* handles a few rows with a few warps; the compiler decides which thread holds which value. This is RMSNorm, forward.
"""

# %%
kernel_source("rms_norm", "_forward")

# %% [markdown]
r"""
| line | why so |
| --- | --- |
| `.to(tl.int64)` | in 32 bits an offset of $2^{31}$ is negative: row 524,288 of ours |
| `x = tl.load(…)` | the only reading of the row; float32 is free, says the roof |
| `rstd = tl.rsqrt(squares / N + eps)` | $1/r$; four bytes a row are kept for the way back |
| `y = _gained(x * rstd, …)` | **the second pass over the row, and no second reading**: `x` is still in registers |
| `for start in range(…)` | rows above 32,768 values do not fit: beyond the first chunk of 16,384 they are read twice |

LayerNorm takes the mean, then the squares of what is left: the two-pass variance
which, one reads, a fused kernel avoids. It need not: both passes run over registers. Backward is one kernel for both norms. Open the listing, and find the boxed formula in it.
"""

# %% tags=["hide-output", "remove-input"]
kernel_source("norm_backward", "_backward")

# %% [markdown]
r"""
| line | why so |
| --- | --- |
| `for first in tl.range(…)` | the walk over all rows, the next ones already on their way |
| `standard = _standard(…)` | $\hat x$, made again from $x$ and $r$: cheaper than reading it |
| `dweight += dy * rounded` | this program's sum for the gain, in float32 registers |
| `tl.store(partials_ptr …)` | a row that belongs to this program alone: nobody waits, and the order of the sum is fixed |

## Predict

Between which two numbers do you expect each answer? A negative distance *below* means above.

| question | axis | ours |
| --- | --- | --- |
| LayerNorm passes twice over a row, RMSNorm once. How many times as many activations does LayerNorm's fused kernel move as RMSNorm's? <!-- 09-two-passes-cost-no-traffic 09-a-norm-moves-two-and-three-values --> | 0 to 3 times | <details><summary>show</summary>A fused norm moves two values forward and three backward. LayerNorm's second pass costs no traffic.</details> |
| 256 threads for our row: before we compiled, we wrote down how many loads, stores, exchanges between threads, roots and roundings a thread makes. How many of the five numbers are right? <!-- 09-the-code-is-as-predicted --> | 0 to 5 numbers, whole | <details><summary>show</summary>With 256 threads for our row, the machine code has 4 loads, 2 stores, 8 exchanges between threads, one root, 8 roundings.</details> |
| A thread has 255 registers at most. One that must hold 256 values: how many bytes does it spill? <!-- 09-a-row-too-long-for-its-warps-spills --> | 0 to 1000 bytes | <details><summary>show</summary>A thread that must hold 256 values spills.</details> |
| With 8,192 rows added up in bfloat16, by how much of its norm is the gain's gradient off? <!-- 09-gain-gradients-are-lost-in-bfloat16 --> | 0.01 to 100 %, log | <details><summary>show</summary>With 8,192 rows added up in bfloat16, the gain's gradient is off by more than a twentieth.</details> |
| A large norm on a CPU: in what share of paired turns does it take more than $1.5$ times as long in steps as in one piece? <!-- 09-eager-is-slower-on-a-cpu-too 09-a-small-norm-costs-its-call --> | 0 to 100 % | <details><summary>show</summary>On a CPU a large norm is slower in steps; a small one costs its call.</details> |
| Sandwich has twice as many norms as Pre-Norm. How far below Pre-Norm does it end? <!-- 09-sandwich-earns-its-bytes --> | −0.05 to 0.05 nats | <details><summary>show</summary>Twice the norms buy a lower loss.</details> |
| At a rate that is too high, what share of runs diverges without norms, minus the share of Pre-Norm's? <!-- 09-norms-buy-a-higher-rate --> | −100 to 100 % | <details><summary>show</summary>At a rate that is too high, a model without norms diverges and Pre-Norm does not.</details> |
| By the estimate, decoding one sequence, what share of the time do norms in steps take, at $5\,\mu\mathrm s$ a kernel? <!-- 09-eager-norms-take-a-quarter-of-decoding 09-fused-norms-take-a-few-per-cent --> | 0 to 100 % | <details><summary>show</summary>By the estimate, decoding one sequence, norms in steps at $5\,\mu\mathrm s$ a kernel take more than a quarter of the time; in one kernel, in a graph, a few per cent.</details> |

## Measure

### Bytes, in an interpreter

Triton can interpret a kernel with NumPy, slowly. Each load and store then passes through Python, where it is counted. The table has activations only: how many numbers a kernel reads and writes
for each entry of its input. The few kilobytes of gain, which all programs read, are left out. Backward a row of more than 8,192 values does not fit and is read twice: 5 in place of 3. Forward that happens beyond 32,768.
"""

# %%
expected = {"rms_norm": (2, 3), "layer_norm": (2, 3), "add_rms_norm": (4, 4),
            "dynamic_tanh": (2, 3), "ngpt_update": (3, 5)}  # fmt: skip
width, ways = {"fp32": 4, "bf16": 2}, ("forward", "backward")
moved = {
    (one["case"], one["n"], one["dtype"], way): one[way]["activations"]
    / (one["m"] * one["n"] * width[one["dtype"]])
    for one in facts["interpreted"]
    for way in ways
}
plots.table(
    [
        {"kernel": case, "values a row": n, "forward, predicted": expected[case][0] + (n > 32768) * (1 - 16384 / n), "counted": moved[case, n, dtype, "forward"],
         "backward, predicted": expected[case][1] if n <= 8192 else 5, "counted ": moved[case, n, dtype, "backward"]}
        for case, n, dtype in dict.fromkeys(key[:3] for key in moved)
        if case in expected and dtype == "fp32"
    ]
)  # fmt: skip

# %%
claim(
    "09-kernels-equal-their-formulas",
    "Interpreted in float32, outputs and gradients of the kernels differ from float64 by {mean:.0e} of a tensor's size at most.",
    max(max(one["errors"].values()) for one in facts["interpreted"] if one["dtype"] == "fp32"),
    said="The kernels compute their formulas.",
    source="the formulas in float64 (normkernels.formulas)",
    criterion="< 1e-5",
    kind="exact",
    tolerance=1e-5,
)
claim(
    "09-a-norm-moves-two-and-three-values",
    "Counted byte by byte, forward moves 2 and backward 3 activations for each value; the largest deviation is {mean:.0f}.",
    max(
        abs(moved[norm, 4096, "bf16", way] - wanted)
        for norm in ("rms_norm", "layer_norm")
        for way, wanted in zip(ways, expected[norm], strict=True)
    ),
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
    max(moved["layer_norm", n, "fp32", w] / moved["rms_norm", n, "fp32", w] for n in (4096, 16384, 65536) for w in ways),
    said="LayerNorm's two passes cost no traffic.",
    source="against 'the two-pass algorithm means the data must be loaded from memory twice' (Transformer Anatomy, part 7)",
    published="one pass 'halves the memory bandwidth requirement'",
    criterion="in [1, 1]",
    kind="exact",
)  # fmt: skip

# %% [markdown]
r"""
The second suspect is cleared: passes over a row that stays on the chip cost no traffic. "LayerNorm needs three passes over memory, BatchNorm
one" is true of unfused code only. Look at
`add_rms_norm`, too, which has the sum of stream and branch inside: 4 and 4. Two kernels move 5 forward: the sum reads two and
writes one, the norm reads one and writes one. Backward they move 6: the norm 3, and 3 to add the gradient that came along the skip.

### Instructions, without a GPU

A kernel can be *compiled* for a GPU that is not there: the H100, which compilers call sm_90. Our row gets 8 warps, 256 threads of 16 values each. So a thread loads its values in
$16\cdot2/16 = 2$ instructions of 16 bytes, the widest on an H100, the gain in 2 more, and stores in 2. The sum takes $\log_2 32 = 5$ exchanges
in a warp and $\log_2 8 = 3$ over the warps. Results are rounded to bfloat16 two at a time.
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
    [
        {"instruction": name, "what it does": what, "predicted": count, "in the code": listed.get(name, 0)}
        for name, (what, count) in predicted.items()
    ]
)  # fmt: skip

# %%
claim(
    "09-the-code-is-as-predicted",
    "Of five predicted counts of instructions for an H100, {mean:.0f} are in the compiled code.",
    sum(listed.get(name, 0) == count for name, (_, count) in predicted.items()),
    said="The compiled code has the instructions that we predicted.",
    source="16 values a thread, compiled for sm_90 (data/kernels.json)",
    criterion="in [5, 5]",
    kind="exact",
)

# %% [markdown]
r"""
A multiprocessor has 65,536 registers, and a thread may use 255. Forward, a thread of ours holds 16 values. Backward it holds 16 each of the
gain, its gradient, $x$ and $\nabla_y$, and for LayerNorm the shift's gradient. What does not fit *spills* into memory. With two programs of 256 threads a multiprocessor, each
thread has $65536/512 = 128$.
"""


# %%
def registers(norm, kernel):
    """Registers of a thread by length of row, in bfloat16."""
    return {
        one["n"]: [one["registers"]]
        for one in facts["compiled"]
        if (one["case"], one["dtype"], one["forced"]) == (norm, "bf16", False)
        and one["kernel"].endswith(kernel)
    }


plots.curves(
    {
        f"{name}, {way}": registers(norm, f"._{way}")
        for way in ways
        for name, norm in (("RMSNorm", "rms_norm"), ("LayerNorm", "layer_norm"))
    },
    xlabel="values of a row",
    ylabel="registers of a thread",
    logx=True,
    reference={"most that there are": 255, "its share": 128},
    ylim=(0, 270),
    counted=True,
    caption="Registers of the compiled kernels (sm_90, bfloat16). Forward has room; backward uses its whole share at nearly every length. Beyond 8,192 values it works in chunks.",
).named("registers")

# %%
forced = {one["warps"]: one for one in facts["compiled"] if one["forced"]}
claim(
    "09-a-row-too-long-for-its-warps-spills",
    "With one warp for 8,192 values, 256 a thread, a thread spills {mean:.0f} bytes; with two warps {two:.0f}.",
    forced[1]["stack"],
    two=forced[2]["stack"],
    said="A row too long for its warps spills registers.",
    source="machine code for sm_90 (data/kernels.json)",
    criterion="> 0",
    kind="exact",
)
claim(
    "09-nothing-spills-as-configured",
    "As configured, the kernels spill {mean:.0f} bytes, forward and backward, up to rows of 65,536 values.",
    max(one["stack"] for one in facts["compiled"] if not one["forced"]),
    said="As configured, no kernel spills a register.",
    source="machine code for sm_90 (data/kernels.json)",
    criterion="in [0, 0]",
    kind="exact",
)

# %% [markdown]
r"""
### The sum over rows

Why not keep the gain's gradient in bfloat16, and save registers? A public kernel once did that within each block of rows
([Liger 950](https://github.com/linkedin/Liger-Kernel/issues/950)). bfloat16 keeps eight binary digits: once a sum is 256 times a term, the term is rounded away. Here is the extreme case: 8,192 rows of random terms for 64
gains, added one after another.
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
    exact = terms.double().sum(0)
    off = (summed(terms, dtype) - exact for dtype in (torch.bfloat16, torch.float32))
    return [(each.norm() / exact.norm()).item() for each in off]


errors = [lost(s) for s in lab.seeds(5)]
claim(
    "09-gain-gradients-are-lost-in-bfloat16",
    "Added up in bfloat16, the gain's gradient is off by {mean:.0%} of its norm; in float32 by {single:.0e}.",
    [half for half, _ in errors],
    single=fmean(single for _, single in errors),
    said="A gain's gradient that is added up in bfloat16 is off by more than a twentieth.",
    source="a bug of a public kernel taken to its end: its sum within blocks of rows ran in bfloat16 (linkedin/Liger-Kernel#950)",
    criterion="> 0.05",
    kind="at",
)

# %% [markdown]
r"""
### Both walls on a CPU

Here we have a clock. PyTorch's fused layer norm takes turns with the formula in steps, and the two suspects that are left
each predict something. If trips to memory decide, fusing pays where a tensor is larger than the caches. If the start decides, a *small* norm
costs its call, whatever its size.
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
claim(
    "09-eager-is-slower-on-a-cpu-too",
    "In {mean:.0%} of the paired turns the formula in steps takes over 1.5 times as long as the fused norm, at {mebibytes:.0f} MiB.",
    proportion([steps > 1.5 * one for one, steps in large]),
    mebibytes=sizes.timed_rows * 4096 * 4 / 2**20,
    said="On a CPU, too, the formula in steps is slower than the fused norm.",
    unit="turns",
    source="the memory wall, on a CPU; turns of one process are the sample",
    criterion="> 0.5",
    kind="at",
    tolerance=0.45,
)
claim(
    "09-a-small-norm-costs-its-call",
    "A row of 1,024 values, 16 times the bytes of one of 64, takes less than 4 times as long in {mean:.0%} of the turns.",
    proportion([long < 4 * short for long, short in small]),
    said="A small norm costs its call: sixteen times the bytes take far less than sixteen times as long.",
    unit="turns",
    source="the cost of starting a kernel, on a CPU; turns of one process are the sample",
    criterion="> 0.5",
    kind="at",
    tolerance=0.45,
)

# %% [markdown]
r"""
Both suspects are real: memory for large tensors, the start for small ones. By how much depends on the machine, so the cards count turns. On a GPU a start is commonly taken to cost microseconds, where our row takes nanoseconds.

### What the bytes buy

A recipe chooses how many norms there are. If a norm costs bytes, it should buy something. A lower loss? The book's shared
*ladder* trains recipes at growing sizes, its *rungs*, each recipe at its own rate. The smallest, S, has six blocks of width 32 and reads 20 characters a
parameter; five to twenty seeds report, none of which chose a rate. Sandwich
([Ding et al., 2021](https://arxiv.org/abs/2105.13290)) normalizes each sublayer's output, too, Peri ([Kim et al., 2025](https://arxiv.org/abs/2502.02732))
also the embedding, QK-Norm queries and keys.
"""

# %%
field = {"no norm": "none", "Pre-Norm": "pre", "Sandwich": "sandwich", "QK-Norm": "qk", "Peri": "peri"}  # fmt: skip
climbed = lab.ladder([arm for arm in ladder.ARMS if arm in {*field.values(), "no attention"}])
token = torch.zeros(1, 8, dtype=torch.long)
bytes_of = {
    name: cost_of(ladder.build_base_run(sizes.rung, arm).model.build(), token).norm_bytes
    for name, arm in field.items()
}
plots.dots(
    {
        f"{name}, {bytes_of[name]:,.0f} bytes": [*ladder.reported(climbed, arm)[sizes.rung].values()]
        for name, arm in field.items()
    },
    xlabel="test loss (nats)",
    caption="Five recipes, each at its own best rate, and the bytes that their norms move for a token of width 32, in bfloat16. "
    "From top to bottom the bytes never fall; the losses follow no such order.",
    provenance=lab.provenance(climbed.where(stage="final", rung=sizes.rung)),
).named("bytes-and-loss")  # fmt: skip

# %%
claim(
    "09-sandwich-earns-its-bytes",
    "On rung {rung} Sandwich's norms move {times:.2f} times the bytes of Pre-Norm's, and it ends {apart:.4f} nats {side} Pre-Norm.",
    {sizes.rung: ladder.lead(climbed, "sandwich")[sizes.rung]},
    times=bytes_of["Sandwich"] / bytes_of["Pre-Norm"],
    said="Twice the norms, each recipe at its own rate, buy a lower loss.",
    source="this book: what costs more should buy more",
    criterion="> 0",
    kind="best",
    lacking=ladder.lacking(climbed, "sandwich"),
)

# %% [markdown]
r"""
Where norms stand seems to matter more than their bytes: QK-Norm moves what Sandwich moves, and its lead over Pre-Norm has a card in [chapter 04](04_qk_norm.ipynb).
Kim et al. report lower losses with Peri, for models of up to 3.2 billion parameters; shelf C shows what output norms do to the stream: [Norms on what is written](C_zoo.ipynb#norms-on-what-is-written). A model with no norm at all, at its best rate, ends above Pre-Norm, but not far above:
[chapter 10](10_choosing_a_norm.ipynb) has the card. So what else do Pre-Norm's norms buy? Room:
"""

# %%
high = 0.1 if size == "smoke" else 0.0316
hot = {
    arm: lab.run(
        Experiment(
            ladder.configure_run(ladder.build_base_run(sizes.rung, arm), high, 0),
            {"seed": list(ladder.SEEDS)},
        )
    )
    for arm in ("none", "pre")
}
gone = {
    arm: proportion(runs.values(lambda record: record.diverged_at is not None))
    for arm, runs in hot.items()
}
claim(
    "09-norms-buy-a-higher-rate",
    f"At rate {high:g}, about three times Pre-Norm's best, {{k}} of {{n}} runs diverge without norms, {{other_k}} of {{other_n}} with Pre-Norm.",
    gone["none"] - gone["pre"],
    said="At a high rate the network without norms diverges and Pre-Norm does not.",
    source="the other reason to normalize: stable at higher rates (chapters 00 and 02)",
    criterion="> 0",
    kind="at",
)

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
tried = ladder.configure_run(ladder.build_base_run(sizes.rung, "pre"), high, 0)
lab.train_live(Experiment(tried, {"seed": [0]}))

# %% [markdown]
r"""
### Times on a GPU

Counts are not times. `make bench-kernels` took those of our kernels on an H100, in CUDA graphs, over tensors of 64 MiB and more; each result was compared with the formula in float64 before it was timed. Beside them ran PyTorch's own operators, the formula
under `torch.compile`, the same formula in steps, and Liger-Kernel. All other times on this page are estimates, and say so, or were printed by others.

If bytes decide, a fused norm takes as long as a kernel that reads and writes as many bytes and computes nothing. That time is the 100 per cent of the figure.
"""

# %%
h100_bench = benches()["NVIDIA H100 80GB HBM3"]
shown = ("rms_norm", "layer_norm", "add_rms_norm")
kernel_shares(h100_bench, shown).named("times-on-an-h100")

# %%
fro, back = (
    [times for kernel in shown for times in read_times(h100_bench, kernel, way).values()]
    for way in ways
)
own = [times["copy"] / times["normkernels"] for times in fro]
claim(
    "09-a-fused-norm-takes-as-long-as-copying",
    "Forward, at {k} of {n} sizes, the three kernels reach nine tenths of a copying kernel's speed; the slowest {least:.0%}.",
    proportion([share > 0.9 for share in own]),
    least=min(own),
    said="On an H100 a large norm in one kernel takes as long as copying its bytes.",
    unit="sizes",
    source="the memory wall; times recorded on an H100 (data/bench)",
    criterion="> 0.5",
    kind="at",
)
eager = [
    times["eager"] / times["normkernels"]
    for kernel in shown[:2]
    for times in read_times(h100_bench, kernel).values()
]
claim(
    "09-in-steps-a-norm-is-slower-on-a-gpu",
    "At {k} of {n} sizes RMSNorm and LayerNorm in steps take over 9 times as long as in one kernel; {least:.0f} times at least.",
    proportion([ratio > 9 for ratio in eager]),
    least=min(eager),
    said="On an H100 a large norm in steps takes more than nine times as long.",
    unit="sizes",
    source="this chapter's count: nine times the bytes; times recorded on an H100 (data/bench)",
    criterion="> 0.5",
    kind="at",
)
compiled = [times["compile"] / times["normkernels"] for times in fro]
claim(
    "09-the-compiler-is-as-fast-forward",
    "Forward, at {k} of {n} sizes, the compiler's kernels take at most a tenth longer; they take {least:.2f} to {most:.2f} times as long.",
    proportion([ratio < 1.1 for ratio in compiled]),
    least=min(compiled),
    most=max(compiled),
    said="Forward, on an H100, kernels by hand gain little over the compiler's.",
    unit="sizes",
    source="QuACK's and Liger's figures, where forward passes lie close together; times recorded on an H100 (data/bench)",
    criterion="> 0.5",
    kind="at",
)
rivals = [
    min(us for who, us in times.items() if who not in ("copy", "normkernels"))
    / times["normkernels"]
    for times in back
]
claim(
    "09-backward-our-kernels-are-ahead",
    "Backward, at {k} of {n} sizes, our kernels are the fastest; the best of the others takes {least:.2f} to {most:.2f} times as long.",
    proportion([ratio > 1 for ratio in rivals]),
    least=min(rivals),
    most=max(rivals),
    said="Backward, on an H100, our kernels are ahead of PyTorch, the compiler and Liger.",
    unit="sizes",
    source="the walk over all rows; times recorded on an H100 (data/bench)",
    criterion="> 0.5",
    kind="at",
)

# %% [markdown]
r"""
So the wall stands where bytes put it. In steps a norm takes longer still than nine times the bytes: the formula under test computes in float32, and its intermediate results are twice as wide. These times were known before the cards were written, so nothing here was forecast. Two of our own kernels
missed their targets: the backward pass of queries and keys with rotation, and unit vectors along columns. All sizes stand in `data/bench`.
"""


# %% [markdown]
r"""
What others print for an H100 can be checked: QuACK's README ([Dao-AILab, 2025](https://github.com/Dao-AILab/quack)), and pull requests of
Liger-Kernel, the project of [Hsu et al. (2024)](https://arxiv.org/abs/2410.10989). Bytes by our count over time as printed
is a bandwidth. Does the printed share of $3.35$ TB/s come out?
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
Forward, good kernels come near what the memory can do: see the column *ours*. Backward the spread is wide. PyTorch's backward pass has a separate kernel for the gain's gradient, which
reads everything again. That explains a factor of $5/3$ between it and a good kernel. The table shows a larger one, and what makes the rest we do not know.

## A whole model

Now the quarter and the half per cent. In *decoding* a model makes one token a step, from all that came before; reading a prompt at once is *prefill*. Behind the first figure is a list of the kernels in one step of a Llama-like model. Each takes the largest of three
times: bytes over bandwidth, operations over peak, and the shortest time that any kernel takes.
"""

# %%
show(kernel_time, Assumptions)

# %% [markdown]
r"""
You can move the assumptions. The shortest kernel takes $2\,\mu\mathrm s$ in a CUDA graph, a list of kernels recorded once and started as a whole,
and $5\,\mu\mathrm s$ where Python starts it. Communication between GPUs is left out.

Decoding one sequence, our 8B model must read 15 GB of weights: $15/3.35 \approx 4.5$ ms at least. Its 65 norms are eight operations each and a sum:
$65\cdot9\cdot5\,\mu\mathrm s = 2.9$ ms in steps, more than a third of all. In one kernel with the sum they are $65\cdot2 = 130\,\mu\mathrm s$, under three per cent.

*By hand.* How short would one of these 65 norms have to be for all to take 0.6 per cent of 4.5 ms? Could a kernel be that short?

<details><summary>Answer</summary>

$0.006\cdot4.5\ \mathrm{ms} = 27\,\mu\mathrm s$, over 65 norms $0.42\,\mu\mathrm s$. No: a start takes $2\,\mu\mathrm s$, in a graph. With 64 sequences at once a step is longer and has as many kernels, so the share comes near: see the next table.

</details>
"""

# %%
decoding = {
    name: norm_share(SIZES["8B"], h100, way="decode", batch=1, context=4096, given=given)
    for name, given in programs.items()
}
claim(
    "09-eager-norms-take-a-quarter-of-decoding",
    "Under these assumptions eager norms and sums take {mean:.0%} of a decoding step of an 8B model; in a graph {graph:.0%}.",
    decoding["in steps, started one by one"],
    graph=decoding["in steps, in one graph"],
    said="At 5 µs a kernel and one sequence, eager norms take more than a quarter of a decoding step.",
    source="the estimate above: 65 norms of nine operations, 5 µs each",
    criterion="> 0.25",
    kind="exact",
)
claim(
    "09-fused-norms-take-a-few-per-cent",
    "Fused and in a CUDA graph they take {mean:.1%}.",
    decoding["one kernel, with the sum"],
    said="Fused and in a CUDA graph, norms take a few per cent of a decoding step.",
    source="the estimate above: 65 norms of one kernel, 2 µs each",
    published="'0.2-0.3 % of the total decode latency' saved, norms 0.6 % of it (Transformer Anatomy, part 7, for a 70B model)",
    criterion="< 0.05",
    kind="exact",
)

# %% [markdown]
r"""
A quarter and a few per cent can both be right, of different programs. And training? With the shortest kernel at $2\,\mu\mathrm s$ throughout:
"""

# %%
uses = {"decode": 1, "decode, 64 at once": 64, "prefill": 1, "train": 1}
plots.table(
    [
        {"an 8B model on one GPU": use,
         **{f"{name}, % in norms": 100 * norm_share(SIZES["8B"], h100, way=use.split(",")[0], batch=batch, context=4096, given=given)
            for name, given in [*programs.items()][1:]}}
        for use, batch in uses.items()
    ]
)  # fmt: skip

# %% [markdown]
r"""
*What* is slow differs. Decoding one sequence, it is the start of kernels; prompts and training, their bytes. In decoding a graph helps; in training only fusing does.
BERT's quarter has the softmax in it, and BERT is narrower: a matrix grows with $d^2$, a norm with $d$. With many
sequences at once, reading their keys and values takes the time: move the first slider. Shelf D has the same estimate for three sizes, LayerNorm against RMSNorm: [What a norm costs at inference](D_numbers.ipynb#what-a-norm-costs-at-inference).

## What the sources say, and what we measured

*Transformer Anatomy* has micro-benchmarks, for one vector of width 8,192 on an H100.
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
    "96 KiB in 0.52 µs are {mean:.1f} % of 3.35 TB/s; the highest of the four rows is {most:.1f} %.",
    rows[0]["% of 3,350"],
    most=max(row["% of 3,350"] for row in rows),
    said="The table's 96 KiB in 0.52 µs are 61 % of the bandwidth.",
    source="a table of Transformer Anatomy, part 7, recomputed",
    published="61 %",
    criterion="in [60, 62]",
    kind="exact",
)

# %% [markdown]
r"""
The times are no better: they are shorter than a kernel takes to start. And 96 KiB supposes parameters in float32; Llama's
bfloat16 makes 64 KiB for a layer norm and 48 for an RMSNorm. The same text divides a decoding step of a 70B model on four
GPUs into parts. But each weight is read once a token, and that has a floor:
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
    [
        {"part": part, "printed (µs)": round(budget[part]) if part in budget else "8,000 to 12,000", "floor (µs)": round(least)}
        for part, least in floor.items()
    ]
)  # fmt: skip

# %%
claim(
    "09-the-feed-forward-is-below-its-floor",
    "Reading the feed-forward's weights takes {mean:.2f} times the printed time at least.",
    floor["feed-forward"] / budget["feed-forward"],
    said="The printed time of the feed-forward suffices to read its weights.",
    source="the decoding budget of Transformer Anatomy, part 7: 70B, four H100s",
    published="5,100 µs",
    criterion="<= 1",
    kind="exact",
)
claim(
    "09-twenty-six-gpus",
    "2.24 million GPU-seconds a day are {mean:.1f} GPUs that run all day.",
    100e9 * 22.4e-6 / 86_400,
    said="The saving of the example is about one GPU that runs all day.",
    source="100 billion tokens a day, 22.4 µs saved for each; Transformer Anatomy, part 7",
    published="'roughly 26 GPU-days, or about one H100 continuously'",
    criterion="in [0.5, 1.5]",
    kind="exact",
)

# %% [markdown]
r"""
Two more corrections. The sequences of a batch share each kernel's start, so the saving per token is smaller. And when several GPUs share a model, each of them computes every norm, so it is larger. *Transformer Anatomy*
counts $22.4\,\mu\mathrm s$ a token saved by RMSNorm in place of LayerNorm. By our estimate one kernel in place of nine, at $2\,\mu\mathrm s$ each, saves the model's 161 norms
$161\cdot16\,\mu\mathrm s \approx 2.6$ ms; started one by one, at $5\,\mu\mathrm s$ each, 6.4 ms. **First fuse,
then choose the formula.**

## Where it goes wrong

Kernels have bugs of their own. One is a slip in the derivation: $r$ taken for a constant. One is always near: the last row left out. Four stand or stood in public code:

- a gain without a gradient: [unsloth's line](https://github.com/unslothai/unsloth/blob/015bdef0d94a241bcd94eec7a405b1700632180d/unsloth/kernels/rms_layernorm.py#L240), [issue 4550](https://github.com/unslothai/unsloth/issues/4550);
- a $\nabla_y$ overwritten in place: [Liger's line](https://github.com/linkedin/Liger-Kernel/blob/5ef09d5fd7559c70ad843f6a7941e96fa81f9662/src/liger_kernel/ops/rms_norm.py#L187), [issue 370](https://github.com/linkedin/Liger-Kernel/issues/370);
- $\hat x$ computed back from $y/g$ to save memory: [apex's pull request 1715](https://github.com/NVIDIA/apex/pull/1715). Its [line](https://github.com/NVIDIA/apex/blob/6424da3b4faa6c8f062da4a48c424fff3f02d42d/csrc/layer_norm_cuda_kernel.cu#L416) keeps a small $g$ away from 0: then nothing is NaN, and the gradient is wrong;
- padded columns in the variance: [Triton's issue 9838](https://github.com/triton-lang/triton/issues/9838).

Another was ours, until an H100 ran it. LayerNorm's kernel divided a sum by $d$, subtracted the mean and kept it for the way back. Divided by a constant means multiplied by its reciprocal; the assembler joined that product with the subtraction and rounded once, while the mean that was kept had been rounded
by itself. Forward was right, backward used another mean.

Which of them does a check notice?
"""


# %% tags=["mechanism"]
def in_place(dy, *rest):
    """Write dX over dY: whoever needs dY next finds something else."""
    dx, dg = solved_backward(dy, *rest)
    return dy.copy_(dx), dg


def divided(dy, x, g, r):
    """Keep y and not x: y / g is the same, is it not?"""
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


# %% tags=["mechanism"]
def joined(x):
    """x̂ forward, centred by a mean that was never rounded, and x̂ backward, by the mean that was kept."""
    exact_mean = x.sum(-1, keepdim=True).double() * torch.tensor(1 / x.shape[-1]).double()
    c = (x.double() - exact_mean).float()  # one operation, one rounding
    missed, kept = c.mean(-1, keepdim=True), exact_mean.float()
    rstd = torch.rsqrt(c.square().mean(-1, keepdim=True) - missed.square() + 1e-5)
    return (c - missed) * rstd, (x - kept - missed) * rstd


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
    [
        {"bug": name, "laws that fail": len(report.failed),
         "the first of them": report.failed[0].name if report.failed else "–"}
        for name, report in reports.items()
    ]
)  # fmt: skip

# %% [markdown]
r"""
One bug passes every law: $y/g$ is exact enough for every gain that the check draws. A check that passes is no proof. Let one of four gains be zero:
"""

# %%
g_zero = torch.tensor([1.0, 0.0, 0.5, 2.0]).double()
x, dy = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(seed)).double()
came = divided(dy, x, g_zero, x.square().mean(-1, keepdim=True).sqrt())
lost_of_x, lost_of_gain = (int((~each.isfinite()).sum()) for each in came)
claim(
    "09-a-gain-of-zero-cannot-be-divided-by",
    "With one gain of 0, {mean:.0f} of 4 gradients of the gain and {of_x} of {n_of_x} of x are not numbers.",
    lost_of_gain,
    of_x=lost_of_x,
    n_of_x=x.numel(),
    said="A gain of zero cannot be divided by: recomputing from the output loses gradients.",
    source="NVIDIA/apex#1715: x̂ recomputed from y and the gain",
    criterion="> 0",
    kind="exact",
)
far = 1e4 + torch.randn(64, 41, generator=torch.Generator().manual_seed(seed))
exact = layer_norm(far.double())
off = [(each - exact).abs().max().item() for each in joined(far)]
claim(
    "09-the-mean-that-is-kept-must-be-the-one-subtracted",
    "At an offset of 10,000, x̂ is off by {forward:.0e} forward, and by {mean:.0e} where backward makes it again.",
    off[1],
    forward=off[0],
    said="A mean subtracted before it is rounded, and kept after, spoils only the backward pass.",
    source="our LayerNorm kernel on an H100, assembled by Triton 3.6",
    criterion="> 1e-5",
    kind="exact",
)


# %% [markdown]
r"""
| you see | cause | probe | fix |
| --- | --- | --- | --- |
| loss fine at first, then NaN in one gain and in all below its norm | $y/g$ with $g = 0$ | a gain of zero | keep $x$, not $y$ |
| gradients rough where rows lie far from 0, outputs right | the mean that was kept is not the one subtracted | an offset of 10,000, both ways | round the mean, then subtract |
| wrong only at widths that are no power of 2 | padding counted | `check.layer_norm` | mask after centring |
| rubbish in huge batches only | offsets in 32 bits ([Liger 803](https://github.com/linkedin/Liger-Kernel/issues/803)) | more than $2^{31}$ values | row index in 64 bits |
| a cliff at one width | spills | registers and stack in the machine code | more warps, or chunks |

## Exercises

**2 (by hand, 5 minutes).** A kernel of Liger-Kernel adds a residual and normalizes: 2,048 rows of 8,192 values in float32, $94.6\,\mu\mathrm s$ on an H100 by a pull request of that
project. How many bytes must move, and which share of $3.35$ TB/s is that?
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

**3 (a proof, 15 minutes).** LayerNorm's kernel subtracts a number $m$ *near* the mean: $c = x - m$, $\delta = \overline c$. (a) Prove $\mathrm{var}(x) = \overline{c^2} - \delta^2$ for *any* $m$.
(b) With long rows, $m$ is the mean of the first quarter of the row. Show that then $\delta^2 \le 3\,\mathrm{var}(x)$. (c) Why does (b) say that the subtraction in (a) is safe, where $\overline{x^2} - \bar x^2$ is not?

<details><summary>Hint</summary>

For (b), let $a$ be the mean of the quarter and $b$ that of the rest. What is the variance between the two groups?

</details>
<details><summary>Solution</summary>

(a) $c - \delta = x - m - (\bar x - m) = x - \bar x$, and $\overline{(c - \delta)^2} = \overline{c^2} - 2\delta\,\overline c + \delta^2 = \overline{c^2} - \delta^2$.

(b) $\bar x = \tfrac14a + \tfrac34b$ and $m = a$, so $\delta = \bar x - a = \tfrac34(b - a)$. The variance is at least that between the groups:
$\mathrm{var}(x) \ge \tfrac14(a - \bar x)^2 + \tfrac34(b - \bar x)^2 = \tfrac14\cdot\tfrac9{16}(b-a)^2 + \tfrac34\cdot\tfrac1{16}(b-a)^2 = \tfrac3{16}(b-a)^2 = \tfrac13\delta^2$.

(c) $\overline{c^2} = \mathrm{var} + \delta^2 \le 4\,\mathrm{var}$: the difference is at least a quarter of what it is taken from, so two bits are lost at most.
In $\overline{x^2} - \bar x^2$ the ratio is $\mathrm{var}/(\mathrm{var} + \bar x^2)$, which is arbitrarily small.

</details>

**4 (open).** A colleague wants DyT for RMSNorm "because it needs no statistics". Predict from bytes what that saves in a fused kernel, and look at
`dynamic_tanh` in the table of counts. Then move the estimate: your model, your device, your assumptions. Which result would change your mind?
"""

# %% tags=["exercise"]
my_prediction = "…"
mine = replace(programs["one kernel, the sum another"], of_bandwidth=0.5, split=8)
step(SIZES["405B"], DEVICES["H200"], way="train", batch=1, context=8192, given=mine)

# %% [markdown]
r"""
<details><summary>Hint</summary>

What does a tanh have to read and write? What it need not do is wait for a sum, and that is no byte.

</details>

## What you now know

- **What does a norm cost?** The bytes of its row when it is large, the start of a kernel when it is small, here on one CPU. Its arithmetic is as good as free. <!-- 09-a-norm-moves-two-and-three-values 09-a-small-norm-costs-its-call -->
- **A quarter, or half a per cent?** By the estimate more than a quarter in steps, started one by one; a few per cent in one kernel. For half a per cent of decoding one sequence, a norm would have to finish before a kernel can start. <!-- 09-eager-norms-take-a-quarter-of-decoding 09-fused-norms-take-a-few-per-cent -->
- **Who decides it?** The program: its trips to memory and the number of its kernels. Not the formula. With many rows LayerNorm in one kernel moves the bytes of RMSNorm. <!-- 09-eager-moves-nine-times-the-bytes 09-two-passes-cost-no-traffic -->
- Backward the hard part is the gain's gradient, which crosses rows and costs registers. <!-- derived -->
- At our size twice the norms bought no lower loss that we could see. What Pre-Norm's norms bought here is a rate at which training goes on. (At that rate Post-Norm is stuck: [chapter 10](10_choosing_a_norm.ipynb).) <!-- 09-sandwich-earns-its-bytes 09-norms-buy-a-higher-rate -->

## To carry away

- **Forward.** Read $x$, write $y$: 4 bytes a value in bfloat16, with the statistics in float32.
- **Backward of RMSNorm.** $\nabla_x = \big(u - \hat x\,\mathrm{mean}(u\hat x)\big)/r$ with $u = g\odot\nabla_y$; $\nabla_g$ sums over all rows.
- **Law.** A kernel takes at least the largest of bytes over bandwidth, operations over peak, and the shortest time of any kernel. For a norm the second never decides.
- **Use.** A fused kernel where norms run one operation after another. Where the compiler has fused them already, what is left to gain lies in the backward pass.

| you see | cause | try |
| --- | --- | --- |
| norms take a quarter of the time | one kernel an operation | one kernel a norm, or `torch.compile` |
| a small norm costs as much as a larger one | the call | CUDA graphs, or fusing with a neighbour |
| a gain's gradient is rough | added up in bfloat16 | partial sums in float32 |
| NaN in one gain | $y/g$ with $g = 0$ | keep $x$ |

## References

Works cited: [Ivanov et al. (2021)](https://arxiv.org/abs/2007.00072), [Williams et al. (2009)](https://doi.org/10.1145/1498765.1498785), [Tillet et al. (2019)](https://doi.org/10.1145/3315508.3329973), [Hsu et al. (2024)](https://arxiv.org/abs/2410.10989), [Dao-AILab (2025)](https://github.com/Dao-AILab/quack), [NVIDIA (2023)](https://www.nvidia.com/en-us/data-center/h100/), [Ding et al. (2021)](https://arxiv.org/abs/2105.13290), [Kim et al. (2025)](https://arxiv.org/abs/2502.02732).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
