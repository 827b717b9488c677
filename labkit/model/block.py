"""One block: attention, cross-attention and feed-forward, with norms placed by the recipe."""

from functools import partial

from torch import Tensor, nn

from labkit.context import Context
from labkit.model.description import Description
from labkit.model.space import space_of
from labkit.placements import Place, recipe


class Block(nn.Module):
    """Attention, cross-attention (if there is a memory) and feed-forward, placed by the recipe."""

    def __init__(self, config: Description, block: int = 0, stack: str | None = None):
        super().__init__()
        stack = stack or ("encoder" if config.kind == "encoder" else "decoder")
        encoder, decoder = config.depths
        crossed = stack == "decoder" and encoder > 0
        kinds = ["attention", *(["cross-attention"] if crossed else []), "feed-forward"]
        depth = encoder if stack == "encoder" else decoder
        placement, space = recipe(config.recipe).placement(block, depth), space_of(config.recipe)
        for kind in kinds:
            place = Place(kind, stack, block, encoder, decoder, config.dim)
            if kind == "feed-forward":
                step, sublayer = placement.feed_forward, space.make_feed_forward(config)
            else:
                step = placement.attention
                sublayer = space.make_attention(config, place, placement.heads)
            make = partial(config.make_norm, "attention" if "attention" in kind else "")
            setattr(self, kind.replace("-", "_"), step(make, sublayer, place))
        self.crossed = crossed

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Pass the stream through the sublayers."""
        context.entry = x
        x = self.get_submodule("attention")(x, context)
        if self.crossed:
            x = self.get_submodule("cross_attention")(x, context)
        return self.get_submodule("feed_forward")(x, context)
