# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Choosing a norm

**Question.** You will train a model tomorrow, and somebody asks which norm it should have, and where. There is an answer that everybody gives: *RMSNorm, in Pre-Norm position, and QK-Norm if the model is large.* It is a good answer. But on what does it
stand? Give eight recipes of this book the same text, the same budget of arithmetic and the same care with the learning rate. Some recipe will come first, because something always does. **How would that list look if all eight were equally good?** And if you cannot tell the
two lists apart, what is left to choose by?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- a leaderboard of recipes that are *exactly equal*, how convincing it looks, and what five seeds can see;
- what makes a contest fair: a budget that is counted, rates that are tuned, seeds that are paired, and a price for every comparison;
- eight recipes and a norm of your own under one budget, with the groups that can be told apart, and those that cannot;
- loss over learning rate and depth for each recipe: the ranking turns while you move the rate;
- a decision table whose verdicts nobody typed: each row of advice hangs on recorded claims of the chapters before;
- symptom, probe, cause, fix: eight sick runs and their cures, told apart by a program;
- your own norm, from one file, through every check and onto the leaderboard; and what nobody knows yet.
"""

# %%
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch

from labkit import TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.experiments import Experiment, Lab, claim, ladder, minus, proportion
from labkit.leaderboard import starter
from labkit.leaderboard.contest import FLOPS, MAIN, RATES, Contest
from labkit.leaderboard.entries import entries, entry
from labkit.leaderboard.standings import standings
from labkit.model import Perturbed
from labkit.placements import RECIPES
from labkit.source import show

lab = Lab(
    "10_choosing_a_norm",
    size=size,
    seed=seed,
    memory={"kernel": "1200M", "run": "850M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    drawn=(100, 2000, 20_000),
    flops=(3e8, FLOPS, 5e11),
    rates=((1e-2, 2e-2), RATES, (1.5e-3, 3e-3, *RATES, 0.1)),
    names=(MAIN, MAIN, tuple(RECIPES)),
    seeds=(5, 5, 10),
    tuning_seeds=(1, 2),
    depth=(2, 6),
    held_out=(512, 8_192, 65_536),
    map_steps=(2, 40, 300),
    map_held_out=(512, 4096, 16_384),
    map_depths=([1, 2], [4, 12], [4, 12, 24, 48]),
    map_rates=([3e-3, 1e-2], [3e-3, 1e-2, 3e-2, 1e-1], [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]),
    map_seeds=(2, 3, 5),
    ward_steps=(2, 40, 200),
    ward_held_out=(512, 2048, 8192),
    ward_depth=(2, 12),
    ward_post_depth=(2, 8),
    patients=(1, 3, 5),
)

# %% [markdown]
r"""
## The idea: a ranking of equals

Two recipes, five seeds each. Their test losses are

| seed | 0 | 1 | 2 | 3 | 4 | mean |
| --- | --- | --- | --- | --- | --- | --- |
| A | 2.1 | 2.3 | 2.2 | 2.4 | 2.0 | 2.2 |
| B | 2.2 | 2.4 | 2.2 | 2.6 | 2.1 | 2.3 |

Side by side the lists overlap: their standard deviations are $0.16$ and $0.2$, and the means differ by $0.1$. But seed 3 is hard for both, and seed 4 easy for both: with one seed they see the same batches. Look at the differences seed by seed: $0.1, 0.1, 0, 0.2, 0.1$. Their mean is $0.1$ and their standard
deviation $\sqrt{(0 + 0 + 0.01 + 0.01 + 0)/4} \approx 0.07$. Student's $t$ is $0.1/(0.07/\sqrt5) \approx 3.2$, beyond the $2.8$ that four degrees of freedom ask for. **Pairing** took away what the two had in common.

Now the trap. With eight recipes there are $8\cdot7/2 = 28$ such pairs. Each test errs in one case of twenty. If all eight are equal, we expect $28/20 = 1.4$ false findings on a leaderboard, *on average*.
Let a program draw boards on which nobody is better: the losses are a seed's luck plus a run's luck, and no recipe enters.
"""

# %%
from scipy.stats import t as student

from labkit.statistics.holm import adjusted
from labkit.statistics.seeds import paired_p

recipes, seeds_each, draws = 8, 5, sizes.drawn
rng = np.random.default_rng(seed)
equals = rng.normal(size=(5, draws, recipes, seeds_each))
equals += rng.normal(size=(5, draws, 1, seeds_each))  # a seed is easy or hard for all
pairs = list(combinations(range(recipes), 2))
gaps = np.stack([equals[:, :, a] - equals[:, :, b] for a, b in pairs], axis=2)
t_values = gaps.mean(-1) / gaps.std(-1, ddof=1) * seeds_each**0.5
p_values = 2 * student.sf(abs(t_values), seeds_each - 1)
print("as labkit has it:", np.isclose(p_values[0, 0, 0], paired_p(*equals[0, 0, :2])))

# %%
raw = (p_values.min(-1) <= 0.05).mean(-1)
claim(
    "10-equals-look-different",
    "Of the leaderboards of eight equal recipes, {mean:.0%} have a pair that differs “significantly”.",
    raw.tolist(),
    said="Leaderboards of equal recipes often show a “significant” difference.",
    source="28 tests at 5 %; all pairs of one board",
    published="1 − 0.95²⁸ = 76 % if the 28 tests were independent",
    criterion="> 0.3",
    kind="at",
)


# %%
def survives(p):
    """Say whether any p-value of one board is at most 0.05 after Holm's adjustment."""
    return min(adjusted(dict(enumerate(p))).values()) <= 0.05


kept = [survives(p) for part in p_values for p in part.tolist()]
claim(
    "10-holm-keeps-the-level",
    "With p-values adjusted by Holm, {mean:.1%} of them have one.",
    proportion(kept),
    said="Adjusted by Holm, few leaderboards of equals show a difference.",
    source="Holm 1979: at most 5 %, whatever the dependence",
    criterion="<= 0.07",
    kind="at",
)

# %%
claim(
    "10-the-first-of-equals-leads",
    "The first of eight equals leads their mean by {mean:.2f} standard deviations of one run.",
    (equals.mean((2, 3)) - equals.mean(-1).min(-1)).mean(-1).tolist(),
    said="The first of eight equals leads their mean by chance alone.",
    source="the winner's curse: the expected smallest of eight means of five",
    published="1.42/√5 = 0.64 for eight independent normal means",
    criterion="> 0.4",
    kind="at",
)

# %% [markdown]
r"""
Keep the last number in mind: it is what "ours is better than the average by half a standard deviation" is worth, when eight were tried and one is reported. The leaderboard below pays for all of its comparisons, and so will the reader's own norm. Cards about one pair do not, so read each of them as one question.

### What five seeds can see

The price has a second side: what it hides. To pass Holm's first step among $m$ pairs, a difference needs $|t| \ge t_{1-0.025/m}$ with $n - 1$ degrees of freedom, that is a mean difference of $t\,s/\sqrt n$ when seeds' differences scatter by $s$. How many $s$ is that?
"""

# %%
rows = []
for n in (3, 5, 10, 20):
    needed = {m: student.isf(0.025 / m, n - 1) / n**0.5 for m in (1, 28)}
    rows.append({"seeds": n, "one pair": needed[1], "one of 28 pairs": needed[28]})
plots.table(rows)

# %%
claim(
    "10-five-seeds-see-large-differences",
    "Among 28 pairs five seeds tell a difference from chance when it is {mean:.1f} times its own scatter.",
    rows[1]["one of 28 pairs"],
    said="Five seeds tell only large differences from chance.",
    source="Student's t with 4 degrees of freedom at 0.05/28",
    criterion="> 3",
    kind="exact",
)

