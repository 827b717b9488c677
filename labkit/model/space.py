"""Space of the stream and the weights: unconstrained, or unit spheres as in nGPT.

`Sphere` is for nGPT, `Anywhere` for every other recipe. A space defines the sublayers, the scaling
of embeddings and logits, and the constraint to restore after an optimizer step.
"""

from functools import partial

import torch
from torch import Tensor, nn

from labkit.attention import Attention
from labkit.attention.sphere import SphereAttention
from labkit.model.description import Description
from labkit.model.feed_forward import FeedForward, MixtureOfExperts, SphereFeedForward
from labkit.norms import make_norm
from labkit.norms.unit import Scale, unit
from labkit.placements import Place, recipe
from labkit.placements.sphere import normalize_weights, unit_rows_


class Placed(nn.Module):
    """The attributes that a space needs of a model."""

    config: Description
    embedding_scale: nn.Parameter  # where the recipe learns it
    s_z: Scale  # nGPT's
    unit_rows_ = staticmethod(unit_rows_)  # how nGPT's weights get unit length: labkit.fused


class Anywhere:
    """No constraint on the length of tokens or weights."""

    decays = True  # weight decay makes sense

    def check_config(self, config: Description) -> None:
        """Refuse settings that this space defines itself: none here."""

    def make_attention(self, config: Description, place: Place, heads: str | None) -> nn.Module:
        """Make an attention sublayer, with the inner norms that `heads` names."""
        asked, cross = recipe(config.recipe), place.kind == "cross-attention"
        norms = config.norms_inside(heads)
        if cross and heads and heads.startswith("c "):
            norms = None  # Sub-LN leaves cross-attention's output as it is
        return Attention(
            config.dim,
            config.heads,
            config.kv_heads or config.heads,
            causal=place.stack == "decoder",
            norms=norms,
            norm_kw=config.options_of(norms.norm) if norms is not None else None,
            softcap=config.attention_cap,
            head_gain=asked.head_gain,
            chain=place.kind if asked.chain else None,
            cross=cross,
            clip=config.qk_clip is not None,
        )

    def make_feed_forward(self, config: Description) -> nn.Module:
        """Make a feed-forward sublayer: one for all tokens, or a mixture of experts."""
        inner = None
        if recipe(config.recipe).inner_norm:
            inner = partial(make_norm, config.norm_name, **config.norm_options)
        if config.experts is None:
            return FeedForward(config.dim, config.hidden_dim, config.activation, inner_norm=inner)
        return MixtureOfExperts(
            config.dim,
            config.hidden_dim,
            config.activation,
            config.experts,
            config.experts_per_token,
            inner_norm=inner,
        )

    def add_scales(self, model: Placed) -> None:
        """Add the learned factor on the embedding, if the recipe has one."""
        config = model.config
        if recipe(config.recipe).embedding_scale:
            first = config.embedding_size * config.dim**0.5
            model.embedding_scale = nn.Parameter(torch.tensor(first))

    def place_tokens(self, model: Placed, x: Tensor) -> Tensor:
        """Scale embeddings, drawn with std 1/sqrt(dim), to the config's RMS."""
        config = model.config
        if recipe(config.recipe).embedding_scale:
            return x * model.embedding_scale
        return x * (config.embedding_size * config.dim**0.5)

    def scale_logits(self, model: Placed, logits: Tensor) -> Tensor:
        """Return the logits unchanged."""
        return logits

    def restore_weights(self, model: Placed) -> None:
        """Restore what an optimizer step may break: nothing here."""


class Sphere(Anywhere):
    """nGPT: every vector of a matrix and every token of the stream has length 1.

    Source: Loshchilov et al. 2024, arXiv 2410.01131.
    """

    decays = False

    def check_config(self, config: Description) -> None:
        """Refuse settings that nGPT defines itself."""
        for field, fits in (
            ("kind", ("decoder", "encoder")),
            ("kv_heads", (None, config.heads)),
            ("activation", ("swiglu",)),
            ("qk_norm", (None,)),
            ("softcap", (None,)),
            ("qk_clip", (None,)),
            ("experts", (None,)),
            ("final_norm", (None, False)),
        ):
            if getattr(config, field) not in fits:
                raise ValueError(
                    f"recipe {config.recipe!r} defines its own {field}, so {field} must be "
                    f"{' or '.join(map(repr, fits))}; got {getattr(config, field)!r}"
                )

    def make_attention(self, config: Description, place: Place, heads: str | None) -> nn.Module:
        """Make attention between unit vectors."""
        return SphereAttention(config.dim, config.heads, causal=place.stack == "decoder")

    def make_feed_forward(self, config: Description) -> nn.Module:
        """Make SwiGLU with learned scales on its two hidden vectors."""
        return SphereFeedForward(config.dim, config.hidden_dim)

    def add_scales(self, model: Placed) -> None:
        """Add s_z, a learned scale for each token's logit."""
        model.s_z = Scale(model.config.vocab, 1.0, model.config.dim**-0.5)

    def place_tokens(self, model: Placed, x: Tensor) -> Tensor:
        """Normalize embeddings to length 1."""
        return unit(x)

    def scale_logits(self, model: Placed, logits: Tensor) -> Tensor:
        """Multiply the cosines by s_z, so that probabilities can be close to 1."""
        return logits * model.s_z()

    def restore_weights(self, model: Placed) -> None:
        """Normalize every matrix to unit vectors again."""
        normalize_weights(model, model.unit_rows_)


ANYWHERE, SPHERE = Anywhere(), Sphere()


def space_of(name: str) -> Anywhere:
    """Return the space of a recipe's stream and weights."""
    return SPHERE if recipe(name).sphere else ANYWHERE
