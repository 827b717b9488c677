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

**Question.** Every recipe so far put a norm somewhere and let the rest grow as it likes. [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131) ask: what if *nothing* may grow? In their nGPT the stream has length 1 after every sublayer, the rows or the columns of every matrix
have length 1 after every step of the optimizer, and there is no norm layer left, no weight decay and no warm-up. They report that it reaches a GPT's loss in 4 to 20 times fewer steps, the more the longer the context.
A constraint takes freedom away. How can a model learn *faster* with less freedom, and how much of the gain is left when the baseline is tuned with the same care?
"""

# %% tags=["parameters"]
size = "book"
seed = 0

# %% [markdown]
r"""
**What you will see**

- a step of nGPT as a walk on a ball: chord, way back, great circle, and what changes when each channel has its own step;
- which axis of which matrix has length 1, and why it is not the same axis for all;
- every scale that gives the lost freedom back, how it is stored, and what the storing has to do with Adam;
- two starting values that the paper chose for 24 layers and that serve two blocks badly, and do so as a pair;
- nGPT against a GPT with its own sweep: by steps and by seconds; and against a stronger one, eight times as long;
- what it learns: shares by depth, condition numbers, lengths;
- six mistakes in nGPT, how many of them the final loss notices, and where the others can be seen.
"""

# %%
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from labkit import TrainConfig, check, plots  # pip install the book's folder
from labkit.corpora import Text
from labkit.experiments import (
    Experiment,
    Lab,
    Run,
    claim,
    ladder,
    minus,
    published,
    steps_to,
)
from labkit.model import Departure
from labkit.source import show

lab = Lab(
    "08_ngpt",
    size=size,
    seed=seed,
    memory={"kernel": "800M", "run": "850M"},
)

# %%
sizes = lab.sizes(
    # smoke, book, gpu
    dim=(16, 64, 128),
    depth=(2, 2, 6),
    deep=(3, 6, 24),
    steps=(8, 400, 4000),
    warmup=(1, 30, 300),
    short_warmup=(1, 15, 300),
    held_out=(512, 16_384, 65_536),
    rates=(
        [8e-3],
        [4e-3, 8e-3, 1.6e-2],
        [1e-3, 2e-3, 4e-3, 6e-3, 8e-3, 1.2e-2, 1.6e-2],
    ),
    tuning_seeds=(1, 2, 3),
    few=(2, 3, 5),
    seeds=(5, 5, 10),
)

# %% [markdown]
r"""
## The idea: a step on the sphere

Take two channels, a stream $h = (1, 0)$ and a sublayer whose output, divided by its length, is $b = (0, 1)$. nGPT goes the *share* $\alpha$ of the way from $h$ to $b$ and divides by the length again:

$$h \leftarrow \mathrm{norm}\big(h + \alpha\,(b - h)\big), \qquad \mathrm{norm}(x) = x/\|x\|.$$

With $\alpha = \tfrac14$ the sum is $(\tfrac34, \tfrac14)$, its length $\sqrt{10}/4$, the new stream $(3, 1)/\sqrt{10}$. There are no units left in which a sublayer could shout: $b$ has length 1 whatever the sublayer computes. Only the share says how
much it counts.

Straight interpolation is called *lerp*. The sphere has a shorter way, along the great circle, *slerp*: turn by $\alpha\theta$, where $\theta$ is the angle between $h$ and $b$. Move the share:
"""

# %%
from labkit.placements.sphere import unit

h = unit(torch.tensor([0.9, -0.5, 0.15]).double())
b = unit(torch.tensor([-0.3, 0.9, 0.75]).double())
theta = torch.arccos(h @ b)


def slerp(alpha):
    """Turn h towards b by the share alpha of their angle."""
    return ((1 - alpha) * theta).sin() / theta.sin() * h + (alpha * theta).sin() / theta.sin() * b


def ways(alpha, steps=7):
    """Give the ways from h, at equal parts of the share alpha."""
    parts = [alpha * i / (steps - 1) for i in range(steps)]
    own = torch.tensor([1.1, 0.3, 1.0]).double()
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
        caption="Ways from h towards b.",
        title=f"share {alpha}",
    ),
    [0.25, 0.5, 0.9],
    "share-of-the-way",
    label="share α",
    caption="Four ways from the stream h towards the sublayer's b. The chord runs through the ball; "
    "brought back to the sphere it is on slerp's great circle, only at another speed. With a share for each channel "
    "the way leaves the great circle.",
)

# %% [markdown]
r"""
## Derivation

### How far does a step turn?

Write $b = \cos\theta\,h + \sin\theta\,e$ with a unit vector $e \perp h$. Then $h + \alpha(b - h) = (1 - \alpha + \alpha\cos\theta)\,h + \alpha\sin\theta\,e$, so lerp turns $h$ by the angle

$$\varphi = \operatorname{atan2}\big(\alpha\sin\theta,\; 1 - \alpha + \alpha\cos\theta\big) = \alpha\sin\theta + O(\alpha^2), \qquad\text{slerp by } \alpha\theta.$$

For a small share the ratio is $\sin\theta/\theta$: 1 for close directions, $2/\pi$ at a right angle, 0 at opposite ones. Slerp obeys a sublayer that says "turn round"; lerp hardly does. Random directions in $d$ channels are nearly orthogonal
(their cosine is about $1/\sqrt d$), so if what an untrained sublayer proposes is as good as random, the first steps are those of a right angle.
"""

# %%
angles = torch.linspace(0.02, 3.1, 30).double()


def turned(alpha, theta):
    """Angle by which lerp and the norm turn the stream."""
    return torch.atan2(alpha * theta.sin(), 1 - alpha + alpha * theta.cos())


lines = {
    f"share {alpha}": dict(
        zip(angles.tolist(), (turned(alpha, angles) / (alpha * angles)).tolist(), strict=True)
    )
    for alpha in (0.05, 0.25, 0.5, 0.75)
}
plots.curves(
    lines,
    xlabel="angle between stream and branch (radians)",
    ylabel="angle turned, lerp over slerp",
    caption="Across, the angle θ between stream and branch; upwards, by how much lerp with its norm turns the "
    "stream, divided by slerp's αθ: at 1 both go equally far. Up to about one radian they agree within a fifth. "
    "Beyond a right angle a small share turns less than slerp, a large one more; at one half the two are equal.",
)

# %%
unlike = unit(torch.randn(20_000, 64, generator=torch.Generator().manual_seed(seed)).double())
cosine = (unlike[::2] * unlike[1::2]).sum(-1)
seen = turned(1e-4, torch.arccos(cosine)) / (1e-4 * torch.arccos(cosine))
claim(
    "08-lerp-turns-by-the-sine",
    "For a share of 0.0001, lerp over slerp is sin θ / θ, up to {mean:.0e}.",
    (seen - torch.arccos(cosine).sin() / torch.arccos(cosine)).abs().max().item(),
    said="For small shares lerp turns by sin θ where slerp turns by θ.",
    source="this chapter's derivation; Loshchilov et al. 2025, arXiv 2410.01131, section 2.2",
    published="lerp is an approximation of slerp",
    criterion="< 1e-3",
    kind="exact",
    tolerance=1e-4,
)

# %% [markdown]
r"""
### A step of what?