# %% [markdown]
r"""
So "not told apart" is weak praise. It does not say that two recipes are equal; it says that five seeds and 28 questions cannot see the difference. If you care about *one* pair, name it before the run: then less than half of that difference is enough. This is why the chapters before this one compare pairs, each with its own claim, and why the board below is a summary and no
verdict on any of them.

## Derivation: a fair contest

### A budget that can be counted

Equal *steps* would favour expensive steps. Equal *seconds* depend on the machine, its load and who wrote the kernel (chapter 09). We take equal **operations**: the same number on every computer. For one token, a block of width $d$ with a SwiGLU of width $h$ and a window of $T$ tokens multiplies and adds

$$\underbrace{2\cdot 4d^2}_{q,\,k,\,v,\,o} + \underbrace{2\cdot 3dh}_{\text{feed-forward}} + \underbrace{2\cdot 2Td}_{\text{scores, averages}},$$

and the output matrix another $2dV$ with $V$ tokens in the vocabulary. A backward pass costs about twice the forward, so a training step on $n$ tokens is $3n$ times all of this, blocks and output, plus the norms' own arithmetic. Let us see whether `labkit.costs`, which counts while a model runs, agrees with the formula.
"""

# %%
contest = Contest(
    flops=sizes.flops,
    rates=sizes.rates,
    seeds=tuple(lab.seeds(sizes.seeds)),
    tuning_seeds=sizes.tuning_seeds,
    depth=sizes.depth,
    held_out=sizes.held_out,
)
model, window = contest.base.model, contest.time
d, h, V = model.dim, model.hidden_dim, model.vocab
by_hand = model.depth * (2 * (4 * d * d + 3 * d * h) + 4 * window * d) + 2 * d * V
cost = contest.cost(entry("none"))
counted = cost.operations / (3 * contest.batch * window)
print(f"by hand {by_hand:,}, counted {counted:,.0f} operations a token, forward")

# %%
claim(
    "10-operations-by-hand",
    "For the network without norms, count and formula differ by {mean:.0f} operations a token.",
    counted - by_hand,
    said="Counted operations agree with the formula.",
    source="the formula above",
    criterion="in [0, 0]",
    kind="exact",
    tolerance=0,
)

# %% [markdown]
r"""
### Many comparisons, one level

Sort the $m$ p-values, $p_1 \le \dots \le p_m$. Bonferroni compares each with $0.05/m$. **Holm** ([Holm, 1979](https://www.jstor.org/stable/4615733)) compares the smallest with $0.05/m$, the next with $0.05/(m-1)$, and so on, and stops at the first that fails. Why may the second get an easier limit? If the first was a true finding, only $m - 1$ true hypotheses can
be left; if it was a false one, the error is made already, and one false finding counts as much as two. Exercise 6 turns this into a proof. In terms of adjusted p-values: $\tilde p_i = \max_{j\le i}\min\big(1, (m - j + 1)\,p_j\big)$.
"""

# %%
from labkit.leaderboard.letters import letters

show(adjusted, letters)

# %% [markdown]
r"""
### Letters instead of ranks

28 verdicts do not fit a list, but letters do: **two entries share a letter exactly where they were not told apart.** An entry may have several. "a, ab, b" reads: the first and the last differ, and the middle one is told apart from neither. Being "not told apart" is not an order relation: A may equal B and B equal C while
A and C differ. That is why a rank lies and a letter does not. The function above splits and absorbs sets ([Piepho, 2004](https://doi.org/10.1198/1061860043515)). Is it right? Try it on random verdicts.
"""

# %%
rng, wrong = np.random.default_rng(seed), 0
for _ in range(300):
    who = list("ABCDEFG")[: rng.integers(2, 8)]
    differ = {pair for pair in combinations(who, 2) if rng.random() < rng.random()}
    shown = letters(who, differ)
    same = {(a, b) for a, b in combinations(who, 2) if set(shown[a]) & set(shown[b])}
    wrong += len(same ^ (set(combinations(who, 2)) - differ))
