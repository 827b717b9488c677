# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
# RMSNorm

**Question.** LayerNorm does two things to a token: it subtracts the mean and divides by the standard deviation.
[Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467) left the first step out, and reported comparable quality in less time. Llama followed, and
with it most open language models since. So half of a famous operation was dead weight for years, and nobody
noticed? Then consider this. Add the constant 10 to every channel of every embedding and train. A model with
LayerNorm does not feel it. A model with RMSNorm suffers, most clearly at a low learning rate. Compute the *same*
LayerNorm in bfloat16, with a textbook formula for the variance, and most runs all but stall. What does the mean
do, when may it go, and what does the number format have to do with it?
"""

# %% [markdown]
r"""
**What you will see**

- what the subtraction of the mean removes: one direction out of $d$;
- which invariances RMSNorm keeps and which it loses, proved and then tested;
- a recipe that turns a trained Pre-Norm model with LayerNorm into one with RMSNorm, exactly;
- four public versions of "the same" RMSNorm, compared bit by bit;
- what the dropped mean saves, some published arithmetic corrected, and a CPU on which RMSNorm is *slower*;
- RMSNorm against LayerNorm in loss, on text and on a language of known entropy;
- an input on which the mean matters, and a model that learns to subtract it by itself;
- bfloat16 variances of exactly zero, and a training run that such variances ruin;
- six slips, most of them seen in public code, each caught by a check.
"""

# %%
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots
from labkit.corpora import Markov, Text
from labkit.experiments import Experiment, Lab, Run, claim, minus
from labkit.model import Perturbed
from labkit.norms import layer_norm, rms_norm
from labkit.source import show

lab = Lab(
    "03_rmsnorm",
    size=size,
    seed=seed,
    memory={"kernel": "1050M", "run": "850M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    timed_rows=(256, 1024, 4096),
    dim=(8, 32, 256),
    depth=(2, 4, 12),
    context=(32, 32, 256),
    steps=(3, 150, 4000),
    held_out=(512, 8_192, 65_536),
    seeds=(5, 5, 10),
    tuning_seeds=(1, 2, 3),
    few=(1, 3, 5),
    rates=([1e-2], [1e-2, 2e-2, 4e-2], [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]),
    loss_range=(None, (1.95, 2.3), None),
    markov_rates=([1e-2], [5e-3, 2e-2, 3e-2], [1e-3, 5e-3, 1e-2, 2e-2, 3e-2, 6e-2]),
    markov_range=(None, (0.4, 1.1), None),
    offsets=([0.0, 10.0], [0.0, 10.0, 30.0], [0.0, 1.0, 3.0, 10.0, 30.0, 100.0]),
    draws=(2, 5, 10),
)

# %% [markdown]
r"""
## The idea: one step less

A token has the four channels $(3, 1, -1, 5)$. Their mean is $\mu = 2$, their variance $(1 + 1 + 9 + 9)/4 = 5$.
The mean of their *squares* is $(9 + 1 + 1 + 25)/4 = 9$, so the **root mean square** is 3. LayerNorm gives
$(x - 2)/\sqrt5$. RMSNorm gives $x/3$ and is done:

$$\mathrm{RMSNorm}(x) = g \odot \frac{x}{\mathrm{RMS}(x)}, \qquad
\mathrm{RMS}(x) = \sqrt{\tfrac1d\textstyle\sum_i x_i^2}.$$

No mean, and usually no shift. One gain $g_i$ per channel stays.
"""

# %%
x = torch.tensor([3.0, 1.0, -1.0, 5.0])
print("layer", layer_norm(x))
print("rms  ", rms_norm(x))

# %% [markdown]
r"""
The three numbers belong together: $9 = 2^2 + 5$. In general

$$\mathrm{RMS}^2 = \mu^2 + \sigma^2.$$

Where the mean is 0 the two norms agree. Where it is not, RMSNorm divides by more than the standard deviation.
Now shift the token by 10:
"""

# %%
print("layer", layer_norm(x + 10))
print("rms  ", rms_norm(x + 10))

# %% [markdown]
r"""
LayerNorm has not noticed. To RMSNorm the token now looks more like $(1, 1, 1, 1)$, and what told it apart from
others has shrunk. Everything that can go wrong with a missing mean is in this picture.

### What the subtraction removes

Write $\mathbf 1$ for the vector of ones. Subtracting the mean is the projection
$P = I - \tfrac1d\mathbf 1\mathbf 1^\top$, which deletes the component along $\mathbf 1$ and nothing else. So
LayerNorm is RMSNorm after a projection, $\mathrm{LN}(x) = \mathrm{RMSNorm}(Px)$. (Both are taken without gain
and shift.)
"""

# %%
torch.manual_seed(seed)
x = 3 * torch.randn(1000, 60, dtype=torch.float64) + 5
projection = torch.eye(60).double() - 1 / 60
claim(
    "03-layer-is-rms-of-projection",
    "LN(x) and RMSNorm(Px) differ by at most {mean:.1e}.",
    (layer_norm(x, eps=1e-6) - rms_norm(x @ projection, eps=1e-6)).abs().max().item(),
    source="Zhang and Sennrich 2019, arXiv 1910.07467; Gupta et al. 2024, arXiv 2409.12951",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
In a model of width 4096 this is one part in 4096 of a random vector's energy. That makes it plausible that
leaving it in costs little. It also says when the cost is *not* small: when tokens have a large component along
just this direction.

## Derivation

### Invariances

Let $c > 0$. The root mean square is homogeneous, $\mathrm{RMS}(cx) = c\,\mathrm{RMS}(x)$, so

$$\mathrm{RMSNorm}(cx) = \frac{cx}{c\,\mathrm{RMS}(x)} = \mathrm{RMSNorm}(x).$$

For $c < 0$ the sign comes out: the result is $\operatorname{sign}(c)\,\mathrm{RMSNorm}(x)$. This is
**re-scaling invariance**. With an $\epsilon$ under the root it holds as long as
$\mathrm{RMS}(x)^2 \gg \epsilon$. **Re-centring invariance**, $N(x + c\mathbf 1) = N(x)$, is lost, as we saw.

Now put the norm behind a linear layer, $y = N(Wx)$. Scaling the *whole matrix* scales $Wx$, and so changes
nothing. Adding the same row vector $m^\top$ to *every row of $W$* adds $(m^\top x)\mathbf 1$, which LayerNorm
deletes and RMSNorm keeps. Scaling a *single row* changes one channel against the others, which neither
forgives. And scaling a *single example* is forgiven by both, but not by BatchNorm, whose statistics would be
shared with the other examples. The table computes all this.
"""

# %%
from labkit.norms import batch_norm, partial_rms_norm

changes = {
    "all of W × 3": lambda w, x: (3 * w, x),
    "a row added to each row of W": lambda w, x: (w + torch.linspace(-1, 1, 32), x),
    "one row of W × 3": lambda w, x: (torch.cat([3 * w[:1], w[1:]]), x),
    "all examples × 3": lambda w, x: (w, 3 * x),
    "all examples + a vector": lambda w, x: (w, x + torch.linspace(-1, 1, 32)),
    "one example × 3": lambda w, x: (w, torch.cat([3 * x[:1], x[1:]])),
}
families = {
    "batch": lambda a: batch_norm(a, training=True, eps=0.0),
    "layer": lambda a: layer_norm(a, eps=0.0),
    "rms": lambda a: rms_norm(a, eps=0.0),
    "partial-rms": lambda a: partial_rms_norm(a, eps=0.0),
}


# %%
def survives(norm, change):
    """Say whether N(Wx) stays as it was."""
    w, x = torch.randn(48, 32).double(), torch.randn(20, 32).double()
    new_w, new_x = change(w, x)
    return bool(torch.allclose(norm(x @ w.T), norm(new_x @ new_w.T)))


verdicts = {
    (what, name): survives(norm, change)
    for what, change in changes.items()
    for name, norm in families.items()
}
plots.table([{"N(Wx) keeps": w, **{n: verdicts[w, n] for n in families}} for w in changes])

# %%
differ = [what for what in changes if verdicts[what, "layer"] != verdicts[what, "rms"]]
claim(
    "03-only-recentring-is-lost",
    "LayerNorm and RMSNorm differ in {mean:.0f} of {rows} rows: {which}.",
    len(differ),
    rows=len(changes),
    which=", ".join(differ),
    source="Zhang and Sennrich 2019, arXiv 1910.07467, section 4 (invariance analysis)",
    criterion="in [1, 1]",
    kind="exact",
)

# %% [markdown]
r"""
The authors' hypothesis can be read off this table: what makes LayerNorm work is what RMSNorm keeps. (A caution.
Adding a vector to all *examples*, the fifth row, moves $Wx$ along a direction that need not be $\mathbf 1$.
LayerNorm does not forgive that either. "Translation invariance" is said too easily.)

### The gradient

With $r = \sqrt{\mathrm{RMS}(x)^2 + \epsilon}$ and $\hat x = x/r$, differentiate $x_i\,r^{-1}$. From
$\partial r/\partial x_j = x_j/(d\,r)$ we get

$$J(x) = \frac1r\Big(I - \tfrac1d\,\hat x\hat x^\top\Big).$$

LayerNorm's Jacobian, with its own $r$ and $\hat x$, has one more term, $-\tfrac1d\mathbf 1\mathbf 1^\top$. So
for $\epsilon = 0$ LayerNorm deletes two directions of a gradient, and RMSNorm one: that of $\hat x$ itself.
Both divide by $r$: a token that is large passes little gradient on.
"""

