"""The formula of each norm as printed in its paper: float64, explicit sums, without labkit.

Each takes (x, p, eps): p maps the names of parameters to tensors and may lack any of them.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

P = Mapping[str, Tensor]
GROUPS = 3
KAPPA = 10.0  # BHyT's bound
SHARE = 0.5  # λ of PRepBN where it is tested as a formula


def gained(y: Tensor, p: P, prefix: str = "") -> Tensor:
    """Multiply and shift the last axis by the gain and shift in p."""
    weight, bias = p.get(prefix + "weight"), p.get(prefix + "bias")
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def mean_square(x: Tensor) -> Tensor:
    return (x * x).sum(-1, keepdim=True) / x.shape[-1]


def length(x: Tensor) -> Tensor:
    return (x * x).sum(-1, keepdim=True).sqrt()


def layer(x: Tensor, p: P, eps: float, prefix: str = "") -> Tensor:
    mu = x.sum(-1, keepdim=True) / x.shape[-1]
    v = ((x - mu) ** 2).sum(-1, keepdim=True) / x.shape[-1]
    return gained((x - mu) / torch.sqrt(v + eps), p, prefix)


def annotated_layer(x: Tensor, p: P, eps: float) -> Tensor:
    mu = x.sum(-1, keepdim=True) / x.shape[-1]
    squares = ((x - mu) ** 2).sum(-1, keepdim=True)
    # on constant rows the root has no slope; the norm's own is 0 there
    flat = squares == 0
    s = torch.sqrt(torch.where(flat, 1.0, squares) / (x.shape[-1] - 1)).masked_fill(flat, 0.0)
    return gained((x - mu) / (s + eps), p)


def rms(x: Tensor, p: P, eps: float) -> Tensor:
    return gained(x / torch.sqrt(mean_square(x) + eps), p)


def rms_gemma(x: Tensor, p: P, eps: float) -> Tensor:
    y = x / torch.sqrt(mean_square(x) + eps)
    return y * (1 + p["weight"]) if "weight" in p else y


def rms_outside(x: Tensor, p: P, eps: float) -> Tensor:
    squares = mean_square(x)
    root = torch.sqrt(torch.where(squares == 0, 1.0, squares)).masked_fill(squares == 0, 0.0)
    return gained(x / (root + eps), p)


def partial_rms(x: Tensor, p: P, eps: float, k: int) -> Tensor:
    return gained(x / torch.sqrt(mean_square(x[..., :k]) + eps), p)


def by_channel(x: Tensor, p: P, eps: float, prefix: str = "") -> Tensor:
    """Batch norm: each slice along axis 1 separately."""
    weight, bias = p.get(prefix + "weight"), p.get(prefix + "bias")
    columns = []
    for c in range(x.shape[1]):
        values = x[:, c]
        mu = values.sum() / values.numel()
        v = ((values - mu) ** 2).sum() / values.numel()
        y = (values - mu) / torch.sqrt(v + eps)
        y = y if weight is None else weight[c] * y
        columns.append(y if bias is None else y + bias[c])
    return torch.stack(columns, dim=1)


def rep_batch(x: Tensor, p: P, eps: float, prefix: str = "") -> Tensor:
    return by_channel(x, p, eps, prefix) + p.get(prefix + "eta", 1.0) * x


def prep_batch(x: Tensor, p: P, eps: float) -> Tensor:
    last = x.movedim(1, -1)
    blend = SHARE * layer(last, p, eps, "layer.")
    return blend.movedim(-1, 1) + (1 - SHARE) * rep_batch(x, p, eps, "rep.")


def group(x: Tensor, p: P, eps: float, groups: int = GROUPS) -> Tensor:
    size = x.shape[1] // groups
    parts = []
    for g in range(groups):
        values = x[:, g * size : (g + 1) * size]
        axes = tuple(range(1, x.ndim))
        mu = values.mean(axes, keepdim=True)
        v = ((values - mu) ** 2).mean(axes, keepdim=True)
        parts.append((values - mu) / torch.sqrt(v + eps))
    return gained(torch.cat(parts, dim=1).movedim(1, -1), p).movedim(-1, 1)


def instance(x: Tensor, p: P, eps: float) -> Tensor:
    samples = []
    for sample in x:
        channels = []
        for values in sample:
            mu = values.sum() / values.numel()
            v = ((values - mu) ** 2).sum() / values.numel()
            channels.append((values - mu) / torch.sqrt(v + eps))
        samples.append(torch.stack(channels))
    return gained(torch.stack(samples).movedim(1, -1), p).movedim(-1, 1)


def scale(x: Tensor, p: P, eps: float) -> Tensor:
    return p.get("weight", x.shape[-1] ** 0.5) * l2(x, {}, eps)


def l2(x: Tensor, p: P, eps: float) -> Tensor:
    squares = (x * x).sum(-1, keepdim=True)
    short = squares <= eps * eps
    floor = torch.full_like(squares, eps)
    return (
        p.get("weight", 1.0)
        * x
        / torch.where(short, floor, torch.where(short, 1.0, squares) ** 0.5)
    )


def power(x: Tensor, p: P, eps: float) -> Tensor:
    """PN-V: the quadratic mean of each feature over all tokens."""
    tokens = x.reshape(-1, x.shape[-1])
    v = sum(token * token for token in tokens) / len(tokens)
    return gained(x / torch.sqrt(v + eps), p)


def power_module(x: Tensor, p: P, eps: float) -> Tensor:
    """PowerNorm's first training call: group scaling of each token, then PN-V."""
    groups = x.chunk(GROUPS, dim=-1)
    scaled = torch.cat([part / torch.sqrt(mean_square(part) + eps) for part in groups], dim=-1)
    return power(scaled, p, eps)


def tanh(z: Tensor) -> Tensor:
    """(e^2z − 1) / (e^2z + 1), with the numerator computed so that it keeps its digits near 0."""
    above = torch.expm1(2 * z.clamp(-20, 20))  # further out it is ±1 to the last digit
    return above / (above + 2)


def erf(z: Tensor) -> Tensor:
    """2/sqrt(π) · ∫ exp(−u²) du from 0 to z, by Gauss–Legendre quadrature with 80 points."""
    z = z.clamp(-6.5, 6.5)  # further out it is ±1 to the last digit
    points, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(80))
    heights = torch.exp(-((z[..., None] * (1 + points) / 2) ** 2))
    return z / math.pi**0.5 * (heights * weights).sum(-1)


def dyt(x: Tensor, p: P, eps: float) -> Tensor:
    return gained(tanh(p.get("alpha", 0.5) * x), p)


def derf(x: Tensor, p: P, eps: float) -> Tensor:
    return gained(erf(p.get("alpha", 0.5) * x + p.get("shift", 0.0)), p)


def bhyt(x: Tensor, p: P, eps: float) -> Tensor:
    return gained(tanh(p.get("scale", 1.0) * x / (KAPPA * torch.sqrt(mean_square(x) + eps))), p)