claim(
    "10-letters-say-the-pairs",
    "On 300 random sets of verdicts the letters get {mean:.0f} pairs wrong.",
    wrong,
    said="Two entries share a letter exactly where no test tells them apart.",
    source="Piepho 2004: share a letter exactly where not told apart",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
## Implementation

A contest is a base run, a budget and a grid of rates. An entry says what it changes. Here is all that decides how long an entry may train, and who wins:
"""

# %%
show(Contest.steps, Contest.tuning, Contest.final)

# %% [markdown]
r"""
The entries are the eight recipes that this book spent most time with, each with the warm-up that belongs to its method (Post-Norm takes nearly a third of its steps, nGPT none) and with weights that suit it: small branches, unless the method brings an initialization of its own. From Xavier's weights the order would be another (chapters 02, 05 and 06). And there is one stranger: a norm from a *file*, which divides by the mean absolute value. Nobody has told `labkit` about it. More of that below.
"""

# %%
field = entries([*sizes.names, starter.__file__])
plots.table(
    [
        {
            "entry": e.name,
            "operations a step": f"{contest.cost(e).operations:.4g}",
            "steps": contest.steps(e),
            "norms a token": contest.cost(e).norms,
            "norms' share of operations": f"{contest.cost(e).norm_share:.2%}",
            "kept for backward": f"{contest.cost(e).kept / 2**20:.1f} MiB",
        }
        for e in field
    ]
)

# %%
claim(
    "10-norms-are-few-operations",
    "The entry with the most has {mean:.1%} of its operations in norms, at width 32.",
    max(contest.cost(e).norm_share for e in field),
    said="Norms are a small part of a model's operations.",
    source="norm arithmetic against matrix products; the share falls like 1/width",
    criterion="< 0.05",
    kind="exact",
)

# %%
claim(
    "10-ngpt-keeps-more",
    "nGPT keeps {mean:.2f} times the bytes that Pre-Norm keeps for its backward pass.",
    contest.cost(entry("ngpt")).kept / contest.cost(entry("pre")).kept,
    said="nGPT keeps more bytes for its backward pass than Pre-Norm.",
    source="tensors that autograd saves, unfused",
    criterion="> 1.2",
    kind="exact",
)

# %%
claim(
    "10-budgets-are-equal",
    "The budget that an entry leaves unused is at most {mean:.1%}, less than one step.",
    max(1 - contest.steps(e) * contest.cost(e).operations / contest.flops for e in field),
    said="All entries of the leaderboard get the same budget of operations.",
    source="steps = floor(budget / operations of a step)",
    criterion="< 0.02" if size != "smoke" else "< 1",
    kind="exact",
)

# %% [markdown]
r"""
So the budget hardly punishes anybody: in *operations* norms are nearly free. In memory they are not. An unfused norm keeps its input for the backward pass; what it costs to move such bytes is what chapter 09 is about.

## Predict

Write down, before you scroll:

1. Eight recipes, each at the best of four rates: which is first, which last, and what is the distance between second and seventh?
2. Where does the network *without any norm* end? (Its weights are drawn small.)
3. With the stranger there are nine entries and 36 pairs. How many can five seeds tell apart?
4. Which recipe trains at the widest range of rates, and which at the narrowest?
5. Does it matter whether one divides by the root mean square or by the mean absolute value?

## Measure

**What was chosen, and when?** Two pilots with this code fixed the sizes: a budget of about 80 steps. They had shown that the network without norms is not last, that dynamic tanh is, and that Post-Norm's kind fails at the highest rates. The criteria below were
written after these pilots and before the runs that you see.

### Eight recipes and a stranger, one budget

Six blocks of width 32, batches of sixteen windows of 32 characters, SwiGLU, Adam with a linear schedule. Every entry trains at four rates, each twice as high as the last, with two seeds; the best by validation loss runs with five seeds, and its *test* loss counts.
"""

# %%
tuned = lab.run(contest.tuning(field))

# %%
final = lab.run(contest.final(field, tuned))
board = standings(contest, field, tuned, final)
board

# %%
plots.dots(
    {row.name: list(row.values) for row in board.rows},
    xlabel="test loss (nats)",
    caption="Each entry at its own best rate under one budget, best first. Most intervals overlap; what "
    "the pairs say stands in the column of letters above.",
    provenance=lab.provenance(final),
)

# %% [markdown]
r"""
Read the letters before the ranks. Whoever shares one with the first entry may be the first next time. (And note how a wide interval wins letters: an entry whose seeds scatter is told apart from few.)

Now the claims that chapters before this one made for one pair at a time, here all against Pre-Norm. Each card is a plain interval for its one pair, without Holm's correction: a card may hold where the letters, which pay for all pairs, do not tell the two apart.
"""

# %%
loss = {name: part.values("test.loss") for name, part in final.by("entry").items()}


def against_pre(name):
    """Nats by which an entry ends below Pre-Norm, seed by seed."""
    return minus(loss["pre"], loss[name])


claim(
    "10-no-norm-beats-pre-each-tuned",
    "The loss without norms lies {mean:+.3f} nats below Pre-Norm's (a minus: above).",
    against_pre("none"),
    said="With each at its own rate, small branches without norms end below Pre-Norm.",
    source="this chapter, on small branches without norms (chapter 00)",
    criterion="> 0",
    kind="best",
)

# %%
claim(
    "10-post-beats-pre-each-tuned",
    "Post-Norm's loss, warmed up, lies {mean:+.3f} nats below Pre-Norm's (a minus: above).",
    against_pre("post"),
    said="With each at its own rate and warmed up, Post-Norm ends below Pre-Norm.",
    source="Nguyen and Salazar 2019, arXiv 1910.05895 (WMT14 En–De)",
    published="Post 27.58, Pre 26.83 BLEU",
    criterion="> 0",
    kind="best",
    domain="translation models trained to the end",
    ours=f"{contest.depth} blocks of width {contest.dim}, {contest.steps(entry('pre'))} steps",
    in_range=False,
)

# %%
claim(
    "10-hybrid-beats-pre-each-tuned",
    "HybridNorm*'s loss lies {mean:+.3f} nats below Pre-Norm's (a minus: above).",
    against_pre("hybrid*"),
    said="With each at its own rate, HybridNorm* ends below Pre-Norm.",
    source="Zhuo et al. 2025, arXiv 2503.04598, Table 4 (550M parameters)",
    published="below Pre-Norm in perplexity",
    criterion="> 0",
    kind="best",
    domain="550M parameters, 16 layers, 400B tokens",
    ours=f"{contest.depth} blocks of width {contest.dim}, {contest.steps(entry('pre'))} steps",
    in_range=False,
)

# %%
claim(
    "10-ngpt-beats-pre-each-tuned",
    "nGPT's loss lies {mean:+.3f} nats below Pre-Norm's (a minus: above).",
    against_pre("ngpt"),
    said="With each at its own rate, nGPT ends below Pre-Norm.",
    source="Loshchilov et al. 2025, arXiv 2410.01131",
    published="the same loss in 4 to 20 times fewer steps",
    criterion="> 0",
    kind="best",
    domain="24 layers and more, 1k to 8k tokens, 200k steps and more",
    ours=f"{contest.depth} blocks of width {contest.dim}, {contest.steps(entry('pre'))} steps",
    in_range=False,
)

# %%
claim(
    "10-dyt-is-behind-pre-each-tuned",
    "Dynamic tanh ends {mean:.3f} nats above Pre-Norm.",
    minus(loss["dyt"], loss["pre"]),
    said="With each at its own rate, Dynamic Tanh ends above Pre-Norm.",
    source="Zhu et al. 2025, arXiv 2503.10622: level with RMSNorm in LLaMA models",
    criterion="> 0.05",
    kind="best",
)

# %%
claim(
    "10-qk-norm-changes-little-each-tuned",
    "QK-Norm changes the tuned loss by {mean:+.3f} nats.",
    minus(loss["qk"], loss["pre"]),
    said="With each at its own rate, QK-Norm changes the loss by little.",
    source="often said: the cost of QK-Norm is negligible",
    criterion="in [-0.02, 0.02]",
    kind="best",
    effect=0.08,  # nats: what lies between the first of the board and the last but dynamic tanh
)

# %%
told = [p <= 0.05 for p in board.pairs.values()]
claim(
    "10-most-pairs-are-not-told-apart",
    f"Of {len(told)} pairs, {{mean:.0%}} are told apart by five seeds after Holm's correction.",
    sum(told) / len(told),
    said="Most pairs of the leaderboard are not told apart.",
    source="this leaderboard",
    criterion="< 0.5",
    kind="at",
    tolerance=0.3,
)

# %% [markdown]
r"""
### The same question, forty times longer

After eighty steps a model has hardly learned more than which character follows which. So some arms ran again, on a *ladder* that this book's chapters share. Its first rung, S, has the same width and depth, but 3,200 steps, 20 characters a parameter; the next, M, has twice the width and reads four times as much. Each arm has its own rate out of seven. One seed chooses the rate and never reports; five fresh ones report. Chapters 06 and 08 read other arms of it. Before you look: which gap of the board above will still be there?

A pilot with three seeds, one of which also chose the rate, had QK-Norm 0.01 nats ahead of Pre-Norm, the two versions of HybridNorm level with it, and the model without norms 0.02 behind. The criteria were written after that.
"""

# %%
climbers = ["pre", "post", "qk", "hybrid", "hybrid*", "qkv-pre", "deepnorm", "ngpt", "none", "dyt"]
climbed = lab.ladder([*climbers, "no attention"])
first, *_ = climbed.by("rung")
curves = ["pre", "none", "ngpt", "no attention"]
shown = climbed.where(arm=curves, stage="final", rung=first, seed=ladder.SEEDS[0])
plots.loss_curves(
    {arm: part.values(lambda record: record.losses) for arm, part in shown.by("arm").items()},
    reference=ladder.references(first),
    ylim=(1.2, 3.2),
    caption="Training losses of one seed, beside what counts of pairs and of triples of characters reach on "
    "the test windows. Without attention a model ends where pairs do; all others end far below triples.",
    provenance=lab.provenance(shown),
)

# %%
largest = ladder.shared_rung(climbed, climbers)
losses = {arm: ladder.reported(climbed, arm)[largest] for arm in climbers}
plots.dots(
    {
        arm: list(of_seed.values())
        for arm, of_seed in sorted(
            losses.items(), key=lambda item: float(np.mean([*item[1].values()]))
        )
    },
    xlabel="test loss (nats)",
    caption=f"Ten arms on rung {largest}, each at its own best rate, best first: five seeds, none of which "
    "chose a rate.",
    provenance=lab.provenance(climbed.where(stage="final")),
)

# %%
claim(
    "10-ladder-qk-norm-beats-pre",
    "On rung {rung} QK-Norm's loss lies {mean:+.4f} nats below Pre-Norm's (a minus: above).",
    ladder.lead(climbed, "qk"),
    said="Tuned, QK-Norm ends below Pre-Norm.",
    source="this book's pilot: ahead of Pre-Norm by 0.01 nats",
    criterion="> 0",
    kind="best",
    lacking=ladder.lacking(climbed, "qk"),
)
claim(
    "10-ladder-a-norm-lowers-the-best-loss",
    "On rung {rung} the model without norms ends {mean:+.4f} nats below Pre-Norm (a minus: above).",
    ladder.lead(climbed, "none"),
    said="Tuned, the model without norms ends above Pre-Norm.",
    source="this book's pilot: behind by 0.02 nats",
    criterion="< 0",
    kind="best",
    lacking=ladder.lacking(climbed, "none"),
)

# %%
claim(
    "10-ladder-hybrid-beats-pre",
    "On rung {rung} HybridNorm*'s loss lies {mean:+.4f} nats below Pre-Norm's (a minus: above).",
    ladder.lead(climbed, "hybrid*"),
    said="Tuned, HybridNorm* ends below Pre-Norm.",
    source="Zhuo et al. 2025, arXiv 2503.04598, Table 4 (550M parameters)",
    published="below Pre-Norm in perplexity",
    criterion="> 0",
    kind="best",
    lacking=ladder.lacking(climbed, "hybrid*"),
    domain="550M parameters, 16 layers, 400B tokens",
    ours="six blocks, 20 characters a parameter (the shared ladder)",
    in_range=False,
)

# %%
claim(
    "10-ladder-dyt-behind-pre",
    "On rung {rung} DyT ends {mean:+.4f} nats below Pre-Norm (a minus: above).",
    ladder.lead(climbed, "dyt"),
    said="Tuned, Dynamic Tanh ends above Pre-Norm.",
    source="this book's board of eighty steps: behind Pre-Norm; Zhu et al. 2025, arXiv 2503.10622",
    published="level with RMSNorm in LLaMA 7B to 70B",
    criterion="< 0",
    kind="best",
    lacking=ladder.lacking(climbed, "dyt"),
    domain="LLaMA 7B to 70B, 200B tokens, first values of α chosen by width",
    ours="six blocks, 20 characters a parameter, the recipe's first values of α (the shared ladder)",
    in_range=False,
)

# %%
plots.table(ladder.table(climbed), digits=4)

# %% [markdown]
r"""
The column *lost* is what a rate costs that nobody tuned: the mean loss over five rates from $0.001$ to $0.1$, minus the best of them, where a run that failed counts as one that knows letter frequencies alone ([Wortsman et al., 2024](https://arxiv.org/abs/2309.14322)). It has one seed, so it is a sighting. But it separates what the losses do not: at their best rates most of these arms lie within hundredths of a nat; over the range, some lose ten times as much as others.
"""

# %% [markdown]
r"""
Three things to take from the two boards.

**No norm at all is a contender.** Small branches (chapter 00) can keep six blocks tame without one; why the rest goes as well as it does, we did not take apart. It even ends below DyT, which was made to take the norms' place; DyT has the recipe's first values of $\alpha$ here, and nobody tuned them. If your prediction put it last, ask whether you had *needed* in mind or *useful when the rate is not tuned*: look at its entry under *lost*. The next section goes on with that.

**Eighty steps rank starts.** In the figure of training losses nGPT falls fastest at first, for it needs no warm-up, and ends above the others. On the short board Post-Norm's mean was ahead of Pre-Norm's, and HybridNorm\*'s behind it. After 3,200 steps, each at its own rate, both intervals contain zero in our run. The cards on published orders are out of range even so: those were measured at other sizes, with other text and far longer. That a difference does not show here does not refute it where it was found. It only says that it is not found everywhere.

**Edges.** An entry marked "end of the grid" may not be at its best. We show it rather than widen the grid until everybody looks good; the size `gpu` has a grid of seven rates.

### What the rate and the depth do to the ranking

The contest chose each entry's rate. Nobody does that for you in a large run, so the *range* of rates at which a recipe trains may matter more than its best loss. Four rates, two depths, three seeds, forty steps with batches of eight; each recipe with its own initialization, but all with the same warm-up, a tenth of the steps. (That is less than Post-Norm had in the contest, and more than nGPT had.) QK-Norm sits out, and one more takes part: RealFormer, Post-Norm whose
attention logits add up from block to block, said to be more robust to hyper-parameters ([He et al., 2021](https://arxiv.org/abs/2012.11747)).
"""

# %%
quick = sizes.map_steps
small = replace(
    contest.base,
    data=Text(batch=8, time=32, held_out=sizes.map_held_out),
    train=TrainConfig(steps=quick, warmup=quick // 10, schedule="linear"),
    probes=("validation",),
)
some = [*[n for n in MAIN if n != "qk"], "realformer"]
arms = {name: {"model.recipe": name} for name in (RECIPES if size == "gpu" else some)}
axes = {
    "model.depth": sizes.map_depths,
    "train.lr": sizes.map_rates,
    "seed": lab.seeds(sizes.map_seeds),
}
maps = lab.run(Experiment(small, {"arm": arms, **axes}))

# %% [markdown]
r"""
How would a run look that learned nothing but the frequency of each character?
"""

# %%
corpus = small.data.load()
stream = corpus.train(seed=seed)
seen = torch.cat([next(stream)[1].flatten() for _ in range(400)])
counts = torch.bincount(seen, minlength=96) + 1
targets = torch.cat([y.flatten() for _, y in corpus.held_out["validation"]])
unigram = -(counts / counts.sum()).log()[targets].mean().item()
print(f"letter frequencies alone: {unigram:.3f} nats per character")

# %%
lost = float("nan")


def mean_loss(part):
    """Average over seeds; not a number where one diverged."""
    values = [lost if v is None else v for v in part.values("validation.loss")]
    return float(np.mean(values))


cells = {
    arm: {
        (depth, rate): mean_loss(cell)
        for depth, row in part.by("depth").items()
        for rate, cell in row.by("lr").items()
    }
    for arm, part in maps.by("arm").items()
}

# %%
plots.grid_map(
    panels={arm: cells[arm] for arm in some},
    row_label="depth",
    col_label="learning rate",
    value_label="validation loss (nats)",
    limits=(2.4, 3.2),
    caption="Rate and depth, mean of three seeds. Pale cells learned, dark ones stopped at letter "
    "frequencies, hatched ones diverged. The plain network is good in a corner and gone outside it.",
    provenance=lab.provenance(maps),
)

# %% [markdown]
r"""
Each panel has its own shape, and the shape shows how the recipe fails. Without norms the loss *diverges*: a cliff that you cannot miss. Post-Norm and its kin, and dynamic tanh, do not diverge, they get *stuck* at letter frequencies: the failure looks like a model that learns slowly. Pre-Norm fades. nGPT asks for high rates, and is slow at low ones.

Now move the rate yourself, and watch who leads:
"""

# %%
deepest = max(axes["model.depth"])


def ranking(rate):
    """Draw every recipe's losses at one rate, best first."""
    here = {arm: part.where(depth=deepest, lr=rate) for arm, part in maps.by("arm").items()}
    groups = {a: [min(v, 6.0) for v in p.values("validation.loss") if v] for a, p in here.items()}
    alive = sorted((a for a in groups if groups[a]), key=lambda a: np.mean(groups[a]))
    return plots.dots(
        {a: groups[a] for a in alive},
        xlabel="validation loss (nats)",
        threshold={"letter frequencies": unigram},
        title=f"rate {rate:g}, {deepest} blocks",
        caption="Who leads at this rate.",
    )


plots.explore(
    ranking,
    axes["train.lr"],
    "rate-and-rank",
    label="learning rate",
    caption="The ranking at one rate for all. Recipes that diverged in every seed are missing. A "
    "paper that tunes nobody, or only its own method, picks one of these pictures.",
)

# %%
from scipy.stats import rankdata


def losses_at(rate, s):
    """List the losses of all recipes at one rate and seed; a diverged run counts as the worst."""
    part = maps.where(depth=deepest, lr=rate, seed=s)
    return [99.0 if v is None else v for v in part.values("validation.loss")]


low, high = min(axes["train.lr"]), max(axes["train.lr"])
orders = {s: [rankdata(losses_at(rate, s)) for rate in (low, high)] for s in axes["seed"]}
claim(
    "10-one-rate-ranks-otherwise",
    f"Between the orders at rates {low:g} and {high:g} the rank correlation is {{mean:+.2f}}.",
    [float(np.corrcoef(*pair)[0, 1]) for pair in orders.values()],
    said="A ranking at one rate is not the ranking at another.",
    source="chapter 06's lesson: a ranking is recipe × init × learning rate",
    criterion="< 0.5",
    kind="range",
)

# %% [markdown]
r"""
And the width of the range, as a number: at how many of the four rates does a recipe end clearly (by $0.1$ nats) below letter frequencies?
"""


# %%
def outcome(loss):
    """Say by its validation loss (None: not finite) what became of a run."""
    return "diverged" if loss is None else "stuck" if loss >= unigram - 0.1 else "trained"


def trained(arm, depth, s):
    """Count the rates at which one seed of a recipe learned more than letter frequencies."""
    values = maps.where(arm=arm, depth=depth, seed=s).values("validation.loss")
    return [outcome(v) for v in values].count("trained")


def over_the_range(arm):
    """Say of each run of a deep recipe, over rates and seeds, whether it learned as much."""
    values = maps.where(arm=arm, depth=deepest).values("validation.loss")
    return proportion(outcome(v) == "trained" for v in values)


widths = {
    arm: {depth: [trained(arm, depth, s) for s in axes["seed"]] for depth in axes["model.depth"]}
    for arm in some
}

# %%
claim(
    "10-norms-buy-range",
    f"At {deepest} blocks Pre-Norm trains in {{k}} of {{n}} runs over the rates, the network without norms in {{other_k}}.",
    over_the_range("pre") - over_the_range("none"),
    said="Pre-Norm trains at more rates than the network without norms.",
    source="chapter 00: norms widen the range of rates",
    criterion="> 0",
    kind="range",
)

# %%
claim(
    "10-pre-range-exceeds-post",
    f"At {deepest} blocks, warmed up for {quick // 10} steps, Pre-Norm trains in {{k}} of {{n}} runs over "
    "the rates, Post-Norm in {other_k}.",
    over_the_range("pre") - over_the_range("post"),
    said="Pre-Norm trains at more rates than Post-Norm.",
    source="Xiong et al. 2020, arXiv 2002.04745; often said: Pre-Norm is easier to tune",
    criterion="> 0",
    kind="range",
)

# %%
claim(
    "10-realformer-is-more-robust-than-post",
    f"At {deepest} blocks, warmed up for {quick // 10} steps, RealFormer trains in {{k}} of {{n}} runs over "
    "the rates, Post-Norm in {other_k}.",
    over_the_range("realformer") - over_the_range("post"),
    said="RealFormer trains at more rates than Post-Norm.",
    source="He et al. 2021, arXiv 2012.11747: more robust to hyper-parameters",
    criterion="> 0",
    kind="range",
)

# %%
at = {
    rate: [losses_at(rate, s)[list(arms).index("ngpt")] for s in axes["seed"]]
    for rate in (low, high)
}
claim(
    "10-ngpt-wants-high-rates",
    f"At rate {high:g} nGPT ends {{mean:.2f}} nats below its loss at {low:g}.",
    minus(at[low], at[high]),
    said="nGPT wants high rates.",
    source="chapter 08: the sphere's eigen learning rates",
    criterion="> 0.3",
    kind="range",
)

# %% [markdown]
r"""
This is the answer to "what is the norm for?", as far as these sizes can give it: **the runs lean to range, and settle neither range nor loss.** At its own best rate no card shows that the plain network needs a norm. A step to the right it is gone, and Pre-Norm is still there in all runs but one: too few to tell the shares apart by an exact test. It takes more than a norm, though: in the table below, Post-Norm and HybridNorm\* in deep stacks, with this short warm-up, train at no more of the rates than the network without norms, and dynamic tanh at fewer. In a large run you get one try at the rate; then range *is* loss.

### Everything in one table

The last column is not typed: it says what became of each recipe's deepest runs at the highest rate, by the same limit on the validation loss that counts the rates.
"""

# %%
rank_of = {row.name: row for row in board.rows}


def failure(arm):
    """Say how many of a recipe's deepest runs at the highest rate did not train."""
    values = maps.where(arm=arm, depth=deepest, lr=high).values("validation.loss")
    ends = [outcome(v) for v in values]
    count = {end: ends.count(end) for end in ("diverged", "stuck")}
    return ", ".join(f"{end} ({n} of {len(ends)})" for end, n in count.items() if n) or "none seen"


plots.table(
    [
        {
            "recipe": arm,
            "tuned loss": f"{rank_of[arm].mean:.3f}"
            if arm in rank_of and rank_of[arm].mean
            else "–",
            "group": rank_of[arm].group if arm in rank_of else "–",
            **{f"rates trained, {n} blocks": f"{np.mean(widths[arm][n]):.1f}" for n in widths[arm]},
            "operations": f"{contest.cost(entry(arm)).operations / cost.operations:.3f} ×",
            "kept": f"{contest.cost(entry(arm)).kept / cost.kept:.2f} ×",
            "fails by": failure(arm),
        }
        for arm in some
    ]
)

# %% [markdown]
r"""
## What to choose: a table that the ledger writes

Every row below is advice for a situation. Whether it stands is not for the author to say: a row names the claims that would have to hold, and the ones that limit it, and the verdicts are read from the book's ledger while this page is made. A claim that is not recorded says so.
The recommendations are those of the four sources and of chapters 00 to 09. Claims of *this* chapter are left out, so that the table does not quote itself.
"""

# %%
from press.book.advice import ADVICE
from press.book.evidence import decisions, recorded

table = decisions(ADVICE, recorded())
table

# %%
claim(
    "10-every-row-has-its-evidence",
    "{mean:.0f} rows of the table rest on nothing that chapters 00 to 05 recorded.",
    sum(
        row.standing == "not recorded yet"
        for row in table.rows
        if all(name < "06" for name in row.advice.because)
    ),
    said="Every row of the table rests on what the chapters recorded.",
    source="data/ledger/book.json",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
Read the column *But* as carefully as *Because*. Two kinds of claims stand there: limits, which count where they *hold*, and promises, which count where they do *not*; the cards behind the links say which is which. "Contradicted" is no reason to remove a row. It is the reason why the table is generated: advice that lost its evidence should look like it.

## Symptom → probe → cause → fix

More often than choosing, you inherit: a model trains badly, and somebody suspects the norm. `diagnose` holds a run against eight troubles of this book. Each has what you *see*, a *probe* that boils it down to one number, a limit, the cause and the fix. ("Stuck" is judged by the training losses of the last steps here, because every run has them; the maps above had the better witness, a validation loss.)
"""

# %%
from labkit.probes.diagnosis import SYMPTOMS, diagnose

plots.table(
    [
        {"you see": s.see, "probe": s.probe, "number": s.number, "sick above": s.limit,
         "cause": s.cause, "fix": s.fix, "chapter": s.chapter}
        for s in SYMPTOMS
    ]
)  # fmt: skip

# %% [markdown]
r"""
A table like this is easily written and rarely tried. Here is a sick run for each row (two rows share one), and a run that differs by the row's fix, three seeds each. (Pilots chose runs that are clearly ill; a mild case may lie on the wrong side of its limit.)
"""

# %%
t = sizes.ward_steps
deep = {"model.depth": sizes.ward_depth}
ward = replace(
    small,
    model=Perturbed(**vars(small.model)),  # with rounded norms and an offset, where asked for
    data=Text(batch=8, time=32, held_out=sizes.ward_held_out),
    train=TrainConfig(steps=t, lr=1e-2, schedule="constant"),
    probes=("test", "test-batch-statistics", "attention", "residual-rms", "leakage", "mean-share",
            "gradient-at-start"),
)  # fmt: skip
plain = {"model.recipe": "none", "model.init": "xavier"}
xavier = {"model.init": "xavier"}
post = {"model.depth": sizes.ward_post_depth, "train.steps": 2 * t,
        "train.schedule": "linear", "model.recipe": "post", **xavier}  # fmt: skip
pooled = {"train.steps": t // 2, "train.lr": 3e-2, "model.norm": "batch"}
first = {**deep, "train.steps": 1, "train.lr": 1e-4, "model.activation": "gelu"}
shifted = {"model.norm": "layer", "model.norm_arithmetic": "bfloat16 one-pass"}

# %%
sick = {
    "divergence": {**deep, **plain},
    "stuck": post,
    "evaluation gap": pooled,
    "leak": pooled,
    "sharp attention": {"train.lr": 0.1},
    "growing stream": {**deep, "train.lr": 3e-2},
    "uneven gradients": {**first, **plain},
    "offset": {**shifted, "model.embedding_offset": 30.0},
}
fixed = {
    "divergence": {**deep, **xavier},
    "stuck": {**post, "model.init": "half-xavier", "train.warmup": 3 * t // 4},
    "evaluation gap": {**pooled, "model.norm": "layer"},
    "leak": {**pooled, "model.norm": "layer"},
    "sharp attention": {"train.lr": 0.1, "model.recipe": "qk"},
    "growing stream": {**deep, "train.lr": 3e-3},
    "uneven gradients": {**first, **xavier},
    "offset": shifted,
}

# %%
patients = lab.seeds(sizes.patients)
ill = lab.run(Experiment(ward, {"case": sick, "seed": patients}))
well = lab.run(Experiment(ward, {"case": fixed, "seed": patients}))
found = {
    name: [{case: [diagnose(r, unigram=unigram) for _, r in part]} for case, part in rs.by("case").items()]
    for name, rs in (("sick", ill), ("fixed", well))
}  # fmt: skip
found = {name: {c: d for part in parts for c, d in part.items()} for name, parts in found.items()}

# %%
plots.table(
    [
        {"case": case,
         "found in the sick run": ", ".join(found["sick"][case][0].names) or "nothing",
         "found in the fixed run": ", ".join(found["fixed"][case][0].names) or "nothing"}
        for case in sick
    ]
)  # fmt: skip

# %%
right = [
    c in found["sick"][c][i].names and c not in found["fixed"][c][i].names
    for i in range(len(patients))
    for c in sick
]
claim(
    "10-probes-tell-sick-from-fixed",
    "Eight troubles: in {k} of {n} pairs of a sick and a fixed run the probes name the trouble in the sick one alone.",
    proportion(right),
    said="The probes name the trouble in the sick run and none in the mended one.",
    source="the symptom tables of chapters 00 to 05",
    criterion=">= 0.875",
    kind="at",
)

# %% [markdown]
r"""
Note how the illnesses *overlap*. A batch norm at a high rate leaks, scores badly in evaluation and has huge logits at once; an offset in bfloat16 looks like stuck training and like sharp attention, too. And a cure is a cure of one trouble: norms on queries and keys take the sharpness away at a rate at which the run then stays stuck. We would start from the row whose cause would explain the others: the arithmetic before the statistics, the statistics before the attention, the attention before the rate. A diverged run is asked only what was measured
before it was lost.

`diagnose` also looks at a model that you hold in your hands, trained or not, without touching it:
"""

# %%
torch.manual_seed(seed)
mine = replace(
    small.model, recipe="none", init="xavier", activation="gelu", **{"depth": 12}
).build()
diagnose(mine, ward.data.load())

# %% [markdown]
r"""
## Your own norm: a guided project

The last thing to learn from ten chapters of other people's norms is how to try yours. It takes one file. You need not fork anything.

**1. One file.** `labkit leaderboard --starter my_norm.py` writes one. It holds a formula and a module; the module takes `dim` first, and everything else has a default.
"""

# %%
show(starter.MeanAbsNorm)

# %% [markdown]
r"""
**2. A name.** `own_norm` reads the file and makes it a norm like any other. The name ends in a hash of what the file *says*: change a line of code and the runs are other runs, change a comment and they are not. Workers are sent the source with each task, so a cluster needs nothing installed; and nothing that lies in the store is ever executed.
"""

# %%
import inspect

from labkit.experiments.own import own_norm

own = own_norm(starter.__file__)
source = inspect.getsource(starter)
print("with a comment, the same norm:", own == own_norm(source + "# a remark\n"))
print("with another eps, the same norm:", own == own_norm(source.replace("1e-6", "1e-5")))

# %% [markdown]
r"""
**3. Every check.** There is no reference for a norm that did not exist, but there are laws that a norm for such a model should keep: a token is normed by itself (BatchNorm fails here), gradients are those of the values, zeros do not become NaN, half precision survives. With a formula in double precision the check compares that, too. The notes below say what the norm is blind to.
"""

# %%
report = check.own(own, lambda x: x / (x.abs().mean(-1, keepdim=True) + 1e-6))
report

# %%
claim(
    "10-own-norm-keeps-the-laws",
    "The starter keeps all but {mean:.0f} of the laws.",
    len(report.failed),
    said="The starter of a norm of one's own keeps all laws.",
    source="labkit.check.own",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
**4. A prediction.** For a token of independent normal values the mean absolute value is $\sqrt{2/\pi}\,\sigma \approx 0.8\,\sigma$, so this norm is about RMSNorm with a gain that starts at $1.25$. The gain is learned. The norm reacts less to one large value than RMSNorm does. We expect no difference in loss, and said "in $\pm0.05$ nats" before the run; the card asks for $\pm0.02$, a quarter of what lies between the best recipes and the others.

**5. The leaderboard.** It has been there all along, as `pre+mean-abs`. From a shell:

```bash
labkit leaderboard pre pre+my_norm.py
```

What is stored is not trained again: the command adds your runs to those of the book and ranks them together.
"""

# %%
claim(
    "10-mean-abs-equals-rms-each-tuned",
    "Dividing by the mean absolute value changes the tuned loss by {mean:+.3f} nats.",
    minus(loss["pre+mean-abs"], loss["pre"]),
    said="Dividing by the mean absolute value ends level with dividing by the RMS.",
    source="this chapter's prediction",
    criterion="in [-0.02, 0.02]",
    kind="best",
    effect=0.08,  # nats: what lies between the first of the board and the last but dynamic tanh
)

# %% [markdown]
r"""
This card shows a plain interval for *one* pair, and the table of standings the letters for all. If the interval leaves zero out and the letters still agree, you have met the difference that this chapter is about: one question has a narrower answer than all pairs at once, and a pair singled out after the fact looks better than it is. (And there is a rival explanation to test first: a gain that starts at
$1.25$.)

If your norm wins, distrust it in this order: another five seeds (`--seeds 10`); a finer grid of rates for its *opponent*; another depth; then another task. We expect many wins to end at the second step.

## What the sources say, and what we measured

| source and setting | what it says | here |
| --- | --- | --- |
| "Transformer Anatomy, part 7", "decision framework" | RMSNorm; Pre-Norm; QK-Norm for large models; DeepNorm beyond 200 layers; float32 norms, "non-negotiable" | the decision table, each piece with its verdict; "non-negotiable" is accumulation, not storage: chapter 03 |
| "Transformer Anatomy, part 7", matrix of scenarios (7B to 70B; above 100B; above 200 layers; BERT; vision) | one row a scenario, all in float32 | five of our rows; none was measured at those sizes, by the text or by us |
| "Transformer Anatomy, part 7", last paragraph | each variant answers one failure mode | the symptom table: a norm is among the fixes of most rows, often not the only one; rates and initial weights stand beside it |
| "Transformer Anatomy, part 7", section 8 | norm, rate, initialization and precision act together | `10-one-rate-ranks-otherwise`; the maps |
| "Layer normalization, an article", table of recipes | "no row establishes a globally superior recipe" | `10-most-pairs-are-not-told-apart` |
| "Exploring the Transformer, part 14", section 7.4, [He et al. (2021)](https://arxiv.org/abs/2012.11747) | adding up attention logits makes Post-Norm robust to hyper-parameters | `10-realformer-is-more-robust-than-post` |
| [Nguyen and Salazar (2019)](https://arxiv.org/abs/1910.05895), WMT14 En–De | Post 27.58, Pre 26.83 BLEU | `10-post-beats-pre-each-tuned` |
| [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), 550M parameters | HybridNorm below Pre-Norm | `10-hybrid-beats-pre-each-tuned` |
| [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), 0.5B and 1B parameters | the same loss in 4 to 20 times fewer steps | `10-ngpt-beats-pre-each-tuned` |
| [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622), LLaMA 7B to 70B | DyT level with RMSNorm | `10-dyt-is-behind-pre-each-tuned` |

| often said | but |
| --- | --- |
| "the field has converged" | OLMo 2 norms outputs only, Gemma 2 and 3 both sides ([Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656); [Gemma Team, 2024](https://arxiv.org/abs/2408.00118); [Gemma Team, 2025](https://arxiv.org/abs/2503.19786)); agreement among models is not a measurement |
| "X is better than Y" | at which rate, from which weights, after how many steps, told apart by how many seeds? |
| "without normalization it does not train" | at a high rate or from large branches; see the map of `none` |
| "state of the art by 0.02" | compare with the lead of the first among equals: `10-the-first-of-equals-leads` |
"""

# %% [markdown]
r"""
## Where it goes wrong

**`F.normalize(x)`.** PyTorch's `torch.nn.functional.normalize` has the default `dim=1`. On vectors of shape (batch, features) that is the last axis, and the unit tests pass. On (batch, time, features) it is *time*: every position is divided by a number that knows the future. No error tells you. (Whether a model learns to use such a leak is another question: chapter 01.)

**`x.abs().mean()`.** A mean without `dim` pools the whole batch. With a single vector it is right, and a single vector is what the unit test tries.

**`x.pow(2).mean(-1).sqrt() + eps`.** Text 001 prints RMSNorm as $\gamma x/(\mathrm{RMS} + \epsilon)$, with $\epsilon$ outside the root, and typed like that the *value* is fine. The gradient of a root at zero is not: infinity times zero. One token of zeros (padding, a fresh embedding) gives NaN in the gradients, and with the next step in the weights. (`x.std()`, which the annotated transformer
divides by, survives: PyTorch defines its gradient at zero to be zero.)

Three norms of your own, then, each with one of these lines. What does `check.own` say?
"""


# %%
class Mine(torch.nn.Module):
    """A base for the three: dim first, a gain."""

    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))


class WrongAxis(Mine):
    def forward(self, x):
        return self.weight * torch.nn.functional.normalize(x) * x.shape[-1] ** 0.5


class WholeBatch(Mine):
    def forward(self, x):
        return self.weight * x / (x.abs().mean() + 1e-6)


class RootAtZero(Mine):
    def forward(self, x):
        return self.weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)


# %%
reports = [check.own(kind) for kind in (WrongAxis, WholeBatch, RootAtZero)]
for one in reports:
    print(one.summary)
    print("   ", one.failed[0].name, "·", one.failed[0].cause, "·", one.failed[0].message[:90])

# %%
claim(
    "10-check-finds-the-slips",
    "Of these three slips of one line, the check lets {mean:.0f} pass.",
    sum(one.ok for one in reports),
    said="The check lets none of three slips of one line pass.",
    source="F.normalize's default axis; a mean without dim; a root at zero",
    criterion="<= 0",
    kind="exact",
)

# %% [markdown]
r"""
**The board itself.** The last slip is no line of a norm at all. It is a choice made with the data that is then reported: the rate picked by *test* loss, or the best of the seeds in the table. How much does each flatter an entry?
"""

# %%
by_rate = tuned.by("entry").values()
honest = [np.mean(part.where(lr=part.best("lr")).values("test.loss")) for part in by_rate]
peeked = [np.mean(p.where(lr=p.best("lr", by="test.loss")).values("test.loss")) for p in by_rate]
best_seed = [np.mean(values) - min(values) for values in loss.values()]
print(f"rate chosen by test loss: {np.mean(honest) - np.mean(peeked):.4f} nats on average")
print(f"best of five seeds: {np.mean(best_seed):.4f} nats on average")

# %% [markdown]
r"""
Compare both with the distances in the table of standings. With four rates a factor of two apart the first is small or nothing; we would expect more of it where more settings are tried. The second is of the size that separates neighbours in that table.

## Open questions

- **Does any of this order survive scale?** Width 32 and eighty steps rank how models *start*. We know of nobody who has published all of these recipes tuned at one large size with seeds and intervals. The size `gpu` lists a grid.
- **Why does range shrink with depth for some recipes and not for others?** Chapter 05 has a theory for the first step. For the thousandth we know of none.
- **What does a norm do late in training?** Most of what we measured happens in the first hundred steps. That a network without norms keeps up there does not say that it keeps up at a million.
- **Which of these effects are Adam's?** An optimizer that divides by the gradient's size is itself a normalization.
- **Statistics or boundedness?** DyT has no statistics and is bounded; RMSNorm has statistics and is bounded, too. No experiment here separates the two cleanly.
"""

# %% [markdown]
r"""
## Exercises

**1 (by hand).** A budget pays 1,200 steps of a recipe. Another recipe's step has 20 % more operations. How many steps may it train? And how many, if it keeps the operations and takes 20 % more *bytes*?
"""

# %% tags=["exercise"]
yours = {"operations": ..., "bytes": ...}

# %%
truth = {"operations": 1200 / 1.2, "bytes": 1200}
check.answer(yours, truth, name="1", hint="what does this budget count?")

# %% [markdown]
r"""
<details><summary>Hint</summary>

Divide the budget by the operations of a step. Bytes are not in it.

</details>
<details><summary>Solution</summary>

$1200/1.2 = 1000$ steps. With more bytes the budget of operations still pays 1,200; a budget of seconds would not, which is why a budget is a choice and must be said.

</details>

**2 (by hand).** Four comparisons have the p-values $0.005$, $0.03$, $0.02$ and $0.01$, in this order. Give the p-values adjusted by Holm, in the same order. Which are at most $0.05$?
"""

# %% tags=["exercise"]
yours = {"adjusted": [..., ..., ..., ...], "how many": ...}

# %%
ps = dict(enumerate([0.005, 0.03, 0.02, 0.01]))
truth = {"adjusted": list(adjusted(ps).values()), "how many": 4}
check.answer(yours, truth, name="2", hint="sort first; multiply by 4, 3, 2, 1; never let it fall")

# %% [markdown]
r"""
<details><summary>Hint</summary>

Sorted: $0.005, 0.01, 0.02, 0.03$. An adjusted value is at least the one before it.

</details>
<details><summary>Solution</summary>

$4\cdot0.005 = 0.02$; $3\cdot0.01 = 0.03$; $2\cdot0.02 = 0.04$; $1\cdot0.03 = 0.03$, raised to $0.04$. In the order given: $0.02, 0.04, 0.04, 0.03$. All four are at most $0.05$. (Bonferroni multiplies each by 4 and keeps two.)

</details>

**3 (by hand).** Ranked by loss: A, B, C, D. Only A–D and B–D were told apart. Write the letters, such as `"a"` or `"ab"`, of each.
"""

# %% tags=["exercise"]
yours = {"A": ..., "B": ..., "C": ..., "D": ...}

# %%
truth = letters(list("ABCD"), {("A", "D"), ("B", "D")})
check.answer(
    yours, truth, name="3", hint="C was told apart from nobody, so it shares a letter with all"
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Which sets of entries have no pair that differs, and cannot be made larger?

</details>
<details><summary>Solution</summary>

The largest sets without a difference are {A, B, C} and {C, D}. So A: a, B: a, C: ab, D: b. If you call C third and D fourth, you claim more than the data say.

</details>

**4 (in code).** Write a norm that divides each token by its *largest absolute value*, with a gain, in a class of your own. It must pass `check.own` and its formula: `eps` of 1e-6 is added to the largest value.
"""


# %% tags=["exercise"]
class MyNorm(torch.nn.Module):
    """Divide by the largest absolute value."""

    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return ...


# %%
def largest(x):
    """Give the formula in double precision."""
    return x / (x.abs().amax(dim=-1, keepdim=True) + 1e-6)


check_own = check.own(MyNorm, largest)
check_own

# %% [markdown]
r"""
<details><summary>Hint</summary>

`x.abs().amax(dim=-1, keepdim=True)`. Compute in float32 when `x` is in half precision, and return the dtype that came.

</details>
"""


# %% tags=["solution"]
class SolvedNorm(torch.nn.Module):
    """A solution of exercise 4."""

    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x if x.dtype == torch.float64 else x.float()
        y = wide / (wide.abs().amax(dim=-1, keepdim=True) + 1e-6)
        return (self.weight * y).to(x.dtype)


assert check.own(SolvedNorm, largest).ok

# %% [markdown]
r"""
**5 (in code).** Write the adjustment yourself: a list of p-values in, Holm's adjusted ones out, in the same order.
"""


# %% tags=["exercise"]
def my_holm(p_values):
    """Adjust p-values by Holm."""
    return ...


# %%
def check_holm(function):
    """Hold a function against labkit's on twenty p-values."""
    given = np.random.default_rng(1).uniform(0, 0.2, 20).tolist()
    truth = list(adjusted(dict(enumerate(given))).values())
    hint = "the factor falls from m to 1; a later value is never below an earlier one, nor above 1"
    return check.answer(function(given), truth, name="5", hint=hint)


check_holm(my_holm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`sorted(range(m), key=lambda i: p[i])` gives the places from small to large. Keep a running maximum.

</details>
"""


# %% tags=["solution"]
def solved_holm(p_values):
    """A solution of exercise 5."""
    m, running, out = len(p_values), 0.0, list(p_values)
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (m - rank) * p_values[i]))
        out[i] = running
    return out


assert check_holm(solved_holm).ok

# %% [markdown]
r"""
**6 (prove).** Show that Holm's procedure makes at least one false rejection with a probability of at most $\alpha$, whatever the dependence of the tests. Then show that the mean-absolute norm $y = x/\mathrm{mean}|x|$ has a gradient that is orthogonal to $x$: $\sum_i x_i\,\partial L/\partial x_i = 0$ for every loss $L(y)$.

<details><summary>Hint</summary>

Let $m_0$ be the number of true hypotheses, and look at the *first* true one that is rejected: how many hypotheses were left at that moment? For the second part, differentiate $y(cx) = y(x)$ by $c$.

</details>
<details><summary>Solution</summary>

Suppose a true hypothesis is rejected, and let it be the first one, at step $j$. Before it only false ones were rejected, so $j - 1 \le m - m_0$, that is $m - j + 1 \ge m_0$. It was rejected because $p \le \alpha/(m - j + 1) \le \alpha/m_0$. So the event implies that some true hypothesis has $p \le \alpha/m_0$. Each
of them has this with a probability of at most $\alpha/m_0$; by the union bound, which needs no independence, at least one of the $m_0$ has it with a probability of at most $\alpha$.

For $c > 0$ we have $\mathrm{mean}|cx| = c\,\mathrm{mean}|x|$, so $y(cx) = y(x)$ and $L(y(cx))$ does not depend on $c$. Its derivative at $c = 1$ is $\sum_i x_i\,\partial L/\partial x_i$, which is therefore 0. (At points where some $x_i = 0$ take a one-sided derivative; the argument uses only the direction $x$.) Whatever is blind to scale has such a gradient: RMSNorm,
LayerNorm, and yours from exercise 4, each without its $\epsilon$.

</details>

**7 (open).** Put your own norm on the leaderboard. Write the file, check it, predict its rank *and its letter*, then run `labkit leaderboard pre pre+my_norm.py`, or the cell. What would you have to see to believe that it is better? Decide before you look.
"""

# %% tags=["exercise"]
my_prediction = "…"
my_field = entries(["pre", "pre+layer", starter.__file__])  # your file in place of the starter
my_experiment = contest.tuning(my_field)
# tuned_again = lab.run(my_experiment)      # remove the first "#" of these three lines
# final_again = lab.run(contest.final(my_field, tuned_again))
# print(standings(contest, my_field, tuned_again, final_again))
print(len(my_experiment.runs()), "runs to tune")

# %% [markdown]
r"""
## What you now know

- Eight equal recipes make a leaderboard with a winner, and often with a "significant" pair. Pairing by seed and Holm's correction are the price of comparing all with all; after it, five seeds see large differences only.
- A fair contest says its budget, tunes everybody with the same care, reports on data that chose nothing, and prints letters instead of ranks.
- At this size most recipes cannot be told apart once each has its own rate, and the network without norms is one of them.
- Rate and depth turn the ranking. What Pre-Norm buys leans to range, by more runs than ours to be shown, and each recipe leaves its range in its own way: a cliff, a plateau, a slow fade.
- Advice should hang on evidence that can change. The decision table is written by the ledger, its *But* column too.
- A diagnosis is a number with a limit, tried on a sick run and on a cured one.
- Your norm is one file away from all of this; and several questions above are open for whoever has more compute and the same patience.

## References

Works cited: [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745), [Nguyen and Salazar (2019)](https://arxiv.org/abs/1910.05895), [He et al. (2021)](https://arxiv.org/abs/2012.11747), [Zhuo et al. (2025)](https://arxiv.org/abs/2503.04598), [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622), [Wang et al. (2024)](https://arxiv.org/abs/2203.00555), [Holm (1979)](https://www.jstor.org/stable/4615733), [Piepho (2004)](https://doi.org/10.1198/1061860043515), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Gemma Team (2024)](https://arxiv.org/abs/2408.00118), [Gemma Team (2025)](https://arxiv.org/abs/2503.19786). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
