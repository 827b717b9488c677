# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["homework"]
HOMEWORK = {
    "title": "Placement and gradients",
    "about": "blocks by hand, the growth of the stream, gradients by layer, DeepNorm's constants, a HybridNorm block",
    "packages": ["torch", "math"],
    "minutes": 180,
}

# %% [markdown]
r"""
# Homework 3 · Placement and gradients

**Question.** Take the same sublayers, the same norms and the same weights, and move each norm by one place. One network trains from the first step, and the other needs a warm-up. A third, with two constants added, can have a thousand layers. Can you *calculate*, before a single step
of training, which is which?

You write the blocks, predict how large the residual stream becomes, measure its size, and then measure how much gradient each layer gets.
The last two questions are about the two constants ($\alpha$ and $\beta$) that make deep Post-Norm possible, and about HybridNorm, a block with norms inside attention and a norm on the stream.

Write each prediction down **before** you run any code. A prediction that came true and one that did not are worth the same here,
as long as you know why.
"""

# %% tags=["variant"]
GAIN = draw.choice((0.5, 0.6, 0.7, 0.8, 0.9))
DEPTH = draw.choice((18, 24, 36, 48, 60))
FAINT = draw.choice((0.11, 0.13, 0.17, 0.19))
ALPHA_LIMIT = draw.choice((2.5, 3.5, 4.5, 5.5))

# %%
import math

import torch
import torch.nn.functional as F


def rms(x, gain=1.0, eps=1e-6):
    """RMSNorm over the last axis: the norm of this homework."""
    return gain * x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt()


# %% [markdown]
r"""
## Question 1 · Four places for a norm (4 points)

Let $f$ be a sublayer, $N$ a norm, and $x$ a token (or a tensor of tokens, of any shape). Write four placements:

- **Post-Norm**: the norm is on the stream, and is applied to the sum of $x$ and the output of $f$;
- **Pre-Norm**: the norm is on the branch, before $f$, and the stream bypasses both;
- **Sandwich**: one norm before $f$, a second one after it, both on the branch;
- **DeepNorm**: Post-Norm, but the old $x$, on the skip, is multiplied by $\alpha$.

`f`, `norm`, `before` and `after` are functions of a tensor. Call $f$ once: it is the expensive part.
"""


# %% tags=["solution:q1"]
def post(x, f, norm):
    """One Post-Norm sublayer."""
    ### BEGIN SOLUTION
    return norm(x + f(x))
    ### END SOLUTION


def pre(x, f, norm):
    """One Pre-Norm sublayer."""
    ### BEGIN SOLUTION
    return x + f(norm(x))
    ### END SOLUTION


def sandwich(x, f, before, after):
    """One sublayer between two norms."""
    ### BEGIN SOLUTION
    return x + after(f(before(x)))
    ### END SOLUTION


def deepnorm(x, f, norm, alpha):
    """One DeepNorm sublayer."""
    ### BEGIN SOLUTION
    return norm(alpha * x + f(x))
    ### END SOLUTION


# %% tags=["test:q1", "points:4"]
from labkit.check.public import public

token = torch.tensor([3.0, -1.0, 2.0, 4.0])
public(
    "q1",
    lambda: (
        torch.equal(pre(token, lambda y: 0 * y, rms), token),
        "a Pre-Norm sublayer that writes nothing changes nothing",
    ),
    lambda: (
        torch.equal(sandwich(token, lambda y: 0 * y, rms, rms), token),
        "nor does a Sandwich sublayer",
    ),
    lambda: (
        torch.allclose(post(token, lambda y: -y, rms), 0 * token),
        "a Post-Norm sublayer whose f is −x leaves nothing",
    ),
    lambda: (
        torch.allclose(deepnorm(token, lambda y: 0 * y, rms, 3.0), rms(token)),
        "a DeepNorm sublayer that writes nothing gives the norm of x",
    ),
)
### BEGIN HIDDEN TESTS


def rooted(x, gain=1.0):
    return gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


