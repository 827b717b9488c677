# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# DeepNorm

**Question.** In 2022 [Wang et al. (2024)](https://arxiv.org/abs/2203.00555) trained a transformer of 1,000 layers, by their count an order of magnitude deeper than any before. Their block is Post-Norm, the placement that is hard to train, with two constants put in:

$$x \leftarrow \mathrm{LN}(\alpha\,x + f(x)), \qquad \alpha = (2N)^{1/4}, \qquad
\text{some weights drawn smaller by } \beta = (8N)^{-1/4},$$

for one stack of $N$ layers. (An encoder with a decoder has other numbers; they come below.) Nothing is learned that was not learned before, and a step costs one multiplication more. Two things are odd
about it. A layer norm does not notice the size of its input, so $\mathrm{LN}(\alpha x + f)$ *is*
$\mathrm{LN}(x + f/\alpha)$: the first constant makes the branch small. The second constant makes the branch small, too.
Why two? And why fourth roots: which quantity is it that must not grow with depth?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- what $\alpha$ does to one vector, and how much of the embedding is left after a hundred sublayers;
- $\alpha$ and $\beta$ derived, step by step, from one demand on one step of gradient descent;
- where the encoder–decoder's $0.81$ and $0.87$ come from, and why "1,000 layers" are 2,500 sublayers;
- the demand measured over depth 6 to 192: with both constants it is met, with either alone it is not;
- three kinds of step for which the promise was not made, Adam's among them;
- fifty layers in training, a thousand layers at their first step, and what was *not* seen there;
- public copies that put a constant in the wrong place, and the checks that find it.
"""

# %%
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.experiments import Experiment, Lab, Run, claim, minus
from labkit.source import show

lab = Lab(
    "05_deepnorm",
    size=size,
    seed=seed,
    memory={"kernel": "900M", "run": "1650M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    depths=([2, 4], [6, 12, 24, 48], [6, 12, 24, 48, 96, 192]),
    step_depths=([2, 4], [6, 12, 24, 48, 96], [6, 12, 24, 48, 96, 192]),
    deepest=(6, 192, 384),
    family_depths=([2, 4], [4, 8, 16, 32], [4, 8, 16, 32, 64, 128]),
    seeds=(5, 5, 10),
    few=(2, 3, 10),
    tuning_seeds=(2, 2, 5),
    depth=(4, 50),
    steps=(3, 40, 1000),
    warmup=(1, 20, 300),
    held_out=(512, 8_192, 65_536),
    rates=([3e-3], [3e-3, 6e-3, 1e-2], [1e-3, 2e-3, 3e-3, 6e-3, 1e-2, 2e-2, 4e-2]),
    shallow_depth=(2, 12),
    map_depth=(2, 12, 24),
    map_steps=(2, 40, 300),
    map_rates=([3e-3], [3e-3, 1e-2], [1e-3, 2e-3, 3e-3, 6e-3, 1e-2, 2e-2, 4e-2]),
    map_seeds=(1, 1, 3),
    tallest=(20, 1000),
    tower_depth=(8, 100, 1000),
    tower_steps=(2, 8, 300),
)

# %% [markdown]
r"""
## The idea: a heavier skip

A token $x = (2, 0, -2, 0)$, and a sublayer that proposes $f = (1, 1, -1, -1)$. Post-Norm adds them to $(3, 1, -3, -1)$, whose
variance is $(9 + 1 + 9 + 1)/4 = 5$. With $\alpha = 2$ the sum is $(5, 1, -5, -1)$ and its variance $(25 + 1 + 25 + 1)/4 = 13$.
In both cases the norm divides by the root. Which of the results looks more like $x$?
"""

# %%
from labkit.norms import layer_norm

x = torch.tensor([2.0, 0.0, -2.0, 0.0])
update = torch.tensor([1.0, 1.0, -1.0, -1.0])
for alpha in (1.0, 2.0, 6.0):
    print(f"alpha {alpha:.0f}:", layer_norm(alpha * x + update).numpy().round(3))
print("x alone:", layer_norm(x).numpy().round(3))

# %% [markdown]
r"""
The larger $\alpha$, the closer the result is to what $x$ alone would give. That is the whole forward effect: the update counts
one part in $\alpha$. And as a layer norm is blind to scale, a heavier skip and a lighter branch are the same function. Check it on
`labkit`'s own blocks, with random weights in double precision:
"""

# %%
from labkit.norms import LayerNorm
from labkit.placements import DeepNorm, Place, PostNorm

torch.manual_seed(seed)
f = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)).double()
tokens = torch.randn(7, 32).double()
heavy = DeepNorm(lambda: LayerNorm(32, eps=0.0).double(), f, Place(decoder=12))
light = PostNorm(lambda: LayerNorm(32, eps=0.0).double(), lambda x: f(x) / heavy.alpha)

# %%
claim(
    "05-heavy-skip-is-light-branch",
    "DeepNorm with α and Post-Norm with its branch divided by α differ by {mean:.1e} at most.",
    (heavy(tokens) - light(tokens)).abs().max().item(),
    said="A skip times α and a branch over α are the same function.",
    source="scale invariance of LayerNorm (ε = 0)",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
### How much of the embedding is left?

Let $x$ have variance 1 and let $f(x)$ be unrelated to it, with variance $s^2$. After one sublayer the old $x$ has the share
$\alpha/\sqrt{\alpha^2 + s^2} = (1 + s^2/\alpha^2)^{-1/2}$. After $2N$ sublayers (two a block) it is

$$\Big(1 + \frac{s^2}{\alpha^2}\Big)^{-N}.$$

Post-Norm has $\alpha = 1$ and, with Xavier's weights, an $s$ of the order of 1: the share falls exponentially, like $2^{-N}$ for $s = 1$. DeepNorm's sublayers are two
matrices, each smaller by $\beta$, so $s = \beta^2$ and $s^2 = \beta^4 = 1/(8N)$, while $\alpha^2 = \sqrt{2N}$. The exponent becomes
$-N/(8N\sqrt{2N})$: the share is about $\exp\!\big(-\tfrac18 (2N)^{-1/2}\big)$, and that tends to **one**. The deeper the model,
the closer it starts to the identity. In a real model, before any training:
"""

# %%
from labkit.corpora import Text
from labkit.probes import residual_streams

text = next(Text(batch=8, time=32).load().train(seed))[0]


@torch.no_grad()
def kept(model):
    """Cosine between the normalized embedding and the last stream, averaged over tokens."""
    streams = residual_streams(model, text)
    return F.cosine_similarity(layer_norm(streams[0]), streams[-1], dim=-1).mean().item()


# %%
small = ModelConfig(norm="layer", dim=32, activation="gelu", context=32, init="xavier")
three = {"post": "xavier", "pre": "xavier", "deepnorm": "deepnorm"}


def fresh(recipe, depth, seed=seed, init=None):
    """Build an untrained model of width 32."""
    torch.manual_seed(seed)
    init = init or three[recipe]
    return replace(small, recipe=recipe, depth=depth, init=init).build()


few, five, depths = lab.seeds(sizes.few), lab.seeds(sizes.seeds), sizes.depths
shares = {r: {n: [kept(fresh(r, n, s)) for s in few] for n in depths} for r in three}

# %%
plots.curves(
    shares,
    xlabel="depth N (blocks)",
    ylabel="cosine of embedding and output",
    logx=True,
    ylim=(-0.1, 1.1),
    caption="How much of the embedding reaches the output at initialization. DeepNorm starts near "
    "the identity at every depth; Post-Norm has lost nearly all of it after a dozen blocks.",
    provenance=lab.provenance(),
)

# %%
claim(
    "05-starts-near-the-identity",
    f"At depth {max(depths)} the output of an untrained DeepNorm model has the cosine "
    "{mean:.3f} with its embedding, that of a Post-Norm model {post:.2f}.",
    shares["deepnorm"][max(depths)],
    post=sum(shares["post"][max(depths)]) / len(few),
    said="An untrained DeepNorm model hands its embedding on almost unchanged.",
    source="the share (1 + s²/α²)^(−N) with DeepNorm's constants",
    criterion="> 0.95",
    kind="at",
)

# %% [markdown]
r"""
That explains "starts small", but not the fourth roots. Any branch with $s/\alpha$ falling faster than $N^{-1/2}$ would have done, and DeepNorm's falls like $N^{-3/4}$.

## Derivation

### The demand

[Wang et al. (2024)](https://arxiv.org/abs/2203.00555) look at Post-Norm models that fail and see the *function* jump in the first steps. So they bound that. Let
$F(x, \theta)$ be what the stack computes. One step of gradient descent with rate $\eta$ changes the weights by
$\Delta\theta = -\eta\,\partial\mathcal L/\partial\theta$ and the function by

$$\Delta F = F(x, \theta + \Delta\theta) - F(x, \theta).$$

**The demand: $\|\Delta F\|$ is of the order of $\eta$, whatever the depth.** Note how modest it is. It speaks of one step, of
gradient descent, at the start.

### Step 1: a sublayer has two matrices that matter

A feed-forward layer is $W_2\,\phi(W_1 x)$. Attention is $W_O \sum_t p_t W_V x_t$, with weights $p_t \ge 0$ that sum to one. Queries and
keys decide *which* average is taken. They cannot make it larger than the largest value that enters it, whatever their size:
"""

# %%
torch.manual_seed(seed)
q, k, v = torch.randn(3, 4, 64, 16).double()
largest = v.norm(dim=-1).max()
ratios = {
    scale: (F.scaled_dot_product_attention(scale * q, k, v).norm(dim=-1).max() / largest).item()
    for scale in (0.0, 1.0, 10.0, 1000.0)
}
print({scale: round(ratio, 3) for scale, ratio in ratios.items()})

# %%
claim(
    "05-queries-cannot-enlarge",
    "With queries from 0 to 1,000 times as large, attention's longest output is at most {mean:.3f} "
    "of the longest value.",
    max(ratios.values()),
    said="However large the queries, attention's output is no longer than its longest value.",
    source="Wang et al. 2022, arXiv 2203.00555, section 4 (a weighted average)",
    criterion="<= 1",
    kind="exact",
    tolerance=0.01,
)

# %% [markdown]
r"""
So for sizes a sublayer is $f(x) \approx v\,w\,x$: two numbers $v$ and $w$ stand for the scale of (value, output) or of ($W_1$, $W_2$).
Its derivative with respect to the pair $\theta = (v, w)$ is $(w, v)\,x$, of length $\sqrt{v^2 + w^2}\,\|x\|$. The $x$ that enters has left a norm, so $\|x\|$ does not depend on depth, and we drop it. This is why **$\beta$ goes to the value, the
output and the feed-forward matrices, and not to queries and keys.**

### Step 2: the norm divides by α

The sum $\alpha x + f$ has size about $\alpha$, as the branch is small beside it. So a change of $f$ reaches the stream divided by $\alpha$. The sublayers
that follow pass a small change on at about its size: for a branch unrelated to the stream, the norm divides by $\sqrt{\alpha^2 + s^2}$ and
$\alpha I + J_f$ multiplies by as much (the cancellation of chapter 02). Together, sublayer $i$ moves the output by

$$\|\Delta F_i\| \;\lesssim\; \frac{\sqrt{v^2 + w^2}}{\alpha}\,\|\Delta\theta_i\|.$$

### Step 3: the same factor once more, from the gradient

Now $\Delta\theta_i = -\eta\,\partial\mathcal L/\partial\theta_i$, and by the chain rule this gradient is the *same* derivative, $J_i$, times $\partial\mathcal L/\partial F$. The paper
takes the last to be of order one, whatever the depth. So the factor appears squared, $\Delta F_i = -\eta\,J_iJ_i^\top\,\partial\mathcal L/\partial F$. No $J_iJ_i^\top$ has a negative eigenvalue, so the
shares do not cancel; they add. Over all $2N$ sublayers, with $v = w = \beta$,

$$\|\Delta F\| \;\lesssim\; \eta \sum_{i=1}^{2N} \frac{v^2 + w^2}{\alpha^2} \;=\; \eta \cdot 2N\cdot\frac{2\beta^2}{\alpha^2}.$$

### Step 4: the condition, and a choice

The demand is met when $2N \cdot 2\beta^2/\alpha^2 = 1$, that is $\beta = \alpha/\sqrt{4N}$. That is *one* equation for *two* constants. Here is the answer to "why
two": they can share the work in many ways. $\alpha = 1$ would need $\beta = (4N)^{-1/2}$, weights so small that the branch hardly writes. $\beta = 1$ would
need $\alpha = 2\sqrt N$. The paper splits evenly: each constant carries the fourth root,

$$\alpha = (2N)^{1/4}, \qquad \beta = (8N)^{-1/4} = \frac{1}{\sqrt2\,\alpha}, \qquad
2N\cdot\frac{2\,(8N)^{-1/2}}{(2N)^{1/2}} = \frac{4N}{\sqrt{16N^2}} = 1.$$

`labkit` computes the constants in one function. Does it keep the sum at one, in a stack alone and in the decoder of a pair?
"""

# %%
from labkit.placements.scaled import deepnorm_constants

show(deepnorm_constants)

# %%
counts = [6, 12, 24, 50, 100, 500, 1000]
rows = []
for n in counts:
    alone, pair = deepnorm_constants("decoder", 0, n), deepnorm_constants("decoder", n, n)
    sums = [2 * n * 2 * alone.beta**2 / alone.alpha**2, 3 * n * 2 * pair.beta**2 / pair.alpha**2]
    names = ("N", "α", "β", "its sum", "α in a pair", "β in a pair", "that sum")
    rows.append(dict(zip(names, (n, *alone, sums[0], *pair, sums[1]), strict=True)))
plots.table(rows, digits=4)

# %%
claim(
    "05-bound-is-one",
    "Over these depths, the sum of the bound differs from 1 by {mean:.0e} at most.",
    max(abs(row[key] - 1) for row in rows for key in ("its sum", "that sum")),
    said="DeepNorm's constants make the sum of the bound exactly one at every depth.",
    source="Wang et al. 2022, arXiv 2203.00555, section 4",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
### Encoder and decoder: where two odd numbers come from

A translation model has an encoder of $N$ layers and a decoder of $M$. Each decoder layer has *three* sublayers, the third being the
attention that reads the encoder. So the decoder's condition is $3M\cdot2\beta_d^2/\alpha_d^2 = 1$, and with the same even split

$$\alpha_d = (3M)^{1/4}, \qquad \beta_d = (12M)^{-1/4}.$$

The encoder's changes arrive through $M$ cross-attentions. Each has the gain $v\,w/\alpha_d = \beta_d^2/\alpha_d$, so together they multiply a change by

$$M\,\frac{\beta_d^2}{\alpha_d} = \frac{M}{(12M)^{1/2}(3M)^{1/4}} = \frac{M^{1/4}}{\sqrt{12}\;3^{1/4}}.$$

The encoder's bound times this factor is to be one: $2N\cdot\dfrac{2\beta_e^2}{\alpha_e^2}\cdot\dfrac{M^{1/4}}{\sqrt{12}\,3^{1/4}} = 1$. So $\alpha_e/\beta_e$ must grow
like $\sqrt N\,M^{1/8}$; shared evenly, each constant gets the power $(N^4M)^{1/16}$. The numbers in front follow from the condition and from the
product $\alpha\beta = 1/\sqrt2$, which the other pairs have:
"""

# %%
through = 1 / (12**0.5 * 3**0.25)  # what M cross-attentions let through, over M^(1/4)
ratio = (4 * through) ** 0.5  # of the two numbers, α's over β's
front = {"alpha": (ratio / 2**0.5) ** 0.5, "beta": (1 / (ratio * 2**0.5)) ** 0.5}
print({name: round(value, 4) for name, value in front.items()})

# %%
claim(
    "05-encoder-constants-follow",
    "The derived numbers differ from the published 0.81 and 0.87 by {mean:.4f} at most.",
    max(abs(front["alpha"] - 0.81), abs(front["beta"] - 0.87)),
    said="The published constants of the encoder follow from the derivation.",
    source="Wang et al. 2022, arXiv 2203.00555, the table beside Figure 2",
    published="0.81 (N⁴M)^(1/16) and 0.87 (N⁴M)^(−1/16)",
    criterion="< 0.005",
    kind="exact",
    tolerance=0.001,
)

# %% [markdown]
r"""
Both agree to the two digits that are printed. (Strictly, the encoder's *gradient* also comes back through the same
cross-attentions, so the factor should be squared, as in step 3. The factor is $0.219\,M^{1/4}$. At $M = 500$ it is $1.04$, and squaring it changes little. In
shallower decoders it is below one, so its square is smaller still, and the published constants err on the safe side.)

### What "1,000 layers" are

The 1,000-layer model of the paper is a translation model: 500 encoder layers with two sublayers and 500 decoder layers with
three. That makes the 2,500 sublayers of its abstract. Its constants are those of the pair; $(2\cdot1000)^{1/4}$ does not occur in it.
"""

# %%
stacks = [Place(stack=stack, encoder=500, decoder=500) for stack in ("encoder", "decoder")]
rows = [
    {"stack": p.stack, "sublayers": p.sublayers, **deepnorm_constants(p.stack, 500, 500)._asdict()}
    for p in stacks
]
alone = Place(stack="decoder", decoder=1000)
rows.append(
    {"stack": "decoder alone, 1,000 blocks", "sublayers": alone.sublayers}
    | deepnorm_constants("decoder", 0, 1000)._asdict()
)
plots.table(rows, digits=4)

# %%
claim(
    "05-thousand-layers-are-2500-sublayers",
    "An encoder and a decoder of 500 blocks each have {mean:,.0f} sublayers.",
    sum(p.sublayers for p in stacks),
    said="A thousand layers in an encoder and a decoder are 2,500 sublayers.",
    source="Wang et al. 2022, arXiv 2203.00555, abstract",
    published="1,000 layers, 2,500 sublayers",
    criterion="in [2500, 2500]",
    kind="exact",
)

# %% [markdown]
r"""
## Implementation

The placement is one line:
"""

# %%
show(DeepNorm)

# %% [markdown]
r"""
Three tests: PyTorch's `layer_norm` on $\alpha x + f(x)$; the formula of `labkit`'s fused kernel, `deep_norm`; and the law checker, which tries other depths, gradients and precisions too.
"""

# %%
from labkit.placements import deep_norm

model = fresh("deepnorm", 4).double()
step, stream = model.blocks[2].feed_forward, 3 * torch.randn(5, 32).double() + 1
branch, alpha = step.sublayer(stream), (2 * 4) ** 0.25
ours, torchs = step(stream), F.layer_norm(alpha * stream + branch, (32,))
print(
    (ours - torchs).abs().max().item(), (ours - deep_norm(stream, branch, alpha)).abs().max().item()
)
check.block(DeepNorm, "deepnorm", replace(small, recipe="deepnorm", depth=4)).ok

# %% [markdown]
r"""
The other half of the method is the initialization. Take 32 blocks, where the constants are easy: $\alpha = 64^{1/4} = 2\sqrt2$ and $\beta = 256^{-1/4} = \tfrac14$. How
large is each kind of matrix, in units of Xavier's rule?
"""


# %%
def gains(model):
    """Standard deviation of each kind of matrix over Xavier's, averaged over the blocks."""
    seen = {}
    for path, weight in model.blocks.named_parameters():
        if weight.ndim == 2:
            xavier = (2 / sum(weight.shape)) ** 0.5
            seen.setdefault(path.split(".")[-2], []).append(weight.std().item() / xavier)
    return {name: sum(ratios) / len(ratios) for name, ratios in seen.items()}


found = gains(fresh("deepnorm", 32))
wanted = {name: 1.0 if name in ("q", "k") else 0.25 for name in found}
plots.table([{"matrix": name, "gain": found[name], "wanted": wanted[name]} for name in found])

# %%
claim(
    "05-which-weights",
    "The gains of the six kinds of matrix are off by {mean:.3f} at most: q and k 1, the others β.",
    max(abs(found[name] - wanted[name]) for name in found),
    said="β scales the values, the output and the feed-forward; queries and keys keep their gain.",
    source="Wang et al. 2022, arXiv 2203.00555, Figure 2 (pseudo-code)",
    criterion="< 0.05",
    kind="exact",
    tolerance=0.02,
)

# %% [markdown]
r"""
## Predict

Steps 1 to 4 are a small machine for predictions. Give it constants that go like $\alpha \sim N^a$ and $\beta \sim N^{-b}$, and a kind of step.

- **SGD**: the factor $\beta/\alpha$ comes twice, from response and gradient, and the sublayers' shares add: $N \cdot N^{-2a-2b}$.
- **Adam's first step** is $-\eta\,\mathrm{sign}(\partial\mathcal L/\partial\theta)$, entry by entry: its size knows nothing of the gradient's. The factor comes *once*:
  $N\cdot N^{-a-b}$.
- **Random signs**, as long as Adam's step: the shares are unrelated, so their squares add: $N^{1/2}\cdot N^{-a-b}$. (For Post-Norm that is a variance like $N$, which is what [Liu et al. (2020)](https://arxiv.org/abs/2004.08249) derive; for Pre-Norm they get $\log N$.)
- **Gains and shifts of the norms** stand after the division by $\alpha$. Their response is 1, their gradient is not reduced either: $N$.

| step | Post-Norm (0, 0) | α alone (¼, 0) | β alone (0, ¼) | DeepNorm (¼, ¼) |
| --- | --- | --- | --- | --- |
| SGD, matrices | 1 | ½ | ½ | **0** |
| Adam's first | 1 | ¾ | ¾ | ½ |
| random signs | ½ | ¼ | ¼ | 0 |
| SGD, gains too | 1 | 1 | 1 | 1 |

Each entry is a power of depth. The arithmetic holds where branches are small; Post-Norm's are not. Now predict the training, before you scroll:

1. Fifty blocks, no warm-up, Adam: which of Post-Norm, Pre-Norm, DeepNorm ends lowest after forty steps? Is it the placement, $\alpha$ or $\beta$ that decides?
2. Warm-up saved Post-Norm in chapter 02. Will it at fifty blocks?
3. A thousand blocks at their first step: what is the ratio of the first block's gradient to the last one's, for the three?

## Measure

**What was chosen, and when?** Pilots with one or two seeds fixed the sizes: fifty blocks because Pre-Norm still trains there in a hundred steps, with forty steps, the rate $0.003$ because it was the best of three for both, Pre-Norm from Xavier's weights and DeepNorm. The pilots had also seen the powers below, and that Pre-Norm
catches up with another initialization. The criteria were written after the pilots and before the runs that you see, with two exceptions: after a first build the claim on the first jump asks for a difference above $0$ in place of $0.2$, and the race "each tuned" has the rate $0.006$ in place of $0.001$.

### The bounded update

Width 32, four heads, LayerNorm, GELU, Xavier, a decoder on text. The probe `step-response` takes the gradient on a batch of eight windows, moves a copy
of the model by a tiny step of each kind ($\eta = 10^{-6}$, in double precision) and reads $\|\Delta F\|/\eta$ per token.
"""

# %%
start = Run(
    model=small,
    data=Text(batch=8, time=32, held_out=4096),
    train=TrainConfig(steps=1),
    probes=("step-response",),
)
post, pre = {"model.recipe": "post"}, {"model.recipe": "pre"}
deep = {"model.recipe": "deepnorm", "model.init": "deepnorm"}
main = {"post": post, "pre": pre, "deepnorm": deep}
halves = {"α alone": {"model.recipe": "deepnorm"}, "β alone": {**deep, **post}}
also = {**halves, "admin": {"model.recipe": "admin"}}

# %%
shallow, deepest = sizes.step_depths, [sizes.deepest]
wide = {"arm": {**main, **also}, "model.depth": shallow, "seed": few}
peak = {"arm": main, "model.depth": deepest, "seed": few}
responses = lab.run(Experiment(start, wide)) + lab.run(Experiment(start, peak))

# %% [markdown]
r"""
The arms about which we claim a power of depth get two seeds more.
"""

# %%
if more := five[len(few) :]:
    ours = {"arm": {"deepnorm": deep}, "model.depth": [*shallow, *deepest], "seed": more}
    parts = {"arm": halves, "model.depth": shallow, "seed": more}
    responses = responses + lab.run(Experiment(start, ours)) + lab.run(Experiment(start, parts))


def response(arm, kind):
    """Give {depth: |ΔF| / η of each seed} for one arm and one kind of step."""
    return {
        n: part.values(f"step-response.{kind}")
        for n, part in responses.where(arm=arm).by("depth").items()
    }


# %%
plots.curves(
    {arm: response(arm, "sgd") for arm in main},
    xlabel="depth N (blocks)",
    ylabel="‖ΔF‖ / η, one SGD step",
    logx=True,
    logy=True,
    caption="The bounded update, measured. One SGD step on the matrices moves the output of a "
    "DeepNorm model equally far at every depth; Post-Norm's moves by orders of magnitude more.",
    provenance=lab.provenance(responses.where(arm=list(main))),
)


# %%
def powers(points):
    """Fit |ΔF| / η ~ depth^p for each seed and return the p."""
    return [float(p) for p in np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0]]


claim(
    "05-update-is-bounded",
    "One SGD step on the matrices moves a DeepNorm model by depth to the power {mean:+.2f}.",
    powers(response("deepnorm", "sgd")),
    said="An SGD step on the matrices moves a DeepNorm model equally far at every depth.",
    source="Wang et al. 2022, arXiv 2203.00555, section 4 and Figure 5 (tiny models, 6 to 100 layers)",
    published="of the order of η at every depth",
    criterion="in [-0.2, 0.2]",
    kind="at",
    predicted=0.0,
)

# %%
last = max(response("post", "sgd"))
far, near = response("post", "sgd")[last], response("deepnorm", "sgd")[last][: len(few)]
claim(
    "05-post-update-is-larger",
    f"At depth {last} the step moves Post-Norm {{mean:.1f}} powers of ten further than DeepNorm.",
    [float(np.log10(a / b)) for a, b in zip(far, near, strict=True)],
    said="A step moves a deep Post-Norm model powers of ten further than a DeepNorm model.",
    source="Wang et al. 2022, arXiv 2203.00555, Figure 5",
    published="Post-LN's update grows with depth, DeepNet's stays",
    criterion="> 1",
    kind="at",
)

# %% [markdown]
r"""
Flat for DeepNorm, over a factor of $192/6 = 32$ in depth. Post-Norm's response is large *and* wild: in deep models, seeds differ by orders of magnitude. Pre-Norm lies between.

### Is one of the constants enough?
"""

# %%
plots.curves(
    {arm: response(arm, "sgd") for arm in ("α alone", "β alone", "admin", "deepnorm")},
    xlabel="depth N (blocks)",
    ylabel="‖ΔF‖ / η, one SGD step",
    logx=True,
    logy=True,
    caption="Half of the method, and a relative. With α alone or β alone the update grows with "
    "depth. Admin also weighs the skip, by what it measures; its update grows, too.",
    provenance=lab.provenance(responses.where(arm=[*also, "deepnorm"])),
)

# %%
for arm, name in (
    ("α alone", "05-alpha-alone-is-not-enough"),
    ("β alone", "05-beta-alone-is-not-enough"),
):
    claim(
        name,
        f"With {arm} the SGD step moves the model by depth to the power {{mean:.2f}}.",
        powers(response(arm, "sgd")),
        said=f"With {arm} an SGD step still moves the model further the deeper it is.",
        source="steps 1 to 4 of this chapter, after Wang et al. 2022",
        published="predicted: 1/2",
        criterion="> 0.25",
        kind="at",
    )

# %% [markdown]
r"""
No. With $\beta$ alone the power comes out close to the predicted ½. With $\alpha$ alone the branches are not small (with Xavier's full weights $s^2/\alpha^2$
is far from zero), the cancellation of step 2 fails, and the growth is faster and noisier than predicted.

**Admin** ([Liu et al., 2020](https://arxiv.org/abs/2004.08249)) is the older relative: $x \leftarrow \mathrm{LN}(\omega\odot x + f(x))$, where $\omega$ is set from one forward pass,
$\omega_i^2 = 1 + \sum_{j<i}\mathrm{Var} f_j$, and then *learned*. The skip of sublayer $i$ gets as heavy as Pre-Norm's stream would be there, so its curve runs like Pre-Norm's. A younger relative is
Sub-LN (Magneto, arXiv 2210.06423), by DeepNorm's group: Pre-Norm with a second norm inside each branch, and the matrices that DeepNorm shrinks are drawn *larger*, by $\sqrt{\ln 2N}$. Which size is right depends on the placement.

### Steps that the promise does not cover

The same models under other steps:
"""

# %%
kinds = {
    "deepnorm, SGD": "sgd",
    "deepnorm, random signs": "random",
    "deepnorm, SGD with gains": "sgd-all",
    "deepnorm, Adam": "adam",
}
steps_of = {name: response("deepnorm", kind) for name, kind in kinds.items()}
relative = {
    name: {n: [y / np.mean(points[min(points)]) for y in ys] for n, ys in points.items()}
    for name, points in steps_of.items()
}

# %%
plots.curves(
    relative,
    xlabel="depth N (blocks)",
    ylabel="‖ΔF‖ / η, relative to the shallowest",
    logx=True,
    logy=True,
    caption="DeepNorm under four kinds of step. The bound holds for SGD on the matrices and for "
    "random signs. Adam's first step and steps on the norms' own gains outgrow it.",
    provenance=lab.provenance(responses.where(arm="deepnorm")),
)

# %%
for name, words, grows, expected, criterion in (
    ("05-step-adam", "Adam's first step", "like the root of its depth", 0.5, "in [0.35, 0.65]"),
    ("05-step-random", "A step of random signs", "equally far at any depth", 0.0, "in [-0.15, 0.15]"),
    ("05-step-sgd-all", "An SGD step on gains and shifts too", "further the deeper it is", 1.0, "> 0.6"),
):  # fmt: skip
    claim(
        name,
        f"{words} moves a DeepNorm model by depth to the power {{mean:+.2f}}.",
        powers(response("deepnorm", name.partition("step-")[2])),
        said=f"{words} moves a DeepNorm model {grows}.",
        source="this chapter's prediction; outside what Wang et al. 2022 promise",
        published=f"predicted: {expected:g}",
        criterion=criterion,
        kind="at",
        predicted=expected,
    )

# %% [markdown]
r"""
All three predictions hold. So the sentence "DeepNorm bounds the model update" has a small print: *gradient descent, on the matrices*. Transformers are
trained with Adam or one of its relatives. Under Adam the first step of a DeepNorm model grows like the root of depth.

It follows what a bound *for Adam* would need: $2N\cdot\sqrt2\,\beta/\alpha$ constant, so $\beta/\alpha \sim 1/N$ and, split evenly, **square roots in
place of fourth roots**. Somebody does that. GLM-130B ([Zeng et al., 2023](https://arxiv.org/abs/2210.02414)) is trained with what its authors call DeepNorm, with $\alpha = (2N)^{1/2}$
and the same matrices scaled by $\beta = (2N)^{-1/2}$; in the code of ChatGLM-6B you find `alpha = (2 * self.num_layers) ** 0.5`. Two models "with DeepNorm" need not share constants. Move the exponent yourself: $\alpha = (2N)^a$ and $\beta = 1/(\sqrt2\alpha)$, from Post-Norm's skip to GLM's. (GLM's own $\beta$ is $\sqrt2$ times ours at $a = \tfrac12$; the powers of depth are the same.)
"""

# %%
from labkit.probes import step_response

held_out = start.data.load().held_out["validation"][0]


def family(depth, a, seed=seed, moves=("sgd", "adam", "random")):
    """Give |ΔF| / η by kind of step for α = (2N)^a and β = 1 / (√2 α)."""
    model, alpha = fresh("deepnorm", depth, seed, "xavier"), (2 * depth) ** a
    for block in model.blocks:
        block.attention.alpha = block.feed_forward.alpha = alpha
    for path, weight in model.blocks.named_parameters():
        if path.split(".")[-2] in ("v", "out", "up", "down"):
            weight.data /= 2**0.5 * alpha
    return step_response(model, held_out, moves)


# %%
grid = sizes.family_depths
exponents = {"0": 0.0, "1/8": 0.125, "1/4 (DeepNorm)": 0.25, "3/8": 0.375, "1/2 (GLM)": 0.5}
reached = {name: {n: family(n, a) for n in grid} for name, a in exponents.items()}


def draw(name):
    """One picture of the family: three kinds of step over depth, relative to the shallowest."""
    got, title = reached[name], f"α = (2N)^a, a = {name}"
    kinds = {"SGD": "sgd", "random signs": "random", "Adam": "adam"}
    lines = {
        name: {n: [at[kind] / got[grid[0]][kind]] for n, at in got.items()}
        for name, kind in kinds.items()
    }
    axes = {"xlabel": "depth N (blocks)", "ylabel": "‖ΔF‖ / η, relative", "ylim": (0.05, 100)}
    return plots.curves(lines, **axes, logx=True, logy=True, caption="One seed.", title=title)


# %%
plots.explore(
    draw,
    list(exponents),
    "exponent-of-alpha",
    label="exponent a of α",
    caption="Three kinds of step while the exponent of α moves. At 1/4 SGD is level, at 1/2 Adam; "
    "no exponent levels both.",
)

# %%
levels = [[family(n, 0.5, s, ("adam",))["adam"] for n in (grid[0], grid[-1])] for s in few]
claim(
    "05-square-roots-level-adam",
    f"With square roots, Adam's first step moves the model by depth to the power {{mean:+.2f}} "
    f"between {grid[0]} and {grid[-1]} blocks.",
    [float(np.log(b / a) / np.log(grid[-1] / grid[0])) for a, b in levels],
    said="With square roots in place of fourth roots, Adam's first step is the same at every depth.",
    source="this chapter's prediction; GLM-130B's powers of depth, arXiv 2210.02414",
    published="predicted: 0",
    criterion="in [-0.2, 0.2]",
    kind="at",
    predicted=0.0,
)

# %% [markdown]
r"""
(The slider shows one seed. The prediction for the family is a power of $1 - 4a$ for SGD, $1 - 2a$ for Adam and $\tfrac12 - 2a$ for random signs.) We know of no
published derivation of GLM's roots; this may be one reason why they work. How Adam's step grows with depth is an old question under other names: for Pre-Norm,
depth-μP divides each branch by the root of the depth ([Bordelon et al., 2024](https://arxiv.org/abs/2309.16620); [Yang et al., 2024](https://arxiv.org/abs/2310.02244)), CompleteP by
the depth itself ([Dey et al., 2025](https://arxiv.org/abs/2505.01618)); chapter 10 measures both.

### Fifty blocks in training

Fifty blocks of width 32, Adam with $(\beta_1, \beta_2) = (0.9, 0.98)$, rate $0.003$ falling linearly, no warm-up, forty steps of eight
windows of 32 characters. That is the very beginning, which is what the theory is about. One more arm takes part: Pre-Norm with the
initialization of its own practice. `megatron` draws with variance $1/(2.5\,d)$ and divides what writes to the stream by $\sqrt{2N}$.
"""

# %%
base = Run(
    model=replace(small, depth=sizes.depth),
    data=Text(batch=8, time=32, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, lr=3e-3, schedule="linear"),
    probes=("validation", "test", "drift"),
)
two = lab.seeds(sizes.tuning_seeds)
usual = {"pre, megatron": {**pre, "model.init": "megatron"}}
fifty = lab.run(Experiment(base, {"arm": main, "seed": five}))
fifty += lab.run(Experiment(base, {"arm": usual, "seed": few}))

# %% tags=["remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
lab.train_live(Experiment(base, {"arm": main, "seed": five}))

# %% [markdown]
r"""
What does a model get that knows the frequency of each character and nothing else?
"""

# %%
stream = Text(batch=64, time=32).load().train(seed=seed)
seen = torch.cat([next(stream)[1].flatten() for _ in range(200)])
counts = torch.bincount(seen, minlength=96) + 1
targets = torch.cat([y.flatten() for _, y in Text().load().held_out["validation"]])
unigram = -(counts / counts.sum()).log()[targets].mean().item()
print(f"letter frequencies alone: {unigram:.3f} nats per character")

# %%
plots.loss_curves(
    {
        arm: part.values(lambda record: record.losses)
        for arm, part in fifty.by("arm").items()
        if arm in main
    },
    reference={"letter frequencies": unigram},
    caption="Fifty blocks, no warm-up, Xavier's weights for Post- and Pre-Norm. On average only DeepNorm "
    "passes the loss of letter frequencies within forty steps.",
    provenance=lab.provenance(fifty.where(arm=list(main))),
)


# %%
test = {arm: part.values("test.loss") for arm, part in fifty.by("arm").items()}
for arm, named, name, criterion in (
    ("post", "Post-Norm", "05-deepnorm-beats-post-from-xavier", "> 0.2"),
    ("pre", "Pre-Norm", "05-deepnorm-beats-pre-from-xavier", "> 0.05"),
):
    claim(
        name,
        f"Fifty blocks, one rate: {named} from Xavier's weights ends {{mean:.2f}} nats above DeepNorm.",
        minus(test[arm], test["deepnorm"]),
        said=f"At one rate DeepNorm ends below {named} from Xavier's weights.",
        source="Wang et al. 2022, arXiv 2203.00555, Figure 6 (IWSLT14, 10 to 100 layers)",
        published="DeepNet trains at every depth up to 100 layers, above 30 BLEU at 100",
        criterion=criterion,
        kind="at",
    )

# %% [markdown]
r"""
That is the published picture. Do the functions move as the theory says? The probe `drift` reads the stream on a fixed batch before some of the steps and gives its
distance from the start, $\|F_t - F_0\|/\|F_0\|$.
"""

# %%
drift = {
    arm: {int(t): part.values(f"drift.{t}") for t in part.values("drift")[0]}
    for arm, part in fifty.by("arm").items()
}
plots.curves(
    drift,
    xlabel="steps taken",
    ylabel="distance from the start, relative",
    logx=True,
    logy=True,
    caption="How far the function has moved; unrelated functions of one size are √2 apart. On average "
    "one step of Adam moves Post- and Pre-Norm by more than their own size, DeepNorm by less.",
    provenance=lab.provenance(fifty),
)

# %%
first = {arm: drift[arm][1] for arm in main}
claim(
    "05-post-jumps-at-the-first-step",
    "One Adam step moves Post-Norm's function by {mean:.2f} of its size more than DeepNorm's, which moves by "
    "{deep:.2f} (Pre-Norm's by {pre:.2f}).",
    minus(first["post"], first["deepnorm"]),
    deep=float(np.mean(first["deepnorm"])),
    pre=float(np.mean(first["pre"])),
    said="Adam's first step moves Post-Norm's function further than DeepNorm's.",
    source="Wang et al. 2022, arXiv 2203.00555, section 3 (exploding model update)",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
Post-Norm's function jumps; how far depends much on the seed. DeepNorm's moves less, even though Adam's step is not covered by the promise. A few steps later it has caught up. And look at the two Pre-Norm curves: they jump as far as
Post-Norm's, and the one from `megatron` learns as well as DeepNorm. So a bounded first step is not what separates the models that learn from those that do not. It may help; it does not decide.

### What wins: placement, α or β?

Now the arms that this picture leaves out: warm-up, which makes first steps small by hand; Admin; and $\beta$ alone.
"""

# %%
ramp = {"train.warmup": sizes.warmup}
rescues = {"post, warm-up": {**post, **ramp}, "β alone": halves["β alone"]}
rescued = lab.run(Experiment(base, {"arm": rescues, "seed": five})) + lab.run(
    Experiment(base, {"arm": {"admin": also["admin"]}, "seed": two})
)
losses = {arm: part.values("test.loss") for arm, part in rescued.by("arm").items()}
plots.dots(
    {**test, **losses},
    xlabel="test loss (nats)",
    threshold={"letter frequencies": unigram},
    caption="Fifty blocks at one rate. What starts with small branches trains, whatever its placement.",
    provenance=lab.provenance(fifty, rescued),
)

# %%
claim(
    "05-warm-up-is-no-substitute",
    "Fifty blocks: Post-Norm with warm-up over half of the run ends {mean:.2f} nats above DeepNorm.",
    minus(losses["post, warm-up"], test["deepnorm"]),
    said="Warm-up does not bring deep Post-Norm to where DeepNorm ends.",
    source="this book, on Post-Norm's classical rescue (chapter 02)",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "05-alpha-is-not-needed-here",
    "Fifty blocks, one rate: leaving out α (and keeping β) changes the loss by {mean:+.3f} nats.",
    minus(losses["β alone"], test["deepnorm"]),
    said="At fifty blocks α can be left out if β stays.",
    source="this book",
    criterion="in [-0.06, 0.06]",
    kind="at",
    effect=0.24,  # nats: what Pre-Norm loses to DeepNorm from Xavier's weights
)

# %% [markdown]
r"""
Read the figure from the right. What starts from Xavier's weights knows no more than letter frequencies after forty steps: Post-Norm with warm-up and without, Admin, and Pre-Norm, too. (Admin's authors report that it converges where Post-Norm diverges, after warm-up and
thousands of steps ([Liu et al., 2020](https://arxiv.org/abs/2004.08249)); here it had neither.) What starts with small branches has learned more: DeepNorm, Post-Norm with $\beta$ and no $\alpha$, and Pre-Norm with the weights that Pre-Norm models really use. Pre-Norm lost the race above because of Xavier's weights.

So here is a fairer race: Pre-Norm from `megatron` against DeepNorm, each at the best of three rates (two seeds, validation data), reported on test data with five seeds.
"""

# %%
pair = {**usual, "deepnorm": deep}
tuning = lab.run(Experiment(base, {"arm": pair, "train.lr": sizes.rates, "seed": two}))
best = {arm: part.best("lr") for arm, part in tuning.by("arm").items()}
tuned = {arm: {**changes, "train.lr": best[arm]} for arm, changes in pair.items()}
final = lab.run(Experiment(base, {"arm": tuned, "seed": five})).by("arm")
print("chosen rates:", best)

# %%
claim(
    "05-deepnorm-beats-pre-each-tuned",
    "Fifty blocks, each with its own initialization and rate: Pre-Norm ends {mean:+.3f} nats above DeepNorm.",
    minus(final["pre, megatron"].values("test.loss"), final["deepnorm"].values("test.loss")),
    said="With each tuned, DeepNorm ends below Pre-Norm.",
    source="Wang et al. 2022, arXiv 2203.00555 (WMT17 En–De, 100 + 100 layers: 28.9 BLEU)",
    published="the good performance of Post-LN with the stable training of Pre-LN (abstract)",
    criterion="> 0",
    kind="best",
    domain="translation, 100 + 100 layers",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
No winner that five seeds could name. Two cautions belong to it. Pre-Norm chose the highest rate of the grid, so a wider grid could only improve it. And our first build had the rates $0.001$, $0.003$ and $0.01$: DeepNorm, with its best between the last two, then lost by a clear margin. A coarse
grid makes winners. Nor is a tie after forty steps a refutation: the published advantage is about where long training of translation models ends. "DeepNorm against Pre-Norm" is a statement about two initializations and two rates as well.

### Does the rate's effect depend on depth?

One often reads that normalization makes the learning rate independent of depth. Adam's first step moves DeepNorm by $\sqrt N$. If that is what limits the rate, a model four times as deep wants one about half
as large. Compare two rates at twelve blocks and at fifty:
"""

# %%
twelve = sizes.shallow_depth
two_depths = {"model.depth": [twelve, base.model.depth], "train.lr": [3e-3, 1e-2]}
by_rate = lab.run(Experiment(base, {"arm": {"deepnorm": deep}, **two_depths, "seed": few}))
plots.curves(
    {
        f"{n} blocks": {r: c.values("test.loss") for r, c in part.by("lr").items()}
        for n, part in by_rate.by("depth").items()
    },
    xlabel="learning rate",
    ylabel="test loss (nats)",
    logx=True,
    caption="DeepNorm at two depths and two rates. The higher rate helps the shallow model a lot, the "
    "deep one hardly, and not in every seed.",
    provenance=lab.provenance(by_rate),
)

# %%
cost = {
    n: minus(*(part.where(lr=rate).values("test.loss") for rate in (1e-2, 3e-3)))
    for n, part in by_rate.by("depth").items()
}
claim(
    "05-rate-and-depth-interact",
    "Going from rate 0.003 to 0.01 costs {deep:+.2f} nats at fifty blocks and {shallow:+.2f} at twelve: a "
    "difference of {mean:.2f}.",
    minus(cost[base.model.depth], cost[twelve]),
    deep=float(np.mean(cost[base.model.depth])),
    shallow=float(np.mean(cost[twelve])),
    said="A higher rate costs a deep model more than a shallow one.",
    source="against 'normalization decouples the learning rate from depth'",
    criterion="> 0.05",
    kind="at",
)

# %% [markdown]
r"""
The same change of rate is worth much at twelve blocks and, on average, next to nothing at fifty. Two rates do not locate a best one, so this does not say that the best rate falls like $N^{-1/2}$. It says that a rate which is right at one depth
is not known to be right at another.

### Where it depends: initialization and rate

The neighbourhood of all this: twelve blocks, each placement with each initialization at two rates, one seed a cell, forty steps. `deepnorm` is Xavier with $\beta$.
"""

# %%
inits = ["xavier", "megatron", "deepnorm"]
placed = {name: {"model.recipe": name} for name in main}
axes = {"arm": placed, "model.init": inits, "train.lr": sizes.map_rates}
fixed = {"model.depth": [sizes.map_depth], "train.steps": [sizes.map_steps]}
once = lab.seeds(sizes.map_seeds)
map_runs = lab.run(Experiment(base, {**axes, **fixed, "seed": once}))

# %%
plots.grid_map(
    panels={
        arm: {
            (init, rate): float(np.mean(cell.values("validation.loss")))
            for init, row in part.by("init").items()
            for rate, cell in row.by("lr").items()
        }
        for arm, part in map_runs.by("arm").items()
    },
    row_label="initialization",
    col_label="learning rate",
    value_label="validation loss (nats)",
    caption="Placement, initialization and rate at a moderate depth, one seed a cell. From either "
    "small initialization the placements end close together; from Xavier's they do not.",
    provenance=lab.provenance(map_runs),
)

# %% [markdown]
r"""
Read it by rows. From Xavier's weights Post-Norm stays near letter frequencies at both rates, and DeepNorm's *placement* (with $\alpha$, without $\beta$) suffers at the higher. From either small initialization all three placements
train, at each rate to about the same loss (Post-Norm a little behind at the higher). Post-Norm among them: no warm-up, no $\alpha$. Where branches start small, the placement hardly shows at this depth; from Xavier's weights it does. So whoever reports that one placement "needs" something should say from which weights.

### A thousand blocks at their first step

A single stack of 1,000 blocks, 2,000 sublayers, 12 million parameters at width 32. One step takes seconds. The gradient of each block's
feed-forward output matrix, from the first block to the last:
"""

# %%
tall = sizes.tallest
thousand = lab.run(
    Experiment(
        start,
        {"arm": main, "model.depth": [tall], "probes": [("gradient-at-start",)], "seed": two},
    )
)
by_block = {arm: part.values("gradient-at-start.0") for arm, part in thousand.by("arm").items()}

# %%
plots.by_depth(
    {arm: runs[:1] for arm, runs in by_block.items()},
    ylabel="gradient norm of W²",
    logy=True,
    caption="A thousand blocks, first step. DeepNorm's gradients are level. Pre-Norm's are largest at "
    "the bottom. Post-Norm's fall by powers of ten in the upper half and wander below it.",
    provenance=lab.provenance(thousand),
)

# %%
ends = {arm: [float(np.log10(run[0] / run[-1])) for run in runs] for arm, runs in by_block.items()}
plots.table(
    [
        {"arm": arm, "first": float(np.mean([r[0] for r in runs])),
         "middle": float(np.mean([r[tall // 2] for r in runs])),
         "last": float(np.mean([r[-1] for r in runs]))}
        for arm, runs in by_block.items()
    ]
)  # fmt: skip

# %%
claim(
    "05-thousand-blocks-level-gradients",
    "At 1,000 blocks DeepNorm's first and last gradients differ by {mean:.2f} powers of ten, Pre-Norm's by "
    "{pre:.1f}, Post-Norm's by {post:.1f}.",
    [abs(value) for value in ends["deepnorm"]],
    pre=float(np.mean([abs(value) for value in ends["pre"]])),
    post=float(np.mean([abs(value) for value in ends["post"]])),
    said="At a thousand blocks DeepNorm's first and last gradients have one size.",
    source="Wang et al. 2022, arXiv 2203.00555 (1,000 layers without difficulty)",
    criterion="< 0.5",
    kind="at",
)

# %% [markdown]
r"""
Chapter 02 saw no vanishing in Post-Norm over 48 sublayers. Over 2,000 the gradients do get lost, but not at an even rate per sublayer, as the identity path's law $2^{-S/2}$ has it: they fall in the upper half and wander up and down below it, and the seeds differ. Pre-Norm's gradients differ between the ends, most of it in the first blocks, where the stream is still small. DeepNorm's are level.

### Does it train better there?

A hundred blocks and eight steps are what these runs have (the size `gpu` takes 1,000 blocks and more steps).
"""

# %%
tower = {
    "model.depth": [sizes.tower_depth],
    "train.steps": [sizes.tower_steps],
}
high = lab.run(Experiment(base, {"arm": pair, **tower, "probes": [("test",)], "seed": few}))
high_loss = {arm: part.values("test.loss") for arm, part in high.by("arm").items()}
claim(
    "05-very-deep-training",
    "Very deep and very short: Pre-Norm ends {mean:+.3f} nats above DeepNorm.",
    minus(high_loss["pre, megatron"], high_loss["deepnorm"]),
    said="Very deep, DeepNorm ends below Pre-Norm.",
    source="Wang et al. 2022, arXiv 2203.00555 (OPUS-100, 1,000 layers)",
    published="1,000 layers are 4.4 BLEU above a 48-layer baseline",
    criterion="> 0.05",
    kind="at",
    domain="translation, 1,000 layers, trained to the end",
    ours="a few steps of a language model",
    in_range=False,
)

# %% [markdown]
r"""
Out of range. After so few steps both models know little more than which characters are frequent, and the seeds scatter by more than the arms differ. And there is a reason not to expect much from level gradients under Adam: it divides each gradient by
its own size, so Pre-Norm's uneven ones cost it little. What 1,000 layers gain, one learns from long training on a task that needs them; the published gain is of that kind.
"""

# %% [markdown]
r"""
## What the sources say, and what we measured

| source and setting | what it says | here |
| --- | --- | --- |
| [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), section 4 | one SGD step moves the model by the order of $\eta$ | `05-update-is-bounded`; not for Adam or gains: `05-step-adam`, `05-step-sgd-all` |
| [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), Figure 5: width 64, hidden 128, 2 heads, 6 + 6 to 100 + 100 layers, IWSLT14 | Post-LN's update grows with depth, DeepNet's stays | `05-post-update-is-larger` |
| [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), Figure 6: IWSLT14, 10 to 100 layers, 8,000 steps | DeepNet above 30 BLEU at 100 layers | `05-deepnorm-beats-post-from-xavier`, at the start of training |
| [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), WMT17 En–De, 100 + 100 layers | 28.9 BLEU | `05-deepnorm-beats-pre-each-tuned` |
| [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), OPUS-100, 500 + 500 layers | 4.4 BLEU above a 48-layer baseline | `05-very-deep-training`: our runs are too short to say |
| [Liu et al. (2020)](https://arxiv.org/abs/2004.08249), WMT14 En–De, 18 + 18 layers | Post-LN diverges, Pre-LN 28.38, Admin 29.03 BLEU | Admin does not train at our setting, which has no warm-up |
| [Zeng et al. (2023)](https://arxiv.org/abs/2210.02414), GLM-130B, 70 layers | "DeepNorm", with square roots | `05-square-roots-level-adam` |

| often said | but |
| --- | --- |
| "$\alpha = (2L)^{1/4}$, $\beta = (8L)^{-1/4}$, with which 1,000 layers were trained" | those are a single stack's; the 1,000-layer model has four other numbers |
| "the sublayer's weights are scaled by $\beta$" | value, output and feed-forward only: `05-which-weights` |
| "$\alpha$ repairs Post-Norm's vanishing gradients" | with $\beta$ the gradients of 1,000 blocks are level (`05-thousand-blocks-level-gradients`); but $\alpha$ does it by making the branch light (`05-heavy-skip-is-light-branch`), and alone it does not bound the update |
| "in a very deep Pre-Norm model each sublayer contributes a tiny fraction, so it struggles" | DeepNorm starts with a smaller one: $\beta^2/\alpha$, for $N = 1000$ that is $8000^{-1/2}/2000^{1/4} \approx 0.0017$; Pre-Norm's is about $2000^{-1/2} \approx 0.022$ |
| "the best of both worlds" | from Xavier's weights it leads; against Pre-Norm with its usual ones it does not here |
| "impossible with Pre-Norm or Post-Norm" | not shown; at fifty blocks Post-Norm with $\beta$ trains as well |
| "needed from 200 layers on" | a rule of thumb without a measurement; GLM-130B has 70 layers |
| "normalization makes the learning rate independent of depth" | what a higher rate brings depends on depth: `05-rate-and-depth-interact` |
| "with normalization, initialization matters less" | here it decides: the figure of the fifty blocks, and the map |
| "activations grow forward, so gradients shrink backward" | the same Jacobians act both ways: without norms both grow; to shrink, a gradient needs a norm or a saturated unit on its way |
"""

# %% [markdown]
r"""
## Where it goes wrong

DeepNorm is two lines, and public code gets both wrong.

**α on the branch.** A widely read annotated implementation has the right formula in its comment and `x + self.alpha * gx` in the line below. The mistake was
[reported](https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/145) in 2022; the fix mended another line, and copies of this one live on elsewhere. By scale invariance it is the same as the exponent's
sign turned round, $(2N)^{-1/4}$.

**A constant α.** The baseline called DeepNorm in the code of two later papers (Mix-LN ([Li et al., 2025](https://arxiv.org/abs/2412.13795)) and LayerNorm-Scaling, arXiv 2502.05795) has $\alpha = 2.828$ at every depth. You met this number: it is
$64^{1/4}$, right for 32 blocks.
"""


# %%
class BranchAlpha(DeepNorm):
    """N(αx + f(x)), says the comment."""

    def step(self, x, f, N):
        return N(x + self.alpha * f(x))


class ConstantAlpha(DeepNorm):
    """Right for 32 blocks."""

    def step(self, x, f, N):
        return N(2.828 * x + f(x))


# %%
config = replace(small, recipe="deepnorm", depth=12)
for wrong in (BranchAlpha, ConstantAlpha):
    report = check.block(wrong, "deepnorm", config)
    print(report.summary, "\n   ", report.failed[0].cause)

# %% [markdown]
r"""
The checker tries the mistakes it knows until one fits what came. Does the first mistake show without it? The embedding's cosine tells:
"""


# %%
def spoiled(model, wrong):
    """Replace every DeepNorm step of a model by a wrong one."""
    for module in model.modules():
        if isinstance(module, DeepNorm):
            module.__class__ = wrong
    return model


# %%
n = max(depths)
right = shares["deepnorm"][n]
wrong = [kept(spoiled(fresh("deepnorm", n, s), BranchAlpha)) for s in few]
claim(
    "05-alpha-on-the-branch",
    f"At depth {n}, α on the branch takes {{mean:.2f}} from the cosine of embedding and output.",
    minus(right, wrong),
    said="An α on the wrong branch shows in the cosine of embedding and output.",
    source="labml.ai's copy of DeepNorm",
    criterion="> 0.1",
    kind="at",
)

# %% [markdown]
r"""
**The sign of β's exponent.** The same baseline draws with gain $(8L)^{+1/4}$. **β on everything**, queries and keys included, is the mistake of whoever scales all matrices in one loop. **The wrong pair**:
$(3M)^{1/4}$ and $(12M)^{-1/4}$ in a model that is a decoder alone. And one paper (KEEL, arXiv 2601.19895) quotes $\beta$ as $L^{-1/4}$ with $L$ *sublayers*; $8N = 4L$, so it should be
$(4L)^{-1/4}$. None of these raises an error. What does each do to the quantities of this chapter? (The columns `sgd` and `adam` are $\|\Delta F\|/\eta$.)
"""


# %%
def variant(alpha, beta, qk=1.0, n=24):
    """Build a decoder of n blocks with these constants and this gain of q and k."""
    model = fresh("deepnorm", n, init="xavier")
    for block in model.blocks:
        block.attention.alpha = block.feed_forward.alpha = alpha
    for path, weight in model.blocks.named_parameters():
        if weight.ndim == 2:
            weight.data *= qk if path.split(".")[-2] in ("q", "k") else beta
    return model


# %%
n, a, b = 24, 48**0.25, 192**-0.25
bugs = {
    "right": (a, b),
    "exponent of β turned, α constant": (2.828, 1 / b),
    "β on q and k too": (a, b, b),
    "decoder of a pair": ((3 * n) ** 0.25, (12 * n) ** -0.25),
    "(2N)^(−1/4) for β": (a, (2 * n) ** -0.25),
}
wanted = {name: 1.0 if name in ("q", "k") else b for name in found}

# %%
rows = []
for name, (alpha, beta, *qk) in bugs.items():
    model = variant(alpha, beta, *qk)
    report = check.answer(gains(model), wanted, name="gains", rtol=0.05)
    row = {"model": name, "sum of the bound": 4 * n * beta**2 / alpha**2}
    row |= step_response(model, held_out, ("sgd", "adam")) | {"cosine": kept(model)}
    rows.append(
        row | {"check of the gains": report.failed[0].message if report.failed else "passes"}
    )
plots.table(rows)

# %%
claim(
    "05-beta-turned-round",
    "With β's exponent turned and α constant, one SGD step moves the function {mean:,.0f} times as far.",
    rows[1]["sgd"] / rows[0]["sgd"],
    said="With β's exponent turned round a step moves the function many times as far.",
    source="the baseline 'deeppost' in the code of Mix-LN and LayerNorm-Scaling",
    criterion="> 10",
    kind="at",
)

# %% [markdown]
r"""
The turned exponent destroys the method: published rows of such a baseline say nothing about DeepNorm. The others are mild at initialization, and the bound says how mild: its sum is $4N/\sqrt{36N^2} = 2/3$ with the constants of a pair and 2 with
KEEL's, and the measured SGD responses stand in about these ratios to the right one. β on queries and keys changes hardly anything: they only decide which average is taken (step 1). A test of behaviour would miss these three, so the check compares the standard
deviations of the matrices with what the method says.

### Symptoms

Each row's probe is run: the sick value first, then the healthy one.
"""

# %%
at = shallow[len(shallow) // 2]
fourth = reached["1/4 (DeepNorm)"]
ratio_of = {arm: [run[0] / run[-1] for run in runs] for arm, runs in by_block.items()}
probed = {
    f"step-response, SGD, depth {at}": [response(arm, "sgd")[at] for arm in ("post", "deepnorm")],
    "gradient-at-start, first over last": [ratio_of["pre"], ratio_of["deepnorm"]],
    "cosine of embedding and output": [wrong, right],
    f"step-response, Adam, depth {grid[-1]} over {grid[0]}": [
        [fourth[grid[-1]]["adam"] / fourth[grid[0]]["adam"]],
        [b / a for a, b in levels],
    ],
}

# %%
words = [
    ("a deep Post-Norm model sits at letter frequencies", "large branches: a small step moves the function far", "β, or Pre-Norm with small outputs"),
    ("the lowest blocks get by far the largest gradients", "Pre-Norm's stream starts small", "smaller outputs, or DeepNorm"),
    ("a “DeepNorm” model does not start near the identity", "α stands on the branch", "check.block"),
    ("a good rate is too high for a deeper model", "Adam's step grows with depth", "a lower rate, or square roots"),
]  # fmt: skip
plots.table(
    [
        {"you see": see, "cause": cause, "probe": probe, "sick": float(np.median(sick)),
         "healthy": float(np.median(healthy)), "fix": fix}
        for (see, cause, fix), (probe, (sick, healthy)) in zip(words, probed.items(), strict=True)
    ]
)  # fmt: skip

# %% [markdown]
r"""
## Exercises

**1 (by hand).** A decoder of 8 blocks, so $\alpha = 16^{1/4} = 2$. A token $x = (1, -1, 1, -1)$ and a sublayer with $f(x) = (1, 1, -1, -1)$. What leaves the DeepNorm step? ($\epsilon = 0$, gain 1, shift 0.)
"""

# %% tags=["exercise"]
yours = [..., ..., ..., ...]

# %%
x, push = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.tensor([1.0, 1.0, -1.0, -1.0])
truth = DeepNorm(lambda: LayerNorm(4, eps=0.0), lambda x: push, Place(decoder=8))(x)
check.answer(yours, truth.tolist(), name="1", hint="weigh the skip, add, then normalize")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\alpha x + f = (2 + 1, -2 + 1, \dots)$. Its mean is easy.

</details>
<details><summary>Solution</summary>

$2x + f = (3, -1, 1, -3)$, mean 0, variance $(9 + 1 + 1 + 9)/4 = 5$. The result is $(3, -1, 1, -3)/\sqrt5$. With $\alpha$ on the branch it would be $(3, 1, -1, -3)/\sqrt5$.

</details>

**2 (by hand).** A decoder alone has 128 blocks: what are $\alpha$ and $\beta$? And how many sublayers has a translation model of 6 + 6 layers?
"""

# %% tags=["exercise"]
yours = {"alpha": ..., "beta": ..., "sublayers": ...}

# %%
pair_places = [Place(stack=stack, encoder=6, decoder=6) for stack in ("encoder", "decoder")]
truth = deepnorm_constants("decoder", 0, 128)._asdict() | {
    "sublayers": sum(p.sublayers for p in pair_places)
}
check.answer(
    yours,
    truth,
    name="2",
    hint="both constants are powers of two; which sublayer does only a decoder have?",
    rtol=0.01,
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$256 = 2^8$ and $1024 = 2^{10}$.

</details>
<details><summary>Solution</summary>

$\alpha = 256^{1/4} = 4$ and $\beta = 1024^{-1/4} = 2^{-5/2} = 1/(4\sqrt2) = 1/(\sqrt2\,\alpha) \approx 0.177$. Sublayers: $6\cdot2 + 6\cdot3 = 30$.

</details>

**3 (by hand).** Somebody shares the work unevenly: $\alpha = (2N)^{1/3}$ and $\beta$ like $N^{-1/6}$. By which power of depth does one step on the matrices move the output, for SGD and for Adam's first step?
"""

# %% tags=["exercise"]
yours = {"sgd": ..., "adam": ...}

# %%
share = 1 / 3 + 1 / 6
truth = {"sgd": 1 - 2 * share, "adam": 1 - share}
check.answer(yours, truth, name="3", hint="how often does the factor β/α come, once or twice?")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\beta/\alpha \sim N^{-1/6 - 1/3}$. There are $2N$ sublayers.

</details>
<details><summary>Solution</summary>

$\beta/\alpha \sim N^{-1/2}$, as with DeepNorm's own. SGD: $N\cdot N^{-1} = N^0$. Adam: $N\cdot N^{-1/2} = N^{1/2}$. Any split with $a + b = \tfrac12$ meets the demand: the even one is a choice.

</details>

**4 (in code).** Write the step for a decoder alone: `x` is the stream, `f` the sublayer, `norm` the norm, `depth` the number of blocks. The check compares with the equation, also at other depths.
"""


# %% tags=["exercise"]
def my_step(x, f, norm, depth):
    """One DeepNorm step."""
    return ...


# %%
def check_step(step):
    """Hold a step against DeepNorm's equation."""
    if step(torch.ones(1, 1, 4), lambda x: x, lambda x: x, 8) is ...:
        step = ...
    return check.block(step, "deepnorm", config)


check_step(my_step)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\alpha$ counts blocks twice (two sublayers each) and takes the fourth root.

</details>
"""


# %% tags=["solution"]
def solved_step(x, f, norm, depth):
    """A solution of exercise 4."""
    return norm((2 * depth) ** 0.25 * x + f(x))


assert check_step(solved_step).ok

# %% [markdown]
r"""
**5 (in code).** Write the gain of one matrix in a decoder alone of `blocks` blocks. Names are those of `labkit`: `q k v out` in attention, `up down` in the feed-forward.
"""


# %% tags=["exercise"]
def my_gain(name, blocks):
    """Gain of Xavier's rule for one matrix."""
    return ...


# %%
def check_gain(gain):
    """Hold a gain function against the standard deviations of a real model of 32 blocks."""
    came = {name: gain(name, 32) for name in found}
    hint = "two of the six only decide which average is taken"
    return check.answer(came, found, name="5", hint=hint, rtol=0.05)


check_gain(my_gain)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Step 1 of the derivation says which matrices cannot enlarge anything.

</details>
"""


# %% tags=["solution"]
def solved_gain(name, blocks):
    """A solution of exercise 5."""
    return 1.0 if name in ("q", "k") else (8 * blocks) ** -0.25


assert check_gain(solved_gain).ok

# %% [markdown]
r"""
**6 (prove).** Take step 2's inequality as given: $\|\Delta F\| \le \sum_{i=1}^{2N}\frac{\sqrt2\,\beta}{\alpha}\|\Delta\theta_i\|$. (a) Adam's first step moves each of the $m$ numbers of a sublayer by exactly $\eta$. Show
that with DeepNorm's constants $\|\Delta F\| \le \eta\sqrt{m}\,\sqrt{2N}$. (b) Show that no choice of $\alpha(N)$, $\beta(N)$ makes the bound for SGD *equal* to $\eta$ at every depth and keeps the one for Adam bounded. (c) Is there a
choice that keeps both bounded?

<details><summary>Hint</summary>

$\beta = 1/(\sqrt2\,\alpha)$ turns $\sqrt2\,\beta/\alpha$ into $1/\alpha^2$. For (b), write both bounds with $r = \beta/\alpha$ alone.

</details>
<details><summary>Solution</summary>

(a) $\|\Delta\theta_i\| = \sqrt{m\,\eta^2} = \eta\sqrt m$ for every $i$, so the sum is $2N\cdot\frac{\sqrt2\beta}{\alpha}\,\eta\sqrt m = 2N\,\alpha^{-2}\,\eta\sqrt m = 2N\,(2N)^{-1/2}\,\eta\sqrt m = \sqrt{2N}\,\eta\sqrt m$.

(b) With $r = \beta/\alpha$ the bounds are $4N r^2\,\eta$ for SGD and $2\sqrt2\,N r\,\eta\sqrt m$ for Adam. The first equals $\eta$ only for $r = \tfrac12 N^{-1/2}$. Then the second is $\sqrt2\,N^{1/2}\,\eta\sqrt m$, which has no bound.

(c) Yes: $r \le C/N$ bounds Adam's by $2\sqrt2\,C\,\eta\sqrt m$, and SGD's by $4C^2\eta/N$, which even tends to zero. With $\alpha\beta$ fixed this is $\alpha \sim N^{1/2}$, GLM's choice. The price: the bound for SGD is no longer met with
equality. Under SGD a deep model of this kind hardly moves.

</details>

**7 (open).** GLM's constants level Adam's first step. Do they train better at fifty blocks? Write your prediction down. `family` shows how to set $\alpha$ and $\beta$; `labkit.train(model, batches, base.train)` trains a model that you built. Or stay with
runs that are stored: does SGD, for which the promise *was* made, bring DeepNorm's lead back? Decide beforehand which result would change your mind, and use at least three seeds.
"""

# %% tags=["exercise"]
my_prediction = "…"
sgd = {"train.optimizer": "sgd", "train.lr": 0.1}
ideas = {arm: {**changes, **sgd} for arm, changes in pair.items()}
my_experiment = Experiment(base, {"arm": ideas, "seed": five})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## What you now know

- $\alpha$ makes the branch light; a DeepNorm model starts near the identity, the nearer the deeper it is.
- One demand fixes $\beta/\alpha$: a step of gradient descent may move the function by the order of $\eta$. The even split into fourth roots is a choice.
- $\beta$ goes to value, output and feed-forward matrices, which set the size of a branch. The encoder's $0.81$ and $0.87$ follow from the same demand; "1,000 layers" are 2,500 sublayers of an encoder and a decoder.
- Measured, the promise holds for gradient descent on the matrices, and needs both constants. It does not hold for gains, nor for Adam, whose first step grows like the root of depth; square roots, as in GLM-130B, level that.
- At fifty blocks and after forty steps DeepNorm is ahead of Post- and Pre-Norm from Xavier's weights. From small branches the others train as well. The initialization is the larger part of the method at this size.
- At a thousand blocks its gradients are level. That it *trains* better there, our runs are too short to say.
- A constant in the wrong place runs without complaint. Compare the block with its equation, and the weights' sizes with the rule.

## References

Works cited: [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), [Liu et al. (2020)](https://arxiv.org/abs/2004.08249), [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745), [Zeng et al. (2023)](https://arxiv.org/abs/2210.02414), [Li et al. (2025)](https://arxiv.org/abs/2412.13795), [Glorot and Bengio (2010)](https://proceedings.mlr.press/v9/glorot10a.html), [Bordelon et al. (2024)](https://arxiv.org/abs/2309.16620), [Yang et al. (2024)](https://arxiv.org/abs/2310.02244), [Dey et al. (2025)](https://arxiv.org/abs/2505.01618). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
