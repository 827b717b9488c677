# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Statistics of the batch

**Question.** BatchNorm takes its mean and variance from the whole batch. So its output depends on padding, batch size and the other examples, and to process one token at a time it needs running statistics.
Its successors try to repair this. How much of the batch's statistics can be kept, and at what cost?

**In short.**

| you look for | in a sentence | section |
| --- | --- | --- |
| who is averaged | if an image is a book, BatchNorm averages one page of all books, LayerNorm a book, InstanceNorm a page, and GroupNorm a booklet; in a transformer, LayerNorm averages one token, not its sentence | [books and pages](B_batch.ipynb#who-is-averaged-books-and-pages) |
| what a norm must do | BatchNorm depends on other examples in training, and its output is not bounded in evaluation; LayerNorm, RMSNorm, DyT and, in evaluation, PowerNorm meet all three demands | [three demands](B_batch.ipynb#three-demands-measured) |
| BatchNorm or LayerNorm | BatchNorm needs other examples, running statistics and a mask; LayerNorm needs none of them | [line by line](B_batch.ipynb#batchnorm-v-layernorm-line-by-line) |
| covariate shift; BatchNorm with few examples; GroupNorm | measured in two chapters | [chapter 00](00_why_normalize.ipynb#test-add-covariate-shift-back), [chapter 01](01_batchnorm_vs_layernorm.ipynb#measure-the-batch-shrinks) |
| BatchNorm at inference | an affine map, which can be folded into an adjacent matrix; LayerNorm must compute statistics | [chapter 01](01_batchnorm_vs_layernorm.ipynb#powernorm-repbn-and-prepbn), [chapter 09](09_memory_wall.ipynb) |
| which norms depend on later tokens | BatchNorm, RepBN and PRepBN in training mode; PowerNorm's forward pass during its warm-up only | [later tokens](B_batch.ipynb#which-norms-violate-causality) |
| padding and small batches | a share $p$ of zeros makes centred values $1/\sqrt{1-p}$ times as large; if $m$ values share a mean, a standardized value near 0 is off by about $1/\sqrt m$ | [lengths](B_batch.ipynb#lengths-padding-one-token-at-a-time) |
| do batch statistics fluctuate more in text | no such effect is detected in our language model | [chapter 01](01_batchnorm_vs_layernorm.ipynb#do-batch-statistics-fluctuate-more-in-text) |
| batch noise as a regularizer | no lower test loss is detected at three learning rates, for perceptrons on 128 digits | [noise](B_batch.ipynb#the-noise-of-a-batch) |
| whitening | removes the correlations that BatchNorm leaves; needs more rows than features | [whitening](B_batch.ipynb#whitening-what-batchnorm-leaves-undone) |
| PowerNorm, RepBN, PRepBN | trained on text, none is shown to have a lower loss than LayerNorm; RepBN, at BatchNorm's learning rate, has the highest mean loss | [repairs](B_batch.ipynb#batch-statistics-repaired-and-trained) |
| the gradient in a network with BatchNorm | it grows by about $\sqrt{\pi/(\pi-1)}$ per plain layer on its way down; at the lowest norm it grows by more if the inputs are images, and shrinks if they are noise | [its gradient](B_batch.ipynb#where-batchnorms-gradient-grows) |
| keys that no query selects | many in few dimensions, none after a norm without $\epsilon$ | [keys](B_batch.ipynb#keys-that-no-query-selects) |
| LayerNorm as the only nonlinearity | a trained network with four LayerNorms labels most points of three rings correctly; linear layers alone predict the more common class | [LN-Net](B_batch.ipynb#linear-layers-and-layernorm) |
| InstanceNorm and style | a channel's mean and standard deviation are removed, or exchanged | [style](B_batch.ipynb#instancenorm-contrast-brightness-style) |

[What a claim is](claims.md) explains the words on the cards, such as *preregistered* or *weak*.
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch
from scipy.optimize import linprog

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits, FewDigits, Points
from labkit.corpora.text import decode_tokens, training_text
from labkit.experiments import Domain, Experiment, Lab, Run, computed, exact, ladder, regime
from labkit.model.bare import BareMLPConfig
from labkit.model.stacks import StackConfig, follow_gradient, signal
from labkit.model.vision import CNNConfig
from labkit.model.vit import ViTConfig
from labkit.norms import (
    BatchNorm,
    PowerNorm,
    batch_norm,
    dynamic_tanh,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from labkit.probes.look import join_batches
from labkit.probes.timing import fold_prenorms

# %%
lab = Lab("B_batch", size=size, seed=seed, memory={"kernel": "1150M", "run": "1000M"})
sizes = lab.sizes(
    text_rates=list(ladder.COARSE),
    rates=[1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1],
    image_rates=[1e-2, 3.16e-2, 1e-1, 3.16e-1, 1.0],
    noise_steps=400,
    net_steps=500,
    image_steps=200,
    draws=200_000,
)
rung, five, ten = "S", lab.seeds(5), lab.seeds(10)

# %% [markdown]
r"""
## Who is averaged: books and pages

Think of a stack of $N$ books, each of $C$ pages, each page of $H$ lines with $W$ characters. A book is an example, a page is a channel, and a character is
one number. Then **BatchNorm** averages the $N H W$ characters on page 6 of *all* books, and does the same for every other page, so its means form one book with a single character per page. **LayerNorm** of images averages the $C H W$ characters of a whole book. **InstanceNorm** averages the $H W$ characters of one page of one book. **GroupNorm** cuts a book
into $G$ booklets of $C/G$ pages and averages each. With one booklet it is LayerNorm of images, and with $C$ booklets it is InstanceNorm.
"""

# %%
plots.bookshelf(
    ["batch", "layer", "instance", "group-3"],
    caption="Four books of six pages, with four characters per page. Each row is a book. The coloured characters share a mean with the last character. "
    "Only with BatchNorm do characters of different books share a mean.",
).named("bookshelf")

# %% tags=["mechanism"]
shelf = torch.randn(4, 6, 2, 2, generator=torch.Generator().manual_seed(seed)).double()
averages = {
    "batch": (lambda x: batch_norm(x, training=True), 4 * 2 * 2),
    "layer": (lambda x: group_norm(x, 1), 6 * 2 * 2),
    "instance": (instance_norm, 2 * 2),
    "group": (lambda x: group_norm(x, 3), 6 // 3 * 2 * 2),
}


def count_heard(norm, x):
    """Count the inputs that move the last output."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(norm(x).flatten()[-1], x)
    return int((gradient != 0).sum())


# %%
heard = {name: count_heard(norm, shelf) for name, (norm, _) in averages.items()}
differ = sum(heard[name] != count for name, (_, count) in averages.items())
exact(differ, tolerance=0.0).claim(
    "B-books-share-means",
    "<= 0",
    "If a book is an example and a page is a channel, BatchNorm averages one page of all books, LayerNorm averages a book, InstanceNorm averages a page, and GroupNorm averages a booklet.",
    found="A character's output depends on {batch} characters with BatchNorm, on {layer} with LayerNorm, on {instance} with InstanceNorm and on {group} with GroupNorm. The analogy of books and pages predicts these numbers, with {mean:.0f} exceptions.",
    source="an analogy of Exploring the Transformer, part 14, itself without a source; the norms' definitions",
    beside=heard,
)

# %% [markdown]
r"""
The analogy is for images. A transformer's LayerNorm averages the features of *one token*, that is, one character position through all pages of a book ([chapter 01](01_batchnorm_vs_layernorm.ipynb#one-tensor-four-averages)).

*Exploring the Transformer*, part 14, from which the analogy comes, prints the outputs of PyTorch's BatchNorm for three small tensors. We compare them with those of this book's BatchNorm:
"""

# %%
printed = {
    "BatchNorm1d, (2, 3)": ([[1, 2, 3], [6, 4, 5]], [-1, -1, -1, 1, 1, 1]),
    "BatchNorm1d, (2, 2, 2)": (
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        [-1.2127, -0.7276, -1.2127, -0.7276, 0.7276, 1.2127, 0.7276, 1.2127],
    ),
    "BatchNorm2d, (2, 2, 2, 2)": (
        [[[[1, 2], [3, 4]], [[100, 102], [4, 3]]], [[[2, 3], [4, 5]], [[101, 103], [5, 3]]]],
        [-1.6330, -0.8165, 0, 0.8165, 0.9691, 1.0100, -0.9947, -1.0151, -0.8165, 0, 0.8165, 1.6330, 0.9896, 1.0305, -0.9742, -1.0151],
    ),
}  # fmt: skip
apart = [
    (batch_norm(torch.tensor(x).double(), training=True).flatten() - torch.tensor(y)).abs().max()
    for x, y in printed.values()
]
exact(max(apart), tolerance=5e-5).claim(
    "B-printed-batch-norms-hold",
    "< 6e-5",
    "BatchNorm averages a channel over examples and positions: its outputs agree with three that a survey prints.",
    found="The outputs of this book's BatchNorm differ from the three printed outputs by at most {mean:.0e}.",
    source="Exploring the Transformer, part 14, l. 133–163",
)

# %% [markdown]
r"""

## Three demands, measured

*Transformer Anatomy*, part 7, demands three things of a norm: (1) outputs of bounded size, whatever the input's size, (2) no dependence on other examples, and (3) a map smooth enough for stable gradients. Here an example is one token. *Growth* is the factor by which the output grows when the input is a thousand times as large. *Others* is the largest change of a token's output when all other tokens change. *Slope* is the largest
absolute entry of the Jacobian, for tokens with standard deviations of about 1, $10^{-2}$ and $10^{-4}$. The third demand names no number, so we count it as met if a single bound holds for the slope at every input. In the table $v$ is BatchNorm's smallest running variance, and $\phi$ is PowerNorm's smallest running mean square (PowerNorm divides twice, first by the token's own RMS). *Bounded* means a growth below 10, and *independent* means a change below $10^{-9}$.
"""

# %%
torch.manual_seed(seed)
tokens, others = torch.randn(2, 16, 8).double()
batch_in_use = BatchNorm.on_last_axis(8).double()
for _ in range(60):
    batch_in_use(tokens)
power = PowerNorm(8, groups=2, warmup=0).double()
for _ in range(60):
    power(tokens)

# %%
v, phi = (of.min().item() for of in (batch_in_use.running_var, power.running_square))
maps = {  # each with a bound of its slope
    "no norm": (lambda x: x, "derivative", 1.0),
    "BatchNorm in training": (lambda x: batch_norm(x, training=True), "1/√ε", 1e-5**-0.5),
    "BatchNorm in evaluation": (batch_in_use.eval(), "1/√(v + ε)", (v + 1e-5) ** -0.5),
    "PowerNorm in evaluation": (power.eval(), "1/√(ε(φ + ε))", (1e-5 * (phi + 1e-5)) ** -0.5),
    "LayerNorm": (layer_norm, "1/√ε", 1e-5**-0.5),
    "RMSNorm": (rms_norm, "1/√ε", 1e-6**-0.5),
    "DyT": (lambda x: dynamic_tanh(x, 0.5), "α", 0.5),
}


# %%
def measure_demands(norm):
    """Measure the three demands on one map of (tokens, features)."""
    with torch.no_grad():
        growth = (norm(1000 * tokens).square().mean() / norm(tokens).square().mean()).sqrt()
        other = torch.cat([tokens[:1], others[1:]])
        moved = (norm(other)[0] - norm(tokens)[0]).abs().max()
    slopes = [torch.func.jacrev(norm)(spread * tokens).abs().max() for spread in (1, 1e-2, 1e-4)]
    return {"growth": growth.item(), "heard": moved.item(), "slope": max(slopes).item()}


demands = {
    name: measure_demands(norm) | {"law": law, "bound": bound}
    for name, (norm, law, bound) in maps.items()
}

# %%
plots.table(
    {
        "map": name,
        "growth": f"{of['growth']:.3g}",
        "others": f"{of['heard']:.2g}",
        "slope": f"{of['slope']:.4g}",
        "bound of the slope": f"{of['law']} = {of['bound']:.4g}",
        "bounded": "yes" if of["growth"] < 10 else "no",
        "independent": "yes" if of["heard"] < 1e-9 else "no",
    }
    for name, of in demands.items()
)

# %%
meets = [
    name
    for name, of in demands.items()
    if of["growth"] < 10 and of["heard"] < 1e-9 and of["slope"] <= of["bound"]
]
evaluated, trained = demands["BatchNorm in evaluation"], demands["BatchNorm in training"]
exact(evaluated["growth"] if trained["heard"] > 0.1 else 0.0).claim(
    "B-batch-norm-breaks-a-demand-in-each-mode",
    "> 100",
    "BatchNorm's output depends on other examples in training mode (against demand 2), and is unbounded in evaluation mode (against demand 1).",
    found="In training mode, BatchNorm's output for a token changes by {heard:.1f} when the other tokens change. In evaluation mode, an input that is 1,000 times as large gives an output that is {mean:,.0f} times as large.",
    source="Transformer Anatomy, part 7, names demand 2 alone; in evaluation BatchNorm is affine",
    beside={"heard": trained["heard"]},
)

# %%
exact(demands["LayerNorm"]["slope"] if "LayerNorm" in meets else float("inf")).claim(
    "B-four-maps-meet-the-demands",
    "<= 316.3",
    "LayerNorm's output is bounded and does not depend on other examples, and its slope is at most 1/√ε.",
    found=f"All three demands on a norm are met by {{count}} of {{all}} maps ({', '.join(meets)}). LayerNorm's largest slope is {{mean:.0f}}, and 1/√ε is 316.",
    source="demands of Transformer Anatomy, part 7; the Jacobian of a norm over values of variance 0",
    beside={"count": len(meets), "all": len(maps)},
)

# %% [markdown]
r"""
*What we find.* The demands do not single out LayerNorm. RMSNorm meets them, too, and DyT meets them without any statistic. PowerNorm meets them in evaluation because it first divides each token by its RMS. The third demand excludes none of these maps; only the bounds differ. LayerNorm's slope comes close to its bound
for an almost constant token, and RMSNorm's (with a smaller $\epsilon$) for a token near zero.

## BatchNorm v LayerNorm, line by line

“Layer normalization, an article” compares BatchNorm and LayerNorm in six rows, five of which we compute in training mode, for sixteen tokens of eight features. “Changes by” gives the largest change of the first token's output.
"""

# %%
in_training = maps["BatchNorm in training"][0]
padded = torch.cat([tokens, torch.zeros(16, 8).double()])


def move(norm, x):
    """Measure how far the first token moves when `x` stands in place of all tokens."""
    return (norm(x)[0] - norm(tokens)[0]).abs().max().item()


def fill_rows(norm, module):
    """Fill the article's rows for one norm."""
    try:
        alone = f"changes by {move(norm, tokens[:1]):.1g}"
    except ValueError:
        alone = "raises an error"
    return {
        "values in a mean": str(count_heard(norm, tokens)),
        "with a quarter of the batch": f"changes by {move(norm, tokens[:4]):.1g}",
        "running statistics": str(sum(b.numel() > 1 for b in module.buffers())),
        "with as much padding as tokens": f"changes by {move(norm, padded):.1g}",
        "one token alone": alone,
    }


# %%
filled = {
    "BatchNorm": fill_rows(in_training, batch_in_use),
    "LayerNorm": fill_rows(layer_norm, torch.nn.LayerNorm(8)),
}
plots.table(
    [{"row": row, **{name: of[row] for name, of in filled.items()}} for row in filled["BatchNorm"]]
)

# %%
cut, pads = (move(in_training, x) for x in (tokens[:4], padded))
layer_move = max(move(layer_norm, x) for x in (tokens[:1], tokens[:4], padded))
exact(layer_move if min(cut, pads) > 0.1 else float("inf"), tolerance=1e-12).claim(
    "B-layer-norm-needs-nobody",
    "<= 1e-12",
    "LayerNorm's output depends on neither the batch size nor padding, whereas BatchNorm's output depends on both.",
    found="With LayerNorm, a token's output changes by {mean:.1g} if the token is alone, next to padding or in a quarter of the batch. With BatchNorm, it changes by {cut:.1f} in a quarter of the batch and by {pads:.1f} next to padding.",
    source="“Layer normalization, an article”: its table",
    beside={"cut": cut, "pads": pads},
)

# %% [markdown]
r"""
The sixth row is about the use of the two norms in modern LLMs. Appendix D [counts the model families that use each norm](D_numbers.ipynb#who-uses-which-norm).

## Lengths, padding, one token at a time

**Padding.** Let a share $p$ of the positions be padding with the value $c$, and let the real values have mean $\mu$ and variance $\sigma^2$. Without a mask BatchNorm computes the mean and variance

$$\tilde\mu = (1-p)\,\mu + p\,c, \qquad \tilde\sigma^2 = (1-p)\,\sigma^2 + p(1-p)(\mu - c)^2.$$

If values of mean 0 are padded with zeros, the variance shrinks to $(1-p)\sigma^2$. Outputs for real values are then $1/\sqrt{1-p}$ times as large as without padding, and *this factor depends on the lengths of the other sentences*. A mask removes the effect exactly, if every norm of the network uses it.
"""

# %%
real = 2 + 3 * torch.randn(4, 5, 10, generator=torch.Generator().manual_seed(seed)).double()
error = {}
for share, pads in ((0.5, 10), (0.75, 30)):
    for c in (0.0, 1.0):
        x = torch.cat([real, torch.full((4, 5, pads), c).double()], dim=2)
        mean, variance = real.mean((0, 2)), real.var((0, 2), correction=0)
        moved = (1 - share) * mean + share * c
        spread = (1 - share) * variance + share * (1 - share) * (mean - c).square()
        law = (real - moved[:, None]) / (spread[:, None] + 1e-5).sqrt()
        error[share, c] = (batch_norm(x, training=True)[:, :, :10] - law).abs().max().item()

# %%
sentences = [s for s in decode_tokens(training_text(200_000)).split(". ") if len(s) > 1]
batches = [sentences[i : i + 16] for i in range(0, len(sentences) - 15, 16)]
shares = [1 - fmean(map(len, of)) / max(map(len, of)) for of in batches]
exact(max(error.values()), tolerance=1e-10).claim(
    "B-padding-inflates",
    "<= 1e-10",
    "Padding changes BatchNorm's mean and variance as two formulas in appendix B predict. A share p of zeros makes centred values 1/√(1−p) times as large.",
    found="BatchNorm's outputs and those that follow from the two formulas differ by at most {mean:.1g}. In batches of 16 sentences of our text, {share:.0%} of the positions are padding, which would make centred values {factor:.1f} times as large.",
    source="Transformer Anatomy, part 7: padding corrupts the statistics; the law above",
    beside={"share": fmean(shares), "factor": (1 - fmean(shares)) ** -0.5},
)

# %%
mask = torch.arange(x.shape[2]).expand(4, -1) < 10
masked = batch_norm(x, training=True, mask=mask)[:, :, :10]
exact((masked - batch_norm(real, training=True)).abs().max(), tolerance=1e-10).claim(
    "B-a-mask-mends-padding",
    "<= 1e-10",
    "A mask removes the effect of padding on BatchNorm exactly.",
    found="With a mask, padding does not change BatchNorm's output at positions without padding (largest difference: {mean:.1g}).",
    source="Transformer Anatomy, part 7: masking helps, but adds complexity",
)

# %% [markdown]
r"""
**Small batches.** Suppose that a value $z$ (measured from $\mu$ in units of $\sigma$) is standardized among $m$ normally distributed values. Their mean and variance have variances of about $\sigma^2/m$ and $2\sigma^4/m$, so to first order the standardized value $\hat z$ satisfies

$$\operatorname{Var}(\hat z) \approx \frac1m\Big(1 + \frac{z^2}2\Big).$$

For a value far from the mean the formula is accurate only in large batches: with the biased variance no standardized value among $m$ exceeds $\sqrt{m-1}$, which is $2.65$ for $m = 8$. So in such a small batch $z = 3$ is pulled towards the mean and varies less than the formula says.
"""

# %%
generator = torch.Generator().manual_seed(seed)
counts, law, scatter = (8, 16, 32, 64, 128, 256), {}, {}
for z in (0, 3):
    for m in counts:
        values = torch.randn(m, sizes.draws * 8 // m, generator=generator)
        values[0] = z
        scatter[z, m] = batch_norm(values, training=True)[0].std().item()
        law[z, m] = ((1 + z * z / 2) / m) ** 0.5

# %%
plots.curves(
    {
        f"z = {z}, {what}": {m: [of[z, m]] for m in counts}
        for z in (0, 3)
        for what, of in (("drawn", scatter), ("formula", law))
    },
    logx=True,
    logy=True,
    counted=True,
    xlabel="values that share a mean, m",
    ylabel="standard deviation of one standardized value",
    caption="Standard deviation, from batch to batch, of one standardized value, against the number m of values that share a mean. The value lies at the mean (z = 0) or three standard deviations from it (z = 3), where the formula holds only in large batches.",
).named("scatter")

# %%
off = {m: max(abs(scatter[z, m] / law[z, m] - 1) for z in (0, 3)) for m in counts}
exact(off[256], tolerance=0.05).claim(
    "B-small-batches-blur-by-the-root",
    "<= 0.1",
    "If m = 256 values share a mean, the standardized value of an input that is z standard deviations from the mean varies from batch to batch with a standard deviation of nearly √((1 + z²/2)/m).",
    found="At z = 0 and at z = 3, the measured standard deviation of a standardized value differs from that of the formula by at most {mean:.0%} if 256 values share a mean, and by up to {few:.0%} if eight do.",
    source="the law above; Exploring the Transformer, part 14: in small samples the statistics lose their meaning",
    beside={"few": off[8]},
)

# %% [markdown]
r"""
**One token at a time.** If only one value is averaged, $x - \mu$ is always 0, so in training mode `labkit` raises an error. In evaluation BatchNorm is a fixed map of each token, so a decoder computes the same outputs token by token as for the whole text.
*Transformer Anatomy*, part 7, warns that running statistics “may not apply” to single decode steps. The step itself is harmless, but the running statistics may not fit an unusual prompt.
"""

# %%
torch.manual_seed(seed)
decoder = ModelConfig(norm="batch", dim=32, depth=2, heads=4, context=16).build()
text = torch.randint(96, (8, 16), generator=torch.Generator().manual_seed(seed))
with torch.no_grad():
    for _ in range(20):
        decoder(text)  # calls in training mode fill the running statistics
    decoder.eval()
    whole_text = decoder(text)
    steps = torch.stack([decoder(text[:1, : t + 1])[0, -1] for t in range(16)])
exact((steps - whole_text[0]).abs().max(), tolerance=1e-4).claim(
    "B-decoding-equals-evaluation",
    "<= 1e-4",
    "In evaluation mode, a decoder with BatchNorm computes the same outputs whether it reads a text token by token or all at once.",
    found="In evaluation mode, the outputs of a decoder with BatchNorm that reads a text token by token differ by at most {mean:.1g} from its outputs for the whole batch at once.",
    source="Transformer Anatomy, part 7, fears that running statistics do not apply to single decode steps",
)

# %% [markdown]
r"""
## The noise of a batch

The error of a small batch's statistics changes from step to step. [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167) regard this noise as a regularizer, and report that in some cases it makes dropout unnecessary. To exclude sampling noise, we let every network read all of its 128 digits at
each step. Only the groups that share a mean and a variance differ: all 128 digits, groups of 8, or groups of 2, drawn again at each step. Such groups are the *ghost batches* of
[Hoffer et al. (2017)](https://arxiv.org/abs/1705.08741). Every network is evaluated with the statistics of all its training images. The networks are perceptrons with two hidden layers of 64 units, trained for 400 steps. Losses are in nats.
"""

# %%
adam = TrainConfig(sizes.noise_steps, betas=(0.9, 0.99), schedule="linear", final_lr=0.0)
noise = Run(BareMLPConfig("batch"), FewDigits(images=128), adam, probes=("whole-set",))
groups = {
    "all 128": {"model.ghost": None},
    "groups of 8": {"model.ghost": 8},
    "groups of 2": {"model.ghost": 2},
}
to_choose = [ladder.TUNING_SEED]


def draw_by(seeds):
    """Let each seed draw examples of its own, too."""
    return {s: {"seed": s, "data.draw": s} for s in seeds}


# %%
grid = {"arm": groups, "draw": draw_by(to_choose), "train.lr": sizes.rates}
tuned = lab.run(Experiment(noise, grid)).by("arm")
own = {name: of.best("lr", by="whole-set.validation.loss") for name, of in tuned.items()}
each = {name: {**arm, "train.lr": own[name]} for name, arm in groups.items()}
noisy = lab.run(Experiment(noise, {"arm": each, "draw": draw_by(ten)})).by("arm")
grid = {"arm": groups, "draw": draw_by(ten), "train.lr": [own["all 128"]]}
at_one_rate = lab.run(Experiment(noise, grid)).by("arm")

# %%
test_loss, train_loss = "whole-set.test.loss", "whole-set.train.loss"
test_accuracy, train_accuracy = "whole-set.test.accuracy", "whole-set.train.accuracy"
elsewhere = {f"{name}, rate of all 128": at_one_rate[name] for name in [*groups][1:]}
plots.dots(
    {
        f"{name}, {what} loss": of.measure(loss)
        for name, of in {**noisy, **elsewhere}.items()
        for what, loss in (("test", test_loss), ("training", train_loss))
    },
    xlabel="loss (nats)",
    caption="Test and training loss of perceptrons on 128 training digits, by the number of images that share a mean and a variance, each network at its tuned learning rate. Groups of 8 and of 2 are also shown at the rate that is best for all 128. Networks with groups of 2 do not fit their training digits.",
    provenance=lab.provenance(*noisy.values(), *at_one_rate.values()),
).named("noise")

# %%
gap = {name: of.measure(test_loss) - of.measure(train_loss) for name, of in at_one_rate.items()}
eight, two = (gap["all 128"] - gap[name] for name in ("groups of 8", "groups of 2"))
eight.claim(
    "B-batch-noise-narrows-the-gap",
    "> 0",
    "At the same rate and updates, noise in batch statistics narrows the gap between training and test loss.",
    found="At the learning rate that is best for BatchNorm statistics of all 128 images, the gap between training and test loss is {apart:.3f} nats {wider} with statistics of groups of 8, and {two:.3f} nats {narrower} with groups of 2.",
    source="Transformer Anatomy, part 7, after Ioffe and Szegedy 2015, arXiv 1502.03167",
    published="a regularizer, in some cases eliminating the need for dropout",
    beside={
        "wider": "wider" if eight.mean < 0 else "narrower",
        "two": abs(two.mean),
        "narrower": "wider" if two.mean < 0 else "narrower",
        "second value": "groups of 2: the opposite sign; two higher learning rates (below)",
        "control": "the same rate",
    },
    domain=Domain("Inception on ImageNet", "perceptrons on 128 digits"),
)

# %%
searched = {
    name: {rate: at.values("whole-set.validation.loss") for rate, at in of.by("lr").items()}
    for name, of in tuned.items()
}
lacking = [*regime.rates(searched), *regime.seeds(ten, to_choose)]
whole, eight = noisy["all 128"], noisy["groups of 8"]
(whole.measure(test_loss) - eight.measure(test_loss)).tuned(lacking).claim(
    "B-batch-noise-lowers-the-test-loss",
    "> 0",
    "At the same updates, each at its own rate, statistics of groups of 8 end at a lower test loss than statistics of all 128 images.",
    found="With tuned learning rates, the test loss with BatchNorm statistics of groups of 8 images is {apart:.3f} nats {side} that with statistics of all 128. The accuracy is {accuracy:.1%} with groups of 8 and {whole:.1%} with all 128 images.",
    source="Transformer Anatomy, part 7, after Ioffe and Szegedy 2015, arXiv 1502.03167",
    published="a regularizer, in some cases eliminating the need for dropout",
    beside={
        "accuracy": eight.measure(test_accuracy),
        "whole": whole.measure(test_accuracy),
        "second value": "groups of 2 (figure)",
    },
    domain=Domain("Inception on ImageNet", "perceptrons on 128 digits"),
)

# %% [markdown]
r"""
*Higher rates.* At the two highest rates, networks with groups of 8 had the lower loss with the seed used for tuning. So we trained with ten fresh seeds at these rates:
"""

# %%
pair = {name: groups[name] for name in ("all 128", "groups of 8")}
high = sizes.rates[-2:]
grid = {"arm": pair, "draw": draw_by(ten), "train.lr": high}
too_fast = lab.run(Experiment(noise, grid))
by_rate = {own["all 128"]: {name: at_one_rate[name] for name in pair}}
by_rate |= {rate: at.by("arm") for rate, at in too_fast.by("lr").items()}
seen = [of.measure(test_loss) for part in (tuned, noisy, at_one_rate) for of in part.values()]


def lead_of_groups(rate, loss):
    """Say by how much groups of 8 end below all 128 in a loss, seed by seed."""
    whole, eight = (of.measure(loss) for of in by_rate[rate].values())
    return (whole - eight).after(*seen)


# %%
plots.table(
    {
        "rate": f"{rate:g}{', best for all 128' * (rate == own['all 128'])}",
        **{f"test loss, {name}": of.measure(test_loss).mean for name, of in both.items()},
        **{f"test accuracy, {name}": of.measure(test_accuracy).mean for name, of in both.items()},
        "larger of the two training losses": f"{max(of.measure(train_loss).mean for of in both.values()):.1g}",
    }
    for rate, both in by_rate.items()
)

# %%
leads = [lead_of_groups(rate, test_loss) for rate in high]
words = [f"{abs(of.mean):.3f} nats {'higher' if of.mean < 0 else 'lower'}" for of in leads]
min(leads, key=lambda lead: lead.mean).claim(
    "B-batch-noise-lowers-the-test-loss-at-high-rates",
    "> 0",
    "At 10 and at 32 times the rate that is best for statistics of all 128 images, groups of 8 end at a lower test loss than statistics of all 128 images.",
    found="With BatchNorm statistics of groups of 8 images, the test loss is {near} than with statistics of all 128 at a learning rate of {first:g}, and {far} at {second:g}.",
    source="this book, after one seed; Transformer Anatomy, part 7",
    beside={
        "first": high[0],
        "near": words[0],
        "second": high[-1],
        "far": words[-1],
        "second value": "two rates; the interval is that of the smaller improvement",
    },
)

# %%
gaps = [lead_of_groups(rate, test_loss) - lead_of_groups(rate, train_loss) for rate in high]
words = [f"{abs(of.mean):.3f} nats {'wider' if of.mean < 0 else 'narrower'}" for of in gaps]
min(gaps, key=lambda gap: gap.mean).claim(
    "B-batch-noise-narrows-the-gap-at-high-rates",
    "> 0",
    "At 10 and at 32 times the rate that is best for statistics of all 128 images, groups of 8 narrow the gap between training and test loss.",
    found="With BatchNorm statistics of groups of 8 images, the gap between training and test loss is {near} than with statistics of all 128 at a learning rate of {first:g}, and {far} at {second:g}.",
    source="this book, after one seed; Transformer Anatomy, part 7",
    beside={
        "first": high[0],
        "near": words[0],
        "second": high[-1],
        "far": words[-1],
        "second value": "two rates; the interval is of the smaller difference",
    },
)

# %% [markdown]
r"""
*What we find.* At the rate that is best for all 128, groups of 8 do not narrow the gap between training and test loss: the gap is wider, though the evidence is weak. With groups of 2 the gap is narrower, but the networks fit their training digits less well, and their test loss is higher. At tuned rates we detect no gain, but cannot exclude a small one. At higher rates the fresh seeds do not confirm the tuning seed's result.

*What cannot be concluded.* Networks with small groups learn with one kind of statistics and are evaluated with another: in a group of 2 every standardized value is nearly $1$ or $-1$. So our comparison measures noise and this mismatch together. We did not try larger networks or dropout.

## Whitening: what BatchNorm leaves undone

BatchNorm gives each feature mean 0 and variance 1, but leaves the *correlations* between features. Whitening removes these, too:

$$y = \Sigma^{-1/2}(x - \mu), \qquad \Sigma = \tfrac1m\textstyle\sum_i (x_i - \mu)(x_i - \mu)^\top, \qquad \operatorname{Cov}(y) = I.$$

[Huang et al. (2018)](https://arxiv.org/abs/1804.08450) do this inside a network, as decorrelated batch normalization, with the *symmetric* root (ZCA). The root along principal axes (PCA) whitens too, but the order of its axes can change from batch to batch, which, they find, harms learning. With whitening they report higher accuracy than with BatchNorm on CIFAR and ImageNet.
"""


# %% tags=["mechanism"]
def whiten(x, eps=0.0):
    """Give (rows, features) mean 0 and covariance I, by the symmetric root."""
    centred = x - x.mean(0)
    values, axes = torch.linalg.eigh(centred.T @ centred / len(x))
    return centred @ axes @ torch.diag((values + eps).rsqrt()) @ axes.T


images, classes = join_batches(Digits(batch=100).load().held_out["test"])
# 16 features: 2 × 2 pixels each
pooled = torch.nn.functional.avg_pool2d(images, 2).flatten(1).double()
inputs = {
    "centred": pooled - pooled.mean(0),
    "BatchNorm": batch_norm(pooled, training=True, eps=0.0),
    "whitened": whiten(pooled),
}
goal = torch.nn.functional.one_hot(classes, 10).double()
goal = goal - goal.mean(0)

# %%
left, condition = {}, {}
for name, x in inputs.items():
    values = torch.linalg.eigvalsh(x.T @ x / len(x))
    condition[name] = (values[-1] / values[0]).item()
    best = x @ torch.linalg.lstsq(x, goal).solution
    weight, losses = torch.zeros(16, 10).double(), []
    for _ in range(1001):
        far = x @ weight - best
        losses.append((far.square().sum() / best.square().sum()).item())
        weight = weight - x.T @ (x @ weight - goal) / len(x) / values[-1]
    left[name] = losses

# %%
marks = [1, 3, 10, 30, 100, 300, 1000]
plots.curves(
    {name: {n: [max(losses[n], 1e-5)] for n in marks} for name, losses in left.items()},
    logx=True,
    logy=True,
    counted=True,
    xlabel="steps of gradient descent",
    ylabel="squared distance to the best predictions (initially 1)",
    caption="Squared distance of the predictions from those of the best linear map, against steps of gradient descent. The task is least squares from 16 features of digits to their classes. The learning rate is one over the covariance's largest eigenvalue. Values below 0.00001 are drawn at 0.00001.",
).named("whitening")

# %%
apart = ~torch.eye(16, dtype=torch.bool)
correlations = {name: torch.corrcoef(x.T)[apart].abs().mean().item() for name, x in inputs.items()}
exact(condition["BatchNorm"] if correlations["whitened"] < 1e-9 else 0.0).claim(
    "B-batch-norm-leaves-correlations",
    "> 10",
    "BatchNorm does not remove the correlations between features, so the condition number of their covariance stays far above 1; whitening removes the correlations.",
    found="The condition number of the features' covariance is {centred:.0f} for centred features, {mean:.0f} after BatchNorm and {whitened:.2f} after whitening. The mean absolute correlation is {off:.2f} after BatchNorm and {none:.0g} after whitening.",
    source="the formulas; Huang et al. 2018, arXiv 1804.08450",
    beside={
        "centred": condition["centred"],
        "whitened": condition["whitened"],
        "off": correlations["BatchNorm"],
        "none": correlations["whitened"],
    },
)

# %%
steps_to = {
    name: next((n for n, v in enumerate(of) if v < 0.01), 1000) for name, of in left.items()
}
few = whiten(pooled[:8], eps=1e-5)
rank = torch.linalg.matrix_rank(few, atol=1e-2).item()
exact(steps_to["whitened"], tolerance=0.0).claim(
    "B-whitened-features-need-one-step",
    "<= 1",
    "Least squares on whitened features needs one step of gradient descent.",
    found="The squared distance to the best linear map's predictions falls below a hundredth of its initial value after {mean:.0f} step of gradient descent on whitened features, after {batch} steps on BatchNorm's features and after {centred} steps on centred features. If only eight rows are whitened, {rank} of the 16 directions remain.",
    source="Σ = I makes the Hessian a multiple of the identity",
    beside={"batch": steps_to["BatchNorm"], "centred": steps_to["centred"], "rank": rank},
)

# %% [markdown]
r"""
*What it costs.* BatchNorm of $m$ rows with $d$ features takes some $8md$ operations. Whitening takes $2md^2$ operations for $\Sigma$, the same number to apply the root, and $O(d^3)$ to compute the root: at $d = 256$ and $m = 1024$ it takes at least $4d/8 = 128$ times as many operations as BatchNorm. Whitening also needs $m > d$ rows: with fewer, $\Sigma$ has at most rank $m - 1$ and no inverse.

*Exploring the Transformer*, part 14, says that whitening damages what the input can express. Indeed, a gain and a bias per feature cannot restore the correlations. But a matrix after the whitening can, if $\Sigma$ has full rank.

## Batch statistics, repaired and trained

- **PowerNorm** ([Shen et al., 2020](https://arxiv.org/abs/2003.07845)): $y = \gamma\odot x/\sqrt{\phi + \epsilon} + \beta$, where $\phi$ is a running mean of $x^2$ for each feature. No mean is subtracted. The authors' code first divides each token by its own RMS, in as many groups of features as there are attention heads. During a warm-up $\phi$ is replaced by the batch's mean of $x^2$.
- **RepBN** ([Guo et al., 2024](https://arxiv.org/abs/2405.11582)): $\mathrm{BN}(x) + \eta x$ with one learned number $\eta$, which the code for images initializes to 1.
- **PRepBN**, of the model SLAB (same paper): $\lambda\,\mathrm{LN}(x) + (1-\lambda)\,\mathrm{RepBN}(x)$, where $\lambda$ falls linearly from 1 to 0. In the code for images $\lambda$ falls with each *forward call*, so gradient accumulation makes it fall faster. In evaluation PRepBN is RepBN, and can be folded into the next matrix ([chapter 01](01_batchnorm_vs_layernorm.ipynb#powernorm-repbn-and-prepbn)).

*Folded.* With the running mean $m$ and variance $v$, PRepBN in evaluation is $y = a\odot x + c$ with $a = \gamma/\sqrt{v + \epsilon} + \eta$ and $c = \beta - \gamma m/\sqrt{v + \epsilon}$. A matrix $W$ after it becomes $W\,\mathrm{diag}(a)$, and its bias becomes $Wc + b$. (`labkit.convert.fold_norms` does this for your model.)
"""

# %%
torch.manual_seed(seed)
whole = ViTConfig(norm="prep-batch").build()
images = Digits(batch=64).load().held_out["validation"][0][0]
with torch.no_grad():
    for weight in whole.parameters():
        weight.add_(0.1 * torch.randn_like(weight))  # gains and shifts leave 1 and 0
    for _ in range(20):
        whole(images)  # calls in training mode fill the running statistics
    whole.eval()
    moved = (whole(images) - fold_prenorms(whole)(images)).abs().max()
exact(moved, tolerance=1e-3).claim(
    "B-folding-changes-nothing",
    "< 1e-3",
    "Every norm of a PRepBN model can be folded into the next matrix.",
    found="Folding every norm of a PRepBN model into the next matrix changes the logits by at most {mean:.0e}.",
    source="Guo et al. 2024, arXiv 2405.11582, and its merge_bn",
)

# %% [markdown]
r"""
*Our runs.* In the book's decoder of 80,000 parameters we replace every norm by BatchNorm and by each of these three norms in turn, and train the decoder for 3,200 steps on text. LayerNorm's runs come from the experiment grid that [all chapters share](01_batchnorm_vs_layernorm.ipynb#in-a-language-model). The same learning rate was best for all norms that we tuned, and we use it for RepBN, too. PRepBN follows the recipe for images.

*The authors' settings.*

| setting | theirs | ours |
| --- | --- | --- |
| PowerNorm, place | translation: the encoder; also language models | decoder |
| PowerNorm, warm-up | 8,000 calls in the layers: the learning rate's [warm-up](https://github.com/sIncerass/powernorm/blob/9ea6226a3203d5d6fcee07a5c6dec38ec6bc5e9f/trans-scripts/train/train-wmt-big.sh#L33), which the [layer](https://github.com/sIncerass/powernorm/blob/9ea6226a3203d5d6fcee07a5c6dec38ec6bc5e9f/fairseq/modules/transformer_layer.py#L36) passes on | 320 calls |
| its BatchNorm baseline | divides tokens by their RMS first | plain |
| PRepBN for images, calls until $\lambda = 0$ | for [DeiT-S](https://github.com/xinghaochen/SLAB/blob/f58db00b9db3959b5de03986f454aa5ff064279a/classification/models/deit.py#L353) the [default](https://github.com/xinghaochen/SLAB/blob/f58db00b9db3959b5de03986f454aa5ff064279a/classification/models/prepbn.py#L20) of 300,000, 80 % of its training; with the paper's linear attention [60,000](https://github.com/xinghaochen/SLAB/blob/f58db00b9db3959b5de03986f454aa5ff064279a/classification/models/slab_deit.py#L401), 16 % | 2,400: 75 % |
| PRepBN in a Llama ([code](https://github.com/xinghaochen/SLAB/blob/f58db00b9db3959b5de03986f454aa5ff064279a/llama/modeling/llama-350M/modeling_llama.py#L96-L158)) | 10,000 counts with RMSNorm alone, then 18,000 until $\lambda = 0$, one per 16 calls; $\eta$, gain and bias start at 0 | no steps with LayerNorm alone; every call counts; $\eta$ and gain start at 1 |
"""

# %%
base = ladder.build_base_run(rung, "pre, layer")
every = base.train.steps
repaired = {
    "BatchNorm": {"model.norm": "batch"},
    "PowerNorm": {"model.norm": "power", "model.norm_kw": (("groups", 4), ("warmup", every // 10))},
    "PRepBN": {"model.norm": "prep-batch", "model.norm_kw": (("steps", every * 3 // 4),)},
}

# %%
search = replace(base, seed=ladder.TUNING_SEED)
rated = lab.run(Experiment(search, {"arm": repaired, "train.lr": sizes.text_rates}))
searched = rated.by("arm")
final = {name: {**repaired[name], "train.lr": of.best("lr")} for name, of in searched.items()}
final["RepBN"] = {**final["BatchNorm"], "model.norm": "rep-batch"}
looks = ("validation", "test", "test-batch-statistics", "leakage", "fluctuation")
final["BatchNorm"]["probes"] = looks  # chapter 01's runs
reported = lab.run(Experiment(base, {"arm": final, "seed": five}))

# %%
climbed = lab.ladder(["pre", "pre, layer", "no attention"])
layered = climbed.where(arm="pre, layer", rung=rung)
coarse = layered.where(stage="tuning", lr=sizes.text_rates)

# %%
plots.curves(
    {
        name: {rate: at.values("validation.loss") for rate, at in of.by("lr").items()}
        for name, of in {"LayerNorm": coarse, **searched}.items()
    },
    logx=True,
    xlabel="learning rate",
    ylabel="validation loss (nats per character)",
    reference=ladder.references(rung),
    caption="Validation loss against learning rate for the same decoder with each of four norms at the same positions. Compare the minima, and how fast each curve rises to the right of its minimum.",
    provenance=lab.provenance(rated),
).named("repaired-by-rate")

# %%
ended = {"LayerNorm": layered.where(stage="first"), **reported.by("arm")}
losses = {name: of.measure("test.loss") for name, of in ended.items()}
plots.dots(
    losses,
    xlabel="test loss (nats per character)",
    caption="Test loss with each norm at the best of five learning rates (of seven for LayerNorm). RepBN was trained only at BatchNorm's best rate.",
    provenance=lab.provenance(reported),
).named("repaired")


# %%
plots.table(
    [
        {
            "norm": name,
            "mean test loss": loss.mean,
            "loss minus LayerNorm's [95 %], not paired": "–"
            if name == "LayerNorm"
            else f"{losses['LayerNorm'].improvement_over(loss):+.4f}",
        }
        for name, loss in losses.items()
    ],
    digits=5,
)


# %%
def compare_tuned(arm, over):
    """Say how far an arm ends below another, each at its own rate, and what that lacks."""
    tuning = {"LayerNorm": layered.where(stage="tuning"), **searched}
    lead = losses[over] - losses[arm]
    lacking = regime.too_young(
        base,
        tuning[over] + tuning[arm],
        ended[over] + ended[arm],
        trigram=ladder.references(rung)["trigram counts"],
        worth=-ladder.improvement(climbed, "no attention")[rung].mean,
        claimed=lead.mean,
    )
    return lead.tuned(lacking)


# %%
compare_tuned("PowerNorm", over="LayerNorm").claim(
    "B-power-norm-ends-below-layer-norm",
    "> 0",
    "With each at its own rate, PowerNorm ends below LayerNorm in a language model.",
    found="With tuned learning rates, PowerNorm's test loss is {apart:.4f} nats {side} LayerNorm's.",
    source="Shen et al. 2020, arXiv 2003.07845",
    published="perplexity lower by 5.6 on PTB and 3.0 on WikiText-103",
    domain=Domain(
        "language models of words on PTB and WikiText-103",
        "a decoder of 80,000 parameters on characters",
    ),
)

# %%
compare_tuned("PowerNorm", over="BatchNorm").claim(
    "B-power-norm-ends-below-batch-norm",
    "> 0",
    "With each at its own rate, PowerNorm ends below BatchNorm in a language model.",
    found="With tuned learning rates, PowerNorm's test loss is {apart:.4f} nats {side} BatchNorm's.",
    source="Shen et al. 2020, arXiv 2003.07845",
    published="a naive use of BatchNorm degrades transformers for language significantly",
    domain=Domain(
        "translation and language models of words, a BatchNorm after a division by RMS",
        "a decoder of 80,000 parameters on characters",
    ),
)

# %%
compare_tuned("PRepBN", over="LayerNorm").claim(
    "B-prep-keeps-up-with-layer-norm",
    "> -0.01",
    "With each at its own rate, PRepBN ends at most 0.01 nats above LayerNorm in a language model.",
    found="With tuned learning rates, PRepBN's test loss is {apart:.4f} nats {side} LayerNorm's.",
    source="Guo et al. 2024, arXiv 2405.11582",
    published="comparable in language modelling (nine tasks 49.8, without it 49.3), at lower latency; images: SLAB-Swin-S, with linear attention, 83.6 % at 16.2 ms",
    domain=Domain(
        "vision transformers on ImageNet, and a Llama of 350 million parameters",
        "a decoder of 80,000 parameters on characters, by the recipe for images",
    ),
)

# %%
(losses["BatchNorm"] - losses["RepBN"]).claim(
    "B-rep-skip-helps-batch-norm",
    "> 0",
    "At the rate that is best for BatchNorm, RepBN ends below it in a language model.",
    found="At BatchNorm's best learning rate, RepBN's test loss is {apart:.4f} nats {side} BatchNorm's.",
    source="Guo et al. 2024, arXiv 2405.11582",
    beside={"last step": "the test loss at the end"},
)


# %%
def has_diverged(record):
    """Say whether a run stopped because its loss was not finite."""
    return record.diverged_at is not None


lost = [f"{row['arm']} at {row['lr']:g}" for row, record in rated if has_diverged(record)]
searched["BatchNorm"].count(has_diverged).over_rates().claim(
    "B-divergence-with-batch-statistics",
    "> 0.05",
    "At some of five learning rates, training a transformer with BatchNorm diverges.",
    found="At five learning rates, {k} of {n} BatchNorm runs diverged. Of the runs with BatchNorm, PowerNorm or PRepBN, {lost} of {all} diverged{which}. Of the LayerNorm runs, {fell} of {plain} diverged.",
    source="Exploring the Transformer, part 14, after Guo et al. 2024, arXiv 2405.11582",
    published="BatchNorm put in directly: collapse in training, or lower accuracy",
    beside={
        "all": len(rated),
        "lost": len(lost),
        "which": f" ({', '.join(lost)})" if lost else "",
        "plain": len(coarse),
        "fell": sum(coarse.values(has_diverged)),
    },
    domain=Domain(
        "vision transformers on ImageNet, and a Llama of 350 million parameters",
        "a decoder of 80,000 parameters on characters",
        inside=False,
    ),
)

# %% [markdown]
r"""
*What we find.* No norm with batch statistics is shown to have a lower loss than LayerNorm. RepBN has the highest mean loss, but we did not tune its rate. PRepBN's mean loss is higher than LayerNorm's, and it remains open whether the difference is below 0.01 nats. Such small differences could change with a finer grid of rates.
The published training lengths and model sizes are *out of range*, so we cannot say whether BatchNorm diverges there.

### Which norms violate causality

BatchNorm violates causality in training mode ([chapter 01](01_batchnorm_vs_layernorm.ipynb#in-training-mode-batchnorm-leaks-future-tokens)), and so do RepBN and PRepBN. PowerNorm's forward pass does so only during the warm-up. Afterwards $\phi$ comes from earlier steps. The backward pass always divides by the root of the batch's mean of $x^2$. It treats $\phi$ as a constant, and a running correction replaces the gradient that would flow through $\phi$.
"""

# %%
heard_in = {}
for warmup in (0, 10_000):
    norm = PowerNorm(8, groups=2, warmup=warmup).double()
    norm(tokens)  # from here on a running φ
    copy = PowerNorm(8, groups=2, warmup=warmup).double()
    copy.load_state_dict(norm.state_dict())
    moved = norm(tokens)[0] - copy(torch.cat([tokens[:1], others[1:]]))[0]
    heard_in[warmup] = moved.abs().max().item()
exact(heard_in[0], tolerance=1e-12).claim(
    "B-power-norm-hears-nobody-after-warm-up",
    "<= 1e-12",
    "After its warm-up, PowerNorm's forward pass does not depend on other tokens of the batch.",
    found="When all other tokens change in training mode, PowerNorm's output for a token changes by {during:.2f} during the warm-up and by {mean:.1g} after it.",
    source="Shen et al. 2020, arXiv 2003.07845, and their code",
    beside={"during": heard_in[10_000]},
)

# %% [markdown]
r"""
## Where BatchNorm's gradient grows

In plain layers a gradient grows at each BatchNorm on its way down, in theory by $\sqrt{\pi/(\pi-1)} \approx 1.211$ per layer. Over 48 layers we measure a little more ([chapter 00](00_why_normalize.ipynb#what-is-wrong-with-batchnorm-alone)). The derivation assumes independent normal units and a mean over very many examples. So we also run the same stack on noise
instead of images and on more examples, and measure the growth in one group of layers at a time. The column $1/\sqrt{2v}$ is explained below the table.
"""

# %%
static = torch.randn(1024, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
pictures, _ = next(Digits(batch=1024).load().draw(seed))
given = {
    f"{count:,} {kind}": of[:count]
    for kind, of in {"images": pictures, "patches of noise": static}.items()
    for count in (64, 1024)
}


def follow_down(name, seed):
    """Build the plain stack by a seed; sizes of a gradient on its way down, the lowest first."""
    torch.manual_seed(seed)
    net = StackConfig("plain", "batch", width=256, depth=48).build()
    return net, follow_gradient(net, given[name])


# %%
def describe_growth(name):
    """Factors by which a gradient grows on its way down, per layer; a row of a table."""
    net, down = follow_down(name, seed)
    below = signal(net, given[name])[0].var(0).mean().item()
    return {
        "growth per layer, with": name,
        "all 48": (down[0] / down[48]) ** (1 / 48),
        "lowest norm": down[0] / down[1],
        "1 / √(2v)": (2 * below) ** -0.5,
        "next three": (down[1] / down[4]) ** (1 / 3),
        "next twenty": (down[4] / down[24]) ** (1 / 20),
        "upper 24": (down[24] / down[48]) ** (1 / 24),
    }


for name in given:
    factors = [(down[0] / down[48]) ** (1 / 48) for _, down in (follow_down(name, s) for s in five)]
    print(f"{name}, five draws: all 48 layers {min(factors):.4f} to {max(factors):.4f}")
plots.table([describe_growth(name) for name in given], digits=4)

# %%
derived = (np.pi / (np.pi - 1)) ** 0.5
downs = [follow_down("64 images", s)[1] for s in five]
excess = [np.log(down[0] / down[48] / derived**48) for down in downs]
lowest = [np.log(down[0] / down[1] / derived) for down in downs]
computed(np.divide(lowest, excess)).claim(
    "B-lowest-norm-makes-most-of-the-excess",
    "> 0.5",
    "With 64 images, the lowest of 48 BatchNorms accounts for most of the gradient's growth beyond the derived factor, √(π/(π−1)) per layer.",
    found="With 64 images, the lowest of 48 BatchNorms accounts for {mean:.0%} of the gradient's growth beyond the derived factor (in logarithms). In the other layers, the mean factor per layer is {rest:.3f}.",
    source="this book: the input's variance, as derived below",
    beside={
        "rest": fmean((down[1] / down[48]) ** (1 / 47) for down in downs),
        "second value": "1,024 images and noise: the average is at the derived factor or below (table)",
    },
)

# %% [markdown]
r"""
In the last two columns all rows are close to the derived factor. With 64 images, the setting of chapter 00, the average over all 48 layers is larger, and the lowest norm accounts for more than half of the excess. With 1,024 images the average is close to the derived factor, because the excess at the lowest norm is about as large as the deficit in the layers above. With noise the average is below the derived factor.

*Why?* In higher layers the norm below sets the variance of the matrix's input: after the ReLU it is $\frac{\pi-1}{2\pi}$, which gives the derived factor. Below the lowest norm there are only its own matrix and the input matrix. Let $v$
be the variance over the batch of the input matrix's output. Then the lowest norm, its matrix and its ReLU multiply a gradient by about $1/\sqrt{2v}$, and by a little more if the units' variances differ. With He's rule, noise gives $v = 2$, so the gradient is halved there. Images resemble one another: a large part of a unit's
output is the same for all images. BatchNorm subtracts this part and divides by the standard deviation of the small remainder, so the gradient grows.

## Keys that no query selects

A query $q$ *selects* the key $k_i$ if $q\cdot k_i > q\cdot k_j$ for all other keys. No query selects a key inside the convex hull of the others, because such a key is an average of them. A linear program decides whether some query selects a key: we look for the largest $t$ for which some bounded $q$ has
$q\cdot(k_j - k_i) + t \le 0$ for all $j \ne i$. Some query selects $k_i$ if this $t$ is positive. After a norm without $\epsilon$ all keys have the same length, so each of several different keys is selected by the query that points in its direction ([chapter 01](01_batchnorm_vs_layernorm.ipynb#what-the-sphere-does-for-attention)).
[Brody et al. (2023)](https://arxiv.org/abs/2305.02582) count keys that no query selects in a trained GPT-2 of width 8: 22 to 45 % of the tokens before LayerNorm, depending on the layer, and none after it ([their table 2](https://github.com/tech-srl/layer_norm_expressivity_role/blob/0a6e74f3d18d66dded55cc06ddcc83c3d0652978/unselectable/images/table2.png)).
"""


# %% tags=["mechanism"]
def can_be_selected(keys):
    """Say for each key (a row) whether some query scores it above all others."""
    found = []
    for i, key in enumerate(keys):
        rest = np.delete(keys, i, axis=0) - key
        rows, goal = np.c_[rest, np.ones(len(rest))], np.r_[0 * key, -1]
        box = [(-1, 1)] * len(key) + [(None, 1)]
        found.append(-linprog(goal, rows, np.zeros(len(rows)), bounds=box).fun > 1e-9)
    return np.array(found)


# %%
treatments = {
    "raw": lambda x: x,
    "centred only": lambda x: x - x.mean(-1, keepdim=True),
    "LayerNorm": lambda x: layer_norm(x, eps=0.0),
    "RMSNorm": lambda x: rms_norm(x, eps=0.0),
}
dims, hidden, by_eps = (3, 4, 6, 8, 12), {}, []
for s in five:
    generator = torch.Generator().manual_seed(s)
    for d in dims:
        keys = torch.randn(40, d, dtype=torch.float64, generator=generator)
        for name, treat in treatments.items():
            share = 1 - can_be_selected(treat(keys).numpy()).mean()
            hidden.setdefault(name, {}).setdefault(d, []).append(share)
        if d == 3:
            by_eps.append(1 - can_be_selected(layer_norm(keys).numpy()).mean())
many = 1 - can_be_selected(np.random.default_rng(seed).normal(size=(128, 8))).mean()

# %%
plots.curves(
    hidden,
    xlabel="dimensions of a key",
    ylabel="share of keys that no query selects",
    caption="Share of forty normally distributed keys that no query selects, against the dimension of a key. Centring removes a dimension. LayerNorm and RMSNorm (with ε = 0) share the line at 0.",
).named("keys-never-selected")

# %%
computed(hidden["raw"][4]).claim(
    "B-raw-keys-hide",
    "> 0.1",
    "In a few dimensions and without a norm, some keys are not selected by any query.",
    found="Of forty normally distributed keys in four dimensions, {mean:.0%} are not selected by any query ({centred:.0%} after centring). In twelve dimensions, {twelve:.0%} are not selected, and of 128 keys in eight dimensions, {many:.0%} are not.",
    source="Brody et al. 2023, arXiv 2305.02582",
    published="22 to 45 % before LayerNorm in a trained GPT-2; 32 to 51 % in one whose norms centre and do not scale",
    beside={
        "centred": fmean(hidden["centred only"][4]),
        "twelve": fmean(hidden["raw"][12]),
        "many": many,
        "second value": "five widths (figure)",
        "control": "the same keys after LayerNorm",
    },
    domain=Domain("a trained GPT-2 of width 8", "normal keys"),
)

# %%
unselected = max(
    share for n in ("LayerNorm", "RMSNorm") for of in hidden[n].values() for share in of
)
exact(unselected, tolerance=0.0).claim(
    "B-a-norm-frees-every-key",
    "<= 0",
    "After LayerNorm or RMSNorm without ε, each of several different keys is selected by some query.",
    found="After LayerNorm or RMSNorm without ε, {mean:.0%} of the keys are not selected by any query. After LayerNorm with the usual ε, up to {usual:.1%} are not selected in three dimensions.",
    source="Brody et al. 2023, arXiv 2305.02582; no point of a sphere is an average of others",
    published="0 % after LayerNorm, in a trained GPT-2 of width 8",
    beside={"usual": max(by_eps)},
)

# %% [markdown]
r"""
*What we find.* Equal *length* makes every key selectable, whereas centring alone makes more keys unselectable. With $\epsilon > 0$ a key with nearly equal entries stays shorter than the others and can be unselectable. So can a key that is projected to fewer dimensions after the norm. We did not count keys of trained models.

## Linear layers and LayerNorm

LayerNorm divides a token by its standard deviation, so linear layers with LayerNorm between them form a nonlinear network.
[Ni et al. (2024)](https://arxiv.org/abs/2406.01255) prove that a width of 3, with a number of layers proportional to the number of points, suffices to label any distinct points in any way. With BatchNorm the same stack is one affine map for a given batch. [Chapter 01](01_batchnorm_vs_layernorm.ipynb#layernorm-as-geometry) solves XOR by hand, with a LayerNorm of three features. *Exploring the Transformer* solves XOR in four steps, with LayerNorm's division alone, which is a projection onto a circle: rotate the four points by 45°, move them onto the line $y = \frac12$, project them onto the circle, and read off $y$.
"""

# %%
points = torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0]]).double()
turned = points @ torch.tensor([[1, 1], [-1, 1]]).double() / 2**0.5
turned[:, 1] = 0.5  # an affine step: x is kept, y becomes a constant
height = (turned / turned.norm(dim=-1, keepdim=True))[:, 1]
exact(height[:2].min() - height[2:].max()).claim(
    "B-xor-by-a-spherical-projection",
    "> 0.1",
    "A rotation, a projection onto the line y = ½ and a projection onto the circle separate the two classes of XOR.",
    found="After the projection onto the circle, the two points of one class are at height {same:.2f}, and the two points of the other class are lower by {mean:.2f}.",
    source="Exploring the Transformer, part 14, l. 199, after Ni et al. 2024, arXiv 2406.01255",
    beside={"same": height[:2].min().item()},
)

# %% [markdown]
r"""
*One LayerNorm cannot classify three concentric rings if the middle ring belongs to one class and the other two to the other.* A linear readout after the LayerNorm decides whether $w\cdot u > c\,\lVert u\rVert$, where $u$ is affine in the point. One of the two classes then fills a convex set. A convex set that contains the middle ring contains the inner ring, too, and a convex set that contains the outer ring contains all three.

Does training find solutions where they exist?
We train networks of width 8 on two tasks in the plane: these rings (the more common class has two thirds of the points), and 32 points with random labels. The learning rate is tuned for each depth.
"""

# %%
tasks = {"rings": Points("rings", 120), "random labels": Points("random", 32)}
depths = (1, 2, 4, 8)
nets = {("no norm", 4): {"model.norm": "none", "model.depth": 4}}
nets |= {("LayerNorm", n): {"model.norm": "layer", "model.depth": n} for n in depths}
arms = {(task, *net): {"data": tasks[task], **nets[net]} for task in tasks for net in nets}
longer = replace(adam, steps=sizes.net_steps)
linear = BareMLPConfig(relu=False, width=8, inputs=2, classes=2)
points_run = Run(linear, tasks["rings"], longer, probes=("whole-set",))

# %%
grid = {"arm": arms, "draw": draw_by(to_choose), "train.lr": sizes.rates}
looked = lab.run(Experiment(points_run, grid))
best = {arm: of.best("lr", by="whole-set.train.loss") for arm, of in looked.by("arm").items()}
each = {arm: {**fields, "train.lr": best[arm]} for arm, fields in arms.items()}
fits = lab.run(Experiment(points_run, {"arm": each, "draw": draw_by(ten)}))
right = {arm: of.measure(train_accuracy) for arm, of in fits.by("arm").items()}
last = {arm: fields for arm, fields in arms.items() if best[arm] == sizes.rates[-1]}
grid = {"arm": last, "draw": draw_by(to_choose), "train.lr": [0.316, 1.0]}
beyond = lab.run(Experiment(points_run, grid))  # of the arms that were best at the last rate
ends = looked.where(arm=[*last], lr=sizes.rates[-1]) + beyond

# %%
plots.curves(
    {task: {n: right[task, "LayerNorm", n] for n in depths} for task in tasks},
    reference={f"{task}, no norm": right[task, "no norm", 4].mean for task in tasks},
    logx=True,
    xlabel="LayerNorms between linear layers",
    ylabel="training accuracy",
    caption="Share of training points that are labelled correctly, against the number of LayerNorms, for networks of linear layers and LayerNorms alone. Dotted lines: five linear layers alone. For three networks the highest learning rate of the grid was best (table below).",
    provenance=lab.provenance(looked, fits, beyond),
).named("linear-and-layernorm")

# %%
columns = ("accuracy at the highest of seven rates", "at 0.316", "at 1")
plots.table(
    {
        "task": task,
        "norm": f"{name}, {n} deep",
        **dict(zip(columns, of.measure(train_accuracy), strict=True)),
        "training losses": ", ".join(f"{loss:.3f}" for loss in of.measure(train_loss)),
    }
    for (task, name, n), of in ends.by("arm").items()
)

# %%
four, none = right["rings", "LayerNorm", 4], right["rings", "no norm", 4]
(four - none).claim(
    "B-ln-net-reads-rings",
    "> 0.2",
    "Linear layers and LayerNorms alone separate rings that linear layers alone do not.",
    found="With four LayerNorms, {share:.0%} of the rings' training points are labelled correctly. This share is larger by {mean:.2f} than with linear layers alone. In {whole} of {n} runs, all points are labelled correctly.",
    source="Ni et al. 2024, arXiv 2406.01255",
    published="with enough layers any points are labelled in any way",
    beside={
        "share": four,
        "whole": sum(share == 1 for share in four),
        "second value": "four depths (figure)",
        "control": "the same stack without the norm",
    },
)

# %%
eight, one = (right["random labels", "LayerNorm", n] for n in (8, 1))
(eight - one).claim(
    "B-ln-net-fits-more-with-depth",
    "> 0.05",
    "Of random labels eight LayerNorms between linear layers fit more than one does.",
    found="Networks with eight LayerNorms fit {eight:.0%} of 32 random labels, and networks with one LayerNorm fit {one:.0%}. The difference between the two shares is {mean:+.2f}.",
    source="Ni et al. 2024, arXiv 2406.01255",
    published="layers in proportion to the points suffice",
    beside={"eight": eight, "one": one, "second value": "four depths (figure)"},
)

# %% [markdown]
r"""
*What we find.* The theorem says that suitable weights exist. In training, networks learned to label most points of the rings correctly (in some runs all of them), and to fit some of the random labels. On both tasks networks with four LayerNorms have the highest accuracy in the figure. We did not detect that the share of random labels that networks fit is more than 0.05 larger with eight LayerNorms than with one. Results of deep stacks vary widely from seed to seed.
On rings a rate beyond our grid gives a lower training loss, with one LayerNorm and with four (table). In the figure, networks with one LayerNorm label fewer points of the rings correctly than a constant prediction of the more common class would. So part of the curve's rise may come from our grid of rates.

## InstanceNorm: contrast, brightness, style

InstanceNorm standardizes each channel of *each image* over its positions. If a channel $x$ is replaced by $a\,x + b$ with $a > 0$, the output does not change:

$$\mathrm{IN}(a\,x + b) = \mathrm{IN}(x) \quad (\epsilon = 0).$$

A change of contrast sets $a$, and a change of brightness sets $b$. In deep features, a channel's mean and standard deviation carry much of a painting's style. To give image $x$ the style of image $s$, [Huang and Belongie (2017)](https://arxiv.org/abs/1703.06868) replace these two numbers of $x$ by those of $s$:
$\mathrm{AdaIN}(x, s) = \sigma(s)\,\mathrm{IN}(x) + \mu(s)$.
"""

# %%
content, style = torch.randn(2, 3, 4, 6, 6, generator=torch.Generator().manual_seed(seed)).double()
style = 2 + 3 * style.exp()
changed = instance_norm(0.25 * content + 7, eps=0.0) - instance_norm(content, eps=0.0)
axes = {"dim": (2, 3), "keepdim": True}
spread = style.std(**axes, correction=0)
mixed = spread * instance_norm(content, eps=0.0) + style.mean(**axes)
unlike = max(
    (mixed.mean(**axes) - style.mean(**axes)).abs().max().item(),
    (mixed.std(**axes, correction=0) - spread).abs().max().item(),
)

# %%
moved = changed.abs().max().item()
exact(max(moved, unlike), tolerance=1e-10).claim(
    "B-instance-norm-drops-two-numbers",
    "<= 1e-10",
    "InstanceNorm removes a channel's mean and standard deviation, which can be replaced by those of another image.",
    found="Reducing an image's contrast to a quarter and adding brightness change InstanceNorm's output by at most {moved:.1g}. The means and standard deviations of AdaIN's output differ from those of the style image by at most {unlike:.1g}.",
    source="Exploring the Transformer, part 14; Ulyanov et al. 2016, arXiv 1607.08022; Huang and Belongie 2017, arXiv 1703.06868",
    beside={"moved": moved, "unlike": unlike},
)

# %% [markdown]
r"""
Does this invariance help a classifier? We train two small CNNs (two convolutions of 8 channels) on digits at full contrast, at tuned learning rates, and test them on fainter digits.
"""

# %%
faint = Run(
    CNNConfig(width=8, depth=2),
    Digits(batch=64),
    TrainConfig(sizes.image_steps),
    probes=("validation", "test", "contrast"),
)
arms = {"BatchNorm": {"model.norm": "batch"}, "InstanceNorm": {"model.norm": "instance"}}
looked = lab.run(Experiment(faint, {"arm": arms, "seed": to_choose, "train.lr": sizes.image_rates}))
each = {arm: {**arms[arm], "train.lr": of.best("lr")} for arm, of in looked.by("arm").items()}
readers = lab.run(Experiment(faint, {"arm": each, "seed": five}))


# %%
contrasts = readers.values("contrast.contrast")[0]
reading = {
    name: {
        contrast: of.measure(lambda record, i=i: record.probes["contrast"]["accuracy"][i])
        for i, contrast in enumerate(contrasts)
    }
    for name, of in readers.by("arm").items()
}
plots.curves(
    reading,
    logx=True,
    xlabel="contrast of the test digits",
    ylabel="test accuracy",
    ylim=(0, 1.02),
    caption="Test accuracy against the contrast of the test digits, for two CNNs trained at contrast 1. InstanceNorm's line is flat because the network's first norm removes contrast, up to ε.",
    provenance=lab.provenance(readers),
).named("contrast")

# %%
instance, batch = reading["InstanceNorm"], reading["BatchNorm"]
(instance[0.25] - batch[0.25]).tuned(regime.untuned(looked, five)).claim(
    "B-instance-norm-reads-faint-digits",
    "> 0.1",
    "At a quarter of the contrast a CNN with InstanceNorm reads digits that one with BatchNorm misreads.",
    found="At a quarter of the contrast, {instance:.0%} of the digits are classified correctly with InstanceNorm and {batch:.0%} with BatchNorm. At full contrast the shares are {full:.0%} and {whole:.0%}.",
    source="this book; Exploring the Transformer, part 14: a channel's statistics carry style",
    beside={
        "instance": instance[0.25],
        "batch": batch[0.25],
        "full": instance[1.0],
        "whole": batch[1.0],
        "second value": "four contrasts (figure)",
        "control": "full contrast",
    },
)

# %% [markdown]
r"""
*Why does BatchNorm fail?* We suspect its *running* statistics, which were collected at contrast 1. To test this we change only the statistics: we give two untrained networks test digits with a quarter of the contrast, or with added brightness, and measure the largest change of a logit.
"""

# %%
digits = Digits(batch=64).load()
seen, dim = next(digits.draw(seed))[0], digits.held_out["test"][0][0]
moved = {}
for label, norm, own_statistics in (
    ("BatchNorm, running statistics", "batch", False),
    ("BatchNorm, statistics of the test batch", "batch", True),
    ("InstanceNorm", "instance", False),
):
    torch.manual_seed(seed)
    net = CNNConfig(norm=norm, width=8, depth=2).build()
    with torch.no_grad():
        for _ in range(60):
            net(seen)  # calls in training mode fill the running statistics
        net.train(own_statistics)
        moved[label] = [(net(x) - net(dim)).abs().max().item() for x in (dim / 4, dim + 0.3)]

# %%
plots.table(
    [
        {
            "largest change of a logit, with": label,
            "contrast / 4": contrast,
            "brightness + 0.3": brightness,
        }
        for label, (contrast, brightness) in moved.items()
    ],
    digits=2,
)

# %%
(running, _), (at_hand, _), (instance, _) = moved.values()
exact(max(at_hand, instance) if running > 0.1 else float("inf"), tolerance=1e-3).claim(
    "B-own-statistics-cancel-contrast",
    "< 1e-3",
    "BatchNorm is as invariant to a common change of contrast as InstanceNorm if it uses the statistics of the test batch, but not if it uses running statistics.",
    found="At a quarter of the contrast, logits change by up to {mean:.1g} with BatchNorm and the statistics of the test batch, by up to {running:.1g} with running statistics, and by up to {instance:.1g} with InstanceNorm.",
    source="the formulas: a common factor leaves both means and deviations; ε breaks it a little",
    beside={"running": running, "instance": instance},
)

# %% [markdown]
r"""
*What we find.* InstanceNorm makes a network invariant to contrast, which is a disadvantage if the contrast carries information. BatchNorm removes a common contrast, too, if it uses the statistics of the batch. In an untrained network only the running statistics make BatchNorm's logits depend on contrast. We did not evaluate the trained CNNs with the statistics of the test batch.
Brightness is removed less well, because the zeros that convolutions add around an image stay dark. Style transfer between pictures is out of range.

## What is not here

- Chapter 01 compares BatchNorm with LayerNorm [in a language model](01_batchnorm_vs_layernorm.ipynb#in-a-language-model). It also compares norms on small batches, including GroupNorm [in a CNN](01_batchnorm_vs_layernorm.ipynb#the-same-batch-of-two-in-a-cnn).
- Chapter 00 tests whether BatchNorm makes the [loss landscape smoother](00_why_normalize.ipynb#smoothness-of-the-loss-landscape).
- Chapter 07 [trains DyT](07_dynamic_tanh.ipynb#on-text-with-tuned-learning-rates), and appendix D estimates what a norm [costs at inference](D_numbers.ipynb#what-a-norm-costs-at-inference).
- The book does not measure the time that folding saves, PowerNorm in an encoder, whitening in networks, or keys of trained models.

## Exercises

**1 (by hand, 5 minutes).** A channel contains the values $3$ and $-3$, followed by six zeros of padding ($\varepsilon = 0$). What is BatchNorm's output for the 3 without a mask, and with a mask? If the real values have mean 0, at what share of padding are their outputs three times as large as they should be?
"""

# %% tags=["exercise"]
yours = {"without a mask": ..., "with a mask": ..., "share": ...}

# %%
channel = torch.tensor([3.0, -3, 0, 0, 0, 0, 0, 0])[:, None]
keep = torch.tensor([True, True, *[False] * 6])
truth = {
    "without a mask": batch_norm(channel, training=True, eps=0.0)[0].item(),
    "with a mask": batch_norm(channel, training=True, eps=0.0, mask=keep)[0].item(),
    "share": 1 - 1 / 9,
}
check.answer(yours, truth, name="1", hint="the factor is 1/√(1 − p)")

# %% [markdown]
r"""
<details><summary>Hint</summary>

The variance over eight values is $18/8$, and over two values it is $9$. The factor is $1/\sqrt{1-p}$.

</details>
<details><summary>Solution</summary>

Without a mask $\sigma = \sqrt{18/8} = \tfrac32$, and the 3 becomes 2. With a mask $\sigma = 3$, and the 3 becomes 1; indeed $p = \tfrac34$ and $1/\sqrt{1-p} = 2$. A factor of 3 needs $1 - p = \tfrac19$, so $p = \tfrac89$.

</details>

**2 (in code, 10 minutes).** Write AdaIN: give each channel of each image in `x` the mean and the standard deviation (biased, $\epsilon = 0$) that the same channel has in the corresponding image of `style`.
"""


# %% tags=["exercise"]
def my_adain(x, style):
    """σ(style) · IN(x) + μ(style), for (images, channels, height, width)."""
    return ...


# %%
def check_adain(adain):
    """Hold AdaIN against labkit's instance norm, on two images of two channels."""
    given = tuple(images[:2, :2, :3, :3].round(decimals=2) for images in (content, style))

    def right(x, style):
        spread, mean = style.std(**axes, correction=0), style.mean(**axes)
        return spread * instance_norm(x, eps=0.0) + mean

    hint = "one mean for each image and channel"
    return check.function(adain, given, right, name="2", hint=hint)


check_adain(my_adain)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Take means over the axes 2 and 3, with `keepdim=True`; `std` takes `correction=0`.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_adain(x, style):
    """A solution of exercise 2."""
    over = {"dim": (2, 3), "keepdim": True}
    standard = (x - x.mean(**over)) / x.std(**over, correction=0)
    return style.std(**over, correction=0) * standard + style.mean(**over)


assert check_adain(solved_adain).ok

# %% [markdown]
r"""
**3 (open).** Batch noise did not help here. Find a setting in which it does, with both networks at tuned learning rates: fewer digits, a wider network, or some wrong labels. Write down in advance which result would make you stop.

## References

Works cited: [Brody et al. (2023)](https://arxiv.org/abs/2305.02582), [Guo et al. (2024)](https://arxiv.org/abs/2405.11582), [Hoffer et al. (2017)](https://arxiv.org/abs/1705.08741), [Huang and Belongie (2017)](https://arxiv.org/abs/1703.06868), [Huang et al. (2018)](https://arxiv.org/abs/1804.08450), [Ioffe and Szegedy (2015)](https://arxiv.org/abs/1502.03167), [Ni et al. (2024)](https://arxiv.org/abs/2406.01255), [Shen et al. (2020)](https://arxiv.org/abs/2003.07845).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
