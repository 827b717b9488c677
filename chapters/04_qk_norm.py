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
# QK-Norm

**Question.** A vision transformer of eight billion parameters trains well for a few thousand steps, then
its loss diverges. The authors look inside and find attention weights that are almost one-hot: each token
looks at a single other token and ignores the rest. The logits behind these weights had grown to extreme
values ([Dehghani et al., 2023](https://arxiv.org/abs/2302.05442)). The cure was two more norms, one on the queries and one on the keys. Today
Gemma 3, Qwen 3 and OLMo 2 have them ([Gemma Team, 2025](https://arxiv.org/abs/2503.19786); [Qwen Team, 2025](https://arxiv.org/abs/2505.09388); [Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656)).

That leaves a puzzle. The model was a Pre-Norm model: what enters attention *is* normalized. Why is that not
enough? And what should the new norm do? Make each query and key a unit vector, say some texts, then no
logit exceeds 1 and saturation is impossible. But a softmax over two thousand keys with logits between −1
and 1 cannot concentrate on anything at all. Which bound is the right one, what does it cure, and is it free?
"""

# %% [markdown]
r"""
**What you will see**

- why logits grow: they are a product of trained factors, and the product sits in an exponent;
- what a saturated softmax costs, and two popular conclusions from it that do not follow;
- four bounds for the logits, computed and reached, and how sharp attention can be under each;
- what happens to the gradient of a matrix whose scale no longer matters;
- norm before or after the rotation, per head or over the full width, soft caps, QK-Clip;
- a learning-rate sweep with and without QK-Norm: where it helps, where it costs, and how a coarse grid
  of rates crowns a winner that a finer one dethrones;
- four slips of public code, each caught by a check.
"""

# %%
import math

import numpy as np
import torch
import torch.nn.functional as F

from labkit import ModelConfig, TrainConfig, check, plots
from labkit.attention import Attention, attention_norms, qk_norm_rope, rotary_angles
from labkit.context import Context
from labkit.experiments import Experiment, Lab, Results, Run, claim, minus, proportion
from labkit.norms import l2_norm, layer_norm, rms_norm
from labkit.source import show

lab = Lab(
    "04_qk_norm",
    size=size,
    seed=seed,
    memory={"kernel": "700M", "run": "850M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    dim=(16, 64, 512),
    depth=(2, 3, 8),
    steps=(3, 160, 1000),
    held_out=(1024, 8_192, 65_536),
    seeds=(5, 5, 10),
    sweep_seeds=(1, 2, 5),
    rates=(
        [3e-3, 3e-2],
        [3e-3, 5.5e-3, 1e-2, 3e-2, 1e-1],
        [3e-4, 1e-3, 3e-3, 5.5e-3, 1e-2, 1.7e-2, 3e-2, 1e-1, 3e-1],
    ),
    more_arms=(False, False, True),
    loss_range=(None, (2.0, 3.0), None),
)

# %% [markdown]
r"""
## The idea: one query, one key

An attention logit is a dot product, divided by the root of the head's width $d_k$:
$\ell = q\cdot k/\sqrt{d_k}$. Take $q = (4, -2, 2, 0)$ and $k = (2, 0, 4, 2)$. The dot product is
$8 + 0 + 8 + 0 = 16$, and $\ell = 16/2 = 8$. Now let training multiply the query by twenty.
"""

# %%
q, k = torch.tensor([4.0, -2, 2, 0]), torch.tensor([2.0, 0, 4, 2])


def logit(q, k):
    return (q @ k / len(q) ** 0.5).item()


plots.table(
    [
        {"norm": name, "q": logit(norm(q), norm(k)), "20 q": logit(norm(20 * q), norm(k))}
        for name, norm in (("none", lambda x: x), ("RMS", rms_norm), ("L2", l2_norm))
    ]
)

# %% [markdown]
r"""
Without a norm the logit follows the length of the query. With either norm it is blind to it: only the
*direction* of the two vectors counts. Both mean squares are $24/4 = 6$, so RMS gives
$16/6/2 = 4/3$; the cosine is $16/24$, and L2 gives half of that.

Why care about the length of a query? Because of what follows. Here are three keys with logits $(s, 0, 0)$:
"""

# %%
from labkit.probes import sharpness

one_row = torch.ones(1, 1, 1, 3, dtype=torch.bool)


def row(s):
    """Weights, entropy and slope of a softmax over three keys with logits (s, 0, 0)."""
    logits = torch.tensor([s, 0.0, 0.0])
    seen = sharpness(logits.expand(1, 1, 1, 3), one_row)
    weight = logits.softmax(0)[0].item()
    return {
        "s": s,
        "weight of the first": weight,
        "entropy": seen["entropy"],
        "slope": seen["slope"],
    }


plots.table([row(s) for s in (0.0, 1.0, 8.0, 20.0)])

# %% [markdown]
r"""
The *entropy* of the weights is given as a share of the largest possible one, $\log 3$ here: 1 for equal
weights, 0 for one-hot. The *slope* is $\sum_j \partial p_j/\partial\ell_j$: what a small change of the
logits can still do. At $s = 20$ the softmax has become a hard choice, and hardly any gradient passes.
"""

# %% [markdown]
r"""
## Derivation

### Why logits grow

Write out what a logit is under Pre-Norm, with the normalized stream $\hat x$ and the gain $g$ of the norm
(shifts, biases and the rotation by position left out):

$$\ell_{ij} = \tfrac1{\sqrt{d_k}}\,(g\odot\hat x_i)^\top\, W_q^\top W_k\, (g\odot\hat x_j).$$

Pre-Norm fixes the size of $\hat x$. It does not fix $W_q$, $W_k$ or $g$. The factor $1/\sqrt{d_k}$ is
itself a normalization, but one *on credit*: it makes the variance of a logit 1 if the entries of $q$ and
$k$ are independent with mean 0 and variance 1. That is about true at the first step, if the initialization is right.
Nothing keeps it true.

Adam moves each weight by up to about the learning rate $\eta$ in each step, whatever the gradient's size. If
steps point the same way for a while, a weight has moved by up to $\eta t$ after $t$ steps. Once that
exceeds its initial size, $W_q^\top W_k$ grows like $(\eta t)^2$. The gain $g$ enters twice and is trained
too; once it has left its initial 1 as far behind, the power is anything up to four. A feed-forward layer also multiplies two matrices, but its output
is added to a stream and normalized there. Attention puts its product into an exponent.

### What saturation costs

The softmax has the Jacobian $\partial p_i/\partial\ell_j = p_i(\delta_{ij} - p_j)$, whose trace is the slope
$1 - \sum_j p_j^2$. Suppose the largest of $T$ logits leads by a gap $\delta$. Every other weight is at most
$e^{-\delta}$, so $1 - p_{\max} \le (T-1)\,e^{-\delta}$, and

$$\text{slope} = 1 - \sum_j p_j^2 \;\le\; 1 - p_{\max}^2 \;\le\; 2\,(1 - p_{\max}) \;\le\; 2\,(T-1)\,e^{-\delta}.$$

What such a row passes on to its query and keys dies *exponentially* in the gap. Test it on random rows:
"""

# %%
torch.manual_seed(seed)
logits = 10 * torch.rand(10_000, 1).double() * torch.randn(10_000, 64).double()
top = logits.topk(2).values
slope = 1 - logits.softmax(-1).square().sum(-1)
ceiling = 2 * 63 * torch.exp(top[:, 1] - top[:, 0])
claim(
    "04-slope-dies-with-the-gap",
    "Over 10,000 rows of 64 logits the slope is at most {mean:.2f} times 2 (T − 1) exp(−gap).",
    (slope / ceiling).max().item(),
    source="algebra; 'vanishing gradients through softmax' in many texts",
    criterion="<= 1",
    kind="exact",
    tolerance=0.5,
)

# %% [markdown]
r"""
(The Jacobian is symmetric and has no negative eigenvalue, so its trace bounds every one of them.)

Three consequences are often listed: the output becomes a copy of one value vector; gradients vanish;
attention becomes spiky and training unstable. The first two follow from the formulas. The third is an
observation. [Zhai et al. (2023)](https://arxiv.org/abs/2303.06296) call it **entropy collapse**: low attention entropy goes with oscillating or
diverging losses in many architectures.

Two further conclusions sound natural and do not follow. *Saturated attention explodes.* Its output cannot: it
is an average of the values, however large the logits are. (Its gradient may still be large: where two logits tie, a
row is not one-hot, and the gradient of its query is a multiple of keys that have grown.) *Saturated attention is
frozen, for it gets no gradient.* Under plain gradient descent, nearly. Adam divides a small gradient by its own small
size. While that is large against Adam's $\epsilon$ ($10^{-8}$ here), steps keep their length, about $\eta$ for a weight;
only their *direction* now comes from the few rows that are not one-hot, and the others cannot object. Keep both
for the predictions.

### Four bounds

By the inequality of Cauchy and Schwarz, $|q\cdot k| \le \|q\|\,\|k\|$. What a norm does to the lengths
therefore bounds the logit by a number $b$:

| norm of q and k, no gain | length | bound of the logit $q\cdot k/\sqrt{d_k}$ |
| --- | --- | --- |
| none | anything | none |
| L2, per head | $1$ | $1/\sqrt{d_k}$ (or 1 if one leaves out the scale) |
| RMS or LayerNorm, per head | $\sqrt{d_k}$ | $\sqrt{d_k}$ |
| RMS, over the full width of $h$ heads | up to $\sqrt{h\,d_k}$ in one head | $h\sqrt{d_k}$ |

How sharp can attention be if all logits lie in $[-b, b]$? At best one key has $b$ and the other $T-1$ have
$-b$:

$$p_{\max} = \frac{e^{b}}{e^{b} + (T-1)\,e^{-b}} = \frac{1}{1 + (T-1)\,e^{-2b}}.$$

The bound is reached: give one key the query's own direction and all others the opposite one.
"""


# %%
def sharpest(norm, keys=2048, dim=64, scale=64**-0.5):
    """Largest attention weight that one of many keys can get under a norm, by construction."""
    u = torch.randn(dim, dtype=torch.float64)
    q, k = norm(u), norm(torch.stack([u] + [-u] * (keys - 1)))
    return (scale * k @ q).softmax(0)[0].item()


# %%
plots.table(
    [
        {"norm": name, "bound": b, "formula": 1 / (1 + 2047 * math.exp(-2 * b)), "reached": reached}
        for name, b, reached in (
            ("uniform", 0.0, 1 / 2048),
            ("L2, with 1/√d_k", 1 / 8, sharpest(l2_norm)),
            ("L2, without", 1.0, sharpest(l2_norm, scale=1.0)),
            ("RMS", 8.0, sharpest(rms_norm)),
            ("LayerNorm", 8.0, sharpest(layer_norm)),
        )
    ],
    digits=4,
)

# %%
claim(
    "04-unit-vectors-forbid-sharp-attention",
    "Among 2,048 keys of width 64, unit vectors with 1/√d_k give no key a weight above {mean:.5f}; "
    "equal weights are {even:.5f}.",
    sharpest(l2_norm),
    even=1 / 2048,
    source="a text that says L2-normalized queries and keys eliminate saturation",
    published="logits within ±1/√d_k",
    criterion="< 0.001",
    kind="exact",
    tolerance=1e-6,
)

# %%
claim(
    "04-rms-allows-sharp-attention",
    "With RMSNorm on both, one of 2,048 keys can get a weight of {mean:.4f}.",
    sharpest(rms_norm),
    source="algebra: the bound is √d_k = 8",
    criterion="> 0.99",
    kind="exact",
    tolerance=1e-6,
)

# %% [markdown]
r"""
So "QK-Norm bounds the logits by $1/\sqrt{d_k}$ and eliminates saturation" mixes two methods. Bare unit
vectors do eliminate saturation, together with attention. RMSNorm and LayerNorm bound the logits by
$\sqrt{d_k}$, which still allows a hard choice. It forbids something else: a *gap of hundreds* from which
no gradient leads back.

### Temperature

Whoever wants cosines must multiply them by something. [Henry et al. (2020)](https://arxiv.org/abs/2010.04245), the first QK-Norm, drop the
$1/\sqrt{d_k}$ and learn one scalar $g$ per attention module, which starts at $\log_2(L^2 - L)$, where $L$ is
the length that 97.5 % of the training sequences do not exceed. Swin V2 learns one temperature per head, $\exp\tau_h$ capped at 100
([Liu et al., 2022](https://arxiv.org/abs/2111.09883)). RMSNorm and LayerNorm bring their own: the gains $\gamma_q, \gamma_k$ give
$\ell = \frac1{\sqrt{d_k}}\sum_c \gamma_{q,c}\gamma_{k,c}\,\hat q_c \hat k_c$, so the bound is
$\sqrt{d_k}\,\max_c|\gamma_{q,c}\gamma_{k,c}|$ (with a rotation in between,
$\sqrt{d_k}\,\max_c|\gamma_{q,c}|\,\max_c|\gamma_{k,c}|$). Gains are trained. The guarantee that logits stay bounded
"whatever happens in training" holds up to two gain vectors, which grow by at most about $\eta$ a step. Without the
norm, *two matrices and a gain that enters twice* do.

(ScaleNorm and FixNorm are relatives ([Nguyen and Salazar, 2019](https://arxiv.org/abs/1910.05895)). ScaleNorm gives the input of every sublayer one learned
length; FixNorm gives every word embedding the same length. Together, with tied embeddings, they make the *output's*
logits cosines times a learned number. The matrices $W_q$ and $W_k$ stay free.)

### The gradient of a matrix whose scale does not matter

With a norm behind it, $W_q$ may be multiplied by any $c > 0$ and no logit changes. Differentiate
$\mathcal L(cW_q) = \mathcal L(W_q)$ by $c$ at 1, and by $W_q$:

$$\langle W_q, \nabla_{W_q}\mathcal L\rangle = 0, \qquad\qquad \nabla\mathcal L(c\,W_q) = \tfrac1c\,\nabla\mathcal L(W_q).$$

The gradient never points along the matrix, only across it, and it shrinks as the matrix grows. Ask autograd:
"""


# %%
def query_gradient(factor, qk_norm="qk rms"):
    """Weight and gradient of W_q in the first layer of a fresh model, W_q times `factor`."""
    torch.manual_seed(seed)
    model = ModelConfig("pre", "layer", qk_norm=qk_norm, norm_eps=0.0).build().double()
    text, weight = torch.randint(96, (4, 32)), model.blocks[0].attention.sublayer.q.weight
    weight.data *= factor
    F.cross_entropy(model(text)[:, :-1].flatten(0, 1), text[:, 1:].flatten()).backward()
    return weight.detach(), weight.grad


# %%
weight, gradient = query_gradient(1.0)
claim(
    "04-gradient-is-orthogonal-to-the-weight",
    "With QK-Norm, the cosine between W_q and its gradient is {mean:.1e}.",
    ((weight * gradient).sum() / weight.norm() / gradient.norm()).abs().item(),
    source="scale invariance (Euler's theorem for homogeneous functions)",
    criterion="< 1e-9",
    kind="exact",
    tolerance=1e-9,
)

# %%
ratio = query_gradient(10.0)[1].norm() / gradient.norm()
claim(
    "04-gradient-falls-with-the-weight",
    "With QK-Norm, a W_q ten times as large has {mean:.4f} of the gradient.",
    ratio.item(),
    source="scale invariance",
    criterion="in [0.0999, 0.1001]",
    kind="exact",
    tolerance=1e-6,
)

# %% [markdown]
r"""
This is a brake. A step of length $s$ turns the matrix by an angle of about $s/\|W_q\|$, so a larger matrix turns
less. A high rate first inflates $W_q$, which then lowers its *effective* rate by itself. The norm
does not stop the matrix from growing; it keeps the growth out of the logits. (Exercise 7 asks for a proof, under plain gradient descent.)

### Per head or over the full width

RMSNorm over all heads at once (OLMo 2) fixes the *sum* of the squares of the $h$ heads, and one head may
take all of it. Let only one head of four have weights:
"""


# %%
def bound_reached(words, only_one_head=False):
    """Largest logit of a key equal to its query, in units of √d_k."""
    torch.manual_seed(seed)
    attention = Attention(64, 4, 4, norms=attention_norms(words)).double()
    if only_one_head:
        attention.q.weight.data[16:] = 0
    q, _, _ = attention.project(1000 * torch.randn(1, 50, 64).double(), Context())
    return (q.square().sum(-1).max() / 16).item()


# %%
cases = {"each head": "qk rms no-gain", "full width": "qk rms width no-gain"}
plots.table(
    [
        {
            "norm over": name,
            "four heads alive": bound_reached(words),
            "one head alive": bound_reached(words, only_one_head=True),
        }
        for name, words in cases.items()
    ]
)

# %%
claim(
    "04-full-width-bound-is-looser",
    "Normalized over the full width of four heads, one head's logits reach {mean:.2f} √d_k.",
    bound_reached("qk rms width no-gain", only_one_head=True),
    source="algebra: h √d_k for h heads, OLMo 2's choice",
    criterion="in [3.99, 4.01]",
    kind="exact",
    tolerance=1e-3,
)

# %% [markdown]
r"""
Both are in use. Per head, each head has the same bound; over the full width, heads can trade. (Under tensor
parallelism a full-width norm also needs numbers from other devices.)

### Before or after the rotation

Rotary positions turn pairs of channels of $q$ and $k$ by an angle proportional to the position
([Su et al., 2021](https://arxiv.org/abs/2104.09864)). A rotation $R_i$ keeps lengths, so a norm without gain does not care about the order:
$N(R_i q) = R_i N(q)$. A gain does. It multiplies channels by different numbers, and a rotation mixes
channels. With $D = \mathrm{diag}(\gamma_q\odot\gamma_k)$,

$$\begin{aligned}
\text{gain, then rotation:}&\quad (R_i\gamma_q\hat q)^\top (R_j\gamma_k\hat k) = (\gamma_q\hat q)^\top R_{j-i}\,(\gamma_k\hat k), \\
\text{rotation, then gain:}&\quad \hat q^\top R_i^\top D\, R_j\hat k.
\end{aligned}$$

The first depends on the distance $j - i$ alone. In the second $R_i^\top D R_j$ becomes $D R_{j-i}$ only if
$D$ commutes with rotations, that is if the two channels of each pair have equal entries. Otherwise the
logits depend on *absolute* positions. Move eight tokens twenty places further and look:
"""

# %%
angles = rotary_angles(64, 16)
draw = torch.Generator().manual_seed(seed)
q, k = (torch.randn(8, 1, 16, generator=draw, dtype=torch.float64) for _ in "qk")
gains = [0.5 + torch.rand(16, generator=draw, dtype=torch.float64) for _ in "qk"]


def logits_at(start, gains=(None, None), after=False):
    """Logits of eight tokens that stand at positions start, start + 1, …"""
    here = angles[start : start + 8]
    a, b = qk_norm_rope(q, k, *gains, here, eps=0.0, after_rope=after)
    return torch.einsum("ihc,jhc->ij", a, b) / 4


# %%
claim(
    "04-norm-commutes-with-rotation",
    "Without gain, RMSNorm before and after the rotation give logits that differ by {mean:.1e}.",
    (logits_at(20) - logits_at(20, after=True)).abs().max().item(),
    source="algebra; nanochat, issue 743, asks whether the order matters",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %%
moved = {
    after: (logits_at(20, gains, after) - logits_at(0, gains, after)).abs().max().item()
    for after in (False, True)
}
claim(
    "04-gain-before-rotation-sees-distances-only",
    "Norm and gain before the rotation: moving the text by 20 places changes logits by {mean:.1e}.",
    moved[False],
    source="algebra; Gemma 3, Qwen 3",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %%
claim(
    "04-gain-after-rotation-sees-positions",
    "Norm and gain after the rotation: moving the text by 20 places changes a logit by {mean:.2f}.",
    moved[True],
    source="against 'the order is interchangeable for RMSNorm' (nanochat, issue 743, last comment)",
    criterion="> 0.1",
    kind="exact",
    tolerance=0.01,
)

# %% [markdown]
r"""
LayerNorm's mean subtraction does not commute with rotations either. (nGPT's scale stands after the rotation
too: [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131). Such models train; they merely see absolute positions.)

### Caps and clips

Two other ways to bound a logit leave $q$ and $k$ alone.

**Soft-capping** bends the logit: $\ell \leftarrow c\tanh(\ell/c)$, with slope $1 - \tanh^2(\ell/c)$. Since
$\tanh u \approx u - u^3/3$, the cap changes a logit by less than one per cent while
$(\ell/c)^2/3 < 0.01$, that is while $|\ell| < 0.17\,c$. Far out the slope dies like
$4e^{-2|\ell|/c}$. So the cap bounds the *gap* that the softmax sees, but a logit of $10c$ gets no gradient,
exactly as in a saturated softmax. And two logits of $10c$ and $20c$ look the same. It must stand before the
mask: capped afterwards, $-\infty$ becomes $-c$ and the future is visible. Gemma 2 has $c = 50$ in attention
and 30 on the output logits ([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)).

**QK-Clip** acts on the weights ([Kimi Team, 2025](https://arxiv.org/abs/2507.20534)). After an optimizer step, a head whose largest logit
$S_h$ exceeds $\tau$ has $W_q$ and $W_k$ multiplied by $\sqrt{\gamma_h}$ each, with
$\gamma_h = \min(1, \tau/S_h)$. Kimi K2 used it with $\tau = 100$ and the optimizer
Muon. A QK-Norm was no option there: its latent attention (MLA) never forms the full keys at inference, so no norm can act on them. (There
QK-Clip treats the shared rotary part of the keys apart; the rule above is that of ordinary heads.) The largest logit of the very batch that tripped it lands on $\tau$:
"""

# %%
torch.manual_seed(seed)
attention, x = Attention(64, 4, 4, clip=True), 20 * torch.randn(2, 32, 64)
attention(x)
before, factors = attention.largest_logit.tolist(), attention.clip_logits(25.0)
attention(x)
after = attention.largest_logit.tolist()
plots.table(
    [
        {"head": h, "largest logit": before[h], "γ": factors[h].item(), "after": after[h]}
        for h in range(4)
    ]
)

# %%
claim(
    "04-clip-lands-on-the-threshold",
    "After the clip the largest logit of that batch is {mean:.4f} of the threshold.",
    max(after) / 25,
    source="Kimi Team 2025, arXiv 2507.20534",
    criterion="in [0.999, 1.001]",
    kind="exact",
    tolerance=1e-3,
)

# %% [markdown]
r"""
The next batch may exceed it again; the clip is a leash of one step.

### What it costs

Per token and layer, the four projections of attention take $4\cdot 2d^2 = 8d^2$ floating-point operations for a width $d$. Two RMSNorms over
$d$ numbers each take about four per number: square, add, scale, gain; together $8d$. The share is $1/d$; for $d = 4096$ that is $1/4096 \approx 0.024\,\%$. What a norm really
costs is a trip through memory for $q$ and $k$ and a kernel launch, which one fused kernel for norm and rotation saves again; chapter 09 counts such trips. On a tiny
model on a CPU, where launches are all there is, it is not negligible.

## Implementation

Queries and keys on their way from projection to logit, as `labkit` computes them in one function (the formula of
its fused kernel):
"""

# %%
from importlib import import_module

from labkit.attention.logits import clip_factors, soft_cap

module = import_module("labkit.attention.qk_norm_rope")
show(module._one, module._turned, soft_cap, clip_factors)

# %% [markdown]
r"""
Attention itself does the same with modules. To trust it, write the whole thing once more, slowly, in double
precision, with a loop over heads and without a line of `labkit`:
"""


# %%
def slow_attention(x, w, heads):
    """Causal attention with RMS-normalized queries and keys, head by head; w: tensors by name."""
    out, size = [], x.shape[-1] // heads
    position, rate = torch.arange(len(x)), 10_000.0 ** (-torch.arange(0, size, 2).double() / size)
    turn = torch.polar(torch.ones(len(x), size // 2).double(), position[:, None] * rate)
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        q, k, v = (x @ w[f"{n}.weight"][part].T for n in "qkv")
        q, k = (t / (t**2).mean(-1, keepdim=True).add(1e-6).sqrt() for t in (q, k))
        q, k = q * w["norm_q.weight"], k * w["norm_k.weight"]
        q, k = (torch.complex(*t.chunk(2, -1)) * turn for t in (q, k))
        logits = (q @ k.conj().T).real / size**0.5
        hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        out.append(logits.masked_fill(hidden, -math.inf).softmax(-1) @ v)
    return torch.cat(out, -1) @ w["out.weight"].T


# %%
torch.manual_seed(seed)
attention = Attention(64, 4, 4, norms=attention_norms("qk rms"), eps=1e-6).double()
for norm in (attention.norm_q, attention.norm_k):
    torch.nn.init.normal_(norm.weight)
x, context = torch.randn(1, 20, 64).double(), Context(angles=rotary_angles(20, 16))
gap = attention(x, context)[0] - slow_attention(x[0], dict(attention.named_parameters()), 4)
claim(
    "04-attention-equals-the-formula",
    "Our attention with QK-Norm and the slow formula differ by at most {mean:.1e}.",
    gap.abs().max().item(),
    source="Dehghani et al. 2023, arXiv 2302.05442; Su et al. 2021, arXiv 2104.09864",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
(The slow version turns channels as complex numbers: multiplying by $e^{i\theta}$ is the rotation.)

## Predict

Write down your own numbers first. Ours, from what was derived:

1. **Growth.** Between two high learning rates, the largest logit grows faster than the rate: as a power
   between 1 and 4 without a norm, with a power below 1 with QK-Norm.
2. **Shape of the failure.** An average of values cannot explode. So no NaN and no spike, but a loss that stays on a
   high plateau, with attention entropy near 0; and logits that go on growing long after the softmax is saturated.
3. **Order at a high rate.** QK-Norm ends lowest, the soft cap second (it holds the gap but lets the gradient
   die), no norm last.
4. **At a low rate** logits stay moderate without help, and the norm only constrains. No gain.
5. **Each at its own rate**: the advantages of 3 and 4 nearly cancel. A small difference, we would not bet which way.
6. **Bare unit vectors** leave the entropy near 1, and the loss pays for it; one learned temperature mends it.
"""

# %% [markdown]
r"""
## Measure

Three blocks of width 64 with four heads ($d_k = 16$), Pre-Norm with LayerNorm, GELU, Xavier initialization;
8 windows of 64 characters of State of the Union addresses; Adam with $\beta = (0.9, 0.98)$, a constant rate
after 10 steps of warm-up, 160 steps, no decay, no clipping.

**What was chosen, and when?** Pilots with one seed, at this and a larger size, had seen that QK-Norm is ahead at
rate 0.03 and behind at 0.003, and that the failure is a plateau. Rates, sizes and the cap of 30 were fixed with
that knowledge. After a first draft had run, one criterion changed: a spike was first sought step by step, and healthy
runs failed too, for the loss of a single small batch is that noisy; now it is sought in means of ten steps. And the card on
logits that keep growing was added after its curve had been seen.

The range declared for the comparison of rates is 0.003 to 0.03, with five seeds. The sweep goes further and finer, with two.
"""

# %%
from labkit.corpora import Text

base = Run(
    model=ModelConfig(
        norm="layer",
        activation="gelu",
        init="xavier",
        dim=sizes.dim,
        depth=sizes.depth,
        context=64,
    ),
    data=Text(batch=8, time=64, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, schedule="constant", warmup=10),
    probes=("validation", "test", "attention", "attention-by-steps", "residual-rms"),
)

# %%
low, mid, high = 3e-3, 1e-2, 3e-2
arms = {
    "none": {"model.qk_norm": None},
    "qk": {"model.qk_norm": "qk rms"},
    "soft-cap": {"model.softcap": 30.0},
}
more = {
    "l2": {"model.qk_norm": "qk l2 no-gain"},
    "henry": {"model.qk_norm": "henry"},
    "qk-clip": {"model.qk_clip": 30.0},
    "full width": {"model.qk_norm": "olmo2"},
    "after-rope": {"model.qk_norm": "qk rms after-rope"},
}
five, two = lab.seeds(sizes.seeds), lab.seeds(sizes.sweep_seeds)
both = {name: arms[name] for name in ("none", "qk")}
core = lab.run(Experiment(base, {"arm": both, "train.lr": [low, mid, high], "seed": five}))

# %%
swept = {**arms, **more} if sizes.more_arms else arms
sweep = lab.run(Experiment(base, {"arm": swept, "train.lr": sizes.rates, "seed": two}))

# %%
between = {"arm": arms, "train.lr": [5.5e-3], "seed": five}
only = {"arm": {"soft-cap": arms["soft-cap"]}, "train.lr": [high], "seed": five}
between, capped = lab.run(Experiment(base, between)), lab.run(Experiment(base, only))
once = {
    tuple(row.values()): (row, run) for part in (sweep, core, between, capped) for row, run in part
}
every = Results(tuple(once.values()))  # each run once

# %% [markdown]
r"""
### The logits

First the quantity itself: the largest logit in any layer, on held-out text, after training.
"""


# %%
def by_rate(read):
    """Read one number from every run: {arm: {rate: [per seed]}}."""
    return {
        arm: {rate: cell.values(read) for rate, cell in sorted(part.by("lr").items())}
        for arm, part in every.by("arm").items()
    }


def largest(record):
    """Largest attention logit of any layer."""
    return max(record.probes["attention"]["largest"])


# %%
plots.curves(
    by_rate(largest),
    xlabel="learning rate",
    ylabel="largest attention logit",
    logx=True,
    logy=True,
    ylim=(1, 1e6),
    reference={"√d_k": (base.model.dim // base.model.heads) ** 0.5},
    caption="Without a norm the logits run away with the rate; under a soft cap too (drawn before "
    "the cap). QK-Norm's exceed √d_k only as far as the trained gains let them.",
    provenance=lab.provenance(every),
)


# %%
def growth(arm):
    """Power with which the largest logit grows from the middle to the high rate, per seed."""
    at = {rate: core.where(arm=arm, lr=rate).values(largest) for rate in (mid, high)}
    return [math.log(b / a) / math.log(high / mid) for a, b in zip(at[mid], at[high], strict=True)]


# %%
claim(
    "04-logits-outgrow-the-rate",
    "From rate 0.01 to 0.03 the largest logit grows like the rate to the power {mean:.2f} without a norm.",
    growth("none"),
    source="this book: a product of two matrices and a gain that enters twice",
    criterion="in [1, 4]",
    kind="at",
    predicted=2.0,
)

# %%
claim(
    "04-qk-norm-logits-lag-the-rate",
    "From rate 0.01 to 0.03 the largest logit grows like the rate to the power {mean:.2f} with QK-Norm.",
    growth("qk"),
    source="this book: behind the norm only the gains grow",
    criterion="< 1",
    kind="at",
)

# %%
at_high = {arm: part.where(lr=high) for arm, part in (core + capped).by("arm").items()}


def quotient(a, b):
    """Divide seed by seed."""
    return [x / y for x, y in zip(a, b, strict=True)]


# %%
claim(
    "04-qk-norm-holds-the-logits",
    "At rate 0.03 QK-Norm's largest logit is {mean:.3f} of that without a norm.",
    quotient(at_high["qk"].values(largest), at_high["none"].values(largest)),
    source="Dehghani et al. 2023, arXiv 2302.05442; Wortsman et al. 2024, arXiv 2309.14322",
    criterion="< 0.1",
    kind="at",
)

# %% [markdown]
r"""
Move the slider and watch when it happens. The rates are those of the sweep.
"""

# %%
at_rate = {rate: part.where(seed=two[0]) for rate, part in sweep.by("lr").items()}


def growth_curves(rate):
    """Largest logit by step, for every arm at one rate."""
    lines = {}
    for arm in arms:
        seen = at_rate[rate].where(arm=arm).values("attention-by-steps")[0]
        lines[arm] = {step: [y] for step, y in zip(seen["steps"], seen["largest"], strict=True)}
    return plots.curves(
        lines, xlabel="step", ylabel="largest attention logit", logy=True, ylim=(1, 1e5),
        title=f"learning rate {rate:g}", caption="By step.", provenance=lab.provenance(at_rate[rate]),
    )  # fmt: skip


# %%
plots.explore(
    growth_curves,
    list(at_rate),
    "growth",
    label="learning rate",
    caption="The largest logit by step, before any cap (one seed). At low rates it creeps; from 0.03 on it is "
    "in the hundreds within a hundred steps, unless queries and keys are normalized.",
)

# %% [markdown]
r"""
### Layer by layer

Where does it happen? Both quantities at rate 0.03, by layer.
"""

# %%
plots.by_depth(
    {arm: part.values("attention.largest") for arm, part in at_high.items()},
    ylabel="largest attention logit",
    logy=True,
    caption="Rate 0.03. Without a norm the first layer, which reads embeddings, is spared; the others are not.",
    provenance=lab.provenance(*at_high.values()),
)

# %%
plots.by_depth(
    {arm: part.values("attention.entropy") for arm, part in at_high.items()},
    ylabel="entropy of attention (share of the largest)",
    ylim=(0, 1),
    caption="Rate 0.03. Without a norm, attention collapses to one-hot rows in the later layers.",
    provenance=lab.provenance(*at_high.values()),
)

# %%
collapsed = {
    arm: [min(layers) for layers in part.values("attention.entropy")]
    for arm, part in at_high.items()
}
claim(
    "04-entropy-collapses",
    "At rate 0.03 without a norm, the sharpest layer keeps {mean:.3f} of the largest possible entropy "
    "(with QK-Norm it keeps {normed:.3f}).",
    collapsed["none"],
    normed=float(np.mean(collapsed["qk"])),
    source="Zhai et al. 2023, arXiv 2303.06296 (entropy collapse)",
    criterion="< 0.25",
    kind="at",
)

# %%
slopes = {
    arm: [float(np.mean(s)) for s in part.values("attention.slope")]
    for arm, part in at_high.items()
}
claim(
    "04-softmax-passes-less",
    "At rate 0.03 without a norm the slope, averaged over layers, is {mean:.2f} of that with QK-Norm.",
    quotient(slopes["none"], slopes["qk"]),
    source="'vanishing gradients through softmax'",
    criterion="< 0.8",
    kind="at",
)

# %% [markdown]
r"""
### The loss
"""

# %%
plots.loss_curves(
    {arm: part.values(lambda record: record.losses) for arm, part in at_high.items()},
    ylim=(1.9, 4.2),
    caption="Rate 0.03. Nothing diverges and nothing spikes; the arm without a norm is simply slow.",
    provenance=lab.provenance(*at_high.values()),
)

# %%
test = {arm: part.values("test.loss") for arm, part in at_high.items()}
claim(
    "04-qk-norm-helps-at-a-high-rate",
    "At rate 0.03, no norm ends {mean:.3f} nats above QK-Norm.",
    minus(test["none"], test["qk"]),
    source="Wortsman et al. 2024, arXiv 2309.14322; Rybakov et al. 2024, arXiv 2410.16682",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "04-soft-cap-helps-too",
    "At rate 0.03, no norm ends {mean:.3f} nats above a soft cap of 30.",
    minus(test["none"], test["soft-cap"]),
    source="Gemma Team 2024, arXiv 2408.00118, which caps attention logits at 50",
    criterion="> 0",
    kind="at",
)

# %%
claim(
    "04-qk-norm-beats-the-soft-cap",
    "At rate 0.03, the soft cap ends {mean:.3f} nats above QK-Norm.",
    minus(test["soft-cap"], test["qk"]),
    source="Gemma Team 2025, arXiv 2503.19786, which replaces the cap by QK-Norm",
    criterion="> 0",
    kind="at",
)


# %%
def got_worse(record):
    """Say whether a run diverged, or the mean loss of ten steps ever rose by half a nat."""
    losses = np.convolve(record.losses, np.ones(10) / 10, "valid")
    rise = (losses - np.minimum.accumulate(losses)).max() if len(losses) else 0.0
    return float(record.diverged_at is not None or rise > 0.5)


# %%
stressed = [
    *at_high["none"].values(got_worse),
    *sweep.where(arm="none", lr=sizes.rates[-1]).values(got_worse),
]
claim(
    "04-failure-is-a-plateau",
    "Of {n} runs without a norm at rates of 0.03 and above, {k} diverged or spiked.",
    proportion(stressed),
    source="Dehghani et al. 2023, arXiv 2302.05442",
    published="the loss of an 8B vision transformer diverges after a few thousand steps",
    criterion="< 0.5",
    kind="at",
)

# %% [markdown]
r"""
The cap touches nothing but the logits. That it helps as well speaks for the logits as the culprit; that it helps less is
the third prediction. (One cap was tried. Another may do better.)

A slow, high loss is most of the second prediction, and it sets our small model apart from the large ones: there the
loss diverges. We do not know what turns a slow run into an explosion; depth, length of training, low precision and the
gradients of near-ties are candidates. What we can show is that the logits do not stop.
"""


# %%
def late_growth(record):
    """Largest logit after training over that after half of it."""
    seen = record.probes["attention-by-steps"]["largest"]
    return seen[-1] / seen[min(len(seen) // 2, len(seen) - 2)]


claim(
    "04-saturated-logits-keep-growing",
    "At rate 0.03 without a norm the largest logit grows {mean:.1f} times over the second half of training.",
    at_high["none"].values(late_growth),
    source="against 'saturated attention is frozen': Adam divides by the size of the gradient",
    criterion="> 1.5",
    kind="at",
)

# %% [markdown]
r"""
So much for the frozen layer. With Adam, a small gradient does not stop a weight, unless it is small against $\epsilon$ too.

### Over the whole range
"""

# %%
plots.curves(
    by_rate("test.loss"),
    xlabel="learning rate",
    ylabel="test loss (nats)",
    logx=True,
    ylim=sizes.loss_range,
    caption="QK-Norm's valley is wider to the right and no deeper; at the lowest rate it ends higher. "
    "(Two seeds make long bars; some leave the picture.)",
    provenance=lab.provenance(every),
)


# %%
def sensitivity(arm):
    """Mean loss over the declared range of rates, less the best loss in it, per seed."""
    losses = np.array(
        [core.where(arm=arm, lr=rate).values("test.loss") for rate in (low, mid, high)]
    )
    return (losses.mean(0) - losses.min(0)).tolist()


# %%
claim(
    "04-qk-norm-is-less-sensitive-to-the-rate",
    "From rate 0.003 to 0.03 the mean excess over the best loss is {none:.3f} nats without a norm and "
    "{mean:.3f} less with QK-Norm.",
    minus(sensitivity("none"), sensitivity("qk")),
    none=float(np.mean(sensitivity("none"))),
    source="Wortsman et al. 2024, arXiv 2309.14322 (learning-rate sensitivity)",
    criterion="> 0",
    kind="range",
)

# %%
slow = {arm: core.where(arm=arm, lr=low).values("test.loss") for arm in both}
claim(
    "04-qk-norm-costs-at-a-low-rate",
    "At rate 0.003 QK-Norm's loss minus that without a norm is {mean:+.3f} nats.",
    minus(slow["qk"], slow["none"]),
    source="a text calls the cost of QK-Norm negligible; it counts operations, not loss",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
### Each at its own rate

The two claims pull in different directions, so the fair question is what is left when every arm may choose its rate on validation
text, to be judged on test text with five seeds. First from the three rates of the range, each about three times the
one before (chosen with the same five seeds).
"""

# %%
coarse = {arm: core.where(arm=arm).best("lr") for arm in both}
coarse_loss = {arm: core.where(arm=arm, lr=coarse[arm]).values("test.loss") for arm in both}
print("chosen from three:", coarse)
claim(
    "04-coarse-grid-shows-a-lead",
    "Each at the best of three rates, no norm's loss minus QK-Norm's is {mean:+.3f} nats.",
    minus(coarse_loss["none"], coarse_loss["qk"]),
    source="Henry et al. 2020, arXiv 2010.04245; Rybakov et al. 2024, arXiv 2410.16682",
    published="+0.928 BLEU on average over five low-resource translation pairs (Henry et al.)",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
A lead, then, with every arm tuned? Our first draft stopped here. But the two arms chose neighbouring rates of a coarse grid, and
the best rate of each may lie between. The sweep has one more value there (chosen with two seeds).
"""

# %%
chosen = {arm: sweep.where(arm=arm).best("lr") for arm in arms}
tuned = {arm: {**arms[arm], "train.lr": rate} for arm, rate in chosen.items()}
final = lab.run(Experiment(base, {"arm": tuned, "seed": five})).by("arm")
print("chosen rates:", chosen)

# %%
plots.dots(
    {arm: part.values("test.loss") for arm, part in final.items()},
    xlabel="test loss (nats)",
    caption="Every arm at its own best rate of the finer grid.",
    provenance=lab.provenance(*final.values()),
)

# %%
best = {arm: part.values("test.loss") for arm, part in final.items()}
claim(
    "04-each-tuned-qk-norm-is-ahead",
    "Each at its own rate of the finer grid, no norm's loss minus QK-Norm's is {mean:+.3f} nats.",
    minus(best["none"], best["qk"]),
    source="Henry et al. 2020, arXiv 2010.04245; Rybakov et al. 2024, arXiv 2410.16682",
    published="+0.928 BLEU on average over five low-resource translation pairs (Henry et al.)",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "04-each-tuned-soft-cap-is-ahead",
    "Each at its own rate of the finer grid, no norm's loss minus the soft cap's is {mean:+.3f} nats.",
    minus(best["none"], best["soft-cap"]),
    source="Gemma Team 2024, arXiv 2408.00118",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
The lead is gone. Nothing about QK-Norm has changed between the cards, only the rates on offer: without a norm the best rate lay
between two values of the coarse grid, where it could not be chosen. Now it can. What QK-Norm
buys at this size is room to the *right* of the optimum; the optimum itself is no better, as far as five seeds can tell. The cap's
is no better either. The size `gpu` has more rates and longer runs.

### Unit vectors and their temperature

At rate 0.01, three ways to normalize: unit vectors with the usual $1/\sqrt{d_k}$ and nothing learned; unit vectors
with Henry's learned scalar; RMSNorm with gains.
"""

# %%
spheres = {name: more[name] for name in ("l2", "henry")}
lengths = lab.run(Experiment(base, {"arm": spheres, "train.lr": [mid], "seed": five})).by("arm")
lengths["qk"] = core.where(arm="qk", lr=mid)
length_loss = {arm: part.values("test.loss") for arm, part in lengths.items()}
plots.dots(
    {
        "l2, bare": length_loss["l2"],
        "l2, with temperature": length_loss["henry"],
        "qk": length_loss["qk"],
    },
    xlabel="test loss (nats)",
    caption="Unit vectors need a temperature. With one, they end close to RMSNorm.",
    provenance=lab.provenance(*lengths.values()),
)

# %%
claim(
    "04-bare-unit-vectors-cannot-focus",
    "Bare unit vectors keep an attention entropy of {entropy:.3f} and end {mean:.3f} nats above RMS QK-Norm.",
    minus(length_loss["l2"], length_loss["qk"]),
    entropy=float(np.mean(lengths["l2"].values("attention.entropy"))),
    source="a text that says L2-normalized queries and keys eliminate saturation",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "04-temperature-mends-unit-vectors",
    "One learned temperature per module lowers the loss of unit vectors by {mean:.3f} nats.",
    minus(length_loss["l2"], length_loss["henry"]),
    source="Henry et al. 2020, arXiv 2010.04245",
    criterion="> 0.1",
    kind="at",
)

# %% [markdown]
r"""
The predictions hold but for part of one. Of the second, no spike comes and the logits go on growing; but the loss, though high, falls slowly on, which is
less than a plateau. All this is less of a feat than it looks: pilots had shown the shape of the failure, and who is ahead at either end.

### Does it depend on the initialization?

The same comparison at the high rate from two smaller initializations (one seed a cell; `xavier` is the headline's).
"""

# %%
starts = {"model.init": ["xavier", "half-xavier", "megatron"]}
inits = lab.run(Experiment(base, {"arm": both, **starts, "train.lr": [high], "seed": five[:1]}))
by_init = {(row["init"], row["arm"]): record.probes["test"]["loss"] for row, record in inits}

# %%
plots.grid_map(
    by_init,
    row_label="initialization",
    col_label="norm of queries and keys",
    value_label="test loss (nats) at rate 0.03",
    caption="QK-Norm is ahead from all three (one seed): its lead does not hang on a large initialization.",
    provenance=lab.provenance(inits),
)

# %% [markdown]
r"""
## What the sources say, and what we measured

| source and setting | what it says | here |
| --- | --- | --- |
| [Dehghani et al. (2023)](https://arxiv.org/abs/2302.05442): vision transformers of about 8B parameters | diverge after a few thousand steps with near one-hot attention; LayerNorm on $q$ and $k$ mends it | `04-entropy-collapses`, `04-qk-norm-holds-the-logits`; no divergence here: `04-failure-is-a-plateau` |
| [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322): small models at high rates | logit growth appears in small models too; QK-Norm lowers the sensitivity to the rate | `04-qk-norm-is-less-sensitive-to-the-rate` |
| [Zhai et al. (2023)](https://arxiv.org/abs/2303.06296): vision, speech, translation, language | low entropy goes with instability; proposes σReparam: every matrix is divided by its largest singular value and multiplied by a learned number | `04-entropy-collapses`; σReparam is not run here |
| [Henry et al. (2020)](https://arxiv.org/abs/2010.04245): five low-resource translation pairs, on top of Pre-Norm, FixNorm and ScaleNorm | +0.928 BLEU on average | `04-coarse-grid-shows-a-lead`, gone in `04-each-tuned-qk-norm-is-ahead`; `04-temperature-mends-unit-vectors` |
| [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682): 830M parameters driven into divergence by high rates | outputs of the QKV, projection and second feed-forward layers grow most; QK-Norm with soft-capping allows 1.5 times the rate of QK-Norm alone | alone: figures above; together: exercise 6 |
| [Gemma Team (2024)](https://arxiv.org/abs/2408.00118) and [Gemma Team (2025)](https://arxiv.org/abs/2503.19786) | cap of 50 on attention logits in Gemma 2, QK-Norm in its place in Gemma 3 | `04-qk-norm-beats-the-soft-cap` |
| [Kimi Team (2025)](https://arxiv.org/abs/2507.20534): 1T parameters, 32B active, Muon | QK-Clip at $\tau = 100$, no loss spike in 15.5T tokens | size `gpu` |

A neighbour with another target is the z-loss of PaLM, $10^{-4}\log^2 Z$ with the normalizer $Z$ of the *output*
softmax ([Chowdhery et al., 2023](https://arxiv.org/abs/2204.02311)). It keeps output logits from drifting and does nothing for attention.

### Who normalizes what

| model | queries and keys | gain | rotation |
| --- | --- | --- | --- |
| QKNorm ([Henry et al., 2020](https://arxiv.org/abs/2010.04245)) | L2 per head, learned $g$ in place of $1/\sqrt{d_k}$ | none | none |
| ViT-22B ([Dehghani et al., 2023](https://arxiv.org/abs/2302.05442)) | LayerNorm per head, no shift | vector | none |
| Swin V2 ([Liu et al., 2022](https://arxiv.org/abs/2111.09883)) | cosine, learned temperature per head | none | position bias instead |
| Gemma 2 ([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)) | **no norm**: soft caps, 50 in attention and 30 on the output | – | – |
| Gemma 3 ([Gemma Team, 2025](https://arxiv.org/abs/2503.19786)) | RMSNorm per head, no cap | $1 + w$, shared by heads | after |
| Qwen 3 ([Qwen Team, 2025](https://arxiv.org/abs/2505.09388)) | RMSNorm per head | vector, shared by heads | after |
| OLMo 2 ([Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656)) | RMSNorm over the full width | vector | after |
| [Command R+](https://github.com/huggingface/transformers/blob/main/src/transformers/models/cohere/modeling_cohere.py) | LayerNorm per head, no shift | each head its own | after |
| HybridNorm ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)) | RMSNorm per head, on $v$ too | vector, shared by heads | after |
| nGPT ([Loshchilov et al., 2025](https://arxiv.org/abs/2410.01131)) | unit vectors | $s_{qk}$ on both; logits times $\sqrt{d_k}$ | **before** the norm |
| [Hunyuan, dense](https://github.com/vllm-project/vllm-metal/issues/660) | RMSNorm per head | vector | **before** the norm |
| [nanochat](https://github.com/karpathy/nanochat) | RMSNorm per head, then times 1.2 | none | **before** the norm |

(After Gemma's reports and the models' code as released. "After" means that the rotation follows norm and gain.)

### Corrections

| often said | but |
| --- | --- |
| "QK-Norm bounds the logits by $1/\sqrt{d_k}$ and eliminates saturation" | for bare unit vectors, which cannot attend: `04-unit-vectors-forbid-sharp-attention`; RMSNorm's bound is $\sqrt{d_k}$ times gains |
| "Gemma 2 uses QK-Norm" | it soft-caps; Gemma 3 has QK-Norm |
| "a guarantee whatever happens during training" | up to the gains, which are trained |
| "the order of RMSNorm and rotation does not matter" | only without a gain: `04-gain-after-rotation-sees-positions` |
| "$1/\sqrt{d_k}$ keeps the variance at 1" | at initialization |
| "the cost is negligible" | in operations; in loss it depends on the rate: `04-qk-norm-costs-at-a-low-rate` |
| "QK-Norm: Improving Transformer Training Stability" as the title of [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682) | the paper is called "Methods of improving LLM training stability" |
| "use it for billions of parameters" | at this tiny size it pays too, at a high rate; why large models meet the trouble at their usual rates we did not test |
"""

# %% [markdown]
r"""
## Symptoms

Attention trouble has several faces, and one of them hides behind a cure. Read the probes of five kinds of runs:
logits before the cap, entropy, slope (through the cap, where there is one), the growth of the stream from embedding to
output, and test loss.
"""


# %%
def stream_growth(record):
    rms = record.probes["residual-rms"]
    return rms[-1] / rms[0]


def vital_signs(runs):
    """Mean of every probe over the runs of one arm."""
    read = {
        "largest logit": largest,
        "entropy": lambda r: np.mean(r.probes["attention"]["entropy"]),
        "slope": lambda r: np.mean(r.probes["attention"]["slope"]),
        "stream grows by": stream_growth,
        "loss": "test.loss",
    }
    return {name: float(np.mean(runs.values(what))) for name, what in read.items()}


# %%
extreme = sizes.rates[-1]
patients = {
    "none, rate 0.03": at_high["none"],
    f"soft-cap, rate {extreme:g}": sweep.where(arm="soft-cap", lr=extreme),
    "l2 bare, rate 0.01": lengths["l2"],
    "qk, rate 0.03": at_high["qk"],
    "qk, rate 0.01 (healthy)": core.where(arm="qk", lr=mid),
}
plots.table([{"run": name, **vital_signs(runs)} for name, runs in patients.items()])

# %% [markdown]
r"""
| what you see in training | probe | cause | fix |
| --- | --- | --- | --- |
| a high loss that falls slowly; no NaN | largest logit in the hundreds or above, entropy and slope near 0 in some layer | $q$ and $k$ have outgrown the softmax | QK-Norm; a lower rate; a cap |
| the same *with* a cap | raw logits far above $c$, entropy high, slope near 0 | the cap is saturated: many keys tie at $\pm c$ and none gets a gradient | QK-Norm; a lower rate |
| a loss that is too high from the start | entropy near 1, tiny logits | the bound forbids attention (bare unit vectors, a scale applied twice) | a learned temperature, or RMSNorm |
| logits healthy, loss still above that of a lower rate | attention far from saturated, the stream grows fast | the rest of the network has no bound (or the rate is simply too noisy) | a lower rate; look at the stream and at the other matrices |
| the same text is read differently further on | move the text by some places and compare logits | gain after the rotation | norm and gain first |

The fourth row deserves its own card. QK-Norm is an intervention in attention, nothing more. The card says that something else is
wrong at this rate, not what: other layers' outputs and the plain noise of a high constant rate both fit.
"""

# %%
claim(
    "04-another-instability-remains",
    "QK-Norm at rate 0.03, with logits of at most {top:.0f}, still has a loss {mean:.3f} nats above that at 0.01.",
    minus(test["qk"], length_loss["qk"]),
    top=max(at_high["qk"].values(largest)),
    source="Rybakov et al. 2024, arXiv 2410.16682: other layers' outputs grow too",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
## Where it goes wrong

Four slips that public code has had. Each is rebuilt by spoiling one thing in the attention of a whole block.

1. **The norm runs across heads.** gpt-neox normalized over heads *and* channels by default. A
   [pull request](https://github.com/EleutherAI/gpt-neox/pull/1367) noticed because the shapes no longer fitted where several
   query heads share one key head. (As OLMo 2's choice it is fine; in a port of a per-head model it is not.)
2. **The norm is skipped.** A port looked for attributes called `q_norm` and `k_norm`; one model calls them
   otherwise. It loaded, served and produced garbage
   ([vllm-metal 659](https://github.com/vllm-project/vllm-metal/pull/659)).
3. **The wrong order.** The same port normalized before the rotation in all models; that one, Hunyuan's, wants it after
   ([issue 660](https://github.com/vllm-project/vllm-metal/issues/660)). In bf16 the first layer's queries were off by about a
   tenth of a per cent: small enough to ship. (We rebuild the mirror image.)
4. **The cap is dropped.** Fused attention had no soft cap at first, so vLLM
   [ran Gemma 2 without it](https://github.com/vllm-project/vllm/pull/5908) for a while, and said so; another engine passed a constant 0 to a kernel that had it
   ([issue 665](https://github.com/vllm-project/vllm-metal/issues/665)).
"""


# %%
from dataclasses import replace

from labkit.model import Block


def across_heads(attention):
    """Mean square over all heads at once."""
    return Attention(32, 4, 4, norms=attention_norms("qk rms width"))


def skipped(attention):
    """No q_norm, no k_norm, no complaint."""
    attention.norm_q = attention.norm_k = None
    return attention


def rotated_first(attention):
    """Rotation, then norm and gain."""
    attention.norms = replace(attention.norms, after_rope=True)
    return attention


# %%
def uncapped(attention):
    """Fused attention that knows no cap."""
    attention.softcap = None
    return attention


def examine(recipe, slip=lambda attention: attention):
    """Check a block of labkit whose attention went through a slip."""
    config = ModelConfig(recipe, dim=32, heads=4)
    block = Block(config)
    block.attention.sublayer = slip(block.attention.sublayer)
    return check.block(block, recipe, config)


# %%
slips = {across_heads: "qk", skipped: "qk", rotated_first: "qk", uncapped: "gemma2"}
reports = {slip.__name__: examine(recipe, slip) for slip, recipe in slips.items()}
for name, report in reports.items():
    print(f"{name}: {report.failed[0].cause if report.failed else 'nothing found'}")

# %%
found = [not report.ok for report in reports.values()]
whole = [examine(recipe).ok for recipe in ("qk", "gemma2")]
claim(
    "04-check-finds-the-slips",
    "Of six verdicts {mean:.0f} are right: {found} of the four slips found, {whole} of the two whole "
    "blocks passed.",
    sum(found) + sum(whole),
    found=sum(found),
    whole=sum(whole),
    source="public code, see the links above",
    criterion="in [6, 6]",
    kind="exact",
    tolerance=0,
)

# %% [markdown]
r"""
Would the loss have told? For the order, two projects tried: nanochat's author
[saw no improvement](https://github.com/karpathy/nanochat/issues/743) from exchanging the two, and the
[Marin project](https://github.com/marin-community/marin/issues/5114) no difference. Neither could: their norms have *no gain*, and then both orders are the same
function, as shown above. With gains the question is open here; the size `gpu` trains that arm. What certainly breaks is to load
weights that were trained with the *other* order.

One slip sits outside the block. The scale of the logits is $1/\sqrt{d_k}$ with the head's own width; a port that computes
$d_k$ as width over heads is wrong where the two differ. Gemma 2's 9B model has heads of 256 while width over heads is
224, and [several code bases](https://github.com/ggml-org/llama.cpp/pull/8444) first took the second number. Trained from
scratch with QK-Norm and gains nobody would notice: the gains can absorb any constant.
"""

# %% [markdown]
r"""
## Exercises

**1 (by hand).** $q = (3, -1, 1, 1)$, $k = (1, 1, 3, -1)$, $d_k = 4$. Give the logit $q\cdot k/\sqrt{d_k}$; the logit when $q$ is
ten times as long; the logit after RMSNorm of both ($\epsilon = 0$, no gain); and the cosine.
"""

# %% tags=["exercise"]
yours = {"raw": ..., "ten times": ..., "rms": ..., "cosine": ...}

# %%
a, b = torch.tensor([3.0, -1, 1, 1]).double(), torch.tensor([1.0, 1, 3, -1]).double()
truth = {
    "raw": logit(a, b),
    "ten times": logit(10 * a, b),
    "rms": logit(rms_norm(a, eps=0.0), rms_norm(b, eps=0.0)),
    "cosine": (l2_norm(a) @ l2_norm(b)).item(),
}
check.answer(yours, truth, name="1", hint="both mean squares are 3; the scale 1/√d_k is 1/2")

# %% [markdown]
r"""
<details><summary>Hint</summary>

The dot product is $3 - 1 + 3 - 1 = 4$. Both vectors have $\|x\|^2 = 12$.

</details>
<details><summary>Solution</summary>

Raw $4/2 = 2$; ten times 20. RMS divides each vector by $\sqrt{12/4} = \sqrt3$, so the logit is $4/3/2 = 2/3$. The cosine is
$4/12 = 1/3$. The RMS logit is the cosine times $\sqrt{d_k} = 2$: that is the whole relation of the two norms.

</details>

**2 (by hand).** A query must be able to give one of 1,001 keys a weight of 0.9. What bound $b$ on the logits does that need at
least? And what is the smallest head width $d_k$ whose RMSNorm (without gains) allows it?
"""

# %% tags=["exercise"]
yours = {"b": ..., "d_k": ...}

# %%
grid = torch.linspace(0, 10, 1_000_001, dtype=torch.float64)
enough = grid[1 / (1 + 1000 * torch.exp(-2 * grid)) >= 0.9].min().item()
truth = {"b": enough, "d_k": math.ceil(enough**2)}
check.answer(yours, truth, name="2", hint="solve 1/(1 + 1000 exp(−2b)) = 0.9; then √d_k ≥ b")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$1/(1 + 1000\,e^{-2b}) = 9/10$ means $1000\,e^{-2b} = 1/9$.

</details>
<details><summary>Solution</summary>

$e^{2b} = 9000$, so $b = \tfrac12\ln 9000 \approx 4.55$. RMSNorm bounds by $\sqrt{d_k}$: $d_k \ge b^2 \approx 20.7$, so 21. (Henry's
temperature would have to reach the same $b$; it starts at $\log_2(L^2 - L) \approx 20$ for $L = 1001$.)

</details>

**3 (in code).** Write the logits of one head with QK-Norm in the order of Qwen 3: RMSNorm, gain, rotation, scale. You get `q` and `k` of shape
(time, d_k), two gains of shape (d_k,), and angles of shape (time, d_k/2). Channel $i$ turns together with channel $i + d_k/2$.
"""


# %% tags=["exercise"]
def my_logits(q, k, gain_q, gain_k, angles, eps=1e-6):
    """Return the logits, of shape (time, time), without mask."""
    return ...


# %%
def check_logits(my_logits):
    """Hold logits against labkit's norm, gain and rotation."""
    turns = rotary_angles(8, 16) + 0.3
    a, b = qk_norm_rope(q, k, *gains, turns)
    truth = torch.einsum("ihc,jhc->ij", a, b) / 4
    came = my_logits(q[:, 0], k[:, 0], *gains, turns)
    hint = "norm, gain, rotation, in this order; divide by √d_k once"
    return check.answer(came, truth, name="3", hint=hint, rtol=1e-6)


check_logits(my_logits)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`a, b = x.chunk(2, -1)`; the rotated vector is `cat((a·cos − b·sin, a·sin + b·cos))`.

</details>
"""


# %% tags=["solution"]
def solved_logits(q, k, gain_q, gain_k, angles, eps=1e-6):
    """A solution of exercise 3."""

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
**4 (in code).** Write QK-Clip for heads without groups: `w_q` and `w_k` have shape (heads · d_k, dim), `largest` holds each head's largest
logit. Return the new matrices.
"""


# %% tags=["exercise"]
def my_clip(w_q, w_k, largest, threshold):
    """Scale each head's rows so that its largest logit becomes at most the threshold."""
    return ...


# %%
def check_clip(my_clip):
    """Hold a clip against the definition, on three heads of which two are over the threshold."""
    w_q, w_k = torch.randn(12, 8).double(), torch.randn(12, 8).double()
    gamma = torch.tensor([1.0, 0.5, 0.25]).double().sqrt().repeat_interleave(4)[:, None]
    made = my_clip(w_q.clone(), w_k.clone(), torch.tensor([10.0, 60.0, 120.0]).double(), 30.0)
    hint = "γ = min(1, τ/S) per head; each matrix takes its square root"
    came = made if made is ... or made is None else torch.stack(tuple(made))
    return check.answer(came, torch.stack((w_q * gamma, w_k * gamma)), name="4", hint=hint)


check_clip(my_clip)

# %% [markdown]
r"""
<details><summary>Hint</summary>

A factor per head becomes a factor per row with `repeat_interleave`.

</details>
"""


# %% tags=["solution"]
def solved_clip(w_q, w_k, largest, threshold):
    """A solution of exercise 4."""
    gamma = (threshold / largest).clamp(max=1.0)
    rows = gamma.sqrt().repeat_interleave(len(w_q) // len(largest))[:, None]
    return w_q * rows, w_k * rows


assert check_clip(solved_clip).ok

# %% [markdown]
r"""
**5 (by hand).** A soft cap of 50, as in Gemma 2. At which (positive) logit has its slope fallen to one half, and what does the cap
make of that logit?
"""

# %% tags=["exercise"]
yours = {"logit": ..., "capped": ...}

# %%
half = 50 * math.atanh(0.5**0.5)
truth = {"logit": half, "capped": soft_cap(torch.tensor(half).double(), 50.0).item()}
check.answer(yours, truth, name="5", hint="the slope is 1 − tanh²", rtol=2e-3)

# %% [markdown]
r"""
<details><summary>Solution</summary>

$\tanh^2 u = \tfrac12$ gives $\tanh u = 1/\sqrt2$, so $u = \operatorname{artanh}(1/\sqrt2) \approx 0.881$ and $\ell = 50u \approx 44.1$. The capped value
is $50/\sqrt2 \approx 35.4$. So a cap of 50 is far from a wall at 50: it leans on logits from about 20 on.

</details>

**6 (open).** [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682) combine QK-Norm with a soft cap. Others attack the growth itself: weight decay pulls $W_q$ and $W_k$ back; clipping
bounds the gradient; a longer warm-up delays. Which of these can replace QK-Norm at rate 0.03? Write down a prediction with a reason for each (what does Adam do to a
clipped gradient?), decide what result would change your mind, and use three seeds or more.
"""

# %% tags=["exercise"]
my_prediction = "…"
ideas = {
    "both": {**arms["qk"], **arms["soft-cap"]},
    "decay": {"train.weight_decay": 0.1},
    "clip": {"train.clip": 1.0},
    "warm-up": {"train.warmup": 100},
}
my_experiment = Experiment(base, {"arm": ideas, "train.lr": [high], "seed": five[:3]})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: (part.values("test.loss"), part.values(largest)) for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
<details><summary>Hint</summary>

Adam divides the gradient by its own running size, so a factor on the gradient changes little. Decay at rate $\eta$ with coefficient
$\lambda$ shrinks a weight $w$ by $\eta\lambda w$ a step. Compare that with a step of up to $\eta$, at weights of size $0.1$.

</details>

**7 (a proof).** Let $\mathcal L$ depend on $W_q$ through normalized queries only (no $\epsilon$), and train with plain gradient descent,
$W_{t+1} = W_t - \eta\,\nabla\mathcal L(W_t)$. Prove: (a) the gradient is orthogonal to $W_t$; (b) $\|W_t\|$ never decreases;
(c) if the gradient has norm $G/\|W_t\|$ with a constant $G$, then $\|W_t\|^4$ grows like $2\eta^2G^2\,t$ at first order (treat steps as small), so that the
angle per step falls like $t^{-1/2}$ however large $\eta$ is.
"""

# %% tags=["exercise"]
my_proof = "…"

# %% [markdown]
r"""
<details><summary>Hint</summary>

For (a), differentiate $\mathcal L(cW) = \mathcal L(W)$ by $c$. For (b), Pythagoras. For (c), write $n_t = \|W_t\|^2$.

</details>
<details><summary>Solution</summary>

(a) For every head, $N(cq) = N(q)$ for $c > 0$, so $\mathcal L(cW) = \mathcal L(W)$. The derivative by $c$ at $c = 1$ is
$\langle W, \nabla\mathcal L(W)\rangle$ on the left and 0 on the right.

(b) $\|W_{t+1}\|^2 = \|W_t\|^2 - 2\eta\langle W_t, \nabla\mathcal L\rangle + \eta^2\|\nabla\mathcal L\|^2 = \|W_t\|^2 + \eta^2\|\nabla\mathcal L\|^2 \ge \|W_t\|^2$.

(c) With $n_t = \|W_t\|^2$, (b) reads $n_{t+1} - n_t = \eta^2G^2/n_t$. For small steps $n_{t+1}^2 - n_t^2 \approx 2n_t(n_{t+1} - n_t) = 2\eta^2G^2$, so
$n_t^2 = \|W_t\|^4 \approx \|W_0\|^4 + 2\eta^2G^2t$. Once the
start is forgotten, the angle of a step is $\eta\|\nabla\mathcal L\|/\|W_t\| = \eta G/n_t \to \eta G/(\sqrt2\,\eta G\sqrt t) = 1/\sqrt{2t}$: the rate has cancelled.

</details>
"""

# %% [markdown]
r"""
## What you now know

- A logit is a product of two trained matrices and a gain that enters twice. Pre-Norm normalizes what they multiply, and the softmax exponentiates what comes out.
- A saturated softmax passes a gradient that is exponentially small in the gap. Under Adam that does not stop the logits; their
  steps follow the few rows that are left. At our size the result is slow learning, no explosion.
- Unit vectors bound logits by 1 and forbid sharp attention unless a temperature is learned. RMSNorm and LayerNorm bound them by $\sqrt{d_k}$ times gains, over
  the full width by $h$ times as much.
- Behind a norm the gradient is orthogonal to the matrix and falls with its size: as the matrix grows, its effective rate falls.
- RMS and L2 norms commute with the rotation, gains and LayerNorm's mean do not: norm and gain first, or no gain.
- QK-Norm widens the range of rates that work. At a low rate it costs a little; with every arm at its own rate, from a grid that is fine enough, no lead
  is left. It protects attention alone: a high rate still has its price.
- "Each arm tuned" is a statement about a grid. Where two arms choose neighbouring values, make it finer before you believe the difference.
- Look at logits, entropy and slope, not at the loss; and compare a block with its equation.

## References

Works cited: [Su et al. (2021)](https://arxiv.org/abs/2104.09864), [Nguyen and Salazar (2019)](https://arxiv.org/abs/1910.05895), [Henry et al. (2020)](https://arxiv.org/abs/2010.04245), [Liu et al. (2022)](https://arxiv.org/abs/2111.09883), [Dehghani et al. (2023)](https://arxiv.org/abs/2302.05442), [Zhai et al. (2023)](https://arxiv.org/abs/2303.06296), [Chowdhery et al. (2023)](https://arxiv.org/abs/2204.02311), [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Gemma Team (2025)](https://arxiv.org/abs/2503.19786), [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Qwen Team (2025)](https://arxiv.org/abs/2505.09388), [Kimi Team (2025)](https://arxiv.org/abs/2507.20534), [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
