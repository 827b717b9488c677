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

**Question.** A vision transformer of eight billion parameters trains well for thousands of steps, then diverges ([Dehghani et al., 2023](https://arxiv.org/abs/2302.05442)): in attention
each token now looks at a single other token. The cure was a norm on queries and one on keys.
But in this Pre-Norm model the input of attention *is* normalized. Why must queries and keys be normalized again, and at what cost?

<details><summary>In short (contains spoilers)</summary>

- An attention logit contains a product of two trained matrices, and the softmax puts it into an exponent. Pre-Norm normalizes the input of these matrices, but without weight decay nothing bounds the matrices themselves.
- A norm on queries and keys takes their lengths out of the logit. With RMSNorm the directions suffice to pick a key, and the logit grows only as far as trained gains let it.
- The norm makes high learning rates usable at which the attention of a Pre-Norm model collapses.

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
rung = "smoke" if size == "smoke" else "S"
looks = ("attention", "attention-by-steps", "attention-maps", "residual-rms")
probes = ("validation", "test", *looks)
high = 1.0 if size == "smoke" else 0.1  # ten times the best rate
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
    "Each row is a character that looks back, and a darker cell is a larger weight. After training without the norm, nearly every "
    "row looks at the same character. With the norm, different rows look at different characters. (The maps are from one seed, and from the "
    "head with the largest logit in absolute value.)",
    provenance=lab.provenance(hot.where(seed=0)),
).named("attention-maps")

# %% [markdown]
r"""
## The idea: one query, one key

Gemma 3, Qwen 3 and OLMo 2 all have norms on queries and keys ([Gemma Team, 2025](https://arxiv.org/abs/2503.19786); [Qwen Team, 2025](https://arxiv.org/abs/2505.09388); [Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656)).

An attention logit is a dot product, divided by the root of the head's width $d_k$: $\ell = q\cdot k/\sqrt{d_k}$.
We use one pair throughout: $q = (4, -2, 2, 0)$ and $k = (2, 0, 4, 2)$. The dot product is
$8 + 0 + 8 + 0 = 16$, and $\ell = 16/2 = 8$. Two more keys have logits of 0, and the softmax chooses
among the three keys. Now let training make the query twenty times as long. The table compares $q$ with $20\,q$, without a norm and with each of two norms on query and key. (Its last two columns are explained below it.)
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
    [
        row(f"{name}, {'20 q' if longer > 1 else 'q'}", logit(norm(longer * q), norm(k)))
        for name, norm in norms.items()
        for longer in (1, 20)
    ]
)

# %% [markdown]
r"""
Without a norm the logit is proportional to the length of the query. Under either norm the length cancels, and only the *direction* matters.
Both vectors have a mean square of $24/4 = 6$, so RMSNorm divides each by $\sqrt6$: the dot product becomes $16/6$, and the logit $\tfrac{16}{6}\cdot\tfrac12 = \tfrac43$. Both squared lengths are 24, so the cosine is $16/24$. L2 normalization gives this cosine times $1/\sqrt{d_k} = \tfrac12$, that is $\tfrac13$.
In each head QK-Norm with RMSNorm replaces $q$ by $\gamma_q\odot q/\mathrm{RMS}(q)$, and $k$ likewise. The trained gains, here 1, are shared by the heads.

The *entropy* is given as a share of the largest possible, $\log 3$: 1 for equal weights, 0 for *one-hot* ones, with all weight on one key.
The *slope* is the trace of the softmax's Jacobian, $\sum_j \partial p_j/\partial\ell_j$: how strongly the weights still react to the logits. At $\ell = 160$ next to no gradient is left.

## Why logits grow

Let $\hat x$ be the normalized stream and $g$ the norm's gain. Without shifts, biases and the rotation of queries and keys by their position (RoPE, explained under *The order of QK-Norm and RoPE*), a logit under Pre-Norm is

$$\ell_{ij} = \tfrac1{\sqrt{d_k}}\,(g\odot\hat x_i)^\top\, W_q^\top W_k\, (g\odot\hat x_j).$$

Pre-Norm fixes the size of $\hat x$. It does not fix $W_q$, $W_k$ or $g$. The factor $1/\sqrt{d_k}$ is a
normalization, too, but it rests on an assumption: the variance of a logit is 1 if the entries of $q$ and $k$ are independent, with
mean 0 and variance 1. Training does not preserve this.

Adam moves each weight by up to about the learning rate $\eta$ per step, whatever its gradient. If steps point the
same way for a while, $W_q$ and $W_k$ have each moved by $\eta t$ after $t$ steps, and their product grows like $(\eta t)^2$. The
gain is trained too and enters twice, so the logit can grow like $(\eta t)^4$. A feed-forward layer also multiplies two matrices, but its
output is added to a stream and normalized again. Attention puts its product into an exponent.

## What saturation costs

A softmax is *saturated* when it is nearly one-hot. Its Jacobian is $\partial p_i/\partial\ell_j = p_i(\delta_{ij} - p_j)$, and the slope is
$1 - \sum_j p_j^2$. Suppose the largest of $T$ logits is larger than every other one by a gap of at least $\Delta$. Every other weight is at most
$e^{-\Delta}$, so $1 - p_{\max} \le (T-1)\,e^{-\Delta}$, and

$$\text{slope} = 1 - \sum_j p_j^2 \;\le\; 1 - p_{\max}^2 \;\le\; 2\,(1 - p_{\max}) \;\le\; 2\,(T-1)\,e^{-\Delta}.$$

The Jacobian is symmetric and has no negative eigenvalue, so its largest eigenvalue is at most the sum of all eigenvalues, which is the trace, our slope. The Jacobian therefore multiplies the length of a gradient by at most the slope. Hence the gradient that reaches queries and keys falls *exponentially* with the gap. For our pair the bound is $4e^{-8}$, about a
thousandth. For the long query it is $4e^{-160}$. The bound holds for random rows:
"""

# %%
torch.manual_seed(seed)
logits = 10 * torch.rand(10_000, 1).double() * torch.randn(10_000, 64).double()
top = logits.topk(2).values
slope = 1 - logits.softmax(-1).square().sum(-1)
exact((slope / (2 * 63 * torch.exp(top[:, 1] - top[:, 0]))).max(), tolerance=0.5).claim(
    "04-slope-dies-with-the-gap",
    "<= 1",
    "The slope of a softmax row falls exponentially with the gap between its two largest logits.",
    found="Over 10,000 rows of 64 logits, the slope is at most {mean:.2f} times its bound, 2 (T − 1) exp(−gap).",
    source="algebra; 'vanishing gradients through softmax' in many texts",
)

# %% [markdown]
r"""
Two natural conclusions do not follow. The first is that saturated attention explodes. Its output cannot: it is an average of
values. The second is that saturated attention is frozen, since no gradient reaches it. This is nearly true of plain gradient descent. But Adam divides a
small gradient by its own small size, so steps can keep their length.

## Four bounds

By the inequality of Cauchy and Schwarz, $|q\cdot k| \le \|q\|\,\|k\|$. A norm fixes the lengths, and so bounds the logit by a number $b$:

| norm of q and k, no gain | length | bound $b$ of the logit | for our pair |
| --- | --- | --- | --- |
| none | anything | none | 8, then 160 |
| L2, per head | $1$ | $1/\sqrt{d_k}$ (or 1 without the scale) | $1/3$, at most $1/2$ |
| RMS or LayerNorm, per head | $\sqrt{d_k}$ | $\sqrt{d_k}$ | RMS: $4/3$, at most $2$ |
| RMS over the full width of $h$ heads | up to $\sqrt{h\,d_k}$ in one head | $h\sqrt{d_k}$ | see below |

How sharp can attention be if all logits lie in $[-b, b]$? At best one key has $b$ and the other $T-1$ have $-b$:

$$p_{\max} = \frac{e^{b}}{e^{b} + (T-1)\,e^{-b}} = \frac{1}{1 + (T-1)\,e^{-2b}}.$$

Gains are trained, and they move the bound: with $\gamma$ for every gain of $q$ and of $k$ it is $\gamma^2$ times as large. Before you move the
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
        xlabel="keys that a query chooses among",
        ylabel="largest weight that one of them can get",
        logx=True,
        ylim=(0, 1.05),
        counted=True,
        caption=f"Largest weight that one key can get under each bound, with every gain at {gain:g}.",
    )


