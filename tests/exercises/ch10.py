"""Exercises of chapter 10, choosing a norm: right answers and the usual wrong ones."""

from tests.exercises import Exercise

NORM = """class MyNorm(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return """
HOLM = "def my_holm(p_values):\n    m = len(p_values)\n    return "

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"operations": 1000, "bytes": 1200}',
        wrong={
            'yours = {"operations": 960, "bytes": 1200}': "not right yet: operations",
            'yours = {"operations": 1000, "bytes": 1000}': "what does this budget count",
        },
    ),
    Exercise(
        "2",
        right='yours = {"adjusted": [0.02, 0.04, 0.04, 0.03], "how many": 4}',
        wrong={
            'yours = {"adjusted": [0.02, 0.12, 0.08, 0.04], "how many": 2}': "by 4, 3, 2, 1",
            'yours = {"adjusted": [0.02, 0.03, 0.04, 0.03], "how many": 4}': "never let it fall",
        },
    ),
    Exercise(
        "3",
        right='yours = {"A": "a", "B": "a", "C": "ab", "D": "b"}',
        wrong={
            'yours = {"A": "a", "B": "a", "C": "a", "D": "b"}': "told apart from nobody",
            'yours = {"A": "a", "B": "b", "C": "c", "D": "d"}': "not right yet: B, C, D",
        },
    ),
    Exercise(
        "4",
        wrong={
            NORM + "self.weight * x / (x.abs().amax() + 1e-6)": "more than the last axis",
            NORM + "self.weight * x / x.abs().amax(dim=-1, keepdim=True)": "no eps",
            NORM + "self.weight * x / (x.abs().mean(-1, keepdim=True) + 1e-6)": "something else",
        },
    ),
    Exercise(
        "5",
        wrong={
            HOLM + "[min(1.0, m * p) for p in p_values]": "the factor falls from m to 1",
            HOLM + "list(p_values)": "of 20 not right",
        },
    ),
    Exercise("7", open_ended=True),
]
