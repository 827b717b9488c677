# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["homework"]
HOMEWORK = {
    "title": "A norm of your own",
    "about": "Invent a norm, prove what it ignores, differentiate it by hand, and let it compete",
    "packages": ["torch", "math"],
    "minutes": 240,
}

# %% [markdown]
r"""
# Homework 5 · A norm of your own

**Question.** LayerNorm divides by a standard deviation, RMSNorm by a root mean square. Why squares? A median would not care about
outliers, a maximum would care about nothing else, and a mean of absolute values sits between them. We know of no proof that squares are
best for a transformer. So: *what should a norm ignore, what must it never ignore, and can you tell before you train?*

You invent a norm that this book does not have. Nobody has a reference implementation of it. How can anybody mark it, then? By checking it against what *you* say about it: its gradient and your derivation must agree with the slopes of its values, and its behaviour with the laws that you claim for it. Every contradiction costs points.

**Rules.** Write one class `OwnNorm(nn.Module)` whose constructor takes `dim`. The class must be self-contained, so that it can be saved to a file: it may use `torch`, `nn` and `math`, but none of your functions outside the class. It works on the last axis of a tensor of any shape, and has at least one learnable parameter. It must not be LayerNorm, RMSNorm, the norm of `labkit leaderboard --starter` (which divides by the mean absolute value), or one of these times a number.

**How it is marked.** Only the final definition of each name counts. The checks below each question are public and give no points.
The grader evaluates your module's map from $x$ to $y$ at inputs and parameters that *the grader* chooses, and computes everything else itself. It trains nothing: a loss that a submission reports proves nothing. The contest at the end is for you.

The numbers in the next cell are yours; your neighbour has others. Leave them as they are.
"""

# %% tags=["variant"]
OUTLIER = draw.choice((7.0, -9.0, 25.0, -40.0, 60.0))
WIDTH = draw.choice((10, 17, 26, 50, 65))

# %%
import math

import torch
from torch import Tensor, nn

# %% [markdown]
r"""
## Question 1 · Invent it (4 points)

Some ideas, none of them finished: a power other than 2 in the mean; the distance between a high and a low quantile; the mean absolute deviation; RMSNorm with the root mean square of only the half of the values that are smallest in magnitude; two norms, mixed by a learned number; a statistic in which each feature has a learned weight.

What every norm must do, whatever its idea:

- keep shape and dtype: float32, float64 (computed in float64) and the half formats;
- treat each token by itself: no other position, no other example, no running average, no random number;
- leave the caller's tensor as it was;
- stay finite, gradient included: for zeros, a constant token, values of $10^{-8}$, values of $10^4$;
- have the true gradient of its values: detach nothing;
- depend on its input: when a token changes slightly, its output changes, too; a constant is not a norm;
- control the scale: if its input becomes a million times as large, its output may become at most ten times as large. That is what a norm is *for*.
  A map that only multiplies by constants and adds constants, such as $y = x$, leaves nothing to ask about: it earns no points in questions 2 to 4, and at most one in question 5.

Write down, before you code: what is the largest value that a token of `dim` values can have after your norm? For RMSNorm it is $\sqrt{\texttt{dim}}$.
"""


