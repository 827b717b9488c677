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

**Question.** [Wang et al. (2024)](https://arxiv.org/abs/2203.00555) trained a transformer of 1,000 layers. Its block is
Post-Norm, the placement that is hard to train, with two constants: α multiplies the skip, and β multiplies some initial weights. Either makes the branch small relative to the skip.
Why does DeepNorm need two constants, and do 1,000 layers train because branches are small?

<details><summary>In short (contains spoilers)</summary>

- One demand fixes the ratio of the constants: one step of gradient descent should move the model's output equally far at every depth. The even split into
  fourth roots is a choice.
- The two constants together meet that demand. At its published value, neither constant meets it alone. The demand says nothing about Adam, whose first step still moves deeper models further.
- Our 32 blocks of Post-Norm start to learn if their initial branches are small. Either constant can make them small (with α alone, not every run learns), and so can ordinary small weights without any constant.

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
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.experiments import (
    Domain,
    Experiment,
    Lab,
    Run,
    combine,
    computed,
    exact,
    ladder,
    regime,
)
from labkit.model import Departure
from labkit.norms import LayerNorm, layer_norm
from labkit.placements import DeepNorm, Place, PostNorm
from labkit.placements.scaled import deepnorm_constants
from labkit.probes.look import residual_streams
from labkit.probes.updates import step_response

# %%
lab = Lab("05_deepnorm", size=size, seed=seed, memory={"kernel": "900M", "run": "1650M"})
sizes = lab.sizes(
    # a pair: book, gpu
    depths=([6, 12, 24, 48], [6, 12, 24, 48, 96, 192]),
    step_depths=([6, 12, 24, 48, 96], [6, 12, 24, 48, 96, 192]),
    deepest=(192, 384),
    family_depths=([4, 8, 16, 32], [4, 8, 16, 32, 64, 128]),
    depth=32,
    steps=(150, 1000),
    warmup=(50, 100),
    second_depth=12,
    beta_beside=[2.2e-3, 4.6e-3],
    held_out=(8_192, 65_536),
    rates=[2.2e-4, 4.6e-4, 1e-3, 2.2e-3, 4.6e-3, 1e-2, 2.2e-2],
    long_rates=[4.6e-4, 1e-3, 2.2e-3, 4.6e-3],
    slip_rates=[1e-3, 4.6e-3],
    tallest=1000,
)
five = lab.seeds(5)
climbed = lab.ladder(["pre", "post", "post, xavier", "deepnorm", "no attention"])

# %%
from labkit.leaderboard.show_explorer import show_explorer

show_explorer(
    lab,
    climbed,
    "deepnorm",
    beside="post",
    caption="Shown first: a Post-Norm block and a DeepNorm block. Their norms are in the same places, but DeepNorm has a heavier skip and different initial weights. "
    "The plot shows the validation loss of models of six such blocks at each learning rate. Does DeepNorm need its constants at this depth?",
).named("two-blocks")


# %% tags=["mechanism"]
small = ModelConfig(norm="layer", dim=32, activation="gelu", context=32, init="xavier")
batch = Text(batch=8, time=32, held_out=4096).load().held_out["validation"][0]


def build_stack(depth, alpha, beta, seed=seed, qk=1.0):
    """Build an untrained decoder with this weight of the skip and this gain of the branches."""
    torch.manual_seed(seed)
    model = replace(small, recipe="deepnorm", depth=depth).build()
    for block in model.blocks:
        block.attention.alpha = block.feed_forward.alpha = alpha
    for path, weight in model.blocks.named_parameters():
        if weight.ndim == 2:
            weight.data *= qk if path.split(".")[-2] in ("q", "k") else beta
    return model


# %% [markdown]
r"""
## The idea: a heavier skip

In a stack of $N$ blocks, a sublayer of DeepNorm computes

$$x \leftarrow \mathrm{LN}(\alpha\,x + f(x)), \qquad \alpha = (2N)^{1/4},$$

and the initial weights of some matrices (step 1 says which) are multiplied by $\beta = (8N)^{-1/4}$. LayerNorm is invariant to the scale of its input, so
$\mathrm{LN}(\alpha x + f)$ *is* $\mathrm{LN}(x + f/\alpha)$: the first constant makes the branch small. Why fourth roots? Which quantity must not grow with depth?

Take a token $x = (1, 1, -1, -1)$ and a sublayer's output $f = (1, -1, 1, -1)$, as long as $x$ and at right angles to it. Post-Norm takes their sum, $(2, 0, 0, -2)$, and divides it by
the standard deviation, $\sqrt2$. With DeepNorm in a stack of 8 blocks, $\alpha = 16^{1/4} = 2$, so the sum is $(3, 1, -1, -3)$, and the norm divides it by
$\sqrt5$. The result is closer to $x$: the branch $f$ has $1/\alpha$ of its former weight. A block
with α on its skip and one with its branch divided by α are the same function of the same weights, so they also train in the same way. Smaller initial weights, as with β, also make the branch
small, but they train differently: a step of Adam is as long as before, so it changes a smaller weight by a larger fraction.
"""

# %%
plots.turns(
    {"Post-Norm": (1, 1), "α = 2 on the skip": (2, 1), "branch divided by α": (1, 0.5)},
    caption="How one sublayer turns a token x, in three cases. The sum of skip and branch is drawn in grey, and the norm keeps only its direction. "
    "A skip twice as heavy and a branch half as long turn the token by the same angle.",
).named("one-sublayer-turns")

# %%
torch.manual_seed(seed)
f = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)).double()
tokens = torch.randn(7, 32).double()
heavy = DeepNorm(lambda: LayerNorm(32, eps=0.0).double(), f, Place(decoder=12))
light = PostNorm(lambda: LayerNorm(32, eps=0.0).double(), lambda x: f(x) / heavy.alpha)
exact((heavy(tokens) - light(tokens)).abs().max(), tolerance=1e-10).claim(
    "05-heavy-skip-is-light-branch",
    "< 1e-10",
    "If a norm follows the sum, a block whose skip is multiplied by α and a block whose branch is divided by α compute the same function.",
    found="The outputs of DeepNorm with α and of Post-Norm with the branch divided by α differ by at most {mean:.1e}.",
    source="scale invariance of LayerNorm (ε = 0)",
)

# %% [markdown]
r"""
We follow one model through the chapter, a decoder of 32 blocks. Its constants are $\alpha = 64^{1/4} = 2\sqrt2$ and
$\beta = 256^{-1/4} = \frac14$.

The untrained model is close to the identity: its output is nearly the embedding. Which constant is responsible? Let $x$ have variance 1 and $f(x)$ be unrelated to it, with variance $s^2$. A sublayer
keeps the share $\alpha/\sqrt{\alpha^2 + s^2}$ of the old $x$, and $2N$ sublayers keep the $2N$-th power of this share,

$$\Big(1 + \frac{s^2}{\alpha^2}\Big)^{-N}.$$

Post-Norm with Xavier's weights has $\alpha = 1$ and an $s$ of the order of 1, so the share decays exponentially. A DeepNorm sublayer multiplies its input by two matrices, each $\beta$ times as large as Xavier's, so
$s$ is at most about $\beta^2 = \frac1{16}$. With $s^2 = \frac1{256}$ and $\alpha^2 = 8$, our 32 blocks keep at least about $(1 + \frac{1}{256\cdot8})^{-32} \approx 0.98$ of $x$. β alone would be enough: with $\alpha = 1$ and $s^2 = \beta^4 = \frac1{8N}$, the share $(1 + \frac{1}{8N})^{-N}$ is above
$0.88$ at any depth. α alone would not be: with $s = 1$, it leaves about $0.02$. The next figure shows the share, measured as a cosine.
"""


