"""Deliberate bugs in labkit that appendix B, Statistics of the batch, must detect."""

from labkit.corpora import FewDigits, Points
from labkit.experiments import Run
from labkit.model.bare import BareMLPConfig
from labkit.training import TrainConfig
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
    Break(
        idea="the rows of a ghost batch come from all over the batch, whatever its order",
        path="labkit/model/bare.py",
        old="rows.unflatten(0, (groups, self.size)).transpose(0, 1)",
        new="rows.unflatten(0, (self.size, groups))",
        run=Run(BareMLPConfig("batch", ghost=2), FewDigits(images=16), TrainConfig(steps=8)),
    ),
    Break(
        idea="the outer ring is the other class, in place of the middle one",
        path="labkit/corpora/few.py",
        old="dim=1), ring % 2",
        new="dim=1), ring // 2",
        run=Run(
            BareMLPConfig("layer", relu=False, width=8, inputs=2, classes=2),
            Points("rings", count=12),
            TrainConfig(steps=8),
        ),
    ),
]
