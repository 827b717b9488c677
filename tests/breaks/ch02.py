"""Deliberate bugs in labkit that chapter 02, Pre-Norm and Post-Norm, must detect."""

from dataclasses import replace

from labkit.corpora import Text
from labkit.experiments import Run
from labkit.model import ModelConfig
from labkit.training import TrainConfig
from tests.breaks import Break

TINY = ModelConfig(dim=16, depth=2, heads=2, context=8, recipe="post")

BREAKS = [
    Break(
        idea="Post-Norm normalizes the write in place of the sum",
        path="labkit/placements/residual.py",
        old="        return N(x + f(x))",
        new="        return x + N(f(x))",
        claim="02-a-constant-write-halves-the-angle",
    ),
    Break(
        idea="Pre-Norm's skip carries the normalized copy",
        path="labkit/placements/residual.py",
        old='        """Add the output of f for a normalized copy of the stream."""\n'
        "        return x + f(N(x))",
        new='        """Add the output of f for a normalized copy of the stream."""\n'
        "        return N(x) + f(N(x))",
        claim="02-a-constant-write-leaves-pre-norm-its-token",
    ),
    Break(
        idea="Admin's profiling pass leaves every ω at 1",
        path="labkit/placements/scaled.py",
        old="            one.omega.fill_(total**0.5)",
        new="            one.omega.fill_(1.0)",
        run=Run(replace(TINY, recipe="admin"), Text(batch=2, time=8), TrainConfig(steps=20)),
    ),
]
