"""A right solution of homework 4 other than the reference: it earns every point."""

RIGHT = (
    {
        "name": "exponentials, where, other orders of work",
        "replace": {
            "q1": """
def bytes_in_steps(rows, dim, size):
    half = 46 if size == 2 else 48
    return half * (rows * dim)


def bytes_fused(rows, dim, size):
    return [size * rows * dim * tensors for tensors in (3, 5)]


def microseconds_saved():
    return 40.0 * ROWS * DIM / (TERABYTES * 1000**2)
""",
            "q2": """
@triton.jit
def gated_forward(
    x_ptr, z_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, z_stride, N, eps, BLOCK: tl.constexpr
):
    p = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + p * x_stride + lane, mask=lane < N, other=0).to(tl.float32)
    root = tl.sqrt(tl.sum(tl.where(lane < N, x * x, 0.0), axis=0) / N + eps)
    z = tl.load(z_ptr + p * z_stride + lane, mask=lane < N).to(tl.float32)
    y = x / root * tl.load(weight_ptr + lane, mask=lane < N).to(tl.float32) * z
    tl.store(y_ptr + p * N + lane, y / (1 + tl.exp(-z)), mask=lane < N)
    tl.store(rstd_ptr + p, 1 / root)
""",
            "q3": """
def gated_norm(x, z, weight, eps=1e-5):
    x, z = x.contiguous(), z.contiguous()
    n = x.shape[-1]
    m = x.numel() // n
    y, block = torch.zeros_like(x), 1
    while block < n:
        block *= 2
    gated_forward[(m,)](x, z, weight, y, torch.zeros(m), n, n, n, eps, BLOCK=block)
    return y
""",
            "q4": """
def reported(variance, mean, n, block):
    return (n * variance + (block - n) * mean * mean) / n


@triton.jit
def row_variance(x_ptr, variance_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + lane, mask=lane < N, other=0.0).to(tl.float32)
    off = (x - tl.sum(x, axis=0) / N) * (lane < N).to(tl.float32)
    tl.store(variance_ptr + row, tl.sum(off * off / N, axis=0))
""",
            "q6": """
@triton.jit
def gain_partials(
    dy_ptr, x_ptr, z_ptr, rstd_ptr, partials_ptr, M, N, BLOCK: tl.constexpr
):
    p = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    kept = tl.zeros((BLOCK,), tl.float32)
    row = p
    while row < M:
        at = row * N + lane
        z = tl.load(z_ptr + at, mask=lane < N, other=0.0).to(tl.float32)
        kept += (
            tl.load(rstd_ptr + row) * z / (1 + tl.exp(-z))
            * tl.load(x_ptr + at, mask=lane < N, other=0.0).to(tl.float32)
            * tl.load(dy_ptr + at, mask=lane < N, other=0.0).to(tl.float32)
        )
        row += tl.num_programs(0)
    tl.store(partials_ptr + p * N + lane, kept, mask=lane < N)
""",
        },
    },
)
