# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Dynamic Tanh

**Question.** [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622) plotted the input–output maps of trained layer norms and saw S-shaped curves. They replaced
each norm by a $\tanh$, which needs no statistics, and report equal quality. But for one token layer norm is a *straight line*.
Where does the S come from, and can one curve for all tokens do the work of a norm?

<details><summary>In short (contains spoilers)</summary>

- The S comes from the tokens. Each token has a straight line of its own. Tokens of different size have lines of different slope, and many such lines together look like an S.
- A curve that is the same for all tokens does half of a norm's work: its output is bounded. It does not do the other half: its output depends on the scale of its input.
- On text, at the one small size that we trained, DyT's loss is higher than that of a norm. It is even higher than that of the same model with every norm removed. On images a model with DyT still trains at a learning rate at which our model without norms in its blocks fails.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch
from torch import nn

from labkit import TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits, Text
from labkit.experiments import Domain, Experiment, Lab, Run, exact, ladder, regime
from labkit.model import Perturbed
from labkit.model.vit import ViTConfig
from labkit.norms import bounded_tanh, dynamic_erf, dynamic_tanh, layer_norm, rms_norm
from labkit.probes.norm_maps import bend, describe
from labkit.source import show

# %%
lab = Lab("07_dynamic_tanh", size=size, seed=seed, memory={"kernel": "800M", "run": "850M"})
sizes = lab.sizes(
    steps=180,
    seeing=400,
    held_out=4096,
    characters=2048,
    rates=[0.0003, 0.001, 0.003, 0.01, 0.03],
)
rung, five = "S", lab.seeds(5)


# %%
def mixture(s, tokens=400, width=256):
    """Draw tokens of which one in ten has standard deviation s and the others 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=generator, dtype=torch.float64)
    x[: tokens // 10] *= s
    return x


def draw(s):
    """Draw layer norm's map over such tokens."""
    told = describe("layer", nn.LayerNorm(256).double(), mixture(s))
    title = {f"layer norm, every tenth token × {s}": told}
    return plots.norm_curves(title, caption="Points: single entries. Lines: single tokens.")


plots.explore(
    draw,
    [1, 2, 4, 8],
    "spread-of-wild-tokens",
    start=8,
    label="size of one token in ten",
    caption="Output of one layer norm against its input, on a batch in which one token in ten is larger than the others, by the factor on the slider. At 1 the map over all tokens is a line. At larger factors it flattens at both ends. "
    "Lines: three single tokens. "
    "The bend (lower right) is the slope at the ends divided by the slope in the middle: 1 for a line, and smaller the more the map is like an S.",
)

# %% [markdown]
r"""
## The idea: one number in, one number out

Dynamic Tanh (DyT) replaces a norm by a curve,

$$\mathrm{DyT}(x) = \gamma\odot\tanh(\alpha x) + \beta,$$

with a gain $\gamma$, a shift $\beta$ and one learned number $\alpha$ per layer. Its authors report parity with norms, from image models to language models of 70 billion parameters.

Take two tokens, the second ten times the first. What is the output of each map in the next table? ($\alpha = \tfrac12$, gain 1, shift 0.)
"""

# %%
token = torch.tensor([3.0, -1.0, 1.0, -3.0])
inputs = {"(3, −1, 1, −3)": token, "(30, −10, 10, −30)": 10 * token}
maps = {
    "layer norm": layer_norm,
    "DyT": lambda x: dynamic_tanh(x, 0.5),
    "Derf": lambda x: dynamic_erf(x, 0.5),
    "BHyT": bounded_tanh,
}
plots.table(
    {"map": name, **{of: ", ".join(f"{v:.2f}" for v in f(x)) for of, x in inputs.items()}}
    for name, f in maps.items()
)

# %% [markdown]
r"""
Layer norm is invariant to the factor of ten. DyT is not: for the small token it preserves a part of the contrast between entries (3 to 1 becomes 2 to 1), and for the large token little more than the
signs. But both are **bounded**. With gain 1 no entry of DyT exceeds 1, and no entry of layer norm exceeds $\sqrt{d-1}$, for $d$ channels. (Layer norm's outputs sum to 0, and their squares sum to $d$. If one entry is $y$, the other $d-1$ sum to $-y$, so their squares sum to at least $y^2/(d-1)$. Hence $y^2 + y^2/(d-1) \le d$.) DyT's authors say that the essential part is the squashing of extreme values. (Derf and BHyT are explained below.)

## Where the S comes from

By the size of a token we mean its standard deviation $\sigma$, which is nearly its RMS here. For one token, layer norm is $y_i = (x_i - \mu)/\sigma$ with the *same* $\mu$ and $\sigma$ for all $i$: a line of slope $1/\sigma$.
A different token has a different $\sigma$, hence a different line. Now we plot all entries together, whatever token they come from. Means are
small (chapter 03), so we set $\mu = 0$. At the input $x$ the average output is

$$\mathbb E[\,y \mid x\,] = x\cdot \mathbb E[\,1/\sigma \mid x\,].$$

The second factor averages over the tokens *that have an entry at $x$*. Near zero every token has entries. Far out only tokens with a large
$\sigma$ have any, and their lines are flat. So the pooled map is steep in the middle and flatter at the ends. This requires only tokens of
**different** size (see the slider above).

To measure this shape, let the **bend** of a map be the slope of the far entries (the 1 % with the largest absolute values) divided by the slope of the middle entries (the 50 % with the smallest). A
line has a bend of 1. The more a map curves into an S, the *smaller* this number is.
"""

# %%
x = mixture(8)
y = layer_norm(x, eps=0.0)
slope = (y * x).sum(-1) / (x * (x - x.mean(-1, keepdim=True))).sum(-1)
off = y - slope[:, None] * (x - x.mean(-1, keepdim=True))
exact(off.abs().max(), tolerance=1e-10).claim(
    "07-one-token-is-a-line",
    "< 1e-10",
    "For a single token, layer norm's output is a straight line against its input.",
    found="For each single token, layer norm's output differs from a straight line by at most {mean:.0e}.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 3; the definition of LayerNorm",
    published="linear for each token; the S is seen over tokens and channels",
)
# %%
bends = {s: bend(mixture(s), layer_norm(mixture(s))) for s in (1, 8)}
exact(bends[8]).claim(
    "07-spread-makes-the-s",
    "< 0.3",
    "If some tokens have a much larger standard deviation, layer norm's map over all tokens is an S.",
    found="The slope of layer norm's map at its ends is {one:.2f} times the slope in the middle if all tokens have the same standard deviation, and {mean:.2f} times if one token in ten is 8 times as large.",
    source="the average above: a factor of 8 gives about 1/8, divided by the slope in the middle",
    beside={"one": bends[1]},
)

