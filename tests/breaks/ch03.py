"""Deliberate bugs in labkit that a claim of chapter 03 must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        "RMSNorm subtracts the mean inside its denominator",
        "labkit/norms/rms_norm.py",
        "    mean_square = wide.square().mean(dim=-1, keepdim=True)\n",
        "    mean_square = wide.var(dim=-1, correction=0, keepdim=True)\n",
        "03-rms-jacobian",
    ),
    Break(
        "the one-pass variance takes two passes",
        "labkit/norms/arithmetic.py",
        "return x.square().mean(dim=-1, keepdim=True) - mean.square()",
        "return (x - mean).square().mean(dim=-1, keepdim=True)",
        "03-one-pass-loses-the-variance",
    ),
]
