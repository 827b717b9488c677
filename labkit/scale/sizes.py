"""Sizes by name: the HybridNorm paper's, and smaller ones for trying things out.

A name counts the parameters at the vocabulary it was made for: 100,278 tokens in the paper, 257
for the small ones (bytes). With another vocabulary the embedding changes; `count_parameters`
counts.

Source: Zhuo et al. 2025, arXiv 2503.04598, Table 6: embeddings tied, SwiGLU, grouped key-value
heads. Its feed-forward width of 9,192 at 1.2B is 8,192 in the authors' configuration; their norms
have eps 1e-5. Not followed: rotary base 500,000; here it is 10,000, as in every chapter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.system.unknown import explain_unknown

if TYPE_CHECKING:
    from labkit.model import ModelConfig

PAPER_VOCAB, BYTES_VOCAB = 100_278, 257


@dataclass(frozen=True)
class Size:
    """The widths and counts that a name stands for."""

    dim: int
    hidden: int  # width inside the feed-forward
    heads: int
    kv_heads: int
    depth: int
    context: int = 4096  # tokens in a sequence
    vocab: int = PAPER_VOCAB  # the vocabulary at which the name counts


SIZES: dict[str, Size] = {
    "tiny": Size(64, 192, 4, 2, 4, 128, BYTES_VOCAB),
    "1M": Size(128, 384, 4, 2, 5, 256, BYTES_VOCAB),
    "10M": Size(384, 1088, 6, 2, 6, 512, BYTES_VOCAB),
    "151M": Size(768, 2048, 16, 4, 12),
    "285M": Size(1024, 4096, 16, 4, 12),
    "543M": Size(1024, 4096, 16, 4, 29),
    "550M": Size(1536, 4096, 16, 4, 16),
    "1.2B": Size(2048, 8192, 32, 8, 16),
}


def find_size(name: str) -> Size:
    """Look a size up; ValueError lists those that exist."""
    if name not in SIZES:
        raise ValueError(explain_unknown("size", name, SIZES))
    return SIZES[name]


def model_config(
    name: str,
    recipe: str,
    norm: str,
    vocab: int,
    context: int | None = None,
    init: str | None = None,
) -> ModelConfig:
    """Describe the model of a size, with any recipe and norm, for a vocabulary.

    nGPT has as many key-value heads as heads and an output matrix of its own, so that its models
    are larger than the name.
    """
    from labkit.model import ModelConfig
    from labkit.placements import recipe as row

    found, asked = find_size(name), row(recipe)
    return ModelConfig(
        recipe=recipe,
        norm=norm,
        dim=found.dim,
        depth=found.depth,
        heads=found.heads,
        kv_heads=None if asked.sphere else found.kv_heads,
        vocab=vocab,
        hidden=found.hidden,
        context=found.context if context is None else context,
        tie=not asked.sphere,
        init=init,
        norm_eps=1e-5 if (asked.norm or norm) in ("rms", "layer") else None,
    )


def count_parameters(config: ModelConfig) -> int:
    """Count a model's parameters exactly, without allocating them; a tied matrix counts once."""
    import torch

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in config.build().parameters())
