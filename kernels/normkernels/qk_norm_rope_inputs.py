"""Arguments of `qk_norm_rope`: their checks, and angles as cosines and sines."""

import torch
from torch import Tensor

from normkernels.checks import check_eps, check_tensor
from normkernels.heads import MAX_HEAD_DIM


def check(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    norm: str | None,
    eps: float,
) -> None:
    """Refuse arguments that `qk_norm_rope` does not support, with an explanation."""
    name = "qk_norm_rope"
    for role, tensor in (("q", q), ("k", k), ("q_weight", q_weight), ("k_weight", k_weight)):
        if tensor is not None:
            check_tensor(name, role, tensor, q)
    if q.dtype != k.dtype:
        raise TypeError(
            f"kernel {name} needs q and k of the same dtype, got {q.dtype} and {k.dtype}"
        )
    if q.ndim < 3 or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"kernel {name} needs q of shape (…, time, heads, head_dim) and k of shape (…, time, "
            f"kv_heads, head_dim), got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    n = q.shape[-1]
    if not 1 <= n <= MAX_HEAD_DIM:
        raise ValueError(f"kernel {name} supports head_dim up to {MAX_HEAD_DIM}, got {n}")
    if q.shape[:-2].numel() >= 2**30:
        raise ValueError(
            f"kernel {name} supports fewer than 2^30 tokens, got {q.shape[:-2].numel()}; split "
            "the batch"
        )
    for role, weight, x in (("q_weight", q_weight, q), ("k_weight", k_weight, k)):
        if weight is not None and weight.shape not in ((n,), x.shape[-2:]):
            raise ValueError(
                f"kernel {name} needs a {role} of shape ({n},), shared by all heads, or "
                f"{tuple(x.shape[-2:])}, one for each head; got {tuple(weight.shape)}"
            )
    if norm not in ("rms", "l2", None):
        raise ValueError(f"kernel {name} supports norm 'rms', 'l2' and None, got {norm!r}")
    check_eps(name, eps)


def make_cos_sin(
    q: Tensor, angles: Tensor | tuple[Tensor, Tensor] | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return cosines and sines in float32, rounded from the precision of the angles."""
    if angles is None:
        return None, None
    if isinstance(angles, Tensor):
        wide = angles.to(torch.promote_types(angles.dtype, torch.float32))
        angles = wide.cos(), wide.sin()
    cos, sin = (t.to(torch.float32).contiguous() for t in angles)
    time, n = q.shape[-3], q.shape[-1]
    for role, tensor in (("cos", cos), ("sin", sin)):
        check_tensor("qk_norm_rope", role, tensor, q)
    before = q.shape[:-2]  # q's token axes; angles have all of them or only the last
    fits = cos.ndim >= 2 and cos.shape[:-1] == before[max(0, len(before) - cos.ndim + 1) :]
    if not fits or cos.shape != sin.shape or 2 * cos.shape[-1] > n:
        raise ValueError(
            f"kernel qk_norm_rope needs angles of shape (time, pairs) = ({time}, up to {n // 2}), "
            "or (batch, time, pairs) with q's batch size; got "
            f"{tuple(cos.shape)}{'' if cos.shape == sin.shape else f' and {tuple(sin.shape)}'}"
        )
    if cos.requires_grad or sin.requires_grad:
        raise ValueError(
            "kernel qk_norm_rope has no gradient for angles, but they require grad; pass "
            "angles.detach()"
        )
    return (cos, sin) if cos.shape[-1] else (None, None)
