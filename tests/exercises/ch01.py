"""Answers to the exercises of chapter 01, BatchNorm vs LayerNorm."""

from . import Exercise

BATCH_NORM = """def my_batch_norm(
    x, running_mean, running_var, training=False, momentum=0.1, eps=1e-5
):
    axes, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean, var = running_mean.to(wide.dtype), running_var.to(wide.dtype)
    if training:
        mean, var = wide.mean(axes), wide.var(axes, correction={0})
        running_mean.lerp_(mean.detach().to(running_mean.dtype), {1})
        unbiased = wide.var(axes, correction={2}).detach()
        running_var.lerp_(unbiased.to(running_var.dtype), {1})
    return ((wide - mean.view(shape)) / (var.view(shape) + eps).sqrt()).to(x.dtype)
"""
FORGETS = """class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(-1, keepdim=True)
        centred = centred - centred.mean(-1, keepdim=True)
        r = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        ctx.save_for_backward(centred / r, r)
        return (centred / r).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        standard, r = ctx.saved_tensors
        return ((g - g.mean(-1, keepdim=True)) / r).to(g.dtype), None
"""

EXERCISES = [
    Exercise(
        "1",
        wrong={
            BATCH_NORM.format(0, "momentum", 0): "the biased variance is stored",
            BATCH_NORM.format(1, "momentum", 1): "the variance divides by n − 1 instead of n",
            BATCH_NORM.format(0, "1 - momentum", 1): "momentum is the other way round",
        },
    ),
    Exercise(
        "2",
        right='yours = {"output": [1, -1], "different outputs": 2, "solves XOR": False}',
        wrong={
            'yours = {"output": [4, -4], "different outputs": 2, "solves XOR": False}': (
                "equal distances"
            ),
            'yours = {"output": [1, -1], "different outputs": 2, "solves XOR": True}': (
                "not right yet: solves XOR"
            ),
        },
    ),
    Exercise("3", wrong={FORGETS: "the denominator is detached"}),
    Exercise(
        "4",
        right="def query_for(key):\n    return key",
        wrong={
            "def query_for(key):\n    return torch.ones(8).double()": "points at the key",
            "def query_for(key):\n    return -key": "points at the key",
        },
    ),
]
