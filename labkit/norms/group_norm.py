"""GroupNorm: split the channels of each sample into groups and standardize each group.

    y = weight · (x − mean) / sqrt(var + eps) + bias
    mean and var over (channels of one group × space), for each sample; weight, bias per channel

One group gives LayerNorm's statistics over (channels, space); as many groups as channels gives
InstanceNorm. Source: Wu and He 2018, arXiv 1803.08494; defaults as torch.nn.GroupNorm.
"""

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


def group_norm(
    x: Float[Tensor, "batch channels *space"],
    num_groups: int,
    weight: Float[Tensor, " channels"] | None = None,
    bias: Float[Tensor, " channels"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "batch channels *space"]:
    """Normalize each group of channels (axis 1) of each sample separately."""
    check_input("group_norm", x, eps)
    _check_groups("group_norm", x, num_groups)
    check_parameter("group_norm", "weight", weight, x.shape[1])
    check_parameter("group_norm", "bias", bias, x.shape[1])
    groups = at_least_float32(x).reshape(x.shape[0], num_groups, x[0:1].numel() // num_groups)
    centred = groups - groups.mean(dim=-1, keepdim=True)
    centred = centred - centred.mean(dim=-1, keepdim=True)  # corrects the mean's rounding
    variance = centred.square().mean(dim=-1, keepdim=True)
    # Gain and shift are per channel, not per group: channels last, as `affine` needs them.
    standard = (centred * torch.rsqrt(variance + eps)).view(x.shape).movedim(1, -1)
    return laid_out_as(x, affine(standard, weight, bias).movedim(-1, 1).to(x.dtype))


def _check_groups(name: str, x: Tensor, num_groups: int) -> None:
    if x.ndim < 2:
        raise ValueError(
            f"{name} needs an input of shape (batch, channels, …), got {tuple(x.shape)}"
        )
    if num_groups < 1 or x.shape[1] % num_groups:
        raise ValueError(
            f"{name} needs a number of channels that is a multiple of the {num_groups} groups, "
            f"got {x.shape[1]} channels"
        )


class GroupNorm(nn.GroupNorm):
    """`group_norm` as a module; a drop-in replacement for torch.nn.GroupNorm.

    With `channel_axis=-1` each vector on the last axis is split into groups, as required for a
    transformer's (batch, time, dim).
    """

    equation = "y = weight · (x − mean) / sqrt(var + eps) + bias, over each group of channels"
    source = "Wu and He 2018, arXiv 1803.08494"
    function = staticmethod(group_norm)

    def __init__(self, num_groups: int, num_channels: int, *args, channel_axis: int = 1, **kwargs):
        check_size("GroupNorm", "num_channels", num_channels, *args, **kwargs)
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"GroupNorm needs num_channels ({num_channels}) to be a multiple of num_groups "
                f"({num_groups})"
            )
        if channel_axis not in (1, -1):
            raise ValueError(
                f"GroupNorm needs channel_axis=1 or channel_axis=-1, got {channel_axis}"
            )
        super().__init__(num_groups, num_channels, *args, **kwargs)
        self.channel_axis = channel_axis

    @classmethod
    def on_last_axis(cls, dim: int, num_groups: int = 8, **kw):
        """Make a GroupNorm for `dim` features on the last axis."""
        return cls(num_groups, dim, channel_axis=-1, **kw)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each group of channels of each sample (or of each vector)."""
        last = self.channel_axis == -1
        rows = input.reshape(-1, input.shape[-1]) if last and input.ndim not in (0, 2) else input
        weight, bias, eps = self.weight, self.bias, self.eps
        if rows.ndim < 2 or rows.shape[1] != self.num_channels:
            check_input("GroupNorm", input, eps)
            raise ValueError(
                f"GroupNorm({self.num_groups}, {self.num_channels}) needs {self.num_channels} "
                f"channels on axis {self.channel_axis}, got shape {tuple(input.shape)}"
            )
        if isinstance(eps, str) or not eps >= 0 or not input.is_floating_point():
            check_input("GroupNorm", input, eps)
        if weight is not None and weight.dtype != input.dtype:
            y = group_norm(rows, self.num_groups, weight, bias, eps)
        else:
            # Contiguous, since torch's CPU operation for channels-last memory takes E[x²] − E[x]².
            y = torch.group_norm(
                rows.contiguous(), self.num_groups, weight, bias, eps, torch.backends.cudnn.enabled
            )
        return y if rows is input else y.view(input.shape)
