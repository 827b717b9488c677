# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# HybridNorm

**Question.** [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598) tried sixteen placements of norms. Their proposal, *HybridNorm*,
changes Pre-Norm in two ways: it normalizes queries, keys and values, and moves one norm onto the stream. Its perplexity is 20.00 and Pre-Norm's is 20.30, with one run each.
Which change accounts for HybridNorm's improvement over Pre-Norm, and would HybridNorm be better in another setting?

<details><summary>In short (contains spoilers)</summary>

- At our smallest model size, with large embeddings, HybridNorm is not distinguishable from Pre-Norm. The norms inside attention alone lower the loss, and the norm on the stream adds no improvement.
- With small embeddings, at that size, HybridNorm's loss is lower than Pre-Norm's. If the embeddings can grow, the norm on the stream accounts for the improvement. If a fixed multiplier keeps them small, we could not show that this norm adds to the norms inside attention.
- Norms on queries, keys and values make attention invariant to the scale of its input. So some rows of the paper's table look different but can compute the same functions.
- The improvement changes with the initialization, the embeddings and the learning rate. So a ranking of recipes depends on all three.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
import math
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.attention import Attention, attention_norms, rotary_angles, rotate
from labkit.context import Context
from labkit.corpora import Text
from labkit.corpora.ngrams import ngram_loss
from labkit.experiments import Domain, Experiment, Lab, Run, exact, ladder, published
from labkit.leaderboard.show_explorer import show_explorer
from labkit.model import Block
from labkit.norms import RMSNorm, rms_norm
from labkit.placements import StreamNorm
from labkit.source import show
from labkit.statistics.pooled import compare_samples
from labkit.training import loss_of

# %%
lab = Lab("06_hybridnorm", size=size, seed=seed, memory={"kernel": "900M", "run": "850M"})
sizes = lab.sizes(
    # a pair: book, gpu
    deep=(12, 24),
    steps=(100, 300),
    held_out=(8_192, 65_536),
    fresh=[3, 4, 5, 6, 7],
)
recipes = {
    "Pre-Norm": "pre",
    "QKV-Pre": "qkv-pre",
    "HybridNorm": "hybrid",
    "HybridNorm*": "hybrid*",
}
entries = {"RMS 1": "", "by the authors' rule": ", embedding by rule", "RMS 0.014": ", embedding 0.014"}  # fmt: skip
small = [arm + entry for entry in entries.values() for arm in recipes.values()]
starts = [f"{arm}, {init}" for init in ("xavier", "depth-scaled") for arm in ("pre", "hybrid")]
growing = ", drawn 0.014"  # as small at first, and nothing keeps them so
drawn = [arm + growing for arm in recipes.values()]
climbed = lab.ladder([*small, *starts, *drawn, "qk", "post", "no attention"])
first = "S"
rung = ladder.shared_rung(climbed, small)  # the largest on which all of them have reported
table4 = {row["method"]: row for row in published("zhuo2025-table4")}

# %%
show_explorer(
    lab,
    climbed,
    "hybrid",
    beside="pre",
    caption="Shown first: the blocks of Pre-Norm and HybridNorm, and the validation losses that models of six such blocks reached at each learning rate. "
    "In HybridNorm, norms on queries, keys and values replace the norm before attention, and one norm moves onto the residual stream.",
).named("two-blocks")

# %%
path = {
    f"embeddings of {entry}" if entry[0] == "R" else f"embeddings {entry}": {
        name: ladder.improvement(climbed, arm + suffix, "pre" + suffix)[rung]
        for name, arm in recipes.items()
    }
    for entry, suffix in entries.items()
}
plots.curves(
    {"published, 550M": {name: [math.log(table4["Pre-Norm"]["c4"] / table4[name]["c4"])] for name in recipes}} | path,
    xlabel="recipe, one change at a time",
    ylabel="improvement over Pre-Norm in test loss (nats)",
    reference={"Pre-Norm": 0.0},
    caption="Improvement over Pre-Norm (Pre-Norm's test loss minus the recipe's) as Pre-Norm is turned into HybridNorm* one change at a time: QKV-Pre has norms inside attention, HybridNorm also has a norm on the stream, and HybridNorm* also has a different first block. "
    f"In our small models, embeddings enter the stream with an RMS of 1, {ladder.build_base_run(rung, small[4]).model.embedding_size:.2f} (by a rule in the authors' code) or 0.014. "
    "Is HybridNorm's improvement larger or smaller than QKV-Pre's with large embeddings (RMS 1), and with small ones?",
    provenance=lab.provenance(climbed.where(arm=small, stage="final", rung=rung)),
).named("one-change-at-a-time")  # fmt: skip

# %% [markdown]
r"""
## The idea: one norm, moved onto the stream

For each placement the paper trains one language model of 550 million parameters on 400 billion tokens. On the C4 corpus the perplexity is 20.30 for Pre-Norm, 20.00 for HybridNorm, and 19.85 for
*HybridNorm\**, whose first block differs ([Table 4](https://arxiv.org/abs/2503.04598)). Perplexity is the exponential of the loss per token, so HybridNorm's loss is lower
than Pre-Norm's by $\ln(20.30/20.00) = 0.0149$ nats. (Unless we name a version, we quote the paper's early one.)

Let a token be $x = (2, 0, 2, 0)$. Attention writes $a = (1, 1, -1, -1)$, so $y = x + a = (3, 1, 1, -1)$, whose mean square is
$(9 + 1 + 1 + 1)/4 = 3$. RMSNorm turns it into $N(y) = y/\sqrt3$. Let the feed-forward layer write $f = (1, 0, 0, 1)$. Three placements
differ in how they combine these vectors:

- Pre-Norm: $x' = y + f$. The stream keeps everything that was ever written to it.
- Post-Norm: $x' = N(N(y) + f)$. The stream leaves the block normalized.
- HybridNorm: $x' = N(y) + f$. The stream is normalized once per block, *between* attention and the feed-forward layer, before the second output is added.
"""

# %%
plots.placement_diagram(
    "pre", "post", "hybrid",
    caption="One block of each recipe, from bottom to top. The thick line is the residual stream. A norm on this line changes the input of every later layer.",
).named("block-diagrams")  # fmt: skip

# %% [markdown]
r"""
Now let the token and both outputs be ten times smaller, as they might be in an untrained model with small embeddings and weights. Under Pre-Norm the proportions do not change: $x' = (y + f)/10$.
HybridNorm rescales the sum of the token and the first output to RMS 1, so $x' = N(y) + f/10$. Compared with $N(y)$, the output
$f/10$ is small, and so are later outputs. **The norm on the stream enlarges a small token, so later outputs do not drown it.** This norm cannot undo the effect of the first output,
which was added before it.

### The equations

$$Y = X + \mathrm{MHA}_{QKV}(X), \qquad X' = N(Y) + \mathrm{FFN}(N(Y)).$$

$\mathrm{MHA}_{QKV}$ normalizes each head's queries, keys and values before the rotation by position: $\mathrm{softmax}\!\big(N(Q)N(K)^\top/\sqrt{d_k}\big)N(V)$. Each of the three norms has one gain
vector of size $d_k$, which all heads share. (Norms on queries, keys and values were used before HybridNorm: [Rybakov et al., 2024](https://arxiv.org/abs/2410.16682).) A final norm precedes the output layer.

HybridNorm\* changes the first block only:
$Y = X + \mathrm{MHA}_{QKV}(N(X))$ and $X' = Y + \mathrm{FFN}(N(Y))$. QKV-Pre has HybridNorm's attention and Pre-Norm's
feed-forward sublayer: $Y = X + \mathrm{MHA}_{QKV}(X)$, $X' = Y + \mathrm{FFN}(N(Y))$. It is the fairest baseline, because it differs from HybridNorm only in the skip of the feed-forward sublayer.

A classical Post-Norm block has two norms on the stream: one after attention and one after the *feed-forward* layer, $N(N(Y) + \mathrm{FFN}(N(Y)))$.
HybridNorm has only the first. So where the paper writes "Post" for the FFN, read $X' = N(Y) + \mathrm{FFN}(N(Y))$: skip and branch both read the normalized stream.

A norm ignores the scale of its input: $N(tXW) = N(XW)$ for $t > 0$, if $\epsilon = 0$. This has two consequences. First, the output of HybridNorm's second equation does not depend on the scale of $Y$ (next card). Second, attention, which normalizes queries, keys and values, computes the same output for every scale of
$X$. So the scale of $X$ matters only in the sum $X + \mathrm{MHA}$, relative to the output of attention.
"""

