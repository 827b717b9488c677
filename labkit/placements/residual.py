"""The two oldest placements of a norm N around a sublayer f on the residual stream x.

PostNorm   x ← N(x + f(x))
PreNorm    x ← x + f(N(x))
"""

from collections.abc import Callable

from torch import Tensor, nn


class PostNorm(nn.Module):
    """x ← N(x + f(x)): the norm stands on the stream, after each addition."""

    def __init__(self, make: Callable[[], nn.Module], sublayer: nn.Module):
        super().__init__()
        self.norm, self.sublayer = make(), sublayer

    def forward(self, x: Tensor, *context) -> Tensor:
        """Add the sublayer's output to the stream, then normalize the sum."""
        return self.norm(x + self.sublayer(x, *context))


class PreNorm(nn.Module):
    """x ← x + f(N(x)): the norm stands on the branch, and the stream is never normalized."""

    def __init__(self, make: Callable[[], nn.Module], sublayer: nn.Module):
        super().__init__()
        self.norm, self.sublayer = make(), sublayer

    def forward(self, x: Tensor, *context) -> Tensor:
        """Add to the stream what the sublayer makes of its normalized copy."""
        return x + self.sublayer(self.norm(x), *context)
