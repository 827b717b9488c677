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

**Question.** You will train a model of seven billion parameters tomorrow. Everybody's answer is *RMSNorm, in Pre-Norm position, and QK-Norm for a large model.*
We trained small models with nearly forty recipes, mostly on one text. One won, but every list has a winner.
Would the list look different if all recipes were equally good, and which recipe should you take?

<details><summary>In short (contains spoilers)</summary>

- Take RMSNorm, in Pre-Norm position, with QK-Norm. Each piece of advice in the table near the end is graded by its evidence: a law, a report on large models, or only our own small runs.
- With tuned learning rates, most neighbours in the list of recipes cannot be distinguished. A list of eleven equal recipes would have a winner, too, but after a correction for many tests, hardly any of its pairs would differ.
- At the smallest model size, recipes differ from Pre-Norm more in the cost of a wrong learning rate (averaged over a hundredfold range of rates) than in their best loss. Anyone who trains a large model has only one try.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace
from itertools import combinations, pairwise
from statistics import fmean

import numpy as np
import torch
from scipy.stats import t as student

from labkit import ModelConfig, check, plots  # pip install the book's folder
from labkit.experiments import Domain, Experiment, Lab, computed, exact, ladder, proportion
from labkit.experiments.decisions import decisions, read_advice
from labkit.experiments.lab import project_root
from labkit.experiments.locks import read_locks
from labkit.experiments.own import own_norm
from labkit.leaderboard import starter
from labkit.leaderboard.footprint import BACKWARD, count_footprint
from labkit.leaderboard.letters import letters
from labkit.leaderboard.show_explorer import show_explorer
from labkit.leaderboard.standings import rank_ladder
from labkit.leaderboard.voices import compare_texts
from labkit.probes.updates import step_response
from labkit.statistics.holm import adjusted
from labkit.statistics.pooled import correlate_seeds, count_seeds
from labkit.statistics.recorded import read_claims

# %%
lab = Lab("10_choosing_a_norm", size=size, seed=seed, memory={"kernel": "1400M", "run": "850M"})
sizes = lab.sizes(
    # a pair: book, gpu
    drawn=(2000, 20_000),
    widths=[32, 64, 128, 256],
    depths=[4, 8, 16, 32],
)
rung, names = "S", "ABCDEFGHIJK"
field = {
    "QK-Norm": "qk", "QKV-Pre": "qkv-pre", "Pre-Norm": "pre", "Hybrid*": "hybrid*", "LNS": "lns",
    "OLMo 2": "olmo2", "Post-Norm": "post", "RealFormer": "realformer", "nGPT": "ngpt", "DyT": "dyt",
    "no norm": "none",
}  # fmt: skip
twins = {  # without norms on queries and keys, and with them
    "Pre-Norm": ("pre", "qk"),
    "output norm": ("output", "olmo2"),
    "embeddings by rule": ("pre, embedding by rule", "qkv-pre, embedding by rule"),
    "embeddings of 0.014": ("pre, embedding 0.014", "qkv-pre, embedding 0.014"),
}

# %%
climbed = lab.ladder([*ladder.CHAPTERED], also=[*ladder.SHELVED])
tuning = climbed.where(stage="tuning", rung=rung, seed=ladder.TUNING_SEED)
by_rate = {
    arm: {rate: at.values("validation.loss")[0] for rate, at in part.by("lr").items()}
    for arm, part in tuning.by("arm").items()
}
every = {arm: ladder.measure_lost(part, rung) for arm, part in climbed.by("arm").items()}
once = {arm: of[ladder.TUNING_SEED] for arm, of in every.items()}  # with the seed of the figure
lost = {arm: fmean(of.values()) for arm, of in every.items()}  # over all seeds that tried the rates
middle = np.ptp([by_rate[arm][ladder.COARSE[2]] for arm in field.values() if arm != "dyt"])

# %%
show_explorer(
    lab,
    climbed,
    "qk",
    beside="pre",
    caption="Shown first: one block of Pre-Norm and one of QK-Norm, which adds norms on queries and keys. The plot shows validation loss against learning rate for models with six such blocks.",
).named("two-blocks")

# %%
plots.grid_map(
    {
        (name, rate): by_rate[field[name]][rate]
        for name in sorted(field, key=lambda name: once[field[name]])
        for rate in ladder.COARSE
    },
    row_label="recipe",
    col_label="learning rate",
    value_label="validation loss (nats)",
    limits=(1.35, 2.2),
    caption="Validation loss of eleven recipes at five learning rates. Each cell is one run. In the middle column, all recipes but DyT are within "
    f"{middle:.2f} nats of each other. A model with a loss near 3 nats has learned only how frequent each letter is.",
    provenance=lab.provenance(tuning),
).named("recipes-by-rate")

# %% [markdown]
r"""
## The idea: a column and a row

The runs belong to the book's *ladder*, a shared experiment grid of recipes trained on the same text at increasing model sizes. The smallest size, S, has six
blocks of width 32, and 80,000 parameters. QKV-Pre normalizes queries, keys and values instead of attention's input. Hybrid\* is HybridNorm with a different first block (chapter 06).
OLMo 2 normalizes the output of each branch, and queries and keys. DyT has an elementwise function in place of each norm (chapter 07), and nGPT normalizes everything to unit length (chapter 08). The section on the leaderboard introduces LNS and RealFormer.

What does a loss in the map above mean? We let three models of size S continue the same beginning of a sentence.
"""

# %%
compare_texts(
    lab,
    rung,
    {
        "Pre-Norm at 0.01": ("pre", 0.01),
        "no norm at 0.01": ("none", 0.01),
        "Pre-Norm at 0.1": ("pre", 0.1),
    },
)

# %% [markdown]
r"""
Read a column of the map. A paper that uses one learning rate for all recipes prints such a column. At the lowest learning rate OLMo 2 has the lowest loss, and at the highest
QK-Norm does. Nothing but the learning rate has changed.

Now read a row. Its smallest number is the recipe's best loss. The rest of the row shows
the cost of not knowing the best learning rate. Average the row, subtract its minimum, and you have the **learning-rate sensitivity** of
[Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322):

$$\text{sensitivity} = \operatorname*{mean}_{\eta}\ \min\big(\mathcal L(\eta),\, \mathcal L_0\big) \;-\; \min_\eta \mathcal L(\eta).$$

No run counts for more than $\mathcal L_0$, not even a diverged one. For $\mathcal L_0$ Wortsman et al. use the loss of an untrained
model. We use the loss of a model that knows only letter frequencies. The rows of the map are sorted by sensitivity.

We follow one pair of recipes through the chapter: QK-Norm and Pre-Norm. With tuned learning rates, QK-Norm's loss is a little lower than Pre-Norm's. At ten times Pre-Norm's tuned learning rate,
it is far lower. Which of the two facts should decide what you train?

### Exercise 1

**1 (in code).** Write a function that computes the sensitivity. `losses` contains a recipe's loss at each learning rate that was tried, or `None` if the run
diverged. Average over `rates`, and count a loss above `most`, or a run that diverged, as `most`. Subtract the minimum over all learning rates that were tried.
"""


# %% tags=["exercise"]
def sensitivity(losses, rates, most):
    """Return the average cost of a learning rate that was not tuned, in nats."""
    return ...


