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

**Question.** A number can be stored in 32, 16, 8 or 4 bits. Norms are said to need 32. Which format fails where, and what does a norm cost at
inference?

**In short.**

| you look for | in a sentence | section |
| --- | --- | --- |
| the limits of each format, and which part of a norm fails there | float16 runs out of range, bfloat16 runs out of digits, and FP8 runs out of both; an ε of $10^{-8}$ or less is 0 in float16 | [Formats](D_numbers.ipynb#what-each-format-holds) |
| FP8 and NVFP4, with and without a norm | with one scale for all tokens, E4M3 loses small tokens if token sizes span six powers of ten; a norm, or a scale for each token, prevents this; if one channel is far larger than the others, a norm recovers at most 3 dB of the signal-to-noise ratio on average, and next to nothing in NVFP4 | [Dot products](D_numbers.ipynb#a-dot-product-in-eight-bits-and-in-four) |
| sums of squares in float16, bfloat16, FP8 | a running sum is too small for wide tokens; averaging in pairs comes close | [Sums of squares](D_numbers.ipynb#the-sum-of-squares-by-width) |
| tokens stored in FP8 | a token of RMS 0.01 to 100 keeps its RMS in E4M3 if its squares are added in float32; LayerNorm's variance is too large if the mean is many times the standard deviation | [Stored in FP8](D_numbers.ipynb#stored-in-fp8-added-in-float32) |
| a gain of 1, and of $1 + w$ | weight decay pulls the first to 0 and the second to 1; in bfloat16 a gain of 1 rounds away every small update | [Gains](D_numbers.ipynb#how-a-gain-is-stored) |
| loss scaling | at our size float16 needs none; with a mean over 4,096 times as many tokens, most gradients between modules would be rounded to 0 | [Loss scaling](D_numbers.ipynb#loss-scaling) |
| which gradient overflows first | with too large a scale, that of the output matrix; the norms' gains have the largest gradients only where float16 underflows | [And the norms?](D_numbers.ipynb#and-the-norms) |
| which models use LayerNorm, and which RMSNorm | most decoder families use RMSNorm; some families newer than Llama use LayerNorm | [Who uses which norm](D_numbers.ipynb#who-uses-which-norm), [a list](D_numbers.ipynb#later-families) |
| the price at inference | for one token, one kernel launch (an estimate); reading LayerNorm's biases takes a negligible part of a 70B model's step; for large tensors the price depends on the kernels | [Inference](D_numbers.ipynb#what-a-norm-costs-at-inference) |
| training with norms in bfloat16 | no harm on ordinary tokens; we did not train with norms in float16 | [chapter 03](03_rmsnorm.ipynb#no-effect-on-ordinary-activations) |
| position of ε, order of casts, $x - \mu$, $d - 1$; autocast, Welford's variance | in other chapters, or not tried | [What is not here](D_numbers.ipynb#what-is-not-here) |

Below, *the series* means part 7 of *Transformer Anatomy*. The [errata](errata.md) list its mistakes by line. [What a claim is](claims.md) explains the words on a card, such as *preregistered* and *weak*.
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
from labkit.experiments import Experiment, Lab, Run, combine, computed, exact, published
from labkit.formats import (
    FORMATS,
    emulate_nvfp4,
    measure_signal_to_noise,
    round_to_format,
    scale_to_format,
    sum_in_format,
)
from labkit.model import ScaledGradients
from labkit.norms import rms_norm
from labkit.training import loss_of

# %%
lab = Lab("D_numbers", size=size, seed=seed, memory={"kernel": "900M", "run": "850M"})
sizes = lab.sizes(
    dim=32,
    depth=4,
    steps=150,
    held_out=8192,
)
draws = lab.seeds(5)
of_draws = partial(computed, unit="draws")

# %% [markdown]
r"""
## What each format holds

A format has $p$ significant bits and a range. The number $p$ counts the leading 1, which is not stored: bfloat16 has eight significant bits and stores seven of them. The rounding error is at most $2^{-p}$ of a number, as long as the number is *normal*. Smaller numbers lose digits
one by one, and everything below half of the smallest number is rounded to 0. A number that is too large becomes infinity. E4M3 and E2M1 have
no infinity: they saturate, so a square that is too large becomes the largest number (or NaN in E4M3, if a program asks for it). E4M3 and E5M2 are the two kinds of FP8 ([Micikevicius et al., 2022](https://arxiv.org/abs/2209.05433)); E2M1 is the
format of NVFP4's values.
"""


# %%
def keep_whole(number):
    """Return a whole number below a million as such: a table rounds only the others."""
    return int(number) if number.is_integer() and number < 1e6 else number


plots.table(
    {
        "format": name, "bits": of.bits, "exponent bits": of.bits - of.significant,
        "mantissa bits": of.significant - 1, "p": of.significant, "largest": keep_whole(of.largest),
        "smallest normal": of.smallest_normal, "smallest": of.smallest,
        "one-pass variance fails from a mean of (standard deviations)": keep_whole(2 ** (of.significant / 2)),
        "squares overflow from about": of.largest**0.5,
        "a running sum of ones stops at": 2**of.significant,
    }
    for name, of in FORMATS.items()
)  # fmt: skip

# %% [markdown]
r"""
The last three columns concern norms. A *one-pass* variance is $E[x^2] - E[x]^2$; [chapter 03](03_rmsnorm.ipynb#limited-precision-bfloat16-float16-fp8) derives when this difference has no correct digits left.

**An ε can vanish.** The sum under the root must be representable in the format in which it is computed. For an all-zero token this sum is ε alone, so its output shows whether ε survives in a format:
"""

# %%
eps = {"1e-5": 1e-5, "1e-6": 1e-6, "1e-8": 1e-8, "1e-12": 1e-12}
kept = {
    name: {way: round_to_format(torch.tensor(value), way).item() for way in ("float16", "bfloat16")}
    for name, value in eps.items()
}
silent = torch.zeros(4, dtype=torch.float16)
exact(sum(of["float16"] == 0 for of in kept.values())).claim(
    "D-a-small-eps-is-zero-in-float16",
    "in [2, 2]",
    "In float16 an ε of 1e-8 or 1e-12 is rounded to 0.",
    found="Of {tried_eps} values of ε, {brain} are rounded to 0 in bfloat16 and {mean:.0f} in float16 ({which}). With such an ε the normalized output of an all-zero token is {result}.",
    source="the smallest float16 is 2^-24; 1e-8 is the ε of Zhang and Sennrich's code",
    beside={
        "brain": sum(of["bfloat16"] == 0 for of in kept.values()),
        "tried_eps": len(eps),
        "which": " and ".join(name for name, of in kept.items() if of["float16"] == 0),
        "result": str((silent / (silent.square().mean() + 1e-8).sqrt())[0].item()),
    },
)

# %% [markdown]
r"""
## A dot product in eight bits, and in four

In a matrix product we round both operands, but not the sums. The **signal-to-noise ratio**
is $10\log_{10}(\sum \text{exact}^2 / \sum \text{error}^2)$, in decibels; at 20 dB the error is a tenth of the result. Rounding to $p$ bits leaves an error of about
$0.4\cdot2^{-p}$ of a value, whatever its size: for values spread evenly from one power of two to the next, the error's root mean square is $2^{-p}/\sqrt6$. The squared errors of both operands add up. Signal and noise both grow with width, so their ratio stays the same. Each bit halves the error: $20\log_{10}2 = 6.02$ dB.

To use a small range well, we divide a tensor by one number, its *scale*, so that its largest value just fits. **NVFP4** is E2M1 with a scale for each block of
16 values, which is itself stored in E4M3, and a scale for the tensor ([NVIDIA, 2025](https://arxiv.org/abs/2509.25149)). We emulate it. We
did not train models with all products in FP8 or NVFP4.
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
def rate(way, prepare=lambda x, w: (x, w), **how):
    """Rate a way of rounding in decibels, draw by draw."""
    return of_draws([count_decibels(*prepare(*draw(s, **how)), way) for s in draws])


bits = [FORMATS[name].significant for name in formats[:4]]
plain = {way: rate(way) for way in ways}
slope = combine(lambda *by: np.polyfit(bits, by, 1)[0], *(plain[name] for name in formats[:4]))
slope.claim(
    "D-six-decibels-a-bit",
    "in [5.7, 6.3]",
    "In a dot product, each significant bit adds 6 dB to the signal-to-noise ratio.",
    found="From E5M2 to float16, each significant bit adds {mean:.2f} dB to the signal-to-noise ratio of a dot product. The ratio is {low8:.0f} dB in E4M3, {bf16:.0f} dB in bfloat16 "
    "and {four:.0f} dB in NVFP4.",
    source="the rounding analysis above",
    beside={"low8": plain["e4m3"], "bf16": plain["bfloat16"], "four": plain["NVFP4"]},
    predicted=6.02,
)

# %% [markdown]
r"""
### Tokens of unlike size

In large models, a few tokens have entries up to 100,000 times as large as others ([Sun et al., 2024](https://arxiv.org/abs/2402.17762)), so tokens can differ widely in size. If one scale must fit all of them, small tokens fall below the format's smallest number. (We did not measure how much our tokens differ.)
RMSNorm divides each token by its RMS, so normalized tokens correspond to the left end of every line in the figure below. One scale for each token has the same effect without a norm.
"""

# %%
spreads = (0, 1, 2, 3, 4, 5, 6, 8, 10)
by_spread = {way: {d: rate(way, decades=d) for d in spreads} for way in ways}
held = {
    way: max(d for d in spreads if at[d].mean > at[0].mean - 1) for way, at in by_spread.items()
}
plots.curves(
    by_spread,
    xlabel="spread of the tokens' sizes (powers of ten)",
    ylabel="signal to noise (dB)",
    caption="Signal-to-noise ratio of a product with one scale per tensor, for the worst tenth of the tokens, against the spread of their sizes in powers of ten. Each format loses less than 1 dB up to this spread: "
    + ", ".join(f"{way} {d}" for way, d in held.items())
    + ". The range of NVFP4 is limited by its block scales, which are stored in E4M3. After a norm all tokens have the same size, so their spread is 0.",
    provenance=lab.provenance(),
).named("unlike-tokens")


# %%
def normalized(x, w):
    """Divide each token by its root mean square."""
    return rms_norm(x, eps=0.0), w


def scaled(x, w):
    """Divide each token by its largest entry: one scale for each token, and no norm."""
    return x / x.abs().amax(-1, keepdim=True), w


# %%
changes = {"a norm": normalized, "a scale for each token": scaled}
after = {change: {way: rate(way, of, decades=6) for way in ways} for change, of in changes.items()}
mended = {way: after["a norm"][way] - by_spread[way][6] for way in ways}
plots.table([
    {"sizes over six powers of ten, dB": way, "one scale for the tensor": by_spread[way][6].mean}
    | {change: at[way].mean for change, at in after.items()}
    for way in ways
])  # fmt: skip

# %%
mended["e4m3"].claim(
    "D-a-norm-mends-tokens-of-unlike-size",
    "> 10",
    "In E4M3, if token sizes range over six powers of ten, a norm preserves tokens that one scale for all tokens would lose.",
    found="If token sizes range over six powers of ten, a norm changes the signal-to-noise ratio of the worst tokens by {mean:+.0f} dB in E4M3, {four:+.0f} dB in NVFP4 and {five:+.1f} dB in E5M2.",
    source="this appendix; one scale for a tensor as in Micikevicius et al. 2022, arXiv 2209.05433",
    beside={"four": mended["NVFP4"], "five": mended["e5m2"]},
)

# %% [markdown]
r"""
### An outlier channel

Now one channel is $f$ times as large as the others in *every* token. Such a channel is an **outlier feature** ([Dettmers et al., 2022](https://arxiv.org/abs/2208.07339)). The outlier's rounding error is $f$ times as large and masks the
ordinary channels: with $d$ channels the noise grows by $10\log_{10}(1 + f^2/d)$, in every format that can still represent both the outlier and the other channels. E2M1 with one scale cannot.

**A norm** divides the whole token by one number, so it changes no ratio between channels. But if the outlier outweighs all other channels, the norm gives it the same size in every token, and one scale then fits it exactly. This removes the outlier's rounding error
but not that of its weight, so it removes at most half of the noise, $10\log_{10}2 = 3.01$ dB on average.

**Blocks.** In NVFP4 the outlier is the largest value of its block, so its only error is the rounding of the block's scale to E4M3, with or without a norm. The larger error of its weight remains. So NVFP4 loses about as much as other formats lose after a norm, and a norm hardly improves it. Blocks protect the *other blocks* from the outlier's scale, but not from the noise of the outlier's product.

**A gain** can shift magnitude from the channel to its weight: divide the channel by $\sqrt f$ and multiply its weight by $\sqrt f$. Relative errors do not change, so most formats hardly improve. In NVFP4 the channel and its weight are then usually the largest values of their blocks, and their only error is the rounding of the scales. This recovers part of the loss.

The table and its card use the ratio of noise to signal, averaged over tokens.
"""

# %%
factors = (1, 3, 10, 30, 100, 300, 1000)
by_factor = {
    way: {f: rate(way, outlier=f) for f in factors} for way in ("bfloat16", "e4m3", "NVFP4", "e2m1")
}
for way in ("bfloat16", "e4m3", "NVFP4"):
    by_factor[f"{way}, with a norm"] = {f: rate(way, normalized, outlier=f) for f in factors}
plots.curves(
    by_factor,
    xlabel="size of the outlier channel relative to the others",
    ylabel="signal to noise (dB)",
    logx=True,
    caption="Signal-to-noise ratio of the ordinary channels, for the worst tenth of the tokens, against the size of the outlier channel. Far above √1024 = 32 the formula predicts a loss of 20 dB for each "
    "factor of ten. At the right end a norm raises the ratio of bfloat16 and E4M3 a little, but not that of NVFP4.",
    provenance=lab.provenance(),
).named("outlier-channel")


# %%
def share(x, w, f=1.0):
    """Divide the outlier channel by the root of its factor, and multiply its weight by it."""
    root = torch.ones(x.shape[-1])
    root[7] = f**0.5
    return x / root, w * root


def average(way, f, prepare=lambda x, w: (x, w)):
    """Decibels by noise over signal averaged over tokens, for each draw."""
    at = [measure_tokens(*prepare(*draw(s, outlier=f)), way) for s in draws]
    noise = of_draws([(10 ** (-one / 10)).mean() for one in at])
    return noise.map(lambda share: -10 * np.log10(share))


bare = {way: {f: average(way, f) for f in (1, 100, 1000)} for way in ways}
lost = {way: {f: bare[way][1] - bare[way][f] for f in (100, 1000)} for way in ways}
given = {way: {f: average(way, f, normalized) - bare[way][f] for f in (100, 1000)} for way in ways}
moved = {
    way: {f: average(way, f, partial(share, f=f)) - bare[way][f] for f in (100, 1000)}
    for way in ways
}

# %%
formula = "formula; a norm, at most"
noise = {f: 10 * np.log10(1 + f**2 / 1024) for f in (100, 1000)}
lost[formula] = {f: exact(of) for f, of in noise.items()}
given[formula] = {f: exact(of - 10 * np.log10(1 + f**2 / 2048)) for f, of in noise.items()}
moved[formula] = dict.fromkeys(noise, exact(0.0))
columns = {"lost": lost, "recovered by a norm": given, "recovered by a gain": moved}
plots.table(
    {"dB": way}
    | {
        f"f = {f:,}: {what}": round(of[way][f].mean, 1)
        for f in noise
        for what, of in columns.items()
    }
    for way in lost
)

# %%
four = ("bfloat16", "float16", "e4m3", "e5m2")
combine(lambda *of: fmean(of), *(given[way][1000] for way in four)).claim(
    "D-a-norm-leaves-an-outlier-channel",
    "< 3.01",
    "Averaged over draws and over bfloat16, float16 and FP8, a norm recovers no more than 3 dB of the signal-to-noise ratio that is lost to an outlier channel.",
    found="A channel that is 1,000 times as large as the others costs {lost:.1f} dB of the signal-to-noise ratio. A norm recovers {mean:.1f} dB on average, up to {most:.1f} dB in a single draw, and {nv:.1f} dB in NVFP4.",
    source="the rounding analysis above; averaged over bfloat16, float16, E4M3 and E5M2",
    beside={
        "lost": fmean(lost[way][1000].mean for way in four),
        "most": max(max(given[way][1000]) for way in four),
        "nv": given["NVFP4"][1000],
    },
)

# %%
(by_factor["NVFP4"][30] - by_factor["e2m1"][30]).claim(
    "D-blocks-keep-an-outlier-local",
    "> 5",
    "If one channel is 30 times as large as the others, NVFP4's blocks preserve channels that E2M1 with one scale loses.",
    found="If one channel is 30 times as large as the others, the signal-to-noise ratio of four-bit values is {mean:.0f} dB higher with blocks of 16 than with one scale.",
    source="NVIDIA 2025, arXiv 2509.25149",
)

# %% [markdown]
r"""
### Why unit vectors may do with four bits

[Fishman et al. (2026)](https://arxiv.org/abs/2605.06067) train nGPT ([chapter 08](08_ngpt.ipynb)) in NVFP4 without the usual precautions. They give this reason: if the entries of two
vectors agree in sign a little more often than not, their products add up with width, whereas rounding errors, which have no common sign, partly cancel. On the sphere, they say, entries do agree. With correlation $\rho$ the signal's power is
$d + (\rho d)^2$, and the noise's power is proportional to $d$. From width 512 to 4,096 their ratio rises by $10\log_{10}\frac{1+4096\rho^2}{1+512\rho^2}$ decibels in three doublings. If the correlation
is strong, the errors get a common sign, too, because E2M1's errors are not independent of the rounded values. We did not measure which $\rho$ trained models have.
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
    rho: of_draws(
        [
            np.polyfit(np.log2(widths), [count_aligned(s, d, rho) for d in widths], 1)[0]
            for s in draws
        ]
    )
    for rho in (0.0, 0.1, 0.5)
}
# %%
slopes[0.1].claim(
    "D-width-lifts-a-signal-that-adds-up",
    "in [2.3, 3.3]",
    "If the entries of two vectors have a correlation of 0.1, doubling the width adds nearly 3 dB to the signal-to-noise ratio of their product in NVFP4.",
    found="In NVFP4, doubling the width adds {mean:.1f} dB to a product's signal-to-noise ratio at a correlation of 0.1, {none:.1f} dB without correlation and {half:.1f} dB at a correlation of 0.5.",
    source="Fishman et al. 2026, arXiv 2605.06067",
    beside={"none": slopes[0.0], "half": slopes[0.5]},
    predicted=10 * np.log10((1 + 40.96) / (1 + 5.12)) / 3,
)

# %% [markdown]
r"""
## The sum of squares, by width

RMSNorm squares $d$ numbers and adds the squares; a mean and a variance are sums of $d$ terms, too. *The series* says (l. 440) that computing any of the three in FP8 is "completely unreliable". Three things can go
wrong, and only the last concerns how tokens are *stored*.

- **The end of the range.** The squares of $d$ numbers of RMS $r$ add up to $dr^2$. Float16's largest number is 65504, and numbers below 65520 round to it. So a sum that is computed exactly and then stored in float16 overflows if $r \ge \sqrt{65520/d}$, which is 4 at width 4,096 and
2 at 16,384. The *mean* of squares overflows only if a square does, that is, if an entry is 256 or larger ([chapter 03](03_rmsnorm.ipynb#limited-precision-bfloat16-float16-fp8)). In E4M3 no sum exceeds 448. Kernels that add in float32, as ours do, reach neither limit.
- **A running sum.** Once a sum is $2^p$ times as large as a term, adding the term may leave the sum unchanged. Once the sum is $2^{p+1}$ times as large, it always does. A running sum of ones stops at $2^p$ (the first table's last column). Sums of different squares stop later but are too small as well. So a running float16 sum can be finite even if the exact sum overflows.
- **Rounded tokens.** The errors of their entries average out, to about $2^{-p}/\sqrt d$ of the RMS, except for a bias that does not decrease with the width.

The second problem depends on the order of the additions. If neighbours are averaged in pairs, again and again, both terms of each addition are averages of equally many squares, and no result exceeds the larger of its terms.
"""

# %%
reach = (64, 256, 1024, 4096, 16384)


def draw_tokens(s, width, many=64):
    """Draw standard normal tokens: [token, channel]."""
    return torch.randn(many, width, generator=torch.Generator().manual_seed(s))


def shares_kept(width, way, add=sum_in_format):
    """Return the sum of squares, added in a format, over the exact one, by draw."""
    x = torch.stack([draw_tokens(s, width, many=16) for s in draws])
    kept = (add(x.square(), way) / x.double().square().sum(-1)).mean(-1)
    return of_draws(kept.tolist())


def add_averages(x, way):
    """Average neighbours in a format, again and again; multiply by the width outside of it."""
    width, x = x.shape[-1], round_to_format(x, way)
    while x.shape[-1] > 1:
        x = round_to_format((x[..., ::2] + x[..., 1::2]) / 2, way)
    return width * x[..., 0]


# %%
sums = {
    f"added in {way}": {width: shares_kept(width, way) for width in reach}
    for way in ("float32", "float16", "bfloat16", "e5m2", "e4m3")
}
sums["averaged in pairs in e4m3"] = {
    width: shares_kept(width, "e4m3", add_averages) for width in reach
}
plots.curves(
    sums,
    xlabel="width",
    ylabel="sum of squares divided by the exact sum",
    logx=True,
    caption="Sum of a token's squares divided by the exact sum, against the width, with rounding after each addition. The fewer digits a format has, the smaller the width at which a running sum falls short. Pairwise averaging "
    "stays near 1 even in E4M3. (Real kernels add in float32 and split the sum into pieces.)",
    provenance=lab.provenance(),
).named("sum-of-squares")

# %%
sums["added in bfloat16"][16384].claim(
    "D-a-running-bfloat16-sum-stops",
    "< 0.5",
    "A running bfloat16 sum of a wide token's squares reaches less than half of the exact sum.",
    found="At width 16,384, a running bfloat16 sum of squares reaches {mean:.0%} of the exact sum, so the norm's output is {times:.1f} times as large as it should be. At width 4,096, the sum reaches {first:.0%}.",
    source="the spacing of bfloat16",
    beside={
        "first": sums["added in bfloat16"][4096],
        "times": sums["added in bfloat16"][16384].map(lambda share: share**-0.5),
    },
)

# %%
sizes_tried = torch.arange(1.5, 9, 0.001)  # RMS of a token
overflow = {
    width: sizes_tried[round_to_format(width * sizes_tried.square(), "float16").isinf()][0].item()
    for width in (1024, 4096, 16384)
}
large = (2.1 * rms_norm(draw_tokens(0, 16384)[0], eps=0.0)).square()  # RMS 2.1: above the formula's
exact(max(abs(rms - (65520 / width) ** 0.5) for width, rms in overflow.items())).claim(
    "D-a-sum-of-squares-overflows-by-width",
    "< 0.0011",
    "A sum of d squares that is computed exactly and stored in float16 overflows if the RMS of the d numbers is √(65520/d) or larger.",
    found="The smallest RMS at which a sum of squares stored in float16 overflows differs from the formula by at most {mean:.4f} ({from_on}). If the additions are rounded to float16 as well, an exact sum of {true:,.0f} becomes {short:,.0f}.",
    source="the largest float16 is 65504; what rounds to it ends at 65520",
    beside={
        "from_on": "; ".join(f"{rms:.2f} at width {width:,}" for width, rms in overflow.items()),
        "true": large.sum(),
        "short": sum_in_format(large, "float16"),
    },
)


# %%
sums["added in e5m2"][4096].claim(
    "D-statistics-of-fp8-are-unreliable",
    "< 0.5",
    "A running FP8 sum of a wide token's squares reaches less than half of the exact sum.",
    found="At width 4,096, a running sum of squares reaches {mean:.0%} of the exact sum in E5M2 and {four:.0%} in E4M3. E4M3's largest number is {bound:.0%} of the exact sum.",
    source="Transformer Anatomy, part 7, l. 440",
    published="'completely unreliable'",
    beside={"four": sums["added in e4m3"][4096], "bound": FORMATS["e4m3"].largest / 4096},
)


# %%
def error_of_averages(way, s, width):
    """Relative error of mean squares that are averaged in pairs in a format, by token."""
    x = draw_tokens(s, width)
    return (add_averages(x.square(), way) / x.double().square().sum(-1) - 1).abs()


wrong_by = {
    way: torch.stack([torch.stack([error_of_averages(way, s, d) for d in reach]) for s in draws])
    for way in ("e4m3", "e5m2")
}  # [draw, width, token]
typical = {way: of.mean(-1).amax(-1) for way, of in wrong_by.items()}
of_draws(typical["e4m3"].tolist()).claim(
    "D-averages-in-pairs-survive-fp8",
    "< 0.05",
    "The mean square of a token, computed by averaging in pairs in E4M3, differs from the exact mean square by less than five per cent on average.",
    found="At the worst of {widths} widths, the mean square of a token, averaged in pairs in E4M3, has a relative error of {mean:.1%} on average and at most {most:.0%}. In E5M2 it is {five:.1%} on average and at most {most5:.0%}.",
    source="this appendix, against Transformer Anatomy, part 7, l. 440",
    beside={
        "widths": len(reach),
        "most": wrong_by["e4m3"].max(),
        "five": typical["e5m2"].mean(),
        "most5": wrong_by["e5m2"].max(),
    },
)

# %% [markdown]
r"""
### Stored in FP8, added in float32

So the series is right about a running sum in FP8, but not about every order of addition: averaging in pairs comes close in E4M3. Does FP8 harm tokens that are only *stored* in it, as the output of a product may be, and whose squares are added in float32?
"""


# %%
def store(name, s, width=4096, rms=1.0, mean=0.0):
    """Draw 64 tokens and round them to a format, without a scale: before and after."""
    x = mean + rms * draw_tokens(s, width)
    return x, round_to_format(x, name)


def error_of_rms(name, **how):
    """Relative error of each token's RMS, squares added in float32: [draw, token]."""
    pairs = (store(name, s, **how) for s in draws)
    return torch.stack([(y.square().mean(-1) / x.square().mean(-1)).sqrt() - 1 for x, y in pairs])


def error_of_variance(name, mean=10.0):
    """Relative error of each token's variance, in two passes; the deviation is 1."""
    pairs = (store(name, s, mean=mean) for s in draws)
    return torch.stack([y.var(-1, correction=0) / x.var(-1, correction=0) - 1 for x, y in pairs])


# %%
plots.table(
    {"stored in": name}
    | {
        f"{what} of RMS, width {width:,}, %": round(100 * of(error_of_rms(name, width=width)).mean().item(), 4)
        for what, of in (("error", torch.abs), ("bias", torch.clone)) for width in (4096, 65536)
    }
    | {"error of the variance, mean 10, %": 100 * error_of_variance(name).mean().item()}
    for name in ("bfloat16", "e4m3", "e5m2")
)  # fmt: skip

# %%
by_rms = {
    rms: error_of_rms("e4m3", rms=rms).abs() for rms in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 300.0)
}
plots.table(
    {"RMS of the token": rms}
    | {
        f"{name}: {what}, %": 100 * of(error_of_rms(name, rms=rms).abs()).item()
        for name in ("e4m3", "e5m2")
        for what, of in (("on average", torch.mean), ("the largest", torch.max))
    }
    for rms in by_rms
)

# %%
inside = torch.stack([error for rms, error in by_rms.items() if 0.01 <= rms <= 100])
of_draws(inside.amax((0, -1)).tolist()).claim(
    "D-tokens-in-fp8-keep-their-rms",
    "< 0.005",
    "If a token of RMS 0.01 to 100 is stored in E4M3 and its squares are added in float32, the error of its RMS is less than half a per cent.",
    found="Among 64 tokens stored in E4M3, the largest error of the RMS is {mean:.2%} for RMS 0.01 to 100 and {one:.2%} for RMS 1. The mean error for RMS 1 is {usual:.2%}.",
    source="this appendix; the largest error of 64 tokens, at five values of RMS, width 4,096",
    beside={"one": by_rms[1.0].amax(-1).mean(), "usual": by_rms[1.0].mean()},
)

# %% [markdown]
r"""
In FP8 the error and the bias have nearly the same size at the larger width, so hardly anything but bias is left. In bfloat16 the error still decreases with the width. At RMS 0.001 E4M3 rounds most entries to 0, and at RMS 300 large entries saturate. E5M2 has a wider range at both ends.

LayerNorm's variance is less robust. Numbers near 10 are 1 apart in E4M3, and an error that is spread evenly over a step of 1 has a variance of $1/12$. The variance of the error adds to that of the token, which is 1 if the mean is 10 standard deviations.
"""

# %%
of_draws(error_of_variance("e4m3").mean(-1).tolist()).claim(
    "D-a-stored-variance-grows-by-a-twelfth",
    "in [0.07, 0.1]",
    "The variance of a token with mean 10 and standard deviation 1 is about a twelfth too large if the token is stored in E4M3.",
    found="If a token's mean is 10 standard deviations, the variance of the stored token is {mean:.1%} too large in E4M3, {five:.0%} in E5M2 and {brain:.2%} in bfloat16.",
    source="the variance of rounding to whole numbers; this appendix",
    beside={
        "five": error_of_variance("e5m2").mean(),
        "brain": error_of_variance("bfloat16").mean(),
    },
    predicted=1 / 12,
)

# %% [markdown]
r"""
So to compute a token's RMS, within a format's range, only the *addition* needs float32. For LayerNorm, storage alone can spoil the variance if tokens have a large mean.

FP8 should save time, too: a norm that writes FP8 for the next product writes half as many bytes as one that writes bfloat16. Inference libraries have such kernels ([FlashInfer](https://docs.flashinfer.ai/generated/flashinfer.norm.fused_add_rmsnorm_quant.html)), and so has our package (`normkernels.rms_norm_fp8`), but we timed none.
"""

# %% [markdown]
r"""
## How a gain is stored

Gemma's code stores the gain of RMSNorm as its distance $w$ from 1, and computes $1 + w$ in float32 ([the line](https://github.com/google/gemma_pytorch/blob/014acb7ac4563a5f77c76d7ff98f31b568c16508/gemma/model.py#L187)). Two things change.

**Weight decay** pulls the *stored* number towards zero. A gain that is stored directly is pulled to 0: without a gradient
it shrinks by a factor of $e$ in 10,000 steps, at a learning rate of $10^{-3}$ and a weight decay of $0.1$. Under Pre-Norm this does
not even limit what the model can compute: only the product of the gain and the next matrix counts, so the matrix can grow by what the gain loses. A common practice is to exempt
gains from decay, as [nanoGPT](https://github.com/karpathy/nanoGPT/blob/3adf61e154c3fe3fca428ad6bc3818b27a3b8291/model.py#L271) does. A gain stored as $1 + w$ is pulled to 1, that is, to the plain
norm.

**Rounding.** bfloat16's numbers are $2^{-7}$ apart above 1 and $2^{-8}$ below. So if a gain of 1 is stored directly, every increase of up to $2^{-8}$ and every decrease of up to $2^{-9}$ is rounded away: updates of a size in between can shrink the gain but not enlarge it. Around 0 the numbers are close enough. Let $w$ rise in steps of 0.001: from $w = ¼$ on, rounding makes each
step nearly twice as large, and from ½ on it removes every step. Without a float32 copy of the weights, a gain stored as $1 + w$
learns as long as $w$ is small, if $1 + w$ is computed in float32. In bfloat16, $1 + 0.001$ is rounded to 1:
"""

# %%
gain, w, update = (torch.tensor(value).bfloat16() for value in (1.0, 0.0, 1e-3))
moved = []  # by w, after each update
for _ in range(1000):
    gain, w = gain + update, w + update
    moved.append(w.item())
exact(gain.item() - 1).claim(
    "D-a-gain-near-one-cannot-move",
    "in [0, 0]",
    "A bfloat16 gain of 1 rounds away a thousand updates of 0.001. A gain stored as 1 + w follows the updates while w is small.",
    found="After 1,000 updates of 0.001, a bfloat16 gain has changed by {mean:.3f}. A gain stored as 1 + w has changed by {early:.3f} after 100 updates, by {late:.3f} after 400 and by {last:.3f} after 1,000.",
    source="the spacing of bfloat16; Gemma's code",
    beside={"early": moved[99], "late": moved[399], "last": moved[999]},
)

# %% [markdown]
r"""
## Loss scaling

Float16's smallest number is $2^{-24}$. A gradient below half of it is rounded to 0. A loss is a mean over $N$ tokens, so each gradient of the backward pass contains a
factor $1/N$. **Loss scaling** multiplies the loss by $S$ and divides weight gradients by $S$ in float32, before the optimizer sees them
([Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)). So $S/N$ must suit the format's range.

We run one forward and backward pass of a small Pre-Norm model, collect all nonzero gradients between modules, and round them to float16 at each $S$:
"""

# %%
whole = ModelConfig(
    "pre", "rms", sizes.dim, sizes.depth, context=32, activation="gelu", init="half-xavier"
)
text = Text(batch=16, time=32, held_out=sizes.held_out)


def collect_gradients(seed):
    """Collect what passes down between modules in the first backward pass, but not what is 0."""
    torch.manual_seed(seed)
    model, kept = whole.build().double(), []

    def watch(module, args, output):
        if isinstance(output, torch.Tensor):
            output.register_hook(kept.append)

    for module in model.modules():
        module.register_forward_hook(watch)
    loss_of(model, *next(iter(text.load().train(seed)))).backward()
    return torch.cat([g[g.abs() > 1e-15] for g in kept])  # float64 rounds a 0 to less


# %%
octaves = range(-20, 29, 4)
passed = [collect_gradients(s) for s in draws]
shares = {
    "rounded to 0": lambda g: (g == 0).float().mean().item(),
    "infinite": lambda g: g.isinf().float().mean().item(),
}
fates = {
    name: {
        k: of_draws([100 * of(round_to_format(2.0**k * g, "float16")) for g in passed])
        for k in octaves
    }
    for name, of in shares.items()
}
plots.curves(
    fates,
    xlabel="k, where the scale is 2 to the k",
    ylabel="gradient entries (%)",
    caption="Share of gradient entries that float16 rounds to 0 or to infinity, against the loss scale, in a first pass over 512 tokens. At small scales gradients vanish, at large scales the largest gradients overflow, and in between neither happens. A mean over 4,096 times as many tokens moves both curves to the right by 12.",
    provenance=lab.provenance(),
).named("loss-scaling")

# %%
fates["rounded to 0"][-12].claim(
    "D-averaging-tokens-empties-float16",
    "> 50",
    "Most gradients between modules are rounded to 0 in float16 if they are scaled by 2^-12.",
    found="Without scaling, {one:.1f} % of the gradient entries of a first pass are rounded to 0 in float16. With a scale of 2^-12, which corresponds to a mean over 4,096 times as many tokens, {mean:.0f} % are rounded to 0.",
    source="the smallest float16 number; Micikevicius et al. 2018, arXiv 1710.03740",
    beside={"one": fates["rounded to 0"][0]},
)

# %% [markdown]
r"""
### Trained with rounded gradients

We train the same model for 150 steps. Gradients are rounded between modules and at the weights. Weights, Adam's averages and the
forward pass stay in float32. Scales below 1 imitate means over more tokens. The imitation is exact between modules but too severe at the weights, where the tokens' gradients are added up.

| question | choices | ours |
| --- | --- | --- |
| Multiply the loss by $2^{-12}$, and round the gradients to float16. What does that do to the test loss? <!-- D-underflow-stops-training --> | hardly anything; <!-- 0.2 --> it clearly raises the loss | <details><summary>show</summary>At 2^-12 of the loss, float16 gradients cost more than 0.2 nats.</details> |
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
unrounded = lab.run(Experiment(bench, {"seed": fresh}))
half = lab.run(Experiment(narrow, {"model.loss_scale": scales, "seed": fresh}))
eight = lab.run(Experiment(in_e5m2, {"model.loss_scale": [1.0, 2.0**8], "seed": fresh}))


# %%
def has_overflowed(record):
    """Return whether a run ended in an overflow."""
    return record.diverged_at is not None


def read_loss(record):
    """Return the test loss; a run that overflowed has none."""
    return np.nan if has_overflowed(record) else record.probes["test"]["loss"]


full = unrounded.measure(read_loss)
ended, ended_e5m2 = (
    {scale: part.measure(read_loss) for scale, part in results.by("loss_scale").items()}
    for results in (half, eight)
)
plots.curves(
    {
        name: {f"{np.log2(scale):.0f}": losses for scale, losses in at.items()}
        for name, at in (("float16", ended), ("e5m2", ended_e5m2))
    },
    xlabel="k, where the scale is 2 to the k",
    ylabel="test loss (nats)",
    reference={"float32": full.mean},
    caption="Test loss after training with rounded gradients, against the loss scale. At small scales gradients vanish, at large scales they overflow, and between them the loss is flat. E5M2 has float16's exponent range, so its largest number is nearly as large, but its smallest number is larger.",
    provenance=lab.provenance(unrounded, half, eight),
).named("rounded-gradients")

# %%
cost = {scale: losses - full for scale, losses in ended.items() if scale < 2.0**17}
cost[2.0**-12].claim(
    "D-underflow-stops-training",
    "> 0.2",
    "At 2^-12 of the loss, float16 gradients cost more than 0.2 nats.",
    found="With a loss scale of 2^-12, float16 gradients raise the test loss by {mean:.2f} nats. With a loss scale of 2^-8, they raise it by {less:.2f} nats.",
    source="Micikevicius et al. 2018, arXiv 1710.03740",
    beside={
        "less": cost[2.0**-8],
        "second value": "five scales below 1",
        "control": "the same rate in float32",
    },
)

# %%
cost[1.0].claim(
    "D-no-scale-is-needed-here",
    "in [-0.02, 0.02]",
    "At this size float16 gradients need no loss scale.",
    found="The test loss with float32 gradients is {apart:.5f} nats {side} that with unscaled float16 gradients.",
    source="this appendix",
    beside={"second value": "scales of 2^8 and 2^16", "control": "the same rate in float32"},
    predicted=0.0,
)

# %% [markdown]
r"""
The sentences on the next three cards claim more than the cards test. For "every scale" we tried 1, $2^8$ and $2^{16}$. "Ends the run" means that more than four runs in ten overflow. We added $2^{22}$ only after we had seen $2^{18}$, so the third card is not an independent
forecast.
"""

# %%
farthest = combine(lambda *of: max(map(abs, of)), cost[1.0], cost[2.0**8], cost[2.0**16])
farthest.claim(
    "D-scales-work-over-many-octaves",
    "< 0.02",
    "At every scale from 1 to 2^16, float16 gradients end within 0.02 nats of float32's.",
    found="At three loss scales from 1 to 2^16, the test loss with float16 gradients differs from that with float32 gradients by at most {mean:.4f} nats.",
    source="Micikevicius et al. 2018, arXiv 1710.03740",
    beside={"second value": "three scales", "control": "the same rate in float32"},
)

# %%
gone = {k: half.where(loss_scale=2.0**k).count(has_overflowed) for k in (16, 18, 20, 22)}
gone[18].claim(
    "D-too-large-a-scale-ends-the-run",
    "> 0.4",
    "A constant scale of 2^18 ends the run within 150 steps.",
    found="At a constant loss scale of 2^18, an overflow ends {k} of {n} runs.",
    source="the largest float16 number; in the pilot 2^18 ended the run at once",
    beside={"second value": "2^16, 2^20 and 2^22"},
)

# %%
gone[22].claim(
    "D-sixteen-times-that-scale-ends-every-run",
    "> 0.4",
    "A constant scale of 2^22 ends the run within 150 steps.",
    found="At a constant loss scale of 2^22, an overflow ends {k} of {n} runs. It ends {twenty:.0%} of the runs at 2^20 and {sixteen:.0%} at 2^16.",
    source="the largest float16 number",
    beside={"twenty": gone[20], "sixteen": gone[16], "second value": "2^16, 2^18 and 2^20"},
)

# %%
lower = ended_e5m2[1.0] - ended_e5m2[2.0**8]
lower.claim(
    "D-e5m2-gradients-want-a-scale",
    "> 0",
    "E5M2 gradients end lower at the scale 2^8 than at 1.",
    found="With E5M2 gradients, the test loss is {mean:.3f} nats lower at a loss scale of 2^8 than at 1. It is lower with {signs} of {n} seeds, by up to {most:.2f} nats. At 2^8, it is still {left:.3f} nats higher than with float32 gradients.",
    source="E5M2's smallest number is 2^-16; Micikevicius et al. 2022, arXiv 2209.05433",
    beside={
        "signs": sum(one > 0 for one in lower),
        "most": max(lower),
        "left": ended_e5m2[2.0**8] - full,
        "second value": "none",
        "control": "the same rate in float32",
    },
)

# %% [markdown]
r"""
With E5M2 gradients, the difference between the two scales is so much larger for one seed than for the others that the last card's interval reaches below 0. This is why that card says "not seen".

### Dynamic scaling: GradScaler

The largest scale that works is not known in advance, and it differs between seeds. So training programs halve the scale and skip the step when any gradient overflows, and double the scale after a number of good steps
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
exact(apart).claim(
    "D-a-dozen-lines-are-the-grad-scaler",
    "in [0, 0]",
    "A dozen lines compute the same loss scale as PyTorch's GradScaler.",
    found="In 200 steps, of which {skipped} overflow, the scale differs from that of PyTorch's GradScaler at {mean:.0f} steps.",
    source="torch.amp.GradScaler, growth 2, backoff 1/2",
    beside={"skipped": skipped},
)

# %% [markdown]
r"""
### And the norms?

*The series* (l. 442–446) says two things. First, a norm divides gradients by σ, which can amplify small ones. Second, when a scale must be lowered, it is often the gradients of norms that overflowed. The first statement is
true for tokens with an RMS below 1. A norm divides gradients by the token's RMS ([Small print](03_rmsnorm.ipynb#small-print-ε-and-the-last-rounding)), so for large tokens, such as those deep in a Pre-Norm stream, gradients *shrink*.

We test one reading of the second statement: we compare gradients of the norms' *gains* with those of other weights, because PyTorch's check looks at the weights' gradients. The card uses the runs with float32 gradients. We did not trace gradients that pass *through* norms, which the series means as well.

| question | choices | ours |
| --- | --- | --- |
| Which weights have the largest gradient entry: the norms' gains, or the others? <!-- D-norm-gradients-are-the-largest --> | the others; <!-- 0 --> the gains | <details><summary>show</summary>Of all weights, the norms' gains have the largest gradient entries, so they overflow first.</details> |
"""


# %%
def gain_of_backward(rms, width=512):
    """By what a norm multiplies a gradient, for a token of this RMS."""
    torch.manual_seed(seed)
    x = (rms * rms_norm(torch.randn(width).double(), eps=0.0)).requires_grad_()
    top = torch.randn(width).double()
    return (torch.autograd.grad(rms_norm(x, eps=0.0), x, top)[0].norm() / top.norm()).item()


# %%
grid = (0.01, 1.0, 100.0)
times = [gain_of_backward(rms) for rms in grid]
exact(float(np.polyfit(np.log(grid), np.log(times), 1)[0])).claim(
    "D-a-norm-divides-gradients-by-the-size",
    "in [-1.001, -0.999]",
    "RMSNorm divides the gradients that pass through it by the token's RMS.",
    found="For tokens of RMS 0.01, 1 and 100, RMSNorm multiplies a gradient by {small:.1f}, {one:.2f} and {large:.3f}. The factor scales as the RMS to the power {mean:.3f}.",
    source="RMSNorm's Jacobian",
    published="'can amplify small gradients'",
    beside={"small": times[0], "one": times[1], "large": times[2]},
)

# %%
KINDS = {
    "output": "output",
    "embedding": "embedding",
    "norms": "norms' gains",
    "matrices": "layers' matrices",
}


def read_largest(record, kind):
    """Return the largest gradient entry of a kind of weights at each look."""
    return [of[kind] for of in record.probes["gradient-extremes"].values()]


def compare_gains(record, step):
    """Divide the largest gradient entry of gains by the largest elsewhere."""
    largest = record.probes["gradient-extremes"][step]
    return largest["norms"] / max(value for kind, value in largest.items() if kind != "norms")


looks = list(unrounded.values("gradient-extremes")[0])
# %%
ratios = unrounded.measure(
    lambda record: np.mean([np.log2(compare_gains(record, step)) for step in looks])
)
elsewhere = {
    kind: fmean(np.mean(read_largest(record, kind)) for _, record in unrounded)
    for kind in KINDS
    if kind != "norms"
}
ratios.claim(
    "D-norm-gradients-are-the-largest",
    "> 0",
    "Of all weights, the norms' gains have the largest gradient entries, so they overflow first.",
    found="Averaged over {looks} steps, the largest gradient entry of the norms' gains is {ratio:.2f} times "
    "that of all other weights (binary logarithm: {mean:.2f}). Among the other weights, those called “{where}” have the largest entries on average.",
    source="Transformer Anatomy, part 7, l. 446",
    published="'often the normalization gradients that trigger the overflow detection'",
    beside={
        "looks": len(looks),
        "ratio": 2**ratios.mean,
        "where": max(elsewhere, key=lambda kind: elsewhere[kind]),
        "last step": "the last of the run",
    },
)

# %% [markdown]
r"""
Overflows occur in the runs with rounded gradients. We made two tables of these runs after seeing them, so the tables are only descriptive.
"""


# %%
def has_overflowed_in(record, kind):
    """Return whether a kind of weights has a gradient entry at the first step that is no number."""
    return not np.isfinite(np.array(read_largest(record, kind)[0], dtype=float))


plots.table(
    {"overflows at step 1, scale": f"2^{k}"}
    | {
        name: f"{half.where(loss_scale=2.0**k).count(partial(has_overflowed_in, kind=kind))} runs"
        for kind, name in KINDS.items()
    }
    for k in (20, 22)
)


# %%
def span(values):
    """Write the lowest and the highest."""
    return f"{min(values):.2f} to {max(values):.2f}"


plots.table(
    {"largest gradient, gains over others, scale": f"2^{k}"}
    | {
        f"step {step}": span(half.where(loss_scale=2.0**k).measure(compare_gains, at=step))
        for step in looks
    }
    for k in (-14, -12, -10, -8, 0)
)

# %% [markdown]
r"""
At $2^{20}$ every run overflows in its first step, and only in the output matrix. At $2^{22}$ gains overflow, too, but only together with the output matrix and the embedding. At small scales the opposite holds: from $2^{-10}$ down, late in every run, the gains have the largest gradients of all weights. We did not trace why. So "contradicted" applies to runs whose gradients float16 can represent.

## Who uses which norm

*The series* prints a table of eight models (l. 279–298), the latest from 2024. We compare it with papers and released configurations.
"""

# %%
adopted, census = published("norm-adoption"), published("norm-census")
kind_of = {row["family"]: row["norms"] for row in census}
CALLED = {
    "rms": "RMSNorm",
    "layer": "LayerNorm",
    "both": "both",
    "none found": "not seen by the rule",
}
plots.table(
    {
        "model": row["model"], "year": int(row["year"]), "norm": row["printed_norm"],
        "in transformers": CALLED.get(kind_of.get(row["family"]), "not there"),
        **{
            f"{what}{how}": f"{row[key]:.0f}" if isinstance(row[key], float) else row[key]
            for what in ("widths", "layers")
            for how, key in ((", printed", f"printed_{what}"), ("", what))
        },
        "source": row["source"],
    }
    for row in adopted
)  # fmt: skip

# %%
differ = [
    row
    for row in adopted
    if (row["printed_widths"], row["printed_layers"]) != (row["widths"], row["layers"])
]
wrong = [row["model"] for row in differ if isinstance(row["printed_widths"], str)]
exact(len(wrong)).claim(
    "D-sizes-in-the-adoption-table",
    "in [0, 0]",
    "The widths and layers in a table of eight models match the models that the table names.",
    found="In {mean:.0f} of {rows} rows of the table, the printed widths and layers do not match the models that are named there ({wrong}). In {several} rows, only one of several sizes is given ({which}).",
    source="Transformer Anatomy, part 7, l. 288-295, against the papers in the last column",
    beside={
        "rows": len(adopted),
        "wrong": ", ".join(wrong),
        "several": len(differ) - len(wrong),
        "which": ", ".join(row["model"] for row in differ if row["model"] not in wrong),
    },
)

# %% [markdown]
r"""
The table's norms are right, but a column of names cannot show everything: Gemma 2 has a norm on both sides of each sublayer
([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)). The table's note says (l. 296) that no major model since Llama 1 ([Touvron et al., 2023](https://arxiv.org/abs/2302.13971)) uses full LayerNorm, that is, with gain and bias. Counterexamples are Falcon
([Almazrouei et al., 2023](https://arxiv.org/abs/2311.16867)), StableLM 2 ([Bellagente et al., 2024](https://arxiv.org/abs/2402.17834)), StarCoder 2 ([Lozhkov et al., 2024](https://arxiv.org/abs/2402.19173)), Nemotron-4
([Parmar et al., 2024](https://arxiv.org/abs/2402.16819)) and Phi-3.5-MoE ([Abdin et al., 2024](https://arxiv.org/abs/2404.14219)). (The LayerNorms of OLMo 1 ([Groeneveld et al., 2024](https://arxiv.org/abs/2402.00838)) have neither gain nor bias, and those of Cohere's Command R and Command A ([Team Cohere, 2025](https://arxiv.org/abs/2504.00698)) have no bias.) We picked these models by hand because they have LayerNorm. Whether they are *major* is a judgement. Our program reads in the code of transformers 5.23.0 which norms the layers construct
(`tests/norm_census.py` has its rules; a norm that is called LayerNorm but subtracts nothing counts as RMSNorm).
"""

# %%
full = ("falcon", "stablelm", "starcoder2", "nemotron", "phimoe")  # with gain and shift
bare_ones = ("cohere", "cohere2", "olmo")
with_layer = [family for family in full if kind_of[family] == "layer"]
exact(len(with_layer)).claim(
    "D-layer-norm-did-not-end-with-llama",
    "in [0, 0]",
    "No major model released since Llama 1 uses LayerNorm with gain and bias.",
    found="At least {mean:.0f} model families released after Llama 1 use LayerNorm with gain and bias ({which}). Other families ({others}) use LayerNorm without bias.",
    source="Transformer Anatomy, part 7, l. 296; modeling files of transformers 5.23.0",
    beside={
        "which": ", ".join(with_layer),
        "others": ", ".join(family for family in bare_ones if kind_of[family] == "layer"),
    },
)

# %%
counts = {
    word: sum(row["norms"] == word for row in census if row["kind"] == "decoder")
    for word in ("rms", "layer", "both", "none found")
}
exact(counts["rms"] / (counts["rms"] + counts["layer"])).claim(
    "D-most-decoders-have-rms-norm",
    "> 0.5",
    "Most families of published decoders use RMSNorm.",
    found="Of {known} decoder families with one kind of norm, {mean:.0%} use RMSNorm, and the others use LayerNorm. In {both} more families, our program finds both norms, and in {none} it finds neither.",
    source="modeling files of transformers 5.23.0, decoders by its registry, read by program",
    beside={
        "known": counts["rms"] + counts["layer"],
        "both": counts["both"],
        "none": counts["none found"],
    },
)

# %% [markdown]
r"""
The share counts families, not how much they are used.

### Later families

The table lists every decoder family counted, under the name of its folder in transformers. *Both* can mean one norm for the text and another for the encoder of images or sound. *Not seen by the rule* does not mean "no norms": these families have their norms where the program does not look, or under other names.
"""

# %%
plots.table(
    {
        "norm": CALLED[word],
        "families": number,
        "which": ", ".join(
            row["family"] for row in census if (row["norms"], row["kind"]) == (word, "decoder")
        ),
    }
    for word, number in counts.items()
)

# %% [markdown]
r"""

## What a norm costs at inference

For one token of width $d$, in one kernel, with bfloat16 everywhere:

| norm | operations | bytes of activations | bytes of parameters |
| --- | --- | --- | --- |
| RMSNorm | $4d$ | $4d$ | $2d$ |
| LayerNorm | $7d$ | $4d$ | $4d$ |

At $d = 8192$ that is 48 KiB for RMSNorm and 64 KiB for LayerNorm; *the series* (l. 474–488) has 64 and 96 KiB, with float32 parameters. An H100's memory needs $48\cdot1024/3.35\cdot10^{12} = 15$ ns and 20 ns to move them, whereas any
kernel launch takes microseconds. So we estimate that with one sequence either norm costs one launch. With many sequences the activations dominate, and they are the same for both norms.
[A whole model](09_memory_wall.ipynb#a-whole-model) derives the **estimate** used here.

On an H100 we timed large tensors, as for a long prompt, but not one token. Inference runs the *forward* pass only:
"""

# %%
bench = benches()["NVIDIA H100 80GB HBM3"]
makers = {
    "normkernels": "ours",
    "compile": "the compiler's",
    "liger": "Liger's",
    "torch": "PyTorch's",
}
longer = {}
for way in ("forward", "backward"):
    layer, rms = (read_times(bench, norm, way) for norm in ("layer_norm", "rms_norm"))
    for at in layer:
        ratios_of = {who: compare_times(layer[at][who], rms[at][who]) for who in makers}
        longer[way, *at] = {
            who: [100 * (ratio - 1) for ratio in of] for who, of in ratios_of.items()
        }
plots.table(
    {"LayerNorm's time above RMSNorm's, %": way, "tokens": tokens, "width": width}
    | {name: round(of[who][0], 1) for who, name in makers.items()}
    for (way, tokens, width), of in longer.items()
)

# %%
ahead = {who: [of[who] for (way, *_), of in longer.items() if way == "forward"] for who in makers}
slowest, *around = max(ahead["normkernels"])
computed(slowest, interval=around, unit="replays, 20th to 80th percentile").claim(
    "D-a-large-layer-norm-takes-little-longer",
    "< 10",
    "On an H100, with large tensors, the forward pass of our LayerNorm takes less than a tenth longer than that of our RMSNorm.",
    found="In the forward pass, LayerNorm takes at most {mean:.1f} % longer than RMSNorm with our kernels, at most {compiled:.1f} % with the compiler's, at most {liger:.1f} % with Liger's, and {least:.0f} to {torch:.0f} % with PyTorch's.",
    source="activations of 64 MiB and more in bfloat16; times recorded on an H100 (data/bench)",
    beside={
        "compiled": max(ahead["compile"])[0],
        "liger": max(ahead["liger"])[0],
        "least": min(ahead["torch"])[0],
        "torch": max(ahead["torch"])[0],
    },
)

# %%
h100 = DEVICES["H100"]
splits = {"8B": 1, "70B": 4, "405B": 16}
wholes = {
    f"{name}, {batch} at once, {label}": step(
        SIZES[name], h100, way="decode", batch=batch, context=4096,
        given=Assumptions(program, split=split),
    )
    for name, split in splits.items()
    for batch, program, label in ((1, "eager", "unfused"), (1, "fused", "one kernel"), (64, "fused", "one kernel"))
}  # fmt: skip
plots.share_bars(
    wholes,
    notes={name: f"{1e3 * sum(parts.values()):.3g} ms" for name, parts in wholes.items()},
    caption="Estimated share of a decoding step that norms and the residual additions before them take, for an 8B model on one H100, a 70B model on four and a 405B model on sixteen. Unfused means nine kernels for each norm, as PyTorch runs "
    "the formula. A kernel takes at least 2 µs. Communication is left out.",
).named("inference-share")

# %%
seventy, parts = SIZES["70B"], wholes["70B, 1 at once, one kernel"]
bandwidth = h100.bandwidth * Assumptions("fused", split=4).of_bandwidth
shift = seventy.norms * 2 * seventy.dim / bandwidth  # seconds
exact(100 * shift / sum(parts.values())).claim(
    "D-decode-saving-of-rms-norm",
    "< 0.05",
    "Reading LayerNorm's biases takes less than a twentieth of a per cent of a decoding step of a 70B model.",
    found="Reading the biases of {n_norms} norms takes an estimated {micro:.1f} µs, which is {mean:.3f} % of a decoding step, if nothing hides this time. In our estimate of the whole step, kernel launches hide it.",
    source="bytes over 0.9 of the data sheet's bandwidth; a 70B model on four H100s. By the estimate, both norms take a kernel's shortest time, so the estimated difference is 0",
    beside={"n_norms": seventy.norms, "micro": 1e6 * shift},
)


# %%
def share_of_norms(name, split, batch, context=4096, memory=80e9):
    """Estimate the share of norms in per cent, where weights and cache fit on the GPUs."""
    one = SIZES[name]
    cache = batch * context * 2 * one.kv_heads * one.head_dim * one.depth
    if 2 * (one.parameters + cache) > split * memory:
        return "does not fit"
    given = Assumptions("fused", split=split)
    return 100 * norm_share(one, h100, way="decode", batch=batch, context=context, given=given)


plots.table(
    {"model": name, "GPUs": split, "norms": SIZES[name].norms}
    | {f"{n} at once, % in norms": share_of_norms(name, split, n) for n in (1, 8, 64)}
    for name, split in (("8B", 1), ("70B", 2), ("70B", 4), ("70B", 8), ("405B", 16))
)

# %% [markdown]
r"""
*The series* (l. 504–511) extrapolates its micro-benchmarks: RMSNorm is said to save 22.4 µs, which is 0.2 to 0.3 % of a step. Bytes explain only a small part of this saving. The micro-benchmarks themselves are doubtful: their times are shorter than a kernel launch, and the first one's printed share of the bandwidth is more than ten times too high ([chapter 09](09_memory_wall.ipynb#what-the-sources-say-and-what-we-measured)). So we cannot judge this saving.

In the table above, more GPUs raise the norms' share of the time, because they divide the matrices and repeat the norms. With more sequences attention takes longer and the share falls, but at 405B and 64 sequences a norm moves so many bytes that it takes longer than the shortest kernel, and the share rises. By our estimate, running a norm as one kernel saves far more than replacing LayerNorm by RMSNorm.

## What is not here

Chapter 03 covers training with norms in bfloat16, which the series charts in l. 448–456 ([Training with a one-pass variance](03_rmsnorm.ipynb#training-with-a-one-pass-variance)), the subtraction $x - \mu$ in bfloat16 ([Limited precision](03_rmsnorm.ipynb#limited-precision-bfloat16-float16-fp8)), the position of ε, and the order of casts ([Small print](03_rmsnorm.ipynb#small-print-ε-and-the-last-rounding)). Chapter 01 covers the variance with $d-1$ and a bfloat16 tensor in a float32 `nn.LayerNorm` ([Where it goes wrong](01_batchnorm_vs_layernorm.ipynb#where-it-goes-wrong)). Chapter 09 has [times on a GPU](09_memory_wall.ipynb#times-on-a-gpu).

We did not try autocast, the upcasts inside PyTorch's norms, Welford's variance, one token's norm on a GPU, or a forward pass in FP8.

## Exercises

**1 (by hand, 5 minutes).** A backward pass has gradient entries from $3\cdot10^{-9}$ to 2. Consider scales $2^k$ with whole $k$. What is the smallest scale at which float16
does not round the small entry to 0, the smallest at which this entry is a normal number, and the largest at which nothing overflows? Does one scale satisfy all three conditions?
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
check.answer(yours, truth, name="1", hint="the limits are 2⁻²⁵, 2⁻¹⁴ and 65504")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$3\cdot10^{-9} \approx 1.6\cdot2^{-29}$.

</details>
<details><summary>Solution</summary>

Above $2^{-25}$ the nearest number is $2^{-24}$, so the first answer is $k = 4$. Numbers are normal from $2^{-14}$ on, and $1.6\cdot2^{k-29}\ge2^{-14}$ from $k = 15$ on. $2\cdot2^{14} = 32768$ fits and $65536$
does not, so the third answer is $k = 14$. There is no such scale: a factor of two is missing, so the smallest entries lose a bit.

</details>

**2 (in code, 10 minutes).** Add up bfloat16 numbers so that the sum is not too small, with every intermediate result in bfloat16. Rows may have any number of entries.
"""


# %% tags=["exercise"]
def my_sum(x):
    """Sum over the last axis; x is bfloat16, and so is everything that you store."""
    return ...


# %%
def check_sum(add):
    """Hold a sum of bfloat16 numbers against float64."""
    x = torch.randn(16, 5000, generator=torch.Generator().manual_seed(1)).square().bfloat16()
    total, true = add(x), x.double().sum(-1)
    if isinstance(total, torch.Tensor) and total.dtype != x.dtype:
        return check.answer("wider", "bfloat16", name="2", hint="the result must be bfloat16, too")
    return check.answer(total, true, name="2", hint="add numbers of similar size", rtol=0.02)


check_sum(my_sum)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Add the first half of the row to the second, again and again. If the length is odd, append a 0 first. How often is each number rounded?

</details>
"""


# %% tags=["solution"]
# Solution
def solved_sum(x):
    while x.shape[-1] > 1:
        x = torch.nn.functional.pad(x, (0, x.shape[-1] % 2))
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


assert check_sum(solved_sum).ok

# %% [markdown]
r"""
**3 (open).** Random Hadamard transforms spread an outlier over all channels before rounding. Multiply $x$ and $w$ of the figure on outlier channels by an orthogonal matrix and predict by how many decibels this improves
NVFP4 at $f = 100$. What does NVFP4 lose at $f = 1$?

## References

Works cited: [Abdin et al. (2024)](https://arxiv.org/abs/2404.14219), [Almazrouei et al. (2023)](https://arxiv.org/abs/2311.16867), [Bellagente et al. (2024)](https://arxiv.org/abs/2402.17834), [Team Cohere (2025)](https://arxiv.org/abs/2504.00698), [Dettmers et al. (2022)](https://arxiv.org/abs/2208.07339), [Fishman et al. (2026)](https://arxiv.org/abs/2605.06067), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Groeneveld et al. (2024)](https://arxiv.org/abs/2402.00838), [Lozhkov et al. (2024)](https://arxiv.org/abs/2402.19173), [Micikevicius et al. (2018)](https://arxiv.org/abs/1710.03740), [Micikevicius et al. (2022)](https://arxiv.org/abs/2209.05433), [NVIDIA (2025)](https://arxiv.org/abs/2509.25149), [Parmar et al. (2024)](https://arxiv.org/abs/2402.16819), [Sun et al. (2024)](https://arxiv.org/abs/2402.17762), [Touvron et al. (2023)](https://arxiv.org/abs/2302.13971).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
