# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# A zoo of placements

**Question.** Some twenty recipes move, double or scale the norms of a transformer block, and most were designed to solve a problem that their authors name. What is each recipe's equation, does its problem occur in six blocks, and does the recipe solve it?

**In short.** We use runs of the book's [ladder](02_pre_and_post_norm.ipynb#other-learning-rates-and-full-training-runs) (recipes trained on the same text) at size S: six blocks of width 32, each recipe at its tuned learning rate. Some recipes have only a *preliminary evaluation* so far: five seeds, at a learning rate chosen with one seed. [What a claim is](claims.md) explains the words on cards.

| you look for | in a sentence | section |
| --- | --- | --- |
| every recipe in one row | equation, problem, learning rate and loss | [The table](C_zoo.ipynb#the-table) |
| who uses which placement, who normalizes queries and keys | not every open model is Pre-Norm; Gemma 3, Qwen 3 and OLMo 2 normalize queries and keys, Gemma 2 does not | [Placements](placements.md#who-uses-what), [queries and keys](tables.md#who-normalizes-queries-and-keys), [appendix D](D_numbers.ipynb#who-uses-which-norm) |
| size and turning of every stream (representation collapse) | a stream with a norm on it hardly grows; in many recipes the last block turns the stream less than the first does, and under Pre-Norm it turns the stream more | [Streams, block by block](C_zoo.ipynb#streams-block-by-block) |
| gradients of first and last blocks | at step 100 the first block has the smaller gradient under Post-Norm, B2T and ResiDual, and the larger one under KEEL | [Gradients, first block over last](C_zoo.ipynb#gradients-first-block-over-last) |
| Sandwich, Peri-LN, OLMo 2 | their streams are smaller than Pre-Norm's; OLMo 2's loss is higher, and for Sandwich and Peri-LN we detect no lower loss | [Norms on what is written](C_zoo.ipynb#norms-on-what-is-written) |
| Gemma 2 and 3, soft caps | Gemma 2 has caps and no QK-Norm; we detect no effect of caps on the largest attention logit at one learning rate; Gemma 3's loss is lower than Pre-Norm's and not distinguishable from QK-Norm's | [Gemma's two answers to large logits](C_zoo.ipynb#gemmas-two-answers-to-large-logits) |
| small logits, but another instability | at a high learning rate QK-Norm lowers Post-Norm's loss, but KEEL, without QK-Norm, has a lower one | [Logits held, and another instability](C_zoo.ipynb#logits-held-and-another-instability) |
| Mix-LN, LNS, ResiDual | late Pre-Norm blocks are not idle here; LNS has a lower loss than Pre-Norm, although its late blocks matter less; for Mix-LN and ResiDual we detect no lower loss than Pre-Norm's | [Against idle late blocks](C_zoo.ipynb#against-idle-late-blocks) |
| Admin, B2T, KEEL, RealFormer | at a rate too high for Post-Norm, KEEL and B2T learn, Admin learns in part, RealFormer does not; at tuned rates, B2T's loss is lower than Post-Norm's, and KEEL's is higher than Pre-Norm's | [Post-Norm with help](C_zoo.ipynb#post-norm-with-help) |
| DeepNorm for an encoder and a decoder | two constants for each; $(2L)^{1/4}$ is for a single stack | [DeepNorm's four constants](C_zoo.ipynb#deepnorms-four-constants) |
| Sub-LN, NormFormer | NormFormer makes gradients less even, and its loss is not distinguishable from Pre-Norm's; Sub-LN's loss is higher than Pre-Norm's | [Norms inside the branch](C_zoo.ipynb#norms-inside-the-branch) |
| EmbedNorm, First-QKV-Pre | neither loss is distinguishable from HybridNorm's | [First blocks](C_zoo.ipynb#first-blocks) |
| Xiong's lemma and theorem, over depth | sizes and gradients agree with both, in their setting | [Xiong's lemma and theorem](C_zoo.ipynb#xiongs-lemma-and-theorem) |
| a uniform offset through two blocks | Pre-Norm preserves it, and with LayerNorm no part of the model can read it | [A uniform offset](C_zoo.ipynb#a-uniform-offset) |
| the numbers that one article prints | we obtain all of them, and both Jacobians | [The article's own examples](C_zoo.ipynb#the-articles-own-examples) |
| vanishing gradients and fine-tuning | Post-Norm's first block gets the smaller gradient, as a survey says; a common factor does not slow Adam | [Vanishing gradients and fine-tuning](C_zoo.ipynb#vanishing-gradients-and-fine-tuning) |
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, check, plots  # pip install the book's folder
from labkit.attention.logits import soft_cap
from labkit.describe import list_extras
from labkit.experiments import Domain, Experiment, Lab, computed, exact, ladder
from labkit.model import Perturbed
from labkit.model.feed_forward import FeedForward
from labkit.norms import LayerNorm, RMSNorm
from labkit.placements import Place, PostNorm, PreNorm, recipe
from labkit.probes.updates import final_stream
from labkit.statistics.seeds import t_interval

# %%
lab = Lab("C_zoo", size=size, seed=seed, memory={"kernel": "1200M", "run": "850M"})
sizes = lab.sizes(
    draws=24,
    depths=[2, 4, 8, 16, 32],
    ends=[6, 48],
)
rung, draws = "S", lab.seeds(sizes.draws)
five = lab.seeds(5)
ARMS = {
    "pre": "Pre-Norm", "post": "Post-Norm", "qk": "QK-Norm", "sandwich": "Sandwich", "peri": "Peri-LN",
    "output": "output norms", "olmo2": "OLMo 2", "gemma2": "Gemma 2", "gemma3": "Gemma 3",
    "pre, soft cap": "Pre-Norm with a soft cap", "qk, soft cap": "QK-Norm with a soft cap",
    "lns": "LNS", "mix-ln": "Mix-LN", "resi-dual": "ResiDual", "admin": "Admin", "b2t": "B2T",
    "keel": "KEEL", "realformer": "RealFormer", "deepnorm": "DeepNorm", "sub-ln": "Sub-LN",
    "normformer": "NormFormer", "hybrid": "HybridNorm", "hybrid*": "HybridNorm*",
    "embed-norm": "EmbedNorm", "first-qkv-pre": "First-QKV-Pre",
    "pre, normal": "Pre-Norm with LNS' weights",
}  # fmt: skip

# %%
climbed = lab.ladder(
    [*(arm for arm in ARMS if arm in ladder.CHAPTERED), "no attention", "post, xavier"],
    also=[arm for arm in ARMS if arm in ladder.SHELVED],
)
looked = {on: part.by("arm") for on, part in climbed.where(stage="final").by("rung").items()}
runs = looked[rung]
deep = "D" if "D" in looked else rung  # where some recipes have twelve blocks
blocks = ladder.RUNGS[deep].depth
searches = climbed.where(rung=rung, stage="tuning", seed=ladder.TUNING_SEED)
race = partial(ladder.claim_locked, climbed, names=ARMS)  # the card of a comparison that was locked

# %% [markdown]
r"""
## Streams, block by block

The output that a sublayer adds to the residual stream is called its *write*. A stream's **size** is the root mean square (RMS) of its entries. A block **turns** the stream by the angle between the block's input and output (we average its cosine over tokens). We measured both after training, for every recipe.
"""

# %%
NORMED = ("post", "resi-dual", "admin", "b2t", "keel", "realformer", "deepnorm",
          "hybrid", "hybrid*", "embed-norm", "first-qkv-pre")  # fmt: skip
FADING = ("sandwich", "peri", "output", "olmo2", "gemma2", "gemma3", "normformer", "lns", "sub-ln")


def look(arm, probe, on=rung):
    """Average a probe's numbers (a path) over the runs of an arm that report on a rung."""
    return np.mean(looked[on][arm].values(probe), axis=0)


def turns(arm, on=rung):
    """Return by how many degrees each block turns the stream."""
    return np.degrees(np.arccos(look(arm, "layer-cosine", on)))


def rate(arm, on=rung):
    """Return the learning rate of the runs that report on a rung."""
    return looked[on][arm].rows[0][0]["lr"]


# %%
shown = {name: arm for arm, name in ARMS.items() if arm in runs}
held = [size for arm in NORMED if arm in runs for size in look(arm, "residual-rms")[1:]]
plots.grid_map(
    panels={
        "size (RMS)": {
            (name, i): x for name, arm in shown.items() for i, x in enumerate(look(arm, "residual-rms"))
        },
        "turn (degrees)": {
            (name, i): float(x) for name, arm in shown.items() for i, x in enumerate(turns(arm), 1)
        },
    },
    row_label="recipe",
    col_label="block (0: the embedding)",
    value_label="the stream after each block",
    own_scales=True,
    digits=2,
    caption=f"Size of the stream after each block (left) and angle by which each block turns the stream (right), for every recipe trained at size S, averaged over seeds. Left: a stream with a norm on it keeps a size between {min(held):.1f} and {max(held):.1f} from the first block on, and a stream without one grows. In Mix-LN only the first block has such a norm. For ResiDual, which has two streams, the normalized one is shown. "
    "Right: under Pre-Norm, Post-Norm and the recipes related to Post-Norm, the last block turns the stream most. Under Sandwich, Peri-LN, output norms, OLMo 2, Gemma 2 and 3, NormFormer, LNS and Sub-LN the first block does.",
    provenance=lab.provenance(climbed.where(rung=rung, stage="final")),
).named("streams")  # fmt: skip


# %%
def turn_less(record):
    """By how many degrees the last block turns the stream less than the first, in one run."""
    first, *_, last = np.degrees(np.arccos(record.probes["layer-cosine"]))
    return first - last


less = [runs[arm].values(turn_less)[:5] for arm in FADING if arm in runs]
computed(np.min(less, axis=0)).tuned().claim(
    "C-last-block-turns-less-than-the-first",
    "> 0",
    "In recipes with a norm on the output of a sublayer, and in LNS and Sub-LN, the last block turns the stream by a smaller angle than the first block does.",
    found="In each of {recipes} recipes (those with output norms, LNS and Sub-LN), the last block turns the stream by at least {mean:.0f} degrees less than the first block does. Under Pre-Norm, the last block turns it by {pre:.0f} degrees more than the first (in a model of {blocks} blocks, by {deep:.0f} degrees more).",
    source="this book, seen in the figure",
    beside={
        "recipes": len(less),
        "pre": turns("pre")[-1] - turns("pre")[0],
        "blocks": blocks,
        "deep": turns("pre", deep)[-1] - turns("pre", deep)[0],
    },
)


# %%
def late_share(record):
    """Share of the second half of the blocks in the summed costs of removing one block."""
    costs = record.probes["removal-cost"]
    return sum(costs[len(costs) // 2 :]) / sum(costs)


def describe_depth(arm, on):
    """Sum up how the blocks of a model turn its stream, and what the late ones are worth."""
    angles = turns(arm, on)
    return {
        "recipe": ARMS[arm],
        "blocks": ladder.RUNGS[on].depth,
        "turn of the first block (degrees)": f"{angles[0]:.1f}",
        "smallest turn": f"{angles.min():.1f}",
        "turn of the last block": f"{angles[-1]:.1f}",
        "late share": f"{looked[on][arm].measure(late_share).mean:.2f}",
    }


both_depths = [(arm, on) for arm in ("pre", "post", "hybrid") for on in dict.fromkeys((rung, deep))]
plots.table([describe_depth(*one) for one in both_depths if one[0] in looked[one[1]]])

# %% [markdown]
r"""
To obtain the table's *late share*, we remove one block at a time and add up the increases in loss. The late share is the part of the sum that comes from the second half of the blocks.

The concern called *representation collapse* is that late Pre-Norm blocks turn the stream less and less ([Xie et al., 2023](https://arxiv.org/abs/2304.14802)): a sum of $2L$ uncorrelated writes of equal size grows as $\sqrt L$, and the last write is only $1/\sqrt{2L}$ as large as the sum. Under Pre-Norm we see no collapse, with six blocks or with twelve: the blocks in the middle turn the stream least. In recipes with a norm on attention's write (before the addition), and in LNS and Sub-LN, the last block turns the stream less than the first does (card).

## The table

The table compares each recipe with a baseline, by a measure of its problem and by loss. *Growth* is the stream's RMS after the last block divided by the embedding's. *Largest logit* is the largest attention logit before any cap. *First/last* is the gradient norm of the first block divided by that of the last block, at step 100. `loss at 0.0316` is the validation loss of one seed at a high learning rate. (The unigram baseline, which uses letter frequencies alone, has a loss of about 3 nats.)

$N$ and $M$ are norms, each with its gain, $f$ is a sublayer, $e$ is the block's input and $\ell$ is the block's number. $\alpha$, $\omega$ and $\lambda$ are factors on the skip.
"""

# %%
AGAINST = {  # made against, what was recorded of it, baseline
    "sandwich": ("values that overflow in half precision", "growth", "pre"),
    "peri": ("a stream whose variance grows", "growth", "pre"),
    "gemma2": ("logits that grow", "largest logit", "sandwich"),
    "gemma3": ("logits that grow", "largest logit", "sandwich"),
    "olmo2": ("spikes of the loss and of gradients", None, "output"),
    "lns": ("late blocks that do nothing", "late share", "pre"),
    "mix-ln": ("late blocks with small gradients", "first/last", "pre"),
    "resi-dual": ("collapse, and gradients that vanish", "first/last", "post"),
    "admin": ("updates that Post-Norm amplifies", None, "post"),
    "b2t": ("gradients that vanish", "first/last", "post"),
    "keel": ("gradients that vanish", "first/last", "post"),
    "deepnorm": ("updates that grow with depth", None, "post"),
    "realformer": ("attention that starts again in each block", None, "post"),
    "sub-ln": ("instability (one recipe is to serve all tasks)", None, "pre"),
    "normformer": ("early gradients larger than late ones", "first/last", "pre"),
    "hybrid*": ("a first block that reads raw embeddings (no problem is named)", "first/last", "hybrid"),
    "first-qkv-pre": ("raw embeddings, as for HybridNorm*", "first/last", "hybrid"),
    "embed-norm": ("raw embeddings, as for HybridNorm*", "first/last", "hybrid"),
}  # fmt: skip
HIGH = 0.0316


# %%
def first_over_last(record, step=-1):
    """Gradient of the first block over that of the last, at the last step looked at, or another."""
    blocks = [*record.probes["gradient-profile"].values()][step]["block"]
    return blocks[0] / blocks[-1]


MEASURES = {  # how to read it off the record of a run that reports
    "growth": lambda record: record.probes["residual-rms"][-1] / record.probes["residual-rms"][0],
    "largest logit": lambda record: max(record.probes["attention"]["largest"]),
    "late share": late_share,
    "first/last": first_over_last,
    "largest entry": lambda record: max(record.probes["activation-extremes"]),  # over the RMS
    # |log(first/last)| of the gradients at step 100: 0 is even
    "unevenness": lambda record: abs(np.log(first_over_last(record))),
}


def measure(part, what):
    """Read a measure from some runs."""
    return part.measure(MEASURES[what])


# %%
def stand_beside(arm, over="pre"):
    """Find the runs of a baseline and of a recipe with the same seeds: reports, or first looks."""
    if shared := {*runs[arm].by("seed")} & {*runs[over].by("seed")}:
        return [runs[one].where(seed=[*shared]) for one in (over, arm)]
    return [climbed.where(rung=rung, arm=one, stage="first") for one in (over, arm)]


def compare(arm, what, over="pre"):
    """Subtract a baseline's measure from an arm's, seed by seed, each at its own rate."""
    other, its = (measure(part, what) for part in stand_beside(arm, over))
    return other.improvement_by_seed(its).tuned()


# %%
def name_rates(*parts):
    """Say whether some runs share a learning rate."""
    return ("at two rates", "at one rate")[len({lr for of in parts for lr in of.by("lr")}) == 1]


def describe_looks(arm, what, over="pre"):
    """Write what the first looks of a recipe and of its baseline show, and at which rates."""
    looks = [climbed.where(rung=rung, arm=one, stage="first") for one in (arm, over)]
    its, other = (measure(part, what) for part in looks)
    return f"{name_rates(*looks)}, with the seeds of both preliminary evaluations: {other.improvement_by_seed(its):+.2f}"


# %%
INSIDE = {"qk rms": "norms on q and k", "gemma3": "norms on q and k", "qkv rms": "norms on q, k and v",
          "olmo2": "norms on q and k over their whole width"}  # fmt: skip


def write_recipe(arm):
    """Write a recipe's steps, and what surrounds them."""
    asked = recipe(arm)
    placed = [asked.block, *([asked.first] if asked.first else [])]
    steps = [(b.attention.equation, b.feed_forward.equation) for b in placed]
    text = "; first: ".join(", then ".join(dict.fromkeys(pair)) for pair in steps)
    text += ", its first feed-forward with α = 1" if arm == "keel" else ""
    more = INSIDE.get(asked.block.heads), *list_extras(asked).split("\n")
    parts = [text, *(words for words in more if words)]
    return "; ".join(parts).replace("ℓ**0.5", "√ℓ").replace(" * ", "·").replace(".0", "")


# %%
DIGITS = {"growth": "+.1f", "largest logit": "+.0f", "late share": "+.2f", "first/last": "+.2f"}


def describe_trouble(arm, what, over):
    """Say what was recorded of a trouble, at which rates, in the baseline and in the recipe."""
    if what is None:
        return "not recorded"
    parts = stand_beside(arm, over)
    seen = " → ".join(f"{measure(part, what).mean:.3g}" for part in parts)
    at = " → ".join(f"{max(part.by('lr')):.2g}" for part in parts)
    return f"{what}: {ARMS[over]} {seen}, {compare(arm, what, over):{DIGITS[what]}} (rates {at})"


def pick(arm, over, read):
    """Write one number of the baseline and of the recipe."""
    return " → ".join(f"{read(each):.3g}" for each in (over, arm))


def hot_loss(arm):
    """Return the validation loss at the high rate, of the one seed that searched."""
    return searches.where(arm=arm, lr=HIGH).values("validation.loss")[0]


# %%
def describe_row(arm, against, what, over):
    """Make a row of the zoo."""
    return {
        "recipe": ARMS[arm],
        "x ←": write_recipe(arm),
        "designed against": against,
        "recorded: baseline → recipe, and the difference": describe_trouble(arm, what, over),
        f"loss at {HIGH}": pick(arm, over, hot_loss),
        "rate": pick(arm, over, rate),
        "improvement in test loss (nats) over": f"{ARMS[over]}: {ladder.improvement(climbed, arm, over)[rung]:+z.4f}",
    }


plots.table([describe_row(arm, *row) for arm, row in AGAINST.items() if arm in runs])

# %% [markdown]
r"""
For each row, ask three questions: Is the baseline's value bad? Is the recipe's value better? Is its loss lower? If an interval contains 0, a gain is neither shown nor excluded. If two recipes have different learning rates, a measure other than the loss may differ for that reason alone.

We compare most measures other than losses between runs with the same seeds, a choice that we made after seeing the unpaired comparison (an opened card shows both). The same measure of the same baseline therefore has several values on this page, one for each set of seeds.

### Gradients, first block over last

At three steps, we recorded the Frobenius norm of the gradient of all matrices of a block together. Step 100 is within the warm-up.
"""


# %%
def average_ratio(arm, step=-1, on=rung):
    """Average first over last over the runs that report on a rung."""
    return looked[on][arm].measure(partial(first_over_last, step=step)).mean


steps = {"step 1": 0, "step 20": -2, "step 100": -1}
plots.table(
    {"recipe": ARMS[arm], "blocks": ladder.RUNGS[on].depth, "rate": rate(arm, on)}
    | {name: f"{average_ratio(arm, step, on):.2f}" for name, step in steps.items()}
    for on in dict.fromkeys((rung, deep))
    for arm in ARMS
    if arm in looked[on]
)

# %% [markdown]
r"""
At the first step the gradients of the first and the last block are about equal under Pre-Norm and under most recipes related to Post-Norm. In recipes with a norm on attention's write, before the addition, and in LNS and Sub-LN, the first block's gradient is about three to four times the last block's, and in KEEL the ratio is far larger. By step 100 Post-Norm's first block has the smaller gradient. The same is true of B2T and ResiDual: their ratios are a little closer to 1 than Post-Norm's, but their learning rates differ, too (not a tested claim). In KEEL the first block keeps the larger gradient.

Peri-LN's paper reports steadier gradients than those of other layouts. Here, at step 100, Peri-LN's gradients differ more between the first and the last block than Pre-Norm's do:
"""


# %%
def write_factors(arm):
    """Return first over last as a factor either way, of a recipe and of Pre-Norm beside it."""
    other, its = (measure(part, "unevenness").mean for part in stand_beside(arm))
    return {"its": np.exp(its), "other": np.exp(other)}


compare("peri", "unevenness").claim(
    "C-peri-gradients-are-evener",
    "< 0",
    "At step 100, Peri-LN's gradients differ less between the first and the last block than Pre-Norm's do.",
    found="At step 100, the gradients of the first and the last block differ by a factor of {its:.2f} under Peri-LN and of {other:.2f} under Pre-Norm.",
    source="Kim et al. 2025, arXiv 2502.02732; “Layer normalization, an article”, l. 267",
    published="more balanced variance growth and steadier gradients",
    beside={
        **write_factors("peri"),
        "control": describe_looks("peri", "unevenness"),
        "last step": "step 100",
    },
    domain=Domain(
        "models of 400 million parameters and more", "six blocks of width 32", inside=False
    ),
)

# %% [markdown]
r"""
## Norms on what is written

$$\text{Sandwich, Peri-LN:}\quad x \leftarrow x + M(f(N(x))), \qquad\qquad \text{output norm:}\quad x \leftarrow x + N(f(x)).$$

A norm after the sublayer gives each write the size of the norm's gain. From an embedding of RMS 1, $S$ uncorrelated writes of RMS 1 make a stream of RMS $\sqrt{1 + S}$ (exercise 1).

- **Sandwich** was introduced in CogView to prevent overflow in half precision ([Ding et al., 2021](https://arxiv.org/abs/2105.13290)). Our streams do not come near overflow (first card). The card `09-sandwich-earns-its-bytes` compares losses.
- **Peri-LN** ([Kim et al., 2025](https://arxiv.org/abs/2502.02732)) adds a norm on the embedding. According to its paper, it limits two things that grow with depth under Pre-Norm: the stream's variance and, with it, massive activations. Massive activations (entries of at least a hundred times the stream's RMS) are out of range here: a token's largest entry is at most $\sqrt d$ times that token's RMS, and $\sqrt{32} < 6$. (The cards divide by the RMS of all tokens.)
- **OLMo 2** ([Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656)) normalizes the sublayers' writes, which its report calls *reordered norm*, and queries and keys over their whole width. No norm divides the stream itself, so OLMo 2 is not a Post-Norm recipe. Summaries of its report say that neither change alone was enough for stable training.

We compare streams and losses at tuned learning rates:
"""

# %%
peri_loss = "Kim et al. 2025, arXiv 2502.02732"


def find_largest_entry(record):
    """Return the largest entry of the stream, behind any block."""
    sizes = zip(record.probes["activation-extremes"], record.probes["residual-rms"], strict=True)
    return max(ratio * rms for ratio, rms in sizes)


pair = dict(zip(("pre", "peri"), stand_beside("peri"), strict=True))
rms = {arm: np.mean(part.values("residual-rms"), axis=0) for arm, part in pair.items()}
measure(runs["pre"], "largest entry").tuned().claim(
    "C-pre-has-no-massive-activations",
    "> 100",
    "Pre-Norm's stream has massive activations, that is, entries that are at least a hundred times its RMS.",
    found="The largest entry of Pre-Norm's stream is {mean:.1f} times the stream's RMS. The largest absolute value of an entry in the streams of all recipes is {top:.0f}.",
    source=f"{peri_loss}; Sun et al. 2024, arXiv 2402.17762",
    published="in large models up to 100,000 times the median; half precision ends at 65,504",
    beside={"top": max(max(runs[arm].values(find_largest_entry)) for arm in shown.values())},
    domain=Domain(
        "models of 400 million parameters and more, billions of tokens",
        "six blocks of width 32, 1.6 million characters",
        inside=False,
    ),
)

# %%
compare("peri", "growth").claim(
    "C-peri-stream-grows-less",
    "< 0",
    "From the embedding to the last block, Peri-LN's stream grows less than Pre-Norm's does.",
    found="The RMS of Pre-Norm's stream grows from {a:.1f} to {b:.0f}, and that of Peri-LN's stream grows from {c:.1f} to {d:.1f}. Pre-Norm's growth factor is {apart:.1f} {side} Peri-LN's.",
    source=peri_loss,
    beside={
        **dict(zip("abcd", (rms[arm][i] for arm in rms for i in (0, -1)), strict=True)),
        "control": f"{describe_looks('peri', 'growth')}; Sandwich, without the norm on the embedding, also grows less (table)",
    },
)

# %%
beside = stand_beside("sandwich")
compare("sandwich", "growth").claim(
    "C-sandwich-stream-grows-less",
    "< 0",
    "From the embedding to the last block, Sandwich's stream grows less than Pre-Norm's does.",
    found="From the embedding to the last block, Sandwich's stream grows by a factor of {its:.1f}, and Pre-Norm's grows by a factor of {other:.1f}.",
    source="Exploring the Transformer, part 14, l. 259: it controls the variance of a layer's output",
    beside={
        "its": measure(beside[1], "growth"),
        "other": measure(beside[0], "growth"),
        "control": name_rates(*beside),
    },
)

# %%
compare("peri", "largest entry").claim(
    "C-peri-entries-stand-out-less",
    "< 0",
    "Relative to the RMS of the stream, the largest entry is smaller under Peri-LN than under Pre-Norm.",
    found="The largest entry is {peri:.1f} times the stream's RMS under Peri-LN and {pre:.1f} times the stream's RMS under Pre-Norm, a difference of {apart:.1f}.",
    source=peri_loss,
    beside={
        "peri": measure(pair["peri"], "largest entry"),
        "pre": measure(pair["pre"], "largest entry"),
        "control": describe_looks("peri", "largest entry"),
    },
)
race("C-peri-below-pre", peri_loss, published="400M parameters: average score 51.57 against 49.69")

# %%
olmo = "Team OLMo et al. 2024, arXiv 2501.00656"
race("C-qk-norm-mends-the-output-norm", f"{olmo}, said to find output norms alone not enough")
race("C-olmo-2-below-pre", f"{olmo}, which asks for stability, not for a lower loss")

# %% [markdown]
r"""
Sandwich differs from Pre-Norm only in the norms after its sublayers. These roughly halve the growth, at the tuned learning rates and at one common rate (table in [the next section](C_zoo.ipynb#gemmas-two-answers-to-large-logits)). Relative to the stream's RMS, Peri-LN's largest entry is smaller than Pre-Norm's at the tuned rates, but we do not see this at one common rate (the card's control).

Smaller streams do not imply a lower loss: OLMo 2's final stream is smaller than Pre-Norm's, and its loss is higher. In Sandwich and Peri-LN, sublayers read the stream through a norm, which is invariant to the stream's size, whereas with output norms and in OLMo 2 they read it as it is. But with its norms on queries and keys, OLMo 2's loss is lower than that of output norms alone.

## Gemma's two answers to large logits

Gemma 2 ([Gemma Team, 2024](https://arxiv.org/abs/2408.00118)) is Sandwich with gains [written $1 + w$](D_numbers.ipynb#how-a-gain-is-stored) and two soft caps on logits, $\ell \leftarrow c\tanh(\ell/c)$, with $c = 50$ for attention logits and $c = 30$ for output logits. It has *no* QK-Norm. Gemma 3 ([Gemma Team, 2025](https://arxiv.org/abs/2503.19786)) has QK-Norm in place of the cap on attention logits and, as we build it, no cap on output logits either. At tuned rates, the largest attention logit exceeds 50 in many recipes, but in none with norms on queries and keys:
"""


# %%
logits = {arm: measure(runs[arm], "largest logit") for arm in shown.values()}
plots.table(
    {
        "recipe": ARMS[arm],
        "rate": rate(arm),
        "largest logit": f"{of.mean:.0f}",
        "by seed": f"{min(of):.0f} to {max(of):.0f}",
    }
    for arm, of in sorted(logits.items(), key=lambda row: -row[1].mean)
)

# %%
line = torch.linspace(0.01, 1, 100_000, dtype=torch.float64)
bent = 1 - soft_cap(line, 1.0) / line
exact(line[(bent - 0.01).abs().argmin()], tolerance=0.001).claim(
    "C-a-cap-is-a-line-below-a-sixth",
    "in [0.16, 0.18]",
    "A soft cap changes logits below about a sixth of the cap by less than one per cent.",
    found="A soft cap changes a logit by one per cent if the logit is {mean:.3f} times the cap, and by {half:.1%} if the logit is half the cap.",
    source="the cap's definition",
    beside={"half": bent[(line - 0.5).abs().argmin()]},
)

# %%
gemma, large = "Gemma Team 2024, arXiv 2408.00118", 0.4  # nats: 04-soft-cap-helps-too
race("C-gemma-2-caps-cost-nothing", gemma, effect=large)
race("C-gemma-2-below-pre", "this book, a forecast")
race("C-gemma-3-below-gemma-2", "Gemma Team 2025, arXiv 2503.19786, which replaces caps by QK-Norm")
race("C-gemma-3-below-pre", "this book, a forecast")
race("C-gemma-3-below-qk", "this book, a forecast: what do output norms add to QK-Norm?")


# %%
def ratio(ours, theirs):
    """Divide two means; the scatter of both is in the interval (first order, Welch)."""
    base, share = theirs.mean, ours.mean / theirs.mean
    rest = theirs.map(lambda x: -share * (x / base - 1))
    return ours.map(lambda x: -x / base).improvement_over(rest)


if "gemma2" in runs:
    its, other = (measure(runs[arm], "growth").tuned() for arm in ("gemma2", "pre"))
    ratio(its, other).claim(
        "C-gemma-2-stream-grows-less",
        "< 0.5",
        "From the embedding to the last block Gemma 2's stream grows at most half as much as Pre-Norm's.",
        found="From the embedding to the last block, Gemma 2's stream grows by a factor of {its:.1f}, and Pre-Norm's grows by a factor of {other:.1f}. The ratio of the two factors is {mean:.2f}.",
        source="norms on what is written, as in Peri-LN (arXiv 2502.02732)",
        beside={"its": its, "other": other, "control": "at Sandwich's rate (next table)"},
    )

# %% [markdown]
r"""
The verdict that Gemma 3's loss is lower than Gemma 2's would change if one run were left out. We cannot distinguish Gemma 3's loss from QK-Norm's, so we detect no effect of its output norms. Gemma 2's stream grows about half as much as Pre-Norm's. It is undecided whether it grows at most half as much.

Logits and streams depend on the learning rate, so we compare them with and without caps at one rate. Gemma 2 and Sandwich then differ in the caps and a little in $\epsilon$ ($10^{-6}$ in Gemma's norms, $1.2\cdot10^{-7}$ in others).
"""

# %%
PARTNERS = {"gemma2": ("sandwich", 0.01), "pre, soft cap": ("pre", 0.01), "qk, soft cap": ("qk", 0.0133)}  # fmt: skip
watched = replace(ladder.build_base_run(rung, "pre"), probes=(*ladder.LOOKS, "largest-output"))
capped = {
    arm: {"model": ladder.build_base_run(rung, arm).model, "train.lr": lr}
    for arm, (_, lr) in PARTNERS.items()
}
same_rate = lab.run(Experiment(watched, {"arm": capped, "seed": five}))
with_cap = same_rate.by("arm")
without = {  # the partner's report, or its first look if only that had this rate
    arm: climbed.where(arm=partner, rung=rung, stage="final" if rate(partner) == lr else "first")
    for arm, (partner, lr) in PARTNERS.items()
}


# %%
def describe_caps(name, lr, part):
    """Sum up streams, logits and losses of some runs."""
    sizes = np.mean(part.values("residual-rms"), axis=0)
    outputs = [record.probes.get("largest-output") for _, record in part]
    return {
        "recipe": name,
        "rate": lr,
        "embedding (RMS)": f"{sizes[0]:.1f}",
        "last stream (RMS)": f"{sizes[-1]:.1f}",
        "growth": f"{measure(part, 'growth').mean:.1f}",
        "largest attention logit": f"{measure(part, 'largest logit').mean:.0f}",
        "largest output logit": "not recorded" if None in outputs else f"{fmean(outputs):.0f}",
        "test loss": f"{part.measure('test.loss').mean:.4f}",
    }


rows = []
for arm, (partner, lr) in PARTNERS.items():
    rows += [(ARMS[partner], lr, without[arm]), (ARMS[arm], lr, with_cap[arm])]
    rows += [(ARMS[arm], rate(arm), runs[arm])] if arm in runs else []
plots.table([describe_caps(*row) for row in rows])

# %%
forecast = "this book, a forecast"


def at_one_rate(arm, what):
    """Read a measure of a capped recipe and of its partner, at the partner's rate."""
    return [measure(part[arm], what) for part in (with_cap, without)]


its, other = at_one_rate("gemma2", "largest logit")
its.improvement_over(other).claim(
    "C-caps-lower-gemma-2s-logits",
    "> 0",
    "At one rate both caps together lower Gemma 2's largest logit below Sandwich's.",
    found="At the same learning rate, the largest attention logit is {its:.0f} in Gemma 2, before its cap, and {other:.0f} in Sandwich, a difference of {apart:.0f}.",
    source=forecast,
    beside={"its": its, "other": other},
)

# %%
ratio(*at_one_rate("gemma2", "growth")).claim(
    "C-gemma-2-grows-as-sandwich-does",
    "in [0.9, 1.1]",
    "At one rate Gemma 2's stream grows as Sandwich's does, within a tenth.",
    found="At the same learning rate, the factor by which Gemma 2's stream grows is {mean:.2f} times the factor by which Sandwich's stream grows.",
    source=forecast,
    predicted=1.0,
)

# %%
largest = with_cap["gemma2"].measure("largest-output")
largest.claim(
    "C-gemma-2s-output-cap-acts",
    "> 15",
    "At Sandwich's rate some of Gemma 2's output logits pass half of their cap, 15.",
    found="Gemma 2's largest output logit is {mean:.0f} before its cap of 30 and {bent:.0f} after it.",
    source=forecast,
    beside={"bent": soft_cap(torch.tensor(largest.mean), 30.0)},
)

# %%
its, other = at_one_rate("pre, soft cap", "largest logit")
other.improvement_over(its).claim(
    "C-a-cap-lets-logits-grow",
    "> 0",
    "At one rate Pre-Norm's logits grow larger before a soft cap of 50 than without one.",
    found="At the same learning rate, Pre-Norm's largest attention logit is {its:.0f} before a soft cap of 50 and {other:.0f} in models without a cap, a difference of {apart:.0f}.",
    source=forecast,
    beside={"its": its, "other": other},
)

# %%
ratio(*at_one_rate("qk, soft cap", "largest logit")).claim(
    "C-a-cap-leaves-normed-logits",
    "in [0.9, 1.1]",
    "At one rate a soft cap of 50 beside QK-Norm changes the largest logit by less than a tenth.",
    found="At the same learning rate, QK-Norm's largest logit is {mean:.2f} times as large with a cap of 50 as without a cap.",
    source=forecast,
    predicted=1.0,
)

# %%
both = "Rybakov et al. 2024, arXiv 2410.16682"
race("C-soft-cap-ties-at-the-best-rate", "this book, a forecast", effect=large)
race("C-soft-cap-adds-nothing-to-qk-norm", f"against {both}, at high rates", effect=large)
race("C-qk-norm-below-the-soft-cap", "this book, a forecast")

# %% [markdown]
r"""
At one learning rate we detect no effect of caps on the largest attention logit, and Gemma 2's stream grows as Sandwich's does. The cap on output logits does take effect: the largest output logits exceed it before it is applied.

At *ten times* the best rate a cap lowers Pre-Norm's loss, and QK-Norm lowers it more (`04-soft-cap-helps-too`, `04-qk-norm-beats-the-soft-cap`). At tuned rates, the losses with and without a cap are equal within the cards' margins, for Pre-Norm and for QK-Norm, and QK-Norm's loss is lower than that of Pre-Norm with a cap. With QK-Norm a logit is at most $g_q g_k\sqrt{d_k}$, where $g_q$ and $g_k$ are the largest gains, so a cap changes logits much only where gains are large.
[Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682) report that with 830 million parameters QK-Norm and a cap together tolerate a higher rate than QK-Norm alone. Such models are out of range here.

## Logits held, and another instability

“Layer normalization, an article” lists a symptom: attention logits are controlled, but another instability remains. What helps then? At a learning rate of `0.0316`, more than five times its best rate, Post-Norm learns letter-pair frequencies during warm-up, forgets them, and returns to the unigram baseline. At this rate we train Post-Norm with and without norms on queries and keys, and KEEL, another layout ([Post-Norm with help](C_zoo.ipynb#post-norm-with-help)), *without* them.
"""

# %%
looks = ("validation", "test", "attention", "gradient-profile", "residual-rms")
hot = replace(ladder.configure_run(ladder.build_base_run(rung, "post"), HIGH, seed), probes=looks)
layouts = {
    "Post-Norm": {"model.recipe": "post"},
    "Post-Norm with QK-Norm": {"model.recipe": "post", "model.qk_norm": "qk rms"},
    "KEEL": {"model.recipe": "keel"},
}
stressed = lab.run(Experiment(hot, {"arm": layouts, "seed": five}))
of_layout = stressed.by("arm")

# %%
plots.loss_curves(
    {name: part.values(lambda record: record.losses) for name, part in of_layout.items()},
    reference=ladder.references(rung),
    ylim=(1.2, 3.6),
    caption="Training loss against step for three models at a learning rate of 0.0316, at which Post-Norm returns to the unigram baseline. With norms on queries and keys, Post-Norm does not stay at the unigram baseline, but its final loss is higher than that of KEEL, which has no such norms.",
    provenance=lab.provenance(stressed),
).named("logits-held")

# %%
test = {name: part.measure("test.loss") for name, part in of_layout.items()}
top = {name: measure(part, "largest logit") for name, part in of_layout.items()}
top["Post-Norm with QK-Norm"].claim(
    "C-post-logits-are-held",
    "< 50",
    "In those Post-Norm runs norms on queries and keys hold every logit below 50.",
    found="At a learning rate of 0.0316, Post-Norm's largest logit is {mean:.0f} with norms on queries and keys and {bare:,.0f} without them. KEEL's largest logit is {keel:.0f}.",
    source="this book, a forecast",
    beside={"bare": top["Post-Norm"], "keel": top["KEEL"]},
)

# %%
(test["Post-Norm"] - test["Post-Norm with QK-Norm"]).claim(
    "C-qk-norm-takes-post-off-its-plateau",
    "> 0",
    "At a learning rate of 0.0316, norms on queries and keys lower Post-Norm's test loss.",
    found="At a learning rate of 0.0316, Post-Norm's test loss is {mean:.2f} nats higher than that of the same model with QK-Norm.",
    source="seen in the runs of the next two cards, which were preregistered for another question",
)

# %%
searched = {arm: searches.where(arm=arm).measure("validation.loss") for arm in ("keel", "post")}
(test["Post-Norm with QK-Norm"] - test["KEEL"]).after(searched["keel"]).claim(
    "C-qk-norm-does-not-mend-post",
    "> 0.3",
    "At rate 0.0316 Post-Norm with norms on queries and keys ends at least 0.3 nats above KEEL, another layout.",
    found="At a learning rate of 0.0316, the test loss of Post-Norm with QK-Norm is {mean:.2f} nats higher than KEEL's.",
    source="this book, a forecast; on the general point: Rybakov et al. 2024, arXiv 2410.16682",
    beside={"control": "the same layout without QK-Norm"},
)
apart = test["Post-Norm"] - test["KEEL"]
seen = searched["post"].records  # the runs repeat some of chapter 02
replace(apart, records=apart.records + seen).claim(
    "C-keel-mends-post-at-a-high-rate",
    "> 0.3",
    "At rate 0.0316 Post-Norm ends at least 0.3 nats above KEEL.",
    found="At a learning rate of 0.0316, Post-Norm's test loss is {mean:.2f} nats higher than KEEL's.",
    source="arXiv 2601.19895: KEEL tolerates far higher rates than Post-Norm",
)


# %%
def find_evenness(record):
    """Average the entropy of the first three blocks' attention, as a share of an even one's."""
    return fmean(record.probes["attention"]["entropy"][:3])


even = {name: part.measure(find_evenness) for name, part in of_layout.items()}
even["Post-Norm with QK-Norm"].claim(
    "C-early-attention-stays-even",
    "> 0.9",
    "At a learning rate of 0.0316, the early blocks of Post-Norm with QK-Norm spread their attention almost evenly.",
    found="In the first three blocks, the entropy of attention divided by that of uniform attention is {mean:.2f} in Post-Norm with QK-Norm, {bare:.2f} in Post-Norm without QK-Norm and {keel:.2f} in KEEL.",
    source="this book, seen in the runs of the preceding cards",
    beside={"bare": even["Post-Norm"], "keel": even["KEEL"]},
)

# %% [markdown]
r"""
A second, weaker case is Pre-Norm with QK-Norm at a learning rate of `0.1`, ten times the best rate of a coarse grid.
"""

# %%
of_04 = ("attention-by-steps", "attention-maps")
tenfold = replace(
    ladder.configure_run(ladder.build_base_run(rung, "qk"), 0.1, 0),
    probes=("validation", "test", "attention", *of_04, "residual-rms"),
)
warm = lab.run(Experiment(tenfold, {"seed": [*ladder.SEEDS]}))
calm = climbed.where(rung=rung, stage="first", arm="qk").measure("test.loss")
top = warm.values(MEASURES["largest logit"])
(warm.measure("test.loss") - calm).claim(
    "C-another-instability-remains",
    "> 0",
    "QK-Norm has a higher test loss at a learning rate of 0.1 than at 0.01.",
    found="At a learning rate of 0.1, QK-Norm's test loss is {mean:.3f} nats higher than at 0.01. At 0.1, the largest attention logits of the runs are between {least:.0f} and {top:.0f}.",
    source="“Layer normalization, an article”: logits controlled, another instability; arXiv 2410.16682",
    beside={"least": min(top), "top": max(top)},
)

# %% [markdown]
r"""
In the first case, norms on queries and keys remove part of Post-Norm's excess loss over KEEL, but not all of it. (Whether at least 0.3 nats remain is undecided.) With these norms, logits are small and early blocks attend almost evenly. So small logits alone do not remove the rest. KEEL, with larger logits, does not fail at this rate. But the rate is nearer to KEEL's best rate than to Post-Norm's, so we cannot say whether KEEL solves the same problem.

In the second case the logits exceed 50, so they are not controlled, and this case does not show the symptom.

## Against idle late blocks

$$\text{LNS:}\quad x \leftarrow x + f\big(N(x)/\sqrt\ell\big), \qquad\qquad \text{ResiDual:}\quad x \leftarrow N(x + f(x)),\;\; r \leftarrow r + f(x),\;\; \text{output reads } x + N(r).$$

Mix-LN makes the first quarter of the blocks Post-Norm (of six blocks, only the first) and the rest Pre-Norm. All three recipes address the same problem: the deeper a Pre-Norm block, the larger the stream relative to the block's write, until late blocks can be removed with little effect
([Li et al., 2025](https://arxiv.org/abs/2412.13795); [Sun et al., 2025](https://arxiv.org/abs/2502.05795); [Xie et al., 2023](https://arxiv.org/abs/2304.14802)). We removed the blocks of trained models one at a time. Removing late Pre-Norm blocks costs less than removing late Post-Norm blocks (`02-late-pre-blocks-are-cheaper-to-remove`), yet none is idle:
"""

# %%
SPARED = [arm for arm in ("pre", "post", "mix-ln", "lns", "pre, normal") if arm in runs]
places = ["embedding", *(f"block {i}" for i in range(1, ladder.RUNGS[rung].depth + 1))]


def describe_worth(arm):
    """Write how much the loss rises without each block, with 95 % intervals."""
    row = {"rise of the loss (nats) without": ARMS[arm]}
    by_block = zip(*runs[arm].values("removal-cost"), strict=True)
    for place, costs in zip(places[1:], by_block, strict=True):
        low, high = t_interval(costs)
        row[place] = f"{fmean(costs):.2f} ± {(high - low) / 2:.2f}"
    return row


plots.table([describe_worth(arm) for arm in SPARED])

# %%
sun, li = "Sun et al. 2025, arXiv 2502.05795", "Li et al. 2025, arXiv 2412.13795"
half = len(look("pre", "removal-cost")) // 2
for arm, source, theirs in (("lns", sun, "130 million to 7 billion"), ("mix-ln", li, "71 million to 7 billion")):  # fmt: skip
    compare(arm, "late share").claim(
        f"C-{arm}-wakes-late-blocks",
        "> 0",
        f"When blocks are removed one at a time, late blocks account for a larger share of the total rise in loss under {ARMS[arm]} than under Pre-Norm.",
        found="When blocks are removed one at a time, late blocks account for {its:.0%} of the total rise in loss under {recipe} and for {other:.0%} under Pre-Norm. On average, removing one late block raises the loss by {nats:.2f} nats under {recipe} and by {pre:.2f} nats under Pre-Norm.",
        source=source,
        beside={
            "recipe": ARMS[arm],
            "nats": np.mean(look(arm, "removal-cost")[half:]),
            "pre": np.mean(look("pre", "removal-cost")[half:]),
            "its": measure(runs[arm], "late share"),
            "other": measure(runs["pre"], "late share"),
        },
        domain=Domain(
            f"twelve blocks and more, {theirs} parameters", "six blocks of width 32", inside=False
        ),
    )


# %%
compare("mix-ln", "unevenness").claim(
    "C-mix-ln-evens-the-gradients",
    "< 0",
    "At step 100, Mix-LN's gradients differ less between the first and the last block than Pre-Norm's do.",
    found="At step 100, the gradients of the first and the last block differ by a factor of {its:.2f} under Mix-LN and of {other:.2f} under Pre-Norm.",
    source=f"{li}, abstract: more uniform gradients across layers",
    beside={
        **write_factors("mix-ln"),
        "second value": "step 20, where both are nearly even",
        "control": describe_looks("mix-ln", "unevenness"),
    },
)

# %%
grown = compare("lns", "growth", "pre, normal")
same, (other, its) = name_rates(runs["lns"], runs["pre, normal"]), stand_beside("lns")
compare("lns", "growth").claim(
    "C-lns-stream-grows-less",
    "< 0",
    "From the embedding to the last block, LNS' stream grows less than Pre-Norm's does.",
    found="From the embedding to the last block, LNS' stream grows by a factor of {its:.1f}, and Pre-Norm's grows by a factor of {other:.1f}. After the last block, the variance of LNS' stream is {share:.2f} times that of Pre-Norm's stream.",
    source=sun,
    published="130M parameters: a variance of about 25 in place of 175",
    beside={
        "its": measure(its, "growth"),
        "other": measure(other, "growth"),
        "share": (look("lns", "residual-rms")[-1] / look("pre", "residual-rms")[-1]) ** 2,
        "control": f"against Pre-Norm with LNS' initial weights, {same}: {grown:+.1f}",
    },
)
race("C-lns-below-its-weights", "this book, a forecast")
race("C-mix-ln-below-pre", li, published="71M parameters: perplexity 33.12 against 34.77")
xie = "Xie et al. 2023, arXiv 2304.14802"
race("C-resi-dual-below-pre", xie)
race("C-resi-dual-below-post", xie)

# %%
plots.table(
    {"variance of the stream": ARMS[arm]}
    | {place: f"{rms**2:.0f}" for place, rms in zip(places, look(arm, "residual-rms"), strict=True)}
    for arm in SPARED
    if arm not in ("post", "mix-ln")
)

# %% [markdown]
r"""
**LNS** has a lower loss than Pre-Norm (`10-lns-ahead-of-pre`), but its late blocks matter *less*, both as a share and in nats. Its paper also initializes output matrices without shrinking them, so we also trained Pre-Norm from LNS' initial weights. In that model the late blocks still matter, and the loss is higher than that of LNS (card). So neither effect comes from the weights alone. LNS' final stream is smaller than Pre-Norm's. It is far smaller, as in the paper, than that of Pre-Norm from LNS' weights.

**Mix-LN**'s late blocks have a share that we cannot distinguish from Pre-Norm's, and we detect no lower loss. At tuned rates its gradients are more even, as its paper says, but we do not see this at one common rate (the card's control). Both papers are about models of twelve or more blocks.

The abstract of the LNS paper says that Pre-Norm's variance grows exponentially. The bounds that the paper derives from its equation 6, $\sigma_\ell^2 = \sigma_1^2\prod_{k<\ell}(1 + 1/\sigma_k)$, say less: the variance grows at least as $L$ and at most as $e^L$. We iterate this recursion from $\sigma_1 = 1$:
"""

# %%
product, sigmas = 1.0, [1.0]
for _ in range(1_000_000 - 1):
    product *= 1 + 1 / sigmas[-1]
    sigmas.append(product**0.5)
exact(sigmas[-1] ** 2 / len(sigmas) ** 2, tolerance=0.001).claim(
    "C-lns-recursion-is-a-square",
    "in [0.24, 0.26]",
    "By the recursion in the LNS paper, the variance of Pre-Norm's stream grows as a quarter of the square of the depth.",
    found="The LNS paper's recursion gives Pre-Norm's stream a variance of {k:.3f} L² after L = 1,000 blocks and of {mean:.4f} L² after a million blocks.",
    source="against “exponentially” in the abstract of Sun et al. 2025, arXiv 2502.05795; equation 6",
    beside={"k": sigmas[999] ** 2 / 1000**2},
)

# %% [markdown]
r"""
This growth is not exponential.

**ResiDual**'s loss is lower than Post-Norm's and not distinguishable from Pre-Norm's (cards above). The argument for ResiDual is about depth. So we leave out the last block of shallow and of deep untrained models, and measure how far the vector before the output matrix moves, relative to its length:
"""


# %% tags=["mechanism"]
@torch.no_grad()
def last_block_counts(name, depth, seed):
    """Share by which the final vector moves when the last block is left out, at first weights."""
    torch.manual_seed(seed)
    config = ModelConfig(recipe=name, norm="layer", dim=32, context=32, depth=depth, init="xavier")
    model, tokens = config.build(), torch.randint(96, (8, 32))
    whole = final_stream(model, tokens)
    model.blocks = model.blocks[:-1]
    return ((final_stream(model, tokens) - whole).norm() / whole.norm()).item()


# %%
def power(name):
    """Fit share ~ depth^p between two depths, seed by seed."""
    low, high = ([last_block_counts(name, depth, s) for s in draws] for depth in sizes.ends)
    return computed(np.log(np.divide(high, low)) / np.log(sizes.ends[1] / sizes.ends[0]))


# %%
power("resi-dual").claim(
    "C-resi-dual-keeps-its-last-block",
    "in [-0.25, 0.25]",
    "At initialization, the effect of ResiDual's last block on the final vector does not shrink as the depth increases from 6 to 48 blocks.",
    found="The effect of the last of L blocks on the final vector scales as L to the power {mean:.2f} in ResiDual. The power is {pre:.2f} in Pre-Norm and {post:.2f} in Post-Norm.",
    source=xie,
    beside={"pre": power("pre"), "post": power("post")},
    predicted=0.0,
)

# %% [markdown]
r"""
## Post-Norm with help

$$\text{Admin: } N(\omega\odot x + f(x)), \quad \text{B2T: } N(e + x + f(x)), \quad \text{KEEL: } M(\alpha x + f(N(x))), \quad \text{RealFormer: } N(x + f(x)).$$

Post-Norm's identity path is multiplied by $1/\sqrt2$ at each sublayer that writes as much as it reads. Three recipes make the skip heavier. **Admin** ([Liu et al., 2020](https://arxiv.org/abs/2004.08249)) multiplies the skip by $\omega$, which is set once from a forward pass and then learned;
[Placements](placements.md) shows that Admin begins as Pre-Norm does. **B2T** ([Takase et al., 2023](https://arxiv.org/abs/2206.00330)) adds the block's input $e$ once more before its last norm. **KEEL** ([Chen and Wei, 2026](https://arxiv.org/abs/2601.19895)) multiplies the skip by
$\alpha = S$, the number of sublayers, and has a norm inside the branch. Its first attention sublayer is Pre-Norm, and its first feed-forward sublayer has $\alpha = 1$. **RealFormer** ([He et al., 2021](https://arxiv.org/abs/2012.11747)) keeps Post-Norm's equation and adds each block's attention logits to those of the next block.

At a learning rate of `0.0316` ([the table](C_zoo.ipynb#the-table), one seed each) Post-Norm, DeepNorm and RealFormer have the loss of the unigram baseline. KEEL and B2T reach a lower loss than trigram counts; ResiDual and Admin do not. The cards compare losses at tuned rates. (In the published results, BLEU is a score for translations, and WMT is a set of translation tasks.)
"""

# %%
race(
    "C-admin-below-post",
    "Liu et al. 2020, arXiv 2004.08249",
    published="WMT14, 18 + 18 layers: 29.03 BLEU, Post-Norm diverges",
)
race(
    "C-b2t-below-post",
    "Takase et al. 2023, arXiv 2206.00330",
    published="WMT, 18 + 18 layers: 27.30 BLEU, Post-Norm fails",
)
race(
    "C-keel-below-pre",
    "Chen and Wei 2026, arXiv 2601.19895",
    domain=Domain("64 layers and more, of width 1,024", "six blocks of width 32", inside=False),
)

# %%
print(
    "Test loss of Post-Norm from Xavier's rule minus DeepNorm's, at tuned learning rates: "
    f"{ladder.improvement(climbed, 'deepnorm', 'post, xavier')[rung]:+z.4f}"
)
plots.table(
    {"largest logit": ARMS[arm]}
    | {
        place: f"{x:.0f}"
        for place, x in zip(places[1:], look(arm, "attention.largest"), strict=True)
    }
    for arm in ("realformer", "post", "pre", "output")
)

# %% [markdown]
r"""
B2T's loss is lower than Post-Norm's, and Admin's is not distinguishable from it. The losses of RealFormer (`10-realformer-ends-below-post`) and DeepNorm ([table](C_zoo.ipynb#the-table)) are higher than Post-Norm's. But DeepNorm starts from Xavier's rule, and our Post-Norm does not. If both do, Post-Norm's loss is higher (printed above). RealFormer's largest logit grows from block to block. But so do those of Pre-Norm and of output norms, and neither recipe sums logits.

Admin, B2T and KEEL are made for depths at which Post-Norm fails outright. At six blocks and its tuned rate Post-Norm does not fail, so their main promise is out of range.

### DeepNorm's four constants

DeepNorm is $x \leftarrow N(\alpha x + f(x))$, with the weights of values, outputs and feed-forward layers drawn $\beta$ times as large ([Wang et al., 2024](https://arxiv.org/abs/2203.00555)). The published model of 1,000 layers is for translation, so it has an encoder of $N$ layers and a decoder of $M$. A decoder layer has *three* sublayers; the third
reads the encoder. With $3M$ sublayers in place of $2N$, [step 4](05_deepnorm.ipynb#step-4-the-condition-and-a-choice) of chapter 05, which derives both constants for one stack, gives for the decoder $3M\cdot2\beta_d^2/\alpha_d^2 = 1$: $\alpha_d = (3M)^{1/4}$, $\beta_d = (12M)^{-1/4}$. A change in the encoder's output enters the decoder through its $M$ third
sublayers, each a branch of size $vw = \beta_d^2$ (values times outputs) that the norm divides by $\alpha_d$. Together these sublayers multiply a change by $M\beta_d^2/\alpha_d = M^{1/4}/(\sqrt{12}\,3^{1/4})$, and the encoder's sum, multiplied by this factor, must be 1:

$$2N\cdot\frac{2\beta_e^2}{\alpha_e^2}\cdot\frac{M^{1/4}}{\sqrt{12}\,3^{1/4}} = 1.$$

All other pairs of constants have the product $\alpha\beta = 1/\sqrt2$. With the same product, $\beta_e = 1/(\sqrt2\,\alpha_e)$, and the equation becomes $\alpha_e^4 = 0.439\,NM^{1/4}$. So

$$\alpha_e = 0.81\,(N^4M)^{1/16}, \qquad \beta_e = 0.87\,(N^4M)^{-1/16}.$$
"""

# %%
ratio = (4 / (12**0.5 * 3**0.25)) ** 0.5  # of the two numbers in front, α's over β's
front = (ratio / 2**0.5) ** 0.5, (1 / (ratio * 2**0.5)) ** 0.5
exact(max(abs(front[0] - 0.81), abs(front[1] - 0.87)), tolerance=0.001).claim(
    "C-encoder-constants-follow",
    "< 0.005",
    "The published constants of DeepNorm's encoder follow from the derivation for one stack, applied to an encoder and a decoder.",
    found="For DeepNorm's encoder, we derive the factors {alpha:.4f} and {beta:.4f}, which differ from the published ones by at most {mean:.4f}.",
    source="Wang et al. 2024, arXiv 2203.00555, the table beside Figure 2",
    published="0.81 (N⁴M)^(1/16) and 0.87 (N⁴M)^(−1/16)",
    beside={"alpha": front[0], "beta": front[1]},
)
exact(
    sum(Place(stack=stack, encoder=500, decoder=500).sublayers for stack in ("encoder", "decoder"))
).claim(
    "C-thousand-layers-are-2500-sublayers",
    "in [2500, 2500]",
    "A thousand layers, half in an encoder and half in a decoder, have 2,500 sublayers.",
    found="An encoder and a decoder of 500 blocks each have {mean:,.0f} sublayers.",
    source="Wang et al. 2024, arXiv 2203.00555, abstract",
    published="1,000 layers, 2,500 sublayers",
)

# %% [markdown]
r"""
So this model has four constants, and $(2\cdot1000)^{1/4}$ is not one of them. One step of the derivation is not exact: the encoder's *gradient* returns through the same $M$ sublayers, so by step 3 of chapter 05 the sum should contain the square of the factor $0.219\,M^{1/4}$. The factor is 1 at $M = 432$. For a smaller $M$ the published constants are more cautious than the condition demands, and for a larger $M$ they are a little bolder.

## Norms inside the branch

**NormFormer** ([Shleifer et al., 2021](https://arxiv.org/abs/2110.09456)) adds a norm after attention, one before the last matrix of the feed-forward layer, a gain for each head and, in small models, a factor $\lambda$ on the skip. Its paper finds that under Pre-Norm early layers get larger gradients than late ones.
**Sub-LN** ([Wang et al., 2022](https://arxiv.org/abs/2210.06423)) has a norm before the last matrix of both sublayers, and initial weights proportional to $\sqrt{\ln 2N}$ for $N$ blocks.
"""

# %%
shleifer = "Shleifer et al. 2021, arXiv 2110.09456"
measure(runs["pre"], "first/last").tuned().claim(
    "C-pre-gradients-lean-to-the-first",
    "> 1",
    "At step 100, the gradient of Pre-Norm's first block is larger than that of its last block.",
    found="At step 100, the gradient of Pre-Norm's first block is {mean:.2f} times that of its last block. The factor is {start:.2f} at step 1 and {later:.2f} at step 20.",
    source=shleifer,
    beside={
        "start": average_ratio("pre", 0),
        "later": average_ratio("pre", -2),
        "second value": "step 20, where the last block's gradient is larger; models of twelve blocks behave like those of six",
    },
)

# %%
if "normformer" in runs:
    compare("normformer", "unevenness").claim(
        "C-normformer-evens-the-gradients",
        "< 0",
        "At step 100 NormFormer's gradients differ less between first and last block than Pre-Norm's.",
        found="At step 100, the gradients of the first and the last block differ by a factor of {its:.2f} under NormFormer and of {other:.2f} under Pre-Norm.",
        source=shleifer,
        beside=write_factors("normformer"),
    )

# %%
race(
    "C-normformer-below-pre", shleifer, published="125M parameters: perplexity 20.11 against 21.09"
)
race("C-sub-ln-below-pre", "Wang et al. 2022, arXiv 2210.06423")

# %% [markdown]
r"""
Under Pre-Norm the first block gets the larger gradient only after step 20. Under NormFormer it gets the larger gradient from the start, as in other recipes with a norm on attention's write ([gradients](C_zoo.ipynb#gradients-first-block-over-last)). Our measure may differ from the paper's. Sub-LN's loss is higher than Pre-Norm's, and NormFormer's is not distinguishable from it. We did not test whether uneven gradients do any harm under Adam.

## First blocks

HybridNorm ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)) normalizes queries, keys and values in place of attention's input, so its first block reads embeddings as they are. The paper tries a Pre-Norm first block (HybridNorm\*), a QKV-Pre first block (First-QKV-Pre), and a norm on the embedding (EmbedNorm). In the paper the first two help, and EmbedNorm does not. We can distinguish neither First-QKV-Pre nor EmbedNorm from HybridNorm. Our embeddings start with RMS 1, so there may be little to repair. Chapter 06 tries small embeddings.
"""

# %%
zhuo = "Zhuo et al. 2025, arXiv 2503.04598, Figure 4"
race("C-first-qkv-pre-below-hybrid", zhuo)
race("C-embed-norm-below-hybrid", f"against {zhuo}, where it does not help")

# %% [markdown]
r"""
## Xiong's lemma and theorem

[Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) study untrained stacks with one head, ReLU and normally distributed inputs. All matrices are $d\times d$ and drawn from $\mathcal N(0, 1/d)$, except that queries and keys are zero, so attention is a plain mean.

- **Lemma 2.** The sum before the last norm of a Post-Norm block has $\mathbb E\|x\|^2 = \tfrac32 d$. After $l$ Pre-Norm blocks $(1 + \tfrac l2)\,d \le \mathbb E\|x_l\|^2 \le (1 + \tfrac{3l}2)\,d$.
- **Theorem 1.** For $L$ blocks, the gradient of the last feed-forward matrix is at most of the order of $d\sqrt{\ln d}$ under Post-Norm and of $d\sqrt{\ln d/L}$ under Pre-Norm.

Of $\tfrac32 d$, the output of the norm contributes $d$, and the branch contributes $\tfrac12 d$, since ReLU lets half of the squares through. The theorem gives upper bounds only. Do gradients *follow* them?
"""


# %% tags=["mechanism"]
class Mean(nn.Module):
    """Attention whose queries and keys are zero: every token gets the mean of the values."""

    def __init__(self, dim):
        super().__init__()
        self.value = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        return self.value(x).mean(-2, keepdim=True).expand_as(x)


def stack(step, depth, dim):
    """Build blocks as in the proofs."""
    layers = []
    for _ in range(depth):
        layers += [step(lambda: LayerNorm(dim), Mean(dim))]
        layers += [step(lambda: LayerNorm(dim), FeedForward(dim, dim, "relu"))]
    for linear in (m for layer in layers for m in layer.modules() if isinstance(m, nn.Linear)):
        nn.init.xavier_normal_(linear.weight)
    return layers


# %% tags=["mechanism"]
@torch.no_grad()
def squares(step, seed, depth=12, dim=128):
    """‖x‖²/d for each block: of Pre-Norm's stream, of the sum before Post-Norm's last norm."""
    torch.manual_seed(seed)
    x, seen = torch.randn(16, dim), []
    for layer in stack(step, depth, dim):
        seen.append(layer(x) if step is PreNorm else x + layer.sublayer(x))
        x = layer(x)
    return [total.square().mean().item() for total in seen[1::2]]


def last_gradient(step, depth, seed, dim=64):
    """Frobenius norm of the gradient of the last feed-forward matrix, at first weights."""
    torch.manual_seed(seed)
    x, layers = torch.randn(16, dim), stack(step, depth, dim)
    for layer in layers:
        x = layer(x)
    x = LayerNorm(dim)(x) if step is PreNorm else x
    loss = F.cross_entropy(x @ torch.randn(dim, dim) / dim**0.5, torch.randint(dim, (16,)))
    return torch.autograd.grad(loss, layers[-1].sublayer.down.weight)[0].norm().item()


# %%
steps = {"Post-Norm": PostNorm, "Pre-Norm": PreNorm}
summed = {name: [squares(step, s) for s in draws] for name, step in steps.items()}
gradients = {
    name: {depth: [last_gradient(step, depth, s) for s in draws] for depth in sizes.depths}
    for name, step in steps.items()
}
plots.curves(
    gradients,
    xlabel="blocks",
    ylabel="gradient of the last feed-forward matrix",
    logx=True,
    logy=True,
    caption="Gradient of the last feed-forward matrix against the number of blocks, in untrained stacks built as in the proofs of Xiong et al. Post-Norm's gradient rises slightly with depth, and Pre-Norm's gradient falls as one over the square root of the depth.",
    provenance=lab.provenance(),
).named("xiong-lemma")

# %%
slopes = {
    name: np.polyfit(np.log([*of]), np.log([*of.values()]), 1)[0] for name, of in gradients.items()
}
xiong = "Xiong et al. 2020, arXiv 2002.04745"
computed(np.mean(summed["Post-Norm"], axis=1)).claim(
    "C-xiong-lemma-post",
    "in [1.4, 1.6]",
    "At initialization, the sum before the last norm of a Post-Norm block has a mean squared length of 3/2 d, where d is the width.",
    found="Averaged over twelve blocks, the mean squared length of the sum before the last norm of a Post-Norm block is {mean:.3f} d, where d is the width.",
    source=f"{xiong}, Lemma 2",
    predicted=1.5,
)
computed([(of[-1] - 1) / len(of) for of in summed["Pre-Norm"]]).claim(
    "C-xiong-lemma-pre",
    "in [0.5, 1.5]",
    "At initialization, the squared length of Pre-Norm's stream grows on average by d/2 to 3/2 d per block, where d is the width.",
    found="Over twelve blocks, the squared length of Pre-Norm's stream grows by {mean:.2f} d per block, where d is the width.",
    source=f"{xiong}, Lemma 2",
    predicted=1.0,
)

# %%
computed(slopes["Post-Norm"]).claim(
    "C-xiong-theorem-post",
    "in [-0.1, 0.1]",
    "At initialization, the gradient of Post-Norm's last feed-forward matrix hardly changes with the depth, from 2 to 32 blocks.",
    found="From {shallow} to {deep} blocks, the gradient of Post-Norm's last feed-forward matrix scales as the depth to the power {mean:.2f}.",
    source=f"{xiong}, Theorem 1, whose bound is constant in L",
    beside={"shallow": sizes.depths[0], "deep": sizes.depths[-1]},
    predicted=0.0,
)
computed(slopes["Pre-Norm"]).claim(
    "C-xiong-theorem-pre",
    "in [-0.6, -0.4]",
    "At initialization, the gradient of Pre-Norm's last feed-forward matrix falls as one over the square root of the depth.",
    found="From {shallow} to {deep} blocks, the gradient of Pre-Norm's last feed-forward matrix scales as the depth to the power {mean:.2f}.",
    source=f"{xiong}, Theorem 1, whose bound falls like L^(−1/2)",
    beside={"shallow": sizes.depths[0], "deep": sizes.depths[-1]},
    predicted=-0.5,
)

# %% [markdown]
r"""
The gradients follow the bounds, except for a small rise under Post-Norm. But the bounds are for one matrix at initialization, and they do not say why Post-Norm needs warm-up ([Suspect 3](02_pre_and_post_norm.ipynb#suspect-3-large-gradients-in-the-last-layer)).

## A uniform offset

Each of four channels contains a $1$, and every sublayer writes $0.5$ into each of them. LayerNorm subtracts the mean, so Post-Norm gives $N(1.5\cdot\mathbf 1) = \mathbf 0$, then $N(0.5\cdot\mathbf 1) = \mathbf 0$. Pre-Norm adds the writes up: $1.5$, then $2$. According to “Layer normalization, an article”, Post-Norm therefore resets the offset, whereas Pre-Norm's running sum keeps it. We add a final norm, and also try RMSNorm:
"""


# %%
class Write(nn.Module):
    """A sublayer that writes one number into every channel, whatever it reads."""

    def forward(self, x):
        return torch.full_like(x, 0.5)


def trace(step, norm):
    """Give one channel at the start, behind two blocks of one sublayer, and behind a final norm."""
    xs = [torch.ones(1, 4, dtype=torch.float64)]
    for _ in range(2):
        xs.append(step(lambda: norm(4, eps=1e-12).double(), Write())(xs[-1]))
    xs.append(norm(4, eps=1e-12).double()(xs[-1]))
    return [x[0, 0].item() for x in xs]


kinds = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}
traced = {(s, n): trace(steps[s], kinds[n]) for s in steps for n in kinds}
places = ("start", "block 1", "block 2", "after a final norm")
plots.table(
    [{"layout": f"{s}, {n}", **dict(zip(places, xs, strict=True))} for (s, n), xs in traced.items()]
)

# %%
by_hand = {"Post-Norm": [1, 0, 0, 0], "Pre-Norm": [1, 1.5, 2, 0]}
off = [abs(a - b) for s in steps for a, b in zip(traced[s, "LayerNorm"], by_hand[s], strict=True)]
exact(max(off), tolerance=1e-6).claim(
    "C-uniform-offset-by-hand",
    "< 1e-6",
    "With LayerNorm, Post-Norm resets a uniform offset in every block. In Pre-Norm's stream the offsets add up until the final norm removes them.",
    found="With LayerNorm, the computed offsets differ from those worked out by hand by at most {mean:.0e}.",
    source="“Layer normalization, an article”, continued to the final norm",
)


# %%
@torch.no_grad()
def hear_offset(norm):
    """Largest change of a logit when 0.5 is added to every channel of every embedding."""
    outputs = []
    for offset in (0.0, 0.5):
        torch.manual_seed(seed)
        model = Perturbed(recipe="pre", norm=norm, dim=32, context=32, embedding_offset=offset)
        outputs.append(model.build().double()(torch.arange(32)[None]))
    return (outputs[1] - outputs[0]).abs().max().item()


exact(hear_offset("layer"), tolerance=1e-9).claim(
    "C-nobody-reads-a-uniform-offset",
    "< 1e-9",
    "With LayerNorm, a uniform offset that is preserved in Pre-Norm's stream reaches no branch and no logit.",
    found="Adding an offset of 0.5 to every channel changes Pre-Norm's logits by at most {mean:.0e} with LayerNorm, and by up to {rms:.1g} with RMSNorm.",
    source="algebra: every reader of the stream removes its mean",
    beside={"rms": hear_offset("rms")},
)

# %% [markdown]
r"""
With LayerNorm, Pre-Norm's stream carries the offset and no part of the model can read it. With RMSNorm, Post-Norm resets the offset to 1 instead of 0, and Pre-Norm's branches depend on the offset.

## The article's own examples

“Layer normalization, an article” illustrates its blocks with small examples: one fixed update, two factors multiplied over twelve blocks, and untrained stacks of six feed-forward blocks. We recompute all its numbers. We also check a block's Jacobian against autograd's. With $J_N$ and $J_F$ for the Jacobians of norm and branch, the article and *Transformer Anatomy* write it as $J_N(I + J_F)$ for a norm after the addition and as $I + J_F J_N$ for a norm before the branch.
"""


# %%
class Switched(nn.Module):
    """A feed-forward block with its norm before the branch or behind the addition."""

    def __init__(self, dim, norm_first):
        super().__init__()
        self.norm_first, self.norm = norm_first, nn.LayerNorm(dim)
        self.branch = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        """Return the block's output."""
        return x + self.branch(self.norm(x)) if self.norm_first else self.norm(x + self.branch(x))


def measure_stack(norm_first, depth, dim=64):
    """A first loss, and the gradient's norm of each block's first matrix."""
    torch.manual_seed(0)
    blocks = nn.Sequential(*(Switched(dim, norm_first) for _ in range(depth)))
    end = nn.Sequential(nn.LayerNorm(dim) if norm_first else nn.Identity(), nn.Linear(dim, 16))
    x, target = torch.randn(2, 8, dim), torch.randn(2, 8, 16)
    loss = F.mse_loss(end(blocks(x)), target)
    loss.backward()
    return [loss.item(), *(block.branch[0].weight.grad.norm().item() for block in blocks)]


# %%
start, update = torch.tensor([1.0, 2, 4, 8]), torch.tensor([0.5, -0.5, 1, -1])
post, pre = 0.75 * (1 + 0.1), 1 + 0.1 * 0.75
ours = [
    (start + update).mean().item(), *F.layer_norm(start + update, (4,)).tolist(),
    post, pre, post**12, pre**12, *measure_stack(True, 6), *measure_stack(False, 6),
]  # fmt: skip
theirs = [
    3.75, -0.954, -0.954, 0.53, 1.378, 0.825, 1.075, 0.099, 2.382,
    1.3247, 0.2664, 0.2565, 0.2494, 0.2392, 0.2472, 0.2415,
    1.3183, 0.2663, 0.2614, 0.2619, 0.2555, 0.2684, 0.2698,
]  # fmt: skip
twelve = {first: measure_stack(first, 12)[1:] for first in (True, False)}
exact(max(abs(a - b) for a, b in zip(ours, theirs, strict=True)), tolerance=0.0005).claim(
    "C-printed-examples-hold",
    "< 0.0006",
    "The numbers printed in “Layer normalization, an article” follow from its definitions of a Pre-Norm block and a Post-Norm block.",
    found="Computed again, the {count} numbers of the examples in “Layer normalization, an article” differ from the printed ones by at most {mean:.4f}. With twelve untrained blocks, the gradient of the last block's first matrix is {pre:.2f} times as large as the first block's under Pre-Norm and {post:.2f} times as large under Post-Norm.",
    source="“Layer normalization, an article”, l. 110–127, 161–175 and 268–324",
    beside={
        "count": len(theirs),
        "pre": twelve[True][-1] / twelve[True][0],
        "post": twelve[False][-1] / twelve[False][0],
    },
)

# %%
torch.manual_seed(seed)
norm, branch = nn.LayerNorm(8).double(), nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)).double()  # fmt: skip
token, same = torch.randn(8).double(), torch.eye(8).double()
slope = torch.autograd.functional.jacobian
written = {
    "post": slope(norm, token + branch(token)) @ (same + slope(branch, token)),
    "pre": same + slope(branch, norm(token)) @ slope(norm, token),
}
found = {"post": slope(lambda x: norm(x + branch(x)), token), "pre": slope(lambda x: x + branch(norm(x)), token)}  # fmt: skip
exact(max((written[name] - found[name]).abs().max() for name in written), tolerance=1e-12).claim(
    "C-block-jacobians",
    "< 1e-12",
    "If J_N is the Jacobian of a block's norm and J_F that of its branch, the block's Jacobian is J_N (I + J_F) with the norm after the addition, and I + J_F J_N with the norm before the branch.",
    found="The two printed Jacobians of a block, J_N (I + J_F) with the norm after the addition and I + J_F J_N with the norm before the branch, differ from autograd's by at most {mean:.0e}.",
    source="Transformer Anatomy, part 7, l. 134–172; “Layer normalization, an article”, l. 140–160",
)

# %% [markdown]
r"""
At initialization, with six blocks, neither profile of gradients shows which stack can be trained ([chapter 02](02_pre_and_post_norm.ipynb)).

## Vanishing gradients and fine-tuning

A survey (“Exploring the Transformer, part 14”) says that Post-Norm's gradients vanish towards the input, that this spares early layers in fine-tuning, and that Post-Norm models therefore often fine-tune better. The first statement can be checked in pre-training:
"""

# %%
measure(runs["post"], "first/last").tuned().claim(
    "C-post-gradients-lean-to-the-last",
    "< 1",
    "At step 100, the gradient of Post-Norm's first block is smaller than that of its last block.",
    found="At step 100, the gradient of Post-Norm's first block is {mean:.2f} times that of its last block. In a model of {blocks} blocks, the factor is {deep:.2f}. In the smaller model, it is {start:.2f} at step 1 and {later:.2f} at step 20.",
    source="“Exploring the Transformer, part 14”; Takase et al. 2023, arXiv 2206.00330",
    beside={
        "blocks": blocks,
        "deep": average_ratio("post", on=deep),
        "start": average_ratio("post", 0),
        "later": average_ratio("post", -2),
        "second value": "steps 1 and 20, where both gradients are about equal; twelve blocks, where they differ more",
    },
)


# %%
def walk(factor, optimizer, **options):
    """Move a weight by fifty noisy gradients, all of them times a factor; return how far it gets."""
    weight = nn.Parameter(torch.zeros(100, dtype=torch.float64))
    steps = optimizer([weight], lr=0.01, **options)
    noise = torch.Generator().manual_seed(seed)
    for _ in range(50):
        weight.grad = factor * (0.1 + torch.randn(100, generator=noise, dtype=torch.float64))
        steps.step()
    return weight.detach().norm().item()


far = {o: walk(1.0, o) / walk(0.001, o) for o in (torch.optim.Adam, torch.optim.SGD)}
exact(far[torch.optim.Adam], tolerance=0.001).claim(
    "C-adam-does-not-see-vanishing",
    "< 1.01",
    "Adam moves a weight equally far if all of its gradients are a thousand times smaller.",
    found="If all gradients are 1,000 times larger, SGD moves a weight {sgd:,.0f} times as far, and Adam moves it {mean:.4f} times as far.",
    source="Adam divides each gradient by its own size, as long as that is far above its ε",
    beside={"sgd": far[torch.optim.SGD]},
)

# %% [markdown]
r"""
Post-Norm's first block gets the smaller gradient, but its gradient does not vanish. The second statement is hard to reconcile with the preceding paragraph of the survey, which says that under Adam a weight moves about as far whatever the size of its gradient. (The gradient must be far above Adam's $\epsilon$.) The card shows this for a factor that is the same at every step. So small gradients alone spare no layer under Adam. The third statement is out of range: no run of this book continues from another run's weights.

## What is not here

Other chapters treat DeepNorm in a single stack ([chapter 05](05_deepnorm.ipynb#derivation)), QK-Norm and its largest rates ([04](04_qk_norm.ipynb#with-tuned-learning-rates)), HybridNorm ([06](06_hybridnorm.ipynb) and [appendix E](E_hybridnorm.ipynb)), and the ranking of recipes ([10](10_choosing_a_norm.ipynb)). We did not measure spikes or updates under Admin, test KEEL's changes one by one, or train most recipes with more than six blocks.

## Exercises

**1 (by hand, 5 minutes).** A fresh Sandwich stack starts from an embedding of RMS 1. Every sublayer writes a vector of RMS 1, uncorrelated with the stream. What is the stream's RMS after six blocks, and after 48? What would it be at most, whatever the writes' directions?
"""

# %% tags=["exercise"]
yours = {"six blocks": ..., "48 blocks": ..., "six, at most": ...}

# %%
truth = {"six blocks": 13**0.5, "48 blocks": 97**0.5, "six, at most": 13.0}
check.answer(
    yours, truth, name="1", hint="a block has two sublayers; squares add up, or at most lengths do"
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

For uncorrelated vectors the mean squares add up. For any vectors the triangle inequality holds.

</details>
<details><summary>Solution</summary>

Six blocks make $S = 2\cdot 6 = 12$ writes, so the RMS is $\sqrt{1 + 12} \approx 3.6$. After 48 blocks it is $\sqrt{1 + 96} \approx 9.8$. After six blocks it is at most $1 + 12 = 13$. A trained Sandwich's stream grows by less than the first of these factors: its embedding and its gains are no longer 1.

</details>

**2 (in code).** Along the identity path of a stack, only the factors on the skip act. Post-Norm divides by $\sqrt2$ at each of $S$ sublayers that write as much as they read. KEEL's skip is multiplied by $\alpha = S$, and the sum of skip and branch is
divided by its size, $\sqrt{\alpha^2 + 1}$. Write a function that returns the product of all factors for either recipe. (Treat KEEL's first block like the others.)
"""


# %% tags=["exercise"]
def path(sublayers, name):
    """Return what is left of the identity path; name is "post" or "keel"."""
    return ...


# %%
def check_path(path):
    """Hold a function against the products, factor by factor."""
    truth, given = {}, {}
    for name, count in (("post", 12), ("keel", 12), ("keel", 128)):
        alpha = 1 if name == "post" else count
        given[f"{name}, {count}"] = (count, name)
        truth[f"{name}, {count}"] = float(np.prod([alpha / np.hypot(alpha, 1)] * count))
    hint = "for Post-Norm α is 1; multiply S factors α/√(α² + 1)"
    return check.function(path, given, truth, name="2", hint=hint)


check_path(path)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Post-Norm is the same formula with $\alpha = 1$.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_path(sublayers, name):
    """A solution of exercise 2."""
    alpha = 1.0 if name == "post" else float(sublayers)
    return (alpha / (alpha**2 + 1) ** 0.5) ** sublayers


assert check_path(solved_path).ok

# %% [markdown]
r"""
KEEL's product tends to 1 as the depth grows: $(1 + 1/S^2)^{-S/2} \to 1$. Post-Norm's product tends to 0 exponentially.

**3 (open).** LNS differs from our Pre-Norm in the factor $1/\sqrt\ell$ and in output matrices that are not shrunk. A card compares LNS with Pre-Norm trained from the same initial weights as LNS, each at its tuned learning rate (the two rates turned out equal). How do the two compare at the learning rate tuned for Pre-Norm from our own initial weights? Predict, then run five seeds.
"""

# %% tags=["exercise"]
my_prediction = "…"
lns = ladder.configure_run(ladder.build_base_run(rung, "lns"), rate("pre"), seed)
my_arms = {"LNS": {}, "its weights, no factor": {"model.recipe": "pre", "model.init": "normal"}}
my_experiment = Experiment(lns, {"arm": my_arms, "seed": five})
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## References

Works cited: [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745), [Liu et al. (2020)](https://arxiv.org/abs/2004.08249), [He et al. (2021)](https://arxiv.org/abs/2012.11747), [Ding et al. (2021)](https://arxiv.org/abs/2105.13290), [Shleifer et al. (2021)](https://arxiv.org/abs/2110.09456), [Wang et al. (2022)](https://arxiv.org/abs/2210.06423), [Takase et al. (2023)](https://arxiv.org/abs/2206.00330), [Xie et al. (2023)](https://arxiv.org/abs/2304.14802), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), [Rybakov et al. (2024)](https://arxiv.org/abs/2410.16682), [Sun et al. (2024)](https://arxiv.org/abs/2402.17762), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Gemma Team (2025)](https://arxiv.org/abs/2503.19786), [Kim et al. (2025)](https://arxiv.org/abs/2502.02732), [Li et al. (2025)](https://arxiv.org/abs/2412.13795), [Sun et al. (2025)](https://arxiv.org/abs/2502.05795), [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), [Chen and Wei (2026)](https://arxiv.org/abs/2601.19895).
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