# %%
def check_sensitivity(sensitivity):
    """Compare a function with the ladder's sensitivities with one seed, arm by arm."""
    arms = {arm: (of, ladder.COARSE, ladder.FREQUENCIES) for arm, of in by_rate.items()}
    hint = "a failed run counts as `most`; the minimum is over losses.values(), the mean over rates"
    return check.function(sensitivity, arms, once, name="1", hint=hint, rtol=1e-6)


check_sensitivity(sensitivity)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Make a dictionary first in which no loss is `None` or above `most`.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_sensitivity(losses, rates, most):
    """A solution of exercise 1."""
    capped = {rate: most if loss is None else min(loss, most) for rate, loss in losses.items()}
    return sum(capped[rate] for rate in rates) / len(rates) - min(capped.values())


assert check_sensitivity(solved_sensitivity).ok

# %% [markdown]
r"""
## What a handful of seeds can tell

### What chance alone produces

How much do single runs of one recipe differ? The table shows each recipe at its tuned learning rate, over seeds that were not used for tuning.
"""

# %%
losses = {name: [*ladder.reported(climbed, arm)[rung].values()] for name, arm in field.items()}
scatter = ladder.measure_scatter(climbed, rung)
ours = ladder.improvement(climbed, "qk")[rung]
looked = climbed.where(stage="first", rung=rung).by("arm")
of_seed = {
    arm: dict(zip(ladder.SEEDS, of.values("test.loss"), strict=True))
    for arm, of in looked.items()
    if arm != "no attention"
}
by_seed = {name: ladder.reported(climbed, arm)[rung] for name, arm in field.items()}
most = max(map(len, by_seed.values()))
many = {name: of for name, of in by_seed.items() if len(of) == most}
shared = correlate_seeds(many)


# %%
plots.table(
    [
        {"recipe": name, "runs": len(of), "mean": fmean(of), "standard deviation": float(np.std(of, ddof=1))}
        for name, of in sorted(losses.items(), key=lambda row: fmean(row[1]))
    ],
    digits=4,
)  # fmt: skip

# %% [markdown]
r"""
Two recipes with the same seed read the same batches. Should we compare them seed by seed, in **pairs**? That helps if a seed that is difficult for one recipe is difficult
for the other, too.

Without pairs, we compare two samples of $n_1$ and $n_2$ runs, with means $\bar x_1$ and $\bar x_2$:

$$t = \frac{\bar x_1 - \bar x_2}{\sqrt{\sigma^2\,(1/n_1 + 1/n_2) + u_1^2 + u_2^2}}.$$

The standard deviation $\sigma$ of a run is pooled over all recipes whose runs vary about equally (DyT's runs vary more, so it has its own $\sigma$). The uncertainty $u$ of a recipe comes from tuning its learning rate with a few noisy runs.

How many runs does a comparison need? Detecting a difference of $\Delta$ in four of five cases takes $n = 2\,(1.96 + 0.84)^2\,(\sigma/\Delta)^2$ runs per recipe. ($1.96$ belongs to a test at 5 %, and $0.84$ to detection in four of five cases.) In pairs, the part of $\sigma^2$ that the seed
explains cancels, so fewer runs are enough. (For pairs, the table below uses Student's $t$ in place of $1.96$.) With five seeds we could not show that the seed explains any of the variance, but with twenty we can.
"""

# %%
plots.table(
    {"what": what, "value": value}
    for what, value in {
        "standard deviation of a run, pooled (nats)": f"{scatter.sd:.4f}",
        f"share of a run's variance that the seed explains, {len(many)} recipes with {most} seeds": f"{shared:.0%}",
        f"share of a run's variance that the seed explains, {len(of_seed)} methods with five seeds": f"{correlate_seeds(of_seed):.0%}",
        "Pre-Norm's mean loss minus QK-Norm's (nats)": f"{ours.mean:.4f}",
        "t of this difference": f"{ours.mean / ours.error:.1f}",
        "uncertainty of this difference from tuning both learning rates (nats)": f"{ours.tuned:.4f}",
        "runs per recipe to detect 0.005 nats": count_seeds(scatter.sd, 0.005),
        "pairs of runs to detect 0.005 nats": count_seeds(scatter.sd, 0.005, shared=shared),
    }.items()
)

# %% [markdown]
r"""
Now rank many recipes in a leaderboard (a *board*). Eleven recipes make $11\cdot10/2 = 55$ pairs, and each test of equal recipes errs in one case out of twenty. If all eleven were equal,
a board would have $55/20 \approx 2.8$ findings on average, all of them false.
"""

# %% tags=["mechanism"]
pairs = list(combinations(range(len(names)), 2))


def test_pairs(boards):
    """Return the p-value of every pair of each board: two samples, one scatter for all recipes."""
    recipes, runs = boards.shape[-2:]
    sd = boards.var(-1, ddof=1).mean(-1, keepdims=True) ** 0.5
    means = boards.mean(-1)
    gaps = np.stack([means[..., a] - means[..., b] for a, b in pairs], axis=-1)
    return 2 * student.sf(abs(gaps) / (sd * (2 / runs) ** 0.5), recipes * (runs - 1))


# %%
def draw_equals(draw):
    """Draw a board of equal recipes: they differ by chance alone, as much as our runs."""
    luck = np.random.default_rng(seed + draw)
    drawn = fmean(losses["Pre-Norm"]) + scatter.sd * luck.normal(size=(len(names), 5))
    found = (test_pairs(drawn) <= 0.05).sum()
    return plots.dots(
        {names[i]: drawn[i].tolist() for i in drawn.mean(1).argsort()},
        xlabel="test loss (nats)",
        title=f"draw {draw}: {found} of 55 pairs “significant”",
        caption=f"Test losses of eleven equal recipes, draw {draw}.",
    )


plots.explore(
    draw_equals,
    [1, 2, 3],
    "equals",
    label="draw",
    caption="Test losses of eleven equal recipes, best first, drawn with the standard deviation of our own runs. Every draw has a winner, and it is rarely the same recipe.",
)

# %% tags=["mechanism"]
rng = np.random.default_rng(seed)
equals = rng.normal(size=(5, sizes.drawn, len(names), 5))
p_values = test_pairs(equals)


def survives(p):
    """Return whether any p-value of one board is at most 0.05 after Holm's adjustment."""
    return min(adjusted(dict(enumerate(p))).values()) <= 0.05


# %%
computed((p_values.min(-1) <= 0.05).mean(-1).tolist()).claim(
    "10-equals-look-different",
    "> 0.5",
    "Most leaderboards of eleven equal recipes show a “significant” difference.",
    found="Of the simulated leaderboards of eleven equal recipes, {mean:.0%} contain two recipes that differ “significantly”.",
    source="55 tests at 5 %; all pairs of one board",
    published="1 − 0.95⁵⁵ = 94 % if the 55 tests were independent",
)
first_ahead = equals.mean((2, 3)) - equals.mean(-1).min(-1)
computed(first_ahead.mean(-1).tolist()).claim(
    "10-the-first-of-equals-leads",
    "> 0.5",
    "The best of eleven equal recipes has a mean loss that is lower than the average by more than half the standard deviation of a single run.",
    found="The best of eleven equal recipes has a mean loss that is lower than the average by {mean:.2f} standard deviations of a single run.",
    source="the winner's curse: the smallest of eleven means of five",
)


