"""Models with perturbed norms or embeddings: rounding, an offset, an outlier, small embeddings.

Without a perturbation this is the plain model with the same fields, and the two share runs.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.model.config import ModelConfig
from labkit.model.space import SPHERE, space_of
from labkit.model.transformer import Transformer
from labkit.norms.arithmetic import set_arithmetic


@dataclass(frozen=True)
class Perturbed(ModelConfig):
    """A model whose norms are rounded, or whose embeddings are shifted or start smaller."""

    norm_arithmetic: str | None = None  # layer, rms: the rounding, as in norms.arithmetic
    embedding_offset: float = 0.0  # a constant added to every channel of every embedding
    embedding_outlier: float = 0.0  # added to channel 0 of token 1's embedding (text: the space)
    embedding_drawn: float = 1.0  # initial factor of the embeddings, which may grow in training

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("embedding_offset", "embedding_outlier", "embedding_drawn"):
            value = getattr(self, field)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{field} must be a finite number, got {value!r}")
        if not self.embedding_drawn > 0:
            raise ValueError(f"embedding_drawn must be above 0, got {self.embedding_drawn}")
        for field in (
            "norm_arithmetic",
            "embedding_offset",
            "embedding_outlier",
            "embedding_drawn",
        ):
            value = getattr(self, field)
            if space_of(self.recipe) is SPHERE and value != getattr(type(self), field):
                raise ValueError(
                    f"recipe {self.recipe!r} defines its own norms and embeddings, so {field} "
                    f"must keep its default, got {value!r}; choose another recipe"
                )
        self.make_norm()  # refuses an arithmetic that does not fit

    def make_norm(self, kind: str = "") -> nn.Module:
        """Make one norm of the model, in the configured arithmetic."""
        norm = super().make_norm(kind)
        return norm if self.norm_arithmetic is None else set_arithmetic(norm, self.norm_arithmetic)

    def resolved(self) -> dict[str, Any]:
        """Return the fields that determine the model, as for the unperturbed one."""
        return super().resolved() | {"type": ModelConfig.__name__}

    def build(self) -> Transformer:
        """Make the model, with the initial weights that it would have without the perturbation."""
        return PerturbedTransformer(self)


class PerturbedTransformer(Transformer):
    """A transformer whose embeddings may be shifted, or start smaller."""

    config: Perturbed

    def __init__(self, config: Perturbed):
        super().__init__(config)
        with torch.no_grad():
            self.embedding.weight *= config.embedding_drawn

    def embed(self, tokens: Tensor) -> Tensor:
        """Look up the tokens' embeddings, then shift them."""
        x, config = super().embed(tokens), self.config
        if config.embedding_outlier:
            first = torch.arange(config.dim, device=x.device) == 0
            x = x + config.embedding_outlier * ((tokens == 1).unsqueeze(-1) & first)
        return x + config.embedding_offset if config.embedding_offset else x
