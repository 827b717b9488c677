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

**Question.** [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622) plotted trained layer norms and saw
curves shaped like an S. They put a $\tanh$, without any statistic, in place of each norm, and report equal quality. But on one token layer norm is a *straight line*.
Where does the S come from, and can one curve for all tokens do the work of a norm?

**In short.**

- The S comes from the tokens. Each has a straight line of its own; tokens of different size have lines of different slope, and many lines look like an S.
- A curve that is the same for all tokens keeps half of what a norm does: nothing leaves its bounds. The other half is gone: it is not blind to the size of its input.
- On text, at the one small size that we trained, DyT ends behind a norm, and even behind the same model with every norm taken out. On images it still trains at a rate at which our model fails without norms.
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
    # smoke, book
    rung=("smoke", "S"),
    steps=(3, 180),
    seeing=(4, 400),
    held_out=(512, 4096),
    characters=(1024, 2048),
    rates=([0.003, 0.01], [0.0003, 0.001, 0.003, 0.01, 0.03]),
)
rung, five = sizes.rung, lab.seeds(5)


# %%
def mixture(s, tokens=400, width=256):
    """Draw tokens of which one in ten has spread s; the others have spread 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=generator, dtype=torch.float64)
    x[: tokens // 10] *= s
    return x


def draw(s):
    """Draw layer norm's map over such tokens."""
    told = describe("layer", nn.LayerNorm(256).double(), mixture(s))
    title = {f"layer norm, one token in ten {s} times as wide": told}
    return plots.norm_curves(title, caption="Points: single entries. Lines: single tokens.")


plots.explore(
    draw,
    [1, 2, 4, 8],
    "spread-of-wild-tokens",
    start=8,
    label="size of one token in ten",
    caption="One layer norm on a batch in which one token in ten is larger: move its size. Over all tokens the map flattens at the ends; with size 1 it is a line. Lines: three single "
    "tokens. Here and below extreme entries are drawn as often as ordinary ones, so that the ends can be seen. The bend is the slope far out over the slope in the middle: 1 for a line, less for an S.",
)

# %% [markdown]
r"""
## The idea: one number in, one number out

DyT replaces a norm by a curve,

$$\mathrm{DyT}(x) = \gamma\odot\tanh(\alpha x) + \beta,$$

with one learned number $\alpha$ a layer. Its authors report parity with norms from images to language models of 70 billion parameters.

Two tokens, the second ten times the first. What does each map make of them? ($\alpha = \tfrac12$, gain 1, shift 0.)
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
    [
        {"map": name, **{of: ", ".join(f"{v:.2f}" for v in f(x)) for of, x in inputs.items()}}
        for name, f in maps.items()
    ]
)

# %% [markdown]
r"""
Layer norm is blind to the factor ten. DyT is not: of the small token it keeps the order of sizes (3 to 1 becomes 2 to 1), of the large one little more than the
signs. But both are **bounded**. With gain 1 no entry of DyT exceeds 1, and no entry of layer norm exceeds $\sqrt{d-1}$, for $d$ channels. DyT's
authors say that what matters is that extreme values are squashed. Derf and BHyT, the table's last rows, come below.

## Where the S comes from

By the size of a token we mean its standard deviation $\sigma$, here nearly its RMS; cards and figures call it its *spread*. For one token, layer norm is $y_i = (x_i - \mu)/\sigma$ with the *same* $\mu$ and $\sigma$ for all $i$: a line of slope $1/\sigma$.
Another token has another $\sigma$, hence another line. Now forget which token an entry came from and plot all entries. Means are
small (chapter 03), so set $\mu = 0$. At the input $x$ the average output is

$$\mathbb E[\,y \mid x\,] = x\cdot \mathbb E[\,1/\sigma \mid x\,].$$

The second factor averages over the tokens *that have an entry at $x$*. Near zero every token has entries. Far out only tokens with a large
$\sigma$ have any, and their lines are flat. So the pooled map is steep in the middle and flatter at the ends. It needs one thing: tokens of
**different** size. That is the slider above, where one token in ten is larger.