# %% tags=["mechanism"]
@torch.no_grad()
def measure_kept(model):
    """Cosine between the normalized embedding and the last stream, averaged over tokens."""
    streams = residual_streams(model, batch[0])
    return F.cosine_similarity(layer_norm(streams[0]), streams[-1], dim=-1).mean().item()


def choose_constants(arm, depth):
    """Return α and β of one arm of the chapter's four."""
    alpha, beta = deepnorm_constants("decoder", 0, depth)
    return {"Post-Norm": (1, 1), "α alone": (alpha, 1), "β alone": (1, beta), "DeepNorm": (alpha, beta)}[arm]  # fmt: skip


# %%
four = ("Post-Norm", "α alone", "β alone", "DeepNorm")
plots.curves(
    {
        arm: {n: [measure_kept(build_stack(n, *choose_constants(arm, n), s)) for s in five] for n in sizes.depths}
        for arm in four
    },
    xlabel="depth N (blocks)",
    ylabel="cosine of embedding and output",
    logx=True,
    ylim=(-0.1, 1.1),
    caption="Cosine between the embedding and the output of untrained models, against depth. Post-Norm has lost nearly all of the embedding after a dozen blocks. "
    "β alone achieves most of the effect of both constants.",
    provenance=lab.provenance(),
).named("embedding-left")  # fmt: skip

# %% [markdown]
r"""
But a start near the identity does not explain the fourth roots: any two constants for which $s^2/\alpha^2$ is at most a small fraction of $1/N$ give such a start.

## Derivation

### The demand

Wang et al. examine Post-Norm models that fail, and find that their *function* jumps in the first steps. So they bound this jump. Let $F(x, \theta)$ be the output of the
stack. A step of gradient descent with learning rate $\eta$ changes the weights by $\Delta\theta = -\eta\,\partial\mathcal L/\partial\theta$ and
the function by

$$\Delta F = F(x, \theta + \Delta\theta) - F(x, \theta).$$

**The demand: $\|\Delta F\|$ is of the order of $\eta$, whatever the depth.** It is modest: it concerns one step of gradient descent, at the start.

### Step 1: a sublayer has two matrices that matter

A feed-forward layer is $W_2\,\phi(W_1x)$. Attention is $W_O\sum_t p_tW_Vx_t$, with weights $p_t \ge 0$ that sum to one. Queries and keys determine the weights of this
average, but they cannot make it larger than the largest value. This is why **β scales the value, the output and the
feed-forward matrices, and not those of queries and keys.** As far as sizes are concerned, a sublayer is $f(x) \approx v\,w\,x$: two
numbers, $v$ and $w$, stand for its two matrices (value and output, or $W_1$ and $W_2$). For sublayer $i$ we write $\theta_i = (v, w)$. The derivative of $f$ with respect to $\theta_i$ is $(w, v)\,x$, of length
$\sqrt{v^2 + w^2}\,\|x\|$, where $\|x\|$ is fixed, because $x$ is the output of a norm. (We drop $\|x\|$ below.)

### Step 2: the norm divides by α

The sum $\alpha x + f$ has size about $\alpha$, so a change of $f$ reaches the stream divided by $\alpha$. Do later sublayers amplify that change? A later sublayer
multiplies the change by $\alpha I + J_f$, where $J_f$ is the Jacobian of $f$, and then its norm divides by $\sqrt{\alpha^2 + s^2}$. If $J_f$ turns a vector into one that is about $s$ times as long and nearly at right angles to it, then $\alpha I + J_f$ multiplies the vector's length
by about $\sqrt{\alpha^2 + s^2}$ (Pythagoras). The norm divides by the same factor, so the change keeps its size (the cancellation of [chapter 02](02_pre_and_post_norm.ipynb)).
So the step of sublayer $i$ moves the output by

$$\|\Delta F_i\| \lesssim \frac{\sqrt{v^2 + w^2}}{\alpha}\,\|\Delta\theta_i\|.$$

### Step 3: the same factor once more

By the chain rule, the gradient with respect to $\theta_i$ is $J_i^\top\,\partial\mathcal L/\partial F$, where $J_i$ is the derivative of the output with respect to $\theta_i$. The paper takes $\partial\mathcal L/\partial F$ to be of order one. The step is $-\eta$ times this gradient, and it moves the output by $J_i$ times the step: $\Delta F_i = -\eta\,J_iJ_i^\top\,\partial\mathcal L/\partial F$. So the factor $\sqrt{v^2 + w^2}/\alpha$ of step 2 appears squared.

The $2N$ changes $\Delta F_i$, which we call the *contributions* of the sublayers, add up to $\Delta F$. By the triangle inequality, the sum of their lengths is an upper bound.
We also use it as an estimate, because the contributions cannot cancel completely: each $J_iJ_i^\top$ is positive semidefinite, so no sublayer moves the output in a direction in which the loss rises. With $v = w = \beta$,

$$\|\Delta F\| \lesssim \eta\cdot 2N\cdot\frac{2\beta^2}{\alpha^2}.$$

### Step 4: the condition, and a choice

We call the factor of $\eta$ in this bound, $4N\beta^2/\alpha^2$, *the sum*: each of the $2N$ sublayers contributes $2\beta^2/\alpha^2$. The demand is met if the sum is the same at every depth. The paper sets it to 1, that is $\beta = \alpha/\sqrt{4N}$. This is *one* equation for *two* constants, which can share the work in many ways. $\alpha = 1$
would need $\beta = (4N)^{-1/2}$, and $\beta = 1$ would need $\alpha = 2\sqrt N$. The paper splits the work evenly, so that each constant is a fourth root:
$\alpha = (2N)^{1/4}$ and $\beta = (8N)^{-1/4} = 1/(\sqrt2\,\alpha)$. For our model the sum is $64\cdot2\cdot\frac1{16}/8 = 1$.

*By hand.* What is the sum for our 32 blocks with α alone, at its published value? What is it with β alone?

<details><summary>Answer</summary>

With $\beta = 1$ and $\alpha^2 = 8$ it is $64\cdot2/8 = 16$. With $\alpha = 1$ and $\beta^2 = \frac1{16}$ it is $64\cdot2/16 = 8$.

</details>

### Encoder and decoder

The 1,000-layer translation model has an encoder and a decoder of 500 blocks each. Together they have 2,500 sublayers (two per block of the encoder, three per block of the decoder), and *four* constants. The formula for a single stack does not apply: its $\alpha = (2\cdot1000)^{1/4}$ is none of the four. For an encoder of $N$ blocks and a decoder of $M$ blocks, the four constants are

| stack | factor of the skip, $\alpha$ | factor of the initial weights, $\beta$ |
| --- | --- | --- |
| encoder | $0.81\,(N^4M)^{1/16}$ | $0.87\,(N^4M)^{-1/16}$ |
| decoder | $(3M)^{1/4}$ | $(12M)^{-1/4}$ |

Appendix C [derives all four](C_zoo.ipynb#deepnorms-four-constants). For a decoder alone, and for the decoder of a pair, the constants make the sum in the bound exactly 1:
"""

# %%
sums = []
for n in (6, 12, 24, 50, 100, 500, 1000):
    alone, pair = deepnorm_constants("decoder", 0, n), deepnorm_constants("decoder", n, n)
    sums += [2 * n * 2 * alone.beta**2 / alone.alpha**2, 3 * n * 2 * pair.beta**2 / pair.alpha**2]
