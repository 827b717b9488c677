"""Exercises of chapter 05, DeepNorm: right answers and typical wrong ones."""

from tests.exercises import Exercise

STEP = "def my_step(x, f, norm, depth):\n    return "
GAIN = "def my_gain(name, blocks):\n    return "

EXERCISES = [
    Exercise(
        "1",
        wrong={
            STEP + "norm(x + (2 * depth) ** 0.25 * f(x))": "α multiplies the branch",
            STEP + "norm((2 * depth) ** 0.5 * x + f(x))": "fourth root",
            STEP + "norm((3 * depth) ** 0.25 * x + f(x))": "decoder's of an encoder-decoder",
        },
    ),
    Exercise(
        "2",
        wrong={
            GAIN + "(8 * blocks) ** -0.25": "not right yet: q, k",
            GAIN + "1.0 if name in ('q', 'k') else (8 * blocks) ** 0.25": "v, out, up, down",
        },
    ),
    Exercise(
        "3",
        right='yours = {"sgd": 0, "adam": 0.5}',
        wrong={
            'yours = {"sgd": 0, "adam": 0}': "once or twice",
            'yours = {"sgd": 0.5, "adam": 0.5}': "not right yet: sgd",
        },
    ),
    Exercise("5", open_ended=True),
]
