# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# BatchNorm vs LayerNorm

**Question.** A network with BatchNorm learns to classify digits with 32 images per step. With two images its accuracy is lower, whatever the
learning rate. A network with LayerNorm keeps its accuracy, and a convolutional network with BatchNorm learns even with two images.
Which numbers should share a mean, and why does BatchNorm fail only in the first network?

<details><summary>In short (contains spoilers)</summary>

- Norms differ in which values share a mean. BatchNorm pools one channel over examples and positions, and LayerNorm pools the features of one token.
- In our networks the number of values that share a mean seems to matter, not the number of images. A norm over only two values keeps little more than a sign. A large $\varepsilon$ softens this sign, and brings back most of the accuracy lost at two images per step.
- In a language model BatchNorm pools hundreds of values, and its loss is nearly equal to LayerNorm's. The argument for LayerNorm is different: in training, BatchNorm makes a token's output depend on future tokens.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from math import inf

import torch
import torch.nn.functional as F
from torch import nn

from labkit import TrainConfig, check, plots, train  # pip install the book's folder
from labkit.convert import fold_norms
from labkit.corpora import Digits
from labkit.experiments import Domain, Experiment, Lab, Run, computed, exact, ladder, regime
from labkit.model.vision import CNNConfig, MLPConfig
from labkit.norms import BatchNorm, PRepBatchNorm, batch_norm, group_norm, instance_norm, layer_norm
from labkit.probes.trained import measure_leakage
from labkit.source import show

# %%
lab = Lab(
    "01_batchnorm_vs_layernorm", size=size, seed=seed, memory={"kernel": "1150M", "run": "1000M"}
)
sizes = lab.sizes(
    # a pair: book, gpu
    images_shown=(5120, 128_000),
    rates=[1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1, 3.16e-1, 1.0],
    text_rates=list(ladder.COARSE),
)
rung, five = "S", lab.seeds(5)


# %%
def draw_neighbours(m):
    """Draw what a norm makes of 200 values, each among m − 1 random neighbours."""
    values = torch.randn(m, 200, generator=torch.Generator().manual_seed(seed))
    normed = batch_norm(values, training=True)
    points = {"points": (values[0].tolist(), normed[0].tolist())}
    return plots.norm_curves({f"m = {m}": points}, limits=(-3.2, 3.2), caption="…")


plots.explore(
    draw_neighbours, [2, 3, 4, 8, 32, 128], "neighbours", label="values that share a mean, m",
    caption="Output of a norm against its input x. Each dot is one value, normalized together with m − 1 others, all drawn "
    "from the standard normal distribution. If many values are normalized together, the output is nearly x. If only two values are normalized together, the output shows only which of them is larger.",
)  # fmt: skip

# %% [markdown]
r"""
## The idea, with four numbers

Take the four numbers $[3, 1, -1, 5]$. Their mean is $8/4 = 2$. The deviations are $1, -1, -3, 3$, their squares are $1, 1, 9, 9$,
and the mean of the squares is $20/4 = 5$. This is the variance, with division by $n = 4$, not $n - 1$. Divide the deviations by
$\sqrt 5 \approx 2.236$:

$$[3, 1, -1, 5] \;\longrightarrow\; [0.447, -0.447, -1.342, 1.342].$$

The result has mean 0 and variance 1. Nothing else has changed: the histogram keeps its shape. It is not
"standard normal", although one often reads this. A tiny $\varepsilon$ is added to the variance to avoid division by zero. A learned
**gain** (not chapter 00's gain) multiplies each feature, and a learned **shift** is added.

Where do the four numbers come from? Take a table with a row for each example and a column for each feature. **LayerNorm**
([Ba et al., 2016](https://arxiv.org/abs/1607.06450)) works along the row: four features of one example. **BatchNorm**
([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)) works down the column: one feature of all the examples that happen to share
a batch. It is LayerNorm applied to the transposed table. Take the rows $[3, 1, -1, 5]$, $[2, 2, 0, 4]$ and $[7, 0, 1, 0]$, change the third to $[90, -40, 8, 3]$, and see what happens to the first:
"""

# %%
table = torch.tensor([[3.0, 1, -1, 5], [2, 2, 0, 4], [7, 0, 1, 0]])
other = torch.cat([table[:2], torch.tensor([[90.0, -40, 8, 3]])])
plots.table(
    {"norm": name, "first row, before": str(norm(table)[0]), "after": str(norm(other)[0])}
    for name, norm in {
        "LayerNorm": lambda x: layer_norm(x).numpy().round(2),
        "BatchNorm": lambda x: batch_norm(x, training=True).numpy().round(2),
    }.items()
)

# %% [markdown]
r"""
LayerNorm's output for the first row stays the same. BatchNorm's changes, because another row has changed.

## One tensor, four averages

Real activations have a third axis: the pixels of an image, or the tokens of a text. Call the tensor's shape $(N, C, L)$, with $N$ examples, $C$ channels
(the table's features) and $L$ positions.
"""

# %%
plots.explore(
    lambda norm: plots.axes_cube((norm,)),
    ["batch", "layer", "token", "instance", "group-2", "group-3"],
    "cubes",
    label="norm",
    caption="Activations as a block of examples, channels and positions. The coloured cells share one mean and one variance. The other cells form further sets of the same shape. "
    "Group-2 and group-3 are GroupNorm with two groups and with three.",
)

# %% [markdown]
r"""
| norm | averages over | values in a mean, $m$ | one mean per |
| --- | --- | --- | --- |
| BatchNorm | $N, L$ | $N L$ | channel |
| LayerNorm, images | $C, L$ | $C L$ | example |
| LayerNorm, text ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)) | $C$ | $C$ | token |
| InstanceNorm ([Ulyanov et al., 2016](https://arxiv.org/abs/1607.08022)) | $L$ | $L$ | example and channel |
| GroupNorm, $G$ groups ([Wu and He, 2018](https://arxiv.org/abs/1803.08494)) | $C/G$ channels, and $L$ | $C L / G$ | example and group |

"LayerNorm" names two averages. Below, it averages over one token's features, unless we say otherwise. *Exploring the Transformer*, part 14, calls this norm "InstanceNorm for text", which is wrong:
InstanceNorm would average one feature over all positions of the text. All rows of the table describe the same function, applied over different axes. For GroupNorm the channel axis is first split into groups.
"""


# %% tags=["mechanism"]
def standardize(x, axes, eps=1e-5):
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / (x.var(axes, correction=0, keepdim=True) + eps).sqrt()


# %%
torch.manual_seed(seed)
x = torch.randn(4, 6, 5).double()  # examples, channels, positions
ours = {"batch": (0, 2), "layer": (1, 2), "token": (1,), "instance": (2,)}
ours = {name: standardize(x, axes) for name, axes in ours.items()}
ours["group"] = standardize(x.view(4, 3, 2, 5), (2, 3)).view_as(x)
theirs = {
    "batch": (batch_norm(x, training=True), F.batch_norm(x, None, None, training=True)),
    "layer": (group_norm(x, 1), F.layer_norm(x, (6, 5))),
    "token": (layer_norm(x.mT).mT, F.layer_norm(x.mT, (6,)).mT),
    "instance": (instance_norm(x), F.instance_norm(x)),
    "group": (group_norm(x, 3), F.group_norm(x, 3)),
}
off = max((ours[name] - y).abs().max() for name, pair in theirs.items() for y in pair)
exact(off, tolerance=1e-10).claim(
    "01-one-formula-four-axes",
    "<= 1e-10",
    "BatchNorm, LayerNorm, InstanceNorm and GroupNorm are one formula, applied over different axes.",
    found="The output of one function, applied over five different lists of axes, differs from that of the norms in PyTorch and in labkit by at most {mean:.1g}.",
    source="PyTorch's documentation of its four functions, one of them in two uses",
)

