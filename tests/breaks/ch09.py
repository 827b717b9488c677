"""Breaks that claims of chapter 09, norms at the memory wall, must notice."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="the smallest kernel takes no time at all",
        path="labkit/roofline.py",
        old="bytes / (device.bandwidth * given.of_bandwidth), operations / peak, given.shortest",
        new="bytes / (device.bandwidth * given.of_bandwidth), operations / peak",
        claim="09-eager-norms-take-a-quarter-of-decoding",
    ),
    Break(
        idea="results that are written count for nothing",
        path="labkit/costs.py",
        old="for t in (*read, *made))",
        new="for t in read)",
        claim="09-eager-moves-nine-times-the-bytes",
    ),
    Break(
        idea="RMSNorm divides by the length instead of the root mean square",
        path="labkit/norms/rms_norm.py",
        old="wide.square().mean(",
        new="wide.square().sum(",
        claim="09-backward-as-derived",
    ),
    Break(
        idea="the share of norms is taken of something else than the whole step",
        path="labkit/roofline.py",
        old='return parts["norms and sums"] / sum(parts.values())',
        new='return parts["norms and sums"] / parts["activation"]',
        claim="09-fused-norms-take-a-few-per-cent",
    ),
]
