"""Placements without constants: the same sublayer f and norms N, in different order.

NoNorm        x ← x + f(x)
PostNorm      x ← N(x + f(x))
PreNorm       x ← x + f(N(x))
OutputNorm    x ← x + N(f(x))
SandwichNorm  x ← x + M(f(N(x)))       N and M are two norms
StreamNorm    x ← N(x) + f(N(x))       the stream itself is replaced by its normalized copy
"""

from torch import Tensor

from labkit.placements.step import Map, Step


class NoNorm(Step):
    """x ← x + f(x): no norm at all; the sublayer may have norms of its own."""

    norms, equation = (), "x + f(x)"

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Add what the sublayer makes of the raw stream."""
        return x + f(x)


class PostNorm(Step):
    """x ← N(x + f(x)): the norm stands on the stream, after each addition."""

    equation = "N(x + f(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add the sublayer's output to the stream, then normalize the sum."""
        return N(x + f(x))


class PreNorm(Step):
    """x ← x + f(N(x)): the norm stands on the branch, and the stream is never normalized."""

    equation = "x + f(N(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add to the stream what the sublayer makes of its normalized copy."""
        return x + f(N(x))


class OutputNorm(Step):
    """x ← x + N(f(x)): the norm stands on what the sublayer writes."""

    equation = "x + N(f(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add a normalized write to the stream."""
        return x + N(f(x))


class SandwichNorm(Step):
    """x ← x + M(f(N(x))): one norm before the sublayer, another after it, inside the branch."""

    norms, equation = ("norm", "norm_out"), "x + M(f(N(x)))"

    def step(self, x: Tensor, f: Map, N: Map, M: Map) -> Tensor:
        """Read a normalized copy of the stream, write a normalized update."""
        return x + M(f(N(x)))


class StreamNorm(Step):
    """x ← N(x) + f(N(x)): one norm on the stream; skip and branch both start from its result."""

    equation = "N(x) + f(N(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Normalize the stream, then add what the sublayer makes of it."""
        z = N(x)
        return z + f(z)
