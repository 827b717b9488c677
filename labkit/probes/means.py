"""How much of the stream is its mean over channels, the part that LayerNorm deletes."""

from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.probes.look import residual_streams


def mean_share(model: Transformer, batch: Batch) -> list[float]:
    """Share mean(x)² / mean(x²) of a token, averaged: after the embedding and each block.

    It is the squared cosine between the token and the constant vector; a random direction of
    d channels has 1/d on average.
    """
    return [
        (x.mean(dim=-1).square() / x.square().mean(dim=-1).clamp(min=1e-30)).mean().item()
        for x in residual_streams(model, batch[0])
    ]