# %%
no_eps = ModelConfig("hybrid", norm="rms", dim=32, depth=3, heads=4, context=32, norm_eps=0.0)


def fresh(recipe, config=no_eps):
    """Build an untrained model in double precision."""
    torch.manual_seed(seed)
    return replace(config, recipe=recipe).build().double()


block = fresh("hybrid").blocks[1]
stream = torch.randn(2, 7, 32).double()
half = block.feed_forward
exact((half(1000 * stream) - half(stream)).abs().max(), tolerance=1e-10).claim(
    "06-the-stream-is-reset",
    "< 1e-10",
    "The output of a HybridNorm block does not depend on the scale of the stream between attention and feed-forward layer.",
    found="If the stream between attention and feed-forward layer of a HybridNorm block is multiplied by 1,000, the block's output changes by at most {mean:.0e}.",
    source="scale invariance of RMS norm (ε = 0)",
)

# %% [markdown]
r"""
### Rows that can compute the same functions

The name of a row in Table 4 lists an input norm before attention (Pre), if there is one, then the norms inside attention, then the placement of the feed-forward layer's norm (Pre or Post). So the row Pre-QKV-Post is HybridNorm with one more norm: its attention reads $N(X) = g\odot X/\mathrm{rms}(X)$.

This extra norm does not change which functions the model can compute. Each token's factor
$1/\mathrm{rms}(X)$ cancels in the norms of that token's query, key and value, and the gain $g$ can be multiplied into the rows of
$W_Q, W_K, W_V$. So

$$\text{Pre-QKV-Post} \equiv \text{HybridNorm}, \qquad \text{Pre-QKV-Pre} \equiv \text{QKV-Pre}:$$

the two recipes of each pair can compute the same functions. For the same reason HybridNorm\*'s first block can compute the same functions as a QKV-Pre block. So HybridNorm\* and *First-QKV-Pre*, which is HybridNorm with a QKV-Pre block as its first, are the third pair.
"""

# %%
tokens = torch.randint(96, (2, 9))


@torch.no_grad()
def absorbed(with_norm, without):
    """Largest difference of logits after the gains of a norm were multiplied into q, k, v."""
    one, other = fresh(with_norm), fresh(without)
    for of, to in zip(one.blocks, other.blocks, strict=True):
        if hasattr(of.attention, "norm"):
            gain = of.attention.norm.weight.uniform_(0.5, 2.0)
            for name in "qkv":
                to.attention.sublayer.get_submodule(name).weight.mul_(gain)
    return (one(tokens) - other(tokens)).abs().max().item()


twins = {"pre-qkv-post": "hybrid", "pre-qkv-pre": "qkv-pre", "hybrid*": "first-qkv-pre"}
exact(max(absorbed(*pair) for pair in twins.items()), tolerance=1e-10).claim(
    "06-rows-that-are-one-function",
    "< 1e-10",
    "In three pairs of recipes from the HybridNorm paper, both recipes can compute the same functions.",
    found="If gains are multiplied into weights, the logits of Pre-QKV-Post and HybridNorm, of Pre-QKV-Pre and QKV-Pre, and of HybridNorm* and First-QKV-Pre differ by at most {mean:.0e}.",
    source="this chapter, on Table 4 and Figure 4 of Zhuo et al. 2025, arXiv 2503.04598 (early version)",
)

# %%
others = [row for name, row in table4.items() if row["c4"] and "HybridNorm" not in name]
plain = table4["HybridNorm"]
ahead = {
    "c4": sum(row["c4"] < plain["c4"] for row in others),
    "pile": sum(row["pile"] < plain["pile"] for row in others),
    "hellaswag": sum(row["hellaswag"] > plain["hellaswag"] for row in others),
}
exact(ahead["c4"]).claim(
    "06-table-4-is-not-consistent",
    "<= 0",
    "In Table 4 of the HybridNorm paper, no recipe except HybridNorm's own variant has a lower perplexity on C4 than plain HybridNorm.",
    found="Of the thirteen published recipes other than HybridNorm and its variant, {mean:.0f} have better scores than plain HybridNorm on C4, {pile:.0f} on the Pile and {hellaswag:.0f} on HellaSwag.",
    source="Zhuo et al. 2025, arXiv 2503.04598 (early version), Table 4",
    published="HybridNorm and its variant consistently surpass other configurations",
    beside={"pile": ahead["pile"], "hellaswag": ahead["hellaswag"]},
)

# %% [markdown]
r"""
In the published table, Pre-QKV-Post has a perplexity of 20.13, and HybridNorm, which can compute the same functions, has 20.00. Pre-QKV-Pre has 19.97, and QKV-Pre has 19.96
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). The two recipes that the last card counts as better than HybridNorm on C4 are this second pair. (One of the sixteen diverged, so thirteen remain besides HybridNorm and its variant.)

The paper [does not say](06_hybridnorm.ipynb#other-initializations) whether both rows of a pair start from the same initialization. If they do, their results can differ only because the gains
train differently, because of $\epsilon$, or by chance. Yet the rows of the first pair differ by $\ln(20.13/20.00) = 0.0065$ nats per
token. That is nearly half of HybridNorm's whole improvement over Pre-Norm, $0.0149$ nats.

### How much of a token is left

The share of a token that is still in the stream after several sublayers depends on the token's initial size. Before training, let embeddings have RMS $c$, and let every sublayer output have an RMS of $w$, well below 1, and be
orthogonal to everything else. After $m$ sublayers Pre-Norm's stream has the mean square $c^2 + m\,w^2$, and the cosine between the stream and the
token's embedding is

$$\frac{c}{\sqrt{c^2 + m\,w^2}} \quad\text{(Pre-Norm)}, \qquad\qquad \approx \frac{c}{\sqrt{c^2 + w^2}} \quad\text{(HybridNorm)}.$$

In HybridNorm only *one* output competes with the embedding. Then the first norm on the stream rescales token and output together to
RMS 1, and from there on an output of RMS $w$ is small in comparison. In HybridNorm\* three outputs compete: the two of its first block and that of the second block's
attention. An embedding of RMS 1 is large compared with an output. A small embedding is not, and it drowns in the outputs that compete with it.

Move the slider to see the cosine in untrained models:
"""

# %%
open_model = replace(no_eps, depth=6, init="megatron")
rule = round((2.5 * open_model.dim) ** -0.5, 3)


@torch.no_grad()
def remain(recipe, entry, of_seed):
    """Cosine of the stream with its embedding, before and after each block of a fresh model."""
    torch.manual_seed(of_seed)
    model = replace(open_model, recipe=recipe, embedding_size=entry, norm_eps=1e-5).build()
    text, after = torch.randint(96, (8, 32)), []
    for one in model.blocks:
        one.register_forward_hook(lambda made, given, out: after.append(out))
    model(text)
    token = model.embed(text)
    return [torch.cosine_similarity(token, x, dim=-1).mean().item() for x in (token, *after)]


def draw_rest(entry):
    """Draw what remains of a token under four recipes, from one size of embeddings."""
    return plots.by_depth(
        {name: [remain(arm, entry, i) for i in range(5)] for name, arm in recipes.items()},
        ylabel="cosine of stream and embedding", xlabel="block (0: the embedding)", start=0,
        ylim=(-0.1, 1.05), caption=f"Before training, with embeddings of RMS {entry}.",
    )  # fmt: skip


plots.explore(
    draw_rest, [0.014, rule, 1.0], "rest", label="RMS of embeddings",
    caption="Cosine between the stream and the token's own embedding, after each block of untrained models of six blocks. "
    "With large embeddings, the cosine stays high under every recipe. With small ones, it falls from block to block under Pre-Norm and QKV-Pre. Under HybridNorm and HybridNorm*, the first norm on the stream stops this decline.",
)  # fmt: skip

# %% [markdown]
r"""
So we predict: if small embeddings raise the loss at all, the losses of Pre-Norm and QKV-Pre rise most, and that of HybridNorm least.
"""

# %% [markdown]
r"""
## Implementation: exercise 1

**1 (in code).** Write HybridNorm's block as a function of the stream. `attention` is attention with its norms inside, `feed_forward` is the other
sublayer, and `norm` is the one norm on the stream.
"""


# %% tags=["exercise"]
def my_block(x, attention, feed_forward, norm):
    """One block of HybridNorm."""
    return ...