caption = (
    "Largest weight that one key can get under each bound, against the number of keys (L2 scaled: with 1/√dₖ, dₖ = 64). If all gains are 1, attention with unit vectors cannot "
    "choose among many keys. With RMS vectors it can, and wider heads choose more sharply. Larger gains widen every bound."
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
    "If queries and keys are unit vectors, attention can hardly choose among keys.",
    found="If queries and keys of width 64 are unit vectors, and logits are divided by √d_k, none of 2,048 keys can get a weight above {mean:.5f}. "
    "Equal weights would be {even:.5f}.",
    source="a text that says L2-normalized queries and keys eliminate saturation",
    published="logits within ±1/√d_k",
    beside={"even": 1 / 2048},
)

# %%
exact(reach(rms_norm), tolerance=1e-6).claim(
    "04-rms-allows-sharp-attention",
    "> 0.99",
    "If RMSNorm without gains normalizes queries and keys, attention can still choose a single key.",
    found="With RMSNorm without gains on queries and keys of width 64, one of 2,048 keys can get a weight of {mean:.4f}.",
    source="algebra: the bound is √d_k = 8",
)

# %% [markdown]
r"""
One can read that QK-Norm bounds the logits by $1/\sqrt{d_k}$ and so eliminates saturation. This confuses two methods. Unit vectors without gains eliminate
saturation, together with any sharp choice. No gain on the slider brings the sharp choice back: with the factor $1/\sqrt{d_k}$, the line of unit vectors ends near zero wherever the slider stands. RMSNorm allows a sharp choice, and with gains near 1 it still keeps logits from differing by hundreds.

### Temperature

A cosine lies between −1 and 1. A softmax can choose only if the cosine is multiplied by a large enough number. (One over this number is called the *temperature* of the softmax.) Three methods differ in that multiplier:

| where | the multiplier | at the start |
| --- | --- | --- |
| [Henry et al. (2020)](https://arxiv.org/abs/2010.04245), the first QK-Norm | one learned number per module, in place of $1/\sqrt{d_k}$ | $\log_2(T^2-T)$, where $T$ is chosen so that 97.5 % of the training texts are shorter: 22 for $T=2048$ |
| Swin V2 ([Liu et al., 2022](https://arxiv.org/abs/2111.09883)) | one learned number per head | 10, later at most 100 |
| RMSNorm, LayerNorm | $\sqrt{d_k}$, times the two gains | $\sqrt{d_k}$: 8 for $d_k=64$ |

Our pair has the cosine $2/3$, and RMSNorm makes it $2\cdot\tfrac23=\tfrac43$. With every gain of $q$ and of $k$ at 3 the logit becomes
$3\cdot3$ times as large, 12. In general the bound is $\sqrt{d_k}$ times the largest gain of $q$ times the largest of $k$. So training raises it only through these gains, and
a gain moves by about $\eta$ per step.

## The gradient of a matrix whose scale does not matter

If a norm follows $W_q$, the matrix may be multiplied by any $c > 0$ and no logit changes. Differentiate
$\mathcal L(cW_q) = \mathcal L(W_q)$ by $c$ at $c = 1$ (this gives the first equation), and by $W_q$ (the second):

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
A step of length $s$ turns the matrix by an angle of about $s/\|W_q\|$, and steps orthogonal to a matrix make it longer. The norm does not stop this growth,
but it keeps the growth out of the logits. The growth only makes $W_q$ turn more slowly.

Nor does **weight decay** change the logits directly: a shorter $W_q$ gives the same logits. It keeps $W_q$ short, and the shorter $W_q$ is, the further a step turns it. AdamW without momentum moves each of the $n$ weights by about $\eta$ per step, so the step has length $\eta\sqrt n$. On average the step is orthogonal to $W$, so by Pythagoras it adds $\eta^2n$ to $\|W\|^2$. Decay with coefficient
$\lambda$ subtracts $2\eta\lambda\|W\|^2$. The two balance when the angle of a step is

$$\frac{\eta\sqrt n}{\|W\|} = \sqrt{2\eta\lambda}\,.$$

Momentum $\beta_1$ multiplies this angle by $\sqrt{(1-\beta_1)/(1+\beta_1)}$. Neither the gradient nor the initialization appears in the formula
([van Laarhoven, 2017](https://arxiv.org/abs/1706.05350); [Kosson et al., 2024](https://arxiv.org/abs/2305.17212)).
To test this we train a matrix on noise:
"""


