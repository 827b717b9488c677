# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["homework"]
HOMEWORK = {
    "title": "The bug in five wrong norms",
    "about": "expose five norms from real code by the smallest input that tells, name the law, mend them",
    "packages": ["torch", "math"],
    "minutes": 120,
}

# %% [markdown]
r"""
# Homework 2 · The bug in five wrong norms

**Question.** Below are five norms. Each is modelled on public code that people use. Models train with each of them without complaint, and on `torch.randn(8, 512)` all of them give the right values, or nearly the right ones. Each is wrong. *What input would make it
confess?*

A good test is not a large test. It is an input on which right and wrong part ways, and to find one you must know which **law**, that is, which property of the right norm, the code breaks. So each question asks for three things:

1. **the law**: one key of the table `LAWS` below;
2. **the exposure**: a small input that shows the bug, returned by a function without arguments. The grader hands this input to the wrong norm and to the right one, and measures how far apart their results are;
3. **the corrected norm** (in question 1, the function `mended_1`).

The measure is the relative error $\|\text{wrong} - \text{right}\| \,/\, \|\text{right}\|$ over the whole result. It has to be at least **your** number
`SHARE`. An exposure has at most 64 numbers, all of them finite, none larger in absolute value than **your** number `LARGEST`. The right norm's result on it must be finite and not all zero. The wrong norm's result may be anything: a NaN or an infinity also counts as exposing it.

Predict before you measure. For each question, write down what you expect the wrong norm and the right norm to give on your input; then run both.
"""

# %% tags=["variant"]
SHARE = draw.choice((0.12, 0.16, 0.2, 0.25))
LARGEST = draw.choice((3000.0, 4000.0, 6000.0, 8000.0))
MOMENTUM = draw.choice((0.05, 0.1, 0.2, 0.3))

# %%
import torch

LAWS = {
    "mean": "each token of the result has mean 0",
    "size": "each token of the result has mean square 1, as long as eps plays no role",
    "scale": "a token and the same token times c > 0 give the same result, eps aside",
    "shift": "a token and the same token plus a constant give the same result",
    "alone": "what comes out for a token depends on this token only",
    "memory": "evaluation will see what the batches were estimates of: no statistic is biased",
    "gradient": "the gradient is the derivative of the value",
    "format": "the result in half precision is the exact result, rounded",
    "untouched": "the caller's tensor is as it was",
}

# %% [markdown]
r"""
Unless a question says otherwise, the right norm is one of these two:

$$\mathrm{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{v + \epsilon}} + \beta, \quad v = \tfrac1d\textstyle\sum_i (x_i - \mu)^2,
\qquad\qquad \mathrm{RMS}(x) = g \odot \frac{x}{\sqrt{\tfrac1d\sum_i x_i^2 + \epsilon}}.$$

Some bugs break more than one law. Name one that is broken on your own input.

## Question 1 · A LayerNorm out of a famous tutorial (4 points)

Thousands have learned the Transformer from these lines. At width 512 nobody sees a difference.
"""


