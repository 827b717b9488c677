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

**Question.** Take a small network that reads handwritten digits, with BatchNorm after every hidden
layer. Shown 32 images a step, it learns the task. Shown two images a step, as many images in all,
it fails badly. Change one word, `batch` to `layer`, and batches of two work. So small batches are bad for BatchNorm, as everybody knows. Now make the network
convolutional, keep two images a step, and after a short training BatchNorm is *ahead* of a norm that ignores the batch. All
these norms subtract a mean and divide by a standard deviation. Which numbers go into that mean? Why does the answer break one
network and not the other? And which norm should stand in a language model?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- one formula and four norms: BatchNorm, LayerNorm, InstanceNorm and GroupNorm differ in *which* values they average;
- running statistics by hand: which variance is stored, and which way "momentum" points;
- the Jacobian of LayerNorm, and why BatchNorm's is the same matrix with the roles exchanged;
- LayerNorm as geometry: XOR solved by a linear map and LayerNorm alone, and keys that no query can
  prefer until a norm moves them to a sphere;
- BatchNorm failing at batches of two, a prediction of the reason that turns out wrong, the right
  reason, and a one-number repair that follows from it;
- the same batches of two in a CNN, where the failure is gone;
- both norms in a language model: what leaks, what does not, and which popular reasons we cannot confirm;
- three norms that keep batch statistics and repair them; two of them vanish when training is over;
- three bugs from public code, caught by a check that compares with the formula.
"""

# %%
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots, train  # pip install the book's folder
from labkit.corpora import Digits, Text
from labkit.experiments import Experiment, Lab, Run, claim
from labkit.norms import BatchNorm, batch_norm, group_norm, layer_norm, rms_norm
from labkit.probes import Evaluate
from labkit.source import show
from labkit.vision import CNNConfig, MLPConfig

lab = Lab(
    "01_batchnorm_vs_layernorm",
    size=size,
    seed=seed,
    memory={"kernel": "1150M", "run": "1000M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    draws=(2, 5, 20),
    images_shown=(256, 5120, 128_000),
    seeds=(1, 5, 10),
    cnn_depth=(3, 3, 12),
    cnn_steps=(60, 1280, 64_000),
    cnn_norms=(["batch", "group"], ["batch", "group"], ["batch", "group", "layer", "instance"]),
    dim=(32, 32, 256),
    depth=(3, 3, 12),
    steps=(8, 200, 10_000),
    held_out=(1024, 8192, 16_384),
    text_seeds=(5, 5, 10),
    rates=([1e-2], [3e-3, 1e-2, 3e-2, 1e-1], [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]),
    repair_rates=([1e-2], [3e-3, 1e-2, 3e-2], [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]),
)

# %% [markdown]
r"""
## The idea, with four numbers

Take the four numbers $[3, 1, -1, 5]$. Their mean is $8/4 = 2$. The deviations from it are
$1, -1, -3, 3$, their squares $1, 1, 9, 9$, and the mean of the squares is $20/4 = 5$. That is the
variance, with division by $n = 4$ and not by $n - 1$. Divide the deviations by $\sqrt 5 \approx 2.236$:

$$[3, 1, -1, 5] \;\longrightarrow\; [0.447, -0.447, -1.342, 1.342].$$