exact(max(abs(total - 1) for total in sums), tolerance=1e-12).claim(
    "05-bound-is-one",
    "< 1e-12",
    "With DeepNorm's constants, the bound on an SGD step's effect on the output equals the learning rate at every depth.",
    found="From 6 to 1,000 blocks, for a single decoder and for a decoder with an encoder, DeepNorm's bound on an SGD step, divided by the learning rate, differs from 1 by at most {mean:.0e}.",
    source="Wang et al. 2022, arXiv 2203.00555, section 4",
)
# %% [markdown]
r"""
## Implementation: exercises 1 and 2

**1 (in code, 5 minutes).** Write a *step*, the function that one sublayer of a decoder without an encoder applies to the stream: `x` is the stream, `f` the sublayer, `norm` the norm, and `depth` the number of
blocks. The check compares your step with the equation, also at other depths.
"""


# %% tags=["exercise"]
def my_step(x, f, norm, depth):
    """One DeepNorm step."""
    return ...


# %%
def check_step(step):
    """Compare a step with DeepNorm's equation."""
    return check.block(step, "deepnorm", replace(small, recipe="deepnorm", depth=12))


check_step(my_step)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\alpha$ is the fourth root of the number of sublayers, two per block. It multiplies the skip.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_step(x, f, norm, depth):
    """A solution of exercise 1."""
    return norm((2 * depth) ** 0.25 * x + f(x))


assert check_step(solved_step).ok

# %% [markdown]
r"""
**2 (in code, 5 minutes).** The other part of DeepNorm is its initial weights. Write a function that returns the gain of one matrix in such a decoder, relative to Xavier's rule. The matrices have `labkit`'s names: `q k v out`
in attention, `up down` in the feed-forward layer.
"""


# %% tags=["exercise"]
def my_gain(name, blocks):
    """Gain of Xavier's rule for one matrix."""
    return ...


# %%
def measure_gains(model):
    """Standard deviation of each kind of matrix over Xavier's, averaged over the blocks."""
    seen = {}
    for path, weight in model.blocks.named_parameters():
        if weight.ndim == 2:
            xavier = (2 / sum(weight.shape)) ** 0.5
            seen.setdefault(path.split(".")[-2], []).append(weight.std().item() / xavier)
    return {name: fmean(ratios) for name, ratios in seen.items()}


torch.manual_seed(seed)
found = measure_gains(replace(small, recipe="deepnorm", init="deepnorm", depth=32).build())


def check_gain(gain):
    """Compare a gain function with the weights of a real model of 32 blocks."""
    matrices = {name: (name, 32) for name in found}
    hint = "two of the six only decide which average is taken"
    return check.function(gain, matrices, found, name="2", hint=hint, rtol=0.05)


check_gain(my_gain)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Step 1 of the derivation says which matrices cannot enlarge anything.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_gain(name, blocks):
    """A solution of exercise 2."""
    return 1.0 if name in ("q", "k") else (8 * blocks) ** -0.25


assert check_gain(solved_gain).ok

# %%
exact(max(abs(found[name] - solved_gain(name, 32)) for name in found), tolerance=0.02).claim(
    "05-which-weights",
    "< 0.05",
    "DeepNorm's β scales the value, output and feed-forward matrices, but not the query and key matrices.",
    found="In labkit's DeepNorm model, the initial standard deviations of the six kinds of matrices, divided by Xavier's, differ from the published factors by at most {mean:.3f}.",
    source="Wang et al. 2022, arXiv 2203.00555, Figure 2 (pseudo-code)",
)

# %% [markdown]
r"""
This is the step of exercise 1 in labkit, where `N` is the norm, not the number of blocks:
"""

# %%
from labkit.source import show

show(DeepNorm.step)

# %% [markdown]
r"""
## Predict

Let $\alpha \sim N^a$ and $\beta \sim N^{-b}$. For each kind of step, the derivation predicts the power of depth with which the step's effect on the output grows.

- **SGD**: the factor $\beta/\alpha$ enters twice, and the contributions add up: $N\cdot N^{-2a-2b}$.
- **Adam's first step**, $-\eta\,\mathrm{sign}(\partial\mathcal L/\partial\theta)$: its size does not depend on that of the gradient. The factor enters *once*, and all contributions still point
  downhill: $N\cdot N^{-a-b}$.
- **A step with random signs**, as long as Adam's: the contributions are unrelated, so their squares add up: $N^{1/2}\cdot N^{-a-b}$.
- **SGD on gains and shifts of the norms**: they act after the division by $\alpha$, so $\alpha$ reduces neither the gradient of a gain nor the effect of changing it. Each of the $2N$ norms
  makes a contribution of the order of one, so the sum grows like $N$, whatever $\alpha$ and $\beta$ are.
"""


# %%
def move_by_exponent(depth, a, seed=seed):
    """Return |ΔF| / η by kind of step, for α = (2N)^a and β = 1 / (√2 α)."""
    alpha = (2 * depth) ** a
    model = build_stack(depth, alpha, 1 / (2**0.5 * alpha), seed)
    return step_response(model, batch, ("sgd", "random", "adam"))


grid = sizes.family_depths
exponents = {"0": 0.0, "1/8": 0.125, "1/4 (DeepNorm)": 0.25, "3/8": 0.375, "1/2": 0.5}
grows = dict(zip(exponents, ("is 1 at every depth", "grows as the eighth root of depth", "grows as the fourth root of depth",
    "grows as depth to the three eighths", "grows as the square root of depth"), strict=True))  # fmt: skip


# %%
def draw_family(name):
    """Draw how three kinds of step grow with depth, for one exponent."""
    moved = {n: move_by_exponent(n, exponents[name]) for n in grid}
    kinds = {"SGD": "sgd", "a random step": "random", "Adam": "adam"}
    return plots.curves(
        {
            kind: {n: [at[key] / moved[grid[0]][key]] for n, at in moved.items()}
            for kind, key in kinds.items()
        },
        xlabel="depth N (blocks)",
        ylabel="distance, relative to the shallowest model's",
        logx=True,
        logy=True,
        ylim=(0.05, 100),
        title=f"The weight of the skip {grows[name]}",
        caption=f"Distance by which a step moves the output, relative to the shallowest model, for exponent {name}. One seed.",
    )


plots.explore(
    draw_family,
    list(exponents),
    "exponent-of-alpha",
    label="exponent a of α",
    caption="Distance by which one tiny step moves the output of an untrained model of N blocks, relative to the shallowest model. "
    "Move the exponent a of the skip's weight, α = (2N)^a. The gain of the weights changes with it, β = 1/(√2 α). Which line is level at which exponent, and is there an exponent at which all three are level?",
)

# %% [markdown]
r"""
The rules above give these powers of depth, with the exponents $(a, b)$ in brackets:

| step | Post-Norm (0, 0) | α alone (¼, 0) | β alone (0, ¼) | DeepNorm (¼, ¼) |
| --- | --- | --- | --- | --- |
| SGD, matrices | 1 | ½ | ½ | **0** |
| Adam's first, matrices | 1 | ¾ | ¾ | ½ |
| random signs, matrices | ½ | ¼ | ¼ | 0 |
| SGD, gains too | 1 | 1 | 1 | 1 |

Here ½ means "grows like $\sqrt N$". The derivation assumes small branches. The branches of Post-Norm and of α alone start as large as Xavier's rule makes them, so in their
two columns the measured powers may be higher than printed.

## Measure

### The bounded update

The model is an untrained text decoder of width 32. The probe `step-response` changes the weights of a copy by one tiny step
and measures $\|\Delta F\|/\eta$ per token.
"""