# %%
def smallest(runs):
    """Return the smallest difference that 55 tests see, in standard deviations of a run."""
    at = student.isf(0.025 / len(pairs), len(names) * (runs - 1))
    return at * (2 / runs) ** 0.5


exact(smallest(5)).claim(
    "10-five-seeds-see-large-differences",
    "> 2",
    "With five seeds and many pairs, only large differences are distinguishable from chance.",
    found="With 55 pairs and five seeds, a difference is distinguishable from chance if it is at least {mean:.1f} times the standard deviation of a single run. With twenty seeds, {twenty:.1f} times is enough.",
    source="Student's t with one standard deviation for all, at 0.05/55",
    beside={"twenty": smallest(20)},
)

# %% [markdown]
r"""
### Letters instead of ranks

If you make 55 comparisons, you must correct for 55. [Holm (1979)](https://www.jstor.org/stable/4615733) sorts the $m$ p-values,
$p_1 \le \dots \le p_m$, compares the smallest with $0.05/m$, the next with $0.05/(m-1)$ and so on, and stops at the first that fails. Equivalently,
the procedure raises each p-value to $\tilde p_i = \max_{j\le i}\min\big(1, (m - j + 1)\,p_j\big)$ and compares it with $0.05$.
The result is a verdict on each pair, and these verdicts need not give an order: A may be indistinguishable from B, and B from C, while A and C differ.
A rank claims more than we know. Letters state only the verdicts: **two entries share a letter if and only if the tests do not distinguish them**
([Piepho, 2004](https://doi.org/10.1198/1061860043515)). "a, ab, b" means that the first and the last differ, and that the middle one is not distinguishable
from either.

*By hand.* Four recipes A to D, best first. The p-value is $0.004$ for A and D, $0.012$ for A and C, and $0.03$ for B and D. The p-values of the other three pairs are above $0.2$. Which pairs survive Holm's correction at 5 %, and what are the letters?

<details><summary>Answer</summary>

$0.004 \le 0.05/6$: yes. $0.012 > 0.05/5$: stop. Only A and D are distinguishable, so the letters are a for A, ab for B and C, and b for D. Without a correction, three pairs would differ.

</details>
"""

# %%
surviving = proportion([survives(p) for part in p_values for p in part.tolist()])
computed(surviving, unit="boards").claim(
    "10-holm-keeps-the-level",
    "<= 0.07",
    "With p-values adjusted by Holm's procedure, few leaderboards of equal recipes show a significant difference.",
    found="With p-values adjusted by Holm's procedure, {mean:.1%} of the simulated leaderboards of equal recipes contain two recipes that differ significantly.",
    source="Holm 1979: at most 5 %, whatever the dependence",
)

# %%
rng, wrong = np.random.default_rng(seed), 0
for _ in range(300):
    who = list("ABCDEFG")[: rng.integers(2, 8)]
    differ = {pair for pair in combinations(who, 2) if rng.random() < rng.random()}
    shown = letters(who, differ)
    same = {(a, b) for a, b in combinations(who, 2) if set(shown[a]) & set(shown[b])}
    wrong += len(same ^ (set(combinations(who, 2)) - differ))
exact(wrong).claim(
    "10-letters-say-the-pairs",
    "<= 0",
    "Two entries of the leaderboard share one of the letters a, b, … if and only if no test distinguishes them.",
    found="In 300 random sets of test verdicts, {mean:.0f} pairs of leaderboard entries have the wrong letters: a shared letter although a test distinguishes them, or none although no test does.",
    source="Piepho 2004",
)

# %% [markdown]
r"""
The correction has a price. With it, five seeds detect only large differences, so "not distinguishable" does not mean "equal". If *one* pair
matters to you, name it before the runs. With five seeds for each of eleven recipes, $t = 2.02$ is then enough, whereas the smallest of 55 p-values needs $t = 3.56$.

## Measure

### The board

Our board has eleven recipes: the nine that earlier chapters discuss most, RealFormer, and *LNS* ([Sun et al., 2025](https://arxiv.org/abs/2502.05795)). LNS is Pre-Norm with two changes: the norm's output in block $\ell$ is divided by $\sqrt\ell$, and the matrices that write to the stream start larger. Appendix C
asks [which of the two changes lowers the loss](C_zoo.ipynb#against-idle-late-blocks). RealFormer adds the previous block's attention logits to a block's own
([He et al., 2021](https://arxiv.org/abs/2012.11747)). nGPT starts from the values chosen in [chapter 08](08_ngpt.ipynb), not from the published ones.

The next table is the board, at the largest size at which all eleven have been trained with tuned learning rates.
"""

# %%
largest = ladder.shared_rung(climbed, field.values())
board = rank_ladder(climbed, field, largest)
board

# %%
plots.dots(
    {f"{row.name} ({row.group})": list(row.values) for row in board.rows},
    xlabel="test loss (nats)",
    caption="Test losses of eleven recipes with tuned learning rates, best first. Recipes that share a letter (in brackets) are not distinguishable. Each point is one run.",
    provenance=lab.provenance(climbed.where(stage="final", rung=largest, arm=list(field.values()))),
).named("board")

# %% [markdown]
r"""
Read the letters (column *group*), which are corrected for all 55 comparisons, before the ranks. The less we know about a recipe, the more easily it shares letters. *Tuning uncertainty* is $u$.

The number of distinguishable pairs depends on the test, too. The board's test does not pair runs by seed. A paired test uses only the five seeds that all recipes share, and finds the fewest differences. (Welch's test uses each recipe's own standard deviation.)
"""

# %%
neighbours = [{one.name, other.name} for one, other in pairwise(board.rows)]
told = [p <= 0.05 for pair, p in board.pairs.items() if {*pair} in neighbours]
of_all = {
    arm: fmean(of[rung].values())
    for arm in ladder.ARMS
    if rung in (of := ladder.reported(climbed, arm))
}
lowest = min(of_all, key=of_all.__getitem__)
counted = ladder.count_told_apart(climbed, largest, [*field.values()])

# %%
rows = {"neighbours that differ": f"{sum(told)} of {len(told)}"}
for test, pairs_apart in counted.items():
    rows[f"pairs that differ, by {test}"] = f"{pairs_apart} of {len(board.pairs)}"
of_every = f"lowest mean loss of all {len(of_all)} methods at size {rung}: {lowest}"
rows[of_every] = f"{of_all[lowest]:.4f}"
of_board = min(of_all[arm] for arm in field.values())
rows["lowest mean loss of the board there"] = f"{of_board:.4f}"
plots.table([{"what": what, "value": value} for what, value in rows.items()])

# %% [markdown]
r"""
The last two rows are a warning: the lowest mean loss of all methods is not on the board. The board shows each recipe with only one initialization and one kind of norm. Other choices are on the page [All runs](runs.md).
In a method's name, the number after *drawn* is the RMS of the embeddings before training. For HybridNorm, changing this RMS changes the loss more than switching to most other recipes would (chapter 06).

Are all recipes that share a letter with the first *equal*? We test the whole group at once. (We chose this group after seeing the result.) We draw the same number of equal recipes, each as
uncertain as ours, and count how often their best and worst are at least as far apart as ours.
"""

