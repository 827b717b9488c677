"""PRepBN: train from LayerNorm to RepBN, so that the final model needs no per-token statistics.

    y = λ · LayerNorm(x) + (1 − λ) · RepBN(x)      λ falls linearly from 1 to 0 over `steps` calls

Three pitfalls of the published code, reproduced here. In evaluation the result is RepBN's only,
however large λ still is: early validation is meaningless. The schedule counts training forward
calls: accumulating gradients or recomputing activations makes it faster. And both branches run from
the first training call, so that RepBN's running statistics are learned while λ is near 1. The
authors' code can first run LayerNorm alone for some calls; this module cannot. Source: Guo et al.
2024 (SLAB), arXiv 2405.11582, and the authors' code.
"""

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from labkit.norms._common import at_least_float32, laid_out_as, over_real_tokens
from labkit.norms.layer_norm import LayerNorm
from labkit.norms.rep_batch_norm import RepBatchNorm


class PRepBatchNorm(nn.Module):
    """PRepBN as a module: both branches, `layer` and `rep`, and the number of training `calls`.

    `steps` is the number of calls in which λ falls (the paper's code: 300,000 by default and in its
    DeiT-S, 60,000 to 120,000 in models with linear attention).
    """

    equation = "y = λ · LayerNorm(x) + (1 − λ) · (BatchNorm(x) + eta · x), λ from 1 to 0"
    source = "Guo et al. 2024, arXiv 2405.11582"
    scope = "batch"
    takes_mask = True
    calls: Tensor

    def __init__(
        self,
        dim: int,
        steps: int = 300_000,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        channel_axis: int = 1,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if steps < 1:
            raise ValueError(f"PRepBatchNorm needs steps >= 1, got steps={steps}")
        self.steps = steps
        self.layer = LayerNorm(dim, eps, device=device, dtype=dtype)
        self.rep = RepBatchNorm(
            dim, eps, momentum, channel_axis=channel_axis, device=device, dtype=dtype
        )
        self.register_buffer("calls", torch.zeros((), dtype=torch.long, device=device))

    @classmethod
    def on_last_axis(cls, dim: int, **kw):
        """Make a PRepBatchNorm for `dim` features on the last axis."""
        return cls(dim, channel_axis=-1, **kw)

    @property
    def share(self) -> float:
        """Return λ, LayerNorm's share of the next training call."""
        return max(0.0, (self.steps - int(self.calls)) / self.steps)

    def extra_repr(self) -> str:
        """Return the steps, for printing."""
        return f"steps={self.steps}"

    def forward(self, x: Tensor, mask: Bool[Tensor, "batch *space"] | None = None) -> Tensor:
        """Blend the branches in training; use RepBN only in evaluation. Padding comes out as 0."""
        if mask is not None:
            axis = self.rep.channel_axis
            return over_real_tokens("PRepBatchNorm", self._blend, x, mask, axis)
        return self._blend(x)

    def _blend(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.rep(x)
        wide = at_least_float32(x) if x.is_floating_point() else x
        layered = self._layered(wide)
        y = torch.lerp(self.rep(wide), layered, self.share)
        self.calls += 1
        return y.to(x.dtype)

    def _layered(self, x: Tensor) -> Tensor:
        if self.rep.channel_axis == -1 or x.ndim <= 2:
            return self.layer(x)
        return laid_out_as(x, self.layer(x.movedim(1, -1)).movedim(-1, 1))
