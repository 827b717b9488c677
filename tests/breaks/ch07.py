"""Breaks that chapter 07, Dynamic Tanh, must notice."""

from labkit.corpora import Markov
from labkit.experiments import Run
from labkit.model import ModelConfig
from labkit.training import TrainConfig
from tests.breaks import Break

TINY = ModelConfig(dim=16, depth=2, heads=2, context=8, vocab=16, norm="dyt")

BREAKS = [
    Break(
        idea="α is a gain instead of a slope",
        path="labkit/norms/dynamic_tanh.py",
        old="torch.tanh(scalar(alpha, wide) * wide)",
        new="scalar(alpha, wide) * torch.tanh(wide)",
        claim="07-scale-and-alpha-are-one-knob",
    ),
    Break(
        idea="BHyT forgets its bound",
        path="labkit/norms/bounded_tanh.py",
        old="torch.tanh(wide * (slope / bound))",
        new="torch.tanh(wide * slope)",
        claim="07-bhyt-is-a-small-rms-norm",
    ),
    Break(
        idea="the probe bends every map: slopes are taken from one end to the other",
        path="labkit/probes/norm_maps.py",
        old="return slopes[0] / slopes[1] if slopes[1]",
        new="return slopes[1] / slopes[0] if slopes[0]",
        claim="07-spread-makes-the-s",
    ),
    Break(
        idea="Muon's updates have another size than AdamW's",
        path="labkit/training.py",
        old='adjust_lr_fn="match_rms_adamw"',
        new='adjust_lr_fn="original"',
        run=Run(TINY, Markov(batch=2, time=8), TrainConfig(steps=20, optimizer="muon")),
    ),
]
