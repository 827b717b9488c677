"""Deliberate bugs in labkit that a claim of chapter 05, DeepNorm, must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="α multiplies the branch instead of the skip",
        path="labkit/placements/scaled.py",
        old="return N(self.alpha * x + f(x))",
        new="return N(x + self.alpha * f(x))",
        claim="05-heavy-skip-is-light-branch",
    ),
    Break(
        idea="the exponent of β has the wrong sign",
        path="labkit/placements/scaled.py",
        old="return DeepNormConstants((2 * blocks) ** 0.25, (8 * blocks) ** -0.25)",
        new="return DeepNormConstants((2 * blocks) ** 0.25, (8 * blocks) ** 0.25)",
        claim="05-bound-is-one",
    ),
]
