# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# nGPT: everything on a sphere

**Question.** nGPT ([Loshchilov et al., 2025](https://arxiv.org/abs/2410.01131)) rescales each token's vector to length 1 after every sublayer, and the rows or columns of each matrix after every training step.
Without norm layers or warm-up it reportedly reaches a GPT's loss in 4 to 20 times fewer steps. How can nGPT learn faster on a sphere,
and how much of its advantage over a well-tuned GPT remains?

<details><summary>In short (contains spoilers)</summary>

- If the tokens' vectors (the *stream*) and the weight vectors have length 1, only their directions remain. Learned scales restore the lost size in the logits, in attention and in the feed-forward layer.
- nGPT starts fast because it has no warm-up. A GPT without warm-up starts faster still.
- At our two model sizes nothing remains of the advantage: a tuned GPT has a lower final loss than nGPT, and a GPT with QK-Norm (a norm on queries and keys) has a still lower one.

</details>
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from labkit import TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.experiments import Domain, Experiment, Lab, Run, exact, ladder, published
from labkit.model import Departure
from labkit.norms.unit import Scale, unit
from labkit.placements.sphere import ngpt_update, normalize_weights
from labkit.source import show
from labkit.training import make_optimizer

lab = Lab("08_ngpt", size=size, seed=seed, memory={"kernel": "800M", "run": "850M"})

# %%
rung = "S"
racers = {"Pre-Norm GPT": "pre", "QK-Norm GPT": "qk", "nGPT": "ngpt"}
starts, overwritten = "ngpt, published starts", "overwritten"
climbed = lab.ladder([*racers.values(), starts, overwritten, "no attention"])

# %%
largest = ladder.shared_rung(climbed, [*racers.values(), starts, overwritten])
names = {**racers, "nGPT, published initial values": starts, "GPT, overwritten stream": overwritten}
plots.dots(
    {name: list(ladder.reported(climbed, arm)[largest].values()) for name, arm in names.items()},
    xlabel="test loss (nats)",
    caption="Final test loss with tuned learning rates. nGPT's is higher than that of a GPT with Pre-Norm or QK-Norm (a norm on queries and keys, chapter 04). "
    f"The last two rows are nGPT with the paper's own initial values, and a GPT whose norms overwrite the stream, as in the GPT first released with nGPT (a bug, see 'Handicaps of the published baseline'). (Size {largest}: models of width {ladder.RUNGS[largest].dim}.)",
    provenance=lab.provenance(climbed.where(stage="final")),
).named("finish")

# %% [markdown]
r"""
## The idea: a step on the sphere

Take a stream of two channels, $h = (1, 0)$, and a sublayer whose output, divided by its length, is $b = (0, 1)$. nGPT moves $h$
by a *share* $\alpha$ of the way to $b$ and divides by the length again:

$$h \leftarrow \mathrm{norm}\big(h + \alpha\,(b - h)\big), \qquad \mathrm{norm}(x) = x/\|x\|.$$

The code calls this function `unit`, to distinguish it from a norm layer.

With $\alpha = \tfrac14$ the sum in brackets is $(\tfrac34, \tfrac14)$, and the new stream is $(3, 1)/\sqrt{10}$. A sublayer cannot make its output count more by making it longer: $b$ always has length 1. Only the share matters.

In three dimensions the stream moves on the surface of a ball, as in the figure below. The shortest path on this surface from $h$ to $b$ is an arc of a great circle. *Slerp* (spherical linear interpolation) follows this arc:
it turns $h$ by the share $\alpha$ of the angle. nGPT takes a straight step (*lerp*, linear interpolation) and divides the result by its length. With one share for all channels, the new stream lies on this circle. nGPT learns a share for each channel, so its stream may leave the circle.
"""

# %%
h = unit(torch.tensor([0.9, -0.5, 0.15]).double())
b = unit(torch.tensor([-0.3, 0.9, 0.75]).double())
theta = torch.arccos(h @ b)
own = torch.tensor([1.1, 0.3, 1.0]).double()  # one factor per channel, for the share


def slerp(alpha):
    """Turn h towards b by the share alpha of their angle."""
    return ((1 - alpha) * theta).sin() / theta.sin() * h + (alpha * theta).sin() / theta.sin() * b


def ways(alpha, steps=7):
    """Return points of each path from h, at equal parts of the share alpha."""
    parts = [alpha * i / (steps - 1) for i in range(steps)]
    return {
        "chord": [(h + a * (b - h)).tolist() for a in parts],
        "ngpt (lerp, then norm)": [unit(h + a * (b - h)).tolist() for a in parts],
        "slerp": [slerp(a).tolist() for a in parts],
        "a share for each channel": [unit(h + a * own * (b - h)).tolist() for a in parts],
    }


# %%
plots.explore(
    lambda alpha: plots.sphere_paths(
        ways(alpha),
        marks={"h": h.tolist(), "b": b.tolist()},
        caption="Paths from h towards b.",
        title="Paths from h towards b",
    ),
    [0.25, 0.5, 0.9],
    "share-of-the-way",
    label="share α",
    start=0.9,
    formula=plots.ClosedForm(
        "ways", 0, 1, 0.01, {"h": h.tolist(), "b": b.tolist(), "own": own.tolist()}
    ),
    caption="Paths from the stream h towards a sublayer's output b, both brought to length 1. A step along the chord (lerp), divided by its length, returns to the great circle from h to b, but it does not move at the even pace of slerp, which turns by equal angles. If each channel has its own share, the path leaves the great circle.",
)

# %% [markdown]
r"""
How far does such a step turn the stream? Write $b = \cos\theta\,h + \sin\theta\,e$ with a unit vector $e \perp h$. Then
$h + \alpha(b-h) = (1 - \alpha + \alpha\cos\theta)\,h + \alpha\sin\theta\,e$, so the angle is

$$\varphi = \operatorname{atan2}\big(\alpha\sin\theta,\; 1 - \alpha + \alpha\cos\theta\big) = \alpha\sin\theta + O(\alpha^2), \qquad\text{whereas slerp turns by } \alpha\theta.$$

With many channels, random directions are nearly at right angles, so before training a step with share $\alpha$ turns the stream by about $\alpha$.
"""

# %%
unlike = unit(torch.randn(20_000, 64, generator=torch.Generator().manual_seed(seed)).double())
angle = torch.arccos((unlike[::2] * unlike[1::2]).sum(-1))
turned = torch.atan2(1e-4 * angle.sin(), 1 - 1e-4 + 1e-4 * angle.cos())
exact((turned / (1e-4 * angle) - angle.sin() / angle).abs().max(), tolerance=1e-4).claim(
    "08-lerp-turns-by-the-sine",
    "< 1e-3",
    "If a step covers a small share α of the way from the stream to a sublayer's output, at an angle θ to it, linear interpolation (lerp) turns the stream by α sin θ, and spherical interpolation (slerp) by α θ.",
    found="With a share of 0.0001, linear interpolation turns the stream by sin θ / θ times the angle of spherical interpolation, where θ is the angle between the stream and a sublayer's output. The measured ratio deviates from this by at most {mean:.0e}.",
    source="this chapter's derivation; Loshchilov et al. 2025, arXiv 2410.01131, section 2.2",
    published="lerp is an approximation of slerp",
)

# %% [markdown]
r"""
From here on $\alpha$ has an entry for each channel, and $\odot$ multiplies entry by entry. Read the step as $h \leftarrow \mathrm{norm}\big(h - \alpha\odot(h - b)\big)$. For a fixed $b$, the difference $h - b$ is the gradient of
$\tfrac12\|h-b\|^2$. So each sublayer proposes a point, and the stream takes one step of gradient descent towards it, with the share as
learning rate. nGPT learns a share for every channel and uses its absolute value. The paper calls such a share an *eigen learning rate*.

## What unit length removes

In every matrix, the rows or the columns are vectors of the stream's width. nGPT gives these vectors length 1. A matrix that *reads* the stream ($W_q, W_k, W_v$, the feed-forward's
`up` and `gate`, the output head) has unit rows: entry $i$ of $Wh$ is a **cosine**. The embedding has unit rows, too, and a token's row is its stream before the first block. A matrix that *writes* (attention's `out`, the feed-forward's `down`) has unit
columns: $Wz = \sum_i z_i w_i$ adds unit vectors of the stream's space. PyTorch stores matrices as (outputs, inputs), so the reading matrices are normalized along axis 1 and the writing matrices along axis 0.

*By hand.* `down` is stored as 64 outputs by 256 inputs, and its columns have length 1. What is the root mean square of its rows' lengths? And of its columns' lengths, if the rows have length 1 instead?

<details><summary>Answer</summary>

The squared lengths of 256 unit columns sum to 256. Over 64 rows the root mean square is $\sqrt{256/64} = 2$. If the rows have length 1 instead, the root mean square over the columns is $\sqrt{64/256} = \tfrac12$. To check the axis in your code, print the lengths of `down`
along axis 0: all must be 1.

</details>
"""

# %%
show(normalize_weights)

# %% [markdown]
r"""
Normalization removes a vector's scale and nothing else:
"""

# %%
small = Departure(recipe="ngpt", dim=16, depth=2, heads=2, context=32)
torch.manual_seed(seed)
model = small.build().double()
tokens = torch.randint(96, (4, 32), generator=torch.Generator().manual_seed(seed))
normalize_weights(model)  # once more, in double precision
before = model(tokens)
with torch.no_grad():
    for i, weight in enumerate(p for p in model.parameters() if p.ndim == 2):
        weight.mul_(0.9 ** (i + 1))
normalize_weights(model)
exact((model(tokens) - before).abs().max(), tolerance=1e-10).claim(
    "08-constants-are-forgotten",
    "< 1e-10",
    "In nGPT, whose matrices are normalized after every step, multiplying a matrix by a constant does not change the logits.",
    found="If every matrix of an nGPT is multiplied by a constant and then normalized again, the logits change by at most {mean:.0e}.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2.6 (no weight decay)",
)

# %% [markdown]
r"""
So weight decay has practically no effect in nGPT: it only makes the gradient step slightly larger relative to the matrix. In a GPT weight decay matters more. If a norm follows a matrix, as QK-Norm follows $W_q$ and
$W_k$, the matrix's length does not affect the loss. So the gradient is at right angles to the matrix, and gradient steps lengthen it. Decay shortens it, until the two effects balance. Only then does the *angle* by which it turns per step settle ([chapter 04](04_qk_norm.ipynb); [Kosson et al., 2024](https://arxiv.org/abs/2305.17212)).
nGPT has no such first phase: its lengths are fixed, so the learning rate sets the angle from the first step on.

## Learned scales that restore size

Cosines lie in $[-1, 1]$. This range is too small in three places.

**Logits.** Imagine that the stream after the last block has ideal cosines with the rows of the output head: 1 with the right token's row and −1 with all others. With three or more different rows, no stream has all these cosines at once, so every real loss exceeds the loss with ideal cosines. If all cosines are multiplied by a scale $s_z$, the ideal loss
is $\log\big(1 + (V-1)\,e^{-2s_z}\big)$ for a vocabulary of $V$ tokens. **The scale limits how sure the model can be.** nGPT learns a scale for each of the $V$ tokens.
"""

# %%
floor = {s: float(np.log1p(95 * np.exp(-2 * s))) for s in (1.0, 2.0, 3.0, 5.0, 10.0)}
best_case = torch.full((1, 96), -1.0, dtype=torch.float64)
best_case[0, 7] = 1.0
attained = [F.cross_entropy(s * best_case, torch.tensor([7])).item() for s in floor]
off = max(abs(a - b) for a, b in zip(attained, floor.values(), strict=True))
exact(off, tolerance=1e-12).claim(
    "08-scale-bounds-certainty",
    "< 1e-12",
    "With a logit scale of 1 and V characters, nGPT's loss cannot fall below log(1 + (V − 1)·e⁻²), whatever its cosines.",
    found="With a logit scale of 1 and 96 different characters, no loss is lower than {one:.2f} nats. Losses computed from ideal cosines differ from the bound that we derive by at most {mean:.0e}.",
    source="this chapter; Loshchilov et al. 2025, arXiv 2410.01131, section 2.1",
    beside={"one": floor[1.0]},
)

# %% [markdown]
r"""
**Attention.** Rotary position embeddings (RoPE) rotate each head's queries and keys. Both are then divided by their lengths and multiplied, entry by entry, by the head's learned vector $s_{qk}$.
With $d_k$ channels per head, the dot product of two random unit vectors is about $1/\sqrt{d_k}$ in size, so the usual factor is inverted: logits are
*multiplied* by $\sqrt{d_k}$ instead of divided by it. Values are not divided by their lengths, so a short value counts less in the average.

**Feed-forward.** The layer computes $W_{down}\big(u\odot\mathrm{SiLU}(v)\big)$ from $u = W_{up}h$ and a gate $v = W_{gate}h$, with $\mathrm{SiLU}(v) = v\cdot\mathrm{sigmoid}(v)$. The entries of $u$ and $v$ are cosines, of size about $1/\sqrt d$ for a stream of width $d$. In this range SiLU is nearly linear, and the gate hardly selects. So $v$ is
multiplied by $\sqrt d$, and $u$ and $v$ get learned scales, $s_u$ and $s_v$. (The official code has $\sqrt d$ on $u$ as well. This factor cannot
matter: the output is linear in $u$ and divided by its length.)

**How a scale is stored** matters, too. Adam moves every stored number by about the learning rate $\eta$ per step, however large the number is. The entries of the matrices are about $1/\sqrt d$. nGPT therefore stores most scales at that size and multiplies them by a constant in the forward pass. Then a step of Adam changes a scale by about the same fraction as a matrix entry. Below, *stored* is the number that Adam changes, starting from *stored size*:

$$\text{value} = \text{stored}\cdot\frac{\text{initial value}}{\text{stored size}}, \qquad \text{Adam's first step on the value: } \eta\cdot\frac{\text{initial value}}{\text{stored size}}.$$

For example, a share starts at $0.05$ and is stored as $1/\sqrt{64} = 0.125$: each stored number is multiplied by $0.4$, so a step of $0.001$ moves the share by $0.0004$. The table below uses the paper's initial values, $d = 64$ and $\eta = 0.001$. The scales $s_u$ and $s_v$ (row *s_uv*) are stored at 1, so a step changes them by a smaller fraction of their value than the other scales.
"""

# %%
d, rate = 64, 1e-3
wider = replace(small, dim=d, depth=1, heads=4).build().double()
found = {p.split(".")[-1]: m for p, m in wider.named_modules() if isinstance(m, Scale)}
start = {name: (scale.weight[0].item(), scale().detach()) for name, scale in found.items()}
optimizer = make_optimizer(wider, TrainConfig(lr=rate))
optimizer.param_groups[0]["lr"] = rate
F.cross_entropy(wider(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
optimizer.step()

# The paper's initial value and the size at which it is stored.
as_printed = {"alpha": (0.05, d**-0.5), "s_qk": (1, d**-0.5), "s_uv": (1, 1), "s_z": (1, d**-0.5)}
rows = [
    {"scale": name.replace("alpha", "α"), "initial value": start[name][1][0].item(), "stored at": start[name][0],
     "a step of Adam on the value": (found[name]() - start[name][1]).abs().median().item(),
     "predicted": rate * first / stored}
    for name, (first, stored) in as_printed.items()
]  # fmt: skip
plots.table(rows)

# %%
off = max(abs(row["a step of Adam on the value"] / row["predicted"] - 1) for row in rows)
exact(off, tolerance=0.005).claim(
    "08-storage-sets-the-speed",
    "< 0.01",
    "In nGPT, the size at which a learned scale is stored determines how fast the scale changes in training.",
    found="Adam's first step changes each kind of nGPT's learned scales by η · initial value / stored size, with a relative error of at most {mean:.1e}.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2.5",
)

# %% [markdown]
r"""
## Implementation: exercise 1

**1 (in code).** Write the step: `h` is the stream of length 1, `f` the sublayer, and `alpha` the learned vector, with entries of either sign.
"""


# %% tags=["exercise"]
def my_step(h, f, alpha):
    """One step of nGPT."""
    return ...


# %%
def check_step(my_step):
    """Compare a step with nGPT's equation, on three tokens and shares of either sign."""
    generator = torch.Generator().manual_seed(4)
    h = unit(torch.randn(3, 4, generator=generator).double())
    alpha = torch.tensor([0.2, -0.5, 0.8, 0.1]).double()
    return check.function(
        my_step,
        (h, "lambda x: 3 * x.flip(-1) + 1", alpha),
        lambda h, f, alpha: ngpt_update(h, f(h), alpha),
        slips={
            "the branch is not divided by its length before the step": (
                lambda h, f, alpha: unit(h + alpha * (f(h) - h))
            ),
            "the new stream must have length 1": (
                lambda h, f, alpha: h + alpha.abs() * (unit(f(h)) - h)
            ),
            "the sign of a share must not matter: take its absolute value": (
                lambda h, f, alpha: unit(h + alpha * (unit(f(h)) - h))
            ),
        },
        name="1",
        hint="move from h towards f(h) divided by its length; use the absolute value of the share",
        rtol=1e-6,
    )


check_step(my_step)

# %% [markdown]
r"""
<details><summary>Hint</summary>

You need two divisions by a length and one absolute value.

</details>
"""


# %% tags=["solution"]
# Solution
def solved_step(h, f, alpha):
    """A solution of exercise 1."""
    b = f(h) / f(h).norm(dim=-1, keepdim=True)
    new = h + alpha.abs() * (b - h)
    return new / new.norm(dim=-1, keepdim=True)


assert check_step(solved_step).ok

# %% [markdown]
r"""
Here is a whole block with one head, without an embedding, an output head or positions. By plain gradient descent, it learns to move eight random tokens to eight random targets.
"""


# %% tags=["mechanism"]
def run_block(h, w, s):
    """Run a block of nGPT on tokens of length 1; w are its matrices, s its learned scales."""
    later = torch.ones(len(h), len(h), dtype=torch.bool).triu(1)

    def attend(h):
        q, k = s["qk"] * unit(h @ w["q"].T), s["qk"] * unit(h @ w["k"].T)
        logits = q @ k.T * k.shape[-1] ** 0.5
        return logits.masked_fill(later, -torch.inf).softmax(-1) @ (h @ w["v"].T) @ w["out"].T

    def feed_forward(h):
        u, v = s["u"] * (h @ w["up"].T), s["v"] * (h @ w["gate"].T) * h.shape[-1] ** 0.5
        return (u * F.silu(v)) @ w["down"].T

    h = solved_step(h, attend, s["alpha_A"])
    return solved_step(h, feed_forward, s["alpha_M"])


def train_step(loss, w, s, rate):
    """Go downhill, then bring every vector of a matrix back to the sphere."""
    learned = [*w.values(), *s.values()]
    for p, gradient in zip(learned, torch.autograd.grad(loss, learned), strict=True):
        p.data -= rate * gradient
    for name, matrix in w.items():
        along = 0 if name in ("out", "down") else 1  # writers by columns, readers by rows
        matrix.data /= matrix.norm(dim=along, keepdim=True)


# %%
torch.manual_seed(seed)
d, wide = 16, 48
shapes = {
    **dict.fromkeys(("q", "k", "v", "out"), (d, d)),
    "up": (wide, d),
    "gate": (wide, d),
    "down": (d, wide),
}
w = {name: torch.randn(of).double().requires_grad_() for name, of in shapes.items()}
s = {
    name: torch.full((wide if name in "uv" else d,), 1.0).double().requires_grad_()
    for name in ("qk", "u", "v")
}
s |= {name: torch.full((d,), 0.25).double().requires_grad_() for name in ("alpha_A", "alpha_M")}
tokens_in, goal = unit(torch.randn(8, d).double()), unit(torch.randn(8, d).double())

# %%
rows = []
for count in range(101):
    stream = run_block(tokens_in, w, s)
    distance = (stream - goal).square().sum(-1).mean()
    if count in (1, 10, 100):
        rows.append({
            "steps": count,
            "squared distance to the goal": distance.item(),
            "length of a token": stream.norm(dim=-1).mean().item(),
            "length of a reader's row": w["q"].norm(dim=1).mean().item(),
            "length of a writer's column": w["out"].norm(dim=0).mean().item(),
        })  # fmt: skip
    train_step(distance, w, s, 0.3)
plots.table(rows, digits=3)

# %% [markdown]
r"""
The block learns, and the lengths in the table stay 1. To turn a whole GPT into an nGPT, replace each residual addition by the step, remove every norm layer, including the final one, and turn off weight decay
and warm-up. Then normalize queries and keys, add the scales, and call `normalize_weights` at the start and after every step of the optimizer.
"""

# %%
from labkit.placements import Place, SphereStep

show(SphereStep)

# %%
torch.manual_seed(seed)
branch = torch.nn.Linear(16, 16).double()
step = SphereStep(None, branch, Place(dim=16)).double()
with torch.no_grad():
    step.alpha.weight.copy_(0.3 * torch.randn(16))  # of either sign: |α| counts
stream = unit(torch.randn(500, 16).double())
share = (step.alpha.weight * 0.05 * 16**0.5).abs()
goal = branch(stream) / branch(stream).norm(dim=-1, keepdim=True)
wanted = stream * (1 - share) + goal * share
wanted /= wanted.norm(dim=-1, keepdim=True)
exact((step(stream) - wanted).abs().max(), tolerance=1e-12).claim(
    "08-step-is-the-formula",
    "< 1e-12",
    "labkit's nGPT step computes the published formula.",
    found="In double precision, the output of labkit's nGPT step differs from that of the published formula by at most {mean:.0e}.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, equations for h_A and h_M",
)

# %% [markdown]
r"""
There is no $\epsilon$ in nGPT. So in the official code a vector of zeros, such as attention's output for a padded query without allowed keys, becomes 0/0, which is NaN.

## Measure

The models belong to the *ladder*, the experiment grid that the book's chapters share. They have six blocks of width 32 (S) or 64 (M).

<details><summary>How we tuned and evaluated</summary>

The models are trained on 20 characters of text per parameter, in 3,200 steps at size S and 6,000 at size M. The curves of early training come from five runs per model at size S, at learning rates from an earlier, smaller search.

</details>

nGPT has no warm-up, as published. Its initial values are our choice: shares of 1/12 (one over the number of sublayers) and $s_z = 10$. The GPT is
Pre-Norm with RMSNorm and a warm-up over a tenth of the steps. Neither model has weight decay.

### Early training

The fast start of the paper's nGPT has two possible explanations. The first is that nGPT skips the phase in which lengths settle. The second is simpler: nGPT has no warm-up, whereas the GPT takes its first steps at a low learning rate.

| question | choices | ours |
| --- | --- | --- |
| After a tenth of the steps, which has the lower training loss: nGPT, or a GPT without warm-up? <!-- 08-first-lap-without-warm-up 08-falls-faster-at-first --> | the GPT without warm-up; <!-- 0 --> nGPT | <details><summary>show</summary>nGPT: both GPTs, with and without warm-up, have a higher training loss.</details> |
"""


# %%
def on_the_ladder(arm):
    """Five runs of an arm at its own rate, on the rung that this chapter looks into."""
    return climbed.where(arm=arm, rung=rung, stage="first")


def behind_the_gpt(arm):
    """Subtract the GPT's training loss from an arm's, step by step, for each seed."""
    losses = (on_the_ladder(name).values(lambda r: np.array(r.losses)) for name in (arm, "pre"))
    return [own - gpt for own, gpt in zip(*losses, strict=True)]


plots.loss_curves(
    {name: behind_the_gpt(arm) for name, arm in racers.items() if arm != "pre"},
    ylabel="training loss minus the GPT's (nats)",
    logx=True,
    smooth=40,
    ylim=(-0.4, 0.15),
    reference={"Pre-Norm GPT": 0.0},
    caption="Training loss minus the Pre-Norm GPT's at the same step. "
    "nGPT's loss is higher for a few steps, then lower (by more than 0.4 nats where its curve is below the figure), and later higher again. Which model has the lowest loss at the end?",
    provenance=lab.provenance(*map(on_the_ladder, racers.values())),
).named("race")

# %%
base, gpt = (
    ladder.configure_run(ladder.build_base_run(rung, arm), max(on_the_ladder(arm).by("lr")), 0)
    for arm in ("ngpt", "pre")
)
looks = ("validation", "test", "weights", "sphere-scales", "layer-cosine", "residual-rms")
base = replace(base, probes=looks)
seeds, steps = list(ladder.SEEDS), base.train.steps
tenth = max(steps // 10, 4)
sphere = lab.run(Experiment(base, {"seed": seeds}))
flat = on_the_ladder("pre")
ramped = lab.run(Experiment(base, {"train.warmup": [tenth], "seed": seeds}))
abrupt = lab.run(Experiment(gpt, {"train.warmup": [0], "seed": seeds}))

# %% tags=["mechanism", "remove-cell"]
# See one train: its first steps, here and now, next to the book's record. Needs the cells above.
lab.train_live(Experiment(base, {"seed": seeds}))


# %%
def early(runs):
    """Mean training loss over the steps around the end of the first tenth, for each seed."""
    around = slice(tenth - tenth // 4, tenth + tenth // 4)
    return runs.measure(lambda record: np.mean(record.losses[around]))


(early(flat) - early(sphere)).tuned().claim(
    "08-falls-faster-at-first",
    "> 0",
    "Early in training, nGPT has a lower training loss than a Pre-Norm GPT with warm-up.",
    found="After a tenth of the steps, nGPT's training loss is {apart:.3f} nats {side} that of a Pre-Norm GPT with warm-up.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, Figure 1",
    beside={"last step": "nGPT's loss is higher at the end", "control": "both without warm-up"},
)
(early(abrupt) - early(sphere)).claim(
    "08-first-lap-without-warm-up",
    "> 0",
    "Early in training, nGPT has a lower training loss than a GPT without warm-up.",
    found="After a tenth of the steps, nGPT's training loss is {apart:.3f} nats {side} that of a GPT without warm-up. At that step, a warm-up raises nGPT's loss by {own:.3f} nats.",
    source="this book",
    beside={
        "own": early(ramped) - early(sphere),
        "last step": "nGPT's loss is higher at the end, too",
        "control": "a warm-up raises nGPT's loss",
    },
)

# %%
end = sphere.measure("test.loss")
(end - ramped.measure("test.loss")).claim(
    "08-no-warm-up-needed",
    "< 0.01",
    "Without a warm-up, nGPT's final test loss is less than 0.01 nats higher than with one.",
    found="With a warm-up, nGPT's final test loss is {apart:.4f} nats {side} without one.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2.6",
    published="no warm-up",
)

# %% [markdown]
r"""
For these runs the second explanation is right, and our prediction was wrong: nGPT starts fast because it has no warm-up. A GPT without warm-up has a lower loss than nGPT from the first steps on. And if both models have a warm-up, nGPT's loss is higher
than the GPT's for most of the first tenth, although all its lengths are 1. So unit length does not make the start fast here. (Our runs cannot show whether settling lengths slow a GPT down: our GPT has no weight decay, so nothing makes its lengths settle.)
"""

# %%
lap = {
    "nGPT": sphere,
    "nGPT with warm-up": ramped,
    "Pre-Norm GPT": flat,
    "GPT without warm-up": abrupt,
}
plots.loss_curves(
    {name: runs.values(lambda r: r.losses[:tenth]) for name, runs in lap.items()},
    logx=True,
    smooth=10,
    ylim=(2.0, 5.5),
    caption="Training loss of nGPT and the GPT, with and without warm-up, in the first tenth of training. "
    "After the first few steps, a warm-up makes a larger difference than the sphere does.",
    provenance=lab.provenance(*lap.values()),
).named("first-lap")

# %%
gpts = climbed.where(arm="pre", rung=rung, lr=gpt.train.lr, stage="final")
unwarmed = lab.run(Experiment(gpt, {"train.warmup": [0], "seed": [*gpts.by("seed")]}))
(unwarmed.measure("test.loss") - gpts.measure("test.loss")).claim(
    "08-gpt-needs-its-warm-up",
    "> 0",
    "Without a warm-up, a GPT has a higher final test loss than with one.",
    found="At the same learning rate, a GPT's final test loss with a warm-up is {apart:.4f} nats {side} without one.",
    source="Loshchilov et al. 2025, arXiv 2410.01131: 2,000 steps of warm-up for the GPT, none for nGPT",
)

# %% [markdown]
r"""
Does the sphere make a start without warm-up safer, then? A warm-up lowers the GPT's loss a little, and we detect no effect on nGPT's. But nGPT's learning rate was tuned only without a warm-up, and the GPT's only with one, so the cards do not answer the question. <!-- 08-gpt-needs-its-warm-up 08-no-warm-up-needed -->

### Final loss

By the end of training nGPT has lost its early advantage over the GPT with warm-up (see the chapter's first figure). Even a GPT without warm-up has a lower final loss. Each card below compares two models at the largest size at which both were trained.
"""

# %%
ladder.improvement(climbed, "ngpt").claim(
    "08-ladder-against-gpt",
    "> 0",
    "After training, nGPT has a lower test loss than a tuned GPT.",
    found="At size {rung}, with tuned learning rates, nGPT's test loss is {apart:.4f} nats {side} that of the GPT.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, Figures 1 and 2",
    published="the same loss after 4 to 20 times fewer steps",
    domain=Domain(
        "24 layers and more, contexts of 1k to 8k tokens, 200k steps and more",
        "six blocks, 20 characters per parameter (the shared ladder)",
        inside=False,
    ),
)
ladder.improvement(climbed, "ngpt", "qk").claim(
    "08-ladder-against-qk-norm",
    "< 0",
    "At this size nGPT ends above a tuned GPT with QK-Norm.",
    found="At size {rung}, with tuned learning rates, nGPT's test loss is {apart:.4f} nats {side} that of a GPT with QK-Norm.",
    source="this book",
)

# %%
ladder.improvement(climbed, "ngpt", starts).claim(
    "08-ladder-starting-values",
    "> 0",
    "The published first values cost a model of six blocks.",
    found="At size {rung}, nGPT's test loss with our initial values is {apart:.4f} nats {side} with the published initial values.",
    source="Loshchilov et al. 2025, arXiv 2410.01131: an initial share of 0.05, about one over 24 layers, and s_z = 1; ours differ in both",
)

# %% [markdown]
r"""
At size M the difference between nGPT and either GPT is smaller than at size S. But two sizes do not make a trend. At size S, nGPT has a higher loss with the published initial values than with ours. Those values differ from ours in the share and in $s_z$, and
we did not separate their effects.

<details><summary>How sure is that?</summary>

At size M, the uncertainty from tuning is less than a tenth of the difference between nGPT's loss and the GPT's, so a better learning rate would not have closed the gap. The published initial values were tested at size S only. If the run with their highest loss is left out, we detect no difference from ours.

</details>

Does nGPT's higher final loss contradict the paper? No. The paper's models have 24 or more layers and contexts at least sixteen times as long as ours at size M, and its baseline lacks QK-Norm. Moreover, the reported
factor of 4 to 20 is for long runs: according to the notes of the [official code](https://github.com/NVIDIA/ngpt), nGPT reaches in 200,000 steps the loss that
the GPT has after 800,000, and the notes expect a smaller factor in shorter runs. In larger models, too, less of the advantage remains against a stronger baseline: a variant of nGPT
with *approximate* normalization is reported to converge up to 40 % faster than a GPT with QK-Norm
([Franke et al., 2025](https://arxiv.org/abs/2505.22014)). (nGPT's best learning rate changes with the width and the number of steps
([Shigida et al., 2026](https://arxiv.org/abs/2604.27077)), so we tuned it for each size.)

Our runs tell us about small models only. But at any size, compare a method with the strongest baseline, and do not judge it by its early training.

### What a step costs

The probe `pace` alternately trains an nGPT and a GPT, each with two blocks of width 64, in one process and divides nGPT's processor time by the GPT's.

| question | choices | ours |
| --- | --- | --- |
| How long does a step of nGPT take, compared with a step of the GPT? <!-- 08-a-step-costs-more --> | about as long, or shorter; <!-- 1.05 --> up to 1.5 times as long; <!-- 1.5 --> more than 1.5 times as long | <details><summary>show</summary>Longer, but we predicted no factor.</details> |
"""

# %%
timing = Run(
    model=Departure(dim=64, depth=2, context=32, recipe="ngpt"),
    data=Text(batch=16, time=32, held_out=16_384),
    train=TrainConfig(steps=1),
    probes=("pace",),
)
timed = lab.run(Experiment(timing, {"seed": seeds}))
pace = timed.measure(lambda record: np.median(record.probes["pace"]["ratios"]))
replace(pace, tolerance=0.25).claim(
    "08-a-step-costs-more",
    "> 1",
    "A training step takes longer with nGPT than with a GPT of the same size.",
    found="On a CPU, a training step of nGPT takes {mean:.2f} times as long as one of a GPT of the same size.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 3",
    published="1.8 times at a context of 4,096, 1.6 times at 8,192",
)
# %%
plots.table(
    {"context (tokens)": int(r["context"]), "times fewer steps": r["step_factor"], "a step takes (times the GPT's)": r["step_time"] or "not given"}
    for r in published("loshchilov2025")
)  # fmt: skip

# %% [markdown]
r"""
The published factor in steps (the GPT's number of steps divided by nGPT's, for the same loss) grows with the context length. Here a context has 32 characters at size S and 64 at size M. To get a factor in time, divide the factor in steps by the relative time per step.

A step of nGPT needs hardly more arithmetic than a step of Pre-Norm ([chapter 10](10_choosing_a_norm.ipynb) counts it), so most of the extra
time should go into memory traffic and small operations: vectors are read again to compute lengths and divide by them, and every step ends with a pass over all weights.

### What it learns

Is the trained model really on the sphere? And how far does each sublayer move the stream?

| question | choices | ours |
| --- | --- | --- |
| Each sublayer moves the stream a learned share of the way to its output. How does the feed-forward layer's share in the last block compare with that in the first? <!-- 08-shares-grow-with-depth --> | smaller; <!-- -0.1 --> about equal; <!-- 0.1 --> larger | <details><summary>show</summary>The feed-forward layer's learned share is larger in the last block than in the first.</details> |
"""

# %%
exact(max(sphere.values("weights.off")), tolerance=1e-6).claim(
    "08-lengths-stay-one",
    "< 1e-6",
    "After training, all vectors in nGPT's matrices have length 1.",
    found="After training, the lengths of all vectors in nGPT's matrices differ from 1 by at most {mean:.0e}.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2",
)

# %%
plots.by_depth(
    {
        "attention": sphere.values("sphere-scales.attention"),
        "feed-forward": sphere.values("sphere-scales.feed_forward"),
    },
    ylabel="share |α|, mean over channels",
    reference={"initial value": base.model.share},
    caption="Learned shares α of attention and of the feed-forward sublayer, averaged over channels, by block. From block to block, attention's share differs less than the feed-forward sublayer's.",
    provenance=lab.provenance(sphere),
).named("learned-shares")


# %%
def measure_growth(record):
    """Subtract the share of the first block's feed-forward from that of the last one's."""
    shares = record.probes["sphere-scales"]["feed_forward"]
    return shares[-1] - shares[0]


sphere.measure(measure_growth).claim(
    "08-shares-grow-with-depth",
    "> 0",
    "In a trained nGPT, the feed-forward sublayer's learned share α is larger in the last block than in the first.",
    found="In a trained nGPT, the feed-forward sublayer's learned share α is {mean:.2f} larger in the last block than in the first.",
    source="this book",
)

# %% [markdown]
r"""
The shares have moved away from their initial value, some up and some down. The feed-forward sublayers of the first two blocks take the shortest steps, and that of the
last block covers about a third of the way. If a share is a learning rate, the model
has learned a schedule over its blocks. So one initial value for all blocks can only be a first guess.

The scale $s_z$ has grown from its initial value, 10 (row *correct* of the table in the next section). Certainty needs large logits, and cosines are at most 1.

## Where it goes wrong

### Bugs that the final loss does not reveal

Each run below is nGPT with one bug, trained to the end at the correct nGPT's learning rate. Which bugs would you notice from the loss?

1. **no outer norm**: after the step, the stream is not brought back to the sphere.
2. **wrong axis**: `out` and `down` get unit rows, not unit columns.
3. **wrong branch**: $\alpha$ multiplies the old stream and $1 - \alpha$ the sublayer's output, so that each sublayer nearly replaces the stream.
"""

# %%
faults = ["no outer norm", "wrong axis", "wrong branch"]
wrong = lab.run(Experiment(base, {"model.differs": faults, "seed": seeds})).by("differs")
harm = {fault: wrong[fault].measure("test.loss") - end for fault in faults}
plots.dots(
    {fault: harm[fault].values for fault in ("no outer norm", "wrong axis")},
    xlabel="test loss minus the correct nGPT's (nats)",
    threshold={"correct": 0.0},
    caption="Test loss of nGPT with each of two bugs minus that of the correct nGPT, seed by seed. The loss with the third bug is far beyond the range of this axis (see the next table).",
    provenance=lab.provenance(*wrong.values()),
).named("mistakes")


# %%
looks = {
    "test loss": "test.loss",
    "largest error of a weight vector's length": "weights.off",
    "length of the last stream": lambda r: base.model.dim**0.5 * r.probes["residual-rms"][-1],
    "learned s_z": "sphere-scales.s_z",
    "cosine of a block's input and output": lambda record: np.mean(record.probes["layer-cosine"]),
}
plots.table(
    [
        {"model": name, **{kind: part.measure(look).mean for kind, look in looks.items()}}
        for name, part in {"correct": sphere, **wrong}.items()
    ],
    digits=4,
)

# %%
lead_of_qk = end - on_the_ladder("qk").measure("test.loss")
harm["no outer norm"].claim(
    "08-loss-hides-the-outer-norm",
    f"in [-0.01, 0.01] of {lead_of_qk.mean}",
    "An nGPT that never brings its stream back to the sphere has nearly the same final test loss as the correct nGPT.",
    found="The test loss of the correct nGPT is {apart:.4f} nats {side} that of an nGPT whose stream is never brought back to the sphere.",
    source="this book",
)

# %% [markdown]
r"""
The loss reveals the wrong branch: it is near that of the
unigram baseline (a prediction from letter frequencies alone). Almost nothing of a token is left after twelve sublayers that each nearly replace the stream (hence the small cosine). The other two bugs are hard to see. In the figure some of their losses are lower and some higher than the correct model's. But five seeds cannot show that these bugs cost nothing.

Since the loss may hide a bug, measure
a quantity that the bug affects directly. The length of a weight vector reveals the wrong axis. The length of the stream reveals the missing norm. The column *learned s_z* (the mean over the vocabulary) suggests why the loss does not reveal it: without the norm the stream is shorter, but $s_z$ has grown more. The product of the two, about the largest possible logit, differs from the correct model's by less than a tenth. Attention's weights do not depend on the stream's length either, because queries and keys
are divided by their own lengths.

labkit's checker finds bugs inside a block without training: it compares the block with the equations. (The wrong axis lies outside the block, so the next table leaves it out.) Here a *law* is a property that every block with these equations must have, and *both halves* means both sublayers:
"""

# %%
rows = []
for fault in (None, "no outer norm", "wrong branch"):
    report = check.block(replace(small, differs=fault).build().blocks[0], "ngpt", small)
    rows.append(
        {
            "block": fault or "correct",
            "laws kept": f"{sum(law.ok for law in report.laws)} of {len(report.laws)}",
            "what the checker says": next(iter(report.causes), ""),
        }
    )
plots.table(rows)

# %% [markdown]
r"""
### Handicaps of the published baseline

An advantage depends on the baseline. Here are two facts about the GPT that was released with nGPT:

- In the first release the output of each norm replaced the stream, $x \leftarrow N(x) + f(N(x))$, so that every skip carried a normalized copy ([issue 1](https://github.com/NVIDIA/ngpt/issues/1) of the official repository).
  In the issue the repository's author says that the paper's own code did not have this bug. The [commit that fixed it](https://github.com/NVIDIA/ngpt/commit/6dcc109c5c6d90600f07e6d115e859361ebf4a1a) also raised the GPT's learning rate fivefold and removed the statement that the code reproduces the
  paper's factors.

  Written for $z = N(x)$, the step is $z \leftarrow N(z + f(z))$. This is Post-Norm, except that the embeddings are normalized, too.

  How much does the bug cost a GPT at its best learning rate? At size S we detect no increase in the loss (*GPT, overwritten stream* in the chapter's first figure). At size M the loss is a little higher ([all runs](runs.md)).
- The GPT's matrices, like nGPT's, are *stored* in bfloat16. The notes of the repository say that this was so in the paper's experiments, too, and that it hurts the GPT more than nGPT. For values near 0.1, neighbouring numbers of bfloat16 are $2^{-11}$ apart, and a step of less than half of that is lost. The spacing grows with the weight, so a GPT's weights can grow until steps of the usual size are lost. nGPT's weights cannot grow.

We did not test the effect of bfloat16. Still, when a method is far better than its baseline, read the baseline's code first.

## Exercises

**2 (by hand).** The stream is $h = (1, 0)$, the sublayer's output has the direction $b = (-\tfrac35, \tfrac45)$, and each channel's share is $\tfrac12$. What is the stream after the step?
"""

# %% tags=["exercise"]
yours = [..., ...]

# %%
h, b = torch.tensor([1.0, 0.0]).double(), torch.tensor([-0.6, 0.8]).double()
truth = ngpt_update(h, b, torch.tensor([0.5, 0.5]).double())
check.answer(yours, truth.tolist(), name="2", hint="half-way along the chord, then to length 1")

# %% [markdown]
r"""
<details><summary>Hint</summary>

With a share of one half the step leads to the middle of the chord, $(h + b)/2$. Only the direction of this vector counts.

</details>
<details><summary>Solution</summary>

$(h + b)/2 = (0.2, 0.4)$, of length $0.2\sqrt5$. The stream becomes $(1, 2)/\sqrt5$. (At one half, lerp and slerp agree: both bisect the angle.)

</details>

**3 (by hand).** A vocabulary has $V = 50{,}000$ tokens. With ideal cosines, what is the smallest $s_z$ that gives a token a loss of at most 0.01 nats?
"""

# %% tags=["exercise"]
yours = ...

# %%
truth = float(0.5 * np.log((50_000 - 1) / np.expm1(0.01)))
hint = "solve log(1 + (V − 1) exp(−2 s)) = 0.01 for s, and mind the 2"
check.answer(yours, truth, name="3", hint=hint, rtol=0.01)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$e^{0.01} - 1 \approx 0.01$.

</details>
<details><summary>Solution</summary>

$(V-1)\,e^{-2s} = e^{0.01} - 1 \approx 0.01005$, so $s = \tfrac12\log(49{,}999/0.01005) \approx 7.71$.

</details>

**4 (prove).** Let $h$, $b$ be unit vectors with angle $\theta\in(0,\pi)$ and let the share be one number $\alpha\in(0,1)$. (a) Show that the length of $h + \alpha(b-h)$ is $\sqrt{1 - 2\alpha(1-\alpha)(1-\cos\theta)}$. (b) Show that it is smallest at $\alpha = \tfrac12$ and that lerp and slerp agree there.
(c) With a separate share $\alpha_i$ for each channel, give an example in which the new stream leaves the great circle through $h$ and $b$.

<details><summary>Hint</summary>

(a) Square, and use $h\cdot b = \cos\theta$. (c) A great circle is the intersection of the sphere with a plane through 0.

</details>
<details><summary>Solution</summary>

(a) $\|(1-\alpha)h + \alpha b\|^2 = (1-\alpha)^2 + \alpha^2 + 2\alpha(1-\alpha)\cos\theta = 1 - 2\alpha(1-\alpha) + 2\alpha(1-\alpha)\cos\theta$.

(b) $\alpha(1-\alpha)$ is largest at $\tfrac12$. There the sum is $(h+b)/2$, which bisects the angle between two vectors of equal length. Slerp turns by $\theta/2$, which gives the same direction.

(c) Take $h = (1,0,0)$, $b = (0,1,1)/\sqrt2$ and shares $(\tfrac12, 1, 0)$: the sum is $(\tfrac12, 1/\sqrt2, 0)$, but every vector of the plane has equal
second and third entries.

</details>

**5 (open).** Which initial share is best for models of 2, 4 and 8 blocks? Write down a prediction, and the result that would refute it. Then train these models with at least three seeds.
"""

# %% tags=["exercise"]
my_prediction = "…"
my_axes = {"model.depth": [2, 4, 8], "model.share": [0.05, 0.1, 0.25, 0.5], "seed": seeds[:3]}
my_experiment = Experiment(base, my_axes)
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {n: part.best("share") for n, part in results.by("depth").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## What you now know

- **How can a model learn faster on a sphere?** Here it does not. nGPT starts fast because it has no warm-up, and a GPT without warm-up starts faster
  still. <!-- 08-falls-faster-at-first 08-first-lap-without-warm-up -->
- **How much of the advantage over a tuned GPT remains?** Nothing at our two sizes: the GPT has a lower loss at the end, and a GPT with QK-Norm has a still lower one. The published
  factors are for long runs and long contexts. <!-- 08-ladder-against-gpt 08-ladder-against-qk-norm -->
- A step moves the stream a share $\alpha$ of the way along the chord and then returns it to the sphere. Shares are learning rates, and here the model learned a schedule over its six blocks. <!-- 08-step-is-the-formula 08-shares-grow-with-depth -->
- Matrices that read the stream have rows of length 1, and matrices that write to it have columns of length 1. A constant factor on a matrix changes nothing, so weight decay has practically no effect. <!-- 08-constants-are-forgotten -->
- $s_z$, $s_{qk}$, $s_u$, $s_v$ make up for the limits of cosines. The size at which a scale is stored determines how fast it changes. <!-- 08-scale-bounds-certainty 08-storage-sets-the-speed -->
- At the one learning rate that we used, two of the three bugs change the loss by less than five seeds can detect. Lengths and cosines reveal all three. <!-- 08-loss-hides-the-outer-norm -->

## To carry away

- **Equation.** $h \leftarrow \mathrm{norm}\big(h + \lvert\alpha\rvert \odot (\mathrm{norm}(f(h)) - h)\big)$. After each training step, the rows of reading matrices and the columns of writing matrices get length 1.
- **Scales.** Multiply the output's cosines by $s_z$, queries and keys by $s_{qk}$ and their products by $\sqrt{d_k}$, $u$ by $s_u$, and $v$ by $s_v\sqrt d$.
- **Use.** nGPT trains without warm-up or weight decay. Compare it with a GPT that has QK-Norm.
- **Cost.** A training step takes longer than a GPT's, and the best initial share $\alpha$ may depend on the depth.

| you see | cause | try |
| --- | --- | --- |
| the loss has a floor far above 0 | $s_z$ is too small for certainty | a larger initial $s_z$ |
| the loss falls slowly at first | $s_z$ starts low, so the model cannot be sure yet | plot $s_z$ against steps |
| a shallow model's stream stays near the token's embedding | an initial share of 0.05 with few sublayers | look at the cosine of a block's input and output |
| scales change too fast or hardly at all | the size at which they are stored | store at $1/\sqrt d$, multiply by a constant in the forward pass |
| the loss is normal, but some lengths are not 1 | matrices normalized along the wrong axis, or only at the start | readers along axis 1, writers along axis 0, after every step; `labkit.probes.weights.lengths` shows the lengths |
| a method is far better than its baseline | the baseline has rounded weights, an overwritten stream, or a learning rate that was not tuned | read the baseline's code |

## References

Works cited: [Kosson et al. (2024)](https://arxiv.org/abs/2305.17212), [Franke et al. (2025)](https://arxiv.org/abs/2505.22014), [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), [Shigida et al. (2026)](https://arxiv.org/abs/2604.27077). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
