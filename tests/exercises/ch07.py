"""Answers to the exercises of chapter 07, right and wrong."""

from tests.exercises import Exercise

DYT = "def my_dyt(x, alpha=0.5, weight=None, bias=None):\n"
AFFINE = "    y = y if weight is None else y * weight\n    return y if bias is None else y + bias"

EXERCISES = [
    Exercise(
        "1",
        wrong={
            # α taken for a gain, and a relative's curve
            DYT + "    y = alpha * torch.tanh(x)\n" + AFFINE: "outside the tanh",
            DYT + "    y = torch.erf(alpha * x)\n" + AFFINE: "the squash is erf",
        },
    ),
    Exercise(
        "2",
        right='yours = {"at 1": 11 / 15, "at 7": 7 / 5, "times flatter": 11 / 3}',
        wrong={
            # one line for each token, not for each entry
            'yours = {"at 1": 0.6, "at 7": 7 / 5, "times flatter": 3}': (
                "not right yet: at 1, times flatter. Hint: three entries are 1"
            ),
            'yours = {"at 1": 11 / 15, "at 7": 7 / 25, "times flatter": 11 / 3}': (
                "not right yet: at 7"
            ),
        },
    ),
    Exercise("4", open_ended=True),
]