For a number, let the **bend** be the slope of the far entries, the largest hundredth, over the slope of the middle, the smaller half. A
line has bend 1, an S less.
"""

# %%
x = mixture(8)
y = layer_norm(x, eps=0.0)
slope = (y * x).sum(-1) / (x * (x - x.mean(-1, keepdim=True))).sum(-1)
off = y - slope[:, None] * (x - x.mean(-1, keepdim=True))
exact(off.abs().max(), tolerance=1e-10).claim(
    "07-one-token-is-a-line",
    "< 1e-10",
    "For one token layer norm is a straight line.",
    found="For each single token, layer norm's output is off a straight line by {mean:.0e} at most.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 3; the definition of LayerNorm",
    published="linear for each token; the S is seen over tokens and channels",
)
# %%
bends = {s: bend(mixture(s), layer_norm(mixture(s))) for s in (1, 8)}
exact(bends[8]).claim(
    "07-spread-makes-the-s",
    "< 0.3",
    "Tokens of different spread make layer norm's map an S.",
    found="Layer norm's bend is {one:.2f} over tokens of one spread and {mean:.2f} where a tenth has spread 8.",
    source="the average above: for spread 8 about 1/8 over the slope of the middle",
    beside={"one": bends[1]},
)

# %% [markdown]
r"""
So a picture of an S says that the *data* hold tokens of very different size. Large models have such tokens:
a few of their activations are up to 100,000 times the rest ([Sun et al., 2024](https://arxiv.org/abs/2402.17762)).

There is a second reading, in which the norm itself bends. Hold all entries of a token but one, and move that one: $\sigma$ follows, and the line of
the token turns. With $C$ the sum of squares of the others, RMSNorm's
output for it is

$$y = \sqrt d\;\frac{x}{\sqrt{x^2 + C}},$$

a smooth, bounded S. [Stollenwerk (2026)](https://arxiv.org/abs/2503.21708) starts here, reaches DyT by an approximation, and takes this
curve for the exact counterpart. What differs is who sets the width: here $\sqrt C$, measured anew for each token; in DyT $1/\alpha$, one
number for all of them.
"""

# %%
others = torch.randn(63, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
moving = torch.linspace(-60, 60, 121, dtype=torch.float64)
rows = torch.cat([moving[:, None], others.expand(121, 63)], dim=1)
isru = 8 * moving / (moving.square() + others.square().sum()).sqrt()
exact((rms_norm(rows, eps=0.0)[:, 0] - isru).abs().max(), tolerance=1e-10).claim(
    "07-one-entry-is-an-s",
    "< 1e-10",
    "Along one entry RMSNorm is an S-shaped curve.",
    found="RMSNorm's output for one moving entry differs from √d x/√(x² + C) by {mean:.0e} at most.",
    source="algebra above; compare Stollenwerk 2026, arXiv 2503.21708",
)

# %% [markdown]
r"""
## What is kept, and what is not

### What is given up: blindness to scale

$\tanh(\alpha\cdot c\,x) = \tanh((c\alpha)\,x)$. Multiply the input by $c$, or multiply $\alpha$ by $c$: the same function. Where a model fixes
the size of its stream, it also fixes which $\alpha$ is good. A language model draws small embeddings, which the first norm used to repair;
the authors' LLaMA therefore multiplies them by a learned number that starts at $\sqrt d$. Deeper down the size is whatever the
sublayers have written, and in a Pre-Norm stack it grows (chapter 02).

Would a cleverer curve do better? No: **a continuous map of single entries that is blind to scale is constant** (exercise 3). Without continuity one may have three
values, for positive numbers, for negative ones, and for 0: a sign. So every entry-by-entry replacement of a norm is a compromise between a line, which
passes all size on, and a sign, which passes none. DyT chooses by $\alpha$, and when the stream grows it slides towards the sign.

### The gradient

Layer norm's Jacobian is a dense matrix: it removes the mean and the component along $x - \mu$, and divides by $\sigma$ (chapter 01). DyT's is diagonal,

$$\frac{\partial y_i}{\partial x_i} = \gamma_i\,\alpha\,\mathrm{sech}^2(\alpha x_i), \qquad \frac{\partial y}{\partial\alpha} = \gamma\odot x\odot\mathrm{sech}^2(\alpha x).$$

In both derivatives the factor $\mathrm{sech}^2$ vanishes where $|\alpha x|$ is large. An entry out there is **flat**: it passes hardly any gradient to what lies
below, *and hardly any to $\alpha$*. If most entries sit on the flat ends, only the few others send $\alpha$ a gradient. Shrinking $\alpha$ would
repair the layer, but a few exceptional entries decide whether it shrinks. In a norm one huge entry is flat as well, since it divides by itself; but its
neighbours still pass $\gamma/\sigma$. And if all entries of a token grow, none of them goes flat.

*By hand.* A token has the entries ½ and 4; $\alpha = \gamma = 1$. What share of the gradient passes each entry of DyT? What does RMSNorm pass to the small one?

<details><summary>Answer</summary>

$\mathrm{sech}^2\tfrac12 \approx 0.79$ and $\mathrm{sech}^2 4 \approx 0.0013$. RMSNorm has $r = \sqrt{65/8} \approx 2.85$ and passes $\tfrac1r\big(1 - \tfrac1{65}\big) \approx 0.35$: the large neighbour
leaves the small entry about a third of the gradient that it would get in a token of RMS 1, and does not silence it.

</details>
"""

# %%
entries = np.linspace(-4, 4, 81).tolist()
bends, slopes = np.tanh(entries).tolist(), (1 / np.cosh(entries) ** 2).tolist()
plots.panels(
    {
        "what comes out": {
            "layer norm": [dict(zip(entries, entries, strict=True))],
            "DyT": [dict(zip(entries, bends, strict=True))],
        },
        "what a gradient is multiplied by": {
            "layer norm": [dict.fromkeys(entries, 1.0)],
            "DyT": [dict(zip(entries, slopes, strict=True))],
        },
    },
    xlabel="α x; for layer norm, of a token with deviation 1",
    caption="To a norm all entries of a token lie on one straight line and share its slope. DyT bends: beyond two on either side "
    "the output hardly says more than the sign, and hardly any gradient passes.",
).named("flat-ends")

# %% [markdown]
r"""
### What a branch reads at first

A norm hands each sublayer numbers of RMS 1. DyT does not: of normal input with RMS 1 it makes

$$\mathrm{RMS} = \sqrt{\mathbb E\,\tanh^2(\alpha z)}, \qquad z \sim \mathcal N(0, 1),$$

which is below 1 for every $\alpha$. So with the same weights every branch starts smaller under DyT than under a norm, and chapter 05 shows how much hangs on the first size
of branches. In every comparison of DyT with a norm this changes, too.
"""

# %%
torch.manual_seed(seed)
x = torch.randn(5, 16, dtype=torch.float64)
alpha, gain = torch.tensor([0.7], dtype=torch.float64), torch.rand(16, dtype=torch.float64)
shifted = dynamic_tanh(10 * x, alpha / 10) - dynamic_tanh(x, alpha)
exact(shifted.abs().max(), tolerance=1e-12).claim(
    "07-scale-and-alpha-are-one-knob",
    "< 1e-12",
    "The scale of the input and α are one knob.",
    found="Ten times the input at a tenth of α changes DyT's output by {mean:.0e} at most.",
    source="DyT's definition",
)

# %%
jacobian = torch.autograd.functional.jacobian(lambda v: dynamic_tanh(v, alpha, gain), x[0])
formula = torch.diag(gain * alpha / torch.cosh(alpha * x[0]).square())
exact((jacobian - formula).abs().max(), tolerance=1e-12).claim(
    "07-jacobian-is-diagonal",
    "< 1e-12",
    "DyT's Jacobian is diagonal: no channel hears another.",
    found="DyT's Jacobian by autograd and γ α sech²(α x) on the diagonal differ by {mean:.0e} at most.",
    source="the derivative of tanh",
)

# %%
nodes, weights = np.polynomial.hermite_e.hermegauss(200)  # exact sums for a normal z
first_rms = {
    alpha: float(np.sqrt(weights @ np.tanh(alpha * nodes) ** 2 / weights.sum()))
    for alpha in (0.25, 0.5, 1.0, 4.0)
}
exact(first_rms[1.0], tolerance=0.001).claim(
    "07-dyt-shrinks-what-a-branch-reads",
    "in [0.6, 0.7]",
    "With α = 1 a branch under DyT reads numbers a third smaller than under a norm.",
    found="Of normal input DyT makes RMS {quarter:.2f} for α = 1/4, {half:.2f} for 1/2, {mean:.2f} for 1 and {four:.2f} for 4.",
    source="DyT's definition, summed over a normal distribution",
    beside={"quarter": first_rms[0.25], "half": first_rms[0.5], "four": first_rms[4.0]},
)

# %% [markdown]
r"""
### Two relatives

**Derf** ([Chen et al., 2025](https://arxiv.org/abs/2512.10938)) is what a search for the best squash found: the error function with a
learned centre, $y = \gamma\odot\mathrm{erf}(\alpha x + s) + \beta$. It is nearly a tanh a fifth steeper, whose tail is flat sooner.

**BHyT** ([Byun et al., 2026](https://arxiv.org/abs/2601.09719)) is $y = w\odot\tanh\!\big(\lambda x/(\kappa\,\mathrm{RMS}(x))\big)$ with
$\kappa = 10$. Read it from the inside out: it *is* an RMSNorm, then a tanh at arguments of about a tenth, where tanh is a line, if
$\lambda = 1$; its authors start it at 1 to 5. So BHyT does not do without statistics. A block has two norms, hence two values of RMS: BHyT computes one and estimates the other.

A third road takes statistics in training only and folds them away afterwards: **PRepBN** ([Guo et al., 2024](https://arxiv.org/abs/2405.11582)), [on shelf B](B_batch.ipynb#batch-statistics-repaired-and-trained).
"""

# %%
grid = torch.linspace(-4, 4, 4001, dtype=torch.float64)
widths = torch.linspace(1.0, 1.4, 401, dtype=torch.float64)
gaps = torch.tanh(widths[:, None] * grid) - torch.erf(grid)
closest = int(gaps.square().sum(1).argmin())
exact(widths[closest], tolerance=0.005).claim(
    "07-erf-is-nearly-a-tanh",
    "in [1.19, 1.22]",
    "The error function is nearly a tanh with c = 1.205.",
    found=f"The tanh(c x) closest to erf(x) has c = {{mean:.3f}} and is off by {gaps[closest].abs().max():.3f} at most.",
    source="Chen et al. 2025, arXiv 2512.10938",
    published="c = 1.205",
)

# %%
normal = torch.randn(2000, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
away = bounded_tanh(normal) - rms_norm(normal) / 10
exact(away.square().mean().sqrt() / 0.1).claim(
    "07-bhyt-is-a-small-rms-norm",
    "< 0.03",
    "With λ = 1, BHyT is a tenth of RMSNorm on normal tokens.",
    found="With λ = 1, BHyT's output on normal tokens differs from a tenth of RMSNorm's by {mean:.1%} in root mean square.",
    source="Byun et al. 2026, arXiv 2601.09719, and its code (κ = 10)",
)

# %% [markdown]
r"""
## Implementation: you write it

**1 (in code, 5 minutes).** Write DyT. The check holds it against the formula in double precision, and names the usual slips.
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

`torch.tanh`. In half precision compute in float32 and round once, at the end.

</details>
"""


# %% tags=["solution"]
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
The function, as `labkit` has it:
"""

# %%
show(dynamic_tanh)

# %% [markdown]
r"""
In a model, the recipe `dyt` is Pre-Norm with DyT for every norm, as in the authors' LLaMA: no shift, a learned factor on the embedding, and
*two* values $\alpha_0$ from which training starts, for attention's norms and for all others. For language models they sink with the width: 1 and 1 at width
1024, 0.8 and 0.2 at 4096, 0.2 and 0.05 at 8192.
Ours are narrower than any of these and start at 1 and 1. `derf` is built the same way, but keeps its shift $\beta$.
"""

# %% [markdown]
r"""
## Predict

Between which two numbers do you expect each answer? A negative distance *below* means above.

| question | axis | ours |
| --- | --- | --- |
| From the first norm of a trained model to the last, how does the bend of the map change? (1 is a line, less an S.) <!-- 07-deeper-maps-bend-more --> | −1 to 1 | <details><summary>show</summary>In a trained model the last norm's map bends more than the first one's.</details> |
| On text, each at its own rate, how far below RMSNorm does DyT end? <!-- 07-ladder-dyt-against-rms-norm --> | −0.2 to 0.2 nats | <details><summary>show</summary>On text, each at its own rate, DyT ends level with RMSNorm.</details> |
| On text, how far below the same model without any norm does DyT end? <!-- 07-dyt-beats-no-norm --> | −0.2 to 0.2 nats | <details><summary>show</summary>DyT ends below the same model without any norm.</details> |
| On text, how far below DyT does Derf end? <!-- 07-derf-is-ahead-of-dyt --> | −0.1 to 0.1 nats | <details><summary>show</summary>Derf ends below DyT.</details> |
| After training, in what share of DyT's entries is $\lvert\tanh(\alpha x)\rvert > \tfrac{19}{20}$? We call such entries flat. (The first norm does not count.) <!-- 07-trained-dyt-is-saturated 07-learned-alpha-follows-scale --> | 0 to 100 % | <details><summary>show</summary>After training most entries of DyT are flat, and α follows one over the size of what enters.</details> |
| Start from a quarter of the first α. By how much is the share of flat entries smaller after training? <!-- 07-smaller-first-alpha-leaves-fewer-flat --> | −50 to 50 % | <details><summary>show</summary>A quarter of the first α leaves fewer entries flat.</details> |
| On images, each at its own rate, what is DyT's accuracy minus layer norm's? <!-- 07-vit-parity 07-dyt-survives-a-high-rate --> | −10 to 10 % | <details><summary>show</summary>On images DyT is as accurate as layer norm, and trains at a rate at which blocks without norms fail.</details> |
| On very little text, each at its own rate, how far below layer norm does DyT end? <!-- 07-scarce-data-each-tuned --> | −0.5 to 0.5 nats | <details><summary>show</summary>On very little text DyT is ahead, even if both are tuned.</details> |
| Put GELU in the place of SwiGLU. How far *above* the model without any norm does DyT end? <!-- 07-dyt-is-behind-without-swiglu-too --> | −0.2 to 0.2 nats | <details><summary>show</summary>With GELU in place of SwiGLU DyT ends above no norm, too.</details> |
| GELU in the place of SwiGLU: by how much does it bring DyT nearer to the model without any norm? <!-- 07-swiglu-makes-half-of-the-gap --> | −0.2 to 0.2 nats | <details><summary>show</summary>SwiGLU makes half of the gap.</details> |

What can this chapter decide? Little. Most sentences of the literature on DyT are about ImageNet, or about models a thousand times larger and more; our runs
show how such a comparison is made, and their cards give no verdict. What we can decide is about our own size: whether DyT on text does better than no norm at all, with SwiGLU and with GELU,
and whether it still trains images at a rate at which bare blocks fail.

## Measure

Three benches. *Young text*: four blocks of width 32, 180 steps. *The ladder* that the book's chapters share: six blocks of width 32, 3,200 steps, 20
characters a parameter, each arm at a rate of its own. *Digits*: a vision transformer ([Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929)) that
cuts 8×8 pixels into sixteen patches, three blocks, 400 steps. The seeds that choose a rate never report.
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
Five seeds report, each arm at its own rate, and then all at one that is high:
"""

# %%
tuned = {arm: {**eyes[arm], "train.lr": of.best("lr")} for arm, of in tried.by("arm").items()}
seen = lab.run(Experiment(replace(digits, probes=looks), {"arm": tuned, "seed": five})).by("arm")
high = ladder.COARSE[3]
hot = lab.run(Experiment(digits, {"arm": eyes, "train.lr": [high], "seed": five})).by("arm")

# %% [markdown]
r"""
### The maps of a trained model

A probe keeps what enters and leaves each norm of young text, before gain and shift. Then once more, with one thing planted: the space, the commonest symbol, gets
30 added to one channel of its embedding.
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
    """Draw norms by their names; in DyT the map of a token is no line."""
    rows = {n: row if row["alpha"] is None else {**row, "lines": []} for n, row in chosen.items()}
    return plots.norm_curves(rows, caption=caption, provenance=lab.provenance(*results))


maps, wild = (results.values("norm-maps")[0] for results in (calm, planted))
draw_maps(
    {"first norm": maps[0], "last norm": maps[-1], "first norm, planted": wild[0]},
    "Layer norm in a young model of text. Points: single entries; lines: three tokens, of the smallest, the middle and the largest "
    "spread. On the right the line of the spaces is flat, and the map half an S: all outliers have one sign.",
    calm,
    planted,
).named("learned-maps")

# %% [markdown]
r"""
Embeddings are drawn alike, so at the first norm tokens differ little in spread. Deeper down, sublayers have written more to some tokens than
to others: their lines lie flatter.
"""


# %%
def measure_change(record):
    """Subtract the bend of the first norm's map from the last one's."""
    maps = record.probes["norm-maps"]
    return maps[-1]["bend"] - maps[0]["bend"]


calm.measure(measure_change).claim(
    "07-deeper-maps-bend-more",
    "< 0",
    "The last norm's map bends more than the first one's.",
    found="From the first norm to the last the bend changes by {mean:+.2f} on young text, and by {vit:+.2f} on digits.",
    source="Zhu et al. 2025, arXiv 2503.10622, Figure 2 (ViT-B, wav2vec 2.0, DiT-XL)",
    published="early layers are nearly linear, deeper ones S-shaped",
    beside={"vit": seen["layer norm"].measure(measure_change)},
    domain=Domain(
        "trained models of full size, ViT-B, wav2vec 2.0, DiT-XL",
        "four blocks of width 32 after 180 steps on text; three on digits",
        inside=False,
    ),
)

# %% [markdown]
r"""
On digits depth does nothing of the kind, so depth alone makes no S. Both times we made an S, or half of one, from tokens of different size: in the first figure, and with the planted spaces. On text, we think, depth makes an S because it makes tokens
differ in size. And note how layer norm gets its S: each token has its own line. One curve through the middle of the cloud treats the small token and the large one alike.

### The race on text, each tuned

Now the ladder: first the search for a rate, then what the five seeds report.
"""

# %%
racers = {"RMSNorm": "pre", "DyT": "dyt", "Derf": "derf", "no norm": "none"}
climbed = lab.ladder([*racers.values(), "no attention"])
searches = climbed.where(arm=[*racers.values()], rung=rung, stage="tuning", lr=[*ladder.COARSE])
plots.curves(
    {
        name: {
            rate: [np.nan if loss is None else loss for loss in cell.values("validation.loss")]
            for rate, cell in searches.where(arm=arm).by("lr").items()
        }
        for name, arm in racers.items()
    },
    xlabel="peak learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    ylim=(1.3, 3.2),
    caption="What stands before a sublayer, by learning rate: the search of the ladder. A cross: diverged. Who has the lowest point? And who still "
    "learns at three times its best rate, and at ten times?",
    provenance=lab.provenance(searches),
).named("race-by-rate")

# %%
ours = "six blocks of width 32, 20 characters a parameter (the shared ladder)"
ladder.improvement(climbed, "dyt").claim(
    "07-ladder-dyt-against-rms-norm",
    "> -0.02",
    "With each at its own rate, DyT ends level with RMSNorm on text.",
    found="On rung {rung}, each at its own rate, DyT's lead over RMSNorm is {mean:+.3f} nats.",
    source="Zhu et al. 2025, arXiv 2503.10622, language models",
    published="LLaMA 7B to 70B: the same loss as RMSNorm",
    domain=Domain("LLaMA, 7B to 70B parameters", ours, inside=False),
)

# %%
ladder.improvement(climbed, "dyt", "none").claim(
    "07-dyt-beats-no-norm",
    "> 0",
    "With each at its own rate, DyT ends below no norm at all.",
    found="On rung {rung}, each at its own rate, DyT ends {apart:.3f} nats {side} no norm at all.",
    source="this book's control for Zhu et al. 2025, arXiv 2503.10622",
)

# %%
ladder.improvement(climbed, "derf", "dyt").claim(
    "07-derf-is-ahead-of-dyt",
    "> 0",
    "With each at its own rate, Derf ends below DyT.",
    found="On rung {rung}, each at its own rate, Derf's lead over DyT is {mean:+.3f} nats.",
    source="Chen et al. 2025, arXiv 2512.10938, GPT-2 of 124M parameters",
    published="2.97 − 2.94 nats (LayerNorm: 2.94)",
    domain=Domain("GPT-2 with 124M parameters", ours, inside=False),
)

# %% [markdown]
r"""
A paper about doing without norms needs one control above all: *no norm*, and nothing in its place.
Six blocks train well without any norm, if the rate is right and the branches start small (chapters 00 and 10). So at this depth a tanh has little
to protect, and can be in the way. The paper's parity is that of far deeper stacks, trained on billions of tokens, with
$\alpha_0$ chosen by a sweep; our result says nothing about it. The public evidence nearest to our size is the log of
[nanochat](https://github.com/karpathy/nanochat/blob/92d63d4e8bb4df75c3b71618f31ddde2378b2bcd/dev/LOG.md#L7): in its twelve layers no variant of DyT beat the baseline.

Now look at the right half of the figure, where most points are one run. At three times its best rate the stack without norms diverges. At three times theirs DyT and Derf
still train, presumably because the curve is bounded: however large the stream grows, no sublayer reads large numbers. At ten times only RMSNorm gets far past the frequencies of letters.

### Why is it behind? Three suspicions

We have three, and can test each of them a little; none of the tests names the reason. A fourth, that branches start smaller under DyT, we did not test.

**One: $\alpha$ does not follow.** The stream grows as sublayers write into it. A norm divides by what has grown. For DyT to do so, $\alpha$
would have to track $1/\mathrm{RMS}$ of what enters, norm by norm. **Two: flat entries.** What has outgrown $1/\alpha$ sits on the
ends of the curve; the sublayers read little but signs, and few entries are left on the slope to send $\alpha$ a gradient. **Three: the activation.**
[Verma (2026)](https://arxiv.org/abs/2604.23434) traces the collapse of a LLaMA with DyT to SwiGLU, and our ladder has SwiGLU, too.
"""

# %%
own_rate = {labels["arm"]: labels["lr"] for labels, _ in climbed.where(rung=rung, stage="first")}
dyt = replace(ladder.build_base_run(rung, "dyt"), probes=looks)
at_its_own = {"train.lr": [own_rate["dyt"]], "seed": five}
inside = lab.run(Experiment(dyt, at_its_own))

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
lab.train_live(Experiment(dyt, at_its_own))

# %%
maps = inside.values("norm-maps")[0]
draw_maps(
    {"first norm": maps[0], "a middle norm": maps[len(maps) // 2], "last norm": maps[-1]},
    "DyT in the ladder's model. Here the S is built in, so compare the inputs' range with the width of the slope: what "
    "sits on the two flat ends passes hardly any gradient.",
    inside,
).named("dyt-maps")


# %%
def average_flat(record):
    """Average the share of flat entries over all norms but the first."""
    return fmean(row["flat"] for row in record.probes["norm-maps"][1:])


def share_above(record, cut):
    """Average the share of entries with |tanh| above a cut, from 80 of each norm at equal steps of rank."""
    maps = record.probes["norm-maps"][1:]
    return fmean(fmean(abs(y) > cut for y in row["points"][1][:80]) for row in maps)


inside.measure(average_flat).claim(
    "07-trained-dyt-is-saturated",
    "> 0.5",
    "Most entries of a trained DyT are flat.",
    found="In all norms but the first {mean:.0%} of the entries are flat (|tanh| > 0.95); {lower:.0%} at a cut of 0.9, {higher:.0%} at 0.99.",
    source="this chapter's suspicion; for GPT-2 of 64M parameters Verma 2026, arXiv 2604.23434",
    published="49 % flat at 1M tokens, 23 % at 118M (|αx| > 2)",
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
    "The learned α follows one over the spread of what enters.",
    found="Over all norms of a model, log |α| and log 1/RMS have the correlation {mean:+.2f}.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 6 (α after training against 1/std)",
    published="α tracks 1/std of the activations",
    domain=Domain("models of full size, trained to the end", ours, inside=False),
)

# %% [markdown]
r"""
On the first suspicion: $\alpha$ has come down from 1 in every norm, but over the norms of a model we do not see it smaller where the stream is larger. So it does not follow, as suspected; that this costs anything we have not shown.

The second suspicion has a test. Start $\alpha$ at a quarter: fewer entries should be flat, *if the stream stays as it was*. Start it at four, and more should be. Predict, from the first norm to the last: the RMS of what enters, the learned $\alpha$, the share of flat entries.
"""

# %%
quarter = lab.run(Experiment(dyt, {**at_its_own, "model.alpha": [(0.25, 0.25)]}))
four = lab.run(Experiment(dyt, {**at_its_own, "model.alpha": [(4.0, 4.0)]}))
starts = {"first α ¼": quarter, "first α 1": inside, "first α 4": four}
plots.panels(
    {
        title: {
            name: [
                {i: row[key] for i, row in enumerate(maps, 1)} for maps in of.values("norm-maps")
            ]
            for name, of in starts.items()
        }
        for title, key in (
            ("RMS of what enters", "rms"),
            ("learned α", "alpha"),
            ("share of flat entries", "flat"),
        )
    },
    xlabel="norm, from the first to the last",
    log=["RMS of what enters", "learned α"],
    limits={"share of flat entries": (0, 1)},
    caption="The ladder's DyT from three first values, at the same rate. Compare the lines panel by panel: where have the factors of four gone?",
    provenance=lab.provenance(inside, quarter, four),
).named("first-alpha")


# %%
def read_last(record):
    """Read the RMS of what enters the last norm."""
    return record.probes["norm-maps"][-1]["rms"]


many, few = (of.measure(average_flat) for of in (inside, quarter))
(many - few).claim(
    "07-smaller-first-alpha-leaves-fewer-flat",
    "> 0.1",
    "A quarter of the first α leaves fewer entries flat, by a tenth of all at least.",
    found="From a first α of ¼ {few:.0%} are flat, not {many:.0%}: {mean:.2f} less. The last norm reads {times:.1f} times the stream; the loss moves {loss:+.3f}.",
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
    [
        {
            "model": title,
            "test loss": f"{of.measure('test.loss').mean:.3f}",
            "flat entries": f"{of.measure(average_flat).mean:.0%}",
            "last norm reads RMS": f"{of.measure(read_last).mean:.1f}",
            "correlation of log α and log 1/RMS": f"{of.measure(follow).mean:+.2f}",
        }
        for title, of in starts.items()
    ]
)

# %% [markdown]
r"""
Started at a quarter, $\alpha$ and the stream make up for it: little is left of the factor of four, and about as many entries are flat as from 1. The card's interval is too wide to call them the same. From four only
the last norms come back. In the others nearly all entries stay flat, and the few that are left on the slope steer $\alpha$. Both other starts end higher at the rate that was tuned for 1, the large one by far.

So where nearly all entries are flat the loss is high; that is what the second suspicion says. But from a first $\alpha$ of ¼ the loss ends higher than from 1, and we saw no more flat entries there; so flat entries seem not to be the whole reason. And the last column
speaks against the first suspicion: $\alpha$ follows the stream best where DyT is worst. So both mechanisms are real in the formulas, and neither is shown to be the reason.
[Verma (2026)](https://arxiv.org/abs/2604.23434) finds 23 to 49 % of entries flat in models of 64 million parameters, *more* on little text, where DyT wins. On much text, where it loses, a
larger $\alpha$ lowers its penalty. Our fourfold first $\alpha$ raised it.

The third suspicion is the simplest to test: GELU in place of SwiGLU, with as many parameters, DyT and the model without norms each at the rate that it had.
"""

# %%
swap = {"model.activation": ["gelu"], "seed": five}
gelu = {
    name: lab.run(
        Experiment(
            ladder.build_base_run(rung, racers[name]),
            {**swap, "train.lr": [own_rate[racers[name]]]},
        )
    )
    for name in ("DyT", "no norm")
}

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
    found="With GELU DyT ends {mean:.3f} nats above no norm at all; with SwiGLU, on the same seeds, {with_swiglu:.3f}.",
    source="Verma 2026, arXiv 2604.23434, on SwiGLU",
    beside={"with_swiglu": gaps["SwiGLU"], **tested},
)
(gaps["SwiGLU"] - gaps["GELU"]).claim(
    "07-swiglu-makes-half-of-the-gap",
    "> 0.045",
    "GELU in place of SwiGLU takes away half of DyT's distance to no norm at all, or more.",
    found="GELU in place of SwiGLU makes DyT's distance to no norm at all {mean:+.3f} nats smaller.",
    source="Verma 2026, arXiv 2604.23434, on SwiGLU",
    beside=tested,
)

# %% [markdown]
r"""
DyT is behind with GELU, too, but the verdict hangs on one seed. Look at the last row of the table: one run of the model without norms ends far above its others, and makes both intervals wide. So the second card cannot
say how much of the distance is SwiGLU's. Both models kept the rate that was chosen for them with SwiGLU; without norms GELU may want a lower one, which was not tried.

### Images, and a rate that is too high

DyT's first successes are vision transformers: ViT-B goes from 82.3 to 82.5 % on ImageNet ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)). On our digits DyT has its shift, and $\alpha_0 = \tfrac12$, both as
published there.
"""

# %%
right = {arm: of.measure("test.accuracy") for arm, of in seen.items()}
burnt = {arm: of.measure("test.accuracy") for arm, of in hot.items()}
beyond = {
    arm: of.where(lr=ladder.COARSE[4]).measure("test.accuracy")
    for arm, of in tried.by("arm").items()
}
plots.table(
    [
        {
            "arm": arm,
            "rate": rate or f"{tuned[arm]['train.lr']:g}, its own",
            "runs": len(of[arm]),
            "lowest": f"{min(of[arm].values):.1%}",
            "middle": f"{of[arm].median:.1%}",
            "highest": f"{max(of[arm].values):.1%}",
        }
        for rate, of in (("", right), (f"{high:g}", burnt), (f"{ladder.COARSE[4]:g}", beyond))
        for arm in eyes
    ]
)

# %% [markdown]
r"""
Test accuracy of a small ViT on digits, first with each arm at its own rate, then with all at one high rate, then in one run at the highest. Guessing is right once in ten. There are 384 test images, so one image is a quarter of a point.
"""

# %%
(right["DyT"] - right["layer norm"]).tuned(regime.untuned(tried, five)).claim(
    "07-vit-parity",
    "> -0.015",
    "With each at its own rate, DyT is as accurate as layer norm on images.",
    found="Each at its own rate, DyT's accuracy on digits minus layer norm's is {mean:+.3f}.",
    source="Zhu et al. 2025, arXiv 2503.10622, ViT-B on ImageNet",
    published="82.5 − 82.3 %",
    domain=Domain(
        "ViT-B on ImageNet", "three blocks of width 32 on digits of 8 × 8 pixels", inside=False
    ),
)

# %%
(burnt["DyT"] - burnt["no norm"]).claim(
    "07-dyt-survives-a-high-rate",
    "> 0.2",
    "At a high rate DyT trains where blocks without norms do not.",
    found=f"At the rate {high:g} DyT's accuracy on digits is {{mean:.2f}} above that of blocks without norms.",
    source="DyT is bounded; this chapter's expectation",
    beside={
        "second value": "at the next rate both fail (table)",
        "last step": "the accuracy at the end",
        "control": "layer norm, and each arm at its own rate (table)",
    },
)

# %% [markdown]
r"""
The first card does not test the published parity: ImageNet is another task. At the high
rate bare blocks do little better than guess, and DyT keeps up with layer norm. At the next rate DyT guesses, too, as the last rows show (one run). Is it the bound that helps? The bare blocks start from Xavier's rule, and
with small branches they can stand more (chapter 00); a first $\alpha$ of ½ makes branches smaller as well. No arm here has small branches and no bound. One caution: the arm *no norm* still has the ViT's last layer norm, as all arms do.

### Very little text

[Verma (2026)](https://arxiv.org/abs/2604.23434) finds that DyT *helps* a model of 64 million parameters on one million tokens, with a validation loss 27.3 % lower,
and costs it 18.8 % on 118 million. A map that fits less also overfits less. Our scarce text: the first 2,048
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
    how: lab.run(Experiment(poor, {"arm": arms, "seed": five})).by("arm")
    for how, arms in (("one rate", pair), ("own rate", own))
}

# %%
plots.curves(
    {
        arm: {lr: cell.values("test.loss") for lr, cell in of.by("lr").items()}
        for arm, of in searched.by("arm").items()
    },
    xlabel="peak learning rate",
    ylabel="test loss (nats)",
    logx=True,
    caption="On 2,048 characters, by learning rate. To the right of the minimum a model overfits. Which of the two is ahead at 0.01, and which at its lowest point?",
    provenance=lab.provenance(searched),
).named("little-text")

# %%
lead = {
    how: of["layer norm"].measure("test.loss") - of["DyT"].measure("test.loss")
    for how, of in scarce.items()
}
lead["own rate"].tuned(regime.untuned(searched, five)).claim(
    "07-scarce-data-each-tuned",
    "> 0",
    "On scarce text, with each at its own rate, DyT ends below a norm.",
    found="On 2,048 characters, each at its own rate, DyT's lead over layer norm is {mean:+.3f} nats; with both at the rate 0.01 it is {same:+.3f}.",
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
Compare the card's two numbers. At 0.01 layer norm is far past its minimum; a lower rate
does about as much for it as DyT did. What DyT has on this text is a flatter right side: too high a rate costs it less.

## Where it goes wrong

Three slips that we made up. With **$\alpha$ outside** the code runs, but $\alpha\tanh(x)$ always bends at 1, and $\alpha$ is only a gain. **A shortcut for tanh**, $2\,\mathrm{sigmoid}(2u) - 1$, is the
same function on paper; near zero it cancels, and small activations lose their digits. **The shift inside**: $\tanh(\alpha x + \beta)$.
None crashes; the check of exercise 1 notices:
"""


# %% tags=["mechanism"]
def outside(x, alpha=0.5, weight=None, bias=None):
    """Multiply by α behind the tanh."""
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
    [
        {
            "slip": slip,
            "laws kept": f"{sum(law.ok for law in report.laws)} of {len(report.laws)}",
            "what the check says": next(
                (law.cause for law in report.failed if law.cause),
                f"fails first: {report.failed[0].name}",
            ),
        }
        for slip, report in reports.items()
    ]
)

# %% [markdown]
r"""
**A field that is not one.** The published patch that adds Derf to a GPT-2 program writes `norm_type = 'derf'` into a dataclass, without a
type. So it is no field, and a program that passes `norm_type=` stops with a `TypeError`.

| you see | cause | look at | try |
| --- | --- | --- | --- |
| DyT is behind from the first steps in a language model | embeddings enter far below $1/\alpha$ | RMS of the first input | the embedding's factor $\sqrt d$ |
| DyT is behind at the end | a suspicion: entries are flat, the stream has outgrown $1/\alpha$ | `norm-maps`: share flat, RMS | a sweep of $\alpha_0$; watch the stream |
| a "DyT wins" on little data | at that rate the norm overfits first | each arm at its own rate | tune both |

## Exercises

**2 (by hand, 5 minutes).** A batch holds two tokens, $(1, -1, 1, -1)$ and $(1, -1, 7, -7)$. Layer norm with gain 1, shift 0, $\epsilon = 0$. Over both
tokens, what is the average output at the input $x = 1$, and what at $x = 7$? How many times flatter is the pooled map (output over input) out there?
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

$\sigma = 1$ and $\sigma = 5$. At $x = 1$ stand two entries of the first token, with output 1, and one of the second, with $\tfrac15$: the average is
$(1 + 1 + \tfrac15)/3 = 11/15$. At $x = 7$ the output is $\tfrac75$, a slope of $\tfrac15$. Flatter by $\tfrac{11}{15}\cdot5 = \tfrac{11}{3}$. Two lines, one S.

</details>

**3 (a proof, 10 minutes).** Which entry-by-entry maps are blind to scale? Let $f: \mathbb R\to\mathbb R$ have $f(cx) = f(x)$ for all $c > 0$ and all $x$. (a) Show that
$f$ is constant if it is continuous at 0. (b) Which maps are left without continuity? (c) DyT has a gain $\gamma$. Let $\gamma = 1/\alpha$, and show that the map goes to "no norm at all" for
$\alpha\to0$. With $\gamma = 1$, what does it go to for $\alpha\to\infty$?

<details><summary>Hint</summary>

(a) Let $c$ go to zero. (c) $\tanh u = u + O(u^3)$.

</details>
<details><summary>Solution</summary>

(a) For any $x$, $f(x) = f(cx)$ for all $c > 0$, so $f(x) = \lim_{c\to0} f(cx) = f(0)$. (b) $f$ is constant on the positive numbers, constant on the negative ones, and free at 0:
a sign, up to shift and scale. (c) $\tanh(\alpha x)/\alpha = x + O(\alpha^2)$, the identity. For $\alpha\to\infty$ it goes to the sign of $x$.

</details>

**4 (open).** Find a recipe under which DyT reaches RMSNorm on this text: a first $\alpha$ for attention apart from the rest, a norm on the embedding, or a gain that gives branches back the
size that a norm would. Say beforehand what result would make you stop. Five seeds, and the norm gets the same care.
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
## What you now know

- **Where does the S come from?** From the tokens. Each has a straight line, with the slope of its own spread; where spreads differ, the lines pile up to an
  S. Plant one outlier, and you draw it yourself. <!-- 07-one-token-is-a-line 07-spread-makes-the-s -->
- **Can one curve do the work of a norm?** Half of it. DyT kept our image model learning at one rate at which bare blocks fail, by its bound or by its smaller branches; in one run at the next rate it failed, too. No continuous map of single entries is blind to scale:
  $\alpha$ and the stream are one knob. <!-- 07-dyt-survives-a-high-rate 07-scale-and-alpha-are-one-knob -->
- On text, at the one size that we trained, DyT ends behind a norm and behind the same model without norms. The parity that is reported is that of far larger models, with
  $\alpha_0$ chosen by width. <!-- 07-ladder-dyt-against-rms-norm 07-dyt-beats-no-norm -->
- Why it is behind stays open. At the rate tuned for 1, a first $\alpha$ of 4 leaves nearly every entry flat and costs much; a first $\alpha$ of a quarter costs, too, and the share of flat entries was not seen to fall.
  With GELU in place of SwiGLU, at one rate each, DyT ends behind the model without norms there, too, though one seed decides it. <!-- 07-smaller-first-alpha-leaves-fewer-flat 07-trained-dyt-is-saturated 07-learned-alpha-follows-scale 07-dyt-is-behind-without-swiglu-too -->
- A lead on little data must survive the tuning of both sides; ours did not show that it does. <!-- 07-scarce-data-each-tuned -->
- BHyT has a norm inside. <!-- 07-bhyt-is-a-small-rms-norm -->

## To carry away

- **Equation.** $y = \gamma\tanh(\alpha x) + \beta$, entry by entry; one learned $\alpha$ a layer.
- **Use.** Where a statistic over a token is not to be had, and $\alpha$ can be tuned. What it saves in time is chapter 09's question.
- **Cost.** Blindness to scale is given up: flat entries pass no gradient, and the rate that suits it is another.
- **Relatives.** Derf (erf for tanh), BHyT, PRepBN (statistics in training only).

| you see | cause | try |
| --- | --- | --- |
| behind from the first steps | embeddings far below $1/\alpha$ | the factor $\sqrt d$ on the embedding |
| behind at the end | flat entries, a suspicion | a sweep of the first $\alpha$ |
| ahead on little data | the opponent overfits at that rate | each at its own rate |

## References

Works cited: [Byun et al. (2026)](https://arxiv.org/abs/2601.09719), [Chen et al. (2025)](https://arxiv.org/abs/2512.10938), [Dosovitskiy et al. (2021)](https://arxiv.org/abs/2010.11929), [Guo et al. (2024)](https://arxiv.org/abs/2405.11582), [Stollenwerk (2026)](https://arxiv.org/abs/2503.21708), [Sun et al. (2024)](https://arxiv.org/abs/2402.17762), [Verma (2026)](https://arxiv.org/abs/2604.23434), [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
