"""Exercises of chapter 09, norms at the memory wall: right answers and typical wrong ones."""

from tests.exercises import Exercise

BACKWARD = """def my_backward(dy, x, g, r):
    standard, u = x / r, g * dy
    dx = (u - standard * (u * standard).mean({mean})) / r
    return {result}
"""
MEAN = "-1, keepdim=True"

EXERCISES = [
    Exercise(
        "1",
        wrong={
            BACKWARD.format(mean=MEAN, result="u / r, (dy * standard).sum(0)"): (
                "the statistics are detached"
            ),
            BACKWARD.format(
                mean="", result="dx, (dy * standard).sum(0)"
            ): "gradient of x, the value at",
            BACKWARD.format(mean=MEAN, result="dx, dy * standard"): "the backward pass raised",
            BACKWARD.format(mean=MEAN, result="dx, (u * standard).sum(0)"): "gradient of the gain",
        },
    ),
    Exercise(
        "2",
        right='yours = {"bytes": 268_435_456, "share": 0.847}',
        wrong={
            'yours = {"bytes": 134_217_728, "share": 0.423}': "two tensors are read and two",
            'yours = {"bytes": 268_435_456, "share": 2.84}': "not right yet: share",
        },
    ),
    Exercise("4", open_ended=True),
]
