"""Plan of a recipe: one placement per sublayer of a block, and the norms around the blocks."""

import re
from dataclasses import MISSING, dataclass, fields
from typing import Any

from labkit.attention import attention_norms
from labkit.placements.step import Step


@dataclass(frozen=True)
class Placement:
    """Norms of one block: a step for attention, a step for feed-forward, norms on q, k, v, c."""

    attention: type[Step]
    feed_forward: type[Step]
    heads: str | None = None  # norms inside attention, in the words of `attention_norms`

    def content(self) -> list[str | None]:
        """List the equations of both steps, and the norms inside attention."""
        return [self.attention.equation, self.feed_forward.equation, self.heads]

    @property
    def equations(self) -> tuple[str, str]:
        """Return both steps as equations: X before the block, Y between its sublayers."""
        norms = attention_norms(self.heads and self.heads.format(norm="rms"))
        mha = "MHA" if norms is None or norms.tensors == "c" else f"MHA_{norms.tensors.upper()}"
        return (
            f"Y = {_format_equation(self.attention.equation, 'X', mha)}",
            f"X′ = {_format_equation(self.feed_forward.equation, 'Y', 'FFN')}",
        )


def _format_equation(equation: str, x: str, f: str) -> str:
    equation = re.sub(r"\be\b", "X", re.sub(r"\bf\b", f, re.sub(r"\bx\b", x, equation)))
    return equation.replace(" * ", "·").replace("ℓ**0.5", "√ℓ")


@dataclass(frozen=True)
class Recipe:
    """Placement of the norms in a whole model.

    `first` replaces the placement of the first blocks: `first_blocks` of them, or, if it is below
    1, that fraction of the depth, rounded down.
    """

    block: Placement
    source: str
    first: Placement | None = None
    first_blocks: float = 1
    final_norm: bool = True  # a norm between the last block and the output matrix
    embedding_norm: bool = False  # a norm between the embedding and the first block
    embedding_scale: bool = False  # a learned factor on the embedding, which starts at sqrt(dim)
    inner_norm: bool = False  # a norm on the hidden vector of the feed-forward
    head_gain: bool = False  # a learned gain for each head, before the output projection
    chain: bool = False  # attention logits add up from block to block
    second_stream: bool = False  # a sum of all writes next to the stream; both make the output
    sphere: bool = False  # nGPT: all weights and the stream have unit length
    softcap: float | None = None  # bound of attention logits
    logit_softcap: float | None = None  # bound of the output's logits
    norm: str | None = None  # the norm it is made for; None: the model's
    norm_kw: tuple[tuple[str, float], ...] = ()  # further arguments of that norm, (name, value)
    init: str | None = None  # the initialization it is made for; None: the model's, or megatron
    profiled: bool = False  # its constants come from a forward pass before training
    note: str = ""

    def placement(self, block: int, blocks: int) -> Placement:
        """Return the placement of one block, from 0, in a stack of `blocks`."""
        count = self.first_blocks if self.first_blocks >= 1 else int(self.first_blocks * blocks)
        return self.first if self.first is not None and block < count else self.block

    def content(self) -> dict[str, Any]:
        """List the settings that determine a model, as equations without names, for a run's key."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.default is not MISSING}
        kept = {name: value for name, value in parts.items() if value != _DEFAULTS[name]}
        for name in ("note", "first"):
            kept.pop(name, None)
        kept["block"] = self.block.content()
        if self.first is not None:
            kept["first"] = self.first.content()
        return kept

    @property
    def equations(self) -> tuple[str, str]:
        """Return the equations of every block except the first ones."""
        return self.block.equations


_DEFAULTS = {f.name: f.default for f in fields(Recipe)}
