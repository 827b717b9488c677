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

**Question.** [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598) tried sixteen placements of norms. The winner, *HybridNorm*,
changes Pre-Norm twice: it normalizes queries, keys and values, and moves one norm onto the stream. Its perplexity is 20.00 against 20.30, one run each.
Which of HybridNorm's two changes earns its lead over Pre-Norm, and would it have that lead in another setting?

**In short.**

- Norms on queries, keys and values make attention blind to the size of what it reads. So some rows of the paper's table look different but compute the same functions.
- With large tokens the lead that we see is that of the norms inside attention. With small ones, on our smallest rung, the norm on the stream earns a part.
- From another initialization the lead changes. A ranking ranks recipe, initialization, embeddings and rate together.
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
import math
from dataclasses import replace
from statistics import fmean

import torch
from torch import nn
from torch.nn import functional as F

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.attention import Attention, attention_norms, rotary_angles, rotate
from labkit.context import Context
from labkit.corpora import Text
from labkit.corpora.ngrams import ngram_loss
from labkit.experiments import Domain, Experiment, Lab, Run, combine, exact, ladder, published
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
    # smoke, book, gpu
    deep=(2, 12, 24),
    steps=(2, 100, 300),
    held_out=(512, 8_192, 65_536),
    fresh=([3, 4, 5, 6, 7], [3, 4, 5, 6, 7], [3, 4, 5, 6, 7]),
)
recipes = {
    "Pre-Norm": "pre",
    "QKV-Pre": "qkv-pre",
    "HybridNorm": "hybrid",
    "HybridNorm*": "hybrid*",
}
entries = {"RMS 1": "", "by the rule": ", embedding by rule", "RMS 0.014": ", embedding 0.014"}
small = [arm + entry for entry in entries.values() for arm in recipes.values()]
starts = [f"{arm}, {init}" for init in ("xavier", "depth-scaled") for arm in ("pre", "hybrid")]
growing = ", drawn 0.014"  # as small at first, and nothing keeps them so
drawn = [arm + growing for arm in recipes.values()]
climbed = lab.ladder([*small, *starts, *drawn, "qk", "post", "no attention"])
first = next(iter(climbed.by("rung")))
rung = ladder.shared_rung(climbed, small)  # the largest on which all of them have reported
table4 = {row["method"]: row for row in published("zhuo2025-table4")}

# %%
show_explorer(
    lab,
    climbed,
    "hybrid",
    beside="pre",
    caption="From Pre-Norm to HybridNorm: norms on queries, keys and values take the place of attention's, and one norm moves onto the stream. "
    "Beside them, what models of six such blocks reached at each learning rate that was tried.",
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
    xlabel="from recipe to recipe, one change at a time",
    ylabel="test loss below Pre-Norm's (nats)",
    reference={"Pre-Norm": 0.0},
    caption="From Pre-Norm to HybridNorm*, one change at a time: norms inside attention, then a norm on the stream, then another "
    "first block. The published line is one run a recipe. Each of our lines is the same walk with tokens of another size: they enter the stream "
    f"with RMS 1, with {ladder.build_base_run(rung, small[4]).model.embedding_size:.2f} (a rule of the authors' code), or with 0.014. Small models, each recipe at its own rate. "
    "Watch the third stop, HybridNorm: where does it lie for large tokens, and where for small ones?",
    provenance=lab.provenance(climbed.where(arm=small, stage="final", rung=rung)),
).named("one-change-at-a-time")  # fmt: skip

# %% [markdown]
r"""
## The idea: one norm, moved onto the stream

The paper trains one language model of 550 million parameters and 400 billion tokens for each placement. On the C4 corpus Pre-Norm has a perplexity of 20.30, HybridNorm 20.00, and
*HybridNorm\**, whose first block differs, 19.85 ([Table 4](https://arxiv.org/abs/2503.04598), early version). Each row is one run at one rate,
and the paper describes its first weights in more than one way.

A token $x = (2, 0, 2, 0)$ stays with us. Attention writes $a = (1, 1, -1, -1)$, so $y = x + a = (3, 1, 1, -1)$, whose mean square is
$(9 + 1 + 1 + 1)/4 = 3$. RMSNorm turns it into $N(y) = y/\sqrt3$. Let the feed-forward layer write $f = (1, 0, 0, 1)$. Three placements
differ in what they do with these:

- Pre-Norm: $x' = y + f$. The stream keeps everything ever written to it.
- Post-Norm: $x' = N(N(y) + f)$. The stream leaves the block normalized.
- HybridNorm: $x' = N(y) + f$. The stream is normalized once a block, *between* attention and feed-forward, and then added to.
"""

# %%
plots.placement_diagram("pre", "post", "hybrid").named("block-diagrams")

# %% [markdown]
r"""
Now let token and writes be ten times smaller, as before training from small embeddings and small weights. Under Pre-Norm no proportion changes: $x' = (y + f)/10$,
and every later write counts in it as much as before. HybridNorm lifts the sum of token and first write to RMS 1: beside $N(y)$ the write
$f/10$ is small, and so are later writes. **The norm on the stream lifts what is small, so later writes do not drown it.** It cannot undo what the first write,
which came before the norm, has done.

### The equations

$$Y = X + \mathrm{MHA}_{QKV}(X), \qquad X' = N(Y) + \mathrm{FFN}(N(Y)).$$

$\mathrm{MHA}_{QKV}$ norms each head's queries, keys and values: $\mathrm{softmax}\!\big(N(Q)N(K)^\top/\sqrt{d_k}\big)N(V)$, with one gain
vector of size $d_k$ for all heads, before the rotation by position. (Norms on all three are older:
[Rybakov et al., 2024](https://arxiv.org/abs/2410.16682).) A last norm stands before the output. HybridNorm\* changes the first block only:
$Y = X + \mathrm{MHA}_{QKV}(N(X))$ and $X' = Y + \mathrm{FFN}(N(Y))$. QKV-Pre, the fairest opponent, has the same attention and Pre-Norm's
feed-forward half: $Y = X + \mathrm{MHA}_{QKV}(X)$, $X' = Y + \mathrm{FFN}(N(Y))$.

Mind the name. The paper calls HybridNorm's second half "Post-Norm in the FFN". In a classical Post-Norm block the norm after the *feed-forward*
is $N(Y + \mathrm{FFN}(Y))$. HybridNorm's norm is the one that classically follows *attention*; the one after the feed-forward is missing.
In this paper "Post" for a half means $X' = N(Y) + \mathrm{FFN}(N(Y))$: skip and branch both read the normed stream.

Two consequences follow. The second half is blind to the size of $Y$; the card below tests that. And attention computes the same for every size of
$X$: $N(tXW) = N(XW)$ for $t > 0$, if $\epsilon = 0$. That size matters in the sum $X + \mathrm{MHA}$ only, against what attention writes.
"""