# %%
start = Run(
    model=small,
    data=Text(batch=8, time=32, held_out=4096),
    train=TrainConfig(steps=1),
    probes=("step-response",),
)
post, pre = {"model.recipe": "post"}, {"model.recipe": "pre"}
alpha_alone = {"model.recipe": "deepnorm"}
deep, beta_alone = ({"model.recipe": r, "model.init": "deepnorm"} for r in ("deepnorm", "post"))
main = {"Post-Norm": post, "Pre-Norm": pre, "DeepNorm": deep}
halves = {"α alone": alpha_alone, "β alone": beta_alone}
wide = {"arm": {**main, **halves}, "model.depth": sizes.step_depths, "seed": five}
peak = {"arm": main, "model.depth": [sizes.deepest], "seed": five}
responses = lab.run(Experiment(start, wide)) + lab.run(Experiment(start, peak))


# %%
def read_response(arm, kind):
    """Give {depth: |ΔF| / η} for one arm and one kind of step."""
    return responses.where(arm=arm).measure_by(f"step-response.{kind}", "depth")


def fit_power(arm, kind):
    """Fit |ΔF| / η ~ depth^p for each seed and return the p."""
    points = read_response(arm, kind)
    depths = np.log([*points])
    return combine(lambda *moved: np.polyfit(depths, np.log(moved), 1)[0], *points.values())


plots.curves(
    {arm: read_response(arm, "sgd") for arm in (*main, *halves)},
    xlabel="depth N (blocks)",
    ylabel="‖ΔF‖ / η, one SGD step",
    logx=True,
    logy=True,
    caption="Distance by which one SGD step on the matrices moves the output of an untrained model, divided by the learning rate, against depth. "
    "For DeepNorm, the line is level. With only one of the constants, it rises. (Pre-Norm here has Xavier's weights.)",
    provenance=lab.provenance(responses),
).named("one-sgd-step")

# %%
by_adam = [read_response(arm, "adam") for arm in ("Post-Norm", "Pre-Norm")]
least, *_, last = by_adam[0]
far, near = (read_response(arm, "sgd")[last] for arm in ("Post-Norm", "DeepNorm"))
fit_power("DeepNorm", "sgd").claim(
    "05-update-is-bounded",
    "in [-0.2, 0.2]",
    f"An SGD step on the matrices moves a DeepNorm model's output equally far at every depth from {least} to {last} blocks.",
    found="The distance by which one SGD step on the matrices moves the output of an untrained DeepNorm model scales as depth to the power {mean:+.2f}.",
    source="Wang et al. 2022, arXiv 2203.00555, section 4 and Figure 5 (tiny models, 6 to 100 layers)",
    published="of the order of η at every depth",
    predicted=0.0,
)
(far / near).map(np.log10).claim(
    "05-post-update-is-larger",
    "> 1",
    "An SGD step on the matrices moves a deep Post-Norm model's output more than ten times as far as a DeepNorm model's.",
    found=f"With {last} blocks, one SGD step on the matrices moves the output of an untrained Post-Norm model 10^{{mean:.1f}} times as far as that of a DeepNorm model. Adam's first step moves it {{some:.1f}} times as far as that of a Pre-Norm model with {least} blocks, and {{many:.0f}} times as far with {last} (both with Xavier's weights).",
    source="Wang et al. 2022, arXiv 2203.00555, Figure 5",
    published="Post-LN's update grows with depth, DeepNet's stays",
    beside={
        "some": by_adam[0][least] / by_adam[1][least],
        "many": by_adam[0][last] / by_adam[1][last],
    },
)

# %% [markdown]
r"""
### Is one of the constants enough?

The table of powers says no: with either constant alone, the distance by which an SGD step moves the model should grow like $\sqrt N$.
"""

# %%
alone = {arm: fit_power(arm, "sgd") for arm in halves}
combine(min, *alone.values()).claim(
    "05-one-constant-is-not-enough",
    "> 0.25",
    "With only one of DeepNorm's constants, at its published value, an SGD step moves a deeper model's output further.",
    found="The distance by which one SGD step moves the output of an untrained model scales as depth to the power {alpha:.2f} with DeepNorm's α alone, and to the power {beta:.2f} with its β alone. The criterion applies to the smaller power, {mean:.2f}.",
    source="steps 1 to 4 of this chapter, after Wang et al. 2022",
    published="predicted: 1/2",
    beside={"alpha": alone["α alone"], "beta": alone["β alone"]},
)

# %% [markdown]
r"""
So with the published fourth roots, both constants are needed: with only one, the ratio $\beta/\alpha$ falls only like $N^{-1/4}$. By step 4, one constant would be enough
if it were a square root. (With α alone, the branches are large, and the power is higher than predicted.)

### Steps that the promise does not cover

DeepNorm's promise, a bounded change of the function, covers only SGD on the matrices. How far do other kinds of steps move the output?
"""

# %%
kinds = {"SGD": "sgd", "random signs": "random", "Adam": "adam", "SGD with gains": "sgd-all"}
grown = {name: fit_power("DeepNorm", key) for name, key in kinds.items()}
low, high = grid[0], grid[-1]
levels = [[move_by_exponent(n, 0.5, s)["adam"] for n in (low, high)] for s in five]
# %%
grown["Adam"].claim(
    "05-step-adam",
    "in [0.35, 0.65]",
    "The distance by which Adam's first step on the matrices moves a DeepNorm model's output grows as the square root of depth.",
    found="The distance by which a step moves a DeepNorm model's output scales as depth to the power {mean:+.2f} for Adam's first step, to the power {random:+.2f} for a step with random signs, and to the power {gains:+.2f} for an SGD step on matrices and gains.",
    source="this chapter's prediction; Wang et al. 2022 do not cover Adam",
    published="predicted: 0.5",
    beside={"random": grown["random signs"], "gains": grown["SGD with gains"]},
    predicted=0.5,
)
computed([np.log(b / a) / np.log(high / low) for a, b in levels]).claim(
    "05-square-roots-level-adam",
    "in [-0.2, 0.2]",
    "With square roots in place of the fourth roots in DeepNorm's constants, Adam's first step on the matrices moves the model's output equally far at every depth.",
    found=f"With square roots in DeepNorm's constants, α = (2N)^(1/2) and β = (4N)^(−1/2) for N blocks, the distance by which Adam's first step moves the output scales as depth to the power {{mean:+.2f}} between {low} and {high} blocks.",
    source="this chapter's prediction; GLM-130B's powers of depth, arXiv 2210.02414",
    published="predicted: 0",
    predicted=0.0,
)

