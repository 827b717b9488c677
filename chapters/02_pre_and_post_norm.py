# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Pre-Norm and Post-Norm

**Question.** Post-Norm normalizes a token's vector $x$ after each sublayer $f$: $x \leftarrow N(x + f(x))$. Pre-Norm normalizes only what $f$ reads: $x \leftarrow x + f(N(x))$. Without *warm-up*, a slow increase in the learning rate,
Post-Norm may learn almost nothing ([Xiong et al., 2020](https://arxiv.org/abs/2002.04745)). Yet careful studies find Post-Norm's result *better*.
Why does one norm's place decide whether a transformer survives its first hundred steps, and what is that place worth afterwards?

<details><summary>In short (contains spoilers)</summary>

- Use Pre-Norm unless there is a reason against it. With warm-up it learns even at learning rates far above its best one. At one high rate it also learns without warm-up, whereas most of our Post-Norm runs without warm-up get *stuck*: they learn only how frequent each letter is. With enough warm-up none gets stuck. At a higher rate, warm-up is not enough.
- One cause: in the first steps all our models learn the letter frequencies by adding one vector, the same for every token, to the *stream* (the vector that each token carries through the model). Pre-Norm adds it to each token's own content. Post-Norm also divides the sum by its size after every sublayer, and at a high learning rate little of the content is left.
- A Post-Norm model that is *given* the letter frequencies keeps the content and reaches a lower loss. In longer training, many such models get stuck anyway.
- Even at its best learning rate, Post-Norm is not better. With six blocks the two losses are, so far, within 0.02 nats of each other, and with 24 blocks Post-Norm's is higher.
- In the <a href="#figure-two-blocks">explorer</a> you can click norms into a block yourself.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import mannwhitneyu
from torch import nn

from labkit import ModelConfig, TrainConfig, check, plots, train  # pip install the book's folder
from labkit.corpora import Text
from labkit.corpora.ngrams import ngram_loss
from labkit.corpora.text import training_text
from labkit.experiments import Experiment, Lab, Run, computed, exact, ladder
from labkit.leaderboard.show_explorer import show_explorer
from labkit.leaderboard.voices import compare_texts
from labkit.model import Departure
from labkit.norms import LayerNorm, layer_norm
from labkit.placements import PostNorm, PreNorm, StreamNorm

# %%
lab = Lab("02_pre_and_post_norm", size=size, seed=seed, memory={"kernel": "1000M", "run": "900M"})
sizes = lab.sizes(
    dim=32,
    depth=6,
    steps=150,
    warmup=60,
    warmups=[5, 20],
    seeds=lab.seeds(15)[5:],
    fresh=lab.seeds(35)[15:],  # of what was locked
    longer=600,
    dip="12",  # steps at which we look again
    then="20",
    later="60",
    last="140",
)


def first_over_last(record, step):
    """Gradient of the first block's last matrix over that of the last block's, at a step."""
    sizes_of = record.probes["gradient-by-steps"][step]
    return sizes_of[0] / sizes_of[-1]


def share(record, step):
    """How much of the last stream's energy tells tokens apart, at a step."""
    return record.probes["token-share"][step]["share"][-1]


# %%
base = Run(
    model=ModelConfig(norm="layer", activation="gelu", dim=sizes.dim, depth=sizes.depth, context=32,
                      init="half-xavier"),
    data=Text(batch=16, time=32, held_out=8_192),
    train=TrainConfig(steps=sizes.steps, lr=2.5e-2, schedule="linear"),
    probes=("validation", "test", "token-share", "gradient-by-steps", "step-response"),
)  # fmt: skip
post, pre = {"model.recipe": "post"}, {"model.recipe": "pre"}
with_warmup = {**post, "train.warmup": sizes.warmup}
trio = {"Post-Norm": post, "with warm-up": with_warmup, "Pre-Norm": pre}
watched = lab.run(Experiment(base, {"arm": trio, "seed": sizes.seeds}))
arms = watched.by("arm")
unigram_loss = ngram_loss(base.data, 1)  # nats: what letter frequencies alone reach
climbers = {
    "Pre-Norm": "pre",
    "Post-Norm": "post",
    "Post-Norm, Xavier": "post, xavier",
    "normalized skip": "overwritten",
    "no norm": "none",
}
climbed = lab.ladder([*climbers.values(), "no attention"])


# %%
full = {"with warm-up": "Post-Norm with warm-up"}
plots.loss_curves(
    {full.get(arm, arm): [record.losses for _, record in part] for arm, part in arms.items()},
    smooth=5,
    reference={"letter frequencies": unigram_loss},
    caption="Training loss of a small transformer at a learning rate at which Post-Norm fails. Nearly all runs of Post-Norm without "
    "warm-up stay at the loss of a model that knows only how frequent each letter is. With warm-up Post-Norm learns, and so does Pre-Norm without it.",
    provenance=lab.provenance(watched),
).named("first-steps")

# %% [markdown]
r"""
## The idea: one block, two placements

Let $f$ be a sublayer (attention or feed-forward) and $N$ a norm:

$$\text{Post-Norm:}\quad x \leftarrow N(x + f(x)) \qquad\qquad \text{Pre-Norm:}\quad x \leftarrow x + f(N(x))$$

The Transformer of 2017 had the first form ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)), and it came with an odd instruction: begin with a learning rate
near zero and raise it over thousands of steps. Pre-Norm needs no warm-up ([Xiong et al., 2020](https://arxiv.org/abs/2002.04745)).

The **residual stream** is the vector that every token carries from the embedding to the output. The vector that a sublayer adds to it is the sublayer's **write**.
Under Post-Norm the norms are *on* the stream. Under Pre-Norm they are on the branches, and only additions change the stream. One more norm, the **final norm**, follows Pre-Norm's last block:
without it the logits would grow with the stream.

One example runs through the chapter. A token $x = (1, 1, -1, -1)$ has mean 0 and variance 1. A sublayer writes
$c = (1, -1, 1, -1)$, a vector at right angles to $x$. The sum is $(2, 0, 0, -2)$, with variance 2. Pre-Norm keeps the sum.
Post-Norm divides it by $\sqrt2$: the write *and* the old token are both smaller now.

*By hand.* The next sublayer writes $c$ again. What are the two streams now, and what is the angle between each stream and $c$?

<details><summary>Answer</summary>

Pre-Norm's stream is $x + 2c = (3, -1, 1, -3)$, at $\arctan\tfrac12 \approx 26.6°$ to $c$. Post-Norm adds $c$ to $(2, 0, 0, -2)/\sqrt2$. These two vectors have equal length and an angle of 45° between them, so their sum lies halfway
between them, at 22.5° to each. Divided by its RMS, $\sqrt{2 + \sqrt2} \approx 1.85$, it is about $(1.31, -0.54, 0.54, -1.31)$.

</details>

### The stream as a highway

Unroll the Pre-Norm equation over $S$ sublayers, two per block. No norm surrounds the sum:

$$x_S = x_0 + \sum_{s=1}^{S} f_s\big(N(x_{s-1})\big).$$

The last stream is the embedding plus a list of writes, all with weight one. No write can overwrite anything: to delete something, a
layer must write its negative. Post-Norm's stream is a sum as well, but every later norm has divided the embedding and each write
in it. Each placement has its price: a growing stream under Pre-Norm, and a **memory that fades** under Post-Norm.

## Implementation: exercise 1

**1 (in code).** Write both blocks. `f` is the sublayer and `norm` is the norm. Both are functions. Return the new stream.
"""


# %% tags=["exercise"]
def post_norm(x, f, norm):
    """The norm stands on the stream."""
    return ...


def pre_norm(x, f, norm):
    """The norm stands on the branch."""
    return ...


# %%
def check_blocks(post_norm, pre_norm):
    """Hold two functions against labkit's placements, on tokens of mean 1 and deviation 3."""
    own = torch.Generator().manual_seed(0)  # the same tokens in every build
    x = 3 * torch.randn(3, 8, generator=own).double().round(decimals=2) + 1
    norm = "lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)"
    return check.function(
        {"post": post_norm, "pre": pre_norm},
        (x, "lambda x: 2 * torch.tanh(x.flip(-1)) - 0.5", norm),
        {
            "post": lambda x, f, norm: PostNorm(lambda: norm, f)(x),
            "pre": lambda x, f, norm: PreNorm(lambda: norm, f)(x),
        },
        name="1",
        hint="what does f read, and what does the norm read?",
        rtol=1e-9,
    )


check_blocks(post_norm, pre_norm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Each body is one of the two equations at the chapter's beginning, symbol by symbol.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_post(x, f, norm):
    """A solution of exercise 1."""
    return norm(x + f(x))


def solved_pre(x, f, norm):
    """A solution of exercise 1."""
    return x + f(norm(x))


assert check_blocks(solved_post, solved_pre).ok

# %% [markdown]
r"""
Here is a whole block without gains, biases or positions.
"""


# %% tags=["mechanism"]
def attend(x, w):
    """Attention with one head: every token reads itself and those before it; x is (tokens, d)."""
    q, k, v = x @ w["q"], x @ w["k"], x @ w["v"]
    logits = q @ k.T / k.shape[-1] ** 0.5
    later = torch.ones_like(logits, dtype=torch.bool).triu(1)
    return logits.masked_fill(later, -torch.inf).softmax(-1) @ v @ w["out"]


def feed_forward(x, w):
    """Two matrices with a rectifier between them; each token by itself."""
    return (x @ w["up"]).relu() @ w["down"]


def run_block(x, w, place):
    """Run attention, then the feed-forward layer, with norms where `place` puts them."""
    x = place(x, lambda y: attend(y, w), layer_norm)
    return place(x, lambda y: feed_forward(y, w), layer_norm)


# %%
def draw_weights(d=32):
    """Draw a block's matrices so that each keeps the size of what it reads."""
    shapes = {**dict.fromkeys(("q", "k", "v", "out"), (d, d)), "up": (d, 4 * d), "down": (4 * d, d)}
    return {name: torch.randn(*of) * of[0] ** -0.5 for name, of in shapes.items()}


def follow_blocks(place, counts=(1, 2, 4, 8, 16)):
    """After so many fresh blocks: the stream's RMS, and its cosine with the embedding."""
    torch.manual_seed(seed)
    embedding, rows = torch.randn(16, 32), {}
    x = embedding
    for count in range(1, counts[-1] + 1):
        x = run_block(x, draw_weights(), place)
        if count in counts:
            left = torch.cosine_similarity(x, embedding, dim=-1).mean().item()
            rows[count] = (x.square().mean().sqrt().item(), left)
    return rows


# %%
kinds = {"Post-Norm": follow_blocks(solved_post), "Pre-Norm": follow_blocks(solved_pre)}
plots.table(
    [
        {
            "blocks": count,
            **{f"{kind}: RMS of the stream": of[count][0] for kind, of in kinds.items()},
            **{f"{kind}: cosine with the embedding": of[count][1] for kind, of in kinds.items()},
        }
        for count in kinds["Pre-Norm"]
    ],
    digits=2,
)

# %% [markdown]
r"""
With random weights, Post-Norm's stream keeps its size and forgets the embedding. Pre-Norm's stream grows, and turns away from the embedding more slowly.

## Derivation

### Two Jacobians

How does a gradient pass back through a block? The *Jacobian* $J_f$ of a function $f$ is the matrix that turns a small change in its input into the change in its output, and a gradient is multiplied by its transpose.
Let $r$ be the denominator of LayerNorm (the square root of variance plus $\epsilon$), and $\hat x$ its output. Then the Jacobians of the norm and of the two blocks are

$$J_N = \frac1r\Big(I - \tfrac1d \mathbf 1\mathbf 1^\top - \tfrac1d \hat x\hat x^\top\Big), \qquad
J_{\text{post}} = J_N\,(I + J_f), \qquad J_{\text{pre}} = I + J_f\,J_N.$$

[Chapter 01](01_batchnorm_vs_layernorm.ipynb#derivation-one-jacobian-for-both) derives $J_N$. In words: a change in the input is divided by $r$, its mean (the direction $\mathbf 1$) is subtracted, and
its part along $\hat x$ is removed, since a longer vector is divided by a larger $r$. In our example $r = \sqrt2$.

Multiply out the $S$ factors $J_N(I + J_f)$: each sublayer is either traversed or skipped, so there are
$2^S$ paths. On the path that skips them all, the **identity path**, only the norms act on the gradient. If each divides it by $r = \sqrt2$, twelve sublayers leave $2^{-6}$ of it, and $S$ sublayers leave $2^{-S/2}$. That is a common explanation of
why Post-Norm is hard to train, but it considers only this path: $I + J_f$ may enlarge the gradient as much as $J_N$ shrinks it.

Take a ReLU layer without biases. It has $f(x) = J_f\,x$: the matrix that computes its write also turns a small change in $x$ into the change in the write. Suppose that its write is as long as the stream and at right angles to it, so that the variance doubles.
Then $J_f$ also turns a typical small change $\delta$ into a change of about the same length that is *unrelated* to $\delta$. The squared lengths of unrelated vectors add up, so $\delta + J_f\delta$ is $\sqrt2$ times as long as $\delta$.
$J_N$ divides by $\sqrt2$, and **the two factors cancel**.

They do *not* cancel when the write of $f$ is long and hardly depends on small changes in its input. The simplest such write is a constant:
it is the same for every token, $J_f = 0$, and only the identity is left. In a second case the write differs between tokens, but small changes in the input hardly alter it.

### A constant write, twelve times

Let all twelve sublayers write our $c$, whatever they read. What is left of the token?
"""


# %%
def angles_to_constant(wrap, sublayers=12):
    """Degrees between the stream and what every sublayer writes, after each of them."""
    stream = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    constant = torch.tensor([1.0, -1.0, 1.0, -1.0]).double()
    block, angles = wrap(lambda: LayerNorm(4).double(), lambda x: constant), [90.0]
    for _ in range(sublayers):
        stream = block(stream)
        cosine = torch.cosine_similarity(stream, constant, dim=0)
        angles.append(torch.rad2deg(torch.acos(cosine)).item())
    return angles


# %%
angles = {
    name: angles_to_constant(wrap)
    for name, wrap in (("Post-Norm", PostNorm), ("Pre-Norm", PreNorm))
}
plots.curves(
    {name: dict(enumerate(of)) for name, of in angles.items()},
    xlabel="sublayers",
    ylabel="angle between stream and constant (degrees)",
    logy=True,
    counted=True,
    caption="Angle between a token's stream and a constant vector that each of twelve sublayers adds to it. At 0° nothing of the token is left.",
).named("constant-written")

# %% [markdown]
r"""
Post-Norm adds two vectors of equal length, and their sum lies halfway between them: each sublayer **halves** the angle.
Pre-Norm's stream adds up to $x + S\,c$, at an angle to $c$ whose tangent is $1/S$. Exercise 2 asks you to prove the halving.
"""

# %%
writes = np.arange(13)
laws = {"Post-Norm": 90 / 2.0**writes, "Pre-Norm": np.rad2deg(np.arctan2(1, writes))}
off = {name: exact(max(abs(angles[name] / law - 1)), tolerance=1e-4) for name, law in laws.items()}
off["Post-Norm"].claim(
    "02-a-constant-write-halves-the-angle",
    "< 1e-3",
    "Under Post-Norm, each time a sublayer adds a constant vector as long as the token, the angle between the stream and that vector halves.",
    found="Under Post-Norm, the angle between the stream and a constant vector is {end:.3f}° after twelve sublayers have added the vector. After each addition, the angle agrees with the derived one to a relative error of {mean:.0e}.",
    source="derived above",
    beside={"end": angles["Post-Norm"][-1]},
)
off["Pre-Norm"].claim(
    "02-a-constant-write-leaves-pre-norm-its-token",
    "< 1e-3",
    "Under Pre-Norm, after S sublayers have each added the same constant vector, the tangent of the angle between the stream and that vector is 1/S.",
    found="Under Pre-Norm, the angle between the stream and a constant vector is {end:.1f}° after twelve sublayers have added the vector. After each addition, the angle agrees with the derived one to a relative error of {mean:.0e}.",
    source="derived above",
    beside={"end": angles["Pre-Norm"][-1]},
)

# %% [markdown]
r"""
Under Pre-Norm the token's part of the stream is a twelfth as long as the constant's part, so later layers can still read it. Under Post-Norm it is a few ten-thousandths as long, so later layers can hardly read it.
The gradient fades with the token: with $J_f = 0$ each norm divides it as well, by $\sqrt2$ at first, and by nearly 2 once the stream points along $c$.

Would a real network write a constant? At first it should. The easiest thing to learn
about text is how frequent each letter is, and that requires only one vector of logits for all positions.

## Measure

The *plateau* is the loss of a model that knows only letter frequencies (the unigram baseline). A run is **stuck** if its final loss is not at least a tenth of a nat lower than the plateau.
The **token share** is the part of the last stream's squared length that distinguishes tokens: what is left when the mean over all tokens of a batch is subtracted. It is 0 if all tokens are one vector.
By the **identity path** of a Post-Norm model we also mean a number, the product of $1/r$ over all its norms.

### Post-Norm without warm-up

**What we did.** We trained three kinds of model with the same ten seeds: Post-Norm without warm-up, Post-Norm with 60 steps of warm-up, and Pre-Norm without warm-up.
Each model has six blocks of width 32, LayerNorm and Xavier's initialization with gain ½. We trained for only 150 steps of Adam, because Post-Norm's trouble begins early. We chose the learning rate $0.025$ because Post-Norm fails at it. After any warm-up the rate falls linearly.
"""


# %%
def is_stuck(record, plateau=unigram_loss, cut=0.1):
    """Say whether a run learned no more than letter frequencies (or diverged)."""
    loss = record.probes["test"]["loss"]
    return loss is None or loss > plateau - cut


stuck = {arm: part.count(is_stuck) for arm, part in arms.items()}

# %%
(stuck["Post-Norm"] - stuck["with warm-up"]).claim(
    "02-post-needs-warm-up",
    "> 0",
    "Without warm-up, Post-Norm gets stuck at the loss of letter frequencies more often than with warm-up.",
    found="Of the Post-Norm runs, {k} of {n} without warm-up and {other_k} of {other_n} with warm-up are stuck at the loss of letter frequencies. Of the Pre-Norm runs, which have no warm-up, {pre:.0f} are stuck.",
    source="Xiong et al. 2020, arXiv 2002.04745, Figure 2 (IWSLT14, 6 + 6 layers)",
    published="BLEU 8.45 without warm-up, about 34 with 4,000 steps of it",
    beside={"pre": stuck["Pre-Norm"].estimate.k},
)

# %% [markdown]
r"""
**What came out.** Our runs reproduce the published failure at one learning rate, one initialization and one size (first figure).

### What is it stuck in?

A model that ignores its input can at best predict the letter frequencies at every position. Does a stuck model also carry the same vector at every position? If so, its token share is near 0.
"""


# %%
def path(record, step):
    """What the identity path alone would leave: the product of all 1/r."""
    return record.probes["token-share"][step]["path"]


def look(arm, step):
    """Sum up an arm at a step, in medians; a row of a table."""
    runs = arms[arm]
    return {
        "runs": arm,
        "step": step,
        "token share": runs.measure(share, at=step).median,
        "runs below 0.001": str(runs.count(lambda record, at: share(record, at) < 1e-3, at=step)),
        "identity path": "" if arm == "Pre-Norm" else runs.measure(path, at=step).median,
        "gradient, first block / last": runs.measure(first_over_last, at=step).median,
    }


# %%
shares = {arm: part.measure(share, at=sizes.then) for arm, part in arms.items()}
merged = shares["Post-Norm"].map(np.log10)
merged.claim(
    "02-post-norm-merges-its-tokens",
    "< -3",
    "By step 20, in Post-Norm without warm-up, less than a thousandth of the squared length of the last stream distinguishes tokens, in the geometric mean over runs.",
    found="At step 20, in Post-Norm without warm-up, the token share of the last stream (the part of its squared length that distinguishes tokens) is 10 to the power {mean:.1f}, in the geometric mean over runs.",
    source="predicted above; pilots",
    beside={
        "last step": f"step {sizes.last}: 10 to the power {merged.at(sizes.last).mean:.1f}",
        "control": "warm-up, and Pre-Norm, with the same seeds",
    },
)

# %%
plots.table([look(arm, step) for step in (sizes.then, sizes.last) for arm in trio], digits=2)


# %%
def follow(measure):
    """Read a measure at the first sixty steps at which the probes looked: arm -> runs."""
    return {
        arm: [
            {int(at): measure(record, at) for at in record.probes["token-share"] if int(at) <= 60}
            for _, record in part
        ]
        for arm, part in arms.items()
    }


SHARE, RATIO = "token share", "gradient, first block / last"
plots.panels(
    {SHARE: follow(share), RATIO: follow(first_over_last)},
    xlabel="step",
    log=(SHARE, RATIO),
    caption="Token share of the last stream (the part of its squared length that distinguishes tokens), and the gradient of "
    "the first block divided by that of the last, during the first sixty steps. At step 0 "
    "the three kinds of model are alike. Twenty steps later, most Post-Norm runs without warm-up have nearly the same vector for all tokens, and their first blocks get almost no gradient.",
    provenance=lab.provenance(watched),
).named("three-starts")

# %% [markdown]
r"""
**What came out.** By step 20, in most runs of Post-Norm without warm-up, all tokens are nearly the same vector, so the model gives nearly the same answer at every position.
With warm-up, and under Pre-Norm, the median token share dips and recovers. In *most* stuck runs, but not in all, the tokens have merged. (The table's entries are medians over the runs, and $r$ is averaged over tokens.)

Why does Post-Norm fail? There are four suspects.

### Suspect 1: gradients that vanish from the start

If the factor $2^{-S/2}$ were right, twelve sublayers would make the gradient of the first block 64 times smaller, even at step 0. **What we did:** compare the gradient of the last feed-forward matrix in the first block with that in the last block, before any step.

| question | choices | ours |
| --- | --- | --- |
| How large is the gradient of Post-Norm's first block at step 0, compared with that of its last block? <!-- 02-step-zero-shows-nothing --> | far smaller; <!-- 0.5 --> about as large; <!-- 2 --> far larger | <details><summary>show</summary>At step 0 the gradient of Post-Norm's first block is about as large as that of its last block.</details> |
"""


# %%
arms["Post-Norm"].measure(first_over_last, at=0).claim(
    "02-step-zero-shows-nothing",
    "> 0.5",
    "At initialization, the gradient of Post-Norm's first block is at least half as large as that of its last block.",
    found="At step 0, the gradient of the first block is {mean:.2f} times that of the last block under Post-Norm, and {pre:.2f} times under Pre-Norm. Along Post-Norm's "
    "identity path alone, the factor would be {path:.2f}.",
    source="against the law of the identity path, 2^(−S/2), as argued in arXiv 2601.19895",
    published="a factor of 1/64 for twelve sublayers",
    beside={
        "pre": arms["Pre-Norm"].measure(first_over_last, at=0),
        "path": arms["Post-Norm"].measure(path, at=0),
    },
)

# %% [markdown]
r"""
**Cleared, at step 0.** With half of Xavier's gain the writes are small, so $r$ is near 1. The estimate $2^{-S/2}$ assumes writes as large as the stream.

### Suspect 2: a floor that only Pre-Norm has

$J_{\text{pre}}$ contains an identity, so Pre-Norm's gradient is often called "bounded below". It is not. Take $f(y) = -r\,y$, a sublayer that
erases the token's content from the stream. Then $J_{\text{pre}} = I - r J_N$ is zero except in the two directions $\mathbf 1$ and $\hat x$. We pass a gradient at right angles to both through this block.
"""

# %%
x = torch.randn(64).double()
block = PreNorm(lambda: LayerNorm(64), nn.Linear(64, 64, bias=False)).double()
block.sublayer.weight.data = -(x.var(correction=0) + 1e-5).sqrt() * torch.eye(64).double()
two = torch.stack([torch.ones(64).double(), x, torch.randn(64).double()], 1)
gradient = torch.linalg.qr(two)[0][:, 2]  # at right angles to the two directions
length = (gradient @ torch.autograd.functional.jacobian(block, x)).norm()
exact(length, tolerance=1e-9).claim(
    "02-pre-gradient-has-no-floor",
    "< 1e-9",
    "A Pre-Norm block can reduce a gradient to zero, up to rounding.",
    found="One Pre-Norm block whose sublayer erases the token multiplies the length of a gradient by {mean:.1e}.",
    source="against the 'theorem' that Pre-Norm gradients are bounded below",
)

# %% [markdown]
r"""
**Cleared.** Pre-Norm has no floor either, so the lack of one cannot be why only Post-Norm fails.

### Suspect 3: large gradients in the last layer

[Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) prove that at initialization the gradient of the last feed-forward matrix is at most of the
order of $d\sqrt{\ln d}$ under Post-Norm and of $d\sqrt{\ln d/L}$ under Pre-Norm, for $L$ blocks. Pre-Norm's factor $1/\sqrt L$
comes from its final norm: with Xavier's initialization, which the proof assumes, the stream grows like $\sqrt L$, and the final norm divides by it. Without the final norm the gradient should not fall with depth.
**What we did:** measure the gradient in Pre-Norm models of 6 and of 24 blocks at initialization, with the final norm and without it.
"""


# %%
def begin(depth, seed, **changes):
    """Gradient of the last feed-forward matrix of a fresh Pre-Norm model, drawn as Xavier says."""
    torch.manual_seed(seed)
    model = replace(base.model, recipe="pre", depth=depth, init="xavier", **changes).build()
    inputs, targets = next(corpus.train(seed))
    nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    return [w.grad.norm().item() for w in model.blocks[-1].parameters() if w.ndim == 2][-1]


def powers_of_depth(**changes):
    """Say with which power of the depth it grows between six blocks and 24, seed by seed."""
    return computed(
        [np.emath.logn(4, begin(24, n, **changes) / begin(6, n, **changes)) for n in lab.seeds(12)]
    )


corpus = base.data.load()
powers_of_depth(final_norm=False).claim(
    "02-without-its-final-norm-no-gradient-falls",
    "> 0",
    "At initialization, without the final norm, the gradient of Pre-Norm's last block does not fall with depth.",
    found="From 6 to 24 blocks, the gradient of Pre-Norm's last block scales as depth to the power {mean:.2f} without the final norm, and as depth to the power {with_it:.2f} with it.",
    source="the proof of Theorem 1 in Xiong et al. 2020, arXiv 2002.04745 (power −1/2 with the norm)",
    beside={"with_it": powers_of_depth()},
)

# %% [markdown]
r"""
With the final norm the gradient falls about as [the theorem](C_zoo.ipynb#xiongs-lemma-and-theorem) says. But Adam divides each gradient by its own size, so a large gradient does not lead to a large step. And is the gradient of Post-Norm's last block large at all in the models that fail?
"""


# %%
def compare_at_zero(measure, **at):
    """Divide a measure of Post-Norm's runs by that of Pre-Norm's, seed by seed."""
    return arms["Post-Norm"].measure(measure, **at) / arms["Pre-Norm"].measure(measure, **at)


# %%
compare_at_zero(lambda record, step: record.probes["gradient-by-steps"][step][-1], at=0).claim(
    "02-last-gradients-begin-alike",
    "< 1.5",
    "In the setting in which Post-Norm fails, the gradient of Post-Norm's last block at step 0 is less than one and a half times that of Pre-Norm's last block.",
    found="With six blocks, the gradient of Post-Norm's last block at step 0 is {mean:.2f} times that of Pre-Norm's last block.",
    source="against the explanation of Xiong et al. 2020, arXiv 2002.04745, section 3, at this depth",
)

# %% [markdown]
r"""
**Cleared, at six blocks.** With half of Xavier's gain Pre-Norm's stream has hardly grown, so its final norm divides by little more than 1. The bounds may explain the failure of
deeper stacks (the paper's own deepest have 14 + 14 layers), but not that of these six blocks.

### Suspect 4: a first step that goes too far

[Liu et al. (2020)](https://arxiv.org/abs/2004.08249) argue that Post-Norm amplifies updates: when every weight moves by about the learning rate, Post-Norm's
*function* changes more than Pre-Norm's. **What we did:** move the weights of the blocks a tiny bit in the direction of Adam's first step, and measure how far the
final vectors move.
"""

# %%
compare_at_zero("step-response.adam").claim(
    "02-first-steps-go-equally-far",
    "< 1.5",
    "With six blocks and half of Xavier's gain, Adam's first step moves Post-Norm's output less than one and a half times as far as Pre-Norm's.",
    found="With six blocks and half of Xavier's gain, Adam's first step moves Post-Norm's output {mean:.2f} times as far as Pre-Norm's.",
    source="against Liu et al. 2020, arXiv 2004.08249, section 4, as the cause here",
)

# %% [markdown]
r"""
**Cleared, for the first step from these weights.** With Xavier's full gain, Post-Norm's output moves further, as Liu et al. argue ([chapter 05](05_deepnorm.ipynb#the-bounded-update)). We tested suspects 1, 3 and 4 only at step 0, where writes are still small.

### The same measurements at step 20

The slider shows the token share after each block. Before you move it: in which kind of model will the share drop
first, and in which will it recover?
"""


# %%
def shares_at(step):
    """Draw the share after each block, before one step."""

    def read(record):
        return dict(enumerate(record.probes["token-share"][step]["share"]))

    return plots.panels(
        {SHARE: {arm: arms[arm].values(read) for arm in trio}},
        xlabel="after block (0: the embedding)",
        log=[SHARE],
        limits={SHARE: (1e-15, 5.0)},
        caption=f"Token share after each block, before step {step}.",
        provenance=lab.provenance(watched),
    )


moments = [
    step
    for step in ("0", "4", "12", "20", "60")
    if step in arms["Post-Norm"].rows[0][1].probes["token-share"]
]
plots.explore(
    shares_at,
    moments,
    "step", label="step", start="20" if "20" in moments else moments[-1],
    caption="Token share (the part of the stream's squared length that distinguishes tokens) after each block, just before the step that the slider sets. In all three kinds of model the share drops in the first steps. "
    "In most runs of Post-Norm without warm-up it does not recover, and falls by powers of ten from the first block to the last.",
)  # fmt: skip

# %% [markdown]
r"""
**What came out.** All three lines dip, as expected if every model writes letter frequencies first. Without warm-up they dip sooner, even under Pre-Norm.
Then the three lines separate. Under Pre-Norm the constant stays *next to* the tokens, and training goes on from there. Under Post-Norm
every block divides the tokens as well, as when [a constant is written](02_pre_and_post_norm.ipynb#a-constant-write-twelve-times) twelve times. In Post-Norm without warm-up, the
gradient of the first block, which at step 0 is about as large as that of the last, has nearly vanished by step 20 ([the table](02_pre_and_post_norm.ipynb#what-is-it-stuck-in)).

At step 0 the identity path was innocent, because writes were small. Now they are large. Is this path the cause, or does $I + J_f$ still compensate for the
factor of $J_N$?

### Intervention: give the model the letter frequencies

A correlation would prove nothing, so we intervene. If writing the constant is the cause, removing the need for it should help. **What we did:** *give* the model the letter frequencies, as a fixed bias of its logits, and leave everything else unchanged.
First we look at step 20.
"""

# %%
counts = torch.bincount(training_text(), minlength=96).double()
known = [round(value, 2) for value in (counts.clamp(min=1) / counts.sum()).log().tolist()]
as_post = vars(base.model) | {"recipe": "post"}
with_frequencies = {"model": Departure(**as_post, bias=tuple(known))}
arm = {"frequencies given": with_frequencies}
given = lab.run(Experiment(base, {"arm": arm, "seed": sizes.seeds}))
arms |= given.by("arm")
shares["frequencies given"] = given.measure(share, at=sizes.then)

# %%
both = {"Post-Norm": post, "frequencies given": with_frequencies}
trial = replace(base, probes=("test", "token-share", "gradient-by-steps"))
fresh = lab.run(Experiment(trial, {"arm": both, "seed": sizes.fresh}))
few = sizes.fresh[:10]
fresh_at_lower_rate = fresh.again(lr=0.018, seed=few)
longer = fresh.again(steps=sizes.longer, seed=few)
# The control: what do the frequencies, once given, save Pre-Norm?
pre_with_frequencies = {"model": replace(with_frequencies["model"], recipe="pre")}
arm = {"Pre-Norm, given": pre_with_frequencies}
control = lab.run(Experiment(trial, {"arm": arm, "seed": sizes.seeds}))
trials = {
    "twenty new seeds": fresh,
    "learning rate 0.018": fresh_at_lower_rate,
    f"{sizes.longer} steps": longer,
}

# %%
share_given, share_plain = shares["frequencies given"], shares["Post-Norm"]
at_lower_rate = fresh_at_lower_rate.measure_by(share, "arm", at=sizes.then)
(share_given.map(np.log10) - share_plain.map(np.log10)).claim(
    "02-a-given-constant-keeps-tokens-apart",
    "> 2",
    "If Post-Norm is given the letter frequencies as a bias of its logits, its token share at step 20 (the part of the last stream's squared length that distinguishes tokens) is at least a hundred times as large as without them.",
    found="If Post-Norm is given the letter frequencies, the token share of its last stream (the part of its squared length that distinguishes tokens) has a median of {given:.2f} at step 20. On average over the seeds, the token share is {mean:.1f} powers of ten larger than if the model has to learn the frequencies itself.",
    source="predicted above; pilots",
    beside={
        "given": share_given.median,
        "second value": f"learning rate 0.018: {at_lower_rate['frequencies given'].median:.2f} against "
        f"{at_lower_rate['Post-Norm'].median:.2g} (medians)",
        "last step": f"step {sizes.last}: {share_given.at(sizes.last).median:.2f} against "
        f"{share_plain.at(sizes.last).median:.0e} (medians)",
        "control": "the same seeds without the frequencies",
    },
)

# %%
plots.table([look(arm, sizes.then) for arm in ("Post-Norm", "frequencies given")], digits=2)

# %% [markdown]
r"""
**The constant merges the tokens.** We changed only one thing, and the tokens stay distinct. In these runs, too, the norms have divided the stream by large numbers: little is left on the identity path. Yet their first block gets about as much
gradient as the last. So at step 20 $I + J_f$ compensates for the factor of $J_N$, as long as writes depend on
their tokens.

Do the given frequencies still help at the end of training? **What we did:** train Post-Norm with and without them, with twenty new seeds and, for ten of these, also at a lower learning rate or for four times as many steps.

| question | choices | ours |
| --- | --- | --- |
| What is Post-Norm's final loss if the model is *given* the letter frequencies? <!-- 02-a-given-constant-prevents-the-plateau --> | near the plateau; <!-- 0.1 --> clearly lower than the plateau | <details><summary>show</summary>*Given* the letter frequencies, Post-Norm reaches a lower loss.</details> |
"""


# %%
ends = fresh.measure_by("test.loss", "arm")
gained = ends["frequencies given"].improvement_over(ends["Post-Norm"])
saved = control.measure("test.loss").improvement_over(arms["Pre-Norm"].measure("test.loss")).mean
gained.after(given.measure("test.loss")).claim(
    "02-a-given-constant-prevents-the-plateau",
    "> 0.1",
    "Given the letter frequencies, Post-Norm ends at least a tenth of a nat lower.",
    found="If Post-Norm is given the letter frequencies, its final test loss is {given:.2f} nats instead of {plain:.2f} nats, which is {mean:.2f} nats lower.",
    source="predicted above",
    beside={
        "given": ends["frequencies given"],
        "plain": ends["Post-Norm"],
        "second value": f"learning rate 0.018: {gained.again(lr=0.018, seed=few).mean:.2f} nats lower",
        "last step": f"{sizes.longer} steps: {gained.again(steps=sizes.longer, seed=few).mean:.2f} nats lower",
        "control": f"given the frequencies, Pre-Norm's loss is {abs(saved):.3f} nats {'lower' if saved > 0 else 'higher'}",
    },
)

# %%
plots.table(
    {"setting": name}
    | {f"stuck, {arm}": str(part.count(is_stuck)) for arm, part in results.by("arm").items()}
    for name, results in trials.items()
)

# %% [markdown]
r"""
**The constant also causes the plateau, but not alone.** If Post-Norm is given the frequencies, almost none of the twenty new short runs is stuck. Does a model that already knows the frequencies merely have less to learn? No: Pre-Norm gains practically nothing from them
(the card's control).

But half of the longer runs, whose learning rate stays high for longer, get stuck although they were given the frequencies. So do a few of the thirty short runs at the high rate (ten earlier ones and the twenty new ones), which the next table lists:
"""

# %%
plots.table(
    {
        "seed": labels["seed"],
        "final loss (nats)": record.probes["test"]["loss"],
        f"token share at step {sizes.last}": share(record, sizes.last),
        f"identity path at step {sizes.last}": path(record, sizes.last),
        f"gradient, first block / last, step {sizes.last}": first_over_last(record, sizes.last),
    }
    for labels, record in (*given, *fresh.where(arm="frequencies given"))
    if is_stuck(record)
)

# %% [markdown]
r"""
In most of these stuck runs the tokens remain distinct up to the last measured step. But their norms have divided by about as much as plain Post-Norm's, and the gradient of their first block has nearly vanished: by step 140 $I + J_f$ no longer compensates.
That fits the second case of [Two Jacobians](02_pre_and_post_norm.ipynb#two-jacobians), long writes that differ between tokens and still depend little on small changes in the input. We did not measure $J_f$.

Can this be seen earlier? **What we did:** for the twenty new short runs that were given the frequencies, correlate the identity path and the token share at step 20 with the final loss.
"""


# %%
def rank_ends(results, measure, step):
    """Correlate a measure with the final loss by ranks, among runs that were given the frequencies."""
    given = results.where(arm="frequencies given")
    return given.measure(measure, at=step).correlate_ranks(given.measure("test.loss"))


# %%
rank = rank_ends(fresh, path, sizes.then)
rank.after(given.measure("test.loss")).claim(
    "02-the-path-foretells-the-end",
    "< 0",
    "Among runs that were given the letter frequencies, those whose identity path is smaller at step 20 end higher.",
    found="Among Post-Norm runs that were given the letter frequencies, the part of a gradient that the norms alone would pass at step 20 (the identity path) has a rank correlation of {mean:.2f} with the final test loss. For the share of the last stream that distinguishes tokens, the correlation is {share:.2f}.",
    source="seen in the ten runs of the first look",
    beside={
        "share": rank_ends(fresh, share, sizes.then),
        "second value": f"learning rate 0.018: {rank_ends(fresh_at_lower_rate, path, sizes.then).mean:.2f}; "
        f"{sizes.longer} steps: {rank_ends(longer, path, sizes.then).mean:.2f}",
        "last step": f"step {sizes.last}: {rank_ends(fresh, path, sizes.last).mean:.2f}; "
        f"step {sizes.last} of {sizes.longer}: {rank_ends(longer, path, sizes.last).mean:.2f}",
        "control": f"token share at step {sizes.then}: {rank_ends(fresh, share, sizes.then).mean:.2f}",
    },
)

# %% [markdown]
r"""
**What came out.** At step 20 the tokens of these runs are distinct. Yet the larger the factors by which a run's norms had divided, the higher its final loss tended to be. (Norms divide by more when writes have grown, so this may be an effect of the writes.) At the lower learning rate and in the longer runs the result is less clear ([How we know](02_pre_and_post_norm.ipynb#how-we-know)).

**A shared constant is one way onto the plateau; writes that go on growing seem to be another.**
The first is a cause: removing it changed the outcome. For the second we have only a correlation: we did not change the division alone.

<details><summary>Why do writes grow at a high learning rate?</summary>

We did not test why, but Adam's steps are long enough to explain it. Early in training a step moves a weight by about the learning rate, however small the gradient is: twenty equal steps at $0.025$ move it by $0.5$. The initial weights of a $32\times32$ matrix
have a standard deviation of only $\tfrac12\sqrt{2/64} \approx 0.09$, and larger weights turn a normalized vector into a larger write.

</details>

### What warm-up does

Would a few steps of warm-up suffice, and
would a low learning rate make warm-up unnecessary?
"""

# %%
brief = replace(base, probes=("validation", "test"))
ramps = lab.run(
    Experiment(brief, {"arm": {"post": post}, "train.warmup": sizes.warmups, "seed": sizes.seeds})
)
careful = lab.run(
    Experiment(brief, {"arm": {"low rate": {**post, "train.lr": 3e-3}}, "seed": sizes.seeds})
)

# %%
rows = [
    (0, 0.025, stuck["Post-Norm"], shares["Post-Norm"]),
    *((n, 0.025, part.count(is_stuck), None) for n, part in ramps.by("warmup").items()),
    (sizes.warmup, 0.025, stuck["with warm-up"], shares["with warm-up"]),
    (0, 0.003, careful.count(is_stuck), None),
]
plots.table(
    {"warm-up (steps)": n, "learning rate": rate, "Post-Norm runs stuck": str(count)}
    | {
        f"token share at step {step}": apart.at(step).median if apart else ""
        for step in (sizes.dip, sizes.later)
    }
    for n, rate, count, apart in rows
)

# %% [markdown]
r"""
**What came out.** With 20 steps of warm-up half of the runs are still stuck. At the low learning rate no run is stuck, even without warm-up. With 60 steps of warm-up the token share still dips, but it recovers.

<details><summary>Why does the dip do no harm with warm-up?</summary>

With 60 steps of warm-up the first 20 steps add up to $(1 + 2 + \dots + 20)/60 = 3.5$ full steps, instead of about 19. At step 20 the norms of these runs have divided by far less ([the table](02_pre_and_post_norm.ipynb#what-is-it-stuck-in)).

</details>

The next cell trains one Post-Norm model in seconds. Change its warm-up.
"""


# %% tags=["mechanism"]
def train_live(warmup):
    """Train one Post-Norm model here and now, and return its record."""
    corpus = base.data.load()
    torch.manual_seed(seed)
    model = replace(base.model, recipe="post").build()
    return train(model, corpus.train(seed), replace(base.train, warmup=warmup))


# %%
warmup = 0  # yours to change: 5, 20, 60
yours = train_live(warmup)
plots.loss_curves(
    {
        **{arm: [record.losses for _, record in arms[arm]][:1] for arm in trio},
        "yours": [yours.losses],
    },
    reference={"letter frequencies": unigram_loss},
    caption=f"Training loss of your run, with {warmup} steps of warm-up, and of one recorded run of each kind.",
    provenance=lab.provenance(watched),
).named("warm-up-steps")

# %% [markdown]
r"""
### Other learning rates and full training runs

So far, enough warm-up or a low learning rate has kept Post-Norm off the plateau. Does that hold in full training runs, and at other learning rates? From here on the models are those of the *ladder*, the grid of experiments
that all chapters share: recipes trained on the same text, at several model sizes.

<details><summary>Models and training</summary>

The ladder's *rungs* are its sizes and their variants. Size S has our six blocks of width 32, and size M six blocks of width 64. Both are trained on 20 characters per parameter. The variants D and D24 have the width and the text of size S, but twelve and 24 blocks, and so fewer characters per parameter. Variant C is size S on program code.
All use RMSNorm (chapter 03), SwiGLU (a feed-forward layer with a gate), warm-up over a tenth of the steps, gradients clipped at 1, and, unless we say otherwise, Megatron's initialization (all weights small, and those that write to the stream smaller still).

</details>

**What we did.** We trained five recipes at five learning rates, one run each, all with warm-up: Pre-Norm, Post-Norm, Post-Norm with Xavier's initialization, a model without norms, and the "normalized skip" $x \leftarrow N(x) + f(N(x))$.
"""

# %%
rung = "S"
tuning = climbed.where(stage="tuning", rung=rung, seed=ladder.TUNING_SEED)

# %%
plots.curves(
    {
        name: tuning.where(arm=arm, lr=ladder.COARSE).measure_by("validation.loss", "lr")
        for name, arm in climbers.items()
    },
    xlabel="learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    reference={
        "letter frequencies": ngram_loss(ladder.build_text(rung), 1, "validation"),
        "trigram counts": ngram_loss(ladder.build_text(rung), 3, "validation"),
    },
    caption="Validation loss of five recipes after 3,200 steps with warm-up, at five learning rates over two decades. At the higher rates Post-Norm stays on the "
    "plateau of letter frequencies and the model without norms diverges, while Pre-Norm's loss rises but remains lower than the plateau.",
    provenance=lab.provenance(tuning),
).named("five-rates")

# %% [markdown]
r"""
What does such a loss mean? Two of these models continue the same text: Pre-Norm at the best of the five learning rates, and Post-Norm on the plateau.
"""

# %%
compare_texts(
    lab, rung, {"Pre-Norm at 0.01": ("pre", 0.01), "Post-Norm at 0.0316": ("post", 0.0316)}
)

# %%
plateau, high = ngram_loss(ladder.build_text(rung), 1), {}
for arm in ("post", "pre"):
    run = ladder.configure_run(ladder.build_base_run(rung, arm), 0.0316, 0)
    found = lab.run(Experiment(run, {"seed": list(ladder.SEEDS)}))
    high[arm] = found.count(lambda record: is_stuck(record, plateau))
(high["post"] - high["pre"]).claim(
    "02-warm-up-is-not-always-enough",
    "> 0",
    "At a learning rate at which Pre-Norm trains, Post-Norm gets stuck at the loss of letter frequencies in spite of warm-up.",
    found="At learning rate 0.0316, with 320 steps of warm-up, {k} of {n} Post-Norm runs and {other_k} of {other_n} Pre-Norm runs are stuck at the loss of letter frequencies after 3,200 steps.",
    source="the usual advice; against it Nguyen & Salazar 2019, arXiv 1910.05895, Table 2",
    published="with Xavier's initial weights Post-Norm fails with 4,000 and with 8,000 steps of warm-up; with smaller ones it trains",
)

# %%
show_explorer(
    lab,
    climbed,
    "pre",
    beside="post",
    caption="A Post-Norm block next to a Pre-Norm block, and the validation loss that models of six such blocks reached at each learning "
    "rate that we tried, with warm-up. The thick line is the residual stream.",
).named("two-blocks")

# %% [markdown]
r"""
**What came out.** At the second highest learning rate warm-up is not enough for Post-Norm. In translation [Nguyen and Salazar (2019)](https://arxiv.org/abs/1910.05895) found
the same, and that a smaller initialization was the cure. So whether warm-up is enough depends on the initialization and the learning rate.

### Each at its own rate

Which placement reaches the lower loss, if each may use the learning rate that suits it best? On the ladder we *tune* each recipe's learning rate: we search, with three seeds, for the one with the lowest validation loss.
Then we compare the test losses of other seeds at the tuned rates.
"""

# %%
post_over_pre = ladder.improvement(climbed, "post")  # Pre-Norm's loss minus Post-Norm's
small = ladder.improvement(climbed, "pre", over="post")[rung]
post_over_pre.claim(
    "02-each-at-its-own-rate-they-tie",
    "in [-0.02, 0.02] of 0.8",  # nats: what being stuck costs after 150 steps
    "Each at its own rate, the two placements end within 0.02 nats of each other.",
    found="At size {rung}, with tuned learning rates, Post-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's. At the smallest size, the difference (Post-Norm's loss minus Pre-Norm's) is {small:+.4f} nats [{small_low:+.4f}, {small_high:+.4f}]. For comparison, removing attention raises Pre-Norm's loss by {worth:.2f} nats.",
    source="this book; Nguyen & Salazar 2019, arXiv 1910.05895, report Post-Norm ahead (WMT14 En–De)",
    published="BLEU 27.58 (Post) against 26.83 (Pre) on WMT14",
    beside={
        "small": small,
        "small_low": small.compute_interval()[0],
        "small_high": small.compute_interval()[1],
        "worth": -ladder.improvement(climbed, "no attention")[post_over_pre.largest].mean,
    },
)

# %% [markdown]
r"""
**What came out.** At both sizes, the difference between the losses is within the margin of 0.02 nats. In the smaller models Post-Norm's loss is a little higher.

**Limits.** The reports that Post-Norm is better concern translation and deeper stacks. A tie here does not refute them. In our models Pre-Norm's advantage is at learning rates above the best one, as the figure of five rates shows.

Is it still a tie in deeper models? The identity path is a product over all sublayers, so depth should matter more than width.
"""

# %%
post_over_pre.only("D").claim(
    "02-post-behind-at-twelve-blocks",
    "< 0",
    "At twelve blocks, each at its own rate, Post-Norm ends above Pre-Norm.",
    found="With twelve blocks and tuned learning rates, Post-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's ({n} seeds each).",
    source="the usual advice (Xiong et al. 2020, arXiv 2002.04745; Takase et al. 2023, arXiv 2206.00330)",
)

# %% [markdown]
r"""
The verdict is weak: leaving out one run changes it. With 24 blocks Post-Norm's loss is higher, too ([appendix E](E_hybridnorm.ipynb#table-5-depth)). Both results are for one width and one text.

### The price of the highway

A stream grows if blocks only add to it. If writes are uncorrelated and of variance $\sigma_f^2$, then $\mathrm{Var}\,x_S = \mathrm{Var}\,x_0 + S\,\sigma_f^2$, and the
length of a late write, compared with the stream's, decreases as $1/\sqrt S$. So the later a Pre-Norm block is, the less it should turn the stream. Does it then cost less to leave out a late block?
**What we did:** remove one block at a time from the trained models of the ladder, and measure the rise in the loss. *Late* blocks are those in the second half, except the last one.

| question | choices | ours |
| --- | --- | --- |
| Leave out one late block. Whose loss rises more? <!-- 02-late-pre-blocks-are-cheaper-to-remove --> | Pre-Norm's; <!-- -0.05 --> both rise about equally; <!-- 0.05 --> Post-Norm's | <details><summary>show</summary>Leaving out a late block costs Pre-Norm less than Post-Norm.</details> |
"""


# %%
# The blocks that are asked: which slice, of so many.
LATE = {
    "second half without the last": lambda n: slice(n // 2, max(n - 1, n // 2 + 1)),
    "second half": lambda n: slice(n // 2, n),
    "all blocks": lambda n: slice(0, n),
}


def compare_cuts(blocks):
    """How much less leaving out one of these blocks costs Pre-Norm than Post-Norm, on average."""

    def average_cost(record):
        costs = record.probes["removal-cost"]
        return np.mean(costs[blocks(len(costs))])

    return ladder.improvement(climbed, "pre", over="post", of=average_cost)


# %%
top = post_over_pre.largest
plots.by_depth(
    {
        name: climbed.where(arm=climbers[name], stage="final", rung=top).values("removal-cost")
        for name in ("Pre-Norm", "Post-Norm")
    },
    ylabel="rise in the loss without this block (nats)",
    xlabel="block",
    caption=f"Increase in the loss when one block of a trained model is left out, at size {top}. Leaving out a late block raises Post-Norm's loss more than "
    "Pre-Norm's, and leaving out an early block raises it less.",
    provenance=lab.provenance(climbed.where(stage="final", rung=top)),
).named("price-of-a-block")

# %%
whole = compare_cuts(LATE["all blocks"])[top].mean
compare_cuts(LATE["second half without the last"]).claim(
    "02-late-pre-blocks-are-cheaper-to-remove",
    "> 0",
    "Leaving out a late block of a trained model raises Pre-Norm's loss less than Post-Norm's.",
    found="At size {rung}, leaving out a late block raises Post-Norm's loss by {mean:.2f} nats more than Pre-Norm's. Averaged over all blocks, leaving one out raises Post-Norm's loss by {whole:.2f} nats {less} than Pre-Norm's.",
    source="Xie et al. 2023, arXiv 2304.14802; Li et al. 2025, arXiv 2412.13795",
    beside={"whole": abs(whole), "less": "less" if whole < 0 else "more"},
)


# %% [markdown]
r"""
**Limits.** The card does not show that late Pre-Norm blocks are idle: in the figure, leaving one out costs about as much as leaving out a middle one. Although Pre-Norm's late blocks are cheaper to leave out, its final loss at six blocks is no higher than Post-Norm's.

### Seven answers

Many recipes try to have both a highway and late blocks that matter. In the table, seven answers follow Post-Norm and Pre-Norm: each moves, adds or weights a norm or a skip. LNS, in the last row, only scales the output of Pre-Norm's norms.

| answer | equation | norm on the stream? |
| --- | --- | --- |
| Post-Norm | $x \leftarrow N(x + f(x))$ | yes |
| Pre-Norm | $x \leftarrow x + f(N(x))$ | no |
| output norm ([Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656)) | $x \leftarrow x + N(f(x))$ | no |
| Sandwich ([Ding et al., 2021](https://arxiv.org/abs/2105.13290)) | $x \leftarrow x + M(f(N(x)))$, where $M$ is a second norm | no |
| Peri ([Kim et al., 2025](https://arxiv.org/abs/2502.02732)) | Sandwich, with a norm on the embedding | once, at its start |
| Mix-LN ([Li et al., 2025](https://arxiv.org/abs/2412.13795)) | $x \leftarrow N(x + f(x))$ in the first quarter of the blocks, $x \leftarrow x + f(N(x))$ in the others | in the first quarter |
| ResiDual ([Xie et al., 2023](https://arxiv.org/abs/2304.14802)) | $x \leftarrow N(x + f(x))$ and, in parallel, $r \leftarrow r + f(x)$; the output reads $x + N(r)$ | on $x$, not on $r$ |
| B2T ([Takase et al., 2023](https://arxiv.org/abs/2206.00330)) | $x \leftarrow N(x + f(x))$ after attention, $x \leftarrow N(e + x + f(x))$ after the feed-forward layer, where $e$ is the block's input | yes |
| Admin ([Liu et al., 2020](https://arxiv.org/abs/2004.08249)) | $x \leftarrow N(\omega_i \odot x + f(x))$ with a learned $\omega_i$, large at first | yes |
| LNS ([Sun et al., 2025](https://arxiv.org/abs/2502.05795)) | $x \leftarrow x + f(N(x)/\sqrt\ell)$ in block $\ell$ | no |

Each line below says how the answer affects the *signal*, the *gradient* and the *first steps* of training, what it *costs*, and which result would refute the argument for it (*wrong if*).

<details><summary>What these lines compare: the share of the embedding in the final vector</summary>

Let the embedding and every write have variance 1 and be uncorrelated. Pre-Norm's final vector is a sum of $1 + S$ such vectors, so the embedding's share is $1/\sqrt{1 + S}$: $0.28$ for the twelve sublayers of six blocks, and $0.10$ for the 96 of 48 blocks.
Post-Norm's share is $2^{-S/2}$: $0.016$ and $4\cdot10^{-15}$ for the same two depths. The inverse root decreases slowly with depth, and the exponential decreases fast. A gradient that passes only through the skips is multiplied by the same number. All of this is derived for the start of training and for writes of variance 1.

</details>

<details><summary>Pre-Norm: nothing on the stream is divided</summary>

*Signal:* nothing on the stream is divided before the final norm, so a constant stays next to the token. *Gradient:* the skips pass it unchanged, and the final norm divides it once. In a branch it is divided by the size of the stream. It has no lower bound. *First steps:* Adam's first step moves the output about as far as Post-Norm's does. *Cost:* the stream grows, so a late write turns it only by an angle of about $1/\sqrt S$.
*Wrong if* its tokens merged where Post-Norm's do, or if its late blocks were idle. We saw neither, at the sizes that we trained.

</details>
<details><summary>Output norm: every write has a fixed size</summary>

*Signal:* every write has the size that the norm's gain sets, so $S$ writes lengthen the stream by at most $S$ times that size. The embedding's share is the same as in Pre-Norm. *Gradient:* the skips pass it unchanged, as in Pre-Norm. In a branch it is divided by the size of the raw write. *First steps:* the direction of a write changes, but not its size, and the smaller the initial weights, the further a step turns the write. So a small initialization no longer means small writes.
*Cost:* as many norms as in Pre-Norm, and sublayer inputs that grow with the stream. *Wrong if* the trained stream did not stay smaller than Pre-Norm's. In our models it stays smaller, though at another learning rate ([streams, block by block](C_zoo.ipynb#streams-block-by-block)).

</details>
<details><summary>Sandwich: every input and every write has a fixed size</summary>

*Signal:* as for the output norm, and the sublayer's input has a fixed size as well. *Gradient:* the gradient of the branch is divided by the size of the stream and by the size of the raw write. *First steps:* as for the output norm. *Cost:* two norms per sublayer, which move about twice as many bytes as one. *Wrong if* the second norm changed neither the stream nor the loss. In our models the stream grows about half as much as Pre-Norm's, and we saw no lower loss ([norms on what is written](C_zoo.ipynb#norms-on-what-is-written)).

</details>
<details><summary>Peri: the embedding has a fixed size, too</summary>

*Signal:* as for Sandwich, and the embedding enters the stream at the size of a write, however small it is initially. *Gradient:* at the embedding it is divided by the embedding's size, so small embeddings get large gradients. *First steps:* a step turns the normalized embedding and does not lengthen it. *Cost:* Sandwich's, plus one more norm. *Wrong if* the stream grew with depth as Pre-Norm's does. In our models it grows less, and we saw no lower loss.

</details>
<details><summary>Mix-LN: the stream fades in the first quarter only</summary>

*Signal:* the embedding and the first writes fade in the first quarter only. From there on the stream is a plain sum of fewer writes. Of six blocks one is Post-Norm: its two sublayers leave half of the embedding, ten more sublayers add to it, and the share is $\tfrac12/\sqrt{11} \approx 0.15$. *Gradient:* at 48 blocks the twelve Post-Norm blocks reduce the gradient along the skips to $2^{-12}$ of its size. *First steps:* the first blocks can merge tokens, as in Post-Norm. *Cost:* no more norms than in Pre-Norm, and Post-Norm's trouble in a quarter of the stack.
*Wrong if* leaving out a late block raised the loss no more than under Pre-Norm. In our models, which are shallower than the paper's, we could not distinguish the late blocks of the two recipes, though at tuned learning rates Mix-LN's gradients are more even ([against idle late blocks](C_zoo.ipynb#against-idle-late-blocks)).

</details>
<details><summary>ResiDual: one stream fades, the other keeps everything</summary>

*Signal:* $x$ fades as in Post-Norm, $r$ keeps every write with weight one, and the embedding's share of $r$ equals its share of Pre-Norm's stream. Sublayers read $x$ only: where tokens have merged in $x$, later writes no longer depend on the token. *Gradient:* through $r$ each write gets its gradient directly, divided once by the size of $r$. *First steps:* in $r$ a constant is added next to the tokens. In $x$ it also makes the norms shrink them. *Cost:* a second stream to store and move, and one more norm.
*Wrong if* the last block of a deep stack did not move the output more than Pre-Norm's does. In untrained ResiDual models the last block changes the output by a fraction that does not shrink with depth.

</details>
<details><summary>B2T: one more skip, around all norms of the block but the last</summary>

*Signal:* the block's input $e$ passes through one norm per block instead of two. After attention $x$ holds $e/\sqrt2$, so the second sum holds $(1 + 1/\sqrt2)\,e$ and has variance $3 + \sqrt2$. The norm divides by the root of this variance, so a block keeps $1.71/2.10 = 0.81$ of $e$, whereas Post-Norm keeps $0.5$. Six blocks keep $0.29$, and 48 blocks only $5\cdot10^{-5}$: the decrease is still exponential. *Gradient:* on the skips, it shrinks by the same factor as the embedding's share. *First steps:* like Post-Norm's, but writes are smaller compared with the sum. *Cost:* one addition per block, and memory for $e$.
*Wrong if* it failed at the rates at which Post-Norm fails. Our model learns at one such rate (one seed), but its gradients were not visibly more even than Post-Norm's ([Post-Norm with help](C_zoo.ipynb#post-norm-with-help)).

</details>
<details><summary>Admin: the skip is so heavy that every write begins small</summary>

*Signal:* $\omega_i^2$ is one plus the variances of all earlier writes, measured once before training. A sublayer then keeps $\omega_i/\omega_{i+1}$ of the stream. In the product of these factors each denominator cancels with the next numerator, and what remains is Pre-Norm's share: at initialization Admin *is* Pre-Norm, except for correlations ([proof](placements.md)). *Gradient:* on the skips, it shrinks by the same factor as the embedding's share. *First steps:* late writes are small compared with their skip, as in Pre-Norm. But if all writes grow tenfold while $\omega$ stays the same, the norms divide by more and the skip fades sublayer by sublayer, as in Post-Norm. *Cost:* one forward pass before training, and $d$ more parameters per sublayer.
*Wrong if* it failed wherever Post-Norm does. At a learning rate too high for Post-Norm, our Admin model learns something (one seed).

</details>
<details><summary>LNS: late writes begin small</summary>

*Signal:* if a sublayer's output scales with its input, the variance of its write becomes $1/\ell$. The variances add up to $2(1 + \tfrac12 + \dots + \tfrac1L)$ instead of $2L$, so the stream's variance grows with the logarithm of the depth: at six blocks the share is $1/\sqrt{5.9} \approx 0.41$. *Gradient:* multiplied by 1 on the skip and by $1/\sqrt\ell$ in the branch of block $\ell$. *First steps:* late writes change less. *Cost:* a constant factor, but no additional norm or parameter. The norm's gain can learn to cancel the factor.
*Wrong if* late blocks did not count for more than under Pre-Norm. In our six blocks they count for *less*, although the loss is lower. That does not refute the paper, whose models have twelve or more blocks.

</details>

Warm-up and a lower learning rate leave the equation of the block as it is. So do smaller initial weights:

<details><summary>Smaller initial weights: writes begin small</summary>

[Nguyen and Salazar (2019)](https://arxiv.org/abs/1910.05895) used them. *Signal, gradient:* writes $\lambda$ times as large leave $(1 + \lambda^2)^{-S/2}$ on the identity path instead of $2^{-S/2}$. *First steps:* Adam's steps are as long as before. *Cost:* no additional time. *Wrong if* they prevented nothing once writes had grown. That is what our models show: they start with half of Xavier's gain and lose almost nothing on the identity path at step 0, but at the learning rate $0.025$ the path collapses within twenty steps.

</details>

A [separate page](placements.md) lists which models use which answer, and what the sources report. In [appendix C](C_zoo.ipynb) we train these recipes at our size.

## Where it goes wrong

Most wrong blocks still train, so a loss curve seldom reveals them. Compare the code with the equation instead.

**Text says Post, code does Pre.** The Annotated Transformer ([Huang et al., 2022](https://nlp.seas.harvard.edu/annotated-transformer/)) describes Post-Norm but
normalizes the *input* of each sublayer ([this line](https://github.com/harvardnlp/annotated-transformer/blob/debc9fd747bb2123160a98046ad1c2d4da44a567/the_annotated_transformer.py#L357)). Its code is a good Pre-Norm model, and a trap for anybody who cites it as the original.

**The skip starts after the norm.** With one variable too few, the block computes $x \leftarrow N(x) + f(N(x))$. With $y = N(x)$ this is $y \leftarrow N(y + f(y))$: it *is* Post-Norm, with a norm on the embedding. In the figure of
five rates its line, "normalized skip", coincides with Post-Norm's. Megatron-LM offers it as an option ([`apply_residual_connection_post_layernorm`](https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/core/transformer/transformer_config.py#L198)), so a port must copy the setting as well as the weights.

**The final norm is missing.** When a Post-Norm model is switched to Pre-Norm, the final norm is easily forgotten:
[NeMo added it later](https://github.com/NVIDIA-NeMo/Speech/pull/2197). A test needs no training: triple the output of the last Pre-Norm block. If a norm follows, no logit changes. (In Post-Norm that norm is inside the last block, so triple the sum before it instead.)

*A bug to find.* A model runs `h = norm(x); x = h + f(h)` twelve times, and its head reads `norm(x)`. The author calls it Pre-Norm. What is it, and which single test shows that?

<details><summary>Answer</summary>

It is Post-Norm with a norm on the embedding: put $y = N(x)$. Multiply $x$ by 3 before a block. In Pre-Norm the skip keeps the factor; here the block's output does not change.

</details>
"""

# %%
norm = lambda: LayerNorm(32).double()  # noqa: E731
skip = 3 * torch.randn(7, 32).double() + 1
summed = norm()(skip)
for _ in range(6):
    f = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)).double()
    skip, summed = StreamNorm(norm, f)(skip), PostNorm(norm, f)(summed)
exact((norm()(skip) - summed).abs().max(), tolerance=1e-3).claim(
    "02-a-normed-skip-is-post-norm",
    "< 1e-3",
    "Pre-Norm with a norm on the skip as well computes the same function as Post-Norm with a norm on the embedding.",
    found="The output of six sublayers N(x) + f(N(x)) and a final norm differs from that of Post-Norm on a normalized embedding by at most {mean:.1g}.",
    source="derived above",
)


# %%
def change_when_tripled(final_norm):
    """Largest change of a logit when the last block's output is tripled, over the largest logit."""
    torch.manual_seed(seed)
    model, text = (
        ModelConfig("pre", "layer", final_norm=final_norm).build().double(),
        torch.randint(96, (4, 32)),
    )
    with torch.no_grad():
        plain = model(text)
        with model.blocks[-1].register_forward_hook(lambda *seen: 3 * seen[-1]):
            return ((model(text) - plain).abs().max() / plain.abs().max()).item()


exact(change_when_tripled(None), tolerance=1e-3).claim(
    "02-tripling-finds-a-missing-final-norm",
    "< 1e-3",
    "With a final norm, the logits do not depend on the scale of the last block's output.",
    found="Tripling the last block's output changes the logits by at most {mean:.0e} of the largest logit with a final norm, and by up to {bare:.1f} times the largest logit without one.",
    source="the norm's own scale invariance",
    beside={"bare": change_when_tripled(False)},
)

# %% [markdown]
r"""
## How we know

**Which runs count as stuck?** The threshold (the *cut*) of a tenth of a nat is our choice. Cuts of half and twice this size give the same picture:
"""


# %%
CUTS = (0.05, 0.1, 0.2)  # nats below letter frequencies


def count_stuck(results):
    """Count the stuck runs of an arm, by three cuts."""
    return {
        f"stuck, cut {cut:g}": str(results.count(lambda record, cut=cut: is_stuck(record, cut=cut)))
        for cut in CUTS
    }


# %%
plots.table([{"runs": arm, **count_stuck(arms[arm])} for arm in trio])

# %% [markdown]
r"""
**Is the cause the division, or the constant?** By step 20 the norms divide the stream by less in the runs that were given the frequencies (first row of the next table) than in plain Post-Norm (third row). So we compare the first row with plain Post-Norm at the first measured step at which its norms divide by at least as much (second row). In the first row the gradient reaches the first block, and in the second it hardly does. So the division alone does not explain the difference.
"""

# %%
# The step at which plain Post-Norm's norms have divided by as much as the other's have at the second look.
left = given.measure(path, at=sizes.then).median
looks = arms["Post-Norm"].rows[0][1].probes["token-share"]
same_dose = next(
    (n for n in looks if arms["Post-Norm"].measure(path, at=n).median <= left), sizes.then
)

# %%
plots.table(
    [
        look("frequencies given", sizes.then),
        look("Post-Norm", same_dose),
        look("Post-Norm", sizes.then),
        look("frequencies given", sizes.last),
    ],
    digits=2,
)

# %% [markdown]
r"""
**Does the result of the intervention depend on the threshold, the seeds or the setting?** The number of stuck runs does. Each cell of the next table counts plain Post-Norm first, and then the runs that were given the frequencies. The rank test (Mann–Whitney, on the final losses of the two kinds) needs no threshold: in every row the two kinds differ.
"""


# %%
def compare_ends(name, results):
    """Compare the two sides of the trial by cuts and by ranks; a row of a table."""
    by_arm, of_sides = results.by("arm"), ("Post-Norm", "frequencies given")
    without, given_it = (count_stuck(by_arm[arm]) for arm in of_sides)
    ends = (by_arm[arm].measure("test.loss").values for arm in of_sides)
    return {
        "runs": name,
        **{cut: f"{without[cut]}, given {given_it[cut]}" for cut in without},
        "p of the rank test": mannwhitneyu(*ends).pvalue,
    }


# %%
seen = arms["Post-Norm"] + given
both_looks = {"the first ten seeds": seen, **trials}
plots.table([compare_ends(*of) for of in both_looks.items()], digits=2)

# %% [markdown]
r"""
**Could the outcome be predicted at step 20?** For each of the three cuts, draw one run that learned and one that is stuck. The table gives the probability that, at step 20, the run that learned has the larger value of a measure. By chance it would be one half.
The table is post hoc, and its three kinds of run (Post-Norm with warm-up, without, and given the frequencies) differ from the start, which alone could produce such a table. That is why the card on the identity path tests new runs of a single kind.
"""

# %%
every = [record for _, record in (*seen, *arms["with warm-up"])]
MEASURES = {"identity path": path, SHARE: share, RATIO: first_over_last}


def separates(measure, step, cut):
    """Say how often a run that learns has more of a measure than a stuck one (0.5: no better than chance)."""
    values = {
        flag: [measure(one, step) for one in every if is_stuck(one, cut=cut) == flag]
        for flag in (True, False)
    }
    pairs = len(values[True]) * len(values[False])
    return mannwhitneyu(values[False], values[True]).statistic / pairs if pairs else float("nan")


plots.table(
    {"at step 20": name, **{f"cut {cut:g}": separates(of, sizes.then, cut) for cut in CUTS}}
    for name, of in MEASURES.items()
)

# %% [markdown]
r"""
The next table gives the rank correlations of the same measures with the final loss, among runs that were given the frequencies. In the short runs at the high rate the identity path predicts the final loss at every step. At the lower rate it predicts the loss less well, and in the longer runs not at all at steps 12 and 20. In both of these settings there is a step at which the token share predicts the loss better.
"""


# %%
plots.table(
    [
        {
            "rank correlation with the final loss": f"{name}, {of}",
            **{
                f"step {step}": rank_ends(results, measure, step).mean
                for step in (sizes.dip, sizes.then, sizes.later, sizes.last)
            },
        }
        for name, results in trials.items()
        for of, measure in MEASURES.items()
    ],
    digits=2,
)

# %% [markdown]
r"""
**Twelve blocks: does a learning rate at which no seed learns count?** One grid step above Post-Norm's best learning rate every seed stayed at the loss of the unigram baseline. If the tuning uses that loss, the interval excludes zero. If not, it excludes zero only just, and the verdict is weak. The card leaves this loss out, a choice that we made after seeing the result ([appendix E](E_hybridnorm.ipynb#table-5-depth)).

**Which blocks are late?** With or without the last block, leaving out a block of the second half costs Post-Norm more. Averaged over all blocks, leaving one out costs Post-Norm a little less at S and M, and a little more in the deeper variants. The table's entries are Post-Norm's cost minus Pre-Norm's, in nats.
"""


# %%
plots.table(
    {
        "blocks": name,
        **{f"size or variant {rung}": f"{gap:+z.3f}" for rung, gap in compare_cuts(blocks).items()},
    }
    for name, blocks in LATE.items()
)

# %% [markdown]
r"""
## Exercises

**2 (proof).** Let $x$ and $c$ have mean 0, variance 1 and an angle $\theta$ between them, and let $\epsilon = 0$. Show that
$N(x + c)$ makes an angle of $\theta/2$ with $c$. First compute two numbers: if the angle is 90° at first and $c$ is added again and again, after how many
additions is it below a tenth of a degree in Post-Norm, and in Pre-Norm?
"""

# %% tags=["exercise"]
yours = {"post": ..., "pre": ...}

# %%
wanted = {"post": int(np.ceil(np.log2(90 / 0.1))), "pre": int(np.ceil(1 / np.tan(np.deg2rad(0.1))))}
check.answer(
    yours, wanted, name="2", hint="halve 90 until it is below 0.1; a tangent of 1/S", rtol=1e-4
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Vectors of mean 0 and variance 1 all have the length $\sqrt d$. What does the sum of two vectors of equal length do to the angle between them?

</details>
<details><summary>Solution</summary>

$N$ preserves the direction of vectors of mean 0, so only the direction of $x + c$ matters. $|x| = |c|$ makes $x$ and $c$ two sides of a rhombus, and
$x + c$ is its diagonal, which halves the angle. $\square$ The numbers: Post-Norm needs ten halvings, since $90/2^{10} \approx 0.088$, and for Pre-Norm $1/S < \tan 0.1°$
needs $S = 573$.

</details>

**3 (in code).** A gradient $g$ arrives at the output of LayerNorm. Write a function for the gradient at its input, $J_N^\top g$, without autograd and without
building a $d\times d$ matrix. `x` and `g` have shape (tokens, d).
"""


# %% tags=["exercise"]
def pull_back(x, g, eps=1e-5):
    """Return the gradient at the input of layer_norm, given the one at its output."""
    return ...


# %%
def check_pull_back(pull_back):
    """Hold a hand-written backward pass against autograd."""
    x, g = torch.randn(2, 3, 8).double().round(decimals=2)
    wanted = torch.func.vjp(layer_norm, 3 * x + 1)[1](g)[0]
    hint = "J_N is symmetric: apply its three terms to g one by one"
    return check.function(pull_back, (3 * x + 1, g), wanted, name="3", hint=hint, rtol=1e-6)


check_pull_back(pull_back)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\frac1d\mathbf 1\mathbf 1^\top g$ is the mean of $g$. $\frac1d\hat x\hat x^\top g$ is $\hat x$ times the mean of $\hat x \odot g$.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_pull_back(x, g, eps=1e-5):
    """A solution of exercise 3."""
    r = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    hat = (x - x.mean(-1, keepdim=True)) / r
    return (g - g.mean(-1, keepdim=True) - hat * (hat * g).mean(-1, keepdim=True)) / r


assert check_pull_back(solved_pull_back).ok

# %% [markdown]
r"""
**4 (open).** The intervention does not explain everything: some runs that were given the letter frequencies are stuck nevertheless. Which remedy
frees them? Write down a prediction and the result that would change your mind. Then compare (a) the frequencies and ten steps of warm-up, (b) the
frequencies and a third of the learning rate, and (c) no frequencies, but the whole gradient clipped to norm 1.
"""

# %% tags=["exercise"]
my_prediction = "…"
ideas = {
    "a": {**with_frequencies, "train.warmup": 10},
    "b": {**with_frequencies, "train.lr": 8e-3},
    "c": {**post, "train.clip": 1.0},
}
my_experiment = Experiment(brief, {"arm": ideas, "seed": sizes.seeds[:3]})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: str(part.count(is_stuck)) for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
<details><summary>Hint</summary>

Adam divides by the size of the gradient. What can clipping change, then?

</details>

## What you now know

- **Why does the place of one norm matter?** Every model first writes the letter frequencies into all tokens. Pre-Norm adds them next to the tokens' content, and Post-Norm divides that content, too. At a high learning rate the tokens of most Post-Norm runs without warm-up merge, and little of the gradient that could separate them reaches the first block.
  <!-- 02-post-norm-merges-its-tokens 02-a-constant-write-halves-the-angle 02-a-constant-write-leaves-pre-norm-its-token -->
- **Given the frequencies, Post-Norm keeps its tokens distinct in nearly all short runs and reaches a lower loss**, at both learning rates and, at the higher one, in longer runs, too. The frequencies are no complete cure: many of the longer runs are stuck. And at the lower learning rate they help although the tokens of most runs stay distinct even without them.
  <!-- 02-a-given-constant-keeps-tokens-apart 02-a-given-constant-prevents-the-plateau -->
- **Merged tokens are not the whole explanation.** Among short runs at the high learning rate that were given the frequencies, those whose norms have divided by more up to step 20 tend to reach a higher loss, although the tokens are still distinct then. In longer runs we did not see this at step 20, and we did not change the division alone.
  <!-- 02-the-path-foretells-the-end -->
- **Step 0 shows no difference** with 6 blocks and these weights: neither vanishing gradients nor a large last gradient nor a first step that is too long distinguishes the two placements. And Pre-Norm's gradient has no lower bound.
  <!-- 02-step-zero-shows-nothing 02-last-gradients-begin-alike 02-first-steps-go-equally-far 02-pre-gradient-has-no-floor -->
- With warm-up, tokens also become more alike, but they separate again. At a low learning rate Post-Norm needs no warm-up here, and at one that is too high, warm-up is not enough.
  <!-- 02-post-needs-warm-up 02-warm-up-is-not-always-enough -->
- **What is the place worth?** With each learning rate tuned, the losses are within 0.02 nats of each other with 6 blocks. At the one width and on the one text that we tried, Post-Norm's loss is higher with 12 blocks (a weak verdict) and with 24. Pre-Norm tolerates learning rates above its best one. Post-Norm relies more on its late blocks, and less on its early ones.
  <!-- 02-each-at-its-own-rate-they-tie 02-post-behind-at-twelve-blocks 02-late-pre-blocks-are-cheaper-to-remove 02-warm-up-is-not-always-enough -->
- A block with its norm in the wrong place often trains. Compare it with the equation, and triple the last block's output.
  <!-- 02-a-normed-skip-is-post-norm 02-tripling-finds-a-missing-final-norm -->

## To carry away

- **Equations.** Post-Norm $x \leftarrow N(x + f(x))$; Pre-Norm $x \leftarrow x + f(N(x))$, and one norm after the last block.
- **Use.** Use Pre-Norm unless there is a reason against it: it tolerates learning rates above its best one.
- **Cost.** Pre-Norm's stream grows, so late writes count for less. Post-Norm divides what earlier layers wrote, and needs warm-up or a low rate.
- **Related methods.** Output norm, Sandwich, Peri, Mix-LN, ResiDual, B2T, Admin, LNS.

| you see | cause | try |
| --- | --- | --- |
| the loss stays at that of a model that knows only letter (or token) frequencies | Post-Norm's tokens have merged, or (probably) growing writes make its norms divide by more and more | warm-up, a lower rate, Pre-Norm |
| the loss is fine but the model is not the paper's | the norm is not where the text says it is | compare with the equation |
| a Pre-Norm model's logits grow when the last block's output is tripled | the final norm is missing | add it |

## References

Works cited: [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762), [Nguyen and Salazar (2019)](https://arxiv.org/abs/1910.05895), [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745), [Liu et al. (2020)](https://arxiv.org/abs/2004.08249), [Huang et al. (2022)](https://nlp.seas.harvard.edu/annotated-transformer/), [Ding et al. (2021)](https://arxiv.org/abs/2105.13290), [Takase et al. (2023)](https://arxiv.org/abs/2206.00330), [Xie et al. (2023)](https://arxiv.org/abs/2304.14802), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Kim et al. (2025)](https://arxiv.org/abs/2502.02732), [Li et al. (2025)](https://arxiv.org/abs/2412.13795), [Sun et al. (2025)](https://arxiv.org/abs/2502.05795).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
