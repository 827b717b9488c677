"""Deliberate bugs in labkit that appendix D, numbers and formats, must detect."""

from labkit.corpora import Text
from labkit.experiments import Run
from labkit.model import ScaledGradients
from labkit.training import TrainConfig
from tests.breaks import Break

TINY = ScaledGradients(dim=16, depth=2, heads=2, context=8, loss_scale=2.0**-8)

BREAKS = [
    Break(
        idea="E5M2 rounds as finely as float16",
        path="labkit/formats.py",
        old="torch.float8_e5m2",
        new="torch.float16",
        claim="D-six-decibels-a-bit",
    ),
    Break(
        idea="NVFP4's blocks share one scale",
        path="labkit/formats.py",
        old='round_to_format(blocks.abs().amax(-1, keepdim=True) / (six * whole), "e4m3")',
        new='round_to_format(blocks.abs().amax() / (six * whole), "e4m3")',
        claim="D-blocks-keep-an-outlier-local",
    ),
    Break(
        idea="noise is measured against itself",
        path="labkit/formats.py",
        old="10 * torch.log10(exact.square().sum(-1) / noise)",
        new="20 * torch.log10(exact.square().sum(-1) / noise)",
        claim="D-width-lifts-a-signal-that-adds-up",
    ),
    Break(
        idea="a running sum is rounded at its end only",
        path="labkit/formats.py",
        old="total = round_to_format(total + column, name)",
        new="total = total + column",
        claim="D-statistics-of-fp8-are-unreliable",
    ),
    Break(
        idea="numbers lose half a unit of their last digit, as if they were cut off",
        path="labkit/formats.py",
        old="return x.to(kind.dtype).to(torch.float32)",
        new="return x.to(kind.dtype).to(torch.float32) * (1 - 2.0**-kind.significant)",
        claim="D-tokens-in-fp8-keep-their-rms",
    ),
    Break(
        idea="gradients are not rounded between modules",
        path="labkit/model/scaled_gradients.py",
        old="return round_to_format(gradients[0] * ctx.scale, ctx.name), None, None",
        new="return gradients[0] * ctx.scale, None, None",
        run=Run(TINY, Text(batch=2, time=8), TrainConfig(steps=20)),
    ),
]