def equations(x, up, down, one, two, alpha):
    """What each placement gives, in float64, and once more with f called a second time."""
    x, up, down, one, two = (t.double() for t in (x, up, down, one, two))

    def branch(t):
        return torch.tanh(t @ up) @ down

    return {
        "post": rooted(x + branch(x), one),
        "pre": branch(rooted(x, one)) + x,
        "sandwich": rooted(branch(rooted(x, one)), two) + x,
        "deepnorm": rooted(branch(x) + x * alpha, one),
    }


HINTS = {
    "post": "post: the norm takes the sum of x and f(x), and its result is the new stream.",
    "pre": "pre: f reads the norm of x, and the old x, not its norm, is added.",
    "sandwich": "sandwich: `before` on what f reads, `after` on what f writes, and the old x is added last, outside both norms.",
    "deepnorm": "deepnorm: alpha multiplies the skip x, not what f writes, and the norm takes the sum.",
}


def test_q1(student, draw, given):
    x, one, two = 2 * draw.normal(5, 6) + 0.5, 1 + 0.5 * draw.normal(6), 1 + 0.5 * draw.normal(6)
    up, down, alpha = draw.normal(6, 9), draw.normal(9, 6), draw.uniform(1.5, 4.0)
    for name, want in equations(x, up, down, one, two, alpha).items():
        more = [alpha] if name == "deepnorm" else []
        got = student.probe("probe_block", name, x, up, down, one, two, more)
        yield part(
            name,
            1,
            every(
                close(item(got, 0), want.float(), 1e-4, 1e-4),
                holds(
                    item(got, 1),
                    lambda calls: calls == 1,
                    "The value is right, but f was called more than once.",
                ),
            ),
            says=HINTS[name],
        )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 2 · How large does the stream become? (4 points)

Consider a stack of $S$ sublayers, each of which is one random matrix: $f_s(x) = x\,W_s$, where the entries of $W_s$ are independent, with mean 0 and variance $\texttt{gain}^2/d$. The stream starts with mean square 1. The norm is `rms`, without a gain of its own.

**Predict.** Under Pre-Norm each $f_s$ reads a token of mean square 1. So what is the mean square of its output? The output is uncorrelated with the stream, because $W_s$ is drawn independently of the stream. What does that imply for the mean square of their sum, and what is the mean square of the stream after $s$ sublayers? Write `predicted_rms(gain, sublayers)`, the root mean square of the stream after that many Pre-Norm sublayers. (Post-Norm
needs no formula. Why?)

**Then measure.** `stream_rms(x, weights, placement)` sends `x` of shape `(tokens, d)` through all `weights`, a tensor `(S, d, d)`, with
`placement` `"pre"` or `"post"`, and gives a list of $S + 1$ numbers: the root mean square of the whole stream at the start and after
each sublayer.

**And a number.** `LATE`: under Pre-Norm with **your** `GAIN`, the output of each further sublayer is smaller relative to the stream to which it is added. Which sublayer, counted from 1, is the first whose output is less than **your** `FAINT` times the stream before the sum (both as root mean squares, by your formula)?
"""


# %% tags=["solution:q2"]
def predicted_rms(gain, sublayers):
    """Root mean square of a Pre-Norm stream that started at 1."""
    ### BEGIN SOLUTION
    return math.sqrt(1 + sublayers * gain**2)
    ### END SOLUTION


def stream_rms(x, weights, placement):
    """Measure the stream's root mean square at the start and after each sublayer: S + 1 numbers."""
    ### BEGIN SOLUTION
    sizes = [x.square().mean().sqrt().item()]
    for weight in weights:
        x = x + rms(x) @ weight if placement == "pre" else rms(x + x @ weight)
        sizes.append(x.square().mean().sqrt().item())
    return sizes
    ### END SOLUTION


### BEGIN SOLUTION stub: LATE = ...
LATE = math.floor(1 / FAINT**2 - 1 / GAIN**2 + 1) + 1
### END SOLUTION

# %% tags=["test:q2", "points:4"]
matrices = GAIN * torch.randn(DEPTH, 64, 64) / 8
tokens = rms(torch.randn(256, 64))
public(
    "q2",
    lambda: (
        len(stream_rms(tokens, matrices, "pre")) == DEPTH + 1,
        "one number before, and one after each sublayer",
    ),
    lambda: (
        abs(predicted_rms(GAIN, DEPTH) / stream_rms(tokens, matrices, "pre")[-1] - 1) < 0.1,
        "prediction and measurement are not within ten per cent; which of the two is wrong?",
    ),
)
### BEGIN HIDDEN TESTS


