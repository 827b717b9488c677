# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Why normalize at all

**Question.** Ninety-six people stand in a row. Each passes a whispered number on, enlarged by ten per cent, and the number that leaves the row is
$1.1^{96} \approx 9{,}412$ times the one that entered. GPT-3 has 96 blocks ([Brown et al., 2020](https://arxiv.org/abs/2005.14165)). Signals
travel up through the blocks, and gradients travel down. Which remedy lets a deep network learn: careful initialization, skips or norms?

<details><summary>In short (contains spoilers)</summary>

- Skips make depth possible if their *branches* (the layers that each skip bypasses) stay small compared with the **stream**, the sum that runs along the skips. Norms keep them small. So does a smaller initialization of each branch.
- BatchNorm also widens the range of learning rates that work, and allows larger ones.
- Careful initialization keeps signal and gradient from exploding or vanishing, but only at the start of training. It preserves nothing but size: different inputs still become alike.
- With sixteen layers all five architectures of this chapter learn. With forty-eight layers, norms and skips together learn in 400 steps, and so do skips whose branches start small. BatchNorm alone hardly learns. Skips alone classify some of the digits correctly, but their wrong answers are so confident that the loss stays above that of guessing at every learning rate.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from math import inf, log
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits
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
from labkit.model.stacks import INITS, StackConfig, follow_gradient, signal
from labkit.norms import layer_norm
from labkit.placements import NoNorm, ResNetV2
from labkit.source import show

# %%
lab = Lab("00_why_normalize", size=size, seed=seed, memory={"kernel": "1000M", "run": "950M"})
sizes = lab.sizes(
    # a pair: book, gpu
    heights=([4, 16, 48], [4, 16, 48, 96]),
    rates=[1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1, 3.16e-1, 1.0],
    low_rates=[1e-9, 3.16e-9, 1e-8, 3.16e-8, 1e-7, 3.16e-7, 1e-6, 3.16e-6, 1e-5, 3.16e-5],
    steps=(400, 4000),
    noise_steps=(200, 1000),
    noise_rates=([1e-2, 3e-2, 1e-1], [1e-2, 3e-2, 1e-1, 3e-1]),
    race_rates=[1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0],
)
five = lab.seeds(5)


# %%
designs = {
    "neither": {"model.step": "plain"},
    "norms": {"model.step": "plain", "model.norm": "batch"},
    "skips": {"model.step": "none"},
    "small branches": {"model.step": "none", "model.init": "scaled"},
    "norms and skips": {"model.step": "resnet-v2", "model.norm": "batch"},
}
digits = Run(
    model=StackConfig(),
    data=Digits(batch=32),
    train=TrainConfig(steps=sizes.steps, optimizer="sgd", schedule="linear"),
)
field = {"design": designs, "model.depth": sizes.heights, "train.lr": sizes.rates}
tuning = lab.run(Experiment(digits, {**field, "seed": [ladder.TUNING_SEED]}))

# Skips alone, at the greatest depth, at rates down to a hundred-thousandth of the others' lowest.
high = max(sizes.heights)
quiet = {"design": {"skips": designs["skips"]}, "model.depth": [high], "train.lr": sizes.low_rates}
tuning += lab.run(Experiment(digits, {**quiet, "seed": [ladder.TUNING_SEED]}))

# %%
tuned = {
    f"{name} | {depth}": {**designs[name], "model.depth": depth, "train.lr": cell.best("lr")}
    for name, part in tuning.by("design").items()
    for depth, cell in part.by("depth").items()
}
final = lab.run(Experiment(digits, {"arm": tuned, "seed": five})).by("arm")


# %%
def read(name, what, depth=high):
    """Read a number of a design at its own rate, for each seed; NaN where a run diverged."""
    return final[f"{name} | {depth}"].measure(f"test.{what}")


def draw_accuracy(names, caption):
    """Draw the test accuracy of designs against depth."""
    lines = {name: {n: read(name, "accuracy", n).values for n in sizes.heights} for name in names}
    return plots.curves(
        {ALONE.get(name, name): line for name, line in lines.items()},
        xlabel="layers",
        ylabel="test accuracy",
        logx=True,
        ylim=(0, 1.02),
        reference={"guessing": 0.1},
        caption=f"{caption} A run that diverged is drawn at the accuracy of guessing.",
        provenance=lab.provenance(*final.values()),
    )


# %%
ALONE = {"neither": "initialization alone", "skips": "skips alone", "norms": "BatchNorm alone"}
draw_accuracy(
    ["neither", "skips", "norms and skips"],
    "Test accuracy against depth of networks that classify images of digits, for three designs at tuned learning rates. All start with carefully drawn weights. Of the three, only norms and skips together learn well "
    "at forty-eight layers.",
).named("three-designs")

# %% [markdown]
r"""
## The idea: one factor, ninety-six times

Depth multiplies. A factor per layer, or *gain*, of $1.01$ is harmless: $1.01^{96} \approx 2.6$. A gain of $1.5$ multiplies a whisper by $8\cdot10^{16}$.
At that gain float16, whose largest number is 65,504, overflows at layer 28. bfloat16, which has float32's range but fewer digits, would overflow only at layer 219.
"""


# %%
def pass_on(gain, people=96, dim=64):
    """Return the sizes of signal, of gradient, and of the gradients of the matrices, by layer."""
    turns = [torch.linalg.qr(torch.randn(dim, dim).double())[0] for _ in range(people)]
    row = [(gain * turn).requires_grad_() for turn in turns]
    first, last = (dim**0.5 * F.normalize(torch.randn(dim).double(), dim=0) for _ in range(2))
    up = [first.requires_grad_()]
    for person in row:
        up.append(person @ up[-1])
    down = torch.autograd.grad(up[-1], [*up, *row], last)
    found = [part.detach().norm().item() / dim**0.5 for part in (*up, *down)]
    return found[: people + 1], found[people + 1 : -people], found[-people:]


def draw_row(gain):
    torch.manual_seed(seed)
    up, down, _ = pass_on(gain)
    lines = {"signal, going up": up, "gradient, coming down": down}
    axes = {"ylabel": "root mean square", "logy": True, "ylim": (1e-8, 1e20), "start": 0}
    mark = {"largest float16": 65504}
    caption = f"RMS of signal and gradient after each of ninety-six random rotations, each multiplied by {gain:g}."
    return plots.by_depth(lines, **axes, reference=mark, caption=caption)


plots.explore(
    draw_row, [0.9, 1.0, 1.1, 1.5], "row", label="gain of each layer", start=1.1, formula=plots.ClosedForm("row", 0.8, 1.6, 0.01, {"depth": 96}),
    caption="Root mean square (RMS) of signal and gradient, layer by layer, in a row of ninety-six random rotations, each multiplied by the gain. Read the signal from left to right and the gradient from right to left: "
    "the gradient reaches layer 0 last. Whatever the gain, the two lines are mirror images of each other.",
)  # fmt: skip

# %% [markdown]
r"""
Three repairs are known: careful initialization, skips around layers, and normalization of the signal on its way. Each is said to solve the problem,
and nearly every large model uses all three.

### How to read this book

Besides explaining norms, this book checks what other texts say about them. One of these texts, part 7 of the series *Transformer Anatomy*, gives $1.1^{96} \approx 8{,}916$ (see the [errata](errata.md)). When this book compares a published number, or our own prediction,
with a result that it computes or measures, it states a **claim**, which is shown as one line:
"""

# %%
exact(1.1**96).claim(
    "00-growth-by-a-tenth",
    "in [8900, 8930]",
    "A gain of 1.1 at each of 96 layers multiplies a signal by about 8,916.",
    found="A gain of 1.1 at each of 96 layers multiplies a signal by {mean:,.0f}.",
    source="Transformer Anatomy, part 7: normalization in transformers",
    published="8,916",
)

# %% [markdown]
r"""
Click the line to open its **card**. The mark in front of the line is the **verdict**. The number meets the card's criterion (●, or ✓ for an exact claim) or misses it, as here (▲), or our runs do not settle the question (○) or cannot answer it (◇).
If a card says *preregistered*, its criterion and our forecast were on file before any of its runs began. [What a claim is](claims.md) explains the rest: the kinds of claims, *preliminary evaluations* and *weak* verdicts.

### Signal and gradient share one gain

Why are the curves of signal and gradient mirror images of each other? Let $W$ be $d\times d$, with independent entries of mean 0 and variance $g^2/d$. Let $x$ be the signal on
its way up, and $\delta$ the gradient on its way down. Then

$$\begin{aligned}
\mathbb E\|Wx\|^2 &= \sum_{i,j} \tfrac{g^2}{d} x_j^2 = g^2\|x\|^2, \\
\mathbb E\|W^\top\delta\|^2 &= g^2\|\delta\|^2.
\end{aligned}$$

The signal is multiplied by $W$ and the gradient by $W^\top$, and the gain is the same. One often reads the opposite: *if activations
grow on the way up, gradients shrink on the way down*. Many texts add that, if gradients vanish, only the early layers *starve* (hardly learn). But the gradient of a *matrix* is the gradient that comes down times the signal that
comes up, $\partial\mathcal L/\partial W_\ell = \delta_\ell\,x_{\ell-1}^\top$ for a loss $\mathcal L$. With $L - \ell$ matrices above layer $\ell$ and $\ell - 1$ below it, the size of this product scales as
$g^{L-\ell}\cdot g^{\ell-1} = g^{L-1}$, the same in every layer: all layers starve alike. Here are both passes, written without autograd:
"""


# %% tags=["mechanism"]
def pass_up(x, row):
    """Pass a signal up the row; return what each matrix read, and the end."""
    read = [x]
    for W in row:
        read.append(W @ read[-1])
    return read


def pass_down(delta, row, read):
    """Pass a gradient down; return it as it arrives, and the gradient of each matrix."""
    of_matrices = []
    for W, x in zip(reversed(row), reversed(read[:-1]), strict=True):
        of_matrices.insert(0, torch.outer(delta, x))
        delta = W.T @ delta
    return delta, of_matrices


# %%
torch.manual_seed(seed)
few = [torch.randn(8, 8).double().requires_grad_() for _ in range(5)]
kept = pass_up(torch.randn(8).double().requires_grad_(), few)
delta = torch.randn(8).double()
arrived, of_matrices = pass_down(delta, few, kept)
for mine, theirs in zip(
    [arrived, *of_matrices], torch.autograd.grad(kept[-1], [kept[0], *few], delta), strict=True
):
    assert torch.allclose(mine, theirs, rtol=1e-12)

# %% [markdown]
r"""
For the cards below we multiply each of ninety-six rotations by $g$, so that it multiplies every length by exactly $g$. A matrix of independent random entries multiplies $\|x\|^2$ by $g^2$ only on average over draws.
"""


# %%
torch.manual_seed(seed)
(up, down, _), (*_, starved) = pass_on(1.1), pass_on(0.9)
exact(down[0] / down[-1]).claim(
    "00-gradients-grow-with-the-signal",
    "> 1",
    "If a signal grows from the first of a row of linear layers to the last, its gradient grows from the last layer to the first.",
    found="A row of 96 rotations with a gain of 1.1 each multiplies a signal by {signal:,.0f} in the forward pass and a gradient by {mean:,.0f} in the backward pass.",
    source="against Transformer Anatomy, part 7: normalization in transformers",
    published="if activations grow forward, gradients shrink backward",
    beside={"signal": up[-1] / up[0]},
)
exact(starved[0] / starved[-1]).claim(
    "00-vanishing-spares-no-layer",
    "in [0.999, 1.001]",
    "If signals shrink from layer to layer in a row of linear layers, the weights of all layers get gradients of the same small size.",
    found="With a gain of 0.9 per layer, the gradient of the first of 96 matrices is {mean:.3f} times as large as that of the last.",
    source="against Exploring the Transformer, part 14: residual networks and normalization",
    published="early layers receive almost no updates, layers near the output are updated well",
)

# %% [markdown]
r"""
So vanishing and exploding have the same cause, a gain other than 1: below 1 signal and gradient vanish, and above 1 they explode. For some layers to starve while others learn, signal and gradient must
stop being mirror images. Saturation, biases or a norm can cause that, and exercise 4 shows how a norm does. The gain is not the *spectral norm*, the largest factor by which $W$
stretches any vector. A typical vector is stretched less, so the spectral norm is a loose bound: appendix A compares [four sequences of matrices that have the same spectral norm](A_skips.ipynb#the-largest-stretch-is-a-bound).

## Derivation: three repairs on paper

From here on we follow one network. It classifies handwritten digits, images of 8 × 8 pixels. One matrix reads the pixels, forty-eight matrices of width 64 follow, and a last matrix computes ten logits. The initialization follows He's rule. We compare five architectures, or *designs*. The next three sections explain He's rule and the terms in this list:

- *neither*: plain layers.
- *norms*: BatchNorm after each of the forty-eight matrices.
- *skips*: 24 residual steps, each with a branch of two matrices.
- *small branches*: skips, with the last matrix of each of the $S = 24$ branches divided by $\sqrt S$.
- *norms and skips*: ResNet v2. Each branch begins with BatchNorm and contains a second BatchNorm, and a last BatchNorm precedes the logits.

### First repair: draw the weights with care

A rectifier (ReLU) replaces negative numbers by zero, so half of the energy (the mean square) is lost: for symmetric $x$,
$\mathbb E[\mathrm{relu}(x)^2] = \frac12\mathbb E[x^2]$. So a layer $\mathrm{relu}(Wx)$ with $n$ inputs, whose weights have
variance $\sigma^2$, multiplies the mean square by $\frac12 n\sigma^2$, and its root, the RMS, by $\sqrt{n\sigma^2/2}$.

| rule | variance of a weight | RMS factor per layer | after 48 layers |
| --- | --- | --- | --- |
| PyTorch's `nn.Linear`, biases left out | $1/(3n)$ | $\sqrt{1/6}$ | $2\cdot10^{-19}$ |
| [Glorot and Bengio (2010)](https://proceedings.mlr.press/v9/glorot10a.html), "Xavier" | $2/(n_{\rm in} + n_{\rm out})$, here $1/n$ | $\sqrt{1/2}$ | $6\cdot10^{-8}$ |
| [He et al. (2015)](https://arxiv.org/abs/1502.01852) | $2/n_{\rm in}$ | 1 | 1 |
"""

# %%
energy = {rule: 64 * INITS[rule](64, 64) ** 2 / 2 for rule in ("torch", "xavier", "he")}
exact(energy["he"]).claim(
    "00-he-keeps-the-size",
    "in [0.999, 1.001]",
    "With He's rule, as implemented in labkit, a ReLU layer preserves the signal's mean square.",
    found="A ReLU layer multiplies the signal's mean square by {mean:.3f} with He's rule, by {xavier:.3f} with Xavier's rule and by {torch:.3f} with PyTorch's rule.",
    source="He et al. 2015, arXiv 1502.01852, section 2.2",
    beside={"xavier": energy["xavier"], "torch": energy["torch"]},
)

# %% [markdown]
r"""
What does He's rule *not* repair? It preserves only the size of the signal, and only at one moment, before the first
step. Two inputs may come out of a hundred layers as nearly *the same vector*. Then nothing has exploded, nothing has
vanished, and nearly everything is lost.

### Second repair: let the signal skip

A **residual** step is $x \leftarrow x + f(x)$ ([He et al., 2016a](https://arxiv.org/abs/1512.03385)). The term $x$ arrives through the *skip*, also called the *shortcut*, and $f(x)$ comes from the *branch*. The vector that runs along the skips is the stream. The step's Jacobian, the matrix of its derivatives, is
$I + J_f$, where $J_f$ is the branch's own Jacobian. If the product of these Jacobians over all steps is multiplied out, one of its terms is the identity: a path on which nothing is multiplied. **Highway networks**
([Srivastava et al., 2015](https://arxiv.org/abs/1505.00387)) had earlier mixed skip and branch through a learned gate.
He et al. had seen a plain network of 56 layers fit its own *training* data worse than one of 20 layers. To copy its input, a plain layer must learn suitable weights. A residual layer copies for free, and only has to learn what to add. [Appendix A](A_skips.ipynb#deeper-and-worse-on-its-own-training-data) repeats this comparison, with highways and other shortcuts.

Now the catch. If the output of $f$ is as large as its input and unrelated to it, variances add, and each step *doubles* the variance. In our network each step triples it: one part comes from the stream and two parts come from the branch. By He's rule each of the branch's two matrices doubles the mean square, and the one ReLU
between them halves it, so a branch's output has twice the variance of its input. After 24 steps the stream, and with it the logits before training, is $\sqrt3^{\,24} = 3^{12} \approx 530{,}000$ times as large. The skip has brought its own explosion. The cure is to keep the **branches** $f$
small. Divide each branch by $\sqrt S$. If each branch kept the variance of its input, the stream's variance would then grow by a factor of $(1 + \frac1S)^S < e$ in all. In our network, whose branches double the variance, it grows by a factor of $(1 + \frac2{24})^{24} \approx 6.8$, and the RMS by a factor of 2.6.
GPT-2's branches are made small in this way at initialization ([Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)), and
*Fixup* makes the first updates small, too ([Zhang et al., 2019](https://arxiv.org/abs/1901.09321)).

*By hand.* A stream of RMS 1 passes through twelve steps. Each branch is unrelated to the stream and has half its RMS. How large is the stream at the end?

<details><summary>Answer</summary>

Each step multiplies the variance by $1 + \frac14$. After twelve steps the variance is $1.25^{12} \approx 14.6$, and the RMS is 3.8.

</details>

The place of each operation matters as well. A factor $\lambda$ on the shortcut multiplies the direct path by $\lambda^S$, as in our row of people. A
ReLU on the shortcut, as in the first **ResNet**, also acts once per step. In **ResNet v2**, [He et al. (2016b)](https://arxiv.org/abs/1603.05027) moved
it into the branch.

### Third repair: normalize

A norm measures a size and divides by it. *BatchNorm* measures the size of a channel over the batch, and *LayerNorm* measures that of an example
over its channels (chapter 01). Whatever gain the weights have, the result has size one, at every step of training. In $N(Wx)$ the
scale of $W$ has no effect. For $c > 0$, and without the small $\varepsilon$ that code adds to the variance before it divides,

$$N(cWx) = N(Wx), \quad \nabla_W \mathcal L\,(cW) = \tfrac1c\,\nabla_W \mathcal L\,(W).$$

The initial scale no longer decides whether the signal survives. It acts like a learning rate instead: a $W$ that is $c$ times as large gets $\frac1c$ of the gradient, and is itself $c$ times as long. So at the same learning rate a step of gradient descent turns it by an angle about $c^2$ times smaller. (With an $\varepsilon$ this is true
as long as the variance of $Wx$ is far larger than $\varepsilon$.)
"""

# %%
torch.manual_seed(seed)
x, target, first = torch.randn(9, 32).double(), torch.randn(9, 32).double(), torch.randn(32, 32)


def loss_and_gradient(scale):
    """Loss of a normalized layer, and the gradient of its weight."""
    weight = (scale * first.double()).requires_grad_()
    loss = (layer_norm(x @ weight.T, eps=0.0) - target).square().mean()
    return loss, torch.autograd.grad(loss, weight)[0]


(loss, gradient), (again, smaller) = loss_and_gradient(1.0), loss_and_gradient(3.0)
exact(max((loss - again).abs(), (gradient - 3 * smaller).abs().max()), tolerance=1e-12).claim(
    "00-norm-hides-the-scale",
    "< 1e-12",
    "If a norm follows a layer, tripling the layer's weights leaves the loss unchanged and divides the gradient by three.",
    found="When the weights before a norm are tripled, the loss and three times the gradient differ from the original loss and gradient by at most {mean:.1e}.",
    source="scale invariance, e.g. Ba et al. 2016, arXiv 1607.06450, section 5.1",
)

# %% [markdown]
r"""
## Implementation: exercise 1

**1 (in code, 5 minutes).** Write a step of ResNet v2. `norm` is the first norm of the branch, and `f` is the rest of the branch, without the first ReLU. You decide where `torch.relu` goes. No operation
may act on the stream itself. The check compares your step with the paper's equation and, if they differ, tells you which block you have written.
"""


# %% tags=["exercise"]
def my_step(x, f, norm):
    """Return the stream after one step of ResNet v2."""
    return ...


# %%
check.block(my_step, "resnet-v2")

# %% [markdown]
r"""
<details><summary>Hint</summary>

The branch reads a copy that went through the norm and ReLU. The branch's output is added to $x$ itself.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_step(x, f, norm):
    """A solution of exercise 1."""
    return x + f(torch.relu(norm(x)))


assert check.block(solved_step, "resnet-v2").ok

# %% [markdown]
r"""
The models below use these steps of `labkit`:
"""

# %%
show(NoNorm.step, ResNetV2.step)

# %%
wirings = {
    "none": lambda x, f: x + f(x),
    "resnet-v1": lambda x, f, norm: torch.relu(x + norm(f(x))),
    "resnet-v2": solved_step,
    "highway": lambda x, f, gate: gate(x) * f(x) + (1 - gate(x)) * x,
}
exact(sum(not check.block(step, name).ok for name, step in wirings.items())).claim(
    "00-designs-meet-their-equations",
    "<= 0",
    "The residual steps in labkit implement the papers' equations.",
    found="We wrote {n_designs:.0f} residual steps from the papers' equations. The number of steps in labkit that differ from them is {mean:.0f}.",
    source="He et al. 2016a and 2016b, arXiv 1512.03385 and 1603.05027; Srivastava et al. 2015, 1505.00387",
    beside={"n_designs": len(wirings)},
)

# %%
images = Digits(batch=64).load().held_out["validation"][0][0]
idle = StackConfig("none", depth=48).build()
for step in (layer for layer in idle if isinstance(layer, NoNorm)):
    nn.init.zeros_(step.sublayer.last.weight)
enters, *_, leaves = signal(idle, images)
exact((leaves - enters).abs().max()).claim(
    "00-empty-branches-are-the-identity",
    "<= 0",
    "A residual step whose branch outputs zero is the identity.",
    found="After 24 residual steps whose branches output zero, a signal differs from the original signal by {mean:g}.",
    source="He et al. 2016a, arXiv 1512.03385, section 3.1",
)

# %% [markdown]
r"""
## Measure

### Three numbers before the first step

We send one batch of digits through the networks, before any training. By what factor does a matrix change the size of the signal? How similar are the outputs of different images? And how large is the gradient of the first matrix compared with that of the last?
"""


# %% tags=["mechanism"]
def check_up(config):
    """Size factor per matrix; cosine between images; the first matrix's gradient over the last's."""
    torch.manual_seed(seed)
    net, labels = config.build().double(), torch.randint(10, (len(images),))
    streams = signal(net, images.double())
    size = (streams[-1].square().mean() / streams[0].square().mean()).item()
    unit = streams[-1] / streams[-1].norm(dim=-1, keepdim=True)
    F.cross_entropy(net(images.double()), labels).backward()
    slopes = [p.grad.norm().item() for p in net.parameters() if p.ndim == 2]
    cosine = ((unit @ unit.T).sum().item() / len(images) - 1) / (len(images) - 1)
    # One digit of the ratio: another draw changes the second.
    found = size ** (0.5 / config.depth), cosine, float(f"{slopes[1] / slopes[-2]:.1g}")
    return dict(zip(("size factor", "cosine", "gradient, first/last"), found, strict=True))


# %%
patients = {
    "neither, PyTorch's rule": ("signals vanish", {"init": "torch"}),
    "neither": ("inputs merge", {}),
    "norms": ("gradients explode", {"norm": "batch"}),
    "skips": ("the stream explodes", {"step": "none"}),
    "small branches": ("healthy", {"step": "none", "init": "scaled"}),
    "norms and skips": ("healthy", {"step": "resnet-v2", "norm": "batch"}),
}
plots.table(
    {"48 layers": name, **check_up(StackConfig(depth=48, **fields)), "diagnosis": read_off}
    for name, (read_off, fields) in patients.items()
)

# %% [markdown]
r"""
Read the table column by column. Size factors should be near 1, the cosine should be well below 1, and the ratio of gradients should be between 0.01 and 100. "First" and "last" mean the first and the last of the forty-eight matrices.
The size factors are close to those that we computed: $\sqrt{1/6} \approx 0.41$ with PyTorch's rule, 1 with He's rule, and $\sqrt3$ per step with skips. This last factor is $3^{1/4} \approx 1.32$ per matrix, and compounds to the factor of 530,000 above. But in plain layers different images merge (cosine near 1), and with BatchNorm alone (row *norms*) the first gradient is far larger than the last. So of the five architectures, *neither*, *norms* and *skips* are unhealthy, each most visibly in a different column. Will training cure them?

### Ninety-six ReLU layers

To see how far the images merge, we make the plain network twice as deep, and four times as wide, so that chance plays little part. What happens to the size of the signal, and to the angles between images?
"""


# %%
def through_rectifiers(init, seed):
    """RMS after each of 96 plain layers, and the mean cosine between different images."""
    torch.manual_seed(seed)
    net = StackConfig("plain", init=init, width=256, depth=96).build().double()
    streams = [x.detach() for x in signal(net, images[:16].double())]
    units = [x / x.norm(dim=-1, keepdim=True) for x in streams]
    cosines = [((u @ u.T).sum().item() - 16) / (16 * 15) for u in units]
    rms = [x.square().mean().sqrt().item() for x in streams]
    return dict(enumerate(rms)), dict(enumerate(cosines))


rules = {"PyTorch's rule": "torch", "Xavier's rule": "xavier", "He's rule": "he"}
passed = {name: [through_rectifiers(init, s) for s in five] for name, init in rules.items()}
cosines = [of for _, of in passed["He's rule"]]
plots.panels(
    {
        "RMS of the signal": {name: [rms for rms, _ in of] for name, of in passed.items()},
        "cosine of two images": {"any rule": cosines},
    },
    xlabel="layer", log=["RMS of the signal"], limits={"cosine of two images": (0, 1.05)},
    caption="RMS of the signal (above) and mean cosine of two different images (below), layer by layer, in plain ReLU networks. Above, each initialization rule gives nearly the straight line that the table of rules predicts. "
    "Below, one line shows all three rules, because they differ only by a factor, which changes no angle. After 96 layers different images point in nearly the same direction.",
    provenance=lab.provenance(),
).named("rectified-rows")  # fmt: skip

# %%
computed([of[96] for of in cosines]).claim(
    "00-he-merges-its-inputs",
    "> 0.95",
    "With He's rule, different images point in nearly the same direction after 96 ReLU layers.",
    found="With He's rule the mean cosine between different images is {start:.2f} at layer 0 and {mean:.4f} after 96 ReLU layers.",
    source="this book; for gradients, Balduzzi et al. 2017, arXiv 1702.08591",
    beside={"start": fmean(of[0] for of in cosines)},
)

# %% [markdown]
r"""
So initialization alone does not solve the problem: the size is kept, but the network hardly distinguishes its images. The gradient of a plain network suffers as well. If the input changes a little, the gradient with respect to it changes almost completely: as a function of the input it resembles
white noise ([Balduzzi et al., 2017](https://arxiv.org/abs/1702.08591)). Skips help against that.

### Forty-eight layers, five ways

Now we train our network in all five architectures for 400 steps of SGD with momentum. We also train two shallower versions of each, with four and with sixteen matrices. The chapter's first figure shows three of the designs (it calls *neither* "initialization alone"). Losses are given in *nats*, the unit of a cross-entropy with natural logarithms. Guessing among ten digits costs $\ln 10 \approx 2.30$ nats.

<details><summary>How we tuned and evaluated</summary>

At every depth we train every design with one tuning seed at nine learning rates from 0.0001 to 1. The rate with the lowest validation loss is the design's *tuned learning rate* at this depth (some original claims say *its own rate*). We evaluate five runs with other seeds at the tuned learning rate.
Since networks with skips alone begin with huge logits, at forty-eight layers we train them at ten lower learning rates as well, down to $10^{-9}$, and train five seeds at all nineteen rates.

</details>

Before you look at the results, choose one of the answers below. The column *ours* contains our own prediction.

| question | choices | ours |
| --- | --- | --- |
| Forty-eight layers, each design at its tuned learning rate: how well does BatchNorm alone do, compared with norms and skips together? <!-- 00-norms-and-skips-together 00-skips-read-more-than-batch-norm 00-skips-alone-stay-above-guessing --> | nearly as well; <!-- 0.3 --> clearly worse, but it learns; <!-- 1.5 --> it learns next to nothing | <details><summary>show</summary>With forty-eight layers and tuned learning rates, BatchNorm alone learns next to nothing, skips alone explode, and the two together train.</details> |
"""

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(Experiment(digits, {"arm": tuned, "seed": five}))


# %%
draw_accuracy(
    ["norms", "small branches", "norms and skips"],
    "Test accuracy against depth for the two designs that the chapter's first figure leaves out, next to norms and skips, at tuned learning rates. With four or sixteen layers every design learns. "
    "With forty-eight layers BatchNorm alone hardly does, and small branches come close to norms and skips.",
).named("forty-eight-layers")


# %%
def end_loss(record):
    """Return a run's test loss; infinity where it diverged."""
    loss = record.probes["test"]["loss"]
    return inf if loss is None else loss


def diverges(record):
    return end_loss(record) == inf


def lack_rates(*names):
    """Say what a comparison of these designs lacks at the greatest depth."""
    return regime.untuned(tuning.where(design=names, depth=high), five, by="design")


plots.table(
    {
        f"{high} layers": name,
        "tuned learning rate": f"{tuned[f'{name} | {high}']['train.lr']:g}",
        "mean test accuracy": read(name, "accuracy").mean,
        "mean test loss of runs that did not diverge": np.nanmean(read(name, "loss").values),
        "diverged": str(final[f"{name} | {high}"].count(diverges)),
    }
    for name in designs
)

# %%
price = read("norms", "loss") - read("norms and skips", "loss")
price.tuned(lack_rates("norms", "norms and skips")).claim(
    "00-norms-and-skips-together",
    "> 0.5",
    "In a deep network with BatchNorm, removing the skips raises the test loss by more than 0.5 nats.",
    found=f"With {high} layers, the test loss of a network with BatchNorm and no skips is {{mean:.2f}} nats higher than that of a network with norms and skips.",
    source="this book; for networks on CIFAR-10, He et al. 2016a, arXiv 1512.03385",
)
skips, norms = read("skips", "accuracy"), read("norms", "accuracy")
(skips - norms).tuned(lack_rates("norms", "skips")).claim(
    "00-skips-read-more-than-batch-norm",
    "> 0",
    "At 48 layers, each at its own rate, skips alone read more digits right than BatchNorm alone.",
    found=f"With {high} layers a network with skips and no norms classifies {{skips:.0%}} of the test digits correctly, and a network with BatchNorm and no skips classifies {{norms:.0%}}: a difference in accuracy of {{mean:.2f}}.",
    source="this book",
    beside={"skips": skips, "norms": norms},
)

# %%
quiet["train.lr"] = [*sizes.low_rates, *sizes.rates]
alone = lab.run(Experiment(digits, {**quiet, "seed": five}))
by_lr = alone.by("lr")
plots.table(
    {
        "learning rate (skips alone)": f"{lr:g}",
        "median test accuracy": by_lr[lr].measure("test.accuracy").median,
        "lowest test loss of the five": min(
            (x for x in by_lr[lr].values("test.loss") if x), default="–"
        ),
        "diverged": str(by_lr[lr].count(diverges)),
    }
    for lr in sizes.low_rates[:7]
)

# %%
# Of each seed the lowest loss at any rate, as a power of ten above guessing.
ended = combine(min, *(at.measure(end_loss) for at in by_lr.values()))
ended.map(lambda loss: np.log10(loss / log(10))).over_rates().claim(
    "00-skips-alone-stay-above-guessing",
    "> 0",
    "At 48 layers the loss of skips alone ends above guessing at every rate.",
    found="With 48 layers, skips and no norms, we take each seed's lowest test loss at any learning rate. The geometric mean of these losses is 10 to the power {mean:.1f} times the loss of guessing. Of {runs} runs at {rates} learning rates, {lost} diverge.",
    source="this book: variances add",
    beside={"rates": len(by_lr), "runs": len(alone), "lost": alone.count(diverges).estimate.k},
)

# %% [markdown]
r"""
**BatchNorm alone is not enough** here, although it keeps the size of the signal at every layer. After 400 steps even the network with *neither* reaches a higher accuracy, although its images had nearly merged. **Skips alone** are not hopeless, but they start
badly. At all learning rates at which we trained every design, the network diverges, probably because its huge logits make the first updates too large. At rates at least a thousand times lower than the lowest of these, it learns to classify some of the digits correctly: more than
BatchNorm alone does. (The verdict is weak because one of the five runs diverged.) But the logits stay enormous, and a single wrong prediction costs
hundreds of nats. So the loss of skips alone is worse than that of guessing. With norms and skips
together, accuracy hardly falls with depth.

### What is wrong with BatchNorm alone

Follow the gradient down one layer $y = \mathrm{BN}(W\,\mathrm{relu}(y'))$, whose inputs $y'$ are independent and standard normal. BatchNorm first subtracts the mean of its input and then divides by its standard
deviation. A rectified normal variable has second moment $\frac12$, but
variance only $\frac12 - \frac1{2\pi} = \frac{\pi-1}{2\pi}$. A unit that sums $n$ such variables with weights of variance $\sigma^2$ has the variance $n\sigma^2\frac{\pi-1}{2\pi}$ over the batch. The norm divides its input by the root of this variance, and so it divides the gradient's energy by
$n\sigma^2\frac{\pi-1}{2\pi}$. Then $W^\top$ multiplies this energy by $n\sigma^2$, and ReLU lets half of it through:

$$\frac{\tfrac12\,n\sigma^2}{n\sigma^2\,\frac{\pi-1}{2\pi}} = \frac{\pi}{\pi-1} \approx 1.21^2.$$

So the gradient's length grows by a factor of $1.21$ per layer. The scale $\sigma$ has cancelled: no choice of it helps. [Yang et al. (2019)](https://arxiv.org/abs/1902.08129) derive this explosion in general.
"""


# %%
def growth_below(norm, seed):
    """Sizes of a random gradient on its way down a plain stack, the lowest layer first."""
    torch.manual_seed(seed)
    return follow_gradient(StackConfig("plain", norm, width=256, depth=48).build(), images)


def per_layer(sizes):
    """Give the factor per layer, from the last one down to the first."""
    return (sizes[0] / sizes[-1]) ** (1 / (len(sizes) - 1))


computed([per_layer(growth_below("batch", s)) for s in five]).claim(
    "00-batch-norm-makes-gradients-explode",
    "in [1.16, 1.26]",
    "In a network without skips, BatchNorm makes the gradient grow at every layer by about the factor that theory predicts.",
    found="In a network without skips, a gradient grows by a factor of {mean:.3f} per layer with BatchNorm and by a factor of {layer:.3f} with LayerNorm.",
    source="Yang et al. 2019, arXiv 1902.08129; the factor 1.21 as derived above",
    published="exponential growth that no initial variance removes",
    beside={"layer": fmean(per_layer(growth_below("layer", s)) for s in five)},
    predicted=1.21,
)

# %% [markdown]
r"""
The card's interval does not contain the derived factor of $1.21$: the measured growth is slightly faster. Appendix B finds that [the norm of the first layer](B_batch.ipynb#where-batchnorms-gradient-grows) alone accounts for more than half of this excess.

With the norm, signal and gradient are no longer mirror images as in the row of rotations: the signal keeps its size and the gradient grows. So one learning rate must serve a first and a last matrix whose gradients differ by powers of
ten. That is probably why BatchNorm alone fails. To be sure, one would have to repair only the gradients, which we did not try.

With LayerNorm there is no such growth, because the two norms subtract different means. BatchNorm's mean runs over the images of a batch. After a ReLU no value is negative, so the signals of different images point in similar directions, and a unit of the next layer has similar values for all of them. BatchNorm's mean is therefore large, and the variance is smaller than the second moment. LayerNorm's mean runs over the units of one image. The entries of $W$ have mean 0, so this mean is near 0, and there is little to
subtract. LayerNorm therefore divides the gradient's energy by $n\sigma^2$ times the whole second moment $\frac12$. This cancels the factor of $\frac12$ from the ReLU, so the factor per layer is 1. We did not train LayerNorm alone.

With BatchNorm, then, the skip saves the gradient and the norm saves the stream. Could small branches save the stream without a norm?

### What the norm adds

| question | choices | ours |
| --- | --- | --- |
| Skips with small branches and no norm, at forty-eight layers and a tuned learning rate: do they do as well as norms and skips? <!-- 00-small-branches-need-no-norm --> | yes, nearly; <!-- 0.1 --> no, their loss is clearly higher | <details><summary>show</summary>Skips with small branches need no norm. But fewer learning rates work.</details> |
"""

# %%
price = read("small branches", "loss") - read("norms and skips", "loss")
price.tuned(lack_rates("small branches", "norms and skips")).claim(
    "00-small-branches-need-no-norm",
    "< 0.1",
    "The test loss of a deep residual network with small branches and no norms is less than 0.1 nats higher than that of one with norms.",
    found=f"With {high} layers, the test loss of a residual network with small branches and no norms is {{small:.3f}}, {{mean:.3f}} nats higher than that of a residual network with norms, {{normed:.3f}}.",
    beside={"small": read("small branches", "loss"), "normed": read("norms and skips", "loss")},
    source="this book; for Fixup, a more careful rule than ours, Zhang et al. 2019, arXiv 1901.09321",
    published="residual networks train as well without normalization",
)

# %% [markdown]
r"""
So what is the norm for? We train both designs over a range of learning rates so wide that neither learns much at either end.
"""

# %%
rivals = {name: designs[name] for name in ("small branches", "norms and skips")}
wide = [3.16e-6, 1e-5, 3.16e-5, *sizes.rates, 3.16]
span = {"design": rivals, "model.depth": sizes.heights[1:], "train.lr": wide, "seed": five}
spans = lab.run(Experiment(digits, span))


# %%
def clip_loss(record):
    """Count a loss above guessing as guessing, and so a run that diverged."""
    return min(end_loss(record), log(10))


clipped = spans.where(depth=high).measure_by(clip_loss, "design", "lr")
plots.curves(
    clipped,
    xlabel="learning rate",
    ylabel="test loss (nats)",
    logx=True,
    reference={"guessing": log(10)},
    caption=f"Test loss against learning rate for two designs with {high} layers. Runs that diverged, or whose loss is higher than that of guessing, are drawn at the loss of guessing. With norms, the network learns "
    "over a wider range of learning rates, and these rates are far higher.",
    provenance=lab.provenance(spans),
).named("small-steps")


# %%
def average(name):
    """Average each seed's loss over the rates."""
    return combine(lambda *losses: fmean(losses), *clipped[name].values())


def count_trained(name, depth=high, cut=1.0):
    """Count the runs that end below a loss."""
    runs = spans.where(design=name, depth=depth)
    return runs.count(lambda record: clip_loss(record) < cut).estimate.k


(average("small branches") - average("norms and skips")).over_rates().claim(
    "00-norms-widen-the-range-of-rates",
    "> 0",
    "Norms widen the range of learning rates at which a deep network trains.",
    found=f"Averaged over {len(wide)} learning rates, the test loss of {high} layers with skips is {{mean:.2f}} nats higher without norms than with them. A loss below one nat is reached in {{bare}} of {{runs}} runs without norms and in {{normed}} of {{runs}} runs with them.",
    source="this book; for a VGG on CIFAR-10, Santurkar et al. 2018, arXiv 1805.11604",
    beside={
        "runs": len(wide) * len(five),
        "bare": count_trained("small branches"),
        "normed": count_trained("norms and skips"),
        "second value": "sixteen layers, and three limits of the loss: see the table",
    },
)

# %%
plots.table(
    {"layers": depth, f"runs (of {len(wide) * len(five)}) with test loss below": f"{cut} nats"}
    | {name: count_trained(name, depth, cut) for name in rivals}
    for depth in sizes.heights[1:]
    for cut in (0.3, 1.0, 2.0)
)

# %% [markdown]
r"""
The figure and the table show what BatchNorm is for, on digits and in 400 steps. The learning rates at
which the network without norms learns are far lower and span a somewhat narrower range. That range ends abruptly: at the next learning rate above the best, every run diverges. With a norm, the learning rate needs less careful tuning. Chapter 10 asks what norms are for in transformers, and appendix A [leaves the norms out of ninety-six blocks](A_skips.ipynb#ninety-six-blocks-without-a-norm).

### Test: add covariate shift back

Why does a norm allow larger learning rates? BatchNorm was introduced with an explanation: while the lower layers learn, the distributions of the upper layers' inputs shift, and a norm keeps them still. The shift was called
**internal covariate shift** ([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)). [Santurkar et al. (2018)](https://arxiv.org/abs/1805.11604) tested the explanation
by spoiling only the supposed benefit: they replaced each output $y$ of a BatchNorm by $sy + m$, with random $s$ and $m$ whose distribution changes at every step, so that the inputs of the layers above jump. We call such a network *shaken*. If keeping inputs still were the whole benefit of a norm, the
shaken network would be as slow as one without norms, or slower, at every learning rate. We use eight plain layers, since forty-eight do not train well. We measure speed by the training loss averaged over the whole run: the lower it is, the faster the training.
"""

# %%
norms = {
    "no norm": {"model.norm": "none"},
    "BatchNorm": {"model.norm": "batch"},
    "BatchNorm, shaken": {"model.norm": "noisy-batch"},
}
watch = ("validation", "test", "landscape", "input-shift", "gradient-shift")
eight = {"model.depth": [8], "train.steps": [sizes.noise_steps], "arm": norms}
seeds = {"seed": [ladder.TUNING_SEED, *five]}
race = lab.run(Experiment(digits, {**eight, "train.lr": sizes.race_rates, **seeds}))
# The same networks at three rates, looked at while they train.
watched = {"train.lr": sizes.noise_rates, "probes": [watch], "seed": five}
noise = lab.run(Experiment(digits, {**eight, **watched}))


# %%
def mean_loss(record):
    """Average the training loss over the run; one that diverged counts as guessing."""
    return log(10) if record.diverged_at is not None else float(np.mean(record.losses))


def measure_move(arm, rate):
    """Read a unit's typical move of mean and deviation in one step, over its deviation."""
    return noise.where(arm=arm, lr=rate).measure(
        lambda record: np.exp(np.mean(np.log([*record.probes["input-shift"].values()])))
    )


# %%
first_look, speed = (
    race.where(seed=seeds).measure_by(mean_loss, "arm", "lr")
    for seeds in (ladder.TUNING_SEED, five)
)
own = {arm: min(of, key=lambda rate, of=of: of[rate].mean) for arm, of in first_look.items()}
plots.curves(
    speed,
    xlabel="learning rate",
    ylabel="mean training loss (nats)",
    logx=True,
    reference={"guessing": log(10)},
    caption="Training loss, averaged over the whole run, against learning rate, for networks of eight plain layers: without norms, with BatchNorm, and with shaken BatchNorm. A lower loss means faster training. "
    "The distance between BatchNorm's two lines is the cost of the noise. A run that diverged is drawn at the loss of guessing.",
    provenance=lab.provenance(race),
).named("shift-put-back")

# %%
slow, quick = min(sizes.noise_rates), max(sizes.noise_rates)
bare, shaken = "no norm", "BatchNorm, shaken"
idea = "this book's test of an idea of Santurkar et al. 2018, arXiv 1805.11604, Figure 2"
lead = speed[bare][own[bare]] - speed[shaken][own[shaken]]
# Two arms of the race repeat the noise's runs, which are older and have what is judged.
lead = replace(lead, records=lead.records + noise.measure(mean_loss).records)
lead.tuned([*regime.rates(first_look), *regime.seeds(five, [ladder.TUNING_SEED])]).claim(
    "00-shaken-at-its-own-rate",
    "> 0",
    "Each at its own rate, a network whose inputs are shaken trains faster than one without norms.",
    found="With tuned learning rates, the mean training loss with noise-injected (shaken) BatchNorm is {apart:.3f} nats {side} without norms.",
    source=idea,
    beside={"second value": "a high learning rate and a low one", "last step": "the whole run"},
)
plots.table(
    {
        "network": arm,
        "tuned learning rate": f"{rate:g}",
        "mean training loss": speed[arm][rate].mean,
    }
    for arm, rate in own.items()
)

# %%
(speed[bare][quick] - speed[shaken][quick]).claim(
    "00-shift-does-not-slow-training",
    "> 0.2",
    "At a high learning rate, a network with noise-injected (shaken) BatchNorm trains faster than a network without norms.",
    found="At learning rate 0.1, the mean training loss with noise-injected (shaken) BatchNorm is {mean:.2f} nats lower than without norms, although the layers' inputs move {times:.1f} times as far per step.",
    source=idea,
    beside={"times": measure_move(shaken, quick).mean / measure_move(bare, quick).mean},
)
(speed[bare][slow] - speed[shaken][slow]).claim(
    "00-shift-does-not-slow-training-at-low-rates",
    "> 0",
    "At a low learning rate, a network with noise-injected (shaken) BatchNorm trains faster than a network without norms.",
    found="At learning rate 0.01, the mean training loss with noise-injected (shaken) BatchNorm is {apart:.2f} nats {side} without norms.",
    source=idea,
)

# %% [markdown]
r"""
The first card is the fair test, and it does not show the advantage that we predicted. With tuned learning rates and five seeds, we find no difference between the shaken network and the one without norms. (At the next rate above its tuned one, the shaken network trains faster than the other does at its tuned rate, but we would be choosing that rate after seeing the result.) Plain BatchNorm trains faster than
either. In the table, the noise costs about as much as BatchNorm gains over no norm. One would expect this if BatchNorm helped by keeping inputs still. But noise can slow training for other reasons, too, so this is no proof.

The other two cards compare the networks at two fixed learning rates. At the low one, where eight layers need no norm, the shaken network trains slowest of the three. At the high one the network without norms is in trouble. The shaken network is not, although its inputs
shift violently at every step. So BatchNorm's benefit *at the high learning rate* does not require distributions that stay still, and shifting *inputs* alone do not explain the trouble of the network without norms.

Shifting *gradients* remain a possible cause. How much does the gradient of a matrix change when only the matrices below it take their step? Santurkar et al. found that, in other networks and by a
different measure, it changes no less with BatchNorm than without. In these eight layers, and by our measure, it changes less with BatchNorm:
"""

# %%
calm = noise.where(lr=slow)
moved = calm.measure_by(lambda record: np.mean([*record.probes["gradient-shift"].values()]), "arm")
(moved["BatchNorm"] - moved["no norm"]).claim(
    "00-norms-do-not-calm-the-gradient-from-below",
    "> 0",
    "With BatchNorm, an update of the layers below changes a layer's gradient at least as much as without norms.",
    found="At learning rate 0.01, an update of the layers below changes a layer's gradient by {batch:.0%} of its length with BatchNorm and by {bare:.0%} without norms.",
    source="Santurkar et al. 2018, arXiv 1805.11604, section 2.2",
    published="no smaller, often larger, with BatchNorm",
    beside={"batch": moved["BatchNorm"], "bare": moved["no norm"]},
    domain=Domain(
        "a VGG and a linear network of 25 layers, on CIFAR-10; lengths and angles of the difference",
        "a perceptron of eight layers, on digits; the difference over the gradient's length",
        inside=False,
    ),
)

# %% [markdown]
r"""
### Smoothness of the loss landscape

Santurkar et al. explain BatchNorm's benefit by a smoother *landscape* (the loss as a function of the weights). Take the weights at some point in training and move along the negative gradient. How far can you go before the gradient changes much? A *walk* of $\eta$ moves the weights by $\eta$ times the negative gradient. We take such walks in all three networks (no norm, BatchNorm, and shaken BatchNorm),
trained at learning rate 0.01, at which all three learn. In the shaken network the noise is held fixed during a walk. Without momentum, a training step would be a walk of 0.01. Momentum adds up about ten gradients, so that a step can be as long as a walk of 0.1.

| question | choices | ours |
| --- | --- | --- |
| After a walk of $\eta = 0.1$, how much has the gradient changed with BatchNorm, compared with no norm? <!-- 00-gradients-predict-further --> | more; <!-- -0.3 --> about as much; <!-- 0.3 --> less than half as much | <details><summary>show</summary>Along a step, the gradient changes less with a norm than without.</details> |
"""


# %%
def walk(record):
    """How far the gradient has changed, as a share of its length, at each distance."""
    seen = list(record.probes["landscape"].values())
    change = np.mean([np.minimum(stop["change"], 1e6) for stop in seen], axis=0)
    return dict(zip(seen[0]["rates"][1:], change.tolist(), strict=True))


walks = {arm: part.values(walk) for arm, part in calm.by("arm").items()}
plots.curves(
    {arm: {eta: [one[eta] for one in of] for eta in of[0]} for arm, of in walks.items()},
    xlabel="distance of the walk, as a multiple of the gradient (η)",
    ylabel="relative change of the gradient",
    logx=True,
    logy=True,
    reference={"as large as the gradient": 1.0},
    caption="Relative change of the gradient after the weights have moved by η times the gradient. At every distance, the gradient's change with "
    "BatchNorm, shaken or not, is several times smaller than without norms.",
    provenance=lab.provenance(noise),
).named("smooth-ground")

# %%
tenth = calm.measure_by(lambda record: np.log10(walk(record)[0.1]), "arm")
further = tenth["no norm"] - tenth["BatchNorm"]
further.claim(
    "00-gradients-predict-further",
    "> 0.1",
    "When the weights move along the gradient, the gradient changes less with BatchNorm than without norms.",
    found="After the weights have moved by 0.1 times the gradient, the gradient has changed {times:.1f} times as much without norms as with BatchNorm. (The criterion applies to the base-10 logarithm of this factor, {mean:.2f}.)",
    source="this book; for a VGG on CIFAR-10, Santurkar et al. 2018, arXiv 1805.11604, Figure 4b",
    beside={"times": 10**further.mean},
)

# %% [markdown]
r"""
A gradient that changes less along a walk allows a longer step, and the noise does not spoil this advantage. Longer steps would fit the larger learning rates that BatchNorm allows, but the figure cannot show
whether smoothness is the reason for them.

## Where it goes wrong

**The shortcut leaves too late.** In a much-copied repository of CIFAR models the shortcut was taken *after* norm and
rectifier, and not from the stream ([the line](https://github.com/kuangliu/pytorch-cifar/blob/e68081ee8c3830db03dada650383b7779dc5224f/models/resnet.py#L66), [issue](https://github.com/kuangliu/pytorch-cifar/issues/9)).

**The ReLU overwrites the skip.** `nn.ReLU(inplace=True)`
at the start of a branch overwrites its input. After a norm, which has made a copy, this is harmless. Without the norm it changes the *skip*, too. This happened in a
VQ-VAE ([its line](https://github.com/rosinality/vq-vae-2-pytorch/blob/4d2dbc0e073f033675843225dd7436550f9d6a47/vqvae.py#L85), [issue](https://github.com/rosinality/vq-vae-2-pytorch/issues/60)) and in an improved ResNet ([its line](https://github.com/iduta/iresnet/blob/babdc4f5946f64905710cd64a5bd6c164a805c9e/models/iresnet.py#L78), [pull request](https://github.com/iduta/iresnet/pull/2)). Nothing crashes, but the check of exercise 1 finds both mistakes, and accepts the in-place ReLU after a norm:
"""


# %%
def late_shortcut(x, f, norm):
    """Take the shortcut from what the branch reads."""
    x = torch.relu(norm(x))
    return x + f(x)


slips = {
    "late shortcut": ("resnet-v2", late_shortcut),
    "in place, after a norm": ("resnet-v2", lambda x, f, norm: x + f(torch.relu_(norm(x)))),
    "in place, no norm": ("none", lambda x, f: x + f(torch.relu_(x))),
}
reports = {slip: check.block(step, recipe) for slip, (recipe, step) in slips.items()}
plots.table(
    {
        "step": slip,
        "message of the check": "; ".join(sorted(report.causes)) or report.summary,
    }
    for slip, report in reports.items()
)

# %% [markdown]
r"""
### Three diagnostics for a network that does not train

Before you blame the data or the optimizer, look at the three numbers that `check_up` returns. They cost one batch.

*Diagnose.* For three networks of 48 layers you measure a size factor, a cosine and a ratio of gradients: A $(1, \tfrac13, 10^4)$, B $(\tfrac1{\sqrt2}, 1, 1)$, C $(2^{1/4}, 0.95, 1)$. Which architecture and initialization does each have, and what would you change?

<details><summary>Answer</summary>

A has BatchNorm without skips: add skips. B has Xavier's rule with ReLU and no skips: He's rule repairs the size, and skips with BatchNorm or with small branches repair the cosine. C has skips whose branches are as large as the stream,
so that each step of two matrices doubles the variance: divide the branches by $\sqrt S$, or normalize them.

</details>

## Exercises

**2 (by hand, 5 minutes).** (a) A stream of variance 1 passes through forty-eight residual steps without norms. Each branch outputs an unrelated vector with the
variance of its input. What is the RMS at the end if every branch is multiplied by $1/\sqrt{48}$? (b) A signal passes through 96 layers and may at most double. By what percentage may each layer enlarge it?
"""

# %% tags=["exercise"]
yours = {"a": ..., "b": ...}

# %%
truth = {"a": (1 + 1 / 48) ** 24, "b": 100 * (2 ** (1 / 96) - 1)}
check.answer(
    yours, truth, name="2", hint="variances add, RMS is a root; take logarithms", rtol=5e-3
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

(a) The variance after one step is $1 + \frac1{48}$. (b) $96\ln g = \ln 2 \approx 0.693$.

</details>
<details><summary>Solution</summary>

(a) $\sqrt{(1 + 1/48)^{48}} = (49/48)^{24} \approx 1.64$, close to $\sqrt e$; without the factor the RMS would be $2^{24}$. (b)
$2^{1/96} \approx 1.00725$: $0.725$ per cent per layer.

</details>

**3 (in code, 5 minutes).** A *leaky* rectifier multiplies negative values by $a$ and leaves positive ones as they are. What standard deviation must the weights of a layer with `fan_in` inputs
have to preserve the mean square?
"""


# %% tags=["exercise"]
def leaky_deviation(fan_in, a):
    """Return the standard deviation of the weights."""
    return ...


# %%
def check_leaky(rule):
    """Hold a rule against the mean square of a leaky layer, at two slopes."""
    slopes = {"slope 0.0": (100, 0.0), "slope 0.5": (100, 0.5)}
    wanted = {"slope 0.0": (2 / 100) ** 0.5, "slope 0.5": (2 / 125) ** 0.5}
    hint = "what share of the energy does it let through?"
    return check.function(rule, slopes, wanted, name="3", hint=hint)


check_leaky(leaky_deviation)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Half of the values are negative. Their squares are multiplied by $a^2$.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_leaky(fan_in, a):
    """A solution of exercise 3: the layer lets (1 + a²)/2 of the energy through."""
    return (2 / ((1 + a * a) * fan_in)) ** 0.5


assert check_leaky(solved_leaky).ok

# %% [markdown]
r"""
**4 (a proof, 15 minutes).** In a row $x_\ell = W_\ell\,\mathrm{relu}(x_{\ell-1})$ let $\delta_\ell$ be the gradient of the loss with
respect to $x_\ell$. (a) Prove that $\langle x_\ell, \delta_\ell\rangle$ is the same number in every layer. (b) Somewhere in the row there is a norm $N$ with $N(cx) = N(x)$ for all
$c > 0$. Prove that in every layer below the norm the number of part (a) is 0.

<details><summary>Hint</summary>

(a) A rectifier multiplies each unit by 0 or 1, on the way up and on the way down. (b) Differentiate with respect to $c$ at 1.

</details>
<details><summary>Solution</summary>

(a) Write $\mathrm{relu}(x_{\ell-1}) = Dx_{\ell-1}$ with a diagonal $D$ of zeros and ones. Then $x_\ell = W_\ell D x_{\ell-1}$ and
$\delta_{\ell-1} = D W_\ell^\top\delta_\ell$, so $\langle x_{\ell-1}, \delta_{\ell-1}\rangle = \langle W_\ell D x_{\ell-1}, \delta_\ell\rangle = \langle x_\ell, \delta_\ell\rangle$.
If the signal grows by $g$ per layer, and the angle between signal and gradient stays the same, the gradient must shrink by $g$ from layer to layer upwards: it is the signal's mirror image.

(b) Let $x$ be the input of the norm, and $\delta$ the gradient with respect to it. The loss does not change when $x$ is multiplied by $c$. Its derivative with respect to $c$ at 1 is $\langle x, \delta\rangle$, so this product is 0; by (a) it is 0 in all layers further down,
too. Signal and gradient are at right angles there, and their sizes can change independently.

</details>

**5 (open).** At forty-eight layers BatchNorm alone learns next to nothing. Maybe it is only slow. Predict first: will four times as many steps close the gap to norms and skips completely, or only by half? Then run the experiment, at the learning rates chosen above. Which result would make you change the sentence "BatchNorm alone is not enough"?
"""

# %% tags=["exercise"]
my_prediction = "…"
pair = {name: tuned[f"{name} | {high}"] for name in ("norms", "norms and skips")}
longer = {"train.steps": [4 * digits.train.steps], "seed": five[:3]}
my_experiment = Experiment(digits, {"arm": pair, **longer})
# Remove the first "#" of each line; a run takes about half a minute.
# results = lab.run(my_experiment)
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
<details><summary>Hint</summary>

In the row *norms* of the table of three numbers, the first of the forty-eight matrices has a far larger gradient than the last, and one learning rate must serve both. Remember how a norm changes the gradient of weights that have grown.

</details>

## What you now know

- **Why do deep networks fail to train?** Depth multiplies. Signal and gradient share the gain, and explode or vanish together, in all layers alike. <!-- 00-gradients-grow-with-the-signal 00-vanishing-spares-no-layer -->
- **What does initialization do?** It sets the size of the signal, before the first step. It does not keep inputs apart: after 96 layers different images had almost the same direction. <!-- 00-he-keeps-the-size 00-he-merges-its-inputs -->
- **What do skips do?** They give the gradient a path on which nothing is multiplied, and make the stream grow. No operation may act on that path. Skips alone, with 48 layers, start with logits so large that
  they learn only at a tiny learning rate. At such a rate they classify some of the digits correctly, but at no learning rate does their loss fall below that of guessing. <!-- 00-empty-branches-are-the-identity 00-skips-read-more-than-batch-norm 00-skips-alone-stay-above-guessing -->
- **What does a norm do?** It is neither sufficient for depth nor necessary: 48 layers with BatchNorm alone hardly learned in 400 steps, and skips with small branches learned without a norm. A norm need not keep inputs
  still to help at a high learning rate: there 8 layers with shaken inputs trained faster than 8 layers without norms. At tuned learning rates we found no difference between the two. BatchNorm's main benefit here is
a wider range of learning rates that work. <!-- 00-norms-and-skips-together 00-batch-norm-makes-gradients-explode 00-small-branches-need-no-norm 00-shift-does-not-slow-training 00-shaken-at-its-own-rate 00-norms-widen-the-range-of-rates -->

## To carry away

- **The law.** A layer of gain $g$ multiplies the signal by $g$ on its way up, and the gradient by $g$ on its way down.
- **The repairs.** Initial weights with $g = 1$ (He: variance $2/n$ with ReLU), skips $x \leftarrow x + f(x)$ with branches divided by $\sqrt S$, and a norm after each matrix or at the start of each branch.
- **Use.** Always use skips, with small branches or with norms. Use norms if you want a wide range of learning rates to work.
- **Cost.** With skips the stream grows, and each norm costs one more pass over the activations.

| you see | cause | try |
| --- | --- | --- |
| signal and gradient shrink or explode together | the gain of a layer is not 1 | He's rule, or a norm |
| all outputs have almost the same direction | plain layers, without norm or skip | skips with small branches, or with BatchNorm |
| the loss starts far above guessing | branches as large as the stream | branches times $1/\sqrt S$, or a norm on them |
| early layers get far larger gradients than late ones | BatchNorm without skips | skips |

## References

Works cited: [Glorot and Bengio (2010)](https://proceedings.mlr.press/v9/glorot10a.html), [He et al. (2015)](https://arxiv.org/abs/1502.01852), [He et al. (2016a)](https://arxiv.org/abs/1512.03385), [He et al. (2016b)](https://arxiv.org/abs/1603.05027), [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167), [Srivastava et al. (2015)](https://arxiv.org/abs/1505.00387), [Balduzzi et al. (2017)](https://arxiv.org/abs/1702.08591), [Santurkar et al. (2018)](https://arxiv.org/abs/1805.11604), [Zhang et al. (2019)](https://arxiv.org/abs/1901.09321), [Yang et al. (2019)](https://arxiv.org/abs/1902.08129), [Radford et al. (2019)](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf), [Brown et al. (2020)](https://arxiv.org/abs/2005.14165).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