# %% [markdown]
r"""
So "DeepNorm bounds the model update" needs a restriction: the bound holds for *one step of gradient descent, on the matrices*. Transformers are trained with Adam. A bound for Adam's
first step on the matrices needs $\beta/\alpha \sim 1/N$. If this is split evenly between the constants, **square roots take the place of fourth roots**. GLM-130B ([Zeng et al., 2023](https://arxiv.org/abs/2210.02414))
uses them: its "DeepNorm" has $\alpha = (2N)^{1/2}$ and $\beta = (2N)^{-1/2}$.
No exponent on the slider in *Predict* makes all three lines level: an SGD step and a random step need $a = \frac14$, and Adam's first step needs $a = \frac12$.

Depth-μP ([Bordelon et al., 2024](https://arxiv.org/abs/2309.16620), and [Yang et al., 2024](https://arxiv.org/abs/2310.02244)) and
CompleteP ([Dey et al., 2025](https://arxiv.org/abs/2505.01618)) specify how branches must shrink with depth so that Adam's learning rate carries over to deeper models. [Chapter 10](10_choosing_a_norm.ipynb) measures both.

### Thirty-two blocks in training

Does a deep model learn because its first step is bounded? We train our 32 blocks with all four combinations of the constants, with Adam and without warm-up, for 150 steps. We add three models. One is Post-Norm with its classical remedy, a warm-up over the first third of the steps. The others, Pre-Norm and Post-Norm with neither constant, have the small initial weights usual for Pre-Norm. These weights follow *Megatron's* rule, which draws all matrices with the same standard deviation and divides those that write to the stream by $\sqrt{2N}$. If small branches are enough,
Post-Norm with these weights must learn, too.

<details><summary>How we tuned and evaluated</summary>

We try seven learning rates with one seed. For Post-Norm with Xavier's weights and for α alone, we take the best. For the other models without warm-up, we add two seeds at the best rate and its neighbours, and take the lowest point of a parabola through the means. We evaluate all models without warm-up with five other seeds.

</details>

| question | choices | ours |
| --- | --- | --- |
| Thirty-two blocks of Post-Norm from small initial weights, with neither α nor β: what have they learned after 150 steps? <!-- 05-small-weights-start-alone --> | at most letter frequencies; <!-- 0.2 --> clearly more than letter frequencies | <details><summary>show</summary>With small initial weights, Post-Norm starts to learn without α and β.</details> |
| The same blocks from Xavier's larger weights, with four times as many steps: what have they learned? <!-- 05-post-from-xavier-stays-stuck --> | at most letter frequencies; <!-- 0.2 --> clearly more than letter frequencies | <details><summary>show</summary>With Xavier's weights, 32 blocks of Post-Norm do not start to learn even in four times as many steps.</details> |
"""

# %%
base = Run(
    model=replace(small, depth=sizes.depth),
    data=Text(batch=8, time=32, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, schedule="linear"),
    probes=("validation", "test"),
)
megatron = {"model.init": "megatron"}
rivals = {
    "Post-Norm": post,
    "α alone": alpha_alone,
    "Post-Norm, small weights": {**post, **megatron},
    "β alone": beta_alone,
    "DeepNorm": deep,
    "Pre-Norm": {**pre, **megatron},
}
rescue = {"Post-Norm, warm-up": {**post, "train.warmup": sizes.warmup}}
tried = {"arm": {**rivals, **rescue}, "train.lr": sizes.rates, "seed": [ladder.TUNING_SEED]}
coarse = lab.run(Experiment(base, tried))
chosen = {arm: coarse.where(arm=arm).best("lr") for arm in rivals}


# %%
def find_vertex(results):
    """Find the bottom of a parabola in log(rate) through the mean validation losses."""
    losses = {lr: fmean(at.values("validation.loss")) for lr, at in results.by("lr").items()}
    if len(losses) < 3:
        return min(losses, key=losses.get)
    bend, slope, _ = np.polyfit(np.log([*losses]), [*losses.values()], 2)
    return float(f"{np.exp(-slope / (2 * bend)):.2g}")


# %%
tuning = coarse
for arm in ("Post-Norm, small weights", "β alone", "DeepNorm", "Pre-Norm"):
    i = sizes.rates.index(chosen[arm])
    near = sizes.rates[max(i - 1, 0) : i + 2]
    beside = {"arm": {arm: rivals[arm]}, "train.lr": near, "seed": ladder.TUNING_SEEDS[1:]}
    tuning += lab.run(Experiment(base, beside))
    chosen[arm] = find_vertex(tuning.where(arm=arm, lr=near))

# %%
from labkit.corpora.ngrams import ngram_loss

best = {arm: {**rivals[arm], "train.lr": chosen[arm]} for arm in rivals}
best |= {f"β alone, at {lr:g}": {**beta_alone, "train.lr": lr} for lr in sizes.beta_beside}
final = lab.run(Experiment(base, {"arm": best, "seed": five}))
test = final.measure_by("test.loss", "arm")
counts = {"letter frequencies": ngram_loss(base.data, 1), "bigram counts": ngram_loss(base.data, 2)}

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(Experiment(base, {"arm": best, "seed": five}))

# %%
plots.curves(
    tuning.measure_by("test.loss", "arm", "lr"),
    xlabel="learning rate",
    ylabel="test loss (nats)",
    logx=True,
    reference=counts,
    caption="Test loss against learning rate for seven models with 32 blocks. At low rates, the models that learn have similar losses. They differ in the highest rate "
    "at which they still learn. With Xavier's weights, Post-Norm's loss is never lower than that of letter frequencies, and its lines with and without warm-up nearly coincide.",
    provenance=lab.provenance(tuning),
).named("thirty-two-by-rate")


# %%
plots.dots(
    {arm: losses.values for arm, losses in test.items()},
    xlabel="test loss (nats)",
    threshold=counts,
    caption="Test loss of six models with 32 blocks, each at its tuned learning rate. The last two rows show the model with β alone at the two tried rates on either side of its tuned one.",
    provenance=lab.provenance(final),
).named("thirty-two-blocks")

# %%
letters = counts["letter frequencies"]
tuned = tuning.where(arm="Post-Norm, small weights")
below = test["Post-Norm, small weights"].map(lambda loss: letters - loss)
below.after(tuned.measure("test.loss")).tuned(regime.untuned(tuned, five)).claim(
    "05-small-weights-start-alone",
    "> 0.2",
    "With small first weights thirty-two blocks of Post-Norm start without either constant.",
    found="With Megatron's small initial weights and neither of DeepNorm's constants α and β, 32 blocks of Post-Norm have a test loss {mean:.2f} nats lower than that of a model that knows only letter frequencies, after {steps} steps at learning rate {rate:g}.",
    source="this book",
    beside={
        "rate": chosen["Post-Norm, small weights"],
        "steps": base.train.steps,
        "second value": "12 blocks, and three thresholds, in the table below",
        "control": "the same model from Xavier's weights, at seven rates and for four times the steps",
    },
)
# %%
patient = {"model.recipe": ["post"], "train.steps": [4 * sizes.steps]}
rates = {"train.lr": sizes.long_rates, "seed": [ladder.TUNING_SEED]}
slow = lab.run(Experiment(base, {**patient, **rates}))
slowest = slow.again(lr=slow.best("lr"), seed=five).measure("test.loss")
# %%
below = slowest.map(lambda loss: letters - loss)
below.after(slow.measure("test.loss")).tuned().claim(
    "05-post-from-xavier-stays-stuck",
    "< 0.2",
    "From Xavier's weights thirty-two blocks of Post-Norm do not start in four times as many steps, either.",
    found="With Xavier's initial weights, after {steps} steps at {rate:g}, the best of {rates} learning rates, the test loss of 32 blocks of Post-Norm is {loss:.3f} nats. The loss of letter frequencies is {letters:.3f} nats.",
    source="this book",
    beside={
        "steps": 4 * sizes.steps,
        "rates": len(sizes.long_rates),
        "rate": slow.best("lr"),
        "loss": slowest,
        "letters": letters,
        "second value": "150 steps at seven rates, with a warm-up and without",
        "control": "the same model from small weights",
    },
)

# %% [markdown]
r"""
So small branches are enough for a start, and DeepNorm's constants are one of several ways to get them. Not all ways are equally safe: with α alone, the losses of the five seeds differ widely, and one of
them is higher than that of the unigram baseline (letter frequencies). With α alone, $s$ does not shrink with depth, so $s/\alpha$ falls only like $N^{-1/4}$, while a start near the identity needs $N^{-1/2}$. That may be the reason.

These runs are too short to [rank](claims.md) the models. After 150 steps, even the best of them has learned hardly more than which letter follows which: its loss is close to that of bigram counts. So read only the numbers of the next three cards. The mark *not seen at this scale* does not mean here that the models differ little.
"""