# %%
from torch.autograd.functional import jacobian

x = 3 * torch.randn(64).double() + 1
r = (x.square().mean() + 1e-6).sqrt()
formula = (torch.eye(64).double() - torch.outer(x / r, x / r) / 64) / r
claim(
    "03-rms-jacobian",
    "The Jacobian agrees with autograd's up to {mean:.1e}.",
    (jacobian(rms_norm, x) - formula).abs().max().item(),
    source="chain rule; Zhang and Sennrich 2019, arXiv 1910.07467, section 4",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
Invariance has a consequence for training. Let $L(W)$ be a loss behind $N(Wx)$, with $\epsilon = 0$. Since
$L(cW) = L(W)$ for all $c > 0$, the derivative along $W$ is 0: the gradient is orthogonal to the weights. And
differentiating with respect to $W$ on both sides gives $\nabla L(cW) = \tfrac1c\nabla L(W)$. Weights that have
grown get smaller gradients. The paper calls it an implicit adaptation of the learning rate.
"""


# %%
def weight_gradient(w, x, g):
    """Gradient of Σ g·RMSNorm(Wx) with respect to W."""
    w = w.clone().requires_grad_()
    return torch.autograd.grad((rms_norm(x @ w.T, eps=0.0) * g).sum(), w)[0]


w, x, g = (torch.randn(shape).double() for shape in ((48, 32), (20, 32), (20, 48)))
gradient = weight_gradient(w, x, g)
cosine = (gradient * w).sum() / gradient.norm() / w.norm()
print(f"cosine of gradient and weights: {cosine.abs():.0e}")
claim(
    "03-larger-weights-smaller-gradients",
    "Weights times 4: the gradient is {mean:.6f} times as large.",
    (weight_gradient(4 * w, x, g).norm() / gradient.norm()).item(),
    source="Zhang and Sennrich 2019, arXiv 1910.07467, section 4",
    published="1/4",
    criterion="in [0.249999, 0.250001]",
    kind="exact",
)

# %% [markdown]
r"""
### Pre-Norm models do not need the mean

[Jiang et al. (2023)](https://arxiv.org/abs/2305.14858) noticed something stronger than an approximation. In a Pre-Norm model *every* reader of the
stream looks through a norm. If all of them are LayerNorms, the component of the stream along $\mathbf 1$ is
written, carried and never read. So take it out at the source: subtract the mean over channels from each
embedding, and from each column of each matrix that writes to the stream. The stream is now $Px$ in place of
$x$, always. LayerNorm of the one is RMSNorm of the other, and the model with RMSNorm computes the same
function:
"""


# %%
@torch.no_grad()
def with_rms_norm(model):
    """Turn a Pre-Norm model with LayerNorm (no shift) into the same function with RMSNorm."""
    config = replace(model.config, norm="rms", norm_kw=(), norm_eps=1e-5)
    twin = config.build().to(model.embedding.weight.dtype)
    twin.load_state_dict(model.state_dict())
    for name, weight in twin.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            weight -= weight.mean(dim=0)  # channels of the stream are rows here
        if name == "embedding.weight":
            weight -= weight.mean(dim=1, keepdim=True)
    return twin


# %%
text = torch.randint(96, (4, 32))
torch.manual_seed(seed)
unshifted = ModelConfig("pre", "layer", 64, 4, context=32, norm_kw=(("bias", False),))
model = unshifted.build().double()
for gain in [p for name, p in model.named_parameters() if "norm" in name]:
    nn.init.normal_(gain, 1.0, 0.3)  # as if trained
claim(
    "03-pre-layer-becomes-pre-rms",
    "After centring the weights, the logits with RMSNorm differ by at most {mean:.1e}.",
    (with_rms_norm(model)(text) - model(text)).abs().max().item(),
    source="Jiang et al. 2023, arXiv 2305.14858",
    published="equal in exact arithmetic",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
(Biases that are added to the stream are centred too. A *shift* $\beta$, which RMSNorm usually lacks, moves as
$W\beta$ into a bias of the matrix that reads; a model without biases has to keep it.) So for Pre-Norm the
question "does leaving out the *mean* lose expressive power?" is closed. Whatever a LayerNorm model without
shifts computes, an RMSNorm model of the same shape computes too. What remains open is which of them *training*
finds more easily, and at what price.
"""

# %% [markdown]
r"""
## Implementation

The whole norm, as `labkit` has it:
"""

# %%
show(rms_norm)

# %% [markdown]
r"""
Four decisions hide here: where $\epsilon$ stands, in which precision the sum runs, where the gain multiplies,
and when the result is rounded. Public code disagrees on all of them. First the good news: in float32 the main
versions are one function, and PyTorch's. (Gemma stores the gain as its distance from 1.)
"""

# %%
from labkit.norms import rms_norm_gemma, rms_norm_llama, rms_norm_t5

orders = {
    "torch": lambda x, g: torch.rms_norm(x, g.shape, g, 1e-6),
    "llama": lambda x, g: rms_norm_llama(x, g),
    "t5": lambda x, g: rms_norm_t5(x, g),
    "gemma": lambda x, g: rms_norm_gemma(x, g.float() - 1),
}
x, g = torch.randn(512, 4096), 1 + 0.3 * torch.randn(4096)
exact = rms_norm(x.double(), g.double())
versions = [rms_norm(x, g), *(norm(x, g) for norm in orders.values())]

# %%
claim(
    "03-one-function-in-float32",
    "In float32 PyTorch's own and our four versions lie within {mean:.1e} of the float64 formula.",
    max(((y - exact).abs() / exact.abs().clamp(min=1)).max().item() for y in versions),
    source="torch.nn.functional.rms_norm; transformers' Llama, T5 and Gemma",
    criterion="< 2e-6",
    kind="exact",
    tolerance=2e-6,
)

# %% [markdown]
r"""
### Rounding orders

A bfloat16 number has 8 significant bits: one implicit, 7 stored. Its spacing between 1 and 2 is $2^{-7}$; one
spacing is an **ulp**, a unit in the last place. Rounding correctly, once, costs at most half an ulp. How many
roundings are there?

- *torch, Gemma* ([Gemma Team, 2024](https://arxiv.org/abs/2403.08295)): everything in float32, gain included; **one** rounding at the end.
- *Llama* ([Touvron et al., 2023](https://arxiv.org/abs/2302.13971)), *T5* ([Raffel et al., 2020](https://arxiv.org/abs/1910.10683)): round the normalized vector to bfloat16, **then**
  multiply by the gain and round **again**. (T5 does so when its gain is bfloat16 too.)

The normalized value can be off by half an ulp, its product with the gain by half an ulp more. Relative to the
number, an ulp shrinks by a factor of two from one power of two to the next, so the first half may grow to a
whole one. Prediction: a maximum of one half for the first group, up to one and a half for the second.
"""


# %%
def ulp(y):
    """Spacing of bfloat16 at y."""
    return torch.exp2(torch.frexp(y.abs().float()).exponent.double() - 8)


low, low_gain = x.bfloat16(), g.bfloat16()
exact = rms_norm(low.double(), low_gain.double())
rounded = {name: norm(low, low_gain).double() for name, norm in orders.items()}
off = {name: (y - exact).abs() / ulp(exact) for name, y in rounded.items()}
differs = {name: (y != rounded["torch"]).double().mean().item() for name, y in rounded.items()}

# %%
plots.table(
    [
        {
            "version": name,
            "roundings": 2 if name in ("llama", "t5") else 1,
            "mean error (ulp)": off[name].mean().item(),
            "largest error (ulp)": off[name].max().item(),
            "entries unlike torch's": f"{differs[name]:.1%}",
        }
        for name in orders
    ]
)

# %%
claim(
    "03-cast-first-rounds-twice",
    "Llama's order changes {share:.0%} of the entries; its largest error is {mean:.2f} ulp, that of "
    "one rounding {once:.2f}.",
    off["llama"].max().item(),
    share=differs["llama"],
    once=off["torch"].max().item(),
    source="transformers, pull request 29402 (Gemma against Llama)",
    criterion="in [1, 1.5]",
    kind="exact",
)

# %% [markdown]
r"""
Which order is right is a matter of definition: the one that the weights were trained with. (PyTorch itself
rounded twice [until 2025](https://github.com/pytorch/pytorch/pull/147203).) A port that mixes them up gives
slightly different logits, and no error: enough to flip a near-tie. With a gain of exactly 1 all agree in every
bit, so **test ports with random gains**.

### Where ε stands

The paper prints none. The authors' PyTorch code divides by $\mathrm{RMS}(x) + \epsilon$, *outside* the root;
their TensorFlow code, PyTorch, Llama, T5 and Gemma divide by $\sqrt{\mathrm{RMS}(x)^2 + \epsilon}$, *inside*.
For $\mathrm{RMS}(x) \gg \sqrt\epsilon$ nobody can tell. For $x \to 0$ the norm is a linear map, with slope
$1/\sqrt\epsilon$ or $1/\epsilon$. At $\epsilon = 10^{-6}$ that is a thousand or a million.
"""

# %%
from labkit.norms import rms_norm_outside

scales = [10.0**k for k in range(-10, 1)]
token = rms_norm(x[0].double(), eps=0.0)
heights = {
    f"{name}, ε = {eps:.0e}": {
        s: [norm(s * token, eps=eps).square().mean().sqrt().item()] for s in scales
    }
    for name, norm, eps in (
        ("rms", rms_norm, 1e-5),
        ("rms", rms_norm, 1e-6),
        ("rms-outside", rms_norm_outside, 1e-6),
        ("rms-outside", rms_norm_outside, 1e-8),
    )
}

# %%
plots.curves(
    heights,
    xlabel="RMS of the input",
    ylabel="RMS of the output",
    logx=True,
    logy=True,
    caption="The norm is flat above the root of ε (inside) or above ε itself (outside). Below, it is a "
    "linear map, and tokens that carry nothing are no longer blown up to size one.",
    provenance=lab.provenance(),
)

# %%
tiny = 1e-12 * token
slopes = [norm(tiny, eps=1e-6).norm() / tiny.norm() for norm in (rms_norm, rms_norm_outside)]
claim(
    "03-eps-outside-is-steeper",
    "At x → 0 and the same ε = 1e-6, outside the root is {mean:.0f} times as steep as inside.",
    (slopes[1] / slopes[0]).item(),
    source="Zhang and Sennrich's torch code against PyTorch, Llama, T5, Gemma",
    criterion="in [999, 1001]",
    kind="exact",
)

# %% [markdown]
r"""
It matters at padding, at rows that a mask has zeroed, at a zero-initialized branch, where the slope multiplies
the *gradient*, and wherever weights move between code bases. PyTorch adds a trap of its own:
`nn.RMSNorm(eps=None)` means the machine epsilon of the computation, $2^{-23}$ in float32, and not the 1e-5 or
1e-6 of a checkpoint.

### pRMSNorm

The paper also proposes to estimate the root mean square from the first sixteenth of the channels. For $k$
independent Gaussian channels the estimate scatters by about $1/\sqrt{2k}$: one part in 22 for $k = 256$, a half
for $k = 2$. It is always the *first* channels that count, so a model can learn what to put there.

### What it costs

Count one operation for each value that an elementwise operation or a sum touches. Here are both formulas as a
textbook has them.
"""

# %%
from labkit.costs import CountOperations


def textbook_layer_norm(x, g, b, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * g + b


def textbook_rms_norm(x, g, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * g


# %%
def operations(norm, *parameters, tokens=16, dim=8192):
    """Operations per value of one norm."""
    x, count = torch.randn(tokens, dim), CountOperations()
    with count:
        norm(x, *[p(dim) for p in parameters])
    return count.operations / x.numel()


per_value = {
    "layer": operations(textbook_layer_norm, torch.ones, torch.zeros),
    "rms": operations(textbook_rms_norm, torch.ones),
}
per_value

# %% [markdown]
r"""
Three of seven are saved: mean, subtraction, shift. Is that much? A blog series multiplies the first two out for
width 8192 and 80 layers of two norms: $2\cdot2\cdot8192\cdot80 = 2{,}621{,}440$ operations per token. The
product is right. Set it beside the matrices: Llama 3 70B has $70.6\cdot10^9$ parameters, and nearly each costs a
multiplication and an addition per token.
"""

# %%
saved, matrices = 2 * 2 * 8192 * 80, 2 * 70.6e9
claim(
    "03-saved-operations-are-few",
    "The mean's operations are {mean:.4f} % of the {matrices:.0f} billion that a token costs.",
    100 * saved / matrices,
    matrices=matrices / 1e9,
    source="the arithmetic of a blog series, completed",
    published="2,621,440 operations saved per token, 'significant'",
    criterion="< 0.01",
    kind="exact",
)

# %% [markdown]
r"""
So it is not the arithmetic. A norm costs memory traffic: it reads a vector, does a handful of operations,
writes a vector. For a single token of width 8192 in bfloat16, on a GPU that moves $3.35$ TB/s:
"""

# %%
rows = []
for name, vectors, gain_bytes in (
    ("layer, float32 gain and shift", 2, 4),
    ("rms, float32 gain", 1, 4),
    ("layer, bfloat16 gain and shift", 2, 2),
    ("rms, bfloat16 gain (Llama)", 1, 2),
):
    moved = 8192 * (2 + 2 + vectors * gain_bytes)  # read x, write y, read the parameters
    rows.append({"norm": name, "KiB": moved // 1024, "at 3.35 TB/s (µs)": moved / 3.35e6})
plots.table(rows)

# %% [markdown]
r"""
The same series prints the first two rows, together with "measured" times. Three remarks.

- For a *batch* the parameters are read once and the tokens dominate. Then both norms move the same $2d$ values.
  "One pass against two" describes unfused code: a fused kernel keeps the row on the chip, and may go over it
  twice without touching memory again.
- A quoted $0.52\,\mu\mathrm s$ for 96 KiB is $98{,}304\,\mathrm B/0.52\,\mu\mathrm s = 189\,\mathrm{GB/s}$, and
  $189/3350 = 5.6\,\%$, not the $61\,\%$ printed beside it. At this size one sees the cost of *starting* a
  kernel, and times below a microsecond are below that cost. Chapter 9 measures.
- A saving of $0.52 - 0.38 = 0.14\,\mu\mathrm s$ in each of 160 norms makes $22.4\,\mu\mathrm s$ per token, and
  $10^{11}$ tokens a day make $2.24\cdot10^6$ GPU-seconds. A day has 86,400 seconds, so that is $25.9$ GPUs
  running all day, not one. It also assumes that tokens are decoded one at a time.

And on this CPU, with PyTorch's own operators, is RMSNorm faster? Time both, forward and backward, turn about in
one process:
"""

# %%
from labkit.bench import paired


def step_of(norm, x, top):
    """One forward and backward pass."""
    return lambda: norm(x).backward(top)


shape = (sizes.timed_rows, 1024)
x, top = torch.randn(shape, requires_grad=True), torch.randn(shape)
pairs = paired(step_of(nn.RMSNorm(1024), x, top), step_of(nn.LayerNorm(1024), x, top), turns=7)
slower = [rms > layer for rms, layer in pairs]

# %%
claim(
    "03-torch-rms-is-no-faster-on-a-cpu",
    "PyTorch's RMSNorm module takes longer than its LayerNorm module in {mean:.0%} of the paired turns.",
    np.mean(slower),
    source="against 'RMSNorm is faster', said without hardware or kernel",
    published="7 % to 64 % less running time of whole models (Zhang and Sennrich 2019)",
    criterion="> 0.5",
    kind="at",
    tolerance=0.3,
)

# %% [markdown]
r"""
(By how much differs from machine to machine and with its load, so the card counts turns.) It is no law of
nature. PyTorch has a fused LayerNorm for CPUs and assembles RMSNorm from general operators. `labkit`'s RMSNorm
borrows LayerNorm's kernel and makes up most of the difference. **Speed belongs to a kernel, not to a formula.**
The 7 % to 64 % of [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467) are reductions of the running time of whole models, most of them
recurrent, in the frameworks of 2019.
"""

# %% [markdown]
r"""
## Predict

1. **Loss.** Same architecture, same data, each norm at its own learning rate. How far apart do LayerNorm and
   RMSNorm end, in nats per character? Write a number.
2. **The mean of the stream.** A random direction of width $d = 32$ has, on average, $1/32 \approx 3\,\%$ of its
   energy along $\mathbf 1$. Will a trained stream have more, or less? Does it matter which norm trained it?
3. **An offset.** Add 10 to every channel of every embedding. RMSNorm now divides by
   $\sqrt{1 + 10^2} \approx 10$, so what tells tokens apart arrives ten times smaller. Will training repair it?
4. **One-pass variance.** $\frac1d\sum x_i^2 - \mu^2$ subtracts two numbers near $\mu^2$, each rounded to a
   relative $u = 2^{-p}$, where $p$ counts the significant bits: 8 in bfloat16, 11 in float16, 24 in float32.
   The error is about $u\mu^2$ for data of variance 1, so it grows with the *square* of the offset, and nothing
   is left at $\mu \approx 1/\sqrt u = 2^{p/2}$: that is 16, 45 and 4096. And RMSNorm's mean square?
5. **Training in bfloat16**, offset 10: the two-pass formula, and the one-pass formula?

## Measure

**What was chosen, and when?** Pilots with one or two seeds showed nearly equal losses of the two norms, the
offset hurting RMSNorm and the one-pass variance failing at 10. The margin for "the same", $0.05$ nats, was then
set as a size that nobody would pick a norm for. After a first draft had run, four things changed: the rates for
the Markov language, whose best one had been at the edge; the arm without a shift, added to explain a gap; cards
at one fixed rate beside those at the best one, because some verdicts hang on the rate; and the card on speed,
which now counts turns. The criteria of the first draft's losses stayed. Those of the three cards added later, at
a fixed rate, were written after their effects had been seen: they record, and test no prediction.
Later each margin was tied to an effect, a quarter of it at most, which halved that of the losses.

### RMSNorm and LayerNorm in loss

Four blocks of width 32, GELU, Xavier with gain ½, Adam, no warm-up, characters of the State of the Union
addresses. The LayerNorm has gain and shift, the RMSNorm a gain. Each arm gets its rate from validation data and
is reported on test data. A third arm has RMSNorm and the offset of prediction 3.
"""

# %%
base = Run(
    model=Perturbed(  # a ModelConfig with an offset, or rounded norms, where asked for
        recipe="pre",
        norm="layer",
        activation="gelu",
        dim=sizes.dim,
        depth=sizes.depth,
        context=sizes.context,
        init="half-xavier",
    ),
    data=Text(batch=16, time=sizes.context, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, schedule="linear"),
    probes=("validation", "test", "mean-share"),
)

# %%
arms = {
    "layer": {"model.norm": "layer"},
    "rms": {"model.norm": "rms"},
    "rms, offset 10": {"model.norm": "rms", "model.embedding_offset": 10.0},
}
five, two = lab.seeds(sizes.seeds), lab.seeds(sizes.tuning_seeds)
tuning = lab.run(Experiment(base, {"arm": arms, "train.lr": sizes.rates, "seed": two}))

# %%
plots.curves(
    {
        arm: {rate: at.values("validation.loss") for rate, at in part.by("lr").items()}
        for arm, part in tuning.by("arm").items()
    },
    xlabel="learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    ylim=sizes.loss_range,
    caption="How the comparison depends on the learning rate: the two norms lie together at every rate, and the "
    "rate moves the loss far more than the norm does. With the offset RMSNorm ends higher at each of them.",
    provenance=lab.provenance(tuning),
)


# %%
def at_its_best(results):
    """Run five seeds of every arm at the learning rate that validation chose for it."""
    best = {arm: part.best("lr") for arm, part in results.by("arm").items()}
    print("chosen rates:", best)
    return {arm: {**arms[arm], "train.lr": rate} for arm, rate in best.items()}


chosen = at_its_best(tuning)
final = lab.run(Experiment(base, {"arm": chosen, "seed": five})).by("arm")

# %%
plots.dots(
    {arm: part.values("test.loss") for arm, part in final.items()},
    xlabel="test loss (nats)",
    caption="Each arm at its own learning rate.",
    provenance=lab.provenance(*final.values()),
)


# %%
test = {arm: part.values("test.loss") for arm, part in final.items()}
claim(
    "03-rms-equals-layer-on-text",
    "On text RMSNorm's test loss minus LayerNorm's is {mean:+.3f} nats.",
    minus(test["rms"], test["layer"]),
    source="Zhang and Sennrich 2019, arXiv 1910.07467; Zhuo et al. 2025, arXiv 2503.04598 v4, Table 8",
    published="2.7631 (RMS) against 2.7639 (LN) at 550M parameters",
    criterion="in [-0.025, 0.025]",
    kind="best",
    effect=0.1,  # nats: what an offset costs RMSNorm
)

# %%
fixed = replace(base, train=replace(base.train, lr=1e-2))
slow = {
    arm: part.values("test.loss")
    for arm, part in lab.run(Experiment(fixed, {"arm": arms, "seed": five})).by("arm").items()
}
claim(
    "03-rms-equals-layer-at-one-rate",
    "At the rate 0.01 RMSNorm's test loss minus LayerNorm's is {mean:+.3f} nats.",
    minus(slow["rms"], slow["layer"]),
    source="Zhang and Sennrich 2019, arXiv 1910.07467",
    published="comparable quality",
    criterion="in [-0.025, 0.025]",
    kind="at",
    effect=0.1,  # nats: what an offset costs RMSNorm
)

# %% [markdown]
r"""
And on a language whose entropy is known? An order-2 Markov chain over 16 symbols. No model can go below its
entropy; what stands above is what the model has not learned. A third arm takes LayerNorm's *shift* away, so
that the number of parameters is RMSNorm's and only the mean is left as a difference.
"""

# %%
chain = replace(base, data=Markov(batch=16, time=32), model=replace(base.model, vocab=16))
arms["layer, no shift"] = {"model.norm": "layer", "model.norm_kw": (("bias", False),)}
trio = {arm: arms[arm] for arm in ("layer", "layer, no shift", "rms")}
trial = lab.run(Experiment(chain, {"arm": trio, "train.lr": sizes.markov_rates, "seed": two}))

floor = chain.data.load().floor
plots.curves(
    {
        arm: {
            rate: [v - floor for v in at.values("validation.loss")]
            for rate, at in part.by("lr").items()
        }
        for arm, part in trial.by("arm").items()
    },
    xlabel="learning rate",
    ylabel="validation loss above the entropy (nats)",
    logx=True,
    ylim=sizes.markov_range,
    caption="The Markov language by learning rate: at the low rate the three are one. At the best one LayerNorm "
    "with its shift is lowest; at the highest the two seeds scatter more than the arms differ.",
    provenance=lab.provenance(trial),
)

# %%
markov = lab.run(Experiment(chain, {"arm": at_its_best(trial), "seed": five})).by("arm")
excess = {arm: [v - floor for v in part.values("test.loss")] for arm, part in markov.items()}

# %%
plots.dots(
    excess,
    xlabel="test loss above the entropy of the language (nats)",
    caption="The same comparison on a language with a known floor: 0 would be perfect.",
    provenance=lab.provenance(*markov.values()),
)

# %%
for name, arm, words in (
    ("03-rms-equals-layer-on-markov", "layer", "LayerNorm"),
    ("03-rms-equals-unshifted-layer-on-markov", "layer, no shift", "LayerNorm without its shift"),
):
    claim(
        name,
        f"On the Markov language RMSNorm's test loss minus that of {words} is {{mean:+.3f}} nats.",
        minus(excess["rms"], excess[arm]),
        source="Zhang and Sennrich 2019, arXiv 1910.07467",
        published="comparable quality",
        criterion="in [-0.025, 0.025]",
        kind="best",
        effect=0.1,  # nats: what an offset costs RMSNorm
    )

# %%
gentle = replace(chain, train=replace(chain.train, lr=5e-3))
calmly = lab.run(
    Experiment(gentle, {"arm": {arm: trio[arm] for arm in ("layer", "rms")}, "seed": five})
).by("arm")
claim(
    "03-rms-equals-layer-on-markov-at-a-low-rate",
    "At the rate 0.005 the difference on the Markov language is {mean:+.3f} nats.",
    minus(calmly["rms"].values("test.loss"), calmly["layer"].values("test.loss")),
    source="Zhang and Sennrich 2019, arXiv 1910.07467",
    published="comparable quality",
    criterion="in [-0.025, 0.025]",
    kind="at",
    effect=0.1,  # nats: what an offset costs RMSNorm
)

# %% [markdown]
r"""
"Comparable" is the word, as in the paper, and not "strictly the same" or "better": a card that holds says that
any difference is smaller than its margin. On the Markov language the two are equal at the low rate, where
neither has learned much yet, and part at the best one: there RMSNorm ends higher, and whether by more than our
margin, five seeds do not say. The third arm says what that comes from. By the means, most of the gap goes with
the *shift*, not with the mean: in this model the norms' shifts are the only additive parameters, and a comparison
that drops both at once changes two things. Without shifts little is left, within our margin, but weakly.

**pRMSNorm**, with the rate that was best for RMSNorm. A width of 32 gives it two channels to look at.
"""

# %%
partial = {"partial-rms": {**chosen["rms"], "model.norm": "partial-rms"}}
part = lab.run(Experiment(base, {"arm": partial, "seed": five}))
claim(
    "03-two-channels-are-too-few",
    "pRMSNorm from a sixteenth of the channels, {channels} here, ends {mean:+.3f} nats from RMSNorm.",
    minus(part.values("test.loss"), test["rms"]),
    channels=int(0.0625 * base.model.dim),
    source="Zhang and Sennrich 2019, arXiv 1910.07467 (pRMSNorm)",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
### How large is the mean?

The probe `mean-share` is $\mu^2/\mathrm{RMS}^2$ of a token, averaged over a held-out batch: its squared cosine
with $\mathbf 1$. Do models keep it small?
"""

# %%
shares = {arm: final[arm].values("mean-share") for arm in ("layer", "rms")}
width = base.model.dim
plots.by_depth(
    shares,
    ylabel="mean² / rms² of the stream",
    start=0,
    logy=True,
    reference={"a random direction: 1/d": 1 / width},
    caption="Share of a token's energy that lies in its mean, after training; layer 0 is the embedding. "
    "Neither model puts much there, whether its norm deletes the mean or not.",
    provenance=lab.provenance(final["layer"], final["rms"]),
)

# %%
for name, arm, who in (
    ("03-token-mean-is-small-layer", "layer", "LayerNorm"),
    ("03-token-mean-is-small-rms", "rms", "RMSNorm"),
):
    claim(
        name,
        f"Trained with {who}, the stream's mean holds on average {{mean:.1%}} of its energy; a random "
        "direction would hold {random:.1%}.",
        [np.mean(run) for run in shares[arm]],
        random=1 / width,
        source="Gupta et al. 2024, arXiv 2409.12951",
        published="hidden vectors of language models are orthogonal to the vector of ones",
        criterion="< 0.05",
        kind="best",
    )

# %% [markdown]
r"""
A good reason why leaving the mean in costs so little: **there is hardly any**. To RMSNorm the direction
$\mathbf 1$ is one of many, and nothing prefers it. Read "orthogonal to $\mathbf 1$" against $1/d$, though: with
RMSNorm the share is near what chance gives, and at width 4096 chance gives $1/4096$. So these cards show a mean
that is small, not one that training removes. Under LayerNorm the figure shows it far below chance. There the
gradient of whatever writes to the stream has no component along $\mathbf 1$, since nobody reads it. Little grows
in that direction (Adam, which scales each entry by itself, leaks some), while the others grow a lot.

### When the mean matters

So let us put something there: the offset of 10, the third arm from above. First with each arm at its own rate,
then at one low rate.
"""

# %%
claim(
    "03-an-offset-hurts-rms",
    "Each at its own rate, the offset raises RMSNorm's test loss by {mean:+.3f} nats.",
    minus(test["rms, offset 10"], test["rms"]),
    source="this book: RMSNorm is not re-centring invariant",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "03-an-offset-hurts-rms-at-a-low-rate",
    "At the rate 0.01 the offset raises RMSNorm's test loss by {mean:+.3f} nats.",
    minus(slow["rms, offset 10"], slow["rms"]),
    source="this book: RMSNorm is not re-centring invariant",
    criterion="> 0.05",
    kind="at",
)

# %%
offsets = sizes.offsets
both = {arm: arms[arm] for arm in ("layer", "rms")}
doses = lab.run(Experiment(fixed, {"arm": both, "model.embedding_offset": offsets, "seed": two}))

# %%
plots.curves(
    {
        arm: {str(int(o)): at.values("test.loss") for o, at in part.by("embedding_offset").items()}
        for arm, part in doses.by("arm").items()
    },
    xlabel="offset of every embedding channel",
    ylabel="test loss (nats)",
    caption="At one rate, 0.01: LayerNorm does not feel the offset. For RMSNorm a larger offset makes "
    "the differences between tokens smaller, and learning slower.",
    provenance=lab.provenance(doses),
)

# %% [markdown]
r"""
Both cards hold, both weakly: leaving out one seed can change the verdict. With a tuned rate the offset costs less,
and the interval comes close to zero. The size of this effect hangs on the rate.

What does the RMSNorm model do about it? Look at the share of the mean, block by block:
"""

# %%
plots.by_depth(
    {arm: final[arm].values("mean-share") for arm in ("rms", "rms, offset 10")},
    ylabel="mean² / rms² of the stream",
    start=0,
    ylim=(0, 1),
    caption="RMSNorm with the offset: the embedding is almost all mean, and each block writes against it.",
    provenance=lab.provenance(final["rms"], final["rms, offset 10"]),
)

# %%
claim(
    "03-rms-learns-to-remove-the-mean",
    "From the embedding to the last block the share of the mean falls by {mean:.2f}.",
    [run[0] - run[-1] for run in final["rms, offset 10"].values("mean-share")],
    source="this book",
    criterion="> 0.3",
    kind="best",
)

# %% [markdown]
r"""
It **learns to subtract the mean**, with blocks that cost far more than LayerNorm's projection. (A share can also
fall because the rest grows. We took one run of an earlier, longer setting apart: both happened, and most of the mean itself was gone after the
last block. Before training, the share was nearly 1 in every block.) Real embeddings hold no constant of 10. The
experiment shows what the subtraction *insures against*.
"""

# %% [markdown]
r"""
## Precision

"Normalization must run in float32" is a rule that everybody knows. What exactly breaks without it? First the
formats. The last column is prediction 4: the offset, in standard deviations, at which a one-pass variance has
nothing left.
"""

# %%
formats = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
bits = {f: 1 - int(np.log2(torch.finfo(f).eps)) for f in formats}  # one of them is implicit
plots.table(
    [
        {
            "format": str(f).removeprefix("torch."),
            "significant bits": bits[f],
            "decimal digits": bits[f] * np.log10(2),
            "largest number": float(torch.finfo(f).max),
            "one pass ends at": f"{2 ** (bits[f] / 2):.0f}",
        }
        for f in formats
    ]
)

# %% [markdown]
r"""
**The arithmetic of this section**, since every digit depends on it: $x$ and the result of each operation are
rounded to the format, as plain PyTorch does. A mean is summed in float32 and rounded once. The variance is
compared with the float64 variance of the *rounded* $x$, so the formula gets no blame for its input.
"""

# %%
from labkit.norms.arithmetic import variance_in

show(variance_in)


# %%
def relative_error(offset, arithmetic, seed, tokens=100, dim=4096):
    """Mean relative error of the variance, in an arithmetic, of data with std 1 and this mean."""
    torch.manual_seed(seed)
    x = (torch.randn(tokens, dim) + offset).to(getattr(torch, arithmetic.split()[0]))
    true = x.double().var(-1, correction=0, keepdim=True)
    return ((variance_in(x, arithmetic).double() - true).abs() / true).mean().item()


grid = [1, 3, 10, 30, 100, 300, 1000, 3000]
draws = lab.seeds(sizes.draws)
ways = {
    "one-pass, float32": ("float32 one-pass", 8),
    "one-pass, float16": ("float16 one-pass", 5),
    "one-pass, bfloat16": ("bfloat16 one-pass", 4),
    "two-pass, bfloat16": ("bfloat16", 4),
}
errors = {
    name: {m: [relative_error(m, way, s) for s in draws] for m in grid[:n]}
    for name, (way, n) in ways.items()
}

# %%
plots.curves(
    errors,
    xlabel="mean / standard deviation",
    ylabel="relative error of the variance",
    logx=True,
    logy=True,
    reference={"nothing left": 1.0},
    caption="One pass: three formats, three nearly parallel lines that rise as the square of the offset until "
    "nothing is left. Two passes stay where they start.",
    provenance=lab.provenance(),
)

# %%
line = errors["one-pass, float32"]
steps = [m for m in line if 3 <= m <= 300]
claim(
    "03-one-pass-error-grows-as-the-square",
    "In float32 the error of the one-pass variance grows as the offset to the power {mean:.2f}.",
    [
        float(np.polyfit(np.log(steps), np.log([line[m][i] for m in steps]), 1)[0])
        for i in range(len(draws))
    ],
    source="rounding analysis above",
    published="2",
    criterion="in [1.8, 2.2]",
    kind="at",
    predicted=2.0,
)

# %% [markdown]
r"""
Now bfloat16 alone, and beside LayerNorm's two formulas the one statistic that RMSNorm needs. Its terms are
squares, all positive; sums of positive numbers cannot cancel.
"""


# %%
def in_bfloat16(offset, tokens=500, dim=4096):
    """Relative errors of three statistics at one offset, and the share of lost variances."""
    torch.manual_seed(seed)
    x = (torch.randn(tokens, dim) + offset).bfloat16()
    true = x.double().var(-1, correction=0, keepdim=True), x.double().square().mean(-1)
    one = variance_in(x, "bfloat16 one-pass").double()
    two, square = variance_in(x, "bfloat16").double(), x.square().mean(-1).double()
    return {
        "mean / std": offset,
        "one-pass: error": (one / true[0] - 1).abs().mean().item(),
        "one-pass: share ≤ 0": (one <= 0).double().mean().item(),
        "two-pass: error": (two / true[0] - 1).abs().mean().item(),
        "mean square: error": (square / true[1] - 1).abs().mean().item(),
    }


rows = [in_bfloat16(offset) for offset in (0, 1, 3, 10, 30)]
plots.table(rows, digits=2)

# %%
claim(
    "03-one-pass-loses-the-variance",
    "At an offset of 30, {mean:.0%} of the one-pass variances are zero or negative.",
    rows[-1]["one-pass: share ≤ 0"],
    source="against a blog series, which blames the subtraction of the mean",
    criterion="> 0.5",
    kind="at",
    tolerance=0.1,
)

# %%
claim(
    "03-two-passes-and-rms-are-safe",
    "At each offset the mean error of the two-pass variance and of the mean square is at most {mean:.4f}.",
    max(max(row["two-pass: error"], row["mean square: error"]) for row in rows),
    source="rounding analysis above",
    criterion="< 0.01",
    kind="at",
    rtol=0.3,
)

# %% [markdown]
r"""
Why exactly zero? Move the offset. Near $30^2 = 900$ the spacing of bfloat16 is 4, so the difference of two such
numbers can be $-4$, 0 or 4, and never 1. (Which of them, and how often, depends on where $\mu^2$ lies between
two numbers of the format: an offset of 29 loses fewer.)
"""


# %%
def picture(offset):
    """Variances of 60 tokens at one offset, by three ways."""
    torch.manual_seed(seed)
    x = (torch.randn(60, 4096) + offset).bfloat16()
    ways = {"one-pass": "bfloat16 one-pass", "two-pass": "bfloat16"}
    seen = {name: variance_in(x, way).flatten().tolist() for name, way in ways.items()}
    rms = x.square().mean(-1).double() / x.double().square().mean(-1)
    return plots.dots(
        {**seen, "rms, mean square": rms.tolist()},
        xlabel="variance; for rms, mean square over its true value",
        threshold={"true": 1.0},
        title=f"mean / standard deviation = {offset}",
        caption=f"Mean / standard deviation {offset}.",
    )


plots.explore(
    picture,
    [0, 3, 10, 15, 20, 30],
    "offset-and-variance",
    label="mean / standard deviation",
    caption="Sixty tokens of width 4096. Watch the one-pass variances jump to a coarser and coarser grid, until "
    "most of them are zero, while the other two stay.",
)

# %% [markdown]
r"""
So the subtraction $x_i - \mu$, usually accused, is innocent: the two-pass formula subtracts the mean too, and
keeps the accuracy of the format. The difference of two numbers of a format that lie within a factor of two is
again a number of that format; what was lost was lost before, when $x$ was rounded. The culprit is the
subtraction of two large *rounded* numbers, the mean of the squares and the square of the mean. (Kernels that go
over the data once and accumulate in float32 have moved the cliff to 4096, where chapter 1 met it.)

### Training over the cliff

The model of this chapter, with LayerNorm computed in float32, in two-pass bfloat16 and in one-pass bfloat16;
only the norms are low, the rest is float32. A negative variance counts as 0, as careful kernels have it; the
norm then multiplies by $1/\sqrt\epsilon \approx 316$. The embeddings get the offset of 10. Near $10^2$ the
spacing of bfloat16 is ½, so before training the first norm finds:
"""

# %%
torch.manual_seed(seed)
tokens = torch.arange(96).view(3, 32)  # each character once
stream = replace(base.model, embedding_offset=10.0).build().embed(tokens).detach()
found, counts = variance_in(stream, "bfloat16 one-pass").float().unique(return_counts=True)
for value, count in zip(found.tolist(), counts.tolist(), strict=True):
    print(f"variance {value:+.1f}: {count / counts.sum():.0%} of the characters")
print(
    f"true: from {stream.var(-1, correction=0).min():.2f} to {stream.var(-1, correction=0).max():.2f}"
)

# %% [markdown]
r"""
The characters in the first row leave the norm a few hundred times too large.
"""

# %%
arithmetics = {
    "layer, float32": {"model.norm_arithmetic": None},
    "two-pass, bf16": {"model.norm_arithmetic": "bfloat16"},
    "one-pass, bf16": {"model.norm_arithmetic": "bfloat16 one-pass"},
}
raised = lab.run(
    Experiment(fixed, {"arm": arithmetics, "model.embedding_offset": [10.0], "seed": five})
)

# %%
plots.loss_curves(
    {arm: part.values(lambda record: record.losses) for arm, part in raised.by("arm").items()},
    ylim=(1.8, 4.6),
    caption="Offset 10. In float32 and in two-pass bfloat16 the runs nearly coincide; with the one-pass variance "
    "most all but stall, far above; one seed gets away late, and still ends higher.",
    provenance=lab.provenance(raised),
)

# %%
harm = {arm: part.values("test.loss") for arm, part in raised.by("arm").items()}
claim(
    "03-one-pass-bf16-breaks-training",
    "Offset 10: the one-pass variance in bfloat16 costs {mean:.2f} nats against two passes.",
    minus(harm["one-pass, bf16"], harm["two-pass, bf16"]),
    source="a blog series: never normalize in low precision",
    published="'BF16 norm: degraded convergence' (its percentages have no source)",
    criterion="> 0.2",
    kind="at",
)

# %%
claim(
    "03-two-pass-bf16-is-harmless",
    "Offset 10: two passes in bfloat16 end {mean:+.4f} nats from float32.",
    minus(harm["two-pass, bf16"], harm["layer, float32"]),
    source="against 'a norm in BF16 is a bug'",
    criterion="in [-0.02, 0.02]",
    kind="at",
    effect=0.5,  # nats: what one pass in bfloat16 costs
)

# %% [markdown]
r"""
### The honest negative

And without the offset? LayerNorm in float32 and with the one-pass variance that has just failed, and RMSNorm in
float32 and bfloat16:
"""

# %%
ordinary = {
    "layer, float32": {"model.norm_arithmetic": None},
    "one-pass, bf16": {"model.norm_arithmetic": "bfloat16 one-pass"},
    "rms, float32": {"model.norm": "rms"},
    "rms, bf16": {"model.norm": "rms", "model.norm_arithmetic": "bfloat16"},
}
flat = lab.run(Experiment(fixed, {"arm": ordinary, "seed": five}))
calm = {arm: part.values("test.loss") for arm, part in flat.by("arm").items()}
plots.dots(
    calm,
    xlabel="test loss (nats)",
    caption="No offset: here the arithmetic of the norm does not matter, not even the one-pass variance.",
    provenance=lab.provenance(flat),
)

# %%
for name, low_arm, arm in (
    (
        "03-bf16-layer-is-harmless-on-ordinary-activations",
        "one-pass, bf16",
        "layer, float32",
    ),
    ("03-bf16-rms-is-harmless-on-ordinary-activations", "rms, bf16", "rms, float32"),
):
    claim(
        name,
        f"Without the offset, “{low_arm}” ends {{mean:+.4f}} nats from “{arm}”.",
        minus(calm[low_arm], calm[arm]),
        source="against 'norms in BF16 destroy training', without a condition",
        criterion="in [-0.02, 0.02]",
        kind="at",
        effect=0.5,  # nats: what one pass in bfloat16 costs
    )

# %%
claim(
    "03-float32-layer-ignores-the-offset",
    "In float32 the offset changes LayerNorm's test loss by {mean:+.1e} nats.",
    minus(harm["layer, float32"], calm["layer, float32"]),
    source="re-centring invariance",
    published="0",
    criterion="in [-0.01, 0.01]",
    kind="at",
    effect=0.5,  # nats: what one pass in bfloat16 costs
    tolerance=0.0001,
)

# %% [markdown]
r"""
So "never normalize in low precision" is a sound rule with the wrong reason attached, and without its condition.
On ordinary activations at this size nothing happens. What breaks is one formula, on tokens whose mean is
many times their standard deviation. Accumulate in float32 and centre before squaring, and input and output
of a norm may both be bfloat16; fused kernels do just that. No tensor-core time is lost in
float32, since norms do not run on those matrix units; they wait for memory.

**Range** is the other half ([Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)). float16 has more digits than bfloat16 and far less
range: $x^2$ overflows from $|x| = 256$ on, and a norm that squares in float16 divides by infinity. And
backwards: a norm divides the gradient by $r$, so behind a large stream a small gradient falls below float16's
smallest number, $2^{-24}$, unless the loss was scaled up.
"""

# %%
x = (100 * torch.randn(64, 512)).half().requires_grad_()
for scale in (1, 1024):
    top = torch.full((64, 512), 1e-6 * scale).half()
    lost = torch.autograd.grad(rms_norm(x), x, top)[0] == 0
    print(f"loss scale {scale}: {lost.double().mean():.0%} of the gradient is exactly 0")

# %% [markdown]
r"""
## What the sources say, and what we measured

| source and setting | what it says | here |
| --- | --- | --- |
| [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467), abstract: several models of 2019 | quality comparable to LayerNorm; running time of the models down by 7 % to 64 % | `03-rms-equals-layer-on-text`, `…-on-markov`; time: `03-torch-rms-is-no-faster-on-a-cpu` |
| [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467), section 4 | re-scaling invariance kept, re-centring lost | `03-only-recentring-is-lost` |
| [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), version 4, Table 8: 550M parameters | loss 2.7631 (RMS) and 2.7639 (LN) | a tie there, and here on text |
| [Jiang et al. (2023)](https://arxiv.org/abs/2305.14858) | Pre-Norm models with either norm are equivalent | `03-pre-layer-becomes-pre-rms` |
| [Gupta et al. (2024)](https://arxiv.org/abs/2409.12951), language models of several families | hidden vectors are orthogonal to $\mathbf 1$ | `03-token-mean-is-small-…`, beside what chance gives |
| [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656) | OLMo 2 reports no difference between the two norms | on text, as here |

Some statements travel without their conditions, or are plainly off. You have now run most of the corrections.

| often said | but |
| --- | --- |
| "RMSNorm is $\gamma x/(\mathrm{RMS} + \epsilon)$" | true of one public implementation; the others put $\epsilon$ inside (`03-eps-outside-is-steeper`) |
| "fewer FLOPs save days of training" | the mean's FLOPs are a few thousandths of a per cent (`03-saved-operations-are-few`); what may be saved is memory traffic and kernel launches |
| "RMSNorm is numerically more stable and avoids outliers" | half true: its mean square cannot cancel, but neither does a two-pass variance; an outlier inflates either denominator |
| "it improves the final quality" | the paper says comparable; so do we |
| "strictly the same quality, a free lunch" | no measurement can say "strictly"; ours says within $0.05$ nats on text, on the Markov language five seeds do not say so, and with an offset RMSNorm ends higher, by an amount that depends on the rate |
| "LlamaRMSNorm and the fp32-gain version are the same code" | they round differently (`03-cast-first-rounds-twice`) |
| "bfloat16 has 8 bits of mantissa, three digits; FP8 has 3 to 4" | 7 stored and 1 implicit, 2.4 digits; the two FP8 formats ([Micikevicius et al., 2022](https://arxiv.org/abs/2209.05433)) store 3 and 2 (table of formats) |
| "a norm in BF16 or FP16 reaches a fraction of the target quality" | a chart without a source; `03-bf16-layer-is-harmless-…` says what happens at our size |
| "a norm below float32 is a bug" | the sum below float32 is one; bfloat16 in and out is common practice |

**Who uses which?** From model cards, configurations and the code in `transformers`; sizes as width / layers.

| model | year | norm | sizes | remark |
| --- | --- | --- | --- | --- |
| T5 | 2019 | RMS | 512 / 6 + 6 to 1024 / 24 + 24 | before Llama; its code calls it LayerNorm |
| GPT-3 | 2020 | Layer | 12288 / 96 (175B) | |
| Llama 1 and 2 | 2023 | RMS | 4096 / 32 to 8192 / 80 | |
| Mistral 7B | 2023 | RMS | 4096 / 32 | |
| Llama 3 | 2024 | RMS | 4096 / 32 (8B), 8192 / 80 (70B) | often quoted with the 70B's sizes alone |
| DeepSeek-V2 | 2024 | RMS | 5120 / 60 | |
| Qwen 2 | 2024 | RMS | 8192 / 80 (72B only) | smaller siblings differ |
| Gemma 2 | 2024 | RMS, gain $1 + w$ | 2304 / 26, 3584 / 42, 4608 / 46 | norms on both sides of a sublayer |
| Command R, StableLM 2, DBRX, StarCoder 2, Phi 2 | 2023–24 | Layer | | Command R and DBRX without a shift |
| Nemotron-4 | 2024 | Layer, gain $1 + w$ | | |
| OLMo 1 | 2024 | Layer | | no gain and no shift |

So "no major model since Llama 1 uses LayerNorm" is wrong, and the fashion did not begin with Llama either.

## Where it goes wrong

Six slips; where public code made one, it is named. Each returns a tensor of the right shape, and a model
trained *with* one of them may well train. They bite when weights move, or when the input is unusual.

1. **ε outside**, as in the authors' torch code, in a model whose checkpoint was trained with it inside.
2. **The unbiased divisor.** The habit of `Tensor.var` and `Tensor.std`, which divide by $d - 1$. The Annotated
   Transformer's LayerNorm has it (chapter 1).
3. **The wrong axis.** `dim=1` is the feature axis of a $(N, d)$ batch and the time axis of $(B, T, d)$.
4. **The centred denominator.** `x / x.std()`: half LayerNorm, half RMSNorm.
5. **Squares in float16.** PyTorch's own early `nn.RMSNorm` did it; Llama in float16 gave wrong answers with it
   ([pull request 133085](https://github.com/pytorch/pytorch/pull/133085)).
6. **Gemma without its one.** Weights stored as distances from 1, loaded into a norm that multiplies by the
   weight: nearly every channel is multiplied by nearly 0.
   [ExecuTorch](https://github.com/pytorch/executorch/pull/19901) shipped one path of two with it.
"""


# %%
def slip(denominator, dtype=torch.float32):
    """Make an RMSNorm whose denominator is wrong in one way; `dtype` is the least it works in."""

    def norm(x, weight=None, eps=1e-6):
        wide = x.to(torch.promote_types(x.dtype, dtype))
        y = wide / denominator(wide, eps)
        return (y if weight is None else y * weight.to(y.dtype)).to(x.dtype)

    return norm


def mean_square(x, axis=-1):
    return x.square().mean(axis, keepdim=True)


# %%
half, square = torch.float16, lambda x, eps: (mean_square(x) + eps).sqrt()
slips = {
    "ε outside": slip(lambda x, eps: mean_square(x).sqrt() + eps),
    "divisor d − 1": slip(
        lambda x, eps: (x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps).sqrt()
    ),
    "axis 1": slip(lambda x, eps: (mean_square(x, min(1, x.ndim - 1)) + eps).sqrt()),
    "centred denominator": slip(
        lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    ),
    "squares in float16": slip(square, half),
}

# %%
reports = {name: check.rms_norm(norm) for name, norm in slips.items()}
reports["Gemma without its one"] = check.rms_norm(rms_norm, variant="gemma")
causes = {
    name: sorted({law.cause for law in report.failed if law.cause})
    for name, report in reports.items()
}
plots.table(
    [
        {
            "slip": name,
            "laws broken": len(report.failed),
            "cause named": "; ".join(causes[name]),
        }
        for name, report in reports.items()
    ]
)

# %%
claim(
    "03-checks-name-every-slip",
    "Of {n_slips} slips {mean:.0f} are caught with their cause.",
    sum(not report.ok and bool(causes[name]) for name, report in reports.items()),
    n_slips=len(reports),
    source="labkit.check.rms_norm",
    criterion="in [6, 6]",
    kind="exact",
)

# %% [markdown]
r"""
Two of them at work. A float16 vector of ordinary shape and a size of 300; and a Gemma gain, stored around 0, in
a norm that expects it around 1:
"""

# %%
x, stored = (300 * torch.randn(4, 512)).half(), 0.05 * torch.randn(512)
print("right            ", rms_norm(x)[0, :4].tolist())
print("squares in float16", slips["squares in float16"](x)[0, :4].tolist())
right, wrong = rms_norm_gemma(x.float(), stored), rms_norm(x.float(), stored)
print(
    "size with 1 + w",
    right.square().mean().sqrt().item(),
    "with w",
    wrong.square().mean().sqrt().item(),
)

# %% [markdown]
r"""
### Symptoms, causes, probes

| | symptom | cause | probe | fix |
| --- | --- | --- | --- | --- |
| a | loss flat, only with low-precision norms | one-pass variance at a large mean | share of variances ≤ 0 | two passes, or accumulate in float32 |
| b | RMSNorm learns slower than LayerNorm | tokens are mostly mean | `mean-share` | centre at the source, or LayerNorm |
| c | exact zeros in float16 | $x^2$ overflows from 256 on | share of zeros | square in float32 |
| d | padding or silent tokens blow up | ε outside the root, or too small | largest enlargement of a token | ε as in the checkpoint |
| e | a ported model talks nonsense | $1 + w$ read as $w$ | size of the output | `check.rms_norm(…, variant="gemma")` |

Each probe, run on a healthy input and on one with the fault:
"""


# %%
def size(y):
    return y.square().mean().sqrt().item()


fine = torch.randn(64, 512)
probes = {
    "a": (lambda x: (variance_in(x, "bfloat16 one-pass") <= 0).double().mean(), fine, fine + 30),
    "b": (lambda x: (x.mean(-1).square() / x.square().mean(-1)).mean(), fine, fine + 30),
    "c": (lambda x: (slips["squares in float16"](x.half()) == 0).double().mean(), fine, 300 * fine),
    "d": (lambda x: size(slips["ε outside"](x)) / size(x), fine, 1e-7 * fine),
    "e": (lambda w: size(rms_norm(fine, w)), 1 + stored, stored),
}

# %%
plots.table(
    [
        {"row": row, "healthy": float(probe(good)), "with the fault": float(probe(bad))}
        for row, (probe, good, bad) in probes.items()
    ],
    digits=2,
)

# %% [markdown]
r"""
## Exercises

**1 (by hand).** The token $(4, 4, 2, -8)$: give its root mean square, its variance, and the last entry of its
RMSNorm (gain 1, $\epsilon = 0$).
"""

# %% tags=["exercise"]
yours = {"rms": ..., "variance": ..., "last entry": ...}

# %%
x = torch.tensor([4.0, 4, 2, -8])
truth = {
    "rms": x.square().mean().sqrt(),
    "variance": x.var(correction=0),
    "last entry": rms_norm(x, eps=0.0)[-1],
}
check.answer(yours, truth, name="1", hint="rms² = mean² + variance")

# %% [markdown]
r"""
<details><summary>Hint</summary>

The squares are 16, 16, 4, 64. For the variance use $\mathrm{RMS}^2 = \mu^2 + \sigma^2$.

</details>
<details><summary>Solution</summary>

The mean square is $100/4 = 25$, so the RMS is 5 and the last entry $-8/5 = -1.6$. The mean is $2/4 = \tfrac12$,
so the variance is $25 - \tfrac14 = 24.75$.

</details>

**2 (by hand).** Data with mean 20 and variance 1: the mean square is 401, the square of the mean 400. Suppose
both are computed exactly and then rounded to the format. What is the spacing of bfloat16 (8 significant bits)
in that neighbourhood, and what does the one-pass variance give in bfloat16, and in float16 (11 bits)? A tie
goes to the even neighbour.
"""

# %% tags=["exercise"]
yours = {"spacing": ..., "bfloat16": ..., "float16": ...}

# %%
pair = torch.tensor([401.0, 400.0])
truth = {
    "spacing": 2.0 ** (8 - 7),
    "bfloat16": (pair.bfloat16()[0] - pair.bfloat16()[1]).float(),
    "float16": (pair.half()[0] - pair.half()[1]).float(),
}
check.answer(yours, truth, name="2", hint="between 256 and 512 there are 2⁷ steps in bfloat16")

# %% [markdown]
r"""
<details><summary>Hint</summary>

8 significant bits make $2^7 = 128$ steps between one power of two and the next. Which powers enclose 400?

</details>
<details><summary>Solution</summary>

Between 256 and 512 there are 128 steps of $256/128 = 2$. 401 lies half-way between 400 and 402; 400 is
$200\cdot2$ and 402 is $201\cdot2$, so the even one is 400. The variance comes out as 0. In float16 the steps
are $256/1024 = \tfrac14$, 401 is a number of the format, and the variance is 1: right, this time.

</details>

**3 (in code).** Write RMSNorm so that every law of `check.rms_norm` holds: statistics in float32 for half
precision, float64 left alone, one rounding at the end.
"""


# %% tags=["exercise"]
def my_rms_norm(x, weight=None, eps=1e-6):
    return ...


# %%
check.rms_norm(my_rms_norm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`torch.promote_types(x.dtype, torch.float32)` is float32 for half precision and float64 for float64. Where must
the gain be multiplied if only one rounding is allowed?

</details>
"""


# %% tags=["solution"]
def solved_rms_norm(x, weight=None, eps=1e-6):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.to(y.dtype)).to(x.dtype)


assert check.rms_norm(solved_rms_norm).ok

# %% [markdown]
r"""
**4 (in code).** A gradient `g` arrives at the output of RMSNorm with gain `w`. Return what arrives at its
input, and what arrives at the gain, without autograd and without a $d\times d$ matrix. `x` and `g` have shape
(tokens, d).
"""


# %% tags=["exercise"]
def pull_back(x, w, g, eps=1e-6):
    """Return (gradient at x, gradient at w)."""
    return ...


# %%
def check_pull_back(pull_back):
    """Hold a hand-written backward pass against autograd."""
    x, g = (3 * torch.randn(5, 32).double() + 1).requires_grad_(), torch.randn(5, 32).double()
    w = torch.randn(32).double().requires_grad_()
    truth = torch.autograd.grad(rms_norm(x, w), (x, w), g)
    came = pull_back(x.detach(), w.detach(), g)
    names = ("x", "gain")
    came = dict(zip(names, came, strict=True)) if isinstance(came, tuple | list) else came
    hint = "the gain meets g first; then J, which is symmetric"
    return check.answer(came, dict(zip(names, truth, strict=True)), name="4", hint=hint, rtol=1e-9)


check_pull_back(pull_back)

# %% [markdown]
r"""
<details><summary>Hint</summary>

With $h = w\odot g$: the gradient at $x$ is $\frac1r\big(h - \hat x\,\overline{\hat x\odot h}\big)$, where the
bar is a mean over channels. The gain is shared by all tokens.

</details>
"""


# %% tags=["solution"]
def solved_pull_back(x, w, g, eps=1e-6):
    r = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    hat, h = x / r, w * g
    return (h - hat * (hat * h).mean(-1, keepdim=True)) / r, (g * hat).sum(0)


assert check_pull_back(solved_pull_back).ok

# %% [markdown]
r"""
**5 (in code).** One pass over the data need not be a disaster. Write a variance of bfloat16 data that needs
only *sums that can run together* (no second trip that waits for the mean), and survives an offset of 30. All
your tensors stay bfloat16.
"""


# %% tags=["exercise"]
def shifted_variance(x):
    """Variance over the last axis, in one pass; x is bfloat16, and so is the result."""
    return ...


# %%
def check_variance(variance):
    """Hold a variance against float64 at an offset of 30."""
    x = (torch.randn(50, 4096) + 30).bfloat16()
    hint = "what could be subtracted before anything is known of the mean?"
    truth = x.double().var(-1, correction=0)
    return check.answer(variance(x), truth, name="5", hint=hint, rtol=0.15)


check_variance(shifted_variance)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\mathrm{Var}(x) = \mathrm{Var}(x - s)$ for any $s$. A good $s$ need not be the mean; it only has to be near.

</details>
"""


# %% tags=["solution"]
def solved_variance(x):
    moved = x - x[..., :1]  # any entry of the token is within a few deviations of its mean
    return moved.square().mean(-1) - moved.mean(-1).square()


assert check_variance(solved_variance).ok

# %% [markdown]
r"""
**6 (proof).** Show that RMSNorm's statistic is safe at every offset. Let each square $x_i^2$ be computed with
relative error at most $u$ (the result is $x_i^2(1 + \delta_i)$ with $|\delta_i| \le u$), let their sum be exact
and its rounding to the format cost another factor $1 + \delta$, $|\delta| \le u$. Prove that the relative error
of the mean square is at most $2u + u^2$, whatever the $x_i$. Then show that no bound of this kind, free of the
data, can hold for the one-pass variance.

<details><summary>Hint</summary>

For the first part: the squares are weights. For the second: let all $x_i$ be nearly equal.

</details>
<details><summary>Solution</summary>

The computed sum before rounding is $\sum x_i^2(1 + \delta_i)$. Its distance from $S = \sum x_i^2$ is at most
$\sum x_i^2|\delta_i| \le uS$, **because no term is negative**: the total error is a weighted mean of the
$\delta_i$ times $S$. So it is $S(1 + \eta)$ with $|\eta| \le u$, and after rounding $S(1 + \eta)(1 + \delta)$,
off by at most $u + u + u^2$. The mean $\mu$ appears nowhere.

For the one-pass variance take data with mean $\mu$ and variance $\sigma^2 > 0$. An error of relative size $u$
in the mean square alone, with all else exact, makes an absolute error of $u(\mu^2 + \sigma^2)$, which relative
to $\sigma^2$ is $u(1 + \mu^2/\sigma^2)$. For fixed $u$ this is unbounded in $\mu/\sigma$. An error of this order
occurs: the mean square falls anywhere between two numbers of the format. (The two-pass formula sums squares of
$x_i - \hat\mu$, again all positive. Beyond a few $u$, its error comes from $\hat\mu$, which adds
$(\mu - \hat\mu)^2 \le u^2\mu^2$: it breaks near $\mu/\sigma = 1/u$ rather than $1/\sqrt u$.)

</details>

**7 (open).** Under *Post-Norm* each norm stands on the stream. Will RMSNorm there get rid of the offset after
the first sublayer, as LayerNorm does, or carry it on? Does it suffer more or less than under Pre-Norm? Write a
prediction, with a number for the share of the mean after the last block. Then run it, with at least three
seeds, and say beforehand which result would change your mind.
"""

# %% tags=["exercise"]
my_prediction = "…"
cases = {
    f"{recipe}, {norm}": {
        "model.recipe": recipe,
        "model.norm": norm,
        "model.embedding_offset": 10.0,
    }
    for recipe in ("pre", "post")
    for norm in ("layer", "rms")
}
my_experiment = Experiment(fixed, {"case": cases, "seed": lab.seeds(sizes.few)})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {case: part.values("mean-share") for case, part in results.by("case").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
<details><summary>Hint</summary>

RMSNorm of a vector that is nearly $10\cdot\mathbf 1$ is nearly $\mathbf 1$. What does the next sublayer add to
it, and how large is that now, relative to the stream?

</details>

## What you now know

- RMSNorm is LayerNorm without the projection off $\mathbf 1$, one direction out of $d$. It keeps re-scaling
  invariance, loses re-centring, and its gradient loses one direction in place of two.
- Under Pre-Norm, every LayerNorm model without shifts is an RMSNorm model with centred weights. Leaving out the
  mean loses nothing in what can be expressed.
- Public RMSNorms differ in ε, in rounding order and in the meaning of the gain. In float32 most are one
  function; in bfloat16 some entries differ by an ulp, and a misread gain is fatal.
- The saved arithmetic is negligible. Time depends on kernels: with PyTorch's own on this CPU, RMSNorm is
  the slower one.
- With each norm at its own rate, the losses agree within our margin on text. On a language of known entropy
  they agree at a low rate, and at the best rate LayerNorm leads, partly through its shift. The mean of our
  trained streams is near what chance gives with RMSNorm, and far less with LayerNorm.
- On tokens that are mostly mean, RMSNorm learns more slowly, most clearly at a low rate, and it learns to subtract the
  mean itself. LayerNorm does not notice.
- A one-pass variance has nothing left at a mean of about $2^{p/2}$ deviations: 16 in bfloat16. Two passes, and
  RMSNorm's mean square, are safe. On ordinary activations none of this shows at our size.

## References

Works cited: [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467), [Ba et al. (2016)](https://arxiv.org/abs/1607.06450), [Raffel et al. (2020)](https://arxiv.org/abs/1910.10683), [Touvron et al. (2023)](https://arxiv.org/abs/2302.13971), [Gemma Team (2024)](https://arxiv.org/abs/2403.08295), [Jiang et al. (2023)](https://arxiv.org/abs/2305.14858), [Gupta et al. (2024)](https://arxiv.org/abs/2409.12951), [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Micikevicius et al. (2018)](https://arxiv.org/abs/1710.03740), [Micikevicius et al. (2022)](https://arxiv.org/abs/2209.05433).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