# %%
no_eps = ModelConfig(
    recipe="hybrid", norm="rms", dim=32, depth=3, heads=4, context=32, norm_eps=0.0
)


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
    "The size of the stream inside the block does not reach its output.",
    found="Multiplying Y by 1,000 changes what leaves the block by {mean:.0e}.",
    source="scale invariance of RMS norm (ε = 0)",
)

# %% [markdown]
r"""
### Rows that are the same functions

A row's name lists, in this order, an input norm of attention (Pre), if there is one, the norms inside it, and where the second half is normed (Pre or Post). Table 4 has a row Pre-QKV-Post: HybridNorm with one norm more, since attention reads $N(X) = g\odot X/\mathrm{rms}(X)$. But the factor
$1/\mathrm{rms}(X)$ of a token falls out in the norms of its own query, key and value, and the gain $g$ can be multiplied into the rows of
$W_Q, W_K, W_V$. So

$$\text{Pre-QKV-Post} \equiv \text{HybridNorm}, \qquad \text{Pre-QKV-Pre} \equiv \text{QKV-Pre}:$$

each pair can compute exactly the same functions. For the same reason HybridNorm\*'s first block is, as a function, a QKV-Pre block.
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
    "Three pairs of the table's rows are the same function.",
    found="With the gains multiplied in, three pairs of recipes differ by {mean:.0e} at most.",
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
    "On C4 no row but its own variant is ahead of plain HybridNorm.",
    found="In column C4 {mean:.0f} of the thirteen rows that are not HybridNorm's own beat its plain form; in Pile {pile:.0f}, in HellaSwag {hellaswag:.0f}.",
    source="Zhuo et al. 2025, arXiv 2503.04598 (early version), Table 4",
    published="HybridNorm and its variant consistently surpass other configurations",
    beside={"pile": ahead["pile"], "hellaswag": ahead["hellaswag"]},
)

# %% [markdown]
r"""
The published perplexities of the first pair are 20.13 and 20.00, of the second 19.97 and 19.96
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). The two rows of a pair can compute the same functions; they differ only in how the gains
train, in $\epsilon$ and in luck. So two runs that can compute the same functions can lie $\ln(20.13/20.00) = 0.0065$ nats a
token apart. HybridNorm's whole lead is $\ln(20.30/20.00) = 0.0149$.

### How much of a token is left

How large is a token when it enters? At the start of training let embeddings have RMS $c$, and let every sublayer write something of RMS $w$, at
right angles to all else. After $m$ sublayers Pre-Norm's stream has the mean square $c^2 + m\,w^2$, and the cosine between the stream and the
token's own embedding is

$$\frac{c}{\sqrt{c^2 + m\,w^2}} \quad\text{(Pre-Norm)}, \qquad\qquad \approx \frac{c}{\sqrt{c^2 + w^2}} \quad\text{(HybridNorm)}.$$

In HybridNorm only *one* write competes with the bare embedding. Then comes the first norm on the stream and lifts token and write together to
RMS 1, and from there on writes are small beside them. HybridNorm\* lets three writes compete: the two of its first block and the second block's
attention. Under all three an embedding of RMS 1 is large beside a write. A small one drowns. Here is the cosine in models that have not been trained. Move the size:
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
        ylabel="cosine of stream and embedding", xlabel="after block (0: the embedding)", start=0,
        ylim=(-0.1, 1.05), caption=f"Before training, embeddings of RMS {entry}.",
    )  # fmt: skip


plots.explore(
    draw_rest, [0.014, rule, 1.0], "rest", label="RMS of embeddings",
    caption="What is left of a token before training. Large tokens stay under every recipe. Small ones are buried, block by "
    "block, under Pre-Norm and QKV-Pre; a norm on the stream stops the fall where it stands.",
)  # fmt: skip

# %% [markdown]
r"""
So we predict: if small embeddings cost anything, they cost Pre-Norm and QKV-Pre most, and HybridNorm least.
"""

# %% [markdown]
r"""
## Implementation

**1 (in code).** Write HybridNorm's block as a function of the stream. `attention` is attention with its norms inside, `feed_forward` the other
sublayer, `norm` the one norm that is left.
"""


# %% tags=["exercise"]
def my_block(x, attention, feed_forward, norm):
    """One block of HybridNorm."""
    return ...


# %%
def check_hybrid(block):
    """Hold a block against HybridNorm's equations."""
    return check.block(block, "hybrid")


check_hybrid(my_block)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Two lines: first $Y$. In the second the skip, too, starts from $N(Y)$.

</details>
"""


# %% tags=["solution"]
def solved_block(x, attention, feed_forward, norm):
    """A solution of exercise 1."""
    z = norm(x + attention(x))
    return z + feed_forward(z)


assert check_hybrid(solved_block).ok

# %% [markdown]
r"""
In `labkit` a recipe is a row of two steps. HybridNorm's second is this one:
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
    "labkit's block is the paper's equations.",
    found="labkit's block and the equations differ by {mean:.0e} at most.",
    source="Zhuo et al. 2025, arXiv 2503.04598, equations 8 and 9",
)