# %%
distance = {
    f"G={groups} from {name}": (group_norm(x, groups) - ours[name]).abs().max().item()
    for groups in (1, 6)
    for name in ("layer", "instance")
}
exact(max(distance["G=1 from layer"], distance["G=6 from instance"]), tolerance=1e-5).claim(
    "01-group-norm-limits",
    "<= 1e-5",
    "GroupNorm with one group is LayerNorm over features and positions, and GroupNorm with one group per channel is InstanceNorm.",
    found="To within {mean:.1g}, the output of GroupNorm is that of LayerNorm over features and positions if there is one group, and that of InstanceNorm if there is one group per channel. If LayerNorm and InstanceNorm are exchanged, the outputs differ by {reverse:.1f} or more.",
    source="Wu and He 2018, arXiv 1803.08494; a survey has it the other way round",
    beside={"reverse": min(distance["G=6 from layer"], distance["G=1 from instance"])},
)

# %% [markdown]
r"""
## Running statistics, by hand

At inference there may be no batch. So during training BatchNorm keeps running averages of mean and variance. In evaluation it uses
them and is one fixed affine map per channel. Let a channel have the values 1 and 6. Its mean is 3.5. The *biased* variance, $12.5/2 = 6.25$, normalizes
the batch: the outputs are $-1$ and $1$. The *unbiased* variance, $12.5/(2-1) = 12.5$, goes into the running average. The running averages of mean and variance, which PyTorch stores as *buffers*, start at 0 and 1, and change by

$$\text{running} \leftarrow (1 - \text{momentum}) \cdot \text{running} + \text{momentum} \cdot \text{batch},
\qquad \text{momentum} = 0.1,$$

so the running mean becomes $0.35$ and the running variance $0.9 + 1.25 = 2.15$. PyTorch's "momentum" is the weight of the **new** value, and Keras's is that
of the **old** one.
"""

# %%
pairs = torch.tensor([[1.0, 2, 3], [6, 4, 5]])
norm = BatchNorm(3)
norm(pairs)
unbiased, biased = (
    (norm.running_var - 0.9 - 0.1 * pairs.var(dim=0, correction=n)).abs().max() for n in (1, 0)
)
exact(unbiased, tolerance=1e-6).claim(
    "01-running-variance-is-unbiased",
    "<= 1e-6",
    "PyTorch's BatchNorm uses the unbiased variance for its running average.",
    found="After one step, the running variance of BatchNorm differs from 0.9 + 0.1 · (unbiased variance) by {mean:.1g}. "
    "It differs from 0.9 + 0.1 · (biased variance) by {biased:.2f}.",
    source="PyTorch's documentation of BatchNorm1d",
    beside={"biased": biased},
)

# %% [markdown]
r"""
Two things are awkward in text. Short sentences are padded to the length of the longest, and the padding counts in BatchNorm's mean unless a mask excludes it.
And a single token gives one value per channel, with variance zero, so BatchNorm needs its running statistics. Neither problem affects LayerNorm.
[Appendix B](B_batch.ipynb#lengths-padding-one-token-at-a-time) gives the details.

*By hand.* At the next step the channel has the values 1 and 6 again. What are the running mean and variance then?

<details><summary>Answer</summary>

$0.9\cdot0.35 + 0.1\cdot3.5 = 0.665$, and $0.9\cdot2.15 + 0.1\cdot12.5 = 3.185$.

</details>

## Derivation: one Jacobian for both

Let $m$ values share a mean $\mu$ and a variance $v$, and let $r = \sqrt{v + \varepsilon}$ and
$\hat x_i = (x_i - \mu)/r$. How does output $i$ change when input $j$ changes? We need three derivatives:

$$\frac{\partial \mu}{\partial x_j} = \frac1m, \qquad
\frac{\partial v}{\partial x_j} = \frac{2}{m}(x_j - \mu), \qquad
\frac{\partial (1/r)}{\partial x_j} = -\frac{1}{2r^3}\frac{\partial v}{\partial x_j}
= -\frac{\hat x_j}{m\,r^2}.$$

(The $\mu$ inside $v$ contributes nothing, because deviations sum to zero.) The product rule for $(x_i - \mu)\cdot(1/r)$ gives

$$J = \frac1r\Big(I - \tfrac1m \mathbf 1\mathbf 1^\top - \tfrac1m \hat x \hat x^\top\Big), \qquad
\frac{\partial \mathcal L}{\partial x} = \frac1r\big(\delta - \overline{\delta} - \hat x\,\overline{\delta \hat x}\big)$$

where $\delta$ is the upstream gradient, and a bar denotes a mean over the $m$ values. Two parts of the gradient are removed: the one that would move all values alike, and
the one that would only stretch them. The norm does not respond to such changes. With $\varepsilon = 0$ the bracket is a
projection of rank $m - 2$. For $\varepsilon \ll v$ it is nearly a projection.

*By hand.* Two values differ from their mean by $\pm a$, and $\varepsilon = 0$. Write the bracket as a matrix.

<details><summary>Answer</summary>

$\hat x = (1, -1)$, and $I - \tfrac12\begin{pmatrix}1&1\\1&1\end{pmatrix} - \tfrac12\begin{pmatrix}1&-1\\-1&1\end{pmatrix} = 0$: no gradient passes.

</details>
"""


# %% tags=["mechanism"]
def jacobian(x, eps=1e-5):
    """Compute the formula's Jacobian of a norm over these values."""
    r = (x.var(correction=0) + eps).sqrt()
    standard, ones = (x - x.mean()) / r, torch.ones_like(x)
    return (torch.eye(len(x)) - (ones.outer(ones) + standard.outer(standard)) / len(x)) / r


# %%
values = torch.randn(8).double()
of_token = torch.func.jacrev(layer_norm)(values)
of_channel = torch.func.jacrev(lambda x: batch_norm(x[:, None], training=True)[:, 0])(values)
off = max((j - jacobian(values)).abs().max() for j in (of_token, of_channel))
exact(off, tolerance=1e-10).claim(
    "01-one-jacobian",
    "<= 1e-10",
    "BatchNorm and LayerNorm have the same Jacobian, each over its own axis.",
    found="The Jacobians of LayerNorm over eight features and of BatchNorm over eight examples differ from the same formula by at most {mean:.1g}.",
    source="derived above; Santurkar et al. 2018, arXiv 1805.11604, use BatchNorm's",
)

# %%
ranks = {
    m: torch.linalg.matrix_rank(jacobian(torch.arange(m).double()), atol=1e-3).item()
    for m in (2, 3, 4, 8, 32)
}
exact(sum(rank != m - 2 for m, rank in ranks.items()), tolerance=0).claim(
    "01-rank-m-minus-two",
    "<= 0",
    "A norm over m values lets m − 2 directions of the gradient pass.",
    found="The Jacobian of a norm over m = 2, 3, 4, 8 and 32 values has rank m − 2. The number of exceptions is {mean:.0f}. Singular values below 0.001 count as 0.",
    source="derived above",
)

