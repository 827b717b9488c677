"""Placements without constants: the same sublayer f and norms N in different orders.

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
    """x ← x + f(x): no norm at all; the sublayer may have its own norms."""

    norms, equation = (), "x + f(x)"

    def step(self, x: Tensor, f: Map) -> Tensor:
        """Add the output of f for the raw stream."""
        return x + f(x)


class PostNorm(Step):
    """x ← N(x + f(x)): the norm is on the stream, after each addition."""

    equation = "N(x + f(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add the sublayer's output to the stream, then normalize the sum."""
        return N(x + f(x))


class PreNorm(Step):
    """x ← x + f(N(x)): the norm is on the branch, and the stream is never normalized."""

    equation = "x + f(N(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add the output of f for a normalized copy of the stream."""
        return x + f(N(x))


class OutputNorm(Step):
    """x ← x + N(f(x)): the norm is on the sublayer's output."""

    equation = "x + N(f(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Add a normalized write to the stream."""
        return x + N(f(x))


class SandwichNorm(Step):
    """x ← x + M(f(N(x))): one norm before the sublayer and one after it, inside the branch."""

    norms, equation = ("norm", "norm_out"), "x + M(f(N(x)))"

    def step(self, x: Tensor, f: Map, N: Map, M: Map) -> Tensor:
        """Read a normalized copy of the stream, and add a normalized output."""
        return x + M(f(N(x)))


class StreamNorm(Step):
    """x ← N(x) + f(N(x)): one norm on the stream; skip and branch both start from its output."""

    equation = "N(x) + f(N(x))"

    def step(self, x: Tensor, f: Map, N: Map) -> Tensor:
        """Normalize the stream, then add the sublayer's output for it."""
        z = N(x)
        return z + f(z)
