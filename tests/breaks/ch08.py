"""Deliberate bugs in labkit that a claim of chapter 08, nGPT, must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="α multiplies the stream instead of the branch",
        path="labkit/placements/sphere.py",
        old="return self.unit(x + self.share * (self.unit(f(x)) - x))",
        new="return self.unit(self.unit(f(x)) + self.share * (x - self.unit(f(x))))",
        claim="08-step-is-the-formula",
    ),
    Break(
        idea="weights are not brought back to length 1",
        path="labkit/placements/sphere.py",
        old="unit_rows_(module.weight, 0 if writes else 1)",
        new="unit(module.weight, 0 if writes else 1)",
        claim="08-constants-are-forgotten",
    ),
]