# %% tags=["mechanism"]
def turning(decay, size, steps=1500, lr=0.01):
    """Angle of every step that AdamW takes with a matrix whose scale its loss cannot see."""
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
    "no decay, long at first": turning(0.0, size=10),
    "no decay, short at first": turning(0.0, size=1),
    "decay, long at first": turning(0.5, size=10),
    "decay, short at first": turning(0.5, size=1),
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
    "angle keeps shrinking. (η = 0.01 and λ = 0.5, so the equilibrium angle is 0.1. Points are means of neighbouring steps.)",
).named("angle-of-a-step")

# %%
exact(np.mean(turned["decay, short at first"][-500:]), tolerance=1e-3).claim(
    "04-decay-sets-the-angle",
    "in [0.097, 0.103]",
    "If the scale of a matrix has no effect, weight decay in AdamW without momentum fixes the angle of a step at √(2ηλ).",
    found="In the last 500 steps of AdamW without momentum and with weight decay, a step turns a matrix with a large initial norm by {long:.4f} radians, and one with a small initial norm by {mean:.4f} radians. We predicted 0.1 radians.",
    source="derived above; Kosson et al. 2024, arXiv 2305.17212",
    beside={"long": np.mean(turned["decay, long at first"][-500:])},
    predicted=0.1,
)