# %% [markdown]
r"""
So a plot that shows an S means that the *data* contain tokens of very different size. Large models have such tokens:
a few of their activations are up to 100,000 times as large as the rest ([Sun et al., 2024](https://arxiv.org/abs/2402.17762)).

In a second view the norm itself is a curve. Fix all entries of a token but one, and move that one. Then $\sigma$ changes with it, and the line of
the token turns. With $C$ the sum of squares of the other entries, RMSNorm's
output for the moving entry is

$$y = \sqrt d\;\frac{x}{\sqrt{x^2 + C}},$$

a smooth, bounded S. [Stollenwerk (2026)](https://arxiv.org/abs/2503.21708) starts from this view, reaches DyT by an approximation, and regards this
curve as DyT's exact counterpart. But the two curves differ in their width: for RMSNorm it is $\sqrt C$, which differs from token to token, and for DyT it is $1/\alpha$, the same
for all tokens.
"""

# %%
others = torch.randn(63, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
moving = torch.linspace(-60, 60, 121, dtype=torch.float64)
rows = torch.cat([moving[:, None], others.expand(121, 63)], dim=1)
isru = 8 * moving / (moving.square() + others.square().sum()).sqrt()
exact((rms_norm(rows, eps=0.0)[:, 0] - isru).abs().max(), tolerance=1e-10).claim(
    "07-one-entry-is-an-s",
    "< 1e-10",
    "If one entry x of a token moves and the others stay fixed, RMSNorm's output for x is an S-shaped curve.",
    found="If one entry x of a token moves and the squares of the others sum to C, RMSNorm's output for x differs from √d x/√(x² + C) by at most {mean:.0e}.",
    source="algebra above; compare Stollenwerk 2026, arXiv 2503.21708",
)

# %% [markdown]
r"""
## What is kept, and what is not

### What is given up: invariance to scale

Multiplying DyT's input by $c$ has the same effect as multiplying $\alpha$ by $c$: $\tanh(\alpha\cdot c\,x) = \tanh((c\alpha)\,x)$. So the size of a model's stream also determines which $\alpha$ is good. A language model starts with small embeddings. In a model with norms, the first norm rescales them. With DyT nothing does, so
the authors' LLaMA multiplies them by a learned number that starts at $\sqrt d$. Deeper in the model the size of the stream depends on the outputs of the
sublayers, and in a Pre-Norm stack it grows (chapter 02).

Would a cleverer curve do better? No: **a continuous map of single entries that is invariant to scale is constant** (exercise 3). Without continuity it may have three
values, for positive numbers, for negative ones, and for 0: a sign. So every entry-by-entry replacement of a norm is a compromise between a line, whose
output is proportional to its input, and a sign, whose output always has the same size. In DyT $\alpha$ sets this compromise, and as the stream grows DyT moves towards the sign.
"""

# %%
torch.manual_seed(seed)
x = torch.randn(5, 16, dtype=torch.float64)
alpha, gain = torch.tensor([0.7], dtype=torch.float64), torch.rand(16, dtype=torch.float64)
shifted = dynamic_tanh(10 * x, alpha / 10) - dynamic_tanh(x, alpha)
exact(shifted.abs().max(), tolerance=1e-12).claim(
    "07-scale-and-alpha-are-one-knob",
    "< 1e-12",
    "Scaling DyT's input and scaling α have the same effect.",
    found="Multiplying DyT's input by ten and dividing α by ten changes the output by at most {mean:.0e}.",
    source="DyT's definition",
)

# %% [markdown]
r"""
### The gradient

Layer norm's Jacobian is a dense matrix: it removes the mean and the component along $x - \mu$, and divides by $\sigma$ (chapter 01). DyT's is diagonal,

$$\frac{\partial y_i}{\partial x_i} = \gamma_i\,\alpha\,\mathrm{sech}^2(\alpha x_i), \qquad \frac{\partial y}{\partial\alpha} = \gamma\odot x\odot\mathrm{sech}^2(\alpha x).$$

In both derivatives the factor $\mathrm{sech}^2$ is nearly 0 for an entry whose $|\alpha x|$ is large. Such an entry is **saturated**: it passes hardly any gradient to the layers
below, *and hardly any to $\alpha$*. If most entries are saturated, only the few others send $\alpha$ a gradient. A smaller $\alpha$ would
repair the layer, but whether $\alpha$ shrinks depends on a few exceptional entries. In a norm, too, one huge entry passes hardly any gradient, since it dominates $\sigma$, but the gradients of its
neighbours are still multiplied by about $\gamma/\sigma$. And if all entries of a token grow, none of them saturates.

*By hand.* A token has the entries ½ and 4, and $\alpha = \gamma = 1$. By which factor does DyT multiply the gradient of each entry? By which factor does RMSNorm multiply that of the small entry?

<details><summary>Answer</summary>

$\mathrm{sech}^2\tfrac12 \approx 0.79$ and $\mathrm{sech}^2 4 \approx 0.0013$. For RMSNorm the factor is $\tfrac1r\big(1 - \tfrac{x_i^2}{d\,r^2}\big)$, with $r$ the RMS. Here $r = \sqrt{(\frac14 + 16)/2} = \sqrt{65/8} \approx 2.85$, and the small entry gets $\tfrac1r\big(1 - \tfrac1{65}\big) \approx 0.35$: the large neighbour
leaves the small entry about a third of its gradient.

</details>
"""

# %%
jacobian = torch.autograd.functional.jacobian(lambda v: dynamic_tanh(v, alpha, gain), x[0])
formula = torch.diag(gain * alpha / torch.cosh(alpha * x[0]).square())
exact((jacobian - formula).abs().max(), tolerance=1e-12).claim(
    "07-jacobian-is-diagonal",
    "< 1e-12",
    "DyT's Jacobian is diagonal: no channel depends on another.",
    found="DyT's Jacobian by autograd and the diagonal matrix of γ α sech²(α x) differ by at most {mean:.0e}.",
    source="the derivative of tanh",
)

# %%
entries = np.linspace(-4, 4, 81).tolist()
bends, slopes = np.tanh(entries).tolist(), (1 / np.cosh(entries) ** 2).tolist()
plots.panels(
    {
        "output": {
            "layer norm": [dict(zip(entries, entries, strict=True))],
            "DyT": [dict(zip(entries, bends, strict=True))],
        },
        "factor on a gradient": {
            "layer norm": [dict.fromkeys(entries, 1.0)],
            "DyT": [dict(zip(entries, slopes, strict=True))],
        },
    },
    xlabel="α x; for layer norm, x of a token with standard deviation 1",
    caption="Output, and factor by which a gradient is multiplied, against the entries of one token, for layer norm and DyT. Under layer norm all entries are on one straight line and share its slope. "
    "DyT's curve is flat at both ends: beyond 2 on either side the output shows little more than the sign, and hardly any gradient passes.",
).named("flat-ends")

# %% [markdown]
r"""
### Input scale of a branch at initialization

With a norm, the input of each sublayer has RMS 1. With DyT it does not: for normally distributed input with RMS 1 the outputs have

$$\mathrm{RMS} = \sqrt{\mathbb E\,\tanh^2(\alpha z)}, \qquad z \sim \mathcal N(0, 1),$$

which is below 1 for every $\alpha$. So with the same weights every branch starts smaller under DyT than under a norm, and chapter 05 shows how much depends on the initial size
of branches. Every comparison of DyT with a norm also changes this size.
"""

# %%
nodes, weights = np.polynomial.hermite_e.hermegauss(200)  # exact sums for a normal z
first_rms = {
    alpha: float(np.sqrt(weights @ np.tanh(alpha * nodes) ** 2 / weights.sum()))
    for alpha in (0.25, 0.5, 1.0, 4.0)
}
exact(first_rms[1.0], tolerance=0.001).claim(
    "07-dyt-shrinks-what-a-branch-reads",
    "in [0.6, 0.7]",
    "With α = 1, the RMS of a branch's input is about a third smaller under DyT than under a norm.",
    found="For normally distributed input of RMS 1, a norm's output has RMS 1, and DyT's has RMS {quarter:.2f} for α = 1/4, {half:.2f} for α = 1/2, {mean:.2f} for α = 1 and {four:.2f} for α = 4.",
    source="DyT's definition, summed over a normal distribution",
    beside={"quarter": first_rms[0.25], "half": first_rms[0.5], "four": first_rms[4.0]},
)

# %% [markdown]
r"""
### Two related methods

**Derf** ([Chen et al., 2025](https://arxiv.org/abs/2512.10938)) is the result of a search for the best squashing function: the error function with a
learned centre, $y = \gamma\odot\mathrm{erf}(\alpha x + s) + \beta$. Its curve is nearly that of a tanh with an $\alpha$ larger by a fifth, and its tails saturate sooner.

**BHyT** ([Byun et al., 2026](https://arxiv.org/abs/2601.09719)) is $y = w\odot\tanh\!\big(\lambda x/(\kappa\,\mathrm{RMS}(x))\big)$ with
$\kappa = 10$. It contains an RMSNorm, followed by a tanh, so it still needs statistics. If $\lambda = 1$, the arguments of the tanh are about a tenth, where tanh is nearly a line. (Its authors start $\lambda$ at 1 to 5.)

Unlike these two, **PRepBN** ([Guo et al., 2024](https://arxiv.org/abs/2405.11582)) takes statistics in training only, and folds them away afterwards ([appendix B](B_batch.ipynb#batch-statistics-repaired-and-trained)).
"""

# %%
grid = torch.linspace(-4, 4, 4001, dtype=torch.float64)
widths = torch.linspace(1.0, 1.4, 401, dtype=torch.float64)
gaps = torch.tanh(widths[:, None] * grid) - torch.erf(grid)
closest = int(gaps.square().sum(1).argmin())
exact(widths[closest], tolerance=0.005).claim(
    "07-erf-is-nearly-a-tanh",
    "in [1.19, 1.22]",
    "The error function erf(x) is nearly tanh(c x) with c = 1.205.",
    found=f"The function tanh(c x) that is closest to the error function erf(x) has c = {{mean:.3f}} and differs from erf(x) by at most {gaps[closest].abs().max():.3f}.",
    source="Chen et al. 2025, arXiv 2512.10938",
    published="c = 1.205",
)

# %%
normal = torch.randn(2000, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
away = bounded_tanh(normal) - rms_norm(normal) / 10
exact(away.square().mean().sqrt() / 0.1).claim(
    "07-bhyt-is-a-small-rms-norm",
    "< 0.03",
    "With λ = 1, BHyT's output on normally distributed tokens is about a tenth of RMSNorm's.",
    found="With λ = 1, BHyT's output on normally distributed tokens differs from a tenth of RMSNorm's by {mean:.1%} in root mean square.",
    source="Byun et al. 2026, arXiv 2601.09719, and its code (κ = 10)",
)

# %% [markdown]
r"""
## Implementation: exercise 1

**1 (in code, 5 minutes).** Write DyT. The check compares it with the formula in double precision, and names the usual mistakes.
"""


# %% tags=["exercise"]
def my_dyt(x, alpha=0.5, weight=None, bias=None):
    """γ tanh(α x) + β"""
    return ...


# %%
check.dynamic_tanh(my_dyt)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Use `torch.tanh`. In half precision, compute in float32 and round once, at the end.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_dyt(x, alpha=0.5, weight=None, bias=None):
    """A solution of exercise 1."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))

    def same(value):
        return value.to(wide.dtype) if isinstance(value, torch.Tensor) else value

    y = torch.tanh(same(alpha) * wide)
    y = y if weight is None else y * same(weight)
    y = y if bias is None else y + same(bias)
    return y.to(x.dtype)


assert check.dynamic_tanh(solved_dyt).ok

# %% [markdown]
r"""
This is the function in `labkit`:
"""

# %%
show(dynamic_tanh)

# %% [markdown]
r"""
In a model, the recipe `dyt` is Pre-Norm with DyT in place of every norm, as in the authors' LLaMA. It has no shift $\beta$, a learned factor on the embedding, and
*two* initial values $\alpha_0$, one before attention and one everywhere else. For language models the authors' values decrease with the width, from (1, 1) at width 1024 to (0.2, 0.05) at 8192.
Our models are narrower still, and both values start at 1.
"""

# %% [markdown]
r"""
## Measure

We use three kinds of models:

| model | training | what it can decide |
| --- | --- | --- |
| small text model: four blocks of width 32 | 180 steps | no published question; it shows what the maps of norms look like, and how overfitting can look like an advantage |
| text model of the *ladder*, the experiment grid that the book's chapters share: six blocks of width 32 | 3,200 steps, 20 characters per parameter | at this size, does DyT reach a lower loss than the same model without norms, with SwiGLU and with GELU? |
| vision transformer ([Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929)): digits of 8×8 pixels in sixteen patches, three blocks | 400 steps | does DyT train at a rate at which blocks without norms fail? |

Most published statements on DyT are about ImageNet, or about models at least a thousand times larger than ours. Our models are too small to test them, so the cards on such statements show how such a comparison is made and give no verdict.

We start with the runs on digits (results below), and search the learning rates:
"""

# %%
looks = ("validation", "test", "norm-maps")
digits = Run(
    model=ViTConfig(init="xavier"),
    data=Digits(batch=32),
    train=TrainConfig(steps=sizes.seeing, warmup=sizes.seeing // 10, schedule="linear"),
)
eyes = {
    "layer norm": {"model.norm": "layer"},
    "DyT": {"model.norm": "dyt", "model.alpha": (0.5, 0.5)},
    "no norm": {"model.recipe": "none"},
}
search = {"arm": eyes, "train.lr": ladder.COARSE, "seed": [ladder.TUNING_SEED]}
tried = lab.run(Experiment(digits, search))

# %% [markdown]
r"""
Then we train each model with five other seeds, first at its tuned rate, then at one high rate for all:
"""

# %%
tuned = {arm: {**eyes[arm], "train.lr": of.best("lr")} for arm, of in tried.by("arm").items()}
seen = lab.run(Experiment(replace(digits, probes=looks), {"arm": tuned, "seed": five}))
high = ladder.COARSE[3]
hot = lab.run(Experiment(digits, {"arm": eyes, "train.lr": [high], "seed": five}))

# %% [markdown]
r"""
### The maps of a trained model

We recorded the input and output of each norm, before gain and shift, in a small text model after 180 steps. Then we trained it once more with a planted outlier: in the embedding of the space, the most common character, we added 30 to one
channel.
"""

# %%
young = Run(
    model=Perturbed(  # a ModelConfig with a planted outlier, where asked for
        norm="layer", dim=32, depth=4, activation="gelu", context=32, init="xavier"
    ),
    data=Text(batch=16, time=32, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, lr=0.01, warmup=min(20, sizes.steps), schedule="linear"),
    probes=looks,
)
calm = lab.run(Experiment(young, {"seed": five}))
planted = lab.run(Experiment(young, {"model.embedding_outlier": [30.0], "seed": five}))


# %%
def draw_maps(chosen, caption, *results):
    """Draw the maps of norms, by name, without lines of single tokens for DyT."""
    rows = {n: row if row["alpha"] is None else {**row, "lines": []} for n, row in chosen.items()}
    return plots.norm_curves(rows, caption=caption, provenance=lab.provenance(*results))


maps, wild = (results.values("norm-maps")[0] for results in (calm, planted))
draw_maps(
    {"first norm": maps[0], "last norm": maps[-1], "first norm, planted": wild[0]},
    "Outputs of layer norm against its inputs, in a briefly trained text model of four blocks. Points: single entries. Lines: three tokens, those with the smallest, the middle and the largest "
    "standard deviation. In the right panel an outlier is planted in every space: the line of the spaces is flat, and the map is half an S because all outliers have the same sign.",
    calm,
    planted,
).named("learned-maps")

# %% [markdown]
r"""
All embeddings start from the same distribution, so at the first norm the tokens' standard deviations differ little. Deeper in the model, sublayers have written more to some tokens than
to others, and the tokens that received more have flatter lines.
"""


# %%
def measure_change(record):
    """Subtract the bend of the first norm's map from the last one's."""
    maps = record.probes["norm-maps"]
    return maps[-1]["bend"] - maps[0]["bend"]


calm.measure(measure_change).claim(
    "07-deeper-maps-bend-more",
    "< 0",
    "In a trained model, the map from a norm's input entries to its output entries is more curved for the last norm than for the first.",
    found="The bend of a norm's map is its slope at the ends divided by its slope in the middle: the smaller, the more curved. From a model's first norm to its last, it changes by {mean:+.2f} in a briefly trained text model and by {vit:+.2f} in a vision transformer on digits.",
    source="Zhu et al. 2025, arXiv 2503.10622, Figure 2 (ViT-B, wav2vec 2.0, DiT-XL)",
    published="early layers are nearly linear, deeper ones S-shaped",
    beside={"vit": seen.where(arm="layer norm").measure(measure_change)},
    domain=Domain(
        "trained models of full size, ViT-B, wav2vec 2.0, DiT-XL",
        "four blocks of width 32 after 180 steps on text; three on digits",
        inside=False,
    ),
)

# %% [markdown]
r"""
On text the map of the last norm is more curved than that of the first. On digits it is not, so depth alone does not produce an S. Tokens of different size do produce one: an S in the first figure, and half an S with the planted spaces. So we think that on text the deeper norms show an S because their tokens
differ more in size.

What does that mean for DyT? In layer norm's S each token has its own line. DyT is a single curve through the middle of all points, and treats small and large tokens alike.

### On text, with tuned learning rates

We trained the ladder's smallest model with RMSNorm, DyT, Derf or nothing before each sublayer.

| question | choices | ours |
| --- | --- | --- |
| On text, with tuned learning rates, which model has the lower loss: DyT, or the same model without any norm? <!-- 07-dyt-beats-no-norm --> | the model without norms; <!-- -0.05 --> hardly a difference; <!-- 0.05 --> DyT | <details><summary>show</summary>DyT reaches a lower loss than the same model without any norm.</details> |
"""

# %%
racers = {"RMSNorm": "pre", "DyT": "dyt", "Derf": "derf", "no norm": "none"}
climbed = lab.ladder([*racers.values(), "no attention"])
searches = climbed.where(arm=[*racers.values()], rung=rung, stage="tuning", lr=[*ladder.COARSE])
plots.curves(
    {
        name: searches.where(arm=arm).measure_by("validation.loss", "lr")
        for name, arm in racers.items()
    },
    xlabel="peak learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    ylim=(1.3, 3.2),
    caption="Validation loss against peak learning rate for models with RMSNorm, DyT, Derf or nothing before each sublayer. A cross at the upper edge marks a model that diverged. Which model has the lowest point? "
    "And which models still learn at three times their best rate, and at ten times?",
    provenance=lab.provenance(searches),
).named("race-by-rate")

# %%
ours = "six blocks of width 32, 20 characters per parameter (the shared grid of runs)"
ladder.improvement(climbed, "dyt").claim(
    "07-ladder-dyt-against-rms-norm",
    "> -0.02",
    "With tuned learning rates, a language model with DyT reaches the test loss of one with RMSNorm.",
    found="At size {rung}, with tuned learning rates, DyT's test loss is {apart:.3f} nats {side} RMSNorm's.",
    source="Zhu et al. 2025, arXiv 2503.10622, language models",
    published="LLaMA 7B to 70B: the same loss as RMSNorm",
    domain=Domain("LLaMA, 7B to 70B parameters", ours, inside=False),
)

# %%
ladder.improvement(climbed, "dyt", "none").claim(
    "07-dyt-beats-no-norm",
    "> 0",
    "With each at its own rate, DyT ends below no norm at all.",
    found="At size {rung}, with tuned learning rates, DyT's test loss is {apart:.3f} nats {side} that of the same model without norms.",
    source="this book's control for Zhu et al. 2025, arXiv 2503.10622",
)

# %% [markdown]
r"""
The column *ours* shows the claim that we preregistered, *DyT reaches a lower loss*. We gave it a low probability (see the forecast on the open card), and the runs contradict it. In a preliminary evaluation, Derf's loss is lower than DyT's ([How we know](07_dynamic_tanh.ipynb#how-we-know) has the card).

A paper about doing without norms needs one control above all: the same model with *no norm*, and nothing in its place.
Six such blocks train well, if the learning rate is right and the branches start small (chapters 00 and 10). So at this depth a tanh has little
to stabilize, and can do harm. Zhu et al. report parity for far deeper stacks, trained on billions of tokens, with $\alpha_0$ chosen by a sweep. Our result says nothing about them. The closest public evidence that we know of is the log of
[nanochat](https://github.com/karpathy/nanochat/blob/92d63d4e8bb4df75c3b71618f31ddde2378b2bcd/dev/LOG.md#L7): in its twelve layers no variant of DyT beat the baseline.

In the figure, where most points are single runs, the stack without norms diverges at three times its best learning rate. At three times their best rates DyT and Derf
still train, presumably because the curve is bounded: however large the stream grows, the inputs of the sublayers stay small. At ten times the best rate only RMSNorm's loss is far below 3.1 nats, roughly the loss of the unigram baseline (character frequencies alone).

### Why is DyT's loss higher? Three hypotheses

We tested three hypotheses, and none of the tests identifies the reason. We did not test a fourth, that branches start smaller under DyT.

1. **$\alpha$ does not adapt.** The stream grows as sublayers write into it, and a norm divides this growth out. For DyT to do the same, $\alpha$
   would have to track $1/\mathrm{RMS}$ of the input, norm by norm.
2. **Saturation.** Entries that have outgrown $1/\alpha$ are on the flat
   ends of the curve. The input of the sublayers is then little more than signs, and only a few entries still send $\alpha$ a gradient.
3. **The activation function.** [Verma (2026)](https://arxiv.org/abs/2604.23434) attributes the collapse of a LLaMA with DyT to SwiGLU, and the ladder's models have SwiGLU, too.

| question | choices | ours |
| --- | --- | --- |
| After training, how many of DyT's entries are saturated, that is, have $\lvert\tanh(\alpha x)\rvert > \tfrac{19}{20}$? (The first norm does not count.) <!-- 07-trained-dyt-is-saturated 07-learned-alpha-follows-scale --> | few; <!-- 0.2 --> about half; <!-- 0.8 --> nearly all | <details><summary>show</summary>After training most entries of DyT are saturated, and α follows one over the size of the input.</details> |
"""

# %%
own_rate = {labels["arm"]: labels["lr"] for labels, _ in climbed.where(rung=rung, stage="first")}
dyt = replace(ladder.build_base_run(rung, "dyt"), probes=looks)
at_its_own = {"train.lr": [own_rate["dyt"]], "seed": five}
inside = lab.run(Experiment(dyt, at_its_own))

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(Experiment(dyt, at_its_own))

# %%
maps = inside.values("norm-maps")[0]
draw_maps(
    {"first norm": maps[0], "a middle norm": maps[len(maps) // 2], "last norm": maps[-1]},
    "Outputs of DyT against its inputs, in the ladder's model after training. Here the S is built in, so compare the range of the inputs with the width of the steep part: "
    "entries on the two flat ends pass hardly any gradient.",
    inside,
).named("dyt-maps")


# %%
def average_flat(record):
    """Average the share of saturated entries over all norms but the first."""
    return fmean(row["flat"] for row in record.probes["norm-maps"][1:])


def share_above(record, cut):
    """Average the share of entries with |tanh| above a cut, from 80 of each norm at equal steps of rank."""
    maps = record.probes["norm-maps"][1:]
    return fmean(fmean(abs(y) > cut for y in row["points"][1][:80]) for row in maps)


inside.measure(average_flat).claim(
    "07-trained-dyt-is-saturated",
    "> 0.5",
    "In a trained model, most entries of the DyT layers are saturated.",
    found="In a trained model with DyT, {mean:.0%} of the entries of all DyT layers but the first are saturated (|tanh| > 0.95). With a threshold of 0.9 the share is about {lower:.0%}, and with 0.99 it is about {higher:.0%} (estimated from 80 entries per layer).",
    source="this chapter's suspicion; for GPT-2 of 64M parameters Verma 2026, arXiv 2604.23434",
    published="49 % saturated at 1M tokens, 23 % at 118M (|αx| > 2)",
    beside={
        "lower": inside.measure(lambda record: share_above(record, 0.9)),
        "higher": inside.measure(lambda record: share_above(record, 0.99)),
    },
)


# %%
def follow(record):
    """Correlate log |α| with log 1/RMS over the norms of a model."""
    maps = record.probes["norm-maps"]
    alphas = np.log([abs(row["alpha"]) for row in maps])
    scales = np.log([1 / row["rms"] for row in maps])
    return np.corrcoef(alphas, scales)[0, 1]


inside.measure(follow).claim(
    "07-learned-alpha-follows-scale",
    "> 0.5",
    "DyT's learned α tracks one over the RMS of the layer's input.",
    found="If α starts at 1, the correlation between log |α| and log (1/RMS of the layer's input) over all DyT layers of a trained model is {mean:+.2f}.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 6 (α after training against 1/std)",
    published="α tracks 1/std of the activations",
    beside={"second value": "α from ¼ and from 4: the table below"},
    domain=Domain("models of full size, trained to the end", ours, inside=False),
)

# %% [markdown]
r"""
About half of the entries are saturated. The first hypothesis fits so far: $\alpha$ has decreased from 1 in every DyT layer, but we do not see that it has decreased more where the input is larger.

The second hypothesis can be tested. If $\alpha$ starts at a quarter, fewer entries should be saturated, *provided that the stream stays as it was*. If it starts at four, more entries should be saturated. We trained the same model from both initial values. Before you look, predict how three quantities change from the first DyT layer to the last: the RMS of the input, the learned $\alpha$, and the share of saturated entries.
"""

# %%
quarter = lab.run(Experiment(dyt, {**at_its_own, "model.alpha": [(0.25, 0.25)]}))
four = lab.run(Experiment(dyt, {**at_its_own, "model.alpha": [(4.0, 4.0)]}))
starts = {"α starts at ¼": quarter, "α starts at 1": inside, "α starts at 4": four}
plots.panels(
    {
        title: {
            name: [
                {i: row[key] for i, row in enumerate(maps, 1)} for maps in of.values("norm-maps")
            ]
            for name, of in starts.items()
        }
        for title, key in (
            ("RMS of the input", "rms"),
            ("learned α", "alpha"),
            ("share of saturated entries", "flat"),
        )
    },
    xlabel="norm, from the first to the last",
    log=["RMS of the input", "learned α"],
    limits={"share of saturated entries": (0, 1)},
    caption="RMS of the input, learned α and share of saturated entries after training, at each DyT layer of the ladder's model, from three initial values of α at the same learning rate. "
    "The initial values of α are a factor of four apart. In which panel, and at which norms, are two lines still at least that far apart?",
    provenance=lab.provenance(inside, quarter, four),
).named("first-alpha")


# %%
def read_last(record):
    """Read the RMS of the last norm's input."""
    return record.probes["norm-maps"][-1]["rms"]


many, few = (of.measure(average_flat) for of in (inside, quarter))
(many - few).claim(
    "07-smaller-first-alpha-leaves-fewer-flat",
    "> 0.1",
    "If DyT's α starts at ¼ instead of 1, the share of saturated entries after training is more than 10 percentage points smaller.",
    found="If DyT's α starts at ¼ instead of 1, {few:.0%} of the entries are saturated after training instead of {many:.0%} (a decrease of {mean:.2f} in the share). The RMS of the last DyT layer's input is {times:.1f} times as large, and the test loss changes by {loss:+.3f} nats.",
    source="this chapter: α times the stream decides, if the stream stays as it was",
    beside={
        "few": few,
        "many": many,
        "times": quarter.measure(read_last).mean / inside.measure(read_last).mean,
        "loss": quarter.measure("test.loss") - inside.measure("test.loss"),
    },
)
# %%
plots.table(
    {
        "model": title,
        "test loss": f"{of.measure('test.loss').mean:.3f}",
        "saturated entries": f"{of.measure(average_flat).mean:.0%}",
        "RMS of the last norm's input": f"{of.measure(read_last).mean:.1f}",
        "correlation of log α and log 1/RMS": f"{of.measure(follow).mean:+.2f}",
    }
    for title, of in starts.items()
)

# %% [markdown]
r"""
If $\alpha$ starts at a quarter, little of the factor of four is left after training: the learned $\alpha$ is only somewhat smaller than from an initial value of 1, and we detect no change in the share of saturated entries. If it starts at four, $\alpha$ becomes small only in
the last layers. In the others nearly all entries stay saturated, and only the few remaining entries send $\alpha$ a gradient. At the learning rate that was tuned for an initial $\alpha$ of 1, both other initial values give a higher loss, and the initial value of 4 gives a far higher one.

So the loss is high where nearly all entries are saturated, as the second hypothesis says. But with an initial $\alpha$ of ¼ the loss is higher, too, and we do not see a higher share of saturated entries. This suggests that saturation is not the whole reason.
In the models of [Verma (2026)](https://arxiv.org/abs/2604.23434), more entries are saturated where DyT's loss is *lower* than the baseline's (49 %, on little text) than where it is higher (23 %, on much text).

The last column of the table
speaks against the first hypothesis: the correlation is highest where DyT's loss is highest.

The third hypothesis is the simplest to test. We replaced SwiGLU by GELU, with the same number of parameters, in the model with DyT and in the one without norms, each at its previous learning rate.

| question | choices | ours |
| --- | --- | --- |
| With GELU in place of SwiGLU, which of the two models has the lower loss? <!-- 07-dyt-is-behind-without-swiglu-too --> | DyT; <!-- 0 --> the model without norms | <details><summary>show</summary>With GELU in place of SwiGLU, DyT's loss is higher than that of the model without any norm, too.</details> |
"""

# %%
gelu = {}
for name in ("DyT", "no norm"):
    arm = racers[name]
    swap = {"model.activation": ["gelu"], "train.lr": [own_rate[arm]], "seed": five}
    gelu[name] = lab.run(Experiment(ladder.build_base_run(rung, arm), swap))

# %%
normless = climbed.where(arm="none", rung=rung, stage="first")
ends = {
    act: {name: of.measure("test.loss") for name, of in models.items()}
    for act, models in (("SwiGLU", {"DyT": inside, "no norm": normless}), ("GELU", gelu))
}
gaps = {act: of["DyT"] - of["no norm"] for act, of in ends.items()}
tested = {
    "last step": "the test loss at the end",
    "control": "the same rates and seeds with SwiGLU",
}

# %%
plots.table(
    [
        {"model": f"{name}, {act}"} | {f"seed {seed}": loss for seed, loss in enumerate(of.values)}
        for act, models in ends.items()
        for name, of in models.items()
    ],
    digits=3,
)

# %%
gaps["GELU"].claim(
    "07-dyt-is-behind-without-swiglu-too",
    "> 0",
    "With GELU in place of SwiGLU DyT ends above no norm at all, too.",
    found="With GELU, the test loss of the model without norms is {apart:.3f} nats {side} DyT's. With SwiGLU and the same seeds, the difference (DyT minus no norms) is {with_swiglu:+.3f} nats.",
    source="Verma 2026, arXiv 2604.23434, on SwiGLU",
    beside={"with_swiglu": gaps["SwiGLU"], **tested},
)
(gaps["SwiGLU"] - gaps["GELU"]).claim(
    "07-swiglu-makes-half-of-the-gap",
    "> 0.045",
    "GELU in place of SwiGLU takes away half of DyT's distance to no norm at all, or more.",
    found="With GELU, the gap (DyT's test loss minus that of the same model without norms) is {apart:.3f} nats {side} with SwiGLU.",
    source="Verma 2026, arXiv 2604.23434, on SwiGLU",
    beside=tested,
)

# %% [markdown]
r"""
With GELU, too, DyT's loss is higher than that of the model without norms, but this verdict is *weak*: in the last row of the table, one run of the model without norms has a far higher loss than the others, which widens both intervals. So the second card does not
show how much of the difference is due to SwiGLU. Without norms the model with GELU may need a lower learning rate, which we did not try.

| hypothesis | test | result | what remains open |
| --- | --- | --- | --- |
| $\alpha$ does not adapt | its correlation with 1/RMS of the input | with 1 as its initial value we detect none; with 4, where the loss is highest, it is strongest | whether a lack of adaptation raises the loss |
| saturation | start $\alpha$ at ¼ and at 4 | with 4 nearly all entries are saturated, and the loss is far higher; with ¼ the loss is higher, too, and we detect no change in saturation | how much of the higher loss it explains |
| SwiGLU | GELU in its place | DyT's loss is still higher than without norms, but an outlying run makes the verdict weak | how much of the difference is due to SwiGLU |
| smaller branches | not tested | – | everything |

### Images, and a rate that is too high

DyT's authors report success with vision transformers: ViT-B's accuracy on ImageNet is 82.3 % with layer norm and 82.5 % with DyT ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)). On our digits DyT has a shift and $\alpha_0 = \tfrac12$, both as
published for vision transformers. All three models, including *no norm*, keep the ViT's last layer norm. The table lists the test accuracy on digits. Guessing is right one time in ten.
"""

# %%
beyond = tried.where(lr=ladder.COARSE[4])
right, burnt, beyond = (of.measure_by("test.accuracy", "arm") for of in (seen, hot, beyond))
plots.table(
    {
        "model": arm,
        "rate": rate or f"{tuned[arm]['train.lr']:g}, tuned",
        "runs": len(of[arm]),
        "lowest": f"{min(of[arm].values):.1%}",
        "median": f"{of[arm].median:.1%}",
        "highest": f"{max(of[arm].values):.1%}",
    }
    for rate, of in (("", right), (f"{high:g}", burnt), (f"{ladder.COARSE[4]:g}", beyond))
    for arm in eyes
)

# %%
(burnt["DyT"] - burnt["no norm"]).claim(
    "07-dyt-survives-a-high-rate",
    "> 0.2",
    "At a high learning rate, a vision transformer with DyT in its blocks trains, and one without norms in its blocks does not.",
    found=f"At learning rate {high:g}, the share of digits that a vision transformer classifies correctly is {{mean:.2f}} higher with DyT in its blocks than without norms in them.",
    source="DyT is bounded; this chapter's expectation",
    beside={
        "second value": "at the next rate both fail (table)",
        "last step": "the accuracy at the end",
        "control": "layer norm, and each model at its tuned rate (table)",
    },
)

# %% [markdown]
r"""
At the high learning rate the model without norms in its blocks is hardly more accurate than guessing, and DyT is about as accurate as layer norm. At the next rate DyT's accuracy is that of guessing, too (one run). Does DyT train at the high rate because it is bounded? These runs cannot tell: DyT with an initial $\alpha$ of ½ is bounded, but its branches are smaller, too, and we did not train a model with small branches and no bound.

### Very little text

[Verma (2026)](https://arxiv.org/abs/2604.23434) finds that DyT *helps* a model of 64 million parameters trained on one million tokens (its validation loss is 27.3 % lower)
and hurts it on 118 million tokens (18.8 % higher). A possible reason is that a model which fits its training text less closely also overfits less. We trained the small text model with layer norm and with DyT on scarce text: the first 2,048
characters of the corpus, each read forty-five times.
"""

# %%
poor = replace(young, data=replace(young.data, characters=sizes.characters))
pair = {"layer norm": {"model.norm": "layer"}, "DyT": {"model.recipe": "dyt"}}
search = {"arm": pair, "train.lr": sizes.rates, "seed": [ladder.TUNING_SEED]}
searched = lab.run(Experiment(replace(poor, probes=looks[:2]), search))

# %%
own = {arm: {**pair[arm], "train.lr": of.best("lr")} for arm, of in searched.by("arm").items()}
scarce = {
    how: lab.run(Experiment(poor, {"arm": arms, "seed": five})).measure_by("test.loss", "arm")
    for how, arms in (("one rate", pair), ("own rate", own))
}

# %%
plots.curves(
    searched.measure_by("test.loss", "arm", "lr"),
    xlabel="peak learning rate",
    ylabel="test loss (nats)",
    logx=True,
    caption="Test loss against peak learning rate for layer norm and DyT, after training on 2,048 characters. Above its best learning rate, each model's test loss rises again. Which of the two models has the lower loss at 0.01, and which has the lower minimum?",
    provenance=lab.provenance(searched),
).named("little-text")

# %%
lead = {how: of["layer norm"] - of["DyT"] for how, of in scarce.items()}
lead["own rate"].tuned(regime.untuned(searched, five)).claim(
    "07-scarce-data-each-tuned",
    "> 0",
    "With little training text and tuned learning rates, DyT reaches a lower test loss than layer norm.",
    found="After training on 2,048 characters, with tuned learning rates, DyT's test loss is {apart:.3f} nats {side} layer norm's. With both at learning rate 0.01, the difference (layer norm minus DyT) is {same:+.3f} nats.",
    source="Verma 2026, arXiv 2604.23434, 64M parameters on 1M tokens",
    published="DyT's validation loss is 27.3 % lower",
    beside={"same": lead["one rate"]},
    domain=Domain(
        "64M parameters, 1M tokens",
        "four blocks of width 32, 2,048 characters, 180 steps",
        inside=False,
    ),
)

# %% [markdown]
r"""
At 0.01 DyT's loss is lower, but for layer norm this rate is too high: lowering the rate helps the model with layer norm about as much as replacing its norms by DyT does. With tuned rates the interval of the difference contains zero. The only advantage of DyT that we see on this text is that too high a learning rate raises its loss less.

## Where it goes wrong

We invented three mistakes. **$\alpha$ outside**: $\alpha\tanh(x)$ runs without an error, but it bends near $|x| = 1$ whatever $\alpha$ is, and $\alpha$ is only a gain. **A shortcut for tanh**, $2\,\mathrm{sigmoid}(2u) - 1$, is the
same function on paper, but near zero it subtracts two nearly equal numbers, and small activations lose their digits. **The shift inside** is $\tanh(\alpha x + \beta)$.
None of them crashes, but the check of exercise 1 notices all three:
"""


# %% tags=["mechanism"]
def outside(x, alpha=0.5, weight=None, bias=None):
    """Multiply by α after the tanh."""
    return alpha * dynamic_tanh(x, 1.0, weight, bias)


def shortcut(x, alpha=0.5, weight=None, bias=None):
    """Take tanh from a sigmoid."""
    y = 2 * torch.sigmoid(2 * alpha * x) - 1
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def inner_shift(x, alpha=0.5, weight=None, bias=None):
    """Shift before the tanh."""
    y = torch.tanh(alpha * x if bias is None else alpha * x + bias)
    return y if weight is None else y * weight


# %%
slips = {"α outside": outside, "2σ(2αx) − 1": shortcut, "the shift inside": inner_shift}
reports = {slip: check.dynamic_tanh(wrong) for slip, wrong in slips.items()}
plots.table(
    {
        "mistake": slip,
        "checks passed": f"{sum(law.ok for law in report.laws)} of {len(report.laws)}",
        "what the check says": next(iter(report.causes), f"fails first: {report.failed[0].name}"),
    }
    for slip, report in reports.items()
)

# %% [markdown]
r"""
## Exercises

**2 (by hand, 5 minutes).** A batch holds two tokens, $(1, -1, 1, -1)$ and $(1, -1, 7, -7)$. Layer norm has gain 1, shift 0 and $\epsilon = 0$. Over both
tokens, what is the average output at the input $x = 1$, and what is it at $x = 7$? Divide the average output by the input, at 1 and at 7. How many times smaller is the quotient at 7 (how many times flatter is the map)?
"""

# %% tags=["exercise"]
yours = {"at 1": ..., "at 7": ..., "times flatter": ...}

# %%
pair = torch.tensor([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 7.0, -7.0]], dtype=torch.float64)
pooled = layer_norm(pair, eps=0.0)
at = {v: pooled[pair == v].mean().item() for v in (1.0, 7.0)}
truth = {"at 1": at[1.0], "at 7": at[7.0], "times flatter": at[1.0] / (at[7.0] / 7)}
check.answer(yours, truth, name="2", hint="three entries are 1; which lines do they lie on?")

# %% [markdown]
r"""
<details><summary>Hint</summary>

The variances are 1 and $(1 + 1 + 49 + 49)/4$.

</details>
<details><summary>Solution</summary>

$\sigma = 1$ and $\sigma = 5$. At $x = 1$ there are two entries of the first token, with output 1, and one of the second, with $\tfrac15$: the average is
$(1 + 1 + \tfrac15)/3 = 11/15$. At $x = 7$ the output is $\tfrac75$, a slope of $\tfrac15$. So the map is flatter by a factor of $\tfrac{11}{15}\cdot5 = \tfrac{11}{3}$: two lines make an S.

</details>

**3 (a proof, 10 minutes).** Which entry-by-entry maps are invariant to scale? Let $f: \mathbb R\to\mathbb R$ have $f(cx) = f(x)$ for all $c > 0$ and all $x$. (a) Show that
$f$ is constant if it is continuous at 0. (b) Which other maps have this property if continuity is not required? (c) DyT has a gain $\gamma$. Let $\gamma = 1/\alpha$, and show that for
$\alpha\to0$ the map becomes the identity, that is, no norm at all. With $\gamma = 1$, what is its limit for $\alpha\to\infty$?

<details><summary>Hint</summary>

(a) Let $c$ go to zero. (c) $\tanh u = u + O(u^3)$.

</details>
<details><summary>Solution</summary>

(a) For any $x$, $f(x) = f(cx)$ for all $c > 0$, so $f(x) = \lim_{c\to0} f(cx) = f(0)$. (b) $f$ is constant on the positive numbers, constant on the negative ones, and free at 0:
a sign, up to shift and scale. (c) $\tanh(\alpha x)/\alpha = x + O(\alpha^2)$, the identity. With $\gamma = 1$ and $\alpha\to\infty$ the limit is the sign of $x$.

</details>

**4 (open).** Find a recipe with which DyT reaches RMSNorm's loss on this text: an initial $\alpha$ for attention that differs from the rest, a norm on the embedding, or a gain that gives branches the
size that they have under a norm. Write down beforehand which result would make you stop. Use five seeds, and tune the norm with the same care.
"""

# %% tags=["exercise"]
my_prediction = "…"
ideas = {
    "attention apart": {"model.alpha": (4.0, 1.0)},
    "the rest apart": {"model.alpha": (1.0, 4.0)},
}
my_base = replace(ladder.build_base_run(rung, "dyt"), probes=looks)
my_experiment = Experiment(my_base, {"arm": ideas, "train.lr": [own_rate["dyt"]], "seed": five})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## How we know

### Published results that our size cannot test

Two more cards compare our models with published results, and give no verdict. The first is on Derf and DyT:
"""

# %%
ladder.improvement(climbed, "derf", "dyt").claim(
    "07-derf-is-ahead-of-dyt",
    "> 0",
    "With tuned learning rates, Derf reaches a lower test loss than DyT.",
    found="At size {rung}, with tuned learning rates, Derf's test loss is {apart:.3f} nats {side} DyT's.",
    source="Chen et al. 2025, arXiv 2512.10938, GPT-2 of 124M parameters",
    published="DyT 2.97, Derf 2.94, LayerNorm 2.94 nats",
    domain=Domain("GPT-2 with 124M parameters", ours, inside=False),
)

# %% [markdown]
r"""
The second compares DyT with layer norm on digits. It does not test the published parity, since ImageNet is a different task:
"""

# %%
(right["DyT"] - right["layer norm"]).tuned(regime.untuned(tried, five)).claim(
    "07-vit-parity",
    "> -0.015",
    "With tuned learning rates, DyT is as accurate as layer norm on images.",
    found="With tuned learning rates, the share of digits that a vision transformer with layer norm classifies correctly is {apart:.3f} {side} the share with DyT.",
    source="Zhu et al. 2025, arXiv 2503.10622, ViT-B on ImageNet",
    published="DyT 82.5 %, layer norm 82.3 %",
    domain=Domain(
        "ViT-B on ImageNet", "three blocks of width 32 on digits of 8 × 8 pixels", inside=False
    ),
)

# %% [markdown]
r"""
## What you now know

- **Where does the S come from?** It comes from the tokens. Each token has a straight line whose slope is set by its standard deviation. Where standard deviations differ, the lines together form an S. <!-- 07-one-token-is-a-line 07-spread-makes-the-s -->
- **Can one curve do the work of a norm?** It can do half of it. With DyT our image model learned at a learning rate at which blocks without norms fail, perhaps because DyT is bounded or its branches are smaller. No continuous map of single entries, other than a constant, is invariant to scale.
  For DyT, scaling the stream and scaling $\alpha$ have the same effect. <!-- 07-dyt-survives-a-high-rate 07-scale-and-alpha-are-one-knob -->
- On text, at the one size that we trained, DyT's loss is higher than that of a norm, and higher than that of the same model without norms. The authors report parity for far larger models, with
$\alpha_0$ chosen by a sweep. <!-- 07-ladder-dyt-against-rms-norm 07-dyt-beats-no-norm -->
- The reason for DyT's higher loss remains open. At the rate tuned for an initial $\alpha$ of 1, an initial $\alpha$ of 4 leaves nearly every entry saturated and raises the loss considerably. An initial $\alpha$ of a quarter raises the loss, too, and we did not see the share of saturated entries fall.
  With GELU in place of SwiGLU, at one learning rate each, DyT's loss is again higher than that of the model without norms, though an outlying run makes this verdict weak. <!-- 07-smaller-first-alpha-leaves-fewer-flat 07-trained-dyt-is-saturated 07-learned-alpha-follows-scale 07-dyt-is-behind-without-swiglu-too -->
- An advantage on little data must survive the tuning of both methods. Our runs did not show that it does. <!-- 07-scarce-data-each-tuned -->
- BHyT contains a norm. <!-- 07-bhyt-is-a-small-rms-norm -->

## To carry away

- **Equation.** $y = \gamma\tanh(\alpha x) + \beta$, entry by entry, with one learned $\alpha$ per layer.
- **When to use it.** Use DyT where a statistic over a token is not available, and $\alpha$ can be tuned. Chapter 09 counts its memory traffic, and asks how much time DyT saves.
- **Cost.** DyT is not invariant to scale, its saturated entries pass hardly any gradient, and its best learning rate differs from a norm's.
- **Related methods.** Derf (erf in place of tanh), BHyT, PRepBN (statistics in training only).

| symptom | cause | remedy |
| --- | --- | --- |
| a higher loss from the first steps | embeddings far below $1/\alpha$ | the factor $\sqrt d$ on the embedding |
| a higher loss at the end | saturated entries, a hypothesis | a sweep of the initial $\alpha$ |
| a lower loss on little data | a rate too high for the baseline | a tuned learning rate for both |

## References

Works cited: [Byun et al. (2026)](https://arxiv.org/abs/2601.09719), [Chen et al. (2025)](https://arxiv.org/abs/2512.10938), [Dosovitskiy et al. (2021)](https://arxiv.org/abs/2010.11929), [Guo et al. (2024)](https://arxiv.org/abs/2405.11582), [Stollenwerk (2026)](https://arxiv.org/abs/2503.21708), [Sun et al. (2024)](https://arxiv.org/abs/2402.17762), [Verma (2026)](https://arxiv.org/abs/2604.23434), [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
