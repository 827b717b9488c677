"""Multi-head attention: causal, full or over a memory; grouped key-value heads; rotary positions.

    head_i = softmax(q_i k_jᵀ / sqrt(head_dim)) v_j,  j = the key-value head that i shares
    output = concat(head_1 … head_h) W_O

Optional parts: norms of q, k, v and the heads (`labkit.attention.norms`); soft caps, running sums
of logits and QK-Clip (`labkit.attention.logits`); and a learned gain for each head, head_i ← g_i ·
head_i, which starts at 1.

Sources: Vaswani et al. 2017 (attention), Ainslie et al. 2023, arXiv 2305.13245 (grouped key-value
heads), Shleifer et al. 2021, arXiv 2110.09456 (head gain: NormFormer, as its paper has it; its
code applies it after W_O).
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from labkit.attention.logits import (
    allowed_pairs,
    clip_factors,
    explicit_logits,
    largest_logits,
    mix_values,
    soft_cap,
)
from labkit.attention.norms import AttentionNorms
from labkit.attention.parts import apply_temperature, make_attention_norm, make_temperature
from labkit.attention.rotary import rotate_in_context
from labkit.context import Context

# torch's fused attention on the CPU is slower for narrower heads than for heads of this width.
_NARROW = 16


def fused_attention(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    v: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    causal: bool,
    scale: float | None,
) -> Float[Tensor, "batch heads query head_dim"]:
    """Attend with torch's fused operation; `scale` None is 1/sqrt(head_dim).

    On the CPU narrow heads are padded with zeros, which change no logit and no value. They are not
    padded under `sdpa_kernel`, where the work of an operation may be counted.
    """
    width = q.shape[-1]
    plain = torch.compiler.is_compiling() or not torch.backends.cuda.flash_sdp_enabled()
    if q.is_cpu and width < _NARROW and not plain:
        # Fixed before the padding, or torch would take the root of the padded width.
        scale = width**-0.5 if scale is None else scale
        q, k, v = (F.pad(t, (0, _NARROW - width)) for t in (q, k, v))
    grouped = k.shape[1] != q.shape[1]
    mixed = F.scaled_dot_product_attention(
        q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    return mixed[..., :width]


class Attention(nn.Module):
    """Mix tokens: project to q, k, v; rotate q and k; attend; project back. No biases.

    Self-attention masks later tokens (if causal) and padding (`context.padding`). Cross-attention
    reads `context.memory` and is neither causal nor rotated. A query without allowed keys gets 0.
    """

    head_gain: nn.Parameter | None
    temperature: nn.Parameter | None
    largest_logit: Float[Tensor, " heads"] | None  # of the last forward pass, when clip is on

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int,
        causal: bool = True,
        *,
        norms: AttentionNorms | None = None,
        eps: float | None = None,
        norm_kw: Mapping[str, float] | None = None,
        softcap: float | None = None,
        head_gain: bool = False,
        chain: str | None = None,
        cross: bool = False,
        clip: bool = False,
    ):
        super().__init__()
        _refuse_nonsense(dim, heads, kv_heads, norms, softcap, clip)
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal and not cross
        self.head_dim = dim // heads
        self.norms, self.softcap, self.chain = norms, softcap, chain
        self.cross, self.clip = cross, clip
        self.q = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(heads * self.head_dim, dim, bias=False)
        options = {**(norm_kw or {}), **({} if eps is None else {"eps": eps})}
        for tensor, count in zip("qkvc", (heads, kv_heads, kv_heads, heads), strict=True):
            norm = make_attention_norm(norms, tensor, count, self.head_dim, options)
            self.register_module(f"norm_{tensor}", norm)
        self.register_parameter("temperature", make_temperature(norms, heads))
        self.register_parameter("head_gain", nn.Parameter(torch.ones(heads)) if head_gain else None)
        # A buffer moves with the module; it is no part of a checkpoint.
        self.register_buffer("largest_logit", None, persistent=False)

    def forward(
        self, x: Float[Tensor, "batch time dim"], context: Context | None = None
    ) -> Float[Tensor, "batch time dim"]:
        """Attend over the whole sequence, over earlier tokens (causal), or over a memory."""
        context = Context() if context is None else context
        q, k, v = self.project(x, context)
        mixed = self._apply_norm("c", self.attend(q, k, v, context).transpose(1, 2))
        if self.head_gain is not None:
            mixed = mixed * self.head_gain[:, None]
        return self.out(mixed.flatten(-2))

    def project(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v of shape (batch, heads, time, head_dim): normalized, rotated, scaled."""
        source = x
        if self.cross:
            if context.memory is None:
                raise ValueError(
                    "cross-attention needs the tokens to attend to, but context.memory is None; "
                    "pass Context(memory=…)"
                )
            source = context.memory
        q, k, v = (
            layer(tokens).unflatten(-1, (-1, self.head_dim))
            for layer, tokens in ((self.q, x), (self.k, source), (self.v, source))
        )
        # Before the rotation or after it: with a gain per channel the two differ.
        after = self.norms is not None and self.norms.after_rope
        if not after:
            q, k = self._apply_norm("q", q), self._apply_norm("k", k)
        q, k, v = (t.transpose(1, 2) for t in (q, k, self._apply_norm("v", v)))
        if not self.cross and context.angles is not None:
            q, k = rotate_in_context(q, context), rotate_in_context(k, context)
        if after:
            q, k = (
                self._apply_norm(name, t.transpose(1, 2)).transpose(1, 2)
                for name, t in (("q", q), ("k", k))
            )
        if self.norms is not None and self.norms.times != 1.0:
            q, k = q * self.norms.times, k * self.norms.times
        return apply_temperature(q, self.norms, self.temperature), k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, context: Context) -> Tensor:
        """Average the values by the softmax of the logits, to (batch, heads, time, head_dim).

        This is torch's fused operation, unless the logits are recorded or changed.
        """
        padding = context.memory_padding if self.cross else context.padding
        explicit = self.softcap is not None or self.chain is not None or self.clip
        scale = None if self.temperature is None else 1.0  # None: 1/sqrt(head_dim)
        if padding is None and not explicit:
            return fused_attention(q, k, v, causal=self.causal, scale=scale)
        allowed = allowed_pairs(q, k, self.causal, padding)
        # A query without allowed keys attends to all, and is then set to 0: no NaN in either pass.
        some = allowed.any(dim=-1, keepdim=True)
        if explicit:
            logits = self._adjust_logits(explicit_logits(q, k, scale), allowed, context)
            mixed = mix_values(logits, v, allowed | ~some)
        else:
            grouped = self.kv_heads != self.heads
            mixed = F.scaled_dot_product_attention(
                q, k, v, attn_mask=allowed | ~some, scale=scale, enable_gqa=grouped
            )
        return mixed.masked_fill(~some, 0)

    def _adjust_logits(self, logits: Tensor, allowed: Tensor, context: Context) -> Tensor:
        """Record the logits, add those of earlier layers, cap the sum: as the settings require."""
        if self.clip:
            self.largest_logit = largest_logits(logits, allowed, context.padding)
        if self.chain is not None:
            earlier = context.scores.get(self.chain)
            if earlier is not None and earlier.shape != logits.shape:
                raise ValueError(
                    f"all logits of a chain must have the same shape, but chain {self.chain!r} "
                    f"adds {tuple(logits.shape)} to {tuple(earlier.shape)}; use a different chain "
                    "for each shape"
                )
            logits = logits if earlier is None else logits + earlier
            # Before cap and mask: the next layer adds to the logits as they were computed.
            context.scores[self.chain] = logits
        return logits if self.softcap is None else soft_cap(logits, self.softcap)

    @torch.no_grad()
    def clip_logits(self, threshold: float) -> Float[Tensor, " heads"]:
        """Shrink W_q and W_k (QK-Clip) until no logit of the last pass exceeds the threshold.

        Call it after the optimizer's step. It returns each head's factor γ (1: unchanged).
        """
        if not (math.isfinite(threshold) and threshold > 0):
            raise ValueError(f"clip_logits needs a positive threshold, got {threshold}")
        if self.largest_logit is None:
            raise ValueError(
                "clip_logits needs the logits of a forward pass, but none were recorded; make "
                "Attention with clip=True and call it first"
            )
        query, key = clip_factors(self.largest_logit, threshold, self.kv_heads)
        for layer, factor in ((self.q, query), (self.k, key)):
            layer.weight.mul_(factor.repeat_interleave(self.head_dim)[:, None])
        # The largest logits shrink with the weights, so a second call does nothing.
        gamma = query * key.repeat_interleave(self.heads // self.kv_heads)
        self.largest_logit = self.largest_logit * gamma
        return gamma

    def _apply_norm(self, tensor: str, x: Tensor) -> Tensor:
        """Apply the norm of q, k, v or c, if there is one, to (batch, time, heads, head_dim)."""
        norm = getattr(self, f"norm_{tensor}")
        if norm is None or self.norms is None:
            return x
        if self.norms.share == "width":
            return norm(x.flatten(-2)).unflatten(-1, x.shape[-2:]).to(x.dtype)
        return norm(x).to(x.dtype)  # Llama's norm widens half precision for a float32 gain


def _refuse_nonsense(
    dim: int,
    heads: int,
    kv_heads: int,
    norms: AttentionNorms | None,
    softcap: float | None,
    clip: bool,
) -> None:
    if min(dim, heads, kv_heads) < 1 or dim % heads or heads % kv_heads:
        raise ValueError(
            "dim must be a positive multiple of heads, and heads a multiple of kv_heads; got "
            f"dim={dim}, heads={heads} and kv_heads={kv_heads}"
        )
    if softcap is not None and not (math.isfinite(softcap) and softcap > 0):
        raise ValueError(
            f"softcap must be positive (Gemma 2 uses 50), or None for no cap; got {softcap}"
        )
    if clip and norms is not None and set(norms.tensors) & set("qk"):
        raise ValueError(
            "QK-Clip scales W_q and W_k, but a norm of q or k cancels that scale; use only one "
            "of the two"
        )
