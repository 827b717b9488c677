# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# HybridNorm's tables, again

**Question.** Chapter 06 follows one claim of the HybridNorm paper ([Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), here always its early
version). The paper has seven tables, and figures of gradients and of scaling. Its models have 151 million to 7 billion parameters, ours 80 to 307 thousand. What do we
find for each table and figure at our size?

**In short.** We trained the methods of the paper's tables on the book's [ladder](02_pre_and_post_norm.ipynb#other-learning-rates-and-full-training-runs), the experiment grid that all chapters share, with a tuned learning rate for each method. Size S has six blocks of width 32, and M is twice as wide. [What a claim is](claims.md) explains the words on cards.

| you look for | in a sentence | section |
| --- | --- | --- |
| the block, and the printed results | HybridNorm normalizes queries, keys and values and, before the feed-forward layer, the stream itself; HybridNorm\*'s first block has Pre-Norm's two norms and those inside attention; perplexity on C4, 550M: Pre-Norm 20.30, HybridNorm 20.00, HybridNorm\* 19.85 ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)) | [Table 4](E_hybridnorm.ipynb#table-4-sixteen-placements), [chapter 06](06_hybridnorm.ipynb#the-equations) |
| HybridNorm and HybridNorm\* against Pre-Norm, Post-Norm, Mix-LN | at size S neither is distinguishable from Pre-Norm, and at M both have a lower loss; HybridNorm has a lower loss than Post-Norm at both sizes, and at S it is not distinguishable from Mix-LN | [Table 4](E_hybridnorm.ipynb#table-4-sixteen-placements) |
| Tables 1 and 2, benchmarks | out of range; whether an improvement exceeds two standard errors of counting depends on the correlation of the two models' answers | [Tables 1 and 2](E_hybridnorm.ipynb#tables-1-and-2-averages-over-eight-benchmarks) |
| Figures 1, 7 and 8, loss throughout training | at size S HybridNorm and HybridNorm\* have a higher training loss than Pre-Norm for most of the training; in its last tenth little of the difference is left | [Figures 1, 7 and 8](E_hybridnorm.ipynb#figures-1-7-and-8-loss-throughout-training) |
| Table 2 and Figure 3, experts | in a small mixture at size S, we detect no improvement | [experts](E_hybridnorm.ipynb#a-mixture-of-experts) |
| Table 3, initialization | in the paper, the sign of HybridNorm's improvement over Pre-Norm changes with the initialization; here, at size S with embeddings of RMS 1, no initialization gives a detectable improvement, and the Normal and Xavier initializations give HybridNorm a higher loss (in a preliminary evaluation, Depth-Scaled does, too, but only just); for other embeddings see [chapter 06](06_hybridnorm.ipynb#small-embeddings-that-can-grow) | [Table 3](E_hybridnorm.ipynb#table-3-first-weights) |
| Table 4, sixteen placements | at size S, the order of the rows correlates with that of the published perplexities on C4, perhaps by chance; HybridNorm, which is QKV-Post, has a lower loss than KC-, QKC- and QKVC-Post, is not distinguishable from KV- and QK-Post, and has a higher loss than QKV-Pre, Pre-QKV-Pre and Pre-QK-Pre | [Table 4](E_hybridnorm.ipynb#table-4-sixteen-placements) |
| QK-Post, which diverges in the paper | HybridNorm without the norm on values; out of range: in the paper it may have diverged at any of 95,367 steps, and in our 3,200 it never does | [QK-Post](E_hybridnorm.ipynb#qk-post-the-row-without-a-number) |
| Figure 4, other first blocks | HybridNorm\* is not distinguishable from HybridNorm, and neither are an embedding norm and another first block | [first blocks](E_hybridnorm.ipynb#figure-4-the-first-block), [appendix C](C_zoo.ipynb#first-blocks) |
| Table 5, depth | at width 32 and with embeddings of RMS 1 Post-Norm has a higher loss than Pre-Norm with 6, 12 and 24 blocks; no improvement of HybridNorm or HybridNorm\* is detected with 6 or 12, and with 24 both have a higher loss than Pre-Norm | [Table 5](E_hybridnorm.ipynb#table-5-depth) |
| Figure 5, gradients at steps 1 and 100 | at step 1, with 29 blocks and small embeddings, Pre-Norm's gradients grow towards the first blocks, HybridNorm's are even except in the first block, and Post-Norm's do not vanish; at step 100, with twelve blocks and embeddings of RMS 1, HybridNorm's are more even than Post-Norm's, and their evenness is not distinguishable from that of Pre-Norm's | [Figure 5](E_hybridnorm.ipynb#figure-5-gradients-block-by-block) |
| Appendix A, derivatives of a head | both lemmas are right; the early version of the theorem lacks a factor | [Appendix A](E_hybridnorm.ipynb#appendix-a-two-lemmas-and-a-theorem) |
| Figure 6, scaling | from S to M the losses of HybridNorm and HybridNorm\* fall with a larger exponent than Pre-Norm's, and with as many parameters added in depth with a smaller one; two sizes establish no law | [Figure 6](E_hybridnorm.ipynb#figure-6-a-scaling-law) |
| Tables 6 and 7, settings | the 1.2B model's feed-forward width disagrees with its name and with the released code, and the mixture's smallest learning rate disagrees with the code | [Tables 6 and 7](E_hybridnorm.ipynb#tables-6-and-7-the-settings) |
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
import json
import math
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from statistics import fmean, median

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import rankdata, spearmanr
from scipy.stats import t as student

from labkit import ModelConfig, TrainConfig, check, plots  # pip install the book's folder
from labkit.attention import rotary_angles
from labkit.attention.jacobians import attention_jacobians
from labkit.context import Context
from labkit.experiments import Domain, Experiment, Lab, Run, computed, exact, ladder, published
from labkit.experiments.locks import read_locks
from labkit.experiments.regime import parameters
from labkit.experiments.sample import find_start
from labkit.model import Perturbed
from labkit.norms import rms_norm
from labkit.statistics.pooled import compare_samples
from labkit.system.root import project_root
from labkit.training import loss_of

# %%
lab = Lab("E_hybridnorm", size=size, seed=seed, memory={"kernel": "1200M", "run": "850M"})
sizes = lab.sizes(
    deep=29,
    middle=16,
    last=100,
    lost=2,  # nats: a rate at which a seed ends above it is not drawn
)
# %%
methods = {
    "QKVC-Post": "qkvc-post", "QKC-Post": "qkc-post", "QK-Post": "qk-post", "KV-Post": "kv-post",
    "KC-Post": "kc-post", "Pre-QKV-Post": "pre-qkv-post", "Pre-QKV-Pre": "pre-qkv-pre",
    "Pre-QK-Pre": "qk", "QKV-Pre": "qkv-pre", "Post-Norm": "post", "Pre-Norm": "pre",
    "Mix-LN": "mix-ln", "Post-Pre": "post-pre", "Pre-Post": "pre-post", "HybridNorm": "hybrid",
    "HybridNorm*": "hybrid*",
}  # fmt: skip
old = ["qk", "qkv-pre", "post", "pre", "mix-ln", "hybrid", "hybrid*", "no attention"]
starts = {
    "Normal": ", normal",
    "Depth-Scaled": ", depth-scaled",
    "Megatron": "",
    "Xavier": ", xavier",
}
of_start = [f"{arm}{of}" for arm in ("pre", "hybrid") for of in (", depth-scaled", ", xavier")]
mixed = [f"{arm}, experts" for arm in ("pre", "hybrid", "hybrid*")]
later = [arm for arm in methods.values() if arm not in old]
climbed = lab.ladder([*old, *of_start], also=[*later, *mixed, "pre, normal", "hybrid, normal"])
first = "S"
twelve, tallest = "D", "D24"  # 12, 24 blocks

# %%
PAPER = "Zhuo et al. 2025, arXiv 2503.04598 (early version)"
THEIRS = {
    "Table 3": "550M parameters, 400B tokens, one rate",
    "Table 4": "550M parameters, 400B tokens, one rate",
    "Table 5": "550M and 543M parameters, 400B tokens, one rate",
    "Table 2 and Figure 3": "6.9B parameters, 500B tokens, one rate",
    "Figure 6": "151M to 1.2B parameters, 200B to 1T tokens, one rate",
}
locks = {lock.id: lock for lock in read_locks(project_root())}


# %%
def count_characters(rung, arm="pre"):
    """Parameters of an arm on a rung, and how many characters a run reads for each."""
    run, size = ladder.build_base_run(rung, arm), ladder.RUNGS[rung]
    return parameters(run), size.steps * size.batch * size.time / parameters(run)


def describe_ours(*rungs, arm="pre"):
    """Say in words how large our models are and what they read."""
    each = ("{:,} parameters, {:.1f} characters for each".format(*count_characters(rung, arm)) for rung in rungs)  # fmt: skip
    return "; ".join(each) + ("" if "," in arm else "; embeddings of RMS 1") + "; tuned rates"


# %%
def name_arm(arm):
    """Name an arm of the ladder as the paper names its row."""
    recipe, _, change = arm.partition(", ")
    row = next(row for row, of in methods.items() if of == recipe)
    change = change.replace("normal", "Normal weights")
    return f"{row} with {change}" if change else row


# %%
def answer(name, where, numbers=None):
    """Answer a locked question about two arms, or say that its runs are still to come."""
    named = {arm: name_arm(arm) for arm in locks[name].arms}
    ours = describe_ours(*locks[name].rungs, arm=locks[name].arms[-1])
    domain = Domain(THEIRS[where], ours)
    ladder.claim_locked(
        climbed, name, f"{PAPER}, {where}", names=named, published=numbers, domain=domain
    )


# %% [markdown]
r"""
## Table 4: sixteen placements

A row's name has two halves, one for attention and one for the feed-forward layer ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598), appendix E). Letters name the tensors that are normalized
*inside* attention, in each head separately: queries Q, keys K, values V, and the head's output C. With $N$ for a norm and $\mathrm{MHA}_\#$ for attention with the norms
$\#$ inside:

| name | attention | feed-forward |
| --- | --- | --- |
| #-Post | $Y = X + \mathrm{MHA}_\#(X)$ | $X' = N(Y) + \mathrm{FFN}(N(Y))$ |
| #-Pre | $Y = X + \mathrm{MHA}_\#(X)$ | $X' = Y + \mathrm{FFN}(N(Y))$ |
| Pre-#-Post, Pre-#-Pre | $Y = X + \mathrm{MHA}_\#(N(X))$ | as above |
| Pre-Post | $Y = X + \mathrm{MHA}(N(X))$ | $X' = N(Y) + \mathrm{FFN}(N(Y))$ |
| Post-Pre | $Y = N(X) + \mathrm{MHA}(N(X))$ | $X' = Y + \mathrm{FFN}(N(Y))$ |

HybridNorm is QKV-Post. HybridNorm\* has a different first block, Pre-QKV-Pre. The row Pre-QK-Pre is Pre-Norm with QK-Norm.
Mix-LN ([Li et al., 2025](https://arxiv.org/abs/2412.13795)) has Post-Norm in the first quarter of its blocks (rounded down: one of our six) and Pre-Norm in the others.

The paper gives one number per row, for models of 550 million parameters that read 400 billion tokens at one learning rate, and does not say how many runs a number comes from ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). We trained every row at size S at its tuned learning rate, with ten or twenty seeds. Does our order agree with the paper's?
"""

# %%
table4 = {row["method"]: row for row in published("zhuo2025-table4")}
ends = {
    name: climbed.where(arm=arm, rung=first, stage="final").measure("test.loss")
    for name, arm in methods.items()
    if ladder.has_reported(climbed, arm, first)
}
on_gpu = [name for name, of in ends.items() if of.records[0].provenance["device"] != "cpu"]
by_paper = sorted(
    (name for name in ends if table4[name]["c4"]), key=lambda name: table4[name]["c4"]
)
plots.dots(
    {f"{name} ({table4[name]['c4']:.2f})": ends[name] for name in by_paper},
    xlabel="test loss here (nats)",
    caption=f"Test loss at size S for the rows of Table 4, in the order of the published perplexity on C4 (in brackets), with the best at the top. If our order agreed, the points would move to the right from row to row. {len(on_gpu)} of the rows were trained on a GPU. QK-Post, for which the paper has no number, is left out.",
    provenance=lab.provenance(climbed.where(arm=[methods[name] for name in ends], rung=first, stage="final")),
).named("table-4")  # fmt: skip

# %%
for path in sorted((project_root() / "data/bench/hours").glob("*.json")):
    hour = json.loads(path.read_text())
    if arms_again := (hour["control"] or {}).get("arms"):
        print(
            f"Trained again on one {hour['who']['device']} with the evaluation seeds of a CPU, the mean losses of "
            f"{', '.join(arms_again)} change by at most "
            f"{max(abs(of['gap']) for of in arms_again.values()):.4f} nats."
        )


# %%
def describe_row(name):
    """One row of Table 4: what was printed beside what we find."""
    theirs, lead = table4[name], leads_over_pre.get(name)
    return {
        "row": name.replace("*", "\\*"),
        "training loss, printed": theirs["loss"],
        "C4 perplexity, printed": f"{theirs['c4']:.2f}" if theirs["c4"] else "",
        "test loss, ours": f"{ends[name].mean:.4f}",
        "n": len(ends[name]),
        "improvement over Pre-Norm": f"{lead:+z.4f}" if lead else "",
        "paired by seed": f"{lead.pair():+z.4f}" if lead else "",
    }


leads_over_pre = {
    name: ladder.improvement(climbed, methods[name])[first] for name in ends if name != "Pre-Norm"
}
plots.table([describe_row(name) for name in ends])


# %%
def name_apart(leads):
    """Name the rows that lie below and above Pre-Norm, each by its own interval."""
    intervals = {name: lead.compute_interval() for name, lead in leads.items()}
    below = [name for name, (low, _) in intervals.items() if low > 0]
    above = [name for name, (_, high) in intervals.items() if high < 0]
    return f"lower loss: {', '.join(below) or 'none'}; higher loss: {', '.join(above) or 'none'}."


by_pair = {name: lead.pair() for name, lead in leads_over_pre.items()}
print(f"Distinguishable from Pre-Norm, each row by its own interval: {name_apart(leads_over_pre)}")
print(f"Paired by seed, which was not preregistered: {name_apart(by_pair)}")

# %% [markdown]
r"""
### Does our order agree with the published one?

Spearman's $\rho$ of two orders is the correlation of their ranks: 1 for the same order, and 0 on average for random ones. The bound in the second card's criterion assumes fifteen rows in random order. It is too low: Pre-QKV-Post computes the same function as HybridNorm, and Pre-QKV-Pre the same as QKV-Pre. There are thus only thirteen different functions, and a larger $\rho$ can occur by chance.

The cards' intervals treat the published numbers as exact, although each may come from a single run. Each point on the cards is computed without one seed of each row.
"""


# %%
def measure_order(rows, means):
    """Spearman's correlation of their perplexities with our means."""
    return float(spearmanr([table4[name]["c4"] for name in rows], means).statistic)


# %%
scatter = ladder.measure_scatter(climbed, first)


def measure_tuning_left(name):
    """Estimate what the choice of its rate leaves of a row's loss, in nats."""
    return ladder.measure_tuning_left(climbed, first, methods[name], scatter.sd).size


def know_runs(sample, arms, rungs):
    """Note of which runs a number was computed, each arm at its own rate."""
    runs = climbed.where(arm=arms, rung=rungs, stage="final")
    return replace(sample, records=tuple(record for _, record in runs))


def correlate(draws=2000):
    """Spearman's correlation of their perplexities with our losses: without each seed, and drawn."""
    means = np.array([ends[name].mean for name in by_paper])
    left = [measure_tuning_left(name) for name in by_paper]
    errors = [
        math.hypot(scatter.sd / len(ends[name]) ** 0.5, of)
        for name, of in zip(by_paper, left, strict=True)
    ]
    drawn = means + np.random.default_rng(seed).normal(size=(draws, len(means))) * errors
    cloud = [measure_order(by_paper, row) for row in drawn]
    fewer = [
        [fmean(np.delete(ends[name].values, i)) for name in by_paper]
        for i in range(min(map(len, ends.values())))
    ]
    without = [measure_order(by_paper, row) for row in fewer]
    found = computed(without, interval=np.quantile(cloud, (0.025, 0.975)))
    return know_runs(found.tuned(), [methods[name] for name in by_paper], first)


# %% tags=["mechanism"]
def shuffle_functions(draws=20_000):
    """The correlation that one shuffle in forty passes, where rows of one function stay together."""
    names = [name for name, row in table4.items() if row["c4"]]
    same = {"Pre-QKV-Post": "HybridNorm", "Pre-QKV-Pre": "QKV-Pre"}
    functions = [name for name in names if name not in same]
    place = [functions.index(same.get(name, name)) for name in names]
    drawn = np.random.default_rng(seed).random((draws, len(functions)))[:, place]
    ranks = rankdata(drawn, axis=1) - (len(names) + 1) / 2
    theirs = rankdata([table4[name]["c4"] for name in names]) - (len(names) + 1) / 2
    found = ranks @ theirs / np.sqrt((ranks**2).sum(1) * (theirs**2).sum())
    return float(np.quantile(found, 0.975))


# %%
by_chance = shuffle_functions()
single = [name for name in by_paper if name not in ("Pre-QKV-Post", "Pre-QKV-Pre")]
middle = [ends[name].mean for name in by_paper]
whole = measure_order(by_paper, middle)
by_loss = float(spearmanr([table4[name]["loss"] for name in by_paper], middle).statistic)
together = correlate()
between = together.interval
print(
    f"{len(by_paper)} of 15 rows have been evaluated. Spearman's correlation with the published order: "
    f"{whole:+.2f} [{between[0]:+.2f}, {between[1]:+.2f}]; with the order of training losses {by_loss:+.2f}. "
    f"One in forty random orders of all fifteen, as thirteen functions, exceeds {by_chance:.2f}. "
    f"Without the second row of each function: {measure_order(single, [ends[n].mean for n in single]):+.2f}."
)

# %%
fewest = min(map(len, ends.values()))  # ten were locked
here = Domain(THEIRS["Table 4"], describe_ours(first))

# %%
together.claim(
    "E-order-of-table-4",
    "> 0",
    "The order of Table 4's rows here goes with the published order.",
    found="Our order of Table 4's rows and the published order have a Spearman correlation of {whole:.2f}, with {fewest} or more seeds per row. Half of all random orders have a correlation above 0.",
    source=f"{PAPER}, Table 4",
    beside={"whole": whole, "fewest": fewest},
    domain=here,
)
together.claim(
    "E-order-of-table-4-beyond-chance",
    "> 0.521",
    "It does so more than one random order of fifteen rows in forty.",
    found="Spearman's correlation between our order and the published one is {whole:.2f}. Of all random orders, one in forty has a correlation above 0.521 for fifteen rows, and above {by_chance:.2f} for the thirteen different functions.",
    source=f"{PAPER}, Table 4",
    beside={"whole": whole, "by_chance": by_chance},
    domain=here,
)

# %% [markdown]
r"""
### What the paper concludes from the rows

The paper's table has three groups of rows. From the first it concludes that QKV is the most effective way to normalize inside attention. From the second it concludes that QKV-Norm is better with Post-Norm in the feed-forward layer than with Pre-Norm. From the third it concludes that Pre-Post improves on Pre-Norm and that QKV-Norm improves on Pre-Post
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Each of the next cards compares two rows.

The text of section 4.4 describes Pre-QKV-Pre with Post-Norm in the feed-forward layer. According to its name and the paper's appendix E, it has Pre-Norm there. The text also says that HybridNorm and HybridNorm\* surpass all other rows, but QKV-Pre (19.96) and Pre-QKV-Pre (19.97) have lower perplexities on C4 than HybridNorm (20.00) ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)).
"""

# %%
for name, numbers in {
    "E-pre-post-below-pre": "20.15 and 20.30 (C4 perplexity)",
    "E-hybrid-below-pre-post": "20.00 and 20.15",
    "E-pre-post-below-post-pre": "20.15 and 20.26",
    "E-hybrid-below-kc-post": "20.00 and 20.34",
    "E-hybrid-below-kv-post": "20.00 and 20.11",
    "E-hybrid-below-qkc-post": "20.00 and 20.00; loss 2.74 and 2.73",
    "E-hybrid-below-qkvc-post": "20.00 and 20.05",
}.items():
    answer(name, "Table 4", numbers)

# %% [markdown]
r"""
For KC-, QKC- and QKVC-Post these cards compare runs on a GPU with HybridNorm's runs on a CPU. Is the device the reason for the differences? We trained QKVC-Post again on a CPU, with the same seeds:
"""

# %%
on_gpus = climbed.where(arm="qkvc-post", rung=first, stage="final")
again = ladder.configure_run(ladder.build_base_run(first, "qkvc-post"), max(on_gpus.by("lr")), 0)
on_cpu = lab.run(Experiment(again, {"seed": [*on_gpus.by("seed")]}))
changed = on_gpus.measure("test.loss") - on_cpu.measure("test.loss")
print(f"QKVC-Post's test loss on the GPU minus that on the CPU: {changed} nats (mean, interval).")

# %% [markdown]
r"""
We have not repeated KC- and QKC-Post on a CPU, nor any run of size M on another device.

The paper's abstract and introduction also say that HybridNorm is better than Post-Norm and than Mix-LN. The third of the next cards tests the paper's conclusion from its second group of rows.
"""


# %%
def compare_rows(name, better, worse, printed, where="Table 4"):
    """Claim a difference of two rows of Table 4 that was seen before it was written down."""
    arms = methods[better], methods[worse]
    lead = ladder.improvement(climbed, *arms).only(first, "M")
    lead.claim(
        name,
        "> 0",
        f"{better} has a lower test loss than {worse}.",
        found="At size {rung}, {better}'s test loss is {apart:.4f} nats {side} {worse}'s.",
        source=f"{PAPER}, {where}",
        published=f"{printed} (C4 perplexity)",
        beside={"better": better, "worse": worse},
        domain=Domain(THEIRS["Table 4"], describe_ours(*lead, arm=arms[1])),
    )


# %%
compare_rows("E-hybrid-below-post", "HybridNorm", "Post-Norm", "20.00 and 20.43")
compare_rows("E-hybrid-below-mix-ln", "HybridNorm", "Mix-LN", "20.00 and 20.43")
compare_rows("E-hybrid-below-qkv-pre", "HybridNorm", "QKV-Pre", "20.00 and 19.96")

# %% [markdown]
r"""
**Rows that are one function.** If queries, keys and values are normalized, a norm on attention's input does not change the functions that the block can compute (`06-rows-that-are-one-function`). The paper prints perplexities of
$20.13$ and $20.00$ for one such pair, and of $19.97$ and $19.96$ for the other ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). The additional norm contributes only a gain, which can be multiplied into the matrices. If the first difference is not due to chance, then this gain affects training.
"""

# %%
logs = [math.log(row["c4"]) for row in table4.values() if row["c4"]]
gaps = [abs(one - other) for one, other in combinations(logs, 2)]
twins, others = (
    math.log(table4[one]["c4"] / table4[other]["c4"])
    for one, other in (("Pre-QKV-Post", "HybridNorm"), ("Pre-QKV-Pre", "QKV-Pre"))
)
exact(twins).claim(
    "E-table-4-tells-twins-apart",
    "> 0.0005",  # a hundredth of 20, which is what rounding two perplexities can make
    "In the HybridNorm paper's Table 4, the results of two rows that compute the same function differ by more than rounding.",
    found="On C4, the two pairs of Table 4's rows that compute the same function differ by {mean:.4f} and {others:.4f} nats. Of all {pairs} pairs of rows, {closer} differ by less than {mean:.4f} nats.",
    source=f"{PAPER}, Table 4",
    beside={
        "others": others,
        "closer": sum(gap < twins - 1e-9 for gap in gaps),
        "pairs": len(gaps),
    },
)
answer("E-one-norm-more-costs-hybrid", "Table 4", "20.13 and 20.00 (C4 perplexity)")
answer("E-one-norm-more-costs-qkv-pre", "Table 4", "19.97 and 19.96 (C4 perplexity)")

# %% [markdown]
r"""
**A norm on the stream.** Three pairs of rows have the same norms before and inside attention and differ only in the feed-forward sublayer (-Post or -Pre). In the paper the norm on the stream costs 0.002 and 0.008 nats in two of them, and saves 0.007 nats in
the third ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). We average over the three pairs:
"""

# %%
halves = {"HybridNorm": "QKV-Pre", "Pre-QKV-Post": "Pre-QKV-Pre", "Pre-Post": "Pre-Norm"}
lock = locks["E-norm-on-the-stream-costs"]
six = [*halves, *halves.values()]
seen = {name: ends[name].values[: lock.n] for name in six}
costs = compare_samples(
    [loss for name in halves.values() for loss in seen[name]],
    [loss for name in halves for loss in seen[name]],
    scatter,
    tuned=math.hypot(*map(measure_tuning_left, six)) / len(halves),
    since=find_start(record for name in six for record in ends[name].records),
)
by_pair = (fmean(seen[one]) - fmean(seen[other]) for one, other in halves.items())
lacks = ladder.improvement(climbed, "hybrid", "qkv-pre").find_lacking(first)
computed(costs).tuned(lacks).claim(
    lock.id,
    "> 0",
    lock.said,
    found="In three pairs of methods in the HybridNorm paper's Table 4, only the feed-forward sublayer's norm differs. The mean test loss without a norm on the stream is {apart:.4f} nats {side} with one (by pair, with minus without: {pairs} nats).",
    source=f"{PAPER}, Table 4",
    beside={"pairs": ", ".join(f"{cost:+.4f}" for cost in by_pair)},
    domain=here,
)

# %% [markdown]
r"""
### QK-Post, the row without a number

In the paper QK-Post diverges and has no number ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). It is HybridNorm without the norm on values, so attention's output grows in proportion to the stream. Our runs cannot test the paper's observation: they are short, and a tuned learning rate is one at which the method trains. At a learning rate of 0.1, we have a single run of QK-Post, and it stays at the unigram baseline (letter frequencies).
"""

# %%
answer("E-hybrid-below-qk-post", "Table 4", "20.00, and QK-Post diverges")
if "QK-Post" in ends:
    of_it = climbed.where(arm="qk-post", rung=first)
    fallen = of_it.count(lambda record: record.diverged_at is not None)
    at_its_own = of_it.where(stage="final").count(lambda record: record.diverged_at is not None)
    at_its_own.tuned().after(fallen).claim(
        "E-qk-post-diverges",
        ">= 0.5",
        "At its own rate QK-Post diverges.",
        found="At the tuned learning rate, {k} of {n} QK-Post runs diverge. Of all QK-Post runs at learning rates from 0.001 to 0.1, {all_of_them} diverge.",
        source=f"{PAPER}, Table 4",
        published="diverge",
        beside={"all_of_them": fallen.estimate.k},
        domain=replace(here, inside=False),
    )

# %% [markdown]
r"""
### Figure 4: the first block

In HybridNorm's first block, attention reads raw embeddings. The paper tries three changes: HybridNorm\*'s first block, a first block of the row QKV-Pre (First-QKV-Pre), and a norm on the embeddings (EmbedNorm). All but EmbedNorm lower the training loss and help on HellaSwag ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598), section 4.4). The last two are in [appendix C](C_zoo.ipynb#first-blocks).
"""


# %%
@torch.no_grad()
def differ_from_the_equations():
    """How far two blocks of HybridNorm* are from the equations above, attention as labkit has it."""
    torch.manual_seed(seed)
    star = ModelConfig(recipe="hybrid*", norm="rms", dim=32, depth=2, heads=4, context=32, norm_eps=0.0).build().double()  # fmt: skip
    x, turns, gaps = torch.randn(2, 7, 32).double(), Context(rotary_angles(7, 8)), []
    norm = lambda z: rms_norm(z, eps=0.0)  # noqa: E731
    for block, is_first in zip(star.blocks, (True, False), strict=True):
        attend, feed = block.attention.sublayer, block.feed_forward.sublayer
        assert attend.norm_q and attend.norm_k and attend.norm_v
        y = x + attend(norm(x) if is_first else x, turns)
        made = y + feed(norm(y)) if is_first else norm(y) + feed(norm(y))
        gaps.append((block(x, turns) - made).abs().max().item())
    return max(gaps)


exact(differ_from_the_equations(), tolerance=1e-12).claim(
    "E-star-is-the-equation",
    "< 1e-12",
    "labkit's HybridNorm* has the first block of the HybridNorm paper and, from the second block on, HybridNorm's blocks.",
    found="The first two blocks of labkit's HybridNorm* differ from the paper's equations by at most {mean:.0e}.",
    source=f"{PAPER}, equations 10 and 11",
)

# %%
figure4 = "Figure 4 and Table 4"
compare_rows("E-star-below-hybrid", "HybridNorm*", "HybridNorm", "19.85 and 20.00", figure4)
compare_rows("E-star-below-pre", "HybridNorm*", "Pre-Norm", "19.85 and 20.30", figure4)

# %% [markdown]
r"""
### Figures 1, 7 and 8: loss throughout training

The paper concludes from its curves that HybridNorm\* and HybridNorm have a consistently lower training loss than Pre-Norm ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). The next figure shows the differences in our runs:
"""


# %%
def average_losses(arm):
    """The training loss of each run of an arm on rung S, by tenth of the training."""
    runs = climbed.where(arm=arm, rung=first, stage="final").values(lambda record: record.losses)
    steps = len(runs[0])
    ends_of = [steps * i // 10 for i in range(11)]
    return {end: [fmean(run[start:end]) for run in runs] for start, end in pairwise(ends_of)}


plain = {step: fmean(of) for step, of in average_losses("pre").items()}
plots.curves(
    {
        name: {step: [plain[step] - loss for loss in of] for step, of in average_losses(arm).items()}
        for name, arm in {"HybridNorm": "hybrid", "HybridNorm*": "hybrid*"}.items()
    },
    xlabel="steps",
    ylabel="improvement over Pre-Norm (nats)",
    reference={"Pre-Norm": 0.0},
    caption="Mean training loss of Pre-Norm's runs minus the training loss of HybridNorm and of HybridNorm*, for each tenth of the training, at size S and tuned learning rates. Where a line is below 0, the method's loss is higher than Pre-Norm's. The bars do not include the uncertainty of Pre-Norm's mean.",
    provenance=lab.provenance(climbed.where(arm=["pre", "hybrid", "hybrid*"], rung=first, stage="final")),
).named("throughout")  # fmt: skip

# %% [markdown]
r"""
Our curves differ from the paper's: HybridNorm and HybridNorm\*, whose tuned learning rates are lower than Pre-Norm's, have a higher training loss. The difference shrinks, and in the last tenth of the training little of it is left.

## Table 3: first weights

The paper trains Pre-Norm and HybridNorm from three initializations ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). *Normal* draws all matrices with a standard deviation of $1/\sqrt{2.5\,d}$ for width $d$. *Megatron* then divides the matrices that write to the stream by $\sqrt{2L}$ in a model of $L$ blocks, and
*Depth-Scaled* divides them by $\sqrt{2\ell}$ in block $\ell$. For each initialization we compare HybridNorm with Pre-Norm, each at its tuned learning rate. The cards for Depth-Scaled and for Xavier's larger weights, which the paper does not try, are in chapter 06: `06-depth-scaled-lead` and `06-hybrid-behind-from-xavier`.
"""

# %%
table3 = {(row["method"], row["init"]): row["c4"] for row in published("zhuo2025-table3")}
theirs = {
    init: math.log(table3["Pre-Norm", init] / table3["HybridNorm", init])
    for init in ("Normal", "Depth-Scaled", "Megatron")
}


# %%
def describe_lead(init):
    """HybridNorm's lead from one initialization, printed and ours."""
    arms = [recipe + starts[init] for recipe in ("hybrid", "pre")]
    hybrid, pre = (ladder.reported(climbed, arm)[first].values() for arm in arms)
    return {
        "initialization": init,
        "improvement, printed (one number)": f"{theirs[init]:+.4f}" if init in theirs else "",
        "n": min(len(pre), len(hybrid)),
        "Pre-Norm, ours": f"{fmean(pre):.4f}",
        "HybridNorm, ours": f"{fmean(hybrid):.4f}",
        "improvement, ours": f"{ladder.improvement(climbed, *arms)[first]:+z.4f}",
    }


plots.table(
    describe_lead(init)
    for init, of in starts.items()
    if all(ladder.has_reported(climbed, recipe + of, first) for recipe in ("hybrid", "pre"))
)

# %%
answer("E-hybrid-above-pre-from-normal", "Table 3", "20.44 and 20.29 (C4 perplexity)")
exact(theirs["Normal"]).claim(
    "E-table-3-lead-turns",
    "< 0",
    "With one of the initializations in the HybridNorm paper's Table 3, HybridNorm's printed perplexity is higher than Pre-Norm's.",
    found="With Normal weights, HybridNorm's published loss is {apart:.4f} nats {side} Pre-Norm's. Its improvement over Pre-Norm is {scaled:+.4f} nats with Depth-Scaled weights, {megatron:+.4f} nats with Megatron weights, and {best:+.4f} nats with the best initialization of each method.",
    source=f"{PAPER}, Table 3",
    beside={
        "scaled": theirs["Depth-Scaled"],
        "megatron": theirs["Megatron"],
        "best": math.log(table3["Pre-Norm", "Normal"] / table3["HybridNorm", "Megatron"]),
    },
)

# %% [markdown]
r"""
## Table 5: depth

The paper compares 29 narrower blocks with 16, at nearly the same number of parameters. For Post-Norm it prints a number at 16 layers and "diverge" at 29. At 16 layers HybridNorm's perplexity on C4 is 20.00 and Pre-Norm's is 20.30; at 29 layers they are 19.67 and 19.88
([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Our variants D and D24 are size S with 12 and 24 blocks. They read as many batches as S, and therefore fewer characters per parameter. All three use Megatron's weights and embeddings of RMS 1.
"""

# %%
blocks = {ladder.RUNGS[rung].depth: rung for rung in (first, twelve, tallest)}
compared = {"Post-Norm": "post", "HybridNorm": "hybrid", "HybridNorm*": "hybrid*"}
deeper = {name: ladder.improvement(climbed, arm) for name, arm in compared.items()}
rows5 = {(row["method"], row["layers"]): row for row in published("zhuo2025-table5")}
printed = {
    f"{name}, published": {
        layers: [math.log(rows5["Pre-Norm", layers]["c4"] / rows5[name, layers]["c4"])]
        for layers in (16.0, 29.0)
        if rows5[name, layers]["c4"]
    }
    for name in compared
}
plots.curves(
    {
        name: {depth: leads[rung] for depth, rung in blocks.items()}
        for name, leads in deeper.items()
    }
    | printed,
    xlabel="blocks",
    ylabel="improvement over Pre-Norm (nats)",
    reference={"Pre-Norm": 0.0},
    caption="Pre-Norm's test loss minus that of three other placements, against the number of blocks, in our runs and as published. A point above 0 means a lower loss than Pre-Norm's. Each published point is a single number without an interval.",
    provenance=lab.provenance(climbed.where(arm=[*compared.values(), "pre"], stage="final")),
).named("table-5")  # fmt: skip


# %%
def describe_depths(name):
    """Losses by depth: printed, and ours as far as they were evaluated; a row of a table."""
    row, arm = {"method": name.replace("*", "\\*")}, {"Pre-Norm": "pre", **compared}[name]
    for layers in (16.0, 29.0):
        theirs = rows5[name, layers]["loss"]
        row[f"{layers:.0f} layers, printed"] = theirs if theirs == "diverge" else f"{theirs:.2f}"
    for depth, rung in blocks.items():
        runs = climbed.where(arm=arm, rung=rung, stage="final")
        row[f"{depth} blocks, ours"] = f"{runs.measure('test.loss').mean:.3f}"
        row[f"rate, {depth}"] = f"{max(runs.by('lr')):.4f}"
    return row


plots.table([describe_depths(name) for name in ("Pre-Norm", *compared)])

# %%
answer("E-hybrid-below-pre-at-12-blocks", "Table 5", "19.67 and 19.88 at 29 layers (C4 perplexity)")
answer("E-star-below-pre-at-12-blocks", "Table 5", "19.52 and 19.88 at 29 layers")
answer("E-hybrid-below-pre-at-24-blocks", "Table 5", "19.67 and 19.88 at 29 layers")
answer("E-star-below-pre-at-24-blocks", "Table 5", "19.52 and 19.88 at 29 layers")
answer("E-post-above-pre-at-24-blocks", "Table 5", "diverge at 29 layers")
of_post = climbed.where(arm="post", rung=twelve, stage="final")
fallen = of_post.count(lambda record: record.diverged_at is not None).estimate
deeper["Post-Norm"].only("D").claim(
    "E-post-above-pre-at-12-blocks",
    "< 0",
    "With twelve blocks, Post-Norm has a higher test loss than Pre-Norm.",
    found="With twelve blocks, Post-Norm's test loss is {apart:.4f} nats {side} Pre-Norm's, and {fallen} of {runs} Post-Norm runs diverge.",
    source=f"{PAPER}, Table 5",
    published="20.43 and 20.30 at 16 layers; diverge at 29",
    beside={"fallen": fallen.k, "runs": fallen.n},
    domain=Domain(THEIRS["Table 5"], describe_ours("D")),
)

# %% [markdown]
r"""
With 24 blocks, the differences of HybridNorm and HybridNorm\* from Pre-Norm have the opposite sign to the paper's. But each method has a tuned learning rate here, whereas the paper uses one for all rows. How do the methods compare at equal rates?
"""

# %%
at_24 = {"Pre-Norm": "pre", "HybridNorm": "hybrid", "HybridNorm*": "hybrid*", "Post-Norm": "post"}
tried = {
    name: {
        lr: part.values("validation.loss")
        for lr, part in climbed.where(arm=arm, rung=tallest, stage="tuning").by("lr").items()
    }
    for name, arm in at_24.items()
}
for name in ("HybridNorm", "HybridNorm*"):
    tall = ladder.build_base_run(tallest, at_24[name])
    finer = Experiment(ladder.configure_run(tall, 0.00422, 1000), {"seed": ladder.TUNING_SEEDS})
    tried[name][0.00422] = lab.run(finer).values("validation.loss")
plots.curves(
    {
        name: {round(1000 * lr, 2): losses for lr, losses in sorted(of.items()) if max(losses) < sizes.lost}
        for name, of in tried.items()
    },
    xlabel="learning rate (thousandths)",
    ylabel="validation loss (nats)",
    logx=True,
    caption="Validation loss against learning rate with 24 blocks, for three tuning seeds at every rate that was tried. Rates at which the loss of at least one seed exceeds 2 nats are left out: 0.0056 and 0.01 for Post-Norm, and 0.01 for HybridNorm and HybridNorm*.",
    provenance=lab.provenance(climbed.where(arm=[*at_24.values()], rung=tallest, stage="tuning")),
).named("depth-rates")  # fmt: skip


# %%
post = ladder.build_base_run(tallest, "post")
lower = lab.run(
    Experiment(ladder.configure_run(post, 0.00237, 5, ladder.LOOKS), {"seed": range(5, 15)})
)
behind = deeper["Post-Norm"][tallest]
own = max(climbed.where(arm="post", rung=tallest, stage="final").by("lr"))
gap = lower.measure("test.loss").mean - fmean(behind.other)
print(
    f"24 blocks, ten seeds: Post-Norm's loss is {-behind.mean:.4f} nats above "
    f"Pre-Norm's at its tuned rate, {own:.4f}, and {gap:.4f} above it at 0.0024."
)


# %%
def compare_at(rate, form="hybrid*"):
    """How far a form of HybridNorm ends above Pre-Norm at one rate, seed by seed, on test text."""
    one, other = (
        climbed.where(arm=arm, rung=tallest, stage="tuning", lr=rate).measure("test.loss")
        for arm in (form, "pre")
    )
    return one - other


compare_at(0.00316).claim(
    "E-star-above-pre-at-one-rate",
    "> 0",
    "With 24 blocks, at HybridNorm*'s tuned learning rate, HybridNorm* has a higher test loss than Pre-Norm.",
    found="With three seeds, at HybridNorm*'s tuned learning rate of 0.0032, Pre-Norm's test loss is {apart:.4f} nats {side} HybridNorm*'s. At Pre-Norm's tuned learning rate of 0.0056, HybridNorm*'s test loss minus Pre-Norm's is {more:+.4f} nats.",
    source="this appendix, after both had been evaluated",
    beside={
        "more": compare_at(0.00562),
        "control": "one rate for both",
        "second value": "0.0056 for both",
        "last step": "the trained model",
    },
)
at_one = [f"{compare_at(rate, 'hybrid').mean:+.4f} at {rate:.4f}" for rate in (0.00316, 0.00562)]
print(f"With the same three seeds, HybridNorm's loss minus Pre-Norm's: {', '.join(at_one)}.")

# %% [markdown]
r"""
Much of the difference from Pre-Norm therefore appears only at the higher of the two rates: from the lower to the higher, Pre-Norm's loss falls, whereas those of HybridNorm and HybridNorm\* rise. At the lower rate, too, HybridNorm and HybridNorm\* have a higher mean loss than Pre-Norm, but three seeds cannot distinguish the differences from zero.

Post-Norm's difference from Pre-Norm depends on how its rate is chosen. It is larger at the lower rate that our first rule for tuning gave (printed above). That rule also took into account Pre-Norm's tuned rate, which is higher. At that rate, one of Post-Norm's three tuning seeds stays at the unigram baseline. After that evaluation we changed the rule for all methods, so that such rates are left out. At Pre-Norm's tuned rate the paper's result is reproduced in part: the losses of the two other seeds, too, are far higher than Pre-Norm's. None of the three runs diverges.

Our runs do not show why the signs for HybridNorm and HybridNorm\* differ from the paper's. Our models have another width, read less text per parameter and have tuned learning rates. The paper also starts Pre-Norm from Normal weights, and it draws small embeddings. With small embeddings that can grow, at size S, HybridNorm has a lower loss than Pre-Norm ([chapter 06](06_hybridnorm.ipynb#small-embeddings-that-can-grow)).

## A mixture of experts

The paper's second model has 64 small feed-forward layers per block, its *experts*, of which a router chooses eight for each token. It has 6.9 billion parameters, 1.3 billion of them active ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598), sections 4.1 and 4.3).
With HybridNorm\*, it has higher scores than with Pre-Norm in all eight benchmarks and a lower loss throughout. (In our copy of the early version the star is missing here and in Figure 6, but version 4 prints it.) With experts $E_i$ and the router's weights $G_i$ for the chosen ones,

$$\mathrm{MoE}(z) = \sum_{i\,\in\,\text{chosen}} G_i(z)\,E_i(z), \qquad z = N(Y)$$

in Pre-Norm and in HybridNorm alike. The router reads the norm's output, so its choice does not depend on the RMS of the stream.
"""

# %% tags=["mechanism"]
routed = ModelConfig(
    recipe="pre", norm="rms", dim=32, depth=2, heads=4, context=32, experts=4, norm_eps=0.0
)


@torch.no_grad()
def change_routing(recipe, factor=1000.0):
    """Largest change of a routing weight when the stream is multiplied by a factor."""
    torch.manual_seed(seed)
    half = replace(routed, recipe=recipe).build().double().blocks[1].feed_forward
    stream, weights = torch.randn(1, 256, 32).double(), []
    route = half.sublayer.route_tokens
    half.sublayer.route_tokens = lambda tokens: weights.append(route(tokens)[0]) or route(tokens)
    for times in (1.0, factor):
        half(times * stream)
    return (weights[0] - weights[1]).abs().max().item()


# %%
exact(max(change_routing("pre"), change_routing("hybrid")), tolerance=1e-10).claim(
    "E-stream-size-does-not-route",
    "< 1e-10",
    "Under Pre-Norm and HybridNorm, the size of the stream does not change the routing weights of a mixture of experts.",
    found="If the stream is multiplied by 1,000, the routing weights change by at most {mean:.0e} under Pre-Norm and HybridNorm, and by up to {bare:.2f} without norms.",
    source="scale invariance of RMS norm (ε = 0)",
    beside={"bare": change_routing("none")},
)

# %% [markdown]
r"""
At size S we divide the parameters of a plain feed-forward layer among four experts, of which each token uses two. We then ask the same question of HybridNorm and of HybridNorm\*: does it have a lower loss than Pre-Norm?
"""

# %%
print(*(f"{parameters(ladder.build_base_run(first, arm)):,} parameters: {arm}" for arm in ("pre", mixed[0])), sep="\n")  # fmt: skip
answer("E-hybrid-below-pre-with-experts", "Table 2 and Figure 3", "not trained there")
answer(
    "E-star-below-pre-with-experts", "Table 2 and Figure 3", "ahead in loss and in eight benchmarks"
)

# %% [markdown]
r"""
With experts, we detect no improvement from HybridNorm or from HybridNorm\*. Neither interval excludes a small one. Only the second question is the paper's: we withdrew the forecast that attributed the first one to the paper.

## Figure 5: gradients, block by block

The paper plots the norm of each layer's gradient at steps 1 and 100. It says that Pre-Norm's gradients explode in deeper models, that Post-Norm's vanish, and that HybridNorm's are balanced ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598), section 4.5).
In section 4.4 Pre-Norm starts from Normal weights and HybridNorm from Megatron's, so the two models differ in more than their norms. For Post-Norm the section names no initialization, so we use both.

What should one expect? Pre-Norm's blocks read $N(X)$, and the Jacobian of $N$ is about $1/\mathrm{RMS}(X)$: gradients are largest where the stream is smallest, in the first blocks, and more so with small embeddings. HybridNorm divides the gradient by the RMS of a small embedding only *once*, in its first block.
In Post-Norm, the norm after a sublayer whose output has RMS $w$ divides the gradient by $\sqrt{1 + w^2}$. Below it, the gradients of skip and branch add up:

$$\text{gradient below a sublayer} \approx \sqrt{\frac{1 + g^2}{1 + w^2}}\;\cdot\;\text{gradient above it},$$

where $g$ is the factor by which the branch multiplies a random gradient's size. If doubling the input doubles the branch's output (degree 1), $g$ is about $w$, and the formula predicts equal gradients. A gated feed-forward layer is of degree 2 for small $x$ (a SiLU is then about half of its argument), and its $g$ is $\sqrt2$ times its $w$: gradients *grow* on the way down.

The paper's figure seems to show the 16 layers of the 550M model. We use 29 blocks, the depth of Table 5's deeper model, where gradients should differ more, and sixteen for comparison. Embeddings are drawn at RMS 0.02, close to the $1/\sqrt{2.5\cdot1536} = 0.016$ of the 550M model.

Our preregistered forecast, that Post-Norm's gradients shrink on the way down, came from an earlier formula, without $g$. In the table below, the values at step 100 are for one learning rate, which was not tuned. The cards' intervals are for natural logarithms of ratios.
"""

# %%
deep = Run(
    model=Perturbed(recipe="pre", norm="rms", dim=32, depth=sizes.deep, heads=4, context=32, init="normal", embedding_drawn=0.02),
    data=ladder.build_text(first),
    train=TrainConfig(steps=sizes.last, lr=1e-3, betas=(0.9, 0.95), warmup=sizes.last, schedule="linear", clip=1.0),
    probes=("gradient-profile",),
)  # fmt: skip
megatron, large = {"model.init": "megatron"}, {"model.embedding_drawn": 1.0}
settings = {
    "Pre-Norm": {"model.recipe": "pre"},
    "Post-Norm": {"model.recipe": "post"},
    "HybridNorm": {"model.recipe": "hybrid", **megatron},
    "HybridNorm*": {"model.recipe": "hybrid*", **megatron},
    "Pre-Norm, Megatron": {"model.recipe": "pre", **megatron},
    "Post-Norm, Megatron": {"model.recipe": "post", **megatron},
    "Pre-Norm, embeddings of RMS 1": {"model.recipe": "pre", **large},
    "Pre-Norm, Megatron, embeddings of RMS 1": {"model.recipe": "pre", **megatron, **large},
    "HybridNorm, embeddings of RMS 1": {"model.recipe": "hybrid", **megatron, **large},
}

# %%
begun = lab.run(Experiment(deep, {"arm": settings, "seed": lab.seeds(5)}))
four = {name: settings[name] for name in ("Pre-Norm", "Post-Norm", "HybridNorm", "HybridNorm*")}
medium = replace(deep, model=replace(deep.model, depth=sizes.middle))
begun_16 = lab.run(Experiment(medium, {"arm": four, "seed": lab.seeds(5)}))
drawn = begun.by("arm")


def read_profile(record, step):
    """List the norms of the blocks' gradients at a step."""
    return record.probes["gradient-profile"][str(step)]["block"]


# %%
plots.by_depth(
    {name: [read_profile(record, 1) for _, record in drawn[name]] for name in four},
    ylabel="norm of the first gradient", xlabel="block", logy=True,
    caption=f"Norm of each block's gradient at step 1, in models of {sizes.deep} blocks with embeddings drawn at RMS 0.02. Pre-Norm and Post-Norm have Normal weights. HybridNorm and HybridNorm* have Megatron's. Follow each line from right to left, as backpropagation does.",
    provenance=lab.provenance(begun),
).named("figure-5")  # fmt: skip


# %%
def compare_blocks(record, step):
    """Take the logarithm of the second block's gradient over the last one's."""
    norms = read_profile(record, step)
    return math.log(norms[1] / norms[-1])


def measure_range(record, step, first=0):
    """Take the logarithm of the largest gradient over the smallest, from a block on."""
    norms = read_profile(record, step)[first:]
    return math.log(max(norms) / min(norms))


measure_range_of_rest = partial(measure_range, first=1)


def stand_out(record, step, block=0):
    """Take the logarithm of a block's gradient over that of the median block."""
    norms = read_profile(record, step)
    return math.log(norms[block] / median(norms))


def measure_ratio(arm, what, step=1):
    """Average such logarithms over an arm's runs: the geometric mean of the ratios."""
    return math.exp(drawn[arm].measure(what, at=step).mean)


# %%
def describe_profile(arm, part, blocks):
    """A row: how uneven the gradients of an arm's blocks are at both steps."""
    row = {"recipe": arm.replace("*", "\\*"), "blocks": blocks}
    for step in (1, sizes.last):
        second, whole, rest = (
            math.exp(part.measure(what, at=step).mean)
            for what in (compare_blocks, measure_range, measure_range_of_rest)
        )
        row |= {
            f"step {step}: second / last": f"{second:.2f}",
            f"step {step}: largest / smallest": f"{whole:.1f}",
            f"step {step}: largest / smallest without the first block": f"{rest:.1f}",
        }
    return row


plots.table(
    [describe_profile(arm, part, sizes.middle) for arm, part in begun_16.by("arm").items()]
    + [describe_profile(arm, part, sizes.deep) for arm, part in begun.by("arm").items()]
)

# %%
figure5 = f"{PAPER}, section 4.5 and Figure 5"
both = "Pre-Norm, Megatron, embeddings of RMS 1"
drawn["Pre-Norm"].measure(compare_blocks, at=1).claim(
    "E-pre-norm-amplifies-at-29-blocks",
    "> 0",
    "At step 1 of 29 blocks, from Normal weights, Pre-Norm's second block has a larger gradient than its last.",
    found="At step 1, the gradient of Pre-Norm's second block is {ratio:.2f} times that of its last block. The factor is {megatron:.2f} with Megatron's weights, {large:.2f} with embeddings of RMS 1, and {both:.2f} with both.",
    source=figure5,
    published="gradient explosion in deeper models",
    beside={
        "ratio": measure_ratio("Pre-Norm", compare_blocks),
        "megatron": measure_ratio("Pre-Norm, Megatron", compare_blocks),
        "large": measure_ratio("Pre-Norm, embeddings of RMS 1", compare_blocks),
        "both": measure_ratio(both, compare_blocks),
        "second value": "embeddings of RMS 1",
        "control": "Megatron's weights",
        "last step": "step 1 alone",
    },
)

# %%
drawn["Post-Norm"].measure(compare_blocks, at=1).claim(
    "E-post-norm-diminishes-at-29-blocks",
    "< 0",
    "At step 1 of 29 blocks, from Normal weights, Post-Norm's second block has a smaller gradient than its last.",
    found="At step 1, the gradient of Post-Norm's second block is {ratio:.2f} times that of its last block ({megatron:.2f} times with Megatron's weights). At step 100, it is {later:.2f} times that of the last block.",
    source=figure5,
    published="vanishing gradients, at steps 1 and 100",
    beside={
        "ratio": measure_ratio("Post-Norm", compare_blocks),
        "megatron": measure_ratio("Post-Norm, Megatron", compare_blocks),
        "later": measure_ratio("Post-Norm", compare_blocks, sizes.last),
        "control": "Megatron's weights",
        "last step": "judged at step 1; step 100 is at one rate",
    },
)

# %%
pre, hybrid = (drawn[arm].measure(measure_range, at=1) for arm in ("Pre-Norm", "HybridNorm"))
(hybrid - pre).claim(
    "E-hybrid-even-at-29-blocks",
    "< 0",
    "At step 1 of 29 blocks HybridNorm's gradients differ less from block to block than Pre-Norm's.",
    found="At step 1, the largest gradient of a block is {hybrid:.1f} times the smallest under HybridNorm and {pre:.1f} times the smallest under Pre-Norm. If the first block is left out, the factors are {hybrid_rest:.1f} and {pre_rest:.1f}.",
    source=figure5,
    published="a well-balanced gradient flow",
    beside={
        "hybrid": math.exp(hybrid.mean),
        "pre": math.exp(pre.mean),
        "pre_rest": measure_ratio("Pre-Norm", measure_range_of_rest),
        "hybrid_rest": measure_ratio("HybridNorm", measure_range_of_rest),
        "control": "without first blocks",
        "last step": "step 1 alone",
    },
)

# %%
second = drawn["HybridNorm*"].measure(partial(stand_out, block=1), at=1)
drawn["HybridNorm"].measure(stand_out, at=1).claim(
    "E-hybrid-first-block-stands-out",
    "> 0.693",
    "At step 1 HybridNorm's first block has more than twice the gradient of its median block.",
    found="At step 1, the gradient of HybridNorm's first block is {ratio:.1f} times that of its median block, and {large:.2f} times with embeddings of RMS 1. Under HybridNorm*, the factor is {star:.1f} for the first block and {second:.1f} for the second.",
    source=figure5,
    beside={
        "ratio": measure_ratio("HybridNorm", stand_out),
        "large": measure_ratio("HybridNorm, embeddings of RMS 1", stand_out),
        "star": measure_ratio("HybridNorm*", stand_out),
        "second": math.exp(second.mean),
        "second value": "embeddings of RMS 1",
        "control": "HybridNorm*",
        "last step": "step 1 alone",
    },
)

# %% [markdown]
r"""
We find, at step 1 unless stated otherwise:

- **Pre-Norm**: gradients grow towards the first blocks, except with Megatron's weights and embeddings of RMS 1, where they are nearly equal.
- **Post-Norm**: with the paper's gated layers gradients do not vanish. With Megatron's small sublayer outputs they are even. At step 100 they shrink on the way down, as published.
- **HybridNorm**: with small embeddings the gradients of all blocks are of similar size, except in the first block, where the gradient is divided by the RMS of the embeddings. With embeddings of RMS 1 all gradients are similar, and so are Pre-Norm's with the same weights. So at step 1 the difference between the two recipes depends on the RMS of the embeddings.
- **HybridNorm\***: the first block has a large gradient, too, and so has the second.

Does Post-Norm's result depend on the gated feed-forward layer? We put five other layers in its place:
"""

# %% tags=["mechanism"]
shallow = replace(deep.model, recipe="post")


def pass_on(of_seed):
    """How much larger g of a fresh feed-forward layer is than its w."""
    torch.manual_seed(of_seed)
    layer = shallow.build().blocks[1].feed_forward.sublayer
    x = torch.randn(512, 32, requires_grad=True)
    y = layer(x)
    above = torch.randn_like(y)
    (below,) = torch.autograd.grad(y, x, above)
    return (below.norm() / above.norm() / (y.norm() / x.norm())).item()


# %%
inputs, targets = next(ladder.build_text(first).load().train(seed))
inside = {  # of a feed-forward layer, all of one width: what it makes of a = Gx and b = Ux
    "gate, SiLU": lambda a, b: F.silu(a) * b,
    "gate, ReLU": lambda a, b: a.relu() * b,
    "gate alone": lambda a, b: a * b,
    "ReLU": lambda a, b: a.relu(),
    "ReLU minus its mean": lambda a, b: a.relu() - a.relu().mean(-1, keepdim=True),
    "linear": lambda a, b: a / math.sqrt(2),
}


# %%
def compare_ends(of_seed, make):
    """Log ratio of the first gradients of Post-Norm's second block and its last."""
    torch.manual_seed(of_seed)
    model = shallow.build()
    for block in model.blocks:
        layer = block.feed_forward.sublayer
        layer.forward = lambda x, context=None, layer=layer: layer.down(
            make(layer.gate(x), layer.up(x))
        )
    loss_of(model, inputs, targets).backward()
    one, other = (
        sum(w.grad.square().sum().item() for w in model.blocks[i].parameters() if w.ndim > 1 and w.grad is not None)
        for i in (1, -1)
    )  # fmt: skip
    return math.log(one / other) / 2


falls = {
    kind: computed([compare_ends(i, make) for i in lab.seeds(5)]) for kind, make in inside.items()
}
plots.table([
    {"feed-forward": kind, "degree": 2 if "gate" in kind else 1, "second block over last": f"{math.exp(logs.mean):.2f}",
     "seeds": f"{math.exp(min(logs)):.2f} to {math.exp(max(logs)):.2f}"}
    for kind, logs in falls.items()
])  # fmt: skip

# %%
computed([pass_on(i) for i in lab.seeds(5)]).claim(
    "E-gated-layer-passes-on-more-than-it-writes",
    "in [1.3, 1.5]",
    "An untrained gated layer multiplies a random gradient by √2 times the ratio of its output's RMS to its input's RMS.",
    found="An untrained gated layer multiplies a random gradient by {mean:.2f} times the ratio of its output's RMS to its input's RMS.",
    source="derived above: degree 2",
    predicted=math.sqrt(2),
)
falls["ReLU"].claim(
    "E-post-norm-diminishes-with-relu",
    "< 0",
    "With 29 blocks and ReLU, at step 1, the gradient of Post-Norm's second block is smaller than that of its last block.",
    found="At step 1, with ReLU, the gradient of Post-Norm's second block is {ratio:.2f} times that of its last block. The factor is {centred:.2f} with ReLU minus its mean and {linear:.2f} with linear layers.",
    source="this appendix, after the card on Post-Norm had been read",
    beside={
        "ratio": math.exp(falls["ReLU"].mean),
        "centred": math.exp(falls["ReLU minus its mean"].mean),
        "linear": math.exp(falls["linear"].mean),
        "second value": "five other layers",
        "control": "ReLU minus its mean",
        "last step": "step 1 alone",
    },
)

# %% [markdown]
r"""
With ReLU, gradients shrink even at step 1, which the formula does not predict. With the two degree-1 layers whose outputs have mean 0 they do not shrink on average, so the cause is ReLU's mean and not the missing gate. A possible reason, which we did not test, is that this mean makes tokens similar: attention then passes on their common part at full size, but averages out a random gradient.
"""

# %% [markdown]
r"""
**At step 100** the learning rate matters, so we use the ladder's runs, with a tuned rate for each method, embeddings of RMS 1 and Megatron's weights for all:
"""

# %%
profiled = {"Pre-Norm": "pre", "Post-Norm": "post", "HybridNorm": "hybrid"}
later_on = {
    name: climbed.where(arm=arm, rung=twelve, stage="final") for name, arm in profiled.items()
}
profiles = {
    name: [read_profile(record, sizes.last) for _, record in part]
    for name, part in later_on.items()
}
first_over_last = ", ".join(
    f"{name} {math.exp(fmean(math.log(run[0] / run[-1]) for run in of)):.2f}"
    for name, of in profiles.items()
)
plots.by_depth(
    profiles,
    ylabel="norm of the gradient at step 100", xlabel="block", logy=True,
    caption=f"Norm of each block's gradient at step 100, in models of {ladder.RUNGS[twelve].depth} blocks at tuned learning rates. The first block's gradient divided by the last block's is as follows: {first_over_last}.",
    provenance=lab.provenance(climbed.where(arm=[*profiled.values()], rung=twelve, stage="final")),
).named("step-100")  # fmt: skip

# %%
ranges = {name: part.measure(measure_range, at=sizes.last) for name, part in later_on.items()}
for other, name in (
    ("Pre-Norm", "E-hybrid-evener-than-pre-at-step-100"),
    ("Post-Norm", "E-hybrid-evener-than-post-at-step-100"),
):
    ranges[other].improvement_over(ranges["HybridNorm"]).tuned().claim(
        name,
        "< 0",
        locks[name].said,
        found="With twelve blocks, at step 100, the largest gradient of a block is {hybrid:.2f} times the smallest under HybridNorm and {others:.2f} times the smallest under {other}.",
        source=figure5,
        beside={
            "hybrid": math.exp(ranges["HybridNorm"].mean),
            "others": math.exp(ranges[other].mean),
            "other": other,
        },
    )

# %% [markdown]
r"""
In these twelve blocks HybridNorm's gradients are more even than Post-Norm's, as the paper says. In the 29 blocks above, with small embeddings and one rate for all, HybridNorm's first block stands out at step 100, too: HybridNorm's gradients are more even than Post-Norm's only if the first block is left out. In sixteen blocks they are less even in both cases. Pre-Norm's gradients do not explode in twelve blocks: on average, the largest is less than twice the smallest.

## Appendix A: two lemmas and a theorem

The paper explains HybridNorm's stability by an analysis of one attention head, whose output is $H = A\,V\,W_O$ with $A = \mathrm{softmax}(QK^\top/\sqrt{d_k})$.
How large is the derivative of $H$ with respect to each matrix? Lemma A.1 gives the four derivatives for Pre-Norm, and Lemma A.2 gives them for QKV-norm. Both are implemented in `labkit.attention.jacobians`, and autograd agrees:
"""


# %%
def head(x, weights, normed):
    """Compute one head, without rotation or mask."""
    norm = (lambda z: rms_norm(z, eps=0.0)) if normed else (lambda z: z)
    q, k, v = (norm(x @ weights[name]) for name in "qkv")
    return (q @ k.T / q.shape[1] ** 0.5).softmax(-1) @ v @ weights["out"]


def furthest(normed):
    """Compare the written-out derivatives with autograd: the largest difference."""
    torch.manual_seed(seed)
    x, gaps = torch.randn(5, 4).double(), []
    weights = {name: torch.randn(4, 4).double() for name in ("q", "k", "v", "out")}
    for name, written in attention_jacobians(x, weights, qkv_norm=normed).items():
        moved = lambda w: head(x, {**weights, name: w}, normed)  # noqa: B023, E731
        found = torch.autograd.functional.jacobian(moved, weights[name])
        gaps.append((found.flatten(2).flatten(0, 1) - written).abs().max().item())
    return max(gaps)


# %%
exact(furthest(normed=False), tolerance=1e-10).claim(
    "E-lemma-a1",
    "< 1e-10",
    "The derivatives in the HybridNorm paper's Lemma A.1 agree with those of autograd.",
    found="The four formulas of Lemma A.1 differ from autograd's derivatives by at most {mean:.0e}.",
    source=f"{PAPER}, Lemma A.1",
)
exact(furthest(normed=True), tolerance=1e-10).claim(
    "E-lemma-a2",
    "< 1e-10",
    "The derivatives in the HybridNorm paper's Lemma A.2 agree with those of autograd.",
    found="The four formulas of Lemma A.2 differ from autograd's derivatives by at most {mean:.0e}.",
    source=f"{PAPER}, Lemma A.2",
)

# %% [markdown]
r"""
Theorem A.3 derives bounds from the lemmas and prints them inside an $\mathcal O(\cdot)$. The early version divides by the smallest singular value $\sigma$ of $XW$. This does not give a bound: a larger $X$ lowers the result and leaves the derivatives
unchanged. Version 4 takes the smallest singular value of $W$, and has a correct, slightly loose bound for $W_V$ ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). With this smallest singular value as $\sigma$, the bounds for $s$ tokens are:

| derivative with respect to | early version | corrected |
| --- | --- | --- |
| $W_O$ | $sd$, if $d_k \le sd$ | $\sqrt{s\,d\,d_k}$ |
| $W_V$ | $s\sqrt{d_k}\,\Vert W_O\Vert_2/\sigma$, fails if $m > s$ | $\sqrt{s\,d_k\,m}\,\Vert W_O\Vert_2/\sigma$, $m = \min(d, d_k - 1)$ |
| $W_Q$, $W_K$ | $s^{3/2}d_k\,\Vert W_O\Vert_2/\sigma$ | $\sqrt s\,d_k\Vert W_O\Vert_2/\sigma$ |

In the early version, the row for $W_V$ lacks a factor. A block of $\partial N(V)/\partial V$ is $\frac{\sqrt{d_k}}{\|v\|}(I - \hat v\hat v^\top)$, and the
projection in it has the Frobenius norm $\sqrt{d_k - 1}$, not 1 (and $W_O$ lets at most $d$ directions through). No constant inside the $\mathcal O(\cdot)$ repairs the row, because the missing factor grows with $d_k$.

The rows with $\sigma$ use $\|W^\top x\| \ge \sigma\|x\|$. A head narrower than the stream, $d_k < d$, maps some $x$
to zero, so these rows say nothing about a model with several heads.
For two tokens and $d_k = d$ the corrected bounds are reached; exercise 3 asks for a head that reaches the bound for $W_Q$. The theorem's other half, for Pre-Norm, bounds the derivatives by products of the other matrices' norms, and is correct. In [chapter 06](06_hybridnorm.ipynb#the-papers-own-explanation-gradients) we measure the gradient itself.
"""


# %%
def draw(s, d, d_k):
    """Draw an input of s tokens and the four matrices of a head."""
    shapes = {"q": (d, d_k), "k": (d, d_k), "v": (d, d_k), "out": (d_k, d)}
    return torch.randn(s, d).double(), {n: torch.randn(*of).double() for n, of in shapes.items()}


def compare_to_bounds(x, weights):
    """Divide each derivative's norm by its corrected bound."""
    (s, d), d_k = x.shape, weights["q"].shape[1]
    found = {n: J.norm().item() for n, J in attention_jacobians(x, weights, qkv_norm=True).items()}
    out = torch.linalg.matrix_norm(weights["out"], 2).item()
    low = {n: torch.linalg.svdvals(weights[n]).min().item() for n in "qkv"}
    bounds = {n: s**0.5 * d_k * out / low[n] for n in "qk"}
    bounds |= {
        "v": (s * d_k * min(d, d_k - 1)) ** 0.5 * out / low["v"],
        "out": (s * d * d_k) ** 0.5,
    }
    return {n: found[n] / bounds[n] for n in found}


# %%
n = 16
eye = torch.eye(n).double()
alike = {"q": eye, "k": eye, "v": eye, "out": eye}
crossed = {**alike, "k": eye.roll(1, 1)}  # keys at right angles to their queries
# %%
norm_v = attention_jacobians(eye[:1], alike, qkv_norm=True)["v"].norm().item()
printed = 1 * n**0.5 / 1  # s √d_k ‖W_O‖ / σ, and both factors are 1
exact(norm_v - printed, tolerance=0.001).claim(
    "E-theorem-a3-fails-for-v",
    "<= 0",
    "In the early version of the HybridNorm paper, the bound of Theorem A.3 holds for the value matrix.",
    found="The norm of the derivative with respect to W_V is {norm:.2f}, which exceeds the printed bound of {bound:.0f} by {mean:.2f} (one token, d = d_k = 16).",
    source="Zhuo et al. 2025, arXiv 2503.04598, early version (version 4 has another), Theorem A.3, equation 31",
    published="bounded by s √d_k ‖W_O‖ / σ_min",
    beside={"norm": norm_v, "bound": printed},
)

# %%
heads = [
    draw(*of) for of in ((5, 4, 4), (3, 4, 7), (6, 8, 8), (1, 3, 6), (8, 2, 5)) for _ in range(20)
]
random = [compare_to_bounds(*head) for head in heads]
rows = {n: max(of[n] for of in random) for n in random[0]}
exact(max(rows.values()), tolerance=0.3).claim(
    "E-corrected-bounds-hold",
    "<= 1.000001",
    "In 100 random attention heads under QKV-norm, no derivative exceeds its corrected bound.",
    found="Over 100 random heads, the derivatives with respect to W_Q, W_K, W_V and W_O are at most {q:.2f}, {k:.2f}, {v:.2f} and {out:.2f} times their bounds.",
    source="this appendix, after Zhuo et al. 2025, Theorem A.3",
    beside=rows,
)
reached = compare_to_bounds(torch.stack((eye[0], -eye[0])), crossed)  # two opposite tokens
reached |= {n: compare_to_bounds(torch.stack((eye[0], eye[0])), alike)[n] for n in ("v", "out")}
exact(min(reached.values()), tolerance=1e-6).claim(
    "E-corrected-bounds-are-reached",
    ">= 0.999999",
    "With d = d_k = 16 and two tokens, none of the four corrected bounds on the derivatives of an attention head under QKV-norm can be lowered.",
    found="In two chosen heads, the derivatives with respect to W_Q, W_K, W_V and W_O are {q:.4f}, {k:.4f}, {v:.4f} and {out:.4f} times their bounds.",
    source="this appendix",
    beside=reached,
)


# %%
def compare_to_printed(x, weights):
    """Divide derivatives by the theorem's bounds: Pre-Norm's, and three of QKV-Norm's."""
    (s, d), d_k = x.shape, weights["q"].shape[1]
    x = rms_norm(x, eps=0.0)
    of = {n: torch.linalg.matrix_norm(w, 2).item() for n, w in weights.items()}
    whole = weights["out"].norm().item()
    low = {n: torch.linalg.svdvals(weights[n]).min().item() for n in "qk"}
    bounds = {
        "out": s * d * of["v"],
        "v": s * d**0.5 * whole,
        "q": (s * d) ** 1.5 / (2 * d_k**0.5) * of["k"] * of["v"] * of["out"],
        "k": (s * d) ** 1.5 / d_k**0.5 * of["q"] * of["v"] * of["out"],
    }
    found = {n: J.norm().item() for n, J in attention_jacobians(x, weights, qkv_norm=False).items()}
    shares = [found[n] / bounds[n] for n in bounds]
    found = {n: J.norm().item() for n, J in attention_jacobians(x, weights, qkv_norm=True).items()}
    shares += [found[n] / (s**1.5 * d_k * of["out"] / low[n]) for n in "qk"]
    return shares + ([found["out"] / (s * d)] if d_k <= s * d else [])


# %%
exact(max(max(compare_to_printed(*head)) for head in heads), tolerance=0.3).claim(
    "E-theorem-a3-holds-elsewhere",
    "<= 1.000001",
    "In 100 random heads, no derivative exceeds the other bounds of Theorem A.3 in the HybridNorm paper's early version: four for Pre-Norm, and those of W_Q, W_K and W_O for QKV-norm.",
    found="Over 100 random heads, no derivative exceeds {mean:.2f} times its printed bound, under Pre-Norm or under QKV-norm (for QKV-norm, the derivative with respect to W_V is left out).",
    source="Zhuo et al. 2025, arXiv 2503.04598, early version, Theorem A.3, equations 26 to 30, 32 and 33; σ of W, and d_k ≤ sd for W_O",
)


# %% [markdown]
r"""
## Figure 6: a scaling law

The paper trains Pre-Norm and HybridNorm\* in four sizes, and says that HybridNorm\*'s loss is lower and scales better, but gives no exponent ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598), section 4.6). A law of the form

$$\mathcal L(n) = E + A\,n^{-\alpha}$$

for $n$ parameters has three unknowns. Two sizes, $n_1$ and $n_2$, give $\alpha$ only for a chosen *floor* $E$:

$$\alpha(E) = \frac{\ln(\mathcal L_1 - E) - \ln(\mathcal L_2 - E)}{\ln n_2 - \ln n_1}.$$

Moreover, the two models should differ only in size. In the paper the number of tokens per parameter changes, too:
"""

# %%
points = {151e6: 200e9, 285e6: 200e9, 550e6: 300e9, 1.27e9: 1000e9}  # parameters: tokens read
shares = {n: tokens / n for n, tokens in points.items()}
exact(max(shares.values()) / min(shares.values())).claim(
    "E-figure-6-changes-two-things",
    "> 2",
    "In the HybridNorm paper's Figure 6, the number of tokens read per parameter differs by a factor of more than two between models.",
    found="The four models in the HybridNorm paper's Figure 6 read {fewest:,.0f} to {most:,.0f} tokens per parameter. These numbers differ by a factor of up to {mean:.1f} and do not follow the order of model size.",
    source=f"{PAPER}, section 4.6",
    published="151M, 285M, 550M and 1.2B parameters on 200B, 200B, 300B and 1T tokens "
    "(Table 4: 550M on 400B)",
    beside={"fewest": min(shares.values()), "most": max(shares.values())},
)

# %%
scaled = {"Pre-Norm": "pre", "HybridNorm": "hybrid", "HybridNorm*": "hybrid*"}
losses = {name: ladder.reported(climbed, arm) for name, arm in scaled.items()}
climbs = [rung for rung in ladder.SIZES if all(rung in of for of in losses.values())]
counts = {rung: parameters(ladder.build_base_run(rung, "pre")) for rung in climbs}
plots.curves(
    {name: {round(counts[rung] / 1000): [*of[rung].values()] for rung in climbs} for name, of in losses.items()},
    xlabel="thousands of parameters", ylabel="test loss (nats)", logx=True, logy=True,
    caption="Test loss against the number of parameters, at tuned learning rates and about 20 characters per parameter. Models of size M also read a longer window of text and train for more steps than those of size S, so the decrease in loss need not be due to the number of parameters alone.",
    provenance=lab.provenance(climbed.where(arm=[*scaled.values()], rung=climbs, stage="final")),
).named("scaling-law")  # fmt: skip


# %%
def find_exponent(name, floor=0.0):
    """The exponent between the two smallest sizes, for a chosen floor E."""
    one, two = (fmean(losses[name][rung].values()) - floor for rung in climbs[:2])
    return math.log(one / two) / math.log(counts[climbs[1]] / counts[climbs[0]])


# %%
def compare_exponents(name="HybridNorm", floor=0.0):
    """By how much an exponent is above Pre-Norm's, and the interval (Student's t)."""
    span = math.log(counts[climbs[1]] / counts[climbs[0]])
    leads = ladder.improvement(climbed, scaled[name])
    parts = [
        (leads[rung].error / (fmean(losses["Pre-Norm"][rung].values()) - floor) / span, leads[rung].freedom)
        for rung in climbs[:2]
    ]  # fmt: skip
    error = math.hypot(*(of for of, _ in parts))
    freedom = error**4 / sum(of**4 / degrees for of, degrees in parts)  # Welch and Satterthwaite
    gained, half = find_exponent(name, floor) - find_exponent("Pre-Norm", floor), float(student.ppf(0.975, freedom)) * error  # fmt: skip
    return gained, gained - half, gained + half


# %%
def describe_exponent(name):
    """A row: an arm's lead on both sizes, and its exponent for three floors beside Pre-Norm's."""
    row, plain = {"recipe": name.replace("*", "\\*")}, name == "Pre-Norm"
    leads = {} if plain else ladder.improvement(climbed, scaled[name])
    for rung in climbs[:2]:
        row[f"improvement at {rung}"] = "" if plain else f"{leads[rung]:+z.4f}"
    for floor in (0, 0.5, 0.9):
        row[f"exponent, E = {floor:g}"] = f"{find_exponent(name, floor):.3f}"
        above = "{:+.4f} [{:+.4f}, {:+.4f}]".format(*compare_exponents(name, floor))
        row[f"minus Pre-Norm's, E = {floor:g}"] = "" if plain else above
    return row


exponents = [describe_exponent(name) for name in scaled] if len(climbs) > 1 else []
plots.table(exponents or [{"recipe": "an exponent needs two sizes"}])


# %%
def claim_steeper(id, name, sizes="rung S to M"):
    """Claim that an arm's exponent from S to M is above Pre-Norm's."""
    ahead = ladder.improvement(climbed, scaled[name])[climbs[1]]
    gained, *interval = compare_exponents(name)
    span = math.log(counts[climbs[1]] / counts[climbs[0]])
    scale = fmean(losses["Pre-Norm"][climbs[1]].values()) * span
    exponents = computed(
        [gained + (value - ahead.mean) / scale for value in ahead.values], interval=interval
    ).tuned(ladder.improvement(climbed, scaled[name]).list_lacking())
    know_runs(exponents, ["pre", scaled[name]], climbs[:2]).claim(
        id,
        "> 0",
        f"From {sizes} {name}'s loss falls by a larger exponent than Pre-Norm's.",
        found="From size S to size M, for an irreducible loss of 0, Pre-Norm's scaling exponent of {own:.3f} is {apart:.4f} {side} {name}'s. For 0.9 nats, {name}'s exponent minus Pre-Norm's ({floored:.3f}) is {other:+.4f}.",
        source=f"{PAPER}, section 4.6 and Figure 6",
        published="superior scaling properties, of HybridNorm*",
        beside={
            "name": name,
            "own": find_exponent("Pre-Norm"),
            "floored": find_exponent("Pre-Norm", 0.9),
            "other": compare_exponents(name, 0.9)[0],
            "second value": "a floor of 0.9 nats",
        },
        domain=Domain(THEIRS["Figure 6"], describe_ours(*climbs[:2])),
    )


# %%
if len(climbs) > 1:
    grown = parameters(ladder.build_base_run("D24", "pre"))
    span = math.log(grown / counts[first])
    falls = {
        name: math.log(fmean(of[first].values()) / fmean(of["D24"].values()))
        for name, of in losses.items()
    }
    to_24 = ", ".join(f"{name} {fall / span:.3f}" for name, fall in falls.items())
    print(f"The exponent from S to D24, 24 blocks and {grown:,} parameters, E = 0: {to_24}.")
    claim_steeper("E-hybrid-scales-steeper", "HybridNorm")
    claim_steeper("E-star-scales-steeper", "HybridNorm*", "size S to size M,")

# %% [markdown]
r"""
A positive difference between the exponents means that the improvement, as a share of the loss above the floor, is larger at M than at S. This result is about growth in width, window and steps together: when models grow only in depth, to about the same number of parameters, HybridNorm and HybridNorm\* have smaller exponents than Pre-Norm (printed above). Two points also cannot show whether the trend would continue.

## Tables 1 and 2: averages over eight benchmarks

The paper's dense models of 1.2 billion parameters average 62.99 (Pre-Norm), 63.25 (HybridNorm) and 64.15 (HybridNorm\*) over eight benchmarks, and its mixtures average 64.95 (Pre-Norm) and 66.12 (HybridNorm\*) ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). Our models cannot answer such questions: **out of range**.
But we can compute the error of such an average. A share $p_i$ of right answers to $n_i$ questions has a variance of $p_i(1-p_i)/n_i$, so

$$\mathrm{SE} = \frac18\sqrt{\sum_{i=1}^{8} \frac{p_i(1-p_i)}{n_i}}, \qquad \mathrm{SE}_{\text{difference}} = \sqrt{2(1-r)}\;\mathrm{SE},$$

where $r$ is the unpublished correlation of two models' answers to the same questions. The released code ([commit f0dd605](https://github.com/BryceZhuo/HybridNorm)) uses ARC's validation splits, whereas the program that the paper names uses ARC's larger test splits ([Gu et al., 2024](https://arxiv.org/abs/2406.08446)), so we give the error for both. We treat each score as one count of right answers, but many scores are not such counts (second card below).
"""

# %%
questions = {
    "hellaswag": 10_042, "sciq": 1_000, "arc_c": 299, "arc_e": 570, "piqa": 1_838, "winogrande": 1_267,
    "openbookqa": 500, "boolq": 3_270, "copa": 100, "basic_arithmetic": 3_000,
}  # fmt: skip
larger = {**questions, "arc_c": 1_172, "arc_e": 2_376}  # ARC's test splits
tables = {
    f"Table {n}": {row["method"]: row for row in published(f"zhuo2025-table{n}")} for n in (1, 2)
}


# %%
def find_error(row, counted):
    """Standard error of an average over benchmarks, in points, and COPA's share of its square."""
    parts = {task: row[task] * (100 - row[task]) / n for task, n in counted.items() if task in row}
    return math.sqrt(sum(parts.values())) / len(parts), parts["copa"] / sum(parts.values())


def count_errors(table, method, counted):
    """How many standard errors an average leads Pre-Norm's by, for unrelated answers."""
    one, other = (find_error(tables[table][of], counted)[0] for of in ("Pre-Norm", method))
    return won[table, method] / math.hypot(one, other)


won = {
    (table, method): rows[method]["average"] - rows["Pre-Norm"]["average"]
    for table, rows in tables.items() for method in ("HybridNorm", "HybridNorm*") if method in rows
}  # fmt: skip
odds = {place: count_errors(*place, larger) for place in won}
coded = {place: count_errors(*place, questions) for place in won}
plots.table([
    {"table": table, "against Pre-Norm": method.replace("*", "\\*"), "improvement (points)": f"{won[table, method]:+.2f}", "ARC's split": split,
     "one standard error, r = 0": f"{won[table, method] / z:.2f}", "standard errors, r = 0": f"{z:.2f}", "r = 1/2": f"{z * math.sqrt(2):.2f}", "r for two errors": f"{max(0.0, 1 - z * z / 4):.2f}",
     "COPA's share of the variance, Pre-Norm": f"{find_error(tables[table]['Pre-Norm'], counted)[1]:.0%}"}
    for table, method in won
    for split, counted, z in (("validation", questions, coded[table, method]), ("test", larger, odds[table, method]))
])  # fmt: skip


# %%
def compare_task(table, method, task):
    """Points won in one task, and how many errors of counting that is for unrelated answers."""
    scores = [tables[table][of][task] for of in ("Pre-Norm", method)]
    error = math.sqrt(sum(p * (100 - p) / questions[task] for p in scores))
    return f"{scores[1] - scores[0]:+.2f} ({(scores[1] - scores[0]) / error:+.1f})"


plots.table([
    {"task: points (errors, r = 0)": task} | {
        f"{table}, {method}".replace("*", "\\*"): compare_task(table, method, task) if task in tables[table][method] else ""
        for table, method in odds
    }
    for task in questions
])  # fmt: skip

# %%
exact(max(odds.values())).claim(
    "E-benchmark-averages-are-within-two-errors",
    f"< {2 / math.sqrt(2):.4f}",
    "In the HybridNorm paper's Tables 1 and 2, no average score exceeds Pre-Norm's by two standard errors of counting, unless the models' answers have a correlation of more than a half.",
    found="In Tables 1 and 2, the largest difference from Pre-Norm's average is {mean:.1f} standard errors if the models' answers are uncorrelated ({less:.1f} with ARC's validation splits). It exceeds two standard errors if their correlation is above {needed:.2f} ({more:.2f}).",
    source=f"{PAPER}, Tables 1 and 2; numbers of questions: the released code at f0dd605, and Gu et al. 2024, arXiv 2406.08446",
    published="63.25 and 64.15 against 62.99; 66.12 against 64.95",
    beside={
        "less": max(coded.values()),
        "needed": 1 - max(odds.values()) ** 2 / 4,
        "more": 1 - max(coded.values()) ** 2 / 4,
    },
)


# %%
def is_count(score, n):
    """Whether a percentage with two digits after the point can be a whole number of n questions."""
    return abs(100 * round(score * n / 100) / n - score) <= 0.00501


cells = [
    (task, row[task]) for rows in tables.values() for row in rows.values() for task in questions if task in row
]  # fmt: skip
odd = [
    (task, score)
    for task, score in cells
    if not any(is_count(score, counted[task]) for counted in (questions, larger))
]
copa = [score for task, score in odd if task == "copa"]
exact(len(odd)).claim(
    "E-benchmark-scores-are-no-counts",
    "> 0",
    "Some scores in the HybridNorm paper's Tables 1 and 2 cannot come from a single evaluation of one model on all questions of the benchmark.",
    found="Of {cells} scores in Tables 1 and 2, {mean:.0f} do not correspond to a whole number of correct answers in either split of the benchmark. Among them are COPA's {dense:.2f} % and {mixed:.2f} %, although COPA has only a hundred questions.",
    source=f"{PAPER}, Tables 1 and 2; its Figure 1 is smoothed by a moving average",
    beside={"cells": len(cells), "dense": copa[0], "mixed": copa[1]},
)

# %% [markdown]
r"""
If COPA's scores are averages over checkpoints, the questions are still the same hundred, so the error hardly shrinks. Differences between training runs add a further error, whose size the tables do not give.

For single tasks, the paper calls the differences in BasicArithmetic (+3.11), HellaSwag (+1.71) and COPA (+3.78) substantial, and in Table 2 those in ARC-C, ARC-E and OpenbookQA significant ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). According to the table above (uncorrelated answers, ARC's validation splits), the differences in BasicArithmetic and HellaSwag exceed two standard errors of counting. COPA's is less than one standard error, and so are the three in Table 2 (with ARC's test splits, the two for ARC would exceed one). All eight signs agree in Table 2. If questions were the only noise, this would happen by chance once in 128 times (in either direction). But all eight scores of a method come from the same model, so a better seed could have the same effect.

## Tables 6 and 7: the settings

Chapter 06 compares Table 7 with our settings ([the setting, line by line](06_hybridnorm.ipynb#the-setting-line-by-line)). Table 6 describes six models by width, feed-forward width, heads and layers ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). With gates (three matrices per feed-forward layer) and only $h_{kv}$ heads of keys and values for $h$ heads, a block has

$$2d^2 + 2d^2\,\tfrac{h_{kv}}{h} + 3\,d\,f\,e$$

weights (without the router's) for width $d$ and $e$ experts of width $f$. Do the rows have as many parameters as their names say, and does the mixture have the 6.9 billion that the text states?
"""


# %%
def count_weights(row, width=None):
    """Parameters of a row of Table 6, gains left out."""
    d, f = row["dim"], width or row["ffn"]
    experts = 64 if row["experts"] else 1
    attention = 2 * d * d * (1 + row["kv_heads"] / row["heads"])
    block = attention + 3 * d * f * experts + (d * experts if experts > 1 else 0)
    return row["layers"] * block + row["vocab"] * d * (1 if row["tied"] == "True" else 2)


table6 = {row["model"]: row for row in published("zhuo2025-table6")}
names = {"Dense-151M": 151e6, "Dense-285M": 285e6, "Dense-550M": 550e6, "Dense-543M": 543e6, "MoE-1B-7B": 6.9e9}  # fmt: skip
off = {name: abs(count_weights(table6[name]) / n - 1) for name, n in names.items()}
as_printed, as_coded = (count_weights(table6["Dense-1.2B"], width) for width in (9192, 8192))
# %%
exact(max(off.values())).claim(
    "E-table-6-counts-up",
    "< 0.01",
    "In the HybridNorm paper's Table 6, four dense models have as many parameters as their names say, and the mixture has the 6.9 billion that the text states, all with an error of less than a hundredth.",
    found="In Table 6, four dense models have as many parameters as their names say, and the mixture has 6.9 billion, all with an error of at most {mean:.1%}. The sixth model has {printed:.2f} billion parameters as printed and {coded:.2f} billion as coded.",
    source=f"{PAPER}, Table 6 and section 4.1; the released code at f0dd605",
    beside={"printed": as_printed / 1e9, "coded": as_coded / 1e9},
)

# %% [markdown]
r"""
For the sixth model, the parameter count in the text (1.27 billion) agrees with the feed-forward width in the table (9192), and the name (1.2B) agrees with the released code (8192) ([Zhuo et al., 2025](https://arxiv.org/abs/2503.04598)). In Table 7, the mixture's smallest learning rate, 5e-5, is not a tenth of its largest, 4e-4. For the dense model and in the released configuration it is a tenth ([commit f0dd605](https://github.com/BryceZhuo/HybridNorm)).

## What is not here

[Chapter 06](06_hybridnorm.ipynb) covers HybridNorm's block line by line and its pseudo-code, [chapter 04](04_qk_norm.ipynb) QK-Norm alone, and [appendix C](C_zoo.ipynb) Mix-LN. We measured no benchmark, no robustness to noise, and no mixture with many more parameters than the dense model.

## Exercises

**1 (by hand).** Model B has four times the parameters of model A. A's final loss is 1.4 nats, and B's is 1.2 nats. What is the exponent of $\mathcal L = E + A\,n^{-\alpha}$ for $E = 0$, and for $E = 0.8$?
"""

# %% tags=["exercise"]
yours = {"E = 0": ..., "E = 0.8": ...}

# %%
truth = {
    f"E = {floor:g}": math.log((1.4 - floor) / (1.2 - floor)) / math.log(4) for floor in (0, 0.8)
}
check.answer(yours, truth, name="1", rtol=0.02, hint="subtract E first; the ratio of sizes is 4")

# %% [markdown]
r"""
<details><summary>Hint</summary>

Subtract $E$ from both losses, take logarithms, and divide the differences.

</details>
<details><summary>Solution</summary>

$\alpha(0) = \ln(1.4/1.2)/\ln 4 \approx 0.111$; $\alpha(0.8) = \ln(0.6/0.4)/\ln 4 \approx 0.292$. The same two losses give both exponents, so the choice of the floor decides the exponent.

</details>

**2 (in code).** Write the block of the row Pre-Post. `attention` and `feed_forward` are functions of the stream, and `norm_attention` and `norm_feed_forward` are the two norms.
"""


# %% tags=["exercise"]
def my_pre_post(x, attention, feed_forward, norm_attention, norm_feed_forward):
    """One block of the row Pre-Post."""
    return ...


# %%
def check_pre_post(given):
    """Hold a block against the equations of Pre-Post."""
    return check.block(given, "pre-post")


check_pre_post(my_pre_post)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Only the branch reads the first norm's output. Both the skip and the branch read the second norm's output.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_pre_post(x, attention, feed_forward, norm_attention, norm_feed_forward):
    """Return the block of the table above."""
    y = norm_feed_forward(x + attention(norm_attention(x)))
    return y + feed_forward(y)


assert check_pre_post(solved_pre_post).ok

# %% [markdown]
r"""
**3 (proof).** Show that under QKV-norm, for $d_k \ge d$ and one head, $\|\partial H/\partial W_Q\|_F \le \sqrt s\,d_k\,\|W_O\|_2/\sigma_{\min}(W_Q)$. First find a head
that reaches this bound: two tokens, $d = d_k = 4$, and four matrices.
"""

# %% tags=["exercise"]
my_head = {"x": ..., "q": ..., "k": ..., "v": ..., "out": ...}  # lists of rows


# %%
def check_head(given):
    """Say what share of the bound for W_Q a head reaches."""
    if any(value is ... for value in given.values()):
        return check.answer(..., 1.0, name="3")
    tensors = {n: torch.tensor(value).double() for n, value in given.items()}
    share = compare_to_bounds(tensors.pop("x"), tensors)["q"]
    hint = "opposite tokens, keys at right angles to queries"
    return check.answer(share, 1.0, name="3", hint=hint, rtol=1e-6)


check_head(my_head)

# %% [markdown]
r"""
<details><summary>Hint</summary>

A covariance of values and keys is largest when both take two opposite values, each half of the time. When does the projection in $\partial N(q)/\partial q$ remove nothing?

</details>
"""

# %% tags=["solution"]
# Solution
one = torch.eye(4).tolist()
turned = torch.eye(4).roll(1, 1).tolist()
solved_head = {"x": [[1.0, 0, 0, 0], [-1.0, 0, 0, 0]], "q": one, "k": turned, "v": one, "out": one}
assert check_head(solved_head).ok

# %% [markdown]
r"""
<details><summary>Solution</summary>

Let $a$ be the attention weights of token $i$. A change $dq$ of its normalized query changes the output by $W_O^\top C\,dq/\sqrt{d_k}$, where $C = \sum_j a_j (v_j - \bar v)(k_j - \bar k)^\top$ is the
covariance of values and keys. All $v_j$ and $k_j$ have the length $\sqrt{d_k}$, so by the Cauchy–Schwarz inequality $\|C\|_F \le d_k$. The norm's derivative is
$\sqrt{d_k}\,(I - \hat q\hat q^\top)/\|q\|$, and a projection does not increase a Frobenius norm. With $dq = dW_Q^\top x_i$, the derivative of row $i$ of $H$ therefore has a norm of at most
$\|W_O\|_2\,d_k\,\|x_i\|/\|q_i\| \le d_k\,\|W_O\|_2/\sigma_{\min}(W_Q)$, since $\|W_Q^\top x\| \ge \sigma_{\min}\|x\|$ for $d_k \ge d$. Sum the squares over $s$ tokens. $\square$

</details>

**4 (open).** In Tables 1 and 2, COPA, with a hundred questions, contributes more to the variance of an average of eight than any other benchmark. How should eight benchmarks of different sizes be averaged if one wants to distinguish two models? What does that average no longer show?
"""

# %% tags=["exercise"]
my_answer = "…"
dense = tables["Table 1"]["Pre-Norm"]
variances = {
    task: dense[task] * (100 - dense[task]) / n for task, n in questions.items() if task in dense
}
print({task: round(variance, 2) for task, variance in variances.items()})  # in points squared

# %% [markdown]
r"""
## References

Works cited: [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), [Li et al. (2025)](https://arxiv.org/abs/2412.13795), [Gu et al. (2024)](https://arxiv.org/abs/2406.08446). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
