"""Placements that carry a second tensor from sublayer to sublayer.

BottomToTop  x ← N(e + x + f(x))                  e = the block's input (B2T's feed-forward)
ResiDual     x ← N(x + f(x)),  r ← r + f(x)       r = a second stream that is never normalized
"""

from torch import Tensor

from labkit.context import Context, apply_norm
from labkit.placements.step import Step


class BottomToTop(Step):
    """x ← N(e + x + f(x)): Post-Norm that also adds the block's input e.

    It is the last step of a block; the other steps are plain Post-Norm, so e skips all norms of the
    block except this one. Source: Takase et al. 2023, arXiv 2206.00330.
    """

    equation = "N(e + x + f(x))"

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Normalize the sum of the block's input, the stream and the sublayer's output."""
        if context is None or context.entry is None:
            raise ValueError(
                "BottomToTop needs the input of its block, but got none; call the block instead "
                "of the step, or pass Context(entry=…)"
            )
        write = self.sublayer(x, context)
        return apply_norm(self.get_submodule("norm"), context.entry + x + write, context)


class ResiDual(Step):
    """x ← N(x + f(x)), r ← r + f(x): a Post-Norm stream, and a plain sum of all outputs.

    r starts equal to x and is stored in the context; the model ends with x + N(r). Source: Xie et
    al. 2023, arXiv 2304.14802.
    """

    equation = "N(x + f(x))"

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Add the sublayer's output to both streams."""
        # A step outside a model: its own x is the start of the second stream.
        context = Context(total=x) if context is None else context
        write = self.sublayer(x, context)
        context.total = write + (x if context.total is None else context.total)
        return apply_norm(self.get_submodule("norm"), x + write, context)
