"""Breaks that shelf B, Statistics of the batch, must notice."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="a page of a book is averaged with all its pages",
        path="labkit/norms/instance_norm.py",
        old="wide = at_least_float32(x).flatten(2)\n    centred",
        new="wide = at_least_float32(x).flatten(1)\n    centred",
        claim="B-books-share-means",
    ),
    Break(
        idea="padding is left out of the result, and counts in the statistics",
        path="labkit/norms/_common.py",
        old="packed = norm(channels_last[mask])",
        new="packed = norm(channels_last.flatten(0, -2))[mask.flatten()]",
        claim="B-a-mask-mends-padding",
    ),
    Break(
        idea="PowerNorm never leaves the batch's own statistics",
        path="labkit/norms/power_norm.py",
        old="root = batch_root if call <= self.warmup else (running + self.eps).sqrt()",
        new="root = batch_root",
        claim="B-power-norm-hears-nobody-after-warm-up",
    ),
]