# %% [markdown]
r"""
So for a matrix that a norm follows, weight decay is a second learning rate in disguise. Without decay the effective learning rate of $W_q$ and $W_k$ falls as training goes on. The runs below have no weight decay, except those called W.

## Implementation: you write it

**1 (in code).** Write the logits of one head with QK-Norm in the order of Qwen 3: RMSNorm, gain, rotation, scale. You get `q`
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
heads[:, 0] *= 1e-3  # a token so short that it shows where eps stands
gains = 0.5 + torch.rand(2, 16, generator=draw, dtype=torch.float64).round(decimals=2)


def check_logits(my_logits):
    """Hold logits against labkit's norm, gain and rotation."""
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
Attention needs three more lines. Do the models that we train below compute exactly this?
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
    found="The outputs of the attention in our models with QK-Norm and of a slow implementation of the formula differ by at most {mean:.0e}.",
    source="Dehghani et al. 2023, arXiv 2302.05442; Su et al. 2021, arXiv 2104.09864",
)

# %% [markdown]
r"""
The two norms take about $8d$ operations per token and layer, and the four projections $8d^2$, so the norms add only a fraction $1/d$ to the operations of the projections. Their memory traffic
costs more; chapter 09 counts the traffic of norms.
"""

# %% [markdown]
r"""
## Measure

The runs belong to the book's *ladder*, the grid of runs that all chapters share. Size S (*rung S* in the original wording of one card) has six blocks of width 32 with four heads, so $d_k = 8$. It trains for 3,200 steps on 20 characters per parameter, with AdamW,
10 % warm-up, a linear decay of the learning rate, and the gradient clipped at 1. *Pre-Norm* and *QK-Norm* both have a norm before every sublayer. QK-Norm has two more, on queries and keys.

We tune each model's learning rate with seeds that we do not use for evaluation. With one tuning seed
the best learning rate is 0.01 for both models. The next figures are at ten times that rate, 0.1.

<details><summary>Other settings, later in this chapter</summary>

The later section *Each at its own rate* tunes more carefully: it uses three tuning seeds wherever the runs of all three are complete. That search finds a slightly higher best learning rate for QK-Norm. That section also adds two settings: W is size S with a weight decay of 0.1 on matrices, and size M has width 64 and 6,000 steps.

</details>

### One rate, three models

We train both models at the learning rate 0.1. The third model is Pre-Norm with a *soft cap*: a tanh that keeps each logit between −50 and 50 (see *Soft-capping only the logits*).
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
    caption="Training loss at ten times Pre-Norm's best learning rate. No run diverges. Pre-Norm's loss falls at first and then rises again, "
    "and its final loss is higher than that of trigram counts, which only count how often each character follows two others. QK-Norm "
    "learns at the same learning rate.",
    provenance=lab.provenance(hot),
).named("ten-times-the-rate")

# %% [markdown]
r"""
What do such losses mean in text? Pre-Norm at its best learning rate, Pre-Norm at ten times that rate, and QK-Norm at that higher rate continue the same beginning of a sentence. At every character we draw the next one from the model's probabilities, always with the same seed.
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
    "At ten times its best learning rate, Pre-Norm's loss is far higher than QK-Norm's.",
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
The six runs of the last card are the five of the figure and the tuning run. The vision transformer of the first paragraph, a hundred thousand times our size, did diverge. What makes our loss high? There are three possible causes.

1. **The rest of the network.** A learning rate ten times too high might ruin the feed-forward layers or the stream.
2. **A frozen softmax.** Once a row is one-hot no gradient passes it, and queries and keys no longer change.
3. **The logits themselves.** They may be too large for a softmax to weigh anything.

The first cause explains little of the difference: with QK-Norm the feed-forward layers have the same learning rate, and the model learns. Yet in both models the stream grows far too much, as *Symptoms* shows. That may explain why QK-Norm's loss is still higher here than at its best learning rate.

### Is the softmax frozen?

We follow the largest logit, in absolute value, of any layer through training.

| question | choices | ours |
| --- | --- | --- |
| After a fifth of the steps Pre-Norm's attention is saturated. What does its largest logit do from then on? <!-- 04-saturated-logits-keep-growing --> | it shrinks; <!-- 0.7 --> it stays where it is; <!-- 1.5 --> it goes on growing | <details><summary>show</summary>The logits go on growing after the softmax is saturated.</details> |
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
    "from a few hundred steps on. QK-Norm's logits can exceed √d_k only through the gains: the product of the largest query gain and the largest key gain is at "
    "least logit/√d_k.",
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
    found="At learning rate 0.1, Pre-Norm's attention is saturated after a fifth of the steps (slope {slope:.2f}). From then on, its largest logit grows by a factor of {mean:.1f}.",
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
    "Without QK-Norm, attention logits grow faster than the learning rate.",
    found="From learning rate 0.01 to 0.1, Pre-Norm's largest attention logit grows as the learning rate to the power {mean:.1f}. The derivation allows a power of up to 4.",
    source="this book: a product of two matrices and a gain that enters twice",
)

