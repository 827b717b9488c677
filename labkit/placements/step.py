"""Base class of all placements: a step of the stream is one sublayer f and its norms.

A subclass is one equation. Its method `step` reads like the paper: it gets the stream x, the
sublayer f and one function for each norm, and returns the new stream.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor, nn

from labkit.context import Context, apply_norm


@dataclass(frozen=True)
class Place:
    """Position of a sublayer, as the counts that determine some recipes' constants."""

    kind: str = "feed-forward"  # attention, cross-attention or feed-forward
    stack: str = "decoder"  # its stack: encoder or decoder
    block: int = 0  # its block, from 0
    encoder: int = 0  # blocks in the encoder; 0: there is none
    decoder: int = 1  # blocks in the decoder; 0: there is none
    dim: int = 1  # width of the stream

    @property
    def blocks(self) -> int:
        """Return the number of blocks in its own stack."""
        return self.encoder if self.stack == "encoder" else self.decoder

    @property
    def sublayers(self) -> int:
        """Return the number of sublayers in its own stack: three per block with cross-attention."""
        return self.blocks * (3 if self.stack == "decoder" and self.encoder else 2)


ALONE = Place()
Map = Callable[[Tensor], Tensor]  # a sublayer or a norm, as an equation writes it
MakeNorm = Callable[[], nn.Module]


class Step(nn.Module):
    """A sublayer f applied to the stream x, with the norms listed in `norms`.

    `equation` is the step as one line of Python; `symbols` explains its other letters.
    """

    norms: ClassVar[tuple[str, ...]] = ("norm",)
    equation: ClassVar[str] = "x"
    symbols: ClassVar[dict[str, str]] = {}  # letter -> name of the attribute that holds it
    step: Callable[..., Tensor]  # (x, f, one function for each norm) -> the new stream

    def __init__(self, make_norm: MakeNorm, sublayer: nn.Module, place: Place = ALONE):
        super().__init__()
        for name in self.norms:
            setattr(self, name, make_norm())
        self.sublayer, self.place = sublayer, place

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Update the stream with the sublayer."""
        f = self.sublayer if context is None else partial(self.sublayer, context=context)
        norms = [partial(apply_norm, getattr(self, name), context=context) for name in self.norms]
        return self.step(x, f, *norms)