# %% [markdown]
r"""
## LayerNorm as geometry

Subtracting the mean removes the part of a token $x$ along $\mathbf 1 = (1, …, 1)$. With
$P = I - \mathbf 1 \mathbf 1^\top / C$ the variance is $\|Px\|^2 / C$, so that for $\varepsilon = 0$

$$\mathrm{LN}(x) = \sqrt C\; \frac{P x}{\|P x\|}.$$

Every token is mapped onto a sphere of radius $\sqrt C$ in the hyperplane of zero mean: its length and its mean are lost. So the
tokens $x$ and $2x + 1$ have *the same* LayerNorm, and no gain and shift can restore both. (BatchNorm can be undone: its $\sigma$ and $\mu$ belong to the
channel, as gain and shift do, so a gain of $\sigma$ and a shift of $\mu$ restore the input.)

Dividing a vector by its own length is not linear. So a stack of linear maps and LayerNorms is a nonlinear network
([Ni et al., 2024](https://arxiv.org/abs/2406.01255)). The simplest proof is XOR: four points in two classes that no straight line separates. Let $s = x_1 - x_2$,
which is 0 for the two points of class 0, and $\pm1$ for the others. The affine map $z = (1 + s,\; 1 - s,\; -2)$ has mean 0 everywhere and variance
$(6 + 2s^2)/3$. So LayerNorm sends the third feature to $-2/\sqrt 2$ in class 0, and to $-2/\sqrt{8/3}$ in class 1. Can BatchNorm do the same? For any
output $y$, let $y_{00}$ be its value at $x = (0, 0)$, and so on, and call the second difference $y_{00} + y_{11} - y_{01} - y_{10}$ its *bend*. An affine map has bend 0.
An output that solves XOR by a threshold must have a nonzero bend: $y_{00}$ and $y_{11}$ lie on one side of the threshold, and $y_{01}$ and $y_{10}$ lie on the other.
"""

# %%
corners = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
labels = [0, 1, 1, 0]
features = corners @ torch.tensor([[1.0, -1, 0], [-1, 1, 0]]) + torch.tensor([1.0, 1, -2])
after = layer_norm(features)
plots.xor_points(
    corners,
    after[:, [0, 2]],
    labels,
    line=(0, 1, -1.32),
    titles=("inputs", "outputs"),
    axes=("feature 1", "feature 3"),
    caption="The four points of XOR, before and after LayerNorm. Left: no straight line separates circles from squares. Right: feature 3 against feature 1, "
    "after one affine map and LayerNorm. The dashed line separates the classes, and the two circles have become one point.",
).named("xor")

# %%
linear = batch_norm(features, training=True)
bend = {name: y[0] + y[3] - y[1] - y[2] for name, y in (("layer", after), ("batch", linear))}
right = [int(third > -1.32) == label for third, label in zip(after[:, 2], labels, strict=True)]
exact(sum(right), tolerance=0).claim(
    "01-xor-by-layer-norm",
    ">= 4",
    "An affine map followed by LayerNorm can solve XOR, but an affine map followed by BatchNorm cannot.",
    found="An affine map, LayerNorm and a threshold classify {mean:.0f} of the 4 XOR points correctly. A feature's largest second difference over the four points, which is 0 for every affine map, is {layer:.2f} after LayerNorm and {batch:.2f} after BatchNorm.",
    source="Ni et al. 2024, arXiv 2406.01255",
    beside={"layer": bend["layer"].abs().max(), "batch": bend["batch"].abs().max()},
)

# %%
x = torch.randn(16, 5).double()
mean, std = x.mean(dim=0), (x.var(dim=0, correction=0) + 1e-5).sqrt()
restored = batch_norm(x, weight=std, bias=mean, training=True)
lost = layer_norm(x, eps=0.0) - layer_norm(2 * x + 1, eps=0.0)
exact((restored - x).abs().max(), tolerance=1e-10).claim(
    "01-gain-and-shift-restore-batch-only",
    "<= 1e-10",
    "A gain and a shift can undo BatchNorm, but they cannot undo LayerNorm.",
    found="With a gain of σ and a shift of μ, BatchNorm's output differs from its input by at most {mean:.1g}. LayerNorm's outputs for x and for 2x + 1 differ by at most {same:.1g}.",
    source="Ioffe and Szegedy 2015 for BatchNorm; a blog series extends it to LayerNorm",
    beside={"same": lost.abs().max()},
)

# %% [markdown]
r"""
BatchNorm has bend 0 and so cannot solve XOR: for a given batch it is one affine map per channel. It is nonlinear only through its statistics, which all examples of the batch share. LayerNorm's statistics belong to one token.

### What the sphere does for attention

A query *prefers* the key that it scores highest. A key that lies between others, inside their convex hull, is preferred by no
query: an average never exceeds all the numbers that it averages. On a sphere no point lies between others, so after LayerNorm *each* key has a query that prefers it
([Brody et al., 2023](https://arxiv.org/abs/2305.02582)). Exercise 4 asks for the proof. A head that projects to fewer dimensions can lose this property: appendix B counts
[the keys that no query selects](B_batch.ipynb#keys-that-no-query-selects). The query $\mathbf 1$ is orthogonal to all keys, so it scores them alike, and attention returns the plain average of the value vectors.

## Implementation: exercise 1

**1 (in code, 10 minutes).** Write BatchNorm with its running statistics. Channels are on axis 1, and position axes may follow. In training, use the batch's
statistics and update the buffers in place. Otherwise use the buffers. Leave out gain and shift.
"""


# %% tags=["exercise"]
def my_batch_norm(x, running_mean, running_var, training=False, momentum=0.1, eps=1e-5):
    """Normalize each channel; update both buffers when training."""
    return ...


