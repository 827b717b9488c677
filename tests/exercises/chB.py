"""Answers to the exercises of appendix B, right and wrong."""

from tests.exercises import Exercise

ADAIN = "def my_adain(x, style):\n"

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"without a mask": 2, "with a mask": 1, "share": 8 / 9}',
        wrong={
            # the unbiased variance, and the factor without its root
            'yours = {"without a mask": (21 / 2) ** 0.5 / 2, "with a mask": 1, "share": 8 / 9}': (
                "not right yet: without a mask. Hint: the factor is"
            ),
            'yours = {"without a mask": 2, "with a mask": 1, "share": 2 / 3}': (
                "not right yet: share"
            ),
        },
    ),
    Exercise(
        "2",
        wrong={
            # one style for the whole batch
            ADAIN
            + "    over = {'dim': (0, 2, 3), 'keepdim': True}\n"
            + "    y = x - x.mean((2, 3), keepdim=True)\n"
            + "    y = y / y.std((2, 3), correction=0, keepdim=True)\n"
            + "    return style.std(**over, correction=0) * y + style.mean(**over)": (
                "Hint: one mean for each image and channel"
            ),
            # the deviation is exchanged, the mean kept
            ADAIN
            + "    over = {'dim': (2, 3), 'keepdim': True}\n"
            + "    return x / x.std(**over) * style.std(**over)": "are wrong",
        },
    ),
]
