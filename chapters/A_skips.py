# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Skips before norms

**Question.** In 2015 researchers reported that adding layers made a network worse, even on its own training data. Highway and residual networks solved this problem.
Can depth hurt a network that could copy a shallower one, which shortcuts remove the damage, and how much of this remedy requires a norm?

**In short.**

| you look for | in a sentence | section |
| --- | --- | --- |
| can a network represent anything? | if wide enough, it can approximate any continuous function on a closed, bounded set as closely as you like | [By hand](A_skips.ipynb#a-network-built-by-hand) |
| the spectral norm of a layer | it bounds a signal's growth; with random layers the growth stays far below the bound | [The largest stretch](A_skips.ipynb#the-largest-stretch-is-a-bound) |
| vanishing gradients | through many sigmoid layers the gradient vanishes, and so do the differences between the outputs for different inputs, though the outputs keep their size; in the plain networks of 56 layers below, gradients do not vanish at the first step | [Sigmoids](A_skips.ipynb#gradients-that-vanish-sigmoids) |
| degradation | without skips 56 layers fit their training data worse than 20, with BatchNorm and without, even after four times the steps; with BatchNorm, identity skips remove most of the difference | [Deeper, and worse](A_skips.ipynb#deeper-and-worse-on-its-own-training-data) |
| must there be a norm? | no: skips with small branches remove the difference as well | [the same section](A_skips.ipynb#deeper-and-worse-on-its-own-training-data) |
| highways | 56 layers train without norms if the gates' bias starts at $b = -6$; if it starts at $b = -2$, the loss is higher than without gates | [Highways](A_skips.ipynb#highways) |
| ResNet v1 or v2 | both train; v2 reaches the lower loss here | [ResNet v1 and v2](A_skips.ipynb#resnet-v1-and-v2) |
| other shortcuts | with gates on shortcut and branch the loss is lower than with the identity, and with a gate on the shortcut alone it is higher; networks with halved, dropped or projected shortcuts hardly start to learn | [Shortcuts](A_skips.ipynb#what-may-stand-on-the-shortcut) |
| 96 blocks without a norm | with Xavier's rule the first gradients overflow; with small branches the model trains for 200 steps at a learning rate of 0.001 | [Ninety-six blocks](A_skips.ipynb#ninety-six-blocks-without-a-norm) |
| the largest learning rate that works | for perceptrons on digits without norms, it falls with depth, and under SGD it falls faster than $1/\sqrt L$; with norms and skips we detect no trend | [The largest rate, by depth](A_skips.ipynb#the-largest-rate-by-depth) |
| singularities, rank | skips move the singular places away from small weights; a product of 96 small branches with skips keeps about a third of the directions | [Redundant units (singularities)](A_skips.ipynb#redundant-units-singularities) |
| early readout (logit lens) | on digits few answers change after a quarter of the depth, and most of those become correct; in text, answers change up to the last block | [Early readout (logit lens)](A_skips.ipynb#early-readout-logit-lens) |
| skips and masks | later tokens do not leak; but if a mask hides a token from itself, the skip reveals it | [Does a skip leak?](A_skips.ipynb#does-a-skip-leak-what-the-mask-hides) |

A *layer* is one hidden matrix. A *residual step* has two layers and a skip around both, so 56 layers are 28 steps. Losses are in nats. [What a claim is](claims.md) explains *preregistered* and the other words on the cards.
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from itertools import pairwise, takewhile
from math import log, pi
from statistics import fmean, linear_regression

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits, Text
from labkit.experiments import Experiment, Lab, Run, combine, computed, exact, ladder, regime
from labkit.model.stacks import STEPS, StackConfig
from labkit.placements import RECIPES, Place
from labkit.probes.look import residual_streams
from labkit.probes.trained import measure_leakage
from labkit.statistics.proportions import proportion
from labkit.training import loss_of

# %%
lab = Lab("A_skips", size=size, seed=seed, memory={"kernel": "1200M", "run": "950M"})
sizes = lab.sizes(
    heights=[20, 56],
    steps=400,
    rates=[3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1, 3.16e-1],
    tall=110,
    tall_steps=200,
    ladder_depths=[4, 16, 64],
    ladder_rungs=8,
    ladder_steps=80,
    start_depths=[2, 6, 12, 24, 48],
    tower_blocks=96,
    tower_steps=200,
    towers=6,
)
five = lab.seeds(5)
images, labels = next(Digits(batch=64).load().draw(seed))

# %% [markdown]
r"""
## A network built by hand

One layer is "sufficient to represent any function given enough capacity", says *Exploring the Transformer*, part 14. The theorem says less: one hidden layer, if it is wide enough, comes as close as you
like to any *continuous* function on a *closed and bounded* set. Almost any activation will do, as long as it is not a polynomial ([Leshno et al., 1993](https://doi.org/10.1016/S0893-6080%2805%2980131-5)). A ResNet with one unit per block
does this for any integrable function, if the error is the integral of the absolute difference ([Lin and Jegelka, 2018](https://arxiv.org/abs/1806.10909)). In one dimension you can build such a network by hand: give the stream two channels, $x$ and $y$, and start $y$ at $f(0)$. Each block leaves $x$ as it is and
adds one bent line to $y$:

$$y \leftarrow y + c_k\,\mathrm{relu}(x - t_k), \qquad t_k = \tfrac kn .$$

If each $c_k$ is the change of slope at $t_k$, $y$ joins the points $f(t_k)$ by straight lines. On pieces of length $h = \frac1n$ the error is at most $h^2\max|f''|/8$. One layer of $n$ units
can compute the same sum.
"""


# %% tags=["mechanism"]
def lay_hinges(f, n):
    """Build a residual network of n blocks, one unit each, that joins n + 1 points of f."""
    knots = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    slopes = f(knots).diff() * n
    changes = [slopes[0], *slopes.diff()]

    def network(x):
        y = f(knots[0]).expand_as(x)
        for t, c in zip(knots[:-1], changes, strict=True):
            y = y + c * torch.relu(x - t)
        return y

    return network


def wave(x):
    return torch.sin(2 * pi * x)


# %%
at = torch.linspace(0, 1, 2001, dtype=torch.float64)
shown = {"4 blocks": lay_hinges(wave, 4), "8 blocks": lay_hinges(wave, 8), "sin 2πx": wave}
drawn = {name: [dict(zip(at.tolist(), f(at).tolist(), strict=True))] for name, f in shown.items()}
plots.panels(
    {"y": drawn},
    xlabel="x",
    caption="A sine wave, and two residual networks built by hand that approximate it with four and with eight blocks. Each block after the first adds at most one change of slope.",
).named("built-by-hand")

# %%
blocks = 64
bound = (2 * pi) ** 2 / (8 * blocks**2)
exact((lay_hinges(wave, blocks)(at) - wave(at)).abs().max()).claim(
    "A-hinges-fit-a-wave",
    f"<= {bound:.6f}",
    "A residual network of 64 blocks with one unit each approximates sin 2πx with an error that does not exceed the bound for linear interpolation.",
    found="A residual network of {blocks} blocks with one unit each approximates sin 2πx with an error of at most {mean:.5f}. The bound is {bound:.5f}.",
    source="linear interpolation; for residual networks, Lin and Jegelka 2018, arXiv 1806.10909",
    beside={"blocks": blocks, "bound": bound},
)

# %% [markdown]
r"""
Nothing here says that *training* would find these weights.

## The largest stretch is a bound

Part 7 of *Transformer Anatomy* says that a signal grows by the **spectral norm** $\lVert W\rVert$, the largest factor by which $W$ stretches any vector: $1.01$ at each of 96 layers gives
$1.01^{96} \approx 2.6$. But this factor is only a bound:

$$\lVert W_{96}\cdots W_1 x\rVert \le \lVert W_{96}\rVert\cdots\lVert W_1\rVert\,\lVert x\rVert .$$

Both sides are equal only if the input of each layer points in a direction that this layer stretches most. We compare four sequences of 96 matrices of spectral norm $1.01$:
"""


# %% tags=["mechanism"]
def follow(row, x):
    """Return the length of a signal before the first matrix and after each."""
    lengths = [x.norm().item()]
    for matrix in row:
        x = matrix @ x
        lengths.append(x.norm().item())
    return [length / lengths[0] for length in lengths]


# %%
torch.manual_seed(seed)
drawn = [torch.randn(64, 64, dtype=torch.float64) for _ in range(96)]
random = [1.01 * w / torch.linalg.matrix_norm(w, 2) for w in drawn]
turns = [1.01 * torch.linalg.qr(w)[0] for w in drawn]
shared = (drawn[0] + drawn[0].T) / torch.linalg.matrix_norm(drawn[0] + drawn[0].T, 2) * 1.01
x = torch.randn(64, dtype=torch.float64)
rows = {
    "random": random,
    "one random matrix": random[:1] * 96,
    "orthogonal": turns,
    "one symmetric matrix": [shared] * 96,
}
lengths = {name: follow(row, x) for name, row in rows.items()}

# %%
plots.by_depth(
    lengths,
    ylabel="length of the signal",
    logy=True,
    start=0,
    reference={"bound": 1.01**96},
    caption="Length of a signal against the number of matrices, for four sequences of matrices with the same spectral norm. Orthogonal matrices stretch every vector equally and reach the bound. Random matrices stretch one direction most, and the signal "
    "rarely points in it. If one matrix is repeated, each step eventually multiplies the signal by about the absolute value of the matrix's largest eigenvalue. "
    "This value is the spectral norm for a symmetric matrix, and about half of it for a large random one.",
).named("stretch")

# %%
exact(lengths["random"][-1] / 1.01**96, tolerance=1e-20).claim(
    "A-spectral-norm-bounds-growth",
    "< 1e-20",
    "A spectral norm of 1.01 bounds a signal's growth but does not predict it: random matrices with this spectral norm shrink a signal to nearly nothing.",
    found="After 96 matrices of spectral norm 1.01, the signal's length divided by the bound is {mean:.0e} with random matrices, {shared:.2f} with one symmetric matrix and {turned:.3f} with orthogonal matrices.",
    source="against Transformer Anatomy, part 7: normalization in transformers",
    published="spectral norm 1.01 means growth like 1.01 to the power L",
    beside={
        "shared": lengths["one symmetric matrix"][-1] / 1.01**96,
        "turned": lengths["orthogonal"][-1] / 1.01**96,
    },
)

# %% [markdown]
r"""
The gain of a matrix, the root mean square of the stretch over all directions, predicts the growth through random matrices ([chapter 00](00_why_normalize.ipynb#signal-and-gradient-share-one-gain)).

## Gradients that vanish: sigmoids

*Exploring the Transformer* counts vanishing gradients among the problems of depth. In linear layers the signal vanishes together with the gradient, because both pass through the same matrices ([chapter 00](00_why_normalize.ipynb#the-idea-one-factor-ninety-six-times)). Sigmoids shrink the gradient, because their slope is at most ¼, but the signal keeps its size, because outputs lie around ½. What vanishes with the gradient are the differences between the outputs for different inputs:
"""


# %%
def fade(activation, of_seed, layers=48, width=64):
    """First weight's gradient over the last one's; at the top, size and spread over inputs."""
    torch.manual_seed(of_seed)
    x = torch.randn(128, width).double()
    weights = [
        (torch.randn(width, width) / width**0.5).double().requires_grad_() for _ in range(layers)
    ]
    for weight in weights:
        x = activation(x @ weight)
    (x * torch.randn_like(x)).sum().backward()
    spread = x.std(dim=0).square().mean().sqrt().item()
    return (
        (weights[0].grad.norm() / weights[-1].grad.norm()).item(),
        x.square().mean().sqrt().item(),
        spread,
    )


# %%
faded, tanh = [fade(torch.sigmoid, s) for s in five], [fade(torch.tanh, s) for s in five]
computed([np.log10(ratio) if rms > 0.1 else 0.0 for ratio, rms, _ in faded]).claim(
    "A-sigmoid-layers-vanish",
    "< -10",
    "Gradients vanish on their way through many sigmoid layers, although the outputs keep their size.",
    found="Through 48 sigmoid layers, the gradient shrinks to 10^{mean:.0f} of its size. The outputs keep an RMS of {size:.2f}, but outputs for different inputs differ by only {spread:.0e}. Through as many tanh layers, the gradient is multiplied by {of_tanh:.1f}.",
    source="Exploring the Transformer, part 14, l. 16",
    beside={
        "size": fmean(rms for _, rms, _ in faded),
        "spread": fmean(spread for *_, spread in faded),
        "of_tanh": fmean(ratio for ratio, *_ in tanh),
        "control": "tanh",
        "last step": "at initialization alone",
    },
)

# %% [markdown]
r"""
## Deeper, and worse on its own training data

[He et al. (2016a)](https://arxiv.org/abs/1512.03385) trained *plain* networks (networks without skips) of 20 and 56 layers on CIFAR-10, with BatchNorm. The network with 56 layers had the higher *training* error. So the cause is neither overfitting nor a lack of
capacity: if 36 layers have $W = I$, the deep network *is* the shallow one, because $\mathrm{relu}(Ix) = x$ for the output $x$ of a ReLU. With BatchNorm a copying layer also needs a gain and a bias that undo the norm, exactly in evaluation and nearly so in training, where the statistics differ from batch to batch. *Exploring the Transformer* reports that a network with such copies was worse. But in the paper the copies are a thought experiment; the network that was worse had started from random weights.
"""


# %%
def build_copy(x, normed):
    """Build a layer that hands on a rectified x: gain and shift undo what the norm does."""
    matrix, norm = nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64)
    nn.init.eye_(matrix.weight)
    norm.running_mean, norm.running_var = x.mean(0), x.var(0)
    norm.weight.data, norm.bias.data = (x.var(0) + norm.eps).sqrt(), x.mean(0)
    return nn.Sequential(matrix, norm if normed else nn.Identity(), nn.ReLU())


# %%
low, high = sizes.heights
torch.manual_seed(seed)
moved = {}
for norm in ("none", "batch"):
    shallow = StackConfig("plain", norm, depth=low).build().double().eval()
    with torch.no_grad():
        x = shallow[:-1](images.double())
        copies = [build_copy(x, norm == "batch") for _ in range(high - low)]
        deeper = nn.Sequential(shallow[:-1], *copies, shallow[-1]).double().eval()
        moved[norm] = (deeper(images.double()) - shallow(images.double())).abs().max().item()
exact(moved["none"]).claim(
    "A-deeper-holds-the-shallow",
    "<= 0",
    "A deeper plain network can compute exactly the same function as a shallower one.",
    found="If layers that copy their input are added to a plain network, its logits change by at most {mean:g}. With BatchNorm, in evaluation mode, the logits change by at most {normed:.0e}.",
    source="He et al. 2016a, arXiv 1512.03385, section 1",
    beside={"normed": moved["batch"]},
)

# %% [markdown]
r"""
Does training fail in our networks, too? We train perceptrons, initialized by [He's rule](00_why_normalize.ipynb#first-repair-draw-the-weights-with-care), on handwritten digits with SGD and momentum for 400 steps. *Skips, small branches* has no norm; the last matrix of each of its $S$ steps is initialized at $\frac1{\sqrt S}$ of its usual size. We tune
the learning rate of each design and depth on validation digits. We tuned the ResNets' rates once more after seeing results, so the cards about these runs are marked *not preregistered*.
"""

# %%
designs = {
    "plain": {"model.step": "plain"},
    "plain, BatchNorm": {"model.step": "plain", "model.norm": "batch"},
    "skips, small branches": {"model.step": "none", "model.init": "scaled"},
    "highway": {"model.step": "highway"},
    "ResNet v1": {"model.step": "resnet-v1", "model.norm": "batch"},
    "ResNet v2": {"model.step": "resnet-v2", "model.norm": "batch"},
}
digits = Run(
    model=StackConfig(),
    data=Digits(batch=32),
    train=TrainConfig(steps=sizes.steps, optimizer="sgd", schedule="linear"),
)
# %%
arms = {
    f"{name}, {depth} layers": {**fields, "model.depth": depth}
    for name, fields in designs.items()
    for depth in (low, high)
}
search = {"train.lr": sizes.rates, "seed": [ladder.TUNING_SEED]}
tuning = lab.run(Experiment(digits, {"arm": arms, **search}))


def tune_again(arm, tuned):
    """Let two more seeds judge a ResNet's best rate and its neighbours, until the best stays."""
    if "ResNet" not in arm:
        return tuned
    grid, asked = [*sizes.rates, 1.0], set()  # where the last is the best, the next is tried too
    while True:
        at = grid.index(tuned.best("lr"))
        near = [lr for lr in grid[max(at - 1, 0) : at + 2] if lr not in asked]
        if not near:
            return tuned
        asked |= {*near}
        again = {"train.lr": near, "seed": ladder.TUNING_SEEDS[1:]}
        tuned += lab.run(Experiment(digits, {"arm": {arm: arms[arm]}, **again}))


judged = {arm: tune_again(arm, part) for arm, part in tuning.by("arm").items()}
own = {arm: {**arms[arm], "train.lr": part.best("lr")} for arm, part in judged.items()}
final = lab.run(Experiment(digits, {"arm": own, "seed": five})).by("arm")


# %%
def fit(record):
    """Return how well a run fits its training data at the end; infinite where it diverged."""
    return np.mean(record.losses[-20:]) if record.diverged_at is None else np.inf


def measure_tuned(runs, search, what="test.loss"):
    """Read runs at the best rate of a search, and note what that search lacks."""
    lacking = regime.untuned(search, five)
    return runs.measure(what).tuned(lacking).after(search.measure("validation.loss"))


def measure_own(name, depth, what="test.loss"):
    """Read a network at its own rate."""
    arm = f"{name}, {depth} layers"
    return measure_tuned(final[arm], judged[arm], what)


# %%
shown = [
    f"{name}, {depth} layers" for name in ("plain, BatchNorm", "ResNet v1") for depth in (low, high)
]
plots.loss_curves(
    {arm: final[arm].values(lambda record: record.losses) for arm in shown},
    ylabel="training loss (nats)",
    ylim=(0, 3),
    reference={"guessing": log(10)},
    caption="Training loss against step for two networks without skips and two with skips, each at its tuned learning rate. How far is the deeper network's final loss above the shallower one's, without skips and with them?",
    provenance=lab.provenance(*final.values()),
).named("deeper-is-worse")

# %%
plots.table(
    {
        "design": name,
        "layers": depth,
        "tuned rate": f"{own[f'{name}, {depth} layers']['train.lr']:g}",
        "training loss": measure_own(name, depth, fit).mean,
        "test loss": measure_own(name, depth).mean,
        "test accuracy": measure_own(name, depth, "test.accuracy").mean,
    }
    for name in designs
    for depth in (low, high)
)

# %%
figures = "He et al. 2016a, arXiv 1512.03385, Figures 1 and 6 (CIFAR-10)"
printed = "20 and 56 layers: without skips the deeper one has the higher training error"
at_the_end = {"last step": "the last 20 batches of 400"}
cost = {name: measure_own(name, high, fit) - measure_own(name, low, fit) for name in designs}

# %%
cost["plain, BatchNorm"].claim(
    "A-deeper-plain-fits-worse",
    "> 0.3",
    "With BatchNorm and without skips, the deeper network fits its own training data worse.",
    found=f"With BatchNorm, the training loss of {high} plain layers is {{mean:.2f}} nats higher than that of {low}.",
    source=figures,
    published=printed,
    beside={**at_the_end, "second value": "without BatchNorm"},
)

# %%
cost["plain"].claim(
    "A-deeper-bare-fits-worse",
    "> 0.1",
    "Without norms and without skips, too, the deeper network fits its own training data worse.",
    found=f"Without norms, the training loss of {high} plain layers is {{mean:.2f}} nats higher than that of {low}.",
    source=figures,
    published=printed,
    beside={**at_the_end, "second value": "with BatchNorm"},
)

# %%
cost["ResNet v1"].claim(
    "A-depth-costs-skips-nothing",
    "< 0.1",
    "With skips, the deeper network ends less than 0.1 nats above the shallower one on its own training data.",
    found=f"With {high} layers, ResNet v1's training loss is {{mean:.3f}} nats higher than with {low} layers.",
    source="this book: a bound of 0.1 nats",
    beside={**at_the_end, "second value": "four times the steps (below)"},
)


# %%
(cost["ResNet v1"] / cost["plain, BatchNorm"]).map(lambda left: 1 - left).claim(
    "A-skips-cut-the-cost-of-depth",
    "> 0.5",
    "In a network with BatchNorm, adding skips alone removes most of the rise in training loss with depth.",
    found=f"With BatchNorm, skips remove {{mean:.0%}} of the rise in training loss from {low} to {high} layers.",
    source=figures,
    published=printed,
    beside=at_the_end,
)

# %%
(cost["skips, small branches"] / cost["plain"]).map(lambda left: 1 - left).claim(
    "A-small-branches-cut-the-cost",
    "> 0.5",
    "Without norms, skips with small branches take away most of the cost of depth.",
    found=f"Without norms, skips with small branches remove {{mean:.1%}} of the rise in training loss from {low} to {high} layers.",
    source="this book",
    beside=at_the_end,
)

# %% [markdown]
r"""
Without skips, depth raises the training loss a lot, with BatchNorm and without. With identity skips and BatchNorm it raises the loss only a little, whereas in the paper deeper ResNets fit *better* ([He et al., 2016a](https://arxiv.org/abs/1512.03385), Figure 6). (We first preregistered the third card's sentence as "no worse", and reworded it when our runs showed a small rise.) The two designs that the fourth card compares differ only in the skip.

No norm is needed: with small branches, skips remove the rise as well. If the branches are not small and the weights follow He's rule, the signal explodes in networks with skips and without norms ([chapter 00](00_why_normalize.ipynb#forty-eight-layers-five-ways)).

According to *Exploring the Transformer*, the paper concludes that networks do not easily learn the identity. The paper offers this as a guess. Weights with a lower loss exist, but in 400 steps gradient descent does not reach them. Does the deep network never learn, or does it only learn late? We train for four times as many steps. For the deep plain networks we tune the rate again, by the *training* loss; all other networks keep the rates that were tuned for 400 steps. A better rate for the shallow plain networks could only widen the gap. The gaps depend on how the rate is chosen (printed below), and their intervals do not include this uncertainty.
"""

# %%
long = replace(digits, train=replace(digits.train, steps=4 * sizes.steps))


def tune_long(name):
    """Try half and whole steps beside a deep plain network's rate, until the best is no end."""
    deep = own[f"{name}, {high} layers"]
    place = round(4 * np.log10(deep["train.lr"]))
    first, last = place - 2, place + 2
    while True:
        rates = [float(f"{10 ** (k / 4):.3g}") for k in range(first, last + 1)]
        axes = {"arm": {name: deep}, "seed": ladder.TUNING_SEEDS, "train.lr": rates}
        tuned = lab.run(Experiment(long, axes))
        at = rates.index(tuned.best("lr", fit))
        if 0 < at < len(rates) - 1:
            return tuned
        first, last = first - (at == 0), last + (at > 0)


# %%
retuned = {name: tune_long(name) for name in ("plain", "plain, BatchNorm")}
longer = {arm: own[arm] for arm in own if arm.startswith(("plain", "ResNet v1"))}
for name, tuned in retuned.items():
    arm = f"{name}, {high} layers"
    longer[arm] = {**own[arm], "train.lr": tuned.best("lr", fit)}
patient = lab.run(Experiment(long, {"arm": longer, "seed": five})).by("arm")
by_validation = {name: {**own[f"{name}, {high} layers"], "train.lr": 0.001} for name in retuned}
earlier = lab.run(Experiment(long, {"arm": by_validation, "seed": five})).by("arm")

# %%
for name in retuned:
    shallow, deep = (patient[f"{name}, {depth} layers"].measure(fit) for depth in (low, high))
    print(
        f"{name}: at 0.001, the learning rate that one seed's validation loss chooses, the loss of {high} layers is "
        f"{(earlier[name].measure(fit) - shallow).mean:.2f} nats higher than that of {low}; "
        f"at {longer[f'{name}, {high} layers']['train.lr']:g}, {(deep - shallow).mean:.2f} nats higher"
    )

# %%
ends = [of.measure(fit).mean for of in retuned["plain, BatchNorm"].by("lr").values()]
plots.loss_curves(
    {
        arm: runs.values(lambda record: record.losses)
        for arm, runs in patient.items()
        if arm.startswith("plain")
    },
    ylabel="training loss (nats)",
    ylim=(0, 3),
    reference={"guessing": log(10)},
    caption="Training loss against step for networks without skips, trained for four times as many steps as before. With BatchNorm the loss of the deep network is never much lower than that of guessing: at "
    f"{len(ends)} rates the mean final loss of the tuning seeds is between {min(ends):.2f} and {max(ends):.2f} nats. Without norms the deep network learns, but only late.",
    provenance=lab.provenance(*patient.values()),
).named("four-times-the-steps")


# %%
def measure_long_cost(name):
    """Read the cost of depth after four times the steps; a deep plain network is tuned for them."""
    shallow, deep = (patient[f"{name}, {depth} layers"].measure(fit) for depth in (low, high))
    if name in retuned:
        seen = {lr: of.values(fit) for lr, of in retuned[name].by("lr").items()}
        lacking = regime.rates({name: seen}, placed=True)
        deep = deep.tuned(lacking).after(retuned[name].measure(fit))
    return (deep - shallow).after(tuning.measure("validation.loss"))


patiently = {"last step": "the last 20 batches", "second value": "a quarter of the steps"}
own_rate = f"{high} layers at a rate tuned for these steps, {low} at that of a quarter of the steps"

# %%
measure_long_cost("plain, BatchNorm").claim(
    "A-deeper-plain-stays-behind",
    "> 0.3",
    "With BatchNorm and without skips, the deeper network still fits its own training data worse after four times the steps.",
    found=f"With BatchNorm, after {long.train.steps:,} steps, the training loss of {high} plain layers is {{mean:.2f}} nats higher than that of {low}. After a quarter of the steps, it is {{before:.2f}} nats higher.",
    source=figures,
    published=printed,
    beside={"before": cost["plain, BatchNorm"], **patiently, "control": own_rate},
)

# %%
measure_long_cost("plain").claim(
    "A-deeper-bare-stays-behind",
    "> 0.1",
    "Without norms and without skips, too, the deeper network still fits its own training data worse after four times the steps.",
    found=f"Without norms, after {long.train.steps:,} steps, the training loss of {high} plain layers is {{mean:.2f}} nats higher than that of {low}. After a quarter of the steps, it is {{before:.2f}} nats higher.",
    source="this book; with BatchNorm, He et al. 2016a, arXiv 1512.03385",
    beside={"before": cost["plain"], **patiently, "control": own_rate},
)

# %%
left = measure_long_cost("ResNet v1")
left.claim(
    "A-deeper-skips-fit-better",
    "< 0",
    "With skips and four times the steps, the deeper network has the lower training loss.",
    found=f"After {long.train.steps:,} steps, the training loss of ResNet v1 is {{apart:.3f}} nats {{where}} with {high} layers than with {low} layers.",
    source=figures,
    published="with skips the deeper network has the lower training error",
    beside={"where": "higher" if left.mean > 0 else "lower", **patiently},
)


# %%
def first_over_last(model, seed=seed):
    """Gradient of the first hidden matrix over that of the last, at initialization."""
    torch.manual_seed(seed)
    net = model.build().double()
    matrices = [part for part in net.modules() if isinstance(part, nn.Linear)]
    for part in matrices:  # He's rule again: float64 draws the same on every processor
        nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
    F.cross_entropy(net(images.double()), labels).backward()
    # Without the first and the last layer of the network.
    return (matrices[1].weight.grad.norm() / matrices[-2].weight.grad.norm()).item()


for name in retuned:
    model = replace(
        digits.model, depth=high, step="plain", norm=designs[name].get("model.norm", "none")
    )
    drawn = [first_over_last(model, s) for s in five]
    print(
        f"{name}, {high} layers, before the first step: the first hidden matrix has "
        f"{min(drawn):.2g} to {max(drawn):.2g} times the gradient of the last"
    )

# %% [markdown]
r"""
With BatchNorm the deep network hardly learns at any rate that we tried; without norms it learns late. Vanishing gradients at the first step are not the cause: without norms the gradients of the first and the last hidden matrix are of similar size, and with BatchNorm gradients *grow* on their way down (printed above; [chapter 00](00_why_normalize.ipynb#what-is-wrong-with-batchnorm-alone)). We did not measure later steps. [He et al. (2016a)](https://arxiv.org/abs/1512.03385) examined the gradients in their plain networks with BatchNorm, found healthy norms, and consider vanishing gradients an unlikely cause. With four times the steps, at the rates tuned for 400 steps, depth still raises ResNet v1's training loss, but by less.

## Highways

A **highway** ([Srivastava et al., 2015](https://arxiv.org/abs/1505.00387)) mixes a layer's output with the layer's input. In each channel a learned gate $T$ sets the proportions:

$$x \leftarrow T(x)\odot f(x) + (1 - T(x))\odot x, \qquad T(x) = \mathrm{sigmoid}(Wx + b).$$

$T = 1$ gives a layer without a skip, and $T = 0$ gives a copy. With $T$ near 0 the gate is *closed*, and the shortcut is open. The bias $b$ starts at $-2$, so if $Wx = 0$ about an eighth of each channel is new. The cards compare a highway with the plain network above and call their layers "the same". This is not quite true: in the plain network a ReLU follows *every* matrix, and in the highway it follows only the first of the two matrices of a step.
"""

# %%
(measure_own("plain", high) - measure_own("highway", high)).claim(
    "A-highway-needs-no-norm",
    "> 0.5",
    "At depth a highway, without norms, ends far below the same layers without its gates.",
    found=f"Without norms, the test loss of a highway network of {high} layers with a gate bias of b = −2 is {{apart:.2f}} nats {{side}} that of a plain network of the same depth.",
    source="this book: gates that begin at b = −2, whatever the depth",
    beside={"second value": "20 layers (table)", "last step": "the test loss at the end"},
)

# %% [markdown]
r"""
The direct path through $S$ steps carries a share $(1 - T)^S$ of the input: at first about $0.88^{28} \approx 0.03$ here. The paper's authors tuned the bias together with the learning rate, so the card is no evidence against their result. With $b = -6$ the direct path carries $0.9975^{28} \approx 0.93$:
"""

# %%
closed = {"arm": {"closed highway": {"model.step": "closed-highway", "model.depth": high}}}
sought = lab.run(Experiment(digits, {**closed, **search}))
found = lab.run(Experiment(digits, {**closed, "train.lr": [sought.best("lr")], "seed": five}))
ends = measure_tuned(found, sought)
(measure_own("plain", high) - ends).claim(
    "A-closed-highway-needs-no-norm",
    "> 0.5",
    "With gates that begin nearly closed, a deep highway, without norms, ends far below the same layers without its gates.",
    found=f"With a gate bias of b = −6, the test loss of a highway network of {high} layers is {{closed:.2f}} nats, which is {{apart:.2f}} nats {{side}} that of a plain network of the same depth.",
    source="Srivastava et al. 2015, arXiv 1505.00387, section 3",
    published="highways of 50 and 100 layers train where plain ones do not (MNIST)",
    beside={
        "closed": ends,
        "second value": "b = −2 (above)",
        "last step": "the test loss at the end",
    },
)

# %% [markdown]
r"""
So in 400 steps a highway's architecture alone is not enough: the gates' initial bias matters, too. With $b = -2$ the loss is still falling at the end, but at the next higher learning rate the run diverges.

## ResNet v1 and v2

$$\text{v1:}\quad x \leftarrow \mathrm{relu}\big(x + N(f(x))\big), \qquad \text{v2:}\quad x \leftarrow x + f\big(\mathrm{relu}(N(x))\big).$$

Here $N$ is a norm (BatchNorm in our networks). In v1 there is a ReLU on the stream. In v2 ([He et al., 2016b](https://arxiv.org/abs/1603.05027)) the stream passes through neither norm nor ReLU; both are in the branch ("pre-activation"). On CIFAR-10, v2's advantage grows with depth: the error falls from 6.61 to 6.37 % at 110
layers, and from 7.61 to 4.92 % at 1,001.
"""

# %%
(measure_own("ResNet v1", high) - measure_own("ResNet v2", high)).claim(
    "A-v2-ends-below-v1",
    "> 0",
    "At depth ResNet v2 ends below v1.",
    found=f"With {high} layers, ResNet v2's test loss is {{apart:.3f}} nats {{side}} ResNet v1's.",
    source="He et al. 2016b, arXiv 1603.05027, Table 3 (CIFAR-10)",
    published="1,001 layers: 4.92 against 7.61 % error; 110 layers: 6.37 against 6.61 %",
    beside={"second value": "20 layers (table)", "last step": "the test loss at the end"},
)

# %% [markdown]
r"""
On digits, too, v2's advantage is larger in the deeper networks (for 20 layers see the [table](A_skips.ipynb#deeper-and-worse-on-its-own-training-data)).

## What may stand on the shortcut

[He et al. (2016b)](https://arxiv.org/abs/1603.05027) tried five other shortcuts in a 110-layer ResNet v1, and all had a higher error on CIFAR-10 than the identity's 6.61 % (Table 1). *Exploring the Transformer* concludes that beyond 100 layers identity shortcuts are "the
only effective method". [Srivastava (2025)](https://rupeshks.cc/blog/skip.html) objects that networks with gated skips can be trained, too. Let $T$ be the gate of a highway, and let $h$ and $k$ be as in $x \leftarrow \mathrm{relu}(h(x) + k(x)\odot N(f(x)))$:

| name | shortcut $h(x)$ | factor $k(x)$ |
| --- | --- | --- |
| identity | $x$ | 1 |
| gate on the shortcut | $(1 - T)\odot x$ | 1 |
| both gated | $(1 - T)\odot x$ | $T$ |
| projected | $Wx$ | 1 |
| halved | $x/2$ | ½ |
| half dropped | dropout of $x$ | 1 |

We compare labkit's steps with these equations:
"""


# %% tags=["mechanism"]
def write(name, step, x):
    """Compute a shortcut's equation from its letters, apart from labkit's step."""
    branch = step.norm(step.sublayer(x))
    gate = torch.sigmoid(x @ step.weight.T + step.bias) if "gate" in name else None
    return {
        "halved": lambda: x / 2 + branch / 2,
        "projected": lambda: x @ step.weight.T + branch,
        "dropped": lambda: x + branch,  # in evaluation nothing is dropped
        "shortcut-gate": lambda: x - gate * x + branch,
        "exclusive-gate": lambda: x + gate * (branch - x),
    }[name]().clamp(min=0)


# %%
torch.manual_seed(seed)
x, apart = torch.randn(9, 16).double(), {}
for name in ("halved", "projected", "dropped", "shortcut-gate", "exclusive-gate"):
    step = STEPS[name](lambda: nn.LayerNorm(16), nn.Linear(16, 16), Place(dim=16)).double().eval()
    if "gate" in name:
        nn.init.normal_(step.bias)
    apart[name] = (step(x) - write(name, step, x)).abs().max().item()
exact(max(apart.values()), tolerance=1e-12).claim(
    "A-shortcuts-meet-their-equations",
    "< 1e-12",
    "In evaluation mode, labkit's five kinds of shortcuts compute the equations in the table of appendix A.",
    found="In evaluation mode, the outputs of labkit's five kinds of shortcuts differ from those of the table's equations by at most {mean:.0e}.",
    source="He et al. 2016b, arXiv 1603.05027, section 3.1",
)

# %% [markdown]
r"""
Now we train 110 layers with each shortcut for 200 steps, at tuned learning rates. The gates' bias starts at $b = -6$. The second column gives the paper's names and best errors ([He et al., 2016b](https://arxiv.org/abs/1603.05027)). The third column is the norm of the gradient of the first hidden matrix divided by that of the last, before the first step, in one draw. Over $S$ halved shortcuts the direct path carries $2^{-S}$ of the signal, so one might expect the gradient to vanish. Instead it grows on its way down, as with BatchNorm and no skip ([chapter 00](00_why_normalize.ipynb#what-is-wrong-with-batchnorm-alone)).
"""

# %%
common = sizes.rates[2:]
shortcuts = {  # the step, the rates, and the paper's name and error
    "identity": ("resnet-v1", common, "original 6.61 %"),
    "both gated": ("exclusive-gate", [*common, 1.0], "exclusive gating 8.70 %"),
    "gate on the shortcut": ("shortcut-gate", common, "shortcut-only gating 6.91 %"),
    "halved": ("halved", sizes.rates, "constant scaling 12.35 %"),
    "half dropped": ("dropped", [1e-5, 3.16e-5, 1e-4, *sizes.rates[:4]], "dropout shortcut failed"),
    "projected": ("projected", [1e-6, 3.16e-6, 1e-5, 3.16e-5, 1e-4], "1×1 convolution 12.22 %"),
}
# %%
tall = replace(
    digits,
    model=StackConfig(norm="batch", depth=sizes.tall),
    train=replace(digits.train, steps=sizes.tall_steps),
)
tried, chosen = {}, {}
for name, (step, rates, _) in shortcuts.items():
    arm = {"arm": {name: {"model.step": step}}}
    tried[name] = lab.run(Experiment(tall, {**arm, **search, "train.lr": rates}))
    chosen[name] = {"model.step": step, "train.lr": tried[name].best("lr")}
ended = lab.run(Experiment(tall, {"arm": chosen, "seed": five})).by("arm")
loss, accuracy = (
    {name: measure_tuned(ended[name], tried[name], f"test.{what}") for name in shortcuts}
    for what in ("loss", "accuracy")
)


# %%
plots.table(
    {
        f"{sizes.tall} layers": name,
        "in the paper (CIFAR-10)": in_paper,
        "gradient, first/last": f"{first_over_last(replace(tall.model, step=step)):.1g}",
        "tuned rate": f"{chosen[name]['train.lr']:g}",
        "training loss": ended[name].measure(fit).mean,
        "test loss, runs that did not diverge": float(np.nanmean(loss[name].values)),
        "test accuracy": accuracy[name].mean,
        "diverged": str(ended[name].count(lambda record: record.diverged_at is not None)),
    }
    for name, (step, _, in_paper) in shortcuts.items()
)

# %%
table = "He et al. 2016b, arXiv 1603.05027, Table 1"
when = {"last step": "loss and accuracy at the end"}
(loss["both gated"] - loss["identity"]).claim(
    "A-gated-shortcut-ends-above-identity",
    "> 0",
    "At 110 layers a network with gated shortcuts ends above one with identity shortcuts.",
    found=f"With {sizes.tall} layers, the test loss of the network with identity shortcuts is {{apart:.2f}} nats {{side}} that of the network in which shortcut and branch are both gated.",
    source=f"{table}; Exploring the Transformer, part 14",
    published="8.70 against 6.61 % error",
    beside=when,
)

# %%
(loss["gate on the shortcut"] - loss["identity"]).claim(
    "A-shortcut-gate-ends-above-identity",
    "> 0",
    "At 110 layers a network with a gate on its shortcuts alone ends above one with identity shortcuts.",
    found=f"With {sizes.tall} layers, the test loss of the network with identity shortcuts is {{apart:.2f}} nats {{side}} that of the network with gates on its shortcuts alone.",
    source=table,
    published="6.91 against 6.61 % error",
    beside=when,
)

# %%
behind = [accuracy["identity"] - accuracy[name] for name in ("halved", "half dropped", "projected")]
combine(min, *behind).claim(
    "A-three-shortcuts-read-fewer-digits",
    "> 0.1",
    "At 110 layers halved, dropped and projected shortcuts each read fewer digits than the identity.",
    found=f"With {sizes.tall} layers, the accuracy of the network with identity shortcuts is {{mean:.2f}} higher than that of the best network with halved, dropped or projected shortcuts.",
    source=table,
    published="12.35 % error, failed, and 12.22 %, against 6.61 %",
    beside=when,
)

# %% [markdown]
r"""
So "the only effective method" does not hold here, in perceptrons of 110 layers: with gates on shortcut *and* branch, the network reaches a lower loss than ResNet v1 after 200 steps, perhaps because such a gate makes branches small at first. With a gate on the shortcut *alone*, whose error in the paper is close to the identity's, the loss is far higher here than with the identity.

Networks with halved or half-dropped shortcuts do not learn in 200 steps at any rate that we tried, and networks with projected shortcuts hardly learn; we did not find out why. In the paper two of the three train. So our table shows that these networks fail to start learning, but not which shortcut is better. (The best rate for half-dropped shortcuts was the lowest tried, so the third card says "not seen".)

## Ninety-six blocks without a norm

"A 96-layer transformer trained without any normalization will diverge within the first few hundred steps" and might need a learning rate of $10^{-5}$ or less, says part 7 of *Transformer Anatomy*. This depends on the initialization. In models of width 64 we measure the gradient of the *last* feed-forward matrix before the first update. This gradient is the error from above times the signal from below. The error is bounded, so only the signal can make the gradient explode. In the models with *smaller weights*, every matrix is drawn with the standard deviation $1/\sqrt{2.5\,d}$, as in the HybridNorm paper. In attention and the output head this is about a third less than with Xavier's rule. In the models with *small branches*, the matrices that write to the stream are also divided by $\sqrt{2L}$, as in Megatron-LM, because $L$ blocks have $2L$ sublayers.
"""

# %%
start = Run(
    model=ModelConfig(norm="layer", activation="relu", dim=64, context=32, init="xavier"),
    data=Text(batch=16, time=32),
    train=TrainConfig(steps=1),
    probes=("gradient-at-start",),
)
towers = {
    "no norm": {"model.recipe": "none"},
    "no norm, smaller weights": {"model.recipe": "none", "model.init": "normal"},
    "no norm, small branches": {"model.recipe": "none", "model.init": "megatron"},
    "Pre-Norm": {"model.recipe": "pre"},
}
gradients = lab.run(
    Experiment(start, {"arm": towers, "model.depth": sizes.start_depths, "seed": five})
)


# %%
def read_last_gradient(record, step):
    """Read the gradient of the last feed-forward matrix before an update."""
    return record.probes["gradient-at-start"][step][-1]


last = {
    arm: {n: at.measure(read_last_gradient, at=0) for n, at in of.by("depth").items()}
    for arm, of in gradients.by("arm").items()
}
plots.curves(
    last,
    xlabel="blocks",
    ylabel="first gradient of the last matrix",
    logx=True,
    logy=True,
    caption="Norm of the gradient of the last feed-forward matrix, before the first update, against the number of blocks of a transformer. With Xavier's rule and no norms, the line curves upwards even on two "
    "logarithmic axes, as an exponential does. With Pre-Norm it falls, because the last norm divides by a stream that has grown.",
    provenance=lab.provenance(gradients),
).named("first-gradient-by-depth")


# %%
def measure_growth(arm):
    """Take the factor by which the last gradient grows with each block that is added."""
    few, many = min(sizes.start_depths), max(sizes.start_depths)
    return (last[arm][many] / last[arm][few]).map(lambda ratio: ratio ** (1 / (many - few)))


measure_growth("no norm").claim(
    "A-gradient-explodes-without-norms",
    "> 1.3",
    "Without norms, and with weights drawn by Xavier's rule, each added block multiplies the first gradient of the last feed-forward matrix by more than 1.3, on average from the shallowest model to the deepest.",
    found="On average, each added block multiplies the first gradient of the last feed-forward matrix by {mean:.2f} with Xavier's rule, by {smaller:.2f} with smaller weights, by {small:.3f} with small branches and by {normed:.3f} with Pre-Norm.",
    source="this book: variances add",
    beside={
        "smaller": measure_growth("no norm, smaller weights"),
        "small": measure_growth("no norm, small branches"),
        "normed": measure_growth("Pre-Norm"),
    },
)

# %% [markdown]
r"""
Does training depend on the initialization, too? We build models of ninety-six blocks of width 16. With Xavier's rule the first gradients already overflow, and in some draws the first loss as well:
"""

# %%
tower = Run(
    model=ModelConfig(
        "none", "layer", dim=16, depth=sizes.tower_blocks, heads=2, context=16,
        activation="gelu", init="megatron",
    ),
    data=Text(batch=4, time=16),
    train=TrainConfig(steps=sizes.tower_steps, lr=1e-3),
    probes=(),
)  # fmt: skip
# %%
passages = tower.data.load()


def begin_tower(init, s):
    """RMS of the stream by block, the first loss, and whether it and its gradients are numbers."""
    torch.manual_seed(s)
    model, batch = replace(tower.model, init=init).build(), next(passages.train(s))
    with torch.no_grad():
        streams = residual_streams(model, batch[0])
    loss = loss_of(model, *batch)
    loss.backward()
    finite = all(part.grad.isfinite().all() for part in model.parameters())
    rms = [stream.double().square().mean().sqrt().item() for stream in streams]
    return rms, loss.item(), bool(loss.isfinite()) and finite


# %%
anatomy = "Transformer Anatomy, part 7: normalization in transformers"
draws = lab.seeds(sizes.towers)
loud, quiet = ([begin_tower(init, s) for s in draws] for init in ("xavier", "megatron"))
computed(proportion(not whole for _, _, whole in loud), unit="draws").claim(
    "A-xavier-tower-has-no-first-loss",
    "> 0.5",
    "In most draws of a model of 96 blocks without norms, initialized by Xavier's rule, the first loss or one of its gradients overflows.",
    found=f"In a model of {sizes.tower_blocks} blocks without norms, initialized by Xavier's rule, the first loss or a first gradient overflows in {{k}} of {{n}} draws. The loss itself overflows in {{lost}} draws.",
    source=anatomy,
    published="96 layers without norms diverge within the first few hundred steps",
    beside={"lost": sum(not np.isfinite(loss) for _, loss, _ in loud)},
)

# %%
half = sizes.tower_blocks // 2
per_block = [
    fmean((rms[half] / rms[0]) ** (2 / half) for rms, _, _ in drawn) for drawn in (loud, quiet)
]
tops = [sum(size < 65504 for size in rms) for rms, _, _ in loud]
print(f"Xavier's rule: a block multiplies the stream's mean square by {per_block[0]:.2f};")
print(
    f"its RMS exceeds the largest float16 at block {min(tops)} to {max(tops)} of {sizes.tower_blocks}"
)
print(
    f"small branches: by {per_block[1]:.3f}; mean first loss {fmean(loss for _, loss, _ in quiet):.2f}"
)

# %% [markdown]
r"""
So with Xavier's rule a block more than doubles the stream's variance. In some draws the attention logits, which grow as this variance does, exceed the largest float32; in the others the loss is finite but its gradients overflow. We train 96 blocks with small branches, at the
highest rate that the source names for models *with* norms, 0.001, and at ten times that rate:

| question | choices | ours |
| --- | --- | --- |
| At a learning rate of 0.001, how many of the six runs diverge? <!-- A-careful-tower-diverges --> | fewer than half; <!-- 0.5 --> half of them, or more | <details><summary>show</summary>Ninety-six blocks without norms, with small branches, diverge within 200 steps.</details> |
"""

# %%
careful = lab.run(Experiment(tower, {"seed": lab.seeds(sizes.towers)}))
hasty = lab.run(Experiment(tower, {"train.lr": [1e-2], "seed": lab.seeds(2)}))
plots.loss_curves(
    {
        "rate 0.001": careful.values(lambda record: record.losses),
        "rate 0.01": hasty.values(lambda record: record.losses),
    },
    reference={"guessing": log(96)},
    smooth=10,
    ylim=(2, 7),
    caption="Training loss against step for ninety-six transformer blocks with small branches and no norms, at two learning rates.",
    provenance=lab.provenance(careful, hasty),
).named("ninety-six-blocks")


# %%
def fell(record):
    """Whether a run diverged, or ends no better than guessing."""
    return not fit(record) < log(96)


# %%
careful.count(fell).claim(
    "A-careful-tower-diverges",
    "> 0.5",
    "Ninety-six blocks without norms, with small branches, diverge within 200 steps.",
    found=f"At a learning rate of 0.001, {{k}} of {{n}} runs with {sizes.tower_blocks} blocks, small branches and no norms diverge within {sizes.tower_steps} steps.",
    source=anatomy,
    published="96 layers without norms diverge within the first few hundred steps",
    beside={
        "second value": f"at ten times the learning rate, {hasty.count(fell)} runs diverge",
        "last step": "the last 20 steps of 200",
        "control": "Xavier's rule, above",
    },
)

# %% [markdown]
r"""
So with small branches 96 blocks learn without norms at the lower rate; at ten times that rate one of two runs diverges. We did not try wider models or more steps.

## The largest rate, by depth

Part 7 of *Transformer Anatomy* also says that without norms the largest stable learning rate falls as $1/\sqrt L$, and that with norms it is the same at 12 layers and at 96. How should it fall if $S$ branches are made small in one of two ways? The following argument counts orders of magnitude and is not a proof:

| each branch has | under SGD the largest rate | under Adam |
| --- | --- | --- |
| a last matrix that starts at $\frac1{\sqrt S}$ of its usual size | falls as $1/S$ | falls as $1/S$ |
| a constant factor $\frac1{\sqrt S}$ (not trained) | does not fall | falls as $1/\sqrt S$, as the source says |

Under SGD the update of a matrix changes the output by the rate times the matrix's squared gradient. If the matrix only *starts* small, this square is not reduced, and $S$ such squares add up; a constant factor divides each of them by $S$. Adam divides each gradient by its size, so a constant factor multiplies each change by $\frac1{\sqrt S}$, not by $\frac1S$ ([Yang et al., 2024](https://arxiv.org/abs/2310.02244)). ResNet v2's last norm divides by the size of the stream, which has grown as $\sqrt S$, and so acts as such a factor, too.

We train perceptrons on digits for 80 steps at each of a series of rates, each twice the one before. A network *trains* at a rate if the mean of its last 20 losses is lower than the loss of guessing.
"""

# %%
lowest = {
    "small branches, SGD": ({"model.step": "none", "model.init": "scaled"}, "sgd", -10),
    "small branches, AdamW": ({"model.step": "none", "model.init": "scaled"}, "adamw", -7),
    "ResNet v2, SGD": (designs["ResNet v2"], "sgd", -3),
}
climb = replace(digits, train=TrainConfig(steps=sizes.ladder_steps, schedule="constant"), probes=())
climbs = {}
for name, (fields, optimizer, first) in lowest.items():
    arm = {"arm": {name: {**fields, "train.optimizer": optimizer}}}
    for k in range(sizes.ladder_rungs):
        # Each seed's ladder begins a fifth of a rung higher: no rate is met twice.
        starts = {s: {"seed": s, "train.lr": 2.0 ** (first + k + s / 5)} for s in five}
        grid = {"model.depth": sizes.ladder_depths, "start": starts}
        climbs[name, k] = lab.run(Experiment(climb, {**arm, **grid}))


# %%
def count_trained(*ends):
    """Count the rates below the first that does not train; each has the loss where it ends."""
    return len([*takewhile(lambda end: end < log(10), ends)])


def end_first_failed(*ends):
    """Return where the lowest rate that does not train ends; NaN where every one trains."""
    return next((end for end in ends if not end < log(10)), np.nan)


# %%
climbed = {
    (name, depth): [
        climbs[name, k].where(depth=depth).measure(fit) for k in range(sizes.ladder_rungs)
    ]
    for name in lowest
    for depth in sizes.ladder_depths
}
reached = {arm: combine(count_trained, *ends) for arm, ends in climbed.items()}
largest = {
    name: {
        # between the last that trains and the next
        depth: [
            2.0 ** (first + s / 5 + k - 0.5)
            for s, k in zip(five, reached[name, depth], strict=True)
        ]
        for depth in sizes.ladder_depths
    }
    for name, (_, _, first) in lowest.items()
}
first_failed = [
    end
    for depth in sizes.ladder_depths
    for end in combine(end_first_failed, *climbed["ResNet v2, SGD", depth])
]

# %%
plots.curves(
    largest,
    xlabel="layers",
    ylabel="largest learning rate at which the network trains",
    logx=True,
    logy=True,
    caption="Largest learning rate at which a network trains, against its number of layers. Under SGD and without norms, the runs that fail diverge. "
    f"At the lowest learning rate at which ResNet v2 fails, its final loss is between {min(first_failed):.1f} and {max(first_failed):.1f} nats (guessing: {log(10):.1f}). Under AdamW with 64 layers, even runs that train in the end first reach losses of hundreds of nats or more.",
    provenance=lab.provenance(*climbs.values()),
).named("largest-rate")


# %%
def fit_power(name):
    """Fit the slope of log rate over log depth, for each seed; a rung is a factor two."""
    depths = np.log2(sizes.ladder_depths)
    return combine(
        lambda *rungs: linear_regression(depths, rungs).slope,
        *(reached[name, depth] for depth in sizes.ladder_depths),
    )


# %%
how = {"last step": "80 steps at a constant rate", "control": "with norms and without"}
fit_power("small branches, SGD").claim(
    "A-sgd-rate-falls-like-the-root",
    "in [-0.65, -0.35]",
    "Without norms, under SGD, the largest rate that trains falls like one over the root of the depth.",
    found="With small branches and no norms, under SGD, the largest learning rate at which a network of L layers trains scales as L to the power {mean:.2f}.",
    source=anatomy,
    published="L to the power −1/2",
    beside={**how, "second value": "AdamW"},
    predicted=-0.5,
)

# %%
fit_power("small branches, AdamW").claim(
    "A-adam-rate-falls-like-the-root",
    "in [-0.65, -0.35]",
    "Without norms, under AdamW, the largest rate that trains falls like one over the root of the depth.",
    found="With small branches and no norms, under AdamW, the largest learning rate at which a network of L layers trains scales as L to the power {mean:.2f}.",
    source=anatomy,
    published="L to the power −1/2",
    beside={**how, "second value": "SGD"},
    predicted=-0.5,
)

# %%
fit_power("ResNet v2, SGD").claim(
    "A-norms-keep-the-largest-rate",
    "in [-0.15, 0.15]",
    "With norms and skips the largest rate that trains is the same at every depth.",
    found="Under SGD, the largest learning rate at which a ResNet v2 of L layers trains scales as L to the power {mean:.2f}.",
    source=anatomy,
    published="the same rates from 12 to 96 layers",
    beside=how,
    predicted=0.0,
)

# %% [markdown]
r"""
Without norms the largest rate falls, but not in the same way under both optimizers. Under SGD it falls as the argument predicts, faster than $1/\sqrt L$. Under AdamW the power lies between the argument's $-1$ and the source's $-\frac12$. The card's interval excludes both, but it reaches into the band around $-\frac12$ that the criterion allows, so the card says "not seen". With norms and skips we see no trend, though five seeds do not determine the power precisely. ResNet v2's initialization differs, too, so this comparison does not isolate the effect of the norm.

The estimate is coarse: the rates differ by factors of two, and because the three depths are equally spaced on a logarithmic scale, it compares only 4 layers with 64. The results are about learning anything within 80 steps, not about the best rate.

## Redundant units (singularities)

[Orhan and Pitkow (2018)](https://arxiv.org/abs/1701.09175) name three kinds of places in weight space, **singularities**, at which a layer $z = \mathrm{relu}(Jx)$ wastes units: one unit is *eliminated* ($J_a = 0$), two *overlap* ($J_a = J_b$), or several are *linearly dependent*. Then moving the outgoing weights $w$ in $w^\top z$ along some direction
does not change the output, so nothing is learned along this direction. With a skip, $z = \mathrm{relu}(Jx) + x$, every unit differs from the others. The paper treats the mirror image of the first case in the same way: if the next layer does not read a unit (column $V_a$ of its matrix is 0), that unit's *incoming* weights get no gradient, unless a skip passes one on. We count how many of 16
directions change the output:
"""

# %%
torch.manual_seed(seed)
x, J = torch.randn(200, 16).double(), torch.randn(16, 16).double()
u, v = J[0], J[2]
cases = {
    "nothing is wrong": J,
    "a unit is eliminated": torch.cat([0 * J[:1], J[1:]]),
    "two units overlap": torch.cat([J[1:2], J[1:]]),
    "six units depend": torch.cat([torch.stack([u, -u, v, -v, u + v, -u - v]), J[6:]]),
}
counted = []
for name, W in cases.items():
    z = torch.relu(x @ W.T)
    ranks = [int(torch.linalg.matrix_rank(z + skip * x)) for skip in (0, 1)]
    counted.append({"case": name, "plain": ranks[0], "with a skip": ranks[1]})
# %%
V = torch.randn(16, 16).double()
V[:, 0] = 0


def read_incoming(row, skip):
    """Outputs of the next layer, as a function of the incoming weights of unit 0."""
    z = torch.relu(x @ torch.cat([row[None], J[1:]]).T)
    return z @ V.T + skip * z


unread = {
    name: int(torch.linalg.matrix_rank(torch.func.jacrev(read_incoming)(J[0], s).reshape(-1, 16)))
    for s, name in enumerate(("plain", "with a skip"))
}
plots.table([*counted, {"case": "no unit of the next layer reads a unit", **unread}])

# %%
exact(min(row["with a skip"] for row in [*counted, unread])).claim(
    "A-skips-lift-singularities",
    ">= 16",
    "A skip removes each kind of singularity: moving the weights in any direction changes the output again.",
    found="With a skip, moving the weights changes the output in {mean:.0f} of the 16 directions at each kind of singularity. Without a skip, it does so in at most {plain:.0f}.",
    source="Orhan and Pitkow 2018, arXiv 1701.09175, Figure 1",
    beside={"plain": max(row["plain"] for row in counted[1:])},
)

# %% [markdown]
r"""
Because $\mathrm{relu}(a) - \mathrm{relu}(-a) = a$, the outputs of the six dependent units satisfy one linear relation, so the layer loses one direction. The skip removes a singularity only at its old place. With a skip a linear layer is $I + W$, and it loses a direction if $W$ has the eigenvalue $-1$. So the skip has *moved* the singular places away from small weights, where training starts. The paper argues that such places *make* plain networks learn slowly; our count does not show that.

**Rank of products.** A product of $n$ random matrices keeps about $d/(n + 1)$ of $d$ directions, as long as this number is large. We measure the number of directions by the effective rank $(\sum s^2)^2/\sum s^4$, where $s$ are the singular values.
"""


# %% tags=["mechanism"]
def count_directions(factors, branch=None, dim=64):
    """Effective rank of a product of random matrices W, or of I + branch · W."""
    product = torch.eye(dim).double()
    for _ in range(factors):
        step = torch.randn(dim, dim).double() / dim**0.5
        product = (step if branch is None else torch.eye(dim) + branch * step) @ product
        product /= product.norm()
    energy = torch.linalg.svdvals(product).square()
    return (energy.sum().square() / energy.square().sum()).item()


# %%
torch.manual_seed(seed)
kept = {
    name: {
        n: computed([count_directions(n, size_at(n)) for _ in five], unit="draws")
        for n in (1, 3, 12, 48, 96)
    }
    for name, size_at in (
        ("plain", lambda n: None),
        ("I + W/√n", lambda n: n**-0.5),
        ("I + W", lambda n: 1.0),
    )
}
plots.table(
    {"matrices": n, "d/(n + 1)": 64 / (n + 1), **{name: of[n].mean for name, of in kept.items()}}
    for n in kept["plain"]
)

# %%
kept["plain"][96].claim(
    "A-products-lose-rank",
    "< 4",
    "A product of many random matrices keeps only a few directions.",
    found="Of 64 directions, a product of 96 random matrices keeps {mean:.1f}, and a product of 96 small branches with skips keeps {skips:.0f}.",
    source="Exploring the Transformer, part 14; Orhan and Pitkow 2018, arXiv 1701.09175",
    published="the overall rank becomes even lower after multiplication",
    beside={"skips": kept["I + W/√n"][96]},
)

# %% [markdown]
r"""
With small branches about a third of the directions remain; with full-size branches the number keeps falling.

## Early readout (logit lens)

In a residual model one can read the answer from the stream early, by applying the model's output layers after any step. [Geva et al. (2021)](https://arxiv.org/abs/2012.14913) did this with a language model of 16 layers. From layer to layer the guess settles and becomes more confident, and layers *correct*
each other. (Of 100 words that the last layer had changed, the authors judged 66 % to be far in meaning from the earlier guess. Such a judgement is not possible for digits or characters.) We count how often an answer changes, and whether it becomes correct, in the deep ResNets v2 above and in language models.

| question | choices | ours |
| --- | --- | --- |
| From a quarter to three quarters of the depth, by how much does the share of answers to digits that equal the final one rise? <!-- A-early-answers-settle --> | less than a tenth; <!-- 0.1 --> a tenth, or more | <details><summary>show</summary>Read off early, an answer is the final one more often after three quarters of the steps than after one quarter.</details> |
"""

# %%
reader = replace(digits, probes=("early-judged", "test"))
at_top = {"arm": {"v2": own[f"ResNet v2, {high} layers"]}, "seed": five}
answers = lab.run(Experiment(reader, at_top))


def list_early(runs, what):
    """List a share of the answers by the step after which they are read off, run by run."""
    return [dict(enumerate(run)) for run in runs.values(f"early-judged.{what}")]


def measure_early(runs, what, step):
    """Read such a share after one step."""
    return runs.measure(lambda record: record.probes["early-judged"][what][step])


# %%
shares = {"final answer": "agreement", "correct answer": "right", "confidence": "confidence"}
plots.panels(
    {name: {"ResNet v2": list_early(answers, what)} for name, what in shares.items()},
    xlabel="residual steps before the readout",
    limits=dict.fromkeys(shares, (0, 1.05)),
    caption="Answers to test digits, read from the stream after each step: the share that equals the final answer, the share that is correct, and the mean probability of the answer. We read them with the network's output layers "
    "(norm, ReLU and output matrix), which were trained for the stream after the last step; the norm's running statistics were also computed from that stream.",
    provenance=lab.provenance(answers),
).named("early-answers")

# %%
steps = high // 2
method = "Geva et al. 2021, arXiv 2012.14913, section 5.2"
trained = {"last step": "the trained network"}
late = measure_early(answers, "agreement", 3 * steps // 4)
gained = late - measure_early(answers, "agreement", steps // 4)
gained.claim(
    "A-early-answers-settle",
    "> 0.1",
    "Read off early, an answer is the final one more often after three quarters of the steps than after one quarter.",
    found="After three quarters of the depth, {late:.1%} of the answers equal the final answer, {points:.1f} percentage points more than after one quarter. The criterion is ten percentage points.",
    source=f"this book: a gain of a tenth; the method is that of {method}",
    beside={"late": late, "points": 100 * gained.mean, **trained},
)

# %%
measure_early(answers, "changed", -1).claim(
    "A-last-step-changes-answers",
    "> 0.01",
    "The last step still changes the answer to some images.",
    found=f"The last of {steps} residual steps changes the answer for {{mean:.1%}} of the test digits. The criterion is more than one digit in a hundred.",
    source=f"this book: one image in a hundred; the method is that of {method}",
    beside=trained,
)

# %%
up, down = (measure_early(answers, what, steps // 4) for what in ("mended", "broken"))
(up - down).claim(
    "A-early-answers-turn-right",
    "> 0",
    "In a deep ResNet, the later residual steps correct more answers than they make wrong.",
    found="From a quarter of the depth to the end, {up:.1%} of the answers become correct, and {down:.1%} become wrong.",
    source=f"{method}; Exploring the Transformer, part 14",
    published="layers correct each other",
    beside={"up": up, "down": down, **trained},
)

# %% [markdown]
r"""
Answers to digits settle with depth, as in the paper. But nearly all are settled after a quarter of the depth, so the gain is smaller than the tenth that the first card's criterion requires. Later steps do *correct*: of the few answers that still change, most become correct.

### The same in text

In text the next character is seldom certain, so answers should settle later. We read the answers after each block of five Pre-Norm models of six blocks, the smallest size (S) that the book trains:
"""

# %%
rung = "S"
teller = ladder.configure_run(
    ladder.build_base_run(rung, "pre"), 0.01, seed, ("early-judged", "test")
)
told = lab.run(Experiment(teller, {"seed": five}))


def measure_smallest_gain(what):
    """Take by how much the block that adds least raises a share."""
    return told.measure(
        lambda record: min(b - a for a, b in pairwise(record.probes["early-judged"][what]))
    )


shares = {"final answer": "agreement", "correct": "right", "probability of the truth": "truth"}
plots.panels(
    {name: {"Pre-Norm": list_early(told, what)} for name, what in shares.items()},
    xlabel="blocks before the readout",
    caption="Predictions of the next character in held-out speeches, read from the stream after each block of a Pre-Norm model: the share of positions at which the most likely character is that of the full model, the share at which it is correct, and the mean probability of the true character.",
    provenance=lab.provenance(told),
).named("early-characters")


# %%
trained = {"last step": "the trained model"}
measure_smallest_gain("agreement").claim(
    "A-early-characters-settle",
    "> 0",
    "In a character model each block makes the early answer the final one more often.",
    found="In a character model, the share of positions at which the answer read off early equals the final one rises from block to block, from {first:.2f} to 1. The smallest rise is {mean:.3f}.",
    source=method,
    published="the share of final answers grows with the layer",
    beside={"first": measure_early(told, "agreement", 0), **trained},
)
measure_smallest_gain("truth").claim(
    "A-early-characters-come-true",
    "> 0",
    "In a character model each block raises the probability of the true next character.",
    found="In a character model, the mean probability of the true next character rises from block to block, from {first:.2f} to {last:.2f}. The smallest rise is {mean:.4f}.",
    source=f"{method}; Exploring the Transformer, part 14",
    published="the probability of the answer grows",
    beside={
        "first": measure_early(told, "truth", 0),
        "last": measure_early(told, "truth", -1),
        **trained,
    },
)

# %%
middle = teller.model.depth // 2
up, down = (measure_early(told, what, middle) for what in ("mended", "broken"))
measure_early(told, "changed", -1).claim(
    "A-last-block-changes-characters",
    "> 0.05",
    "The last of six blocks changes the answer at more than one position in twenty.",
    found="The last of a character model's six blocks changes the answer at {mean:.1%} of the positions. From the middle of the depth to the end, {up:.1%} of the answers become correct, and {down:.1%} become wrong.",
    source=f"this book; the method is that of {method}",
    beside={"up": up, "down": down, **trained},
)

# %% [markdown]
r"""
So answers settle later in text than for digits: the last block still changes a third of them.

## Does a skip leak what the mask hides?

No, a skip does not leak. Call a map of sequences *causal* if its output at $t$ depends only on inputs up to $t$. The identity is causal, and so are sums and compositions of causal maps. Masked attention is causal, and so is every map that works token by token. A skip only adds the identity. This argument covers every recipe of the book whose norms read one token at a time:
"""

# %%
torch.manual_seed(seed)
tokens = torch.randint(96, (4, 12))
leaks = {}
for name in RECIPES:
    model = ModelConfig(name, dim=16, depth=2, heads=2, context=12).build()
    leaks[name] = measure_leakage(model, (tokens, tokens))["earlier"]
exact(max(leaks.values())).claim(
    "A-skips-do-not-leak",
    "<= 0",
    "Skips do not carry later tokens past a causal mask.",
    found="In {recipes:.0f} recipes of the book, changing the last token changes the logits at earlier positions by at most {mean:g}.",
    source="Exploring the Transformer, part 14: residual networks and normalization",
    published="the skip introduces no additional information",
    beside={"recipes": len(leaks)},
)

# %% [markdown]
r"""
These masks let a position see itself, and a skip passes each token only to its own position. If a mask hides the present token as well, as when a word is guessed from its neighbours, the skip reveals the hidden token. In this example one head, with queries computed from positions, guesses the last of six tokens from those before it:
"""

# %%
torch.manual_seed(seed)
places, sequence = torch.randn(6, 8).double(), torch.randn(6, 8).double()


def guess_last(own, skip):
    """Attend from the last position to the tokens before it; the mask hides its own token."""
    x = torch.cat([sequence[:-1], own[None]])
    hidden = torch.tensor([False] * 5 + [True])
    weights = (places[-1] @ x.T).masked_fill(hidden, -torch.inf).softmax(-1)
    return weights @ x + skip * own


feel = {s: torch.func.jacrev(guess_last)(sequence[-1], s).abs().max().item() for s in (0, 1)}
exact(feel[1]).claim(
    "A-skips-show-a-hidden-present",
    ">= 1",
    "If a mask hides a token from its own position, a skip reveals the token.",
    found="At the position of a hidden token, the largest derivative of the output with respect to that token is {mean:g} with a skip and {none:g} without one.",
    source="this book",
    beside={"none": feel[0]},
)

# %% [markdown]
r"""
A norm over positions does leak the future ([chapter 01](01_batchnorm_vs_layernorm.ipynb#in-training-mode-batchnorm-leaks-future-tokens)).

## What is not here

Other chapters treat the "+1" of the derivative ([chapter 00](00_why_normalize.ipynb#second-repair-let-the-signal-skip)), the range of rates that norms add to small branches ([What the norm adds](00_why_normalize.ipynb#what-the-norm-adds)), RealFormer's skips between attention logits ([appendix C](C_zoo.ipynb#post-norm-with-help)), and scaled skips ([DeepNorm](05_deepnorm.ipynb), [appendix C](C_zoo.ipynb)). We did not measure whether gates close in training. Nor did we test a factor near 1 on the shortcut, convolutions, or the orders of norm, ReLU and addition in Table 2 of [He et al. (2016b)](https://arxiv.org/abs/1603.05027) other than v1's and v2's.

## Exercises

**1 (in code, 10 minutes).** A residual step with one unit, $x \leftarrow x - 2\,\mathrm{relu}(x - t)$, leaves the part of a strip below $t$ as it is and folds back the part above. Write a network of $k$ such steps that folds $[0, 1]$ in half $k$ times. How many rising and falling pieces does
its output have?
"""


# %% tags=["exercise"]
def fold_strip(x, k):
    """Fold the interval [0, 1] in half k times: k steps of one unit each."""
    return ...


# %%
def check_fold(fold):
    """Look where points of the strip end: on a zigzag of 2^k pieces, each 2^-k long."""
    points = torch.tensor([0.3, 0.6, 1.0], dtype=torch.float64)
    strip = torch.linspace(0, 1, 129, dtype=torch.float64)
    hint = "after one fold the strip is half as long: where is its middle now?"
    return check.function(
        fold,
        {"1 fold": (points, 1), "2 folds": (points, 2), "5 folds": (strip, 5)},
        lambda x, k: (x - 2 * 0.5**k * (x * 2**k / 2).round()).abs(),
        name="1",
        hint=hint,
    )


check_fold(fold_strip)

# %% [markdown]
r"""
<details><summary>Hint</summary>

The $j$-th fold lies at $t = 2^{-j}$.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_fold(x, k):
    """A solution of exercise 1: 2^k pieces, for which one layer needs 2^k − 1 bends."""
    for j in range(1, k + 1):
        x = x - 2 * torch.relu(x - 0.5**j)
    return x


assert check_fold(solved_fold).ok

# %% [markdown]
r"""
Each step doubles the number of pieces, whereas a unit of a single layer adds at most one ([Telgarsky, 2016](https://arxiv.org/abs/1602.04485)).

**2 (by hand, 5 minutes).** (a) In a network of 110 layers, two per step, each shortcut is multiplied by $\lambda = \frac12$. What share of the input does the direct path carry to the top? Write it as $2^n$ and give $n$. (b) Which $\lambda$ lets half of the input through? (c) Now each shortcut has a gate $T = \mathrm{sigmoid}(b)$ with $b = -6$. What share of the input is left after
the factors $1 - T$ of all steps?
"""

# %% tags=["exercise"]
yours = {"a": ..., "b": ..., "c": ...}

# %%
gate = 1 / (1 + np.exp(6))
truth = {"a": -55, "b": 0.5 ** (1 / 55), "c": (1 - gate) ** 55}
check.answer(yours, truth, name="2", hint="how many steps are there?", rtol=2e-3)

# %% [markdown]
r"""
<details><summary>Hint</summary>

There are fifty-five factors. For (c), $\mathrm{sigmoid}(-6) = 1/(1 + e^6)$.

</details>
<details><summary>Solution</summary>

(a) $2^{-55}$, so $n = -55$. (b) $\lambda^{55} = \frac12$, so $\lambda = 2^{-1/55} \approx 0.9875$. (c) $T \approx 0.00247$ and $(1 - T)^{55} \approx 0.873$: at first such a shortcut is nearly the identity.

</details>

## References

Full entries of the works linked above are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