# %%
blind = Departure(
    **{**vars(base.model), "recipe": "deepnorm", "init": "deepnorm"}, differs="no attention"
)
without = {"model": [blind], "train.lr": [chosen["DeepNorm"]], "seed": five}
unseeing = lab.run(Experiment(base, without)).measure("test.loss")


def tell_lacks(*arms):
    """List the book's requirements that a comparison of two models does not meet."""
    return regime.too_young(
        base,
        tuning.where(arm=arms),
        final.where(arm=arms),
        trigram=ngram_loss(base.data, 3),
        worth=unseeing.mean - test["DeepNorm"].mean,
        claimed=(test[arms[0]] - test[arms[1]]).mean,
    )


# %%
of_both = test["Post-Norm"] - test["DeepNorm"]
of_both.tuned(tell_lacks("Post-Norm", "DeepNorm")).claim(
    "05-deepnorm-beats-post-from-xavier",
    "> 0.2",
    "A deep Post-Norm model with Xavier's initial weights has a far higher test loss than DeepNorm.",
    found="With 32 blocks and tuned learning rates, after {steps} steps, the test loss of Post-Norm with Xavier's initial weights is {mean:.2f} nats higher than DeepNorm's.",
    source="this book; for translation, 10 to 100 layers, Wang et al. 2022, arXiv 2203.00555, Figure 6",
    beside={"steps": base.train.steps},
)
of_alpha = test["β alone"] - test["DeepNorm"]
(of_alpha / of_both).tuned(tell_lacks("β alone", "DeepNorm")).claim(
    "05-alpha-is-not-needed-here",
    "< 0.1",
    "With 32 blocks of DeepNorm, leaving out only α raises the test loss less than a tenth as much as leaving out both α and β.",
    found="With 32 blocks of DeepNorm and tuned learning rates, leaving out α (on the skip) and keeping β (on the initial weights) raises the test loss by {nats:.3f} nats, which is {mean:.1%} of the increase if both are left out.",
    source="this book",
    beside={"nats": of_alpha},
)
# %%
(test["Pre-Norm"] - test["DeepNorm"]).tuned(tell_lacks("Pre-Norm", "DeepNorm")).claim(
    "05-deepnorm-beats-pre-each-tuned",
    "> 0",
    "With both learning rates tuned, DeepNorm reaches a lower test loss than Pre-Norm.",
    found="With 32 blocks and tuned learning rates, after {steps} steps, DeepNorm's test loss is {apart:.3f} nats {side} that of Pre-Norm with its usual initialization.",
    source="Wang et al. 2022, arXiv 2203.00555 (WMT17 En–De, 100 + 100 layers: 28.9 BLEU)",
    published="the good performance of Post-LN with the stable training of Pre-LN (abstract)",
    beside={"steps": base.train.steps},
    domain=Domain(
        "translation, 100 + 100 layers",
        f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
        inside=False,
    ),
)

# %% [markdown]
r"""
These short runs show which learning rates a model tolerates. Are these rates determined by how far the first step moves the output? The table shows this distance and the highest learning rate at which the model still learns, with 32 and with 12 blocks. A model counts as learning if its loss is at least
0.1, 0.2 or 0.4 nats lower than that of the unigram baseline (the last three columns).
"""

# %%
second = {"arm": rivals, "model.depth": [sizes.second_depth], "train.lr": sizes.rates}
shallower = lab.run(Experiment(base, {**second, "seed": [ladder.TUNING_SEED]}))
two_depths = {"arm": rivals, "model.depth": [sizes.depth, sizes.second_depth], "seed": five}
first_steps = lab.run(Experiment(start, two_depths))


# %%
def find_highest(results, arm, cut):
    """Return the highest rate at which an arm gets so many nats below letter frequencies."""
    rates = results.where(arm=arm, seed=ladder.TUNING_SEED).by("lr")
    learn = [lr for lr, at in rates.items() if at.values("test.loss")[0] < letters - cut]
    return f"{max(learn):g}" if learn else "none"


plots.table(
    {
        "blocks": depth,
        "model": arm,
        "‖ΔF‖ / η, SGD": of_arm.measure("step-response.sgd").mean,
        "‖ΔF‖ / η, Adam": of_arm.measure("step-response.adam").mean,
        **{f"highest rate, {cut} nats": find_highest(trained, arm, cut) for cut in (0.1, 0.2, 0.4)},
    }
    for depth, trained in ((sizes.depth, coarse), (sizes.second_depth, shallower))
    for arm, of_arm in first_steps.where(depth=depth).by("arm").items()
)

# %% [markdown]
r"""
From Post-Norm to α alone, β alone and DeepNorm, the first step moves the output less and less, and the highest learning rate never falls. That looks like a rule, but the other two models break it.
The first steps of Pre-Norm and of Post-Norm with the same small weights move the output about equally far, at either depth, yet Pre-Norm trains at a higher rate. So this distance does not determine which learning rate a model tolerates. No model has a small first move and large branches, so it remains open whether a small move by itself would be enough for a start. (Each method's highest rate is known from one seed only, and neighbouring rates differ by a factor of about two.)

**DeepNorm keeps its promise, but the promise is about one step.**

### Six blocks, trained long

At size S, the smallest of the *ladder* (the experiment grid that all chapters share), we train six blocks of width 32 for 3,200 steps. Here all methods have
RMSNorm, SwiGLU and a warm-up; `post` has Megatron's small weights, and `post, xavier` has Xavier's.

In the table, an improvement over Pre-Norm is negative if the method's loss is higher. *Learning-rate sensitivity* is the mean validation loss over two decades of learning rates, minus the loss at the best one (no loss counts as more than that of the unigram baseline).
"""

# %%
first = "S"
asked = climbed.where(arm=["pre", "post", "post, xavier", "deepnorm"], rung=first)
columns = {
    "recipe": "method",
    f"{first}: n": "runs",
    f"{first}: test": "test loss",
    f"{first}: improvement": "improvement over Pre-Norm",
    f"{first}: sensitivity": "sensitivity",
}
rows = [{to: row.get(key, "") for key, to in columns.items()} for row in ladder.table(asked)]
plots.table(rows, digits=4)

# %%
ladder.improvement(climbed, "deepnorm", "post").claim(
    "05-ladder-against-post",
    "< 0",
    "Six blocks and a long training: DeepNorm ends above Post-Norm from small weights.",
    found="At size {rung}, with tuned learning rates, DeepNorm's test loss is {apart:.4f} nats {side} that of Post-Norm with small initial weights.",
    source="this book",
)

# %% [markdown]
r"""
The card compares two whole methods: DeepNorm has heavier skips than `post` *and* different
initial weights. With six blocks, Post-Norm trains without
constants. So this comparison says nothing about the depths for which DeepNorm was designed.
[Liu et al. (2023)](https://arxiv.org/abs/2305.02790) suspect that DeepNorm limits the updates throughout training, and so leaves models undertrained. We did not train 32 blocks long enough to test this.

### A thousand blocks at their first step

A single stack of 1,000 blocks has 2,000 sublayers. Does the gradient keep its size from the last block to the first?

| question | choices | ours |
| --- | --- | --- |
| At the first step of a thousand blocks, by which factor do the gradients of DeepNorm's first and last block differ? <!-- 05-thousand-blocks-level-gradients --> | less than two; <!-- 0.3 --> up to a hundred; <!-- 2 --> more | <details><summary>show</summary>DeepNorm's gradients have the same size from end to end.</details> |
"""

