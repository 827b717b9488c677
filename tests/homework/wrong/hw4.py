"""Typical wrong solutions of homework 4: their points, and their messages.

A question that is not replaced keeps the reference solution. Question 3 starts question 2's kernel.
"""

# The mean is taken over the lanes and not over the values; bytes counted as if all were float32.
BLOCK_AND_ROW = {
    "name": "the block is taken for the row",
    "replace": {
        "q1": (("0 if size == 4 else 2 * (size + 4)", "0"),),
        "q2": (("axis=0) / N + eps", "axis=0) / BLOCK + eps"),),
        "q5": (("axis=0) / N)", "axis=0) / BLOCK)"), (" * (1 + z * (1 - sigmoid))", "")),
    },
    "points": {"q1": 1, "q2": 2, "q3": 2, "q4": 3, "q5": 1, "q6": 3},
    "says": {
        "q1": "in float32 both casts vanish",
        "q2": "is the mean over N values?",
        "q3": "BLOCK the next power of two",
        "q5": "The derivative of z·sigmoid(z) has two terms",
    },
}

# Stores without a mask, E[x²] − E[x]², a gradient without its second term, atomics in disguise.
TUTORIAL = {
    "name": "as in the first tutorial",
    "replace": {
        "q2": (("tl.sigmoid(z), mask=here)", "tl.sigmoid(z))"),),
        # The room behind y keeps this kernel from writing into somebody else's memory.
        "q3": (
            ("torch.empty(x.shape, dtype=x.dtype)", "torch.empty(2 * x.numel() + 64)"),
            ("return y\n", "return y[: x.numel()].view(flat_x.shape)\n"),
        ),
        "q4": (
            ("variance + (block - n) / n * mean**2", "variance * n / block"),
            (
                "tl.where(counts, values - tl.sum(values, axis=0) / N, 0.0)",
                "tl.sum(values, axis=0) / N",
            ),
            (
                "from_mean * from_mean, axis=0) / N",
                "values * values, axis=0) / N - from_mean * from_mean",
            ),
        ),
        "q5": (("(u - standard * tl.sum(u * standard, axis=0) / N)", "u"),),
        "q6": (
            ("tl.program_id(0), M, tl.num_programs(0)", "first, tl.minimum(M, first + share)"),
            (
                "    for number",
                "    share = (M + tl.num_programs(0) - 1) // tl.num_programs(0)\n"
                "    first = tl.program_id(0) * share\n"
                "    for number",
            ),
        ),
    },
    "points": {"q1": 3, "q2": 2, "q3": 1, "q4": 1, "q5": 1, "q6": 2},
    "says": {
        "q2": "A store needs its mask, too",
        "q3": "Wrong dtype",
        "q4": "subtract the mean before you square",
        "q5": "r depends on every value of the row",
        "q6": "Program p owns the rows p, p + P",
    },
}

# No kernel where one is asked for, and a sum that only an interpreter can make.
NO_KERNEL = {
    "name": "PyTorch where a kernel is asked for",
    "replace": {
        "q2": """class Fake:
    def __getitem__(self, grid):
        def start(x, z, weight, y, rstd, x_stride, z_stride, N, eps, BLOCK):
            wide = x.float()[:, :N]
            r = torch.rsqrt(wide.square().mean(-1) + eps)
            rstd[: len(r)] = r
            out = weight[:N] * wide * r[:, None] * F.silu(z.float()[:, :N])
            y[: out.numel()] = out.flatten().to(y.dtype)

        return start


gated_forward = Fake()
""",
        "q3": """def gated_norm(x, z, weight, eps=1e-5):
    wide = x.float()
    standard = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (weight.float() * standard * F.silu(z.float())).to(x.dtype)
""",
        "q6": (("tl.zeros((BLOCK,), tl.float32)", "tl.zeros((BLOCK,), tl.float16)"),),
    },
    "points": {"q1": 3, "q2": 0, "q3": 0, "q4": 3, "q5": 3, "q6": 0},
    "says": {
        "q2": "a function under @triton.jit",
        "q3": "0 times, not once",
        "q6": "compiles no such loop for a GPU",
    },
}

WRONG = (BLOCK_AND_ROW, TUTORIAL, NO_KERNEL)
