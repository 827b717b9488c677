"""PowerNorm: divide each feature by a running quadratic mean, with an approximate backward pass.

    PN-V    y = weight · x / sqrt(v + eps) + bias      v = mean of x² over all tokens, per feature
    PN      z = x / sqrt(φ + eps), y = weight · z + bias      φ the running v

The module is PN as the authors' code has it. Each token is first divided by the root mean square
of each group of its features. At training call t, with α = 0.9 for both decays:
    forward     z = x / sqrt(v + eps) while t ≤ warmup, else x / sqrt(φ + eps) with the φ before
                t < warmup: φ ← φ · (t − 1)/t + v/t;    and at every t: φ ← α φ + (1 − α) v
    backward    g̃ = g − (1 − α) e z,  e ← e + mean(g̃ z),  dx = g̃ / sqrt(v + eps),  g = weight · dy
So φ is updated twice in each call of the warm-up, and the backward pass divides by this batch's v
even after it, where the forward pass divided by φ. Padding is left out of v and φ, not out of e.
Source: Shen et al. 2020, arXiv 2003.07845 (which uses it in the encoder only), and their code.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labkit.norms._common import LastAxis, affine, at_least_float32, check_input, check_parameter

DECAY = 0.9  # α, of φ and of the error e


def power_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-5,
    mask: Bool[Tensor, "*leading"] | None = None,
) -> Float[Tensor, "*leading dim"]:
    """Divide each feature by its root mean square over all real tokens: PN-V, exact gradient."""
    check_input("power_norm", x, eps)
    check_parameter("power_norm", "weight", weight, x.shape[-1])
    check_parameter("power_norm", "bias", bias, x.shape[-1])
    wide = at_least_float32(x)
    root = torch.rsqrt(_mean_square("power_norm", wide, mask) + eps)
    return affine(wide * root, weight, bias).to(x.dtype)


def _mean_square(name: str, x: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:-1]):
        raise ValueError(
            f"{name} needs a mask of dtype bool and shape {tuple(x.shape[:-1])}, one value per "
            f"token (True: real), got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    tokens = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    if not len(tokens):
        raise ValueError(
            f"{name} needs at least one real token, got none in shape {tuple(x.shape)}"
        )
    return tokens.square().mean(dim=0)


def group_scaled(x: Tensor, groups: int, eps: float) -> Tensor:
    """Divide each group of each token's features by its root mean square."""
    size = (x.shape[-1] // groups,)
    return torch.rms_norm(x.unflatten(-1, (groups, -1)), size, None, eps).reshape(x.shape)


class _PowerStep(torch.autograd.Function):
    """weight · x / forward_root + bias by rows, with PowerNorm's approximate backward pass."""

    @staticmethod
    def forward(ctx, x, weight, bias, forward_root, batch_root, error):  # pyright: ignore[reportIncompatibleMethodOverride]
        z = x / forward_root
        ctx.save_for_backward(z, weight, batch_root)
        ctx.error = error
        return torch.addcmul(bias, z, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        z, weight, batch_root = ctx.saved_tensors
        # g̃ = weight · dy − (1 − α) e z
        g = torch.addcmul(weight * dy, z, ctx.error.to(dy.dtype), value=DECAY - 1)
        ctx.error.add_((g * z).mean(dim=0).to(ctx.error.dtype))
        return g.div_(batch_root), (dy * z).sum(dim=0), dy.sum(dim=0), *[None] * 3


class PowerNorm(LastAxis):
    """PowerNorm as a module: gain and shift, the running φ, the error e and the number of `calls`.

    `groups` is the number of attention heads in the paper's models; their recipe sets `warmup` to
    8,000 calls, the length of the learning rate's warm-up. In evaluation only φ is used.
    """

    equation = "y = weight · x / sqrt(φ + eps) + bias, φ the running mean of x² per feature"
    source = "Shen et al. 2020, arXiv 2003.07845"
    scope = "batch"
    takes_mask = True
    running_square: Tensor
    error: Tensor
    calls: Tensor

    def __init__(
        self,
        dim: int,
        groups: int = 1,
        warmup: int = 10_000,
        eps: float = 1e-5,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__(dim, eps)
        if groups < 1 or dim % groups:
            raise ValueError(f"PowerNorm needs dim ({dim}) to be a multiple of groups ({groups})")
        if warmup < 0:
            raise ValueError(f"PowerNorm needs warmup >= 0, got {warmup}; the default is 10,000")
        self.groups, self.warmup = groups, warmup
        made = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.ones(dim, **made))
        self.bias = nn.Parameter(torch.zeros(dim, **made))
        self.register_buffer("running_square", torch.ones(dim, **made))
        self.register_buffer("error", torch.zeros(dim, **made))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long, device=device))

    def extra_repr(self) -> str:
        """Return the width, groups, warmup and eps, for printing."""
        return f"{self.dim}, groups={self.groups}, warmup={self.warmup}, eps={self.eps}"

    def forward(self, x: Tensor, mask: Bool[Tensor, "*leading"] | None = None) -> Tensor:
        """Normalize each feature of the group-scaled tokens; `mask` is True for real tokens."""
        check_input("PowerNorm", x, self.eps)
        self.check_width(x)
        wide = group_scaled(at_least_float32(x), self.groups, self.eps)
        weight, bias = self.weight.to(wide.dtype), self.bias.to(wide.dtype)
        running = self.running_square.to(wide.dtype)
        if not self.training:
            return affine(wide * torch.rsqrt(running + self.eps), weight, bias).to(x.dtype)
        # Detached: the backward pass has its own approximation of the gradient through v.
        square = _mean_square("PowerNorm", wide.detach(), mask)
        batch_root = (square + self.eps).sqrt()
        self.calls += 1
        call = int(self.calls)
        # The φ of the calls before this one; `_track` updates it afterwards.
        root = batch_root if call <= self.warmup else (running + self.eps).sqrt()
        self._track(square, running, call)
        rows = wide.reshape(-1, self.dim)
        y = _PowerStep.apply(rows, weight, bias, root, batch_root, self.error)
        return y.view(x.shape).to(x.dtype)

    def _track(self, square: Tensor, running: Tensor, call: int) -> None:
        # During the warm-up one call updates φ twice, as in the authors' code.
        if call < self.warmup:
            running = torch.lerp(running, square, 1 / call)
        self.running_square.copy_(torch.lerp(running, square, 1 - DECAY))
