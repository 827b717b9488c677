# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Dynamic Tanh

**Question.** Every norm of this book so far looks at many numbers before it changes one: it takes a mean, a variance, a length. In 2025 [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622) plotted what the layer norms of trained
transformers do, entry by entry, and saw the letter S. So they put the curve in place of the norm,

$$\mathrm{DyT}(x) = \gamma\odot\tanh(\alpha x) + \beta,$$

with one learned number $\alpha$ a layer. No mean, no variance, no sum of any kind. They report parity, from images to language models of 70 billion parameters. That is a strange result. Layer norm
applied to one token is a *straight line*: subtract a number, divide by a number. Where does an S come from? And how can a map that knows nothing of its neighbours do the work of one that does nothing but compare them?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- the S explained: a straight line for each token, an S over all tokens, and what must be true of the tokens for it to appear;
- what DyT keeps of a norm and what it gives up, on paper: scale, gradient, and the one knob that two constants share;
- its relatives Derf (an erf) and BHyT (a norm again, in disguise);
- the norms of our own trained models: where the S is, where it is not, and how to plant it;
- DyT, Derf, BHyT, layer norm and *no norm at all* on text and on digits, each at its own learning rate;
- the first $\alpha$, the learned $\alpha$, one $\alpha$ or two, the scale of the embedding;
- a search for the conditions under which DyT wins: little data, outliers, another optimizer, width;
- PRepBN, the other road away from statistics: trained, folded into the next matrix, timed.
"""

# %%
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from labkit import TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Digits, Text
from labkit.experiments import Experiment, Lab, Run, claim, minus
from labkit.model import Perturbed
from labkit.norms import bounded_tanh, dynamic_erf, dynamic_tanh, layer_norm, rms_norm
from labkit.source import show
from labkit.vit import ViTConfig

lab = Lab(
    "07_dynamic_tanh",
    size=size,
    seed=seed,
    memory={"kernel": "750M", "run": "900M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    depth=(1, 4),
    steps=(3, 180, 800),
    held_out=(512, 4096, 16_384),
    seeds=(5, 5, 10),
    few=(2, 3, 5),
    rates=([0.01], [0.003, 0.01, 0.03], [0.001, 0.003, 0.006, 0.01, 0.03, 0.06]),
    outliers=([30.0], [30.0], [3.0, 10.0, 30.0, 100.0]),
    alphas=([0.5, 1.0], [0.25, 0.5, 1.0, 2.0], [0.125, 0.25, 0.5, 1.0, 2.0, 4.0]),
    alpha_pairs=([(0.5, 1.0), (1.0, 0.5)], [(0.25, 1.0), (1.0, 0.25)], None),  # None: all pairs
    embedding_sizes=([32**-0.5], [32**-0.5], [0.05, 32**-0.5, 0.5, 2.0, 4.0]),
    characters=([1024], [2048, 16_384], [1024, 2048, 4096, 16_384, 65_536]),
    least_characters=(1024, 2048),
    optimizers=(["muon"], ["muon"], ["muon", "sgd"]),
    optimizer_rates=([0.03], [0.03], [0.003, 0.01, 0.03, 0.1]),
    widths=([16, 32], [16, 32, 64], [16, 32, 64, 128]),
    further=(False, False, True),
    vit_depth=(1, 3, 6),
    hot_rates=([0.03], [0.03], [0.03, 0.1]),
    images=([64], [100], [50, 100, 300, 1000]),
    dropouts=([], [], [0.1, 0.3]),
)

# %% [markdown]
r"""
## The idea: one number in, one number out

Two tokens, the second ten times the first. What does each map make of them? ($\alpha = \tfrac12$; gain 1, shift 0.)
"""

# %%
token = torch.tensor([3.0, -1.0, 1.0, -3.0])
maps = {
    "layer": layer_norm,
    "dyt": lambda x: dynamic_tanh(x, 0.5),
    "derf": lambda x: dynamic_erf(x, 0.5),
    "bhyt": bounded_tanh,
}
plots.table(
    [
        {"map": name, "token": str(f(token).numpy().round(2)), "10 × token": str(f(10 * token).numpy().round(2))}
        for name, f in maps.items()
    ]
)  # fmt: skip

# %% [markdown]
r"""
Layer norm is blind to the factor ten. DyT is not: the small token passes with its proportions, the large one comes out as little more than its signs. Both results are *bounded*. That is the property the two
share, and it is the one the authors think matters. BHyT is blind to scale like a norm, and its output is small. We come back to it.

## Derivation

### A line for each token, an S over all

For one token, layer norm is $y_i = (x_i - \mu)/\sigma$ with the *same* $\mu$ and $\sigma$ for all $i$. Its slope is $1/\sigma$. Another token has another $\sigma$, hence another line. Now forget which token an entry came
from and plot all entries. (Means are small, chapter 03; set $\mu = 0$.) At the input value $x$ the average output is

$$E[\,y \mid x\,] = x\cdot E[\,1/\sigma \mid x\,].$$

The slope at $x$ is an average over the tokens *that have an entry there*. Near zero every token has entries. Far out only tokens with a large $\sigma$ have any, and their lines are flat. So the pooled map
is steep in the middle and flatter at the ends. It needs one thing: tokens of **different** spread. Take nine calm tokens in ten with $\sigma = 1$ and a wild one with $\sigma = s$, entries normal. By Bayes
the share of wild tokens among the entries at $x$ is

$$w(x) = \frac{0.1\,\varphi(x/s)/s}{0.9\,\varphi(x) + 0.1\,\varphi(x/s)/s}, \qquad E[\,y \mid x\,] = x\,\Big(1 - w(x) + \frac{w(x)}{s}\Big).$$

