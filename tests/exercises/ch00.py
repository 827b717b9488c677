"""Answers to the exercises of chapter 00: right ones, and wrong ones with the expected hint."""

from tests.exercises import Exercise

LEAKY = "def leaky_deviation(fan_in, a):\n    return "
EXERCISES = [
    Exercise(
        "1",
        wrong={
            "def my_step(x, f, norm):\n    return torch.relu(x + norm(f(x)))": (
                "this is the step of the recipe 'resnet-v1'"
            ),
            "def my_step(x, f, norm):\n    x = torch.relu(norm(x))\n    return x + f(x)": (
                "the skip is taken after the ReLU"
            ),
            "def my_step(x, f, norm):\n    return x + f(norm(torch.relu(x)))": (
                "the ReLU is applied before the norm"
            ),
        },
    ),
    Exercise(
        "2",
        right='yours = {"a": 1.64, "b": 0.725}',
        wrong={
            'yours = {"a": 2.69, "b": 0.725}': "not right yet: a. Hint: variances add",
            'yours = {"a": 1.64, "b": 1.04}': "not right yet: b",
            "yours = 7.24": "the answer must have one value for each of a, b",
        },
    ),
    Exercise(
        "3",
        wrong={
            LEAKY + "(2 / fan_in) ** 0.5": "not right yet: slope 0.5. Hint: what share",
            LEAKY + "2 / ((1 + a * a) * fan_in)": "not right yet: slope 0.0, slope 0.5",
        },
    ),
    Exercise("5", open_ended=True),
]