Read the step as $h \leftarrow \mathrm{norm}\big(h - \alpha\odot(h - b)\big)$. The difference $h - b$ is the gradient of $\tfrac12\|h - b\|^2$ with respect to $h$, when $b$ is held fixed. (It is not fixed: the sublayer computes it from $h$. The picture is one of a moving goal.) So each sublayer proposes a point, the stream takes one step of gradient descent towards it, and the
norm puts it back on the sphere (a *retraction*, in the words of optimization on manifolds). Two sublayers a block: a model of $L$ blocks takes $2L$ steps. The share is a learning rate, and as nGPT learns one for every channel, $\alpha$ is the diagonal of a matrix: the paper calls its
entries *eigen learning rates*. (What counts is $|\alpha|$: a learned entry may turn negative, a share may not.) The first value is 0.05, which the paper describes as being in the order of one over the number of layers ([Loshchilov et al., 2025](https://arxiv.org/abs/2410.01131)). Remember this remark.

### Which axis has length 1?

The stream's axis: the one of length $d$ along which a vector of the matrix can be compared with $h$. A matrix that *reads* the stream ($W_q, W_k, W_v$, the feed-forward's `up` and `gate`, the output head) has such vectors as rows: entry $i$ of $Wh$ is the product of row $i$ and $h$, both of
length 1, thus a **cosine**. A matrix that *writes* (`out` and `down`) has them as columns: $Wz = \sum_i z_i w_i$ adds unit vectors of the stream's space. An embedding's row is itself a vector of the stream. PyTorch stores (outputs, inputs), so readers are divided along axis 1 and writers along axis 0.
"""

# %%
from labkit.placements.sphere import normalize_weights

show(normalize_weights)

# %%
small = Departure(recipe="ngpt", dim=16, depth=2, heads=2, context=32)
torch.manual_seed(seed)
model = small.build().double()
rows = []
for path, module in model.named_modules():
    name = path.split(".")[-1]
    if hasattr(module, "weight") and module.weight.ndim == 2 and ".1." not in path:
        axis = 0 if name in ("out", "down") else 1
        length = module.weight.norm(dim=axis)
        rows.append(
            {"matrix": name, "shape": str(tuple(module.weight.shape)), "axis of length 1": axis,
             "vectors": len(length), "largest error of a length": (length - 1).abs().max().item(),
             "along the other axis": f"{module.weight.norm(dim=1 - axis).mean():.2f}"}
        )  # fmt: skip
plots.table(rows)

# %% [markdown]
r"""
What this takes away from each of these vectors is its scale and nothing else. So a constant in front of a matrix is forgotten at the next normalization, and weight decay, which multiplies by such a constant, $1 - \eta\lambda$, has nothing left to shrink. (Beside a step $\eta u$ of the optimizer it does not vanish altogether: $(1 - \eta\lambda)\,w - \eta u$ has the direction of $w - \eta u/(1 - \eta\lambda)$, a step that is longer by a hair.) nGPT has none because it *needs* none.
"""

# %%
from labkit.training import make_optimizer

tokens = torch.randint(96, (4, 32), generator=torch.Generator().manual_seed(seed))
normalize_weights(model)  # once more, in double precision
before = model(tokens)
with torch.no_grad():
    for i, weight in enumerate(p for p in model.parameters() if p.ndim == 2):
        weight.mul_(0.9 ** (i + 1))
scaled = model(tokens)
normalize_weights(model)
decay = make_optimizer(model, TrainConfig(weight_decay=0.1)).param_groups[0]["weight_decay"]
print(f"scaled: logits move by {(scaled - before).abs().max():.2f}; decay used: {decay}")

# %%
claim(
    "08-constants-are-forgotten",
    "A constant in front of every matrix and one normalization: logits differ by {mean:.0e} at most.",
    (model(tokens) - before).abs().max().item(),
    said="A constant in front of a matrix changes nothing in nGPT.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2.6 (no weight decay)",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
### What the sphere forbids, and the scales that allow it again

Cosines lie in $[-1, 1]$. That is too little in three places.

**Logits.** If the output were $W h$ alone, no case is better than a cosine of 1 for the right token and −1 for all others. (For that all other rows would have to be one vector: it is a bound.) Its loss is $\log\big(1 + (V-1)\,e^{-2}\big)$ for $V$ tokens. With a scale $s_z$ on the cosines it is $\log(1 + (V-1)\,e^{-2s_z})$: **the scale says how sure the model may be.**
nGPT learns one for each token of the vocabulary.
"""

# %%
floor = {s: float(np.log1p(95 * np.exp(-2 * s))) for s in (1.0, 2.0, 3.0, 5.0, 10.0)}
print({s: round(value, 5) for s, value in floor.items()}, "nats for 96 characters")

# %%
best_case = torch.full((1, 96), -1.0, dtype=torch.float64)
best_case[0, 7] = 1.0
attained = [F.cross_entropy(s * best_case, torch.tensor([7])).item() for s in floor]
claim(
    "08-scale-bounds-certainty",
    "The formula and the loss of the best cosines differ by {mean:.0e} at most; with s_z = 1 and 96 "
    "characters no loss is below {one:.2f} nats.",
    max(abs(a - b) for a, b in zip(attained, floor.values(), strict=True)),
    one=floor[1.0],
    said="A scale of one keeps the loss above a bound, however well the cosines are chosen.",
    source="this chapter; Loshchilov et al. 2025, arXiv 2410.01131, section 2.1",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
**Attention.** Queries and keys are divided by their lengths, for each head, after the rotation, and multiplied by one learned vector $s_{qk}$. With $d_k$ channels a head, the product of two unit vectors is about $1/\sqrt{d_k}$ by chance, where queries and keys with entries of variance 1 give about $\sqrt{d_k}$. So the softmax scale turns
round: logits are multiplied by $\sqrt{d_k}$ instead of divided by it. The **values are not normalized.** (Text 004 says in its list of changes that they are; it is the queries and keys.)

**Feed-forward.** Entries of $u = W_{up}h$ and $v = W_{gate}h$ are cosines, about $1/\sqrt d$. SiLU is nearly linear there. So $v$ is multiplied by $\sqrt d$, which gives it about unit variance at the start, and both get a learned scale, $s_u$ and $s_v$. The paper has $\sqrt d$ on $v$; the official code has it on $u$ as well. Does it matter?
The output $W_{down}(u\odot\mathrm{SiLU}(v))$ is linear in $u$ and divided by its length afterwards. A constant on $u$ cannot matter:
"""

# %%
scales = [block.feed_forward.sublayer.s_uv for block in model.blocks]
with_root = model(tokens)
with torch.no_grad():
    for s_uv in scales:
        s_uv.weight[: len(s_uv.weight) // 2] /= 16**0.5
claim(
    "08-root-on-u-changes-nothing",
    "Without √d on u the logits differ by {mean:.0e} at most.",
    (model(tokens) - with_root).abs().max().item(),
    said="The factor √d on u changes no logit.",
    source="github.com/NVIDIA/ngpt, model.py, against arXiv 2410.01131, section 2.4",
    criterion="< 1e-10",
    kind="exact",
    tolerance=1e-10,
)

# %% [markdown]
r"""
### How a scale is stored

Adam moves every stored number by about the learning rate $\eta$ per step, however large the number is. For $\alpha = 0.05$ a step of $\eta = 0.001$ is 2 %; for $s_z = 1$ it is 0.1 %. The entries of a unit vector are about $1/\sqrt d$. To give all of them the same relative speed, nGPT stores a scale at size $1/\sqrt d$ and
multiplies it in the forward pass:

$$\text{value} = \text{stored}\cdot\frac{\text{initial}}{\text{stored size}}, \qquad \text{Adam's first step on the value: } \eta\cdot\frac{\text{initial}}{\text{stored size}}.$$
"""

# %%
from labkit.placements.sphere import Scale

show(Scale)

# %%
d, rate = 64, 1e-3
model = replace(small, dim=d, depth=1, heads=4).build().double()
found = {p.split(".")[-1]: m for p, m in model.named_modules() if isinstance(m, Scale)}
start = {name: (scale.weight[0].item(), scale().detach()) for name, scale in found.items()}
optimizer = make_optimizer(model, TrainConfig(lr=rate))
optimizer.param_groups[0]["lr"] = rate
F.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
optimizer.step()

# %%
# The paper's first value and the size at which it is stored.
as_printed = {"alpha": (0.05, d**-0.5), "s_qk": (1, d**-0.5), "s_uv": (1, 1), "s_z": (1, d**-0.5)}
rows = [
    {"scale": name.replace("alpha", "α"), "numbers": len(start[name][1]),
     "first value": start[name][1][0].item(), "stored at": start[name][0],
     "a step of Adam on the value": (found[name]() - start[name][1]).abs().median().item(),
     "predicted": rate * first / stored}
    for name, (first, stored) in as_printed.items()
]  # fmt: skip
plots.table(rows)

# %%
claim(
    "08-storage-sets-the-speed",
    "Adam's first step moves each kind of scale by η · initial / stored: off by {mean:.1e} of it at most.",
    max(abs(row["a step of Adam on the value"] / row["predicted"] - 1) for row in rows),
    said="How a scale is stored sets the speed at which it learns.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2.5",
    criterion="< 0.01",
    kind="exact",
    tolerance=0.005,
)

# %% [markdown]
r"""
Relative to its first value each scale but $s_u, s_v$ moves by about $\eta\sqrt d$ a step. It follows how far $s_z$ comes if all steps have one sign: with 400 steps, a mean rate of half of $0.008$ and $d = 64$, by about $400\cdot0.004\cdot8 = 12.8$. A short run that needs $s_z = 10$ spends a large part of itself on getting there.

## Implementation

How to turn a GPT into an nGPT:

1. Remove every norm layer, the final one too, and turn weight decay and warm-up off.
2. Divide every matrix along the stream's axis, at the start and after every step of the optimizer.
3. Replace $x + f(\mathrm{N}(x))$ by the step on the sphere, with a learned share for each channel.
4. Divide queries and keys by their lengths, multiply both by $s_{qk}$, turn the softmax scale round.
5. Multiply $u$ and $v$ by $s_u$ and $s_v\sqrt d$, and the logits by $s_z$.

There is no $\epsilon$ anywhere: nothing that is divided by its length here is expected to come near 0. (Except for padding: `labkit` lets 0 stay 0.) The step, the attention and the feed-forward:
"""

# %%
from labkit.placements import SphereStep
from labkit.placements.sphere import SphereAttention, SphereFeedForward

show(SphereStep)

# %%
show(SphereAttention)

# %%
show(SphereFeedForward)

# %% [markdown]
r"""
Three checks that it is the published method: the step against the formula in float64, written anew; the checker, which looks at gradients and precision as well; and every length after real training, below.
"""

# %%
from labkit.placements import Place

torch.manual_seed(seed)
branch = torch.nn.Linear(16, 16).double()
step = SphereStep(None, branch, Place(dim=16)).double()
with torch.no_grad():
    step.alpha.weight.copy_(0.3 * torch.randn(16))  # of either sign: |α| counts
stream = unit(torch.randn(500, 16).double())
share = (step.alpha.weight * 0.05 * 16**0.5).abs()
goal = branch(stream) / branch(stream).norm(dim=-1, keepdim=True)
wanted = stream * (1 - share) + goal * share
error = (step(stream) - wanted / wanted.norm(dim=-1, keepdim=True)).abs().max().item()
print(f"step against formula: {error:.0e};", check.block(SphereStep, "ngpt", small).summary)

# %%
claim(
    "08-step-is-the-formula",
    "labkit's step and the formula, in double precision, differ by {mean:.0e} at most.",
    error,
    said="labkit's step is the published formula.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, equations for h_A and h_M",
    criterion="< 1e-12",
    kind="exact",
    tolerance=1e-12,
)

# %% [markdown]
r"""
One property of the design is easily missed. The gain $s_{qk}$ comes *after* the rotation. Once it is learned, it weighs the two channels of a rotated pair differently, and then the logit of a query and a key depends on **where** both stand, not on their distance alone:
"""

# %%
from labkit.context import Context


def moved_logits(differs):
    """Largest change of a logit when all positions move on by ten; random s_qk."""
    torch.manual_seed(seed)
    layer = replace(small, differs=differs).build().double().blocks[0].attention.sublayer
    with torch.no_grad():
        layer.s_qk.weight.mul_(1 + 0.5 * torch.randn(16))
    x, angles = unit(torch.randn(1, 8, 16).double()), model_angles.double()
    both = [layer.project(x, Context(angles[at : at + 8]))[:2] for at in (0, 10)]
    first, second = (q @ k.transpose(-1, -2) / 8**0.5 for q, k in both)
    return (first - second).abs().max().item()


model_angles = small.build().angles
late, early = moved_logits(None), moved_logits("early gain")
print(f"gain after the rotation: {late:.3f}; before it: {early:.0e}")

# %%
claim(
    "08-late-gain-sees-positions",
    "All positions moved on by ten: with s_qk after the rotation a logit changes by {mean:.2f}, with s_qk "
    "before it by {early:.0e}.",
    late,
    early=early,
    said="A gain after the rotation makes a logit depend on absolute positions.",
    source="github.com/NVIDIA/ngpt, model.py: rotation, norm, gain",
    criterion="> 0.01",
    kind="exact",
)

# %% [markdown]
r"""
## Predict

Write your answers down before you scroll.

1. The paper starts its shares at 0.05, for 24 layers. Our models have two blocks, so four steps from the embedding to the output. Is that enough? Which first value would you take?
2. nGPT and a GPT, both tuned, the same steps: by how many nats is nGPT ahead? How many steps does it save? And seconds, if a step costs more?
3. Will the lead grow with the context?
4. Put $\alpha$ on the wrong branch, so that the stream is nearly *replaced* by each sublayer. Leave the outer norm out. Divide `out` and `down` along the wrong axis. Which of these does the final loss notice?

## Measure

**The setting.** Characters of English text, 16 windows of 32, width 64, two blocks, four heads, SwiGLU, 400 steps of Adam with $(\beta_1, \beta_2) = (0.9, 0.98)$ and a cosine down to 5 %. The baseline is Pre-Norm with RMSNorm ("GPT"). Pilots with one seed chose the size: at width 32 or with 300 steps of a model of width 48, nGPT was *behind*. So
"nGPT ends lower" is a statement about this size, which we chose because the effect can be seen in it. The pilots also chose nGPT's second pair of starting values, out of five, which is a little more care than the GPT's two versions got. Criteria were written after the pilots and before the runs below, with exceptions, claims that a first build suggested: that the lead grows with the steps, that shares leave their start, that the second block goes further, that the two starting values need each other, and that $s_z$ makes up for a short stream. These describe; they do not predict. (The grid of the published starts, and the models that take the two starting values apart, came later, because readers asked. The latter had been tried at the higher rate alone, where neither value by itself gained much; then they got the lower one, too, with the same criteria.)

### The same care for both

Each side has two versions, each version three rates, two seeds, and is chosen on validation data:

- **GPT** plain, and with what the paper gives it: weight decay 0.1 and warm-up (30 steps here; the decay acts on gains, too);
- **nGPT** as published, and with starting values for this size: shares of $\tfrac14$ (one over the four steps from embedding to output, not one over 24 layers) and $s_z = 10$, a scale it could not reach soon.

nGPT as published wants a higher rate than the others: among their three it took the highest. So its three are twice as high, and each version's best can lie inside its grid.
"""

# %%
base = Run(
    model=Departure(dim=sizes.dim, depth=sizes.depth, context=32),
    data=Text(batch=16, time=32, held_out=sizes.held_out),
    train=TrainConfig(steps=sizes.steps),
    probes=("validation", "test", "weights", "sphere-scales", "layer-cosine", "residual-rms"),
)
recipe = {"train.weight_decay": 0.1, "train.warmup": sizes.warmup}
sphere = {"model.recipe": "ngpt"}
own = {**sphere, "model.share": 0.25, "model.s_z": 10.0}
arms = {"pre": {}, "pre, decay and warm-up": recipe, "ngpt, as published": sphere}
arms |= {"ngpt, own starts": own}

# %%
rates = sizes.rates
grids = {arm: rates for arm in arms} | {"ngpt, as published": [2 * rate for rate in rates]}
two, three, five = map(lab.seeds, (sizes.tuning_seeds, sizes.few, sizes.seeds))
sweep = {
    arm: lab.run(Experiment(base, {"arm": {arm: arms[arm]}, "train.lr": grid, "seed": two}))
    for arm, grid in grids.items()
}
best = {arm: part.best("lr") for arm, part in sweep.items()}
tuned = {arm: {**changes, "train.lr": best[arm]} for arm, changes in arms.items()}
final = lab.run(Experiment(base, {"arm": tuned, "seed": five}))
print("chosen rates:", best)

# %%
plots.curves(
    {
        arm: {lr: cell.values("validation.loss") for lr, cell in part.by("lr").items()}
        for arm, part in sweep.items()
    },
    xlabel="peak learning rate",
    ylabel="validation loss (nats)",
    logx=True,
    caption="The sweep of both sides. A baseline at its wrong rate, or nGPT with starting values of another "
    "depth, would have decided the race.",
    provenance=lab.provenance(*sweep.values()),
)

# %%
loss = {arm: part.values("test.loss") for arm, part in final.by("arm").items()}
valid = {arm: np.mean(part.values("validation.loss")) for arm, part in final.by("arm").items()}
gpt, ngpt = (
    min((a for a in arms if a.startswith(side)), key=valid.get) for side in ("pre", "ngpt")
)
plots.dots(
    loss,
    xlabel="test loss (nats)",
    caption=f"Each arm at its own best rate. Taken on from here: {gpt}, and {ngpt}.",
    provenance=lab.provenance(final),
)

# %%
claim(
    "08-ngpt-ends-lower",
    "After the same number of steps, each side tuned, the GPT ends {mean:+.3f} nats above nGPT.",
    minus(loss[gpt], loss[ngpt]),
    said="After the same number of steps, each side tuned, nGPT ends below the GPT.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, Figures 1 and 2",
    published="4 to 20 times fewer steps for the same loss",
    criterion="> 0",
    kind="best",
    domain="24 layers and more, 1k to 8k tokens, 200k steps and more",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %%
claim(
    "08-starting-values-decide",
    "nGPT with the published starting values ends {mean:.3f} nats above nGPT with those for this size.",
    minus(loss["ngpt, as published"], loss["ngpt, own starts"]),
    said="The published first values cost nGPT at this size.",
    source="Loshchilov et al. 2025, arXiv 2410.01131: a first share of 0.05, in the order of one over 24 layers",
    criterion="> 0.02",
    kind="best",
)

# %%
claim(
    "08-published-starts-against-gpt",
    "With the published starting values, the GPT ends {mean:+.3f} nats above nGPT.",
    minus(loss[gpt], loss["ngpt, as published"]),
    said="With the published first values nGPT ends below the GPT.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, Figures 1 and 2 (24 layers and more)",
    published="nGPT ahead",
    criterion="> 0",
    kind="best",
    domain="24 layers and more, 1k to 8k tokens, 200k steps and more",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
Compare the three cards. What the first values 0.05 and 1 cost in a shallow, short run is several times as much as the lead. With them the GPT wins, and one could have written a paper about that. But two values were changed at once. Is it the share or $s_z$? Change one at a time. Each mixture may take the better of the two rates that the whole pairs chose:
"""

# %%
mixed = {"share alone": {**own, "model.s_z": 1.0}, "s_z alone": {**own, "model.share": 0.05}}
both = sorted({best["ngpt, as published"], best["ngpt, own starts"]})
trial = lab.run(Experiment(base, {"arm": mixed, "train.lr": both, "seed": two})).by("arm")
best |= {arm: part.best("lr") for arm, part in trial.items()}
mixed = {arm: {**changes, "train.lr": best[arm]} for arm, changes in mixed.items()}
apart = lab.run(Experiment(base, {"arm": mixed, "seed": three})).by("arm")

# %%
same = {arm: values[: len(three)] for arm, values in loss.items()}
same |= {arm: part.values("test.loss") for arm, part in apart.items()}
starts = {
    "ngpt, as published": ("0.05", 1), "share alone": ("0.25", 1), "s_z alone": ("0.05", 10),
    "ngpt, own starts": ("0.25", 10),
}  # fmt: skip
plots.table(
    [
        {"arm": arm, "first share": share, "first s_z": s_z, "rate": best[arm],
         "test loss, three seeds": float(np.mean(same[arm]))}
        for arm, (share, s_z) in starts.items()
    ],
    digits=4,
)  # fmt: skip

# %%
for arm, what in (("share alone", "A first share of 1/4"), ("s_z alone", "A first s_z of 10")):
    claim(
        f"08-{arm.replace('_', '-').replace(' ', '-')}",
        f"{what} alone brings nGPT {{mean:.3f}} nats below nGPT as published.",
        minus(same["ngpt, as published"], same[arm]),
        said=f"{what} helps nGPT even alone.",
        source="this book",
        criterion="> 0.02",
        kind="at",
    )

# %%
surplus = [
    share + s_z - usual - pair
    for share, s_z, usual, pair in zip(
        *(same[arm] for arm in ("share alone", "s_z alone", "ngpt, as published", "ngpt, own starts")), strict=True
    )
]  # fmt: skip
claim(
    "08-starting-values-need-each-other",
    "Both values together gain {mean:.3f} nats more than the sum of what each gains alone.",
    surplus,
    said="The two first values help more together than each alone.",
    source="a first build of this table",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
The lead hinges on the pair, not on one of its halves: together they gain more than the sum of what each gains alone, and for either half three seeds give no verdict. We read it so, without a proof: while the shares are small, a high $s_z$ makes the model sure of what its embedding says anyway, and while $s_z$ is low, a stream that has turned to the right token cannot say so. Whoever tries one value at a time may leave both as they were.

Nor need either be wrong in the paper's setting: with 24 layers there are 48 steps of 0.05, and many thousands of steps of Adam have time to bring $s_z$ wherever it should be. They
are hyper-parameters, and whoever compares at another depth must tune them, as the other side must tune its decay. Did the baseline need its recipe, decay and warm-up?
"""

# %%
claim(
    "08-baseline-recipe",
    "Without weight decay and warm-up the GPT, at its own best rate, ends {mean:+.3f} nats above the one with both.",
    minus(loss["pre"], loss["pre, decay and warm-up"]),
    said="Weight decay and warm-up help the GPT.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, and its code: decay 0.1, 2,000 warm-up steps",
    criterion="> 0",
    kind="best",
)

# %% [markdown]
r"""
### By steps, by seconds

"Four times fewer steps" compares the step at which nGPT passes the GPT's final loss. On a falling learning rate one must not read that off a single curve: a loss in mid-schedule is not what a run of that length would end with. So we train both sides for a quarter and half of the steps too, each with its own complete schedule.
"""

# %%
pair = {"pre": tuned[gpt], "ngpt": tuned[ngpt]}
whole = base.train.steps


def lasting(steps, **more):
    """Both sides with another number of steps; warm-up keeps its share."""
    short = {"train.steps": steps, **more}
    return {
        side: {**set_, **short, "train.warmup": set_.get("train.warmup", 0) * steps // whole}
        for side, set_ in pair.items()
    }


half = whole // 2
by_steps = {
    steps: lab.run(Experiment(base, {"arm": lasting(steps), "seed": three})).by("arm")
    for steps in (whole // 4, half, whole)
}
ends = {
    side: {steps: part[side].values("test.loss") for steps, part in by_steps.items()}
    for side in pair
}

# %% [markdown]
r"""
And seconds? Time on a shared machine says little, a ratio of neighbours more: the probe `pace` lets both recipes train in turns of five steps, in one process, and divides their processor times.
"""

# %%
timing = replace(base, train=TrainConfig(steps=1), probes=("pace",))
paces = lab.run(Experiment(timing, {"arm": {"ngpt": sphere}, "seed": three}))
pace = [float(np.median(ratios)) for ratios in paces.values("pace.ratios")]
claim(
    "08-a-step-costs-more",
    "A step of nGPT takes {mean:.2f} times as long as a step of the GPT.",
    pace,
    said="A step of nGPT takes longer than a step of the GPT.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 3",
    published="1.8 times at a context of 4,096, 1.6 times at 8,192",
    criterion="> 1",
    kind="at",
    tolerance=0.25,
)

# %%
cost = {"pre": 1.0, "ngpt": float(np.mean(pace))}
units = {
    "steps": lambda side, steps: steps,
    "seconds (1: a step of the GPT)": lambda side, steps: round(steps * cost[side]),
}
plots.explore(
    lambda unit_: plots.curves(
        {
            side: {units[unit_](side, steps): values for steps, values in points.items()}
            for side, points in ends.items()
        },
        xlabel=unit_,
        ylabel="test loss at the end (nats)",
        logx=True,
        caption="Complete runs of three lengths.",
        provenance=lab.provenance(*by_steps[whole].values()),
    ),
    list(units),
    "loss-against",
    label="what is spent",
    caption="Complete runs of three lengths, against what they spent: by time nGPT's line moves to the right.",
)


# %%
def factor(target, losses):
    """How many times fewer steps bring nGPT's line to this loss; below 1: it would need more."""
    return whole / steps_to(target, list(by_steps), losses)


lines_of_seeds = zip(*ends["ngpt"].values(), strict=True)
fewer = [factor(end, run) for end, run in zip(ends["pre"][whole], lines_of_seeds, strict=True)]
table = published("loshchilov2025")
plots.table(
    [{"context": int(r["context"]), "times fewer steps": r["step_factor"], "a step takes": r["step_time"] or "…"}
     for r in table]
    + [{"context": "32 (here)", "times fewer steps": float(np.mean(fewer)), "a step takes": cost["ngpt"]}]
)  # fmt: skip

# %%
claim(
    "08-fewer-steps",
    "nGPT ends at the GPT's loss after {mean:.2f} times fewer steps.",
    fewer,
    said="nGPT reaches the GPT's loss in fewer steps.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, Figure 2 (0.5B, context 1,024)",
    published="4 times",
    criterion="> 1",
    kind="at",
    domain="24 layers and more, 1k to 8k tokens, 200k steps and more",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %%
lead = {n: minus(*(ends[side][n] for side in ("pre", "ngpt"))) for n in by_steps}
claim(
    "08-lead-grows-with-steps",
    f"From {whole // 4} to {whole} steps nGPT's lead changes by {{mean:+.3f}} nats; at {whole // 4} it is {{early:+.3f}}.",
    minus(lead[whole], lead[whole // 4]),
    early=float(np.mean(lead[whole // 4])),
    said="nGPT's lead grows with the number of steps.",
    source="this book",
    criterion="> 0",
    kind="at",
)

# %%
claim(
    "08-time-gained",
    "In time, nGPT reaches the GPT's loss {mean:.2f} times as fast.",
    [a / b for a, b in zip(fewer, pace, strict=True)],
    said="nGPT reaches the GPT's loss in less time.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 3",
    published="ahead in time too, at contexts of 4,096 and 8,192",
    criterion="> 1",
    kind="at",
    derived_from=("08-fewer-steps", "08-a-step-costs-more"),
    domain="24 layers and more, 1k to 8k tokens, 200k steps and more",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
The picture is a crossing, not a gap: in our runs nGPT is *behind* after a quarter of the steps and after half of them, and ahead at the end. So "how many times fewer steps" has no single answer. The lead grows with the length of the run, and at our length the factor cannot be told from one; divided by what a step costs, nothing is gained in time.
We did not find out why the start is slow. Two candidates are in this chapter: the scales and shares have a way to go, and a vector of length 1 can only turn, while a GPT's matrix can also grow. The published factors come from runs of tens of thousands of steps ([Loshchilov et al., 2025](https://arxiv.org/abs/2410.01131)). A line that we end where it has just crossed does not contradict them, nor does it support them.

A step's extra cost is hardly arithmetic: chapter 10 counts the operations of a step, and nGPT's are within a few per cent of Pre-Norm's. We take it to be the many small operations (lengths, divisions, a pass over all weights after every step), which move much and compute little; no cell here takes them apart. Our ratio says nothing about a GPU: the paper's steps, in much larger models, cost relatively more than ours. Fused kernels should
take some of it away (`labkit.fused` has the step and the rows as kernels; on a CPU they are the formulas).

### A longer race, and a stronger opponent

Is that race fair? nGPT has norms on queries and keys, and the GPT has none; [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131) give their baseline none either. And in the GPT that was released beside it, the norm's output at first took the place of the stream, $x \leftarrow N(x) + f(N(x))$, so that every skip carried a normalized copy ([issue 1](https://github.com/NVIDIA/ngpt/issues/1) of the official repository; it was mended). So the *ladder* that this book's chapters share has both: Pre-Norm with QK-Norm, and the overwritten stream. It has six blocks of width 32 and 3,200 steps, 20 characters a parameter; each arm takes the best of seven rates, chosen with one seed that never reports, and five others report. nGPT has no warm-up there, as published, and first values for six blocks: a share of 1/12 and $s_z = 10$.

Before you look: does nGPT pass Pre-Norm? Does it pass the one with QK-Norm? And what do the published first values cost, now that there are three times as many blocks and eight times as many steps?
"""

# %%
climbed = lab.ladder(["pre", "qk", "overwritten", "ngpt", "ngpt, published starts", "no attention"])
plots.table(ladder.table(climbed), digits=4)

# %%
racers = ("qk", "pre", "overwritten", "ngpt", "ngpt, published starts")
largest = ladder.shared_rung(climbed, racers)
last = {arm: ladder.reported(climbed, arm)[largest] for arm in racers}
plots.dots(
    {arm: list(of_seed.values()) for arm, of_seed in last.items()},
    xlabel="test loss (nats)",
    caption=f"Five seeds of each arm at its own rate, on rung {largest}. Trigram counts end far to the right.",
    provenance=lab.provenance(climbed.where(stage="final")),
)

# %%
for over, name, words, side, criterion, source in (
    ("pre", "08-ladder-against-gpt", "Pre-Norm", "above", "< 0",
     "this book's pilot: behind by 0.05 nats"),
    ("qk", "08-ladder-against-qk-norm", "QK-Norm", "above", "< 0",
     "this book's pilot: behind by 0.06 nats"),
    ("overwritten", "08-ladder-against-overwritten", "the overwritten stream", "below", "> 0",
     "github.com/NVIDIA/ngpt, issue 1: the baseline that was released first"),
):  # fmt: skip
    claim(
        name,
        f"On rung {{rung}}, each at its own rate, nGPT ends {{mean:+.4f}} nats below {words} (a minus: above).",
        ladder.lead(climbed, "ngpt", over),
        said=f"With each at its own rate, nGPT ends {side} {words}.",
        source=source,
        criterion=criterion,
        kind="best",
        lacking=ladder.lacking(climbed, "ngpt", over),
    )

# %%
claim(
    "08-ladder-starting-values",
    "On rung {rung} nGPT with the published first values ends {mean:+.4f} nats above nGPT with those for six blocks.",
    ladder.lead(climbed, "ngpt", "ngpt, published starts"),
    said="The published first values cost nGPT at six blocks.",
    source="this chapter's race of two blocks: far above",
    criterion="> 0",
    kind="best",
    lacking=ladder.lacking(climbed, "ngpt", "ngpt, published starts"),
)

# %% [markdown]
r"""
In our run nGPT ends above both GPTs at this size, though it falls faster at first, and above the stronger one by more. With the published first values it ends higher still, though by far less than in the short race. Nor does the overwritten stream explain a lead: at a rate of its own that mistake costs nothing that five seeds show. What it costs stands in the column *lost*: how far the validation loss lies above the best on average over two decades of rates, where it loses several times what Pre-Norm does.

None of this speaks about the paper's claim, whose models have 24 layers and up, contexts a hundred times as long and hundreds of thousands of steps. What it says: at a size where you would try a recipe first, look at the strongest opponent, and do not read a race off its first lap.

### No warm-up needed?

Post-Norm wanted warm-up: without it the first steps at a high rate left it stuck (chapter 02). On the sphere a large first step can turn a weight, but the next moment its length is 1 again. Is that enough? Half of the steps, with a ramp over the first of them and without:
"""

# %%
ramp = {"train.warmup": sizes.short_warmup}
ramped = lab.run(Experiment(base, {"arm": {"ngpt": lasting(half)["ngpt"] | ramp}, "seed": three}))
claim(
    "08-no-warm-up-needed",
    "Without warm-up nGPT ends {mean:+.3f} nats above nGPT with it.",
    minus(ends["ngpt"][half], ramped.values("test.loss")),
    said="nGPT needs no warm-up.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2.6",
    published="no warm-up",
    criterion="< 0.005",
    kind="at",
    effect=0.02,  # nats: the lead of nGPT itself
)

# %% [markdown]
r"""
### What it learns: lengths, shares, conditioning

First, is it really on the sphere? The largest deviation of any length of any matrix, after training:
"""

# %%
trained = final.by("arm")
off = {side: trained[arm].values("weights.off") for side, arm in (("pre", gpt), ("ngpt", ngpt))}
claim(
    "08-lengths-stay-one",
    "After training no length in nGPT's matrices differs from 1 by more than {mean:.0e}; the GPT's by up to {pre:.1f}.",
    max(off["ngpt"]),
    pre=max(off["pre"]),
    said="After training every length in nGPT's matrices is one.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 2",
    criterion="< 1e-6",
    kind="exact",
    tolerance=1e-6,
)

# %%
embedded = {
    side: trained[arm].values("weights.embedding") for side, arm in (("pre", gpt), ("ngpt", ngpt))
}
embedded_lengths = {side: np.mean(runs, 0) for side, runs in embedded.items()}
plots.by_depth(
    embedded,
    ylabel="length of the token's embedding",
    alt=f"Lengths of the embeddings of {len(embedded_lengths['pre'])} tokens, shortest first: the GPT's rise from "
    f"{embedded_lengths['pre'][0]:.2f} to {embedded_lengths['pre'][-1]:.2f}, nGPT's go from {embedded_lengths['ngpt'][0]:.2f} to {embedded_lengths['ngpt'][-1]:.2f}.",
    xlabel="tokens, shortest first",
    start=1,
    caption="Lengths of the trained embeddings. The GPT's differ by a factor of two from token to "
    "token; in nGPT only directions are left.",
    provenance=lab.provenance(trained[gpt], trained[ngpt]),
)

# %%
claim(
    "08-gpt-lengths-scatter",
    "The lengths of the GPT's embeddings scatter by {mean:.2f} of their mean; those of its output rows by {output:.2f}.",
    trained[gpt].values("weights.spread.embedding"),
    output=float(np.mean(trained[gpt].values("weights.spread.output"))),
    said="The lengths of the GPT's embeddings differ.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 3.2 (norms of embeddings)",
    published="the GPT's norms vary, nGPT's are 1",
    criterion="> 0.1",
    kind="at",
)

# %% [markdown]
r"""
**The scales.** Where do they end, from the published first values and from ours? (Means over channels and seeds; block 1 and block 2.)
"""


# %%
def scale_of(arm, name):
    """Read a learned scale of the final runs: one value, or one a block, for each seed."""
    return np.array(trained[arm].values(f"sphere-scales.{name}"))


plots.table(
    [
        {"starts": arm.partition(", ")[2], "scale": name,
         "first value": first, "learned": ", ".join(f"{v:.2f}" for v in np.atleast_1d(scale_of(arm, key).mean(0)))}
        for arm, share, s_z in (("ngpt, as published", 0.05, 1.0), ("ngpt, own starts", 0.25, 10.0))
        for name, key, first in (
            ("share, attention", "attention", share), ("share, feed-forward", "feed_forward", share),
            ("s_qk", "s_qk", 1.0), ("s_z", "s_z", s_z),
        )
    ]
)  # fmt: skip

# %%
shares = [scale_of("ngpt, as published", name) for name in ("attention", "feed_forward")]
claim(
    "08-shares-leave-their-start",
    "From 0.05, the shares of a model of two blocks grow to {mean:.2f} on average.",
    np.mean([one.mean(1) for one in shares], 0).tolist(),
    said="The learned shares leave their first value.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 3 (learned eigen learning rates)",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "08-second-block-goes-further",
    "The feed-forward's share in the second block is {mean:+.2f} above that in the first.",
    (scale_of(ngpt, "feed_forward")[:, -1] - scale_of(ngpt, "feed_forward")[:, 0]).tolist(),
    said="The second block turns the stream further than the first.",
    source="Loshchilov et al. 2025, arXiv 2410.01131, section 3 (learned eigen learning rates by layer)",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
From both starts the scales rise into one region: shares of some tenths, $s_z$ of the order of ten, $s_{qk}$ above 1. The shares and $s_z$ from the published starts end lower, as if they were still on their way. That is the plainest reason for other first values: it is where training goes anyhow, and the way there takes steps.

**Shares by depth** want more than two blocks. Six, then, for half of the steps, with shares that start at one over the number of blocks.
"""

# %%
deep = {
    "model.depth": [sizes.deep],
    "model.share": [1 / 6],
    "probes": [("sphere-scales", "layer-cosine", "test")],
}
tall = lab.run(Experiment(base, {"arm": {"ngpt": lasting(half)["ngpt"]}, **deep, "seed": three}))
learned = {
    "attention": tall.values("sphere-scales.attention"),
    "feed-forward": tall.values("sphere-scales.feed_forward"),
}
plots.by_depth(
    learned,
    ylabel="share |α|, mean over channels",
    reference={"start": 1 / 6},
    caption="Learned shares of the way by block.",
    provenance=lab.provenance(tall),
)

# %%
claim(
    "08-shares-grow-with-depth",
    "From the first to the last block the feed-forward's share changes by {mean:+.2f}.",
    [run[-1] - run[0] for run in learned["feed-forward"]],
    said="The learned shares grow from the first block to the last.",
    source="this book",
    criterion="> 0",
    kind="at",
)

# %% [markdown]
r"""
With two blocks the feed-forward of the later one goes further; with six, after half of the steps, the shares are still near their start, the seeds scatter as much as the blocks, and the feed-forward's last share is no larger than its first. So "shares grow with depth" is not what we can say, and nothing in the equations demands it.

**Condition numbers**, the largest over the smallest singular value of a matrix. The paper finds the GPT's matrices worse conditioned than nGPT's, above all in attention, and reads it as a sign that they have fewer useful directions than columns. The median over blocks, as a power of ten:
"""


# %%
def conditions(arm, kinds):
    """Median over blocks and kinds of log10 of the condition number, one value a seed."""
    found = trained[arm].values("weights.condition")
    return [float(np.median(np.log10([x for kind in kinds for x in run[kind]]))) for run in found]


groups = {"attention": ("q", "k", "v", "out"), "feed-forward": ("gate", "up", "down")}
plots.table(
    [
        {"power of ten, mean of the seeds": side}
        | {kind: float(np.mean(conditions(arm, [kind]))) for kinds in groups.values() for kind in kinds}
        for side, arm in (("pre", gpt), ("ngpt", ngpt))
    ]
)  # fmt: skip

# %%
for name, kinds in groups.items():
    claim(
        f"08-conditioning-{name}",
        f"The GPT's {name} matrices have condition numbers {{mean:+.2f}} powers of ten above nGPT's.",
        minus(conditions(gpt, kinds), conditions(ngpt, kinds)),
        said=f"The GPT's {name} matrices are conditioned worse than nGPT's.",
        source="Loshchilov et al. 2025, arXiv 2410.01131, section 3 (condition numbers)",
        published="above nGPT's",
        criterion="> 0",
        kind="best",
    )

# %% [markdown]
r"""
The square matrices of attention have the large numbers in both models (a random square matrix has them, too), the rectangular ones of the feed-forward small ones. The direction of the means is the paper's. In attention, where the paper sees it most, the seeds scatter much more: an earlier build, whose attention rounded otherwise, gave no verdict there. Unit lengths do not bound a condition number: two columns of
length 1 may still point the same way.

## What the sources say, and what we measured

| source and setting | what it says | here |
| --- | --- | --- |
| [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), 0.5B and 1B parameters, OpenWebText | the loss of a GPT after 4, 10 and 20 times fewer steps at contexts of 1k, 4k, 8k | `08-ngpt-ends-lower`, `08-fewer-steps`; longer: `08-ladder-against-gpt` |
| [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), section 3 | a step takes 1.8 and 1.6 times as long | `08-a-step-costs-more`, `08-time-gained` |
| [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131), section 2.6 | no weight decay, no warm-up | `08-constants-are-forgotten`, `08-no-warm-up-needed` |
| [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131) | better conditioned attention | `08-conditioning-attention`, `08-conditioning-feed-forward` |
| [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131) | lerp instead of slerp | `08-lerp-turns-by-the-sine` |
| the official code | $\sqrt d$ on $u$, too | `08-root-on-u-changes-nothing` |

| often said | but |
| --- | --- |
| "all vectors are normalized, so logits are in $[-1, 1]$" | before $s_z$; with it, certainty is learned: `08-scale-bounds-certainty` |
| "queries, keys and values are normalized" | queries and keys are; values only through $W_V$'s rows |
| "nGPT has no norms" | no norm *layers*: a block has two norms of the branch, two of the stream and two in attention |
| "0.05 is nGPT's share" | it is a first value for 24 layers: `08-starting-values-decide` |
| "nGPT trains 4 to 20 times faster" | in steps, against that paper's baseline; in seconds divide by the cost of a step |
"""

# %% [markdown]
r"""
## Where it goes wrong

**What the final loss does not see.** Each arm below is nGPT with one mistake, at nGPT's rate, for half of the steps. The point is not that the mistakes are good. It is that "the loss went down nicely" is no test.
"""

# %%
faults = [
    "wrong axis",
    "wrong branch",
    "early gain",
    "no outer norm",
    "never again",
    "plain storage",
]
right = by_steps[half]["ngpt"]
wrong = lab.run(
    Experiment(
        base,
        {"arm": {f: {**lasting(half)["ngpt"], "model.differs": f} for f in faults}, "seed": three},
    )
).by("arm")
harm = {f: minus(wrong[f].values("test.loss"), right.values("test.loss")) for f in faults}

# %%
plots.dots(
    {f"ngpt, {fault}": values for fault, values in harm.items()},
    xlabel="test loss above the right nGPT (nats)",
    threshold={"right": 0.0},
    caption="Six mistakes and what each costs in the final loss.",
    provenance=lab.provenance(*wrong.values()),
)

# %%
for fault in faults:
    claim(
        f"08-loss-is-blind-to-{fault.replace(' ', '-')}",
        f"nGPT with “{fault}” ends {{mean:+.3f}} nats above the right one.",
        harm[fault],
        said=f"The loss does not show the slip “{fault}”.",
        source="this book",
        criterion="in [-0.005, 0.005]",
        kind="at",
        effect=0.02,  # nats: the lead of nGPT itself
    )

# %% [markdown]
r"""
A card "holds here" would mean that the loss does not tell, up to a quarter of nGPT's own lead. Three seeds cannot say so much: their intervals are wider than that. The wrong axis, the gain before the rotation, the missing outer norm and the plain storage end near the right model, by their means even a hair below it. The wrong branch costs more than the margin in every seed. That it costs something is no wonder: the stream is mostly replaced at every step, and after four steps little of the embedding can be left. Without renormalization after the steps the verdict is open, too.

If a mistake ends lower, is it a mistake? As a method it may be an idea. But a table that calls it nGPT reports something else, and a paper that says *why* nGPT works would have explained the wrong model. Nor are the mistakes small. Look at a quantity that the mistake is about. The table has six, and each mistake shows in one: a weight's length sees the wrong axis and the missing renormalization, the stream's length the outer norm, the cosine the branch, the speed of $s_z$ the storage, and a logit, when all positions move on by ten (in the small model of above, with random $s_{qk}$), the early gain. One column also says *how* a loss can stay blind: without the outer norm the stream is short, and $s_z$ has grown by as much.
"""


# %%
def length_of(part):
    """Length of the last stream, for each seed."""
    return part.values(lambda r: base.model.dim**0.5 * r.probes["residual-rms"][-1])


def speed(differs):
    """How far Adam's first step, at the rate 0.001, moves s_z."""
    return rate * replace(base.model, recipe="ngpt", s_z=10.0, differs=differs).build().s_z.factor


kinds_of = {
    "largest error of a weight's length": lambda part: part.values("weights.off"),
    "length of the last stream": length_of,
    "learned s_z": lambda part: part.values("sphere-scales.s_z"),
    "cosine of a block's input and output": lambda part: part.values("layer-cosine"),
}
plots.table(
    [
        {"arm": name or "right", **{kind: float(np.mean(look(part))) for kind, look in kinds_of.items()},
         "Adam's first step on s_z": speed(name), "a logit, moved on": moved_logits(name)}
        for name, part in {None: right, **wrong}.items()
    ]
)  # fmt: skip

# %%
claim(
    "08-lengths-see-the-axis",
    "With the wrong axis a length differs from 1 by up to {mean:.2f}.",
    wrong["wrong axis"].values("weights.off"),
    said="Normalized along the wrong axis, lengths differ from one.",
    source="this chapter's table of axes",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "08-cosine-sees-the-branch",
    "α on the wrong branch takes {mean:.2f} from the mean cosine of a block's input and output.",
    minus(
        *([np.mean(c) for c in p.values("layer-cosine")] for p in (right, wrong["wrong branch"]))
    ),
    said="α on the wrong branch shows in the cosine of a block's input and output.",
    source="this book",
    criterion="> 0.1",
    kind="at",
)

# %%
claim(
    "08-length-sees-the-outer-norm",
    "Without the outer norm the last stream has length {mean:.2f}.",
    length_of(wrong["no outer norm"]),
    said="Without the outer norm the stream is shorter than one.",
    source="this book",
    criterion="< 0.97",
    kind="at",
)

# %%
largest_logit = [
    np.multiply(length_of(part), part.values("sphere-scales.s_z"))
    for part in (wrong["no outer norm"], right)
]
claim(
    "08-s-z-makes-up-for-the-length",
    "Without the outer norm the stream's length times s_z is {mean:.2f} of the right model's.",
    np.divide(*largest_logit).tolist(),
    said="Without the outer norm s_z makes up for the shorter stream.",
    source="a first build of this table",
    criterion="in [0.85, 1.15]",
    kind="at",
    predicted=1.0,
)

# %% [markdown]
r"""
What sits inside a block, the checker finds without training: the early gain, the missing outer norm, the wrong branch. It reads a block, compares it with the equations, and tries the mistakes that it knows. One more of these is in a public package: `nGPT-pytorch` multiplies $s_{qk}$ on the queries alone.
"""


# %%
class QueriesOnly(SphereAttention):
    """s_qk on q alone."""

    def project(self, x, context):
        q, k, v = super(SphereAttention, self).project(x, context)
        scale = self.s_qk().view(self.heads, 1, self.head_dim)
        return self.head_dim * scale * self.unit(q), self.unit(k), v


def block_with(differs=None, attention=None):
    """Build one block, with a mistake."""
    block = replace(small, differs=differs).build().blocks[0]
    if attention is not None:
        block.attention.sublayer.__class__ = attention
    return block


# %%
suspects = {
    fault: block_with(fault) for fault in (None, "early gain", "no outer norm", "wrong branch")
}
suspects["s_qk on q alone"] = block_with(attention=QueriesOnly)
for name, block in suspects.items():
    report = check.block(block, "ngpt", small)
    causes = [law.cause for law in report.failed if law.cause][:1] or ["the values differ"]
    print(f"{name or 'right'}: {report.summary}\n    {'' if report.ok else causes[0]}")

# %% [markdown]
r"""
A block is judged for the weights it comes with, so no such check sees a wrong *axis*, or lengths that are never restored: that is between the optimizer's steps. Compare the lengths (the check below is meant to fail):
"""

# %%
from labkit.probes import lengths

crooked = replace(small, differs="wrong axis").build()
ones = {path: 1.0 for path in lengths(crooked)}
extreme = {path: one[(one - 1).abs().argmax()].item() for path, one in lengths(crooked).items()}
check.answer(extreme, ones, name="lengths", rtol=1e-5)

# %% [markdown]
r"""
### The official baseline rounds its weights

The official code makes every linear layer in bfloat16: not the arithmetic alone but the *stored* weights that Adam updates, in both models. Its notes say that this hurts the baseline more and that the code therefore shows a larger speed-up than the paper. Why? bfloat16 has eight significant bits. Around 0.1
neighbours are $2^{-4}\cdot2^{-7} = 2^{-11}$ apart. A step of Adam of less than half of that is lost:
"""

# %%
weight = torch.tensor([0.1], dtype=torch.bfloat16)
for move in (1e-3, 3e-4, 2e-4, 1e-4):
    print(f"a step of {move}: the weight {'stays' if (weight + move == weight).all() else 'moves'}")

# %% [markdown]
r"""
So a weight that grows would stand still from some size on, while the rate falls. nGPT's weights cannot grow, so they should keep more of their steps. That is an explanation; is it seen? Here only the weights are rounded, after every step; in that code Adam's averages are, too.
"""

# %%
rounding = {
    f"{side}, rounded": {**settings, "model.differs": "rounded weights"}
    for side, settings in lasting(half).items()
}
rounded = lab.run(Experiment(base, {"arm": rounding, "seed": three})).by("arm")
price = {
    side: minus(
        rounded[f"{side}, rounded"].values("test.loss"), by_steps[half][side].values("test.loss")
    )
    for side in pair
}
claim(
    "08-rounding-costs-the-baseline",
    "Weights kept in bfloat16 cost the GPT {mean:+.3f} nats.",
    price["pre"],
    said="Weights kept in bfloat16 cost the GPT.",
    source="github.com/NVIDIA/ngpt: linear layers in bfloat16, and its notes",
    criterion="> 0",
    kind="at",
)

# %%
claim(
    "08-rounding-costs-the-baseline-more",
    "Rounded weights cost the GPT {mean:+.3f} nats more than nGPT, which loses {ngpt:+.3f}.",
    minus(price["pre"], price["ngpt"]),
    ngpt=float(np.mean(price["ngpt"])),
    said="Weights kept in bfloat16 cost the GPT more than nGPT.",
    source="github.com/NVIDIA/ngpt, its notes",
    published="the baseline suffers more",
    criterion="> 0",
    kind="at",
    domain="24 layers and more, 1k to 8k tokens, 200k steps and more",
    ours=f"{base.model.depth} blocks of width {base.model.dim}, {base.train.steps} steps",
    in_range=False,
)

# %% [markdown]
r"""
Rounding the weights costs little here, and we did not see that it costs the baseline more: one reason may be that 200 steps at a high rate leave few moves below half a unit. The effect that the authors describe may need long runs with low rates, or averages in bfloat16, too.

The lesson stands all the same: a lead over a baseline with a handicap is measured from the wrong place. In a repository the first thing to look for is what the baseline does *not* get.
"""

# %% [markdown]
r"""
### Symptoms

Each row's probe is run: the sick value first, then the healthy one. (In the first two rows the two differ in the starting value that is blamed, each at its own rate.)
"""

# %%
healthy = trained["ngpt, own starts"]


def early(part):
    """Mean training loss of the second tenth of the steps, for each seed."""
    return [np.mean(run[whole // 10 : whole // 5 + 1]) for run in part.values(lambda r: r.losses)]


def turns(part):
    """Mean cosine of a block's input and output, for each seed."""
    return [np.mean(c) for c in part.values("layer-cosine")]


probed = {
    "training loss, second tenth of the steps": [early(apart["share alone"]), early(healthy)],
    "layer-cosine": [turns(apart["s_z alone"]), turns(healthy)],
    "weights: largest error of a length": [
        p.values("weights.off") for p in (wrong["wrong axis"], right)
    ],
    "the baseline's own loss": [
        rounded["pre, rounded"].values("test.loss"),
        by_steps[half]["pre"].values("test.loss"),
    ],
}

# %%
words = [
    ("the loss falls slowly at first", "s_z starts low: the model may not be sure yet", "a higher first s_z"),
    ("a shallow model stays near its embedding", "a share of 0.05 for few steps", "shares of the order of one over the layers"),
    ("all is well, but lengths are not 1", "wrong axis, or no normalization after a step", "normalize_weights, every step"),
    ("a method is far ahead of its baseline", "the baseline is rounded, or not tuned", "the same care for both"),
]  # fmt: skip
plots.table(
    [
        {"you see": see, "cause": cause, "probe": probe, "sick": float(np.mean(sick)),
         "healthy": float(np.mean(healthy)), "fix": fix}
        for (see, cause, fix), (probe, (sick, healthy)) in zip(words, probed.items(), strict=True)
    ],
    digits=4,
)  # fmt: skip

# %% [markdown]
r"""
## Exercises

**1 (by hand).** A stream $h = (1, 0)$, a branch whose direction is $b = (-\tfrac35, \tfrac45)$, shares of $\tfrac12$ for both channels. Where does the stream go?
"""

# %% tags=["exercise"]
yours = [..., ...]

# %%
from labkit.placements.sphere import ngpt_update

h, b = torch.tensor([1.0, 0.0]).double(), torch.tensor([-0.6, 0.8]).double()
truth = ngpt_update(h, b, torch.tensor([0.5, 0.5]).double())
check.answer(yours, truth.tolist(), name="1", hint="half-way along the chord, then to length 1")

# %% [markdown]
r"""
<details><summary>Hint</summary>

At one half the chord's middle is $(h + b)/2$; only its direction counts.

</details>
<details><summary>Solution</summary>

$(h + b)/2 = (0.2, 0.4)$, of length $0.2\sqrt5$. The stream becomes $(1, 2)/\sqrt5$. (At one half, lerp and slerp agree: both bisect the angle.)

</details>

**2 (by hand).** A model of width $d = 1024$ trains with Adam at rate $10^{-3}$. Its first step raises every scale. What are the values of $\alpha$, $s_{qk}$ and $s_{uv}$ afterwards? (First values and sizes as published.)
"""

# %% tags=["exercise"]
yours = {"alpha": ..., "s_qk": ..., "s_uv": ...}

# %%
made = {
    "alpha": Scale(1, 0.05, 1024**-0.5),
    "s_qk": Scale(1, 1.0, 1024**-0.5),
    "s_uv": Scale(1, 1.0, 1.0),
}
with torch.no_grad():
    for scale in made.values():
        scale.weight.add_(1e-3)
truth = {name: scale().item() for name, scale in made.items()}
hint = "Adam moves what is stored; the value moves by initial / stored times as much"
check.answer(yours, truth, name="2", hint=hint, rtol=2e-4)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$\sqrt{1024} = 32$.

</details>
<details><summary>Solution</summary>

$\alpha$: $0.05 + 10^{-3}\cdot0.05\cdot32 = 0.0516$. $s_{qk}$: $1 + 10^{-3}\cdot32 = 1.032$. $s_{uv}$ is stored at its own size: $1.001$.

</details>

**3 (by hand).** A vocabulary of $V = 50{,}000$ tokens. How large must $s_z$ at least be before a loss of 0.01 nats is possible for a token?
"""

# %% tags=["exercise"]
yours = ...

# %%
truth = float(0.5 * np.log((50_000 - 1) / np.expm1(0.01)))
hint = "turn the floor log(1 + (V − 1) exp(−2 s)) round; mind the 2"
check.answer(yours, truth, name="3", hint=hint, rtol=0.01)

# %% [markdown]
r"""
<details><summary>Hint</summary>

$e^{0.01} - 1 \approx 0.01$.

</details>
<details><summary>Solution</summary>

$(V-1)\,e^{-2s} = e^{0.01} - 1 \approx 0.01005$, so $s = \tfrac12\log(49{,}999/0.01005) \approx 7.71$.

</details>

**4 (in code).** Write the step: `h` is the stream of length 1, `f` the sublayer, `alpha` the learned vector (of either sign). The check compares with the equation.
"""


# %% tags=["exercise"]
def my_step(h, f, alpha):
    """One step of nGPT."""
    return ...


# %%
def check_step(my_step):
    """Hold a step against nGPT's equation, on three tokens and shares of either sign."""
    generator = torch.Generator().manual_seed(4)
    h = unit(torch.randn(3, 4, generator=generator).double())
    alpha = torch.tensor([0.2, -0.5, 0.8, 0.1]).double()
    wanted = ngpt_update(h, 3 * h.flip(-1) + 1, alpha)
    came = my_step(h, lambda x: 3 * x.flip(-1) + 1, alpha)
    if came is ...:
        return check.answer(..., 0.0, name="4")
    if (came - unit(h + alpha * (3 * h.flip(-1) + 1 - h))).abs().max() < 1e-9:
        hint = "the branch is divided by its length before the step, too"
    elif (came - came / came.norm(dim=-1, keepdim=True)).abs().max() > 1e-9:
        hint = "the new stream must have length 1"
    else:
        hint = "which of the two counts the share, and what is the sign of a share?"
    return check.answer(came.tolist(), wanted.tolist(), name="4", hint=hint, rtol=1e-6)


check_step(my_step)

# %% [markdown]
r"""
<details><summary>Hint</summary>

Two divisions by a length, one absolute value.

</details>
"""


# %% tags=["solution"]
def solved_step(h, f, alpha):
    """A solution of exercise 4."""
    b = f(h) / f(h).norm(dim=-1, keepdim=True)
    new = h + alpha.abs() * (b - h)
    return new / new.norm(dim=-1, keepdim=True)


assert check_step(solved_step).ok

# %% [markdown]
r"""
**5 (in code).** Which axis has length 1? Write it for every matrix by its name: `embedding, output, q, k, v, out, gate, up, down`. The check holds your axes against a real model.
"""


# %% tags=["exercise"]
def my_axis(name):
    """The axis along which this matrix is divided by its lengths."""
    return ...


# %%
def check_axis(my_axis):
    """Compare the lengths along the reader's axes with 1, in a fresh model."""
    fresh, came = replace(small, hidden=24).build(), {}
    for path, module in fresh.named_modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
            name = path.split(".")[-1]
            axis = my_axis(name)
            came[name] = (
                ... if axis is ... else (module.weight.norm(dim=axis) - 1).abs().max().item()
            )
    hint = "which vectors can be compared with the stream, rows or columns?"
    zeros = dict.fromkeys(came, 0.0)
    return check.answer(came, zeros, name="5", hint=hint, rtol=1e-5)


check_axis(my_axis)

# %% [markdown]
r"""
<details><summary>Hint</summary>

PyTorch stores (outputs, inputs). Two of the nine write to the stream.

</details>
"""


# %% tags=["solution"]
def solved_axis(name):
    """A solution of exercise 5."""
    return 0 if name in ("out", "down") else 1


assert check_axis(solved_axis).ok

# %% [markdown]
r"""
**6 (prove).** Let $h$, $b$ be unit vectors with angle $\theta\in(0,\pi)$ and let the share be one number $\alpha\in(0,1)$. (a) Show that the length of $h + \alpha(b-h)$ is $\sqrt{1 - 2\alpha(1-\alpha)(1-\cos\theta)}$. (b) Show that it is smallest at $\alpha = \tfrac12$ and that lerp and slerp agree there.
(c) With shares $\alpha_i$ for each channel, show that the new stream lies on the great circle through $h$ and $b$ whenever all $\alpha_i$ are equal, and give an example where it does not.

<details><summary>Hint</summary>

(a) Square, and use $h\cdot b = \cos\theta$. (c) A great circle is the sphere's cut with a plane through 0.

</details>
<details><summary>Solution</summary>

(a) $\|(1-\alpha)h + \alpha b\|^2 = (1-\alpha)^2 + \alpha^2 + 2\alpha(1-\alpha)\cos\theta = 1 - 2\alpha(1-\alpha) + 2\alpha(1-\alpha)\cos\theta$.

(b) $\alpha(1-\alpha)$ is largest at $\tfrac12$. There the sum is $(h+b)/2$, which bisects the angle of two vectors of one length; slerp turns by $\theta/2$, which is the same direction.

(c) With equal shares the sum is a combination of $h$ and $b$, so it lies in their plane, and dividing by a length does not leave it. Else take $h = (1,0,0)$, $b = (0,1,1)/\sqrt2$ and shares $(\tfrac12, 1, 0)$: the sum is $(\tfrac12, 1/\sqrt2, 0)$, but every vector of the plane has equal
second and third entries.

</details>

**7 (open).** The shares start at one over the number of steps here. Is that a rule? Take models of 2, 4 and 8 blocks and first shares of $0.05$, $0.1$, $\tfrac14$ and $\tfrac12$. Write down which share wins at which depth, and which result would refute you. At least three seeds.
"""

# %% tags=["exercise"]
my_prediction = "…"
depths, shares = [2, 4, 8], [0.05, 0.1, 0.25, 0.5]
my_experiment = Experiment(
    base,
    {"arm": {"ngpt": tuned[ngpt]}, "model.depth": depths, "model.share": shares, "seed": three},
)
# results = lab.run(my_experiment)      # remove the first "#" of this line and of the next
# {n: part.best("share") for n, part in results.by("depth").items()}
print(len(my_experiment.runs()), "runs")

# %% [markdown]
r"""
## What you now know

- A step of nGPT goes the share $\alpha$ along the chord and back to the sphere; it turns by about $\alpha\sin\theta$ when the share is small. With a share for each channel it is gradient descent with a learned rate for each channel, and leaves the great circle.
- Readers have rows of length 1, writers columns. Products of readers and the stream are cosines; scale is gone, and with it the work of weight decay.
- $s_z$, $s_{qk}$, $s_u$, $s_v$ give back what cosines cannot do. What is stored at $1/\sqrt d$ moves at the speed of a weight under Adam.
- 0.05 and $s_z = 1$ were chosen for deep models and long runs. In a shallow and short one they are hyper-parameters, and the race hinges on the pair of them, as it hinges on the baseline's sweep.
- By steps and by time are two questions. Published factors of 4 to 20 are by steps, for long contexts.
- Eight times longer and against a GPT with QK-Norm, nGPT ends behind in our run at this size.
- Lengths are 1 up to rounding; what else the sphere does to shares and conditioning, the cards above say for this size.
- Most of our mistakes cost little loss. Look at lengths, cosines and positions, not at the curve alone. And look at what a baseline is not given.

## References

Works cited: [Loshchilov et al. (2025)](https://arxiv.org/abs/2410.01131). Full entries are on the book's page of references.
"""

# %%
lab.close()  # gives back what the runs held: the workers, and the memory of a GPU
