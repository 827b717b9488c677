"""Answers to the exercises of chapter 02, Pre-Norm and Post-Norm."""

from . import Exercise

NORMED_SKIP = """class ToggleBlock(nn.Module):
    def __init__(self, dim, place):
        super().__init__()
        self.place, self.norm = place, LayerNorm(dim)
        self.sublayer = FeedForward(dim, 4 * dim, "gelu")

    def forward(self, x):
        if self.place == "post":
            return self.norm(x + self.sublayer(x))
        x = self.norm(x)
        return x + self.sublayer(x)
"""
ONE_TERM = """def pull_back(x, g, eps=1e-5):
    return g / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
"""

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"post": [0, -(2**0.5), 2**0.5, 0], "pre": [2, 0, 4, 2]}',
        wrong={
            'yours = {"pre": [0, -(2**0.5), 2**0.5, 0], "post": [2, 0, 4, 2]}': (
                "not right yet: post, pre"
            ),
            'yours = {"post": [1, 1 - 2**0.5, 1 + 2**0.5, 1], "pre": [2, 0, 4, 2]}': (
                "what does a norm do to an offset"
            ),
        },
    ),
    Exercise(
        "2",
        right='yours = {"rms": 13**0.5, "factor": 13**-0.5}',
        wrong={
            'yours = {"rms": 13, "factor": 13**-0.5}': "not right yet: rms",
            'yours = {"rms": 13**0.5, "factor": 1 / 13}': "then see J_N",
        },
    ),
    Exercise("3", wrong={NORMED_SKIP: "not right yet: pre"}),
    Exercise("4", wrong={ONE_TERM: "apply its three terms"}),
    Exercise("5", right="yours = 0.0", wrong={"yours = 0.5": "what is N(N(x))"}),
    Exercise("6", open_ended=True),
    Exercise(
        "7",
        right='yours = {"admin": 0.5, "post": 1.25**-6}',
        wrong={
            'yours = {"admin": 0.5, "post": 2**-6}': "not right yet: post",
            'yours = {"admin": 0.25, "post": 1.25**-6}': "multiply",
        },
    ),
    Exercise(
        "8",
        right='yours = {"post": 1.05, "pre": 0.75}',
        wrong={
            'yours = {"post": 2.0, "pre": 0.75}': "not right yet: post",
            'yours = {"post": 1.05, "pre": 1.4}': "a factor 2^p",
        },
    ),
]
