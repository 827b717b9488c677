"""Homework 3: wrong solutions of two students, their points, and their messages."""

# Copied from the net: alpha on the branch, signs lost, norms one place off.
COPIED = {
    "name": "copied with the bugs",
    "replace": {
        "q1": (
            ("x + f(norm(x))", "norm(x) + f(norm(x))"),
            ("x + after(f(before(x)))", "after(x + f(before(x)))"),
            ("alpha * x + f(x)", "x + alpha * f(x)"),
        ),
        "q4": (
            ("if encoder and decoder:", "if encoder < 0:"),
            ("(8 * layers) ** -0.25", "(8 * layers) ** 0.25"),
            ("return 1.0", "return beta"),
            ("ALPHA_LIMIT**4 / 2", "ALPHA_LIMIT**4 / 8"),
        ),
        "q5": (
            ("q, k, v = (", "q, k = ("),
            ('for name in ("q", "k", "v"))', 'for name in ("q", "k"))\n    v = split("v")'),
            ('z = rms(x + written @ p["out"], ', 'y = x + written @ p["out"]\n    z = rms(y, '),
            ("return z +", "return y +"),
        ),
    },
    "points": {"q1": 1, "q2": 4, "q3": 4, "q4": 0, "q5": 0},
    "says": {
        "q1": "alpha multiplies the skip x, not what f writes",
        "q4": "alpha grows with depth, beta falls",
        "q5": "Z, not Y, is what its skip carries",
    },
}

# Adds sizes where squares add, counts from 0, and takes gradients the careless way.
SIZES = {
    "name": "sizes added, gradients piled up",
    "replace": {
        "q2": (
            ("math.sqrt(1 + sublayers * gain**2)", "1 + sublayers * gain"),
            ("sizes = [x.square().mean().sqrt().item()]", "sizes = []"),
            ("math.floor(1 / FAINT**2 - 1 / GAIN**2 + 1) + 1", "math.ceil(1 / FAINT**2)"),
        ),
        "q3": (
            (
                "[weight.detach().clone().requires_grad_() for weight in weights]",
                "weights.requires_grad_()",
            ),
            (
                "loss = (target.detach() * top).sum() / len(x)",
                "(target * top).sum().div(len(x)).backward()",
            ),
            ("torch.autograd.grad(loss, layers)", "weights.grad"),
        ),
        "q5": (
            (
                ".view(time, heads, dim // heads).transpose(0, 1)",
                ".view(heads, time, dim // heads)",
            ),
            ("attend(q, k, v).transpose(0, 1)", "attend(q, k, v)"),
        ),
    },
    "points": {"q1": 4, "q2": 0, "q3": 3, "q4": 5, "q5": 2},
    "says": {
        "q2": "mean squares of uncorrelated things add",
        "q3": "gradients of .backward() add up in .grad",
        "q5": "mixes tokens and channels up",
    },
}

WRONG = (COPIED, SIZES)