Move $s$. Two spreads give two lines that cross, a steep one in the middle and a flat one beyond: the skeleton of an S. (Half of the points drawn are the most extreme entries, here and in all such pictures below, so that the ends can be seen. How *many* entries lie there a picture cannot say.)
"""

# %%
from labkit.probes.norm_maps import bend, describe


def mixture(s, tokens=400, width=256):
    """Draw tokens of which one in ten has spread s; the others have spread 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=generator, dtype=torch.float64)
    x[: tokens // 10] *= s
    return x


def draw(s):
    """One picture of layer norm's map over such tokens."""
    told = describe("layer", nn.LayerNorm(256).double(), mixture(s))
    title = {f"layer norm, wild tokens {s} times as wide": told}
    return plots.norm_curves(title, caption="Points: single entries. Lines: single tokens.")


plots.explore(
    draw,
    [1, 2, 4, 8, 16],
    "spread-of-wild-tokens",
    label="spread of the wild tokens",
    caption="One layer norm, always. With tokens of one spread its map is a line; the wilder one token in "
    "ten, the flatter its ends. Points: single entries; lines: three single tokens.",
)

# %% [markdown]
r"""
The formula beside the average of a draw. Read a column from top to bottom before you go on: does it rise all the way?
"""


# %%
def average(x, s):
    """Give the mixture's average output at x."""
    calm, wild = 0.9 * np.exp(-(x**2) / 2), 0.1 * np.exp(-((x / s) ** 2) / 2) / s
    return x * (calm + wild / s) / (calm + wild)


x = mixture(8)
y = layer_norm(x)
plots.table(
    [
        {
            "input x": at,
            "average output near x": y[(x - at).abs() < 0.2].mean().item(),
            "formula": average(at, 8),
        }
        for at in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    ]
)

# %% [markdown]
r"""
It does not. Where the calm tokens run out the average *falls* from the steep line to the flat one. A tanh never falls. Many spreads, as in a trained model, lay many lines between the two, and only then the kinks blur into a curve.
"""

# %%
x = mixture(8)
y = layer_norm(x, eps=0.0)
slope = (y * x).sum(-1) / (x * (x - x.mean(-1, keepdim=True))).sum(-1)
off = y - slope[:, None] * (x - x.mean(-1, keepdim=True))
claim(
    "07-one-token-is-a-line",
    "For each single token, layer norm's output is off a straight line by {mean:.0e} at most.",
    off.abs().max().item(),
    said="For one token layer norm is a straight line.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 3; the definition of LayerNorm",
    published="linear for each token; the S is seen over tokens and channels",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
To compare maps we need a number for "how flat at the ends". Let the **bend** be the slope of the far entries (the largest hundredth) over the slope of the middle (the smaller half): 1 for a line, less for an S. (Less for two crossing lines, too: it compares slopes and knows nothing of kinks.)
"""

# %%
bends = {s: bend(mixture(s), layer_norm(mixture(s))) for s in (1, 2, 4, 8, 16)}
print({s: round(value, 2) for s, value in bends.items()})
claim(
    "07-spread-makes-the-s",
    "Layer norm's bend is {one:.2f} over tokens of one spread and {mean:.2f} where a tenth has spread 8.",
    bends[8],
    one=bends[1],
    said="Tokens of different spread make layer norm's map an S.",
    source="the mixture formula of this section",
    published="predicted: about 1/8 over the slope of the middle",
    criterion="< 0.3",
    kind="exact",
)

# %% [markdown]
r"""
So a picture of an S says nothing about layer norm, which has no S in it. It says that the *data* hold tokens, or channels, of very different size. Texts that write "LN layers map inputs to outputs by
an S-shaped curve" leave out the half of the sentence that matters.

### One entry at a time, there is an S after all

There is a second reading, which looks at one token and moves *one* entry, the others fixed. Let $C$ be the sum of the squares of the other $d - 1$ entries. RMSNorm's output for the moving entry is

$$y = \frac{x}{\sqrt{(x^2 + C)/d}} = \sqrt d\;\frac{x}{\sqrt{x^2 + C}},$$

a smooth, bounded, monotone S with the limits $\pm\sqrt d$ (the inverse square root unit; the analytic route to DyT in arXiv 2503.21708 ends at this function). A $\tanh$ of fitted width is close to it. The difference is who sets the
width: here $\sqrt C$, measured anew for each token; in DyT the number $1/\alpha$, the same for all of them.
"""

# %%
others = torch.randn(63, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
moving = torch.linspace(-60, 60, 121, dtype=torch.float64)
rows = torch.cat([moving[:, None], others.expand(121, 63)], dim=1)
isru = 8 * moving / (moving.square() + others.square().sum()).sqrt()
claim(
    "07-one-entry-is-an-s",
    "RMSNorm's output for one moving entry differs from √d x/√(x² + C) by {mean:.0e} at most.",
    (rms_norm(rows, eps=0.0)[:, 0] - isru).abs().max().item(),
    said="Along one entry RMSNorm is an S-shaped curve.",
    source="algebra above; compare arXiv 2503.21708",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
### What is given up: blindness to scale

$\tanh(\alpha\cdot c\,x) = \tanh((c\alpha)\,x)$. Multiply the input by $c$, or multiply $\alpha$ by $c$: the same function. So wherever a model fixes the scale of a stream, it also fixes what a good $\alpha$ is. A language model
draws embeddings with a small standard deviation, and the first norm used to repair that. Without a norm somebody must. The authors' LLaMA multiplies the embedding by a learned number that starts at $\sqrt d$; their
vision models do not need it. The scale of the embedding and $\alpha_0$ are one knob seen twice, at the first norm. Deeper down the scale is whatever the sublayers have written.

### The gradient

Layer norm's Jacobian is a dense matrix: it removes the component along $x$ and divides by $\sigma$ (chapter 01). DyT's is diagonal,

$$\frac{\partial y_i}{\partial x_i} = \gamma_i\,\alpha\,\mathrm{sech}^2(\alpha x_i), \qquad \frac{\partial y}{\partial\alpha} = \gamma\odot x\odot\mathrm{sech}^2(\alpha x).$$

Both factors $\mathrm{sech}^2$ vanish where $|\alpha x|$ is large. An entry out there is **flat**: it passes hardly any gradient to what lies below, and *hardly any to $\alpha$ either*. If most of a stream outgrows $1/\alpha$, then $\alpha$, which could shrink
and repair it, hears a minority: the entries that have not. (It moves all the same. Adam makes a full step of a small gradient; the question is whose vote it follows.) A norm in the same place divides the gradient by $\sigma$: it gets small, for all entries of a token alike.
"""

# %%
torch.manual_seed(seed)
x = torch.randn(5, 16, dtype=torch.float64, requires_grad=True)
alpha, gain = torch.tensor([0.7], dtype=torch.float64), torch.rand(16, dtype=torch.float64)
jacobian = torch.autograd.functional.jacobian(lambda v: dynamic_tanh(v, alpha, gain), x[0])
formula = torch.diag(gain * alpha / torch.cosh(alpha * x[0]).square())
shifted = dynamic_tanh(10 * x, alpha / 10) - dynamic_tanh(x, alpha)

# %%
claim(
    "07-jacobian-is-diagonal",
    "DyT's Jacobian by autograd and γ α sech²(α x) on the diagonal differ by {mean:.0e} at most.",
    (jacobian - formula).abs().max().item(),
    said="DyT's Jacobian is diagonal: no channel hears another.",
    source="the derivative of tanh",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %%
claim(
    "07-scale-and-alpha-are-one-knob",
    "Ten times the input at a tenth of α changes DyT's output by {mean:.0e} at most.",
    shifted.abs().max().item(),
    said="The scale of the input and α are one knob.",
    source="DyT's definition",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
### Two relatives

**Derf** ([Chen et al., 2025](https://arxiv.org/abs/2512.10938)) takes the error function and gives it a learned centre: $y = \gamma\odot\mathrm{erf}(\alpha x + s) + \beta$. Its authors searched for the best squash and name four properties that matter: centred at zero, bounded, sensitive
around the centre, monotone. How different from a tanh is it? Let us fit one to the other:
"""

# %%
grid = torch.linspace(-4, 4, 4001, dtype=torch.float64)
widths = torch.linspace(1.0, 1.4, 401, dtype=torch.float64)
gaps = torch.tanh(widths[:, None] * grid) - torch.erf(grid)
closest = int(gaps.square().sum(1).argmin())
claim(
    "07-erf-is-nearly-a-tanh",
    f"The tanh(c x) closest to erf(x) has c = {{mean:.3f}} and is off by {gaps[closest].abs().max():.3f} at most.",
    widths[closest].item(),
    said="The error function is nearly a tanh with c = 1.205.",
    source="Chen et al. 2025, arXiv 2512.10938",
    published="c = 1.205",
    criterion="in [1.19, 1.22]",
    kind="exact",
    tolerance=0.005,
)

# %% [markdown]
r"""
Hardly at all, with the same $\alpha$ a fifth steeper. What separates the two is mostly the tail: $1 - \mathrm{erf}(u)$ falls like $e^{-u^2}$, $1 - \tanh(u)$ like $2e^{-2u}$. Derf is flat sooner.

**BHyT** (arXiv 2601.09719) writes $y = w\odot\tanh\!\big(\lambda x/(\kappa\,\mathrm{RMS}(x))\big)$ with $\kappa = 10$ and a learned $\lambda$. Read it from inside out: it *is* an RMSNorm, then a tanh at arguments of about a tenth, where tanh is a line.
What reaches the next matrix is a tenth of RMSNorm's output, with entries beyond $\kappa$ standard deviations softly clipped. It is no way to avoid statistics. (For λ = 1. Its authors start λ at 1 to 5; at 5, where our race starts it, tanh bends from two standard deviations on.) Its block saves one of its two reductions by estimating the second from the first; ours computes both, as the authors' exact variant does. What the saving
buys shrank between versions of the paper: the first abstract of arXiv 2601.09719 claims 15.8 % faster training, the third 1.6 %.
"""

# %%
normal = torch.randn(2000, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
claim(
    "07-bhyt-is-a-small-rms-norm",
    "With λ = 1, BHyT's output on normal tokens differs from a tenth of RMSNorm's by {mean:.1%} in root mean square.",
    ((bounded_tanh(normal) - rms_norm(normal) / 10).square().mean().sqrt() / 0.1).item(),
    said="With λ = 1, BHyT is a tenth of RMSNorm on normal tokens.",
    source="arXiv 2601.09719, and its code (κ = 10)",
    criterion="< 0.03",
    kind="exact",
)

# %% [markdown]
r"""
## Implementation

The function, as `labkit` has it:
"""

# %%
show(dynamic_tanh)

# %% [markdown]
r"""
The law checker holds each of the three against a formula in double precision that is written apart from it, with its limits, its dtypes and its gradients. And torch agrees:
"""

# %%
from labkit.norms import BoundedTanh, DynamicErf, DynamicTanh

reports = [
    check.dynamic_tanh(DynamicTanh),
    check.dynamic_erf(DynamicErf),
    check.bounded_tanh(BoundedTanh),
]
for report in reports:
    print(report.summary)
module = DynamicTanh(16).double()
torch.testing.assert_close(module(x), torch.tanh(0.5 * x))
assert all(report.ok for report in reports)

# %% [markdown]
r"""
In a model the recipe `dyt` is Pre-Norm with DyT in place of every norm, as in the authors' LLaMA: no shift $\beta$, an embedding scale that is learned, and *two* first values of $\alpha$, one for attention's norms and one for the feed-forward's and the last. They depend on width: the paper's sweep for language models
gives 1.0 and 1.0 at width 1024, 1.0 and 0.5 at 2048, 0.8 and 0.2 at 4096, 0.2 and 0.05 at 8192 ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)). (The code's own default is 1.0 for all: who forgets to pass the values trains another model.) Our width is far below that sweep; the recipe takes its narrowest entry, 1.0 and 1.0. So two things besides the map differ from layer norm's arm: the missing $\beta$, and the learned scale of the embedding, which Derf has too. (Derf keeps its $\beta$, as its authors' code does.)

## Predict

Write your answers down.

1. In a small layer-norm model trained on English, is the map of the last norm an S? And if one symbol's embedding gets a single huge channel?
2. Layer norm, DyT, Derf, BHyT, and no norm at all, four blocks, each at its best rate: which order?
3. $\alpha_0$ from a quarter to two: how many nats between best and worst? Will the learned $\alpha$ of a layer follow $1/\mathrm{RMS}$ of its input, as a norm would?
4. The same models on a few pages of text, seen many times. Same order?

**What was chosen, and when?** A pilot with one seed fixed sizes, rates and Xavier's initialization, under which DyT was closest to layer norm of three that were tried. It had seen the signs of most differences below; the thresholds were written after it and before the runs that you see.

## Measure

The bench: four blocks of width 32, GELU, windows of 32 characters, sixteen a batch, Adam with linear decay. Everything happens in the first hundred thousand characters of training, which is *little*.
"""

# %%
steps = sizes.steps
base = Run(
    model=Perturbed(  # a ModelConfig with a planted outlier, where asked for
        norm="layer", dim=32, depth=sizes.depth,
        activation="gelu", context=32, init="xavier",
    ),
    data=Text(batch=16, time=32, held_out=sizes.held_out),
    train=TrainConfig(steps=steps, lr=0.01, warmup=min(20, steps), schedule="linear"),
    probes=("validation", "test", "norm-maps"),
)  # fmt: skip
few, five, rates = lab.seeds(sizes.few), lab.seeds(sizes.seeds), sizes.rates
layer, dyt = {"model.norm": "layer"}, {"model.recipe": "dyt"}
derf, none = {"model.recipe": "derf"}, {"model.recipe": "none"}
bhyt = {"model.norm": "bhyt", "model.norm_kw": (("scale", 5.0),)}
arms = {"layer": layer, "dyt": dyt, "derf": derf, "bhyt": bhyt, "none": none}

# %% [markdown]
r"""
### The race on text, each tuned

Three rates with two seeds choose on validation text, five seeds judge on test text. *None* is the same stack with no norm anywhere. It is the control that a paper about living without norms needs most: beating a norm is one thing, beating nothing another. (BHyT's λ starts at 5, the upper end of its authors' sweep.)
"""

# %%
search = lab.run(Experiment(base, {"arm": arms, "train.lr": rates, "seed": five[:2]}))


def at_its_best(results, arms):
    """Give each arm its own best rate."""
    chosen = {arm: part.best("lr") for arm, part in results.by("arm").items()}
    print("chosen rates:", chosen)
    return {arm: {**arms[arm], "train.lr": rate} for arm, rate in chosen.items()}


final = lab.run(Experiment(base, {"arm": at_its_best(search, arms), "seed": five})).by("arm")
best = {arm: part.values("test.loss") for arm, part in final.items()}

# %% tags=["remove-cell"]
# See one train: its first steps, here and now, beside the book's record.
lab.train_live(Experiment(base, {"arm": at_its_best(search, arms), "seed": five}))

# %%
plots.dots(
    best,
    xlabel="test loss on text (nats)",
    caption="Five ways to treat what enters a sublayer, each at its own best rate. Look where 'none' stands.",
    provenance=lab.provenance(*final.values()),
)

# %%
plots.curves(
    {
        arm: {rate: part.values("test.loss") for rate, part in results.by("lr").items()}
        for arm, results in search.by("arm").items()
    },
    xlabel="peak learning rate",
    ylabel="test loss (nats)",
    logx=True,
    caption="The search behind the race. Which arm is lowest at which rate, and does an arm's curve end "
    "lower than it began? An interval from two seeds is wide: read the points.",
    provenance=lab.provenance(search),
)

# %%
claim(
    "07-dyt-equals-layer-norm-on-text",
    "Each at its own rate, DyT's test loss minus layer norm's is {mean:+.3f} nats.",
    minus(best["dyt"], best["layer"]),
    said="With each at its own rate, DyT ends level with layer norm on text.",
    source="Zhu et al. 2025, arXiv 2503.10622, language models",
    published="LLaMA 7B to 70B: the same loss as RMSNorm",
    criterion="in [-0.02, 0.02]",
    kind="best",
    effect=0.25,  # nats: by which no norm at all is ahead
    domain="7B to 70B parameters",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %%
claim(
    "07-derf-is-ahead-of-dyt",
    "Each at its own rate, DyT's test loss minus Derf's is {mean:+.3f} nats.",
    minus(best["dyt"], best["derf"]),
    said="With each at its own rate, Derf ends below DyT.",
    source="Chen et al. 2025, arXiv 2512.10938, GPT-2 of 124M parameters",
    published="2.97 − 2.94 nats (LayerNorm: 2.94)",
    criterion="> 0",
    kind="best",
    domain="GPT-2 with 124M parameters",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %%
claim(
    "07-bhyt-keeps-up",
    "Each at its own rate, BHyT's test loss minus layer norm's is {mean:+.3f} nats.",
    minus(best["bhyt"], best["layer"]),
    said="With each at its own rate, BHyT ends close to layer norm.",
    source="arXiv 2601.09719",
    criterion="< 0.05",
    kind="best",
)

# %%
claim(
    "07-dyt-beats-no-norm",
    "Each at its own rate, no norm's test loss minus DyT's is {mean:+.3f} nats.",
    minus(best["none"], best["dyt"]),
    said="With each at its own rate, DyT ends below no norm at all.",
    source="Zhu et al. 2025, arXiv 2503.10622: DyT in place of a norm",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
One caution about the grid: an arm that chose its highest rate (the printed line says which) may have its best beyond. Where layer norm is such an arm and DyT is not, higher rates could only widen the gap; `gpu` has one more. The same holds for *none*.

Four blocks train without any norm (chapter 00: the trouble begins with depth), so at this depth a tanh has little to protect and may only be in the way. Look where BHyT stands, which *is* a norm: with layer norm, or with the squashes? The parity of
the paper is a statement about models that *need* their norms, trained for billions of tokens, with $\alpha_0$ chosen for them. A gap in the first hundred thousand characters neither confirms nor refutes it. What we can do at our size is to
ask **why** there is one. Look inside.

### Inside: the maps

First layer norm's. The probe `norm-maps` keeps entries of what enters and leaves each norm of the trained model, before gain and shift:
"""

# %%
last_block = base.model.depth - 1
names = {
    "first norm": "blocks.0.attention.norm",
    "last block": f"blocks.{last_block}.feed_forward.norm",
    "final norm": "final_norm",
}


def map_of(record, name):
    """Find one norm's map in a record."""
    return next(row for row in record.probes["norm-maps"] if row["name"] == name)


def panels(record):
    """Name the three norms that we draw; DyT's map of a token is no line."""
    rows = {short: map_of(record, name) for short, name in names.items()}
    return {
        short: row if row["alpha"] is None else {**row, "lines": []} for short, row in rows.items()
    }


# %%
plain = next(iter(final["layer"]))[1]
plots.norm_curves(
    panels(plain),
    caption="Layer norm in a trained model of text. Points: single entries; lines: the maps of three tokens, "
    "of the smallest, the middle and the largest spread. Compare how far they fan out, and the bends.",
    provenance=lab.provenance(final["layer"]),
)


# %%
def bend_of(results, name):
    """Read one norm's bend from each record."""
    return results.values(lambda record: map_of(record, name)["bend"])


# %%
claim(
    "07-deeper-maps-bend-more",
    "The bend of the last norm minus that of the first is {mean:+.2f} in layer-norm models.",
    minus(bend_of(final["layer"], "final_norm"), bend_of(final["layer"], names["first norm"])),
    said="The last norm's map bends more than the first one's.",
    source="Zhu et al. 2025, arXiv 2503.10622, Figure 2 (ViT-B, wav2vec 2.0, DiT-XL)",
    published="early layers are nearly linear, deeper ones S-shaped",
    criterion="< 0",
    kind="at",
)

# %% [markdown]
r"""
Embeddings are drawn alike, so at the first norm tokens differ little in spread. Deeper, sublayers have written more to some tokens than to others, and their lines lie flatter. If the card holds, the direction is the paper's, without a large model. How far it goes? Hold the last panel's bend against those of the slider above.

To see that spread alone does it, **plant** some where there was none: the space, the commonest symbol, gets 30 added to one channel of its embedding, as if it were one of the massive activations of large models ([Sun et al., 2024](https://arxiv.org/abs/2402.17762)). Look at the first norm.
"""

# %%
two = {"layer": layer, "dyt": dyt}
planted = lab.run(
    Experiment(base, {"arm": two, "model.embedding_outlier": sizes.outliers, "seed": five})
)  # fmt: skip
wild = planted.where(embedding_outlier=30.0).by("arm")
calm = lab.run(Experiment(base, {"arm": two, "seed": five})).by("arm")

# %%
plots.norm_curves(
    panels(next(iter(wild["layer"]))[1]),
    caption="Layer norm with one planted outlier channel on one symbol, at the rate 0.01 (above: at its own). The spaces' line is "
    "flat: over all tokens the map is half an S, since all outliers have one sign.",
    provenance=lab.provenance(wild["layer"]),
)

# %%
claim(
    "07-an-outlier-makes-the-s",
    "One planted channel changes the bend of layer norm's first map by {mean:+.2f}.",
    minus(bend_of(wild["layer"], names["first norm"]), bend_of(calm["layer"], names["first norm"])),
    said="One large channel makes layer norm's map an S.",
    source="this chapter's mixture formula; Zhu et al. 2025, arXiv 2503.10622, section 3",
    criterion="< -0.3",
    kind="at",
)

# %% [markdown]
r"""
So the S of the paper's figure is no property of layer norm. It appears where tokens differ in size: in deep layers because sublayers have written to them, in the first one because we planted it. And note what layer norm's S is *for*: each token got its own line. A fixed curve through the middle of
the cloud treats the small token and the large one alike.

And DyT's own maps? Here the S is built in, so ask where on it the entries sit:
"""

# %%
plots.norm_curves(
    panels(next(iter(final["dyt"]))[1]),
    caption="DyT in a trained model of text. Compare the inputs' range with the width of the slope: what "
    "sits on the two flat ends passes hardly any gradient. (Half of the points are extremes.)",
    provenance=lab.provenance(final["dyt"]),
)


# %%
def inside(results, key):
    """Give one number of each norm for each record: rows are seeds."""
    return np.array(results.values(lambda r: [row[key] for row in r.probes["norm-maps"]]), float)


flat = inside(final["dyt"], "flat")[:, 1:].mean(axis=1)
claim(
    "07-trained-dyt-is-saturated",
    "In all norms but the first, {mean:.0%} of the entries of a trained DyT model are flat (|tanh| > 0.95).",
    flat.tolist(),
    said="Most entries of a trained DyT are saturated.",
    source="arXiv 2604.23434 (saturated fraction, 64M parameters)",
    published="49 % at 1M tokens, 23 % at 118M (|αx| > 2, that is |tanh| > 0.96)",
    criterion="> 0.5",
    kind="at",
    domain="64M parameters",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
So here is a suspect. In a Pre-Norm stack the stream grows as sublayers write into it (chapter 02). A norm divides by what has grown. DyT does not; its entries slide out to the ends, the sublayers read little but signs, and few entries are left on the slope to call them back. A suspect is not yet a cause. Two things can be checked: does $\alpha$ try to follow the stream? And does a smaller $\alpha$, under which fewer entries should be flat, lower the loss?

### The learned α

If $\alpha$ did a norm's work, then $\alpha_\ell \propto 1/\mathrm{RMS}_\ell$ over the layers: on logarithms, a correlation of $+1$ between $\alpha$ and $1/\mathrm{RMS}$.
"""

# %%
learned, scales = inside(final["dyt"], "alpha"), inside(final["dyt"], "rms")
plots.table(
    [
        {"norm": row["name"], "learned α": a, "1 / RMS of its input": 1 / r, "share flat": f}
        for row, a, r, f in zip(
            next(iter(final["dyt"]))[1].probes["norm-maps"],
            learned.mean(0), scales.mean(0), inside(final["dyt"], "flat").mean(0), strict=True,
        )
    ]
)  # fmt: skip

# %%
both = [
    np.corrcoef(np.log(np.abs(a)), -np.log(r))[0, 1] for a, r in zip(learned, scales, strict=True)
]
claim(
    "07-learned-alpha-follows-scale",
    "Over the layers of a model, log α and log 1/RMS have the correlation {mean:+.2f}.",
    [float(c) for c in both],
    said="The learned α follows one over the spread of what enters.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 6 (α after training against 1/std)",
    published="α tracks 1/std of the activations",
    criterion="> 0.5",
    kind="at",
    domain="models of full size, trained to the end",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
By what factor does the stream grow from the first norm to the last, and by what factor has α, which began at 1 everywhere, answered? The paper's α moves over many thousand steps; ours has had fewer than two hundred, at a rate chosen for the whole model. If α hardly moves, then where it *starts* might matter.

### The first α: one value, two values

All norms with the same $\alpha_0$ first, then attention's apart from the rest.
"""

# %%
values = sizes.alphas
apart = sizes.alpha_pairs or [(a, b) for a in values for b in values if a != b]
firsts = {f"{a:g} and {b:g}": (a, b) for a, b in [*((a, a) for a in values), *apart]}
first_arms = {
    name: dyt if pair == (1.0, 1.0) else {**dyt, "model.alpha": pair}  # 1 and 1: its own choice
    for name, pair in firsts.items()
}
grid_of_alphas = lab.run(Experiment(base, {"first": first_arms, "seed": few})).by("first")
swept = {firsts[name]: part.values("test.loss") for name, part in grid_of_alphas.items()}

# %%
plots.grid_map(
    {pair: float(np.mean(losses)) for pair, losses in swept.items()},
    row_label="first α of attention's norms",
    col_label="first α of the others",
    value_label="test loss (nats)",
    digits=4,
    caption="DyT by its first values of α; lighter is lower. On the diagonal all norms start alike. Which "
    "of the two values does the loss follow: compare within rows, then within columns.",
    provenance=lab.provenance(*grid_of_alphas.values()),
)

# %%
alike = {a: swept[(a, a)] for a in values}
order = sorted(values, key=lambda a: np.mean(alike[a]))
claim(
    "07-first-alpha-matters",
    f"The worst common first α, {order[-1]:g}, costs {{mean:+.3f}} nats over the best, {order[0]:g}.",
    minus(alike[order[-1]], alike[order[0]]),
    said="The first α matters to the loss on text.",
    source="Zhu et al. 2025, arXiv 2503.10622, section 7: language models are sensitive to α₀",
    criterion="> 0.02",
    kind="at",
)

# %%
low, high = apart[0] if len(apart) == 2 else (0.25, 1.0)
claim(
    "07-attention-wants-the-larger-alpha",
    f"First α {low:g} for attention and {high:g} for the others, instead of the other way round, costs {{mean:+.3f}} nats.",
    minus(swept[(low, high)], swept[(high, low)]),
    said="It pays to give attention the larger first α.",
    source="Zhu et al. 2025, arXiv 2503.10622: attention's α₀ larger than the others' from width 2048 on",
    criterion="> 0",
    kind="at",
    domain="width 2048 and more",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
Now the suspect. A smaller $\alpha_0$ should leave fewer entries flat, *if the stream stays as it was*. Predict the columns, then look:
"""

# %%
plots.table(
    [
        {
            "first α": name,
            "test loss": float(np.mean(part.values("test.loss"))),
            "share flat behind the first norm": inside(part, "flat")[:, 1:].mean(),
            "RMS before the last norm": inside(part, "rms")[:, -1].mean(),
        }
        for name, part in grid_of_alphas.items()
    ]
)

# %% [markdown]
r"""
Where the RMS is larger for a smaller α, the stream has *answered*. A squash sees α times stream; nothing fixes the stream; so the sublayers can write until the entries are out on the ends again, and $\alpha_0$ is a poor lever for flatness. And does the share order the losses? Look for two rows of about the same share and different losses, and for a row that is less flat and yet worse. With three seeds a row and two things that move at once, the table can weaken the suspicion but not convict. The study that measured saturation (arXiv 2604.23434) found *more* of it where DyT wins, and a smaller penalty with a larger α at 118 million tokens. So "DyT is behind because it is flat" is a reading of ours, and not one that we have shown.

(The first claim compares the extremes of a small grid, so its interval is a little too kind; the map shows all of it.) The race gave DyT the paper's choice for its narrowest models, 1 and 1: look where it lies on the map before you blame the first α for the lost race.

The second claim asks whether the advice for *wide* models holds in a narrow one. In the paper the two values part from width 2048 on, and attention gets the larger one. At width 32 nothing forces this: both kinds of norm read the same growing stream, and "the others" include the last norm, whose α also sets the first size of the logits. If the card says "contradicted", do not carry the split to small models.

### The scale of the embedding

Embeddings enter at size 1 a channel: rows with standard deviation $1/\sqrt d$ times $\sqrt d$. Leave the factor out. Layer norm divides the difference away at the first norm and only the skip connection sees it. DyT sees a stream of size $1/\sqrt{32}$.
"""

# %%
scaled = lab.run(
    Experiment(base, {"arm": two, "model.embedding_size": sizes.embedding_sizes, "seed": five})
).where(embedding_size=32**-0.5).by("arm")  # fmt: skip
rise = {a: minus(scaled[a].values("test.loss"), calm[a].values("test.loss")) for a in two}

# %%
claim(
    "07-dyt-needs-the-embedding-scale",
    "Without the factor √d, DyT's test loss rises by {mean:+.3f} nats more than layer norm's (which rises by {layer:+.3f}).",
    minus(rise["dyt"], rise["layer"]),
    layer=float(np.mean(rise["layer"])),
    said="DyT needs the factor √d on the embeddings more than layer norm does.",
    source="Zhu et al. 2025, arXiv 2503.10622, their LLaMA: a learned scale, √d at first",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
## When does it win? A search

A method that loses one race may win another. Four conditions are named in the literature or follow from the derivation. For each we write what we expect, then look.

### Little data

A study of 2026 (arXiv 2604.23434, 64 million parameters) finds that DyT *helps* where data is scarce, with a validation loss 27.3 % lower at one million tokens, and costs 18.8 % at 118 million. A map that fits worse also overfits less. Our scarce text: the
first 2,048 characters of the corpus, so in `book` each is seen some forty-five times.
"""

# %%
scarce, least = sizes.characters, sizes.least_characters
little = lab.run(
    Experiment(base, {"arm": two, "data.characters": scarce, "seed": few})
)  # fmt: skip
sizes_seen = {n: f"{n:,}" for n in scarce}

# %%
seen = {
    arm: {
        **{sizes_seen[n]: part.values("test.loss") for n, part in results.by("characters").items()},
        "all": calm[arm].values("test.loss"),
    }
    for arm, results in little.by("arm").items()
}
plots.curves(
    seen,
    xlabel="characters of training text",
    ylabel="test loss (nats)",
    caption="Data and norm, both arms at the same rate. Does the order turn where there is very little text?",
    provenance=lab.provenance(little),
)

# %%
fewest = {"arm": two, "data.characters": [least], "seed": five}
at_least = lab.run(Experiment(base, fewest)).by("arm")
claim(
    "07-scarce-data-same-rate",
    f"On {least:,} characters, both at the rate 0.01, layer norm's test loss minus DyT's is {{mean:+.3f}} nats.",
    minus(at_least["layer"].values("test.loss"), at_least["dyt"].values("test.loss")),
    said="On scarce text, at one rate, DyT ends below layer norm.",
    source="arXiv 2604.23434, 64M parameters on 1M tokens",
    published="DyT's validation loss is 27.3 % lower",
    criterion="> 0",
    kind="at",
    domain="64M parameters, 1M tokens",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
If that is a win: of what? An arm that trains more slowly overfits later, and a lower rate or fewer steps would do the same for layer norm. The fair question lets each arm choose its rate, on validation text:
"""

# %%
poor = replace(base, data=replace(base.data, characters=least))
searched = lab.run(Experiment(poor, {"arm": two, "train.lr": rates, "seed": five[:2]}))
tuned = lab.run(Experiment(poor, {"arm": at_its_best(searched, two), "seed": five})).by("arm")
claim(
    "07-scarce-data-each-tuned",
    f"On {least:,} characters, each at its own rate, layer norm's test loss minus DyT's is {{mean:+.3f}} nats.",
    minus(tuned["layer"].values("test.loss"), tuned["dyt"].values("test.loss")),
    said="On scarce text, with each at its own rate, DyT ends below layer norm.",
    source="arXiv 2604.23434, 64M parameters on 1M tokens",
    published="DyT's validation loss is 27.3 % lower",
    criterion="> 0",
    kind="best",
    domain="64M parameters, 1M tokens",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
Compare the two cards; then how far each arm had got on its *training* text:
"""

# %%
plots.table(
    [
        {
            "arm": arm,
            "rate": words,
            "training loss, last 20 steps": np.mean(part.values(lambda r: np.mean(r.losses[-20:]))),
            "test loss": np.mean(part.values("test.loss")),
        }
        for words, results in (("0.01", at_least), ("its own", tuned))
        for arm, part in results.items()
    ]
)

# %% [markdown]
r"""
Look for two rows with about the same training loss, one of layer norm and one of DyT: if their test losses agree as well, then DyT was not a better model of little text, only one that had got less far. What is left of the lead after tuning is what DyT adds beyond being slow. (With so little text an arm may well choose the lowest rate of the grid, since less training is better. Then "its own" means "the lowest that we tried"; `gpu` has a lower one.) The authors of Derf report the same direction on large models: measured in evaluation mode on *training* data, layer norm has the lowest loss, then Derf, then DyT (2.9478, 2.9702 and 2.9822 for GPT-2, arXiv 2512.10938). Where these methods win
on test data, they conclude, it is as regularizers.

### Outliers

DyT clips an outlier entry and leaves its neighbours alone. Layer norm divides the whole token by it: with one channel at 30 among 32, $\sigma$ is above 5, and the other 31 entries shrink. So planted outliers should hurt layer norm more.
"""

# %%
hurt = {a: minus(wild[a].values("test.loss"), calm[a].values("test.loss")) for a in two}
claim(
    "07-outliers-hurt-layer-norm-more",
    "The planted channel costs layer norm {layer:+.3f} nats and DyT {dyt:+.3f}: a difference of {mean:+.3f}.",
    minus(hurt["layer"], hurt["dyt"]),
    layer=float(np.mean(hurt["layer"])),
    dyt=float(np.mean(hurt["dyt"])),
    said="A large channel costs layer norm more than DyT.",
    source="this chapter's expectation; a norm shares its scale among the channels of a token",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
Hold the difference against the gap between the two arms. An outlier on a *fixed* channel of a *fixed* symbol may be easy for layer norm to live with. At the first norm a space has nothing to say but that it is one, and the outlier says it. Deeper, compare the ranges of the figures above: the stream of a trained model comes to be of the outlier's size by itself, at that figure's rate.

### Another optimizer

Muon makes each matrix's update orthogonal, so that all directions of a matrix move about equally far. A study of 2026 (arXiv 2604.01563, one billion parameters) reports that Derf's gap to RMSNorm grows from 0.31 nats under AdamW to 0.97 under Muon, and that DyT shows no such penalty. (Its Derf starts at α = 0.5; ours at 1, as in its authors' patch for language models.) `labkit`'s Muon follows Jordan's code for the blocks' matrices, scaled to AdamW's usual step (arXiv 2502.16982), with AdamW for the rest.
"""

# %%
from labkit.muon import orthogonalize

show(orthogonalize)

# %%
third = {**two, "derf": derf}
muon = {"train.optimizer": sizes.optimizers, "train.lr": sizes.optimizer_rates}
optimized = lab.run(Experiment(base, {"arm": third, **muon, "seed": few}))
turned = optimized.where(optimizer="muon", lr=0.03).by("arm")
adam = {arm: best[arm][: len(few)] for arm in third}
gap = {
    arm: {
        "AdamW": minus(adam[arm], adam["layer"]),
        "Muon": minus(turned[arm].values("test.loss"), turned["layer"].values("test.loss")),
    }
    for arm in ("dyt", "derf")
}

# %%
plots.curves(
    gap,
    xlabel="optimizer",
    ylabel="test loss over layer norm's (nats)",
    caption="What the squashes lose against layer norm under two optimizers: AdamW each tuned, Muon at "
    "the rate 0.03.",
    provenance=lab.provenance(*turned.values()),
)

# %%
for arm, name, said, theirs, criterion in (
    ("derf", "07-muon-widens-derfs-gap", "Muon widens Derf's gap to layer norm.",
     "+0.31 nats (AdamW), +0.97 (Muon)", "> 0"),
    ("dyt", "07-muon-spares-dyt", "Muon does not widen DyT's gap to layer norm.",
     "no such penalty", "< 0.05"),
):  # fmt: skip
    claim(
        name,
        f"From AdamW, each arm tuned, to Muon, all at the rate 0.03, the gap of {arm} to layer norm grows by {{mean:+.3f}} nats.",
        minus(gap[arm]["Muon"], gap[arm]["AdamW"]),
        said=said,
        source="arXiv 2604.01563, 1B parameters, 1,000 steps",
        published=theirs,
        criterion=criterion,
        kind="at",
        domain="1B parameters",
        ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
        in_range=False,
    )

# %% [markdown]
r"""
Three seeds, and one rate of Muon for all: a squash that wants a lower rate than layer norm pays for that here, and the card cannot tell it from a quarrel with Muon. `gpu` has four rates. Whatever the verdicts, they are weak evidence about a model of a billion parameters.

### Width

The paper's good $\alpha_0$ falls with width, and its models are wide. Is the gap at a common first value $\alpha_0 = 1$ larger or smaller in a wider model?
"""

# %%
widths = sizes.widths
grown = lab.run(Experiment(base, {"arm": two, "model.dim": widths, "seed": few}))
by_width = {
    arm: {n: part.values("test.loss") for n, part in results.by("dim").items()}
    for arm, results in grown.by("arm").items()
}
plots.curves(
    by_width,
    xlabel="width",
    ylabel="test loss (nats)",
    logx=True,
    caption="Both arms at the rate 0.01, by width. The distance between the lines is the gap.",
    provenance=lab.provenance(grown),
)

# %%
gaps_at = {n: minus(by_width["dyt"][n], by_width["layer"][n]) for n in (widths[0], widths[-1])}
claim(
    "07-width-closes-the-gap",
    f"From width {widths[0]} to {widths[-1]}, at the rate 0.01, the gap of DyT to layer norm changes by {{mean:+.3f}} nats.",
    minus(gaps_at[widths[-1]], gaps_at[widths[0]]),
    said="DyT's gap to layer norm closes with width.",
    source="this chapter's question; Zhu et al. 2025 report parity at widths of 4096 and more",
    criterion="< 0",
    kind="at",
)

# %% [markdown]
r"""
All at one rate, note, which need not be either arm's best at another width.

What the size `book` does not hold is declared in `gpu`: the activation SwiGLU (under which the study arXiv 2604.23434 saw DyT's LLaMA collapse), two other initializations, deeper stacks, dropout, and rate by outlier. The same cells list them.
"""

# %%
further = {
    "model.activation": ["swiglu"],
    "model.init": ["megatron", "half-xavier"],
    "model.depth": [8, 16],
}
grids = further if sizes.further else {}
for axis, choices in grids.items():
    lab.run(Experiment(base, {"arm": arms, axis: choices, "train.lr": rates, "seed": few}))
if grids:
    hot_outliers = {"model.embedding_outlier": sizes.outliers, "train.lr": rates, "seed": few}
    lab.run(Experiment(base, {"arm": {**two, "none": none}, **hot_outliers}))

# %% [markdown]
r"""
### Images: a small ViT on digits

The first successes of DyT are vision transformers: ViT-B goes from 82.3 to 82.5 % on ImageNet ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)). Ours cuts 8×8 digits into sixteen patches and has three blocks of the same kind (six in `gpu`), seeing all positions. DyT has its $\beta$ here, and α starts at 1 as in our text models, *not* at the 0.5 that the paper uses for images: a departure that DyT could be paying for. A third arm joins, for the last section: PRepBN.
"""

# %%
vision = replace(
    base,
    model=ViTConfig(init="xavier", depth=sizes.vit_depth),
    data=Digits(batch=32),
    probes=("validation", "test"),
)
tanh1 = {"model.norm": "dyt", "model.alpha": (1.0, 1.0)}
halfway = {"model.norm_kw": (("steps", max(1, round(0.6 * steps))),)}
prep = {"model.norm": "prep-batch", **halfway, "probes": ("validation", "test", "folding")}
seeing = {"layer": layer, "dyt": tanh1, "prep-batch": prep}
seen_rates = lab.run(Experiment(vision, {"arm": seeing, "train.lr": rates, "seed": five[:2]}))
plots.table(
    [
        {"accuracy at the rate": arm}
        | {f"{rate:g}": np.mean(p.values("test.accuracy")) for rate, p in part.by("lr").items()}
        for arm, part in seen_rates.by("arm").items()
    ]
)

# %%
eyes = lab.run(Experiment(vision, {"arm": at_its_best(seen_rates, seeing), "seed": five})).by("arm")
right = {arm: part.values("test.accuracy") for arm, part in eyes.items()}
plots.dots(
    right,
    xlabel="test accuracy on digits",
    caption="A small ViT on digits, each arm at its own rate. 384 test images: one image is a quarter of a point.",
    provenance=lab.provenance(*eyes.values()),
)

# %%
claim(
    "07-vit-parity",
    "Each at its own rate, DyT's accuracy on digits minus layer norm's is {mean:+.3f}.",
    minus(right["dyt"], right["layer"]),
    said="With each at its own rate, DyT is as accurate on digits as layer norm.",
    source="Zhu et al. 2025, arXiv 2503.10622, ViT-B on ImageNet",
    published="82.5 − 82.3 %",
    criterion="in [-0.015, 0.015]",
    kind="best",
    effect=0.07,  # of accuracy: what PRepBN loses
    domain="ViT-B on ImageNet",
    ours="a small model on digits of 8 × 8 pixels",
    in_range=False,
)

# %% [markdown]
r"""
And where DyT ought to shine: a rate at which blocks *without* norms break. Boundedness is worth something there. (The stack called *none* has bare blocks. At its end stands one layer norm, which our ViT always has.)
"""

# %%
hot = {"dyt": tanh1, "none": {"model.recipe": "none"}}
burnt = lab.run(Experiment(vision, {"arm": hot, "train.lr": sizes.hot_rates, "seed": few}))
survived = {a: p.values("test.accuracy") for a, p in burnt.where(lr=0.03).by("arm").items()}
print("diverged at step:", burnt.where(arm="none", lr=0.03).values(lambda r: r.diverged_at))
print("accuracy:", {a: np.round(values, 2).tolist() for a, values in survived.items()})
claim(
    "07-dyt-survives-a-high-rate",
    "At the rate 0.03 DyT's accuracy on digits is {mean:.2f} above that of blocks without norms.",
    minus(survived["dyt"], survived["none"]),
    said="At a high rate DyT trains where blocks without norms do not.",
    source="DyT is bounded; this chapter's expectation",
    criterion="> 0.2",
    kind="at",
)

# %% [markdown]
r"""
If the card holds, a squash does one job of a norm: it keeps a hot stack from blowing up. (A stack that has not diverged can have collapsed. Look at the accuracies: one class in ten is what guessing gives.) Two limits. Compare layer norm at the same rate, in the table above: to survive is not to be well. And it is this stack that breaks; on text, at the same 0.03, bare blocks trained, as the search's figure shows.

Little data once more, now with images: one hundred digits to learn from, at the rates chosen above.
"""

# %%
hundred = {arm: {**seeing[arm], "train.lr": seen_rates.where(arm=arm).best("lr")} for arm in two}
pictures = sizes.images
shots = lab.run(Experiment(vision, {"arm": hundred, "data.images": pictures, "seed": five}))
first = shots.where(images=pictures[min(1, len(pictures) - 1)]).by("arm")
claim(
    "07-scarce-digits",
    f"Trained on {pictures[min(1, len(pictures) - 1)]} digits, DyT's test accuracy minus layer norm's is {{mean:+.3f}}.",
    minus(first["dyt"].values("test.accuracy"), first["layer"].values("test.accuracy")),
    said="On scarce digits DyT is more accurate than layer norm.",
    source="arXiv 2604.23434 (text), asked of images",
    criterion="> 0",
    kind="at",
)

# %%
if sizes.dropouts:
    dropped = {"arm": hundred, "model.dropout": sizes.dropouts, "seed": five}
    lab.run(Experiment(vision, dropped))

# %% [markdown]
r"""
### PRepBN: the other road

DyT removes statistics from training and inference. SLAB ([Guo et al., 2024](https://arxiv.org/abs/2405.11582)) removes them from inference only. BatchNorm's statistics are *constants* once training is over, so it can be merged into the next matrix: nothing is left to compute. But BatchNorm trains badly in transformers (chapter 01). PRepBN starts as layer norm and ends as $\mathrm{RepBN}(x) = \mathrm{BN}(x) + \eta x$, with one learned number $\eta$ that starts at 1:

$$y = \lambda\,\mathrm{LN}(x) + (1 - \lambda)\,\mathrm{RepBN}(x), \qquad \lambda: 1 \to 0.$$

With the running mean $m$ and variance $v$, evaluation is $y = a\odot x + c$ with $a = \gamma/\sqrt{v + \epsilon} + \eta$ and $c = \beta - \gamma m/\sqrt{v + \epsilon}$. A matrix after it becomes $W\mathrm{diag}(a)$, its bias $Wc + b$:
"""

# %%
from labkit.norms import RepBatchNorm, fold

torch.manual_seed(seed)
norm, linear = RepBatchNorm(16, channel_axis=-1), nn.Linear(16, 8)
for _ in range(20):
    norm(3 * torch.randn(64, 16) + 1)  # training calls fill the running statistics
norm.eval()
sample = torch.randn(5, 16)
torch.testing.assert_close(fold(norm, linear)(sample), linear(norm(sample)), atol=1e-5, rtol=1e-4)

# %% [markdown]
r"""
The probe `folding` does this to every norm of the trained ViT: attention's into queries, keys and values, the feed-forward's into its first matrix, the last through the mean over patches into the classifier. (`labkit.convert.fold_norms` does it for any model of yours.) It compares the logits on all test images and times both models in turns.
"""

# %%
folded = eyes["prep-batch"].values("folding")
claim(
    "07-folding-changes-nothing",
    "Folding every norm of a trained PRepBN model moves a logit by {mean:.0e} at most.",
    max(row["difference"] for row in folded),
    said="A trained PRepBN model can fold its norms away.",
    source="Guo et al. 2024, arXiv 2405.11582, and its merge_bn",
    criterion="< 1e-3",
    kind="at",
    tolerance=1e-3,
)

# %%
claim(
    "07-prepbn-keeps-the-accuracy",
    "Each at its own rate, PRepBN's accuracy on digits minus layer norm's is {mean:+.3f}.",
    minus(right["prep-batch"], right["layer"]),
    said="With each at its own rate, PRepBN keeps layer norm's accuracy.",
    source="Guo et al. 2024, arXiv 2405.11582",
    published="DeiT-S 80.2, DeiT-T 73.6, Swin-T 81.4 % top-1",
    criterion="> -0.02",
    kind="best",
    domain="DeiT and Swin on ImageNet, λ falling over 60,000 steps and more",
    ours="a small model on digits, λ falling over about a hundred steps",
    in_range=False,
)

# %%
plots.table(
    [
        {
            "seed": five[i],
            "loss, whole": row["loss"][0],
            "loss, folded": row["loss"][1],
            "time, folded / whole": round(row["time"], 2),
        }
        for i, row in enumerate(folded)
    ]
)

# %% [markdown]
r"""
Is the accuracy kept? The schedule gives λ 60 % of the steps to fall to zero and leaves the rest to RepBN alone. In the published code (arXiv 2405.11582) λ takes 60,000 to 300,000 steps to fall, here about a hundred, and the running statistics average over the last ten or so. A card that says "contradicted" says that this was too short, or that the grid has no rate low enough for it (see the table of rates), or BatchNorm's old trouble (chapter 01); try a slower schedule, and more steps after it, before you blame the idea.

The ratio of times is as measured when these runs were trained, the two models taking turns on one core. It is no claim: it depends on the machine, and at this width a norm costs its call more than its arithmetic. What folding saves on a GPU, where a norm is memory traffic, is chapter 09's question.

## What the sources say, and what we measured

| statement | here |
| --- | --- |
| "LN layers map their inputs to outputs via an S-shaped curve similar to tanh" (a survey, and many posts) | for one token a line: `07-one-token-is-a-line`; the S is over tokens of different spread: `07-spread-makes-the-s`, `07-an-outlier-makes-the-s` |
| deeper layers show the S ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)) | `07-deeper-maps-bend-more`, with the reason: tokens differ more there |
| the same or better performance ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)) | `07-dyt-equals-layer-norm-on-text`, `07-vit-parity` |
| mostly without tuning ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)) | the same paper tunes $\alpha_0$ by width and place for language models; `07-first-alpha-matters` |
| α is learned and adapts to the scale ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)) | `07-learned-alpha-follows-scale`; flat entries have no say in it, and the stream adapts to α as well |
| DyT is not a norm, it computes no statistics | true, and so it is not blind to scale: `07-scale-and-alpha-are-one-knob`, `07-dyt-needs-the-embedding-scale` |
| "MLSys 2024" as DyT's venue (the survey's list) | it is CVPR 2025 ([Zhu et al., 2025](https://arxiv.org/abs/2503.10622)) |
| Derf is better than DyT ([Chen et al., 2025](https://arxiv.org/abs/2512.10938)) | `07-derf-is-ahead-of-dyt` |
| DyT helps when data is scarce (arXiv 2604.23434) | at one rate `07-scarce-data-same-rate`, each tuned `07-scarce-data-each-tuned` |
| Derf suffers under Muon, DyT does not (arXiv 2604.01563) | `07-muon-widens-derfs-gap`, `07-muon-spares-dyt` |

A public lab log tells of a race like ours: in May 2026 the authors of [nanochat](https://github.com/karpathy/nanochat/blob/master/dev/LOG.md) tried DyT in their twelve-layer model and noted it as a negative result: no variant beat the baseline, even by steps, and it made about a tenth *fewer* tokens a second.

## Where it goes wrong

**A field that is none.** The published patch that adds Derf ([Chen et al., 2025](https://arxiv.org/abs/2512.10938)) to a GPT-2 program writes `norm_type = 'derf'` into the config's dataclass, without a type. So it is a class attribute and no field, and the patched training program, which passes `norm_type=`, cannot even start:
"""

# %%
from dataclasses import dataclass


@dataclass
class GPTConfig:
    """As the patch has it."""

    n_layer: int = 12
    norm_type = "derf"


try:
    GPTConfig(norm_type="derf")
except TypeError as error:
    print("TypeError:", error)

# %% [markdown]
r"""
An error that stops you is the kind kind. **α in the wrong place** runs: $\alpha\tanh(x)$ bends always at 1, and α is a gain. **A shortcut for tanh**, $2\sigma(2u) - 1$ in single precision, is the same function on paper; near zero it cancels, and small activations lose their digits. **The shift inside**: $\tanh(\alpha x + \beta)$ with the shift before the squash.
"""


# %%
def outside(x, alpha=0.5, weight=None, bias=None):
    return alpha * dynamic_tanh(x, 1.0, weight, bias)


def shortcut(x, alpha=0.5, weight=None, bias=None):
    y = 2 * torch.sigmoid(2 * alpha * x) - 1
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def inner_shift(x, alpha=0.5, weight=None, bias=None):
    y = torch.tanh(alpha * x if bias is None else alpha * x + bias)
    return y if weight is None else y * weight


for wrong in (outside, shortcut, inner_shift):
    report = check.dynamic_tanh(wrong)
    causes = [law.cause for law in report.failed if law.cause]
    print(report.summary, "\n   ", *(causes or [f"fails first: {report.failed[0].name}"])[:1])

# %% [markdown]
r"""
**PRepBN looked at too early.** In evaluation the published module returns RepBN *alone*, however large λ still is. Validate before λ has reached 0 and you measure one branch of a blend that was trained as a blend. The schedule counts *forward calls*, so gradient accumulation makes it faster and a shorter training leaves it unfinished. Here λ ends at one half:
"""

# %%
rate = seen_rates.where(arm="prep-batch").best("lr")
early = {**prep, "train.lr": rate, "model.norm_kw": (("steps", 2 * steps),)}
unfinished = lab.run(Experiment(vision, {"arm": {"unfinished": early}, "seed": few}))
early_right = unfinished.values("test.accuracy")
claim(
    "07-prepbn-evaluated-too-early",
    "With λ at one half when training ends, PRepBN's accuracy is {mean:.2f} below that of a finished schedule.",
    minus(right["prep-batch"][: len(few)], early_right),
    said="PRepBN loses accuracy if it is evaluated before its schedule ends.",
    source="the code of Guo et al. 2024, arXiv 2405.11582: evaluation is RepBN alone",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
One more trap from the same repository: its model `deit_tiny_patch16_224_repbn` uses plain RepBN, without the progression, while `deit_small…` has it. Read the layer, not the name.

### Symptoms

| you see | cause | probe | fix |
| --- | --- | --- | --- |
| DyT trains slowly, α hardly moves | entries are flat: the stream has outgrown $1/\alpha$ | `norm-maps`, share flat and RMS | not proven: sweep $\alpha_0$ and watch whether the stream grows after it; outputs drawn smaller (exercise 7) |
| DyT stays behind from the first steps in a language model | embeddings enter far below $1/\alpha$ | `norm-maps`, RMS of the first input | the embedding scale $\sqrt d$ |
| PRepBN validates badly, its training loss is fine | λ is not 0 yet | `share` of each PRepBN module | wait until it is 0; training mode is no way out, it moves the schedule and the statistics |
| a "DyT wins" on little data | it trains more slowly and overfits later | each arm at its own rate | tune both |

The first row, run on the race's own models:
"""

# %%
plots.table(
    [
        {"arm": arm, "norm": row["name"], "RMS of its input": row["rms"], "share flat": row["flat"]}
        for arm in ("dyt", "derf")
        for row in next(iter(final[arm]))[1].probes["norm-maps"][:: max(1, base.model.depth)]
    ]
)

# %% [markdown]
r"""
## Exercises

**1 (by hand).** $\tanh(\ln 2) = (2 - \tfrac12)/(2 + \tfrac12) = \tfrac35$. A DyT layer has $\alpha = \ln 2$, $\gamma = (5, 5, 17, 1)$ and $\beta = (1, 1, 1, 1)$. What is its output for $x = (1, -1, 2, 0)$?
"""

# %% tags=["exercise"]
yours = [..., ..., ..., ...]

# %%
gains, ones = torch.tensor([5.0, 5.0, 17.0, 1.0]), torch.ones(4)
truth = dynamic_tanh(torch.tensor([1.0, -1.0, 2.0, 0.0]), float(np.log(2)), gains, ones)
check.answer(
    yours, truth.tolist(), name="1", hint="tanh u = (e^u − e^−u)/(e^u + e^−u), and e^(ln 4) = 4"
)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$2\ln2 = \ln 4$.

</details>
<details><summary>Solution</summary>

$\tanh(\ln 4) = (4 - \tfrac14)/(4 + \tfrac14) = 15/17$. So $\gamma\tanh(\alpha x) = (3, -3, 15, 0)$ and the output is $(4, -2, 16, 1)$.

</details>

**2 (by hand).** A batch holds two tokens, $(1, -1, 1, -1)$ and $(1, -1, 7, -7)$. Layer norm with gain 1, shift 0, $\epsilon = 0$. Over both tokens, what is the average output at the input $x = 1$, and what at $x = 7$? How many times flatter is the pooled map (output over input) out there?
"""

# %% tags=["exercise"]
yours = {"at 1": ..., "at 7": ..., "times flatter": ...}

# %%
pair = torch.tensor([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 7.0, -7.0]], dtype=torch.float64)
pooled = layer_norm(pair, eps=0.0)
at = {v: pooled[pair == v].mean().item() for v in (1.0, 7.0)}
truth = {"at 1": at[1.0], "at 7": at[7.0], "times flatter": at[1.0] / (at[7.0] / 7)}
check.answer(yours, truth, name="2", hint="three entries are 1; which lines do they lie on?")

# %% [markdown]
r"""
<details><summary>Hint</summary>

The variances are 1 and $(1 + 1 + 49 + 49)/4$.

</details>
<details><summary>Solution</summary>

$\sigma = 1$ and $\sigma = 5$. At $x = 1$ stand two entries of the first token, with output 1, and one of the second, with $\tfrac15$: the average is $(1 + 1 + \tfrac15)/3 = 11/15$. At $x = 7$ the output is $\tfrac75$, a slope of $\tfrac15$. Flatter by $\tfrac{11}{15}\cdot5 = \tfrac{11}{3}$. Two lines, one S.

</details>

**3 (in code).** Write Derf. The check knows the usual slips.
"""


# %% tags=["exercise"]
def my_derf(x, alpha=0.5, shift=0.0, weight=None, bias=None):
    """γ erf(α x + s) + β"""
    return ...


# %%
check.dynamic_erf(my_derf)

# %% [markdown]
r"""
<details><summary>Hint</summary>

`torch.erf`. In half precision compute in float32 and round once, at the end.

</details>
"""


# %% tags=["solution"]
def solved_derf(x, alpha=0.5, shift=0.0, weight=None, bias=None):
    """A solution of exercise 3."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))

    def same(value):
        return value.to(wide.dtype) if isinstance(value, torch.Tensor) else value

    y = torch.erf(same(alpha) * wide + same(shift))
    y = y if weight is None else y * same(weight)
    y = y if bias is None else y + same(bias)
    return y.to(x.dtype)


assert check.dynamic_erf(solved_derf).ok

# %% [markdown]
r"""
**4 (in code).** Write the backward pass of DyT: given $x$, $\alpha$, the gain and the gradient $g$ of the output, return the gradients of $x$, of $\alpha$ (one number) and of the gain (one a channel). `x` and `g` have shape (tokens, dim).
"""


# %% tags=["exercise"]
def my_backward(x, alpha, gain, g):
    """Gradients of x, α and the gain."""
    return ..., ..., ...


# %%
def check_backward(backward):
    """Hold a backward pass against autograd."""
    torch.manual_seed(7)
    x, g = torch.randn(2, 6, 5, dtype=torch.float64)
    leaves = [v.requires_grad_() for v in (x, torch.tensor([0.8]).double(), torch.rand(5).double())]
    truth = torch.autograd.grad(dynamic_tanh(*leaves), leaves, g)
    x, alpha, gain = (v.detach() for v in leaves)
    names = ("x", "alpha", "gain")
    came = dict(zip(names, backward(x, alpha, gain, g), strict=True))
    wanted = {
        name: v.reshape(-1) if name == "alpha" else v for name, v in zip(names, truth, strict=True)
    }
    return check.answer(
        came,
        wanted,
        name="4",
        hint="sum over what shares the number: all tokens, and for α all channels",
        rtol=1e-6,
    )


check_backward(my_backward)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$t = \tanh(\alpha x)$ and $1 - t^2$ are all you need.

</details>
"""


# %% tags=["solution"]
def solved_backward(x, alpha, gain, g):
    """A solution of exercise 4."""
    t = torch.tanh(alpha * x)
    inner = g * gain * (1 - t * t)
    return alpha * inner, (x * inner).sum().reshape(1), (g * t).sum(0)


assert check_backward(solved_backward).ok

# %% [markdown]
r"""
**5 (change an experiment, predict).** A stack of eight blocks instead of four, without norms and with DyT, both at 0.01. The chapter found no norm hard to beat at four. Write down what you expect at eight, then take the `#` of the last line away.
"""

# %% tags=["exercise"]
my_prediction = "…"
deeper = Experiment(base, {"arm": {"dyt": dyt, "none": none}, "model.depth": [8], "seed": few})
print(len(deeper.runs()), "runs")
# {arm: part.values("test.loss") for arm, part in lab.run(deeper).by("arm").items()}

# %% [markdown]
r"""
<details><summary>Hint</summary>

Chapter 00: with Xavier's weights the stream of a stack without norms grows by a factor each block. What does a tanh do to a branch whose input is huge?

</details>

**6 (prove).** Show that *every* entry-by-entry map must give up what a norm has: let $f: \mathbb R \to \mathbb R$ be continuous at 0 and blind to scale, $f(cx) = f(x)$ for all $c > 0$ and all $x$. Then $f$ is constant. And which maps are left if continuity is dropped?

<details><summary>Hint</summary>

Let $c$ go to zero.

</details>
<details><summary>Solution</summary>

For any $x$, $f(x) = f(cx)$ for all $c > 0$, so $f(x) = \lim_{c\to0} f(cx) = f(0)$ by continuity at 0. Hence $f$ is constant. Without continuity, $f$ is constant on the positive numbers, constant on the negative ones, and free at 0: three values, a sign function up to shift and scale. So an entry-by-entry replacement of a norm is a compromise between passing size on (a line) and passing none on (a sign). DyT chooses by α, and slides from the one to the other when the stream grows.

</details>

**7 (open).** We found most entries of DyT flat. Find a recipe under which DyT reaches layer norm on this task: smaller writes (`init="megatron"`), $\alpha_0$ by depth, a norm on the embedding, another rate for α, Peri's second norm. Say beforehand what result would make you stop. At least three seeds, and layer norm gets the same care: the same initialization, its own rate.
"""

# %% tags=["exercise"]
ideas = {"smaller writes": {**dyt, "model.init": "megatron", "model.alpha": (1.0, 0.5)}}
my_experiment = Experiment(base, {"arm": ideas, "seed": few})
print(len(my_experiment.runs()), "runs")
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {arm: part.values("test.loss") for arm, part in results.by("arm").items()}

# %% [markdown]
r"""
## What you now know

- Layer norm is a line for each token. The S is a picture of many lines, and appears where tokens differ in spread. Plant an outlier and you draw it yourself.
- DyT keeps boundedness and gives up blindness to scale. Scale and α are one knob, and flat entries have no say in where it turns.
- Derf is nearly a tanh a fifth steeper. BHyT is an RMSNorm at a tenth of the size (for λ = 1), with a clip.
- Flat entries stay a suspect, not a proven cause. The race's cards say what DyT costs against layer norm, and against nothing at all.
- The first α, its split, the embedding's scale, outliers, Muon and width have a card each. Advice for wide models need not hold in narrow ones.
- DyT's lead on little data, where there is one, must survive the tuning of each arm. At a high rate boundedness can keep a stack alive whose bare blocks break.
- PRepBN trains with statistics and ends without. Folded, it is the same function; looked at too early, it is another one.

## References

Works cited: [Zhu et al. (2025)](https://arxiv.org/abs/2503.10622), [Chen et al. (2025)](https://arxiv.org/abs/2512.10938), [Guo et al. (2024)](https://arxiv.org/abs/2405.11582), [Ba et al. (2016)](https://arxiv.org/abs/1607.06450), [Dosovitskiy et al. (2021)](https://arxiv.org/abs/2010.11929), [Sun et al. (2024)](https://arxiv.org/abs/2402.17762). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
