"""Norms inside attention: which of q, k, v and the head outputs c are normalized, and how.

    logits = s · N(q)·N(k),   head = softmax(logits) N(v),   output = N(concat of heads) W_O

A text names the choice: the letters of the normalized tensors, a key of NORMS, how gains are shared
(head: one of head_dim for all heads; own: one per head; width: one norm over all heads at once),
then optionally after-rope, no-gain, shift, times=1.2, temperature=… and length=….

    s = 1/sqrt(head_dim)          unless temperature is
        module   s = g            one learned number, starts at log2(L² − L), L the length
        head     s = exp(min(τ_h, log 100))   one learned τ for each head, starts at log 10

`QK_NORMS` has the published choices by name.
"""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from labkit.norms import NORMS, facts
from labkit.system.unknown import explain_unknown

SHARES = ("head", "own", "width")
TEMPERATURES = ("module", "head")
_FLAGS = {"after-rope": ("after_rope", True), "no-gain": ("gain", False), "shift": ("shift", True)}


@dataclass(frozen=True)
class AttentionNorms:
    """The tensors of attention that are normalized, and their norms; contradictions are refused.

    Caution: after the rotation, a gain for each channel (or LayerNorm's mean) makes logits depend
    on absolute positions. Before it, or without gain, they depend on distances only.
    """

    tensors: str = "qk"  # some of q, k, v, c (the head outputs before W_O), in this order
    norm: str = "rms"  # a key of NORMS that normalizes each vector by itself
    share: str = "head"  # sharing of gains: head (all heads share one), own (one per head), width
    after_rope: bool = False  # q and k are normalized after the rotation, not before
    gain: bool = True  # whether the norms have a learned gain
    shift: bool = False  # whether they keep their learned shift, if they have one (LayerNorm)
    temperature: str | None = None  # in place of 1/sqrt(head_dim): one per module, or per head
    times: float = 1.0  # q and k are each multiplied by this
    length: int | None = None  # L of the temperature per module

    def __post_init__(self) -> None:
        if not self.tensors or not re.fullmatch("q?k?v?c?", self.tensors):
            raise ValueError(
                f"tensors must be one or more of q, k, v and c, in this order; got {self.tensors!r}"
            )
        if self.norm not in NORMS or facts(self.norm).scope != "token":
            fits = [name for name in NORMS if facts(name).scope == "token"]
            raise ValueError(
                f"attention needs a norm that acts on each vector separately, got {self.norm!r}; "
                f"choose one of {', '.join(fits)}"
            )
        if self.share not in SHARES:
            raise ValueError(explain_unknown("share", self.share, SHARES))
        if self.temperature not in (None, *TEMPERATURES):
            raise ValueError(
                explain_unknown("temperature", self.temperature, TEMPERATURES)
                + ", or leave it out for 1/sqrt(head_dim)"
            )
        if self.share == "own" and (self.shift or not self.gain):
            raise ValueError(
                "share 'own' gives each head its own gain and allows no shift; leave out "
                f"{'shift' if self.gain else 'no-gain'}"
            )
        if not (math.isfinite(self.times) and self.times > 0):
            raise ValueError(f"times must be a positive number, got {self.times}")
        if self.length is not None and self.length < 2:
            raise ValueError(
                "length must be at least 2, because the temperature starts at log2(L² − L); got "
                f"{self.length}"
            )
        for what, asked in (
            ("after-rope", self.after_rope),
            ("a temperature", self.temperature is not None),
            ("times", self.times != 1.0),
        ):
            if asked and not self.tensors.startswith("qk"):
                raise ValueError(
                    f"{what} applies only if both q and k are normalized, but tensors is "
                    f"{self.tensors!r}; add q and k, or leave it out"
                )
        if self.after_rope and self.share == "width":
            raise ValueError(
                "after-rope needs share head or own, because a norm over the whole width is "
                "applied before the heads are split and rotated"
            )


@dataclass(frozen=True)
class QKNorm:
    """One published choice: its norms, their equation, and its source."""

    norms: AttentionNorms
    equation: str
    source: str