# %%
growth("QK-Norm").claim(
    "04-qk-norm-logits-lag-the-rate",
    "< 1",
    "With QK-Norm, attention logits grow more slowly than the learning rate.",
    found="From learning rate 0.01 to 0.1, QK-Norm's largest attention logit grows as the learning rate to the power {mean:.2f}.",
    source="this book: behind the norm only the gains grow",
)

# %% [markdown]
r"""
The second cause said two things: no gradient passes a one-hot row, and queries and keys no longer change. The second of these is wrong: the logits go on growing, so queries and keys do change. We did not test the cause of the growth. Perhaps $W_q$ and $W_k$ move, because Adam turns even a tiny
gradient into full steps. Perhaps only the gain $g$ grows, which enters the logit twice and gets a gradient through the values as well.

### Soft-capping only the logits

The third cause, logits that are too large, can be tested by itself. A *soft cap* bounds each logit, $\ell \leftarrow c\tanh(\ell/c)$, and changes no vector, matrix or
gain. Gemma 2 uses $c = 50$ ([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)), and so does our third model.

| question | choices | ours |
| --- | --- | --- |
| How much of QK-Norm's advantage over Pre-Norm at this learning rate does a cap on the logits alone achieve? <!-- 04-soft-cap-helps-too 04-qk-norm-beats-the-soft-cap --> | none; <!-- 0.1 --> a good part; <!-- 0.6 --> all of it | <details><summary>show</summary>A cap on the logits alone also lowers the loss, but less than QK-Norm does.</details> |
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
So the logits cause a good part of the damage, but only a part. Before the cap is applied, the raw logits become huge, as they do without a cap. Logits far above $c$ are all mapped to about $c$, and those far below $-c$ to about $-c$. Within each group they can be neither ranked nor corrected: the slope of the tanh there is nearly zero. That may be why the cap does not repair everything, but we did not test it.
Appendix C compares [Gemma 2 with Gemma 3, and a cap with and without QK-Norm](C_zoo.ipynb#gemmas-two-answers-to-large-logits).
"""

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(Experiment(base, {"arm": arms, "seed": seeds}))

# %% [markdown]
r"""
### Each at its own rate

What is QK-Norm worth at learning rates that people choose? We compare Pre-Norm, QK-Norm and, in place of the model with the soft cap, a model
without any norm.
"""


# %%
def by_rate(arm):
    """Test loss by rate: of fresh seeds where there are any, else of the seed that tuned."""
    of_rate = climbed.where(arm=arm, rung=rung, stage=["tuning", "first"]).by("lr")
    stage = {rate: [*part.by("stage")][-1] for rate, part in of_rate.items()}
    return {r: of_rate[r].where(stage=stage[r]).values("test.loss") for r in ladder.COARSE}


fresh = {arm: {0.1: losses.values} for arm, losses in test.items()}
keys = {"none": "none", "Pre-Norm": "pre", "QK-Norm": "qk"}
plots.curves(
    {name: by_rate(arm) | fresh.get(name, {}) for name, arm in keys.items()},
    xlabel="learning rate",
    ylabel="test loss (nats)",
    logx=True,
    ylim=(1.3, 2.3),
    reference=ladder.references(rung),
    caption="Test loss of small models against learning rate. Up to the best learning rate, the three losses are within hundredths of a nat of each other. As the learning rate rises further, the model without any norm "
    "diverges first, and then Pre-Norm fails. (The models have size S. A point shows five evaluation seeds if they were run at that rate, and otherwise the "
    "tuning seeds.)",
    provenance=lab.provenance(climbed),
).named("each-at-its-rate")

# %%
leads = ladder.improvement(climbed, "qk")
leads.claim(
    "04-each-tuned-qk-norm-is-ahead",
    "> 0",
    "With both models tuned, QK-Norm ends lower.",
    found="At size {rung}, with tuned learning rates, QK-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's. "
    "(Without attention, the loss is {worth:.2f} nats higher.)",
    source="Henry et al. 2020, arXiv 2010.04245; Rybakov et al. 2024, arXiv 2410.16682, in other settings",
    beside={"worth": -ladder.improvement(climbed, "no attention")[leads.largest].mean},
)

# %%
strict = {  # preregistered: a full evaluation at size S, and at size S with weight decay
    "At size {rung}": (
        "04-qk-ahead-on-s",
        "On rung S, with three tuning seeds and twenty that report, QK-Norm ends below Pre-Norm.",
    ),
    "At size S with weight decay 0.1 (variant {rung})": (
        "04-qk-ahead-with-decay",
        "With weight decay 0.1 on matrices QK-Norm ends below Pre-Norm.",
    ),
}
for where, (name, said) in strict.items():
    leads.claim(
        name,
        "> 0",
        said,
        found=f"{where}, with tuned learning rates, QK-Norm's test loss is {{apart:.4f}} nats {{side}} Pre-Norm's.",
        source="this book, a forecast",
    )

