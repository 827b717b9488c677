"""One block: attention, cross-attention and feed-forward, each placed as the recipe says."""

from functools import partial

from torch import Tensor, nn

from labkit.attention import Attention
from labkit.attention.sphere import SphereAttention
from labkit.context import Context
from labkit.model.config import ModelConfig
from labkit.model.feed_forward import FeedForward, MixtureOfExperts, SphereFeedForward
from labkit.norms import make_norm
from labkit.placements import Place, recipe


def _build_attention(config: ModelConfig, place: Place, heads: str | None) -> nn.Module:
    asked, cross = recipe(config.recipe), place.kind == "cross-attention"
    causal = place.stack == "decoder" and not cross
    if asked.sphere:
        return SphereAttention(config.dim, config.heads, causal)
    norms = config.norms_inside(heads)
    if cross and heads and heads.startswith("c "):
        norms = None  # Sub-LN leaves cross-attention's output as it is
    return Attention(
        config.dim,
        config.heads,
        config.kv_heads or config.heads,
        causal,
        norms=norms,
        norm_kw=config.options_of(norms.norm) if norms is not None else None,
        softcap=config.attention_cap,
        head_gain=asked.head_gain,
        chain=place.kind if asked.chain else None,
        cross=cross,
        clip=config.qk_clip is not None,
    )


def _feed_forward(config: ModelConfig) -> nn.Module:
    asked = recipe(config.recipe)
    if asked.sphere:
        return SphereFeedForward(config.dim, config.hidden_dim)
    inner = partial(_inner_norm, config) if asked.inner_norm else None
    if config.experts is not None:
        return MixtureOfExperts(
            config.dim,
            config.hidden_dim,
            config.activation,
            config.experts,
            config.experts_per_token,
            inner_norm=inner,
        )
    return FeedForward(config.dim, config.hidden_dim, config.activation, inner_norm=inner)


def _inner_norm(config: ModelConfig, width: int) -> nn.Module:
    return make_norm(config.norm_name, width, **config.norm_options)


class Block(nn.Module):
    """Attention, cross-attention where there is a memory, feed-forward, as the recipe has them."""

    def __init__(self, config: ModelConfig, block: int = 0, stack: str | None = None):
        super().__init__()
        stack = stack or ("encoder" if config.kind == "encoder" else "decoder")
        encoder, decoder = config.depths
        crossed = stack == "decoder" and encoder > 0
        kinds = ["attention", *(["cross-attention"] if crossed else []), "feed-forward"]
        depth = encoder if stack == "encoder" else decoder
        placement = recipe(config.recipe).placement(block, depth)
        for i, kind in enumerate(kinds):
            place = Place(kind, stack, block, block * len(kinds) + i, encoder, decoder, config.dim)
            if kind == "feed-forward":
                step, sublayer = placement.feed_forward, _feed_forward(config)
            else:
                step, sublayer = (
                    placement.attention,
                    _build_attention(config, place, placement.heads),
                )
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
