"""Deliberate bugs in labkit that appendix E, HybridNorm's tables, must detect."""

from tests.breaks import Break

BREAKS = [
    Break(
        idea="a published number loses what stands after its point",
        path="labkit/experiments/papers.py",
        old="return float(text) if text else None",
        new="return float(round(float(text))) if text else None",
        claim="E-table-3-lead-turns",
    ),
    Break(
        idea="the norm before the router keeps a part of its input's size",
        path="labkit/norms/rms_norm.py",
        old="torch.rsqrt(mean_square + eps)",
        new="torch.rsqrt(mean_square + eps).sqrt()",
        claim="E-stream-size-does-not-route",
    ),
    Break(
        idea="the derivative of a normed row keeps what points along the row",
        path="labkit/attention/jacobians.py",
        old="math.sqrt(size) / r.norm() * (eye - torch.outer(r, r) / (r @ r))",
        new="math.sqrt(size) / r.norm() * eye",
        claim="E-lemma-a2",
    ),
    Break(
        idea="what the choice of a rate leaves open counts twice",
        path="labkit/statistics/pooled.py",
        old="variance = sum(part for part, _ in parts) + self.tuned**2",
        new="variance = sum(part for part, _ in parts) + (2 * self.tuned) ** 2",
        claim="E-post-above-pre-at-12-blocks",
    ),
]
