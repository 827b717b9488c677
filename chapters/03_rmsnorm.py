# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# RMSNorm

**Question.** LayerNorm subtracts a token's mean and divides by its standard deviation. Llama's RMSNorm ([Zhang and Sennrich, 2019](https://arxiv.org/abs/1910.07467))
only divides, by the root mean square. Add 10 to every channel: LayerNorm's output stays the same, but RMSNorm's changes.
Yet in bfloat16, LayerNorm with a common variance formula can fail. What does subtracting the mean do, and when may a norm skip it?

<details><summary>In short (contains spoilers)</summary>

- In a token of $d$ channels, subtracting the mean deletes one direction out of $d$. Under Pre-Norm, a LayerNorm model without shifts *is* an RMSNorm model with
  different weights.
- The means of ordinary tokens are small, so there is little to subtract. At our smallest size, the two norms reach the same loss, within our margin. Where tokens consist mostly of
  their mean, RMSNorm needs a larger learning rate, and its loss is still higher.
- On such tokens, a textbook formula for the variance fails in bfloat16: it subtracts one large rounded number from another. On ordinary tokens, it does no harm.

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

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.experiments import (
    Experiment,
    Lab,
    Run,
    combine,
    computed,
    exact,
    ladder,
    proportion,
    regime,
)
from labkit.model import Perturbed
from labkit.norms import layer_norm, rms_norm, rms_norm_llama, rms_norm_outside, rms_norm_t5
from labkit.norms.arithmetic import variance_in
from labkit.source import show

# %%
lab = Lab("03_rmsnorm", size=size, seed=seed, memory={"kernel": "1050M", "run": "850M"})
sizes = lab.sizes(
    # a pair: book, gpu
    rates=[0.001, 0.00316, 0.01, 0.0178, 0.0316, 0.0562, 0.1],
    timed_rows=(1024, 4096),
    dim=(32, 256),
    depth=(4, 12),
    context=(32, 256),
    steps=(150, 4000),
    held_out=(8_192, 65_536),
    seeds=(5, 10),
)
rung, five = "S", lab.seeds(sizes.seeds)

# %%
tokens = {"a": [3.0, 1.0, -1.0, 5.0], "b": [1.0, 3.0, 5.0, -1.0]}
plots.shadow(
    tokens,
    {"as they are": 0, "10 added to every channel": 10},
    caption="The tokens (3, 1, −1, 5) and (1, 3, 5, −1), and the line on which all channels are equal. LayerNorm first "
    "subtracts a token's shadow on that line, its projection (dashed). The two remainders point in opposite directions, whatever was added to all channels. "
    "RMSNorm keeps the direction of each arrow. With 10 added to every channel, the angle between the two arrows falls from 96° to 21°.",
).named("beside-the-line")

# %% [markdown]
r"""
## LayerNorm without mean subtraction

Take the two tokens in the figure above, $a = (3, 1, -1, 5)$ and $b = (1, 3, 5, -1)$. The mean of $a$ is $\mu = 2$, its variance is
$\sigma^2 = (1 + 1 + 9 + 9)/4 = 5$, and LayerNorm's output is $(a - 2)/\sqrt5$. The mean of the *squares* of $a$ is
$(9 + 1 + 1 + 25)/4 = 9$, so the **root mean square** of $a$ is 3. RMSNorm's output is $a/3$:

$$\mathrm{RMSNorm}(x) = g \odot \frac{x}{\mathrm{RMS}(x)}, \qquad
\mathrm{RMS}(x) = \sqrt{\tfrac1d\textstyle\sum_i x_i^2}.$$

RMSNorm subtracts no mean and usually adds no shift. Each channel keeps a learned gain $g_i$.

The three numbers are related: $9 = 2^2 + 5$. In general, $\mathrm{RMS}^2 = \mu^2 + \sigma^2$:
this is Pythagoras' theorem in that figure. Divide all lengths by $\sqrt d$. Then the arrow's length is the RMS, its shadow on the line $\mathbf 1 = (1, 1, 1, 1)$
is the mean, and the distance of its tip from the line is the standard deviation. If we add 10 to every channel, the shadow grows, but this distance does not:
"""

# %%
a, b = (torch.tensor(token) for token in tokens.values())
plots.table(
    {
        "token": name,
        "LayerNorm": str(layer_norm(token).numpy().round(2)),
        "RMSNorm": str(rms_norm(token).numpy().round(2)),
    }
    for name, token in {"a": a, "b": b, "a + 10": a + 10, "b + 10": b + 10}.items()
)

# %% [markdown]
r"""
With RMSNorm, both $a + 10$ and $b + 10$ come close to $(1, 1, 1, 1)$. The two tokens differ only in their deviations from the mean. In $a$ and $b$, these deviations make up 5/9 of the
energy (here the sum of squares), but in $a + 10$ and $b + 10$ only 5/149. LayerNorm's outputs are unchanged.

### What the subtraction removes

Subtracting the mean is the projection $P = I - \tfrac1d\mathbf 1\mathbf 1^\top$: it deletes the component along
$\mathbf 1$ and nothing else. So LayerNorm is RMSNorm after a projection,

$$\mathrm{LN}(x) = \mathrm{RMSNorm}(Px),$$

if we leave gain and shift aside. Both norms are invariant to the *length* of a token. LayerNorm has
a second invariance: to the token's component along $\mathbf 1$.
"""

# %%
torch.manual_seed(seed)
x = 3 * torch.randn(1000, 60, dtype=torch.float64) + 5
projection = torch.eye(60).double() - 1 / 60
exact(
    (layer_norm(x, eps=1e-6) - rms_norm(x @ projection, eps=1e-6)).abs().max(), tolerance=1e-12
).claim(
    "03-layer-is-rms-of-projection",
    "< 1e-12",
    "LayerNorm is RMSNorm after a projection that subtracts the mean.",
    found="LayerNorm of x and RMSNorm of x minus its mean differ by at most {mean:.1e}.",
    source="Zhang and Sennrich 2019, arXiv 1910.07467; Gupta et al. 2024, arXiv 2409.12951",
)

# %%
changed = {
    "times 3": 3 * x,
    "times −1": -x,
    "plus 10 everywhere": x + 10,
    "plus 10 in one channel": x + 10 * torch.eye(60)[0],
}
keeps = {
    norm: [
        what for what, y in changed.items() if torch.allclose(norm(y, eps=0.0), norm(x, eps=0.0))
    ]
    for norm in (layer_norm, rms_norm)
}
differ = [what for what in changed if (what in keeps[layer_norm]) != (what in keeps[rms_norm])]
exact(len(differ)).claim(
    "03-only-recentring-is-lost",
    "in [1, 1]",
    "Of LayerNorm's invariances, RMSNorm lacks only the invariance to re-centring.",
    found="Of {rows} changes of the input (times 3, times −1, plus 10 everywhere, plus 10 in one channel), LayerNorm and RMSNorm respond differently to {mean:.0f}: {which}.",
    source="Zhang and Sennrich 2019, arXiv 1910.07467, section 4 (invariance analysis)",
    beside={"rows": len(changed), "which": ", ".join(differ)},
)

# %% [markdown]
r"""
The subtraction removes one direction out of $d$: at width 4096, on average one part in 4096 of a random vector's energy. So it should cost little to keep that direction, unless tokens have a large component along it.

### Exercise 1

**1 (in code, 10 minutes).** Write RMSNorm. Its one line contains three decisions: the squares of half-precision
numbers are summed in float32 (float64 stays float64), $\epsilon$ is added under the root, and the result is rounded
once, at the end. The check names your mistake.
"""


# %% tags=["exercise"]
def my_rms_norm(x, weight=None, eps=1e-6):
    return ...


# %%
check.rms_norm(my_rms_norm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`torch.promote_types(x.dtype, torch.float32)` is float32 for half precision and float64 for float64. Where must
the gain be multiplied if only one rounding is allowed?

</details>
"""


# %% tags=["solution"]
# Solution
def solved_rms_norm(x, weight=None, eps=1e-6):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.to(y.dtype)).to(x.dtype)


assert check.rms_norm(solved_rms_norm).ok

# %% [markdown]
r"""
All models with RMSNorm in this book use this function:
"""

# %%
show(rms_norm)

# %% [markdown]
r"""
The backward pass, too, is one step shorter than LayerNorm's. We leave out the gains, and write $g$ for the gradient of the loss with respect to the output $y$. RMSNorm's backward pass removes from $g$ the part along $y$, since a longer $x$ gives the same $y$.
LayerNorm's also removes the mean of $g$.
"""


# %% tags=["mechanism"]
def pull_back(g, x, subtract_mean, eps=1e-6):
    """Return the gradient at the input of LayerNorm, or of RMSNorm, without gains."""
    if subtract_mean:
        x = x - x.mean(-1, keepdim=True)
    r = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    y = x / r
    g = g - y * (g * y).mean(-1, keepdim=True)
    if subtract_mean:
        g = g - g.mean(-1, keepdim=True)
    return g / r


# %%
x = torch.randn(5, 16).double().add(1).requires_grad_()
g = torch.randn(5, 16).double()
for norm, subtract_mean in ((rms_norm, False), (layer_norm, True)):
    theirs = torch.autograd.grad(norm(x, eps=1e-6), x, g)[0]
    assert torch.allclose(pull_back(g, x.detach(), subtract_mean), theirs, rtol=1e-10, atol=1e-12)

# %% [markdown]
r"""
### Pre-Norm models do not need the mean

[Jiang et al. (2023)](https://arxiv.org/abs/2305.14858) noticed that a Pre-Norm model loses nothing at all without the subtraction. In such a
model, *everything* that reads the stream reads it through a norm. If all of these norms are LayerNorms, the stream's
component along $\mathbf 1$ is written, carried and never read. So it can be removed at the source: subtract the mean over
channels from each embedding, and from each column of each matrix that writes to the stream. The stream is now always $Px$
instead of $x$. RMSNorm of the new stream is LayerNorm of the old one, and the model computes the same function. Under Post-Norm this fails: the skip carries the output of a norm, to which the gain gives a mean again.
"""


# %% tags=["mechanism"]
@torch.no_grad()
def with_rms_norm(model):
    """Turn a Pre-Norm model with LayerNorm (no shift) into the same function with RMSNorm."""
    config = replace(model.config, norm="rms", norm_kw=(), norm_eps=1e-5)
    twin = config.build().to(model.embedding.weight.dtype)
    twin.load_state_dict(model.state_dict())
    for name, weight in twin.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            weight -= weight.mean(dim=0)  # channels of the stream are rows here
        if name == "embedding.weight":
            weight -= weight.mean(dim=1, keepdim=True)
    return twin


# %%
torch.manual_seed(seed)
text = torch.randint(96, (4, 32))
unshifted = ModelConfig("pre", "layer", 64, 4, context=32, norm_kw=(("bias", False),))
model = unshifted.build().double()
for gain in [p for name, p in model.named_parameters() if "norm" in name]:
    nn.init.normal_(gain, 1.0, 0.3)  # as if trained
exact((with_rms_norm(model)(text) - model(text)).abs().max(), tolerance=1e-10).claim(
    "03-pre-layer-becomes-pre-rms",
    "< 1e-10",
    "Every Pre-Norm model whose LayerNorms have no shift computes the same function as a model with RMSNorm.",
    found="After the weights are centred, the logits of a Pre-Norm model with LayerNorm and of the same model with RMSNorm differ by at most {mean:.1e}.",
    source="Jiang et al. 2023, arXiv 2305.14858",
    published="equal in exact arithmetic",
)

# %% [markdown]
r"""
<details><summary>And with a shift, or with a tied head?</summary>

A shift $\beta$, which RMSNorm usually lacks, becomes the bias $W\beta$ of the matrix $W$ after the norm. An output head that
shares the embedding's weights must keep a copy of the uncentred weights.

</details>

What, then, does RMSNorm save?

Of the seven operations on each value (sum, subtraction, square, sum of squares, division, gain, shift), RMSNorm saves three: the sum, the subtraction and the shift. Compared with a large model's matrix products, these three operations are negligible. A norm's main cost
is memory traffic: the norm reads a row and writes a row. A fused kernel, one GPU program for the whole norm, keeps the row on the chip between its passes, whichever
formula it computes, so both formulas are about equally fast. An RMSNorm without a fused kernel may even be *slower* than a LayerNorm with one.
**Speed is a property of a kernel, not of a formula.** Chapter 09 measures kernels.
"""

# %%
saved, matrices = 2 * 2 * 8192 * 80, 2 * 70.6e9  # mean and subtraction, 80 layers of two norms
exact(100 * saved / matrices).claim(
    "03-saved-operations-are-few",
    "< 0.01",
    "The operations that RMSNorm saves over LayerNorm are a negligible part of a large model's.",
    found="The sum and the subtraction that RMSNorm saves (not counting the shift) are {mean:.4f} % of the {matrices:.0f} billion operations per token of Llama 3 70B.",
    source="counted from the model's sizes; two operations per parameter and token",
    beside={"matrices": matrices / 1e9},
)

# %%
from labkit.costs.bench import paired


def step_of(norm, x, top):
    """One forward and backward pass."""
    return lambda: norm(x).backward(top)


shape = (sizes.timed_rows, 1024)
x, top = torch.randn(shape, requires_grad=True), torch.randn(shape)
pairs = paired(step_of(nn.RMSNorm(1024), x, top), step_of(nn.LayerNorm(1024), x, top), turns=20)
computed(proportion([rms > layer for rms, layer in pairs]), unit="turns", tolerance=0.3).claim(
    "03-torch-rms-is-no-faster-on-a-cpu",
    "> 0.5",
    "On a CPU, PyTorch's RMSNorm is slower than its LayerNorm.",
    found="In {mean:.0%} of {n} pairs of timings on this machine's CPU, PyTorch's RMSNorm module took longer than its LayerNorm module.",
    source="against 'RMSNorm is faster', said without hardware or kernel",
    published="7 % to 64 % less running time of whole models (Zhang and Sennrich 2019)",
)

# %% [markdown]
r"""
## Does training miss the mean?

### The loss

The *ladder* is the grid of experiments that all chapters share: the same recipes at several model sizes. At size S, the smallest (six blocks of width 32), we compare LayerNorm with RMSNorm, each at its best learning rate.
The two models differ in the shift, too: RMSNorm has only a gain.
We call two norms equal if their losses differ by less than 0.009 nats.
"""

# %%
found = lab.ladder(["pre", "pre, layer", "none", "no attention"])
tuned = found.where(stage="tuning", rung=rung).measure_by("validation.loss", "arm", "lr")


def rate_is_worth(losses):
    """Average what the rates a factor √10 beside the best one cost."""
    means = [fmean(losses[rate]) for rate in ladder.COARSE]
    best = min(range(1, 4), key=means.__getitem__)
    return (means[best - 1] + means[best + 1]) / 2 - means[best]


ahead = {arm: ladder.improvement(found, "pre, layer", over=arm) for arm in ("pre", "none")}
effect = rate_is_worth(tuned["pre"])

# %%
plots.dots(
    {
        name: [loss - fmean(ahead[arm][rung].one) for loss in ahead[arm][rung].other]
        for name, arm in {"RMSNorm": "pre", "no norm": "none"}.items()
    },
    xlabel="test loss minus LayerNorm's mean (nats)",
    threshold={"−0.009": -0.009, "LayerNorm": 0.0, "+0.009": 0.009},
    caption="Test losses of the smallest models, with RMSNorm and without norms, minus LayerNorm's mean test loss. A mean difference between the two outer lines counts as zero. "
    "Even without norms, the tuned model's loss comes close to LayerNorm's.",
    provenance=lab.provenance(found.where(arm=["pre", "pre, layer", "none"], stage="final")),
).named("five-seeds")

# %%
ahead["pre"].claim(
    "03-rms-equals-layer-on-text",
    f"in [-0.009, 0.009] of {effect}",
    "Each at its own rate, RMSNorm and LayerNorm end at the same loss.",
    found="With tuned learning rates, LayerNorm's test loss is {apart:.4f} nats {side} RMSNorm's. A learning rate that is off by a factor of √10 raises the loss by {effect_of_a_rate:.3f} nats.",
    source="Zhang and Sennrich 2019, arXiv 1910.07467; Zhuo et al. 2025, arXiv 2503.04598 v4, Table 8",
    published="2.7631 (RMS) against 2.7639 (LN) at 550M parameters",
    beside={"effect_of_a_rate": effect},
)

# %% [markdown]
r"""
### How large is the mean?

Why does so little depend on the subtraction? Perhaps there is nothing to subtract. The mean's share of a token's energy,
$\mu^2/\mathrm{RMS}^2$, is the token's squared cosine with $\mathbf 1$: 4/9 for $a$, 144/149 for $a + 10$, and on average $1/d$
for a random direction. We measure this share in small models of four blocks, trained for 150 steps.
"""

# %%
bench = Run(
    model=Perturbed(
        recipe="pre",
        norm="layer",
        activation="gelu",
        dim=sizes.dim,
        depth=sizes.depth,
        context=sizes.context,
        init="half-xavier",
    ),
    data=Text(batch=16, time=sizes.context, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps, schedule="linear", lr=1e-2),
    probes=("validation", "test", "mean-share"),
)
short = lab.run(Experiment(bench, {"model.norm": ["layer", "rms"], "seed": five}))

# %%
shares = short.measure_by(lambda record: fmean(record.probes["mean-share"]), "norm")
shares["rms"].claim(
    "03-token-mean-is-small-rms",
    "< 0.05",
    "In language models, the mean over channels accounts for hardly any of a hidden vector's squared length.",
    found="In models of width {dim}, after {steps} steps, the mean over channels accounts for {mean:.1%} of the stream's squared length with RMSNorm, and for {layer:.1%} with "
    "LayerNorm. A random direction would account for {random:.1%}.",
    source="Gupta et al. 2024, arXiv 2409.12951",
    beside={
        "layer": shares["layer"],
        "random": 1 / sizes.dim,
        "dim": sizes.dim,
        "steps": sizes.steps,
        "second value": "size S after 3,200 steps: the last column of the table by learning rate below",
    },
)

# %% [markdown]
r"""
So **there is hardly anything to subtract**, as [Gupta et al. (2024)](https://arxiv.org/abs/2409.12951) found in large
models. (The card is weak, but the longer runs below agree with it.) With RMSNorm, the share is about that of chance, $1/32$ at this width. With LayerNorm, the share is even
smaller. That fits LayerNorm's backward pass, which subtracts the gradient's mean: the matrices that write to the stream get no gradient along $\mathbf 1$.

### When the mean is large

The means of trained tokens are small, so we enlarge them: we add an *offset* of 10 to every channel of every embedding, in the six-block model of size S. Embeddings start with an RMS of 1. So a token's RMS is now
about 10, nearly all of it mean, and the differences between tokens are ten times smaller when they reach the matrices. Matrices ten times as large would compensate for
that. But Adam moves a weight by about one learning rate per step, however small the gradient is. So enlarging the
matrices tenfold takes ten times as many steps, or ten times the learning rate.
"""

# %%
plain = ladder.build_base_run(rung, "pre")
raised = replace(plain, model=Perturbed(**vars(plain.model), embedding_offset=10.0))
arm = {"RMSNorm, offset 10": {}}
search = replace(raised, probes=("validation",), seed=ladder.TUNING_SEED)
tuning = lab.run(Experiment(search, {"arm": arm, "train.lr": sizes.rates}))
of_plain = found.where(arm="pre", rung=rung)
plain_rate, its_rate = next(iter(of_plain.where(stage="first").by("lr"))), tuning.best("lr")

# %% [markdown]
r"""
With the offset, the best learning rate is higher. We train the RMSNorm model with and without the offset, at the two best learning rates and at those in between, so that at each rate only the offset differs:
"""

# %%
between = [rate for rate in sizes.rates if plain_rate <= rate <= its_rate]
looks = ("validation", "test", "mean-share", "residual-rms")
grid = {"train.lr": between, "seed": list(ladder.SEEDS)}
without = lab.run(Experiment(replace(plain, probes=looks), {"arm": {"RMSNorm": {}}, **grid}))
final = lab.run(Experiment(replace(raised, probes=looks), {"arm": arm, **grid}))

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
best = replace(raised.train, lr=its_rate)
lab.train_live(Experiment(replace(raised, train=best, probes=looks), {"arm": arm, "seed": [0]}))


# %%
of_both = of_plain.where(stage="tuning") + without
plots.curves(
    {
        "LayerNorm": tuned["pre, layer"],
        "RMSNorm": of_both.measure_by("validation.loss", "lr"),
        "RMSNorm, offset 10": (tuning + final).measure_by("validation.loss", "lr"),
    },
    xlabel="learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    reference=ladder.references(rung),
    caption="Validation loss against learning rate at size S. The offset of 10 moves RMSNorm's curve to the right: with the offset, the loss is higher at low learning rates, and it begins to rise only at higher learning rates. "
    "We trained LayerNorm only without the offset: by algebra, the offset would not change its curve.",
    provenance=lab.provenance(found.where(stage="tuning", rung=rung), tuning, without, final),
).named("offset-by-rate")

# %%
from labkit.statistics.pooled import compare_samples

scatter = ladder.measure_scatter(found, rung)
searched = tuning.measure_by("validation.loss", "lr")
left = [ladder.measure_left(of, scatter.sd) for of in (tuned["pre"], searched)]
test = final.measure_by("test.loss", "lr")
plain_test = of_plain.where(stage="first").measure("test.loss")
half_step = between[-2:][0]  # one rate below the one that was chosen
cost = compare_samples(
    plain_test.values, test[its_rate].values, scatter, tuned=left[0].join(left[1])
)

# %%
replace(plain_test.improvement_over(test[its_rate]), estimate=cost).tuned(
    regime.too_young(
        raised,
        of_plain.where(stage="tuning") + tuning,
        of_plain.where(stage="first") + final.where(lr=its_rate),
        trigram=ladder.references(rung)["trigram counts"],
        worth=-ladder.improvement(found, "no attention")[rung].mean,
        claimed=cost.mean,
    )
).claim(
    "03-an-offset-hurts-rms",
    "> 0",
    "If an offset makes tokens consist mostly of their mean, RMSNorm's loss is higher, even at its best learning rate.",
    found="With 10 added to every channel, RMSNorm's test loss is {mean:.3f} nats higher than without this offset, with each model at its best learning rate ({its_rate:g} with the offset, {plain_rate:g} without). At {half:g} with the offset, the loss is {at_half:.3f} nats higher than at {plain_rate:g} without.",
    source="this book: RMSNorm is not re-centring invariant",
    beside={
        "plain_rate": plain_rate,
        "its_rate": its_rate,
        "half": half_step,
        "at_half": test[half_step].mean - plain_test.mean,
        "second value": "the next lower learning rate; no other offset",
    },
)

# %% [markdown]
r"""
For RMSNorm, the offset acts like a smaller learning rate: the curve moves to the right, though by less than a factor of ten. But its lowest point is higher, too, and we cannot say why.

### Do the blocks subtract the mean, or outgrow it?

We predicted that the blocks would learn to subtract the mean from the stream. The *share* of the mean does fall from block to block. But
a share can fall in two ways: the mean can shrink (*subtract*), or everything else can grow (*outgrow*). So we split the stream into its mean and the rest.

| question | choices | ours |
| --- | --- | --- |
| Follow the mean of the stream through RMSNorm's model, at its best learning rate. Where the mean is lowest, how much of the embedding's mean is left? <!-- 03-rms-learns-to-remove-the-mean --> | next to nothing; <!-- 0.2 --> about half; <!-- 0.75 --> most of it | <details><summary>show</summary>RMSNorm's blocks learn to remove that mean from the stream.</details> |
"""


# %%
def split_stream(record):
    """Split a run's stream, by depth: the size of its mean, and of the rest."""
    size, share = (np.array(record.probes[name]) for name in ("residual-rms", "mean-share"))
    return size * share**0.5, size * (1 - share) ** 0.5  # exact where all tokens have one size


def follow_mean(record):
    return split_stream(record)[0]


def follow_rest(record):
    return split_stream(record)[1]


# %%
with_it, without_it = final.by("lr"), without.by("lr")
plots.by_depth(
    {f"mean, rate {rate:g}": at.values(follow_mean) for rate, at in with_it.items()}
    | {"rest": with_it[its_rate].values(follow_rest)}
    | {"rest, no offset": without_it[its_rate].values(follow_rest)},
    ylabel="RMS over channels and tokens",
    xlabel="block (0: the embedding)",
    start=0,
    logy=True,
    caption=f"RMS of the stream's mean, and of the rest (the stream minus its mean), by block. How much of the mean the blocks remove depends on the learning rate. The rest is shown at learning rate {its_rate:g}, "
    "with and without the offset. It grows in both models, but far less with the offset.",
    provenance=lab.provenance(final, without.where(lr=its_rate)),
).named("offset-by-block")


# %%
def keep_least(record):
    mean = follow_mean(record)
    return min(mean) / mean[0]


kept = final.measure_by(keep_least, "lr")
kept[its_rate].tuned().claim(
    "03-rms-learns-to-remove-the-mean",
    "< 0.5",
    "If an offset is added to all embeddings, the blocks of a model with RMSNorm learn at every learning rate to remove at least half of the mean from the stream.",
    found="In a model with RMSNorm and an offset of 10, the lowest mean of the stream is {first:.0%} of the embedding's mean at learning rate {lower_rate:g}, and {mean:.0%} at learning rate {higher_rate:g}.",
    source="this book, a prediction",
    beside={
        "first": kept[between[0]],
        "lower_rate": between[0],
        "higher_rate": its_rate,
        "second value": "the lowest learning rate, with the opposite result",
        "last step": "the trained model",
    },
)

# %% [markdown]
r"""
At the learning rate that is best without the offset, the first blocks do remove most of the mean. At the rate that is best with the offset, they
remove hardly any. Does the rest *outgrow* the mean instead?
At the end of the stream, it is larger than the mean. But without the offset, too, the stream is larger at a higher learning rate. To isolate the offset's
effect, we compare models with and without it at the same learning rate:
"""

# %%
rest_at, stream_at = (
    of.measure_by(lambda record: follow_rest(record)[-1], "lr") for of in (final, without)
)
plots.table(
    {
        "learning rate": f"{rate:g}",
        "with the offset: lowest mean (share of the embedding's)": f"{kept[rate].mean:.0%}",
        "with the offset: RMS of the rest after the last block": f"{rest_at[rate].mean:.0f}",
        "without the offset: RMS of the rest after the last block": f"{stream_at[rate].mean:.0f}",
        "without the offset: share of the mean": f"{at.measure(lambda r: r.probes['mean-share'][-1]).mean:.1%}",
    }
    for rate, at in without_it.items()
)

# %%
combine(max, *(rest_at[rate] / stream_at[rate] for rate in between)).claim(
    "03-the-offset-makes-the-stream-smaller",
    "< 1",
    "At the same learning rate, what is not mean ends smaller in the stream with the offset than without it.",
    found="With an offset of 10, the stream minus its mean is {first:.2f} times as large as without the offset at learning rate {lower_rate:g}, and {last:.2f} times as large at learning rate {higher_rate:g}. The criterion applies to each seed's largest ratio over all three learning rates, which is {mean:.2f} on average.",
    source="this book, a prediction",
    beside={
        "first": rest_at[between[0]] / stream_at[between[0]],
        "last": rest_at[its_rate] / stream_at[its_rate],
        "lower_rate": between[0],
        "higher_rate": its_rate,
        "second value": "three learning rates; no other offset",
        "last step": "the trained model",
        "control": "the same learning rate without the offset",
    },
)

# %% [markdown]
r"""
**The rest of the stream does outgrow the mean, but not because of the offset.** Without the offset, it also grows, and at the same learning rate it becomes even larger (at the lowest of the three rates, the evidence is weak). **How much of
the mean the blocks subtract depends on the learning rate.** Real embeddings have no such offset, but the experiment shows the failure from which LayerNorm's subtraction
protects a model.

*By hand.* A probe reports an RMS of 13 and a mean of 12 for a token. What is the mean's share of its energy? And how many times smaller are differences between tokens after RMSNorm than after LayerNorm?

<details><summary>Answer</summary>

The share is $12^2/13^2 = 144/169$. The standard deviation is $\sqrt{169 - 144} = 5$. LayerNorm divides by 5 and RMSNorm by 13, so the differences are 2.6 times smaller.

</details>

## Limited precision: bfloat16, float16, FP8

Now we write the same numbers with fewer digits. bfloat16 keeps 8
significant bits: 7 that it stores, and a leading 1 that it need not store. That is 2.4 decimal digits. Between 1 and 2, its numbers are $2^{-7}$ apart,
between 512 and 1024 they are 4 apart, and between 1024 and 2048 they are 8 apart. float16 keeps 11 bits, and float32 keeps 24. The two kinds of FP8 keep
4 and 3 bits: E4M3 stores three of them, and E5M2 stores two ([Micikevicius et al., 2022](https://arxiv.org/abs/2209.05433)).

Take $a + 30 = (33, 31, 29, 35)$. Its mean is 32, and its variance is still 5. Many kernels and textbooks compute the variance in
one pass over the data, as $\frac1d\sum x_i^2 - \mu^2$, not in two: first $\mu$, then $\frac1d\sum (x_i - \mu)^2$. The mean square is 1029, the squared mean is 1024, and
the difference is 5. In bfloat16, the neighbours of 1029 are 1024 and 1032. So a rounded mean square is one of these two, and
the computed variance is 0 or 8, never 5. The number 1029 itself would round to 1032, but every square is
rounded, too, before the sum: 1089, 961, 841, 1225 become 1088, 960, 840, 1224. Their mean is 1028, half-way between $1024 = 128\cdot8$ and $1032 = 129\cdot8$.
A tie is rounded to the even multiple, 1024. So the computed variance of this token is 0.
"""

# %%
show(variance_in)

# %%
plots.table(
    [
        {"token": name, "true": 5.0}
        | {way: variance_in(t, arithmetic).item() for way, arithmetic in
           (("one pass", "bfloat16 one-pass"), ("two passes", "bfloat16"))}
        for name, t in (("a", a), ("a + 10", a + 10), ("a + 20", a + 20), ("a + 30", a + 30))
    ],
    digits=1,
)  # fmt: skip

# %% [markdown]
r"""
Part 7 of the article series *Transformer Anatomy* ([errata](errata.md)) blames the subtraction $x_i - \mu$ for inaccurate variances in bfloat16. But the two-pass formula subtracts the mean, too, and gets the variance right here. The cause is the difference of two large *rounded* numbers. RMSNorm has nothing to subtract: its mean square is a mean of
positive numbers, which cannot cancel. The statistic is safe, but the output is not: at a mean of 30 standard deviations, all outputs are near 1, where steps of $2^{-7}$ are coarse compared with differences of $1/30$.

### One-pass variance at a mean of 30

Wider tokens do not make the one-pass variance more accurate. Give 4,096 channels a standard deviation of 1 and a mean of 30: the mean square is near 901
and the squared mean near 900, where bfloat16's numbers are 4 apart. So their difference is a multiple of 4: 0, 4
or −4, and never 1. Answer, then move the slider:

| question | choices | ours |
| --- | --- | --- |
| Near a mean of 30 standard deviations, how many one-pass variances in bfloat16 are off by as much as the variance itself, or more? <!-- 03-one-pass-loses-the-variance 03-two-passes-and-rms-are-safe --> | few; <!-- 0.2 --> about half; <!-- 0.8 --> nearly all | <details><summary>show</summary>Near a mean of 30 standard deviations, no one-pass variance in bfloat16 is right, and every two-pass variance is.</details> |
"""


# %% tags=["mechanism"]
def measure(mean, arithmetic, seed=seed, count=100):
    """Return variances of tokens with this mean and deviation 1: rounded, and true."""
    torch.manual_seed(seed)
    x = (torch.randn(count, 4096) + mean).to(getattr(torch, arithmetic.split()[0]))
    return variance_in(x, arithmetic).double(), x.double().var(-1, correction=0, keepdim=True)


def measure_mean_square(mean, seed=seed, count=100):
    """Return RMSNorm's statistic of the same tokens in bfloat16, over the true one."""
    torch.manual_seed(seed)
    x = (torch.randn(count, 4096) + mean).bfloat16()
    return x.square().mean(-1).double() / x.double().square().mean(-1)


# %%
def draw(mean):
    """Draw what three ways make of 500 tokens."""
    return plots.histograms(
        {
            "one-pass": measure(mean, "bfloat16 one-pass", count=500)[0].flatten().tolist(),
            "two-pass": measure(mean, "bfloat16", count=500)[0].flatten().tolist(),
            "RMSNorm": measure_mean_square(mean, count=500).tolist(),
        },
        np.arange(-4.9, 5.0, 0.2).tolist(),
        xlabel="variance (for RMSNorm: mean square divided by the true one)",
        title=f"mean / standard deviation = {mean}",
        reference={"true": 1.0},
        caption=f"Variances of 500 tokens whose mean is {mean} times their standard deviation.",
    )


plots.explore(
    draw,
    [0, 3, 10, 15, 20, 29.9, 30],
    "offset-and-variance",
    label="mean / standard deviation",
    caption="Variances of 500 tokens of width 4096, computed in bfloat16. As the mean grows, one-pass variances fall on a coarser and coarser grid. From a mean "
    "of 16 on, the true value 1 is no longer on that grid, and near 30 only −4, 0 and 4 are left. "
    "The two-pass variance, and RMSNorm's mean square divided by the true one, stay near 1.",
)

# %%
near_30 = [29 + tenth / 10 for tenth in range(12)]
drawn = [measure(mean, "bfloat16 one-pass", count=500) for mean in near_30]
below = [(got <= 0).double().mean().item() for got, _ in drawn]
computed(
    proportion([wrong for got, true in drawn for wrong in ((got / true - 1).abs() >= 1).flatten()]),
    unit="tokens",
).claim(
    "03-one-pass-loses-the-variance",
    "> 0.99",
    "Near a mean of 30 standard deviations, no one-pass variance in bfloat16 is close to the true variance.",
    found="At {means} means from {first:.0f} to {last:.1f} standard deviations, {k:,} of {n:,} one-pass variances in bfloat16 are off by 100 % or more. Depending on the mean, {least:.0%} to {most:.0%} of them are not positive.",
    source="rounding analysis above: multiples of 4",
    beside={
        "means": len(near_30),
        "first": near_30[0],
        "last": near_30[-1],
        "least": min(below),
        "most": max(below),
    },
)

# %% [markdown]
r"""
The two-pass formula makes a different error: it subtracts a *rounded* mean. If that mean is off by $\delta$, the computed variance is
$\sigma^2 + \delta^2$. If the mean is 30, which the format can represent, $\delta$ is small. If it is $30\tfrac1{16}$, half-way between two
representable numbers, $\delta$ is as large as it can be.
"""

# %%
draws, means = lab.seeds(5), (0, 1, 3, 10, 30)
half_way = (1.00390625, 3.0078125, 10.03125, 30.0625)


def error(measured, true):
    """Average the relative error."""
    return (measured / true - 1).abs().mean().item()


def worst(means, seed):
    """Find the largest error of two passes, and of RMSNorm's mean square, at these means."""
    return max(
        max(error(*measure(m, "bfloat16", seed)), error(measure_mean_square(m, seed), 1.0))
        for m in means
    )


computed([worst(half_way, s) for s in draws], unit="draws", tolerance=8e-4).claim(
    "03-two-passes-and-rms-are-safe",
    "< 0.01",
    "In bfloat16, a two-pass variance and RMSNorm's mean square are accurate even at means at which a one-pass variance has no correct digit.",
    found="In bfloat16, the relative errors of a two-pass variance and of RMSNorm's mean square are at most {on_grid:.4f} at five means up to {most:.0f}, and at most {mean:.4f} at means half-way between two representable numbers.",
    source="rounding analysis above",
    beside={"most": max(means), "on_grid": fmean(worst(means, s) for s in draws)},
)

# %% [markdown]
r"""
In a given format, at which mean does the one-pass variance lose its last correct digit? We call this mean the *cliff*. Both terms of the difference are near $\mu^2$, and a format with $p$
significant bits rounds each with a relative error of about $u = 2^{-p}$. For data of variance 1, the error is about $u\mu^2$. It grows
as the *square* of the mean, and the cliff is at $\mu \approx 2^{p/2}$: at 16 standard deviations in bfloat16, at 45 in
float16, and at 4096 in float32.
"""

# %%
grid = [1, 3, 10, 30, 100, 300, 1000, 3000]
errors = {
    way: {
        mean: [error(*measure(mean, way.partition(", ")[2] + kind, s)) for s in draws]
        for mean in grid[:n]
    }
    for way, kind, n in (
        ("one-pass, float32", " one-pass", 8),
        ("one-pass, float16", " one-pass", 5),
        ("one-pass, bfloat16", " one-pass", 4),
        ("two-pass, bfloat16", "", 4),
    )
}

# %%
plots.curves(
    errors,
    xlabel="mean / standard deviation",
    ylabel="relative error of the variance",
    logx=True,
    logy=True,
    reference={"no correct digit": 1.0},
    caption="Relative error of the variance against the mean. With one pass, the three formats give three nearly parallel lines, which rise as the square of the mean until no correct digit "
    "is left. With two passes, the error does not grow, up to a mean of 30.",
    provenance=lab.provenance(),
).named("error-by-mean")

# %%
line = errors["one-pass, float32"]
xs = [m for m in line if 3 <= m <= 300]
computed(np.polyfit(np.log(xs), np.log([line[m] for m in xs]), 1)[0]).claim(
    "03-one-pass-error-grows-as-the-square",
    "in [1.8, 2.2]",
    "The error of a one-pass variance grows as the square of the mean.",
    found="In float32, the error of the one-pass variance grows as the mean to the power {mean:.2f}.",
    source="rounding analysis above",
    predicted=2.0,
)

# %% [markdown]
r"""
Kernels that read a row once but accumulate in float32 move the cliff from 16 to 4096 standard deviations.
They do not remove it, and neither do two passes. The error $\delta$ of the mean that two passes subtract is at most half the distance between two neighbouring numbers of the format. Once the mean is
at least $2^p$ standard deviations (256 in bfloat16), half this distance is a standard deviation or more. A mean close to a representable number
causes almost no error. A mean half-way between two such numbers causes the largest error: if such a mean is large enough, rounding has moved nearly every value of the token to one of these two numbers, each at the distance $\delta$ from the mean.
Then the variance of the rounded token, $\sigma^2$ in the table, is itself about $\delta^2$, and the computed variance is about twice $\sigma^2$.
"""

# %%
rows = []
for mean in (64, 64.25, 128, 128.5, 256, 257, 1000, 1002):
    torch.manual_seed(seed)
    token = (torch.randn(100, 4096) + mean).bfloat16()
    middle, true = token.double().mean(-1), token.double().var(-1, correction=0)
    delta = middle - middle.bfloat16().double()
    got = variance_in(token, "bfloat16")[:, 0].double()
    rows.append(
        {
            "mean": f"{mean:g}",
            "δ²/σ²": (delta.square() / true).mean().item(),
            "error of two passes": error(got, true),
        }
    )
plots.table(rows, digits=2)

# %% [markdown]
r"""
At such means, the format can hardly represent the token itself. RMSNorm's mean square has no cliff of this kind at any mean: it
subtracts nothing. Its limit is the range of the format, which is very large in bfloat16 and float32. In float16, squares
overflow from 256 on, and a norm that computes them in float16 returns 0. A two-pass variance squares only deviations from the mean. Here the mean is 300, and the standard deviation is 1:
"""

# %%
token = (torch.randn(4096) + 300).half()
plots.table(
    [
        {
            "mean square": token.square().mean().item(),
            "two-pass variance": variance_in(token, "float16").item(),
        }
    ]
)

# %% [markdown]
r"""
### Training with a one-pass variance

Now we train the small model of four blocks with the offset of 10. Its LayerNorms compute in float32, in bfloat16 with two passes, or in bfloat16 with one pass. Nothing else is rounded. The offset is below the cliff at 16, but the squared mean is near 100, where bfloat16's numbers are already ½ apart. For a variance
of 1, the computed value may be ½ or 2, and for the embeddings of a few characters it is 0 or less, which counts as 0. For such a character, the norm divides by $\sqrt\epsilon$, and with $\epsilon = 10^{-5}$ its output becomes
about 316 times too large.

| question | choices | ours |
| --- | --- | --- |
| What do one-pass variances in bfloat16 do to the loss after 150 steps, compared with two-pass variances? <!-- 03-one-pass-bf16-breaks-training 03-bf16-layer-is-harmless-on-ordinary-activations --> | hardly anything; <!-- 0.1 --> they raise it by far more than a tenth of a nat | <details><summary>show</summary>With the offset, one-pass variances in bfloat16 cost more than 0.2 nats. Without it, they change the loss by less than 0.02 nats.</details> |
"""

# %%
arithmetics = {
    "LayerNorm, float32": {},
    "two passes, bfloat16": {"model.norm_arithmetic": "bfloat16"},
    "one pass, bfloat16": {"model.norm_arithmetic": "bfloat16 one-pass"},
}
offset = {"model.embedding_offset": [10.0], "seed": five}
above = lab.run(Experiment(bench, {"arm": arithmetics, **offset}))
ordinary = {
    "one pass, bfloat16": {"model.norm_arithmetic": "bfloat16 one-pass"},
    "RMSNorm, bfloat16": {"model.norm": "rms", "model.norm_arithmetic": "bfloat16"},
}
below = lab.run(Experiment(bench, {"arm": ordinary, "seed": five}))

# %%
plots.loss_curves(
    {arm: part.values(lambda record: record.losses) for arm, part in above.by("arm").items()},
    reference={"letter frequencies": ladder.FREQUENCIES, **ladder.references(rung)},
    caption="Training loss with the offset of 10. The runs in float32 and in two-pass bfloat16 nearly coincide. With one pass, most runs reach a loss only a little lower than "
    "that of letter frequencies, the loss of a model that knows only how often each character occurs. One of these runs improves late.",
    provenance=lab.provenance(above),
).named("over-the-cliff")

# %%
harm, calm = (of.measure_by("test.loss", "arm") for of in (above, below))
float32 = short.measure_by("test.loss", "norm")
price = harm["one pass, bfloat16"] - harm["two passes, bfloat16"]
price.claim(
    "03-one-pass-bf16-breaks-training",
    "> 0.2",
    "If tokens consist mostly of their mean, one-pass variances in bfloat16 cost more than 0.2 nats.",
    found="With 10 added to every channel, the test loss after {steps} steps is {mean:.2f} nats higher with one-pass variances in bfloat16 than with two-pass variances.",
    source="Transformer Anatomy, part 7: normalization must always run in float32",
    published="'BF16 norm: degraded convergence' (its percentages have no source)",
    beside={"steps": sizes.steps},
)

# %% [markdown]
r"""
### No effect on ordinary activations

Does the one-pass formula also fail on ordinary tokens, without the offset?
"""

# %%
(calm["one pass, bfloat16"] - float32["layer"]).claim(
    "03-bf16-layer-is-harmless-on-ordinary-activations",
    f"in [-0.02, 0.02] of {price.mean}",
    "On ordinary activations, norms in bfloat16 change the test loss by less than 0.02 nats: LayerNorm with a one-pass variance, and RMSNorm.",
    found="On ordinary activations, after {steps} steps, norms in bfloat16 instead of float32 change the test loss by {mean:+.4f} nats for LayerNorm with the one-pass variance "
    "and by {rms:+.4f} nats for RMSNorm.",
    source="against Transformer Anatomy, part 7: a norm that runs in bfloat16 is a bug",
    beside={"rms": calm["RMSNorm, bfloat16"] - float32["rms"], "steps": sizes.steps},
)

# %% [markdown]
r"""
It does not, and the first half of the chapter explains why: the means of ordinary tokens are small, far below the cliff. Keeping norms in float32 is a safe rule, but our bfloat16 runs needed it
only for one formula, on one kind of token. If a norm accumulates in float32 and subtracts the mean before it squares,
its input and output may both be in bfloat16, as in fused kernels. Appendix D covers [other formats](D_numbers.ipynb#the-sum-of-squares-by-width).

### Small print: ε and the last rounding

**Where ε is added.** Zhang and Sennrich's paper contains no ε. PyTorch, [Llama](https://arxiv.org/abs/2302.13971),
[T5](https://arxiv.org/abs/1910.10683) and Gemma divide by $\sqrt{\mathrm{RMS}^2 + \epsilon}$.
Zhang and Sennrich's torch code divides by $\mathrm{RMS} + \epsilon$. For a token of ordinary size, the two formulas nearly agree. Near zero, both are linear
maps, with the slopes $1/\sqrt\epsilon$ and $1/\epsilon$: at $\epsilon = 10^{-6}$ these are a thousand and a million. The difference matters for
padding, and wherever weights move between code bases.

**ε in the gradient.** With $r = \sqrt{\mathrm{RMS}(x)^2 + \epsilon}$ and $\hat x = x/r$, the Jacobian is

$$J(x) = \frac1r\Big(I - \tfrac1d\,\hat x\hat x^\top\Big).$$

(LayerNorm's has one more term, $-\tfrac1d\mathbf 1\mathbf 1^\top$.) For $\epsilon = 0$, $J$ deletes a gradient's component
along the token: lengthening $x$ changes nothing. With ε, it deletes less, because $|\hat x|^2/d$ stays below 1. The share that passes is
$\epsilon/(\mathrm{RMS}^2 + \epsilon)$: next to nothing for an ordinary token, a half at $\mathrm{RMS} = \sqrt\epsilon$,
and everything for a token near zero.

**The last rounding.** In float32, PyTorch, Llama, T5 and Gemma compute the same function. In bfloat16, PyTorch and Gemma multiply by the gain
before they round. Llama, and T5 with a bfloat16 gain, round, multiply and round *again*. The rounding order changes many
entries by a unit in the last place (*ulp*), raises no error, and can change which of two nearly equal logits is the larger one. With a gain of exactly 1, all agree in every
bit: **test ports with random gains**.

**How the gain is stored.** Gemma stores the gain as its difference from 1. Appendix D explains [what that changes](D_numbers.ipynb#how-a-gain-is-stored) for weight decay and for a bfloat16 gain.
"""

# %%
from torch.autograd.functional import jacobian


def jacobian_of(x, eps):
    """Write RMSNorm's Jacobian by the formula."""
    r = (x.square().mean() + eps).sqrt()
    return (torch.eye(len(x)).double() - torch.outer(x / r, x / r) / len(x)) / r


x = 3 * torch.randn(64).double() + 1
faint = 1e-3 * rms_norm(x, eps=0.0)  # its RMS is the root of ε
along = jacobian(rms_norm, faint) @ faint * (2e-6) ** 0.5
off = [
    ((jacobian(rms_norm, t) - jacobian_of(t, 1e-6)) * t.square().mean().sqrt()).abs().max()
    for t in (x, faint)
]
exact(max(off), tolerance=1e-12).claim(
    "03-rms-jacobian",
    "< 1e-12",
    "RMSNorm's Jacobian removes one direction of the gradient, up to the effect of ε.",
    found="The formula for RMSNorm's Jacobian, which removes the gradient's component along the token up to the effect of ε, agrees with autograd to within {mean:.1e}. At RMS = √ε, {share:.0%} of this component passes.",
    source="chain rule; Zhang and Sennrich 2019, arXiv 1910.07467, section 4",
    beside={"share": along.norm() / faint.norm()},
)

# %%
tiny = 1e-12 * x
slopes = [norm(tiny, eps=1e-6).norm() / tiny.norm() for norm in (rms_norm, rms_norm_outside)]
exact(slopes[1] / slopes[0]).claim(
    "03-eps-outside-is-steeper",
    "in [999, 1001]",
    "Near x = 0, RMSNorm is a thousand times as steep with ε outside the root as with ε inside it.",
    found="For x → 0 and ε = 1e-6, RMSNorm with ε outside the root is {mean:.0f} times as steep as with ε inside the root.",
    source="Zhang and Sennrich's torch code against PyTorch, Llama, T5, Gemma",
)

# %%
x, g = torch.randn(512, 4096).bfloat16(), (1 + 0.3 * torch.randn(4096)).bfloat16()
unrounded = rms_norm(x.double(), g.double())
once, twice = (norm(x, g).double() for norm in (rms_norm, rms_norm_llama))
ulp = 2.0 ** (unrounded.abs().log2().floor() - 7)  # how far apart bfloat16's numbers are there
exact(((twice - unrounded).abs() / ulp).max()).claim(
    "03-cast-first-rounds-twice",
    "in [1, 1.5]",
    "If a norm rounds before it multiplies by the gain, its error can exceed one unit in the last place.",
    found="Rounding before the gain, as in Llama, changes {share:.0%} of RMSNorm's outputs. The largest error is {mean:.2f} units in the last place. "
    "If the output is rounded once, the largest error is {once:.2f}.",
    source="transformers, pull request 29402 (Gemma against Llama)",
    beside={
        "share": (once != twice).double().mean(),
        "once": ((once - unrounded).abs() / ulp).max(),
    },
)

# %% [markdown]
r"""
There are two versions of Llama's norm, Hugging Face's and Meta's. A comment in Hugging Face's calls it "equivalent to T5LayerNorm". But T5's norm rounds before the gain only if the gain itself is in half precision:
"""


# %%
def order_casts(x, gain):
    """RMSNorm as Hugging Face's Llama, Meta's Llama and T5 order their casts."""
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return rms_norm_llama(x, gain), normed.to(x.dtype) * gain, rms_norm_t5(x, gain)


half, full = order_casts(x, g), order_casts(x, g.float())
alike = all(torch.equal(of[0], of[1]) for of in (half, full)) and torch.equal(half[0], half[2])
exact((full[0] != full[2]).double().mean().item() if alike else 0.0, tolerance=0.1).claim(
    "03-t5-keeps-float32-with-wide-gains",
    "> 0",
    "The two versions of Llama's norm compute the same function, and T5's norm differs from them if gains are in float32.",
    found="The two versions of Llama's norm agree bit for bit. T5's norm agrees with them if gains are in bfloat16, and differs from them in {mean:.0%} of the entries if gains are in float32.",
    source="transformers, modeling_llama.py and modeling_t5.py; Meta's Llama 3, model.py",
)

# %% [markdown]
r"""
## Where it goes wrong

Here are six bugs, the last two from public code. None changes the output's shape, and a model trained *with* one
may well learn. They do damage when weights move to other code, or when an input is unusual.

1. **ε outside the root**, in a model whose weights were trained with it inside.
2. **The unbiased divisor**: `Tensor.var` and `Tensor.std` divide by $d - 1$.
3. **The wrong axis**: `dim=1` is the feature axis of an $(N, d)$ batch and the time axis of $(B, T, d)$.
4. **The centred denominator**: `x / x.std()` is half LayerNorm, half RMSNorm.
5. **Squares in float16**, which overflow from 256 on ([Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)). PyTorch's early `nn.RMSNorm` had this bug
   ([pull request 133085](https://github.com/pytorch/pytorch/pull/133085)).
6. **Gemma without its one**: a gain stored around 0 in a norm that expects it around 1, so that nearly every channel is
   multiplied by nearly 0. [ExecuTorch](https://github.com/pytorch/executorch/pull/19901) shipped one of two code paths with this bug.
"""


# %% tags=["mechanism"]
def slip(denominator, least=torch.float32):
    """Make an RMSNorm whose denominator is wrong in one way; `least` is what it computes in."""

    def norm(x, weight=None, eps=1e-6):
        wide = x.to(torch.promote_types(x.dtype, least))
        y = wide / denominator(wide, eps)
        return (y if weight is None else y * weight.to(y.dtype)).to(x.dtype)

    return norm


def mean_square(x, axis=-1):
    return x.square().mean(axis, keepdim=True)


# %%
slips = {
    "ε outside": slip(lambda x, eps: mean_square(x).sqrt() + eps),
    "divisor d − 1": slip(
        lambda x, eps: (x.square().sum(-1, True) / (x.shape[-1] - 1) + eps).sqrt()
    ),
    "axis 1": slip(lambda x, eps: (mean_square(x, min(1, x.ndim - 1)) + eps).sqrt()),
    "centred denominator": slip(
        lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    ),
    "squares in float16": slip(lambda x, eps: (mean_square(x) + eps).sqrt(), torch.float16),
}

# %%
reports = {name: check.rms_norm(norm) for name, norm in slips.items()}
reports["Gemma without its one"] = check.rms_norm(rms_norm, variant="gemma")
plots.table(
    {"bug": name, "what the check says": "; ".join(sorted(report.causes))}
    for name, report in reports.items()
)

# %%
exact(sum(bool(report.causes) for report in reports.values())).claim(
    "03-checks-name-every-slip",
    "in [6, 6]",
    "The check of an RMSNorm in exercise 1 names the cause of each of six bugs.",
    found="The check names the cause of {mean:.0f} of {n_slips} bugs in an RMSNorm.",
    source="labkit.check.rms_norm",
    beside={"n_slips": len(reports)},
)

# %% [markdown]
r"""
## Exercises

**2 (by hand, 10 minutes).** Data have mean 20 and variance 1, so their mean square is 401 and the square of their mean is 400. Suppose
both are computed exactly and then rounded. How far apart are bfloat16's numbers (8 significant bits) there, and what is the
computed one-pass variance in bfloat16, and in float16 (11 bits)? A tie goes to the even neighbour.
"""

# %% tags=["exercise"]
yours = {"spacing": ..., "bfloat16": ..., "float16": ...}

# %%
pair = torch.tensor([401.0, 400.0])
truth = {
    "spacing": 2.0 ** (8 - 7),
    "bfloat16": (pair.bfloat16()[0] - pair.bfloat16()[1]).float(),
    "float16": (pair.half()[0] - pair.half()[1]).float(),
}
check.answer(yours, truth, name="2", hint="between 256 and 512 there are 2⁷ steps in bfloat16")

# %% [markdown]
r"""
<details><summary>Hint</summary>

8 significant bits make $2^7 = 128$ steps between one power of two and the next. Which powers enclose 400?

</details>
<details><summary>Solution</summary>

Between 256 and 512 there are 128 steps of $256/128 = 2$. 401 lies half-way between 400 and 402; 400 is
$200\cdot2$ and 402 is $201\cdot2$, so the even one is 400. The computed variance is 0. In float16 the steps
are $256/1024 = \tfrac14$, 401 can be represented, and the computed variance is 1, which is correct here.

</details>

**3 (in code, 15 minutes).** One pass need not be a disaster. Write a function that computes the variance of bfloat16 data from
*sums that can be computed together* (no second pass that waits for the mean), and that still works at a mean of 30. All your tensors
stay bfloat16.
"""


# %% tags=["exercise"]
def shifted_variance(x):
    """Variance over the last axis, in one pass; x is bfloat16, and so is the result."""
    return ...


# %%
def check_variance(variance):
    """Compare a variance with that in float64, at a mean of 30."""
    x = (torch.randn(50, 4096) + 30).bfloat16()
    hint = "what could be subtracted before anything is known about the mean?"
    truth = x.double().var(-1, correction=0)
    return check.answer(variance(x), truth, name="3", hint=hint, rtol=0.15)


check_variance(shifted_variance)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\mathrm{Var}(x) = \mathrm{Var}(x - s)$ for any $s$. A good $s$ only has to be near the mean.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_variance(x):
    moved = x - x[..., :1]  # any entry of the token is within a few deviations of its mean
    return moved.square().mean(-1) - moved.mean(-1).square()


assert check_variance(solved_variance).ok

# %% [markdown]
r"""
**4 (proof, 20 minutes).** Show that RMSNorm's statistic is safe at every mean. Let each square $x_i^2$ be computed with
relative error at most $u$ (the result is $x_i^2(1 + \delta_i)$ with $|\delta_i| \le u$), and let the exact sum of these results
be rounded, which multiplies it by $1 + \delta$ with $|\delta| \le u$. Prove that the relative error of the mean square is at
most $2u + u^2$, whatever the $x_i$. Then show that the one-pass variance has no such bound that is
independent of the data.

<details><summary>Hint</summary>

For the first part: the squares are weights. For the second: let all $x_i$ be nearly equal.

</details>
<details><summary>Solution</summary>

The computed sum before rounding is $\sum x_i^2(1 + \delta_i)$. Its distance from $S = \sum x_i^2$ is at most
$\sum x_i^2|\delta_i| \le uS$, **because no term is negative**: the total error is a weighted mean of the
$\delta_i$ times $S$. So the computed sum is $S(1 + \eta)$ with $|\eta| \le u$. After rounding it is $S(1 + \eta)(1 + \delta)$, whose relative error is at most $u + u + u^2$. The mean $\mu$ appears nowhere.

For the one-pass variance, take data with mean $\mu$ and variance $\sigma^2 > 0$. An error of relative size $u$
in the mean square alone, with all else exact, makes an absolute error of $u(\mu^2 + \sigma^2)$, which relative
to $\sigma^2$ is $u(1 + \mu^2/\sigma^2)$. For fixed $u$, this is unbounded in $\mu/\sigma$. Errors of this order
occur, because the mean square may fall anywhere between two numbers of the format.

</details>

## What you now know

- **What the mean does.** The mean is a token's component along one direction out of $d$. LayerNorm deletes this component. RMSNorm keeps it, and is invariant only to the token's length. <!-- 03-layer-is-rms-of-projection 03-only-recentring-is-lost -->
- **When a norm may skip the subtraction.** Under Pre-Norm, no function is lost: the weights can do the subtraction beforehand.
  Training did not miss it, either: the means of ordinary tokens are small, and at size S, the only one at which we trained both, the two losses are equal within our margin. (If runs with the same seed are compared in pairs, RMSNorm's loss is a little higher on average, as the opened card shows.)
  <!-- 03-pre-layer-becomes-pre-rms 03-token-mean-is-small-rms 03-rms-equals-layer-on-text -->
- **When the subtraction is missed.** At size S, the only one that we tried, RMSNorm needs a larger learning rate if an offset makes tokens consist mostly of their mean, and its loss is still higher.
  The first blocks remove most of the mean at a low learning rate, and hardly any of it at a high one. The rest of the stream outgrows the mean, but not because of the offset. <!-- 03-an-offset-hurts-rms 03-rms-learns-to-remove-the-mean 03-the-offset-makes-the-stream-smaller -->
- **How the number format matters.** With $p$ significant bits, the one-pass variance, $\frac1d\sum x_i^2 - \mu^2$, has no correct digits left at a mean of $2^{p/2}$ standard
  deviations, 16 in bfloat16. Two passes move that cliff to about $2^p$, and RMSNorm's mean square has no such cliff: only the range of the format limits it.
  The means of ordinary tokens are too small to reach either cliff.
  <!-- 03-one-pass-error-grows-as-the-square 03-one-pass-loses-the-variance 03-two-passes-and-rms-are-safe 03-bf16-layer-is-harmless-on-ordinary-activations -->
- **How to check a port.** Check where ε is added, when the result is rounded, and whether the gain itself is stored or only its difference from 1. A mistake in any
  of the three leaves all shapes correct. <!-- 03-eps-outside-is-steeper 03-cast-first-rounds-twice 03-checks-name-every-slip -->

## To carry away

- **Equation.** $y = \gamma \odot x/\sqrt{\mathrm{mean}(x^2) + \epsilon}$: LayerNorm without the subtraction and the shift.
- **Use.** Use RMSNorm in Pre-Norm models, where it can compute every function that LayerNorm without a shift can.
- **Cost.** RMSNorm has one vector of gains. It keeps the mean, so a large common offset makes tokens look alike.
- **Related methods.** `rms_norm_llama` (rounds before the gain), Gemma's $1 + w$, T5's norm.

| you see | cause | try |
| --- | --- | --- |
| a variance of zero, or a negative one | one pass, with a mean of many standard deviations | two passes, statistics in float32 |
| infinities in float16 | squares beyond 65,504 | statistics in float32 |
| a ported model differs in the last digits | a different rounding order | the order of the code that trained it |
| gains do not move in bfloat16 | steps smaller than half the distance between 1 and the next number of the format | gains in float32, or store the difference $w$ of the gain $1 + w$ |

## References

Works cited: [Zhang and Sennrich (2019)](https://arxiv.org/abs/1910.07467), [Jiang et al. (2023)](https://arxiv.org/abs/2305.14858), [Gupta et al. (2024)](https://arxiv.org/abs/2409.12951), [Touvron et al. (2023)](https://arxiv.org/abs/2302.13971), [Raffel et al. (2020)](https://arxiv.org/abs/1910.10683), [Micikevicius et al. (2018)](https://arxiv.org/abs/1710.03740), [Micikevicius et al. (2022)](https://arxiv.org/abs/2209.05433).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
