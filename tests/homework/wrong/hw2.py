"""Homework 2: wrong solutions of two students, their points, and their messages."""

# Finds the input each time, and mends only what this input shows.
NARROW = {
    "name": "mended for one input",
    "replace": {
        "q1": ((" + eps).sqrt()", ".sqrt() + eps)"),),
        "q2": (
            (
                "x.to(torch.promote_types(x.dtype, torch.float32))",
                "x / x.abs().amax(-1, keepdim=True)",
            ),
        ),
        "q3": (("x.float().mean(-1, keepdim=True)", "x.float().mean(-1, keepdim=True).detach()"),),
        "q4": (("correction=1)", "correction=0) * len(x) / (len(x) - 1)"),),
        "q5": (("+ eps)", "+ 1e-6)"),),
    },
    "points": {"q1": 3, "q2": 3, "q3": 3, "q4": 3, "q5": 3},
    "says": {
        "q1": "there is a second slip in found_1",
        "q2": "Nothing but the last step may be in half precision",
        "q3": "the subtraction of the mean belongs into the graph",
        "q4": "n counts every value of a channel",
        "q5": "with a weight and another eps",
    },
}

# Names the laws, breaks the rules for exposures, and hands the found code back.
RULES = {
    "name": "exposures out of bounds",
    "replace": {
        "q1": """
LAW_1 = "size"
expose_1 = lambda: torch.tensor([[-1e-4, 1e-4]])
mended_1 = found_1
""",
        "q2": 'LAW_2 = "format"\nexpose_2 = lambda: torch.full((1, 4), 1e20)\nmended_2 = found_2',
        "q3": 'LAW_3 = "shift"\nexpose_3 = lambda: torch.full((1, 8), 2000.0)\nmended_3 = found_3',
        "q4": 'LAW_4 = "memory"\nexpose_4 = lambda: [[1.0], [2.0]]\nmended_4 = found_4',
        "q5": 'LAW_5 = "gradient"\nexpose_5 = lambda: torch.ones(1, 4)\nmended_5 = found_5',
    },
    "points": {"q1": 1, "q2": 1, "q3": 1, "q4": 1, "q5": 1},
    "says": {
        "q1": "a variance (divided by d) of at least 1",
        "q2": "none larger than your LARGEST",
        "q3": "the right one says next to nothing",
        "q4": "An exposure is a float tensor (batch, channels)",
        "q5": "An exposure is a pair of float tensors of one shape",
    },
}

WRONG = (NARROW, RULES)