# %% [markdown]
r"""
With tuned learning rates the two losses are close: QK-Norm's improvement is small compared with the loss that attention itself saves (in parentheses on the first card).
With weight decay (variant W) the improvement cannot be distinguished from zero: the uncertainty about the best learning rate alone is not much smaller than the improvement. The benefit of the norm is in the right half of the last figure: high learning rates become usable, though the loss there is higher than at the best rate. [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322) measure exactly that, as
*learning-rate sensitivity*, and find the same in models more than a hundred times our size.

In variant W we tried only learning rates near the best one, so these runs do not show the effect of the norm at high learning rates with decay.

### Unit vectors

Does any bound suffice? At the learning rate 0.01 we compare two models. One has unit vectors, the usual $1/\sqrt{d_k}$
and no learned factor. The other is QK-Norm, which has RMS vectors and gains.

| question | choices | ours |
| --- | --- | --- |
| Make queries and keys unit vectors, without gains. How does the loss compare with QK-Norm's? <!-- 04-bare-unit-vectors-cannot-focus --> | clearly lower; <!-- -0.1 --> about equal; <!-- 0.1 --> clearly higher | <details><summary>show</summary>With unit vectors attention cannot choose, and the loss is higher.</details> |
"""

# %%
unit = {"arm": {"unit vectors": {"model.qk_norm": "qk l2 no-gain"}}, "train.lr": [0.01]}
spheres = lab.run(Experiment(base, {**unit, "seed": seeds}))
(spheres.measure("test.loss") - at_best["QK-Norm"].measure("test.loss")).claim(
    "04-bare-unit-vectors-cannot-focus",
    "> 0.1",
    "If the bound on attention logits rules out sharp attention, the loss is higher.",
    found="If queries and keys are unit vectors without gains, the entropy of attention is {entropy:.3f} of its largest possible value, and the test loss is {mean:.2f} nats higher than QK-Norm's.",
    source="against a text that says L2-normalized queries and keys eliminate saturation",
    beside={"entropy": measure_entropy(spheres)},
)

# %% [markdown]
r"""
With unit vectors attention is hardly more than an average, and the loss is higher. The learned number of Henry et al. lifts that bound, but
we did not train a model with it. RMSNorm contains such a factor: $\sqrt{d_k}$, times its gains.

## Implementation details: order, axis, caps

### The order of QK-Norm and RoPE

Rotary positions turn pairs of channels by an angle proportional to the position ([Su et al., 2021](https://arxiv.org/abs/2104.09864)). A
rotation $R_i$ keeps lengths, so for RMSNorm or L2 without gain the order does not matter: $N(R_i q) = R_i N(q)$. (For LayerNorm it matters: a rotation changes the mean.) A gain multiplies
channels by different numbers, and a rotation mixes them. With $D = \mathrm{diag}(\gamma_q\odot\gamma_k)$,

$$\begin{aligned}
\text{gain, then rotation:}&\quad (R_i\gamma_q\hat q)^\top (R_j\gamma_k\hat k) = (\gamma_q\hat q)^\top R_{j-i}\,(\gamma_k\hat k), \\
\text{rotation, then gain:}&\quad \hat q^\top R_i^\top D\, R_j\hat k.
\end{aligned}$$

The first expression depends only on the distance $j - i$. The second depends on *absolute* positions, unless the two channels of each pair have
equal entries in $D$.

*By hand.* Let $d_k = 2$, $\hat q = \hat k = (\sqrt2, 0)$, $\gamma_q = (2, 1)$, $\gamma_k = (1, 1)$, and let both tokens be at the same position. Rotate, then apply the gains: what is the logit if the angle is
0, and what is it if the angle is 90°?

<details><summary>Answer</summary>

At 0 the vectors become $(2\sqrt2, 0)$ and $(\sqrt2, 0)$, and the logit is $4/\sqrt2 \approx 2.83$. At 90° both become $(0, \sqrt2)$, and the logit is $2/\sqrt2 \approx 1.41$. The distance is the same, but the logit is half as large.

</details>

Now we move eight tokens by twenty places:
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
    found="If QK-Norm and its gain are applied after the rotation, moving the text by 20 positions changes an attention logit by {mean:.2f}.",
    source="against 'the order is interchangeable for RMSNorm' (nanochat, issue 743, last comment)",
)

# %% [markdown]
r"""
### Per head or over the full width

RMSNorm over all heads at once (OLMo 2) fixes the *sum* of squares of the $h$ heads, and one head may take all of it. If our pair is in
one of two heads and the other head is zero, the mean square over eight channels is 3, not 6, and the logit is $\tfrac{16}{3}\cdot\tfrac12 = \tfrac83$, twice
that of a norm per head. In general the bound is $h\sqrt{d_k}$.