QK_NORMS: dict[str, QKNorm] = {
    "henry": QKNorm(
        AttentionNorms(norm="l2", gain=False, temperature="module"),
        "softmax(g · q/|q| · k/|k|), g learned, starts at log2(L² − L)",
        "Henry et al. 2020, arXiv 2010.04245; L there: 97.5th percentile of training lengths",
    ),
    "vit-22b": QKNorm(
        AttentionNorms(norm="layer"),
        "softmax(LN(q)·LN(k) / sqrt(d_k)), no shifts",
        "Dehghani et al. 2023, arXiv 2302.05442",
    ),
    "swin-v2": QKNorm(
        AttentionNorms(norm="l2", gain=False, temperature="head"),
        "softmax(exp(min(τ_h, log 100)) · cos(q, k)), τ_h starts at log 10; no position bias here",
        "Liu et al. 2022, arXiv 2111.09883",
    ),
    "gemma3": QKNorm(
        AttentionNorms(norm="rms-gemma"),
        "softmax(RMS(q)·RMS(k) / sqrt(d_k)), gain 1 + w; then rotated",
        "Gemma Team 2025, arXiv 2503.19786",
    ),
    "qwen3": QKNorm(
        AttentionNorms(norm="rms-llama"),
        "softmax(RMS(q)·RMS(k) / sqrt(d_k)); then rotated",
        "Qwen Team 2025, arXiv 2505.09388",
    ),
    "olmo2": QKNorm(
        AttentionNorms(share="width"),
        "q, k ← RMS over all heads at once, before the split and the rotation",
        "OLMo Team 2025, arXiv 2501.00656",
    ),
    "cohere": QKNorm(
        AttentionNorms(norm="layer", share="own"),
        "softmax(LN_h(q)·LN_h(k) / sqrt(d_k)), gains for each head, no shifts; then rotated",
        "Command R+, as in transformers' CohereAttention",
    ),
    "hybrid": QKNorm(
        AttentionNorms("qkv"),
        "softmax(RMS(q)·RMS(k) / sqrt(d_k)) RMS(v); then rotated",
        "Zhuo et al. 2025, arXiv 2503.04598",
    ),
    "nanochat": QKNorm(
        AttentionNorms(after_rope=True, gain=False, times=1.2),
        "softmax(1.2 RMS(q) · 1.2 RMS(k) / sqrt(d_k)), after the rotation, nothing learned",
        "karpathy/nanochat, nanochat/gpt.py",
    ),
}


def attention_norms(text: str | None, length: int | None = None) -> AttentionNorms | None:
    """Parse a string such as "qkv rms", "qk layer own" or "swin-v2"; None stays None.

    A published name comes first and further words change it: "olmo2 no-gain". `length` is the L of
    a temperature per module if the string does not set it.
    """
    if text is None:
        return None
    words, norms = text.split(), AttentionNorms()
    if not words:
        raise ValueError(
            "the norms must be a nonempty string, or None for no norms; got an empty one; "
            f"{_ways_out()}"
        )
    if words[0] in QK_NORMS:
        norms = QK_NORMS[words.pop(0)].norms
    changes: dict[str, Any] = {}
    for word in words:
        field, value = _read_word(word)
        if field in changes:
            raise ValueError(
                f"each setting may be given only once, but {' '.join(words)!r} gives {field} "
                "twice; leave one out"
            )
        changes[field] = value
    norms = replace(norms, **changes)
    if norms.temperature == "module" and norms.length is None:
        norms = replace(norms, length=length)
    return norms


def _read_word(word: str) -> tuple[str, Any]:
    """Return the field of AttentionNorms that a word sets, and the value."""
    if word in _FLAGS:
        return _FLAGS[word]
    for field, known in (("share", SHARES), ("norm", NORMS)):
        if word in known:
            return field, word
    if re.fullmatch("q?k?v?c?", word):
        return "tensors", word
    field, _, value = word.partition("=")
    kinds = {"times": float, "length": int, "temperature": str}
    if field not in kinds:
        raise ValueError(f"{word!r} is not a setting of attention's norms; {_ways_out()}")
    try:
        return field, kinds[field](value)
    except ValueError:
        raise ValueError(f"{field}= needs a number, got {word!r}") from None


def _ways_out() -> str:
    return (
        f"name one of {', '.join(QK_NORMS)}, or some of q, k, v, c as in 'qkv', then a norm "
        f"({', '.join(NORMS)}), {', '.join([*SHARES, *_FLAGS])}, times=, temperature=, length="
    )
