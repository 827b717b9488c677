"""Deliberate bugs in labkit that a claim of chapter 10, choosing a norm, must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="sensitivity is held against the worst rate",
        path="labkit/experiments/ladder/comparing.py",
        old="fmean(of[rate] for rate in COARSE) - min(of.values())",
        new="fmean(of[rate] for rate in COARSE) - max(of.values())",
        claim="10-norms-on-q-and-k-lower-the-sensitivity",
    ),
    Break(
        idea="matrix products are counted half",
        path="labkit/costs/operations.py",
        old="flops.get_total_flops() / size,",
        new="flops.get_total_flops() / size / 2,",
        claim="10-operations-by-hand",
    ),
]
