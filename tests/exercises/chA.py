"""Answers to the exercises of appendix A, right and wrong."""

from tests.exercises import Exercise

FOLD = "def fold_strip(x, k):\n    for j in range(1, k + 1):\n"

EXERCISES = [
    Exercise(
        "1",
        wrong={
            # always at one half, where no paper is left after the first fold
            FOLD + "        x = x - 2 * torch.relu(x - 0.5)\n    return x": "2 folds, 5 folds",
            # what lies above is cut off, not folded back
            FOLD + "        x = x - torch.relu(x - 0.5**j)\n    return x": "is half as long",
        },
    ),
    Exercise(
        "2",
        right='yours = {"a": -55, "b": 2 ** (-1 / 55), "c": 0.873}',
        wrong={
            # every matrix counted as a step
            'yours = {"a": -110, "b": 2 ** (-1 / 110), "c": 0.762}': "how many steps are there?",
            'yours = {"a": -55, "b": 2 ** (-1 / 55), "c": 0.127}': "not right yet: c",
        },
    ),
]