# %%
check.batch_norm(my_batch_norm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Pool over axes `[0, *range(2, x.ndim)]`, in at least float32. Normalize with one variance, and store the other one in the buffer. `buffer.lerp_(new, momentum)` updates a buffer. Detach the new value first.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_batch_norm(x, running_mean, running_var, training=False, momentum=0.1, eps=1e-5):
    """A solution of exercise 1."""
    axes, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean, var = running_mean.to(wide.dtype), running_var.to(wide.dtype)
    if training:
        mean, var = wide.mean(axes), wide.var(axes, correction=0)
        unbiased = wide.var(axes, correction=1).detach()
        running_mean.lerp_(mean.detach().to(running_mean.dtype), momentum)
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return ((wide - mean.view(shape)) / (var.view(shape) + eps).sqrt()).to(x.dtype)


assert check.batch_norm(solved_batch_norm).ok

# %% [markdown]
r"""
LayerNorm needs no running statistics. This is `labkit`'s code:
"""

# %%
show(layer_norm)

# %% [markdown]
r"""
The statistics are computed in float32 or better, and the mean is subtracted *before* the squares are taken. Chapter 03 shows why.

## Measure: the batch shrinks

Digits of $8\times8$ pixels ([Alpaydin and Kaynak, 1998](https://archive.ics.uci.edu/ml/datasets/Optical+Recognition+of+Handwritten+Digits)) are classified by a perceptron with three hidden layers of 128 features, or by a CNN with three convolutions of 16 channels. A norm and a ReLU follow each of these layers. We train with SGD and momentum 0.9. Every network sees
the same number of images, in batches of 2 to 128 (in the CNN only 2), so smaller batches mean more steps.

<details><summary>How we tuned and evaluated</summary>

For each norm and batch size we choose among seven learning rates over three decades with one seed, and evaluate with five other seeds. The seven rates are for 32 images per step. With $B$ images per step we multiply them by $B/32$.

</details>
"""

# %%
batches = [2, 4, 8, 32, 128]
nets = {
    "BatchNorm": (MLPConfig(norm="batch"), batches),
    "LayerNorm": (MLPConfig(norm="layer"), batches),
    "BatchNorm, ε = 0.1": (MLPConfig(norm="batch", norm_eps=0.1), [2]),
    "BatchNorm, CNN": (CNNConfig(norm="batch", width=16, depth=3), [2]),
    "GroupNorm, CNN": (CNNConfig(norm="group", width=16, depth=3), [2]),
}
cells = {f"{net} | {batch}": (model, batch) for net, (model, of) in nets.items() for batch in of}
recipe = TrainConfig(optimizer="sgd", schedule="linear")
digits = Run(MLPConfig(), Digits(), recipe, probes=("validation", "test"))


def at_rate(cell, rate):
    """Return what a cell changes in the run; `rate` is the learning rate for 32 images."""
    model, batch = cells[cell]
    steps = {"data.batch": batch, "train.steps": sizes.images_shown // batch}
    return {"model": model, **steps, "train.lr": rate * batch / 32}


# %%
grid = {f"{cell} | {rate:g}": at_rate(cell, rate) for cell in cells for rate in sizes.rates}
tuning = lab.run(Experiment(digits, {"arm": grid, "seed": [ladder.TUNING_SEED]})).by("arm")
tuned = {
    cell: {rate: tuning[f"{cell} | {rate:g}"].values("validation.loss") for rate in sizes.rates}
    for cell in cells
}
best = {cell: min(of, key=lambda rate, of=of: of[rate][0] or inf) for cell, of in tuned.items()}
looks = ("validation", "test", "test-batch-statistics", "fluctuation")
arms = {cell: at_rate(cell, best[cell]) for cell in cells}
final = Experiment(digits, {"probes": [looks], "arm": arms, "seed": five})
final_runs = lab.run(final)
final_by_cell = final_runs.by("arm")

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(final)


# %%
def read(cell, what="test.accuracy"):
    """Read a number of a cell's five runs."""
    return final_by_cell[cell].measure(what)


def compare(one, other, what="test.accuracy"):
    """Subtract the other cell's number, each cell at its own rate."""
    grid = {cell: tuned[cell] for cell in (one, other)}
    lacking = [*regime.rates(grid), *regime.seeds(five, [ladder.TUNING_SEED])]
    return (read(one, what) - read(other, what)).tuned(lacking)


plots.curves(
    {net: {b: read(f"{net} | {b}") for b in batches} for net in ("BatchNorm", "LayerNorm")},
    logx=True,
    xlabel="images per step",
    ylabel="test accuracy",
    ylim=(0, 1.02),
    caption="Test accuracy of a perceptron against images per step. The learning rate is tuned for each point. Follow BatchNorm from right to left: only at two images per step is its accuracy far lower than LayerNorm's.",
    provenance=lab.provenance(final_runs),
).named("batch-shrinks")

# %%
error = "10.6 points more errors than GroupNorm (ResNet-50 on ImageNet, two images per GPU)"
compare("LayerNorm | 2", "BatchNorm | 2").claim(
    "01-bn-fails-at-batch-2",
    "> 0.2",
    "In a perceptron trained with two images per step, with tuned learning rates, BatchNorm's test accuracy is more than 0.2 lower than LayerNorm's.",
    found="In a perceptron trained with two images per step, BatchNorm's test accuracy is {batch:.2f} and LayerNorm's is {layer:.2f}, a difference of {mean:.2f}.",
    source="this book; for ResNet-50, Wu and He 2018, arXiv 1803.08494",
    published=error,
    beside={"batch": read("BatchNorm | 2"), "layer": read("LayerNorm | 2")},
)

# %%
compare("LayerNorm | 128", "BatchNorm | 128", "test.loss").claim(
    "01-bn-first-at-batch-128",
    "> 0",
    "With large batches, a perceptron has a lower test loss after 40 steps with BatchNorm than with LayerNorm.",
    found="In a perceptron trained for 40 steps with 128 images per step, BatchNorm's test loss is {mean:.3f} nats lower than LayerNorm's.",
    source="this book; against no norm, Ioffe and Szegedy 2015, arXiv 1502.03167",
    published="the accuracy of the network without BatchNorm in 14 times fewer steps (Inception, ImageNet)",
)

# %% [markdown]
r"""
## Why two images break it

With 128 images per step BatchNorm does slightly better than LayerNorm. With two images it fails. We consider four possible causes: the learning rate, the evaluation mode, a vanishing gradient, and an output that is only a sign. **The learning rate** is ruled out already: we tried seven for BatchNorm and plotted the best.

**Evaluation.** BatchNorm is often blamed for the gap between its modes: the network is trained with a batch's statistics and tested with running ones. So
we test the same networks in both modes.
"""

# %%
(read("BatchNorm | 4") - read("BatchNorm | 4", "test-batch-statistics.accuracy")).claim(
    "01-running-statistics-help",
    "> 0.05",
    "After training in batches of four, BatchNorm's test accuracy is higher with running statistics than with the statistics of each test batch.",
    found="At four images per step, BatchNorm's test accuracy is {four:.2f} with running statistics, which is {mean:.2f} higher than with the statistics of each test batch. At two images per step, running statistics raise it from {two:.2f} to {running:.2f}.",
    source="the opposite of the usual warning about evaluation mode",
    beside={
        "four": read("BatchNorm | 4"),
        "two": read("BatchNorm | 2", "test-batch-statistics.accuracy"),
        "running": read("BatchNorm | 2"),
    },
)

# %% [markdown]
r"""
Evaluation mode is the *better* mode, even at two images per step, probably because running statistics average over many batches. So the evaluation mode is not the cause.

**No gradient.** Over $m = 2$ values the Jacobian has rank $m - 2 = 0$, so no gradient should pass through the norm. For each channel of the first layer, take the gradient of its weights at initialization. If a vanishing
gradient were the cause, even the *largest* gradient would be smaller at two images per step than at 32.

| question | choices | ours |
| --- | --- | --- |
| With two images per step instead of 32, what happens to the largest channel gradient of the first layer? <!-- 01-gradient-dies-at-two --> | it vanishes; <!-- -1 --> it shrinks a little or stays the same; <!-- 0.3 --> it grows | <details><summary>show</summary>Over two values the Jacobian has rank 0. So at two images per step the gradient of the first layer vanishes.</details> |
"""


# %%
def channel_gradients(norm, batch, seed):
    torch.manual_seed(seed)
    model = MLPConfig(norm=norm).build()
    pixels, classes = next(Digits(batch=batch).load().train(seed))
    F.cross_entropy(model(pixels), classes).backward()
    return model.get_submodule("1").weight.grad.norm(dim=1)


# %%
lengths = {  # a row for each seed
    (norm, b): torch.stack([channel_gradients(norm, b, s) for s in five])
    for norm in ("batch", "layer")
    for b in (2, 3, *batches[1:])
}
plots.curves(
    {
        f"{name}, {word} channel": {
            b: what(of).tolist() for (n, b), of in lengths.items() if n == norm
        }
        for norm, name in (("batch", "BatchNorm"), ("layer", "LayerNorm"))
        for word, what in (
            ("largest", lambda of: of.amax(1)),
            ("median", lambda of: of.median(1)[0]),
        )
    },
    logx=True,
    logy=True,
    xlabel="images per step",
    ylabel="gradient of one channel of the first layer, at initialization",
    caption="Length of the first layer's gradient, for the channel with the largest gradient and for the median channel, against images per step, in perceptrons at initialization. At two images per step BatchNorm's median gradient is small and its largest gradient is huge.",
).named("two-images-gradient")

# %%
two, more = lengths["batch", 2], lengths["batch", 32]
grown = computed((two.amax(1) / more.amax(1)).log10().tolist())
grown.claim(
    "01-gradient-dies-at-two",
    "< 0",
    "At two images per step, even the largest gradient of a channel below a BatchNorm shrinks, because the Jacobian of a norm over two values has rank 0.",
    found="With two images per step instead of 32, the median gradient of a channel below a BatchNorm is {median:.2f} times as large, and the largest is {times:,.0f} times as large. "
    "(The criterion applies to the base-10 logarithm of the second factor, {mean:+.1f}.)",
    source="the rank argument, taken at its word",
    beside={
        "times": 10**grown.mean,
        "median": computed((two.median(1)[0] / more.median(1)[0]).tolist()),
    },
)

# %% [markdown]
r"""
The prediction is half right: the typical channel's gradient becomes small, but the largest becomes huge. The algebra is sound, but it leaves out $\varepsilon$. Two values $\mu \pm a$ have the variance
$a^2$, so BatchNorm computes

$$y = \pm\frac{a}{\sqrt{a^2 + \varepsilon}}, \qquad
\frac{\mathrm dy}{\mathrm da} = \frac{\varepsilon}{(a^2 + \varepsilon)^{3/2}} .$$

**A sign.** This is a smoothed *sign function*, which the first figure shows at $m = 2$. Over a batch of two, BatchNorm's output shows which image has more of a feature, but hardly ever how much more. Where $a \gg \sqrt\varepsilon$ the slope is nearly zero: this is the rank 0 that the algebra predicted. Where the two images happen to agree, $a \approx 0$, the slope is at its largest,
$1/\sqrt\varepsilon = 316$. From layer to layer such slopes multiply, and their product can be far larger. One learning rate must serve both kinds of channels: a rate that is small enough for the largest gradient may hardly move the other channels.

To test this explanation, we widen the step of the sign function: $\varepsilon = 0.1$ in place of $10^{-5}$ lowers the largest
slope from 316 to about 3.
"""

# %%
compare("BatchNorm, ε = 0.1 | 2", "BatchNorm | 2").claim(
    "01-wide-eps-repairs-batch-2",
    "> 0.2",
    "In a perceptron trained with two images per step, a large ε raises BatchNorm's test accuracy by more than 0.2.",
    found="In a perceptron trained with two images per step, raising ε from 1e-5 to 0.1 increases BatchNorm's test accuracy by {mean:.2f}, to {to:.2f}.",
    source="predicted from the slope of a/sqrt(a² + ε)",
    beside={"to": read("BatchNorm, ε = 0.1 | 2")},
)

# %% [markdown]
r"""
The card does not confirm the prediction: its interval begins just below 0.2. Still, the wider step closes most of the gap to LayerNorm. So the sign function is at least part of the cause. We cannot say whether the wider step helps because it evens out the gradients, or because the output now shows *how much* more of a feature an image has.

## The same batch of two in a CNN

In the CNN each channel has $8\times8$ positions, so BatchNorm pools $m = 2\cdot64 = 128$ values. Its Jacobian has rank 126, and its output does not resemble a sign. GroupNorm, with eight groups of two channels, also pools $2\cdot64 = 128$ values, but they come from one image.

| question | choices | ours |
| --- | --- | --- |
| At two images per step, how does BatchNorm's test accuracy in the CNN compare with GroupNorm's? <!-- 01-bn-wins-in-a-cnn-at-batch-2 --> | far lower, as in the perceptron; <!-- -0.1 --> within 0.1 of it; <!-- 0.1 --> far higher | <details><summary>show</summary>In a CNN each mean is taken over 128 values even with two images per step, and BatchNorm's accuracy is higher than GroupNorm's.</details> |
"""

# %%
plots.dots(
    {
        net: read(f"{net} | 2")
        for net in ("LayerNorm", "BatchNorm", "BatchNorm, ε = 0.1", "GroupNorm, CNN", "BatchNorm, CNN")
    },
    xlabel="test accuracy, two images per step",
    caption="Test accuracy at two images per step, with tuned learning rates. The first three rows are perceptrons. BatchNorm's accuracy is low in the perceptron but not in the CNN, and a large ε brings most of the lost accuracy back.",
    provenance=lab.provenance(final_runs),
).named("batch-of-two")  # fmt: skip

# %%
compare("BatchNorm, CNN | 2", "GroupNorm, CNN | 2").claim(
    "01-bn-wins-in-a-cnn-at-batch-2",
    "> 0",
    "In a convolutional network trained with two images per step, BatchNorm's test accuracy is higher than GroupNorm's.",
    found="In a CNN trained with two images per step, BatchNorm's test accuracy is {batch:.3f} and GroupNorm's is {group:.3f}, a difference of {mean:+.3f}.",
    source="this book; against Wu and He 2018, arXiv 1803.08494",
    published=error,
    beside={"batch": read("BatchNorm, CNN | 2"), "group": read("GroupNorm, CNN | 2")},
)

# %% [markdown]
r"""
The card does not settle which of the two norms is better, but BatchNorm no longer fails. (A CNN differs from a perceptron in more than $m$, so this alone does not prove that $m$ is the cause.) "BatchNorm fails at small batches" is not precise enough: in our networks it fails when **few values share a mean**. But the ResNet-50 of
[Wu and He (2018)](https://arxiv.org/abs/1803.08494) has $2\cdot7\cdot7 = 98$ values per mean in its last stage, and still suffers. If the positions of an image resemble each other, those 98 values may
count as few. Below we measure this in our CNN.

## In a language model

BatchNorm does harm in the transformers of [Shen et al. (2020)](https://arxiv.org/abs/2003.07845). Does it do harm in ours? We train a small language model (six blocks of width 32, a norm before each sublayer). The model has the smallest size of the *ladder*, the experiment grid that all chapters share: the same recipes at several model sizes. A batch has 16 windows of 32 characters, and
BatchNorm pools all their tokens: $m = 16\cdot32 = 512$.
"""

# %%
found = lab.ladder(["pre", "pre, layer", "no attention"])
of_layer = found.where(arm="pre, layer", rung=rung)
pre = ladder.build_base_run(rung, "pre, layer")
pre = replace(pre, model=replace(pre.model, norm="batch"))
arm = {"batch": {}}
search = replace(pre, probes=("validation", "test"), seed=ladder.TUNING_SEED)
search = lab.run(Experiment(search, {"arm": arm, "train.lr": sizes.text_rates}))
looks = ("validation", "test", "test-batch-statistics", "leakage", "fluctuation")
chosen = replace(pre, train=replace(pre.train, lr=search.best("lr")), probes=looks)
of_batch = lab.run(Experiment(chosen, {"arm": arm, "seed": list(ladder.SEEDS)}))

# %%
rows = {"LayerNorm": of_layer.where(stage="tuning"), "BatchNorm": search}
plots.curves(
    {name: of.measure_by("validation.loss", "lr") for name, of in rows.items()},
    logx=True,
    xlabel="learning rate",
    ylabel="validation loss (nats per character)",
    reference=ladder.references(rung),
    caption="Validation loss of a language model against learning rate, with LayerNorm and with BatchNorm. "
    "At the best learning rate the two losses hardly differ. The reference line is the loss of a predictor that only counts how often a character follows the two before it (trigrams). Bigram counts use only the previous one.",
    provenance=lab.provenance(*rows.values()),
).named("language-model")

# %%
first = of_layer.where(stage="first")
behind = of_batch.measure("test.loss") - first.measure("test.loss")
lacking = regime.too_young(
    pre,
    of_layer.where(stage="tuning") + search,
    first + of_batch,
    trigram=ladder.references(rung)["trigram counts"],
    worth=-ladder.improvement(found, "no attention")[rung].mean,
    claimed=behind.mean,
)
behind.tuned(lacking).claim(
    "01-lm-layer-beats-batch",
    "> 0",
    "In a language model, with tuned learning rates, BatchNorm's test loss is higher than LayerNorm's.",
    found="In a language model, with tuned learning rates, LayerNorm's test loss is {apart:.3f} nats {side} BatchNorm's.",
    source="this book; for encoder-decoders, Shen et al. 2020, arXiv 2003.07845",
    published="a naive use of BatchNorm degrades transformers for language significantly",
)

# %% [markdown]
r"""
A learning rate that is too low by a factor of $\sqrt{10}$ raises the loss with either norm by several times the difference between the two norms. So the
loss is no reason to avoid BatchNorm here. (Shen et al. train larger models, mostly for translation, on sentences of all lengths.) But there is another reason.

### In training mode BatchNorm leaks future tokens

BatchNorm in training mode undoes the causal mask: every token's output depends on the statistics, which depend on
every later token and every other window. Change only the *last* token of each window, or every character of the *other* windows, and look at logits that must not move:

| question | choices | ours |
| --- | --- | --- |
| In how many of five trained models with BatchNorm does changing the last token move earlier logits? <!-- 01-batch-norm-leaks-the-future 01-lm-uses-the-leak --> | none; <!-- 0.5 --> some; <!-- 4.5 --> all five | <details><summary>show</summary>In training mode future tokens leak through BatchNorm's 512 values, and the model uses the leak.</details> |
"""

# %%
leaks = of_batch.values(lambda record: record.probes["leakage"])
exact(sum(min(leak.values()) > 0.01 for leak in leaks), tolerance=2.0).claim(
    "01-batch-norm-leaks-the-future",
    ">= 5",
    "In training mode, BatchNorm makes the output at a position depend on later tokens and on the other windows of the batch.",
    found="In {mean:.0f} of {models} trained models with BatchNorm in training mode, changing the last token changes an earlier logit by {least:.2f} or more. Changing the other windows of the batch changes logits by up to {others:.0f}.",
    source="follows from pooling over time; a model counts if its largest changes exceed 0.01",
    beside={
        "models": len(leaks),
        "least": min(leak["earlier"] for leak in leaks),
        "others": max(leak["others"] for leak in leaks),
    },
)

# %%
torch.manual_seed(seed)
fresh = replace(pre.model, norm="layer").build()
leak = measure_leakage(fresh, next(pre.data.load().train(seed)))
exact(max(leak.values()), tolerance=1e-6).claim(
    "01-layer-norm-leaks-nothing",
    "<= 1e-6",
    "With LayerNorm, the output at a position does not depend on later tokens or on the other windows of the batch.",
    found="With LayerNorm, changing the last token or the other windows changes no other logit by more than {mean:.1g}.",
    source="Ba, Kiros and Hinton 2016",
)

# %% [markdown]
r"""
Does the model *use* the leak? If it does, its loss on the same windows must be lower in training mode, where the statistics depend on the future, than in evaluation mode.
"""

# %%
(of_batch.measure("test.loss") - of_batch.measure("test-batch-statistics.loss")).claim(
    "01-lm-uses-the-leak",
    "> 0",
    "A language model with BatchNorm uses the leak of future tokens: its test loss is higher without the leak.",
    found="In training mode, with the leak of future tokens, the test loss of a language model with BatchNorm is {apart:.4f} nats {side} in evaluation mode, without the leak.",
    source="a common worry",
)

# %% [markdown]
r"""
The leak brings no net gain. (Training mode also adds the noise of the batch statistics, so the comparison includes the effect of this noise.) A change in the logits need not be an improvement: a mean over 512 tokens says very little about any one of them. The leak is a defect nevertheless: a loss measured in training mode cannot be
trusted, and a model left in training mode gives answers that depend on the other requests in the batch.

### Do batch statistics fluctuate more in text?

Shen et al. name large fluctuations of the batch statistics as the reason for BatchNorm's poor results on text. How much does the mean of a feature over $m$ values vary from batch to batch?

$$\text{fluctuation} = \frac{\operatorname{Var}(\text{batch mean})}{\operatorname{Var}(\text{feature})} \cdot m .$$

Independent values give 1. Values that resemble each other within a batch give more: such a batch *counts* as only $m / \text{fluctuation}$ independent values. Values that compensate for each other within a batch more than by chance give less than 1: if every image had the same amount of ink, only spread differently over its pixels, the batch mean of the ink would not vary at all. We
compute the fluctuation at the inputs of the CNN's three norms and of the language model's last norm.
"""


# %%
def measure_fluctuation(results, norm):
    """Measure how much batch means scatter after training at one of the norms."""
    return results.measure(lambda record: record.probes["fluctuation"]["end"][norm])


# %%
in_cnn = [measure_fluctuation(final_by_cell["BatchNorm, CNN | 2"], norm) for norm in range(3)]
measure_fluctuation(of_batch, -1).claim(
    "01-text-fluctuates-after-training",
    "> 2",
    "After training, batch means of text fluctuate far more than those of independent values.",
    found="At a language model's last norm, the variance of batch means is {mean:.2f} times that of independent values. At the three norms of a CNN, it is {first:.1f}, {second:.1f} and {cnn:.1f} times that of independent values. At the CNN's last norm, 128 values count as {worth:.0f} independent ones.",
    source="Shen et al. 2020, arXiv 2003.07845",
    published="statistics of NLP data across the batch exhibit large fluctuations throughout training",
    beside={
        "first": in_cnn[0],
        "second": in_cnn[1],
        "cnn": in_cnn[2],
        "worth": 128 / in_cnn[2].mean,
    },
    domain=Domain(
        "transformers for translation; distances of batch statistics from running ones, forward and backward",
        "a decoder on characters; variance of batch means, of the stream before the last norm",
        inside=False,
    ),
)

# %% [markdown]
r"""
This does not refute Shen et al., who measured a different quantity in different models. The strongest fluctuation is at the *CNN's* last norm, probably because positions of one image resemble each other there. Only there do the 128 values count as far fewer, though
still more than two. In the language model, whose windows come from anywhere in the text, the 512 values at the last norm count as no fewer than 512.

## PowerNorm, RepBN and PRepBN

Why would one still want batch statistics? In evaluation they cost nothing: BatchNorm can be folded into the next matrix, while LayerNorm must compute the statistics of every token. Three norms try to keep this advantage without BatchNorm's faults.

- **PowerNorm** ([Shen et al., 2020](https://arxiv.org/abs/2003.07845)) divides each feature by the root of a *running* mean square, $y = x/\sqrt{\phi}$, and subtracts nothing.
- **RepBN** ([Guo et al., 2024](https://arxiv.org/abs/2405.11582)) is BatchNorm with a skip around it, $\mathrm{BN}(x) + \eta x$, with one learned number $\eta$.
- **PRepBN** (same paper) moves from LayerNorm to RepBN during training: $\lambda\,\mathrm{LN} + (1 - \lambda)\,\mathrm{RepBN}$, with
  $\lambda$ falling from 1 to 0.

[Appendix B](B_batch.ipynb#batch-statistics-repaired-and-trained) trains all three on text. In evaluation PRepBN is RepBN. With gain $\gamma$, shift $\beta$ and running statistics $\mu$ and $v$ it computes $y = a \odot x + c$ with $a = \gamma/\sqrt{v + \varepsilon} + \eta$ and
$c = \beta - \gamma \mu / \sqrt{v + \varepsilon}$, and the linear map after it absorbs $a$ and $c$: $W y + b = (W\,\mathrm{diag}(a))\,x + (W c + b)$. We train a
perceptron with PRepBN briefly, and fold the norm:
"""

# %%
norm, shown_digits = PRepBatchNorm(32, steps=100), Digits(batch=32).load()
with torch.random.fork_rng():
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), norm, nn.Linear(32, 10))
    train(network, shown_digits.train(seed), TrainConfig(150, 1e-2), progress=False)