# %%
tall = sizes.tallest
asked = {"arm": main, "model.depth": [tall], "probes": [("gradient-at-start",)], "seed": five}
thousand = lab.run(Experiment(start, asked))
plots.by_depth(
    {arm: of.values("gradient-at-start.0")[:1] for arm, of in thousand.by("arm").items()},
    xlabel="block",
    ylabel="norm of the gradient of W₂",
    logy=True,
    caption="Norm of the gradient of each feed-forward output matrix W₂, by block, at the first step of models with a thousand blocks. "
    "Which method's gradients keep their size? (Pre-Norm here has Xavier's weights.)",
    provenance=lab.provenance(thousand),
).named("thousand-blocks")


# %%
def compare_ends(record):
    """Say by how many powers of ten the first and the last gradient differ."""
    by_block = record.probes["gradient-at-start"]["0"]
    return abs(np.log10(by_block[0] / by_block[-1]))


ends = thousand.measure_by(compare_ends, "arm")
ends["DeepNorm"].claim(
    "05-thousand-blocks-level-gradients",
    "< 0.5",
    "With a thousand blocks of DeepNorm, the gradients of W₂ in the first and in the last block have about the same norm.",
    found="With 1,000 blocks, at the first step, the gradient norms of W₂ in the first and in the last block differ by a factor of 10^{mean:.2f} under DeepNorm, and, with Xavier's weights, 10^{pre:.1f} under Pre-Norm and, depending on the seed, 10^{least:.1f} to 10^{most:.1f} under Post-Norm.",
    source="this book; a thousand layers were trained by Wang et al. 2022, arXiv 2203.00555",
    beside={
        "pre": ends["Pre-Norm"],
        "least": min(ends["Post-Norm"].values),
        "most": max(ends["Post-Norm"].values),
    },
)

# %% [markdown]
r"""
In [chapter 02](02_pre_and_post_norm.ipynb), the gradients of Post-Norm did not vanish at the first step, over twelve sublayers with small weights. Over 2,000 sublayers with Xavier's weights, they can vanish, depending on the seed. DeepNorm's gradients have about the same size in all blocks, so none of them is lost at the first step. That
does not mean that DeepNorm trains better, least of all under Adam, which divides each gradient by its own size. Only training can show whether it does. On OPUS-100, Wang et al. report 4.4 BLEU points more for 1,000 layers than for a 48-layer
baseline (BLEU scores translations; higher is better). Neither their runs nor ours rule out Pre-Norm or Post-Norm at that depth.

## Where it goes wrong

DeepNorm takes two lines of code, and there are public copies with a mistake in either.

**α on the branch.** A widely read annotated implementation has the right formula in its comment and `x + self.alpha * gx` in [the line below](https://github.com/labmlai/annotated_deep_learning_paper_implementations/blob/e6b3c8a6a2cdae4071bcde1abeaaf9a2bc37bd53/labml_nn/normalization/deep_norm/__init__.py#L112). By scale invariance, this line is DeepNorm with $1/\alpha$ in place
of $\alpha$. The bug was
[reported](https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/145) in 2022, but the fix changed a different line.

**β inverted.** The baseline called DeepNorm in the code of Mix-LN ([Li et al., 2025](https://arxiv.org/abs/2412.13795)) and of LayerNorm-Scaling
([Sun et al., 2025](https://arxiv.org/abs/2502.05795)) draws its weights with the gain $(8N)^{+1/4}$ ([Mix-LN's line](https://github.com/pixeli99/MixLN/blob/ff458269dff837f1900025fb7cc864b404b9c7e6/peft_pretraining/modeling_llama.py#L824), [LayerNorm-Scaling's](https://github.com/lmsdss/LayerNorm-Scaling/blob/3ac54dde961b04780b152bc8b38b71b2f8e1c16a/peft_pretraining/modeling_llama.py#L863)). Its $\alpha$ is the number 2.828 at every depth ([typed into the code](https://github.com/pixeli99/MixLN/blob/ff458269dff837f1900025fb7cc864b404b9c7e6/peft_pretraining/modeling_llama.py#L455)): $2\sqrt2$, which is right for 32 blocks only.

**Other bugs.** Some code applies β to all matrices in one loop, and some gives a single decoder the constants of a pair. The paper on KEEL, a method related to DeepNorm ([Chen and Wei, 2026](https://arxiv.org/abs/2601.19895)),
quotes $\beta$ as $L^{-1/4}$ with $L$ *sublayers*. Since $8N = 4L$, it should be $(4L)^{-1/4}$.

None of these bugs raises an error. The table shows their effect on our 32 blocks, before training and after 150 steps at a low learning rate and at about DeepNorm's tuned one. *Cosine* is the cosine between the embedding and the output, as above. The last column says which check of the exercises finds the bug:
"""

# %%
n, a, b = 32, 64**0.25, 256**-0.25
slips = {  # the step, the gain, and what they are at 32 blocks: α, β and the gain of q and k
    "right": (solved_step, solved_gain, (a, b, 1)),
    "α on the branch": (lambda x, f, norm, N: norm(x + (2 * N) ** 0.25 * f(x)), solved_gain, (1 / a, b, 1)),
    "α = 2.828, β inverted": (lambda x, f, norm, N: norm(2.828 * x + f(x)),
        lambda name, N: 1 if name in "qk" else (8 * N) ** 0.25, (2.828, 1 / b, 1)),
    "β on q and k too": (solved_step, lambda name, N: (8 * N) ** -0.25, (a, b, b)),
    "decoder of a pair": (lambda x, f, norm, N: norm((3 * N) ** 0.25 * x + f(x)),
        lambda name, N: 1 if name in "qk" else (12 * N) ** -0.25, ((3 * n) ** 0.25, (12 * n) ** -0.25, 1)),
    "β = L^(−1/4), L sublayers": (solved_step, lambda name, N: 1 if name in "qk" else (2 * N) ** -0.25, (a, (2 * n) ** -0.25, 1)),
}  # fmt: skip

# %%
copy = Departure(**{**vars(base.model), "recipe": "deepnorm"})
models = {
    slip: {"model": replace(copy, constants=constants)}
    for slip, (_, _, constants) in slips.items()
    if slip != "right"
}
slipped = {"arm": {"right": deep, **models}, "train.lr": sizes.slip_rates, "seed": five[:2]}
trained_slips = lab.run(Experiment(base, slipped))
# %%
rows = []
for slip, (step, gain, (alpha, beta, qk)) in slips.items():
    model, reports = build_stack(n, alpha, beta, qk=qk), (check_step(step), check_gain(gain))
    rows.append({
        "model": slip,
        "sum in the bound": 4 * n * beta**2 / alpha**2,
        "‖ΔF‖ / η, SGD": step_response(model, batch, ("sgd",))["sgd"],
        "cosine": measure_kept(model),
        **{f"loss at rate {lr:g}": trained_slips.where(arm=slip, lr=lr).measure("test.loss").mean for lr in sizes.slip_rates},
        "found by": ", ".join(name for name, of in zip(("step", "weights"), reports, strict=True) if not of.ok) or "—",
    })  # fmt: skip
plots.table(rows)

# %%
exact(sum(row["found by"] == "—" for row in rows[1:])).claim(
    "05-checks-see-every-slip",
    "<= 0",
    "A comparison of the step and the initial weights with the method's equations reveals every wrong copy of DeepNorm that we tried.",
    found="The checks of the step and of the initial weights accept {mean:.0f} of {slips:.0f} wrong copies of DeepNorm.",
    source="public code: annotated implementations, the baseline of Mix-LN and LayerNorm-Scaling",
    beside={"slips": len(rows) - 1},
)