# %%
top = [row for row in board.rows if {*row.group} & {*board.rows[0].group}]
errors = np.array(
    [(board.scatter.sd**2 / len(row.values) + row.tuned.size**2) ** 0.5 for row in top]
)
span = top[-1].mean - top[0].mean
boards = rng.normal(size=(5 * sizes.drawn, len(top))) * errors
wide = (np.ptp(boards, axis=-1) >= span).mean()
plots.table(
    [
        {
            "recipes that share a letter with the first": len(top),
            "their range (nats)": f"{span:.4f}",
            "share of drawn boards with at least this range": f"{wide:.1%}",
        }
    ]
)

# %% [markdown]
r"""
If the last number were at most 5 %, we would conclude that some of these recipes differ. It is far above that, so they may all be equal.
"""

# %%
without = ladder.improvement(climbed, "none")
without.claim(
    "10-ladder-a-norm-lowers-the-best-loss",
    "< 0",
    "Tuned, the model without norms ends above Pre-Norm.",
    found="At size {small}, the test loss of the model without norms is {of_small:.4f} nats higher than Pre-Norm's. At size {rung}, it is {apart:.4f} nats {side} Pre-Norm's.",
    source="this book's first small runs: higher by 0.02 nats",
    beside={"small": rung, "of_small": -without[rung].mean},
)

# %%
ladder.improvement(climbed, "lns").claim(
    "10-lns-ahead-of-pre",
    "> 0",
    "With each at its own rate, Pre-Norm scaled by depth (LNS) ends below Pre-Norm.",
    found="At size {rung}, with tuned learning rates, the test loss of LNS is {apart:.4f} nats {side} Pre-Norm's.",
    source="Sun et al. 2025, arXiv 2502.05795",
    published="lower validation perplexity than Pre-LN from 130M to 1B parameters",
)

# %%
ladder.improvement(climbed, "realformer", over="post").claim(
    "10-realformer-ends-below-post",
    "> 0",
    "With tuned learning rates, RealFormer reaches a lower test loss than Post-Norm.",
    found="At size {rung}, RealFormer's test loss is {apart:.4f} nats {side} Post-Norm's. RealFormer's learning-rate sensitivity is {its:.3f}, and Post-Norm's is {other:.3f}.",
    source="He et al. 2021, arXiv 2012.11747: better than Post-Norm and more robust to hyper-parameters",
    beside={"its": lost["realformer"], "other": lost["post"]},
    domain=Domain(
        "BERT, masked language models", "causal models of characters, six blocks", inside=False
    ),
)

# %% [markdown]
r"""
### Does a small model predict a larger one?

Why trust models of 80,000 parameters? With the ladder we can test whether recipes keep their order in larger models, so far over a factor of four in size. We compare two sizes at a time: of all pairs of recipes that were trained at both, we count how many have the same order at both. In a study that compares training texts, about four of five pairs of texts keep their order from 150 million parameters to a billion
([Magnusson et al., 2025](https://arxiv.org/abs/2504.11393)).

D, D24, W and C are variants of size S, explained in the next section. [All norms and recipes](tables.md) explains the names of recipes in the figure.
"""

# %%
small, *larger = [each for each in ladder.CLIMBED if each in climbed.by("rung")]
orders = [ladder.compare_orders(climbed, small, each) for each in larger]
plots.table(
    [
        {
            "compared": f"{of.one} and {of.other}",
            "pairs": of.pairs,
            "same order": of.same,
            f"distinguishable at {small}": of.told,
            "of these, same order": of.kept,
            "distinguishable at both, opposite order": len(of.against),
        }
        for of in orders
        if of.pairs
    ]
    or [{"compared": "two sizes are needed"}]
)

# %%
by_rung = {
    arm: ladder.improvement(climbed, arm)
    for arm in ladder.ARMS
    if arm not in ("pre", "no attention")
}
plots.curves(
    {
        arm: of
        for arm, of in by_rung.items()
        if {small, *larger[:1]} <= set(of) and len(of) >= min(2, 1 + len(larger))
    },
    xlabel="size or variant",
    ylabel="Pre-Norm's mean test loss minus the recipe's (nats)",
    caption="Improvement in test loss over Pre-Norm, by model size and variant. Where two lines cross, two recipes change their order.",
    provenance=lab.provenance(climbed.where(stage="final")),
).named("rung-to-rung")

# %% [markdown]
r"""
In the table, every pair that is distinguishable at S has the same order at M. With 24 blocks (D24), one of three such pairs has the opposite order, and on program code (C) six of eight do. But no pair with opposite orders is distinguishable in both settings.

### One thing changed: depth, decay, text

A larger size changes the width, the window and the number of steps together. Variants of size S change one thing each: **D** has twelve blocks instead of six and **D24** has 24, **W** has weight decay of 0.1
on matrices, and **C** reads program code instead of speeches. Before the runs, we wrote down forecasts for these variants, each with a probability (see the [scoreboard](scoreboard.md)). The cards below show those of this chapter's forecasts for which the runs exist.
"""

# %%
called = {arm: name for name, arm in field.items()} | {"hybrid": "HybridNorm"}
for lock in {lock.id: lock for lock in read_locks(project_root())}.values():
    of_chapter = lock.id.startswith("10-") and {*lock.rungs} <= {*ladder.DIRECTIONS}
    if of_chapter and ladder.improvement(climbed, *lock.arms).only(*lock.rungs):
        forecast = f"this book, a forecast (p = {lock.probability:g})"
        ladder.claim_locked(climbed, lock.id, forecast, names=called)

# %%
plots.table(
    {"recipe": called[arm]}
    | {
        f"{on}, {split} loss": f"{fmean(ended):.3f} ± {np.std(ended, ddof=1):.3f}"
        for on in ("S", "C")
        for split in ("validation", "test")
        if (ended := [*part.where(rung=on, stage="final").values(f"{split}.loss")])
    }
    for arm, part in climbed.where(arm=["lns", "qk", "hybrid", "pre", "post"]).by("arm").items()
)

# %% [markdown]
r"""
None of the five differences on program code is distinguishable from zero. The table (mean ± standard deviation of the runs) shows why. For code, whole files of a library are held out, and the loss on the test files varies far more from run to run than that on the validation files.
"""

# %% [markdown]
r"""
### Small embeddings that can grow

Large models usually start with small embeddings, which training can enlarge. In most of our runs, embeddings start with an RMS of 1. Here we initialized them at an RMS of 0.02 and tuned each recipe's learning rate again. Before the runs, we wrote down six forecasts for sizes S and M (see the [scoreboard](scoreboard.md)). None of them is decided, because size M is not evaluated yet. The table shows size S.
"""

# %%
small = ", drawn 0.02"
plots.table(
    {"recipe": name}
    | {
        f"improvement over Pre-Norm, {of}": f"{ladder.improvement(climbed, arm + end, 'pre' + end)[rung]:+z.4f}"
        for of, end in {"embeddings of RMS 1": "", "initialized at 0.02": small}.items()
    }
    for arm, name in called.items()
    if arm != "pre" and ladder.has_reported(climbed, arm + small, rung)
)

# %%
print(
    "Test loss of QKV-Pre minus HybridNorm's, embeddings initialized at 0.02: "
    f"{ladder.improvement(climbed, 'hybrid' + small, 'qkv-pre' + small)[rung]:+z.4f}"
)
print(
    "Pre-Norm's test loss with embeddings of RMS 1 minus that with 0.02: "
    f"{ladder.improvement(climbed, 'pre' + small, 'pre')[rung]:+z.4f}"
)

