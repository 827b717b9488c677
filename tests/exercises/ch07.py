"""Answers to the exercises of chapter 07, right and wrong."""

from tests.exercises import Exercise

DERF = "def my_derf(x, alpha=0.5, shift=0.0, weight=None, bias=None):\n"
BACK = (
    "def my_backward(x, alpha, gain, g):\n    t = torch.tanh(alpha * x)\n"
    "    slope = 1 - t * t\n    return "
)

EXERCISES = [
    Exercise(
        "1",
        right="yours = [4, -2, 16, 1]",
        wrong={
            # the shift forgotten
            "yours = [3, -3, 15, 0]": "tanh u",
            # tanh taken for a line
            "yours = [4, -2, 21.4, 1]": "1 of 4 not right",
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
    Exercise(
        "3",
        wrong={
            DERF + "    return dynamic_tanh(x, alpha, weight, bias)": "tanh",
            DERF + "    y = torch.erf(alpha * (x + shift))\n"
            "    y = y if weight is None else y * weight\n"
            "    return y if bias is None else y + bias": "shift",
        },
    ),
    Exercise(
        "4",
        wrong={
            BACK + "alpha * slope * g, (x * g * gain * slope).sum().reshape(1), (g * t).sum(0)": (
                "not right yet: x"
            ),
            BACK + "alpha * g * gain * slope, (x * g * gain).sum().reshape(1), (g * t).sum(0)": (
                "not right yet: alpha"
            ),
            BACK + "alpha * g * gain * slope, (x * g * gain * slope).sum().reshape(1), g * t": (
                "not right yet: gain"
            ),
        },
    ),
    Exercise("5", open_ended=True),
    Exercise("7", open_ended=True),
]