### Caps and clips

At $c = 5$ the **soft cap** turns our logit into $5\tanh(8/5) \approx 4.6$, and the logit 160 into 5. It must be applied before the mask: otherwise
the mask's $-\infty$ becomes $-c$, and the future is visible.

**QK-Clip** leaves $q$ and $k$ alone and acts on the weights ([Kimi Team, 2025](https://arxiv.org/abs/2507.20534)). After an optimizer step, a
head whose largest logit $S_h$ (with its sign) exceeds $\tau$ has $W_q$ and $W_k$ multiplied by $\sqrt{\tau/S_h}$ each. At
$\tau = 5$ our logit of 8 becomes 5, until the next step. Kimi K2 needed QK-Clip: its latent attention stores compressed keys and does not expand them in full
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
    found="After QK-Clip, the largest attention logit of the same batch is {mean:.4f} times the threshold.",
    source="Kimi Team 2025, arXiv 2507.20534",
)

# %% [markdown]
r"""
The page of [norms and recipes](tables.md) lists what each model normalizes.

## Symptoms

The table shows five kinds of run after training. Each row is the mean of five seeds. *Stream grows by* is
the RMS of the stream after the last block, divided by its RMS before the first block. With a soft cap the slope also contains the derivative of the cap, $1 - \tanh^2(\ell/c)$. So weights can be spread out, and still hardly any gradient passes, as in the third row (high entropy, low slope). Appendix C shows [what still fails when logits are held](C_zoo.ipynb#logits-held-and-another-instability).
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
    "QK-Norm, rate 0.01 (the best)": at_best["QK-Norm"],
}
plots.table([{"run": name, **vital_signs(runs)} for name, runs in patients.items()])

# %% [markdown]
r"""
| what you see in training | probe | cause | fix |
| --- | --- | --- | --- |
| a loss that climbs, then falls late and only a little, without NaN | largest logit in the hundreds or above, entropy and slope near 0 | $q$ and $k$ have outgrown the softmax | QK-Norm, or a lower rate |
| the same *with* a cap | raw logits far above $c$ | the cap is saturated: keys tie at $\pm c$, and none gets a gradient | QK-Norm, or a lower rate |
| a loss too high from the start | entropy near 1, tiny logits | the bound forbids sharp attention: unit vectors without gains, a scale applied twice | a temperature, or RMSNorm |
| a loss that is higher than at a lower rate, while the logits are fine | the stream grows fast | too high a rate for the rest of the network, which has no such bound | a lower rate |

## Where it goes wrong

We rebuilt four bugs of public code, each in the attention of a correct block. Does the book's checker, which
compares a block with its equation, find them?

1. **The norm runs across heads** where per head was meant: gpt-neox ([its line](https://github.com/EleutherAI/gpt-neox/blob/ea7aefd8f8e183256992d9fede4d7c71a46d67a5/megatron/model/transformer.py#L314), [pull request 1367](https://github.com/EleutherAI/gpt-neox/pull/1367)).
2. **The norm is skipped**: a port looked for `q_norm` and `k_norm`, skipped the norms of a model that names them differently, and generated garbage ([vllm-metal 659](https://github.com/vllm-project/vllm-metal/pull/659)).
3. **The order of norm and rotation is wrong**: queries were off by a tenth of a per cent, small enough to ship ([vllm-metal 660](https://github.com/vllm-project/vllm-metal/issues/660)).
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
    """Check a block of labkit whose attention went through a slip."""
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
    found="The comparison finds {found} of 4 bugs in attention and passes {whole} of 2 correct blocks: {mean:.0f} of 6 verdicts are right.",
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

$e^{2b} = 9000$, so $b = \tfrac12\ln 9000 \approx 4.55$. RMSNorm bounds by $\sqrt{d_k}$: $d_k \ge b^2 \approx 20.7$, so 21.

</details>

**3 (in code).** Write QK-Clip for heads without groups, so that each query head has its own key head: `w_q` and `w_k` have shape (heads · d_k, dim), `largest` holds each head's largest
logit. Return the new matrices.
"""


# %% tags=["exercise"]
def my_clip(w_q, w_k, largest, threshold):
    """Scale each head's rows so that its largest logit becomes at most the threshold."""
    return ...


# %%
def check_clip(my_clip):
    """Hold a clip against the definition, on three heads of which two are over the threshold."""
    w_q, w_k = torch.randn(2, 12, 8).double().round(decimals=2)
    factor = torch.tensor([1.0, 0.5, 0.25]).double().sqrt().repeat_interleave(4)[:, None]
    given = (w_q, w_k, torch.tensor([10.0, 60.0, 120.0]).double(), 30.0)
    hint = "min(1, τ/S) per head; each matrix takes its square root"
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
    factor = (threshold / largest).clamp(max=1.0)
    rows = factor.sqrt().repeat_interleave(len(w_q) // len(largest))[:, None]
    return w_q * rows, w_k * rows


assert check_clip(solved_clip).ok

# %% [markdown]
r"""
**4 (open).** Other remedies limit the growth itself: weight decay, stronger clipping, a longer warm-up. [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682)
combine QK-Norm with a soft cap. Which of these helps at ten times the best learning rate? Predict each result with a reason, then run three seeds.
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

Adam divides the gradient by its own running size, so a factor on it changes little. Decay shrinks a weight $w$ by $\eta\lambda w$ per step,
compared with a step of up to $\eta$.

</details>

**5 (a proof).** Let $\mathcal L$ depend on $W_q$ through normalized queries only (no $\epsilon$), and train with plain gradient descent,
$W_{t+1} = W_t - \eta\,\nabla\mathcal L(W_t)$. Prove: (a) $\|W_t\|$ never decreases; (b) if the gradient has norm $G/\|W_t\|$ with a constant $G$, then
$\|W_t\|^4$ grows like $2\eta^2G^2\,t$ for small steps, so that the angle per step falls like $t^{-1/2}$ however large $\eta$ is.
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

- **Why is Pre-Norm not enough?** It normalizes the input of a gain and two matrices. Without weight decay nothing bounds their product, and the softmax puts it into an exponent. <!-- derived -->
- **What follows from that?** At the learning rate 0.1, ten times the best, the largest logit is far more than ten times as large as at the best, and attention becomes one-hot. None of our six runs diverged, including the tuning run: the loss climbs, falls again late and only a little, and is finally higher than that of trigram counts. The
  logits go on growing after the softmax is saturated. These runs do not show why the vision transformer diverged. <!-- 04-logits-outgrow-the-rate 04-entropy-collapses 04-failure-is-a-plateau 04-saturated-logits-keep-growing -->
- **What does the norm bound?** It bounds the lengths of queries and keys. RMSNorm bounds logits by $\sqrt{d_k}$ times the largest gain of $q$ and times the largest gain of $k$. Unit vectors without gains forbid any sharp
  choice. <!-- 04-rms-allows-sharp-attention 04-unit-vectors-forbid-sharp-attention -->
- **What does the norm cost?** It costs few operations, and at size S nothing in loss: with both models tuned, QK-Norm's loss there is a little lower than Pre-Norm's. The first card of *Each at its own rate* gives the difference at size M. With weight decay the difference could not be distinguished from zero. At rate 0.1, where Pre-Norm fails, QK-Norm trains. <!-- 04-each-tuned-qk-norm-is-ahead 04-qk-ahead-on-s 04-qk-ahead-with-decay 04-qk-norm-helps-at-a-high-rate -->
- The gradient of a matrix that a norm follows is orthogonal to the matrix. Without decay the matrix grows, and each step turns it less. Weight decay fixes the angle of a step (we tested this without momentum), and so acts as a second learning rate. <!-- 04-gradient-is-orthogonal-to-the-weight 04-decay-sets-the-angle -->

## To carry away

- **Equation.** $\ell = \gamma_q\hat q \cdot \gamma_k\hat k/\sqrt{d_k}$ with $\hat q, \hat k$ of RMS 1, before the rotation.
- **Bound.** $\lvert\ell\rvert \le \sqrt{d_k}$ times the two largest gains.
- **Use.** Use QK-Norm where learning rates are high. Normalize each head separately.
- **Cost.** It adds two small norms per layer. We saw no increase in loss.
- **Related methods.** Soft cap, QK-Clip, unit vectors with a learned temperature, weight decay.

| you see | cause | try |
| --- | --- | --- |
| the largest logit grows without end, the entropy falls to 0 | queries and keys grow with the weights | QK-Norm, a lower rate, decay |
| attention is spread out and gets no gradient | a saturated soft cap | a higher cap, QK-Norm |
| positions shift the logits | the gain is applied after the rotation | gain, then rotation |
| no query can choose sharply | unit vectors without a temperature | RMS in place of L2, or a temperature |

## References

Works cited: [van Laarhoven (2017)](https://arxiv.org/abs/1706.05350), [Henry et al. (2020)](https://arxiv.org/abs/2010.04245), [Su et al. (2021)](https://arxiv.org/abs/2104.09864), [Liu et al. (2022)](https://arxiv.org/abs/2111.09883), [Dehghani et al. (2023)](https://arxiv.org/abs/2302.05442), [Zhai et al. (2023)](https://arxiv.org/abs/2303.06296), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Kosson et al. (2024)](https://arxiv.org/abs/2305.17212), [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682), [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Gemma Team (2025)](https://arxiv.org/abs/2503.19786), [Kimi Team (2025)](https://arxiv.org/abs/2507.20534), [Qwen Team (2025)](https://arxiv.org/abs/2505.09388).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