# %%
at_rates = {
    arm: climbed.where(arm=arm + small, rung=rung, stage="tuning").measure_by(
        "validation.loss", "lr"
    )
    for arm in ("pre", "qkv-pre", "hybrid")
}
plots.table(
    {"learning rate": rate}
    | {f"{called[arm]}, validation loss": f"{of[rate].mean:.4f}" for arm, of in at_rates.items()}
    for rate in (0.00562, 0.01, 0.0178, 0.0316)
)

# %% [markdown]
r"""
With small embeddings, HybridNorm is the only recipe in the table whose test loss is distinguishably lower than Pre-Norm's. The losses of QK-Norm, LNS and QKV-Pre are distinguishably lower only with embeddings of RMS 1. The advantage of these three shrinks mainly because small embeddings lower Pre-Norm's own loss (second printed line).

HybridNorm has QKV-Pre's norms inside attention and, in addition, a norm on the stream. With this norm the loss is lower than without it (first printed line), so most of HybridNorm's advantage over Pre-Norm comes from the norm on the stream, at this size and in this setting. But HybridNorm needs a lower learning rate: if HybridNorm and QKV-Pre share one rate, that rate decides which loss is lower (last table, means of one or three tuning seeds). We did not preregister this comparison. Still missing are runs with weight decay at size M, and all runs that combine it with small embeddings, as large models do.
"""

# %% [markdown]
r"""
### Operations and bytes

How many operations and bytes does a recipe need? For each of $T$ tokens, a block of width $d$ with a feed-forward layer of width $h$ needs
$8d^2 + 6dh + 4Td$ operations. Each matrix entry costs a multiplication and an addition, so four matrices of $d\times d$ take $8d^2$, three of $d\times h$ take $6dh$, and attention's two products over $T$ positions take $4Td$.
"""

# %%
cost = {
    name: count_footprint(run.model, run.data.batch, run.data.time)
    for name, run in ((name, ladder.build_base_run(rung, arm)) for name, arm in field.items())
}
run = ladder.build_base_run(rung, "none")
d, h, T = run.model.dim, run.model.hidden_dim, run.data.time
by_hand = run.model.depth * (8 * d * d + 6 * d * h + 4 * T * d) + 2 * d * run.model.vocab
off = cost["no norm"].operations / (BACKWARD * run.data.batch * T) - by_hand
exact(off, tolerance=0).claim(
    "10-operations-by-hand",
    "in [0, 0]",
    "The number of operations that we count in a model agrees with the formula.",
    found="For the network without norms, the count and the formula differ by {mean:.0f} operations per token.",
    source="the formula above, and the output matrix",
)

# %%
exact(max(one.norm_share for one in cost.values())).claim(
    "10-norms-are-few-operations",
    "< 0.05",
    "Norms account for a small share of a model's operations.",
    found="At width {width}, norms account for at most {mean:.1%} of a recipe's operations. A step of nGPT has {work:.2f} times as many operations as a step of Pre-Norm and {kept:.2f} times as many bytes of saved activations.",
    source="norm arithmetic against matrix products; the share decreases as 1/width",
    beside={
        "width": d,
        "work": cost["nGPT"].operations / cost["Pre-Norm"].operations,
        "kept": cost["nGPT"].kept / cost["Pre-Norm"].kept,
    },
)

# %% [markdown]
r"""
Norms still take time, because they move many bytes. To shorten a training step, try `torch.compile` before a library of norm kernels: in three models of width 1,024, compiling saved more ([chapter 09](09_memory_wall.ipynb#a-whole-model)). <!-- 09-compiling-beats-norm-kernels -->

### What a wrong rate costs

Four pairs of recipes on the ladder differ in norms inside attention. In two pairs nothing else differs: QK-Norm adds norms on queries and keys to Pre-Norm, and OLMo 2 adds them to a recipe with norms on the branches' outputs. The other two pairs compare Pre-Norm with QKV-Pre, whose norms on queries, keys and values *replace* the norm on attention's input: once with embeddings of RMS $1/\sqrt{2.5\,d}$ (a rule for the initial size), and once with embeddings of RMS $0.014$.
How do these norms change the sensitivity?

| question | choices | ours |
| --- | --- | --- |
| How many of ten recipes differ from Pre-Norm more in sensitivity than in best loss? <!-- 10-rates-tell-more-than-losses --> | few; <!-- 0.3 --> about half; <!-- 0.6 --> most | <details><summary>show</summary>Most do: recipes differ from Pre-Norm more in their sensitivity than in their best loss.</details> |
"""

# %%
seeds_of = {pair: sorted({*every[pair[0]]} & {*every[pair[1]]}) for pair in twins.values()}
fewest = min(map(len, seeds_of.values()))
short = {  # without the last rate
    arm: solved_sensitivity(of, ladder.COARSE[:-1], ladder.FREQUENCIES)
    for arm, of in by_rate.items()
}
plots.paired(
    {
        name: tuple([every[arm][one] for one in seeds_of[pair]] for arm in pair)
        for name, pair in twins.items()
    },
    ylabel="learning-rate sensitivity (nats)",
    columns=("without", "with"),
    caption="Learning-rate sensitivity of four pairs of recipes. In each pair, only the second recipe has norms on queries and keys. "
    f"Within each pair, the second recipe's sensitivity is lower by at least {min(1 - lost[normed] / lost[bare] for bare, normed in twins.values()):.0%}. "
    f"Without the highest learning rate, QK-Norm's sensitivity is {short['qk']:.3f}, and Pre-Norm's is {short['pre']:.3f}.",
    provenance=lab.provenance(tuning),
).named("twins")

# %%
others = [arm for arm in field.values() if arm != "pre"]
against = {arm: ladder.improvement(climbed, arm) for arm in others}
wider = proportion([abs(lost[arm] - lost["pre"]) > abs(against[arm][rung].mean) for arm in others])
still = sum(abs(short[arm] - short["pre"]) > abs(against[arm][rung].mean) for arm in others)
lacks = [lack for arm in others for lack in against[arm].list_lacking()]
computed(wider, unit="recipes").over_rates(lacks).claim(
    "10-rates-tell-more-than-losses",
    "> 0.5",
    "Most recipes differ from Pre-Norm more in learning-rate sensitivity than in test loss at the best learning rate.",
    found="Over two decades of learning rates, {k} of {n} recipes differ from Pre-Norm more in learning-rate sensitivity than in test loss (seeds per learning rate: {fewest} or more); "
    "without the highest learning rate, {still} of {n} do (one seed).",
    source="this book; learning-rate sensitivity: Wortsman et al. 2024, arXiv 2309.14322",
    beside={"fewest": fewest, "still": still},
)

# %%
lowered = [lost[bare] - lost[normed] for bare, normed in twins.values()]
compared = [ladder.improvement(climbed, normed) for _, normed in twins.values()]
lacks = [lack for comparison in compared for lack in comparison.list_lacking()]
computed(lowered, unit="pairs").over_rates(lacks).claim(
    "10-norms-on-q-and-k-lower-the-sensitivity",
    "> 0",
    "In each of our pairs of recipes, the one with norms inside attention has a lower learning-rate sensitivity.",
    found="In {n} pairs of recipes, norms inside attention lower the learning-rate sensitivity by {mean:.2f} nats on average and by at least {least:.2f} nats (seeds per learning rate: {fewest} or more).",
    source="this book; the same in larger models: Wortsman et al. 2024, arXiv 2309.14322",
    beside={"least": min(lowered), "fewest": fewest},
)

