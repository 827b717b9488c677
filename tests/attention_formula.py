"""Attention written out in float64, head by head, from a module's parameters: no labkit inside."""

import math

import torch
from torch import Tensor

EPS = 1e-3  # large, so that a norm which ignores it is seen


def rms(x: Tensor, eps: float = EPS) -> Tensor:
    return x / torch.sqrt((x**2).sum(-1, keepdim=True) / x.shape[-1] + eps)


def layer(x: Tensor, eps: float = EPS) -> Tensor:
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    return centred / torch.sqrt((centred**2).sum(-1, keepdim=True) / x.shape[-1] + eps)


def unit(x: Tensor) -> Tensor:
    return x / torch.sqrt((x**2).sum(-1, keepdim=True))


# name: (normalization without gain, gain from the stored weight)
NORM = {
    "rms": (rms, lambda w: w),
    "rms-llama": (rms, lambda w: w),
    "rms-gemma": (rms, lambda w: 1 + w),
    "layer": (layer, lambda w: w),
    "l2": (unit, lambda w: w),
    "none": (lambda x: x, lambda w: w),
}


def turn(x: Tensor) -> Tensor:
    """Rotary positions as complex numbers: channel pairs times exp(i·t·base^(−2j/d))."""
    time, size = x.shape
    pairs = torch.complex(x[:, : size // 2], x[:, size // 2 :])
    powers = 10_000.0 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    angles = torch.arange(time, dtype=torch.float64)[:, None] * powers
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=-1)


def normalized(module, tensor: str, heads: list[Tensor]) -> list[Tensor]:
    """Apply the norm of q, k, v or c to its heads, each (time, head_dim)."""
    spec = module.norms
    if spec is None or tensor not in spec.tensors:
        return heads
    normalize, gain_of = NORM[spec.norm]
    norm, size = getattr(module, f"norm_{tensor}"), heads[0].shape[-1]
    weight = getattr(norm, "weight", None)
    shift = getattr(norm, "bias", None)
    if spec.share == "width":
        whole = normalize(torch.cat(heads, dim=-1))
        if weight is not None:
            whole = whole * gain_of(weight)
        if shift is not None:
            whole = whole + shift
        return [whole[:, i * size : (i + 1) * size] for i in range(len(heads))]
    result = []
    for i, head in enumerate(heads):
        y = normalize(head)
        if weight is not None:
            y = y * (weight[i] if spec.share == "own" else gain_of(weight))
        result.append(y if shift is None else y + shift)
    return result


def logits_of(module, x: Tensor, source: Tensor, rotated: bool) -> list[Tensor]:
    """Return each head's logits of one sequence, scaled, before caps, sums and masks."""
    spec, size = module.norms, module.head_dim

    def project(name: str, tokens: Tensor) -> list[Tensor]:
        return list((tokens @ getattr(module, name).weight.T).split(size, dim=-1))

    q, k = project("q", x), project("k", source)
    late = spec is not None and spec.after_rope
    if not late:
        q, k = normalized(module, "q", q), normalized(module, "k", k)
    if rotated:
        q, k = [turn(h) for h in q], [turn(h) for h in k]
    if late:
        q, k = normalized(module, "q", q), normalized(module, "k", k)
    times = 1.0 if spec is None else spec.times
    logits = []
    for i in range(module.heads):
        j = i // (module.heads // module.kv_heads)
        raw = (times * q[i]) @ (times * k[j]).T
        if spec is None or spec.temperature is None:
            logits.append(raw / math.sqrt(size))
        elif spec.temperature == "module":
            logits.append(raw * module.temperature[0])
        else:
            tau = module.temperature[i]
            logits.append(raw * torch.exp(tau if tau < math.log(100) else tau * 0 + math.log(100)))
    return logits


def attention(
    module, x, rotated=False, padding=None, memory=None, memory_padding=None, earlier=None
) -> tuple[Tensor, Tensor]:
    """Return (output, logits as the chain stores them), one sequence and one head at a time."""
    outputs, stored = [], []
    causal = module.causal and memory is None
    for b in range(x.shape[0]):
        source = x[b] if memory is None else memory[b]
        real = padding if memory is None else memory_padding
        v = normalized(
            module, "v", list((source @ module.v.weight.T).split(module.head_dim, dim=-1))
        )
        logits = logits_of(module, x[b], source, rotated)
        if earlier is not None:
            logits = [logit + earlier[b, i] for i, logit in enumerate(logits)]
        stored.append(torch.stack(logits))
        heads = []
        for i, logit in enumerate(logits):
            if module.softcap is not None:
                logit = module.softcap * torch.tanh(logit / module.softcap)
            rows = []
            for t in range(x.shape[1]):
                seen = [
                    s
                    for s in range(source.shape[0])
                    if (not causal or s <= t) and (real is None or bool(real[b, s]))
                ]
                value = v[i // (module.heads // module.kv_heads)]
                if seen:
                    weights = torch.exp(logit[t, seen] - logit[t, seen].max().detach())
                    rows.append((weights / weights.sum()) @ value[seen])
                else:
                    rows.append(torch.zeros(module.head_dim, dtype=x.dtype))
            heads.append(torch.stack(rows))
        heads = normalized(module, "c", heads)
        if module.head_gain is not None:
            heads = [gain * head for gain, head in zip(module.head_gain, heads, strict=True)]
        outputs.append(torch.cat(heads, dim=-1) @ module.out.weight.T)
    return torch.stack(outputs), torch.stack(stored)
