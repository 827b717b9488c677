"""RepBN: BatchNorm plus a scaled skip, so that in evaluation it folds into the next linear map.

    y = BatchNorm(x) + eta · x      eta one learned number, 1 at first

In evaluation both terms are affine in x:  y = a · x + c  with
    a = weight / sqrt(running_var + eps) + eta      c = bias − weight · running_mean / sqrt(…)
and a linear map after it becomes one map:  W y + b = (W diag(a)) x + (W c + b).
Source: Guo et al. 2024 (SLAB), arXiv 2405.11582, and the authors' code, which calls eta alpha.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labkit.norms._common import at_least_float32, check_input, check_scalar, scalar
from labkit.norms.batch_norm import BatchNorm, batch_norm


def rep_batch_norm(
    x: Float[Tensor, "batch channels *space"],
    running_mean: Float[Tensor, " channels"] | None = None,
    running_var: Float[Tensor, " channels"] | None = None,
    weight: Float[Tensor, " channels"] | None = None,
    bias: Float[Tensor, " channels"] | None = None,
    eta: Float[Tensor, " 1"] | float = 1.0,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    mask: Bool[Tensor, "batch *space"] | None = None,
) -> Float[Tensor, "batch channels *space"]:
    """Add eta · x to `batch_norm` of x (channels on axis 1); padding comes out as 0."""
    check_input("rep_batch_norm", x, eps)
    check_scalar("rep_batch_norm", "eta", eta)
    wide = at_least_float32(x)
    y = batch_norm(wide, running_mean, running_var, weight, bias, training, momentum, eps, mask)
    skip = wide if mask is None else wide.masked_fill(~mask.unsqueeze(1), 0.0)
    return (y + scalar(eta, wide) * skip).to(x.dtype)


class RepBatchNorm(BatchNorm):
    """`rep_batch_norm` as a module: a BatchNorm with one more parameter, the skip's `eta`."""

    equation = "y = BatchNorm(x) + eta · x, one number eta"
    source = "Guo et al. 2024, arXiv 2405.11582"
    function = staticmethod(rep_batch_norm)

    def __init__(self, num_features: int, *args, channel_axis: int = 1, **kwargs):
        super().__init__(num_features, *args, channel_axis=channel_axis, **kwargs)
        made = {name: kwargs[name] for name in ("device", "dtype") if name in kwargs}
        self.eta = nn.Parameter(torch.ones(1, **made))

    def _normalize(self, rows: Tensor, momentum: float) -> Tensor:
        eta = self.eta
        # One operation instead of a product and a sum; half precision would round in between.
        if rows.dtype == eta.dtype and rows.dtype.itemsize > 2:
            return torch.addcmul(super()._normalize(rows, momentum), rows, eta)
        mean, var, training = self.running_mean, self.running_var, self.training
        training = training or mean is None
        return rep_batch_norm(
            rows, mean, var, self.weight, self.bias, eta, training, momentum, self.eps
        )