# %% [markdown]
r"""
## Predict

Between which two numbers do you expect each answer? All losses are compared each at its own rate; a negative number means *above*.

| question | axis | ours |
| --- | --- | --- |
| How far below Pre-Norm does QKV-Pre end, which has norms on queries, keys and values? <!-- 06-qkv-pre-at-its-own --> | −0.05 to 0.05 nats | <details><summary>show</summary>Norms on queries, keys and values are worth something in a small model: QKV-Pre ends below Pre-Norm.</details> |
| How far below Pre-Norm with norms on queries and keys does QKV-Pre end, which has one on the values, too? <!-- 06-value-norm-adds --> | −0.05 to 0.05 nats | <details><summary>show</summary>The norm on the values has a part in it, as Table 4 suggests.</details> |
| Where tokens enter large: how far below HybridNorm\* does QKV-Pre end? <!-- 06-qkv-pre-ahead-of-the-star --> | −0.05 to 0.05 nats | <details><summary>show</summary>Where tokens enter large, the norm on the stream has nothing to lift: QKV-Pre ends below HybridNorm\*.</details> |
| Where tokens enter small: how far below QKV-Pre does HybridNorm\* end? <!-- 06-star-ahead-of-qkv-pre-when-small --> | −0.05 to 0.05 nats | <details><summary>show</summary>Where tokens enter small, the norm on the stream has something to lift: HybridNorm\* ends below QKV-Pre.</details> |
| What do small embeddings cost Pre-Norm? <!-- 06-small-embeddings-cost-pre-norm 06-small-embeddings-make-the-lead 06-a-norm-on-the-stream-saves-small-tokens --> | −0.1 to 0.1 nats | <details><summary>show</summary>Small embeddings cost Pre-Norm, and HybridNorm less.</details> |
| Where tokens are drawn small and can grow: how far below Pre-Norm does HybridNorm end? <!-- 06-hybrid-ahead-where-tokens-grow 06-star-ahead-where-tokens-grow --> | −0.05 to 0.05 nats | <details><summary>show</summary>Where tokens are drawn small and can grow, the norm on the stream has something to lift at first: HybridNorm ends below Pre-Norm, and HybridNorm\* below QKV-Pre.</details> |
| Where tokens are drawn small and can grow: how far below itself with tokens drawn large does HybridNorm end? <!-- 06-hybrid-gains-where-tokens-grow --> | −0.05 to 0.05 nats | <details><summary>show</summary>In the end tokens are large, so it costs HybridNorm nothing to have drawn them small.</details> |
| From Xavier's larger weights: how far below Pre-Norm does HybridNorm end? <!-- 06-hybrid-behind-from-xavier --> | −0.1 to 0.1 nats | <details><summary>show</summary>From Xavier's larger weights HybridNorm ends above Pre-Norm.</details> |
| A hundred steps from Xavier's weights, twelve blocks: what share of HybridNorm's runs is *stuck* at letter frequencies, minus the share of QKV-Pre's? <!-- 06-deep-hybrid-gets-stuck-from-xavier --> | −100 to 100 % | <details><summary>show</summary>From Xavier's weights twelve blocks of HybridNorm are *stuck*: after a hundred steps still at letter frequencies, as Post-Norm is; QKV-Pre is not.</details> |
| Twelve blocks of HybridNorm from Xavier's weights: what share of runs is stuck after a hundred steps, minus the share that is after four hundred? <!-- 06-deep-hybrid-is-late-not-stuck --> | −100 to 100 % | <details><summary>show</summary>Those blocks are only late: after four hundred steps they are stuck no more.</details> |

## Measure

### The setting, line by line

Table 7 is the early version's. The released code is [commit f0dd605](https://github.com/BryceZhuo/HybridNorm/tree/f0dd60589c4cafcbd5496d60884d2745ff340805), its configuration that of the
dense model with 1.2 billion parameters; those of the models in Table 4 are not there.
"""

# %%
run = ladder.build_base_run(rung, "hybrid")
trained = run.train
read = trained.steps * run.data.batch * run.data.time
lines = [
    ("AdamW: betas, decay, clipping", "0.9 and 0.95, 0.1, 1", "the same; gains decayed, embeddings not", f"{trained.betas[0]:g} and {trained.betas[1]:g}, {trained.weight_decay:g}, {trained.clip:g}"),
    ("rate, its fall", "3e-4 for every row, cosine to 3e-5", "the same", f"each arm its own, {trained.schedule} to {trained.final_lr:.0%}"),
    ("tokens, in a step, warm-up", "400B, 4.2M, 8.4B", "1,000B, 4.2M, 8.4B", f"{read / 1e6:.1f}M, {run.data.batch * run.data.time}, a tenth"),
    ("first weights", "Megatron (table), Normal (text), one of each (4.4), deviation 1/√(2.5 d), cut at 3", "`full_megatron`, 0.013975, cut at 3: the same at d = 2048", "Megatron's, 1/√(2.5 d), cut at 3"),
    ("embeddings enter at RMS", "not said", "0.014: drawn so", f"1, {ladder.build_base_run(rung, small[4]).model.embedding_size:g}, 0.014: multiplied"),
    ("output matrix", "not said", "tied to the embedding", "its own"),
    ("base of the rotation", "500,000", "the same", "10,000"),
]  # fmt: skip
plots.table(
    [dict(zip(("setting", "early version", "released code", "here"), line, strict=True)) for line in lines]
)  # fmt: skip

# %% [markdown]
r"""
One row may matter more than it looks: the size of embeddings. Theirs are drawn with RMS 0.014
([commit f0dd605](https://github.com/BryceZhuo/HybridNorm/tree/f0dd60589c4cafcbd5496d60884d2745ff340805)), by the rule $1/\sqrt{2.5\,d}$ for a width of 2,048. At Table 4's width of 1,536 the
rule gives a little more, at our width of 32 it gives $1/\sqrt{80}$, a ninth. Embeddings drawn at $1/\sqrt d$ and multiplied by $\sqrt d$ enter at 1. We
train with 1, a ninth and 0.014. Ours are multiplied by a fixed number to get there.

### Trained long enough to be ranked?

A ranking of where to norm queries, keys and values means something only where attention does. So every run below, but for those of twelve blocks, is of the ladder that this book's
chapters share: 3,200 steps or more, 20 characters a parameter, a rate of its own for each arm, chosen with seeds that never report. Are they trained long enough? They should lie below the line of trigram counts, and without attention far above it.
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
    caption="Five rates over two decades, embeddings of RMS 1. At their best the recipes with attention lie close together, far below trigram "
    "counts. At higher rates Post-Norm fails first, then HybridNorm; QKV-Pre hardly.",
    provenance=lab.provenance(tuning.where(arm=[*shown.values()])),
).named("by-rate")  # fmt: skip

# %%
plots.table(ladder.table(climbed.where(arm=[*recipes.values(), "no attention"])), digits=4)

# %% [markdown]
r"""
The column *lead* is how far an arm ends below Pre-Norm, with its 95 % interval. The column *lost* is what an untuned rate costs: the mean loss over
two decades of rates, minus the best; *tuned* is the uncertainty, in nats, that the choice of the rate leaves. HybridNorm loses several times what QKV-Pre does on the smallest rung: the norm on the stream seems to make it
choosy about rates, as Post-Norm is. On a larger model the same was found: [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895) have at 64 layers a largest stable rate of 7.65e-3
for Pre-Norm and of 4.9e-4 for HybridNorm. Table 4 has one rate for all, and a low one.

