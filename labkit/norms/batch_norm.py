"""BatchNorm: standardize each channel with statistics shared by the whole batch.

    y = weight · (x − mean) / sqrt(var + eps) + bias    mean, var over all axes but the channel
    running ← (1 − momentum) · running + momentum · batch statistic

The batch is normalized with its biased variance (divide by n); the running buffer stores the
unbiased one (divide by n − 1). In evaluation the running statistics are used, so that the layer
is one fixed affine map. With a mask the statistics run over real tokens only, and padding comes
out as 0. Source: Ioffe and Szegedy 2015, arXiv 1502.03167; defaults as torch.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labkit.norms._common import (
    affine,
    at_least_float32,
    check_input,
    check_parameter,
    check_size,
    laid_out_as,
    over_real_tokens,
)


def batch_norm(
    x: Float[Tensor, "batch channels *space"],
    running_mean: Float[Tensor, " channels"] | None = None,
    running_var: Float[Tensor, " channels"] | None = None,
    weight: Float[Tensor, " channels"] | None = None,
    bias: Float[Tensor, " channels"] | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    mask: Bool[Tensor, "batch *space"] | None = None,
) -> Float[Tensor, "batch channels *space"]:
    """Normalize each channel (axis 1); arguments and running updates as in torch.

    With `training`, or without running statistics, the batch's own statistics are used. The running
    buffers, if given, are updated in place in training; `x` is never changed. Positions where
    `mask` is False are padding: they do not affect the statistics, and their result is 0.
    """
    check_input("batch_norm", x, eps)
    if mask is not None and x.ndim >= 2:
        state = (running_mean, running_var, weight, bias)
        return over_real_tokens(
            "batch_norm",
            lambda real: batch_norm(real, *state, training, momentum, eps),
            x,
            mask,
            channel_axis=1,
        )
    _check_batch(x, running_mean, running_var, weight, bias, training)
    channels_last = at_least_float32(x).movedim(1, -1)
    rows = channels_last.reshape(-1, x.shape[1])
    if training or running_mean is None or running_var is None:
        mean = rows.mean(dim=0)
        centred = rows - mean
        # The mean was rounded at the size of x; correct its error at the size of the rest.
        centred = centred - centred.mean(dim=0)
        variance = centred.square().mean(dim=0)
        if training and running_mean is not None and running_var is not None:
            # The buffers are not part of this step's graph.
            unbiased = variance.detach() * (len(rows) / (len(rows) - 1))
            running_mean.lerp_(mean.detach().to(running_mean.dtype), momentum)
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    else:
        # Half-precision buffers are widened before anything is computed with them.
        centred, variance = rows - running_mean.to(rows.dtype), running_var.to(rows.dtype)
    standard = affine(centred * torch.rsqrt(variance + eps), weight, bias)
    return laid_out_as(x, standard.view(channels_last.shape).movedim(-1, 1).to(x.dtype))


def _check_batch(x, running_mean, running_var, weight, bias, training: bool) -> None:
    if x.ndim < 2:
        raise ValueError(
            f"batch_norm needs an input of shape (batch, channels, …), got {tuple(x.shape)}"
        )
    for role, parameter in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        check_parameter("batch_norm", role, parameter, x.shape[1])
    _check_count(x, training or running_mean is None)


def _check_count(x: Tensor, uses_batch: bool) -> None:
    if uses_batch and x.numel() <= x.shape[1]:
        raise ValueError(
            "batch_norm needs more than one value per channel when it uses the batch's "
            f"statistics, got shape {tuple(x.shape)}; use a larger batch, or call eval()"
        )


def _is_native(x: Tensor, state: Tensor | None) -> bool:
    """Return whether torch's operation supports this input with this gain or running mean."""
    # It never mixes float64 with other dtypes, and on the CPU it rounds gain ÷ deviation to half
    # precision before it multiplies.
    half = x.dtype.itemsize == 2
    return state is None or state.dtype == (torch.float32 if half else x.dtype)


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """`batch_norm` as a module, with a learned gain and shift, and running statistics.

    Constructor arguments, parameter names and state_dict are those of torch.nn.BatchNorm1d,
    2d and 3d, and it takes the shapes of all three. With `channel_axis=-1` it normalizes the
    last axis of a transformer's (batch, time, dim), pooling batch and time.
    """

    equation = "y = weight · (x − mean) / sqrt(var + eps) + bias, over batch and positions"
    source = "Ioffe and Szegedy 2015, arXiv 1502.03167"
    function = staticmethod(batch_norm)
    scope = "batch"
    takes_mask = True

    def __init__(self, num_features: int, *args, channel_axis: int = 1, **kwargs):
        check_size(type(self).__name__, "num_features", num_features, *args, **kwargs)
        super().__init__(num_features, *args, **kwargs)
        if channel_axis not in (1, -1):
            raise ValueError(
                f"{type(self).__name__} needs channel_axis=1 or channel_axis=-1, got {channel_axis}"
            )
        self.channel_axis = channel_axis

    @classmethod
    def on_last_axis(cls, dim: int, **kw):
        """Make a BatchNorm for `dim` features on the last axis."""
        return cls(dim, channel_axis=-1, **kw)

    def _check_input_dim(self, input: Tensor) -> None:
        name = type(self).__name__
        check_input(name, input, self.eps)
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"{name}({self.num_features}) needs {self.num_features} channels on axis "
                f"{self.channel_axis}, got {tuple(input.shape)} (channels moved to axis 1)"
            )
        _check_count(input, self.training or self.running_mean is None)

    def forward(self, input: Tensor, mask: Bool[Tensor, "batch *space"] | None = None) -> Tensor:
        """Normalize with the batch's statistics in training, with the running ones otherwise."""
        if mask is not None:
            own = partial(type(self).forward, self)
            return over_real_tokens(type(self).__name__, own, input, mask, self.channel_axis)
        rows = input
        if self.channel_axis == -1 and input.ndim > 2:
            # torch's batch norm needs channels on axis 1: each token becomes a sample.
            rows = input.reshape(-1, input.shape[-1])
        self._check_input_dim(rows)
        y = self._normalize(rows, self._count_batch())
        return y if rows is input else y.view(input.shape)

    def _count_batch(self) -> float:
        """Count one more batch in training; return the weight of its statistics."""
        momentum, count = self.momentum, self.num_batches_tracked
        if self.training and count is not None:
            count.add_(1)
            if momentum is None:  # a plain average over all batches
                momentum = 1.0 / float(count)
        return 0.0 if momentum is None else momentum

    def _normalize(self, rows: Tensor, momentum: float) -> Tensor:
        mean, var, weight, bias = self.running_mean, self.running_var, self.weight, self.bias
        training = self.training or mean is None
        if not _is_native(rows, mean if weight is None else weight):
            return batch_norm(rows, mean, var, weight, bias, training, momentum, self.eps)
        cudnn = torch.backends.cudnn.enabled
        return torch.batch_norm(rows, weight, bias, mean, var, training, momentum, self.eps, cudnn)