# %%
def found_1(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm, it says."""
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True)
    y = (x - mean) / (std + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


# %% [markdown]
r"""
Your exposure must not rely on $\epsilon$: each of its tokens must have a variance of at least 1. (There are *two* bugs here. Your exposure has to show only one of them; your corrected norm must be free of both.)
"""

# %% tags=["solution:q1"]
### BEGIN SOLUTION stub: LAW_1 = ...
LAW_1 = "size"
### END SOLUTION


def expose_1():
    """One or more tokens, along the last axis, that found_1 gets wrong."""
    ### BEGIN SOLUTION
    # Two channels: the unbiased variance is twice the biased one, so the result is 1/√2 too small.
    return torch.tensor([[-3.0, 3.0], [1.0, 5.0]])
    ### END SOLUTION


def mended_1(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axis."""
    ### BEGIN SOLUTION
    centred = x - x.mean(-1, keepdim=True)
    y = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    if weight is not None:
        y = weight * y
    return y if bias is None else bias + y
    ### END SOLUTION


# %% tags=["test:q1", "points:4"]
from labkit.check.public import public

token = torch.tensor([[1.0, 2.0, 4.0, 9.0]])
public(
    "q1",
    lambda: (LAW_1 in LAWS, "LAW_1 is one of the keys of LAWS"),
    lambda: (expose_1().numel() <= 64, "the exposure has at most 64 numbers"),
    lambda: (mended_1(token).shape == token.shape, "mended_1 gives another shape than that of x"),
)
### BEGIN HIDDEN TESTS


def right_layer_norm(x, eps=1e-5):
    moved = x.double() - x.double().mean(-1, keepdim=True)
    return moved / ((moved * moved).mean(-1, keepdim=True) + eps) ** 0.5


def is_small(x, given):
    """At most 64 finite floating-point numbers, none larger than LARGEST."""
    return (
        0 < x.numel() <= 64
        and x.is_floating_point()
        and bool(x.isfinite().all())
        and float(x.abs().max()) <= given["LARGEST"]
    )


SMALL = "An exposure is a tensor of at most 64 finite floating-point numbers, none larger than your LARGEST."
CLOSER = "Right and wrong are closer together than your SHARE."


def exposed(x, form, asked, tells, says=CLOSER):
    """Whether an exposure has the form asked for, and then whether right and wrong differ on it."""
    fits = holds(x, form, asked)
    return holds(x, tells, says) if fits.ok else fits


def tutorial(x, eps=1e-5):
    """What found_1 gives, in float64."""
    moved = x.double() - x.double().mean(-1, keepdim=True)
    return moved / ((moved * moved).sum(-1, keepdim=True) / (x.shape[-1] - 1)) ** 0.5


def test_q1(student, draw, given):
    yield part(
        "law",
        1,
        holds(student.probe("probe_value", "LAW_1"), lambda law: law == "size"),
        says="Give found_1 a token of two channels, then one of four. Which property of a normalized token is missed, and by a factor "
        "that depends on the width alone?",
    )
    x = student.call("expose_1")
    enough = exposed(
        x,
        lambda x: is_small(x, given),
        SMALL,
        lambda x: x.shape[-1] >= 2 and float(x.double().var(-1, correction=0).min()) >= 1,
        "Each token needs two channels or more and a variance (divided by d) of at least 1, so that eps plays no role.",
    )

    def tells(x):
        wrong, right = tutorial(x), right_layer_norm(x)
        return float((wrong - right).norm() / right.norm()) >= given["SHARE"]

    yield part(
        "exposure",
        1,
        holds(x, tells, CLOSER) if enough.ok else enough,
        says="std divides by d − 1 unless told otherwise. At which widths d is √((d − 1)/d) far from 1?",
    )
    x, weight, bias = 2 * draw.normal(4, 3) + 1, draw.normal(3), draw.normal(3)
    got = student.call("mended_1", x, weight, bias, eps=1e-9)
    yield part(
        "mended: the divisor",
        1,
        close(got, (right_layer_norm(x, 1e-9) * weight + bias).float(), 1e-3, 1e-4),
        says="mended_1 on tokens of three channels: the variance divides by d, the weight multiplies, the bias is added.",
    )
    small = 1e-3 * draw.normal(5, 8)
    got = student.call("mended_1", small, eps=1e-4)
    yield part(
        "mended: eps",
        1,
        close(got, right_layer_norm(small, 1e-4).float(), 1e-4, 1e-5),
        says="mended_1 on small tokens: there is a second slip in found_1. Which number is eps added to, before or after the root?",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 2 · An RMSNorm that saves a cast (4 points)

Casting to float32 and back costs two passes over memory, so somebody left it out. In float32 this norm is right to the last
digit. The model it was made for runs in float16.
"""


# %%
def found_2(x, weight=None, eps=1e-6):
    """RMSNorm, without casts."""
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


# %% [markdown]
r"""
Before you try: the largest finite float16 is 65504, the smallest positive one is about $6\cdot 10^{-8}$. Squares can leave this range at both ends. For which sizes of $x$ does $x^2$ leave it at the upper end, and for which at the lower? (You need one end for the exposure. The corrected norm must handle both.)
"""

# %% tags=["solution:q2"]
### BEGIN SOLUTION stub: LAW_2 = ...
LAW_2 = "format"
### END SOLUTION


def expose_2():
    """One or more tokens that found_2 gets wrong."""
    ### BEGIN SOLUTION
    # 1000² does not fit into float16: the mean square is infinite, and the result is 0.
    return torch.tensor([[1000.0, -1000.0, 500.0, 250.0]], dtype=torch.float16)
    ### END SOLUTION


def mended_2(x, weight=None, eps=1e-6):
    """RMSNorm over the last axis, in the format of x."""
    ### BEGIN SOLUTION
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    root = (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    gain = 1.0 if weight is None else weight
    return (gain * wide / root).to(x.dtype)
    ### END SOLUTION


# %% tags=["test:q2", "points:4"]
half = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float16)
public(
    "q2",
    lambda: (LAW_2 in LAWS, "LAW_2 is one of the keys of LAWS"),
    lambda: (expose_2().numel() <= 64, "the exposure has at most 64 numbers"),
    lambda: (mended_2(half).dtype == half.dtype, "float16 goes in, another format comes out"),
)
### BEGIN HIDDEN TESTS


def root_mean_square(x, weight=1.0, eps=1e-6):
    size = x.double().pow(2).mean(-1, keepdim=True) + eps
    return x.double() * size.rsqrt() * weight


def castless(x):
    """What found_2 gives: every step rounded to the format of x."""
    return (x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)).double()


def departs(x, share):
    exact, came = root_mean_square(x), castless(x)
    if not bool(exact.isfinite().all()) or float(exact.norm()) == 0:
        return False
    return not bool(came.isfinite().all()) or float((came - exact).norm() / exact.norm()) >= share


def test_q2(student, draw, given):
    yield part(
        "law",
        1,
        holds(
            student.probe("probe_value", "LAW_2"), lambda law: law in ("format", "scale", "size")
        ),
        says="In float32 nothing is wrong. So the law that breaks has to do with what half precision can hold.",
    )
    x = student.call("expose_2")
    yield part(
        "exposure",
        1,
        exposed(x, lambda x: is_small(x, given), SMALL, lambda x: departs(x, given["SHARE"])),
        says="The format of your tensor is part of the exposure. Which numbers have a square that float16 cannot hold?",
    )
    large, weight = (900 * draw.normal(3, 16)).half(), draw.normal(16).half()
    got = student.call("mended_2", large, weight)
    yield part(
        "mended: large",
        1,
        close(got, root_mean_square(large, weight.double()).half(), 1e-2, 1e-2),
        says="mended_2 on float16 tokens of size 900: go to float32 before the square, and come back to x's format at the end.",
    )
    small = (1e-4 * draw.normal(3, 16)).half()
    got = student.call("mended_2", small, eps=1e-9)
    yield part(
        "mended: small",
        1,
        close(got, root_mean_square(small, eps=1e-9).half(), 2e-3, 1e-3),
        says="mended_2 on float16 tokens of size 1e-4: squares also vanish, and so does a small eps. Nothing but the last step may "
        "be in half precision; dividing by the largest entry first does not help eps.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 3 · A LayerNorm in one pass (4 points)

$\mathrm{Var}\,x = \overline{x^2} - \mu^2$: two sums, one pass over memory, half the traffic. The algebra is right. The casts are right. The eps is in
its place. Yet there are models that stopped learning because of this line.
"""


# %%
def found_3(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm in one pass."""
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    variance = wide.pow(2).mean(-1, keepdim=True) - mean.pow(2)
    y = (wide - mean) * (variance + eps).rsqrt()
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)


# %% [markdown]
r"""
A float32 has 24 significant bits, about seven decimal digits. How many of these digits are still correct in $\overline{x^2} - \mu^2$ when $\mu = 1000\,\sigma$? Write the answer down, then build the token.
"""

# %% tags=["solution:q3"]
### BEGIN SOLUTION stub: LAW_3 = ...
LAW_3 = "shift"
### END SOLUTION


def expose_3():
    """One or more float32 tokens that found_3 gets wrong."""
    ### BEGIN SOLUTION
    # The squares are near 4·10⁶, where float32 has steps of 1/4; the variance is far smaller.
    return 2000 + torch.tensor([[0.1, -0.1, 0.2, -0.2, 0.05, -0.05, 0.15, -0.15]])
    ### END SOLUTION


def mended_3(x, weight=None, bias=None, eps=1e-5):
    """LayerNorm over the last axis."""
    ### BEGIN SOLUTION
    moved = x.float() - x.float().mean(-1, keepdim=True)
    y = moved / (moved.square().mean(-1, keepdim=True) + eps).sqrt()
    if weight is not None:
        y = weight * y
    return (y if bias is None else bias + y).to(dtype=x.dtype)
    ### END SOLUTION


# %% tags=["test:q3", "points:4"]
public(
    "q3",
    lambda: (LAW_3 in LAWS, "LAW_3 is one of the keys of LAWS"),
    lambda: (expose_3().dtype == torch.float32, "the exposure is a float32 tensor"),
    lambda: (mended_3(token).shape == token.shape, "mended_3 gives another shape than that of x"),
)
### BEGIN HIDDEN TESTS


def one_pass(x, eps=1e-5):
    """What found_3 gives for float32."""
    average = x.mean(-1, keepdim=True)
    spread = (x**2).mean(-1, keepdim=True) - average**2
    return ((x - average) / torch.sqrt(spread + eps)).double()


def test_q3(student, draw, given):
    yield part(
        "law",
        1,
        holds(student.probe("probe_value", "LAW_3"), lambda law: law in ("shift", "size")),
        says="Near mean 0 all is well. So give it a token, then the same token somewhere else.",
    )

    def tells(x):
        wrong, right = one_pass(x), right_layer_norm(x)
        told = (
            not bool(wrong.isfinite().all())
            or float((wrong - right).norm() / right.norm()) >= given["SHARE"]
        )
        return told and float(right.norm()) > 0.1

    yield part(
        "exposure",
        1,
        exposed(
            student.call("expose_3"),
            lambda x: x.dtype == torch.float32 and is_small(x, given),
            "An exposure is a float32 tensor of at most 64 finite numbers, none larger than your LARGEST.",
            tells,
            "Right and wrong are closer together than your SHARE, or the right one says next to nothing.",
        ),
        says="Two numbers that are nearly equal are subtracted, and their difference keeps few digits. Which ratio of mean and "
        "standard deviation makes them nearly equal?",
    )
    far = 3000 + draw.normal(6, 32)
    got = student.call("mended_3", far)
    yield part(
        "mended: the value",
        1,
        close(got, right_layer_norm(far).float(), 0.0, 5e-3),
        says="mended_3 on float32 tokens of mean 3000 and standard deviation 1: subtract first, square then.",
    )
    upstream = draw.normal(6, 32)
    leaf = far.double().requires_grad_()
    wanted = torch.autograd.grad(right_layer_norm(leaf), leaf, upstream.double())[0]
    got = student.probe("probe_gradient", "mended_3", far, upstream)
    yield part(
        "mended: the gradient",
        1,
        close(got, wanted.float(), 0.0, 1e-2),
        says="The gradient of mended_3 on the same tokens: the subtraction of the mean belongs into the graph.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 4 · BatchNorm's memory (4 points)

The next function updates BatchNorm's memory, its running statistics, in one training step: it takes a batch of shape `(batch, channels)` or `(batch, channels, time)` and the old memory, and returns the new memory. Torch's own rule:

$$r_\mu \leftarrow (1 - m)\,r_\mu + m\,\mu, \qquad\qquad r_v \leftarrow (1 - m)\,r_v + m\,s^2 .$$
"""


# %%
def found_4(x, running_mean, running_var, momentum=MOMENTUM):
    """Give the new (running_mean, running_var) after the batch x."""
    axes = (0,) if x.dim() == 2 else (0, 2)
    mean = x.mean(axes)
    var = x.var(axes, correction=0)
    return (1 - momentum) * running_mean + momentum * mean, (
        1 - momentum
    ) * running_var + momentum * var


# %% [markdown]
r"""
A network that was trained on small batches with this memory is too sure of itself in evaluation. Which letter in the rule was
misread?

`expose_4` gives a batch of shape `(batch, channels)`. The grader starts the wrong memory and the right one at mean 0 and variance 1, takes one step of each with **your** `MOMENTUM`, and compares the two new values of `running_var`. Two properties of your batch matter: its size, and how far it moves the memory. So compute before you try: what relative error does a batch of $n$ examples with variance $v$ cause?
"""

# %% tags=["solution:q4"]
### BEGIN SOLUTION stub: LAW_4 = ...
LAW_4 = "memory"
### END SOLUTION


def expose_4():
    """Give a batch of shape (batch, channels) after which found_4 remembers a wrong variance."""
    ### BEGIN SOLUTION
    # n/(n − 1) is 2 for two examples; a variance of 10⁴ drowns the 1 with which the memory starts.
    return torch.tensor([[-100.0], [100.0]])
    ### END SOLUTION


def mended_4(x, running_mean, running_var, momentum=MOMENTUM):
    """Give the new (running_mean, running_var) after the batch x."""
    ### BEGIN SOLUTION
    pooled = [axis for axis in range(x.dim()) if axis != 1]
    mean, unbiased = x.mean(pooled), x.var(pooled, correction=1)
    new = [
        old.lerp(seen, momentum) for old, seen in ((running_mean, mean), (running_var, unbiased))
    ]
    return new[0], new[1]
    ### END SOLUTION


# %% tags=["test:q4", "points:4"]
public(
    "q4",
    lambda: (LAW_4 in LAWS, "LAW_4 is one of the keys of LAWS"),
    lambda: (expose_4().dim() == 2, "the exposure has two axes, (batch, channels)"),
    lambda: (
        [tuple(t.shape) for t in mended_4(torch.randn(6, 3), torch.zeros(3), torch.ones(3))]
        == [(3,), (3,)],
        "mended_4 gives two tensors with one number for each channel",
    ),
)
### BEGIN HIDDEN TESTS


def remembered(x, old_mean, old_var, momentum, bessel=True):
    """The new memory in float64; bessel=False forgets the factor n/(n − 1)."""
    values = x.double().transpose(0, 1).flatten(1)
    n = values.shape[1]
    centre = values.mean(1)
    spread = (values - centre[:, None]).pow(2).sum(1) / (n - 1 if bessel else n)
    return old_mean + momentum * (centre - old_mean), old_var + momentum * (spread - old_var)


def test_q4(student, draw, given):
    yield part(
        "law",
        1,
        holds(student.probe("probe_value", "LAW_4"), lambda law: law == "memory"),
        says="Nothing is wrong with the normalized batch: this function does not even make one. Which law speaks of what is kept for later?",
    )

    def tells(x):
        right, wrong = (
            remembered(x, 0.0, 1.0, given["MOMENTUM"], bessel)[1] for bessel in (True, False)
        )
        return float((wrong - right).norm() / right.norm()) >= given["SHARE"]

    yield part(
        "exposure",
        1,
        exposed(
            student.call("expose_4"),
            lambda x: x.dim() == 2 and len(x) >= 2 and is_small(x, given),
            "An exposure is a float tensor (batch, channels), two examples or more, 64 finite numbers at most, none larger than your LARGEST.",
            tells,
            "Right and wrong memories are closer together than your SHARE.",
        ),
        says="For which batch sizes do the two variances differ most? And the old memory dilutes the difference unless the batch is far from it.",
    )
    x = 3 * draw.normal(3, 4) + 2
    mean, var = draw.normal(4), draw.uniform(0.5, 2.0, 4)
    want = remembered(x, mean.double(), var.double(), given["MOMENTUM"])
    yield part(
        "mended: a small batch",
        1,
        close(student.call("mended_4", x, mean, var), [t.float() for t in want], 1e-4, 1e-5),
        says="mended_4 after three examples, with your MOMENTUM as default: both the mean and the unbiased variance, the old memory "
        "counts 1 − m.",
    )
    x = draw.normal(2, 4, 3) - 1
    want = remembered(x, mean.double(), var.double(), 0.5)
    yield part(
        "mended: a series",
        1,
        close(
            student.call("mended_4", x, mean, var, momentum=0.5),
            [t.float() for t in want],
            1e-4,
            1e-5,
        ),
        says="mended_4 of shape (2, 4, 3): n counts every value of a channel, over batch and time.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 5 · The value is right. What is wrong? (4 points)

The author of this norm treated the factor by which RMSNorm multiplies as a constant, "as in a running statistic". For every input the value of this norm is right, bit for bit. So no input will ever expose the bug through the norm's output.
"""


# %%
def found_5(x, weight=None, eps=1e-6):
    """RMSNorm, with a factor that takes no part in training."""
    with torch.no_grad():
        factor = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    y = x * factor
    return y if weight is None else y * weight


# %% [markdown]
r"""
`expose_5` gives a pair `(x, upstream)` of two tensors of the same shape. The grader takes the gradient of $\sum \text{upstream} \cdot N(x)$ with respect to `x`, once with the wrong norm as $N$ and once with the right one, and compares the two gradients. A random `upstream` of many channels shows little. Think: which term is missing from the wrong gradient, and in which direction does it point?
"""

# %% tags=["solution:q5"]
### BEGIN SOLUTION stub: LAW_5 = ...
LAW_5 = "gradient"
### END SOLUTION


def expose_5():
    """Give (x, upstream): tokens, and the gradient that arrives from above."""
    ### BEGIN SOLUTION
    # The missing term takes away the part along x: let nearly all of upstream lie along x.
    x = torch.tensor([[1.0, -2.0, 3.0, -4.0]])
    return x, x + torch.tensor([[0.5, 0.0, 0.0, 0.0]])
    ### END SOLUTION


def mended_5(x, weight=None, eps=1e-6):
    """RMSNorm over the last axis."""
    ### BEGIN SOLUTION
    inverse = (x.square().mean(-1, keepdim=True) + eps).rsqrt()  # part of the graph
    return x * inverse if weight is None else weight * x * inverse
    ### END SOLUTION


# %% tags=["test:q5", "points:4"]
public(
    "q5",
    lambda: (LAW_5 in LAWS, "LAW_5 is one of the keys of LAWS"),
    lambda: (len(expose_5()) == 2, "the exposure is a pair (x, upstream)"),
    lambda: (
        torch.allclose(mended_5(token), found_5(token)),
        "found_5 gives the right value, so mended_5 should give the same",
    ),
)
### BEGIN HIDDEN TESTS


def slope(x, upstream, whole=True):
    """The gradient for x in float64; whole=False: without the term along x."""
    wide, above = x.double(), upstream.double()
    root = (wide.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
    along = wide * (above * wide).mean(-1, keepdim=True) / root**3
    return above / root - along * whole


def test_q5(student, draw, given):
    yield part(
        "law",
        1,
        holds(student.probe("probe_value", "LAW_5"), lambda law: law == "gradient"),
        says="The value is right for every input. What else does training take from a norm?",
    )

    def tells(pair):
        right, wrong = slope(*pair), slope(*pair, whole=False)
        return float(wrong.norm()) > 0 and float((wrong - right).norm()) >= given["SHARE"] * float(
            right.norm()
        )

    yield part(
        "exposure",
        1,
        exposed(
            student.call("expose_5"),
            lambda pair: (
                len(pair) == 2
                and pair[0].shape == pair[1].shape
                and pair[0].dim() >= 1
                and all(is_small(t, given) for t in pair)
            ),
            "An exposure is a pair of float tensors of one shape, each of at most 64 finite numbers, none larger than your LARGEST.",
            tells,
            "Right and wrong gradients are closer together than your SHARE.",
        ),
        says="The missing term is along x. Which upstream has the largest part along x?",
    )
    x, upstream = draw.normal(4, 3), draw.normal(4, 3)
    got = student.probe("probe_gradient", "mended_5", x, upstream)
    yield part(
        "mended: the gradient",
        1,
        close(got, slope(x, upstream).float(), 1e-4, 1e-5),
        says="The gradient of mended_5: the factor depends on x, so it stays in the graph.",
    )
    x, weight = 2 * draw.normal(3, 5), draw.normal(5)
    wide = x.double()
    value = close(
        student.call("mended_5", x, weight, eps=0.5),
        (weight * wide / (wide.pow(2).mean(-1, keepdim=True) + 0.5).sqrt()).float(),
        1e-4,
        1e-5,
    )
    got = student.probe("probe_gradient", "mended_5", 3 * x, x)
    yield part(
        "mended: nothing else",
        1,
        every(value, close(got, slope(3 * x, x).float(), 1e-4, 1e-5)),
        says="mended_5 with a weight and another eps, then its gradient for an upstream along x: the value is that of found_5, and only "
        "the gradient is new.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## When you have handed in

Hand the norms to `labkit.check`, which does what you did, with more inputs and no imagination: `check.layer_norm(found_1)`, `check.rms_norm(found_2)`, `check.layer_norm(found_3)`, `check.rms_norm(found_5)`. (`found_4` is left out: it is not a norm, only the memory of one.) Does `labkit.check` name the same laws as you?

The grader runs the next cell together with your definitions. It is no secret.
"""

# %% tags=["probe:q1"]
import torch


def probe_value(student, name):
    """A value of yours."""
    return getattr(student, name)


def probe_gradient(student, name, x, upstream):
    """The gradient of sum(upstream · norm(x)) for x."""
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(getattr(student, name)(leaf), leaf, upstream)[0]
