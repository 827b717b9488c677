"""Blocks of transformers' models that compute sums together with the norms that read them.

    Llama, Qwen 3       x + A(N(x)),  then  x + F(M(x))
    Gemma 2, Gemma 3    x + N'(A(N(x))),  then  x + M'(F(M(x)))
    OLMo 2              x + N'(A(x)),  then  x + M'(F(x))

One kernel computes a sum with its N' or M' and the norm that reads it, where these exist. M reads
the first sum; the next block's N or the final norm reads the second.
"""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.fused.sums import add


class Block(nn.Module):
    """Common base of all kinds of block."""

    follower: tuple[nn.Module, str] | None = None  # the owner of the norm that comes next, its name
    input_layernorm: Any
    post_attention_layernorm: Any
    self_attn: Any
    mlp: Any

    def attend(self, x: Tensor, attention_mask: Any = None, **kwargs: Any) -> Tensor:
        """Return the output of attention for the normalized stream."""
        x = self.input_layernorm(x)
        return self.self_attn(hidden_states=x, attention_mask=attention_mask, **kwargs)[0]

    def end(self, stream: Tensor, write: Tensor, inner: nn.Module | None = None) -> Tensor:
        """Return the stream for the next block."""
        return add(stream, write, self.follower and getattr(*self.follower), inner)


class PreNormBlock(Block):
    """x + A(N(x)), then x + F(M(x))."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Pass the stream through both sublayers."""
        if args or torch.compiler.is_compiling():
            return super().forward(hidden_states, *args, **kwargs)
        write = self.attend(hidden_states, **kwargs)
        stream = add(hidden_states, write, self.post_attention_layernorm)
        return self.end(stream, self.mlp(self.post_attention_layernorm(stream)))


class SandwichNormBlock(Block):
    """x + N'(A(N(x))), then x + M'(F(M(x)))."""

    pre_feedforward_layernorm: Any
    post_feedforward_layernorm: Any

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Pass the stream through both sublayers."""
        if args or torch.compiler.is_compiling():
            return super().forward(hidden_states, *args, **kwargs)
        write, after = self.attend(hidden_states, **kwargs), self.post_attention_layernorm
        stream = add(hidden_states, write, self.pre_feedforward_layernorm, after)
        write = self.mlp(self.pre_feedforward_layernorm(stream))
        return self.end(stream, write, self.post_feedforward_layernorm)


class OutputNormBlock(Block):
    """x + N'(A(x)), then x + M'(F(x))."""

    post_feedforward_layernorm: Any

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Pass the stream through both sublayers."""
        if args or torch.compiler.is_compiling():
            return super().forward(hidden_states, *args, **kwargs)
        kwargs.setdefault("attention_mask", None)
        write = self.self_attn(hidden_states=hidden_states, **kwargs)[0]
        stream = add(hidden_states, write, None, self.post_attention_layernorm)
        return self.end(stream, self.mlp(stream), self.post_feedforward_layernorm)


# By all names in the code of transformers' block: a block that does more, in another version, is
# left as it is.
_PARTS = {"self_attn", "input_layernorm", "post_attention_layernorm", "mlp"}
_MORE = {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
BLOCKS = {
    frozenset(_PARTS): PreNormBlock,
    frozenset(_PARTS | _MORE): SandwichNormBlock,
    frozenset(_PARTS ^ {"input_layernorm", "post_feedforward_layernorm"}): OutputNormBlock,
}


def link_blocks(model: nn.Module) -> None:
    """Link each block of a model to the next norm; the last block to the model's final norm."""
    layers = getattr(model, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        return
    nexts = [(layer, "input_layernorm") for layer in layers[1:]] + [(model, "norm")]
    for layer, (owner, name) in zip(layers, nexts, strict=True):
        if isinstance(layer, Block):
            layer.follower = (owner, name) if hasattr(owner, name) else None
