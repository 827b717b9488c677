"""Deliberate bugs in labkit that a claim of chapter 09, norms at the memory wall, must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="results that are written count for nothing",
        path="labkit/costs/operations.py",
        old="(name, read, sum(map(_count_bytes, made)))",
        new="(name, read, 0)",
        claim="09-eager-moves-nine-times-the-bytes",
    ),
    Break(
        idea="RMSNorm divides by the length instead of the root mean square",
        path="labkit/norms/rms_norm.py",
        old="wide.square().mean(",
        new="wide.square().sum(",
        claim="09-backward-as-derived",
    ),
]