### Who earns the lead?

First the lead itself, with embeddings of RMS 1:
"""

# %%
TABLE4 = "Zhuo et al. 2025, arXiv 2503.04598 (early version), Table 4"
small_models = Domain(
    "550M parameters, 16 layers, 400B tokens, one rate for all",
    "six blocks, 20 characters a parameter (the shared ladder)",
    inside=False,
)
ladder.improvement(climbed, "hybrid").claim(
    "06-each-at-its-own",
    "> 0",
    "With each at its own rate, HybridNorm ends below Pre-Norm.",
    found="On rung {rung}, each at its own rate, HybridNorm's lead over Pre-Norm is {mean:+.4f} nats.",
    source=TABLE4,
    published="20.30 and 20.00 (C4 perplexity): 0.015 nats",
    domain=small_models,
)

# %% [markdown]
r"""
Each part of the lead is a suspect. We follow them with large tokens and with small.

**Suspect 1: chance.** The two pairs of rows in Table 4 that can compute the same functions end 0.0065 and 0.0005 nats apart ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). With one run a row,
chance, $\epsilon$ and an idle gain together can be nearly half of the lead. The table alone cannot clear chance; several seeds a row can.

**Suspect 2: the norms inside attention.** QKV-Pre takes no other step. Published, it has 19.96 and ends *below* plain HybridNorm
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)); norms on queries and keys alone, Pre-QK-Pre, have 20.22.
"""


# %%
def describe_step(arm, over, suffix):
    """Write how far a recipe ends below another: the mean with its interval, in nats."""
    return f"{ladder.improvement(climbed, arm + suffix, over + suffix)[rung]:+z.4f}"


for arm, over, name, words, gap in (
    ("qkv-pre", "pre", "06-qkv-pre-at-its-own", "Pre-Norm", "20.30 and 19.96 (C4 perplexity): 0.017 nats"),
    ("qkv-pre", "qk", "06-value-norm-adds", "Pre-Norm with norms on queries and keys", "20.22 and 19.96: 0.013 nats"),
):  # fmt: skip
    ladder.improvement(climbed, arm, over).claim(
        name,
        "> 0",
        f"QKV-Pre ends below {words}.",
        found=f"On rung {{rung}}, each at its own rate, QKV-Pre's lead over {words} is {{mean:+.4f}} nats.",
        source="this chapter, on the steps between the rows of Table 4",
        published=gap,
    )

# %% [markdown]
r"""
What the norms on queries, keys and values earn is small beside what attention itself is worth here. They earn more at rates that are too high (chapter 04). All sixteen rows of Table 4 stand on shelf E: [Table 4: sixteen placements](E_hybridnorm.ipynb#table-4-sixteen-placements).

**Suspect 3: the norm on the stream.** Published, what it earns depends on the order. Added to norms on queries, keys and values it earns nothing, 19.96 and 20.00; added to plain Pre-Norm, which is the row Pre-Post, half of the lead, 20.30 and 20.15
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Shelf E has [both orders](E_hybridnorm.ipynb#table-4-sixteen-placements). And here, on top of norms inside attention?
Give it its best case: HybridNorm\*, *the star*, against QKV-Pre. Their first blocks compute the same functions, so they differ in the norm on the stream alone. Large tokens, and small ones:
"""

# %%
small_in = entries["RMS 0.014"]
ladder.improvement(climbed, "qkv-pre", "hybrid*").claim(
    "06-qkv-pre-ahead-of-the-star",
    "> 0",
    "With embeddings of RMS 1, QKV-Pre ends below HybridNorm*.",
    found="On rung {rung} QKV-Pre's lead over HybridNorm*, whose norm before the feed-forward stands on the stream, is {mean:+.4f} nats.",
    source="derived above: a large token needs no lift",
)
ladder.improvement(climbed, "hybrid*" + small_in, "qkv-pre" + small_in).claim(
    "06-star-ahead-of-qkv-pre-when-small",
    "> 0",
    "With embeddings of RMS 0.014, HybridNorm* ends below QKV-Pre.",
    found="On rung {rung}, with embeddings of RMS 0.014, HybridNorm*'s lead over QKV-Pre is {mean:+.4f} nats.",
    source="derived above: a norm on the stream lifts small tokens",
)

# %% [markdown]
r"""
**Suspect 4: the first block.** It is the last stretch of each line in the second figure, the star against plain HybridNorm. Shelf C has [other first blocks](C_zoo.ipynb#first-blocks). All steps in one table:
"""


# %%
pairs = [*zip(list(recipes)[1:], recipes, strict=False), ("HybridNorm*", "Pre-Norm")]
plots.table(
    [
        {
            "nats won": f"{over} to {name}".replace("*", "\\*"),
            "published, one run": f"{math.log(table4[over]['c4'] / table4[name]['c4']):+.4f}",
            **{f"here, {entry}": describe_step(recipes[name], recipes[over], of) for entry, of in entries.items()},
        }
        for name, over in pairs
    ]
)  # fmt: skip

# %% [markdown]
r"""
With small embeddings the whole lead, in the last row, is about the published one. The parts are not the published parts: there the norm on the stream
(QKV-Pre to HybridNorm) earned nothing, and with our smallest tokens it seems to earn something. So we have not found what makes the paper's lead. Mind the
width of our intervals: no single step is known well, and with small tokens only rung S was trained.

### How large a token enters
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
    xlabel="RMS with which embeddings enter the stream",
    ylabel="test loss (nats)",
    caption="The losses behind the leads of the second figure. Small embeddings do not make HybridNorm better. They make Pre-Norm "
    "and QKV-Pre worse, and HybridNorm less so.",
    provenance=lab.provenance(climbed.where(arm=small, stage="final", rung=rung)),
).named("by-embedding")


# %%
ladder.improvement(climbed, "pre", "pre" + small_in).claim(
    "06-small-embeddings-cost-pre-norm",
    "> 0",
    "Small embeddings cost Pre-Norm.",
    found="On rung {rung} Pre-Norm's loss is {mean:+.4f} nats higher with embeddings of RMS 0.014 than with RMS 1.",
    source="derived above; this book's ladder, rung S",
    published="the authors' embeddings enter at RMS 0.014 (their code, width 2,048)",
)

# %%
four = ("pre", "hybrid", "pre" + small_in, "hybrid" + small_in)
ends = {}  # five seeds of each arm, and five more, trained when the first five had been read
for arm in four:
    looked = climbed.where(arm=arm, rung=first, stage="first")
    of_arm = ladder.build_base_run(first, arm)
    of_arm = ladder.configure_run(of_arm, max(looked.by("lr")), 0, ("test",))
    more = lab.run(Experiment(of_arm, {"seed": [5, 6, 7, 8, 9]}))
    ends[arm] = (looked + more).measure("test.loss")

# %%
scatter = ladder.measure_scatter(climbed, first)


def compare_costs(costs, over, arms):
    """Say how far small embeddings cost less than over there: all of it on one rung."""
    left = [ladder.measure_tuning_left(climbed, first, arm, scatter.sd) for arm in arms]
    share = 4 / len(arms)  # 1: a cost is one difference of two losses; 1/2: the mean of two
    spread = replace(scatter, sd=scatter.sd * math.sqrt(2 * share))
    cost = compare_samples(costs, over, spread, tuned=share * math.hypot(*left))
    pair = ("hybrid" + small_in, "pre" + small_in)
    return ladder.Comparison({first: cost}, lambda on: ladder.lacking_on(climbed, on, *pair))


costs = {arm: (ends[arm + small_in] - ends[arm]).values for arm in ("pre", "hybrid")}
later = compare_costs(costs["hybrid"][5:], costs["pre"][5:], four)[first]
compare_costs(costs["hybrid"], costs["pre"], four).claim(
    "06-small-embeddings-make-the-lead",
    "> 0",
    "HybridNorm's lead over Pre-Norm grows when the embeddings are small.",
    found="On rung {rung} small embeddings add {mean:+.4f} nats to HybridNorm's lead over Pre-Norm ({n} seeds); by the five later ones {later:+.4f} [{later_low:+.4f}, {later_high:+.4f}].",
    source="derived above; this book's ladder, rung S",
    beside={
        "later": later,
        "later_low": later.compute_interval()[0],
        "later_high": later.compute_interval()[1],
    },
)


# %% [markdown]
r"""
One pair of recipes is thin evidence. The first five seeds gave us the idea, and the later five alone, whose interval stands in the card's sentence, hardly exclude zero. So we take all four recipes, at both small sizes: what do small embeddings cost the two recipes without a norm on the stream,
and what the two with one?
"""


# %%
def average_cost(arms, entry):
    """Average over recipes what small embeddings cost, seed by seed of a first look."""
    looked = climbed.where(rung=first, stage="first").by("arm")
    ends = {arm: runs.measure("test.loss") for arm, runs in looked.items()}
    costs = [ends[arm + entry] - ends[arm] for arm in arms]
    return combine(lambda *of_seed: fmean(of_seed), *costs).values


less = {
    name: compare_costs(
        average_cost(["hybrid", "hybrid*"], entry),
        average_cost(["pre", "qkv-pre"], entry),
        [arm + of for arm in recipes.values() for of in ("", entry)],
    )
    for name, entry in entries.items()
    if entry
}
# %%
by_rule = less["by the rule"][first]
less["RMS 0.014"].claim(
    "06-a-norm-on-the-stream-saves-small-tokens",
    "> 0",
    "Small embeddings cost recipes without a norm on the stream more than recipes with one.",
    found="On rung {rung} embeddings of RMS 0.014 cost recipes without a norm on the stream {mean:+.4f} nats more; at the rule's size {rule:+.4f} [{rule_low:+.4f}, {rule_high:+.4f}].",
    source="derived above; this book's ladder, rung S",
    beside={
        "rule": by_rule,
        "rule_low": by_rule.compute_interval()[0],
        "rule_high": by_rule.compute_interval()[1],
        "second value": "embeddings by the rule",
    },
)

# %% [markdown]
r"""
The two recipes without a norm on the stream pay most. The cosine of the slider does not predict the order of the other two: the star keeps less of a small token than
HybridNorm, and yet we do not see it end higher. Where the lead grows, the norm *repairs* something. If embeddings are multiplied by $\sqrt d$, or normalized, there is less to repair. Is it so
at 550 million parameters? Table 4 speaks against it: by the code's rule its tokens enter small, and the norm on the stream earned nothing. One difference is that
theirs are drawn small and can grow, ours are multiplied by a fixed number. So we draw ours small as well, multiply them by $\sqrt d$ alone, as our tokens of RMS 1 are, and let them grow. At step 0 this is the network whose tokens are multiplied by the fixed number.
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
    found="On {rung}, with tokens drawn at RMS 0.014, HybridNorm ends {apart:.4f} nats {side} Pre-Norm. Its tokens enter with {hybrid:.2f} in the end, Pre-Norm's with {pre:.2f}.",
    source="this book, a forecast; seen before by a referee, on one seed",
    beside={
        "hybrid": size_at_the_end("hybrid" + growing),
        "pre": size_at_the_end("pre" + growing),
        "second value": "of the size drawn, none",
        "control": "tokens multiplied by 0.014",
    },
)
# %%
ladder.improvement(climbed, "hybrid*" + growing, "qkv-pre" + growing).claim(
    "06-star-ahead-where-tokens-grow",
    "> 0",
    "Where embeddings are drawn at RMS 0.014 and can grow, HybridNorm* ends below QKV-Pre.",
    found="On {rung}, with tokens drawn at RMS 0.014, HybridNorm* ends {apart:.4f} nats {side} QKV-Pre.",
    source="this book, a forecast",
    published="19.85 against 19.96 (C4 perplexity): 0.006 nats below",
    beside={"second value": "of the size drawn, none", "control": "tokens multiplied by 0.014"},
)
# %%
ladder.improvement(climbed, "hybrid" + growing, "hybrid").claim(
    "06-hybrid-gains-where-tokens-grow",
    "> 0",
    "HybridNorm ends lower with tokens drawn at RMS 0.014 than with tokens drawn at RMS 1.",
    found="On {rung} HybridNorm ends {apart:.4f} nats {side} itself with tokens drawn at RMS 1; for Pre-Norm the difference is {plain:+.4f}.",
    source="seen in the runs of the cards above",
    beside={
        "plain": ladder.improvement(climbed, "pre" + growing, "pre")[first],
        "second value": "of the size drawn, none",
    },
)

# %%
of_tokens = {"RMS 1": "", "multiplied by 0.014": small_in, "drawn at 0.014": growing}
plots.table(
    [
        {
            "nats won": f"{over} to {name}".replace("*", "\\*"),
            **{entry: describe_step(recipes[name], recipes[over], of) for entry, of in of_tokens.items()},
        }
        for name, over in pairs
    ]
)  # fmt: skip

# %% [markdown]
r"""
The tokens do grow, to the size of large ones, so nothing is drowned in the end. HybridNorm's lead is there all the same: the fixed number does not make it. And the parts move further away from the published ones.
In the paper the step from QKV-Pre to HybridNorm, which puts a norm on the stream, earned nothing. Here, by the means, it is the whole lead. So the fixed factor does not explain why our table and the paper's disagree. Other differences
remain: the released code ties the output to the embedding, Table 4 has one rate for all, and for most of its rows the first weights are not named; our tokens are multiplied by $\sqrt d$, so a step of Adam moves them $\sqrt d$ times as far. With tokens that grow we tested none of these.

We had not expected the last card. With tokens drawn small and free to grow, HybridNorm ends lower than with tokens of RMS 1, and the difference is larger than that between most recipes of this book. Why, we do not know. How tokens enter is a part of the recipe that no drawing of a block shows.
"""

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
drowned = ladder.build_base_run(first, "pre" + small_in)
lab.train_live(Experiment(ladder.configure_run(drowned, 0.00562, 0, ladder.LOOKS), {"seed": [0]}))

# %% [markdown]
r"""
### Other first weights

Table 3 has two recipes and three initializations, one run each. *Depth-Scaled* shrinks what layer $\ell$ writes by $\sqrt{2\ell}$; Megatron's weights
shrink all writes alike. The next figure puts our runs beside that table, with Xavier's weights in place of the paper's Normal ones, which draw all matrices with one deviation.
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
    xlabel="HybridNorm's test loss below Pre-Norm's (nats)",
    threshold={"Pre-Norm": 0.0},
    caption="HybridNorm's lead from several first weights. Published: one run each. Here: several seeds, each arm at its own rate, embeddings of "
    "RMS 1. Here only Xavier's weights are told apart: from them HybridNorm is behind.",
    provenance=lab.provenance(climbed.where(arm=["pre", "hybrid", *starts], stage="final")),
).named("first-weights")  # fmt: skip

# %%
ladder.improvement(climbed, "hybrid, depth-scaled", "pre, depth-scaled").claim(
    "06-depth-scaled-lead",
    "> 0",
    "From depth-scaled weights HybridNorm ends below Pre-Norm.",
    found="On rung {rung}, from depth-scaled weights, HybridNorm's lead over Pre-Norm is {mean:+.4f} nats.",
    source="Zhuo et al. 2025, arXiv 2503.04598 (early version), Table 3",
    published="20.49 and 20.40 (C4 perplexity): 0.004 nats",
    domain=small_models,
)
ladder.improvement(climbed, "hybrid, xavier", "pre, xavier").claim(
    "06-hybrid-behind-from-xavier",
    "< 0",
    "From Xavier's weights HybridNorm ends above Pre-Norm.",
    found="On rung {rung}, from Xavier's weights, HybridNorm's lead over Pre-Norm is {mean:+.4f} nats.",
    source="this book's ladder, rung S",
)

# %% [markdown]
r"""
From Normal weights Pre-Norm is *ahead* in Table 3, 20.29 against 20.44. From Megatron's it has 20.44, and in Table 4 20.30. Section 4.4 says why: each
of the two recipes got the weights that suit it, Pre-Norm Normal ones, HybridNorm Megatron's. Which weights the other rows had is not said. So the
first step of Table 4, from Pre-Norm to QKV-Pre, may be a step of weights as well as of norms. For HybridNorm alone Megatron's weights do more than
its whole lead, 20.44 against 20.00 ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Shelf E has [both tables in one](E_hybridnorm.ipynb#table-3-first-weights).

### Twelve blocks

Table 5 goes from 16 layers to 29: Post-Norm diverges, HybridNorm has 19.67 and its star 19.52, against Pre-Norm's 19.88
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598), early version), all from the authors' weights. Is it the recipe that makes depth safe, or the
weights? A hundred steps at one rate rank nothing, but they show who starts to learn and who sits *stuck* on letter frequencies, as Post-Norm did in chapter 02.
Stuck or late? Only a longer run can say, so Post-Norm and HybridNorm get four times as many steps, too.
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
    caption="Twelve blocks, one rate, a hundred steps. From Xavier's weights HybridNorm is still where Post-Norm is, on the frequencies of letters, and so are most runs of "
    "its star. From Megatron's it learns.",
    provenance=lab.provenance(*deep.values()),
).named("twelve-blocks")

# %%
CUTS = (0.05, 0.1, 0.3)  # nats below letter frequencies


def count_stuck(results, cut=0.1):
    """Count the runs that end on letter frequencies, or so little below."""
    return results.count(lambda run: (run.probes["test"]["loss"] or math.inf) > letters - cut)


plots.table(
    [
        {
            "arm": name,
            "steps": steps,
            "test loss": f"{of[name].measure('test.loss').mean:.2f}",
            **{f"stuck, cut {cut:g}": str(count_stuck(of[name], cut)) for cut in CUTS},
        }
        for name in (*fewer, "QKV-Pre, xavier")
        for steps, of in ((sizes.steps, deep), (4 * sizes.steps, long))
        if name in of
    ]
)  # fmt: skip

# %% [markdown]
r"""
A run counts as stuck where its loss is less than a tenth of a nat below that of letter frequencies; the table has two other cuts beside it.
"""

# %%
stuck = {name: count_stuck(part) for name, part in deep.items()}
(stuck["HybridNorm, xavier"] - stuck["QKV-Pre, xavier"]).claim(
    "06-deep-hybrid-gets-stuck-from-xavier",
    "> 0",
    "A hundred steps from Xavier's weights leave twelve blocks of HybridNorm on letter frequencies more often than without the norm on the stream.",
    found="After a hundred steps {k} of {n} runs of HybridNorm are stuck, {other_k} of {other_n} of QKV-Pre; from Megatron's weights {mild} of {n} of HybridNorm.",
    source="this chapter; the abstract of Zhuo et al. 2025, arXiv 2503.04598, speaks of the recipe alone",
    published="from the authors' weights: stable at 29 layers",
    beside={
        "mild": stuck["HybridNorm, megatron"].estimate.k,
        "second value": "three cuts",
        "last step": "with 400 steps it goes away (next card)",
        "control": "QKV-Pre, the same rate and steps",
    },
)
# %%
(stuck["HybridNorm, xavier"] - count_stuck(long["HybridNorm, xavier"])).claim(
    "06-deep-hybrid-is-late-not-stuck",
    "> 0",
    "Given four times as many steps, twelve blocks of HybridNorm from Xavier's weights are stuck less often.",
    found="At rate 0.003 {k} of {n} runs of HybridNorm are stuck after a hundred steps, {other_k} of {other_n} after four hundred; of Post-Norm {post} then.",
    source="two runs of a referee of this book, repeated with the chapter's seeds",
    beside={
        "post": count_stuck(long["Post-Norm, xavier"]).estimate.k,
        "last step": "the loss at the end of 400 steps, at three cuts",
        "control": "Post-Norm, the same rate and steps",
    },
)

# %% [markdown]
r"""
So from Xavier's weights a deep HybridNorm starts late but does start; after a hundred steps late and stuck look the same. The longer runs stretch warm-up and decay as well, so they are not the same runs continued. Post-Norm is the control: with as many steps it hardly gets going at this rate, and how many of its runs count as stuck depends on the cut. QKV-Pre,
which differs from HybridNorm in the norm on the stream alone, starts in time. All this is at one rate. Starting late is not instability; whether a deep HybridNorm stays stable, a few hundred steps cannot tell.

### The paper's own explanation: gradients

The paper takes one head and bounds its derivative by each matrix. Shelf E has its two lemmas and its theorem, whose early version lost a factor:
[Appendix A](E_hybridnorm.ipynb#appendix-a-two-lemmas-and-a-theorem). The paper reads its bounds as: under QKV-norm a gradient depends on its own matrix and $W_O$ alone. That is true of the bounds. The gradient itself contains the attention weights, and these
depend on both $W_Q$ and $W_K$. But the output does not notice the *scale* of $W_Q$, $W_K$ or $W_V$, and so, as chapter 04 derives for queries, with
many heads, mask and rotation,

$$\langle W, \nabla_W\mathcal L\rangle = 0, \qquad \nabla\mathcal L(tW) = \tfrac1t\,\nabla\mathcal L(W) \quad (t > 0).$$

The size of these matrices does not change the function. It acts as a learning rate: a large $W$ turns slowly. This is one reason why a
ranking depends on initialization and rate.
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
    "The gradient of the value matrix is orthogonal to the matrix, and inversely proportional to its size.",
    found="The cosine of W_V and its gradient is {mean:.1g}; with W_V three times as large the gradient is {ratio:.6f} times smaller.",
    source="this chapter; replaces the reading of Theorem A.3",
    beside={"ratio": (before.norm() / slope(model).grad.norm()).item()},
)

# %% [markdown]
r"""
### What no run here can say

| [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598) | says | out of range here, because |
| --- | --- | --- |
| Table 4, early version | QK-Post diverges | 400 billion tokens are 95,367 steps; it may diverge at any of them ([3,200 steps](E_hybridnorm.ipynb#table-4-sixteen-placements)) |
| Table 2, early version | HybridNorm\* is ahead in a mixture of experts of 6.9B: average 66.12 against 64.95 | size; a small mixture is on [shelf E](E_hybridnorm.ipynb#a-mixture-of-experts) |
| Table 5, early version | HybridNorm\* has 19.52 at 29 layers | 29 layers; twelve and 24 blocks are on [shelf E](E_hybridnorm.ipynb#table-5-depth) |
| version 4 | 7B: loss 2.430 against 2.469, with one more norm. 1.2B: plain HybridNorm's average 59.18, *below* Pre-Norm's 59.56; the star's 60.67 | size, benchmarks |

## Where it goes wrong

**The skip of the second half.** Whoever types $Y + \mathrm{FFN}(N(Y))$ for $N(Y) + \mathrm{FFN}(N(Y))$ trains QKV-Pre and calls it HybridNorm. Its loss
looks healthy: it is QKV-Pre's, the second stop of the second figure.

**The pseudo-code.** Algorithm 1 (early version) splits the projections into `q, k, v` and writes `q, k, v = q.view(b, s, h, dk)`. Typed in as it stands, this
unpacks the *queries* along the batch. With two examples Python complains; with three, example 0 serves as queries, example 1 as keys, example 2 as values.
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
    "The printed code lets one example of a batch change another.",
    found="In a batch of three, changing example 1 moves what example 0 gets by {mean:.2f}.",
    source="Zhuo et al. 2025, arXiv 2503.04598 (early version), Algorithm 1 as printed",
)

# %% [markdown]
r"""
**The name** suggests $N(Y + \mathrm{FFN}(Y))$, or, as [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895) describe it, *blocks* that alternate. **The star** is an
override on the command line of the authors' code; its configuration alone trains plain HybridNorm, and a block that forgets its number treats every block as the
first. **The norms** go over the full width, after the rotation, or forget the values. The book's checker is told what each is meant to be:
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
    "values not normed": (built(plain, "qk rms"), "hybrid", own),
}  # fmt: skip
reports = {name: check.block(given, asked, **more) for name, (given, asked, more) in wrong.items()}
exact(sum(not report.ok for report in reports.values())).claim(
    "06-mistakes-are-caught",
    ">= 8",
    "Each of the wrong blocks is caught.",
    found="Of eight wrong blocks, {mean:.0f} are caught.",
    source="this chapter",
)

