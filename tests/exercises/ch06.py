"""Exercises of chapter 06, HybridNorm: right answers and the usual wrong ones."""

from tests.exercises import Exercise

FIRST = "def my_first_block(x, attention, feed_forward, n1, n2):\n    y = x + attention(n1(x))\n"
RHO = "def my_rho(a, b):\n    ranked = [{} for c in (a, b)]\n    return np.corrcoef(*ranked)[0, 1]"

EXERCISES = [
    Exercise(
        "1",
        right="yours = [2, 2, -2, 2]",
        wrong={
            "yours = [1, 1, -1, 1]": "the norm comes before the skip",
            "yours = [1, 2, -2, 3]": "the norm comes before the skip",
        },
    ),
    Exercise(
        "2",
        right='yours = {"9192": 1.277, "8192": 1.178}',
        wrong={
            'yours = {"9192": 1.377, "8192": 1.279}': "2.5 d²",
            'yours = {"9192": 1.277, "8192": 1.277}': "not right yet: 8192",
        },
    ),
    Exercise(
        "3",
        right='yours = {"rho": 0.6, "orders": 5}',
        wrong={
            'yours = {"rho": 0.6, "orders": 1}': "not right yet: orders",
            'yours = {"rho": 1 / 3, "orders": 5}': "Σd²",
        },
    ),
    Exercise(
        "4",
        wrong={
            FIRST + "    return n2(y) + feed_forward(n2(y))": "normalized copy",
            FIRST.replace("attention(n1(x))", "attention(x)")
            + "    return y + feed_forward(n2(y))": "norm before the sublayer is missing",
        },
    ),
    Exercise(
        "5",
        wrong={
            RHO.format("np.argsort(np.argsort(c))"): "not right yet: ties",
            RHO.format("c"): "ties, no ties",
        },
    ),
    Exercise("7", open_ended=True),
]
