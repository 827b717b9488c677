"""The norms of one vector, in plain float64 formulas, as a block's reference uses them."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Leaves = Mapping[str, Tensor]  # weight, bias, alpha, shift, scale: whichever a norm has

EPS = {
    "layer": 1e-5, "annotated-layer": 1e-6, "rms-outside": 1e-8, "scale": 1e-5, "l2": 1e-12,
}  # fmt: skip
USUAL_EPS = 1e-6


def _mean(x: Tensor) -> Tensor:
    return x.sum(-1, keepdim=True) / x.shape[-1]


def _affine(y: Tensor, p: Leaves) -> Tensor:
    y = y * p["weight"] if "weight" in p else y
    return y + p["bias"] if "bias" in p else y


def _layer(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    centred = x - _mean(x)
    return _affine(centred / (_mean(centred**2) + eps).sqrt(), p)


def _annotated(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    centred = x - _mean(x)
    spread = ((centred**2).sum(-1, keepdim=True) / (x.shape[-1] - 1)).sqrt()
    return _affine(centred / (spread + eps), p)


def _rms(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    return _affine(x / (_mean(x**2) + eps).sqrt(), p)


def _gemma(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    y = x / (_mean(x**2) + eps).sqrt()
    return y * (1 + p["weight"]) if "weight" in p else y


def _outside(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    return _affine(x / (_mean(x**2).sqrt() + eps), p)


def _partial(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    first = max(1, int(x.shape[-1] * options.get("p", 0.0625)))
    return _affine(x / (_mean(x[..., :first] ** 2) + eps).sqrt(), p)


def _length(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    length = (x**2).sum(-1, keepdim=True).sqrt()
    return _affine(x / length.clamp_min(eps), p)


def _dyt(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    return _affine(torch.tanh(p.get("alpha", torch.tensor(0.5)) * x), p)


def _derf(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    inside = p.get("alpha", torch.tensor(0.5)) * x + p.get("shift", torch.tensor(0.0))
    return _affine(torch.erf(inside), p)


def _bounded(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    inside = x / (options.get("bound", 10.0) * (_mean(x**2) + eps).sqrt())
    return _affine(torch.tanh(p.get("scale", torch.tensor(1.0)) * inside), p)


def _none(x: Tensor, p: Leaves, eps: float, options: Mapping[str, float]) -> Tensor:
    return x


FORMULAS: dict[str, Callable[[Tensor, Leaves, float, Mapping[str, float]], Tensor]] = {
    "layer": _layer,
    "annotated-layer": _annotated,
    "rms": _rms,
    "rms-llama": _rms,
    "rms-t5": _rms,
    "rms-gemma": _gemma,
    "rms-outside": _outside,
    "partial-rms": _partial,
    "scale": _length,
    "l2": _length,
    "dyt": _dyt,
    "derf": _derf,
    "bhyt": _bounded,
    "none": _none,
}


def normed(
    kind: str, x: Tensor, leaves: Leaves, eps: float, options: Mapping[str, float]
) -> Tensor:
    """Apply one norm over the last axis; a norm without a gain is given no `weight`."""
    return FORMULAS[kind](x, leaves, eps, options)
