"""Sublayers and norms drawn at random, for a placement that brings none of its own."""

from typing import Any

import torch
from torch import Tensor, nn

KINDS = ("mixing", "nonlinear", "negative", "mixing and nonlinear")


class Sublayer(nn.Module):
    """A random map of the stream; the mixing kinds let tokens see what came before them."""

    def __init__(self, draw: torch.Generator, dim: int, kind: str, silent: bool = False):
        super().__init__()
        self.kind, self.silent = kind, silent
        self.matrix = nn.Parameter(torch.randn(dim, dim, generator=draw, dtype=torch.float64))
        self.matrix.data.mul_(1.3 / dim**0.5)
        self.past = torch.rand(64, 64, generator=draw, dtype=torch.float64).tril()

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Map the stream."""
        if self.silent:
            return x * 0
        if self.kind == "negative":
            return -x
        if "mixing" in self.kind:
            time = x.shape[-2]
            past = self.past[:time, :time].to(x.dtype)
            x = past / past.sum(-1, keepdim=True) @ x
        y = x @ self.matrix.to(x.dtype)
        return 2 * torch.tanh(y) if "nonlinear" in self.kind else y


class Norm(nn.Module):
    """A layer norm or an RMS norm with a random gain."""

    def __init__(self, draw: torch.Generator, dim: int, kind: str):
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(0.5 + torch.rand(dim, generator=draw, dtype=torch.float64))

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Normalize each vector."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        if self.kind == "layer":
            wide = wide - wide.mean(-1, keepdim=True)
        y = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return (y * self.weight).to(x.dtype)