# %%
def check_hybrid(block):
    """Compare a block with HybridNorm's equations."""
    return check.block(block, "hybrid")


check_hybrid(my_block)

# %% [markdown]
r"""
<details><summary>Hint</summary>

You need two lines. The first computes $Y$. In the second, the skip, too, starts from $N(Y)$.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_block(x, attention, feed_forward, norm):
    """A solution of exercise 1."""
    z = norm(x + attention(x))
    return z + feed_forward(z)


assert check_hybrid(solved_block).ok

# %% [markdown]
r"""
In `labkit` a recipe is a sequence of two steps. This is HybridNorm's second step:
"""

# %%
show(StreamNorm)


# %% tags=["mechanism"]
def by_hand(x, block, heads=4):
    """HybridNorm's block from its equations: Y = X + MHA_QKV(X), X' = N(Y) + FFN(N(Y))."""
    part, split = block.attention.sublayer, (*x.shape[:2], heads, -1)
    q, k, v = (rms_norm((x @ w.weight.T).view(split), eps=0.0) for w in (part.q, part.k, part.v))
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    angles = rotary_angles(x.shape[1], x.shape[2] // heads)
    logits = rotate(q, angles) @ rotate(k, angles).transpose(2, 3) / q.shape[-1] ** 0.5
    later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    mixed = logits.masked_fill(later, -math.inf).softmax(-1) @ v
    z = rms_norm(x + mixed.transpose(1, 2).flatten(2) @ part.out.weight.T, eps=0.0)
    return z + block.feed_forward.sublayer(z)


# %%
off = block(stream, Context(rotary_angles(7, 8))) - by_hand(stream, block)
exact(off.abs().max(), tolerance=1e-10).claim(
    "06-block-is-the-equation",
    "< 1e-10",
    "labkit's HybridNorm block computes the paper's equations.",
    found="The outputs of labkit's HybridNorm block and of the paper's equations differ by at most {mean:.0e}.",
    source="Zhuo et al. 2025, arXiv 2503.04598, equations 8 and 9",
)

# %% [markdown]
r"""
## Measure
"""

# %% [markdown]
r"""
### Trained long enough to be ranked?

A comparison of norms inside attention means something only if attention matters to the models. So we compare the losses below with two others: that of *trigram counts*, which predict a character from the two before it, and that of the same model without attention.

Most models below belong to the experiment grid that this book's chapters share (the *ladder*). They have six blocks and about 80,000 parameters (size S) or 300,000 (M). [How we know](06_hybridnorm.ipynb#how-we-know) compares this setting with the paper's.
"""

# %%
shown = {**recipes, "Post-Norm": "post", "no attention": "no attention"}
tuning = climbed.where(stage="tuning", rung=first)
plots.curves(
    {
        name: {rate: tuning.where(arm=arm, lr=rate).values("validation.loss") for rate in ladder.COARSE}
        for name, arm in shown.items()
    },
    xlabel="learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    reference={"trigram counts": ngram_loss(ladder.build_text(first), 3, "validation")},
    ylim=(1.3, 3.2),
    caption="Validation loss against learning rate at size S, with embeddings of RMS 1. At their best learning rates, the recipes with attention reach similar losses. As the learning rate rises, Post-Norm fails first. Among the recipes with attention, QKV-Pre's loss rises least.",
    provenance=lab.provenance(tuning.where(arm=[*shown.values()])),
).named("by-rate")  # fmt: skip

# %% [markdown]
r"""
The models are trained long enough: the recipes with attention have far lower losses than trigram counts and than the model without attention.

In the next table each recipe has its best learning rate. The column *improvement* is Pre-Norm's test loss minus the
recipe's, with its 95 % interval. The column *sensitivity* is the mean validation loss over two decades of learning rates, minus the loss at the best rate.

<details><summary>The other columns</summary>

*Rate* is the tuned learning rate, *n* is the number of evaluation runs, and *test* is their mean test loss. D and D24 are size S with 12 and 24 blocks and fewer characters per parameter, and C is size S trained on program code.

</details>
"""

# %%
plots.table(ladder.table(climbed.where(arm=[*recipes.values(), "no attention"])), digits=4)

# %% [markdown]
r"""
At size S, HybridNorm is several times as sensitive to the learning rate as QKV-Pre. The two differ only in the norm on the stream, so this norm seems to cause the sensitivity.
In a larger model, too, HybridNorm seems sensitive: at 64 layers, [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895) report a largest stable rate of 7.65e-3
for Pre-Norm and of 4.9e-4 for HybridNorm. Table 4 uses one low rate for all rows, so it cannot show this sensitivity.

### Which change accounts for the improvement?

Unless a card says otherwise, embeddings have RMS 1. We first compare HybridNorm with Pre-Norm:
"""

# %%
TABLE4 = "Zhuo et al. 2025, arXiv 2503.04598 (early version), Table 4"
small_models = Domain(
    "550M parameters, 16 layers, 400B tokens, one rate for all",
    "six blocks, 20 characters per parameter (the shared grid of runs)",
    inside=False,
)
ladder.improvement(climbed, "hybrid").claim(
    "06-each-at-its-own",
    "> 0",
    "With tuned learning rates, HybridNorm reaches a lower test loss than Pre-Norm.",
    found="At size {rung}, with tuned learning rates, HybridNorm's test loss is {apart:.4f} nats {side} Pre-Norm's.",
    source=TABLE4,
    published="20.30 and 20.00 (C4 perplexity): 0.015 nats",
    domain=small_models,
)

# %% [markdown]
r"""
At size M HybridNorm's loss is lower than Pre-Norm's, but at size S the interval contains zero, and with 24 blocks (D24 in the table) HybridNorm's loss is higher. Our models are far smaller than the paper's, so the card gives no verdict on Table 4.

HybridNorm's improvement over Pre-Norm may have three sources: chance, the norms inside attention, and the norm on the stream. HybridNorm\*'s improvement may have a fourth, its first block. To test each change, we compare two recipes that differ in nothing else.

**1. Chance.** With one run per row, Table 4 cannot rule out chance: two rows that can compute the same functions differ by nearly half of HybridNorm's improvement. All our comparisons have several seeds per recipe.

**2. The norms inside attention.** QKV-Pre makes this change alone. Its published perplexity is 19.96, *lower* than plain HybridNorm's. The row Pre-QK-Pre, with norms on queries and keys only, has 20.22
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). We compare QKV-Pre first with Pre-Norm, then with a Pre-Norm model that has norms on queries and keys:
"""


# %%
def describe_step(arm, over, suffix):
    """Format the loss of `over` minus that of `arm`: the mean with its interval, in nats."""
    return f"{ladder.improvement(climbed, arm + suffix, over + suffix)[rung]:+z.4f}"


for arm, over, name, words, gap in (
    ("qkv-pre", "pre", "06-qkv-pre-at-its-own", "Pre-Norm", "20.30 and 19.96 (C4 perplexity): 0.017 nats"),
    ("qkv-pre", "qk", "06-value-norm-adds", "Pre-Norm with norms on queries and keys", "20.22 and 19.96: 0.013 nats"),
):  # fmt: skip
    ladder.improvement(climbed, arm, over).claim(
        name,
        "> 0",
        f"QKV-Pre ends below {words}.",
        found=f"At size {{rung}}, with tuned learning rates, QKV-Pre's test loss is {{apart:.4f}} nats {{side}} that of {words}.",
        source="this chapter, on the steps between the rows of Table 4",
        published=gap,
    )

# %% [markdown]
r"""
QKV-Pre reaches a lower loss than Pre-Norm at both sizes. We could not show that the norm on the values contributes to this. At learning rates above the best ones, QKV-Pre's improvement over Pre-Norm is larger, as the figure of the learning-rate search shows.

