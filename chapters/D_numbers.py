# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Numbers and formats

**Question.** A number can be kept in 32, 16, 8 or 4 bits. Norms, it is said, need 32. Which format breaks where, and what does a norm cost at
inference?

**In short.**

| you look up | in short | section |
| --- | --- | --- |
| the ends of each format, and what of a norm breaks there | float16 runs out of range, bfloat16 of digits, FP8 of both; an ε of $10^{-8}$ or less is 0 in float16 | [What each format holds](D_numbers.ipynb#what-each-format-holds) |
| FP8 and NVFP4, with and without a norm | a norm mends tokens of unlike size, as one scale for each token does; of what an outlier channel costs it gives back 3 dB at most | [A dot product in eight bits, and in four](D_numbers.ipynb#a-dot-product-in-eight-bits-and-in-four) |
| RMSNorm's sum, by width | added in float32, tokens that are stored in E4M3 keep their RMS; a running sum in bfloat16 or E4M3 stops | [The sum of squares, by width](D_numbers.ipynb#the-sum-of-squares-by-width) |
| a gain of 1, and of $1 + w$ | weight decay pulls one to 0, the other to the plain norm; in bfloat16 a gain of 1 rounds away every small update | [How a gain is stored](D_numbers.ipynb#how-a-gain-is-stored) |
| loss scaling | at our size float16 needs none; a mean over 4,096 times the tokens would empty most of what passes between modules | [Loss scaling](D_numbers.ipynb#loss-scaling) |
| who uses LayerNorm, who RMSNorm | most families of decoders have RMSNorm; LayerNorm did not end with Llama | [Who uses which norm](D_numbers.ipynb#who-uses-which-norm) |
| the price in a decoding step, an estimate | what the start of a kernel costs; by bytes the formula hardly counts | [What a norm costs at inference](D_numbers.ipynb#what-a-norm-costs-at-inference) |

*The series* is *Transformer Anatomy*, part 7, whose lines the [errata](errata.md) name.

**What is not here.** Its chart of norms in bfloat16 and float16 (l. 448–456): what such norms do to training is in chapter 03,
[Over the cliff](03_rmsnorm.ipynb#over-the-cliff) and [The honest negative](03_rmsnorm.ipynb#the-honest-negative). Its micro-benchmarks are in chapter 09, [What the sources say, and what we measured](09_memory_wall.ipynb#what-the-sources-say-and-what-we-measured).
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np
import torch

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.costs.kernel_view import benches, compare_times, read_times
from labkit.costs.roofline import DEVICES, SIZES, Assumptions, norm_share, step
from labkit.experiments import Experiment, Lab, Run, claim, minus, proportion, published
from labkit.formats import (
    FORMATS,
    emulate_nvfp4,
    measure_signal_to_noise,
    round_to_format,
    scale_to_format,
    sum_in_format,
)  # fmt: skip
from labkit.model import ScaledGradients
from labkit.norms import rms_norm
from labkit.training import loss_of

# %%
lab = Lab("D_numbers", size=size, seed=seed, memory={"kernel": "900M", "run": "850M"})
sizes = lab.sizes(
    # smoke, book
    dim=(8, 32),
    depth=(2, 4),
    steps=(3, 150),
    held_out=(512, 8192),
)
draws = lab.seeds(5)

# %% [markdown]
r"""
## What each format holds

A format has $p$ significant bits and a range. $p$ counts the leading 1, which is not stored: bfloat16's eight are seven on paper ([Numbers that run out](03_rmsnorm.ipynb#numbers-that-run-out)). Rounding is off by $2^{-p}$ of a number at most, as long as the number is *normal*; below, digits
go one by one, and under half of the smallest number everything is 0. Above the largest there is infinity. E4M3 and E2M1 have
none: they saturate, so a square that is too large becomes the largest number (in E4M3 NaN, if a program asks for that). E4M3 and E5M2 are the two kinds of FP8 ([Micikevicius et al., 2022](https://arxiv.org/abs/2209.05433)); E2M1 is what
NVFP4 is made of.
"""


# %%
def keep_whole(number):
    """Return a whole number below a million as such: a table rounds only the others."""
    return int(number) if number.is_integer() and number < 1e6 else number


plots.table(
    [
        {
            "format": name, "bits": of.bits, "exponent bits": of.bits - of.significant,
            "mantissa bits": of.significant - 1, "p": of.significant, "largest": keep_whole(of.largest),
            "smallest normal": of.smallest_normal, "smallest": of.smallest,
            "one-pass variance ends at a mean of (standard deviations)": keep_whole(2 ** (of.significant / 2)),
            "squares overflow from about": of.largest**0.5,
            "a running sum of ones stops at": 2**of.significant,
        }
        for name, of in FORMATS.items()
    ]
)  # fmt: skip

# %% [markdown]
r"""
The last three columns concern norms. The cliff of the one-pass variance is derived in chapter 03, [Numbers that run out](03_rmsnorm.ipynb#numbers-that-run-out); the
order of casts in T5's and Llama's code is in its [Small print: ε and the last rounding](03_rmsnorm.ipynb#small-print-ε-and-the-last-rounding).

**An ε can vanish.** What stands under the root must be a number of the format that computes it:
"""

# %%
eps = {"1e-5": 1e-5, "1e-6": 1e-6, "1e-8": 1e-8, "1e-12": 1e-12}
kept = {
    name: {way: round_to_format(torch.tensor(value), way).item() for way in ("float16", "bfloat16")}
    for name, value in eps.items()
}
silent = torch.zeros(4, dtype=torch.float16)
claim(
    "D-a-small-eps-is-zero-in-float16",
    "In bfloat16 {brain} of {tried_eps} tried ε are 0, in float16 {mean:.0f} ({which}): "
    "a silent token then gives {result}.",
    sum(of["float16"] == 0 for of in kept.values()),
    said="In float16 an ε of 1e-8 or 1e-12 is 0.",
    brain=sum(of["bfloat16"] == 0 for of in kept.values()),
    tried_eps=len(eps),
    which=" and ".join(name for name, of in kept.items() if of["float16"] == 0),
    result=str((silent / (silent.square().mean() + 1e-8).sqrt())[0].item()),
    source="the smallest float16 is 2^-24; 1e-8 is the ε of Zhang and Sennrich's code",
    criterion="in [2, 2]",
    kind="exact",
)

# %% [markdown]
r"""
## A dot product in eight bits, and in four

In a product of matrices both operands are rounded; the sums are kept in float32. The **signal-to-noise ratio**
is $10\log_{10}(\sum \text{exact}^2 / \sum \text{error}^2)$, in decibels; at 20 dB the error is a tenth of the result. A value with $p$ bits has an error of about
$0.4\cdot2^{-p}$ of it, whatever its size. The errors of both operands add up. Signal and noise both grow with width, so their ratio does not. Each bit halves the error: $20\log_{10}2 = 6.02$ dB.

To use a small range well, a tensor is divided by one number so that its largest value just fits. **NVFP4** is E2M1 with a scale for each
16 values, itself in E4M3, and one for the tensor ([NVIDIA, 2025](https://arxiv.org/abs/2509.25149)). We emulate it. To train whole models in FP8 or NVFP4 is out of
range here: published runs have billions of parameters and GPUs whose units multiply such numbers.
"""

# %% tags=["mechanism"]
formats = ("float16", "bfloat16", "e4m3", "e5m2", "e2m1")
ways = {name: partial(scale_to_format, name=name) for name in formats} | {"NVFP4": emulate_nvfp4}


def draw(seed, decades=0.0, outlier=1.0, width=1024):
    """Draw 64 tokens, of sizes over so many powers of ten and with one channel so much larger."""
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(64, width, generator=generator) for _ in range(2))
    x *= 10 ** (decades * (torch.rand(64, 1, generator=generator) - 0.5))
    x[:, 7] *= outlier
    return x, w


def measure_tokens(x, w, way):
    """Signal of the ordinary channels to all noise, in decibels, for each token."""
    exact, got = x.double() @ w.double().T, ways[way](x).double() @ ways[way](w).double().T
    ordinary = exact - x[:, 7:8].double() * w[:, 7].double()
    return measure_signal_to_noise(ordinary, ordinary + got - exact)


def count_decibels(x, w, way):
    """Decibels of the tenth of tokens that fare worst."""
    return measure_tokens(x, w, way).quantile(0.1).item()


# %%
bits = [FORMATS[name].significant for name in formats[:4]]
plain = {way: [count_decibels(*draw(s), way) for s in draws] for way in ways}
claim(
    "D-six-decibels-a-bit",
    "From E5M2 to float16 a significant bit is worth {mean:.2f} dB: {low8:.0f} dB in E4M3, {bf16:.0f} in bfloat16. NVFP4 "
    "has {four:.0f}.",
    [float(np.polyfit(bits, [plain[name][s] for name in formats[:4]], 1)[0]) for s in range(5)],
    unit="draws",
    said="Each significant bit is worth 6 dB in a dot product.",
    low8=fmean(plain["e4m3"]),
    bf16=fmean(plain["bfloat16"]),
    four=fmean(plain["NVFP4"]),
    source="the rounding analysis above",
    criterion="in [5.7, 6.3]",
    kind="at",
    predicted=6.02,
)

# %% [markdown]
r"""
### Tokens of unlike size

A residual stream has tokens of very unlike size ([Sun et al., 2024](https://arxiv.org/abs/2402.17762)), and one scale must fit them all: the small ones fall below the smallest number.
RMSNorm divides each token by its own size, so normalized operands stay at the left end of every line. One scale for each token does the same without a norm.
"""

# %%
spreads = (0, 1, 2, 3, 4, 5, 6, 8, 10)
by_spread = {
    way: {d: [count_decibels(*draw(s, decades=d), way) for s in draws] for d in spreads}
    for way in ways
}
held = {
    way: max(d for d in spreads if fmean(at[d]) > fmean(at[0]) - 1) for way, at in by_spread.items()
}
plots.curves(
    by_spread,
    xlabel="tokens differ in size by so many powers of ten",
    ylabel="signal to noise (dB)",
    caption="A product with one scale for a tensor, for the tenth of tokens that fare worst. Powers of ten at which less than 1 dB is lost: "
    + ", ".join(f"{way} {d}" for way, d in held.items())
    + ". NVFP4's block scales are numbers in E4M3. After a norm all tokens stand at 0.",
    provenance=lab.provenance(),
).named("unlike-tokens")


# %%
def normalized(x, w):
    """Divide each token by its root mean square."""
    return rms_norm(x, eps=0.0), w


def scaled(x, w):
    """Divide each token by its largest entry: one scale for each token, and no norm."""
    return x / x.abs().amax(-1, keepdim=True), w


changes = {"a norm": normalized, "a scale for each token": scaled}
after = {
    change: {way: [count_decibels(*of(*draw(s, decades=6)), way) for s in draws] for way in ways}
    for change, of in changes.items()
}
mended = {
    way: [a - b for a, b in zip(after["a norm"][way], by_spread[way][6], strict=True)]
    for way in ways
}
plots.table([
    {"sizes over six powers of ten, dB": way, "one scale for the tensor": fmean(by_spread[way][6])}
    | {change: fmean(at[way]) for change, at in after.items()}
    for way in ways
])  # fmt: skip

# %%
claim(
    "D-a-norm-mends-tokens-of-unlike-size",
    "With sizes over six powers of ten a norm lifts the worst tokens by {mean:.0f} dB in E4M3, {four:.0f} in NVFP4, "
    "{bf16:.1f} in bfloat16.",
    mended["e4m3"],
    unit="draws",
    said="In FP8, normalized operands keep tokens that one scale for all would lose.",
    four=fmean(mended["NVFP4"]),
    bf16=fmean(mended["bfloat16"]),
    source="this shelf; one scale for a tensor as in Micikevicius et al. 2022, arXiv 2209.05433",
    criterion="> 10",
    kind="at",
)

# %% [markdown]
r"""
### An outlier channel

Now one channel is $f$ times the others in *every* token. Such a channel is an **outlier feature** ([Dettmers et al., 2022](https://arxiv.org/abs/2208.07339)). (Massive activations
are another thing: they sit in few tokens.) Its rounding error is $f$ times as large and drowns the
ordinary channels: with $d$ of them the noise grows by $10\log_{10}(1 + f^2/d)$, in every format that can still hold both. E2M1 with one scale cannot, and NVFP4 confines the outlier to its block, so the next card leaves both out.

A norm divides the whole token by one number and changes no ratio of channels. But where the outlier outweighs all others, the norm makes it the same size in every token, and one scale then fits it exactly. That spares the outlier's rounding error
and not that of its weight: half the noise at most, $10\log_{10}2 = 3.01$ dB on average. A small gain on that channel, before rounding, would do more. The card takes noise over signal, averaged over tokens.
"""

# %%
factors = (1, 3, 10, 30, 100, 300, 1000)
by_factor = {
    way: {f: [count_decibels(*draw(s, outlier=f), way) for s in draws] for f in factors}
    for way in ("float16", "bfloat16", "e4m3", "NVFP4", "e2m1")
}
by_factor |= {
    "bfloat16, normalized": {
        f: [count_decibels(*normalized(*draw(s, outlier=f)), "bfloat16") for s in draws]
        for f in factors
    }
}
plots.curves(
    by_factor,
    xlabel="outlier channel over the others",
    ylabel="signal to noise (dB)",
    logx=True,
    caption="Signal of the ordinary channels. Far above √1024 = 32 the formula loses 20 dB for a "
    "factor of ten; E2M1 with one scale has lost them earlier. The norm's line keeps close to the one without a norm.",
    provenance=lab.provenance(),
).named("outlier-channel")


# %%
def average(prepare, outlier):
    """Decibels by noise over signal averaged over tokens, and over four formats, for each draw."""
    four = ("bfloat16", "float16", "e4m3", "e5m2")
    apart = [
        [measure_tokens(*prepare(*draw(s, outlier=outlier)), way) for way in four] for s in draws
    ]
    return [fmean(-10 * np.log10((10 ** (-at / 10)).mean().item()) for at in one) for one in apart]


bare = {f: average(lambda x, w: (x, w), f) for f in (1, 100, 1000)}
given = {
    f: [a - b for a, b in zip(average(normalized, f), bare[f], strict=True)] for f in (100, 1000)
}

# %%
claim(
    "D-a-norm-leaves-an-outlier-channel",
    "A channel of 100 costs the others {lost:.1f} dB, by the formula {formula:.1f}; RMSNorm gives back {mean:.1f}, of a channel of 1,000 {more:.1f}.",
    given[100],
    unit="draws",
    said="Of what an outlier channel costs the others, a norm gives back no more than 3 dB.",
    lost=fmean(bare[1]) - fmean(bare[100]),
    formula=10 * np.log10(1 + 100**2 / 1024),
    more=fmean(given[1000]),
    source="the rounding analysis above; averaged over bfloat16, float16, E4M3 and E5M2",
    criterion="< 3.01",
    kind="at",
)

# %%
local = [by_factor["NVFP4"][30][s] - by_factor["e2m1"][30][s] for s in range(5)]
claim(
    "D-blocks-keep-an-outlier-local",
    "With a channel of 30, blocks of 16 keep {mean:.0f} dB more than one scale for the same four-bit values.",
    local,
    unit="draws",
    said="NVFP4's blocks keep an outlier from erasing the other channels.",
    source="NVIDIA 2025, arXiv 2509.25149",
    criterion="> 5",
    kind="at",
)

# %% [markdown]
r"""
### Why unit vectors may do with four bits

[Fishman et al. (2026)](https://arxiv.org/abs/2605.06067) train nGPT ([chapter 08](08_ngpt.ipynb)) in NVFP4 without the usual precautions. Their reason: if entry by entry two
vectors agree a little more often than not, their products add up with width, while rounding errors, which have no common sign, partly cancel. On the sphere, they say, entries do agree. With correlation $\rho$ the signal's power is
$d + (\rho d)^2$, the noise's grows as $d$: from width 512 to 4,096 that is $10\log_{10}\frac{1+4096\rho^2}{1+512\rho^2}$ decibels in three doublings. Where the correlation
is strong the errors get a common sign, too, for E2M1's errors are not independent of its values. Which $\rho$ trained models have we did not measure.
"""


# %% tags=["mechanism"]
def count_aligned(seed, width, rho):
    """Measure 512 NVFP4 products of vectors whose entries have correlation ρ."""
    generator = torch.Generator().manual_seed(seed)
    x, other = (torch.randn(512, width, generator=generator) for _ in range(2))
    w = rho * x + (1 - rho**2) ** 0.5 * other
    exact, got = (x.double() * w).sum(-1), (emulate_nvfp4(x).double() * emulate_nvfp4(w)).sum(-1)
    return measure_signal_to_noise(exact, got).item()


widths = (512, 1024, 2048, 4096)
slopes = {
    rho: [
        float(np.polyfit(np.log2(widths), [count_aligned(s, d, rho) for d in widths], 1)[0])
        for s in draws
    ]
    for rho in (0.0, 0.1, 0.5)
}
# %%
claim(
    "D-width-lifts-a-signal-that-adds-up",
    "In NVFP4, twice the width adds {mean:.1f} dB at a correlation of a tenth, {none:.1f} dB at none, {half:.1f} dB at a half.",
    slopes[0.1],
    unit="draws",
    said="Where entries lean weakly to one side, twice the width adds nearly 3 dB in four bits.",
    none=fmean(slopes[0.0]),
    half=fmean(slopes[0.5]),
    source="Fishman et al. 2026, arXiv 2605.06067",
    criterion="in [2.3, 3.3]",
    kind="at",
    predicted=10 * np.log10((1 + 40.96) / (1 + 5.12)) / 3,
)

# %% [markdown]
r"""
## The sum of squares, by width

RMSNorm squares $d$ numbers and adds. *The series* says of FP8 (l. 440) that computing a mean, a variance or RMS in it is "completely unreliable". Three things can go
wrong, and only the last has to do with how tokens are *stored*.

- **The end of the range.** A sum of $d$ squares of RMS $r$ is $dr^2$. Float16's largest number is 65504, and what rounds to it ends at 65520, so the sum overflows from $r = \sqrt{65520/d}$ on: 4 at width 4,096,
  2 at 16,384. The *mean* of squares overflows only with the squares, from an entry of 256 on ([Numbers that run out](03_rmsnorm.ipynb#numbers-that-run-out)).
- **A running sum.** Once a sum is $2^p$ times as large as a term, adding the term changes nothing: equal terms stop at width $2^p$, the first table's last column.
- **Rounded tokens.** Their errors average out, to about $2^{-p}/\sqrt d$ of RMS, but for a bias that no width removes.
"""

# %%
reach = (64, 256, 1024, 4096, 16384)


def shares_kept(width, way):
    """Return the sum of squares of normal tokens, added in a format, over the exact one, by draw."""
    x = torch.stack([
        torch.randn(16, width, generator=torch.Generator().manual_seed(s)) for s in draws
    ])  # fmt: skip
    added = sum_in_format(x.square(), way) / x.double().square().sum(-1)
    return added.mean(-1).tolist()


sums = {
    f"added in {way}": {width: shares_kept(width, way) for width in reach}
    for way in ("float32", "float16", "bfloat16", "e4m3")
}
plots.curves(
    sums,
    xlabel="width",
    ylabel="sum of squares over the true one",
    logx=True,
    caption="A token's squares, added one after another with a rounding after each. The fewer digits, the sooner the sum stops. Kernels add in "
    "float32, and in pieces.",
    provenance=lab.provenance(),
).named("sum-of-squares")

# %%
claim(
    "D-a-running-bfloat16-sum-stops",
    "At width 16,384 a running bfloat16 sum reaches {mean:.0%} of the squares, and the norm's "
    "output is {times:.1f} times too large; at 4,096, {first:.0%}.",
    sums["added in bfloat16"][16384],
    unit="draws",
    said="Added one after another in bfloat16, the squares of a wide token stop adding up.",
    first=fmean(sums["added in bfloat16"][4096]),
    times=fmean(share**-0.5 for share in sums["added in bfloat16"][16384]),
    source="the spacing of bfloat16",
    criterion="< 0.5",
    kind="at",
)

# %%
sizes_tried = torch.arange(1.5, 9, 0.001)  # RMS of a token
overflow = {
    width: sizes_tried[round_to_format(width * sizes_tried.square(), "float16").isinf()][0].item()
    for width in (1024, 4096, 8192, 16384)
}
claim(
    "D-a-sum-of-squares-overflows-by-width",
    "At widths {all} a float16 sum of squares is infinite from RMS {from_on} on, within {mean:.4f} of the formula.",
    max(abs(rms - (65520 / width) ** 0.5) for width, rms in overflow.items()),
    said="In float16 a sum of squares overflows from RMS √(65520/d) on.",
    all=", ".join(f"{width:,}" for width in overflow),
    from_on=", ".join(f"{rms:.2f}" for rms in overflow.values()),
    source="the largest float16 is 65504; what rounds to it ends at 65520",
    criterion="< 0.0011",
    kind="exact",
)


# %%
claim(
    "D-statistics-of-fp8-are-unreliable",
    "Added in E4M3, the squares reach {mean:.0%} of their sum at width 4,096 and {wide:.1%} at 16,384.",
    sums["added in e4m3"][4096],
    unit="draws",
    said="Computed in FP8, a token's mean square is unreliable.",
    wide=fmean(sums["added in e4m3"][16384]),
    source="Transformer Anatomy, part 7, l. 440",
    published="'completely unreliable'",
    criterion="< 0.5",
    kind="at",
)

# %% [markdown]
r"""
So the series is right about *computing* statistics in FP8. What of tokens that are only *stored* in it, as the output of a product in FP8 may be, and whose squares are added in float32?
"""


# %%
def error_of_rms(seed, width, name="e4m3"):
    """Relative error of each token's RMS: stored in a format, squares added in float32."""
    x = torch.randn(64, width, generator=torch.Generator().manual_seed(seed))
    stored = round_to_format(x, name)
    return (stored.square().mean(-1) / x.square().mean(-1)).sqrt() - 1


plots.table(
    [
        {"format": name}
        | {
            f"{what}, width {width:,}, %": 100 * fmean(of(error_of_rms(s, width, name)).mean().item() for s in draws)
            for what, of in (("error", torch.abs), ("bias", torch.clone)) for width in (4096, 65536)
        }
        for name in ("e4m3", "e5m2", "e2m1")
    ]
)  # fmt: skip

# %%
claim(
    "D-tokens-in-fp8-keep-their-rms",
    "A token stored in E4M3 keeps its RMS within {mean:.2%} at width 4,096, if its squares are added in float32.",
    [error_of_rms(s, 4096).abs().mean().item() for s in draws],
    unit="draws",
    said="Stored in E4M3 and added in float32, a token keeps its RMS within half a per cent.",
    source="this shelf",
    criterion="< 0.005",
    kind="at",
)

# %% [markdown]
r"""
So the float32 rule is about where one *adds*, in FP8 as in bfloat16. At the larger width error and bias agree: what is left is bias. Nor would FP8 speed norms up: they have no matrix product.
"""

# %% [markdown]
r"""
## How a gain is stored

Gemma's code stores the gain of RMSNorm as its distance $w$ from 1, and makes $1 + w$ in float32 ([the line](https://github.com/google/gemma_pytorch/blob/014acb7ac4563a5f77c76d7ff98f31b568c16508/gemma/model.py#L187)). Two things change.

**Weight decay** pulls what is *stored* towards zero. A gain that is stored as itself is pulled to 0: without a gradient
it loses a factor $e$ in 10,000 steps, at the rate $10^{-3}$ and the decay $0.1$. Under Pre-Norm this does
not even limit what the model computes: only the product of gain and next matrix counts, so the matrix can grow by what the gain loses. One custom is to exempt
gains, as [nanoGPT](https://github.com/karpathy/nanoGPT/blob/3adf61e154c3fe3fca428ad6bc3818b27a3b8291/model.py#L271) does. Stored as $1 + w$, the gain is pulled to 1: to the plain
norm.

**Rounding.** bfloat16's numbers are $2^{-7}$ apart above 1 and $2^{-8}$ below, so a gain of 1 stored as itself rounds away every rise of up to $2^{-8}$, and every fall of up to
$2^{-9}$: it can shrink where it cannot grow. Around 0 bfloat16's numbers lie as close as anyone needs, but only there. Let $w$ rise by steps of 0.001: from $w = ¼$ on each of
them comes out nearly twice as large, and at ½ all of them are rounded away. Without a float32 copy of the weights, the gain that is stored as $1 + w$
learns as long as $w$ is small, if the sum is made in float32. Made in bfloat16, $1 + 0.001$ is 1 again:
"""

# %%
gain, w, update = (torch.tensor(value).bfloat16() for value in (1.0, 0.0, 1e-3))
moved = []  # by w, after each update
for _ in range(1000):
    gain, w = gain + update, w + update
    moved.append(w.item())
claim(
    "D-a-gain-near-one-cannot-move",
    "After 100, 400 and 1,000 updates of 0.001 a bfloat16 gain has moved {mean:.3f}, one stored as 1 + w {early:.3f}, {late:.3f}, {last:.3f}.",
    gain.item() - 1,
    said="A bfloat16 gain of 1 rounds away a thousand rises of 0.001; stored as 1 + w it takes them while w is small.",
    early=moved[99],
    late=moved[399],
    last=moved[999],
    source="the spacing of bfloat16; Gemma's code",
    criterion="in [0, 0]",
    kind="exact",
)

# %% [markdown]
r"""
## Loss scaling

Float16's smallest number is $2^{-24}$; a gradient below half of that is rounded to 0. A loss is a mean over $N$ tokens, so each gradient on its way down carries a
factor $1/N$. **Loss scaling** multiplies the loss by $S$ and divides weight gradients by $S$ in float32, before the optimizer sees them
([Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)). What counts is the product: $S/N$ against the range.

One forward and backward pass of a small Pre-Norm model, all gradients between modules collected, then rounded to float16 at each $S$:
"""

# %%
whole = ModelConfig(
    "pre", "rms", sizes.dim, sizes.depth, context=32, activation="gelu", init="half-xavier"
)
text = Text(batch=16, time=32, held_out=sizes.held_out)


def collect_gradients(seed):
    """Collect what passes down between modules in the first backward pass."""
    torch.manual_seed(seed)
    model, kept = whole.build(), []

    def watch(module, args, output):
        if isinstance(output, torch.Tensor):
            output.register_hook(kept.append)

    for module in model.modules():
        module.register_forward_hook(watch)
    loss_of(model, *next(iter(text.load().train(seed)))).backward()
    return torch.cat([gradient.flatten() for gradient in kept])


# %%
octaves = range(-20, 29, 4)
passed = [gradients[gradients != 0] for gradients in map(collect_gradients, draws)]
shares = {
    "rounded to 0": lambda g: (g == 0).float().mean().item(),
    "infinite": lambda g: g.isinf().float().mean().item(),
}
fates = {
    name: {k: [100 * of(round_to_format(2.0**k * g, "float16")) for g in passed] for k in octaves}
    for name, of in shares.items()
}
plots.curves(
    fates,
    xlabel="k, where the scale is 2 to the k",
    ylabel="gradient entries (%)",
    caption="What float16 makes of a first pass over 512 tokens. To the left gradients vanish, to the right the first ones overflow; between "
    "them lies room. A mean over 4,096 times as many tokens moves everything twelve octaves to the right.",
    provenance=lab.provenance(),
).named("loss-scaling")

# %%
claim(
    "D-averaging-tokens-empties-float16",
    "Unscaled, {one:.1f} % of a first pass's gradient entries are 0 in float16; at 2^-12, a mean over 4,096 times the tokens, {mean:.0f} %.",
    [100 * (round_to_format(2.0**-12 * g, "float16") == 0).float().mean().item() for g in passed],
    unit="draws",
    said="At 2^-12 of their size, most gradients between modules are rounded to 0 in float16.",
    one=fmean(fates["rounded to 0"][0]),
    source="the smallest float16 number; Micikevicius et al. 2018, arXiv 1710.03740",
    criterion="> 50",
    kind="at",
)

# %% [markdown]
r"""
### Trained with rounded gradients

The same model trains for 150 steps. Gradients are rounded wherever they pass from module to module and at the weights; weights, moments and the
forward pass stay float32. Scales below 1 stand for means over more tokens: exactly so between modules, too severely at the weights, where tokens are added up again.
"""

# %%
bench = Run(
    model=whole,
    data=text,
    train=TrainConfig(steps=sizes.steps, schedule="linear", lr=1e-2),
    probes=("test", "gradient-extremes"),
)
fresh = [s + 1 for s in lab.seeds(5)]  # seed 0 was the pilot
narrow = replace(bench, model=ScaledGradients(**vars(whole)))
in_e5m2 = replace(narrow, model=replace(narrow.model, gradient_format="e5m2"))
scales = [2.0**k for k in (-14, -12, -10, -8, -4, 0, 8, 16, 18, 20, 22)]
exact = lab.run(Experiment(bench, {"seed": fresh}))
half = lab.run(Experiment(narrow, {"model.loss_scale": scales, "seed": fresh}))
eight = lab.run(Experiment(in_e5m2, {"model.loss_scale": [1.0, 2.0**8], "seed": fresh}))


# %%
def by_scale(results):
    """List the test losses of each scale; a run that overflowed has none."""
    return {
        scale: at.values(lambda r: float("nan") if r.diverged_at is not None else r.probes["test"]["loss"])
        for scale, at in results.by("loss_scale").items()
    }  # fmt: skip


full, ended, ended_e5m2 = exact.values("test.loss"), by_scale(half), by_scale(eight)
plots.curves(
    {
        name: {f"{np.log2(scale):.0f}": losses for scale, losses in at.items()}
        for name, at in (("float16", ended), ("e5m2", ended_e5m2))
    },
    xlabel="k, where the scale is 2 to the k",
    ylabel="test loss (nats)",
    reference={"float32": fmean(full)},
    caption="Test loss after training with rounded gradients. A plateau between two cliffs: at the left gradients vanish, at the right they "
    "overflow. E5M2 has float16's largest numbers and not its smallest. (The scales that were tried are not evenly spaced.)",
    provenance=lab.provenance(exact, half, eight),
).named("rounded-gradients")

# %%
cost = {scale: minus(losses, full) for scale, losses in ended.items() if scale < 2.0**17}
claim(
    "D-underflow-stops-training",
    "At 2^-12 of the loss float16 gradients cost {mean:.2f} nats; at 2^-8, {less:.2f}.",
    cost[2.0**-12],
    said="At 2^-12 of the loss, float16 gradients cost more than 0.2 nats.",
    less=fmean(cost[2.0**-8]),
    source="Micikevicius et al. 2018, arXiv 1710.03740",
    criterion="> 0.2",
    kind="at",
    tried={"second value": "five scales below 1", "control": "the same rate in float32"},
    since=half.find_start(),
)

# %%
claim(
    "D-no-scale-is-needed-here",
    "Unscaled, float16 gradients end {mean:+.5f} nats from float32's.",
    cost[1.0],
    said="At this size float16 gradients need no loss scale.",
    source="this shelf",
    criterion="in [-0.02, 0.02]",
    kind="at",
    predicted=0.0,
    tried={"second value": "scales of 2^8 and 2^16", "control": "the same rate in float32"},
    since=half.find_start(),
)

# %% [markdown]
r"""
The next three sentences were locked before their runs, and two are wider than these. "Every scale" was tried at three: 1, $2^8$ and $2^{16}$. And $2^{22}$ was asked only after $2^{18}$ had been seen, so the third card is no independent
forecast; its criterion, like the second's, asks for more than four runs in ten, not for all.
"""

# %%
plateau = [max(abs(cost[s][i]) for s in (1.0, 2.0**8, 2.0**16)) for i in range(len(fresh))]
claim(
    "D-scales-work-over-many-octaves",
    "Over scales from 1 to 2^16 the largest distance from float32 is {mean:.4f} nats.",
    plateau,
    said="At every scale from 1 to 2^16, float16 gradients end within 0.02 nats of float32's.",
    source="Micikevicius et al. 2018, arXiv 1710.03740",
    criterion="< 0.02",
    kind="at",
    tried={"second value": "three scales", "control": "the same rate in float32"},
    since=half.find_start(),
)

# %%
gone = {
    k: proportion(half.where(loss_scale=2.0**k).values(lambda r: r.diverged_at is not None))
    for k in (16, 18, 20, 22)
}
claim(
    "D-too-large-a-scale-ends-the-run",
    "At the constant scale 2^18, {k} of {n} runs end in an overflow.",
    gone[18],
    said="A constant scale of 2^18 ends the run within 150 steps.",
    source="the largest float16 number; in the pilot 2^18 ended the run at once",
    criterion="> 0.4",
    kind="at",
    tried={"second value": "2^16, 2^20 and 2^22"},
    since=half.find_start(),
)

# %%
claim(
    "D-sixteen-times-that-scale-ends-every-run",
    "At 2^22, {k} of {n} runs end in an overflow; at 2^20, {twenty:.0%}; at 2^16, {sixteen:.0%}.",
    gone[22],
    said="A constant scale of 2^22 ends the run within 150 steps.",
    twenty=gone[20].mean,
    sixteen=gone[16].mean,
    source="the largest float16 number",
    criterion="> 0.4",
    kind="at",
    tried={"second value": "2^16, 2^18 and 2^20"},
    since=half.where(loss_scale=2.0**22).find_start(),
)

# %%
lower = minus(ended_e5m2[1.0], ended_e5m2[2.0**8])
claim(
    "D-e5m2-gradients-want-a-scale",
    "E5M2 gradients end {mean:.3f} nats lower at scale 2^8 than at 1, in {signs} of {n} seeds, at most by {most:.2f}; then {left:.3f} above float32.",
    lower,
    said="E5M2 gradients end lower at the scale 2^8 than at 1.",
    signs=sum(one > 0 for one in lower),
    most=max(lower),
    left=fmean(minus(ended_e5m2[2.0**8], full)),
    source="E5M2's smallest number is 2^-16; Micikevicius et al. 2022, arXiv 2209.05433",
    criterion="> 0",
    kind="at",
    tried={"second value": "none", "control": "the same rate in float32"},
    since=eight.find_start(),
)

# %% [markdown]
r"""
One seed of E5M2 lies so far out that the interval reaches below 0. So the card says "not seen", whatever the count of signs.

### Dynamic scaling: GradScaler

The plateau is wide, but nobody knows its right end beforehand, and the seeds above do not agree on it. So: halve the scale and skip the step when anything overflows; double it after a number of good steps
(2,000 in PyTorch):
"""


# %% tags=["mechanism"]
class DynamicScale:
    """A loss scale that halves when gradients overflow and doubles after enough good steps."""

    def __init__(self, scale=2.0**16, patience=2000):
        self.scale, self.patience, self.good = scale, patience, 0

    def update(self, gradients):
        """Say whether the step may be taken, and set the scale of the next one."""
        overflowed = not all(gradient.isfinite().all() for gradient in gradients)
        self.good = 0 if overflowed else self.good + 1
        if overflowed:
            self.scale /= 2
        elif self.good == self.patience:
            self.scale, self.good = 2 * self.scale, 0
        return not overflowed


# %%
weight = torch.nn.Parameter(torch.zeros(8))
sgd, mine = torch.optim.SGD([weight], 1.0), DynamicScale(patience=5)
theirs = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=5)
theirs.scale(weight.sum())  # as a program that trains would call it
torch.manual_seed(seed)
apart, skipped = 0, 0
for true in torch.randn(200, 8):
    weight.grad = round_to_format(theirs.get_scale() * true, "float16")
    skipped += not mine.update([weight.grad])
    theirs.step(sgd)
    theirs.update()
    apart += theirs.get_scale() != mine.scale

# %%
claim(
    "D-a-dozen-lines-are-the-grad-scaler",
    "In 200 steps, of which {skipped} overflow, the scale differs from PyTorch's GradScaler's at {mean:.0f}.",
    apart,
    said="These lines keep the scale that PyTorch's GradScaler keeps.",
    skipped=skipped,
    source="torch.amp.GradScaler, growth 2, backoff 1/2",
    criterion="in [0, 0]",
    kind="exact",
)

# %% [markdown]
r"""
### And the norms?

*The series* (l. 442–446) says two things. A norm divides gradients by σ, which can amplify small ones; and when a scale must be lowered, the gradients of norms are often what overflowed. The first is
true where tokens are smaller than 1. A norm divides gradients by the token's size $r$ ([Small print: ε and the last rounding](03_rmsnorm.ipynb#small-print-ε-and-the-last-rounding)), so large tokens, as deep in a Pre-Norm stream, *shrink* them.

Of the second we test one reading: gradients of the norms' *gains*, beside those of other weights, for PyTorch's check looks at weights. Gradients that pass *through* norms, which the series means as well, we did not trace.
"""


# %%
def gain_of_backward(rms, width=512):
    """By what a norm multiplies a gradient, for a token of this RMS."""
    torch.manual_seed(seed)
    x = (rms * rms_norm(torch.randn(width).double(), eps=0.0)).requires_grad_()
    top = torch.randn(width).double()
    return (torch.autograd.grad(rms_norm(x, eps=0.0), x, top)[0].norm() / top.norm()).item()


grid = (0.01, 1.0, 100.0)
times = [gain_of_backward(rms) for rms in grid]
claim(
    "D-a-norm-divides-gradients-by-the-size",
    "Where tokens have RMS 0.01, 1 and 100, RMSNorm multiplies a gradient by {small:.1f}, {one:.2f} and {large:.3f}: the power {mean:.3f}.",
    float(np.polyfit(np.log(grid), np.log(times), 1)[0]),
    said="A norm divides gradients by the size of the token.",
    small=times[0],
    one=times[1],
    large=times[2],
    source="RMSNorm's Jacobian",
    published="'can amplify small gradients'",
    criterion="in [-1.001, -0.999]",
    kind="exact",
)

# %%
extremes = exact.values("gradient-extremes")
kinds = {kind: [[at[kind] for at in run.values()] for run in extremes] for kind in extremes[0]["1"]}
others = [
    [max(part) for part in zip(*(kinds[k][i] for k in kinds if k != "norms"), strict=True)]
    for i in range(len(fresh))
]
ratios = [
    float(np.mean(np.log2(np.divide(kinds["norms"][i], others[i])))) for i in range(len(fresh))
]
claim(
    "D-norm-gradients-are-the-largest",
    "Over {looks} looks the largest gradient entry of norms' gains is {ratio:.2f} times "
    "(binary logarithm {mean:.2f}) the largest elsewhere; there, {where} is largest on average.",
    ratios,
    said="Of all weights, the norms' gains have the largest gradient entries, so they overflow first.",
    looks=len(extremes[0]),
    ratio=2 ** fmean(ratios),
    where=max((k for k in kinds if k != "norms"), key=lambda k: float(np.mean(kinds[k]))),
    source="Transformer Anatomy, part 7, l. 446",
    published="'often the normalization gradients that trigger the overflow detection'",
    criterion="> 0",
    kind="at",
    tried={"last step": "the last of the run"},
    since=exact.find_start(),
)

# %% [markdown]
r"""
## Who uses which norm

*The series* prints a table of eight models (l. 279–298). Beside it, what papers and released configurations say:
"""

# %%
adopted, census = published("norm-adoption"), published("norm-census")
kind_of = {row["family"]: row["norms"] for row in census}
plots.table(
    [
        {
            "model": row["model"], "year": int(row["year"]), "norm": row["printed_norm"],
            "in transformers": kind_of.get(row["family"], "–"),
            **{
                f"{what}{how}": f"{row[key]:.0f}" if isinstance(row[key], float) else row[key]
                for what in ("widths", "layers")
                for how, key in ((", printed", f"printed_{what}"), ("", what))
            },
            "source": row["source"],
        }
        for row in adopted
    ]
)  # fmt: skip

# %%
differ = [
    row
    for row in adopted
    if (row["printed_widths"], row["printed_layers"]) != (row["widths"], row["layers"])
]
wrong = [row["model"] for row in differ if isinstance(row["printed_widths"], str)]
claim(
    "D-sizes-in-the-adoption-table",
    "In {mean:.0f} of {rows} rows the range is not its models' ({wrong}); {several} give one size of several ({which}).",
    len(wrong),
    said="The table's widths and layers are those of the models that it names.",
    rows=len(adopted),
    wrong=", ".join(wrong),
    several=len(differ) - len(wrong),
    which=", ".join(row["model"] for row in differ if row["model"] not in wrong),
    source="Transformer Anatomy, part 7, l. 288-295, against the papers in the last column",
    criterion="in [0, 0]",
    kind="exact",
)

# %% [markdown]
r"""
Its norms are right, but for what a column of names cannot show: Gemma 2 has a norm on both sides of each sublayer
([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)). Its note goes further (l. 296): no major model since Llama 1 ([Touvron et al., 2023](https://arxiv.org/abs/2302.13971)) uses full LayerNorm. Against it we hold Falcon
([Almazrouei et al., 2023](https://arxiv.org/abs/2311.16867)), StableLM 2 ([Bellagente et al., 2024](https://arxiv.org/abs/2402.17834)), StarCoder 2 ([Lozhkov et al., 2024](https://arxiv.org/abs/2402.19173)), Nemotron-4
([Parmar et al., 2024](https://arxiv.org/abs/2402.16819)), OLMo 1 ([Groeneveld et al., 2024](https://arxiv.org/abs/2402.00838)), Phi-3.5-MoE ([Abdin et al., 2024](https://arxiv.org/abs/2404.14219)), and Cohere's Command R and Command A
([Team Cohere, 2025](https://arxiv.org/abs/2504.00698)). These were picked by hand, because they have LayerNorm; whether they are *major* is a judgement. What their layers construct, a program reads from transformers 5.23.0
(`tests/norm_census.py` has its rules). Cohere's norms have no shift, and OLMo 1's neither gain nor shift.
"""

# %%
full = ("falcon", "stablelm", "starcoder2", "nemotron", "phimoe")  # with gain and shift
bare_ones = ("cohere", "cohere2", "olmo")
with_layer = [family for family in full if kind_of[family] == "layer"]
claim(
    "D-layer-norm-did-not-end-with-llama",
    "At least {mean:.0f} families after Llama 1 build LayerNorms with gain and shift ({which}), {others} one without.",
    len(with_layer),
    said="No major model released since Llama 1 uses full LayerNorm.",
    which=", ".join(with_layer),
    others=" and ".join(family for family in bare_ones if kind_of[family] == "layer"),
    source="Transformer Anatomy, part 7, l. 296; modeling files of transformers 5.23.0",
    criterion="in [0, 0]",
    kind="exact",
)

# %%
counts = {
    word: sum(row["norms"] == word for row in census if row["kind"] == "decoder")
    for word in ("rms", "layer", "both", "none found")
}
claim(
    "D-most-decoders-have-rms-norm",
    "Of {known} decoder families with one kind of norm {mean:.0%} have RMSNorm, the others LayerNorm; {both} have both, of {none} the rule sees none.",
    counts["rms"] / (counts["rms"] + counts["layer"]),
    said="RMSNorm is the standard of published decoders.",
    known=counts["rms"] + counts["layer"],
    both=counts["both"],
    none=counts["none found"],
    source="modeling files of transformers 5.23.0, decoders by its registry, read by program",
    criterion="> 0.5",
    kind="exact",
)  # fmt: skip

# %% [markdown]
r"""
A family counts if transformers registers it for causal language modelling and neither for masked tokens nor for sequence to sequence. The share counts kinds of code, not how much they are used.

## What a norm costs at inference

For one token of width $d$, in one kernel, with bfloat16 everywhere:

| norm | operations | bytes of activations | bytes of parameters |
| --- | --- | --- | --- |
| RMSNorm | $4d$ | $4d$ | $2d$ |
| LayerNorm | $7d$ | $4d$ | $4d$ |

At $d = 8192$ that is 48 and 64 KiB; *the series* (l. 474–488) has 64 and 96, with float32 parameters. On an H100 they take $48\cdot1024/3.35\cdot10^{12} = 15$ ns and 20 ns of memory's time, where the start of any
kernel takes microseconds. So by the estimate, with one sequence both cost a start; with many, activations decide, and these are equal.
[A whole model](09_memory_wall.ipynb#a-whole-model) derives the **estimate** used here and [What the sources say, and what we measured](09_memory_wall.ipynb#what-the-sources-say-and-what-we-measured) checks the series' times. One token's norm no GPU has measured for this book; large ones an H100 has:
"""

# %%
bench = benches()["NVIDIA H100 80GB HBM3"]
longer = []
for way in ("forward", "backward"):
    layer, rms = (read_times(bench, norm, way) for norm in ("layer_norm", "rms_norm"))
    longer += [
        {
            who: [100 * (ratio - 1) for ratio in compare_times(layer[at][who], rms[at][who])]
            for who in ("normkernels", "torch", "compile")
        }
        for at in layer
    ]
slowest, *around = max(of["normkernels"] for of in longer)
claim(
    "D-a-large-layer-norm-takes-little-longer",
    "Our LayerNorm takes up to {mean:.1f} % longer than our RMSNorm, forward and backward; PyTorch's up to {torch:.0f} %, the compiler's up to {compiled:.0f} %.",
    slowest,
    torch=max(of["torch"][0] for of in longer), compiled=max(of["compile"][0] for of in longer),
    interval=tuple(around),
    unit="replays, 20th to 80th percentile",
    said="On an H100 our large LayerNorm takes less than a tenth longer than our RMSNorm.",
    source="activations of 64 MiB and more in bfloat16; times recorded on an H100 (data/bench)",
    criterion="< 10",
    kind="at",
)  # fmt: skip

# %%
h100 = DEVICES["H100"]
splits = {"8B": 1, "70B": 4, "405B": 16}
wholes = {
    f"{name}, {batch} at once, {label}": step(
        SIZES[name], h100, way="decode", batch=batch, context=4096,
        given=Assumptions(program, split=split),
    )
    for name, split in splits.items()
    for batch, program, label in ((1, "eager", "in steps"), (1, "fused", "one kernel"), (64, "fused", "one kernel"))
}  # fmt: skip
plots.share_bars(
    wholes,
    notes={name: f"{1e3 * sum(parts.values()):.3g} ms" for name, parts in wholes.items()},
    caption="An estimate: what norms and the sums before them take of a decoding step, of the 8B "
    "model on one H100, of 70B on 4, of 405B on 16. GPUs share the matrices while each computes "
    "every norm. A kernel takes 2 µs at least; communication is left out.",
).named("inference-share")

# %%
seventy, given_four = SIZES["70B"], Assumptions("fused", split=4)
parts = step(seventy, h100, way="decode", batch=1, context=4096, given=given_four)
shift = seventy.norms * 2 * seventy.dim / h100.bandwidth  # reading every shift, in seconds
claim(
    "D-decode-saving-of-rms-norm",
    "By bytes alone, not reading {n_norms} shifts would save {micro:.1f} µs, {mean:.3f} %; a second reduction is not counted, and no GPU was asked.",
    100 * shift / sum(parts.values()),
    said="By bytes alone, RMSNorm in place of LayerNorm saves under a twentieth of a per cent of a decoding step.",
    n_norms=seventy.norms,
    micro=1e6 * shift,
    source="the estimate above, for a 70B model on four H100s; a lower bound of the difference",
    criterion="< 0.05",
    kind="exact",
)

# %%
plots.table(
    [
        {"model": name, "GPUs": split, "norms": SIZES[name].norms}
        | {
            f"{batch} at once, % in norms": 100
            * norm_share(SIZES[name], h100, way="decode", batch=batch, context=4096,
                         given=Assumptions("fused", split=split))
            for batch in (1, 8, 64)
        }
        for name, split in (("8B", 1), ("70B", 2), ("70B", 4), ("70B", 8), ("405B", 16))
    ]
)  # fmt: skip

# %% [markdown]
r"""
*The series* (l. 504–511) multiplies its micro-benchmarks to 22.4 µs, 0.2 to 0.3 % of a step. Bytes explain little of that; the rest would be the second reduction and whatever else its kernels did, and an estimate cannot contradict a measurement.

More GPUs raise the share, for they divide the matrices and repeat the norms. With more sequences attention takes longer and the share falls, but at 405B and 64 a norm moves too many bytes for a kernel's shortest time. By the estimate, running a norm as one kernel saves far more than replacing LayerNorm by RMSNorm.

## Exercises

**1 (by hand, 5 minutes).** A backward pass has gradient entries from $3\cdot10^{-9}$ to 2. For scales $2^k$ with whole $k$: which is the smallest at which float16
rounds the small entry not to 0, the smallest at which it is a normal number, and the largest at which nothing overflows? Is there a scale for all of it?
"""

# %% tags=["exercise"]
yours = {"not 0": ..., "normal": ..., "no overflow": ..., "one scale does it": ...}


# %%
def at_scale(k):
    return round_to_format(2.0**k * torch.tensor([3e-9, 2.0]), "float16")


truth = {
    "not 0": next(k for k in range(40) if at_scale(k)[0] > 0),
    "normal": next(k for k in range(40) if at_scale(k)[0] >= FORMATS["float16"].smallest_normal),
    "no overflow": max(k for k in range(40) if at_scale(k)[1].isfinite()),
}
truth["one scale does it"] = truth["normal"] <= truth["no overflow"]
check.answer(yours, truth, name="1", hint="the ends are 2⁻²⁵, 2⁻¹⁴ and 65504")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$3\cdot10^{-9} \approx 1.6\cdot2^{-29}$.

</details>
<details><summary>Solution</summary>

Above $2^{-25}$ the nearest number is $2^{-24}$: $k = 4$. Normal from $2^{-14}$ on: $1.6\cdot2^{k-29}\ge2^{-14}$ from $k = 15$ on. $2\cdot2^{14} = 32768$ fits, $65536$
does not: $k = 14$. So none: one octave is lacking, and the smallest entries lose a bit.

</details>

**2 (in code, 10 minutes).** Add up bfloat16 numbers so that the sum does not stop, with every intermediate result in bfloat16. Rows have a power of two of entries.
"""


# %% tags=["exercise"]
def my_sum(x):
    """Sum over the last axis; x is bfloat16, and so is everything that you store."""
    return ...


# %%
def check_sum(add):
    """Hold a sum of bfloat16 numbers against float64."""
    x = torch.randn(16, 4096, generator=torch.Generator().manual_seed(1)).square().bfloat16()
    total, true = add(x), x.double().sum(-1)
    if isinstance(total, torch.Tensor) and total.dtype != x.dtype:
        return check.answer("wider", "bfloat16", name="2", hint="the result must be bfloat16, too")
    return check.answer(total, true, name="2", hint="add numbers of like size", rtol=0.02)


check_sum(my_sum)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Halves: the first half of the row plus the second, again and again. How often is each number rounded?

</details>
"""


# %% tags=["solution"]
def solved_sum(x):
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


assert check_sum(solved_sum).ok

# %% [markdown]
r"""
**3 (open).** Random Hadamard transforms spread an outlier over all channels before rounding. Multiply $x$ and $w$ of the third figure by an orthogonal matrix and predict, in decibels, what
NVFP4 gains at $f = 100$. What does it lose at $f = 1$?

## References

Works cited: [Abdin et al. (2024)](https://arxiv.org/abs/2404.14219), [Almazrouei et al. (2023)](https://arxiv.org/abs/2311.16867), [Bellagente et al. (2024)](https://arxiv.org/abs/2402.17834), [Team Cohere (2025)](https://arxiv.org/abs/2504.00698), [Dettmers et al. (2022)](https://arxiv.org/abs/2208.07339), [Fishman et al. (2026)](https://arxiv.org/abs/2605.06067), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Groeneveld et al. (2024)](https://arxiv.org/abs/2402.00838), [Lozhkov et al. (2024)](https://arxiv.org/abs/2402.19173), [Micikevicius et al. (2018)](https://arxiv.org/abs/1710.03740), [Micikevicius et al. (2022)](https://arxiv.org/abs/2209.05433), [NVIDIA (2025)](https://arxiv.org/abs/2509.25149), [Parmar et al. (2024)](https://arxiv.org/abs/2402.16819), [Sun et al. (2024)](https://arxiv.org/abs/2402.17762), [Touvron et al. (2023)](https://arxiv.org/abs/2302.13971).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
