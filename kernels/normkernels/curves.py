"""The two curves that squash a value, tanh and erf, with their slopes.

libdevice's tanh cannot be interpreted, and its erf takes twice as many instructions as this one:
with them the forward kernels would be bound by arithmetic, not by memory. The slope is accurate
even if the curve is nearly ±1, where 1 − tanh² would lose all digits.
"""

import triton
import triton.language as tl


@triton.jit
def evaluate_curve(z, ERF: tl.constexpr):
    """Return f(z), within 1e-6 for every z, and f'(z), within 1e-5 while it is above 1e-30.

    Polynomials are minimax. Near 0, where a difference would cancel, a polynomial in z² gives f(z)
    / z.
    """
    square = z * z
    if ERF:
        # erf|z| = 1 − 2^−P(|z|); libdevice's erf is as exact, and takes twice the instructions.
        size = tl.abs(z)
        power = (0.002140003 * size - 0.024904834) * size + 0.13828581
        power = ((power * size + 0.9294852) * size + 1.6223114) * size + 0.0010994204
        large = 1 - tl.exp2(-power)
        large = tl.where(z < 0, -large, large)
        ratio = (0.004281797 * square - 0.026474478) * square + 0.11276999
        ratio = (ratio * square - 0.37612222) * square + 1.1283791
        rise = 1.1283792 * tl.exp2(-1.442695 * square)  # 2/√π · exp(−z²)
        return tl.where(size < 0.7, z * ratio, large), rise
    # tanh|z| = (1 − e) / (1 + e), e = exp(−2|z|), which tends to 0 and is never infinite.
    size = tl.abs(z)
    e = tl.exp2(-2.88539008 * size)
    root = tl.rsqrt(1 + e)
    inverse = root * root  # of 1 + e: two instructions on a GPU, where a division takes ten
    large = (1 - e) * inverse
    large = tl.where(z < 0, -large, large)
    ratio = (-0.047553603 * square + 0.13270977) * square - 0.33331361
    ratio = ratio * square + 0.9999999
    return tl.where(size < 0.4, z * ratio, large), 4 * (e * inverse) * inverse


@triton.jit
def read_number(ptr, value):
    """Load a tensor with one element if there is one; otherwise return the number."""
    if ptr is not None:
        value = tl.load(ptr).to(tl.float32)
    return value
