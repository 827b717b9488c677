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

**Question.** Ninety-six people stand in a row. A number is whispered to the first, who passes it on, a mere
ten per cent too large. So does everybody else. What leaves the row is the number times
$1.1^{96} \approx 9{,}412$. Had they exaggerated by half, it would be $1.5^{96} \approx 8\cdot10^{16}$.
GPT-3 has 96 blocks ([Brown et al., 2020](https://arxiv.org/abs/2005.14165)), and its signal travels the row twice: up, as activations, and down
again, as gradients. How does anything so deep learn at all?

Three repairs are known. Draw the first weights with care. Let the signal skip layers. Normalize it on the
way. Each is said to solve the problem, and nearly every large model uses all three. So which of them does
what? The inventors of the third had an explanation. While the lower layers learn, the inputs of the upper
ones wander; a norm holds them still. They called the wandering *internal covariate shift*
([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)). Then four researchers put the shift back in, on purpose, and the network trained all
the same ([Santurkar et al., 2018](https://arxiv.org/abs/1805.11604)). What, then, does a norm do?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- one factor, multiplied ninety-six times, and why signal and gradient explode *together*;
- what careful initialization repairs, and two kinds of damage that it cannot see;
- skip connections that cure vanishing by causing explosion;
- a network with norms that fails, a network with skips that fails, and both together at forty-eight layers;
- a transformer of forty-eight blocks, 96 sublayers, without any norm. It explodes at once, or it trains:
  that depends on how its weights were drawn;
- covariate shift put back in, and the ground under a network with and without norms;
- how to read the cards of this book: one that holds, one that was not seen, one that was contradicted.
"""

# %%
import inspect

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits, Text
from labkit.experiments import Experiment, Lab, Run, claim, exponents, minus, proportion
from labkit.norms import BatchNorm, layer_norm
from labkit.stacks import NoisyBatchNorm, StackConfig, signal

lab = Lab(
    "00_why_normalize",
    size=size,
    seed=seed,
    memory={"kernel": "1000M", "run": "950M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    matrix_draws=(5, 10, 40),
    init_draws=(2, 5, 40),
    depths=([2, 4], [2, 6, 12, 24, 48], [2, 6, 12, 24, 48, 96]),
    shown_depth=(4, 12),
    seeds=(5, 5, 10), few=(2, 3, 20), tuning_seeds=(1, 2, 3),
    steps=(3, 150, 1000),
    heights=([4, 8], [4, 16, 48], [4, 8, 16, 48, 96]),
    rates=([1e-2], [3e-3, 1e-2, 3e-2, 1e-1, 3e-1], [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0]),
    ladder=((1e-2, 1, 2), (2e-3, 2, 13), (5e-4, 4, 32)),  # lowest rate, rungs an octave, rungs
    tower_dim=(8, 32, 256), tower_steps=(2, 60, 300), tower_warmup=(1, 10, 30),
    tower_recipes=(["none"], ["none", "pre"], ["none", "pre", "post", "deepnorm", "sandwich"]),
    tower_depths=([2], [4, 16], [12, 48, 96]),
    tower_rates=([3e-3], [3e-3, 1e-2, 3e-2], [1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2]),
    tower_seeds=(1, 1, 3),
    tall=(3, 48, 96),
    noise_steps=(24, 200, 1000),
    noise_rates=([1e-1], [1e-2, 3e-2, 1e-1], [1e-2, 3e-2, 1e-1, 3e-1]),
    reader_dim=(8, 32, 64), reader_steps=(2, 200, 3000), reader_warmup=(1, 20, 100),
)  # fmt: skip

# %% [markdown]
r"""
## The idea: one factor, ninety-six times

Depth multiplies. Here is the whole problem in one line of Python:
"""

# %%
{gain: gain**96 for gain in (0.5, 0.9, 0.99, 1.01, 1.1, 1.5)}

# %% [markdown]
r"""
Gains of $0.99$ and $1.01$ are harmless; nothing else on this list is. The largest number that 16-bit
floating point can hold is 65,504. (The other 16-bit format, *bfloat16*, reaches $3\cdot10^{38}$. So
$8\cdot10^{16}$ would fit, contrary to what one reads, and no less precisely than 8: floating point rounds in
proportion. Whether anything could be learned from it is another question.)

### How to read this book

You have just checked a published number without noticing: an online series on the transformer gives
$1.1^{96} \approx 8{,}916$. In this book such a check is a **claim**: a sentence with the number that our
run produced, and a criterion that was written down before. The build compares the number with the criterion
and prints a card:
"""

# %%
claim(
    "00-growth-by-a-tenth",
    "A gain of 1.1 at each of 96 layers multiplies a signal by {mean:,.0f}.",
    1.1**96,
    said="A gain of 1.1 at each of 96 layers multiplies a signal by about 8,916.",
    source="an online series on the anatomy of the transformer, part 7",
    published="8,916",
    criterion="in [8900, 8930]",
    kind="exact",
)

# %% [markdown]
r"""
The verdict comes first. **Contradicted here** means that our number, with its whole interval, lies outside
the criterion. **Holds here**: inside. **Not seen at this scale**: the interval reaches across the border,
and the run cannot tell. *Weak* marks a verdict that would change if one seed were left out. Cards of all
three kinds stay in the book, and you will meet all three in this chapter.

Mind whose expectation a criterion is. On this card it is the source's, and it fails. On the next three it
is ours: we say the opposite of what is published, and the card shows both.

Where runs are random, a card gives a 95 % interval over seeds. It also names its **kind**, because a
comparison is only as fair as its setting: *exact* (algebra or a count), *at* (one stated setting), *best*
(each method at its own learning rate, chosen on validation data and reported on test data), *range* (over
learning rates declared beforehand). And it depends on the **size** of the runs: `smoke` only proves that everything
runs, `book` is what you are reading, `gpu` runs larger grids and models, and may overrule it.

### The row, twice

Now replace people by random matrices. Let $W$ be $d \times d$, each entry with mean 0 and variance $g^2/d$;
let $x$ be the signal on its way up, and $\delta$ the gradient on its way down. Then

$$\mathbb E\|Wx\|^2 = \sum_i \sum_j \tfrac{g^2}{d} x_j^2 = g^2\|x\|^2, \qquad\qquad \mathbb E\|W^\top\delta\|^2 = g^2\|\delta\|^2.$$

The signal meets $W$, the gradient meets $W^\top$, and the gain is the same. One often reads that *if
activations grow on the way up, gradients shrink on the way down*. Ask autograd:
"""


# %%
def row_of_matrices(gain, depth=96, dim=64):
    """RMS of a signal after each random matrix, and of a gradient on its way back."""
    x = [torch.randn(8, dim).double().requires_grad_()]
    for _ in range(depth):
        x.append(x[-1] @ (torch.randn(dim, dim).double() * gain / dim**0.5))
    gradients = torch.autograd.grad(x[-1], x, torch.randn_like(x[-1]))
    return [[t.square().mean().sqrt().item() for t in side] for side in (x, gradients)]


# %%
def draw_row(gain):
    torch.manual_seed(seed)
    up, down = row_of_matrices(gain)
    return plots.by_depth(
        {"signal, going up": up, "gradient, coming down": down},
        ylabel="root mean square", start=0, logy=True, ylim=(1e-8, 1e20),
        reference={"largest float16": 65504},
        caption=f"Ninety-six random matrices of gain {gain:g}.",
    )  # fmt: skip


plots.explore(
    draw_row,
    [0.9, 1.0, 1.1, 1.5],
    "row",
    label="gain of each layer",
    caption="Read the signal from left to right and the gradient from right to left: at layer 0 it has "
    "come all the way down. The two lines are mirror images at every gain.",
)

# %%
torch.manual_seed(seed)
rows = [row_of_matrices(1.1) for _ in range(sizes.matrix_draws)]
claim(
    "00-gradients-grow-with-the-signal",
    "Where the gain is 1.1, a gradient is multiplied by {mean:.3f} per layer on its way down.",
    [(down[0] / down[-1]) ** (1 / 96) for _, down in rows],
    said="Where the signal grows on its way up, the gradient grows on its way down, too.",
    source="an online series on the anatomy of the transformer, part 7",
    published="if activations grow forward, gradients shrink backward",
    criterion="> 1",
    kind="at",
)

# %% [markdown]
r"""
So vanishing and exploding are one disease with two signs. (Shrinking gradients beside growing activations
need something that divides, or that saturates.)

Look at the slider once more, at gain 0.9. Vanishing gradients are usually told as a story of two classes:
layers near the output learn, early ones get next to nothing. But a *weight's* gradient is what comes down
times what came up, $\partial\mathcal L/\partial W_\ell = \delta_\ell\,x_{\ell-1}^\top$ for a loss
$\mathcal L$, and in layer $\ell$ of $L$ its size is proportional to $g^{L-\ell}\cdot g^{\ell-1} = g^{L-1}$,
the same everywhere. Mirror images have a constant product:
"""


# %%
def first_over_last(gain, depth=96, dim=64):
    """Ratio of the gradients of the first and the last matrix of the row."""
    weights = (torch.randn(depth, dim, dim).double() * gain / dim**0.5).requires_grad_()
    x = torch.randn(8, dim).double()
    for weight in weights:
        x = x @ weight
    norms = torch.autograd.grad(x, weights, torch.randn_like(x))[0].flatten(1).norm(dim=1)
    return (norms[0] / norms[-1]).item()


torch.manual_seed(seed)
claim(
    "00-vanishing-spares-no-layer",
    "At gain 0.9 the weight gradient changes by a factor {mean:.3f} per layer on the way down.",
    [first_over_last(0.9) ** (1 / 95) for _ in range(sizes.matrix_draws)],
    said="Where signals shrink, the weights of all layers get the same small gradient.",
    source="Exploring the Transformer, part 14 (an article on residual networks)",
    published="early layers receive almost no updates, layers near the output are updated well",
    criterion="in [0.97, 1.03]",
    kind="at",
    predicted=1.0,
)

# %% [markdown]
r"""
Everybody starves alike. The story of two classes needs a signal that keeps its size while the gradient
fades: through saturation, biases, or a norm.

Another popular shortcut reads the gain off the *spectral norm*, the largest factor by which $W$ stretches
any vector. That is a bound, and a loose one. A large random matrix of gain 1 has spectral norm near 2, and
yet an ordinary signal keeps its size:
"""

# %%
torch.manual_seed(seed)
wide = torch.randn(512, 512) / 512**0.5
rows = [row_of_matrices(1.0) for _ in range(sizes.matrix_draws)]
claim(
    "00-spectral-norm-is-a-bound",
    "Random matrices of gain 1: the largest stretch is {spectral:.2f}, a signal's factor per layer is {mean:.3f}.",
    [(up[-1] / up[0]) ** (1 / 96) for up, _ in rows],
    spectral=torch.linalg.matrix_norm(wide, 2).item(),
    said="The largest stretch is only a bound: a signal of random matrices keeps its size.",
    source="an online series on the anatomy of the transformer, part 7",
    published="spectral norm 1.01 means growth like 1.01 to the power L",
    criterion="in [0.95, 1.05]",
    kind="at",
    predicted=1.0,
)

# %% [markdown]
r"""
## Derivation: three repairs on paper

### First repair: draw the weights with care

A rectifier (ReLU) replaces negative numbers by zero, and half of the energy is gone: for symmetric $x$,
$\mathbb E[\mathrm{relu}(x)^2] = \frac12\mathbb E[x^2]$. So a layer $\mathrm{relu}(Wx)$ whose weights have
variance $\sigma^2$ multiplies the mean square by $\frac12 n\sigma^2$, with $n$ inputs, and its root, the RMS,
by $\sqrt{n\sigma^2/2}$. Ninety-six times. Three rules are in use:

| rule | variance of a weight | RMS factor per layer with ReLU | after 96 layers |
| --- | --- | --- | --- |
| PyTorch's `nn.Linear`, its biases left out | $1/(3n)$ | $\sqrt{1/6} \approx 0.41$ | $4\cdot10^{-38}$ |
| [Glorot and Bengio (2010)](https://proceedings.mlr.press/v9/glorot10a.html), "Xavier" | $2/(n_{\rm in} + n_{\rm out})$, here $1/n$ | $\sqrt{1/2} \approx 0.71$ | $4\cdot10^{-15}$ |
| [He et al. (2015)](https://arxiv.org/abs/1502.01852) | $2/n_{\rm in}$ | 1 | 1 |

Xavier's rule is a compromise: the signal asks for $1/n_{\rm in}$, the gradient for $1/n_{\rm out}$. He's
repairs the rectifier. What does it *not* repair? It is a promise about one moment, before the first step.
And it is about size, and size alone. Two inputs of the same size can come out of a hundred layers as *the
same vector*. Nothing has exploded, nothing has vanished, and everything is lost.

### Second repair: let the signal skip

A **residual** step is $x \leftarrow x + f(x)$ ([He et al., 2016](https://arxiv.org/abs/1512.03385)). Its Jacobian is $I + J_f$, and the
product over the layers contains an identity: one path on which nothing is multiplied. The idea has
ancestors. [Schraudolph (1998)](https://nic.schraudolph.org/bib2html/b2hd-facede.html) combined shortcuts with centering. **Highway** networks
([Srivastava et al., 2015](https://arxiv.org/abs/1505.00387)) mix, through a learned gate $T$ between 0 and 1:
$x \leftarrow T(x)\odot f(x) + (1 - T(x))\odot x$. With $T = 0$ a highway layer is the identity, with
$T = 1$ it has no skip at all. A residual step always has its skip, and learns nothing for it.

Why not simply learn the identity? [He et al. (2016)](https://arxiv.org/abs/1512.03385) had found that 56 plain layers fit their *training*
data worse than 20, although 36 layers that do nothing would have done. Copying through weights and
rectifiers is hard; writing zero is easy.

Now the catch. If $f$ preserves size and is unrelated to $x$, variances add: each step *doubles* the
variance. After 48 steps the RMS has grown by $\sqrt2^{\,48} = 2^{24} \approx 1.7\cdot10^7$. The skip has
turned vanishing into explosion. Unless the branches are small: scale each by $1/\sqrt S$ at initialization,
for $S$ steps, and the variance grows by $(1 + \frac1S)^S < e$. GPT-2 does this ([Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)).
*Fixup* ([Zhang et al., 2019](https://arxiv.org/abs/1901.09321)) goes further: the last matrix of a branch starts at zero, the others are
divided by a power of the depth ($\sqrt S$ where a branch has two), so that the first *updates* are small as
well, and a few scalars are added. Small branches will return.

The place matters too. [He et al. (2016)](https://arxiv.org/abs/1603.05027) write a step as $x \leftarrow \phi(h(x) + f(x))$. If the
shortcut is scaled, $h(x) = \lambda x$, the direct path is multiplied by $\lambda^S$: our row of people once
more. If $\phi$ is a rectifier (**ResNet v1**), it stands in the row as well. They moved it into the branch
(**ResNet v2**), so that $h$ and $\phi$ are both the identity.

### Third repair: normalize

A norm measures the size and divides by it. *BatchNorm* takes one channel, and its mean and deviation over
the batch; *LayerNorm* takes one example (one token), and its mean and deviation over the channels. (The
next chapter is about the difference.) Whatever gain the weights have, the result has size one. This is
stronger than a good initialization, for it is renewed at every step of training. In $N(Wx)$ the scale of
$W$ is invisible: for $c > 0$,

$$N(cWx) = N(Wx), \qquad \nabla_W \mathcal L\,(cW) = \tfrac1c\,\nabla_W \mathcal L\,(W).$$

Weights that have grown get smaller gradients. The initial scale no longer decides whether the signal
survives. It has become a learning rate: the same gradient step turns a large $W$ less.
"""

# %%
torch.manual_seed(seed)
x, target, first = torch.randn(9, 32).double(), torch.randn(9, 32).double(), torch.randn(32, 32)


def loss_and_gradient(scale):
    weight = (scale * first.double()).requires_grad_()
    loss = (layer_norm(x @ weight.T, eps=0.0) - target).square().mean()
    return loss, torch.autograd.grad(loss, weight)[0]


(loss, gradient), (again, smaller) = loss_and_gradient(1.0), loss_and_gradient(3.0)
claim(
    "00-norm-hides-the-scale",
    "Weights three times as large: the loss, and three times the gradient, change by at most {mean:.1e}.",
    max((loss - again).abs().item(), (gradient - 3 * smaller).abs().max().item()),
    said="With a norm behind it, a weight three times as large gives the same loss and a third of the gradient.",
    source="scale invariance, e.g. Ba et al. 2016, arXiv 1607.06450, section 5.1",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
What must a useful norm offer? A bounded size, whatever comes in. A derivative. And for a transformer one
thing more: an example must not depend on its neighbours in the batch, for they change, and at generation
there may be none. That third wish decides the next chapter. (One thing a norm does not offer: a *normal
distribution*. Subtracting a mean and dividing by a deviation changes two numbers, not a shape.)

## Implementation

Four ways to wire a step, as `labkit`'s models use them:
"""

# %%
from labkit.placements import Highway, NoNorm, ResNetV1, ResNetV2, Step

for design in (NoNorm, ResNetV1, ResNetV2, Highway):
    print(f"# {design.__name__}", inspect.getsource(design.step), sep="\n")

# %% [markdown]
r"""
Are these the equations of the papers? We type those once more, from the text above, and let `labkit.check`
hold what we typed against `labkit`'s steps, in double precision. A wrong order of two words would show.
"""

# %%
TYPED = {
    "none": lambda x, f: x + f(x),
    "resnet-v1": lambda x, f, norm: (x + norm(f(x))).clamp(min=0),
    "resnet-v2": lambda x, f, norm: f(norm(x).clamp(min=0)) + x,
    "highway": lambda x, f, gate: x + gate(x) * (f(x) - x),
}
OURS = {"none": NoNorm, "resnet-v1": ResNetV1, "resnet-v2": ResNetV2, "highway": Highway}
reports = {name: (check.block(TYPED[name], name), check.block(OURS[name], name)) for name in OURS}
{name: [report.summary for report in both] for name, both in reports.items()}

# %%
claim(
    "00-designs-meet-their-equations",
    "Of the {n_designs:.0f} designs, typed and ours, {mean:.0f} break a law.",
    sum(not report.ok for both in reports.values() for report in both),
    n_designs=sum(map(len, reports.values())),
    said="Each design, typed here and in labkit, obeys the laws of its equation.",
    source="He et al. 2015 and 2016, arXiv 1512.03385 and 1603.05027; Srivastava et al. 2015, 1505.00387",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
Our experiments need something small and deep: a perceptron that reads handwritten digits, two matrices to a
step. `StackConfig` builds it in any of these wirings, or "plain", without skips. Zeros in the last matrix
of every branch make forty-eight layers the identity, to the bit:
"""

# %%
torch.manual_seed(seed)
images = Digits(batch=64).load().held_out["validation"][0][0]
net = StackConfig("none", depth=48).build()
for step in (layer for layer in net if isinstance(layer, Step)):
    nn.init.zeros_(step.sublayer.last.weight)
enters, *_, leaves = signal(net, images)
claim(
    "00-empty-branches-are-the-identity",
    "Through 24 residual steps that write nothing a signal changes by {mean:g}.",
    (leaves - enters).abs().max().item(),
    said="A residual step that writes nothing is the identity.",
    source="He et al. 2015, arXiv 1512.03385, section 3.1",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
## Predict

Write your answers down before you scroll.

1. **Rectified layers.** Ninety-six of them, He's rule, two different images. The size survives. What is the
   cosine of the angle between the two at the end?
2. **A transformer without norms**, skips in place, Xavier's rule. By what factor per block does the last gradient grow?
3. **Forty-eight layers on digits**: with norms and no skips; with skips and no norms; with both. Which train, if each may choose
   its learning rate?
4. **Ninety-six sublayers, no norm**, small branches at initialization. Does it diverge, as everybody says?
5. **Noise after each BatchNorm** that shifts its output anew at every step. Faster or slower than no norm?

Numbers 3 and 4 surprised us.

## Measure

**What was chosen, and when?** Pilot runs, one seed each, fixed depths, steps and rates. They showed how 3
to 5 would come out, so those cards are demonstrations rather than blind tests. Every criterion stood before
the runs with seeds. After a first complete run some cards got more seeds; no criterion moved. Two cards were added because that run had shown something unexpected:
`00-vanishing-spares-no-layer` and `00-batch-norm-makes-gradients-explode`.
"""

# %% [markdown]
r"""
### Ninety-six rectified layers

Two questions to each rule: what becomes of the size, and what of the difference between two images?
"""


# %%
@torch.no_grad()
def through_rectifiers(init, seed):
    """RMS after each of 96 plain layers, and the mean cosine between different images."""
    torch.manual_seed(seed)
    net = StackConfig("plain", init=init, width=256, depth=96).build().double()
    streams = signal(net, images[:16].double())
    units = [x / x.norm(dim=-1, keepdim=True) for x in streams]
    rms = [x.square().mean().sqrt().item() for x in streams]
    return rms, [((u @ u.T).sum().item() - 16) / (16 * 15) for u in units]


rules = {"PyTorch's default": "torch", "Xavier": "xavier", "He": "he"}
draws = lab.seeds(sizes.init_draws)
passed = {name: [through_rectifiers(init, s) for s in draws] for name, init in rules.items()}

# %%
plots.by_depth(
    {name: [rms for rms, _ in runs] for name, runs in passed.items()},
    ylabel="RMS of the signal", start=0, logy=True, ylim=(1e-40, 1e4),
    caption="On a logarithmic axis each rule is a straight line whose slope the table above predicts.",
    provenance=lab.provenance(),
)  # fmt: skip


# %%
def factor(runs):
    return [(rms[-1] / rms[0]) ** (1 / 96) for rms, _ in runs]


claim(
    "00-xavier-loses-half-the-energy",
    "With Xavier's variance a rectified layer multiplies the RMS by {mean:.3f}.",
    factor(passed["Xavier"]),
    said="With Xavier's variance a rectified layer loses half of the signal's energy.",
    source="He et al. 2015, arXiv 1502.01852, section 2.2",
    published="the root of 1/2, that is 0.707",
    criterion="in [0.69, 0.72]",
    kind="at",
    predicted=0.707,
)

# %%
claim(
    "00-he-keeps-the-size",
    "With He's variance a rectified layer multiplies the RMS by {mean:.3f}.",
    factor(passed["He"]),
    said="With He's variance a rectified layer keeps the signal's size.",
    source="He et al. 2015, arXiv 1502.01852, section 2.2",
    published="1",
    criterion="in [0.98, 1.02]",
    kind="at",
    predicted=1.0,
)

# %%
claim(
    "00-he-merges-its-inputs",
    "He's variance: the mean cosine between different images is {start:.2f} at first, {mean:.4f} after 96 layers.",
    [cosines[-1] for _, cosines in passed["He"]],
    start=float(np.mean([cosines[0] for _, cosines in passed["He"]])),
    said="With He's variance different images point the same way after 96 layers.",
    source="this book; for the gradient's side of it, Balduzzi et al. 2017, arXiv 1702.08591",
    criterion="> 0.95",
    kind="at",
)

# %% [markdown]
r"""
(The two factors come out a little low. The table is about *mean* squares; a single network of finite width
fluctuates about them, and the typical one lies below the mean.)

So much for "initialization solves it". The size is kept, and the network sees one image. The gradient
suffers too: [Balduzzi et al. (2017)](https://arxiv.org/abs/1702.08591) found that in deep plain networks the gradients at *neighbouring* inputs
become as unrelated as white noise, and that skips help. Even without rectifiers a product of random
matrices stretches some directions and shrinks others, more with each factor. The table counts what is left,
as an effective rank; one is the least:
"""


# %%
def directions(factors, skip, dim=64):
    """Effective rank of a product: (Σ s²)² / Σ s⁴ over its singular values s."""
    product = torch.eye(dim).double()
    for _ in range(factors):
        step = torch.randn(dim, dim).double() / dim**0.5
        product = (torch.eye(dim) + step / factors**0.5 if skip else step) @ product
        product /= product.norm()
    energy = torch.linalg.svdvals(product).square()
    return (energy.sum().square() / energy.square().sum()).item()


torch.manual_seed(seed)
counts = [1, 3, 12, 48, 96]
ranks = {
    name: {n: [directions(n, skip) for _ in draws[:5]] for n in counts}
    for name, skip in (("plain", False), ("skip, scaled by 1/√S", True))
}

# %%
plots.table(
    [{"matrices": n, **{name: float(np.mean(by[n])) for name, by in ranks.items()}} for n in counts]
)

# %%
claim(
    "00-products-lose-rank",
    "Of 64 directions a product of 96 random matrices keeps {mean:.1f}, with small branches and skips {kept:.0f}.",
    ranks["plain"][96],
    kept=float(np.mean(ranks["skip, scaled by 1/√S"][96])),
    said="A product of many random matrices keeps only a few directions.",
    source="Orhan and Pitkow 2018, arXiv 1701.09175 (degeneracy of deep linear networks)",
    criterion="< 4",
    kind="at",
)

# %% [markdown]
r"""
[Orhan and Pitkow (2018)](https://arxiv.org/abs/1701.09175) name three ways in which a layer wastes units, and call them singularities: a unit that
is never active, two units that always agree, units that depend on each other linearly. In each case some
direction in the space of outgoing weights changes nothing, and learning along it stands still. A skip
around the layer adds to every unit something of its own. Kill one unit, clone another, and count the
directions that are left, without the skip and with it:
"""

# %%
torch.manual_seed(seed)
incoming, x = torch.randn(16, 16), torch.randn(200, 16)
incoming[0], incoming[1] = 0.0, incoming[2]  # a dead unit; two units that always agree
units = torch.relu(x @ incoming.T)
usable = [int(torch.linalg.matrix_rank(features)) for features in (units, units + x)]
claim(
    "00-skips-lift-singularities",
    "Of 16 directions of outgoing weights {plain:.0f} can be told apart without the skip, {mean:.0f} with it.",
    usable[1],
    plain=usable[0],
    said="With a skip all directions of the outgoing weights can be told apart.",
    source="Orhan and Pitkow 2018, arXiv 1701.09175, Figure 1",
    criterion=">= 16",
    kind="exact",
)

# %% [markdown]
r"""
### A transformer without norms

Now the real thing: blocks of two sublayers, attention and feed-forward, width 64, ReLU, text from State of
the Union addresses. All skips in place, no norm anywhere. We read the gradient of the last feed-forward
matrix before the first update. The second arm differs in its initialization, `megatron`: it divides the
matrices that write to the stream by $\sqrt{2L}$, and draws some others a little smaller. The third, `pre`,
has Xavier's rule again, and a norm at the head of every branch (chapter 02).

Why the *last* matrix? The error that reaches it from the loss is bounded. What can make its gradient
explode is the signal that came up.
"""

# %%
start = Run(
    model=ModelConfig(norm="layer", activation="relu", dim=64, context=32, init="xavier"),
    data=Text(batch=16, time=32),
    train=TrainConfig(steps=1),
    probes=("gradient-at-start",),
)
bare, small = {"model.recipe": "none"}, {"model.init": "megatron"}
arms = {"none": bare, "none, small branches": {**bare, **small}, "pre": {"model.recipe": "pre"}}
few, five = lab.seeds(sizes.few), lab.seeds(sizes.seeds)
gradients = lab.run(Experiment(start, {"arm": arms, "model.depth": sizes.depths, "seed": five}))

# %%
at_start = "gradient-at-start.0"  # one number per block
last = {
    arm: {n: [run[-1] for run in at.values(at_start)] for n, at in part.by("depth").items()}
    for arm, part in gradients.by("arm").items()
}
plots.curves(
    last,
    xlabel="depth L (blocks)", ylabel="gradient norm of the last W²", logx=True, logy=True,
    caption="The first gradient of the last matrix, by depth. Both axes are logarithmic, and the line "
    "without norms still bends upwards: faster than any power.",
    provenance=lab.provenance(gradients),
)  # fmt: skip

# %%
shallow, deep = min(sizes.depths), max(sizes.depths)


def per_block(arm):
    """Factor by which the last gradient grows with each block that is added."""
    pairs = zip(last[arm][shallow], last[arm][deep], strict=True)
    return [(b / a) ** (1 / (deep - shallow)) for a, b in pairs]


claim(
    "00-gradient-explodes-without-norms",
    "Without norms, from Xavier, the last gradient grows by a factor {mean:.2f} with each block.",
    per_block("none"),
    said="Without norms, from Xavier's variance, the gradient grows with every block on its way down.",
    source="this book; the row of people",
    criterion="> 1.3",
    kind="at",
)

# %%
claim(
    "00-small-branches-keep-the-gradient",
    "Without norms but with small branches the last gradient changes by a factor {mean:.3f} with each block.",
    per_block("none, small branches"),
    said="Small branches keep the gradient's size without any norm.",
    source="Zhang et al. 2019 (Fixup), arXiv 1901.09321; Radford et al. 2019 (GPT-2)",
    criterion="in [0.97, 1.03]",
    kind="at",
    predicted=1.0,
)

# %% [markdown]
r"""
Cut the skips out as well, and the sign turns. This is surgery on a built model; each step becomes
$x \leftarrow f(x)$:
"""


# %%
class NoSkip(NoNorm):
    """x ← f(x)."""

    def step(self, x, f):
        return f(x)


inputs, targets = start.data.load().held_out["validation"][0]


def by_block(seed, skips):
    """Gradient norm of every block's W² at the first step of a model without norms."""
    torch.manual_seed(seed)
    model = ModelConfig("none", activation="relu", depth=12, context=32, init="xavier").build()
    for block in model.blocks if not skips else ():
        block.attention = NoSkip(None, block.attention.sublayer)
        block.feed_forward = NoSkip(None, block.feed_forward.sublayer)
    F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    return [b.feed_forward.sublayer.down.weight.grad.norm().item() for b in model.blocks]


cut = {
    name: [by_block(s, skips) for s in few] for name, skips in (("none", True), ("no skips", False))
}

# %%
plots.by_depth(
    {**cut, "pre": gradients.where(arm="pre", depth=sizes.shown_depth).values(at_start)},
    ylabel="gradient norm of W²", logy=True,
    caption="Twelve blocks, by layer. Skips without norms: enormous everywhere. Neither: tiny, all layers alike. "
    "Norms and skips: of the order of one.",
    provenance=lab.provenance(gradients),
)  # fmt: skip

# %%
claim(
    "00-gradient-vanishes-without-skips",
    "Without skips and norms, the first block's gradient is 10 to the power {mean:.1f} of what it is with skips.",
    [float(np.log10(a[0] / b[0])) for a, b in zip(cut["no skips"], cut["none"], strict=True)],
    said="Without skips and norms the first block's gradient vanishes.",
    source="this book",
    criterion="< -3",
    kind="at",
)

# %% [markdown]
r"""
Mind the denominator: the arm with skips has exploded. Measured against the model with norms, in the picture,
the distance is smaller. It is large all the same, and again it spares no layer.

### Does depth help? Seven ways to stack layers

Now train. Digits, 150 steps of SGD with momentum, batches of 32. Seven designs: plain; plain with
BatchNorm; skips alone, with He's rule; skips alone with small branches (each branch's last matrix divided
by $\sqrt S$); the highway; and the two ResNets, which have both. Four, sixteen and forty-eight hidden
matrices. Every design may choose among five learning rates, so here is the whole field first.
"""

# %%
designs = {
    "plain": {"model.step": "plain"},
    "plain, BatchNorm": {"model.step": "plain", "model.norm": "batch"},
    "skips": {"model.step": "none"},
    "skips, small branches": {"model.step": "none", "model.init": "scaled"},
    "highway": {"model.step": "highway"},
    "resnet-v1": {"model.step": "resnet-v1", "model.norm": "batch"},
    "resnet-v2": {"model.step": "resnet-v2", "model.norm": "batch"},
}
digits = Run(
    model=StackConfig(),
    data=Digits(batch=32),
    train=TrainConfig(steps=sizes.steps, optimizer="sgd", schedule="linear"),
)

# %%
heights, two = sizes.heights, lab.seeds(sizes.tuning_seeds)
field = {"design": designs, "model.depth": heights, "train.lr": sizes.rates}
tuning = lab.run(Experiment(digits, {**field, "seed": two}))


# %%
def mean_or_none(losses):
    return None if None in losses else float(np.mean(losses))


plots.grid_map(
    panels={
        name: {
            (depth, lr): mean_or_none(cell.values("validation.loss"))
            for depth, row in part.by("depth").items()
            for lr, cell in row.by("lr").items()
        }
        for name, part in tuning.by("design").items()
    },
    row_label="hidden matrices", col_label="learning rate", value_label="validation loss (nats)",
    limits=(0.0, 2.4),
    caption="Loss in nats (natural logarithms): guessing one of ten digits costs ln 10, or 2.3. Read each panel downwards: what does depth cost? "
    "Then sideways: how wide is the range of rates that work?",
    provenance=lab.provenance(tuning),
)  # fmt: skip

# %% [markdown]
r"""
Then each design at its own best rate, five seeds, on test images:
"""

# %%
tuned = {
    f"{name} | {depth}": {**designs[name], "model.depth": depth, "train.lr": cell.best("lr")}
    for name, part in tuning.by("design").items()
    for depth, cell in part.by("depth").items()
}
final = lab.run(Experiment(digits, {"arm": tuned, "seed": five})).by("arm")


def test_loss(name, depth):
    return [np.nan if x is None else x for x in final[f"{name} | {depth}"].values("test.loss")]


# %% tags=["remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
lab.train_live(Experiment(digits, {"arm": tuned, "seed": five}))

# %%
plots.curves(
    {name: {n: test_loss(name, n) for n in heights} for name in designs},
    xlabel="hidden matrices", ylabel="test loss (nats)", logx=True, logy=True,
    reference={"guessing": float(np.log(10))},
    caption="Each design at its own best learning rate. A cross at the top: diverged at every rate.",
    provenance=lab.provenance(*final.values()),
)  # fmt: skip

# %%
low, high = min(heights), max(heights)


def end_of_training(name, depth):
    """Mean loss of the last twenty training batches."""
    return final[f"{name} | {depth}"].values(lambda record: float(np.mean(record.losses[-20:])))


claim(
    "00-deeper-plain-networks-fit-worse",
    f"With BatchNorm but no skips, {high} layers end {{mean:.2f}} nats above {low} on their own training data.",
    minus(end_of_training("plain, BatchNorm", high), end_of_training("plain, BatchNorm", low)),
    said="Without skips a deeper network fits its own training data worse.",
    source="He et al. 2015, arXiv 1512.03385, Figure 1 (CIFAR-10, 56 against 20 layers)",
    published="higher training error for the deeper network",
    criterion="> 0.3",
    kind="best",
)

# %%
claim(
    "00-norms-and-skips-together",
    f"At {high} layers ResNet v2 ends {{mean:.2f}} nats below the same network without its skips.",
    minus(test_loss("plain, BatchNorm", high), test_loss("resnet-v2", high)),
    said="With norms, taking away the skips costs a deep network dearly.",
    source="He et al. 2015, arXiv 1512.03385",
    criterion="> 0.5",
    kind="best",
)

# %%
lost = tuning.where(design="skips", depth=high).values(
    lambda record: record.diverged_at is not None
)
claim(
    "00-skips-alone-explode",
    f"{high} layers with skips, He's rule and no norm: {{k}} of {{n}} runs diverge, over all rates.",
    proportion(lost),
    said="Skips without norms or small branches diverge at depth.",
    source="this book; variances add",
    criterion="> 0.5",
    kind="range",
)

# %%
claim(
    "00-v2-beats-v1-when-deep",
    f"At {high} layers ResNet v1's test loss minus v2's is {{mean:+.3f}} nats.",
    minus(test_loss("resnet-v1", high), test_loss("resnet-v2", high)),
    said="At depth ResNet v2 ends below v1.",
    source="He et al. 2016, arXiv 1603.05027, Table 3 (CIFAR-10, 1,001 layers)",
    published="7.61 % against 4.92 % error",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
**Norms alone are not enough.** BatchNorm holds the size at every layer, and forty-eight plain layers still
learn next to nothing in these steps. This is He's *degradation*: the deeper network loses on its own
training data, so overfitting is not the reason. **Skips alone are not enough** either, if the branches
start large. Both together mind depth far less, v2 least. (The highway's gates start at $\sigma(-2)$, nearly
shut, and yet a step carries only $1 - \sigma(-2) \approx 0.88$ of a channel; $0.88^{24} \approx 0.05$. That
may be why it fails at forty-eight.)

Why do norms alone fail, when the size is right at every layer? Follow the gradient down one layer
$y = \mathrm{BN}(W\,\mathrm{relu}(y'))$, with units $y'$ independent and standard normal. BatchNorm divides
by the deviation of its input, and it has subtracted the mean first. A rectified normal variable has second
moment $\frac12$, but variance only $\frac12 - \frac1{2\pi} = \frac{\pi-1}{2\pi}$. So the norm divides the
gradient's energy by $n\sigma^2\frac{\pi-1}{2\pi}$, $W^\top$ multiplies it by $n\sigma^2$, and the rectifier
lets half of it through:

$$\frac{\tfrac12\,n\sigma^2}{n\sigma^2\,\frac{\pi-1}{2\pi}} = \frac{\pi}{\pi-1} \approx 1.467, \qquad \sqrt{1.467} \approx 1.21 \text{ per layer.}$$

The scale $\sigma$ has cancelled: no choice of it helps. [Yang et al. (2019)](https://arxiv.org/abs/1902.08129) derive this explosion in general.
The norm has parted the mirror images: the signal stays, the gradient grows. ([He et al. (2016)](https://arxiv.org/abs/1512.03385) saw healthy
gradients in their plain networks with BatchNorm, and left the cause of the degradation open.)
"""


# %%
def growth_below(norm, seed, depth=48):
    """Factor per layer by which a random gradient grows on its way down a plain stack."""
    torch.manual_seed(seed)
    streams = signal(StackConfig("plain", norm, width=256, depth=depth).build(), images)
    found = torch.autograd.grad(streams[-1], streams, torch.randn_like(streams[-1]))
    return (found[0].norm() / found[-1].norm()).item() ** (1 / depth)


claim(
    "00-batch-norm-makes-gradients-explode",
    "In a plain stack a gradient grows by {mean:.3f} per layer with BatchNorm, by {layer:.3f} with LayerNorm.",
    [growth_below("batch", s) for s in five],
    layer=growth_below("layer", seed),
    said="In a stack without skips BatchNorm makes the gradient grow with every layer, by the factor that theory gives.",
    source="Yang et al. 2019, arXiv 1902.08129; the factor 1.21 as derived above",
    published="exponential growth that no initial variance removes",
    criterion="in [1.16, 1.26]",
    kind="at",
    predicted=1.21,
)

# %% [markdown]
r"""
(A little more than on paper: units of a real stack are neither independent nor normal. LayerNorm takes its
mean over units, where there is little to subtract: the two halves cancel. Its plain stacks suffer from the
first damage, merged inputs.)

And now the panel that most books leave out: skips with **small branches** and no norm at all.
"""

# %%
claim(
    "00-small-branches-need-no-norm",
    f"At {high} layers, without any norm but with small branches, the test loss is {{mean:+.3f}} nats from ResNet v2's.",
    minus(test_loss("skips, small branches", high), test_loss("resnet-v2", high)),
    said="With small branches a deep residual network trains as well without norms.",
    source="Zhang et al. 2019 (Fixup), arXiv 1901.09321",
    published="residual networks train as well without normalization",
    criterion="< 0.1",
    kind="best",
)


# %%
rivals = {name: designs[name] for name in ("resnet-v2", "skips, small branches")}
span = {"design": rivals, "model.depth": [high], "train.lr": sizes.rates, "seed": few}
spans = lab.run(Experiment(digits, span)).by("design")


def trains(name):
    """Say of each run, over rates and seeds, whether the deepest network ends below one nat."""
    return [(x or 9.9) < 1 for x in spans[name].values("validation.loss")]


claim(
    "00-norms-widen-the-range-of-rates",
    f"At {high} layers over {len(sizes.rates)} rates, ResNet v2 trains in {{k}} of {{n}} runs, small branches without norms in {{other_k}}.",
    proportion(trains("resnet-v2")) - proportion(trains("skips, small branches")),
    said="Norms widen the range of learning rates that train.",
    source="Santurkar et al. 2018, arXiv 1805.11604 (a larger range of learning rates)",
    criterion="> 0",
    kind="range",
)

# %% [markdown]
r"""
The best network without norms matches the one with them. What it lacks is *room*, as its panel shows: it
trains at the lowest rate we offered and no other, while ResNet v2 likes the highest. So a norm buys
tolerance, here of the learning rate. How much tolerance is lost per layer? The same series states a law for
networks without norms: the largest stable rate falls like $1/\sqrt L$.
"""

# %%
lowest, rungs_an_octave, rungs = sizes.ladder
ladder = [lowest * 2 ** (k / rungs_an_octave) for k in range(rungs)]
careful = {"skips, small branches": designs["skips, small branches"]}
climbs = lab.run(
    Experiment(digits, {"design": careful, "model.depth": heights, "train.lr": ladder, "seed": few})
)


# %%
def largest_rate(runs):
    """Climb no further than the last rung at which the loss ends below one nat."""
    ends = {lr: run.values("validation.loss")[0] or 9.9 for lr, run in runs.by("lr").items()}
    return max([lr for lr, loss in ends.items() if loss < 1] or [min(ladder)])


largest = {
    depth: [largest_rate(runs) for runs in part.by("seed").values()]
    for depth, part in climbs.by("depth").items()
}
print(f"top of the ladder: {max(ladder):.3f}")
print({depth: [round(lr, 4) for lr in found] for depth, found in largest.items()})


# %%
# Rates are read off a ladder, so an exponent is known to a rung at either end, and no better.
powers = exponents(largest)
rung = np.log(ladder[1] / ladder[0]) / np.log(max(heights) / min(heights))
claim(
    "00-largest-rate-falls-with-depth",
    "Small branches, no norms: the largest rate that trains goes like L to the power {mean:.2f}.",
    powers,
    interval=(min(powers) - rung, max(powers) + rung),
    said="Without norms the largest rate that trains falls like one over the root of the depth.",
    source="an online series on the anatomy of the transformer, part 7 (on unnormalized networks)",
    published="L to the power −1/2",
    criterion="in [-0.65, -0.35]",
    kind="at",
    predicted=-0.5,
)

# %% [markdown]
r"""
The law is too kind to our perceptrons: their exponent lies near $-1$. Twice the depth, half the rate. (SGD and
an initialization that knows the depth, here; the sentence stands in a text about transformers, where Adam sets
the size of a step.)

### Ninety-six sublayers without a norm

A transformer of 96 layers without norms diverges in the first few hundred steps, says the same series, or
at best creeps along at a rate of $10^{-5}$. We take half of that, forty-eight blocks or 96 sublayers, and 60
steps (`gpu` has 96 blocks and 300 steps). Width 32, Adam, two initializations, and first a map of shallower
models:
"""

# %%
tower = Run(
    model=ModelConfig(norm="layer", activation="gelu", dim=sizes.tower_dim, context=32),
    data=Text(batch=8, time=32),
    train=TrainConfig(steps=sizes.tower_steps, warmup=sizes.tower_warmup, schedule="linear"),
    probes=("validation",),
)

# %%
recipes = {
    f"{name}, {init}": {"model.recipe": name, "model.init": init}
    for name in sizes.tower_recipes
    for init in ("xavier", "megatron")
}
recipes["post, xavier"] = {"model.recipe": "post", "model.init": "xavier"}
grid = {"model.depth": sizes.tower_depths, "train.lr": sizes.tower_rates}
once = lab.seeds(sizes.tower_seeds)
towers = lab.run(Experiment(tower, {"arm": recipes, **grid, "seed": once}))

# %%
plots.grid_map(
    panels={
        name: {
            (depth, lr): mean_or_none(cell.values("validation.loss"))
            for depth, row in part.by("depth").items()
            for lr, cell in row.by("lr").items()
        }
        for name, part in towers.by("arm").items()
    },
    row_label="blocks", col_label="learning rate", value_label="validation loss (nats)", limits=(2.3, 3.6),
    caption="Learning rate by depth. Without norms the initialization decides which cells train; "
    "with `pre` every cell does. Post-Norm from Xavier survives but hardly learns (chapter 02).",
    provenance=lab.provenance(towers),
)  # fmt: skip

# %%
sky = {"model.depth": [sizes.tall], "seed": few}
cases = {
    "none, xavier": {**bare, "model.init": "xavier", "train.lr": 3e-3},
    "none, megatron": {**bare, "model.init": "megatron", "train.lr": 3e-3},
    "none, megatron, fast": {**bare, "model.init": "megatron", "train.lr": 3e-2},
    "pre, megatron, fast": {"model.recipe": "pre", "model.init": "megatron", "train.lr": 3e-2},
}
heights96 = lab.run(Experiment(tower, {"case": cases, **sky}))
fell = {
    case: part.values(lambda record: float(record.diverged_at is not None))
    for case, part in heights96.by("case").items()
}

# %%
plots.loss_curves(
    {
        case: part.where(seed=seed).values(lambda record: record.losses)
        for case, part in heights96.by("case").items()
    },
    ylim=(2.2, 6.0),
    smooth=3,
    caption="Ninety-six sublayers; three arms have no norm anywhere. The tower from Xavier starts far above the picture.",
    provenance=lab.provenance(heights96),
)

# %%
claim(
    "00-xavier-tower-falls",
    f"{2 * sizes.tall} sublayers without norms, from Xavier, rate 0.003, {tower.train.steps} steps: {{k}} of {{n}} runs diverge.",
    proportion(fell["none, xavier"]),
    said="96 layers without norms, from Xavier's variance, diverge.",
    source="an online series on the anatomy of the transformer, part 7",
    published="96 layers without norms diverge within the first few hundred steps",
    criterion="> 0.5",
    kind="at",
)

# %%
claim(
    "00-megatron-tower-falls",
    f"{2 * sizes.tall} sublayers without norms, small branches, rate 0.003, {tower.train.steps} steps: {{k}} of {{n}} runs diverge.",
    proportion(fell["none, megatron"]),
    said="96 layers without norms diverge, even with small branches.",
    source="an online series on the anatomy of the transformer, part 7",
    published="96 layers without norms diverge within the first few hundred steps",
    criterion="> 0.5",
    kind="at",
    domain="the first few hundred steps",
    ours=f"{tower.train.steps} steps, which are too few to see a run outlive them",
    in_range=False,
)

# %%
claim(
    "00-the-norm-holds-at-ten-times-the-rate",
    "The same tower, small branches, at rate 0.03: {k} of {n} runs diverge without norms, {other_k} of {other_n} with.",
    proportion(fell["none, megatron, fast"]) - proportion(fell["pre, megatron, fast"]),
    said="At ten times the rate the network with norms trains and the one without diverges.",
    source="this book",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
One statement comes true from one initialization and, in so few steps, not from another, at the same depth, rate and
task. What separates them is how the weights were drawn, the size of the branches above all: at forty-eight
blocks the matrices that write are divided by $\sqrt{96} \approx 9.8$. The norm shows its worth in the third
card: turn the rate up, and the careful network falls while the normalized one stands.

Sixty steps are a short life, and less than the "few hundred" of the source; nothing renews the promise of a
careful start. The second card is out of range: so few steps say nothing about a few hundred. Whether such towers survive a
long training is a question for `gpu`.

### Putting the shift back

**Internal covariate shift**: every layer learns on inputs whose distribution moves, because the layers
below are learning too. Ioffe and Szegedy hoped to speed training up by holding means and variances still
([Ioffe and Szegedy, 2015](https://arxiv.org/abs/1502.03167)); whitening every layer would be the thorough way, at a prohibitive price.
[Santurkar et al. (2018)](https://arxiv.org/abs/1805.11604) tested the idea as one should, by spoiling just what was supposed to help. After
each BatchNorm they added noise, with a new mean and scale for each channel and step:
"""

# %%
print(inspect.getsource(NoisyBatchNorm.forward))

# %% [markdown]
r"""
The layers above now receive a distribution that jumps at every step. If shift is what slows training, this
network must suffer most. Eight plain layers, He's rule, three rates. We watch the training loss: the
question is about speed.
"""

# %%
shaken = {"model.depth": [8], "train.steps": [sizes.noise_steps]}
norms = {
    "none": {"model.norm": "none"},
    "batch": {"model.norm": "batch"},
    "batch, noisy": {"model.norm": "noisy-batch"},
}
watch = {"probes": [("validation", "test", "landscape", "input-shift", "gradient-shift")]}
noise = lab.run(
    Experiment(
        digits, {**shaken, **watch, "arm": norms, "train.lr": sizes.noise_rates, "seed": five}
    )
)
at_tenth = {arm: part.where(lr=1e-1) for arm, part in noise.by("arm").items()}


def mean_loss(record):
    """Training loss, averaged over the whole run: small means fast."""
    return float(np.mean(record.losses))


# %%
plots.loss_curves(
    {
        arm: part.where(seed=seed).values(lambda record: record.losses)
        for arm, part in at_tenth.items()
    },
    ylabel="training loss (nats per image)", ylim=(0.0, 3.0), smooth=10,
    caption="Rate 0.1. The noisy network is shaken at every step.",
    provenance=lab.provenance(*at_tenth.values()),
)  # fmt: skip


# %%
def shift(record):
    """Typical move of a unit's mean and deviation in one step, in units of its deviation."""
    return float(np.exp(np.mean(np.log(list(record.probes["input-shift"].values())))))


moves = {
    arm: {lr: cell.values(shift) for lr, cell in part.by("lr").items()}
    for arm, part in noise.by("arm").items()
}
claim(
    "00-noise-brings-the-shift",
    "At rate 0.1 the inputs of the noisy network's rectifiers move {mean:.0f} times as far per step as "
    "BatchNorm's, and {bare:.1f} times as far as without norms.",
    [a / b for a, b in zip(moves["batch, noisy"][1e-1], moves["batch"][1e-1], strict=True)],
    bare=float(np.mean(moves["batch, noisy"][1e-1]) / np.mean(moves["none"][1e-1])),
    said="Noise behind BatchNorm moves the inputs of a layer more from step to step than BatchNorm alone.",
    source="Santurkar et al. 2018, arXiv 1805.11604, Figure 2",
    criterion="> 10",
    kind="at",
)

# %%
claim(
    "00-shift-does-not-slow-training",
    "At rate 0.1 the noisy network's mean training loss is {mean:.2f} nats below that of the network without norms.",
    minus(at_tenth["none"].values(mean_loss), at_tenth["batch, noisy"].values(mean_loss)),
    said="Shifting inputs do not slow training: the noisy network ends below the one without norms.",
    source="Santurkar et al. 2018, arXiv 1805.11604, Figure 2 (VGG on CIFAR-10)",
    published="noisy BatchNorm trains about as fast as BatchNorm, faster than none",
    criterion="> 0.2",
    kind="at",
)

# %% [markdown]
r"""
Is that a fact about shift, or about that rate? Here are all three rates.
"""

# %%
fast = {
    arm: {lr: cell.values(mean_loss) for lr, cell in part.by("lr").items()}
    for arm, part in noise.by("arm").items()
}
plots.curves(
    fast,
    xlabel="learning rate", ylabel="mean training loss (nats)", logx=True,
    caption="Lower is faster. The price of the noise, and the gain from the norm, at each rate.",
    provenance=lab.provenance(noise),
)  # fmt: skip

# %%
slowest, quickest = min(sizes.noise_rates), max(sizes.noise_rates)
claim(
    "00-shift-does-not-slow-training-at-low-rates",
    "At rate 0.01 the mean training loss without norms, minus the noisy network's, is {mean:+.2f} nats.",
    minus(fast["none"][slowest], fast["batch, noisy"][slowest]),
    said="At a low rate, too, the noisy network trains faster than the one without norms.",
    source="Santurkar et al. 2018, arXiv 1805.11604, Figure 2",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
So the verdict hinges on the rate. (The first card of this section says how far inputs move; BatchNorm's can
hardly move at all where we measure, right behind the norm.) Noise does cost something: the noisy curve lies
above the quiet one everywhere, and at the lowest rate, where eight layers need no norm, it is the slowest
of the three. But a violent shift at every step does not bring back the trouble of the bare network at the
high rate. Whatever BatchNorm does there, it does without keeping distributions still.

Their second test measures the shift where it matters, in the gradient: how far does the gradient of a
matrix move when only the matrices *below* make their step? If norms worked by reducing this, it should be
smaller with them. They report that it is not. (They compare lengths of differences, and angles. We divide by
the length of the gradient.)
"""


# %%
def moved(record):
    """Mean relative change of a matrix's gradient, over layers and the watched steps."""
    return float(np.mean(list(record.probes["gradient-shift"].values())))


best = {arm: part.best("lr") for arm, part in noise.by("arm").items()}
own = {arm: part.where(lr=best[arm]) for arm, part in noise.by("arm").items()}
rows = []
for arm, part in noise.by("arm").items():
    by_rate = {f"moved, rate {lr:g}": cell.values(moved) for lr, cell in part.by("lr").items()}
    loss = mean_or_none(own[arm].values("validation.loss"))
    averages = {head: float(np.mean(found)) for head, found in by_rate.items()}
    rows.append({"norm": arm, **averages, "own rate": best[arm], "validation loss there": loss})
plots.table(rows)

# %%
claim(
    "00-norms-do-not-calm-the-gradient-from-below",
    "Relative move of the gradient caused from below, each at its own rate: BatchNorm's minus none's is {mean:+.2f}.",
    minus(own["batch"].values(moved), own["none"].values(moved)),
    said="With BatchNorm a layer's gradient is moved no less by the update of the layers below it.",
    source="Santurkar et al. 2018, arXiv 1805.11604, section 2.2",
    published="no smaller, often larger, with BatchNorm",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
Contradicted, at our size, by our measure, and at every rate of the table: with BatchNorm the gradient
moves *less* from below. They looked at a VGG and at a deep linear network; this is a small perceptron. Does covariate shift
return by the back door? In part, perhaps. Look at the noisy row: the steps of the noisy network disturb the
layers above as little as the quiet one's. But mind what that row leaves out. To see the effect of the step
alone, the probe draws the same noise before and after it, so the jumps are not in it. What the noise has
shown is that *inputs* need not hold still. Calm gradients may be part of what a norm gives; the next
measurement says more about them.

The last column tells a price of the noise that training hides: on validation images, where it is switched
off, the noisy network is far behind.

### The ground underfoot

Their own explanation: norms make the *landscape* smoother. Stand where training stands, look down the
gradient, and walk. How much does the loss vary on the way, and how soon does the gradient point elsewhere?
(Again the noise, where there is some, is held fixed.)
"""


# %%
def walk(record, key, start):
    """Average a landscape quantity over the watched steps, at each distance."""
    seen = list(record.probes["landscape"].values())
    values = np.mean(
        [np.minimum(np.abs(np.array(s[key]) - start * s[key][0]), 1e6) for s in seen], axis=0
    )
    return dict(zip(seen[0]["rates"][-len(values) :], values.tolist(), strict=True))


def over_seeds(arm, key, start=0):
    walks = own[arm].values(lambda record: walk(record, key, start))
    return {eta: [w[eta] for w in walks] for eta in walks[0] if eta}


# %%
plots.curves(
    {arm: over_seeds(arm, "loss", start=1) for arm in norms},
    xlabel="step along the gradient, η", ylabel="change of the loss (nats)", logx=True, logy=True,
    caption="How far the loss moves when one walks η times the gradient, averaged over the run. "
    "Each network was trained at its own best rate (above), so the same η is more of its own steps for one than for another.",
    provenance=lab.provenance(*own.values()),
)  # fmt: skip


# %%
def at_distance(arm, key, eta, start=0):
    return [float(np.log10(x)) for x in over_seeds(arm, key, start)[eta]]


claim(
    "00-smoother-loss",
    "Walking η = 0.1, the loss moves 10 to the power {mean:.1f} times as far without norms as with BatchNorm.",
    minus(at_distance("none", "loss", 0.1, 1), at_distance("batch", "loss", 0.1, 1)),
    said="Along a step the loss moves further without norms than with BatchNorm.",
    source="Santurkar et al. 2018, arXiv 1805.11604, Figure 4a",
    criterion="> 0.3",
    kind="best",
)

# %%
claim(
    "00-gradients-predict-further",
    "Walking η = 0.1, the gradient's relative change is 10 to the power {mean:.1f} times as large without norms.",
    minus(at_distance("none", "change", 0.1), at_distance("batch", "change", 0.1)),
    said="BatchNorm makes the gradient predict further: along a step it changes less than without norms.",
    source="Santurkar et al. 2018, arXiv 1805.11604, Figure 4b",
    criterion="> 0.1",
    kind="best",
)

# %% [markdown]
r"""
Why should it be smoother? Take one channel, $m$ values $y$ in a batch, their deviation $\sigma$, the
standardized values $\hat y$ and the norm's gain $\gamma$. The Jacobian of BatchNorm is $\gamma/\sigma$
times a projection: it removes from a gradient the part along the constant direction and the part along
$\hat y$, and scales the rest. That is the heart of their Theorem 4.1, here as an equality:

$$\|\nabla_y \mathcal L\|^2 = \frac{\gamma^2}{\sigma^2}\Big(\|g\|^2 - \frac1m\langle \mathbf 1, g\rangle^2 - \frac1m\langle g, \hat y\rangle^2\Big),$$

where $g$ arrives at the norm's output and $\nabla_y \mathcal L$ leaves at its input. (Exercise 6 asks for the
proof. They state it as a bound between two networks, with and without the norm; that takes the same $g$ in
both.) Note the condition in it: the gradient surely shrinks where $\sigma \ge \gamma$, and it can grow where
$\sigma$ is small.
"""

# %%
torch.manual_seed(seed)
norm, y = BatchNorm(1, eps=0.0).double(), (3 * torch.randn(50, 1).double() + 1).requires_grad_()
norm.weight.data.fill_(0.7)
g = torch.randn(50, 1).double()
left = torch.autograd.grad(norm(y), y, g)[0].square().sum()
hat = ((y - y.mean()) / y.std(correction=0)).detach()
right = g.square().sum() - g.sum() ** 2 / 50 - (g * hat).sum() ** 2 / 50
claim(
    "00-batch-norm-theorem",
    "The two sides of the equality behind the theorem differ by {mean:.0e} of their size.",
    (left / (0.7**2 / y.var(correction=0) * right) - 1).abs().item(),
    said="Both sides of the theorem's equality are the same number.",
    source="Santurkar et al. 2018, arXiv 1805.11604, Theorem 4.1",
    criterion="< 1e-9",
    kind="exact",
    tolerance=1e-9,
)

# %% [markdown]
r"""
### What the skips carry

One more look at the stream itself. In a residual model the same vector runs from bottom to top, so one can
read the answer off it early: apply the final norm and the output matrix after any block. [Geva et al. (2021)](https://arxiv.org/abs/2012.14913)
did much the same with a trained language model and found that layers refine a running guess, and that even
the last one may overturn it.
"""

# %%
reader = Run(
    model=ModelConfig(
        "pre",
        "layer",
        dim=sizes.reader_dim,
        depth=6,
        activation="gelu",
        context=32,
    ),
    data=Text(batch=16, time=32),
    train=TrainConfig(
        steps=sizes.reader_steps,
        lr=5e-3,
        warmup=sizes.reader_warmup,
    ),
    probes=("early-answers",),
)
answers = lab.run(Experiment(reader, {"seed": few}))


def read_early(what):
    """Average over seeds, after the embedding and after each block."""
    return np.mean(answers.values(f"early-answers.{what}"), axis=0).tolist()


# %%
shares = zip(read_early("agreement"), read_early("confidence"), strict=True)
plots.table(
    [
        {"after block": n, "already the final answer": same, "its mean probability": p}
        for n, (same, p) in enumerate(shares)
    ]
)

# %%
claim(
    "00-the-last-block-still-decides",
    "The last block overturns {mean:.0%} of the answers that stood before it.",
    [1 - run[-2] for run in answers.values("early-answers.agreement")],
    said="The last block still changes some of the answers.",
    source="Geva et al. 2021, arXiv 2012.14913, section 5",
    published="layers, the last one included, go on changing the prediction",
    criterion="> 0.05",
    kind="at",
)

# %% [markdown]
r"""
Here is the third kind of card. The mean lies well inside the criterion, but three seeds differ so much that
the interval reaches below zero, where no share can be. It says: too few.

Does the skip let a decoder peek at the future, past the causal mask? No: it carries a position's vector to
the same position. Change the last token, and count what moves before it:
"""

# %%
torch.manual_seed(seed)
model, text = ModelConfig("none", context=32).build(), torch.randint(96, (4, 32))
other = text.clone()
other[:, -1] = (other[:, -1] + 1) % 96
claim(
    "00-skips-do-not-leak",
    "With skips and a causal mask, changing the last token moves earlier logits by {mean:g}.",
    (model(other) - model(text))[:, :-1].abs().max().item(),
    said="Skips do not undo the causal mask.",
    source="causality of attention",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
## What the sources say, and what we measured

| source and setting | what it says | here |
| --- | --- | --- |
| [He et al. (2015)](https://arxiv.org/abs/1502.01852), section 2.2 | with ReLU, variance $2/n$ keeps the signal, Xavier's loses half of its energy per layer | `00-he-keeps-the-size`, `00-xavier-loses-half-the-energy` |
| [He et al. (2016)](https://arxiv.org/abs/1512.03385), Figure 1: CIFAR-10, 20 and 56 layers | the deeper plain network has the higher *training* error | `00-deeper-plain-networks-fit-worse` |
| [He et al. (2016)](https://arxiv.org/abs/1603.05027), Table 3: CIFAR-10, 1,001 layers | v1 7.61 %, v2 4.92 % error | `00-v2-beats-v1-when-deep`, at 48 layers |
| the same, section 3: CIFAR-10, 110 layers | every other shortcut that they tried ends with a higher error than the identity | not tested |
| [Santurkar et al. (2018)](https://arxiv.org/abs/1805.11604), Figure 2: VGG on CIFAR-10 | noisy BatchNorm trains about as fast as BatchNorm | `00-shift-does-not-slow-training`, `…-at-low-rates` |
| the same, section 2.2 | BatchNorm does not reduce the shift of gradients from below | `00-norms-do-not-calm-the-gradient-from-below` |
| the same, Figure 4 | smoother loss, more predictive gradients | `00-smoother-loss`, `00-gradients-predict-further` |
| [Zhang et al. (2019)](https://arxiv.org/abs/1901.09321) | residual networks train as well without norms | `00-small-branches-need-no-norm`, with a simpler rule than theirs |

And some sentences that travel without their conditions:

| often said | but |
| --- | --- |
| "a 96-layer transformer without norms diverges" | from Xavier, at once; with small branches not here, in 96 sublayers and 60 steps |
| "with norms the learning rate no longer depends on depth" | GPT-3 has norms; its rate falls from $6\cdot10^{-4}$ at 12 layers to $0.6\cdot10^{-4}$ at 96, which are also wider ([Brown et al., 2020](https://arxiv.org/abs/2005.14165)) |
| "with norms initialization hardly matters" | the initial scale turns into a learning rate: `00-norm-hides-the-scale` |
| "if activations grow, gradients shrink" | they grow together |
| "without skips the gradient vanishes, with them it cannot" | with skips and large branches it explodes; and $I + J_f$ can shrink too: take $f(x) = -x$ |
| "norms reduce covariate shift, and therefore help" | `00-shift-does-not-slow-training` |

## Where it goes wrong

**A highway with a toll.** A
[PyTorch port of Highway networks](https://github.com/kefirski/pytorch_Highway/blob/master/highway/highway.py)
sends the carried signal through a matrix of its own. Its docstring says so. With the gate closed this is a
row of people again. Rebuilt in four lines:
"""


# %%
class TollHighway(Highway):
    """What is carried passes a matrix."""

    def __init__(self, make_norm, sublayer, place):
        super().__init__(make_norm, sublayer, place)
        self.linear = nn.Linear(place.dim, place.dim)

    def step(self, x, f):
        T = self.transform(x)
        return T * f(x) + (1 - T) * self.linear(x)


report = check.block(TollHighway, "highway")
print(report.summary)
print([law.message for law in report.failed if law.name == "skip path"])

# %% [markdown]
r"""
The law "skip path" silences the sublayer and asks what is left of $x$: not $x$.

**The shortcut leaves too late.** In a much-copied repository of CIFAR models the pre-activation block took
its shortcut *after* norm and rectifier ([issue 9](https://github.com/kuangliu/pytorch-cifar/issues/9); the
author agreed). Nothing crashes, and no path is free any more.
"""


# %%
def late_shortcut(x, f, norm):
    x = torch.relu(norm(x))
    return x + f(x)


report = check.block(late_shortcut, "resnet-v2")
print(report.summary, {law.cause for law in report.failed})

# %% [markdown]
r"""
**The rectifier that reached back.** `nn.ReLU(inplace=True)` at the head of a branch overwrites its input.
With a norm before it, this is harmless: the norm has made a copy. Take the norm away, and the *skip* is
rectified too. It happened in a [VQ-VAE](https://github.com/rosinality/vq-vae-2-pytorch/issues/60) and in an
[improved ResNet](https://github.com/iduta/iresnet/pull/2). The check notices that its input was
overwritten:
"""

# %%
for name, step in {
    "resnet-v2": lambda x, f, norm: x + f(torch.relu_(norm(x))),
    "none": lambda x, f: x + f(torch.relu_(x)),
}.items():
    failed = [law.cause for law in check.block(step, name).failed if law.name == "inputs kept"]
    print(f"{name}: {failed or 'inputs kept'}")

# %% [markdown]
r"""
### A check-up for a sick network

Before you blame data or optimizer, take three numbers at initialization. They cost one batch. (The first
row was not trained in this chapter; the others are in the map of seven designs.)
"""


# %%
def check_up(config):
    """Size factor per matrix; cosine between images; first over last matrix' gradient."""
    torch.manual_seed(seed)
    net, labels = config.build().double(), torch.randint(10, (len(images),))
    streams = signal(net, images.double())
    size = (streams[-1].square().mean() / streams[0].square().mean()).item()
    unit = streams[-1] / streams[-1].norm(dim=-1, keepdim=True)
    F.cross_entropy(net(images.double()), labels).backward()
    slopes = [p.grad.norm().item() for p in net.parameters() if p.ndim == 2]
    cosine = ((unit @ unit.T).sum().item() / len(images) - 1) / (len(images) - 1)
    return size ** (0.5 / config.depth), cosine, slopes[1] / slopes[-2]


# %%
SICK = [
    ("loss stays at guessing", "default weights, no norm", "He's rule, or a norm", StackConfig("plain", init="torch", depth=48)),
    ("loss falls slowly, if at all", "all inputs merged", "skips", StackConfig("plain", depth=48)),
    ("NaN in the first steps", "large branches on a stream", "small branches, or a norm", StackConfig("none", depth=48)),
    ("loss stays at guessing", "norms, no skips: gradients explode", "skips", StackConfig("plain", "batch", depth=48)),
    ("none", "healthy", "—", StackConfig("resnet-v2", "batch", depth=48)),
]  # fmt: skip
rows = []
for symptom, cause, fix, config in SICK:
    size, cosine, slope = check_up(config)
    numbers = {"size factor": size, "cosine": cosine, "gradient, first/last": slope}
    rows.append({"what you see": symptom, "cause": cause, **numbers, "fix": fix})
plots.table(rows)

# %% [markdown]
r"""
Read it by columns: size factors should be near 1, the cosine well below 1, the last column within two
powers of ten of 1.

## Exercises

**1 (by hand).** A row of $L$ layers of gain $g$. (a) What is $1.02^{100}$, to three digits? (b) By how many
per cent may each of 96 layers enlarge the signal, if it must not more than double in all?
"""

# %% tags=["exercise"]
yours = {"a": ..., "b": ...}

# %%
truth = {"a": 1.02**100, "b": 100 * (2 ** (1 / 96) - 1)}
check.answer(yours, truth, name="1", hint="take logarithms: ln(1 + x) is nearly x", rtol=5e-3)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\ln 1.02 \approx 0.0198$. For (b), $96\ln g = \ln 2 \approx 0.693$.

</details>
<details><summary>Solution</summary>

(a) $e^{100 \cdot 0.0198} = e^{1.98} \approx 7.24$. (b) $2^{1/96} \approx 1.00725$: $0.725$ per cent a
layer. A person in the row must be very careful.

</details>

**2 (by hand).** A stream of variance 1 and forty-eight residual steps without norms. Each branch puts out
an unrelated vector with the variance of what it reads. (a) The RMS at the end? (b) The same with every
branch multiplied by $1/\sqrt{48}$?
"""

# %% tags=["exercise"]
yours = {"a": ..., "b": ...}

# %%
truth = {"a": 2.0**24, "b": (1 + 1 / 48) ** 24}
check.answer(yours, truth, name="2", hint="variances add; RMS is a root", rtol=0.01)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Variance after one step: $1 + 1$ in (a), $1 + \frac1{48}$ in (b).

</details>
<details><summary>Solution</summary>

(a) $\sqrt{2^{48}} = 2^{24} = 16{,}777{,}216$. (b) $\sqrt{(1 + 1/48)^{48}} = (49/48)^{24} \approx 1.64$,
close to $\sqrt e \approx 1.65$.

</details>

**3 (by hand).** A highway's gate starts at $T = \sigma(b)$. Over fifty layers the carried signal is
multiplied by $(1 - \sigma(b))^{50}$. (a) What is left for $b = -2$, a usual choice? (b) Which $b$ leaves
one half?
"""

# %% tags=["exercise"]
yours = {"a": ..., "b": ...}

# %%
open_gate = 1 - 0.5 ** (1 / 50)
truth = {"a": (1 - 1 / (1 + np.exp(2))) ** 50, "b": float(np.log(open_gate / (1 - open_gate)))}
check.answer(yours, truth, name="3", hint="σ(−2) ≈ 0.119; then invert σ", rtol=0.03)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$1 - \sigma(b) = 1/(1 + e^{b})$.

</details>
<details><summary>Solution</summary>

(a) $0.8808^{50} \approx 0.0018$: even a highway whose gates are nearly shut forgets, by the arithmetic of the first
page. (b) $1 - \sigma(b) = 2^{-1/50} \approx 0.98623$, so $e^{b} = 1/0.98623 - 1 \approx 0.01396$ and
$b \approx -4.27$.

</details>

**4 (in code).** A *leaky* rectifier passes negative values times $a$. Which standard deviation must weights
with `fan_in` inputs have, so that a layer keeps the mean square?
"""


# %% tags=["exercise"]
def leaky_deviation(fan_in, a):
    """Return the standard deviation of the weights."""
    return ...


# %%
def check_leaky(rule):
    """Hold a rule against the mean square of 40 leaky layers, at two slopes."""
    came, wanted = {}, {}
    for a in (0.0, 0.5):
        wanted[f"slope {a}"] = (2 / ((1 + a * a) * 100)) ** 0.5
        came[f"slope {a}"] = rule(100, a)
    return check.answer(
        came, wanted, name="4", hint="what share of the energy does it let through?"
    )


check_leaky(leaky_deviation)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Half of the values are negative. Their squares are multiplied by $a^2$.

</details>
"""


# %% tags=["solution"]
def solved_leaky(fan_in, a):
    """A solution of exercise 4: the layer lets (1 + a²)/2 of the energy through."""
    return (2 / ((1 + a * a) * fan_in)) ** 0.5


assert check_leaky(solved_leaky).ok

# %% [markdown]
r"""
**5 (in code).** Write a step of ResNet v2. `f` is the sublayer, `norm` its norm; `torch.relu` is yours to
place. The check compares with the paper's equation, and tells you which block you have written instead.
"""


# %% tags=["exercise"]
def my_step(x, f, norm):
    """x ← x + f(relu(N(x)))."""
    return ...


# %%
def check_step(step):
    """Hold a step against ResNet v2."""
    return check.block(step, "resnet-v2")


check_step(my_step)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Nothing may stand on the stream: neither the norm nor the rectifier.

</details>
"""


# %% tags=["solution"]
def solved_step(x, f, norm):
    """A solution of exercise 5."""
    return x + f(torch.relu(norm(x)))


assert check_step(solved_step).ok

# %% [markdown]
r"""
**6 (a proof).** Prove the theorem about BatchNorm. One channel, $m$ values $y_j$, their mean $\mu$ and
deviation $\sigma$, $\hat y = (y - \mu)/\sigma$, output $\gamma\hat y$. The gradient $g$ arrives at the
output. Show that the squared length of the gradient at the input is
$\frac{\gamma^2}{\sigma^2}\big(\|g\|^2 - \frac1m\langle\mathbf 1,g\rangle^2 - \frac1m\langle g,\hat y\rangle^2\big)$.
When is it larger than $\|g\|^2$?

<details><summary>Hint</summary>

Show first that the Jacobian of $\hat y$ is $\frac1\sigma P$ with
$P = I - \frac1m\mathbf 1\mathbf 1^\top - \frac1m\hat y\hat y^\top$. Then ask what $P^2$ is.

</details>
<details><summary>Solution</summary>

$\partial\mu/\partial y_j = \frac1m$. From $\sigma^2 = \frac1m\sum_i (y_i - \mu)^2$ follows
$2\sigma\,\partial\sigma/\partial y_j = \frac2m(y_j - \mu)$, the terms with $\partial\mu$ cancelling because
$\sum_i(y_i - \mu) = 0$; so $\partial\sigma/\partial y_j = \frac1m\hat y_j$. Hence

$$\frac{\partial\hat y_i}{\partial y_j} = \frac{\delta_{ij} - \frac1m}{\sigma} - \frac{y_i - \mu}{\sigma^2}\cdot\frac{\hat y_j}{m} = \frac1\sigma\Big(\delta_{ij} - \frac1m - \frac1m\hat y_i\hat y_j\Big) = \frac1\sigma P_{ij}.$$

The vectors $\mathbf 1/\sqrt m$ and $\hat y/\sqrt m$ have length 1, since $\sum\hat y_i^2 = m$, and are
orthogonal, since $\sum\hat y_i = 0$. So $P$ is the orthogonal projection that removes these two directions:
$P = P^\top = P^2$. The gradient at the input is $\frac\gamma\sigma P g$, and
$\|Pg\|^2 = g^\top P g = \|g\|^2 - \frac1m\langle\mathbf 1,g\rangle^2 - \frac1m\langle\hat y,g\rangle^2$,
which proves the claim.

It is larger than $\|g\|^2$ when $\gamma/\sigma > \|g\|/\|Pg\|$, enough to outweigh what $P$ removes: a channel
with tiny deviation has its gradients *enlarged*. "Smoother" is a statement about networks whose channels
would otherwise be wide.

</details>

**7 (open).** In the map of seven designs, plain networks with BatchNorm fail at forty-eight layers, and we
blamed depth. Maybe they are only slow. Predict first: will four times as many steps close the gap to ResNet
v2? Half of it? Then run it, at the rate chosen above, with three seeds. What result would make you change
the sentence "norms alone are not enough"?
"""

# %% tags=["exercise"]
my_prediction = "…"
pair = {name: tuned[f"{name} | {high}"] for name in ("plain, BatchNorm", "resnet-v2")}
longer = {"train.steps": [4 * digits.train.steps], "seed": few}
my_experiment = Experiment(digits, {"arm": pair, **longer})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
<details><summary>Hint</summary>

In the check-up table its inputs are kept apart, but the first matrix has a far larger gradient than the last,
and one rate must serve both. Can time mend that? Remember what a norm does to the gradient of weights that
have grown.

</details>

## What you now know

- Depth multiplies. Signal and gradient share the gain, and explode or vanish together.
- Initialization sets the size, at the first moment; it keeps neither inputs apart nor rank.
- Skips give an identity path and the identity function for free, lift singularities, and make the stream
  grow. Where they lead matters: nothing may stand on them.
- BatchNorm alone lets gradients explode; skips with large branches explode. Skips with small branches train
  without any norm, in a narrow range of rates.
- "No norm diverges" is a sentence about an initialization and a rate. What the norm added, in our runs, is
  room in the learning rate.
- Shift put back on purpose did not bring the trouble back at a high rate; at a low one the noise cost more
  than the norm gave. The landscape of the normalized network is smoother.
- A card holds, was not seen, or is contradicted, at a stated setting. You have met all three.

## References

Works cited: [Schraudolph (1998)](https://nic.schraudolph.org/bib2html/b2hd-facede.html), [Glorot and Bengio (2010)](https://proceedings.mlr.press/v9/glorot10a.html), [He et al. (2015)](https://arxiv.org/abs/1502.01852), [He et al. (2016)](https://arxiv.org/abs/1512.03385), [He et al. (2016)](https://arxiv.org/abs/1603.05027), [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167), [Srivastava et al. (2015)](https://arxiv.org/abs/1505.00387), [Balduzzi et al. (2017)](https://arxiv.org/abs/1702.08591), [Orhan and Pitkow (2018)](https://arxiv.org/abs/1701.09175), [Santurkar et al. (2018)](https://arxiv.org/abs/1805.11604), [Zhang et al. (2019)](https://arxiv.org/abs/1901.09321), [Yang et al. (2019)](https://arxiv.org/abs/1902.08129), [Radford et al. (2019)](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf), [Brown et al. (2020)](https://arxiv.org/abs/2005.14165), [Geva et al. (2021)](https://arxiv.org/abs/2012.14913).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
