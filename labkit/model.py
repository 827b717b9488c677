"""The transformer that every chapter trains, and the small networks for images beside it.

tokens -> embedding -> depth × [recipe(attention), recipe(feed-forward)] -> final norm? -> logits
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from labkit.attention import Attention, rotary_angles
from labkit.init import INITS, initialize
from labkit.norms import NORMS, make_norm
from labkit.placements import recipe

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


@dataclass(frozen=True)
class ModelConfig:
    """What a transformer is made of; refuses nonsense when it is made."""

    recipe: str = "pre"  # where the norms sit: a key of RECIPES
    norm: str = "rms"  # which norm: a key of NORMS
    dim: int = 64  # width of the residual stream
    depth: int = 4  # blocks: attention and feed-forward each
    heads: int = 4
    kv_heads: int | None = None  # None: as many as heads
    vocab: int = 96
    hidden: int | None = None  # width inside the feed-forward; None: 4·dim (SwiGLU: 8·dim/3)
    context: int = 64  # longest sequence
    kind: str = "decoder"  # decoder (causal) or encoder (sees the whole sequence)
    activation: str = "swiglu"  # swiglu, gelu or relu
    tie: bool = False  # one matrix for embedding and output
    init: str = "megatron"  # a key of INITS
    norm_eps: float | None = None  # None: the norm's own default
    final_norm: bool | None = None  # None: as the recipe has it

    def __post_init__(self) -> None:
        recipe(self.recipe)
        for what, name, table in (
            ("norm", self.norm, NORMS),
            ("initialization", self.init, INITS),
            ("kind", self.kind, ("decoder", "encoder")),
            ("activation", self.activation, ("swiglu", *ACTIVATIONS)),
        ):
            if name not in table:
                raise ValueError(f"unknown {what} {name!r}; choose one of {', '.join(table)}")
        for field in ("dim", "depth", "heads", "vocab", "context", "kv_heads", "hidden"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} must be at least 1, got {value}")
        if self.dim % (2 * self.heads):
            raise ValueError(
                f"dim ({self.dim}) must be an even multiple of heads ({self.heads}): rotary "
                "positions turn channels in pairs"
            )
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(
                f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})"
            )
        if self.norm_eps is not None and not self.norm_eps >= 0:
            raise ValueError(f"norm_eps must be at least 0, got {self.norm_eps}")

    @property
    def hidden_dim(self) -> int:
        """Width inside the feed-forward; 8·dim/3 gives SwiGLU the parameters of 4·dim."""
        return self.hidden or (8 * self.dim // 3 if self.activation == "swiglu" else 4 * self.dim)

    def build(self) -> "Transformer":
        """Make the model, drawing its weights from torch's current random state."""
        return Transformer(self)


class FeedForward(nn.Module):
    """Transform each token by itself: down(act(up x)), or down(silu(gate x) · up x) for SwiGLU.

    Source of SwiGLU: Shazeer 2020, arXiv 2002.05202. No biases.
    """

    def __init__(self, dim: int, hidden: int, activation: str):
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False) if activation == "swiglu" else None
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.activation = ACTIVATIONS.get(activation)

    def forward(self, x: Tensor, angles: Tensor | None = None) -> Tensor:
        """Apply the two matrices; positions do not matter here."""
        if self.gate is not None:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        assert self.activation is not None
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    """Attention, then feed-forward, each wrapped by the recipe."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        attention = Attention(
            config.dim, config.heads, config.kv_heads or config.heads, config.kind == "decoder"
        )
        feed_forward = FeedForward(config.dim, config.hidden_dim, config.activation)
        wrap = recipe(config.recipe).wrap
        self.attention = wrap(lambda: norm_of(config), attention)
        self.feed_forward = wrap(lambda: norm_of(config), feed_forward)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """Pass the stream through both sublayers."""
        return self.feed_forward(self.attention(x, angles), angles)


def norm_of(config: ModelConfig) -> nn.Module:
    """Make one norm of the config's kind and width."""
    kw = {} if config.norm_eps is None else {"eps": config.norm_eps}
    return make_norm(config.norm, config.dim, **kw)


class Transformer(nn.Module):
    """Predict the next token at every position (decoder), or a token at each (encoder)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        final = recipe(config.recipe).final_norm if config.final_norm is None else config.final_norm
        self.final_norm = norm_of(config) if final else nn.Identity()
        self.output = nn.Linear(config.dim, config.vocab, bias=False)
        angles = rotary_angles(config.context, config.dim // config.heads)
        self.register_buffer("angles", angles, persistent=False)
        initialize(self, config.init, dim=config.dim, depth=config.depth)
        if config.tie:
            self.output.weight = self.embedding.weight

    def embed(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time dim"]:
        """Look the tokens up, at unit size per channel: rows are drawn with std 1/sqrt(dim)."""
        config = self.config
        if tokens.is_floating_point() or tokens.ndim != 2 or tokens.numel() == 0:
            raise ValueError(
                "Transformer needs integer tokens of shape (batch, time), at least one of them, "
                f"got {tokens.dtype} of shape {tuple(tokens.shape)}"
            )
        if tokens.shape[1] > config.context:
            raise ValueError(
                f"sequence of {tokens.shape[1]} tokens is longer than context ({config.context})"
            )
        return self.embedding(tokens) * config.dim**0.5

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        """Give a logit to each token of the vocabulary at every position."""
        x = self.embed(tokens)
        angles = self.get_buffer("angles")[: tokens.shape[1]].to(x.dtype)
        for block in self.blocks:
            x = block(x, angles)
        return self.output(self.final_norm(x))
