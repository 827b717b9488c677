# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["homework"]
HOMEWORK = {
    "title": "Norms from scratch",
    "about": "LayerNorm, RMSNorm, BatchNorm with its memory, and RMSNorm's backward pass, by hand",
    "packages": ["torch", "math"],
    "minutes": 150,
}

# %% [markdown]
r"""
# Homework 1 · Norms from scratch

**Question.** A norm is three lines of code. Yet public code contains many norms that are slightly wrong: they divide by $d - 1$, they put $\epsilon$ on the wrong side of a root, or they square a number in a format that cannot hold the square. Models train with all of these mistakes, and some of the mistakes stay in the code for years. If a mistake in a norm does not show in the loss, *where* does it
show?

You write three norms and one backward pass, and find out what a careful examiner looks at. You may use everything in `torch` except its own norms (`F.layer_norm` and the like). In question 4, autograd is not allowed either. The grader notices both.

**How it is marked.** Only the final definition of each name counts: functions, classes, and lines `NAME = …`. You may add loops, prints and other top-level calls for your own use; the grader does not run them. The checks below each question are public and give no points. The grader tests your definitions again, on other inputs: other shapes, other formats, very large and very small numbers. It tests gradients, too.

The numbers in the next cell are yours; your neighbour has others. Leave them as they are.
"""

# %% tags=["variant"]
EPS = draw.choice((1e-3, 2e-3, 5e-4, 3e-4))
MOMENTUM = draw.choice((0.05, 0.08, 0.2, 0.25, 0.3))
SMALL = draw.choice((0.01, 0.02, 0.03, 0.05))
OFFSET = draw.choice((2.0, 3.0, 5.0, 7.0))

# %%
import math

import torch
from torch import nn

# %% [markdown]
r"""
## Question 1 · LayerNorm (4 points)

LayerNorm acts on each token $x \in \mathbb R^d$, a vector along the last axis of a tensor of any shape:

$$\mu = \tfrac1d\textstyle\sum_i x_i, \qquad v = \tfrac1d\sum_i (x_i - \mu)^2, \qquad
y = \gamma \odot \frac{x - \mu}{\sqrt{v + \epsilon}} + \beta .$$

A good implementation of this formula follows three rules:

- the caller's `x` stays as it was;
- half-precision input is processed in float32 and the result is returned in the input's format; float64 stays float64;
- $v$ is computed from the differences. $\overline{x^2} - \mu^2$ is the same on paper. Is it the same for
  tokens with a mean of 4096 and a standard deviation of 1, in float32? Before you try, guess how many digits survive.
"""


