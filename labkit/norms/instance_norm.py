"""InstanceNorm: standardize each channel of each sample over its positions.

    y = weight · (x − mean) / sqrt(var + eps) + bias      mean, var over space, for each sample

In a text tensor (batch, time, dim) it normalizes every feature over time, unlike LayerNorm. It is
GroupNorm with as many groups as channels. Source: Ulyanov et al. 2016, arXiv 1607.08022; defaults
as torch.nn.InstanceNorm1d, 2d, 3d: no gain, no shift, no running statistics.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import (
    affine,
    at_least_float32,
    check_input,
    check_parameter,
    check_size,
    laid_out_as,
)
from labkit.norms.batch_norm import batch_norm


def instance_norm(
    x: Float[Tensor, "batch channels *space"],
    weight: Float[Tensor, " channels"] | None = None,
    bias: Float[Tensor, " channels"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "batch channels *space"]:
    """Normalize each channel (axis 1) of each sample over the axes after it, at least one."""
    check_input("instance_norm", x, eps)
    _check_space("instance_norm", x)
    check_parameter("instance_norm", "weight", weight, x.shape[1])
    check_parameter("instance_norm", "bias", bias, x.shape[1])
    wide = at_least_float32(x).flatten(2)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    centred = centred - centred.mean(dim=-1, keepdim=True)  # corrects the mean's rounding
    variance = centred.square().mean(dim=-1, keepdim=True)
    standard = (centred * torch.rsqrt(variance + eps)).view(x.shape).movedim(1, -1)
    return laid_out_as(x, affine(standard, weight, bias).movedim(-1, 1).to(x.dtype))


def _check_space(name: str, x: Tensor) -> None:
    if x.ndim < 3:
        raise ValueError(
            f"{name} needs an input of shape (batch, channels, space …), got {tuple(x.shape)}; "
            "pass a single sample as x[None]"
        )
    if math.prod(x.shape[2:]) < 2:
        raise ValueError(
            f"{name} needs more than one position to average over, got shape {tuple(x.shape)}"
        )


class InstanceNorm(nn.modules.instancenorm._InstanceNorm):
    """`instance_norm` as a module; arguments and state of torch.nn.InstanceNorm1d, 2d and 3d.

    It accepts the input shapes of all three, always with a batch axis. With `channel_axis=-1` it
    takes (…, time, dim) and normalizes each feature over time. With `track_running_stats=True` it
    normalizes with averages over all samples in evaluation, as torch does.
    """

    equation = "y = weight · (x − mean) / sqrt(var + eps) + bias, over positions of each sample"
    source = "Ulyanov et al. 2016, arXiv 1607.08022"
    function = staticmethod(instance_norm)
    scope = "sample"

    def __init__(self, num_features: int, *args, channel_axis: int = 1, **kwargs):
        check_size("InstanceNorm", "num_features", num_features, *args, **kwargs)
        super().__init__(num_features, *args, **kwargs)
        if channel_axis not in (1, -1):
            raise ValueError(
                f"InstanceNorm needs channel_axis=1 or channel_axis=-1, got {channel_axis}"
            )
        self.channel_axis = channel_axis

    @classmethod
    def on_last_axis(cls, dim: int, **kw):
        """Make an InstanceNorm for `dim` features on the last axis."""
        return cls(dim, channel_axis=-1, **kw)

    def _check_input_dim(self, input: Tensor) -> None:
        check_input("InstanceNorm", input, self.eps)
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"InstanceNorm({self.num_features}) needs {self.num_features} channels on axis "
                f"{self.channel_axis}, got {tuple(input.shape)} (channels moved to axis 1)"
            )
        if self.training or not self.track_running_stats:
            _check_space("InstanceNorm", input)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each channel of each sample over its positions."""
        if self.channel_axis == 1:
            return laid_out_as(input, self._normalize(input))
        if input.ndim < 2:
            check_input("InstanceNorm", input, self.eps)
            raise ValueError(
                "InstanceNorm on the last axis needs an input of shape (…, time, dim), got "
                f"{tuple(input.shape)}"
            )
        samples = input.reshape(-1, *input.shape[-2:]).mT
        return laid_out_as(input, self._normalize(samples).mT.reshape(input.shape))

    def _normalize(self, x: Tensor) -> Tensor:
        self._check_input_dim(x)
        mean, var, weight, bias = self.running_mean, self.running_var, self.weight, self.bias
        momentum = 0.0 if self.momentum is None else self.momentum
        own = self.training or not self.track_running_stats
        if x.dtype in (torch.float32, torch.float64) and all(
            p is None or p.dtype == x.dtype for p in (weight, mean)
        ):
            cudnn = torch.backends.cudnn.enabled
            return torch.instance_norm(x, weight, bias, mean, var, own, momentum, self.eps, cudnn)
        # Like batch norm's, torch's CPU operation rounds too early in half precision.
        if not own:
            return batch_norm(x, mean, var, weight, bias, eps=self.eps)
        if mean is not None and var is not None and x.numel():
            self._track(x, mean, var, momentum)
        return instance_norm(x, weight, bias, self.eps)

    @staticmethod
    @torch.no_grad()
    def _track(x: Tensor, mean: Tensor, var: Tensor, momentum: float) -> None:
        wide = at_least_float32(x).flatten(2)
        mean.lerp_(wide.mean(dim=(0, 2)).to(mean.dtype), momentum)
        var.lerp_(wide.var(dim=2).mean(dim=0).to(var.dtype), momentum)