# %% [markdown]
r"""
So in these runs, the main benefit of norms inside attention is **a wider range of learning rates**. Nobody tunes the learning rate of a large run ten times.

This finding has two limits. *The range of rates*: nearly all of QK-Norm's advantage comes from the highest learning rate, as the caption shows, so over a narrower range the result may differ. *The recipe*: Hybrid\* and nGPT have norms on queries and keys, too, but their
sensitivity is higher than Pre-Norm's.

### A rate that transfers

If you cannot tune a large model, you tune a small one. How should the learning rate change with the size? Adam moves every weight by about $\eta$, whatever
the gradient. One output of a matrix is a sum over its $d$ inputs. Where the changes of its terms agree in sign, they add up, and a step at a fixed learning rate changes
the output **in proportion to the width**. If the $L$ blocks move the stream in the same direction, the sum of their
changes grows **in proportion to $L$**. If each branch is divided by $\sqrt L$, the sum grows in proportion to $\sqrt L$. If it is divided by $L$, the sum does not grow.

| question | choices | ours |
| --- | --- | --- |
| Make the model twice as wide, at the same learning rate. How far does Adam's first step move the stream after the last block? <!-- 10-a-first-step-grows-with-the-width --> | as far as before; <!-- 0.25 --> about 1.4 times as far; <!-- 0.75 --> about twice as far | <details><summary>show</summary>At the same learning rate, the first step moves the stream twice as far in a model twice as wide.</details> |
"""


# %% tags=["mechanism"]
def measure_step(dim, depth, power=0.0, seed=seed):
    """Return how far Adam's first step moves the stream, relative to its length."""
    torch.manual_seed(seed)
    model = ModelConfig("pre", "rms", dim, depth, context=32).build()
    for block in model.blocks:
        for half in (block.attention, block.feed_forward):
            half.sublayer.register_forward_hook(lambda *seen: seen[-1] / depth**power)
    return step_response(model, batch, ["adam"])["adam"] / dim**0.5


# %%
batch = tuple(part[:4] for part in next(ladder.build_text(rung).load().train(seed)))
five = lab.seeds(5)
widths = {dim: [measure_step(dim, 6, seed=s) for s in five] for dim in sizes.widths}
depths = {
    power: {depth: [measure_step(64, depth, power, s) for s in five] for depth in sizes.depths}
    for power in (0.0, 0.5, 1.0)
}


def over_first(steps):
    """Divide by the smallest model, seed by seed, and name sizes by how many times as large."""
    (first, of_first), *_ = steps.items()
    return {
        n / first: [a / b for a, b in zip(of, of_first, strict=True)] for n, of in steps.items()
    }


def slopes(steps):
    """Fit a power of the size to each seed's steps."""
    sizes_of, of_seed = np.log([*steps]), np.log(np.array([*steps.values()]).T)
    return [float(np.polyfit(sizes_of, one, 1)[0]) for one in of_seed]


# %%
deepest = sizes.depths[-1] / sizes.depths[0]
share = fmean(over_first(depths[1.0])[deepest])
plots.curves(
    {
        "width": over_first(widths),
        "depth": over_first(depths[0.0]),
        "depth, branches / √L": over_first(depths[0.5]),
        "depth, branches / L": over_first(depths[1.0]),
    },
    xlabel="width or depth, relative to the smallest model's",
    ylabel="first step, relative to the smallest model's",
    logx=True,
    logy=True,
    counted=True,
    caption="Distance by which Adam's first step moves the stream after the last block of an untrained Pre-Norm model, against width and against depth, at a fixed learning rate. The distance grows roughly in proportion to width and "
    "to depth. If every branch is divided by the depth, the stream of a model that is "
    f"{deepest:g} times as deep moves {share:.2f} times as far.",
).named("first-step-by-width")

# %%
computed(slopes(widths)).claim(
    "10-a-first-step-grows-with-the-width",
    "in [0.75, 1.25]",
    "At a fixed learning rate, the distance by which Adam's first step moves the stream is proportional to the width.",
    found="The distance by which Adam's first step moves the stream scales as the width to the power {mean:.2f}.",
    source="derived above; Yang et al. 2022, arXiv 2203.03466",
    predicted=1.0,
)
computed(slopes(depths[1.0])).claim(
    "10-branches-over-depth-keep-the-step",
    "in [-0.25, 0.25]",
    "If every branch is divided by the depth, Adam's first step moves the stream about equally far at any depth.",
    found="With branches divided by the depth L, the distance by which Adam's first step moves the stream scales as the depth to the power {mean:+.2f}. "
    "With branches divided by √L, the power is {root:+.2f}, and with undivided branches it is {plain:+.2f}.",
    source="derived above; Dey et al. 2025, arXiv 2505.01618",
    beside={"root": fmean(slopes(depths[0.5])), "plain": fmean(slopes(depths[0.0]))},
    predicted=0.0,
)

# %% [markdown]
r"""
With branches divided by $L$, the power of the depth is a little below $0$, as expected if the blocks' changes do not quite agree in direction.
The rules in use follow from this arithmetic. **μP** divides the learning rate of hidden matrices by the width and leaves that of gains unchanged
([Yang et al., 2022](https://arxiv.org/abs/2203.03466)). For depth there are two rules. Depth-μP divides branches by $\sqrt L$ and also lowers the
learning rate ([Yang et al., 2024](https://arxiv.org/abs/2310.02244); [Bordelon et al., 2024](https://arxiv.org/abs/2309.16620)). **CompleteP** divides branches by $L$ and keeps the learning rate
([Dey et al., 2025](https://arxiv.org/abs/2505.01618)). The papers found that tuned learning rates follow these rules. Our cards confirm only the arithmetic, because a first step is not a training run. nGPT normalizes everything, yet its
learning rate does not transfer from one width to another ([Shigida et al., 2026](https://arxiv.org/abs/2604.27077)): **a norm does not replace the rule**.

Does the ladder agree? Its second size is twice as wide (and reads longer windows for more steps), so μP would halve the learning rate.
"""

# %%
above = {}
for name in ("Pre-Norm", "QK-Norm"):
    for step in ladder.reported(climbed, field[name]):
        of_rate = climbed.where(arm=field[name], rung=step, stage="tuning").by("lr").items()
        tried = {rate: fmean(at.values("validation.loss")) for rate, at in of_rate}
        best = min(tried.values())
        above[f"{name}, {step}"] = {
            rate: loss - best for rate, loss in tried.items() if loss < best + 0.06
        }
found = "; ".join(f"{name}: {min(of, key=of.get):g}" for name, of in above.items())
plots.curves(
    {name: {rate: [of[rate]] for rate in sorted(of)} for name, of in above.items()},
    xlabel="learning rate",
    ylabel="validation loss above the best (nats)",
    logx=True,
    counted=True,
    caption="Validation loss minus the lowest validation loss, against learning rate, for Pre-Norm and QK-Norm at each model size and variant. "
    f"M is twice as wide as S. Of the rates that were tried, these are the best: {found}.",
    provenance=lab.provenance(climbed.where(stage="tuning", arm=["pre", "qk"])),
).named("rates-by-rung")