# %% tags=["solution:q1"]
def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axis of x; weight and bias have the shape of one token."""
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    y = centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y.to(x.dtype)
    ### END SOLUTION


# %% tags=["test:q1", "points:4"]
from labkit import check
from labkit.check.public import public

public("q1", lambda: check.layer_norm(layer_norm))


### BEGIN HIDDEN TESTS
def exact_layer_norm(x, weight, bias, eps):
    x64 = x.double()
    deviation = x64 - x64.mean(-1, keepdim=True)
    scaled = deviation * (deviation.pow(2).mean(-1, keepdim=True) + eps) ** -0.5
    return scaled * weight.double() + bias.double()


def test_q1(student, draw, given):
    x, weight, bias = 2 * draw.normal(3, 5, 12) + 1, draw.normal(12), draw.normal(12)
    got = student.probe("probe_forward", "layer_norm", x, weight, bias, eps=1e-5)
    right = close(item(got, 0), exact_layer_norm(x, weight, bias, 1e-5).float(), 1e-4, 1e-5)
    kept = equal(item(got, 1), "x is as it was")
    one, zero = torch.ones(12), torch.zeros(12)
    got = student.probe("probe_forward", "layer_norm", x[0, 0], None, bias)
    alone = close(item(got, 0), exact_layer_norm(x[0, 0], one, bias, 1e-5).float(), 1e-4, 1e-5)
    yield part(
        "values",
        1,
        every(right, kept, alone),
        says="Ordinary tokens: is the mean over the last axis only, is the variance divided by d (var and std divide by d − 1 "
        "unless told otherwise), does the weight multiply before the bias is added? Does it also work for a single token of shape (d,), "
        "with a bias and no weight, and is the caller's x as it was?",
    )

    tiny, one, zero = 1e-3 * draw.normal(6, 16), torch.ones(16), torch.zeros(16)
    tiny[0] = 0.25
    got = student.probe("probe_forward", "layer_norm", tiny, one, zero, eps=1e-4)
    want = exact_layer_norm(tiny, one, zero, 1e-4).float()
    yield part(
        "small tokens",
        1,
        close(item(got, 0), want, 1e-4, 1e-4),
        says="Tokens of size 1e-3, and one that is constant: here eps decides. It belongs under the root, added to the variance.",
    )

    shifted = 4096 + draw.normal(8, 64)
    got = student.probe("probe_forward", "layer_norm", shifted, torch.ones(64), torch.zeros(64))
    want = exact_layer_norm(shifted, torch.ones(64), torch.zeros(64), 1e-5)
    first = close(item(got, 0), want.float(), 0.0, 5e-3)
    half = (100 * draw.normal(8, 64) + 300).half()
    got = student.probe("probe_forward", "layer_norm", half, None, None)
    want = exact_layer_norm(half, torch.ones(64), torch.zeros(64), 1e-5)
    second = close(item(got, 0), want.half(), 2e-3, 1e-3)
    exact = draw.normal(3, 64).double()
    got = student.probe("probe_forward", "layer_norm", exact, None, None)
    want = exact_layer_norm(exact, torch.ones(64), torch.zeros(64), 1e-5)
    yield part(
        "precision",
        1,
        every(first, second, close(item(got, 0), want, 1e-9, 1e-9)),
        says="Tokens of mean 4096, then float16 tokens of size 300, then float64: subtract the mean before you square, compute halves in "
        "float32 and float64 in float64. The result has the format of x.",
    )

    x, upstream = draw.normal(7, 10), draw.normal(7, 10)
    weight, bias = draw.normal(10), draw.normal(10)
    leaves = [t.double().requires_grad_() for t in (x, weight, bias)]
    wanted = torch.autograd.grad(exact_layer_norm(*leaves, 1e-3), leaves, upstream.double())
    got = student.probe("probe_gradients", "layer_norm", [x, weight, bias], upstream, 1e-3)
    yield part(
        "gradient",
        1,
        close(got, [g.float() for g in wanted], 1e-4, 1e-5),
        says="The gradients of x (a transposed tensor), weight and bias: does everything that depends on x stay in the graph? "
        "detach, .data, .item() and view are the usual suspects.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 2 · RMSNorm (4 points)

$$y = g \odot \frac{x}{\sqrt{\tfrac1d\sum_i x_i^2 + \epsilon}}$$

RMSNorm takes one line fewer than LayerNorm, but there are three places to go wrong. The default of `eps` is **your** number `EPS`.

- The largest finite float16 is 65504. How large must a float16 entry be for its square to overflow?
- The formula in the RMSNorm paper has no $\epsilon$. Torch, Llama and Gemma add $\epsilon$ under the root, and the authors' own code adds it outside. For which tokens does this make a visible difference? Here it is under the root.
- Some public versions round to half precision *before* they multiply by the gain, and others round *after*. Here, compute everything in float32 (in float64 if `x` is float64) and **round once, at the very end**.
"""


