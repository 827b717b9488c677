"""Answers to the exercises of appendix D, right and wrong."""

from tests.exercises import Exercise

SUM = "def my_sum(x):\n"

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"not 0": 4, "normal": 15, "no overflow": 14, "one scale does it": False}',
        wrong={
            # the smallest number itself for half of it, and one octave too many at the top
            'yours = {"not 0": 5, "normal": 15, "no overflow": 14, "one scale does it": False}': (
                "not right yet: not 0. Hint: the limits are"
            ),
            'yours = {"not 0": 4, "normal": 15, "no overflow": 15, "one scale does it": True}': (
                "not right yet: no overflow, one scale does it"
            ),
        },
    ),
    Exercise(
        "2",
        wrong={
            # one after another; and the right result in a format that was not allowed to be stored
            SUM + "    total = x[..., 0]\n    for i in range(1, x.shape[-1]):\n"
            "        total = total + x[..., i]\n    return total": "add numbers of similar size",
            SUM + "    return x.float().sum(-1)": "bfloat16",
        },
    ),
]