**3. The norm on the stream.** In the paper, the effect of this norm depends on the order of the changes. If norms on queries, keys and values are there already, it brings no improvement: the perplexity is 19.96 without it (QKV-Pre) and 20.00 with it (HybridNorm). If it is added to plain Pre-Norm, which gives the row Pre-Post, it brings half of HybridNorm's improvement: the perplexity falls from 20.30 to 20.15
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Appendix E has [all sixteen rows](E_hybridnorm.ipynb#table-4-sixteen-placements).

What does this norm add if there are norms inside attention already? We compare QKV-Pre with HybridNorm\*, the better of the two HybridNorm variants in Table 4. The first blocks of these two recipes can compute the same functions, so the recipes differ only in the norm on the stream of the later blocks.
"""

# %%
small_in = entries["RMS 0.014"]
ladder.improvement(climbed, "qkv-pre", "hybrid*").claim(
    "06-qkv-pre-ahead-of-the-star",
    "> 0",
    "With embeddings of RMS 1, QKV-Pre ends below HybridNorm*.",
    found="At size {rung}, with embeddings of RMS 1, QKV-Pre's test loss is {apart:.4f} nats {side} that of HybridNorm*.",
    source="derived above: large embeddings need no rescaling",
)
ladder.improvement(climbed, "hybrid*" + small_in, "qkv-pre" + small_in).claim(
    "06-star-ahead-of-qkv-pre-when-small",
    "> 0",
    "With embeddings of RMS 0.014, HybridNorm* ends below QKV-Pre.",
    found="At size {rung}, with embeddings of RMS 0.014, the test loss of HybridNorm* is {apart:.4f} nats {side} that of QKV-Pre.",
    source="derived above: a norm on the stream enlarges small tokens",
)

# %% [markdown]
r"""
With large embeddings we see no benefit from the norm on the stream: at size S, QKV-Pre's loss is lower than HybridNorm\*'s, and at size M the interval contains zero. With our smallest embeddings we cannot distinguish the two recipes by the comparison that we preregistered. (It does not pair seeds. If runs with the same seed are compared in pairs, HybridNorm\*'s loss is lower: open the second card.)

**4. The first block.** The next table lists the improvement at each step, for the paper and, at size S, for our three sizes of embeddings:
"""


# %%
pairs = [*zip(list(recipes)[1:], recipes, strict=False), ("HybridNorm*", "Pre-Norm")]
plots.table(
    {
        "improvement (nats)": f"{over} to {name}".replace("*", "\\*"),
        "published, one run": f"{math.log(table4[over]['c4'] / table4[name]['c4']):+.4f}",
        **{f"here, {entry}": describe_step(recipes[name], recipes[over], of) for entry, of in entries.items()},
    }
    for name, over in pairs
)  # fmt: skip

# %% [markdown]
r"""
For the first block (HybridNorm to HybridNorm\*) two of our intervals contain zero, and the one for our smallest embeddings only just excludes it. Appendix C has [other first blocks](C_zoo.ipynb#first-blocks).

With small embeddings the whole improvement, from Pre-Norm to HybridNorm\* (the last row), is about as large as the published one. With our smallest embeddings the largest step is also the published one, to the norms inside attention. Adding the norm on the stream to QKV-Pre does not detectably lower the loss, and it did not help in the paper either. With embeddings by the authors' rule the steps look different, but that column contains preliminary evaluations. Our intervals for small embeddings are wide, so no single step is known precisely.

### The size of the embeddings

Our results depend on the size of the embeddings, and the embeddings in the authors' code are small. A rule in the code gives them the standard deviation $1/\sqrt{2.5\,d}$
([commit f0dd605](https://github.com/BryceZhuo/HybridNorm/tree/f0dd60589c4cafcbd5496d60884d2745ff340805)). For the code's width of 2,048 this is 0.014, for Table 4's width of 1,536 it is a little more, and for our width of 32 it is $1/\sqrt{80}$, about a ninth.

We trained the four recipes with embeddings that enter the stream with an initial RMS of 1, a ninth or $0.014$. Embeddings are drawn with standard deviation $1/\sqrt d$ and multiplied by $\sqrt d$, which gives RMS 1. For the two smaller values a second factor, the *fixed multiplier*, scales the embeddings throughout training.
"""

# %%
plots.curves(
    {
        name: {
            entry: list(ladder.reported(climbed, arm + of)[rung].values())
            for entry, of in reversed(entries.items())
        }
        for name, arm in recipes.items()
    },
    xlabel="embeddings, as they enter the stream",
    ylabel="test loss (nats)",
    caption=f"Test loss at size {rung} against the RMS with which embeddings enter the stream, with tuned learning rates. "
    "Embeddings of RMS 0.014 raise Pre-Norm's loss the most and HybridNorm*'s the least.",
    provenance=lab.provenance(climbed.where(arm=small, stage="final", rung=rung)),
).named("by-embedding")


# %% [markdown]
r"""
How much do small embeddings raise Pre-Norm's loss, and do they enlarge HybridNorm's improvement over Pre-Norm?
"""

# %%
ladder.improvement(climbed, "pre", "pre" + small_in).claim(
    "06-small-embeddings-cost-pre-norm",
    "> 0",
    "Small embeddings cost Pre-Norm.",
    found="At size {rung}, Pre-Norm's test loss with embeddings of RMS 1 is {apart:.4f} nats {side} with embeddings that a fixed multiplier scales to RMS 0.014.",
    source="derived above; this book's grid of runs, size S",
    published="the authors' embeddings enter at RMS 0.014 (their code, width 2,048)",
)


# %%
def read_costs(arm, entry, stage):
    """Return how much smaller embeddings raise an arm's test loss, by seed."""
    ran = climbed.where(rung=first, stage=stage)
    ends = [ran.where(arm=name).measure("test.loss") for name in (arm + entry, arm)]
    small, large = (dict(zip(of.seeds, of.values, strict=True)) for of in ends)
    return {seed: small[seed] - large[seed] for seed in small if seed in large}


def compare_costs(arm, over, entry, stage="final"):
    """Return how much more smaller embeddings raise the loss of one arm than of another."""
    found = climbed if stage == "final" else climbed.where(stage="tuning")
    sd = ladder.measure_scatter(climbed, first).sd
    names = [name + of for name in (arm, over) for of in ("", entry)]
    left = [ladder.measure_tuning_left(found, first, name, sd).size for name in names]
    one, other = (read_costs(name, entry, stage) for name in (arm, over))
    cost = compare_samples(
        [*one.values()],
        [*other.values()],
        tuned=math.hypot(*left),
        pairs=[other[seed] - one[seed] for seed in one if seed in other],
    )
    pair = ladder.improvement(climbed, arm + entry, over + entry)
    return replace(pair, rungs={first: cost}).pair_strict()


# %%
compare_costs("hybrid", "pre", small_in).claim(
    "06-small-embeddings-make-the-lead",
    "> 0",
    "HybridNorm's improvement in test loss over Pre-Norm is larger if the embeddings are small.",
    found="At size {rung}, HybridNorm's improvement in test loss over Pre-Norm is {mean:.4f} nats larger with embeddings of RMS 0.014 than with RMS 1 ({n} seeds).",
    source="derived above; this book's grid of runs, size S",
)


# %% [markdown]
r"""
Embeddings that the multiplier keeps small raise Pre-Norm's loss, and they raise it by more than HybridNorm's. But HybridNorm also has norms inside attention. QKV-Pre has those too, and differs from HybridNorm only in the place of one norm.
Do small embeddings raise QKV-Pre's loss more than HybridNorm's?
"""


# %%
plots.table(
    {
        "recipe": name.replace("*", "\\*"),
        "RMS 0.014 raises the loss by (nats)": f"{ladder.improvement(climbed, arm, arm + small_in).pair_strict()[first]:+z.4f}",
        "less than QKV-Pre's by": "" if arm == "qkv-pre" else f"{compare_costs(arm, 'qkv-pre', small_in)[first]:+z.4f}",
    }
    for name, arm in recipes.items()
)  # fmt: skip

# %%
by_rule = compare_costs("hybrid", "qkv-pre", entries["by the authors' rule"], "first")[first]
compare_costs("hybrid", "qkv-pre", small_in).claim(
    "06-a-norm-on-the-stream-saves-small-tokens",
    "> 0",
    "Embeddings that a fixed multiplier keeps small raise the test loss of QKV-Pre more than that of HybridNorm, which also has a norm on the stream.",
    found="At size {rung}, embeddings of RMS 0.014 in place of RMS 1 raise QKV-Pre's test loss by {mean:.4f} nats more than HybridNorm's. Embeddings by the authors' rule raise it by {rule:.4f} nats more [{rule_low:.4f}, {rule_high:.4f}] (a preliminary evaluation).",
    source="derived above; this book's grid of runs, size S",
    beside={
        "rule": by_rule,
        "rule_low": by_rule.compute_interval()[0],
        "rule_high": by_rule.compute_interval()[1],
        "second value": "embeddings by the authors' rule",
    },
)

# %% [markdown]
r"""
With our smallest embeddings we cannot show it, but we can for HybridNorm\*, whose loss rises less. In a preliminary evaluation with embeddings by the authors' rule, HybridNorm's loss rises less than QKV-Pre's, too. So our prediction held in part. Pre-Norm's loss rises most. But with norms inside attention alone (QKV-Pre) the loss already rises less, and the loss that rises least is HybridNorm\*'s.

With a fixed multiplier, small embeddings are an advantage for no recipe: no recipe's loss is detectably lower than at RMS 1. If embeddings enter at RMS 1, multiplied by $\sqrt d$ or normalized, there is less to repair.

The slider's figure does not predict everything: HybridNorm\* preserves less of a small embedding than HybridNorm does, and yet its loss rises less.

### Small embeddings that can grow

Does this difference explain the improvement at 550 million parameters? Table 4 speaks against it: under the code's rule its models have small embeddings, and yet the norm on the stream brought no improvement on top of norms inside attention.

But embeddings in the authors' code are drawn small and can grow, whereas ours have a fixed multiplier. So we also trained the four recipes with small embeddings that can grow. Their weights are drawn $0.014$ times as large as those of our embeddings of RMS 1, and the only multiplier is $\sqrt d$. At step 0 these networks and those with the fixed multiplier compute the same outputs.
"""


# %%
def size_at_the_end(arm):
    """Return the RMS with which tokens enter the stream when training is over."""
    runs = climbed.where(arm=arm, rung=first, stage="final")
    return runs.measure(lambda record: record.probes["residual-rms"][0])


ladder.improvement(climbed, "hybrid" + growing, "pre" + growing).claim(
    "06-hybrid-ahead-where-tokens-grow",
    "> 0",
    "Where embeddings are drawn at RMS 0.014 and can grow, HybridNorm ends below Pre-Norm.",
    found="At size {rung}, with embeddings that enter the stream with RMS 0.014 before training and can grow, HybridNorm's test loss is {apart:.4f} nats {side} Pre-Norm's. After training, the embeddings enter with RMS {hybrid:.2f} in HybridNorm and {pre:.2f} in Pre-Norm.",
    source="this book, a forecast; seen before by a referee, on one seed",
    beside={
        "hybrid": size_at_the_end("hybrid" + growing),
        "pre": size_at_the_end("pre" + growing),
        "second value": "no other RMS was tried",
        "control": "embeddings multiplied by 0.014",
    },
)
# %%
ladder.improvement(climbed, "hybrid*" + growing, "qkv-pre" + growing).claim(
    "06-star-ahead-where-tokens-grow",
    "> 0",
    "Where embeddings are drawn at RMS 0.014 and can grow, HybridNorm* ends below QKV-Pre.",
    found="At size {rung}, with embeddings drawn at RMS 0.014 and free to grow, the test loss of HybridNorm* is {apart:.4f} nats {side} that of QKV-Pre.",
    source="this book, a forecast",
    published="19.85 and 19.96 (C4 perplexity): 0.006 nats",
    beside={"second value": "no other RMS was tried", "control": "embeddings multiplied by 0.014"},
)
# %%
ladder.improvement(climbed, "hybrid" + growing, "hybrid").claim(
    "06-hybrid-gains-where-tokens-grow",
    "> 0",
    "HybridNorm reaches a lower test loss with embeddings drawn at RMS 0.014 than with embeddings drawn at RMS 1.",
    found="At size {rung}, with embeddings drawn at RMS 0.014 and free to grow, HybridNorm's test loss is {apart:.4f} nats {side} its loss with embeddings drawn at RMS 1. For Pre-Norm, the loss with small embeddings minus that with large ones is {plain:+.4f} nats.",
    source="seen in the runs of the cards above",
    beside={
        "plain": ladder.improvement(climbed, "pre", "pre" + growing)[first],
        "second value": "no other RMS was tried",
    },
)

# %% [markdown]
r"""
The next table lists the improvement at each step for three kinds of embeddings:
"""

# %%
of_tokens = {"RMS 1": "", "RMS 0.014, fixed multiplier": small_in, "RMS 0.014, can grow": growing}
plots.table(
    {
        "improvement (nats)": f"{over} to {name}".replace("*", "\\*"),
        **{entry: describe_step(recipes[name], recipes[over], of) for entry, of in of_tokens.items()},
    }
    for name, over in pairs
)  # fmt: skip

# %% [markdown]
r"""
The embeddings do grow: after training they enter with an RMS near 1 or above. HybridNorm's loss is still lower than Pre-Norm's, so its improvement does not need the fixed multiplier.

But if the embeddings can grow, the individual steps do not agree with the published ones: the norm on the stream accounts for the whole improvement, and the norms inside attention for nothing that we detect. (With embeddings initialized at 0.02, [chapter 10](10_choosing_a_norm.ipynb#small-embeddings-that-can-grow) finds nearly the same.) So our steps resemble those of Table 4 only with the fixed multiplier, which the authors' code does not have.
[How we know](06_hybridnorm.ipynb#how-we-know) lists other differences, and our factor $\sqrt d$ is one more: with it, a step of Adam moves the embeddings $\sqrt d$ times as far. We tested none of these differences with embeddings that grow.

In our runs, small embeddings raise Pre-Norm's loss only with the fixed multiplier: if the embeddings can grow, Pre-Norm's mean loss is no higher than with RMS 1.

Unexpectedly, HybridNorm reaches a lower loss with such embeddings than with RMS 1. We do not know why.
"""

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
drowned = ladder.build_base_run(first, "pre" + small_in)
lab.train_live(Experiment(ladder.configure_run(drowned, 0.00562, 0, ladder.LOOKS), {"seed": [0]}))

# %% [markdown]
r"""
### Other initializations

Does HybridNorm's improvement depend on the initial weights? The paper's Table 3 has two recipes and three initializations, with one run per combination. The *Normal* initialization draws all matrices with one standard deviation. *Depth-Scaled* divides the matrices with which layer $\ell$ writes to the stream by $\sqrt{2\ell}$, and *Megatron* divides those of all layers by one common factor. We trained the same two recipes from three initializations as well, with Xavier's in place of Normal:
"""

# %%
table3 = {(row["method"], row["init"]): row["c4"] for row in published("zhuo2025-table3")}
theirs = {
    init: math.log(table3["Pre-Norm", init] / table3["HybridNorm", init])
    for init in ("Normal", "Depth-Scaled", "Megatron")
}
of_init = {"Megatron": "", "Depth-Scaled": ", depth-scaled", "Xavier": ", xavier"}
plots.dots(
    {
        **{f"published, {init}": [won] for init, won in theirs.items()},
        **{
            f"here, {init}": ladder.improvement(climbed, "hybrid" + of, "pre" + of)[ladder.shared_rung(climbed, ["pre", "hybrid", *starts])]
            for init, of in of_init.items()
        },
    },
    xlabel="HybridNorm's improvement over Pre-Norm in test loss (nats)",
    threshold={"Pre-Norm": 0.0},
    caption="HybridNorm's improvement over Pre-Norm (Pre-Norm's test loss minus HybridNorm's) for several initializations. Our models have size S and embeddings of RMS 1. "
    "In which rows does HybridNorm have the higher loss?",
    provenance=lab.provenance(climbed.where(arm=["pre", "hybrid", *starts], stage="final")),
).named("first-weights")  # fmt: skip

# %%
ladder.improvement(climbed, "hybrid, depth-scaled", "pre, depth-scaled").claim(
    "06-depth-scaled-lead",
    "> 0",
    "With depth-scaled initial weights, HybridNorm reaches a lower test loss than Pre-Norm.",
    found="At size {rung}, with depth-scaled initial weights and tuned learning rates, HybridNorm's test loss is {apart:.4f} nats {side} Pre-Norm's.",
    source="Zhuo et al. 2025, arXiv 2503.04598 (early version), Table 3",
    published="20.49 and 20.40 (C4 perplexity): 0.004 nats",
    domain=small_models,
)
ladder.improvement(climbed, "hybrid, xavier", "pre, xavier").claim(
    "06-hybrid-behind-from-xavier",
    "< 0",
    "From Xavier's weights HybridNorm ends above Pre-Norm.",
    found="At size {rung}, with Xavier's initial weights and tuned learning rates, HybridNorm's test loss is {apart:.4f} nats {side} Pre-Norm's.",
    source="this book's grid of runs, size S",
)

# %% [markdown]
r"""
When training starts from Xavier's weights, HybridNorm's loss is higher than Pre-Norm's. From depth-scaled weights it is higher, too, in a preliminary evaluation whose interval only just excludes zero. In the paper's Table 3 the improvement's sign changes with the initialization:

| perplexity on C4 in Table 3 ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)) | Normal | Depth-Scaled | Megatron |
| --- | --: | --: | --: |
| Pre-Norm | 20.29 | 20.49 | 20.44 |
| HybridNorm | 20.44 | 20.40 | 20.00 |

HybridNorm's 20.00 in Table 4 agrees with the Megatron column, but Pre-Norm's 20.30 does not. Section 4.4 explains why: for Table 4 each
of the two recipes was given the initialization that suits it, Normal for Pre-Norm and Megatron's for HybridNorm ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). The initialization of the other rows is not stated. So the
first step of Table 4, from Pre-Norm to QKV-Pre, may change the initialization, too.

For HybridNorm, the change from Normal to Megatron's weights lowers the perplexity from 20.44 to 20.00. This decrease is larger than
its whole improvement over Pre-Norm in Table 4 ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Appendix E has [both tables in one](E_hybridnorm.ipynb#table-3-first-weights).

### Twelve blocks

In Table 5 the models have 29 layers instead of 16. Post-Norm diverges, and the perplexities are 19.88 for Pre-Norm, 19.67 for HybridNorm and 19.52 for HybridNorm\*
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). None of these models starts from Xavier's weights. Is it the recipe that lets deep models train, or the
initialization?

We trained models of twelve blocks for a hundred steps at one learning rate, from Xavier's weights and from Megatron's. Such short training cannot rank the recipes. It does show which models start to learn and which are *stuck*, that is, still have the loss of the unigram baseline, which knows only letter frequencies.
Only longer training can show whether a stuck model is merely late, so we also trained Post-Norm and HybridNorm for four times as many steps.

| question | choices | ours |
| --- | --- | --- |
| With twelve blocks, after a hundred steps from Xavier's weights, are more HybridNorm models stuck than QKV-Pre models? <!-- 06-deep-hybrid-gets-stuck-from-xavier --> | fewer; <!-- -0.2 --> as many; <!-- 0.2 --> more | <details><summary>show</summary>From Xavier's weights twelve blocks of HybridNorm are *stuck*, as Post-Norm is: after a hundred steps they still predict letter frequencies. QKV-Pre is not stuck.</details> |
| After four hundred steps, how many HybridNorm models are stuck? <!-- 06-deep-hybrid-is-late-not-stuck --> | about as many as after a hundred; <!-- 0.2 --> clearly fewer | <details><summary>show</summary>HybridNorm merely starts late: after four hundred steps its models are no longer stuck.</details> |
"""

# %%
tall = Run(
    model=ModelConfig(norm="rms", dim=32, depth=sizes.deep, heads=4, context=32, init="xavier"),
    data=Text(batch=8, time=32, held_out=sizes.held_out),
    train=TrainConfig(
        steps=sizes.steps, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, clip=1.0,
        warmup=sizes.steps // 10, schedule="cosine", final_lr=0.1,
    ),
    probes=("test",),
)  # fmt: skip
towers = {
    f"{name}, {init}": {"model.recipe": arm, "model.init": init}
    for name, arm in (recipes | {"Post-Norm": "post"}).items()
    for init in ("xavier", "megatron")
    if name != "Pre-Norm" or init == "xavier"
}
deep = lab.run(Experiment(tall, {"arm": towers, "seed": sizes.fresh})).by("arm")
letters = ngram_loss(tall.data, 1)

# %%
longer = {"train.steps": 4 * sizes.steps, "train.warmup": 4 * sizes.steps // 10}
fewer = {name: towers[name] | longer for name in ("Post-Norm, xavier", "HybridNorm, xavier")}
long = lab.run(Experiment(tall, {"arm": fewer, "seed": sizes.fresh})).by("arm")

# %%
plots.dots(
    {name: part.values("test.loss") for name, part in deep.items()},
    xlabel="test loss after a hundred steps (nats)",
    reference={"letter frequencies": letters},
    caption="Test loss of models of twelve blocks after a hundred steps at one learning rate, by recipe and initialization. With Xavier's weights, HybridNorm, Post-Norm and most runs of HybridNorm* still have the loss of a model that knows only letter frequencies. With Megatron's weights, every run learns.",
    provenance=lab.provenance(*deep.values()),
).named("twelve-blocks")

# %% [markdown]
r"""
We count a run as stuck if its loss is less than a tenth of a nat below that of the unigram baseline. The table also covers two other thresholds:
"""

# %%
CUTS = (0.05, 0.1, 0.3)  # nats below letter frequencies


def count_stuck(results, cut=0.1):
    """Count the runs whose loss is not lower than that of letter frequencies by more than `cut`."""
    return results.count(lambda run: (run.probes["test"]["loss"] or math.inf) > letters - cut)


plots.table(
    {
        "recipe and weights": name,
        "steps": steps,
        "test loss": f"{of[name].measure('test.loss').mean:.2f}",
        **{f"stuck, threshold {cut:g}": str(count_stuck(of[name], cut)) for cut in CUTS},
    }
    for name in (*fewer, "QKV-Pre, xavier")
    for steps, of in ((sizes.steps, deep), (4 * sizes.steps, long))
    if name in of
)  # fmt: skip

# %%
stuck = {name: count_stuck(part) for name, part in deep.items()}
(stuck["HybridNorm, xavier"] - stuck["QKV-Pre, xavier"]).claim(
    "06-deep-hybrid-gets-stuck-from-xavier",
    "> 0",
    "After a hundred steps with Xavier's initial weights, models of twelve HybridNorm blocks are stuck at the loss of letter frequencies more often than models of twelve QKV-Pre blocks.",
    found="With twelve blocks, after a hundred steps with Xavier's initial weights, {k} of {n} HybridNorm runs and {other_k} of {other_n} QKV-Pre runs are stuck at the loss of letter frequencies. With Megatron's weights, {mild} of {n} HybridNorm runs are stuck.",
    source="this chapter; the abstract of Zhuo et al. 2025, arXiv 2503.04598, speaks of the recipe alone",
    published="from the authors' weights: stable at 29 layers",
    beside={
        "mild": stuck["HybridNorm, megatron"].estimate.k,
        "second value": "three thresholds",
        "last step": "with 400 steps no HybridNorm run is stuck (next card)",
        "control": "QKV-Pre, the same rate and steps",
    },
)
# %%
(stuck["HybridNorm, xavier"] - count_stuck(long["HybridNorm, xavier"])).claim(
    "06-deep-hybrid-is-late-not-stuck",
    "> 0",
    "Given four times as many steps, twelve blocks of HybridNorm from Xavier's weights are stuck less often.",
    found="With twelve blocks, Xavier's initial weights and learning rate 0.003, {k} of {n} HybridNorm runs are stuck after a hundred steps and {other_k} of {other_n} after four hundred. With Post-Norm, {post} of {other_n} runs are stuck after four hundred steps.",
    source="two runs of a referee of this book, repeated with the chapter's seeds",
    beside={
        "post": count_stuck(long["Post-Norm, xavier"]).estimate.k,
        "last step": "the loss after 400 steps, at three thresholds",
        "control": "Post-Norm, the same rate and steps",
    },
)

# %% [markdown]
r"""
So from Xavier's weights a deep HybridNorm starts to learn late, but it does start. QKV-Pre,
which differs from HybridNorm only in the norm on the stream, starts within a hundred steps. Post-Norm hardly learns in four hundred steps at this rate.

In the longer runs warm-up and decay are longer, too, so these runs do not simply continue the short ones. And a late start is not instability: a few hundred steps at one learning rate cannot show whether a deep HybridNorm stays stable.

### The paper's own explanation: gradients

The paper explains HybridNorm by its gradients. For one head, it bounds the derivative of the output with respect to each matrix. (The two lemmas and the theorem are in
[appendix E](E_hybridnorm.ipynb#appendix-a-two-lemmas-and-a-theorem).) The paper reads its bounds as follows: with norms on queries, keys and values, the gradient of a matrix depends only on that matrix and $W_O$.

That is true of the bounds, but not of the gradient itself. The gradient contains the attention weights, and these
depend on both $W_Q$ and $W_K$. The output, however, is invariant to the *scale* of $W_Q$, $W_K$ or $W_V$. Two equations follow. Chapter 04 derives them for queries. They also hold for keys and values, with
many heads, a mask and rotation:

$$\langle W, \nabla_W\mathcal L\rangle = 0, \qquad \nabla\mathcal L(tW) = \tfrac1t\,\nabla\mathcal L(W) \quad (t > 0).$$

The size of these matrices does not change the function. But a larger $W$ turns more slowly, as if the learning rate were lower. This is one reason why a
ranking can depend on initialization and learning rate.
"""

# %%
inputs, targets = next(Text(batch=4, time=16).load().train(seed))


def slope(model):
    """The value matrix of the second block, with its gradient."""
    model.zero_grad()
    loss_of(model, inputs, targets).backward()
    return model.blocks[1].attention.sublayer.v.weight


model = fresh("hybrid")
weight = slope(model)
before = weight.grad.clone()
cosine = ((weight * before).sum() / weight.norm() / before.norm()).item()
weight.data.mul_(3)
exact(abs(cosine), tolerance=1e-10).claim(
    "06-gradient-is-orthogonal",
    "< 1e-10",
    "In HybridNorm, the gradient of the value matrix is orthogonal to the matrix and inversely proportional to the matrix's norm.",
    found="In HybridNorm, the cosine between the value matrix W_V and its gradient is {mean:.1g}. If W_V is three times as large, the gradient is divided by {ratio:.6f}.",
    source="this chapter; replaces the reading of Theorem A.3",
    beside={"ratio": (before.norm() / slope(model).grad.norm()).item()},
)

# %% [markdown]
r"""
## Where it goes wrong

**The skip of the feed-forward sublayer.** If you type $Y + \mathrm{FFN}(N(Y))$ instead of $N(Y) + \mathrm{FFN}(N(Y))$, you train QKV-Pre and call it HybridNorm. The loss
looks healthy, because it is QKV-Pre's loss.

**The pseudo-code.** Algorithm 1 (early version) splits the projections into `q, k, v` and writes `q, k, v = q.view(b, s, h, dk)`. Typed as printed, this line
unpacks the *queries* along the batch dimension. Unless the batch has exactly three examples, Python raises an error. With three, the queries of example 0 are used as queries, those of example 1 as keys, and those of example 2 as values.
"""


# %% tags=["mechanism"]
class Printed(nn.Module):
    """Algorithm 1, to the letter."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.attn_proj, self.attn_out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q_norm, self.k_norm, self.v_norm = (RMSNorm(dim // heads) for _ in range(3))
        self.ffn_norm, self.h = RMSNorm(dim), heads
        self.ffn = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        (b, s, d), res = x.shape, x
        q, k, v = self.attn_proj(x).split((d, d, d), dim=-1)
        q, k, v = q.view(b, s, self.h, d // self.h)
        q, k, v = self.q_norm(q), self.k_norm(k), self.v_norm(v)
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1)
        x = self.attn_out(x) + res
        x = self.ffn_norm(x)
        return self.ffn(x) + x


# %%
torch.manual_seed(seed)
typed, batch = Printed(32, 4, 64), torch.randn(3, 5, 32)
other = batch.clone()
other[1] += torch.randn(5, 32)
exact((typed(other) - typed(batch))[0].abs().max(), tolerance=1).claim(
    "06-printed-code-mixes-examples",
    "> 0.01",
    "In HybridNorm's pseudo-code as printed, one example in a batch affects the output for another.",
    found="In HybridNorm's pseudo-code as printed, changing example 1 of a batch of three changes the output for example 0 by {mean:.2f}.",
    source="Zhuo et al. 2025, arXiv 2503.04598 (early version), Algorithm 1 as printed",
)

# %% [markdown]
r"""
**The name HybridNorm** is easily misread: [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895) describe HybridNorm as *blocks* that alternate between placements, so the learning rates that we quoted from them may belong to another recipe.

**HybridNorm\*** is
a command-line option of the authors' code. In your own code, pass each block its index: otherwise the first block cannot differ from
the others.

Three mistakes are typical of the **norms inside attention**: they run over the full width instead of each head, they come after the rotation instead of before it, or the values have no norm.

We give the book's checker eight wrong blocks, and tell it which recipe each is meant to be:
"""


# %%
def built(name, words=None):
    """Build the block of another recipe, or with other norms inside attention."""

    def build(config, block=3):
        made = Block(replace(config, recipe=name(block)), block)
        if words:
            made.attention.sublayer = Attention(32, 4, 4, norms=attention_norms(words))
        return made

    return build


# %%
own = {"config": ModelConfig(recipe="hybrid", norm="rms", dim=32, depth=6, heads=4, context=32)}
star = {"config": replace(own["config"], recipe="hybrid*")}
plain = lambda i: "hybrid"  # noqa: E731
wrong = {
    "the skip starts from Y": (lambda x, f, norm: x + f(norm(x)), "hybrid", {"part": "feed-forward"}),
    "classic Post-Norm after the FFN": (lambda x, f, norm: norm(x + f(x)), "hybrid", {"part": "feed-forward"}),
    "alternating blocks": (built(lambda i: ("pre", "post")[i % 2]), "hybrid", own),
    "the star is lost": (built(plain), "hybrid*", {**star, "index": 0}),
    "the star everywhere": (built(lambda i: "pre-qkv-pre"), "hybrid*", {**star, "index": 2}),
    "norms over the full width": (built(plain, "qkv rms width"), "hybrid", own),
    "norms after the rotation": (built(plain, "qkv rms after-rope"), "hybrid", own),
    "values not normalized": (built(plain, "qk rms"), "hybrid", own),
}  # fmt: skip
reports = {name: check.block(given, asked, **more) for name, (given, asked, more) in wrong.items()}
exact(sum(not report.ok for report in reports.values())).claim(
    "06-mistakes-are-caught",
    ">= 8",
    "The book's checker catches each of eight wrong HybridNorm blocks.",
    found="The book's checker catches {mean:.0f} of 8 wrong HybridNorm blocks.",
    source="this chapter",
)

# %% [markdown]
r"""
## Exercises

**2 (by hand).** Embeddings and outputs have the same small RMS at first: $c = w$. What is the cosine of stream and embedding after twelve sublayers under Pre-Norm,
and under HybridNorm, by the two formulas above? And how many times as large as $w$ must $c$ be for Pre-Norm to keep as much as HybridNorm does at $c = w$?
"""

# %% tags=["exercise"]
yours = {"pre": ..., "hybrid": ..., "times": ...}

# %%
kept = {"pre": 1 / math.sqrt(13), "hybrid": 1 / math.sqrt(2), "times": math.sqrt(12)}
check.answer(
    yours, kept, name="2", rtol=0.01, hint="twelve outputs compete with the token, or one does"
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Divide numerator and denominator by $c$. For the last question, set the two fractions equal.

</details>
<details><summary>Solution</summary>

The cosine is $1/\sqrt{1 + 12} = 1/\sqrt{13} \approx 0.28$ under Pre-Norm and $1/\sqrt2 \approx 0.71$ under HybridNorm. The two are equal if $12\,w^2/c^2 = 1$, that is for $c = \sqrt{12}\,w$, which is three and a half times
as large.

</details>

**3 (proof).** (a) Show that HybridNorm\*'s first block and a QKV-Pre block can compute the same functions, if $\epsilon = 0$. (b) Pre-QK-Pre has norms on queries and keys only, after an
input norm. Show that without its input norm it computes a different function.

<details><summary>Hint</summary>

(a) What is left of $1/\mathrm{rms}(X)$ after a norm, and into which matrices can the gain be multiplied? (b) Take one token, and double it.

</details>
<details><summary>Solution</summary>

(a) The attention of HybridNorm\*'s first block reads $N(X) = g\odot X/\mathrm{rms}(X)$. For a query, $N(X)\,W_Q = \tfrac1{\mathrm{rms}(X)}\,X\,\mathrm{diag}(g)\,W_Q$, and the norm on the query cancels the positive factor. So $W_Q' = \mathrm{diag}(g)\,W_Q$ gives
the same normalized queries without the input norm. The same holds for keys and values. The feed-forward sublayers are the same. $\square$

(b) A single token attends to itself with weight 1, so attention writes $N(X)\,W_VW_O$ with the input norm and $X\,W_VW_O$ without. If $X$ is doubled, the first output stays as it is, and the second doubles. $\square$

</details>

**4 (open).** Post-Norm has two norms on the stream per block. How much do small embeddings raise its loss? (The cell uses the learning rate that was tuned for Post-Norm with embeddings of RMS 1.) Predict an answer from the formula for the cosine of stream and embedding, then run three
seeds, each of which takes about a minute.
"""

# %% tags=["exercise"]
my_prediction = "…"
post = ladder.configure_run(ladder.build_base_run(first, "post"), 0.00562, 0)
my_experiment = Experiment(post, {"model.embedding_size": [0.014], "seed": [0, 1, 2]})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# results.values("test.loss"), list(ladder.reported(climbed, "post").values())
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## How we know

### The setting, line by line

The next table compares our settings with those of the paper's Table 7 and of the released code ([commit f0dd605](https://github.com/BryceZhuo/HybridNorm/tree/f0dd60589c4cafcbd5496d60884d2745ff340805), with the configuration of the
dense model of 1.2 billion parameters). The code does not contain the configurations of the models in Table 4.
"""

# %%
run = ladder.build_base_run(rung, "hybrid")
trained = run.train
read = trained.steps * run.data.batch * run.data.time
lines = [
    ("AdamW: betas, weight decay, clipping", "0.9 and 0.95, 0.1, 1", "the same; gains decayed, embeddings not", f"{trained.betas[0]:g} and {trained.betas[1]:g}, {trained.weight_decay:g}, {trained.clip:g}"),
    ("learning rate, its decay", "3e-4 for every row, cosine to 3e-5", "the same", f"tuned for each recipe, {trained.schedule} to {trained.final_lr:.0%}"),
    ("tokens in all, per step, in warm-up", "400B, 4.2M, 8.4B", "1,000B, 4.2M, 8.4B", f"{read / 1e6:.1f}M, {run.data.batch * run.data.time}, a tenth of all"),
    ("initialization", "Table 7: Megatron. Text: Normal. Section 4.4: one for each recipe. Standard deviation 1/√(2.5 d), cut at 3", "`full_megatron`, 0.013975, cut at 3: the same at d = 2048", "Megatron's, 1/√(2.5 d), cut at 3"),
    ("embeddings enter at RMS", "not said", "0.014, drawn with this RMS", f"1, {ladder.build_base_run(rung, small[4]).model.embedding_size:g}, 0.014, by a fixed multiplier"),
    ("output matrix", "not said", "tied to the embedding", "not tied"),
    ("base of the rotation", "500,000", "the same", "10,000"),
]  # fmt: skip
plots.table(
    [dict(zip(("setting", "early version", "released code", "here"), line, strict=True)) for line in lines]
)  # fmt: skip

# %% [markdown]
r"""
### Limits of our runs

These results of the paper are beyond the range of our models:

| [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598) | says | out of range here, because |
| --- | --- | --- |
| Table 4 | QK-Post diverges | it may diverge at any of the 95,367 steps that 400 billion tokens take; [ours has 3,200](E_hybridnorm.ipynb#table-4-sixteen-placements) |
| Table 2 | HybridNorm\* is better in a mixture of experts of 6.9B: average 66.12 against 64.95 | size; in [our small mixture](E_hybridnorm.ipynb#a-mixture-of-experts) we detect no improvement |
| version 4, 7B | the paper's recipe, with one more norm, has a loss of 2.430, and Pre-Norm has 2.469 | size |
| version 4, 1.2B | averaged over benchmarks, plain HybridNorm has 59.18, *below* Pre-Norm's 59.56, and HybridNorm\* has 60.67 | size, benchmarks |
"""

# %% [markdown]
r"""
## What you now know

- **Which change accounts for the improvement?** In the published table, the norms inside attention account for $\ln(20.30/19.96) = 0.017$ of $\ln(20.30/19.85) = 0.022$ nats
  ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)), unless that step changed the initialization, too. The next two steps (to HybridNorm and HybridNorm\*) are about as small as the difference between two rows that can compute the same functions. <!-- derived -->
- With large embeddings, in our small models, the norms inside attention lower the loss: QKV-Pre reaches a lower loss than Pre-Norm at both sizes. We could not show that the norm on the values contributes to that. HybridNorm's loss is lower than Pre-Norm's at size M, and at size S the interval contains zero. <!-- 06-qkv-pre-at-its-own 06-value-norm-adds 06-each-at-its-own -->
- Embeddings that a fixed multiplier keeps small raise Pre-Norm's loss more than HybridNorm's. But they also raise it more than QKV-Pre's, which has no norm on the stream, and we could not show that HybridNorm's loss rises less than QKV-Pre's. HybridNorm\*'s does, but the preregistered comparison does not show that it is then lower. We tested such embeddings only at size S.
  <!-- 06-small-embeddings-cost-pre-norm 06-a-norm-on-the-stream-saves-small-tokens 06-star-ahead-of-qkv-pre-when-small -->
- Embeddings that are drawn small and can grow do grow. With them, at size S, HybridNorm's loss is still lower than Pre-Norm's, and HybridNorm\*'s is lower than QKV-Pre's. HybridNorm's is also lower than HybridNorm's own loss with large embeddings, so the way in which embeddings enter the stream is a part of the recipe. We tried one RMS.
  <!-- 06-hybrid-ahead-where-tokens-grow 06-star-ahead-where-tokens-grow 06-hybrid-gains-where-tokens-grow -->
- **Why?** We think that a norm on the stream enlarges a small token before later outputs drown it. But HybridNorm\* keeps less of the token than HybridNorm does, and yet small embeddings raise its loss less, so this may not be the whole reason. <!-- derived -->
- **Would HybridNorm be better in another setting?** Not from every initialization. At size S, the only size that we tried, its loss from Xavier's weights is higher than Pre-Norm's. In the paper's Table 3 the sign of the improvement changes with the initialization. <!-- 06-hybrid-behind-from-xavier 06-depth-scaled-lead -->
- Nor is HybridNorm better at every depth. With embeddings of RMS 1 and width 32 we detect no improvement at twelve blocks. At 24 blocks, with only 5.4 training characters per parameter, the losses of both HybridNorm and HybridNorm\* are higher than Pre-Norm's ([appendix E](E_hybridnorm.ipynb#table-5-depth)). <!-- 06-each-at-its-own -->
- One learning rate for all favours the recipes that it suits. Ask of every ranking: from which initialization,
  with which embeddings, at which learning rates, and with how many runs per row? <!-- derived -->
- Attention with norms on queries, keys and values is invariant to the scale of its input. So some rows of Table 4 can compute the same functions. <!-- 06-rows-that-are-one-function -->
- In HybridNorm the gradient of $W_Q$, $W_K$ or $W_V$ is orthogonal to the matrix, and smaller if the matrix is larger. So a larger matrix turns more slowly, as at a lower learning rate. <!-- 06-gradient-is-orthogonal -->
- With Xavier's weights, HybridNorm with twelve blocks is stuck after 100 steps, but not after 400 steps. Train longer before you conclude that a run never starts. <!-- 06-deep-hybrid-gets-stuck-from-xavier 06-deep-hybrid-is-late-not-stuck -->
- Pseudo-code is not code: type it in, and run a check on it. <!-- 06-printed-code-mixes-examples 06-mistakes-are-caught -->

## To carry away

- **Equations.** $Y = X + \mathrm{MHA}_{QKV}(X)$ with norms on queries, keys and values; $X' = N(Y) + \mathrm{FFN}(N(Y))$.
- **Variant.** HybridNorm\*: the first block has Pre-Norm's input norm, too, and Pre-Norm's feed-forward sublayer.
- **When to use it.** Train HybridNorm and QKV-Pre at your size and initialization, and use HybridNorm if its loss is lower. Let small embeddings grow: a fixed multiplier of $0.014$ raised every recipe's mean loss at our smallest size.
- **Cost.** HybridNorm has three small norms inside attention, in place of the one before attention.

| symptom | cause | remedy |
| --- | --- | --- |
| HybridNorm trains like QKV-Pre | the feed-forward sublayer's skip starts from $Y$ | $N(Y) + \mathrm{FFN}(N(Y))$: both read the normalized stream |
| the loss of a deep model stays at that of the unigram baseline for a long time | Xavier's weights, with a norm on the stream | Megatron's weights |
| HybridNorm's improvement over Pre-Norm shrinks or changes sign | large embeddings, or Xavier's weights | report initialization and size of the embeddings with the improvement |

## References

Works cited: [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682), [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