# %% [markdown]
r"""
Is the best rate halved? Neighbouring learning rates differ by a factor of 1.8 here, so the grid is too coarse to tell. In either case, a wide range of rates helps:
where the curve is flat, it matters little that a learning rate was tuned on another model.

## What to choose: a table of advice

Each row of the next table gives advice for a situation that we chose, and lists the evidence in three
grades. A **law** holds at any size. A **report** describes runs far larger than ours. **Our run** is a finding of this book, listed with its scale. Such a finding supports advice only if it survives Holm's
correction in its chapter. Evidence that limits the advice begins with *But*. Such evidence is marked *not settled* if it does not survive the correction, and *runs incomplete* if preregistered runs are still missing.
"""

# %%
recorded = read_claims(project_root())
decisions(read_advice("for a large model"), recorded)

# %% [markdown]
r"""
Two studies have asked our question for larger models, and each compared many changes in the same code base. [Narang et al. (2021)](https://arxiv.org/abs/2102.11972) tried some
forty changes, and most did not help. [Zhao et al. (2026)](https://arxiv.org/abs/2605.20798) tried twenty newer ones at 1.2B and 3B parameters, measured
the noise of their baseline first, and corrected for all comparisons. Two of the changes survive at 1.2B, and one of them does not train stably at 3B with the shared
recipe. A first place at one size, published without the noise of the baseline, may be due to chance, like the first place on a board of equals.

### Seven billion parameters, today

- **Take** RMSNorm at the start of every branch and before the output (Pre-Norm), and RMSNorm on queries and keys, per head, with its gain before the
  rotation.
- **Compute** sums of squares in float32. Keep gains in float32, or store them as $1 + w$, and leave them out of weight decay. (With a
  float32 gain, `LlamaRMSNorm` and T5's norm return float32 for a bfloat16 input. Cast their result back.)
- **Tune** the learning rate on a narrow, shallow model. We cannot tell you the rate. In the large model, divide the rate of hidden matrices by the factor by which the width grows. In both models, divide each branch by the model's own depth. Watch the largest attention logit and the
  RMS of the stream.
- **Leave out** the norm on values, the additional norm on each branch's output, nGPT's unit sphere, and DyT, until one of them beats *this* baseline with
  a tuned learning rate.

How certain is this advice? Models of this kind train successfully: Qwen 3 is one, and OLMo 2 and Gemma 3 also have norms on queries and keys
([Team OLMo et al., 2024](https://arxiv.org/abs/2501.00656); [Gemma Team, 2025](https://arxiv.org/abs/2503.19786); [Qwen Team, 2025](https://arxiv.org/abs/2505.09388)), though not all of these norms are per head.
But the agreement of many models only shows that a choice is widely adopted. The claim that this choice is *best* rests on laws, on reports about models that are smaller or not language models, and on runs four to five orders of magnitude smaller than yours. No run here trains with branches divided by the depth. With weight decay, we could not distinguish QK-Norm from Pre-Norm ([chapter 04](04_qk_norm.ipynb#with-tuned-learning-rates)).

Why not LNS, which is first on our board? It is distinguishable from Pre-Norm, but not from QK-Norm. We have trained it only at size S, and on program code we cannot distinguish it from Pre-Norm. We did not combine it with QK-Norm.

**What would change this advice?** If a comparison at a billion parameters or more, with QK-Norm in the baseline and a tuned learning rate for
each recipe, finds a recipe that is better by more than the noise, take that recipe.

### One GPU and a week

1. **Size.** A run is long enough when a copy of the model without attention is clearly worse. Take the largest model for which such a run takes at most two hours.
2. **Learning rates.** Run the baseline and your idea at five rates half a decade apart with one seed. Then run three seeds at three rates a quarter of a decade apart, around the best one. The lowest point of a parabola through the means is the tuned learning rate.
3. **Seeds.** Compute $\sigma$ from the baseline's runs. Choose $\Delta$, the smallest difference that would change your decision. The formula in *What chance alone produces* then gives $n$. Write down your criterion before step 4.
4. **Evaluation.** Train both with $n$ other seeds at their tuned rates, and compare the losses and the sensitivities. With $n = 20$, the whole comparison takes some seventy runs.
5. **Stop** when the $n$ seeds are done, whatever they show. "Not distinguishable" is a result. Before you believe an improvement, repeat it at twice the width.

### Other situations
"""

# %%
decisions(read_advice("otherwise"), recorded)

# %% [markdown]
r"""
## Where it goes wrong

**You report the best seed, or the best of many recipes.** Both look better than they are. By how much, in nats, on our board?
"""

# %%
lucky = fmean(fmean(of) - min(of) for of in losses.values())
steps_between = np.diff(sorted(fmean(of) for of in losses.values()))
first_of_equals = first_ahead.mean() * scatter.sd
plots.table(
    [
        {"what": "mean of a recipe minus its best seed, averaged over recipes", "nats": lucky},
        {"what": "mean of eleven equals minus the best of them", "nats": first_of_equals},
        {"what": "median gap between neighbours on the board", "nats": np.median(steps_between)},
    ],
    digits=2,
)

# %% [markdown]
r"""
A recipe's best seed is better than its mean by more than neighbours on the board typically differ. By chance alone, the best of eleven equals is better than their mean by about as much as neighbours differ.

**The baseline lacks an ingredient.** nGPT has norms on queries and keys, and the GPT that it was compared with had none. If the baseline gets these norms, its advantage over nGPT at our sizes is even larger (chapter 08).

**The comparison stops too early.** An earlier edition of this chapter ranked recipes after eighty steps, before any model had learned which letter tends to follow
two given letters. In runs forty times as long, several verdicts were reversed. Such short runs compare how fast recipes *start*.

**The norm itself has a bug**, and the model trains anyway. Here are three one-line bugs. By default, PyTorch's `F.normalize(x)` normalizes over `dim=1`, which is time in a (batch, time, features)
tensor. `x.abs().mean()` without `dim` pools the whole batch. The root in `x.pow(2).mean(-1).sqrt() + eps` has no finite gradient at zero, so one
token of zeros makes gradients NaN. Does `check.any_norm` find them?
"""


# %% tags=["mechanism"]
def make_norm(formula):
    """Make a module with a gain from a formula."""

    class Mine(torch.nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(dim))

        def forward(self, x):
            return self.weight * formula(x)

    return Mine


# %%
slips = (
    lambda x: torch.nn.functional.normalize(x) * x.shape[-1] ** 0.5,
    lambda x: x / (x.abs().mean() + 1e-6),
    lambda x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6),
)
exact(sum(not check.any_norm(make_norm(slip)).ok for slip in slips)).claim(
    "10-check-finds-the-slips",
    ">= 3",
    "labkit's check of a norm finds each of three one-line bugs.",
    found="Of three one-line bugs, labkit's check of a norm finds {mean:.0f}.",
    source="F.normalize's default axis; a mean without dim; a root at zero",
)

# %%
checked = check.any_norm(
    own_norm(starter.__file__), lambda x: x / (x.abs().mean(-1, keepdim=True) + 1e-6)
)
exact(len(checked.failed)).claim(
    "10-own-norm-keeps-the-laws",
    "<= 0",
    "labkit's template for a custom norm obeys all laws that labkit checks.",
    found="labkit's template for a custom norm violates {mean:.0f} of the laws that labkit checks.",
    source="labkit.check.any_norm",
)

