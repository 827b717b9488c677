"""Sizes of models: those of the HybridNorm paper, and small ones with their proportions.

A name counts the parameters at the vocabulary it was made for: 100,278 tokens in the paper, 257
for the small ones (bytes). With another vocabulary the embedding changes.

Source: Zhuo et al. 2025, arXiv 2503.04598, Table 6: embeddings tied, SwiGLU, grouped key-value
heads. Its feed-forward width of 9,192 at 1.2B is 8,192 in the authors' configuration; their norms
have eps 1e-5. Not followed: rotary base 500,000; here it is 10,000, as in every chapter.
"""

from dataclasses import dataclass

from labkit.system.unknown import explain_unknown


@dataclass(frozen=True)
class Size:
    """The widths and counts that a name stands for."""

    dim: int
    hidden: int  # width inside the feed-forward
    heads: int
    kv_heads: int
    depth: int
    context: int = 4096  # tokens in a sequence


SIZES = {
    "tiny": Size(64, 192, 4, 2, 4, 128),
    "1M": Size(128, 384, 4, 2, 5, 256),
    "10M": Size(384, 1088, 6, 2, 6, 512),
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
