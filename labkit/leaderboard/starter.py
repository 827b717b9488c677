"""Mean absolute norm: divide each token by its mean absolute value. Make it yours.

    y = weight · x / (mean(|x|) + eps)      mean over the last axis

One file, one nn.Module, `dim` first. Check it in Python:

    from labkit import check
    print(check.any_norm("my_norm.py"))

Then put it on the leaderboard, in a shell:

    labkit leaderboard pre pre+my_norm.py
"""

import torch
from torch import Tensor, nn


def mean_abs_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Scale each vector on the last axis to mean absolute value 1 (up to eps)."""
    wide = x if x.dtype == torch.float64 else x.float()
    size = wide.abs().mean(dim=-1, keepdim=True)
    return (weight * (wide / (size + eps))).to(x.dtype)


class MeanAbsNorm(nn.Module):
    """`mean_abs_norm` as a module, with a learned gain."""

    name = "mean-abs"
    equation = "y = weight · x / (mean(|x|) + eps)"
    source = "yours"

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return mean_abs_norm(x, self.weight, self.eps)