# %% [markdown]
r"""
The measurement of one step reveals the first two bugs: the step moves the model a hundred times too far or more. The loss reveals an inverted β at both rates, but α on the branch only at the higher one. The other three bugs hardly change the loss (two seeds each). A published table whose DeepNorm baseline has β inverted says nothing about DeepNorm.

## Exercises

**3 (by hand, 5 minutes).** Suppose that we split the work unevenly: $\alpha = (2N)^{1/3}$ and $\beta$ like $N^{-1/6}$. With which power of depth does the effect of a step on the
matrices grow, for SGD and for Adam's first step?
"""

# %% tags=["exercise"]
yours = {"sgd": ..., "adam": ...}

# %%
share = 1 / 3 + 1 / 6
truth = {"sgd": 1 - 2 * share, "adam": 1 - share}
check.answer(yours, truth, name="3", hint="how often does the factor β/α enter, once or twice?")

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\beta/\alpha \sim N^{-1/6 - 1/3}$. There are $2N$ sublayers.

</details>
<details><summary>Solution</summary>

$\beta/\alpha \sim N^{-1/2}$, as with DeepNorm's own constants. The distance is $N\cdot N^{-1} = N^0$ for SGD and $N\cdot N^{-1/2} = N^{1/2}$ for Adam. Any split with $a + b = \frac12$ meets the demand.

</details>

**4 (a proof, 10 minutes).** Take step 2's inequality as given: $\|\Delta F\| \le \sum_{i=1}^{2N}\frac{\sqrt2\,\beta}{\alpha}\|\Delta\theta_i\|$. (a) Adam's first step moves each of the $m$ numbers of a sublayer
by $\eta$. Show that with DeepNorm's constants $\|\Delta F\| \le \eta\sqrt{2Nm}$. (b) Show that no choice of $\alpha(N)$, $\beta(N)$ makes the bound for SGD *equal* to $\eta$ at every depth and
keeps Adam's bounded. (c) Which choice keeps both bounded, and what does it cost?

<details><summary>Hint</summary>

For (b), write both bounds with $r = \beta/\alpha$ alone.

</details>
<details><summary>Solution</summary>

(a) $\|\Delta\theta_i\| = \eta\sqrt m$ and $\sqrt2\,\beta/\alpha = \alpha^{-2} = (2N)^{-1/2}$, so the sum is $2N(2N)^{-1/2}\eta\sqrt m$.

(b) The bounds are $4Nr^2\,\eta$ for SGD and $2\sqrt2\,Nr\,\eta\sqrt m$ for Adam. The first equals $\eta$ only for $r = \frac12N^{-1/2}$. Then the second is $\sqrt{2N}\,\eta\sqrt m$.

(c) $r \le C/N$: if this is split evenly, each constant is a square root of the depth. SGD's bound is then at most $4C^2\eta/N$. Under SGD, such a deep model hardly moves.

</details>

**5 (open).** With GLM's powers of depth, Adam's first step on the matrices moves the model equally far at every depth. Do 32 blocks train better with these constants? `build_stack` sets both constants, and `labkit.train(model, batches, base.train)` trains a model that you built. Or
keep DeepNorm's constants and change the optimizer: the promise *was* made for SGD. Does leaving out α cost more under SGD than under Adam? Decide beforehand which result would change your mind.
"""

# %% tags=["exercise"]
my_prediction = "…"
sgd = {"train.optimizer": "sgd", "train.lr": 0.1}
ideas = {arm: {**rivals[arm], **sgd} for arm in ("β alone", "DeepNorm")}
my_experiment = Experiment(base, {"arm": ideas, "seed": five})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## What you now know

- **Which quantity must not grow with depth?** It is the distance by which one step of gradient descent moves the model's output. <!-- 05-update-is-bounded 05-post-update-is-larger -->
- **Why two constants?** A bound on this distance fixes only their ratio. With the published fourth roots, both are needed. One constant alone would have to be a square root.
  <!-- 05-bound-is-one 05-one-constant-is-not-enough -->
- **Why fourth roots?** The ratio must fall like $N^{-1/2}$, and the paper splits it evenly between the constants. For Adam, of which we measured only the first step, the ratio would have to fall like $1/N$, which takes square
  roots, as in GLM-130B. <!-- 05-step-adam 05-square-roots-level-adam -->
- **Does a deep model train because its first step is bounded?** Small branches are enough for a start, and DeepNorm's constants are one way to get them: our 32 blocks of Post-Norm also start from small weights without
  any constant. From Xavier's weights, they did not start in 600 steps. None of our runs shows the loss of such models after long training.
  <!-- 05-small-weights-start-alone 05-post-from-xavier-stays-stuck -->
- **Which weights does β scale?** It scales the value, output and feed-forward matrices, which set the size of a branch. The paper's "1,000 layers" are 2,500 sublayers, in an encoder and a decoder that use different constants.
  <!-- 05-which-weights C-thousand-layers-are-2500-sublayers -->
- **How do you find a wrong constant?** It raises no error. Compare the block with its equation, and the weights with the rule. <!-- 05-checks-see-every-slip -->

## To carry away

- **Equation.** $x \leftarrow \mathrm{LN}(\alpha x + f(x))$, with value, output and feed-forward matrices drawn $\beta$ times as large as Xavier's.
- **Constants.** Decoder of $N$ blocks: $\alpha = (2N)^{1/4}$, $\beta = (8N)^{-1/4}$.
- **When to use it.** Use DeepNorm for Post-Norm models of many blocks. Its mean loss is not lower than that of a tuned Pre-Norm in any comparison here. The evidence for it comes from the authors' translation models.
- **Cost.** DeepNorm costs almost nothing at run time, but its loss depends more strongly on the learning rate than Pre-Norm's.
- **Related methods.** Admin ([Liu et al., 2020](https://arxiv.org/abs/2004.08249)) multiplies the skip of each sublayer by a learned weight $\omega$. KEEL multiplies the skip by the number of sublayers and also normalizes the branch's input. Appendix C [trains both](C_zoo.ipynb#post-norm-with-help) at tuned learning rates.

| you see | cause | try |
| --- | --- | --- |
| the first step moves the model a hundred times too far | $\alpha$ on the branch, or $\beta$ inverted | compare the block with its equation, and the weights with the rule |
| deep Post-Norm learns nothing | branches too large: Xavier's weights without constants | $\beta$ or small initial weights, and $\alpha$ as well for a higher rate |
| deep Post-Norm learns only with some seeds | branches too large: Xavier's weights with $\alpha$ alone | $\beta$ as well, or small initial weights |
| the constants do not fit the model | $N$ counted in sublayers, or the constants of an encoder with a decoder | count blocks, and see *Encoder and decoder* |

## References

Works cited: [Liu et al. (2020)](https://arxiv.org/abs/2004.08249), [Liu et al. (2023)](https://arxiv.org/abs/2305.02790), [Zeng et al. (2023)](https://arxiv.org/abs/2210.02414), [Bordelon et al. (2024)](https://arxiv.org/abs/2309.16620), [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), [Yang et al. (2024)](https://arxiv.org/abs/2310.02244), [Dey et al. (2025)](https://arxiv.org/abs/2505.01618), [Li et al. (2025)](https://arxiv.org/abs/2412.13795), [Sun et al. (2025)](https://arxiv.org/abs/2502.05795), [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
