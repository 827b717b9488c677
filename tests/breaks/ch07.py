"""Deliberate bugs in labkit that chapter 07, Dynamic Tanh, must detect."""

from tests.breaks import Break

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
]