held = shown_digits.held_out["test"][0][0].double()
before = network.double().eval()(held)
fold_norms(network)
exact((network(held) - before).abs().max(), tolerance=1e-9).claim(
    "01-folded-network-is-equal",
    "<= 1e-9",
    "After training, a BatchNorm can be folded into the neighbouring layers.",
    found="At the end of training, PRepBN is a BatchNorm. After it is folded into the next layer, the network's logits differ from the original ones by at most {mean:.1g}.",
    source="Guo et al. 2024, arXiv 2405.11582 (code: merge_bn)",
)

# %% [markdown]
r"""
There is one trap: while $\lambda$ is near 1, the network is trained almost as a LayerNorm network, but an early validation evaluates a RepBN that training has hardly used.

## Where it goes wrong

Three functions from public teaching code look right at first sight. The LayerNorm of the *Annotated Transformer* ([Huang et al., 2022](https://nlp.seas.harvard.edu/annotated-transformer/)) calls `Tensor.std`,
which divides by $d-1$, and adds $\varepsilon$ outside the root ([its line](https://github.com/harvardnlp/annotated-transformer/blob/debc9fd747bb2123160a98046ad1c2d4da44a567/the_annotated_transformer.py#L326)). The other two are from labml.ai:
a LayerNorm that computes the variance as $\mathbb E[x^2] - \mathbb E[x]^2$ ([LayerNorm's line](https://github.com/labmlai/annotated_deep_learning_paper_implementations/blob/e6b3c8a6a2cdae4071bcde1abeaaf9a2bc37bd53/labml_nn/normalization/layer_norm/__init__.py#L121)), and a BatchNorm that stores the biased variance in its buffer ([BatchNorm's line](https://github.com/labmlai/annotated_deep_learning_paper_implementations/blob/e6b3c8a6a2cdae4071bcde1abeaaf9a2bc37bd53/labml_nn/normalization/batch_norm/__init__.py#L192)). Our checker runs the tests that apply to each:
"""


