"""Deliberate bugs in labkit that chapter 06, HybridNorm, must detect."""

from labkit.corpora import Text
from labkit.experiments import Run
from labkit.model import ModelConfig
from labkit.training import TrainConfig
from tests.breaks import Break

TINY = ModelConfig(dim=16, depth=2, heads=2, context=8, recipe="hybrid")

BREAKS = [
    Break(
        idea="the skip of HybridNorm's second half takes the raw stream",
        path="labkit/placements/residual.py",
        old="        z = N(x)\n        return z + f(z)",
        new="        z = N(x)\n        return x + f(z)",
        claim="06-the-stream-is-reset",
    ),
    Break(
        idea="values are not normed",
        path="labkit/placements/__init__.py",
        old='HYBRID = Placement(NoNorm, StreamNorm, "qkv rms")',
        new='HYBRID = Placement(NoNorm, StreamNorm, "qk rms")',
        claim="06-rows-that-are-one-function",
    ),
    Break(
        idea="text is its own next character",
        path="labkit/corpora/text.py",
        old="yield window[:, :-1], window[:, 1:]",
        new="yield window[:, :-1], window[:, :-1]",
        run=Run(TINY, Text(batch=2, time=8), TrainConfig(steps=20)),
    ),
]
