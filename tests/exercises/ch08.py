"""Exercises of chapter 08, nGPT: right answers and typical wrong ones."""

from tests.exercises import Exercise

STEP = "def my_step(h, f, alpha):\n    b = f(h) / f(h).norm(dim=-1, keepdim=True)\n    "
RAW = "def my_step(h, f, alpha):\n    y = h + alpha * (f(h) - h)\n    "
UNIT = "return y / y.norm(dim=-1, keepdim=True)"

EXERCISES = [
    Exercise(
        "1",
        wrong={
            STEP + "return h + alpha.abs() * (b - h)": "must have length 1",
            RAW + UNIT: "the branch is not divided by its length",
            STEP + "y = b + alpha.abs() * (h - b)\n    " + UNIT: "the absolute value of the share",
            STEP + "y = h + alpha * (b - h)\n    " + UNIT: "the sign of a share must not matter",
        },
    ),
    Exercise(
        "2",
        right="yours = [1 / 5**0.5, 2 / 5**0.5]",
        wrong={
            "yours = [0.2, 0.4]": "then to length 1",
            "yours = [1, 2]": "half-way along the chord",
        },
    ),
    Exercise("3", right="yours = 7.71", wrong={"yours = 15.4": "mind the 2"}),
    Exercise("5", open_ended=True),
]
