"""Answers to the exercises of chapter 01, BatchNorm vs LayerNorm."""

from . import Exercise

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
ONE_GROUP = """def my_group_norm(x, num_groups, eps=1e-5):
    return layer_norm(x.reshape(x.shape[0], -1), eps=eps).reshape(x.shape)
"""

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"mean": 2, "variance": 8, "last entry": -1.4142}',
        wrong={
            'yours = {"mean": 2, "variance": 32 / 3, "last entry": -1.2247}': "divides by four",
            'yours = {"mean": 2, "variance": 8, "last entry": 1.4142}': "not right yet: last entry",
        },
    ),
    Exercise(
        "2",
        right='yours = {"running variance": 3.185, "steps": 44}',
        wrong={
            'yours = {"running variance": 1.9975, "steps": 44}': "unbiased variance",
            'yours = {"running variance": 3.185, "steps": 43}': "not right yet: steps",
        },
    ),
    Exercise(
        "3",
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
    Exercise("4", wrong={FORGETS: "the denominator is detached"}),
    Exercise("5", wrong={ONE_GROUP: "not over each group"}),
    Exercise("6", open_ended=True),
    Exercise(
        "7",
        right="def query_for(key):\n    return key",
        wrong={
            "def query_for(key):\n    return torch.ones(8).double()": "points at the key",
            "def query_for(key):\n    return -key": "points at the key",
        },
    ),
    Exercise("8", open_ended=True),
]
