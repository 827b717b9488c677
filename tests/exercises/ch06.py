"""Exercises of chapter 06, HybridNorm: right answers and typical wrong ones."""

from tests.exercises import Exercise

BLOCK = "def my_block(x, attention, feed_forward, norm):\n    y = x + attention(x)\n"

EXERCISES = [
    Exercise(
        "1",
        wrong={
            BLOCK + "    return y + feed_forward(norm(y))": "carries the raw stream",
            BLOCK + "    return norm(y + feed_forward(y))": "this is Post-Norm",
        },
    ),
    Exercise(
        "2",
        right='yours = {"pre": 0.277, "hybrid": 0.707, "times": 3.46}',
        wrong={
            'yours = {"pre": 1 / 13, "hybrid": 1 / 2, "times": 12}': "not right yet: pre",
            'yours = {"pre": 0.277, "hybrid": 0.277, "times": 1}': "or one does",
        },
    ),
    Exercise("4", open_ended=True),
]