The result has mean 0 and variance 1. A tiny $\varepsilon$ is added to the variance, so that nothing is divided by zero; and at the end a learned **gain**
multiplies each feature and a learned **shift** moves it (they start at 1 and 0).
"""

# %%
x = torch.tensor([3.0, 1.0, -1.0, 5.0])
x.mean(), x.var(correction=0), layer_norm(x)

# %% [markdown]
r"""
Where do the four numbers come from? Put them in a table: one row per example, one column per feature. **LayerNorm** ([Ba et al., 2016](https://arxiv.org/abs/1607.06450)) works along the row: the four numbers are the four
features of one example. **BatchNorm** ([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)) works down the column: the numbers are one
feature of all the examples that happen to share a batch.

Two things follow before any training. Change the third example, and watch the first.
"""

# %%
table = torch.tensor([[3.0, 1, -1, 5], [2, 2, 0, 4], [7, 0, 1, 0]])
other = torch.cat([table[:2], torch.tensor([[90.0, -40, 8, 3]])])
moved = {
    "layer": (layer_norm(other) - layer_norm(table))[0],
    "batch": (batch_norm(other, training=True) - batch_norm(table, training=True))[0],
}
moved

# %% [markdown]
r"""
LayerNorm does not know that the third example exists. BatchNorm gives the first example other
features because its neighbour changed. The second thing is that we need no second formula: BatchNorm
of a table is LayerNorm of the table turned on its side.

The card below is a *claim*: a sentence, the run's number, and the criterion that judges it. Verdicts
and kinds are explained in [what a claim is](claims.md).
"""

# %%
turned = (batch_norm(table, training=True) - layer_norm(table.T).T).abs().max().item()
claim(
    "01-batch-norm-is-layer-norm-turned",
    "BatchNorm of a table and LayerNorm of its transpose differ by at most {mean:.1g}.",
    turned,
    said="BatchNorm of a table is LayerNorm of its transpose.",
    source="Ioffe and Szegedy 2015; Ba, Kiros and Hinton 2016 (definitions)",
    criterion="<= 1e-5",
    kind="exact",
    tolerance=1e-5,
)

# %% [markdown]
r"""
## One tensor, four averages

Real activations have a third axis: the pixels of an image, or the positions of a text. Call the
tensor $(N, C, L)$, with $N$ examples, $C$ channels (the table's features), $L$ positions. Several sets of values
could now share a mean, and most that are used have a name.
"""

# %%
plots.axes_cube(("batch", "layer", "token", "instance"))

# %% [markdown]
r"""
| norm | averages over | number of values in one mean | one mean per | source |
| --- | --- | --- | --- | --- |
| BatchNorm | $N, L$ | $N L$ | channel | [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167) |
| LayerNorm, images | $C, L$ | $C L$ | example | [Ba et al. (2016)](https://arxiv.org/abs/1607.06450) |
| LayerNorm, text | $C$ | $C$ | token | [Ba et al. (2016)](https://arxiv.org/abs/1607.06450), as in [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) |
| InstanceNorm | $L$ | $L$ | example and channel | [Ulyanov et al. (2016)](https://arxiv.org/abs/1607.08022) |
| GroupNorm, $G$ groups | $C/G$ channels, and $L$ | $C L / G$ | example and group | [Wu and He (2018)](https://arxiv.org/abs/1803.08494) |

"LayerNorm" names two averages. In a transformer, and below unless images are on the table, it is the narrow one: each token over its features.

All rows are one function with another list of axes (GroupNorm splits the channel axis first). We write it
once, and hold it against PyTorch
Works cited: [Paszke et al. (2019)](https://arxiv.org/abs/1912.01703).
"""


# %%
def standardize(x, axes, eps=1e-5):
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / (x.var(axes, correction=0, keepdim=True) + eps).sqrt()


torch.manual_seed(seed)
x = torch.randn(4, 6, 5)  # examples, channels, positions
ours = {"batch": (0, 2), "layer": (1, 2), "token": (1,), "instance": (2,)}
ours = {name: standardize(x, axes) for name, axes in ours.items()}
ours["group"] = standardize(x.view(4, 3, 2, 5), (2, 3)).view_as(x)

# %%
theirs = {
    "batch": F.batch_norm(x, None, None, training=True),
    "layer": F.layer_norm(x, (6, 5)),
    "token": F.layer_norm(x.mT, (6,)).mT,
    "instance": F.instance_norm(x),
    "group": F.group_norm(x, 3),
}
claim(
    "01-one-formula-four-axes",
    "One function, given five lists of axes, equals PyTorch's functions up to {mean:.1g}.",
    max((ours[name] - theirs[name]).abs().max().item() for name in ours),
    said="One formula over different axes is all four norms.",
    source="PyTorch's documentation of its four functions, one of them in two uses",
    criterion="<= 1e-5",
    kind="exact",
    tolerance=1e-5,
)

# %% [markdown]
r"""
**GroupNorm's limits.** With $G = 1$ the one group holds all channels, which is the image form of
LayerNorm. With $G = C$ each channel is alone, which is InstanceNorm. Move $G$ and watch the one become the other.
"""


# %%
def cube(groups):
    return plots.axes_cube((f"group-{groups}",))


plots.explore(
    cube,
    [1, 2, 3, 6],
    "groups",
    label="number of groups G",
    caption="GroupNorm with G groups of 6 channels. Compare G = 1 with LayerNorm above, G = 6 with "
    "InstanceNorm.",
)

# %% [markdown]
r"""
One survey prints the two limits the other way round, so we run both readings. (Only the statistics agree:
PyTorch's LayerNorm has one gain per channel *and* position, GroupNorm one per channel.)
"""

# %%
distance = {
    f"G={groups} from {name}": (group_norm(x, groups) - ours[name]).abs().max().item()
    for groups in (1, 6)
    for name in ("layer", "instance")
}
claim(
    "01-group-norm-limits",
    "GroupNorm with one group is LayerNorm and with C groups InstanceNorm, up to {mean:.1g}; "
    "the reverse reading is off by {reverse:.1f} or more.",
    max(distance["G=1 from layer"], distance["G=6 from instance"]),
    reverse=min(distance["G=6 from layer"], distance["G=1 from instance"]),
    said="GroupNorm with one group is LayerNorm, with as many groups as channels InstanceNorm.",
    source="Wu and He 2018",
    criterion="<= 1e-5",
    kind="exact",
    tolerance=1e-5,
)

# %% [markdown]
r"""
## Running statistics, by hand

At inference there may be no batch. BatchNorm therefore keeps running averages of mean and variance
while it trains, and uses them in evaluation mode, where it becomes one fixed affine map per channel.
Here is the first example of a tutorial on PyTorch's `BatchNorm1d`: two examples, three channels.
"""

# %%
pairs = torch.tensor([[1.0, 2, 3], [6, 4, 5]])
norm = BatchNorm(3)
norm(pairs).detach()

# %% [markdown]
r"""
Look at that output: whatever the channels held, out came $\pm 1$. Keep it in mind, it will solve our puzzle.

Now the buffers. Channel 0 holds 1 and 6: mean 3.5, and squared deviations $6.25 + 6.25$. The *biased*
variance, $12.5/2 = 6.25$, normalizes the batch. The *unbiased* one, $12.5/(2 - 1) = 12.5$, goes into
the buffer. The buffers start at 0 and 1 and move by

$$\text{running} \leftarrow (1 - \text{momentum}) \cdot \text{running} + \text{momentum} \cdot \text{batch},
\qquad \text{momentum} = 0.1,$$

so the mean becomes $0.35$ and the variance $0.9 + 1.25 = 2.15$. In PyTorch "momentum" is the weight of
the **new** value. In Keras the word means the weight of the **old** one, with a default of `0.99`: the
same number, typed into the other framework, means the opposite.
"""

# %%
norm.running_mean, norm.running_var

# %%
wanted = 0.9 + 0.1 * pairs.var(dim=0, correction=1)
claim(
    "01-running-variance-is-unbiased",
    "After one step the running variance is 0.9 + 0.1 · (unbiased variance), up to {mean:.1g}; "
    "with the biased one it would differ by {biased:.2f}.",
    (norm.running_var - wanted).abs().max().item(),
    biased=(norm.running_var - 0.9 - 0.1 * pairs.var(dim=0, correction=0)).abs().max().item(),
    said="PyTorch's running variance is the unbiased one.",
    source="PyTorch's documentation of BatchNorm1d",
    criterion="<= 1e-6",
    kind="exact",
    tolerance=1e-6,
)

# %% [markdown]
r"""
The tutorial's other examples, against PyTorch's own modules. For a text-like $(N, C, L)$
`BatchNorm1d` pools examples *and* positions: one mean per channel, and not one
for the $n$-th position of every sentence. `BatchNorm2d` pools examples, rows and columns, `BatchNorm3d` also
depth. Do output and running variance equal PyTorch's?
"""

# %%
temporal = torch.tensor([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]])
image = torch.tensor([[[1.0, 2], [3, 4]], [[100, 102], [4, 3]]])
images = torch.stack([image, image + torch.tensor([[1.0, 1], [1, 1]])])
for data, theirs in ((temporal, nn.BatchNorm1d(2)), (images, nn.BatchNorm2d(2))):
    mine = BatchNorm(2)
    print(
        tuple(data.shape), "keeps", mine.running_mean.numel(), "means; equal to PyTorch:", end=" "
    )
    print(
        torch.allclose(mine(data), theirs(data)),
        torch.allclose(mine.running_var, theirs.running_var),
    )

# %% [markdown]
r"""
**Text is ragged.** Sentences differ in length, and the gap is filled with padding. Zeros that mean nothing then
count in BatchNorm's mean, unless a mask keeps them out. And a model that writes one token at a time has one
value per channel: in training mode there is no variance to divide by. LayerNorm notices neither.
"""

# %%
sentences = 3 + torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(seed))
real = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
padded = sentences.masked_fill(~real[:, :, None], 0.0)
for name, means in {
    "padding counted": padded.mean((0, 1)),
    "padding masked": padded[real].mean(0),
}.items():
    print(f"{name}: mean of feature 0 is {means[0]:.2f}")
try:
    batch_norm(torch.ones(1, 5), training=True)
except ValueError as error:
    print(error)

# %% [markdown]
r"""
## Derivation: one Jacobian for both

Let $m$ values share a mean $\mu$ and a variance $v$; let $r = \sqrt{v + \varepsilon}$ and
$\hat x_i = (x_i - \mu)/r$. How does output $i$ react when input $j$ moves? Three pieces are needed:

$$\frac{\partial \mu}{\partial x_j} = \frac1m, \qquad
\frac{\partial v}{\partial x_j} = \frac{2}{m}(x_j - \mu), \qquad
\frac{\partial (1/r)}{\partial x_j} = -\frac{1}{2r^3}\frac{\partial v}{\partial x_j}
= -\frac{\hat x_j}{m\,r^2}.$$

(The derivative of $\mu$ inside $v$ drops out, because deviations sum to zero.) The product rule on
$\hat x_i = (x_i - \mu) \cdot (1/r)$ gives

$$\frac{\partial \hat x_i}{\partial x_j}
= \frac1r\Big(\delta_{ij} - \frac1m - \frac{\hat x_i \hat x_j}{m}\Big),
\qquad\text{that is}\qquad
J = \frac1r\Big(I - \tfrac1m \mathbf 1\mathbf 1^\top - \tfrac1m \hat x \hat x^\top\Big).$$

$J$ is symmetric, so the backward pass applies the same matrix. With the upstream gradient $g$
(already multiplied by the gain),

$$\frac{\partial \mathcal L}{\partial x}
= \frac1r\big(g - \overline{g} - \hat x\,\overline{g \hat x}\big),$$

where bars are means over the $m$ values. For **LayerNorm** $m = C$, and there is one such matrix per
token. For **BatchNorm** $m = NL$, there is one per channel, and its rows and columns are *examples*:
the gradient of one image contains the gradients of the others.

Three things follow.

1. A gradient that pushes all $m$ values the same way is removed ($\overline g$), and so is one that
   would only stretch them ($\overline{g\hat x}$; all but a trace that $\varepsilon$ leaves). The norm cannot see these changes, so it does not ask for them.
2. The factor $1/r$: the larger the spread of the input, the smaller the gradient. Under plain SGD a
   layer whose weights grew learns more slowly.
3. With $\varepsilon = 0$ the bracket is a projection that removes two directions. Its **rank is $m - 2$**.

Automatic differentiation checks the matrix, exercise 4 the backward pass.
"""


# %%
def jacobian(x, eps=1e-5):
    r = (x.var(correction=0) + eps).sqrt()
    standard = (x - x.mean()) / r
    identity, ones = torch.eye(len(x), dtype=x.dtype), torch.ones_like(x)
    return (identity - (ones.outer(ones) + standard.outer(standard)) / len(x)) / r


values = torch.randn(8, dtype=torch.float64)
of_token = torch.func.jacrev(layer_norm)(values)
of_channel = torch.func.jacrev(lambda x: batch_norm(x[:, None], training=True)[:, 0])(values)

# %%
claim(
    "01-one-jacobian",
    "LayerNorm of eight features and BatchNorm of eight examples have the Jacobian of the formula, "
    "up to {mean:.1g}.",
    max((j - jacobian(values)).abs().max().item() for j in (of_token, of_channel)),
    said="BatchNorm and LayerNorm have one Jacobian, each over its own axis.",
    source="derived above; Santurkar et al. 2018 use BatchNorm's",
    criterion="<= 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %%
ranks = {
    m: torch.linalg.matrix_rank(jacobian(torch.arange(m).double()), atol=1e-3).item()
    for m in (2, 3, 4, 8, 32)
}
claim(
    "01-rank-m-minus-two",
    "The Jacobian of a norm over m = 2, 3, 4, 8, 32 values has rank m − 2 (directions that it "
    "shrinks below a thousandth do not count).",
    max(abs(rank - (m - 2)) for m, rank in ranks.items()),
    said="A norm over m values keeps m − 2 directions of the gradient.",
    source="derived above",
    criterion="<= 0",
    kind="exact",
    tolerance=0.0,
)

# %% [markdown]
r"""
## LayerNorm as geometry

Subtracting the mean is a projection: it removes the part of $x$ along $\mathbf 1 = (1, …, 1)$. With
$P = I - \mathbf 1 \mathbf 1^\top / C$ the variance is $\|Px\|^2 / C$, so that for $\varepsilon = 0$

$$\mathrm{LN}(x) = \sqrt C\; \frac{P x}{\|P x\|}.$$

Every token lands on a sphere of radius $\sqrt C$ inside the plane of zero mean. Its direction in that
plane survives; its length and its mean are gone. (The gain and the shift then stretch and move the
whole sphere, for all tokens alike.)
"""

# %%
cloud = 1.5 * torch.randn(12, 3) + 0.5
plots.sphere_projection(cloud, layer_norm(cloud))

# %% [markdown]
r"""
Dividing by one's own length is not linear. So **a stack of linear maps and LayerNorms is a nonlinear network** ([Ni et al., 2024](https://arxiv.org/abs/2406.01255)). The smallest
proof is XOR, four points that no straight line separates. Let $s = x_1 - x_2$, which is 0 for the two
points of class 0 and $\pm1$ for the others. The linear map

$$z = (1 + s,\; 1 - s,\; -2)$$

has mean 0 everywhere and variance $(6 + 2s^2)/3$. So LayerNorm sends the third feature to $-2/\sqrt 2
= -1.414$ in class 0 and to $-2/\sqrt{8/3} = -1.225$ in class 1. One threshold reads off the answer.
"""

# %%
corners = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
labels = [0, 1, 1, 0]
features = corners @ torch.tensor([[1.0, -1, 0], [-1, 1, 0]]) + torch.tensor([1.0, 1, -2])
after = layer_norm(features)
figure = plots.xor_points(
    corners,
    after[:, [0, 2]],
    labels,
    line=(0, 1, -1.32),
    titles=("inputs", "outputs"),
    caption="Left: no straight line separates circles from squares. Right: feature 3 against feature 1, "
    "after one linear map and LayerNorm. The dashed line separates; the circles have become one point.",
)
figure.fig.axes[1].set_xlabel("feature 1")
figure.fig.axes[1].texts[-1].set_text("feature 3")
figure

# %% [markdown]
r"""
BatchNorm cannot do this. For a given batch it is an affine map of each channel, and affine maps keep
the equation $f(0,0) + f(1,1) = f(0,1) + f(1,0)$, under which no threshold separates XOR.
"""

# %%
linear = batch_norm(features, training=True)
bend = {name: y[0] + y[3] - y[1] - y[2] for name, y in (("layer", after), ("batch", linear))}
right = [int(third > -1.32) == label for third, label in zip(after[:, 2], labels, strict=True)]
claim(
    "01-xor-by-layer-norm",
    "A linear map, LayerNorm and a threshold get {mean:.0f} of the four XOR points right. The bend "
    "f(0,0) + f(1,1) − f(0,1) − f(1,0) is {layer:.2f} with LayerNorm and {batch:.2f} with BatchNorm.",
    sum(right),
    layer=bend["layer"].abs().max().item(),
    batch=bend["batch"].abs().max().item(),
    said="LayerNorm lets a linear map solve XOR, which BatchNorm cannot.",
    source="Ni et al. 2024",
    criterion=">= 4",
    kind="exact",
    tolerance=0.0,
)

# %% [markdown]
r"""
### What the sphere does for attention

[Brody et al. (2023)](https://arxiv.org/abs/2305.02582) ask what LayerNorm gives to *attention*, and find one gift for each of its two steps.

**The sphere.** A key $k_i$ wins if some query $q$ has $q \cdot k_i > q \cdot k_j$ for all $j \ne i$. A key that lies between
others (inside their convex hull) can never win: what is an average of others is never above all of them. On a
sphere nobody lies between. Whether a winning query exists is a linear program: find $q$ and the largest margin $t$
with $q \cdot (k_j - k_i) + t \le 0$.
"""

# %%
from scipy.optimize import linprog


def can_win(keys):
    """Say for each key (a row) whether some query scores it above all others."""
    found = []
    for i, key in enumerate(keys):
        others = np.delete(keys, i, axis=0) - key
        rows, goal = np.c_[others, np.ones(len(others))], np.r_[0 * key, -1]
        box = [(-1, 1)] * len(key) + [(None, 1)]
        found.append(-linprog(goal, rows, np.zeros(len(rows)), bounds=box).fun > 1e-9)
    return np.array(found)


# %%
treatments = {
    "raw": lambda x: x,
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "rms (scaled)": rms_norm,
    "layer (both)": layer_norm,
}
lost_keys = {name: [] for name in treatments}
for s in lab.seeds(sizes.draws):
    keys = torch.randn(32, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(s))
    for name, treat in treatments.items():
        lost_keys[name].append(1 - can_win(treat(keys).numpy()).mean())

# %%
plots.dots(
    lost_keys,
    xlabel="share of keys that no query can prefer",
    caption="32 Gaussian keys in 4 dimensions. Centring makes it worse (one dimension less); scaling "
    "frees every key.",
)

# %%
claim(
    "01-some-raw-keys-cannot-win",
    "No query prefers {mean:.0%} of 32 raw Gaussian keys in 4 dimensions; once centred, {centred:.0%}.",
    lost_keys["raw"],
    centred=np.mean(lost_keys["centred"]),
    said="Without a norm some keys are preferred by no query.",
    source="Brody et al. 2023",
    published="32 to 51 % of the keys of a trained GPT-2 of width 8 whose norms do not scale",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "01-every-normed-key-can-win",
    "After LayerNorm or RMSNorm the share of keys that no query prefers is {mean:.0%}.",
    max(lost_keys["rms (scaled)"] + lost_keys["layer (both)"]),
    said="After a norm every key is preferred by some query.",
    source="Brody et al. 2023; exercise 7 proves it",
    published="0 %",
    criterion="<= 0",
    kind="exact",
    tolerance=0.0,
)

# %% [markdown]
r"""
**The plane.** The query $\mathbf 1$ stands upright on the plane of zero mean: it scores all LayerNormed keys alike, so that
softmax returns the plain average of the values. That is what one needs to find the *majority* among the
tokens, the task on which the paper sees faster learning with centring (about a third of the steps). RMSNorm has the sphere
and lacks the plane. (A query of zero averages as well; exercise 8 asks what that leaves.)
"""

# %%
keys = torch.randn(32, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
scores = {norm.__name__: norm(keys) @ torch.ones(8).double() for norm in (layer_norm, rms_norm)}
claim(
    "01-one-query-hears-all-keys",
    "For the query (1, …, 1) the scores of LayerNormed keys spread by {mean:.1g}, those of RMSNormed "
    "keys by {rms:.1f}.",
    scores["layer_norm"].std().item(),
    rms=scores["rms_norm"].std().item(),
    said="LayerNorm puts all keys where one query hears them equally; RMSNorm does not.",
    source="Brody et al. 2023",
    criterion="<= 1e-9",
    kind="exact",
    tolerance=1e-9,
)

# %% [markdown]
r"""
## The implementation

The code that every model of the book runs:
"""

# %%
show(layer_norm)

# %% [markdown]
r"""
Statistics are taken in at least float32, squares *after* centring (a bug further down does it the other way), and the
centring is repeated, because the mean of numbers near 10,000 is itself rounded. BatchNorm is the same with other axes,
and with a memory.
"""

# %%
show(batch_norm)

# %%
x = torch.randn(4, 6, 5, dtype=torch.float64) + 100
difference = {
    "layer": layer_norm(x.mT).mT - F.layer_norm(x.mT, (6,)).mT,
    "layer, formula": layer_norm(x.mT).mT - standardize(x, (1,)),
    "batch": batch_norm(x, training=True) - F.batch_norm(x, None, None, training=True),
    "batch, formula": batch_norm(x, training=True) - standardize(x, (0, 2)),
}
claim(
    "01-labkit-equals-torch",
    "labkit's two functions, PyTorch's and the plain formula agree in float64 up to {mean:.1g}.",
    max(d.abs().max().item() for d in difference.values()),
    said="labkit, PyTorch and the plain formula agree.",
    source="PyTorch's layer_norm and batch_norm",
    criterion="<= 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
Agreement on one tensor proves little. `labkit.check` tries shapes, precisions, offsets, gradients and edge cases.
"""

# %%
check.layer_norm(layer_norm).summary, check.batch_norm(batch_norm).summary

# %% [markdown]
r"""
## Predict

Write your answers down.

1. **A perceptron, two images a step.** BatchNorm after a linear layer averages over $m = N$ values. At
   $N = 2$ the rank of the Jacobian is $m - 2 = 0$. What is the gradient of the first layer's weights:
   zero, small, normal, or huge?
2. **A CNN, two images a step.** Each channel has $8 \times 8$ positions. What is $m$ now?
3. **Training mode or evaluation mode?** After training with BatchNorm at batches of four, test images
   can be normalized with the running statistics or with the statistics of their own batch of four.
   A momentum of 0.1 is worth an average over about 19 batches. Which of the two gives the better accuracy?
4. **A language model, 16 windows of 32 characters.** What is $m$? Should the noise of the statistics
   matter?
5. **Leaks.** In training mode, change only the *last* token of every window. By how much do the logits at *earlier*
   positions move, with LayerNorm and with BatchNorm?
"""

# %% [markdown]
r"""
## Measure: the batch shrinks

A perceptron with three hidden layers on 8×8 digits ([Alpaydin and Kaynak, 1998](https://archive.ics.uci.edu/ml/datasets/Optical+Recognition+of+Handwritten+Digits)); SGD with momentum 0.9; a
learning rate proportional to the batch, $0.1 \cdot B/32$, so that every run sees the same number of
images with the same step per image. No arm is tuned: the claims are of the kind *at*, at one stated
setting.

The settings come from pilot runs. All criteria were written before the runs that you see; where a pilot had shown
the answer, a card confirms and does not predict.

Three criteria here, on differences paired by seed:

- at $B = 2$ LayerNorm's accuracy exceeds BatchNorm's by more than 0.2;
- at $B = 128$ BatchNorm's exceeds LayerNorm's;
- at $B = 4$ the running statistics beat the batch's own by more than 0.05 (the answer to question 3, if
  you said "running").
"""

# %%
recipe = TrainConfig(optimizer="sgd", schedule="linear")
digits = Run(MLPConfig(), Digits(), recipe, probes=("test", "test-batch-statistics"))
shown = sizes.images_shown
batches = {
    batch: {"data.batch": batch, "train.steps": shown // batch, "train.lr": 0.1 * batch / 32}
    for batch in (128, 32, 8, 4, 2)
}
seeds = lab.seeds(sizes.seeds)
norms = ["batch", "layer", "group", "none"]
by_size = lab.run(Experiment(digits, {"model.norm": norms, "size": batches, "seed": seeds}))

# %% tags=["remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
lab.train_live(Experiment(digits, {"model.norm": norms, "size": batches, "seed": seeds}))

# %%
plots.curves(
    {
        name: {size: cell.values("test.accuracy") for size, cell in arm.by("size").items()}
        for name, arm in by_size.by("norm").items()
    },
    logx=True,
    xlabel="images per step",
    ylabel="test accuracy",
    caption="Follow BatchNorm from right to left: far ahead where the batch is large and the steps are "
    "few, broken at two. The others need no neighbours, but more steps.",
    provenance=lab.provenance(by_size),
)


# %%
def gap(more, less, what="test.accuracy"):
    return [a - b for a, b in zip(more.values(what), less.values(what), strict=True)]


batch, layer = by_size.where(norm="batch"), by_size.where(norm="layer")
claim(
    "01-bn-fails-at-batch-2",
    "With two images a step LayerNorm's test accuracy exceeds BatchNorm's by {mean:.2f}.",
    gap(layer.where(size=2), batch.where(size=2)),
    said="With two images a step LayerNorm beats BatchNorm.",
    source="Wu and He 2018",
    published="10.6 points lower error for GroupNorm than for BatchNorm (ResNet-50, ImageNet, two "
    "images per GPU)",
    criterion="> 0.2",
    kind="at",
)

# %%
claim(
    "01-bn-first-at-batch-128",
    "With 128 images a step, and few steps, BatchNorm's accuracy exceeds LayerNorm's by {mean:.2f}.",
    gap(batch.where(size=128), layer.where(size=128)),
    said="With large batches BatchNorm learns faster than LayerNorm.",
    source="Ioffe and Szegedy 2015",
    published="the accuracy of the network without it in 14 times fewer steps (Inception, ImageNet)",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
In fairness: the updates are few and the rate is high; LayerNorm may simply not have
finished. This edge is speed at one learning rate, no more.

Now question 3. BatchNorm is usually accused of a gap between training and evaluation, as if
evaluation were the weak side. Here are the same trained networks, evaluated both ways.
"""

# %%
few = by_size.where(norm="batch", size=[32, 8, 4, 2])
plots.paired(
    {
        f"batches of {size}": (
            cell.values("test-batch-statistics.accuracy"),
            cell.values("test.accuracy"),
        )
        for size, cell in few.by("size").items()
    },
    columns=("batch", "running"),
    ylabel="test accuracy of BatchNorm",
    caption="The statistics of the test batch itself (left) against the running ones (right).",
    provenance=lab.provenance(few),
)

# %%
four = batch.where(size=4)
running, own = (four.values(f"{probe}.accuracy") for probe in digits.probes)
claim(
    "01-running-statistics-help",
    "At batches of four, running statistics give {mean:.2f} more test accuracy than the test "
    "batch's own.",
    [a - b for a, b in zip(running, own, strict=True)],
    said="With batches of four, running statistics test better than the batch's own.",
    source="the opposite of the usual warning about evaluation mode",
    criterion="> 0.05",
    kind="at",
)

# %% [markdown]
r"""
There is a gap, and it points the other way: evaluation is the *good* side. It replaces four noisy values
by an average over many batches. (It can fail when test data differ from training data.)

## Why two images break it

Question 1. The rank says zero: at $m = 2$ nothing should come back through BatchNorm. Criterion:
if the gradient dies, the *largest* gradient of any channel at $B = 2$ is below that at
$B = 32$. We look at the fresh network, at the first layer: one gradient length per channel. A second card
asks how unequal the channels are: is the largest gradient more than a hundred times the median?
"""


# %%
def channel_gradients(norm, batch, seed):
    torch.manual_seed(seed)
    model = MLPConfig(norm=norm).build()
    pixels, classes = next(Digits(batch=batch).load().train(seed))
    F.cross_entropy(model(pixels), classes).backward()
    return model.get_submodule("1").weight.grad.norm(dim=1)


lengths = {
    (norm, size): [channel_gradients(norm, size, s) for s in lab.seeds(sizes.draws)]
    for norm in ("batch", "layer")
    for size in (2, 3, 4, 8, 32, 128)
}

# %%
plots.curves(
    {
        f"{norm}, {word} channel": {
            size: [what(g).item() for g in lengths[norm, size]] for size in (2, 3, 4, 8, 32, 128)
        }
        for norm in ("batch", "layer")
        for word, what in (("largest", torch.max), ("median", torch.median))
    },
    logx=True,
    logy=True,
    xlabel="images per step",
    ylabel="gradient of one channel's weights, first layer, at the start",
    caption="At two images BatchNorm's median channel falls silent, and its largest has exploded.",
)

# %%
claim(
    "01-gradient-dies-at-two",
    "The rank argument says that BatchNorm's largest channel gradient is smaller at two images a "
    "step than at 32; the logarithm (base 10) of their ratio is {mean:+.1f}.",
    [
        (two.max() / more.max()).log10().item()
        for two, more in zip(lengths["batch", 2], lengths["batch", 32], strict=True)
    ],
    said="With two images a step BatchNorm's gradient dies, as the rank argument says.",
    source="the rank argument above, taken at its word",
    criterion="< 0",
    kind="at",
)

# %%
claim(
    "01-few-channels-shout",
    "At two images a step, the logarithm (base 10) of BatchNorm's largest channel gradient over its "
    "median is {mean:.1f}.",
    [(g.max() / g.median()).log10().item() for g in lengths["batch", 2]],
    said="With two images a step a few channels get nearly all of BatchNorm's gradient.",
    source="derived below",
    criterion="> 2",
    kind="at",
)

# %% [markdown]
r"""
The prediction was wrong: the largest gradient is huge. The algebra is right; what was dropped is $\varepsilon$. Two values $\mu \pm a$ have variance $a^2$, so BatchNorm computes

$$y = \pm\frac{a}{\sqrt{a^2 + \varepsilon}}, \qquad
\frac{\mathrm dy}{\mathrm da} = \frac{\varepsilon}{(a^2 + \varepsilon)^{3/2}} .$$

That is a smoothed *sign function*: this is the $\pm 1$ of the tutorial. Over a batch of two BatchNorm
reports which image has more of a feature, never how much more. For $a \gg \sqrt\varepsilon$ the slope is
nearly zero: that is the promised rank 0, and why the median channel hears so little. Where the two images happen to agree, $a \approx 0$, the slope is
$1/\sqrt\varepsilon = 316$, and it multiplies from layer to layer. So most channels hear little and a
few, picked by coincidence, are thrown far.

An explanation should predict something new. If the steep step is the trouble, a wider step is the
repair. $\varepsilon = 0.1$ instead of $10^{-5}$ lowers the largest slope from 316 to about 3 and lets $y$
depend on *how much* the images differ. Nothing else changes: two images a step, same rate, same seeds.
Criterion: test accuracy rises by more than 0.2. Perhaps it is enough to tame the largest gradients, so there
is a control: the old $\varepsilon$ with a tenth of the learning rate. Criterion: the wide step beats it by
more than 0.1.
"""

# %%
axes = {"model.norm": ["batch"], "size": {2: batches[2]}, "seed": seeds}
wider = lab.run(Experiment(digits, {**axes, "model.norm_eps": [0.1]}))
wide = wider.values("test.accuracy")

# %%
claim(
    "01-wide-eps-repairs-batch-2",
    "At two images a step, eps = 0.1 in place of 1e-5 raises BatchNorm's test accuracy by {mean:.2f}, "
    "to {to:.2f}.",
    [a - b for a, b in zip(wide, batch.where(size=2).values("test.accuracy"), strict=True)],
    to=sum(wide) / len(wide),
    said="With two images a step a large ε repairs BatchNorm.",
    source="predicted from the slope of a/sqrt(a² + eps)",
    criterion="> 0.2",
    kind="at",
)

# %%
slower = lab.run(Experiment(digits, {**axes, "train.lr": [0.01 * 2 / 32]}))
claim(
    "01-a-lower-rate-repairs-less",
    "At two images a step, eps = 0.1 gives {mean:.2f} more test accuracy than a tenth of the learning "
    "rate.",
    [a - b for a, b in zip(wide, slower.values("test.accuracy"), strict=True)],
    said="A large ε repairs more than a lower learning rate does.",
    source="control of the claim before",
    criterion="> 0.1",
    kind="at",
)

# %% [markdown]
r"""
The wide step beats the lower rate. (It is one lower rate. And by the formula a wide step does three things, which the cards do not separate: it
tames the largest gradients, wakes the silent channels, and lets outputs tell *how much*.)

## The same batch of two in a CNN

Question 2: in a CNN a channel of 8×8 positions pools $m = 2 \cdot 64 = 128$ values. The rank is 126, and
nothing resembles a sign function. Two images a step, and to be fair to
GroupNorm two learning rates: the one of the rule above and twice it. The claim is of the kind *range*: the mean over both rates.
Criterion: BatchNorm above GroupNorm.
"""

# %%
pictures = Run(
    CNNConfig(width=16, depth=sizes.cnn_depth),
    Digits(batch=2),
    TrainConfig(sizes.cnn_steps, optimizer="sgd", schedule="linear"),
    probes=("test", "fluctuation"),
)
slow, quick = 0.1 * 2 / 32, 0.2 * 2 / 32
axes = {"model.norm": sizes.cnn_norms, "train.lr": [slow, quick], "seed": seeds}
by_rate = lab.run(Experiment(pictures, axes))

# %%
plots.dots(
    {
        f"{name}, lr {rate:.3g}": cell.values("test.accuracy")
        for rate, part in by_rate.by("lr").items()
        for name, cell in part.by("norm").items()
    },
    xlabel="test accuracy of the CNN, two images a step",
    caption="The order of the perceptron is reversed: BatchNorm is ahead at both rates.",
    provenance=lab.provenance(by_rate),
)

# %%
by_norm = {
    name: [
        sum(part.values("test.accuracy")) / len(part)
        for part in by_rate.where(norm=name).by("seed").values()
    ]
    for name in ("batch", "group")
}
claim(
    "01-bn-wins-in-a-cnn-at-batch-2",
    "In a CNN with two images a step BatchNorm's accuracy exceeds GroupNorm's by {mean:.2f}, "
    "averaged over two learning rates.",
    [a - b for a, b in zip(by_norm["batch"], by_norm["group"], strict=True)],
    said="In a convolutional network BatchNorm beats GroupNorm even with two images a step.",
    source="Wu and He 2018 report the opposite for ResNet-50 on ImageNet",
    published="GroupNorm 10.6 points better at two images per GPU",
    criterion="> 0",
    kind="range",
)

# %% [markdown]
r"""
"BatchNorm fails at small batches" is too short. In our networks it fails when **few
independent values share a mean**, and in our CNN two images bring enough. *Independent* matters. In the
ResNet-50 of [Wu and He (2018)](https://arxiv.org/abs/1803.08494) two images still bring $2 \cdot 7 \cdot 7 = 98$ values to a channel of the last
stage, and BatchNorm suffers; but the positions of one image resemble each other, and 98 values can be
worth few. Below we measure what they are worth here. (That network is also far deeper, and trained until it is done; our card compares speed. The noise of
small batches is also said to regularize, which a short training cannot show.)

## In a language model

A small decoder on characters of presidential addresses ([Peters and Woolley, n.d.](https://www.presidency.ucsb.edu/)),
each norm in front of its sublayer. `norm="batch"` pools all tokens of all windows: question 4's
$m$ is $16 \cdot 32 = 512$. A third arm has no norm at all. All three run at the same four learning rates
with the same seeds. Criteria:

- *range*: averaged over the four rates, BatchNorm's test loss is above LayerNorm's;
- *best*: with each arm at its own best rate (chosen on validation with two seeds, reported on held-out
  years with all), the gap is more than 0.1 nats (natural logarithms), the size that one untuned rate can
  show;
- *best*: no norm is worse than LayerNorm.
"""

# %%
characters = Run(
    ModelConfig(norm="layer", dim=sizes.dim, depth=sizes.depth, context=32),
    Text(batch=16, time=32, held_out=sizes.held_out),
    TrainConfig(sizes.steps, schedule="linear"),
    probes=("validation", "test", "test-batch-statistics", "leakage"),
)
five = lab.seeds(sizes.text_seeds)
axes = {"model.norm": ["layer", "batch", "none"], "train.lr": sizes.rates, "seed": five}
language = lab.run(Experiment(characters, axes))

# %%
plots.curves(
    {
        name: {rate: cell.values("test.loss") for rate, cell in arm.by("lr").items()}
        for name, arm in language.by("norm").items()
    },
    logx=True,
    xlabel="learning rate",
    ylabel="test loss (nats per character)",
    caption="The gap between BatchNorm and LayerNorm depends on the learning rate.",
    provenance=lab.provenance(language),
)


# %%
def over_rates(arm):
    return [sum(part.values("test.loss")) / len(part) for part in arm.by("seed").values()]


arms = language.by("norm")
claim(
    "01-lm-layer-beats-batch",
    "Averaged over the learning rates, BatchNorm's test loss minus LayerNorm's is {mean:+.3f} nats.",
    [a - b for a, b in zip(over_rates(arms["batch"]), over_rates(arms["layer"]), strict=True)],
    said="Over the whole range of rates, BatchNorm ends above LayerNorm in a language model.",
    source="Shen et al. 2020",
    published="a naive use of BatchNorm significantly degrades transformers for language",
    criterion="> 0",
    kind="range",
)

# %%
best = {name: arm.where(seed=five[:2]).best("lr") for name, arm in arms.items()}
tuned = {name: arm.where(lr=best[name]) for name, arm in arms.items()}
claim(
    "01-lm-gap-when-tuned",
    "With each at its own best learning rate, BatchNorm's test loss lies more than 0.1 nats above "
    "LayerNorm's: the difference is {mean:+.3f}.",
    gap(tuned["batch"], tuned["layer"], "test.loss"),
    said="With each at its own rate, BatchNorm still ends far above LayerNorm in a language model.",
    source="our criterion: the size of the gap at one untuned rate",
    criterion="> 0.1",
    kind="best",
)

# %%
claim(
    "01-lm-needs-a-norm",
    "With each at its own best learning rate, test loss without any norm minus LayerNorm's is "
    "{mean:+.3f} nats.",
    gap(tuned["none"], tuned["layer"], "test.loss"),
    said="A language model needs a norm: without one it ends above LayerNorm.",
    source="common belief",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
Averaged over all four rates no winner is seen. The figure shows why: LayerNorm is ahead at the three lower
rates, and behind at the highest, which is too high for both. Tuning closes a good part of the gap that the lowest rate shows, and the
interval of what is left reaches down to zero: whoever compares at one rate measures the rate as well. At this depth, in a
short training, *no* norm is needed. What a norm buys here are the high rates, at which the bare model diverges.

**What leaks.** Attention was made causal with care, so that no position sees its future. BatchNorm in
training mode pools over time and undoes it: every token's output depends on every later token, and
on every other window of the batch. LayerNorm cannot: its mean stays inside one token.
"""

# %%
claim(
    "01-batch-norm-leaks-the-future",
    "With BatchNorm in training mode, changing only the last token of each window moves earlier "
    "logits by up to {mean:.2f} (mean over seeds), and replacing every character of the other windows "
    "moves a window's logits by up to {others:.0f} (largest over seeds).",
    tuned["batch"].values("leakage.earlier"),
    others=max(tuned["batch"].values("leakage.others")),
    said="In training mode BatchNorm lets a position hear later tokens and other windows.",
    source="follows from pooling over time",
    criterion="> 0.01",
    kind="at",
)

# %%
claim(
    "01-layer-norm-leaks-nothing",
    "With LayerNorm the same two changes move those logits by {mean:.1g}.",
    [max(record.probes["leakage"].values()) for _, record in tuned["layer"]],
    said="With LayerNorm no position hears a later token or another window.",
    source="Ba, Kiros and Hinton 2016",
    criterion="<= 1e-6",
    kind="exact",
    tolerance=1e-6,
)

# %% [markdown]
r"""
Does the model *use* the leak? If it did, its loss in training mode, where the future is visible through
the statistics, would be lower than in evaluation mode, where it is not. Criterion: evaluation loss minus
training-mode loss, on the same test windows, is positive. (The test is not clean: in training mode the
noise of each batch's own statistics costs something, and can hide a small gain.)
"""

# %%
closed, open_ = (tuned["batch"].values(f"{probe}.loss") for probe in characters.probes[1:3])
claim(
    "01-lm-uses-the-leak",
    "BatchNorm's test loss with the leak closed minus its loss with the leak open is {mean:+.4f} nats.",
    [a - b for a, b in zip(closed, open_, strict=True)],
    said="A language model uses BatchNorm's leak: with the leak closed it ends higher.",
    source="a common worry",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
There is no net gain. A mean over 512 tokens is a poor spy. The leak is a defect all the same: a loss in training mode cannot be
trusted, and a model left in training mode answers according to who else was asked.

## Do batch statistics fluctuate more in text?

That is the reason that [Shen et al. (2020)](https://arxiv.org/abs/2003.07845) give for BatchNorm's trouble in language. Take the mean of a feature
over a batch of $m$ values. How much does it vary from batch to batch?

$$\text{fluctuation} = \frac{\operatorname{Var}(\text{batch mean})}{\operatorname{Var}(\text{feature})} \cdot m .$$

Independent values give 1. Values that resemble each other within a batch give more; values mixed more evenly than by chance (every image has its
borders) give less. By this measure a batch of $m$ values is worth only $m / \text{fluctuation}$ independent ones. Two things
should raise it in text: windows cut from one place (`neighbours=True`), and attention, which mixes a window's tokens.
Text is measured in the LayerNorm model, three times: from the small initialization of the models above, from the larger
Xavier one ("random": windows from anywhere), and from the latter with neighbouring windows.
Criteria, for the last layer and a Xavier start: text fluctuates more than twice as much as independent
values, at the start and after training; it fluctuates more when
windows are neighbours; and more than the CNN.
"""

# %%
words = Run(characters.model, characters.data, characters.train, probes=("test", "fluctuation"))
texts = {
    "small start": {},
    "random": {"model.init": "xavier"},
    "neighbours": {"model.init": "xavier", "data.neighbours": True},
}
axes = {"text": texts, "train.lr": [1e-2], "seed": seeds}
text = lab.run(Experiment(words, axes))
flat = Run(MLPConfig(norm="layer"), Digits(), recipe, probes=("test", "fluctuation"))
axes = {"train.steps": [shown // 32], "train.lr": [0.1], "seed": seeds}
flat = lab.run(Experiment(flat, axes))

# %%
curves = {f"text, {name}": arm for name, arm in text.by("text").items()}
curves["digits, perceptron"] = flat
curves["digits, small CNN"] = by_rate.where(norm="batch", lr=slow)


def fluctuation(results, when):
    return results.values(lambda record: record.probes["fluctuation"][when])


plots.by_depth(
    {name: fluctuation(results, "end") for name, results in curves.items()},
    relative=True,
    logy=True,
    reference={"independent values": 1},
    ylabel="fluctuation of batch means after training",
    caption="After training text is close to independent, and the image network with positions is not.",
    provenance=lab.provenance(*curves.values()),
)

# %%
start = {name: [row[-1] for row in fluctuation(r, "start")] for name, r in curves.items()}
end = {name: [row[-1] for row in fluctuation(r, "end")] for name, r in curves.items()}
pooled = dict.fromkeys(curves, 16 * 32) | {"digits, perceptron": 32, "digits, small CNN": 2 * 64}
rows = [
    {"last layer of": n, "start": np.mean(start[n]), "end": np.mean(end[n]), "m": m,
     "worth at the end": round(m / np.mean(end[n]))}
    for n, m in pooled.items()
]  # fmt: skip
plots.table(rows)

# %%
claim(
    "01-text-fluctuates-at-the-start",
    "At a Xavier start, batch means of text's last layer fluctuate {mean:.1f} times as much as those of "
    "independent values.",
    start["text, random"],
    said="At the start, batch means of text fluctuate far more than those of independent values.",
    source="Shen et al. 2020",
    criterion="> 2",
    kind="at",
)

# %%
claim(
    "01-text-fluctuates-after-training",
    "After training they fluctuate {mean:.2f} times as much as those of independent values.",
    end["text, random"],
    said="After training, batch means of text fluctuate far more than those of independent values.",
    source="Shen et al. 2020",
    published="statistics of NLP data across the batch exhibit large fluctuations throughout training",
    criterion="> 2",
    kind="at",
)

# %%
claim(
    "01-neighbours-fluctuate-more",
    "After training, a batch of neighbouring windows adds {mean:.2f} to the fluctuation of random ones.",
    [a - b for a, b in zip(end["text, neighbours"], end["text, random"], strict=True)],
    said="Batches of neighbouring windows fluctuate more than random ones.",
    source="our own prediction",
    criterion="> 0",
    kind="at",
)

# %%
claim(
    "01-text-fluctuates-more-than-a-cnn",
    "After training, the fluctuation of text minus that of digits in a CNN is {mean:.1f}.",
    [a - b for a, b in zip(end["text, random"], end["digits, small CNN"], strict=True)],
    said="After training, text fluctuates more than images in a convolutional network.",
    source="Shen et al. 2020 compare a transformer with a residual network on images",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
How much text fluctuates depends on the initialization and on how
the batch was cut, and a short training removes most of it. The strongest fluctuation sits in the last layer of the
*CNN*, where the positions of one image agree with one another, and where BatchNorm did well. A ratio alone
does not decide; look at the last column. There the CNN's 128 values are worth a handful: about as many as the perceptron was still content
with, more than the two that broke it. Text has hundreds. ([Shen et al. (2020)](https://arxiv.org/abs/2003.07845) also look at
variances and at the backward pass, in larger models.)

So in our model we see no sign that the leak, the gap between the modes or noisy means hurt BatchNorm
at the rates where it is behind. One suspect that is left: BatchNorm never makes *tokens* comparable in size. The next section and exercise 6
look at it.

## Batch statistics, repaired

In evaluation BatchNorm is a fixed affine map, and costs nothing once it is merged into the next matrix. LayerNorm must pass
over every token for a mean, for a variance, and to apply them. Three norms keep batch statistics and want to lose their faults.

- **PowerNorm** ([Shen et al., 2020](https://arxiv.org/abs/2003.07845)) divides each feature by the root of a *running* mean square, $y = x/\sqrt{\phi}$, subtracts nothing, and
  approximates the backward pass. In the authors' code each token is first divided by its own root mean square (theirs: one per
  attention head; ours: one), so it does not fold.
- **RepBN** ([Guo et al., 2024](https://arxiv.org/abs/2405.11582)) is BatchNorm beside a skip, $\mathrm{BN}(x) + \eta x$, one learned number $\eta$.
- **PRepBN** (same paper) walks from LayerNorm to RepBN while it trains: $\lambda\,\mathrm{LN} + (1 - \lambda)\,\mathrm{RepBN}$, with
  $\lambda$ from 1 to 0.

All go through the language model as the others did, at three of the rates: two seeds to choose one, five to report. (PowerNorm warms up
for a tenth of the training on the batch's own statistics; PRepBN arrives after three quarters.) A pilot with one seed put both
below BatchNorm's loss. Criteria: PowerNorm ends below BatchNorm; PRepBN ends at most 0.02 nats above LayerNorm.
"""

# %%
length = characters.train.steps
kept = {
    "power": {"model.norm": "power", "model.norm_kw": (("warmup", length // 10),)},
    "rep-batch": {"model.norm": "rep-batch"},
    "prep-batch": {"model.norm": "prep-batch", "model.norm_kw": (("steps", length * 3 // 4),)},
}
repairs = {"arm": kept, "train.lr": sizes.repair_rates}
search = lab.run(Experiment(characters, {**repairs, "seed": five[:2]}))
chosen = {
    name: {**kept[name], "train.lr": arm.best("lr")} for name, arm in search.by("arm").items()
}
repaired = lab.run(Experiment(characters, {"arm": chosen, "seed": five})).by("arm")

# %%
plots.dots(
    {name: arm.values("test.loss") for name, arm in {**tuned, **repaired}.items()},
    xlabel="test loss (nats per character), each norm at its own rate",
    caption="All three repairs lie below BatchNorm on average; watch where LayerNorm lies.",
    provenance=lab.provenance(*tuned.values(), *repaired.values()),
)

# %%
claim(
    "01-power-norm-repairs-batch-norm",
    "Each at its own rate, PowerNorm's test loss lies {mean:.3f} nats below BatchNorm's.",
    gap(tuned["batch"], repaired["power"], "test.loss"),
    said="With each at its own rate, PowerNorm ends below BatchNorm.",
    source="Shen et al. 2020",
    published="against LayerNorm +0.4 BLEU on IWSLT14 and +0.6 on WMT14 (in the encoder only)",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "01-prep-reaches-layer-norm",
    "Each at its own rate, PRepBN's test loss lies {mean:.3f} nats below LayerNorm's; RepBN alone lies "
    "{alone:+.3f} nats from it.",
    gap(tuned["layer"], repaired["prep-batch"], "test.loss"),
    alone=np.mean(gap(repaired["rep-batch"], tuned["layer"], "test.loss")),
    said="With each at its own rate, PRepBN ends no higher than LayerNorm.",
    source="Guo et al. 2024",
    published="DeiT-Tiny with PRepBN: 73.6 % on ImageNet (their code's DeiT-Tiny has plain RepBN)",
    criterion="> -0.02",
    kind="best",
)

# %% [markdown]
r"""
PowerNorm gives all tokens one size first, PRepBN starts as LayerNorm: both touch the suspect, and both end below BatchNorm.
(Five seeds leave PowerNorm's lead open.) But look at RepBN, which touches nothing: tuned, it comes level with LayerNorm by its
skip alone. So the suspect is not convicted, in a model that can do without any norm. And PRepBN, which in evaluation *is* a RepBN, is
lowest in the figure: the way there seems to count.

**Gone when training is over.** In evaluation RepBN is $y = a \odot x + c$ with $a = \gamma/\sqrt{v + \varepsilon} + \eta$ and
$c = \beta - \gamma \mu / \sqrt{v + \varepsilon}$, and a linear map behind it swallows both: $W y + b = (W\,\mathrm{diag}(a))\,x + (W c + b)$. We train a
perceptron with PRepBN, then fold.
"""

# %%
from labkit.convert import fold_norms
from labkit.norms import PRepBatchNorm

norm, shown_digits = PRepBatchNorm(32, steps=100), Digits(batch=32).load()
with torch.random.fork_rng():
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), norm, nn.Linear(32, 10))
    train(network, shown_digits.train(seed), TrainConfig(150, 1e-2), progress=False)
held = shown_digits.held_out["test"][0][0].double()
before = network.double().eval()(held)
fold_norms(network)
network

# %%
claim(
    "01-folded-network-is-equal",
    "Without its norm the folded network's logits differ by at most {mean:.1g} from those of the trained one.",
    (network(held) - before).abs().max().item(),
    said="A trained BatchNorm can be folded into the layers beside it.",
    source="Guo et al. 2024 (code: merge_bn)",
    criterion="<= 1e-9",
    kind="exact",
    tolerance=1e-9,
)

# %% [markdown]
r"""
One trap, which the authors' code has too: in evaluation mode PRepBN *is* RepBN, however large $\lambda$ still is. So an early
validation judges a network that has not been trained yet. And $\lambda$ counts forward passes: accumulate gradients over
two batches, and the way is half as long.
"""

# %%
norm, x = PRepBatchNorm(6, steps=1000), torch.linspace(-3, 5, 384).sin().view(64, 6)
for mode in (True, False):
    off = (norm.train(mode)(x) - layer_norm(x)).abs().max().item()
    print(f"λ = {norm.share:.3f}, training {mode}: differs from LayerNorm by {off:.2g}")

# %% [markdown]
r"""
## BatchNorm or LayerNorm?

| property | BatchNorm | LayerNorm | seen in |
| --- | --- | --- | --- |
| one mean per | channel, over examples and positions | token | the cubes |
| depends on the batch | in training mode | no | `01-batch-norm-leaks-the-future`, `01-layer-norm-leaks-nothing` |
| running statistics | yes, and two modes | none | `01-running-statistics-help` |
| ragged text | needs a mask | natural | the cell on padding |
| one token at a time | only with running statistics | natural | the error above |
| in evaluation | a fixed affine map, foldable | computed anew for each token | `01-folded-network-is-equal` |

## What the sources say, and what we ran

| statement | where | what is right |
| --- | --- | --- |
| GroupNorm has 10.6 points lower error than BatchNorm at batch 2 | [Wu and He (2018)](https://arxiv.org/abs/1803.08494): ResNet-50, ImageNet | seen in the perceptron, against LayerNorm (`01-bn-fails-at-batch-2`); reversed in our small CNN (`01-bn-wins-in-a-cnn-at-batch-2`) |
| batch statistics of language fluctuate strongly throughout training | [Shen et al. (2020)](https://arxiv.org/abs/2003.07845): transformers for language | for means, in our LayerNorm model: seen at a Xavier start, gone after training (`01-text-fluctuates-at-the-start`, `01-text-fluctuates-after-training`) |
| BatchNorm works by reducing internal covariate shift | [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167) | disputed ([Santurkar et al., 2018](https://arxiv.org/abs/1805.11604)); chapter 00 runs their test |
| $G = C$ is LayerNorm, $G = 1$ is InstanceNorm | a survey | reversed (`01-group-norm-limits`) |
| a gain of σ and a shift of μ recover the input | a blog series, on LayerNorm | true for BatchNorm, false for LayerNorm: *Gain σ, shift μ* below |
| LayerNorm in text is what InstanceNorm is in images | a survey | no: *InstanceNorm on text* below |
| normalizing turns features into a standard normal distribution | a survey | mean and variance only; the shape stays: *Standard normal?* below |
| BatchNorm on text fixes the $n$-th position of every sentence | a survey | `BatchNorm1d` pools positions too: one mean per channel |
| PowerNorm is by Bhatt et al. | a blog series | by [Shen et al. (2020)](https://arxiv.org/abs/2003.07845) |
| a bfloat16 tensor goes through a float32 `nn.LayerNorm` | a blog series | on a CPU, yes (the last cell of this section); on a GPU [PyTorch raises an error](https://github.com/pytorch/pytorch/issues/138128), by report |

**Gain σ, shift μ.** BatchNorm's σ and μ belong to a channel, as do the gain and the shift, so they can undo
it. LayerNorm's belong to a token. The tokens $x$ and $2x + 1$ have the same LayerNorm, so no gain and
no shift, shared by all tokens, can return both.
"""

# %%
x = torch.randn(16, 5, dtype=torch.float64)
mean, std = x.mean(dim=0), (x.var(dim=0, correction=0) + 1e-5).sqrt()
restored = batch_norm(x, weight=std, bias=mean, training=True)
lost = layer_norm(x, eps=0.0) - layer_norm(2 * x + 1, eps=0.0)
claim(
    "01-gain-and-shift-restore-batch-only",
    "A gain of σ and a shift of μ undo BatchNorm up to {mean:.1g}. LayerNorm maps x and 2x + 1 to "
    "the same output (up to {same:.1g}), so nothing can undo it for both.",
    (restored - x).abs().max().item(),
    same=lost.abs().max().item(),
    said="Gain and shift can undo BatchNorm; nothing can undo LayerNorm.",
    source="Ioffe and Szegedy 2015 for BatchNorm; a blog series extends it to LayerNorm",
    criterion="<= 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
**InstanceNorm on text** averages over time, for each feature. Change one token and every other token
moves; with LayerNorm none does.
"""

# %%
x = torch.randn(2, 8, 5)  # windows, features, time
changed = x.clone()
changed[:, :, -1] += 3.0
for name, axes in {"instance": (2,), "layer (per token)": (1,)}.items():
    moved = (standardize(changed, axes) - standardize(x, axes))[:, :, :-1].abs().max().item()
    print(f"{name}: earlier tokens move by up to {moved:.2f}")

# %% [markdown]
r"""
**Standard normal?** Subtracting and dividing moves and stretches a histogram and cannot change its
shape. Exponential values have a skewness of 2, before and after; a normal distribution has 0.
"""

# %%
skewed = torch.empty(100_000, 1, dtype=torch.float64).exponential_()
for name, values in {
    "before": skewed,
    "after BatchNorm": batch_norm(skewed, training=True),
}.items():
    deviation = values - values.mean()
    print(name, "skewness", round((deviation.pow(3).mean() / values.std() ** 3).item(), 1))

# %%
nn.LayerNorm(4096)(torch.randn(4, 128, 4096, dtype=torch.bfloat16)).dtype

# %% [markdown]
r"""
## Where it goes wrong

Three bugs from public teaching code; the second and the third are retold from
[labml.ai's annotated implementations](https://github.com/labmlai/annotated_deep_learning_paper_implementations).
All look right at first sight, and `labkit.check` finds each.

**1. Two silent differences.** The LayerNorm of the *Annotated Transformer* ([Huang et al., 2022](https://nlp.seas.harvard.edu/annotated-transformer/)) uses
`Tensor.std`, which divides by $d - 1$, and adds $\varepsilon$ outside the root.
"""


# %%
def annotated(x, weight, bias, eps=1e-6):
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / (x.std(-1, keepdim=True) + eps) + bias


report = check.layer_norm(annotated)
print(report.summary)
print("\n".join(sorted({law.cause for law in report.failed if law.cause})))

# %%
ratios = {}
for dim in (8, 512):
    x, one, zero = torch.randn(3, dim).double(), torch.ones(dim), torch.zeros(dim)
    ratio = (annotated(x, one, zero) / layer_norm(x, eps=0.0)).mean().item()
    ratios[dim] = abs(ratio - ((dim - 1) / dim) ** 0.5)
claim(
    "01-annotated-is-smaller",
    "The annotated LayerNorm is sqrt((d − 1)/d) times LayerNorm: for d = 8 and 512 the formula is "
    "met up to {mean:.1g}.",
    max(ratios.values()),
    said="The annotated LayerNorm is LayerNorm times √((d − 1)/d).",
    source="Huang et al. 2022 (code)",
    criterion="<= 1e-5",
    kind="exact",
    tolerance=1e-5,
)

# %% [markdown]
r"""
At $d = 512$ the factor is $\sqrt{511/512} \approx 0.999$: training should hardly notice. A comparison with the other formula's outputs,
or a test at $d = 8$, will.

**2. One pass.** $\mathbb E[x^2] - \mathbb E[x]^2$ needs one trip over the data, and is the difference of
two large numbers when the mean is large. Four tokens with variance near 1 and mean 4096, in float32:
"""


# %%
def one_pass(x, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * torch.rsqrt(variance + eps)


x = torch.randn(4, 64, generator=torch.Generator().manual_seed(1)) + 4096
print("one pass", (x.square().mean(-1) - x.mean(-1).square()).tolist())
print("true    ", [round(v, 2) for v in x.double().var(-1, correction=0).tolist()])
[(law.name, law.cause) for law in check.layer_norm(one_pass).failed]

# %% [markdown]
r"""
**3. The biased variance in the buffer.** Its training mode is right. In
evaluation mode its variance is too small by a factor $(n-1)/n$, and $n = 2$ is where it hurts.
"""


# %%
def biased_buffer(x, running_mean, running_var, training=True, momentum=0.1, eps=1e-5):
    mean, var = running_mean, running_var
    axes, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if training:
        mean, var = wide.mean(axes), wide.var(axes, correction=0)
        running_mean.lerp_(mean.detach().to(running_mean), momentum)
        running_var.lerp_(var.detach().to(running_var), momentum)
    return ((wide - mean.view(shape)) / (var.view(shape) + eps).sqrt()).to(x.dtype)


[(law.name, law.cause) for law in check.batch_norm(biased_buffer).failed]

# %% [markdown]
r"""
One law, and nothing else. (The first two also compute in the input's own precision; half precision spoils their statistics.)

**From symptom to probe.** The column "reads" is computed now.
"""

# %%
leak, columns = tuned["batch"], ("symptom", "likely cause", "probe", "reads", "fix")
laws = {f: [law.name for law in check.layer_norm(f).failed] for f in (annotated, one_pass)}
rows = [
    ("poor accuracy, fine with larger batches", "few values in a mean", "accuracy at two images",
     np.mean(batch.where(size=2).values("test.accuracy")), "larger eps, another norm"),
    ("answers depend on the rest of the batch", "training mode", "leakage.others",
     max(leak.values("leakage.others")), "model.eval()"),
    ("early logits move with later tokens", "a norm pools over time", "leakage.earlier",
     max(leak.values("leakage.earlier")), "LayerNorm"),
    ("a ported model is off by 0.1 %", "unbiased std, misplaced eps", "check.layer_norm",
     laws[annotated][0], "the definition"),
    ("wrong sizes or NaN at large offsets", "one-pass variance", "check.layer_norm", laws[one_pass][0], "centre first"),
    ("PRepBN validates badly at first", "evaluation is RepBN alone", "λ", norm.share, "wait for λ = 0"),
]  # fmt: skip
plots.table([dict(zip(columns, row, strict=True)) for row in rows])

# %% [markdown]
r"""
## Exercises

**1 (by hand).** A token is $[6, 2, 2, -2]$. Give its mean, its variance, and the last entry of its LayerNorm (gain 1,
shift 0, $\varepsilon = 0$).
"""

# %% tags=["exercise"]
yours = {"mean": ..., "variance": ..., "last entry": ...}

# %%
token = torch.tensor([6.0, 2, 2, -2])
truth = token.mean(), token.var(correction=0), layer_norm(token, eps=0.0)[-1]
hint = "the variance divides by four"
check.answer(yours, dict(zip(yours, truth, strict=True)), name="1", hint=hint)

# %% [markdown]
r"""
<details><summary>Hint</summary>

The deviations are $4, 0, 0, -4$. The variance divides by four.

</details>
<details><summary>Solution</summary>

Mean $8/4 = 2$; variance $(16 + 0 + 0 + 16)/4 = 8$; last entry $-4/\sqrt 8 = -\sqrt 2 \approx -1.414$.

</details>

**2 (by hand).** A channel of `BatchNorm1d` (momentum 0.1, buffers 0 and 1) sees the batch $\{1, 6\}$ twice. What is the
running variance after the second step? And after how many such steps is the running *mean* for the first
time within 1 % of 3.5?
"""

# %% tags=["exercise"]
yours = {"running variance": ..., "steps": ...}

# %%
norm, variances, means = BatchNorm(1), [], []
for _ in range(100):
    norm(pairs[:, :1])
    variances.append(norm.running_var.item())
    means.append(norm.running_mean.item())
truth = variances[1], 1 + sum(mean < 0.99 * 3.5 for mean in means)
hint = "the buffer takes the unbiased variance; the distance to 3.5 shrinks by 0.9 a step"
check.answer(yours, dict(zip(yours, truth, strict=True)), name="2", hint=hint)

# %% [markdown]
r"""
<details><summary>Hint</summary>

After one step the variance buffer holds $2.15$. For the mean: the distance to 3.5 shrinks by the same
factor at every step.

</details>
<details><summary>Solution</summary>

$0.9 \cdot 2.15 + 0.1 \cdot 12.5 = 1.935 + 1.25 = 3.185$. The distance of the mean is
$3.5 \cdot 0.9^k$, so $0.9^k \le 0.01$, $k \ge \ln 100 / \ln(1/0.9) = 43.7$: 44 steps. A network that
trains for fewer steps is evaluated with statistics that still remember their start.

</details>

**3 (by hand).** Take $d = 2$ features, unequal, and $\varepsilon = 0$. What is the LayerNorm of $[5, -3]$? How many different
outputs are there over all inputs? And can a linear map to **two** features, LayerNorm and a threshold solve XOR?
"""

# %% tags=["exercise"]
yours = {"output": [..., ...], "different outputs": ..., "solves XOR": ...}

# %%
outputs = layer_norm(torch.cat([torch.tensor([[5.0, -3]]), torch.randn(1000, 2)]), eps=0.0)
truth = outputs[0].tolist(), len(outputs.round(decimals=2).unique(dim=0)), False
hint = "two numbers lie at equal distances on both sides of their mean"
check.answer(yours, dict(zip(yours, truth, strict=True)), name="3", hint=hint)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Two numbers lie at equal distances on both sides of their mean. Which set of inputs goes to $[1, -1]$?

</details>
<details><summary>Solution</summary>

The output is $[1, -1]$, one of two: it is always $\operatorname{sign}(z_1 - z_2) \cdot [1, -1]$. The inputs with
$z_1 > z_2$ form a half-plane, because $z_1 - z_2$ is affine in the input. So LayerNorm over two features
followed by a threshold is a single linear classifier, and XOR has none: it takes three features. You have met
this function before: BatchNorm over a batch of two, turned on its side.

</details>

**4 (in code).** Write LayerNorm as an `autograd.Function` with the backward pass of the derivation. The check compares
values *and* gradients with the formula.
"""


# %% tags=["exercise"]
class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        return x * 1.0  # replace this, and save what the backward pass needs

    @staticmethod
    def backward(ctx, g):
        return g, None  # replace this


# %%
check.layer_norm(lambda x, eps=1e-5: Mine.apply(x, eps))

# %% [markdown]
r"""
<details><summary>Hint</summary>

Save $\hat x$ and $r$. The backward pass is $\frac1r(g - \overline g - \hat x\,\overline{g \hat x})$, with
means over the last axis. Half-precision inputs want their statistics in float32.

</details>
"""


# %% tags=["solution"]
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


solved = check.layer_norm(lambda x, eps=1e-5: Solved.apply(x, eps))
assert solved.ok, solved
solved.summary

# %% [markdown]
r"""
**5 (in code).** Write `group_norm(x, num_groups)` for $x$ of shape $(N, C, …)$ with no statistics of your own: reshape, call
`layer_norm`, reshape back. (Gain and shift are left out.)
"""


# %% tags=["exercise"]
def my_group_norm(x, num_groups, eps=1e-5):
    return x * 1.0  # replace this


# %%
check.group_norm(my_group_norm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Channels of one group are neighbours, and so are their positions: all values of a group stand in a row
in memory.

</details>
"""


# %% tags=["solution"]
def solved_group_norm(x, num_groups, eps=1e-5):
    groups = x.reshape(x.shape[0], num_groups, -1)
    return layer_norm(groups, eps=eps).reshape(x.shape)


solved = check.group_norm(solved_group_norm)
assert solved.ok, solved
solved.summary

# %% [markdown]
r"""
**6 (change the experiment).** A guess was that BatchNorm is worse in a language model because it does not make tokens
comparable in size. Give a model both: a norm that first scales each token by its own root mean
square and then applies BatchNorm. Before you run, write down whether the loss will lie nearer to
LayerNorm's or to BatchNorm's.
"""

# %% tags=["exercise"]
prediction = ...  # "nearer to layer" or "nearer to batch"; then build, train, compare

# %% [markdown]
r"""
<details><summary>Hint</summary>

Build the model with `norm="batch"`, then replace each `BatchNorm` inside it by an
`nn.Sequential(RMSNorm(width), old)`. One seed says little.

</details>
"""

# %% tags=["solution"]
from labkit.norms import RMSNorm


def both(seed):
    torch.manual_seed(seed)
    model, corpus = replace(characters.model, norm="batch").build(), characters.data.load()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BatchNorm):
                setattr(parent, name, nn.Sequential(RMSNorm(sizes.dim), child))
    config = TrainConfig(characters.train.steps, best["batch"], schedule="linear")
    train(model, corpus.train(seed), config, progress=False)
    return Evaluate("test", corpus.held_out["test"]).result(model)["loss"]


print(f"both, one seed: {both(seed):.2f}")
{name: round(arm.values("test.loss")[0], 2) for name, arm in tuned.items()}

# %% [markdown]
r"""
**7 (proof).** Tokens pass LayerNorm (gain 1, shift 0, $\varepsilon = 0$) and are keys, all different. Show that for each key some query
scores it strictly above all others. First name the query in code.
"""


# %% tags=["exercise"]
def query_for(key):
    """Return a query that prefers this key to all others."""
    return ...


# %%
keys = layer_norm(torch.randn(200, 8, dtype=torch.float64))
queries = [query_for(key) for key in keys]
named = all(isinstance(query, torch.Tensor) for query in queries)
winners = [(keys @ query).argmax().item() for query in queries] if named else ...
check.answer(winners, list(range(200)), name="7", hint="which direction points at the key?")

# %% [markdown]
r"""
<details><summary>Hint</summary>

All keys have the same length. Cauchy–Schwarz: $q \cdot k \le \|q\|\,\|k\|$, with equality only where $k$ is a positive multiple of $q$.

</details>
<details><summary>Solution</summary>

`return key`. Every key has length $\sqrt d$, because its mean is 0 and its variance 1. Take $q = k_i$. Then
$q \cdot k_i = d$, and for $j \ne i$ Cauchy–Schwarz gives $q \cdot k_j \le \|k_i\| \|k_j\| = d$. Equality would need
$k_j = c\,k_i$ with $c > 0$, and equal lengths make $c = 1$, that is $k_j = k_i$; but the keys differ. So $q \cdot k_j < d$. Only
the equal lengths were used: RMSNorm has the property too. An invertible $W_K$ keeps it (take $q = W_K^{-\top} k_i$). With
$\varepsilon > 0$ a token of tiny variance ends up inside the sphere and can lose again.

</details>

**8 (open).** The majority task: 50 tokens of 20 classes; every position must name the most frequent one. [Brody et al. (2023)](https://arxiv.org/abs/2305.02582) learn it
with one head of width 8, about three times faster with centring. Compare `norm="layer"` and `"rms"`.
"""


# %% tags=["exercise"]
def majority(seed, batch=64, classes=20):
    draw = torch.Generator().manual_seed(seed)
    while True:
        tokens = torch.randint(classes, (batch, 50), generator=draw)
        counts = F.one_hot(tokens, classes).sum(1)
        yield tokens, counts.argmax(-1, keepdim=True).expand(-1, 50)


small = {"dim": 8, "depth": 1, "heads": 1, "vocab": 20, "context": 50, "kind": "encoder"}
# model = ModelConfig(norm="layer", **small).build()
# train(model, majority(0), TrainConfig(1000, 3e-3, schedule="constant")).losses[-1]

# %% [markdown]
r"""
<details><summary>Hint</summary>

Count the steps to a loss of 2. A small initialization of queries already averages.

</details>
"""

# %% [markdown]
r"""
## What you now know

- A norm is one formula and a set of values. BatchNorm pools examples and positions per channel;
  a transformer's LayerNorm pools the features of one token; GroupNorm runs from LayerNorm ($G=1$) to
  InstanceNorm ($G=C$).
- The batch is normalized with the biased variance, the buffer stores the unbiased one, and PyTorch's momentum weighs the
  new value.
- Both norms have the Jacobian $\frac1r(I - \frac1m\mathbf 1\mathbf 1^\top - \frac1m\hat x\hat x^\top)$,
  of rank $m - 2$ for $\varepsilon = 0$.
- LayerNorm projects and then puts on a sphere. It is nonlinear enough for XOR, and leaves attention no key that
  cannot win; BatchNorm, given its statistics, is affine, and folds away.
- Over two values a norm is nearly a sign function: hardly a gradient almost everywhere, a huge one at the step. A larger ε repairs most
  of the damage.
- What seems to count is how many independent values share a mean. A CNN brings its own.
- In a language model BatchNorm leaks the future while it trains, and LayerNorm does not. Here the
  model had no net gain from the leak, and tuning closed a good part of the gap.
- Batch statistics can be repaired: PowerNorm takes running ones, PRepBN leaves LayerNorm step by step.

## References

Works cited: [Alpaydin and Kaynak (1998)](https://archive.ics.uci.edu/ml/datasets/Optical+Recognition+of+Handwritten+Digits), [Ba et al. (2016)](https://arxiv.org/abs/1607.06450), [Brody et al. (2023)](https://arxiv.org/abs/2305.02582), [Guo et al. (2024)](https://arxiv.org/abs/2405.11582), [Huang et al. (2022)](https://nlp.seas.harvard.edu/annotated-transformer/), [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167), [Ni et al. (2024)](https://arxiv.org/abs/2406.01255), [Paszke et al. (2019)](https://arxiv.org/abs/1912.01703), [Peters and Woolley (n.d.)](https://www.presidency.ucsb.edu/), [Santurkar et al. (2018)](https://arxiv.org/abs/1805.11604), [Shen et al. (2020)](https://arxiv.org/abs/2003.07845), [Ulyanov et al. (2016)](https://arxiv.org/abs/1607.08022), [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762), [Wu and He (2018)](https://arxiv.org/abs/1803.08494).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
