"""Typical wrong solutions of homework 4: what they score, and what their authors are told.

A question that is not replaced keeps the reference solution. Question 3 starts question 2's kernel.
"""

# The mean is taken over the lanes and not over the values; bytes counted as if all were float32.
BLOCK_AND_ROW = {
    "name": "the block is taken for the row",
    "replace": {
        "q1": """
def bytes_in_steps(rows, dim, size):
    return 12 * rows * dim * size


def bytes_fused(rows, dim, size):
    return 3 * rows * dim * size, 5 * rows * dim * size


def microseconds_saved():
    return (bytes_in_steps(ROWS, DIM, 2) - 6 * ROWS * DIM) / TERABYTES / 1e6
""",
        "q2": """
@triton.jit
def gated_forward(
    x_ptr, z_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, z_stride, N, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0).to(tl.float32)
    z = tl.load(z_ptr + row * z_stride + columns, mask=inside, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / BLOCK + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * N + columns, weight * x * rstd * z * tl.sigmoid(z), mask=inside)
""",
        "q5": """
@triton.jit
def gated_backward(
    dy_ptr, x_ptr, z_ptr, weight_ptr, rstd_ptr, dx_ptr, dz_ptr, N, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    place = row * N + columns
    dy = tl.load(dy_ptr + place, mask=inside, other=0).to(tl.float32)
    x = tl.load(x_ptr + place, mask=inside, other=0).to(tl.float32)
    z = tl.load(z_ptr + place, mask=inside, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    s = tl.sigmoid(z)
    u = dy * weight * z * s
    dx = rstd * (u - x * rstd * tl.sum(u * x * rstd, axis=0) / BLOCK)
    tl.store(dx_ptr + place, dx, mask=inside)
    tl.store(dz_ptr + place, dy * weight * x * rstd * s, mask=inside)
""",
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
        "q2": """
@triton.jit
def gated_forward(
    x_ptr, z_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, z_stride, N, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0).to(tl.float32)
    z = tl.load(z_ptr + row * z_stride + columns, mask=inside, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * N + columns, weight * x * rstd * z * tl.sigmoid(z))
""",
        # The room behind y keeps this kernel from writing into somebody else's memory.
        "q3": """
def gated_norm(x, z, weight, eps=1e-5):
    dim = x.shape[-1]
    x, z = x.reshape(-1, dim), z.reshape(-1, dim)
    block = triton.next_power_of_2(dim)
    y = torch.empty(x.shape[0] * dim + block)
    rstd = torch.empty(x.shape[0])
    gated_forward[(x.shape[0],)](
        x, z, weight, y, rstd, x.stride(0), z.stride(0), dim, eps, BLOCK=block
    )
    return y[: x.numel()].view(x.shape)
""",
        "q4": """
def reported(variance, mean, n, block):
    return variance * n / block


@triton.jit
def row_variance(x_ptr, variance_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    tl.store(variance_ptr + row, tl.sum(x * x, axis=0) / N - mean * mean)
""",
        "q5": """
@triton.jit
def gated_backward(
    dy_ptr, x_ptr, z_ptr, weight_ptr, rstd_ptr, dx_ptr, dz_ptr, N, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    place = row * N + columns
    dy = tl.load(dy_ptr + place, mask=inside, other=0).to(tl.float32)
    x = tl.load(x_ptr + place, mask=inside, other=0).to(tl.float32)
    z = tl.load(z_ptr + place, mask=inside, other=0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    s = tl.sigmoid(z)
    tl.store(dx_ptr + place, rstd * dy * weight * z * s, mask=inside)
    tl.store(dz_ptr + place, dy * weight * x * rstd * (s + z * s * (1 - s)), mask=inside)
""",
        "q6": """
@triton.jit
def gain_partials(
    dy_ptr, x_ptr, z_ptr, rstd_ptr, partials_ptr, M, N, BLOCK: tl.constexpr
):
    p = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    share = (M + tl.num_programs(0) - 1) // tl.num_programs(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(p * share, tl.minimum(M, (p + 1) * share)):
        place = row * N + columns
        dy = tl.load(dy_ptr + place, mask=inside, other=0).to(tl.float32)
        x = tl.load(x_ptr + place, mask=inside, other=0).to(tl.float32) * tl.load(rstd_ptr + row)
        z = tl.load(z_ptr + place, mask=inside, other=0).to(tl.float32)
        total += dy * x * z * tl.sigmoid(z)
    tl.store(partials_ptr + p * N + columns, total, mask=inside)
""",
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

WRONG = (BLOCK_AND_ROW, TUTORIAL)