# %% [markdown]
r"""
## Exercises

**2 (by hand).** Embeddings and writes have the same small RMS at first: $c = w$. What is the cosine of stream and embedding after twelve sublayers under Pre-Norm,
and under HybridNorm, by the two formulas above? And how many times larger must $c$ be for Pre-Norm to keep as much as HybridNorm does at $c = w$?
"""

# %% tags=["exercise"]
yours = {"pre": ..., "hybrid": ..., "times": ...}

# %%
kept = {"pre": 1 / math.sqrt(13), "hybrid": 1 / math.sqrt(2), "times": math.sqrt(12)}
check.answer(
    yours, kept, name="2", rtol=0.01, hint="twelve writes compete with the token, or one does"
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Divide numerator and denominator by $c$. For the last, set the two fractions equal.

</details>
<details><summary>Solution</summary>

Pre-Norm: $1/\sqrt{1 + 12} = 1/\sqrt{13} \approx 0.28$. HybridNorm: $1/\sqrt2 \approx 0.71$. Equal if $12\,w^2/c^2 = 1$: $c = \sqrt{12}\,w$, three and a half times
as large.

</details>

**3 (proof).** (a) Show that HybridNorm\*'s first block and a QKV-Pre block can compute the same functions, if $\epsilon = 0$. (b) Pre-QK-Pre has norms on queries and keys only, behind an
input norm. Show that without its input norm it is another function.

<details><summary>Hint</summary>

(a) What is left of $1/\mathrm{rms}(X)$ behind a norm, and where can the gain go? (b) Take one token, and double it.

</details>
<details><summary>Solution</summary>

(a) The star reads $N(X) = g\odot X/\mathrm{rms}(X)$. For a query, $N(X)\,W_Q = \tfrac1{\mathrm{rms}(X)}\,X\,\mathrm{diag}(g)\,W_Q$, and the norm on the query forgets the positive factor. So $W_Q' = \mathrm{diag}(g)\,W_Q$ gives
the same normed queries without the input norm; keys and values likewise. The second halves are equal. $\square$

(b) A single token attends to itself with weight 1, so attention writes $N(X)\,W_VW_O$ with the input norm and $X\,W_VW_O$ without. Double $X$: the first write stays as it is, the second doubles. $\square$

</details>

**4 (open).** Post-Norm has two norms on the stream in a block. What do small embeddings cost it? Write down an answer from the formula for what is left of a token; then run three
seeds, each a minute or so.
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
## What you now know

- **Which change earns the lead?** In the published table: the norms inside attention, $\ln(20.30/19.96) = 0.017$ of $\ln(20.30/19.85) = 0.022$ nats
  ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)), unless that step changed the first weights, too. The other two steps are about as small as the distance between two rows that can compute the same functions. <!-- derived -->
