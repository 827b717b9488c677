"""Answers to the exercises of chapter 02, Pre-Norm and Post-Norm."""

from . import Exercise

NORMED_SKIP = """def post_norm(x, f, norm):
    return norm(x + f(x))


def pre_norm(x, f, norm):
    x = norm(x)
    return x + f(x)
"""
ONE_TERM = """def pull_back(x, g, eps=1e-5):
    return g / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
"""

EXERCISES = [
    Exercise("1", wrong={NORMED_SKIP: "not right yet: pre"}),
    Exercise(
        "2",
        right='yours = {"post": 10, "pre": 573}',
        wrong={
            'yours = {"post": 9, "pre": 573}': "not right yet: post",
            'yours = {"post": 10, "pre": 10}': "a tangent of 1/S",
        },
    ),
    Exercise("3", wrong={ONE_TERM: "apply its three terms"}),
    Exercise("4", open_ended=True),
]
