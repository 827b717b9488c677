"""Attention and its parts: norms of q, k, v and the head outputs, and bounds on the logits."""

from labkit.attention.multihead import Attention
from labkit.attention.norms import QK_NORMS, AttentionNorms, attention_norms
from labkit.attention.qk_norm_rope import qk_norm_rope
from labkit.attention.rotary import rotary_angles, rotate
