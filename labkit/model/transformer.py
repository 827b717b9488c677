"""The transformer that every chapter trains: one stack of blocks, or an encoder and a decoder.

tokens -> embedding -> depth × [recipe(attention), recipe(feed-forward)] -> final norm? -> logits
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labkit.attention import Attention, rotary_angles
from labkit.attention.logits import soft_cap
from labkit.context import Context, apply_norm
from labkit.model.block import Block
from labkit.model.description import Description
from labkit.model.feed_forward import MixtureOfExperts
from labkit.model.init import initialize_model
from labkit.model.space import Anywhere, Placed, space_of
from labkit.placements import Admin, recipe
from labkit.placements.scaled import profile_writes


class Transformer(Placed):
    """Predict the next token at every position (decoder), or a token at each position (encoder).

    With kind="encoder-decoder" the decoder predicts the next token from those before it and,
    through cross-attention, from a whole `source` sequence.
    """

    def __init__(self, config: Description):
        super().__init__()
        self.config = config
        asked = recipe(config.recipe)
        encoder, decoder = config.depths
        main = "encoder" if config.kind == "encoder" else "decoder"
        self.embedding = nn.Embedding(config.vocab, config.dim)
        self.blocks = nn.ModuleList(Block(config, i, main) for i in range(config.depth))
        final = asked.final_norm if config.final_norm is None else config.final_norm
        self.final_norm = config.make_norm() if final else nn.Identity()
        self.output = nn.Linear(config.dim, config.vocab, bias=False)
        if config.kind == "encoder-decoder":
            self.encoder = nn.ModuleList(Block(config, i, "encoder") for i in range(encoder))
            self.encoder_norm = config.make_norm() if final else nn.Identity()
        self.embedding_norm = config.make_norm() if asked.embedding_norm else nn.Identity()
        self.space.add_scales(self)
        angles = rotary_angles(config.context, config.dim // config.heads)
        self.register_buffer("angles", angles, persistent=False)
        initialize_model(self, config.init_name, dim=config.dim, encoder=encoder, decoder=decoder)
        if config.tie:
            self.output.weight = self.embedding.weight
        self.space.restore_weights(self)

    @property
    def space(self) -> Anywhere:
        """Return the space of the stream and the weights."""
        return space_of(self.config.recipe)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Transformer":
        # model.to(dtype), .half() …: parameters change, positions do not.
        exact = rotary_angles(self.config.context, self.config.dim // self.config.heads)
        super()._apply(fn, recurse)
        self.angles = exact.to(self.get_buffer("angles").device)
        return self

    def embed(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time dim"]:
        """Look up the tokens' embeddings, and scale them as the model's space requires."""
        config = self.config
        if tokens.is_floating_point() or tokens.ndim != 2 or tokens.numel() == 0:
            raise ValueError(
                "Transformer needs at least one token, as integers of shape (batch, time); got "
                f"{tokens.dtype} of shape {tuple(tokens.shape)}"
            )
        if tokens.shape[1] > config.context:
            raise ValueError(
                f"a sequence may have at most {config.context} tokens (the config's context), got "
                f"{tokens.shape[1]}"
            )
        return self.space.place_tokens(self, self.embedding(tokens))

    def forward(
        self,
        tokens: Int[Tensor, "batch time"],
        source: Int[Tensor, "batch source"] | None = None,
        padding: Bool[Tensor, "batch time"] | None = None,
        source_padding: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch time vocab"]:
        """Return a logit for each token of the vocabulary at every position.

        `padding` and `source_padding` are True for real tokens. Padded positions are ignored:
        attention and norms over tokens leave them out, and their own logits are meaningless.
        """
        self._check_source(source, source_padding)
        memory = None
        if source is not None:
            memory = self._run_stack(self.encoder, self.encoder_norm, source, source_padding)
        x = self._run_stack(self.blocks, self.final_norm, tokens, padding, memory, source_padding)
        logits = self.space.scale_logits(self, self.output(x))
        cap = self.config.output_cap
        return logits if cap is None else soft_cap(logits, cap)

    def _run_stack(
        self,
        blocks: nn.ModuleList,
        final_norm: nn.Module,
        tokens: Tensor,
        padding: Tensor | None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
    ) -> Tensor:
        try:
            x = self.embed(tokens)
        except IndexError:
            raise ValueError(
                f"tokens must be from 0 to {self.config.vocab - 1}, got {tokens.min()} to "
                f"{tokens.max()}; set the model's vocab to that of the corpus"
            ) from None
        _check_padding(tokens, padding)
        # Angles grow with the position: below float32 the fast pairs would be inaccurate.
        wide = torch.promote_types(x.dtype, torch.float32)
        angles = self.get_buffer("angles")[: tokens.shape[1]].to(wide)
        context = Context(angles, padding, memory, memory_padding)
        x = apply_norm(self.embedding_norm, x, context)
        second = recipe(self.config.recipe).second_stream
        context.total = x if second else None
        for block in blocks:
            x = block(x, context)
        if second and context.total is not None:
            return x + apply_norm(final_norm, context.total, context)
        return apply_norm(final_norm, x, context)

    def _check_source(self, source: Tensor | None, source_padding: Tensor | None) -> None:
        both = self.config.kind == "encoder-decoder"
        if both and source is None:
            raise ValueError(
                "an encoder-decoder needs two sequences, but got no source: call model(tokens, "
                "source=source)"
            )
        if not both and (source is not None or source_padding is not None):
            raise ValueError(
                f"a model of kind {self.config.kind!r} needs exactly one sequence, but got a "
                "source as well; use kind='encoder-decoder', or write padding=… if you mean the "
                "mask of the tokens"
            )

    # --- optional methods that a training loop calls ---

    def before_training(self, *inputs: Tensor) -> None:
        """Set the constants that a recipe measures in a pass at initialization: Admin's ω."""
        if not recipe(self.config.recipe).profiled:
            return
        stacks = [getattr(self, name) for name in ("encoder", "blocks") if hasattr(self, name)]
        steps = [[m for m in stack.modules() if isinstance(m, Admin)] for stack in stacks]
        profile_writes(steps, lambda: self(*inputs))

    def after_step(self) -> None:
        """Restore what an optimizer step may break: nGPT's unit weights, QK-Clip's bound."""
        self.space.restore_weights(self)
        if self.config.qk_clip is not None:
            for module in self.modules():
                if isinstance(module, Attention):
                    module.clip_logits(self.config.qk_clip)

    def auxiliary_loss(self) -> Tensor | None:
        """Return the weighted losses of the experts in the last pass; None without experts."""
        config = self.config
        parts = [m.auxiliary_loss() for m in self.modules() if isinstance(m, MixtureOfExperts)]
        if not parts:
            return None
        balance, z = (torch.stack(terms).mean() for terms in zip(*parts, strict=True))
        return config.balance * balance + config.router_z * z

    def weight_decay_allowed(self) -> bool:
        """Return whether weight decay is allowed; on nGPT's spheres it is not."""
        return self.space.decays


def _check_padding(tokens: Tensor, padding: Tensor | None) -> None:
    if padding is None:
        return
    if not isinstance(padding, Tensor) or padding.dtype != torch.bool:
        got = padding.dtype if isinstance(padding, Tensor) else type(padding).__name__
        raise ValueError(f"padding must be a bool tensor, True where a token is real; got {got}")
    if padding.shape != tokens.shape:
        raise ValueError(
            f"padding must have the tokens' shape {tuple(tokens.shape)}, got {tuple(padding.shape)}"
        )
