"""Deliberate bugs in labkit that a claim of chapter 04 must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="queries and keys are always normalized after the rotation",
        path="labkit/attention/multihead.py",
        old="        after = self.norms is not None and self.norms.after_rope\n",
        new="        after = self.norms is not None\n",
        claim="04-attention-equals-the-formula",
    ),
    Break(
        idea="QK-Clip takes the square root of the whole factor",
        path="labkit/attention/logits.py",
        old="    gamma = torch.where(over, threshold / largest, torch.ones_like(largest))\n",
        new="    gamma = torch.where(over, threshold / largest, torch.ones_like(largest)).sqrt()\n",
        claim="04-clip-lands-on-the-threshold",
    ),
]