# %%
def annotated(x, weight, bias, eps=1e-6):
    return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + bias


def one_pass(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * torch.rsqrt(variance + eps)


def biased_buffer(x, running_mean, running_var, training=False, momentum=0.1, eps=1e-5):
    kept, n = (1 - momentum) * running_var, x.numel() // x.shape[1]
    y = solved_batch_norm(x, running_mean, running_var, training, momentum, eps)
    if training:
        running_var.sub_((running_var - kept) / n)  # what the batch adds, times (n − 1)/n
    return y


reports = {
    "the Annotated Transformer's": check.layer_norm(annotated),
    "labml.ai's LayerNorm": check.layer_norm(one_pass),
    "labml.ai's BatchNorm": check.batch_norm(biased_buffer),
}
plots.table(
    {"function": name, "checks failed": f"{len(report.failed)} of {len(report.laws)}", "first check that failed": report.failed[0].name,
     "likely cause": report.failed[0].cause}
    for name, report in reports.items()
)  # fmt: skip

# %%
assert nn.LayerNorm(64)(torch.randn(2, 64).bfloat16()).dtype == torch.bfloat16
off = []
for dim in (8, 512):
    x, one, zero = torch.randn(3, dim).double(), torch.ones(dim), torch.zeros(dim)
    ratio = (annotated(x, one, zero) / layer_norm(x, eps=0.0)).mean().item()
    off.append(abs(ratio - ((dim - 1) / dim) ** 0.5))
exact(max(off), tolerance=1e-5).claim(
    "01-annotated-is-smaller",
    "<= 1e-5",
    "The LayerNorm of the Annotated Transformer is LayerNorm times √((d − 1)/d).",
    found="For d = 8 and 512, the Annotated Transformer's LayerNorm returns √((d − 1)/d) times the output of "
    "LayerNorm, to within {mean:.1g}.",
    source="Huang et al. 2022 (code)",
)

# %% [markdown]
r"""
The factor on this card is $\sqrt{511/512} \approx 0.999$ at $d = 512$. At $d = 8$ it is $\sqrt{7/8} \approx 0.935$, which is far enough from 1 for a test to notice. Finally, *Transformer Anatomy*, part 7, passes
a bfloat16 tensor to a float32 `nn.LayerNorm`. On a CPU that works, but on a GPU PyTorch [raises an error](https://github.com/pytorch/pytorch/issues/138128), according to a report.
"""

# %% [markdown]
r"""
## Exercises

**2 (by hand, 5 minutes).** Take $C = 2$ features that differ, and $\varepsilon = 0$. What is the LayerNorm of $[5, -3]$? How many different
outputs are there over all inputs? Can a linear map to **two** features solve XOR if it is followed by LayerNorm and a threshold?
"""

# %% tags=["exercise"]
yours = {"output": [..., ...], "different outputs": ..., "solves XOR": ...}

# %%
outputs = layer_norm(torch.cat([torch.tensor([[5.0, -3]]), torch.randn(1000, 2)]), eps=0.0)
truth = outputs[0].tolist(), len(outputs.round(decimals=2).unique(dim=0)), False
hint = "two numbers lie at equal distances on both sides of their mean"
check.answer(yours, dict(zip(yours, truth, strict=True)), name="2", hint=hint)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Two numbers lie at equal distances on both sides of their mean. Which set of inputs goes to $[1, -1]$?

</details>
<details><summary>Solution</summary>

The output is $[1, -1]$, one of two possible outputs: it is always $\operatorname{sign}(z_1 - z_2) \cdot [1, -1]$. The inputs with
$z_1 > z_2$ form a half-plane, because $z_1 - z_2$ is affine in the input. So LayerNorm over two features
followed by a threshold is a single linear classifier, and no such classifier solves XOR. XOR takes three features. You have met
this function before, with examples in place of features: it is BatchNorm over a batch of two.

</details>

**3 (in code, 15 minutes).** Write the backward pass of LayerNorm as an `autograd.Function`. The check compares
values *and* gradients with the formula.
"""


# %% tags=["exercise"]
class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        return ...  # and save what the backward pass needs

    @staticmethod
    def backward(ctx, g):
        return ..., None


# %%
check.layer_norm(lambda x, eps=1e-5: Mine.apply(x, eps))

# %% [markdown]
r"""
<details><summary>Hint</summary>

Save $\hat x$ and $r$. The backward pass is $\frac1r(\delta - \overline \delta - \hat x\,\overline{\delta\hat x})$, with
means over the last axis. For half-precision inputs, compute the statistics in float32.

</details>
"""


# %% tags=["solution"]
# Solution
class Solved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(-1, keepdim=True)
        centred = centred - centred.mean(-1, keepdim=True)
        r = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        ctx.save_for_backward(centred / r, r)
        return (centred / r).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        standard, r = ctx.saved_tensors
        along = (g * standard).mean(-1, keepdim=True)
        return ((g - g.mean(-1, keepdim=True) - standard * along) / r).to(g.dtype), None


assert check.layer_norm(lambda x, eps=1e-5: Solved.apply(x, eps)).ok

# %% [markdown]
r"""
**4 (a proof, 10 minutes).** Tokens pass through LayerNorm (gain 1, shift 0, $\varepsilon = 0$) and become keys, all different. Show that for each key some query
scores it strictly above all others. First write code that returns such a query.
"""


# %% tags=["exercise"]
def query_for(key):
    """Return a query that prefers this key to all others."""
    return ...


# %%
keys = layer_norm(torch.randn(50, 8, dtype=torch.float64).round(decimals=1))
check.function(
    query_for,
    (keys,),
    list(range(50)),
    look="lambda f, keys: [(keys @ f(key)).argmax().item() for key in keys]",
    name="4",
    hint="which direction points at the key?",
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

All keys have the same length. Cauchy–Schwarz: $q \cdot k \le \|q\|\,\|k\|$, with equality only where $k$ is a positive multiple of $q$.

</details>
<details><summary>Solution</summary>

`return key`. Every key has length $\sqrt C$, because its mean is 0 and its variance 1. Take $q = k_i$. Then
$q \cdot k_i = C$, and for $j \ne i$ Cauchy–Schwarz gives $q \cdot k_j \le \|k_i\| \|k_j\| = C$. Equality would need
$k_j = c\,k_i$ with $c > 0$, and equal lengths make $c = 1$, that is $k_j = k_i$, but the keys differ. So $q \cdot k_j < C$. The
proof uses only the equal lengths, so RMSNorm has this property, too.

</details>

## What you now know

- **Which numbers go into the mean?** BatchNorm averages one channel over examples and positions. A transformer's LayerNorm averages the features of one token. GroupNorm ranges from the LayerNorm of
  images (over features and positions) to InstanceNorm. All have the same formula and the same Jacobian, of rank $m - 2$. <!-- 01-one-formula-four-axes 01-group-norm-limits 01-one-jacobian 01-rank-m-minus-two -->
- **Why do two images break one network and not the other?** Over two values a norm is nearly a sign: it has almost no gradient nearly everywhere, and a huge gradient at the step. A larger $\varepsilon$
  widens the step, and it brought back most of the lost accuracy. In our CNN each mean is taken over 128 values, which at the last norm count as far fewer independent ones, and BatchNorm did not fail there. But a CNN differs from a perceptron in more ways than
this. Whether values that resemble each other explain why Wu and He's ResNet-50 suffers is open. <!-- 01-bn-fails-at-batch-2 01-gradient-dies-at-two 01-wide-eps-repairs-batch-2 01-bn-wins-in-a-cnn-at-batch-2 01-text-fluctuates-after-training -->
- **Which norm should a language model use?** LayerNorm, but not because of the loss: with tuned learning rates BatchNorm's loss comes close. In training, however, BatchNorm makes tokens depend on the future
  and on other examples, and it needs masks and a second mode. LayerNorm's output depends on one token
  only. <!-- 01-lm-layer-beats-batch 01-batch-norm-leaks-the-future 01-layer-norm-leaks-nothing -->
- LayerNorm is a projection that removes the mean, followed by a rescaling onto a sphere. It is nonlinear enough for XOR. BatchNorm in evaluation is affine, and can be folded into the next layer. <!-- 01-xor-by-layer-norm 01-folded-network-is-equal -->

## To carry away

- **Equation.** $y = \gamma\,(x - \mu)/\sqrt{\sigma^2 + \varepsilon} + \beta$. BatchNorm takes $\mu$ and $\sigma^2$ of a channel over examples (and positions), and LayerNorm takes those of a token over its channels.
- **Use.** Use BatchNorm if many values that do not resemble each other share a mean, as in large batches of images. Use LayerNorm if few values would share BatchNorm's mean, if examples must not depend on each other, or if a token must not depend on later ones.
- **Cost.** BatchNorm has two modes and running statistics, and depends on the other examples. LayerNorm gives up the size of a token.

| you see | cause | try |
| --- | --- | --- |
| good in training, bad in evaluation | running statistics lag behind the weights | more batches before validating; LayerNorm |
| bad in training mode, better in evaluation | a batch of few values | more values per mean |
| most channels get hardly any gradient, and a few get a huge one | two values share a mean: the norm is a sign | more values per mean, or a larger $\varepsilon$ |
| a language model is too good in training mode | statistics of the future | LayerNorm |
| a frozen model changes in evaluation | `requires_grad_(False)` does not stop running statistics, and `model.train()` undoes an earlier `eval()` | `eval()` of the frozen norms after each `train()` |

## References

Works cited: [Alpaydin and Kaynak (1998)](https://archive.ics.uci.edu/ml/datasets/Optical+Recognition+of+Handwritten+Digits), [Ba et al. (2016)](https://arxiv.org/abs/1607.06450), [Brody et al. (2023)](https://arxiv.org/abs/2305.02582), [Guo et al. (2024)](https://arxiv.org/abs/2405.11582), [Huang et al. (2022)](https://nlp.seas.harvard.edu/annotated-transformer/), [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167), [Ni et al. (2024)](https://arxiv.org/abs/2406.01255), [Shen et al. (2020)](https://arxiv.org/abs/2003.07845), [Ulyanov et al. (2016)](https://arxiv.org/abs/1607.08022), [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762), [Wu and He (2018)](https://arxiv.org/abs/1803.08494).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