# %% tags=["solution:q1"]
class OwnNorm(nn.Module):
    """A norm over the last axis. Say your formula here."""

    def __init__(self, dim: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.eps = 1e-6
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        ### BEGIN SOLUTION
        # y = weight · (x − mean) / (mean|x − mean| + eps) + bias
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        deviation = centred.abs().mean(dim=-1, keepdim=True)
        return (self.weight * (centred / (deviation + self.eps)) + self.bias).to(x.dtype)
        ### END SOLUTION


# %% tags=["probe:q1"]
import torch


def probe_parameters(student, dim):
    """Give the parameters of a fresh norm by name."""
    return {name: p.detach() for name, p in student.OwnNorm(dim).named_parameters()}


def probe_map(student, x, parameters):
    """Give y for x, with these values of the parameters; those that are not named stay fresh."""
    norm = student.OwnNorm(x.shape[-1])
    if x.dtype == torch.float64:
        norm = norm.double()
    with torch.no_grad():
        for name, value in parameters.items():
            norm.get_parameter(name).copy_(value)
        return norm(x)


def probe_ray(student, x, parameters):
    """Give y for no token at all, for x, and for x made three times as large."""
    return [probe_map(student, size * x, parameters) for size in (0.0, 1.0, 3.0)]


def probe_twice(student, x):
    """Give y, y once more from the same module, and what x is afterwards."""
    norm = student.OwnNorm(x.shape[-1])
    with torch.no_grad():
        return [norm(x).clone(), norm(x), x]


def probe_slope(student, x):
    """Give y, and the gradient of its sum of squares by x, as autograd has it."""
    norm = student.OwnNorm(x.shape[-1]).to(x.dtype)
    x.requires_grad_()
    y = norm(x)
    return [y.detach(), torch.autograd.grad(y.square().sum(), x)[0]]


# %% tags=["test:q1", "points:4"]
from labkit import check
from labkit.check.public import public

public("q1", lambda: check.any_norm(OwnNorm))
### BEGIN HIDDEN TESTS


def finite_like(answer, x):
    """Shape, dtype and finiteness of x; the values may be any."""
    return close(answer, torch.zeros_like(x), 0.0, math.inf)


def same_direction(y, other):
    """Whether the two are equal up to a factor."""
    y, other = y.double().flatten(), other.double().flatten()
    return float(torch.dot(y, other).abs() / (y.norm() * other.norm() + 1e-30)) > 1 - 1e-7


def test_q1(student, draw, given):
    inputs = [
        draw.normal(5, 12),
        3 * draw.normal(2, 3, 33) + 1,
        draw.normal(4, 7, dtype=torch.float64),
    ]
    yield part(
        "shape and dtype",
        1,
        every(*(finite_like(student.probe("probe_map", x, {}), x) for x in inputs)),
        says="Two or three axes, rows of 7 to 33 values, float32 and float64: the result has the shape and the dtype of x.",
    )

    x = 2 * draw.normal(3, 4, 12)
    other = x.clone()
    other[1, 2] = 50 * draw.normal(12)
    apart = torch.ones(3, 4, dtype=torch.bool)
    apart[1, 2] = False
    got, changed = student.probe("probe_twice", x), student.probe("probe_map", other, {})
    yield part(
        "each token by itself",
        1,
        every(
            equal(item(got, 2), x),
            holds(
                got,
                lambda value: torch.equal(value[0], value[1]),
                "The same input gave two results.",
            ),
            holds(
                changed,
                lambda y: bool(((y - got.value[0]).abs()[apart] < 1e-5).all()),
                "One token was changed, and another one moved.",
            ),
        ),
        says="The caller's tensor stays, the same input gives the same result, and a token knows of no other: each statistic is over the last axis alone.",
    )

    rows = draw.normal(4, 12)
    hard = [
        0 * rows,
        0 * rows + 3,
        1e-8 * rows,
        1e4 * rows,
        torch.cat([rows[:, 1:], 0 * rows[:, :1] + 1e4], -1),
    ]
    slopes = [student.probe("probe_slope", x) for x in hard]
    sound = [
        verdict
        for each, x in zip(slopes, hard, strict=True)
        for verdict in (finite_like(item(each, 0), x), finite_like(item(each, 1), x))
    ]
    x = draw.normal(2, 9, dtype=torch.float64)
    moves = 1e-5 * torch.eye(9, dtype=torch.float64)[:, None, :]
    up, down = (student.probe("probe_map", x + way * moves, {}) for way in (1, -1))
    yield part(
        "finite, and a slope",
        1,
        every(
            *sound,
            *(finite_like(y, x + moves) for y in (up, down)),
            holds(
                item(student.probe("probe_slope", x), 1),
                lambda slope: torch.allclose(
                    slope,
                    (up.value.square() - down.value.square()).sum(-1).transpose(-1, -2) / 2e-5,
                    rtol=1e-4,
                    atol=1e-5,
                ),
                "Autograd's gradient is not the slope of the map, token by token: something is cut off (detach, no_grad, item), computed in float32, or shared between tokens.",
            ),
        ),
        says="Zeros, a constant, values of 1e-8, values of 1e4, one outlier: result and gradient have to be finite. Where does your epsilon stand? A root has no slope at 0, and neither has a quotient.",
    )

    x = 2 * draw.normal(16, 24) + 1
    fresh, far = student.probe("probe_map", x, {}), student.probe("probe_map", 1e6 * x, {})
    centred = x - x.mean(-1, keepdim=True)
    known = (
        x / x.pow(2).mean(-1, keepdim=True).sqrt(),
        centred / centred.pow(2).mean(-1, keepdim=True).sqrt(),
        x / x.abs().mean(-1, keepdim=True),
        x,
    )
    yield part(
        "a norm, and yours",
        1,
        every(
            finite_like(fresh, x),
            finite_like(far, x),
            holds(
                far,
                lambda y: 1e-3 < y.square().mean().sqrt() < 10 * fresh.value.square().mean().sqrt(),
                "A stream a million times as large left it more than ten times as large, or vanished.",
            ),
            holds(
                fresh,
                lambda y: y.dtype == x.dtype and not any(same_direction(y, z) for z in known),
                "Fresh from its constructor this is LayerNorm, RMSNorm, the mean absolute value or nothing at all, up to a factor.",
            ),
            holds(
                up,
                lambda y: float((y - down.value).abs().max()) > 1e-8,
                "What leaves it does not depend on x: a token moved by a hair, and the result stayed.",
            ),
        ),
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 2 · What is it blind to? (3 points)

LayerNorm is invariant to a constant that is added to every feature. RMSNorm is not. Both are invariant to the scale of a token. Is that good? It depends on what carries
information. It should at least be *known*. For your norm, say which of the following laws hold for all values of its parameters, and for all tokens whose values are of magnitude 1 or more (so that an epsilon does not matter):

| key | is this true? |
| --- | --- |
| `scale` | $y(cx) = y(x)$ for every $c > 0$ |
| `shift` | $y(x + c\mathbf 1) = y(x)$ for every $c$ |
| `mirror` | $y(-x) = -y(x)$ |

Prove each on paper, or find a counterexample. No true answer is better than another here; only a false one costs points.
"""


# %% tags=["solution:q2"]
def blind_to() -> dict[str, bool]:
    """Say which of the three laws hold for OwnNorm: keys scale, shift, mirror."""
    ### BEGIN SOLUTION
    return {"scale": True, "shift": True, "mirror": False}  # the bias breaks the mirror
    ### END SOLUTION


# %% tags=["test:q2", "points:3"]
public(
    "q2",
    lambda: (
        sorted(blind_to()) == ["mirror", "scale", "shift"],
        "three keys: scale, shift, mirror",
    ),
    lambda: (all(type(v) is bool for v in blind_to().values()), "each value is True or False"),
)
### BEGIN HIDDEN TESTS


def chosen(fresh, draw):
    """Values for the parameters, away from where they start."""
    if not fresh.ok or not isinstance(fresh.value, dict):
        return {}
    return {
        str(name): p.double() + 0.3 * draw.normal(*p.shape, dtype=torch.float64)
        if p.shape
        else p.double() + 0.3
        for name, p in sorted(fresh.value.items())[:8]
        if isinstance(p, torch.Tensor) and p.is_floating_point() and p.numel() <= 4096
    }


def divides(student, x, values):
    """Whether y bends as a token grows: what only multiplies and adds goes straight."""
    return holds(
        student.probe("probe_ray", x, values),
        lambda y: not torch.allclose(y[2] - y[1], 2 * (y[1] - y[0]), 1e-6, 1e-6),
        "The result grows in a straight line with the token: nothing is divided, so this is no norm.",
    )


def test_q2(student, draw, given):
    dim = 18
    x = 4 * draw.normal(12, dim, dtype=torch.float64) + 3
    said = student.call("blind_to")
    values = chosen(student.probe("probe_parameters", dim), draw)
    y = student.probe("probe_map", x, values)
    bends = divides(student, x, values)

    def law(name, cases, sign, says):
        """Whether what was said about a law is what the map does."""
        maps = [student.probe("probe_map", case, values) for case in cases]

        def as_said(value):
            largest = y.value.abs().max()
            keeps = all(
                bool(((sign * m.value - y.value).abs() < 1e-3 * largest).all()) for m in maps
            )
            return type(value[name]) is bool and value[name] == keeps

        verdicts = [finite_like(m, x) for m in (y, *maps)]
        verdicts.append(
            holds(
                y,
                lambda value: not torch.allclose(value, value[:1].expand_as(value), 1e-6, 0.0),
                "Every token leaves it the same: a constant obeys any law.",
            )
        )
        return part(
            name,
            1,
            every(
                *verdicts,
                bends,
                holds(said, as_said, "What blind_to says of this law is not what OwnNorm does."),
            ),
            says,
        )

    yield law(
        "scale",
        [3 * x, 50 * x],
        1,
        "Multiply a token by c: which of your terms carry a c, and do they cancel? A bound or a power that does not match leaves one over.",
    )
    yield law(
        "shift",
        [x + 2, x - 11],
        1,
        "Add c to every feature of a token: does your statistic see it, and does your numerator?",
    )
    yield law(
        "mirror",
        [-x],
        -1,
        "Turn every sign. The parameters need not be what they are in a fresh module: what does a shift do, after training?",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 3 · Backward by hand (4 points)

A fused kernel for your norm would need its backward pass, and nobody has written it. Derive it as chapter 09 does for RMSNorm: along which paths does $x_j$ affect the loss? Directly, and through every statistic of its token.

`own_backward(x, dy, parameters)` takes $x$ of shape `(rows, dim)`, the incoming gradient $dy$ of the same shape, and a dict of your parameters by name. It returns a
pair: $dx$, and a dict with the gradient of every parameter, in the parameter's shape. Do not use autograd: the grader switches it off. All inputs from the grader are float64.

The grader has no formula for your norm's gradient either. It uses central differences: it moves one coordinate of $x$ at a time by a tiny amount in both directions, evaluates your module at both points, and takes the slope between the two results.
Where your statistic has a kink (an absolute value at 0, or a median at a tie between two values), take any slope between those on its two sides.
"""


# %% tags=["solution:q3"]
def own_backward(x, dy, parameters):
    """Give dx and {name: gradient} for tokens x of shape (rows, dim)."""
    ### BEGIN SOLUTION
    centred = x - x.mean(-1, keepdim=True)
    deviation = centred.abs().mean(-1, keepdim=True) + 1e-6
    standard = centred / deviation
    u = parameters["weight"] * dy
    through_deviation = -(u * standard).sum(-1, keepdim=True) / deviation
    to_centred = u / deviation + through_deviation * centred.sign() / x.shape[-1]
    dx = to_centred - to_centred.mean(-1, keepdim=True)
    return dx, {"weight": (dy * standard).sum(0), "bias": dy.sum(0)}
    ### END SOLUTION


# %% tags=["probe:q3"]
def probe_backward(student, x, dy, parameters):
    """Call own_backward where autograd cannot work; give dx and the parameters' gradients."""
    with torch.inference_mode():
        dx, gradients = student.own_backward(x, dy, parameters)
        return {"dx": dx.clone(), "gradients": {k: v.clone() for k, v in gradients.items()}}


# %% tags=["test:q3", "points:4"]
def first_row_agrees():
    """Compare dx with autograd's, for one token of six values."""
    torch.manual_seed(0)
    norm = OwnNorm(6).double()
    x, dy = torch.randn(2, 1, 6, dtype=torch.float64).unbind()
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(norm(leaf), leaf, dy)
    parameters = {name: p.detach() for name, p in norm.named_parameters()}
    return torch.allclose(own_backward(x, dy, parameters)[0], wanted)


public("q3", lambda: (first_row_agrees(), "for one token dx differs from autograd's"))
### BEGIN HIDDEN TESTS


def test_q3(student, draw, given):
    rows, dim = 3, 9
    x, dy, harder = draw.normal(3, rows, dim, dtype=torch.float64).unbind()
    fresh = student.probe("probe_parameters", dim)
    values = chosen(fresh, draw)
    bends = divides(student, x, values)

    def by_differences(x, dy):
        """dx, from moving each column of all rows at once; and a verdict on the map itself."""
        hair = 1e-5 * x.abs().amax(-1)
        moves = torch.eye(dim, dtype=torch.float64)[:, None, :] * hair[None, :, None]
        up, down = (student.probe("probe_map", x + s * moves, values) for s in (1, -1))
        sound = every(
            *(finite_like(y, x + moves) for y in (up, down)),
            holds(
                up,
                lambda y: not torch.equal(y, down.value),
                "The result stays the same when x moves: there is no slope to derive.",
            ),
        )
        if not sound.ok:
            return x, sound
        return ((up.value - down.value) * dy).sum(-1).T / (2 * hair[:, None]), sound

    got = student.probe("probe_backward", x, dy, values)
    dx, sound = by_differences(x, dy)
    yield part(
        "dx",
        2,
        every(sound, bends, close(item(got, "dx"), dx, 1e-4, 1e-6)),
        says="What your module does when x moves by a hair is not what your dx says. Did every statistic get its term? A mean shares its gradient out over the whole row. "
        "And float64 has to be computed in float64: in float32 a hair is too fine to see.",
    )

    given_back = item(got, "gradients")
    verdicts = [holds(fresh, bool, "OwnNorm has no parameter that learns."), sound, bends]
    for name, value in values.items():
        way = (
            draw.normal(*value.shape, dtype=torch.float64)
            if value.shape
            else torch.ones((), dtype=torch.float64)
        )
        ends = [
            student.probe("probe_map", x, {**values, name: value + s * 1e-5 * way}) for s in (1, -1)
        ]
        verdicts += [finite_like(y, x) for y in ends]
        if all(v.ok for v in verdicts):
            slope = ((ends[0].value - ends[1].value) * dy).sum() / 2e-5
            mine = item(given_back, name)
            verdicts.append(finite_like(mine, value))
            verdicts.append(
                holds(
                    mine,
                    lambda g, way=way, slope=slope: (
                        abs(float((g * way).sum() - slope)) < 1e-5 * (1 + abs(float(slope)))
                    ),
                )
            )
    yield part(
        "parameters",
        1,
        every(*verdicts),
        says="A parameter serves every row, so its gradient is a sum over the rows, in the parameter's own shape, under the parameter's own name.",
    )

    sizes = torch.tensor([[1e3], [0.05], [1.0]], dtype=torch.float64)
    x = sizes * harder
    x[2, 0] = 40.0
    got = student.probe("probe_backward", x, dy, values)
    dx, sound = by_differences(x, dy)
    scaled = holds(
        item(got, "dx"),
        lambda value: torch.allclose(value * sizes, dx * sizes, 1e-3, 1e-5),
        "Wrong values.",
    )
    yield part(
        "large, small, lopsided",
        1,
        every(sound, bends, finite_like(item(got, "dx"), x), scaled),
        says="A token of size 1000, one of size 0.05, one with an outlier of 40. What is nearly right for tokens of size 1 shows here: a forgotten epsilon, a term that cancels for symmetric tokens only.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 4 · One loud feature (2 points)

Trained transformers have tokens in which a single feature is hundreds of times larger than all others. Take the purest case: $x = (s, 0, 0, \dots, 0)$ with `dim` values. What does your norm give for it, fresh from its constructor? RMSNorm gives $\pm\sqrt{\texttt{dim}}$ and zeros, whatever $s$ is. A norm that divides by the largest absolute value gives $\pm 1$ and zeros. A norm that divides by a median divides only by its epsilon here.

Derive it on paper. `outlier(size, dim)`, where `size` is $s$, returns a pair, the first value of $y$ and the value that all the others share, for `dim` of 2 or more and $|s|$ of 5 or more (leave epsilon out where it does not matter). Then answer for yourself, with your own numbers `OUTLIER` and `WIDTH`: what would such a feature do to the other features of its token?
"""


# %% tags=["solution:q4"]
def outlier(size: float, dim: int) -> tuple[float, float]:
    """Predict y for x = (size, 0, …, 0): (the first value, each other value)."""
    ### BEGIN SOLUTION
    sign = math.copysign(1.0, size)
    return sign * dim / 2, -sign * dim / (2 * (dim - 1))
    ### END SOLUTION


# %% tags=["test:q4", "points:2"]
def prediction_and_module():
    """Hold the prediction for your own numbers against the module."""
    x = torch.zeros(1, WIDTH)
    x[0, 0] = OUTLIER
    y = OwnNorm(WIDTH)(x).detach()[0]
    return torch.allclose(torch.tensor(outlier(OUTLIER, WIDTH)), y[:2], rtol=1e-3, atol=1e-4)


public(
    "q4",
    lambda: (len(outlier(5.0, 4)) == 2, "outlier gives a pair"),
    lambda: (prediction_and_module(), "for your numbers the module gives something else"),
)
### BEGIN HIDDEN TESTS


def test_q4(student, draw, given):
    bends = divides(student, draw.normal(3, 12, dtype=torch.float64), {})

    def agrees(size, dim):
        """The prediction against the map, and the map's other values against one another."""
        x = torch.zeros(1, dim, dtype=torch.float64)
        x[0, 0] = size
        y = student.probe("probe_map", x, {})
        sound = finite_like(y, x)
        if not sound.ok:
            return sound
        turned = holds(
            student.probe("probe_map", x.flip(-1), {}),
            lambda value: not torch.equal(value, y.value),
            "The module gives the same wherever the loud feature stands.",
        )
        said = close(
            student.call("outlier", size, dim),
            (float(y.value[0, 0]), float(y.value[0, -1])),
            1e-3,
            1e-4,
        )
        return every(turned, bends, said)

    yield part(
        "your numbers",
        1,
        agrees(given["OUTLIER"], given["WIDTH"]),
        says="For your OUTLIER and WIDTH the module gives something else than you predict. Write the token down, then each statistic of it, one after another.",
    )
    cases = [
        (draw.uniform(5.0, 80.0), draw.integers(3, 40)),
        (-draw.uniform(5.0, 80.0), 300),
        (draw.uniform(200.0, 900.0), 2),
    ]
    yield part(
        "any numbers",
        1,
        every(*(agrees(size, dim) for size, dim in cases)),
        says="Another size (negative ones, too), another width, from 2 to 300: which of the two does your result depend on, and how?",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 5 · Half precision, and a file (3 points)

You write no new norm here: the `OwnNorm` of question 1 must survive the ways in which people will use it. In bfloat16 a sum of 64 numbers has only eight significant bits. In float16 the square of 300 overflows. And a model is saved to disk
and loaded somewhere else, where only parameters and buffers arrive.

Write one sentence, for whoever reads your module later: in which format are the statistics of your norm computed, and why?
"""


# %% tags=["solution:q5"]
def precision_note() -> str:
    """Say in which format the statistics are computed, and why."""
    ### BEGIN SOLUTION
    return "In float32 at least: sums of many half-precision values lose digits or overflow."
    ### END SOLUTION


# %% tags=["probe:q5"]
def probe_saved(student, x, parameters):
    """Save a module with these parameters, load it into a fresh one; give both results."""
    saved, fresh = student.OwnNorm(x.shape[-1]), student.OwnNorm(x.shape[-1])
    with torch.no_grad():
        for name, value in parameters.items():
            saved.get_parameter(name).copy_(value)
        fresh.load_state_dict(saved.state_dict())
        return [saved(x), fresh(x)]


# %% tags=["test:q5", "points:3"]
def half_agrees(dtype):
    """Compare a half format with float32, for ordinary tokens."""
    torch.manual_seed(1)
    norm, x = OwnNorm(64), torch.randn(8, 64).to(dtype)
    half, single = norm(x), norm(x.float())
    return half.dtype == dtype and torch.allclose(half.float(), single, rtol=0.02, atol=0.02)


public(
    "q5",
    lambda: (isinstance(precision_note(), str), "precision_note gives a sentence"),
    lambda: (half_agrees(torch.bfloat16), "bfloat16 differs from float32"),
)
### BEGIN HIDDEN TESTS


def test_q5(student, draw, given):
    bends = divides(student, draw.normal(3, 12, dtype=torch.float64), {})
    noted = holds(
        student.call("precision_note"),
        lambda text: isinstance(text, str) and "float" in text and len(text.split()) >= 6,
        "precision_note should name a format and a reason.",
    )

    def survives(x):
        """The half result against float64 on the same rounded values."""
        half, exact = student.probe("probe_map", x, {}), student.probe("probe_map", x.double(), {})
        sound = every(
            finite_like(exact, x.double()),
            finite_like(half, x),
            holds(
                exact,
                lambda y: not torch.allclose(y, y[:1].expand_as(y), 1e-6, 0.0),
                "Every token leaves it the same: a constant needs no precision.",
            ),
        )
        if not sound.ok:
            return sound
        largest = exact.value.abs().amax(-1, keepdim=True)
        step = 2.0 ** (-8 if x.dtype == torch.bfloat16 else -10)
        return true(
            bool(((half.value.double() - exact.value).abs() <= step * largest + 1e-6).all()),
            "Wrong values.",
        )

    yield part(
        "bfloat16",
        1,
        every(noted, bends, survives((draw.normal(6, 200) + 2).bfloat16())),
        says="200 values of mean 2 in bfloat16, against float64 on the same numbers: one rounding at the end is all that may be lost.",
    )
    yield part(
        "float16",
        1,
        every(
            noted,
            bends,
            survives((300 * draw.normal(6, 64)).half()),
            survives((1e-3 * draw.uniform(1.0, 2.0, 6, 64)).half()),
        ),
        says="float16 values of 300, then of 0.001: squares and sums leave float16's range on either side, and an epsilon below 6e-8 is 0 there.",
    )

    dim = 14
    x = draw.normal(5, dim)
    fresh = chosen(student.probe("probe_parameters", dim), draw)
    values = {name: p.float() for name, p in fresh.items()}
    plain, saved = student.probe("probe_map", x, values), student.probe("probe_saved", x, values)
    moved = student.probe("probe_map", x, {})
    yield part(
        "saved and loaded",
        1,
        every(
            finite_like(plain, x),
            finite_like(moved, x),
            holds(
                plain,
                lambda y: not torch.equal(y, moved.value),
                "The parameters do not change the result, or there are none.",
            ),
            holds(
                saved,
                lambda pair: all(torch.equal(y, plain.value) for y in pair) and len(pair) == 2,
                "After loading it is another norm.",
            ),
        ),
        says="What a norm learns has to be an nn.Parameter, and what it needs besides is a number of the constructor or a buffer.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 6 · Predict, then compete (3 points)

Now it may train. But what will count as a result? Even two runs that differ only in their seed reach different losses. So here you compare *pairs* of runs (same seed, same data): you take the $n$ differences in loss $\delta_i$, own norm minus RMSNorm, and compute a 95 % interval for their mean:

$$\bar\delta \pm t\,\frac{s}{\sqrt n},\qquad s^2 = \tfrac1{n-1}\textstyle\sum_i(\delta_i - \bar\delta)^2,$$

with $t$ from Student's table for $n - 1$ degrees of freedom: 12.71 for two seeds, 2.776 for five. (That is why two seeds prove so little.)

- `interval(differences, t)`: the pair (low, high);
- `verdict(differences, bound, t)`: for the criterion "the mean difference is below `bound`" one of `"holds"` (the whole interval is below), `"contradicted"` (the whole interval is above) and `"not-seen"` (neither);
- `prediction()`: *before* you run anything, a dict with your `"statement"` (a sentence that compares your norm with RMSNorm and gives a reason) and the `"bound"` in nats per character that makes it testable. A bound of
  1 is no prediction: every norm meets it. Choose one between −0.5 and 0.5.
"""


# %% tags=["solution:q6"]
def interval(differences: list[float], t: float) -> tuple[float, float]:
    """Give Student's interval of the mean of paired differences."""
    ### BEGIN SOLUTION
    n = len(differences)
    mean = sum(differences) / n
    spread = math.sqrt(sum((d - mean) ** 2 for d in differences) / (n - 1))
    return mean - t * spread / math.sqrt(n), mean + t * spread / math.sqrt(n)
    ### END SOLUTION


def verdict(differences: list[float], bound: float, t: float) -> str:
    """Judge the criterion "the mean difference is below bound"."""
    ### BEGIN SOLUTION
    low, high = interval(differences, t)
    if high < bound:
        return "holds"
    return "contradicted" if low > bound else "not-seen"
    ### END SOLUTION


def prediction() -> dict:
    """Commit to a statement and a bound before the run."""
    ### BEGIN SOLUTION
    return {
        "statement": "Mean absolute deviation trains as well as RMSNorm, because both hold the size of a token.",
        "bound": 0.1,
    }
    ### END SOLUTION


# %% tags=["test:q6", "points:3"]
public(
    "q6",
    lambda: (interval([1.0, 1.0], 12.71) == (1.0, 1.0), "equal differences leave no doubt"),
    lambda: (verdict([1.0, 1.0], 2.0, 12.71) == "holds", "1 is below 2, for certain"),
    lambda: (sorted(prediction()) == ["bound", "statement"], "two keys: statement and bound"),
)
### BEGIN HIDDEN TESTS


def test_q6(student, draw, given):
    differences = [0.1 * draw.normal() + 0.05 for _ in range(5)]
    values = torch.tensor(differences, dtype=torch.float64)
    middle, half = float(values.mean()), float(2.776 * values.std() / 5**0.5)
    yield part(
        "interval",
        1,
        close(student.call("interval", differences, 2.776), (middle - half, middle + half), 1e-6),
        says="Mean, plus and minus t times the standard error. The deviation is divided by n − 1, the error by the root of n.",
    )
    cases = {
        middle + 1.5 * half: "holds",
        middle - 1.5 * half: "contradicted",
        middle + 0.5 * half: "not-seen",
        middle - 0.5 * half: "not-seen",
    }
    yield part(
        "verdict",
        1,
        every(
            *(
                equal(student.call("verdict", differences, bound, 2.776), word)
                for bound, word in cases.items()
            )
        ),
        says="Only an interval that lies on one side of the bound, whole, decides anything. Where it holds the bound inside, nothing was seen.",
    )
    yield part(
        "prediction",
        1,
        holds(
            student.call("prediction"),
            lambda said: (
                set(said) == {"statement", "bound"}
                and len(said["statement"].split()) >= 8
                and type(said["bound"]) in (int, float)
                and -0.5 <= said["bound"] <= 0.5
            ),
        ),
        says="A sentence with its reason, eight words at least, and a bound between −0.5 and 0.5 that could turn out to be wrong.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## The contest

The next cell defines `look()`. It writes your class to the file `my_norm.py`, trains tiny models with RMSNorm, LayerNorm and your norm on the same data at five learning rates, and shows their losses. Run it in a new cell when question 1 is done; it takes a minute the first time, and seconds after that. It shows whether a norm fails, but gives no ranking.
"""

# %%
import ast
import linecache
from pathlib import Path


def source_of(kind):
    """Give the text of a class out of the cell that defined it."""
    cell = "".join(linecache.getlines(kind.forward.__code__.co_filename))
    found = [node for node in ast.parse(cell).body if getattr(node, "name", "") == kind.__name__]
    return ast.get_source_segment(cell, found[-1])


def look(steps=60):
    """Look at OwnNorm beside RMSNorm and LayerNorm: some steps, one seed a rate, no order."""
    from labkit.leaderboard.compete import look_at
    from labkit.leaderboard.entries import entries

    head = "import math\n\nimport torch\nfrom torch import Tensor, nn\n\n\n"
    Path("my_norm.py").write_text(head + source_of(OwnNorm) + "\n", encoding="utf-8")
    return look_at(entries(["pre", "pre+layer", "pre+my_norm.py"]), rung="smoke", steps=steps)


# %% [markdown]
r"""
## What you know now

- A norm consists of a statistic and a gain, and is characterized by what it ignores. You can prove what it ignores.
- You can check a gradient without knowing the formula: finite differences of the map are enough.
- A prediction has a bound that was written down first, and a verdict that may be "not seen".

Is your norm better than RMSNorm? `look()` cannot tell you: it shows which norms fail, but gives no ranking. For a ranking, run `labkit leaderboard pre pre+my_norm.py` (half an hour on one core); if the two share a letter there, they are not distinguishable, and you may not call either one better. Chapter 10 of the book explains how far to trust this leaderboard.
"""
