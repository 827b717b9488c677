"""Exercises of chapter 10, choosing a norm: right answers and typical wrong ones."""

from tests.exercises import Exercise

COST = "def sensitivity(losses, rates, most):\n    "
CAPPED = "capped = {r: min(most if x is None else x, most) for r, x in losses.items()}\n    "
HOLM = "def my_holm(p_values):\n    m = len(p_values)\n    return "

EXERCISES = [
    Exercise(
        "1",
        wrong={
            COST
            + CAPPED
            + "return max(capped[r] for r in rates) - min(capped.values())": "the mean",
            COST
            + CAPPED
            + "return sum(capped[r] for r in rates) / len(rates) - min(capped[r] for r in rates)": (
                "the minimum is over losses.values()"
            ),
        },
    ),
    Exercise(
        "2",
        wrong={
            HOLM + "[min(1.0, m * p) for p in p_values]": "the factor falls from m to 1",
            HOLM + "list(p_values)": "of 20 are wrong",
        },
    ),
    Exercise("4", open_ended=True),
]