def sizes_along(x, weights, placement):
    """The stream's root mean square before and after each matrix, in float64."""
    found = [x.double().pow(2).mean() ** 0.5]
    stream = x.double()
    for matrix in weights.double():
        if placement == "post":
            stream = rooted(stream + stream @ matrix)
        else:
            stream = stream + rooted(stream) @ matrix
        found.append(stream.pow(2).mean() ** 0.5)
    return [float(size) for size in found]


def test_q2(student, draw, given):
    pairs = [(given["GAIN"], given["DEPTH"]), (2.0, 3), (0.25, 0), (1.0, 999)]
    verdicts = [
        close(
            student.call("predicted_rms", gain, sublayers),
            (1 + gain * gain * sublayers) ** 0.5,
            1e-5,
        )
        for gain, sublayers in pairs
    ]
    yield part(
        "prediction",
        1,
        every(*verdicts),
        says="predicted_rms: mean squares of uncorrelated things add. Each write has a mean square of gain², whatever the size of the "
        "stream, and a root is taken at the end.",
    )
    x, weights = draw.normal(7, 10), 0.4 * draw.normal(6, 10, 10)
    for placement, hint in (
        ("pre", "f reads the norm of the stream, and the stream itself is never divided."),
        ("post", "the norm takes the sum, and f reads the stream as it is."),
    ):
        yield part(
            f"measured: {placement}",
            1,
            close(
                student.call("stream_rms", x, weights, placement),
                sizes_along(x, weights, placement),
                1e-4,
                1e-5,
            ),
            says=f"stream_rms under {placement}: a list of plain numbers, the first before any sublayer; {hint} The mean square is taken "
            "over all tokens and channels, the root after it.",
        )
    late = next(
        s
        for s in range(1, 10_000)
        if given["GAIN"] / (1 + (s - 1) * given["GAIN"] ** 2) ** 0.5 < given["FAINT"]
    )
    yield part(
        "late sublayers",
        1,
        close(student.probe("probe_value", "LATE"), late, 0.0, 1e-9),
        says="LATE: the sublayer s meets the stream that s − 1 sublayers have made. A strict 'less than', counted from 1.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 3 · Who gets how much gradient? (4 points)

The same stack, and a loss on top: with a `target` of the shape of `x`,

$$L = \frac1n\sum_{\text{tokens, channels}} \text{target} \cdot x_S , \qquad n = \text{number of tokens}.$$

`gradient_norms(x, weights, target, placement, final=False)` gives a list of $S$ numbers, first layer first: the Frobenius norm of
$\partial L/\partial W_s$. With `final=True` there is one more norm (`rms`) between the stack and the loss, as is usual in Pre-Norm models. Leave the caller's tensors as they were: do not switch on `requires_grad`, and leave no `.grad` behind.

**Predict first**, for twenty sublayers under Pre-Norm without and with the final norm, and under Post-Norm:
do the numbers in the list rise, fall, or stay about the same? Then plot the three lists. One of them holds a surprise, which shows what makes the gradients of Pre-Norm's last layers small.
"""


# %% tags=["solution:q3"]
def gradient_norms(x, weights, target, placement, final=False):
    """Measure the norm of the loss's gradient for each of the weights, first layer first."""
    ### BEGIN SOLUTION
    layers = [weight.detach().clone().requires_grad_() for weight in weights]
    stream = x.detach()
    for layer in layers:
        if placement == "pre":
            stream = stream + rms(stream) @ layer
        else:
            stream = rms(stream + stream @ layer)
    top = rms(stream) if final else stream
    loss = (target.detach() * top).sum() / len(x)
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, layers)]
    ### END SOLUTION


