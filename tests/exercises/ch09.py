"""Exercises of chapter 09, norms at the memory wall: right answers and the usual wrong ones."""

from tests.exercises import Exercise

GRADIENTS = "def my_gradients(dy, x, w, rstd):\n    "
PARTIALS = "def my_partials(terms, programs):\n    "
BLOCKS = "return torch.stack([t.sum(0) for t in terms.tensor_split(programs)])"

EXERCISES = [
    Exercise(
        "1",
        right='yours = {"bytes": 268_435_456, "share": 0.847}',
        wrong={
            'yours = {"bytes": 134_217_728, "share": 0.423}': "two tensors are read and two",
            'yours = {"bytes": 268_435_456, "share": 2.84}': "not right yet: share",
        },
    ),
    Exercise(
        "2",
        right='yours = {"tokens": 295, "norm": 0}',
        wrong={
            'yours = {"tokens": 590, "norm": 0}': "operations for each byte of weights",
            'yours = {"tokens": 295, "norm": 295}': "not right yet: norm",
        },
    ),
    Exercise(
        "3",
        right='yours = {"stops": 256, "row": 419_430}',
        wrong={
            'yours = {"stops": 1000, "row": 419_430}': "half of a unit in the last place",
            'yours = {"stops": 256, "row": 419_431}': "not right yet: row",
        },
    ),
    Exercise(
        "4",
        wrong={
            GRADIENTS + "return right(dy, x, w, rstd, None)": "what multiplies x̂",
            GRADIENTS + "return right(dy, x, 1 + w, rstd, None)[0], dy * x * rstd": "not right yet",
        },
    ),
    Exercise(
        "5",
        wrong={
            PARTIALS + BLOCKS: "interleaved",
            PARTIALS + "return terms[:programs]": "a program without a row",
        },
    ),
    Exercise("7", open_ended=True),
]
