"""Wrong constants: α from another depth, another count, another rule."""

from collections.abc import Iterator
from dataclasses import replace

from labkit.check.blocks.halves import Half


def number_mistakes(right: Half, recipe: str) -> Iterator[tuple[str, str, Half]]:
    """Yield halves whose constant is another one, with how it came about."""
    if right.gain != "α":
        return
    for key, value, sentence in _alphas(right.alpha, recipe):
        if abs(value - right.alpha) > 1e-9:
            told = f"α is {value:.4g} instead of {right.alpha:.4g}: {sentence}"
            yield key, told, replace(right, alpha=value)


def _alphas(alpha: float, recipe: str) -> Iterator[tuple[str, float, str]]:
    if recipe == "deepnorm":
        n = alpha**4 / 2  # the number of blocks
        yield (
            "sublayers",
            (4 * n) ** 0.25,
            "it is (2N)^(1/4) with N the number of blocks, and sublayers are counted",
        )
        yield "half", n**0.25, "it is (2N)^(1/4), and the factor 2 is missing"
        yield "root", (2 * n) ** 0.5, "it is the fourth root of 2N, not the square root"
        yield "beta", (8 * n) ** 0.25, "it is (2N)^(1/4); 8 belongs to β = (8N)^(−1/4)"
        yield "sign", (2 * n) ** -0.25, "the exponent's sign is wrong"
        yield "beta sign", (8 * n) ** -0.25, "this is β, the gain of the initial weights"
        yield "32", 64**0.25, "it is hard-coded for 32 blocks"
        yield "3N", (3 * n) ** 0.25, "this is the decoder's of an encoder-decoder"
        yield "both", 0.81 * n ** (5 / 16), "this is the encoder's of an encoder-decoder"
        yield "2N", 2 * n, "it is (2N)^(1/4), and the root is missing"
        yield "+1", (2 * (n + 1)) ** 0.25, "it is made for one block more"
        yield "-1", (2 * max(n - 1, 0.5)) ** 0.25, "it is made for one block less"
        return
    n = alpha / 2
    yield "blocks", n, "α counts sublayers, two in each block, and blocks are counted"
    yield "root", (2 * n) ** 0.5, "it is the number of sublayers, not its root"
    yield "fourth", (2 * n) ** 0.25, "this is DeepNorm's"
    yield "four", 4 * n, "α counts sublayers, two in each block"
    yield "one", 1.0, "α is missing"
    for depth in range(1, 129):
        yield (
            f"first {depth}",
            2.0 * depth,
            "the first feed-forward has α = 1, all others 2 · depth",
        )