# %% tags=["test:q3", "points:4"]
goal = torch.randn(256, 64)
public(
    "q3",
    lambda: (
        len(gradient_norms(tokens, matrices, goal, "pre")) == DEPTH,
        "one number for each sublayer",
    ),
    lambda: (
        min(gradient_norms(tokens, matrices, goal, "post")) > 0,
        "every matrix has an influence on the loss, so no gradient is 0",
    ),
)
### BEGIN HIDDEN TESTS


def slopes(x, weights, target, placement, final):
    """Norms of the gradients, by autograd in float64."""
    leaf = weights.double().requires_grad_()
    state = x.double()
    for index in range(len(leaf)):
        state = (
            state + rooted(state) @ leaf[index]
            if placement == "pre"
            else rooted(state + state @ leaf[index])
        )
    state = rooted(state) if final else state
    (whole,) = torch.autograd.grad((target.double() * state).sum() / x.shape[0], leaf)
    return [float(one) for one in whole.flatten(1).norm(dim=1)]


def test_q3(student, draw, given):
    x, weights, target = draw.normal(9, 8), 0.3 * draw.normal(5, 8, 8), draw.normal(9, 8)
    for placement, final, hint in (
        ("pre", False, "f reads the norm of the stream, nothing stands after the last sum."),
        ("post", False, "each norm takes a sum; the last one is part of the stack."),
        ("pre", True, "final=True puts one more norm between the stack and the loss."),
    ):
        got = student.probe("probe_gradient_norms", x, weights, target, placement, final)
        yield part(
            f"{placement}{' with a final norm' if final else ''}",
            1,
            close(item(got, "first"), slopes(x, weights, target, placement, final), 1e-3, 1e-6),
            says=f"gradient_norms under {placement}: {hint} The loss divides by the number of tokens, the list starts with the first layer.",
        )
    got = student.probe("probe_gradient_norms", x, weights, target, "pre", False)
    again = close(item(got, "second"), slopes(x, weights, target, "pre", False), 1e-3, 1e-6)
    yield part(
        "leaves no trace",
        1,
        every(again, equal(item(got, "traces"), "none")),
        says="Asked twice, the same answer, and the caller's weights are as before: gradients of .backward() add up in .grad; "
        "torch.autograd.grad on copies leaves nothing behind.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 4 · DeepNorm's two constants (5 points)

DeepNorm keeps the norm where Post-Norm has it, and computes $x \leftarrow N(\alpha x + f(x))$. It also multiplies the initialization of *some* matrices by
$\beta$. For a model with $N$ encoder layers and $M$ decoder layers (here $N$ is a number, not the norm), the constants are:

| | $\alpha$ encoder | $\beta$ encoder | $\alpha$ decoder | $\beta$ decoder |
| --- | --- | --- | --- | --- |
| encoder only | $(2N)^{1/4}$ | $(8N)^{-1/4}$ | | |
| decoder only | | | $(2M)^{1/4}$ | $(8M)^{-1/4}$ |
| both | $0.81\,(N^4M)^{1/16}$ | $0.87\,(N^4M)^{-1/16}$ | $(3M)^{1/4}$ | $(12M)^{-1/4}$ |

Public copies of DeepNorm have lost the sign of an exponent, put $\alpha$ on the branch instead of the skip, and used the $\alpha$ of 32 layers at every depth. So:

- `deepnorm_constants(encoder, decoder)` gives a dict with the keys `"encoder"` and `"decoder"`; each value is a pair $(\alpha, \beta)$, or
  `None` where there is no such stack. If both numbers are zero, raise a `ValueError`.
- `init_gain(matrix, beta)` gives the factor for one of `"query" "key" "value" "output" "up" "down"`. Which two keep a factor of 1? *Think before
  you look it up:* $\beta$ is there to bound how far the **output** of a branch moves. Which matrices do not affect the bound on the size of that output? For a name that is not among the six, raise a `ValueError`.
- `DEEPEST`: the largest number of layers of an encoder-only model whose $\alpha$ does not exceed **your** `ALPHA_LIMIT`.
"""


# %% tags=["solution:q4"]
def deepnorm_constants(encoder, decoder):
    """Give {"encoder": (alpha, beta) or None, "decoder": (alpha, beta) or None}."""
    ### BEGIN SOLUTION
    if encoder + decoder <= 0:
        raise ValueError(f"a model has layers; got {encoder} and {decoder}")
    if encoder and decoder:
        mixed = (encoder**4 * decoder) ** (1 / 16)
        return {
            "encoder": (0.81 * mixed, 0.87 / mixed),
            "decoder": ((3 * decoder) ** 0.25, (12 * decoder) ** -0.25),
        }
    layers = encoder + decoder
    single = ((2 * layers) ** 0.25, (8 * layers) ** -0.25)
    return {"encoder": single if encoder else None, "decoder": single if decoder else None}
    ### END SOLUTION


def init_gain(matrix, beta):
    """Give the factor on the initialization of a matrix: 1 or beta."""
    ### BEGIN SOLUTION
    if matrix in ("query", "key"):
        return 1.0
    if matrix in ("value", "output", "up", "down"):
        return beta
    raise ValueError(f"unknown matrix {matrix!r}; choose query, key, value, output, up or down")
    ### END SOLUTION


### BEGIN SOLUTION stub: DEEPEST = ...
DEEPEST = math.floor(ALPHA_LIMIT**4 / 2)
### END SOLUTION

# %% tags=["test:q4", "points:5"]
public(
    "q4",
    lambda: (
        set(deepnorm_constants(6, 0)) == {"encoder", "decoder"},
        "a dict with the keys encoder and decoder",
    ),
    lambda: (deepnorm_constants(6, 0)["decoder"] is None, "without a decoder its value is None"),
    lambda: (
        all(a > 1 > b for a, b in [deepnorm_constants(0, n)["decoder"] for n in (1, 8, 100)]),
        "alpha makes the skip larger, beta makes the branch smaller",
    ),
    lambda: (isinstance(DEEPEST, int), "DEEPEST is a whole number; yours is none yet"),
)
### BEGIN HIDDEN TESTS


def test_q4(student, draw, given):
    deep = draw.integers(20, 400)
    for name, encoder in (("encoder only", True), ("decoder only", False)):
        verdicts = []
        for layers in (given["DEPTH"], deep):
            want = [math.sqrt(math.sqrt(2 * layers)), 1 / math.sqrt(math.sqrt(8 * layers))]
            got = student.call("deepnorm_constants", *((layers, 0) if encoder else (0, layers)))
            mine, other = ("encoder", "decoder") if encoder else ("decoder", "encoder")
            verdicts.append(close(got, {mine: want, other: None}, 1e-5))
        yield part(
            name,
            1,
            every(*verdicts),
            says=f"deepnorm_constants for {name}: 2 and 8 stand under fourth roots; alpha grows with depth, beta falls. The other stack is None.",
        )
    verdicts = [
        close(
            student.call("deepnorm_constants", n, m),
            {
                "encoder": [0.81 * n**0.25 * m**0.0625, 0.87 / (n**0.25 * m**0.0625)],
                "decoder": [math.sqrt(math.sqrt(3 * m)), 1 / math.sqrt(math.sqrt(12 * m))],
            },
            1e-5,
        )
        for n, m in ((6, 6), (given["DEPTH"], 4), (500, deep))
    ]
    yield part(
        "encoder and decoder",
        1,
        every(*verdicts),
        says="deepnorm_constants for both: the encoder's constants know the decoder's depth; a decoder layer has three sublayers, hence 3 "
        "and 12. In the sixteenth root N stands to the power 4, M to the power 1.",
    )
    gains = [
        student.call("init_gain", name, 0.3)
        for name in ("query", "key", "value", "output", "up", "down")
    ]
    nobody = student.call("init_gain", "embedding", 0.3)
    none = student.call("deepnorm_constants", 0, 0)
    yield part(
        "which matrices",
        1,
        every(
            *(
                close(got, want, 1e-9)
                for got, want in zip(gains, (1.0, 1.0, 0.3, 0.3, 0.3, 0.3), strict=True)
            ),
            raises(nobody, "ValueError"),
            raises(none, "ValueError"),
        ),
        says="init_gain: queries and keys only decide where attention looks; what it carries is a mean of values, however they are "
        "drawn. Nonsense (an unknown matrix, a model without layers) raises a ValueError.",
    )
    limit = given["ALPHA_LIMIT"]
    yield part(
        "DEEPEST",
        1,
        close(
            student.probe("probe_value", "DEEPEST"),
            max(n for n in range(1, 2000) if (2 * n) ** 0.25 <= limit),
            0.0,
            1e-9,
        ),
        says="DEEPEST: solve (2N)^(1/4) ≤ ALPHA_LIMIT for N, a whole number of layers.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## Question 5 · A HybridNorm block (4 points)

HybridNorm normalizes *inside* attention, and puts one more norm between attention and the feed-forward layer:

$$Y = X + \mathrm{MHA}_{QKV}(X), \qquad Z = N(Y), \qquad X' = Z + \mathrm{FFN}(Z).$$

- The projections read the stream **as it is**: no norm before them.
- $Q$, $K$ **and** $V$ are normalized **per head**: split into heads first, then apply `rms` over the channels of each head. $Q$, $K$ and $V$ have one gain each, which all heads share.
- The second skip carries $Z$, not $Y$. That is the Post-Norm in this block.

`hybrid_block(x, p, heads)` takes `x` of shape `(time, d)` and a dict `p` of tensors: `"q" "k" "v" "out"` of shape `(d, d)`, used as `x @ p["q"]`;
`"up"` `(d, h)` and `"down"` `(h, d)` with a GELU between them (`F.gelu`); gains `"q_gain" "k_gain" "v_gain"` of the width of one
head, and `"gain"` `(d,)` for $N$. Attention itself is given as `attend`, whose inputs and output have the shape `(heads, time, width of a head)`. Head $i$, counted from 0, has the $d/\text{heads}$ channels that start at channel $i \cdot d/\text{heads}$.

*Two questions to think about.* $V$ is normalized per head, so with gains of 1 every head returns a weighted mean of vectors of length $\sqrt{d/\text{heads}}$.
What does that say about how fast the stream can grow, whatever the weights of the projections to $Q$, $K$ and $V$? And suppose that these projections read `rms(x)`, without a gain, instead of `x`: what happens to the result? Predict it, try it, and say which property of a norm is the reason.
"""


# %%
def attend(q, k, v):
    """Causal attention, each of shape (heads, time, width)."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


# %% tags=["solution:q5"]
def hybrid_block(x, p, heads):
    """One HybridNorm block on x of shape (time, d)."""
    ### BEGIN SOLUTION
    time, dim = x.shape

    def split(name):
        return (x @ p[name]).view(time, heads, dim // heads).transpose(0, 1)

    q, k, v = (rms(split(name), p[f"{name}_gain"]) for name in ("q", "k", "v"))
    written = attend(q, k, v).transpose(0, 1).reshape(time, dim)
    z = rms(x + written @ p["out"], p["gain"])
    return z + F.gelu(z @ p["up"]) @ p["down"]
    ### END SOLUTION


# %% tags=["test:q5", "points:4"]
def parameters(dim, heads, hidden):
    """Draw the parameters of a block."""
    shapes = {name: (dim, dim) for name in ("q", "k", "v", "out")}
    shapes |= {"up": (dim, hidden), "down": (hidden, dim)}
    p = {name: torch.randn(shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    return (
        p
        | {f"{name}_gain": torch.ones(dim // heads) for name in ("q", "k", "v")}
        | {"gain": torch.ones(dim)}
    )


public(
    "q5",
    lambda: (
        hybrid_block(torch.randn(5, 12), parameters(12, 3, 20), 3).shape == (5, 12),
        "the block gives another shape than that of x",
    ),
)
### BEGIN HIDDEN TESTS


def drawn(draw, dim, heads, hidden):
    p = {name: draw.normal(dim, dim) * dim**-0.5 for name in ("q", "k", "v", "out")}
    p |= {
        "up": draw.normal(dim, hidden) * dim**-0.5,
        "down": draw.normal(hidden, dim) * hidden**-0.5,
    }
    p |= {f"{name}_gain": torch.ones(dim // heads) for name in ("q", "k", "v")}
    return p | {"gain": 1 + 0.5 * draw.normal(dim)}


def by_equation(x, p, heads):
    """The block in float64, one head after the other."""
    x, p = x.double(), {name: tensor.double() for name, tensor in p.items()}
    width = x.shape[1] // heads
    written = []
    for head in range(heads):
        lanes = slice(head * width, (head + 1) * width)
        query, key, value = (rooted((x @ p[n])[:, lanes], p[f"{n}_gain"]) for n in ("q", "k", "v"))
        logits = query @ key.T / width**0.5
        future = torch.ones_like(logits).triu(1).bool()
        written.append(logits.masked_fill(future, -torch.inf).softmax(-1) @ value)
    middle = rooted(x + torch.cat(written, 1) @ p["out"], p["gain"])
    return middle + torch.nn.functional.gelu(middle @ p["up"]) @ p["down"]


def test_q5(student, draw, given):
    x, p = 3 * draw.normal(6, 8), drawn(draw, 8, 1, 12)
    quiet = p | {"down": torch.zeros_like(p["down"])}
    yield part(
        "attention half",
        1,
        close(
            student.call("hybrid_block", x, quiet, 1), by_equation(x, quiet, 1).float(), 1e-3, 1e-4
        ),
        says="One head, and a feed-forward layer that writes nothing: the projections read x as it is, q, k and v are normalized, x is "
        "added, and N takes the sum.",
    )
    deaf = p | {"out": torch.zeros_like(p["out"])}
    yield part(
        "feed-forward half",
        1,
        close(
            student.call("hybrid_block", x, deaf, 1), by_equation(x, deaf, 1).float(), 1e-3, 1e-4
        ),
        says="Attention that writes nothing: the feed-forward layer reads Z = N(Y), and Z, not Y, is what its skip carries.",
    )
    x, p = 2 * draw.normal(7, 12), drawn(draw, 12, 3, 10)
    yield part(
        "several heads",
        1,
        close(student.call("hybrid_block", x, p, 3), by_equation(x, p, 3).float(), 1e-3, 1e-4),
        says="Three heads: split first, then normalize each head by itself. A view of shape (heads, time, …) mixes tokens and "
        "channels up; split the channels, then transpose.",
    )
    p |= {f"{name}_gain": 1 + 0.5 * draw.normal(4) for name in ("q", "k", "v")}
    yield part(
        "gains",
        1,
        close(student.call("hybrid_block", x, p, 3), by_equation(x, p, 3).float(), 1e-3, 1e-4),
        says="Gains that are not 1: q, k and v have their own, of the width of one head, and all heads share them.",
    )


### END HIDDEN TESTS

# %% [markdown]
r"""
## One open question, without points

You have `gradient_norms`. Add DeepNorm to it, with your own `deepnorm_constants`, and plot its lists for Post-Norm, Pre-Norm and DeepNorm at a depth of 60. Which of them would you trust with a large learning rate at the first step, and what would change
your mind?

The grader runs the next cell together with your definitions. It is no secret.
"""

# %% tags=["probe:q1"]
import torch


def probe_block(student, name, x, up, down, one, two, more):
    """One of your placements around a small sublayer; and how often it called the sublayer."""
    calls = []

    def norm(gain):
        return lambda t: gain * t * (t.square().mean(-1, keepdim=True) + 1e-6).rsqrt()

    def f(t):
        calls.append(1)
        return (t @ up).tanh() @ down

    norms = [norm(one), norm(two)] if name == "sandwich" else [norm(one)]
    return [getattr(student, name)(x, f, *norms, *more), len(calls)]


def probe_gradient_norms(student, x, weights, target, placement, final):
    """Ask gradient_norms twice, and look at the tensors afterwards."""
    before = weights.clone()
    first = student.gradient_norms(x, weights, target, placement, final=final)
    second = student.gradient_norms(x, weights, target, placement, final=final)
    given = (x, weights, target)
    changed = not torch.equal(before, weights) or any(
        t.requires_grad or t.grad is not None for t in given
    )
    return {"first": first, "second": second, "traces": "some" if changed else "none"}


def probe_value(student, name):
    """A value of yours."""
    return getattr(student, name)
