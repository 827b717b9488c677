"""The derivative of one attention head with respect to each of its four matrices, written out.

    S = A V W_O,  A = softmax(Q Kᵀ / sqrt(d_k)),  Q = N(X W_Q), K = N(X W_K), V = N(X W_V)

for one head, without mask and rotation, with N the RMS norm without gain, or no norm. Matrices act
from the right and are read row by row: ∂S/∂W has s · d rows and as many columns as W has entries.

    ∂S/∂W_O = A V ⊗ I_d
    ∂S/∂W_V = (A ⊗ W_Oᵀ)                                            ∂N(V)/∂V (X ⊗ I)
    ∂S/∂W_Q = (I ⊗ W_Oᵀ Vᵀ) ∂A/∂M (I ⊗ K / sqrt(d_k))               ∂N(Q)/∂Q (X ⊗ I)
    ∂S/∂W_K = (I ⊗ W_Oᵀ Vᵀ) ∂A/∂M (Q / sqrt(d_k) ⊗ I) T             ∂N(K)/∂K (X ⊗ I)

T turns the rows of K into the rows of Kᵀ. Source: Zhuo et al. 2025, arXiv 2503.04598, Lemma A.1
(X is the normalized stream, no norm) and Lemma A.2 (norms on Q, K and V).
"""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

MATRICES = ("q", "k", "v", "out")


def rms_jacobian(z: Float[Tensor, "row size"]) -> Float[Tensor, "entry entry"]:
    """Return ∂N(Z)/∂Z: a block sqrt(d) / |z| (I − z zᵀ / |z|²) per row; no row may be zero."""
    size = z.shape[-1]
    eye = torch.eye(size, dtype=z.dtype)
    blocks = [math.sqrt(size) / r.norm() * (eye - torch.outer(r, r) / (r @ r)) for r in z]
    return torch.block_diag(*blocks)


def softmax_jacobian(a: Float[Tensor, "row key"]) -> Float[Tensor, "entry entry"]:
    """Return ∂A/∂M of a row-wise softmax from its output A: the block diag(a) − a aᵀ per row."""
    return torch.block_diag(*[torch.diag(r) - torch.outer(r, r) for r in a])


def transposition(rows: int, columns: int) -> Float[Tensor, "entry entry"]:
    """Return the matrix T that maps the rows of Z, one after another, to the rows of Zᵀ."""
    order = torch.arange(rows * columns).view(rows, columns).T.flatten()
    return torch.eye(rows * columns)[order]


def attention_jacobians(
    x: Float[Tensor, "token dim"], weights: Mapping[str, Tensor], *, qkv_norm: bool
) -> dict[str, Float[Tensor, "output entry"]]:
    """Compute ∂S/∂W for W_Q, W_K, W_V of shape (d, d_k) and W_O of shape (d_k, d).

    `weights` maps the names in `MATRICES` to the four matrices. With `qkv_norm` this is Lemma A.2,
    without it Lemma A.1, where `x` is the output of the norm before attention.
    """
    w_q, w_k, w_v, w_o = (weights[name] for name in MATRICES)
    raw = {"q": x @ w_q, "k": x @ w_k, "v": x @ w_v}
    inner, tokens = (torch.eye(n, dtype=x.dtype) for n in (w_q.shape[1], len(x)))
    # ∂(X W)/∂W, read row by row, is X ⊗ I.
    into = {name: torch.kron(x, inner) for name in raw}
    if qkv_norm:
        into = {name: rms_jacobian(raw[name]) @ into[name] for name in raw}
        raw = {name: z / z.square().mean(-1, keepdim=True).sqrt() for name, z in raw.items()}
    q, k, v = raw.values()
    root = math.sqrt(w_q.shape[1])
    a = torch.softmax(q @ k.T / root, dim=-1)
    by_logits = torch.kron(tokens, (v @ w_o).T.contiguous()) @ softmax_jacobian(a)
    # The logits contain Kᵀ, but W_K produces rows of K: hence T.
    by_k = torch.kron(q / root, tokens) @ transposition(*k.shape).to(x.dtype)
    return {
        "q": by_logits @ torch.kron(tokens, k / root) @ into["q"],
        "k": by_logits @ by_k @ into["k"],
        "v": torch.kron(a, w_o.T.contiguous()) @ into["v"],
        "out": torch.kron(a @ v, torch.eye(w_o.shape[1], dtype=x.dtype)),
    }