# %% tags=["solution:q2"]
def rms_norm(x, weight=None, eps=EPS):
    """RMSNorm over the last axis of x, rounded to x's dtype once, at the end."""
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    y = wide * (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    if weight is not None:
        y = y * weight.to(y.dtype)
    return y.to(x.dtype)
    ### END SOLUTION


# %% tags=["test:q2", "points:4"]
public("q2", lambda: check.rms_norm(rms_norm, eps=EPS))


### BEGIN HIDDEN TESTS
def exact_rms_norm(x, weight, eps):
    x64 = x.double()
    return weight.double() * x64 * (x64.pow(2).mean(-1, keepdim=True) + eps) ** -0.5


def test_q2(student, draw, given):
    x, weight = draw.normal(2, 4, 20) + 1, draw.normal(20)
    got = student.probe("probe_forward", "rms_norm", x, weight, eps=1e-6)
    first = close(item(got, 0), exact_rms_norm(x, weight, 1e-6).float(), 1e-4, 1e-5)
    kept = equal(item(got, 1), "x is as it was")
    wide = draw.normal(3, 9).double()
    got = student.probe("probe_forward", "rms_norm", wide, None, eps=1e-6)
    second = close(item(got, 0), exact_rms_norm(wide, torch.ones(9), 1e-6), 1e-9, 1e-9)
    yield part(
        "values",
        1,
        every(first, kept, second),
        says="Ordinary float32 and float64 tokens: divide by the root of the mean of the squares. No mean is subtracted, the sum is "
        "divided by d, float64 stays float64, x stays as it was.",
    )

    tiny = 0.02 * draw.normal(6, 32)
    got = student.probe("probe_forward", "rms_norm", tiny, None)
    yield part(
        "eps",
        1,
        close(item(got, 0), exact_rms_norm(tiny, torch.ones(32), given["EPS"]).float(), 1e-4, 1e-6),
        says="Small tokens and no eps given: then your number EPS is added to the mean square, under the root.",
    )

    large = (600 * draw.normal(4, 48)).half()
    got = student.probe("probe_forward", "rms_norm", large, None, eps=1e-6)
    yield part(
        "large halves",
        1,
        close(item(got, 0), exact_rms_norm(large, torch.ones(48), 1e-6).half(), 2e-3, 1e-4),
        says="float16 tokens of size 600: their squares do not fit into float16. Go to float32 before you square, "
        "come back to x's format at the end.",
    )

    x, weight = draw.normal(40, 64).bfloat16(), (1 + 0.3 * draw.normal(64)).bfloat16()
    got = student.probe("probe_forward", "rms_norm", x, weight, eps=1e-6)
    want = exact_rms_norm(x, weight, 1e-6)
    about = close(item(got, 0), want.bfloat16(), 2e-2, 1e-2)

    def rounded_once(y):
        # One rounding to bfloat16 errs by 2^-8 at most, two by up to twice as much.
        if y.dtype != torch.bfloat16 or y.shape != want.shape:
            return False
        return bool(((y.double() - want).abs() <= 1.02 * 2**-8 * want.abs() + 1e-6).all())

    yield part(
        "one rounding",
        1,
        every(
            about,
            holds(item(got, 0), rounded_once, "The values are near, but rounded more than once."),
        ),
        says="bfloat16 tokens with a gain: round to half precision once, after the gain has multiplied; the result has x's format.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 3 · BatchNorm, a module with a memory (5 points)

BatchNorm computes its statistics over every axis but that of the channels, so its output for one example depends on the other examples in the batch. For evaluation, where there may be only one example, it keeps a memory: the *running statistics* $r_\mu$ and $r_v$. With $n$ values per channel, batch mean $\mu$, biased variance $v$ and momentum $m$:

$$y = \gamma\,\frac{x - \mu}{\sqrt{v + \epsilon}} + \beta \quad\text{(training)}, \qquad
r_\mu \leftarrow (1 - m)\,r_\mu + m\,\mu, \qquad r_v \leftarrow (1 - m)\,r_v + m\,\tfrac{n}{n-1}\,v,$$

and in evaluation $y = \gamma\,(x - r_\mu)/\sqrt{r_v + \epsilon} + \beta$, without touching the memory.

Write the module. Inputs are `(batch, channels)` or `(batch, channels, time)`. Use torch's names, so that your module can load a checkpoint of `nn.BatchNorm1d`: parameters `weight` (ones) and `bias` (zeros), buffers `running_mean` (zeros) and `running_var` (ones).
The default of `momentum` is **your** number `MOMENTUM`. Torch's counter of batches, the buffer `num_batches_tracked`, is optional (without it, a checkpoint loads with `strict=False`).

*Before you write:* the batch is normalized with the biased variance, the memory stores the unbiased one. With two values per channel they differ by a factor of two. Who would notice, and when?
"""


# %% tags=["solution:q3"]
class BatchNorm(nn.Module):
    """BatchNorm over every axis but axis 1, with running statistics for evaluation."""

    def __init__(self, channels, eps=1e-5, momentum=MOMENTUM):
        super().__init__()
        ### BEGIN SOLUTION
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        ### END SOLUTION

    def forward(self, x):
        """Normalize with the batch's statistics and remember them, or with those remembered."""
        ### BEGIN SOLUTION
        if self.training:
            axes = [axis for axis in range(x.dim()) if axis != 1]
            mean, var = x.mean(axes), x.var(axes, correction=0)
            self._remember(mean.detach(), var.detach(), x.numel() // x.shape[1])
        else:
            mean, var = self.running_mean, self.running_var
        shape = [1, -1] + [1] * (x.dim() - 2)
        y = (x - mean.view(shape)) / (var.view(shape) + self.eps).sqrt()
        return y * self.weight.view(shape) + self.bias.view(shape)

    def _remember(self, mean, var, count):
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * count / (count - 1), self.momentum)
        ### END SOLUTION


# %% tags=["test:q3", "points:5"]
batch = 3 * torch.randn(16, 4) + 1
public(
    "q3",
    lambda: (
        BatchNorm(4)(batch).shape == batch.shape,
        "the result has another shape than the input",
    ),
    lambda: (
        bool(BatchNorm(4)(batch).mean(0).abs().max() < 1e-5),
        "in training each channel of the result has mean 0; yours has not",
    ),
    lambda: (
        bool((BatchNorm(4).running_mean == 0).all() and (BatchNorm(4).running_var == 1).all()),
        "the memory starts at mean 0 and variance 1; yours does not",
    ),
)


### BEGIN HIDDEN TESTS
def over_batch(x, mean, var, eps):
    """(x − mean) / sqrt(var + eps) in float64, one mean and variance per channel."""
    moved = x.double().movedim(1, -1)
    return ((moved - mean) / (var + eps) ** 0.5).movedim(-1, 1)


def statistics(x):
    rows = x.double().movedim(1, -1).flatten(0, -2)
    deviation = rows - rows.mean(0)
    return rows.mean(0), deviation.pow(2).mean(0), len(rows)


def remembered(batches, momentum):
    """The memory after the batches: mean and unbiased variance."""
    mean, var = torch.zeros(3).double(), torch.ones(3).double()
    for x in batches:
        mu, v, n = statistics(x)
        mean = mean + momentum * (mu - mean)
        var = var + momentum * (v * n / (n - 1) - var)
    return mean.float(), var.float()


def test_q3(student, draw, given):
    flat, series = 2 * draw.normal(6, 5) + 1, 3 * draw.normal(3, 5, 7) - 2
    got = student.probe("probe_batch_norm", 5, {}, [flat, series], flat, eps=1e-2)
    want = [over_batch(x, *statistics(x)[:2], 1e-2).float() for x in (flat, series)]
    yield part(
        "training",
        1,
        close(item(got, "trained"), want, 1e-4, 1e-5),
        says="In training, of shape (batch, channels) and (batch, channels, time): the statistics run over every axis but axis 1, "
        "and the biased variance divides.",
    )

    batches = [draw.normal(5, 3) * (k + 1) + k for k in range(4)]
    got = student.probe("probe_batch_norm", 3, {}, batches, batches[0])
    yield part(
        "memory of the mean",
        1,
        close(item(got, "running_mean"), remembered(batches, given["MOMENTUM"])[0], 1e-4, 1e-5),
        says="After four batches with your MOMENTUM as default: each batch counts m, the memory before it 1 − m (some libraries "
        "mean it the other way round), and the memory starts at 0.",
    )
    batches = [*batches[:2], draw.normal(2, 3, 4) - 1]
    got = student.probe("probe_batch_norm", 3, {}, batches, batches[0])
    yield part(
        "memory of the variance",
        1,
        close(item(got, "running_var"), remembered(batches, given["MOMENTUM"])[1], 1e-4, 1e-5),
        says="After two batches of five examples and a third of two examples with four steps of time: the memory starts at 1 and stores "
        "the unbiased variance, n/(n − 1) times that of the batch. n counts every value that a channel has.",
    )

    state = {
        "weight": draw.normal(4),
        "bias": draw.normal(4),
        "running_mean": draw.normal(4),
        "running_var": draw.uniform(0.5, 3.0, 4),
    }
    alone = 2 * draw.normal(1, 4, 3)
    got = student.probe("probe_batch_norm", 4, state, [], alone, eps=1e-3)
    shift = over_batch(alone, state["running_mean"].double(), state["running_var"].double(), 1e-3)
    want = (shift.movedim(1, -1) * state["weight"] + state["bias"]).movedim(-1, 1)
    first = close(item(got, "evaluated"), want.float(), 1e-4, 1e-5)
    second = close(item(got, "running_var"), state["running_var"], 1e-6, 1e-6)
    yield part(
        "evaluation",
        1,
        every(first, second),
        says="One example in evaluation, with a checkpoint loaded: the remembered statistics normalize it, and it leaves no trace in "
        "the memory.",
    )

    got = student.probe("probe_batch_norm", 3, {}, batches[:2], batches[0])
    names = equal(item(got, "parameters"), ["bias", "weight"])
    buffers = equal(item(got, "buffers"), ["running_mean", "running_var"])
    graph = equal(item(got, "the memory needs gradients"), False)
    yield part(
        "state",
        1,
        every(names, buffers, graph),
        says="state_dict as in torch: weight and bias are nn.Parameter, running_mean and running_var are buffers "
        "(register_buffer), there is nothing else but a count of batches, and what is remembered is detached from the graph.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 4 · RMSNorm backward, with pencil and paper (4 points)

Somebody hands you $G = \partial L/\partial y$. You owe them $\partial L/\partial x$ and $\partial L/\partial g$.
Start with one token and $r = \sqrt{\tfrac1d\sum_i x_i^2 + \epsilon}$, $\hat x = x/r$:

1. Show $\partial r/\partial x_j = x_j/(d\,r)$.
2. Use it in $y_i = g_i\,x_i/r$. You get two terms. The second one subtracts a vector from the first. In which direction does this vector point?
3. The gain $g$ is shared by all tokens. What does that imply for its gradient?

*A prediction before you code:* take $\epsilon = 0$ and $g = 1$. What is the angle between $\partial L/\partial x$ and $x$, for every $G$?

Write the backward pass with tensor operations, for any number of leading axes. For half-precision input, compute in float32: a sum over four thousand tokens loses too many digits in bfloat16. Return `grad_x` in the format of `x` and `grad_weight` in the format of `weight`.
"""


# %% tags=["solution:q4"]
def rms_norm_backward(x, weight, grad, eps=1e-6):
    """Give (grad_x, grad_weight) of rms_norm(x, weight, eps), from the gradient of its result."""
    ### BEGIN SOLUTION
    wide = torch.promote_types(x.dtype, torch.float32)
    x_wide, grad_wide = x.to(wide), grad.to(wide)
    inverse = (x_wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    hat = x_wide * inverse
    pulled = grad_wide * weight.to(wide)
    grad_x = inverse * (pulled - hat * (pulled * hat).mean(dim=-1, keepdim=True))
    grad_weight = (grad_wide * hat).reshape(-1, x.shape[-1]).sum(dim=0)
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype)
    ### END SOLUTION


# %% tags=["test:q4", "points:4"]
token, incoming = torch.randn(2, 3, 6), torch.randn(2, 3, 6)
public(
    "q4",
    lambda: (
        [tuple(g.shape) for g in rms_norm_backward(token, torch.ones(6), incoming)]
        == [(2, 3, 6), (6,)],
        "two gradients are wanted: grad_x in the shape of x, grad_weight in the shape of weight",
    ),
)


### BEGIN HIDDEN TESTS
def through_autograd(x, weight, grad, eps):
    """The gradients in float64, by autograd through the formula."""
    leaves = [x.double().requires_grad_(), weight.double().requires_grad_()]
    size = (leaves[0] ** 2).mean(-1, keepdim=True) + eps
    return torch.autograd.grad(leaves[1] * leaves[0] / size.sqrt(), leaves, grad.double())


def test_q4(student, draw, given):
    x, weight, grad = (
        draw.normal(1, 9).double(),
        draw.normal(9).double(),
        draw.normal(1, 9).double(),
    )
    got = student.probe("probe_backward", x, weight, grad, 1e-6)
    want = through_autograd(x, weight, grad, 1e-6)
    yield part(
        "one token",
        1,
        close(item(got, 0), want[0], 1e-8, 1e-9),
        says="grad_x of one float64 token: the weight multiplies the incoming gradient first, then the part along x̂ is taken away "
        "(a mean over d, not a sum), then all is divided by r.",
    )

    x, weight, grad = 0.03 * draw.normal(2, 3, 8), draw.normal(8), draw.normal(2, 3, 8)
    got = student.probe("probe_backward", x, weight, grad, given["EPS"])
    yield part(
        "small tokens",
        1,
        close(item(got, 0), through_autograd(x, weight, grad, given["EPS"])[0].float(), 1e-4, 1e-4),
        says="grad_x of small tokens: the same r, with eps under the root, stands in x̂ and in front.",
    )

    x, weight, grad = draw.normal(4, 3, 8), draw.normal(8), draw.normal(4, 3, 8)
    got = student.probe("probe_backward", x, weight, grad, 1e-6)
    yield part(
        "all tokens share the gain",
        1,
        close(item(got, 1), through_autograd(x, weight, grad, 1e-6)[1].float(), 1e-4, 1e-5),
        says="grad_weight of a tensor of shape (4, 3, 8): each token adds grad · x̂, over all leading axes; the weight itself "
        "does not come into it.",
    )

    x, grad = draw.normal(4096, 8).bfloat16(), (1 + 0.5 * draw.normal(4096, 8)).bfloat16()
    x, weight = x.abs(), draw.normal(8).bfloat16()
    got = student.probe("probe_backward", x, weight, grad, 1e-6)
    want = through_autograd(x, weight, grad, 1e-6)
    # One rounding at the end: within one unit in the last place of bfloat16.
    first = close(item(got, 1), want[1].bfloat16(), 2**-7, 1e-3)
    second = close(item(got, 0), want[0].bfloat16(), 2**-7, 1e-4)
    yield part(
        "half precision",
        1,
        every(first, second),
        says="4096 tokens in bfloat16: add them up in float32, and give grad_x in x's format, grad_weight in the weight's.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 5 · Three numbers (3 points)

You need no tensors here, and you need not run anything. Write each number as a formula (`NAME = …`, no loop). `BATCHES` must be exact, and the other two must be accurate to one per cent; a simulation may then tell you whether you were right. The numbers depend on your `MOMENTUM`, `EPS`, `SMALL` and `OFFSET`.

- `BATCHES`: the running mean starts at 0, and every batch has a mean of exactly 1. With your `MOMENTUM`, after how many batches (a whole number) is the running mean within one per cent of 1 for the first time?
- `SIZE_OUT`: a token of root mean square `SMALL` enters RMSNorm with gain 1 and your `EPS`. What is the root mean square of the output? ("One", says the textbook.)
- `SHARE`: a token has a variance of 1, and a mean of `OFFSET`. After RMSNorm, what share of its mean square is due to its mean, that is, what is (mean)² / (mean square)? After LayerNorm it would be 0.
"""

# %% tags=["solution:q5"]
### BEGIN SOLUTION stub: BATCHES = ...
BATCHES = math.ceil(math.log(0.01) / math.log(1 - MOMENTUM))
### END SOLUTION
### BEGIN SOLUTION stub: SIZE_OUT = ...
SIZE_OUT = SMALL / math.sqrt(SMALL**2 + EPS)
### END SOLUTION
### BEGIN SOLUTION stub: SHARE = ...
SHARE = OFFSET**2 / (OFFSET**2 + 1)
### END SOLUTION

# %% tags=["test:q5", "points:3"]
public(
    "q5",
    (isinstance(BATCHES, int), "BATCHES is a whole number; yours is none yet"),
    (isinstance(SIZE_OUT, float), "SIZE_OUT is a number with a decimal point; yours is none yet"),
    (isinstance(SHARE, float), "SHARE is a number with a decimal point; yours is none yet"),
)


### BEGIN HIDDEN TESTS
def test_q5(student, draw, given):
    kept = 1 - given["MOMENTUM"]
    batches = next(n for n in range(1, 1000) if kept**n <= 0.01)
    yield part(
        "BATCHES",
        1,
        close(student.probe("probe_value", "BATCHES"), batches, 1e-9, 1e-9),
        says="BATCHES: each batch leaves 1 − m of the old memory, so what is missing after n batches is a power. Round up, and mind that "
        "0.99 and 0.01 are not the same question.",
    )
    yield part(
        "SIZE_OUT",
        1,
        close(
            student.probe("probe_value", "SIZE_OUT"),
            given["SMALL"] / math.hypot(given["SMALL"], given["EPS"] ** 0.5),
            1e-2,
        ),
        says="SIZE_OUT: put a token whose mean square is SMALL² into the formula, eps and all, and take the root at the end.",
    )
    yield part(
        "SHARE",
        1,
        close(student.probe("probe_value", "SHARE"), 1 - 1 / (1 + given["OFFSET"] ** 2), 1e-2),
        says="SHARE: a mean square is (mean)² + variance, and RMSNorm divides both by the same number.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## How the grader looks at your functions

The next cell is no secret: the grader runs it together with your definitions. Its class `ByHand` makes calls to `F.layer_norm` fail.
"""

# %% tags=["probe:q1"]
import torch
from torch.overrides import TorchFunctionMode


class ByHand(TorchFunctionMode):
    """Refuse torch's own norms and autograd while a function of yours runs."""

    refused = ("normalize", "grad", "backward")
    norms = ("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm")

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Let everything pass but what is refused."""
        name = getattr(func, "__name__", "")
        if name in self.refused or any(norm in name for norm in self.norms):
            raise RuntimeError(f"torch's own {name} was called; write the formula by hand")
        return func(*args, **(kwargs or {}))


def probe_forward(student, name, x, *rest, **settings):
    """The result of a norm, and what became of its input."""
    before = x.clone()
    with ByHand():
        y = getattr(student, name)(x, *rest, **settings)
    return [y, "x is as it was" if torch.equal(before, x) else "x was changed"]


def probe_gradients(student, name, inputs, upstream, eps):
    """The gradients of sum(upstream · norm(x, …)); x is a transposed tensor."""
    x, *rest = inputs
    leaves = [x.t().contiguous().t(), *rest]
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    with ByHand():
        y = getattr(student, name)(*leaves, eps=eps)
    gradients = torch.autograd.grad(y, leaves, upstream, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]


def probe_backward(student, x, weight, grad, eps):
    """Your backward pass, without autograd."""
    with ByHand():
        return student.rms_norm_backward(x, weight, grad, eps=eps)


def probe_batch_norm(student, channels, state, batches, last, **settings):
    """Train a BatchNorm on batches, then evaluate it; tell what it gave and what it remembers."""
    module = student.BatchNorm(channels, **settings)
    module.load_state_dict(state, strict=False)
    with ByHand():
        trained = [module.train()(x.clone().requires_grad_()).detach() for x in batches]
        graph = any(value.requires_grad for _, value in module.named_buffers())
        evaluated = module.eval()(last).detach()
    return {
        "trained": trained,
        "evaluated": evaluated,
        "running_mean": module.running_mean.detach().clone(),
        "running_var": module.running_var.detach().clone(),
        "parameters": sorted(name for name, _ in module.named_parameters()),
        "buffers": sorted(
            name for name, _ in module.named_buffers() if name != "num_batches_tracked"
        ),
        "the memory needs gradients": graph,
    }


def probe_value(student, name):
    """A number of yours."""
    return getattr(student, name)
