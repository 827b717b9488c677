# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# QK-Norm

**Question.** A vision transformer of eight billion parameters trains well for thousands of steps. Then, in attention, each token attends to only one token,
and training diverges ([Dehghani et al., 2023](https://arxiv.org/abs/2302.05442)). Norms on queries and keys are the cure.
But the model is Pre-Norm: the input of attention *is* normalized. Why must queries and keys be normalized as well, and at what cost?

<details><summary>In short (contains spoilers)</summary>

- Pre-Norm normalizes the input of the query and key matrices, but without weight decay nothing bounds these matrices themselves. The softmax puts their product into an exponent.
- A norm on queries and keys takes their lengths out of the logit. If this norm is RMSNorm, attention can still choose a single key by direction alone, and the logit grows only as far as the trained gains let it.
- With the norm, a model trains at a high learning rate at which the attention of a Pre-Norm model collapses. The norm costs few operations. In small models of two sizes, with tuned learning rates, it did not raise the loss.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
import math
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from labkit import ModelConfig, check, plots  # pip install the book's folder
from labkit.attention import Attention, attention_norms, qk_norm_rope, rotary_angles
from labkit.context import Context
from labkit.corpora.text import decode_tokens
from labkit.experiments import Experiment, Lab, exact, ladder
from labkit.leaderboard.voices import compare_texts
from labkit.model import Block
from labkit.norms import l2_norm, rms_norm
from labkit.probes.attention import sharpness

# %%
lab = Lab("04_qk_norm", size=size, seed=seed, memory={"kernel": "850M", "run": "850M"})
rung = "S"
probes = ("validation", "test", "attention", "attention-by-steps", "attention-maps", "residual-rms")
high = 0.1  # ten times the best rate
base = ladder.configure_run(ladder.build_base_run(rung, "pre"), lr=high, seed=0, probes=probes)
arms = {"Pre-Norm": {"model.recipe": "pre"}, "QK-Norm": {"model.recipe": "qk"}}
seeds = list(ladder.SEEDS)
hot = lab.run(Experiment(base, {"arm": arms, "seed": seeds}))

# %%
corpus = base.data.load()
maps, notes = {}, {}
for arm in arms:
    seen = hot.where(arm=arm, seed=0).values("attention-maps")[0]
    for step, largest, weights in zip(seen["steps"], seen["largest"], seen["maps"], strict=True):
        place, digits = (arm, f"step {step:,}"), 0 if largest > 100 else 1
        maps[place], notes[place] = weights, f"largest logit {largest:,.{digits}f}"
text = decode_tokens(corpus.held_out["test"][0][0][0, : len(weights)])
plots.attention_maps(
    maps,
    text,
    notes=notes,
    caption="Attention weights of one head of a small language model, without and with QK-Norm, at ten times Pre-Norm's best learning rate. "
    "Each row is a character that looks back, and a darker cell is a larger weight. After training without the norm, most "
    "rows look at the same character. With the norm, different rows look at different characters. (The head is the one "
    "with the largest logit in absolute value.)",
    provenance=lab.provenance(hot.where(seed=0)),
).named("attention-maps")

# %% [markdown]
r"""
## The idea: one query, one key

Gemma 3, Qwen 3 and OLMo 2 have norms on queries and keys ([Gemma Team, 2025](https://arxiv.org/abs/2503.19786); [Qwen Team, 2025](https://arxiv.org/abs/2505.09388); [Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656)).

An attention logit is a dot product, divided by the square root of the head's width $d_k$: $\ell = q\cdot k/\sqrt{d_k}$.
We use one pair throughout: $q = (4, -2, 2, 0)$ and $k = (2, 0, 4, 2)$. The dot product is
$8 + 0 + 8 + 0 = 16$, and $\ell = 16/2 = 8$. We add two more keys with logits of 0, so the softmax chooses
among three keys. Now let training make the query twenty times as long, without a norm and with each of two norms on query and key:
"""


# %%
q, k = torch.tensor([4.0, -2, 2, 0]).double(), torch.tensor([2.0, 0, 4, 2]).double()
three = torch.ones(1, 1, 1, 3, dtype=torch.bool)


def logit(q, k):
    return (q @ k / len(q) ** 0.5).item()


def row(name, of_pair):
    """What a softmax over three keys makes of the logits (ℓ, 0, 0)."""
    logits = torch.tensor([[[[of_pair, 0.0, 0.0]]]])
    seen = sharpness(logits, three)
    made = {"weight of k": logits.softmax(-1).max().item(), **seen}
    return {"queries and keys": name, "logit": made.pop("largest"), **made}


norms = {"no norm": lambda x: x, "RMS": rms_norm, "L2": l2_norm}
plots.table(
    row(f"{name}, {'20 q' if longer > 1 else 'q'}", logit(norm(longer * q), norm(k)))
    for name, norm in norms.items()
    for longer in (1, 20)
)

# %% [markdown]
r"""
Without a norm, the logit is proportional to the length of the query. With either norm, the length cancels, and only the *direction* matters.
Both vectors have a mean square of $24/4 = 6$, so RMSNorm divides each by $\sqrt6$: the dot product becomes $16/6$, and the logit $\tfrac{16}{6}\cdot\tfrac12 = \tfrac43$. L2 normalization divides each vector by its length, which makes it a *unit vector*. The dot product becomes the cosine, here $16/24$, because both squared lengths are 24. The logit is this cosine times $1/\sqrt{d_k} = \tfrac12$, that is $\tfrac13$.
In each head, QK-Norm with RMSNorm replaces $q$ by $\gamma_q\odot q/\mathrm{RMS}(q)$, and $k$ likewise. The trained gains, here 1, are shared by the heads.

In the table, the *entropy* of the weights is given as a share of its largest possible value, $\log 3$. It is 1 for equal weights and 0 if one key has all the weight (*one-hot* weights).
Let $p_j$ be the weight of key $j$. The *slope*, $\sum_j \partial p_j/\partial\ell_j$, is the trace of the softmax's Jacobian and measures how strongly the weights still react to the logits. At $\ell = 160$, hardly any gradient is left.

## Why logits grow

Let $\hat x$ be the normalized stream and $g$ the norm's gain. We leave out shifts, biases and RoPE, which rotates queries and keys by angles that depend on
their positions (see *The order of QK-Norm and RoPE*). Under Pre-Norm, the logit of token $i$'s query and token $j$'s key is

$$\ell_{ij} = \tfrac1{\sqrt{d_k}}\,(g\odot\hat x_i)^\top\, W_q^\top W_k\, (g\odot\hat x_j).$$

Pre-Norm fixes the size of $\hat x$. It does not fix $W_q$, $W_k$ or $g$. The factor $1/\sqrt{d_k}$ is a
normalization, too: it makes the variance of a logit 1. But this assumes that the entries of $q$ and $k$ are independent, with
mean 0 and variance 1. Training does not preserve these properties.

Adam moves each weight by at most about the learning rate $\eta$ per step, whatever the size of its gradient. If steps point the
same way for a while, the weights in $W_q$ and $W_k$ have each moved by $\eta t$ after $t$ steps, and the product of the two matrices grows like $(\eta t)^2$. The
gain is also trained and enters twice, so the logit can grow like $(\eta t)^4$. A feed-forward layer also applies two matrices, but its
output is added to a stream and normalized again. Attention puts its product into an exponent.

## What saturation costs

A softmax is *saturated* when it is nearly one-hot. Its Jacobian is $\partial p_i/\partial\ell_j = p_i(\delta_{ij} - p_j)$, and the slope is
$1 - \sum_j p_j^2$. Suppose the gap between the largest of $T$ logits and the next is at least $\Delta$. Then every other weight is at most
$e^{-\Delta}$, so $1 - p_{\max} \le (T-1)\,e^{-\Delta}$, and

$$\text{slope} = 1 - \sum_j p_j^2 \;\le\; 1 - p_{\max}^2 \;\le\; 2\,(1 - p_{\max}) \;\le\; 2\,(T-1)\,e^{-\Delta}.$$

The Jacobian is symmetric and has no negative eigenvalue, so its largest eigenvalue is at most the sum of its eigenvalues. This sum is the trace, our slope. The Jacobian therefore multiplies the length of a gradient by at most the slope, and the gradient that reaches queries and keys falls *exponentially* with the gap. For our pair the bound is $4e^{-8}$, about a
thousandth. For the long query it is $4e^{-160}$.
"""

# %%
torch.manual_seed(seed)
logits = 10 * torch.rand(10_000, 1).double() * torch.randn(10_000, 64).double()
top = logits.topk(2).values
slope = 1 - logits.softmax(-1).square().sum(-1)
exact((slope / (2 * 63 * torch.exp(top[:, 1] - top[:, 0]))).max(), tolerance=0.5).claim(
    "04-slope-dies-with-the-gap",
    "<= 1",
    "The slope of a softmax row, the trace of its Jacobian, falls at least exponentially with the gap between its two largest logits.",
    found="Over 10,000 softmax rows of T = 64 logits, the slope is at most {mean:.2f} times its bound, 2 (T − 1) exp(−gap).",
    source="algebra; 'vanishing gradients through softmax' in many texts",
)

# %% [markdown]
r"""
Saturation alone cannot make attention's output explode: the output is still an average of values.

## Four bounds

By the Cauchy–Schwarz inequality, $|q\cdot k| \le \|q\|\,\|k\|$. A norm fixes the lengths, and so bounds the logit's absolute value by a number $b$:

| norm on q and k, without gains | length | bound $b$ of the logit | logit of our pair |
| --- | --- | --- | --- |
| none | anything | none | 8 (160 with $20\,q$) |
| L2, per head | $1$ | $1/\sqrt{d_k}$ (or 1 without division by $\sqrt{d_k}$) | $1/3$ (bound $1/2$) |
| RMS or LayerNorm, per head | $\sqrt{d_k}$ | $\sqrt{d_k}$ | RMS: $4/3$ (bound $2$) |
| RMS over the full width of $h$ heads | up to $\sqrt{h\,d_k}$ in one head | $h\sqrt{d_k}$ | see *Per head or over the full width* |

How sharp can attention be if all logits lie in $[-b, b]$? At best, one key has the logit $b$ and the others have $-b$:

$$p_{\max} = \frac{e^{b}}{e^{b} + (T-1)\,e^{-b}} = \frac{1}{1 + (T-1)\,e^{-2b}}.$$

Gains are trained, and they move the bound: if every gain of $q$ and of $k$ is $\gamma$, the bound is $\gamma^2$ times as large. Before you move the
slider: which line ends near zero at every gain?
"""


# %%
bounds = {"L2, scaled": 1 / 8, "L2, no 1/√dₖ": 1.0, "RMS, dₖ = 8": 8**0.5, "RMS, dₖ = 64": 8.0}


def draw_bounds(gain):
    """Draw the sharpest weight under each bound against the number of keys."""
    return plots.curves(
        {
            name: {
                n: [1 / (1 + (n - 1) * math.exp(-2 * gain**2 * b))] for n in 4 ** np.arange(1, 9)
            }
            for name, b in bounds.items()
        },
        xlabel="number of keys",
        ylabel="largest weight that one key can get",
        logx=True,
        ylim=(0, 1.05),
        counted=True,
        caption=f"Largest weight that one key can get under each bound, with every gain at {gain:g}.",
    )


caption = (
    "Largest weight that one key can get under each bound, against the number of keys (L2, scaled: with 1/√dₖ, for dₖ = 64). If all gains are 1, attention with unit vectors cannot "
    "choose among many keys. Attention with RMSNorm on queries and keys can, if the heads are wide enough. Larger gains raise every bound."
)
formula = plots.ClosedForm("bounds", 0.5, 3, 0.05, {"bounds": list(bounds.values())})
plots.explore(draw_bounds, [1, 1.5, 2, 3], "bounds", label="every gain", formula=formula, caption=caption)  # fmt: skip


# %%
def reach(norm):
    """Give one of 2,048 keys the query's own direction and all others the opposite one."""
    u = torch.randn(64, dtype=torch.float64)
    return (norm(torch.stack([u] + [-u] * 2047)) @ norm(u) / 8).softmax(0)[0].item()


exact(reach(l2_norm), tolerance=1e-6).claim(
    "04-unit-vectors-forbid-sharp-attention",
    "< 0.001",
    "If queries and keys are unit vectors and logits are divided by √d_k, attention can hardly choose among many keys.",
    found="If queries and keys of width 64 are unit vectors, and logits are divided by √d_k, none of 2,048 keys can get a weight above {mean:.5f}. "
    "Equal weights would be {even:.5f}.",
    source="Transformer Anatomy, part 7, says that QK-Norm eliminates saturation",
    published="logits within ±1/√d_k",
    beside={"even": 1 / 2048},
)

# %%
exact(reach(rms_norm), tolerance=1e-6).claim(
    "04-rms-allows-sharp-attention",
    "> 0.99",
    "If RMSNorm without gains normalizes queries and keys of width 64, attention can choose a single key.",
    found="With RMSNorm without gains on queries and keys of width 64, one of 2,048 keys can get a weight of {mean:.4f}.",
    source="algebra: the bound is √d_k = 8",
)

# %% [markdown]
r"""
You may read that QK-Norm bounds the logits by $1/\sqrt{d_k}$ and so eliminates saturation. This confuses two methods. Unit vectors without gains but with the factor $1/\sqrt{d_k}$ rule out
saturation, and with it a sharp choice among many keys. Even with the slider's gains, their line (*L2, scaled*) ends near zero. RMSNorm allows a sharp choice and still bounds the logits: with gains near 1, no two logits differ by more than about $2\sqrt{d_k}$.

### Temperature

A cosine lies between −1 and 1. A softmax can choose one of many keys only if the cosine is multiplied by a large enough number. (One over this number is called the *temperature* of the softmax.) The following three methods use different multipliers:

| method | the multiplier | at the start |
| --- | --- | --- |
| [Henry et al. (2020)](https://arxiv.org/abs/2010.04245), the first QK-Norm | one learned number per attention module, in place of $1/\sqrt{d_k}$ | $\log_2(T^2-T)$, where $T$ is chosen so that 97.5 % of the training texts are shorter: 22 for $T=2048$ |
| Swin V2 ([Liu et al., 2022](https://arxiv.org/abs/2111.09883)) | one learned number per head | 10, later at most 100 |
| RMSNorm, LayerNorm | $\sqrt{d_k}$, times the two gains | $\sqrt{d_k}$: 8 for $d_k=64$ |

Our pair has the cosine $2/3$, and with RMSNorm the logit is $2\cdot\tfrac23=\tfrac43$. If every gain of $q$ and of $k$ is 3, the logit becomes
$3\cdot3$ times as large, that is 12. In general, the bound is $\sqrt{d_k}$ times the largest gain of $q$ times the largest gain of $k$. So training raises the bound only through these gains, and
a gain moves by about $\eta$ per step.

## The gradient of a matrix whose scale does not matter

If a norm follows $W_q$, the matrix can be multiplied by any $c > 0$ without changing a logit. Differentiate
$\mathcal L(cW_q) = \mathcal L(W_q)$ with respect to $c$ at $c = 1$ (first equation), and with respect to $W_q$ (second equation):

$$\langle W_q, \nabla_{W_q}\mathcal L\rangle = 0, \qquad\qquad \nabla\mathcal L(c\,W_q) = \tfrac1c\,\nabla\mathcal L(W_q).$$

The gradient is always orthogonal to the matrix, and it becomes smaller as the matrix grows. Autograd agrees:
"""


# %%
def query_gradient(factor):
    """Weight and gradient of W_q in the first layer of a fresh model, W_q times `factor`."""
    torch.manual_seed(seed)
    model = ModelConfig("qk", dim=32, norm_eps=0.0).build().double()
    text, weight = torch.randint(96, (4, 32)), model.blocks[0].attention.sublayer.q.weight
    weight.data *= factor
    F.cross_entropy(model(text)[:, :-1].flatten(0, 1), text[:, 1:].flatten()).backward()
    return weight.detach(), weight.grad


weight, gradient = query_gradient(1.0)
exact(((weight * gradient).sum() / weight.norm() / gradient.norm()).abs(), tolerance=1e-9).claim(
    "04-gradient-is-orthogonal-to-the-weight",
    "< 1e-9",
    "If a norm follows a matrix, the gradient of the matrix is orthogonal to it.",
    found="With QK-Norm, the cosine between the query matrix W_q and its gradient is {mean:.0e}.",
    source="scale invariance (Euler's theorem for homogeneous functions)",
)

# %%
exact(query_gradient(10.0)[1].norm() / gradient.norm(), tolerance=1e-6).claim(
    "04-gradient-falls-with-the-weight",
    "in [0.0999, 0.1001]",
    "If a norm follows a matrix, the gradient of the matrix becomes smaller as the matrix grows.",
    found="With QK-Norm, if the query matrix W_q is ten times as large, its gradient is {mean:.4f} times as large.",
    source="scale invariance",
)

# %% [markdown]
r"""
Think of $W_q$ as one long vector. A step of length $s$ turns it by an angle of about $s/\|W_q\|$, and steps orthogonal to it make it longer. RMSNorm does not stop this growth, but
keeps the growth out of the logits: a longer $W_q$ only turns more slowly.

Like this growth, **weight decay** does not change the logits directly. Decay keeps $W_q$ short, and the shorter $W_q$ is, the further a step turns it.

AdamW without momentum moves each weight by about $\eta$ per step, so in a matrix $W$ of $n$ weights the step has length $\eta\sqrt n$. Because Adam rescales the gradient's entries, the step is orthogonal to $W$ only on average. By Pythagoras, it adds about $\eta^2n$ to $\|W\|^2$. Decay with coefficient
$\lambda$ subtracts $2\eta\lambda\|W\|^2$. The two balance when the angle of a step is

$$\frac{\eta\sqrt n}{\|W\|} = \sqrt{2\eta\lambda}\,.$$

Momentum $\beta_1$ multiplies this angle by $\sqrt{(1-\beta_1)/(1+\beta_1)}$. The angle depends neither on the gradient's size nor on the initialization
([van Laarhoven, 2017](https://arxiv.org/abs/1706.05350); [Kosson et al., 2024](https://arxiv.org/abs/2305.17212)).
To test the formula without momentum, we give AdamW random gradients that are, as derived above, orthogonal to the matrix and inversely
proportional to its norm:
"""


# %% tags=["mechanism"]
def turning(decay, size, steps=1500, lr=0.01):
    """Angle of every step of AdamW on a matrix whose scale does not change the loss."""
    draw, angles = torch.Generator().manual_seed(seed), []
    w = torch.nn.Parameter(size * torch.randn(16, 16, generator=draw) / 16)
    optimizer = torch.optim.AdamW([w], lr, betas=(0.0, 0.95), weight_decay=decay)
    for _ in range(steps):
        before = w.detach() / w.detach().norm()
        noise = torch.randn(16, 16, generator=draw)
        w.grad = (noise - before * (before * noise).sum()) / w.detach().norm()
        optimizer.step()
        angles.append((before * w.detach() / w.detach().norm()).sum().clamp(max=1).acos().item())
    return angles


# %%
turned = {
    "no decay, large initial norm": turning(0.0, size=10),
    "no decay, small initial norm": turning(0.0, size=1),
    "decay, large initial norm": turning(0.5, size=10),
    "decay, small initial norm": turning(0.5, size=1),
}
looks = [1, 3, 10, 30, 100, 300, 1000]
plots.curves(
    {
        name: {n: [float(np.mean(angles[n // 2 : n + n // 2]))] for n in looks}
        for name, angles in turned.items()
    },
    xlabel="step",
    ylabel="angle of a step (radians)",
    logx=True,
    logy=True,
    counted=True,
    reference={"√(2ηλ)": 0.1},
    caption="Angle by which each step of AdamW without momentum turns a matrix, against the step number. With decay, the angle approaches the same value whether the matrix starts with a large norm or a small one. Without decay, the "
    "angle keeps shrinking. (η = 0.01 and λ = 0.5, so the equilibrium angle is 0.1.)",
).named("angle-of-a-step")

# %%
exact(np.mean(turned["decay, small initial norm"][-500:]), tolerance=1e-3).claim(
    "04-decay-sets-the-angle",
    "in [0.097, 0.103]",
    "If the scale of a matrix has no effect, weight decay λ in AdamW without momentum fixes the angle of a step at √(2ηλ), where η is the learning rate.",
    found="In the last 500 steps of AdamW without momentum and with weight decay, the average step turns a matrix with a large initial norm by {long:.4f} radians, and one with a small initial norm by {mean:.4f} radians. We predicted 0.1 radians.",
    source="derived above; Kosson et al. 2024, arXiv 2305.17212",
    beside={"long": np.mean(turned["decay, large initial norm"][-500:])},
    predicted=0.1,
)

# %% [markdown]
r"""
So for a matrix followed by a norm, weight decay is a second learning rate in disguise. Without decay, the angle of a step of $W_q$ and $W_k$ (their *effective learning rate*) shrinks as training goes on. The runs below have no weight decay unless we say so.

## Implementation: exercise 1

**1 (in code).** Write the logits of one head with QK-Norm in the order of Qwen 3: RMSNorm, gain, rotation, scale (division by $\sqrt{d_k}$). You get `q`
and `k` of shape (time, d_k), two gains of shape (d_k,), and angles of shape (time, d_k/2). Channel $i$ turns together with
channel $i + d_k/2$: $(a, b) \mapsto (a\cos\theta - b\sin\theta,\; a\sin\theta + b\cos\theta)$.
"""


# %% tags=["exercise"]
def my_logits(q, k, gain_q, gain_k, angles, eps=1e-6):
    """Return the logits, of shape (time, time), without mask."""
    return ...


# %%
draw = torch.Generator().manual_seed(seed)
heads = torch.randn(2, 8, 1, 16, generator=draw, dtype=torch.float64).round(decimals=2)
heads[:, 0] *= 1e-3  # a token so short that it shows where eps is added
gains = 0.5 + torch.rand(2, 16, generator=draw, dtype=torch.float64).round(decimals=2)


def check_logits(my_logits):
    """Compare logits with labkit's norm, gain and rotation."""
    turns = rotary_angles(8, 16) + 0.3
    a, b = qk_norm_rope(*heads, *gains, turns)
    truth = torch.einsum("ihc,jhc->ij", a, b) / 4
    hint = "norm (eps under the root), gain, rotation, in this order; divide by √d_k once"
    given = (*heads[:, :, 0], *gains, turns)
    return check.function(my_logits, given, truth, name="1", hint=hint, rtol=1e-6)


check_logits(my_logits)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`a, b = x.chunk(2, -1)` gives the two halves of the channels, and `torch.cat` puts them together again.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_logits(q, k, gain_q, gain_k, angles, eps=1e-6):
    """A solution of exercise 1."""

    def ready(x, gain):
        x = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * gain
        a, b = x.chunk(2, -1)
        return torch.cat(
            (a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1
        )

    return ready(q, gain_q) @ ready(k, gain_k).T / q.shape[-1] ** 0.5


assert check_logits(solved_logits).ok

# %% [markdown]
r"""
Each head needs three more steps: mask, softmax, and the weighted average of the values. With these
and the output matrix, which joins the heads, does the solution give the same output as the attention in the models below?
"""


# %% tags=["mechanism"]
def slow_attention(x, w, angles, heads):
    """Causal attention with QK-Norm, head by head; w: tensors by name."""
    out, hidden = [], torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    for rows in torch.arange(len(w["q.weight"])).chunk(heads):
        q, k, v = (x @ w[f"{name}.weight"][rows].T for name in "qkv")
        logits = solved_logits(q, k, w["norm_q.weight"], w["norm_k.weight"], angles)
        out.append(logits.masked_fill(hidden, -math.inf).softmax(-1) @ v)
    return torch.cat(out, -1) @ w["out.weight"].T


# %%
torch.manual_seed(seed)
attention = Attention(64, 4, 4, norms=attention_norms("qk rms"), eps=1e-6).double()
for norm in (attention.norm_q, attention.norm_k):
    torch.nn.init.normal_(norm.weight)
x, turns = torch.randn(1, 20, 64).double(), rotary_angles(20, 16)
slow = slow_attention(x[0], dict(attention.named_parameters()), turns, heads=4)
exact((attention(x, Context(angles=turns))[0] - slow).abs().max(), tolerance=1e-12).claim(
    "04-attention-equals-the-formula",
    "< 1e-12",
    "The attention in our models with QK-Norm computes the published formula.",
    found="In our models with QK-Norm, the output of attention differs from that of a slow implementation of the formula by at most {mean:.0e}.",
    source="Dehghani et al. 2023, arXiv 2302.05442; Su et al. 2021, arXiv 2104.09864",
)

# %% [markdown]
r"""
In a model of width $d$, the two norms take about $8d$ operations per token and layer, and the four projections take $8d^2$, so the norms add only a fraction $1/d$ to the operations of the projections. The norms' memory traffic
costs more than their operations; chapter 09 counts it.
"""

# %% [markdown]
r"""
## Measure

Our model has six blocks of width 32 with four heads, so $d_k = 8$. This is size S of the book's *ladder*, the grid of runs that all chapters share. A run takes 3,200 steps of AdamW, with
10 % warm-up and the gradient clipped at 1. From here on, *Pre-Norm* means a model
with RMSNorm before every sublayer but no norms on queries and keys.
*QK-Norm* adds RMSNorm with trained gains on the queries and keys of each head. For both models, the best learning rate is about 0.01.

### One rate, three models

We train three models at ten times that rate, 0.1: Pre-Norm, QK-Norm, and Pre-Norm with a *soft cap*, a tanh that keeps each logit between −50 and 50 (see *Soft-capping only the logits*).
"""

# %%
arms["soft cap"] = {"model.softcap": 50.0}
hot += lab.run(Experiment(base, {"arm": {"soft cap": arms["soft cap"]}, "seed": seeds}))
climbed = lab.ladder(["pre", "qk", "none", "no attention"])
tuned = climbed.where(rung=rung, stage="first")
at_best = {"Pre-Norm": tuned.where(arm="pre"), "QK-Norm": tuned.where(arm="qk")}


def largest(record):
    """Largest attention logit of any layer."""
    return max(record.probes["attention"]["largest"])


# %%
of_arm = hot.by("arm")
plots.loss_curves(
    {arm: part.values(lambda record: record.losses) for arm, part in of_arm.items()},
    reference=ladder.references(rung),
    ylim=(1.2, 3.6),
    caption="Training loss against the step at ten times Pre-Norm's best learning rate, for Pre-Norm, QK-Norm, and Pre-Norm with a soft cap. No run diverges. Pre-Norm's loss falls, rises, and then falls slowly. "
    "Its final loss is higher than that of trigram counts, which predict a character from the two before it. QK-Norm "
    "learns at the same learning rate.",
    provenance=lab.provenance(hot),
).named("ten-times-the-rate")

# %% [markdown]
r"""
What do such losses mean for the text that a model writes? Three models, each labelled with its learning rate, continue the same beginning of a sentence.
"""

# %%
compare_texts(
    lab,
    rung,
    {
        "Pre-Norm at 0.01": ("pre", 0.01),
        "Pre-Norm at 0.1": ("pre", 0.1),
        "QK-Norm at 0.1": ("qk", 0.1),
    },
)

# %%
test = {arm: part.measure("test.loss") for arm, part in of_arm.items()}
LARGE = "the same in larger models: Wortsman et al. 2024, arXiv 2309.14322"
(test["Pre-Norm"] - test["QK-Norm"]).claim(
    "04-qk-norm-helps-at-a-high-rate",
    "> 0.1",
    "At ten times Pre-Norm's best learning rate, Pre-Norm's loss is far higher than QK-Norm's.",
    found="At learning rate 0.1, ten times Pre-Norm's best learning rate, Pre-Norm's test loss is {mean:.2f} nats higher than QK-Norm's.",
    source=f"this book's prediction; {LARGE}",
)
stressed = of_arm["Pre-Norm"] + climbed.where(arm="pre", rung=rung, lr=0.1)
stressed.count(lambda record: record.diverged_at is not None).claim(
    "04-failure-is-a-plateau",
    "< 0.5",
    "In Pre-Norm models of this book's size, saturated attention does not make the loss diverge.",
    found="At learning rate 0.1, {k} of {n} Pre-Norm runs diverged.",
    source="this book: an average of values cannot explode",
)

# %% [markdown]
r"""
The vision transformer of the first paragraph, a hundred thousand times the size of our models, did diverge. Our Pre-Norm runs did not (the card counts the five runs in the figure and one tuning run), but their loss is high. Why? We consider three possible causes.

1. **The rest of the network.** A learning rate ten times too high might ruin the feed-forward layers or the stream.
2. **A frozen softmax.** Once a row is one-hot, no gradient passes through it, so queries and keys may no longer change.
3. **The logits themselves.** They may be too large for the softmax to weigh one key against another.

The first cause explains little of Pre-Norm's higher loss: with QK-Norm, the feed-forward layers have the same learning rate, and the model learns.

### Is the softmax frozen?

Throughout training, we record the largest absolute logit of any layer.

| question | choices | ours |
| --- | --- | --- |
| After a fifth of the steps, Pre-Norm's attention is saturated. What does its largest logit do from then on? <!-- 04-saturated-logits-keep-growing --> | it shrinks; <!-- 0.7 --> it stays where it is; <!-- 1.5 --> it goes on growing | <details><summary>show</summary>The logits go on growing after the softmax is saturated.</details> |
"""


# %%
def logits_by_step(part):
    """Largest logit of any layer at some steps: {step: [per seed]}."""
    seen = part.values("attention-by-steps")
    looks = (20, 40, 80, 160, 320, 640, 1280, 2560, base.train.steps)
    at = [(i, step) for i, step in enumerate(seen[0]["steps"]) if step in looks]
    return {step: [one["largest"][i] for one in seen] for i, step in at}


plots.curves(
    {arm: logits_by_step(part) for arm, part in of_arm.items()},
    xlabel="step",
    ylabel="largest attention logit, before any cap",
    logx=True,
    logy=True,
    reference={"√d_k": (base.model.dim // base.model.heads) ** 0.5},
    caption="Largest attention logit against the step, at ten times the best learning rate. Pre-Norm's logits grow for most of the run, although its softmax is saturated "
    "from a few hundred steps on. In the soft-cap model, the logits that enter the cap become as huge as Pre-Norm's. QK-Norm's logits can exceed √d_k only because of the gains.",
    provenance=lab.provenance(hot),
).named("logits-by-step")


# %%
def measure_entropy(runs):
    return runs.measure(lambda record: np.mean(record.probes["attention"]["entropy"]))


measure_entropy(of_arm["Pre-Norm"]).claim(
    "04-entropy-collapses",
    "< 0.1",
    "Without QK-Norm, a high learning rate makes attention one-hot.",
    found="At learning rate 0.1, the entropy of attention is {mean:.1%} of its largest possible value under Pre-Norm, and {normed:.0%} of this value with QK-Norm.",
    source="this book's prediction; in larger models Zhai et al. 2023, arXiv 2303.06296",
    beside={"normed": measure_entropy(of_arm["QK-Norm"])},
)


# %%
def look(what, i):
    """Read a measure of Pre-Norm's runs at one of the steps that were looked at."""
    return of_arm["Pre-Norm"].measure(lambda record: record.probes["attention-by-steps"][what][i])


steps = of_arm["Pre-Norm"].values("attention-by-steps.steps")[0]
early = next(i for i, step in enumerate(steps) if step >= base.train.steps // 5)
(look("largest", -1) / look("largest", early)).claim(
    "04-saturated-logits-keep-growing",
    "> 1.5",
    "Without QK-Norm, attention logits keep growing after the softmax is saturated.",
    found="At learning rate 0.1, Pre-Norm's attention is saturated after a fifth of the steps (the slope of its softmax is {slope:.2f}). From then to the end, its largest logit grows by a factor of {mean:.1f}.",
    source="against 'saturated attention is frozen': Adam divides by the size of the gradient",
    beside={"slope": look("slope", early)},
)


# %%
def growth(arm):
    """Power of the rate with which the largest logit grows from the best rate to ten times it."""
    return (of_arm[arm].measure(largest) / at_best[arm].measure(largest)).map(math.log10)


growth("Pre-Norm").claim(
    "04-logits-outgrow-the-rate",
    "> 1",
    "Without QK-Norm, a tenfold learning rate makes the largest attention logit more than ten times as large.",
    found="From learning rate 0.01 to 0.1, Pre-Norm's largest attention logit grows by a factor of 10 to the power {mean:.1f}. The logit contains two matrices and, twice, a gain, so chapter 04's argument allows a power of up to 4.",
    source="this book: a product of two matrices and a gain that enters twice",
)

# %%
growth("QK-Norm").claim(
    "04-qk-norm-logits-lag-the-rate",
    "< 1",
    "With QK-Norm, a tenfold learning rate makes the largest attention logit less than ten times as large.",
    found="From learning rate 0.01 to 0.1, QK-Norm's largest attention logit grows by a factor of 10 to the power {mean:.2f}.",
    source="this book: after the norm only the gains can grow",
)

# %% [markdown]
r"""
The idea of a frozen softmax is half right. The slope is close to zero, so hardly any gradient passes. But the logits go on growing, so queries and keys do change.
Perhaps $W_q$ and $W_k$ still move, because Adam turns even a tiny
gradient into full steps. Perhaps only the gain $g$ of the norm before attention grows: it also gets a gradient through the values. We did not test which.

### Soft-capping only the logits

The third cause, logits that are too large, can be tested by itself. A *soft cap* bounds each logit, $\ell \leftarrow c\tanh(\ell/c)$, and leaves queries, keys, matrices and
gains as they are. Gemma 2 uses $c = 50$ ([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)), and so does our third model.

| question | choices | ours |
| --- | --- | --- |
| At this learning rate, how much of the gap between Pre-Norm's loss and QK-Norm's does a cap on the logits close? <!-- 04-soft-cap-helps-too 04-qk-norm-beats-the-soft-cap --> | none; <!-- 0.1 --> a good part; <!-- 0.6 --> all of it | <details><summary>show</summary>A cap on the logits alone also lowers the loss, but less than QK-Norm does.</details> |
"""

# %%
(test["Pre-Norm"] - test["soft cap"]).claim(
    "04-soft-cap-helps-too",
    "> 0.1",
    "At a high learning rate, a soft cap on the attention logits alone lowers Pre-Norm's loss by more than 0.1 nats.",
    found="At learning rate 0.1, Pre-Norm's test loss is {mean:.2f} nats higher than that of the same model with a soft cap of 50 on its attention logits.",
    source="this book's prediction",
)
(test["soft cap"] - test["QK-Norm"]).claim(
    "04-qk-norm-beats-the-soft-cap",
    "> 0",
    "At a high learning rate, a soft cap on the attention logits lowers Pre-Norm's loss less than QK-Norm does.",
    found="At learning rate 0.1, the test loss is {mean:.2f} nats higher with a soft cap on the attention logits than with QK-Norm.",
    source="this book: a saturated cap passes no gradient",
)

# %% [markdown]
r"""
So the size of the logits causes at least a good part of the damage. The cap does not repair everything. One reason may be that logits far above $c$ are all mapped to about $c$, so the softmax can hardly rank them, and hardly any gradient reaches them: there, the tanh is nearly flat.
Appendix C compares [Gemma 2 with Gemma 3, and a cap with and without QK-Norm](C_zoo.ipynb#gemmas-two-answers-to-large-logits).
"""

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(Experiment(base, {"arm": arms, "seed": seeds}))

# %% [markdown]
r"""
### With tuned learning rates

How much does QK-Norm help at each model's best learning rate? We compare Pre-Norm, QK-Norm and a model
without any norm. The cards also cover size M, of width 64, and training with weight decay.
"""


# %%
def by_rate(arm):
    """Test loss by rate: of evaluation seeds if there are any, else of the tuning seed."""
    of_rate = climbed.where(arm=arm, rung=rung, stage=["tuning", "first"]).by("lr")
    stage = {rate: [*part.by("stage")][-1] for rate, part in of_rate.items()}
    return {r: of_rate[r].where(stage=stage[r]).values("test.loss") for r in ladder.COARSE}


fresh = {arm: {0.1: losses.values} for arm, losses in test.items()}
keys = {"no norm": "none", "Pre-Norm": "pre", "QK-Norm": "qk"}
plots.curves(
    {name: by_rate(arm) | fresh.get(name, {}) for name, arm in keys.items()},
    xlabel="learning rate",
    ylabel="test loss (nats)",
    logx=True,
    ylim=(1.3, 2.3),
    reference=ladder.references(rung),
    caption="Test loss against learning rate for Pre-Norm, QK-Norm and a model without any norm. Up to 0.01, the best of these learning rates for each model, the three losses differ by only a few hundredths of a nat. As the learning rate rises further, the model without norms "
    "diverges first, and then Pre-Norm fails. (Size S.)",
    provenance=lab.provenance(climbed),
).named("each-at-its-rate")

# %%
leads = ladder.improvement(climbed, "qk")
leads.claim(
    "04-each-tuned-qk-norm-is-ahead",
    "> 0",
    "With both models tuned, QK-Norm ends lower.",
    found="At size {rung}, with tuned learning rates, QK-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's. "
    "(Without attention, Pre-Norm's loss is {worth:.2f} nats higher.)",
    source="Henry et al. 2020, arXiv 2010.04245; Rybakov et al. 2024, arXiv 2410.16682, in other settings",
    beside={"worth": -ladder.improvement(climbed, "no attention")[leads.largest].mean},
)

# %%
# Full evaluations; only the one with weight decay is preregistered.
leads.claim(
    "04-qk-ahead-on-s",
    "> 0",
    "On rung S, with three tuning seeds and twenty that report, QK-Norm ends below Pre-Norm.",
    found="At size {rung}, with tuned learning rates, QK-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's.",
    source="this book, a forecast",
)
by_seed = leads["W"].pairs
leads.claim(
    "04-qk-ahead-with-decay",
    "> 0",
    "With weight decay 0.1 on matrices QK-Norm ends below Pre-Norm.",
    found="At size S with weight decay 0.1 (variant {rung}), with tuned learning rates, QK-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's. "
    "At these rates, it is lower with {lower} of {shared} seeds.",
    source="this book, a forecast",
    beside={"lower": sum(one > 0 for one in by_seed), "shared": len(by_seed)},
)

# %% [markdown]
r"""
With tuned learning rates, the two models' losses are close: QK-Norm's improvement is small compared with that of attention itself (in parentheses on the first card). The second card is no further evidence: it reads the first card's runs of size S (both claims were preregistered).
With weight decay, the improvement cannot be distinguished from zero (third card), although QK-Norm's loss is lower with most seeds: all seeds use the same two tuned learning rates, and the interval includes the uncertainty of this tuning.

The right half of the last figure shows the benefit of the norm: high learning rates become usable, though the loss there is higher than at the best rate. [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322) measure how much the loss depends on the learning rate (*learning-rate sensitivity*),
and find the same benefit in models more than a hundred times as large as ours.

### Unit vectors

Is every bound on the logits as good as QK-Norm's? We compare QK-Norm with a model whose queries and keys are unit vectors, with the usual $1/\sqrt{d_k}$
and no learned factor.

| question | choices | ours |
| --- | --- | --- |
| Make queries and keys unit vectors, without gains. How does the loss compare with QK-Norm's? <!-- 04-bare-unit-vectors-cannot-focus --> | clearly lower; <!-- -0.1 --> about equal; <!-- 0.1 --> clearly higher | <details><summary>show</summary>With unit vectors, attention cannot choose, and the loss is higher.</details> |
"""

# %%
unit = {"arm": {"unit vectors": {"model.qk_norm": "qk l2 no-gain"}}, "train.lr": [0.01]}
spheres = lab.run(Experiment(base, {**unit, "seed": seeds}))
(spheres.measure("test.loss") - at_best["QK-Norm"].measure("test.loss")).claim(
    "04-bare-unit-vectors-cannot-focus",
    "> 0.1",
    "If queries and keys are unit vectors, so that attention cannot be sharp, the test loss is higher than with QK-Norm.",
    found="At learning rate 0.01, if queries and keys are unit vectors without gains, the entropy of attention is {entropy:.3f} of its largest possible value, and the test loss is {mean:.2f} nats higher than QK-Norm's.",
    source="Transformer Anatomy, part 7, says that QK-Norm keeps logits within ±1/√d_k and so eliminates saturation",
    beside={"entropy": measure_entropy(spheres)},
)

# %% [markdown]
r"""
With unit vectors, attention is hardly more than an average with equal weights. Henry et al. multiply the cosine by a learned number, so attention can be sharp again.
We did not train such a model.

## Implementation details: order, axis, caps

### The order of QK-Norm and RoPE

Rotary position embeddings (RoPE) turn pairs of channels of each query and key by an angle proportional to the token's position ([Su et al., 2021](https://arxiv.org/abs/2104.09864)). The
rotation $R_i$ at position $i$ keeps lengths, so if the norm $N$ is RMSNorm or L2 without gain, the order does not matter: $N(R_i q) = R_i N(q)$. (For LayerNorm it matters: a rotation changes the mean.) With a gain, the order
matters, because a gain multiplies channels by different numbers, and a rotation mixes the channels.

Let $\hat q = N(q)$ at position $i$ and $\hat k = N(k)$ at position $j$. Let $D = \mathrm{diag}(\gamma_q\odot\gamma_k)$, write $\gamma_q\hat q$ for $\gamma_q\odot\hat q$, and leave out the factor
$1/\sqrt{d_k}$. Then the logits are

$$\begin{aligned}
\text{gain, then rotation:}&\quad (R_i\gamma_q\hat q)^\top (R_j\gamma_k\hat k) = (\gamma_q\hat q)^\top R_{j-i}\,(\gamma_k\hat k), \\
\text{rotation, then gain:}&\quad \hat q^\top R_i^\top D\, R_j\hat k.
\end{aligned}$$

The first expression depends on the positions only through the distance $j - i$. The second depends on *absolute* positions, unless the two channels of each pair have
equal entries in $D$.

*By hand.* Let $d_k = 2$, $\hat q = \hat k = (\sqrt2, 0)$, $\gamma_q = (2, 1)$, $\gamma_k = (1, 1)$, and let both tokens be at the same position. Rotate, then apply the gains: what is the logit (including $1/\sqrt{d_k}$) for a rotation by
0°, and by 90°?

<details><summary>Answer</summary>

At 0°, the vectors become $(2\sqrt2, 0)$ and $(\sqrt2, 0)$, and the logit is $4/\sqrt2 \approx 2.83$. At 90°, both become $(0, \sqrt2)$, and the logit is $2/\sqrt2 \approx 1.41$. The distance is the same, but the logit is half as large.

</details>
"""


# %%
def shift(after):
    """How far logits of eight tokens change when the text moves by twenty places."""
    seen = []
    for start in (0, 20):
        turns = rotary_angles(64, 16)[start : start + 8]
        a, b = qk_norm_rope(*heads, *gains, turns, eps=0.0, after_rope=after)
        seen.append(torch.einsum("ihc,jhc->ij", a, b) / 4)
    return (seen[1] - seen[0]).abs().max().item()


exact(shift(after=False), tolerance=1e-12).claim(
    "04-gain-before-rotation-sees-distances-only",
    "< 1e-12",
    "If QK-Norm's gain is applied before the rotation, attention logits depend only on distances.",
    found="If QK-Norm and its gain are applied before the rotation, moving the text by 20 positions changes the attention logits by at most {mean:.0e}.",
    source="algebra; Gemma 3, Qwen 3",
)

# %%
exact(shift(after=True), tolerance=0.01).claim(
    "04-gain-after-rotation-sees-positions",
    "> 0.1",
    "If QK-Norm's gain is applied after the rotation, attention logits depend on absolute positions.",
    found="If QK-Norm and its gain are applied after the rotation, moving the text by 20 positions changes attention logits by up to {mean:.2f}.",
    source="against 'the order is interchangeable for RMSNorm' (nanochat, issue 743, last comment)",
)

# %% [markdown]
r"""
### Per head or over the full width

RMSNorm over all heads at once (OLMo 2) fixes the *sum* of squares of the $h$ heads, and one head may take all of it. If our pair is in
one of two heads and the other head is zero, the mean square over eight channels is 3, not 6, and the logit is $\tfrac{16}{3}\cdot\tfrac12 = \tfrac83$, twice
that with a norm per head. In general, the bound is $h\sqrt{d_k}$.

### Caps and clips

At $c = 5$, the **soft cap** turns our logit of 8 into $5\tanh(8/5) \approx 4.6$, and one of 160 into 5. It must be applied before the mask: otherwise
the mask's $-\infty$ becomes $-c$, and the future is visible.

**QK-Clip** adds no operation on $q$ and $k$, but acts on their matrices ([Kimi Team, 2025](https://arxiv.org/abs/2507.20534)). After an optimizer step, it looks at
each head's largest logit $S_h$ in the last forward pass (signed, not absolute). If $S_h$ exceeds a threshold $\tau$, QK-Clip multiplies the head's $W_q$ and $W_k$ by $\sqrt{\tau/S_h}$ each. At
$\tau = 5$, our logit of 8 becomes 5, until the next step. Kimi K2 could not use QK-Norm: its *latent attention* stores compressed keys and does not expand them in full
at inference, so a norm has no full key to act on.
"""

# %%
torch.manual_seed(seed)
attention, x = Attention(64, 4, 4, clip=True), 20 * torch.randn(2, 32, 64)
attention(x)
attention.clip_logits(25.0)
attention(x)
exact(attention.largest_logit.max().item() / 25, tolerance=1e-3).claim(
    "04-clip-lands-on-the-threshold",
    "in [0.999, 1.001]",
    "If the largest attention logit of a batch exceeds the threshold, QK-Clip scales it down to the threshold.",
    found="If QK-Clip is applied after a batch, and the same batch is processed again, its largest attention logit is {mean:.4f} times the threshold.",
    source="Kimi Team 2025, arXiv 2507.20534",
)

# %% [markdown]
r"""
## Symptoms

In the table below, *stream grows by* is
the RMS of the stream after the last block, divided by its RMS before the first block. With a soft cap,
the largest logit is the one before the cap, and each term of the slope is also multiplied by the derivative of the cap, $1 - \tanh^2(\ell/c)$. A saturated cap maps large logits to nearly the same number. So in the third row attention is spread out (high entropy), and yet hardly any gradient passes (low slope).
"""


# %%
def vital_signs(runs):
    """Mean of every probe over the runs of one arm."""
    read = {
        "largest logit": largest,
        "entropy": lambda r: np.mean(r.probes["attention"]["entropy"]),
        "slope": lambda r: np.mean(r.probes["attention"]["slope"]),
        "stream grows by": lambda r: r.probes["residual-rms"][-1] / r.probes["residual-rms"][0],
        "loss": "test.loss",
    }
    return {name: runs.measure(what).mean for name, what in read.items()}


patients = {
    **{f"{arm}, rate 0.1": part for arm, part in of_arm.items()},
    "unit vectors, rate 0.01": spheres,
    "QK-Norm, rate 0.01 (tuned)": at_best["QK-Norm"],
}
plots.table([{"run": name, **vital_signs(runs)} for name, runs in patients.items()])

# %% [markdown]
r"""
| what you see in training | probe | cause | fix |
| --- | --- | --- | --- |
| a loss that climbs, then falls slowly, without NaN | largest logit in the hundreds or above, entropy and slope near 0 | $q$ and $k$ have outgrown the softmax | QK-Norm, or a lower rate |
| a loss that falls too slowly, *with* a cap | raw logits far above $c$ | the cap is saturated: keys tie at $\pm c$, and none gets a gradient | QK-Norm, or a lower rate |
| a loss too high from the start | entropy near 1, tiny logits | the bound forbids sharp attention: unit vectors without gains, or a second division by $\sqrt{d_k}$ | a temperature, or RMSNorm |
| normal logits, but a higher loss than at a lower rate | the stream grows fast | the rate is too high for the other matrices, whose outputs nothing bounds | a lower rate |

## Where it goes wrong

We rebuilt four bugs from public code, each in an otherwise correct block. Does the book's checker, which
compares a block with its equation, find them?

1. **The norm runs across heads** instead of per head, in gpt-neox ([the line](https://github.com/EleutherAI/gpt-neox/blob/ea7aefd8f8e183256992d9fede4d7c71a46d67a5/megatron/model/transformer.py#L314), [pull request 1367](https://github.com/EleutherAI/gpt-neox/pull/1367)).
2. **The norm is skipped**: a port looked for `q_norm` and `k_norm`, skipped the norms of a model that names them differently, and generated garbage ([vllm-metal 659](https://github.com/vllm-project/vllm-metal/pull/659)).
3. **The order of norm and rotation is wrong**: queries were off by a tenth of a per cent, and the code was merged in spite of this small error ([vllm-metal 660](https://github.com/vllm-project/vllm-metal/issues/660)).
4. **The cap is dropped** by a kernel that did not implement it ([vllm-metal 665](https://github.com/vllm-project/vllm-metal/issues/665)).
"""


# %% tags=["mechanism"]
def across_heads(attention):
    return Attention(32, 4, 4, norms=attention_norms("qk rms width"))


def skipped(attention):
    attention.norm_q = attention.norm_k = None
    return attention


def rotated_first(attention):
    attention.norms = replace(attention.norms, after_rope=True)
    return attention


def uncapped(attention):
    attention.softcap = None
    return attention


# %%
def examine(recipe, slip=lambda attention: attention):
    """Check a block of labkit after a bug was put into its attention."""
    config = ModelConfig(recipe, dim=32, heads=4)
    block = Block(config)
    block.attention.sublayer = slip(block.attention.sublayer)
    return check.block(block, recipe, config)


slips = {across_heads: "qk", skipped: "qk", rotated_first: "qk", uncapped: "gemma2"}
found = [not examine(recipe, slip).ok for slip, recipe in slips.items()]
whole = [examine(recipe).ok for recipe in ("qk", "gemma2")]
exact(sum(found) + sum(whole), tolerance=0).claim(
    "04-check-finds-the-slips",
    "in [6, 6]",
    "A comparison with the equation finds each of four bugs in attention with QK-Norm or a soft cap.",
    found="Comparing a block with its equation finds {found} of 4 bugs in attention and passes {whole} of 2 correct blocks: {mean:.0f} of 6 verdicts are right.",
    source="public code, see the links above",
    beside={"found": sum(found), "whole": sum(whole)},
    predicted=6,
)

# %% [markdown]
r"""
## Exercises

**2 (by hand).** A query must be able to give one of 1,001 keys a weight of 0.9. What is the smallest bound $b$ on the logits that allows
this? And what is the smallest head width $d_k$ at which RMSNorm (without gains) allows it?
"""

# %% tags=["exercise"]
yours = {"b": ..., "d_k": ...}

# %%
enough = math.log(9 * 1000) / 2
truth = {"b": enough, "d_k": math.ceil(enough**2)}
check.answer(yours, truth, name="2", hint="solve 1/(1 + 1000 exp(−2b)) = 0.9; then √d_k ≥ b")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$1/(1 + 1000\,e^{-2b}) = 9/10$ means $1000\,e^{-2b} = 1/9$.

</details>
<details><summary>Solution</summary>

$e^{2b} = 9000$, so $b = \tfrac12\ln 9000 \approx 4.55$. RMSNorm's bound is $\sqrt{d_k}$, so $d_k \ge b^2 \approx 20.7$, that is 21.

</details>

**3 (in code).** Write QK-Clip for attention without groups (each query head has its own key head). `w_q` and `w_k` have shape (heads · d_k, dim), `largest` contains each head's largest
logit, and `threshold` is $\tau$. Return the new matrices.
"""


# %% tags=["exercise"]
def my_clip(w_q, w_k, largest, threshold):
    """Scale each head's rows so that its largest logit becomes at most the threshold."""
    return ...


# %%
def check_clip(my_clip):
    """Compare a clip with the definition, on three heads, two of them over the threshold."""
    w_q, w_k = torch.randn(2, 12, 8).double().round(decimals=2)
    factor = torch.tensor([1.0, 0.5, 0.25]).double().sqrt().repeat_interleave(4)[:, None]
    given = (w_q, w_k, torch.tensor([10.0, 60.0, 120.0]).double(), 30.0)
    hint = "min(1, τ/S) per head scales the logits; each matrix takes its square root as a factor"
    return check.function(my_clip, given, (w_q * factor, w_k * factor), name="3", hint=hint)


check_clip(my_clip)

# %% [markdown]
r"""
<details><summary>Hint</summary>

A factor per head becomes a factor per row with `repeat_interleave`.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_clip(w_q, w_k, largest, threshold):
    """A solution of exercise 3."""
    factor = threshold / largest.clamp(min=threshold)
    rows = factor.sqrt().repeat_interleave(len(w_q) // len(largest))[:, None]
    return w_q * rows, w_k * rows


assert check_clip(solved_clip).ok

# %% [markdown]
r"""
**4 (open).** Other remedies aim at the growth of the logits: weight decay, stronger clipping of the gradient, a longer warm-up. A fourth combines QK-Norm with a soft cap
([Rybakov et al., 2024](https://arxiv.org/abs/2410.16682)). Which of these four helps at ten times the best learning rate? Predict each result with a reason, then run three seeds.
"""

# %% tags=["exercise"]
my_prediction = "…"
ideas = {
    "decay": {"train.weight_decay": 0.1},
    "clip": {"train.clip": 0.1},
    "warm-up": {"train.warmup": 1600},
    "both": {**arms["QK-Norm"], "model.softcap": 50.0},
}
my_experiment = Experiment(base, {"arm": ideas, "seed": seeds[:3]})
# Remove the first "#" of each line; a run takes a minute or two.
# results = lab.run(my_experiment)
# {arm: (part.values("test.loss"), part.values(largest)) for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
<details><summary>Hint</summary>

Adam divides the gradient by its own running size, so a factor on the gradient changes little. Decay shrinks a weight $w$ by $\eta\lambda w$ per step,
and Adam moves it by up to $\eta$.

</details>

**5 (a proof).** Let $\mathcal L$ depend on $W_q$ through normalized queries only (no $\epsilon$), and train with plain gradient descent,
$W_{t+1} = W_t - \eta\,\nabla\mathcal L(W_t)$. Prove: (a) $\|W_t\|$ never decreases; (b) if the gradient has norm $G/\|W_t\|$ with a constant $G$, then
$\|W_t\|^4$ grows like $2\eta^2G^2\,t$ as soon as a step is short compared with $W_t$, and the angle of a step falls like $t^{-1/2}$, whatever $\eta$ is.
"""

# %% tags=["exercise"]
my_proof = "…"

# %% [markdown]
r"""
<details><summary>Hint</summary>

For (a), use Pythagoras: the gradient is orthogonal to $W_t$. For (b), write $n_t = \|W_t\|^2$.

</details>
<details><summary>Solution</summary>

(a) $\|W_{t+1}\|^2 = \|W_t\|^2 - 2\eta\langle W_t, \nabla\mathcal L\rangle + \eta^2\|\nabla\mathcal L\|^2 = \|W_t\|^2 + \eta^2\|\nabla\mathcal L\|^2 \ge \|W_t\|^2$.

(b) With $n_t = \|W_t\|^2$, (a) reads $n_{t+1} - n_t = \eta^2G^2/n_t$. For small steps $n_{t+1}^2 - n_t^2 \approx 2n_t(n_{t+1} - n_t) = 2\eta^2G^2$, so
$n_t^2 = \|W_t\|^4 \approx \|W_0\|^4 + 2\eta^2G^2t$. For large
$t$ the angle of a step is $\eta\|\nabla\mathcal L\|/\|W_t\| = \eta G/n_t \to \eta G/(\sqrt2\,\eta G\sqrt t) = 1/\sqrt{2t}$: the learning rate has cancelled.

</details>
"""

# %% [markdown]
r"""
## What you now know

- **Why is Pre-Norm not enough?** It normalizes vectors, but a gain and two matrices then multiply them. Without weight decay, nothing bounds the product of gain and matrices, and the softmax puts it into an exponent. <!-- derived -->
- **What follows from that?** At ten times the best learning rate, Pre-Norm's largest logit is far more than ten times as large, attention becomes one-hot, and the
  logits go on growing even then. None of these runs diverged, but their final loss is higher than that of trigram counts. These runs do not show why the vision transformer diverged. <!-- 04-logits-outgrow-the-rate 04-entropy-collapses 04-failure-is-a-plateau 04-saturated-logits-keep-growing -->
- **What does the norm bound?** It bounds the lengths of queries and keys, and so the logits, up to the gains. Unit vectors without gains forbid a sharp
  choice among many keys. <!-- 04-rms-allows-sharp-attention 04-unit-vectors-forbid-sharp-attention -->
- **What does the norm cost?** It costs few operations, and at sizes S and M it does not raise the loss: with both models tuned, QK-Norm's loss is a little lower than Pre-Norm's. With weight decay, the difference could not be distinguished from zero. At rate 0.1, where Pre-Norm fails, QK-Norm trains. <!-- 04-each-tuned-qk-norm-is-ahead 04-qk-ahead-on-s 04-qk-ahead-with-decay 04-qk-norm-helps-at-a-high-rate -->
- **What does the norm do to the gradient?** If a norm follows a matrix, the matrix's gradient is orthogonal to it. Without decay, the matrix grows, and each step turns it less. Weight decay fixes the angle of a step (we tested this without momentum), and so acts as a second learning rate. <!-- 04-gradient-is-orthogonal-to-the-weight 04-decay-sets-the-angle -->

## To carry away

- **Equation.** $\ell = \gamma_q\hat q \cdot \gamma_k\hat k/\sqrt{d_k}$ with $\hat q, \hat k$ of RMS 1. The rotation, left out here, comes after the gain.
- **Bound.** $\lvert\ell\rvert$ is at most $\sqrt{d_k}$ times the largest gain of $q$ times the largest gain of $k$.
- **When to use it.** Use QK-Norm if logits grow, or to train at a high learning rate. Normalize each head separately.
- **Cost.** It adds two small norms per layer. We saw no increase in loss.
- **Related methods.** Soft cap, QK-Clip, unit vectors with a learned temperature, weight decay.

| you see | cause | try |
| --- | --- | --- |
| the largest logit keeps growing, and the entropy falls to 0 | queries and keys grow with the weights | QK-Norm, a lower rate, decay |
| attention is spread out and gets no gradient | a saturated soft cap | QK-Norm, a lower rate |
| the logits change when the whole text is moved | the gain is applied after the rotation | gain, then rotation |
| no query can choose sharply | unit vectors without a temperature | RMS in place of L2, or a temperature |

## References

Works cited: [van Laarhoven (2017)](https://arxiv.org/abs/1706.05350), [Henry et al. (2020)](https://arxiv.org/abs/2010.04245), [Su et al. (2021)](https://arxiv.org/abs/2104.09864), [Liu et al. (2022)](https://arxiv.org/abs/2111.09883), [Dehghani et al. (2023)](https://arxiv.org/abs/2302.05442), [Zhai et al. (2023)](https://arxiv.org/abs/2303.06296), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Kosson et al. (2024)](https://arxiv.org/abs/2305.17212), [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682), [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Gemma Team (2025)](https://arxiv.org/abs/2503.19786), [Kimi Team (2025)](https://arxiv.org/abs/2507.20534), [Qwen Team (2025)](https://arxiv.org/abs/2505.09388).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