- With large tokens, in our small models: the norms inside attention. QKV-Pre, which has all three and no norm on the stream, ends below Pre-Norm on both rungs; that the norm on the values has a part in it, we could not show. With large
  tokens HybridNorm's lead is seen on rung M; on S the interval leaves its sign open. <!-- 06-qkv-pre-at-its-own 06-value-norm-adds 06-each-at-its-own -->
- With small tokens the norm on the stream earns a part of it: it saves some of what they cost. Which step earns how much, the runs do not settle. Both small sizes say so, on rung S alone; a larger rung was not trained with small tokens. One can also repair the embedding.
  <!-- 06-small-embeddings-cost-pre-norm 06-a-norm-on-the-stream-saves-small-tokens -->
- Tokens that are drawn small and may grow do grow, and on S HybridNorm keeps its lead. It then ends below its own run with large tokens: how tokens enter is a part of the recipe. One size was tried.
  <!-- 06-hybrid-ahead-where-tokens-grow 06-star-ahead-where-tokens-grow 06-hybrid-gains-where-tokens-grow -->
- **Why?** We think that a norm on the stream lifts a small token before later writes drown it. But the star keeps less of it, and we did not see it end higher; so this may not be all. <!-- derived -->
- **Would it be there in another setting?** Not from every initialization: from Xavier's weights on rung S HybridNorm ends above Pre-Norm, and in the paper's Table 3, too, the sign changes with the weights. Nor at every depth: with large tokens and width 32 no lead is seen at six or twelve blocks, and with 24 HybridNorm\* ends above Pre-Norm ([shelf E](E_hybridnorm.ipynb#table-5-depth)). One rate for all favours the recipes that it suits. Ask of every ranking: from which weights,
  with which embeddings, at which rates, how many runs a row? <!-- 06-hybrid-behind-from-xavier 06-depth-scaled-lead -->
- Attention with its own norms is blind to the size of what it reads. So some rows of the table are one function, and show what one run a row can tell. <!-- 06-rows-that-are-one-function -->
- The gradient of $W_Q$, $W_K$ or $W_V$ is orthogonal to the matrix, so its size acts as a learning rate: one reason why a ranking depends on first weights and rate. <!-- 06-gradient-is-orthogonal -->
- From Xavier's weights twelve blocks of HybridNorm start late. After 100 steps that looks like being stuck; after 400 it does not. Train longer before you call it stuck. <!-- 06-deep-hybrid-gets-stuck-from-xavier 06-deep-hybrid-is-late-not-stuck -->
- Pseudo-code is not code: type it in, and let a check read it. <!-- 06-printed-code-mixes-examples 06-mistakes-are-caught -->

## To carry away

- **Equations.** $Y = X + \mathrm{MHA}_{QKV}(X)$ with norms on queries, keys and values; $X' = N(Y) + \mathrm{FFN}(N(Y))$.
- **Variant.** HybridNorm\*: the first block has Pre-Norm's input norm, too.
- **Use.** Where embeddings enter small; compare with QKV-Pre, which has the same attention.
- **Cost.** Three small norms in attention; its lead depends on first weights and embeddings.

| you see | cause | try |
| --- | --- | --- |
| it trains like QKV-Pre | the skip of the second half starts from $Y$ | $N(Y) + \mathrm{FFN}(N(Y))$: both read the normed stream |
| deep, and on letter frequencies for long | Xavier's weights | Megatron's |
| its lead over Pre-Norm shrinks or changes sign | large embeddings, or Xavier's weights | report first weights and the embeddings' size beside the lead |

## References

Works cited: [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682), [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
