"""Description of a transformer: its fields, and the quantities derived from them."""

from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from labkit.attention import AttentionNorms, attention_norms
from labkit.norms import make_norm
from labkit.placements import recipe

# DyT's first α by width, (attention's norms, all others). Source: arXiv 2503.10622, its sweep of
# widths for LLaMA; depth does not matter there.
DYT_ALPHA = ((8192, (0.2, 0.05)), (4096, (0.8, 0.2)), (2048, (1.0, 0.5)), (1, (1.0, 1.0)))


@dataclass(frozen=True)
class Description:
    """Description of a transformer; `ModelConfig` is a checked one that can build the model."""

    recipe: str = "pre"  # where the norms sit: a key of RECIPES
    norm: str = "rms"  # which norm: a key of NORMS; a recipe made for one norm has its own
    dim: int = 64  # width of the residual stream
    depth: int = 4  # blocks: attention and feed-forward each
    heads: int = 4
    kv_heads: int | None = None  # None: as many as heads
    vocab: int = 96
    hidden: int | None = None  # width inside the feed-forward; None: 4·dim (SwiGLU: 8·dim/3)
    context: int = 64  # longest sequence
    kind: str = "decoder"  # decoder (causal), encoder (sees everything) or encoder-decoder
    activation: str = "swiglu"  # swiglu, gelu or relu
    qk_norm: str | None = None  # norms inside attention, as `attention_norms` reads them
    softcap: float | None = None  # bound of attention logits; None: as the recipe has it
    tie: bool = False  # one matrix for embedding and output
    init: str | None = None  # a key of INITS; None: the recipe's own, or else megatron
    norm_eps: float | None = None  # None: the norm's own default
    final_norm: bool | None = None  # None: as the recipe has it
    encoder_depth: int | None = None  # blocks of an encoder-decoder's encoder; None: as depth
    logit_softcap: float | None = None  # bound of the output's logits; None: as the recipe has it
    qk_clip: float | None = None  # bound to which attention logits are clipped after each step
    alpha: tuple[float, float] | None = None  # DyT, Derf: first α (attention, others)
    norm_kw: tuple[tuple[str, float], ...] = ()  # further arguments of the norm, (name, value)
    experts: int | None = None  # experts in place of each feed-forward; None: a plain one
    experts_per_token: int = 2
    balance: float = 0.01  # weight of the experts' load-balancing loss
    router_z: float = 0.001  # weight of the router's z-loss
    embedding_size: float = 1.0  # first size per channel of an embedding, learned or not

    @property
    def hidden_dim(self) -> int:
        """Return the hidden width; 8·dim/3 gives SwiGLU as many parameters as 4·dim otherwise."""
        return self.hidden or (8 * self.dim // 3 if self.activation == "swiglu" else 4 * self.dim)

    @property
    def depths(self) -> tuple[int, int]:
        """Return the numbers of encoder and decoder blocks; 0 if there is no such stack."""
        if self.kind == "encoder-decoder":
            return self.encoder_depth or self.depth, self.depth
        return (self.depth, 0) if self.kind == "encoder" else (0, self.depth)

    @property
    def norm_name(self) -> str:
        """Return the name of the norm: the recipe's own norm, if it has one, else `norm`."""
        return recipe(self.recipe).norm or self.norm

    @property
    def norm_options(self) -> dict[str, float]:
        """Return the norm's keyword arguments: the recipe's, `norm_kw` and `norm_eps`."""
        eps = {} if self.norm_eps is None else {"eps": self.norm_eps}
        return {**dict(recipe(self.recipe).norm_kw), **dict(self.norm_kw), **eps}

    def options_of(self, norm: str) -> dict[str, float]:
        """Return the options of a norm inside attention: all for the model's norm, or only eps."""
        if norm == self.norm_name:
            return self.norm_options
        return {} if self.norm_eps is None else {"eps": self.norm_eps}

    @property
    def init_name(self) -> str:
        """Return the name of the initialization."""
        return self.init or recipe(self.recipe).init or "megatron"

    @property
    def attention_cap(self) -> float | None:
        """Return the bound on attention logits: `softcap`, or the recipe's if it is None."""
        return recipe(self.recipe).softcap if self.softcap is None else self.softcap

    @property
    def output_cap(self) -> float | None:
        """Return the bound on the output logits: `logit_softcap`, or the recipe's if it is None."""
        asked = recipe(self.recipe).logit_softcap
        return asked if self.logit_softcap is None else self.logit_softcap

    @property
    def alphas(self) -> tuple[float, float]:
        """Return the initial α of DyT or Derf for attention's norms and for all others."""
        if self.alpha is not None:
            return self.alpha
        if self.norm_name == "derf":
            return (1.0, 1.0)  # the code of arXiv 2512.10938 for language models
        return next(alphas for width, alphas in DYT_ALPHA if self.dim >= width)

    def resolved(self) -> dict[str, Any]:
        """Return all fields with their defaults filled in, and with the recipe's content.

        Two configs that build the same model return the same, whatever names they use.
        """
        asked = recipe(self.recipe)
        encoder, _ = self.depths
        # The recipe's values of these are resolved below, because a config may override them.
        here = ("norm", "norm_kw", "init", "final_norm", "softcap", "logit_softcap")
        rest = {name: value for name, value in asked.content().items() if name not in here}
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "recipe": rest,
            "norm": self.norm_name,
            "norm_kw": sorted(self.norm_options.items()),
            "norm_eps": None,
            "kv_heads": self.kv_heads or self.heads,
            "hidden": self.hidden_dim,
            "init": self.init_name,
            "final_norm": asked.final_norm if self.final_norm is None else self.final_norm,
            "encoder_depth": encoder if self.kind == "encoder-decoder" else None,
            "softcap": self.attention_cap,
            "logit_softcap": self.output_cap,
            "alpha": list(self.alphas) if self.norm_name in ("dyt", "derf") else None,
        }

    def make_norm(self, kind: str = "") -> nn.Module:
        """Make a norm of the model's type and width; `kind` says which input it normalizes."""
        options = self.norm_options
        if self.norm_name in ("dyt", "derf"):
            options.setdefault("alpha", self.alphas[0 if kind == "attention" else 1])
        return make_norm(self.norm_name, self.dim, **options)

    def norms_inside(self, heads: str | None) -> AttentionNorms | None:
        """Return the norms inside attention: the placement's `heads`, or else `qk_norm`."""
        words = heads.format(norm=self.norm_name) if heads else self.qk_norm
        return attention_norms(words, length=max(2, self.context))