# %% [markdown]
r"""
If you inherit a run that does not train, look up its symptoms in [this table](tables.md#symptoms), which gives a probe, a cause and a fix for each.

## Exercises

**2 (in code).** Write Holm's adjustment. The function takes a list of p-values and returns the adjusted ones in the same order.
"""


# %% tags=["exercise"]
def my_holm(p_values):
    """Adjust p-values by Holm."""
    return ...


# %%
def check_holm(function):
    """Compare a function with labkit's on twenty p-values."""
    given = np.random.default_rng(1).uniform(0, 0.2, 20).tolist()
    truth = list(adjusted(dict(enumerate(given))).values())
    hint = "the factor falls from m to 1; a later value is never below an earlier one, nor above 1"
    return check.function(function, (given,), truth, name="2", hint=hint)


check_holm(my_holm)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`sorted(range(m), key=lambda i: p[i])` gives the positions of the p-values in increasing order. Keep a running maximum.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_holm(p_values):
    """A solution of exercise 2."""
    m, running, out = len(p_values), 0.0, list(p_values)
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (m - rank) * p_values[i]))
        out[i] = running
    return out


assert check_holm(solved_holm).ok

# %% [markdown]
r"""
**3 (a proof).** Show that Holm's procedure makes at least one false rejection with a probability of at most $\alpha$, whatever the
dependence between the tests.

<details><summary>Hint</summary>

Let $m_0$ be the number of true hypotheses. Look at the *first* true one that is rejected: how many hypotheses were left at that moment?

</details>
<details><summary>Solution</summary>

Let the first rejection of a true hypothesis be step $j$. Before it, only false ones were rejected, so $j - 1 \le m - m_0$, that
is $m - j + 1 \ge m_0$. That hypothesis was rejected because $p \le \alpha/(m - j + 1) \le \alpha/m_0$. So whenever a true hypothesis is rejected, some true hypothesis has $p \le \alpha/m_0$. Each of the $m_0$ true hypotheses has such a p-value with a probability of at most $\alpha/m_0$. By the union bound, which needs no
independence, the probability that at least one of them does is at most $\alpha$. $\square$

</details>

### Your own norm: a guided project

**4 (open).** Replace Pre-Norm's norms by one of your own, in four steps. (a) `labkit leaderboard --starter my_norm.py` writes a file with a norm to begin with, which
divides by the mean absolute value. Change it. (b) `check.any_norm("my_norm.py")` tests it against the laws that every norm of such a model
must obey. (c) Write down what you predict for the best loss *and* for the sensitivity, and what would convince you that your norm is better. (d) Tune it at
the ladder's five rates: the cell below prepares the runs. Then train five seeds at its best rate and compare them with Pre-Norm's. The whole project takes some ten minutes on one core.
"""

# %% tags=["exercise"]
my_prediction = "…"
mine = replace(ladder.build_base_run(rung, "pre"), seed=ladder.TUNING_SEED, probes=("validation",))
my_norm = {"mine": {"model.norm": own_norm(starter.__file__)}}  # your file in place of the starter
my_experiment = Experiment(mine, {"arm": my_norm, "train.lr": list(ladder.COARSE)})
# Remove the first "#" of each line.
# tuned = lab.run(my_experiment).by("lr").items()
# tried = {rate: of.values("validation.loss")[0] for rate, of in tuned}
# print(tried, solved_sensitivity(tried, ladder.COARSE, ladder.FREQUENCIES), once["pre"])
print(len(my_experiment.runs()), "runs to tune")

# %% [markdown]
r"""
<details><summary>Hint</summary>

For normal values, the mean absolute value is $\sqrt{2/\pi}\,\sigma$, so the starter is approximately RMSNorm with a gain that begins at $1.25$. If your norm has the lower loss, check it in
this order: five other seeds, a finer grid of learning rates for the *baseline*, a larger model, a different text.

</details>

## What you now know

- **Would the list look different if all recipes were equal?** For the first places we cannot tell. Further down it would: after Holm's correction, most of our pairs differ, whereas a board of equals hardly ever shows even one pair that differs. <!-- 10-equals-look-different 10-the-first-of-equals-leads 10-holm-keeps-the-level -->
- **What can the list say?** It can give letters instead of ranks. Recipes that share a letter are not distinguishable, and most neighbours share
  one. <!-- 10-letters-say-the-pairs 10-five-seeds-see-large-differences -->
- **What does a norm improve besides the loss?** It can widen the range of learning rates. At size S, the only one tested, and over two decades of rates, recipes differ from Pre-Norm more in the cost of a wrong learning rate than in their best loss.
  Norms inside attention lowered that cost in each of our four pairs, but four pairs are not enough to settle the question. <!-- 10-rates-tell-more-than-losses -->
- **What carries a learning rate to a larger model?** A scaling rule does, and a norm does not. We looked at Adam's first step only. This step grows in proportion to the width, and with branches divided by the depth
  it is a little shorter in a deeper model. <!-- 10-a-first-step-grows-with-the-width 10-branches-over-depth-keep-the-step -->
- **Which norm, then?** Take RMSNorm, Pre-Norm and QK-Norm. The table lists the evidence for each of the three, and our losses are only a part of it. <!-- 03-pre-layer-becomes-pre-rms 02-warm-up-is-not-always-enough 04-qk-norm-helps-at-a-high-rate -->

## To carry away

- **Rule.** Tune each method's learning rate, take several seeds, and report an interval. Then report the cost of a wrong learning rate.
- **Start from.** Pre-Norm with RMSNorm, and norms on queries and keys, which matter most if the learning rate may be too high.
- **Test.** Two recipes in a ranking are distinguishable only if they differ by more than chance alone produces in a ranking of equal recipes.
- **Relatives.** [All norms and recipes](tables.md), side by side.

| you see | cause | try |
| --- | --- | --- |
| a method far better than its baseline | the baseline lacks an ingredient, or a tuned learning rate | give the baseline both |
| the ranking changes with the seeds | differences below the standard deviation of a run | report letters instead of ranks |
| a short run gives another ranking | the run compares early training | train until attention lowers the loss |

## References

Works cited: [Holm (1979)](https://www.jstor.org/stable/4615733), [Piepho (2004)](https://doi.org/10.1198/1061860043515), [He et al. (2021)](https://arxiv.org/abs/2012.11747), [Narang et al. (2021)](https://arxiv.org/abs/2102.11972), [Yang et al. (2022)](https://arxiv.org/abs/2203.03466), [Bordelon et al. (2024)](https://arxiv.org/abs/2309.16620), [Team OLMo et al. (2024)](https://arxiv.org/abs/2501.00656), [Wortsman et al. (2024)](https://arxiv.org/abs/2309.14322), [Yang et al. (2024)](https://arxiv.org/abs/2310.02244), [Dey et al. (2025)](https://arxiv.org/abs/2505.01618), [Magnusson et al. (2025)](https://arxiv.org/abs/2504.11393), [Gemma Team (2025)](https://arxiv.org/abs/2503.19786), [Qwen Team (2025)](https://arxiv.org/abs/2505.09388), [Shigida et al. (2026)](https://arxiv.org/abs/2604.27077), [Zhao et al. (2026)](https://arxiv.org/abs/2605.20798).
Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
